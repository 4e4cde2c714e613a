"""Private counts of several public groups, made in one scan: one for each group, by its label."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpgap.data.private_counts import PrivateCounts
from dpgap.releases.questions import Origin


class CountsByGroup(Mapping[Any, PrivateCounts]):
    """The counts of every group, in the order in which the groups were stated.

    Groups share what an engine keeps: closing one of them, or all together, closes all.
    """

    __slots__ = ("_made", "_make", "_places", "origin")

    def __init__(
        self, labels: tuple[Any, ...], make: Callable[[int], PrivateCounts], origin: Origin
    ) -> None:
        self._places = {label: place for place, label in enumerate(labels)}
        self._make = make
        self._made: dict[int, PrivateCounts] = {}
        self.origin = origin

    def __getitem__(self, label: Any) -> PrivateCounts:
        place = self._places[label]
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        """Let go of what an engine keeps for these answers, where one does."""
        self[next(iter(self))].close()

    def __repr__(self) -> str:
        return f"<private answers of {len(self)} groups>"
