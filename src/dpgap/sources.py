"""Tables to private counts: how many distinct units each item has.

Any frame that Narwhals knows (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis, …) and files, which
embedded DuckDB reads, take the same path: distinct pairs of unit and item, then their number for
each item. NULL units and NULL items are dropped, and NaN is NULL. So adding or removing one unit
moves every count by at most one, and all in the same direction, however many rows it has.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.domain import OBSERVED, Domain, listed, read_domain
from dpgap.files import FIMI_ITEM, NOT_FIMI, quietly, read_file, require_columns
from dpgap.private_answers import Answers, Integers, Origin

NEIGHBOURS = ("add-or-remove", "replace")
"""What may differ between neighbouring tables: one unit more or less, or one unit replaced."""

_UNREADABLE = "table could not be read: the engine that holds it refused"
_PURE = {
    "string": "string",
    "integer": "Int64",
    "boolean": "boolean",
    "floating": "float64",
    "empty": "string",
}
"""What an object column of pandas may hold, and the type that says so."""
_COUNTABLE = ("String", "Categorical", "Enum", "Boolean", "Float32", "Float64")
_FRAMES = "a frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis) or the path of a file"


def counts(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: Any,
    neighbours: str = NEIGHBOURS[0],
) -> Answers:
    """Count the distinct units of every item of a public domain.

    `table` is any frame or the path of a file, `unit` the column that says whose row it is (or
    "row"), `item` the column to count. `domain` states which items there are: a list, a range, a
    file, a column of a public table. `neighbours="replace"` protects against replacing a unit
    instead of adding or removing one.

    >>> import pandas
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, None], "what": ["fig", "fig", "fig", "pea"]})
    >>> counts(sold, unit="who", item="what", domain=["fig", "pea", "oat"])
    <private answers: 3 items, sensitivity 1, monotonic>
    """
    require_neighbours(neighbours)
    public = None if isinstance(domain, str) and domain == OBSERVED else read_domain(domain)
    for name, value in (("unit", unit), ("item", item)):
        if not isinstance(value, str | None):
            raise TypeError(f"{name} must be the name of a column, not {type(value).__name__}")
    if isinstance(table, str | os.PathLike):
        with read_file(os.fspath(table), unit, item) as columns:
            items, found = _distinct_units(*columns)
        if columns.item == FIMI_ITEM:
            items = _whole_numbers(items)
    elif unit is None or item is None:
        raise TypeError("unit and item must be given: the names of two columns")
    else:
        items, found = _distinct_units(table, unit, item)
    origin = Origin(
        unit=unit or "line",
        item=item or "item",
        domain="the items observed in the table" if public is None else public.words,
        neighbours=neighbours,
        is_private=public is not None,
    )
    return _over_domain(public, items, found, origin)


def require_neighbours(neighbours: object) -> str:
    """Refuse a relation between tables that is not known."""
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    return str(neighbours)


def _distinct_units(table: Any, unit: str, item: str) -> tuple[NDArray[Any], Integers]:
    """The items that are present and how many distinct units each has."""
    frame = _frame(table)
    schema = quietly(frame.collect_schema, _UNREADABLE)
    if unit == "row" and "row" in schema:
        raise ValueError("unit='row' is unclear: there is a column of that name; rename it")
    names = [item] if unit == "row" else [unit, item]
    require_columns(list(schema), *names)
    if unit == item:
        raise ValueError("unit and item must be different columns")
    if frame.implementation.is_pandas():
        frame = _pure_pandas(frame, names)
        schema = frame.collect_schema()
    for name in names:
        _require_plain(name, schema[name], is_item=name == item)
    with _quiet_spark(frame):
        return quietly(lambda: _grouped(frame, names, schema), _UNREADABLE)


def _frame(table: Any) -> Any:
    import narwhals as nw

    frame: Any = quietly(lambda: nw.from_native(table, pass_through=True), _UNREADABLE)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"table must be {_FRAMES}, not {type(table).__name__}")
    return frame


def _pure_pandas(frame: Any, names: list[str]) -> Any:
    """The columns of a pandas frame, which alone may hold anything; mixed types are refused."""
    import narwhals as nw
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]

    table = frame.to_native()[names]
    for name in names:
        if str(table[name].dtype) == "category":
            table = table.assign(**{name: table[name].astype(object)})
        if str(table[name].dtype) == "object":
            found = infer_dtype(table[name], skipna=True)
            if found not in _PURE:
                raise ValueError(f"column {name!r} must hold text or numbers, not mixed types")
            table = table.assign(**{name: table[name].astype(_PURE[found])})
    return nw.from_native(table)


def _require_plain(name: str, kind: Any, *, is_item: bool) -> None:
    """Refuse a column that is not of one plain type, or whose items cannot be told by text."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if is_item and type(kind).__name__ not in _COUNTABLE and not kind.is_integer():
        raise ValueError(
            f"column {name!r} must hold text, whole numbers or true and false to be counted; "
            "cast it to text first"
        )


