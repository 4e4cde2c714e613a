"""Tables to private counts: how many distinct units each item has.

Any frame that Narwhals knows (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis, …), files, which
embedded DuckDB reads, and tables in databases take the same path: one counting query. Where an
engine holds the table, the counts stay there; otherwise they are fetched into memory.
"""

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap._package import public
from dpgap.data import query
from dpgap.data.domain import (
    Domain,
    Stated,
    column_digest,
    domain_of,
    is_within,
    read_domain,
    refuse_own_column,
    warn_of_oddities,
    whole,
    with_domain,
)
from dpgap.data.engines.base import Engine, engine_of
from dpgap.data.engines.counted import count_bounded, count_in_engine
from dpgap.data.filtering import keep
from dpgap.data.filters import Filter
from dpgap.data.private_counts import (
    UNREADABLE,
    CountsByGroup,
    CountsInMemory,
    Integers,
    PrivateCounts,
    errors_without_answers,
    quietly,
)
from dpgap.data.query import (
    CENTS,
    Bounds,
    count_all_units,
    count_units,
    read_bounds,
    require_exact_text,
    rows_of,
    states_numbers,
)
from dpgap.data.sources import (
    FIMI_ITEM,
    NOT_FIMI,
    Families,
    Frame,
    Source,
    columns_of,
    embedded_database,
    file_address,
    find_tables,
    guessed,
    hint_at,
    is_fimi,
    is_url,
    kind_of,
    read_file,
    require_columns,
    require_given,
    stated_columns,
    whole_words,
    with_valid_text,
)
from dpgap.data.values import arrow_texts, each_value, is_number, number_of
from dpgap.exact.parameters import Rational
from dpgap.releases.questions import ADD_OR_REMOVE, OBSERVED, Origin

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame


# --------------------------------------------------------------------------------------------------
# Frames of this process, handed to embedded DuckDB: one path for all that is more than counting.
#
# What a column is to DuckDB depends on the type that its frame states, never on its rows. The types
# of pandas follow the rows. So its units, items and groups become text there, and amounts floats.
# What a unit keeps is drawn by its text, and must not change with a type. Other units that are
# times become whole numbers.


def embed(frame: Frame, roles: dict[str, str], resources: ExitStack) -> Frame:
    """The columns of a frame that have roles, as a table in a DuckDB that `resources` keep."""
    names = list(dict.fromkeys(roles.values()))
    held = frame.select(*names)
    if isinstance(held, nw.LazyFrame):
        held = quietly(held.collect, UNREADABLE)
    if find_spec("pyarrow") is None:
        raise ImportError("frames need PyArrow for more than counts: pip install pyarrow")
    database, unit = resources.enter_context(embedded_database()), roles.get("unit")
    table = quietly(lambda: _with_whole_moments(_arrow(held, roles), unit), UNREADABLE)
    return quietly(lambda: nw.from_native(database.from_arrow(table)), UNREADABLE)


def _with_whole_moments(table: Any, unit: str | None) -> Any:
    """The same table; units that are times, days or durations are the numbers that Arrow has.

    In DuckDB times with a zone and durations have microseconds of 64 bits. One that is beyond them
    would refuse the call, and two that are nearer to each other would be one unit.
    """
    from pyarrow.types import is_temporal

    stated = None if unit is None else table.schema.field(unit).type
    kind = getattr(stated, "value_type", stated)  # of a dictionary, what it lists
    if kind is None or not is_temporal(kind):
        return table
    whole = table[unit].cast(kind).cast(f"int{kind.bit_width}")
    return table.set_column(table.column_names.index(unit), unit, whole)


def _arrow(frame: nw.DataFrame[Any], roles: dict[str, str]) -> Any:
    if not frame.implementation.is_pandas():
        return frame.to_arrow()
    import pyarrow

    table, types = frame.to_native(), guessed(frame)
    told = {name for role, name in roles.items() if role != "amount"}
    return pyarrow.table(
        {
            name: _of_pandas(table[name], is_told=name in told) if name in types else table[name]
            for name in frame.columns
        }
    )


def _of_pandas(column: Any, *, is_told: bool) -> Any:
    """A column whose type follows its rows: text, or floats if it has amounts and is no more."""
    if is_told:
        return arrow_texts(column)
    return column if is_number(column.dtype) else each_value(column, _float_of)


