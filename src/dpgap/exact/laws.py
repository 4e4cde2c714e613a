"""Laws of noise (probability distributions): everything that the rest of dpgap needs of one.

A law is a value. It has

- its mean, variance and tail;
- the same for noise that is floored to whole grid steps (`floor_…`): a Sparse Vector releases such
  noise;
- the cost to shift one draw, which proofs add up;
- exact draws from random words, and floats for a simulation.

Other code asks a law for these, and not which law it is.

There are three kinds, each of which can do more than the one before:

- `Law` is enough for a Sparse Vector, an audit, a proof and a simulation. Its draws may be whole
  numbers, so two of them may be equal: they *tie*.
- `RealLaw` is noise on the real line, which never ties. A Top-K takes no other: it would have to
  break ties, and that leaks.
- `MemorylessLaw` is real noise whose size is exponential. If a draw is known to be above x, how far
  above does not depend on x. So the largest of a million draws can be drawn without the others.

All lengths, `scale` included, are in one unit of the caller's choice. The `floor_…` methods and
exact draws take that unit to be a grid step.

Floors of Laplace noise are symmetric about −½: the values 0 and −1 are equally likely. Folding −1
onto 0 instead would double the mass at zero and break privacy.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.bits import Bits, Words
from dpgap.exact.grid import Grid
from dpgap.exact.reals import (
    DENOMINATOR,
    LOW_BITS,
    LOW_MASK,
    RELATIVE_ERROR,
    SIGN_PLACE,
    Enclosure,
    Flags,
    Floats,
    Integers,
    Refined,
    Uniform,
    as_decimal,
    decide,
    decimals,
    difference,
    exponential_bounds,
    falling,
    quick_exponential,
    require_scale,
    scaled,
    without_float_errors,
)

Scalar = Any
"""A number of any kind that a program can run on: int, float, Fraction, a symbol, …"""
Vector = Sequence[Scalar]
"""Several of them: all answers, all noise, …"""


class Noise(Protocol):
    """The source of a program's draws: exact reals, whole steps, floats, symbols, …"""

    def draw(self, law: Any) -> Scalar:
        """The next draw, from `law`."""


@dataclass(frozen=True, slots=True)
class Decay(ABC):
    """The base of all noise: its density falls by a factor of e over every `scale`."""

    scale: Fraction

    signed: ClassVar[bool]
    """Whether it may be negative."""
    can_tie: ClassVar[bool] = True
    """Whether two draws may be equal: proofs then count ties."""

    def __post_init__(self) -> None:
        """Refuse a known scale that is not above 0; proofs may have an unknown one."""
        if isinstance(self.scale, int | float | Fraction) and not self.scale > 0:
            raise ValueError(f"scale must be greater than 0, not {self.scale}")

    def scaled(self, factor: Fraction) -> Self:
        """The same noise, in another unit of length."""
        return replace(self, scale=self.scale * factor)

    def cost(self, shift: Scalar) -> Scalar:
        """The most that log(density) can fall when a draw moves by `shift` within the support.

        Lower values of one-sided noise are likelier, so the cost of a move down is negative.
        """
        if self.signed:
            return abs(shift) / self.scale
        return shift / self.scale

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return True if self.signed else value >= 0


