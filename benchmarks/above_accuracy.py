"""How accurate is what a Sparse Vector finds? Squared errors, coverage and quality on real counts.

Counts are those of the items in BMS-POS, as they are and thinned 30-, 100- and 300-fold (so that
what is above becomes hard to tell from the rest). Every run is an exact release, except that its
bits are seeded so that figures repeat. Errors are squared errors of what was found, over what the
plain baseline has at the same total ε: Laplace measurement with half of ε, gaps ignored.
`accuracy.py` runs this.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.linear import combine
from dpgap.exact.bits import Bits, InsecureSeededBits
from dpgap.mechanisms.measuring import Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.pipelines.arrays import MeasuredAbove
from dpgap.pipelines.best import estimates_after_above
from dpgap.pipelines.paper import above_errors, gap_variances

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from law_tests import Sifted, sift

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EPSILON = Fraction("0.7")
THINNINGS = (1, 30, 100, 300)
BATCHES = 100


def baseline(k: int, epsilon: Fraction = EPSILON) -> float:
    """The squared error of measuring k counts with Laplace noise and half of ε."""
    return Laplace(epsilon / 2).variance(k)


def measured(measurement: Any, values: Integers, bits: Bits) -> Floats:
    """Measure every row of values."""
    runs, count = values.shape
    if isinstance(measurement, Laplace):
        law = measurement.law_in_steps(count)
        return values + law.floors(bits, runs, count) - law.floor_mean
    return values + measurement.draws(count, runs, bits) / measurement.finer


def above(counts: Integers, k: int, method: str, runs: int, seed: int) -> dict[str, float]:
    """The same for plain Sparse Vector, over random thresholds and orders."""
    bits, generator = InsecureSeededBits(seed), np.random.default_rng(seed)
    errors, plain, covered, found, pairs, some = [0.0, 0.0], 0.0, 0, 0, 0, 0
    for _ in range(BATCHES):
        stream, line = stream_and_threshold(counts, k, generator)
        pipeline = MeasuredAbove(line, k, EPSILON, method=method, monotonic=True)
        sifted = sift(pipeline.selection.in_steps(), stream, runs // BATCHES, bits)
        for rows in runs_of_equal_length(sifted):
            truth = stream[sifted.indices[rows]]
            values = measured(pipeline.measurement, truth, bits)
            estimates = above_estimates(pipeline, sifted, rows, values)
            errors[0] += float(((estimates - truth) ** 2).sum())
            errors[1] += float(((values - truth) ** 2).sum())
            plain += baseline(truth.shape[1]) * truth.size
            off, half = values - truth, pipeline.measurement.half_width(truth.shape[1], 0.95)
            if method == "paper":
                off = estimates - truth
                branches = np.ones(truth.shape[1], dtype=np.int64)
                error = above_errors(pipeline.selection, pipeline.measurement, branches)[0]
                half = error.half_width(0.95)
            covered += int((np.abs(off) <= half).sum())
            found += truth.size
            error = pipeline.measurement.error(truth.shape[1])
            apart = error.half_width_of_pairs(truth.shape[1], 0.95)
            pairs += int((np.ptp(values - truth, axis=1) <= apart).sum())
            some += len(truth)
    return {
        "error": errors[0] / plain,
        "without gaps": errors[1] / plain,
        "coverage": covered / found,
        "all pairs": pairs / some,
        "answers": found / runs,
    }


def above_estimates(
    pipeline: MeasuredAbove, sifted: Sifted, rows: Integers, values: Floats
) -> Floats:
    """The method's estimates from its gaps."""
    selection, measurement = pipeline.selection, pipeline.measurement
    branches = sifted.branches[rows]
    gaps = sifted.gaps[rows] + selection.gap_offsets[branches - 1]
    if not isinstance(measurement, Laplace):
        return estimates_after_above(selection, measurement, values, gaps, branches).means
    threshold, variance = float(selection.threshold), gap_variances(selection)
    plain = measurement.variance(rows.shape[1])
    return np.array(
        [
            combine(value, gap, threshold, plain, variance[branch - 1])
            for value, gap, branch in zip(values, gaps, branches, strict=True)
        ]
    )


