"""Hybrid Top-K: checked by its density where k answers are found, and where the line cuts as well.

Where k answers are found, it is a Top-K with exponential noise, and the line is one more loser,
which does not move. Where the line cuts the ranking, leads are over its own noisy answer. Put
u = e^((answer − lead)/b) for each winner and for the line, whose lead is 0, a = e^(answer/b) for
each loser, and X = 1/max(u, a). Then the density of r winners and their leads is proportional to
Πu · ∫₀^X x^r·F(x) dx, F(x) = Π(1 − a·x). docs/hybrid-top-k.md bounds how both can change.

As in `density`, `excess_of_hybrid` looks for a counterexample to what r released answers cost, on
a whole lattice and exactly; `require_cut_as_described` proves on all paths that the program's
output is the one that the densities are about.
"""

import itertools
import time
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.proof.checker.alignment import Draws, Given
from dpgap.proof.checker.density import STEPS, density, expanded
from dpgap.proof.checker.families import altered, collect
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.proving import CHECKED, REFUTED, Proof

_REACH = 4
_MOVES = {"general": (-STEPS, 0, STEPS), "rising": (0, 1, STEPS), "falling": (-STEPS, -1, 0)}


class WorstCut(NamedTuple):
    """The largest ratio of densities found, and where; the line is at 0."""

    ratio: Fraction
    winners: tuple[int, ...]
    losers: tuple[int, ...]
    moves: tuple[int, ...]


def check_hybrid(mechanism: HybridTopK, n: int, neighbours: str) -> Proof:
    """Check a Hybrid Top-K on n answers: prove its program, then search its densities."""
    start = time.perf_counter()
    verdict, condition, reason = CHECKED, None, "by its density: see docs/hybrid-top-k.md"
    try:
        require_cut_as_described(mechanism, n)
        for released in range(min(mechanism.k, n) + 1):
            found = excess_of_hybrid(mechanism, n, released, neighbours)
            if found is not None:
                raise Violation("density", f"densities differ too much: {found}")
    except Violation as wrong:
        verdict, condition, reason = REFUTED, wrong.condition, wrong.message
    return Proof(
        verdict, neighbours, condition, reason, None, 0, seconds=time.perf_counter() - start
    )


def excess_of_hybrid(
    mechanism: HybridTopK, n: int, released: int, neighbours: str
) -> WorstCut | None:
    """Neighbours on which so many released answers lose more than they cost; None if none do.

    The claim e^cost is 4^(cost·b/Δ). Both sides are raised to a power that makes that whole.
    """
    found = worst_cut(n, released, neighbours, is_full=released == mechanism.k)
    claimed = mechanism.spent(released) * mechanism.law.scale / mechanism.sensitivity
    within = found.ratio**claimed.denominator <= Fraction(4) ** claimed.numerator
    return None if within else found


@lru_cache(maxsize=64)
def worst_cut(n: int, released: int, neighbours: str, *, is_full: bool) -> WorstCut:
    """The largest ratio of densities between neighbours on the lattice."""
    found = WorstCut(Fraction(0), (), (), ())
    density_of = _density_of_k if is_full else density_of_cut
    reach = range(-_REACH, _REACH + 1)
    choices = itertools.combinations_with_replacement
    for winners, losers in itertools.product(
        choices(reach, released), choices(reach, n - released)
    ):
        before = density_of(winners, losers)
        for moves in itertools.product(_MOVES[neighbours], repeat=n):
            moved = _move(winners, moves[:released]), _move(losers, moves[released:])
            after = density_of(*moved)
            if before > found.ratio * after:
                found = WorstCut(before / after, winners, losers, moves)
    return found


def _move(exponents: tuple[int, ...], moves: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(e + move for e, move in zip(exponents, moves, strict=True)))


def _density_of_k(winners: tuple[int, ...], losers: tuple[int, ...]) -> Fraction:
    """Where k answers are found, the line is one of the losers."""
    return density(winners, tuple(sorted((*losers, 0))))


@lru_cache(maxsize=1 << 20)
def density_of_cut(winners: tuple[int, ...], losers: tuple[int, ...]) -> Fraction:
    """The density where the line cuts, up to a constant, for powers of two; the line is at 0."""
    most = Fraction(2) ** -max(0, *winners, *losers)
    power = len(winners) + 1
    integral = sum(by * most ** (j + power) / (j + power) for j, by in enumerate(expanded(losers)))
    return Fraction(2) ** sum(winners) * Fraction(integral)


def require_cut_as_described(mechanism: HybridTopK, n: int) -> None:
    """Prove that the program returns the ranking up to the line, and leads over what is next."""
    from dpgap.proof.checker.symbolic import Paths  # z3 takes its time to load

    paths = Paths(mechanism.epsilon, ties=False)
    program = altered(mechanism, threshold=paths.unknown("threshold"))
    answers = [paths.unknown(f"q{i}") for i in range(n)]
    paths.explore(lambda: _require_on_path(program, answers, paths))


def _require_on_path(program: Any, answers: Sequence[Affine], paths: Any) -> None:
    draws = Draws(paths, [], [])
    indices, leads = collect(program.run(Given(answers), draws))
    wrong = Violation("output", "the program does not return the ranking up to the line")
    paths.require(draws.laws == [program.law] * (len(answers) + 1), wrong)
    paths.require(len(indices) == len(leads) == len(set(indices)) <= program.k, wrong)
    every = zip((*answers, program.threshold), draws.values, strict=True)
    *noisy, line = (answer + value for answer, value in every)
    left_out = [line, *(noisy[i] for i in range(len(noisy)) if i not in indices)]
    best = max(left_out)
    if len(indices) < program.k:
        paths.require_zero(best - line, wrong)
    for better, worse in itertools.pairwise([*(noisy[i] for i in indices), best]):
        paths.require(better >= worse, wrong)
    for index, lead in zip(indices, leads, strict=True):
        paths.require_zero(noisy[index] - best - lead, wrong)
