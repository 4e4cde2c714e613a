"""Noisy Top-K with gap: the k largest answers in order, and by how much each one leads.

This is Algorithm 1 of the paper. Every answer gets noise; the k largest noisy answers win. Their
indices are released, and also the gaps between neighbours in the ranking, at no extra cost. k = 1
is Noisy Max with gap.

Real noise never ties, and dpgap's noise is real: `release` decides every comparison on exact draws.
It releases the floors of the real leads over the best loser, and gaps are differences of these. So
a release is post-processing of the same algorithm that the alignment proves private. (Floors of
single gaps would each lose half a step, and 25 of them add up to a bias of −12.)
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from fractions import Fraction
from functools import cache, partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.budget.cost import Cost, equal_part
from dpgap.data.private_counts import (
    Found,
    Groups,
    PrivateCounts,
    errors_without_answers,
    redacted_repr,
    require_facts,
)
from dpgap.estimates.certificates import Evidence
from dpgap.exact.bits import Bits, Words, secure_bits
from dpgap.exact.grid import Grid, Labels, read_grid, require_labels
from dpgap.exact.laws import (
    LAWS,
    MemorylessLaw,
    Noise,
    Quantiles,
    RealLaw,
    Scalar,
    Vector,
    either,
    law_on_grid,
    require_memoryless,
    require_noise,
)
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    altered,
    boolean,
    declared,
    derived,
    parameter,
    positive_integer,
    positive_rational,
    remembered,
)
from dpgap.exact.reals import (
    LOW_MASK,
    Enclosure,
    Flags,
    Floats,
    Integers,
    RealNoise,
    Refined,
    Uniform,
    exponential_bounds,
)
from dpgap.mechanisms.mechanism import Answers, Claims, Draw, Selecting, Winners, gaps_of
from dpgap.releases.drawn import Ranking
from dpgap.releases.release import MaxRelease, MechanismUsed, Promise, TopKRelease

# --------------------------------------------------------------------------------------------------
# The candidates of a Top-K: answers one by one, or equal answers in groups.
#
# Both give the same winners with the same chances. One by one, every answer is read; in groups,
# only every different value.


class OneByOne(NamedTuple):
    """Candidates one by one: an answer in steps for each."""

    private_answers: Integers
    labels: Labels

    def __repr__(self) -> str:
        return redacted_repr(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.private_answers.size

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        lowest = self.size - max(ranks)
        top = np.sort(np.partition(self.private_answers, lowest)[lowest:])
        return top[[-rank for rank in ranks]]


class InGroups(NamedTuple):
    """Candidates in groups: an answer in steps for each group, and the groups."""

    private_answers: Integers
    labels: Labels
    """Labels of the answers by their positions, if the groups have none."""
    groups: Groups
    reach: int | None = None
    """If items are unknown: the most items that one unit may have."""

    def __repr__(self) -> str:
        return redacted_repr(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.groups.sizes.sum())

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        order = np.argsort(-self.private_answers)
        ends = np.cumsum(self.groups.sizes[order])
        return self.private_answers[order[np.searchsorted(ends, ranks)]]

    def find(self, groups: Integers, places: Integers) -> Found:
        """The positions and labels of some members of groups."""
        found = self.groups.find(groups, places)
        if self.labels is None:
            return found
        return Found(found.positions, named(found.positions, self.labels))


Candidates = OneByOne | InGroups
Output = tuple[tuple[int, ...], Any]
"""The output of a program: the winners, and their leads or the lead of the set."""


class Ranked(Claims, Protocol):
    """A mechanism that ranks noisy answers."""

    @property
    def law(self) -> RealLaw: ...
    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]: ...


def candidates(own: Claims, law: RealLaw, answers: Answers, labels: Labels) -> Candidates:
    """The answers in steps, and their labels; refused before anything is charged."""
    if isinstance(answers, PrivateCounts):
        require_facts(answers, labelled=labels is not None, **claims_of(own))
        if not isinstance(law, MemorylessLaw):  # only memoryless laws can draw the largest directly
            if answers.labels is None:
                require_memoryless(law, "where the domain is a table")
            labels = answers.labels if labels is None else labels
            answers = answers.expanded()
    return as_candidates(answers, labels, Grid(own.grid))


def as_candidates(answers: Answers, labels: Labels, grid: Grid) -> Candidates:
    """The answers in steps, and their labels. Of unknown items there may be none."""
    if not isinstance(answers, PrivateCounts):
        steps = grid.steps(answers)
        return OneByOne(steps, require_labels(labels, steps.size, answers))
    groups = answers.groups()
    values = groups.values
    steps = grid.steps(values) if values.size else np.empty(0, dtype=np.int64)
    if answers.unknown:
        return InGroups(steps, None, groups, answers.reach)
    return InGroups(steps, require_labels(labels, len(answers)), groups)


def claims_of(own: Claims) -> dict[str, Any]:
    """The claims that a mechanism makes about answers, as keyword arguments."""
    return {"monotonic": own.monotonic, "sensitivity": own.sensitivity, "grid": own.grid}


def law_for(own: Claims, winners: int, noise: str) -> RealLaw:
    """The noise of each answer, if ε pays for `winners` winners separately."""
    shared = winners if own.monotonic else 2 * winners
    law = law_on_grid(LAWS[noise], own.grid, own.sensitivity, equal_part(own.epsilon, shared))
    if not isinstance(law, RealLaw):
        raise ValueError(f"noise must be {either(RealLaw)} for a Top-K: {law.name} noise can tie")
    return law


def ranked_winners(
    own: Ranked, drawn: Ranking, most: Cost, *, somebody_lost: bool = True
) -> Winners:
    """A ranking in the units of answers; with the evidence of its leads, if somebody lost."""
    width = Grid(own.grid).width
    leads = (drawn.leads * width).tolist() if somebody_lost else []
    return Winners(
        drawn.indices,
        drawn.labels,
        gaps_of(drawn.leads, width),
        Evidence.of(leads, [own.law] * len(leads)),
        Promise(most, own.sensitivity, own.monotonic),
    )


def named(indices: Integers, labels: Labels) -> tuple[Any, ...] | None:
    """The labels of some of the answers."""
    return None if labels is None else tuple(labels[i] for i in indices.tolist())


# --------------------------------------------------------------------------------------------------
# The alignment for noise that is never negative. docs/exponential-top-k.md has the proof.
#
# Outputs do not change if all answers move by the same amount. So assume that no answer rises: each
# *falls* by its own amount. The noise of each winner rises by the winner's fall. Then the noise of
# all winners falls by the same amount, the fall of the best loser, but never below zero. If the
# best loser falls farther than this, its noise rises instead.


class Extremes(NamedTuple):
    """The quantities that decide the shift of each draw."""

    rise: Scalar
    """The rise of the winners' least noise, if each winner's noise rises by its fall."""
    drop: Scalar
    """How far the winners, and the best loser, come down together."""
    raised: int | None
    """The loser whose noise is raised, if there is one."""


STAYING = Extremes(0, 0, None)
"""Nothing comes down: the noise of the line rises by the line's fall too."""