def _float_of(value: Any) -> float:
    """The number that a value is, or says; NaN where it is none."""
    if isinstance(value, str):
        return float(value) if query.is_number(value) else math.nan
    return number_of(value)


# --------------------------------------------------------------------------------------------------
# From a table as a user names it to its rows, in the engine that has them.
#
# A file is opened in embedded DuckDB. A frame of this process goes there too if more is asked than
# counts. All other tables stay where they are.


_FRAMES = (
    "a frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file or the address "
    "of a table in a database"
)


def find(
    table: Any,
    unit: str | None,
    item: str | None,
    domain: Any,
    more: Sequence[str],
    resources: ExitStack,
) -> Source:
    """Find a table by its path or address; or take the frame that was given."""
    if isinstance(table, str | os.PathLike) and not is_url(table):
        file = resources.enter_context(read_file(os.fspath(table), unit, item, more))
        return with_domain(file, domain)
    unit, item = require_given(unit, item)
    if is_url(table):
        return find_tables(table, unit, item, domain, resources)
    return Source(table, unit, item, domain)


def open_rows(
    source: Source, frame: Frame, bounds: Bounds, resources: ExitStack
) -> tuple[Engine | None, Frame]:
    """The rows that are asked about, and the engine that has them.

    There is none where a frame of this process, or a FIMI file, is only counted.
    """
    roles = roles_of(source, bounds)
    filtered = bounds.where.columns if bounds.where else ()
    columns = list(quietly(frame.collect_schema, UNREADABLE))
    if source.unit == "row" and "row" in {*columns, *dict(source.columns or ())}:
        raise ValueError("unit='row' is unclear: there is a column of that name; rename it")
    is_in_database = source.address is not None and source.database is None
    hint = hint_at(columns) if is_in_database else ""
    require_columns(columns, *roles.values(), *filtered, hint=hint)
    engine = engine_of(frame)
    if engine is not None and source.database is None:  # files have no collations
        engine.require_faithful()
        _require_exact(engine, frame, roles, bounds)
    if source.database is None:  # DuckDB has looked at the text of files
        text = partial(with_valid_text, frame, (*roles.values(), *filtered))
        frame = quietly(text, UNREADABLE)
    if bounds.where is not None:
        frame = _filtered(frame, bounds.where, engine)
    is_fimi = source.item == FIMI_ITEM
    if bounds.is_plain:
        return None if is_fimi else engine, frame
    if is_fimi and source.database is not None and source.path is not None:
        words = partial(whole_words, source.database, source.path)
        frame = as_frame(quietly(words, NOT_FIMI))
    elif engine is None:
        frame = embed(frame, roles, resources)
    return engine_of(frame), frame


def _filtered(frame: Frame, where: Filter, engine: Engine | None) -> Frame:
    kept: Frame = keep(frame, where, engine)
    return kept


def roles_of(source: Source, bounds: Bounds) -> dict[str, str]:
    """The columns that are looked at, by what they are for."""
    roles = {"unit": source.unit, "item": source.item, "group": bounds.by, "amount": bounds.column}
    if source.unit == "row":
        del roles["unit"]
    if source.item == source.unit == "row":  # nothing but rows is looked at
        del roles["item"]
    return {role: name for role, name in roles.items() if name is not None}


def _require_exact(engine: Engine, frame: Frame, roles: dict[str, str], bounds: Bounds) -> None:
    """Refuse sums that are not exact, and columns of which different texts are taken for equal.

    Units may be compared as their column likes, unless each needs an order of what it has.
    """
    is_ordered = bounds.max_items is not None or bounds.by is not None
    exact = ("item", "group", "unit") if is_ordered else ("item", "group")
    if bounds.column is not None and not quietly(engine.sums_exactly, UNREADABLE):
        raise ValueError(
            "sum needs a database that adds whole numbers exactly, which this one does not: copy "
            "the table into a Parquet file"
        )
    for role in (role for role in roles if role in exact):
        column = frame.lazy().select(roles[role]).rename({roles[role]: "item"})
        require_exact_text(engine, column, f"column {roles[role]!r}")
        if role == "unit" and not quietly(partial(engine.can_order, column, "item"), UNREADABLE):
            raise ValueError(
                f"column {roles[role]!r} must hold text, whole numbers, days or times where units "
                "are bounded: cast it to text first"
            )


