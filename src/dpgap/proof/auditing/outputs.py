"""Outputs of any shape as columns of numbers, so that events can be searched for.

An output is taken apart down to numbers and words: `output[1].gap`, `len(output[0])`. A release is
taken apart as its document. What is no number gets a code. `parts` says what there is to look at.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
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
        if shape != type(part).__name__:  # a number of NumPy's
            yield TYPE_OF + path, shape
        return
    yield TYPE_OF + path, shape if names is None else f"{shape} of {', '.join(map(repr, names))}"
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
