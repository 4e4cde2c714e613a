"""Noisy Top-K with gap: the k largest answers in order, and by how much each one leads.

This is Algorithm 1 of the paper. Every answer gets noise; the k largest noisy answers win. Their
indices are released, and also the gaps between neighbours in the ranking, at no extra cost. k = 1
is Noisy Max with gap.

Real noise never ties, and dpgap's noise is real: `release` decides every comparison on exact draws.
It releases the floors of the real leads over the best loser, and gaps are differences of these. So
a release is post-processing of the same algorithm that the alignment proves private. (Floors of
single gaps would each lose half a step, and 25 of them add up to a bias of −12.)

From top to bottom: the candidates of a release; the alignment for one-sided noise; the mechanisms
`NoisyTopK` and `NoisyMax`, each with its `run` and `align`; and two kernels, `select` for answers
one by one and `select_grouped` for equal answers in groups. Lengths in kernels are in steps.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from fractions import Fraction
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

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
from dpgap.releases.detail import MechanismUsed, Promise
from dpgap.releases.drawn import Ranking
from dpgap.releases.release import SelectedItems


class OneByOne(NamedTuple):
    """Candidates one by one: an answer in steps for each. Every answer is read."""

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
        largest = np.sort(np.partition(self.private_answers, lowest)[lowest:])
        return largest[[-rank for rank in ranks]]

    def draw_ranking(self, program: "Ranked", bits: Bits, line: int | None) -> Draw[Ranking]:
        """Run the program once. A line competes as one more candidate."""
        runs = select(program, self.private_answers, 1, bits, line)
        count = np.count_nonzero(runs.indices[0] >= 0)
        winners = runs.indices[0, :count].copy()  # views would keep more memory
        leads = runs.leads[0, :count].copy()
        ranking = Ranking(winners, named(winners, self.labels), leads)
        return Draw(ranking, self.private_answers[winners])


class InGroups(NamedTuple):
    """Candidates in groups: an answer in steps for each group, and the groups.

    Only the different values are read. Winners have the same chances as one by one.
    """

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
        members = self.groups.find(groups, places)
        if self.labels is None:
            return members
        return Found(members.positions, named(members.positions, self.labels))

    def draw_ranking(self, program: "Ranked", bits: Bits, line: int | None) -> Draw[Ranking]:
        """Run the program once. A line competes as one more candidate."""
        sizes = self.groups.sizes
        winners = select_grouped(program, self.private_answers, sizes, bits, line)
        members = self.find(winners.groups, winners.places)
        ranking = Ranking(members.positions, members.labels, winners.leads)
        return Draw(ranking, self.private_answers[winners.groups])


Candidates = OneByOne | InGroups
Output = tuple[tuple[int, ...], Any]
"""The output of a program: the winners, and their leads or the lead of the set."""


class Ranked(Claims, Protocol):
    """A mechanism that ranks noisy answers."""

    @property
    def law(self) -> RealLaw: ...
    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]: ...


def candidates(mechanism: Claims, law: RealLaw, answers: Answers, labels: Labels) -> Candidates:
    """The answers in steps, and their labels; refused before anything is charged."""
    grid = Grid(mechanism.grid)
    if not isinstance(answers, PrivateCounts):
        return as_candidates(answers, labels, grid)
    require_facts(answers, labelled=labels is not None, **claims_of(mechanism))
    if isinstance(law, MemorylessLaw):  # the largest draws of a group can be drawn directly
        return as_candidates(answers, labels, grid)
    if answers.labels is None:
        require_memoryless(law, "where the domain is a table")
    if labels is None:
        labels = answers.labels
    return as_candidates(answers.expanded(), labels, grid)


def as_candidates(answers: Answers, labels: Labels, grid: Grid) -> Candidates:
    """The answers in steps, and their labels. Of unknown items there may be none."""
    if not isinstance(answers, PrivateCounts):
        steps = grid.steps(answers)
        return OneByOne(steps, require_labels(labels, steps.size, answers))
    groups = answers.groups()
    steps = np.empty(0, dtype=np.int64)
    if groups.values.size:
        steps = grid.steps(groups.values)
    if answers.unknown:
        return InGroups(steps, labels=None, groups=groups, reach=answers.reach)
    return InGroups(steps, require_labels(labels, len(answers)), groups)


def claims_of(mechanism: Claims) -> dict[str, Any]:
    """The claims that a mechanism makes about answers, as keyword arguments."""
    return {
        "monotonic": mechanism.monotonic,
        "sensitivity": mechanism.sensitivity,
        "grid": mechanism.grid,
    }


def law_for(mechanism: Claims, winners: int, noise: str) -> RealLaw:
    """The noise of each answer, if ε pays for `winners` winners separately."""
    parts = winners
    if not mechanism.monotonic:  # the best loser may move the other way: a winner costs double
        parts = 2 * winners
    epsilon = equal_part(mechanism.epsilon, parts)
    law = law_on_grid(LAWS[noise], mechanism.grid, mechanism.sensitivity, epsilon)
    if not isinstance(law, RealLaw):
        raise ValueError(f"noise must be {either(RealLaw)} for a Top-K: {law.name} noise can tie")
    return law


def ranked_winners(
    mechanism: Ranked, ranking: Ranking, highest_cost: Cost, *, somebody_lost: bool = True
) -> Winners:
    """A ranking in the units of answers; with the evidence of its leads, if somebody lost."""
    width = Grid(mechanism.grid).width
    leads = []
    if somebody_lost:
        leads = (ranking.leads * width).tolist()
    return Winners(
        indices=ranking.indices,
        labels=ranking.labels,
        gaps=gaps_of(ranking.leads, width),
        evidence=Evidence.of(leads, [mechanism.law] * len(leads)),
        promise=Promise(highest_cost, mechanism.sensitivity, mechanism.monotonic),
    )


def named(indices: Integers, labels: Labels) -> tuple[Any, ...] | None:
    """The labels of some of the answers."""
    if labels is None:
        return None
    return tuple(labels[index] for index in indices.tolist())


class Extremes(NamedTuple):
    """The quantities that decide the shift of each draw, if noise is never negative."""

    rise: Scalar
    """The rise of the winners' least noise, if each winner's noise rises by its fall."""
    drop: Scalar
    """How far the winners, and the best loser, come down together."""
    raised: int | None
    """The loser whose noise is raised, if there is one."""


STAYING = Extremes(rise=0, drop=0, raised=None)
"""Nothing comes down: the noise of the line rises by the line's fall too."""


