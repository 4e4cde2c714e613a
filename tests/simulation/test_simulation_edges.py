"""Simulation where it is easily wrong or slow: ties, large numbers, large ε, others' mechanisms."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import dpgap
from dpgap import proof
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.top_k import select
from law_tests import LEVEL, chi_square_p, homogeneous_p

SPARSE = np.append([90, 80, 70, 60, 50], np.zeros(100_000, dtype=np.int64))
FLAT = {"sparse": (SPARSE, 10), "tied": (np.full(100_000, 7), 1)}


@pytest.mark.parametrize("data", list(FLAT))
def test_flat_answers_take_little_memory(data: str):
    answers, k = FLAT[data]
    tracemalloc.start()
    try:
        dpgap.simulate(dpgap.NoisyTopK(k, 1, monotonic=True), answers, runs=1_000, seed=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6  # every answer of every run would be 800 MB


@pytest.mark.parametrize("data", list(FLAT))
def test_flat_answers_keep_the_law_of_the_program(data: str):
    answers, k = FLAT[data]
    answers, runs = answers[:3_000], 4_000
    mechanism = dpgap.NoisyTopK(k, 1, monotonic=True)
    exact = select(mechanism, answers, runs, InsecureSeededBits(3))
    gaps = exact.leads - np.append(exact.leads[:, 1:], np.zeros((runs, 1), int), axis=1)
    simulated = dpgap.simulate(mechanism, answers, runs=runs, seed=4)
    for rank in {0, k - 1}:
        ours = simulated.gaps[:, rank].astype(np.int64)
        assert homogeneous_p(gaps[:, rank], ours) > LEVEL
        assert homogeneous_p(gaps[:, rank], ours + 1 + k // 2) < LEVEL
        assert homogeneous_p(exact.indices[:, rank], simulated.indices[:, rank]) > LEVEL


@pytest.mark.parametrize("kind", [np.uint32, np.uint64, np.int16])
def test_answers_of_any_whole_type_are_ranked_alike(kind):
    answers = np.array([5, 30_000, 20_000, *range(40)])
    pipeline = dpgap.MeasuredTopK(1, 10, monotonic=True)
    runs = dpgap.simulate(pipeline, answers.astype(kind), runs=50, seed=1)
    assert (runs.truth == 30_000).all()
    assert np.allclose(runs.measurements, 30_000, atol=30)


def test_only_whole_numbers_are_ranked():
    with pytest.raises(TypeError, match="answers must be of an integer type"):
        dpgap.simulate(dpgap.NoisyTopK(1, 1), np.array([1.5, 2.5]), runs=1)


@pytest.mark.parametrize(
    "pipeline",
    [
        dpgap.MeasuredTopK(2, 1000, monotonic=True),
        dpgap.MeasuredTopK(2, 1000, grid="1/4", sensitivity="1/4"),
        dpgap.MeasuredAbove(30, 2, 10_000, monotonic=True),
    ],
    ids=repr,
)
def test_the_best_method_is_simulated_at_a_large_epsilon(pipeline):
    runs = dpgap.simulate(pipeline, [10, 50, 90, 20], runs=200, seed=1)
    assert np.allclose(runs.estimates, runs.truth, atol=1)
    assert (np.sort(runs.truth.reshape(200, 2), axis=1) == [50, 90]).all()


@pytest.mark.parametrize("method", ["best", "paper"])
def test_simulated_variances_are_those_released(method: str):
    answers = [9000, 8000, 7000, 10, 20]
    top = dpgap.MeasuredTopK(2, 1, monotonic=True, method=method)
    above = dpgap.MeasuredAbove(100, 2, 1, monotonic=True, method=method)
    for pipeline in (top, above):
        runs = dpgap.simulate(pipeline, answers, runs=4_000, seed=1)
        assert runs.variances.shape == runs.estimates.shape
        error = ((runs.estimates - runs.truth) ** 2).mean()
        assert error == pytest.approx(runs.variances.mean(), rel=0.15)
        if method == "paper":  # the best method's depend on what was measured
            released = pipeline.release(answers).variances
            assert np.allclose(runs.variances.reshape(-1, 2), released)


def test_large_answers_that_lie_close_are_told_apart():
    mechanism = dpgap.NoisyTopK(1, 1)
    far, near = [2**58 + 20, 2**58, 2**58 - 20], [20, 0, -20]
    large = dpgap.simulate(mechanism, far, runs=2_000, seed=1)
    small = dpgap.simulate(mechanism, near, runs=2_000, seed=1)
    assert np.array_equal(large.indices, small.indices)
    assert np.array_equal(large.gaps, small.gaps)
    assert (large.indices == 0).mean() > 0.99


def test_large_ties_are_broken_evenly():
    runs = dpgap.simulate(dpgap.NoisyTopK(1, 10**5), [10**12] * 3, runs=9_000, seed=1)
    wins = np.bincount(runs.indices[:, 0], minlength=3)
    assert chi_square_p(wins, np.full(3, 1 / 3)) > LEVEL
    assert chi_square_p([3_300, 3_000, 2_700], np.full(3, 1 / 3)) < LEVEL


def test_large_thresholds_are_compared_exactly():
    far = dpgap.SparseVector(2**58 + 1, 1, 1)
    near = dpgap.SparseVector(1, 1, 1)
    large = dpgap.simulate(far, [2**58 - 20, 2**58 + 30], runs=2_000, seed=1)
    small = dpgap.simulate(near, [-20, 30], runs=2_000, seed=1)
    assert np.array_equal(large.indices, small.indices)
    assert np.array_equal(large.gaps, small.gaps)
    assert 0.9 < large.indices.mean() < 1


def test_thresholds_must_fit_on_the_grid():
    mechanism = dpgap.SparseVector(0, 1, 1, grid=2**-10)
    with pytest.raises(ValueError, match="thresholds must be 2 finite numbers within"):
        dpgap.simulate(mechanism, [1.0, 2.0], runs=2, thresholds=[0, 2.0**59])


def test_answers_that_a_pipeline_could_not_measure_are_refused():
    with pytest.raises(ValueError, match="within ±2"):
        dpgap.simulate(dpgap.MeasuredTopK(1, 1), [2**59, 0], runs=2)


class _Wrapper:
    """A mechanism of its own that happens to keep one of dpgap's."""

    def __init__(self, selection):
        self.selection = selection

    def run(self, answers, noise):
        return "own"


