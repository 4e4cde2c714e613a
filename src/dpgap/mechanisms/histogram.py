"""The noisy histogram: every answer with noise, for units that move only a few answers.

If one unit can move at most `reach` answers, by at most Δ each, then the sum of all changes is at
most reach·Δ. So noise of scale reach·Δ/ε on *every* answer makes all of them private together.
Everything that is computed from the noisy answers costs nothing more: the k largest for any k, all
that reach a threshold, and the values themselves.

The noise is two-sided geometric, on whole steps. Nothing has to be rounded, and no other noise on
whole numbers has less variance at this cost. Noisy answers may tie, and coins break ties.
"""

import math
from dataclasses import KW_ONLY
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.cost import equal_part
from dpgap.data.private_counts import (
    PrivateCounts,
    array_of,
    redacted_repr,
    require_facts,
    require_reach,
)
from dpgap.estimates.errors import COINS, HistogramError, MeasurementError
from dpgap.exact.bits import Bits, secure_bits
from dpgap.exact.grid import MAX_STEPS, Grid, Labels, read_grid
from dpgap.exact.laws import GeometricNoise, Noise, Scalar, Vector, law_on_grid
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    Rational,
    declared,
    derived,
    parameter,
    positive_integer,
    positive_rational,
    share,
)
from dpgap.exact.reals import Integers, Real, decide, scaled
from dpgap.mechanisms.joint import by_value
from dpgap.mechanisms.measuring import ValueMechanism
from dpgap.mechanisms.mechanism import Answers
from dpgap.mechanisms.top_k import Candidates, Tops, as_candidates, in_order, places_of
from dpgap.question import Neighbours
from dpgap.releases.detail import Promise
from dpgap.releases.drawn import ReadOff, Values
from dpgap.releases.release import MeasuredValues

MOST_RETURNED = 10**6
"""The most empty items (true count 0) that may be expected in a release."""


class Cutoff(NamedTuple):
    """Which noisy answers are released: at most k (None: any number), from a line on (or None)."""

    k: int | None = None
    line: int | None = None
    """The threshold in whole steps; a noisy answer on the line is released."""


EVERYTHING = Cutoff()