def as_frame(table: object) -> Frame:
    frame: object = quietly(lambda: nw.from_native(table, pass_through=True), UNREADABLE)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"table must be {_FRAMES}, not {type(table).__name__}")
    return frame


def columns_told(source: Source, frame: Frame) -> Families:
    if source.columns is not None:
        return source.columns
    return quietly(lambda: columns_of(frame), UNREADABLE)


def table_facts(table: str) -> tuple[str, Families]:
    """Where a table is, spelt as releases spell it, and its columns with their families of types.

    Both come from the address and the schema, never from rows. A budget is bound to them.

    What is neither a file's name nor the address of a database is only a name.

    >>> table_facts("sales")
    ('sales', ())
    """
    if is_url(table):
        with ExitStack() as resources:
            source = find_tables(table, "", "", (), resources)
            frame = nw.from_native(source.table)
            return str(source.address), quietly(lambda: columns_of(frame), UNREADABLE)
    if kind_of(table) is None:
        return table, ()
    return file_address(table), stated_columns(table)


# --------------------------------------------------------------------------------------------------
# Tables to private counts: how many distinct units each item has.


Table: TypeAlias = "IntoFrame | str | os.PathLike[str]"
"""What can be counted: any frame that Narwhals knows, a file, or an address in a database."""
DomainLike: TypeAlias = "IntoFrame | Iterable[object] | str | os.PathLike[str]"
"""What can state the public items."""

ALL_UNITS = "units"
"""What the one item is called where all units are counted."""

NEIGHBOURS = (ADD_OR_REMOVE, "replace")
"""What may differ between neighbouring tables: one unit more or less, or one unit replaced."""

_NO_DOMAIN = "domain could not be read"


