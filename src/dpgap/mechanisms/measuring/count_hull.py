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
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.data.private_counts import PrivateCounts
from dpgap.exact.bits import Bits
from dpgap.exact.laws import Noise, Scalar
from dpgap.exact.parameters import Rational, boolean
from dpgap.exact.reals import Integers
from dpgap.exact.shells import HullNoise
from dpgap.mechanisms.measuring.measurement import Joint, Measurement, Selection


@public
@dataclass(frozen=True, slots=True, init=False)
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

    monotonic: bool

    same_way: ClassVar[bool] = True

    def __init__(
        self,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        grid: Rational | None = None,
    ) -> None:
        Measurement.__init__(self, epsilon, sensitivity=sensitivity, grid=grid)
        object.__setattr__(self, "monotonic", boolean("monotonic", monotonic))

    @classmethod
    def after(cls, selection: Selection, epsilon: Fraction) -> Self:
        """What measures the answers that were selected; the selection knows that they fit."""
        return cls(epsilon, monotonic=True, **cls.on_finer_grid(selection))

    @staticmethod
    def noise(scale: Fraction, count: int) -> HullNoise:
        """The noise for `count` values, all of them together."""
        return HullNoise(scale, count + 1)

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

    def prepare(self, values: ArrayLike | PrivateCounts) -> Integers:
        if not (self.monotonic or getattr(values, "monotonic", False) is True):
            raise ValueError(
                "monotonic must be True: the hull is private only for values that neighbouring "
                "data always move the same way, such as counts when a person is added or taken "
                "away. Say so with monotonic=True, or use Cube"
            )
        return Measurement.prepare(self, values)

    def draws(self, count: int, runs: int, bits: Bits) -> Integers:
        coordinates = Joint.draws(self, count, runs, bits)
        return coordinates[:, 1:] - coordinates[:, :1]
