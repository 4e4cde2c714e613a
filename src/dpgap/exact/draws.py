"""Exact draws: continuous noise, known as finely as anybody asks.

A draw is a stream of random bits read as a real number, most significant bits first. Its first
words are drawn at once; further ones only when a comparison or a floor needs them. So the real
number is exactly distributed, and so is everything decided about it: no rounding, no δ.

With m the low 63 bits of the first word, U ∈ [m, m+1)·2^−63 is uniform and E = −ln U is a unit
exponential; the top bit is the sign. Almost always 64 bits decide, and floats are precise enough
to see that they do. `bounds` computes, for whole arrays at once, floats that provably enclose the
draw (the argument is there). The rare draw that they leave open is settled one at a time by
`Draw`: more bits, and decimal arithmetic that is correctly rounded.
"""

import functools
import itertools
import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits, Words, secure_bits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise
from dpgap.exact.parameters import approximately

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Enclosure = tuple[Fraction, Fraction]

_MAX_SCALE = 1 << 40
_MIN_SCALE = Fraction(1, 1 << 60)

_FRACTION_BITS = 63
_WHOLE = 1 << _FRACTION_BITS
_LOW_BITS = _WHOLE - 1
_MASK = np.uint64(_LOW_BITS)
_ABSOLUTE_ERROR = 2.0**-52
_RELATIVE_ERROR = 2.0**-48


def require_scale(scale: Fraction, sensitivity: Fraction = Fraction(1)) -> None:
    """Refuse a scale, or a sensitivity, in grid steps, that floats could not serve."""
    if sensitivity > _MAX_SCALE:
        raise ValueError("sensitivity must be at most 2^40 grid steps: use a coarser grid")
    if _MIN_SCALE <= scale <= _MAX_SCALE:
        return
    would_be = f"the noise would have a scale of {approximately(scale, 3)} grid steps"
    if scale > _MAX_SCALE:
        raise ValueError(
            f"epsilon is too small: {would_be}, and at most 2^40 are accepted. "
            "Use a larger epsilon, a smaller k or a coarser grid"
        )
    raise ValueError(
        f"epsilon is too large: {would_be}, and at least 2^-60 are accepted. "
        "Use a smaller epsilon or a finer grid"
    )


def bounds(law: Law, words: Words) -> tuple[Floats, Floats]:
    """Floats below and above each draw; `words` has the law's words along its first axis.

    Why they enclose E·scale. (1) m as a float is off by at most 2^−53 of itself, which moves
    ln m by at most 2^−52. (2) The unread bits move ln U by at most ln((m+1)/m) ≤ 1/m. (3) `log`
    is within 4 units in the last place, so within 2^−50 of itself. (4) Rounding `scale` to a
    float, two products and the last sum or difference each cost at most 2^−53 of the result.
    (3) and (4) together stay below 2^−48 of the result, (1) and (2) below
    scale·(2^−52 + 1/m)(1 + 2^−50); the factor is absorbed by the slack in 2^−48. m = 0 says
    nothing about how large E is, so its upper bound is infinite.
    """
    low, high = _magnitude_bounds(law, words)
    if law.symmetric:
        negative = words[0] > _MASK
        low, high = np.where(negative, -high, low), np.where(negative, -low, high)
    return low, high


def _require_known(law: Law) -> None:
    """Refuse a law that nothing here draws from: it must not be taken for another."""
    if not isinstance(law, LaplaceNoise | ExponentialNoise | StaircaseNoise):
        raise TypeError(f"there are no exact draws from {type(law).__name__} yet")


def _magnitude_bounds(law: Law, words: Words) -> tuple[Floats, Floats]:
    _require_known(law)
    low, high = _exponential_bounds(float(law.scale), words[0])
    if isinstance(law, StaircaseNoise):
        return _staircase_bounds(law, low, high, words)
    return low, high


def unit_exponential_bounds(words: Words) -> tuple[Floats, Floats]:
    """Floats below and above E = −ln U for each word."""
    return _exponential_bounds(1.0, words)


def _exponential_bounds(scale: float, words: Words) -> tuple[Floats, Floats]:
    m = (words & _MASK).view(np.int64).astype(np.float64)
    nothing_known = None if m.all() else m == 0
    if nothing_known is not None:
        m[nothing_known] = 1.0
    error = scale / m
    error += scale * _ABSOLUTE_ERROR
    m *= 2.0**-_FRACTION_BITS
    middle = np.log(m, out=m)
    middle *= -scale
    error += middle * _RELATIVE_ERROR
    low, high = middle - error, np.add(middle, error, out=error)
    if nothing_known is not None:
        high[nothing_known] = np.inf
    return np.maximum(low, 0.0, out=low), high


