"""What an audit finds, and the tests behind it.

Those of what dpgap ships are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import heapq
import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from dpgap._package import how_to_get
from dpgap.estimates.normal import scipy_special

LEVEL = 1e-6
EPSILON, DELTA = "ε", "δ"
_CELLS = 256
"""Into how many parts the bounds on a chance are cut at most."""
BEYOND_COUNTS = 300.0
"""An ε that no counts refute, and of which e^ε is still a number."""
_LARGEST, _NEAR = 16.0, 1e-3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    name: str
    kind: str
    variant: str
    source: str
    """Where samples come from: a release's `document`, a `program`, or none: it is `exact`."""
    claimed: float
    lower_bound: float
    samples: int
    p_value: float | None
    """How likely so strong evidence is, if the claim is true; None where the event was known."""
    seconds: float
    bounds: str = EPSILON
    """What is claimed, and bounded from below: ε, or δ."""

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        unlikely = self.p_value is not None and self.p_value <= LEVEL
        return unlikely or self.lower_bound > self.claimed


def require_scipy() -> None:
    """Refuse to begin what could not be judged."""
    if scipy_special() is None:
        raise ModuleNotFoundError(f"audits need SciPy: {how_to_get('proof')}")


def _laws() -> Any:
    """SciPy's laws, which take their time to load."""
    require_scipy()
    return import_module("scipy.stats")


def lower_bound(hits: int, hits_neighbour: int, runs: int, level: float = LEVEL) -> float:
    """What ε is at least, given how often an event happened on each side (Clopper–Pearson).

    >>> lower_bound(2_000, 300, 10_000) > 1.5, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """
    if not hits:
        return 0.0
    least = lower_chance(hits, runs, level / 2)
    most = upper_chance(hits_neighbour, runs, level / 2)
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def p_value(
    hits: int,
    hits_neighbour: int,
    runs: int,
    epsilon: float,
    delta: float,
    *,
    spare: float,
    level: float = 0.0,
) -> float:
    """How likely it is, at most, to see so many hits beyond e^ε times the neighbour's.

    If ε and δ hold, that is likeliest where they just hold. It then depends on the chance of the
    event on the neighbour alone: the worst one counts, of all within bounds that are wrong with
    chance `spare`, which is added (Berger and Boos). This is sharper than bounds on both sides.

    Of all chances between two, none is worse than the larger for the hits with the smaller for the
    others. So the bounds are cut in two again and again, where the worst is, until that is sharp;
    or, with a level, until it is clear on which side of it the worst is.

    >>> p_value(2_000, 300, 10_000, 1.0, 0.0, spare=1e-8) < 1e-6
    True
    >>> p_value(300, 110, 1_000, 1.0, 0.0, spare=1e-8) > 0.1
    True
    """
    factor = math.exp(min(epsilon, BEYOND_COUNTS))
    beyond = hits - factor * hits_neighbour
    if beyond <= delta * runs:
        return 1.0

    def at_most(least: float, most: float) -> float:
        return _chance_beyond(
            beyond, factor, runs, least, min(1.0, factor * most + delta), spare / 4
        )

    least = lower_chance(hits_neighbour, runs, spare / 4)
    most = upper_chance(hits_neighbour, runs, spare / 4)
    narrow = (most - least) / _CELLS
    cells = [(-at_most(least, most), least, most)]
    while spare - cells[0][0] > level and cells[0][2] - cells[0][1] > narrow:
        _, low, high = heapq.heappop(cells)
        middle = (low + high) / 2
        for cell in ((low, middle), (middle, high)):
            heapq.heappush(cells, (-at_most(*cell), *cell))
        if level and spare + at_most(middle, middle) > level:
            break
    return min(1.0, spare - cells[0][0])


def _chance_beyond(
    beyond: float, factor: float, runs: int, chance: float, chance_of_hits: float, ignored: float
) -> float:
    """P(hits − factor·others ≥ beyond), where others have this chance and hits have that."""
    binom = _laws().binom

    ends = binom.ppf(ignored, runs, chance), binom.isf(ignored, runs, chance)
    others = np.arange(int(ends[0]), int(ends[1]) + 1)
    needed = np.ceil(beyond + factor * others - _ROUNDING)
    tails = binom.sf(needed - 1, runs, chance_of_hits)
    return float((binom.pmf(others, runs, chance) * tails).sum())


def least_epsilon(
    hits: int, hits_neighbour: int, runs: int, delta: float, level: float, *, spare: float
) -> float:
    """What ε is at least: every smaller one has a p-value of at most the level.

    >>> 1.7 < least_epsilon(2_000, 300, 10_000, 0.0, 1e-3, spare=1e-5) < 1.9
    True
    """
    refuted, open_ = 0.0, _LARGEST
    if p_value(hits, hits_neighbour, runs, refuted, delta, spare=spare, level=level) > level:
        return 0.0
    while open_ - refuted > _NEAR:
        middle = (refuted + open_) / 2
        if p_value(hits, hits_neighbour, runs, middle, delta, spare=spare, level=level) <= level:
            refuted = middle
        else:
            open_ = middle
    return refuted


def lower_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """What a chance is at least, given how often it came true (Clopper–Pearson).

    >>> 0.16 < lower_chance(2_000, 10_000) < 0.2, lower_chance(0, 1_000)
    (True, 0.0)
    """
    beta = _laws().beta
    return float(beta.ppf(level, hits, runs - hits + 1)) if hits else 0.0


def upper_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """What a chance is at most, given how often it came true (Clopper–Pearson).

    >>> 0.2 < upper_chance(2_000, 10_000) < 0.23, upper_chance(10, 10)
    (True, 1.0)
    """
    beta = _laws().beta

    return float(beta.isf(level, hits + 1, runs - hits)) if hits < runs else 1.0
