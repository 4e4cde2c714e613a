"""Two-sided geometric noise: Laplace noise's twin on whole steps, with the least variance there.

With p = e^(−1/scale), P(noise = t) = (1 − p)/(1 + p) · p^|t|. A shift by s steps costs |s|/scale.

**One word draws it.** Let e^(−x) be the chance of lying at least as far out, on the same side, as a
uniform number does; x is its *exponent*. With a fair sign and a unit exponential E, x = E + ln 2.
Then the size of the noise is the floor of

    scale · (x − ln(1 + p)).

**Draws tie, and a coin breaks the tie.** A coin must say nothing of the noise, or it would tell
what the true answer is. What the floor leaves over serves: within one value of the noise the
uniform number is uniform. So *noise plus coin* is one real number, continuous and rising in the
uniform number. Its floor is the noise, and the rest is a coin that is uniform from 0 to 1 whatever
the noise is. With f the part of the size that the floor cuts off, for draws above the middle

    noise + coin = ⌊size⌋ + (1 − e^(−f/scale)) / (1 − p),

and 1 less that for draws below. So the largest of a trillion draws is drawn without the others, and
among tied answers everyone has the same chance.

The law is for whole steps: its unit of length is a grid step.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.exact.bits import Bits, Words
from dpgap.exact.laws import (
    LaplaceTails,
    exact_upper_quantile,
    geometric_variance,
    signed_exponentials,
    upper_quantile,
)
from dpgap.exact.reals import (
    LOW_BITS,
    LOW_MASK,
    Enclosure,
    Floats,
    Integers,
    Refined,
    Uniform,
    as_decimal,
    decide,
    decimals,
    exponential_bounds,
)

_LN_2 = math.log(2)
_SHIFT_ERROR = 2.0**-46
"""Of the shift of a size, in scales, with all roundings that follow it."""
_COIN_ERROR = 2.0**-48
"""Of an exponent, and of noise plus coin: in parts of themselves plus 1."""
_SPARE = 40
"""Digits that scales from 2^−60 to 2^40 may cost."""
_SMALLEST = 999_000
"""A chance that decimals take for 0 is below 10 to minus this."""


@dataclass(frozen=True, slots=True)
class GeometricNoise(LaplaceTails):
    """Two-sided geometric noise on whole steps.

    It is Laplace noise, its size moved by at most half a step and floored.

    >>> law = GeometricNoise(Fraction(1))
    >>> round(law.variance ** 0.5, 2), round(float(law.tail(14)), 9)
    (1.36, 6.08e-07)
    """

    name: ClassVar[str] = "geometric"
    words: ClassVar[int] = 1
    signed: ClassVar[bool] = True
    monotone_cost: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        return 2 * geometric_variance(self.scale)

    @property
    def floor_mean(self) -> float:
        return 0.0

    @property
    def floor_variance(self) -> float:
        return self.variance

    @property
    def _fall(self) -> float:
        """p: how much less likely each step farther out is."""
        return math.exp(-1 / self.scale)

    def tail(self, distance: ArrayLike) -> Floats:
        whole: Floats = np.ceil(np.asarray(distance, dtype=np.float64))
        out = np.abs(whole - 0.5) + 0.5
        beyond = np.exp(-out / float(self.scale)) / (1 + self._fall)
        return np.where(whole > 0, beyond, 1 - beyond)

    def floor_mass(self, step: int) -> float:
        return -math.expm1(-1 / self.scale) / (1 + self._fall) * math.exp(-abs(step) / self.scale)

    def exact_tail(self, step: int) -> Refined:
        """P(noise ≥ step), as a number that is refined on demand."""

        def chance(level: int) -> Enclosure:
            size = 30 * (level + 1)
            digits = decimals(size)
            fall = digits.exp(as_decimal(-1 / self.scale, digits))
            power = digits.exp(as_decimal(-max(step, 1 - step) / self.scale, digits))
            near = Fraction(digits.divide(power, digits.add(Decimal(1), fall)))
            slack = near / 10**size or Fraction(1, 10**_SMALLEST)
            low, high = max(near - slack, Fraction(0)), near + slack
            return (low, high) if step > 0 else (1 - high, 1 - low)

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
        out = float(self.scale) * (_log(rarer) + math.log1p(self._fall))
        found = math.ceil(-out if 2 * chance < 1 else 1 + out)  # floats are off by a step or so
        while not is_enough(found):
            found += 1
        while is_enough(found - 1):
            found -= 1
        return found

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def floors(self, bits: Bits, *shape: int) -> Integers:
        words = bits.words(*shape)
        low, high = self.floor_bounds(words)
        for where in zip(*np.nonzero(low != high), strict=True):
            low[where] = decide(self.with_coin(int(words[where]), bits), math.floor)
        return low.astype(np.int64)

    def floor_bounds(self, words: Words) -> tuple[Floats, Floats]:
        """Whole numbers not above and not below the noise of each word; mostly both are it.

        The size is E·scale and a shift. The shift is off by less than 2^−48 scales, and adding it
        by less than 2^−53 of a number of at most 45 scales. Two provers close the argument
        (tests/exact/test_enclosures.py).
        """
        scale = float(self.scale)
        low, high = exponential_bounds(scale, words)
        shift, slack = scale * (_LN_2 - math.log1p(self._fall)), scale * _SHIFT_ERROR
        low += shift - slack
        high += shift + slack
        np.floor(low, out=low)
        np.floor(high, out=high)
        below = words > LOW_MASK
        return np.where(below, -high, low), np.where(below, -low, high)

    def coin_bounds(self, words: Words) -> tuple[Floats, Floats]:
        """Floats below and above noise plus coin, of each word."""
        near, far = exponential_bounds(1.0, words)
        below = words > LOW_MASK
        low, high = np.where(below, far, near), np.where(below, near, far)
        return self._with_coins(low + _LN_2, below, -1), self._with_coins(high + _LN_2, below, 1)

    def quantile_bounds(self, sums: Floats) -> tuple[Floats, Floats]:
        """Floats around noise plus coin where e^(−sum) of all draws are below; sums are enclosed.

        It falls as the sum grows, so the ends change places.
        """
        return self._at_sums(sums[1], -1), self._at_sums(sums[0], 1)

    def _at_sums(self, sums: Floats, outwards: int) -> Floats:
        below = sums >= _LN_2
        return self._with_coins(np.where(below, sums, upper_quantile(sums)), below, outwards)

    def _with_coins(self, exponents: Floats, below: NDArray[np.bool_], outwards: int) -> Floats:
        """Noise plus coin at these exponents, moved up (1) or down (−1) by all that floats err.

        Exponents, their logarithms included, and what follows from them, are off by less than
        `_COIN_ERROR` (tests/exact/test_enclosures.py). Where that was taken off an exponent, a size
        is below the true one, whatever its roundings, and noise with coin grows with the size.
        """
        scale = float(self.scale)
        away = np.where(below, -outwards, outwards) * (1 + exponents) * _COIN_ERROR
        size = np.maximum(scale * (exponents - math.log1p(self._fall) + away), 0.0)
        whole = np.floor(size)
        coin = np.expm1(-(size - whole) / scale) / math.expm1(-1 / self.scale)
        above = np.where(np.isinf(size), size, whole + coin)
        found = np.where(below, 1 - above, above)
        return found + outwards * (1 + np.abs(found)) * _COIN_ERROR

    def with_coin(self, word: int, bits: Bits) -> Refined:
        """Noise plus coin of one word, as a real number refined on demand.

        Ask once for each word: what it leaves open is drawn from the bits.
        """
        uniform, below = Uniform.of_word(word, bits), word > LOW_BITS

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
        """Noise plus coin where e^(−total) of all draws are below, in scales, to half of them."""
        digits += _SPARE
        below = total >= Fraction(decimals(digits).ln(Decimal(2)))
        exponent = total if below else exact_upper_quantile(total, digits)
        return self._exact_with_coin(exponent, below, digits) / self.scale

    def _exact_with_coin(self, exponent: Fraction, below: bool, digits: int) -> Fraction:
        context = decimals(digits + _SPARE)
        rate = 1 / self.scale
        fall = context.exp(as_decimal(-rate, context))
        size = self.scale * (exponent - Fraction(context.ln(context.add(Decimal(1), fall))))
        whole = max(math.floor(size), 0)
        power = context.exp(as_decimal(-(size - whole) * rate, context))
        coin = context.divide(
            context.subtract(Decimal(1), power), context.subtract(Decimal(1), fall)
        )
        above = whole + Fraction(coin)
        return 1 - above if below else above

    def from_uniforms(self, uniforms: Floats) -> Floats:
        noise = signed_exponentials(uniforms[0])
        size = np.abs(noise)
        size += _LN_2 - math.log1p(self._fall)
        size *= float(self.scale)
        np.floor(size, out=size)
        return np.copysign(size, noise, out=noise)

    def value_half_width(self, level: float) -> float:
        """The fewest steps that a measured value stays within, with confidence `level`."""
        out = -float(self.scale) * (math.log((1 - level) / 2) + math.log1p(self._fall))
        return float(max(0, math.ceil(out) - 1))


def _log(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)
