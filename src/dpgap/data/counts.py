"""Tables to private counts: how many distinct units each item has.

Any frame that Narwhals knows (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis, …), files, which
embedded DuckDB reads, and tables in databases take the same path: distinct pairs of unit and item,
then their number for each item. Where an engine holds the table, the counts stay there. NULL units
and NULL items are dropped, and NaN is NULL. So adding or removing one unit moves every count by at
most one, and all in the same direction, however many rows it has.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgap import public
from dpgap.data.addresses import find_tables, is_url
from dpgap.data.domain import (
    Domain,
    checked,
    column_beside,
    is_within,
    listed,
    read_domain,
    whole,
)
from dpgap.data.engines import engine_of
from dpgap.data.engines.counted import counted_in_engine, require_exact_text
from dpgap.data.facts import GUESSED, column_digest, columns_of, file_address
from dpgap.data.files import (
    FIMI_ITEM,
    NOT_FIMI,
    UNREADABLE,
    TableView,
    quietly,
    read_file,
    require_columns,
)
from dpgap.data.own_column import refuse_own_column
from dpgap.data.private_counts import CountsInMemory, Integers, PrivateCounts
from dpgap.data.tracebacks import errors_without_answers
from dpgap.releases.questions import ADD_OR_REMOVE, OBSERVED, Origin

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

Table: TypeAlias = "IntoFrame | str | os.PathLike[str]"
"""What can be counted: any frame that Narwhals knows, a file, or an address in a database."""
DomainLike: TypeAlias = "IntoFrame | Iterable[object] | str | os.PathLike[str]"
"""What can state the public items."""

NEIGHBOURS = (ADD_OR_REMOVE, "replace")
"""What may differ between neighbouring tables: one unit more or less, or one unit replaced."""

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
_FRAMES = (
    "a frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file or the address "
    "of a table in a database"
)


@public
@errors_without_answers
def counts(
    table: Any,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: DomainLike,
    neighbours: str = NEIGHBOURS[0],
) -> PrivateCounts:
    """Count the distinct units of every item of a public domain, to ask about them several times.

    The counts are private: they show themselves to nobody but a mechanism.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales".
    unit
        The column that says whose row it is. All rows with one value in it are protected together.
        "row" protects single rows; "line", the lines of a FIMI file.
    item
        The column whose values are counted.
    domain
        The public items, which must not be read from the private table: a list, a range, a file of
        items, "items.parquet:column", or a frame of one column.
    neighbours
        What privacy hides: "add-or-remove" that a unit is there at all; "replace", which of two
        units it is, for twice the noise.

    >>> import pandas
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, None], "what": ["fig", "fig", "fig", "pea"]})
    >>> counts(sold, unit="who", item="what", domain=["fig", "pea", "oat"])
    <private answers: 3 items, sensitivity 1, monotonic>
    """
    require_neighbours(neighbours)
    for role, value in (("unit", unit), ("item", item)):
        if not isinstance(value, str | None):
            raise TypeError(f"{role} must be the name of a column, not {type(value).__name__}")
    if unit is not None and unit == item:
        raise ValueError("unit and item must be different columns")
    with ExitStack() as resources:
        stated = domain
        name = address = domain_address = None
        if is_url(table):
            table, domain, name, address, domain_address = find_tables(table, domain, resources)
        else:
            refuse_own_column(table, item, domain)
        if isinstance(table, str | os.PathLike):
            name, address = os.path.basename(table), file_address(table)
            table = resources.enter_context(read_file(os.fspath(table), unit, item))
            domain = column_beside(domain, table)
            if domain is not stated:
                domain_address = file_address(str(stated).rpartition(":")[0])
        if isinstance(table, TableView):
            columns = table
        elif unit is None or item is None:
            raise TypeError("unit and item must be given: the names of two columns")
        else:
            columns = TableView(table, unit, item)
        frame = _frame(columns.table)
        engine = None if columns.item == FIMI_ITEM else engine_of(frame)
        is_beside = engine is not None and (columns.database is None or domain is not stated)
        public, words = _stated(domain, frame if is_beside else None)
        counted = _counted(frame, columns.unit, columns.item)
        origin = Origin(
            unit=unit or "line",
            item=item or "item",
            domain=words,
            neighbours=neighbours,
            is_private=public is not None,
            table=name,
            address=address,
            columns=quietly(lambda: columns_of(frame), UNREADABLE)
            if columns.database is None
            else columns.columns,
            digest=_digest(public, domain_address, stated),
        )
        if engine is not None and columns.database is None:  # files have no collations
            column = frame.select(columns.item).rename({columns.item: "item"})
            require_exact_text(engine, column, f"column {columns.item!r}")
        if engine is None:
            _require_numbers(public, frame, columns.item)
            return _over_domain(public, *_fetched(counted, columns.item), origin)
        return counted_in_engine(engine, counted, public, origin, resources)


def require_neighbours(neighbours: object) -> str:
    """Refuse a relation between tables that is not known."""
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    return str(neighbours)


def _stated(domain: Any, beside: Any) -> tuple[Any, str]:
    """The domain, None if observed, and words. A frame of the engine of `beside` stays a frame."""
    import narwhals as nw

    if isinstance(domain, str) and domain == OBSERVED:
        return None, "the items observed in the table"
    column = nw.from_native(domain, pass_through=True)
    if not isinstance(column, nw.DataFrame | nw.LazyFrame):
        public = read_domain(domain)
        return public, public.words
    names = list(quietly(column.collect_schema, "domain could not be read"))
    if len(names) != 1:
        raise ValueError("domain must be a frame of one column: select it")
    words = f"column {names[0]!r} of a public table"
    is_lazy = isinstance(column, nw.LazyFrame)
    if is_lazy and beside is not None and column.implementation == beside.implementation:
        return column.rename({names[0]: "item"}), words
    values = quietly(
        lambda: column.lazy().collect()[names[0]].to_list(), "domain could not be read"
    )
    return checked(listed(values, words + ": {count} items")), words


def _digest(public: Any, address: str | None, stated: Any) -> str | None:
    """A hash of the domain; of its address where it is never fetched; None if nobody can tell it.

    Nobody can tell items that were observed, which are private, and a frame that an engine keeps.
    """
    if isinstance(public, Domain):
        return public.digest
    return None if address is None else column_digest(address, str(stated).rpartition(":")[2])


def _counted(frame: Any, unit: str, item: str) -> Any:
    """How many distinct units each item has: a frame of `item` and `units`, lazy as that given."""
    schema = quietly(frame.collect_schema, UNREADABLE)
    if unit == "row" and "row" in schema:
        raise ValueError("unit='row' is unclear: there is a column of that name; rename it")
    names = [item] if unit == "row" else [unit, item]
    require_columns(list(schema), *names)
    if frame.implementation.is_pandas():
        frame = _pure_pandas(frame, names)
        schema = frame.collect_schema()
    if frame.implementation.is_pyarrow():
        frame = _pure_arrow(frame, names)
    for name in names:
        _require_plain(name, schema[name], is_item=name == item)
    return quietly(lambda: _grouped(frame, names, schema), UNREADABLE)


def _require_numbers(domain: Domain | None, frame: Any, item: str) -> None:
    """Refuse a domain without numbers if the schema, and not somebody's row, tells of numbers."""
    is_guessed = frame.implementation.is_pandas() and _type_of(frame.to_native(), item) in GUESSED
    is_number = item == FIMI_ITEM or (not is_guessed and frame.collect_schema()[item].is_numeric())
    if domain is not None and is_number and not domain.has_numbers():
        raise ValueError("domain has no numbers, but the item column holds nothing else")


