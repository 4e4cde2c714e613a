"""Integrals over a noisy threshold, to nearly all digits of a float.

Laplace noise is smooth between whole numbers here, since thresholds and answers are whole. So
Gauss–Legendre nodes on every unit interval integrate it to about 1e-14 of itself.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpgap.exact.draws import Floats

_NODES = 24
_REACH = 45
"""How many scales away the tail is cut: below 1e-19."""


@lru_cache(maxsize=16)
def _grid(reach: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    starts = np.arange(-reach, reach)[:, None]
    return (starts + (nodes + 1) / 2).ravel(), np.tile(weights / 2, 2 * reach)


def exceeds(distance: Any, scale: float) -> Any:
    """P(Laplace noise > distance)."""
    half = np.exp(-np.abs(distance) / scale) / 2
    return np.where(distance >= 0, half, 1 - half)


def integrated(given: Callable[[Floats], Any], scale: int) -> float:
    """The mean of `given` over Laplace noise of this scale."""
    points, weights = _grid(_REACH * scale)
    density = np.exp(-np.abs(points) / scale) / (2 * scale)
    return float((weights * density * given(points)).sum())
