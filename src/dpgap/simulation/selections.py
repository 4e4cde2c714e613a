"""Many runs of a selection at once, on float noise: Noisy Top-K and Sparse Vector.

For a Top-K the largest answers are drawn and ranked in every run. The best k + 1 of them set the
bar of this run; of all other answers only those that reach the bar are drawn. The results are what
a release shows: indices, and the floors of the leads over the best loser.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.laws import Law, MemorylessLaw
from dpgap.exact.reals import Flags, Floats, Integers
from dpgap.exact.shells import ShellNoise
from dpgap.mechanisms.sparse_vector import FoundAbove, RunStates, SparseVector
from dpgap.mechanisms.top_k import NoisyTopK

# --------------------------------------------------------------------------------------------------
# Float noise for simulation: fast, seeded, not secure, and never part of a release.
#
# Two methods make simulation fast without changing any law: drawing noise *given* that it reaches a
# point, and finding the few hits among very many cells that all have the same small chance, in time
# that grows only with the hits.


Rng = np.random.Generator

_RARE = 1e-3


def draw(law: Law, rng: Rng, *shape: int) -> Floats:
    """Noise from `law`."""
    return law.from_uniforms(rng.random((law.words_per_draw, *shape)))


def draw_shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Real coordinates whose density falls with the largest alone; one row for every run.

    The largest has a gamma distribution, and the others are anywhere up to it.
    """
    points: Floats = rng.random((runs, law.dimension))
    points[np.arange(runs), rng.integers(0, law.dimension, runs)] = 1
    if law.signed:
        points *= np.where(rng.random(points.shape) < 0.5, -1.0, 1.0)
    points *= rng.gamma(law.dimension, float(law.scale), runs)[:, None]
    return points


def hits(rng: Rng, cells: int, chance: float) -> Integers:
    """The sorted indices of hits among `cells` independent cells with this chance."""
    if chance >= 1:
        return np.arange(cells)
    if chance < _RARE:
        count = int(rng.binomial(cells, chance))
        return np.sort(rng.choice(cells, count, replace=False, shuffle=False))
    places = [np.array([-1], dtype=np.int64)]
    while places[-1][-1] < cells:
        left = cells - int(places[-1][-1])
        some = int(left * chance + 6 * (left * chance) ** 0.5) + 8
        places.append(places[-1][-1] + np.cumsum(rng.geometric(chance, some)))
    found = np.concatenate(places[1:])
    return found[found < cells]


# --------------------------------------------------------------------------------------------------
# Answers in order of size, and the border after the few that matter.
#
# The *bar* of a run is the noisy value that an answer must reach to matter in it. Most answers are
# far too small for that in nearly every run, and they are not drawn one by one. Each reaches the
# bar with a known chance. So the few that do are found directly, in *strata* (groups of similar
# answers), and are given noise that reaches the bar. The law is exactly that of drawing them all.
#
# The *border* is the rank up to which every answer is drawn. It changes only the speed.


_FEW = 8.0


