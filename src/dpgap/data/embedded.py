"""Frames of this process, handed to embedded DuckDB: one path for all that is more than counting.

What a column is to DuckDB depends on the type that its frame states, never on its rows. pandas has
columns that may hold anything (objects, and categories, which are whatever occurs). Those become
text; as amounts they become floats.
"""

import math
from contextlib import ExitStack
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np

from dpgap.data.addresses import GUESSED, Frame
from dpgap.data.domain import text_of
from dpgap.data.files import embedded_database
from dpgap.data.query import purified
from dpgap.data.readings import is_number
from dpgap.data.tracebacks import UNREADABLE, quietly


def embed(frame: Frame, roles: dict[str, str], resources: ExitStack) -> Frame:
    """The columns of a frame that have roles, as a table in a DuckDB that `resources` keep."""
    names = list(dict.fromkeys(roles.values()))
    held = frame.select(*names)
    if isinstance(held, nw.LazyFrame):
        held = quietly(held.collect, UNREADABLE)
    if held.implementation.is_pandas():
        held = _of_pandas(held, {name for role, name in roles.items() if role != "amount"})
    if find_spec("pyarrow") is None:
        raise ImportError("frames need PyArrow for more than counts: pip install pyarrow")
    database = resources.enter_context(embedded_database())
    return quietly(lambda: nw.from_native(database.from_arrow(held.to_arrow())), UNREADABLE)


def _of_pandas(frame: nw.DataFrame[Any], told: set[str]) -> nw.DataFrame[Any]:
    """A frame of pandas whose columns have types; `told` are those that are more than amounts."""
    table = frame.to_native()
    guessed = [name for name in table.columns if str(table[name].dtype) in GUESSED]
    floats = {
        name: table[name].astype(object).map(_float_of).astype("float64")
        for name in guessed
        if name not in told
    }
    pure = purified(nw.from_native(table.assign(**floats)), list(table.columns)).to_native()
    texts = {name: _as_text(pure[name], name) for name in guessed if name in told}
    return nw.from_native(pure.assign(**texts), eager_only=True)


def _as_text(column: Any, name: str) -> Any:
    """A column as the texts that its values are compared by."""
    return quietly(
        lambda: column.astype(object).map(text_of, na_action="ignore").astype("string"),
        f"column {name!r} must hold text in UTF-8 or numbers",
    )


def _float_of(value: Any) -> float:
    """The number that a value is, or says; NaN where it is none."""
    if isinstance(value, str):
        return float(value) if is_number(value) else math.nan
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | Decimal | np.integer | np.floating
    ):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        return math.nan
