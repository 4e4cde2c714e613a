"""Exact draws of shell noise on whole steps: first which shell, then a point on it.

*Which shell.* Let arrivals come at unit rate, T being the time of the d-th, d the dimension, and
cut time into cells of length λ = 1/scale; the cube's first cell is half as long. Take the cell R
of the d-th arrival, provided that the next arrival falls into a later cell. So up to the end of
that cell, λ·(R+1), there are exactly d arrivals, and fewer before it:

    P(R) = e^(−λ(R+1)) · λ^d · [(R+1)^d − R^d] / d!

which is e^(−λR) times the number of points of the shell (max = R), up to a constant. Otherwise
try again; the chance of success is about (1 − e^(−λ))/λ, as long as T is spread over several cells:
its standard deviation is √d. Where λ is larger than that, hardly any arrival may be the last of its
cell. But then few shells are likely, and R is read from a table of the sums P(0) + … + P(R), which
are enclosed as closely as one uniform number needs.

Arrival times are sums of exact exponentials (see `dpgap.exact.draws`): floats that provably enclose
them decide nearly always, and exact fractions the rest.

*A point on it.* A shell is a box of whole numbers where some coordinate is at an end. Where ends
are frequent, take points of the box until one has a coordinate at an end. Where they are rare,
put one coordinate at an end, the others anywhere; that favours points with c ends c-fold, so
keep it with chance 1/c. Both are exact, and take less than two tries on average.

So a draw takes linear time for λ ≤ 1, that is ε ≤ sensitivity in steps; for larger ε at most about
√dimension times that.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.bits import Bits, Words
from dpgap.exact.draws import (
    LOW_BITS,
    WHOLE,
    Enclosure,
    Floats,
    Integers,
    Uniform,
    decide,
    decimals,
    exponential_bounds,
    quick_exponential,
)
from dpgap.exact.joint_laws import ShellNoise

Flags = NDArray[np.bool_]

_ROUNDING = 2.0**-49
_COORDINATES_AT_ONCE = 1 << 18
_ONE_CELL = 1
"""Up to this length of a cell arrivals are the better way."""
_FEW = 64
"""A single draw of no more coordinates is quicker without NumPy."""


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def shells(law: ShellNoise, bits: Bits, runs: int) -> Integers:
    """Exactly distributed draws, one a row."""
    if runs == 1 and law.dimension <= _FEW:
        return np.array([_one_shell(law, bits)], dtype=np.int64)
    at_once = max(1, _COORDINATES_AT_ONCE // law.dimension)
    parts = [_shells(law, bits, min(at_once, runs - done)) for done in range(0, runs, at_once)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _shells(law: ShellNoise, bits: Bits, runs: int) -> Integers:
    radii = np.empty(runs, dtype=np.int64)
    points = np.empty((runs, law.dimension), dtype=np.int64)
    _fill(radii, lambda rows: _try_radii(law, bits, rows.size))
    _fill(points, lambda rows: _try_points(law, radii[rows], bits))
    return points


def _fill(rows: Integers, attempt: Callable[[Integers], tuple[Integers, Flags]]) -> None:
    """Fill every row by repeated attempts, which say what they got and whether it is accepted."""
    pending = np.arange(len(rows))
    while pending.size:
        found, accepted = attempt(pending)
        rows[pending[accepted]] = found[accepted]
        pending = pending[~accepted]


class _Cells:
    """Where cells end: cell R reaches from (R − start)·length to (R + 1 − start)·length."""

    def __init__(self, law: ShellNoise) -> None:
        self.start = 1 - Fraction(law.first)
        self.length = 1 / law.scale
        self.are_few = self.length > max(_ONE_CELL, math.sqrt(law.dimension) / 2)
        """Whether the table is the better way."""
        self.floats = (
            float(1 / self.length),
            float(self.start),
            float(self.length),
            float(self.length * (1 - self.start)),
        )

    def of(self, time: Fraction) -> int:
        """The cell of an arrival."""
        return math.floor(time / self.length + self.start)

    def bar(self, cell: int) -> Fraction:
        """What the next arrival must exceed."""
        return self.length * (cell + 1 - self.start)


@lru_cache(maxsize=64)  # laws are public
def _cells(law: ShellNoise) -> _Cells:
    return _Cells(law)


def _decimal(number: Fraction, digits: Context) -> Decimal:
    return digits.divide(Decimal(number.numerator), Decimal(number.denominator))


@lru_cache(maxsize=64)
def _table(law: ShellNoise, level: int) -> tuple[list[Fraction], list[Fraction]]:
    """Numbers below and above P(0), P(0) + P(1), …, up to where hardly anything is left.

    A shell has (R + 1 − start)^d − (R − start)^d points, up to a constant. From R on, the next one
    is at most `ratio` times as likely. Where that is at most a half, all that follow are together
    no likelier than R itself.
    """
    size = 40 * (level + 1)
    digits, first = decimals(2 * size), Fraction(law.first)
    d, fall = Decimal(law.dimension), _decimal(1 / law.scale, digits)

    def power(radius: int) -> Decimal:
        """The logarithm of e^(−λR) · ((R + 1 − start) / (1 − start))^d."""
        wider = digits.ln(_decimal(1 + radius / first, digits))
        return digits.fma(d, wider, digits.multiply(Decimal(-radius), fall))

    peak = power(math.floor(law.dimension * law.scale))
    weight = digits.exp(digits.minus(peak))
    sums, ratio, radius = [weight], 1.0, 0
    while ratio > 0.5 or digits.scaleb(weight, size) > sums[-1]:
        radius += 1
        growth = digits.ln(_decimal(1 + 1 / (first + radius - 1), digits))
        points = digits.subtract(Decimal(1), digits.exp(digits.multiply(digits.minus(d), growth)))
        weight = digits.multiply(digits.exp(digits.subtract(power(radius), peak)), points)
        ratio = float(
            digits.exp(digits.fma(digits.subtract(d, Decimal(1)), growth, digits.minus(fall)))
        )
        sums.append(digits.add(sums[-1], weight))
    shares = (digits.divide(each, sums[-1]) for each in sums)
    whole = [int(digits.scaleb(each, size)) for each in shares]
    # Rounding down, what is left out, and digits are off by less than two in the last place.
    low, high = ([Fraction(each + off, 10**size) for each in whole] for off in (-2, 2))
    return low, high


def _from_table(law: ShellNoise, word: int, bits: Bits) -> int:
    """The radius for one uniform number, which is how many of the sums are below it."""
    uniform = Uniform(word, 64, bits)
    for level in itertools.count():
        (low, high), (least, most) = _table(law, level), uniform.enclosure(level)
        radius = bisect_right(high, least)
        if radius == bisect_right(low, most) < len(low):
            return radius
    raise AssertionError("unreachable")


def _try_radii(law: ShellNoise, bits: Bits, runs: int) -> tuple[Integers, Flags]:
    cells = _cells(law)
    if cells.are_few:
        found = [_from_table(law, word, bits) for word in bits.words(runs).tolist()]
        return np.array(found, dtype=np.int64), np.ones(runs, dtype=bool)
    words = bits.words(runs, law.dimension + 1)
    low, high = exponential_bounds(1.0, words)
    first, last = _sums(low[:, :-1], high[:, :-1])
    # Scaling, adding the start and rounding the rationals cost at most 2^−50 each time.
    per_step, start, fall, end = cells.floats
    radii = np.floor((first * per_step + start) * (1 - _ROUNDING))
    known = radii == np.floor((last * per_step + start) * (1 + _ROUNDING))
    bar = radii * fall + end
    above = first + low[:, -1] > bar * (1 + 2 * _ROUNDING)
    below = last + high[:, -1] < bar * (1 - 2 * _ROUNDING)
    open_rows = np.flatnonzero(~known | ~(above | below))
    radii[open_rows] = 0.0  # they may be infinite
    whole = radii.astype(np.int64)
    for row in open_rows:
        whole[row], above[row] = _decided(cells, words[row], bits)
    return whole, above


def _sums(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Enclosed sums of numbers that are not negative: each addition is off by 2^−53 of it."""
    slack = low.shape[1] * 2.0**-52
    least: Floats = low.sum(axis=1) * (1 - slack)
    most: Floats = high.sum(axis=1) * (1 + slack)
    return least, most


