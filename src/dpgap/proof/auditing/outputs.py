"""Outputs of any shape as columns of numbers, so that events can be searched for.

An output is split into numbers and words: `output[1].gap`, `len(output[0])`. A release is split as
its document. A value that is not a number gets a code. `parts_of` lists the columns to compare.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.checker.numbers import Affine, Condition
from dpgap.releases.release import Table

ALL = "output"
TYPE_OF = "type of "
AMBIGUOUS = "one thing or another"
_ABSENT = 0
_NUMBER = 1
_EXACT = 1 << 53
"""Larger integers are not exact as floats, so their low bits are looked at as well."""
_LOW_BITS = 1 << 32
_WHEN = "made"
"""The time in a document, which is left out: it is not independent from call to call."""
_TRAITS = (
    "dtype",
    "shape",
    "name",
    "names",
    "schema",
    "attrs",
    "categories",
    "levels",
    "fill_value",
)
"""Attributes of an array, a table, its index and its columns, which are output, too."""
_FRACTIONS = float, Fraction, Decimal
"""Numbers that hardly ever come twice: those of a set are looked at in order."""
_NOT_BY_VALUE: tuple[Any, ...] = (None, object.__hash__)
"""The hashes of types that compare by identity."""

Leaves = list[tuple[str, Any]]


def leaves(part: object, path: str = ALL) -> Iterator[tuple[str, Any]]:
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
    shape = type(part).__name__ + _traits(part)
    content, names = _content(part)
    children = _children(content)
    if children is None:
        yield from _single(content, path, shape)
        return
    if isinstance(content, Set):
        numbers = [key for key in content if isinstance(key, Real | Decimal)]
        if numbers:
            yield from leaves(sorted(numbers, key=_float), f"sorted({path})")
    if names is not None:
        shape += f" of {', '.join(map(_name, names))}"
    yield TYPE_OF + path, shape
    yield f"len({path})", len(content) if isinstance(content, Set) else len(children)
    for step, value in children.items():
        yield from leaves(value, path + step)


def _traits(part: object) -> str:
    """The attributes of an array, a table, its index and its columns, as text."""
    if not isinstance(part, np.ndarray) and not hasattr(part, "to_numpy"):
        return ""
    text = ""
    for owner in (part, *(getattr(part, name, None) for name in ("cat", "index", "columns"))):
        for trait in _TRAITS:
            if hasattr(type(owner), trait):
                text += f" {getattr(owner, trait)}"
    return text


def _content(part: object) -> tuple[Any, Iterable[Any] | None]:
    """A release, array or table as plain values; and the names of its columns or keys, if any."""
    if isinstance(part, Table):
        part = {name: value for name, value in part._to_dict().items() if name != _WHEN}
    elif isinstance(part, np.ma.MaskedArray):
        part = {"shown": part.tolist(), "under the mask": part.data.tolist()}
    elif isinstance(part, np.ndarray | np.generic):
        part = part.tolist()
    elif hasattr(part, "to_numpy"):
        part, names = _table(part)
        if names is not None:
            return part, names
    if isinstance(part, Mapping) and not _is_record(part):
        return part, part
    return part, None


def _is_record(part: object) -> bool:
    return is_dataclass(part) and not isinstance(part, type)


def _children(part: Any) -> dict[str, Any] | None:
    """The values inside a value, by the step that leads to each; None for a single value."""
    if _is_record(part):
        children = {f".{field.name}": getattr(part, field.name) for field in fields(part)}
        for name, value in getattr(part, "__dict__", {}).items():
            children[f".{name}"] = value
        return children
    if isinstance(part, Mapping):
        return {f"[{key!r}]": value for key, value in part.items()}
    if isinstance(part, Set):
        return {f"[{key!r}]": True for key in part if not isinstance(key, _FRACTIONS)}
    if isinstance(part, Sequence | Iterator) and not isinstance(part, str | bytes):
        return {f"[{position}]": value for position, value in enumerate(part)}
    return None


def _single(value: object, path: str, shape: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a value that has no others inside."""
    yield path, bool(value) if isinstance(value, Condition) else value
    if isinstance(value, Fraction):
        yield f"denominator of {path}", value.denominator
    elif isinstance(value, Decimal):
        yield f"places of {path}", str(value.as_tuple().exponent)
    if shape != type(value).__name__ or isinstance(value, str):  # of NumPy's, or a subclass
        yield TYPE_OF + path, shape


def _name(key: object) -> str:
    """A key, with its type if that is a kind of text that looks like any other."""
    if isinstance(key, str) and type(key) is not str:
        return f"{type(key).__name__} {key!r}"
    return repr(key)


def _table(part: Any) -> tuple[Any, list[Any] | None]:
    """A series by its index, a table by its columns, and these in order; other things as lists."""
    if hasattr(part, "items"):  # pandas
        items = list(part.items())
        names = [name for name, _ in items]
        is_unique = len(set(names)) == len(names)
        return (dict(items) if is_unique else items), names
    if hasattr(part, "columns") and hasattr(part, "to_dict"):  # Polars
        return part.to_dict(as_series=False), list(part.columns)
    return part.to_numpy().tolist(), None


@dataclass(frozen=True, slots=True)
class PathState:
    """The state of a path that is not a word of the output: absent, or a number of some type."""

    name: str

    def __str__(self) -> str:
        return self.name


FLOAT = PathState("of type float")


def is_by_value(value: object) -> bool:
    """Whether a value compares by value, not by identity."""
    return value is None or getattr(type(value), "__hash__", None) not in _NOT_BY_VALUE


