"""Look for a violation at many points: for more answers than a proof can take.

Hypothesis makes up answers, neighbours and noise, all in exact fractions. When a condition fails,
it looks for the simplest numbers at which the condition fails.
"""

from fractions import Fraction
from typing import Any

from dpgap.exact.laws import Law
from dpgap.exact.parameters import positive_integer
from dpgap.proof.checker.at_a_point import check
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.proving import DIRECTIONS, Counterexample, directions, stated


class _MadeUpNoise:
    """Noise that is made up as it is drawn, and remembered."""

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
    allowed = stated(mechanism, "epsilon", epsilon)
    delta = stated(mechanism, "sensitivity", sensitivity, 1)
    numbers = st.fractions(-50, 50, max_denominator=64)
    found: list[tuple[Violation, Counterexample]] = []

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data(), kind=st.sampled_from(list(directions(neighbours, mechanism))))
    def try_point(data: Any, kind: str) -> None:
        answers = data.draw(st.lists(numbers, min_size=count, max_size=count))
        moves = st.fractions(*DIRECTIONS[kind], max_denominator=8)
        steps = data.draw(st.lists(moves, min_size=count, max_size=count))
        neighbour = [a + delta * step for a, step in zip(answers, steps, strict=True)]
        noise = _MadeUpNoise(lambda: data.draw(numbers))
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
        try_point()
    except Violation:
        return found[-1]
    return None
