"""How accurate pipelines are over many seeded runs: errors over the plain baseline's, and coverage.

The baseline measures with Laplace noise and half of ε. Runs are those of `dpgap.simulate`, whose
law other tests hold to that of releases. `benchmarks/accuracy.py` has the figures of releases.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpgap
from dpgap.pipelines.paper import above_errors

Integers = NDArray[np.int64]

EPSILON = Fraction("0.7")
RUNS = 2_000


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What came of many runs. Errors are mean squared ones, over those of the baseline."""

    error: float
    without_gaps: float
    coverage: float
    precision: float = 1.0


def falling_counts(size: int = 200) -> Integers:
    """Counts like those of shops: a few large ones, and a long tail."""
    return (160_000 / np.arange(1, size + 1) ** 1.1).astype(np.int64)


def baseline(k: int) -> float:
    """The squared error of measuring k counts with Laplace noise and half of ε."""
    return dpgap.Laplace(EPSILON / 2).variance(k)


def top_k(counts: Integers, k: int, method: str, seed: int, monotonic: bool = True) -> Accuracy:
    """The accuracy of the k largest."""
    pipeline = dpgap.MeasuredTopK(k, EPSILON, method=method, monotonic=monotonic)
    runs = dpgap.simulate(pipeline, counts, runs=RUNS, seed=seed)
    shown = runs.estimates if method == "paper" else runs.measurements
    halves = np.array([route.expected_errors().half_width for route in pipeline.routes])
    routes = getattr(runs.selected, "routes", np.zeros(RUNS, dtype=np.int64))
    off, half = shown - runs.truth, halves[routes][:, None]
    return Accuracy(
        error=float(((runs.estimates - runs.truth) ** 2).mean() / baseline(k)),
        without_gaps=float(((runs.measurements - runs.truth) ** 2).mean() / baseline(k)),
        coverage=float((np.abs(off) <= half).mean()),
        precision=float((runs.truth >= np.sort(counts)[-k]).mean()),
    )


def above(counts: Integers, k: int, method: str, seed: int) -> Accuracy:
    """The accuracy of what is found above thresholds at random ranks, in random order."""
    rng = np.random.default_rng(seed)
    thresholds = _below_random_ranks(counts, k, rng)
    pipeline = dpgap.MeasuredAbove(0, k, EPSILON, method=method, monotonic=True)
    stream = rng.permutation(counts)
    runs = dpgap.simulate(pipeline, stream, runs=RUNS, seed=seed, thresholds=thresholds)
    found = runs.selected.found[runs.selected.run]
    halves = [_half_width(pipeline, int(many)) for many in range(1, k + 1)]
    plain = np.array([baseline(many) for many in range(1, k + 1)])[found - 1].sum()
    shown = runs.estimates if method == "paper" else runs.measurements
    return Accuracy(
        error=float(((runs.estimates - runs.truth) ** 2).sum() / plain),
        without_gaps=float(((runs.measurements - runs.truth) ** 2).sum() / plain),
        coverage=float((np.abs(shown - runs.truth) <= np.array(halves)[found - 1]).mean()),
    )


def _half_width(pipeline: dpgap.MeasuredAbove, many: int) -> float:
    if pipeline.method == "paper":
        branches = np.ones(many, dtype=np.int64)
        errors = above_errors(pipeline.selection, pipeline.measurement, branches)
        return errors[0].half_width(0.95)
    return float(pipeline.measurement.half_width(many, 0.95))


def finding(counts: Integers, k: int, seed: int, kind: dict[str, Any]) -> tuple[float, float]:
    """How many answers a Sparse Vector finds in a run, and the share of them that are above."""
    rng = np.random.default_rng(seed)
    thresholds = _below_random_ranks(counts, k, rng)
    sparse_vector: Any = dpgap.AdaptiveSparseVector if "branches" in kind else dpgap.SparseVector
    mechanism = sparse_vector(0, k, EPSILON, monotonic=True, **kind)
    stream = rng.permutation(counts)
    runs = dpgap.simulate(mechanism, stream, runs=RUNS, seed=seed, thresholds=thresholds)
    right = stream[runs.indices] > thresholds[runs.run]
    return float(runs.found.mean()), float(right.mean())


def _below_random_ranks(counts: Integers, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Thresholds halfway below ranks from 2k to 8k, in order of size."""
    ranks = rng.integers(2 * k, 8 * k, RUNS)
    ordered = np.sort(counts)[::-1]
    return np.sort((ordered[ranks - 1] + ordered[ranks]) / 2)
