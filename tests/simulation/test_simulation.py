"""Simulation: the same law as the program's, whatever is pruned, and any mechanism at all."""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.estimates.linear import blue, combine
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise
from dpgap.mechanisms.top_k import Rankings, select
from dpgap.simulation import selections
from dpgap.simulation.selections import RankedAnswers
from law_tests import LEVEL, Sifted, chi_square_p, homogeneous_p, sift
from seams import long_case, quick_in

RUNS, MANY = 40_000, 100_000
EASY = np.array([9000, 8000, 7000, 6000, 5000, 4000, 300, 200, 100, 50, 20, 10, *range(30)])
HARD = np.arange(60) // 2 * 3 + 100
TIES = np.random.default_rng(5).permutation(np.repeat([40, 39, 38, 30, 5], [3, 4, 15, 25, 40]))
DATA = {"easy": EASY, "hard": HARD, "ties": TIES, "few": np.array([5, 9, 7, 7])}


def _folded(matrix: np.ndarray) -> np.ndarray:
    """Rows of whole numbers as one number each, equal for equal rows."""
    _, which = np.unique(matrix, axis=0, return_inverse=True)
    return which.ravel()


@cache
def exact_top_k(mechanism: dpgap.NoisyTopK, data: str, runs: int) -> Rankings:
    """Runs of the kernel, which other tests hold to the program on the same noise."""
    return select(mechanism.in_steps(), DATA[data], runs, InsecureSeededBits(3))


def top_k_p_values(mechanism: dpgap.NoisyTopK, data: str, runs: int = RUNS) -> dict[str, float]:
    answers, exact = DATA[data], exact_top_k(mechanism, data, runs)
    gaps = exact.leads - np.append(exact.leads[:, 1:], np.zeros((runs, 1), int), axis=1)
    simulated = dpgap.simulate(mechanism, answers, runs=runs, seed=4)
    whole = simulated.gaps.astype(np.int64)
    orders = _folded(np.concatenate([exact.indices[:, :2], simulated.indices[:, :2]]))
    p = {"order": homogeneous_p(orders[:runs], orders[runs:])}
    for rank in range(mechanism.k):
        p[f"index {rank}"] = homogeneous_p(exact.indices[:, rank], simulated.indices[:, rank])
        if rank < gaps.shape[1]:
            p[f"gap {rank}"] = homogeneous_p(gaps[:, rank], whole[:, rank])
    p["values"] = homogeneous_p(
        answers[exact.indices].sum(axis=1), answers[simulated.indices].sum(axis=1)
    )
    return p


@pytest.mark.parametrize("noise", ["laplace", "exponential", "staircase"])
@pytest.mark.parametrize("data", ["easy", "hard", "ties"])
@pytest.mark.parametrize("runs", [RUNS, pytest.param(MANY, marks=pytest.mark.long)])
def test_simulated_top_k_has_the_law_of_the_program(data: str, noise: str, runs: int):
    p_values = top_k_p_values(dpgap.NoisyTopK(3, "0.7", monotonic=True, noise=noise), data, runs)
    assert min(p_values.values()) > LEVEL / len(p_values), p_values


@pytest.mark.parametrize("grid", [None, "1/4"])
def test_simulated_top_k_follows_the_grid_and_the_general_scale(grid: str | None):
    mechanism = dpgap.NoisyTopK(2, 3, grid=grid)
    steps = HARD if grid is None else HARD * 4
    exact = select(mechanism.in_steps(), steps, RUNS, InsecureSeededBits(3))
    simulated = dpgap.simulate(mechanism, HARD, runs=RUNS, seed=4)
    in_steps = (simulated.gaps * (1 if grid is None else 4)).astype(np.int64)
    assert homogeneous_p(exact.leads[:, 1], in_steps[:, 1]) > LEVEL
    assert homogeneous_p(exact.indices[:, 0], simulated.indices[:, 0]) > LEVEL


def test_every_answer_may_win():
    mechanism = dpgap.NoisyTopK(4, 1, monotonic=True)
    p_values = top_k_p_values(mechanism, "few")
    assert min(p_values.values()) > LEVEL / len(p_values)
    assert dpgap.simulate(mechanism, DATA["few"], runs=10).gaps.shape == (10, 3)


