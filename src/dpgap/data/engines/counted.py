"""Counts that stay in an engine: what the driver knows of them, and its further queries.

The frozen table has rows only for present items. All absent items together are one more group of
equal answers. To find a winner among them, numbers of the domain are drawn until one is not in the
table (items of a list are numbered by their positions). If the domain is itself a table of the
engine, the frozen table has a row for each of its items, with 0 for absent ones. Winners are
looked up and absent numbers are tried whether or not a winner is absent, and both are hidden from
the engine's log. So statements depend only on the public domain, on how many items won, and on
fresh random bits; but numbers are tried again if few items are absent.
"""

import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import narwhals as nw
import numpy as np

from dpgap.data import query
from dpgap.data.domain import Domain, Stated, text_of
from dpgap.data.engines.base import Batch, Engine
from dpgap.data.private_counts import (
    UNREADABLE,
    Chunk,
    Chunks,
    CountsByGroup,
    CountsInMemory,
    Found,
    Groups,
    Integers,
    PrivateCounts,
    require_possible,
    with_absent,
    with_masked_errors,
)
from dpgap.data.sources import Lazy
from dpgap.exact.bits import secure_bits
from dpgap.question import Question

_ROWS_AT_ONCE = 1 << 18
_DRAWN_AT_ONCE = 1 << 16
_SPARE = 64
"""How many more numbers are drawn than twice the winners, to find absent items at once."""


class Kept:
    """The resources that an engine keeps for answers, until these are closed or not used."""

    __slots__ = ("__weakref__", "close", "engine")

    def __init__(self, engine: Engine, resources: ExitStack) -> None:
        self.engine = engine
        self.close = weakref.finalize(self, _let_go, engine, resources)
        """Call it to release all resources."""

    def require_open(self) -> None:
        """Refuse answers that the engine no longer has, or that belong to another process."""
        if self.engine.is_elsewhere:
            raise ValueError("answers in an engine cannot be used in a forked process: count there")
        if not self.close.alive:
            raise ValueError("these answers were closed: count again")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CountsInEngine(PrivateCounts):
    """Frozen counts in an engine. The engine drops them when these answers are closed."""

    engine: Engine
    frozen: Lazy
    """A frame of `item` and `units`; items of a list are their positions in it."""
    numbers: range | None
    """The numbers of all items, if absent items have no row; None if every item has a row."""
    tallied: Integers
    """The count of counts of the frozen rows: rows of a count and how many items have it."""
    kept: Kept
    """The resources that are released when these answers are closed."""

    @property
    def stored(self) -> int:
        """How many items have a row."""
        return int(self.tallied[:, 1].sum())

    def close(self) -> None:
        """Release all resources; this also happens when these answers are no longer used."""
        self.kept.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("answers in an engine cannot be copied or pickled: count where they go")

    def groups(self) -> Groups:
        """The count of counts; absent items are one more group, at 0."""
        self.kept.require_open()
        tallied = self.tallied
        if self.absent:
            tallied = np.append(tallied, [[0, self.absent]], axis=0)
        return Groups(tallied[:, 0], tallied[:, 1], self._find)

    def _find(self, groups: Integers, places: Integers) -> Found:
        stored = groups < len(self.tallied)
        counts = np.append(self.tallied[:, 0], 0)[groups]
        indices = np.where(stored, places, -1)
        items = np.empty(groups.size, dtype=object)
        items[:] = self.engine.members(self.frozen, counts.tolist(), indices.tolist())
        items[~stored] = self._absent_items(int(np.count_nonzero(~stored)), groups.size, {})
        return self._found(items)

    def _absent_items(self, many: int, winners: int, earlier: dict[int, None]) -> list[int]:
        """Distinct uniform numbers without a row that are not in `earlier`; they are added to it.

        `winners` is how many items are looked up, absent or not. The engine is asked as if all of
        them were absent, so that statements do not show whether any is. If few items are absent,
        many numbers are drawn to find one of them. But then a winner is rarely absent.
        """
        absent: list[int] = []
        numbers = self.numbers
        if numbers is None or not winners:
            return absent
        drawn_at_once = 2 * winners + _SPARE
        while True:
            most = min(drawn_at_once, _DRAWN_AT_ONCE, len(self))
            positions = secure_bits().distinct(most, len(self)).tolist()
            draws = [numbers[position] for position in positions]
            with self.engine.hidden({"item": draws}) as hidden:
                rows = self.engine.rows(self.engine.ask(_present, self.frozen, hidden))
            excluded = earlier.keys() | {item for (item,) in rows}
            fresh = [item for item in draws if item not in excluded][: many - len(absent)]
            absent += fresh
            earlier |= dict.fromkeys(fresh)
            if len(absent) == many:
                return absent
            drawn_at_once *= 2

    def _found(self, items: Any) -> Found:
        if self.labels is None:  # the label of an unknown item must not depend on the column's type
            named = map(text_of, items) if self.unknown else items
            return Found(np.full(len(items), -1, dtype=np.int64), tuple(named))
        return self._at(positions_in(self.numbers, np.array(items)))

    def in_order(self) -> Chunks:
        """All counts in the order of the domain, a chunk at a time."""
        self.kept.require_open()
        descending = self.numbers is not None and self.numbers.step < 0
        rows = self.engine.ask(_sorted_by_item, self.frozen, descending)
        return self._chunks(rows) if self.numbers is None else self._sparse(rows, shuffled=False)

    def shuffled(self) -> Chunks:
        """All counts in a fresh random order that does not depend on them, a chunk at a time."""
        self.kept.require_open()
        salt = secure_bits().token()
        rows = self.engine.ask(_shuffled, self.engine, self.frozen, salt)
        return self._chunks(rows) if self.numbers is None else self._sparse(rows, shuffled=True)

    def _chunks(self, frame: Lazy) -> Chunks:
        for batch in self.engine.batches(frame, _ROWS_AT_ONCE):
            items = batch["item"]

            def found(places: Integers, items: Any = items) -> Found:
                return self._found(items[places].tolist())

            yield Chunk(batch["units"].astype(np.int64), found)

    def _sparse(self, frame: Lazy, *, shuffled: bool) -> Chunks:
        """Chunks of a range, in its order or shuffled: absent items are between the rows.

        Shuffled rows get distinct random positions; absent items have all the others. The absent
        item at a position is drawn only when its name is needed.
        """
        places = secure_bits().scattered(self.stored, len(self))[0] if shuffled else None
        low = done = 0
        named: dict[int, None] = {}
        none = np.empty(0, dtype=np.int64)  # at last: the rest of a range is absent
        batches = self.engine.batches(frame, _ROWS_AT_ONCE)
        for batch in chain(batches, [{"item": none, "units": none}]):
            items = batch["item"]
            end = done + items.size
            in_domain = positions_in(self.numbers, items) if places is None else places[done:end]
            offsets = in_domain - low
            size = int(offsets[-1]) + 1 if offsets.size else len(self) - low

            def found(
                indices: Integers, items: Any = items, offsets: Integers = offsets, low: int = low
            ) -> Found:
                if places is None:
                    return self._at(indices + low)
                absent = partial(self._absent_items, winners=indices.size, earlier=named)
                return self._found(with_absent(items, offsets, indices, absent))

            if size:
                yield Chunk(batch["units"].astype(np.int64), found, offsets, size)
            low += size
            done = end


