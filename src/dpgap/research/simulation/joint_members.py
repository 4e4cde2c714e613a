"""Members of classes of sets for many runs at once, on floats."""

import math

import numpy as np

from dpgap.estimates.normal import scipy_special
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.joint_kernel import Classes
from dpgap.research.simulation.floats import Rng

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


def _gammaln(places: Integers) -> Floats:
    if compiled := scipy_special():
        logs: Floats = compiled.gammaln(places)
        return logs
    return np.asarray(np.frompyfunc(math.lgamma, 1, 1)(places), dtype=np.float64)


def _log_choose(among: Integers, chosen: Integers) -> Floats:
    logs = _gammaln(among + 1) - _gammaln(chosen + 1) - _gammaln(np.maximum(among - chosen, 0) + 1)
    return np.where(among < chosen, -np.inf, logs)


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
