"""Holes put back: small wrong variants, each of which the twins must tell from what is right.

They are written against what readers and answers do, so that they outlive how it is done.
"""

import codecs
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import duckdb
import narwhals as nw
import numpy as np
import pyarrow
from pandas.api.types import infer_dtype

from dpgap.budget.cost import Cost
from dpgap.data import domain, frames, query, sources, values
from dpgap.data.domain import Domain
from dpgap.data.engines import counted
from dpgap.data.engines.base import Engine
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.engines.duckdb import DuckDB
from dpgap.data.engines.sqlite import SQLiteRows
from dpgap.data.private_counts import CountsInMemory
from dpgap.data.sources import Source
from dpgap.estimates.errors import COINS
from dpgap.mechanisms.histogram import _Contenders
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import InGroups
from dpgap.pipelines.arrays import MeasuredTopK
from dpgap.pipelines.routes import HistogramRoute, HybridRoute
from dpgap.releases import document, drawn, findings
from seams import SpyArchive


class Mutant(NamedTuple):
    """A wrong variant, and where it shows."""

    put_back: Callable[[], AbstractContextManager[Any]]
    reader: str
    question: str
    seed: int
    """The first to try."""
    says: str
    """A pattern of what the difference that is found says."""


def _typed_by_a_row_of_sqlite() -> AbstractContextManager[Any]:
    """The last row decides whether a column has floats; then 1 is the item 1.0."""
    right = SQLiteRows.select

    def select(rows: SQLiteRows, *names: str) -> pyarrow.Table:
        table = right(rows, *names)
        for place, name in enumerate(table.column_names):
            texts = table.column(name).to_pylist()
            if texts and "." in str(texts[-1]):
                floats = [None if text is None else f"{text}.0" for text in texts]
                table = table.set_column(place, name, [floats])
        return table

    return mock.patch.object(SQLiteRows, "select", select)


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
    def read_file(path: str, unit: str, item: str, *_: Any) -> Iterator[Source]:
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

    def members(engine: Any, frozen: Any, counts: Any, indices: Any) -> Any:
        kind = "TINYINT" if max(counts) < 128 else "SMALLINT"
        frozen.to_native().query("counted", f"SELECT CAST(1 AS {kind})").fetchall()
        return right(engine, frozen, counts, indices)

    return mock.patch.object(Engine, "members", members)


def _in_the_statement() -> AbstractContextManager[Any]:
    """Look-ups whose statement names the counts of the winners."""

    @contextmanager
    def hidden(engine: Any, numbers: Any) -> Iterator[Any]:
        columns = ", ".join(f"unnest({list(each)}) AS {name}" for name, each in numbers.items())
        size = len(next(iter(numbers.values())))
        query = f"SELECT {columns}, unnest(range({size})) AS position"
        yield nw.from_native(engine._relation.query("counted", query))

    return mock.patch.object(DuckDB, "hidden", hidden)


def _without_pads() -> AbstractContextManager[Any]:
    """Numbers that are masked by nothing."""
    return _all_of(
        mock.patch.object(DuckDB, "hidden", Engine.hidden),
        mock.patch("dpgap.data.engines.duckdb._PAD", "0::BIGINT"),
    )


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
    right = MeasuredTopK.choose_route

    def choose_route(pipeline: MeasuredTopK, candidates: Any) -> Any:
        _, (looked, n, _) = right(pipeline, candidates)
        odd = int((candidates.private_answers % 2).sum()) % 2
        return pipeline.looking.routes[odd], (looked, n, odd)

    return mock.patch.object(MeasuredTopK, "choose_route", choose_route)


def _everything_kept() -> AbstractContextManager[Any]:
    """Units that keep all their items and groups."""
    return mock.patch.object(DuckDB, "keep_few", lambda engine, frame, *_: frame)


