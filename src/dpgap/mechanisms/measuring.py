"""Measurements: how values get their noise, and how large their errors are.

A measurement says what its noise is (`noise`), and how to draw it (`draws`). Unless it says
otherwise, every value gets a draw of its own, and that draw makes up for the value's change.

A pipeline measures what it selected on a grid that may be `finer` than the selection's.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.private_counts import PrivateCounts, array_of, errors_without_answers
from dpgap.estimates.errors import MeasurementError
from dpgap.exact.bits import Bits, secure_bits
from dpgap.exact.grid import MAX_STEPS, Grid, read_grid
from dpgap.exact.laws import LaplaceNoise, Noise, Scalar, Vector
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    boolean,
    declared,
    parameter,
    positive_rational,
    remembered,
)
from dpgap.exact.reals import Floats, Integers, require_scale
from dpgap.exact.shells import CubeNoise, HullNoise, ShellNoise, ValueLaw, shells
from dpgap.mechanisms.mechanism import Claims, Mechanism
from dpgap.releases.drawn import ReadOff, Values
from dpgap.releases.release import MeasuredValues, MechanismUsed, Promise

L = TypeVar("L", bound=ValueLaw)


class Measuring(Mechanism[Integers, MeasuredValues]):
    """A mechanism that adds noise to values."""

    __slots__ = ()

    grid: Fraction | None
    lost: ClassVar[float] = 0.0
    """How much of a step noise on the grid is below zero on average; it is added again."""

    @property
    @abstractmethod
    def promise(self) -> Promise:
        """The promise of a release, and its condition."""

    @abstractmethod
    def error(self, count: int = 1) -> MeasurementError:
        """The error of each of `count` released values."""

    @abstractmethod
    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        """The values in steps; refused before anything is charged."""

    @errors_without_answers
    def release(
        self, values: ArrayLike | PrivateCounts, *, account: Account | None = None
    ) -> MeasuredValues:
        """Measure `values` on secure exact noise and charge the `account`, if there is one.

        This is the only method that spends ε.
        """
        return self._release_prepared(self.steps_of(values), account)

    def lengths(self, drawn: Values | ReadOff | None) -> Floats:
        """What was measured, if anything was; the known mean that floors lose is added."""
        steps = np.empty(0) if drawn is None else drawn.values + self.lost
        return np.multiply(steps, Grid(self.grid).width, dtype=np.float64)

    def build(self, drawn: Values) -> MeasuredValues:
        """The release of what was drawn."""
        return MeasuredValues(
            values=self.lengths(drawn),
            epsilon=self.epsilon,
            promise=self.promise,
            error=self.error(drawn.values.size),
            rounding=Grid(self.grid).rounding,
            mechanisms=(MechanismUsed.of(self),),
        )


def _require_scale(measurement: Any) -> Fraction:
    epsilon: Fraction = measurement.epsilon
    require_scale(Grid(measurement.grid).up(measurement.sensitivity) / epsilon)
    return epsilon


@declared()
class Measurement(Measuring, Generic[L]):
    """Values with noise; a frozen value itself, like every mechanism."""

    epsilon: Exact = parameter(positive_rational, then=_require_scale)
    _: KW_ONLY
    sensitivity: Exact = parameter(positive_rational, default=1)
    grid: ExactOrNone = parameter(read_grid, default=None)

    finer: ClassVar[int] = 1
    """How many steps a pipeline measures with, for one of its selection."""
    same_way: ClassVar[bool] = False
    """Whether the promise is for values that neighbouring data always move the same way."""

    @classmethod
    def after(cls, selection: Claims, epsilon: Fraction) -> Self:
        """The measurement of what a selection finds, for the same answers."""
        grid = Grid(selection.grid)
        own: dict[str, Any] = {"monotonic": True} if cls.same_way else {}
        whole = grid.up(selection.sensitivity) * grid.step
        return cls(epsilon, sensitivity=whole, grid=grid.step / cls.finer, **own)

    @staticmethod
    @abstractmethod
    def noise(scale: Fraction, count: int) -> L:
        """The noise for `count` values, where the scale for one is sensitivity over ε."""

    @abstractmethod
    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        """Exact noise for `count` values, in steps; one row for every run."""

    def law(self, count: int) -> L:
        """The noise for `count` values."""
        return self.noise(self.sensitivity / self.epsilon, count)

    @remembered
    def law_in_steps(self, count: int) -> L:
        """The same noise, for values in whole grid steps."""
        return self.noise(Grid(self.grid).up(self.sensitivity) / self.epsilon, count)

    def run(self, values: Vector, noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every value plus its own noise."""
        law = self.law(len(values))
        return tuple(value + noise.draw(law) for value in values)

    def align(self, values: Vector, neighbour: Vector, noise: Vector, output: Vector) -> Vector:
        """The proof: each draw makes up for its own value's change, at most Δ."""
        return [before - after for before, after in zip(values, neighbour, strict=True)]

    @property
    def promise(self) -> Promise:
        return Promise(self.epsilon, self.sensitivity, self.same_way)

    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        array = array_of(values, sensitivity=self.sensitivity, monotonic=self.same_way)
        steps = Grid(self.grid).steps(array, "values")
        require_scale(self.law_in_steps(steps.size).scale)
        return steps

    def require_room(self, steps: Integers) -> None:
        """Refuse answers, in a selection's steps, that would not fit on the finer grid."""
        most = MAX_STEPS // self.finer
        if int(steps.min(initial=0)) < -most or int(steps.max(initial=0)) > most:
            raise ValueError(
                f"answers must lie within ±2^{most.bit_length() - 1} grid steps: rescale them"
            )

    def draw_paid(self, steps: Integers, finer: int = 1) -> Values:
        """Measure; the caller has paid. Steps may be those of a selection on a coarser grid."""
        return Values(steps * finer + self.draws(steps.size, 1, secure_bits())[0])

    @remembered
    def error(self, count: int = 1) -> MeasurementError:
        return MeasurementError(self.law_in_steps(count), Grid(self.grid).step)

    def variance(self, count: int) -> float:
        """The variance of each of `count` released values."""
        return self.error(count).variance

    def half_width(self, count: int, level: float) -> float:
        """How far a released value is off at most, with confidence `level`."""
        return self.error(count).half_width(level)


