"""What the catalogue says of a mechanism: how to prove or refute it, and what damns it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpgap.exact.laws import LaplaceNoise, RealLaw, Scalar
from dpgap.proof.auditing.calling import frequency
from dpgap.proof.auditing.finding import EPSILON, Audit, lower_bound
from dpgap.proof.checker.proving import Counterexample, Proof, prove, replay

MUTANT, ACCEPT = "mutant", "accept"

Answers = Sequence[Scalar]
Shifts = list[Scalar]


@dataclass(frozen=True, slots=True)
class Event:
    """What gives a mutant away: it happens more than e times as often as on a neighbour.

    `happens` looks at an output. `chance` computes the event's probability on some answers; it is
    given where sampling would take too long.
    """

    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    happens: Callable[[Any], bool]
    chance: Callable[[Sequence[int]], float] | None = None
    on_grid: bool = False
    samples: int = 1_000_000
    """How many make it certain to be seen, half of them on each side."""

    bounds: ClassVar[str] = EPSILON
    """What it bounds from below."""

    def claimed(self, mechanism: Any) -> float:
        """What the mechanism claims that to be."""
        return float(Fraction(mechanism.epsilon))

    def least(self, mechanism: Any) -> float:
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


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A mechanism, and how many answers it is judged on.

    With an event that damns it, it must be refuted. Without one it must be proved, odd as it looks.
    """

    name: str
    mechanism: Any
    event: Event | None = None
    n: int = 2
    k: int = 1
    how: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the proof."""

    def judge(self) -> Proof:
        """Prove it, or refute it."""
        return prove(self.mechanism, self.n, **self.how)

    def replay(self, example: Counterexample) -> None:
        """Raise the `Violation` that is found at a counterexample's numbers."""
        replay(self.mechanism, example)

    @property
    def kind(self) -> str:
        """Which verdict it must get."""
        return ACCEPT if self.event is None else MUTANT

    @property
    def variant(self) -> str:
        """Which neighbours it is judged on."""
        return str(self.how.get("neighbours", "general"))


def audit_mutant(entry: CatalogueEntry) -> Audit:
    """Audit a mutant by its event: on samples of its program, or exactly where it is rare."""
    start = time.perf_counter()
    event = entry.event
    if event is None:
        raise ValueError(f"{entry.name} has no event to be audited by")
    samples = event.samples if event.chance is None else 0
    return Audit(
        entry.name,
        entry.kind,
        entry.variant,
        "program" if samples else "exact",
        event.claimed(entry.mechanism),
        event.least(entry.mechanism),
        samples,
        None,
        time.perf_counter() - start,
        event.bounds,
    )


def laplace(scale: int | Fraction) -> LaplaceNoise:
    """Laplace noise of this scale."""
    return LaplaceNoise(Fraction(scale))


def repeat(*runs: tuple[int, int]) -> tuple[int, ...]:
    """So many answers of each value.

    >>> repeat((1, 2), (-1, 1))
    (1, 1, -1)
    """
    return tuple(value for value, times in runs for _ in range(times))


_NODES, _REACH = 24, 45


def integrate(given: Callable[[Any], Any], law: RealLaw) -> float:
    """The mean of `given` over noise whose density is smooth between whole numbers.

    Gauss–Legendre nodes between these; tails are cut off where they are below 1e-19.
    """
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    reach = int(_REACH * law.scale)
    points = (np.arange(-reach, reach)[:, None] + (places + 1) / 2).ravel()
    values = law.density(points) * given(points)
    return float((values.reshape(-1, _NODES) @ weights / 2).sum())
