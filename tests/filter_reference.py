"""What filters mean, in plain Python: a second opinion on every row, and tables to have it on.

A condition is a nested tuple: ("compare", column, sign, literals), ("day", form, sign, literals)
for the column of dates in text, ("not", part), ("and", parts) or ("or", parts). Literals are as
they are spelled.
"""

import math
import operator
import re
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow

from dpgap.data.engines.base import engine_of
from dpgap.data.filtering import keep, require_comparable
from dpgap.data.frames import Column, collect, columns_of, embed, is_typed
from dpgap.filter_language import read_filter

_AT_ONCE = 40

Condition = tuple[Any, ...]

_NUMBER = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?(0?[0-9]{1,2}|1[0-9]{2}|2[0-3][0-9]))?"
)
_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EQUALS = ("=", "!=", "in", "not in", "is null", "is not null")
SIGNS = (*_COMPARE, *EQUALS[2:], "between", "not between")
PUNCTUATION = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~ "
PATTERNS = [
    "%",
    "",
    "_",
    "__",
    "a%",
    "%a",
    "%1%0%",
    "1_",
    r"\%s",
    r"%\\slash",
    r"a\_",
    "%\n",
    "$_",
    "é",
]
PATTERNS += ["_\u0301", "%'%", "10", "%.%", "[a-z]", "(?i)A", "^a", "a$", "{x}", "%e%", "\t", "._"]
PATTERNS += [PUNCTUATION.replace("\\", r"\\").replace("_", r"\_"), "\U0001f350"]
FORMS = ["DD.MM.YYYY", "YYYY-MM-DD", "DD.MM.YYYY hh:mm", "MM/DD/YYYY", "YYYYMMDD", "DD$(MM)\\ YYYY"]
_DAYS = ["2024-02-29", "2023-03-01", "0001-01-01", "9999-12-31", "2000-02-29", "1900-02-28"]
_DATED = ["29.02.2024", "29.02.2023", "29.02.1900", "29.02.2000", "31.04.2024", "30.04.2024"]
_DATED += ["31.12.9999", "01.01.0001", "01.01.0000", "29.02.0000", "00.01.2024", "01.13.2024"]
_DATED += [
    "1.2.2024",
    "01.02.24",
    "01.02.2024\n",
    " 01.02.2024",
    "01-02-2024",
    "0１.02.2024",
    "",
    "x",
]
_DATED += ["2024-02-29", "2023-02-29", "31.01.2024 12:00", "31.01.2024 99:99", "01.02.2024 1:00"]
_DATED += ["02/29/2024", "29/02/2024", "20240229", "20230229", "29$(02)\\ 2024", "29.02.2024 "]
_DATED += ["32.01.2024", "31.06.2024", "30.02.2024", "28.02.1900", "01.03.2023", "٢٩.02.2024"]

_TEXTS = [
    "10",
    "9",
    "+9.50",
    "-0",
    "1e1",
    "1E+01",
    "007",
    ".5",
    "5.",
    "10\n",
    " 10",
    "10 ",
    "",
    "nan",
]
_TEXTS += [
    "inf",
    "Infinity",
    "1e240",
    "1e239",
    "9" * 64,
    "9" * 65,
    "0." + "0" * 57 + "1e-239",
    "1e-239",
    "0x10",
    "1_0",
    "１０",
]
_TEXTS += [
    "true",
    "TRUE",
    "True",
    "false",
    "tRue",
    "t",
    "a",
    "A",
    "B",
    "b",
    "é",
    "e\u0301",
    "ß",
    "ss",
]
_TEXTS += [
    "\ufffd",
    "\U0001f350",
    "it's",
    'a "b"',
    "back\\slash",
    "%s",
    "\t",
    "2024-01-31",
    "2024-02",
    "٣",
]
_TEXTS += [
    "-",
    ".",
    "e5",
    "1e",
    "1e5.0",
    "--5",
    "null",
    "NULL",
    "9007199254740993",
    "a ",
    "$1",
    PUNCTUATION,
    "{x}",
]

