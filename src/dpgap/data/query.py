"""The counting query: how many distinct units each item of a domain has.

It is written once, in Narwhals, for every frame and engine. NULL units and NULL items are dropped,
and NaN is NULL. So one more or one less unit, with any number of rows, moves every count by at most
one, and all counts in the same direction.
"""

import re
from collections.abc import Callable
from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data.domain import Domain, Stated, whole
from dpgap.data.engines.base import Engine
from dpgap.data.private_counts import UNREADABLE, with_masked_errors
from dpgap.data.sources import TEXTS, Frame, Lazy, guessed
from dpgap.data.values import plain_frame
from dpgap.exact.bits import secure_bits
from dpgap.question import Question

_LARGEST = (1 << 63) - 1024
"""The largest float that is a whole number of 64 bits."""

_NO_UTF_8 = re.compile("[\ud800-\udfff]")
_COUNTABLE = (*TEXTS, "Boolean", "Float32", "Float64")


def rows_of(frame: Frame, columns: dict[str, str]) -> Frame:
    """The rows that have a value in all these columns; the columns get the names of their roles."""
    if frame.implementation.is_pandas():  # which alone may hold anything
        names = list(dict.fromkeys(columns.values()))
        frame = with_masked_errors(lambda: nw.from_native(plain_frame(frame.to_native(), names)))
    schema = with_masked_errors(frame.collect_schema)
    require_plain_columns(schema, columns)
    return with_masked_errors(lambda: _comparable_rows(frame, columns, schema))


def states_numbers(frame: Frame, name: str) -> bool:
    """Whether the schema (not somebody's row) says that a column holds numbers."""
    return name not in guessed(frame) and bool(frame.collect_schema()[name].is_numeric())


def require_plain_columns(schema: nw.Schema, roles: dict[str, str]) -> None:
    """Refuse columns that cannot serve for their roles, by the types that a schema states."""
    for role, name in roles.items():
        _require_plain(name, schema[name], role)


