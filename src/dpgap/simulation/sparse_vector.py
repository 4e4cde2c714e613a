"""Many runs of Sparse Vector at once, on float noise: plain, adaptive, with any branches.

Runs are taken in order of their noisy thresholds, some hundred at a time, so that those side by
side agree on which answers are near. Near answers are drawn in the order of the stream, a few at
a time, until every run has stopped; of all others only those that clear a branch are looked at.
What comes out is what a release shows: floors on the grid, against a floored threshold.

Branches are tried cheapest first, and those still alive are always the cheapest ones. So all that
matters of an answer is the first branch that it clears.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact import Floats, Integers
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.simulation.floats import Rng, draw, has_known_tail
from dpgap.simulation.ranked import Ranked

_RUNS_AT_ONCE = 512
_LEAST_CHUNK = 8
_NO_LIMIT = np.iinfo(np.int64).max

Flags = NDArray[np.bool_]


class SiftedRuns(NamedTuple):
    """The answers found above, run by run in the order asked, and the state of each run."""

    runs: Integers
    indices: Integers
    branches: Integers
    gaps: Integers
    used: Integers
    processed: Integers


class _Events(NamedTuple):
    """Answers that clear a branch, by run and then by place in the stream."""

    rows: Integers
    indices: Integers
    branches: Integers
    gaps: Integers

    def taken(self, which: Integers | Flags) -> "_Events":
        return _Events(*(each[which] for each in self))


def sift_runs(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Integers,
    rng: Rng,
    max_answers: int | None = None,
) -> SiftedRuns:
    """One run for each of `thresholds`, which replace the program's own; all in whole steps."""
    noisy = np.floor(draw(program.threshold_law, rng, thresholds.size))
    noisy += thresholds
    order = np.argsort(noisy)
    state = _State(program, noisy.size, max_answers)
    found = [
        each
        for first in range(0, noisy.size, _RUNS_AT_ONCE)
        for each in _sift(program, ranked, noisy, order[first : first + _RUNS_AT_ONCE], state, rng)
    ]
    # Every answer knows its run and how many came before it there: that is its place.
    starts = state.found.cumsum() - state.found
    indices, branches, gaps = (np.empty(int(state.found.sum()), dtype=np.int64) for _ in range(3))
    for events, before in found:
        place = starts[events.rows] + before
        indices[place], branches[place], gaps[place] = events[1:]
    runs = np.repeat(np.arange(noisy.size), state.found)
    processed = np.where(state.going(), ranked.size, state.last + 1)
    return SiftedRuns(runs, indices, branches, gaps, state.used, processed)


