"""Tables to private counts: how many distinct units each item has.

Any frame that Narwhals knows (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis, …), files, which
embedded DuckDB reads, and tables in databases take the same path: one counting query. Where an
engine holds the table, the counts stay there; otherwise they are fetched into memory.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap import public
from dpgap.data.addresses import (
    Families,
    Frame,
    Source,
    columns_of,
    find_tables,
    is_url,
)
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
        source = _find(table, unit, item, domain, resources)
        frame, is_fimi = _as_frame(source.table), source.item == FIMI_ITEM
        engine = None if is_fimi else engine_of(frame)
        is_file = source.database is not None
        stays = engine is not None and (not is_file or source.domain_address is not None)
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
            columns=_columns(source, frame),
            digest=_digest(public, source.domain_address, domain),
        )
        if engine is not None:
            if not is_file:  # files have no collations
                column = frame.lazy().select(source.item).rename({source.item: "item"})
                require_exact_text(engine, column, f"column {source.item!r}")
            return count_in_engine(engine, counted.lazy(), public, origin, resources)
        known = public if isinstance(public, Domain) else None
        if known is not None and (is_fimi or states_numbers(frame, source.item)):
            known.require_numbers()
        return _over_domain(known, *_fetch(counted, is_fimi), origin)


def require_neighbours(neighbours: object) -> str:
    """Refuse a relation between tables that is not known."""
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {neighbours!r}")
    return str(neighbours)


def _find(
    table: Any, unit: str | None, item: str | None, domain: Any, resources: ExitStack
) -> Source:
    """Find a table by its path or address; or take the frame that was given."""
    if isinstance(table, str | os.PathLike) and not is_url(table):
        file = resources.enter_context(read_file(os.fspath(table), unit, item))
        return with_domain(file, domain)
    if unit is None or item is None:
        raise TypeError("unit and item must be given: the names of two columns")
    if is_url(table):
        return find_tables(table, unit, item, domain, resources)
    return Source(table, unit, item, domain)


def _as_frame(table: object) -> Frame:
    frame: object = quietly(lambda: nw.from_native(table, pass_through=True), UNREADABLE)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(f"table must be {_FRAMES}, not {type(table).__name__}")
    return frame


def _columns(source: Source, frame: Frame) -> Families:
    if source.columns is not None:
        return source.columns
    return quietly(lambda: columns_of(frame), UNREADABLE)


def _read_domain(domain: Any, beside: Frame | None) -> tuple[Stated, str]:
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


def _fetch(counted: Frame, is_fimi: bool) -> tuple[NDArray[Any], Integers]:
    """All counts, here in this process."""
    items, found = quietly(lambda: _arrays(counted), NOT_FIMI if is_fimi else UNREADABLE)
    return _whole_numbers(items, found) if is_fimi else (items, found.astype(np.int64))


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