@cache
def exact_above(mechanism: dpgap.SparseVector, data: str, most: int | None, runs: int) -> Sifted:
    """Runs of the kernel, which other tests hold to the program on the same noise."""
    return sift(mechanism.in_steps(), DATA[data], runs, InsecureSeededBits(8), most)


def above_p_values(
    mechanism: dpgap.SparseVector, data: str, most: int | None = None, runs: int = RUNS
) -> dict[str, float]:
    exact = exact_above(mechanism, data, most, runs)
    simulated = dpgap.simulate(mechanism, DATA[data], runs=runs, seed=9, max_answers=most)
    offsets = mechanism.gap_offsets[simulated.branch_of - 1]
    gaps = np.rint(simulated.gaps - offsets).astype(np.int64)
    assert np.allclose(gaps + offsets, simulated.gaps)
    p = {
        "indices": homogeneous_p(exact.indices, simulated.indices),
        "gaps": homogeneous_p(exact.gaps, gaps),
        "used": homogeneous_p(exact.used, simulated.used),
        "processed": homogeneous_p(exact.processed, simulated.processed),
    }
    for branch in range(1, len(mechanism.every_branch) + 1):
        mine, theirs = simulated.branch_of == branch, exact.branches == branch
        counts = np.bincount(exact.runs[theirs], minlength=runs)
        p[f"branch {branch}"] = homogeneous_p(
            counts, np.bincount(simulated.run[mine], minlength=runs)
        )
        p[f"gaps {branch}"] = homogeneous_p(exact.gaps[theirs], gaps[mine])
        p[f"indices {branch}"] = homogeneous_p(exact.indices[theirs], simulated.indices[mine])
    starts = np.flatnonzero(np.append(True, np.diff(simulated.run) > 0))
    exact_starts = np.flatnonzero(np.append(True, np.diff(exact.runs) > 0))
    p["first index"] = homogeneous_p(exact.indices[exact_starts], simulated.indices[starts])
    p["first gap"] = homogeneous_p(exact.gaps[exact_starts], gaps[starts])
    return p


SPARSE_VECTORS = {
    "plain": dpgap.SparseVector("38.5", 3, "0.7", monotonic=True),
    "adaptive": dpgap.AdaptiveSparseVector("38.5", 3, "0.7", monotonic=True),
    "exponential, drained": dpgap.AdaptiveSparseVector(
        "38.5", 3, 2, monotonic=True, branches=4, drain=True, noise="exponential"
    ),
    "general staircase": dpgap.AdaptiveSparseVector("38.5", 2, 4, noise="staircase"),
}
THRESHOLDS = {"easy": 2500, "hard": 180, "ties": "38.5"}


def _at(mechanism: dpgap.SparseVector, threshold: object) -> dpgap.SparseVector:
    extra = {}
    if isinstance(mechanism, dpgap.AdaptiveSparseVector):
        extra = {"branches": mechanism.branches, "drain": mechanism.drain}
    return type(mechanism)(
        threshold,
        mechanism.k,
        mechanism.epsilon,
        monotonic=mechanism.monotonic,
        noise=mechanism.noise,
        **extra,
    )


@pytest.mark.parametrize(
    ("name", "data", "runs"),
    quick_in(
        itertools.product(SPARSE_VECTORS, THRESHOLDS, [RUNS, MANY]),
        {
            (name, data, RUNS)
            for at, name in enumerate(SPARSE_VECTORS)
            for data in list(THRESHOLDS)[at % 2 :: 2]
        },
    ),
)
def test_simulated_sparse_vector_has_the_law_of_the_program(data: str, name: str, runs: int):
    p_values = above_p_values(_at(SPARSE_VECTORS[name], THRESHOLDS[data]), data, runs=runs)
    assert min(p_values.values()) > LEVEL / len(p_values), p_values


def test_a_run_that_is_stopped_early_has_the_law_of_the_program():
    mechanism = dpgap.AdaptiveSparseVector(180, 5, 4, monotonic=True, branches=3)
    p_values = above_p_values(mechanism, "hard", most=4)
    assert min(p_values.values()) > LEVEL / len(p_values), p_values


