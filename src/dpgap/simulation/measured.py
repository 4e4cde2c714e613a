"""Many runs of a pipeline at once: select, measure, estimate, as `dpgap.pipelines` does.

The formulas are those of `dpgap.estimates`, for all runs side by side; tests hold them together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.exact import Floats, Integers
from dpgap.mechanisms.measurement import Laplace
from dpgap.pipelines import MeasuredAbove, MeasuredTopK
from dpgap.simulation.floats import Rng, draw
from dpgap.simulation.runs import AboveRuns, MeasuredRuns, TopKRuns


def measure_top_k(
    pipeline: MeasuredTopK, answers: Integers, selected: TopKRuns, rng: Rng
) -> MeasuredRuns:
    """Measure and estimate the winners of every run."""
    grid = float(pipeline.selection.grid or 1)
    truth = answers[selected.indices]
    law = pipeline.measurement.law_in_steps(pipeline.selection.k)
    noisy = truth + np.floor(draw(law, rng, *truth.shape)) - law.floor_mean
    measurements = _floats(noisy, grid)
    ratio = pipeline.selection.in_steps().law.floor_variance / law.floor_variance
    estimates = _blue(measurements, selected.gaps, ratio, grid)
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid))


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


def measure_above(
    pipeline: MeasuredAbove,
    answers: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> MeasuredRuns:
    """Measure and estimate the answers found in every run; `thresholds` has one for each run."""
    grid = float(pipeline.selection.grid or 1)
    truth = answers[selected.indices]
    scales, variances = _laplace_by_count(pipeline.measurement, selected.found, grid)
    unit = draw(pipeline.measurement.law_in_steps(1), rng, truth.size)
    unit *= scales[selected.run] / float(pipeline.measurement.law_in_steps(1).scale)
    measurements = _floats(truth + np.floor(unit) + 0.5, grid)
    program = pipeline.selection.in_steps()
    of_branch = np.array([way.law.floor_variance for way in program.ways])
    of_branch = (of_branch + program.threshold_law.floor_variance) * grid**2
    measured, gap = variances[selected.run], of_branch[selected.branch_of - 1]
    noisy = selected.gaps + thresholds[selected.run]
    estimates: Floats = (noisy / gap + measurements / measured) / (1 / gap + 1 / measured)
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid))


def _floats(steps: NDArray[Any], grid: float) -> Floats:
    values: Floats = np.multiply(steps, grid, dtype=np.float64)
    return values


def _laplace_by_count(measurement: Laplace, found: Integers, grid: float) -> tuple[Floats, Floats]:
    """For each run, the scale in steps and the variance of measuring what it found."""
    counts, which = np.unique(found, return_inverse=True)
    laws = [measurement.law_in_steps(max(int(count), 1)) for count in counts]
    scales = np.array([float(law.scale) for law in laws])
    variances = np.array([law.floor_variance for law in laws]) * grid**2
    return scales[which], variances[which]
