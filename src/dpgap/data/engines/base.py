"""Engines that keep the data: the interface is small, and few data cross the network.

An engine counts the distinct units of every item and *freezes* the result, a table with a row for
each item, inside itself. From then on everything is read from this one table, so a release never
mixes two states of the data. The *driver* is the process that asks. It fetches the count of counts:
how many items have each count. It asks for winners as "the j-th item with this count", all of them
in one statement. Each j is random, so the order in which the statement numbers the members of a
count does not matter.

Engines log statements with their parameters. So private numbers reach an engine only as a *hidden*
frame: the engine draws a random pad for each number, and the driver fetches the pads as an answer.
It sends each number XOR its pad. This is as uniform as the pad, whatever the number is.

Engines quote rows in their messages and logs. None of these messages passes through: a failure
after counting becomes an `EngineError` in our own words.
"""

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import Frame, Lazy
from dpgap.exact.bits import ProcessBound

T = TypeVar("T")

Row = tuple[Any, ...]
Batch = dict[str, NDArray[Any]]
Numbers = Mapping[str, Sequence[int]]
"""Columns of whole numbers of 64 bits, by their names."""

PART_BITS = 15
"""How many bits of the number of a stored row say its place in a part."""

_ALIKE = ["a", "A", "a ", "á", "a\u0301", "ß", "ss", "7", "７"]
"""Texts that are different, and equal under one collation or another."""

_STOPPED = (
    "the engine that holds the data stopped or refused before the answer was complete: nothing was "
    "released, and the ε that was reserved stays charged"
)


def fresh_name() -> str:
    """A name for a table that no other table has."""
    return f"dpgap_{secrets.token_hex(8)}"


def lazy(native: Any) -> Lazy:
    """An engine's own frame, as a frame of Narwhals."""
    frame: Lazy = nw.from_native(native)
    return frame


class EngineError(RuntimeError):
    """An engine failed after counting; nothing was released."""


class Engine(ProcessBound, ABC):
    """The interface of an engine. All frames are lazy frames of Narwhals."""

    def __init__(self) -> None:
        super().__init__()
        self._one_at_a_time = threading.RLock()

    def rows(self, frame: Lazy) -> list[Row]:
        """All rows of a small frame."""
        return self.ask(self._collect, frame.to_native())

    def batches(self, frame: Lazy, size: int) -> Iterator[Batch]:
        """All rows of a large frame in its order, some at a time."""
        batches = self._batches(frame, size)
        while (batch := self.ask(next, batches, None)) is not None:
            yield batch

    def members(self, frozen: Lazy, counts: Sequence[int], indices: Sequence[int]) -> list[Any]:
        """The item of the frozen counts with each count and index; None if the index is −1.

        One count may have most of the rows. So they are counted in parts, and only the part that
        has the item is numbered.
        """
        if not counts:
            return []
        with self.hidden({"units": counts}) as hidden:
            sizes = self.rows(self.ask(_sizes, frozen, hidden))
        with self.hidden(self.ask(_located, sizes, counts, indices)) as hidden:
            items = {at: item for item, at in self.rows(self.ask(_items, frozen, hidden))}
        if any(index >= 0 and at not in items for at, index in enumerate(indices)):
            raise EngineError(_STOPPED)
        return [items.get(at) for at in range(len(counts))]

    @contextmanager
    def hidden(self, numbers: Numbers) -> Iterator[Lazy]:
        """A frame of private numbers and their `position`; no statement or parameter shows them."""
        (size,) = {len(column) for column in numbers.values()}
        pads = self.ask(self._pads, list(numbers), size)
        try:
            pads_by_position = {position: row for position, *row in self.rows(pads)}
            masked = []
            for position, row in enumerate(zip(*numbers.values(), strict=True)):
                pairs = zip(row, pads_by_position[position], strict=True)
                masked.append((position, *(number ^ pad for number, pad in pairs)))
            yield self.ask(self._unmask, pads, list(numbers), masked)
        finally:
            self.drop(pads)

    def ask(self, action: Callable[..., T], *given: Any) -> T:
        """The engine's answer, or an error without any of its words."""

        def act() -> T:
            with self._one_at_a_time, self.quiet():
                return action(*given)

        return with_masked_errors(act, _STOPPED, EngineError)

    def plain(self, frame: Lazy) -> Lazy:
        """The same rows; a `unit`, `item` or `group` of text has the plain type of text."""
        return frame

    def merges(self, column: Lazy) -> bool:
        """Whether some different texts count as equal in a column of text; looks at no row."""
        nothing = column.select(nw.col("item").cast(nw.String)).head(0)
        probe = nw.concat([nothing, self.list_items(_ALIKE).select("item")])
        rows = self._collect(probe.unique().select(nw.len()).to_native())
        return int(rows[0][0]) < len(_ALIKE)

    def require_faithful(self) -> None:
        """Refuse an engine that would change text; looks at no row."""
        return

    def quiet(self) -> AbstractContextManager[None]:
        """Keep the engine from logging rows."""
        return nullcontext()

    @abstractmethod
    def freeze(self, frame: Lazy) -> Lazy:
        """The same rows, computed once and stored, with a `part` and a `number` in it for each.

        A part has few rows of the table, and no two rows of a part have the same number.
        """

    def drop(self, frozen: Lazy) -> None:
        """Drop the frozen table."""
        with suppress(Exception), self._one_at_a_time:  # a session that is gone has dropped it
            self._drop(frozen)

    @abstractmethod
    def _drop(self, frozen: Lazy) -> None: ...

    @abstractmethod
    def list_items(self, items: Sequence[str | None] | Sequence[int | None]) -> Lazy:
        """Public items as a frame: `item` and its `position` in the list."""

    @abstractmethod
    def shuffled(self, frame: Lazy, salt: str) -> Lazy:
        """The same rows, ordered by a hash of the salt and the item."""

    @abstractmethod
    def keep_few(self, frame: Lazy, cells: Sequence[str], most: int, key: str) -> Lazy:
        """The rows of at most `most` different cells of each `unit`, by a secret order of cells.

        The order is by a hash of the key, the unit and the cell; the cell breaks ties. So it
        depends on nothing else, neither on the order of rows nor on other units.
        """

    def can_order(self, frame: Lazy, column: str) -> bool:
        """Whether equal values of a column have the same hash; looks at no row."""
        return True

    def widen(self, frame: Lazy, column: str) -> Lazy:
        """The same rows; a column of whole numbers gets a type whose sums cannot overflow."""
        return frame

    @abstractmethod
    def _collect(self, native: Any) -> list[Row]: ...

    @abstractmethod
    def _batches(self, frame: Lazy, size: int) -> Iterator[Batch]: ...

    @abstractmethod
    def _pads(self, columns: Sequence[str], size: int) -> Lazy:
        """A stored frame of `position`, from 0, and uniform numbers of 64 bits in these columns.

        Neither statements nor what the engine logs show how they were drawn.
        """

    @abstractmethod
    def _unmask(self, pads: Lazy, columns: Sequence[str], masked: Sequence[Row]) -> Lazy:
        """The frame of masked numbers XOR pads; a masked row begins with its position."""


