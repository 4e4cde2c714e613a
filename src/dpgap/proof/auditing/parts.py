"""The *parts* of outputs, each a column of numbers, on which events are built.

A part is a number, or its type if it is not numeric; the length of a text; the difference of two
numbers; a sum over places; or everything discrete at once. A part is also the lowest bit of a
number (the zeros at the end of a whole number, the binary places of a float), or its exponent.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby, islice, pairwise

import numpy as np

from dpgap.exact.reals import Floats, without_float_errors
from dpgap.proof.auditing.outputs import (
    ALL,
    FLOAT,
    Look,
    Outputs,
    PathState,
    column_of,
    kinds_at,
    numbers_at,
    paths_of,
)

_MOST_NUMBERS = 40
_MOST_COMPARED = 6
"""Up to so many numbers are compared in all pairs; of more, only adjacent ones."""
_FEW = 3
"""Up to so many different texts, or small integers, are events of their own."""
_FEW_NUMBERS = 16
"""Of more different whole numbers, the bits are looked at."""
_SOME_ROWS = 4_000
_DIGITS = 53
_PLACE = re.compile(r"\[(\d+)\]")
_NUMBERS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_MOST_IN_A_TEXT = 8
"""So many numbers of a text are looked at."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of an output: a column of numbers with a name."""

    name: str
    look: Look
    is_ordered: bool = True
    in_floats: bool = False
    """Whether it is about the bits of floats, which real numbers do not have."""

    @without_float_errors  # ∞ − ∞ is none
    def of(self, side: Outputs) -> Floats:
        """Its value in each run."""
        return self.look(side)


def parts_of(
    sides: Sequence[Outputs], *, bits: bool, moves: Sequence[float] = ()
) -> list[OutputPart]:
    """All parts of outputs like these; with bits if asked.

    `moves` are the differences of each answer from its neighbour. If several parts are equally good
    evidence, the last is chosen. So bits, which people understand least, come first.
    """
    number_paths = _looked_at(numbers_at, sides)
    kind_paths = _looked_at(kinds_at, sides)
    plain_paths = [path for path in number_paths if "len(" not in path]
    parts: list[OutputPart] = []
    if bits:
        for path in plain_paths:
            parts += _bits_of(path, sides)
    for path in kind_paths:
        parts += _parts_of_texts(path, sides)
    parts += _sums(sides, moves)
    compared: Iterable[tuple[str, str]] = pairwise(plain_paths)
    if len(number_paths) <= _MOST_COMPARED:
        compared = combinations(plain_paths, 2)
    for first, second in compared:
        parts.append(OutputPart(f"{second} − {first}", _difference(first, second)))
    parts += [OutputPart(path, numbers_at(path)) for path in number_paths]
    parts += [OutputPart(path, kinds_at(path), is_ordered=False) for path in kind_paths]
    parts.append(OutputPart(ALL, lambda side: side.discrete, is_ordered=False))
    return parts


