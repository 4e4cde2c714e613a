"""How far several draws lie from each other and from 0: tails, in units of the scale.

The *spread* of k values is the largest noise less the smallest; *farthest* is the largest noise of
them, up or down. For continuous noise they have simple laws:

- *Hull*: a value's noise is u − u₀, so that u₀ cancels in differences. The k + 1 coordinates are
  uniform on [0, h], h having a Gamma(k + 2) law. Given h, the spread is at most r with chance
  k·b^(k−1) − (k−1)·b^k for b = r/h. Averaged over h, it is Gamma(k − 1) with chance 2/(k + 1), else
  Gamma(k).
- *Cube*: the same with values on [−h, h] and a Gamma(k + 1) law. Half the spread is Gamma(k − 1);
  the farthest is Gamma(k).
- *Laplace*: an integral over the smallest.

On the grid, hull and cube values are uniform among as many points as a continuous h rounded up to
the next possible number, or fewer: the ratio of the two laws falls as h grows. So flooring adds at
most one step to a spread, and rounding h up at most two. Laplace noise is only floored.
"""

import math
from functools import lru_cache

import numpy as np

from dpgap.exact.draws import Floats

_POINTS = 4_096


def gamma_tail(shape: int, x: float) -> float:
    """P(Gamma(shape) > x): fewer than `shape` events of a Poisson law.

    >>> round(gamma_tail(1, 2.0), 6)
    0.135335
    """
    if x == 0:
        return 1.0
    logs = np.append(0.0, np.cumsum(math.log(x) - np.log(np.arange(1, shape))))
    return float(np.exp(logs - x).sum())


def hull_spread_tail(count: int, x: float) -> float:
    """P(the largest u less the smallest > x)."""
    shorter = 2 / (count + 1)
    return shorter * gamma_tail(count - 1, x) + (1 - shorter) * gamma_tail(count, x)


def hull_farthest_tail(count: int, x: float) -> float:
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


def laplace_spread_tail(count: int, x: float) -> float:
    """One less the mean of count·(F(smallest + x) − F(smallest))^(count − 1)."""
    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    smallest = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
    reached = smallest + x
    half = np.exp(-np.abs(reached)) / 2
    inside = np.where(reached < 0, half, 1 - half) - chances
    return 1 - count * float((inside ** (count - 1)).mean())


def laplace_farthest_tail(count: int, x: float) -> float:
    """P(the largest of `count` noises, up or down, > x)."""
    return -math.expm1(count * math.log1p(-math.exp(-x))) if x > 0 else 1.0
