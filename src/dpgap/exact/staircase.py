"""Staircase noise: the least variance that pure differential privacy allows, for one number."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.bits import Bits, Words
from dpgap.exact.draws import (
    RELATIVE_ERROR,
    Enclosure,
    Floats,
    Refined,
    Uniform,
    decide,
    decimals,
    difference,
    exponential_bounds,
    scaled,
)
from dpgap.exact.law import (
    Law,
    RealLaw,
    Scalar,
    geometric_mean,
    geometric_variance,
    signed_exponentials,
)


@dataclass(frozen=True, slots=True)
class StaircaseNoise(RealLaw):
    """Geng and Viswanath's noise: flat stairs of width `step`, each split in two parts.

    The magnitude is `step`·(C + W): C counts whole stairs, falling by e^(−step/scale) each; W is
    uniform on [0, share) or, e^(−step/scale) times as densely, on [share, 1). The density jumps
    from part to part, so moving a draw costs a whole stair for every part of a `step`.
    """

    step: Fraction
    share: Fraction

    name: ClassVar[str] = "staircase"
    words: ClassVar[int] = 3
    signed: ClassVar[bool] = True
    monotone_cost: ClassVar[bool] = True

    @classmethod
    def best(cls, scale: Fraction, sensitivity: Fraction) -> Self:
        """The split of least variance, to the nearest rational with denominator ≤ 2^20."""
        fall = math.exp(-sensitivity / scale)
        if fall > 0.999:  # the closed form below cancels; this is its limit
            share = 0.5
        else:
            cube = fall - 2 * fall**2 + 2 * fall**4 - fall**5
            share = -fall / (1 - fall) + (cube / 2) ** (1 / 3) / (1 - fall) ** 2
        closest = Fraction(share).limit_denominator(1 << 20)
        return cls(scale, sensitivity, min(max(closest, Fraction(1, 1 << 20)), Fraction(1)))

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
        mean = geometric_mean(stairs)
        return geometric_variance(stairs) + mean**2 + 2 * mean * first + second

    def tail(self, distance: ArrayLike) -> Floats:
        at: Floats = np.asarray(distance, dtype=np.float64)
        stair, within = np.divmod(np.abs(at) / float(self.step), 1.0)
        share, near, fall = float(self.share), self.near, self.fall
        inner = near * np.minimum(within / share, 1.0)
        inner += (1 - near) * np.maximum(within - share, 0.0) / max(1 - share, 1e-300)
        half = fall**stair * (1 - inner + fall * inner) / 2
        return np.where(at >= 0, half, 1 - half)

    def density(self, at: Floats) -> Floats:
        step, share = float(self.step), float(self.share)
        stair, within = np.divmod(np.abs(at) / step, 1.0)
        height = (1 - self.fall) / (2 * step * (share + self.fall * (1 - share)))
        density: Floats = height * self.fall ** (stair + (within >= share))
        return density

    @property
    def breaks(self) -> tuple[float, ...]:
        part = float(self.share * self.step % 1)
        return part, 1 - part

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

    def floor_mass(self, step: int) -> float:
        return Law.floor_mass(self, max(step, -step - 1))

    @property
    def overshoot(self) -> Fraction:
        return self.step

    def size_bounds(self, words: Words) -> tuple[Floats, Floats]:
        low, high = exponential_bounds(float(self.scale), words[0])
        step, share, near = float(self.step), float(self.share), self.near
        first, last = np.floor(low / step * (1 - 2.0**-50)), np.floor(high / step * (1 + 2.0**-50))
        part, place = words[1] * 2.0**-64, words[2] * 2.0**-64
        is_near, is_far = part < near * (1 - 2.0**-40) - 2.0**-50, part > near * (1 + 2.0**-40)
        inner = np.where(is_far, share + (1 - share) * place, share * place)
        known = (first == last) & (is_near | is_far)
        middle = step * (first + inner)
        slack = (middle + step) * RELATIVE_ERROR
        return (
            np.where(known, middle - slack, step * first * (1 - 2.0**-50)),
            np.where(known, middle + slack, step * (last + 1) * (1 + 2.0**-50)),
        )

    def size(self, words: list[int], bits: Bits) -> Refined:
        part, place = (Uniform(word, 64, bits) for word in words[1:])

        cell: list[Enclosure] = []  # which stair, and which part of it, are decided once

        def size(level: int) -> Enclosure:
            if not cell:
                cell.append(self._cell(Uniform.of_word(words[0], bits), part))
            (origin, width), (low, high) = cell[0], place.enclosure(level)
            return origin + width * low, origin + width * high

        return size

    def _cell(self, uniform: Uniform, part: Uniform) -> Enclosure:
        """Where a part of a stair begins, and how wide it is."""
        stair = decide(scaled(self.scale / self.step, uniform.exponential), math.floor)
        near = partial(_near_chance, self.share, self.step / self.scale)
        if decide(difference(part.enclosure, near), lambda bound: bound < 0):
            return self.step * stair, self.step * self.share
        return self.step * (stair + self.share), self.step * (1 - self.share)

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise, part, place = signed_exponentials(uniforms[0]), uniforms[1], uniforms[2]
        step, share = float(self.step), float(self.share)
        size = np.abs(noise)
        size *= float(self.scale / self.step)
        np.floor(size, out=size)
        far = part >= self.near
        place *= np.where(far, 1 - share, share)
        size += place
        size += share * far
        size *= step
        return np.copysign(size, noise, out=noise)


def _near_chance(share: Fraction, fall: Fraction, level: int) -> Enclosure:
    """The chance share / (share + e^(−fall)·(1 − share)), enclosed."""
    size = 30 * (level + 1)
    slack = Fraction(1, 10**size)
    power = Fraction(0)
    if fall < 3 * size:  # otherwise e^(−fall) is below the slack
        digits = decimals(size)
        exponent = digits.divide(Decimal(-fall.numerator), Decimal(fall.denominator))
        power = Fraction(digits.exp(exponent))
    low, high = max(power - slack, Fraction(0)), power + slack
    return share / (share + high * (1 - share)), share / (share + low * (1 - share))


def _sum_odd(count: int) -> float:
    """½ + 1½ + …, `count` terms."""
    return count**2 / 2


def _sum_odd_squares(count: int) -> float:
    """½² + 1½² + …, `count` terms."""
    return count * (4 * count**2 - 1) / 12
