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

With b the scale of the noise, s the deviation of a measurement and t = s/b, let x and u be how many
s the line, and the line plus the lead, are above the measurement. The likelihood of a measurement
and its lead, given the line, is then e^(−t·x) times

    G = Φ(u − t) + D,    D = Φ(x)·e^(t·x − t²/2) − Φ(x − t)

up to a constant. D is luck: it counts only where the line is close to the answer, or above it. So
it is worked out for those few answers alone. Derivatives by the measurement make the mean and the
variance of the answer; with β = (D + Φ(x − t))/G, the chance that it is below the line,

    s·I′/I = t·(1 − β) − φ(u − t)/G
    s²·I″/I = t·(s·I′/I + φ(x − t)/G) − u·φ(u − t)/G

The mean is the measurement plus s²·I′/I, its variance s² + s⁴·(I″/I − (I′/I)²), averaged over the
line.
"""

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dpgap.estimates.normal import is_tabled, log_ndtr, ndtr, rough_log_ndtr, tabled_log_ndtr
from dpgap.exact.reals import Floats, Integers, without_float_errors

# --------------------------------------------------------------------------------------------------
# The line that winners had to clear: what is known of it before looking at them.
#
# After a Top-K it is the best loser's noisy answer, of which nothing is known; after a Sparse
# Vector the noisy threshold. Either is seen through the error that all measurements share, which
# cannot be told from a shift of the line.


NEGLIGIBLE = 25.0
"""A place that is this many e-folds less likely than the best is left out."""
REACH = 8.0
"""Normal errors are not looked for beyond this many deviations."""


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """Nothing is known: the best loser may be anywhere up to the largest winner."""

    shared_deviation: float

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        """Where to look for the line, given the ends of where measurements put it."""
        return least - REACH * deviation, most + 4 * deviation

    def decay(self) -> tuple[float, float]:
        """The place from which the line gets less and less likely, and the e-folds per unit."""
        return -math.inf, 0.0

    def log_density(self, line: Floats) -> float:
        """How likely a place of the line is, up to a constant."""
        return 0.0

    def shared_error(self, line: Floats) -> tuple[float, float]:
        """The mean and variance of the error that all measurements share, given the line."""
        return 0.0, self.shared_deviation**2


@dataclass(frozen=True, slots=True)
class NoisyThreshold:
    """The threshold plus exponential noise, seen through the error that measurements share."""

    threshold: float
    scale: float
    shared_deviation: float

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        shared = REACH * self.shared_deviation
        low = np.maximum(least - REACH * deviation, self.threshold - shared)
        high = self.threshold + shared + 2 * NEGLIGIBLE * self.scale
        return low, np.maximum(low + 2 * REACH * deviation, high)

    def decay(self) -> tuple[float, float]:
        shared = self.shared_deviation
        return self.threshold + REACH * shared + shared**2 / self.scale, 1 / self.scale

    def log_density(self, line: Floats) -> Floats:
        over = line - self.threshold
        logs: Floats = tabled_log_ndtr(self._place(over)) - over / self.scale
        return logs

    def shared_error(self, line: Floats) -> tuple[Floats, Floats]:
        """A normal error, given that it and exponential noise add up to the line's excess."""
        shared = self.shared_deviation
        place = self._place(line - self.threshold)
        hazard = _density_over(place, tabled_log_ndtr(place))
        left = np.clip(1 - place * hazard - hazard**2, 0.0, 1.0)
        return shared**2 / self.scale - shared * hazard, shared**2 * left

    def _place(self, over: Floats) -> Floats:
        shared = self.shared_deviation
        return over / shared - shared / self.scale


Line = UnknownLine | NoisyThreshold
"""What is known of the line before the winners are looked at."""


# --------------------------------------------------------------------------------------------------
# Estimates that know who was selected: measurements and gaps, given that these answers won.


