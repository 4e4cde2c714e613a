"""What a plan promises, compared with what happens."""

from fractions import Fraction
from typing import Any

import pytest
from accuracy_benchmark import benchmark, falling_counts

import dpgap


@pytest.mark.parametrize("k", [3, 10])
def test_the_planned_errors_are_those_of_simulated_runs(k: int) -> None:
    plan = dpgap.plan(k=k, epsilon="0.7", monotonic=True)
    plain = benchmark().baseline(k)
    best = benchmark().top_k(falling_counts(), k, "best", 2000, seed=k)
    paper = benchmark().top_k(falling_counts(), k, "paper", 2000, seed=k)
    assert plan["baseline"].error ** 2 == pytest.approx(plain)
    assert plan["paper"].error ** 2 / plain == pytest.approx(paper["error"], rel=0.06)
    # Conditioning on selection does a little better than the least squares that is planned with.
    assert 0.9 < best["error"] / (plan["best"].error ** 2 / plain) < 1.01
    assert plan["best"].close_error is not None
    assert plan["best"].close_error ** 2 / plain == pytest.approx(best["without gaps, exact"])


def test_the_error_planned_after_a_sparse_vector_is_met() -> None:
    plan = dpgap.plan(k=5, epsilon="0.7", method="best", monotonic=True, select="above")
    found = benchmark().above(falling_counts(), 5, "best", 2000, seed=5)
    assert found["error"] < 1.02 * plan.error**2 / benchmark().baseline(5)


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
    assert [row.method for row in plan.rows] == ["best", "paper", "baseline"]
    assert errors == sorted(errors)
    assert dpgap.plan(k=10, epsilon=1, split="0.8").error > plan.error
    assert dpgap.plan(k=10, epsilon=1, split="0.2").error < plan.error


def test_a_plan_prints_and_tabulates() -> None:
    plan = dpgap.plan(k=10, epsilon=1, monotonic=True)
    assert "Nothing has been spent" in str(plan)
    assert "<table>" in plan._repr_html_()
    assert list(plan.to_frame()["method"]) == ["best", "paper", "baseline"]
    with pytest.raises(KeyError):
        plan["other"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "epsilon or error"),
        ({"epsilon": 1, "error": 1}, "epsilon or error"),
        ({"epsilon": 0}, "epsilon"),
        ({"error": -1}, "error"),
        ({"epsilon": 1, "k": 0}, "k must be"),
        ({"epsilon": 1, "method": "magic"}, "method"),
        ({"epsilon": 1, "select": "all"}, "select"),
        ({"epsilon": 1, "split": 2}, "split"),
        ({"epsilon": 1, "adaptive": True}, "adaptive"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        dpgap.plan(**{"k": 3, **arguments})
