"""The counting query: how many distinct units each item has, and which items are wanted.

It is written once, in Narwhals, for every frame and engine. NULL units and NULL items are dropped,
and NaN is NULL. So adding or removing one unit moves every count by at most one, and all in the
same direction, however many rows it has.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dtypes import DType

from dpgap.data.domain import Domain, Stated, domain_of, read_domain, text_of, whole
from dpgap.data.engines.base import Engine
from dpgap.data.private_counts import UNREADABLE, quietly
from dpgap.data.sources import Frame, Lazy, guessed, require_columns
from dpgap.data.values import plain_frame
from dpgap.exact.bits import secure_bits
from dpgap.question import Question, parts_of_form

# --------------------------------------------------------------------------------------------------
# The public groups. They are read before anything is counted or charged.


def read_groups(groups: Any) -> Domain:
    """The public groups, each named once."""
    is_frame = hasattr(groups, "columns")
    if is_frame or isinstance(groups, str | bytes | dict) or not isinstance(groups, Iterable):
        raise TypeError(f"groups must be a list of public values, not {type(groups).__name__}")
    if isinstance(groups, range) and groups:
        stated = read_domain(groups)
        return Domain(tuple(groups), stated.words, tuple(map(str, groups)))
    labels = list(groups)
    if not labels:
        raise ValueError("groups must not be empty")
    if any(label is None or label != label for label in labels):
        raise ValueError("groups must not hold None or NaN: rows without a group are in none")
    texts = [text_of(label) for label in labels]
    if min(len(set(texts)), len(set(labels))) < len(texts):  # to Python, 1 and True are equal
        each = zip(texts, labels, strict=True)
        twice = next(a for a, b in each if max(texts.count(a), labels.count(b)) > 1)
        raise ValueError(f"groups must be named once each, but {twice!r} is there twice")
    return domain_of(labels, "a list of {count} groups")


# --------------------------------------------------------------------------------------------------


_LARGEST = (1 << 63) - 1024
"""The largest float that is a whole number of 64 bits."""

_TEXTS = ("String", "Categorical", "Enum")
_COUNTABLE = (*_TEXTS, "Boolean", "Float32", "Float64")
_WHOLE_TEXT = "^(0|-?[1-9][0-9]{0,17})$"
_LONGEST_WHOLE = 19


def count_units(frame: Frame, unit: str, item: str) -> Frame:
    """How many distinct units each item has: a frame of `item` and `units`, lazy as that given."""
    columns = {"item": item} if unit == "row" else {"item": item, "unit": unit}
    rows = rows_of(purified(frame, list(columns.values())), columns)
    return quietly(lambda: _count(rows), UNREADABLE)


def count_all_units(frame: Frame, unit: str) -> Frame:
    """How many distinct units there are: a frame of one number."""
    if unit == "row":
        return frame.select(nw.len())
    rows = rows_of(purified(frame, [unit]), {"unit": unit})
    return quietly(lambda: rows.group_by("unit").agg(nw.len()).select(nw.len()), UNREADABLE)


def purified(frame: Frame, names: list[str]) -> Frame:
    """A frame whose columns of these names hold values of one type each."""
    require_columns(list(quietly(frame.collect_schema, UNREADABLE)), *names)
    names = list(dict.fromkeys(names))
    if frame.implementation.is_pandas():
        return _purify_pandas(frame, names)
    return _purify_arrow(frame, names) if frame.implementation.is_pyarrow() else frame


def rows_of(frame: Frame, columns: dict[str, str]) -> Frame:
    """The rows that have a value in all these columns, which are called by their roles."""
    schema = quietly(frame.collect_schema, UNREADABLE)
    for role, name in columns.items():
        _require_plain(name, schema[name], role)
    return quietly(lambda: _comparable_rows(frame, columns, schema), UNREADABLE)


def states_numbers(frame: Frame, name: str) -> bool:
    """Whether the schema, and not somebody's row, tells that a column holds numbers."""
    return name not in guessed(frame) and bool(frame.collect_schema()[name].is_numeric())


def _purify_pandas(frame: Frame, names: list[str]) -> Frame:
    """The columns of a pandas frame, which alone may hold anything."""
    pure: Frame = quietly(lambda: nw.from_native(plain_frame(frame.to_native(), names)), UNREADABLE)
    return pure


