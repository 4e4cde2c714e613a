"""One point at a time: the conditions of a proof on given answers, neighbour and noise.

Everything is exact: answers, noise and costs are fractions, and nothing is judged in floats. The
program gets its noise as unknowns, whose values are known here. So each shift shows which draws
it depends on. Each question of the alignment is then answered the other way as well: the shifts
that change depend on the draws that the question is about.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker import paths
from dpgap.proof.checker.alignment import (
    ReadOnly,
    cost_of,
    joint_cost_of,
    moved,
    require_undone,
    run_and_align,
    trial,
)
from dpgap.proof.checker.cycles import Dependence, cycle_message
from dpgap.proof.checker.numbers import (
    Affine,
    BadNoise,
    Condition,
    Exact,
    Violation,
)
from dpgap.proof.checker.skeletons import seal

if TYPE_CHECKING:
    pass


class Point(paths.PathExplorer):
    """The judge of a single point."""

    most_questions = 1_000_000

    def __init__(self, noise: Sequence[Exact], epsilon: Exact, contrary: int | None = None) -> None:
        """`contrary` says which question of the alignment to answer the other way."""
        super().__init__()
        self._noise = noise
        self.epsilon = epsilon
        self._contrary = contrary
        self.ties = True
        self.step = 1

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """Whether the form is below zero here; nothing else is possible."""
        is_negative = self.value_of(form) < 0
        is_contrary = len(self.transcript) == self._contrary
        return is_negative != is_contrary, None, None

    def value_of(self, number: Scalar) -> Exact:
        """The number at this point."""
        if not isinstance(number, Affine):
            return forms.exact(number)
        if any(draw >= len(self._noise) for draw in forms.draws_of(number)):
            raise BadNoise(f"noise must have a value for every draw, not {len(self._noise)} alone")
        terms = forms.terms_of(number)
        total = (terms[draw] * self._noise[draw] for draw in forms.draws_of(number))
        return sum(total, forms.constant_of(number))

    def assume(self, condition: Condition | bool) -> None:
        """Refuse noise that could not have been drawn."""
        if not condition:
            raise BadNoise("noise must lie in the support of its law")

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation if the condition does not hold."""
        if not condition:
            raise violation

    def require_steps(self, shifts: Sequence[Scalar]) -> None:
        """Numbers at a point may be any fractions, so a grid is not checked."""

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation if the form is not zero."""
        if self.value_of(form) != 0:
            raise violation

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar]) -> None:
        """Raise a violation if shifting the draws costs more than ε."""
        total = cost_of(laws, [Fraction(self.value_of(shift)) for shift in shifts])
        if total > self.epsilon:
            allowed = readable(Fraction(self.epsilon))
            raise Violation("cost", f"the shifts cost {readable(total)}, more than {allowed}")


def shifts_at(
    mechanism: Any, answers: Sequence[Exact], neighbour: Sequence[Exact], noise: Sequence[Exact]
) -> tuple[tuple[Fraction, ...], Fraction]:
    """The shifts of an alignment at one point, and what they cost together."""
    point = Point(noise, 0)
    path = run_and_align(mechanism, answers, neighbour, point)
    draws = path.draws
    shifts = tuple(Fraction(point.value_of(shift)) for shift in path.shifts)
    joint_cost = joint_cost_of(mechanism, draws.laws)
    if joint_cost is None:
        return shifts, Fraction(cost_of(draws.laws, shifts))
    cost = joint_cost(ReadOnly(draws.values), ReadOnly(moved(draws.values, shifts)))
    return shifts, Fraction(point.value_of(cost))


def check(
    mechanism: Any,
    answers: Sequence[Scalar],
    neighbour: Sequence[Scalar],
    noise: Sequence[Scalar],
    *,
    epsilon: Scalar = None,
) -> None:
    """Check every condition at one point; raise a `Violation` that says which one fails.

    >>> import dpgap
    >>> top = dpgap.NoisyMax(epsilon=1)
    >>> check(top, answers=[5, 3], neighbour=[4, 4], noise=[0, 1])
    """
    allowed = forms.exact(mechanism.epsilon if epsilon is None else epsilon)
    values = [forms.exact(value) for value in noise]
    before = [forms.exact(answer) for answer in answers]
    after = [forms.exact(answer) for answer in neighbour]
    point = Point(values, allowed)
    path = trial(mechanism, before, after, point)
    draw_count = len(path.draws.laws)
    if draw_count < len(values):
        raise BadNoise(f"noise has {len(values)} values, but only {draw_count} were drawn")
    dependence = Dependence()
    dependence.add(path)
    for number, (draws, _) in enumerate(path.questions):
        if draws:
            contrary = Point(values, allowed, contrary=number)
            unknowns = ReadOnly(forms.affine(contrary, {draw: 1}) for draw in range(draw_count))
            sealed = seal(path.output)
            shifts = list(mechanism.align(ReadOnly(before), ReadOnly(after), unknowns, sealed))
            questions = path.questions[: number + 1]
            dependence.add(replace(path, shifts=shifts, questions=questions))
    cycle = dependence.cycle()
    if cycle and not hasattr(mechanism, "unalign"):
        raise Violation("acyclic", cycle_message(cycle))
    if cycle:
        require_undone(deepcopy(mechanism), path, point)
