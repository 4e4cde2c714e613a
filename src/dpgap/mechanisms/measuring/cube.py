"""Cube: measure many values that may move either way, for much less than Laplace noise.

Neighbouring data can move each of k values by at most Δ, up or down, so their differences lie in
the cube [−Δ, Δ]^k. Noise with density ∝ e^(−ε·max |x|/Δ) hides them. The variance of each value is
(k+1)(k+2)Δ²/3ε², where Laplace noise has 2k²Δ²/ε²: a sixth of it for large k. Counts that always
move the same way do still better with `CountHull`.
"""

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
from dpgap.exact.bits import Bits, secure_bits
from dpgap.exact.draws import Integers, require_scale
from dpgap.exact.grid import on_grid, steps_up
from dpgap.exact.joint_draws import shells
from dpgap.exact.joint_laws import CubeNoise
from dpgap.exact.laws import Noise, Scalar
from dpgap.exact.parameters import Rational, positive_rational, power_of_two
from dpgap.releases.results import MeasuredValues, Promise


@public
@dataclass(frozen=True, slots=True, init=False)
class Cube:
    """Measure values of any kind together.

    What one person can change, each of k values by at most Δ, fills a *cube* with k dimensions.
    Noise of that shape hides it with a sixth of the variance of Laplace noise for large k.

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

    >>> release = Cube(epsilon=1000).release([120, -80, 33])
    >>> release.values.tolist()
    [120.0, -80.0, 33.0]
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

    def law(self, count: int) -> CubeNoise:
        """The noise for `count` values, all of them together."""
        return CubeNoise(self.sensitivity / self.epsilon, count)

    def law_in_steps(self, count: int) -> CubeNoise:
        """The same noise, for values in whole grid steps."""
        return CubeNoise(steps_up(self.sensitivity, self.grid) / self.epsilon, count)

    def run(self, values: Sequence[Scalar], noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every value plus its own coordinate."""
        law = self.law(len(values))
        return tuple(value + noise.draw(law) for value in values)

    def align(
        self,
        values: Sequence[Scalar],
        neighbour: Sequence[Scalar],
        noise: Sequence[Scalar],
        output: Sequence[Any],
    ) -> list[Scalar]:
        """The proof: each coordinate makes up for its own value's change, at most Δ."""
        return [before - after for before, after in zip(values, neighbour, strict=True)]

    def cost(self, noise: Sequence[Scalar], shifted: Sequence[Scalar]) -> Scalar:
        """What the alignment costs: not draw by draw, but by the largest coordinate alone."""
        return self.law(len(noise)).joint_cost(noise, shifted)

    @errors_without_answers
    def release(
        self, values: ArrayLike | PrivateAnswers, *, account: Account | None = None
    ) -> MeasuredValues:
        """Measure `values` on secure exact noise and charge the `account`, if there is one.

        This is the only method that spends ε.
        """
        array = opened(values, sensitivity=self.sensitivity)
        steps = on_grid(array, self.grid, "values")
        with charged(account, self.epsilon, self):
            return self._draw(steps)

    def _draw(self, steps: Integers) -> MeasuredValues:
        """Measure; the caller has paid."""
        noisy = steps + self.draws(steps.size, 1, secure_bits())[0]
        return MeasuredValues(
            mechanism=self,
            values=np.multiply(noisy, float(self.grid or 1), dtype=np.float64),
            epsilon=self.epsilon,
            promise=Promise(self.epsilon, self.sensitivity, False),
        )

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        """Exact noise for `count` values, in steps; one row for every run."""
        return shells(self.law_in_steps(count), bits, runs)

    def variance(self, count: int) -> float:
        """The variance of each of `count` released values."""
        return self.law_in_steps(count).value_variance * float(self.grid or 1) ** 2

    def half_width(self, count: int, level: float) -> float:
        """How far a released value is off at most, with confidence `level`."""
        return self.law_in_steps(count).value_half_width(level) * float(self.grid or 1)
