"""Joint Top-K: the set of the k largest answers, chosen as one candidate, and its lead.

Noisy Top-K protects each of its winners, so its noise grows with k. Here the candidates are the
sets of k answers, and one of them wins. A set is as good as its *margin*, halved: the smallest
answer in it less the largest outside. Every set gets exponential noise; the one with the largest
noisy half-margin is released, and how far it leads the second best. That is Noisy Max over sets,
and the noise is the same for every k. docs/joint-top-k.md has the proof.

There are C(n, k) sets. The kernel draws noise for classes of them, so that n and k may be large.
Like every dpgap release it decides on exact real draws, and floors the real lead: half-margins lie
on half of the grid, and so does the lead.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from dpgap._package import public
from dpgap.data.private_counts import Found, Groups, tally
from dpgap.estimates.certificates import Evidence
from dpgap.exact.bits import secure_bits
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
from dpgap.exact.reals import Integers
from dpgap.mechanisms.joint_kernel import Classes, select_classes, winner_and_lead
from dpgap.mechanisms.mechanism import Answers, Draw, Selecting, Winners, claims_of
from dpgap.mechanisms.top_k import (
    Candidates,
    InGroups,
    NoisyTopK,
    Output,
    candidates,
    extremes,
    extremes_undone,
    law_for,
    named,
    shift_of,
)
from dpgap.releases.drawn import TopSet
from dpgap.releases.release import JointRelease, MechanismUsed, Promise

_HALF = Fraction(1, 2)


@public
@declared()
class JointTopK(Selecting[Candidates, JointRelease]):
    """Find the set of the k largest answers, and how far it leads any other set.

    The noise does not grow with k: choose it where the k largest answers stand out as a set. A set
    has no order, and no gaps inside it. For k = 1 `NoisyMax` is better.

    Answers are *monotonic* if one person can only move all of them up, or all of them down, as
    counts do. Guarantee: pure ε-differential privacy of the set and its lead together.

    Parameters
    ----------
    k
        How many answers to find; there must be more than k. Where there are k, all of them are the
        top k, and nothing is to be found.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.

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
    """The noise that each set's half-margin gets."""

    @property
    def over_sets(self) -> NoisyTopK:
        """The Noisy Max that this is, its answers being the half-margins of sets.

        It asks of them that they move by amounts within 2Δ of each other, or within Δ if monotonic;
        docs/joint-top-k.md shows that half-margins do.
        """
        return NoisyTopK(1, self.epsilon, noise="exponential", **claims_of(self))

    @property
    def half_step_law(self) -> MemorylessLaw:
        """The noise in halves of grid steps, in which half-margins are whole."""
        return self.law.scaled(2 / Grid(self.grid).step)

    def half_margin(self, answers: Vector, chosen: Sequence[int]) -> Scalar:
        """How good a set is: half of the smallest answer in it less the largest outside."""
        outside = [answers[i] for i in {*range(len(answers))} - {*chosen}]
        return _HALF * (min(answers[i] for i in chosen) - max(outside))

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], Scalar]:
        """The algorithm: the winning set, and its lead over the second best. For few answers."""
        sets = list(combinations(range(len(answers)), self.k))
        noisy = [self.half_margin(answers, each) + noise.draw(self.law) for each in sets]
        winner, lead = winner_and_lead(noisy)
        return sets[winner], lead

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """How far to shift each draw so that the neighbour gives the same output: as in Noisy Max.

        The answers are the half-margins of sets.
        """
        margins, falls, winners = self._over_sets(answers, neighbour, output)
        by = extremes(margins, falls, noise, winners)
        return [shift_of(i, falls, winners, by) for i in range(len(margins))]

    def unalign(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The way back from shifted noise: so no two draws are shifted to the same."""
        margins, falls, winners = self._over_sets(answers, neighbour, output)
        by = extremes_undone(margins, falls, noise, winners)
        return [-shift_of(i, falls, winners, by) for i in range(len(margins))]

    def _over_sets(
        self, answers: Vector, neighbour: Vector, output: Any
    ) -> tuple[list[Scalar], list[Scalar], tuple[int, ...]]:
        """The half-margins of all sets, how far each falls behind, and which set won."""
        sets = list(combinations(range(len(answers)), self.k))
        before, after = (
            [self.half_margin(side, each) for each in sets] for side in (answers, neighbour)
        )
        falls = [self.rise - (new - old) for old, new in zip(before, after, strict=True)]
        return before, falls, (sets.index(output[0]),)

    @property
    def rise(self) -> Fraction:
        """As far as any half-margin can rise: Δ, or half of it if answers are monotonic."""
        return self.sensitivity * _HALF if self.monotonic else self.sensitivity

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        found = candidates(self, self.law, answers, labels)
        if self.k >= found.size:
            raise ValueError(
                f"k must be below the number of answers, {found.size}, not {self.k}: "
                "all answers together are the top set, whatever they are"
            )
        return found

    def draw_paid(self, candidates: Candidates) -> Draw[TopSet]:
        """Select; the caller has paid. Members are in an order that says nothing."""
        bits, (values, (_, sizes, find)) = secure_bits(), _by_value(candidates)
        classes = Classes(values, sizes, self.k)
        won = select_classes(self.half_step_law, classes, 1, bits)
        groups, places = classes.draw_members(int(won.classes[0]), bits)
        shuffled = bits.distinct(groups.size, groups.size)  # where a domain has no order of its own
        positions, own = find(groups[shuffled], places[shuffled])
        order = np.argsort(positions, kind="stable")
        labels = named(positions, candidates.labels) if own is None else own
        if labels is not None:
            labels = tuple([labels[at] for at in order.tolist()])
        chosen = TopSet(positions[order], labels, int(won.leads[0]))
        return Draw(chosen, values[groups[shuffled][order]])

    def winners(self, drawn: TopSet) -> Winners:
        """What was drawn, in the units of answers; what it proves and what it promises."""
        lead = drawn.lead * Grid(self.grid).width / 2
        return Winners(
            drawn.indices,
            drawn.labels,
            np.empty(0),
            Evidence.of([lead], [self.law]),
            Promise(self.epsilon, self.sensitivity, self.monotonic),
            lead,
        )

    def build(self, drawn: TopSet) -> JointRelease:
        """The release of what was drawn."""
        told = self.winners(drawn)
        return JointRelease(
            indices=told.indices,
            labels=told.labels,
            lead=drawn.lead * Grid(self.grid).width / 2,
            p_value=math.exp(-drawn.lead / self.half_step_law.scale),
            epsilon=self.epsilon,
            promise=told.promise,
            mechanisms=(MechanismUsed.of(self),),
        )


def _by_value(candidates: Candidates) -> tuple[Integers, Groups]:
    """The different answers in steps, and how many have each and how to find them."""
    answers = candidates.private_answers
    if isinstance(candidates, InGroups):
        return answers, candidates.groups
    least = answers.min()
    values, sizes = tally(answers - least)
    values = values + least

    def find(groups: Integers, places: Integers) -> Found:
        positions = np.empty(groups.size, dtype=np.int64)
        for group in np.unique(groups):
            members = np.flatnonzero(answers == values[group])
            positions[groups == group] = members[places[groups == group]]
        return Found(positions, None)

    return values, Groups(values, sizes, find)
