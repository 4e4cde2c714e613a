"""Outputs of any shape as columns of numbers, so that events can be searched for.

An output is taken apart down to numbers and words: `output[1].gap`, `len(output[0])`. A release is
taken apart as its document. What is no number gets a code. `parts_of` says what to look at.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, groupby, pairwise
from typing import Any

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.checker.numbers import Affine, Condition
from dpgap.releases.release import Table

ALL = "output"
TYPE_OF = "type of "
_ABSENT, _NUMBER = 0, 1
_EXACT, _LOW_BITS = 1 << 53, 1 << 32
"""Larger whole numbers are no floats; so many of their bits are looked at besides."""
_WHEN = "made"
"""The field of a document that says when: calls are not independent in that."""
_TRAITS = "dtype", "shape", "name", "names", "schema", "attrs"
"""What an array, a table, its index and its columns say of themselves beside their values."""
_RISES = 20
"""So many different values must a column have, one above the other, to be called a clock."""
_NOT_BY_VALUE: tuple[Any, ...] = (None, object.__hash__)
"""How things hash that equal none but themselves."""

Leaves = list[tuple[str, Any]]


def leaves(part: Any, path: str = ALL) -> Iterator[tuple[str, Any]]:
    """The numbers and words that an output is made of, each with its path.

    >>> list(leaves((2, [0.5, None])))[2:4]
    [('output[0]', 2), ('type of output[1]', 'list')]
    >>> list(leaves([0.5, None]))[1:]
    [('len(output)', 2), ('output[0]', 0.5), ('output[1]', None)]
    """
    if type(part) in (int, float, bool, str):  # what most outputs are made of
        yield path, part
        if type(part) is int and not -_EXACT < part < _EXACT:
            yield f"{path} mod 2³²", part % _LOW_BITS
        return
    shape = type(part).__name__
    names: Iterable[Any] | None = None
    if isinstance(part, np.ndarray) or hasattr(part, "to_numpy"):
        owners = (part, getattr(part, "index", None), getattr(part, "columns", None))
        told = [(own, trait) for own in owners for trait in _TRAITS if hasattr(type(own), trait)]
        shape += "".join(f" {getattr(*each)}" for each in told)
    if isinstance(part, Table):
        part = {name: value for name, value in part.to_dict().items() if name != _WHEN}
    elif isinstance(part, np.ndarray | np.generic):
        part = part.tolist()
    elif hasattr(part, "to_numpy"):
        part, names = _table(part)
    if is_dataclass(part) and not isinstance(part, type):
        inner = {f".{field.name}": getattr(part, field.name) for field in fields(part)}
    elif isinstance(part, Mapping):
        inner = {f"[{key!r}]": value for key, value in part.items()}
        names = part if names is None else names
    elif isinstance(part, Set):
        inner = {f"[{key!r}]": True for key in part}
    elif isinstance(part, Sequence | Iterator) and not isinstance(part, str | bytes):
        inner = {f"[{place}]": value for place, value in enumerate(part)}
    else:
        yield path, bool(part) if isinstance(part, Condition) else part
        if isinstance(part, Fraction):
            yield f"denominator of {path}", part.denominator
        elif isinstance(part, Decimal):
            yield f"places of {path}", str(part.as_tuple().exponent)
        if shape != type(part).__name__ or isinstance(part, str):  # of NumPy's, or a subclass
            yield TYPE_OF + path, shape
        return
    yield TYPE_OF + path, shape if names is None else f"{shape} of {', '.join(map(_name, names))}"
    yield f"len({path})", len(inner)
    for step, value in inner.items():
        yield from leaves(value, path + step)


def _name(key: Any) -> str:
    """A key, with its type if that is a kind of text that looks like any other."""
    is_other = isinstance(key, str) and type(key) is not str
    return f"{type(key).__name__} {key!r}" if is_other else repr(key)


def _table(part: Any) -> tuple[Any, list[Any] | None]:
    """A series by its index, a table by its columns, and these in order; other things as lists."""
    if hasattr(part, "items"):  # pandas
        named = list(part.items())
        names = [name for name, _ in named]
        return (dict(named) if len(set(names)) == len(names) else named), names
    if hasattr(part, "columns") and hasattr(part, "to_dict"):  # Polars
        return part.to_dict(as_series=False), list(part.columns)
    return part.to_numpy().tolist(), None


@dataclass(frozen=True, slots=True)
class Kind:
    """What something is that is no word of an output: absent, or a number of some type."""

    words: str

    def __str__(self) -> str:
        return self.words


FLOAT = Kind("of type float")


class Codes:
    """Numbers for what is not a number, and for the types of those that are, if they are told."""

    def __init__(self, *, types: bool = True) -> None:
        self._types = types
        self._names: dict[str, int] = {}
        self._things: list[Any] = [Kind("absent"), Kind("a number")]
        self._codes: dict[Hashable, int] = {kind: at for at, kind in enumerate(self._things)}

    def number(self, number: Any) -> int:
        """The code of a number's type; a zero below zero is told from others."""
        if not self._types:
            return _NUMBER
        name = type(number).__name__
        if number == 0 and name == "float" and math.copysign(1, number) < 0:
            name = "float, −0"
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self.code(Kind(f"of type {name}"))
        return known

    def code(self, thing: Any) -> int:
        """The number of a thing; it must be one that equals its like."""
        if thing is not None and getattr(type(thing), "__hash__", None) in _NOT_BY_VALUE:
            raise TypeError(
                f"the output holds a {type(thing).__name__}, which cannot be compared: "
                "return numbers, words, or lists, mappings and dataclasses of them"
            )
        known = self._codes.setdefault(thing, len(self._things))
        if known == len(self._things):
            self._things.append(thing)
        return known

    def thing(self, code: float) -> Any:
        """What has this number."""
        return self._things[int(code)]

    def telling(self, pairs: Iterable[Any]) -> list[Any]:
        """Of what is discrete in an output, that which is not the same in all of them."""
        seen = [thing for thing in self._things if isinstance(thing, tuple)]
        often = Counter(pair for thing in seen for pair in thing)
        return [pair for pair in pairs if often[pair] < len(seen)]


