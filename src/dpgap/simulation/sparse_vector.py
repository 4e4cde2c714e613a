"""Many runs of Sparse Vector at once, on float noise: plain, adaptive, with any branches.

About a thousand runs are taken at a time. Thresholds that come in order of size make it fastest:
runs side by side then agree on which answers are near. Near answers are drawn in the order of the
stream, as many at a time as a run needs, until every run has stopped. Of all others only those that
clear a branch are looked at. What comes out is what a release shows: floors on the grid, against a
floored threshold.

Branches are tried cheapest first, and those still alive are always the cheapest ones. So all that
matters of an answer is the first branch that it clears.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.laws import MemorylessLaw
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.simulation.floats import Rng, draw
from dpgap.simulation.top_k import Ranked

# --------------------------------------------------------------------------------------------------
# How far each simulated run of a Sparse Vector has come, and what it says of the next answers.


Flags = NDArray[np.bool_]
Branches = NDArray[np.int8]


class FoundAbove(NamedTuple):
    """Answers found above by some runs, run by run, and how many these had found before."""

    runs: Integers
    counts: Integers
    before: Integers
    indices: Integers
    branches: Branches
    gaps: Floats


class RunStates:
    """How far each run has come; `thresholds` are noisy."""

    def __init__(self, program: SparseVector, thresholds: Floats, max_answers: int | None) -> None:
        # A run that drains goes on with cheap branches when dear ones can no longer be paid.
        # Otherwise all branches end at once, and one level is left.
        self._levels = [
            (live, limit)
            for live, limit in enumerate(program.limits, start=1)
            if limit not in program.limits[live:]
        ][::-1]
        self._most = max_answers
        self.thresholds = thresholds
        self.used = np.zeros(thresholds.size, dtype=np.int64)
        self.found = np.zeros(thresholds.size, dtype=np.int64)
        self.last = np.full(thresholds.size, -1, dtype=np.int64)

    def going(self, runs: Integers | slice) -> Flags:
        """Which of these runs still take answers."""
        going: Flags = self.used[runs] <= self._levels[-1][1]
        if self._most is not None:
            going &= self.found[runs] < self._most
        return going

    def processed(self, size: int) -> Integers:
        """How many of all `size` answers each run has looked at, once all have been taken."""
        return np.where(self.going(slice(None)), size, self.last + 1)

    def take(
        self, runs: Integers, indices: Integers, branches: Branches, gaps: Floats
    ) -> FoundAbove:
        """What these runs find above among the next answers; one row a run."""
        before = self.found[runs]
        said = self._charge(runs, branches)
        places = np.flatnonzero(said)
        counts = self.found[runs] - before
        columns = places - np.repeat(np.arange(runs.size) * indices.size, counts)
        found = indices[columns]
        some = np.flatnonzero(counts)
        self.last[runs[some]] = found[counts.cumsum()[some] - 1]
        over = gaps.ravel()[places]
        np.floor(over, out=over)
        return FoundAbove(runs, counts, before, found, branches.ravel()[places], over)

    def _charge(self, runs: Integers, branches: Branches) -> Flags:
        """Charge for the answers that are above, and say which they are.

        Outcomes are final up to where a branch can no longer be paid. From there on they are
        looked at again, with the branches that are left.
        """
        said, ahead = self._charge_up_to(runs, branches, self._levels[0][1])
        for live, limit in self._levels[1:]:
            late = np.flatnonzero(ahead.any(axis=0))
            if not late.size:
                break
            rest = np.s_[:, late[0] :]
            alive = branches[rest] * (ahead[rest] & (branches[rest] <= live))
            more, now = self._charge_up_to(runs, alive, limit)
            said[rest] |= more
            ahead[rest] &= now
        return said

    def _charge_up_to(self, runs: Integers, branches: Branches, limit: int) -> tuple[Flags, Flags]:
        """Charge for the answers that cleared a branch in time; say which, and which came late."""
        hit = branches > 0
        # A branch charges twice what the one before does, and the first one a single unit.
        units = branches.astype(np.int64)
        np.left_shift(1, units, out=units)
        units >>= 1
        before = units.cumsum(axis=1)
        before -= units
        before += self.used[runs][:, None]
        late = before > limit
        if self._most is not None:
            late |= hit.cumsum(axis=1) - hit + self.found[runs][:, None] >= self._most
        said = hit & ~late
        units *= said
        self.used[runs] += units.sum(axis=1)
        self.found[runs] += np.count_nonzero(said, axis=1)
        return said, late


# --------------------------------------------------------------------------------------------------


_RUNS_AT_ONCE = 1_250
_FEWEST_RUNS = 16
_FEW_FAR = 64
_CELLS_AT_ONCE = 1 << 17
_COST_OF_A_FAR_HIT = 400.0
"""In draws."""


Answers = tuple[Integers, Branches, Floats]
"""Indices, branches and gaps, in whole steps, of answers above, run by run in the order asked."""


class _Far(NamedTuple):
    """Answers beyond the border that clear a branch: in which run, which one, and how."""

    runs: Integers
    indices: Integers
    branches: Branches
    gaps: Floats

    def among(self, first: int, end: int) -> "_Far":
        """Those of some neighbouring runs, counted from the first of these."""
        kept = (self.runs >= first) & (self.runs < end)
        runs, indices, branches, gaps = self
        return _Far(runs[kept] - first, indices[kept], branches[kept], gaps[kept])


def sift_runs(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> tuple[Answers, RunStates]:
    """One run for each of `thresholds`, which replace the program's own; all in whole steps."""
    noisy = np.floor(draw(program.threshold_law, rng, thresholds.size))
    noisy += thresholds
    states = RunStates(program, noisy, max_answers)
    stream = _Stream(program, ranked, states, rng)
    starts = np.arange(0, noisy.size, _RUNS_AT_ONCE)
    borders = stream.borders(np.minimum.reduceat(noisy, starts))
    parts = [
        stream.block(slice(start, start + _RUNS_AT_ONCE), border)
        for start, border in zip(starts.tolist(), borders, strict=True)
    ]
    indices, branches, gaps = map(np.concatenate, zip(*parts, strict=True))
    return (indices, branches, gaps), states


