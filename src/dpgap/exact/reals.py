"""Real numbers that are refined on demand: exact draws are made of them.

A draw is a stream of random bits read as a real number, most significant bits first. Its first
words are drawn at once; further ones only when a comparison or a floor needs them. So the
distribution of the real number is exact, and so is every decision about it: no rounding, no δ.

With m the low 63 bits of a word, U ∈ [m, m+1)·2^−63 is uniform and E = −ln U is a unit
exponential. Almost always 64 bits decide, and floats are precise enough to see that they do.
`exponential_bounds` computes, for whole arrays at once, floats that provably enclose E (the
argument is there). The rare draw that they leave open is settled one at a time by `decide`: more
bits, and decimal arithmetic that is correctly rounded.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits, Words, secure_bits
from dpgap.exact.parameters import approximately

if TYPE_CHECKING:
    from dpgap.exact.laws import Law


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Enclosure = tuple[Fraction, Fraction]
"""Rationals below and above a real number."""
Refined = Callable[[int], Enclosure]
"""A real number, as a function: level 0, 1, 2, … returns closer and closer enclosures."""

_MAX_SCALE = 1 << 40
_MIN_SCALE = Fraction(1, 1 << 60)

_FRACTION_BITS = 63
DENOMINATOR = 1 << _FRACTION_BITS
"""The low bits of a word, over this, are a uniform number."""
LOW_BITS = DENOMINATOR - 1
"""The mask of all bits of a word except the top one."""
LOW_MASK = np.uint64(LOW_BITS)
SIGN_PLACE = np.uint64(_FRACTION_BITS)
_LOG_ERROR = 2.0**-50
"""The relative error of `log`: 4 units in the last place."""
_ABSOLUTE_ERROR = 2.0**-52
RELATIVE_ERROR = 2.0**-48

without_float_errors = np.errstate(all="ignore")
"""A decorator. Floats in the function round, overflow and underflow without an error.