@dataclass(frozen=True, slots=True)
class Law(Decay):
    """Noise that is drawn one number at a time."""

    name: ClassVar[str]
    """What `noise=` calls it."""
    words_per_draw: ClassVar[int]
    """How many random words one draw begins with."""

    @classmethod
    def best(cls, scale: Fraction, sensitivity: Fraction) -> Self:
        """The best of its kind at this scale, for answers that move by `sensitivity`."""
        return cls(scale)

    @property
    def mean(self) -> float:
        """The mean of the noise: 0, unless a one-sided law overrides this."""
        return 0.0

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise."""

    @abstractmethod
    def tail(self, distance: ArrayLike) -> Floats:
        """P(noise ≥ distance), for each distance."""

    @property
    def floor_mean(self) -> float:
        """The mean of the floored noise; noise on whole steps is its own floor."""
        return self.mean

    @property
    def floor_variance(self) -> float:
        """The variance of the floored noise."""
        return self.variance

    def floor_mass(self, step: int) -> float:
        """P(⌊noise⌋ = step)."""
        if self.signed:  # floors are symmetric about −½, and noise on whole steps about 0
            step = max(step, -step if self.can_tie else -step - 1)
        return float(self.tail(step) - self.tail(step + 1))

    def difference_tail(self, other: "Law", step: int) -> float:
        """P(N − N₀ > step), for floors N of this law and N₀ of another; or an upper bound.

        The bound allows half of the excess to each of the two.
        """
        half = step // 2
        return min(1.0, float(self.tail(half + 1) + (1 - other.tail(half - step))))

    @abstractmethod
    def floors(self, bits: Bits, *shape: int) -> Integers:
        """Exactly distributed noise, floored to whole steps."""

    def floor(self, bits: Bits) -> int:
        """One draw of `floors`."""
        return int(self.floors(bits, 1)[0])

    @abstractmethod
    def from_uniforms(self, uniforms: Floats) -> Floats:
        """Floats for simulation, never for a release; may overwrite what it is given.

        `uniforms` are multiples of 2^−53 in [0, 1); the length of the first axis is
        `words_per_draw`.
        """


_Law = TypeVar("_Law", bound=Law)


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
    def floor_mean(self) -> float:
        """The mean of the floored noise: floors of signed noise are symmetric about −½."""
        return -0.5

    @property
    def floor_variance(self) -> float:
        """The variance of the floored noise. Only laws that pipelines select with have it."""
        raise NotImplementedError

    @abstractmethod
    def size_bounds(self, random_words: Words) -> tuple[Floats, Floats]:
        """Floats below and above the size of each draw, whatever its sign."""

    @abstractmethod
    def size(self, random_words: list[int], bits: Bits) -> Refined:
        """The size of one draw. Further bits refine what the words leave open."""

    def bounds(self, random_words: Words) -> tuple[Floats, Floats]:
        """Floats below and above each draw; the words of a draw lie along the first axis."""
        low, high = self.size_bounds(random_words)
        if not self.signed:
            return low, high
        return signed_bounds(low, high, random_words[0] > LOW_MASK)

    def real(self, random_words: list[int], bits: Bits) -> Refined:
        """One draw, as a real number refined on demand."""
        size = self.size(random_words, bits)
        if self.signed and random_words[0] > LOW_BITS:
            return scaled(-1, size)
        return size

    def reals(self, random_words: Words, bits: Bits) -> Iterator[Refined]:
        """A draw for every column of words; the bits refine what the words leave open."""
        return (self.real(column, bits) for column in random_words.T.tolist())

    @without_float_errors
    def floors(self, bits: Bits, *shape: int) -> Integers:
        random_words = bits.words(self.words_per_draw, *shape)
        low, high = self.size_bounds(random_words)
        np.floor(low, out=low)
        undecided = low != np.floor(high, out=high)
        floored = low.astype(np.int64)
        if self.signed:  # a negative draw turns ⌊x⌋ into ⌊−x⌋ = −⌊x⌋ − 1
            floored ^= -(random_words[0] >> SIGN_PLACE).view(np.int64)
        for position in zip(*np.nonzero(undecided), strict=True):
            draw = self.real(random_words[(slice(None), *position)].tolist(), bits)
            floored[position] = decide(draw, math.floor)
        return floored

    def floor(self, bits: Bits) -> int:
        random_words = [bits.word() for _ in range(self.words_per_draw)]
        return int(decide(self.real(random_words, bits), math.floor))


@dataclass(frozen=True, slots=True)
class MemorylessLaw(RealLaw):
    """Real noise whose size is E·scale: one exponential, and a sign if the law is signed."""

    words_per_draw: ClassVar[int] = 1

    def size_bounds(self, random_words: Words) -> tuple[Floats, Floats]:
        return exponential_bounds(float(self.scale), random_words[0])

    def size(self, random_words: list[int], bits: Bits) -> Refined:
        return scaled(self.scale, Uniform.of_word(random_words[0], bits).exponential)

    def floor(self, bits: Bits) -> int:
        word = bits.word()
        numerator = word & LOW_BITS
        if numerator:
            low, high = quick_exponential(numerator, DENOMINATOR)
            scale = self.scale.numerator / self.scale.denominator  # faster than `float`
            floor = math.floor(low * scale)
            if floor == math.floor(high * scale):
                is_negative = self.signed and word > LOW_BITS
                return ~floor if is_negative else floor
        return int(decide(self.real([word], bits), math.floor))

    def quantile(self, sums: Floats) -> Floats:
        """The quantile at e^(−sum): this share of all draws is below it. In units of the scale."""
        if not self.signed:
            return upper_quantile(sums)
        return np.where(sums < _LN_2, upper_quantile(sums) - _LN_2, _LN_2 - sums)

    def quantile_bounds(self, sums: Floats) -> tuple[Floats, Floats]:
        """Floats below and above `quantile`, for sums that are given as lower and upper ends.

        The quantile falls as the sum grows. So the upper ends of sums give the lower ends here.
        """
        scale = float(self.scale)
        low = self.quantile(sums[1])
        high = self.quantile(sums[0])
        slack = scale * 2.0**-48
        return (
            scale * low - np.abs(low) * slack - slack,
            scale * high + np.abs(high) * slack + slack,
        )

    def exact_quantile(self, total: Fraction, digits: int) -> Fraction:
        """The quantile at e^(−total), precise to half of the `digits`, for any number of draws."""
        if not self.signed:
            return exact_upper_quantile(total, digits)
        ln_2 = Fraction(decimals(digits).ln(Decimal(2)))
        if total < ln_2:
            return exact_upper_quantile(total, digits) - ln_2
        return ln_2 - total

    def beyond(self, distance: Floats, uniform: Floats) -> Floats:
        """Floats for simulation, given that noise is at least `distance`; uniforms are above 0."""
        sums = -np.log1p(-uniform * self.tail(distance))
        return np.maximum(self.quantile(sums) * float(self.scale), distance)


def signed_bounds(low: Floats, high: Floats, is_negative: Flags) -> tuple[Floats, Floats]:
    """Bounds of draws, from bounds of their sizes and their signs."""
    return np.where(is_negative, -high, low), np.where(is_negative, -low, high)


_MIDDLE = 0.5 - 2.0**-54
"""The middle of the uniforms 0, 2^−53, …, 1 − 2^−53; no uniform is equal to it."""


def signed_exponentials(uniform: Floats) -> Floats:
    """Replace each uniform by a unit exponential with a sign, for simulation only.

    Uniforms are multiples of 2^−53, so noise is at most 36: one draw in 10^16 reaches this.
    """
    uniform -= _MIDDLE
    size = np.abs(uniform)
    size *= 2
    np.log(size, out=size)
    np.copysign(size, uniform, out=uniform)
    return uniform


def geometric_mean(scale: Fraction) -> float:
    """The mean of ⌊E·scale⌋ for a unit exponential E."""
    if 1 / scale >= 700:
        return 0.0
    return 1 / math.expm1(1 / scale)


def geometric_variance(scale: Fraction) -> float:
    """The variance of ⌊E·scale⌋: p/(1−p)² with p = e^(−1/scale), without cancellation."""
    half = 1 / (2 * scale)
    if half >= 300:
        return 0.0
    return 1 / (4 * math.sinh(half) ** 2)


POINTS = 4_096
"""How many points replace a law when a mean over it is computed."""


@dataclass(frozen=True, slots=True)
class LaplaceTails(Law):
    """Errors of values that are measured with Laplace noise, floored or rounded."""

    steps_more: ClassVar[int] = 1
    """The most steps that the grid adds to the errors of several values."""

    def spread_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` noises less the smallest > x), in scales.

        One less the mean of count·(F(smallest + x) − F(smallest))^(count − 1).
        """
        chances = (np.arange(POINTS) + 0.5) / POINTS
        smallest = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
        reached = smallest + x
        half = np.exp(-np.abs(reached)) / 2
        inside = np.where(reached < 0, half, 1 - half) - chances
        return 1 - count * float((inside ** (count - 1)).mean())

    def farthest_tail(self, count: int, x: float) -> float:
        """P(the largest of `count` noises, up or down, > x), in scales."""
        if x <= 0:
            return 1.0
        return -math.expm1(count * math.log1p(-math.exp(-x)))


