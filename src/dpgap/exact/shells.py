"""Noise drawn for many values at once: its density falls with the largest coordinate only.

Such noise is private for a whole vector at the price of one value (the K-norm mechanism of Hardt
and Talwar). Two shapes are enough:

- `HullNoise`: coordinates u₀, u₁, … ≥ 0, with density ∝ e^(−max u / scale). The
  differences uᵢ − u₀ are noise for values that always move the same way.
- `CubeNoise`: coordinates of either sign, with density ∝ e^(−max |x| / scale), for values that may
  move either way.

A law is for all the coordinates of one draw. If all of them move, the cost is the growth of the
largest one, however many there are (`joint_cost`). Proofs use this.

Everything else here is about whole steps. There the *shell* R is the set of points whose largest
coordinate is R; its weight is e^(−R/scale) times the number of its points. Within a shell, the
noise of one value has a simple law: the difference of two uniform numbers for the hull, one uniform
number for the cube. Over all shells it is a mixture of these laws, in which a half-width h has the
weight h^dimension · e^(−h/scale). This gives variances and tails in closed form.

The tails of several values are in units of the scale. The *spread* of k values is the largest noise
less the smallest; *farthest* is the largest noise of them, up or down. For continuous noise they
have simple laws:

- *Hull*: a value's noise is u − u₀, so u₀ cancels in differences. The k + 1 coordinates are uniform
  on [0, h], and h has a Gamma(k + 2) law. Given h, the spread is at most r with chance
  k·b^(k−1) − (k−1)·b^k for b = r/h. Averaged over h, it is Gamma(k − 1) with chance 2/(k + 1), else
  Gamma(k).
- *Cube*: the same with values on [−h, h] and a Gamma(k + 1) law. Half the spread is Gamma(k − 1);
  the farthest is Gamma(k).
- *Laplace*: an integral over the smallest.

On the grid, hull and cube values are uniform among some number of points. This number is at most a
continuous h rounded up to the next possible number, because the ratio of the two laws falls as h
grows. So flooring adds at most one step to a spread, and rounding h up adds at most two. Laplace
noise is only floored.
"""

import itertools
import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import POINTS, Decay, GeometricNoise, LaplaceNoise, Scalar
from dpgap.exact.parameters import confidence_level
from dpgap.exact.reals import (
    Enclosure,
    Floats,
    Integers,
    Uniform,
    as_decimal,
    decide,
    decimals,
    exponential_bounds,
    without_float_errors,
)


