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
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpgap.estimates.normal import log_ndtr, ndtr, rough_log_ndtr, tabled_log_ndtr
from dpgap.exact.reals import Floats, Integers

# --------------------------------------------------------------------------------------------------
# The line that winners had to clear: what is known of it before looking at them.
#
# After a Top-K it is the best loser's noisy answer, of which nothing is known; after a Sparse
# Vector the noisy threshold. Either is seen through the error that all measurements share, which
# cannot be told from a shift of the line.


NEGLIGIBLE = 25.0
"""What is this many e-folds less likely than the best is left out."""
REACH = 8.0
"""Normal errors are not looked for beyond this many deviations."""
LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2


class Line(Protocol):
    """What is known beforehand of what winners had to clear."""

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        """Where to look for the line, given the ends of where measurements put it."""

    def decay(self) -> tuple[float, float]:
        """From where on the line is ever less likely, and by how many e-folds a unit."""

    def log_density(self, line: Floats) -> Floats | float:
        """How likely a place of the line is, up to a constant."""

    def shared_error(self, line: Floats) -> tuple[Floats | float, Floats | float]:
        """The mean and variance of the error that all measurements share, given the line."""


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """Nothing is known: the best loser may be anywhere up to the largest winner."""

    shared_deviation: float

    def range(self, least: Floats, most: Floats, deviation: float) -> tuple[Floats, Floats]:
        return least - REACH * deviation, most + 4 * deviation

    def decay(self) -> tuple[float, float]:
        return -math.inf, 0.0

    def log_density(self, line: Floats) -> float:
        return 0.0

    def shared_error(self, line: Floats) -> tuple[float, float]:
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
        hazard = _hazard(place)
        left = np.clip(1 - place * hazard - hazard**2, 0.0, 1.0)
        return shared**2 / self.scale - shared * hazard, shared**2 * left

    def _place(self, over: Floats) -> Floats:
        shared = self.shared_deviation
        return over / shared - shared / self.scale


def _hazard(place: Floats) -> Floats:
    """The normal density over its distribution, without underflow."""
    hazard: Floats = np.exp(-(place**2) / 2 - LOG_ROOT_TWO_PI - tabled_log_ndtr(place))
    return hazard


# --------------------------------------------------------------------------------------------------
# Estimates given selection where floats would underflow: everything in logarithms.
#
# The same formulas as further down in floats, for the few cases that are too extreme for those:
# noise much finer than the measurements, or a line that may be almost anywhere.


_POINTS_IN_LOGS = 49
_STAGES = 3
_LARGEST_EXPONENT = 700.0
_CELLS_IN_LOGS = 1 << 17


def estimates_in_logs(
    measurements: Floats, leads: Floats, scales: Floats, deviation: float, line: Line
) -> tuple[Floats, Floats]:
    """Means and variances; one row for every run."""
    runs, count = measurements.shape
    at_once = max(1, _CELLS_IN_LOGS // (count * _POINTS_IN_LOGS))
    parts = []
    for start in range(0, runs, at_once):
        some = slice(start, start + at_once)
        winners = _LogWinners(measurements[some], leads[some], scales[some], deviation)
        parts.append(_averaged_in_logs(winners, line))
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


def _averaged_in_logs(winners: _LogWinners, line: Line) -> tuple[Floats, Floats]:
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
        np.log1p(span) * np.linspace(0, 1, _POINTS_IN_LOGS)
    )
    for stage in range(_STAGES):
        given = winners.likelihood(places)
        logs = given.log_total.sum(axis=1) + line.log_density(places)
        logs -= logs.max(axis=1, keepdims=True)
        if stage == _STAGES - 1:
            break
        counts = logs > -NEGLIGIBLE
        first = np.maximum(counts.argmax(axis=1) - 1, 0)
        last = np.minimum(_POINTS_IN_LOGS - counts[:, ::-1].argmax(axis=1), _POINTS_IN_LOGS - 1)
        low, high = places[rows, first][:, None], places[rows, last][:, None]
        places = low + (high - low) * np.linspace(0, 1, _POINTS_IN_LOGS)
    weights = np.exp(logs)
    weights[:, [0, -1]] /= 2
    return places, weights / weights.sum(axis=1, keepdims=True), given


# --------------------------------------------------------------------------------------------------