def _decided(cells: _Cells, words: Words, bits: Bits) -> tuple[int, bool]:
    """The cell of the last but one arrival, and whether the last one clears the bar; exact."""
    waits = [Uniform.of_word(word, bits) for word in words.tolist()]

    def arrival(count: int, level: int) -> Enclosure:
        ends = [wait.exponential(level) for wait in waits[:count]]
        return sum((low for low, _ in ends), Fraction(0)), sum(
            (high for _, high in ends), Fraction(0)
        )

    cell: int = decide(lambda level: arrival(len(waits) - 1, level), cells.of)
    bar = cells.bar(cell)
    clears: bool = decide(lambda level: arrival(len(waits), level), lambda time: time > bar)
    return cell, clears


def _try_points(law: ShellNoise, radii: Integers, bits: Bits) -> tuple[Integers, Flags]:
    """Points of the box that ends at the radius; accepted where they are on its shell, evenly."""
    rows, dimension = np.arange(radii.size), law.dimension
    size = 2 * radii + 1 if law.signed else radii + 1
    points = below(size[:, None], (radii.size, dimension), bits)
    rare = dimension <= radii + 1
    end = size - 1
    if law.signed:
        end = end * below(2, rows.shape, bits)
    place = below(dimension, rows.shape, bits)
    points[rows[rare], place[rare]] = end[rare]
    at_end = points == size[:, None] - 1
    if law.signed:
        at_end |= points == 0
    ends = at_end.sum(axis=1)
    kept = below(np.maximum(ends, 1), rows.shape, bits) == 0
    if law.signed:
        points -= radii[:, None]
    return points, (ends > 0) & (kept | ~rare)