@dataclass(frozen=True, slots=True)
class StaircaseNoise(RealLaw):
    """Geng and Viswanath's noise: flat stairs of width `step`, each split in two parts.

    For one number it has the least variance that pure differential privacy allows.

    The magnitude is `step`·(C + W): C counts whole stairs, falling by e^(−step/scale) each; W is
    uniform on [0, share) or, e^(−step/scale) times as densely, on [share, 1). The density jumps
    from part to part, so moving a draw costs a whole stair for every part of a `step`.
    """

    step: Fraction
    share: Fraction

    name: ClassVar[str] = "staircase"
    words_per_draw: ClassVar[int] = 3
    signed: ClassVar[bool] = True

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
    def variance(self) -> float:
        share = float(self.share)
        near = self.near
        first_moment = near * share / 2 + (1 - near) * (1 + share) / 2
        second_moment = near * share**2 / 3 + (1 - near) * (1 + share + share**2) / 3
        # E(C + W)² from the first two moments of W; C is geometric and independent of W.
        stairs = self.scale / self.step
        mean = geometric_mean(stairs)
        square_of_count = geometric_variance(stairs) + mean**2
        square = square_of_count + 2 * mean * first_moment + second_moment
        return float(self.step) ** 2 * square

    def tail(self, distance: ArrayLike) -> Floats:
        distances: Floats = np.asarray(distance, dtype=np.float64)
        stair, within = np.divmod(np.abs(distances) / float(self.step), 1.0)
        share = float(self.share)
        inner = self.near * np.minimum(within / share, 1.0)
        inner += (1 - self.near) * np.maximum(within - share, 0.0) / max(1 - share, 1e-300)
        half = self.fall**stair * (1 - inner + self.fall * inner) / 2
        return np.where(distances >= 0, half, 1 - half)

    @property
    def overshoot(self) -> Fraction:
        return self.step

    def size_bounds(self, random_words: Words) -> tuple[Floats, Floats]:
        low, high = exponential_bounds(float(self.scale), random_words[0])
        step = float(self.step)
        share = float(self.share)
        first_stair = np.floor(low / step * (1 - 2.0**-50))
        last_stair = np.floor(high / step * (1 + 2.0**-50))
        part = random_words[1] * 2.0**-64
        is_near = part < self.near * (1 - 2.0**-40) - 2.0**-50
        is_far = part > self.near * (1 + 2.0**-40)
        within = random_words[2] * 2.0**-64
        inner = np.where(is_far, share + (1 - share) * within, share * within)
        is_decided = (first_stair == last_stair) & (is_near | is_far)
        middle = step * (first_stair + inner)
        slack = (middle + step) * RELATIVE_ERROR
        return (
            np.where(is_decided, middle - slack, step * first_stair * (1 - 2.0**-50)),
            np.where(is_decided, middle + slack, step * (last_stair + 1) * (1 + 2.0**-50)),
        )

    def size(self, random_words: list[int], bits: Bits) -> Refined:
        exponential = Uniform.of_word(random_words[0], bits)
        part = Uniform(random_words[1], 64, bits)
        within = Uniform(random_words[2], 64, bits)
        # Which stair, and which part of it, are decided once.
        cell = cache(partial(self._cell, exponential, part))

        def size(level: int) -> Enclosure:
            origin, width = cell()
            low, high = within.enclosure(level)
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
        noise = signed_exponentials(uniforms[0])
        part = uniforms[1]
        within = uniforms[2]
        share = float(self.share)
        inner = np.where(part < self.near, share * within, share + (1 - share) * within)
        stairs = np.floor(np.abs(noise) * float(self.scale / self.step))
        size: Floats = float(self.step) * (stairs + inner)
        return np.copysign(size, noise, out=noise)


