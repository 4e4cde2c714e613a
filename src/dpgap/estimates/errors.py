"""What a released number may be off by: small values that a release keeps.

They hold parameters of the noise and nothing else, so that they can be copied, compared and
written down. Variances, intervals and lower bounds follow from them. What was worked out once for
a law is remembered: laws are public.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpgap.estimates.intervals import laplace_sum_half_width
from dpgap.estimates.linear import gap_shortfall
from dpgap.exact.joint_laws import ShellNoise
from dpgap.exact.laws import LaplaceNoise, Law

ValueLaw = LaplaceNoise | ShellNoise
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


@dataclass(frozen=True, slots=True)
class GapErrors:
    """The noise in gaps above a threshold: the threshold's own, and a law for each branch."""

    threshold: Fraction
    threshold_law: Law
    branch_laws: tuple[Law, ...]
    grid: Fraction | None

    def lower_bound(self, gap: float, branch: int, level: float) -> float:
        """A true answer with this gap is at least this, with confidence `level`."""
        law = self.branch_laws[branch - 1]
        short = gap_shortfall(law, self.threshold_law, self.grid, level)
        return float(self.threshold) + gap - short


@lru_cache(maxsize=256)
def _variance(law: ValueLaw) -> float:
    return law.value_variance


@lru_cache(maxsize=256)
def _half_width(law: ValueLaw, level: float) -> float:
    return law.value_half_width(level)