def _purify_arrow(frame: Frame, names: list[str]) -> Frame:
    """The columns of an Arrow table; views of text become text, which can be missing as well."""
    import pyarrow

    table = frame.to_native().select(names)
    kinds = [
        pyarrow.large_string() if str(field.type) == "string_view" else field.type
        for field in table.schema
    ]
    pure: Frame = nw.from_native(table.cast(pyarrow.schema(zip(names, kinds, strict=True))))
    return pure


def _require_plain(name: str, kind: DType, role: str) -> None:
    """Refuse a column that is not of one plain type, or whose values cannot serve for its role."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if role == "amount" and not (kind.is_numeric() or type(kind).__name__ in _TEXTS):
        raise ValueError(
            f"column {name!r} must hold numbers, or text that says numbers, to be summed"
        )
    is_told_by_text = role in ("item", "group")
    if is_told_by_text and type(kind).__name__ not in _COUNTABLE and not kind.is_integer():
        raise ValueError(
            f"column {name!r} must hold text, whole numbers or true and false to be counted; "
            "cast it to text first"
        )


def _comparable_rows(frame: Frame, columns: dict[str, str], schema: nw.Schema) -> Frame:
    is_coded = frame.implementation.is_pandas()
    rows = frame.select(
        *(
            _comparable(name, schema[name], role, is_coded=is_coded).alias(role)
            for role, name in columns.items()
        )
    ).drop_nulls()
    for role, name in columns.items():
        if schema[name].is_float() and role != "amount":
            rows = rows.filter(_is_number(nw.col(role)))
    return rows


def _count(rows: Frame) -> Frame:
    if (
        "unit" in rows.collect_schema()
    ):  # grouping finds distinct pairs faster than `unique`, on every engine
        rows = rows.group_by("unit", "item").agg(nw.len().alias("rows"))
    return rows.group_by("item").agg(nw.len().alias("units"))


def _comparable(name: str, kind: DType, role: str, *, is_coded: bool) -> nw.Expr:
    """A column whose equal values are equal to every engine, and that can be fetched."""
    if role == "amount" or (is_coded and kind == nw.Categorical):
        return nw.col(name)  # amounts are compared with nothing
    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def is_finite(value: nw.Expr) -> nw.Expr:
    """Whether a float is neither NaN nor infinite.

    DuckDB's `isnan` trusts the statistics of Parquet files, which know no NaN. But a difference is
    NaN for NaN and for infinity, whatever statistics say.
    """
    return value - value == 0.0


def _is_number(value: nw.Expr) -> nw.Expr:
    """Whether a float is not NaN."""
    return is_finite(value) | (value == float("inf")) | (value == float("-inf"))


def keep_range(rows: Lazy, kind: DType, labels: range) -> Lazy:
    """The rows whose items are whole numbers of a range."""
    low, high = min(labels[0], labels[-1]), max(labels[0], labels[-1])
    item, others = nw.col("item"), _others(rows)
    if kind == nw.Int64:
        return _every(rows.filter(item.is_between(low, high)), low, labels.step)
    numbers = rows.select(_as_number(kind, low, high).alias("number"), "item", *others)
    if kind == nw.String:  # a number has one spelling only
        numbers = numbers.filter(nw.col("number").cast(nw.String) == item)
    inside = numbers.select(nw.col("number").alias("item"), *others).filter(
        item.is_between(low, high)
    )
    return _every(inside, low, labels.step)


def _every(rows: Lazy, low: int, step: int) -> Lazy:
    """The rows whose items are whole steps above `low`."""
    return rows if abs(step) == 1 else rows.filter((nw.col("item") - low) % abs(step) == 0)


def keep_listed(rows: Lazy, column: str, kind: DType, listed: Lazy) -> Lazy:
    """The rows whose value in a column is listed, which is then called by its position.

    `listed` is a frame of `item` and `position`: whole numbers where the column holds such, or
    texts.
    """
    value = (
        nw.col(column) if listed.collect_schema()["item"].is_integer() else _as_text(kind, column)
    )
    found = rows.select(value.alias("sought"), *_others(rows, column))
    known = listed.select(nw.col("item").alias("listed"), nw.col("position").alias(column))
    return found.join(known, left_on="sought", right_on="listed", how="inner").select(
        column, *_others(rows, column)
    )


def keep_known(known: Lazy, own: DType, rows: Lazy, kind: DType) -> Lazy:
    """The rows whose items are in a table, a frame of `item` of type `own`, called as there."""
    known, others = known.drop_nulls().unique(), _others(rows)
    if own.is_integer() and kind.is_integer():
        return rows.join(known, on="item", how="semi")
    texts = known.select(_as_text(own).alias("listed"), nw.col("item"))
    found = rows.select(_as_text(kind).alias("sought"), *others)
    return found.join(texts, left_on="sought", right_on="listed", how="inner").select(
        "item", *others
    )


def _others(rows: Lazy, column: str = "item") -> list[str]:
    return [name for name in rows.collect_schema() if name != column]


def keep_items(known: Lazy, own: DType, counted: Lazy, kind: DType) -> Lazy:
    """The counts of the items of a table, a frame of `item` of type `own`; 0 for absent ones."""
    known = known.drop_nulls().unique()
    if not (own.is_integer() and kind.is_integer()):
        return keep_texts(known.with_columns(_as_text(own).alias("text")), counted, kind)
    return _fill_absent(known.join(counted, on="item", how="left"))


def keep_texts(known: Lazy, counted: Lazy, kind: DType) -> Lazy:
    """The counts of known items, whose `text` says how they are found; 0 for absent ones."""
    found = counted.select(_as_text(kind).alias("found"), "units")
    return _fill_absent(known.join(found, left_on="text", right_on="found", how="left"))


def _fill_absent(joined: Lazy) -> Lazy:
    return joined.select("item", nw.col("units").fill_null(0))


def _as_number(kind: DType, low: int, high: int, column: str = "item") -> nw.Expr:
    """Items as whole numbers, NULL where they are none; in a CASE, so that no cast can fail."""
    item = nw.col(column)
    if kind == nw.String:
        item = short(item, _LONGEST_WHOLE)
        # To Java "$" also stands before a last line break of any kind, which no cast would take.
        is_number = item.str.contains(_WHOLE_TEXT) & ~item.str.contains("[^0-9-]")
    elif kind.is_float():
        is_number = item.is_between(float(-_LARGEST), float(_LARGEST)) & (item.floor() == item)
    else:
        is_number = item.is_between(low, high)
    return nw.when(is_number).then(item).otherwise(None).cast(nw.Int64)


def short(text: nw.Expr, most: int) -> nw.Expr:
    """Text of at most so many letters, NULL where there are more.

    It goes before every pattern, in a CASE of its own: PostgreSQL looks for none in 256 MB.
    """
    return nw.when(text.str.len_chars() <= most).then(text)


def _as_text(kind: DType, column: str = "item") -> nw.Expr:
    """Items as the text that they are compared by; NULL where numbers are not whole."""
    item = nw.col(column)
    if kind == nw.Boolean:
        return nw.when(item).then(nw.lit("true")).otherwise(nw.lit("false"))
    if kind.is_float():
        return _as_number(kind, -_LARGEST, _LARGEST, column).cast(nw.String)
    return item if kind == nw.String else item.cast(nw.String)


# --------------------------------------------------------------------------------------------------
# How columns are compared with literals: for every kind of column one reading, on every engine.
#
# A reading says what counts as a value (not NULL, NaN or text that cannot be read), and how values
# compare with a literal. Where a literal lies between two values of a column, or beyond all of
# them, the comparison is restated, so that an engine never has to convert a value to compare it.
# All of this depends on the schema and the literal alone.


Test = Callable[[str, Any], "nw.Expr | bool"]
"""How values stand to a literal, for =, <, <=, > and >=; a bool where that is so for all values.

