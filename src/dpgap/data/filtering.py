"""What a filter means: the rows that it keeps, the same on every engine.

Every row is looked at by itself, and a comparison is true or false, never unknown:

- NULL and NaN match "is null" and no other comparison, not even != and "not in". And `not` matches
  wherever its part does not: `not x = 3` keeps rows without x.
- A text column that is compared with a number is read as one (a float of 64 bits). Text that is no
  number matches nothing. Compared with true or false, text is read as one of them.
- Text is compared with text by its code points, whatever the collation.
- Whole numbers and decimals are compared exactly; floats, with the float nearest to the literal.
- `day(column, 'DD.MM.YYYY')` reads days from text. Text in another form, and a day that the
  calendar does not have, is no value.
- Dates and times are compared with text such as '2024-01-31' or '2024-01-31 12:00'. Where a column
  knows time zones, the literal is in UTC unless it says another: '2024-01-31 12:00+01:00'.

Whether there is an error depends on the filter and the schema alone. The types of pandas follow the
rows, so there each value is compared by itself, as what it is: numbers with numbers, quoted or not,
short floats as long ones, dates with dates, and text as in columns of text.
"""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals.dtypes import DType

from dpgap.budget.requests import ANY
from dpgap.data import query
from dpgap.data.engines.base import Engine
from dpgap.data.private_counts import UNREADABLE, quietly
from dpgap.data.query import Reading, require_exact_text
from dpgap.data.sources import Frame, guessed, no_column
from dpgap.data.values import form_of, is_number, judging, moment_of, number_of, since_1970
from dpgap.question import (
    ORDERS,
    Clause,
    Filter,
    Joined,
    Literal,
    Negation,
    comparisons_of,
)

_TEXTS = ("String", "Categorical", "Enum")
_VIEWS = {"string_view": "large_string", "binary_view": "large_binary"}


def keep(frame: Frame, filter: Filter, engine: Engine | None = None, decimal: str = ".") -> Frame:
    """The rows of a frame that a filter matches; a lazy frame stays lazy.

    `engine` says whether texts that differ are told apart; None where they always are. `decimal` is
    the decimal mark of numbers in text.

    >>> import pandas
    >>> from dpgap.question import read_filter
    >>> sold = nw.from_native(pandas.DataFrame({"what": ["fig", "pea", "oat"], "price": [3, 7, 9]}))
    >>> keep(sold, read_filter("price > 3 and not what = 'oat'"))["what"].to_list()
    ['pea']
    """
    families = _families(frame, filter)
    for comparison in comparisons_of(filter.clause):
        name, is_ordered = comparison.column, comparison.sign in ORDERS
        is_of_text = comparison.form is not None or "like" in comparison.sign
        if is_of_text and families[name] not in ("text", ANY):
            raise filter.error_at(comparison, f"column {name!r} must be text for day(…) and like")
        for literal in () if is_of_text else comparison.literals:
            if problem := _misfit(literal, families[name], is_ordered=is_ordered):
                raise filter.error_at(comparison, f"column {name!r} {problem}")
    if engine is not None:
        for name in filter.columns:
            if families[name] == "text":
                column = frame.lazy().select(nw.col(name).alias("item"))
                require_exact_text(engine, column, f"column {name!r}")
    return quietly(
        lambda: _Rows(_without_views(frame), families, decimal).matching(filter.clause), UNREADABLE
    )


def _without_views(frame: Frame) -> Frame:
    """The same rows, without the types of Arrow that it cannot filter."""
    if not frame.implementation.is_pyarrow():
        return frame
    table: Any = frame.to_native()
    for at, column in enumerate(table.schema):
        if str(column.type) in _VIEWS:
            table = table.set_column(at, column.name, table[at].cast(_VIEWS[str(column.type)]))
    plain: Frame = nw.from_native(table)
    return plain


def _families(frame: Frame, filter: Filter) -> dict[str, str]:
    """Which kind of values the columns of a filter hold."""
    schema = quietly(frame.collect_schema, UNREADABLE)
    untold, families = guessed(frame), {}
    for comparison in comparisons_of(filter.clause):
        name = comparison.column
        if name not in schema:
            is_known = not schema.keys().isdisjoint(filter.columns)
            raise filter.error_at(comparison, no_column(name, list(schema), is_known=is_known))
        families[name] = ANY if name in untold else _family(schema[name])
        if schema[name] == nw.Decimal(38, 0) and _database(frame) == "duckdb":
            families[name] = "huge"
        if not families[name]:
            raise filter.error_at(
                comparison,
                f"column {name!r} cannot be compared: it must hold numbers, text, true and false, "
                "dates, or times with their dates",
            )
    return families


def _database(frame: Frame) -> str | None:
    """Which database Ibis speaks to, if it does."""
    is_ibis = frame.implementation.is_ibis()
    return str(frame.to_native().get_backend().name) if is_ibis else None


