"""What an audit finds, and the two tests behind it.

Both are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from dpgap import how_to_get
from dpgap.estimates.normal import has_scipy
from dpgap.exact.draws import Floats, Integers

LEVEL = 1e-6
EPSILON, DELTA = "ε", "δ"
_LEAST_EXPECTED = 25.0


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    name: str
    kind: str
    variant: str
    source: str
    """Where samples come from: `release`, the `kernel` that it calls, a `program`, or none."""
    claimed: float
    lower_bound: float
    samples: int
    p_value: float | None
    """How likely so bad a fit to the exact law is; None where it was not compared."""
    seconds: float
    bounds: str = EPSILON
    """What is claimed, and bounded from below: ε, or δ."""

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        misfits = self.p_value is not None and self.p_value < LEVEL
        return misfits or self.lower_bound > self.claimed


def require_scipy() -> None:
    """Refuse to begin what could not be judged."""
    if not has_scipy():
        raise ModuleNotFoundError(f"audits need SciPy: {how_to_get('proof')}")


def _laws() -> Any:
    """SciPy's laws, which take their time to load."""
    require_scipy()
    return import_module("scipy.stats")


def lower_bound(
    hits: int, hits_neighbour: int, runs: int, level: float = LEVEL, *, delta: float = 0.0
) -> float:
    """What ε is at least, given how often an event happened on each side (Clopper–Pearson).

    >>> lower_bound(2_000, 300, 10_000) > 1.5, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """
    beta = _laws().beta
    if not hits:
        return 0.0
    least = beta.ppf(level / 2, hits, runs - hits + 1) - delta
    most = 1.0
    if hits_neighbour < runs:
        most = beta.isf(level / 2, hits_neighbour + 1, runs - hits_neighbour)
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def p_value(
    hits: int, hits_neighbour: int, runs: int, epsilon: float, *, delta: float = 0.0
) -> float:
    """The least level at which the counts refute ε: halved until it is known to a percent.

    >>> p_value(2_000, 300, 10_000, 1.0) < 1e-6 < 0.01 < p_value(300, 110, 1_000, 1.0)
    True
    """
    refuting, not_refuting = 1.0, 1e-100
    if lower_bound(hits, hits_neighbour, runs, refuting, delta=delta) <= epsilon:
        return 1.0
    while refuting > 1.01 * not_refuting:
        level = math.sqrt(refuting * not_refuting)
        if lower_bound(hits, hits_neighbour, runs, level, delta=delta) > epsilon:
            refuting = level
        else:
            not_refuting = level
    return refuting


def lower_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """What a chance is at least, given how often it came true (Clopper–Pearson).

    >>> 0.16 < lower_chance(2_000, 10_000) < 0.2, lower_chance(0, 1_000)
    (True, 0.0)
    """
    beta = _laws().beta
    return float(beta.ppf(level, hits, runs - hits + 1)) if hits else 0.0


def fit(counts: Integers, chances: Floats) -> float:
    """The χ² p-value of counts against chances; rare cells are put together.

    >>> fit(np.array([5000, 5000]), np.array([0.5, 0.5]))
    1.0
    """
    chi2 = _laws().chi2
    flat, expected = counts.ravel(), chances.ravel() * counts.sum()
    common = expected >= _LEAST_EXPECTED
    seen = np.append(flat[common], flat[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < _LEAST_EXPECTED:  # fold what is left into the rarest common cell
        rarest = int(np.argmin(wanted[:-1]))
        seen[rarest] += seen[-1]
        wanted[rarest] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return float(chi2.sf(statistic, wanted.size - 1))