What is no value is NULL or false.
"""

_EXPONENT = "(?:[eE][+-]?(?:0?[0-9]?[0-9]|1[0-9][0-9]|2[0-3][0-9]))?$"
_NUMBER = "^[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)" + _EXPONENT
_THOUSANDS = "[. '’\u00a0\u202f]"
"""What may stand before each three digits where a comma is the decimal mark."""
_NUMBER_WITH_COMMA = (
    f"^[+-]?(?:(?:[0-9]+|[0-9]{{1,3}}(?:{_THOUSANDS}[0-9]{{3}})+)(?:,[0-9]*)?|,[0-9]+)" + _EXPONENT
)
LONGEST = 64
"""Which texts are numbers, in filters and in sums: so limited that no engine overflows."""
_TRUTHS = {True: ("true", "True", "TRUE"), False: ("false", "False", "FALSE")}
_MOMENT = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
    "(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_IN_ORDER = re.compile("[0-9]{4}-[0-9]{2}(-[0-9]{2}([ T].*)?)?", re.DOTALL)
_MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?"
    "|oct(ober)?|nov(ember)?|dec(ember)?)[.]?"
)
_DAY = "[0-9]{1,2}(st|nd|rd|th|[.])?"
_DATE = re.compile(
    r"([a-z]{3,9}[.,] ?)?("
    r"[0-9]{4}([./-])[0-9]{1,2}\3[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\4([0-9]{4}|[0-9]{2})"
    rf"|[0-9]{{1,2}}/[0-9]{{4}}|{_DAY}[ /-]?{_MONTH}([ /-]?[0-9]{{2,4}})?"
    rf"|{_MONTH}[ /-]?({_DAY}|({_DAY},? ?)?[0-9]{{4}}))([ T,].*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Text that people take for a date."""