def _staircase_bounds(
    law: StaircaseNoise, low: Floats, high: Floats, words: Words
) -> tuple[Floats, Floats]:
    step, share, near = float(law.step), float(law.share), law.near
    first, last = np.floor(low / step * (1 - 2.0**-50)), np.floor(high / step * (1 + 2.0**-50))
    part, place = words[1] * 2.0**-64, words[2] * 2.0**-64
    is_near, is_far = part < near * (1 - 2.0**-40) - 2.0**-50, part > near * (1 + 2.0**-40)
    inner = np.where(is_far, share + (1 - share) * place, share * place)
    known = (first == last) & (is_near | is_far)
    middle = step * (first + inner)
    slack = (middle + step) * _RELATIVE_ERROR
    return (
        np.where(known, middle - slack, step * first * (1 - 2.0**-50)),
        np.where(known, middle + slack, step * (last + 1) * (1 + 2.0**-50)),
    )


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def floors(law: Law, bits: Bits, *shape: int) -> Integers:
    """Exactly distributed noise, floored to whole steps."""
    words = bits.words(law.words, *shape)
    low, high = _magnitude_bounds(law, words)
    np.floor(low, out=low)
    undecided = low != np.floor(high, out=high)
    floored = low.astype(np.int64)
    if law.symmetric:
        floored ^= words[0].view(np.int64) >> 63  # a negative draw turns ⌊x⌋ into ⌊−x⌋ = −⌊x⌋ − 1
    for where in zip(*np.nonzero(undecided), strict=True):
        floored[where] = Draw(law, words[(slice(None), *where)].tolist(), bits).floor()
    return floored


def floor(law: Law, bits: Bits) -> int:
    """One draw of `floors`."""
    _require_known(law)
    words = [bits.word()] if law.words == 1 else [bits.word() for _ in range(law.words)]
    if law.words == 1 and (read := words[0] & _LOW_BITS):
        low, high = _quick_exponential(read, _WHOLE)
        scale = law.scale.numerator / law.scale.denominator  # faster than `float`
        below, above = math.floor(low * scale), math.floor(high * scale)
        if below == above:
            return ~below if law.symmetric and words[0] > _LOW_BITS else below
    return Draw(law, words, bits).floor()


def _quick_exponential(read: int, whole: int) -> tuple[float, float]:
    """Floats around −ln U for U in [read, read + 1)/whole; as in `bounds`, for one draw."""
    middle = -math.log(read / whole)
    error = middle * _RELATIVE_ERROR + _ABSOLUTE_ERROR + 1 / read
    return max(middle - error, 0.0), middle + error


class Draw:
    """One exactly distributed real number, refined on demand."""

    __slots__ = ("_bits", "_cell", "_law", "_negative", "_position", "_uniform")

    def __init__(self, law: Law, words: list[int], bits: Bits) -> None:
        self._law = law
        self._bits = bits
        self._negative = law.symmetric and bool(words[0] >> _FRACTION_BITS)
        self._uniform = Uniform.of_word(words[0], bits)
        self._position = [Uniform(word, 64, bits) for word in words[1:]]
        self._cell: tuple[Fraction, Fraction] | None = None

    def enclosure(self, level: int) -> Enclosure:
        """Rationals below and above the draw: floats at level 0, 64 more bits a level after."""
        if isinstance(self._law, StaircaseNoise):
            low, high = self._staircase(self._law, level)
        else:
            low, high = _scaled(self._law.scale, self._uniform.exponential(level))
        return (-high, -low) if self._negative else (low, high)

    def _staircase(self, law: StaircaseNoise, level: int) -> Enclosure:
        part, place = self._position
        if self._cell is None:  # which stair, and which part of it, are decided once
            stair = decide(
                lambda at: _scaled(law.scale / law.step, self._uniform.exponential(at)), math.floor
            )
            fall = law.step / law.scale
            is_near = decide(
                lambda at: _difference(part.enclosure(at), _near_chance(law.share, fall, at)),
                lambda bound: bound < 0,
            )
            start, width = (Fraction(0), law.share) if is_near else (law.share, 1 - law.share)
            self._cell = law.step * (stair + start), law.step * width
        origin, width = self._cell
        low, high = place.enclosure(level)
        return origin + width * low, origin + width * high

    def floor(self) -> int:
        """The whole steps below the draw."""
        whole: int = decide(self.enclosure, math.floor)
        return whole