class Ranked(NamedTuple):
    """Answers in steps, in the order given, and in order of size."""

    answers: Integers
    order: Integers
    """Indices in the given order, largest answer first."""
    descending: Floats
    """The answers, largest first."""
    borders: Integers
    """Ranks at which a stratum may begin; each stratum is about as large as all before it."""

    @classmethod
    def of(cls, answers: Integers) -> "Ranked":
        """Rank whole numbers of steps."""
        order = np.argsort(-answers, kind="stable")
        borders = [0, 1]
        while borders[-1] < answers.size:
            borders.append(max(borders[-1] + 1, int(borders[-1] * 1.5)))
        ranks = np.array([*borders[:-1], answers.size], dtype=np.int64)
        return cls(answers, order, answers[order].astype(np.float64), ranks)

    @property
    def size(self) -> int:
        """How many answers there are."""
        return self.answers.size

    def less(self, origin: int) -> "Ranked":
        """The same answers counted from `origin`: floats are finest near zero."""
        answers = self.answers - origin
        return self._replace(answers=answers, descending=answers[self.order].astype(np.float64))

    def hits_from(self, needs: list[tuple[Law, Floats]]) -> Floats:
        """For each bar and border, an estimate of how many answers after the border reach the bar.

        The estimate is too high rather than too low. `needs` are pairs of a law that an answer is
        drawn from, and the bars that it must reach.
        """
        starts, sizes = self.borders[:-1], np.diff(self.borders)
        hits_from = np.zeros((needs[0][1].size, starts.size))
        for law, bars in needs:
            in_stratum = law.tail(bars[:, None] - self.descending[starts]) * sizes
            hits_from += in_stratum[:, ::-1].cumsum(axis=1)[:, ::-1]
        return hits_from

    def reaching(
        self, law: Law, bars: Floats, border: int, rng: Rng
    ) -> tuple[Integers, Integers, Floats]:
        """Runs, ranks and noisy values of all answers from `border` on that reach their run's bar.

        In a stratum, no answer has a higher chance than its largest answer has at the lowest bar.
        Each cell is hit with that chance, and a hit is kept with chance (its own chance) / (that
        chance).
        """
        runs, ranks, values = [], [], []
        lowest = float(bars.min())
        end = border
        strata = self.borders[np.searchsorted(self.borders, border) :].tolist()
        for first, following in pairwise(strata):
            if first < end:
                continue
            most = float(law.tail(lowest - float(self.descending[first])))
            alone = bars.size * (self.size - first) * most < _FEW
            end = self.size if alone else following  # hardly any hits are left: one last stratum
            cells = hits(rng, bars.size * (end - first), most)
            run, rank = np.divmod(cells, end - first)
            rank += first
            distance = bars[run] - self.descending[rank]
            kept = rng.random(cells.size) * most < law.tail(distance)
            runs.append(run[kept])
            ranks.append(rank[kept])
            assert isinstance(law, MemorylessLaw)  # for others, every answer is drawn
            noise = law.beyond(distance[kept], 1 - rng.random(run[kept].size))
            values.append(self.descending[rank[kept]] + noise)
        if not runs:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(runs), np.concatenate(ranks), np.concatenate(values)


# --------------------------------------------------------------------------------------------------


_AT_ONCE = 1 << 17
_COST_OF_A_HIT = 16.0
"""The cost of a hit, as a number of draws."""


def best_runs(program: NoisyTopK, ranked: Ranked, runs: int, rng: Rng) -> tuple[Integers, Floats]:
    """The indices of the best k + 1, in order, and their noisy answers; one row for each run."""
    border, cost_of_hits = _border(program, ranked, rng)
    at_once = max(1, int(_AT_ONCE / max(border, cost_of_hits)))
    parts = [
        _select(program, ranked, border, min(at_once, runs - done), rng)
        for done in range(0, runs, at_once)
    ]
    return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])


