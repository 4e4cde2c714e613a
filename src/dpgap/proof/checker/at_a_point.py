"""One point at a time: the conditions of a proof on given answers, neighbour and noise.

Everything is exact: answers, noise and costs are fractions, and nothing is judged in floats. The
program gets its noise as unknowns, whose values are known here. So each shift shows which draws it
depends on. Each question of the alignment is then answered the other way as well: the shifts that
change depend on the draws that the question is about.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.checker.alignment import Given, Mechanism, Trial, trial
from dpgap.proof.checker.any_share import corners
from dpgap.proof.checker.dependence import Dependence, cycle_message
from dpgap.proof.checker.numbers import (
    Affine,
    BadNoise,
    BadProgram,
    Condition,
    Exact,
    Violation,
    exact,
)
from dpgap.proof.checker.output import seal

_MOST_QUESTIONS = 1_000_000


class Point:
    """The judge of a single point."""

    def __init__(self, noise: Sequence[Exact], epsilon: Exact) -> None:
        self._noise = noise
        self.epsilon = epsilon
        self.ties = True
        self._watching = False
        self._asked = 0
        self.contrary: int | None = None
        """Which question of the alignment to answer the other way."""
        self.alignment_questions: list[tuple[set[int], bool]] = []

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero here."""
        self._asked += 1
        if self._asked > _MOST_QUESTIONS:
            raise BadProgram(f"the program never stops: it asked {_MOST_QUESTIONS:,} questions")
        negative = self._at(form) < 0
        if self._watching:
            if len(self.alignment_questions) == self.contrary:
                negative = not negative
            self.alignment_questions.append((form.draws, negative))
        return negative

    def _at(self, number: Scalar) -> Exact:
        if not isinstance(number, Affine):
            return exact(number)
        if any(draw >= len(self._noise) for draw in number.draws):
            raise BadNoise(
                f"noise must have a value for every draw: the program takes more than "
                f"{len(self._noise)}"
            )
        return number.at(self._noise)

    def assume(self, condition: Condition | bool) -> None:
        """Refuse noise that could not have been drawn."""
        if not condition:
            raise BadNoise("noise must lie in the support of its law")

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation if the condition does not hold."""
        if not condition:
            raise violation

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation if the form is not zero."""
        if self._at(form) != 0:
            raise violation

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar], extra: Exact) -> None:
        """Raise a violation if shifting the draws costs more than ε less `extra`."""
        total = max(corners(laws, [Fraction(self._at(shift)) for shift in shifts]))
        if total > self.epsilon - extra:
            allowed = readable(Fraction(self.epsilon - extra))
            raise Violation("cost", f"the shifts cost {readable(total)}, more than {allowed}")

    def watch_alignment(self, begins: bool) -> None:
        """Say whether the questions that follow are the alignment's."""
        self._watching = begins


def check(
    mechanism: Mechanism,
    answers: Sequence[Scalar],
    neighbour: Sequence[Scalar],
    noise: Sequence[Scalar],
    *,
    epsilon: Scalar = None,
    general: bool = False,
) -> None:
    """Check every condition at one point; raise a `Violation` that says which one fails.

    >>> import dpgap
    >>> top = dpgap.NoisyMax(epsilon=1)
    >>> check(top, answers=[5, 3], neighbour=[4, 4], noise=[0, 1])
    """
    allowed = exact(mechanism.epsilon if epsilon is None else epsilon)  # type: ignore[attr-defined]
    fixed = [exact(value) for value in noise]
    before, after = [exact(a) for a in answers], [exact(a) for a in neighbour]
    point = Point(fixed, allowed)
    made = trial(mechanism, before, after, point, general=general)
    drawn = len(made.draws.laws)
    if drawn < len(fixed):
        raise BadNoise(f"noise has {len(fixed)} values, but only {drawn} were drawn")
    dependence = Dependence()
    dependence.add(made)
    for number, (about, _) in enumerate(made.questions):
        if about:
            dependence.add(
                _otherwise(mechanism, before, after, made, Point(fixed, allowed), number)
            )
    for cycle in dependence.cycles(general=general):
        raise Violation("acyclic", cycle_message(cycle))


def _otherwise(
    mechanism: Mechanism,
    before: Sequence[Exact],
    after: Sequence[Exact],
    made: Trial,
    point: Point,
    question: int,
) -> Trial:
    """The shifts of the alignment, had one of its questions been answered the other way."""
    point.contrary = question
    point.watch_alignment(True)
    noise = Given(Affine(point, {number: 1}) for number in range(len(made.draws.laws)))
    shifts = list(mechanism.align(Given(before), Given(after), noise, seal(made.output)))
    return replace(made, shifts=shifts, questions=made.questions[: question + 1])
