"""Many runs of Sparse Vector at once, on float noise: plain, adaptive, with any branches.

Runs are taken in order of their thresholds, about a thousand at a time, so that those side by side
agree on which answers are near. Near answers are drawn in the order of the stream, as many at a
time as a run needs, until every run has stopped; of all others only those that clear a branch are
looked at. What comes out is what a release shows: floors on the grid, against a floored threshold.

Branches are tried cheapest first, and those still alive are always the cheapest ones. So all that
matters of an answer is the first branch that it clears.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.draws import Floats, Integers
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.research.simulation.floats import Rng, draw, has_known_tail
from dpgap.research.simulation.ranked import Ranked

_RUNS_AT_ONCE = 1_250
_FEWEST_RUNS = 16
_FEW_FAR = 64
_CELLS_AT_ONCE = 1 << 17
_COST_OF_A_FAR_HIT = 400.0

Flags = NDArray[np.bool_]
Branches = NDArray[np.int8]


class SiftedRuns(NamedTuple):
    """The answers found above, run by run in the order asked, and the state of each run."""

    indices: Integers
    branches: Branches
    gaps: Floats
    """Whole steps."""
    found: Integers
    used: Integers
    processed: Integers


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


class _Found(NamedTuple):
    """Answers found above by some runs, run by run, and how many these had found before."""

    runs: Integers
    counts: Integers
    before: Integers
    indices: Integers
    branches: Branches
    gaps: Floats


def sift_runs(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> SiftedRuns:
    """One run for each of `thresholds`, which replace the program's own; all in whole steps."""
    order = _sorted_order(thresholds)
    noisy = np.floor(draw(program.threshold_law, rng, thresholds.size))
    noisy += thresholds[order]
    state = _State(program, noisy, max_answers)
    starts = np.arange(0, noisy.size, _RUNS_AT_ONCE)
    borders = _borders(program, ranked, np.minimum.reduceat(noisy, starts))
    parts = [
        _block(program, ranked, state, slice(start, start + _RUNS_AT_ONCE), border, rng)
        for start, border in zip(starts.tolist(), borders, strict=True)
    ]
    indices, branches, gaps = map(np.concatenate, zip(*parts, strict=True))
    processed = np.where(state.going(slice(None)), ranked.size, state.last + 1)
    sifted = SiftedRuns(indices, branches, gaps, state.found, state.used, processed)
    return sifted if isinstance(order, slice) else _in_order(sifted, order)


def _sorted_order(thresholds: Integers) -> Integers | slice:
    """The runs in order of their thresholds; all of them as they are, if they are in order."""
    steps = np.diff(thresholds)
    return slice(None) if (steps >= 0).all() or (steps <= 0).all() else np.argsort(thresholds)


def _in_order(sifted: SiftedRuns, order: Integers) -> SiftedRuns:
    """Runs as they were numbered before their thresholds were sorted."""
    place = np.argsort(order)
    counts = sifted.found[place]
    starts = (sifted.found.cumsum() - sifted.found)[place]
    answers = np.repeat(starts - (counts.cumsum() - counts), counts)
    answers += np.arange(answers.size)
    return SiftedRuns(
        *(each[answers] for each in sifted[:3]), *(each[place] for each in sifted[3:])
    )


_Answers = tuple[Integers, Branches, Floats]


def _block(
    program: SparseVector, ranked: Ranked, state: "_State", runs: slice, border: int, rng: Rng
) -> _Answers:
    """Take neighbouring runs through the whole stream: indices, branches, gaps, run by run."""
    far = _far(program, ranked, state.thresholds[runs], border, rng)
    near = np.sort(ranked.order[:border])
    size = state.thresholds[runs].size
    parts = list(_divided(program, ranked, state, runs.start, near, far, size, rng))
    if len(parts) == 1:
        return parts[0][3:]
    # Every answer's place: where its run starts, and how many came before it there.
    counts = state.found[runs]
    starts = counts.cumsum() - counts
    total = int(counts.sum())
    indices, gaps = np.empty(total, dtype=np.int64), np.empty(total)
    branches = np.empty(total, dtype=np.int8)
    for part in parts:
        first = starts[part.runs - runs.start] + part.before - (part.counts.cumsum() - part.counts)
        places = np.repeat(first, part.counts)
        places += np.arange(places.size)
        indices[places], branches[places], gaps[places] = part[3:]
    return indices, branches, gaps