_EXACT = Context(prec=400)
COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NEGATED = {"!=": "=", "not in": "in", "not like": "like"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {
    "s": Fraction(10**6),
    "ms": Fraction(10**3),
    "us": Fraction(1),
    "ns": Fraction(1, 10**3),
    "day": Fraction(24 * 3600 * 10**6),
}
"""How many microseconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A column as it is compared with literals of one type."""

    present: nw.Expr
    """Whether there is a value; true or false, never NULL."""
    test: Test

    def compare(self, sign: str, literals: tuple[Any, ...]) -> nw.Expr:
        """Whether a comparison matches; true or false, never NULL."""
        if sign in ("is null", "is not null"):
            return self.present if sign == "is not null" else ~self.present
        if sign in NEGATED:
            return self.present & ~self.compare(NEGATED[sign], literals)
        sign = "=" if sign == "in" else sign
        found = [self._test(sign, literal) for literal in literals]
        return joined(operator.or_, found).fill_null(False)

    def _test(self, sign: str, literal: Any) -> nw.Expr:
        found = self.test(sign, literal)
        if isinstance(found, bool):
            return self.present if found else self.present & ~self.present
        return found


def joined(join: Callable[[nw.Expr, nw.Expr], nw.Expr], parts: list[nw.Expr]) -> nw.Expr:
    """Many expressions as one, halved again and again: engines cannot go hundreds deep."""
    if len(parts) <= 2:
        return reduce(join, parts)
    half = len(parts) // 2
    return join(joined(join, parts[:half]), joined(join, parts[half:]))


def _stands(sign: str, value: nw.Expr, edge: Any) -> nw.Expr:
    compared: nw.Expr = COMPARE[sign](value, edge)
    return compared


def _is_there(value: nw.Expr) -> nw.Expr:
    return ~value.is_null()


def whole_numbers(value: nw.Expr, kind: DType) -> Reading:
    """Whole numbers, exactly."""
    bits = int(re.sub("[^0-9]", "", type(kind).__name__))
    signed = not kind.is_unsigned_integer()
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def test(sign: str, literal: Decimal) -> nw.Expr | bool:
        found = _settled(sign, Fraction(literal), low, high)
        if isinstance(found, bool):
            return found
        is_usual = -(1 << 63) <= found[1] < 1 << 63
        edge = nw.lit(found[1], kind) if is_usual else nw.lit(str(found[1])).cast(kind)
        return _stands(found[0], value, edge)

    return Reading(_is_there(value), test)


def decimals(value: nw.Expr, kind: nw.Decimal | None, *, in_ibis: bool) -> Reading:
    """Decimal numbers, exactly; None for those of any length, as PostgreSQL has them."""
    present = _is_there(value)
    if in_ibis:  # PostgreSQL has decimals that are no numbers
        present = present & (value.cast(nw.String) != "NaN").fill_null(False)

    def test(sign: str, literal: Decimal) -> nw.Expr | bool:
        if kind is None:
            return present & _stands(sign, value, literal)
        largest = 10**kind.precision - 1
        found = _settled(sign, Fraction(literal) * 10**kind.scale, -largest, largest)
        if isinstance(found, bool):
            return found
        edge = Decimal(found[1]).scaleb(-kind.scale, _EXACT)
        # Ibis would take a decimal for one of three digits, in some databases.
        stated = nw.lit(format(edge, "f")).cast(kind) if in_ibis else edge
        return present & _stands(found[0], value, stated)

    return Reading(present, test)


def floats(column: nw.Expr, kind: DType) -> Reading:
    """Floats, with the float of their own precision that is nearest to the literal."""
    value = column.cast(nw.Float64)

    # Some engines put NaN above all numbers, and DuckDB's `isnan` trusts the statistics of files.
    is_number = (is_finite(value) | (value == math.inf) | (value == -math.inf)).fill_null(False)

    def test(sign: str, literal: Decimal) -> nw.Expr:
        nearest = float(literal)
        if kind == nw.Float32 and abs(nearest) <= float(np.finfo(np.float32).max):
            nearest = float(np.float32(nearest))
        return is_number & _stands(sign, value, nearest)

    return Reading(is_number, test)


def numbers(column: nw.Expr, kind: DType) -> Reading:
    """Numbers that may be floats only because a row has none: all as floats, but whole literals.

    So a column of whole numbers up to 2^53 is read as the same numbers in floats are.
    """
    near = floats(
        column, nw.Float64()
    )  # short floats too: one longer number makes all of them long
    if kind.is_float():
        return near
    exact = whole_numbers(column, kind)
    return Reading(
        exact.present,
        lambda sign, literal: (exact if is_whole(literal) else near).test(sign, literal),
    )


def is_whole(literal: Decimal) -> bool:
    """Whether a number has nothing behind its point."""
    return Fraction(literal).denominator == 1


def truths(value: nw.Expr) -> Reading:
    """True and false."""
    return Reading(_is_there(value), lambda sign, literal: _stands(sign, value, literal))


def texts(value: nw.Expr, order: Callable[[str, str], nw.Expr]) -> Reading:
    """Text by its code points; `order` says how it stands to a literal, for < and the like."""

    def test(sign: str, literal: str) -> nw.Expr:
        return value == literal if sign == "=" else order(sign, literal)

    return Reading(_is_there(value), test)


def in_order_of_bytes(value: nw.Expr) -> Callable[[str, str], nw.Expr]:
    """The order of text for engines that compare it by its bytes, as most do; and "like"."""
    return lambda sign, literal: (
        value.str.contains(f"^{like_pattern(literal)}\\z")
        if sign == "like"
        else _stands(sign, value, literal)
    )


def like_pattern(literal: str) -> str:
    r"""What "like" looks for, as a regular expression: % is any text, _ one character.

    >>> like_pattern("a.%"), like_pattern("50\\%")
    ('(?s:a\\..*)', '(?s:50%)')
    """
    parts = re.findall(r"\\?.", literal, re.DOTALL)
    return f"(?s:{''.join(_WILD.get(part) or re.escape(part[-1]) for part in parts)})"


_WILD = {"%": ".*", "_": "."}


def number_in(text: nw.Expr, engine: nw.Implementation, decimal: str = ".") -> nw.Expr:
    """The number that a text is, NULL where it is none; in a CASE, so that no cast can fail.

    The length is looked at first: no engine takes a text of any length for a pattern. To Java and
    Python "$" also stands before a last line break, which no cast would take.
    """
    text = short(text, LONGEST)
    if decimal == ",":  # in files alone, and so in DuckDB
        text = nw.when(text.str.contains(_NUMBER_WITH_COMMA)).then(text)
        text = text.str.replace_all(_THOUSANDS, "").str.replace_all(",", ".", literal=True)
    is_number = text.str.contains(_NUMBER)
    if not (engine.is_duckdb() or engine.is_polars() or engine.is_pyarrow()):
        is_number = is_number & ~text.str.contains("[^0-9.eE+-]")
    return nw.when(is_number).then(text).otherwise(None).cast(nw.Float64)


def is_number(text: str) -> bool:
    """Whether a text is a number, as `number_in` tells."""
    return len(text) <= LONGEST and re.fullmatch(_NUMBER[:-1], text) is not None


def numbers_in_text(number: nw.Expr) -> Reading:
    """Numbers that were read from text."""
    return Reading(_is_there(number), lambda sign, literal: _stands(sign, number, float(literal)))


def truths_in_text(text: nw.Expr) -> Reading:
    """Text that says true or false."""

    def says(literal: bool) -> nw.Expr:
        spelt = [(text == each).fill_null(False) for each in _TRUTHS[literal]]
        return joined(operator.or_, spelt)

    return Reading(says(True) | says(False), lambda _, literal: says(literal))


def truth_in(text: str) -> bool | None:
    """Whether a text says true or false; None if it says neither."""
    return next((truth for truth, spelt in _TRUTHS.items() if text in spelt), None)


_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_REAL_DAY = (
    "^(?:[0-9]{4}(?:(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP}0229)$"
)
"""The eight digits of a day of the calendar; also of the year 0, which is no year."""


def day_in(text: nw.Expr, form: str) -> nw.Expr:
    """The day that a text states in a form, as the number 20240131; NULL where it states none.

    Text is cut into its digits, and a pattern knows which days there are. So no engine reads a
    date, which some would refuse and some would take for the next day that there is.
    """
    text = nw.when(text.str.len_chars() == len(form)).then(text)
    digits = nw.concat_str(text.str.slice(first, last - first) for first, last in _cuts(form))
    is_day = text.str.contains(_form_pattern(form)) & digits.str.contains(_REAL_DAY)
    return nw.when(is_day & (digits >= "0001")).then(digits).otherwise(None).cast(nw.Int64)


def day_of(text: str, form: str) -> int | None:
    """The same for one text."""
    digits = "".join(text[first:last] for first, last in _cuts(form))
    is_day = re.fullmatch(_form_pattern(form)[:-1], text) and re.fullmatch(_REAL_DAY[:-1], digits)
    return int(digits) if is_day and digits >= "0001" else None


def _cuts(form: str) -> list[tuple[int, int]]:
    """Where year, month and day stand in text of a form."""
    return [(form.index(part), form.index(part) + len(part)) for part in ("YYYY", "MM", "DD")]


def _form_pattern(form: str) -> str:
    parts = parts_of_form(form)
    each = (f"[0-9]{{{len(part)}}}" if len(part) > 1 else re.escape(part) for part in parts)
    return f"^{''.join(each)}$"


def read_moment(text: str) -> datetime | None:
    """The date or time that a literal is; with a zone if it states one; None if it is neither."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def since_1970(literal: str) -> int:
    """The microseconds to a date or time; in UTC unless it says another zone."""
    moment = datetime.fromisoformat(literal)
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(microseconds=1)


def is_date_out_of_order(text: str) -> bool:
    """Whether a literal looks like a date in a form in which text does not sort by time.

    >>> [is_date_out_of_order(each) for each in ("31.01.2024", "Jan 5, 2024", "2024-01-31", "fig")]
    [True, True, False, False]
    """
    return _IN_ORDER.fullmatch(text) is None and _DATE.fullmatch(text.strip()) is not None


def moments(value: nw.Expr, kind: DType, *, in_sql: bool) -> Reading:
    """Dates and times, exactly."""
    unit = UNITS[kind.time_unit if isinstance(kind, nw.Datetime) else "day"]
    zone = UTC if isinstance(kind, nw.Datetime) and kind.time_zone else None
    limit = (1 << 63) - 1 if unit < 1 else 1 << 64
    epoch = datetime(1970, 1, 1, tzinfo=zone)

    def test(sign: str, literal: str) -> nw.Expr | bool:
        found = _settled(sign, since_1970(literal) / unit, -limit, limit)
        if isinstance(found, bool):
            return found
        edge = epoch + timedelta(microseconds=int(found[1] * unit))
        return _stands(found[0], value, _moment(edge, kind, in_sql=in_sql))

    return Reading(_is_there(value), test)


def _moment(edge: datetime, kind: DType, *, in_sql: bool) -> nw.Expr:
    """A moment as a value of a column's own type."""
    stated: date = edge if isinstance(kind, nw.Datetime) else edge.date()
    if not in_sql:
        return nw.lit(stated, kind)
    # Spark would take what Python calls a time for one of its driver's time zone.
    is_day = not isinstance(stated, datetime)
    return nw.lit(str(stated) if is_day else edge.isoformat(" ", "microseconds")).cast(kind)


def _settled(sign: str, literal: Fraction, low: int, high: int) -> tuple[str, int] | bool:
    """The same comparison with a whole number from `low` to `high`; or its one outcome."""
    whole = math.floor(literal)
    if whole != literal:
        if sign == "=":
            return False
        sign = "<=" if sign in ("<", "<=") else ">"
    if whole < low:
        return sign in (">", ">=")
    if whole > high:
        return sign in ("<", "<=")
    return sign, whole


# --------------------------------------------------------------------------------------------------
# The bounded query: what each unit adds to each item, cut to what one unit may add.
#
# Rows go one way: those of public items and groups stay; amounts become whole steps; rows of one
# unit, group and item are added up; a unit keeps a few of its groups, then a few of its items; what
# it adds to each is clipped; and units are added up.
#
# What a unit keeps is decided by a secret order of its own groups and items. It depends on a fresh
# key and on that unit's rows alone, so no unit moves what another one keeps. Privacy needs no more
# than that of the order. The key is secret and fresh so that no item is favoured.
#
# An amount is a number or nothing. NULL, NaN, infinity and text that is no number, as filters read
# it, are no amount, and a row without an amount is left out from the start. Each row is rounded by
# itself: floats that are added up would depend on the order of rows, and so on other units. Sums
# are of whole numbers that cannot overflow, as rows and totals lie within public bounds.


MOST_OF_A_ROW = 1 << 53
"""No row has more steps than this, whatever its amount."""

MOST_OF_ALL = 1 << 55
"""No total has more steps than this, so that it fits on the grids of all measurements."""

_NOTHING = 1e-100
"""Amounts below this are 0."""


def steps_of(rows: Lazy, kind: DType, question: Question) -> Lazy:
    """The rows that have an amount, which becomes whole `steps`: ⌊amount/step + ½⌋."""
    amount, others = nw.col("amount"), [name for name in rows.collect_schema() if name != "amount"]
    number = _as_float(kind, rows.implementation, question.decimal)
    floats = rows.with_columns(number.alias("amount"))
    amounts = floats.filter(is_finite(amount))
    width, finer = float(question.step.numerator), float(question.step.denominator)
    most = MOST_OF_A_ROW * width / finer
    scaled = amount.clip(-most, most) * finer
    if width != 1:  # some engines refuse to divide the smallest floats
        is_nothing = amount.is_between(-_NOTHING, _NOTHING)
        scaled = nw.when(is_nothing).then(nw.lit(0.0)).otherwise(scaled) / width
    return amounts.select(*others, (scaled + 0.5).floor().cast(nw.Int64).alias("steps"))


def _as_float(kind: DType, engine: nw.Implementation, decimal: str) -> nw.Expr:
    """Amounts as floats; NULL where text is no number."""
    amount = nw.col("amount")
    if kind.is_integer() or kind.is_float():
        return amount.cast(nw.Float64)
    text = amount.cast(nw.String)
    if kind.is_numeric():  # decimals, maybe of any length: the first digits say enough
        text = text.str.slice(0, LONGEST)
        decimal = "."
    return number_in(text, engine, decimal)


def add_up(engine: Engine, rows: Lazy, question: Question, size: int | None) -> Lazy:
    """What all units add to each item of each group: a frame of `item`, `units` and maybe `group`.

    `size` is how many public items there are, where that is known here. Bounds that no unit can
    reach are not enforced.
    """
    names = list(rows.collect_schema())
    cells: list[str] = [name for name in ("group", "item") if name in names]
    added: dict[str, Any] = {"rows": nw.len()}
    if question.sum is not None:
        rows, added = engine.widen(rows, "steps"), {"steps": nw.col("steps").sum()}
    if "unit" in names:
        own = rows.group_by("unit", *cells).agg(*_named(added))
        rows = _keep_few(engine, own, cells, question, size)
    if question.sum is None:
        return rows.group_by(*cells).agg(nw.len().alias("units"))
    clipped = rows.with_columns(nw.col("steps").clip(question.floor, question.cap))
    totals = clipped.group_by(*cells).agg(nw.col("steps").sum())
    units = nw.col("steps").clip(-MOST_OF_ALL, MOST_OF_ALL).cast(nw.Int64).alias("units")
    return totals.select(*cells, units)


def _named(expressions: dict[str, Any]) -> list[Any]:
    return [expression.alias(name) for name, expression in expressions.items()]


def _keep_few(
    engine: Engine, own: Lazy, cells: list[str], question: Question, size: int | None
) -> Lazy:
    """A few groups of each unit, and then a few of its items."""
    key, groups = secure_bits().token(), question.groups or 1
    if question.groups_of_a_unit < question.groups:
        own = engine.keep_few(own, ["group"], question.groups_of_a_unit, key)
    if question.max_items is None or (size is not None and question.max_items >= groups * size):
        return own
    return engine.keep_few(own, cells, question.max_items, key)


# --------------------------------------------------------------------------------------------------
# Which rows and counts are of public items and groups, if the types of both go together.
#
# Refusals look at types alone, never at a row.


TWO_TABLES = f"{UNREADABLE} (where domain is a table too, it must be of the same connection)"


def narrow_counts(engine: Engine, counted: Lazy, domain: Stated) -> Callable[[], Lazy]:
    """The query for the counts of a domain's items, 0 for absent ones, if their types go together.

    Absent items of a range have no row.
    """
    kind = quietly(lambda: counted.collect_schema()["item"], UNREADABLE)
    if domain is None:
        return partial(counted.select, "item", "units")
    if isinstance(domain, nw.LazyFrame):
        return partial(keep_items, *_known(engine, domain, kind), counted, kind)
    if isinstance(domain.labels, range):
        _require_range(domain.labels, kind)
        return partial(keep_range, counted, kind, domain.labels)
    _require_list(domain, kind)
    return partial(_keep_list, engine, domain, counted, kind)


def narrow_rows(engine: Engine, rows: Lazy, domain: Stated) -> Callable[[], Lazy]:
    """The query for the rows of a domain's items; those of a list are called by their position."""
    kind = quietly(lambda: rows.collect_schema()["item"], UNREADABLE)
    if domain is None:
        return lambda: rows
    if isinstance(domain, nw.LazyFrame):
        return partial(keep_known, *_known(engine, domain, kind), rows, kind)
    if isinstance(domain.labels, range):
        _require_range(domain.labels, kind)
        return partial(keep_range, rows, kind, domain.labels)
    _require_list(domain, kind)
    return lambda: keep_listed(rows, "item", kind, _listed(engine, domain, kind))


def narrow_groups(engine: Engine, rows: Lazy, groups: Domain | None) -> Callable[[Lazy], Lazy]:
    """How rows are narrowed to those of public groups, which are called by their position."""
    if groups is None:
        return lambda narrowed: narrowed
    kind = quietly(lambda: rows.collect_schema()["group"], UNREADABLE)
    _require_list(groups, kind, "groups", "group")
    return lambda narrowed: keep_listed(narrowed, "group", kind, _listed(engine, groups, kind))


def _known(engine: Engine, domain: Lazy, kind: DType) -> tuple[Lazy, DType]:
    """The items of a table in the engine, and their type."""
    own = quietly(lambda: domain.collect_schema()["item"], TWO_TABLES)
    _require_column(own, kind)
    require_exact_text(engine, domain, "domain")
    return engine.plain(domain), own


def _listed(engine: Engine, domain: Domain, kind: DType) -> Lazy:
    """Listed items with their positions: as numbers where the column has such, else as texts."""
    if not kind.is_integer():
        return engine.list_items([_in_utf_8(text) for text in domain.texts])
    numbers = [whole(label) for label in domain.labels]
    return engine.list_items([number if _fits(number) else None for number in numbers])


def _fits(number: int | None) -> bool:
    return number is not None and abs(number) < 1 << 63


def require_exact_text(engine: Engine, column: Lazy, name: str) -> None:
    """Refuse a column whose collation takes different texts for equal.

    Which of them an item is called would then hang on whose row comes first.
    """
    kind = quietly(lambda: column.collect_schema()["item"], UNREADABLE)
    if kind == nw.String and quietly(lambda: engine.merges(column), TWO_TABLES):
        raise ValueError(
            f"{name} must tell different texts apart, and its collation does not: cast it to text "
            'that is compared by its bytes (COLLATE "C"; in Spark COLLATE UTF8_BINARY)'
        )


def _require_range(labels: range, kind: DType) -> None:
    if kind == nw.Boolean:
        raise ValueError("domain must be a list for an item column of true and false")
    if kind == nw.String and max(abs(labels[0]), abs(labels[-1])) >= 10**18:
        raise ValueError("domain must lie within ±10^18 where the item column is text")


def _require_list(domain: Domain, kind: DType, name: str = "domain", role: str = "item") -> None:
    if kind.is_numeric():
        domain.require_numbers(name, role)
    if kind == nw.Boolean and not {"true", "false"} & {*domain.texts}:
        raise ValueError(f"{name} must hold true and false, like the {role} column")
    if kind.is_float() and any("." in text for text in domain.texts):
        raise ValueError(f"{name} must be whole numbers: cast the {role} column to text for others")


def _require_column(own: DType, kind: DType) -> None:
    if kind.is_float() and own == nw.String:
        raise ValueError("domain must be whole numbers: cast the item column to text for others")
    if not (own == nw.String or own.is_integer() or own == kind == nw.Boolean) or (
        kind == nw.Boolean and own.is_integer()
    ):
        raise ValueError("domain must be a column of text or whole numbers, like the item column")


def _keep_list(engine: Engine, domain: Domain, counted: Lazy, kind: DType) -> Lazy:
    """The counts of listed items, compared by their text; each is called by its position."""
    texts = [_in_utf_8(text) for text in domain.texts]
    known = engine.list_items(texts).rename({"item": "text", "position": "item"})
    return keep_texts(known, counted, kind)


def _in_utf_8(text: str) -> str | None:
    """Text that an engine can hold; other text can be no item of its tables."""
    return None if any("\ud800" <= letter <= "\udfff" for letter in text) else text
