"""How far each simulated run of a Sparse Vector has come, and what it says of the next answers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.sparse_vector import SparseVector

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