def _sizes(frozen: Lazy, hidden: Lazy) -> Lazy:
    """How many rows of each part have each of the hidden counts."""
    rows = frozen.join(hidden.select("units"), on="units", how="semi")
    return rows.group_by("units", "part").agg(nw.len().alias("size"))


def _items(frozen: Lazy, hidden: Lazy) -> Lazy:
    """The items at the hidden places, and their positions there."""
    rows = frozen.join(hidden.select("units", "part"), on=["units", "part"], how="semi")
    place = nw.col("number").cum_count().over("units", "part", order_by="number")
    numbered = rows.with_columns(place.cast(nw.Int64).alias("place"))
    found = numbered.join(hidden, on=["units", "part", "place"], how="inner")
    return found.select("item", "position")


def _located(sizes: list[Row], counts: Sequence[int], indices: Sequence[int]) -> Numbers:
    """For each count and index: the count, the part that has the item, and its place there, from 1.

    `sizes` are how many rows with a count a part has. An index of −1 is in no part.
    """
    sought = np.array(counts)
    is_member = np.array(indices) >= 0
    part_of = np.full(sought.size, -1)
    place = np.zeros(sought.size, dtype=np.int64)
    if is_member.any():
        units, part, size = np.array(sorted(sizes)).T
        ends = np.cumsum(size)
        starts = ends - size
        first = starts[np.searchsorted(units, sought[is_member])]
        in_all = first + np.array(indices)[is_member]
        at = np.searchsorted(ends, in_all, side="right")
        part_of[is_member] = part[at]
        place[is_member] = in_all - starts[at] + 1
    return {"units": counts, "part": part_of.tolist(), "place": place.tolist()}


def engine_of(frame: Frame) -> Engine | None:
    """The engine behind a lazy frame; None for a frame in the memory of this process."""
    kind = frame.implementation
    if kind.is_duckdb():
        from dpgap.data.engines.duckdb import DuckDB

        return DuckDB(frame.to_native())
    if kind.is_pyspark() or kind.is_pyspark_connect():
        from dpgap.data.engines.spark import Spark

        return Spark(frame.to_native())
    if kind.is_ibis():
        from dpgap.data.engines.ibis import Ibis

        return Ibis(frame.to_native())
    return None