@public
@declared()
class NoisyHistogram(ValueMechanism):
    """Release all answers with noise, if one person can move only a few of them.

    If each person has one answer, or one row, the reach is 1. Guarantee: pure ε-differential
    privacy of all noisy answers together, and so of every selection of them.

    Parameters
    ----------
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    reach
        The most answers that one person can move. The noise grows with it. If one person can move
        more, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.

    >>> release = NoisyHistogram(epsilon=1000).release([120, 80, 0])
    >>> release.values.tolist()
    [120.0, 80.0, 0.0]
    >>> round(NoisyHistogram(epsilon=1).variance ** 0.5, 2)
    1.36
    """

    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    reach: int = parameter(positive_integer, default=1)
    sensitivity: Exact = parameter(positive_rational, default=1)
    grid: ExactOrNone = parameter(read_grid, default=None)
    law: GeometricNoise = derived(
        lambda self: law_on_grid(
            GeometricNoise, self.grid, self.sensitivity, equal_part(self.epsilon, self.reach)
        )
    )

    @property
    def law_in_steps(self) -> GeometricNoise:
        """The same noise, for answers in whole grid steps."""
        return self.law.scaled(1 / Grid(self.grid).step)

    @property
    def variance(self) -> float:
        """The variance of each noisy answer."""
        return self.error().variance

    def run(self, answers: Vector, noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every answer plus its own noise."""
        return tuple(answer + noise.draw(self.law) for answer in answers)

    def align(self, answers: Vector, neighbour: Vector, noise: Vector, output: Vector) -> Vector:
        """The proof: each draw cancels the change of its answer; together at most reach·Δ."""
        return [before - after for before, after in zip(answers, neighbour, strict=True)]

    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        if isinstance(values, PrivateCounts):
            self._require_facts(values)
        return Grid(self.grid).steps(array_of(values, sensitivity=self.sensitivity), "values")

    def _draw_and_build(self, prepared: Integers) -> MeasuredValues:
        return self.build(Values(prepared + self.draws(prepared.size, 1, secure_bits())[0]))

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        """Exact noise for `count` answers, in steps; one row for every run."""
        return self.law_in_steps.floors(bits, runs, count)

    @property
    def promise(self) -> Promise:
        return Promise(self.cost, self.sensitivity, monotonic=False, reach=self.reach)

    def error(self, count: int = 1) -> MeasurementError:
        """The error of each noisy answer, if all of them are released; `count` has no effect."""
        return MeasurementError(self.law_in_steps, Grid(self.grid).step)

    def line_for(self, delta: Rational) -> int:
        """The least threshold, in whole steps, that hides items which only one person has.

        If only items that occur are counted, such an item is in the counts only if its person is in
        the table. Each of these items counts at most Δ, and there are at most `reach` of them. If
        only noisy counts from this threshold on are released, the chance that one of these items is
        released is at most δ: reach · P(Δ + noise ≥ line) ≤ δ. This is decided exactly.

        >>> [NoisyHistogram(1, reach=reach).line_for("1e-6") for reach in (1, 10)]
        [15, 156]
        """
        allowed = share("delta", delta) / self.reach
        return Grid(self.grid).up(self.sensitivity) + self.law_in_steps.least_step(allowed)

    def prepare(
        self,
        answers: Answers,
        labels: Labels,
        cutoff: Cutoff = EVERYTHING,
        delta: Rational | None = None,
    ) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged.

        `draw_paid` must get the same `cutoff`. Answers that count only items that occur (`unknown`)
        need a threshold of at least `line_for(delta)`.
        """
        if abs(cutoff.line or 0) > MAX_STEPS:
            raise ValueError("threshold must lie within ±2^60 grid steps")
        if isinstance(answers, PrivateCounts):
            self._require_facts(answers, labelled=labels is not None)
            if answers.unknown:
                self._require_line(cutoff, delta)
                return as_candidates(answers, None, Grid(self.grid))
        candidates = as_candidates(answers, labels, Grid(self.grid))
        self._require_few(candidates.size, cutoff)
        return candidates

    def _require_facts(self, answers: PrivateCounts, *, labelled: bool = False) -> None:
        """Refuse answers that contradict the claims of this mechanism."""
        claims: dict[str, Any] = {"sensitivity": self.sensitivity, "grid": self.grid}
        require_facts(answers, monotonic=False, labelled=labelled, unknown=True, **claims)
        is_replaced = answers.origin is not None and answers.origin.neighbours is Neighbours.REPLACE
        if is_replaced and (answers.unknown or len(answers) > 1):
            raise ValueError(
                "neighbours must be 'add-or-remove' for a noisy histogram: a unit that is "
                "replaced moves twice as many answers"
            )
        reach = require_reach(answers)
        if self.reach < reach:
            raise ValueError(
                f"reach must be at least that of the answers, {reach}, not {self.reach}"
            )

    def _require_line(self, cutoff: Cutoff, delta: Rational | None) -> None:
        if delta is None:
            raise ValueError("delta must be given if only items that occur are counted")
        lowest = self.line_for(delta)
        if cutoff.line is None or cutoff.line < lowest:
            threshold = lowest * Grid(self.grid).step
            raise ValueError(f"threshold must be at least {threshold} for this delta")

    def _require_few(self, size: int, cutoff: Cutoff) -> None:
        """Refuse a question that would return too many empty items, by public facts only."""
        expected = float(size)
        if cutoff.line is not None:
            expected *= float(self.law_in_steps.tail(cutoff.line))
        if cutoff.k is not None:
            expected = min(expected, cutoff.k)
        if expected > MOST_RETURNED:
            raise ValueError(
                f"threshold must be larger, or k stated: about {expected:.1e} items that nobody "
                f"has would be returned, and at most {MOST_RETURNED:,} are accepted"
            )

    def draw_paid(self, candidates: Candidates, cutoff: Cutoff = EVERYTHING) -> ReadOff:
        """The noisy answers from the cutoff on, the largest first; the caller has paid."""
        bits = secure_bits()
        grouped = by_value(candidates)
        answers = grouped.private_answers
        best, places = best_of(self.law_in_steps, answers, grouped.groups.sizes, cutoff, bits)
        members = grouped.find(best.groups, places)
        line = cutoff.line
        coin = None if line is None else 0
        if best.loser is not None:
            line, coin = best.loser
        return ReadOff(members.positions, members.labels, best.values, line, coin)

    def error_of(self, read_off: ReadOff) -> MeasurementError | HistogramError:
        """The error of values, given that they were selected from all noisy answers."""
        if read_off.line is None:
            return self.error()
        step = Grid(self.grid).step
        return HistogramError(self.law_in_steps, step, read_off.line, read_off.coin)


class Best(NamedTuple):
    """The noisy answers that are released, best first, in whole steps."""

    groups: Integers
    values: Integers
    loser: tuple[int, int] | None
    """The best noisy answer that is not released, in steps, and its coin in 2^24ths.

    None if all are released, or all from the line on.
    """


def best_of(
    law: GeometricNoise, values: Integers, sizes: Integers, cutoff: Cutoff, bits: Bits
) -> tuple[Best, Integers]:
    """Add noise to every answer, in steps; return those of the cutoff, and their indices in groups.

    Answers are given as values, with the number of answers that have each value. Answers that
    cannot be among the best are not drawn.

    All noisy answers together are private, so any choice of them costs nothing more: the best k,
    all that reach a line, or both. Noisy answers are whole numbers, and tie. Coins that are
    independent of the noise break ties (`dpgap.exact.laws` says where they come from). So the
    choice among tied answers reveals nothing about the true answers.

    Noisy answers with their coins are real numbers, enclosed by floats. If floats overlap, decimals
    and further bits decide, for the few answers concerned.

    **Only whole numbers leave.** The low bits of a float that was computed from a true answer can
    reveal this answer. So floats only decide floors, and the floors are returned: noisy answers in
    steps, and the best loser's coin in 2^24ths.
    """
    if not values.size:
        return Best(values, values, None), values
    k = cutoff.k
    if k is None:
        k = int(sizes.sum())
    tops = Tops(law, k, values, sizes, bits, cutoff.line)
    best = _Contenders(tops, values).best(int(values.max()), cutoff, bits)
    groups = tops.groups[best.groups]
    return best._replace(groups=groups), places_of(groups, sizes, bits)


class _Contenders:
    """Noisy answers with coins, minus an origin: enclosed by floats, and exact on demand."""

    def __init__(self, tops: Tops, values: Integers) -> None:
        self._answers = values[tops.groups]
        self._low = tops.low
        self._high = tops.high
        self._exact = cache(lambda: list(tops.exact()))

    __repr__ = redacted_repr

    def best(self, origin: int, cutoff: Cutoff, bits: Bits) -> Best:
        """The noisy answers of the cutoff, and the best of the others."""
        if cutoff.k is None or not self._low.size:
            return self._all(origin, cutoff.line, bits)
        order = self._order(min(cutoff.k + 1, self._low.size))  # with the best loser
        values = self._values(order, origin)
        reaching = _count_from(values, cutoff.line)
        count = min(cutoff.k, reaching)
        loser = None
        if count < reaching:
            loser = self._loser(int(order[count]), origin)
        return Best(order[:count].copy(), values[:count].copy(), loser)

    def _all(self, origin: int, line: int | None, bits: Bits) -> Best:
        """All answers; if no tied answer is left out, fresh coins do, and are much cheaper."""
        values = self._values(np.arange(self._low.size), origin)
        order = np.lexsort((bits.distinct(values.size, values.size), -values))
        values = values[order]
        count = _count_from(values, line)
        return Best(order[:count].copy(), values[:count].copy(), None)

    def _order(self, need: int) -> Integers:
        """The indices of the `need` largest, in order. If floats overlap, exact numbers decide."""
        order, _, _, certain = in_order(self._low[None], self._high[None], need)
        if not certain[0]:
            reals = list(map(Real, self._answers.tolist(), self._exact()))
            order[0] = sorted(range(len(reals)), key=reals.__getitem__, reverse=True)[:need]
        return order.ravel()

    def _values(self, order: Integers, origin: int) -> Integers:
        """Noisy answers without their coins."""
        low = np.floor(self._low[order])
        high = np.floor(self._high[order])
        undecided = np.flatnonzero(low != high)
        low[undecided] = 0
        values: Integers = origin + low.astype(np.int64)
        for rank in undecided.tolist():
            index = order[rank]
            noise = decide(self._exact()[index], math.floor)
            values[rank] = int(self._answers[index]) + noise
        return values

    def _loser(self, index: int, origin: int) -> tuple[int, int]:
        """A noisy answer and its coin, rounded down together; floats only decide the floor."""
        low = np.floor(self._low[index] * COINS)
        if low == np.floor(self._high[index] * COINS):
            return divmod(origin * COINS + int(low), COINS)
        noise: int = decide(scaled(COINS, self._exact()[index]), math.floor)
        return divmod(int(self._answers[index]) * COINS + noise, COINS)


def _count_from(values: Integers, line: int | None) -> int:
    """How many values reach the line; without a line, all do."""
    if line is None:
        return values.size
    return int((values >= line).sum())