@public
@errors_without_answers
def counts(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    neighbours: str = NEIGHBOURS[0],
    max_items: int | None = None,
    by: str | None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = CENTS,
    where: str | None = None,
) -> PrivateCounts | CountsByGroup:
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
        items, "items.parquet:column", or a frame of one column. None with `max_items`: the items
        that are present, which nobody listed.
    neighbours
        What privacy hides: "add-or-remove" that a unit is there at all; "replace", which of two
        units it is, for twice the noise.
    max_items
        For how many items a unit counts at most, with groups for how many pairs of both. Which of
        them stay is drawn at random for each unit. Counts of units with many items become smaller.
    by, groups
        A column of groups, and its public values. The result has the counts of each group.
    max_groups
        In how many groups a unit counts at most; drawn at random for each unit. `by` needs it, but
        not for rows, each of which has one group.
    sum, at_most, at_least
        A column of amounts, to be added up instead of counting units; and the most and the least
        that a unit adds to an item, whatever it has. A row without a number has no amount.
    step
        What amounts are rounded to, row by row.
    where
        Which rows to look at, such as "country = 'CH' and amount >= 10".

    >>> import pandas
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, None], "what": ["fig", "fig", "fig", "pea"]})
    >>> counts(sold, unit="who", item="what", domain=["fig", "pea", "oat"])
    <private answers: 3 items, sensitivity 1, monotonic>
    """
    for column, stated, name in ((item, domain, "domain"), (by, groups, "groups")):
        if stated is not None:
            refuse_own_column(table, column, stated, name)
    bounds = read_bounds(
        is_unknown=domain is None,
        neighbours=require_neighbours(neighbours),
        is_row=unit == "row" and not is_fimi(table),
        max_items=max_items,
        by=by,
        groups=groups,
        max_groups=max_groups,
        sum=sum,
        at_most=at_most,
        at_least=at_least,
        step=step,
        where=where,
    )
    _require_names(unit=unit, item=item, by=by)
    with ExitStack() as resources:
        source = find(table, unit, item, domain, bounds.columns, resources)
        frame = as_frame(source.table)
        columns = columns_told(source, frame)
        engine, rows = open_rows(source, frame, bounds, resources)
        public, words = _read_domain(source.domain, _beside(source, engine_of(frame), rows, bounds))
        origin = Origin(
            unit=unit or "line",
            item=item or "item",
            domain=words,
            neighbours=neighbours,
            is_private=public is not None or domain is None,
            table=source.name,
            address=source.address,
            columns=columns,
            digest=_digest(public, source.domain_address, domain),
            unknown=domain is None,
            sum_of_text=bounds.column is not None and not states_numbers(frame, bounds.column),
            **_bounds_told(bounds),
        )
        facts = _facts(bounds, public, origin, is_row=source.unit == "row")
        if engine is None:
            return _in_memory(rows, source, public, facts)
        if bounds.is_plain:
            counted = count_units(rows, source.unit, source.item).lazy()
            return count_in_engine(engine, counted, public, facts, resources)
        given = rows_of(rows, roles_of(source, bounds)).lazy()
        return count_bounded(engine, given, bounds, public, facts, resources)


@errors_without_answers
def units_of(
    table: Table,
    *,
    unit: str | None = None,
    neighbours: str = NEIGHBOURS[0],
    where: str | None = None,
) -> PrivateCounts:
    """Count all distinct units, as the one item of a domain: of how many is this?

    Parameters are as for `counts`. Of a FIMI file, lines with at least one word are counted.
    """
    bounds = read_bounds(is_unknown=False, neighbours=require_neighbours(neighbours), where=where)
    _require_names(unit=unit)
    with ExitStack() as resources:
        source = find(table, unit, "row" if unit is None else unit, None, bounds.columns, resources)
        frame = as_frame(source.table)
        columns = columns_told(source, frame)
        engine, rows = open_rows(source, frame, bounds, resources)
        found = _fetch_units(rows, source.unit, engine or engine_of(rows))
        origin = Origin(
            unit=unit or "line",
            item=ALL_UNITS,
            domain="all units together",
            neighbours=neighbours,
            is_private=True,
            table=source.name,
            address=source.address,
            columns=columns,
            digest=domain_of([ALL_UNITS], "").digest,
            **_bounds_told(bounds),
        )
        facts = _facts(bounds, None, origin, is_row=True)
        return CountsInMemory((ALL_UNITS,), np.array([0]), np.array([found]), **facts)


def require_neighbours(neighbours: object) -> str:
    """Refuse a relation between tables that is not known."""
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    return str(neighbours)


def _require_names(**named: object) -> None:
    """Refuse what names no column, or names one twice."""
    for role, value in named.items():
        if not isinstance(value, str | None):
            raise TypeError(f"{role} must be the name of a column, not {type(value).__name__}")
    given = {role: value for role, value in named.items() if value is not None}
    for (one, its), (other, name) in combinations(given.items(), 2):
        if its == name:
            raise ValueError(f"{one} and {other} must be different columns")


def _beside(source: Source, engine: Engine | None, rows: Frame, bounds: Bounds) -> Frame | None:
    """The rows that a domain may stand beside, in the table's own engine; with groups none."""
    is_apart = source.database is not None and source.domain_address is None
    return None if engine is None or is_apart or bounds.by is not None else rows


def _bounds_told(bounds: Bounds) -> dict[str, Any]:
    """What an origin tells of the bounds."""
    told = {
        "max_items": bounds.max_items,
        "by": bounds.by,
        "max_groups": bounds.max_groups,
        "sum": bounds.column,
        "at_most": bounds.at_most,
        "at_least": bounds.at_least,
        "step": bounds.step,
        "where": None if bounds.where is None else bounds.where.text,
    }
    if bounds.groups is not None:
        told |= {"groups": len(bounds.groups.labels), "groups_digest": bounds.groups.digest}
    return told


def _facts(bounds: Bounds, public: Stated, origin: Origin, *, is_row: bool) -> dict[str, Any]:
    """What answers say of themselves."""
    reach = 1 if is_row else bounds.max_items
    pairs = len(public.labels) if isinstance(public, Domain) else None
    if pairs is not None and bounds.groups is not None:
        pairs *= len(bounds.groups.labels)
    if reach is not None and pairs is not None:
        reach = min(reach, pairs)
    return {
        "sensitivity": bounds.sensitivity(origin.neighbours),
        "monotonic": bounds.is_monotonic(origin.neighbours),
        "origin": origin,
        "reach": reach if origin.neighbours == ADD_OR_REMOVE else None,
        "step": bounds.step,
        "unknown": origin.unknown,
    }