def _near_chance(share: Fraction, fall: Fraction, level: int) -> Enclosure:
    """The chance share / (share + e^(−fall)·(1 − share)), enclosed."""
    low, high = falling(fall, 30 * (level + 1))
    return share / (share + high * (1 - share)), share / (share + low * (1 - share))


_LN_2 = math.log(2)


@dataclass(frozen=True, slots=True)
class LaplaceNoise(LaplaceTails, MemorylessLaw):
    """Two-sided exponential noise.

    >>> round(LaplaceNoise(Fraction(3)).variance, 6)
    18.0
    >>> round(LaplaceNoise(Fraction(3)).floor_variance, 6)
    18.084255
    """

    name: ClassVar[str] = "laplace"
    signed: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        return 2 * float(self.scale) ** 2

    def tail(self, distance: ArrayLike) -> Floats:
        distances: Floats = np.asarray(distance, dtype=np.float64)
        half = np.exp(-np.abs(distances) / float(self.scale)) / 2
        return np.where(distances >= 0, half, 1 - half)

    @property
    def floor_variance(self) -> float:
        return 2 * geometric_variance(self.scale) + 0.25

    def value_half_width(self, level: float) -> float:
        """The fewest steps that a measured value stays within, with confidence `level`."""
        steps = math.ceil(-float(self.scale) * math.log1p(-level))
        return max(1, steps) - 0.5

    def difference_tail(self, other: Law, step: int) -> float:
        """Exact where the other is Laplace noise too."""
        if not isinstance(other, LaplaceNoise):
            return Law.difference_tail(self, other, step)
        return _laplace_difference_tail(1 / float(self.scale), 1 / float(other.scale), step)

    def from_uniforms(self, uniforms: Floats) -> Floats:
        return signed_exponentials(uniforms[0]) * float(self.scale)


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
        return np.exp(-np.maximum(distance, 0.0) / float(self.scale))

    @property
    def floor_mean(self) -> float:
        return geometric_mean(self.scale)

    @property
    def floor_variance(self) -> float:
        return geometric_variance(self.scale)

    def difference_tail(self, other: Law, step: int) -> float:
        """Exact where the other is exponential noise too."""
        if not isinstance(other, ExponentialNoise):
            return Law.difference_tail(self, other, step)
        rate = 1 / float(self.scale)
        rate0 = 1 / float(other.scale)
        total = -math.expm1(-rate - rate0)
        if step >= 0:
            return -math.expm1(-rate0) * math.exp(-rate * (step + 1)) / total
        return 1 + math.expm1(-rate) * math.exp(rate0 * step) / total

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise: Floats = np.log(1.0 - uniforms[0])  # of numbers in (0, 1]
        noise *= -float(self.scale)
        return noise


