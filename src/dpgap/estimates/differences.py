"""How far measured values may be off from each other, for all pairs at once.

Which two values a reader compares depends on the estimates, and so on the noise: the first and the
last are often first and last by luck. So an interval of a difference must hold for all pairs at
once. It does if it is as long as the largest noise less the smallest, but for a share 1 − level of
the draws: the quantile of their *range*. The same goes for one value that is compared with 0 or
with a threshold: the quantile of the largest noise of all, up or down.

Measurements are drawn after the selection and independently of it. So this holds for the very
answers that were selected.

For k continuous values the range has simple laws, in units of the scale:

- *Hull*: a value's noise is u − u₀, so that u₀ cancels. The k + 1 coordinates are uniform on
  [0, h], h having a Gamma(k + 2) law. Given h, the range is at most r with chance
  k·b^(k−1) − (k−1)·b^k for b = r/h. Averaged over h, it is Gamma(k − 1) with chance 2/(k + 1), else
  Gamma(k).
- *Cube*: the same with values on [−h, h] and a Gamma(k + 1) law. Half the range is Gamma(k − 1).
- *Laplace*: an integral over the smallest.

On the grid, values are uniform among so many points as a continuous h rounded up to the next
possible number; that is never a smaller law, since small h are less likely there. So flooring adds
at most one step to a range, and rounding h up at most two. Laplace noise is only floored.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.estimates.errors import MeasurementError, ValueLaw
from dpgap.exact.draws import Floats
from dpgap.exact.joint_laws import CubeNoise, HullNoise, ShellNoise

_POINTS = 4_096


class Difference(NamedTuple):
    """By how much one answer is larger than another, and an interval that holds for all pairs."""

    estimate: float
    low: float
    high: float


def half_width_of_pairs(error: MeasurementError, count: int, level: float) -> float:
    """With confidence `level`, no difference of two of `count` values is off by more than this.

    >>> from fractions import Fraction
    >>> error = MeasurementError(CubeNoise(Fraction(160), 10), Fraction(1, 16))
    >>> round(half_width_of_pairs(error, 10, 0.95), 2)  # Gamma(9), and three steps
    288.88
    """
    if count < 2:
        return 0.0
    return (_range(error.law, count, level) + _steps_more(error.law)) * float(error.grid)


def half_width_of_all(error: MeasurementError, count: int, level: float) -> float:
    """With confidence `level`, none of `count` values is off by more than this."""
    return (_farthest(error.law, count, level) + _steps_more(error.law)) * float(error.grid)


def _steps_more(law: ValueLaw) -> int:
    """How many steps the grid adds at most."""
    return 3 if isinstance(law, ShellNoise) else 1


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _range(law: ValueLaw, count: int, level: float) -> float:
    """The quantile of the largest noise less the smallest, in steps."""
    scale = float(law.scale)
    if isinstance(law, HullNoise):
        low = 2 / (count + 1)
        return scale * _quantile(
            lambda x: low * _gamma_tail(count - 1, x) + (1 - low) * _gamma_tail(count, x), level
        )
    if isinstance(law, CubeNoise):
        return 2 * scale * _quantile(lambda x: _gamma_tail(count - 1, x), level)
    return scale * _quantile(lambda x: _laplace_range_tail(count, x), level)


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _farthest(law: ValueLaw, count: int, level: float) -> float:
    """The quantile of the largest noise, up or down, in steps."""
    scale = float(law.scale)
    if isinstance(law, HullNoise):
        return scale * _quantile(lambda x: _hull_tail(count, x), level)
    if isinstance(law, CubeNoise):  # the largest coordinate
        return scale * _quantile(lambda x: _gamma_tail(count, x), level)
    return -scale * math.log(-math.expm1(math.log(level) / count))


def _quantile(tail: Callable[[float], float], level: float) -> float:
    """Where a falling tail reaches 1 − level."""
    low, high = 0.0, 1.0
    while tail(high) > 1 - level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > 1 - level else (low, middle)
    return high


def _gamma_tail(shape: int, x: float) -> float:
    """P(Gamma(shape) > x): fewer than `shape` events of a Poisson law."""
    if x == 0:
        return 1.0
    orders = np.arange(1, shape)
    logs = np.append(0.0, np.cumsum(math.log(x) - np.log(orders)))
    return float(np.exp(logs - x).sum())


def _laplace_range_tail(count: int, x: float) -> float:
    """One less the mean of count·(F(smallest + x) − F(smallest))^(count − 1)."""
    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    smallest = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
    reached = smallest + x
    half = np.exp(-np.abs(reached)) / 2
    inside = np.where(reached < 0, half, 1 - half) - chances
    return 1 - count * float((inside ** (count - 1)).mean())


def _hull_tail(count: int, x: float) -> float:
    """P(the largest |u − u₀| > x), averaged over h by its law."""
    h, weights = _gamma_points(count + 2)
    b = np.minimum(x / h, 1.0)
    power, ends = count + 1, np.minimum(2 * b, 1.0)
    # u₀ is nearer than x to an end, or to both, or to none.
    near = 2 * (ends**power - b**power) / power
    return 1 - float(weights @ (near + np.abs(1 - 2 * b) * ends**count))


@lru_cache(maxsize=64)
def _gamma_points(shape: int) -> tuple[Floats, Floats]:
    """Places and weights that stand for a gamma law."""
    deviation = math.sqrt(shape)
    low, high = max(0.0, shape - 12 * deviation), shape + 12 * deviation + 60
    h = low + (high - low) * (np.arange(_POINTS) + 0.5) / _POINTS
    logs = (shape - 1) * np.log(h) - h
    weights = np.exp(logs - logs.max())
    return h, weights / weights.sum()
