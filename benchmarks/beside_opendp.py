"""Errors beside OpenDP's, on the same counts with the same ε: `python benchmarks/beside_opendp.py`.

OpenDP selects with `make_noisy_top_k` and half of ε, then adds Laplace noise to the winners' counts
with the other half. dpgap runs `measured_top_k` as it comes. The counts of 1,000 items are made up:
by Zipf's law, in steps of 20, or all alike. *Error* is the root of the mean squared error of a
winner's estimate; *found* is the share of the true winners.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

import dpgap

EPSILON = 0.7
KS = (3, 10, 25)
COUNTS = {
    "Zipf": np.floor(100_000 / np.arange(1, 1_001)).astype(np.int64),
    "steps of 20": 25_000 - 20 * np.arange(1_000),
    "all alike": np.full(1_000, 1_000),
}
Answer = tuple[NDArray[np.int64], NDArray[np.float64]]


def opendp(k: int) -> Callable[[NDArray[np.int64]], Answer]:
    """Selects k, then measures them, with half of ε each."""
    dp.enable_features("contrib")
    all_of_them = (
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.linf_distance(T="i64", monotonic=True),
    )
    winners = dp.vector_domain(dp.atom_domain(T="i64"), size=k), dp.l1_distance(T="i64")
    privacy = dp.max_divergence()
    select = dp.binary_search_chain(
        lambda scale: dp.m.make_noisy_top_k(*all_of_them, privacy, k=k, scale=scale), 1, EPSILON / 2
    )
    measure = dp.binary_search_chain(
        lambda scale: dp.m.make_laplace(*winners, scale=scale), k, EPSILON / 2
    )

    def ask(counts: NDArray[np.int64]) -> Answer:
        found = np.array(select(counts.tolist()))
        return found, np.array(measure(counts[found].tolist()), dtype=float)

    return ask


def ours(k: int) -> Callable[[NDArray[np.int64]], Answer]:
    """The default of dpgap."""

    def ask(counts: NDArray[np.int64]) -> Answer:
        release = dpgap.measured_top_k(counts, k, EPSILON, monotonic=True)
        return np.array(release.indices), np.array(release.estimates)

    return ask


def rows(runs: int) -> Iterator[dict[str, Any]]:
    """One row for each kind of counts and each k: errors and shares found, ours and OpenDP's."""
    for name, counts in COUNTS.items():
        for k in KS:
            errors, found = [], []
            for ask in (ours(k), opendp(k)):
                answers = [ask(counts) for _ in range(runs)]
                misses = [estimates - counts[items] for items, estimates in answers]
                errors.append(float(np.mean(np.square(misses))))
                least = np.sort(counts)[-k]
                found.append(float(np.mean([counts[items] >= least for items, _ in answers])))
            yield {"counts": name, "k": k, "squared_errors": errors, "found": found}


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    print(
        f"{'counts':12} {'k':>3} {'error':>8} {'OpenDP':>8} {'squared, ours over theirs':>26}",
        end="",
    )
    print(f" {'found':>6} {'OpenDP':>7}")
    for row in rows(parser.parse_args().runs):
        ours, theirs = row["squared_errors"]
        print(f"{row['counts']:12} {row['k']:3} {ours**0.5:8.1f} {theirs**0.5:8.1f}", end="")
        print(f" {ours / theirs:26.2f} {row['found'][0]:6.2f} {row['found'][1]:7.2f}")


if __name__ == "__main__":
    main()
