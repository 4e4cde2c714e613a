"""What is written lasts: stored ledgers of every layout open, verify and can be migrated."""

import hashlib
import json
import signal
from collections.abc import Callable
from fractions import Fraction

import polars
import pytest
import spenders
import sqlalchemy as sql

import dpgap
from dpgap.budget.account import AlreadyCharged, BudgetExhausted, Request
from dpgap.budget.entries import MIGRATE
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError, LedgerReservation
from dpgap.budget.store import Store
from seams import FailingBits, bits_are

Stored = Callable[[int | str], str]
LEFT = {"sales": Fraction(710469473987888426765750091794989482989, 446185740 * 10**30)}
LEFT |= {"clinic é": Fraction(0), "empty": Fraction(1, 7)}
LAYOUTS = [1, 2]
RELEASED = "2-released"
"""A ledger of the second layout with releases and their documents."""


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
    assert sales.requests(2)[0][1] == ledger.entries("sales")[4]
    assert [entry.number for entry in sales.archive()] == [2]
    assert sales.facts is not None
    assert (sales.facts["table"], sales.facts["unit"]) == ("sales.csv", "customer")
    ledger.migrate()
    with pytest.raises(BudgetExhausted, match="'bob' may spend ε = 1 of data set 'sales'"):
        sales.of("bob").reserve(Fraction(3, 4), "top 1")
    sales.of("bob").reserve(Fraction(2, 3), "top 1").settle(Fraction(1, 3), "{}")
    assert ledger.verify() == []


def test_releases_of_the_second_layout_are_shown_before_and_after_the_migration(
    stored: Stored,
) -> None:
    ledger = Ledger(stored(RELEASED))
    shop = ledger.account("shop")
    (kept, ended), *_ = shop.requests(4)
    before = shop.document(3), shop.answered("request-1"), shop.archive(), shop.facts
    assert shop.paid(kept.extra["identity"]) == before[0]
    assert dpgap.read_release(before[0]).made.ledger.entry == 3
    assert ended is not None
    assert [entry.person for entry in ledger.entries("shop")][-4:] == [
        *("carol", "carol", "dan", "stella")
    ]
    ledger.migrate()
    assert (shop.document(3), shop.answered("request-1"), shop.archive(), shop.facts) == before
    assert shop.paid(kept.extra["identity"]) == before[0]
    last = shop.balance
    assert (last.kind, last.person, last.extra) == ("migrate", "", {"from": 2})
    assert last.archived == sum(len(shop.document(entry.number)) for entry in shop.archive())
    assert ledger.verify() == []
    with pytest.raises(BudgetExhausted, match="'eve' may spend ε = 0"):
        shop.of("eve").reserve(Fraction(1, 9), "top 1")
    again = Request(Fraction(1, 8), "under way", identity="cd" * 32)
    with pytest.raises(AlreadyCharged, match="request-3"):
        shop.of(key="request-3").reserve_for(again)


