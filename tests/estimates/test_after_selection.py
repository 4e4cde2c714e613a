"""Estimates given selection: against brute force, and against what ignores selection."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dpgap.estimates import after_selection as kernel
from dpgap.estimates import blue
from dpgap.estimates.after_selection import (
    Estimates,
    Line,
    NoisyThreshold,
    UnknownLine,
    after_selection,
)

Floats = NDArray[np.float64]


def brute_force(
    measurements: Floats, leads: Floats, scale: float, own: float, line: Line
) -> tuple[Floats, Floats]:
    """Means and variances by summing the likelihood over answers and lines, point by point."""
    answers = np.linspace(-150, 250, 4001)
    least, most = (measurements - leads).max(keepdims=True), measurements.max(keepdims=True)
    (low,), (high,) = line.range(least, most, own)
    places = np.linspace(low, high, 801)
    excess = leads[:, None, None] - np.maximum(answers - places[:, None], 0)
    likelihood = np.exp(-excess / scale) * (excess >= 0)
    likelihood *= norm.pdf(answers, measurements[:, None, None], own)
    whole = likelihood.sum(axis=2)
    first = (likelihood * answers).sum(axis=2) / whole
    second = (likelihood * answers**2).sum(axis=2) / whole
    weights = np.exp(np.log(whole).sum(axis=0) + line.log_density(places))
    weights[[0, -1]] /= 2
    weights /= weights.sum()
    shared, shared_variance = line.shared_error(places)
    means = (first - shared) @ weights
    squares = (second - 2 * first * shared + shared**2 + shared_variance) @ weights
    return means, squares - means**2


@pytest.mark.parametrize(
    "line", [UnknownLine(3.0), NoisyThreshold(10.0, 6.0, 3.0)], ids=["unknown", "threshold"]
)
@pytest.mark.parametrize(
    ("measurements", "leads"),
    [([30.0, 80.0, 55.0], [9.0, 50.0, 41.0]), ([12.0, 9.0, 2.0], [3.0, 25.0, 14.0])],
    ids=["clear", "close"],
)
def test_means_and_variances_are_those_of_brute_force(
    line: Line, measurements: list[float], leads: list[float]
) -> None:
    measured, over = np.array(measurements), np.array(leads)
    found = after_selection(measured[None], over[None], np.float64(12.0), 4.0, line)
    means, variances = brute_force(measured, over, 12.0, 4.0, line)
    assert found.means[0] == pytest.approx(means, abs=0.02)
    assert found.variances[0] == pytest.approx(variances, rel=0.02)


def test_rows_are_estimated_independently_of_each_other() -> None:
    generator = np.random.default_rng(1)
    measured, leads = generator.normal(50, 40, (7, 4)), generator.exponential(30, (7, 4))
    together = after_selection(measured, leads, np.float64(10.0), 5.0, UnknownLine(5.0))
    for row in range(7):
        alone = after_selection(
            measured[[row]], leads[[row]], np.float64(10.0), 5.0, UnknownLine(5.0)
        )
        assert together.means[row] == pytest.approx(alone.means[0])
        assert together.variances[row] == pytest.approx(alone.variances[0])


def _races(line: float, runs: int, k: int, own: float, scale: float) -> tuple[Floats, Floats]:
    """Measurements and leads of winners clear, close and lucky."""
    generator = np.random.default_rng(k)
    truth = line + generator.exponential(12 * own, (runs, k)) - 3 * own
    leads = np.maximum(truth - line, 0) + generator.exponential(scale, (runs, k))
    return truth + generator.normal(0, own, (runs, k)), leads


def _finely(measured: Floats, leads: Floats, scale: float, own: float, line: Line) -> Estimates:
    """Estimates at 800 places of the line, all likelihoods in logarithms."""
    tilts = np.minimum(own / scale, kernel._STEEPEST) + 0 * leads
    winners = kernel._Winners(measured, measured - leads, tilts, own, in_logs=True)
    with np.errstate(all="ignore"):
        ends = kernel._narrowed(winners, line, *kernel._range(winners, line))
        return Estimates(*kernel._averaged_at(kernel._between(*ends, 800), winners, line))


@pytest.mark.parametrize("k", [2, 10, 25])
@pytest.mark.parametrize(
    "line", [UnknownLine(3.0), NoisyThreshold(0.0, 6.0, 3.0)], ids=["unknown", "threshold"]
)
def test_a_much_finer_grid_changes_nothing(line: Line, k: int) -> None:
    own, scale = 3.0, 8.0
    measured, leads = _races(0.0, 40, k, own, scale)
    found = after_selection(measured, leads, np.float64(scale), own, line)
    means, variances = _finely(measured, leads, scale, own, line)
    assert np.abs(found.means - means).max() < 1e-5 * own
    assert np.median(np.abs(found.means - means)) < 1e-6 * own
    assert np.abs(found.variances - variances).max() < 1e-4 * own**2


@pytest.mark.parametrize(("k", "scale"), [(200, 1.0), (200, 0.5), (10, 0.1), (200, 6.0)])
def test_many_winners_and_fine_noise_are_estimated_as_on_a_much_finer_grid(
    k: int, scale: float
) -> None:
    own, line = 3.0, UnknownLine(3.0)
    measured, leads = _races(0.0, 4, k, own, scale)
    found = after_selection(measured, leads, np.float64(scale), own, line)
    means, variances = _finely(measured, leads, scale, own, line)
    assert np.abs(found.means - means).max() < 0.005 * own
    assert np.abs(found.variances - variances).max() < 0.005 * own**2


def test_noise_of_next_to_nothing_leaves_differences_that_leads_tell_exactly() -> None:
    own, k = 3.0, 10
    measured, leads = _races(0.0, 5, k, own, 1e-6)
    leads = leads[:, :1] + np.arange(k) * 20 * own  # all are clear of the line
    found = after_selection(measured, leads, np.float64(1e-6), own, UnknownLine(own))
    centred = leads - leads.mean(axis=1, keepdims=True)
    exact = measured.mean(axis=1, keepdims=True) + centred
    assert np.abs(found.means - exact).max() < 0.01 * own
    assert found.variances == pytest.approx(own**2 * (1 + 1 / k), rel=0.01)


@pytest.mark.parametrize(
    "line", [UnknownLine(3.0), NoisyThreshold(0.0, 6.0, 3.0)], ids=["unknown", "threshold"]
)
def test_one_row_is_estimated_as_among_thousands(line: Line) -> None:
    """One release sums exact tails over a wide range, a simulation tabled ones in a narrow one."""
    measured, leads = _races(0.0, 3_000, 10, 3.0, 8.0)
    together = after_selection(measured, leads, np.float64(8.0), 3.0, line)
    for row in range(0, 3_000, 300):
        alone = after_selection(measured[[row]], leads[[row]], np.float64(8.0), 3.0, line)
        assert np.abs(together.means[row] - alone.means[0]).max() < 1e-6
        assert np.abs(together.variances[row] - alone.variances[0]).max() < 1e-5


def test_shifting_everything_shifts_the_estimates() -> None:
    measured, leads = np.array([[40.0, 90.0, 20.0]]), np.array([[30.0, 70.0, 2.0]])
    here = after_selection(measured, leads, np.float64(10.0), 5.0, UnknownLine(5.0))
    there = after_selection(measured + 1e6, leads, np.float64(10.0), 5.0, UnknownLine(5.0))
    assert there.means - 1e6 == pytest.approx(here.means, abs=1e-6)


def test_winners_by_luck_keep_their_measurements_where_least_squares_goes_wrong() -> None:
    """Half of the winners are far below the line that their noise carried them over."""
    generator, runs, k, rate = np.random.default_rng(2), 3000, 10, 0.35
    truth = np.repeat([300.0, 0.0], k // 2)
    line, scale = 200.0, k / rate
    leads = np.maximum(truth - line, 0) + generator.exponential(scale, (runs, k))
    noise = generator.gamma(k + 1, 1 / rate, (runs, 1))
    coordinates = generator.random((runs, k + 1)) * noise
    coordinates[np.arange(runs), generator.integers(0, k + 1, runs)] = noise[:, 0]
    measured = truth + coordinates[:, 1:] - coordinates[:, :1]
    variance = (k + 2) * (k + 3) / 6 / rate**2
    own = np.sqrt(variance / 2)
    found = after_selection(measured, leads, np.float64(scale), own, UnknownLine(own))
    ignoring = np.array(
        [blue(m, _gaps(g), scale**2 / own**2) for m, g in zip(measured, leads, strict=True)]
    )
    alone = ((measured - truth) ** 2).mean()
    assert ((found.means - truth) ** 2).mean() < 0.97 * alone
    assert ((ignoring - truth) ** 2).mean() > 1.2 * alone
    assert found.variances.mean() == pytest.approx(((found.means - truth) ** 2).mean(), rel=0.05)


def _gaps(leads: Floats) -> Floats:
    return leads - np.append(leads[1:], 0.0)


def test_thousands_of_winners_take_one_pass() -> None:
    count = 3000
    measured = np.linspace(1e7, 2e7, count)[None]
    found = after_selection(measured, measured - 1e6, np.float64(3e5), 1e4, UnknownLine(1e4))
    assert np.isfinite(found.means).all()
    assert np.abs(found.means - measured).max() < 1e5


def test_extreme_values_stay_finite() -> None:
    for scale, own in ((1e-3, 1e-2), (1e9, 1e-2), (0.5, 1e9)):
        for leads in ([0.0, 0.0], [1e12, 3.0]):
            found = after_selection(
                np.array([[5.0, 1e12]]), np.array([leads]), np.float64(scale), own, UnknownLine(own)
            )
            assert np.isfinite(found.means).all()
            assert np.isfinite(found.variances).all()
