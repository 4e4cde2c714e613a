"""Text that is no UTF-8, which Arrow takes as it comes, is no value in its row."""

from collections.abc import Callable
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

import dpgap

FRAMES: dict[str, Callable[[pyarrow.Table], Any]] = {
    "PyArrow": lambda table: table,
    "views": lambda table: table.cast(_with_text(pyarrow.string_view())),
    "lists of Arrow": lambda table: table.set_column(1, "what", table["what"].dictionary_encode()),
    "pandas": lambda table: table.to_pandas(),
    "pandas on Arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "Polars": polars.from_arrow,
    "lists of Polars": lambda table: polars.from_arrow(FRAMES["lists of Arrow"](table)),
    "lazy Polars": lambda table: polars.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "DuckDB": lambda table: duckdb.connect().from_arrow(table),
}
if pandas.__version__ < "3":  # its texts are Python's, which cannot hold such text
    del FRAMES["pandas"]
QUESTIONS: list[dict[str, Any]] = [
    {"domain": ["fig", "pea"]},
    {"domain": ["fig", "pea"], "max_items": 1},
    {"max_items": 1},
    {"domain": ["fig", "pea"], "where": "what != 'pea'"},
    {"domain": ["fig", "pea"], "where": "who > 'a'", "max_items": 1},
]


def _with_text(kind: pyarrow.DataType) -> pyarrow.Schema:
    return pyarrow.schema({"who": kind, "what": kind})


def _as_it_comes(values: list[bytes | None]) -> pyarrow.Array:
    told = pyarrow.array(values, pyarrow.binary())
    return pyarrow.Array.from_buffers(pyarrow.string(), len(told), told.buffers())


def _sold(odd: str | None) -> pyarrow.Table:
    """Four units; and a fifth whose unit or item is no text."""
    who, what = [b"ann", b"bob", b"cy", b"di"], [b"fig", b"fig", b"fig", None]
    if odd is not None:
        who.append(b"\xff" if odd == "who" else b"ed")
        what.append(b"hush\xe9" if odd == "what" else b"fig")
    return pyarrow.table({"who": _as_it_comes(who), "what": _as_it_comes(what)})


def _found(table: Any, question: dict[str, Any]) -> list[tuple[int, int]]:
    counted: Any = dpgap.counts(table, unit="who", item="what", **question)
    groups = counted.groups()
    return sorted(zip(groups.values.tolist(), groups.sizes.tolist(), strict=True))


@pytest.mark.parametrize("name", FRAMES)
def test_text_that_is_no_utf_8_is_no_value(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    for question in QUESTIONS:
        alone = _found(FRAMES[name](_sold(None)), question)
        for odd in ("who", "what"):
            assert _found(FRAMES[name](_sold(odd)), question) == alone, (question, odd)
    assert capfd.readouterr() == ("", "")
