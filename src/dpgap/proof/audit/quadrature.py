"""Integrals over noise, to nearly all digits of a float.

Answers and thresholds are whole here, so the densities are smooth between whole numbers, except
where a stair breaks. Gauss–Legendre nodes on every smooth piece integrate them to about 1e-14.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpgap.exact.draws import Floats
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise

_NODES = 24
_REACH = 45
"""How many scales away tails are cut off: below 1e-19."""


def density(law: Law, at: Floats) -> Floats:
    """The density of the noise."""
    scale = float(law.scale)
    if isinstance(law, ExponentialNoise):
        return np.where(at >= 0, np.exp(-np.maximum(at, 0.0) / scale) / scale, 0.0)
    if isinstance(law, LaplaceNoise):
        return np.exp(-np.abs(at) / scale) / (2 * scale)
    assert isinstance(law, StaircaseNoise)
    step, share = float(law.step), float(law.share)
    stair, within = np.divmod(np.abs(at) / step, 1.0)
    far = law.fall ** np.where(within < share, 0, 1)
    height = (1 - law.fall) / (2 * step * (share + law.fall * (1 - share)))
    return height * law.fall**stair * far


@lru_cache(maxsize=16)
def nodes(law: Law) -> tuple[Floats, Floats]:
    """Nodes and weights for integrals over the noise."""
    share = float(law.share) if isinstance(law, StaircaseNoise) else 0.0
    breaks = np.unique([0.0, share, 1 - share, 1.0])
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = np.diff(breaks)[:, None]
    unit = (breaks[:-1, None] + widths * (places + 1) / 2).ravel()
    reach = int(_REACH * law.scale)
    starts = np.arange(-reach, reach)[:, None]
    return (starts + unit).ravel(), np.tile((widths * weights / 2).ravel(), 2 * reach)


def integrate(given: Callable[[Floats], Any], law: Law) -> float:
    """The mean of `given` over the noise."""
    points, weights = nodes(law)
    return float((weights * density(law, points) * given(points)).sum())
