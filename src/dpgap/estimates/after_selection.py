"""Estimates that know who was selected: measurements and gaps, given that these answers won.

A winner's gap overstates its answer: it won partly because its noise was large. Exponential noise
is memoryless. So its effect is known exactly, for any answers:

    lead of a winner = (its true answer − the line)₊ + fresh exponential noise.

The *line* is the value that a winner had to beat: the best loser's noisy answer after a Top-K, the
noisy threshold plus the branch's margin after a Sparse Vector. So a lead has information about an
answer above the line, and none about an answer that won only by its noise (by luck).

The estimate is the mean of the true answer, given all measurements and all leads, with a flat prior
(every answer is equally likely). Answers far above the line gain from their leads; others keep
their measurement. Measurement noise is taken as normal, with its true variance. All values share a
part of it (half of the hull's variance), which has the same effect as a shift of the line. So the
line is the only unknown to integrate over, numerically. The time is linear in the answers.

Let b be the scale of the noise, s the deviation of a measurement and t = s/b. Let x be the line
minus the measurement, and u the line plus the lead minus the measurement, both in units of s. Then
the likelihood of a measurement and its lead, given the line, is e^(−t·x) times

    G = Φ(u − t) + D,    D = Φ(x)·e^(t·x − t²/2) − Φ(x − t)

up to a constant. D comes from luck: it matters only if the line is close to the answer, or above
it. So D is computed for those few answers only. Derivatives by the measurement give the mean and
the variance of the answer. With β = (D + Φ(x − t))/G, the chance that the answer is below the line,

    s·I′/I = t·(1 − β) − φ(u − t)/G
    s²·I″/I = t·(s·I′/I + φ(x − t)/G) − u·φ(u − t)/G

The mean is the measurement plus s²·I′/I, and the variance is s² + s⁴·(I″/I − (I′/I)²). Both are
averaged over the line.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpgap.estimates.normal import is_tabled, log_ndtr, ndtr, rough_log_ndtr, tabled_log_ndtr
from dpgap.exact.reals import Floats, Integers, without_float_errors

NEGLIGIBLE = 25.0
"""A value of the line that is e^this times less likely than the likeliest is left out."""
REACH = 8.0
"""The most deviations by which normal errors are assumed to be off."""


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """Nothing is known: the best loser may be anywhere up to the largest winner."""

    shared_deviation: float

    def range(self, lowest: Floats, highest: Floats, deviation: float) -> tuple[Floats, Floats]:
        """The range to search for the line, given the lowest and highest by measurements."""
        return lowest - REACH * deviation, highest + 4 * deviation

    def decay(self) -> tuple[float, float]:
        """A value from which the line gets less and less likely, and the e-folds per unit."""
        return -math.inf, 0.0

    def log_density(self, line: Floats) -> float:
        """The logarithm of the line's density, up to a constant."""
        return 0.0

    def shared_error(self, line: Floats) -> tuple[float, float]:
        """The mean and variance of the error that all measurements share, given the line."""
        return 0.0, self.shared_deviation**2


@dataclass(frozen=True, slots=True)
class NoisyThreshold:
    """The threshold plus exponential noise, plus the error that measurements share."""

    threshold: float
    scale: float
    shared_deviation: float

    def range(self, lowest: Floats, highest: Floats, deviation: float) -> tuple[Floats, Floats]:
        shared = REACH * self.shared_deviation
        low = np.maximum(lowest - REACH * deviation, self.threshold - shared)
        high = self.threshold + shared + 2 * NEGLIGIBLE * self.scale
        return low, np.maximum(low + 2 * REACH * deviation, high)

    def decay(self) -> tuple[float, float]:
        shared = self.shared_deviation
        return self.threshold + REACH * shared + shared**2 / self.scale, 1 / self.scale

    def log_density(self, line: Floats) -> Floats:
        over = line - self.threshold
        logs: Floats = tabled_log_ndtr(self._in_deviations(over)) - over / self.scale
        return logs

    def shared_error(self, line: Floats) -> tuple[Floats, Floats]:
        """A normal error, given its sum with exponential noise: the line above the threshold."""
        shared = self.shared_deviation
        x = self._in_deviations(line - self.threshold)
        hazard = _density_over(x, tabled_log_ndtr(x))
        remaining_share = np.clip(1 - x * hazard - hazard**2, 0.0, 1.0)
        return shared**2 / self.scale - shared * hazard, shared**2 * remaining_share

    def _in_deviations(self, over: Floats) -> Floats:
        shared = self.shared_deviation
        return over / shared - shared / self.scale