@dataclass(frozen=True, slots=True)
class ShellNoise(Decay):
    """Noise of `dimension` coordinates whose density depends on the largest alone."""

    dimension: int

    can_tie: ClassVar[bool] = False  # for proofs, coordinates are real numbers
    first: ClassVar[float]
    """The half-width of the innermost shell."""
    correlation: ClassVar[float]
    """The correlation between the noises of any two values."""
    most_shells: ClassVar[int] = 1 << 13
    """How many shells are added up one by one."""

    @staticmethod
    @abstractmethod
    def largest(coordinates: Sequence[Scalar]) -> Scalar:
        """The size of a draw: the density falls as it grows."""

    def joint_cost(self, noise: Sequence[Scalar], shifted: Sequence[Scalar]) -> Scalar:
        """How far log(density) falls from all the coordinates of `noise` to those of `shifted`."""
        return (self.largest(shifted) - self.largest(noise)) / self.scale

    steps_more: ClassVar[int] = 3
    """The most steps that the grid adds to the errors of several values."""

    @abstractmethod
    def spread_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` values' noises less the smallest > x), in scales."""

    @abstractmethod
    def farthest_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` values' noises, up or down, > x), in scales."""

    @property
    def floor_variance(self) -> float:
        """The variance of one value's noise, in steps.

        It follows from E h²: divided by 3 for a uniform number, by 6 for a difference of two. If
        there are many shells, an integral replaces the sum; they differ by (scale/2π)^−dimension.
        """
        shells = self._shells()
        if shells is None:
            square = (self.dimension + 1) * (self.dimension + 2) * float(self.scale) ** 2
        else:
            half, weights = shells
            square = float(weights @ half**2)
        return max(square - self.first**2, 0.0) * (1 - self.correlation) / 3

    @abstractmethod
    def value_tail(self, step: int) -> float:
        """P(|one value's noise| > step), in steps."""

    def value_half_width(self, level: float) -> int:
        """The fewest steps that one value's noise stays within, with confidence `level`."""
        allowed = 1 - confidence_level(level)
        high = 1
        while self.value_tail(high) > allowed:
            high *= 2
        return bisect_left(range(high), True, key=lambda step: self.value_tail(step) <= allowed)

    @lru_cache(maxsize=8)  # noqa: B019 - laws are small values, and a search asks one many times
    @without_float_errors
    def _shells(self) -> tuple[Floats, Floats] | None:
        """Half-widths and weights; None if there are too many to add up one by one."""
        scale = float(self.scale)
        spread = 12 * math.sqrt(self.dimension) + 60
        below = max(0, math.floor(scale * (self.dimension - spread)))
        count = math.ceil(scale * (self.dimension + spread)) + 2 - below
        if count > self.most_shells:
            return None
        half: Floats = self.first + below + np.arange(count, dtype=np.float64)
        logs = self.dimension * np.log(half) - half / scale
        weights: Floats = np.exp(logs - logs.max())
        weights /= weights.sum()
        return half, weights

    def _beyond(self, distance: float, power: int) -> float:
        """The mean of (1 − distance/h)^power over the shells that reach beyond `distance`."""
        shells = self._shells()
        if shells is not None:
            half, weights = shells
            return float(weights @ np.maximum(1 - distance / half, 0) ** power)
        rate = distance / float(self.scale)
        total = 0.0
        factor = 1.0
        for order in range(power + 1):  # expand the power; each term is a gamma tail
            shape = self.dimension + 1 - order
            total += math.comb(power, order) * factor * gamma_tail(shape, rate)
            if shape == 1:
                break
            factor *= -rate / (shape - 1)
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
        shorter = 2 / (count + 1)
        return shorter * gamma_tail(count - 1, x) + (1 - shorter) * gamma_tail(count, x)

    def farthest_tail(self, count: int, x: float) -> float:
        """P(the largest |u − u₀| > x), averaged over h by its law."""
        h, weights = _gamma_points(count + 2)
        b = np.minimum(x / h, 1.0)
        power = count + 1
        ends = np.minimum(2 * b, 1.0)
        # There are three cases: u₀ is within x of one end, of both ends, or of none.
        near_one_end = 2 * (ends**power - b**power) / power
        near_both_or_none = np.abs(1 - 2 * b) * ends**count
        return 1 - float(weights @ (near_one_end + near_both_or_none))

    def value_tail(self, step: int) -> float:
        """The difference of two numbers from 0..h−1 is beyond `step` in (h−s)(h−s−1)/h² cases."""
        if step < 0:
            return 1.0
        shells = self._shells()
        if shells is None:  # (h−s)(h−s−1) is (h−s−½)² − ¼; the ¼ is negligible beside h²
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
        return max(abs(coordinate) for coordinate in coordinates)

    def spread_tail(self, count: int, x: float) -> float:
        return gamma_tail(count - 1, x / 2)

    def farthest_tail(self, count: int, x: float) -> float:
        return gamma_tail(count, x)

    def value_tail(self, step: int) -> float:
        """A number from −R..R is beyond `step` in 2(R−s) of 2R+1 = 2h cases."""
        if step < 0:
            return 1.0
        return self._beyond(step + 0.5, 1)


ValueLaw = LaplaceNoise | GeometricNoise | ShellNoise
"""Noise that values are measured with."""


@lru_cache(maxsize=256)
@without_float_errors
def _within(tail: str, law: ValueLaw, count: int, level: float) -> float:
    beyond = partial(getattr(law, tail), count)
    low = 0.0
    high = 1.0
    while beyond(high) > 1 - level:
        low = high
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if beyond(middle) > 1 - level:
            low = middle
        else:
            high = middle
    return float(law.scale) * high + law.steps_more


spread_within = partial(_within, "spread_tail")
"""The quantile of the largest noise of some values less the smallest, in steps."""
farthest_within = partial(_within, "farthest_tail")
"""The quantile of the largest noise of some values, up or down, in steps."""


def gamma_tail(shape: int, x: float) -> float:
    """P(Gamma(shape) > x): fewer than `shape` events of a Poisson law.

    >>> round(gamma_tail(1, 2.0), 6)
    0.135335
    """
    if x == 0:
        return 1.0
    logs = np.append(0.0, np.cumsum(math.log(x) - np.log(np.arange(1, shape))))
    return float(np.exp(logs - x).sum())


@lru_cache(maxsize=64)
def _gamma_points(shape: int) -> tuple[Floats, Floats]:
    """Points and weights that replace a gamma law."""
    deviation = math.sqrt(shape)
    low = max(0.0, shape - 12 * deviation)
    high = shape + 12 * deviation + 60
    h = low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS
    logs = (shape - 1) * np.log(h) - h
    weights = np.exp(logs - logs.max())
    return h, weights / weights.sum()


