"""Outputs of any shape as columns of numbers, so that events can be searched for.

An output is taken apart down to numbers and words: `output[1].gap`, `len(output[0])`. What is no
number gets a code. A *part* is something to look at: a number, what it is if it is none, the
difference of two numbers, the lowest bit of a number, or everything discrete at once.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from dpgap.exact.draws import Floats, Integers
from dpgap.proof.checker.numbers import Affine, Condition

_MOST_NUMBERS = 40
_MOST_COMPARED = 6
"""So many numbers are compared each with each; of more, only those that follow each other."""
_FEW = 3
"""So few different whole numbers are told apart one by one."""
_ALL = "output"
_ABSENT, _NUMBER = 0, 1
_DIGITS = 53
_NOT_BY_VALUE: tuple[Any, ...] = (None, object.__hash__)
"""How things hash that equal none but themselves."""

Leaves = list[tuple[str, Any]]


def leaves(part: Any, path: str = _ALL) -> Iterator[tuple[str, Any]]:
    """The numbers and words that an output is made of, each with its path.

    >>> list(leaves((2, [0.5, None])))[1:]
    [('output[0]', 2), ('len(output[1])', 2), ('output[1][0]', 0.5), ('output[1][1]', None)]
    """
    if type(part) in (int, float, bool, str):  # what most outputs are made of
        yield path, part
        return
    if isinstance(part, np.ndarray | np.generic):
        part = part.tolist()
    elif hasattr(part, "to_numpy"):
        part, names = _table(part)
        if names is not None:
            yield f"order of {path}", ", ".join(map(repr, names))
    if is_dataclass(part) and not isinstance(part, type):
        inner = {f".{field.name}": getattr(part, field.name) for field in fields(part)}
    elif isinstance(part, Mapping):
        inner = {f"[{key!r}]": value for key, value in part.items()}
    elif isinstance(part, Set):
        inner = {f"[{key!r}]": True for key in part}
    elif isinstance(part, Sequence | Iterator) and not isinstance(part, str | bytes):
        inner = {f"[{place}]": value for place, value in enumerate(part)}
    else:
        yield path, bool(part) if isinstance(part, Condition) else part
        return
    yield f"len({path})", len(inner)
    for step, value in inner.items():
        yield from leaves(value, path + step)


def _table(part: Any) -> tuple[Any, list[Any] | None]:
    """A series by its index, a table by its columns, and these in order; other things as lists."""
    if hasattr(part, "items"):  # pandas
        named = list(part.items())
        names = [name for name, _ in named]
        return (dict(named) if len(set(names)) == len(names) else named), names
    if hasattr(part, "columns") and hasattr(part, "to_dict"):  # Polars
        return part.to_dict(as_series=False), list(part.columns)
    return part.to_numpy().tolist(), None


class Codes:
    """Numbers for what is not a number."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {"absent": _ABSENT, "a number": _NUMBER}
        self._things: list[Any] = list(self._codes)

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
            kinds[rows] = _NUMBER
            if isinstance(leaf, Affine) and value_of is not None:
                numbers[rows] = value_of(leaf)
            elif isinstance(leaf, int | float | Fraction | Decimal):
                numbers[rows] = _float(leaf)
            else:
                kinds[rows] = self.codes.code(leaf)
            if not isinstance(leaf, float | Affine):
                discrete.append((path, leaf))
        self.discrete[rows] = self.codes.code(tuple(discrete))

    def forget(self, chosen: slice) -> None:
        """Take out what was entered for some of the runs."""
        for path in self.numbers:
            self.numbers[path][chosen] = np.nan
            self.kinds[path][chosen] = _ABSENT

    def rows(self, chosen: slice) -> "Outputs":
        """Some of the runs."""
        some = Outputs(len(range(self.runs)[chosen]), self.codes)
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
        number, kind = _number(path), _kind(path)
        both.numbers[path] = np.concatenate([number(one), number(two)])
        both.kinds[path] = np.concatenate([kind(one), kind(two)])
    both.discrete = np.concatenate([one.discrete, two.discrete])
    return both


@dataclass(frozen=True, slots=True)
class Part:
    """Something to look at in an output."""

    words: str
    look: Callable[[Outputs], Floats]
    is_ordered: bool = True


def parts_of(sides: Sequence[Outputs], *, bits: bool) -> list[Part]:
    """All there is to look at in outputs that look like these; lowest bits if asked."""
    paths = list(dict.fromkeys(path for side in sides for path in side.numbers))
    numbers = _spread(varying(sides))
    compared = combinations if len(numbers) <= _MOST_COMPARED else lambda some, _: pairwise(some)
    return [
        *(Part(path, _number(path)) for path in numbers),
        *(
            Part(f"{two} − {one}", _difference(one, two))
            for one, two in compared([each for each in numbers if "len(" not in each], 2)
        ),
        *(
            Part(f"log₂ of the lowest bit of {path}", _lowest_bit_of(path))
            for path in numbers
            if bits and "len(" not in path and _has_bits(path, sides)
        ),
        *(Part(path, _kind(path), False) for path in _spread(paths)),
        Part(_ALL, lambda side: side.discrete, False),
    ]


def varying(sides: Sequence[Outputs]) -> list[str]:
    """The numbers that are not the same in all outputs."""
    paths = dict.fromkeys(path for side in sides for path in side.numbers)
    columns = {path: np.concatenate([_number(path)(side) for side in sides]) for path in paths}
    return [path for path, column in columns.items() if differs(column)]


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


def _has_bits(path: str, sides: Sequence[Outputs]) -> bool:
    """Whether its lowest bit may tell more: there are fractions, or several whole numbers."""
    column = np.concatenate([_number(path)(side) for side in sides])
    known = np.unique(column[np.isfinite(column)])
    return known.size > _FEW or bool((known != np.rint(known)).any())


def _number(path: str) -> Callable[[Outputs], Floats]:
    return lambda side: side.numbers.get(path, np.full(side.runs, np.nan))


def _kind(path: str) -> Callable[[Outputs], Floats]:
    return lambda side: side.kinds.get(path, np.full(side.runs, float(_ABSENT)))


def _difference(one: str, two: str) -> Callable[[Outputs], Floats]:
    first, second = _number(one), _number(two)

    def look(side: Outputs) -> Floats:
        with np.errstate(invalid="ignore"):
            return second(side) - first(side)

    return look


def _lowest_bit_of(path: str) -> Callable[[Outputs], Floats]:
    number = _number(path)
    return lambda side: lowest_bit(number(side))


def lowest_bit(values: Floats) -> Floats:
    """The largest e for which a float is a multiple of 2**e; none for zero.

    >>> lowest_bit(np.array([6.0, 0.75, 0.1])).tolist()
    [1.0, -2.0, -55.0]
    """
    known = np.isfinite(values) & (values != 0)
    mantissa, exponent = np.frexp(np.where(known, values, 1.0))
    whole = np.ldexp(mantissa, _DIGITS).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)) + exponent - _DIGITS
    return np.where(known, lowest, np.nan)
