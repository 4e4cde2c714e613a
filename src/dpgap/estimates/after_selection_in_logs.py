"""Estimates given selection where floats would underflow: everything in logarithms.

The same formulas as in `dpgap.estimates.after_selection`, for the few cases that are too extreme
for it: noise much finer than the measurements, or a line that may be almost anywhere.
"""

from typing import NamedTuple

import numpy as np

from dpgap.estimates.line import LOG_ROOT_TWO_PI, NEGLIGIBLE, Line
from dpgap.estimates.normal import log_ndtr
from dpgap.exact.reals import Floats

_POINTS = 49
_STAGES = 3
_LARGEST_EXPONENT = 700.0
_CELLS_AT_ONCE = 1 << 17


def estimates_in_logs(
    measurements: Floats, leads: Floats, scales: Floats, deviation: float, line: Line
) -> tuple[Floats, Floats]:
    """Means and variances; one row for every run."""
    runs, count = measurements.shape
    at_once = max(1, _CELLS_AT_ONCE // (count * _POINTS))
    parts = []
    for start in range(0, runs, at_once):
        some = slice(start, start + at_once)
        winners = _LogWinners(measurements[some], leads[some], scales[some], deviation)
        parts.append(_averaged(winners, line))
    means, variances = map(np.concatenate, zip(*parts, strict=True))
    return means, variances


class _LogWinners(NamedTuple):
    measurements: Floats
    leads: Floats
    scales: Floats
    deviation: float

    def likelihood(self, line: Floats) -> "_Likelihood":
        """Of each winner (second axis), at each place of the line (third)."""
        s = self.deviation
        alpha, lead, b = (each[:, :, None] for each in self[:3])
        lower = (line[:, None, :] - alpha) / s
        upper = lower + lead / s
        tilt = s / b
        log_below = log_ndtr(lower) - lead / b
        log_between = tilt * (tilt / 2 - upper) + _log_stretch(lower - tilt, upper - tilt)
        return _Likelihood(lower, upper, log_between, np.logaddexp(log_below, log_between))


class _Likelihood(NamedTuple):
    lower: Floats
    upper: Floats
    log_between: Floats
    log_total: Floats

    def density(self, place: Floats, log_weight: Floats | float) -> Floats:
        """A normal density, weighted, over the likelihood."""
        log_density = log_weight - place**2 / 2 - LOG_ROOT_TWO_PI
        density: Floats = np.exp(np.minimum(log_density - self.log_total, _LARGEST_EXPONENT))
        return density


def _log_stretch(low: Floats, high: Floats) -> Floats:
    """log(Φ(high) − Φ(low)) for low ≤ high, in the tails as well."""
    mirrored = low > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    most = log_ndtr(high)
    with np.errstate(divide="ignore"):
        logs: Floats = most + np.log(-np.expm1(np.minimum(log_ndtr(low) - most, 0.0)))
    return logs


def _averaged(winners: _LogWinners, line: Line) -> tuple[Floats, Floats]:
    places, weights, given = _posterior(winners, line)
    s, b = winners.deviation, winners.scales[:, :, None]
    between = np.exp(given.log_between - given.log_total) / b
    at_line = given.density(given.lower, -winners.leads[:, :, None] / b) / s
    at_lead = given.density(given.upper, 0.0) / s
    # Both have bounds, which matter only where floats have lost all precision.
    at_line = np.minimum(at_line, (1 + np.abs(given.lower)) / s)
    at_lead = np.minimum(at_lead, 2 / b + 2 * (1 + np.abs(given.upper)) / s)
    slope = between - at_lead
    bend = (slope + at_line) / b - at_lead * given.upper / s
    weights = weights[:, None, :]
    shared, shared_variance = (
        np.broadcast_to(each, places.shape)[:, None, :] for each in line.shared_error(places)
    )
    shift = s**2 * slope - shared
    means = (weights * shift).sum(axis=2)
    within = s**2 + (weights * (s**4 * (bend - slope**2) + shared_variance)).sum(axis=2)
    across = (weights * (shift - means[:, :, None]) ** 2).sum(axis=2)
    return winners.measurements + means, np.maximum(within, 0.0) + across


def _posterior(winners: _LogWinners, line: Line) -> tuple[Floats, Floats, _Likelihood]:
    """Places of the line, their weights, and the winners there: a grid refined to where it counts.

    The likelihood rises steeply up to one place and falls from there on, more and more slowly. So
    the first grid widens to the right, and each further one spans what was not negligible.
    """
    least = (winners.measurements - winners.leads).max(axis=1)
    low, high = line.range(least, winners.measurements.max(axis=1), winners.deviation)
    rows = np.arange(low.size)
    span = (high - low)[:, None] / winners.deviation
    places = low[:, None] + winners.deviation * np.expm1(
        np.log1p(span) * np.linspace(0, 1, _POINTS)
    )
    for stage in range(_STAGES):
        given = winners.likelihood(places)
        logs = given.log_total.sum(axis=1) + line.log_density(places)
        logs -= logs.max(axis=1, keepdims=True)
        if stage == _STAGES - 1:
            break
        counts = logs > -NEGLIGIBLE
        first = np.maximum(counts.argmax(axis=1) - 1, 0)
        last = np.minimum(_POINTS - counts[:, ::-1].argmax(axis=1), _POINTS - 1)
        low, high = places[rows, first][:, None], places[rows, last][:, None]
        places = low + (high - low) * np.linspace(0, 1, _POINTS)
    weights = np.exp(logs)
    weights[:, [0, -1]] /= 2
    return places, weights / weights.sum(axis=1, keepdims=True), given
