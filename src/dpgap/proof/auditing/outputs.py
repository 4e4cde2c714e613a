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
from itertools import chain, combinations, groupby, islice, pairwise
from numbers import Real
from typing import Any

import numpy as np

from dpgap.exact.reals import Floats, Integers, without_float_errors
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


def _traits(part: Any) -> str:
    """The attributes of an array, a table, its index and its columns, as text."""
    if not isinstance(part, np.ndarray) and not hasattr(part, "to_numpy"):
        return ""
    text = ""
    for owner in (part, *(getattr(part, name, None) for name in ("cat", "index", "columns"))):
        for trait in _TRAITS:
            if hasattr(type(owner), trait):
                text += f" {getattr(owner, trait)}"
    return text


def _content(part: Any) -> tuple[Any, Iterable[Any] | None]:
    """A release, array or table as plain values; and the names of its columns or keys, if any."""
    if isinstance(part, Table):
        part = {name: value for name, value in part.to_dict().items() if name != _WHEN}
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


def _is_record(part: Any) -> bool:
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


def _single(value: Any, path: str, shape: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a value that has no others inside."""
    yield path, bool(value) if isinstance(value, Condition) else value
    if isinstance(value, Fraction):
        yield f"denominator of {path}", value.denominator
    elif isinstance(value, Decimal):
        yield f"places of {path}", str(value.as_tuple().exponent)
    if shape != type(value).__name__ or isinstance(value, str):  # of NumPy's, or a subclass
        yield TYPE_OF + path, shape


def _name(key: Any) -> str:
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


def is_by_value(value: Any) -> bool:
    """Whether a value compares by value, not by identity."""
    return value is None or getattr(type(value), "__hash__", None) not in _NOT_BY_VALUE


class Codes:
    """Codes for values that are not numbers and, if asked, for the types of those that are."""

    def __init__(self, *, types: bool = True) -> None:
        self._types = types
        self._code_of_type: dict[str, int] = {}
        self._values: list[Any] = [PathState("absent"), PathState("a number")]
        self._codes: dict[Hashable, int] = {state: code for code, state in enumerate(self._values)}

    def number(self, number: Any) -> int:
        """The code of a number's type; −0 has its own."""
        if not self._types:
            return _NUMBER
        name = type(number).__name__
        if number == 0 and name == "float" and math.copysign(1, number) < 0:
            name = "float, −0"
        if name not in self._code_of_type:
            self._code_of_type[name] = self.code(PathState(f"of type {name}"))
        return self._code_of_type[name]

    def code(self, value: Any) -> int:
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


def joined(first: Outputs, second: Outputs) -> Outputs:
    """The runs of both."""
    outputs = Outputs(first.runs + second.runs, first.codes)
    sides = (first, second)
    for path in _paths(sides):
        outputs.numbers[path] = _column(numbers_at(path), sides)
        outputs.kinds[path] = _column(kinds_at(path), sides)
    outputs.discrete = np.concatenate([first.discrete, second.discrete])
    return outputs


def numbers_at(path: str) -> Callable[[Outputs], Floats]:
    """A function that returns the numbers at this path."""
    return lambda side: side.numbers.get(path, np.full(side.runs, np.nan))


def kinds_at(path: str) -> Callable[[Outputs], Floats]:
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

Look = Callable[[Outputs], Floats]


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


def _paths(sides: Sequence[Outputs]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(side.numbers for side in sides)))


def _column(look: Look, sides: Sequence[Outputs]) -> Floats:
    return np.concatenate([look(side) for side in sides])


def _varying(look: Callable[[str], Look], sides: Sequence[Outputs]) -> list[str]:
    """The paths whose values vary."""
    return [path for path in _paths(sides) if differs(_column(look(path), sides))]


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
    column = _column(look, sides)
    values = np.unique(column[np.isfinite(column)])
    has_fractions = bool((values != np.rint(values)).any())
    if values.size > _FEW_NUMBERS or has_fractions:
        codes = np.unique(_column(kinds_at(path), sides))
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
        kinds = np.unique([_column(kinds_at(path), sides) for path in position_of])
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
    for path in _paths(sides):
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
    values = map(sides[0].codes.value, np.unique(_column(kinds_at(path), sides)))
    texts = [_text(value) for value in values if not isinstance(value, PathState)]
    if len(texts) > _FEW:
        yield OutputPart(f"length of {path}", _in_texts(path, len))
        for index in range(max(len(_numbers_in(text)) for text in texts)):
            measure = partial(_number_at, index)
            yield OutputPart(f"number {index} in {path}", _in_texts(path, measure))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _numbers_in(text: str) -> list[float]:
    return [float(match.group()) for match in islice(_NUMBERS.finditer(text), _MOST_IN_A_TEXT)]


def _number_at(index: int, text: str) -> float:
    return next(islice(_numbers_in(text), index, None), math.nan)


def _in_texts(path: str, measure: Callable[[str], float]) -> Look:
    kinds = kinds_at(path)

    def measure_of(value: Any) -> float:
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
