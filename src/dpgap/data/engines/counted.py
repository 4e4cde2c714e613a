"""Counts that stay in an engine: what the driver knows of them, and how it asks for more.

The frozen table has a row for every item of the domain, with 0 for absent ones. A domain that is a
range of whole numbers may be too large for that. Then the table has rows for present items only,
and all absent items are one more group. A winner among them is found by drawing numbers of the
range until one is not in the table. So what is asked of the engine depends on the public domain
alone; after the count of counts it also depends on which groups won.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from narwhals.dtypes import DType

from dpgap.data.addresses import Lazy
from dpgap.data.domain import Domain, Stated
from dpgap.data.engines.base import Batch, Engine
from dpgap.data.private_counts import (
    Chunk,
    Chunks,
    Found,
    Groups,
    Integers,
    PrivateCounts,
    standing,
)
from dpgap.data.query import keep_items, keep_range, keep_texts
from dpgap.data.tracebacks import UNREADABLE, quietly
from dpgap.exact.bits import secure_bits
from dpgap.releases.questions import ADD_OR_REMOVE, Origin

_ROWS_AT_ONCE = 1 << 18
_DRAWN_AT_ONCE = 1 << 16
_TWO_TABLES = f"{UNREADABLE} (where domain is a table too, it must be of the same connection)"


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False, eq=False)
class CountsInEngine(PrivateCounts):
    """Frozen counts in an engine. The engine lets go of them when these answers are closed."""

    engine: Engine
    frozen: Lazy
    """A frame of `item` and `units`; items of a list are their positions in it."""
    labels: range | tuple[Any, ...] | None
    """The public domain, where it was stated here; None where it is a table in the engine."""
    values: Integers
    sizes: Integers
    """The count of counts of the frozen rows."""
    absent: int
    """How many items of the domain have no row."""
    sensitivity: Fraction
    monotonic: bool
    origin: Origin | None
    kept: ExitStack
    """What is let go of when these answers are closed."""
    _closing: Any = field(init=False)

    def __post_init__(self) -> None:
        closing = weakref.finalize(self, _let_go, self.engine, self.kept)
        object.__setattr__(self, "_closing", closing)

    def close(self) -> None:
        """Let go of everything; also called when these answers are no longer used."""
        self._closing()

    def _require_open(self) -> None:
        if self.engine.is_elsewhere:
            raise ValueError("answers in an engine cannot be used in a forked process: count there")
        if not self._closing.alive:
            raise ValueError("these answers were closed: count again")

    def __reduce__(self) -> NoReturn:
        raise TypeError("answers in an engine cannot be copied or pickled: count where they go")

    def __len__(self) -> int:
        return int(self.sizes.sum()) + self.absent

    @property
    def largest(self) -> int:
        """The largest count."""
        return int(self.values.max(initial=0))

    def groups(self) -> Groups:
        """The count of counts; absent items are one more group, at 0."""
        self._require_open()
        if not self.absent:
            return Groups(self.values, self.sizes, self._find)
        return Groups(np.append(self.values, 0), np.append(self.sizes, self.absent), self._find)

    def _find(self, groups: Integers, places: Integers) -> Found:
        stored = groups < self.values.size
        wanted = zip(self.values[groups[stored]].tolist(), places[stored].tolist(), strict=True)
        items = np.empty(groups.size, dtype=object)
        items[stored] = self.engine.members(self.frozen, list(wanted))
        items[~stored] = self._absent_items(int(np.count_nonzero(~stored)), {})
        return self._found(items)

    def _absent_items(self, many: int, known: dict[int, None]) -> list[int]:
        """Distinct uniform items of the range that have no row, and are not `known`; now they are.

        Where few are absent, many numbers are drawn to find one of them. But then it is unlikely
        that one is wanted. On average only a few numbers are drawn for each winner.
        """
        found: list[int] = []
        while len(found) < many:
            likely = 2 * (many - len(found)) * len(self) // self.absent + 8
            drawn = secure_bits().distinct(min(likely, len(self), _DRAWN_AT_ONCE), len(self))
            fresh = [item for at in drawn.tolist() if (item := self._range[at]) not in known]
            if not fresh:
                continue
            absent = self.engine.list_items(fresh).join(self.frozen, on="item", how="anti")
            rows = self.engine.rows(absent.sort("position").head(many - len(found)))
            found += [row[0] for row in rows]
            known |= dict.fromkeys(found)
        return found

    @property
    def _range(self) -> range:
        if not isinstance(self.labels, range):
            raise TypeError("only a range can have absent items without rows")
        return self.labels

    def _found(self, items: Any) -> Found:
        if self.labels is None:
            return Found(np.full(len(items), -1, dtype=np.int64), tuple(items))
        return self._at(self._positions(np.array(items)))

    def _positions(self, items: Any) -> Integers:
        """Where in the domain these items are, as the frozen table calls them."""
        positions: Integers = items.astype(np.int64)
        if isinstance(self.labels, range):
            positions = (positions - self.labels.start) // self.labels.step
        return positions

    def _expand(self) -> Integers:
        """Every count crosses the wire."""
        chunks = self.in_order()
        return np.concatenate([chunk.at(np.arange(chunk.length)) for chunk in chunks])

    def in_order(self) -> Chunks:
        """All counts in the order of the domain, a chunk at a time."""
        self._require_open()
        if not isinstance(self.labels, range):
            return self._chunks(self.frozen.sort("item"))
        return self._sparse_in_order(self.frozen.sort("item", descending=self.labels.step < 0))

    def shuffled(self) -> Chunks:
        """All counts in a fresh random order that does not depend on them, a chunk at a time."""
        self._require_open()
        rows = self.engine.shuffled(self.frozen, secure_bits().token())
        return self._sparse_shuffled(rows) if isinstance(self.labels, range) else self._chunks(rows)

    def _chunks(self, frame: Lazy) -> Chunks:
        for batch in self.engine.batches(frame, _ROWS_AT_ONCE):
            items = batch["item"]

            def found(places: Integers, items: Any = items) -> Found:
                return self._found(items[places].tolist())

            yield Chunk(batch["units"].astype(np.int64), found)

    def _sparse_in_order(self, frame: Lazy) -> Chunks:
        """Rows of a range in its order, with what is absent in between."""
        low = 0
        for batch in self._batches_and_end(frame):
            positions = self._positions(batch["item"])
            high = int(positions[-1]) + 1 if positions.size else len(self)

            def found(places: Integers, low: int = low) -> Found:
                return self._at(places + low)

            if high > low:
                yield Chunk(batch["units"].astype(np.int64), found, positions - low, high - low)
            low = high

    def _sparse_shuffled(self, frame: Lazy) -> Chunks:
        """Rows of a range as they come, in distinct random places; absent items have the others.

        Which absent item stands at a place is drawn only when that place is named.
        """
        present = int(self.sizes.sum())
        places, _ = secure_bits().scattered(present, len(self))
        low = done = 0
        known: dict[int, None] = {}
        for batch in self._batches_and_end(frame):
            items, taken = batch["item"], places[done : done + batch["item"].size] - low
            high = low + int(taken[-1]) + 1 if taken.size else len(self)

            def found(wanted: Integers, items: Any = items, taken: Integers = taken) -> Found:
                named = np.empty(wanted.size, dtype=np.int64)
                is_taken, which = standing(taken, wanted)
                named[is_taken] = items[which]
                named[~is_taken] = self._absent_items(int(np.count_nonzero(~is_taken)), known)
                return self._found(named)

            if high > low:
                yield Chunk(batch["units"].astype(np.int64), found, taken, high - low)
            low, done = high, done + taken.size

    def _batches_and_end(self, frame: Lazy) -> Iterator[Batch]:
        """The rows, some at a time, and at last none: the rest of a range is absent."""
        yield from self.engine.batches(frame, _ROWS_AT_ONCE)
        none = np.empty(0, dtype=np.int64)
        yield {"item": none, "units": none}


def _let_go(engine: Engine, kept: ExitStack) -> None:
    if not engine.is_elsewhere:
        kept.close()


def count_in_engine(
    engine: Engine, counted: Lazy, domain: Stated, origin: Origin, resources: ExitStack
) -> CountsInEngine:
    """Freeze the counts of a domain's items. `counted` is a frame of `item` and `units`.

    `domain` is a stated domain, a frame of the engine with the one column `item`, or None for
    whatever was observed. `resources` are kept until the answers are closed.
    """
    refusal = _TWO_TABLES if isinstance(domain, nw.LazyFrame) else UNREADABLE
    wanted = _narrow(engine, quietly(lambda: engine.plain(counted), UNREADABLE), domain)
    frozen, values, sizes = quietly(lambda: _freeze(engine, wanted(), resources), refusal)
    labels = domain.labels if isinstance(domain, Domain) else None
    absent = len(labels) - int(sizes.sum()) if isinstance(labels, range) else 0
    if not sizes.size and not absent:
        raise ValueError("domain must not be empty")
    return CountsInEngine(
        engine=engine,
        frozen=frozen,
        labels=labels,
        values=values,
        sizes=sizes,
        absent=absent,
        sensitivity=Fraction(1),
        monotonic=origin.neighbours == ADD_OR_REMOVE,
        origin=origin,
        kept=resources.pop_all(),
    )


def _narrow(engine: Engine, counted: Lazy, domain: Stated) -> Callable[[], Lazy]:
    """The query for the counts of a domain's items, if their types go together."""
    kind = quietly(lambda: counted.collect_schema()["item"], UNREADABLE)
    if domain is None:
        return partial(counted.select, "item", "units")
    if isinstance(domain, nw.LazyFrame):
        own = quietly(lambda: domain.collect_schema()["item"], _TWO_TABLES)
        _require_column(own, kind)
        require_exact_text(engine, domain, "domain")
        return partial(keep_items, engine.plain(domain), own, counted, kind)
    if isinstance(domain.labels, range):
        _require_range(domain.labels, kind)
        return partial(keep_range, counted, kind, domain.labels)
    _require_list(domain, kind)
    return partial(_keep_list, engine, domain, counted, kind)


