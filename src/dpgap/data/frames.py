"""Frames of this process, read by an embedded DuckDB.

A frame is *typed* if its schema states one type of Arrow for each column that a question reads:
frames of Polars and PyArrow, and frames of pandas whose columns have types of Arrow. DuckDB reads
a typed frame as a stream of Arrow, without a copy, for every question.

Most types of pandas follow the rows. One text makes objects of a column of numbers, and Arrow
refuses a mixed column because of one row. So other frames of pandas are read value by value, and
DuckDB gets texts and floats, for every question that is more than counting.

The type of a column in DuckDB depends on the type that its frame states, never on its rows:

- Times, days and durations become whole numbers, as Arrow stores them. DuckDB has microseconds for
  times with a zone and for durations. A time beyond 64 bits of them would stop the call, and two
  times within one microsecond would become one unit.
- A dictionary of Arrow is a column of the values that it lists.
- Columns get names of our own, because DuckDB compares names without case.
- A type that would not be grouped by what is read is refused.
"""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, NamedTuple

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data import query, sources
from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import Frame, Lazy
from dpgap.data.values import arrow_texts, each_value, is_number, number_of


class Column(NamedTuple):
    """A column of a table, where its rows are read."""

    name: str
    kind: DType
    """The type that the table states; in DuckDB, times are whole numbers."""


class EmbeddedFrame(NamedTuple):
    """The rows of a frame in an embedded DuckDB, and its columns by their names in the frame."""

    rows: Lazy
    columns: dict[str, Column]

    def renamed(self, roles: dict[str, str]) -> dict[str, str]:
        """The same roles, with the names of their columns in DuckDB."""
        return {role: self.columns[name].name for role, name in roles.items()}


def is_typed(frame: Frame, names: Iterable[str]) -> bool:
    """Whether the schema states one type of Arrow for each of these columns."""
    if frame.implementation.is_polars() or frame.implementation.is_pyarrow():
        return True
    if not frame.implementation.is_pandas():
        return False
    types = frame.to_native().dtypes
    return all(type(types[name]).__name__ == "ArrowDtype" for name in names)


def collect(frame: Frame, names: Iterable[str]) -> nw.DataFrame[Any]:
    """Some columns of a typed frame, in memory and with the types of Arrow."""
    return with_masked_errors(lambda: _collected(frame, names))


def embed(values: nw.DataFrame[Any], roles: dict[str, str], resources: ExitStack) -> EmbeddedFrame:
    """The rows of a collected frame, in a DuckDB that `resources` keep open.

    `roles` are those that columns have in a question: unit, item, group, amount.
    """
    schema = values.schema
    query.require_plain_columns(schema, roles)
    for name in schema:
        if not _has_plain_type(values, name):
            raise ValueError(_NOT_PLAIN.format(column=name))
    columns = columns_of(values)
    stream = with_masked_errors(lambda: _Stream(_renamed(values, columns)))
    database = resources.enter_context(sources.embedded_database())
    relation = with_masked_errors(lambda: database.from_arrow(stream), _UNKNOWN_TO_DUCKDB)
    for name, embedded_kind in zip(schema, relation.types, strict=True):
        if str(embedded_kind).partition("(")[0] not in _GROUPED_AS_READ:
            raise ValueError(_NOT_PLAIN.format(column=name))
    rows: Any = nw.from_native(relation)
    wide = [column for column in columns.values() if column.kind in _WIDE]
    if wide:
        rows = rows.with_columns(nw.col(column.name).cast(column.kind) for column in wide)
    valid: Any = with_masked_errors(lambda: sources.with_valid_text(rows, rows.columns))
    return EmbeddedFrame(valid, columns)


def columns_of(values: nw.DataFrame[Any]) -> dict[str, Column]:
    """The columns of a collected frame as they are in DuckDB, by their names in the frame."""
    columns = {}
    for index, (name, kind) in enumerate(values.schema.items()):
        columns[name] = Column(f"column_{index}", kind)
    return columns


_NOT_PLAIN = "column {column!r} must hold plain values of one type"
_UNKNOWN_TO_DUCKDB = (
    "columns of the table must hold text, whole numbers, numbers, true and false, bytes, or times: "
    "DuckDB does not know a type of Arrow that they have"
)


