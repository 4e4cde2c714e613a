"""Simulated runs of a Hybrid Top-K have the law of releases."""

from fractions import Fraction

import numpy as np
import pytest

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.top_k import select
from law_tests import LEVEL, homogeneous_p

CASES = {
    "cut in the middle": (3, 4, [7, 7, 3, 3, 3, 0]),
    "fewer answers than k": (4, 0, [1, 0]),
    "the line far below": (2, -50, [3, 3, 0, 0]),
    "many answers": (2, 12, [11] * 3 + [5] * 3_000),
}


def _view(indices, gaps, found):
    """How many were found, the first of them, and the last gap."""
    ends = found.cumsum()
    some = found > 0
    view = np.full((found.size, 3), -1)
    view[:, 0] = found
    view[some, 1] = np.minimum(indices[ends[some] - found[some]], 8)
    view[some, 2] = np.minimum(gaps[ends[some] - 1], 6)
    return view


@pytest.mark.parametrize("case", CASES)
def test_simulated_runs_have_the_law_of_the_kernel(case):
    """At level 1e-6; the same runs at scale × 1.4 are rejected."""
    k, line, answers = CASES[case]
    runs = 4_000 if len(answers) < 100 else 1_500
    simulated = dpgap.simulate(
        dpgap.HybridTopK(line, k, 2, monotonic=True), answers, runs=runs, seed=1
    )
    own = _view(simulated.indices, simulated.gaps, simulated.found)

    def kernel(epsilon):
        mechanism = dpgap.HybridTopK(line, k, epsilon, monotonic=True)
        cut = select(mechanism, np.array(answers), runs, InsecureSeededBits(2), line)
        won = cut.indices >= 0
        return _view(cut.indices[won], cut.leads[won], np.count_nonzero(won, axis=1))

    assert homogeneous_p(own, kernel(2)) > LEVEL
    assert homogeneous_p(own, kernel(Fraction(10, 7))) < LEVEL


def test_simulated_runs_show_what_a_release_shows():
    mechanism = dpgap.HybridTopK(50, 4, 4000, monotonic=True, grid="1/2")
    runs = dpgap.simulate(mechanism, [10.0, 90.0, 20.0, 70.0], runs=3, seed=1)
    assert runs.found.tolist() == [2, 2, 2]
    assert runs.indices.tolist() == [1, 3] * 3
    assert runs.gaps.tolist() == pytest.approx([20, 20] * 3, abs=1)
    assert runs.spent.tolist() == [3000.0] * 3
    assert runs.run.tolist() == [0, 0, 1, 1, 2, 2]