def extremes(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The extremes, from the noise that was drawn."""
    return _settled(*_distances(answers, falls, noise, winners))


def extremes_undone(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The same extremes, from shifted noise: the inverse works in the same way, downwards."""
    fallen = [answer - fall for answer, fall in zip(answers, falls, strict=True)]
    rise, fall, best = _distances(fallen, [-fall for fall in falls], noise, winners)
    return _settled(-rise, -fall, best)


def _distances(
    answers: Vector, falls: Vector, noise: Vector, winners: Any
) -> tuple[Scalar, Scalar, int | None]:
    """The rise of the winners' least noise, the fall of the best loser, and its index."""
    losers = [i for i in range(len(answers)) if i not in winners]
    noisy = [answer + value for answer, value in zip(answers, noise, strict=True)]
    rise = min(noise[i] + falls[i] for i in winners) - min(noise[i] for i in winners)
    if not losers:
        return rise, rise, None
    best = max(losers, key=noisy.__getitem__)
    return rise, noisy[best] - max(noisy[i] - falls[i] for i in losers), best


def _settled(rise: Scalar, fall: Scalar, best: int | None) -> Extremes:
    return Extremes(rise, rise, best) if fall > rise else Extremes(rise, fall, None)


def shift_of(place: int, falls: Vector, winners: Any, by: Extremes) -> Scalar:
    """How far the draw of one answer is shifted."""
    if place in winners:
        return falls[place] - by.drop
    return falls[place] - by.rise if place == by.raised else 0


# --------------------------------------------------------------------------------------------------


@public
@declared()
class NoisyTopK(Selecting[Candidates, TopKRelease]):
    """Find the k largest answers and the gaps between them.

    Answers are *monotonic* if one person can only move all of them up, or all of them down, as
    counts do. Guarantee: pure ε-differential privacy of the indices and the gaps together.

    Parameters
    ----------
    k
        How many answers to find.
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    noise
        The law of the noise. "exponential", the default, has p-values and the least spread;
        "laplace" is the paper's; or "staircase".
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> top = NoisyTopK(k=2, epsilon=1000, monotonic=True)
    >>> release = top.release([10, 50, 90, 20], labels=["fig", "pea", "oat", "rye"])
    >>> release.labels
    ('oat', 'pea')
    """

    k: int = parameter(positive_integer)
    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)
    sensitivity: Exact = parameter(positive_rational, default=1)
    noise: str = parameter(require_noise, default="exponential")
    grid: ExactOrNone = parameter(read_grid, default=None)
    law: RealLaw = derived(lambda self: law_for(self, self.k, self.noise))
    _kind: ClassVar[type[TopKRelease]] = TopKRelease

    @remembered
    def in_steps(self) -> "NoisyTopK":
        """The same mechanism, for answers in whole grid steps."""
        grid = Grid(self.grid)
        law = self.law.scaled(1 / grid.step)
        return altered(self, sensitivity=grid.up(self.sensitivity), grid=None, law=law)

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
        """The algorithm: the k winning indices, and each winner's lead over the best loser.

        If every answer wins, there is no loser; then leads are over the last winner.
        """
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        last = min(self.k, len(ranking) - 1)
        leads = [noisy[winner] - noisy[ranking[last]] for winner in ranking[:last]]
        return tuple(ranking[: self.k]), tuple(leads)

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The proof: how far to shift each draw so that the neighbour gives the same output.

        Losers keep their noise. The noise of each winner is shifted by the winner's change and the
        best loser's change, so all win by the same margin: at most 2Δ each, or Δ if monotonic. For
        noise that is never negative, `extremes` gives the shifts.
        """
        winners, _ = output
        if not self.law.signed:
            falls = self.falls(answers, neighbour)
            by = extremes(answers, falls, noise, winners)
            return [shift_of(i, falls, winners, by) for i in range(len(answers))]
        losers = [i for i in range(len(answers)) if i not in winners]
        rise: Scalar = 0
        if losers:
            rise = max(neighbour[i] + noise[i] for i in losers) - max(
                answers[i] + noise[i] for i in losers
            )
        return [
            answers[i] - neighbour[i] + rise if i in winners else 0 for i in range(len(answers))
        ]

    def unalign(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The inverse of `align`: it proves that no two draws are shifted to the same."""
        winners, _ = output
        if self.law.signed:  # losers kept their noise, which decides
            return [-shift for shift in self.align(answers, neighbour, noise, output)]
        falls = self.falls(answers, neighbour)
        by = extremes_undone(answers, falls, noise, winners)
        return [-shift_of(i, falls, winners, by) for i in range(len(answers))]

    def falls(self, answers: Vector, neighbour: Vector) -> list[Scalar]:
        """How far each answer falls behind a common rise: from 0 to 2Δ, to Δ if monotonic."""
        rise = self.rise(sum(answers), sum(neighbour))
        return [rise + before - after for before, after in zip(answers, neighbour, strict=True)]

    def rise(self, before: Scalar, after: Scalar) -> Scalar:
        """The most that an answer can rise, given the sums: Δ, or 0 if all of them fall."""
        # Monotonic answers all move in the same direction, so their sum shows the direction.
        return 0 if self.monotonic and after <= before else self.sensitivity

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        found = candidates(self, self.law, answers, labels)
        if self.k > found.size:
            raise ValueError(f"k must be at most the number of answers, {found.size}, not {self.k}")
        return found

    def draw_paid(self, candidates: Candidates) -> Draw[Ranking]:
        """Select; the caller has paid."""
        return draw_ranking(self.in_steps(), candidates)

    def winners(self, drawn: Ranking) -> Winners:
        """The drawn winners in the units of answers, with their evidence and the promise."""
        return ranked_winners(self, drawn, self.cost, somebody_lost=drawn.leads.size == self.k)

    def build(self, drawn: Ranking) -> TopKRelease:
        """The release of what was drawn."""
        told = self.winners(drawn).selected()
        return self._kind(self.cost, mechanisms=(MechanismUsed.of(self),), **told)