_ROUGH_POINTS = 12
_POINTS = ((6.5, 20), (10.0, 24), (15.0, 34), (28.0, 56), (80.0, 160))
"""How many places of the line are looked at, by how many s wide the range is.

More of them, or a wider range, would change no mean by 1e-5 s, and most by less than 1e-6 s.
"""
_WIDTHS = [width for width, _ in _POINTS[:-1]]
_NEGLIGIBLE = 14.0
_WIDE = 10.0
"""A range of fewer s is taken as it is: narrowing it again would cost more than it saves."""
_WIDE_FOR_ONE = 28.0
_STEEP = 8.0
"""The same for a run alone, where a call costs more than what it works out, if the likelihood falls
by fewer e-folds in an s: then as many places as so wide a range has are good to 1e-6 s."""
_LEAST = 1e-300
_CLEAR = 9.0
"""An answer so many s above the line did not win by luck: D is below 1e-17."""
_LARGEST_TILT = 6.0
_FARTHEST = 400.0
"""Floats underflow if noise is much finer than an s, or if the range is more s wide than this."""
_STEEPEST = 1_000.0
"""Noise finer than a thousandth of an s counts as that: floats could not tell the difference."""
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

    `scales` are those of the leads' exponential noise, `deviation` that of what measurements do
    not share; `line` knows what they do.
    """
    tilts = np.minimum(deviation / scales, _STEEPEST, out=np.empty_like(leads))
    winners = _Winners(measurements, measurements - leads, tilts, deviation, in_logs=False)
    at_once = max(1, _CELLS_AT_ONCE // (measurements.shape[1] * _POINTS[0][1]))
    low, high = _range(winners, line)
    is_plain = (tilts.max(axis=1) < _LARGEST_TILT) & (high - low < _FARTHEST * deviation)
    means, variances = np.full((2, *measurements.shape), np.nan)
    for in_logs in (False, True):
        rows = np.flatnonzero(np.isnan(means + variances).any(axis=1) if in_logs else is_plain)
        for start in range(0, rows.size, at_once):
            some = rows[start : start + at_once]
            part = winners.of(some)._replace(in_logs=in_logs)
            ends = _narrowed(part, line, low[some], high[some])
            means[some], variances[some] = _averaged(part, line, *ends)
    return Estimates(means, variances)


class _Winners(NamedTuple):
    measurements: Floats
    starts: Floats
    """Where leads start: the line, as measurements have it."""
    tilts: Floats
    deviation: float
    in_logs: bool
    """Whether likelihoods are worked out in logarithms: slowly, and without underflow."""

    @property
    def unit(self) -> float:
        """What ranges of the line are measured in: one s, and less where many winners narrow it."""
        return self.deviation * min(1.0, 5 / math.sqrt(self.tilts.shape[1]))

    def of(self, rows: Integers) -> "_Winners":
        """Some rows, in order."""
        if rows.size == len(self.measurements):
            return self
        return self._replace(
            measurements=self.measurements[rows], starts=self.starts[rows], tilts=self.tilts[rows]
        )


def _range(winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """Where the line may be: far more than it is going to need.

    Below, the winner that the line is closest under forbids it; above, it is less and less likely
    by the tilts of all winners that are clear. Which are clear depends on where the range ends, so
    the largest winner alone is taken as clear, or the largest two, …, whatever ends it first.
    """
    s, tilts = winners.deviation, winners.tilts
    top = winners.starts.max(axis=1)
    low, most = line.range(top - tilts.sum(axis=1) * s, winners.measurements.max(axis=1), s)
    starts, rate = line.decay()
    begin = np.maximum(top + (tilts.max(axis=1) + REACH) * s, starts)
    order = np.argsort(-winners.measurements, axis=1)
    order += np.arange(top.size)[:, None] * tilts.shape[1]  # flat arrays are indexed quickest
    falls = tilts.take(order).cumsum(axis=1) + rate * s
    ends = begin[:, None] + NEGLIGIBLE * s / falls
    clear = winners.measurements.take(order) > ends + _CLEAR * s
    return low, np.minimum(np.where(clear, ends, np.inf).min(axis=1), most)


def _narrowed(winners: _Winners, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The part of the range that counts, found on a rough grid, and where need be on others.

    The likelihood has one peak. What is not negligible lies between the neighbours of the places
    where it is not.
    """
    is_narrow = low.size == 1 and high[0] - low[0] < _WIDE_FOR_ONE * winners.deviation
    if is_narrow and winners.tilts.sum() < _STEEP:
        return low, high
    low, high = _narrowed_once(winners, line, low, high)
    for _ in range(_MOST_GRIDS if winners.in_logs else 1):
        wide = np.flatnonzero(high - low > _WIDE * winners.unit)
        if not wide.size:
            break
        low[wide], high[wide] = _narrowed_once(winners.of(wide), line, low[wide], high[wide])
    return low, high


def _narrowed_once(
    winners: _Winners, line: Line, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    rows = np.arange(low.size)
    places = _between(low, high, _ROUGH_POINTS)
    at = _Places(winners, places)
    logs, *_ = at.close_likelihoods()
    if not at.all_close:
        of_close, logs = logs, rough_log_ndtr(at.over)
        logs[at.close] = of_close
    total = logs.sum(axis=1) + at.slopes() + line.log_density(places)
    counts = total > total.max(axis=1, keepdims=True) - _NEGLIGIBLE
    first = np.maximum(counts.argmax(axis=1) - 1, 0)
    last = np.minimum(_ROUGH_POINTS - counts[:, ::-1].argmax(axis=1), _ROUGH_POINTS - 1)
    return places[rows, first], places[rows, last]


def _between(low: Floats, high: Floats, points: int) -> Floats:
    """Evenly spaced places from low to high, one row for every run."""
    places: Floats = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, points)
    return places


