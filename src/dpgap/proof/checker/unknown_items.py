"""Unknown items: does the threshold exclude the items of only one unit, except with probability δ?

1. An item whose noisy answer is below the noisy threshold does not change the output: with it and
   without it, on the same noise, the output is the same. This is proved on all paths.
2. So the probability that items of only one unit show is at most the probability that one of
   them, with an answer of at most Δ, reaches the noisy threshold. This is compared with δ.

If draws are whole numbers, an item may be *at* the threshold, and "reaches" means ≥.
"""

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgap.exact.laws import MemorylessLaw
from dpgap.proof.checker import alignment, skeletons
from dpgap.proof.checker.alignment import Draws, NoiseSource, ReadOnly, Replayed
from dpgap.proof.checker.numbers import (
    Violation,
)
from dpgap.proof.checker.proving import CHECKED, REFUTED, Counterexample, Proof

if TYPE_CHECKING:
    pass


_SLACK = 1e-9
"""The relative error that floats may have."""
_NODES = 40


def check_lone_items(mechanism: Any, n: int, *, reach: int = 1, on_grid: bool = False) -> Proof:
    """Check the δ of a mechanism on n answers, of which the last is one unit's own."""
    start = time.perf_counter()
    neighbours = "one unit's own"
    try:
        require_kept_out(mechanism, n, ties=on_grid)
        require_delta(mechanism, reach, on_grid=on_grid)
    except Violation as violation:
        numbers = {"threshold": mechanism.threshold, "delta": mechanism.delta(reach)}
        example = Counterexample((mechanism.sensitivity,) * reach, (), (), numbers)
        seconds = time.perf_counter() - start
        return Proof(
            REFUTED, neighbours, violation.condition, violation.message, example, 0, seconds
        )
    seconds = time.perf_counter() - start
    return Proof(CHECKED, neighbours, None, "see docs/hybrid-top-k.md", None, 0, seconds)


def require_delta(mechanism: Any, reach: int, *, on_grid: bool = False) -> None:
    """Raise a violation if δ is less than the probability that items of one unit show."""
    distance = float(mechanism.threshold - mechanism.sensitivity)
    chance = reach * chance_to_reach(mechanism.law, distance, on_grid=on_grid)
    claimed = float(mechanism.delta(reach))
    if claimed < chance * (1 - _SLACK):
        problem = f"items of one unit show with probability {chance:.3g}, not {claimed:.3g}"
        raise Violation("delta", problem)


def chance_to_reach(law: MemorylessLaw, distance: float, *, on_grid: bool) -> float:
    """The probability that one draw is at least another one of the same law plus a distance."""
    if on_grid:
        step_count = math.ceil(60 * law.scale)
        masses = np.array([law.floor_mass(step) for step in range(step_count)])
        return float((masses * law.tail(distance + np.arange(step_count))).sum())
    nodes, weights = np.polynomial.laguerre.laggauss(_NODES)
    return float((weights * law.tail(distance + nodes * float(law.scale))).sum())


def require_kept_out(mechanism: Any, n: int, *, ties: bool = False) -> None:
    """Prove that the output is the same without an answer below the noisy threshold."""
    from dpgap.proof.checker.symbolic import Paths

    paths = Paths(1, ties=ties)
    answers = [paths.unknown(f"q{i}") for i in range(n)]

    def on_path() -> None:
        draws = Draws(paths, [], [])
        output = skeletons.collect(mechanism.run(ReadOnly(answers), NoiseSource(draws)))
        *noise_of_others, noise, noise_of_threshold = draws.values
        if answers[-1] + noise >= mechanism.threshold + noise_of_threshold:
            return
        replayed = Replayed(draws.laws[1:], [*noise_of_others, noise_of_threshold], [])
        source = NoiseSource(replayed)
        without = skeletons.collect(mechanism.run(ReadOnly(answers[:-1]), source))
        message = "an item below the noisy threshold changes the output"
        alignment.require_same_output(output, without, paths, message)

    paths.explore(on_path)
