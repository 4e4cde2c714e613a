"""How wide an interval must be: quantiles of sums of independent Laplace noise.

An estimate made from gaps is off by a weighted sum of many Laplace draws. Its law is computed
from its characteristic function, so the interval is that of the true sum, not of a normal
approximation.
"""

import math
from functools import lru_cache

import numpy as np

_TERMS = 1 << 16


@lru_cache(maxsize=64)
def laplace_sum_half_width(terms: tuple[tuple[float, int], ...], level: float) -> float:
    """The x with P(|S| ≤ x) = level, S a sum of Laplace draws given as (scale, how many).

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
    order = np.arange(1, _TERMS)
    logs = sum(count * np.log1p((scale * step * order) ** 2) for scale, count in terms)
    weights = np.exp(-logs) / order
    weights = weights[weights > 1e-14]
    frequency = step * order[: weights.size]
    low, high = 0.0, reach
    for _ in range(60):
        middle = (low + high) / 2
        inside = middle / reach + 2 / math.pi * float(weights @ np.sin(frequency * middle))
        low, high = (middle, high) if inside < level else (low, middle)
    return high
