"""Many runs of a selection at once, on float noise: Noisy Top-K and Sparse Vector.

For a Top-K the largest answers are drawn and ranked in every run. The best k + 1 of them set the
bar of this run; of all other answers only those that reach the bar are drawn. The results are what
a release shows: indices, and the floors of the leads over the best loser.

Two methods make simulation fast without changing any law: drawing noise *given* that it reaches a
point, and finding the few hits among very many cells that all have the same small chance, in time
that grows only with the hits.

The *bar* of a run is the noisy value that an answer must reach to matter in it. Most answers are
far too small for that in nearly every run, and they are not drawn one by one. Each reaches the bar
with a known chance. So the few that do are found directly, in *strata* (groups of similar answers),
and are given noise that reaches the bar. The law is exactly that of drawing them all. The *border*
is the rank up to which every answer is drawn. It changes only the speed.
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

Rng = np.random.Generator

_RARE = 1e-3


def draw(law: Law, rng: Rng, *shape: int) -> Floats:
    """Float noise from `law`: fast, seeded, not secure, and never part of a release."""
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
    last = -1
    parts = []
    while last < cells:
        expected = (cells - last) * chance
        count = int(expected + 6 * expected**0.5) + 8
        part = last + np.cumsum(rng.geometric(chance, count))
        parts.append(part)
        last = int(part[-1])
    indices = np.concatenate(parts)
    return indices[indices < cells]


_FEW_HITS = 8.0
"""If fewer hits are expected from here on, all further answers are one stratum."""


class RankedAnswers(NamedTuple):
    """Answers in steps, in the order given, and in order of size."""

    answers: Integers
    order: Integers
    """Indices in the given order, largest answer first."""
    descending: Floats
    """The answers, largest first."""
    borders: Integers
    """Ranks at which a stratum may begin; each stratum is about as large as all before it."""

    @classmethod
    def of(cls, answers: Integers) -> "RankedAnswers":
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

    def less(self, origin: int) -> "RankedAnswers":
        """The same answers counted from `origin`: floats are finest near zero."""
        answers = self.answers - origin
        return self._replace(answers=answers, descending=answers[self.order].astype(np.float64))

    def hits_from(self, needs: list[tuple[Law, Floats]]) -> Floats:
        """For each bar and border, an estimate of how many answers after the border reach the bar.

        The estimate is too high rather than too low. `needs` are pairs of a law that an answer is
        drawn from, and the bars that it must reach.
        """
        starts = self.borders[:-1]
        sizes = np.diff(self.borders)
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
        runs = []
        ranks = []
        values = []
        lowest = float(bars.min())
        end = border
        strata = self.borders[np.searchsorted(self.borders, border) :].tolist()
        for first, following in pairwise(strata):
            if first < end:
                continue
            highest_chance = float(law.tail(lowest - float(self.descending[first])))
            end = following
            if bars.size * (self.size - first) * highest_chance < _FEW_HITS:
                end = self.size
            cells = hits(rng, bars.size * (end - first), highest_chance)
            run, rank = np.divmod(cells, end - first)
            rank += first
            distance = bars[run] - self.descending[rank]
            reaches = rng.random(cells.size) * highest_chance < law.tail(distance)
            runs.append(run[reaches])
            ranks.append(rank[reaches])
            assert isinstance(law, MemorylessLaw)  # for others, every answer is drawn
            noise = law.beyond(distance[reaches], 1 - rng.random(runs[-1].size))
            values.append(self.descending[ranks[-1]] + noise)
        if not runs:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(runs), np.concatenate(ranks), np.concatenate(values)


_AT_ONCE = 1 << 17
_COST_OF_A_HIT = 16.0
"""The cost of a hit, as a number of draws."""


def best_runs(
    program: NoisyTopK, ranked: RankedAnswers, runs: int, rng: Rng
) -> tuple[Integers, Floats]:
    """The indices of the best k + 1, in order, and their noisy answers; one row for each run."""
    border, cost_of_hits = _border(program, ranked, rng)
    at_once = max(1, int(_AT_ONCE / max(border, cost_of_hits)))
    indices = []
    values = []
    for done in range(0, runs, at_once):
        part = _select(program, ranked, border, min(at_once, runs - done), rng)
        indices.append(part[0])
        values.append(part[1])
    return np.concatenate(indices), np.concatenate(values)


def _border(program: NoisyTopK, ranked: RankedAnswers, rng: Rng) -> tuple[int, float]:
    """The border, and about how much the hits beyond it cost in each run.

    Only answers before the border set the bar. One trial run estimates its height.
    """
    need = min(program.k + 1, ranked.size)
    if not isinstance(program.law, MemorylessLaw) or ranked.size <= 2 * need:
        return ranked.size, 0.0
    starts = ranked.borders[:-1]
    strata = np.flatnonzero(starts >= need)
    if not strata.size:
        return ranked.size, 0.0
    borders = starts[strata]
    bars = _bars(program, ranked, need, borders, rng)
    hits = ranked.hits_from([(program.law, bars)])[np.arange(strata.size), strata]
    cost = borders + _COST_OF_A_HIT * hits
    cheapest = int(cost.argmin())
    if cost[cheapest] >= ranked.size:
        return ranked.size, 0.0
    return int(borders[cheapest]), _COST_OF_A_HIT * float(hits[cheapest])


def _bars(
    program: NoisyTopK, ranked: RankedAnswers, need: int, borders: Integers, rng: Rng
) -> Floats:
    """A cautious bar for each border: in one run, the `need`-th best value before it."""
    noisy = ranked.descending + draw(program.law, rng, ranked.size)
    best = np.empty(0)
    bars = []
    for first, end in pairwise([0, *borders.tolist()]):
        best = np.append(best, noisy[first:end])
        best = np.partition(best, -need)[-need:]
        bars.append(best[0])
    return np.array(bars) - float(program.law.scale)


def _select(
    program: NoisyTopK, ranked: RankedAnswers, border: int, runs: int, rng: Rng
) -> tuple[Integers, Floats]:
    need = min(program.k + 1, ranked.size)
    noisy = draw(program.law, rng, runs, border)
    noisy += ranked.descending[:border]
    ranks = _best(noisy, need)
    values = np.take_along_axis(noisy, ranks, axis=1)
    if border < ranked.size:
        run, hit_ranks, hit_values = ranked.reaching(program.law, values[:, -1], border, rng)
        _insert(ranks, values, run, hit_ranks, hit_values)
    return ranked.order[ranks], values


def _best(noisy: Floats, need: int) -> Integers:
    """Indices of the largest in every row, in order."""
    largest = np.argpartition(noisy, -need, axis=1)[:, -need:]
    order = np.argsort(np.take_along_axis(noisy, largest, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(largest, order, axis=1)


def _insert(
    ranks: Integers, values: Floats, run: Integers, new_ranks: Integers, new_values: Floats
) -> None:
    """Insert new values into the rankings of their runs; the rankings keep their length."""
    order = np.argsort(run, kind="stable")
    touched, first, count = np.unique(run[order], return_index=True, return_counts=True)
    if not touched.size:
        return
    length = ranks.shape[1]
    row = np.repeat(np.arange(touched.size), count)
    column = length + np.arange(run.size) - np.repeat(first, count)
    wide_values = np.full((touched.size, length + int(count.max())), -np.inf)
    wide_values[:, :length] = values[touched]
    wide_values[row, column] = new_values[order]
    wide_ranks = np.zeros(wide_values.shape, dtype=np.int64)
    wide_ranks[:, :length] = ranks[touched]
    wide_ranks[row, column] = new_ranks[order]
    best = np.argsort(-wide_values, axis=1)[:, :length]
    values[touched] = np.take_along_axis(wide_values, best, axis=1)
    ranks[touched] = np.take_along_axis(wide_ranks, best, axis=1)


Branches = NDArray[np.int8]

_RUNS_AT_ONCE = 1_250
_CELLS_AT_ONCE = 1 << 17
_COST_OF_A_FAR_HIT = 400.0
"""The cost of a hit on a far answer, as a number of draws."""


def sift_runs(
    program: SparseVector,
    ranked: RankedAnswers,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> tuple[FoundAbove, RunStates]:
    """One run for each of `thresholds`, which replace the program's own; all in whole steps.

    About a thousand runs are computed at a time. Sorted thresholds are fastest, because then
    neighbouring runs have the same near answers. Near answers are drawn in the order of the stream,
    some at a time, until every run has stopped. Of all others, only those that clear a branch are
    drawn. The results are what a release shows: floors on the grid, compared with a floored
    threshold. The code of releases decides how runs pay for answers and when they stop.
    """
    noisy = np.floor(draw(program.threshold_law, rng, thresholds.size))
    noisy += thresholds
    states = RunStates(program, noisy, max_answers)
    stream = _Stream(program, ranked, states, rng)
    starts = np.arange(0, noisy.size, _RUNS_AT_ONCE)
    borders = stream.borders(np.minimum.reduceat(noisy, starts))
    parts = []
    for start, border in zip(starts.tolist(), borders.tolist(), strict=True):
        runs = slice(start, start + _RUNS_AT_ONCE)
        parts.append(stream.block(runs, border))
    above = _concatenated(parts)
    np.floor(above.gaps, out=above.gaps)
    return above, states


def _concatenated(parts: list[FoundAbove]) -> FoundAbove:
    """The parts one after another; `FoundAbove.joined` sorts them."""
    return FoundAbove(*map(np.concatenate, zip(*parts, strict=True)))


class _Stream(NamedTuple):
    """A Sparse Vector, its stream of answers, and its runs."""

    program: SparseVector
    ranked: RankedAnswers
    states: RunStates
    rng: Rng

    def borders(self, thresholds: Floats) -> Integers:
        """The borders for blocks with these lowest thresholds.

        Each border has the least cost. It is at least 1, so the largest answer is always drawn.
        """
        ranked = self.ranked
        branches = self.program.every_branch
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
        numbers = np.arange(runs.start, runs.start + thresholds.size)
        return FoundAbove.joined(list(self._sift(numbers, near, far)))

    def _far(self, thresholds: Floats, border: int) -> FoundAbove:
        """Answers from `border` on that clear a branch; dearer branches first."""
        parts = []
        for branch in reversed(self.program.every_branch):
            bars = thresholds + float(branch.margin)
            runs, ranks, values = self.ranked.reaching(branch.law, bars, border, self.rng)
            branches = np.full(runs.size, branch.number, dtype=np.int8)
            indices = self.ranked.order[ranks]
            parts.append(FoundAbove(runs, indices, branches, values - thresholds[runs]))
        return _concatenated(parts)

    def _sift(self, runs: Integers, near: Integers, far: FoundAbove) -> Iterator[FoundAbove]:
        stream = near
        if far.runs.size:
            stream = np.union1d(near, far.indices)
        first_run = int(runs[0])
        processed = 0
        while processed < stream.size and runs.size:
            size = max(1, _CELLS_AT_ONCE // runs.size)
            indices = stream[processed : processed + size]
            processed += size
            answers = self.ranked.answers[indices]
            branches, gaps = _clear(self.program, answers, self.states.thresholds[runs], self.rng)
            if far.runs.size:
                _put(far, runs - first_run, indices, np.isin(indices, near), branches, gaps)
            yield self.states.judge(runs, indices, branches, gaps)
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
        below = np.flatnonzero(branches == 0)
        gaps_of_branch = draw(branch.law, rng, below.size)
        gaps_of_branch += over.ravel()[below]
        clears = np.flatnonzero(gaps_of_branch >= float(branch.margin))
        cleared = below[clears]
        branches.ravel()[cleared] = branch.number
        gaps.ravel()[cleared] = gaps_of_branch[clears]
    return branches, gaps


def _put(
    far: FoundAbove,
    runs: Integers,
    indices: Integers,
    near: Flags,
    branches: Branches,
    gaps: Floats,
) -> None:
    """Far answers get the outcome "not above"; the few that clear a branch, branch and gap."""
    branches[:, ~near] = 0
    row = np.searchsorted(runs, far.runs)
    column = np.searchsorted(indices, far.indices)
    cells = np.flatnonzero((row < runs.size) & (column < indices.size))
    is_run = runs[row[cells]] == far.runs[cells]
    is_index = indices[column[cells]] == far.indices[cells]
    cells = cells[is_run & is_index]
    # The cheapest branch that an answer clears is written last, and stays.
    branches[row[cells], column[cells]] = far.branches[cells]
    gaps[row[cells], column[cells]] = far.gaps[cells]
