"""Events that damn a mechanism: far likelier on some answers than ε allows on their neighbour."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpgap.proof.audit.finding import lower_bound
from dpgap.proof.audit.path_sampling import frequency


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens more than e times as often on the answers as on their neighbour.

    `chance` computes its probability; it is given where sampling would take too long.
    """

    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    happens: Callable[[Any], bool]
    chance: Callable[[Sequence[int]], float] | None = None
    on_grid: bool = False
    samples: int = 1_000_000
    """How many make it certain to be seen, half of them on each side."""

    def least_epsilon(self, mechanism: Any) -> float:
        """What the mechanism's ε is at least: exactly, or by samples of its program."""
        sides = self.answers, self.neighbour
        if self.chance is not None:
            likely, unlikely = map(self.chance, sides)
            return math.log(likely / unlikely)
        runs = self.samples // 2
        hits, hits_neighbour = (
            frequency(mechanism.run, side, self.happens, runs, on_grid=self.on_grid)
            for side in sides
        )
        return lower_bound(hits, hits_neighbour, runs)
