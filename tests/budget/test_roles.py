"""PostgreSQL: a role that may reserve and settle, and has no right to the tables."""

import json
import uuid
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from dpgap.budget.account import BudgetExhausted, RefusedRequest, Request
from dpgap.budget.entries import canonical, hash_of
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from dpgap.budget.roles import spender_statements

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
ASKED = Request(QUARTER, "top 10 of url by user_id", identity="a question", key="one")


@pytest.fixture
def owner(postgres: Any) -> Ledger:
    """A ledger of the server's owner, with a budget that states its table."""
    name = f"roles_{uuid.uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name};")
    ledger = Ledger(postgres.get_uri(database=name))
    ledger.create("sales", 1, delta="1e-6", unit="user_id")
    ledger.account("sales").reserve(Fraction(1, 8), "the owner's own")
    return ledger


@pytest.fixture
def spender(owner: Ledger, postgres: Any) -> Iterator[LedgerAccount]:
    """The account, as a person uses it who has the role; and another person beside."""
    names = [f"spender_{uuid.uuid4().hex}" for _ in range(2)]
    with psycopg.connect(_url(owner)) as connection:
        for name in names:
            connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(spender_statements(names))
        connection.execute(spender_statements(names))  # it can be run again
    yield _as(owner, names[0])
    with psycopg.connect(_url(owner)) as connection:
        for name in names:
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def _url(ledger: Ledger, user: str | None = None) -> str:
    url = ledger._store.engine.url.set(drivername="postgresql")
    return (url if user is None else url.set(username=user)).render_as_string(hide_password=False)


def _as(ledger: Ledger, user: str) -> LedgerAccount:
    return Ledger(_url(ledger, user)).account("sales")


def test_who_has_the_role_reserves_settles_and_finds_again_what_was_paid_for(
    owner: Ledger, spender: LedgerAccount
) -> None:
    spender.reserve_for(ASKED).settle(Fraction(1, 8), "a document")
    spender.reserve_for(Request(QUARTER, "top 1", delta=Fraction(1, 10**7))).settle(QUARTER)
    assert spender.paid("a question") == "a document"
    answered = spender.answered("one")
    assert answered is not None
    assert answered.document == "a document"
    assert spender.remaining == HALF
    person = spender.ledger._store.user
    assert [entry.person for entry in owner.entries("sales")][2:] == [person] * 4
    assert owner.verify() == []


def test_refusals_are_the_same_as_without_the_role(owner: Ledger, spender: LedgerAccount) -> None:
    with pytest.raises(BudgetExhausted, match="cannot cover"):
        spender.reserve(Fraction(1), "too much")
    with pytest.raises(RefusedRequest, match="is for the unit"):
        spender.reserve_for(Request(QUARTER, "top 1", facts={"unit": "row"}))
    owner.steward("sales").allow(str(spender.ledger._store.user), QUARTER)
    spender.reserve(QUARTER, "all of it")
    with pytest.raises(BudgetExhausted, match=r"may spend ε = 0\.25"):
        spender.reserve(QUARTER, "more")
    owner.steward("sales").close(reason="done")
    with pytest.raises(BudgetExhausted, match="is closed"):
        spender.reserve(Fraction(1, 100), "more")


def test_a_person_sees_no_other_persons_entries_and_documents(
    owner: Ledger, spender: LedgerAccount, postgres: Any
) -> None:
    spender.reserve_for(ASKED).settle(QUARTER, "a document")
    with psycopg.connect(_url(owner)) as connection:
        members = "SELECT member::regrole::text FROM pg_auth_members WHERE roleid = 'dpgap_spender'"
        rows = connection.execute(members + "::regrole").fetchall()
    (other,) = {name for (name,) in rows} - {spender.ledger._store.user}
    beside = _as(owner, other)
    assert beside.paid("a question") is None
    beside.reserve(Fraction(1, 8), "another")
    assert [entry.purpose for entry in beside.ledger.entries("sales")] == ["", "another"]


