"""The best of a noisy histogram, without drawing what cannot be among them.

Every noisy answer may be released, so whatever is chosen of them is chosen freely: the best k, all
that reach a line, or both. Noisy answers are whole numbers, and tie. Coins that are independent of
the noise put those that tie in order (`dpgap.exact.geometric` says where they come from). So which
of them is returned says nothing of the true answers.

Noisy answers with their coins are real numbers. Floats enclose them. Where floats overlap, decimals
and further bits decide, for the few answers concerned.

**Only whole numbers leave.** The low bits of a float that was computed beside a true answer tell
how large that answer is. So floats serve to decide floors, and the floors are returned: noisy
answers in steps, and the best loser's coin in 2^24ths.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from dpgap.data.private_counts import sealed
from dpgap.estimates.errors import COINS
from dpgap.exact.bits import Bits
from dpgap.exact.geometric import GeometricNoise
from dpgap.exact.reals import Floats, Integers, Real, Refined, decide, scaled
from dpgap.mechanisms.top_k_kernel import Tops, places_of

_FAR = 2.0**61


class Wanted(NamedTuple):
    """What is to be returned: at most k (None: any number), from a line on (None: anything)."""

    k: int | None
    line: int | None
    """In whole steps; a noisy answer on the line is returned."""


class Best(NamedTuple):
    """The noisy answers that are returned, best first, in whole steps."""

    places: Integers
    """Where they stand among the answers; of grouped answers, their groups."""
    values: Integers
    loser: tuple[int, int] | None
    """The best that is not returned, in steps, and its coin in 2^24ths.

    None where all are returned, or all from the line on.
    """


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def best_of(law: GeometricNoise, answers: Integers, wanted: Wanted, bits: Bits) -> Best:
    """Add noise to every answer, in steps, and return what is wanted."""
    words = bits.words(answers.size)
    origin = int(answers.max())
    least, most = (
        answers - origin + np.clip(ends, -_FAR, _FAR).astype(np.int64)
        for ends in law.floor_bounds(words)
    )
    bar = -math.inf if wanted.line is None else wanted.line - origin
    need = _need(wanted, answers.size)
    if need < answers.size:
        bar = max(bar, int(np.partition(least, -need)[-need]))
    some = np.flatnonzero(most >= bar)
    low, high = law.coin_bounds(words[some])
    contenders = _Contenders(
        answers[some],
        *_added(answers[some] - origin, low, high),
        lambda: (law.with_coin(word, bits) for word in words[some].tolist()),
    )
    best = contenders.best(origin, wanted, bits)
    return best._replace(places=some[best.places])


@np.errstate(all="ignore")
def best_grouped(
    law: GeometricNoise, values: Integers, sizes: Integers, wanted: Wanted, bits: Bits
) -> tuple[Best, Integers]:
    """The same for answers given as values and how many have each; and places in the groups."""
    if not values.size:
        return Best(values, values, None), values
    total = int(sizes.sum())
    tops = Tops(law, _need(wanted, total) - 1, values, sizes, bits, wanted.line)
    contenders = _Contenders(values[tops.groups], tops.low, tops.high, tops.exact)
    best = contenders.best(int(values.max()), wanted, bits)
    groups = tops.groups[best.places]
    return best._replace(places=groups), places_of(groups, sizes, bits)


def _need(wanted: Wanted, size: int) -> int:
    """How many must be looked at: those that are returned, and the best that is not."""
    return size if wanted.k is None else min(wanted.k + 1, size)


def _added(offsets: Integers, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Floats around offset plus noise, with the roundings of the sum outweighed."""
    whole = offsets.astype(np.float64)
    slack = (np.abs(whole) + np.abs(low)) * 2.0**-50
    return whole + low - slack, whole + high + slack


class _Contenders:
    """Noisy answers with their coins, enclosed by floats less an origin, and exact on demand."""

    def __init__(
        self,
        answers: Integers,
        low: Floats,
        high: Floats,
        exact: Callable[[], Iterable[Refined]],
    ) -> None:
        self._answers, self._low, self._high = answers, low, high
        self._exact = cache(lambda: list(exact()))

    def __repr__(self) -> str:
        return sealed(self)

    def best(self, origin: int, wanted: Wanted, bits: Bits) -> Best:
        """Those that are wanted, and the best of the others."""
        if wanted.k is None:
            return self._all(origin, wanted.line, bits)
        order = self._order()[: wanted.k + 1]
        values = self._values(order, origin)
        reached = values.size if wanted.line is None else int((values >= wanted.line).sum())
        taken = min(wanted.k, reached)
        loser = None
        if taken < reached:
            loser = self._loser(int(order[taken]), origin)
        return Best(order[:taken].copy(), values[:taken].copy(), loser)

    def _all(self, origin: int, line: int | None, bits: Bits) -> Best:
        """Where nobody who ties is left out, fresh coins serve as well, and are much cheaper."""
        values = self._values(np.arange(self._low.size), origin)
        order = np.lexsort((bits.distinct(values.size, values.size), -values))
        values = values[order]
        taken = values.size if line is None else int((values >= line).sum())
        return Best(order[:taken].copy(), values[:taken].copy(), None)

    def _order(self) -> Integers:
        """The largest first. Where floats overlap, exact numbers decide."""
        order = np.argsort(-self._low)
        low, high = self._low[order], self._high[order]
        rest = np.maximum.accumulate(high[:0:-1])[::-1]
        overlaps = np.flatnonzero(low[:-1] <= rest)  # with some that come later, so with the next
        for run in np.split(overlaps, np.flatnonzero(np.diff(overlaps) > 1) + 1):
            if run.size:
                tied = slice(run[0], run[-1] + 2)
                order[tied] = sorted(order[tied].tolist(), key=self._real, reverse=True)
        return order

    def _real(self, at: int) -> Real:
        return Real(int(self._answers[at]), self._exact()[at])

    def _values(self, order: Integers, origin: int) -> Integers:
        """Noisy answers without their coins."""
        low, high = np.floor(self._low[order]), np.floor(self._high[order])
        open_ones = np.flatnonzero(low != high)
        low[open_ones] = 0
        values: Integers = origin + low.astype(np.int64)
        for at in open_ones.tolist():
            place = order[at]
            noise = decide(self._exact()[place], math.floor)
            values[at] = int(self._answers[place]) + noise
        return values

    def _loser(self, at: int, origin: int) -> tuple[int, int]:
        """A noisy answer and its coin, rounded down together; floats only say which floor it is."""
        low, high = np.floor(self._low[at] * COINS), np.floor(self._high[at] * COINS)
        if low == high:
            whole = origin * COINS + int(low)
        else:
            noise = decide(scaled(COINS, self._exact()[at]), math.floor)
            whole = int(self._answers[at]) * COINS + noise
        return divmod(whole, COINS)
