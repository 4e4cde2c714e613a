"""Noisy Top-K at speed: the same selection as the program's, for many answers or many runs.

Nearly every answer is a certain loser, and one look at its random word tells: the noise it would
need to matter has a known chance, and the word is either below that or not. Logarithms are taken
of the contenders only. They are ranked on floats that enclose their noisy answers; wherever those
overlap, the program itself decides, on the same draws. So the result is the program's, exactly.

One pass over the answers, constant extra memory.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import MemorylessLaw, Noise, Quantiles, RealLaw, require_memoryless
from dpgap.exact.reals import (
    LOW_MASK,
    Enclosure,
    Floats,
    Integers,
    Real,
    RealNoise,
    Refined,
    Uniform,
    exponential_bounds,
)

_SMALL = 1 << 11
_FIRST_CHUNK = 1 << 8
_CHUNK = 1 << 15
_WORDS_AT_ONCE = 1 << 18
_BLOCK = 64
_ALL_BITS = np.uint64((1 << 64) - 1)


Bools = NDArray[np.bool_]


class TopKProgram(Protocol):
    """What the kernel stands in for."""

    @property
    def k(self) -> int: ...
    @property
    def law(self) -> RealLaw: ...
    def run(self, answers: Any, noise: Noise) -> tuple[Any, Any]: ...


class Winners(NamedTuple):
    """One row a run: indices, best first, and each one's lead, in steps."""

    indices: Integers
    leads: Integers


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def select(program: TopKProgram, answers: Integers, runs: int, bits: Bits) -> Winners:
    """Run the program `runs` times on the same answers, in steps, with fresh noise."""
    rows = []
    for some, words in contenders(program, answers, runs, bits):
        ranking = _rank(program, answers[some], words, bits)
        rows.append(Winners(some[ranking.indices], ranking.leads))
    if len(rows) == 1:
        return rows[0]
    return Winners(
        np.concatenate([row.indices for row in rows]), np.concatenate([row.leads for row in rows])
    )