def _border(program: NoisyTopK, ranked: Ranked, rng: Rng) -> tuple[int, float]:
    """The border, and about how much the hits beyond it cost in each run.

    Only answers before the border set the bar. One trial run estimates its height.
    """
    need = min(program.k + 1, ranked.size)
    if not isinstance(program.law, MemorylessLaw) or ranked.size <= 2 * need:
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
    """A cautious bar for each border: in one run, the `need`-th best value before it."""
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
    """Indices of the largest in every row, in order."""
    some = np.argpartition(noisy, -need, axis=1)[:, -need:]
    order = np.argsort(np.take_along_axis(noisy, some, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(some, order, axis=1)


def _insert(
    ranks: Integers, values: Floats, run: Integers, new_ranks: Integers, new_values: Floats
) -> None:
    """Insert new values into the rankings of their runs; the rankings keep their length."""
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


# --------------------------------------------------------------------------------------------------
# Many runs of Sparse Vector at once, on float noise: plain, adaptive, with any branches.
#
# About a thousand runs are computed at a time. Sorted thresholds are fastest, because then
# neighbouring runs have the same near answers. Near answers are drawn in the order of the stream,
# some at a time, until every run has stopped. Of all others, only those that clear a branch are
# drawn. The results are what a release shows: floors on the grid, compared with a floored
# threshold. The code of releases decides how runs pay for answers and when they stop.


Branches = NDArray[np.int8]

_RUNS_AT_ONCE = 1_250
_CELLS_AT_ONCE = 1 << 17
_COST_OF_A_FAR_HIT = 400.0
"""The cost of a hit on a far answer, as a number of draws."""


def sift_runs(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> tuple[FoundAbove, RunStates]:
    """One run for each of `thresholds`, which replace the program's own; all in whole steps."""
    noisy = np.floor(draw(program.threshold_law, rng, thresholds.size))
    noisy += thresholds
    states = RunStates(program, noisy, max_answers)
    stream = _Stream(program, ranked, states, rng)
    starts = np.arange(0, noisy.size, _RUNS_AT_ONCE)
    borders = stream.borders(np.minimum.reduceat(noisy, starts))
    parts = [
        stream.block(slice(start, start + _RUNS_AT_ONCE), border)
        for start, border in zip(starts.tolist(), borders.tolist(), strict=True)
    ]
    above = FoundAbove(*map(np.concatenate, zip(*parts, strict=True)))
    np.floor(above.gaps, out=above.gaps)
    return above, states


class _Stream(NamedTuple):
    """A Sparse Vector, its stream of answers, and its runs."""

    program: SparseVector
    ranked: Ranked
    states: RunStates
    rng: Rng

    def borders(self, thresholds: Floats) -> Integers:
        """The borders for blocks with these lowest thresholds.

        Each border has the least cost. It is at least 1, so the largest answer is always drawn.
        """
        ranked, branches = self.ranked, self.program.every_branch
        if not all(isinstance(branch.law, MemorylessLaw) for branch in branches):
            return np.full(thresholds.size, ranked.size)
        needs = [(branch.law, thresholds + float(branch.margin)) for branch in branches]
        starts = ranked.borders[:-1]
        cost = starts + _COST_OF_A_FAR_HIT * ranked.hits_from(needs)
        cost[:, 0] = np.inf
        cheapest = starts[cost.argmin(axis=1)]
        return np.where(cost.min(axis=1) < ranked.size, cheapest, ranked.size)

    def block(self, runs: slice, border: int) -> FoundAbove:
        """Take neighbouring runs through the whole stream."""
        thresholds = self.states.thresholds[runs]
        far = self._far(thresholds, border)
        near = np.sort(self.ranked.order[:border])
        every = np.arange(runs.start, runs.start + thresholds.size)
        return FoundAbove.joined(list(self._sift(every, near, far)))

    def _far(self, thresholds: Floats, border: int) -> FoundAbove:
        """Answers from `border` on that clear a branch; dearer branches first."""
        parts = []
        for branch in reversed(self.program.every_branch):
            bars = thresholds + float(branch.margin)
            runs, ranks, values = self.ranked.reaching(branch.law, bars, border, self.rng)
            branches = np.full(runs.size, branch.number, dtype=np.int8)
            found = self.ranked.order[ranks]
            parts.append(FoundAbove(runs, found, branches, values - thresholds[runs]))
        return FoundAbove(*map(np.concatenate, zip(*parts, strict=True)))

    def _sift(self, runs: Integers, near: Integers, far: FoundAbove) -> Iterator[FoundAbove]:
        asked = np.union1d(near, far.indices) if far.runs.size else near
        first, at = int(runs[0]), 0
        while at < asked.size and runs.size:
            size = max(1, _CELLS_AT_ONCE // runs.size)
            some = asked[at : at + size]
            at += size
            thresholds = self.states.thresholds[runs]
            branches, gaps = _clear(self.program, self.ranked.answers[some], thresholds, self.rng)
            if far.runs.size:
                _put(far, runs - first, some, np.isin(some, near), branches, gaps)
            yield self.states.judge(runs, some, branches, gaps)
            runs = runs[self.states.going(runs)]


def _clear(
    program: SparseVector, answers: Integers, thresholds: Floats, rng: Rng
) -> tuple[Branches, Floats]:
    """Try the branches in turn on answers that cleared none before; one row for each run."""
    over = answers.astype(np.float64) - thresholds[:, None]
    gaps = draw(program.every_branch[0].law, rng, *over.shape)
    gaps += over
    branches = (gaps >= float(program.every_branch[0].margin)).view(np.int8)
    for branch in program.every_branch[1:]:
        left = np.flatnonzero(branches == 0)
        again = draw(branch.law, rng, left.size)
        again += over.ravel()[left]
        clears = np.flatnonzero(again >= float(branch.margin))
        left = left[clears]
        branches.ravel()[left] = branch.number
        gaps.ravel()[left] = again[clears]
    return branches, gaps


def _put(
    far: FoundAbove, runs: Integers, some: Integers, near: Flags, branches: Branches, gaps: Floats
) -> None:
    """Far answers get the outcome "not above"; the few that clear a branch, branch and gap."""
    branches[:, ~near] = 0
    row, column = np.searchsorted(runs, far.runs), np.searchsorted(some, far.indices)
    known = (row < runs.size) & (column < some.size)
    known[known] = (runs[row[known]] == far.runs[known]) & (
        some[column[known]] == far.indices[known]
    )
    # The cheapest branch that an answer clears is written last, and stays.
    branches[row[known], column[known]] = far.branches[known]
    gaps[row[known], column[known]] = far.gaps[known]
