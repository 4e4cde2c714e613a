"""What all measurements have in common: how values get their noise, and what that comes to.

A measurement says what its noise is (`noise`), and how to draw it (`draws`). Unless it says
otherwise, every value gets a draw of its own, and that draw makes up for the value's change.

A pipeline measures what it selected on a grid that may be `finer` than the selection's.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap.budget.account import Account, Request, charged
from dpgap.data.private_counts import PrivateCounts, array_of, errors_without_answers
from dpgap.estimates.errors import MeasurementError, ValueLaw
from dpgap.exact.bits import Bits, secure_bits
from dpgap.exact.grid import MAX_STEPS, Grid
from dpgap.exact.laws import Noise, Scalar
from dpgap.exact.parameters import Rational, positive_rational
from dpgap.exact.reals import Floats, Integers, require_scale
from dpgap.exact.shells import ShellNoise, shells
from dpgap.releases.drawn import Values
from dpgap.releases.release import MeasuredValues, MechanismUsed, Promise

L = TypeVar("L", bound=ValueLaw)


class Selection(Protocol):
    """What found the answers to be measured, as far as a measurement needs to know it."""

    @property
    def sensitivity(self) -> Fraction: ...
    @property
    def grid(self) -> Fraction | None: ...


@dataclass(frozen=True, slots=True, init=False)
class Measurement(ABC, Generic[L]):
    """Values with noise; a frozen value itself, like every mechanism."""

    epsilon: Fraction
    sensitivity: Fraction
    grid: Fraction | None

    finer: ClassVar[int] = 1
    """How many steps a pipeline measures with, for one of its selection."""
    same_way: ClassVar[bool] = False
    """Whether the promise is for values that neighbouring data always move the same way."""
    lost: ClassVar[float] = 0.0
    """How much of a step noise on the grid is below zero on average; it is added again."""

    def __init__(
        self, epsilon: Rational, *, sensitivity: Rational = 1, grid: Rational | None = None
    ) -> None:
        keep = object.__setattr__
        keep(self, "epsilon", positive_rational("epsilon", epsilon))
        keep(self, "sensitivity", positive_rational("sensitivity", sensitivity))
        keep(self, "grid", Grid.read(grid).declared)
        require_scale(self.law_in_steps(1).scale)

    @classmethod
    def after(cls, selection: Selection, epsilon: Fraction) -> Self:
        """What measures the answers that were selected."""
        return cls(epsilon, **cls.on_finer_grid(selection))

    @classmethod
    def on_finer_grid(cls, selection: Selection) -> dict[str, Fraction]:
        """The sensitivity of the answers that were selected, and the grid to measure them on."""
        grid = Grid(selection.grid)
        whole = grid.up(selection.sensitivity) * grid.step
        return {"sensitivity": whole, "grid": grid.step / cls.finer}

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

    def law_in_steps(self, count: int) -> L:
        """The same noise, for values in whole grid steps."""
        return self.noise(Grid(self.grid).up(self.sensitivity) / self.epsilon, count)

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
        self, values: ArrayLike | PrivateCounts, *, account: Account | None = None
    ) -> MeasuredValues:
        """Measure `values` on secure exact noise and charge the `account`, if there is one.

        This is the only method that spends ε.
        """
        steps = self.prepare(values)
        with charged(account, Request(self.epsilon, self)) as charge:
            return charge.keep(self.build(self.draw_paid(steps)))

    def build(self, drawn: Values) -> MeasuredValues:
        """The release of what was drawn."""
        return MeasuredValues(
            values=self.lengths(drawn),
            epsilon=self.epsilon,
            promise=Promise(self.epsilon, self.sensitivity, self.same_way),
            error=self.error(drawn.values.size),
            rounding=Grid(self.grid).rounding,
            mechanisms=(MechanismUsed.of(self),),
        )

    def prepare(self, values: ArrayLike | PrivateCounts) -> Integers:
        """The values in steps; refused before anything is charged."""
        array = array_of(values, sensitivity=self.sensitivity, monotonic=self.same_way)
        steps = Grid(self.grid).steps(array, "values")
        require_scale(self.law_in_steps(steps.size).scale)
        return steps

    def require_room(self, steps: Integers) -> None:
        """Refuse answers, in a selection's steps, that would not fit on the finer grid."""
        most = MAX_STEPS // self.finer
        if int(steps.min()) < -most or int(steps.max()) > most:
            raise ValueError(
                f"answers must lie within ±2^{most.bit_length() - 1} grid steps: rescale them"
            )

    def draw_selected(self, steps: Integers) -> Values:
        """Measure answers given in a selection's steps; the caller has paid."""
        return self.draw_paid(steps * self.finer)

    def draw_paid(self, steps: Integers) -> Values:
        """Measure; the caller has paid."""
        return Values(steps + self.draws(steps.size, 1, secure_bits())[0])

    def lengths(self, drawn: Values | None) -> Floats:
        """What was measured, if anything was; the known mean that floors lose is added."""
        steps = np.empty(0) if drawn is None else drawn.values + self.lost
        values: Floats = np.multiply(steps, Grid(self.grid).width, dtype=np.float64)
        return values

    def error(self, count: int) -> MeasurementError:
        """What each of `count` released values may be off by."""
        return MeasurementError(self.law_in_steps(count), Grid(self.grid).step)

    def variance(self, count: int) -> float:
        """The variance of each of `count` released values."""
        return self.error(count).variance

    def half_width(self, count: int, level: float) -> float:
        """How far a released value is off at most, with confidence `level`."""
        return self.error(count).half_width(level)


@dataclass(frozen=True, slots=True, init=False)
class Joint(Measurement[ShellNoise]):
    """A measurement whose noise is drawn for all values together."""

    finer: ClassVar[int] = 16  # so that intervals need no rounding up

    def cost(self, noise: Sequence[Scalar], shifted: Sequence[Scalar]) -> Scalar:
        """What the alignment costs: not draw by draw, but by the largest coordinate alone."""
        return self.law(len(noise)).joint_cost(noise, shifted)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        return shells(self.law_in_steps(count), bits, runs)
