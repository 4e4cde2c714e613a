"""Noisy Top-K with gap: the k largest answers in order, and by how much each one leads.

Algorithm 1 of the paper. Every answer gets noise; the k largest noisy answers win. Along with
their indices, the gaps between neighbours in the ranking are released at no extra cost. k = 1 is
Noisy Max with gap.

Real noise never ties, and dpgap's noise is real: `release` decides every comparison on exact
draws. What it releases of the gaps are the floors of the real leads over the best loser, so a
release is post-processing of the very algorithm that the alignment proves private. (Floors of the
single gaps would each lose half a step, and 25 of them add up to a bias of −12.)
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from typing import Any, NamedTuple, cast

import numpy as np

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.private_counts import (
    GroupedAnswers,
    Groups,
    PrivateCounts,
    errors_without_answers,
    require_facts,
    sealed,
)
from dpgap.estimates.certificates import Evidence
from dpgap.exact.bits import Bits, secure_bits
from dpgap.exact.grid import Grid, Labels, read_grid, require_labels
from dpgap.exact.laws import (
    MemorylessLaw,
    Noise,
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
    boolean,
    declared,
    derived,
    parameter,
    positive_integer,
    positive_rational,
)
from dpgap.exact.reals import Integers
from dpgap.mechanisms.mechanism import (
    Answers,
    Claims,
    Draw,
    Selecting,
    Winners,
    claims_of,
    gaps_of,
)
from dpgap.mechanisms.top_k_kernel import GroupedSelection, TopKProgram, select, select_grouped
from dpgap.releases.drawn import Ranking
from dpgap.releases.release import MaxRelease, MechanismUsed, Promise, TopKRelease

# --------------------------------------------------------------------------------------------------
# What a Top-K chooses from: answers one by one, or equal answers in groups.
#
# Both give the same winners with the same chances. One by one costs a look at every answer, in
# groups a look at every value, however many answers have it.


class OneByOne(NamedTuple):
    """An answer in steps for every candidate."""

    private_answers: Integers
    labels: Labels

    def __repr__(self) -> str:
        return sealed(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.private_answers.size

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        lowest = self.size - max(ranks)
        top = np.sort(np.partition(self.private_answers, lowest)[lowest:])
        return top[[-rank for rank in ranks]]

    def choose(self, program: TopKProgram, bits: Bits) -> Draw[Ranking]:
        """Run the program once."""
        selection = select(program, self.private_answers, 1, bits)
        indices = selection.indices[0]
        ranking = Ranking(indices, named(indices, self.labels), selection.leads[0])
        return Draw(ranking, self.private_answers[indices])


class InGroups(NamedTuple):
    """An answer in steps for every group, and the groups."""

    private_answers: Integers
    labels: Labels
    """Labels of the answers by their positions, where they are not the groups' own."""
    groups: Groups
    reach: int | None = None
    """Where items are unknown: the most that one unit alone may have."""

    def __repr__(self) -> str:
        return sealed(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.groups.sizes.sum())

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        order = np.argsort(-self.private_answers)
        ends = np.cumsum(self.groups.sizes[order])
        return self.private_answers[order[np.searchsorted(ends, ranks)]]

    def choose(self, program: TopKProgram, bits: Bits) -> Draw[Ranking]:
        """Run the program once, and look the winners up."""
        return self.found(select_grouped(program, self.private_answers, self.groups.sizes, bits))

    def found(self, selection: GroupedSelection) -> Draw[Ranking]:
        """The winners by their positions, and what they are called."""
        positions, own = self.groups.find(selection.groups, selection.places)
        labels = own if self.labels is None else named(positions, self.labels)
        answers = self.private_answers[selection.groups]
        return Draw(Ranking(positions, labels, selection.leads), answers)


Candidates = OneByOne | InGroups
Output = tuple[tuple[int, ...], Any]
"""What a program tells: the winners, and their leads or their lead."""


def candidates(own: Claims, law: RealLaw, answers: Answers, labels: Labels) -> Candidates:
    """The answers in steps, and their labels; refused before anything is charged."""
    if isinstance(answers, PrivateCounts):
        require_facts(answers, labelled=labels is not None, **claims_of(own))
        if not isinstance(law, MemorylessLaw):  # the largest draws have no short form
            if answers.labels is None:
                require_memoryless(law, "where the domain is a table")
            labels = answers.labels if labels is None else labels
            answers = answers.expanded()
    if isinstance(answers, PrivateCounts | GroupedAnswers):
        require_memoryless(law, "for grouped answers")
        groups = answers.groups()
        names = require_labels(labels, len(answers))
        return InGroups(Grid(own.grid).steps(groups.values), names, groups)
    steps = Grid(own.grid).steps(answers)
    return OneByOne(steps, require_labels(labels, steps.size, answers))


def law_for(own: Claims, winners: int, noise: str) -> RealLaw:
    """The noise that each answer gets where ε is for so many winners, each for itself."""
    shared = winners if own.monotonic else 2 * winners
    law = law_on_grid(noise, own.grid, own.sensitivity, own.epsilon / shared)
    if not isinstance(law, RealLaw):
        raise ValueError(f"noise must be {either(RealLaw)} for a Top-K: {law.name} noise can tie")
    return law


def named(indices: Integers, labels: Labels) -> tuple[Any, ...] | None:
    """The labels of some of the answers."""
    return None if labels is None else tuple(labels[i] for i in indices.tolist())


# --------------------------------------------------------------------------------------------------
# The alignment for noise that is never negative. docs/exponential-top-k.md has the proof.
#
# Outputs do not change when all answers move together. So put that no answer rises: each *falls* by
# its own amount. Winners make up for their own fall, and then all of them come down together, by as
# much as the best loser does, but never below zero. Where the best loser falls farther than
# that, its noise is raised instead.


