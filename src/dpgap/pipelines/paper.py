"""The paper's method: only Laplace noise, and gaps combined by their variances.

After a Top-K it computes the best linear unbiased estimates (Theorem 3). After a Sparse Vector it
combines each gap with its measurement by inverse variance (Section 6.2). Both ignore that the noise
also decided who was selected. So they are biased if winners are close to losers.
"""

from typing import NamedTuple, Self

import numpy as np

from dpgap.estimates.after_selection import Estimates
from dpgap.estimates.errors import HistogramError, LaplaceSum, MeasurementError
from dpgap.estimates.linear import blue, blue_variance
from dpgap.exact.grid import Grid
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.measuring import Laplace
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK


class EstimatedWinners(NamedTuple):
    """Estimates of the winners, and their errors."""

    estimates: Floats
    variances: Floats
    centres: str
    errors: tuple[MeasurementError | LaplaceSum | HistogramError, ...]
    measured_by: MeasurementError | None = None
    """The error of measurements, if `errors` are about something else."""

    @classmethod
    def of_run(cls, runs: Estimates, error: MeasurementError) -> Self:
        """Those of the first run; intervals use the measurement, independent of the selection."""
        return cls(runs.means[0], runs.variances[0], "measurements", (error,))


def estimates_after_top_k(
    selection: NoisyTopK, measurement: Laplace, measurements: Floats, gaps: Floats
) -> Estimates:
    """Estimates and their variances; with many runs, each row is one run."""
    k = selection.k
    ratio = variance_ratio(selection, measurement)
    if gaps.shape[-1] == k - 1 and k > 1:
        gaps = gaps.copy()
        gaps[..., -1] += Grid(selection.grid).width / 2  # floored leads, and an exact one
    variance = blue_variance(k, measurement.variance(k), ratio)
    return Estimates(blue(measurements, gaps, ratio), np.full(measurements.shape, variance))


def variance_ratio(selection: NoisyTopK, measurement: Laplace) -> float:
    """The variance of the selection's noise over the measurements'; both on the grid."""
    selecting = selection.in_steps().law.floor_variance
    return selecting / measurement.law_in_steps(selection.k).floor_variance


def top_k_error(selection: NoisyTopK, measurement: Laplace) -> MeasurementError | LaplaceSum:
    """The error of the BLUE: these multiples of independent draws, and of half steps."""
    if selection.k == 1:
        return measurement.error(1)
    k = selection.k
    ratio = variance_ratio(selection, measurement)
    divisor = k * (1 + ratio)
    measuring = float(measurement.law_in_steps(k).scale) / divisor
    selecting = float(selection.in_steps().law.scale) / divisor
    terms = (
        (measuring * (1 + ratio * k), 1),
        (measuring, k - 1),
        (selecting * (k - 1), 1),
        (selecting, k - 1),
    )
    floored = (1 + ratio * k + 3 * (k - 1)) / divisor / 2
    return LaplaceSum(terms, floored, Grid(selection.grid).step)


def gap_variances(selection: SparseVector) -> Floats:
    """The variance of a gap, for each branch: that of both noises."""
    program = selection.in_steps()
    of_branch = np.array([branch.law.floor_variance for branch in program.every_branch])
    variances: Floats = of_branch + program.threshold_law.floor_variance
    return variances * Grid(selection.grid).width ** 2


def above_errors(
    selection: SparseVector, measurement: Laplace, branches: Integers
) -> tuple[LaplaceSum, ...]:
    """The error of each estimate: a weighted mean of its measurement's noise and its gap's."""
    program = selection.in_steps()
    variances = gap_variances(selection).tolist()
    measuring = float(measurement.law_in_steps(branches.size).scale)
    measured = measurement.variance(branches.size)
    errors = []
    for branch, variance in zip(program.every_branch, variances, strict=True):
        weight = measured / (measured + variance)
        terms = (
            (measuring * (1 - weight), 1),
            (float(branch.law.scale) * weight, 1),
            (float(program.threshold_law.scale) * weight, 1),
        )
        errors.append(LaplaceSum(terms, (1 + weight) / 2, Grid(selection.grid).step))
    return tuple(errors[number - 1] for number in branches.tolist())
