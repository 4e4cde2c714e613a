"""The meaning of a filter: the rows that it keeps, the same on every engine.

Each row is judged by itself, and a comparison is true or false, never unknown:

- NULL and NaN match "is null" and no other comparison, not even != and "not in". And `not` matches
  if its clause does not match: `not x = 3` keeps rows without x.
- A text column that is compared with a number is read as numbers (floats of 64 bits). Text that is
  no number matches nothing. A text column that is compared with true or false is read as these.
- Text is compared with text by its code points, whatever the collation.
- Whole numbers and decimals are compared exactly; floats, with the float nearest to the literal.
- `day(column, 'DD.MM.YYYY')` reads days from text. Text in another form, and a day that the
  calendar does not have, is a missing value. Columns of dates need no `day`, and are refused in it.
- Dates and times are compared with text such as '2024-01-31' or '2024-01-31 12:00'. If a column
  has time zones, the literal is in UTC unless it states another zone: '2024-01-31 12:00+01:00'.

Only the filter and the schema decide whether there is an error. The types of pandas follow the
rows, so there each value is compared by its own type: numbers with numbers (quoted or not), short
floats as long ones, dates with dates, and text as in columns of text. There, `day` of a date or
time is its day, in UTC if it has a zone.
"""

import fnmatch
import glob
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dtypes import DType

from dpgap.budget.requests import ANY
from dpgap.data import query, values
from dpgap.data.engines.base import Engine, fresh_name
from dpgap.data.frames import Column
from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import TEXTS, Frame, database_of, guessed
from dpgap.exact.parameters import with_point
from dpgap.filter_language import (
    ORDERS,
    Clause,
    Comparison,
    Filter,
    Joined,
    Literal,
    comparisons_of,
    parts_of_form,
)


def keep(
    frame: Frame,
    filter: Filter,
    engine: Engine | None = None,
    decimal: str = ".",
    columns: Mapping[str, Column] | None = None,
) -> Frame:
    """The rows of a frame that a filter matches; a lazy frame stays lazy.

    `engine` says whether different texts count as different; None if they always do. `decimal` is
    the decimal mark of numbers in text. `columns` are those of an embedded frame by the names that
    the filter uses; left out, the frame has the columns itself.

    >>> import pandas
    >>> from dpgap.filter_language import read_filter
    >>> sold = nw.from_native(pandas.DataFrame({"what": ["fig", "pea", "oat"], "price": [3, 7, 9]}))
    >>> keep(sold, read_filter("price > 3 and not what = 'oat'"))["what"].to_list()
    ['pea']
    """
    if columns is None:
        schema = with_masked_errors(frame.collect_schema)
        columns = {name: Column(name, schema[name]) for name in filter.columns}
    families = require_comparable(frame, filter, columns)
    if engine is not None:
        for name in filter.columns:
            if families[name] == "text":
                column = frame.lazy().select(nw.col(columns[name].name).alias("item"))
                query.require_exact_text(engine, column, f"column {name!r}")
    return with_masked_errors(
        lambda: _Rows(frame, columns, families, decimal).matching(filter.clause)
    )


def require_comparable(
    frame: Frame, filter: Filter, columns: Mapping[str, Column]
) -> dict[str, str]:
    """Return the family of values of each column; refuse those that a filter cannot compare."""
    families = _families(frame, columns)
    for comparison in comparisons_of(filter.clause):
        problem = _why_not(comparison, families[comparison.column])
        if problem:
            raise filter.error_at(comparison, f"column {comparison.column!r} {problem}")
    return families


def _families(frame: Frame, columns: Mapping[str, Column]) -> dict[str, str]:
    """The kind of values in each column."""
    families = {name: _family(column.kind) for name, column in columns.items()}
    families |= dict.fromkeys(guessed(frame), ANY)
    if database_of(frame) == "duckdb":
        for name, column in columns.items():
            if column.kind == nw.Decimal(38, 0):
                families[name] = "huge"
    return families


def _family(kind: DType) -> str:
    if kind.is_numeric():
        return "number"
    if type(kind).__name__ in TEXTS:
        return "text"
    if isinstance(kind, nw.Datetime):
        return "zoned" if kind.time_zone else "date"
    return {nw.Boolean: "truth", nw.Date: "date"}.get(type(kind), "")