NUMBERS = [
    "10",
    "9.5",
    "-0",
    "0",
    "0.1",
    "-3",
    "1e1",
    "1e239",
    "-1e239",
    "1e-239",
    "9007199254740993",
]
NUMBERS += [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "2.5",
    "127",
    "128",
]
NUMBERS += [
    "0.00005",
    "18446744073709551615",
    "99999999.99",
    "99999999.995",
    "9999999999999999999999999999",
]
_MOMENTS = [
    "2024-01-31",
    "1969-12-31",
    "2024-01-31 12:00",
    "2024-01-31T12:00:00.000001",
    "0001-01-01",
]
_MOMENTS += ["9999-12-31", "1677-09-01", "2300-01-01", "1500-03-01 00:00:00"]
_ZONED = [
    "2024-01-31 12:00+01:00",
    "2024-01-31T11:00Z",
    "2024-01-31 12:00",
    "2300-01-01",
    "1900-01-01",
]


def _day(text: str) -> date:
    return date.fromisoformat(text)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


_TIMES = [
    _time(text)
    for text in ("2024-01-31", "2024-01-31T12", "1969-12-31T23:59:59.999999", "2200-01-01")
]

COLUMNS: dict[str, tuple[Any, list[Any], list[str]]] = {
    "id": (pyarrow.int64(), [0, 9, 10, -3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)], NUMBERS),
    "small": (pyarrow.int16(), [0, 9, 10, -3, 127, 128, 2**15 - 1, -(2**15)], NUMBERS),
    "float": (
        pyarrow.float64(),
        [0.0, -0.0, 0.1, 9.5, 10.0, -3.0, math.nan, math.inf, -math.inf, 2.0**53, 1e239],
        NUMBERS,
    ),
    "short float": (
        pyarrow.float32(),
        [0.0, -0.0, float(np.float32(0.1)), 9.5, 10.0, math.nan, math.inf, -math.inf],
        NUMBERS,
    ),
    "price": (
        pyarrow.decimal128(10, 2),
        [Decimal(text) for text in ("0.00", "9.50", "10.00", "0.10", "-3.00", "99999999.99")],
        NUMBERS,
    ),
    "long": (
        pyarrow.decimal128(38, 10),
        [Decimal(text) for text in ("0", "9.5", "0.1", "-3", "0.00005", "9" * 28 + ".9999999999")],
        NUMBERS,
    ),
    "text": (pyarrow.string(), _TEXTS, []),
    "dated": (pyarrow.string(), _DATED, []),
    "flag": (pyarrow.bool_(), [True, False], ["true", "False", "TRUE"]),
    "day": (
        pyarrow.date32(),
        [_day(text) for text in ("2024-01-31", "1969-12-31", "1500-03-01")],
        _MOMENTS,
    ),
    "time": (pyarrow.timestamp("us"), _TIMES, _MOMENTS),
    "zoned": (
        pyarrow.timestamp("us", "UTC"),
        [each.replace(tzinfo=UTC) for each in _TIMES],
        _ZONED,
    ),
}
"""For each column its type, awkward values of it, and literals to compare them with."""


def literals_of(name: str) -> list[str]:
    """Literals for a column as they are spelled in a filter."""
    kind, _, literals = COLUMNS[name]
    if name == "dated":
        return [*map(quoted, _DAYS)]
    if name == "text":
        return [*map(quoted, _TEXTS), *NUMBERS, "true", "false"]
    return [*map(quoted, literals)] if pyarrow.types.is_temporal(kind) else literals