The caller may have told NumPy to raise such errors, and an error would lose a paid answer.
"""


class TooWideError(ValueError):
    """The noise of so small an ε has a scale that floats could not serve."""


class TooNarrowError(ValueError):
    """The noise of so large an ε has a scale that floats could not serve."""


def require_scale(scale: Fraction, sensitivity: Fraction = Fraction(1)) -> None:
    """Refuse a scale, or a sensitivity (in grid steps), that is out of the range of floats."""
    if sensitivity > _MAX_SCALE:
        raise ValueError("sensitivity must be at most 2^40 grid steps: use a coarser grid")
    if _MIN_SCALE <= scale <= _MAX_SCALE:
        return
    would_be = f"the noise would have a scale of {approximately(scale, 3)} grid steps"
    if scale > _MAX_SCALE:
        raise TooWideError(
            f"epsilon is too small: {would_be}, and at most 2^40 are accepted. "
            "Use a larger epsilon, a smaller k or a coarser grid"
        )
    raise TooNarrowError(
        f"epsilon is too large: {would_be}, and at least 2^-60 are accepted. "
        "Use a smaller epsilon or a finer grid"
    )


@functools.cache
def logs_hold() -> bool:
    """Whether `log` is as precise as `exponential_bounds` assumes, at points where that is hard.

    It is compared once with decimal arithmetic, at a few hundred points: next to powers of two,
    next to 1, next to the ends of tables that libraries use, and everywhere between.
    """
    next_to_powers: list[float] = []
    for power in range(0, 64, 3):
        next_to_powers += [2.0**-power * (1 + step * 2.0**-52) for step in range(-2, 3)]
    ends = [(0.5 + i / 256) * (1 + 2.0**-40) * 2.0 ** -(i % 40) for i in range(128)]
    spread = [i * 0.6180339887498949 % 1 for i in range(1, 129)]
    points = np.array(next_to_powers + ends + spread)
    points = points[points <= 1]
    logs = zip(points.tolist(), np.log(points).tolist(), map(math.log, points), strict=True)
    return all(
        _is_log_precise(x, by_numpy) and _is_log_precise(x, by_math)
        for x, by_numpy, by_math in logs
    )


def _is_log_precise(x: float, log: float) -> bool:
    digits = decimals(15)
    exact_log = digits.ln(Decimal(x))
    allowed = digits.abs(digits.multiply(exact_log, Decimal(_LOG_ERROR)))
    return digits.subtract(Decimal(log), exact_log).copy_abs() <= allowed


def exponential_bounds(scale: float, random_words: Words) -> tuple[Floats, Floats]:
    """Floats below and above E·scale for each word.

    Why they enclose E·scale. (1) m as a float is off by at most 2^−53 of itself, which moves
    ln m by at most 2^−52. (2) The unread bits move ln U by at most ln((m+1)/m) ≤ 1/m. (3) `log`
    is within 4 units in the last place, so within 2^−50 of itself. (4) Rounding `scale` to a
    float, two products and the last sum or difference each cost at most 2^−53 of the result.
    (3) and (4) together stay below 2^−48 of the result, (1) and (2) below
    scale·(2^−52 + 1/m)(1 + 2^−50); the factor is absorbed by the slack in 2^−48. m = 0 says
    nothing about how large E is, so its upper bound is infinite. Two provers close the argument
    (tests/exact/test_enclosures.py). Where `log` does not hold (3), nothing is said of any word,
    and all is decided by decimal arithmetic.
    """
    if not logs_hold():
        return np.zeros(random_words.shape), np.full(random_words.shape, np.inf)
    m = (random_words & LOW_MASK).view(np.int64).astype(np.float64)
    is_any_zero = not m.all()
    if is_any_zero:
        zeros = m == 0
        m[zeros] = 1.0
    error = scale / m
    error += scale * _ABSOLUTE_ERROR
    m *= 2.0**-_FRACTION_BITS
    middle = np.log(m, out=m)
    middle *= -scale
    error += middle * RELATIVE_ERROR
    low = middle - error
    high = np.add(middle, error, out=error)
    if is_any_zero:
        high[zeros] = np.inf
    return np.maximum(low, 0.0, out=low), high


def quick_exponential(numerator: int, denominator: int) -> tuple[float, float]:
    """Floats around −ln U for U in [numerator, numerator + 1)/denominator: the same argument."""
    ratio = numerator / denominator
    if logs_hold():
        middle = -math.log(ratio)
    else:
        middle = -float(decimals(20).ln(Decimal(ratio)))
    error = middle * RELATIVE_ERROR + _ABSOLUTE_ERROR + 1 / numerator
    return max(middle - error, 0.0), middle + error


def decide(number: Refined, question: Callable[[Fraction], Any]) -> Any:
    """Refine until both ends of the enclosure give one answer. It ends: ties have chance 0."""
    for level in itertools.count():
        low, high = number(level)
        answer = question(low)
        if answer == question(high):
            return answer
    raise AssertionError("unreachable")


def scaled(factor: Fraction | int, number: Refined) -> Refined:
    """The number times a rational."""

    def product(level: int) -> Enclosure:
        low, high = number(level)
        if factor > 0:
            return factor * low, factor * high
        return factor * high, factor * low

    return product


def difference(first: Refined, second: Refined) -> Refined:
    """The first number minus the second."""

    def distance(level: int) -> Enclosure:
        low, high = first(level)
        second_low, second_high = second(level)
        return low - second_high, high - second_low

    return distance


class Uniform:
    """A uniform number between 0 and 1, as the bits read so far."""

    __slots__ = ("_bits", "_length", "_read")

    def __init__(self, read: int, length: int, bits: Bits) -> None:
        self._read = read
        self._length = length
        self._bits = bits

    @classmethod
    def of_word(cls, word: int, bits: Bits) -> "Uniform":
        """The uniform number that `exponential_bounds` reads from a word."""
        return cls(word & LOW_BITS, _FRACTION_BITS, bits)

    def _extend(self, level: int) -> None:
        while self._length < 64 * (level + 1) - 1 or self._read == 0:
            self._read = (self._read << 64) | self._bits.word()
            self._length += 64

    def enclosure(self, level: int) -> Enclosure:
        """The number itself: 63 or 64 bits at level 0, and 64 more at every further level."""
        self._extend(level)
        denominator = 1 << self._length
        return Fraction(self._read, denominator), Fraction(self._read + 1, denominator)

    def exponential(self, level: int) -> Enclosure:
        """−ln of the number, enclosed. `Context.ln` is correctly rounded, so ±1 ulp is ample."""
        self._extend(level)
        if level == 0:
            low, high = quick_exponential(self._read, 1 << self._length)
            return Fraction(low), Fraction(high)
        digits = decimals(self._length)  # enough to write both ends of the enclosure exactly
        unit = digits.scaleb(Decimal(5**self._length), -self._length)
        low_log = digits.ln(digits.multiply(Decimal(self._read + 1), unit))
        high_log = digits.ln(digits.multiply(Decimal(self._read), unit))
        if low_log:  # otherwise it is ln 1, which is 0 without any rounding
            low_log = digits.next_plus(low_log)
        return -Fraction(low_log), -Fraction(digits.next_minus(high_log))


def decimals(count: int) -> Context:
    """Correctly rounded arithmetic with spare digits; the caller's settings do not matter."""
    return Context(
        prec=count + 20,
        rounding=ROUND_HALF_EVEN,
        Emin=-999_999,
        Emax=999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[],
    )


