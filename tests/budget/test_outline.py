"""Long books in a few entries: what pages show of them is counted by the database."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from dpgap.budget import store
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger
from dpgap.budget.requests import Quota
from dpgap.budget.store import Outline
from dpgap.releases.ledger_page import ledger_page

TINY = Fraction(1, 1000)


def _by_hand(ledger: Ledger, dataset: str) -> Outline:
    """The same from every entry."""
    book = ledger.entries(dataset)
    ended = {entry.reservation for entry in book}
    requests = [entry for entry in book if entry.kind in ("reserve", "settle", "write-off")]
    last_of = {entry.person: entry for entry in book if entry.person}
    return Outline(
        book[-1],
        sum(entry.kind == "settle" for entry in book),
        [each for each in requests if each.kind == "reserve" and each.number not in ended],
        sorted(last_of.values(), key=lambda entry: entry.number),
        book,
    )


def _require_same(ledger: Ledger, dataset: str) -> None:
    found, expected = ledger.outline(dataset), _by_hand(ledger, dataset)
    people = sorted(found.people, key=lambda entry: entry.number)
    assert found._replace(people=people) == expected
    assert ledger_page([found]) == ledger_page([expected])


def test_an_outline_says_what_all_entries_say(url: str) -> None:
    ledger = Ledger(url)
    sales = ledger.create("sales", 10)
    ledger.create("other", 1).of("ann").reserve(Cost.pure(TINY), "of another book")
    steward = ledger.steward("sales").of("sue")
    steward.allow("eve", 3, reason="she asks nothing")
    for number in range(12):
        reservation = sales.of(f"person {number % 3}").reserve(
            Cost.pure(TINY * (number + 1)), "asked"
        )
        if number % 4:
            reservation.settle(Cost.pure(TINY), "document" if number % 2 else None)
        elif number % 3 == 0:
            steward.write_off(reservation.entry.number, reason="it died")
    steward.raise_to(11, reason="more")
    _require_same(ledger, "sales")
    _require_same(ledger, "other")
    waiting = [entry.number for entry in ledger.steward("sales").stale()]
    assert waiting == [entry.number for entry in ledger.outline("sales").waiting] != []


def test_a_data_set_without_entries_has_no_outline(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    assert ledger.outline("clinic") is None


def test_an_outline_reads_few_entries_of_a_long_book(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(url)
    sales = ledger.create("sales", 10)
    for number in range(60):
        reservation = sales.of(f"person {number % 2}").reserve(Cost.pure(TINY), "asked")
        if number % 20:
            reservation.settle(Cost.pure(TINY))
    read: list[int] = []
    entry_of = store._entry
    monkeypatch.setattr(
        store, "_entry", lambda row, *how: read.append(row.number) or entry_of(row, *how)
    )
    monkeypatch.setattr(store, "_SPREAD", 5)
    outline = ledger.outline("sales")
    assert len(read) < 15  # of 118
    assert len(ledger.steward("sales").stale()) == len(outline.waiting) == 3
    assert [entry.number for entry in outline.spread] == [0, 24, 48, 72, 96, 117]
    assert (outline.settled, len(outline.people)) == (57, 2)


def test_no_list_of_a_few_requests_looks_at_the_whole_book(folder: Path) -> None:
    ledger = Ledger(f"sqlite:///{folder}/budget.db")
    sales = ledger.create("sales", 10)
    for _ in range(4):
        sales.of("ann", quota=Quota(9, 9, 9)).reserve(Cost.pure(TINY), "asked").settle(
            Cost.pure(TINY)
        )
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, given: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and "dpgap_entries" in statement:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
            plans.extend(row[3] for row in rows)

    sql.event.listen(ledger._store.engine, "before_cursor_execute", explain)
    assert len(sales.requests(2)) == 2
    sales.of("ann", quota=Quota(9, 9, 9)).reserve(Cost.pure(TINY), "asked").settle(Cost.pure(TINY))
    ledger.people("sales")
    ledger.steward("sales").stale()
    searched = [plan for plan in plans if "dpgap_entries" in plan or plan.startswith("SEARCH")]
    assert searched
    for plan in searched:  # by one column, the data set's name, would be by the whole book
        assert "COVERING" in plan or plan.count("=?") + plan.count(">?") > 1, plan