def _fetch_units(rows: Frame, unit: str, engine: Engine | None) -> int:
    units = count_all_units(rows, unit).lazy()
    if engine is not None:
        return int(quietly(lambda: engine.rows(units), UNREADABLE)[0][0])
    return int(quietly(lambda: units.collect().item(), UNREADABLE))


def _in_memory(
    frame: Frame, source: Source, public: Stated, facts: dict[str, Any]
) -> CountsInMemory:
    """Plain counts, fetched into this process."""
    counted, has_lines = count_units(frame, source.unit, source.item), source.item == FIMI_ITEM
    known = public if isinstance(public, Domain) else None
    if known is not None and (has_lines or states_numbers(frame, source.item)):
        known.require_numbers()
    return _over_domain(known, *_fetch(counted, has_lines), facts)


def _read_domain(domain: Any, beside: Frame | None) -> tuple[Stated, str]:
    """The domain, None if observed, and words. A frame of the engine of `beside` stays a frame."""
    if domain is None:
        return None, "the items that are present"
    if isinstance(domain, str) and domain == OBSERVED:
        return None, "the items observed in the table"
    column = nw.from_native(domain, pass_through=True)
    if not isinstance(column, nw.DataFrame | nw.LazyFrame):
        public = read_domain(domain)
        return public, public.words
    names = list(quietly(column.collect_schema, _NO_DOMAIN))
    if len(names) != 1:
        raise ValueError("domain must be a frame of one column: select it")
    words = f"column {names[0]!r} of a public table"
    is_near = beside is not None and column.implementation == beside.implementation
    if isinstance(column, nw.LazyFrame) and is_near:
        return column.rename({names[0]: "item"}), words
    values = quietly(lambda: column.lazy().collect()[names[0]].to_list(), _NO_DOMAIN)
    return warn_of_oddities(domain_of(values, words + ": {count} items")), words


def _digest(public: Stated, address: str | None, stated: Any) -> str | None:
    """A hash of the domain; of its address where it is never fetched; None if nobody can tell it.

    Nobody can tell items that were observed, which are private, and a frame that an engine keeps.
    """
    if isinstance(public, Domain):
        return public.digest
    return None if address is None else column_digest(address, stated.rpartition(":")[2])


def _fetch(counted: Frame, has_lines: bool) -> tuple[NDArray[Any], Integers]:
    """All counts, here in this process."""
    items, found = quietly(lambda: _arrays(counted), NOT_FIMI if has_lines else UNREADABLE)
    return _whole_numbers(items, found) if has_lines else (items, found.astype(np.int64))


def _whole_numbers(words: NDArray[Any], found: NDArray[Any]) -> tuple[Integers, Integers]:
    """What a FIMI file calls its items: a word that is no whole number of a domain is none."""
    numbers = [whole(word) for word in words.tolist()]
    kept = [at for at, number in enumerate(numbers) if number is not None and is_within(number)]
    items = np.array([numbers[at] for at in kept], dtype=np.int64)
    return items, found[kept].astype(np.int64)


def _arrays(counted: Frame) -> tuple[NDArray[Any], NDArray[Any]]:
    if counted.implementation.is_duckdb():
        arrays = counted.to_native().fetchnumpy()
        return arrays["item"], arrays["units"]
    collected = counted.lazy().collect()
    items, units = collected["item"], collected["units"].to_numpy()
    if items.dtype.is_numeric():
        return items.to_numpy(), units
    # Arrays of text would have the width of the longest, and lose NUL at the end.
    return np.array(items.to_list(), dtype=object), units


def _over_domain(
    domain: Domain | None, items: NDArray[Any], found: Integers, facts: dict[str, Any]
) -> CountsInMemory:
    """The counts of the domain's items; all others are dropped."""
    public = domain_of(sorted(items.tolist()), "") if domain is None else domain
    positions = public.positions(items)  # all different: every item has one text
    inside = positions >= 0
    return CountsInMemory(
        labels=public.labels,
        positions=positions[inside],
        counts=found[inside],
        **facts,
    )
