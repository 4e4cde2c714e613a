"""Laplace measurement: the values themselves, each with noise.

Releasing m values, each of which neighbouring data can move by Δ, takes noise of scale mΔ/ε on
each. m is the number of values actually measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpgap import public
from dpgap.budget.account import Account, charged
from dpgap.data.private_counts import PrivateAnswers, opened
from dpgap.data.tracebacks import errors_without_answers
from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Integers, floors, require_scale
from dpgap.exact.grid import on_grid, steps_up
from dpgap.exact.laws import LaplaceNoise, Noise, Scalar
from dpgap.exact.parameters import Rational, confidence_level, positive_rational, power_of_two
from dpgap.releases.results import MeasuredValues, Promise


@public
@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Measure values with Laplace noise.

    Guarantee: pure ε-differential privacy of all the values together.

    Parameters
    ----------
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    sensitivity
        The most that one person can move any one value.
    grid
        A power of two, such as 0.25. Values are then real numbers, rounded to multiples of it;
        without it they must be whole.

    >>> release = Laplace(epsilon=1000).release([120, 80])
    >>> release.values.size, release.variance < 1
    (2, True)
    """

    epsilon: Fraction
    sensitivity: Fraction
    grid: Fraction | None

    def __init__(
        self, epsilon: Rational, *, sensitivity: Rational = 1, grid: Rational | None = None
    ) -> None:
        keep = object.__setattr__
        keep(self, "epsilon", positive_rational("epsilon", epsilon))
        keep(self, "sensitivity", positive_rational("sensitivity", sensitivity))
        keep(self, "grid", None if grid is None else power_of_two("grid", grid))
        require_scale(self.law_in_steps(1).scale)

    def law(self, count: int) -> LaplaceNoise:
        """The noise that each of `count` values gets."""
        return LaplaceNoise(count * self.sensitivity / self.epsilon)

    def law_in_steps(self, count: int) -> LaplaceNoise:
        """The same noise, for values in whole grid steps."""
        return LaplaceNoise(count * steps_up(self.sensitivity, self.grid) / self.epsilon)

    def run(self, values: Sequence[Scalar], noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every value plus its own noise."""
        law = self.law(len(values))
        return tuple(value + noise.draw(law) for value in values)

    def align(
        self,
        values: Sequence[Scalar],
        neighbour: Sequence[Scalar],
        noise: Sequence[Scalar],
        output: Sequence[Any],
    ) -> list[Scalar]:
        """The proof: each draw makes up for its own value's change, at most Δ."""
        return [before - after for before, after in zip(values, neighbour, strict=True)]

    @errors_without_answers
    def release(
        self, values: ArrayLike | PrivateAnswers, *, account: Account | None = None
    ) -> MeasuredValues:
        """Measure `values` on secure exact noise and charge the `account`, if there is one.

        This is the only method that spends ε.
        """
        array = opened(values, sensitivity=self.sensitivity)
        steps = on_grid(array, self.grid, "values")
        require_scale(self.law_in_steps(steps.size).scale)
        with charged(account, self.epsilon, self):
            return self._draw(steps)

    def _draw(self, steps: Integers) -> MeasuredValues:
        """Measure; the caller has paid."""
        law = self.law_in_steps(steps.size)
        noisy = steps + floors(law, secure_bits(), steps.size)
        return MeasuredValues(
            mechanism=self,
            values=np.multiply(noisy - law.floor_mean, float(self.grid or 1), dtype=np.float64),
            epsilon=self.epsilon,
            promise=Promise(self.epsilon, self.sensitivity, False),
        )

    def variance(self, count: int) -> float:
        """The variance of each of `count` released values."""
        return self.law_in_steps(count).floor_variance * float(self.grid or 1) ** 2

    def half_width(self, count: int, level: float) -> float:
        """How far a released value is off at most, with confidence `level`."""
        scale = float(self.law_in_steps(count).scale)
        steps = max(1, math.ceil(-scale * math.log1p(-confidence_level(level))))
        return (steps - 0.5) * float(self.grid or 1)
