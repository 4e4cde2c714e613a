"""Outputs of any shape as columns of numbers, so that events can be searched for.

An output is split into numbers and words: `output[1].gap`, `len(output[0])`. A release is split as
its document. A value that is not a number gets a code. `parts_of` lists the columns to compare.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, groupby, islice, pairwise
from numbers import Real
from typing import Any

import numpy as np

from dpgap.exact.reals import Floats, Integers, without_float_errors
from dpgap.proof.checker.numbers import Affine, Condition
from dpgap.releases.release import Table

ALL = "output"
TYPE_OF = "type of "
AMBIGUOUS = "one thing or another"
_ABSENT, _NUMBER = 0, 1
_EXACT, _LOW_BITS = 1 << 53, 1 << 32
"""Larger integers are not exact as floats, so their low bits are looked at as well."""
_WHEN = "made"
"""The time in a document, which is left out: it is not independent from call to call."""
_TRAITS = (
    *("dtype", "shape", "name", "names", "schema", "attrs"),
    *("categories", "levels", "fill_value"),
)
"""Attributes of an array, a table, its index and its columns, which are output, too."""
_FRACTIONS = float, Fraction, Decimal
"""Numbers that hardly ever come twice: those of a set are looked at in order."""
_NOT_BY_VALUE: tuple[Any, ...] = (None, object.__hash__)
"""The hashes of types that compare by identity."""

Leaves = list[tuple[str, Any]]


def leaves(part: Any, path: str = ALL) -> Iterator[tuple[str, Any]]:
    """The numbers and words in an output, each with its path.

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
        owners = (part, *(getattr(part, name, None) for name in ("cat", "index", "columns")))
        told = [(own, trait) for own in owners for trait in _TRAITS if hasattr(type(own), trait)]
        shape += "".join(f" {getattr(*each)}" for each in told)
    if isinstance(part, Table):
        part = {name: value for name, value in part.to_dict().items() if name != _WHEN}
    elif isinstance(part, np.ma.MaskedArray):
        part = {"shown": part.tolist(), "under the mask": part.data.tolist()}
    elif isinstance(part, np.ndarray | np.generic):
        part = part.tolist()
    elif hasattr(part, "to_numpy"):
        part, names = _table(part)
    if is_dataclass(part) and not isinstance(part, type):
        inner = {f".{field.name}": getattr(part, field.name) for field in fields(part)}
        inner |= {f".{name}": value for name, value in getattr(part, "__dict__", {}).items()}
    elif isinstance(part, Mapping):
        inner = {f"[{key!r}]": value for key, value in part.items()}
        names = part if names is None else names
    elif isinstance(part, Set):
        numbers = sorted((key for key in part if isinstance(key, Real | Decimal)), key=_float)
        if numbers:
            yield from leaves(numbers, f"sorted({path})")
        inner = {f"[{key!r}]": True for key in part if not isinstance(key, _FRACTIONS)}
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
    yield f"len({path})", len(part) if isinstance(part, Set) else len(inner)
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
    """The state of a path that is not a word of the output: absent, or a number of some type."""

    words: str

    def __str__(self) -> str:
        return self.words


FLOAT = Kind("of type float")


def is_by_value(thing: Any) -> bool:
    """Whether a value compares by value, not by identity."""
    return thing is None or getattr(type(thing), "__hash__", None) not in _NOT_BY_VALUE


class Codes:
    """Codes for values that are not numbers and, if asked, for the types of those that are."""

    def __init__(self, *, types: bool = True) -> None:
        self._types = types
        self._names: dict[str, int] = {}
        self._things: list[Any] = [Kind("absent"), Kind("a number")]
        self._codes: dict[Hashable, int] = {kind: at for at, kind in enumerate(self._things)}

    def number(self, number: Any) -> int:
        """The code of a number's type; −0 has its own."""
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
        """The code of a value, which must compare by value."""
        if not is_by_value(thing):
            what = f"a value of type {type(thing).__name__}, which cannot be compared"
            raise TypeError(f"the output has {what}: return numbers, words, or lists of them")
        known = self._codes.setdefault(thing, len(self._things))
        if known == len(self._things):
            self._things.append(thing)
        return known

    def thing(self, code: float) -> Any:
        """The value that has this code."""
        return self._things[int(code)]

    def telling(self, pairs: Iterable[Any]) -> list[Any]:
        """The discrete values that are not the same in all outputs."""
        seen = [thing for thing in self._things if isinstance(thing, tuple)]
        often = Counter(pair for thing in seen for pair in thing)
        return [pair for pair in pairs if often[pair] < len(seen)]