class _Stream(NamedTuple):
    """A Sparse Vector, the answers that it is asked about, and the runs that ask."""

    program: SparseVector
    ranked: Ranked
    states: RunStates
    rng: Rng

    def borders(self, thresholds: Floats) -> list[int]:
        """Where drawing every answer ends, for blocks with these lowest thresholds."""
        ways = self.program.ways
        if not all(isinstance(way.law, MemorylessLaw) for way in ways):
            return [self.ranked.size] * thresholds.size
        needs = [(way.law, thresholds + float(way.margin)) for way in ways]
        return self.ranked.border(needs, _COST_OF_A_FAR_HIT)

    def block(self, runs: slice, border: int) -> Answers:
        """Take neighbouring runs through the whole stream: indices, branches, gaps, run by run."""
        thresholds = self.states.thresholds[runs]
        far = self._far(thresholds, border)
        near = np.sort(self.ranked.order[:border])
        parts = list(self._divide(runs.start, thresholds.size, near, far))
        if len(parts) == 1:
            return parts[0][3:]
        # Every answer's place: where its run starts, and how many came before it there.
        counts = self.states.found[runs]
        starts = counts.cumsum() - counts
        total = int(counts.sum())
        indices, gaps = np.empty(total, dtype=np.int64), np.empty(total)
        branches = np.empty(total, dtype=np.int8)
        for part in parts:
            ahead = part.counts.cumsum() - part.counts
            places = np.repeat(starts[part.runs - runs.start] + part.before - ahead, part.counts)
            places += np.arange(places.size)
            indices[places], branches[places], gaps[places] = part[3:]
        return indices, branches, gaps

    def _far(self, thresholds: Floats, border: int) -> _Far:
        """Answers from `border` on that clear a branch; dearer branches first."""
        parts = []
        for way in reversed(self.program.ways):
            bars = thresholds + float(way.margin)
            runs, ranks, values = self.ranked.reaching(way.law, bars, border, self.rng)
            branches = np.full(runs.size, way.number, dtype=np.int8)
            found = self.ranked.order[ranks]
            parts.append(_Far(runs, found, branches, values - thresholds[runs]))
        return parts[0] if len(parts) == 1 else _Far(*map(np.concatenate, zip(*parts, strict=True)))

    def _divide(self, first: int, runs: int, near: Integers, far: _Far) -> Iterator[FoundAbove]:
        """As many runs together as have few far answers between them."""
        if far.runs.size > near.size + _FEW_FAR and runs > _FEWEST_RUNS:
            half = runs // 2
            for start, size in ((0, half), (half, runs - half)):
                part = far.among(start, start + size)
                yield from self._divide(first + start, size, near, part)
            return
        yield from self._sift(np.arange(first, first + runs), near, far)

    def _sift(self, runs: Integers, near: Integers, far: _Far) -> Iterator[FoundAbove]:
        asked = np.union1d(near, far.indices) if far.runs.size else near
        first, at = int(runs[0]), 0
        while at < asked.size and runs.size:
            size = self._chunk(self.ranked.answers[asked[at:]], runs)
            some = asked[at : at + size]
            at += size
            thresholds = self.states.thresholds[runs]
            branches, gaps = _clear(self.program, self.ranked.answers[some], thresholds, self.rng)
            if far.runs.size:
                _put(far, runs - first, some, np.isin(some, near), branches, gaps)
            yield self.states.take(runs, some, branches, gaps)
            runs = runs[self.states.going(runs)]

    def _chunk(self, answers: Integers, runs: Integers) -> int:
        """About as many answers as a run needs before it stops, were there no noise."""
        most = max(1, _CELLS_AT_ONCE // runs.size)
        over = answers[:most] - self.states.thresholds[runs].max()
        units = np.zeros(over.size, dtype=np.int64)
        for way in reversed(self.program.ways):
            units[over >= float(way.margin)] = way.units
        left = self.program.limits[0] - int(self.states.used[runs].min())
        return min(most, int(np.searchsorted(units.cumsum(), left, side="right")) + 2)


def _clear(
    program: SparseVector, answers: Integers, thresholds: Floats, rng: Rng
) -> tuple[Branches, Floats]:
    """Try every branch in turn on whatever has not cleared one before; one row a run."""
    over = answers.astype(np.float64) - thresholds[:, None]
    gaps = draw(program.ways[0].law, rng, *over.shape)
    gaps += over
    branches = (gaps >= float(program.ways[0].margin)).view(np.int8)
    for way in program.ways[1:]:
        left = np.flatnonzero(branches == 0)
        again = draw(way.law, rng, left.size)
        again += over.ravel()[left]
        clears = np.flatnonzero(again >= float(way.margin))
        left = left[clears]
        branches.ravel()[left] = way.number
        gaps.ravel()[left] = again[clears]
    return branches, gaps


def _put(
    far: _Far, runs: Integers, some: Integers, near: Flags, branches: Branches, gaps: Floats
) -> None:
    """Replace what was drawn for far answers by the few that clear a branch."""
    branches[:, ~near] = 0
    row, column = np.searchsorted(runs, far.runs), np.searchsorted(some, far.indices)
    known = (row < runs.size) & (column < some.size)
    known[known] = (runs[row[known]] == far.runs[known]) & (
        some[column[known]] == far.indices[known]
    )
    # The cheapest branch that an answer clears comes last, and stays.
    branches[row[known], column[known]] = far.branches[known]
    gaps[row[known], column[known]] = far.gaps[known]
