"""Joint Top-K at speed: noise for classes of sets in place of the sets themselves.

Of all sets in a class only the two with the largest noise can matter: one may win, and the other
come second. Those two noises are drawn straight from their own law, as those of equal answers are
in a grouped Top-K, however many sets there are.

Most classes are certain losers, and one look at a random word tells: it bounds the largest noise
of the class from above. Sizes, which are huge integers, are computed for the contenders only, in
the order of their bounds, until all other bounds are below the second best value so far. Contenders
are compared on floats that enclose their values; wherever those overlap, the program's own
comparison decides, on the same draws, refined as far as it needs. What is left out cannot win or
come second: it changes what is computed, and nothing that is released.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpgap.data.private_counts import sealed
from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import MemorylessLaw, Scalar
from dpgap.exact.reals import Floats, Integers, Real, Uniform, exponential_bounds
from dpgap.mechanisms.joint.classes import TOP_SET, Classes
from dpgap.mechanisms.top_k.grouped import TopDraw
from dpgap.mechanisms.top_k.kernel import ranked

_FEW = 1 << 6
_WORDS_AT_ONCE = 1 << 18
_AT_ONCE = 1 << 19
_FLOAT_BITS = 900
_LN_2 = math.log(2)
_OUTWARDS = np.array([1 - 2.0**-48, 1 + 2.0**-48])


class ChosenClasses(NamedTuple):
    """For each run: the class of the set that won, and its lead in half steps."""

    classes: Integers
    leads: Integers

    def __repr__(self) -> str:
        return sealed(self)


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def select_classes(law: MemorylessLaw, classes: Classes, runs: int, bits: Bits) -> ChosenClasses:
    """Choose among all sets `runs` times. Margins in steps are half-margins in half steps.

    So `law` is that of the noise in half steps.
    """
    if classes.count > _FEW:
        parts = [_contenders(law, classes, bits) for _ in range(runs)]
        rows = [_rank(law, contenders, words, bits) for contenders, words in parts]
    else:
        contenders = Contenders.of(classes, range(classes.count))
        at_once = max(1, _WORDS_AT_ONCE // classes.count)
        rows = [
            _rank(law, contenders, bits.words(2, some, classes.count), bits)
            for some in (min(at_once, runs - done) for done in range(0, runs, at_once))
        ]
    if len(rows) == 1:
        return rows[0]
    return ChosenClasses(
        np.concatenate([row.classes for row in rows]), np.concatenate([row.leads for row in rows])
    )


class Contenders(NamedTuple):
    """Classes with their margins and exact sizes."""

    numbers: Integers
    margins: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, classes: Classes, numbers: Sequence[int]) -> "Contenders":
        """Some of the classes, by number."""
        return cls(
            np.array(numbers),
            [classes.margin(at) for at in numbers],
            [classes.size(at) for at in numbers],
        )

    def __repr__(self) -> str:
        return sealed(self)

    def joined(self, others: "Contenders") -> "Contenders":
        """These and others."""
        return Contenders(
            np.append(self.numbers, others.numbers),
            self.margins + others.margins,
            self.sizes + others.sizes,
        )

    def bounds(self, law: MemorylessLaw, words: Words, origin: int) -> tuple[Floats, Floats]:
        """Floats around the two largest values of each class, less `origin`.

        `words` are two for every class along the first axis, the classes along the last. All
        largest values come first, then all second largest; that of a single set is −∞.
        """
        offsets = np.array([margin - origin for margin in self.margins], dtype=np.float64)
        shifts = np.array([max(size.bit_length() - _FLOAT_BITS, 0) for size in self.sizes])
        pairs = zip(self.sizes, shifts.tolist(), strict=True)
        sizes = np.array([float(size >> shift) for size, shift in pairs])
        left = np.maximum(sizes - (shifts == 0), 0.0)  # dividing by 2^900 less 1 is the same
        sums = np.stack(exponential_bounds(1.0, words))  # ends, first and second, …, classes
        sums[:, 0] /= sizes
        sums[:, 1] = sums[:, 0] + sums[:, 1] / left
        sums *= _OUTWARDS.reshape(2, *[1] * (sums.ndim - 1))
        low, high = law.quantile_bounds(sums)
        # A sum that is 2^j times too large gives a noise that is j·ln 2 too small.
        whole = offsets + float(law.scale) * _LN_2 * shifts
        slack = (np.abs(offsets) + np.abs(whole) + np.abs(low)) * 2.0**-48
        low, high = whole + low - slack, whole + high + slack
        low[1, ..., sizes == 1] = high[1, ..., sizes == 1] = -np.inf
        return np.concatenate(list(low), axis=-1), np.concatenate(list(high), axis=-1)


def _contenders(law: MemorylessLaw, classes: Classes, bits: Bits) -> tuple[Contenders, Words]:
    """The classes that may win or come second, and two words for each, as one run."""
    origin = classes.margin(TOP_SET)
    found, words = Contenders.of(classes, [TOP_SET]), bits.words(2, 1)
    best, _ = found.bounds(law, words, origin)
    bar = -math.inf  # the second largest lower bound so far
    for first, following in classes.blocks(_AT_ONCE):
        start, margins, log_sizes = classes.block(first, following)
        own = bits.words(margins.size)
        highest = _upper_bounds(law, margins - origin, log_sizes, own)
        waiting, size = np.array([highest.argmax()]), 1
        while waiting.size:
            batch, waiting = waiting[:size], waiting[size:]
            new = Contenders.of(classes, (batch + start).tolist())
            drawn = np.stack([own[batch], bits.words(batch.size)])
            found, words = found.joined(new), np.concatenate([words, drawn], axis=1)
            best = np.sort(np.append(best, new.bounds(law, drawn, origin)[0]))[-2:]
            bar = float(best[0])
            if size == 1:  # now there is a bar: only what may reach it is put in order
                waiting = np.flatnonzero(highest >= bar)
                waiting = waiting[waiting != batch[0]]  # bounds may tie
                waiting = waiting[np.argsort(-highest[waiting])]
            waiting, size = waiting[highest[waiting] >= bar], 4 * size
    return found, words[:, None, :]


def _upper_bounds(law: MemorylessLaw, offsets: Integers, log_sizes: Floats, words: Words) -> Floats:
    """What no value of a class exceeds: −ln(1 − e^(−s)) < ln(1/s) + ½ for s up to 1, and falls."""
    least, _ = exponential_bounds(1.0, words)
    noise = np.maximum(log_sizes - np.log(least), 0.0) + (0.5 + 2.0**-20)
    highest: Floats = offsets + float(law.scale) * (1 + 2.0**-40) * noise
    highest += np.abs(offsets) * 2.0**-48
    return highest


def _rank(law: MemorylessLaw, contenders: Contenders, words: Words, bits: Bits) -> ChosenClasses:
    """The winner of every row of `words` (shape: two, runs, contenders) and its lead."""
    low, high = contenders.bounds(law, words, max(contenders.margins))
    order, leads, certain = ranked(low, high, 1)
    winners = order[:, 0] % contenders.numbers.size
    for row in np.flatnonzero(~certain):
        places, values = zip(*largest_two(law, contenders, words[:, row], bits), strict=True)
        best, leads[row] = winner_and_lead(values)
        winners[row] = places[best]
    return ChosenClasses(contenders.numbers[winners], leads[:, 0])


def winner_and_lead(noisy: Sequence[Scalar]) -> tuple[int, Scalar]:
    """Which number is the largest, and by how much."""
    winner = max(range(len(noisy)), key=noisy.__getitem__)
    second = max(noisy[i] for i in range(len(noisy)) if i != winner)
    return winner, noisy[winner] - second


def largest_two(
    law: MemorylessLaw, contenders: Contenders, words: Words, bits: Bits
) -> Iterator[tuple[int, Real]]:
    """The largest value of every class, and the second largest if it has two; with its place."""
    pairs = zip(contenders.margins, contenders.sizes, words.T.tolist(), strict=True)
    for place, (margin, size, own) in enumerate(pairs):
        uniforms = [Uniform.of_word(word, bits) for word in own]
        draw = None
        for taken, uniform in enumerate(uniforms[: min(size, 2)]):
            draw = TopDraw(law, size - taken, uniform, draw)
            yield place, Real(margin, draw.enclosure)