LAWS: dict[str, type[Law]] = {
    law.name: law for law in (LaplaceNoise, ExponentialNoise, StaircaseNoise)
}
"""The laws of noise that dpgap ships. To add one, write its class and enter it here."""
NOISES = tuple(LAWS)
REAL_NOISES = tuple(name for name, law in LAWS.items() if issubclass(law, RealLaw))
"""The laws that a Top-K accepts."""


def require_law(law: object) -> None:
    """Refuse a `law` that is no law, such as the mechanism `dpgap.Laplace`."""
    if isinstance(law, type) and hasattr(law, "supports"):
        raise TypeError(f"{law.__name__} needs a scale, as in {law.__name__}(2)")
    if not hasattr(law, "supports"):
        raise TypeError(
            "noise.draw takes a law, such as LaplaceNoise(scale) from dpgap.proof, where scale is "
            f"sensitivity/ε; not {type(law).__name__}. A mechanism such as dpgap.Laplace is no law"
        )


def require_noise(name: str, noise: object) -> str:
    """`noise`, if it names a law."""
    if not (isinstance(noise, str) and noise in LAWS):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, LAWS))}, not {noise!r}")
    return noise


def law_on_grid(
    kind: type[_Law], grid: Fraction | None, sensitivity: Fraction, epsilon: Fraction
) -> _Law:
    """The law of this kind that costs ε if one unit moves answers by the sensitivity."""
    step = Grid(grid).step
    steps = Grid(grid).up(sensitivity)
    require_scale(steps / epsilon, Fraction(steps))
    return kind.best(steps / epsilon * step, steps * step)