class Outputs:
    """The outputs of some runs, in columns: for each path its number, and its kind."""

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
        """Enter an output, for one run or for several runs that share it."""
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

    def modes(self, times: float) -> dict[str, Any]:
        """The usual value at each path; `AMBIGUOUS` if none is frequent enough (by `times`)."""
        modes: dict[str, Any] = {}
        for path, kinds in self.kinds.items():
            numbers = np.nan_to_num(self.numbers[path])  # the kind tells what is no number
            values = Counter(zip(kinds.tolist(), numbers.tolist(), strict=True))
            ((most, often),) = values.most_common(1)
            if often <= times:
                modes[path] = AMBIGUOUS
            elif most[0] != _ABSENT:
                modes[path] = most
        return modes

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
    """A function that returns the numbers at this path."""
    return lambda side: side.numbers.get(path, np.full(side.runs, np.nan))


def kind(path: str) -> Callable[[Outputs], Floats]:
    """A function that returns the codes at this path."""
    return lambda side: side.kinds.get(path, np.full(side.runs, float(_ABSENT)))


# --------------------------------------------------------------------------------------------------
# The *parts* of outputs, each a column of numbers, on which events are built.
#
# A part is a number, or its type if it is not numeric; the length of a text; the difference of two
# numbers; a sum over places; or everything discrete at once. A part is also the lowest bit of a
# number (the zeros at the end of a whole number, the binary places of a float), or its exponent.


_MOST_NUMBERS = 40
_MOST_COMPARED = 6
"""Up to so many numbers are compared in all pairs; of more, only adjacent ones."""
_FEW, _FEW_NUMBERS = 3, 16
"""Up to so many different texts, or integers, are events of their own."""
_SOME_ROWS = 4_000
_DIGITS = 53
_PLACE = re.compile(r"\[(\d+)\]")
_NUMBERS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_MOST_IN_A_TEXT = 8
"""So many numbers of a text are looked at."""

Look = Callable[[Outputs], Floats]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an output: a column of numbers with a name."""

    words: str
    look: Look
    is_ordered: bool = True
    in_floats: bool = False
    """Whether it is about the bits of floats, which real numbers do not have."""

    @without_float_errors  # ∞ − ∞ is none
    def of(self, side: Outputs) -> Floats:
        """Its value in each run."""
        return self.look(side)


def parts_of(sides: Sequence[Outputs], *, bits: bool, moves: Sequence[float] = ()) -> list[Part]:
    """All parts of outputs like these; with bits if asked.

    `moves` are the differences of each answer from its neighbour. If several parts are equally good
    evidence, the last is chosen. So bits, which people understand least, come first.
    """
    numbers, kinds = (_looked_at(look, sides) for look in (number, kind))
    compared = combinations if len(numbers) <= _MOST_COMPARED else lambda some, _: pairwise(some)
    plain = [path for path in numbers if "len(" not in path]
    return [
        *(part for path in plain if bits for part in _bits_of(path, sides)),
        *(part for path in kinds for part in _parts_of_texts(path, sides)),
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
    """The paths whose values vary."""
    return [path for path in _paths(sides) if differs(_column(look(path), sides))]


def differs(column: Floats) -> bool:
    """Whether there are different numbers, or a number and none."""
    first = column[0]
    return not bool((column == first).all() if first == first else np.isnan(column).all())


def not_looked_at(sides: Sequence[Outputs]) -> int:
    """How many numbers and texts are not looked at, because there are too many."""
    return sum(max(0, len(_varying(look, sides)) - _MOST_NUMBERS) for look in (number, kind))


def _looked_at(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths whose values vary; of too many, those that differ most between the sides."""
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
    """The lowest bit and the exponent, if there are fractions or many whole numbers."""
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
    """Sums of the numbers at several places, and the counts of each of a few words there.

    Also these sums minus those at answers that move up less than others: then noise that all
    answers share, such as that of a threshold, cancels.
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


def _parts_of_texts(path: str, sides: Sequence[Outputs]) -> Iterator[Part]:
    """The length of texts, and the numbers in them, if there are too many different texts.

    A value that is neither a number nor a text, such as a date, is treated as a text.
    """
    things = map(sides[0].codes.thing, np.unique(_column(kind(path), sides)))
    texts = [_text(thing) for thing in things if not isinstance(thing, Kind)]
    if len(texts) > _FEW:
        yield Part(f"length of {path}", _in_texts(path, len))
        for place in range(max(len(_numbers_in(text)) for text in texts)):
            yield Part(f"number {place} in {path}", _in_texts(path, partial(_number_at, place)))


def _text(thing: Any) -> str:
    return thing.decode("latin-1") if isinstance(thing, bytes) else str(thing)


def _numbers_in(text: str) -> list[float]:
    return [float(found.group()) for found in islice(_NUMBERS.finditer(text), _MOST_IN_A_TEXT)]


def _number_at(place: int, text: str) -> float:
    return next(islice(_numbers_in(text), place, None), math.nan)


def _in_texts(path: str, measure: Callable[[str], float]) -> Look:
    kinds = kind(path)

    def look(side: Outputs) -> Floats:
        codes, places = np.unique(kinds(side), return_inverse=True)
        things = map(side.codes.thing, codes)
        found = [math.nan if isinstance(each, Kind) else measure(_text(each)) for each in things]
        return np.array(found)[places]

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
