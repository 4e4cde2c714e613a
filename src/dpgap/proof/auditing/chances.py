"""Bounds of chances and of ε, from how often an event happened; and the result of an audit.

Tests of dpgap's mechanisms are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import heapq
import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from dpgap._package import how_to_get

LEVEL = 1e-6
EPSILON = "ε"
DELTA = "δ"
_MOST_INTERVALS = 256
BEYOND_COUNTS = 300.0
"""An ε that no counts refute, small enough that e^ε is a float."""
_LARGEST = 16.0
_NEAR = 1e-3
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
    """The p-value of the evidence, if the claim is true; None if the event was known."""
    seconds: float
    bounds: str = EPSILON
    """What is claimed, and bounded from below: ε, or δ."""

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        unlikely = self.p_value is not None and self.p_value <= LEVEL
        return unlikely or self.lower_bound > self.claimed


def require_scipy() -> None:
    """Raise an error unless SciPy can be imported."""
    try:
        import_module("scipy.special")
    except Exception:  # a SciPy that was made for another NumPy fails while it is loaded
        raise ModuleNotFoundError(f"audits need SciPy: {how_to_get('proof')}") from None


def _laws() -> Any:
    """SciPy's distributions, imported when needed because they load slowly."""
    require_scipy()
    return import_module("scipy.stats")


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
    """An upper bound of the probability of this many hits beyond e^ε times the neighbour's.

    If ε and δ hold, this probability is largest where they hold with equality. Then it depends only
    on the chance p of the event on the neighbour. The largest value over a confidence interval for
    p counts; the interval is wrong with chance `spare`, which is added (Berger and Boos). This is
    sharper than bounds on both sides.

    For all p between two values, an upper bound uses the larger value for the hits and the smaller
    one for the others. So the interval is halved again and again at its worst part, until the bound
    is sharp; or, with a `level`, until it is clear on which side of the level the result is.

    >>> p_value(2_000, 300, 10_000, 1.0, 0.0, spare=1e-8) < 1e-6
    True
    >>> p_value(300, 110, 1_000, 1.0, 0.0, spare=1e-8) > 0.1
    True
    """
    factor = math.exp(min(epsilon, BEYOND_COUNTS))
    beyond = hits - factor * hits_neighbour
    if beyond <= delta * runs:
        return 1.0

    binom = _laws().binom

    def chance_between(low: float, high: float) -> float:
        """P(hits − factor·others ≥ beyond): others have the low chance, hits the high one."""
        fewest = int(binom.ppf(spare / 4, runs, low))
        others = np.arange(fewest, int(binom.isf(spare / 4, runs, low)) + 1)
        needed = np.ceil(beyond + factor * others - _ROUNDING)
        tails = binom.sf(needed - 1, runs, min(1.0, factor * high + delta))
        return float((binom.pmf(others, runs, low) * tails).sum())

    low = lower_chance(hits_neighbour, runs, spare / 4)
    high = upper_chance(hits_neighbour, runs, spare / 4)
    narrow = (high - low) / _MOST_INTERVALS
    intervals = [(-chance_between(low, high), low, high)]  # a heap: the worst one comes first
    while True:
        negative_chance, low, high = intervals[0]
        bound = spare - negative_chance
        if bound <= level or high - low <= narrow:
            return min(1.0, bound)
        heapq.heappop(intervals)
        middle = (low + high) / 2
        heapq.heappush(intervals, (-chance_between(low, middle), low, middle))
        heapq.heappush(intervals, (-chance_between(middle, high), middle, high))
        if level and spare + chance_between(middle, middle) > level:
            return min(1.0, spare - intervals[0][0])


def lower_bound(
    hits: int, hits_neighbour: int, runs: int, level: float = LEVEL, *, delta: float = 0.0
) -> float:
    """A lower bound of ε, from the counts of an event on each side.

    Every smaller ε has a p-value of at most the level; a hundredth of the level is `spare`.

    >>> 1.7 < lower_bound(2_000, 300, 10_000, 1e-3) < 1.9, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """

    def is_refuted(epsilon: float) -> bool:
        p = p_value(hits, hits_neighbour, runs, epsilon, delta, spare=level / 100, level=level)
        return p <= level

    if not is_refuted(0.0):
        return 0.0
    refuted = 0.0
    not_refuted = _LARGEST
    while not_refuted - refuted > _NEAR:
        middle = (refuted + not_refuted) / 2
        if is_refuted(middle):
            refuted = middle
        else:
            not_refuted = middle
    return refuted


def lower_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """A lower bound of a probability, from its count (Clopper–Pearson).

    >>> 0.16 < lower_chance(2_000, 10_000) < 0.2, lower_chance(0, 1_000)
    (True, 0.0)
    """
    if hits == 0:
        return 0.0
    return float(_laws().beta.ppf(level, hits, runs - hits + 1))


def upper_chance(hits: int, runs: int, level: float = LEVEL) -> float:
    """An upper bound of a probability, from its count (Clopper–Pearson).

    >>> 0.2 < upper_chance(2_000, 10_000) < 0.23, upper_chance(10, 10)
    (True, 1.0)
    """
    if hits >= runs:
        return 1.0
    return float(_laws().beta.isf(level, hits + 1, runs - hits))