class Codes:
    """Codes for values that are not numbers and, if asked, for the types of those that are."""

    def __init__(self, *, types: bool = True) -> None:
        self._types = types
        self._code_of_type: dict[str, int] = {}
        self._values: list[Any] = [PathState("absent"), PathState("a number")]
        self._codes: dict[Hashable, int] = {state: code for code, state in enumerate(self._values)}

    def number(self, number: object) -> int:
        """The code of a number's type; −0 has its own."""
        if not self._types:
            return _NUMBER
        name = type(number).__name__
        if number == 0 and name == "float" and math.copysign(1, number) < 0:
            name = "float, −0"
        if name not in self._code_of_type:
            self._code_of_type[name] = self.code(PathState(f"of type {name}"))
        return self._code_of_type[name]

    def code(self, value: object) -> int:
        """The code of a value, which must compare by value."""
        if not is_by_value(value):
            problem = f"a value of type {type(value).__name__}, which cannot be compared"
            raise TypeError(f"the output has {problem}: return numbers, words, or lists of them")
        code = self._codes.setdefault(value, len(self._values))
        if code == len(self._values):
            self._values.append(value)
        return code

    def value(self, code: float) -> Any:
        """The value that has this code."""
        return self._values[int(code)]

    def telling(self, pairs: Iterable[Any]) -> list[Any]:
        """The discrete values that are not the same in all outputs."""
        outputs = [value for value in self._values if isinstance(value, tuple)]
        frequency = Counter(chain.from_iterable(outputs))
        return [pair for pair in pairs if frequency[pair] < len(outputs)]


class Outputs:
    """The outputs of some runs, in columns: for each path its number, and its kind."""

    def __init__(self, runs: int, codes: Codes) -> None:
        self.runs = runs
        self.codes = codes
        self.numbers: dict[str, Floats] = {}
        self.kinds: dict[str, Floats] = {}
        self.discrete = np.zeros(runs)

    def put(
        self,
        rows: int | Integers,
        output: Leaves,
        value_of: Callable[[Affine], Floats] | None = None,
    ) -> None:
        """Enter an output, for one run or for several runs that share it."""
        discrete = []
        for path, value in output:
            leaf = "NaN" if _is_nan(value) else value  # one does not equal another
            if path not in self.numbers:
                self.numbers[path] = np.full(self.runs, np.nan)
                self.kinds[path] = np.full(self.runs, float(_ABSENT))
            if isinstance(leaf, Affine) and value_of is not None:
                self.numbers[path][rows] = value_of(leaf)
                self.kinds[path][rows] = _NUMBER
            elif isinstance(leaf, int | float | Fraction | Decimal):
                self.numbers[path][rows] = _float(leaf)
                self.kinds[path][rows] = self.codes.number(leaf)
            else:
                self.kinds[path][rows] = self.codes.code(leaf)
            if not isinstance(leaf, float | Affine) and not path.startswith(TYPE_OF):
                discrete.append((path, leaf))
        self.discrete[rows] = self.codes.code(tuple(discrete))

    def forget(self, rows: slice) -> None:
        """Take out what was entered for some of the runs."""
        for path in self.numbers:
            self.numbers[path][rows] = np.nan
            self.kinds[path][rows] = _ABSENT

    def modes(self, times: float) -> dict[str, Any]:
        """The usual value at each path; `AMBIGUOUS` if none is frequent enough (by `times`)."""
        modes: dict[str, Any] = {}
        for path, kinds in self.kinds.items():
            numbers = np.nan_to_num(self.numbers[path])  # the kind tells what is no number
            values = Counter(zip(kinds.tolist(), numbers.tolist(), strict=True))
            ((usual, frequency),) = values.most_common(1)
            if frequency <= times:
                modes[path] = AMBIGUOUS
            elif usual[0] != _ABSENT:
                modes[path] = usual
        return modes

    def rows(self, rows: slice | Integers) -> "Outputs":
        """Some of the runs."""
        part = Outputs(self.discrete[rows].size, self.codes)
        part.numbers = {path: column[rows] for path, column in self.numbers.items()}
        part.kinds = {path: column[rows] for path, column in self.kinds.items()}
        part.discrete = self.discrete[rows]
        return part


def _is_nan(leaf: Any) -> bool:
    if isinstance(leaf, Decimal):
        return leaf.is_nan()
    return isinstance(leaf, float) and math.isnan(leaf)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


Look = Callable[[Outputs], Floats]


def paths_of(sides: Sequence[Outputs]) -> list[str]:
    """All paths, once each."""
    return list(dict.fromkeys(chain.from_iterable(side.numbers for side in sides)))


def column_of(look: Look, sides: Sequence[Outputs]) -> Floats:
    """The values of a path on all sides."""
    return np.concatenate([look(side) for side in sides])


def joined(first: Outputs, second: Outputs) -> Outputs:
    """The runs of both."""
    outputs = Outputs(first.runs + second.runs, first.codes)
    sides = (first, second)
    for path in paths_of(sides):
        outputs.numbers[path] = column_of(numbers_at(path), sides)
        outputs.kinds[path] = column_of(kinds_at(path), sides)
    outputs.discrete = np.concatenate([first.discrete, second.discrete])
    return outputs


def numbers_at(path: str) -> Callable[[Outputs], Floats]:
    """A function that returns the numbers at this path."""
    return lambda side: side.numbers.get(path, np.full(side.runs, np.nan))


def kinds_at(path: str) -> Callable[[Outputs], Floats]:
    """A function that returns the codes at this path."""
    return lambda side: side.kinds.get(path, np.full(side.runs, float(_ABSENT)))
