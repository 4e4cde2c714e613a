"""Budgets that are kept: exact, charged before, closed to mistakes."""

import pickle
import re
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy.exc import OperationalError

import dpgap
from dpgap.budget.account import Request
from dpgap.budget.cost import UNIT, Cost
from dpgap.budget.ledger import Ledger, LedgerError
from dpgap.budget.store import trouble


def test_a_release_is_recorded_with_who_what_when_and_parameters(url: str) -> None:
    account = Ledger(url).create("sales", 3)
    dpgap.NoisyTopK(k=1, epsilon="1/3", monotonic=True).release([987654, 3], account=account)
    opened, reserved, settled = account.ledger.entries("sales")
    assert (opened.epsilon, reserved.epsilon, settled.epsilon) == (
        3,
        Fraction(1, 3),
        Fraction(1, 3),
    )
    assert "NoisyTopK(k=1, epsilon=1/3, monotonic=True" in reserved.purpose
    assert "Fraction" not in reserved.purpose
    assert "@" in reserved.who
    assert reserved.at.startswith("20")
    assert "987654" not in str(account.ledger.entries("sales"))


def test_the_book_does_not_say_how_long_drawing_took(url: str) -> None:
    Ledger(url).create("sales", epsilon=1).reserve(Cost.pure(Fraction(1, 2)), "slow").settle(
        Cost.pure(Fraction(1, 2))
    )
    _, reserved, settled = Ledger(url).entries("sales")
    assert settled.at == reserved.at


def test_a_release_that_the_budget_cannot_cover_is_refused_with_all_four_figures(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1, 2)), "settled").settle(Cost.pure(Fraction(1, 4)))
    account.reserve(Cost.pure(Fraction(1, 8)), "broken off")
    with pytest.raises(dpgap.BudgetExhausted) as refusal:
        dpgap.NoisyMax(epsilon=0.75).release([1, 2], account=account)
    for figure in ("total ε = 1,", "spent ε = 0.25,", "reserved ε = 0.125,", "requested ε = 0.75"):
        assert figure in str(refusal.value)
    assert len(account.ledger.entries("sales")) == 4
    account.reserve(Cost.pure(Fraction(5, 8)), "exactly what is left")
    assert account.remaining == 0


def test_an_adaptive_run_gives_back_what_it_did_not_spend(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    mechanism = dpgap.AdaptiveSparseVector(threshold=100, k=2, epsilon=1, monotonic=True)
    with mechanism.start(account=account) as run:
        assert account.reserved == 1
        run.ask(10**9)
    assert run.spent <= account.spent < run.spent + UNIT < 1
    assert account.reserved == 0


def test_a_reservation_that_is_never_settled_stays_spent(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    mechanism = dpgap.SparseVector(threshold=100, k=2, epsilon=1)
    with pytest.raises(ZeroDivisionError), mechanism.start(account=account):
        _ = 1 / 0
    assert (account.reserved, account.remaining) == (1, 0)


def test_a_tiny_charge_counts_in_full(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1) - Fraction(1, 10**30)), "nearly all")
    account.reserve(Cost.pure(Fraction(1, 10**30)), "the rest")
    with pytest.raises(dpgap.BudgetExhausted):
        account.reserve(Cost.pure(Fraction(1, 10**30)), "a little more")