class _Stream:
    """A frame as a stream of Arrow and nothing else.

    DuckDB would let PyArrow filter a table of PyArrow. It filters a stream itself.
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


_WIDE = (nw.Int128, nw.UInt128)
"""Polars has formats of its own for these, so they reach DuckDB as text."""

_READABLE: dict[type[DType], DType] = {
    nw.Date: nw.Int32(),
    nw.Datetime: nw.Int64(),
    nw.Duration: nw.Int64(),
    nw.Time: nw.Int64(),
    nw.Float16: nw.Float64(),
    nw.Int128: nw.String(),
    nw.UInt128: nw.String(),
}
"""The types as which DuckDB reads columns of other types; no value is changed."""

_MOST_DIGITS = 38
"""The most digits of a decimal in DuckDB."""

_GROUPED_AS_READ = frozenset(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE "
    "DECIMAL VARCHAR BLOB".split()
)
"""The types of DuckDB whose values are equal if they are read as the same."""


def _collected(frame: Frame, names: Iterable[str]) -> nw.DataFrame[Any]:
    columns: Any = frame.select(*dict.fromkeys(names))
    if isinstance(columns, nw.LazyFrame):
        columns = columns.collect()
    if columns.implementation.is_pandas():
        columns = nw.from_native(columns.to_arrow())
    if columns.implementation.is_pyarrow():
        columns = nw.from_native(_decoded(columns.to_native()))
    collected: nw.DataFrame[Any] = columns
    return collected


def _has_plain_type(values: nw.DataFrame[Any], name: str) -> bool:
    """Whether a column has no type of an extension, whose values DuckDB may read as others."""
    if not values.implementation.is_pyarrow():
        return values.schema[name] != nw.Unknown
    from pyarrow import BaseExtensionType

    return not isinstance(values.to_native().schema.field(name).type, BaseExtensionType)


def _decoded(table: Any) -> Any:
    """A table of PyArrow; its dictionaries list nothing but text, and decimals have 128 bits."""
    import pyarrow
    from pyarrow.types import is_decimal, is_dictionary

    for index, field in enumerate(table.schema):
        kind = field.type
        if is_dictionary(kind) and not sources.is_arrow_text(kind.value_type):
            kind = kind.value_type
        if is_decimal(kind) and kind.precision <= _MOST_DIGITS:
            kind = pyarrow.decimal128(kind.precision, kind.scale)
        if kind != field.type:
            table = table.set_column(index, field.name, table.column(index).cast(kind))
    return table


def _renamed(values: nw.DataFrame[Any], columns: dict[str, Column]) -> nw.DataFrame[Any]:
    """The columns with their names and types in DuckDB."""
    if values.implementation.is_pyarrow():
        values = nw.from_native(_with_whole_moments(values.to_native()))
    expressions = []
    for name, kind in values.schema.items():
        readable = _READABLE.get(type(kind))
        column = nw.col(name) if readable is None else nw.col(name).cast(readable)
        expressions.append(column.alias(columns[name].name))
    return values.select(*expressions)


def _with_whole_moments(table: Any) -> Any:
    """A table of PyArrow; its times, days and durations are whole numbers of as many bits."""
    from pyarrow.types import is_interval, is_temporal

    for index, field in enumerate(table.schema):
        if is_temporal(field.type) and not is_interval(field.type):
            column = table.column(index).cast(f"int{field.type.bit_width}")
            table = table.set_column(index, field.name, column)
    return table


# Frames of pandas whose types follow their rows.


def typed_by_values(frame: Frame, roles: dict[str, str]) -> nw.DataFrame[Any]:
    """The columns that have roles, as a typed frame: texts, and amounts as floats."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            "sum, by, max_items and unknown items need PyArrow for frames: pip install pyarrow"
        )
    return with_masked_errors(lambda: nw.from_native(_arrow_table(frame, roles)))


def _arrow_table(frame: Frame, roles: dict[str, str]) -> Any:
    import pyarrow

    table = frame.to_native()
    guessed = sources.guessed(frame)
    columns = {}
    for role, name in roles.items():
        column = table[name]
        if name not in guessed:
            columns[name] = column
        elif role != "amount":
            columns[name] = arrow_texts(column)
        elif name not in columns:
            columns[name] = column if is_number(column.dtype) else each_value(column, _float_of)
    return pyarrow.table(columns)


def _float_of(value: Any) -> float:
    """The number that a value is, or that its text states; NaN if there is none."""
    if isinstance(value, str):
        return float(value) if query.is_number(value) else math.nan
    return number_of(value)
