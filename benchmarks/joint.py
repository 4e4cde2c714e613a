"""How long an exact release of a top set takes, next to a ranked Top-K, in one run.

    python benchmarks/joint.py [--json] [--rounds 5]

Counts follow Zipf's law in random order, or are counts of a table; ε = 0.7, monotonic, exponential
noise. The two calls take turns, and times are medians in milliseconds. Figures to look at: at most
5 at n = 41,270 and k = 10, 60 at k = 50, 30 at n = 10⁶ counts of a table; 10¹² absent items at most
1.2 times that.
"""

import argparse
import json
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from release import zipf_counts
from timing import medians

import dpgap
from dpgap.data.private_counts import CountsInMemory

EPSILON = "0.7"


def pair(k: int, answers: Any) -> list[Any]:
    """The two releases that take turns."""
    joint = dpgap.JointTopK(k, EPSILON, monotonic=True)
    ranked = dpgap.NoisyTopK(k, EPSILON, monotonic=True, noise="exponential")
    return [partial(joint.release, answers), partial(ranked.release, answers)]


def present(size: int, domain: int) -> CountsInMemory:
    """Counts of items that are present in a larger domain."""
    positions = np.arange(size) * (domain // size)
    return CountsInMemory(
        range(domain), positions, zipf_counts(size), sensitivity=Fraction(1), monotonic=True
    )


def rows(rounds: int) -> list[dict[str, Any]]:
    """One row a table."""
    million = zipf_counts(1_000_000)
    tables: list[tuple[str, int, Any]] = [
        ("n = 41,270", 10, zipf_counts(41_270)),
        ("n = 41,270", 50, zipf_counts(41_270)),
        ("n = 10^6", 10, million),
        ("41,270 counted", 10, present(41_270, 50_000)),
        ("41,270 counted, 10^12 absent", 10, present(41_270, 10**12)),
        ("10^6 counted", 10, present(1_000_000, 1_100_000)),
        ("10^6 counted, 10^12 absent", 10, present(1_000_000, 10**12)),
    ]
    measured = []
    for name, k, answers in tables:
        joint, ranked = (1_000 * each for each in medians(*pair(k, answers), times=rounds))
        measured.append({"answers": name, "k": k, "joint_ms": joint, "ranked_ms": ranked})
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--rounds", type=int, default=5, help="how many calls of each")
    chosen = parser.parse_args()
    measured = rows(chosen.rounds)
    if chosen.json:
        print(json.dumps(measured, indent=2))
        return
    for row in measured:
        print(
            f"{row['answers']}, k = {row['k']}: top set {row['joint_ms']:.2f} ms, "
            f"ranked {row['ranked_ms']:.2f} ms"
        )


if __name__ == "__main__":
    main()
