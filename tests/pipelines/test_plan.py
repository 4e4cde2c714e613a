"""What a plan promises, compared with what happens."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpgap
from accuracy import EPSILON, above, baseline, falling_counts, top_k


@pytest.mark.parametrize("k", [3, 10])
def test_the_planned_errors_are_those_of_simulated_runs(k: int) -> None:
    plan = dpgap.plan(k=k, epsilon=EPSILON, monotonic=True)
    plain = baseline(k)
    counts = falling_counts(2_000)
    found = {name: top_k(counts, k, name, seed=k) for name in ("best", "joint", "ranked", "paper")}
    assert plan["baseline"].error ** 2 == pytest.approx(plain)
    for name in ("best", "joint", "paper"):
        assert plan[name].error ** 2 / plain == pytest.approx(found[name].error, rel=0.06)
    # Conditioning on selection does a little better than the least squares that is planned with.
    assert 0.9 < found["ranked"].error / (plan["ranked"].error ** 2 / plain) < 1.01
    measurement = dpgap.MeasuredTopK(k, EPSILON, monotonic=True).measurement
    assert plan["ranked"].close_error is not None
    assert plan["ranked"].close_error ** 2 == pytest.approx(measurement.variance(k))


def test_the_best_methods_error_in_a_close_race_is_that_of_ranking_after_a_look() -> None:
    row = dpgap.plan(k=10, epsilon=EPSILON, monotonic=True)["best"]
    found = top_k(falling_counts(2_000) // 3_000, 10, "best", seed=1)
    assert row.close_error is not None
    assert row.close_error**2 / baseline(10) == pytest.approx(found.error, rel=0.06)


@pytest.mark.parametrize(("k", "epsilon"), [(3, 1), (3, "0.2"), (10, 1), (30, "0.2")])
@pytest.mark.parametrize("falls", [True, False])
def test_no_interval_is_wider_than_planned_whichever_route_is_taken(
    k: int, epsilon: Any, falls: bool
) -> None:
    counts = 2000 // np.arange(1, 201) if falls else np.full(200, 100)
    options: Any = {"epsilon": epsilon, "monotonic": True}
    stated: Any = {"counts": counts.tolist(), "items": counts.size}
    row = dpgap.plan(k=k, method="best", **options).rows[0]
    sized = dpgap.plan(k=k, method="best", **options, **stated).rows[0]
    pipeline = dpgap.MeasuredTopK(k, **options)
    assert row.half_width == max(route.expected_errors().half_width for route in pipeline.routes)
    ends = np.array([pipeline.release(counts).interval(0.95) for _ in range(60)])
    halves = (ends[..., 1] - ends[..., 0]) / 2
    assert (halves <= row.half_width + 1).all()
    # One in 20 may be wider. More than 14 of 60 are at most once in a million.
    assert (halves.max(axis=1) > sized.half_width + 1).sum() <= 14


def test_a_plan_says_that_more_answers_than_k_are_measured_less_well() -> None:
    options: Any = {"adaptive": True, "monotonic": True}
    made = dpgap.plan(k=3, epsilon=1, method="best", select="above", **options)
    found = dpgap.measured_above([10_000] * 40, 100, 3, 1, **options)
    low, high = found.interval().T
    assert found.indices.size > 3
    assert ((high - low) / 2 > made.rows[0].half_width + 1).all()
    warning = "If more than k are found, errors and 95% ± grow."
    assert warning in made.guarantee
    assert warning not in dpgap.plan(k=3, epsilon=1).guarantee


def test_a_plan_reads_off_a_histogram_where_a_release_does() -> None:
    """For "above", a release compares what measuring alone would be off by."""
    options: Any = {"k": 10, "epsilon": 1, "monotonic": True, "select": "above"}
    for reach in range(1, 30):
        made = dpgap.plan(**options, max_items=reach)
        alone = dpgap.plan(**options, method="best").rows[0].close_error
        assert alone is not None
        is_read_off = made["histogram"].error <= alone
        assert (made["best"].half_width == made["histogram"].half_width) == is_read_off


def test_the_error_planned_after_a_sparse_vector_is_met() -> None:
    plan = dpgap.plan(k=5, epsilon=EPSILON, method="best", monotonic=True, select="above")
    found = above(falling_counts(), 5, "best", seed=5)
    assert found.error < 1.02 * plan.error**2 / baseline(5)


@pytest.mark.parametrize("method", ["best", "paper", "baseline"])
@pytest.mark.parametrize("select", ["top-k", "above"])
@pytest.mark.parametrize("error", [0.5, 20, 3000])
def test_the_epsilon_for_an_error_is_enough_and_hardly_more(
    method: str, select: str, error: float
) -> None:
    plan = dpgap.plan(k=10, error=error, method=method, select=select, monotonic=True)
    assert plan.error <= error
    less = dpgap.plan(
        k=10, epsilon=plan.epsilon * Fraction(98, 100), method=method, select=select, monotonic=True
    )
    assert less.error > error


def test_methods_come_best_first_and_a_larger_split_measures_worse() -> None:
    plan = dpgap.plan(k=10, epsilon=1)
    errors = [row.error for row in plan.rows]
    assert [row.method for row in plan.rows] == ["best", "joint", "ranked", "paper", "baseline"]
    assert errors == sorted(errors)
    for method in ("best", "joint", "ranked", "paper"):
        errors = [
            dpgap.plan(k=10, epsilon=1, split=split, method=method).error
            for split in ("0.2", "0.5", "0.8")
        ]
        assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"sensitivity": 10**9}, 10**10),
        ({"grid": "1/1073741824"}, 200),
        ({"sensitivity": 10**6}, 5),
    ],
)
def test_noise_that_is_too_wide_for_floats_is_not_enough(facts: Any, error: int) -> None:
    options: Any = {"k": 10, "monotonic": False, **facts}
    for row in dpgap.plan(error=error, **options).rows:
        assert 0.98 * error < row.error <= error
        assert dpgap.plan(epsilon=row.epsilon, **options)[row.method].error == row.error


def test_a_plan_prints_and_tabulates() -> None:
    plan = dpgap.plan(k=10, epsilon=1, monotonic=True)
    assert "Nothing has been spent" in str(plan)
    assert "<table>" in plan._repr_html_()
    assert "For k = 10, counts that all move in the same direction (top-k)." in plan.guarantee
    assert "answers of any kind" in dpgap.plan(k=10, epsilon=1, monotonic=False).guarantee
    assert list(plan.to_frame()["method"])[:3] == ["best", "joint", "ranked"]
    with pytest.raises(KeyError):
        plan["other"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "epsilon or error"),
        ({"epsilon": 1, "error": 1}, "epsilon or error"),
        ({"epsilon": 0}, "epsilon"),
        ({"error": -1}, "error"),
        ({"error": 1e12}, "error must be smaller: ε = 10\\^-9 already has a smaller"),
        ({"error": "1e400"}, "error must be smaller"),
        ({"epsilon": 1, "k": 0}, "k must be"),
        ({"epsilon": 1, "method": "magic"}, "method"),
        ({"epsilon": 1, "select": "all"}, "select"),
        ({"epsilon": 1, "split": 2}, "split"),
        ({"epsilon": 1, "adaptive": True}, "adaptive"),
        ({"epsilon": 1, "counts": [5, 4]}, "counts need items, and select='top-k'"),
        ({"epsilon": 1, "counts": [5, 4], "items": 9, "select": "above"}, "select='top-k'"),
        ({"epsilon": 1, "delta": 1e-6}, "delta needs max_items"),
        ({"epsilon": 1, "delta": 1, "max_items": 3}, "delta must be at least 0 and less than 1"),
        ({"epsilon": 1, "delta": 1e-6, "max_items": 3, "items": 9}, "items must be left out"),
        ({"epsilon": 1, "delta": 1e-6, "max_items": 3, "grid": 0.5}, "grid must be left out"),
        ({"epsilon": 1, "delta": 1e-6, "max_items": 3, "method": "joint"}, "method must be one of"),
        ({"epsilon": 1, "items": 3, "method": "joint"}, "method must be one of 'best', 'ranked'"),
        ({"epsilon": 1, "items": 2}, "k must be at most the number of items in the domain, 2"),
        ({"epsilon": 1, "counts": [4, 5], "items": 9}, "counts must not grow with the rank"),
        ({"epsilon": 1, "counts": [], "items": 9}, "counts must be numbers from 0 up"),
        ({"epsilon": 1, "counts": [-1], "items": 9}, "counts must be numbers from 0 up"),
        ({"epsilon": 1, "counts": {0: 5}, "items": 9}, "a rank in counts must be"),
        ({"epsilon": 1, "counts": {10: 5}, "items": 9}, "ranks up to items"),
        ({"epsilon": 1, "counts": [5], "items": 2**60 + 1}, "items must be at most 2\\^60"),
        ({"epsilon": 1, "counts": [5], "items": 10**30}, "items must be at most 2\\^60"),
        ({"epsilon": 1, "method": "joint", "select": "above"}, "method must be one of 'best', "),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        dpgap.plan(**{"k": 3, **arguments})


@pytest.mark.parametrize("counts", [5, "90", iter([9, 8])])
def test_counts_that_are_no_numbers_in_order_are_named(counts: Any) -> None:
    with pytest.raises(TypeError, match="counts must be a sequence of numbers"):
        dpgap.plan(k=3, epsilon=1, counts=counts, items=9)


@pytest.mark.parametrize("monotonic", [True, False])
def test_an_epsilon_that_leaves_no_noise_is_planned_with_an_error_of_nothing(
    monotonic: bool,
) -> None:
    expected = dpgap.plan(k=10, epsilon=10**12, monotonic=monotonic)
    assert (expected["ranked"].error, expected["best"].close_error) == (0, 0)


LARGE = {1: 90_000, 10: 20_000, 100: 3_000}
SMALL = {1: 30, 10: 20, 100: 10}


def test_stated_sizes_say_which_route_is_taken_and_how_many_winners_are_right() -> None:
    large = dpgap.plan(k=10, epsilon=1, monotonic=True, counts=LARGE, items=10_000)
    small = dpgap.plan(k=10, epsilon=1, monotonic=True, counts=SMALL, items=10_000)
    assert large["best"].close_error == large["best"].error  # chosen as a set
    assert small["best"].close_error > small["best"].error  # ranked
    assert large["best"].precision == pytest.approx(1, abs=1e-3)
    assert small["joint"].precision is not None
    assert small["joint"].precision < 0.1
    assert "100.0 %" in str(large)
    assert large["best"].error < small["best"].error


def test_sizes_in_order_and_by_rank_are_the_same() -> None:
    by_rank = {rank: 1000 // rank for rank in range(1, 31)}
    plans = [
        dpgap.plan(k=3, epsilon=1, monotonic=True, counts=counts, items=500)
        for counts in (by_rank, list(by_rank.values()))
    ]
    assert plans[0].rows == plans[1].rows


@pytest.mark.parametrize("epsilon", ["0.012", "0.014", "0.015", "0.018"])
def test_the_share_of_right_winners_is_that_of_simulated_ones_where_it_rises_fast(
    epsilon: str,
) -> None:
    """Between these ε it rises from 0.46 to 1. What nine tenths of ε find is off by up to 0.34."""
    counts = (100_000 / np.arange(1, 1_001)).astype(np.int64)
    options: Any = {"epsilon": epsilon, "monotonic": True, "method": "joint"}
    planned = dpgap.plan(k=10, counts=counts.tolist(), items=counts.size, **options)
    runs = dpgap.simulate(dpgap.MeasuredTopK(10, **options), counts, runs=2_000, seed=1)
    found = (runs.selected.indices < 10).mean()
    assert planned["joint"].precision == pytest.approx(found, abs=0.1)


def test_a_bounded_reach_has_one_more_method_and_says_what_cutting_does() -> None:
    made = dpgap.plan(k=10, epsilon=1, monotonic=True, max_items=3)
    assert made["histogram"].error == pytest.approx(3 * 2**0.5, rel=0.01)
    assert made.error == made["best"].error == made["histogram"].error
    assert "at most 3 items. If units have more, counts are too low" in made.guarantee
    wide = dpgap.plan(k=10, epsilon=1, monotonic=True, max_items=16)
    assert wide["best"].error < wide["histogram"].error
    assert "counts are too low" in wide.guarantee
    with pytest.raises(ValueError, match="method must be one of"):
        dpgap.plan(k=10, epsilon=1, method="histogram")


def test_an_error_that_no_epsilon_reaches_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="error must be larger: no ε reaches it"):
        dpgap.plan(k=10, error="0.05", method="paper", monotonic=True)
