"""Unknown items: whether a line keeps out what one unit alone has, but for the stated δ.

1. An item whose noisy answer is below the noisy line changes nothing of what is released: with it
   and without it, on the same noise, the output is the same. This is proved on all paths.
2. So what one unit alone has shows with no more than the chance that one of its items, which count
   Δ at most, reaches the noisy line. That is compared with the δ that is claimed.

Where draws are whole numbers, an item may be *at* the line, and "reaches" means ≥.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgap.exact.laws import MemorylessLaw
from dpgap.proof.checker.alignment import Draws, Given, ShiftedDraws, Source
from dpgap.proof.checker.families import collect, take_apart
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.proving import CHECKED, REFUTED, Counterexample, Proof

_SLACK = 1e-9
"""Of a chance: what floats may be off by."""
_NODES = 40


def check_lone_items(mechanism: Any, n: int, *, reach: int = 1, on_grid: bool = False) -> Proof:
    """Check the δ of a mechanism on n answers, of which the last is one unit's own."""
    start = time.perf_counter()
    verdict, condition, reason, example = CHECKED, None, "see docs/hybrid-top-k.md", None
    try:
        require_kept_out(mechanism, n, ties=on_grid)
        require_delta(mechanism, reach, on_grid=on_grid)
    except Violation as wrong:
        verdict, condition, reason = REFUTED, wrong.condition, wrong.message
        numbers = {"line": mechanism.threshold, "delta": mechanism.delta(reach)}
        example = Counterexample((mechanism.sensitivity,) * reach, (), (), numbers)
    seconds = time.perf_counter() - start
    return Proof(verdict, "one unit's own", condition, reason, example, 0, seconds)


def require_delta(mechanism: Any, reach: int, *, on_grid: bool = False) -> None:
    """Refuse a δ that is less than the chance that items of one unit reach the line."""
    distance = float(mechanism.threshold - mechanism.sensitivity)
    chance = reach * chance_to_reach(mechanism.law, distance, on_grid=on_grid)
    claimed = float(mechanism.delta(reach))
    if claimed < chance * (1 - _SLACK):
        raise Violation(
            "delta", f"items of one unit show with chance {chance:.3g}, not {claimed:.3g}"
        )


def chance_to_reach(law: MemorylessLaw, distance: float, *, on_grid: bool) -> float:
    """The chance that one draw is at least another one of the same law and a distance ≥ 0."""
    if on_grid:
        most = math.ceil(60 * law.scale)
        masses = np.array([law.floor_mass(step) for step in range(most)])
        return float((masses * law.tail(distance + np.arange(most))).sum())
    nodes, weights = np.polynomial.laguerre.laggauss(_NODES)
    return float((weights * law.tail(distance + nodes * float(law.scale))).sum())


def require_kept_out(mechanism: Any, n: int, *, ties: bool = False) -> None:
    """Prove that an answer below the noisy line could as well not be there."""
    from dpgap.proof.checker.symbolic import Paths  # z3 takes its time to load

    paths = Paths(1, ties=ties)
    answers = [paths.unknown(f"q{i}") for i in range(n)]
    paths.explore(lambda: _require_on_path(mechanism, answers, paths))


def _require_on_path(mechanism: Any, answers: Sequence[Affine], paths: Any) -> None:
    draws = Draws(paths, [], [])
    output = collect(mechanism.run(Given(answers), Source(draws)))
    *others, own, line = draws.values
    if answers[-1] + own >= mechanism.threshold + line:
        return
    kept = Draws(paths, draws.laws[1:], [*others, line])
    again = ShiftedDraws(kept, [0] * len(kept.values), [])
    without = collect(mechanism.run(Given(answers[:-1]), Source(again)))
    (skeleton, numbers), (same, other_numbers) = take_apart(output), take_apart(without)
    wrong = Violation("output", "an item below the noisy line changes what is released")
    paths.require(skeleton == same, wrong)
    for number, other in zip(numbers, other_numbers, strict=True):
        paths.require_zero(number - other, wrong)
