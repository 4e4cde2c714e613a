"""The algebra of docs/exponential-top-k.md, for every n and k, in its words and letters.

Sums over losers and over winners are by induction: a bound on some of them, and one more. These
steps of the proof stay by hand: that D is the density of what is released; the derivative of log D,
and that ∂P/∂c_l = −w·R_l; that integrals are linear and keep ≥; and that a path along which the
derivative of log D is bounded bounds its change. So the verdict is CHECKED.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from dpgap.mechanisms.joint import JointTopK
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.proving import DIRECTIONS, FALLING, GENERAL, RISING
from dpgap.proof.every.theorem import Theorem, theorem

# --------------------------------------------------------------------------------------------------
# Joint Top-K's utility for every n and k: two answers in a set and two outside show how it moves.
#
# A half-margin is about the smallest answer in the set and the largest outside. On the neighbour
# either may be another one. So two inside and two outside are all that it is about, before and
# after.


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
    from dpgap.proof.every.recording import Recording

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


# --------------------------------------------------------------------------------------------------
# The algebra of docs/exponential-top-k.md, for every n and k, in its words and letters.


def prove_exponential() -> list[Theorem]:
    """The lemmas, each a theorem."""
    return [
        theorem(f"exponential Top-K, {name}", hypotheses, [("claim", failure)])
        for name, hypotheses, failure in _lemmas()
    ]


Lemma = tuple[str, list[Any], Any]


def _lemmas() -> Iterator[Lemma]:
    import z3  # takes its time to load

    def lemma(name: str, names: str, claim: Callable[..., tuple[list[Any], Any]]) -> Lemma:
        given, goal = claim(*z3.Reals(names))
        return name, given, z3.Not(goal)

    def positive(x: Any) -> Any:
        return z3.If(x > 0, x, 0)

    yield lemma(
        "-P' is the sum of c_l R_l: one loser more",
        "c w p slope total longer",
        lambda c, w, p, slope, total, longer: (
            [total == -slope, longer == slope * (1 - c * w) - c * p],
            -longer == total * (1 - c * w) + c * p,
        ),
    )
    yield lemma(
        "by parts: B is k times the integral of w^(k-1) P, less P(1), power by power",
        "k j inverse",
        lambda k, j, inverse: (
            [k >= 1, j >= 0, inverse * (k + j) == 1],
            -j * inverse == k * inverse - 1,
        ),
    )
    yield lemma(
        "R_l falls from w to 1: one factor more",
        "c w at_w at_one",
        lambda c, w, at_w, at_one: (
            [c >= 0, c <= 1, w >= 0, w <= 1, at_one >= 0, at_w >= at_one],
            z3.And(at_w * (1 - c * w) >= at_one * (1 - c), at_one * (1 - c) >= 0),
        ),
    )
    yield lemma(
        "B beta_l is at most b_l",
        "k b edge beta",
        lambda k, b, edge, beta: (
            [k >= 1, edge >= 0, (k + 1) * b >= edge, beta == edge - k * b],
            beta <= b,
        ),
    )
    yield lemma(
        "the negative beta sum to at least -k: one loser more",
        "total allowed edge kb",
        lambda total, allowed, edge, kb: (
            [total <= allowed, edge >= 0, kb >= 0],
            total + positive(kb - edge) <= allowed + kb,
        ),
    )
    yield lemma(
        "the positive beta sum to at most 1: one loser more",
        "total allowed edge kb b",
        lambda total, allowed, edge, kb, b: (
            [total <= allowed, b >= 0, edge <= kb + b],
            total + positive(edge - kb) <= allowed + b,
        ),
    )
    yield lemma(
        "a loser's move counts by its beta",
        "beta d r s",
        lambda beta, d, r, s: (
            [r >= 0, s >= 0, d >= -r, d <= s],
            beta * d >= -r * positive(beta) - s * positive(-beta),
        ),
    )
    yield lemma(
        "losers' moves: one loser more",
        "total term p m plus minus r s",
        lambda total, term, p, m, plus, minus, r, s: (
            [total >= -r * p - s * m, term >= -r * plus - s * minus],
            total + term >= -r * (p + plus) - s * (m + minus),
        ),
    )
    yield lemma(
        "winners' moves: one winner more",
        "total count d r",
        lambda total, count, d, r: ([total >= -count * r, d >= -r], total + d >= -(count + 1) * r),
    )
    yield lemma(
        "where a winner is the largest",
        "winners losers k p m r s",
        lambda winners, losers, k, p, m, r, s: (
            [
                *(k >= 1, r >= 0, s >= 0, p >= 0, p <= 1, m >= 0, m <= k),
                *(winners >= -(k - 1) * r, losers >= -r * p - s * m),
            ],
            winners + losers >= -k * (r + s),
        ),
    )
    yield lemma(
        "where a loser is the largest, no other beta is positive",
        "rest c edge",
        lambda rest, c, edge: ([c == 1, edge == rest * (1 - c)], edge <= 0),
    )
    yield lemma(
        "where a loser is the largest",
        "winners losers k m r s",
        lambda winners, losers, k, m, r, s: (
            [k >= 1, r >= 0, s >= 0, m >= 0, m <= k, winners >= -k * r, losers >= -s * m],
            winners + losers >= -k * (r + s),
        ),
    )
    yield lemma(
        "where all answers win",
        "winners n r s",
        lambda winners, n, r, s: (
            [n >= 1, r >= 0, s >= 0, winners >= -(n - 1) * r],
            winners >= -n * (r + s),
        ),
    )
    yield lemma(
        "the scale makes it epsilon",
        "k rate epsilon span moved",
        lambda k, rate, epsilon, span, moved: (
            [k >= 1, rate > 0, epsilon > 0, rate * k * span == epsilon, moved >= 0, moved <= span],
            k * rate * moved <= epsilon,
        ),
    )
