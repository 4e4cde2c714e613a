"""Joint Top-K: the set of the k largest answers, chosen as one candidate, and its lead.

Noisy Top-K protects each of its winners, so its noise grows with k. Here the candidates are the
sets of k answers, and one of them wins. The *margin* of a set is the smallest answer in it minus
the largest outside; the score of a set is half of its margin. Every set gets exponential noise. The
set with the largest noisy half-margin is released, with its lead over the second best. This is
Noisy Max over sets, and the noise is the same for every k. docs/joint-top-k.md has the proof.

There are C(n, k) sets. The kernel draws noise for classes of sets, so n and k may be large. Like
every dpgap release, this one decides on exact real draws, and floors the real lead. Half-margins,
and so the lead, are multiples of half a grid step.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from dpgap._package import public
from dpgap.data.private_counts import Found, Groups, redacted_repr, tally
from dpgap.estimates.certificates import Evidence
from dpgap.exact.bits import Bits, Words, secure_bits
from dpgap.exact.grid import Grid, Labels, read_grid
from dpgap.exact.laws import MemorylessLaw, Noise, Scalar, Vector
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    boolean,
    declared,
    derived,
    parameter,
    positive_integer,
    positive_rational,
)
from dpgap.exact.reals import Floats, Integers, Real, exponential_bounds
from dpgap.mechanisms.mechanism import Answers, Draw, Selecting, Winners
from dpgap.mechanisms.top_k import (
    Candidates,
    InGroups,
    NoisyTopK,
    Output,
    candidates,
    claims_of,
    extremes,
    extremes_undone,
    law_for,
    places_of,
    ranked,
    shift_of,
    top_draws,
)
from dpgap.releases.detail import MechanismUsed, Promise
from dpgap.releases.drawn import TopSet
from dpgap.releases.release import SelectedItems

_HALF = Fraction(1, 2)


@public
@declared()
class JointTopK(Selecting[Candidates, SelectedItems]):
    """Find the set of the k largest answers, and its lead over every other set.

    The noise does not grow with k. Use this mechanism if the k largest answers are clear as a set.
    A set has no order, and no gaps inside it. For k = 1 `NoisyMax` is better.

    Answers are *monotonic* if one person can only move all of them up, or all of them down, as
    counts do. Guarantee: pure ε-differential privacy of the set and its lead together.

    Parameters
    ----------
    k
        How many answers to find. There must be more than k answers; of k, all are the top k.
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> joint = JointTopK(k=2, epsilon=1000, monotonic=True)
    >>> release = joint.release([10, 50, 90, 20], labels=["fig", "pea", "oat", "rye"])
    >>> release.labels
    ('pea', 'oat')
    """

    k: int = parameter(positive_integer)
    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)
    sensitivity: Exact = parameter(positive_rational, default=1)
    grid: ExactOrNone = parameter(read_grid, default=None)
    law: MemorylessLaw = derived(lambda self: law_for(self, 1, "exponential"))
    """The noise of each set's half-margin."""

    @property
    def over_sets(self) -> NoisyTopK:
        """The equivalent Noisy Max; its answers are the half-margins of sets.

        Its proof needs answers whose changes differ by at most 2Δ, or by Δ if monotonic;
        docs/joint-top-k.md shows this for half-margins.
        """
        return NoisyTopK(1, self.epsilon, noise="exponential", **claims_of(self))

    @property
    def half_step_law(self) -> MemorylessLaw:
        """The noise in half grid steps: in this unit, half-margins are whole numbers."""
        return self.law.scaled(2 / Grid(self.grid).step)

    def half_margin(self, answers: Vector, members: Sequence[int]) -> Scalar:
        """The score of a set: (the smallest answer in it − the largest outside) / 2."""
        outside = [answers[i] for i in {*range(len(answers))} - {*members}]
        return _HALF * (min(answers[i] for i in members) - max(outside))

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], Scalar]:
        """The algorithm: the winning set, and its lead over the second best. For few answers."""
        sets = list(combinations(range(len(answers)), self.k))
        noisy = [self.half_margin(answers, members) + noise.draw(self.law) for members in sets]
        winner, lead = winner_and_lead(noisy)
        return sets[winner], lead

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """How far to shift each draw so that the neighbour gives the same output: as in Noisy Max.

        The answers are the half-margins of sets.
        """
        margins, falls, winners = self._over_sets(answers, neighbour, output)
        descent = extremes(margins, falls, noise, winners)
        return [shift_of(i, falls, winners, descent) for i in range(len(margins))]

    def unalign(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The inverse of `align`: it proves that no two draws are shifted to the same."""
        margins, falls, winners = self._over_sets(answers, neighbour, output)
        descent = extremes_undone(margins, falls, noise, winners)
        return [-shift_of(i, falls, winners, descent) for i in range(len(margins))]

    def _over_sets(
        self, answers: Vector, neighbour: Vector, output: Any
    ) -> tuple[list[Scalar], list[Scalar], tuple[int, ...]]:
        """The half-margins of all sets, the fall of each, and the winning set."""
        sets = list(combinations(range(len(answers)), self.k))
        before = [self.half_margin(answers, members) for members in sets]
        after = [self.half_margin(neighbour, members) for members in sets]
        falls = [self.rise - (new - old) for old, new in zip(before, after, strict=True)]
        return before, falls, (sets.index(output[0]),)

    @property
    def rise(self) -> Fraction:
        """The most that a half-margin can rise: Δ, or Δ/2 if answers are monotonic."""
        if self.monotonic:
            return self.sensitivity * _HALF
        return self.sensitivity

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        all_candidates = candidates(self, self.law, answers, labels)
        if self.k >= all_candidates.size:
            raise ValueError(
                f"k must be below the number of answers, {all_candidates.size}, not {self.k}: "
                "all answers together are the top set, whatever they are"
            )
        return all_candidates

    def draw_paid(self, candidates: Candidates) -> Draw[TopSet]:
        """Select; the caller has paid. The order of members reveals nothing."""
        bits = secure_bits()
        grouped = by_value(candidates)
        values = grouped.private_answers
        classes = Classes(values, grouped.groups.sizes, self.k)
        winner = select_classes(self.half_step_law, classes, 1, bits)
        groups, places = classes.draw_members(int(winner.classes[0]), bits)
        shuffled = bits.distinct(groups.size, groups.size)  # members without a position
        groups = groups[shuffled]
        members = grouped.find(groups, places[shuffled])
        order = np.argsort(members.positions, kind="stable")
        labels = members.labels
        if labels is not None:
            labels = tuple([labels[index] for index in order.tolist()])
        top_set = TopSet(members.positions[order], labels, int(winner.leads[0]))
        return Draw(top_set, values[groups[order]])

    def winners(self, top_set: TopSet) -> Winners:
        """The drawn winners in the units of answers, with their evidence and the promise."""
        lead = top_set.lead * Grid(self.grid).width / 2
        return Winners(
            indices=top_set.indices,
            labels=top_set.labels,
            gaps=np.empty(0),
            evidence=Evidence.of([lead], [self.law]),
            promise=Promise(self.cost, self.sensitivity, self.monotonic),
            lead=lead,
        )

    def build(self, top_set: TopSet) -> SelectedItems:
        """The release of what was drawn."""
        return self.winners(top_set).released(MechanismUsed.of(self), self.cost)


def by_value(candidates: Candidates) -> InGroups:
    """Equal answers in groups."""
    if isinstance(candidates, InGroups):
        return candidates
    answers = candidates.private_answers
    smallest = answers.min()
    distances, sizes = tally(answers - smallest)
    values = distances + smallest

    def find(groups: Integers, places: Integers) -> Found:
        positions = np.empty(groups.size, dtype=np.int64)
        for group in np.unique(groups):
            members = np.flatnonzero(answers == values[group])
            positions[groups == group] = members[places[groups == group]]
        return Found(positions, None)

    return InGroups(values, candidates.labels, Groups(values, sizes, find))


TOP_SET = 0
"""The number of the top set's class, which has no other member."""

_TABLE = 1 << 16


class Block(NamedTuple):
    """Consecutive classes: their numbers begin at `first`."""

    first: int
    margins: Integers
    log_sizes: Floats
    """Upper bounds of the logarithms of their sizes."""

    def __repr__(self) -> str:
        return redacted_repr(self)


class Classes:
    """All sets of k answers, sorted into classes that have the same margin and can be counted.

    Answers are given by value; k is below their number. Rank them, largest first, equal ones in any
    fixed order. The *top set* takes ranks 1 to k. Every other set leaves out some rank up to k: let
    h + 1 be the first one. It also takes ranks after k: let t be the last one. Then its margin, the
    smallest answer taken less the largest left out, is the answer of rank t less the answer of rank
    h + 1. All t in one group of equal answers give the same margin. So h and the group are a class.

    The size of a class: a set whose last rank is t takes ranks 1 to h and t, not h + 1, and
    k − h − 1 of the ranks between. Summed over the group's ranks t = lo … hi this is

        C(hi − h − 1, k − h) − C(lo − h − 2, k − h).

    There may be C(10^12, 100) sets, but there are at most k classes for every different value.
    """

    def __init__(self, values: Integers, sizes: Integers, k: int) -> None:
        self._order = np.argsort(-values, kind="stable")
        self._values = values[self._order]
        self._sizes = sizes
        self.k = k
        self._ends = np.cumsum(sizes[self._order])
        """The last rank of each group; ranks count from 1."""
        below = int(np.searchsorted(self._ends, k + 1))  # the group of the first rank below k
        self._highs = self._ends[below:]
        self._lows = np.append(np.int64(k + 1), self._highs[:-1] + 1)
        self._low_values = self._values[below:]
        self.width = self._highs.size
        """How many classes have the same first rank left out."""
        self.count = 1 + k * self.width
        """How many classes there are; they are numbered from 0."""
        self._top_values = self._values[np.searchsorted(self._ends, np.arange(1, k + 1))]

    __repr__ = redacted_repr

    def margin(self, number: int) -> int:
        """The margin of every set in a class, in steps."""
        if number == TOP_SET:
            return int(self._top_values[-1] - self._low_values[0])
        h, group = divmod(number - 1, self.width)
        return int(self._low_values[group] - self._top_values[h])

    def size(self, number: int) -> int:
        """How many sets a class has."""
        if number == TOP_SET:
            return 1
        h, group = divmod(number - 1, self.width)
        low = int(self._lows[group])
        high = int(self._highs[group])
        return math.comb(high - h - 1, self.k - h) - math.comb(low - h - 2, self.k - h)

    def blocks(self, length: int) -> Iterator[Block]:
        """All classes but the top set's, ordered by how many top ranks they keep.

        A block has about `length` of them.

        A class has at most c = C(hi − h − 1, k − h) sets. It also has at most its group's size
        times the number of sets with the lowest rank hi, which is c·(k − h)/(hi − h − 1).
        """
        rows = max(1, length // self.width)
        for first in range(0, self.k, rows):
            h = np.arange(first, min(first + rows, self.k))[:, None]
            ranks_between = self._highs - h - 1
            share = (self._highs - self._lows + 1.0) * (self.k - h) / ranks_between
            logs = log_choose(ranks_between, self.k - h) + np.log(np.minimum(share, 1.0)) + _SLACK
            margins = self._low_values - self._top_values[h]
            yield Block(1 + first * self.width, margins.ravel(), logs.ravel())

    def draw_ranks(self, number: int, bits: Bits) -> Integers:
        """The ranks that a uniformly drawn set of a class takes, from 1."""
        if number == TOP_SET:
            return np.arange(1, self.k + 1)
        h, group = divmod(number - 1, self.width)
        low = int(self._lows[group])
        ranks = range(low, int(self._highs[group]) + 1)

        def sets_up_to(rank: int) -> int:
            """Sets are numbered by their last rank: those up to this one have lower numbers."""
            return math.comb(rank - h - 1, self.k - h)

        drawn_set = sets_up_to(low - 1) + bits.below(self.size(number))
        last = low + bisect.bisect_right(ranks, drawn_set, key=sets_up_to)
        between = bits.distinct(self.k - h - 1, last - h - 2) + h + 2
        return np.concatenate([np.arange(1, h + 1), between, [last]])

    def draw_members(self, number: int, bits: Bits) -> tuple[Integers, Integers]:
        """A uniformly drawn set of a class: its groups, and indices in the groups.

        The ranks give the number of members that each group has in the set. The members of a group
        have equal answers, so these members are drawn uniformly.
        """
        ranks = self.draw_ranks(number, bits)
        groups = np.sort(self._order[np.searchsorted(self._ends, ranks)])
        return groups, places_of(groups, self._sizes, bits)


_SLACK = 2.0**-20
"""A bound of the rounding errors of logarithms that are not from the table."""


def log_choose(n: Integers, r: Integers) -> Floats:
    """A close upper bound of ln C(n, r), except for rounding errors of up to `_SLACK`.

    Small factorials are from a table. For large ones, each factor a, a − 1, … is replaced by the
    mean of all. This makes the logarithm of their product larger by less than r³/(24·(a − r)²).
    """
    log_factorials, error = _log_factorials(max(_TABLE, 1 << int(r.max()).bit_length()))
    small = np.minimum(n, log_factorials.size - 1)
    logs = log_factorials[small] - log_factorials[np.maximum(small - r, 0)]
    large = n >= log_factorials.size
    if large.any():
        logs = np.where(large, r * np.log(n - (r - 1) / 2), logs)
    return logs - log_factorials[r] + error


@lru_cache(maxsize=2)
def _log_factorials(size: int) -> tuple[Floats, float]:
    """Logarithms of 0!, 1!, …; and a bound of the error of a sum of three."""
    logs = np.log(np.maximum(np.arange(size), 1))
    table = np.cumsum(logs)
    return table, size * 2.0**-50 * float(table[-1])


_WORDS_AT_ONCE = 1 << 18
_FLOAT_BITS = 900
_LN_2 = math.log(2)
_ROUNDING = 2.0**-48


class WinningClasses(NamedTuple):
    """For each run: the class of the set that won, and its lead in half steps."""

    classes: Integers
    leads: Integers

    def __repr__(self) -> str:
        return redacted_repr(self)


def select_classes(
    law: MemorylessLaw,
    classes: Classes,
    runs: int,
    bits: Bits,
    small: int = 64,
    block: int = 1 << 19,
) -> WinningClasses:
    """Choose among all sets `runs` times. Margins in steps are half-margins in half steps.

    So `law` is the law of the noise in half steps. If there are more classes than `small`, certain
    losers are left out, block by block.

    In a class of sets, only the two sets with the largest noise matter: one may win, and the other
    may come second. These two noises are drawn directly from their law, for any number of sets, as
    for equal answers in a grouped Top-K.

    Most classes are certain losers, and one random word shows this: it gives an upper bound of the
    largest noise of the class. Sizes are huge integers. They are computed only for the contenders,
    in the order of their bounds, until all other bounds are below the second best value so far.
    Contenders are compared on floats that enclose their values. If these overlap, the program's own
    comparison decides, on the same draws, refined as far as needed. A class that is left out cannot
    win or come second, so leaving it out changes no release.
    """
    limit = small if runs == 1 else 32 * small  # NumPy computes many runs at once
    if classes.count > limit:
        batches = [_contenders(law, classes, bits, block) for _ in range(runs)]
    else:
        batches = []
        contenders = Contenders.of(classes, range(classes.count))
        at_once = max(1, _WORDS_AT_ONCE // classes.count)
        for done in range(0, runs, at_once):
            random_words = bits.words(2, min(at_once, runs - done), classes.count)
            batches.append((contenders, random_words))
    winners = [_rank(law, contenders, random_words, bits) for contenders, random_words in batches]
    return WinningClasses(
        classes=np.concatenate([batch.classes for batch in winners]),
        leads=np.concatenate([batch.leads for batch in winners]),
    )


class Contenders(NamedTuple):
    """Classes with their margins and exact sizes."""

    numbers: list[int]
    margins: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, classes: Classes, numbers: Sequence[int]) -> "Contenders":
        """Some of the classes, by number."""
        return cls(
            numbers=list(numbers),
            margins=[classes.margin(number) for number in numbers],
            sizes=[classes.size(number) for number in numbers],
        )

    def joined(self, others: "Contenders") -> "Contenders":
        """These classes, and then the others."""
        return Contenders(
            numbers=self.numbers + others.numbers,
            margins=self.margins + others.margins,
            sizes=self.sizes + others.sizes,
        )

    def __repr__(self) -> str:
        return redacted_repr(self)

    def bounds(self, law: MemorylessLaw, random_words: Words, origin: int) -> tuple[Floats, Floats]:
        """Floats around the two largest values of each class, less `origin`.

        Words are two for every class along the first axis, the classes along the last. All largest
        values come first, then all second largest; that of a single set is −∞.
        """
        offsets = np.array([margin - origin for margin in self.margins], dtype=np.float64)
        shifts = np.array([max(size.bit_length() - _FLOAT_BITS, 0) for size in self.sizes])
        pairs = zip(self.sizes, shifts.tolist(), strict=True)
        sizes = np.array([float(size >> shift) for size, shift in pairs])
        # For sizes of 2^900 and more, size − 1 and size are the same float. A single set has no
        # second value: see below.
        sizes_less_one = np.maximum(sizes - (shifts == 0), 1.0)
        # The axes are: ends, first and second, …, classes.
        sums = np.stack(exponential_bounds(1.0, random_words))
        sums[:, 0] /= sizes
        sums[:, 1] = sums[:, 0] + sums[:, 1] / sizes_less_one
        sums[0] *= 1 - _ROUNDING
        sums[1] *= 1 + _ROUNDING
        low_noise, high_noise = law.quantile_bounds(sums)
        # A sum that is 2^j times too large gives a noise that is j·ln 2 too small.
        shifted = offsets + float(law.scale) * _LN_2 * shifts
        slack = (np.abs(offsets) + np.abs(shifted) + np.abs(low_noise)) * _ROUNDING
        low = shifted + low_noise - slack
        high = shifted + high_noise + slack
        is_single = sizes == 1
        low[1, ..., is_single] = -np.inf
        high[1, ..., is_single] = -np.inf
        return np.concatenate(list(low), axis=-1), np.concatenate(list(high), axis=-1)


def _contenders(
    law: MemorylessLaw, classes: Classes, bits: Bits, block: int
) -> tuple[Contenders, Words]:
    """The classes that may win or come second, and two words for each, as one run."""
    origin = classes.margin(TOP_SET)
    contenders = Contenders.of(classes, [TOP_SET])
    random_words = bits.words(2, 1)
    largest_two_bounds, _ = contenders.bounds(law, random_words, origin)
    for start, margins, log_sizes in classes.blocks(block):
        first_words = bits.words(margins.size)
        upper_bounds = _upper_bounds(law, margins - origin, log_sizes, first_words)
        waiting = np.array([upper_bounds.argmax()])
        size = 1
        while waiting.size:
            batch = waiting[:size]
            waiting = waiting[size:]
            of_batch = Contenders.of(classes, (batch + start).tolist())
            words_of_batch = np.stack([first_words[batch], bits.words(batch.size)])
            contenders = contenders.joined(of_batch)
            random_words = np.concatenate([random_words, words_of_batch], axis=1)
            lower_bounds, _ = of_batch.bounds(law, words_of_batch, origin)
            largest_two_bounds = np.sort(np.append(largest_two_bounds, lower_bounds))[-2:]
            bar = float(largest_two_bounds[0])
            if size == 1:  # now there is a bar: only classes that may reach it are sorted
                waiting = np.flatnonzero(upper_bounds >= bar)
                waiting = waiting[waiting != batch[0]]  # bounds may tie
                waiting = waiting[np.argsort(-upper_bounds[waiting])]
            waiting = waiting[upper_bounds[waiting] >= bar]
            size *= 4
    return contenders, random_words[:, None, :]


def _upper_bounds(
    law: MemorylessLaw, offsets: Integers, log_sizes: Floats, random_words: Words
) -> Floats:
    """Upper bounds of the values of classes: −ln(1 − e^(−s)) falls, and < ln(1/s) + ½ for s ≤ 1."""
    low_waits, _ = exponential_bounds(1.0, random_words)
    noise = np.maximum(log_sizes - np.log(low_waits), 0.0) + (0.5 + 2.0**-20)
    upper_bounds: Floats = offsets + float(law.scale) * (1 + 2.0**-40) * noise
    upper_bounds += np.abs(offsets) * _ROUNDING
    return upper_bounds


def _rank(
    law: MemorylessLaw, contenders: Contenders, random_words: Words, bits: Bits
) -> WinningClasses:
    """The winner of every run and its lead; words have the shape (two, runs, contenders)."""
    low, high = contenders.bounds(law, random_words, max(contenders.margins))
    order, leads, certain = ranked(low, high, 1)
    winners = order[:, 0] % len(contenders.numbers)
    for run in np.flatnonzero(~certain):
        pairs = list(largest_two(law, contenders, random_words[:, run], bits))
        best, leads[run] = winner_and_lead([value for _, value in pairs])
        winners[run], _ = pairs[best]
    return WinningClasses(np.array(contenders.numbers)[winners], leads[:, 0])


def winner_and_lead(noisy: Sequence[Scalar]) -> tuple[int, Scalar]:
    """The index of the largest number, and its lead."""
    winner = max(range(len(noisy)), key=noisy.__getitem__)
    others = (*noisy[:winner], *noisy[winner + 1 :])
    return winner, noisy[winner] - max(others)


def largest_two(
    law: MemorylessLaw, contenders: Contenders, random_words: Words, bits: Bits
) -> Iterator[tuple[int, Real]]:
    """The largest value of every class, and the second largest if it has two; with its index."""
    words_of_classes = random_words.T.tolist()
    for index, margin in enumerate(contenders.margins):
        size = contenders.sizes[index]
        for draw in top_draws(law, size, words_of_classes[index][:size], bits):
            yield index, Real(margin, draw)