def _varying(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths whose values vary."""
    return [path for path in paths_of(sides) if differs(column_of(look(path), sides))]


def differs(column: Floats) -> bool:
    """Whether there are different numbers, or a number and none."""
    first = column[0]
    is_same = np.isnan(column) if np.isnan(first) else column == first
    return not bool(is_same.all())


def not_looked_at(sides: Sequence[Outputs]) -> int:
    """How many numbers and texts are not looked at, because there are too many."""
    return sum(
        max(0, len(_varying(look, sides)) - _MOST_NUMBERS) for look in (numbers_at, kinds_at)
    )


def _looked_at(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths whose values vary; of too many, those that differ most between the sides."""
    paths = _varying(look, sides)
    if len(paths) > _MOST_NUMBERS:
        paths = sorted(paths, key=lambda path: -_apart(look(path), sides))[:_MOST_NUMBERS]
    return paths


def _apart(look: Look, sides: Sequence[Outputs]) -> float:
    """How far the laws of two columns are apart on some of the runs (Kolmogorov–Smirnov)."""
    columns = [np.sort(look(side)[:_SOME_ROWS]) for side in sides]
    values = np.concatenate(columns)
    up_to = [np.searchsorted(column, values, "right") / column.size for column in columns]
    return float(np.ptp(up_to, axis=0).max())


def _bits_of(path: str, sides: Sequence[Outputs]) -> Iterator[OutputPart]:
    """The lowest bit and the exponent, if there are fractions or many whole numbers."""
    look = numbers_at(path)
    column = column_of(look, sides)
    values = np.unique(column[np.isfinite(column)])
    has_fractions = bool((values != np.rint(values)).any())
    if values.size > _FEW_NUMBERS or has_fractions:
        codes = np.unique(column_of(kinds_at(path), sides))
        has_floats = FLOAT in map(sides[0].codes.value, codes)
        yield OutputPart(f"exponent of {path}", lambda side: exponent(look(side)))
        yield OutputPart(
            f"log₂ of the lowest bit of {path}",
            lambda side: lowest_bit(look(side)),
            in_floats=has_fractions and has_floats,
        )


def _sums(sides: Sequence[Outputs], moves: Sequence[float]) -> Iterator[OutputPart]:
    """Sums of the numbers at several places, and the counts of each of a few words there.

    Also these sums minus those at answers that move up less than others: then noise that all
    answers share, such as that of a threshold, cancels.
    """
    codes = sides[0].codes
    directions = np.empty(0)
    if len(moves):
        directions = np.sign(np.subtract(moves, np.mean(moves)))
    for family, position_of in _families(sides).items():
        looks: dict[str, list[Look]] = {
            f"sum of {family}": [numbers_at(path) for path in position_of]
        }
        kinds = np.unique([column_of(kinds_at(path), sides) for path in position_of])
        if 1 < kinds.size <= _FEW:
            for code in kinds:
                frequency = f"how many of {family} are {codes.value(code)}"
                looks[frequency] = [_is(path, code) for path in position_of]
        positions = list(position_of.values())
        is_one_each = set(positions) == set(range(directions.size))
        for name, family_looks in looks.items():
            yield OutputPart(name, _total(family_looks, np.ones(len(family_looks))))
            if directions.any() and is_one_each:
                rising = _ranges([index for index in positions if directions[index] > 0])
                yield OutputPart(
                    f"{name}, places {rising} less the others",
                    _total(family_looks, directions[positions]),
                )


def _families(sides: Sequence[Outputs]) -> dict[str, dict[str, int]]:
    """Paths that differ by their places in a sequence alone, and which places these are."""
    families: dict[str, dict[str, int]] = {}
    for path in paths_of(sides):
        positions = _PLACE.findall(path)
        if positions and path.startswith(ALL):
            family = families.setdefault(_PLACE.sub("[·]", path), {})
            family[path] = int(positions[-1])
    return {name: family for name, family in families.items() if len(family) > 1}


def _ranges(positions: Sequence[int]) -> str:
    runs = groupby(positions, key=lambda position: position - positions.index(position))
    texts = []
    for _, run in runs:
        first, *others = run
        texts.append(f"{first}–{others[-1]}" if others else f"{first}")
    return ", ".join(texts)


def _is(path: str, code: float) -> Look:
    look = kinds_at(path)
    return lambda side: (look(side) == code).astype(np.float64)


def _total(looks: Sequence[Look], signs: Floats) -> Look:
    def total_of(side: Outputs) -> Floats:
        total = np.zeros(side.runs)
        for look, sign in zip(looks, signs, strict=True):
            column = look(side)
            total += sign * np.where(np.isnan(column), 0.0, column)
        return total

    return total_of


def _difference(first_path: str, second_path: str) -> Look:
    first = numbers_at(first_path)
    second = numbers_at(second_path)
    return lambda side: second(side) - first(side)


def _parts_of_texts(path: str, sides: Sequence[Outputs]) -> Iterator[OutputPart]:
    """The length of texts, and the numbers in them, if there are too many different texts.

    A value that is neither a number nor a text, such as a date, is treated as a text.
    """
    values = map(sides[0].codes.value, np.unique(column_of(kinds_at(path), sides)))
    texts = [_text(value) for value in values if not isinstance(value, PathState)]
    if len(texts) > _FEW:
        yield OutputPart(f"length of {path}", _in_texts(path, len))
        for index in range(max(len(_numbers_in(text)) for text in texts)):
            measure = partial(_number_at, index)
            yield OutputPart(f"number {index} in {path}", _in_texts(path, measure))


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _numbers_in(text: str) -> list[float]:
    return [float(match.group()) for match in islice(_NUMBERS.finditer(text), _MOST_IN_A_TEXT)]


def _number_at(index: int, text: str) -> float:
    return next(islice(_numbers_in(text), index, None), math.nan)


def _in_texts(path: str, measure: Callable[[str], float]) -> Look:
    kinds = kinds_at(path)

    def measure_of(value: object) -> float:
        return math.nan if isinstance(value, PathState) else measure(_text(value))

    def look(side: Outputs) -> Floats:
        codes, positions = np.unique(kinds(side), return_inverse=True)
        measures = [measure_of(side.codes.value(code)) for code in codes]
        return np.array(measures)[positions]

    return look


def exponent(values: Floats) -> Floats:
    """The e for which a number's size is from 2**(e − 1) on and below 2**e; none for zero."""
    has_exponent = np.isfinite(values) & (values != 0)
    exponents = np.frexp(np.where(has_exponent, values, 1.0))[1]
    return np.where(has_exponent, exponents, np.nan)


def lowest_bit(values: Floats) -> Floats:
    """The largest e for which a float is a multiple of 2**e; none for zero.

    >>> lowest_bit(np.array([6.0, 0.75, 0.1])).tolist()
    [1.0, -2.0, -55.0]
    """
    has_bits = np.isfinite(values) & (values != 0)
    mantissa, powers = np.frexp(np.where(has_bits, values, 1.0))
    digits = np.ldexp(mantissa, _DIGITS).astype(np.int64)
    lowest = np.log2((digits & -digits).astype(np.float64)) + powers - _DIGITS
    return np.where(has_bits, lowest, np.nan)