class Outputs:
    """The outputs of so many runs, in columns: for each path its number, and its kind."""

    def __init__(self, runs: int, codes: Codes) -> None:
        self.runs, self.codes = runs, codes
        self.numbers: dict[str, Floats] = {}
        self.kinds: dict[str, Floats] = {}
        self.discrete = np.zeros(runs)

    def put(
        self,
        rows: int | Integers,
        found: Leaves,
        value_of: Callable[[Affine], Floats] | None = None,
    ) -> None:
        """Enter an output, for one run or for many that have it in common."""
        discrete = []
        for path, each in found:
            leaf = "NaN" if _is_nan(each) else each  # one does not equal another
            if path not in self.numbers:
                self.numbers[path] = np.full(self.runs, np.nan)
                self.kinds[path] = np.full(self.runs, float(_ABSENT))
            numbers, kinds = self.numbers[path], self.kinds[path]
            if isinstance(leaf, Affine) and value_of is not None:
                numbers[rows], kinds[rows] = value_of(leaf), _NUMBER
            elif isinstance(leaf, int | float | Fraction | Decimal):
                numbers[rows], kinds[rows] = _float(leaf), self.codes.number(leaf)
            else:
                kinds[rows] = self.codes.code(leaf)
            if not isinstance(leaf, float | Affine) and not path.startswith(TYPE_OF):
                discrete.append((path, leaf))
        self.discrete[rows] = self.codes.code(tuple(discrete))

    def forget(self, chosen: slice) -> None:
        """Take out what was entered for some of the runs."""
        for path in self.numbers:
            self.numbers[path][chosen] = np.nan
            self.kinds[path][chosen] = _ABSENT

    def only_rises(self, path: str) -> bool:
        """Whether the numbers or texts with this path rise from run to run and never fall."""
        column: Sequence[Any] = self.numbers[path].tolist()
        if column[0] != column[0]:
            column = [self.codes.thing(code) for code in self.kinds[path]]
        try:
            in_order = all(one <= two for one, two in pairwise(column))
        except TypeError:  # things of several types
            return False
        return in_order and len(set(column)) >= _RISES

    def rows(self, chosen: slice | Integers) -> "Outputs":
        """Some of the runs."""
        some = Outputs(self.discrete[chosen].size, self.codes)
        some.numbers = {path: column[chosen] for path, column in self.numbers.items()}
        some.kinds = {path: column[chosen] for path, column in self.kinds.items()}
        some.discrete = self.discrete[chosen]
        return some


