"""Looking for a violation among many neighbours: more answers than a proof can take.

Hypothesis makes up answers, neighbours and noise, exact fractions all of them, and when a
condition fails it looks for the simplest numbers at which it does.
"""

from fractions import Fraction
from typing import Any

from dpgap.exact.laws import Law
from dpgap.exact.parameters import positive_integer, positive_rational
from dpgap.proof.numbers import Exact, Violation
from dpgap.proof.numeric import check
from dpgap.proof.proving import Counterexample, claimed, kinds


class _Recorded:
    """Noise made up as it is drawn."""

    def __init__(self, fresh: Any) -> None:
        self._fresh = fresh
        self.values: list[Fraction] = []

    def draw(self, law: Law) -> Fraction:
        """The next draw, in the law's support."""
        value: Fraction = self._fresh()
        if not law.supports(value):
            value = -value
        self.values.append(value)
        return value


def search(
    mechanism: Any,
    n: int,
    *,
    neighbours: str | None = None,
    epsilon: Any = None,
    sensitivity: Any = None,
    examples: int = 200,
) -> tuple[Violation, Counterexample] | None:
    """The simplest violation among so many examples for n answers; None if there is none.

    >>> import dpgap
    >>> search(dpgap.NoisyTopK(k=5, epsilon=1), n=20, examples=20)
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    count = positive_integer("n", n)
    allowed: Exact = positive_rational("epsilon", claimed(mechanism, "epsilon", epsilon))
    delta = positive_rational("sensitivity", claimed(mechanism, "sensitivity", sensitivity, 1))
    numbers = st.fractions(-50, 50, max_denominator=64)
    moves = {
        "general": st.fractions(-1, 1, max_denominator=8),
        "rising": st.fractions(0, 1, max_denominator=8),
        "falling": st.fractions(-1, 0, max_denominator=8),
    }
    found: list[tuple[Violation, Counterexample]] = []

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data(), kind=st.sampled_from(list(kinds(neighbours, mechanism))))
    def tried(data: Any, kind: str) -> None:
        answers = data.draw(st.lists(numbers, min_size=count, max_size=count))
        steps = data.draw(st.lists(moves[kind], min_size=count, max_size=count))
        neighbour = [a + delta * step for a, step in zip(answers, steps, strict=True)]
        noise = _Recorded(lambda: data.draw(numbers))
        output = mechanism.run(tuple(answers), noise)
        if hasattr(output, "__next__"):
            list(output)
        try:
            check(mechanism, answers, neighbour, noise.values, epsilon=allowed)
        except Violation as violation:
            example = Counterexample(tuple(answers), tuple(neighbour), tuple(noise.values), {})
            found.append((violation, example))
            raise

    try:
        tried()
    except Violation:
        return found[-1]
    return None