class _Places:
    """Winners (second axis) seen from places of the line (third).

    Those that are *close* are not clear, at least at the last place.
    """

    def __init__(self, winners: _Winners, places: Floats) -> None:
        s = winners.deviation
        self.winners, self.places = winners, places
        under = winners.starts / s + winners.tilts
        self.over = (places / s)[:, None, :] - under[:, :, None]
        """u − t"""
        is_close = winners.measurements < places[:, -1:] + _CLEAR * s
        self.all_close = winners.in_logs or bool(is_close.all())
        self.close: Any = ... if self.all_close else np.nonzero(is_close)
        """The index of the close ones in an array of all winners."""

    def slopes(self) -> Floats:
        """The logarithm of the product of all factors e^(−t·x), up to a constant."""
        fall = self.winners.tilts.sum(axis=1) / self.winners.deviation
        logs: Floats = (self.places[:, :1] - self.places) * fall[:, None]
        return logs

    def for_close(self, values: Floats) -> Floats:
        """The values of each run at each place, once for each of its close winners."""
        return values[:, None, :] if self.all_close else values[self.close[0]]

    def mean_of_close(self, values: Floats, weights: Floats) -> Floats:
        """The mean of close winners' values over the line; 0 for the others."""
        if self.all_close:
            return _mean(values, weights)
        means = np.zeros(self.winners.tilts.shape)
        means[self.close] = (values * self.for_close(weights)).sum(axis=1)
        return means

    def close_likelihoods(self) -> tuple[Floats, Floats, Floats]:
        """Of the close winners, at places of the line: log G, β and φ(x − t)/G."""
        measured = self.winners.measurements[self.close][..., None]
        tilt = self.winners.tilts[self.close][..., None]
        x = (self.for_close(self.places) - measured) / self.winners.deviation
        over, moved = self.over[self.close], x - tilt
        if self.winners.in_logs:
            log_below = log_ndtr(x) + tilt * (x - tilt / 2)
            logs = np.logaddexp(log_below, _log_stretch(moved, over))
            return logs, np.exp(log_below - logs), _density_over(moved, logs)
        every = np.array([x, moved, over])
        # All at once if nothing changes by that: a call takes longer than what it works out.
        parts = [every] if is_tabled(every) and is_tabled(over) else [every[:2], every[2:]]
        chance, chance_moved, chance_over = chain.from_iterable(map(ndtr, parts))
        below = np.exp(tilt * (x - tilt / 2)) * chance
        total = np.maximum(chance_over + below - chance_moved, _LEAST)
        logs = np.log(total)
        return logs, below / total, _density_over(moved, logs)


def _density_over(place: Floats, logs: Floats) -> Floats:
    """φ(place) divided by the numbers that have these logarithms."""
    density: Floats = np.exp(place * place * -0.5 - logs) * (1 / _ROOT_TWO_PI)
    return density


def _log_stretch(low: Floats, high: Floats) -> Floats:
    """log(Φ(high) − Φ(low)) for low ≤ high, in the tails as well."""
    mirrored = low > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    most = log_ndtr(high)
    logs: Floats = most + np.log(-np.expm1(np.minimum(log_ndtr(low) - most, 0.0)))
    return logs


def _averaged(winners: _Winners, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Means and variances, averaged over lines from low to high."""
    kinds = np.searchsorted(_WIDTHS, (high - low) / winners.unit)
    means, variances = np.empty((2, *winners.measurements.shape))
    for kind in set(kinds.tolist()):
        rows = np.flatnonzero(kinds == kind)
        places = _between(low[rows], high[rows], _POINTS[kind][1])
        means[rows], variances[rows] = _averaged_at(places, winners.of(rows), line)
    return means, variances


def _averaged_at(places: Floats, winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """Means and variances, averaged over these places of the line."""
    s, at, tilts = winners.deviation, _Places(winners, places), winners.tilts
    logs, below, at_line = at.close_likelihoods()
    if not at.all_close:
        of_close, logs = logs, tabled_log_ndtr(at.over)
        logs[at.close] = of_close
    logs_of_all = logs.sum(axis=1) + at.slopes() + line.log_density(places)
    weights = np.exp(logs_of_all - logs_of_all.max(axis=1, keepdims=True))
    weights[:, [0, -1]] /= 2  # trapezoids
    weights /= weights.sum(axis=1, keepdims=True)
    density = _density_over(at.over, logs)
    at_lead, chance = _mean(density, weights), at.mean_of_close(below, weights)
    slope = tilts * (1 - chance) - at_lead
    shared, shared_variance = line.shared_error(places)
    with_shared = weights * shared
    common = with_shared.sum(axis=1)[:, None]
    both = tilts * (common - at.mean_of_close(below, with_shared)) - _mean(density, with_shared)
    squares = (weights * (shared**2 + shared_variance)).sum(axis=1)[:, None]
    density *= at.over
    at_line_too = at.mean_of_close(at_line, weights)
    bend = tilts * (slope + at_line_too - at_lead) - _mean(density, weights)
    shift = s * slope - common
    variances = s**2 * (1 + bend) - 2 * s * both + squares - shift**2
    return winners.measurements + shift, np.maximum(variances, 0.0)


def _mean(values: Floats, weights: Floats) -> Floats:
    """The mean of each winner's values over the line."""
    means: Floats = values @ weights[:, :, None]
    return means[:, :, 0]