def _why_not(comparison: Comparison, family: str) -> str:
    """Why a column of this family cannot be compared so; empty if it can."""
    if not family:
        return "must hold numbers, text, true and false, dates, or times with their dates"
    if comparison.form is None and "like" not in comparison.sign:
        is_ordered = comparison.sign in ORDERS
        why = (_misfit(each, family, is_ordered=is_ordered) for each in comparison.literals)
        return next(filter(None, why), "")
    if family in ("date", "zoned") and comparison.form is not None:
        return "holds dates: leave out day(…), as in column >= '2024-01-31'"
    return "" if family in ("text", ANY) else "must be text for day(…) and like"


def _misfit(literal: Literal, family: str, *, is_ordered: bool) -> str:
    """Why a literal cannot be compared with a column; empty if it can."""
    number = str(literal) if query.is_number(str(literal)) else with_point(str(literal))
    if family in ("text", ANY):
        kind = "is text, which" if family == "text" else "as text"
        why = f"{kind} is ordered letter by letter"
        if not (is_ordered and isinstance(literal, str)) or re.match(_REAL_DAY, literal):
            return ""
        if _DATE.fullmatch(literal.strip()):
            return (
                f"{why}: only dates such as '2024-01-31' sort by time. If the column has dates in "
                "another form, say which: day(column, 'DD.MM.YYYY') >= '2024-01-31'"
            )
        mend = f"write {number} without quotes, or a whole date such as '2024-01-31'"
        return number and f"{why}, so that '10' comes before '9': {mend}"
    if family in ("number", "huge") and not isinstance(literal, Decimal):
        return f"holds numbers: write {number or 'a number'} without quotes"
    if family == "huge" and abs(Decimal(literal)) >= 1 << 63:
        return "may be a HUGEINT, which Ibis cannot compare with so large a number: use less"
    if family == "truth" and not isinstance(literal, bool):
        return "holds true and false: write one of them, without quotes"
    if family in ("date", "zoned"):
        moment = moment_in(literal)
        if moment is None:
            return "holds dates: write '2024-01-31' or '2024-01-31 12:00', with quotes"
        if moment[0] and family == "date":
            return "knows no time zones: write a date or time without one"
    return ""


