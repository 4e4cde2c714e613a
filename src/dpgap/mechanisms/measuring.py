"""Measurements: how values get their noise, and how large their errors are.

A measurement states its noise (`noise`), and how to draw it (`draws`). By default every value gets
its own draw, and in the proof this draw cancels the value's change.

A pipeline measures its winners on a grid that may be `finer` than the selection's.

- *Laplace*: if neighbouring data can move each of m values by Δ, each value needs noise of scale
  mΔ/ε. m is the number of values that are measured. The variance of each is 2m²Δ²/ε².
- *Cube*, for many values that may move up or down: neighbouring data can move each of k values by
  at most Δ, up or down, so their differences lie in the cube [−Δ, Δ]^k. Noise with density
  ∝ e^(−ε·max |x|/Δ) hides them. The variance of each value is (k+1)(k+2)Δ²/3ε², a sixth of that of
  Laplace noise for large k.
- *Count hull*, for many counts: one more person can only raise counts, each by at most Δ; one less
  person can only lower them. So the differences between neighbours lie in the hull of [0, Δ]^k and
  [−Δ, 0]^k. Noise with density ∝ e^(−ε‖x‖/Δ), ‖x‖ = max(0, max x) − min(0, min x), hides them. The
  variance of each value is (k+2)(k+3)Δ²/6ε², a twelfth of that of Laplace noise for large k; whole
  steps make it about a sixth of a step² less. A simpler equivalent: draw k + 1 coordinates u ≥ 0
  with density ∝ e^(−ε·max u/Δ), and add uᵢ − u₀ to the i-th value.
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
from dpgap.releases.detail import Detail, MechanismUsed, Promise
from dpgap.releases.drawn import ReadOff, Values
from dpgap.releases.release import MeasuredValues

L = TypeVar("L", bound=ValueLaw)


class ValueMechanism(Mechanism[Integers, MeasuredValues]):
    """A mechanism that adds noise to values."""

    __slots__ = ()

    grid: Fraction | None
    lost: ClassVar[float] = 0.0
    """Flooring lowers noise by this part of a step on average. `lengths` adds it again."""

    @property
    @abstractmethod
    def promise(self) -> Promise:
        """The guarantee of a release, and its conditions."""

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

    def lengths(self, draw: Values | ReadOff | None) -> Floats:
        """The measured values, if there are any, plus the known mean that floors lose."""
        if draw is None:
            return np.empty(0)
        steps = draw.values + self.lost
        lengths: Floats = np.multiply(steps, Grid(self.grid).width, dtype=np.float64)
        return lengths

    def build(self, draw: Values) -> MeasuredValues:
        """The release of what was drawn."""
        return MeasuredValues(
            cost=self.cost,
            values=self.lengths(draw),
            detail=Detail(
                promise=self.promise,
                mechanisms=(MechanismUsed.of(self),),
                measured_by=self.error(draw.values.size),
                rounding=Grid(self.grid).rounding,
            ),
        )


def _require_scale(measurement: Any) -> Fraction:
    epsilon: Fraction = measurement.epsilon
    require_scale(Grid(measurement.grid).up(measurement.sensitivity) / epsilon)
    return epsilon


@declared()
class Measurement(ValueMechanism, Generic[L]):
    """A mechanism that adds noise to values, all with the same law."""

    epsilon: Exact = parameter(positive_rational, then=_require_scale)
    _: KW_ONLY
    sensitivity: Exact = parameter(positive_rational, default=1)
    grid: ExactOrNone = parameter(read_grid, default=None)

    finer: ClassVar[int] = 1
    """The number of measurement steps in one step of the selection, in a pipeline."""
    same_way: ClassVar[bool] = False
    """Whether the guarantee needs values that neighbouring data move in the same direction."""

    @classmethod
    def after(cls, selection: Claims, epsilon: Fraction) -> Self:
        """The measurement of the winners of a selection, for the same answers."""
        grid = Grid(selection.grid)
        claims: dict[str, Any] = {}
        if cls.same_way:
            claims["monotonic"] = True
        sensitivity = grid.up(selection.sensitivity) * grid.step
        return cls(epsilon, sensitivity=sensitivity, grid=grid.step / cls.finer, **claims)

    @staticmethod
    @abstractmethod
    def noise(scale: Fraction, count: int) -> L:
        """The noise for `count` values; `scale` is sensitivity/ε, the scale for one value."""

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
        """The proof: each draw cancels the change of its value, at most Δ."""
        return [before - after for before, after in zip(values, neighbour, strict=True)]

    @property
    def promise(self) -> Promise:
        return Promise(self.cost, self.sensitivity, self.same_way)

    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        array = array_of(values, sensitivity=self.sensitivity, monotonic=self.same_way)
        steps = Grid(self.grid).steps(array, "values")
        require_scale(self.law_in_steps(steps.size).scale)
        return steps

    def require_room(self, steps: Integers) -> None:
        """Refuse answers, in a selection's steps, that would not fit on the finer grid."""
        limit = MAX_STEPS // self.finer
        if int(steps.min(initial=0)) < -limit or int(steps.max(initial=0)) > limit:
            power = limit.bit_length() - 1
            raise ValueError(f"answers must lie within ±2^{power} grid steps: rescale them")

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
        """The most that a released value is off, with confidence `level`."""
        return self.error(count).half_width(level)


