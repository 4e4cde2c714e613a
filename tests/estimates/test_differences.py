"""Differences of measured values: intervals that hold for all pairs at once, and no wider."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpgap
from accuracy import falling_counts
from dpgap.estimates.errors import MeasurementError
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import LaplaceNoise
from dpgap.exact.shells import CubeNoise, HullNoise, shells
from law_tests import LEVEL
from seams import quick_in

RUNS = 60_000


def _half_width_of_all(error: MeasurementError, count: int, level: float) -> float:
    """How far the farthest of so many values is off."""
    return float(error.ends_of_all(np.zeros(count), level, 0.0)[0, 1])


def _noise(law: Any, k: int, runs: int = RUNS) -> np.ndarray:
    """What k measured values are off by, in steps; one row a run."""
    bits = InsecureSeededBits(k)
    if isinstance(law, LaplaceNoise):
        return law.floors(bits, runs, k) + 0.5
    drawn = shells(law, bits, runs)
    return drawn[:, 1:] - drawn[:, :1] if isinstance(law, HullNoise) else drawn


def _laws(scale: Fraction, k: int) -> list[Any]:
    return [HullNoise(scale, k + 1), CubeNoise(scale, k), LaplaceNoise(scale)]


@pytest.mark.parametrize("k", [2, 3, 10, 25])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_all_pairs_and_all_values_are_covered_at_once_and_not_much_more(k: int, level: float):
    for law in _laws(Fraction(160), k):
        off, error = _noise(law, k), MeasurementError(law, Fraction(1))
        for found, half in (
            (np.ptp(off, axis=1), error.half_width_of_pairs(k, level)),
            (np.abs(off).max(axis=1), _half_width_of_all(error, k, level)),
        ):
            covered = int((found <= half).sum())
            assert stats.binomtest(covered, RUNS, level, alternative="less").pvalue > LEVEL
            assert covered / RUNS < level + 0.02
            fewer = int((found <= 0.95 * half).sum())
            assert stats.binomtest(fewer, RUNS, level, alternative="less").pvalue < LEVEL


@pytest.mark.parametrize("scale", ["1/50", "1/2", "5"])
def test_noise_that_is_not_much_wider_than_the_grid_is_covered(scale: str):
    for k in (2, 7):
        for law in _laws(Fraction(scale), k):
            off, error = _noise(law, k), MeasurementError(law, Fraction(1))
            pairs, every = error.half_width_of_pairs(k, 0.95), _half_width_of_all(error, k, 0.95)
            assert (np.ptp(off, axis=1) <= pairs).mean() >= 0.95
            assert (np.abs(off).max(axis=1) <= every).mean() >= 0.95


@pytest.mark.parametrize("k", [2, 3, 5, 10, 25, 100])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_all_pairs_are_at_most_1_6_times_as_wide_as_one(k: int, epsilon: str):
    hull = dpgap.CountHull(epsilon, monotonic=True, grid="1/16").error(k)
    own = hull.half_width(0.95)  # u − u₀ has the same law as u − u′
    assert hull.half_width_of_pairs(k, 0.95) < 1.6 * own
    cube = dpgap.Cube(epsilon, grid="1/16").error(k)
    two = _noise(cube.law, k, 20_000)[:, :2]
    own = float(np.quantile(np.abs(two[:, 0] - two[:, 1]), 0.95)) / 16
    assert cube.half_width_of_pairs(k, 0.95) < 1.6 * own


def _coverage(counts: np.ndarray, k: int, runs: int, **options: Any) -> float:
    """How often all differences of winners are in their intervals."""
    pipeline = dpgap.MeasuredTopK(k, "0.7", **{"method": "ranked"} | options)
    made = dpgap.simulate(pipeline, counts, runs=runs, seed=k)
    half = pipeline.measurement.error(k).half_width_of_pairs(k, 0.95)
    return float((np.ptp(made.measurements - made.truth, axis=1) <= half).mean())


SETTINGS = [
    (k, thinning, options)
    for k in (3, 10, 25)
    for thinning in (1, 30, 300)
    for options in (
        {"monotonic": True},
        {"monotonic": False},
        {"monotonic": True, "method": "joint"},
        {"method": "paper"},
    )
]


@pytest.mark.parametrize(("k", "thinning", "options"), SETTINGS)
def test_releases_cover_all_pairs_of_their_winners(k: int, thinning: int, options: dict[str, Any]):
    runs = 2_000
    counts = falling_counts() // thinning
    assert _coverage(counts, k, runs, **options) >= 0.95 - 4 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.parametrize("k", quick_in([3, 10, 25], {10}))
def test_on_flat_counts_the_pair_that_looks_largest_is_covered_too(k: int):
    runs = 20_000
    flat = np.full(60, 500)
    assert _coverage(flat, k, runs, monotonic=True) >= 0.95 - 4 * (0.05 * 0.95 / runs) ** 0.5
    pipeline = dpgap.MeasuredTopK(k, "0.7", monotonic=True, method="ranked")
    made = dpgap.simulate(pipeline, flat, runs=2_000, seed=1)
    own = pipeline.measurement.half_width(k, 0.95)  # that of one pair, fixed beforehand
    assert (np.ptp(made.measurements, axis=1) <= own).mean() < 0.92


@pytest.mark.parametrize("thinning", [30, 300])
def test_what_the_best_method_releases_covers_all_pairs_by_rank(thinning: int):
    runs, covered = 300, 0
    counts = falling_counts() // thinning
    for _ in range(runs):
        release = dpgap.measured_top_k(counts, 6, "0.7", monotonic=True)
        truth = counts[[int(row.item) for row in release]]
        covered += all(
            low <= truth[better - 1] - truth[worse - 1] <= high
            for better, worse in combinations(range(1, 7), 2)
            for _, low, high in [release.difference(better, worse)]
        )
    assert stats.binomtest(covered, runs, 0.95, alternative="less").pvalue > LEVEL


def _coverage_above(pipeline: dpgap.MeasuredAbove, stream: np.ndarray, runs: int) -> float:
    """How often all differences of what was found are in their intervals, where any was."""
    made = dpgap.simulate(pipeline, stream, runs=runs, seed=2)
    off, found = made.measurements - made.truth, made.selected.found
    some = found[found > 0]
    starts = some.cumsum() - some
    spread = np.maximum.reduceat(off, starts) - np.minimum.reduceat(off, starts)
    half = {n: _pairs(pipeline, n) for n in set(some.tolist())}
    return float((spread <= [half[n] for n in some.tolist()]).mean())


def _pairs(pipeline: dpgap.MeasuredAbove, count: int) -> float:
    return pipeline.measurement.error(count).half_width_of_pairs(count, 0.95)


@pytest.mark.parametrize("thinning", [1, 30, 300])
@pytest.mark.parametrize(
    "options",
    [
        {"monotonic": True},
        {"monotonic": False},
        {"monotonic": True, "adaptive": True},
        {"method": "paper"},
    ],
)
def test_all_pairs_of_what_is_found_above_are_covered(thinning: int, options: dict[str, Any]):
    counts, runs = falling_counts() // thinning, 4_000
    pipeline = dpgap.MeasuredAbove(int(counts[40]), 10, "0.7", **options)
    covered = _coverage_above(pipeline, np.random.default_rng(1).permutation(counts), runs)
    assert covered >= 0.95 - 5 * (0.05 * 0.95 / runs) ** 0.5  # level 1e-6


def test_the_papers_method_seldom_says_that_an_answer_below_is_above():
    runs, wrong, beyond = 400, 0, 0
    for _ in range(runs):
        release = dpgap.measured_above([999] * 30, 1000, 6, 1, monotonic=True, method="paper")
        wrong += any("truly above" in said or "surely above" in said for said in release.findings)
        beyond += bool((release.measurements >= 1000).any())
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > LEVEL
    assert beyond > runs / 2  # what a measurement alone would claim


@pytest.mark.long
@pytest.mark.parametrize("k", [3, 10, 25])
@pytest.mark.parametrize("thinning", [1, 30, 100, 300, 10**6])
def test_all_pairs_are_covered_to_two_standard_errors(k: int, thinning: int):
    runs = 200_000
    counts = falling_counts() // thinning  # the last: flat
    for options in ({"monotonic": True}, {"method": "joint"}, {"method": "paper"}):
        covered = _coverage(counts, k, runs, **options)
        assert covered >= 0.95 - 2 * (0.05 * 0.95 / runs) ** 0.5


def test_one_value_has_no_pair():
    error = dpgap.CountHull(1, monotonic=True).error(1)
    assert error.half_width_of_pairs(1, 0.95) == 0