class Joint(Measurement[ShellNoise]):
    """A measurement whose noise is drawn for all values together."""

    __slots__ = ()

    finer: ClassVar[int] = 16  # so that intervals need no rounding up

    def cost(self, noise: Vector, shifted: Vector) -> Scalar:
        """What the alignment costs: not draw by draw, but by the largest coordinate alone."""
        return self.law(len(noise)).joint_cost(noise, shifted)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        return shells(self.law_in_steps(count), bits, runs)


# --------------------------------------------------------------------------------------------------
# Laplace measurement: the values themselves, each with noise.
#
# Releasing m values, each of which neighbouring data can move by Δ, takes noise of scale mΔ/ε on
# each. m is the number of values actually measured.


@public
@declared()
class Laplace(Measurement[LaplaceNoise]):
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

    lost: ClassVar[float] = 0.5

    @staticmethod
    def noise(scale: Fraction, count: int) -> LaplaceNoise:
        """The noise that each of `count` values gets."""
        return LaplaceNoise(count * scale)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        return self.law_in_steps(count).floors(bits, runs, count)


# --------------------------------------------------------------------------------------------------
# Cube: measure many values that may move either way, for much less than Laplace noise.
#
# Neighbouring data can move each of k values by at most Δ, up or down, so their differences lie in
# the cube [−Δ, Δ]^k. Noise with density ∝ e^(−ε·max |x|/Δ) hides them. The variance of each value
# is (k+1)(k+2)Δ²/3ε², where Laplace noise has 2k²Δ²/ε²: a sixth of it for large k. Counts that
# always move the same way do still better with `CountHull`.


@public
@declared()
class Cube(Joint):
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

    @staticmethod
    def noise(scale: Fraction, count: int) -> CubeNoise:
        """The noise for `count` values, all of them together."""
        return CubeNoise(scale, count)


# --------------------------------------------------------------------------------------------------
# Count hull: measure many counts for little more than the price of one.
#
# Adding a person to the data can only raise counts, each by at most Δ; taking one away can only
# lower them. So the differences between neighbours lie in the hull of [0, Δ]^k and [−Δ, 0]^k, and
# noise with density ∝ e^(−ε‖x‖/Δ), ‖x‖ = max(0, max x) − min(0, min x), is enough to hide them. The
# variance of each value is (k+2)(k+3)Δ²/6ε², up to an eighth of a step, where Laplace noise has
# 2k²Δ²/ε²: a twelfth of it for large k.
#
# There is a simpler way to look at it: draw one coordinate more, none of them negative, with
# density ∝ e^(−ε·max u/Δ), and add uᵢ − u₀ to the i-th value.


@public
@declared()
class CountHull(Joint):
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

    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)

    same_way: ClassVar[bool] = True

    @staticmethod
    def noise(scale: Fraction, count: int) -> HullNoise:
        """The noise for `count` values, all of them together."""
        return HullNoise(scale, count + 1)

    def run(self, values: Vector, noise: Noise) -> tuple[Scalar, ...]:
        """The algorithm: every value gets its own coordinate, less one that all share."""
        law = self.law(len(values))
        shared = noise.draw(law)
        return tuple(value + noise.draw(law) - shared for value in values)

    def align(self, values: Vector, neighbour: Vector, noise: Vector, output: Vector) -> Vector:
        """The proof: shift each coordinate so that the neighbour gives the same output.

        Where values fall, each coordinate makes up for the fall. Where they rise, the shared one
        goes up by Δ and the others by what is left of Δ. So none goes down, all stay in the
        support, and the largest grows by at most Δ.
        """
        falling = all(after <= before for before, after in zip(values, neighbour, strict=True))
        rise: Scalar = 0 if falling else self.sensitivity
        changes = zip(values, neighbour, strict=True)
        return [rise, *(rise + before - after for before, after in changes)]

    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        if not (self.monotonic or getattr(values, "monotonic", False) is True):
            raise ValueError(
                "monotonic must be True: the hull is private only for values that neighbouring "
                "data always move the same way, such as counts when a person is added or taken "
                "away. Say so with monotonic=True, or use Cube"
            )
        return Measurement.steps_of(self, values)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        coordinates = shells(self.law_in_steps(count), bits, runs)
        return coordinates[:, 1:] - coordinates[:, :1]
