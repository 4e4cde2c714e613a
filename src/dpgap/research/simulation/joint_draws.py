"""Float draws of shell noise: first how large the largest coordinate is, then the others.

A *shell* is all points with the same largest coordinate. Points of one shell are equally likely.
The largest coordinate of real points has a gamma distribution. Points on whole steps are floors of
real ones (roundings, where coordinates have either sign), once each shell has its own weight.
"""

import numpy as np

from dpgap.exact.reals import Floats
from dpgap.exact.shells import ShellNoise
from dpgap.research.simulation.floats import Rng

_INSIDE = 1 - 2.0**-50
"""Keeps a rounded number below the end of its shell."""


def real_shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Real coordinates whose density falls with the largest alone; one row for every run."""
    return _points(law, rng.gamma(law.dimension, float(law.scale), runs), rng)


def shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Whole-step coordinates whose law depends on the largest alone; one row for every run.

    A point is uniform among those of its shell, and so is the floor of a real point whose largest
    coordinate falls within the shell.
    """
    few = law.scale < 1
    largest = _from_few_shells(law, rng, runs) if few else _from_many_shells(law, rng, runs)
    coordinates: Floats = np.floor(_points(law, largest, rng) + (1 - law.first))
    return coordinates


def _from_many_shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Gamma distributed up to a factor that hardly varies within a shell: a few are redrawn."""
    scale, start = float(law.scale), 1 - law.first
    largest = np.empty(runs)
    open_runs = np.arange(runs)
    while open_runs.size:
        tried = rng.gamma(law.dimension, scale, open_runs.size)
        above = tried + start - np.floor(tried + start)  # how far into its shell
        kept = rng.random(open_runs.size) < np.exp((above - 1) / scale)
        largest[open_runs[kept]] = tried[kept]
        open_runs = open_runs[~kept]
    return largest


def _from_few_shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Shells by their weights; within one the density is that of its volume."""
    scale, dimension = float(law.scale), law.dimension
    count = int(scale * (dimension + 12 * dimension**0.5 + 60)) + 2
    end = law.first + np.arange(count)
    inner = (np.maximum(end - 1, 0) / end) ** dimension  # the part of the volume that is inside
    logs = dimension * np.log(end) + np.log1p(-inner) - end / scale
    weights = np.exp(logs - logs.max())
    upto = weights.cumsum()
    shell = np.searchsorted(upto, rng.random(runs) * upto[-1], side="right")
    inside = inner[shell]
    part = inside + rng.random(runs) * (1 - inside)
    largest: Floats = end[shell] * np.minimum(part ** (1 / dimension), _INSIDE)
    return largest


def _points(law: ShellNoise, largest: Floats, rng: Rng) -> Floats:
    """One coordinate is the largest, the others anywhere up to it."""
    runs, dimension = largest.size, law.dimension
    points: Floats = rng.random((runs, dimension))
    points[np.arange(runs), rng.integers(0, dimension, runs)] = 1
    if law.signed:
        points *= np.where(rng.random((runs, dimension)) < 0.5, -1.0, 1.0)
    points *= largest[:, None]
    return points
