"""Answers, plans and cells as plain values: dictionaries, lists, numbers and text, as in JSON.

Exact fractions become text such as "7/10". Numbers that JSON lacks (infinity, NaN) and labels of
other kinds (dates, bytes) become text too.
"""

import math
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgap.releases.numbers import exact_text


def plain(value: Any) -> Any:
    """The value as JSON would have it.

    >>> plain((Fraction(7, 10), np.int64(3), None))
    ['7/10', 3, None]
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)  # as a number it would be nanoseconds
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(each) for name, each in zip(value._fields, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return {"kind": type(value).__name__, **own}
    return exact_text(value) if isinstance(value, Fraction) else str(value)
