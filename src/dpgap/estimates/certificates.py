"""What leads prove: p-values of "this winner does not belong", free of charge.

Exponential noise is never negative, so the noise of a loser only makes it harder to win. It is also
memoryless. A winner that does not belong among the true top k has an answer no larger than some
loser's. So it won only by its own noise, and its lead over the best loser is fresh exponential
noise, for any answers. So e^(−lead/scale) is a p-value: how often noise alone would give a lead
this long to an item that does not belong. It is not the probability that the item is wrong. On
floored leads it is exact at the values that occur.

- *Top-K*: the lead is that over the best loser. The smallest lead gives the p-value of the whole
  set. An item that is tied with a loser does not belong.
- *Joint selection*: one lead, that of the set; it is the p-value of every member.
- *Sparse Vector*: the lead is the raw gap over the noisy threshold, minus the branch's margin if
  that is above 0. The noisy threshold is never below the true one.

If nobody lost, everything belongs, and p is 0. Laplace and staircase noise can be negative. Then
leads prove nothing, and there is no p-value.

A p-value is about one item. `belonging` says which of several belong, all at once.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpgap.exact.laws import Law, MemorylessLaw
from dpgap.exact.reals import Flags, Floats, without_float_errors


class Evidence(NamedTuple):
    """The leads of winners over what they had to beat, and the scale of the noise in them."""

    leads: tuple[float, ...]
    """One for each winner, one for all of them as a set, or none if nobody lost."""
    scales: tuple[Fraction, ...]
    """The scale of the exponential noise in each lead, in the same unit."""

    @classmethod
    def of(cls, leads: Sequence[float], laws: Sequence[Law]) -> "Evidence | None":
        """Make it from leads and the laws of their noise; None if this noise can be negative."""
        if any(law.signed or not isinstance(law, MemorylessLaw) for law in laws):
            return None
        return cls(tuple(map(float, leads)), tuple([law.scale for law in laws]))

    @without_float_errors
    def p_values(self, count: int) -> Floats:
        """The p-value of each of `count` winners, in the order of the leads.

        >>> Evidence((30.0, 0.0), (Fraction(10), Fraction(10))).p_values(2).round(4).tolist()
        [0.0498, 1.0]
        """
        if not self.leads:
            return np.zeros(count)
        scales = np.array(self.scales, dtype=np.float64)
        chances: Floats = np.exp(-np.maximum(np.array(self.leads), 0.0) / scales)
        return np.array(np.broadcast_to(chances, count))


def belonging(p_values: Floats, level: float) -> Flags:
    """Which of several items belong, so that all of it is right with confidence `level`.

    The smallest p-value must be small enough for all items, the next one for all but one, and so on
    until one is not (step-down Šidák). With many runs, each row is one run.

    >>> belonging(np.array([0.001, 0.06, 0.02]), 0.95).tolist()
    [True, False, True]
    """
    order = np.argsort(p_values, axis=-1, kind="stable")
    remaining = np.arange(p_values.shape[-1], 0, -1)
    limits = -np.expm1(np.log(level) / remaining)
    passes = np.take_along_axis(p_values, order, -1) <= limits
    belongs = np.zeros(p_values.shape, dtype=bool)
    np.put_along_axis(belongs, order, np.logical_and.accumulate(passes, axis=-1), -1)
    return belongs