@public
@declared()
class NoisyMax(NoisyTopK):
    """Find the largest answer and its gap to the runner-up: Noisy Top-K with k = 1.

    Parameters
    ----------
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    noise
        The law of the noise. "exponential", the default, has p-values and the least spread;
        "laplace" is the paper's; or "staircase".
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> NoisyMax(epsilon=1000, monotonic=True).release([10, 50, 90, 20]).index
    2
    """

    k: int = field(default=1, init=False)
    _kind: ClassVar[type[TopKRelease]] = MaxRelease

    @errors_without_answers
    def release(
        self, answers: Answers, *, labels: Labels = None, account: Account | None = None
    ) -> MaxRelease:
        """Select on secure exact noise: `answers`, `labels` and `account` as for `NoisyTopK`."""
        return cast(MaxRelease, NoisyTopK.release(self, answers, labels=labels, account=account))


# --------------------------------------------------------------------------------------------------
# The kernel: the same selection as the program's, for many answers or many runs.
#
# Nearly every answer is a certain loser, and its random word shows this: the noise that it would
# need to matter has a known chance, and the word is either below this chance or not. Logarithms are
# computed only for the contenders. They are ranked on floats that enclose their noisy answers. If
# these overlap, the program itself decides, on the same draws. So the result is exactly the
# program's.
#
# This takes one pass over the answers, and constant extra memory. A line is one more contender.


