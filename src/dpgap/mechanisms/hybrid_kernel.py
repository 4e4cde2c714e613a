"""Hybrid Top-K at speed: the same selection as the program's, one by one or in groups.

Contenders are found as for a Top-K. The line joins them as the last candidate, with noise of its
own. Where floats do not decide, the program itself does, on the same draws.
"""

from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import MemorylessLaw
from dpgap.exact.reals import Floats, Integers, Real, RealNoise
from dpgap.mechanisms.top_k_kernel import (
    Bools,
    GroupedSelection,
    TopKProgram,
    Tops,
    contenders,
    in_order,
    noisy_bounds,
    places_of,
)


class HybridProgram(TopKProgram, Protocol):
    """What the kernel stands in for; its threshold is in whole steps."""

    @property
    def threshold(self) -> Fraction: ...
    @property
    def law(self) -> MemorylessLaw: ...


class CutWinners(NamedTuple):
    """One row a run: indices, best first, and each one's lead in steps.

    Where a run has fewer than k winners, its row is filled up with −1 and leads of 0.
    """

    indices: Integers
    leads: Integers

    @property
    def counts(self) -> Integers:
        """How many winners each run has."""
        counts: Integers = (self.indices >= 0).sum(axis=1)
        return counts


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def select_above(program: HybridProgram, answers: Integers, runs: int, bits: Bits) -> CutWinners:
    """Run the program `runs` times on the same answers, in steps, with fresh noise."""
    rows = []
    for some, words in contenders(program, answers, runs, bits):
        line = bits.words(program.law.words, words.shape[1], 1)
        cut = _rank(program, answers[some], np.concatenate([words, line], axis=2), bits)
        names = np.append(some, -1)  # −1 is where a row has ended
        rows.append(CutWinners(names[cut.indices], cut.leads))
    return CutWinners(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def _rank(program: HybridProgram, answers: Integers, words: Words, bits: Bits) -> CutWinners:
    """Rank every row of `words` (shape: words of a draw, runs, answers and the line)."""
    candidates = np.append(answers, int(program.threshold))
    low, high = noisy_bounds(program.law, candidates - candidates.max(), words)
    cut, certain = ranked_to_line(low, high, program.k)
    for row in np.flatnonzero(~certain):
        indices, leads = program.run(answers.tolist(), RealNoise(words[:, row], bits))
        cut.indices[row], cut.leads[row] = -1, 0
        cut.indices[row, : len(indices)], cut.leads[row, : len(leads)] = indices, leads
    return cut


def ranked_to_line(low: Floats, high: Floats, k: int) -> tuple[CutWinners, Bools]:
    """Rank enclosed numbers row by row, up to the last column, which is the line; at most k."""
    line = low.shape[1] - 1
    order, low, high, certain = in_order(low, high, min(k, line) + 1)
    is_line = order == line
    ends = np.where(is_line.any(axis=1), is_line.argmax(axis=1), order.shape[1] - 1)[:, None]
    least = np.floor(low - np.take_along_axis(high, ends, axis=1))
    most = np.floor(high - np.take_along_axis(low, ends, axis=1))
    wins = np.arange(order.shape[1]) < ends
    certain &= ((least == most) | ~wins).all(axis=1)
    indices, leads = np.where(wins, order, -1), np.where(wins, least, 0.0).astype(np.int64)
    return CutWinners(indices[:, :-1].copy(), leads[:, :-1].copy()), certain


@np.errstate(all="ignore")
def select_above_grouped(
    program: HybridProgram, values: Integers, sizes: Integers, bits: Bits
) -> GroupedSelection:
    """Run the program once on answers given as values and how many answers have each."""
    if not values.size:  # the line is alone
        return GroupedSelection(*[np.empty(0, dtype=np.int64)] * 3)
    tops = Tops(program.law, program.k, values, sizes, bits)
    words = bits.words(program.law.words, 1)
    over = np.array([int(program.threshold) - int(values.max())])
    ends = zip((tops.low, tops.high), noisy_bounds(program.law, over, words), strict=True)
    low, high = (np.append(*each)[None] for each in ends)
    cut, certain = ranked_to_line(low, high, program.k)
    count = int(cut.counts[0])
    winners, leads = cut.indices[0, :count], cut.leads[0, :count]
    if not certain[0]:
        noise = _Joined(tops, tops.groups.size, RealNoise(words, bits))
        indices, exact_leads = program.run(values[tops.groups].tolist(), noise)
        winners, leads = (np.array(each, dtype=np.int64) for each in (indices, exact_leads))
    groups = tops.groups[winners]
    return GroupedSelection(groups, places_of(groups, sizes, bits), leads)


class _Joined:
    """The noise of the contenders, and after them that of the line."""

    def __init__(self, first: Tops, count: int, then: RealNoise) -> None:
        self._first, self._left, self._then = first, count, then

    def draw(self, law: MemorylessLaw) -> Real:
        """The next draw."""
        self._left -= 1
        return self._first.draw(law) if self._left >= 0 else self._then.draw(law)
