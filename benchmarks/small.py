"""Small tables: select, measure and estimate among 1,000 counts, next to OpenDP, in one run.

    python benchmarks/small.py [--json] [--rounds 400]
    python benchmarks/small.py --beside OTHER/src

k = 10, ε = 1, counts are monotonic. OpenDP's pipeline is its Noisy Top-K with half of ε, then
Laplace noise on the winners: indices and values. Both get an array. Ours has estimates and
intervals; the best method looks first, and a ranking has gaps. Mechanisms are made beforehand in
OpenDP's case, with every call in ours. Calls take turns, and times are medians of the processor's
time, so that a busy machine slows all alike. With `--beside`, the best method of this dpgap and of
another copy of its source take turns instead, in nine rounds, each in a process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpgap

K, EPSILON, SIZE = 10, 1.0, 1_000
WARM_UP = 20


def tables() -> dict[str, np.ndarray]:
    """Counts that are nearly equal, all equal, and like those of items in a shop."""
    rng = np.random.default_rng(1)
    return {
        "flat": rng.integers(450, 550, SIZE),
        "tied": np.full(SIZE, 500),
        "zipf": rng.permutation((1_000_000 / np.arange(1, SIZE + 1)).astype(np.int64)),
    }


def opendp_pipeline() -> Callable[[np.ndarray], list[tuple[int, int]]]:
    """OpenDP's winners with noisy counts, half of ε for each step."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64"))
    select = dp.binary_search_chain(
        lambda scale: dp.m.make_noisy_top_k(
            space, dp.linf_distance(T="i64", monotonic=True), dp.max_divergence(), k=K, scale=scale
        ),
        d_in=1,
        d_out=EPSILON / 2,
    )
    measure = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=K / (EPSILON / 2))

    def release(counts: np.ndarray) -> list[tuple[int, int]]:
        winners = select(counts)
        return list(zip(winners, measure(counts[winners]), strict=True))

    return release


def take_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median milliseconds of each call, one round of all of them after the other."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + rounds):
        for name, call in calls.items():
            started = time.process_time()
            call()
            if turn >= WARM_UP:
                times[name].append(time.process_time() - started)
    return {name: 1_000 * statistics.median(taken) for name, taken in times.items()}


def rows(rounds: int) -> list[dict[str, Any]]:
    """One row a table."""
    peer, measured = opendp_pipeline(), []
    for name, counts in tables().items():
        calls = {
            "dpgap_ms": lambda counts=counts: dpgap.measured_top_k(
                counts, K, EPSILON, monotonic=True
            ).interval(),
            "ranked_ms": lambda counts=counts: dpgap.measured_top_k(
                counts, K, EPSILON, monotonic=True, method="ranked"
            ).interval(),
            "opendp_ms": lambda counts=counts: peer(counts),
        }
        row: dict[str, Any] = {"counts": name, **take_turns(calls, rounds)}
        measured.append(row | {"of_opendp": row["dpgap_ms"] / row["opendp_ms"]})
    return measured


def beside(other: str) -> None:
    """Print the median milliseconds of nine rounds, for this dpgap and for another."""
    own = str(Path(dpgap.__file__).parents[1])
    rounds: dict[str, list[list[float]]] = {other: [], own: []}
    for _ in range(9):
        for source, times in rounds.items():
            done = subprocess.run(
                [sys.executable, __file__, "--own"],
                env={**os.environ, "PYTHONPATH": source},
                capture_output=True,
                check=True,
            )
            times.append(json.loads(done.stdout))
    for source, times in rounds.items():
        medians = map(statistics.median, zip(*times, strict=True))
        told = zip(tables(), medians, strict=True)
        print(source, *(f"{name} {taken:.3f} ms" for name, taken in told))


def own_times(rounds: int = 200) -> list[float]:
    """The median milliseconds of the best method, for each table."""
    every = tables().items()
    calls = {
        name: lambda counts=counts: dpgap.measured_top_k(
            counts, K, EPSILON, monotonic=True
        ).interval()
        for name, counts in every
    }
    return [take_turns({name: call}, rounds)[name] for name, call in calls.items()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--rounds", type=int, default=400, help="how many calls of each")
    parser.add_argument("--beside", metavar="SRC", help="compare with another copy of the source")
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.own:
        print(json.dumps(own_times()))
        return
    if chosen.beside:
        beside(chosen.beside)
        return
    measured = rows(chosen.rounds)
    if chosen.json:
        print(json.dumps(measured, indent=2))
        return
    for row in measured:
        print(
            f"{row['counts']}: release and interval {row['dpgap_ms']:.2f} ms, ranked "
            f"{row['ranked_ms']:.2f} ms, OpenDP {row['opendp_ms']:.2f} ms: "
            f"{row['of_opendp']:.2f} of its time"
        )


if __name__ == "__main__":
    main()