class _Rows:
    """A frame with further columns: those that filters need in another form."""

    def __init__(
        self,
        frame: Frame,
        columns: Mapping[str, Column],
        families: dict[str, str],
        decimal: str,
    ) -> None:
        self._frame = frame
        self._columns = columns
        self._families = families
        self._decimal = decimal
        self._schema = frame.collect_schema()
        self._kind = frame.implementation
        self._native: dict[str, Any] = {}
        self._numbers: dict[str, nw.Expr] = {}
        self._readings: dict[tuple[str, Any], Reading] = {}

    def matching(self, clause: Clause) -> Frame:
        """The rows that a clause matches."""
        mask = self._mask(clause)
        frame: Any = self._frame
        if self._native and self._kind.is_ibis():
            frame = nw.from_native(frame.to_native().mutate(**self._native))
        elif self._native:
            import pandas  # type: ignore[import-untyped]

            own = pandas.DataFrame(self._native)  # all at once, which is fast for hundreds
            frame = nw.from_native(pandas.concat([frame.to_native(), own], axis=1))
        if self._numbers:
            frame = frame.with_columns(**self._numbers)
        kept: Frame = frame.filter(mask)
        added = [*self._native, *self._numbers]
        return kept.drop(added) if added else kept

    def _add(self, columns: dict[str, Any], column: Any) -> nw.Expr:
        """Add a column to those of the frame."""
        name = fresh_name()
        columns[name] = column
        return nw.col(name)

    def _mask(self, clause: Clause) -> nw.Expr:
        """An expression: whether a clause matches; true or false, never NULL."""
        if isinstance(clause, Joined):
            masks = [self._mask(part) for part in clause.parts]
            if clause.word == "not":
                return ~masks[0]
            return joined(operator.and_ if clause.word == "and" else operator.or_, masks)
        literals = clause.literals
        how: Any = type(literals[0]) if literals else None
        if clause.form is not None:  # days are compared as numbers such as 20240131
            how = clause.form
            literals = tuple(Decimal(str(each).replace("-", "")) for each in literals)
        elif "like" in clause.sign:
            how = "like"
        key = clause.column, how
        if key not in self._readings:
            self._readings[key] = self._reading(*key)
        return self._readings[key].compare(clause.sign, literals)

    def _reading(self, name: str, literal: Any) -> "Reading":
        """The reading of a column for a type of literals (None for "is null"), or for "like".

        For days, `literal` is the form of their dates.
        """
        family = self._families[name]
        column_name, table_kind = self._columns[name]
        column = nw.col(column_name)
        kind: Any = self._schema[column_name]
        if self._kind.is_pandas_like() and (isinstance(literal, str) or family == ANY):
            return self._reading_of_pandas(name, literal)
        if family == "text":
            return self._reading_of_text(column_name, literal)
        if family == "truth":
            return _of_each(~column.is_null(), partial(_stands, column))
        if family == "huge":  # Ibis takes a HUGEINT for a decimal, which cannot hold all of them
            return whole_numbers(column, nw.Int64())
        if family == "number":
            if kind.is_float():
                return floats(column, kind)
            if kind.is_integer():
                return whole_numbers(column, kind)
            is_ibis = self._kind.is_ibis()
            is_any = is_ibis and self._frame.to_native().schema()[column_name].precision is None
            return decimals(column, None if is_any else kind, in_ibis=is_ibis)
        if kind.is_integer():  # an embedded frame has whole numbers for its times
            return moments(column, table_kind, int)
        in_sql = isinstance(self._frame, nw.LazyFrame)
        return moments(column, kind, partial(_moment, kind, in_sql))

    def _reading_of_pandas(self, name: str, literal: Any) -> "Reading":
        """The reading of a column whose type follows its rows: each value is read by itself."""
        column = self._frame.to_native()[name]
        kind = self._schema[name]
        family = _family(kind)
        is_by_type = isinstance(literal, type)
        if is_by_type and kind == nw.String and str(column.dtype) != "object":
            return self._reading_of_text(name, literal)
        if literal is str and family in ("date", "zoned"):
            ticks = self._add(self._native, values.since_1970(column))
            return moments(ticks, kind, int)
        if literal is Decimal and values.is_number(column.dtype):
            return numbers(nw.col(name), kind)
        judge = values.judging(column, partial(_key, literal))

        def judged(test: Callable[[Any], bool]) -> nw.Expr:
            return self._add(self._native, judge(test))

        def test(sign: str, literals: Iterable[Literal]) -> nw.Expr:
            tests = [_test(sign, each) for each in literals]
            return judged(lambda key: any(passes(key) for passes in tests))

        return Reading(judged(lambda key: key is not None), test)

    def _reading_of_text(self, name: str, literal: Any) -> "Reading":
        text = nw.col(name)
        if database_of(self._frame) == "postgres":  # without the padding of text of a fixed width
            text = text + ""
        elif self._kind.is_duckdb() or self._schema[name] != nw.String:  # in DuckDB it may be JSON
            text = text.cast(nw.String)
        if literal is bool:
            return truths_in_text(text)
        if literal in (str, None, "like"):
            return _of_each(~text.is_null(), partial(self._compare_text, name, text))
        if literal is Decimal:
            number = query.number_in(text, self._kind, self._decimal)
            return floats(self._add(self._numbers, number), nw.Float64())
        day = self._add(self._numbers, day_in(text, literal))
        return whole_numbers(day, nw.Int64())

    def _compare_text(self, name: str, text: nw.Expr, sign: str, literal: str) -> nw.Expr:
        """Compare text with a literal by its bytes, as most engines do; or by "like"."""
        if sign != "=" and database_of(self._frame) == "postgres":
            from dpgap.data.engines.ibis import convert_to

            column = self._frame.to_native()[name] + ""
            if sign == "like":
                return self._add(self._native, column.like(literal))
            compared = COMPARE[sign](convert_to(column, "UTF8"), convert_to(literal, "UTF8"))
            return self._add(self._native, compared)
        if sign == "like":
            return text.str.contains(f"^{like_pattern(literal)}\\z")
        return _stands(text, sign, literal)


def _key(literal: Any, value: Any) -> Any:
    """The key by which a value is compared with a literal of this type; None if it cannot be.

    For a literal of text the key is a number, a text, or a pair for a time: whether it has a zone,
    and its moment.
    """
    text = values.form_of(value)
    number = values.number_of(value)
    if literal is None:
        return text
    if isinstance(literal, str):
        if literal != "like" and (moment := values.moment_of(value)):  # of times, the day in UTC
            day = moment[1] // values.NANOSECONDS["D"]
            day = max(-(10**7), min(day, 10**7))  # NumPy fails on days beyond 64 bits
            return int("".join(str(np.datetime64(day, "D")).rsplit("-", 2)))
        text = text if isinstance(value, str) else None
        return text if literal == "like" or text is None else day_of(text, literal)
    if literal is bool:
        return next((truth for truth, spelt in _TRUTHS.items() if text in spelt), None)
    if isinstance(value, str) and literal is Decimal:
        return float(value) if query.is_number(value) else None
    if not math.isnan(number):
        return int(value) if isinstance(value, int | np.integer) else number
    return values.moment_of(value) or text if literal is str else None


