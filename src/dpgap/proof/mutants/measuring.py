"""Measurements gone wrong: too little noise, or noise for other neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dpgap.exact.laws import Noise, Scalar
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.proof.audit.design import MOST
from dpgap.proof.audit.events import Event
from dpgap.proof.audit.joint_measured import chances_of_pairs
from dpgap.proof.mutants.entry import Answers, CatalogueEntry, Shifts, laplace, mutant


@dataclass(frozen=True, slots=True)
class TooMany:
    """Measures all that an adaptive run found with noise for the k that it was asked for."""

    k: int = 1

    epsilon: ClassVar[int] = 1

    def run(self, answers: Answers, noise: Noise) -> tuple[Scalar, ...]:
        """Every answer plus its own noise."""
        law = laplace(self.k)
        return tuple(answer + noise.draw(law) for answer in answers)

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """Each draw makes up for its own answer's change."""
        return [before - after for before, after in zip(answers, neighbour, strict=True)]


def entries() -> list[CatalogueEntry]:
    """What must be refuted."""
    hull = CountHull(1, monotonic=True)
    return [
        mutant(
            "measured with noise for fewer answers",
            TooMany(k=1),
            2,
            Event((0, 0), (-1, -1), lambda values: bool(values[0] >= 0) and bool(values[1] >= 0)),
        ),
        mutant(
            "count hull on answers that move both ways",
            hull,
            2,
            Event((0, 0), (1, -1), _is_zero, hull_releases_zero),
            k=2,
            neighbours="general",
        ),
        mutant(
            "count hull that ignores the sensitivity",
            hull,
            2,
            Event((0, 0), (3, 3), _is_zero, hull_releases_zero),
            k=2,
            neighbours="rising",
            sensitivity=3,
        ),
    ]


def _is_zero(values: Sequence[Scalar]) -> bool:
    return all(value == 0 for value in values)


def hull_releases_zero(answers: Sequence[int]) -> float:
    """The chance that two values are released as exactly 0, on whole steps with scale 1."""
    return float(chances_of_pairs(CountHull(1, monotonic=True), answers)[MOST, MOST])
