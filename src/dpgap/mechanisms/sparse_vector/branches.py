"""The noise of a Sparse Vector: the threshold's, and that of its branches.

A *branch* is one way to be above, with noise, a price and a margin of its own.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpgap.estimates.certificates import Evidence
from dpgap.exact.grid import Grid
from dpgap.exact.laws import Law, Scalar, law_named
from dpgap.exact.reals import Floats, Integers, require_scale

if TYPE_CHECKING:
    from dpgap.mechanisms.sparse_vector.mechanism import SparseVector


class Branch(NamedTuple):
    """One way to be above: what it charges, the noise it adds, the gap that it demands."""

    number: int
    units: int
    charge: Fraction
    law: Law
    margin: Scalar

    def in_steps(self, steps: Fraction) -> "Branch":
        """The same branch, for answers in whole grid steps; so many are one."""
        return self._replace(law=self.law.scaled(steps), margin=int(self.margin * steps))


class Outcome(NamedTuple):
    """What is said of one answer: the branch that it cleared (None if none) and its gap."""

    branch: int | None
    gap: Scalar


def laws_of(mechanism: "SparseVector", branches: int) -> tuple[Law, tuple[Branch, ...]]:
    """The threshold's noise and the branches."""
    grid = Grid(mechanism.grid)
    steps = grid.up(mechanism.sensitivity)
    delta = steps * grid.step
    doubled = 1 if mechanism.monotonic else 2
    own_charge = mechanism.threshold_share * mechanism.epsilon
    dearest = (mechanism.epsilon - own_charge) / mechanism.k
    for charge in (own_charge, dearest, dearest / (1 << branches - 1)):
        require_scale(doubled * steps / charge, Fraction(steps))
    threshold_law = law_named(mechanism.noise, delta / own_charge, delta)
    ways = []
    for number in range(1, branches + 1):
        units = 1 << (number - 1)
        charge = dearest * units / (1 << (branches - 1))
        law = law_named(mechanism.noise, doubled * delta / charge, delta)
        demanded = _margin(law, threshold_law, grid, is_last=number == branches)
        ways.append(Branch(number, units, charge, law, demanded))
    return threshold_law, tuple(ways)


def limits_of(ways: Sequence[Branch], capacity: int, drain: bool) -> tuple[int, ...]:
    """For each branch, the most units that may be used before it is tried.

    As in the paper, nothing is tried once the dearest branch can no longer be paid; a run that
    drains goes on with the branches that can.
    """
    return tuple(capacity - (way.units if drain else ways[-1].units) for way in ways)


def evidence_of(ways: Sequence[Branch], branch_of: Integers, raw_gaps: Floats) -> Evidence | None:
    """What raw gaps over the noisy threshold prove; its noise is of the branches' kind."""
    if ways[0].law.signed:
        return None
    cleared = [ways[branch - 1] for branch in branch_of.tolist()]
    demanded = np.array([max(float(way.margin), 0.0) for way in cleared])
    return Evidence.of((raw_gaps - demanded).tolist(), [way.law for way in cleared])


def best_threshold_share(k: int, monotonic: bool) -> Fraction:
    """The share of ε for the threshold that makes gaps most accurate, as a rational.

    >>> best_threshold_share(1, monotonic=True)
    Fraction(1, 2)
    """
    charged_answers = k if monotonic else 2 * k
    best = Fraction(1 / (1 + charged_answers ** (2 / 3))).limit_denominator(1 << 20)
    return max(best, Fraction(1, 1 << 20))


def _margin(law: Law, threshold_law: Law, grid: Grid, *, is_last: bool) -> Fraction:
    """The gap to demand: nothing on average for the last branch, 2 standard deviations before.

    Any margin that is fixed beforehand is private. This one is rounded up to the grid.
    """
    law, threshold_law = law.scaled(1 / grid.step), threshold_law.scaled(1 / grid.step)
    centre = law.floor_mean - threshold_law.floor_mean
    deviations = 0 if is_last else 2
    return math.ceil(centre + deviations * math.sqrt(law.variance)) * grid.step
