"""Sparse Vector at speed: the same outcomes as the program's, for many answers or many runs.

Answers are taken in chunks. Within a chunk every live branch is tried on every answer at once.
Which branches live changes only as the budget runs down, at most once for each of them; up to
that point the outcomes are final, and after it they are looked at again with fewer branches.

Where nearly all answers are 0, only those of them are drawn that clear a branch.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits
from dpgap.exact.laws import Law, require_memoryless
from dpgap.exact.reals import Integers, Uniform, decide
from dpgap.mechanisms.top_k_kernel import TopDraw, sums_of_waits

if TYPE_CHECKING:
    from dpgap.mechanisms.sparse_vector import SparseVector

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


class Sifted(NamedTuple):
    """The answers found above, run by run in the order asked, and the state of each run."""

    runs: Integers
    indices: Integers
    branches: Integers
    gaps: Integers
    used: Integers
    processed: Integers


def sift(
    program: "SparseVector",
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
        rows, *found = sifting.take(answers)
        batches.append((rows + done, *found, sifting.used, sifting.processed))
    return Sifted(*map(np.concatenate, zip(*batches, strict=True)))


class Above(NamedTuple):
    """What some answers brought: those above, run by run in the order asked."""

    runs: Integers
    indices: Integers
    """Places among the answers just taken."""
    branches: Integers
    gaps: Integers


_NOTHING = Above(*[np.empty(0, dtype=np.int64)] * 4)


class Sifting:
    """Runs side by side, in progress: answers are taken as they come.

    All is in whole grid steps. `used` is how many units each run has used, and `processed` how many
    answers it has taken.
    """

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def __init__(
        self, program: "SparseVector", runs: int, bits: Bits, max_answers: int | None
    ) -> None:
        self._ways, self._bits = program.ways, bits
        self._units = np.array([way.units for way in program.ways], dtype=np.int64)
        self._margins = np.array([way.margin for way in program.ways], dtype=np.int64)
        self._limits = np.array(program.limits, dtype=np.int64)
        self._most = np.iinfo(np.int64).max if max_answers is None else max_answers
        self._found, self.used, self.processed = np.zeros((3, runs), dtype=np.int64)
        self._threshold = int(program.threshold) + program.threshold_law.floors(bits, runs)

    @property
    def going(self) -> NDArray[np.bool_]:
        """Which runs still take answers."""
        going: NDArray[np.bool_] = (self.used <= self._limits[0]) & (self._found < self._most)
        return going

    @np.errstate(all="ignore")
    def take(self, answers: Integers) -> Above:
        """Ask every run the next answers, in steps."""
        found, runs = [], self.used.size
        chunk = max(1, _WORDS_AT_ONCE // runs)
        for start in range(0, answers.size, chunk):
            if not self.going.any():
                break
            some = answers[start : start + chunk]
            over = some - self._threshold[:, None]
            gaps = np.empty((len(self._ways), runs, some.size), dtype=np.int64)
            for gap, way in zip(gaps, self._ways, strict=True):
                np.add(over, way.law.floors(self._bits, runs, some.size), out=gap)
            found.append(self._judge(gaps, np.arange(some.size), some.size, start))
        return _together(found)

    @np.errstate(all="ignore")
    def take_sparse(self, values: Integers, places: Integers, size: int) -> Above:
        """Ask a single run the next `size` answers: the values at their places, and 0 elsewhere.

        Of the many that are 0 only those that clear a branch are drawn, so that time grows with
        the values and with what is above, and not with `size`.
        """
        found, done = [], 0
        while done < size and self.going.any():
            length = min(self._stretch(), size - done)
            first, last = np.searchsorted(places, [done, done + length])
            if last - first > _WORDS_AT_ONCE:
                last = first + _WORDS_AT_ONCE
                length = int(places[last - 1]) + 1 - done
            gaps, at = self._events(values[first:last], places[first:last] - done, length)
            found.append(self._judge(gaps, at, length, done))
            done += length
        return _together(found)

    def _stretch(self) -> int:
        """How many answers at 0 to look at together: so many that few of them clear a branch."""
        threshold = int(self._threshold[0])
        likely = max(float(way.law.tail(way.margin + threshold)) for way in self._ways)
        return int(min(max(_FEW / max(likely, 2.0**-60), _SHORTEST), 2.0**60))

    def _events(self, values: Integers, places: Integers, length: int) -> tuple[Integers, Integers]:
        """The gaps of all the values, and of the zeros that clear a branch; and their places."""
        ways, margins, threshold = self._ways, self._margins, int(self._threshold[0])
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

    def _judge(self, gaps: Integers, places: Integers, size: int, done: int) -> Above:
        """Take `size` answers, after so many done: those above, of the ones given at `places`."""
        runs = self.used.size
        clears = gaps >= self._margins[:, None, None]
        # Only answers that clear some branch can matter, and they are few.
        rows, columns = np.nonzero(clears.any(axis=0))
        clears = clears[:, rows, columns]
        starts = np.searchsorted(rows, np.arange(runs))  # where each run's answers begin
        branches = np.zeros(rows.size, dtype=np.int64)
        going = self.going
        ahead = going[rows]
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
        above = branches > 0
        rows, columns, branches = rows[above], columns[above], branches[above]
        last = np.full(runs, -1, dtype=np.int64)
        np.maximum.at(last, rows, places[columns])
        ended = ~self.going & (last >= 0)
        self.processed += np.where(ended, last + 1, size * going)
        return Above(rows, places[columns] + done, branches, gaps[branches - 1, rows, columns])


def _together(found: Iterable[Above]) -> Above:
    """What chunks brought one after another, run by run."""
    parts = [np.concatenate(part) for part in zip(_NOTHING, *found, strict=True)]
    order = np.lexsort((parts[1], parts[0]))
    return Above(*(part[order] for part in parts))


def _running(values: Integers, starts: Integers, rows: Integers) -> Integers:
    """The sum of a run's values before each one."""
    before = values.cumsum() - values
    return before - before[starts[rows]] if values.size else before


def _totals(values: NDArray[np.generic], rows: Integers, runs: int) -> Integers:
    return np.bincount(rows, weights=values, minlength=runs).astype(np.int64)