def _loses_the_tail(self, law, bars, border, rng):
    empty = np.empty(0, dtype=np.int64)
    return empty, empty, np.empty(0)


def _asks_for_too_much(self, law, bars, border, rng):
    return _reaching(self, law, bars + float(law.scale), border, rng)


_reaching = RankedAnswers.reaching


def _early(self, thresholds):
    return np.full(thresholds.size, self.ranked.borders[9])


def _early_top_k(program, ranked, rng):
    return int(ranked.borders[9]), 0.0


NOISY_TOP = dpgap.NoisyTopK(3, "0.2", monotonic=True)
NOISY_ABOVE = dpgap.AdaptiveSparseVector("38.5", 3, "0.2", monotonic=True, branches=3, drain=True)


@pytest.mark.parametrize("bug", [_loses_the_tail, _asks_for_too_much])
def test_a_planted_pruning_bug_is_caught(monkeypatch, bug):
    monkeypatch.setattr(RankedAnswers, "reaching", bug)
    monkeypatch.setattr(selections._Stream, "borders", _early)
    monkeypatch.setattr(selections, "_border", _early_top_k)
    assert min(top_k_p_values(NOISY_TOP, "ties").values()) < LEVEL / 10
    assert min(above_p_values(NOISY_ABOVE, "ties").values()) < LEVEL / 10


def test_where_the_border_lies_changes_no_law(monkeypatch):
    monkeypatch.setattr(selections._Stream, "borders", _early)
    monkeypatch.setattr(selections, "_border", _early_top_k)
    p_values = top_k_p_values(NOISY_TOP, "ties") | above_p_values(NOISY_ABOVE, "ties")
    assert min(p_values.values()) > LEVEL / len(p_values), p_values


@pytest.mark.parametrize("law", [LaplaceNoise(3), ExponentialNoise(3)])
@pytest.mark.parametrize("distance", [-4.0, 0.0, 5.0])
def test_noise_beyond_a_point_is_noise_that_happens_to_be_there(law, distance: float):
    rng = np.random.default_rng(2)
    plain = selections.draw(law, rng, 400_000)
    there = plain[plain >= distance]
    assert abs(there.size / plain.size - law.tail(distance)) < 0.005
    given = law.beyond(np.full(there.size, distance), 1 - rng.random(there.size))
    assert stats.ks_2samp(there, given).pvalue > LEVEL
    assert stats.ks_2samp(there, given * 1.05).pvalue < LEVEL


@pytest.mark.parametrize("chance", [1e-5, 0.004, 0.6])
def test_hits_are_independent_and_equally_likely(chance: float):
    rng = np.random.default_rng(3)
    cells = int(20 / chance)
    tries = [selections.hits(rng, cells, chance) for _ in range(3_000)]
    numbers = np.array([each.size for each in tries])
    bins = np.bincount(np.minimum(numbers, 79), minlength=80)
    expected = stats.binom.pmf(np.arange(80), cells, chance)
    assert chi_square_p(bins, expected) > LEVEL
    places = np.concatenate(tries)
    assert stats.kstest(places / cells, "uniform").pvalue > LEVEL or cells < 1_000
    assert all((np.diff(each) > 0).all() for each in tries)
    assert selections.hits(rng, 10, 0.0).size == 0
    assert selections.hits(rng, 10, 1.0).tolist() == list(range(10))


@pytest.mark.parametrize("k", [1, 4, 12])
def test_simulated_top_k_estimates_are_those_of_the_pipeline(k: int):
    answers = EASY[:12]
    pipeline = dpgap.MeasuredTopK(k, "0.7", monotonic=True, method="paper")
    runs = dpgap.simulate(pipeline, answers, runs=20_000, seed=1)
    ratio = (
        pipeline.selection.law.floor_variance / pipeline.measurement.law_in_steps(k).floor_variance
    )
    gaps = runs.selected.gaps[7].copy()
    if k == 12:
        gaps[-1] += 0.5
    assert np.allclose(blue(runs.measurements[7], gaps, ratio), runs.estimates[7])
    released = pipeline.release(answers)
    errors = runs.estimates - runs.truth
    assert (errors**2).mean() == pytest.approx(released.variances[0], rel=0.05)
    baseline = ((runs.measurements - runs.truth) ** 2).mean()
    assert baseline == pytest.approx(pipeline.measurement.variance(k), rel=0.05)


