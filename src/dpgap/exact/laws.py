"""The laws of noise: Laplace, exponential and staircase.

A law is a value. It knows the continuous noise of the paper (mean, variance, tails), what that
noise becomes when floored to whole grid steps (its `floor_…` twins, which is what is released),
and what it costs to shift one draw, which is what proofs add up. How to draw from a law exactly
is `dpgap.exact.draws`'s business.

All lengths, `scale` included, are in one unit of the caller's choice. The `floor_…` methods take
that unit to be a grid step.

Floors of symmetric noise are symmetric about −½: the values 0 and −1 are equally likely. Folding
−1 onto 0 instead would double the mass at zero and break privacy.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

Scalar = Any
"""A number of any kind that a program can run on: int, float, Fraction, a symbol, …"""


class Noise(Protocol):
    """Where a program gets its draws: exact reals, whole steps, floats, symbols, …"""

    def draw(self, law: Any) -> Scalar:
        """The next draw, from `law`."""


@dataclass(frozen=True, slots=True)
class Decay(ABC):
    """What all noise has in common: its density decays e-fold over every `scale`."""

    scale: Fraction

    words: ClassVar[int]
    """How many random words one draw begins with."""
    symmetric: ClassVar[bool]
    """Whether noise of either sign is equally likely; otherwise it is never negative."""

    def scaled(self, factor: Fraction) -> Self:
        """The same noise, in another unit of length."""
        return replace(self, scale=self.scale * factor)

    def cost(self, shift: Scalar) -> Scalar:
        """The most that log(density) can fall when a draw moves by `shift` within the support."""
        return abs(shift) / self.scale

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return True if self.symmetric else value >= 0


@dataclass(frozen=True, slots=True)
class Law(Decay):
    """Noise that is drawn one number at a time."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean of the continuous noise."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the continuous noise."""

    @abstractmethod
    def tail(self, distance: float) -> float:
        """P(noise > distance), continuous."""

    @property
    @abstractmethod
    def floor_mean(self) -> float:
        """The mean of the floored noise."""

    @property
    @abstractmethod
    def floor_variance(self) -> float:
        """The variance of the floored noise."""

    def floor_tail(self, step: int) -> float:
        """P(⌊noise⌋ > step)."""
        return self.tail(step + 1)

    def floor_mass(self, step: int) -> float:
        """P(⌊noise⌋ = step)."""
        nearer = -step - 1 if self.symmetric and step < 0 else step
        return self.tail(nearer) - self.tail(nearer + 1)


@dataclass(frozen=True, slots=True)
class LaplaceNoise(Law):
    """Two-sided exponential noise.

    >>> round(LaplaceNoise(Fraction(3)).variance, 6)
    18.0
    >>> round(LaplaceNoise(Fraction(3)).floor_variance, 6)
    18.084255
    """

    words: ClassVar[int] = 1
    symmetric: ClassVar[bool] = True

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        return 2 * float(self.scale) ** 2

    def tail(self, distance: float) -> float:
        half = math.exp(-abs(distance) / self.scale) / 2
        return half if distance >= 0 else 1 - half

    @property
    def floor_mean(self) -> float:
        return -0.5

    @property
    def floor_variance(self) -> float:
        return 2 * _geometric_variance(self.scale) + 0.25

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


@dataclass(frozen=True, slots=True)
class ExponentialNoise(Law):
    """One-sided noise, never negative: half of the Laplace variance at the same cost.

    It is always added, to the threshold as well as to the answers.
    """

    words: ClassVar[int] = 1
    symmetric: ClassVar[bool] = False

    @property
    def mean(self) -> float:
        return float(self.scale)

    @property
    def variance(self) -> float:
        return float(self.scale) ** 2

    def tail(self, distance: float) -> float:
        return math.exp(-distance / self.scale) if distance > 0 else 1.0

    @property
    def floor_mean(self) -> float:
        return 1 / math.expm1(1 / self.scale) if 1 / self.scale < 700 else 0.0

    @property
    def floor_variance(self) -> float:
        return _geometric_variance(self.scale)

    def floor_mass(self, step: int) -> float:
        return _geometric_mass(self.scale, step) if step >= 0 else 0.0


@dataclass(frozen=True, slots=True)
class StaircaseNoise(Law):
    """Geng and Viswanath's noise: flat stairs of width `step`, each split in two parts.

    The magnitude is `step`·(C + W): C counts whole stairs, falling by e^(−step/scale) each; W is
    uniform on [0, share) or, e^(−step/scale) times as densely, on [share, 1). The density jumps
    from part to part, so moving a draw costs a whole stair for every part of a `step`.
    """

    step: Fraction
    share: Fraction

    words: ClassVar[int] = 3
    symmetric: ClassVar[bool] = True

    @staticmethod
    def best(scale: Fraction, step: Fraction) -> "StaircaseNoise":
        """The split of least variance, to the nearest rational with denominator ≤ 2^20."""
        fall = math.exp(-step / scale)
        if fall > 0.999:  # the closed form below cancels; this is its limit
            share = 0.5
        else:
            cube = fall - 2 * fall**2 + 2 * fall**4 - fall**5
            share = -fall / (1 - fall) + (cube / 2) ** (1 / 3) / (1 - fall) ** 2
        closest = Fraction(share).limit_denominator(1 << 20)
        return StaircaseNoise(scale, step, min(max(closest, Fraction(1, 1 << 20)), Fraction(1)))

    def scaled(self, factor: Fraction) -> Self:
        return replace(self, scale=self.scale * factor, step=self.step * factor)

    def cost(self, shift: Scalar) -> Scalar:
        return math.ceil(abs(shift) / self.step) * (self.step / self.scale)

    @property
    def fall(self) -> float:
        """How much lower each stair is than the one before."""
        return math.exp(-self.step / self.scale)

    @property
    def near(self) -> float:
        """The chance of the near part of a stair."""
        share = float(self.share)
        return share / (share + self.fall * (1 - share))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def variance(self) -> float:
        share, near = float(self.share), self.near
        first = near * share / 2 + (1 - near) * (1 + share) / 2
        second = near * share**2 / 3 + (1 - near) * (1 + share + share**2) / 3
        return float(self.step) ** 2 * self._second_moment(first, second)

    def _second_moment(self, first: float, second: float) -> float:
        """E(C + W)² from the first two moments of W; C is geometric and independent of W."""
        stairs = self.scale / self.step
        mean = ExponentialNoise(stairs).floor_mean
        return _geometric_variance(stairs) + mean**2 + 2 * mean * first + second

    def tail(self, distance: float) -> float:
        stair, within = divmod(abs(Fraction(distance)) / self.step, 1)
        share, near = float(self.share), self.near
        inner = near * min(float(within) / share, 1.0)
        if within > self.share:
            inner += (1 - near) * float((within - self.share) / (1 - self.share))
        beyond = math.exp(-stair * self.step / self.scale)
        half = (beyond * (1 - inner) + beyond * self.fall * inner) / 2
        return half if distance >= 0 else 1 - half

    @property
    def floor_mean(self) -> float:
        return -0.5

    @property
    def floor_variance(self) -> float:
        """Closed form where a step is a whole number of grid steps, as on every release."""
        if self.step.denominator != 1:
            raise ValueError("step must be a whole number of grid steps")
        width = int(self.step)
        edge, part = divmod(self.share * width, 1)
        full, split = int(edge), float(part)
        # Mass of each floor below, at and above the edge between the two parts of a stair.
        total = float(self.share) * width + self.fall * float(1 - self.share) * width
        at = split + self.fall * (1 - split) if full < width else 0.0
        masses = ((0, full, 1.0), (full, min(full + 1, width), at), (full + 1, width, self.fall))
        first = sum(mass * (_sum_odd(hi) - _sum_odd(lo)) for lo, hi, mass in masses if lo < hi)
        second = sum(
            mass * (_sum_odd_squares(hi) - _sum_odd_squares(lo))
            for lo, hi, mass in masses
            if lo < hi
        )
        return width**2 * self._second_moment(first / total / width, second / total / width**2)


NOISES = ("laplace", "exponential", "staircase")


def law_named(noise: str, scale: Fraction, sensitivity: Fraction) -> Law:
    """The law that `noise` names, at a scale that shifting by `sensitivity` is measured in."""
    if noise == "laplace":
        return LaplaceNoise(scale)
    if noise == "exponential":
        return ExponentialNoise(scale)
    return StaircaseNoise.best(scale, sensitivity)


def require_noise(noise: object) -> str:
    """`noise`, if it names a law."""
    if not (isinstance(noise, str) and noise in NOISES):
        raise ValueError(f"noise must be one of {', '.join(map(repr, NOISES))}, not {noise!r}")
    return noise


def _sum_odd(count: int) -> float:
    """½ + 1½ + …, `count` terms."""
    return count**2 / 2


def _sum_odd_squares(count: int) -> float:
    """½² + 1½² + …, `count` terms."""
    return count * (4 * count**2 - 1) / 12


def _geometric_mass(scale: Fraction, step: int) -> float:
    """P(⌊E⌋ = step) for exponential E."""
    return -math.exp(-step / scale) * math.expm1(-1 / scale)


def _geometric_variance(scale: Fraction) -> float:
    """Var ⌊E⌋ for exponential E: p/(1−p)² with p = e^(−1/scale), without cancellation."""
    half = 1 / (2 * scale)
    return 1 / (4 * math.sinh(half) ** 2) if half < 300 else 0.0


def tie_bound(epsilon: Fraction, grid: Fraction, count: int) -> Fraction:
    """The paper's bound εγn² on the chance that any two of n answers tie.

    It holds for discretised Laplace(1/ε) noise on multiples of γ. dpgap does not need it, since
    its ties are decided on exact fractions; it tells what the usual implementation gives away.

    >>> float(tie_bound(Fraction(1), Fraction(1, 2**52), 1000))
    2.220446049250313e-10
    """
    return epsilon * grid * count**2
