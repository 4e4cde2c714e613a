"""Hybrid Top-K with gap: the largest answers that are above a public threshold (the *line*).

A *pseudo-answer* at the line competes with the answers, and gets noise as they do. The ranking ends
where the line appears. At most k answers are released, each with its lead. If a question for ten
finds three, it pays for four: the three, and the line. docs/hybrid-top-k.md has the proof.

This mechanism is also for items that are not known beforehand. Then only items that occur compete.
An item of only one unit must not be shown; the line excludes it, except with a chance of δ.

Like every dpgap release, this one decides on exact real draws, and floors the real leads.
"""

import math
from dataclasses import KW_ONLY
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from dpgap._package import public
from dpgap.budget.cost import Cost, equal_part
from dpgap.data.private_counts import PrivateCounts, require_facts, require_reach
from dpgap.exact.grid import Grid, Labels, read_grid
from dpgap.exact.laws import MemorylessLaw, Noise, Scalar, Vector, least_whole
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    Rational,
    altered,
    boolean,
    declared,
    derived,
    parameter,
    positive_integer,
    positive_rational,
    rational,
    share,
)
from dpgap.exact.reals import as_decimal, falling
from dpgap.mechanisms.mechanism import Answers, Draw, Selecting, Winners, require_threshold
from dpgap.mechanisms.top_k import (
    STAYING,
    Candidates,
    InGroups,
    NoisyTopK,
    Output,
    as_candidates,
    candidates,
    claims_of,
    draw_ranking,
    law_for,
    ranked_winners,
    shift_of,
)
from dpgap.releases.detail import MechanismUsed
from dpgap.releases.drawn import Ranking
from dpgap.releases.release import SelectedItems

_DIGITS = 400
_SMALLEST_CHANCE = Fraction(1, 10**_DIGITS)
"""The least chance that is stated: a smaller one would need too many digits."""


def chance_above(distance: Fraction, scale: Fraction, reach: int) -> Fraction:
    """An upper bound of the chance that any of `reach` items passes a line this far above it.

    If items are not known beforehand, one unit may have items that nobody else has. Each counts at
    most Δ, the sensitivity. It is shown only if its noisy answer is above the noisy line. With the
    line at T and exponential noise of scale b on both, the chance of this is ½·e^(−(T − Δ)/b). For
    `reach` items it is at most `reach` times as large. All chances are rounded up.

    >>> f"{float(chance_above(Fraction(10), Fraction(1), 1)):.4g}"
    '2.27e-05'
    """
    if distance < 0:
        return Fraction(1)
    _, power = falling(distance / scale, _DIGITS)
    up = Context(prec=20, rounding=ROUND_CEILING, traps=[])
    chance = max(reach * power / 2, _SMALLEST_CHANCE)
    return min(Fraction(as_decimal(chance, up)), Fraction(1))


