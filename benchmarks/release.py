"""How long a release takes, next to OpenDP and to NumPy's insecure floats, in one run.

    python benchmarks/release.py [--json] [--quick]

Counts follow Zipf's law in random order; k = 10, ε = 0.7, monotonic. All get arrays. Times are
medians of the processor's time in milliseconds, so that a busy machine slows all alike. Memory is
what a release allocates beyond its answers, at its peak.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from timing import medians

import dpgap

K, EPSILON = 10, 0.7
SIZES = (1_657, 41_270, 1_000_000, 10_000_000)
OPENDP_LIMIT = 1_000_000


def milliseconds(*calls: Callable[[], Any], seconds: float = 2.0, times: int = 5) -> list[float]:
    """The median time of each call, over some seconds, after one to warm up; they take turns."""
    taken = medians(*calls, times=times, at_least_seconds=seconds, clock=time.process_time)
    return [1_000 * each for each in taken]


def zipf_counts(size: int) -> np.ndarray:
    """Counts like those of items in a shop, in random order."""
    rng = np.random.default_rng(1)
    return rng.permutation((1_000_000 / np.arange(1, size + 1)).astype(np.int64))


def opendp_top_k() -> Callable[[np.ndarray], Any]:
    """OpenDP's Noisy Top-K at the same ε: indices only."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    return dp.binary_search_chain(
        lambda scale: dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=K, scale=scale),
        d_in=1,
        d_out=EPSILON,
    )


def insecure_top_k(rng: np.random.Generator, counts: np.ndarray) -> np.ndarray:
    """What a script does: float noise, not secure, not exact, no gaps."""
    noisy = counts + rng.laplace(scale=K / EPSILON, size=counts.size)
    return np.argpartition(noisy, -K)[-K:]


def top_k_rows(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """One row a size."""
    mechanism = dpgap.NoisyTopK(K, EPSILON, monotonic=True)
    peer = opendp_top_k()
    rng = np.random.default_rng()
    rows = []
    for size in sizes:
        counts = zipf_counts(size)
        calls = [partial(mechanism.release, counts), partial(insecure_top_k, rng, counts)]
        if size <= OPENDP_LIMIT:
            calls.append(partial(peer, counts))
        ours, insecure, *theirs = milliseconds(
            *calls, seconds=0, times=max(3, min(40, 400_000 // size))
        )
        row: dict[str, Any] = {"benchmark": "top-k", "n": size, "dpgap_ms": ours}
        row |= {"insecure_numpy_ms": insecure, "times_insecure_numpy": ours / insecure}
        if theirs:
            row |= {"opendp_ms": theirs[0], "times_faster_than_opendp": theirs[0] / ours}
        tracemalloc.start()
        mechanism.release(counts)
        row["extra_bytes_an_answer"] = tracemalloc.get_traced_memory()[1] / size
        tracemalloc.stop()
        rows.append(row)
    return rows


def sparse_vector_rows() -> list[dict[str, Any]]:
    """Adaptive Sparse Vector in bulk, and one question at a time."""
    size = 2_000_000
    counts = zipf_counts(size)
    threshold = int(np.sort(counts)[-30])
    bulk = dpgap.AdaptiveSparseVector(10**7, K, EPSILON, monotonic=True)
    (whole,) = milliseconds(partial(bulk.release, counts))
    rows = [
        {
            "benchmark": "adaptive sparse vector, bulk",
            "n": size,
            "dpgap_ms": whole,
            "answers_a_second": size / whole * 1_000,
        }
    ]
    thousand = range(1_000)
    for name, answer in (("below", 0), ("above", 10**9)):
        run = dpgap.AdaptiveSparseVector(threshold, 10**7, 10**7, monotonic=True).start()
        (asked,) = milliseconds(lambda run=run, answer=answer: [run.ask(answer) for _ in thousand])
        rows.append({"benchmark": f"one ask, {name}", "microseconds": asked})
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--quick", action="store_true", help="only the two smallest sizes")
    chosen = parser.parse_args()
    rows = top_k_rows(SIZES[:2] if chosen.quick else SIZES) + sparse_vector_rows()
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        facts = ", ".join(
            f"{name} {value:,.4g}" for name, value in row.items() if name != "benchmark"
        )
        print(f"{row['benchmark']}: {facts}")


if __name__ == "__main__":
    main()