def runs_of_equal_length(sifted: Sifted) -> list[Integers]:
    """Where the answers of each run are; runs with equally many of them together."""
    runs, starts, lengths = np.unique(sifted.runs, return_index=True, return_counts=True)
    return [
        starts[lengths == length][:, None] + np.arange(length)
        for length in np.unique(lengths)
        if runs.size
    ]


def stream_and_threshold(
    counts: Integers, k: int, generator: np.random.Generator, rank: int | None = None
) -> tuple[Integers, Fraction]:
    """Counts in random order, and a threshold halfway below a rank, by default from 2k to 8k."""
    rank = rank or int(generator.integers(2 * k, 8 * k))
    line = Fraction(int(counts[rank - 1]) + int(counts[rank]), 2)
    return generator.permutation(counts), line


def finding(
    counts: Integers,
    k: int,
    runs: int,
    seed: int,
    kind: dict[str, Any],
    rank: int | None = None,
) -> dict[str, float]:
    """How many answers a Sparse Vector finds above, and how well they are found."""
    bits, generator = InsecureSeededBits(seed), np.random.default_rng(seed)
    sparse_vector = AdaptiveSparseVector if "branches" in kind else SparseVector
    found = right = wanted = 0
    f1: list[Floats] = []
    for _ in range(BATCHES):
        stream, line = stream_and_threshold(counts, k, generator, rank)
        facts: dict[str, Any] = {"k": k, "epsilon": EPSILON, "monotonic": True, **kind}
        mechanism = sparse_vector(line, **facts)
        each = runs // BATCHES
        sifted = sift(mechanism.in_steps(), stream, each, bits)
        hits = stream[sifted.indices] > line
        answers = np.bincount(sifted.runs, minlength=each)
        good = np.bincount(sifted.runs, weights=hits, minlength=each)
        there = int((stream > line).sum())
        found, right, wanted = found + hits.size, right + int(hits.sum()), wanted + there * each
        f1.append(2 * good / np.maximum(answers + there, 1))
    return {
        "answers": found / runs,
        "precision": right / max(found, 1),
        "recall": right / wanted,
        "f1": float(np.concatenate(f1).mean()),
    }


def settings(counts: Integers, runs: int) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """What to run, by where its figures go."""
    jobs: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for method in ("best", "paper"):
        for thinning in THINNINGS:
            for k in (10, 3):
                where = f"k={k}, thinned {thinning}-fold"
                job = (counts // thinning, k, method, runs, k * thinning)
                jobs["above", where, method] = (above, *job)
    for noise in ("exponential", "laplace"):
        for name, kind in KINDS.items():
            jobs["adaptive", noise, name] = (
                finding,
                counts,
                10,
                runs,
                10,
                {**kind, "noise": noise},
            )
    for times in (2, 4, 8):
        for branches in range(1, 6):
            kind = {"branches": branches, "drain": True, "noise": "exponential"}
            job = (finding, counts, 10, max(runs // 4, BATCHES), times, kind, 10 * times)
            jobs["rule of thumb", f"{times}k are above", f"{branches} branches"] = job
    return jobs


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "2 branches": {"branches": 2},
    "2 branches, drained": {"branches": 2, "drain": True},
    "3 branches, drained": {"branches": 3, "drain": True},
    "4 branches, drained": {"branches": 4, "drain": True},
    "5 branches, drained": {"branches": 5, "drain": True},
    "plain, told k=40": {"k": 40},
}
"""Sparse Vectors to compare. The last is the honest baseline: a plain one that knew its k."""


def all_figures(counts: Integers, runs: int) -> dict[str, Any]:
    """Every setting, two at a time."""
    figures: dict[str, Any] = {}
    with ProcessPoolExecutor(max_workers=2) as pool:
        futures = {place: pool.submit(*job) for place, job in settings(counts, runs).items()}
        for (part, where, which), future in futures.items():
            figures.setdefault(part, {}).setdefault(where, {})[which] = future.result()
    return figures
