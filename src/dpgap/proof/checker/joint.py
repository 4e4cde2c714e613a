"""Joint Top-K: checked in three steps, since no alignment proves it. docs/joint-top-k.md has more.

1. For every n and k, half-margins of neighbouring answers differ by amounts that lie within 2Δ of
   each other, or within Δ for monotonic answers. `dpgap.proof.every.exponential` proves this.
2. For few answers, the program returns the set with the largest noisy half-margin, and its lead
   over the second best. This is proved on all paths.
3. So it is Noisy Max with exponential noise, over sets. docs/exponential-top-k.md, with k = 1,
   bounds its loss by that range over the scale. As there, densities of set and lead are compared
   exactly on a lattice of answers, leads and neighbours.
"""

import itertools
import time
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dpgap.mechanisms.joint import JointTopK
from dpgap.proof.checker.alignment import Draws, Given
from dpgap.proof.checker.density import density
from dpgap.proof.checker.families import collect
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.proving import CHECKED, FALLING, GENERAL, REFUTED, RISING, Proof

_STEPS = 4
"""Δ in steps of the lattice; a step is a factor of two in e^(half-margin/b)."""
_LEVELS = (0, 2, 4, 8)
_LEADS = (0, 1, 2, 4, 8)
_MOVES = {GENERAL: (-_STEPS, 0, _STEPS), RISING: (0, 2, _STEPS), FALLING: (-_STEPS, -2, 0)}


class WorstSets(NamedTuple):
    """The largest ratio of densities found, and where."""

    ratio: Fraction
    answers: tuple[int, ...]
    moves: tuple[int, ...]
    chosen: tuple[int, ...]
    lead: int


def check_joint(mechanism: JointTopK, n: int, neighbours: str) -> Proof:
    """Check a Joint Top-K on n answers."""
    start = time.perf_counter()
    verdict, condition, reason = CHECKED, None, "by its density: see docs/joint-top-k.md"
    try:
        require_described_sets(mechanism, n)
        found = excess_of_sets(mechanism, n, neighbours)
        if found is not None:
            raise Violation("density", f"densities differ too much: {found}")
    except Violation as wrong:
        verdict, condition, reason = REFUTED, wrong.condition, wrong.message
    return Proof(
        verdict, neighbours, condition, reason, None, 0, seconds=time.perf_counter() - start
    )


def require_described_sets(mechanism: JointTopK, n: int) -> None:
    """Prove that the program returns the best set by noisy half-margin, and its lead."""
    from dpgap.proof.checker.symbolic import Paths  # z3 takes its time to load

    paths = Paths(mechanism.epsilon, ties=False)
    answers = [paths.unknown(f"q{i}") for i in range(n)]
    paths.explore(lambda: _require_on_path(mechanism, answers, paths))


def _require_on_path(mechanism: JointTopK, answers: Sequence[Affine], paths: Any) -> None:
    draws = Draws(paths, [], [])
    chosen, lead = collect(mechanism.run(Given(answers), draws))
    wrong = Violation("output", "the program does not return the best set and its lead")
    sets = list(itertools.combinations(range(len(answers)), mechanism.k))
    paths.require(draws.laws == [mechanism.law] * len(sets), wrong)
    paths.require(chosen in sets, wrong)
    noisy = {
        each: _half_margin(answers, each) + value
        for each, value in zip(sets, draws.values, strict=True)
    }
    second = max(noisy[each] for each in sets if each != chosen)
    paths.require(noisy[chosen] >= second, wrong)
    paths.require_zero(noisy[chosen] - second - lead, wrong)


def _half_margin(answers: Sequence[Any], chosen: Sequence[int]) -> Any:
    inside = [answer for i, answer in enumerate(answers) if i in chosen]
    outside = [answer for i, answer in enumerate(answers) if i not in chosen]
    return (min(inside) - max(outside)) / 2


@lru_cache(maxsize=64)
def worst_sets(n: int, k: int, neighbours: str) -> WorstSets:
    """The largest ratio of densities of set and lead between neighbours on the lattice."""
    found = WorstSets(Fraction(0), (), (), (), 0)
    sets = list(itertools.combinations(range(n), k))
    for answers in itertools.combinations_with_replacement(_LEVELS, n):
        before = [_half_margin(answers, each) for each in sets]
        for moves in itertools.product(_MOVES[neighbours], repeat=n):
            moved = [answer + move for answer, move in zip(answers, moves, strict=True)]
            after = [_half_margin(moved, each) for each in sets]
            for place, lead in itertools.product(range(len(sets)), _LEADS):
                likely, unlikely = (_density(side, place, lead) for side in (before, after))
                if likely > found.ratio * unlikely:
                    found = WorstSets(likely / unlikely, answers, moves, sets[place], lead)
    return found


def _density(half_margins: Sequence[float], place: int, lead: int) -> Fraction:
    """The density of a set winning by a lead; half-margins are whole on the lattice."""
    whole = [int(each) for each in half_margins]
    losers = sorted(whole[:place] + whole[place + 1 :])
    return density((whole[place] - lead,), tuple(losers))


def excess_of_sets(mechanism: JointTopK, n: int, neighbours: str) -> WorstSets | None:
    """Neighbours on which the mechanism loses more than its ε; None if there are none.

    The claim e^ε is 2^(steps·ε·b/Δ). Both sides are raised to a power that makes it whole.
    """
    found = worst_sets(n, mechanism.k, neighbours)
    claimed = _STEPS * mechanism.epsilon * mechanism.law.scale / mechanism.sensitivity
    within = found.ratio**claimed.denominator <= Fraction(2) ** claimed.numerator
    return None if within else found
