"""The bounded query: what each unit adds to each item, cut to what one unit may add.

Rows go one way: those of public items and groups stay; amounts become whole steps; rows of one
unit, group and item are added up; a unit keeps a few of its groups, then a few of its items; what
it adds to each is clipped; and units are added up.

What a unit keeps is decided by a secret order of its own groups and items. It depends on a fresh
key and on that unit's rows alone, so no unit moves what another one keeps. Privacy needs no more
than that of the order. The key is secret and fresh so that no item is favoured.

An amount is a number or nothing. NULL, NaN, infinity and text that is no number, as filters read
it, are no amount, and a row without an amount is left out from the start. Each row is rounded by
itself: floats that are added up would depend on the order of rows, and so on other units. Sums
are of whole numbers that cannot overflow, as rows and totals lie within public bounds.
"""

from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data.addresses import Lazy
from dpgap.data.bounds import Bounds
from dpgap.data.engines.base import Engine
from dpgap.data.query import is_finite
from dpgap.data.readings import LONGEST, number_in
from dpgap.exact.bits import secure_bits

MOST_OF_A_ROW = 1 << 53
"""No row has more steps than this, whatever its amount."""

MOST_OF_ALL = 1 << 55
"""No total has more steps than this, so that it fits on the grids of all measurements."""

_NOTHING = 1e-100
"""Amounts below this are 0."""


def steps_of(rows: Lazy, kind: DType, bounds: Bounds) -> Lazy:
    """The rows that have an amount, which becomes whole `steps`: ⌊amount/step + ½⌋."""
    amount, others = nw.col("amount"), [name for name in rows.collect_schema() if name != "amount"]
    floats = rows.with_columns(_as_float(kind, rows.implementation).alias("amount"))
    amounts = floats.filter(is_finite(amount))
    width, finer = float(bounds.step.numerator), float(bounds.step.denominator)
    most = MOST_OF_A_ROW * width / finer
    scaled = amount.clip(-most, most) * finer
    if width != 1:  # some engines refuse to divide the smallest floats
        is_nothing = amount.is_between(-_NOTHING, _NOTHING)
        scaled = nw.when(is_nothing).then(nw.lit(0.0)).otherwise(scaled) / width
    return amounts.select(*others, (scaled + 0.5).floor().cast(nw.Int64).alias("steps"))


def _as_float(kind: DType, engine: nw.Implementation) -> nw.Expr:
    """Amounts as floats; NULL where text is no number."""
    amount = nw.col("amount")
    if kind.is_integer() or kind.is_float():
        return amount.cast(nw.Float64)
    text = amount.cast(nw.String)
    if kind.is_numeric():  # decimals, maybe of any length: the first digits say enough
        text = text.str.slice(0, LONGEST)
    return number_in(text, engine)


def add_up(engine: Engine, rows: Lazy, bounds: Bounds, size: int | None) -> Lazy:
    """What all units add to each item of each group: a frame of `item`, `units` and maybe `group`.

    `size` is how many public items there are, where that is known here. Bounds that no unit can
    reach are not enforced.
    """
    names = list(rows.collect_schema())
    cells: list[str] = [name for name in ("group", "item") if name in names]
    added: dict[str, Any] = {"rows": nw.len()}
    if bounds.column is not None:
        rows, added = engine.widen(rows, "steps"), {"steps": nw.col("steps").sum()}
    if "unit" in names:
        own = rows.group_by("unit", *cells).agg(*_named(added))
        rows = _keep_few(engine, own, cells, bounds, size)
    if bounds.column is None:
        return rows.group_by(*cells).agg(nw.len().alias("units"))
    clipped = rows.with_columns(nw.col("steps").clip(bounds.floor, bounds.cap))
    totals = clipped.group_by(*cells).agg(nw.col("steps").sum())
    units = nw.col("steps").clip(-MOST_OF_ALL, MOST_OF_ALL).cast(nw.Int64).alias("units")
    return totals.select(*cells, units)


def _named(expressions: dict[str, Any]) -> list[Any]:
    return [expression.alias(name) for name, expression in expressions.items()]


def _keep_few(
    engine: Engine, own: Lazy, cells: list[str], bounds: Bounds, size: int | None
) -> Lazy:
    """A few groups of each unit, and then a few of its items."""
    key, groups = secure_bits().token(), 1
    if bounds.groups is not None:
        groups = len(bounds.groups.labels)
        if bounds.max_groups < groups:
            own = engine.keep_few(own, ["group"], bounds.max_groups, key)
    if bounds.max_items is None or (size is not None and bounds.max_items >= groups * size):
        return own
    return engine.keep_few(own, cells, bounds.max_items, key)
