"""How columns are compared with literals: for every kind of column one reading, on every engine.

A reading says what counts as a value (not NULL, NaN or text that cannot be read), and how values
compare with a literal. Where a literal lies between two values of a column, or beyond all of them,
the comparison is restated, so that an engine never has to convert a value to compare it. All of
this depends on the schema and the literal alone.
"""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dtypes import DType

from dpgap.data.query import is_finite, short

Test = Callable[[str, Any], "nw.Expr | bool"]
"""How values stand to a literal, for =, <, <=, > and >=; a bool where that is so for all values.

What is no value is NULL or false.
"""

_NUMBER = (
    "^[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)"
    "(?:[eE][+-]?(?:0?[0-9]?[0-9]|1[0-9][0-9]|2[0-3][0-9]))?$"
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
        if sign in ("!=", "not in"):
            return self.present & ~self.compare("in", literals)
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
    """The order of text for engines that compare it by its bytes, as most do."""
    return lambda sign, literal: _stands(sign, value, literal)


def number_in(text: nw.Expr, engine: nw.Implementation) -> nw.Expr:
    """The number that a text is, NULL where it is none; in a CASE, so that no cast can fail.

    The length is looked at first: no engine takes a text of any length for a pattern. To Java and
    Python "$" also stands before a last line break, which no cast would take.
    """
    text = short(text, LONGEST)
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