def _present(frozen: Lazy, hidden: Lazy) -> Lazy:
    """The hidden items that have a row."""
    return frozen.join(hidden.select("item"), on="item", how="semi").select("item")


def _sorted_by_item(frozen: Lazy, descending: bool) -> Lazy:
    """All rows in the order of the domain."""
    return frozen.sort("item", descending=descending).select("item", "units")


def _shuffled(engine: Engine, frozen: Lazy, salt: str) -> Lazy:
    """All rows in an order that the salt decides."""
    return engine.shuffled(frozen, salt).select("item", "units")


def _let_go(engine: Engine, resources: ExitStack) -> None:
    if not engine.is_elsewhere:
        resources.close()


def positions_in(numbers: Any, items: Any) -> Integers:
    """The positions in a domain of items that are numbers of this range."""
    positions: Integers = (items.astype(np.int64) - numbers.start) // numbers.step
    return positions


def freeze(engine: Engine, counts: Lazy, resources: ExitStack) -> tuple[Lazy, Integers]:
    """The frozen counts, and their count of counts: rows of (group,) count and number of items."""
    with engine.quiet():
        frozen = engine.freeze(counts)
    resources.callback(engine.drop, frozen)
    keys = [name for name in ("group", "units") if name in frozen.collect_schema()]
    rows = engine.rows(frozen.group_by(*keys).agg(nw.len().alias("size")))
    return frozen, np.array(rows, dtype=np.int64).reshape(-1, len(keys) + 1)


