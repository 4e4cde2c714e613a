"""All paths at once: the program on unknown answers, parameters and noise, judged by z3.

Every path of the program is run through, and on each one z3 decides whether any answers, neighbour
and noise can violate a condition. A violation comes with such numbers.

With continuous noise, ties have probability zero and are left out (`ties=False`). Noise on a grid
does tie, and then they are counted.
"""

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import z3

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker import paths
from dpgap.proof.checker.alignment import cost_of
from dpgap.proof.checker.numbers import (
    Affine,
    BadProgram,
    Condition,
    Exact,
    Unknown,
    Violation,
)

_SOMEWHERE = object()
"""A point that exists but was not computed."""


class CostTerm:
    """A z3 term that a law can compute a cost with."""

    __slots__ = ("term",)

    def __init__(self, term: Any) -> None:
        self.term = term

    def __abs__(self) -> "CostTerm":
        return CostTerm(z3.If(self.term >= 0, self.term, -self.term))

    def __ceil__(self) -> "CostTerm":
        return CostTerm(-z3.ToReal(z3.ToInt(-self.term)))

    def __mul__(self, factor: Any) -> "CostTerm":
        return CostTerm(self.term * _number(forms.exact(factor)))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "CostTerm":
        return CostTerm.__mul__(self, 1 / Fraction(forms.exact(divisor)))

    def __add__(self, other: object) -> "CostTerm":
        addend = other.term if isinstance(other, CostTerm) else _number(other)
        return CostTerm(self.term + addend)

    __radd__ = __add__


@functools.lru_cache(maxsize=4096)
def _number(value: Exact) -> Any:
    if isinstance(value, int):
        return z3.RealVal(value)
    return z3.Q(value.numerator, value.denominator)


