"""Tables to private counts: how many distinct units each item has.

One counting query serves all tables: frames that Narwhals knows (pandas, Polars, PyArrow, DuckDB,
PySpark, Ibis, …), files (embedded DuckDB reads them), and tables in databases. If an engine holds
the table, the counts stay there; otherwise they are fetched into memory.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap._package import public
from dpgap.data import frames, query, sources
from dpgap.data.domain import (
    Domain,
    Stated,
    column_digest,
    domain_of,
    read_domain,
    read_groups,
    refuse_own_column,
    warn_of_oddities,
    with_domain,
)
from dpgap.data.engines.base import Engine, engine_of
from dpgap.data.engines.counted import count_in_engine
from dpgap.data.engines.sqlite import SQLiteRows
from dpgap.data.filtering import keep, require_comparable
from dpgap.data.private_counts import (
    CountsByGroup,
    CountsInMemory,
    Integers,
    PrivateCounts,
    errors_without_answers,
    require_possible,
    tally,
    with_masked_errors,
)
from dpgap.data.sources import Families, Frame, Source
from dpgap.exact.parameters import Rational
from dpgap.question import OBSERVED, Counting, Neighbours, Question, read_counting

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    from dpgap.question import DomainLike


# --------------------------------------------------------------------------------------------------
# From a table as a user names it to its rows, in the engine that has them.
#
# A file is opened in embedded DuckDB. A frame of this process is copied there too, if the question
# is more than counting. All other tables stay where they are.


def find(
    table: Any,
    unit: str | None,
    item: str | None,
    domain: Any,
    question: Question,
    resources: ExitStack,
) -> Source:
    """Find a table by its path or address; or take the frame that was given."""
    if isinstance(table, str | os.PathLike) and not sources.is_url(table):
        path = os.fspath(table)
        if question.decimal != "." and sources.kind_of(path) == "json":
            raise ValueError(
                "decimal must be left out for JSON lines, which have numbers of their own"
            )
        is_cut = not question.is_plain
        opened = sources.read_file(path, unit, item, question.looked_at, question.encoding, is_cut)
        return with_domain(resources.enter_context(opened), domain)
    if question.encoding is not None or question.decimal != ".":
        raise ValueError(
            "encoding and decimal must be left out for a frame or a database: they say how the "
            "text of a file is read"
        )
    unit, item = sources.require_given(unit, item)
    if sources.is_url(table):
        return sources.find_tables(table, unit, item, domain, resources)
    return Source(table, unit, item, domain)


class OpenTable(NamedTuple):
    """A table that was opened: its facts, and the rows that a question is about."""

    table: Frame
    """The frame as the user gave it, or the table that was found."""
    question: Question
    """The question, with the facts of the table. They come from its address and schema."""
    engine: Engine | None
    """The engine of the rows; None if a frame of pandas is only counted."""
    rows: Frame
    roles: dict[str, str]
    """The columns of the rows that are read, by their roles."""

    @property
    def is_fetched(self) -> bool:
        """Whether counts are fetched: those of a frame of this process that is only counted."""
        return self.question.is_plain and engine_of(self.table) is None


def open_rows(source: Source, question: Question, resources: ExitStack) -> OpenTable:
    """Find the rows of a table that a question is about, in the engine that has them."""
    roles = roles_of(source, question)
    read = (*roles.values(), *(question.where.columns if question.where else ()))
    source = _with_rows_of_sqlite(source, read)
    table = as_frame(source.table)
    columns = source.columns
    if columns is None:
        columns = with_masked_errors(lambda: sources.columns_of(table))
    names = list(with_masked_errors(table.collect_schema))
    if source.unit == "row" and "row" in {*names, *dict(source.columns or ())}:
        raise ValueError("unit='row' is unclear: there is a column of that name; rename it")
    is_in_database = source.address is not None and source.database is None
    sources.require_columns(names, *read, is_stated=is_in_database)
    if read and source.database is None and frames.is_typed(table, read):
        rows, roles = _typed_rows(table, question, roles, read, resources)
    else:
        rows, roles = _rows_in_place(source, table, question, roles, read, resources)
    question = replace(question, table=source.name, address=source.address, columns=columns)
    if question.sum is not None:
        question = replace(question, sum_of_text=not query.states_numbers(table, question.sum))
    return OpenTable(table, question, engine_of(rows), rows, roles)


def _typed_rows(
    table: Frame,
    question: Question,
    roles: dict[str, str],
    read: Sequence[str],
    resources: ExitStack,
) -> tuple[Frame, dict[str, str]]:
    """The rows of a typed frame of this process, in embedded DuckDB, and their columns by roles."""
    values = frames.collect(table, read)
    if question.where is not None:
        require_comparable(values, question.where, frames.columns_of(values))
    embedded = frames.embed(values, roles, resources)
    rows: Frame = embedded.rows
    if question.where is not None:
        rows = keep(rows, question.where, columns=embedded.columns)
    return rows, embedded.renamed(roles)


def _rows_in_place(
    source: Source,
    table: Frame,
    question: Question,
    roles: dict[str, str],
    read: Sequence[str],
    resources: ExitStack,
) -> tuple[Frame, dict[str, str]]:
    """The rows of a table where it is, and their columns by roles.

    A frame of pandas is copied into embedded DuckDB if the question is more than counting.
    """
    rows = table
    engine = engine_of(table)
    if engine is not None and source.database is None:  # files have no collations
        engine.require_faithful()
        _require_exact(engine, table, roles, question)
    if source.database is None:  # DuckDB has checked the text of files
        rows = with_masked_errors(lambda: sources.with_valid_text(table, read))
    if question.where is not None:
        rows = keep(rows, question.where, engine, question.decimal)
    if engine is not None or question.is_plain:
        return rows, roles
    embedded = frames.embed(frames.typed_by_values(rows, roles), roles, resources)
    return embedded.rows, embedded.renamed(roles)


def _require_decimal(table: Any, question: Question, stated: str | None) -> None:
    """Ask for the decimal mark if it is not stated, and may well be a comma."""
    if question.sum is not None and stated is None and sources.has_semicolons(table):
        raise ValueError(
            "decimal must be stated for a sum over a file with semicolons: ',' if amounts are "
            "written as 16,48, '.' if they are written as 16.48"
        )


def roles_of(source: Source, question: Question) -> dict[str, str]:
    """The columns that are read, by their roles (unit, item, group, amount)."""
    roles = {}
    if source.unit != "row":
        roles["unit"] = source.unit
    if source.item != source.unit:  # else nothing but units is looked at
        roles["item"] = source.item
    if question.by is not None:
        roles["group"] = question.by
    if question.sum is not None:
        roles["amount"] = question.sum
    return roles


def _require_exact(engine: Engine, frame: Frame, roles: dict[str, str], question: Question) -> None:
    """Refuse columns in which different texts count as equal.

    The column's collation may decide which units are equal, except with `max_items` or `by`.
    """
    is_ordered = question.max_items is not None or question.by is not None
    exact = ("item", "group", "unit") if is_ordered else ("item", "group")
    for role in (role for role in roles if role in exact):
        column = frame.lazy().select(roles[role]).rename({roles[role]: "item"})
        query.require_exact_text(engine, column, f"column {roles[role]!r}")
        if role == "unit" and not with_masked_errors(partial(engine.can_order, column, "item")):
            raise ValueError(
                f"column {roles[role]!r} must hold text, whole numbers, days or times where units "
                "are bounded: cast it to text first"
            )


_FRAMES = (
    nw.Implementation.PANDAS,
    nw.Implementation.POLARS,
    nw.Implementation.PYARROW,
    nw.Implementation.DUCKDB,
    nw.Implementation.PYSPARK,
    nw.Implementation.PYSPARK_CONNECT,
    nw.Implementation.IBIS,
)
"""The frames that twins have tested. Others may group rows by something else than what is read."""


def as_frame(table: object) -> Frame:
    frame: object = with_masked_errors(lambda: nw.from_native(table, pass_through=True))
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame) or frame.implementation not in _FRAMES:
        raise TypeError(
            "table must be a frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a "
            f"file or the address of a table in a database, not {type(table).__name__}"
        )
    database = with_masked_errors(partial(sources.database_of, frame))
    if database is not None and database not in sources.DATABASES:
        raise ValueError(sources.OTHER_DATABASE)
    return frame


def _with_rows_of_sqlite(source: Source, names: Sequence[str]) -> Source:
    """The same source; if it is in SQLite, these columns are read into this process."""
    rows = source.table
    if not isinstance(rows, SQLiteRows):
        frame = as_frame(source.table)
        if sources.database_of(frame) != "sqlite":
            return source
        expression = frame.to_native()
        database = expression.get_backend()
        query = with_masked_errors(lambda: database.compile(expression))
        rows = SQLiteRows(database.con, query)
    columns = with_masked_errors(lambda: rows.families)
    sources.require_columns([*dict(columns)], *names, is_stated=True)
    texts = with_masked_errors(lambda: rows.select(*dict.fromkeys(names)))
    return source._replace(table=texts, columns=columns)


def table_facts(table: str) -> tuple[str, Families]:
    """The address of a table as releases write it, and its columns with their families of types.

    Both come from the address and the schema, never from rows. A budget is bound to them. Text that
    is neither a file's name nor the address of a database is only a name.

    >>> table_facts("sales")
    ('sales', ())
    """
    if sources.is_url(table):
        with ExitStack() as resources:
            source = sources.find_tables(table, "", "", (), resources)
            if source.columns is not None:
                return str(source.address), source.columns
            frame = nw.from_native(source.table)
            return str(source.address), with_masked_errors(lambda: sources.columns_of(frame))
    if sources.kind_of(table) is None:
        return table, ()
    return os.path.realpath(table), sources.stated_columns(table)


# --------------------------------------------------------------------------------------------------


Table: TypeAlias = "IntoFrame | str | os.PathLike[str]"
"""The types that can be counted: a frame that Narwhals knows, a file, an address in a database."""

ALL_UNITS = "units"
"""The name of the one item, if all units are counted."""

_NO_DOMAIN = "domain could not be read"


@overload
def counts(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    max_items: int | None = None,
    by: None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
) -> PrivateCounts: ...
@overload
def counts(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    max_items: int | None = None,
    by: str,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
) -> CountsByGroup: ...
@public
@errors_without_answers
def counts(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    max_items: int | None = None,
    by: str | None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
) -> PrivateCounts | CountsByGroup:
    """Count the distinct units of every item of a public domain, to ask about them several times.

    The counts are private: only mechanisms can read them.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales".
    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    item
        The column whose values are counted.
    domain
        The public items: a list, a range, a file of items, "items.parquet:column", in a database
        also "table:column", or a frame of one column; without it, all items that occur count
        (needs `max_items`). The list must not be read from the private table.
    max_items
        The most items that a unit counts for; if it has more, this many are drawn at random. A
        smaller number means less noise, but lower counts if units have more items. With `by` it is
        the most pairs of group and item.
    by
        The column of the groups: each group gets an answer.
    groups
        The public groups, in the order of the answer: a list.
    max_groups
        The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each unit
        counts in one group only, drawn at random. More than one divides ε among them.
    sum
        The column whose amounts are added up, instead of counting units.
    at_most
        With `sum`: the most that a unit adds to a sum. The noise grows with it.
    at_least
        With `sum`: the least that a unit adds to a sum, 0 or below.
    step
        With `sum`: what each row's amount is rounded to.
    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are; with twice the noise.
    encoding
        How the text of a CSV file is encoded, unless it is UTF-8: "latin-1", "cp1252" or "utf-16".
        If you state one, even "utf-8", a field that cannot be decoded is a missing value.
        Otherwise such a file is refused.
    decimal
        The decimal mark of numbers in the text of a file: "." or ",". With ",", 1.234,56 and
        1 234,56 are numbers. A sum over a file with semicolons needs it; else the default is ".".

    >>> import pandas
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, None], "what": ["fig", "fig", "fig", "pea"]})
    >>> counts(sold, unit="who", item="what", domain=["fig", "pea", "oat"])
    <private answers: 3 items, sensitivity 1, monotonic>
    """
    counting = Counting(
        unit=unit,
        item=item,
        domain=domain,
        max_items=max_items,
        by=by,
        groups=groups,
        max_groups=max_groups,
        sum=sum,
        at_most=at_most,
        at_least=at_least,
        step=step,
        where=where,
        neighbours=neighbours,
        encoding=encoding,
        decimal=decimal,
    )
    return count_items(table, counting)


@errors_without_answers
def count_items(table: Table, counting: Counting) -> PrivateCounts | CountsByGroup:
    """Count the distinct units of every item, or add up their amounts."""
    by = counting.by
    domain = counting.domain
    if domain is not None:
        refuse_own_column(table, counting.item, domain, "domain")
    if counting.groups is not None:
        refuse_own_column(table, by, counting.groups, "groups")
    is_row = counting.unit == "row" and not sources.is_fimi(table)
    asked = read_counting(counting, is_unknown=domain is None, is_row=is_row)
    groups = None if by is None else read_groups(counting.groups)
    if groups is not None:
        asked = asked.among(len(groups.labels), groups.digest)
    with ExitStack() as resources:
        source = find(table, counting.unit, counting.item, domain, asked, resources)
        _require_decimal(table, asked, counting.decimal)
        opened = open_rows(source, asked, resources)
        # A domain may be a frame in the table's engine, unless there are groups.
        is_apart = source.database is not None and source.domain_address is None
        is_beside = engine_of(opened.table) is not None and not is_apart and by is None
        public, words = _read_domain(source.domain, opened.rows if is_beside else None)
        # Observed items, and a domain that stays in its engine, are not read here: no digest.
        digest = public.digest if isinstance(public, Domain) else None
        if digest is None and source.domain_address is not None:  # it is never fetched
            digest = column_digest(source.domain_address, str(domain).rpartition(":")[2])
        is_private = public is not None or domain is None
        question = replace(opened.question, domain=words, is_private=is_private, digest=digest)
        facts = _facts(question, public, is_row=source.unit == "row")
        if opened.is_fetched:
            return _in_memory(opened, source.item, public, facts)
        assert opened.engine is not None
        rows = query.rows_of(opened.rows, opened.roles).lazy()
        return count_in_engine(opened.engine, rows, public, groups, facts, resources)


@errors_without_answers
def units_of(table: Table, counting: Counting) -> PrivateCounts:
    """Count all distinct units, or add up their amounts, as the one item of a domain.

    Of a FIMI file, lines with at least one word are counted.
    """
    asked = read_counting(counting)
    with ExitStack() as resources:
        item = "row" if counting.unit is None else counting.unit
        source = find(table, counting.unit, item, None, asked, resources)
        _require_decimal(table, asked, counting.decimal)
        opened = open_rows(source, asked, resources)
        total = _fetch_total(opened)
        digest = domain_of([ALL_UNITS], "").digest
        question = replace(
            opened.question, item=ALL_UNITS, domain="all units together", digest=digest
        )
        # Every change of a unit moves only this one answer.
        facts = _facts(question, None, is_row=True) | {"reach": 1}
        return CountsInMemory((ALL_UNITS,), np.array([0]), np.array([total]), **facts)


def _facts(question: Question, public: Stated, *, is_row: bool) -> dict[str, Any]:
    """The facts that answers carry."""
    reach = 1 if is_row else question.max_items
    if reach is not None and isinstance(public, Domain):
        reach = min(reach, len(public.labels) * (question.groups or 1))
    return {
        "sensitivity": question.sensitivity,
        "monotonic": question.is_monotonic,
        "origin": question,
        "reach": reach if question.neighbours is Neighbours.ADD_OR_REMOVE else None,
        "step": question.step,
        "unknown": question.unknown,
    }


def _fetch_total(opened: OpenTable) -> int:
    """The total of all units for an item that all rows have, added up as `count_in_engine` does."""
    roles = {role: name for role, name in opened.roles.items() if role != "item"}
    rows: Any = query.rows_of(opened.rows, roles) if roles else opened.rows

    def fetch() -> list[Any]:
        total = rows.select(nw.len())
        if roles:
            of_one_item = rows.with_columns(item=nw.lit(0))
            added = query.add_up(opened.engine, of_one_item, opened.question, 1)
            total = added.select("units")
        if opened.engine is None:
            return list(total.lazy().collect().rows())
        return opened.engine.rows(total.lazy())

    totals = with_masked_errors(fetch)
    return int(totals[0][0]) if totals else 0


def _in_memory(
    opened: OpenTable, item: str, public: Stated, facts: dict[str, Any]
) -> CountsInMemory:
    """Plain counts, fetched into this process."""
    rows: Any = query.rows_of(opened.rows, opened.roles)
    domain = public if isinstance(public, Domain) else None
    if domain is not None and query.states_numbers(opened.table, item):
        domain.require_numbers()
    counted = query.add_up(opened.engine, rows, opened.question, None)
    items, units = with_masked_errors(lambda: _fetch_counts(counted))
    if domain is None:
        domain = domain_of(sorted(items.tolist()), "")
    positions = domain.positions(items)
    inside = positions >= 0
    most = tally(positions[inside])[1].max(initial=1)
    require_possible(units, most == 1, facts["origin"])
    return CountsInMemory(domain.labels, positions[inside], units[inside], **facts)


def _fetch_counts(counted: Frame) -> tuple[NDArray[Any], Integers]:
    """The items that were counted, and their units."""
    if isinstance(counted, nw.LazyFrame):
        columns = counted.sort("item").to_native().fetchnumpy()
        return columns["item"], columns["units"].astype(np.int64)
    items = counted["item"]
    units = counted["units"].to_numpy().astype(np.int64)
    if items.dtype.is_numeric():
        return items.to_numpy(), units
    # Arrays of text would have the width of the longest, and lose NUL at the end.
    return np.array(items.to_list(), dtype=object), units


def _read_domain(domain: Any, beside: Frame | None) -> tuple[Stated, str]:
    """The domain (None if observed), and words for it. A frame in `beside`'s engine stays there."""
    if domain is None:
        return None, "the items that are present"
    if isinstance(domain, str) and domain == OBSERVED:
        return None, "the items observed in the table"
    column = nw.from_native(domain, pass_through=True)
    if not isinstance(column, nw.DataFrame | nw.LazyFrame):
        public = read_domain(domain)
        return public, public.words
    names = list(with_masked_errors(column.collect_schema, _NO_DOMAIN))
    if len(names) != 1:
        raise ValueError("domain must be a frame of one column: select it")
    words = f"column {names[0]!r} of a public table"
    is_near = beside is not None and column.implementation == beside.implementation
    if isinstance(column, nw.LazyFrame) and is_near:
        return column.rename({names[0]: "item"}), words
    values = with_masked_errors(lambda: column.lazy().collect()[names[0]].to_list(), _NO_DOMAIN)
    return warn_of_oddities(domain_of(values, words + ": {count} items")), words
