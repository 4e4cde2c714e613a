"""Engines that keep the data: little is asked of them, and little crosses the wire.

An engine counts the distinct units of every item and *freezes* the result, a table with a row for
each item, inside itself. From then on everything is read from that one table, so that a release
never mixes two states of the data. The driver is the process that asks. It fetches the count of
counts: how many items have each count. Winners are asked for as "the j-th item with this count",
all of them in one statement. Each j is random, so it does not matter how that statement numbers
the members of a count.

Engines quote rows in their messages and logs. Nothing of theirs passes through: what fails once
the data has been counted ends in an `EngineError` in words of our own.
"""

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

import narwhals as nw
from numpy.typing import NDArray

from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import Frame, Lazy
from dpgap.exact.bits import ProcessBound

T = TypeVar("T")

Row = tuple[Any, ...]
Batch = dict[str, NDArray[Any]]
Member = tuple[int, int]
"""A count, and a place among the items that have it: from 0 up."""

FEW = 64
"""Up to this many members are looked up one by one, so that an engine can stop early."""

_ALIKE = ["a", "A", "a ", "á", "a\u0301", "ß", "ss", "7", "７"]
"""Texts that are different, and equal under one collation or another."""

_STOPPED = (
    "the engine that holds the data stopped or refused before the answer was complete: nothing was "
    "released, and what was reserved for it stays charged"
)


def fresh_name() -> str:
    """A name for a table that no other table has."""
    return f"dpgap_{secrets.token_hex(8)}"


def lazy(native: Any) -> Lazy:
    """What an engine has, as a frame of Narwhals."""
    frame: Lazy = nw.from_native(native)
    return frame


class EngineError(RuntimeError):
    """An engine failed after counting; nothing was released."""


class Engine(ProcessBound, ABC):
    """What is asked of an engine. Frames are Narwhals' lazy frames, whatever is inside."""

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

    def members(self, frozen: Lazy, wanted: Sequence[Member]) -> list[Any]:
        """For each count and place: that item of the frozen counts."""
        if not wanted:
            return []
        rows = self.ask(self._members, frozen.to_native(), wanted)
        found = {(units, place): item for item, units, place in rows}
        if not found.keys() >= set(wanted):
            raise EngineError(_STOPPED)
        return [found[each] for each in wanted]

    def ask(self, action: Callable[..., T], *given: Any) -> T:
        """What the engine answers, or an error with nothing of its own words."""

        def act() -> T:
            with self._one_at_a_time, self.quiet():
                return action(*given)

        return with_masked_errors(act, _STOPPED, EngineError)

    def plain(self, frame: Lazy) -> Lazy:
        """The same rows, with a text `item` or `group` as nothing but text."""
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

    def sums_exactly(self) -> bool:
        """Whether sums of whole numbers are exact, also beyond 64 bits; looks at no row."""
        return True

    def quiet(self) -> AbstractContextManager[None]:
        """Keep the engine from logging rows."""
        return nullcontext()

    @abstractmethod
    def freeze(self, frame: Lazy) -> Lazy:
        """The same rows, computed once and for all."""

    def drop(self, frozen: Lazy) -> None:
        """Let go of what was frozen."""
        with suppress(Exception):  # a session that is gone has dropped it
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
        """The rows of at most so many different cells of each `unit`, by a secret order of them.

        The order is a hash of the key, the unit and the cell; the cell itself decides a tie. So it
        depends on nothing else, such as the order of rows or what other units have.
        """

    def can_order(self, frame: Lazy, column: str) -> bool:
        """Whether equal values of a column have the same hash; looks at no row."""
        return True

    def widen(self, frame: Lazy, column: str) -> Lazy:
        """The same rows, with whole numbers of a type whose sums cannot overflow."""
        return frame

    @abstractmethod
    def _collect(self, native: Any) -> list[Row]: ...

    @abstractmethod
    def _batches(self, frame: Lazy, size: int) -> Iterator[Batch]: ...

    @abstractmethod
    def _members(self, native: Any, wanted: Sequence[Member]) -> list[Row]:
        """Rows of item, count and place, in any order."""


def engine_of(frame: Frame) -> Engine | None:
    """The engine behind a lazy frame; None where frames live in this process."""
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
