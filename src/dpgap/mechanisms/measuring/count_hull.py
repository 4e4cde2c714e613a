"""Count hull: measure many counts for little more than the price of one.

Adding a person to the data can only raise counts, each by at most Δ; taking one away can only
lower them. So the differences between neighbours lie in the hull of [0, Δ]^k and [−Δ, 0]^k, and
noise with density ∝ e^(−ε‖x‖/Δ), ‖x‖ = max(0, max x) − min(0, min x), is enough to hide them. The
variance of each value is (k+2)(k+3)Δ²/6ε², up to an eighth of a step, where Laplace noise has
2k²Δ²/ε²: a twelfth of it for large k.

There is a simpler way to look at it: draw one coordinate more, none of them negative, with
density ∝ e^(−ε·max u/Δ), and add uᵢ − u₀ to the i-th value.
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
from dpgap.exact.joint_laws import HullNoise
from dpgap.exact.laws import Noise, Scalar
from dpgap.exact.parameters import Rational, boolean, positive_rational, power_of_two
from dpgap.releases.results import MeasuredValues, Promise


@public
@dataclass(frozen=True, slots=True, init=False)
class CountHull:
    """Measure values that one person can only move the same way, such as counts.

    Such changes lie in a *hull*, the smallest convex shape around "all up by at most Δ" and "all
    down by at most Δ". It is smaller than the cube of all changes, so less noise hides them.

    Guarantee: pure ε-differential privacy of all the values together.

    Parameters
    ----------
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Must be True, here or in what `dpgap.counts` made: that one person can only move all values
        up, or all of them down. Otherwise the loss would be up to 2ε, so nothing is measured.
    sensitivity
        The most that one person can move any one value.
    grid
        A power of two, such as 0.25. Values are then real numbers, rounded to multiples of it;
        without it they must be whole.

    >>> release = CountHull(epsilon=1000, monotonic=True).release([120, 80, 33])
    >>> release.values.tolist()
    [120.0, 80.0, 33.0]
    """

    epsilon: Fraction
    monotonic: bool
    sensitivity: Fraction
    grid: Fraction | None

    def __init__(
        self,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "epsilon", positive_rational("epsilon", epsilon))
        keep(self, "monotonic", boolean("monotonic", monotonic))
        keep(self, "sensitivity", positive_rational("sensitivity", sensitivity))
        keep(self, "grid", None if grid is None else power_of_two("grid", grid))
        require_scale(self.law_in_steps(1).scale)

    def law(self, count: int) -> HullNoise:
        """The noise for `count` values, all of them together."""
        return HullNoise(self.sensitivity / self.epsilon, count + 1)

    def law_in_steps(self, count: int) -> HullNoise:
        """The same noise, for values in whole grid steps."""
        return HullNoise(steps_up(self.sensitivity, self.grid) / self.epsilon, count + 1)

    def run(self, values: Sequence[Scalar], noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every value gets its own coordinate, less one that all share."""
        law = self.law(len(values))
        shared = noise.draw(law)
        return tuple(value + noise.draw(law) - shared for value in values)

    def align(
        self,
        values: Sequence[Scalar],
        neighbour: Sequence[Scalar],
        noise: Sequence[Scalar],
        output: Sequence[Any],
    ) -> list[Scalar]:
        """The proof: shift each coordinate so that the neighbour gives the same output.

        Where values fall, each coordinate makes up for the fall. Where they rise, the shared one
        goes up by Δ and the others by what is left of Δ. So none goes down, all stay in the
        support, and the largest grows by at most Δ.
        """
        falling = all(after <= before for before, after in zip(values, neighbour, strict=True))
        rise: Scalar = 0 if falling else self.sensitivity
        changes = zip(values, neighbour, strict=True)
        return [rise, *(rise + before - after for before, after in changes)]

    def cost(self, noise: Sequence[Scalar], shifted: Sequence[Scalar]) -> Scalar:
        """What the alignment costs: not draw by draw, but by the largest coordinate alone."""
        return self.law(len(noise) - 1).joint_cost(noise, shifted)

    @errors_without_answers
    def release(
        self, values: ArrayLike | PrivateAnswers, *, account: Account | None = None
    ) -> MeasuredValues:
        """Measure `values` on secure exact noise and charge the `account`, if there is one.

        This is the only method that spends ε.
        """
        steps = self._accept(values)
        with charged(account, self.epsilon, self):
            return self._draw(steps)

    def _accept(self, values: ArrayLike | PrivateAnswers) -> Integers:
        """The values in steps; refused before anything is charged."""
        if not (self.monotonic or getattr(values, "monotonic", False) is True):
            raise ValueError(
                "monotonic must be True: the hull is private only for values that neighbouring "
                "data always move the same way, such as counts when a person is added or taken "
                "away. Say so with monotonic=True, or use Cube"
            )
        array = opened(values, sensitivity=self.sensitivity, monotonic=True)
        return on_grid(array, self.grid, "values")

    def _draw(self, steps: Integers) -> MeasuredValues:
        """Measure; the caller has paid."""
        noisy = steps + self.draws(steps.size, 1, secure_bits())[0]
        return MeasuredValues(
            mechanism=self,
            values=np.multiply(noisy, float(self.grid or 1), dtype=np.float64),
            epsilon=self.epsilon,
            promise=Promise(self.epsilon, self.sensitivity, True),
        )

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        """Exact noise for `count` values, in steps; one row for every run."""
        coordinates = shells(self.law_in_steps(count), bits, runs)
        return coordinates[:, 1:] - coordinates[:, :1]

    def variance(self, count: int) -> float:
        """The variance of each of `count` released values."""
        return self.law_in_steps(count).value_variance * float(self.grid or 1) ** 2

    def half_width(self, count: int, level: float) -> float:
        """How far a released value is off at most, with confidence `level`."""
        return self.law_in_steps(count).value_half_width(level) * float(self.grid or 1)