@public
@declared()
class HybridTopK(Selecting[Candidates, SelectedItems]):
    """Find the k largest answers that are above a public threshold, and the gaps between them.

    A pseudo-answer at the threshold competes with the answers, with exponential noise of the same
    scale. The ranking ends where it appears. Then fewer than k answers are released, and a part of
    ε is left: r answers cost ε·(r + 1)/k, and never more than ε.

    Answers are *monotonic* if one person can only move all of them up, or all of them down, as
    counts do. Guarantee: pure ε-differential privacy of the indices and the gaps together. If items
    are unknown, so that only items that occur compete, it is (ε, δ): see `delta`.

    Parameters
    ----------
    threshold
        The number with which answers are compared; it must be public.
    k
        The most answers to find. There may be fewer answers in all.
    epsilon
        The most that the whole release costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> hybrid = HybridTopK(threshold=30, k=3, epsilon=3000, monotonic=True)
    >>> release = hybrid.release([10, 50, 90, 20], labels=["fig", "pea", "oat", "rye"])
    >>> release.labels, release.spent, release.remaining
    (('oat', 'pea'), Fraction(3000, 1), Fraction(0, 1))
    >>> hybrid.release([10, 50, 20]).spent
    Fraction(2000, 1)
    """

    threshold: Exact = parameter(rational, then=require_threshold)
    k: int = parameter(positive_integer)
    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)
    sensitivity: Exact = parameter(positive_rational, default=1)
    grid: ExactOrNone = parameter(read_grid, default=None)
    law: MemorylessLaw = derived(lambda self: law_for(self, self.k, "exponential"))
    """The noise of each answer, and of the line."""

    @property
    def without_line(self) -> NoisyTopK:
        """The Noisy Top-K with the same parameters, without a line."""
        return NoisyTopK(self.k, self.epsilon, noise="exponential", **claims_of(self))

    def in_steps(self) -> "HybridTopK":
        """The same mechanism, for answers in whole grid steps."""
        grid = Grid(self.grid)
        return altered(
            self,
            threshold=grid.up(self.threshold),
            sensitivity=grid.up(self.sensitivity),
            grid=None,
            law=self.law.scaled(1 / grid.step),
        )

    def cost_of(self, released: int) -> Cost:
        """What `released` answers cost, and the line's share if it ended the ranking."""
        compared = min(released + 1, self.k)
        of_one = Cost.pure(equal_part(self.epsilon, self.k))
        return self.cost.realised(of_one.times(compared))

    def spent(self, released: int) -> Fraction:
        """The ε of this cost."""
        return self.cost_of(released).pure_epsilon

    def run(self, answers: Vector, noise: Noise) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
        """The algorithm: the winning indices, and each winner's lead over the first non-winner.

        This is the line, if it ended the ranking; otherwise it is the best loser.
        """
        noisy = [answer + noise.draw(self.law) for answer in (*answers, self.threshold)]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        end = min(self.k, ranking.index(len(answers)))
        leads = [noisy[winner] - noisy[ranking[end]] for winner in ranking[:end]]
        return tuple(ranking[:end]), tuple(leads)

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """How far to shift each draw so that the neighbour gives the same output.

        If the line ended the ranking, its noise rises by Δ, the most that a loser can rise (if all
        answers fall, it stays). Winners are shifted by this, and by their own change. If k answers
        were found, this is the alignment of Noisy Top-K, with the line as one more loser.
        """
        winners, _ = output
        before = (*answers, self.threshold)
        after = (*neighbour, self.threshold)
        if len(winners) == self.k:
            return self.without_line.align(before, after, noise, output)
        shifted = (*winners, len(answers))
        falls = self.without_line.falls(before, after)
        return [shift_of(i, falls, shifted, STAYING) for i in range(len(before))]

    def unalign(self, answers: Vector, neighbour: Vector, noise: Vector, output: Output) -> Vector:
        """The inverse of `align`: it proves that no two draws are shifted to the same."""
        winners, _ = output
        if len(winners) < self.k:  # shifts depend on no noise
            return [-shift for shift in self.align(answers, neighbour, noise, output)]
        before = (*answers, self.threshold)
        after = (*neighbour, self.threshold)
        return self.without_line.unalign(before, after, noise, output)

    def delta(self, reach: int) -> Fraction:
        """An upper bound of the chance that any of `reach` items of only one unit is released.

        If items are unknown, this is the δ of the guarantee. It is rounded up.

        >>> hybrid = HybridTopK(threshold=133, k=10, epsilon=1, monotonic=True)
        >>> f"{float(hybrid.delta(1)):.2g}"
        '9.3e-07'
        """
        grid = Grid(self.grid)
        distance = grid.step * (grid.up(self.threshold) - grid.up(self.sensitivity))
        return chance_above(distance, self.law.scale, positive_integer("reach", reach))

    def line_for(self, delta: Rational, reach: int) -> Fraction:
        """The least threshold on the grid for which `delta(reach)` is at most δ.

        All other parameters are those of this mechanism; its own threshold does not matter.

        >>> hybrid = HybridTopK(threshold=0, k=10, epsilon=1, monotonic=True)
        >>> [int(hybrid.line_for("1e-6", reach)) for reach in (1, 10, 100)]
        [133, 156, 179]
        """
        allowed = share("delta", delta)
        items = positive_integer("reach", reach)
        program = self.in_steps()
        scale = program.law.scale

        def is_enough(distance: int) -> bool:
            return chance_above(Fraction(distance), scale, items) <= allowed

        ratio = items / (2 * allowed)
        log = math.log(ratio.numerator) - math.log(ratio.denominator)
        estimate = max(0, math.ceil(float(scale) * log))
        distance = least_whole(estimate, is_enough)
        return (program.sensitivity + distance) * Grid(self.grid).step

    def cost_for(self, prepared: Candidates) -> Cost:
        """The most that a release of these answers costs: with a δ if their items are unknown."""
        return self.cost.with_delta(self._delta_for(prepared))

    def _delta_for(self, prepared: Candidates) -> Fraction:
        if not isinstance(prepared, InGroups) or prepared.reach is None:
            return Fraction(0)
        return self.delta(prepared.reach)

    def prepare(self, answers: Answers, labels: Labels = None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged.

        There may be no unknown items, and their positions are not released.
        """
        if not isinstance(answers, PrivateCounts) or not answers.unknown:
            return candidates(self, self.law, answers, labels)
        if labels is not None:
            raise ValueError("labels must be left out: nobody knows the items beforehand")
        require_reach(answers)
        require_facts(answers, unknown=True, **claims_of(self))
        return as_candidates(answers, None, Grid(self.grid))

    def draw_paid(self, candidates: Candidates) -> Draw[Ranking]:
        """Select; the caller has paid."""
        program = self.in_steps()
        return draw_ranking(program, candidates, int(program.threshold))

    def _draw_and_build(self, prepared: Candidates) -> SelectedItems:
        return self.build(self.draw_paid(prepared).drawn, self._delta_for(prepared))

    def winners(self, ranking: Ranking, delta: Fraction = Fraction(0)) -> Winners:
        """The drawn winners in the units of answers, for a guarantee with this δ."""
        return ranked_winners(self, ranking, self.cost.with_delta(delta))

    def build(self, ranking: Ranking, delta: Fraction = Fraction(0)) -> SelectedItems:
        """The release of what was drawn."""
        cost = self.cost_of(ranking.leads.size).with_delta(delta)
        return self.winners(ranking, delta).released(MechanismUsed.of(self), cost)