def decide(enclosure: Callable[[int], Enclosure], question: Callable[[Fraction], Any]) -> Any:
    """Refine until both ends of the enclosure answer alike. Certain to end: ties have chance 0."""
    for level in itertools.count():
        low, high = enclosure(level)
        answer = question(low)
        if answer == question(high):
            return answer
    raise AssertionError("unreachable")


def _scaled(factor: Fraction, enclosure: Enclosure) -> Enclosure:
    return factor * enclosure[0], factor * enclosure[1]


def _difference(a: Enclosure, b: Enclosure) -> Enclosure:
    return a[0] - b[1], a[1] - b[0]


class Uniform:
    """A uniform number between 0 and 1, as the bits read so far."""

    __slots__ = ("_bits", "_length", "_read")

    def __init__(self, read: int, length: int, bits: Bits) -> None:
        self._read = read
        self._length = length
        self._bits = bits

    @classmethod
    def of_word(cls, word: int, bits: Bits) -> "Uniform":
        """The uniform number that `bounds` reads from a word."""
        return cls(word & _LOW_BITS, _FRACTION_BITS, bits)

    def _extend(self, level: int) -> None:
        while self._length < 64 * (level + 1) - 1 or self._read == 0:
            self._read = (self._read << 64) | self._bits.word()
            self._length += 64

    def enclosure(self, level: int) -> Enclosure:
        self._extend(level)
        whole = 1 << self._length
        return Fraction(self._read, whole), Fraction(self._read + 1, whole)

    def exponential(self, level: int) -> Enclosure:
        """−ln of the number, enclosed. `Context.ln` is correctly rounded, so ±1 ulp is ample."""
        self._extend(level)
        if level == 0:
            low, high = _quick_exponential(self._read, 1 << self._length)
            return Fraction(low), Fraction(high)
        digits = decimals(self._length)  # enough to write both ends of the enclosure exactly
        unit = digits.scaleb(Decimal(5**self._length), -self._length)
        low_log = digits.ln(digits.multiply(Decimal(self._read + 1), unit))
        high_log = digits.ln(digits.multiply(Decimal(self._read), unit))
        if low_log:  # otherwise it is ln 1, which is 0 without any rounding
            low_log = digits.next_plus(low_log)
        return -Fraction(low_log), -Fraction(digits.next_minus(high_log))


def decimals(count: int) -> Context:
    """Correctly rounded arithmetic with digits to spare, whatever the caller's own settings."""
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


class Enclosed(Protocol):
    """A real number that can be enclosed as tightly as anybody asks."""

    def enclosure(self, level: int) -> Enclosure:
        """Rationals below and above it, closer at each level."""


@functools.total_ordering
class Real:
    """A whole number of steps plus a draw: what a program sees as a noisy answer.

    Comparing two of them refines both until they differ. Their difference is what may be
    released of it, its floor in whole steps.
    """

    __slots__ = ("_draw", "_offset")

    def __init__(self, offset: int, draw: "Enclosed") -> None:
        self._offset = offset
        self._draw = draw

    def __add__(self, steps: int) -> "Real":
        return Real(self._offset + steps, self._draw)

    __radd__ = __add__

    def __sub__(self, other: "Real") -> int:
        whole = self._offset - other._offset
        if self._draw is other._draw:
            return whole
        difference: int = decide(
            lambda level: _difference(self._draw.enclosure(level), other._draw.enclosure(level)),
            math.floor,
        )
        return whole + difference

    def __lt__(self, other: "Real") -> bool:
        return self - other < 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Real) and self._draw is other._draw and self - other == 0

    __hash__ = None  # type: ignore[assignment]


class RealNoise:
    """Noise for programs that need real numbers: one `Real` for every column of `words`.

    The bits serve only to refine what the words leave open.
    """

    __slots__ = ("_bits", "_columns")

    def __init__(self, words: Words, bits: Bits) -> None:
        self._columns = iter(words.T.tolist())
        self._bits = bits

    def draw(self, law: Law) -> Real:
        """The next real number."""
        return Real(0, Draw(law, next(self._columns), self._bits))


class GridNoise:
    """Noise for programs that need whole steps only: every draw is floored to an integer.

    Bits come from the thread that asks, at the moment it asks: `freshen` before every question.
    """

    __slots__ = ("_bits",)

    def freshen(self) -> None:
        """Draw from the calling thread's bits from now on, and from fresh ones."""
        self._bits: Bits = secure_bits()

    def draw(self, law: Law) -> int:
        """The next whole number of steps."""
        return floor(law, self._bits)
