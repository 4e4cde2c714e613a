"""Measurements gone wrong: too little noise, or noise for other neighbours."""

import math
from collections.abc import Sequence
from fractions import Fraction

from dpgap.exact.laws import LaplaceNoise, Scalar
from dpgap.mechanisms.measuring import CountHull, Laplace
from dpgap.proof.mutants.entry import CatalogueEntry, Event


class TooMany(Laplace):
    """Measures all that an adaptive run found with noise for a single answer."""

    __slots__ = ()

    @staticmethod
    def noise(scale: Fraction, count: int) -> LaplaceNoise:
        """The noise of one value, however many there are."""
        return LaplaceNoise(scale)


def entries() -> list[CatalogueEntry]:
    """What must be refuted."""
    hull = CountHull(1, monotonic=True)
    return [
        CatalogueEntry(
            "measured with noise for fewer answers",
            TooMany(1),
            Event((0, 0), (-1, -1), lambda values: bool(values[0] >= 0) and bool(values[1] >= 0)),
        ),
        CatalogueEntry(
            "count hull on answers that move both ways",
            hull,
            Event((0, 0), (1, -1), _is_zero, hull_releases_zero),
            k=2,
            how={"neighbours": "general"},
        ),
        CatalogueEntry(
            "count hull that ignores the sensitivity",
            hull,
            Event((0, 0), (3, 3), _is_zero, hull_releases_zero),
            k=2,
            how={"neighbours": "rising", "sensitivity": 3},
        ),
    ]


def _is_zero(values: Sequence[Scalar]) -> bool:
    return all(value == 0 for value in values)


def hull_releases_zero(answers: Sequence[int]) -> float:
    """The chance that two values are released as exactly 0, on whole steps with scale 1."""
    steps = range(-60, 61)
    chances = {(x, y): math.exp(min(x, y, 0) - max(x, y, 0)) for x in steps for y in steps}
    return chances[answers[0], answers[1]] / sum(chances.values())
