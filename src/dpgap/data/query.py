"""The counting query: how many distinct units each item has, and which items are wanted.

It is written once, in Narwhals, for every frame and engine. NULL units and NULL items are dropped,
and NaN is NULL. So adding or removing one unit moves every count by at most one, and all in the
same direction, however many rows it has.
"""

from functools import partial
from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data.addresses import GUESSED, Frame, Lazy, require_columns
from dpgap.data.tracebacks import UNREADABLE, quietly

_LARGEST = (1 << 63) - 1024
"""The largest float that is a whole number of 64 bits."""

_PURE = {
    "string": "string",
    "integer": "string",  # of any length
    "boolean": "boolean",
    "floating": "Float64",
    "empty": "string",
}
"""What an object column of pandas may hold, and the type that says so."""
_NULLABLE = {"i": "Int64", "u": "UInt64", "f": "Float64", "b": "boolean"}
"""For kinds of numbers in pandas, the type that has them and also nothing."""
_IMPURE = "column {name!r} must hold text in UTF-8 or numbers"
_COUNTABLE = ("String", "Categorical", "Enum", "Boolean", "Float32", "Float64")
_WHOLE_TEXT = "^(0|-?[1-9][0-9]{0,17})$"


def count_units(frame: Frame, unit: str, item: str) -> Frame:
    """How many distinct units each item has: a frame of `item` and `units`, lazy as that given."""
    schema = quietly(frame.collect_schema, UNREADABLE)
    if unit == "row" and "row" in schema:
        raise ValueError("unit='row' is unclear: there is a column of that name; rename it")
    names = [item] if unit == "row" else [unit, item]
    require_columns(list(schema), *names)
    if frame.implementation.is_pandas():
        frame = _purify_pandas(frame, names)
        schema = frame.collect_schema()
    if frame.implementation.is_pyarrow():
        frame = _purify_arrow(frame, names)
    for name in names:
        _require_plain(name, schema[name], is_item=name == item)
    return quietly(lambda: _group(frame, names, schema), UNREADABLE)


def states_numbers(frame: Frame, name: str) -> bool:
    """Whether the schema, and not somebody's row, tells that a column holds numbers."""
    is_guessed = frame.implementation.is_pandas() and _type_of(frame.to_native(), name) in GUESSED
    return not is_guessed and bool(frame.collect_schema()[name].is_numeric())


def _type_of(table: Any, name: str) -> str:
    return str(table[name].dtype)


def _purify_pandas(frame: Frame, names: list[str]) -> Frame:
    """The columns of a pandas frame, which alone may hold anything; mixed types are refused."""
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]

    table = frame.to_native()[names]
    for name in names:
        if _type_of(table, name) == "category":
            kind = table[name].cat.categories.dtype
            table = table.assign(**{name: table[name].astype(_NULLABLE.get(kind.kind, kind))})
        if _type_of(table, name) == "object":
            column = table[name]
            found = infer_dtype(column, skipna=True)
            if found not in _PURE:
                raise ValueError(f"column {name!r} must hold text or numbers, not mixed types")
            cast = quietly(partial(column.astype, _PURE[found]), _IMPURE.format(name=name))
            table = table.assign(**{name: cast})
    pure: Frame = nw.from_native(table)
    return pure


def _purify_arrow(frame: Frame, names: list[str]) -> Frame:
    """The columns of an Arrow table; views of text become text, which can be missing as well."""
    import pyarrow

    table = frame.to_native().select(names)
    kinds = [
        pyarrow.large_string() if str(field.type) == "string_view" else field.type
        for field in table.schema
    ]
    pure: Frame = nw.from_native(table.cast(pyarrow.schema(zip(names, kinds, strict=True))))
    return pure


