"""All sets of k answers, sorted into classes that have the same margin and can be counted.

Rank the answers, largest first, equal ones in any fixed order. The *top set* takes ranks 1 to k.
Every other set leaves out some rank up to k; call the first one h + 1. It also takes some rank
below k; let its lowest one be in a group of equal answers. Then its margin, the smallest answer
taken less the largest left out, is that group's value less the answer of rank h + 1. So h and
the group are a class.

How many sets are in it? A set whose lowest rank is t takes ranks 1 to h and t, not h + 1, and
k − h − 1 of the ranks in between. Summed over the group's ranks t = lo … hi that is

    C(hi − h − 1, k − h) − C(lo − h − 2, k − h).

There may be C(10^12, 100) sets, but there are at most k classes for every different value.
"""

import bisect
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpgap.data.private_counts import sealed
from dpgap.exact.bits import Bits
from dpgap.exact.reals import Floats, Integers

TOP_SET = 0
"""The number of the top set's class, which has no other member."""

_TABLE = 1 << 16


class Block(NamedTuple):
    """Classes one after the other: their numbers begin at `first`."""

    first: int
    margins: Integers
    log_sizes: Floats
    """At least the logarithm of how many sets are in each."""

    def __repr__(self) -> str:
        return sealed(self)


class Classes:
    """The classes of all sets of k answers, which are given by value; k is below their number."""

    def __init__(self, values: Integers, sizes: Integers, k: int) -> None:
        self._order = np.argsort(-values, kind="stable")
        self._values, self._sizes, self.k = values[self._order], sizes, k
        self._ends = np.cumsum(sizes[self._order])
        """The last rank of each group; ranks count from 1."""
        below = int(np.searchsorted(self._ends, k + 1))  # the group of the first rank below k
        self._highs = self._ends[below:]
        self._lows = np.append(np.int64(k + 1), self._highs[:-1] + 1)
        self._low_values = self._values[below:]
        self._top_values = self._values[np.searchsorted(self._ends, np.arange(1, k + 1))]

    def __repr__(self) -> str:
        return sealed(self)

    @property
    def width(self) -> int:
        """How many classes have the same first rank left out."""
        return self._highs.size

    @property
    def count(self) -> int:
        """How many classes there are; they are numbered from 0."""
        return 1 + self.k * self.width

    def margin(self, at: int) -> int:
        """The margin of every set in a class, in steps."""
        if at == TOP_SET:
            return int(self._top_values[-1] - self._low_values[0])
        kept, group = divmod(at - 1, self.width)
        return int(self._low_values[group] - self._top_values[kept])

    def size(self, at: int) -> int:
        """How many sets a class has."""
        if at == TOP_SET:
            return 1
        kept, group = divmod(at - 1, self.width)
        low, high = int(self._lows[group]), int(self._highs[group])
        open_places = self.k - kept
        return math.comb(high - kept - 1, open_places) - math.comb(low - kept - 2, open_places)

    def blocks(self, most: int) -> list[tuple[int, int]]:
        """The numbers of ranks kept, in parts of about so many classes: first, and one past."""
        rows = max(1, most // self.width)
        return [(at, min(at + rows, self.k)) for at in range(0, self.k, rows)]

    def block(self, first: int, following: int) -> Block:
        """The classes of sets that keep `first` ranks, or more, but fewer than `following`.

        A class has at most C(hi − h − 1, k − h) sets, and at most its group's size times the number
        with the lowest rank of all, hi, which is that times (k − h)/(hi − h − 1).
        """
        kept = np.arange(first, following)[:, None]
        open_places, among = self.k - kept, self._highs - kept - 1
        share = (self._highs - self._lows + 1.0) * open_places / among
        logs = log_choose(among, open_places) + np.log(np.minimum(share, 1.0)) + _SLACK
        margins = self._low_values - self._top_values[first:following, None]
        return Block(1 + first * self.width, margins.ravel(), logs.ravel())

    def ranks_of(self, numbers: Integers) -> tuple[Integers, Integers, Integers]:
        """Of each class but the top set's: how many ranks it keeps, and its group's lo and hi."""
        kept, group = np.divmod(numbers - 1, self.width)
        return kept, self._lows[group], self._highs[group]

    def draw_ranks(self, at: int, bits: Bits) -> Integers:
        """The ranks that a uniformly drawn set of a class takes, from 1."""
        if at == TOP_SET:
            return np.arange(1, self.k + 1)
        kept, group = divmod(at - 1, self.width)
        low, high = int(self._lows[group]), int(self._highs[group])
        open_places = self.k - kept
        before = math.comb(low - kept - 2, open_places)
        number = before + bits.below(self.size(at))
        # Sets are numbered by their lowest rank: those up to rank t come before C(t−h−1, k−h).
        lowest = low + bisect.bisect_right(
            range(low, high + 1), number, key=lambda rank: math.comb(rank - kept - 1, open_places)
        )
        between = bits.distinct(open_places - 1, lowest - kept - 2) + kept + 2
        return np.concatenate([np.arange(1, kept + 1), between, [lowest]])

    def draw_members(self, at: int, bits: Bits) -> tuple[Integers, Integers]:
        """A uniformly drawn set of a class: groups, as they were given, and places in them.

        Ranks say how many members each group has in the set. Equal answers are alike, so which
        members these are is drawn afresh.
        """
        ranks = self.draw_ranks(at, bits)
        groups = self._order[np.searchsorted(self._ends, ranks)]
        taken, counts = np.unique(groups, return_counts=True)
        places = [
            bits.distinct(count, int(self._sizes[group]))
            for group, count in zip(taken.tolist(), counts.tolist(), strict=True)
        ]
        return np.repeat(taken, counts), np.concatenate(places)


_SLACK = 2.0**-20
"""Outweighs the roundings of logarithms that are not from the table."""


def log_choose(among: Integers, chosen: Integers) -> Floats:
    """At least ln C(among, chosen), and close to it; never below by more than `_SLACK`.

    Small factorials are from a table. For large ones the mean of the factors a, a − 1, … is put in
    the place of each, which makes their product larger by less than r³/(24·(a − r)²).
    """
    log_factorials, error = _log_factorials(max(_TABLE, 1 << int(chosen.max()).bit_length()))
    small = np.minimum(among, log_factorials.size - 1)
    logs = log_factorials[small] - log_factorials[np.maximum(small - chosen, 0)]
    large = among >= log_factorials.size
    if large.any():
        logs = np.where(large, chosen * np.log(among - (chosen - 1) / 2), logs)
    return logs - log_factorials[chosen] + error


@lru_cache(maxsize=2)
def _log_factorials(size: int) -> tuple[Floats, float]:
    """Logarithms of 0!, 1!, …; and a bound on what three of them are off by together."""
    logs = np.log(np.maximum(np.arange(size), 1))
    table = np.cumsum(logs)
    return table, size * 2.0**-50 * float(table[-1])
