"""Many runs of Noisy Top-K at once, on float noise.

The largest answers are drawn and ranked in every run. The best k + 1 of them set that run's bar;
of all other answers only those that reach it are looked at. What comes out is what a release
shows: indices, and the floors of the leads over the best loser.
"""

from itertools import pairwise

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.research.simulation.floats import Rng, draw, has_known_tail
from dpgap.research.simulation.ranked import Ranked

_AT_ONCE = 1 << 17
_COST_OF_A_HIT = 16.0
"""In draws."""
_FEW_OF = 16


def select_runs(
    program: NoisyTopK, ranked: Ranked, runs: int, rng: Rng
) -> tuple[Integers, Integers]:
    """Indices, best first, and leads in whole steps; one row a run."""
    last = min(program.k, ranked.size - 1)
    places, values = best_runs(program, ranked, runs, rng)
    leads = np.floor(values[:, :last] - values[:, last : last + 1]).astype(np.int64)
    return places[:, : program.k], leads


def best_runs(program: NoisyTopK, ranked: Ranked, runs: int, rng: Rng) -> tuple[Integers, Floats]:
    """The places of the best k + 1, in order, and their noisy answers; one row a run."""
    border, cost_of_hits = _border(program, ranked, rng)
    at_once = max(1, int(_AT_ONCE / max(border, cost_of_hits)))
    parts = [
        _select(program, ranked, border, min(at_once, runs - done), rng)
        for done in range(0, runs, at_once)
    ]
    return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])


def _border(program: NoisyTopK, ranked: Ranked, rng: Rng) -> tuple[int, float]:
    """Where drawing every answer ends, and about how much the hits beyond it cost a run.

    Only answers before the border set the bar. One trial run says how high it may be.
    """
    need = min(program.k + 1, ranked.size)
    if not has_known_tail(program.law) or ranked.size <= 2 * need:
        return ranked.size, 0.0
    starts = ranked.borders[:-1]
    tried = np.flatnonzero(starts >= need)
    if not tried.size:
        return ranked.size, 0.0
    bars = _bars(program, ranked, need, starts[tried], rng)
    hits = ranked.hits_from([(program.law, bars)])[np.arange(tried.size), tried]
    cost = starts[tried] + _COST_OF_A_HIT * hits
    best = int(cost.argmin())
    if cost[best] >= ranked.size:
        return ranked.size, 0.0
    return int(starts[tried[best]]), _COST_OF_A_HIT * float(hits[best])


def _bars(program: NoisyTopK, ranked: Ranked, need: int, borders: Integers, rng: Rng) -> Floats:
    """A cautious bar for each border: what the last of the best before it had in one run."""
    noisy = ranked.descending + draw(program.law, rng, ranked.size)
    best, bars = np.empty(0), []
    for first, end in pairwise([0, *borders.tolist()]):
        best = np.append(best, noisy[first:end])
        best = np.partition(best, -need)[-need:]
        bars.append(best[0])
    return np.array(bars) - float(program.law.scale)


def _select(
    program: NoisyTopK, ranked: Ranked, border: int, runs: int, rng: Rng
) -> tuple[Integers, Floats]:
    need = min(program.k + 1, ranked.size)
    noisy = draw(program.law, rng, runs, border)
    noisy += ranked.descending[:border]
    ranks = _best(noisy, need)
    values = np.take_along_axis(noisy, ranks, axis=1)
    if border < ranked.size:
        reached = ranked.reaching(program.law, values[:, -1], border, rng)
        _insert(ranks, values, *reached)
    return ranked.order[ranks], values


def _best(noisy: Floats, need: int) -> Integers:
    """Places of the largest in every row, in order; where they are few, the rest is not sorted."""
    if noisy.shape[1] < _FEW_OF * need:
        return np.argsort(noisy, axis=1)[:, : -need - 1 : -1]
    some = np.argpartition(noisy, -need, axis=1)[:, -need:]
    order = np.argsort(np.take_along_axis(noisy, some, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(some, order, axis=1)


def _insert(
    ranks: Integers, values: Floats, run: Integers, new_ranks: Integers, new_values: Floats
) -> None:
    """Let newcomers take their places in the rankings of their runs, which keep their length."""
    order = np.argsort(run, kind="stable")
    run, new_ranks, new_values = run[order], new_ranks[order], new_values[order]
    touched, first, count = np.unique(run, return_index=True, return_counts=True)
    if not touched.size:
        return
    length = ranks.shape[1]
    wide_values = np.full((touched.size, length + int(count.max())), -np.inf)
    wide_ranks = np.zeros(wide_values.shape, dtype=np.int64)
    wide_values[:, :length], wide_ranks[:, :length] = values[touched], ranks[touched]
    row = np.repeat(np.arange(touched.size), count)
    column = length + np.arange(run.size) - np.repeat(first, count)
    wide_values[row, column], wide_ranks[row, column] = new_values, new_ranks
    best = np.argsort(-wide_values, axis=1)[:, :length]
    values[touched] = np.take_along_axis(wide_values, best, axis=1)
    ranks[touched] = np.take_along_axis(wide_ranks, best, axis=1)
