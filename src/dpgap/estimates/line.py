"""The line that winners had to clear: what is known of it before looking at them.

After a Top-K it is the best loser's noisy answer, of which nothing is known; after a Sparse Vector
the noisy threshold. Either is seen through the error that all measurements share, which cannot be
told from a shift of the line (`dpgap.estimates.after_selection`).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpgap.estimates.normal import tabled_log_ndtr
from dpgap.exact.reals import Floats

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