def _test(sign: str, literal: Literal) -> Callable[[Any], bool]:
    """A function that compares the key of a value with a literal; it is false for the key None.

    All work that concerns only the literal is done here, once. So the functions that run do not
    depend on the values.
    """
    if sign == "like":
        pattern = _like_in_python(str(literal))
        return lambda key: key is not None and pattern.match(key) is not None
    compare = COMPARE[sign]
    moment = moment_in(literal)
    is_text = isinstance(literal, str) and not query.is_number(literal)
    number = None if is_text or isinstance(literal, bool) else Decimal(literal)
    edges = (None, None) if number is None else (float(number), _edge(number))

    def passes(key: Any) -> bool:
        edge: Any = literal
        if isinstance(key, tuple):
            is_zoned, key = key
            edge = None if moment is None or moment[0] > is_zoned else moment[1]
        elif isinstance(key, int | float) and not isinstance(literal, bool):
            edge = edges[isinstance(key, int)]
        return key is not None and edge is not None and bool(compare(key, edge))

    return passes


# --------------------------------------------------------------------------------------------------
# How columns are compared with literals: one reading for every kind of column, on every engine.
#
# A reading says what counts as a value (not NULL, NaN or text that cannot be read), and how values
# compare with a literal. If a literal is between two possible values of a column, or beyond all of
# them, the comparison is replaced by an equal one. So an engine never has to convert a value.
# All of this depends only on the schema and the literal.


