"""Sparse Vector at speed: the same outcomes as the program's, for many answers or many runs.

Answers are taken in chunks. Within a chunk every live branch is tried on every answer at once.
Which branches live changes only as the budget runs down, at most once for each of them; up to
that point the outcomes are final, and after it they are looked at again with fewer branches.

Where nearly all answers are 0, only those of them are drawn that clear a branch.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

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


Flags = NDArray[np.bool_]

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


class Above(NamedTuple):
    """Answers found above: the run, the place, the branch that was cleared and the gap of each."""

    runs: Integers
    indices: Integers
    branches: NDArray[Any]
    gaps: NDArray[Any]

    @classmethod
    def joined(cls, parts: Iterable["Above"]) -> "Above":
        """What parts of a stream brought one after another, run by run in the order asked."""
        runs, *others = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(runs, kind="stable")
        return cls(runs[order], *(each[order] for each in others))


_NOTHING = Above(*[np.empty(0, dtype=np.int64)] * 4)


class RunStates:
    """How far runs side by side have come: units `used`, answers `found`, place of the `last`.

    `thresholds` are noisy and in steps, like all that is compared with them.
    """

    def __init__(
        self, program: "SparseVector", thresholds: NDArray[Any], max_answers: int | None
    ) -> None:
        # A run that drains goes on with cheap branches when dear ones can no longer be paid.
        # Otherwise all branches end at once, and one level is left.
        self._levels = [
            (live, limit)
            for live, limit in enumerate(program.limits, start=1)
            if limit not in program.limits[live:]
        ][::-1]
        self._most = max_answers
        self.thresholds = thresholds
        self.used, self.found = np.zeros((2, thresholds.size), dtype=np.int64)
        self.last = np.full(thresholds.size, -1, dtype=np.int64)

    def going(self, runs: Integers | slice = slice(None)) -> Flags:
        """Which of these runs still take answers."""
        going: Flags = self.used[runs] <= self._levels[-1][1]
        if self._most is not None:
            going &= self.found[runs] < self._most
        return going

    def processed(self, size: int) -> Integers:
        """How many of all `size` answers each run has looked at, once all have been taken."""
        return np.where(self.going(), size, self.last + 1)

    def judge(
        self, runs: Integers, indices: Integers, branches: NDArray[Any], gaps: NDArray[Any]
    ) -> Above:
        """What these runs find above among the next answers; one row a run.

        Branches are tried cheapest first, and those still alive are always the cheapest ones. So
        all that matters of an answer is the first branch that it clears, or 0, and that gap.
        """
        before = self.found[runs]
        places = np.flatnonzero(self._charge(runs, branches))
        counts = self.found[runs] - before
        columns = places - np.repeat(np.arange(runs.size) * indices.size, counts)
        found = indices[columns]
        some = np.flatnonzero(counts)
        self.last[runs[some]] = found[counts.cumsum()[some] - 1]
        return Above(np.repeat(runs, counts), found, branches.ravel()[places], gaps.ravel()[places])

    def _charge(self, runs: Integers, branches: NDArray[Any]) -> Flags:
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

    def _charge_up_to(
        self, runs: Integers, branches: NDArray[Any], limit: int
    ) -> tuple[Flags, Flags]:
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


class Sifting(RunStates):
    """Runs side by side on exact noise: answers are taken as they come, in whole grid steps."""

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def __init__(
        self, program: "SparseVector", runs: int, bits: Bits, max_answers: int | None = None
    ) -> None:
        thresholds = int(program.threshold) + program.threshold_law.floors(bits, runs)
        super().__init__(program, thresholds, max_answers)
        self._ways, self._bits, self._runs = program.ways, bits, np.arange(runs)
        self._margins = np.array([way.margin for way in program.ways], dtype=np.int64)
        self.taken = 0
        """How many answers every run has been asked, unless it stopped before."""

    @np.errstate(all="ignore")
    def take(self, answers: Integers) -> Above:
        """Ask every run the next answers, in steps; those above, by their places among these."""
        found, runs = [_NOTHING], self._runs.size
        chunk = max(1, _WORDS_AT_ONCE // runs)
        for start in range(0, answers.size, chunk):
            if not self.going().any():
                break
            some = answers[start : start + chunk]
            over = some - self.thresholds[:, None]
            gaps = np.empty((len(self._ways), runs, some.size), dtype=np.int64)
            for gap, way in zip(gaps, self._ways, strict=True):
                np.add(over, way.law.floors(self._bits, runs, some.size), out=gap)
            found.append(self._judge_all(gaps, np.arange(some.size), some.size, start))
        return Above.joined(found)

    @np.errstate(all="ignore")
    def take_sparse(self, values: Integers, places: Integers, size: int) -> Above:
        """Ask a single run the next `size` answers: the values at their places, and 0 elsewhere.

        Of the many that are 0 only those that clear a branch are drawn, so that time grows with
        the values and with what is above, and not with `size`.
        """
        found, done = [_NOTHING], 0
        while done < size and self.going().any():
            length = min(self._stretch(), size - done)
            first, last = np.searchsorted(places, [done, done + length])
            if last - first > _WORDS_AT_ONCE:
                last = first + _WORDS_AT_ONCE
                length = int(places[last - 1]) + 1 - done
            gaps, at = self._events(values[first:last], places[first:last] - done, length)
            found.append(self._judge_all(gaps, at, length, done))
            done += length
        return Above.joined(found)

    def _stretch(self) -> int:
        """How many answers at 0 to look at together: so many that few of them clear a branch."""
        threshold = int(self.thresholds[0])
        likely = max(float(way.law.tail(way.margin + threshold)) for way in self._ways)
        return int(min(max(_FEW / max(likely, 2.0**-60), _SHORTEST), 2.0**60))

    def _events(self, values: Integers, places: Integers, length: int) -> tuple[Integers, Integers]:
        """The gaps of all the values, and of the zeros that clear a branch; and their places."""
        ways, margins, threshold = self._ways, self._margins, int(self.thresholds[0])
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

    def _judge_all(self, gaps: Integers, places: Integers, size: int, done: int) -> Above:
        """Take `size` answers, after so many done: those above, of the ones given at `places`."""
        clears = gaps >= self._margins[:, None, None]
        some = np.flatnonzero(clears.any(axis=(0, 1)))  # only these can matter, and they are few
        clears, gaps = clears[..., some], gaps[..., some]
        first = clears.argmax(axis=0)
        branches = np.where(clears.any(axis=0), first + 1, 0)
        gaps = np.take_along_axis(gaps, first[None], axis=0)[0]
        start = self.taken - done
        above = self.judge(self._runs, places[some] + self.taken, branches, gaps)
        self.taken += size
        return above._replace(indices=above.indices - start)