def items_in(engine: Engine, frozen: Lazy, numbers: range | None, groups: Domain | None) -> int:
    """How many different items of the domain have a frozen count, in all groups together."""
    cells = ["item"]
    if numbers is not None:
        frozen = query.keep_range(frozen, nw.Int64(), numbers)
    if groups is not None:
        cells.append("group")
        frozen = frozen.filter(nw.col("group").is_between(0, len(groups.labels) - 1))
    return int(engine.rows(frozen.select(*cells).unique().select(nw.len()))[0][0])


# --------------------------------------------------------------------------------------------------
# Answers are frozen in an engine, for one question or for all groups.
#
# One table has the answers of all groups, and one query fetches their counts of counts. If the
# public numbers of groups and items are small, all answers that are not 0 are fetched at once
# instead. So a thousand groups do not need a thousand queries.


FETCHED = 10**7
"""The most pairs of groups and items, absent ones included, whose answers are fetched at once."""

_CELLS_AT_ONCE = 1 << 18


def count_in_engine(
    engine: Engine,
    rows: Lazy,
    domain: Stated,
    groups: Domain | None,
    facts: dict[str, Any],
    resources: ExitStack,
) -> PrivateCounts | CountsByGroup:
    """Freeze the bounded counts or sums of a domain's items.

    `rows` has the column `item`, and may have `unit`, `group` and `amount`. `domain` is a stated
    domain, a frame of the engine with the one column `item`, or None for all items that occur; with
    groups it is no frame. `facts` are the facts that the answers carry. `resources` stay open until
    the answers are closed.
    """
    question: Question = facts["origin"]
    plain = with_masked_errors(lambda: engine.plain(rows))
    narrow = query.narrow(engine, plain, domain, "item")
    of_groups = query.narrow(engine, plain, groups, "group")
    labels = domain.labels if isinstance(domain, Domain) else None
    size = None if labels is None else len(labels)

    def bounded() -> Lazy:
        if question.is_plain:  # there is no bound, so each item is compared once, not in each row
            added = narrow(query.add_up(engine, plain, question, size))
        else:
            added = query.add_up(engine, of_groups(narrow(plain)), question, size)
        if isinstance(domain, nw.LazyFrame):
            items = engine.plain(domain).drop_nulls().unique()
            filled = nw.col("units").fill_null(0)
            return items.join(added, on="item", how="left").select("item", filled)
        return added if labels is None else added.filter(nw.col("units") != 0)

    refusal = query.TWO_TABLES if isinstance(domain, nw.LazyFrame) else UNREADABLE
    frozen, tallied = with_masked_errors(lambda: freeze(engine, bounded(), resources), refusal)
    numbers = labels if labels is None or isinstance(labels, range) else range(len(labels))
    items = with_masked_errors(lambda: items_in(engine, frozen, numbers, groups))
    least = 0 if isinstance(domain, nw.LazyFrame) else 1
    require_possible(tallied[:, -2], items == tallied[:, -1].sum(), question, least)
    if groups is not None and size is not None and size * len(groups.labels) <= FETCHED:
        return _fetched(engine, frozen, groups.labels, labels, numbers, facts)
    if not tallied.size and numbers is None and not question.unknown:
        raise ValueError("domain must not be empty")
    kept = Kept(engine, resources.pop_all())
    if groups is None:
        return CountsInEngine(labels, engine, frozen, numbers, tallied, kept, **facts)

    def make(index: int) -> PrivateCounts:
        of_group = tallied[tallied[:, 0] == index, 1:]
        part = frozen.filter(nw.col("group") == index)
        return CountsInEngine(labels, engine, part, numbers, of_group, kept, **facts)

    return CountsByGroup(groups.labels, make, question)


def _fetched(
    engine: Engine, frozen: Lazy, groups: Any, labels: Any, numbers: Any, facts: dict[str, Any]
) -> CountsByGroup:
    """The answers of all groups that are not 0, fetched into this process."""
    batches = list(engine.batches(frozen.select("group", "item", "units"), _CELLS_AT_ONCE))
    group = _joined(batches, "group")
    order = np.argsort(group, kind="stable")
    positions = positions_in(numbers, _joined(batches, "item"))[order]
    units = _joined(batches, "units")[order]
    starts = np.searchsorted(group[order], np.arange(len(groups) + 1))

    def make(index: int) -> PrivateCounts:
        rows = slice(starts[index], starts[index + 1])
        return CountsInMemory(labels, positions[rows], units[rows], **facts)

    return CountsByGroup(groups, make, facts["origin"])


def _joined(batches: list[Batch], name: str) -> Integers:
    """A column of whole numbers, of all batches together."""
    no_rows = np.empty(0, np.int64)
    return np.concatenate([no_rows, *(batch[name].astype(np.int64) for batch in batches)])
