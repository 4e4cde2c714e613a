"""Pipelines: select, measure, estimate, and say how sure."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from seams import bits_are, quick_in

EASY = np.array([9000, 8000, 7000, 6000, 5000, 4000, 300, 200, 100, 50, 20, 10])


def _releases(pipeline, runs: int):
    return [pipeline.release(EASY) for _ in range(runs)]


def _squared_errors(releases, attribute: str) -> float:
    errors = [getattr(release, attribute) - EASY[release.indices] for release in releases]
    return float(np.mean(np.concatenate(errors) ** 2))


PAPER = {"method": "paper"}


@pytest.mark.parametrize("monotonic", quick_in([True, False], {True}))
def test_gaps_reduce_the_error_of_a_top_k_as_theory_says(monotonic: bool):
    pipeline = dpgap.MeasuredTopK(5, "0.7", monotonic=monotonic, **PAPER)
    releases = _releases(pipeline, 1_500)
    estimates = _squared_errors(releases, "estimates")
    assert estimates == pytest.approx(releases[0].variances[0], rel=0.3)
    reduction = 4 / 10 if monotonic else 4 / 25
    measurement = pipeline.measurement.variance(5)
    assert releases[0].variances[0] / measurement == pytest.approx(1 - reduction, abs=0.003)


@pytest.mark.parametrize("adaptive", quick_in([True, False], {True}))
def test_gaps_reduce_the_error_above_a_threshold_as_theory_says(adaptive: bool):
    pipeline = dpgap.MeasuredAbove(2000, 3, "0.7", monotonic=True, adaptive=adaptive, **PAPER)
    releases = _releases(pipeline, 1_500)
    expected = np.mean(np.concatenate([release.variances for release in releases]))
    assert _squared_errors(releases, "estimates") == pytest.approx(expected, rel=0.3)
    assert _squared_errors(releases, "estimates") < _squared_errors(releases, "measurements")
    if adaptive:
        assert np.mean([release.indices.size for release in releases]) > 4


def test_more_answers_than_k_are_measured_with_noise_for_all_of_them():
    pipeline = dpgap.MeasuredAbove(2000, 3, 4, monotonic=True, adaptive=True, **PAPER)
    release = max(_releases(pipeline, 30), key=lambda each: each.indices.size)
    assert release.indices.size > 3
    measured = pipeline.measurement.variance(release.indices.size)
    gap = release.variances[0] * measured / (measured - release.variances[0])
    program = pipeline.selection.in_steps()
    cheap = program.every_branch[release_branch(release, pipeline) - 1].law.floor_variance
    assert gap == pytest.approx(cheap + program.threshold_law.floor_variance)


def release_branch(release, pipeline) -> int:
    """All answers are far above, so the first cleared the cheapest branch."""
    return 1


@pytest.mark.parametrize(
    "pipeline",
    [
        dpgap.MeasuredTopK(4, 1, monotonic=True, **PAPER),
        dpgap.MeasuredTopK(12, 1, **PAPER),
        dpgap.MeasuredTopK(1, 1, **PAPER),
        dpgap.MeasuredAbove(2000, 3, 1, monotonic=True, **PAPER),
        dpgap.MeasuredAbove(2000, 3, 1, adaptive=True, **PAPER),
        dpgap.MeasuredTopK(4, 1, monotonic=True, grid="1/8", **PAPER),
    ],
    ids=repr,
)
def test_intervals_cover_as_often_as_they_say(pipeline):
    covered = []
    for _ in range(400):
        release = pipeline.release(EASY)
        low, high = release.interval(0.8).T
        truth = EASY[release.indices]
        covered.append(((low <= truth) & (truth <= high)).mean())
    # Runs are independent, answers of one run are not.
    spread = np.std(covered) / math.sqrt(400)
    assert 0.8 - 5 * spread < np.mean(covered) < 0.87 + 5 * spread


@pytest.mark.parametrize("method", ["paper", "best"])
def test_intervals_make_room_for_rounding_to_a_declared_grid(method: str):
    pipeline = dpgap.MeasuredTopK(1, 400, monotonic=True, grid=4, method=method)
    for _ in range(40):
        low, high = pipeline.release([1002.0, 40.0]).interval(0.95)[0]  # halfway between steps
        assert low <= 1002 <= high
    low, high = dpgap.Laplace(400, grid=4).release([1002.0]).interval(0.95)[0]
    assert low <= 1002 <= high


@pytest.mark.parametrize("method", ["paper", "best"])
def test_releases_can_be_pickled(method: str):
    release = dpgap.measured_top_k(EASY, 3, 1, monotonic=True, method=method)
    again = pickle.loads(pickle.dumps(release))
    assert (again.interval(0.9) == release.interval(0.9)).all()
    assert "lambda" not in repr(release)


def test_the_split_is_respected_and_epsilon_is_exact():
    pipeline = dpgap.MeasuredTopK(2, 0.7, split=0.3, **PAPER)
    assert pipeline.selection.epsilon == Fraction(21, 100)
    assert pipeline.measurement.epsilon == Fraction(49, 100)
    assert pipeline.release(EASY).epsilon == Fraction(7, 10)


def test_finding_nothing_spends_nothing_on_measuring():
    release = dpgap.measured_above(EASY, 10**6, 3, 1, monotonic=True, **PAPER)
    assert release.indices.size == release.estimates.size == 0
    assert release.interval(0.95).shape == (0, 2)
    assert release.spent == dpgap.SparseVector(10**6, 3, "1/2", monotonic=True).spent(0)
    assert release.epsilon == 1
    assert "no δ" in str(release)


def test_labels_follow_the_winners():
    labels = [f"item {i}" for i in range(12)]
    release = dpgap.measured_top_k(EASY, 2, 10, monotonic=True, labels=labels, **PAPER)
    assert release.labels == ("item 0", "item 1")
    frame = release.to_frame()
    assert frame["item"].tolist() == ["item 0", "item 1"]
    assert (frame["low"] < frame["estimate"]).all()


@pytest.mark.parametrize(
    "pipeline",
    [dpgap.MeasuredTopK(2, 1, **PAPER), dpgap.MeasuredAbove(500, 2, 1, **PAPER)],
    ids=repr,
)
def test_a_pipeline_selects_as_its_selection_alone_does(pipeline):
    with bits_are(InsecureSeededBits(3)):
        measured = pipeline.release(EASY)
    with bits_are(InsecureSeededBits(3)):
        selected = pipeline.selection.release(EASY)
    assert measured.indices.tolist() == selected.indices.tolist()
    assert measured.gaps.tolist() == selected.gaps.tolist()


def test_remembered_pipelines_do_not_take_one_parameter_for_another():
    assert dpgap.measured_top_k(EASY, 1, 1).indices.size == 1
    with pytest.raises(TypeError, match="k must be a whole number, not a bool"):
        dpgap.measured_top_k(EASY, True, 1)
    with pytest.raises(TypeError, match="k must be a whole number, not list"):
        dpgap.measured_top_k(EASY, [1], 1)
    assert dpgap.measured_top_k(EASY, 1, "0.1").epsilon == Fraction(1, 10)
    assert dpgap.measured_top_k(EASY, 1, 0.1).epsilon == Fraction(1, 10)
    assert dpgap.measured_top_k(EASY, 1, Fraction(0.1)).epsilon == Fraction(0.1)
