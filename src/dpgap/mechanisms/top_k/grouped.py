"""Noisy Top-K on grouped answers: many answers with the same value cost no more than a few.

Of m answers with one value, only the k + 1 largest noises can matter. Those are drawn straight
from their own law: with V₁, V₂, … uniform, the largest of m uniforms is V₁^(1/m), the next is that
times V₂^(1/(m−1)), and so on; noise is the law's quantile of them. So a whole table is selected
from by its count of counts, whatever the number of its items, and the result has the law of
selecting from all the answers one by one, ties and gaps included.

Like every draw, these are real numbers refined on demand: floats enclose them, and where floats
overlap the program decides on decimals and further bits.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import MemorylessLaw, Quantiles, require_memoryless
from dpgap.exact.reals import (
    Enclosure,
    Floats,
    Integers,
    Real,
    Refined,
    Uniform,
    exponential_bounds,
)
from dpgap.mechanisms.top_k.kernel import TopKProgram, ranked

_STRETCH = 256
_GROWTH = 8


class GroupedSelection(NamedTuple):
    """For each winner, best first: its group, its place in the group, and its lead in steps.

    Places are uniform among a group's members and distinct.
    """

    groups: Integers
    places: Integers
    leads: Integers


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def select_grouped(
    program: TopKProgram, values: Integers, sizes: Integers, bits: Bits
) -> GroupedSelection:
    """Run the program once on answers given as values and how many answers have each."""
    law = require_memoryless(program.law, "for grouped answers")
    tops = Tops(law, program.k, values, sizes, bits)
    order, leads, certain = ranked(tops.low[None], tops.high[None], program.k)
    winners, whole = order[0], leads[0]
    if not certain[0]:
        indices, exact_leads = program.run(values[tops.groups].tolist(), tops)
        winners, whole = np.array(indices), np.array(exact_leads, dtype=np.int64)
    groups = tops.groups[winners]
    return GroupedSelection(groups, places_of(groups, sizes, bits), whole)


class Tops:
    """The noisy answers that may be among the best k + 1, as enclosing floats and as reals.

    A group's answers are drawn from its largest on, some *positions* at a time: all that are sure
    to be needed, and from then on a few more than before. Where a `line` is given, answers below
    it do not matter, and twice as many are drawn every time. Floats are less the largest value.
    """

    def __init__(
        self,
        law: Quantiles,
        k: int,
        values: Integers,
        sizes: Integers,
        bits: Bits,
        line: int | None = None,
    ) -> None:
        self._law, self._bits, self._sizes = law, bits, sizes
        need = min(k + 1, int(sizes.sum()))
        offsets = (values - values.max()).astype(np.float64)
        self.groups = self._positions = np.empty(0, dtype=np.int64)
        self.low, self.high = np.empty(0), np.empty(0)
        self._blocks: list[tuple[int, Integers, Words]] = []
        sums = np.zeros((2, sizes.size))  # enclosing −ln of the uniform that is reached
        active, position = np.arange(sizes.size), 0
        bar = -math.inf if line is None else float(line - int(values.max()))
        while active.size and position < need:
            missing = need - self.low.size
            count = -(-missing // active.size) if missing > 0 else max(1, position // _GROWTH)
            count = min(count, need - position, int(sizes[active].min()) - position)
            if line is not None:
                count = min(count, max(1, position))
            words = bits.words(count, active.size)
            self._blocks.append((position, active, words))
            positions = np.arange(position, position + count)[:, None]
            reached = sums_of_waits(sums[:, active], words, sizes[active] - positions)
            sums[:, active] = reached[:, -1]
            low, high = law.quantile_bounds(reached)
            slack = (np.abs(offsets[active]) + np.abs(low)) * 2.0**-50
            low, high = offsets[active] + low - slack, offsets[active] + high + slack
            self._keep(active, positions, low, high)
            if self.low.size >= need:
                bar = max(bar, float(np.partition(self.low, -need)[-need]))
            self._drop_below(bar)
            # A group whose last answer is certainly too low has no better one to come.
            position += count
            active = active[(high[-1] >= bar) & (sizes[active] > position)]
        self._next = self.exact()

    def _keep(self, groups: Integers, positions: Integers, low: Floats, high: Floats) -> None:
        cells = np.zeros(low.shape, dtype=np.int64)
        self.groups = np.concatenate([self.groups, (cells + groups).ravel()])
        self._positions = np.concatenate([self._positions, (cells + positions).ravel()])
        self.low = np.concatenate([self.low, low.ravel()])
        self.high = np.concatenate([self.high, high.ravel()])

    def _drop_below(self, bar: float) -> None:
        kept = self.high >= bar
        self.groups, self._positions = self.groups[kept], self._positions[kept]
        self.low, self.high = self.low[kept], self.high[kept]

    def draw(self, law: MemorylessLaw) -> Real:
        """The next contender's noise: what the program asks for where floats do not decide."""
        return Real(0, next(self._next))

    def exact(self) -> Iterator[Refined]:
        """The noise of each contender; to be asked for once, since it draws what is left open."""
        draws: dict[tuple[int, int], TopDraw] = {}
        for start, groups, words in self._blocks:
            for position, row in enumerate(words.tolist(), start):
                for group, word in zip(groups.tolist(), row, strict=True):
                    left = int(self._sizes[group]) - position
                    uniform = Uniform.of_word(word, self._bits)
                    before = draws.get((group, position - 1))
                    draws[group, position] = TopDraw(self._law, left, uniform, before)
        for key in zip(self.groups.tolist(), self._positions.tolist(), strict=True):
            yield draws[key].enclosure