def contenders(
    program: TopKProgram, answers: Integers, runs: int, bits: Bits
) -> Iterator[tuple[Integers, Words]]:
    """Some runs at a time: the answers that may be among the best k + 1, in order, and their words.

    Words have the shape (words of a draw, runs, answers).
    """
    n, size = answers.size, program.law.words
    if n > _SMALL:
        for _ in range(runs):
            some, words = _contenders(program, answers, bits)
            yield some, words[:, None, :]
        return
    at_once = max(1, _WORDS_AT_ONCE // max(1, n * size))
    for done in range(0, runs, at_once):
        yield np.arange(n), bits.words(size, min(at_once, runs - done), n)


def _contenders(program: TopKProgram, answers: Integers, bits: Bits) -> tuple[Integers, Words]:
    """The answers that may be among the best k + 1, in order, and their words."""
    law, need = program.law, min(program.k + 1, answers.size)
    best = int(answers.max())
    contenders = np.empty(0, dtype=np.int64)
    words = np.empty((law.words, 0), dtype=np.uint64)
    low, high = np.empty(0), np.empty(0)
    bar = -math.inf  # what an answer must reach: the need-th largest lower bound so far
    start, size = 0, _FIRST_CHUNK
    while start < answers.size:
        chunk = answers[start : start + size]
        first = bits.words(chunk.size)
        hits = _may_reach(law, first, bar, chunk - best)
        if hits.size:
            drawn = first[None, hits]
            if law.words > 1:
                drawn = np.concatenate([drawn, bits.words(law.words - 1, hits.size)])
            new_low, new_high = noisy_bounds(law, chunk[hits] - best, drawn)
            low, high = np.concatenate([low, new_low]), np.concatenate([high, new_high])
            contenders = np.concatenate([contenders, hits + start])
            words = np.concatenate([words, drawn], axis=1)
            if low.size >= need:
                bar = float(np.partition(low, -need)[-need])
                kept = high >= bar
                contenders, words = contenders[kept], words[:, kept]
                low, high = low[kept], high[kept]
        start, size = start + size, min(2 * size, _CHUNK)  # the bar rises before chunks grow
    return contenders, words


def _may_reach(law: RealLaw, words: Words, bar: float, offsets: Integers) -> Integers:
    """Where an offset plus its noise may reach the bar; never misses any.

    Noise beyond x needs E·scale > x, less the overshoot, so m < 2^63·e^(−x/scale) and,
    with two signs, a top bit of 0. The limit on m is that of the largest offset in a block of
    answers, and each rounding is outweighed in the direction of a hit.
    """
    blocks = np.maximum.reduceat(offsets, np.arange(0, offsets.size, _BLOCK)).astype(np.float64)
    beyond = bar - blocks - (abs(bar) + np.abs(blocks)) * 2.0**-48
    beyond -= float(law.overshoot) * (1 + 2.0**-48)
    exponent = np.maximum(beyond, 0.0) * ((1 - 2.0**-40) / float(law.scale))
    chance = np.minimum(np.exp(-exponent) * (1 + 2.0**-30), 1.0)
    limits = (chance * 2.0**63).astype(np.uint64) + np.uint64(2)
    if law.signed:
        limits[exponent == 0] = _ALL_BITS  # negative noise may do as well
    else:
        words = words & LOW_MASK
    return np.flatnonzero(words <= np.repeat(limits, _BLOCK)[: words.size])


def noisy_bounds(law: RealLaw, offsets: Integers, words: Words) -> tuple[Floats, Floats]:
    """Floats around offset + noise, with the roundings of the sum outweighed."""
    whole = offsets.astype(np.float64)
    low, high = law.bounds(words)
    slack = (np.abs(whole) + np.abs(low)) * 2.0**-51
    return whole + low - slack, whole + high + slack


def _rank(program: TopKProgram, answers: Integers, words: Words, bits: Bits) -> Winners:
    """Rank every row of `words` (shape: words of a draw, runs, answers)."""
    low, high = noisy_bounds(program.law, answers - answers.max(), words)
    order, leads, certain = ranked(low, high, program.k)
    for row in np.flatnonzero(~certain):
        order[row], leads[row] = program.run(answers.tolist(), RealNoise(words[:, row], bits))
    return Winners(order, leads)


def ranked(low: Floats, high: Floats, k: int) -> tuple[Integers, Integers, Bools]:
    """Rank enclosed numbers row by row: the best k, their leads, and where that is certain."""
    order, low, high, certain = in_order(low, high, min(k + 1, low.shape[1]))
    least = np.floor(low[:, :-1] - high[:, -1:])
    most = np.floor(high[:, :-1] - low[:, -1:])
    certain &= (least == most).all(axis=1)
    # Rows left open may hold infinities; they are replaced. A copy, because a view would still
    # hold the ranking of those who lost.
    return order[:, :k].copy(), least.astype(np.int64), certain


def in_order(low: Floats, high: Floats, need: int) -> tuple[Integers, Floats, Floats, Bools]:
    """The places of the best so many in each row, with their ends, and where that is certain."""
    runs, n = low.shape
    starts = np.arange(runs)[:, None] * n  # of rows; whole arrays are indexed quickest as flat ones
    best = np.argpartition(low, n - need, axis=1)[:, n - need :] + starts
    ranks = np.argsort(-low.take(best), axis=1)
    order = best.take(ranks + starts // n * need)
    # Decided where each of the best `need` is certainly above everything ranked after it.
    others = high.copy()
    others.put(best, -np.inf)
    low, high = low.take(order), high.take(order)
    after = np.concatenate([high[:, 1:], others.max(axis=1, keepdims=True)], axis=1)
    rest = np.maximum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
    certain: Bools = np.logical_and.reduce(low > rest, axis=1)
    return order - starts, low, high, certain


# --------------------------------------------------------------------------------------------------
# Noisy Top-K on grouped answers: many answers with the same value cost no more than a few.
#
# Of m answers with one value, only the k + 1 largest noises can matter. Those are drawn straight
# from their own law: with V₁, V₂, … uniform, the largest of m uniforms is V₁^(1/m), the next is
# that times V₂^(1/(m−1)), and so on; noise is the law's quantile of them. So a whole table is
# selected from by its count of counts, whatever the number of its items, and the result has the law
# of selecting from all the answers one by one, ties and gaps included.
#
# Like every draw, these are real numbers refined on demand: floats enclose them, and where floats
# overlap the program decides on decimals and further bits.


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
            kept = self.high >= bar
            self.groups, self._positions = self.groups[kept], self._positions[kept]
            self.low, self.high = self.low[kept], self.high[kept]
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
