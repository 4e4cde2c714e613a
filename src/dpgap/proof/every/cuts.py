"""Hybrid Top-K for every n and k, where the line cuts the ranking: three answers and the line.

Look at a violation among n answers, where r < k of them are above the line. Two winners come out in
another order, a loser beats the line, a winner does not, a lead (over the line) changes, or a draw
costs too much. Each is about two answers and the line. How far the line rises depends on
whether answers fall; where some rose, one of those that did tells. That is three answers. Alone,
with the line, they are ranked and shifted as they are among all (`require_restriction`).

Losers are not shifted; each winner, and the line, costs at most ε/k. So r winners cost at most
ε·(r + 1)/k, which is what `spent` says. Shifts depend on no noise: they are acyclic, |det J| = 1.
Exponential noise stays in its support. Where k answers are found, `exponential` has the proof.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.proof.checker.alignment import Trial
from dpgap.proof.checker.families import altered
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.every.measurements import is_free_of_noise, released
from dpgap.proof.every.memory import require_uniform
from dpgap.proof.every.rankings import require_scales
from dpgap.proof.every.theorem import Theorem, prove_few

_FEW = 3
_MANY = 4
_SIZES = (1, 2, 3, 5, 8)

Make = Callable[..., Any]
"""Makes a mechanism from k, ε and the sensitivity."""


def prove_cut(made: Make, kind: str) -> list[Theorem]:
    """The theorems about few answers and any line; raises a violation if something is wrong."""
    require_scales(made)
    _require_spent(made)
    sample = made(k=1)
    require_uniform(type(sample))
    kind_of: Any = type(sample)
    code = kind_of.run.__code__, kind_of.align.__code__
    _require_restriction(kind_of, sample.monotonic, *code)
    return [_prove(sample, n, kind) for n in range(_FEW + 1)]


def _prove(sample: HybridTopK, n: int, kind: str) -> Theorem:
    law = replace(sample.law, scale=sample.law.scale * sample.epsilon / sample.k)

    def with_any_line(unknown: Callable[[str], Any]) -> HybridTopK:
        return altered(sample, k=n + 1, law=law, threshold=unknown("line"))

    name = f"{type(sample).__name__}, cut by a line, {n} answers"
    return prove_few(name, with_any_line, n, kind, None, is_free_of_noise, paid=_require_paid)


def _require_paid(made: Trial, judge: Any) -> None:
    """Each winner and the line cost at most one part, and losers nothing."""
    (winners, _), line = made.output, len(made.draws.values) - 1
    for draw, (law, shift) in enumerate(zip(made.draws.laws, made.shifts, strict=True)):
        most = 1 if draw in winners or draw == line else 0
        over = Violation("cost", "a draw can cost more than its part")
        judge.require_at_most([law], [shift], most, over)


def _require_spent(made: Make) -> None:
    """Raise a violation unless r answers and the line are said to cost r + 1 parts of k."""
    for k, epsilon in itertools.product(_SIZES, (1, Fraction(7, 3))):
        mechanism = made(k=k, epsilon=epsilon)
        parts = [mechanism.spent(r) * k / mechanism.epsilon for r in range(k + 1)]
        if parts != [*range(1, k + 1), k]:
            raise Violation("budget", "what is spent must be a part for each answer and the line")


@lru_cache(maxsize=16)
def _require_restriction(kind: Any, monotonic: bool, *_: object) -> None:
    """Raise a violation unless few among four, cut by a line, are treated as they are alone."""
    sizes = [Fraction(3 * at % 4, 3) for at in range(_MANY)]
    answers = [Fraction(7 * at % 5) for at in range(_MANY)]
    ways = ((1,) * _MANY, (-1,) * _MANY) if monotonic else ((1, -1, 1, -1),)
    for order, signs in itertools.product(itertools.permutations(range(_MANY + 1)), ways):
        moves = [sign * size for sign, size in zip(signs, sizes, strict=True)]
        noise = [
            Fraction(10 * rank) - at
            for rank, at in zip(order, (*answers, Fraction(0)), strict=True)
        ]
        above = sum(rank > order[-1] for rank in order)
        for k in range(above + 1, _MANY + 2):
            _require_on_few(kind(0, k, 1, monotonic=monotonic), (answers, moves, noise))


def _require_on_few(mechanism: HybridTopK, numbers: tuple[list[Any], ...]) -> None:
    answers, moves, noise = numbers
    (winners, leads), shifts, laws = released(mechanism, answers, moves, noise)
    if laws != [mechanism.law] * len(noise):
        raise Violation("draws", "there must be one draw for each answer, and one for the line")
    for kept in _subsets(moves):
        fewer = altered(mechanism, k=len(kept) + 1)
        draws = [noise[at] for at in (*kept, -1)]
        few = [answers[at] for at in kept], [moves[at] for at in kept]
        (ranked, gaps), alone, _ = released(fewer, *few, draws)
        among = [(at, lead) for at, lead in zip(winners, leads, strict=True) if at in kept]
        same = [(kept[at], gap) for at, gap in zip(ranked, gaps, strict=True)] == among
        if not same or alone != [shifts[at] for at in (*kept, -1)]:
            raise Violation("restriction", "few among many are not treated as they are alone")


def _subsets(moves: list[Any]) -> Iterator[tuple[int, ...]]:
    """Some of the answers, with one that moved."""
    moved = next(at for at, move in enumerate(moves) if move)
    for size in range(1, len(moves)):
        yield from (
            kept for kept in itertools.combinations(range(len(moves)), size) if moved in kept
        )
