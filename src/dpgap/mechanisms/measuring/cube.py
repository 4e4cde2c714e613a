"""Cube: measure many values that may move either way, for much less than Laplace noise.

Neighbouring data can move each of k values by at most Δ, up or down, so their differences lie in
the cube [−Δ, Δ]^k. Noise with density ∝ e^(−ε·max |x|/Δ) hides them. The variance of each value is
(k+1)(k+2)Δ²/3ε², where Laplace noise has 2k²Δ²/ε²: a sixth of it for large k. Counts that always
move the same way do still better with `CountHull`.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpgap._package import public
from dpgap.exact.shells import CubeNoise
from dpgap.mechanisms.measuring.measurement import Joint


@public
@dataclass(frozen=True, slots=True, init=False)
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
