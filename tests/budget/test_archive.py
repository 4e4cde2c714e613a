"""What was paid for is kept, and the same request is charged once."""

import json
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sql
from spenders import StandIn, release

import dpgap
from dpgap.budget.account import (
    AlreadyCharged,
    Archive,
    KeyUsed,
    RefusedRequest,
    Request,
    UnsettledWarning,
    pay,
)
from dpgap.budget.cost import NOTHING, Cost
from dpgap.budget.entries import Entry
from dpgap.budget.ledger import Ledger, LedgerAccount
from seams import SpyAccount

HALF = Fraction(1, 2)
ASKED = Request(Cost.pure(HALF), "top 10 of url by user_id", identity="a question")


@pytest.fixture
def account(url: str) -> LedgerAccount:
    return Ledger(url).create("sales", 10)


def test_a_ledgers_account_is_an_archive_and_a_plain_account_is_none(
    account: LedgerAccount,
) -> None:
    assert isinstance(account, Archive)
    assert not isinstance(SpyAccount(), Archive)


def test_a_release_is_in_the_archive_before_it_is_handed_out(account: LedgerAccount) -> None:
    class Watched(StandIn):
        def _paid_by(self, reference: object) -> "Watched":
            time = account.ledger.entries("sales")[1].at[:19] + "Z"
            stands = {"dataset": "sales", "entry": 1, "hash": account.head, "time": time}
            assert reference == stands
            assert account.paid("a question") is None
            return self

    pay(account.of(key="one"), ASKED, lambda: Watched("a document"))
    assert account.paid("a question") == "a document"
    assert account.reserved == 0
    assert account.ledger.verify() == []


def test_the_newest_document_of_a_question_is_the_one_that_is_shown(account: LedgerAccount) -> None:
    for text in ("first", "second"):
        account.reserve_for(Request(Cost.pure(HALF), "top 1", identity="q")).settle(
            Cost.pure(HALF), text
        )
    account.reserve_for(Request(Cost.pure(HALF), "top 2", identity="other")).settle(
        Cost.pure(HALF), "third"
    )
    assert account.paid("q") == "second"
    assert account.paid("never asked") is None
    assert [entry.number for entry in account.archive()] == [2, 4, 6]
    assert [account.document(number) for number in (1, 2, 3, 4)] == [
        *("first", "first", "second", "second")
    ]
    with pytest.raises(ValueError, match="entry 0 of data set 'sales' has no document"):
        account.document(0)


def test_what_a_request_has_to_say_besides_is_kept_with_its_charge(account: LedgerAccount) -> None:
    said = {"desk": "a1", "question": {"k": "3"}, "identity": "not this one"}
    request = Request(Cost.pure(HALF), "top 1", identity="q", extra=said)
    account.reserve_for(request).settle(Cost.pure(HALF), "a document")
    reserved, settled = account.ledger.entries("sales")[1:]
    assert reserved.extra == said | {"identity": "q"}
    assert (settled.extra["length"], settled.archived) == (10, 10)
    account.reserve(Cost.pure(HALF), "no document").settle(Cost.pure(HALF))
    assert account.balance.archived == 10
    assert account.ledger.verify() == []


def test_another_data_sets_archive_is_not_looked_into(account: LedgerAccount) -> None:
    clinic = account.ledger.create("clinic", 1)
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    assert clinic.paid("a question") is None
    assert clinic.answered("one") is None


def test_a_request_sent_again_is_told_that_it_is_under_way_and_then_what_it_led_to(
    account: LedgerAccount,
) -> None:
    assert account.answered("one") is None
    reservation = account.of(key="one").reserve_for(ASKED)
    with pytest.raises(AlreadyCharged, match="'one' was charged before, as entry 1, and is under"):
        account.of(key="one").reserve_for(ASKED)
    reservation.settle(Cost.pure(HALF), "a document")
    with pytest.raises(AlreadyCharged) as again:
        account.of(key="one").reserve_for(ASKED)
    assert again.value.answered == account.answered("one")
    assert again.value.answered.document == "a document"
    assert again.value.answered.state == "settled"
    assert pickle.loads(pickle.dumps(again.value)).answered == again.value.answered
    assert account.spent == HALF
    assert len(account.ledger.entries("sales")) == 3


