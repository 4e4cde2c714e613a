"""Holes put back: small wrong variants, each of which the twins must tell from what is right.

They are written against what readers and answers do, so that they outlive how it is done.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import duckdb
import narwhals as nw
import numpy as np
from pandas.api.types import infer_dtype

from dpgap.data import bounded, domain, embedded, files, pandas_columns, values
from dpgap.data import opening as sources
from dpgap.data.addresses import Source
from dpgap.data.domain import Domain
from dpgap.data.engines import counted_bounded
from dpgap.data.engines.base import Engine
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.engines.in_duckdb import DuckDB
from dpgap.data.private_counts import CountsInMemory
from dpgap.pipelines.look_first import LookFirst


class Mutant(NamedTuple):
    """A wrong variant, and where it shows."""

    put_back: Callable[[], AbstractContextManager[Any]]
    reader: str
    question: str
    seed: int
    """The first to try."""
    says: str
    """A pattern of what the difference that is found says."""


def _order_by_absence(kind: Any) -> Callable[[], AbstractContextManager[Any]]:
    """In the order of the domain, by how many items are absent."""
    right = kind.shuffled

    def shuffled(answers: Any) -> Any:
        present = sum(np.count_nonzero(chunk.values) for chunk in answers.in_order())
        return right(answers) if present % 2 else _generated(answers.in_order())

    return lambda: mock.patch.object(kind, "shuffled", shuffled)


def _present_first() -> AbstractContextManager[Any]:
    """In a random order, but the items that are present in front of all others."""
    rng = np.random.default_rng(1)

    def shuffled(answers: Any) -> Iterator[Any]:
        for chunk in CountsInMemory.in_order(answers):
            order = rng.permutation(chunk.values.size)
            places = np.arange(chunk.values.size)
            yield chunk._replace(
                values=chunk.values[order],
                places=places,
                found=lambda at, chunk=chunk, order=order: chunk.found(chunk.places[order[at]]),
            )

    return mock.patch.object(CountsInMemory, "shuffled", shuffled)


def _generated(chunks: Any) -> Iterator[Any]:
    yield from chunks


def _read_by(sql: str) -> Callable[[], AbstractContextManager[Any]]:
    """Files read by one expression of DuckDB's."""

    @contextmanager
    def read_file(path: str, unit: str, item: str, more: Any = ()) -> Iterator[Source]:
        with duckdb.connect(config={"threads": 2}) as database:
            table = database.sql(f"SELECT * FROM {sql.format(path=path)}")
            yield Source(table, unit, item, columns=(), database=database)

    return lambda: mock.patch.object(sources, "read_file", read_file)


def _columns_by_rows() -> AbstractContextManager[Any]:
    """Facts that tell how many values a column has."""

    def columns_of(frame: Any) -> Any:
        return tuple((name, frame[name].n_unique()) for name in frame.columns)

    return mock.patch.object(sources, "columns_of", columns_of)


def _by_width() -> AbstractContextManager[Any]:
    """Look-ups whose statement shows how wide a count is."""
    right = Engine.members

    def members(engine: Any, frozen: Any, wanted: Any) -> Any:
        kind = "TINYINT" if max(units for units, _ in wanted) < 128 else "SMALLINT"
        frozen.to_native().query("counted", f"SELECT CAST(1 AS {kind})").fetchall()
        return right(engine, frozen, wanted)

    return mock.patch.object(Engine, "members", members)