def _family(kind: DType) -> str:
    if kind.is_numeric():
        return "number"
    if type(kind).__name__ in _TEXTS:
        return "text"
    if isinstance(kind, nw.Datetime):
        return "zoned" if kind.time_zone else "date"
    return {nw.Boolean: "truth", nw.Date: "date"}.get(type(kind), "")


def _misfit(literal: Literal, family: str, *, is_ordered: bool = False) -> str:
    """Why a literal does not go with a column; nothing if it does."""
    if family in ("text", ANY):
        if is_ordered and isinstance(literal, str) and query.is_date_out_of_order(literal):
            return (
                "is text, which is ordered letter by letter: only dates such as '2024-01-31' sort "
                "by time. If the column has dates in another form, say which: "
                "day(column, 'DD.MM.YYYY') >= '2024-01-31'"
            )
        return ""
    if family in ("number", "huge") and not isinstance(literal, Decimal):
        is_number = isinstance(literal, str) and query.is_number(literal)
        return f"holds numbers: write {literal if is_number else 'one'} without quotes"
    if family == "huge" and abs(Decimal(literal)) >= 1 << 63:
        return "may be a HUGEINT, which Ibis cannot compare with so large a number: write a smaller"
    if family == "truth" and not isinstance(literal, bool):
        return "holds true and false: write one of them, without quotes"
    if family in ("date", "zoned"):
        moment = query.read_moment(literal) if isinstance(literal, str) else None
        if moment is None:
            return "holds dates: write '2024-01-31' or '2024-01-31 12:00', with quotes"
        if moment.tzinfo and family == "date":
            return "knows no time zones: write a date or time without one"
    return ""


class _Rows:
    """A frame, and beside its columns those that filters look at in another form."""

    def __init__(self, frame: Frame, families: dict[str, str], decimal: str) -> None:
        self._frame, self._families, self._decimal = frame, families, decimal
        self._schema, self._kind = frame.collect_schema(), frame.implementation
        self._native: dict[str, Any] = {}
        self._numbers: dict[str, nw.Expr] = {}
        self._readings: dict[tuple[str, Any], Reading | _ByValue] = {}
        self._prefix = "dpgap_where_"
        while any(name.lower().startswith(self._prefix) for name in self._schema):
            self._prefix += "_"

    def matching(self, clause: Clause) -> Frame:
        """The rows that a clause matches."""
        mask = self._mask(clause)
        frame: Any = self._frame
        if self._native and self._kind.is_ibis():
            frame = nw.from_native(frame.to_native().mutate(**self._native))
        elif self._native:
            import pandas  # type: ignore[import-untyped]

            own = pandas.DataFrame(self._native)  # all at once, which is quick for hundreds
            frame = nw.from_native(pandas.concat([frame.to_native(), own], axis=1))
        if self._numbers:
            frame = frame.with_columns(**self._numbers)
        kept: Frame = frame.filter(mask)
        added = [*self._native, *self._numbers]
        return kept.drop(added) if added else kept

    def _add(self, columns: dict[str, Any], column: Any) -> nw.Expr:
        """One more column beside those of the frame."""
        name = f"{self._prefix}{len(self._native)}_{len(self._numbers)}"
        columns[name] = column
        return nw.col(name)

    def _mask(self, clause: Clause) -> nw.Expr:
        """Whether a clause matches; true or false, never NULL."""
        if isinstance(clause, Negation):
            return ~self._mask(clause.part)
        if isinstance(clause, Joined):
            join = operator.and_ if clause.word == "and" else operator.or_
            return query.joined(join, [self._mask(part) for part in clause.parts])
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

    def _reading(self, name: str, literal: Any) -> "Reading | _ByValue":
        """A column as it is compared with a type of literals, None for none; in days; or by "like".

        Days are told by the form of their dates.
        """
        family, column, kind = self._families[name], nw.col(name), self._schema[name]
        if self._kind.is_pandas_like() and (isinstance(literal, str) or family == ANY):
            return self._reading_of_pandas(name, literal)
        if family == "text":
            return self._reading_of_text(name, literal)
        if family == "truth":
            return query.truths(column)
        if family == "huge":  # Ibis takes a HUGEINT for a decimal, which cannot hold all of them
            return query.whole_numbers(column, nw.Int64())
        if family == "number":
            return self._reading_of_numbers(name)
        if self._kind.is_polars() and isinstance(kind, nw.Datetime) and kind.time_zone:
            kind = nw.Datetime(kind.time_unit, "UTC")
            column = column.dt.convert_time_zone("UTC")
        in_sql = isinstance(self._frame, nw.LazyFrame) and not self._kind.is_polars()
        return query.moments(column, kind, in_sql=in_sql)

    def _reading_of_numbers(self, name: str) -> Reading:
        column = nw.col(name)
        kind: Any = self._schema[name]
        if kind.is_float():
            return query.floats(column, kind)
        if kind.is_integer():
            return query.whole_numbers(column, kind)
        is_ibis = self._kind.is_ibis()
        is_any = is_ibis and self._frame.to_native().schema()[name].precision is None
        return query.decimals(column, None if is_any else kind, in_ibis=is_ibis)

    def _reading_of_pandas(self, name: str, literal: Any) -> "Reading | _ByValue":
        """A column whose type follows its rows: value by value, or quicker and the same."""
        column, kind = self._frame.to_native()[name], self._schema[name]
        family, is_by_type = _family(kind), isinstance(literal, type)
        if is_by_type and kind == nw.String and str(column.dtype) != "object":
            return self._reading_of_text(name, literal)
        if literal is str and family in ("date", "zoned"):
            unit, since = since_1970(column)
            ticks = query.whole_numbers(self._add(self._native, since), nw.Int64())
            return replace(
                ticks,
                test=lambda sign, each: (
                    not _misfit(each, family)
                    and ticks.test(sign, query.since_1970(each) / query.UNITS[unit])
                ),
            )
        if literal is Decimal and is_number(column.dtype):
            return query.numbers(nw.col(name), kind)
        judge = judging(column, partial(_key, literal))
        return _ByValue(lambda test: self._add(self._native, judge(test)))

    def _reading_of_text(self, name: str, literal: Any) -> Reading:
        text = self._text(name)
        if literal is bool:
            return query.truths_in_text(text)
        if literal in (str, None, "like"):
            return query.texts(text, self._order(name, text))
        if literal is Decimal:
            number = query.number_in(text, self._kind, self._decimal)
            return query.numbers_in_text(self._add(self._numbers, number))
        day = self._add(self._numbers, query.day_in(text, literal))
        return query.whole_numbers(day, nw.Int64())

    def _text(self, name: str) -> nw.Expr:
        """A column as nothing but text."""
        if _database(self._frame) == "postgres":  # without what fills up text of a fixed width
            return nw.col(name) + ""
        return nw.col(name).cast(nw.String) if self._schema[name] != nw.String else nw.col(name)

    def _order(self, name: str, text: nw.Expr) -> Callable[[str, str], nw.Expr]:
        if _database(self._frame) != "postgres":
            return query.in_order_of_bytes(text)
        from dpgap.data.engines.ibis import compared_by_bytes

        column = self._frame.to_native()[name]
        return lambda sign, literal: self._add(
            self._native, compared_by_bytes(column, sign, literal)
        )