_ROUNDING = 2.0**-49
_COORDINATES_AT_ONCE = 1 << 18


@without_float_errors
def shells(law: ShellNoise, bits: Bits, runs: int) -> Integers:
    """Exactly distributed draws on whole steps, one a row: which shell, then a point on it.

    *Which shell.* Arrivals come at unit rate. T is the time of the d-th arrival; d is the
    dimension. Time is cut into cells of length λ = 1/scale; the cube's first cell is half as long.
    Let R be the cell of the d-th arrival. Accept R if the next arrival is in a later cell. Then
    there are exactly d arrivals up to the end of this cell, λ·(R+1), and fewer before the cell:

        P(R) = e^(−λ(R+1)) · λ^d · [(R+1)^d − R^d] / d!

    which is e^(−λR) times the number of points of the shell (max = R), up to a constant. Otherwise
    try again. The chance of success is about (1 − e^(−λ))/λ, as long as T is spread over several
    cells: its standard deviation is √d. If λ is much larger than √d, hardly any try succeeds. But
    then few shells are likely. So from λ > max(1, √d/2) on, R is read from a table of the sums
    P(0) + … + P(R), which are enclosed as closely as one uniform number needs.

    Arrival times are sums of exact exponentials (see `dpgap.exact.reals`). Floats that provably
    enclose them nearly always decide; exact fractions decide the rest.

    *A point on it.* A shell is the points of a box of whole numbers that have a coordinate at an
    end. If ends are frequent, draw points of the box until one has a coordinate at an end. If ends
    are rare, put one coordinate at an end and draw the others. Then a point with c coordinates at
    an end is c times as likely, so it is kept with chance 1/c. Both are exact, and need less than
    two tries on average.

    So a draw takes linear time for λ ≤ 1, that is ε ≤ sensitivity in steps; for larger ε at most
    about √dimension times that.
    """
    at_once = max(1, _COORDINATES_AT_ONCE // law.dimension)
    parts = []
    for done in range(0, runs, at_once):
        radii = _radii(law, bits, min(at_once, runs - done))
        parts.append(_points(law, radii, bits))
    return np.concatenate(parts)


def _is_tabled(law: ShellNoise) -> bool:
    """Whether the table is faster, because few shells are likely."""
    return 1 / law.scale > max(1, math.sqrt(law.dimension) / 2)


@lru_cache(maxsize=64)
def _table(law: ShellNoise, level: int) -> tuple[list[Fraction], list[Fraction]]:
    """Numbers below and above P(0), P(0) + P(1), …, until hardly any probability is left.

    A shell has (R + 1 − start)^d − (R − start)^d points, up to a constant. From R on, the next one
    is at most `ratio` times as likely. If `ratio` is at most a half, all later shells together are
    no likelier than R.
    """
    size = 40 * (level + 1)
    digits = decimals(2 * size)
    first = Fraction(law.first)
    d = Decimal(law.dimension)
    fall = as_decimal(1 / law.scale, digits)

    def log_weight(radius: int) -> Decimal:
        """The logarithm of e^(−λR) · ((R + 1 − start) / (1 − start))^d."""
        wider = digits.ln(as_decimal(1 + radius / first, digits))
        return digits.fma(d, wider, digits.multiply(Decimal(-radius), fall))

    peak = log_weight(math.floor(law.dimension * law.scale))
    weight = digits.exp(digits.minus(peak))
    sums = [weight]
    ratio = 1.0
    radius = 0
    while ratio > 0.5 or digits.scaleb(weight, size) > sums[-1]:
        radius += 1
        growth = digits.ln(as_decimal(1 + 1 / (first + radius - 1), digits))
        inner_share = digits.exp(digits.multiply(digits.minus(d), growth))
        points = digits.subtract(Decimal(1), inner_share)
        box_weight = digits.exp(digits.subtract(log_weight(radius), peak))
        weight = digits.multiply(box_weight, points)
        log_ratio = digits.fma(digits.subtract(d, Decimal(1)), growth, digits.minus(fall))
        ratio = float(digits.exp(log_ratio))
        sums.append(digits.add(sums[-1], weight))
    shares = [digits.divide(total, sums[-1]) for total in sums]
    numerators = [int(digits.scaleb(share, size)) for share in shares]
    # Three errors add up to less than 2 in the last digit: rounding, shells left out, few digits.
    low = [Fraction(numerator - 2, 10**size) for numerator in numerators]
    high = [Fraction(numerator + 2, 10**size) for numerator in numerators]
    return low, high


def _from_table(law: ShellNoise, word: int, bits: Bits) -> int:
    """The radius for one uniform number: the number of sums below it."""
    uniform = Uniform(word, 64, bits)
    for level in itertools.count():
        lower_sums, upper_sums = _table(law, level)
        low, high = uniform.enclosure(level)
        radius = bisect_right(upper_sums, low)
        if radius == bisect_right(lower_sums, high) < len(lower_sums):
            return radius
    raise AssertionError("unreachable")


def _radii(law: ShellNoise, bits: Bits, runs: int) -> Integers:
    """The shell of each draw."""
    if _is_tabled(law):
        radii_from_table = [_from_table(law, word, bits) for word in bits.words(runs).tolist()]
        return np.array(radii_from_table, dtype=np.int64)
    # Cell R ends at (R + first)·λ.
    scale = float(law.scale)
    start = 1 - law.first
    length = 1 / scale
    first_end = law.first / scale
    slack = law.dimension * 2.0**-52  # each addition is off by 2^−53 of its sum
    radii = np.empty(runs, dtype=np.int64)
    pending = np.arange(runs)
    while pending.size:
        random_words = bits.words(pending.size, law.dimension + 1)
        low_waits, high_waits = exponential_bounds(1.0, random_words)
        low_time = low_waits[:, :-1].sum(axis=1) * (1 - slack)
        high_time = high_waits[:, :-1].sum(axis=1) * (1 + slack)
        # Scaling, adding the start and rounding λ cost at most 2^−50 each time.
        low_cell = (low_time * scale + start) * (1 - _ROUNDING) // 1
        high_cell = (high_time * scale + start) * (1 + _ROUNDING) // 1
        end_of_cell = low_cell * length + first_end
        clears = low_time + low_waits[:, -1] > end_of_cell * (1 + 2 * _ROUNDING)
        fails = high_time + high_waits[:, -1] < end_of_cell * (1 - 2 * _ROUNDING)
        is_decided = (low_cell == high_cell) & (clears | fails)
        low_cell[~is_decided] = 0.0  # it may be infinite
        cells = low_cell.astype(np.int64)
        for row in np.flatnonzero(~is_decided):
            cells[row], clears[row] = _decided(law, random_words[row], bits)
        radii[pending[clears]] = cells[clears]
        pending = pending[~clears]
    return radii


def _decided(law: ShellNoise, random_words: Words, bits: Bits) -> tuple[int, bool]:
    """The cell of the second to last arrival, and whether the last is in a later cell; exact."""
    waits = [Uniform.of_word(word, bits) for word in random_words.tolist()]
    start = 1 - Fraction(law.first)

    def cells(count: int, level: int) -> Enclosure:
        """The time of an arrival, in cells."""
        low_time = Fraction(0)
        high_time = Fraction(0)
        for wait in waits[:count]:
            low, high = wait.exponential(level)
            low_time += low
            high_time += high
        return low_time * law.scale + start, high_time * law.scale + start

    cell: int = decide(lambda level: cells(len(waits) - 1, level), math.floor)
    clears: bool = decide(lambda level: cells(len(waits), level), lambda time: time > cell + 1)
    return cell, clears


def _points(law: ShellNoise, radii: Integers, bits: Bits) -> Integers:
    """A point on each shell: points of the box that ends there, until one is accepted."""
    dimension = law.dimension
    points = np.empty((radii.size, dimension), dtype=np.int64)
    pending = np.arange(radii.size)
    while pending.size:
        radius = radii[pending]
        rows = np.arange(pending.size)
        size = radius + 1
        if law.signed:
            size = 2 * radius + 1
        candidates = bits.each_below(size[:, None], rows.size, dimension)
        are_ends_rare = dimension <= radius + 1
        end = size - 1
        if law.signed:
            end = end * bits.each_below(2, rows.size)
        column = bits.each_below(dimension, rows.size)
        candidates[rows[are_ends_rare], column[are_ends_rare]] = end[are_ends_rare]
        at_end = candidates == size[:, None] - 1
        if law.signed:
            at_end |= candidates == 0
        end_count = at_end.sum(axis=1)
        is_one_in_count = bits.each_below(np.maximum(end_count, 1), rows.size) == 0
        accepted = (end_count > 0) & (is_one_in_count | ~are_ends_rare)
        points[pending[accepted]] = candidates[accepted]
        pending = pending[~accepted]
    if law.signed:
        return points - radii[:, None]
    return points