def extremes(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The extremes, from the noise that was drawn. docs/exponential-top-k.md has the proof.

    Outputs do not change if all answers move by the same amount. So assume that no answer rises:
    each *falls* by its own amount. The noise of each winner rises by the winner's fall. Then the
    noise of all winners falls by the same amount, the fall of the best loser, but never below zero.
    If the best loser falls farther than this, its noise rises instead.
    """
    rise, fall, best_loser = _distances(answers, falls, noise, winners)
    return _settled(rise, fall, best_loser)


def extremes_undone(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The same extremes, from shifted noise: the inverse works in the same way, downwards."""
    fallen = [answer - fall for answer, fall in zip(answers, falls, strict=True)]
    upward = [-fall for fall in falls]
    rise, fall, best_loser = _distances(fallen, upward, noise, winners)
    return _settled(-rise, -fall, best_loser)


def _distances(
    answers: Vector, falls: Vector, noise: Vector, winners: Any
) -> tuple[Scalar, Scalar, int | None]:
    """The rise of the winners' least noise, the fall of the best loser, and its index."""
    losers = [i for i in range(len(answers)) if i not in winners]
    noisy = [answer + value for answer, value in zip(answers, noise, strict=True)]
    rise = min(noise[i] + falls[i] for i in winners) - min(noise[i] for i in winners)
    if not losers:
        return rise, rise, None
    best_loser = max(losers, key=noisy.__getitem__)
    best_after = max(noisy[i] - falls[i] for i in losers)
    return rise, noisy[best_loser] - best_after, best_loser


def _settled(rise: Scalar, fall: Scalar, best_loser: int | None) -> Extremes:
    """All come down by the best loser's fall, but the winners' least noise not below zero."""
    if fall > rise:
        return Extremes(rise, drop=rise, raised=best_loser)
    return Extremes(rise, drop=fall, raised=None)


def shift_of(index: int, falls: Vector, winners: Any, descent: Extremes) -> Scalar:
    """How far the draw of one answer is shifted."""
    if index in winners:
        return falls[index] - descent.drop
    if index == descent.raised:
        return falls[index] - descent.rise
    return 0


@public
@declared()
class NoisyTopK(Selecting[Candidates, SelectedItems]):
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

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
        """The algorithm: the k winning indices, and each winner's lead over the best loser.

        If every answer wins, there is no loser; then leads are over the last winner.
        """
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        winners = ranking[: self.k]
        last = min(self.k, len(ranking) - 1)
        best_loser = ranking[last]
        leads = [noisy[winner] - noisy[best_loser] for winner in ranking[:last]]
        return tuple(winners), tuple(leads)

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The proof: how far to shift each draw so that the neighbour gives the same output.

        Losers keep their noise. The noise of each winner is shifted by the winner's change and the
        best loser's change, so all win by the same margin: at most 2Δ each, or Δ if monotonic. For
        noise that is never negative, `extremes` gives the shifts.
        """
        winners, _ = output
        if not self.law.signed:
            falls = self.falls(answers, neighbour)
            descent = extremes(answers, falls, noise, winners)
            return [shift_of(i, falls, winners, descent) for i in range(len(answers))]
        losers = [i for i in range(len(answers)) if i not in winners]
        rise: Scalar = 0
        if losers:
            best_after = max(neighbour[i] + noise[i] for i in losers)
            best_before = max(answers[i] + noise[i] for i in losers)
            rise = best_after - best_before
        return [
            answers[i] - neighbour[i] + rise if i in winners else 0 for i in range(len(answers))
        ]

    def unalign(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The inverse of `align`: it proves that no two draws are shifted to the same."""
        winners, _ = output
        if self.law.signed:  # losers kept their noise, which decides
            return [-shift for shift in self.align(answers, neighbour, noise, output)]
        falls = self.falls(answers, neighbour)
        descent = extremes_undone(answers, falls, noise, winners)
        return [-shift_of(i, falls, winners, descent) for i in range(len(answers))]

    def falls(self, answers: Vector, neighbour: Vector) -> list[Scalar]:
        """How far each answer falls behind a common rise: from 0 to 2Δ, to Δ if monotonic."""
        rise = self.rise(sum(answers), sum(neighbour))
        return [rise + before - after for before, after in zip(answers, neighbour, strict=True)]

    def rise(self, before: Scalar, after: Scalar) -> Scalar:
        """The most that an answer can rise, given the sums: Δ, or 0 if all of them fall."""
        # Monotonic answers all move in the same direction, so their sum shows the direction.
        if self.monotonic and after <= before:
            return 0
        return self.sensitivity

    @remembered
    def in_steps(self) -> "NoisyTopK":
        """The same mechanism, for answers in whole grid steps."""
        grid = Grid(self.grid)
        sensitivity = grid.up(self.sensitivity)
        law = self.law.scaled(1 / grid.step)
        return altered(self, sensitivity=sensitivity, grid=None, law=law)

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        all_candidates = candidates(self, self.law, answers, labels)
        count = all_candidates.size
        if self.k > count:
            raise ValueError(f"k must be at most the number of answers, {count}, not {self.k}")
        return all_candidates

    def draw_paid(self, candidates: Candidates) -> Draw[Ranking]:
        """Select; the caller has paid."""
        return draw_ranking(self.in_steps(), candidates)

    def winners(self, ranking: Ranking) -> Winners:
        """The drawn winners in the units of answers, with their evidence and the promise."""
        somebody_lost = ranking.leads.size == self.k
        return ranked_winners(self, ranking, self.cost, somebody_lost=somebody_lost)

    def build(self, ranking: Ranking) -> SelectedItems:
        """The release of what was drawn."""
        return self.winners(ranking).released(MechanismUsed.of(self), self.cost)


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

    @errors_without_answers
    def release(
        self, answers: Answers, *, labels: Labels = None, account: Account | None = None
    ) -> SelectedItems:
        """Select on secure exact noise: `answers`, `labels` and `account` as for `NoisyTopK`."""
        return NoisyTopK.release(self, answers, labels=labels, account=account)


def draw_ranking(program: Ranked, candidates: Candidates, line: int | None = None) -> Draw[Ranking]:
    """Run the program once on secure noise. A line competes as one more candidate."""
    return candidates.draw_ranking(program, secure_bits(), line)


_CHUNK = 1 << 15
"""The most answers of a chunk."""
_WORDS_AT_ONCE = 1 << 18
"""About how many words are read at once, for several runs."""
_BLOCK = 64
"""The answers that have one limit on their words."""
_ALL_BITS = np.uint64((1 << 64) - 1)


class Rankings(NamedTuple):
    """One row for each run: indices, best first, and their leads, in steps.

    If a line ended the ranking, the rest of the row is −1, with leads of 0.
    """

    indices: Integers
    leads: Integers


def select(
    program: Ranked,
    answers: Integers,
    runs: int,
    bits: Bits,
    line: int | None = None,
    small: int = 1 << 11,
    first_chunk: int = 1 << 8,
) -> Rankings:
    """Run the program `runs` times on the same answers, in steps, with fresh noise.

    A line is the last candidate, with noise of its own. If there are more answers than `small`,
    certain losers are left out, chunk by chunk.

    Nearly every answer is a certain loser, and its random word shows this: the noise that it would
    need to matter has a known chance, and the word is either below this chance or not. Logarithms
    are computed only for the contenders. They are ranked on floats that enclose their noisy
    answers. If these overlap, the program itself decides, on the same draws. So the result is
    exactly the program's, after one pass over the answers, and with constant extra memory.
    """
    indices = []
    leads = []
    for contenders, random_words in _batches(program, answers, runs, bits, small, first_chunk):
        batch = _rank_batch(program, answers[contenders], random_words, bits, line)
        if line is not None:
            contenders = np.append(contenders, -1)  # so that −1, after the line, stays −1
        indices.append(contenders[batch.indices])
        leads.append(batch.leads)
    return Rankings(np.concatenate(indices), np.concatenate(leads))


def _batches(
    program: Ranked, answers: Integers, runs: int, bits: Bits, small: int, first_chunk: int
) -> Iterator[tuple[Integers, Words]]:
    """Some runs at a time: the answers that may be among the best k + 1, sorted, and their words.

    Words have the shape (words of a draw, runs, answers).
    """
    law = program.law
    count = answers.size
    if count > small:
        best_count = min(program.k + 1, count)
        for _ in range(runs):
            contenders, random_words = _contenders(law, best_count, answers, bits, first_chunk)
            yield contenders, random_words[:, None, :]
        return
    most_runs = max(1, _WORDS_AT_ONCE // max(1, count * law.words_per_draw))
    for first_run in range(0, runs, most_runs):
        batch_runs = min(most_runs, runs - first_run)
        yield np.arange(count), bits.words(law.words_per_draw, batch_runs, count)


def _rank_batch(
    program: Ranked, answers: Integers, random_words: Words, bits: Bits, line: int | None
) -> Rankings:
    """Rank the answers in each run: by floats where these decide, else by the program."""
    law = program.law
    values = answers
    rank = ranked
    if line is not None:
        values = np.append(answers, line)
        line_words = bits.words(law.words_per_draw, random_words.shape[1], 1)
        random_words = np.concatenate([random_words, line_words], axis=2)
        rank = ranked_to_line
    low, high = noisy_bounds(values - values.max(), law.bounds(random_words))
    indices, leads, certain = rank(low, high, program.k)
    for run in np.flatnonzero(~certain):
        noise = RealNoise(law.reals(random_words[:, run], bits))
        winners, winner_leads = program.run(answers.tolist(), noise)
        indices[run] = -1
        indices[run, : len(winners)] = winners
        leads[run] = 0
        leads[run, : len(winner_leads)] = winner_leads
    return Rankings(indices, leads)


def _contenders(
    law: RealLaw, count: int, answers: Integers, bits: Bits, first_chunk: int
) -> tuple[Integers, Words]:
    """The answers that may be among the best `count`, in order, and their words."""
    largest = int(answers.max())
    contenders = np.empty(0, dtype=np.int64)
    random_words = np.empty((law.words_per_draw, 0), dtype=np.uint64)
    bar = -math.inf  # an answer must reach this: the lower bound at rank `count` so far
    for chunk in _growing_chunks(answers.size, first_chunk):
        offsets = answers[chunk] - largest
        first_words = bits.words(offsets.size)
        hits = _may_reach(law, first_words, bar, offsets)
        if not hits.size:
            continue
        hit_words = first_words[None, hits]
        if law.words_per_draw > 1:
            further_words = bits.words(law.words_per_draw - 1, hits.size)
            hit_words = np.concatenate([hit_words, further_words])
        contenders = np.concatenate([contenders, hits + chunk.start])
        random_words = np.concatenate([random_words, hit_words], axis=1)
        if contenders.size < count:
            continue
        low, high = noisy_bounds(answers[contenders] - largest, law.bounds(random_words))
        bar = _at_rank(low, count)
        reaches_bar = high >= bar
        contenders = contenders[reaches_bar]
        random_words = random_words[:, reaches_bar]
    return contenders, random_words


def _growing_chunks(size: int, first_chunk: int) -> Iterator[slice]:
    """Slices of `size` answers. The first is short, so that the bar rises before chunks grow."""
    start = 0
    length = first_chunk
    while start < size:
        yield slice(start, start + length)
        start += length
        length = min(2 * length, _CHUNK)


def _at_rank(numbers: Floats, rank: int) -> float:
    """The number at a rank, from 1 for the largest."""
    return float(np.partition(numbers, -rank)[-rank])


def _may_reach(law: RealLaw, random_words: Words, bar: float, offsets: Integers) -> Integers:
    """The indices at which an offset plus its noise may reach the bar; none is missed.

    Noise beyond x needs E·scale > x − overshoot. So m < 2^63·e^(−x/scale) and, with two signs, a
    top bit of 0. A block of answers has one limit on m, that of its largest offset. All roundings
    are in the direction that misses none.
    """
    block_starts = np.arange(0, offsets.size, _BLOCK)
    largest = np.maximum.reduceat(offsets, block_starts).astype(np.float64)
    rounding = (abs(bar) + np.abs(largest)) * 2.0**-48
    overshoot = float(law.overshoot) * (1 + 2.0**-48)
    size_needed = bar - largest - rounding - overshoot
    exponent = np.maximum(size_needed, 0.0) * ((1 - 2.0**-40) / float(law.scale))
    chance = np.minimum(np.exp(-exponent) * (1 + 2.0**-30), 1.0)
    limits = (chance * 2.0**63).astype(np.uint64) + np.uint64(2)
    if law.signed:
        limits[exponent == 0] = _ALL_BITS  # negative noise may be enough
    else:
        random_words = random_words & LOW_MASK
    answer_limits = np.repeat(limits, _BLOCK)[: random_words.size]
    return np.flatnonzero(random_words <= answer_limits)


def noisy_bounds(offsets: Integers, noise_bounds: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Floats that enclose offset + noise, from bounds of the noise; roundings are included."""
    low, high = noise_bounds
    float_offsets = offsets.astype(np.float64)
    slack = (np.abs(float_offsets) + np.abs(low)) * 2.0**-50
    return float_offsets + low - slack, float_offsets + high + slack


def ranked(low: Floats, high: Floats, k: int) -> tuple[Integers, Integers, Flags]:
    """Rank enclosed numbers row by row: the best k, their leads, and whether this is certain."""
    order, low, high, certain = in_order(low, high, min(k + 1, low.shape[1]))
    least_leads = np.floor(low[:, :-1] - high[:, -1:])
    most_leads = np.floor(high[:, :-1] - low[:, -1:])
    certain &= (least_leads == most_leads).all(axis=1)
    # Uncertain rows may hold infinities; the caller replaces them. This is a copy, because a view
    # would keep the whole ranking in memory.
    return order[:, :k].copy(), least_leads.astype(np.int64), certain


def ranked_to_line(low: Floats, high: Floats, k: int) -> tuple[Integers, Integers, Flags]:
    """Rank the numbers above a line, the last column; after it indices are −1 and leads 0."""
    line = low.shape[1] - 1
    order, low, high, certain = in_order(low, high, min(k, line) + 1)
    is_line = order == line
    last_rank = order.shape[1] - 1
    ends = np.where(is_line.any(axis=1), is_line.argmax(axis=1), last_rank)[:, None]
    least_leads = np.floor(low - np.take_along_axis(high, ends, axis=1))
    most_leads = np.floor(high - np.take_along_axis(low, ends, axis=1))
    wins = np.arange(order.shape[1]) < ends
    certain &= ((least_leads == most_leads) | ~wins).all(axis=1)
    indices = np.where(wins, order, -1)
    leads = np.where(wins, least_leads, 0.0).astype(np.int64)
    return indices[:, :-1].copy(), leads[:, :-1].copy(), certain


def in_order(low: Floats, high: Floats, count: int) -> tuple[Integers, Floats, Floats, Flags]:
    """Indices of the top `count` of each row in order, with bounds; and which rows are certain."""
    runs, columns = low.shape
    rows = np.arange(runs)[:, None]
    row_starts = rows * columns  # indexing is fastest on flat arrays
    best = np.argpartition(low, columns - count, axis=1)[:, columns - count :] + row_starts
    ranks = np.argsort(-low.take(best), axis=1)
    order = best.take(ranks + rows * count)
    ranked_low = low.take(order)
    ranked_high = high.take(order)
    # A row is decided if each of the best `count` is certainly above all that are ranked after it.
    others = high.copy()
    others.put(best, -np.inf)
    highest_other = others.max(axis=1, keepdims=True)
    following = np.concatenate([ranked_high[:, 1:], highest_other], axis=1)
    highest_after = np.maximum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    certain: Flags = np.logical_and.reduce(ranked_low > highest_after, axis=1)
    return order - row_starts, ranked_low, ranked_high, certain


_STRETCH = 256
"""How many numbers are added up before the sums are."""
_GROWTH = 8
"""If a group needs more draws, their number grows by an eighth."""


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
    """Run the program once on answers given as values, with the number of answers for each.

    Many answers with the same value cost no more than a few: of m answers with one value, only the
    k + 1 largest noises can matter. These are drawn directly from their law. With V₁, V₂, …
    uniform, the largest of m uniforms is V₁^(1/m), the next is this times V₂^(1/(m−1)), and so on;
    the noise is the law's quantile of them. So the count of counts of a table is enough for a
    selection, for any number of items. The result has the same law as a selection from all answers
    one by one, including ties and gaps.

    Like every draw, these are real numbers refined on demand. Floats enclose them; if floats
    overlap, the program decides on decimals and further bits.
    """
    law = require_memoryless(program.law, "for grouped answers")
    if not values.size:  # there is only the line
        nobody = np.empty(0, dtype=np.int64)
        return GroupedSelection(groups=nobody, places=nobody, leads=nobody)
    tops = Tops(law, program.k, values, sizes, bits)
    low = tops.low
    high = tops.high
    draws = tops.exact()
    rank = ranked
    if line is not None:
        line_words = bits.words(law.words_per_draw, 1)
        line_offset = np.array([line - int(values.max())])
        line_low, line_high = noisy_bounds(line_offset, law.bounds(line_words))
        low = np.append(low, line_low)
        high = np.append(high, line_high)
        draws = chain(draws, law.reals(line_words, bits))
        rank = ranked_to_line
    indices, leads, certain = rank(low[None], high[None], program.k)  # one row
    if certain[0]:
        count = np.count_nonzero(indices >= 0)
        winners = indices[0, :count]
        winner_leads = leads[0, :count]
    else:
        answers = values[tops.groups].tolist()
        exact_winners, exact_leads = program.run(answers, RealNoise(draws))
        winners = np.array(exact_winners, dtype=np.int64)
        winner_leads = np.array(exact_leads, dtype=np.int64)
    groups = tops.groups[winners]
    return GroupedSelection(groups, places_of(groups, sizes, bits), winner_leads)


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
        self._law = law
        self._sizes = sizes
        self._bits = bits
        self._needed = min(k + 1, int(sizes.sum()))
        self._blocks: list[tuple[Integers, Words]] = []
        self._positions = np.empty(0, dtype=np.int64)
        self.groups = np.empty(0, dtype=np.int64)
        self.low = np.empty(0)
        self.high = np.empty(0)
        largest = int(values.max())
        offsets = values - largest
        if line is None:
            self._draw(offsets, bar=-math.inf, at_first=None)
        else:
            self._draw(offsets, bar=float(line - largest), at_first=at_first)

    def _draw(self, offsets: Integers, bar: float, at_first: int | None) -> None:
        """Draw the answers of all groups that are *active*: the next one may reach the bar."""
        sums = np.zeros((2, offsets.size))  # they enclose −ln of the last uniform so far
        active = np.arange(offsets.size)
        position = 0
        while active.size and position < self._needed:
            count = self._next_count(active, position, at_first)
            positions = np.arange(position, position + count)[:, None]
            random_words = self._bits.words(count, active.size)
            self._blocks.append((active, random_words))
            remaining = self._sizes[active] - positions
            waits = sums_of_waits(sums[:, active], random_words, remaining)
            sums[:, active] = waits[:, -1]
            low, high = noisy_bounds(offsets[active], self._law.quantile_bounds(waits))
            self._append(active, positions, low, high)
            if self.low.size >= self._needed:
                bar = max(bar, _at_rank(self.low, self._needed))
            self._remove_below(bar)
            # If a group's last answer is certainly too low, its later ones are lower still.
            position += count
            active = active[(high[-1] >= bar) & (self._sizes[active] > position)]

    def _next_count(self, active: Integers, position: int, at_first: int | None) -> int:
        """How many answers of each active group come next, after those before a position."""
        count = max(1, position // _GROWTH)
        missing = self._needed - self.low.size
        if missing > 0:
            count = -(-missing // active.size)  # rounded up
        if at_first is not None:
            count = min(count, max(at_first, position))
        smallest_group = int(self._sizes[active].min())
        return min(count, self._needed - position, smallest_group - position)

    def _append(self, groups: Integers, positions: Integers, low: Floats, high: Floats) -> None:
        """Add noisy answers: one row for each position, and one column for each group."""
        self.groups = np.append(self.groups, np.broadcast_to(groups, low.shape))
        self._positions = np.append(self._positions, np.broadcast_to(positions, low.shape))
        self.low = np.append(self.low, low)
        self.high = np.append(self.high, high)

    def _remove_below(self, bar: float) -> None:
        """Remove the noisy answers that are certainly below a bar."""
        reaches_bar = self.high >= bar
        self.groups = self.groups[reaches_bar]
        self._positions = self._positions[reaches_bar]
        self.low = self.low[reaches_bar]
        self.high = self.high[reaches_bar]

    def exact(self) -> Iterator[Refined]:
        """The noise of each contender. Call this only once, because it draws further bits."""
        words_by_group: defaultdict[int, list[int]] = defaultdict(list)
        for groups, block in self._blocks:
            for group, column in zip(groups.tolist(), block.T.tolist(), strict=True):
                words_by_group[group] += column
        draws_by_group = {}
        for group, random_words in words_by_group.items():
            size = int(self._sizes[group])
            draws_by_group[group] = top_draws(self._law, size, random_words, self._bits)
        for group, position in zip(self.groups.tolist(), self._positions.tolist(), strict=True):
            yield draws_by_group[group][position]


def sums_of_waits(start: Floats, random_words: Words, remaining: Integers) -> Floats:
    """Enclosed cumulative sums of E/remaining (E unit exponentials), from an enclosed start.

    Lower and upper ends are along the first axis, sums along the second. Numbers are added up in
    stretches, and then whole stretches, so there are few roundings.
    """
    count = len(random_words)
    sums: Floats = np.array(exponential_bounds(1.0, random_words))
    sums /= remaining
    sum_before = start
    for first in range(0, count, _STRETCH):
        stretch = sums[:, first : first + _STRETCH]
        np.cumsum(stretch, axis=1, out=stretch)
        stretch += sum_before[:, None]
        sum_before = stretch[:, -1]
    slack = (min(count, _STRETCH) + count / _STRETCH + 8) * 2.0**-52
    sums[0] *= 1 - slack
    sums[1] *= 1 + slack
    return sums


def top_draws(law: Quantiles, size: int, random_words: Sequence[int], bits: Bits) -> list[Refined]:
    """The largest of `size` draws, one for each word, as real numbers refined on demand.

    Each is a quantile of the law at a uniform. From one draw to the next, −ln of the uniform grows
    by a unit exponential divided by the number of draws that are left.
    """
    uniforms = [Uniform.of_word(word, bits) for word in random_words]
    zero: Enclosure = (Fraction(0), Fraction(0))
    sums_by_level: defaultdict[int, list[Enclosure]] = defaultdict(lambda: [zero])

    def sum_of_waits(position: int, level: int) -> Enclosure:
        """−ln of the uniform at a position; sums are extended as far as this."""
        sums = sums_by_level[level]
        for index in range(len(sums) - 1, position + 1):
            low, high = sums[index]
            wait_low, wait_high = uniforms[index].exponential(level + 1)
            remaining = size - index
            low += wait_low / remaining
            high += wait_high / remaining
            bits_of_fraction = 64 * (level + 3) + remaining.bit_length()
            sums.append(_rounded_outwards(low, high, bits_of_fraction))
        return sums[position + 1]

    @cache
    def draw(position: int, level: int) -> Enclosure:
        """Rationals below and above a draw; 64 more bits at each level."""
        while not sum_of_waits(position, level)[0]:  # the size of the draw is not bounded yet
            level += 1
        low, high = sum_of_waits(position, level)
        digits = 40 * (level + 2)
        slack = law.scale / 10 ** (digits // 2)
        lower_end = law.scale * law.exact_quantile(high, digits)
        upper_end = law.scale * law.exact_quantile(low, digits)
        return lower_end - slack, upper_end + slack

    return [partial(draw, position) for position in range(len(uniforms))]


def _rounded_outwards(low: Fraction, high: Fraction, bits_of_fraction: int) -> Enclosure:
    """The ends with this many bits after the point: exact sums would get longer and longer."""
    denominator = 1 << bits_of_fraction
    return (
        Fraction(math.floor(low * denominator), denominator),
        Fraction(math.ceil(high * denominator), denominator),
    )


def places_of(groups: Integers, sizes: Integers, bits: Bits) -> Integers:
    """A uniform index in its group for every winner; all are distinct."""
    ranks_by_group: defaultdict[int, list[int]] = defaultdict(list)
    for rank, group in enumerate(groups.tolist()):
        ranks_by_group[group].append(rank)
    places = np.empty(groups.size, dtype=np.int64)
    for group, ranks in ranks_by_group.items():
        places[ranks] = bits.distinct(len(ranks), int(sizes[group]))
    return places