class _ByValue(NamedTuple):
    """A column that is compared value by value."""

    judge: Callable[[Callable[[Any], bool]], nw.Expr]
    """Which rows have a value whose key passes a test."""

    def compare(self, sign: str, literals: tuple[Literal, ...]) -> nw.Expr:
        """Whether a comparison matches; true or false, never NULL."""
        if not literals:
            is_there = self.judge(lambda key: True)
            return is_there if sign == "is not null" else ~is_there
        is_not = sign in query.NEGATED
        sign = query.NEGATED.get(sign, sign)
        sign = "=" if sign == "in" else sign
        return self.judge(lambda key: is_not != any(_stands(sign, key, each) for each in literals))


def _key(literal: Any, value: Any) -> Any:
    """What a value is compared by with a literal of this type; None if it cannot be.

    For text that is a number, a text, or whether a time has a zone and when it is.
    """
    text, number = form_of(value), number_of(value)
    if literal is None:
        return text
    if isinstance(literal, str):
        text = text if isinstance(value, str) else None
        return text if literal == "like" or text is None else query.day_of(text, literal)
    if literal is bool:
        return None if text is None else query.truth_in(text)
    if isinstance(value, str) and literal is Decimal:
        return float(value) if query.is_number(value) else None
    if not math.isnan(number):
        return int(value) if isinstance(value, int | np.integer) else number
    return moment_of(value) or text if literal is str else None


def _stands(sign: str, key: Any, literal: Literal) -> bool:
    """How the key of a value stands to a literal."""
    if sign == "like":
        return re.fullmatch(query.like_pattern(str(literal)), key) is not None
    if isinstance(key, tuple):
        is_zoned, since = key
        if _misfit(literal, "zoned" if is_zoned else "date"):
            return False
        return bool(query.COMPARE[sign](since, query.since_1970(str(literal)) * 1000))
    if not isinstance(key, int | float) or isinstance(literal, bool):
        return bool(query.COMPARE[sign](key, literal))
    if isinstance(literal, str) and not query.is_number(literal):
        return False
    edges = Decimal(literal)
    if isinstance(key, int) and query.is_whole(edges):
        return bool(query.COMPARE[sign](key, int(edges)))
    return bool(query.COMPARE[sign](float(key), float(edges)))