def _moments_as_they_are() -> AbstractContextManager[Any]:
    """Units that are times, as DuckDB has times."""
    types = {*frames._GROUPED_AS_READ, "TIMESTAMP WITH TIME ZONE"}
    return mock.patch.multiple(frames, _READABLE={}, _GROUPED_AS_READ=types)


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
        added = query.steps_of(rows, bounds).group_by(*cells).agg(nw.col("steps").sum())
        units = nw.col("steps").clip(-query.MOST_OF_ALL, query.MOST_OF_ALL).cast(nw.Int64)
        return added.select(*cells, units.alias("units"))

    return mock.patch.object(query, "add_up", add_up)


def _lines_by_place() -> AbstractContextManager[Any]:
    """Lines of a file that are told apart by where they stand."""
    right = sources._words

    def words(path: str, _: str) -> str:
        return right(path, "row_number() OVER ()")

    return mock.patch.object(sources, "_words", words)


def _fetched_if_few() -> AbstractContextManager[Any]:
    """Groups whose answers are fetched where few are present, and not where few are public."""
    right = counted.freeze

    def freeze(*given: Any) -> Any:
        frozen, tallied = right(*given)
        counted.FETCHED = 0 if tallied[:, -1].sum() % 2 else 10**7
        return frozen, tallied

    return mock.patch.multiple(counted, freeze=freeze, FETCHED=10**7)


def _refused_if_mixed() -> AbstractContextManager[Any]:
    """Object columns that are read only if all their values are of one type."""
    right = values._distinct

    def distinct(column: Any) -> Any:
        if infer_dtype(column).startswith("mixed"):
            raise ValueError
        return right(column)

    return mock.patch.object(values, "_distinct", distinct)


def _floats_with_a_point() -> AbstractContextManager[Any]:
    """Whole numbers that are written as their type is."""
    return mock.patch.dict(values._EXACT, {float: repr})


def _coin_beside_the_largest() -> AbstractContextManager[Any]:
    """A coin that is what is left of a float when the largest true answer was taken from it."""

    def loser(contenders: Any, at: int, origin: int) -> tuple[int, float]:
        (value,) = contenders._values(np.array([at]), origin).tolist()
        coin = float(contenders._low[at]) - (value - origin)
        return value, min(max(coin, 0.0), 1.0) * COINS

    return _all_of(
        mock.patch.object(_Contenders, "_loser", loser),
        mock.patch.object(drawn.Drawn, "__post_init__", return_value=None),
    )


