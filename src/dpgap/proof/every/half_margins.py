"""Joint Top-K's utility for every n and k: two answers in a set and two outside show how it moves.

A half-margin is about the smallest answer in the set and the largest outside. On the neighbour
either may be another one. So two inside and two outside are all that it is about, before and
after.
"""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL
from dpgap.proof.every.few_answers import Make, recording

if TYPE_CHECKING:
    pass


def farthest_move(kind: str) -> Fraction:
    """How far half-margins can move, up or down, in units of Δ."""
    return Fraction(1) if kind == GENERAL else Fraction(1, 2)


_SIZES = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Inside and outside."""


def prove_half_margins(make: Make, kind: str) -> list[Theorem]:
    """Half-margins move within a range that the noise is large enough for."""
    far = farthest_move(kind)
    for k, epsilon, delta in ((1, 1, 1), (2, 1, 3), (5, Fraction(7, 3), 2)):
        mechanism = make(k=k, epsilon=epsilon, sensitivity=delta)
        if mechanism.law.scale * mechanism.epsilon != 2 * far * delta:
            raise Violation("budget", "the scale of the noise must not depend on k")
    return [
        prove_range(make(k=inside), (inside, outside), kind, -far, far)
        for inside, outside in _SIZES
    ]


def prove_range(
    mechanism: Any, size: tuple[int, int], kind: str, low: Fraction, high: Fraction
) -> Theorem:
    """Half-margins of so many answers in a set, and so many outside, move within this range."""
    inside, outside = size
    judge = recording(None, ties=True)
    answers, _, neighbour = judge.neighbours(inside + outside, DIRECTIONS[kind])
    beyond = Violation("range", f"a half-margin can move beyond {low}Δ or {high}Δ")

    def on_path() -> None:
        before = mechanism.half_margin(answers, range(inside))
        after = mechanism.half_margin(neighbour, range(inside))
        judge.require(after - before >= low, beyond)
        judge.require(after - before <= high, beyond)

    name = type(mechanism).__name__
    return judge.proved(f"{name}, half-margins, {inside} in, {outside} out, {kind}", on_path)
