"""Noise drawn for many values at once: its density falls with the largest coordinate only.

Such noise is private for a whole vector at the price of one value (the K-norm mechanism of Hardt
and Talwar). Two shapes are enough:

- `HullNoise`: coordinates u₀, u₁, …, never negative, with density ∝ e^(−max u / scale). The
  differences uᵢ − u₀ are noise for values that always move the same way.
- `CubeNoise`: coordinates of either sign, with density ∝ e^(−max |x| / scale), for values that may
  move either way.

A law is for all the coordinates of one draw. Moving them together costs what the largest one
grows by, `joint_cost`, however many they are; that is what proofs use.

Everything else here is about whole steps, on which the largest coordinate is exactly R with
weight e^(−R/scale) times the number of points on that shell. Summing over shells, one value's
noise is a mixture over half-widths h of simple laws, with weight h^dimension · e^(−h/scale): of
differences of two uniform numbers for the hull, of uniform numbers for the cube. That gives
variances and tails in closed form.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpgap.exact.draws import Floats
from dpgap.exact.law import Decay, Scalar
from dpgap.exact.parameters import confidence_level
from dpgap.exact.spreads import gamma_tail, hull_farthest_tail, hull_spread_tail

_MOST_SHELLS = 1 << 13


@dataclass(frozen=True, slots=True)
class ShellNoise(Decay):
    """Noise of `dimension` coordinates whose density depends on the largest alone."""

    dimension: int

    can_tie: ClassVar[bool] = False  # for proofs, coordinates are real numbers
    first: ClassVar[float]
    """The half-width of the innermost shell."""
    correlation: ClassVar[float]
    """Between the noises of any two values."""

    @staticmethod
    @abstractmethod
    def largest(coordinates: Sequence[Scalar]) -> Scalar:
        """The size of a draw: what its density falls with."""

    def joint_cost(self, noise: Sequence[Scalar], shifted: Sequence[Scalar]) -> Scalar:
        """How far log(density) falls from all the coordinates of `noise` to those of `shifted`."""
        return (self.largest(shifted) - self.largest(noise)) / self.scale

    steps_more: ClassVar[int] = 3
    """How many steps the grid adds at most to what several values are off by."""

    @abstractmethod
    def spread_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` values' noises less the smallest > x), in scales."""

    @abstractmethod
    def farthest_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` values' noises, up or down, > x), in scales."""

    @property
    @abstractmethod
    def value_variance(self) -> float:
        """The variance of one value's noise, in steps."""

    @abstractmethod
    def value_tail(self, step: int) -> float:
        """P(|one value's noise| > step), in steps."""

    def value_half_width(self, level: float) -> int:
        """The fewest steps that one value's noise stays within, with confidence `level`."""
        allowed = 1 - confidence_level(level)
        low, high = -1, 1
        while self.value_tail(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.value_tail(middle) <= allowed else (middle, high)
        return high

    @lru_cache(maxsize=8)  # noqa: B019 - laws are small values, and a search asks one many times
    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def _shells(self) -> tuple[Floats, Floats] | None:
        """Half-widths and weights; None where there are too many to add up one by one."""
        scale, spread = float(self.scale), 12 * math.sqrt(self.dimension) + 60
        below = max(0, math.floor(scale * (self.dimension - spread)))
        count = math.ceil(scale * (self.dimension + spread)) + 2 - below
        if count > _MOST_SHELLS:
            return None
        half: Floats = self.first + below + np.arange(count, dtype=np.float64)
        logs = self.dimension * np.log(half) - half / scale
        weights: Floats = np.exp(logs - logs.max())
        weights /= weights.sum()
        return half, weights

    def _mean_square(self) -> float:
        """E h². With many shells the sum is an integral, up to (scale/2π)^−dimension."""
        shells = self._shells()
        if shells is None:
            return (self.dimension + 1) * (self.dimension + 2) * float(self.scale) ** 2
        half, weights = shells
        return float(weights @ half**2)

    def _beyond(self, distance: float, power: int) -> float:
        """E (1 − distance/h)^power over the shells that reach beyond `distance`."""
        shells = self._shells()
        if shells is not None:
            half, weights = shells
            return float(weights @ np.maximum(1 - distance / half, 0) ** power)
        rate, total, factor = distance / float(self.scale), 0.0, 1.0
        for order in range(power + 1):  # expand the power; each term is a gamma tail
            shape = self.dimension + 1 - order
            total += math.comb(power, order) * factor * gamma_tail(shape, rate)
            factor *= -rate / (shape - 1) if shape > 1 else 0.0
        return max(total, 0.0)


@dataclass(frozen=True, slots=True)
class HullNoise(ShellNoise):
    """Noise for values that move the same way: one coordinate for each, and one for all.

    >>> from fractions import Fraction
    >>> law = HullNoise(Fraction(20), dimension=11)
    >>> law.joint_cost([3, 7], [23, 7])
    Fraction(4, 5)
    """

    signed: ClassVar[bool] = False
    first: ClassVar[float] = 1.0
    correlation: ClassVar[float] = 0.5

    @staticmethod
    def largest(coordinates: Sequence[Scalar]) -> Scalar:
        return max(coordinates)

    def spread_tail(self, count: int, x: float) -> float:
        return hull_spread_tail(count, x)

    def farthest_tail(self, count: int, x: float) -> float:
        return hull_farthest_tail(count, x)

    @property
    def value_variance(self) -> float:
        return max(self._mean_square() - 1, 0.0) / 6

    def value_tail(self, step: int) -> float:
        """The difference of two numbers from 0..h−1 is beyond `step` in (h−s)(h−s−1)/h² cases."""
        if step < 0:
            return 1.0
        shells = self._shells()
        if shells is None:  # (h−s)(h−s−1) is (h−s−½)², less a quarter that is lost beside h²
            return self._beyond(step + 0.5, 2)
        half, weights = shells
        over = np.maximum(half - step, 1)
        return float(weights @ (over * (over - 1) / half**2))


@dataclass(frozen=True, slots=True)
class CubeNoise(ShellNoise):
    """Noise for values that may move either way: one coordinate for each.

    >>> from fractions import Fraction
    >>> CubeNoise(Fraction(20), dimension=10).joint_cost([3, -7], [3, -27])
    Fraction(1, 1)
    """

    signed: ClassVar[bool] = True
    first: ClassVar[float] = 0.5
    correlation: ClassVar[float] = 0.0

    @staticmethod
    def largest(coordinates: Sequence[Scalar]) -> Scalar:
        return max(abs(each) for each in coordinates)

    def spread_tail(self, count: int, x: float) -> float:
        return gamma_tail(count - 1, x / 2)

    def farthest_tail(self, count: int, x: float) -> float:
        return gamma_tail(count, x)

    @property
    def value_variance(self) -> float:
        return max(self._mean_square() - 0.25, 0.0) / 3

    def value_tail(self, step: int) -> float:
        """A number from −R..R is beyond `step` in 2(R−s) of 2R+1 = 2h cases."""
        return 1.0 if step < 0 else self._beyond(step + 0.5, 1)