def _type_of(table: Any, name: str) -> str:
    return str(table[name].dtype)


def _frame(table: Any) -> Any:
    import narwhals as nw

    frame: Any = quietly(lambda: nw.from_native(table, pass_through=True), UNREADABLE)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"table must be {_FRAMES}, not {type(table).__name__}")
    return frame


def _pure_pandas(frame: Any, names: list[str]) -> Any:
    """The columns of a pandas frame, which alone may hold anything; mixed types are refused."""
    import narwhals as nw
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
            pure = quietly(partial(column.astype, _PURE[found]), _IMPURE.format(name=name))
            table = table.assign(**{name: pure})
    return nw.from_native(table)


def _pure_arrow(frame: Any, names: list[str]) -> Any:
    """The columns of an Arrow table; views of text become text, which can be missing as well."""
    import narwhals as nw
    import pyarrow

    table = frame.to_native().select(names)
    kinds = [
        pyarrow.large_string() if str(field.type) == "string_view" else field.type
        for field in table.schema
    ]
    return nw.from_native(table.cast(pyarrow.schema(zip(names, kinds, strict=True))))


def _require_plain(name: str, kind: Any, *, is_item: bool) -> None:
    """Refuse a column that is not of one plain type, or whose items cannot be told by text."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if is_item and type(kind).__name__ not in _COUNTABLE and not kind.is_integer():
        raise ValueError(
            f"column {name!r} must hold text, whole numbers or true and false to be counted; "
            "cast it to text first"
        )


def _grouped(frame: Any, names: list[str], schema: Any) -> Any:
    import narwhals as nw

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


def _is_number(value: Any) -> Any:
    """Whether a float is not NaN. (DuckDB's `isnan` trusts the statistics of Parquet files.)"""
    return value.is_finite() | (value == float("inf")) | (value == float("-inf"))


def _fetched(counted: Any, item: str) -> tuple[NDArray[Any], Integers]:
    """All counts, here in this process."""
    is_fimi = item == FIMI_ITEM
    items, found = quietly(lambda: _arrays(counted), NOT_FIMI if is_fimi else UNREADABLE)
    return _whole_numbers(items, found) if is_fimi else (items, found.astype(np.int64))


def _whole_numbers(words: NDArray[Any], found: NDArray[Any]) -> tuple[Integers, Integers]:
    """What a FIMI file calls its items: a word that is no whole number of a domain is none."""
    numbers = [whole(word) for word in words.tolist()]
    kept = [at for at, number in enumerate(numbers) if number is not None and is_within(number)]
    items = np.array([numbers[at] for at in kept], dtype=np.int64)
    return items, found[kept].astype(np.int64)


def _arrays(counted: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if counted.implementation.is_duckdb():
        arrays = counted.to_native().fetchnumpy()
        return arrays["item"], arrays["units"]
    collected = counted.lazy().collect()
    items, units = collected["item"], collected["units"].to_numpy()
    if items.dtype.is_numeric():
        return items.to_numpy(), units
    # Arrays of text would have the width of the longest, and lose NUL at the end.
    return np.array(items.to_list(), dtype=object), units


def _comparable(name: str, kind: Any) -> Any:
    """A column whose equal values are equal to every engine, and that can be fetched."""
    import narwhals as nw

    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def _over_domain(
    domain: Domain | None, items: NDArray[Any], found: Integers, origin: Origin
) -> CountsInMemory:
    """The counts of the domain's items; all others are dropped."""
    public = listed(sorted(items.tolist()), "") if domain is None else domain
    positions = public.positions(items)  # all different: every item has one text
    inside = positions >= 0
    return CountsInMemory(
        labels=public.labels,
        positions=positions[inside],
        counts=found[inside],
        sensitivity=Fraction(1),
        monotonic=origin.neighbours == ADD_OR_REMOVE,
        origin=origin,
    )
