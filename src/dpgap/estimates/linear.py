"""Better estimates from measurements and gaps, and their variances; they cost nothing extra.

Everything here is post-processing of released values, so it costs no privacy. Variances and
confidence are those of one question fixed beforehand. For winners that were hard to tell from the
rest, both are optimistic.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.reals import Floats


def blue(measurements: ArrayLike, gaps: ArrayLike, variance_ratio: float) -> Floats:
    """The best linear unbiased estimates from measurements and the gaps between them.

    This is Theorem 3 of the paper, in linear time. `gaps` are those of a Noisy Top-K: the gap after
    rank i is `gaps[i]`. A k-th gap, to the best loser, adds an unknown (the loser) and changes
    nothing. `variance_ratio` is the variance of the selection's noise divided by that of the
    measurements. With many runs, each row is one run.

    >>> blue([10, 4], [8], variance_ratio=1)
    array([10.5,  3.5])
    """
    alpha = np.asarray(measurements, dtype=np.float64)
    steps = np.asarray(gaps, dtype=np.float64)
    ratio = float(variance_ratio)
    if not 0 < ratio < math.inf:
        raise ValueError(f"variance_ratio must be positive and finite, not {variance_ratio!r}")
    if not alpha.ndim or alpha.shape[:-1] != steps.shape[:-1]:
        raise ValueError("measurements and gaps must be one-dimensional, or have as many rows")
    k = alpha.shape[-1]
    count = steps.shape[-1]
    if count not in (k - 1, k):
        raise ValueError(f"gaps must be {k - 1} or {k} for {k} measurements, not {count}")
    # Noisy answers minus a common unknown: the suffix sums of the gaps.
    noisy = np.zeros_like(alpha)
    last_first = steps[..., : k - 1][..., ::-1]
    noisy[..., :-1] = np.cumsum(last_first, axis=-1)[..., ::-1]
    noisy -= noisy.mean(axis=-1, keepdims=True)
    mean = alpha.mean(axis=-1, keepdims=True)
    estimates: Floats = mean + (ratio * (alpha - mean) + noisy) / (1 + ratio)
    return estimates


def blue_variance(k: int, measurement_variance: float, variance_ratio: float) -> float:
    """The variance of each of k estimates by `blue`.

    >>> blue_variance(10, 1.0, 1.0)
    0.55
    """
    return measurement_variance * (1 + variance_ratio * k) / (k + variance_ratio * k)


def combine(
    measurements: ArrayLike,
    gaps: ArrayLike,
    threshold: float,
    measurement_variance: ArrayLike,
    gap_variance: ArrayLike,
) -> Floats:
    """Combine each measurement with its gap above a threshold, weighted by inverse variance.

    `gap_variance` is the whole variance of a gap, one number or one for each answer (branches
    differ). All gaps of a run share the threshold's noise. This is the paper's formula, which
    ignores that.

    >>> combine([12.0], [4.0], threshold=10, measurement_variance=1, gap_variance=3)
    array([12.5])
    """
    alpha = np.asarray(measurements, np.float64)
    above = np.asarray(gaps, np.float64)
    for name, values in (("measurements", alpha), ("gaps", above)):
        if values.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional")
    if above.size != alpha.size:
        raise ValueError(f"gaps must be as many as measurements, {alpha.size}, not {above.size}")
    of_gaps = np.asarray(gap_variance, np.float64)
    of_measurements = np.asarray(measurement_variance, np.float64)
    variances = {"gap_variance": of_gaps, "measurement_variance": of_measurements}
    for name, variance in variances.items():
        if not (np.isfinite(variance).all() and (variance > 0).all()):
            raise ValueError(f"{name} must be positive and finite")
        if variance.size != 1 and variance.shape != alpha.shape:
            raise ValueError(f"{name} must be one number, or one for every measurement")
    noisy = (above + float(threshold)) / of_gaps
    weights = 1 / of_gaps + 1 / of_measurements
    estimates: Floats = (noisy + alpha / of_measurements) / weights
    return estimates


def combined_variance(measurement_variance: ArrayLike, gap_variance: ArrayLike) -> Floats:
    """The variance of each estimate by `combine` on its own, with the same arguments."""
    of_gaps = np.array(gap_variance, ndmin=1)
    of_measurements = np.asarray(measurement_variance)
    return 1 / (1 / of_gaps + 1 / of_measurements)