def _require_plain(name: str, kind: DType, *, is_item: bool) -> None:
    """Refuse a column that is not of one plain type, or whose items cannot be told by text."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if is_item and type(kind).__name__ not in _COUNTABLE and not kind.is_integer():
        raise ValueError(
            f"column {name!r} must hold text, whole numbers or true and false to be counted; "
            "cast it to text first"
        )


def _group(frame: Frame, names: list[str], schema: nw.Schema) -> Frame:
    columns = dict(zip(("item", "unit"), reversed(names), strict=False))
    rows = frame.select(
        *(_comparable(name, schema[name]).alias(role) for role, name in columns.items())
    ).drop_nulls()
    for role, name in columns.items():
        if schema[name].is_float():
            rows = rows.filter(_is_number(nw.col(role)))
    if "unit" in columns:  # grouping finds distinct pairs faster than `unique`, on every engine
        rows = rows.group_by("unit", "item").agg(nw.len().alias("rows"))
    return rows.group_by("item").agg(nw.len().alias("units"))


def _comparable(name: str, kind: DType) -> nw.Expr:
    """A column whose equal values are equal to every engine, and that can be fetched."""
    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def _is_number(value: nw.Expr) -> nw.Expr:
    """Whether a float is not NaN. (DuckDB's `isnan` trusts the statistics of Parquet files.)"""
    return value.is_finite() | (value == float("inf")) | (value == float("-inf"))


def keep_range(counted: Lazy, kind: DType, labels: range) -> Lazy:
    """The counts of the items that are whole numbers of a range."""
    low, high = min(labels[0], labels[-1]), max(labels[0], labels[-1])
    item = nw.col("item")
    numbers = counted.select(_as_number(kind, low, high).alias("number"), "item", "units")
    if kind == nw.String:  # a number has one spelling only
        numbers = numbers.filter(nw.col("number").cast(nw.String) == item)
    inside = numbers.select(nw.col("number").alias("item"), "units").filter(
        item.is_between(low, high)
    )
    if abs(labels.step) > 1:
        inside = inside.filter((item - low) % abs(labels.step) == 0)
    return inside


def keep_items(known: Lazy, own: DType, counted: Lazy, kind: DType) -> Lazy:
    """The counts of the items of a table, a frame of `item` of type `own`; 0 for absent ones."""
    known = known.drop_nulls().unique()
    if not (own.is_integer() and kind.is_integer()):
        return keep_texts(known.with_columns(_as_text(own).alias("text")), counted, kind)
    return _fill_absent(known.join(counted, on="item", how="left"))


def keep_texts(known: Lazy, counted: Lazy, kind: DType) -> Lazy:
    """The counts of known items, whose `text` says how they are found; 0 for absent ones."""
    found = counted.select(_as_text(kind).alias("found"), "units")
    return _fill_absent(known.join(found, left_on="text", right_on="found", how="left"))


def _fill_absent(joined: Lazy) -> Lazy:
    return joined.select("item", nw.col("units").fill_null(0))


def _as_number(kind: DType, low: int, high: int) -> nw.Expr:
    """Items as whole numbers, NULL where they are none; in a CASE, so that no cast can fail."""
    item = nw.col("item")
    if kind == nw.String:
        # To Java "$" also stands before a last line break of any kind, which no cast would take.
        is_number = item.str.contains(_WHOLE_TEXT) & ~item.str.contains("[^0-9-]")
    elif kind.is_float():
        is_number = item.is_between(float(-_LARGEST), float(_LARGEST)) & (item.floor() == item)
    else:
        is_number = item.is_between(low, high)
    return nw.when(is_number).then(item).otherwise(None).cast(nw.Int64)


def _as_text(kind: DType) -> nw.Expr:
    """Items as the text that they are compared by; NULL where numbers are not whole."""
    item = nw.col("item")
    if kind == nw.Boolean:
        return nw.when(item).then(nw.lit("true")).otherwise(nw.lit("false"))
    if kind.is_float():
        return _as_number(kind, -_LARGEST, _LARGEST).cast(nw.String)
    return item if kind == nw.String else item.cast(nw.String)
