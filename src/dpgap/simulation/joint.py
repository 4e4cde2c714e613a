"""Joint selection, many runs at once."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.joint_kernel import TOP_SET, Classes, log_choose
from dpgap.simulation.floats import Rng
from dpgap.simulation.top_k import Ranked

# --------------------------------------------------------------------------------------------------
# Members of classes of sets for many runs at once, on floats.


_DENSE = 4
"""A choice of r is dense if it is of fewer than r²/this: drawing again and again would not do."""


def draw_ranks(classes: Classes, numbers: Integers, rng: Rng) -> Integers:
    """A uniformly drawn set of each class, as ranks from 0; one row a class."""
    kept, low, high = classes.ranks_of(numbers)
    lowest = _lowest(classes.k, kept, low, high, rng)
    columns = np.arange(classes.k)
    ranks = np.tile(columns, (numbers.size, 1))
    between = _distinct(classes.k - kept - 1, lowest - kept - 2, rng)
    rows, places = np.nonzero((columns >= kept[:, None]) & (columns < classes.k - 1))
    ranks[rows, places] = between[rows, places - kept[rows]] + kept[rows] + 1
    ranks[:, -1] = lowest - 1
    return ranks


def _lowest(k: int, kept: Integers, low: Integers, high: Integers, rng: Rng) -> Integers:
    """The lowest rank of each set, from 1: by inverting C(rank − h − 1, k − h)."""
    chosen = k - kept
    most = _log_choose(high - kept - 1, chosen)
    share = np.exp(_log_choose(low - kept - 2, chosen) - most)
    aim = most + np.log(share + rng.random(kept.size) * (1 - share))
    below, above = low - 1, high.copy()
    while (above - below > 1).any():
        middle = (below + above) // 2
        is_enough = _log_choose(middle - kept - 1, chosen) >= aim
        above = np.where(is_enough & (above - below > 1), middle, above)
        below = np.where(is_enough, below, np.minimum(middle, above - 1))
    return above


def _log_choose(among: Integers, chosen: Integers) -> Floats:
    return np.where(among < chosen, -np.inf, log_choose(among, chosen))


def _distinct(many: Integers, limits: Integers, rng: Rng) -> Integers:
    """In each row, so many distinct whole numbers below its limit; what follows them is filling."""
    width = max(1, int(many.max()))
    drawn = np.zeros((many.size, width), dtype=np.int64)
    dense = limits < many * many // _DENSE
    if dense.any():
        keys = rng.random((int(dense.sum()), max(width, int(limits[dense].max()))))
        keys[np.arange(keys.shape[1]) >= limits[dense, None]] = 2.0
        drawn[dense] = np.argsort(keys, axis=1)[:, :width]
    pending = np.flatnonzero(~dense & (many > 0))
    filling = -1 - np.arange(width)
    while pending.size:
        some = (rng.random((pending.size, width)) * limits[pending, None]).astype(np.int64)
        some = np.where(np.arange(width) < many[pending, None], some, filling)
        in_order = np.sort(some, axis=1)
        good = (in_order[:, 1:] != in_order[:, :-1]).all(axis=1)
        drawn[pending[good]] = some[good]
        pending = pending[~good]
    return drawn


# --------------------------------------------------------------------------------------------------
# Many runs of Joint Top-K at once, on float noise.
#
# Exponential noise forgets: of all sets whose noisy half-margin reaches a line that is above every
# half-margin, each is a fresh exponential above it. So a run needs no more than *how many* sets
# reach the line; the best of them is one of these, any one being as likely as any other. The top
# set alone may begin above the line, and is drawn by itself.
#
# How many reach it is found by marks. If every set of a class reaches the line with chance p, let
# it get a Poisson number of marks, −ln(1 − p) on average; it reaches the line if it gets any. All
# marks together are a Poisson number too, and each falls on a class by its share and on a set of it
# evenly. The line is put where about `_REACHING` sets reach it, or as low as it may be.


_REACHING = 40.0
_NEGLIGIBLE = 40.0
"""Classes that are less likely than the likeliest by e to this are left out."""
_AT_ONCE = 1 << 19
_CERTAINLY_APART = 1 << 30
"""Of so many sets no two marks fall on the same."""


class LikelyClasses(NamedTuple):
    """The classes that may win, but for the top set, and how the line is reached."""

    classes: Classes
    numbers: Integers
    log_sizes: Floats
    line: float
    rates: Floats
    """The mean number of marks of each class; 0 where every set reaches the line."""
    certain: Integers
    """The class of every set that is certain to reach the line."""

    @classmethod
    def of(cls, mechanism: JointTopK, ranked: Ranked) -> "LikelyClasses":
        """The classes of all sets of these answers, with the line for this noise."""
        values, sizes = np.unique(ranked.answers, return_counts=True)
        classes, scale = Classes(values, sizes, mechanism.k), float(mechanism.half_step_law.scale)
        numbers, margins, log_sizes = _likely(classes, scale)
        weights = margins / scale + log_sizes
        total = float(np.logaddexp.reduce(weights))
        line = max(float(margins.max()), scale * (total - math.log(_REACHING)))
        log_chances = (margins - line) / scale
        sure = log_chances >= 0
        per_chance = np.ones(numbers.size)
        likely = ~sure & (log_chances > -30)
        chances = np.exp(log_chances[likely])
        per_chance[likely] = -np.log1p(-chances) / chances
        rates = np.where(sure, 0.0, np.exp(log_sizes + log_chances) * per_chance)
        counts = np.rint(np.exp(log_sizes[sure])).astype(np.int64)
        certain = np.repeat(np.flatnonzero(sure), counts)
        return cls(classes, numbers, log_sizes, line, rates, certain)


def _likely(classes: Classes, scale: float) -> tuple[Integers, Floats, Floats]:
    """Numbers, margins and logarithms of sizes of the classes that are not negligible."""
    blocks = [classes.block(*each) for each in classes.blocks(_AT_ONCE)]
    weights = [each.margins / scale + each.log_sizes for each in blocks]
    least = max(float(each.max()) for each in weights) - _NEGLIGIBLE
    numbers = np.concatenate(
        [
            each.first + np.flatnonzero(weight >= least)
            for each, weight in zip(blocks, weights, strict=True)
        ]
    )
    listed = numbers.tolist()
    margins = np.array([classes.margin(at) for at in listed], dtype=np.float64)
    return numbers, margins, np.array([math.log(classes.size(at)) for at in listed])


@np.errstate(all="ignore")
def select_sets(
    mechanism: JointTopK, ranked: Ranked, likely: LikelyClasses, runs: int, rng: Rng
) -> tuple[Integers, Integers]:
    """The indices of the set, in order, and its lead in whole half steps; one row a run."""
    scale = float(mechanism.half_step_law.scale)
    winners, reaching = _reach(likely, runs, rng)
    first = rng.standard_exponential(runs) / reaching
    second = first + rng.standard_exponential(runs) / (reaching - 1)
    best, next_best = (likely.line - scale * np.log(-np.expm1(-each)) for each in (first, second))
    next_best[reaching == 1] = -np.inf  # the top set is above whatever does not reach the line
    top = likely.classes.margin(TOP_SET) + scale * rng.standard_exponential(runs)
    lost = top <= best
    leads = np.where(lost, best - np.maximum(next_best, top), top - best)
    ranks = np.tile(np.arange(mechanism.k), (runs, 1))
    if lost.any():
        ranks[lost] = draw_ranks(likely.classes, likely.numbers[winners[lost]], rng)
    return np.sort(ranked.order[ranks], axis=1), np.floor(leads).astype(np.int64)


def _reach(likely: LikelyClasses, runs: int, rng: Rng) -> tuple[Integers, Integers]:
    """For each run the class of one of the sets that reach the line, and how many these are."""
    totals = np.cumsum(likely.rates)
    marks = rng.poisson(totals[-1], runs)
    run = np.repeat(np.arange(runs), marks)
    own = np.searchsorted(totals, rng.random(run.size) * totals[-1], side="right")
    own = np.minimum(own, totals.size - 1)
    kept = _first_of_each(run, own, likely.log_sizes, rng)
    run, own = run[kept], own[kept]
    marked = np.bincount(run, minlength=runs)
    certain = likely.certain.size
    reaching = np.maximum(marked + certain, 1)
    chosen = (rng.random(runs) * reaching).astype(np.int64)
    starts = np.cumsum(marked) - marked
    every = np.append(likely.certain, own) if own.size + certain else np.zeros(1, dtype=np.int64)
    places = np.where(chosen < certain, chosen, starts + chosen)
    return every[np.minimum(places, every.size - 1)], reaching


def _first_of_each(run: Integers, own: Integers, log_sizes: Floats, rng: Rng) -> NDArray[np.bool_]:
    """Which marks are the first on their set."""
    kept = np.ones(run.size, dtype=bool)
    few = np.flatnonzero(log_sizes[own] < math.log(_CERTAINLY_APART))
    member = (rng.random(few.size) * np.rint(np.exp(log_sizes[own[few]]))).astype(np.int64)
    cells = np.stack([run[few], own[few], member])
    order = np.lexsort(cells)
    again = (cells[:, order[1:]] == cells[:, order[:-1]]).all(axis=0)
    kept[few[order[1:][again]]] = False
    return kept
