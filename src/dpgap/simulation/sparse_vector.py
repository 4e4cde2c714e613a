"""Many runs of Sparse Vector at once, on float noise: plain, adaptive, with any branches.

About a thousand runs are taken at a time. Thresholds that come in order of size make it fastest:
runs side by side then agree on which answers are near. Near answers are drawn in the order of the
stream, as many at a time as a run needs, until every run has stopped. Of all others only those that
clear a branch are looked at. What comes out is what a release shows: floors on the grid, against a
floored threshold. How runs pay for answers, and when they stop, is the release's own code.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.laws import MemorylessLaw
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.sparse_vector_kernel import Above, Flags, RunStates
from dpgap.simulation.floats import Rng, draw
from dpgap.simulation.top_k import Ranked

Branches = NDArray[np.int8]

_RUNS_AT_ONCE = 1_250
_FEWEST_RUNS = 16
_FEW_FAR = 64
_CELLS_AT_ONCE = 1 << 17
_COST_OF_A_FAR_HIT = 400.0
"""In draws."""


def sift_runs(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> tuple[Above, RunStates]:
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
    above = Above(*map(np.concatenate, zip(*parts, strict=True)))
    np.floor(above.gaps, out=above.gaps)
    return above, states


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

    def block(self, runs: slice, border: int) -> Above:
        """Take neighbouring runs through the whole stream."""
        thresholds = self.states.thresholds[runs]
        far = self._far(thresholds, border)
        near = np.sort(self.ranked.order[:border])
        return Above.joined(self._divide(runs.start, thresholds.size, near, far))

    def _far(self, thresholds: Floats, border: int) -> Above:
        """Answers from `border` on that clear a branch; dearer branches first."""
        parts = []
        for way in reversed(self.program.ways):
            bars = thresholds + float(way.margin)
            runs, ranks, values = self.ranked.reaching(way.law, bars, border, self.rng)
            branches = np.full(runs.size, way.number, dtype=np.int8)
            found = self.ranked.order[ranks]
            parts.append(Above(runs, found, branches, values - thresholds[runs]))
        return Above(*map(np.concatenate, zip(*parts, strict=True)))

    def _divide(self, first: int, runs: int, near: Integers, far: Above) -> Iterator[Above]:
        """As many runs together as have few far answers between them."""
        if far.runs.size > near.size + _FEW_FAR and runs > _FEWEST_RUNS:
            half = runs // 2
            for start, size in ((0, half), (half, runs - half)):
                own = (far.runs >= start) & (far.runs < start + size)
                part = Above(*(each[own] for each in far))
                part.runs[:] -= start
                yield from self._divide(first + start, size, near, part)
            return
        yield from self._sift(np.arange(first, first + runs), near, far)

    def _sift(self, runs: Integers, near: Integers, far: Above) -> Iterator[Above]:
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
            yield self.states.judge(runs, some, branches, gaps)
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
    far: Above, runs: Integers, some: Integers, near: Flags, branches: Branches, gaps: Floats
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
