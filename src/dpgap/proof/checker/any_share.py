"""A law for every way to share ε between the threshold and the answers.

In a Sparse Vector the cost of shifting a draw is affine in the threshold's share θ: the
threshold's grows with θ and the answers' falls. So the whole cost, a sum, is greatest at θ → 0 or
θ → 1, and what holds at both ends holds for all θ between.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpgap.exact.laws import Law, Scalar
from dpgap.proof.checker.numbers import Exact

_QUARTER = Fraction(1, 4)
_THREE_QUARTERS = Fraction(3, 4)


@dataclass(frozen=True, slots=True)
class AnyShare:
    """The laws of one draw at θ = ¼ and θ = ¾, standing for all shares."""

    at_quarter: Law
    at_three_quarters: Law

    @property
    def can_tie(self) -> bool:
        """Whether two draws may be equal."""
        return self.at_quarter.can_tie

    @property
    def monotone_cost(self) -> bool:
        """Whether a farther shift is known to cost no less."""
        return self.at_quarter.monotone_cost

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return self.at_quarter.supports(value)

    def cost(self, shift: Scalar) -> tuple[Scalar, Scalar]:
        """The cost as θ → 0 and as θ → 1, along the line through ¼ and ¾."""
        low, high = self.at_quarter.cost(shift), self.at_three_quarters.cost(shift)
        return (3 * low - high) / 2, (3 * high - low) / 2


def for_any_share(law_at: Callable[[Fraction], Law]) -> AnyShare:
    """The law that `law_at` gives for each θ, once its cost is seen to be affine in θ.

    A rate is a quotient of polynomials in θ of low degree; if it lies on one line at seven points,
    it is that line.
    """
    low, high = 1 / law_at(_QUARTER).scale, 1 / law_at(_THREE_QUARTERS).scale
    for eighths in range(1, 8):
        share = Fraction(eighths, 8)
        line = low + (high - low) * (share - _QUARTER) / (_THREE_QUARTERS - _QUARTER)
        if 1 / law_at(share).scale != line:
            raise ValueError("the cost is not affine in the threshold's share")
    return AnyShare(law_at(_QUARTER), law_at(_THREE_QUARTERS))


def corners(laws: Sequence[Any], shifts: Sequence[Scalar]) -> list[Scalar]:
    """The whole cost of the shifts; where it depends on θ, at both ends."""
    costs = [law.cost(shift) for law, shift in zip(laws, shifts, strict=True)]
    if not any(isinstance(cost, tuple) for cost in costs):
        return [sum(costs, Fraction(0))]
    return [
        sum((cost[end] if isinstance(cost, tuple) else cost for cost in costs), Fraction(0))
        for end in (0, 1)
    ]


def at_most(laws: Sequence[Any], ranges: Sequence[tuple[Any, Any]], allowed: Exact) -> bool:
    """Whether shifts anywhere in their ranges are certain to cost no more than allowed.

    Only for laws that are known to charge more for farther shifts; others get no answer here.
    """
    if not all(law.monotone_cost for law in laws):
        return False
    if any(high == math.inf for _, high in ranges):
        return False
    farthest = [max(abs(low), abs(high)) for low, high in ranges]
    return all(total <= allowed for total in corners(laws, farthest))