class Paths(paths.PathExplorer):
    """The judge of whole regions: explores every path of a program."""

    def __init__(self, epsilon: Any, *, ties: bool) -> None:
        self._solver = z3.SimpleSolver()
        self.epsilon = epsilon
        self.ties = ties
        self.step: Exact = 1
        """The distance between numbers of the grid, if ties count."""
        self._terms: dict[Unknown, Any] = {}
        self._sums: dict[tuple[Any, ...], Any] = {}
        self._model: Any = None
        self._violated: Any = None
        """A point with the last violation, if it does not hold on a whole path."""
        self._moves: list[Affine] = []
        self._bound: set[Unknown] = set()
        self._entered: list[tuple[Affine, bool]] = []
        self._scopes = 0
        super().__init__()

    def unknown(self, name: Unknown) -> Affine:
        """An unknown number."""
        return forms.affine(self, {name: 1})

    def confine(self, form: Affine, low: Exact, high: Exact) -> None:
        """Consider only points at which the form is between two known numbers."""
        term = self._term_of(form)
        self._bound.update(forms.terms_of(form))
        self._solver.add(term >= _number(low), term <= _number(high))

    def require_possible(self) -> None:
        """Refuse limits that contradict each other: they would prove every claim."""
        if self._where(z3.BoolVal(True)) is None:
            raise BadProgram("no answers and neighbours are within the range: nothing is proved")

    def between(self, name: str, low: Exact, high: Exact) -> Affine:
        """An unknown number between two known ones."""
        number = self.unknown(name)
        self.confine(number, low, high)
        return number

    def neighbours(
        self, n: int, ends: tuple[Exact, Exact], sensitivity: Exact = 1
    ) -> tuple[list[Affine], list[Affine], list[Affine]]:
        """Unknown answers, the move of each, and the resulting neighbour."""
        answers = [self.unknown(f"q{i}") for i in range(n)]
        low, high = ends
        moves = [self.between(f"d{i}", low * sensitivity, high * sensitivity) for i in range(n)]
        self._moves = moves
        return answers, moves, [q + move for q, move in zip(answers, moves, strict=True)]

    def start_over(self) -> None:
        """Forget what was learnt on the last path."""
        super().start_over()
        self._facts: dict[frozenset[Any], list[tuple[Exact, bool]]] = {}
        """What was learnt: for the terms of each form its constants, and whether it is negative."""
        self._confined = set(self._bound)
        """Unknowns that are confined, or that something was asked about."""

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        """Go on where the answer is this; `state` is a point there, or `_SOMEWHERE`."""
        self._entered.append((form, negative))
        self._model = state
        if state is _SOMEWHERE:
            self._model = None

    def leave(self) -> None:
        """Go back to before the last answer entered."""
        self._entered.pop()
        if self._scopes > len(self._entered):
            self._solver.pop()
            self._scopes -= 1

    def learn(self, form: Affine, negative: bool) -> None:
        """Store the answer, so that z3 is not asked about its consequences."""
        terms, constant = forms.form_of(form)
        self._facts.setdefault(frozenset(terms.items()), []).append((constant, negative))
        self._confined.update(terms)

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """A possible answer, a point with it, and a point with the other answer, if any."""
        if self._is_anything(form):
            return True, _SOMEWHERE, _SOMEWHERE
        answer = self._in_model(form)
        if answer is not None:
            point = self._model
            return answer, point, self._where(self._claim(form, not answer))
        # The point last found lies on the border, or there is none.
        below = self._where(self._claim(form, True))
        not_below = self._where(self._claim(form, False))
        if below is not None:
            return True, below, not_below
        if not_below is None:  # there is nothing but a tie
            self.stop()
        return False, not_below, None

    def implied(self, form: Affine) -> bool | None:
        """The answer, if it follows from an earlier one about a form that differs by a constant."""
        terms, constant = forms.form_of(form)
        for earlier_constant, negative in self._facts.get(frozenset(terms.items()), ()):
            if negative and constant <= earlier_constant:
                return True
            if not negative and constant >= earlier_constant:
                return False
        return None

    def _is_anything(self, form: Affine) -> bool:
        """Whether there is an unknown in the form that nothing is known about."""
        return not self._confined.issuperset(forms.terms_of(form))

    def _in_model(self, form: Affine) -> bool | None:
        """The answer at the point last found, if there is one on this path."""
        if self._model is None:
            return None
        term = self._term_of(form)
        if z3.is_true(self._model.eval(term < 0, model_completion=True)):
            return True
        if z3.is_true(self._model.eval(self._claim(form, False), model_completion=True)):
            return False
        return None

    def _where(self, claim: Any) -> Any:
        """A point of this path where the claim holds; None if there is none.

        The entered answers are passed to z3 only here, because z3 is asked rarely.
        """
        for form, negative in self._entered[self._scopes :]:
            self._solver.push()
            self._solver.add(self._claim(form, negative))
            self._scopes += 1
        self._solver.push()
        self._solver.add(claim)
        verdict = self._solver.check()
        if verdict == z3.unknown:
            raise BadProgram("z3 cannot decide a question of this program")
        point = self._solver.model() if verdict == z3.sat else None
        self._solver.pop()
        return point

    def _claim(self, form: Affine, negative: bool) -> Any:
        term = self._term_of(form)
        if negative:
            return term < 0
        if self.ties or not forms.draws_of(form):
            return term >= 0
        return term > 0

    def _met(self, condition: Condition, *, is_met: bool = True) -> Any:
        expected = forms.expected_answer(condition)
        return self._claim(forms.asked_form(condition), expected is is_met)

    def _term(self, unknown: Unknown) -> Any:
        if unknown not in self._terms:  # plain letters, for other provers
            name = f"noise_{unknown}" if isinstance(unknown, int) else unknown
            self._terms[unknown] = z3.Real(name)
        return self._terms[unknown]

    def _term_of(self, number: Scalar) -> Any:
        if not isinstance(number, Affine):
            return _number(forms.exact(number))
        terms, constant = forms.form_of(number)
        key = (tuple(terms.items()), constant)
        if key not in self._sums:
            parts = [self._multiple(unknown, factor) for unknown, factor in terms.items()]
            if constant or not parts:
                parts.append(_number(constant))
            self._sums[key] = z3.Sum(parts) if len(parts) > 1 else parts[0]
        return self._sums[key]

    def _multiple(self, unknown: Unknown, factor: Exact) -> Any:
        term = self._term(unknown)
        return term if factor == 1 else _number(factor) * term

    def assume(self, condition: Condition | bool) -> None:
        """Leave this path if the condition does not hold on it."""
        if isinstance(condition, bool):
            if not condition:
                self.stop()
        elif self._is_anything(forms.asked_form(condition)):
            self.take_for_granted(forms.asked_form(condition), forms.expected_answer(condition))
        elif not condition:
            self.stop()

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        """Raise the violation where the condition does not hold."""
        if isinstance(condition, bool):
            if not condition:
                self._raise_where(z3.BoolVal(True), violation)
            return
        implied = self.implied(forms.asked_form(condition))
        if implied is not forms.expected_answer(condition):
            self._raise_where(self._met(condition, is_met=False), violation)

    def require_zero(self, form: Affine, violation: Violation) -> None:
        """Raise the violation where the form is not zero."""
        if forms.terms_of(form) or forms.constant_of(form):
            self._raise_where(self._term_of(form) != 0, violation)

    def require_steps(self, shifts: Sequence[Scalar]) -> None:
        """Raise a violation unless noise on a grid stays there, if all unknowns are on it."""
        if not self.ties:
            return
        for terms, constant in map(forms.form_of, shifts):
            parts = [*terms.values(), constant / Fraction(self.step)]
            if any(part.denominator > 1 for part in parts):
                raise Violation("grid", "a shift is not always a whole number of steps")

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar]) -> None:
        """Raise a violation where shifting the draws costs more than ε."""
        message = f"the shifts can cost more than {readable(Fraction(self.epsilon))}"
        self.require_at_most(laws, shifts, self.epsilon, Violation("cost", message))

    def require_at_most(
        self, laws: Sequence[Any], shifts: Sequence[Scalar], limit: Scalar, violation: Violation
    ) -> None:
        """Raise the violation where shifting the draws costs more than the limit."""
        total = cost_of(laws, [CostTerm(self._term_of(shift)) for shift in shifts])
        cost = total.term if isinstance(total, CostTerm) else _number(total)
        self._raise_where(cost > self._term_of(limit), violation)

    def _raise_where(self, claim: Any, violation: Violation) -> None:
        point = self._where(claim)
        if point is not None:
            self._violated = self._where_moved(claim) or point
            raise violation

    def _where_moved(self, claim: Any) -> Any:
        """A point where the claim holds, and the neighbour differs; None if there is none."""
        moved = [self._term_of(move) != 0 for move in self._moves]
        return self._where(z3.And(claim, z3.Or(moved)))

    def point(self) -> dict[Unknown, Fraction]:
        """The numbers at which the last violation occurs; the neighbour differs if it can."""
        anywhere = z3.BoolVal(True)
        point = self._violated or self._where_moved(anywhere) or self._where(anywhere)
        values = {
            unknown: point.eval(term, model_completion=True)
            for unknown, term in self._terms.items()
        }
        return {
            unknown: Fraction(value.numerator_as_long(), value.denominator_as_long())
            for unknown, value in values.items()
        }