def test_a_reservation_is_settled_once_and_never_above_what_was_reserved(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    reservation = account.reserve(Cost.pure(Fraction(1, 2)), "a release")
    with pytest.raises(ValueError, match=r"at most what was reserved, ε = 0\.5, not ε = 2/3"):
        reservation.settle(Cost.pure(Fraction(2, 3)))
    reservation.settle(Cost.pure(Fraction(1, 4)))
    with pytest.raises(LedgerError, match="settled once"):
        reservation.settle(Cost.pure(Fraction(0)))
    assert account.spent == Fraction(1, 4)


def test_a_budget_is_opened_once_and_must_exist_before_it_is_used(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    with pytest.raises(ValueError, match="has a budget already"):
        ledger.create("sales", 100)
    with pytest.raises(LedgerError, match="has no data set 'clinic'"):
        ledger.account("clinic")
    assert ledger.account("sales").total == 1
    assert ledger.datasets() == ["sales"]


def test_data_sets_have_books_of_their_own(url: str) -> None:
    ledger = Ledger(url)
    sales, clinic = ledger.create("sales", 1), ledger.create("clinic", 2)
    sales.reserve(Cost.pure(Fraction(1)), "everything")
    assert clinic.remaining == 2
    assert ledger.verify() == []


def test_the_file_can_be_read_by_its_owner_only(folder: Path) -> None:
    Ledger(f"sqlite:///{folder}/budget.db").create("sales", 1)
    assert stat.S_IMODE((folder / "budget.db").stat().st_mode) == 0o600


def test_asking_for_an_account_makes_no_file(folder: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(f"sqlite:///{folder}/budget.db").account("sales")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "where",
    ["ann:hunter2@localhost:1/none", "ann@:1/none?password=hunter2", "ann:hunter2@x.invalid/y"],
)
def test_a_password_is_never_shown_but_what_to_check_is(where: str) -> None:
    ledger = Ledger(f"postgresql://{where}")
    with pytest.raises(LedgerError, match="cannot be reached") as refusal:
        ledger.account("sales")
    assert "hunter2" not in str(refusal.value) + repr(ledger)


@pytest.mark.parametrize(
    "where", ["ann:ge@heim@localhost:1/none", "ann:x@ge/heim@localhost/none", "a:b@heim@/none"]
)
def test_no_part_of_a_password_with_at_signs_is_shown(where: str) -> None:
    with pytest.raises(ValueError, match="write @ in a password as %40") as refusal:
        Ledger(f"postgresql://{where}")
    assert "heim" not in str(refusal.value)
    assert "heim" not in repr(Ledger("postgresql://ann:ge%40heim@localhost/none"))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("localhost:1/none", "cannot be reached: no server answers at its host and port"),
        ("x.invalid/none", "cannot be reached: its host is not known"),
    ],
)
def test_a_server_that_is_not_there_is_told_from_an_unknown_host(where: str, words: str) -> None:
    with pytest.raises(LedgerError, match=words) as refusal:
        Ledger(f"postgresql://ann@{where}").datasets()
    assert "released" not in str(refusal.value), "nobody asked for a release"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("attempt to write a readonly database", "is read-only: this user must be allowed to"),
        ("cannot execute INSERT in a read-only transaction", "is read-only$"),
        ("unable to open database file", "cannot be opened: permission denied, or it is no file"),
        ('FATAL:  password authentication failed for user "ann"', "or the password is wrong"),
        ("fe_sendauth: no password supplied", "or the password is wrong"),
    ],
)
def test_a_trouble_with_rights_names_its_reason(said: str, words: str) -> None:
    assert re.search(words, trouble(OperationalError("SELECT", {}, Exception(said))))


def test_a_ledger_that_cannot_be_sent_to_another_process_says_how(folder: Path) -> None:
    account = Ledger(f"sqlite:///{folder}/budget.db").create("sales", 1)
    for it in (account, account.ledger):
        with pytest.raises(TypeError, match="send the address, and open the ledger there"):
            pickle.dumps(it)


def test_a_name_of_another_type_is_named_by_its_type(folder: Path) -> None:
    account = Ledger(f"sqlite:///{folder}/budget.db").create("sales", 1)
    number: Any = 5
    with pytest.raises(ValueError, match="key must be text, not int"):
        account.of(key=number)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite://budget.db",
        "sqlite://folder/budget.db",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x?mode=memory",
        "no:",
        7,
    ],
)
def test_only_lasting_ledgers_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="ledger must"):
        Ledger(url)


