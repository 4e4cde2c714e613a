"""The judge of whole regions that also writes down what it was asked, as a theorem.

`Paths` lets z3 decide, path by path, and stops at the first violation. What it decided is written
down here in full: what was assumed, every path, and every condition on it. That the paths are all
there are is a claim of its own. So another prover can judge the whole again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import z3

from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.numbers import Affine, Condition, Exact, Unknown, Violation
from dpgap.proof.checker.symbolic import CostTerm, Paths
from dpgap.proof.every.theorem import Theorem, theorem


class Recording(Paths):
    """Paths that are written down."""

    def __init__(self, epsilon: Exact | None, *, ties: bool) -> None:
        """Without ε, costs are shown elsewhere."""
        super().__init__(epsilon or 0, ties=ties)
        self._costs_count = epsilon is not None
        self._hypotheses: dict[str, Any] = {}
        self._covered: list[Any] = []
        self._failures: dict[str, list[Any]] = {}

    def _term(self, unknown: Unknown) -> Any:
        if unknown not in self._terms:  # plain letters, for other provers
            name = f"noise_{unknown}" if isinstance(unknown, int) else unknown
            self._terms[unknown] = z3.Real(name)
        return self._terms[unknown]

    def given(self, condition: Condition) -> None:
        """Consider only what meets the condition."""
        self._suppose(self._met(condition))
        self._tied.update(forms.terms_of(forms.asked_form(condition)))
        self._bound.update(forms.terms_of(forms.asked_form(condition)))

    def given_whole(self, number: Affine) -> None:
        """Consider only whole numbers."""
        self._suppose(z3.IsInt(self._term_of(number)))

    def confine(self, form: Affine, low: Exact, high: Exact) -> None:
        super().confine(form, low, high)
        self.given(form >= low)
        self.given(form <= high)

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

    def require_cost(self, laws: Sequence[Any], shifts: Sequence[Any], extra: Exact) -> None:
        if not self._costs_count:
            return
        over = Violation("cost", "the shifts can cost more than is allowed")
        self.require_at_most(laws, shifts, self.epsilon - extra, over)

    def assume(self, condition: Condition | bool) -> None:
        if isinstance(condition, bool):
            super().assume(condition)
            return
        claim = self._met(condition)
        self._hypotheses.setdefault(claim.sexpr(), claim)
        self.take_for_granted(forms.asked_form(condition), forms.expected_answer(condition))

    def explore(self, body: Callable[[], None]) -> None:
        def recorded() -> None:
            body()
            self._covered.append(self._here())

        super().explore(recorded)

    def _here(self) -> Any:
        """What holds on this path, up to here."""
        asked = self._answered[: self._replayed]
        return z3.And(*(self._claim(each.form, each.negative) for each in asked))

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        super().enter(form, negative, state)
        if not self.ties and forms.draws_of(form):  # it has probability zero
            apart = self._term_of(form) != 0
            self._hypotheses.setdefault(apart.sexpr(), apart)

    def _raise_where(self, claim: Any, violation: Violation) -> None:
        failure = z3.And(self._here(), claim)
        self._failures.setdefault(violation.condition, []).append(failure)
        super()._raise_where(claim, violation)

    def require_at_most(
        self, laws: Sequence[Any], shifts: Sequence[Any], most: Any, violation: Violation
    ) -> None:
        """Raise the violation where shifting the draws costs more than `most`."""
        total: Any = CostTerm(z3.RealVal(0))
        for law, shift in zip(laws, shifts, strict=True):
            total = law.cost(CostTerm(self._term_of(shift))) + total
        self._raise_where(total.term > self._term_of(most), violation)

    def proved(self, name: str, body: Callable[[], None]) -> Theorem:
        """All that is claimed on all paths of the body; raises the first violation."""
        self.explore(body)
        failures = [(label, z3.Or(*each)) for label, each in self._failures.items()]
        failures.append(("another path", z3.Not(z3.Or(*self._covered))))
        return theorem(name, self._hypotheses.values(), failures)