def quoted(text: str) -> str:
    """Text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def has_no_order(literal: str) -> bool:
    """Whether a literal, as it is spelled, is refused beside <: true, false or a quoted number."""
    number = _NUMBER.fullmatch(literal[1:-1]) if literal.startswith("'") else None
    is_number = number is not None and len(number[0]) <= 64
    return is_number or literal.lower() in ("true", "false")


def matches(condition: Condition, row: dict[str, Any]) -> bool:
    """Whether a row matches a condition."""
    word, *rest = condition
    if word == "not":
        return not matches(rest[0], row)
    if word in ("and", "or"):
        return (all if word == "and" else any)(matches(part, row) for part in rest[0])
    column, sign, literals = rest
    value = row["dated" if word == "day" else column]
    if word == "day":
        column, value = "day", _dated(value, column)
    if value is None or value != value:
        return bool(sign == "is null")
    if "null" in sign:
        return bool(sign == "is not null")
    if "like" in sign:
        is_like = _is_like(value, literals[0][1:-1].replace("''", "'"))
        return is_like == (sign == "like")
    if "between" in sign:
        low, high = literals
        if sign == "between":
            return _compares(column, value, ">=", low) and _compares(column, value, "<=", high)
        return _compares(column, value, "<", low) or _compares(column, value, ">", high)
    sign = {"in": "=", "not in": "!="}.get(sign, sign)
    found = [_compares(column, value, sign, literal) for literal in literals]
    return all(found) if sign == "!=" else any(found)


def _dated(text: str | None, form: str) -> date | None:
    """The day that a text states: letter by letter as the form says."""
    if text is None or len(text) != len(form):
        return None
    digits: dict[str, str] = {}
    for own, letter in zip(text, form, strict=True):
        if letter in "YMDhms":
            digits[letter] = digits.get(letter, "") + own
        elif own != letter:
            return None
    if not all(each.isascii() and each.isdigit() for each in digits.values()):
        return None
    try:
        return date(int(digits["Y"]), int(digits["M"]), int(digits["D"]))
    except ValueError:
        return None


def _is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    if pattern[0] == "\\":
        return text[:1] == pattern[1] and _is_like(text[1:], pattern[2:])
    if not text or pattern[0] not in ("_", text[0]):
        return False
    return _is_like(text[1:], pattern[1:])


def _compares(column: str, value: Any, sign: str, spelled: str) -> bool:
    own, literal = _pair(column, value, spelled)
    if own is None or own != own:
        return False
    return bool(_COMPARE[sign](own, literal))


def _pair(column: str, value: Any, spelled: str) -> tuple[Any, Any]:
    """A value and a literal as Python can compare them; None for a value that is none."""
    is_text = spelled.startswith("'")
    stated = spelled[1:-1].replace("''", "'") if is_text else spelled
    if column == "text":
        return _pair_of_text(value, stated, is_text)
    if column == "flag":
        return value, stated.lower() == "true"
    if column in ("day", "time", "zoned"):
        moment = _time(stated)
        if column == "day":
            value = datetime(value.year, value.month, value.day)
        is_bare = column == "zoned" and moment.tzinfo is None
        return value, moment.replace(tzinfo=UTC) if is_bare else moment
    if column == "float":
        return value, float(stated)
    if column == "short float":
        with np.errstate(over="ignore"):
            near = float(np.float32(float(stated)))
        return value, float(stated) if math.isinf(near) else near
    return Fraction(value), Fraction(stated)


def _pair_of_text(value: str, stated: str, is_text: bool) -> tuple[Any, Any]:
    if is_text:
        return [*map(ord, value)], [*map(ord, stated)]
    if stated in ("true", "false"):
        truths = {each: each.lower() == "true" for each in ("true", "True", "TRUE")}
        truths |= dict.fromkeys(("false", "False", "FALSE"), False)
        return truths.get(value), stated == "true"
    return (float(value) if len(value) <= 64 and _NUMBER.fullmatch(value) else None), float(stated)


def rich_rows() -> list[dict[str, Any]]:
    """Every awkward value of every column, once at least, and rows of nothing."""
    longest = max(len(values) for _, values, _ in COLUMNS.values())
    return [
        {
            name: None if at % 7 == 6 else values[at % len(values)]
            for name, (_, values, _) in COLUMNS.items()
        }
        for at in range(2 * longest)
    ]


def arrow_table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    """Rows as a table of Arrow, numbered by `at`."""
    columns = {
        name: pyarrow.array([row[name] for row in rows], kind)
        for name, (kind, _, _) in COLUMNS.items()
    }
    return pyarrow.table({"at": pyarrow.array(range(len(rows)), pyarrow.int64()), **columns})


def single_comparisons() -> list[Condition]:
    """Every column with every literal and sign, and the negations of some."""
    found: list[Condition] = []
    for name in COLUMNS:
        for place, literal in enumerate(literals_of(name)):
            signs = EQUALS if has_no_order(literal) else SIGNS
            sign = signs[place % len(signs)]
            form = FORMS[place % len(FORMS)]
            first = ("day", form) if name == "dated" else ("compare", name)
            found += [(*first, sign, _stated(sign, literal))]
            other = signs[(place + 3) % len(signs)]
            found += [("not", (*first, other, _stated(other, literal)))]
    for sign in ("is null", "is not null"):
        found += [("compare", name, sign, []) for name in COLUMNS]
    for form in FORMS:
        found += [("day", form, sign, _stated(sign, quoted(_DAYS[0]))) for sign in SIGNS]
    for place, pattern in enumerate(PATTERNS):
        sign = ("like", "not like")[place % 2]
        found += [("compare", "text", sign, [quoted(pattern)])]
    return found


def _stated(sign: str, literal: str) -> list[str]:
    """As many literals as a sign needs."""
    return [] if "null" in sign else [literal, literal] if "between" in sign else [literal]


def spelled(condition: Condition) -> str:
    """A condition as a filter's text, with all parentheses."""
    word, *rest = condition
    if word == "not":
        return f"not ({spelled(rest[0])})"
    if word in ("and", "or"):
        return f" {word} ".join(f"({spelled(part)})" for part in rest[0])
    column, sign, literals = rest
    name = f'day("dated", {quoted(column)})' if word == "day" else f'"{column}"'
    if sign in ("in", "not in"):
        return f"{name} {sign} ({', '.join(literals)})"
    return f"{name} {sign} {' and '.join(literals)}"


