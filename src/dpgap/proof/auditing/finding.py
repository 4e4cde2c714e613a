"""What an audit finds, and the tests behind it.

Those of what dpgap ships are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dpgap._package import how_to_get
from dpgap.estimates.normal import scipy_special
from dpgap.exact.reals import Floats, Integers

LEVEL = 1e-6
EPSILON, DELTA = "ε", "δ"
_LEAST_EXPECTED = 25.0
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


# --------------------------------------------------------------------------------------------------
# How a shipped mechanism is audited: what is sampled, on which answers, and against which law.


MOST = 12
"""Gaps that are at least this many steps over the least one share a cell; so do noisy values."""
_AT_ONCE = 1_000_000

Sampler = Callable[[Any, Sequence[int], int], Integers]
"""How often each cell occurs for a mechanism, on answers, in so many runs."""


class Design(NamedTuple):
    """What to sample. A *cell* is what a release says, with large numbers put together."""

    mechanism: Any
    variant: str
    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    event: Callable[[Integers], int]
    """How often the event happened, given how often each cell occurred."""
    law: Callable[[Any, Sequence[int]], Floats]
    """The chance of each cell, for a mechanism on answers."""
    kernel: Sampler
    release: Sampler

    @property
    def name(self) -> str:
        """The mechanism's name."""
        return type(self.mechanism).__name__

    def chances(self, answers: Sequence[int]) -> Floats:
        """The chance of each cell on these answers."""
        return self.law(self.mechanism, answers)


def variant_of(mechanism: Any) -> str:
    """Its noise and its kind of answers, in words."""
    return f"{mechanism.noise}, {'monotonic' if mechanism.monotonic else 'general'}"


def audit_design(design: Design, source: str, samples: int, *, real: Any = None) -> Audit:
    """Audit a shipped mechanism on `samples` runs, half of them on each side.

    `real` is what is sampled instead, to see whether a fault would be caught.
    """
    start = time.perf_counter()
    sampler = design.kernel if source == "kernel" else design.release
    sampled = design.mechanism if real is None else real
    runs = samples // 2
    sides = (design.answers, design.neighbour)
    counts = [_sample(sampler, sampled, side, runs) for side in sides]
    hits, hits_neighbour = map(design.event, counts)
    fits = [fit(count, design.chances(side)) for count, side in zip(counts, sides, strict=True)]
    return Audit(
        design.name,
        "shipped",
        design.variant,
        source,
        float(design.mechanism.epsilon),
        lower_bound(hits, hits_neighbour, runs),
        samples,
        min(1.0, 2 * min(fits)),
        time.perf_counter() - start,
    )


def _sample(sampler: Sampler, mechanism: Any, answers: Sequence[int], runs: int) -> Integers:
    parts = [
        sampler(mechanism, answers, min(_AT_ONCE, runs - done)) for done in range(0, runs, _AT_ONCE)
    ]
    total: Integers = np.sum(parts, axis=0)
    return total