def _is_nan(leaf: Any) -> bool:
    return leaf.is_nan() if isinstance(leaf, Decimal) else isinstance(leaf, float) and leaf != leaf


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def joined(one: Outputs, two: Outputs) -> Outputs:
    """The runs of both."""
    both = Outputs(one.runs + two.runs, one.codes)
    for path in {**one.numbers, **two.numbers}:
        numbers, kinds = number(path), kind(path)
        both.numbers[path] = np.concatenate([numbers(one), numbers(two)])
        both.kinds[path] = np.concatenate([kinds(one), kinds(two)])
    both.discrete = np.concatenate([one.discrete, two.discrete])
    return both


def number(path: str) -> Callable[[Outputs], Floats]:
    """What looks at the numbers with this path."""
    return lambda side: side.numbers.get(path, np.full(side.runs, np.nan))


def kind(path: str) -> Callable[[Outputs], Floats]:
    """What looks at what there is with this path."""
    return lambda side: side.kinds.get(path, np.full(side.runs, float(_ABSENT)))


# --------------------------------------------------------------------------------------------------
# What there is to look at in outputs: their *parts*, each a column of numbers.
#
# A part is a number, what there is if it is none, the length of a text, the difference of two
# numbers, a sum over places, or everything discrete at once. And it is what a number is made of:
# its lowest bit, which for a whole number says how many zeros it ends in, for a float how many
# binary places it needs; and its exponent.


_MOST_NUMBERS = 40
_MOST_COMPARED = 6
"""So many numbers are compared each with each; of more, only those that follow each other."""
_FEW, _FEW_NUMBERS = 3, 16
"""So few different texts, or whole numbers, are told apart one by one."""
_SOME_ROWS = 4_000
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

    def of(self, side: Outputs) -> Floats:
        """What it is in each run; ∞ − ∞ is none."""
        with np.errstate(invalid="ignore"):
            return self.look(side)


def parts_of(sides: Sequence[Outputs], *, bits: bool, moves: Sequence[float] = ()) -> list[Part]:
    """All there is to look at in outputs that look like these; bits if asked.

    `moves` says by how much each answer differs from its neighbour. Of parts that tell as much the
    last is taken, so that bits, which say least to a person, come first.
    """
    numbers, kinds = (_looked_at(look, sides) for look in (number, kind))
    compared = combinations if len(numbers) <= _MOST_COMPARED else lambda some, _: pairwise(some)
    plain = [path for path in numbers if "len(" not in path]
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


def _varying(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths of what is not the same in all outputs."""
    return [path for path in _paths(sides) if differs(_column(look(path), sides))]


def differs(column: Floats) -> bool:
    """Whether there are different numbers, or a number and none."""
    first = column[0]
    return not bool((column == first).all() if first == first else np.isnan(column).all())


def not_looked_at(sides: Sequence[Outputs]) -> int:
    """How many numbers and texts are not looked at, because there are too many."""
    return sum(max(0, len(_varying(look, sides)) - _MOST_NUMBERS) for look in (number, kind))


def _looked_at(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths of what varies; of too many, those that differ most between the sides."""
    paths = _varying(look, sides)
    if len(paths) > _MOST_NUMBERS:
        paths = sorted(paths, key=lambda path: -_apart(look(path), sides))[:_MOST_NUMBERS]
    return paths


def _apart(look: Look, sides: Sequence[Outputs]) -> float:
    """How far the laws of two columns are apart on some of the runs (Kolmogorov–Smirnov)."""
    columns = [np.sort(look(side)[:_SOME_ROWS]) for side in sides]
    seen = np.concatenate(columns)
    up_to = [np.searchsorted(column, seen, "right") / column.size for column in columns]
    return float(np.ptp(up_to, axis=0).max())


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
        kinds = np.unique([_column(kind(path), sides) for path in places])
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
        for each, sign in zip(looks, signs, strict=True):
            column = each(side)
            total += sign * np.where(np.isnan(column), 0.0, column)
        return total

    return look


def _difference(one: str, two: str) -> Look:
    first, second = number(one), number(two)
    return lambda side: second(side) - first(side)


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