_CHUNK = 1 << 15
_WORDS_AT_ONCE = 1 << 18
_BLOCK = 64
_ALL_BITS = np.uint64((1 << 64) - 1)


class Selected(NamedTuple):
    """One row for each run: indices, best first, and their leads, in steps.

    If a line ended the ranking, the rest of the row is −1, with leads of 0.
    """

    indices: Integers
    leads: Integers


def draw_ranking(program: Ranked, candidates: Candidates, line: int | None = None) -> Draw[Ranking]:
    """Run the program once on secure noise. A line competes as one more candidate."""
    bits, answers = secure_bits(), candidates.private_answers
    if isinstance(candidates, InGroups):
        sizes = candidates.groups.sizes
        won, places, leads = select_grouped(program, answers, sizes, bits, line)
        found = candidates.find(won, places)
    else:
        (indices,), (every,) = select(program, answers, 1, bits, line)
        count = np.count_nonzero(indices >= 0)
        won, leads = indices[:count].copy(), every[:count].copy()  # views would keep more memory
        found = Found(won, named(won, candidates.labels))
    return Draw(Ranking(*found, leads), answers[won])


def select(
    program: Ranked,
    answers: Integers,
    runs: int,
    bits: Bits,
    line: int | None = None,
    small: int = 1 << 11,
    first_chunk: int = 1 << 8,
) -> Selected:
    """Run the program `runs` times on the same answers, in steps, with fresh noise.

    A line is the last candidate, with noise of its own. If there are more answers than `small`,
    certain losers are left out, chunk by chunk.
    """
    rows = []
    for some, words in contenders(program, answers, runs, bits, small, first_chunk):
        values, names = answers[some], some
        if line is not None:
            values, names = np.append(values, line), np.append(some, -1)
            own = bits.words(program.law.words_per_draw, words.shape[1], 1)
            words = np.concatenate([words, own], axis=2)
        low, high = noisy_bounds(values - values.max(), program.law.bounds(words))
        rank = ranked if line is None else ranked_to_line
        indices, leads, certain = rank(low, high, program.k)
        for row in np.flatnonzero(~certain):
            noise = RealNoise(program.law.reals(words[:, row], bits))
            winners, whole = program.run(answers[some].tolist(), noise)
            indices[row], leads[row] = -1, 0
            indices[row, : len(winners)], leads[row, : len(whole)] = winners, whole
        rows.append((names[indices], leads))
    return Selected(*map(np.concatenate, zip(*rows, strict=True)))