Line = UnknownLine | NoisyThreshold
"""What is known of the line before the winners are looked at.

The error that all measurements share has the same effect as a shift of the line, so here the line
includes this error.
"""

_ROUGH_POINTS = 12
_POINTS = ((6.5, 20), (10.0, 24), (15.0, 34), (28.0, 56), (80.0, 160))
"""Pairs: a width of the range in s, and how many points of the line are used up to this width.

More points, or a wider range, would change no mean by 1e-5 s, and most means by less than 1e-6 s.
"""
_WIDTHS = [width for width, _ in _POINTS[:-1]]
_NEGLIGIBLE = 14.0
_WIDE = 10.0
"""A range of fewer s is not narrowed again: this would cost more than it saves."""
_WIDE_FOR_ONE = 28.0
_STEEP = 8.0
"""A range of fewer s (`_WIDE_FOR_ONE`) is not narrowed for a single run, if the likelihood falls by
fewer e-folds in an s (`_STEEP`): its points are good to 1e-6 s, and a call costs more than it."""
_SMALLEST_LIKELIHOOD = 1e-300
_CLEAR = 9.0
"""An answer this many s above the line did not win by luck: D is below 1e-17."""
_LARGEST_TILT = 6.0
_FARTHEST = 400.0
"""Floats underflow if noise is much finer than an s, or if the range is more s wide than this."""
_STEEPEST = 1_000.0
"""Noise finer than a thousandth of an s counts as a thousandth: floats show no difference."""
_MOST_GRIDS = 8
_CELLS_AT_ONCE = 1 << 16
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


class Estimates(NamedTuple):
    """Estimates and their variances, in the shape of the measurements."""

    means: Floats
    variances: Floats