def sums_of_waits(start: Floats, words: Words, left: Integers) -> Floats:
    """Enclosed sums of the first, the first two, … E/left, from a start that is enclosed as well.

    Lower and upper ends are along the first axis, sums along the second. Numbers are added up in
    stretches, and stretches as a whole, so that roundings stay few.
    """
    sums: Floats = np.array(exponential_bounds(1.0, words))
    sums /= left
    for at in range(0, len(words), _STRETCH):
        stretch = sums[:, at : at + _STRETCH]
        if len(words) > 1:
            np.cumsum(stretch, axis=1, out=stretch)
        stretch += start[:, None]
        start = stretch[:, -1]
    slack = (min(len(words), _STRETCH) + len(words) / _STRETCH + 8) * 2.0**-52
    sums[0] *= 1 - slack
    sums[1] *= 1 + slack
    return sums


class TopDraw:
    """The next largest of many draws from a law, as a real number refined on demand.

    −ln of the uniform whose quantile it is grows, from one to the next, by an exponential over
    how many draws are `left`.
    """

    __slots__ = ("_before", "_enclosures", "_law", "_left", "_sums", "_uniform")

    def __init__(
        self, law: Quantiles, left: int, uniform: Uniform, before: "TopDraw | None" = None
    ) -> None:
        self._law, self._left, self._uniform, self._before = law, left, uniform, before
        self._sums: dict[int, Enclosure] = {}
        self._enclosures: dict[int, Enclosure] = {}

    def enclosure(self, level: int) -> Enclosure:
        """Rationals below and above the draw; 64 more bits a level."""
        if level not in self._enclosures:
            self._enclosures[level] = self._enclose(level)
        return self._enclosures[level]

    def _enclose(self, level: int) -> Enclosure:
        low, high = self._sum(level)
        while not low:  # nothing is known yet of how large the draw is
            level += 1
            low, high = self._sum(level)
        digits = 40 * (level + 2)
        slack = self._law.scale / 10 ** (digits // 2)
        return (
            self._law.scale * self._law.exact_quantile(high, digits) - slack,
            self._law.scale * self._law.exact_quantile(low, digits) + slack,
        )

    def _sum(self, level: int) -> Enclosure:
        """−ln of the uniform; rounded outwards, since exact fractions would grow and grow."""
        todo = [self]
        while level not in todo[-1]._sums and todo[-1]._before is not None:
            todo.append(todo[-1]._before)
        for draw in reversed(todo):
            if level in draw._sums:
                continue
            low, high = draw._before._sums[level] if draw._before else (Fraction(0), Fraction(0))
            fine = 1 << 64 * (level + 3) + draw._left.bit_length()
            near, far = draw._uniform.exponential(level + 1)
            low, high = low + near / draw._left, high + far / draw._left
            ends = Fraction(math.floor(low * fine), fine), Fraction(math.ceil(high * fine), fine)
            draw._sums[level] = ends
        return self._sums[level]


def places_of(groups: Integers, sizes: Integers, bits: Bits) -> Integers:
    """A uniform place in its group for every winner, no place twice."""
    winners: dict[int, list[int]] = {}
    for rank, group in enumerate(groups.tolist()):
        winners.setdefault(group, []).append(rank)
    places = np.empty(groups.size, dtype=np.int64)
    for group, own in winners.items():
        places[own] = bits.distinct(len(own), int(sizes[group]))
    return places
