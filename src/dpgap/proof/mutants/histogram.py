"""Noisy histograms gone wrong: noise for fewer answers than a unit can move, and folded noise."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgap.exact.bits import Bits
from dpgap.exact.geometric import GeometricNoise
from dpgap.exact.laws import LaplaceNoise, Scalar
from dpgap.exact.reals import Integers
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.proof.checker.families import altered
from dpgap.proof.mutants.entry import CatalogueEntry, Event

_LN_2 = Fraction(69, 100)
"""A little less than it is."""


@dataclass(frozen=True, slots=True)
class FoldedNoise(GeometricNoise):
    """A sign, and the floor of a size: 0 comes from both sides, and is twice as likely."""

    def floors(self, bits: Bits, *shape: int) -> Integers:
        """Laplace noise that is rounded towards 0."""
        floors = LaplaceNoise(self.scale).floors(bits, *shape)
        return np.where(floors < 0, floors + 1, floors)

    def cost(self, shift: Scalar) -> Scalar:
        """From 0 to 1 the law falls by ln 2 as well."""
        return abs(shift) / self.scale + _LN_2


def entries() -> list[CatalogueEntry]:
    """What must be refuted."""
    sound, one = NoisyHistogram(1, reach=2), NoisyHistogram(1)
    return [
        CatalogueEntry(
            "histogram with noise for a reach of one",
            altered(sound, law=one.law),
            Event((0, 0), (-1, -1), lambda values: bool(values[0] >= 0) and bool(values[1] >= 0)),
            how={"ties": True},
        ),
        CatalogueEntry(
            "histogram whose noise is folded at zero",
            altered(one, law=FoldedNoise(Fraction(1))),
            Event((0,), (-1,), _is_zero),
            n=1,
            how={"ties": True},
        ),
    ]


def _is_zero(values: Any) -> bool:
    return bool(values[0] >= 0) and not bool(values[0] >= 1)
