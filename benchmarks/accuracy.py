"""How accurate are the estimates? Squared errors, coverage and selection quality on real counts.

    python benchmarks/accuracy.py            tables
    python benchmarks/accuracy.py --json     the same figures for machines

Counts are those of the items in BMS-POS, as they are and thinned 30-, 100- and 300-fold (so that
winners become hard to tell from losers). Data come from the folder that DPGAP_DATA names, else
from ../shared/data beside the repository. Every run is an exact release, except that its bits are
seeded so that figures repeat. Errors are squared errors of the released winners, over what the
plain baseline has at the same total ε: Laplace measurement with half of ε, gaps ignored.
"""

import argparse
import gzip
import json
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from timing import timed

from dpgap.estimates.linear import blue, combine
from dpgap.exact.bits import Bits, InsecureSeededBits
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.kernel import Sifted, sift
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k.kernel import select
from dpgap.pipelines.best import estimates_after_above, estimates_after_top_k
from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.paper import (
    above_errors,
    gap_variances,
    top_k_error,
    variance_ratio,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EPSILON = Fraction("0.7")
THINNINGS = (1, 30, 100, 300)
BATCHES = 100


def data_folder() -> Path:
    """Where real data lie, if they are here."""
    named = os.environ.get("DPGAP_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def item_counts(path: Path) -> Integers:
    """How many transactions hold each item, largest first."""
    counts: Counter[str] = Counter()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            counts.update(set(line.split()))
    return np.array(sorted(counts.values(), reverse=True), dtype=np.int64)


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


def top_k(
    counts: Integers, k: int, method: str, runs: int, seed: int, *, monotonic: bool = True
) -> dict[str, float]:
    """Squared error, precision and coverage of one method, over many runs."""
    bits = InsecureSeededBits(seed)
    pipeline = MeasuredTopK(k, EPSILON, method=method, monotonic=monotonic)
    selection, measurement = pipeline.selection, pipeline.measurement
    selected = select(selection.in_steps(), counts, runs, bits)
    truth = counts[selected.indices]
    values = measured(measurement, truth, bits)
    if isinstance(measurement, Laplace):
        ratio = variance_ratio(selection, measurement)
        gaps = selected.leads - np.pad(selected.leads[:, 1:], ((0, 0), (0, 1)))
        estimates = np.array([blue(*row, ratio) for row in zip(values, gaps, strict=True)])
        off, half = estimates - truth, top_k_error(selection, measurement).half_width(0.95)
    else:
        leads = selected.leads.astype(np.float64)
        estimates = estimates_after_top_k(selection, measurement, values, leads).means
        off, half = values - truth, measurement.half_width(k, 0.95)
    right = (truth >= counts[k - 1]).mean()
    plain = baseline(k)
    return {
        "error": float(((estimates - truth) ** 2).mean() / plain),
        "without gaps": float(((values - truth) ** 2).mean() / plain),
        "without gaps, exact": measurement.variance(k) / plain,
        "precision": float(right),
        "f1": float(right),  # as many are selected as there are to find
        "coverage": float((np.abs(off) <= half).mean()),
    }


def above(counts: Integers, k: int, method: str, runs: int, seed: int) -> dict[str, float]:
    """The same for plain Sparse Vector, over random thresholds and orders."""
    bits, generator = InsecureSeededBits(seed), np.random.default_rng(seed)
    errors, plain, covered, found = [0.0, 0.0], 0.0, 0, 0
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
    return {
        "error": errors[0] / plain,
        "without gaps": errors[1] / plain,
        "coverage": covered / found,
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
            for k in (25, 10, 3):
                where = f"k={k}, thinned {thinning}-fold"
                job = (counts // thinning, k, method, runs, k * thinning)
                jobs["top-k", where, method] = (top_k, *job)
                if k < 25:
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


def report(figures: dict[str, Any], indent: str = "") -> None:
    """Nested figures as lines of text."""
    for name, value in figures.items():
        if not isinstance(value, dict):
            print(f"{indent}{name}: {value}")
        elif any(isinstance(each, dict) for each in value.values()):
            print(f"{indent}{name}")
            report(value, indent + "  ")
        else:
            cells = "  ".join(f"{key} {number:.4f}" for key, number in value.items())
            print(f"{indent}{name:<20}{cells}")


def main() -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--runs", type=int, default=20_000, help="runs a setting (%(default)s)")
    options = parser.parse_args()
    if options.runs < BATCHES:
        parser.error(f"--runs must be at least {BATCHES}")
    path = data_folder() / "bms-pos-partial-275k.dat.gz"
    if not path.exists():
        print(
            "no data: set DPGAP_DATA to a folder with bms-pos-partial-275k.dat.gz", file=sys.stderr
        )
        return 1
    counts = item_counts(path)
    seconds, found = timed(lambda: all_figures(counts, options.runs))
    figures: dict[str, Any] = {
        "data": path.name,
        "epsilon": float(EPSILON),
        "runs": options.runs,
        **found,
    }
    figures["seconds"] = round(seconds, 1)
    print(json.dumps(figures, indent=2)) if options.json else report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
