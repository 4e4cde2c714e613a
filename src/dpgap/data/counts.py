"""Tables to private counts: how many distinct units each item has.

Any frame that Narwhals knows (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis, …), files, which
embedded DuckDB reads, and tables in databases take the same path: one counting query. Where an
engine holds the table, the counts stay there; otherwise they are fetched into memory.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap import public
from dpgap.data.addresses import Families, columns_of, file_address, find_tables, is_url
from dpgap.data.domain import (
    Domain,
    column_beside,
    column_digest,
    domain_of,
    is_within,
    read_domain,
    refuse_own_column,
    warn_of_oddities,
    whole,
)
from dpgap.data.engines.base import engine_of
from dpgap.data.engines.counted import count_in_engine, require_exact_text
from dpgap.data.files import FIMI_ITEM, NOT_FIMI, read_file
from dpgap.data.private_counts import CountsInMemory, Integers, PrivateCounts
from dpgap.data.query import count_units, states_numbers
from dpgap.data.tracebacks import UNREADABLE, errors_without_answers, quietly
from dpgap.releases.questions import ADD_OR_REMOVE, OBSERVED, Origin

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

Table: TypeAlias = "IntoFrame | str | os.PathLike[str]"
"""What can be counted: any frame that Narwhals knows, a file, or an address in a database."""
DomainLike: TypeAlias = "IntoFrame | Iterable[object] | str | os.PathLike[str]"
"""What can state the public items."""

NEIGHBOURS = (ADD_OR_REMOVE, "replace")
"""What may differ between neighbouring tables: one unit more or less, or one unit replaced."""

_FRAMES = (
    "a frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file or the address "
    "of a table in a database"
)
_NO_DOMAIN = "domain could not be read"


@public
@errors_without_answers
def counts(
    table: Table,
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
    refuse_own_column(table, item, domain)
    with ExitStack() as resources:
        source = _open(table, unit, item, domain, resources)
        frame, is_fimi = source.frame, source.item == FIMI_ITEM
        engine = None if is_fimi else engine_of(frame)
        stays = engine is not None and (not source.is_file or source.domain_address is not None)
        public, words = _read_domain(source.domain, frame if stays else None)
        counted = count_units(frame, source.unit, source.item)
        origin = Origin(
            unit=unit or "line",
            item=item or "item",
            domain=words,
            neighbours=neighbours,
            is_private=public is not None,
            table=source.name,
            address=source.address,
            columns=source.columns,
            digest=_digest(public, source.domain_address, domain),
        )
        if engine is not None:
            if not source.is_file:  # files have no collations
                column = frame.select(source.item).rename({source.item: "item"})
                require_exact_text(engine, column, f"column {source.item!r}")
            return count_in_engine(engine, counted, public, origin, resources)
        if public is not None and (is_fimi or states_numbers(frame, source.item)):
            public.require_numbers()
        return _over_domain(public, *_fetch(counted, is_fimi), origin)


def require_neighbours(neighbours: object) -> str:
    """Refuse a relation between tables that is not known."""
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    return str(neighbours)


class Source(NamedTuple):
    """A table that was found and opened, with its domain and what is public of both."""

    frame: Any
    """A frame of Narwhals."""
    unit: str
    item: str
    """What the two columns are called in the frame."""
    columns: Families
    domain: Any
    """As it was stated, or a column beside the table."""
    domain_address: str | None = None
    """Where the table is of which the domain is a column, if it stands beside this one."""
    name: str | None = None
    address: str | None = None
    is_file: bool = False


def _open(
    table: Any, unit: str | None, item: str | None, domain: Any, resources: ExitStack
) -> Source:
    """Find a table by its path or address; or take the frame that was given."""
    if isinstance(table, str | os.PathLike) and not is_url(table):
        view = resources.enter_context(read_file(os.fspath(table), unit, item))
        public = column_beside(domain, view)
        beside = None if public is domain else file_address(domain.rpartition(":")[0])
        frame, name, address = _as_frame(view.table), os.path.basename(table), file_address(table)
        return Source(frame, *view[1:4], public, beside, name, address, is_file=True)
    found: tuple[Any, ...] = (table, domain)
    if is_url(table):
        found = find_tables(table, domain, resources)
    if unit is None or item is None:
        raise TypeError("unit and item must be given: the names of two columns")
    frame = _as_frame(found[0])
    return Source(frame, unit, item, quietly(lambda: columns_of(frame), UNREADABLE), *found[1:])


def _as_frame(table: Any) -> Any:
    frame: Any = quietly(lambda: nw.from_native(table, pass_through=True), UNREADABLE)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"table must be {_FRAMES}, not {type(table).__name__}")
    return frame


def _read_domain(domain: Any, beside: Any) -> tuple[Any, str]:
    """The domain, None if observed, and words. A frame of the engine of `beside` stays a frame."""
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
    is_lazy = isinstance(column, nw.LazyFrame)
    if is_lazy and beside is not None and column.implementation == beside.implementation:
        return column.rename({names[0]: "item"}), words
    values = quietly(lambda: column.lazy().collect()[names[0]].to_list(), _NO_DOMAIN)
    return warn_of_oddities(domain_of(values, words + ": {count} items")), words


def _digest(public: Any, address: str | None, stated: Any) -> str | None:
    """A hash of the domain; of its address where it is never fetched; None if nobody can tell it.

    Nobody can tell items that were observed, which are private, and a frame that an engine keeps.
    """
    if isinstance(public, Domain):
        return public.digest
    return None if address is None else column_digest(address, stated.rpartition(":")[2])


def _fetch(counted: Any, is_fimi: bool) -> tuple[NDArray[Any], Integers]:
    """All counts, here in this process."""
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


def _over_domain(
    domain: Domain | None, items: NDArray[Any], found: Integers, origin: Origin
) -> CountsInMemory:
    """The counts of the domain's items; all others are dropped."""
    public = domain_of(sorted(items.tolist()), "") if domain is None else domain
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
