"""Sparse Vector at speed: the same outcomes as the program's, for many answers or many runs.

Answers are taken in chunks. Within a chunk every live branch is tried on every answer at once.
Which branches live changes only as the budget runs down, at most once for each of them; up to
that point the outcomes are final, and after it they are looked at again with fewer branches.

Where nearly all answers are 0, only those of them are drawn that clear a branch.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits
from dpgap.exact.laws import Law, Scalar, require_memoryless
from dpgap.exact.reals import Integers, Uniform, decide
from dpgap.mechanisms.top_k_kernel import TopDraw, sums_of_waits

# --------------------------------------------------------------------------------------------------
# The draws out of very many that reach a line, without drawing the others.
#
# Of m draws from a law only the few largest may reach the line. They are drawn from the largest on,
# straight from their own law, as in `dpgap.mechanisms.top_k_kernel`, until one falls below. Floats
# enclose them. Where those leave a floor open, decimals and further bits decide. So what comes out
# has exactly the law of m draws, of which those below the line are forgotten.


_AT_ONCE = 64


def exceedances(law: Law, line: int, size: int, bits: Bits) -> Integers:
    """The floors of those of `size` draws that are at least `line`, the largest first."""
    law = require_memoryless(law, "where most answers are 0")
    words = np.empty(0, dtype=np.uint64)
    draws: list[TopDraw] = []  # of those words that decimals have looked at, from the first on
    sums = np.zeros((2, 1))  # enclosing −ln of the uniform that is reached
    found: list[Integers] = [np.empty(0, dtype=np.int64)]
    while words.size < size:
        start = words.size
        words = np.append(words, bits.words(min(_AT_ONCE, size - start)))
        sums = sums_of_waits(sums[:, -1], words[start:], size - np.arange(start, words.size))
        low, high = np.floor(law.quantile_bounds(sums))
        floors = np.where(low == high, low, 0).astype(np.int64)
        for at in np.flatnonzero(low != high).tolist():
            for word in words[len(draws) : start + at + 1].tolist():
                before = draws[-1] if draws else None
                uniform = Uniform.of_word(word, bits)
                draws.append(TopDraw(law, size - len(draws), uniform, before))
            floors[at] = decide(draws[start + at].enclosure, math.floor)
        below = np.flatnonzero(floors < line)
        if below.size:
            found.append(floors[: below[0]])
            break
        found.append(floors)
    return np.concatenate(found)


# --------------------------------------------------------------------------------------------------


_WORDS_AT_ONCE = 1 << 16
_FEW = 64
_SHORTEST = 1 << 10


class _Way(Protocol):
    @property
    def units(self) -> int: ...
    @property
    def law(self) -> Law: ...
    @property
    def margin(self) -> Scalar: ...


class SparseVectorProgram(Protocol):
    """What the kernel stands in for; everything in whole grid steps."""

    @property
    def threshold(self) -> Scalar: ...
    @property
    def threshold_law(self) -> Law: ...
    @property
    def ways(self) -> tuple[_Way, ...]: ...
    @property
    def limits(self) -> tuple[int, ...]: ...


class Sifted(NamedTuple):
    """The answers found above, run by run in the order asked, and the state of each run."""

    runs: Integers
    indices: Integers
    branches: Integers
    gaps: Integers
    used: Integers
    processed: Integers


def sift(
    program: SparseVectorProgram,
    answers: Integers,
    runs: int,
    bits: Bits,
    max_answers: int | None = None,
) -> Sifted:
    """Run the program `runs` times on the same answers, in steps, with fresh noise."""
    at_once = max(1, _WORDS_AT_ONCE // answers.size)
    batches = []
    for done in range(0, runs, at_once):
        sifting = Sifting(program, min(at_once, runs - done), bits, max_answers)
        rows, indices, cleared, gaps = sifting.take(answers)
        found = rows + done, indices, cleared, gaps
        batches.append(Sifted(*found, sifting.used, sifting.processed))
    if len(batches) == 1:
        return batches[0]
    return Sifted(*map(np.concatenate, zip(*batches, strict=True)))


class Above(NamedTuple):
    """What some answers brought: those above, run by run in the order asked."""

    runs: Integers
    indices: Integers
    """Places among the answers just taken."""
    branches: Integers
    gaps: Integers


class Sifting:
    """Runs side by side, in progress: answers are taken as they come."""

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def __init__(
        self, program: SparseVectorProgram, runs: int, bits: Bits, max_answers: int | None
    ) -> None:
        self._program, self._runs, self._bits = program, runs, bits
        self._state = _State(program, runs, max_answers)
        noise = program.threshold_law.floors(bits, runs)
        self._threshold = program.threshold + noise

    @property
    def going(self) -> bool:
        """Whether any run still takes answers."""
        return bool(self._state.going.any())

    @property
    def used(self) -> Integers:
        """The units that each run has used."""
        return self._state.used

    @property
    def processed(self) -> Integers:
        """How many answers each run has taken."""
        return self._state.processed

    @np.errstate(all="ignore")
    def take(self, answers: Integers) -> Above:
        """Ask every run the next answers, in steps."""
        ways, runs = self._program.ways, self._runs
        none = np.empty(0, dtype=np.int64)
        found: list[tuple[Integers, ...]] = [(none, none, none, none)]
        chunk = max(1, _WORDS_AT_ONCE // runs)
        for start in range(0, answers.size, chunk):
            if not self.going:
                break
            some = answers[start : start + chunk]
            over = some - self._threshold[:, None]
            gaps = np.empty((len(ways), runs, some.size), dtype=np.int64)
            for gap, way in zip(gaps, ways, strict=True):
                np.add(over, way.law.floors(self._bits, runs, some.size), out=gap)
            rows, columns, cleared = self._state.judge(gaps)
            found.append((rows, columns + start, cleared, gaps[cleared - 1, rows, columns]))
        rows, indices, branches, over_by = (
            np.concatenate(part) for part in zip(*found, strict=True)
        )
        order = np.lexsort((indices, rows))  # chunks come one after another, runs side by side
        return Above(rows[order], indices[order], branches[order], over_by[order])

    @np.errstate(all="ignore")
    def take_sparse(self, values: Integers, places: Integers, size: int) -> Above:
        """Ask a single run the next `size` answers: the values at their places, and 0 elsewhere.

        Of the many that are 0 only those that clear a branch are drawn, so that time grows with
        the values and with what is above, and not with `size`.
        """
        none = np.empty(0, dtype=np.int64)
        found: list[tuple[Integers, ...]] = [(none, none, none, none)]
        done = 0
        while done < size and self.going:
            length = min(self._stretch(), size - done)
            first, last = np.searchsorted(places, [done, done + length])
            if last - first > _WORDS_AT_ONCE:
                last = first + _WORDS_AT_ONCE
                length = int(places[last - 1]) + 1 - done
            gaps, at = self._events(values[first:last], places[first:last] - done, length)
            rows, columns, cleared = self._state.judge(gaps, at, length)
            found.append((rows, at[columns] + done, cleared, gaps[cleared - 1, rows, columns]))
            done += length
        return Above(*map(np.concatenate, zip(*found, strict=True)))

    def _stretch(self) -> int:
        """How many answers at 0 to look at together: so many that few of them clear a branch."""
        threshold = int(self._threshold[0])
        likely = max(float(way.law.tail(way.margin + threshold)) for way in self._program.ways)
        return int(min(max(_FEW / max(likely, 2.0**-60), _SHORTEST), 2.0**60))

    def _events(self, values: Integers, places: Integers, length: int) -> tuple[Integers, Integers]:
        """The gaps of all the values, and of the zeros that clear a branch; and their places."""
        ways, threshold = self._program.ways, int(self._threshold[0])
        margins = np.array([int(way.margin) for way in ways], dtype=np.int64)
        zeros = length - values.size
        clear = []
        for way, margin in zip(ways, margins, strict=True):
            reached = exceedances(way.law, int(margin) + threshold, zeros, self._bits)
            clear.append((reached, self._bits.distinct(reached.size, zeros)))
        ranks = np.unique(np.concatenate([ranks for _, ranks in clear]))
        gaps = np.empty((len(ways), values.size + ranks.size), dtype=np.int64)
        gaps[:, values.size :] = margins[:, None] - 1
        over = values - threshold
        for gap, way, (reached, own) in zip(gaps, ways, clear, strict=True):
            np.add(over, way.law.floors(self._bits, values.size), out=gap[: values.size])
            gap[values.size + np.searchsorted(ranks, own)] = reached - threshold
        if not ranks.size:
            return gaps[:, None], places
        # The r-th zero stands after as many values as have at most r zeros before them.
        before = np.searchsorted(places - np.arange(places.size), ranks, side="right")
        at = np.concatenate([places, ranks + before])
        order = np.argsort(at)
        return gaps[:, None, order], at[order]


class _State:
    """How far each run has come."""

    def __init__(self, program: SparseVectorProgram, runs: int, max_answers: int | None) -> None:
        self._units = np.array([way.units for way in program.ways], dtype=np.int64)
        self._margins = np.array([way.margin for way in program.ways], dtype=np.int64)
        self._limits = np.array(program.limits, dtype=np.int64)
        self._most = np.iinfo(np.int64).max if max_answers is None else max_answers
        self._found = np.zeros(runs, dtype=np.int64)
        self.used = np.zeros(runs, dtype=np.int64)
        self.processed = np.zeros(runs, dtype=np.int64)

    @property
    def going(self) -> NDArray[np.bool_]:
        """Which runs still take answers."""
        going: NDArray[np.bool_] = (self.used <= self._limits[0]) & (self._found < self._most)
        return going

    def judge(
        self, gaps: Integers, places: Integers | None = None, size: int | None = None
    ) -> tuple[Integers, Integers, Integers]:
        """Take a chunk of answers: the runs and columns of those above, and their branches.

        Where only some answers of a chunk of that size are given, they stand at `places`.
        """
        _, runs, columns_given = gaps.shape
        places = np.arange(columns_given) if places is None else places
        size = columns_given if size is None else size
        clears = gaps >= self._margins[:, None, None]
        # Only answers that clear some branch can matter, and they are few.
        rows, columns = np.nonzero(clears.any(axis=0))
        clears = clears[:, rows, columns]
        starts = np.searchsorted(rows, np.arange(runs))  # where each run's answers begin
        branches = np.zeros(rows.size, dtype=np.int64)
        end = np.where(self.going, size, 0)
        ahead = self.going[rows]
        for live in range(len(self._units), 0, -1):
            hit = clears[:live].any(axis=0) & ahead
            branch = np.where(hit, clears[:live].argmax(axis=0) + 1, 0)
            charge = np.where(hit, self._units[branch - 1], 0)
            used = self.used[rows] + _running(charge, starts, rows)
            found = self._found[rows] + _running(hit.astype(np.int64), starts, rows)
            final = ahead & (used <= self._limits[live - 1]) & (found < self._most)
            branches[final] = branch[final]
            self.used += _totals(charge * final, rows, runs)
            self._found += _totals(hit & final, rows, runs)
            ahead &= ~final
        stopped = ~self.going
        last = np.full(runs, -1, dtype=np.int64)
        above = branches > 0
        np.maximum.at(last, rows[above], places[columns[above]])
        self.processed += np.where(stopped & (last >= 0), last + 1, end)
        return rows[above], columns[above], branches[above]


def _running(values: Integers, starts: Integers, rows: Integers) -> Integers:
    """The sum of a run's values before each one."""
    before = values.cumsum() - values
    return before - before[starts[rows]] if values.size else before


def _totals(values: NDArray[np.generic], rows: Integers, runs: int) -> Integers:
    return np.bincount(rows, weights=values, minlength=runs).astype(np.int64)
