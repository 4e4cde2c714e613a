"""Laplace measurement: the values themselves, each with noise.

Releasing m values, each of which neighbouring data can move by Δ, takes noise of scale mΔ/ε on
each. m is the number of values actually measured.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpgap._package import public
from dpgap.exact.bits import Bits
from dpgap.exact.laws import LaplaceNoise
from dpgap.exact.reals import Integers
from dpgap.mechanisms.measuring.measurement import Measurement


@public
@dataclass(frozen=True, slots=True, init=False)
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
