"""Noisy Top-K at speed: the same selection as the program's, for many answers or many runs.

Nearly every answer is a certain loser, and one look at its random word tells: the noise it would
need to matter has a known chance, and the word is either below that or not. Logarithms are taken
of the contenders only. They are ranked on floats that enclose their noisy answers; wherever those
overlap, the program itself decides, on the same draws. So the result is the program's, exactly.

One pass over the answers, constant extra memory.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import Noise, RealLaw
from dpgap.exact.reals import LOW_MASK, Floats, Integers, RealNoise

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