def test_a_key_that_was_used_for_another_request_is_refused(account: LedgerAccount) -> None:
    account.of(key="one").reserve_for(ASKED)
    for other in (
        Request(Cost.pure(HALF), "top 11 of url by user_id", identity="a question"),
        Request(Cost.pure(HALF), "top 10 of url by user_id", identity="another"),
        Request(Cost.pure(Fraction(1)), "top 10 of url by user_id", identity="a question"),
    ):
        with pytest.raises(RefusedRequest, match="'one' was used for another request"):
            account.of(key="one").reserve_for(other)
    assert account.reserved == HALF


def test_a_key_may_come_with_the_account(account: LedgerAccount) -> None:
    keyed = account.of("ann", reason="the report", key="one")
    dpgap.NoisyMax(epsilon=1).release([9, 1], account=keyed)
    with pytest.raises(AlreadyCharged):
        dpgap.NoisyMax(epsilon=1).release([9, 1], account=keyed)
    entry = account.ledger.entries("sales")[1]
    assert (entry.person, entry.reason, entry.key) == ("ann", "the report", "one")
    assert account.spent == 1


def test_a_request_that_was_written_off_says_so(account: LedgerAccount) -> None:
    account.of(key="one").reserve_for(ASKED)
    account.ledger.steward("sales").write_off(1, reason="the machine died")
    answered = account.answered("one")
    assert answered is not None
    assert (answered.state, answered.document) == ("written off", None)


def test_a_document_that_cannot_be_written_leaves_the_charge_and_the_release(
    account: LedgerAccount,
) -> None:
    class Broken(StandIn):
        def _to_archive(self) -> str:
            raise ZeroDivisionError

    release = Broken("")
    with pytest.warns(UnsettledWarning, match="stays charged"):
        assert pay(account.of(key="one"), ASKED, lambda: release) is release
    assert (account.reserved, account.spent) == (HALF, 0)


def test_a_settlement_and_its_document_are_written_together_or_not_at_all(
    account: LedgerAccount,
) -> None:
    in_the_way = "INSERT INTO dpgap_documents (dataset, number, document) VALUES ('sales', 2, '')"
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text(in_the_way))
    with pytest.warns(UnsettledWarning):
        release(account.of(key="one"), ASKED, HALF)
    assert [entry.kind for entry in account.ledger.entries("sales")] == ["create", "reserve"]


def test_a_document_that_was_edited_is_not_shown_as_paid(account: LedgerAccount) -> None:
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_documents SET document = 'another'"))
    for show in (
        lambda: account.paid("a question"),
        lambda: account.document(1),
        lambda: account.answered("one"),
    ):
        with pytest.raises(dpgap.LedgerError, match=r"does not agree with|was edited: see"):
            show()


def _release(entry: Entry, **changes: Any) -> str:
    """What a release paid by this reservation says of itself, and lies."""
    said: dict[str, Any] = {
        "format": "dpgap release",
        "epsilon": "1/2",
        "cost": {"epsilon": "1/4", "rho": "1/32"},
        "promise": {"cost": {"epsilon": "1/2", "rho": "1/8"}},
        "delta": "0",
        "question": {"identity": "a question"},
        "made": {"ledger": {"dataset": "sales", "entry": entry.number, "hash": entry.hash}},
    }
    return json.dumps(said | changes)


