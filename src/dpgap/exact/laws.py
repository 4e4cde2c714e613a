"""The laws of noise that dpgap ships, and their names.

To add one, write its class and enter it in `LAWS`. What a law must say of itself is in
`dpgap.exact.law`.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.draws import Floats, decimals
from dpgap.exact.law import (
    Law,
    MemorylessLaw,
    Noise,
    RealLaw,
    Scalar,
    geometric_mean,
    geometric_variance,
    signed_exponentials,
)
from dpgap.exact.spreads import laplace_farthest_tail, laplace_spread_tail
from dpgap.exact.staircase import StaircaseNoise

__all__ = ["Law", "MemorylessLaw", "Noise", "RealLaw", "Scalar", "StaircaseNoise"]  # as well

_LN_2 = math.log(2)


@dataclass(frozen=True, slots=True)
class LaplaceNoise(MemorylessLaw):
    """Two-sided exponential noise.

    >>> round(LaplaceNoise(Fraction(3)).variance, 6)
    18.0
    >>> round(LaplaceNoise(Fraction(3)).floor_variance, 6)
    18.084255
    """

    name: ClassVar[str] = "laplace"
    signed: ClassVar[bool] = True

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return 2 * float(self.scale) ** 2

    def tail(self, distance: ArrayLike) -> Floats:
        at: Floats = np.asarray(distance, dtype=np.float64)
        half = np.exp(-np.abs(at) / float(self.scale)) / 2
        return np.where(at >= 0, half, 1 - half)

    def density(self, at: Floats) -> Floats:
        scale = float(self.scale)
        density: Floats = np.exp(-np.abs(at) / scale) / (2 * scale)
        return density

    @property
    def floor_mean(self) -> float:
        return -0.5

    @property
    def floor_variance(self) -> float:
        return 2 * geometric_variance(self.scale) + 0.25

    def floor_mass(self, step: int) -> float:
        nearer = step if step >= 0 else -step - 1
        return _geometric_mass(self.scale, nearer) / 2

    @property
    def value_variance(self) -> float:
        """The variance of a measured value, in steps."""
        return self.floor_variance

    def value_half_width(self, level: float) -> float:
        """The fewest steps that a measured value stays within, with confidence `level`."""
        steps = math.ceil(-float(self.scale) * math.log1p(-level))
        return max(1, steps) - 0.5

    steps_more: ClassVar[int] = 1
    """How many steps the grid adds at most to what several values are off by."""

    def spread_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` noises less the smallest > x), in scales."""
        return laplace_spread_tail(count, x)

    def farthest_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` noises, up or down, > x), in scales."""
        return laplace_farthest_tail(count, x)

    def difference_tail(self, other: Law, step: int) -> float:
        """Exact where the other is Laplace noise too."""
        if not isinstance(other, LaplaceNoise):
            return Law.difference_tail(self, other, step)
        return _laplace_difference_tail(1 / float(self.scale), 1 / float(other.scale), step)

    def quantile(self, sums: Floats) -> Floats:
        return np.where(sums < _LN_2, upper_quantile(sums) - _LN_2, _LN_2 - sums)

    def exact_quantile(self, total: Fraction, digits: int) -> Fraction:
        ln_2 = Fraction(decimals(digits).ln(Decimal(2)))
        return exact_upper_quantile(total, digits) - ln_2 if total < ln_2 else ln_2 - total

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise = signed_exponentials(uniforms[0])
        noise *= float(self.scale)
        return noise

    def beyond(self, distance: Floats, uniform: Floats) -> Floats:
        chance = uniform * self.tail(distance)
        far = np.maximum(distance, 0.0) - float(self.scale) * np.log(uniform)
        with np.errstate(divide="ignore"):
            high = -np.log(2 * np.minimum(chance, 0.5))
            low = np.log(2 * np.minimum(1 - chance, 0.5))
        near = float(self.scale) * np.where(chance <= 0.5, high, low)
        return np.where(distance >= 0, far, np.maximum(near, distance))


@dataclass(frozen=True, slots=True)
class ExponentialNoise(MemorylessLaw):
    """One-sided noise, never negative: half of the Laplace variance at the same cost.

    It is always added, to the threshold as well as to the answers.
    """

    name: ClassVar[str] = "exponential"
    signed: ClassVar[bool] = False

    @property
    def mean(self) -> float:
        return float(self.scale)

    @property
    def variance(self) -> float:
        return float(self.scale) ** 2

    def tail(self, distance: ArrayLike) -> Floats:
        tail: Floats = np.exp(-np.maximum(distance, 0.0) / float(self.scale))
        return tail

    def density(self, at: Floats) -> Floats:
        scale = float(self.scale)
        return np.where(at >= 0, np.exp(-np.maximum(at, 0.0) / scale) / scale, 0.0)

    @property
    def floor_mean(self) -> float:
        return geometric_mean(self.scale)

    @property
    def floor_variance(self) -> float:
        return geometric_variance(self.scale)

    def floor_mass(self, step: int) -> float:
        return _geometric_mass(self.scale, step) if step >= 0 else 0.0

    def difference_tail(self, other: Law, step: int) -> float:
        """Exact where the other is exponential noise too."""
        if not isinstance(other, ExponentialNoise):
            return Law.difference_tail(self, other, step)
        return _exponential_difference_tail(1 / float(self.scale), 1 / float(other.scale), step)

    def quantile(self, sums: Floats) -> Floats:
        return upper_quantile(sums)

    def exact_quantile(self, total: Fraction, digits: int) -> Fraction:
        return exact_upper_quantile(total, digits)

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise: Floats = uniforms[0]
        np.subtract(1.0, noise, out=noise)  # in (0, 1]
        np.log(noise, out=noise)
        noise *= -float(self.scale)
        return noise

    def beyond(self, distance: Floats, uniform: Floats) -> Floats:
        noise: Floats = np.maximum(distance, 0.0) - float(self.scale) * np.log(uniform)
        return noise


LAWS: dict[str, type[Law]] = {
    law.name: law for law in (LaplaceNoise, ExponentialNoise, StaircaseNoise)
}
NOISES = tuple(LAWS)
REAL_NOISES = tuple(name for name, law in LAWS.items() if issubclass(law, RealLaw))
"""Those that a Top-K takes."""


def require_noise(noise: object) -> str:
    """`noise`, if it names a law."""
    if not (isinstance(noise, str) and noise in LAWS):
        raise ValueError(f"noise must be one of {', '.join(map(repr, LAWS))}, not {noise!r}")
    return noise


def law_named(noise: str, scale: Fraction, sensitivity: Fraction) -> Law:
    """The law that `noise` names, at a scale that shifting by `sensitivity` is measured in."""
    return LAWS[noise].best(scale, sensitivity)


def require_real(law: Law) -> RealLaw:
    """`law`, if a Top-K can use it."""
    if not isinstance(law, RealLaw):
        raise ValueError(f"noise must be {_either(RealLaw)} for a Top-K: {law.name} noise can tie")
    return law


def require_memoryless(law: Law, where: str) -> MemorylessLaw:
    """`law`, if the largest of many draws can be drawn without the others."""
    if not isinstance(law, MemorylessLaw):
        raise ValueError(f"noise must be {_either(MemorylessLaw)} {where}")
    return law


def _either(kind: type) -> str:
    """The names of laws of this kind."""
    return " or ".join(repr(name) for name, law in LAWS.items() if issubclass(law, kind))


def upper_quantile(sums: Floats) -> Floats:
    """What e^(−sum) of all unit exponentials are below; infinite where the sum may be 0."""
    upper: Floats = -np.log(-np.expm1(-sums))
    return upper


def exact_upper_quantile(total: Fraction, digits: int) -> Fraction:
    """−ln(1 − e^(−total)), to half of the digits: the other half are to spare for a small total.

    If it is smaller than that, because it is of huge many draws, −ln(total) is as good: the two
    differ by less than the total.
    """
    context = decimals(digits)
    exponent = context.divide(Decimal(total.numerator), Decimal(total.denominator))
    if total.numerator * 10 ** (digits // 2) < total.denominator:
        return -Fraction(context.ln(exponent))
    power = context.exp(exponent.copy_negate())
    return -Fraction(context.ln(context.subtract(Decimal(1), power)))


def _geometric_mass(scale: Fraction, step: int) -> float:
    """P(⌊E⌋ = step) for exponential E."""
    return -math.exp(-step / scale) * math.expm1(-1 / scale)


def _laplace_difference_tail(rate: float, rate0: float, step: int) -> float:
    """Sum P(N₀ = n)·P(N > step + n) over n; three geometric series."""
    if step < 0:
        return 1 - _laplace_difference_tail(rate, rate0, -step - 1)  # N − N₀ is symmetric
    p = math.exp(-rate)
    both = -math.expm1(-rate - rate0)  # 1 − pr, with r = e^(−rate0)
    rest = -math.expm1(-rate0)  # 1 − r
    p_power, r_power = math.exp(-rate * (step + 1)), math.exp(-rate0 * (step + 1))
    # Σ p^(step−j) r^j over j = 0..step, stable where p and r are close.
    slope = rate - rate0
    if slope < 0:
        mixed = math.exp(-rate * step) * _geometric_sum(slope, step + 1)
    else:
        mixed = math.exp(-rate0 * step) * _geometric_sum(-slope, step + 1)
    return (
        rest * p_power / both / 4 + rest * mixed / 4 + r_power / 2 - rest * r_power * p / both / 4
    )


def _geometric_sum(exponent: float, count: int) -> float:
    """1 + e^x + … , `count` terms, for x ≤ 0."""
    if exponent == 0:
        return float(count)
    return math.expm1(exponent * count) / math.expm1(exponent)


def _exponential_difference_tail(rate: float, rate0: float, step: int) -> float:
    both = -math.expm1(-rate - rate0)
    if step >= 0:
        return -math.expm1(-rate0) * math.exp(-rate * (step + 1)) / both
    return 1 + math.expm1(-rate) * math.exp(rate0 * step) / both


def tie_bound(epsilon: Fraction, grid: Fraction, count: int) -> Fraction:
    """The paper's bound εγn² on the chance that any two of n answers tie.

    It holds for discretised Laplace(1/ε) noise on multiples of γ. dpgap does not need it, since
    its ties are decided on exact fractions; it tells what the usual implementation gives away.

    >>> float(tie_bound(Fraction(1), Fraction(1, 2**52), 1000))
    2.220446049250313e-10
    """
    return epsilon * grid * count**2