def test_names_that_look_the_same_are_one_budget(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("caf\u00e9", 1)
    ledger.account("cafe\u0301").reserve(Cost.pure(Fraction(1)), "all").settle(
        Cost.pure(Fraction(1))
    )
    assert ledger.account("caf\u00e9").remaining == 0


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
def test_names_of_data_sets_are_printable(name: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="dataset must be 1 to 200 printable characters"):
        Ledger(f"sqlite:///{folder}/budget.db").create(name, 1)


def _edit(url: str, statement: str) -> None:
    engine = sql.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sql.text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE dpgap_entries SET body = replace(body, '1/4', '1/5') WHERE number = 1",
        "UPDATE dpgap_entries SET body = replace(body, 'n\",\"1', 'n\",\"9') WHERE number = 0",
        "UPDATE dpgap_entries SET body = replace(body, 'who', 'why') WHERE number = 2",
        "UPDATE dpgap_entries SET body = body || ' ' WHERE number = 3",
        "UPDATE dpgap_entries SET body = '{}' WHERE number = 4",
        "UPDATE dpgap_entries SET person = 'mallory' WHERE number = 4",
        "UPDATE dpgap_entries SET kind = 'gift' WHERE number = 4",
        "UPDATE dpgap_entries SET reservation = 4 WHERE number = 0",
        "UPDATE dpgap_entries SET key = 'mine' WHERE number = 1",
        "UPDATE dpgap_entries SET hash = 'none' WHERE number = 1",
        "UPDATE dpgap_documents SET document = 'another'",
        "UPDATE dpgap_documents SET identity = 'another'",
        "UPDATE dpgap_documents SET number = 3",
        "DELETE FROM dpgap_documents",
        "DELETE FROM dpgap_entries WHERE number = 2",
        "DELETE FROM dpgap_entries WHERE number = 0",
    ],
)
def test_an_edited_entry_is_noticed(url: str, edit: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1, 4)), "a release").settle(Cost.pure(Fraction(1, 8)))
    request = Request(Cost.pure(Fraction(1, 4)), "a release", identity="a question")
    account.reserve_for(request).settle(Cost.pure(Fraction(1, 8)), "a document")
    assert account.ledger.verify("sales") == []
    _edit(url, edit)
    try:
        flaws = account.ledger.verify("sales")
    except LedgerError as error:
        flaws = [str(error)]
    assert any("edited" in flaw or "missing" in flaw for flaw in flaws)


def test_a_truncated_ledger_is_noticed_by_a_head_noted_earlier(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1, 4)), "one").settle(Cost.pure(Fraction(1, 4)))
    head = account.head
    account.reserve(Cost.pure(Fraction(1, 4)), "two").settle(Cost.pure(Fraction(1, 4)))
    assert account.ledger.verify("sales", head=head) == []
    later = account.head
    _edit(url, "DELETE FROM dpgap_entries WHERE number > 2")
    assert account.ledger.verify("sales") == []
    assert account.ledger.verify("sales", head=head) == []
    assert "truncated" in account.ledger.verify("sales", head=later)[0]
    assert "truncated" in account.ledger.verify(head=later)[0]
    assert account.ledger.verify(head=head) == []


def test_heads_of_all_books_can_be_stated_for_one(url: str) -> None:
    ledger = Ledger(url)
    for name in ("sales", "visits"):
        ledger.create(name, 1)
    heads = [last.hash for last in ledger.heads()]
    assert ledger.verify("sales", head=heads) == []
    unknown = "0" * 64
    assert unknown in ledger.verify("sales", head=[*heads, unknown])[0]


def test_an_edited_last_entry_stops_all_spending(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1)), "everything")
    _edit(url, 'UPDATE dpgap_entries SET body = replace(body, \'"held":["1"\', \'"held":["0"\')')
    with pytest.raises(LedgerError, match="was edited"):
        account.reserve(Cost.pure(Fraction(1)), "everything again")


def test_a_reservation_does_not_survive_a_restored_copy(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    reservation = account.reserve(Cost.pure(Fraction(1)), "everything")
    _edit(url, "DELETE FROM dpgap_entries WHERE number = 1")
    with pytest.raises(LedgerError, match="was rewritten"):
        reservation.settle(Cost.pure(Fraction(0)))
