"""Many runs of a pipeline at once: select, measure, estimate, as `dpgap.pipelines.measured` does.

The paper's estimates are its formulas for all runs side by side; tests hold them to the ones that
releases use. The best method's estimates are computed by the very code of releases, and integrate
numerically for every run: that takes most of the time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.after_selection import Estimates
from dpgap.estimates.linear import blue_variance
from dpgap.exact.draws import Floats, Integers
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.measuring.measurement import Joint
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.pipelines.best import estimates_after_above, estimates_after_top_k
from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.paper import gap_variances, variance_ratio
from dpgap.research.simulation.floats import Rng, draw
from dpgap.research.simulation.runs import AboveRuns, MeasuredRuns, TopKRuns
from dpgap.research.simulation.shells import shells


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
        k = pipeline.selection.k
        variance = blue_variance(k, pipeline.measurement.variance(k), ratio)
        variances = np.full_like(estimates, variance)
    else:
        _load_scipy()
        leads = np.cumsum(selected.gaps[:, ::-1], axis=1)[:, ::-1]
        estimates, variances = estimates_after_top_k(
            pipeline.selection, pipeline.measurement, measurements, leads
        )
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid), variances)


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
        measurements, *found = _paper_above(
            selection, measurement, truth, selected, thresholds, rng
        )
    else:
        measurements, *found = _best_above(selection, measurement, truth, selected, thresholds, rng)
    estimates, variances = found
    grid = float(pipeline.selection.grid or 1)
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid), variances)


def _paper_above(
    selection: SparseVector,
    measurement: Laplace,
    truth: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> tuple[Floats, Floats, Floats]:
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
    weight *= of_gap  # now the variance: one over the sum of both precisions
    return measurements, estimates, weight


def _best_above(
    selection: SparseVector,
    measurement: Joint,
    truth: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> tuple[Floats, Floats, Floats]:
    """Joint measurements; runs that found equally many are taken together."""
    _load_scipy()
    starts = selected.found.cumsum() - selected.found
    measurements, estimates, variances = (np.empty(truth.size) for _ in range(3))
    for count in np.unique(selected.found[selected.found > 0]).tolist():
        runs = np.flatnonzero(selected.found == count)
        places = starts[runs][:, None] + np.arange(count)
        measurements[places] = measured = _measured(measurement, truth[places], rng)
        estimates[places], variances[places] = _moved(
            selection,
            measurement,
            measured,
            selected.gaps[places],
            selected.branch_of[places],
            thresholds[runs][:, None],
        )
    return measurements, estimates, variances


def _moved(
    selection: SparseVector,
    measurement: Joint,
    measurements: Floats,
    gaps: Floats,
    branches: Integers,
    thresholds: Floats,
) -> Estimates:
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
    return Estimates(found.means + moved, found.variances)


def _load_scipy() -> None:
    """Have `dpgap.estimates.normal` use its loops: a release can wait, many runs cannot."""
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
    return _floats(truth * measurement.finer + noise, grid)


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
