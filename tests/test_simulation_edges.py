"""Simulation where it is easily wrong or slow: ties, large numbers, large ε, others' mechanisms."""

import tracemalloc

import numpy as np
import pytest

import dpgap
from dpgap.mechanisms.top_k_kernel import select
from dpgap.randomness import InsecureSeededBits
from dpgap.simulation import Ranked
from dpgap.simulation.shells import shells
from law_tests import LEVEL
from test_simulation import two_sample_p

SPARSE = np.append([90, 80, 70, 60, 50], np.zeros(100_000, dtype=np.int64))
FLAT = {"sparse": (SPARSE, 10), "tied": (np.full(100_000, 7), 1)}


@pytest.mark.parametrize("data", list(FLAT))
def test_flat_answers_take_little_memory(data: str):
    answers, k = FLAT[data]
    ranked = Ranked.of(answers)
    tracemalloc.start()
    try:
        dpgap.simulate(dpgap.NoisyTopK(k, 1, monotonic=True), ranked, runs=1_000, seed=1)
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
        assert two_sample_p(gaps[:, rank], ours) > LEVEL
        assert two_sample_p(gaps[:, rank], ours + 1 + k // 2) < LEVEL
        assert two_sample_p(exact.indices[:, rank], simulated.indices[:, rank]) > LEVEL


@pytest.mark.parametrize("kind", [np.uint32, np.uint64, np.int16])
def test_answers_of_any_whole_type_are_ranked_alike(kind):
    answers = np.array([5, 30_000, 20_000, *range(40)])
    ranked = Ranked.of(answers.astype(kind))
    assert ranked.answers.dtype == np.int64
    assert np.array_equal(ranked.order, Ranked.of(answers).order)
    pipeline = dpgap.MeasuredTopK(1, 10, monotonic=True)
    runs = dpgap.simulate(pipeline, ranked, runs=50, seed=1)
    assert (runs.truth == 30_000).all()
    assert np.allclose(runs.measurements, 30_000, atol=30)


def test_only_whole_numbers_are_ranked():
    with pytest.raises(TypeError, match="answers must be integers"):
        Ranked.of(np.array([1.5, 2.5]))


def _joint_noise(measurement, runs: int) -> np.ndarray:
    noise = shells(measurement.law_in_steps(3), np.random.default_rng(3), runs).astype(np.int64)
    return noise[:, 1:] - noise[:, :1] if isinstance(measurement, dpgap.CountHull) else noise


@pytest.mark.parametrize("epsilon", [10, 20, 50])
@pytest.mark.parametrize("shape", [dpgap.CountHull, dpgap.Cube])
def test_joint_measurements_with_little_noise_have_their_law(shape, epsilon: int):
    extra = {"monotonic": True} if shape is dpgap.CountHull else {}
    measurement = shape(epsilon, grid="1/16", **extra)
    exact = measurement.draws(3, 40_000, InsecureSeededBits(2))
    noise = _joint_noise(measurement, 40_000)
    for of in (lambda x: x[:, 0], lambda x: x.max(axis=1), lambda x: x[:, 0] - x[:, 2]):
        assert two_sample_p(of(exact), of(noise)) > LEVEL / 3
    wrong = _joint_noise(shape(epsilon * 0.8, grid="1/16", **extra), 40_000)
    assert two_sample_p(exact.max(axis=1), wrong.max(axis=1)) < LEVEL


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
