"""What a law of noise is: everything that the rest of dpgap asks of one.

A law is a value. It knows its mean, variance and tail; what it becomes when floored to whole grid
steps (its `floor_…` twins, which is what a Sparse Vector releases); what it costs to shift one
draw, which is what proofs add up; how it is drawn exactly from random words; and what floats a
simulation should take in its place. Nothing elsewhere asks which law it has.

There are three kinds, each of which can do more than the one before:

- `Law` is enough for a Sparse Vector, an audit, a proof and a simulation. Its draws may be whole
  numbers, so two of them may be equal: they *tie*.
- `RealLaw` is noise on the real line, which never ties. A Top-K takes no other: it would have to
  break ties, and that leaks.
- `MemorylessLaw` is real noise whose size is exponential. How far it has come says nothing of how
  far it will go, so the largest of a million draws can be drawn without the others.

All lengths, `scale` included, are in one unit of the caller's choice. The `floor_…` methods and
exact draws take that unit to be a grid step.

Floors of Laplace noise are symmetric about −½: the values 0 and −1 are equally likely. Folding −1
onto 0 instead would double the mass at zero and break privacy.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.bits import Bits, Words
from dpgap.exact.draws import (
    LOW_BITS,
    LOW_MASK,
    WHOLE,
    Floats,
    Integers,
    Refined,
    Uniform,
    decide,
    exponential_bounds,
    quick_exponential,
    scaled,
)

Scalar = Any
"""A number of any kind that a program can run on: int, float, Fraction, a symbol, …"""


class Quantiles(Protocol):
    """A law of which the largest of many draws can be drawn without the others."""

    @property
    def scale(self) -> Fraction: ...
    def quantile_bounds(self, sums: Floats) -> tuple[Floats, Floats]: ...
    def exact_quantile(self, total: Fraction, digits: int) -> Fraction: ...


class Noise(Protocol):
    """Where a program gets its draws: exact reals, whole steps, floats, symbols, …"""

    def draw(self, law: Any) -> Scalar:
        """The next draw, from `law`."""


@dataclass(frozen=True, slots=True)
class Decay(ABC):
    """What all noise has in common: its density decays e-fold over every `scale`."""

    scale: Fraction

    signed: ClassVar[bool]
    """Whether it may be negative."""
    can_tie: ClassVar[bool] = True
    """Whether two draws may be equal: proofs then count ties."""
    monotone_cost: ClassVar[bool] = False
    """Whether a farther shift is known to cost no less: it spares proofs a question."""

    def scaled(self, factor: Fraction) -> Self:
        """The same noise, in another unit of length."""
        return replace(self, scale=self.scale * factor)

    def cost(self, shift: Scalar) -> Scalar:
        """The most that log(density) can fall when a draw moves by `shift` within the support."""
        return abs(shift) / self.scale

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return True if self.signed else value >= 0


@dataclass(frozen=True, slots=True)
class Law(Decay):
    """Noise that is drawn one number at a time."""

    name: ClassVar[str]
    """What `noise=` calls it."""
    words: ClassVar[int]
    """How many random words one draw begins with."""

    @classmethod
    def best(cls, scale: Fraction, sensitivity: Fraction) -> Self:
        """The best of its kind at this scale, for answers that move by `sensitivity`."""
        return cls(scale)

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean of the noise."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise."""

    @abstractmethod
    def tail(self, distance: ArrayLike) -> Floats:
        """P(noise ≥ distance), for each distance."""

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
        return float(self.tail(step + 1))

    def floor_mass(self, step: int) -> float:
        """P(⌊noise⌋ = step)."""
        return float(self.tail(step) - self.tail(step + 1))

    def difference_tail(self, other: "Law", step: int) -> float:
        """P(N − N₀ > step), for floors N of this law and N₀ of another; or an upper bound.

        The bound allows half of the excess to each of the two.
        """
        half = step // 2
        return min(1.0, self.floor_tail(half) + float(1 - other.tail(half - step)))

    @abstractmethod
    def floors(self, bits: Bits, *shape: int) -> Integers:
        """Exactly distributed noise, floored to whole steps."""

    def floor(self, bits: Bits) -> int:
        """One draw of `floors`."""
        return int(self.floors(bits, 1)[0])

    @abstractmethod
    def from_uniforms(self, uniforms: Floats) -> Floats:
        """Floats for simulation, never for a release; may overwrite what it is given.

        It is given multiples of 2^−53 from 0 up to 1, as many along the first axis as `words`.
        """