REFUSED: dict[str, Callable[[Ledger, LedgerAccount], object]] = {
    "a charge": lambda _, it: it.reserve(Fraction(1, 9), "top 1"),
    "a settlement": lambda ledger, it: LedgerReservation(ledger, ledger.entries("sales")[5]).settle(
        Fraction(0)
    ),
    "a budget": lambda ledger, _: ledger.create("new", 1),
    "a steward": lambda ledger, _: ledger.steward("sales").close(reason="done"),
    "a write-off": lambda ledger, _: ledger.steward("sales").write_off(5, reason="dead"),
    "a release": lambda _, it: dpgap.NoisyMax(epsilon=1).release([9, 1], account=it),
    "a session": lambda _, it: dpgap.Session(
        polars.DataFrame({"customer": [1, 2]}), unit="customer", account=it
    ).count(epsilon=1),
    "a desk": lambda ledger, _: ledger.require_current(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("what", REFUSED)
def test_an_older_layout_is_only_read_and_all_else_asks_for_the_migration(
    stored: Stored, what: str, layout: int
) -> None:
    ledger = Ledger(stored(layout))
    heads = _heads(ledger)
    with (
        bits_are(FailingBits(AssertionError)),  # nothing is drawn
        pytest.raises(LedgerError, match=rf"has layout {layout}, .* `dpgap ledger migrate`"),
    ):
        REFUSED[what](ledger, ledger.account("sales"))
    assert _heads(ledger) == heads


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_migrated_ledger_keeps_every_entry_and_every_head_and_goes_on(
    stored: Stored, layout: int
) -> None:
    url = stored(layout)
    ledger = Ledger(url)
    before = {name: ledger.entries(name) for name in ledger.datasets()}
    assert ledger.migrate() == sorted(before)
    for name, book in before.items():
        assert ledger.entries(name)[:-1] == book
        assert ledger.entries(name)[-1].kind == MIGRATE
        assert ledger.entries(name)[-1].previous == book[-1].hash
        assert ledger.entries(name)[-1].extra == {"from": layout}
        assert ledger.verify(name, head=book[-1].hash) == []
    account = Ledger(url).account("sales")
    request = Request(Fraction(1, 2), "top 1", identity="q", extra={"desk": 7})
    account.of(key="k").reserve_for(request).settle(Fraction(1, 4), "a document")
    assert ledger.entries("sales")[-2].extra == {"desk": 7, "identity": "q"}
    assert account.remaining == LEFT["sales"] - Fraction(1, 4)
    assert account.paid("q") == "a document"
    assert ledger.verify(head=before["sales"][-1].hash) == []
    assert ledger.migrate() == []
    ledger.steward("sales").write_off(5, reason="broken off before the migration")
    assert account.reserved == 0
    assert {entry.version for entry in ledger.entries("sales")} == {layout, 3}
    assert ledger.verify() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reservation_from_before_the_migration_is_settled_after_it(
    stored: Stored, layout: int
) -> None:
    url = stored(layout)
    ledger = Ledger(url)
    account = LedgerAccount(ledger, "sales")
    reservation = LedgerReservation(ledger, ledger.entries("sales")[5])
    left = account.remaining
    Ledger(url).migrate()
    reservation.settle(Fraction(0), "a document")
    account.reserve(Fraction(1, 4), "top 1 of url").settle(Fraction(1, 4))
    assert account.remaining == left + reservation.entry.epsilon - Fraction(1, 4)
    assert account.archive()[-1].reservation == 5
    assert ledger.verify() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flawed_ledger_is_not_migrated(stored: Stored, layout: int) -> None:
    ledger = Ledger(stored(layout))
    with ledger._store.engine.begin() as connection:
        edit = "UPDATE dpgap_entries SET hash = 'eve' WHERE number = 2"
        connection.execute(sql.text(edit))
    with pytest.raises(LedgerError, match=r"entry 2 was edited.* Such a ledger is not migrated"):
        ledger.migrate()
    assert {entry.version for entry in ledger.entries("sales")} == {layout}


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # only there were roles
def test_a_migration_takes_the_views_of_former_roles_along_and_names_others_in_its_way(
    stored: Stored,
) -> None:
    ledger = Ledger(stored(2))
    view = "VIEW {}.dpgap_entries AS SELECT * FROM public.dpgap_entries"
    with ledger._store.engine.begin() as connection:
        for name in ("dpgap_spender", "mine"):
            connection.execute(sql.text(f"CREATE SCHEMA {name}"))
            connection.execute(sql.text(f"CREATE {view.format(name)}"))
    with pytest.raises(LedgerError, match="views of yours depend on: drop those views first"):
        ledger.migrate()
    assert ledger.entries("sales")[-1].version == 2
    with ledger._store.engine.begin() as connection:
        connection.execute(sql.text("DROP VIEW mine.dpgap_entries"))
    assert "sales" in ledger.migrate()
    assert ledger.verify() == []


STATEMENTS = 60
"""More than a migration has."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_in_the_middle_of_the_migration_leaves_one_or_the_other(
    stored: Stored, layout: int, step: int
) -> None:
    url = stored(layout)
    heads = _heads(Ledger(url))
    outcomes = []
    for place in range(0, STATEMENTS, step):
        migrating = spenders.fresh_processes().Process(
            target=spenders.migrate_and_die, args=(url, place)
        )
        migrating.start()
        migrating.join()
        outcomes.append(migrating.exitcode)
        ledger = Ledger(url)
        assert ledger.verify() == []
        versions = {ledger.entries(name)[-1].version for name in heads}
        assert versions == {3 if migrating.exitcode == 0 else layout}
        if migrating.exitcode == 0:
            break
        assert _heads(ledger) == heads
    assert outcomes[-1] == 0
    assert len(outcomes) > 24 // step
    assert set(outcomes[:-1]) == {-signal.SIGKILL}
    assert all(Ledger(url).verify(head=head) == [] for head in heads.values())


def test_a_ledger_of_a_later_layout_is_refused_in_plain_words(url: str) -> None:
    Ledger(url).create("sales", 1)
    with Store(url).engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_layout SET layout = 4"))
    for use in (
        lambda: Ledger(url).account("sales"),
        lambda: Ledger(url).create("clinic", 1),
        lambda: Ledger(url).datasets(),
        lambda: Ledger(url).verify(),
        lambda: Ledger(url).migrate(),
        lambda: LedgerAccount(Ledger(url), "sales").reserve(Fraction(1), "top 1"),
    ):
        with pytest.raises(LedgerError, match=r"has layout 4, which a later dpgap made.*update"):
            use()


def test_an_entry_of_a_later_version_stops_a_ledger_that_was_open_before(url: str) -> None:
    """Whoever migrates to a later layout ends every book with an entry of a later version."""
    account = Ledger(url).create("sales", 1)
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_entries SET version = 4"))
    with pytest.raises(LedgerError, match="made by a later dpgap, as version 4: update dpgap"):
        account.reserve(Fraction(1), "top 1")


def test_an_older_dpgap_cannot_use_a_migrated_ledger_nor_open_another_beside_it(url: str) -> None:
    """It asks for columns of an older layout, in a table that has none of them."""
    Ledger(url).create("sales", 1)
    for column in ("total", "about"):
        with (
            Store(url).engine.begin() as connection,
            pytest.raises(sql.exc.DBAPIError, match=column),
        ):
            connection.execute(sql.text(f"SELECT dataset, number, {column} FROM dpgap_entries"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_hash_of_every_entry_is_that_of_its_body(stored: Stored, layout: int) -> None:
    """Any program can check the chain: nothing but SHA-256 of the text that is stored."""
    ledger = Ledger(stored(layout))
    ledger.migrate()
    with ledger._store.engine.begin() as connection:
        rows = connection.execute(sql.text("SELECT body, hash, version FROM dpgap_entries")).all()
    assert {row.version for row in rows} == {layout, 3}
    for row in rows:
        assert hashlib.sha256(row.body.encode()).hexdigest() == row.hash
        assert json.loads(row.body)
