"""How accurate is the best method for the k largest? Cells of real counts, and bars that must hold.

BMS-POS, Kosarak, retail and T40I10D100K as they are and thinned 30-, 100- and 300-fold, k = 3, 10
and 25, ε = 0.7; and counts made up to mislead a look. Runs are simulated. Errors are squared errors
of the released winners, over what the plain baseline has at the same ε: Laplace measurement with
half of ε, gaps ignored. *Ranked* is one-shot selection with half of ε. *All pairs* is how often the
intervals of all differences between winners hold at once; *cube* is the same for answers that may
move both ways. `accuracy.py` runs this.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpgap
from dpgap.research.datasets import load_all, read_counts

Integers = NDArray[np.int64]

EPSILON = Fraction("0.7")
KS = (3, 10, 25)
THINNINGS = (1, 30, 100, 300)
RIGHT = 0.99


class Cell(NamedTuple):
    """What came of many runs on some counts."""

    counts: str
    thinning: int
    k: int
    precision: float
    ranked: float
    """The precision of one-shot selection with half of ε."""
    error: float
    coverage: float
    joint: float
    """The share of runs that chose a set."""
    pairs: float
    """How often all differences of winners are in their intervals."""
    cube: float
    """The same where answers may move both ways."""
    runs: int

    @property
    def gain(self) -> float:
        """How much better the winners are than those of one-shot selection."""
        return self.precision - self.ranked

    def __str__(self) -> str:
        where = f"{self.counts}, 1/{self.thinning}"
        return (
            f"{where:<24} k={self.k:<3} precision {self.precision:.3f} (ranked {self.ranked:.3f}, "
            f"{self.gain:+.3f})  error {self.error:.3f}  coverage {self.coverage:.3f}  "
            f"sets {self.joint:.2f}  all pairs {self.pairs:.4f} (cube {self.cube:.4f})"
        )


def real_counts(folder: Path) -> dict[str, Integers]:
    """The four data sets, largest counts first."""
    found = {each.name: each.counts for each in load_all(folder)}
    found["retail"] = read_counts(folder / "retail.dat.gz").counts
    return {name: np.sort(counts)[::-1] for name, counts in found.items()}


def made_up_counts() -> dict[str, Integers]:
    """Counts that a look at a few ranks may take for others."""
    ranks = np.arange(1, 5001)
    return {
        "flat": np.full(1000, 500),
        "10 over 1000": np.repeat([5000, 4700], [10, 1000]),
        "25 over 1000": np.repeat([5000, 4700], [25, 1000]),
        "12 over 2000": np.repeat([3000, 2600], [12, 2000]),
        "3 over 1000": np.repeat([2000, 1900], [3, 1000]),
        "ties": np.repeat(np.arange(200, 0, -10), 50),
        "line": np.arange(3000, 0, -3),
        "power 1/2": (5e3 / ranks**0.5).astype(np.int64),
        "power 1": (1e5 / ranks).astype(np.int64),
        "power 2": (1e6 / ranks**2.0).astype(np.int64),
    }


def cell(name: str, counts: Integers, thinning: int, k: int, runs: int) -> Cell:
    """The best method on some counts, and one-shot selection beside it."""
    counts = counts // thinning
    pipeline = dpgap.MeasuredTopK(k, EPSILON, monotonic=True)
    found = dpgap.simulate(pipeline, counts, runs=runs, seed=1)
    halves = [route.measurement.half_width(k, 0.95) for route in pipeline.routes]
    half = np.array(halves)[found.selected.routes][:, None]
    is_set = np.array([route.name == "joint" for route in pipeline.routes])
    return Cell(
        name,
        thinning,
        k,
        float((found.truth >= counts[k - 1]).mean()),
        precision(dpgap.NoisyTopK, counts, k, EPSILON / 2, runs),
        float(
            ((found.estimates - found.truth) ** 2).mean() / dpgap.Laplace(EPSILON / 2).variance(k)
        ),
        float((np.abs(found.measurements - found.truth) <= half).mean()),
        float(is_set[found.selected.routes].mean()),
        pairs_covered(pipeline, found),
        all_pairs(dpgap.MeasuredTopK(k, EPSILON), counts, runs),
        runs,
    )


def all_pairs(pipeline: Any, counts: Integers, runs: int) -> float:
    """How often all differences of winners are in their intervals."""
    return pairs_covered(pipeline, dpgap.simulate(pipeline, counts, runs=runs, seed=3))


def pairs_covered(pipeline: Any, found: Any) -> float:
    """The same, of runs that were made; every route measures with its own part of ε."""
    k = pipeline.k
    halves = [r.measurement.error(k).half_width_of_pairs(k, 0.95) for r in pipeline.routes]
    half = np.array(halves)[found.selected.routes]
    return float((np.ptp(found.measurements - found.truth, axis=1) <= half).mean())


def precision(kind: Any, counts: Integers, k: int, epsilon: Fraction, runs: int) -> float:
    """The share of right winners of a selection alone."""
    more = {"noise": "exponential"} if kind is dpgap.NoisyTopK else {}
    mechanism = kind(k, epsilon, monotonic=True, **more)
    indices = dpgap.simulate(mechanism, counts, runs=runs, seed=2).indices
    return float((counts[indices] >= counts[k - 1]).mean())


def epsilon_for_right(kind: Any, counts: Integers, k: int, runs: int) -> float:
    """The least ε, to one per cent, with which a selection finds nearly all; infinite if none."""
    low, high = 1e-3, 1e3
    if precision(kind, counts, k, Fraction(high), runs) < RIGHT:
        return math.inf
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        good = precision(kind, counts, k, Fraction(middle), runs) >= RIGHT
        low, high = (low, middle) if good else (middle, high)
    return high


def needed(name: str, counts: Integers, runs: int) -> dict[str, float]:
    """What 25 winners take, one-shot and as a set."""
    ranked = epsilon_for_right(dpgap.NoisyTopK, counts, 25, runs)
    joint = epsilon_for_right(dpgap.JointTopK, counts, 25, runs)
    return {"ranked": ranked, "joint": joint, "ratio": joint / ranked}


def all_figures(folder: Path, runs: int) -> dict[str, Any]:
    """All cells, two at a time, and whether the bars hold."""
    real, made_up = real_counts(folder), made_up_counts()
    with ProcessPoolExecutor(max_workers=2) as pool:
        cells = [
            pool.submit(cell, name, counts, thinning, k, runs)
            for k in reversed(KS)
            for name, counts in real.items()
            for thinning in THINNINGS
        ]
        own = [
            pool.submit(cell, name, counts, 1, k, runs)
            for name, counts in made_up.items()
            for k in KS
        ]
        right = {
            name: pool.submit(needed, name, counts, max(runs // 10, 100))
            for name, counts in real.items()
        }
        found = [each.result() for each in cells]
        misled = [each.result() for each in own]
        epsilons = {name: each.result() for name, each in right.items()}
    return {
        "cells": found,
        "made up": misled,
        "ε for precision .99, k = 25": epsilons,
        "bars": bars(found, misled, epsilons),
    }


def bars(
    cells: list[Cell], misled: list[Cell], epsilons: dict[str, dict[str, float]]
) -> dict[str, str]:
    """What must hold, and whether it does."""
    plain = [each for each in cells if each.thinning == 1]
    many = [each for each in cells if each.k >= 10]
    few = [each for each in cells if each.k < 10]
    most = {3: 0.12, 10: 0.06, 25: 0.05}
    off = max(abs(each.coverage - 0.95) for each in (*cells, *misled))
    covered = np.array([pairs for each in (*cells, *misled) for pairs in (each.pairs, each.cube)])
    error = math.sqrt(0.05 * 0.95 / cells[0].runs)
    better = sum(each.gain >= 0.02 for each in many)
    ratios = [each["ratio"] for each in epsilons.values() if math.isfinite(each["ranked"])]
    return {
        **{
            f"as they are, k = {k}: error at most {most[k]}": _at_most(
                max(each.error for each in plain if each.k == k), most[k]
            )
            for k in KS
        },
        "as they are: precision at most .002 below": _at_least(
            min(each.gain for each in plain), -0.002
        ),
        "coverage within .01 of .95": _at_most(off, 0.01),
        "all pairs at once: .95 in all cells together, to 2 standard errors": _at_least(
            covered.mean(), 0.95 - 2 * error / math.sqrt(covered.size)
        ),
        "all pairs at once: .95 in every cell, to 4 standard errors": _at_least(
            covered.min(), 0.95 - 4 * error
        ),
        "k = 10, 25: precision at most .02 below": _at_least(min(c.gain for c in many), -0.02),
        "k = 10, 25: error at most .17": _at_most(max(c.error for c in many), 0.17),
        "k = 10, 25: 10 cells better by .02": _at_least(better, 10),
        "k = 3: precision at most .03 below": _at_least(min(c.gain for c in few), -0.03),
        "k = 3: error at most .28": _at_most(max(c.error for c in few), 0.28),
        "made up: precision at most .05 below": _at_least(min(c.gain for c in misled), -0.05),
        "ε for precision .99 at k = 25: at most a fifth": _at_most(max(ratios), 0.2),
    }


def _at_most(value: float, limit: float) -> str:
    return f"{'holds' if value <= limit else 'FAILS'}: {value:.4f}"


def _at_least(value: float, limit: float) -> str:
    return f"{'holds' if value >= limit else 'FAILS'}: {value:.4f}"


def report(figures: dict[str, Any]) -> None:
    """The figures as lines of text."""
    for each in (*figures["cells"], *figures["made up"]):
        print(each)
    for name, found in figures["ε for precision .99, k = 25"].items():
        print(name, *(f"{key} {value:.4f}" for key, value in found.items()))
    for bar, outcome in figures["bars"].items():
        print(f"{bar}: {outcome}")
