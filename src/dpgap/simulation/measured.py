"""Many runs of a pipeline at once: select, measure, estimate, as `dpgap.pipelines` does.

The paper's estimates are its formulas for all runs side by side; tests hold them to the ones that
releases use. The best method's estimates are computed by the very code of releases, and integrate
numerically for every run: that takes most of the time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.best_method import FINER, Joint, estimates_after_above, estimates_after_top_k
from dpgap.exact import Floats, Integers
from dpgap.mechanisms.measurement import Laplace
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.paper_method import gap_variances, variance_ratio
from dpgap.pipelines import MeasuredAbove, MeasuredTopK
from dpgap.shell_noise import ShellNoise
from dpgap.simulation.floats import Rng, draw
from dpgap.simulation.runs import AboveRuns, MeasuredRuns, TopKRuns


def measure_top_k(
    pipeline: MeasuredTopK, answers: Integers, selected: TopKRuns, rng: Rng
) -> MeasuredRuns:
    """Measure and estimate the winners of every run."""
    grid = float(pipeline.selection.grid or 1)
    truth = answers[selected.indices]
    measurements = _measured(pipeline.measurement, truth, rng)
    if isinstance(pipeline.measurement, Laplace):
        ratio = variance_ratio(pipeline.selection, pipeline.measurement)
        estimates = _blue(measurements, selected.gaps, ratio, grid)
    else:
        _load_scipy()
        leads = np.cumsum(selected.gaps[:, ::-1], axis=1)[:, ::-1]
        estimates = estimates_after_top_k(
            pipeline.selection, pipeline.measurement, measurements, leads
        ).means
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid))


def measure_above(
    pipeline: MeasuredAbove,
    answers: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> MeasuredRuns:
    """Measure and estimate the answers found in every run; `thresholds` has one for each run."""
    truth = answers[selected.indices]
    selection, measurement = pipeline.selection, pipeline.measurement
    if isinstance(measurement, Laplace):
        values = _paper_above(selection, measurement, truth, selected, thresholds, rng)
    else:
        values = _best_above(selection, measurement, truth, selected, thresholds, rng)
    return MeasuredRuns(selected, *values, _floats(truth, float(pipeline.selection.grid or 1)))


def _paper_above(
    selection: SparseVector,
    measurement: Laplace,
    truth: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> tuple[Floats, Floats]:
    """Measurements whose noise grows with how many there are, weighted with gaps by variance."""
    grid = float(measurement.grid or 1)
    unit = measurement.law_in_steps(1)  # of all laws the smallest; they differ by scale alone
    most = int(selected.found.max(initial=0))
    of_count = np.array([0.0, *(measurement.variance(count) for count in range(1, most + 1))])
    measurements = draw(unit, rng, truth.size)
    measurements *= np.repeat(selected.found.astype(np.float64), selected.found)
    np.floor(measurements, out=measurements)
    measurements += truth
    measurements -= unit.floor_mean
    measurements *= grid
    own = np.repeat(of_count[selected.found], selected.found)
    of_gap = np.append(0.0, gap_variances(selection))[selected.branch_of]
    weight = own / (own + of_gap)  # of the gap
    estimates = selected.gaps - measurements
    estimates += np.repeat(thresholds, selected.found)
    estimates *= weight
    estimates += measurements
    return measurements, estimates


def _best_above(
    selection: SparseVector,
    measurement: Joint,
    truth: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> tuple[Floats, Floats]:
    """Joint measurements; runs that found equally many are taken together."""
    _load_scipy()
    starts = selected.found.cumsum() - selected.found
    measurements, estimates = np.empty(truth.size), np.empty(truth.size)
    for count in np.unique(selected.found[selected.found > 0]).tolist():
        runs = np.flatnonzero(selected.found == count)
        places = starts[runs][:, None] + np.arange(count)
        measurements[places] = measured = _measured(measurement, truth[places], rng)
        estimates[places] = _moved(
            selection,
            measurement,
            measured,
            selected.gaps[places],
            selected.branch_of[places],
            thresholds[runs][:, None],
        )
    return measurements, estimates


def _moved(
    selection: SparseVector,
    measurement: Joint,
    measurements: Floats,
    gaps: Floats,
    branches: Integers,
    thresholds: Floats,
) -> Floats:
    """Estimates that know one threshold, the selection's; each run's is moved there."""
    grid = float(selection.grid or 1)
    own = float(selection.threshold)
    moved = np.ceil(thresholds / grid) * grid - np.ceil(own / grid) * grid
    rounded_up = (np.ceil(thresholds / grid) * grid - thresholds) - (
        np.ceil(own / grid) * grid - own
    )
    found = estimates_after_above(
        selection, measurement, measurements - moved, gaps - rounded_up, branches
    )
    means: Floats = found.means + moved
    return means


def _load_scipy() -> None:
    """Have `dpgap.normal` use its loops: a release does without them, many runs should not."""
    import scipy.special  # noqa: F401


def _measured(measurement: Laplace | Joint, truth: Integers, rng: Rng) -> Floats:
    """Released values of answers in the selection's steps; one row for every run."""
    count, grid = truth.shape[1], float(measurement.grid or 1)
    if isinstance(measurement, Laplace):
        law = measurement.law_in_steps(count)
        return _floats(truth + np.floor(draw(law, rng, *truth.shape)) - law.floor_mean, grid)
    noise = shells(measurement.law_in_steps(count), rng, truth.shape[0])
    if noise.shape[1] > count:  # the hull: what all share comes off
        noise = noise[:, 1:] - noise[:, :1]
    return _floats(truth * FINER + noise, grid)


def shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Whole-step coordinates whose law depends on the largest alone; one row for every run.

    A point is uniform among those of its shell. So is the floor (for either sign: the rounding)
    of a real point whose largest coordinate falls within the shell, and that coordinate is gamma
    distributed up to a factor that hardly varies within a shell: those few are drawn again.
    """
    scale, dimension = float(law.scale), law.dimension
    half = 0.5 if law.symmetric else 0.0
    largest = np.empty(runs)
    open_runs = np.arange(runs)
    while open_runs.size:
        tried = rng.gamma(dimension, scale, open_runs.size)
        above = tried + half - np.floor(tried + half)  # how far into its shell
        kept = rng.random(open_runs.size) < np.exp((above - 1) / scale)
        largest[open_runs[kept]] = tried[kept]
        open_runs = open_runs[~kept]
    points = rng.random((runs, dimension))
    points[np.arange(runs), rng.integers(0, dimension, runs)] = 1
    if law.symmetric:
        points *= np.where(rng.random((runs, dimension)) < 0.5, -1.0, 1.0)
    points *= largest[:, None]
    coordinates: Floats = np.floor(points + half)
    return coordinates


def _blue(measurements: Floats, gaps: Floats, ratio: float, grid: float) -> Floats:
    """`estimates.blue`, row by row."""
    k = measurements.shape[1]
    leads = np.zeros_like(measurements)
    if k > 1:
        leads[:, : k - 1] = np.cumsum(gaps[:, : k - 1][:, ::-1], axis=1)[:, ::-1]
    if gaps.shape[1] == k - 1:
        leads[:, :-1] += grid / 2  # with no loser, the floored leads meet one that is exact
    mean = measurements.mean(axis=1, keepdims=True)
    around = leads - leads.mean(axis=1, keepdims=True)
    estimates: Floats = mean + (ratio * (measurements - mean) + around) / (1 + ratio)
    return estimates


def _floats(steps: NDArray[Any], grid: float) -> Floats:
    values: Floats = np.multiply(steps, grid, dtype=np.float64)
    return values
