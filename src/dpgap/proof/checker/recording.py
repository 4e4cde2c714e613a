"""The judge of whole regions that also writes all questions down, as a theorem in SMT-LIB.

`Paths` lets z3 decide, path by path, and stops at the first violation. Here everything is written
down: the assumptions, every path, and every condition on it. That there are no other paths is one
more claim. So another prover can check the whole theorem again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import z3

from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.numbers import (
    Affine,
    Condition,
    Exact,
    Violation,
)
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.symbolic import Paths


class Recording(Paths):
    """Paths that are written down."""

    def __init__(self, epsilon: Exact | None, *, ties: bool) -> None:
        """Without ε, costs are proved elsewhere."""
        super().__init__(epsilon, ties=ties)
        self._hypotheses: dict[str, Any] = {}
        self._covered: list[Any] = []
        self._failures: dict[str, list[Any]] = {}

    def assume_everywhere(self, condition: Condition) -> None:
        """Consider only points that meet the condition."""
        self._suppose(self._met(condition))
        self._bound.update(forms.terms_of(forms.asked_form(condition)))

    def assume_whole(self, number: Affine) -> None:
        """Consider only whole numbers."""
        self._suppose(z3.IsInt(self._term_of(number)))

    def confine(self, form: Affine, low: Exact, high: Exact) -> None:
        super().confine(form, low, high)
        self.assume_everywhere(form >= low)
        self.assume_everywhere(form <= high)

    def _suppose(self, claim: Any) -> None:
        if claim.sexpr() not in self._hypotheses:
            self._hypotheses[claim.sexpr()] = claim
            if not self._scopes:
                self._solver.add(claim)

    def require(self, condition: Condition | bool, violation: Violation) -> None:
        if isinstance(condition, bool):
            super().require(condition, violation)
        else:
            self._raise_where(self._met(condition, is_met=False), violation)

    def require_zero(self, form: Affine, violation: Violation) -> None:
        self._failures.setdefault(violation.condition, [])  # a claim even where it is plain
        super().require_zero(form, violation)

    def require_whole(self, number: Affine, violation: Violation) -> None:
        """Raise the violation where the number is not whole."""
        self._raise_where(z3.Not(z3.IsInt(self._term_of(number))), violation)

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Any]) -> None:
        if self.epsilon is not None:
            over = Violation("cost", "the shifts can cost more than is allowed")
            self.require_at_most(laws, shifts, self.epsilon, over)

    def assume(self, condition: Condition | bool) -> None:
        if isinstance(condition, bool):
            super().assume(condition)
            return
        claim = self._met(condition)
        self._hypotheses.setdefault(claim.sexpr(), claim)
        self.take_for_granted(forms.asked_form(condition), forms.expected_answer(condition))

    def _path_condition(self) -> Any:
        """The condition under which the program takes this path, up to here."""
        decisions = self._decisions[: self._replayed]
        return z3.And([self._claim(decision.form, decision.negative) for decision in decisions])

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        super().enter(form, negative, state)
        if not self.ties and forms.draws_of(form):  # it has probability zero
            apart = self._term_of(form) != 0
            self._hypotheses.setdefault(apart.sexpr(), apart)

    def _raise_where(self, claim: Any, violation: Violation) -> None:
        failure = z3.And(self._path_condition(), claim)
        self._failures.setdefault(violation.condition, []).append(failure)
        super()._raise_where(claim, violation)

    def proved(self, name: str, body: Callable[[], None]) -> Theorem:
        """All that is claimed on all paths of the body; raises the first violation."""

        def recorded() -> None:
            body()
            self._covered.append(self._path_condition())

        self.explore(recorded)
        failures = [(label, z3.Or(terms)) for label, terms in self._failures.items()]
        failures.append(("another path", z3.Not(z3.Or(self._covered))))
        return theorem(name, self._hypotheses.values(), failures)


def theorem(name: str, hypotheses: Iterable[Any], failures: Sequence[tuple[str, Any]]) -> Theorem:
    """The theorem that none of the failures, z3 terms with a label each, can happen."""
    assumptions = list(hypotheses)
    constants = _constants(assumptions + [term for _, term in failures])
    lines = [f"; {name}", "; cvc5 needs --incremental", "(set-logic ALL)"]
    for constant in constants:
        lines.append(f"(declare-fun {constant.sexpr()} () {constant.sort().sexpr()})")
    lines += [f"(assert {term.sexpr()})" for term in assumptions]
    lines += ["; the hypotheses can hold: sat", "(check-sat)"]
    for label, term in failures:
        lines += [f"; {label}: unsat", "(push 1)", f"(assert {z3.simplify(term).sexpr()})"]
        lines += ["(check-sat)", "(pop 1)"]
    return Theorem(name, tuple(label for label, _ in failures), "\n".join(lines) + "\n")


def _constants(terms: Sequence[Any]) -> list[Any]:
    """Every unknown in the terms, once, by name."""
    constants: dict[str, Any] = {}
    visited: set[int] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if term.get_id() in visited:
            continue
        visited.add(term.get_id())
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            constants[term.sexpr()] = term
        waiting += term.children()
    return [constants[name] for name in sorted(constants)]