def least_whole(start: int, is_enough: Callable[[int], bool]) -> int:
    """The least whole number that is enough; all larger ones are. The search begins at `start`."""
    while not is_enough(start):
        start += 1
    while is_enough(start - 1):
        start -= 1
    return start


def require_memoryless(law: Law, where: str) -> MemorylessLaw:
    """`law`, if the largest of many draws can be drawn without the others."""
    if not isinstance(law, MemorylessLaw):
        raise ValueError(f"noise must be {either(MemorylessLaw)} {where}")
    return law


def either(kind: type) -> str:
    """The names of laws of this kind."""
    return " or ".join(repr(name) for name, law in LAWS.items() if issubclass(law, kind))


def upper_quantile(sums: Floats) -> Floats:
    """The quantile at e^(−sum) of a unit exponential; infinite for a sum of 0."""
    return -np.log(-np.expm1(-sums))


def exact_upper_quantile(total: Fraction, digits: int) -> Fraction:
    """−ln(1 − e^(−total)), precise to half of the digits: a small total cancels the others.

    A total of very many draws is smaller still. Then −ln(total) is as good: the two differ by less
    than the total.
    """
    context = decimals(digits)
    exponent = as_decimal(total, context)
    if total.numerator * 10 ** (digits // 2) < total.denominator:
        return -Fraction(context.ln(exponent))
    power = context.exp(exponent.copy_negate())
    return -Fraction(context.ln(context.subtract(Decimal(1), power)))


def _laplace_difference_tail(rate: float, rate0: float, step: int) -> float:
    """The sum of P(N₀ = n)·P(N > step + n) over n: three geometric series."""
    if step < 0:
        return 1 - _laplace_difference_tail(rate, rate0, -step - 1)  # N − N₀ is symmetric
    p = math.exp(-rate)
    one_less_pr = -math.expm1(-rate - rate0)  # with r = e^(−rate0)
    one_less_r = -math.expm1(-rate0)
    p_power = math.exp(-rate * (step + 1))
    r_power = math.exp(-rate0 * (step + 1))
    # Σ p^(step−j) r^j over j = 0..step, stable where p and r are close.
    mixed = math.exp(-min(rate, rate0) * step) * _geometric_sum(-abs(rate - rate0), step + 1)
    above = one_less_r * p_power / one_less_pr / 4
    between = one_less_r * mixed / 4
    below = one_less_r * r_power * p / one_less_pr / 4
    return above + between + r_power / 2 - below


def _geometric_sum(exponent: float, count: int) -> float:
    """1 + e^x + … , `count` terms, for x ≤ 0."""
    if exponent == 0:
        return float(count)
    return math.expm1(exponent * count) / math.expm1(exponent)


_SHIFT_ERROR = 2.0**-46
"""The error of the shift of a size, in scales, with all roundings that follow it."""
_COIN_ERROR = 2.0**-48
"""The error of an exponent x, or of a sum x of noise and coin, as a part of 1 + |x|."""
_SPARE_DIGITS = 40
"""How many digits scales from 2^−60 to 2^40 may lose."""


@dataclass(frozen=True, slots=True)
class GeometricNoise(LaplaceTails):
    """Two-sided geometric noise: the twin of Laplace noise on whole steps, with least variance.

    It is Laplace noise, its size moved by at most half a step and floored. The unit of length is a
    grid step. With p = e^(−1/scale), `P(noise = t) = (1 − p)/(1 + p) · p^|t|`. A shift by s steps
    costs `|s|/scale`.

    **One word draws it.** A uniform number gives a side (a fair sign) and an *exponent* x: e^(−x)
    is the chance of noise on the same side that is at least as far out. With a unit exponential E,
    x = E + ln 2. Then the size of the noise is the floor of

        scale · (x − ln(1 + p)).

    **Draws tie, and a coin breaks the tie.** A coin must be independent of the noise, or it would
    reveal the true answer. The fraction that the floor cuts off gives such a coin: given the value
    of the noise, the uniform number is uniform. So *noise plus coin* is one real number, continuous
    and rising in the uniform number. Its floor is the noise. The rest is the coin, which is uniform
    from 0 to 1 for every value of the noise. Let f be the fraction that the floor cuts off from the
    size. For draws above the middle

        noise + coin = ⌊size⌋ + (1 − e^(−f/scale)) / (1 − p),

    and for draws below the middle it is 1 minus this. So the largest of a trillion draws is drawn
    without the others, and all tied answers have the same chance.

    >>> law = GeometricNoise(Fraction(1))
    >>> round(law.variance ** 0.5, 2), round(float(law.tail(14)), 9)
    (1.36, 6.08e-07)
    """

    name: ClassVar[str] = "geometric"
    words_per_draw: ClassVar[int] = 1
    signed: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        return 2 * geometric_variance(self.scale)

    @property
    def _fall(self) -> float:
        """p: the factor by which each step farther out is less likely."""
        return math.exp(-1 / self.scale)

    def tail(self, distance: ArrayLike) -> Floats:
        steps: Floats = np.ceil(np.asarray(distance, dtype=np.float64))
        outer = np.abs(steps - 0.5) + 0.5
        beyond = np.exp(-outer / float(self.scale)) / (1 + self._fall)
        return np.where(steps > 0, beyond, 1 - beyond)

    def exact_tail(self, step: int) -> Refined:
        """P(noise ≥ step), as a number that is refined on demand."""

        def chance(level: int) -> Enclosure:
            digits = 100 * (level + 1)
            power_low, power_high = falling(max(step, 1 - step) / self.scale, digits)
            fall_low, fall_high = falling(1 / self.scale, digits)
            low = power_low / (1 + fall_high)
            high = power_high / (1 + fall_low)
            if step > 0:
                return low, high
            return 1 - high, 1 - low

        return chance

    def least_step(self, chance: Fraction) -> int:
        """The least t with P(noise ≥ t) ≤ chance, decided exactly.

        It can be decided, since no power of e with a rational exponent is rational.

        >>> GeometricNoise(Fraction(1)).least_step(Fraction(1, 10**6))
        14
        """

        def is_enough(step: int) -> bool:
            return bool(decide(self.exact_tail(step), lambda tail: tail <= chance))

        rarer = min(chance, 1 - chance)
        log = math.log(rarer.numerator) - math.log(rarer.denominator)
        estimate = -float(self.scale) * (log + math.log1p(self._fall))
        if 2 * chance >= 1:
            estimate = 1 - estimate
        return least_whole(math.ceil(estimate), is_enough)  # floats are off by a step or so

    @without_float_errors
    def floors(self, bits: Bits, *shape: int) -> Integers:
        random_words = bits.words(*shape)
        low, high = self.floor_bounds(random_words)
        for position in zip(*np.nonzero(low != high), strict=True):
            draw = self.with_coin(int(random_words[position]), bits)
            low[position] = decide(draw, math.floor)
        return low.astype(np.int64)

    def floor_bounds(self, random_words: Words) -> tuple[Floats, Floats]:
        """Whole numbers that enclose the noise of each word; mostly the two are equal.

        The size is E·scale plus a shift. The error of the shift is less than 2^−48 scales. The sum
        is at most 45 scales, and rounding it adds an error of less than 2^−53 of the sum. Two
        provers close the argument (tests/exact/test_enclosures.py).
        """
        scale = float(self.scale)
        low, high = exponential_bounds(scale, random_words)
        shift = scale * (_LN_2 - math.log1p(self._fall))
        slack = scale * _SHIFT_ERROR
        low += shift - slack
        high += shift + slack
        np.floor(low, out=low)
        np.floor(high, out=high)
        return signed_bounds(low, high, random_words > LOW_MASK)

    def quantile_bounds(self, sums: Floats) -> tuple[Floats, Floats]:
        """Floats below and above the quantile of noise plus coin at e^(−sum).

        `sums` has lower and upper ends. The quantile falls as the sum grows, so the upper ends of
        sums give the lower ends here.
        """
        below = sums >= _LN_2
        far, near = np.where(below, sums, upper_quantile(sums))
        return self._with_coins(near, below[1], -1), self._with_coins(far, below[0], 1)

    def _with_coins(self, exponents: Floats, below: Flags, outwards: int) -> Floats:
        """Noise plus coin at these exponents, moved up (1) or down (−1) by the error of floats.

        This error is less than `_COIN_ERROR`, for exponents with their logarithms and for what
        follows from them (tests/exact/test_enclosures.py). If it is subtracted from an exponent,
        the size is below the true size, however it is rounded; noise plus coin grows with the size.
        """
        scale = float(self.scale)
        away = np.where(below, -outwards, outwards) * (1 + exponents) * _COIN_ERROR
        size = np.maximum(scale * (exponents - math.log1p(self._fall) + away), 0.0)
        floor = np.floor(size)
        coin = np.expm1(-(size - floor) / scale) / math.expm1(-1 / self.scale)
        above = np.where(np.isinf(size), size, floor + coin)
        with_coin = np.where(below, 1 - above, above)
        return with_coin + outwards * (1 + np.abs(with_coin)) * _COIN_ERROR

    def with_coin(self, word: int, bits: Bits) -> Refined:
        """Noise plus coin of one word, as a real number refined on demand.

        Ask once for each word: what it leaves open is drawn from the bits.
        """
        uniform = Uniform.of_word(word, bits)
        below = word > LOW_BITS

        def number(level: int) -> Enclosure:
            digits = 40 * (level + 2)
            ln_2 = Fraction(decimals(digits).ln(Decimal(2)))
            ends = [
                self._exact_with_coin(ln_2 + end, below, digits)
                for end in uniform.exponential(level + 1)
            ]
            slack = Fraction(1, 10 ** (digits // 2))
            return min(ends) - slack, max(ends) + slack

        return number

    def exact_quantile(self, total: Fraction, digits: int) -> Fraction:
        """The quantile of noise plus coin at e^(−total), in scales, to half of the digits."""
        digits += _SPARE_DIGITS
        below = total >= Fraction(decimals(digits).ln(Decimal(2)))
        exponent = total if below else exact_upper_quantile(total, digits)
        return self._exact_with_coin(exponent, below, digits) / self.scale

    def _exact_with_coin(self, exponent: Fraction, below: bool, digits: int) -> Fraction:
        context = decimals(digits + _SPARE_DIGITS)
        rate = 1 / self.scale
        fall = context.exp(as_decimal(-rate, context))
        size = self.scale * (exponent - Fraction(context.ln(context.add(Decimal(1), fall))))
        floor = max(math.floor(size), 0)
        power = context.exp(as_decimal(-(size - floor) * rate, context))
        coin = context.divide(
            context.subtract(Decimal(1), power), context.subtract(Decimal(1), fall)
        )
        above = floor + Fraction(coin)
        return 1 - above if below else above

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise = signed_exponentials(uniforms[0])
        size = np.floor(float(self.scale) * (np.abs(noise) + _LN_2 - math.log1p(self._fall)))
        return np.copysign(size, noise)

    def value_half_width(self, level: float) -> float:
        """The fewest steps that a measured value stays within, with confidence `level`."""
        outer = -float(self.scale) * (math.log((1 - level) / 2) + math.log1p(self._fall))
        return float(max(0, math.ceil(outer) - 1))


Quantiles = MemorylessLaw | GeometricNoise
"""Laws of which the largest of many draws can be drawn without the others."""
