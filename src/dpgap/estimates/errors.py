"""What a released number may be off by: small values that a release keeps.

They hold parameters of the noise and nothing else, so that they can be copied, compared and
written down. Variances, intervals and lower bounds follow from them. What was worked out once for
a law is remembered: laws are public.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpgap.estimates.linear import gap_shortfall
from dpgap.exact.geometric import GeometricNoise
from dpgap.exact.laws import LaplaceNoise, Law
from dpgap.exact.reals import Floats
from dpgap.exact.shells import ShellNoise

_TERMS = 1 << 16

ValueLaw = LaplaceNoise | GeometricNoise | ShellNoise
"""Noise that values are measured with."""


@dataclass(frozen=True, slots=True)
class MeasurementError:
    """The noise of one measured value: its law, in whole steps of the grid."""

    law: ValueLaw
    grid: Fraction

    @property
    def variance(self) -> float:
        """The variance of the value."""
        return _variance(self.law) * float(self.grid) ** 2

    def half_width(self, level: float) -> float:
        """How far the value is off at most, with confidence `level`."""
        return _half_width(self.law, level) * float(self.grid)

    def ends(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of an interval for each value; shape (k, 2)."""
        return around(values, self.half_width(level) + rounding)


@dataclass(frozen=True, slots=True)
class LaplaceSum:
    """The error of an estimate made from gaps: a weighted sum of Laplace draws, and of floors."""

    terms: tuple[tuple[float, int], ...]
    """Scales in steps of the grid, and how many draws have them."""
    floored: float
    """How many steps the floors of those draws come to at most."""
    grid: Fraction

    def half_width(self, level: float) -> float:
        """How far the estimate is off at most, with confidence `level`."""
        width = laplace_sum_half_width(self.terms, level) + self.floored
        return width * float(self.grid)

    def ends(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of an interval for each estimate; shape (k, 2)."""
        return around(values, self.half_width(level) + rounding)


@dataclass(frozen=True, slots=True)
class GapErrors:
    """The noise in gaps above a threshold: the threshold's own, and a law for each branch."""

    threshold: Fraction
    threshold_law: Law
    branch_laws: tuple[Law, ...]
    grid: Fraction | None

    def lower_bound(self, gap: float, branch: int, level: float) -> float:
        """A true answer with this gap is at least this, with confidence `level`.

        Every branch is a try of its own at a gap that overstates the answer. So branches share the
        chance that may go wrong, 1 − level: each has half as much of it as the one before. The
        cheapest has the most noise and the largest part, so that no bound is lower by more than
        about 0.7 of the cheapest branch's scale.
        """
        law = self.branch_laws[branch - 1]
        chance = (1 - level) * 2.0**-branch / (1 - 2.0 ** -len(self.branch_laws))
        short = gap_shortfall(law, self.threshold_law, self.grid, chance)
        return float(self.threshold) + gap - short


def around(values: Floats, half: float) -> Floats:
    """The ends of intervals of one width around values."""
    return np.stack([values - half, values + half], axis=1)


@lru_cache(maxsize=256)
def _variance(law: ValueLaw) -> float:
    return law.value_variance


@lru_cache(maxsize=256)
def _half_width(law: ValueLaw, level: float) -> float:
    return law.value_half_width(level)


@lru_cache(maxsize=64)
@np.errstate(all="ignore")  # tails underflow, as they should, whatever the caller's settings
def laplace_sum_half_width(terms: tuple[tuple[float, int], ...], level: float) -> float:
    """The x with P(|S| ≤ x) = level, S a sum of Laplace draws given as (scale, how many).

    It is worked out from the characteristic function, so it is that of the true sum and not of a
    normal approximation.

    >>> round(laplace_sum_half_width(((2.0, 1),), 0.95), 6)
    5.991465
    """
    terms = tuple((abs(scale), count) for scale, count in terms if scale and count)
    if not terms:
        return 0.0
    if sum(count for _, count in terms) == 1:
        return -terms[0][0] * math.log1p(-level)
    widest = max(scale for scale, _ in terms)
    deviation = math.sqrt(sum(2 * count * scale**2 for scale, count in terms))
    # Beyond this distance lies less than 1e-13, so that the discrete sum below is exact enough.
    reach = 35 * widest + 10 * deviation
    step = math.pi / reach
    for most in (_TERMS >> 4, _TERMS):  # weights fall, and mostly a few of them are enough
        order = np.arange(1, most)
        logs = sum(count * np.log1p((scale * step * order) ** 2) for scale, count in terms)
        weights = np.exp(-logs) / order
        if weights[-1] <= 1e-14:
            break
    weights = weights[weights > 1e-14]
    frequency = step * order[: weights.size]
    low, high = 0.0, reach
    for _ in range(60):
        middle = (low + high) / 2
        inside = middle / reach + 2 / math.pi * float(weights @ np.sin(frequency * middle))
        low, high = (middle, high) if inside < level else (low, middle)
    return high
