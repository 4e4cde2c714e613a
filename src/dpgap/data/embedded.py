"""Frames of this process, handed to embedded DuckDB: one path for all that is more than counting.

What a column is to DuckDB depends on the type that its frame states, never on its rows. The types
of pandas follow the rows. So its units, items and groups become text there, and amounts floats.
What a unit keeps is drawn by its text, and must not change with a type. Other units that are times
become whole numbers.
"""

import math
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import narwhals as nw

from dpgap.data import readings
from dpgap.data.addresses import Frame, guessed
from dpgap.data.files import embedded_database
from dpgap.data.tracebacks import UNREADABLE, quietly
from dpgap.data.values import number_of


def embed(frame: Frame, roles: dict[str, str], resources: ExitStack) -> Frame:
    """The columns of a frame that have roles, as a table in a DuckDB that `resources` keep."""
    names = list(dict.fromkeys(roles.values()))
    held = frame.select(*names)
    if isinstance(held, nw.LazyFrame):
        held = quietly(held.collect, UNREADABLE)
    if find_spec("pyarrow") is None:
        raise ImportError("frames need PyArrow for more than counts: pip install pyarrow")
    database, unit = resources.enter_context(embedded_database()), roles.get("unit")
    table = quietly(lambda: _with_whole_moments(_arrow(held, roles), unit), UNREADABLE)
    return quietly(lambda: nw.from_native(database.from_arrow(table)), UNREADABLE)


def _with_whole_moments(table: Any, unit: str | None) -> Any:
    """The same table; units that are times, days or durations are the numbers that Arrow has.

    In DuckDB times with a zone and durations have microseconds of 64 bits. One that is beyond them
    would refuse the call, and two that are nearer to each other would be one unit.
    """
    from pyarrow.types import is_temporal

    stated = None if unit is None else table.schema.field(unit).type
    kind = getattr(stated, "value_type", stated)  # of a dictionary, what it lists
    if kind is None or not is_temporal(kind):
        return table
    whole = table[unit].cast(kind).cast(f"int{kind.bit_width}")
    return table.set_column(table.column_names.index(unit), unit, whole)


def _arrow(frame: nw.DataFrame[Any], roles: dict[str, str]) -> Any:
    if not frame.implementation.is_pandas():
        return frame.to_arrow()
    import pyarrow

    table, types = frame.to_native(), guessed(frame)
    told = {name for role, name in roles.items() if role != "amount"}
    return pyarrow.table(
        {
            name: _of_pandas(table[name], is_told=name in told) if name in types else table[name]
            for name in frame.columns
        }
    )


def _of_pandas(column: Any, *, is_told: bool) -> Any:
    """A column whose type follows its rows: text, or floats if it has amounts and is no more."""
    from dpgap.data.pandas_columns import arrow_texts, each_value, is_number

    if is_told:
        return arrow_texts(column)
    return column if is_number(column.dtype) else each_value(column, _float_of)


def _float_of(value: Any) -> float:
    """The number that a value is, or says; NaN where it is none."""
    if isinstance(value, str):
        return float(value) if readings.is_number(value) else math.nan
    return number_of(value)