class Joint(Measurement[ShellNoise]):
    """A measurement whose noise is drawn for all values together."""

    __slots__ = ()

    finer: ClassVar[int] = 16  # with so fine a grid, rounding up hardly widens intervals

    def joint_cost(self, noise: Vector, shifted: Vector) -> Scalar:
        """The cost of the alignment: it depends only on the largest coordinate."""
        return self.law(len(noise)).joint_cost(noise, shifted)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        return shells(self.law_in_steps(count), bits, runs)


@public
@declared()
class Laplace(Measurement[LaplaceNoise]):
    """Measure values with Laplace noise.

    Guarantee: pure ε-differential privacy of all the values together.

    Parameters
    ----------
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    sensitivity
        The most that one person can move any one value.
    grid
        A power of two, such as 0.25: values may be real numbers, and are rounded to multiples of
        it. Without a grid, values must be whole numbers.

    >>> release = Laplace(epsilon=1000).release([120, 80])
    >>> release.values.size, release.variance < 1
    (2, True)
    """

    lost: ClassVar[float] = 0.5

    @staticmethod
    def noise(scale: Fraction, count: int) -> LaplaceNoise:
        """The noise of each of `count` values."""
        return LaplaceNoise(count * scale)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        return self.law_in_steps(count).floors(bits, runs, count)


@public
@declared()
class Cube(Joint):
    """Measure values of any kind together.

    One person can change each of k values by at most Δ. All such changes fill a *cube* with k
    dimensions. Noise of this shape hides them. For large k it has a sixth of the variance of
    Laplace noise.

    Guarantee: pure ε-differential privacy of all the values together.

    Parameters
    ----------
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    sensitivity
        The most that one person can move any one value.
    grid
        A power of two, such as 0.25: values may be real numbers, and are rounded to multiples of
        it. Without a grid, values must be whole numbers.

    >>> release = Cube(epsilon=1000).release([120, -80, 33])
    >>> release.values.tolist()
    [120.0, -80.0, 33.0]
    """

    @staticmethod
    def noise(scale: Fraction, count: int) -> CubeNoise:
        """The noise for `count` values, all of them together."""
        return CubeNoise(scale, count)


@public
@declared()
class CountHull(Joint):
    """Measure values that one person can only move in the same direction, such as counts.

    Such changes lie in a *hull*, the smallest convex shape around "all up by at most Δ" and "all
    down by at most Δ". It is smaller than the cube of all changes, so less noise hides them.

    Guarantee: pure ε-differential privacy of all the values together.

    Parameters
    ----------
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Must be True, here or in the counts that `dpgap.counts` made: one person can only move all
        values up, or all of them down. Otherwise the release would cost up to 2ε, so it is refused.
    sensitivity
        The most that one person can move any one value.
    grid
        A power of two, such as 0.25: values may be real numbers, and are rounded to multiples of
        it. Without a grid, values must be whole numbers.

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
        """The algorithm: add to every value its own coordinate, minus one that all share."""
        law = self.law(len(values))
        shared = noise.draw(law)
        return tuple(value + noise.draw(law) - shared for value in values)

    def align(self, values: Vector, neighbour: Vector, noise: Vector, output: Vector) -> Vector:
        """The proof: shift each coordinate so that the neighbour gives the same output.

        If values fall, each coordinate rises by its value's fall. If values rise, the shared
        coordinate rises by Δ, and each other one by Δ minus its value's rise. So no coordinate
        falls, all stay in the support, and the largest rises by at most Δ.
        """
        falling = all(after <= before for before, after in zip(values, neighbour, strict=True))
        rise: Scalar = 0 if falling else self.sensitivity
        changes = zip(values, neighbour, strict=True)
        return [rise, *(rise + before - after for before, after in changes)]

    def steps_of(self, values: ArrayLike | PrivateCounts) -> Integers:
        if not (self.monotonic or getattr(values, "monotonic", False) is True):
            raise ValueError(
                "monotonic must be True: the hull is private only for values that neighbouring "
                "data always move in the same direction, such as counts if a person is added or "
                "removed. Say so with monotonic=True, or use Cube"
            )
        return Measurement.steps_of(self, values)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        coordinates = shells(self.law_in_steps(count), bits, runs)
        return coordinates[:, 1:] - coordinates[:, :1]
