"""The normal distribution function and its logarithm, the same on every day and in every process.

Every bit of a release must be a function of what was drawn; it must not depend on what else the
process has loaded or computed. So nothing here depends on whether SciPy is installed. A few values
come from the C library's erfc. Many values are read from a table of cells, by the Taylor series of
log Φ at the beginning of each cell; five terms agree with SciPy to 12 digits.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.reals import Floats, without_float_errors

_MOST_BY_ERFC = 100
_MOST_WITHOUT_TABLE = 2_000
_FAR = -30.0
_END = 37.0
_CERTAIN = 9.0
"""From here on Φ is 1 as a float."""
_CELLS = 256
_TERMS = 5
_erfc = np.frompyfunc(math.erfc, 1, 1)


@without_float_errors
def log_ndtr(numbers: Any) -> Floats:
    """Log Φ(x), for each x, in the tails as well.

    >>> log_ndtr([-50.0, 0.0, 10.0]).round(12)
    array([-1.25483136e+03, -6.93147181e-01, -0.00000000e+00])
    """
    x = np.asarray(numbers, dtype=np.float64)
    tail = np.asarray(_erfc(np.abs(x) / math.sqrt(2)), dtype=np.float64) / 2
    near = np.where(x > 0, np.log1p(-tail), np.log(tail))
    far = x < _FAR
    if not far.any():
        return near
    return np.where(far, _log_far_tail(x), near)


def ndtr(numbers: Any) -> Floats:
    """Φ(x), for each x.

    >>> ndtr([-1.0, 0.0]).round(6)
    array([0.158655, 0.5     ])
    """
    x = np.asarray(numbers, dtype=np.float64)
    if is_tabled(x):
        logs = _by_table(x, _TERMS)
        return np.exp(logs, out=logs)
    return np.asarray(_erfc(x / -math.sqrt(2)), dtype=np.float64) / 2


def tabled_log_ndtr(x: Floats) -> Floats:
    """Log Φ(x) from a table, to 1e-9 (relative in the far left tail), in a third of the time.

    For few values the table is not made. It ends at −37.
    """
    if is_tabled(x):
        return _by_table(x, 4)
    return log_ndtr(x)


def is_tabled(x: Floats) -> bool:
    """Whether values are read from the table: there are many, and all are within the table."""
    return x.size > _MOST_BY_ERFC and bool(x.min() >= -_END)


def _by_table(x: Floats, terms: int) -> Floats:
    """Log Φ(x) for x ≥ −37, by this many `terms` of its series."""
    cells, within = _cells(x)
    *lower, logs = _table()[:terms].take(cells, axis=1)
    for coefficient in reversed(lower):
        logs *= within
        logs += coefficient
    return np.asarray(logs)


def rough_log_ndtr(x: Floats) -> Floats:
    """Log Φ(x) to a few per cent."""
    if x.size <= _MOST_WITHOUT_TABLE:
        return log_ndtr(x)
    cells, _ = _cells(np.maximum(x, -_END))
    logs: Floats = _table()[0].take(cells)
    return logs


def _cells(x: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The cell of the table, and the distance from the cell's beginning, in cells."""
    within = (np.minimum(x, _CERTAIN) + _END) * _CELLS
    cells = within.astype(np.intp)
    return cells, within - cells


@cache
def _table() -> Floats:
    """The Taylor series of log Φ at the beginning of each cell, in units of a cell.

    Its slope is h = φ/Φ, with h′ = −h·(x + h); further derivatives follow by the product rule.
    """
    x = np.arange(int(_END + _CERTAIN) * _CELLS + 1) / _CELLS - _END
    value = log_ndtr(x)
    slopes = [np.exp(-(x**2) / 2 - value) / math.sqrt(2 * math.pi)]
    for n in range(_TERMS - 2):
        products = sum(math.comb(n, i) * slopes[i] * slopes[n - i] for i in range(n + 1))
        derivative = x * slopes[n]
        if n:
            derivative += n * slopes[n - 1]
        slopes.append(-(derivative + products))
    coefficients = [value]
    for n, slope in enumerate(slopes, 1):
        coefficients.append(slope / (math.factorial(n) * float(_CELLS) ** n))
    return np.array(coefficients)


def _log_far_tail(x: Floats) -> Floats:
    """The asymptotic series of log Φ; where it is used, its eighth term is below 1e-16."""
    square = np.minimum(x, _FAR) ** -2.0
    series = np.zeros_like(square)
    for odd in range(13, 0, -2):  # 1 − 1/x² + 1·3/x⁴ − 1·3·5/x⁶ …
        series = -odd * square * (1 + series)
    logs: Floats = -(x**2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(-x) + np.log1p(series)
    return logs