_ROUGH_POINTS = 12
_POINTS = ((6.5, 20), (10.0, 24), (15.0, 34), (28.0, 56), (80.0, 160))
"""How many places of the line are looked at, by how many s wide the range is.

More of them, or a wider range, would change no mean by 1e-5 s, and most by less than 1e-6 s.
"""
_WIDTHS = [width for width, _ in _POINTS]
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
_CELLS_AT_ONCE = 1 << 16
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


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
    tilts = np.divide(deviation, scales, out=np.empty_like(leads))
    winners = _Winners(measurements, measurements - leads, tilts, deviation)
    at_once = max(1, _CELLS_AT_ONCE // (measurements.shape[1] * _POINTS[0][1]))
    if len(measurements) <= at_once and tilts.max() < _LARGEST_TILT:
        means, variances = _averaged(winners, line, *_narrowed(winners, line))
    else:
        means, variances = np.full((2, *measurements.shape), np.nan)
        rows = np.flatnonzero(tilts.max(axis=1) < _LARGEST_TILT)
        for start in range(0, rows.size, at_once):
            some = rows[start : start + at_once]
            part = winners.of(some)
            means[some], variances[some] = _averaged(part, line, *_narrowed(part, line))
    known = np.isfinite(means + variances)
    if not known.all():
        rest = np.flatnonzero(~known.all(axis=1))
        given = measurements[rest], leads[rest], np.broadcast_to(scales, leads.shape)[rest]
        means[rest], variances[rest] = estimates_in_logs(*given, deviation, line)
    return Estimates(means, variances)


class _Winners(NamedTuple):
    measurements: Floats
    starts: Floats
    """Where leads start: the line, as measurements have it."""
    tilts: Floats
    deviation: float

    def of(self, rows: Integers) -> "_Winners":
        """Some rows, in order."""
        if rows.size == len(self.measurements):
            return self
        return _Winners(
            self.measurements[rows], self.starts[rows], self.tilts[rows], self.deviation
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
    if top.size > 1:  # whole arrays are indexed quickest as flat ones
        order += np.arange(top.size)[:, None] * tilts.shape[1]
    falls = tilts.take(order).cumsum(axis=1) + rate * s
    ends = begin[:, None] + NEGLIGIBLE * s / falls
    clear = winners.measurements.take(order) > ends + _CLEAR * s
    return low, np.minimum(np.where(clear, ends, np.inf).min(axis=1), most)


def _narrowed(winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """The part of the range that counts, found on a rough grid, and where need be on another.

    The likelihood has one peak. What is not negligible lies between the neighbours of the places
    where it is not.
    """
    low, high = _range(winners, line)
    is_narrow = low.size == 1 and high[0] - low[0] < _WIDE_FOR_ONE * winners.deviation
    if is_narrow and winners.tilts.sum() < _STEEP:
        return low, high
    low, high = _narrowed_once(winners, line, low, high)
    wide = np.flatnonzero(high - low > _WIDE * winners.deviation)
    if wide.size:
        low[wide], high[wide] = _narrowed_once(winners.of(wide), line, low[wide], high[wide])
    return low, high


def _narrowed_once(
    winners: _Winners, line: Line, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    rows = np.arange(low.size)
    places = _between(low, high, _ROUGH_POINTS)
    at = _Places(winners, places)
    chances = ndtr(at.over[at.close])
    chances += at.luck()[0]
    logs = np.log(np.maximum(chances, _LEAST, out=chances), out=chances)
    if not at.all_close:
        of_close, logs = logs, rough_log_ndtr(at.over)
        logs[at.close] = of_close
    total = logs.sum(axis=1) + at.slopes() + line.log_density(places)
    counts = total > total.max(axis=1, keepdims=True) - _NEGLIGIBLE
    first = np.maximum(counts.argmax(axis=1) - 1, 0)
    last = np.minimum(_ROUGH_POINTS - counts[:, ::-1].argmax(axis=1), _ROUGH_POINTS - 1)
    return places[rows, first], places[rows, last]


def _between(low: Floats, high: Floats, points: int) -> Floats:
    """So many places from low to high, one row for every run."""
    places: Floats = low[:, None] + (high - low)[:, None] * _shares(points)
    return places


@cache
def _shares(points: int) -> Floats:
    return np.linspace(0, 1, points)


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
        self.all_close = bool(is_close.all())
        self.close: Any = ... if self.all_close else np.nonzero(is_close)
        """What picks the close from an array of winners."""

    def slopes(self) -> Floats:
        """What all winners' factors e^(−t·x) come to, up to a constant."""
        fall = self.winners.tilts.sum(axis=1) / self.winners.deviation
        logs: Floats = (self.places[:, :1] - self.places) * fall[:, None]
        return logs

    def for_close(self, values: Floats) -> Floats:
        """What each run has at each place, for every one of its close winners."""
        return values[:, None, :] if self.all_close else values[self.close[0]]

    def mean_of_close(self, values: Floats, weights: Floats) -> Floats:
        """The mean over the line of what close winners have; 0 for the others."""
        if self.all_close:
            return _mean(values, weights)
        means = np.zeros(self.winners.tilts.shape)
        means[self.close] = (values * self.for_close(weights)).sum(axis=1)
        return means

    def luck(self) -> tuple[Floats, Floats, Floats]:
        """D, D + Φ(x − t) and φ(x − t) of the close winners."""
        measured = self.winners.measurements[self.close][..., None]
        tilt = self.winners.tilts[self.close][..., None]
        x = (self.for_close(self.places) - measured) / self.winners.deviation
        moved = x - tilt
        below = np.exp(tilt * (x - tilt / 2))
        chance, chance_moved = ndtr(np.array([x, moved]))
        below *= chance
        at_line = moved * moved
        at_line *= -0.5
        np.exp(at_line, out=at_line)
        at_line *= 1 / _ROOT_TWO_PI
        return below - chance_moved, below, at_line


def _averaged(winners: _Winners, line: Line, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Means and variances, averaged over lines from low to high; NaN where that is too far."""
    width = (high - low) / winners.deviation
    last = len(_POINTS)
    kinds = [bisect_left(_WIDTHS, each) if each > 0 else last for each in width.tolist()]
    found = set(kinds)
    if len(found) == 1 and last not in found:
        return _averaged_at(_between(low, high, _POINTS[kinds[0]][1]), winners, line)
    means, variances = np.full((2, *winners.measurements.shape), np.nan)
    for kind in found - {last}:
        rows = np.flatnonzero(np.array(kinds) == kind)
        places = _between(low[rows], high[rows], _POINTS[kind][1])
        means[rows], variances[rows] = _averaged_at(places, winners.of(rows), line)
    return means, variances


def _averaged_at(places: Floats, winners: _Winners, line: Line) -> tuple[Floats, Floats]:
    """Means and variances, averaged over these places of the line."""
    s, at, tilts = winners.deviation, _Places(winners, places), winners.tilts
    luck, below, at_line = at.luck()
    if at.all_close:
        total = np.maximum(ndtr(at.over) + luck, _LEAST)
        logs = np.log(total)  # of G
    else:
        logs = tabled_log_ndtr(at.over)
        total = np.maximum(np.exp(logs[at.close]) + luck, _LEAST)
        logs[at.close] = np.log(total)
    weights = _weights(logs.sum(axis=1) + at.slopes() + line.log_density(places))
    density = at.over * at.over  # φ(u − t)/G
    density *= -0.5
    density -= logs
    np.exp(density, out=density)
    density *= 1 / _ROOT_TWO_PI
    below /= total
    at_line /= total
    at_lead, chance = _mean(density, weights), at.mean_of_close(below, weights)  # the last is β
    slope = tilts * (1 - chance) - at_lead
    shared, shared_variance = line.shared_error(places)
    common: Floats | float = 0.0
    both: Floats | float = 0.0
    squares: Any = shared_variance
    if isinstance(shared, np.ndarray):
        with_shared = weights * shared
        common = with_shared.sum(axis=1)[:, None]
        both = tilts * (common - at.mean_of_close(below, with_shared)) - _mean(density, with_shared)
        squares = (weights * (shared**2 + shared_variance)).sum(axis=1)[:, None]
    density *= at.over
    at_line_too = at.mean_of_close(at_line, weights)  # φ(x − t)/G
    bend = tilts * (slope + at_line_too - at_lead) - _mean(density, weights)
    shift = s * slope - common
    variances = s**2 * (1 + bend) - 2 * s * both + squares - shift**2
    return winners.measurements + shift, np.maximum(variances, 0.0)


def _mean(values: Floats, weights: Floats) -> Floats:
    """Of each winner, over the line."""
    means: Floats = values @ weights[:, :, None]
    return means[:, :, 0]


def _weights(logs: Floats) -> Floats:
    """Trapezoid weights, which add up to one."""
    weights: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights[:, :1] /= 2
    weights[:, -1:] /= 2
    weights /= weights.sum(axis=1, keepdims=True)
    return weights