def as_decimal(number: Fraction, digits: Context) -> Decimal:
    """The number to so many digits."""
    return digits.divide(Decimal(number.numerator), Decimal(number.denominator))


def falling(exponent: Fraction, digits: int) -> Enclosure:
    """e^(−exponent), enclosed to `digits` digits; if it is tiny, between 0 and 10^(−digits)."""
    if not exponent:
        return Fraction(1), Fraction(1)
    if exponent > 3 * digits:
        return Fraction(0), Fraction(1, 10**digits)
    context = decimals(digits)
    near = Fraction(context.exp(as_decimal(-exponent, context)))
    return near - near / 10**digits, near + near / 10**digits


class Real:
    """A whole number of steps plus a draw: the noisy answer that a program works with.

    `<` refines both numbers until they differ. `-` returns the difference floored to whole steps:
    only this may be released.
    """

    __slots__ = ("_draw", "_offset")

    def __init__(self, offset: int, draw: Refined) -> None:
        self._offset = offset
        self._draw = draw

    def __add__(self, steps: int) -> "Real":
        return Real(self._offset + steps, self._draw)

    __radd__ = __add__

    def __sub__(self, other: "Real") -> int:
        steps = self._offset - other._offset
        if self._draw is other._draw:
            return steps
        return steps + int(decide(difference(self._draw, other._draw), math.floor))

    def __lt__(self, other: "Real") -> bool:
        return self - other < 0


class RealNoise:
    """Noise for programs that need real numbers: one draw after another."""

    __slots__ = ("_draws",)

    def __init__(self, draws: Iterable[Refined]) -> None:
        self._draws = iter(draws)

    def draw(self, law: "Law") -> Real:
        """The next real number."""
        return Real(0, next(self._draws))


class GridNoise:
    """Noise for programs that need whole steps only: every draw is floored to an integer.

    Bits come from the thread that asks a question. Call `freshen` before every question.
    """

    __slots__ = ("_bits",)

    def freshen(self) -> None:
        """Draw from the calling thread's bits from now on, and from fresh ones."""
        self._bits: Bits = secure_bits()

    def draw(self, law: "Law") -> int:
        """The next whole number of steps."""
        return law.floor(self._bits)
