"""Every number that carries a confidence is wrong at most as often as it says, by every way.

What is wrong is counted by `confidence`; each count is judged at level 1e-6.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dpgap
from confidence import NOMINAL, WAYS, p_of, shortfalls, wrong_bounds
from law_tests import LEVEL

PAGE = Path(__file__).parents[2] / "docs" / "confidence.md"
RUNS = 40_000
_SLOW = [
    name
    for name, way in WAYS.items()
    if (way.by == "histogram" and name != "top k, histogram, reach 4")
    or (way.question == "above, measured" and way.setting == "16 branches")
]


def _require(way: str, runs: int) -> None:
    said = list(WAYS[way].say(runs, NOMINAL))
    assert said
    assert {(kind, number): p for kind, number, wrong in said if (p := p_of(wrong)) < LEVEL} == {}


@pytest.mark.parametrize("way", [way for way in WAYS if way not in _SLOW])
def test_what_is_said_with_confidence_is_wrong_at_most_as_often(way: str):
    _require(way, RUNS // 10)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_with_confidence_is_wrong_at_most_as_often_in_many_runs(way: str):
    _require(way, RUNS)


@pytest.mark.parametrize(
    ("way", "numbers"),
    [
        ("SparseVector, exponential, monotonic, 2 branches", {"lower bound", "p-value"}),
        ("SparseVector, laplace, general, 16 branches", {"lower bound"}),
        ("NoisyTopK, exponential, monotonic", {"p-value", "belong"}),
        ("JointTopK, exponential, general", {"set’s p-value"}),
        ("HybridTopK, exponential, monotonic", {"p-value", "belong"}),
        (
            "above, measured, best, general, 3 branches",
            {"interval", "all intervals", "all differences"},
        ),
        ("top k, measured, best, monotonic", {"interval", "all intervals", "all differences"}),
        ("top k, measured, paper, general", {"interval", "all intervals", "all differences"}),
        ("values, CountHull", {"interval"}),
        ("values, NoisyHistogram, reach 4", {"interval"}),
        ("plan, above, paper, general, adaptive", {"plan"}),
    ],
)
def test_what_is_said_with_85_percent_is_not_taken_for_95(way: str, numbers: set[str]):
    said = WAYS[way].say(RUNS // 10, 0.85)
    assert {number for _, number, wrong in said if p_of(wrong) < LEVEL} >= numbers


def test_the_page_has_a_figure_for_every_way():
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    rows = [row for row in rows if len(row) >= 4 and row[3].strip()[:1].isdigit()]
    for way in WAYS.values():
        same = [
            each for each in WAYS.values() if (each.question, each.by) == (way.question, way.by)
        ]
        column = 4 if way.monotonic is False else 3
        settings = [each.setting for each in same if each.monotonic == way.monotonic]
        cells = [
            row[column] for row in rows if row[0].startswith(way.question) and row[1] == way.by
        ]
        figures = [cell.strip(" |").split(" / ") for cell in cells]
        assert any(len(each) == len(settings) for each in figures), way
        assert all(float(one) > 94 for each in figures for one in each if one != "–"), way


# Branches share what may go wrong.


def _mechanism(branches: int, **options: object) -> dpgap.AdaptiveSparseVector:
    return dpgap.AdaptiveSparseVector(0, 10, "0.7", branches=branches, **options)


def _unshared(mechanism: dpgap.AdaptiveSparseVector) -> np.ndarray:
    """What each branch would fall short by if it were the only one."""
    errors = mechanism.gap_errors
    alone = [replace(errors, branch_laws=(law,)) for law in errors.branch_laws]
    return -np.array([each.lower_bound(0.0, 1, NOMINAL) for each in alone])


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize(
    ("noise", "branches", "covered"),
    [
        ("laplace", 2, 0.905),
        ("laplace", 3, 0.87),
        ("laplace", 16, 0.56),
        ("exponential", 2, 0.905),
        ("exponential", 3, 0.86),
        ("exponential", 16, 0.444),
    ],
)
def test_bounds_of_each_branch_alone_would_be_wrong_too_often(
    noise: str, branches: int, covered: float, monotonic: bool
):
    mechanism = _mechanism(branches, noise=noise, monotonic=monotonic)
    worst, _ = wrong_bounds(mechanism, _unshared(mechanism), 4_000)
    assert p_of(worst) < LEVEL
    assert 1 - worst.mean() == pytest.approx(covered, abs=0.03)


@pytest.mark.parametrize("noise", ["laplace", "exponential", "staircase"])
@pytest.mark.parametrize("branches", [2, 3, 8, 16])
def test_sharing_lowers_no_bound_by_more_than_0_7_of_the_cheapest_scale(noise: str, branches: int):
    mechanism = _mechanism(branches, noise=noise, monotonic=True)
    lower = shortfalls(mechanism, NOMINAL) - _unshared(mechanism)
    scales = [float(way.law.scale) for way in mechanism.every_branch]
    most = 0.7 if noise != "staircase" else 1.5  # its bound is cautious
    assert (lower > 0).all()
    assert (lower <= most * scales[0]).all()


def test_one_branch_has_all_of_the_error_and_a_level_next_to_1_has_a_bound():
    one = _mechanism(1)
    assert shortfalls(one, NOMINAL).tolist() == _unshared(one).tolist()
    nearly = shortfalls(_mechanism(16, noise="exponential"), 1 - 2.0**-53)
    assert np.isfinite(nearly).all()


def test_a_document_bounds_as_the_release_did_with_all_branches_known():
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    release = mechanism.release([10**4, 200, 2 * 10**4])
    again = dpgap.read_release(release.to_json())
    assert again.lower_bounds().tolist() == release.lower_bounds().tolist()
    short = shortfalls(mechanism, NOMINAL)[release.branch_of - 1]
    assert again.lower_bounds() == pytest.approx(100 + release.gaps - short)