def _sift(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Floats,
    rows: Integers,
    state: "_State",
    rng: Rng,
) -> list[tuple[_Events, Integers]]:
    """Take some runs through the whole stream."""
    border = _border(program, ranked, float(thresholds[rows[0]]))
    near = np.sort(ranked.order[:border])
    far = _far(program, ranked, thresholds, rows, border, rng)
    chunk = _chunk(program, ranked, float(thresholds[rows[rows.size // 2]]), near.size)
    found = []
    for start in range(0, max(near.size, 1), chunk):
        rows = rows[state.going(rows)]
        if not rows.size:
            break
        some = near[start : start + chunk]
        end = int(near[start + chunk]) if start + chunk < near.size else ranked.size
        events = _clear(program, ranked.answers[some], thresholds[rows], rng)
        events = events._replace(rows=rows[events.rows], indices=some[events.indices])
        if far.rows.size:
            arrived = far.indices < end
            events = _merged(rows, events, far.taken(arrived), ranked.size)
            far = far.taken(~arrived)
        found.append(state.take(events))
    return found


def _border(program: SparseVector, ranked: Ranked, threshold: float) -> int:
    if not all(has_known_tail(way.law) for way in program.ways):
        return ranked.size
    every = np.full(ranked.borders.size - 1, threshold)
    return ranked.border([(way.law, every + way.margin) for way in program.ways], at_least=1)


def _chunk(program: SparseVector, ranked: Ranked, threshold: float, near: int) -> int:
    """About as many near answers as a run needs to find k above."""
    above = ranked.size - int(np.searchsorted(ranked.descending[::-1], threshold))
    return max(_LEAST_CHUNK, near * program.k // max(above, program.k))


def _clear(program: SparseVector, answers: Integers, thresholds: Floats, rng: Rng) -> _Events:
    """Try every branch in turn on whatever has not cleared one before."""
    over = answers - thresholds[:, None]
    gaps = draw(program.ways[0].law, rng, *over.shape)
    gaps += over
    cleared = gaps >= program.ways[0].margin
    if len(program.ways) == 1:
        rows, columns = np.nonzero(cleared)
        branches = np.ones(rows.size, dtype=np.int64)
        return _Events(rows, columns, branches, np.floor(gaps[rows, columns]).astype(np.int64))
    branch_of = cleared.astype(np.int8)
    for way in program.ways[1:]:
        left = np.flatnonzero(branch_of == 0)
        again = draw(way.law, rng, left.size)
        again += over.ravel()[left]
        clears = again >= way.margin
        now = left[clears]
        branch_of.ravel()[now] = way.number
        gaps.ravel()[now] = again[clears]
    rows, columns = np.nonzero(branch_of)
    return _Events(
        rows,
        columns,
        branch_of[rows, columns].astype(np.int64),
        np.floor(gaps[rows, columns]).astype(np.int64),
    )


def _far(
    program: SparseVector,
    ranked: Ranked,
    thresholds: Floats,
    rows: Integers,
    border: int,
    rng: Rng,
) -> _Events:
    """Answers from `border` on that clear a branch, in no order; the first branch of each."""
    parts = []
    for way in program.ways:
        bars = thresholds[rows] + way.margin
        run, rank, value = ranked.reaching(way.law, bars, border, rng)
        gap = np.floor(value - thresholds[rows[run]]).astype(np.int64)
        branch = np.full(run.size, way.number)
        parts.append(_Events(rows[run], ranked.order[rank], branch, gap))
    return _Events(*map(np.concatenate, zip(*parts, strict=True)))


def _merged(rows: Integers, near: _Events, far: _Events, answers: int) -> _Events:
    """Both kinds of events in one order, those of stopped runs left out."""
    place = np.full(int(max(rows.max(), far.rows.max(initial=0))) + 1, -1)
    place[rows] = np.arange(rows.size)
    far = far.taken(place[far.rows] >= 0)
    if not far.rows.size:
        return near
    both = _Events(*map(np.concatenate, zip(near, far, strict=True)))
    answer = place[both.rows] * answers + both.indices
    both = both.taken(np.lexsort((both.branches, answer)))
    answer = place[both.rows] * answers + both.indices
    return both.taken(np.append(True, answer[1:] != answer[:-1]))  # the cheapest branch counts


class _State:
    """How far each run has come."""

    def __init__(self, program: SparseVector, runs: int, max_answers: int | None) -> None:
        self._units = np.array([way.units for way in program.ways], dtype=np.int64)
        self._limits = np.array(program.limits, dtype=np.int64)
        self._most = _NO_LIMIT if max_answers is None else max_answers
        self.used = np.zeros(runs, dtype=np.int64)
        self.found = np.zeros(runs, dtype=np.int64)
        self.last = np.full(runs, -1, dtype=np.int64)

    def going(self, rows: Integers | slice = slice(None)) -> Flags:
        """Which of these runs still take answers."""
        going: Flags = (self.used[rows] <= self._limits[0]) & (self.found[rows] < self._most)
        return going

    def take(self, events: _Events) -> tuple[_Events, Integers]:
        """What is said to be above, and how many the run had found before each."""
        rows, said = events.rows, np.zeros(events.rows.size, dtype=np.bool_)
        before = np.empty(rows.size, dtype=np.int64)
        first = _first_of_row(rows)
        ahead = ~said
        for live in range(self._units.size, 0, -1):
            limit = self._limits[live - 1]
            if live < self._units.size and limit == self._limits[live]:
                continue  # without draining, all branches die at once
            hit = ahead & (events.branches <= live)
            charge = self._units[events.branches - 1] * hit
            found = self.found[rows] + _running(hit.astype(np.int64), first)
            final = ahead & (self.used[rows] + _running(charge, first) <= limit)
            final &= found < self._most
            now = final & hit
            if now.all():
                self._add(rows, charge, events.indices)
                return events, found
            before[now] = found[now]
            said |= now
            self._add(rows[now], charge[now], events.indices[now])
            ahead &= ~final
        return events.taken(said), before[said]

    def _add(self, rows: Integers, charges: Integers, indices: Integers) -> None:
        """Book answers of runs in order."""
        if not rows.size:
            return
        begins = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        ends = np.append(begins[1:], rows.size)
        self.used[rows[begins]] += np.add.reduceat(charges, begins)
        self.found[rows[begins]] += ends - begins
        self.last[rows[begins]] = indices[ends - 1]


def _first_of_row(rows: Integers) -> Integers:
    """For each event, the place of the first one of its run."""
    places = np.arange(rows.size)
    if rows.size:
        places[1:][rows[1:] == rows[:-1]] = 0
    return np.maximum.accumulate(places)


def _running(values: Integers, first: Integers) -> Integers:
    """The sum of a run's values before each one."""
    before: Integers = np.cumsum(values) - values
    return before - before[first] if before.size else before