def _divided(
    program: SparseVector,
    ranked: Ranked,
    state: "_State",
    first: int,
    near: Integers,
    far: _Far,
    runs: int,
    rng: Rng,
) -> Iterator[_Found]:
    """As many runs together as have few far answers between them."""
    if far.runs.size > near.size + _FEW_FAR and runs > _FEWEST_RUNS:
        half = runs // 2
        for start, size in ((0, half), (half, runs - half)):
            part = far.among(start, start + size)
            yield from _divided(program, ranked, state, first + start, near, part, size, rng)
        return
    yield from _sift(program, ranked, state, np.arange(first, first + runs), near, far, rng)


def _sift(
    program: SparseVector,
    ranked: Ranked,
    state: "_State",
    runs: Integers,
    near: Integers,
    far: _Far,
    rng: Rng,
) -> Iterator[_Found]:
    stream = np.union1d(near, far.indices) if far.runs.size else near
    first, at = int(runs[0]), 0
    while at < stream.size and runs.size:
        size = _chunk(program, ranked.answers[stream[at:]], state, runs)
        some = stream[at : at + size]
        at += size
        branches, gaps = _clear(program, ranked.answers[some], state.thresholds[runs], rng)
        if far.runs.size:
            _put(far, runs - first, some, np.isin(some, near), branches, gaps)
        yield state.take(runs, some, branches, gaps)
        runs = runs[state.going(runs)]


def _borders(program: SparseVector, ranked: Ranked, thresholds: Floats) -> list[int]:
    """Where drawing every answer ends, for blocks with these lowest thresholds."""
    if not all(has_known_tail(way.law) for way in program.ways):
        return [ranked.size] * thresholds.size
    needs = [(way.law, thresholds + float(way.margin)) for way in program.ways]
    return ranked.border(needs, at_least=1, cost_of_a_hit=_COST_OF_A_FAR_HIT)


def _far(program: SparseVector, ranked: Ranked, thresholds: Floats, border: int, rng: Rng) -> _Far:
    """Answers from `border` on that clear a branch; dearer branches first."""
    parts = []
    for way in reversed(program.ways):
        bars = thresholds + float(way.margin)
        runs, ranks, values = ranked.reaching(way.law, bars, border, rng)
        branches = np.full(runs.size, way.number, dtype=np.int8)
        parts.append(_Far(runs, ranked.order[ranks], branches, values - thresholds[runs]))
    return parts[0] if len(parts) == 1 else _Far(*map(np.concatenate, zip(*parts, strict=True)))


def _chunk(program: SparseVector, answers: Integers, state: "_State", runs: Integers) -> int:
    """About as many answers as a run needs before it stops, were there no noise."""
    most = max(1, _CELLS_AT_ONCE // runs.size)
    over = answers[:most] - state.thresholds[runs].max()
    units = np.zeros(over.size, dtype=np.int64)
    for way in reversed(program.ways):
        units[over >= float(way.margin)] = way.units
    left = program.limits[0] - int(state.used[runs].min())
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


class _State:
    """How far each run has come; `thresholds` are noisy."""

    def __init__(self, program: SparseVector, thresholds: Floats, max_answers: int | None) -> None:
        # Without draining all branches die at once.
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

    def take(self, runs: Integers, indices: Integers, branches: Branches, gaps: Floats) -> _Found:
        """What these runs find above among the next answers; one row a run."""
        before = self.found[runs]
        said = self._said(runs, branches)
        places = np.flatnonzero(said)
        counts = self.found[runs] - before
        columns = places - np.repeat(np.arange(runs.size) * indices.size, counts)
        found = indices[columns]
        some = np.flatnonzero(counts)
        self.last[runs[some]] = found[counts.cumsum()[some] - 1]
        over = gaps.ravel()[places]
        np.floor(over, out=over)
        return _Found(runs, counts, before, found, branches.ravel()[places], over)

    def _said(self, runs: Integers, branches: Branches) -> Flags:
        """Which answers are said to be above; books what they cost.

        Outcomes are final up to where a branch dies; from there on they are looked at again.
        """
        said, ahead = self._level(runs, branches, self._levels[0][1])
        for live, limit in self._levels[1:]:
            late = np.flatnonzero(ahead.any(axis=0))
            if not late.size:
                break
            rest = np.s_[:, late[0] :]
            alive = branches[rest] * (ahead[rest] & (branches[rest] <= live))
            more, now = self._level(runs, alive, limit)
            said[rest] |= more
            ahead[rest] &= now
        return said

    def _level(self, runs: Integers, branches: Branches, limit: int) -> tuple[Flags, Flags]:
        """Which of the answers that cleared a branch are said, and which come too late."""
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