LIES: dict[str, Callable[[Entry], dict[str, Any]]] = {
    "another question": lambda _: {"question": {"identity": "another"}},
    "no question": lambda _: {"question": {}},
    "another ε": lambda _: {"promise": {"cost": {"epsilon": "1/4", "rho": "1/8"}}},
    "another ρ": lambda _: {"promise": {"cost": {"epsilon": "1/2", "rho": "1/9"}}},
    "less ρ spent": lambda _: {"cost": {"epsilon": "1/4", "rho": "0"}},
    "more spent": lambda _: {"cost": {"epsilon": "1/3", "rho": "1/32"}},
    "no number": lambda _: {"cost": {"epsilon": "1/0", "rho": "1/32"}},
    "a δ": lambda _: {"cost": {"epsilon": "1/4", "rho": "1/32", "delta": "1/10"}},
    "nobody paid": lambda _: {"made": {}},
    "another entry": lambda it: {
        "made": {"ledger": {"dataset": "sales", "entry": 7, "hash": it.hash}}
    },
    "another hash": lambda it: {
        "made": {"ledger": {"dataset": "sales", "entry": it.number, "hash": "0" * 64}}
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_a_document_that_contradicts_the_entry_that_paid_for_it_is_not_shown(
    account: LedgerAccount, lie: str
) -> None:
    """Its hash is that of the settlement: whoever can write to the database can settle anything."""
    honest = account.of(key="two").reserve_for(ASKED)
    honest.settle(Cost.pure(Fraction(1, 4)), _release(honest.entry))
    assert account.paid("a question") == _release(honest.entry)
    forged = account.of(key="one").reserve_for(ASKED)
    forged.settle(Cost.pure(Fraction(1, 4)), _release(forged.entry, **LIES[lie](forged.entry)))
    for show in (
        lambda: account.paid("a question"),
        lambda: account.document(3),
        lambda: account.answered("one"),
        lambda: account.of(key="one").reserve_for(ASKED),
    ):
        with pytest.raises(dpgap.LedgerError, match="document of entry 4 does not agree with"):
            show()
    assert account.ledger.verify() == [
        "sales: the document of entry 4 was edited, or contradicts it"
    ]


@pytest.mark.parametrize("number", [1, 2])
def test_a_document_of_an_entry_that_was_edited_is_not_shown(
    account: LedgerAccount, number: int
) -> None:
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    with account.ledger._store.engine.begin() as connection:
        edit = f"UPDATE dpgap_entries SET hash = 'f00d' WHERE number = {number}"
        connection.execute(sql.text(edit))
    with pytest.raises(dpgap.LedgerError, match=r"does not agree with|was edited: see"):
        account.paid("a question")


def test_documents_without_entries_are_told_wherever_they_are(account: LedgerAccount) -> None:
    ledger = account.ledger
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    statement = "INSERT INTO dpgap_documents (dataset, number, document) VALUES (:name, :at, '{}')"
    with ledger._store.engine.begin() as connection:
        for name, at in (("sales", 7), ("gone", 2)):
            connection.execute(sql.text(statement), {"name": name, "at": at})
        connection.execute(sql.text("UPDATE dpgap_entries SET kind = 'gift' WHERE number = 1"))
    orphans = [
        f"{name} is missing, though its document is there"
        for name in ("gone: entry 2", "sales: entry 7")
    ]
    edited = "sales: entry 1 was edited: its columns do not say what its body says"
    assert ledger.verify() == [edited, *orphans]
    assert ledger.verify("gone") == ["gone: there are no entries", orphans[0]]
    assert ledger.verify("sales") == [edited, orphans[1]]


def test_a_document_that_was_made_bytes_is_told_like_any_other_edit(tmp_path: Path) -> None:
    account = Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 1)
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    with account.ledger._store.engine.begin() as connection:
        bytes_of_it = "UPDATE dpgap_documents SET document = CAST(document AS BLOB)"
        connection.execute(sql.text(bytes_of_it))
    assert account.ledger.verify() == [
        "sales: the document of entry 2 was edited, or contradicts it"
    ]


def test_a_document_that_was_put_to_another_question_is_not_shown_as_its_answer(
    account: LedgerAccount,
) -> None:
    account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_documents SET identity = 'another question'"))
    with pytest.raises(dpgap.LedgerError, match=r"does not agree with|was edited: see"):
        account.paid("another question")


def test_a_release_that_is_settled_during_a_check_is_no_flaw(
    account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Ledger.entries

    def settle_then(ledger: Ledger, dataset: str) -> Any:
        book = read(ledger, dataset)
        account.of(key="one").reserve_for(ASKED).settle(Cost.pure(HALF), "a document")
        return book

    monkeypatch.setattr(Ledger, "entries", settle_then)
    assert account.ledger.verify() == []


def test_an_empty_key_is_refused_rather_than_left_out(account: LedgerAccount) -> None:
    with pytest.raises(ValueError, match="key must be 1 to 200 printable characters"):
        account.of(key="")


@pytest.mark.parametrize(("wrong", "error"), [(NOTHING, ValueError), (HALF, TypeError)])
def test_a_charge_of_nothing_and_a_bare_number_are_refused(
    account: LedgerAccount, wrong: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="cost must be"):
        account.reserve_for(Request(wrong, "top 1"))
    assert len(account.ledger.entries("sales")) == 1


def test_what_an_account_was_told_before_stays_told(account: LedgerAccount) -> None:
    account.of("ann").of(reason="the report").of(key="one").reserve(Cost.pure(HALF), "top 1")
    entry = account.ledger.entries("sales")[1]
    assert (entry.person, entry.reason, entry.key) == ("ann", "the report", "one")


def test_an_account_that_is_no_archive_is_told_two_things_as_before() -> None:
    spy = SpyAccount()

    class Unpaid(StandIn):
        def _paid_by(self, _: object) -> NoReturn:
            raise AssertionError

    pay(spy, ASKED, lambda: Unpaid("a document"))
    assert spy.diary == [("reserve", HALF, "top 10 of url by user_id"), ("settle", HALF)]


def test_a_delta_is_charged_and_covered_like_an_epsilon(url: str) -> None:
    account = Ledger(url).create("sales", 1, delta="1e-6")
    tiny = Fraction(1, 10**6)
    account.reserve_for(Request(Cost.pure(HALF, tiny), "top 1")).settle(
        Cost.pure(Fraction(1, 4), tiny)
    )
    assert account.balance.left.delta == 0
    with pytest.raises(
        dpgap.BudgetExhausted, match=r"δ = 10⁻⁶, spent .*δ = 10⁻⁶, .* requested .*δ = 10⁻⁹"
    ):
        account.reserve_for(Request(Cost.pure(HALF, tiny / 1000), "top 1"))
    account.reserve(Cost.pure(HALF), "a pure one")
    assert account.ledger.verify() == []


def test_a_request_whose_process_may_be_dead_is_not_said_to_run(account: LedgerAccount) -> None:
    account.of("ann", key="one").reserve_for(Request(Cost.pure(HALF), "top 1"))
    words = "as entry 1, and is under way, or was interrupted: it is never charged again"
    with pytest.raises(AlreadyCharged, match=words):
        account.of("ann", key="one").reserve_for(Request(Cost.pure(HALF), "top 1"))


def test_a_question_that_somebody_else_asks_just_now_can_be_joined(account: LedgerAccount) -> None:
    asked = Request(Cost.pure(HALF), "top 1", identity="f00d")
    reservation = account.of("ann", key="one").reserve_for(asked)
    joining = account.of("bob", key="two", joins=True)
    with pytest.raises(
        AlreadyCharged, match="entry 1 asks the same question and is under way"
    ) as before:
        joining.reserve_for(asked)
    assert (before.value.answered.entry, before.value.answered.document) == (1, None)
    reservation.settle(Cost.pure(HALF), "a document")
    with pytest.raises(AlreadyCharged) as before:
        joining.reserve_for(asked)
    assert before.value.answered.document == "a document"
    other = Request(Cost.pure(HALF), "top 1", identity="beef")
    with pytest.raises(KeyUsed, match="used for another request, 'top 1'"):
        joining.reserve_for(other)
    assert account.of("bob", key="three", joins=True).reserve_for(other).entry.number == 4
    assert account.of("bob", key="four").reserve_for(asked).entry.number == 5
    assert [entry.kind for entry in account.ledger.entries("sales")] == [
        "create",
        "reserve",
        "again",
        "settle",
        "reserve",
        "reserve",
    ]
    assert account.ledger.verify() == []


def test_what_broke_off_is_joined_by_nobody(
    account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, joining = Request(Cost.pure(HALF), "top 1", identity="f00d"), account.of(joins=True)
    joining.reserve_for(asked)
    account.ledger.steward("sales").write_off(1, reason="the machine died")
    assert joining.reserve_for(asked).entry.number == 3
    monkeypatch.setattr("dpgap.budget.requests._LATELY", timedelta(0))
    assert joining.reserve_for(asked).entry.number == 4


def test_a_clock_that_is_ahead_blocks_a_question_for_nobody(
    account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, joining = Request(Cost.pure(HALF), "top 1", identity="f00d"), account.of(joins=True)
    joining.reserve_for(asked)
    monkeypatch.setattr("dpgap.budget.requests.datetime", _AnHourBack)
    assert joining.reserve_for(asked).entry.number == 2


class _AnHourBack:
    @staticmethod
    def now(zone: Any) -> datetime:
        return datetime.now(zone) - timedelta(hours=1)


def test_a_long_book_is_read_in_parts(account: LedgerAccount) -> None:
    for number in range(5):
        reservation = account.reserve(Cost.pure(HALF), f"number {number}")
        if number != 3:
            reservation.settle(Cost.pure(HALF))
    seen, before = [], None
    while part := account.requests(2, before):
        seen += [(entry.purpose, ended is not None) for entry, ended in reversed(part)]
        before = part[0][0].number
    assert seen == [(f"number {number}", number != 3) for number in (4, 3, 2, 1, 0)]
    book = account.ledger.entries("sales")
    assert account.ledger.entries("sales", last=3, before=6) == book[3:6]
    assert account.ledger.entries("sales", before=1 << 40) == book