STATEMENTS = [
    "SELECT * FROM public.dpgap_entries",
    "SELECT * FROM public.dpgap_documents",
    "INSERT INTO public.dpgap_layout VALUES (3)",
    "UPDATE public.dpgap_entries SET body = ''",
    "DELETE FROM public.dpgap_entries",
    "DROP TABLE public.dpgap_entries",
    "UPDATE dpgap_entries SET body = ''",
    "DELETE FROM dpgap_entries",
    "DELETE FROM dpgap_documents",
    "INSERT INTO dpgap_layout VALUES (3)",
    "CREATE TABLE dpgap_spender.mine (number int)",
    "CREATE FUNCTION dpgap_spender.mine() RETURNS int LANGUAGE sql AS 'SELECT 0'",
    "SELECT dpgap_spender.units('1')",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_who_has_the_role_touches_no_table(spender: LedgerAccount, statement: str) -> None:
    url = _url(spender.ledger)
    with (
        psycopg.connect(url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


ACTS: dict[str, Callable[[Ledger], object]] = {
    "create": lambda it: it.create("clinic", 1),
    "raise": lambda it: it.steward("sales").raise_to(9, reason="more"),
    "allow": lambda it: it.steward("sales").allow("me", 1),
    "write off": lambda it: it.steward("sales").write_off(2, reason="gone"),
    "in another's name": lambda it: it.account("sales").of("bob").reserve(QUARTER, "top 1"),
}


@pytest.mark.parametrize("act", ACTS)
def test_who_has_the_role_does_nothing_that_a_steward_does(
    owner: Ledger, spender: LedgerAccount, act: str
) -> None:
    spender.reserve(QUARTER, "a reservation")
    before = owner.entries("sales")
    with pytest.raises(LedgerError, match="lets you reserve and settle in your own name, and do n"):
        ACTS[act](spender.ledger)
    assert owner.entries("sales") == before
    assert owner.datasets() == ["sales"]


LIES: dict[str, dict[str, Any]] = {
    "a larger total": {"granted": ["9", "1/1000000"]},
    "a smaller sum": {"held": ["1/8", "0"]},
    "less spent": {"used": ["-1", "0"]},
    "less of one's own": {"own": ["0", "0"]},
    "a negative charge": {"charge": ["-1/4", "0"], "held": ["-1/8", "0"], "own": ["-1/4", "0"]},
    "more than is left": {"charge": ["2", "0"], "held": ["17/8", "0"], "own": ["2", "0"]},
    "an allowance": {"allowance": ["9", "0"]},
    "another table": {"bound": 1},
    "another kind": {"kind": "raise"},
    "another person": {"person": "postgres"},
    "another place": {"number": 7},
    "another chain": {"previous": "0" * 64},
    "no number": {"charge": ["NaN", "0"]},
    "a division by zero": {"charge": ["1/0", "0"]},
    "a late closing": {"closed": True},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_entry_that_lies_is_refused_by_the_server_though_it_is_sealed(
    owner: Ledger, spender: LedgerAccount, lie: str
) -> None:
    """What a person with the role could send without dpgap."""
    before = owner.entries("sales")

    def send(**changes: Any) -> None:
        said = json.loads(honest) | changes
        copies = [said[name] for name in ("dataset", "number", "version", "kind", "person")]
        copies += [said["about"], said["key"]]
        body = canonical(said)
        with psycopg.connect(_url(spender.ledger)) as connection:
            statement = "INSERT INTO dpgap_entries VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
            connection.execute(statement, [*copies, body, hash_of(body)])

    reservation = spender.reserve(QUARTER, "top 1")
    honest = reservation.entry.body()
    with psycopg.connect(_url(owner)) as connection:
        connection.execute(f"DELETE FROM dpgap_entries WHERE number = {reservation.entry.number}")
    with pytest.raises(psycopg.errors.RaiseException):
        send(**LIES[lie])
    assert owner.entries("sales") == before
    send()
    assert owner.entries("sales")[-1] == reservation.entry
    assert owner.verify() == []


def test_the_server_refuses_a_document_that_was_not_settled(
    owner: Ledger, spender: LedgerAccount
) -> None:
    spender.reserve_for(ASKED).settle(QUARTER)
    with (
        psycopg.connect(_url(spender.ledger)) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="not the one that was settled"),
    ):
        connection.execute("INSERT INTO dpgap_documents VALUES ('sales', 3, 'a question', 'lie')")


def test_a_program_that_asks_for_many_needs_no_right_to_edit(owner: Ledger) -> None:
    name = f"desk_{uuid.uuid4().hex}"
    tables = "dpgap_entries, dpgap_documents, dpgap_layout"
    with psycopg.connect(_url(owner)) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN; GRANT SELECT, INSERT ON {tables} TO {name}")
    desk = _as(owner, name)
    desk.of("ann", key="one").reserve_for(ASKED).settle(QUARTER, "a document")
    assert owner.entries("sales")[-1].person == "ann"
    for statement in ("UPDATE dpgap_entries SET body = ''", "DELETE FROM dpgap_documents"):
        with (
            psycopg.connect(_url(desk.ledger)) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)
    with psycopg.connect(_url(owner)) as connection:
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    assert owner.verify() == []