@without_float_errors
def after_selection(
    measurements: Floats, leads: Floats, scales: Floats, deviation: float, line: Line
) -> Estimates:
    """Estimate answers from measurements and leads over a line; one row for every run.

    `scales` are those of the leads' exponential noise. `deviation` is that of the error which
    measurements do not share; `line` has the error that they share.
    """
    tilts = np.minimum(deviation / scales, _STEEPEST, out=np.empty_like(leads))
    winners = _Winners(measurements, measurements - leads, tilts, deviation, in_logs=False)
    at_once = max(1, _CELLS_AT_ONCE // (measurements.shape[1] * _POINTS[0][1]))
    low, high = _range(winners, line)
    is_plain = (tilts.max(axis=1) < _LARGEST_TILT) & (high - low < _FARTHEST * deviation)
    means, variances = np.full((2, *measurements.shape), np.nan)
    for in_logs in (False, True):
        if in_logs:
            needs_estimates = np.isnan(means + variances).any(axis=1)
        else:
            needs_estimates = is_plain
        rows = np.flatnonzero(needs_estimates)
        for start in range(0, rows.size, at_once):
            batch = rows[start : start + at_once]
            part = winners.of(batch)._replace(in_logs=in_logs)
            low_ends, high_ends = _narrowed(part, line, low[batch], high[batch])
            means[batch], variances[batch] = _averaged(part, line, low_ends, high_ends)
    return Estimates(means, variances)


class _Winners(NamedTuple):
    measurements: Floats
    starts: Floats
    """Measurement minus lead: an estimate of the line from each winner."""
    tilts: Floats
    deviation: float
    in_logs: bool
    """Whether likelihoods are computed in logarithms: slower, but without underflow."""

    @property
    def unit(self) -> float:
        """The unit for widths of ranges of the line: one s, or less if there are many winners."""
        return self.deviation * min(1.0, 5 / math.sqrt(self.tilts.shape[1]))

    def of(self, rows: Integers) -> "_Winners":
        """Some rows, in order."""
        if rows.size == len(self.measurements):
            return self
        return self._replace(
            measurements=self.measurements[rows],
            starts=self.starts[rows],
            tilts=self.tilts[rows],
        )


def _range(winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """A range that surely holds the line; far wider than needed.

    Downwards, it ends where the winner closest above the line makes the line too unlikely. Upwards,
    the line gets less likely by the tilts of all winners that are clear of it. Which winners are
    clear depends on where the range ends. So the largest one, two, … winners are taken as clear in
    turn, and the smallest end counts.
    """
    s = winners.deviation
    tilts = winners.tilts
    top = winners.starts.max(axis=1)
    lowest = top - tilts.sum(axis=1) * s
    low, high = line.range(lowest, winners.measurements.max(axis=1), s)
    decay_start, rate = line.decay()
    begin = np.maximum(top + (tilts.max(axis=1) + REACH) * s, decay_start)
    order = np.argsort(-winners.measurements, axis=1)
    order += np.arange(top.size)[:, None] * tilts.shape[1]  # flat arrays are indexed quickest
    falls = tilts.take(order).cumsum(axis=1) + rate * s
    ends = begin[:, None] + NEGLIGIBLE * s / falls
    is_clear = winners.measurements.take(order) > ends + _CLEAR * s
    smallest_end = np.where(is_clear, ends, np.inf).min(axis=1)
    return low, np.minimum(smallest_end, high)


def _narrowed(winners: _Winners, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The part of the range that matters, found on a rough grid, and on finer ones if needed.

    The likelihood has one peak. So it is negligible outside the neighbours of the grid points where
    it is not negligible.
    """
    is_narrow = low.size == 1 and high[0] - low[0] < _WIDE_FOR_ONE * winners.deviation
    if is_narrow and winners.tilts.sum() < _STEEP:
        return low, high
    low, high = _narrowed_once(winners, line, low, high)
    grids = _MOST_GRIDS if winners.in_logs else 1
    for _ in range(grids):
        wide = np.flatnonzero(high - low > _WIDE * winners.unit)
        if not wide.size:
            break
        low[wide], high[wide] = _narrowed_once(winners.of(wide), line, low[wide], high[wide])
    return low, high


def _narrowed_once(
    winners: _Winners, line: Line, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    rows = np.arange(low.size)
    points = _between(low, high, _ROUGH_POINTS)
    on_grid = _WinnersOnGrid(winners, points)
    logs, _, _ = on_grid.close_likelihoods()
    if not on_grid.all_close:
        logs = on_grid.with_close(rough_log_ndtr(on_grid.over), logs)
    total = logs.sum(axis=1) + on_grid.slopes() + line.log_density(points)
    matters = total > total.max(axis=1, keepdims=True) - _NEGLIGIBLE
    first = np.maximum(matters.argmax(axis=1) - 1, 0)
    last = np.minimum(_ROUGH_POINTS - matters[:, ::-1].argmax(axis=1), _ROUGH_POINTS - 1)
    return points[rows, first], points[rows, last]


def _between(low: Floats, high: Floats, count: int) -> Floats:
    """Evenly spaced points from low to high, one row for every run."""
    points: Floats = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, count)
    return points


class _WinnersOnGrid:
    """Winners (second axis) at several points of the line (third axis).

    A winner is *close* if it is not clear of the line at the last point.
    """

    def __init__(self, winners: _Winners, points: Floats) -> None:
        s = winners.deviation
        self.winners = winners
        self.points = points
        under = winners.starts / s + winners.tilts
        self.over = (points / s)[:, None, :] - under[:, :, None]
        """u − t"""
        is_close = winners.measurements < points[:, -1:] + _CLEAR * s
        self.all_close = winners.in_logs or bool(is_close.all())
        self.close: Any = ... if self.all_close else np.nonzero(is_close)
        """The index of the close ones in an array of all winners."""

    def slopes(self) -> Floats:
        """The logarithm of the product of all factors e^(−t·x), up to a constant."""
        fall = self.winners.tilts.sum(axis=1) / self.winners.deviation
        logs: Floats = (self.points[:, :1] - self.points) * fall[:, None]
        return logs

    def for_close(self, values: Floats) -> Floats:
        """The values of each run at each point, once for each of its close winners."""
        if self.all_close:
            return values[:, None, :]
        repeated: Floats = values[self.close[0]]
        return repeated

    def with_close(self, logs: Floats, logs_of_close: Floats) -> Floats:
        """The logarithms of all winners, with those of the close ones in their places."""
        logs[self.close] = logs_of_close
        return logs

    def mean_of_close(self, values: Floats, weights: Floats) -> Floats:
        """The mean of close winners' values over the line; 0 for the others."""
        if self.all_close:
            return _mean(values, weights)
        means = np.zeros(self.winners.tilts.shape)
        means[self.close] = (values * self.for_close(weights)).sum(axis=1)
        return means

    def close_likelihoods(self) -> tuple[Floats, Floats, Floats]:
        """For the close winners, at points of the line: log G, β and φ(x − t)/G."""
        measurements = self.winners.measurements[self.close][..., None]
        tilt = self.winners.tilts[self.close][..., None]
        x = (self.for_close(self.points) - measurements) / self.winners.deviation
        over = self.over[self.close]
        moved = x - tilt
        if self.winners.in_logs:
            log_below = log_ndtr(x) + tilt * (x - tilt / 2)
            logs = np.logaddexp(log_below, _log_stretch(moved, over))
            return logs, np.exp(log_below - logs), _density_over(moved, logs)
        arguments = np.array([x, moved, over])
        if is_tabled(arguments) and is_tabled(over):  # one call takes less time than two
            chance, chance_moved, chance_over = ndtr(arguments)
        else:
            chance, chance_moved = ndtr(arguments[:2])
            chance_over = ndtr(over)
        below = np.exp(tilt * (x - tilt / 2)) * chance
        total = np.maximum(chance_over + below - chance_moved, _SMALLEST_LIKELIHOOD)
        logs = np.log(total)
        return logs, below / total, _density_over(moved, logs)


def _density_over(x: Floats, logs: Floats) -> Floats:
    """φ(x) divided by the numbers that have these logarithms."""
    density: Floats = np.exp(x * x * -0.5 - logs) * (1 / _ROOT_TWO_PI)
    return density


def _log_stretch(low: Floats, high: Floats) -> Floats:
    """log(Φ(high) − Φ(low)) for low ≤ high, in the tails as well."""
    is_right_tail = low > 0
    lower = np.where(is_right_tail, -high, low)
    upper = np.where(is_right_tail, -low, high)
    log_upper = log_ndtr(upper)
    log_ratio = np.minimum(log_ndtr(lower) - log_upper, 0.0)
    logs: Floats = log_upper + np.log(-np.expm1(log_ratio))
    return logs


def _averaged(winners: _Winners, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Means and variances, averaged over lines from low to high."""
    classes = np.searchsorted(_WIDTHS, (high - low) / winners.unit)
    means, variances = np.empty((2, *winners.measurements.shape))
    for width_class in set(classes.tolist()):
        rows = np.flatnonzero(classes == width_class)
        points = _between(low[rows], high[rows], _POINTS[width_class][1])
        means[rows], variances[rows] = _averaged_at(points, winners.of(rows), line)
    return means, variances


def _averaged_at(points: Floats, winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """Means and variances, averaged over these points of the line."""
    s = winners.deviation
    tilts = winners.tilts
    on_grid = _WinnersOnGrid(winners, points)
    logs, below, density_at_line = on_grid.close_likelihoods()
    if not on_grid.all_close:
        logs = on_grid.with_close(tabled_log_ndtr(on_grid.over), logs)
    log_weights = logs.sum(axis=1) + on_grid.slopes() + line.log_density(points)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights[:, [0, -1]] /= 2  # trapezoids
    weights /= weights.sum(axis=1, keepdims=True)
    density = _density_over(on_grid.over, logs)
    mean_at_lead = _mean(density, weights)
    mean_at_line = on_grid.mean_of_close(density_at_line, weights)
    slope = tilts * (1 - on_grid.mean_of_close(below, weights)) - mean_at_lead
    shared, shared_variance = line.shared_error(points)
    weighted_error = weights * shared
    mean_error = weighted_error.sum(axis=1)[:, None]
    error_below = on_grid.mean_of_close(below, weighted_error)
    slope_by_error = tilts * (mean_error - error_below) - _mean(density, weighted_error)
    squares = (weights * (shared**2 + shared_variance)).sum(axis=1)[:, None]
    density *= on_grid.over
    bend = tilts * (slope + mean_at_line - mean_at_lead) - _mean(density, weights)
    shift = s * slope - mean_error
    variances = s**2 * (1 + bend) - 2 * s * slope_by_error + squares - shift**2
    return winners.measurements + shift, np.maximum(variances, 0.0)


def _mean(values: Floats, weights: Floats) -> Floats:
    """The mean of each winner's values over the line."""
    means: Floats = values @ weights[:, :, None]
    return means[:, :, 0]