def require_exact_text(engine: Engine, column: Lazy, name: str) -> None:
    """Refuse a column whose collation takes different texts for equal.

    Which of them an item is called would then hang on whose row comes first.
    """
    kind = quietly(lambda: column.collect_schema()["item"], UNREADABLE)
    if kind == nw.String and quietly(lambda: engine.merges(column), _TWO_TABLES):
        raise ValueError(
            f"{name} must tell different texts apart, and its collation does not: cast it to text "
            'that is compared by its bytes (COLLATE "C"; in Spark COLLATE UTF8_BINARY)'
        )


def _freeze(engine: Engine, wanted: Lazy, resources: ExitStack) -> tuple[Lazy, Integers, Integers]:
    """The counts frozen, and their count of counts."""
    with engine.quiet():
        frozen = engine.freeze(wanted)
    resources.callback(engine.drop, frozen)
    rows = engine.rows(frozen.group_by("units").agg(nw.len().alias("size")))
    tallied = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return frozen, tallied[:, 0].copy(), tallied[:, 1].copy()


def _require_range(labels: range, kind: DType) -> None:
    if kind == nw.Boolean:
        raise ValueError("domain must be a list for an item column of true and false")
    if kind == nw.String and max(abs(labels[0]), abs(labels[-1])) >= 10**18:
        raise ValueError("domain must lie within ±10^18 where the item column is text")


def _require_list(domain: Domain, kind: DType) -> None:
    if kind.is_numeric():
        domain.require_numbers()
    if kind.is_float() and any("." in text for text in domain.texts):
        raise ValueError("domain must be whole numbers: cast the item column to text for others")


def _require_column(own: DType, kind: DType) -> None:
    if kind.is_float() and own == nw.String:
        raise ValueError("domain must be whole numbers: cast the item column to text for others")
    if not (own == nw.String or own.is_integer() or own == kind == nw.Boolean) or (
        kind == nw.Boolean and own.is_integer()
    ):
        raise ValueError("domain must be a column of text or whole numbers, like the item column")


def _keep_list(engine: Engine, domain: Domain, counted: Lazy, kind: DType) -> Lazy:
    """The counts of listed items, compared by their text; each is called by its position."""
    texts = [_in_utf_8(text) for text in domain.texts]
    known = engine.list_items(texts).rename({"item": "text", "position": "item"})
    return keep_texts(known, counted, kind)


def _in_utf_8(text: str) -> str | None:
    """Text that an engine can hold; other text can be no item of its tables."""
    return None if any("\ud800" <= letter <= "\udfff" for letter in text) else text
