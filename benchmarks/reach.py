"""Reach: what a release costs in error where a unit counts for few items, next to OpenDP.

    python benchmarks/reach.py [--runs 2000]

k = 10, ε = 1, 1,000 items. For every reach m the root of the mean squared error of the winners'
estimates: of `dpgap.top_k` with `max_items=m`, of OpenDP's noise on the same bounded counts (its
Laplace measurement on integers, scale m/ε, on every count), and of dpgap without the bound. The
three take turns in one run. Clear counts have winners far apart; close ones lie 1/ε apart, also at
the line; flat ones are all the same. Coverage is the share of winners whose 95 % interval holds the
true count; "first" the same of the first-ranked winner alone; "plain" what the interval of the
noise, which does not allow for the line, would cover; "no low" the share of intervals without a
lower end.
"""

import argparse
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import dpgap
from dpgap.data.private_counts import CountsInMemory
from dpgap.question import Question

K, EPSILON, SIZE = 10, 1, 1_000
REACHES = (1, 2, 4, 8, 16)


def tables() -> dict[str, np.ndarray]:
    """Counts with clear winners, and counts that are 1/ε apart."""
    clear = np.concatenate([np.arange(20_000, 10_000, -1_000), np.linspace(5_000, 0, SIZE - K)])
    return {
        "clear": clear.astype(np.int64),
        "close": np.arange(SIZE, 0, -1) + 2_000,
        "flat": np.full(SIZE, 2_000),
    }


def counts(values: np.ndarray, reach: int | None) -> CountsInMemory:
    """Private counts of a table in which a unit counts for at most so many items."""
    origin = Question(unit="who", item="what", domain="1,000 items", max_items=reach)
    return CountsInMemory(
        labels=range(SIZE),
        positions=np.arange(SIZE),
        counts=values,
        sensitivity=Fraction(1),
        monotonic=True,
        origin=origin,
        reach=reach,
    )


def opendp(values: np.ndarray, reach: int) -> Callable[[], np.ndarray]:
    """The errors of OpenDP's ten largest noisy counts."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=float(reach / EPSILON))
    listed = values.tolist()

    def errors() -> np.ndarray:
        noisy = np.array(measure(listed))
        best = np.argsort(-noisy)[:K]
        return noisy[best] - values[best]

    return errors


class Ours:
    """Releases of `dpgap.top_k`: their errors, and what their intervals cover."""

    def __init__(self, values: np.ndarray, reach: int | None) -> None:
        self._values, self._answers = values, counts(values, reach)
        self.covered = self.first = self.plain = self.without_low = self.many = 0
        self.routes: dict[str | None, int] = {}

    def __call__(self) -> np.ndarray:
        release = dpgap.top_k(self._answers, k=K, epsilon=EPSILON)
        truth = self._values[release.indices]
        low, high = release.interval().T
        held = (low <= truth) & (truth <= high)
        self.covered += int(held.sum())
        self.first += int(held[0])
        half = release.detail.errors[0].half_width(0.95)
        self.plain += int((np.abs(release.estimates - truth) <= half).sum())
        self.without_low += int(np.isneginf(low).sum())
        self.many += truth.size
        self.routes[release.route] = self.routes.get(release.route, 0) + 1
        return release.estimates - truth


def main() -> None:
    """Print a table for each kind of counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000)
    runs = parser.parse_args().runs
    for name, values in tables().items():
        print(
            f"{name}\n  m   ours  OpenDP  unbounded  ratio  coverage  first  plain  no low  route"
        )
        for reach in REACHES:
            ours, unbounded = Ours(values, reach), Ours(values, None)
            calls = (ours, opendp(values, reach), unbounded)
            squares = np.zeros(3)
            for _ in range(runs):
                squares += [float((call() ** 2).mean()) for call in calls]
            own, other, before = (math.sqrt(each / runs) for each in squares)
            route = max(ours.routes, key=lambda each: ours.routes[each])
            ratio = own / min(other, before)
            print(
                f"{reach:3}  {own:5.2f}  {other:6.2f}  {before:9.2f}  {ratio:5.3f}"
                f"  {ours.covered / ours.many:8.4f}  {ours.first / runs:5.3f}"
                f"  {ours.plain / ours.many:5.3f}  {ours.without_low / ours.many:6.3f}  {route}"
            )


if __name__ == "__main__":
    main()
