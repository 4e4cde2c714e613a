"""The counts of every topic, made when the desk starts and when a steward says so.

No question ever makes the desk count. So what a question costs in time and load does not show
whether it was asked before, and a table is read at times that are public.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

import dpgap
from dpgap.data.by_group import CountsByGroup
from dpgap.data.counts import units_of
from dpgap.desk.stewards_file import FileFaults, ListedData, StewardsFile, Topic


class TopicFacts(NamedTuple):
    """What is public of a topic's counts: all that a plan needs, and what a release is made by."""

    sensitivity: Fraction
    monotonic: bool
    reach: int | None
    step: Fraction
    unknown: bool
    parts: int
    """In how many groups a unit counts at most."""
    items: int | None
    """How many items can be found; None where they are not stated, and so are private."""

    @classmethod
    def of(cls, answers: Any) -> "TopicFacts":
        """Of counts, or of those of every group, which have the same facts."""
        one = next(iter(answers.values())) if isinstance(answers, CountsByGroup) else answers
        items = None if one.unknown else len(one)
        told = (one.sensitivity, one.monotonic, one.reach, one.step, one.unknown)
        return cls(*told, answers.origin.max_groups, items)


class Slot:
    """The place of one topic's counts. One question at a time uses them."""

    def __init__(self, answers: Any) -> None:
        self._lock = threading.Lock()
        self._answers = answers
        self.facts = TopicFacts.of(answers)

    def __repr__(self) -> str:
        return "<private counts of a topic>"

    @contextmanager
    def using(self) -> Iterator[Any]:
        """The counts, for one question."""
        with self._lock:
            yield self._answers

    def put(self, answers: Any) -> None:
        """Put newer counts in their place."""
        with self._lock:
            old, self._answers = self._answers, answers
        old.close()


class Shelf:
    """The counts of all topics."""

    def __init__(self, file: StewardsFile) -> None:
        faults = []
        slots: dict[tuple[str, str], Slot] = {}
        for data in file.datasets.values():
            for topic in data.topics.values():
                try:
                    slots[data.name, topic.name] = Slot(_count(data, topic))
                except (ValueError, TypeError, OSError) as error:
                    faults.append((topic.line, f"{data.name}.{topic.name}: {error}"))
        if faults:
            raise FileFaults(file.path, faults)
        self._slots: Mapping[tuple[str, str], Slot] = slots
        self._counting = threading.Lock()

    def slot(self, data: ListedData, topic: Topic) -> Slot:
        """Where the counts of a topic are."""
        return self._slots[data.name, topic.name]

    def refresh(self, data: ListedData) -> None:
        """Count all topics of a data set again. Questions go on meanwhile, with older counts."""
        with self._counting:
            counted = {topic.name: _count(data, topic) for topic in data.topics.values()}
            for name, answers in counted.items():
                self._slots[data.name, name].put(answers)


def _count(data: ListedData, topic: Topic) -> Any:
    facts: dict[str, Any] = {"unit": data.unit, "neighbours": data.neighbours}
    if topic.item is None:
        return units_of(data.table, **facts, **topic.counting)
    return dpgap.counts(data.table, **facts, item=topic.item, **{"domain": None, **topic.counting})