_TRUTHS = {True: ("true", "True", "TRUE"), False: ("false", "False", "FALSE")}
_MOMENT = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
    "(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?"
    "|oct(ober)?|nov(ember)?|dec(ember)?)[.]?"
)
_DAY = "[0-9]{1,2}(st|nd|rd|th|[.])?"
_YEAR = "(1[89]|2[01])[0-9]{2}"
_PART = "[0-9]{1,2}"
_SIGNS = "[^0-9a-z:]{1,3}"
_DATE = re.compile(
    "(?![0-9]{4}-(0[0-9]|1[0-2])-[0-9]{2}([ T]|$))"  # these sort by time
    "([a-z]{3,9}[.,] ?)?("
    f"{_PART}{_SIGNS}{_PART}{_SIGNS}{_YEAR}|{_PART}{_SIGNS}{_YEAR}{_SIGNS}{_PART}"
    f"|{_YEAR}{_SIGNS}{_PART}{_SIGNS}{_PART}|{_PART}[./-]{_PART}[./-][0-9]{{2}}|{_PART}/{_YEAR}"
    f"|{_DAY}[ /-]?{_MONTH}([ /-]?[0-9]{{2,4}})?|{_MONTH}[ /-]?({_DAY}|({_DAY},? ?)?[0-9]{{4}})"
    ")([ T,].*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Text that looks like a date, in a form that does not sort by time."""
_EXACT = Context(prec=400)
COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NEGATED = {"!=": "=", "not in": "in", "not like": "like"}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column is compared with literals of one type."""

    present: nw.Expr
    """An expression: whether there is a value; true or false, never NULL."""
    test: Callable[[str, tuple[Any, ...]], nw.Expr]
    """Makes an expression: whether a value is =, <, <=, >, >= or "like" one of the literals.

    For a missing value it is NULL or false.
    """

    def compare(self, sign: str, literals: tuple[Any, ...]) -> nw.Expr:
        """Whether a comparison matches; true or false, never NULL."""
        if not literals:
            return self.present if sign == "is not null" else ~self.present
        if sign in NEGATED:
            return self.present & ~self.compare(NEGATED[sign], literals)
        return self.test("=" if sign == "in" else sign, literals).fill_null(False)


def _of_each(present: nw.Expr, test: Callable[[str, Any], nw.Expr | bool]) -> Reading:
    """A reading from a test of one literal; the test may be a bool that holds for all values."""

    def settled(sign: str, literal: Any) -> nw.Expr:
        found = test(sign, literal)
        if isinstance(found, bool):
            return present if found else present & ~present
        return found

    return Reading(
        present,
        lambda sign, each: joined(operator.or_, [settled(sign, literal) for literal in each]),
    )


def joined(join: Callable[[nw.Expr, nw.Expr], nw.Expr], parts: list[nw.Expr]) -> nw.Expr:
    """Many expressions joined as a balanced tree: engines cannot nest hundreds deep."""
    if len(parts) <= 2:
        return reduce(join, parts)
    half = len(parts) // 2
    return join(joined(join, parts[:half]), joined(join, parts[half:]))


def _stands(value: nw.Expr, sign: str, edge: Any) -> nw.Expr:
    compared: nw.Expr = COMPARE[sign](value, edge)
    return compared


def whole_numbers(value: nw.Expr, kind: DType) -> Reading:
    """Whole numbers, exactly."""
    bits = int(re.sub("[^0-9]", "", type(kind).__name__))
    signed = not kind.is_unsigned_integer()
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def compare(sign: str, whole: int) -> nw.Expr:
        is_usual = -(1 << 63) <= whole < 1 << 63
        edge = nw.lit(whole, kind) if is_usual else nw.lit(str(whole)).cast(kind)
        return _stands(value, sign, edge)

    def test(sign: str, literal: Decimal) -> nw.Expr | bool:
        return _settled(sign, Fraction(literal), low, high, compare)

    return _of_each(~value.is_null(), test)


def decimals(value: nw.Expr, kind: nw.Decimal | None, *, in_ibis: bool) -> Reading:
    """Decimal numbers, exactly; `kind` is None for those of any length, as in PostgreSQL."""
    present = ~value.is_null()
    if in_ibis:  # PostgreSQL has decimals that are not numbers
        present = present & (value.cast(nw.String) != "NaN").fill_null(False)
    if kind is None:
        return _of_each(present, lambda sign, literal: present & _stands(value, sign, literal))
    scale = kind.scale
    largest = 10**kind.precision - 1

    def compare(sign: str, whole: int) -> nw.Expr:
        edge = Decimal(whole).scaleb(-scale, _EXACT)
        # Ibis would take a decimal for one of three digits, in some databases.
        stated = nw.lit(format(edge, "f")).cast(kind) if in_ibis else edge
        return present & _stands(value, sign, stated)

    def test(sign: str, literal: Decimal) -> nw.Expr | bool:
        return _settled(sign, Fraction(literal) * 10**scale, -largest, largest, compare)

    return _of_each(present, test)


def floats(column: nw.Expr, kind: DType) -> Reading:
    """Floats, compared with the float of their precision that is nearest to the literal."""
    value = column.cast(nw.Float64)
    number = query.is_not_nan(value).fill_null(False)

    def test(sign: str, literal: Decimal) -> nw.Expr:
        nearest = float(literal)
        if kind == nw.Float32 and abs(nearest) <= float(np.finfo(np.float32).max):
            nearest = float(np.float32(nearest))
        return number & _stands(value, sign, nearest)

    return _of_each(number, test)


def numbers(column: nw.Expr, kind: DType) -> Reading:
    """Numbers that may be floats only because a row has none; they are compared with `_edge`.

    So a column of whole numbers up to 2^53 is compared as the same numbers in floats.
    """
    if kind.is_float():  # short ones too: a longer number makes all of them long
        return floats(column, nw.Float64())
    exact = whole_numbers(column, kind)
    return _of_each(exact.present, lambda sign, literal: exact.test(sign, (_edge(literal),)))


def _edge(literal: Decimal) -> int | float:
    """The number to compare with: a whole literal itself, or the float nearest to another."""
    return int(literal) if literal == literal.to_integral_value() else float(literal)


def like_pattern(literal: str) -> str:
    r"""What "like" looks for, as a regular expression: % is any text, _ one character.

    >>> like_pattern("a.%"), like_pattern("50\\%")
    ('(?s:a\\..*)', '(?s:50%)')
    """
    parts = re.findall(r"\\?.", literal, re.DOTALL)
    return f"(?s:{''.join(_WILD.get(part) or re.escape(part[-1]) for part in parts)})"


def _like_in_python(literal: str) -> re.Pattern[str]:
    """The pattern of "like" for Python's `re`, without backtracking over several %.

    With backtracking, the time could grow without bound with the text. `fnmatch` prevents this.
    """
    wild = {"%": "*", "_": "?"}
    parts = re.findall(r"\\?.", literal, re.DOTALL)
    each = (wild.get(part) or glob.escape(part[-1]) for part in parts)
    return re.compile(fnmatch.translate("".join(each)))


_WILD = {"%": ".*", "_": "."}


def truths_in_text(text: nw.Expr) -> Reading:
    """The reading of text as true or false."""

    def says(literal: bool) -> nw.Expr:
        spelt = [(text == each).fill_null(False) for each in _TRUTHS[literal]]
        return joined(operator.or_, spelt)

    return _of_each(says(True) | says(False), lambda _, literal: says(literal))


_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_REAL_DAY = (
    "^(?:[0-9]{4}(?:(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP}0229)$"
)
"""The eight digits of a day of the calendar; also of the year 0, which is no year."""


def day_in(text: nw.Expr, form: str) -> nw.Expr:
    """The day that a text states in a form, as the number 20240131; NULL if it states none.

    The digits are cut out of the text, and a pattern checks the calendar. So no engine reads a
    date: for 30 February, some would raise an error and some would take the next day.
    """
    text = nw.when(text.str.len_chars() == len(form)).then(text)
    digits = nw.concat_str(text.str.slice(first, last - first) for first, last in _cuts(form))
    is_day = text.str.contains(_form_pattern(form)) & digits.str.contains(_REAL_DAY)
    return nw.when(is_day & (digits >= "0001")).then(digits).otherwise(None).cast(nw.Int64)


def day_of(text: str, form: str) -> int | None:
    """The day that one text states in a form, as a number; None if it states none."""
    digits = "".join(text[first:last] for first, last in _cuts(form))
    is_day = re.fullmatch(_form_pattern(form)[:-1], text) and re.fullmatch(_REAL_DAY[:-1], digits)
    return int(digits) if is_day and digits >= "0001" else None


def _cuts(form: str) -> list[tuple[int, int]]:
    """The positions of year, month and day in text of a form."""
    return [(form.index(part), form.index(part) + len(part)) for part in ("YYYY", "MM", "DD")]


def _form_pattern(form: str) -> str:
    parts = parts_of_form(form)
    each = (f"[0-9]{{{len(part)}}}" if len(part) > 1 else re.escape(part) for part in parts)
    return f"^{''.join(each)}$"


def moment_in(literal: object) -> tuple[bool, int] | None:
    """The date or time that a literal is, as `moment_of` returns it; None if it is neither."""
    with suppress(ValueError):
        if isinstance(literal, str) and _MOMENT.fullmatch(literal):
            return values.moment_of(datetime.fromisoformat(literal))
    return None


def moments(value: nw.Expr, kind: Any, edge: Callable[[int], Any]) -> Reading:
    """Dates and times, exactly; `edge(n)` is the value n units of the column after 1970.

    A literal with a zone matches no time without one.
    """
    is_time = isinstance(kind, nw.Datetime)
    largest = (1 << 63) - 1
    unit = values.NANOSECONDS[kind.time_unit if is_time else "D"]

    def compare(sign: str, whole: int) -> nw.Expr:
        return _stands(value, sign, edge(whole))

    def test(sign: str, literal: str) -> nw.Expr | bool:
        moment = moment_in(literal)
        if moment is None or moment[0] > (is_time and kind.time_zone is not None):
            return False
        return _settled(sign, Fraction(moment[1], unit), -largest, largest, compare)

    return _of_each(~value.is_null(), test)


def _moment(kind: Any, in_sql: bool, whole: int) -> nw.Expr:
    """A date or time of a type, `whole` units after 1970."""
    if not isinstance(kind, nw.Datetime):
        day = date(1970, 1, 1) + timedelta(whole)
        return nw.lit(str(day)).cast(kind) if in_sql else nw.lit(day, kind)
    passed = timedelta(microseconds=whole * values.NANOSECONDS[kind.time_unit] // 1000)
    time = datetime(1970, 1, 1, tzinfo=UTC if kind.time_zone else None) + passed
    # Spark would read a Python time as a time in the zone of the driver.
    text = time.isoformat(" ", "microseconds")
    return nw.lit(text).cast(kind) if in_sql else nw.lit(time, kind)


def _settled(
    sign: str, literal: Fraction, low: int, high: int, compare: Callable[[str, int], nw.Expr]
) -> nw.Expr | bool:
    """An equal comparison with a whole number from `low` to `high`; or a bool, if it is fixed."""
    whole = math.floor(literal)
    if whole != literal:
        if sign == "=":
            return False
        sign = "<=" if sign in ("<", "<=") else ">"
    if whole < low:
        return sign in (">", ">=")
    if whole > high:
        return sign in ("<", "<=")
    return compare(sign, whole)
