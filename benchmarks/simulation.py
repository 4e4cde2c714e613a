"""How long one simulated run takes, for each mechanism and data set.

    python benchmarks/simulation.py [--json] [--runs N] [--data DIR] [--k K …]

Medians of wall time over simulations of N runs, in microseconds a run: on one core, and on all with
a process a core, as `dpgap reproduce` does.
Data sets are found as `dpgap reproduce` finds them; without --data and DPGAP_DATA, `../shared/data`
beside the repository is tried first. Thresholds are at random ranks, as in the paper. For
comparison: a secure release, and brute force in NumPy, which draws every answer in every run.
"""

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from timing import medians

import dpgap
from dpgap.research.datasets import FOLDER_VARIABLE, Dataset, load_all
from dpgap.research.experiments import thresholds_of

EPSILON = "0.7"
_BESIDE = Path(__file__).parents[2] / "shared" / "data"


def microseconds(call: Callable[[], Any], runs: int, times: int = 5) -> float:
    """The median time of a run, after one simulation to warm up."""
    (median,) = medians(call, times=times)
    return median / runs * 1e6


def mechanisms(k: int) -> dict[str, Any]:
    """What is timed."""
    facts: dict[str, Any] = {"monotonic": True}
    return {
        "Noisy Top-K": dpgap.NoisyTopK(k, EPSILON, **facts),
        "Sparse Vector": dpgap.SparseVector(0, k, EPSILON, **facts),
        "Adaptive Sparse Vector": dpgap.AdaptiveSparseVector(0, k, EPSILON, **facts),
        "Top-K with measures": dpgap.MeasuredTopK(k, EPSILON, method="paper", **facts),
        "Sparse Vector with measures": dpgap.MeasuredAbove(0, k, EPSILON, method="paper", **facts),
        "Top-K, best method": dpgap.MeasuredTopK(k, EPSILON, **facts),
        "Sparse Vector, best method": dpgap.MeasuredAbove(0, k, EPSILON, **facts),
    }


def brute_force_top_k(counts: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """What a script does in every run."""
    noisy = counts + rng.laplace(scale=k / float(EPSILON), size=counts.size)
    return np.argpartition(noisy, -k - 1)[-k - 1 :]


def one_by_one(counts: np.ndarray, mechanism: dpgap.NoisyTopK) -> dict[str, float]:
    """The same selection without simulation: by brute force, and as a secure release."""
    rng = np.random.default_rng(1)
    return {
        "brute_force_us": microseconds(lambda: brute_force_top_k(counts, mechanism.k, rng), 1, 50),
        "secure_release_us": microseconds(lambda: mechanism.release(counts), 1, 50),
    }


def simulated(mechanism: Any, dataset: Dataset, runs: int) -> None:
    """One simulation; a Sparse Vector gets thresholds as in the paper."""
    selection = getattr(mechanism, "selection", mechanism)
    thresholds = None
    if isinstance(selection, dpgap.SparseVector):
        thresholds = thresholds_of(dataset, selection.k, runs, np.random.default_rng(1))
    dpgap.simulate(mechanism, dataset.counts, runs=runs, seed=1, thresholds=thresholds)


def side_by_side(
    pool: ProcessPoolExecutor, cores: int, mechanism: Any, dataset: Dataset, runs: int
) -> float:
    """Wall time a run when every core simulates, in a process each."""
    return microseconds(
        lambda: wait([pool.submit(simulated, mechanism, dataset, runs) for _ in range(cores)]),
        runs * cores,
    )


def row(
    name: str, mechanism: Any, dataset: Dataset, k: int, runs: int, pool: ProcessPoolExecutor
) -> dict[str, Any]:
    """All that is measured of one mechanism on one data set."""
    cores = os.cpu_count() or 1
    facts: dict[str, Any] = {"dataset": dataset.name, "items": dataset.items, "k": k}
    facts |= {"mechanism": name, "runs": runs, "cores": cores}
    facts["one_core_us"] = microseconds(lambda: simulated(mechanism, dataset, runs), runs)
    facts["all_cores_us"] = side_by_side(pool, cores, mechanism, dataset, runs)
    if name == "Noisy Top-K":
        facts |= one_by_one(dataset.counts, mechanism)
    return facts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--k", type=int, nargs="+", default=[10])
    parser.add_argument("--data", default=None)
    chosen = parser.parse_args()
    folder = chosen.data or os.environ.get(FOLDER_VARIABLE)
    if not folder and _BESIDE.is_dir():
        folder = str(_BESIDE)
    found = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for dataset in load_all(folder):
            for k in chosen.k:
                for name, mechanism in mechanisms(k).items():
                    found.append(row(name, mechanism, dataset, k, chosen.runs, pool))
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        times = ", ".join(f"{key} {each[key]:.4g}" for key in each if key.endswith("us"))
        print(f"{each['dataset']}, {each['mechanism']}, k = {each['k']}: {times}")


if __name__ == "__main__":
    main()