def kept_rows(native: Any, texts: list[str]) -> list[list[int]]:
    """For each filter the rows that are kept, by the column `at`; many are asked for at once."""
    frame = nw.from_native(native)
    filters = [read_filter(text) for text in texts]
    names = dict.fromkeys(["at", *(name for each in filters for name in each.columns)])
    with ExitStack() as resources:
        if not is_typed(frame, names):
            columns = {name: Column(name, kind) for name, kind in frame.collect_schema().items()}
            return _kept_rows(frame, columns, texts)
        values = collect(frame, names)
        for each in filters:
            require_comparable(values, each, columns_of(values))
        embedded = embed(values, {}, resources)
        return _kept_rows(embedded.rows, embedded.columns, texts)


def _kept_rows(frame: Any, columns: dict[str, Column], texts: list[str]) -> list[list[int]]:
    engine = engine_of(frame)
    row_number = nw.col(columns["at"].name).alias("at")
    found: list[list[int]] = [[] for _ in texts]
    for first in range(0, len(texts), _AT_ONCE):
        parts = [
            keep(frame, read_filter(text), engine, columns=columns).select(
                row_number, nw.lit(place, nw.Int64).alias("place")
            )
            for place, text in enumerate(texts[first : first + _AT_ONCE], first)
        ]
        every: Any = nw.concat(parts) if len(parts) > 1 else parts[0]
        rows = every.lazy().collect().rows() if engine is None else engine.rows(every)
        for at, place in rows:
            found[place].append(at)
    return [sorted(each) for each in found]
