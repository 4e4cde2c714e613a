"""What there is to look at in outputs: their *parts*, each a column of numbers.

A part is a number, what there is if it is none, the length of a text, the difference of two
numbers, a sum over places, or everything discrete at once. And it is what a number is made of: its
lowest bit, which for a whole number says how many zeros it ends in, for a float how many binary
places it needs; and its exponent.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise

import numpy as np

from dpgap.exact.reals import Floats
from dpgap.proof.auditing.outputs import ALL, FLOAT, Outputs, kind, number

_MOST_NUMBERS = 40
_MOST_COMPARED = 6
"""So many numbers are compared each with each; of more, only those that follow each other."""
_FEW, _FEW_NUMBERS = 3, 16
"""So few different texts, or whole numbers, are told apart one by one."""
_DIGITS = 53
_PLACE = re.compile(r"\[(\d+)\]")

Look = Callable[[Outputs], Floats]


@dataclass(frozen=True, slots=True)
class Part:
    """Something to look at in an output."""

    words: str
    look: Look
    is_ordered: bool = True
    in_floats: bool = False
    """Whether it is about the bits of floats, which real numbers do not have."""


def parts_of(sides: Sequence[Outputs], *, bits: bool, moves: Sequence[float] = ()) -> list[Part]:
    """All there is to look at in outputs that look like these; bits if asked.

    `moves` says by how much each answer differs from its neighbour. Of parts that tell as much the
    last is taken, so that bits, which say least to a person, come first.
    """
    numbers = _spread(varying(sides))
    compared = combinations if len(numbers) <= _MOST_COMPARED else lambda some, _: pairwise(some)
    plain = [path for path in numbers if "len(" not in path]
    kinds = _spread([path for path in _paths(sides) if differs(_column(kind(path), sides))])
    return [
        *(part for path in plain if bits for part in _bits_of(path, sides)),
        *(Part(f"length of {path}", _length_of(path)) for path in kinds if _texts(path, sides)),
        *_sums(sides, moves),
        *(Part(f"{two} − {one}", _difference(one, two)) for one, two in compared(plain, 2)),
        *(Part(path, number(path)) for path in numbers),
        *(Part(path, kind(path), False) for path in kinds),
        Part(ALL, lambda side: side.discrete, False),
    ]


def _paths(sides: Sequence[Outputs]) -> list[str]:
    return list(dict.fromkeys(path for side in sides for path in side.numbers))


def _column(look: Look, sides: Sequence[Outputs]) -> Floats:
    return np.concatenate([look(side) for side in sides])


def varying(sides: Sequence[Outputs]) -> list[str]:
    """The numbers that are not the same in all outputs."""
    return [path for path in _paths(sides) if differs(_column(number(path), sides))]


def differs(column: Floats) -> bool:
    """Whether there are different numbers, or a number and none."""
    first = column[0]
    return not bool((column == first).all() if first == first else np.isnan(column).all())


def not_looked_at(sides: Sequence[Outputs]) -> int:
    """How many numbers are not looked at, because there are too many."""
    return max(0, len(varying(sides)) - _MOST_NUMBERS)


def _spread(paths: list[str]) -> list[str]:
    """As many as are looked at, taken evenly from the first to the last."""
    if len(paths) <= _MOST_NUMBERS:
        return paths
    last = len(paths) - 1
    return [paths[place * last // (_MOST_NUMBERS - 1)] for place in range(_MOST_NUMBERS)]


def _bits_of(path: str, sides: Sequence[Outputs]) -> Iterator[Part]:
    """Bits may tell more where there are fractions, or several whole numbers."""
    column = _column(number(path), sides)
    known = np.unique(column[np.isfinite(column)])
    has_fractions = bool((known != np.rint(known)).any())
    if known.size > _FEW_NUMBERS or has_fractions:
        look = number(path)
        kinds = set(map(sides[0].codes.thing, np.unique(_column(kind(path), sides))))
        in_floats = has_fractions and FLOAT in kinds
        words = f"log₂ of the lowest bit of {path}"
        yield Part(f"exponent of {path}", lambda side: exponent(look(side)))
        yield Part(words, lambda side: lowest_bit(look(side)), in_floats=in_floats)


def _sums(sides: Sequence[Outputs], moves: Sequence[float]) -> Iterator[Part]:
    """Of what stands at several places: the sum of numbers, and how often each of few words.

    Also less those at answers that move up less than others do: then what all have in common, such
    as the noise of a threshold, counts for little.
    """
    codes = sides[0].codes
    up = np.sign(np.subtract(moves, np.mean(moves))) if len(moves) else np.empty(0)
    for family, places in _families(sides).items():
        looks: dict[str, list[Look]] = {f"sum of {family}": [number(path) for path in places]}
        some = list(places)[:_MOST_NUMBERS]
        kinds = np.unique([_column(kind(path), sides) for path in some])
        if 1 < kinds.size <= _FEW:
            for code in kinds:
                how_many = f"how many of {family} are {codes.thing(code)}"
                looks[how_many] = [_is(path, code) for path in places]
        for words, each in looks.items():
            yield Part(words, _total(each, np.ones(len(each))))
            if up.any() and set(places.values()) == set(range(up.size)):
                signs = up[list(places.values())]
                rising = _ranges([at for at in places.values() if up[at] > 0])
                yield Part(f"{words}, places {rising} less the others", _total(each, signs))


def _families(sides: Sequence[Outputs]) -> dict[str, dict[str, int]]:
    """Paths that differ by their places in a sequence alone, and which places these are."""
    families: dict[str, dict[str, int]] = {}
    for path in _paths(sides):
        places = _PLACE.findall(path)
        if places and path.startswith(ALL):
            families.setdefault(_PLACE.sub("[·]", path), {})[path] = int(places[-1])
    return {family: places for family, places in families.items() if len(places) > 1}


def _ranges(places: Sequence[int]) -> str:
    runs = groupby(places, key=lambda at: at - places.index(at))
    ends = [(each[0], each[-1]) for each in (list(run) for _, run in runs)]
    return ", ".join(f"{one}–{last}" if one < last else f"{one}" for one, last in ends)


def _is(path: str, code: float) -> Look:
    look = kind(path)
    return lambda side: (look(side) == code).astype(np.float64)


def _total(looks: Sequence[Look], signs: Floats) -> Look:
    def look(side: Outputs) -> Floats:
        total = np.zeros(side.runs)
        with np.errstate(invalid="ignore"):
            for each, sign in zip(looks, signs, strict=True):
                column = each(side)
                total += sign * np.where(np.isnan(column), 0.0, column)
        return total

    return look


def _difference(one: str, two: str) -> Look:
    first, second = number(one), number(two)

    def look(side: Outputs) -> Floats:
        with np.errstate(invalid="ignore"):
            return second(side) - first(side)

    return look


def _texts(path: str, sides: Sequence[Outputs]) -> bool:
    """Whether there are so many texts that none of them comes often."""
    codes = np.unique(_column(kind(path), sides))
    return sum(isinstance(sides[0].codes.thing(code), str | bytes) for code in codes) > _FEW


def _length_of(path: str) -> Look:
    kinds = kind(path)

    def look(side: Outputs) -> Floats:
        codes, places = np.unique(kinds(side), return_inverse=True)
        things = map(side.codes.thing, codes)
        lengths = [len(each) if isinstance(each, str | bytes) else np.nan for each in things]
        return np.array(lengths)[places]

    return look


def exponent(values: Floats) -> Floats:
    """The e for which a number's size is from 2**(e − 1) on and below 2**e; none for zero."""
    known = np.isfinite(values) & (values != 0)
    return np.where(known, np.frexp(np.where(known, values, 1.0))[1], np.nan)


def lowest_bit(values: Floats) -> Floats:
    """The largest e for which a float is a multiple of 2**e; none for zero.

    >>> lowest_bit(np.array([6.0, 0.75, 0.1])).tolist()
    [1.0, -2.0, -55.0]
    """
    known = np.isfinite(values) & (values != 0)
    mantissa, powers = np.frexp(np.where(known, values, 1.0))
    whole = np.ldexp(mantissa, _DIGITS).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)) + powers - _DIGITS
    return np.where(known, lowest, np.nan)
