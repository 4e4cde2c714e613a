"""From a table as a user names it to its rows, in the engine that has them.

A file is opened in embedded DuckDB. A frame of this process goes there too if more is asked than
counts. All other tables stay where they are.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw

from dpgap.data.addresses import (
    Families,
    Frame,
    Source,
    columns_of,
    file_address,
    find_tables,
    hint_at,
    is_url,
    require_columns,
    require_given,
)
from dpgap.data.bounds import Bounds
from dpgap.data.domain import with_domain
from dpgap.data.embedded import embed
from dpgap.data.engines.base import Engine, engine_of
from dpgap.data.engines.narrowing import require_exact_text
from dpgap.data.files import (
    FIMI_ITEM,
    NOT_FIMI,
    kind_of,
    read_file,
    stated_columns,
    whole_words,
)
from dpgap.data.tracebacks import UNREADABLE, quietly
from dpgap.data.utf8 import with_valid_text

if TYPE_CHECKING:
    from dpgap.data.filters import Filter

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


def _filtered(frame: Frame, where: "Filter", engine: Engine | None) -> Frame:
    from dpgap.data.filtering import keep

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