@pytest.mark.parametrize("adaptive", quick_in([True, False], {True}))
def test_simulated_estimates_above_are_those_of_the_pipeline(adaptive: bool):
    pipeline = dpgap.MeasuredAbove(
        "2000.5", 3, "0.7", monotonic=True, adaptive=adaptive, method="paper"
    )
    runs = dpgap.simulate(pipeline, EASY, runs=20_000, seed=1)
    mine = runs.selected.run == 11
    program = pipeline.selection.in_steps()
    gap_variance = np.array([way.law.floor_variance for way in program.every_branch])
    expected = combine(
        runs.measurements[mine],
        runs.selected.gaps[mine],
        2000.5,
        pipeline.measurement.variance(int(mine.sum())),
        (gap_variance + program.threshold_law.floor_variance)[runs.selected.branch_of[mine] - 1],
    )
    assert np.allclose(expected, runs.estimates[mine])
    released = [pipeline.release(EASY) for _ in range(1_500)]
    theirs = np.concatenate([each.estimates - EASY[each.indices] for each in released])
    ours = runs.estimates - runs.truth
    assert stats.ks_2samp(theirs, ours).pvalue > LEVEL
    assert abs(np.mean([each.indices.size for each in released]) - runs.selected.found.mean()) < 0.3


@pytest.mark.parametrize(
    "pipeline",
    [
        dpgap.MeasuredTopK(3, "0.7", monotonic=True, method="best"),
        long_case(dpgap.MeasuredTopK(2, "0.7", method="best")),
        long_case(dpgap.MeasuredAbove("2000.5", 3, "0.7", monotonic=True, method="best")),
        dpgap.MeasuredAbove("2000.5", 3, "0.7", monotonic=True, adaptive=True, method="best"),
    ],
    ids=repr,
)
def test_the_best_method_is_simulated_as_it_is_released(pipeline):
    runs = dpgap.simulate(pipeline, EASY, runs=2_000, seed=1)
    released = [pipeline.release(EASY) for _ in range(600)]
    theirs = np.concatenate([each.estimates - EASY[each.indices] for each in released])
    ours = (runs.estimates - runs.truth).ravel()
    assert stats.ks_2samp(theirs, ours).pvalue > LEVEL
    assert stats.ks_2samp(theirs, ours * 1.6).pvalue < LEVEL


def test_runs_with_thresholds_of_their_own_are_estimated_by_them():
    pipeline = dpgap.MeasuredAbove(0, 3, "0.7", monotonic=True, method="best")
    at_own = dpgap.MeasuredAbove("2000.5", 3, "0.7", monotonic=True, method="best")
    moved = dpgap.simulate(pipeline, EASY, runs=500, seed=1, thresholds=np.full(500, 2000.5))
    own = dpgap.simulate(at_own, EASY, runs=500, seed=1)
    assert np.allclose(moved.estimates, own.estimates)
    assert np.allclose(moved.selected.gaps, own.selected.gaps)


def test_every_run_may_have_a_threshold_of_its_own():
    mechanism = dpgap.SparseVector(0, 2, 1000, monotonic=True)
    answers = [10, 20, 30, 40]
    runs = dpgap.simulate(mechanism, answers, runs=3, thresholds=[15, 34.5, 99], seed=1)
    assert runs.run.tolist() == [0, 0, 1]
    assert runs.indices.tolist() == [1, 2, 3]
    assert np.allclose(runs.gaps, [5, 15, 5.5], atol=1)
    assert runs.processed.tolist() == [3, 4, 4]


def test_thresholds_need_not_be_in_order():
    mechanism = dpgap.SparseVector(0, 2, 1000, monotonic=True)
    thresholds = np.tile([34.5, 99, 15], 1_000)
    runs = dpgap.simulate(mechanism, [10, 20, 30, 40], runs=3_000, thresholds=thresholds, seed=1)
    assert runs.found.tolist() == [1, 0, 2] * 1_000
    assert runs.indices.tolist() == [3, 1, 2] * 1_000
    assert np.allclose(runs.gaps.reshape(-1, 3), [5.5, 5, 15], atol=1)
    assert runs.processed.tolist() == [4, 4, 3] * 1_000


