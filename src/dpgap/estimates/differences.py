"""How far measured values may be off from each other, for all pairs at once.

Which two values a reader compares depends on the estimates, and so on the noise: the first and the
last are often first and last by luck. So an interval of a difference must hold for all pairs at
once. It does if it is as long as the largest noise less the smallest, but for a share 1 − level of
the draws: the quantile of their *spread*. The same goes for one value that is compared with 0 or
with a threshold: the quantile of the largest noise of all, up or down. The laws are those of
`dpgap.exact.laws`, for continuous noise; on the grid they are never too short.

Measurements are drawn after the selection and independently of it. So this holds for the very
answers that were selected.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.estimates.errors import MeasurementError, ValueLaw


class Difference(NamedTuple):
    """By how much one answer is larger than another, and an interval that holds for all pairs."""

    estimate: float
    low: float
    high: float


def half_width_of_pairs(error: MeasurementError, count: int, level: float) -> float:
    """With confidence `level`, no difference of two of `count` values is off by more than this.

    >>> from fractions import Fraction
    >>> from dpgap.exact.shells import CubeNoise
    >>> error = MeasurementError(CubeNoise(Fraction(160), 10), Fraction(1, 16))
    >>> round(half_width_of_pairs(error, 10, 0.95), 2)  # Gamma(9), and three steps
    288.88
    """
    return _spread(error.law, count, level) * float(error.grid) if count > 1 else 0.0


def half_width_of_all(error: MeasurementError, count: int, level: float) -> float:
    """With confidence `level`, none of `count` values is off by more than this."""
    return _farthest(error.law, count, level) * float(error.grid)


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _spread(law: ValueLaw, count: int, level: float) -> float:
    """The quantile of the largest noise less the smallest, in steps."""
    found = _quantile(lambda x: law.spread_tail(count, x), level)
    return float(law.scale) * found + law.steps_more


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _farthest(law: ValueLaw, count: int, level: float) -> float:
    """The quantile of the largest noise, up or down, in steps."""
    found = _quantile(lambda x: law.farthest_tail(count, x), level)
    return float(law.scale) * found + law.steps_more


def _quantile(tail: Callable[[float], float], level: float) -> float:
    """Where a falling tail reaches 1 − level."""
    low, high = 0.0, 1.0
    while tail(high) > 1 - level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > 1 - level else (low, middle)
    return high
