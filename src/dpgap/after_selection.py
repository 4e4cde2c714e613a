"""Estimates that know who was selected: measurements and gaps, given that these answers won.

A winner's gap overstates it: it won partly because its noise was large. With exponential noise
that can be said exactly. Noise that forgets how far it has come leaves, whatever the answers are,

    lead of a winner = (its true answer − the line)₊ + fresh exponential noise,

where the line is what it had to clear: the best loser's noisy answer after a Top-K, the noisy
threshold and the branch's margin after a Sparse Vector. So a lead tells of the answer where the
answer is above the line, and nothing at all where luck alone made it win.

The estimate is the mean of the true answer given all measurements and all leads, every answer
being as likely as any other beforehand. Answers far above the line gain from their leads; others
keep their measurement. Measurement noise enters as normal with its true variance. Its part that
all values share (half of the hull's variance) cannot be told from a shift of the line, so the line
is the only unknown that has to be integrated over, numerically; time is linear in the answers.

With I the likelihood of one measurement and its lead, given the line, the formulas are short:

    I = I₀ + I₁    (the answer is below the line, or between the line and the line plus the lead)
    I′ = I₁/b − B,    I″ = (I₁/b + A − B)/b − B·t/s    (derivatives by the measurement)

A and B are the densities at the two ends of that stretch, b the scale of the noise, s the
deviation of a measurement and t how many s the upper end is off. The mean is the measurement plus
s²·I′/I, its variance s² + s⁴·(I″/I − (I′/I)²), averaged over the line.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dpgap.exact import Floats
from dpgap.normal import log_ndtr

_POINTS = 49
_STAGES = 3
_NEGLIGIBLE = 25.0
_REACH = 8.0
_LARGEST_EXPONENT = 700.0
_CELLS_AT_ONCE = 1 << 17
_LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2


class Line(Protocol):
    """What is known beforehand of what winners had to clear."""

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        """Where to look for the line, given the ends of where measurements put it."""

    def log_density(self, line: Floats) -> Floats:
        """How likely a place of the line is, up to a constant."""

    def shared_error(self, line: Floats) -> tuple[Floats, Floats]:
        """The mean and variance of the error that all measurements share, given the line."""


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """Nothing is known: the best loser may be anywhere up to the largest winner."""

    shared_deviation: float

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        return least - _REACH * deviation, most + 4 * deviation

    def log_density(self, line: Floats) -> Floats:
        return np.zeros_like(line)

    def shared_error(self, line: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(line), np.full_like(line, self.shared_deviation**2)


@dataclass(frozen=True, slots=True)
class NoisyThreshold:
    """The threshold plus exponential noise, seen through the error that measurements share."""

    threshold: float
    scale: float
    shared_deviation: float

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        shared = _REACH * self.shared_deviation
        low = np.maximum(least - _REACH * deviation, self.threshold - shared)
        high = self.threshold + shared + 2 * _NEGLIGIBLE * self.scale
        return low, np.maximum(low + 2 * _REACH * deviation, high)

    def log_density(self, line: Floats) -> Floats:
        over = line - self.threshold
        logs: Floats = log_ndtr(self._place(over)) - over / self.scale
        return logs

    def shared_error(self, line: Floats) -> tuple[Floats, Floats]:
        """A normal error, given that it and exponential noise add up to the line's excess."""
        shared = self.shared_deviation
        place = self._place(line - self.threshold)
        hazard = _hazard(place)
        left = np.clip(1 - place * hazard - hazard**2, 0.0, 1.0)
        return shared**2 / self.scale - shared * hazard, shared**2 * left

    def _place(self, over: Floats) -> Floats:
        shared = self.shared_deviation
        return over / shared - shared / self.scale


def _hazard(place: Floats) -> Floats:
    """The normal density over its distribution, without underflow."""
    hazard: Floats = np.exp(-(place**2) / 2 - _LOG_ROOT_TWO_PI - log_ndtr(place))
    return hazard


class Estimates(NamedTuple):
    """Estimates and their variances, in the shape of the measurements."""

    means: Floats
    variances: Floats


@np.errstate(all="ignore")  # tails underflow, as they should, whatever the caller's settings
def after_selection(
    measurements: Floats, leads: Floats, scales: Floats, deviation: float, line: Line
) -> Estimates:
    """Estimate answers from measurements and leads over a line; one row for every run.

    `scales` are those of the leads' exponential noise, `deviation` that of what measurements do
    not share; `line` knows what they do.
    """
    runs, count = measurements.shape
    scales = np.broadcast_to(scales, measurements.shape)
    at_once = max(1, _CELLS_AT_ONCE // (count * _POINTS))
    parts = []
    for start in range(0, runs, at_once):
        some = slice(start, start + at_once)
        winners = _Winners(measurements[some], leads[some], scales[some], deviation)
        parts.append(_averaged(winners, line))
    return Estimates(*map(np.concatenate, zip(*parts, strict=True)))


class _Winners(NamedTuple):
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
        log_density = log_weight - place**2 / 2 - _LOG_ROOT_TWO_PI
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


def _averaged(winners: _Winners, line: Line) -> Estimates:
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
    shared, shared_variance = line.shared_error(places)
    shift = s**2 * slope - shared[:, None, :]
    means = (weights * shift).sum(axis=2)
    within = s**2 + (weights * (s**4 * (bend - slope**2) + shared_variance[:, None, :])).sum(axis=2)
    across = (weights * (shift - means[:, :, None]) ** 2).sum(axis=2)
    return Estimates(winners.measurements + means, np.maximum(within, 0.0) + across)


def _posterior(winners: _Winners, line: Line) -> tuple[Floats, Floats, _Likelihood]:
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
        counts = logs > -_NEGLIGIBLE
        first = np.maximum(counts.argmax(axis=1) - 1, 0)
        last = np.minimum(_POINTS - counts[:, ::-1].argmax(axis=1), _POINTS - 1)
        low, high = places[rows, first][:, None], places[rows, last][:, None]
        places = low + (high - low) * np.linspace(0, 1, _POINTS)
    weights = np.exp(logs)
    weights[:, [0, -1]] /= 2
    return places, weights / weights.sum(axis=1, keepdims=True), given