def test_a_seed_repeats_itself():
    mechanism = dpgap.AdaptiveSparseVector(180, 3, 1, monotonic=True)
    one = dpgap.simulate(mechanism, HARD, runs=6_000, seed=5)
    two = dpgap.simulate(mechanism, HARD, runs=6_000, seed=5)
    other = dpgap.simulate(mechanism, HARD, runs=6_000, seed=6)
    assert np.array_equal(one.gaps, two.gaps)
    assert np.array_equal(one.run, two.run)
    assert one.found.size == 6_000
    assert not np.array_equal(one.used, other.used)


def test_batches_are_bounded():
    mechanism = dpgap.NoisyTopK(2, 1)
    sizes = [size for _, size in dpgap.simulation.batches(mechanism, HARD, runs=6_000)]
    assert sizes == [5_000, 1_000]


@dataclass(frozen=True, slots=True)
class _Coin:
    """A researcher's own mechanism, with a program only."""

    scale: int = 1

    def run(self, answers, noise):
        return answers[0] + noise.draw(LaplaceNoise(self.scale)) > 0


class _FastCoin(_Coin):
    def simulate(self, answers, runs, rng):
        return answers[0] + rng.laplace(size=runs) > 0


class _Mutant(dpgap.NoisyTopK):
    __slots__ = ()

    def run(self, answers, noise):
        return "mutated"


def test_any_mechanism_can_be_simulated_vectorised_or_not():
    for mechanism in (_Coin(), _FastCoin()):
        outputs = dpgap.simulate(mechanism, [1], runs=4_000, seed=1).outputs
        assert len(outputs) == 4_000
        assert np.mean(outputs) == pytest.approx(1 - np.exp(-1) / 2, abs=0.04)


def test_a_subclass_with_its_own_program_is_run_as_written():
    assert dpgap.simulate(_Mutant(1, 1), [1, 2], runs=3).outputs == ["mutated"] * 3


@pytest.mark.parametrize("off_by", [-1, 1])
def test_a_simulation_with_a_wrong_number_of_outputs_is_refused(off_by: int):
    class Miscounting:
        def simulate(self, answers, runs, rng):
            return [0] * (runs + off_by)

    with pytest.raises(ValueError, match="Miscounting must return one output for each of 7 runs"):
        dpgap.simulate(Miscounting(), [1, 2], runs=7)


def test_generators_of_outcomes_are_run_to_their_end():
    class Streamed:
        def run(self, answers, noise):
            yield from answers

    assert dpgap.simulate(Streamed(), [1, 2], runs=2).outputs == [(1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"runs": 0}, ValueError, "runs must be at least 1"),
        ({"runs": 2.5}, TypeError, "runs must be a whole number"),
        ({"seed": -1}, ValueError, "seed must be"),
        ({"max_answers": 3}, ValueError, "for a Sparse Vector only"),
        ({"thresholds": [1]}, ValueError, "for a Sparse Vector only"),
    ],
)
def test_bad_arguments_are_named(given, error, says):
    with pytest.raises(error, match=says):
        dpgap.simulate(dpgap.NoisyTopK(2, 1), [1, 2, 3], **given)


def test_bad_mechanisms_answers_and_thresholds_are_named():
    with pytest.raises(TypeError, match="mechanism must be"):
        dpgap.simulate("top", [1, 2])
    with pytest.raises(ValueError, match="k must be at most the number of answers"):
        dpgap.simulate(dpgap.NoisyTopK(5, 1), [1, 2])
    with pytest.raises(ValueError, match="thresholds must be 10 finite numbers"):
        dpgap.simulate(dpgap.SparseVector(1, 1, 1), [1, 2], runs=10, thresholds=[1, 2])


def test_runs_name_their_results_and_do_not_show_them_all():
    runs = dpgap.simulate(dpgap.NoisyTopK(2, 1), [5, 3, 1], runs=100)
    assert repr(runs) == "<TopKRuns: .indices, .gaps>"
