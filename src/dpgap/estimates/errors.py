"""Errors of released numbers: small values that a release keeps.

They hold only parameters of the noise, so they can be copied, compared and written to a document.
Variances, intervals and lower bounds follow from them. Results are cached for each law, because
laws are public.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.exact.grid import Grid
from dpgap.exact.laws import Law
from dpgap.exact.reals import Flags, Floats, without_float_errors
from dpgap.exact.shells import ValueLaw, farthest_within, spread_within

_TERMS = 1 << 16
_REACH = range(-(1 << 62), (1 << 62) - 1)
"""The largest noise in whole steps: its scale is at most 2^40 steps."""


@dataclass(frozen=True, slots=True)
class MeasurementError:
    """The noise of one measured value: its law, in whole steps of the grid."""

    law: ValueLaw
    grid: Fraction

    @property
    @lru_cache(maxsize=256)  # noqa: B019 - errors are small values
    def variance(self) -> float:
        """The variance of the value's noise."""
        return self.law.floor_variance * float(self.grid) ** 2

    @lru_cache(maxsize=256)  # noqa: B019
    def half_width(self, level: float) -> float:
        """The most that the value is off, with confidence `level`."""
        return self.law.value_half_width(level) * float(self.grid)

    def ends(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of an interval for each value; shape (k, 2)."""
        return around(values, self.half_width(level) + rounding)

    def ends_of_all(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of intervals that hold for all values at once; shape (k, 2)."""
        half = farthest_within(self.law, values.size, level) * float(self.grid)
        return around(values, half + rounding)

    def half_width_of_pairs(self, count: int, level: float) -> float:
        """The most that the difference of two of `count` values is off, for all pairs at once.

        >>> from dpgap.exact.shells import CubeNoise
        >>> error = MeasurementError(CubeNoise(Fraction(160), 10), Fraction(1, 16))
        >>> round(error.half_width_of_pairs(10, 0.95), 2)  # Gamma(9), and three steps
        288.88
        """
        if count == 1:
            return 0.0
        return spread_within(self.law, count, level) * float(self.grid)


@dataclass(frozen=True, slots=True)
class LaplaceSum:
    """The error of an estimate made from gaps: a weighted sum of Laplace draws and of floors."""

    terms: tuple[tuple[float, int], ...]
    """Scales in steps of the grid, and how many draws have them."""
    floored: float
    """The most steps that the floors of these draws can add up to."""
    grid: Fraction

    def half_width(self, level: float) -> float:
        """The most that the estimate is off, with confidence `level`."""
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

        In every branch the gap may overstate the answer. So branches share the allowed chance of an
        error, 1 − level: each gets half as much as the one before. The cheapest branch has the most
        noise and gets the largest share. So no bound is lower by more than about 0.7 of the
        cheapest branch's scale.
        """
        law = self.branch_laws[branch - 1]
        chance = (1 - level) * 2.0**-branch / (1 - 2.0 ** -len(self.branch_laws))
        short = gap_shortfall(law, self.threshold_law, self.grid, chance)
        return float(self.threshold) + gap - short


@lru_cache(maxsize=256)
def gap_shortfall(law: Law, threshold_law: Law, grid: Fraction | None, chance: float) -> float:
    """The most by which a gap overstates an answer, except with at most this chance.

    The gap's noise on the grid is N − N₀, and its exact law is used.
    """
    lattice = Grid(grid)
    law = law.scaled(1 / lattice.step)
    threshold_law = threshold_law.scaled(1 / lattice.step)

    def is_enough(step: int) -> bool:
        return law.difference_tail(threshold_law, step) <= chance

    high = _REACH.start + bisect_left(_REACH, True, key=is_enough)
    centre = law.floor_mean - threshold_law.floor_mean
    # A true answer may be above the one on the grid.
    return (high - centre) * lattice.width + lattice.rounding


def around(values: Floats, half: float) -> Floats:
    """The ends of intervals of one width around values."""
    return np.stack([values - half, values + half], axis=1)


def ends_of_quotients(parts: Floats, total: Floats, lowest: float, highest: float) -> Floats:
    """The ends of part/total, for parts and a total within their own ends; shape (k, 2).

    All quotients are known to lie from `lowest` to `highest`. If `lowest` is 0, parts and the total
    are not negative.

    >>> ends_of_quotients(np.array([[10.0, 20.0]]), np.array([50.0, 100.0]), 0.0, 1.0).tolist()
    [[0.1, 0.4]]
    """
    ends = np.tile([-np.inf, np.inf], (len(parts), 1))
    low, high = total
    if low > 0 or high < 0:
        quotients = (parts[:, :, None] / total).reshape(-1, 4)
        ends = np.stack([quotients.min(axis=1), quotients.max(axis=1)], axis=1)
    elif lowest == 0 and high > 0:
        ends[:, 0] = parts[:, 0] / high
    clipped: Floats = np.clip(ends, lowest, highest)
    return clipped


@lru_cache(maxsize=64)
@without_float_errors
def laplace_sum_half_width(terms: tuple[tuple[float, int], ...], level: float) -> float:
    """The x with P(|S| ≤ x) = level, S a sum of Laplace draws given as (scale, how many).

    It is computed from the characteristic function. So it is exact for this sum, not a normal
    approximation.

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
    # The probability beyond this distance is below 1e-13, so the discrete sum is exact enough.
    reach = 35 * widest + 10 * deviation
    step = math.pi / reach
    order = np.arange(1, _TERMS)
    logs = sum(count * np.log1p((scale * step * order) ** 2) for scale, count in terms)
    weights = np.exp(-logs) / order
    weights = weights[weights > 1e-14]  # weights fall
    frequency = step * order[: weights.size]
    low = 0.0
    high = reach
    for _ in range(60):
        middle = (low + high) / 2
        inside = middle / reach + 2 / math.pi * float(weights @ np.sin(frequency * middle))
        if inside < level:
            low = middle
        else:
            high = middle
    return high


class Difference(NamedTuple):
    """By how much one answer is larger than another, and an interval that holds for all pairs.

    Which two values a reader compares depends on the estimates, and so on the noise: the first and
    the last are often first and last by luck. So an interval of a difference must hold for all
    pairs at once. The *spread* of the noise is its largest value minus its smallest: the half-width
    is the quantile of the spread at `level`. If values are compared with 0 or with a threshold, the
    half-width is the quantile of the largest noise of all, up or down. The laws are those of
    `dpgap.exact.laws` and `dpgap.exact.shells`, for continuous noise; on the grid the half-widths
    are never too short.

    Measurements are drawn after the selection and independently of it. So this holds for the very
    answers that were selected.
    """

    estimate: float
    low: float
    high: float


COINS = 1 << 24
"""Coins are kept in whole multiples of 1 divided by this."""
_ROUNDING = 1e-12
"""A bound of the relative error of floats; it makes intervals longer."""
_MOST_STEPS = 2
"""The most steps by which an upper end comes down: the lower end leaves at most a·(1 − p)."""


@dataclass(frozen=True, slots=True)
class HistogramError(MeasurementError):
    """The noise of noisy values that reached a line: its law and the line, in whole steps.

    Selection is not in the variance, and `half_width` is that of a value far above the line.

    A winner's noisy count y was returned because it reached a *line*: a stated threshold, or
    the best loser's noisy count. Given the line, the noisy count has its own law, cut off below
    the line. So an interval must hold every true count q for which y is not an extreme *among
    noisy counts that reach the line*:

        P(noisy ≥ y | noisy ≥ line) > a   and P(noisy ≤ y | noisy ≥ line) > a,
        a = (1 − level)/2.

    Far above the line this is the usual interval of the noise. Near the line, no small q can be
    excluded: for any q, a noisy count that reached the line is likely to be just over it. So if
    the lead over the line is less than about scale · ln(1/a) (3.7 scales at 95 %), there is no
    lower end, only "at most". The upper end is never below the noisy count itself.

    Noisy counts are whole numbers, and may be on the line. Those on a *stated* line are
    returned. Those that tie with the best loser are returned if their coin (uniform from 0 to
    1) is above the loser's coin c. In both cases a noisy count on the line is returned with
    chance 1 − c. (For a stated line, c is 0.) Noisy counts with independent coins are as
    private as noisy counts alone, so c may be released; it is kept to 24 binary places, rounded
    down. Both ends fall as c rises. So the upper end uses the smallest possible c, and the
    lower end the largest. A c that was not kept may be anything from 0 to 1.

    Given the line and c, winners are independent of each other. So ends at the level^(1/k) hold
    for all k of them at once with confidence level.

    With p = e^(−1/scale) and ℓ = y − line, ends follow from P(noise ≥ t) = p^t/(1 + p) for t ≥
    1 in closed form. With d = c + p·(1 − c),

        high − y is the largest whole number < scale · ln((1 − (1 − a)·d·p^ℓ) / (a·(1 + p)))
        low − y is the smallest > scale · ln(a·(1 + p)·(1 + √(1 − 4·d·p^ℓ/(a·(1 + p)²)))/2)

    and low is −∞ if p^ℓ > a·(1 − c + c·p), or if ℓ is 0. On whole numbers the lower end does
    not use all of the chance a. For every c, the upper end gets the unused part, and may then
    be a step or two lower.
    """

    line: int
    whole_coin: int | None
    """The best loser's coin in 2^24ths, if the line is its noisy value; 0 if it was stated.

    None where it was not kept: intervals then hold for every coin.
    """

    def half_width_of_pairs(self, count: int, level: float) -> float:
        """The most that the difference of two of `count` values is off, far above the line."""
        if count == 1:
            return 0.0
        return 2 * self.half_width(level ** (1 / count))

    def ends_of_all(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of intervals that hold for all values at once; shape (k, 2)."""
        return self.ends(values, level ** (1 / max(values.size, 1)), rounding)

    @without_float_errors
    def ends(self, values: Floats, level: float, rounding: float) -> Floats:
        """The ends of an interval for each value; shape (k, 2). The lower end may be −∞.

        >>> from dpgap.exact.laws import GeometricNoise
        >>> error = HistogramError(GeometricNoise(Fraction(10)), Fraction(1), 100, 0)
        >>> error.ends(np.array([101.0, 300.0]), 0.95, 0.0).tolist()
        [[-inf, 115.0], [270.0, 329.0]]
        """
        width = float(self.grid)
        lead = np.rint(values / width) - self.line
        below, above = self._steps(lead, (1 - level) / 2)
        low = values + below * width - rounding
        high = values + above * width + rounding
        return np.stack([low, high], axis=1)

    def _steps(self, lead: Floats, share: float) -> tuple[Floats, Floats]:
        """The distances, in steps, of the ends from values with these leads; `share` is a above."""
        scale = float(self.law.scale)
        fall = math.exp(-1 / self.law.scale)
        power = np.exp(-lead / scale)
        smallest_coin = 0.0
        largest_coin = 1.0
        if self.whole_coin is not None:
            smallest_coin = self.whole_coin / COINS
            largest_coin = (self.whole_coin + 1) / COINS
        low_cut = (smallest_coin + fall * (1 - smallest_coin)) * power
        high_cut = (largest_coin + fall * (1 - largest_coin)) * power
        up = scale * np.log(np.maximum(1 - (1 - share) * low_cut, 0.0) / (share * (1 + fall)))
        above = np.maximum(np.ceil(up + _slack(up, scale)) - 1, 0.0)
        root = np.sqrt(np.maximum(1 - 4 * high_cut / (share * (1 + fall) ** 2), 0.0))
        down = scale * np.log(share * (1 + fall) * (1 + root) / 2)
        below = np.minimum(np.floor(down - _slack(down, scale)) + 1, 0.0)
        is_clear = power <= share * (1 - largest_coin * (1 - fall)) * (1 - _ROUNDING)
        for _ in range(_MOST_STEPS):
            above -= (above > 0) & self._has_to_spare(above, low_cut, high_cut, share)
        return np.where(is_clear & (lead > 0), below, -np.inf), above

    def _has_to_spare(
        self, above: Floats, low_cut: Floats, high_cut: Floats, share: float
    ) -> Flags:
        """Whether the chance that the lower end leaves over is enough to leave out the upper end.

        Noisy values are whole numbers. So the values of a count that are too large for it have a
        chance of less than `share`. The chance that is cut off lies from `low_cut` to `high_cut`;
        the result holds for all of these.
        """
        scale = float(self.law.scale)
        fall = math.exp(-1 / self.law.scale)
        power = np.exp(-above / scale) / (1 + fall)
        reaches = 1 - low_cut * power
        allowed = share * reaches * (1 + fall)
        too_large = np.maximum(np.ceil(-scale * np.log(allowed) * (1 - _ROUNDING)), 1.0)
        used = np.exp(-too_large / scale) / (1 + fall) / (1 - high_cut * power)
        spare = (2 * share - used) * (1 - _ROUNDING)
        is_enough: Flags = power * (1 - low_cut) / reaches < spare
        return is_enough


def _slack(length: Floats, scale: float) -> Floats:
    """A bound of the error of floats in a length; 0 if the length is infinite."""
    return np.where(np.isinf(length), 0.0, _ROUNDING * (np.abs(length) + scale))