def _require_plain(name: str, kind: DType, role: str) -> None:
    """Refuse a column that is not of one plain type, or whose values cannot serve for its role."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if role == "amount" and not (kind.is_numeric() or type(kind).__name__ in TEXTS):
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
    comparable = (
        _comparable(name, schema[name], role, is_coded=is_coded).alias(role)
        for role, name in columns.items()
    )
    rows = frame.select(*comparable).drop_nulls()
    for role, name in columns.items():
        if schema[name].is_float() and role != "amount":
            rows = rows.filter(is_not_nan(nw.col(role)))
    return rows


def _comparable(name: str, kind: DType, role: str, *, is_coded: bool) -> nw.Expr:
    """A column that can be fetched, and whose equal values are equal for every engine."""
    if role == "amount" or (is_coded and kind == nw.Categorical):
        return nw.col(name)  # amounts are compared with nothing
    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def is_finite(value: nw.Expr) -> nw.Expr:
    """Whether a float is neither NaN nor infinite.

    DuckDB's `isnan` trusts the statistics of Parquet files, which ignore NaN. But x − x is NaN for
    NaN and for infinity, whatever the statistics say.
    """
    return value - value == 0.0


def is_not_nan(value: nw.Expr) -> nw.Expr:
    """Whether a float is not NaN, which some engines put above all numbers."""
    return is_finite(value) | (value == float("inf")) | (value == float("-inf"))


def keep_range(rows: Lazy, kind: DType, labels: range) -> Lazy:
    """The rows whose items are whole numbers of a range."""
    low = min(labels[0], labels[-1])
    high = max(labels[0], labels[-1])
    step = abs(labels.step)
    item = nw.col("item")
    others = _others(rows)
    if kind != nw.Int64:
        rows = rows.select(_as_number(kind, low, high).alias("number"), "item", *others)
        if kind == nw.String:  # a number has one spelling only
            rows = rows.filter(nw.col("number").cast(nw.String) == item)
        rows = rows.select(nw.col("number").alias("item"), *others)
    inside = rows.filter(item.is_between(low, high))
    if step == 1:
        return inside
    return inside.filter((item - low) % step == 0)


def keep_listed(rows: Lazy, column: str, kind: DType, listed: Lazy) -> Lazy:
    """The rows whose value in a column is listed; the position in the list replaces the value.

    `listed` is a frame of `item` and `position`. Items are whole numbers if the column holds whole
    numbers, else texts.
    """
    are_numbers = listed.collect_schema()["item"].is_integer()
    value = nw.col(column) if are_numbers else _as_text(kind, column)
    others = _others(rows, column)
    values = rows.select(value.alias("sought"), *others)
    positions = listed.select(nw.col("item").alias("listed"), nw.col("position").alias(column))
    joined = values.join(positions, left_on="sought", right_on="listed", how="inner")
    return joined.select(column, *others)


def _others(rows: Lazy, column: str = "item") -> list[str]:
    return [name for name in rows.collect_schema() if name != column]


def _as_number(kind: DType, low: int, high: int, column: str = "item") -> nw.Expr:
    """Items as whole numbers, or NULL; the cast is inside a CASE, so it cannot fail."""
    item = nw.col(column)
    if kind == nw.String:
        item = short(item, 19)
        # In Java, "$" also matches before a last line break; a cast would fail on this.
        is_number = item.str.contains("^(0|-?[1-9][0-9]{0,17})$") & ~item.str.contains("[^0-9-]")
    elif kind.is_float():
        is_number = item.is_between(float(-_LARGEST), float(_LARGEST)) & (item.floor() == item)
    else:
        is_number = item.is_between(low, high)
    return nw.when(is_number).then(item).otherwise(None).cast(nw.Int64)


def short(text: nw.Expr, most: int) -> nw.Expr:
    """Text of at most `most` letters; longer text becomes NULL.

    Use it before every pattern, in a CASE of its own: PostgreSQL fails on patterns in 256 MB.
    """
    return nw.when(text.str.len_chars() <= most).then(text)


def _as_text(kind: DType, column: str = "item") -> nw.Expr:
    """Items as the text by which they are compared; NULL for numbers that are not whole."""
    item = nw.col(column)
    if kind == nw.Boolean:
        return nw.when(item).then(nw.lit("true")).otherwise(nw.lit("false"))
    if kind.is_float():
        return _as_number(kind, -_LARGEST, _LARGEST, column).cast(nw.String)
    return item if kind == nw.String else item.cast(nw.String)


# The pattern of texts that are numbers, in filters and sums; no engine overflows on them.
_EXPONENT = "(?:[eE][+-]?(?:0?[0-9]?[0-9]|1[0-9][0-9]|2[0-3][0-9]))?$"
_NUMBER = "^[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)" + _EXPONENT
_THOUSANDS = "[. '’\u00a0\u202f]"
"""Marks that may separate thousands if a comma is the decimal mark."""
_NUMBER_WITH_COMMA = (
    f"^[+-]?(?:(?:[0-9]+|[0-9]{{1,3}}(?:{_THOUSANDS}[0-9]{{3}})+)(?:,[0-9]*)?|,[0-9]+)" + _EXPONENT
)
LONGEST = 64
"""Longer texts are not numbers, in filters and sums."""


def number_in(text: nw.Expr, engine: nw.Implementation, decimal: str = ".") -> nw.Expr:
    """The number that a text states, or NULL; the cast is inside a CASE, so it cannot fail.

    The length is checked first: no engine can match a pattern in text of any length. In Java and
    Python, "$" also matches before a last line break, and a cast would fail on this.
    """
    text = short(text, LONGEST)
    if decimal == ",":  # only in files, and so in DuckDB
        text = nw.when(text.str.contains(_NUMBER_WITH_COMMA)).then(text)
        text = text.str.replace_all(_THOUSANDS, "").str.replace_all(",", ".", literal=True)
    is_number = text.str.contains(_NUMBER)
    if not engine.is_duckdb():
        is_number = is_number & ~text.str.contains("[^0-9.eE+-]")
    return nw.when(is_number).then(text).otherwise(None).cast(nw.Float64)


def is_number(text: str) -> bool:
    """Whether a text is a number for `number_in`."""
    return len(text) <= LONGEST and re.fullmatch(_NUMBER[:-1], text) is not None


# --------------------------------------------------------------------------------------------------
# The bounded query: what each unit adds to each item, within the bounds of one unit.
#
# The steps, in this order: rows of public items and groups stay; amounts become whole steps; rows
# of one unit, group and item are added up; a unit keeps a few of its groups, then a few of its
# items; the amount that it adds to each is clipped; and units are added up.
#
# A secret order of a unit's groups and items decides which of them it keeps. The order depends only
# on a fresh key and on this unit's rows. So no unit changes what another one keeps; privacy needs
# no more. The key is secret and fresh so that no item is favoured.
#
# An amount is a number. NULL, NaN, infinity and text that is no number (as filters read it) are no
# amounts, and a row without an amount is left out from the start. Each row is rounded by itself: a
# sum of floats would depend on the order of rows, and so on other units. Sums are of whole numbers
# that cannot overflow, because rows and totals are within public bounds.


MOST_OF_A_ROW = 1 << 53
"""The most steps of a row; larger amounts are clipped."""

MOST_OF_ALL = 1 << 55
"""The most steps of a total, so that it fits on the grids of all measurements."""

_NOTHING = 1e-100
"""Amounts below this are 0."""


def steps_of(rows: Lazy, question: Question) -> Lazy:
    """The rows that have an amount, with it in whole `steps`: ⌊amount/step + ½⌋."""
    amount = nw.col("amount")
    others = _others(rows, "amount")
    number = _as_float(rows.collect_schema()["amount"], rows.implementation, question.decimal)
    floats = rows.with_columns(number.alias("amount"))
    amounts = floats.filter(is_finite(amount))
    width = float(question.step.numerator)
    finer = float(question.step.denominator)
    largest = MOST_OF_A_ROW * width / finer
    scaled = amount.clip(-largest, largest) * finer
    if width != 1:  # some engines refuse to divide the smallest floats
        is_nothing = amount.is_between(-_NOTHING, _NOTHING)
        scaled = nw.when(is_nothing).then(nw.lit(0.0)).otherwise(scaled) / width
    return amounts.select(*others, (scaled + 0.5).floor().cast(nw.Int64).alias("steps"))


def _as_float(kind: DType, engine: nw.Implementation, decimal: str) -> nw.Expr:
    """Amounts as floats; NULL for text that is no number."""
    amount = nw.col("amount")
    if kind.is_integer() or kind.is_float():
        return amount.cast(nw.Float64)
    text = amount.cast(nw.String)
    if kind.is_numeric():  # decimals, maybe of any length: the first digits say enough
        text = text.str.slice(0, LONGEST)
        decimal = "."
    return number_in(text, engine, decimal)


def add_up(engine: Any, rows: Lazy, question: Question, size: int | None) -> Lazy:
    """The sum over units for each item of each group: a frame of `item`, `units`, maybe `group`.

    `size` is the number of public items; None if it is unknown. If no unit can exceed a bound, rows
    are not cut. If units are only counted, no engine is needed.
    """
    names = list(rows.collect_schema())
    cells: list[str] = [name for name in ("group", "item") if name in names]
    added = nw.len().alias("rows")
    if question.sum is not None:
        rows = engine.widen(steps_of(rows, question), "steps")
        added = nw.col("steps").sum()
    if "unit" in names:
        rows = rows.group_by("unit", *cells).agg(added)
        if not question.is_plain:
            rows = _keep_few(engine, rows, cells, question, size)
    if question.sum is None:
        return rows.group_by(*cells).agg(nw.len().alias("units"))
    ends = [int(end / question.step) for end in (question.at_least, question.at_most)]
    clipped = rows.with_columns(nw.col("steps").clip(*ends))
    totals = clipped.group_by(*cells).agg(nw.col("steps").sum())
    units = nw.col("steps").clip(-MOST_OF_ALL, MOST_OF_ALL).cast(nw.Int64).alias("units")
    return totals.select(*cells, units)


def _keep_few(
    engine: Engine, rows: Lazy, cells: list[str], question: Question, size: int | None
) -> Lazy:
    """A few groups of each unit, and then a few of its items."""
    key = secure_bits().token()
    groups = question.groups or 1
    if question.groups_of_a_unit < question.groups:
        rows = engine.keep_few(rows, ["group"], question.groups_of_a_unit, key)
    if question.max_items is None:
        return rows
    if size is not None and question.max_items >= groups * size:
        return rows
    return engine.keep_few(rows, cells, question.max_items, key)


# --------------------------------------------------------------------------------------------------
# Keep the rows and counts of public items and groups; refuse types that do not go together.
#
# Refusals depend only on types, never on a row.


TWO_TABLES = f"{UNREADABLE} (where domain is a table too, it must be of the same connection)"


def narrow(engine: Engine, rows: Lazy, domain: Stated, role: str) -> Callable[[Lazy], Lazy]:
    """Return a function that keeps the rows of a frame whose item or group is in the domain.

    The frame has the same column `role` ("item" or "group") as `rows`. If the domain is a list,
    positions in it replace the values. Groups are always a list.
    """
    if domain is None:
        return lambda given: given
    kind = with_masked_errors(lambda: rows.collect_schema()[role])
    if isinstance(domain, nw.LazyFrame):
        known = _known(engine, domain, kind)
        return lambda given: keep_listed(given, "item", kind, known)
    if isinstance(domain.labels, range):
        labels = domain.labels
        if kind == nw.Boolean:
            raise ValueError("domain must be a list for an item column of true and false")
        if kind == nw.String and max(abs(labels[0]), abs(labels[-1])) >= 10**18:
            raise ValueError("domain must lie within ±10^18 where the item column is text")
        return lambda given: keep_range(given, kind, labels)
    _require_list(domain, kind, "domain" if role == "item" else "groups", role)
    return lambda given: keep_listed(given, role, kind, _listed(engine, domain, kind))


def _known(engine: Engine, domain: Lazy, kind: DType) -> Lazy:
    """The items of a table in the engine; the position of each item is the item itself."""
    own = with_masked_errors(lambda: domain.collect_schema()["item"], TWO_TABLES)
    if kind.is_float() and own == nw.String:
        raise ValueError("domain must be whole numbers: cast the item column to text for others")
    if not (own == nw.String or own.is_integer() or own == kind == nw.Boolean) or (
        kind == nw.Boolean and own.is_integer()
    ):
        raise ValueError("domain must be a column of text or whole numbers, like the item column")
    if own in (nw.Int128, nw.UInt128):
        raise ValueError("domain must be whole numbers of at most 64 bits: cast its column")
    require_exact_text(engine, domain, "domain")
    item = nw.col("item")
    sought = item if own.is_integer() and kind.is_integer() else _as_text(own).alias("item")
    return engine.plain(domain).drop_nulls().unique().select(sought, item.alias("position"))


def _listed(engine: Engine, domain: Domain, kind: DType) -> Lazy:
    """Listed items with their positions: as numbers if the column holds these, else as texts."""
    numbers = [whole(label) for label in domain.labels]
    if (
        kind.is_integer()
        and kind != nw.UInt64
        and all(n is None or abs(n) < 1 << 63 for n in numbers)
    ):
        return engine.list_items(numbers)
    # Text that is not UTF-8 cannot be an item in an engine's tables.
    return engine.list_items([None if _NO_UTF_8.search(text) else text for text in domain.texts])


def require_exact_text(engine: Engine, column: Lazy, name: str) -> None:
    """Refuse a column whose collation treats different texts as equal.

    Otherwise the label shown would depend on row order.
    """
    kind = with_masked_errors(lambda: column.collect_schema()["item"])
    if kind == nw.String and with_masked_errors(lambda: engine.merges(column), TWO_TABLES):
        raise ValueError(
            f"{name} must tell different texts apart, and its collation does not: cast it to text "
            'that is compared by its bytes (COLLATE "C"; in Spark COLLATE UTF8_BINARY)'
        )


def _require_list(domain: Domain, kind: DType, name: str, role: str) -> None:
    if kind.is_numeric():
        domain.require_numbers(name, role)
    if kind == nw.Boolean and not {"true", "false"} & {*domain.texts}:
        raise ValueError(f"{name} must hold true and false, like the {role} column")
    if kind.is_float() and any("." in text for text in domain.texts):
        raise ValueError(f"{name} must be whole numbers: cast the {role} column to text for others")
