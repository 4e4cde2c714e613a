"""Frames of this process: DuckDB counts what their values are, whatever types they state."""

import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import dpgap
from dpgap.data.values import form_of

FRAMES: dict[str, Callable[[pyarrow.Table], Any]] = {
    "PyArrow": lambda table: table,
    "Polars": polars.from_arrow,
    "lazy Polars": lambda table: polars.DataFrame(polars.from_arrow(table)).lazy(),
    "pandas on Arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
}

ITEMS: dict[str, Any] = {
    "small integers": pyarrow.array([1, 2, 1, None], pyarrow.int8()),
    "unsigned integers": pyarrow.array([2**64 - 1, 2, 2**64 - 1, None], pyarrow.uint64()),
    "floats": pyarrow.array([0.0, -0.0, float("nan"), 7.0]),
    "short floats": pyarrow.array([16777216.0, -0.0, float("nan"), 0.0], pyarrow.float32()),
    "true and false": pyarrow.array([True, False, True, None]),
    "text": pyarrow.array(["a", "A", "a\0", None]),
    "long text": pyarrow.array(["a" * 99, "a" * 99, "é", "e\u0301"], pyarrow.large_string()),
    "views of text": pyarrow.array(["a", "a" * 99, "a", None], pyarrow.string_view()),
    "chunks": pyarrow.chunked_array([["a", "b"], [], ["a"], [None]]),
    "a dictionary of text": pyarrow.array(["a", "b", "a", None]).dictionary_encode(),
    "a dictionary of integers": pyarrow.array([1, 2, 1, None]).dictionary_encode(),
    "a dictionary of floats": pyarrow.array([0.0, -0.0, 7.0, None]).dictionary_encode(),
}

UNITS: dict[str, Any] = {
    **ITEMS,
    "half floats": pyarrow.array(np.array([0.5, -0.0, 0.0, 0.5], dtype=np.float16)),
    "days": pyarrow.array([date(2024, 1, 1), date(1, 1, 1), date(2024, 1, 1), None]),
    "times": pyarrow.array([1, 2, 1, 2**62], pyarrow.timestamp("ns")),
    "times with a zone": pyarrow.array([1, 2, 1, 2**62], pyarrow.timestamp("ms", "Asia/Tokyo")),
    "close times": pyarrow.array([1000, 1001, 1000, 1002], pyarrow.timestamp("ns", "UTC")),
    "clock times": pyarrow.array([1, 2, 1, None], pyarrow.time64("ns")),
    "durations": pyarrow.array([1, 2, 1, 2**62], pyarrow.duration("ns")),
    "decimals": pyarrow.array([Decimal("1.10"), Decimal("1.1"), Decimal(7), None]),
    "bytes": pyarrow.array([b"a", b"\xff", b"\xff", None], pyarrow.binary()),
}

REFUSED: dict[str, Any] = {
    "lists": pyarrow.array([[1], [2], [1], None]),
    "records": pyarrow.array([{"a": 1}] * 4),
    "nothing": pyarrow.nulls(4),
    "an extension": pyarrow.ExtensionArray.from_storage(
        pyarrow.bool8(), pyarrow.array([0, 1, 2, None], pyarrow.int8())
    ),
}


def _expected(column: Any) -> list[int]:
    texts = [form_of(value) for value in column.to_pylist()]
    return sorted(Counter(text for text in texts if text is not None).values())


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("kind", ITEMS)
def test_items_are_what_plain_python_reads(frame: str, kind: str) -> None:
    column = ITEMS[kind]
    table = FRAMES[frame](pyarrow.table({"who": [1, 2, 3, 4], "what": column}))
    answers = dpgap.counts(table, unit="who", item="what", domain="observed-not-private")
    assert sorted(answers.expanded().tolist()) == _expected(column)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("kind", UNITS)
def test_units_are_what_their_column_stores(frame: str, kind: str) -> None:
    column = UNITS[kind]
    table = FRAMES[frame](pyarrow.table({"who": column, "what": ["a"] * 4}))
    stored = column.combine_chunks() if kind == "chunks" else column
    values = stored.dictionary_decode() if "dictionary" in kind else stored
    if pyarrow.types.is_temporal(values.type):
        values = values.cast(f"int{values.type.bit_width}")
    different = {value + 0.0 if isinstance(value, float) else value for value in values.to_pylist()}
    expected = sum(value is not None and value == value for value in different)
    for bound in ({}, {"max_items": 1}):
        answers = dpgap.counts(table, unit="who", item="what", domain=["a"], **bound)
        assert answers.groups().values.tolist() == [expected]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("kind", REFUSED)
def test_other_types_are_refused_with_and_without_rows(frame: str, kind: str) -> None:
    table = pyarrow.table({"who": REFUSED[kind], "what": ["a"] * 4})
    for rows in (table, table.slice(0, 0)):
        with pytest.raises(ValueError, match="column 'who' must hold plain values of one type"):
            dpgap.counts(FRAMES[frame](rows), unit="who", item="what", domain=["a"])


def test_names_that_differ_in_case_alone_are_two_columns() -> None:
    sold = polars.DataFrame({"a": [1, 2, 2], "A": ["p", "q", "q"], "": ["x", "x", "y"]})
    for bound in ({}, {"max_items": 1}):
        answers = dpgap.counts(sold, unit="a", item="A", domain=["p", "q"], **bound)
        assert answers.expanded().tolist() == [1, 1]
    kept = dpgap.counts(sold, unit="row", item="", domain=["x", "y"], where="\"A\" = 'q'")
    assert kept.expanded().tolist() == [1, 1]


def test_polars_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    sold = polars.DataFrame({"who": [1, 1, 2], "what": ["p", "q", "q"], "paid": [1, 2, 3]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain = dpgap.counts(sold, unit="who", item="what", domain=["p", "q"])
    assert plain.expanded().tolist() == [1, 2]
    paid = dpgap.counts(
        sold.lazy(), unit="who", item="what", domain=["p", "q"], sum="paid", at_most=9, step=1
    )
    assert paid.expanded().tolist() == [1, 5]


def test_wide_integers_of_polars_are_items_units_and_amounts() -> None:
    wide = polars.Series([2**100, 1, 2**100, None], dtype=polars.Int128)
    sold = polars.DataFrame({"wide": wide, "name": ["p", "p", "q", "q"]})
    items = dpgap.counts(sold, unit="row", item="wide", domain=[str(2**100), "1"])
    assert items.expanded().tolist() == [2, 1]
    units = dpgap.counts(sold, unit="wide", item="name", domain=["p", "q"], max_items=2)
    assert units.expanded().tolist() == [2, 1]
    some = dpgap.counts(sold, unit="row", item="name", domain=["p", "q"], where="wide > 1")
    assert some.expanded().tolist() == [1, 1]