@contextmanager
def _quiet_spark(frame: Any) -> Iterator[None]:
    """Keep Spark's driver from logging the rows on which a task failed."""
    if not frame.implementation.is_pyspark():
        yield
        return
    log4j = frame.to_native().sparkSession.sparkContext._jvm.org.apache.logging.log4j
    context, name = log4j.LogManager.getContext(False), "org.apache.spark"
    loggers = context.getConfiguration().getLoggers()
    before = loggers.get(name).getLevel() if loggers.containsKey(name) else None
    log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        if before is None:
            context.getConfiguration().removeLogger(name)
            context.updateLoggers()
        else:
            log4j.core.config.Configurator.setLevel(name, before)


def _grouped(frame: Any, names: list[str], schema: Any) -> tuple[NDArray[Any], Integers]:
    import narwhals as nw

    columns = dict(zip(("item", "unit"), reversed(names), strict=False))
    rows = frame.select(
        *(_comparable(name, schema[name]).alias(role) for role, name in columns.items())
    ).drop_nulls()
    for role, name in columns.items():
        if schema[name].is_float():
            rows = rows.filter(~nw.col(role).is_nan())
    if "unit" in columns:  # grouping finds distinct pairs faster than `unique`, on every engine
        rows = rows.group_by("unit", "item").agg(nw.len().alias("rows"))
    counted = rows.group_by("item").agg(nw.len().alias("count"))
    if counted.implementation.is_duckdb():
        arrays = counted.to_native().fetchnumpy()
        return arrays["item"], arrays["count"].astype(np.int64)
    if isinstance(counted, nw.LazyFrame):
        counted = counted.collect()
    return counted["item"].to_numpy(), counted["count"].to_numpy().astype(np.int64)


def _comparable(name: str, kind: Any) -> Any:
    """A column whose equal values are equal to every engine, and that can be fetched."""
    import narwhals as nw

    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def _whole_numbers(tokens: NDArray[Any]) -> Integers:
    """What a FIMI file calls its items."""
    together = "".join(tokens.tolist())
    if tokens.size and not (together.isascii() and together.isdecimal()):
        raise ValueError(NOT_FIMI)
    return quietly(lambda: np.array(tokens, dtype=str).astype(np.int64), NOT_FIMI)


def _over_domain(
    domain: Domain | None, items: NDArray[Any], found: Integers, origin: Origin
) -> Answers:
    """The counts of the domain's items; all others are dropped."""
    public = listed(sorted(items.tolist()), "") if domain is None else domain
    if items.dtype.kind in "iuf" and not public.has_numbers():
        raise ValueError("domain has no numbers, but the item column holds nothing else")
    positions = public.positions(items)
    inside = positions >= 0
    if np.unique(positions[inside]).size != np.count_nonzero(inside):
        # Adding up two spellings would count a unit twice.
        raise ValueError("the item column must spell every item in one way only")
    return Answers(
        labels=public.labels,
        positions=positions[inside],
        counts=found[inside],
        sensitivity=Fraction(1),
        monotonic=origin.neighbours == NEIGHBOURS[0],
        origin=origin,
    )