def contenders(
    program: Ranked, answers: Integers, runs: int, bits: Bits, small: int, first_chunk: int
) -> Iterator[tuple[Integers, Words]]:
    """Some runs at a time: the answers that may be among the best k + 1, sorted, and their words.

    Words have the shape (words of a draw, runs, answers).
    """
    n, law = answers.size, program.law
    if n > small:
        for _ in range(runs):
            some, words = _contenders(law, min(program.k + 1, n), answers, bits, first_chunk)
            yield some, words[:, None, :]
        return
    at_once = max(1, _WORDS_AT_ONCE // max(1, n * law.words_per_draw))
    for done in range(0, runs, at_once):
        yield np.arange(n), bits.words(law.words_per_draw, min(at_once, runs - done), n)


def _contenders(
    law: RealLaw, need: int, answers: Integers, bits: Bits, size: int
) -> tuple[Integers, Words]:
    """The answers that may be among the best `need`, in order, and their words.

    The first chunk has `size` answers; chunks grow from there.
    """
    best = int(answers.max())
    contenders = np.empty(0, dtype=np.int64)
    words = np.empty((law.words_per_draw, 0), dtype=np.uint64)
    bar = -math.inf  # an answer must reach this: the need-th largest lower bound so far
    start = 0
    while start < answers.size:
        chunk = answers[start : start + size]
        first = bits.words(chunk.size)
        hits = _may_reach(law, first, bar, chunk - best)
        if hits.size:
            drawn = first[None, hits]
            if law.words_per_draw > 1:
                drawn = np.concatenate([drawn, bits.words(law.words_per_draw - 1, hits.size)])
            contenders = np.concatenate([contenders, hits + start])
            words = np.concatenate([words, drawn], axis=1)
            if contenders.size >= need:
                low, high = noisy_bounds(answers[contenders] - best, law.bounds(words))
                bar = float(np.partition(low, -need)[-need])
                contenders, words = contenders[high >= bar], words[:, high >= bar]
        start, size = start + size, min(2 * size, _CHUNK)  # the bar rises before chunks grow
    return contenders, words


def _may_reach(law: RealLaw, words: Words, bar: float, offsets: Integers) -> Integers:
    """The indices at which an offset plus its noise may reach the bar; none is missed.

    Noise beyond x needs E·scale > x − overshoot. So m < 2^63·e^(−x/scale) and, with two signs, a
    top bit of 0. A block of answers has one limit on m, that of its largest offset. All roundings
    are in the direction that misses none.
    """
    blocks = np.maximum.reduceat(offsets, np.arange(0, offsets.size, _BLOCK)).astype(np.float64)
    beyond = bar - blocks - (abs(bar) + np.abs(blocks)) * 2.0**-48
    beyond -= float(law.overshoot) * (1 + 2.0**-48)
    exponent = np.maximum(beyond, 0.0) * ((1 - 2.0**-40) / float(law.scale))
    chance = np.minimum(np.exp(-exponent) * (1 + 2.0**-30), 1.0)
    limits = (chance * 2.0**63).astype(np.uint64) + np.uint64(2)
    if law.signed:
        limits[exponent == 0] = _ALL_BITS  # negative noise may be enough
    else:
        words = words & LOW_MASK
    return np.flatnonzero(words <= np.repeat(limits, _BLOCK)[: words.size])


def noisy_bounds(offsets: Integers, ends: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Floats that enclose offset + noise, from the ends of the noise; roundings are included."""
    (low, high), whole = ends, offsets.astype(np.float64)
    slack = (np.abs(whole) + np.abs(low)) * 2.0**-50
    return whole + low - slack, whole + high + slack


def ranked(low: Floats, high: Floats, k: int) -> tuple[Integers, Integers, Flags]:
    """Rank enclosed numbers row by row: the best k, their leads, and whether this is certain."""
    order, low, high, certain = in_order(low, high, min(k + 1, low.shape[1]))
    least = np.floor(low[:, :-1] - high[:, -1:])
    most = np.floor(high[:, :-1] - low[:, -1:])
    certain &= (least == most).all(axis=1)
    # Uncertain rows may hold infinities; the caller replaces them. This is a copy, because a view
    # would keep the whole ranking in memory.
    return order[:, :k].copy(), least.astype(np.int64), certain


def ranked_to_line(low: Floats, high: Floats, k: int) -> tuple[Integers, Integers, Flags]:
    """Rank the numbers above a line, the last column; after it indices are −1 and leads 0."""
    line = low.shape[1] - 1
    order, low, high, certain = in_order(low, high, min(k, line) + 1)
    is_line = order == line
    ends = np.where(is_line.any(axis=1), is_line.argmax(axis=1), order.shape[1] - 1)[:, None]
    least = np.floor(low - np.take_along_axis(high, ends, axis=1))
    most = np.floor(high - np.take_along_axis(low, ends, axis=1))
    wins = np.arange(order.shape[1]) < ends
    certain &= ((least == most) | ~wins).all(axis=1)
    indices, leads = np.where(wins, order, -1), np.where(wins, least, 0.0).astype(np.int64)
    return indices[:, :-1].copy(), leads[:, :-1].copy(), certain


def in_order(low: Floats, high: Floats, need: int) -> tuple[Integers, Floats, Floats, Flags]:
    """Indices of the top `need` of each row in order, with bounds; and which rows are certain."""
    runs, n = low.shape
    starts = np.arange(runs)[:, None] * n  # of rows; indexing is fastest on flat arrays
    best = np.argpartition(low, n - need, axis=1)[:, n - need :] + starts
    ranks = np.argsort(-low.take(best), axis=1)
    order = best.take(ranks + starts // n * need)
    # A row is decided if each of the best `need` is certainly above all that are ranked after it.
    others = high.copy()
    others.put(best, -np.inf)
    low, high = low.take(order), high.take(order)
    after = np.concatenate([high[:, 1:], others.max(axis=1, keepdims=True)], axis=1)
    rest = np.maximum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
    certain: Flags = np.logical_and.reduce(low > rest, axis=1)
    return order - starts, low, high, certain


# --------------------------------------------------------------------------------------------------
# Noisy Top-K on grouped answers: many answers with the same value cost no more than a few.
#
# Of m answers with one value, only the k + 1 largest noises can matter. These are drawn directly
# from their law. With V₁, V₂, … uniform, the largest of m uniforms is V₁^(1/m), the next is this
# times V₂^(1/(m−1)), and so on; the noise is the law's quantile of them. So the count of counts of
# a table is enough for a selection, for any number of items. The result has the same law as a
# selection from all answers one by one, including ties and gaps.
#
# Like every draw, these are real numbers refined on demand. Floats enclose them; if floats overlap,
# the program decides on decimals and further bits.


_STRETCH = 256
_GROWTH = 8


class GroupedSelection(NamedTuple):
    """For each winner, best first: its group, its index in the group, and its lead in steps.

    Indices are uniform among a group's members, and distinct.
    """

    groups: Integers
    places: Integers
    leads: Integers


def select_grouped(
    program: Ranked, values: Integers, sizes: Integers, bits: Bits, line: int | None = None
) -> GroupedSelection:
    """Run the program once on answers given as values, with the number of answers for each."""
    law = require_memoryless(program.law, "for grouped answers")
    if not values.size:  # there is only the line
        return GroupedSelection(values, values, values)
    tops = Tops(law, program.k, values, sizes, bits)
    ends, exact, rank = (tops.low, tops.high), tops.exact(), ranked
    if line is not None:
        words, over = bits.words(law.words_per_draw, 1), np.array([line - int(values.max())])
        own = noisy_bounds(over, law.bounds(words))
        ends = np.append(ends[0], own[0]), np.append(ends[1], own[1])
        exact, rank = chain(exact, law.reals(words, bits)), ranked_to_line
    (indices,), (leads,), (is_certain,) = rank(ends[0][None], ends[1][None], program.k)
    count = np.count_nonzero(indices >= 0)
    winners, whole = indices[:count], leads[:count]
    if not is_certain:
        told = program.run(values[tops.groups].tolist(), RealNoise(exact))
        winners, whole = (np.array(each, dtype=np.int64) for each in told)
    groups = tops.groups[winners]
    return GroupedSelection(groups, places_of(groups, sizes, bits), whole)


class Tops:
    """The noisy answers that may be among the best k + 1, as enclosing floats and as reals.

    A group's answers are drawn from its largest on, some *positions* at a time: first all that are
    surely needed, then a few more each time. With a `line`, answers below it do not matter: then
    `at_first` answers of each group are drawn, and twice as many each time. Floats are relative to
    the largest value.
    """

    def __init__(
        self,
        law: Quantiles,
        k: int,
        values: Integers,
        sizes: Integers,
        bits: Bits,
        line: int | None = None,
        at_first: int = 1,
    ) -> None:
        self._law, self._bits, self._sizes = law, bits, sizes
        need = min(k + 1, int(sizes.sum()))
        offsets = values - values.max()
        self.groups = self._positions = np.empty(0, dtype=np.int64)
        self.low, self.high = np.empty(0), np.empty(0)
        self._blocks: list[tuple[Integers, Words]] = []
        sums = np.zeros((2, sizes.size))  # they enclose −ln of the last uniform so far
        active, position = np.arange(sizes.size), 0
        bar = -math.inf if line is None else float(line - int(values.max()))
        while active.size and position < need:
            missing = need - self.low.size
            count = -(-missing // active.size) if missing > 0 else max(1, position // _GROWTH)
            count = min(count, need - position, int(sizes[active].min()) - position)
            if line is not None:
                count = min(count, max(at_first, position))
            words = bits.words(count, active.size)
            self._blocks.append((active, words))
            positions = np.arange(position, position + count)[:, None]
            reached = sums_of_waits(sums[:, active], words, sizes[active] - positions)
            sums[:, active] = reached[:, -1]
            low, high = noisy_bounds(offsets[active], law.quantile_bounds(reached))
            self.groups = np.append(self.groups, np.broadcast_to(active, low.shape))
            self._positions = np.append(self._positions, np.broadcast_to(positions, low.shape))
            self.low, self.high = np.append(self.low, low), np.append(self.high, high)
            if self.low.size >= need:
                bar = max(bar, float(np.partition(self.low, -need)[-need]))
            kept = self.high >= bar
            self.groups, self._positions = self.groups[kept], self._positions[kept]
            self.low, self.high = self.low[kept], self.high[kept]
            # If a group's last answer is certainly too low, its later ones are lower still.
            position += count
            active = active[(high[-1] >= bar) & (sizes[active] > position)]

    def exact(self) -> Iterator[Refined]:
        """The noise of each contender. Call this only once, because it draws further bits."""
        words: defaultdict[int, list[int]] = defaultdict(list)
        for groups, block in self._blocks:
            for group, own in zip(groups.tolist(), block.T.tolist(), strict=True):
                words[group] += own
        draws = {
            group: top_draws(self._law, int(self._sizes[group]), own, self._bits)
            for group, own in words.items()
        }
        for group, position in zip(self.groups.tolist(), self._positions.tolist(), strict=True):
            yield draws[group][position]


def sums_of_waits(start: Floats, words: Words, left: Integers) -> Floats:
    """Enclosed cumulative sums of E/left (E unit exponentials), from an enclosed start.

    Lower and upper ends are along the first axis, sums along the second. Numbers are added up in
    stretches, and then whole stretches, so there are few roundings.
    """
    sums: Floats = np.array(exponential_bounds(1.0, words))
    sums /= left
    for at in range(0, len(words), _STRETCH):
        stretch = sums[:, at : at + _STRETCH]
        np.cumsum(stretch, axis=1, out=stretch)
        stretch += start[:, None]
        start = stretch[:, -1]
    slack = (min(len(words), _STRETCH) + len(words) / _STRETCH + 8) * 2.0**-52
    sums[0] *= 1 - slack
    sums[1] *= 1 + slack
    return sums


def top_draws(law: Quantiles, size: int, words: Sequence[int], bits: Bits) -> list[Refined]:
    """The largest of `size` draws, one for each word, as real numbers refined on demand.

    Each is a quantile of the law at a uniform. From one draw to the next, −ln of the uniform grows
    by a unit exponential divided by the number of draws that are left.
    """
    uniforms = [Uniform.of_word(word, bits) for word in words]

    @cache
    def sums(level: int) -> list[Enclosure]:
        return [(Fraction(0), Fraction(0))]

    def sum_of(place: int, level: int) -> Enclosure:
        """−ln of a uniform, rounded outwards: exact fractions would get longer and longer."""
        known = sums(level)
        for at in range(len(known) - 1, place + 1):
            (low, high), left = known[at], size - at
            near, far = uniforms[at].exponential(level + 1)
            fine = 1 << 64 * (level + 3) + left.bit_length()
            low, high = low + near / left, high + far / left
            ends = Fraction(math.floor(low * fine), fine), Fraction(math.ceil(high * fine), fine)
            known.append(ends)
        return known[place + 1]

    @cache
    def draw(place: int, level: int) -> Enclosure:
        """Rationals below and above a draw; 64 more bits at each level."""
        while not sum_of(place, level)[0]:  # the size of the draw is not bounded yet
            level += 1
        low, high = sum_of(place, level)
        digits = 40 * (level + 2)
        slack = law.scale / 10 ** (digits // 2)
        return (
            law.scale * law.exact_quantile(high, digits) - slack,
            law.scale * law.exact_quantile(low, digits) + slack,
        )

    return [partial(draw, place) for place in range(len(uniforms))]


def places_of(groups: Integers, sizes: Integers, bits: Bits) -> Integers:
    """A uniform index in its group for every winner; all are distinct."""
    winners: dict[int, list[int]] = {}
    for rank, group in enumerate(groups.tolist()):
        winners.setdefault(group, []).append(rank)
    places = np.empty(groups.size, dtype=np.int64)
    for group, own in winners.items():
        places[own] = bits.distinct(len(own), int(sizes[group]))
    return places
