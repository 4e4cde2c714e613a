r"""Labels in a document: what an item is called, of the type that it had.

Text, whole numbers, finite floats, true, false and null are written as they are. Of the types in
`_TAGS` the type is written as well, as in `{"date": "2024-02-29"}`; so are infinite floats, NaN,
and tuples of all these. They come back as they were.

A value of NumPy or pandas comes back as the value of Python that equals it and reads the same: a
`numpy.int64` as an `int`, a `pandas.Timestamp` as a `datetime`. Of a time zone only the distance to
UTC is kept. Whatever else a label is, and whatever would not come back equal, is written as the
text that people see, and comes back as text.
"""

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from dpgap.releases.faults import DocumentError
from dpgap.releases.numbers import exact_text, exact_value

_DEEPEST = 8
_MOST_BITS = 14_000  # Python writes no whole number of more than 4,300 digits
_LONGEST = 10_000

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_Tag = tuple[str, Callable[[Any], Any], Callable[[str], Any]]
_TAGS: dict[type, _Tag] = {
    float: ("float", repr, _NOT_FINITE.__getitem__),
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "microseconds",
        lambda span: str(span // timedelta(microseconds=1)),
        lambda text: timedelta(microseconds=int(text)),
    ),
    Decimal: ("decimal", str, Decimal),
    Fraction: ("fraction", exact_text, exact_value),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    UUID: ("uuid", str, UUID),
    np.datetime64: ("datetime64", str, lambda text: _moment(text)),
}
"""For each type: its name in a document, and how its values become text and back."""
_READ = {name: (to, back) for name, to, back in _TAGS.values()}
_MOMENT = re.compile(
    r"NaT|-?[0-9]{4,}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?)?)?)?"
)


def write_label(label: Any, depth: int = 0) -> Any:
    """The label as JSON has it.

    >>> write_label(("fig", date(2024, 2, 29)))
    {'tuple': ['fig', {'date': '2024-02-29'}]}
    """
    value = _native(label)
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is int and value.bit_length() < _MOST_BITS:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is tuple and depth < _DEEPEST:
        return {"tuple": [write_label(each, depth + 1) for each in value]}
    if type(value) in _TAGS:
        name, to, back = _TAGS[type(value)]
        text = to(value)
        if len(text) <= _bound(name) and _is_same(back, text, value):
            return {name: text}
    return _text(label)


def read_label(found: Any, depth: int = 0) -> Any:
    """The label that JSON has.

    >>> read_label({"tuple": ["fig", {"date": "2024-02-29"}]})
    ('fig', datetime.date(2024, 2, 29))
    """
    if found is None or isinstance(found, str | bool | int | float):
        return found
    if not (isinstance(found, dict) and len(found) == 1):
        raise DocumentError("a label must be text, a number, or a type with a text")
    ((name, inside),) = found.items()
    if name == "tuple" and isinstance(inside, list) and depth < _DEEPEST:
        return tuple(read_label(each, depth + 1) for each in inside)
    if name not in _READ or not isinstance(inside, str) or len(inside) > _bound(name):
        raise DocumentError(f"a label is of a type that is not known here: {name[:40]!r}")
    to, back = _READ[name]
    try:
        value = back(inside)
        if to(value) == inside:
            return value
    except (ValueError, ArithmeticError, KeyError):
        pass
    raise DocumentError(f"a label is not a {name}: {inside[:40]!r}")


def _bound(name: str) -> float:
    return math.inf if name == "bytes" else _LONGEST


def _native(label: Any) -> Any:
    """A value of NumPy or pandas as one of Python, where there is one that equals it."""
    if isinstance(label, np.generic) and not isinstance(label, np.datetime64 | np.timedelta64):
        return label.item()
    if isinstance(label, datetime) and type(label) is not datetime:
        return _or_none(lambda: datetime.fromisoformat(label.isoformat()), label) or label
    return label


def _or_none(make: Callable[[], Any], label: Any) -> Any:
    try:
        value = make()
        return value if value == label and str(value) == str(label) else None
    except (ValueError, TypeError):
        return None


def _is_same(back: Callable[[str], Any], text: str, value: Any) -> bool:
    try:
        again = back(text)
        if type(again) is not type(value):
            return False
        return repr(again) == repr(value) or (again == value and str(again) == str(value))
    except (ValueError, ArithmeticError, KeyError):
        return False


def _moment(text: str) -> np.datetime64:
    """Text that NumPy wrote. It would also read "now", and times of a zone with a warning."""
    if not _MOMENT.fullmatch(text):
        raise ValueError
    return np.datetime64(text)


def _text(label: Any) -> str:
    """What people see; a label that cannot be shown must not cost a release that is paid for."""
    try:
        return str(label)
    except Exception:
        return f"<{type(label).__name__}>"
