"""Joint Top-K's utility for every n and k: two answers in a set and two outside show how it moves.

A half-margin is about the smallest answer in the set and the largest outside. On the neighbour
either may be another one. So two inside and two outside are all that it is about, before and after.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpgap.mechanisms.joint import JointTopK
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.proving import DIRECTIONS, FALLING, GENERAL, RISING
from dpgap.proof.every.theorem import Theorem

Range = tuple[Fraction, Fraction]

RANGES: dict[str, Range] = {
    GENERAL: (Fraction(-1), Fraction(1)),
    RISING: (Fraction(-1, 2), Fraction(1, 2)),
    FALLING: (Fraction(-1, 2), Fraction(1, 2)),
}
"""How far half-margins can move, in units of Δ."""

_FEW = ((1, 1), (1, 2), (2, 1), (2, 2))
"""Inside and outside."""

Make = Callable[..., JointTopK]


def prove_half_margins(made: Make, kind: str) -> list[Theorem]:
    """Half-margins move within a range that the noise is large enough for."""
    low, high = RANGES[kind]
    for k, epsilon, delta in ((1, 1, 1), (2, 1, 3), (5, Fraction(7, 3), 2)):
        mechanism = made(k=k, epsilon=epsilon, sensitivity=delta)
        if mechanism.law.scale * mechanism.epsilon != (high - low) * delta:
            raise Violation("budget", "the scale of the noise must not depend on k")
    return [prove_range(made(k=few[0]), few, kind, RANGES[kind]) for few in _FEW]


def prove_range(mechanism: Any, few: tuple[int, int], kind: str, within: Range) -> Theorem:
    """Half-margins of so many answers in a set, and so many outside, move within this range."""
    from dpgap.proof.every.recording import Recording  # z3 takes its time to load

    inside, outside = few
    judge = Recording(None, ties=True)
    answers = [judge.unknown(f"q{i}") for i in range(inside + outside)]
    moves = [judge.between(f"d{i}", *DIRECTIONS[kind]) for i in range(inside + outside)]
    neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]
    low, high = within
    beyond = Violation("range", f"a half-margin can move beyond {low}Δ or {high}Δ")

    def on_path() -> None:
        before, after = (
            mechanism.half_margin(side, range(inside)) for side in (answers, neighbour)
        )
        judge.require(after - before >= low, beyond)
        judge.require(after - before <= high, beyond)

    judge.explore(on_path)
    name = type(mechanism).__name__
    return judge.theorem(f"{name}, half-margins, {inside} in, {outside} out, {kind}")
