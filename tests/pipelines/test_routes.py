"""Routes: what each releases, in which order, and that simulations take the same ones."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgap
from dpgap.pipelines.routes import JointRoute, PaperRoute, RankedRoute
from seams import SpyAccount

COUNTS = np.array([120, 900, 40, 700, 65, 810, 20, 10])
LABELS = list("abcdefgh")


def test_a_joint_release_is_a_set_in_the_order_of_its_estimates() -> None:
    release = dpgap.measured_top_k(COUNTS, 3, 100, monotonic=True, method="joint", labels=LABELS)
    assert release.labels == ("b", "f", "d")
    assert release.indices.tolist() == [1, 5, 3]
    assert release.gaps.size == 0
    assert release.lead == pytest.approx(700 - 120, abs=2)
    assert (release.estimates == release.measurements).all()
    assert (np.diff(release.estimates) <= 0).all()
    assert np.unique(release.variances).tolist() == [
        dpgap.CountHull(75, monotonic=True, grid="1/16").variance(3)
    ]
    assert release.detail.looked == ()
    leads = release.to_frame()["gap"].tolist()
    assert leads[:2] == (-np.diff(release.estimates)).tolist()
    assert "ε went: 25 % to choose the three, 75 % to measure them. With noise, the set" in str(
        release
    )


def test_labels_and_numbers_stay_together_where_measurements_change_the_order() -> None:
    counts = np.arange(1_000, 960, -1)
    names = [f"item {count}" for count in counts]
    for _ in range(5):
        release = dpgap.measured_top_k(counts, 20, 20, monotonic=True, method="joint", labels=names)
        assert release.labels == tuple(names[index] for index in release.indices.tolist())
        assert np.abs(release.estimates - counts[release.indices]).max() < 10


@pytest.mark.parametrize("method", ["ranked", "paper"])
def test_a_ranking_is_in_the_order_of_selection_which_its_gaps_refer_to(method: str) -> None:
    release = dpgap.measured_top_k(COUNTS, 3, 100, monotonic=True, method=method)
    assert release.detail.route == method
    assert release.indices.tolist() == [1, 5, 3]
    assert release.gaps == pytest.approx([90, 110, 580], abs=10)
    assert (release.lead, release.detail.looked) == (None, ())
    assert "ε went: 50 % to rank the three, 50 % to measure them." in str(release)


def test_every_route_can_be_asked_of_a_table_and_is_charged_once() -> None:
    rows = [(unit, item) for item, many in enumerate(COUNTS.tolist()) for unit in range(many)]
    table = pd.DataFrame(rows, columns=["who", "what"])
    options = {"unit": "who", "item": "what", "domain": range(100), "k": 2, "epsilon": 50}
    for neighbours in ("add-or-remove", "replace"):
        for method, route in (("best", "joint"), ("joint", "joint"), ("ranked", "ranked")):
            account = SpyAccount()
            release = dpgap.top_k(
                table, **options, method=method, neighbours=neighbours, account=account
            )
            assert release.labels == (1, 5)
            assert release.detail.route == route
            assert account.moves == [("reserve", 50), ("settle", 50)]
            assert release.question.method == method


@pytest.mark.parametrize("kind", [JointRoute, RankedRoute, PaperRoute])
def test_a_route_knows_its_error(kind: type[JointRoute | RankedRoute | PaperRoute]) -> None:
    counts = (160_000 / np.arange(1, 501) ** 1.1).astype(np.int64)
    route = kind.of(dpgap.MeasuredTopK(5, 1, monotonic=True), Fraction(1, 4), Fraction(1, 2))
    expected = route.expected_errors()
    pipeline = dpgap.MeasuredTopK(5, "3/4", monotonic=True, split="1/3", method=kind.name)
    runs = dpgap.simulate(pipeline, counts, runs=4_000, seed=1)
    assert pipeline.route == route
    assert ((runs.estimates - runs.truth) ** 2).mean() == pytest.approx(expected.error**2, rel=0.1)


def test_simulations_take_the_routes_that_releases_take() -> None:
    """Shares of sets in 800 releases and 20,000 runs; five deviations, a false alarm in 10^6."""
    counts = (1_700 / np.arange(1, 2_001)).astype(np.int64)
    pipeline = dpgap.MeasuredTopK(10, "0.7", monotonic=True)
    runs = dpgap.simulate(pipeline, counts, runs=20_000, seed=1)
    is_set = np.array([route.name == "joint" for route in pipeline.routes])
    share = float(is_set[runs.selected.routes].mean())
    released = np.mean([pipeline.release(counts).detail.route == "joint" for _ in range(800)])
    assert 0.1 < share < 0.9
    assert released == pytest.approx(share, abs=5 * 0.5 / 800**0.5)


def test_simulated_runs_have_what_their_route_has() -> None:
    counts = (1_700 / np.arange(1, 2_001)).astype(np.int64)
    pipeline = dpgap.MeasuredTopK(10, "0.7", monotonic=True)
    runs = dpgap.simulate(pipeline, counts, runs=2_000, seed=1)
    is_set = np.array([route.name == "joint" for route in pipeline.routes])[runs.selected.routes]
    assert np.isnan(runs.selected.gaps[is_set]).all()
    assert np.isfinite(runs.selected.gaps[~is_set]).all()
    assert (np.isfinite(runs.selected.leads) == is_set).all()
    assert (runs.estimates[is_set] == runs.measurements[is_set]).all()
    assert (np.diff(runs.estimates[is_set], axis=1) <= 0).all()
    assert (runs.truth == counts[runs.selected.indices]).all()
    for number, route in enumerate(pipeline.routes):
        off = (runs.measurements - runs.truth)[runs.selected.routes == number]
        if len(off) > 300:
            assert (off**2).mean() == pytest.approx(route.measurement.variance(10), rel=0.2)
