"""Top-K with exponential noise: checked by its density, since no alignment proves it.

The paper's alignment can move one-sided noise below zero. But the density of (indices, leads) is
known in closed form. docs/exponential-top-k.md proves from it that its logarithm changes by at
most kΔ/b between monotonic neighbours and 2kΔ/b between general ones.

`find_excess` looks for a counterexample to that on a whole lattice of answers, outputs and
neighbours. With e^(Δ/b) = 4 and everything else a power of two, densities are rational, so each is
computed and compared exactly. `require_described` proves on all paths that the program's output is
the one that the density is about.

With u = e^((answer − lead)/b) for each winner, a = e^(answer/b) for each loser and
X = 1/max(u, a), the density is proportional to Πu · ∫₀^X x^k·(−F′(x)) dx, F(x) = Π(1 − a·x).
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.checker.alignment import Draws, Given
from dpgap.proof.checker.families import collect
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.proving import CHECKED, REFUTED, Proof

STEPS = 2
"""Δ in steps of the lattice; a step is a factor of two in e^(answer/b)."""
_REACH = 4
_MOVES = {"general": (-STEPS, 0, STEPS), "rising": (0, 1, STEPS), "falling": (-STEPS, -1, 0)}


class Worst(NamedTuple):
    """The largest ratio of densities found, and where."""

    ratio: Fraction
    winners: tuple[int, ...]
    losers: tuple[int, ...]
    moves: tuple[int, ...]


@lru_cache(maxsize=1 << 20)
def density(winners: tuple[int, ...], losers: tuple[int, ...]) -> Fraction:
    """The density, up to a constant, for powers of two: log₂ u of winners, log₂ a of losers."""
    k = len(winners)
    product = Fraction(2) ** sum(winners)
    most = Fraction(2) ** -max(*winners, *losers) if losers else Fraction(2) ** -max(winners)
    if not losers:
        return product * most**k / k
    signed = expanded(losers)  # F(x) = Σ signed[j]·x^j
    integral = -sum(j * by * most ** (k + j) / (k + j) for j, by in enumerate(signed) if j)
    return product * Fraction(integral)


def expanded(losers: Sequence[int]) -> list[Fraction]:
    """The coefficients of F(x) = Π(1 − 2^loser·x)."""
    polynomial = [Fraction(1)]
    for exponent in losers:
        a = Fraction(2) ** exponent
        raised = [Fraction(0), *(-a * by for by in polynomial)]
        polynomial = [x + y for x, y in zip([*polynomial, Fraction(0)], raised, strict=True)]
    return polynomial


@lru_cache(maxsize=64)
def worst(n: int, k: int, neighbours: str) -> Worst:
    """The largest ratio of densities between neighbours on the lattice."""
    found = Worst(Fraction(0), (), (), ())
    for winners, losers in _lattice(n, k):
        before = density(winners, losers)
        for moves in itertools.product(_MOVES[neighbours], repeat=n):
            after = density(_move(winners, moves[:k]), _move(losers, moves[k:]))
            if before > found.ratio * after:
                found = Worst(before / after, winners, losers, moves)
    return found


def _move(exponents: tuple[int, ...], moves: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(e + move for e, move in zip(exponents, moves, strict=True)))


def _lattice(n: int, k: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All winners and losers; only differences matter, so the lowest winner is put at zero."""
    reach = range(-_REACH, _REACH + 1)
    for rest in itertools.combinations_with_replacement(range(_REACH + 1), k - 1):
        for losers in itertools.combinations_with_replacement(reach, n - k):
            yield (0, *rest), losers


def check_density(mechanism: NoisyTopK, n: int, neighbours: str) -> Proof:
    """Check a Top-K with one-sided noise: prove its program, then search its density."""
    start = time.perf_counter()
    verdict, condition, reason = CHECKED, None, "by its density: see docs/exponential-top-k.md"
    try:
        require_described(mechanism, n)
        excess = find_excess(mechanism, n, neighbours)
        if excess is not None:
            raise Violation("density", f"densities differ too much: {excess}")
    except Violation as wrong:
        verdict, condition, reason = REFUTED, wrong.condition, wrong.message
    return Proof(
        verdict, neighbours, condition, reason, None, 0, seconds=time.perf_counter() - start
    )


def find_excess(mechanism: NoisyTopK, n: int, neighbours: str) -> Worst | None:
    """Neighbours on which the mechanism loses more than its ε; None if there are none.

    The claim e^ε is 4^(ε·b/Δ). Both sides are raised to a power that makes the exponent whole.
    """
    found = worst(n, mechanism.k, neighbours)
    claimed = mechanism.epsilon * mechanism.law.scale / mechanism.sensitivity
    within = found.ratio**claimed.denominator <= Fraction(4) ** claimed.numerator
    return None if within else found


def require_described(mechanism: NoisyTopK, n: int) -> None:
    """Prove that the program returns the ranking and the leads that the density is about."""
    from dpgap.proof.checker.symbolic import Paths  # z3 takes its time to load

    paths = Paths(mechanism.epsilon, ties=False)
    answers = [paths.unknown(f"q{i}") for i in range(n)]
    paths.explore(lambda: _require_on_path(mechanism, answers, paths))


def _require_on_path(mechanism: NoisyTopK, answers: Sequence[Affine], paths: Any) -> None:
    draws = Draws(paths, [], [])
    indices, leads = collect(mechanism.run(Given(answers), draws))
    noisy = [answer + value for answer, value in zip(answers, draws.values, strict=True)]
    wrong = Violation("output", "the program does not return the ranking and its leads")
    paths.require(draws.laws == [mechanism.law] * len(noisy), wrong)
    losers = [noisy[i] for i in range(len(noisy)) if i not in indices]
    paths.require(len(set(indices)) == mechanism.k, wrong)
    paths.require(len(leads) == min(mechanism.k, len(noisy) - 1), wrong)
    best = max(losers) if losers else noisy[indices[-1]]
    for better, worse in itertools.pairwise([*(noisy[i] for i in indices), best]):
        paths.require(better >= worse, wrong)
    for index, lead in zip(indices, leads, strict=False):
        paths.require_zero(noisy[index] - best - lead, wrong)
