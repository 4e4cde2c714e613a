"""The counts of every topic, made when the desk starts and when a steward asks for it.

The desk never counts because of a question. So the time and load of a question do not show whether
it was asked before, and a table is read at public times.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpgap.data.counts import count_items, units_of
from dpgap.data.private_counts import CountsByGroup, CountsInMemory, Integers, PrivateCounts
from dpgap.desk.config import FileFaults, ListedData, StewardsFile, Topic
from dpgap.desk.middleware import Refused
from dpgap.printable import printable

_FEW = 1 << 16
"""The most items that are held in memory; the number of items is public."""


_FACTS = ("sensitivity", "monotonic", "origin", "reach", "step", "unknown")


class Slot:
    """The counts of one topic; one question at a time draws from them."""

    def __init__(self, answers: PrivateCounts | CountsByGroup) -> None:
        self._lock = threading.Lock()
        self._answers = answers
        if isinstance(answers, CountsByGroup):
            first: PrivateCounts = next(iter(answers.values()))
        else:
            first = answers
        # A paid answer must have the same labels.
        labels: Sequence[Any] = ()
        if not first.unknown:
            labels = range(len(first))
            if first.labels is not None:
                labels = first.labels
        self.facts = _in_memory(first, labels, np.empty(0, dtype=np.int64))
        """Their public facts; all groups have the same facts."""
        self.empty: PrivateCounts | CountsByGroup = self.facts
        """The same counts of a table without rows. Plans and charges are made from these.

        So neither they, nor the time that they take, depend on the table.
        """
        if isinstance(answers, CountsByGroup):
            self.empty = CountsByGroup(tuple(answers), lambda _: self.facts, answers.origin)

    def __repr__(self) -> str:
        return "<private counts of a topic>"

    @contextmanager
    def using(self) -> Iterator[Any]:
        """The counts, for one question."""
        with self._lock:
            yield self._answers


class TopicCounts:
    """The counts of all topics."""

    def __init__(self, file: StewardsFile) -> None:
        faults = []
        self._folder = f"{file.path.parent}/"
        self._slots: dict[tuple[str, str], Slot] = {}
        for data in file.datasets.values():
            for topic in data.topics.values():
                try:
                    self._slots[data.name, topic.name] = Slot(_count(data, topic))
                except (ValueError, TypeError, OSError, ImportError) as error:
                    faults.append((topic.line, f"{data.name}.{topic.name}: {error}"))
        if faults:
            raise FileFaults(file.path, faults)
        self._counting = threading.Lock()

    def slot(self, data: ListedData, topic: Topic) -> Slot:
        """The newest counts of a topic."""
        return self._slots[data.name, topic.name]

    def refresh(self, data: ListedData) -> None:
        """Count all topics of a data set again.

        Questions under way go on with the older counts, which are dropped after the last of these.
        If the table cannot be counted, all questions go on with the older counts, and an error says
        why.
        """
        with self._counting:
            topics = data.topics.values()
            try:
                counted = {(data.name, topic.name): Slot(_count(data, topic)) for topic in topics}
            except (ValueError, TypeError, OSError) as error:
                message = f"{data.name} was not counted again, and its older counts stay: {error}"
                raise Refused(503, printable(message.replace(self._folder, ""))) from None
            self._slots |= counted


def _in_memory(facts: PrivateCounts, labels: Sequence[Any], counts: Integers) -> PrivateCounts:
    positions = np.flatnonzero(counts)
    public = {name: getattr(facts, name) for name in _FACTS}
    return CountsInMemory(labels=labels, positions=positions, counts=counts[positions], **public)


def _count(data: ListedData, topic: Topic) -> Any:
    if topic.item is None:
        return units_of(data.table, topic.counting)
    counts = count_items(data.table, topic.counting)
    if isinstance(counts, CountsByGroup) or counts.unknown:
        return counts
    if counts.labels is None or len(counts) > _FEW:
        return counts
    # An engine is slow to look up winners.
    return _in_memory(counts, counts.labels, counts.expanded())
