"""All paths at once: the program on unknown answers, parameters and noise, judged by z3.

Every path of the program is run through, and on each one z3 decides whether any answers, neighbour
and noise can violate a condition. A violation comes with such numbers.

With continuous noise, ties have probability zero and are left out (`ties=False`). Noise on a grid
does tie, and then they are counted.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import z3

from dpgap.exact.laws import Scalar
from dpgap.exact.parameters import readable
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.families import at_most, corners
from dpgap.proof.checker.numbers import Affine, BadProgram, Condition, Exact, Unknown, Violation
from dpgap.proof.checker.path_explorer import PathExplorer

_SOMEWHERE = object()
"""Stands for a point that exists but was not looked for."""


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
        if isinstance(factor, CostTerm):
            return CostTerm(self.term * factor.term)
        return CostTerm(self.term * _number(forms.exact(factor)))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "CostTerm":
        return CostTerm.__mul__(self, 1 / Fraction(forms.exact(divisor)))

    def __add__(self, other: Any) -> "CostTerm":
        return CostTerm(self.term + (other.term if isinstance(other, CostTerm) else _number(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "CostTerm":
        return CostTerm.__add__(self, other * -1)

    def __rsub__(self, other: Any) -> "CostTerm":
        return CostTerm.__add__(self * -1, other)


@functools.lru_cache(maxsize=4096)
def _number(value: Exact) -> Any:
    return z3.RealVal(value) if isinstance(value, int) else z3.Q(value.numerator, value.denominator)


class Paths(PathExplorer):
    """The judge of whole regions: explores every path of a program."""

    def __init__(self, epsilon: Exact, *, ties: bool) -> None:
        super().__init__()
        self._solver = z3.SimpleSolver()
        self.epsilon = epsilon
        self.ties = ties
        self._terms: dict[Unknown, Any] = {}
        self._sums: dict[tuple[Any, ...], Any] = {}
        self._model: Any = None
        self._facts: dict[tuple[Any, ...], list[tuple[Affine, bool]]] = {}
        self._known_box: dict[Unknown, tuple[Exact, Exact]] = {}
        self._box: dict[Unknown, tuple[Exact, Exact]] = {}
        self._bound: set[Unknown] = set()
        self._tied: set[Unknown] = set()
        """Unknowns that are confined together with others."""
        self._known: set[Unknown] = set()
        """Unknowns that are confined, or that something was asked about."""
        self._related: set[Unknown] = set()
        """Unknowns of which more is known than an interval of their own."""
        self._entered: list[tuple[Affine, bool]] = []
        self._scopes = 0

    def unknown(self, name: Unknown) -> Affine:
        """An unknown number."""
        return forms.affine(self, {name: 1})

    def confine(self, form: Affine, low: Exact, high: Exact) -> None:
        """Consider only what keeps the form between two known numbers."""
        term = self._term_of(form)
        self._bound.update(forms.terms_of(form))
        if len(forms.terms_of(form)) > 1:
            self._tied.update(forms.terms_of(form))
        self._solver.add(term >= _number(low), term <= _number(high))

    def between(self, name: str, low: Exact, high: Exact) -> Affine:
        """An unknown number between two known ones."""
        self._known_box[name] = low, high
        number = self.unknown(name)
        self.confine(number, low, high)
        return number

    def start_over(self) -> None:
        """Forget what was learnt on the last path."""
        super().start_over()
        self._facts = {}
        self._box = dict(self._known_box)
        self._known = set(self._bound)
        self._related = set(self._tied)

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        """Go on where the answer is this; `state` is a point there, or `_SOMEWHERE`."""
        self._entered.append((form, negative))
        self._model = None if state is _SOMEWHERE else state

    def leave(self) -> None:
        """Go back to before the last answer entered."""
        self._entered.pop()
        if self._scopes > len(self._entered):
            self._solver.pop()
            self._scopes -= 1

    def _catch_up(self) -> None:
        """Tell z3 what was entered; it is asked so rarely that this waits until then."""
        for form, negative in self._entered[self._scopes :]:
            self._solver.push()
            self._solver.add(self._claim(form, negative))
            self._scopes += 1

    def learn(self, form: Affine, negative: bool) -> None:
        """Keep the answer, so that z3 need not be asked about what follows from it."""
        if not negative and self._range(form)[1] == 0:
            # It is as large as it can be, so each unknown is at that end of its interval.
            for unknown, by in forms.terms_of(form).items():
                end = self._box[unknown][by > 0]
                self._box[unknown] = end, end
        self._facts.setdefault(_direction(form), []).append((form, negative))
        self._known.update(forms.terms_of(form))
        self._related.update(forms.terms_of(form))

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """A possible answer, a point there, and a point where the other is right, if any."""
        if self._is_in_box(form) or self._is_anything(form):
            return True, _SOMEWHERE, _SOMEWHERE
        first = self._in_model(form)
        here = self._model
        if first is None:  # the point last found lies on the border, or there is none
            here = self._where(self._claim(form, True))
            if here is None:
                return False, self._somewhere(form), None
            first = True
        return first, here, self._where(self._claim(form, not first))

    def _somewhere(self, form: Affine) -> Any:
        """A point where the form is not negative; there is one, or nothing but a tie."""
        point = self._where(self._claim(form, False))
        if point is None:
            self.stop()
        return point

    def implied(self, form: Affine) -> bool | None:
        """An answer that follows from intervals, or from an earlier answer and intervals."""
        if self._is_in_box(form):
            low, high = self._range(form)
            return False if low >= 0 else True if high < 0 else None
        for fact, negative in self._facts.get(_direction(form), ()):
            low, high = self._range(form - fact)
            if negative and high <= 0:
                return True
            if not negative and low >= 0:
                return False
        return None

    def _is_in_box(self, form: Affine) -> bool:
        """Whether all that is known about what is in the form are intervals, one for each."""
        return all(
            unknown in self._box and unknown not in self._related
            for unknown in forms.terms_of(form)
        )

    def _is_anything(self, form: Affine) -> bool:
        """Whether there is an unknown in the form that nothing is known about."""
        return not self._known.issuperset(forms.terms_of(form))

    def _range(self, form: Affine) -> tuple[Exact | float, Exact | float]:
        low: Exact | float = forms.constant_of(form)
        high: Exact | float = forms.constant_of(form)
        for unknown, by in forms.terms_of(form).items():
            if unknown not in self._box:
                return -math.inf, math.inf
            ends = sorted(by * end for end in self._box[unknown])
            low, high = low + ends[0], high + ends[1]
        return low, high

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
        """A point of this path where the claim holds; None if there is none."""
        self._catch_up()
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
        return term >= 0 if self.ties or not forms.draws_of(form) else term > 0

    def _met(self, condition: Condition, *, is_met: bool = True) -> Any:
        form, expected = forms.asked_form(condition), forms.expected_answer(condition)
        return self._claim(form, expected is is_met)

    def _term(self, unknown: Unknown) -> Any:
        if unknown not in self._terms:
            self._terms[unknown] = z3.Real(f"η{unknown}" if isinstance(unknown, int) else unknown)
        return self._terms[unknown]

    def _term_of(self, number: Scalar) -> Any:
        if not isinstance(number, Affine):
            return _number(forms.exact(number))
        key = (*forms.terms_of(number).items(), forms.constant_of(number))
        if key not in self._sums:
            self._sums[key] = self._sum(number)
        return self._sums[key]

    def _sum(self, number: Affine) -> Any:
        parts = [
            self._term(unknown) if by == 1 else _number(by) * self._term(unknown)
            for unknown, by in forms.terms_of(number).items()
        ]
        if forms.constant_of(number) or not parts:
            parts.append(_number(forms.constant_of(number)))
        return z3.Sum(parts) if len(parts) > 1 else parts[0]

    def assume(self, condition: Condition | bool) -> None:
        """Leave out whatever does not meet the condition."""
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

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Scalar], extra: Exact) -> None:
        """Raise a violation where shifting the draws costs more than ε less `extra`."""
        allowed = self.epsilon - extra
        ranges = [
            self._range(shift) if isinstance(shift, Affine) else (shift, shift) for shift in shifts
        ]
        if at_most(laws, ranges, allowed):
            return
        measured = [
            CostTerm(self._term_of(shift)) if terms else constant
            for shift, (terms, constant) in zip(shifts, map(forms.form_of, shifts), strict=True)
        ]
        totals = corners(laws, measured)
        over = [
            total.term > _number(allowed)
            if isinstance(total, CostTerm)
            else z3.BoolVal(total > allowed)
            for total in totals
        ]
        most = readable(Fraction(allowed))
        self._raise_where(z3.Or(over), Violation("cost", f"the shifts can cost more than {most}"))

    def _raise_where(self, claim: Any, violation: Violation) -> None:
        point = self._where(claim)
        if point is not None:
            self._model = point
            raise violation

    def point(self) -> dict[Unknown, Fraction]:
        """The numbers at which the last violation occurs."""
        if self._model is None:
            self._model = self._where(z3.BoolVal(True))
        values = {
            unknown: self._model.eval(term, model_completion=True)
            for unknown, term in self._terms.items()
        }
        return {
            unknown: Fraction(value.numerator_as_long(), value.denominator_as_long())
            for unknown, value in values.items()
        }


def _direction(form: Affine) -> tuple[Any, ...]:
    """What forms that differ by a bounded amount have in common: the unbounded unknowns."""
    return tuple(sorted((u, by) for u, by in forms.terms_of(form).items() if isinstance(u, int)))