@dataclass(frozen=True, slots=True)
class RealLaw(Law):
    """Noise on the real line. Two draws are never equal.

    With m the low 63 bits of the first word, E = −ln(m·2^−63) is a unit exponential. The size of a
    draw is at most E·scale plus the `overshoot`. If the noise is signed, the top bit is its sign.
    """

    can_tie: ClassVar[bool] = False

    @property
    def overshoot(self) -> Fraction:
        """How much the size of a draw may exceed E·scale."""
        return Fraction(0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where, between one whole number and the next, the density jumps."""
        return ()

    @abstractmethod
    def density(self, at: Floats) -> Floats:
        """The density of the noise."""

    @abstractmethod
    def size_bounds(self, words: Words) -> tuple[Floats, Floats]:
        """Floats below and above the size of each draw, whatever its sign."""

    @abstractmethod
    def size(self, words: list[int], bits: Bits) -> Refined:
        """The size of one draw; the bits serve to refine what the words leave open."""

    def bounds(self, words: Words) -> tuple[Floats, Floats]:
        """Floats below and above each draw; `words` has the law's words along its first axis."""
        low, high = self.size_bounds(words)
        if self.signed:
            below = words[0] > LOW_MASK
            low, high = np.where(below, -high, low), np.where(below, -low, high)
        return low, high

    def real(self, words: list[int], bits: Bits) -> Refined:
        """One draw, as a real number refined on demand."""
        size = self.size(words, bits)
        return scaled(-1, size) if self.signed and words[0] > LOW_BITS else size

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def floors(self, bits: Bits, *shape: int) -> Integers:
        words = bits.words(self.words, *shape)
        low, high = self.size_bounds(words)
        np.floor(low, out=low)
        undecided = low != np.floor(high, out=high)
        floored = low.astype(np.int64)
        if self.signed:  # a negative draw turns ⌊x⌋ into ⌊−x⌋ = −⌊x⌋ − 1
            floored ^= words[0].view(np.int64) >> 63
        for where in zip(*np.nonzero(undecided), strict=True):
            draw = self.real(words[(slice(None), *where)].tolist(), bits)
            floored[where] = decide(draw, math.floor)
        return floored

    def floor(self, bits: Bits) -> int:
        words = [bits.word() for _ in range(self.words)]
        return int(decide(self.real(words, bits), math.floor))


@dataclass(frozen=True, slots=True)
class MemorylessLaw(RealLaw):
    """Real noise whose size is E·scale: one exponential, and a sign where it is signed."""

    words: ClassVar[int] = 1
    monotone_cost: ClassVar[bool] = True

    def size_bounds(self, words: Words) -> tuple[Floats, Floats]:
        return exponential_bounds(float(self.scale), words[0])

    def size(self, words: list[int], bits: Bits) -> Refined:
        return scaled(self.scale, Uniform.of_word(words[0], bits).exponential)

    def floor(self, bits: Bits) -> int:
        word = bits.word()
        if read := word & LOW_BITS:
            low, high = quick_exponential(read, WHOLE)
            scale = self.scale.numerator / self.scale.denominator  # faster than `float`
            below, above = math.floor(low * scale), math.floor(high * scale)
            if below == above:
                return ~below if self.signed and word > LOW_BITS else below
        return int(decide(self.real([word], bits), math.floor))

    @abstractmethod
    def quantile(self, sums: Floats) -> Floats:
        """The noise that e^(−sum) of all draws are below, in units of the scale."""

    def quantile_bounds(self, sums: Floats) -> tuple[Floats, Floats]:
        """Floats around the noise at sums that are enclosed themselves: lower ends, upper ends.

        The quantile falls as the sum grows, so the ends change places.
        """
        scale = float(self.scale)
        low, high = self.quantile(sums[1]), self.quantile(sums[0])
        slack = scale * 2.0**-48
        return (
            scale * low - np.abs(low) * slack - slack,
            scale * high + np.abs(high) * slack + slack,
        )

    @abstractmethod
    def exact_quantile(self, total: Fraction, digits: int) -> Fraction:
        """The same for one sum, to half of so many digits, however many draws there are."""

    @abstractmethod
    def beyond(self, distance: Floats, uniform: Floats) -> Floats:
        """Floats for simulation, given that noise is at least `distance`; uniforms are above 0."""


_MIDDLE = 0.5 - 2.0**-54
"""Half-way between the uniforms 0, 2^−53, …, 1 − 2^−53; none of them is there."""


def signed_exponentials(uniform: Floats) -> Floats:
    """For simulation: a unit exponential and its sign out of each uniform, in its place.

    Uniforms are multiples of 2^−53, so noise ends at 36: one draw in 10^16 is there.
    """
    uniform -= _MIDDLE
    size = np.abs(uniform)
    size *= 2
    np.log(size, out=size)
    np.copysign(size, uniform, out=uniform)
    return uniform


def geometric_mean(scale: Fraction) -> float:
    """The mean of ⌊E·scale⌋ for a unit exponential E."""
    return 1 / math.expm1(1 / scale) if 1 / scale < 700 else 0.0


def geometric_variance(scale: Fraction) -> float:
    """Its variance: p/(1−p)² with p = e^(−1/scale), without cancellation."""
    half = 1 / (2 * scale)
    return 1 / (4 * math.sinh(half) ** 2) if half < 300 else 0.0