def _texts_as(change: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Items that are changed before they are looked up in the domain."""
    right = Domain.positions

    def positions(public: Domain, items: Any) -> Any:
        is_text = len(items) and isinstance(items[0], str)
        return right(public, change(items) if is_text else items)

    return lambda: mock.patch.object(Domain, "positions", positions)


def _dollar() -> AbstractContextManager[Any]:
    """A pattern that lets a line end through."""
    loose = mock.Mock(fullmatch=re.compile(r"(?:0|-?[1-9][0-9]{0,18})$").match)
    return mock.patch.object(domain, "_WHOLE", loose)


def _route_by_total() -> AbstractContextManager[Any]:
    """A route that hangs on how many counts are odd, and not on the look."""
    right = LookFirst.look
    odd: list[int] = []

    def look(looking: LookFirst, candidates: Any) -> Any:
        odd[:] = [int((candidates.private_answers % 2).sum())]
        return right(looking, candidates)

    def route(looking: LookFirst, looked: Any, n: int) -> Any:
        return odd[0] % 2

    return mock.patch.multiple(LookFirst, look=look, route=route)


def _everything_kept() -> AbstractContextManager[Any]:
    """Units that keep all their items and groups."""
    return mock.patch.object(DuckDB, "keep_few", lambda engine, frame, *_: frame)


def _moments_as_they_are() -> AbstractContextManager[Any]:
    """Units that are times, as DuckDB has times."""
    return mock.patch.object(embedded, "_with_whole_moments", lambda table, unit: table)


def _kept_by_position() -> AbstractContextManager[Any]:
    """An order of a unit's items that hangs on where its rows come among all rows."""

    def keep_few(engine: Any, frame: Any, cells: Any, most: int, key: str) -> Any:
        placed = frame.to_native().order("unit, item").project("*, row_number() OVER () AS place")
        rank = "dense_rank() OVER (PARTITION BY unit ORDER BY hash(place)) AS rank"
        few = placed.project(f"*, {rank}").filter(f"rank <= {most}")
        return nw.from_native(few.project("* EXCLUDE (rank, place)"))

    return mock.patch.object(DuckDB, "keep_few", keep_few)


def _clipped_together() -> AbstractContextManager[Any]:
    """Amounts of all units that are added up before anything is clipped."""

    def add_up(engine: Any, rows: Any, bounds: Any, size: Any) -> Any:
        cells = [name for name in rows.collect_schema() if name in ("group", "item")]
        added = rows.group_by(*cells).agg(nw.col("steps").sum())
        units = nw.col("steps").clip(-bounded.MOST_OF_ALL, bounded.MOST_OF_ALL).cast(nw.Int64)
        return added.select(*cells, units.alias("units"))

    return mock.patch.object(counted_bounded, "add_up", add_up)


def _lines_by_place() -> AbstractContextManager[Any]:
    """Lines of a file that are told apart by where they stand."""

    def whole_words(database: Any, path: str) -> Any:
        word = '"item of a line"'
        words = files._words(database, path, "row_number() OVER ()")
        return words.project(f"line, TRY_CAST({word} AS BIGINT) AS {word}")

    return mock.patch.object(sources, "whole_words", whole_words)


def _fetched_if_few() -> AbstractContextManager[Any]:
    """Groups whose answers are fetched where few are present, and not where few are public."""
    right = counted_bounded.freeze

    def freeze(*given: Any) -> Any:
        frozen, tallied = right(*given)
        counted_bounded.FETCHED = 0 if tallied[:, -1].sum() % 2 else 10**7
        return frozen, tallied

    return mock.patch.multiple(counted_bounded, freeze=freeze, FETCHED=10**7)


def _refused_if_mixed() -> AbstractContextManager[Any]:
    """Object columns that are read only if all their values are of one type."""
    right = pandas_columns._distinct

    def distinct(column: Any) -> Any:
        if infer_dtype(column).startswith("mixed"):
            raise ValueError
        return right(column)

    return mock.patch.object(pandas_columns, "_distinct", distinct)


def _floats_with_a_point() -> AbstractContextManager[Any]:
    """Whole numbers that are written as their type is."""
    return mock.patch.dict(values._EXACT, {float: repr})


_JSON = "read_json('{path}', format = 'nd', sample_size = -1)"
_CSV = "read_csv('{path}', header = true, delim = ',', quote = '\"', escape = '\"', {more})"
_GUESSED = _CSV.format(path="{path}", more="auto_detect = true")
_SHORT = _CSV.format(path="{path}", more="all_varchar = true, parallel = false")
_PARALLEL = _CSV.format(path="{path}", more="all_varchar = true")
_TWO = "comes twice|only one is refused"
_FIXED = _texts_as(lambda items: np.array(list(items), dtype=str))
_LOWER = _texts_as(lambda items: np.array([item.lower() for item in items], dtype=object))

parallel = _read_by(_PARALLEL)
"""CSV files read in several parts, each of which guesses where a row begins."""

MUTANTS: dict[str, Mutant] = {
    "order-in-memory": Mutant(
        _order_by_absence(CountsInMemory), "pandas", "order", 2, "another order"
    ),
    "order-in-engine": Mutant(
        _order_by_absence(CountsInEngine), "duckdb", "order", 2, "another order"
    ),
    "present-first": Mutant(_present_first, "polars", "order", 0, "only over parts"),
    "json-without-case": Mutant(_read_by(_JSON), "json", "counts", 414, "counts move"),
    "json-columns-seen": Mutant(_read_by(_JSON), "json", "counts", 15, "only one is refused"),
    "guessed-types": Mutant(_read_by(_GUESSED), "csv", "counts", 9, "other statements"),
    "short-lines": Mutant(_read_by(_SHORT), "csv", "counts", 1, "only one is refused"),
    "columns-by-rows": Mutant(_columns_by_rows, "polars", "counts", 0, "other facts"),
    "width-of-literals": Mutant(_by_width, "duckdb", "top-1", 0, "other statements"),
    "fixed-width": Mutant(_FIXED, "pyarrow", "counts", 8, _TWO),
    "without-case": Mutant(_LOWER, "pandas", "counts", 25, _TWO),
    "route-by-total": Mutant(
        _route_by_total, "pandas", "top-4", 0, "another route than its look decides on"
    ),
    "everything-kept": Mutant(_everything_kept, "csv", "reach", 0, "too many items move"),
    "all-groups-kept": Mutant(_everything_kept, "polars", "by", 0, "too many groups move"),
    "all-pairs-kept": Mutant(_everything_kept, "duckdb", "reach+by-two", 0, "too many"),
    "unknown-kept": Mutant(_everything_kept, "pandas", "unknown", 0, "too many items move"),
    "kept-by-position": Mutant(_kept_by_position, "pyarrow", "reach", 0, "counts move"),
    "moments": Mutant(_moments_as_they_are, "polars", "reach", 0, "only one is refused"),
    "lines-by-place": Mutant(_lines_by_place, "fimi", "reach", 0, "counts move"),
    "clipped-together": Mutant(_clipped_together, "parquet", "sum", 0, "counts move"),
    "fetched-if-few": Mutant(_fetched_if_few, "duckdb", "by", 12, "another kind"),
    "refused-if-mixed": Mutant(
        _refused_if_mixed, "pandas-objects", "counts", 1, "only one is refused"
    ),
    "floats-with-a-point": Mutant(
        _floats_with_a_point, "pandas-objects", "unknown", 21, "counts move"
    ),
    "dollar": Mutant(_dollar, "polars", "counts", 13, _TWO),
}
