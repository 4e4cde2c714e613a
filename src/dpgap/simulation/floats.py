"""What simulations share: quick floats in place of exact noise, and what many runs give."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Self

import numpy as np

from dpgap.exact.laws import Law
from dpgap.exact.reals import Floats, Integers
from dpgap.exact.shells import ShellNoise

# --------------------------------------------------------------------------------------------------
# Float noise for simulation: fast, seeded, not secure, and never part of a release.
#
# Beside plain draws there are the two things that make simulation cheap without changing any law:
# drawing noise *given* that it reaches a point, and finding the few hits among very many cells that
# are each hit with the same small chance, in time that grows with the hits only.


Rng = np.random.Generator

_RARE = 1e-3


def draw(law: Law, rng: Rng, *shape: int) -> Floats:
    """Noise from `law`."""
    return law.from_uniforms(rng.random((law.words, *shape)))


def draw_shells(law: ShellNoise, rng: Rng, runs: int) -> Floats:
    """Real coordinates whose density falls with the largest alone; one row for every run.

    The largest has a gamma distribution, and the others are anywhere up to it.
    """
    points: Floats = rng.random((runs, law.dimension))
    points[np.arange(runs), rng.integers(0, law.dimension, runs)] = 1
    if law.signed:
        points *= np.where(rng.random(points.shape) < 0.5, -1.0, 1.0)
    points *= rng.gamma(law.dimension, float(law.scale), runs)[:, None]
    return points


def hits(rng: Rng, cells: int, chance: float) -> Integers:
    """Which of `cells` independent cells, each hit with this chance, are hit; in order."""
    if chance <= 0 or cells <= 0:
        return np.empty(0, dtype=np.int64)
    if chance >= 1:
        return np.arange(cells)
    if chance < _RARE:
        count = int(rng.binomial(cells, chance))
        if not count:
            return np.empty(0, dtype=np.int64)
        return np.sort(rng.choice(cells, count, replace=False, shuffle=False))
    places = [np.array([-1], dtype=np.int64)]
    while places[-1][-1] < cells:
        left = cells - int(places[-1][-1])
        some = int(left * chance + 6 * (left * chance) ** 0.5) + 8
        places.append(places[-1][-1] + np.cumsum(rng.geometric(chance, some)))
    found = np.concatenate(places[1:])
    return found[found < cells]


# --------------------------------------------------------------------------------------------------
# What many simulated runs look like: arrays, one row a run, or one entry an answer found.
#
# They hold what a release would have shown, in the same units. Simulations know the private
# answers, so nothing here is private and nothing here may be published about real people.


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Results of some runs, which can be joined with those of others."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All runs of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(_join([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def _join(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, Runs):
        return type(first).joined(values)
    return list(chain(*values)) if isinstance(first, list) else np.concatenate(values)


@dataclass(frozen=True, slots=True, eq=False)
class WinnerRuns(Runs):
    """Runs that have k winners each: their `indices`, one row a run."""

    indices: Integers

    def sums(self, values: Floats) -> Floats:
        """The sum over each run of values that have one entry a winner."""
        sums: Floats = values.sum(axis=1)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class TopKRuns(WinnerRuns):
    """Runs of a Noisy Top-K: `indices` and `gaps` as released, one row a run."""

    gaps: Floats


@dataclass(frozen=True, slots=True, eq=False)
class JointRuns(WinnerRuns):
    """Runs of a Joint Top-K: `indices` of the set, one row a run, and its lead in each run."""

    leads: Floats


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRuns(Runs):
    """Runs of a noisy histogram: all its noisy `values`, one row a run."""

    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RoutedRuns(TopKRuns):
    """Runs of the best method, each on its route: a number in the pipeline's `routes`.

    Gaps are not a number where a set was chosen, and its lead is none where winners were ranked.
    """

    leads: Floats
    routes: Integers


@dataclass(frozen=True, slots=True, eq=False)
class FoundRuns(Runs):
    """Runs that find as many answers as there are.

    One entry an answer found, run by run: `indices` and `gaps` are as released, and `run` says
    which run it belongs to. One entry a run: `found` answers, and the ε that was `spent` (as a
    float).
    """

    indices: Integers
    gaps: Floats
    found: Integers
    spent: Floats

    @property
    def run(self) -> Integers:
        """The run that each answer was found in."""
        return np.repeat(np.arange(self.found.size), self.found)

    def sums(self, values: Floats | Integers) -> Floats:
        """The sum over each run of values that have one entry an answer found."""
        totals = np.zeros(self.found.size)
        some = np.flatnonzero(self.found)
        if some.size:
            starts = self.found.cumsum() - self.found
            totals[some] = np.add.reduceat(values, starts[some], dtype=np.float64)
        return totals


@dataclass(frozen=True, slots=True, eq=False)
class HybridRuns(FoundRuns):
    """Runs of a Hybrid Top-K: the answers of each run come best first."""


@dataclass(frozen=True, slots=True, eq=False)
class AboveRuns(FoundRuns):
    """Runs of a Sparse Vector: the answers of each run come in the order asked.

    One entry an answer found more: `branch_of`, as released. One entry a run more: the `used`
    units of budget (exact), and the `processed` answers looked at.
    """

    branch_of: Integers
    used: Integers
    processed: Integers


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRuns(Runs):
    """Runs of a pipeline: what was selected, and for each selected answer what came of it.

    `measurements`, `estimates`, their `variances` as released and the `truth` have the shape of
    `selected.indices`.
    """

    selected: TopKRuns | JointRuns | AboveRuns
    measurements: Floats
    estimates: Floats
    truth: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRuns(Runs):
    """Runs of any other mechanism: what its program said in each of them."""

    outputs: list[Any]
