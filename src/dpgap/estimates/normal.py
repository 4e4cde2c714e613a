"""The normal distribution function and its logarithm, with or without SciPy.

Importing `scipy.special` takes longer than a whole release. A release needs a few thousand values,
which the C library's erfc gives in a millisecond; a simulation needs millions, and SciPy's loop.
So does whoever makes release after release: after the first hundred or so SciPy is loaded, if it
is installed, and a value takes a tenth of the time. The two agree to the last digits.
"""

import math
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.draws import Floats

_FEW = 20_000
_FEW_IN_ALL = 1 << 17
_so_far = 0
"""How many values were worked out without SciPy."""
_FEW_FOR_A_TABLE = 2_000
_FAR = -30.0
_END = 37.0
_CELLS = 64
_erfc = np.frompyfunc(math.erfc, 1, 1)


def log_ndtr(place: Any) -> Floats:
    """Log Φ(x), for each x, in the tails as well.

    >>> log_ndtr([-50.0, 0.0, 10.0]).round(12)
    array([-1.25483136e+03, -6.93147181e-01, -0.00000000e+00])
    """
    x = np.asarray(place, dtype=np.float64)
    if compiled := _worth_loading(x.size):
        logs: Floats = compiled.log_ndtr(x)
        return logs
    tail = np.asarray(_erfc(np.abs(x) / math.sqrt(2)), dtype=np.float64) / 2
    with np.errstate(all="ignore"):
        near = np.where(x > 0, np.log1p(-tail), np.log(tail))
        far = x < _FAR
        return np.where(far, _log_far_tail(x), near) if far.any() else near


def _worth_loading(values: int) -> Any:
    """SciPy's functions, for many values, now or up to now, or if they are loaded; else None."""
    global _so_far
    if sys.modules.get("scipy.special") is None:
        _so_far += values
        if values <= _FEW and _so_far <= _FEW_IN_ALL:
            return None
    return scipy_special()


@cache
def scipy_special() -> Any:
    """SciPy's functions, or None. Nothing needs them but audits; simulations are faster with them.

    A SciPy that was made for another NumPy fails while it is loaded. A paid release must not.
    """
    try:
        return import_module("scipy.special")
    except Exception:
        return None


def ndtr(place: Any) -> Floats:
    """Φ(x), for each x.

    >>> ndtr([-1.0, 0.0]).round(6)
    array([0.158655, 0.5     ])
    """
    x = np.asarray(place, dtype=np.float64)
    if compiled := _worth_loading(x.size):
        chances: Floats = compiled.ndtr(x)
        return chances
    return np.asarray(_erfc(x / -math.sqrt(2)), dtype=np.float64) / 2


def tabled_log_ndtr(place: Floats) -> Floats:
    """Log Φ(x) to 1e-9 (in the far left tail, of itself), from a table, in a third of the time.

    For few values the table is not worth making, and it ends at −37.
    """
    if place.size <= _FEW_FOR_A_TABLE or place.min() < -_END:
        return log_ndtr(place)
    cells, within = _cells(place)
    value, slope, half_bend, sixth = _table()
    logs: Floats = sixth.take(cells)
    for coefficient in (half_bend, slope, value):
        logs *= within
        logs += coefficient.take(cells)
    return logs


def rough_log_ndtr(place: Floats) -> Floats:
    """Log Φ(x) to a few per cent."""
    if place.size <= _FEW_FOR_A_TABLE:
        return log_ndtr(place)
    logs: Floats = _table()[0].take(_cells(place)[0])
    return logs


def _cells(place: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The cell of the table, and how far from its middle, in cells."""
    within = np.clip(place, -_END, _END)
    within += _END
    within *= _CELLS
    cells = within.astype(np.intp)
    within -= cells
    within -= 0.5
    return cells, within


@cache
def _table() -> tuple[Floats, ...]:
    """The Taylor series of log Φ in the middle of cells: four coefficients."""
    x = (np.arange(2 * int(_END) * _CELLS + 1) + 0.5) / _CELLS - _END
    value = log_ndtr(x)
    slope = np.exp(-(x**2) / 2 - value) / math.sqrt(2 * math.pi)
    bend = -slope * (x + slope)
    third = -bend * (x + slope) - slope * (1 + bend)
    return value, slope / _CELLS, bend / 2 / _CELLS**2, third / 6 / _CELLS**3


def _log_far_tail(x: Floats) -> Floats:
    """The asymptotic series, whose eighth term is below 1e-16 where it is used."""
    square = np.minimum(x, _FAR) ** -2.0
    series = np.zeros_like(square)
    for odd in range(13, 0, -2):  # 1 − 1/x² + 1·3/x⁴ − 1·3·5/x⁶ …
        series = -odd * square * (1 + series)
    logs: Floats = -(x**2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(-x) + np.log1p(series)
    return logs
