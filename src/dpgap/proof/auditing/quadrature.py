"""Integrals over noise, to nearly all digits of a float.

Answers and thresholds are whole here, so the densities are smooth between whole numbers, except
where a stair breaks. Gauss–Legendre nodes on every smooth piece integrate them to about 1e-14.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpgap.exact.laws import RealLaw
from dpgap.exact.reals import Floats

_NODES = 24
_REACH = 45
"""How many scales away tails are cut off: below 1e-19."""


@lru_cache(maxsize=16)
def nodes(law: RealLaw) -> tuple[Floats, Floats]:
    """Nodes and weights for integrals over the noise."""
    breaks = np.unique([0.0, *law.breaks, 1.0])
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = np.diff(breaks)[:, None]
    unit = (breaks[:-1, None] + widths * (places + 1) / 2).ravel()
    reach = int(_REACH * law.scale)
    starts = np.arange(-reach, reach)[:, None]
    return (starts + unit).ravel(), np.tile((widths * weights / 2).ravel(), 2 * reach)


def integrate(given: Callable[[Floats], Any], law: RealLaw) -> float:
    """The mean of `given` over the noise."""
    points, weights = nodes(law)
    return float((weights * law.density(points) * given(points)).sum())