class Extremes(NamedTuple):
    """What decides how far each draw is shifted."""

    rise: Scalar
    """How far the least noise of the winners rises where each makes up for its own fall."""
    drop: Scalar
    """How far the winners come down together, and the best loser with them."""
    raised: int | None
    """The loser whose noise is raised, if there is one."""


STAYING = Extremes(0, 0, None)
"""Where what comes next makes up for its own fall too, nothing comes down."""


def extremes(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The extremes, from the noise that was drawn."""
    return _settled(*_distances(answers, falls, noise, winners))


def extremes_undone(answers: Vector, falls: Vector, noise: Vector, winners: Any) -> Extremes:
    """The same extremes, from noise that was shifted: the way back is the same way, downwards."""
    fallen = [answer - fall for answer, fall in zip(answers, falls, strict=True)]
    rise, fall, best = _distances(fallen, [-fall for fall in falls], noise, winners)
    return _settled(-rise, -fall, best)


def _distances(
    answers: Vector, falls: Vector, noise: Vector, winners: Any
) -> tuple[Scalar, Scalar, int | None]:
    """How far the least noise of winners rises, how far the best loser falls, and which it is."""
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
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    noise
        The law of the noise: "laplace", "staircase" or "exponential".
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.

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
    noise: str = parameter(require_noise, default="laplace")
    grid: ExactOrNone = parameter(read_grid, default=None)
    law: RealLaw = derived(lambda self: law_for(self, self.k, self.noise))
    """The noise that each answer gets."""

    def in_steps(self) -> "NoisyTopK":
        """The same mechanism, for answers in whole grid steps."""
        steps = Grid(self.grid).up(self.sensitivity)
        if self.grid is None and steps == self.sensitivity:
            return self
        return NoisyTopK(
            self.k, self.epsilon, monotonic=self.monotonic, sensitivity=steps, noise=self.noise
        )

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
        """The algorithm: the k winning indices, and each winner's lead over the best loser.

        Where every answer wins there is no loser, and leads are taken over the last winner.
        """
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        last = min(self.k, len(ranking) - 1)
        leads = [noisy[winner] - noisy[ranking[last]] for winner in ranking[:last]]
        return tuple(ranking[: self.k]), tuple(leads)

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The proof: how far to shift each draw so that the neighbour gives the same output.

        Losers keep their noise. Winners make up for their own change and for the change of the
        best loser, so that they win by the same margin: at most 2Δ each, Δ if monotonic. Noise
        that is never negative is shifted by its `extremes`.
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
        """The way back from shifted noise: so no two draws are shifted to the same."""
        winners, _ = output
        if self.law.signed:  # losers kept their noise, and that decides
            return [-shift for shift in self.align(answers, neighbour, noise, output)]
        falls = self.falls(answers, neighbour)
        by = extremes_undone(answers, falls, noise, winners)
        return [-shift_of(i, falls, winners, by) for i in range(len(answers))]

    def falls(self, answers: Vector, neighbour: Vector) -> list[Scalar]:
        """How far each answer falls behind a common rise: from 0 to 2Δ, to Δ if monotonic."""
        rise = self.rise(answers, neighbour)
        return [rise + before - after for before, after in zip(answers, neighbour, strict=True)]

    def rise(self, answers: Vector, neighbour: Vector) -> Scalar:
        """As far as any answer can rise: Δ, or 0 where all of them fall."""
        # Monotonic answers all move the same way, so their sum tells which way that is.
        return 0 if self.monotonic and sum(neighbour) <= sum(answers) else self.sensitivity

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        found = candidates(self, self.law, answers, labels)
        if self.k > found.size:
            raise ValueError(f"k must be at most the number of answers, {found.size}, not {self.k}")
        return found

    def draw_paid(self, candidates: Candidates) -> Draw[Ranking]:
        """Select; the caller has paid."""
        return candidates.choose(self.in_steps(), secure_bits())

    def winners(self, drawn: Ranking) -> Winners:
        """What was drawn, in the units of answers; what it proves and what it promises."""
        leads, width = drawn.leads, Grid(self.grid).width
        own = (leads * width).tolist() if leads.size == self.k else []  # where somebody lost
        return Winners(
            drawn.indices,
            drawn.labels,
            gaps_of(leads, width),
            Evidence.of(own, [self.law] * len(own)),
            Promise(self.epsilon, self.sensitivity, self.monotonic),
        )

    def build(self, drawn: Ranking) -> TopKRelease:
        """The release of what was drawn."""
        told = self.winners(drawn).selected()
        return TopKRelease(self.epsilon, mechanisms=(MechanismUsed.of(self),), **told)


@public
@declared()
class NoisyMax(NoisyTopK):
    """Find the largest answer and its gap to the runner-up: Noisy Top-K with k = 1.

    Parameters
    ----------
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    noise
        The law of the noise: "laplace", "staircase" or "exponential".
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.

    >>> NoisyMax(epsilon=1000, monotonic=True).release([10, 50, 90, 20]).index
    2
    """

    k: int = field(default=1, init=False)

    @errors_without_answers
    def release(
        self,
        answers: Answers,
        *,
        labels: Labels = None,
        account: Account | None = None,
    ) -> MaxRelease:
        """Select on secure exact noise: `answers`, `labels` and `account` as for `NoisyTopK`."""
        return cast(MaxRelease, NoisyTopK.release(self, answers, labels=labels, account=account))

    def build(self, drawn: Ranking) -> MaxRelease:
        return MaxRelease.of(NoisyTopK.build(self, drawn))
