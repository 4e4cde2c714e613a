"""What is written lasts: stored ledgers of every layout open, verify, go on and can be migrated."""

import hashlib
import json
import signal
from collections.abc import Callable
from fractions import Fraction

import pytest
import spenders
import sqlalchemy as sql

from dpgap.budget.account import BudgetExhausted, Request
from dpgap.budget.entries import MIGRATE
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError, OldLayoutWarning
from dpgap.budget.store import Store

Stored = Callable[[int], str]
LEFT = {"sales": Fraction(710469473987888426765750091794989482989, 446185740 * 10**30)}
LEFT |= {"clinic é": Fraction(0), "empty": Fraction(1, 7)}
LAYOUTS = [1, 2]


def _heads(ledger: Ledger) -> dict[str, str]:
    return {name: ledger.entries(name)[-1].hash for name in ledger.datasets()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stored_ledger_opens_and_verifies(stored: Stored, layout: int) -> None:
    ledger = Ledger(stored(layout))
    assert set(LEFT) <= set(ledger.datasets())
    assert ledger.verify() == []
    for name, left in LEFT.items():
        assert ledger.entries(name)[-1].remaining == left
    purposes = [entry.purpose for entry in ledger.entries("sales")]
    assert purposes[1].startswith("NoisyTopK(k=2")
    assert purposes[5] == "broken off"


def test_a_ledger_of_the_first_layout_goes_on_as_it_is_and_says_what_it_lacks(
    stored: Stored,
) -> None:
    ledger = Ledger(stored(1))
    heads = _heads(ledger)
    with pytest.warns(OldLayoutWarning, match=r"charged as before, but not archived.* migrate"):
        account = ledger.account("sales")
    request = Request(Fraction(1, 2), "top 1 of url", identity="a question")
    account.reserve_for(request).settle(Fraction(1, 4), "a document")
    assert account.remaining == LEFT["sales"] - Fraction(1, 4)
    assert account.paid("a question") is None
    assert {entry.version for entry in ledger.entries("sales")} == {1}
    assert ledger.verify("sales", head=heads["sales"]) == []
    ledger.create("another", 1)
    assert ledger.entries("another")[0].version == 1


def test_a_stored_ledger_of_the_second_layout_still_means_what_it_meant(stored: Stored) -> None:
    ledger = Ledger(stored(2))
    sales = ledger.account("sales")
    assert [entry.kind for entry in ledger.entries("sales")] == [
        *("create", "reserve", "settle", "reserve", "settle", "reserve"),
        *("raise", "lower", "allow", "bind"),
    ]
    assert [entry.kind for entry in ledger.entries("closed")][2:] == ["write-off", "close"]
    assert sales.paid("0" * 64) == sales.document(1) == '{"a document": "é"}'
    answered = sales.answered("request-1")
    assert answered is not None
    assert (answered.state, answered.entry) == ("settled", 1)
    assert sales.balance.left.delta == Fraction(9, 10**7)
    assert sales.facts is not None
    assert (sales.facts["table"], sales.facts["unit"]) == ("sales.csv", "customer")
    with pytest.raises(BudgetExhausted, match="'bob' may spend ε = 1 of data set 'sales'"):
        sales.of("bob").reserve(Fraction(3, 4), "top 1")
    sales.of("bob").reserve(Fraction(2, 3), "top 1").settle(Fraction(1, 3), "{}")
    assert ledger.verify() == []


REFUSED: dict[str, Callable[[Ledger, LedgerAccount], object]] = {
    "a request key": lambda _, it: it.reserve_for(Request(Fraction(1, 9), "top 1", key="k")),
    "a δ": lambda _, it: it.reserve_for(Request(Fraction(1, 9), "top 1", delta=Fraction(1, 9))),
    "a table": lambda ledger, _: ledger.create("new", 1, table="sales"),
    "a total δ": lambda ledger, _: ledger.create("new", 1, delta="1e-6"),
    "a steward": lambda ledger, _: ledger.steward("sales").close(reason="done"),
    "a write-off": lambda ledger, _: ledger.steward("sales").write_off(5, reason="dead"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_first_layout_cannot_hold_is_refused_with_the_way_out(
    stored: Stored, what: str
) -> None:
    ledger = Ledger(stored(1))
    heads = _heads(ledger)
    with pytest.raises(LedgerError, match=r"has the first layout, .* `dpgap ledger migrate`"):
        REFUSED[what](ledger, LedgerAccount(ledger, "sales"))
    assert _heads(ledger) == heads


def test_a_migrated_ledger_keeps_every_entry_and_every_head_and_goes_on(stored: Stored) -> None:
    url = stored(1)
    ledger = Ledger(url)
    before = {name: ledger.entries(name) for name in ledger.datasets()}
    assert ledger.migrate() == sorted(LEFT)
    for name, book in before.items():
        assert ledger.entries(name)[:-1] == book
        assert ledger.entries(name)[-1].kind == MIGRATE
        assert ledger.entries(name)[-1].previous == book[-1].hash
        assert ledger.verify(name, head=book[-1].hash) == []
    account = Ledger(url).account("sales")
    account.reserve_for(Request(Fraction(1, 2), "top 1", identity="q", key="k")).settle(
        Fraction(1, 4), "a document"
    )
    assert account.remaining == LEFT["sales"] - Fraction(1, 4)
    assert account.paid("q") == "a document"
    assert ledger.verify(head=before["sales"][-1].hash) == []
    assert ledger.migrate() == []
    ledger.steward("sales").write_off(5, reason="broken off before the migration")
    assert account.reserved == 0
    assert ledger.verify() == []


def test_an_account_opened_before_the_migration_goes_on_after_it(stored: Stored) -> None:
    url = stored(1)
    ledger = Ledger(url)
    account = LedgerAccount(ledger, "sales")
    reservation = account.reserve(Fraction(1, 2), "top 1 of url")
    Ledger(url).migrate()
    reservation.settle(Fraction(1, 4), "a document")
    account.reserve(Fraction(1, 4), "top 1 of url").settle(Fraction(1, 4))
    assert account.remaining == LEFT["sales"] - Fraction(1, 2)
    assert len(account.archive()) == 1
    assert ledger.verify() == []


def test_a_flawed_ledger_is_not_migrated(stored: Stored) -> None:
    ledger = Ledger(stored(1))
    with ledger._store.engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_entries SET who = 'eve' WHERE number = 2"))
    with pytest.raises(LedgerError, match=r"entry 2 was edited.* A flawed book is not migrated"):
        ledger.migrate()
    assert {entry.version for entry in ledger.entries("sales")} == {1}


STATEMENTS = 40
"""More than a migration has."""


def test_a_kill_in_the_middle_of_the_migration_leaves_one_or_the_other(stored: Stored) -> None:
    url = stored(1)
    heads = _heads(Ledger(url))
    outcomes = []
    for place in range(STATEMENTS):
        migrating = spenders.fresh_processes().Process(
            target=spenders.migrate_and_die, args=(url, place)
        )
        migrating.start()
        migrating.join()
        outcomes.append(migrating.exitcode)
        ledger = Ledger(url)
        assert ledger.verify() == []
        versions = {ledger.entries(name)[-1].version for name in heads}
        assert versions == ({2} if migrating.exitcode == 0 else {1})
        if migrating.exitcode == 0:
            break
        assert _heads(ledger) == heads
    assert outcomes[-1] == 0
    assert len(outcomes) > 8
    assert set(outcomes[:-1]) == {-signal.SIGKILL}
    assert all(Ledger(url).verify(head=head) == [] for head in heads.values())


def test_a_ledger_of_a_later_layout_is_refused_in_plain_words(url: str) -> None:
    Ledger(url).create("sales", 1)
    with Store(url).engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_layout SET layout = 3"))
    for use in (
        lambda: Ledger(url).account("sales"),
        lambda: Ledger(url).create("clinic", 1),
        lambda: Ledger(url).datasets(),
        lambda: Ledger(url).verify(),
        lambda: Ledger(url).migrate(),
        lambda: LedgerAccount(Ledger(url), "sales").reserve(Fraction(1), "top 1"),
    ):
        with pytest.raises(LedgerError, match=r"has layout 3, which a later dpgap made.*update"):
            use()


def test_an_entry_of_a_later_version_stops_a_ledger_that_was_open_before(url: str) -> None:
    """Whoever migrates to a later layout ends every book with an entry of a later version."""
    account = Ledger(url).create("sales", 1)
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_entries SET version = 3"))
    with pytest.raises(LedgerError, match="made by a later dpgap, as version 3: update dpgap"):
        account.reserve(Fraction(1), "top 1")


def test_an_older_dpgap_cannot_use_a_migrated_ledger_nor_open_another_beside_it(url: str) -> None:
    """It asks for columns of the first layout, in a table that has none of them."""
    Ledger(url).create("sales", 1)
    with (
        Store(url).engine.begin() as connection,
        pytest.raises(sql.exc.DBAPIError, match="total"),
    ):
        connection.execute(sql.text("SELECT dataset, number, total, spent FROM dpgap_entries"))


def test_the_hash_of_every_entry_is_that_of_its_body(stored: Stored) -> None:
    """Any program can check the chain: nothing but SHA-256 of the text that is stored."""
    ledger = Ledger(stored(1))
    ledger.migrate()
    with ledger._store.engine.begin() as connection:
        rows = connection.execute(sql.text("SELECT body, hash, version FROM dpgap_entries")).all()
    assert {row.version for row in rows} == {1, 2}
    for row in rows:
        assert hashlib.sha256(row.body.encode()).hexdigest() == row.hash
        assert json.loads(row.body)
