"""Counts that cannot be are an internal error before the charge, and never an answer."""

from collections.abc import Callable
from itertools import product
from typing import Any

import duckdb
import narwhals as nw
import pyarrow
import pytest

import dpgap
from dpgap.budget.ledger import LedgerAccount
from dpgap.data import query
from dpgap.data.engines.duckdb import DuckDB

ROWS = pyarrow.table({"who": [1, 2, 3, 4], "what": [1, 1, 2, 4], "land": ["ch", "ch", "de", "de"]})
ASK: dict[str, Any] = {"unit": "who", "item": "what", "domain": [1, 2, 4]}


def _twice(frame: Any) -> Any:
    return nw.concat([frame, frame])


def _elsewhere(frame: Any) -> Any:
    return frame.with_columns(nw.col("item") - 10**12)


def _negative(frame: Any) -> Any:
    return frame.with_columns(nw.col("units") - 1)


WRONG = [_twice, _elsewhere, _negative]
QUESTIONS: dict[str, dict[str, Any]] = {
    "list": {},
    "range": {"domain": range(0, 10, 2)},
    "bounded": {"max_items": 1},
    "unknown": {"domain": None, "delta": 0.01, "max_items": 1},
    "groups": {"by": "land", "groups": ["ch", "de"], "max_groups": 1},
    "groups and a large range": {
        "by": "land",
        "groups": ["ch", "de"],
        "max_groups": 1,
        "domain": range(10**9),
    },
}


def _refused(table: Any, account: LedgerAccount, ask: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="rows were counted by something else") as refusal:
        dpgap.top_k(table, **ASK | ask, k=1, epsilon=1, account=account)
    assert account.balance.number == 0
    assert not {"1", "2", "5", "10"} & {*str(refusal.value).split()}


@pytest.mark.parametrize(
    ("asked", "wrong"),
    # Without a domain, no item is outside of it.
    [each for each in product(QUESTIONS, WRONG) if each != ("unknown", _elsewhere)],
)
def test_frozen_counts_that_cannot_be_are_refused_before_the_charge(
    asked: str, wrong: Callable[[Any], Any], account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = duckdb.connect().from_arrow(ROWS)
    dpgap.top_k(table, **ASK | QUESTIONS[asked], k=1, epsilon=1)
    freeze = DuckDB.freeze
    monkeypatch.setattr(DuckDB, "freeze", lambda self, frame: freeze(self, wrong(frame)))
    _refused(table, account, QUESTIONS[asked])


@pytest.mark.parametrize("wrong", [_twice, _negative])
def test_counts_in_memory_that_cannot_be_are_refused_as_well(
    wrong: Callable[[Any], Any], account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_up = query.add_up
    monkeypatch.setattr(query, "add_up", lambda *given: wrong(add_up(*given)))
    _refused(ROWS, account, {})


def test_items_of_a_domain_in_the_engine_have_one_count_each(
    account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = duckdb.connect()
    table = database.from_arrow(ROWS)
    public = database.sql("SELECT unnest([1, 2, 4, 9]) AS item")
    assert dpgap.top_k(table, **ASK | {"domain": public}, k=1, epsilon=9000).labels == (1,)
    freeze = DuckDB.freeze
    monkeypatch.setattr(DuckDB, "freeze", lambda self, frame: freeze(self, _twice(frame)))
    _refused(table, account, {"domain": public})
