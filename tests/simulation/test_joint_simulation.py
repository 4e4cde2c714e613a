"""Simulated runs of Joint Top-K: the law of releases, and members that are drawn evenly."""

import itertools

import numpy as np
import pytest

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.top_k import select
from law_tests import LEVEL, homogeneous_p
from seams import bits_are, quick_in

RUNS = 60_000


def _outcomes(indices, leads) -> np.ndarray:
    return np.hstack([indices, np.minimum(2 * leads, 80).astype(np.int64)[:, None]])


def _written_out(joint, answers, runs: int) -> np.ndarray:
    """Every set with its own exact noise, by the kernel of Noisy Max."""
    sets = np.array(list(itertools.combinations(range(len(answers)), joint.k)))
    margins = [int(2 * joint.half_margin(answers, each.tolist())) for each in sets]
    noisy_max = dpgap.NoisyTopK(
        1, joint.epsilon, sensitivity=2, monotonic=joint.monotonic, noise="exponential"
    )
    found = select(noisy_max, np.array(margins), runs, InsecureSeededBits(5))
    return _outcomes(sets[found.indices[:, 0]], found.leads[:, 0] / 2)


CASES = {
    "apart": ([40, 9, 25, 0], 2, "0.5"),
    "close": ([3, 0, 2, 0, 2, 1], 3, "0.5"),
    "all equal": ([4] * 6, 2, 1),
    "one winner": ([5, 5, 4, 0, 1], 1, "0.3"),
    "all but one": ([7, 6, 6, 1, 9], 4, "0.4"),
    "tied at the border": ([8, 2, 2, 2, 2, 2, 2], 3, "0.8"),
}


@pytest.mark.parametrize("case", quick_in(CASES, {"close", "one winner", "tied at the border"}))
def test_simulated_runs_have_the_law_of_noise_for_every_set(case: str):
    answers, k, epsilon = CASES[case]
    joint = dpgap.JointTopK(k, epsilon, monotonic=True)
    runs = dpgap.simulate(joint, answers, runs=RUNS, seed=1)
    simulated = _outcomes(runs.indices, runs.leads)
    assert homogeneous_p(simulated, _written_out(joint, answers, RUNS)) > LEVEL
    wrong = dpgap.JointTopK(k, joint.epsilon / 11 * 10, monotonic=True)
    assert homogeneous_p(simulated, _written_out(wrong, answers, RUNS)) < LEVEL


TABLES = {
    "many sets": ((4_000 / np.arange(1, 400)).astype(np.int64), 6, "0.4"),
    "luck": ((300 / np.arange(1, 400)).astype(np.int64), 12, "0.1"),
}


@pytest.mark.parametrize("table", quick_in(TABLES, {"many sets"}))
def test_simulated_runs_have_the_law_of_releases_where_sets_are_many(table: str):
    """How many of the true top are found, the lowest rank, and the lead."""
    answers, k, epsilon = TABLES[table]
    joint, runs = dpgap.JointTopK(k, epsilon, monotonic=True), 3_000
    candidates = joint.prepare(answers, None)
    with bits_are(InsecureSeededBits(3)):
        drawn = [joint.draw_paid(candidates) for _ in range(runs)]
    exact = np.array([[*each.drawn.indices, each.drawn.lead] for each in drawn])
    found = dpgap.simulate(joint, answers, runs=runs, seed=2)
    quick = np.hstack([found.indices, (2 * found.leads)[:, None].astype(np.int64)])

    def views(rows):
        counts = (rows[:, :k] < k).sum(axis=1)
        lowest = np.log2(1 + rows[:, :k].max(axis=1)).astype(np.int64)
        return counts, lowest, rows[:, 0], rows[:, k]

    for one, other in zip(views(exact), views(quick), strict=True):
        assert homogeneous_p(one, other) > LEVEL


def test_sets_of_very_many_answers_are_in_order_and_lead():
    answers = (10**6 / np.arange(1, 41_271)).astype(np.int64)
    runs = dpgap.simulate(dpgap.JointTopK(10, 1, monotonic=True), answers, runs=200, seed=1)
    assert runs.indices.shape == (200, 10)
    assert (np.diff(runs.indices, axis=1) > 0).all()
    assert (runs.leads >= 0).all()


def test_leads_are_in_units_of_the_answers_on_any_grid():
    joint = dpgap.JointTopK(1, 10**4, monotonic=True, grid="1/8")
    runs = dpgap.simulate(joint, np.array([5.5, 1.25]), runs=10, seed=1)
    assert np.abs(runs.leads - 4.25).max() <= 1 / 16
    assert runs.indices.tolist() == [[0]] * 10


def test_the_same_seed_gives_the_same_runs():
    joint = dpgap.JointTopK(2, "0.5", monotonic=True)
    one, other = (dpgap.simulate(joint, [3, 1, 2, 2], runs=50, seed=9) for _ in range(2))
    assert (one.indices == other.indices).all()
    assert (one.leads == other.leads).all()


def test_a_subclass_that_changes_the_program_is_run_as_it_is():
    class Noiseless(dpgap.JointTopK):
        def run(self, answers, noise):
            return (0,), 1.5

    assert dpgap.simulate(Noiseless(1, 1), [1, 2], runs=2).outputs == [((0,), 1.5)] * 2
