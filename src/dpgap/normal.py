"""The logarithm of the normal distribution function, without waiting for SciPy.

Importing `scipy.special` takes longer than a whole release. A release needs a few thousand values,
which the C library's erfc gives in a millisecond; a simulation needs millions, and SciPy's loop.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FEW = 200_000
_FAR = -30.0
_erfc = np.frompyfunc(math.erfc, 1, 1)


def log_ndtr(place: Any) -> Floats:
    """Log Φ(x), for each x, in the tails as well.

    >>> log_ndtr([-50.0, 0.0, 10.0]).round(12)
    array([-1.25483136e+03, -6.93147181e-01, -0.00000000e+00])
    """
    x = np.asarray(place, dtype=np.float64)
    if x.size > _FEW:
        from scipy.special import log_ndtr as compiled

        logs: Floats = compiled(x)
        return logs
    tail = np.asarray(_erfc(np.abs(x) / math.sqrt(2)), dtype=np.float64) / 2
    with np.errstate(all="ignore"):
        near = np.where(x > 0, np.log1p(-tail), np.log(tail))
        return np.where(x < _FAR, _log_far_tail(x), near)


def _log_far_tail(x: Floats) -> Floats:
    """The asymptotic series, whose eighth term is below 1e-16 where it is used."""
    square = np.minimum(x, _FAR) ** -2.0
    series = np.zeros_like(square)
    for odd in range(13, 0, -2):  # 1 − 1/x² + 1·3/x⁴ − 1·3·5/x⁶ …
        series = -odd * square * (1 + series)
    logs: Floats = -(x**2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(-x) + np.log1p(series)
    return logs