def _one_shell(law: ShellNoise, bits: Bits) -> list[int]:
    """One draw: the same words, decided in the same way, as `_shells` does for many."""
    accepted = False
    while not accepted:
        radius, accepted = _try_radius(law, bits)
    point: list[int] | None = None
    while point is None:
        point = _try_point(law, radius, bits)
    return point


def _try_radius(law: ShellNoise, bits: Bits) -> tuple[int, bool]:
    """As `_try_radii`."""
    cells = _cells(law)
    if cells.are_few:
        return _from_table(law, int(bits.words(1)[0]), bits), True
    words = bits.words(law.dimension + 1)
    reads = [word & LOW_BITS for word in words.tolist()]
    if not all(reads):  # nothing is known of how large such a wait is
        return _decided(cells, words, bits)
    ends = [quick_exponential(read, WHOLE) for read in reads]
    (*low, low_next), (*high, high_next) = zip(*ends, strict=True)
    slack = law.dimension * 2.0**-52
    first, last = sum(low) * (1 - slack), sum(high) * (1 + slack)
    per_step, start, fall, end = cells.floats
    most = (last * per_step + start) * (1 + _ROUNDING)
    radius = math.floor((first * per_step + start) * (1 - _ROUNDING))
    if radius == math.floor(most):
        bar = radius * fall + end
        if first + low_next > bar * (1 + 2 * _ROUNDING):
            return radius, True
        if last + high_next < bar * (1 - 2 * _ROUNDING):
            return radius, False
    return _decided(cells, words, bits)


def _try_point(law: ShellNoise, radius: int, bits: Bits) -> list[int] | None:
    """As `_try_points`; None where it is not accepted."""
    dimension, size = law.dimension, 2 * radius + 1 if law.signed else radius + 1
    point = _each_below(size, dimension, bits)
    is_rare, end = dimension <= radius + 1, size - 1
    if law.signed:
        end *= _each_below(2, 1, bits)[0]
    (place,) = _each_below(dimension, 1, bits)
    if is_rare:
        point[place] = end
    ends = point.count(size - 1)
    if law.signed and size > 1:
        ends += point.count(0)
    (kept,) = _each_below(max(ends, 1), 1, bits)
    if not ends or (kept and is_rare):
        return None
    return [each - radius for each in point] if law.signed else point


def _each_below(limit: int, count: int, bits: Bits) -> list[int]:
    """As `below`."""
    leftover, words = (1 << 64) % limit, bits.words(count).tolist()
    while again := [place for place, word in enumerate(words) if word < leftover]:
        for place, word in zip(again, bits.words(len(again)).tolist(), strict=True):
            words[place] = word
    return [word % limit for word in words]


def below(limit: Integers | int, shape: tuple[int, ...], bits: Bits) -> Integers:
    """Uniform whole numbers from 0 to `limit` − 1, exactly: leftover words are drawn again."""
    count = np.asarray(limit, dtype=np.uint64)
    leftover = (np.uint64(0) - count) % count  # 2^64 mod count
    words = bits.words(*shape).copy()
    while (again := words < leftover).any():
        words[again] = bits.words(int(again.sum()))
    return (words % count).astype(np.int64)