class _Fixed(dpgap.NoisyTopK):
    __slots__ = ()

    def run(self, answers, noise):
        return answers[0]


class _Short(dpgap.SparseVector):
    __slots__ = ()

    def live(self, used):
        return int(used == 0)


class _Vectorised(dpgap.NoisyTopK):
    __slots__ = ()

    def simulate(self, answers, runs, rng):
        return ["vectorised"] * runs


class _OwnPipeline(dpgap.MeasuredTopK):
    __slots__ = ()

    def run(self, answers, noise):
        return "own"


class _OwnSelection(dpgap.MeasuredTopK):
    __slots__ = ()

    def __init__(self, *args, **facts):
        dpgap.MeasuredTopK.__init__(self, *args, **facts)
        object.__setattr__(self, "selection", _Fixed(1, 1))


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (_Wrapper(dpgap.SparseVector(50, 1, 1)), "own"),
        (_Wrapper(dpgap.NoisyTopK(1, 1)), "own"),
        (_Fixed(1, 1), 10),
        (_Fixed(1, 1, grid=4), 12.0),
        (_Vectorised(1, 1), "vectorised"),
        (_OwnPipeline(1, 1), "own"),
    ],
)
def test_what_others_have_written_is_what_runs(mechanism, said):
    assert dpgap.simulate(mechanism, [10, 60, 90], runs=2, seed=1).outputs == [said] * 2


def test_a_changed_life_of_branches_is_respected():
    outputs = dpgap.simulate(_Short(-1000, 3, 1), [10, 60, 90], runs=2, seed=1).outputs
    assert [len(each) for each in outputs] == [1, 1]


def test_a_pipeline_around_a_changed_selection_says_what_it_lacks():
    with pytest.raises(TypeError, match="must be an unchanged mechanism or pipeline of dpgap"):
        dpgap.simulate(_OwnSelection(1, 1, method="paper"), [10, 60, 90], runs=2)


def test_a_changed_mechanism_still_checks_its_answers():
    with pytest.raises(ValueError, match="k must be at most the number of answers"):
        dpgap.simulate(_Fixed(5, 1), [1, 2], runs=2)
    with pytest.raises(TypeError, match="answers must be of an integer type"):
        dpgap.simulate(_Vectorised(1, 1), [1.5, 2.5], runs=2)
    with pytest.raises(ValueError, match="monotonic must be True"):
        dpgap.simulate(dpgap.CountHull(1), [1, 2], runs=2)


@pytest.mark.parametrize(
    "measurement",
    [dpgap.CountHull("1/4", monotonic=True), dpgap.Cube("1/4"), dpgap.Laplace("1/4")],
    ids=repr,
)
def test_programs_of_measurements_are_simulated_too(measurement):
    outputs = np.array(dpgap.simulate(measurement, [100, 500, 0], runs=6_000, seed=1).outputs)
    errors = outputs - [100, 500, 0]
    variance = measurement.variance(3)  # of noise on whole steps, which hardly differs
    assert np.abs(errors.mean(axis=0)).max() < 6 * (variance / 6_000) ** 0.5
    assert errors.var(axis=0) == pytest.approx(np.full(3, variance), rel=0.15)


class _MeasuresInstead:
    """A program that takes a mechanism for noise."""

    epsilon = 1

    def run(self, answers, noise):
        return answers[0] + noise.draw(dpgap.Laplace(1))

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


@pytest.mark.parametrize(
    "driver",
    [
        lambda program: dpgap.simulate(program, [1, 2], runs=1),
        lambda program: proof.prove(program, n=1),
        lambda program: proof.search(program, n=1, examples=1),
        lambda program: proof.audit(program, samples=2_000),
    ],
    ids=["simulate", "prove", "search", "audit"],
)
def test_a_mechanism_is_no_noise_and_whoever_draws_from_it_is_told_what_is(driver):
    with pytest.raises(
        (TypeError, ValueError, proof.BadProgram),
        match=r"a law, such as LaplaceNoise\(scale\) from",
    ):
        driver(_MeasuresInstead())


def test_answers_made_from_a_table_are_refused():
    rows = {"who": list(range(6)), "what": ["a", "a", "b", "a", "b", "c"]}
    private = dpgap.counts(pd.DataFrame(rows), unit="who", item="what", domain=["a", "b", "c"])
    for mechanism in (dpgap.NoisyTopK(1, 1), dpgap.MeasuredTopK(1, 1), _Wrapper(None)):
        with pytest.raises(TypeError, match="answers must be an array: simulation shows true"):
            dpgap.simulate(mechanism, private, runs=1)
