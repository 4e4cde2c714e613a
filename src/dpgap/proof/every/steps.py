"""Proofs of streams for every n: one step from any state.

The *state* is the units used so far, and the values that all steps share, such as a noisy
threshold. On the neighbour the same number of units is used, and the shared value is higher by the
rise. From any such state, one step on an arbitrary answer gives the same outcome on both sides,
ends in such a state again, and costs at most the units that it uses. So the whole stream costs at
most the cost of the shared draw plus that of all units. `require_fold` shows that a stream consists
only of such steps.

`rise` is given the sum of all answers and no single one. So an arbitrary answer and the sum of the
rest stand for all of them.

Shifts are the same for all noise with the same outcomes. So they are acyclic, |det J| = 1, and
there are as many alignments as there are sequences of outcomes: countably many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Law, Scalar
from dpgap.proof.checker import alignment, skeletons
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.alignment import Draws, NoiseSource, Replayed
from dpgap.proof.checker.numbers import Affine, BadProgram, Exact, Violation
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL
from dpgap.proof.every.few_answers import recording
from dpgap.proof.every.folds import Opening, require_fold

if TYPE_CHECKING:
    from dpgap.proof.checker.recording import Recording


@dataclass(frozen=True, slots=True, eq=False)
class Charged:
    """Noise whose cost is counted in units: its cost at charge 1, times its units."""

    at_one: Law
    units: Affine
    can_tie = property(attrgetter("at_one.can_tie"))
    supports = property(attrgetter("at_one.supports"))


class Budget(NamedTuple):
    """The budget of a stream: the shared draw, and a number of units with a price."""

    opening: Opening
    share: Exact
    capacity: Scalar
    unit: Exact
    has_whole_units: bool = False


def prove_steps(mechanism: Any, kind: str, *, ties: bool) -> list[Theorem]:
    """The theorems about one step of a mechanism with known numbers.

    Beside `run` and `align` it has `step`, `align_step`, `rise` and `live`, as `SparseVector` has
    them, and `capacity` units of `unit` each.
    """
    opening = require_fold(mechanism)
    share = forms.exact(mechanism.epsilon) - mechanism.capacity * forms.exact(mechanism.unit)
    unit = forms.exact(mechanism.unit)
    budget = Budget(opening, share, mechanism.capacity, unit, has_whole_units=True)
    judge = recording(forms.exact(mechanism.epsilon), ties=ties)
    judge.step = getattr(mechanism, "grid", None) or 1
    judge.assume_whole(judge.unknown("used"))
    return [prove_step(type(mechanism).__name__, mechanism, budget, kind, judge)]


def prove_step(name: str, program: Any, budget: Budget, kind: str, judge: "Recording") -> Theorem:
    """One step from any state, as a theorem; raises the first violation.

    On each path: one step, its shifts, and the same step on the neighbour.
    """
    alignment.require_sound(budget.opening.law, judge)
    used = judge.unknown("used")
    judge.assume_everywhere(used >= 0)
    judge.assume_everywhere(used <= budget.capacity)
    answer = judge.unknown("answer")
    other_answers = judge.unknown("rest")
    shared = judge.unknown("shared")
    delta = forms.exact(getattr(program, "sensitivity", 1))
    low, high = DIRECTIONS[kind]
    move = judge.between("move", delta * low, delta * high)
    move_of_others = judge.unknown("others_move")
    if kind != GENERAL:  # all move the same way
        judge.assume_everywhere(move_of_others >= 0 if high else move_of_others <= 0)
    laws: dict[Any, list[Any]] = {}

    def on_path() -> None:
        if used > 0 and not program.live(used):
            return  # the stream has ended
        sum_before = answer + other_answers
        rise = program.rise(sum_before, answer + move + other_answers + move_of_others)
        opening_shift = budget.opening.sign * rise
        _require_opening_paid(budget, opening_shift, judge)
        draws = Draws(judge, [], [])
        outcome, used_after = skeletons.collect(
            program.step(used, answer, shared, NoiseSource(draws))
        )
        live = program.live(used)
        skeleton, _ = skeletons.take_apart(outcome)
        state = skeleton, live if isinstance(live, int) else bool(live)
        unclear = Violation("draws", "the outcome must tell which draws a step took")
        judge.require(laws.setdefault(state, draws.laws) == draws.laws, unclear)
        judge.begin("align")
        shifts, counted = program.align_step(used, rise - move, skeletons.seal(outcome))
        if len(shifts) != len(draws.values):
            raise BadProgram("align_step must return one shift for every draw of its step")
        judge.require(
            _is_free_of_noise(judge, [*shifts, rise]),
            Violation("acyclic", "a shift depends on noise"),
        )
        judge.require_steps([*shifts, opening_shift])
        alignment.require_supported(draws, shifts)
        _require_paid(draws.laws, shifts, (used_after - used) * budget.unit, judge)
        _require_units(budget, used, used_after, judge)
        replayed = Replayed(draws.laws, alignment.moved(draws.values, shifts), [])
        same = skeletons.collect(
            program.step(used, answer + move, shared + rise, NoiseSource(replayed))
        )
        alignment.require_same_output((outcome, used_after), same, judge)
        miscounted = Violation("output", "align counts other units")
        judge.require_zero(counted - used_after + 0 * used, miscounted)
        replayed.require_all_taken()

    return judge.proved(f"{name}, {kind}: one step", on_path)


def _require_opening_paid(budget: Budget, shift: Affine, judge: "Recording") -> None:
    """Shifting the shared draw by the rise costs its share at most, and keeps its support."""
    law = budget.opening.law
    over = Violation("cost", "the rise can cost more than its share")
    judge.require_at_most([law], [shift], budget.share, over)
    draw = judge.unknown("shared_draw")
    judge.assume(law.supports(draw))
    unsupported = Violation("support", "the rise takes noise out of its support")
    judge.require(law.supports(draw + shift), unsupported)


def _is_free_of_noise(judge: "Recording", shifts: Sequence[Any]) -> bool:
    """Whether no shift, and no question of the alignment, depends on noise."""
    if any(draws for draws, _ in forms.questions_of(judge.transcript)):
        return False
    return not any(map(forms.draws_of, shifts))


def _require_units(budget: Budget, used: Affine, used_after: Affine, judge: "Recording") -> None:
    """Units are used up, never given back, and within the budget."""
    beyond = Violation("cost", "more units are used than there are")
    judge.require(used_after <= budget.capacity, beyond)
    given_back = Violation("cost", "units that are used can be had back")
    judge.require(used_after - used >= 0, given_back)
    if budget.has_whole_units:
        broken = Violation("cost", "units that are used must be whole numbers")
        judge.require_whole(used_after, broken)


def _require_paid(laws: Sequence[Any], shifts: Sequence[Scalar], paid: Affine, judge: Any) -> None:
    over = Violation("cost", "the shifts can cost more than the units that are used")
    shifted = [
        (law, shift)
        for law, shift in zip(laws, shifts, strict=True)
        if isinstance(shift, Affine) or shift
    ]
    if not any(isinstance(law, Charged) for law, _ in shifted):
        shifted_laws = [law for law, _ in shifted]
        judge.require_at_most(shifted_laws, [shift for _, shift in shifted], paid, over)
        return
    judge.require(len(shifted) == 1, Violation("cost", "a step shifts more than one draw"))
    for law, shift in shifted:  # units times at most 1
        judge.require_at_most([law.at_one], [shift], 1, over)
        judge.require(law.units <= paid, over)