def _divided_by_nothing() -> AbstractContextManager[Any]:
    """Advice that divides by how far two estimates are apart, and words that are not caught."""

    def advice(release: Any, groups: Any) -> str:
        estimates = release.estimates[release._order]
        apart = [float(estimates[at - 1] - estimates[at]) for group in groups for at in group[:-1]]
        wanted, width = sorted(apart, reverse=True)[len(apart) // 2], release._half_width_of_pairs()
        return "" if wanted * 10 < width else f"; about {width / wanted} times this ε"

    def attempted(part: str, otherwise: Any, make: Callable[..., Any], *given: Any) -> Any:
        return make(*given)

    return _all_of(
        mock.patch.object(findings, "_advice", advice),
        mock.patch.object(findings, "attempted", attempted),
        mock.patch.object(document, "attempted", attempted),
    )


def _after_drawing(do: Callable[[int], object]) -> Callable[[], AbstractContextManager[Any]]:
    """Something that is done after the charge with a private number: the sum of all values."""

    def then(kind: Any) -> AbstractContextManager[Any]:
        right = kind.draw_paid

        def draw_paid(pipeline: Any, candidates: Any) -> Any:
            do(int(candidates.private_answers.sum()))
            return right(pipeline, candidates)

        return mock.patch.object(kind, "draw_paid", draw_paid)

    return lambda: _all_of(then(MeasuredTopK), then(HistogramRoute), then(HybridRoute))


_known = [0]
"""The private number of the last draw."""


def _knowing(*patches: Callable[[], AbstractContextManager[Any]]) -> Any:
    """What knows the private number of the last draw."""

    def remember(number: int) -> None:
        _known[:] = [number]

    return lambda: _all_of(_after_drawing(remember)(), *(each() for each in patches))


def _shown_by(change: Callable[[dict[str, Any], int], dict[str, Any]]) -> Any:
    """Words of a document that follow a private number."""
    right = document._shown

    def shown(release: Any) -> dict[str, Any]:
        return change(right(release), _known[0])

    return _knowing(lambda: mock.patch.object(document, "_shown", shown))


def _padded(fields: dict[str, Any], private: int) -> dict[str, Any]:
    """A text with more or fewer spaces at its end."""
    return fields | {"guarantee": fields["guarantee"] + " " * (private % 3)}


def _without_rows(fields: dict[str, Any], private: int) -> dict[str, Any]:
    """A field that is there or not."""
    return {name: each for name, each in fields.items() if name != "items" or private % 2}


def _warned(private: int) -> None:
    if private % 2:
        warnings.warn("the noise is large for such counts", stacklevel=2)


def _logged(private: int) -> None:
    if private % 2:
        logging.getLogger("dpgap.words").info("rows are left out")


def _refused(private: int) -> None:
    if private % 2:
        raise ValueError("there are too few units")


def _settled_by_total() -> AbstractContextManager[Any]:
    """A ledger that is told of a cost that follows a private number."""
    right = SpyArchive.settle

    def settle(account: Any, cost: Cost, document: Any = None) -> None:
        right(account, Cost.pure(cost.epsilon - _known[0] % 2), document)

    return mock.patch.object(SpyArchive, "settle", settle)


def _labels_by_total() -> AbstractContextManager[Any]:
    """Labels that are whole numbers or texts."""
    return _changed_by_total(lambda labels: tuple(map(str, labels)))


def _changed_by_total(
    change: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> AbstractContextManager[Any]:
    """Winners whose labels are changed if a private number is odd."""
    right = InGroups.find

    def find(candidates: Any, groups: Any, places: Any) -> Any:
        winners = right(candidates, groups, places)
        return winners._replace(labels=change(winners.labels)) if _known[0] % 2 else winners

    return mock.patch.object(InGroups, "find", find)


def _above_by_answers(**change: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Fields of what was drawn that are changed if the sum of the true winners is odd."""
    right = SparseVector.draw_paid

    def draw_paid(*arguments: Any) -> Any:
        made = right(*arguments)
        is_odd = made.private_answers.sum() % 2
        fields = {name: each(getattr(made.drawn, name)) for name, each in change.items() if is_odd}
        return made._replace(drawn=replace(made.drawn, **fields))

    return lambda: mock.patch.object(SparseVector, "draw_paid", draw_paid)


@contextmanager
def _all_of(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


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


def _strict_codecs() -> AbstractContextManager[Any]:
    """An encoding of which one byte refuses the file."""
    decoder = codecs.getincrementaldecoder
    return mock.patch.object(
        codecs, "getincrementaldecoder", lambda codec: lambda *_: decoder(codec)("strict")
    )


MUTANTS: dict[str, Mutant] = {
    "strict-codecs": Mutant(_strict_codecs, "european", "counts", 0, "only one is refused"),
    "order-in-memory": Mutant(
        _order_by_absence(CountsInMemory), "pandas", "order", 2, "another order"
    ),
    "order-in-engine": Mutant(
        _order_by_absence(CountsInEngine), "duckdb", "order", 5, "another order"
    ),
    "present-first": Mutant(_present_first, "polars", "order", 0, "only over parts"),
    "json-without-case": Mutant(_read_by(_JSON), "json", "counts", 166, "counts move"),
    "json-columns-seen": Mutant(_read_by(_JSON), "json", "counts", 26, "only one is refused"),
    "guessed-types": Mutant(_read_by(_GUESSED), "csv", "counts", 11, "other statements"),
    "short-lines": Mutant(_read_by(_SHORT), "csv", "counts", 1, "only one is refused"),
    "columns-by-rows": Mutant(_columns_by_rows, "polars", "counts", 0, "other facts"),
    "width-of-literals": Mutant(_by_width, "duckdb", "top-1", 0, "other statements"),
    "count-in-a-statement": Mutant(_in_the_statement, "duckdb", "top-1", 0, "other statements"),
    "without-pads": Mutant(_without_pads, "duckdb", "top-4", 0, "other statements"),
    "fixed-width": Mutant(_FIXED, "pyarrow", "counts", 11, _TWO),
    "without-case": Mutant(_LOWER, "pandas", "counts", 50, _TWO),
    "route-by-total": Mutant(
        _route_by_total, "pandas", "top-4", 0, "another route than its look decides on"
    ),
    "everything-kept": Mutant(_everything_kept, "csv", "reach", 0, "too many items move"),
    "all-groups-kept": Mutant(_everything_kept, "polars", "by", 0, "too many groups move"),
    "all-pairs-kept": Mutant(_everything_kept, "duckdb", "reach+by-two", 2, "too many"),
    "unknown-kept": Mutant(_everything_kept, "pandas", "unknown", 7, "too many items move"),
    "kept-by-position": Mutant(_kept_by_position, "pyarrow", "reach", 1, "counts move"),
    "moments": Mutant(_moments_as_they_are, "polars", "reach", 8, "only one is refused"),
    "lines-by-place": Mutant(_lines_by_place, "fimi", "reach", 0, "counts move"),
    "clipped-together": Mutant(_clipped_together, "parquet", "sum", 0, "counts move"),
    "fetched-if-few": Mutant(_fetched_if_few, "duckdb", "by", 12, "another kind"),
    "refused-if-mixed": Mutant(
        _refused_if_mixed, "pandas-objects", "counts", 1, "only one is refused"
    ),
    "floats-with-a-point": Mutant(
        _floats_with_a_point, "pandas-objects", "unknown", 28, "counts move"
    ),
    "typed-by-a-row": Mutant(_typed_by_a_row_of_sqlite, "sqlite", "counts", 29, "counts move"),
    "dollar": Mutant(_dollar, "polars", "counts", 13, _TWO),
    "coin": Mutant(_coin_beside_the_largest, "pandas", "first", 2, "coin has nothing to do"),
    "divided-by-nothing": Mutant(
        _divided_by_nothing, "pandas", "top-all", 6, "fails after the charge: ZeroDivision"
    ),
    "length-of-text": Mutant(_shown_by(_padded), "polars", "top-4", 0, "guarantee str of length"),
    "field-or-none": Mutant(_shown_by(_without_rows), "pandas", "top-4", 0, r"fields \['items'\]"),
    "warning": Mutant(_after_drawing(_warned), "pyarrow", "top-4", 3, "other warnings"),
    "log": Mutant(_after_drawing(_logged), "pandas", "reach", 7, "other warnings"),
    "refused-after-the-charge": Mutant(
        _after_drawing(_refused), "polars", "top-4-joint", 4, "only one is refused"
    ),
    "settled-by-total": Mutant(
        _knowing(_settled_by_total), "pandas", "top-4", 0, "of another cost"
    ),
    "order-of-winners": Mutant(
        _knowing(lambda: _changed_by_total(lambda labels: labels[::-1])),
        "pandas",
        "top-4-ranked",
        0,
        "in another order",
    ),
    "longer-labels": Mutant(
        _knowing(lambda: _changed_by_total(lambda labels: tuple(f"{each} " for each in labels))),
        "polars",
        "top-4-ranked",
        0,
        "not in the domain",
    ),
    "used-by-answers": Mutant(
        _above_by_answers(used=lambda used: used - 1), "pandas", "sparse-vector", 0, "used differs"
    ),
    "processed-by-answers": Mutant(
        _above_by_answers(processed=lambda many: many + 1),
        "pandas",
        "sparse-vector",
        0,
        "processed differs",
    ),
    "branches-by-answers": Mutant(
        _above_by_answers(branches=lambda branches: 3 - branches),
        "pandas",
        "above",
        0,
        r"branches\[\d\] differs",
    ),
    "labels-by-total": Mutant(
        _knowing(_labels_by_total), "pandas", "top-4-ranked", 59, "labels of other types: int, str"
    ),
}
