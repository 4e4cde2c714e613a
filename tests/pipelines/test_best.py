"""method="best" from end to end: releases, refusals, and how accurate it is.

Accuracy is measured on seeded simulated runs, so these figures never change. The full benchmark,
benchmarks/accuracy.py, has ten times as many runs, of the exact mechanisms and on real counts.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import accuracy
import dpgap
from accuracy import falling_counts
from dpgap.mechanisms.measuring import Joint
from dpgap.research.datasets import load
from seams import SpyAccount

COUNTS = [310, 85, 420, 97, 250, 12]


@pytest.mark.parametrize(("k", "most"), [(3, 0.12), (10, 0.06), (25, 0.05)])
def test_clear_winners_are_chosen_as_a_set_and_have_the_promised_error(k: int, most: float) -> None:
    found = accuracy.top_k(falling_counts(2_000), k, "best", seed=k)
    assert found.error < most
    assert found.coverage == pytest.approx(0.95, abs=0.01)
    assert found.precision >= accuracy.top_k(falling_counts(2_000), k, "ranked", seed=k).precision


@pytest.mark.parametrize(("k", "most"), [(3, 0.26), (10, 0.13), (25, 0.10)])
def test_clear_winners_that_are_ranked_have_the_promised_error(k: int, most: float) -> None:
    found = accuracy.top_k(falling_counts(), k, "ranked", seed=k)
    paper = accuracy.top_k(falling_counts(), k, "paper", seed=k)
    assert found.error < most
    assert found.error < found.without_gaps
    assert found.coverage == pytest.approx(0.95, abs=0.01)
    assert paper.error > 4 * found.error or k == 3
    assert paper.error == pytest.approx((k + 1) / (2 * k), rel=0.08)


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("thinning", [30, 300, 3000])
def test_hard_races_are_never_worse_than_without_gaps(thinning: int, monotonic: bool) -> None:
    found = accuracy.top_k(falling_counts() // thinning, 10, "ranked", thinning, monotonic)
    assert found.error < 1.01 * found.without_gaps
    assert found.coverage == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("thinning", [1, 100, 300])
def test_counts_like_those_of_the_paper_meet_the_promise(thinning: int) -> None:
    counts = load("BMS-POS", None).counts // thinning
    found = accuracy.top_k(counts, 10, "ranked", seed=thinning)
    laplace = accuracy.top_k(counts, 10, "paper", seed=thinning)
    assert found.error < 0.13 * (1 if thinning == 1 else 1.03)
    assert found.coverage == pytest.approx(0.95, abs=0.01)
    assert found.precision >= laplace.precision


@pytest.mark.parametrize("thinning", [1, 30, 100, 300])
def test_the_best_method_is_hardly_ever_worse_than_ranking(thinning: int) -> None:
    counts = load("BMS-POS", None).counts // thinning
    found = accuracy.top_k(counts, 10, "best", seed=thinning)
    ranked = accuracy.top_k(counts, 10, "ranked", seed=thinning)
    assert found.precision > ranked.precision - 0.03  # .02, and the noise of 2,000 runs
    assert found.error < 0.17
    assert found.coverage == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("monotonic", [True, False])
def test_a_set_where_every_answer_is_alike_is_not_chosen(monotonic: bool) -> None:
    pipeline = dpgap.MeasuredTopK(10, 1, monotonic=monotonic)
    runs = dpgap.simulate(pipeline, np.full(5_000, 400), runs=500, seed=1)
    names = [pipeline.routes[route].name for route in runs.selected.routes]
    assert names.count("joint") <= 5


@pytest.mark.parametrize("thinning", [1, 100, 1000])
def test_what_is_found_above_is_estimated_no_worse_than_without_gaps(thinning: int) -> None:
    found = accuracy.above(falling_counts() // thinning, 5, "best", seed=thinning)
    assert found.error < 1.01 * found.without_gaps
    assert found.coverage == pytest.approx(0.95, abs=0.01)


def test_three_drained_branches_answer_three_times_as_much() -> None:
    kind = {"noise": "exponential", "branches": 3, "drain": True}
    plain, _ = accuracy.finding(falling_counts(), 10, 1, {"noise": "exponential"})
    drained, precision = accuracy.finding(falling_counts(), 10, 1, kind)
    assert drained >= 3 * plain
    assert precision >= 0.95


def test_best_is_the_default_and_measures_on_a_finer_grid() -> None:
    pipeline = dpgap.MeasuredTopK(3, 1, monotonic=True)
    assert pipeline.method == "best"
    assert pipeline.selection.noise == "exponential"
    assert isinstance(pipeline.measurement, dpgap.CountHull)
    assert pipeline.measurement.grid == Fraction(1, Joint.finer)
    assert isinstance(dpgap.MeasuredTopK(3, 1).measurement, dpgap.Cube)
    assert isinstance(dpgap.MeasuredAbove(9, 3, 1).measurement, dpgap.Cube)


def test_the_finer_grid_keeps_the_sensitivity_of_answers_as_rounded() -> None:
    pipeline = dpgap.MeasuredTopK(2, 1, monotonic=True, sensitivity="0.3", grid="1/4")
    assert pipeline.measurement.law_in_steps(2).scale == 2 * Joint.finer / Fraction(1, 2)  # type: ignore[union-attr]


def test_a_release_has_everything_and_is_charged_once() -> None:
    account = SpyAccount()
    release = dpgap.measured_top_k(
        COUNTS, 3, "0.7", monotonic=True, labels=list("abcdef"), account=account
    )
    assert account.moves == [("reserve", Fraction(7, 10)), ("settle", Fraction(7, 10))]
    assert release.indices.size == release.measurements.size == 3
    assert release.gaps.size == {"joint": 0, "ranked": 3}[release.detail.route or ""]
    assert release.estimates.size == release.variances.size == 3
    assert release.interval(0.95).shape == (3, 2)
    assert release.labels is not None
    low, high = release.interval(0.9).T
    assert (low < release.measurements).all()
    assert (release.measurements < high).all()


def test_plenty_of_epsilon_gives_the_truth_in_every_shape() -> None:
    for monotonic in (True, False):
        some = dpgap.measured_top_k(COUNTS, 2, 10**5, monotonic=monotonic)
        every = dpgap.measured_top_k(COUNTS, 6, 10**5, monotonic=monotonic)
        one = dpgap.measured_top_k(COUNTS, 1, 10**5, monotonic=monotonic)
        found = dpgap.measured_above(COUNTS, 100, 3, 10**5, monotonic=monotonic)
        assert some.estimates == pytest.approx([420, 310], abs=0.1)
        assert every.estimates == pytest.approx(sorted(COUNTS, reverse=True), abs=0.6)
        assert one.estimates == pytest.approx([420], abs=0.1)
        assert found.estimates == pytest.approx([310, 420, 250], abs=0.1)


def test_where_every_answer_wins_least_squares_is_used() -> None:
    release = dpgap.measured_top_k([5, 7, 9], 3, 1, monotonic=True)
    assert release.estimates.mean() == pytest.approx(release.measurements.mean())
    assert (release.variances < dpgap.CountHull("1/2", monotonic=True).variance(3) * 1.01).all()


def test_an_adaptive_run_measures_as_many_as_it_found() -> None:
    pipeline = dpgap.MeasuredAbove(10, 4, 50, adaptive=True, monotonic=True)
    assert pipeline.selection.branches == 3  # type: ignore[attr-defined]
    release = pipeline.release(np.full(100, 10**6))
    assert release.indices.size == 16
    assert release.measurements.size == release.interval().shape[0] == 16


def test_where_nothing_is_above_nothing_is_spent_on_measuring() -> None:
    account = SpyAccount()
    release = dpgap.measured_above([1, 2, 3], 10**9, 2, 1, monotonic=True, account=account)
    assert release.estimates.size == 0
    assert release.interval().shape == (0, 2)
    assert release.remaining > Fraction(1, 2)
    assert account.moves == [("reserve", 1), ("settle", release.spent)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"split": 0}, "split"),
        ({"split": 1}, "split"),
        ({"split": "1.5"}, "split"),
        ({"k": 7}, "k must be at most the number of answers"),
        ({"method": "better"}, "method must be one of 'best', 'joint', 'ranked', 'paper'"),
        ({"split": "0.99"}, "split must be below 0.988 for method='best', which looks with 0.012"),
        ({"k": 6, "method": "joint"}, "k must be below the number of answers"),
        ({"answers": [2**58, 1, 2]}, "answers must lie within"),
    ],
)
def test_bad_input_is_named_and_nothing_is_charged(arguments: dict[str, Any], named: str) -> None:
    account = SpyAccount()
    call = {"answers": COUNTS, "k": 2, "epsilon": 1, "monotonic": True, **arguments}
    with pytest.raises(ValueError, match=named):
        dpgap.measured_top_k(**call, account=account)
    assert account.diary == []


def test_branches_without_adaptive_are_refused() -> None:
    with pytest.raises(ValueError, match="branches"):
        dpgap.measured_above(COUNTS, 100, 2, 1, branches=3)


@pytest.mark.parametrize("method", ["joint", "ranked"])
def test_what_is_above_has_no_other_routes(method: str) -> None:
    with pytest.raises(ValueError, match="method must be one of 'best', 'paper'"):
        dpgap.measured_above(COUNTS, 100, 2, 1, method=method)
