"""Values that one unit may bring: any text and any number that a column can hold.

The most dangerous text is almost that of somebody else, so most of it is an existing text, twisted.
"""

import math
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, NoReturn
from uuid import UUID

import numpy as np
import pandas

MARK = "hush"
"""Stands in every private name, and so in no message (in any capitals)."""

TWISTS: list[Callable[[str], str]] = [
    str.upper,
    str.title,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: unicodedata.normalize("NFC", text),
    *(
        lambda text, end=end: text + end
        for end in (
            "\0",
            "\0\0",
            "\x85",
            "\u2028",
            "\u2029",
            "\r",
            "\n",
            "\r\n",
            "\t",
            " ",
            "\ufeff",
        )
    ),
    *(
        lambda text, start=start: start + text
        for start in ("\0", " ", "\t", "\n", "\ufeff", "0", "+", "-", "#")
    ),
    lambda text: text[:1] + "\0" + text[1:],
    lambda text: text[:1] + "\x85" + text[1:],
    lambda text: f'"{text}"',
    lambda text: f"'{text}'; --",
    lambda text: text + '",;|\t"',
    lambda text: text + ".0",
    lambda text: text.translate({48 + digit: 0x660 + digit for digit in range(10)}),
]

TEXTS = [
    *("", " ", "\0", "\n", "\r", ",", '"', '""', "NULL", "null", "nan", "true", "\\", "\\N", "{}"),
    *("7", "07", "7\u2028", "7\n", "٧", "1e3", "-0", "+1", " 7", "7.0", "0x7", "1_0", "²", "inf"),
    *("9" * 18, "9" * 19, str(2**63 - 1), str(2**63), str(-(2**63)), "1" + "0" * 400),
    *("\U0010ffff", "\ufffe", "🍐" * 50, "e\u0301" * 9, "\u202e" + MARK),
]

WHOLE = [0, -1, 1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 2**62, 10**18, -(10**18), 65556, 65557]

FLOATS = [
    *(math.nan, math.inf, -math.inf, -0.0, 0.5, 7.5, 1e300, -1e300, 5e-324, 1e-17, -1e-17, 1e18),
    *(-(2.0**63), 2.0**63, 2.0**53, 9.223372036854775e18, 65557.0, 1e12),
]

NOT_UTF_8 = b"\xff"
"""Bytes that the tables of SQLite hold as text."""

STORED: list[Any] = [
    *(1, 2, 1.0, 1.5, -0.0, 1e300, math.inf, "01", "1 ", "fig", "FIG", "", "true", "yes", "1\0"),
    *(b"1", b"fig", NOT_UTF_8, 2**63 - 1, "2024-01-31", 2460340.5, 1706659200, None),
]
"""Values of every storage class of SQLite."""


def odd_text(rng: Random, known: list[str], longest: int) -> str:
    """Text that is like none, or almost like a known one; seldom very long."""
    chance = rng.random()
    if chance < 0.6:
        return rng.choice(TWISTS)(rng.choice(known))
    if chance < 0.9:
        return rng.choice(TEXTS)
    if chance < 0.97:
        return MARK + "x" * min(longest, 10**5)
    return MARK + rng.choice(["y", "\n", '"', ",", "é"]) * min(longest, 10**6)


def odd_value(rng: Random, kind: str, known: list, longest: int = 10**6) -> object:
    """A value for a column of this kind, where others have the `known` ones."""
    if kind == "text":
        return odd_text(rng, list(map(str, known)), longest)
    if kind == "huge":
        return rng.choice([None, 2**127 - 1, 1 - 2**127, 10**38, *WHOLE])
    if kind == "zoned":
        return rng.choice([2**63 - 1, 1 - 2**63, 2**62, 10**18, rng.choice(known) + 1])
    if kind == "whole":
        return rng.choice([*WHOLE, rng.choice(known) + rng.choice([-1, 0, 1])])
    return rng.choice([*FLOATS, float(rng.choice(known)) + rng.choice([-1, 0, 0.5])])


class _Hostile:
    """What fails with a private name, whatever it is asked."""

    def _fail(self, *_: object) -> NoReturn:
        raise RuntimeError(MARK)

    __eq__ = __ne__ = __lt__ = __str__ = __repr__ = __float__ = __int__ = __index__ = _fail  # type: ignore[assignment]
    __bool__ = __hash__ = __format__ = _fail  # type: ignore[assignment]


class _Text(str):
    """Text that is hashed and compared as no other."""

    __slots__ = ()
    __hash__ = _Hostile._fail  # type: ignore[assignment]
    __eq__ = __str__ = __repr__ = _Hostile._fail  # type: ignore[assignment]


OBJECTS: list[Any] = [
    *(True, False, np.True_, 1, 0, 1.0, np.float32(0.1), np.longdouble(7), 7 + 0j, 7 + 1j),
    *(Decimal("7.0"), Decimal("NaN"), Decimal("sNaN"), Decimal("-inf"), Decimal("1e999999")),
    *(Decimal("-0"), Decimal("0.1"), -0.0, math.nan, math.inf, 10**5000, -(2**64), 2**63),
    *(b"7", bytearray(b"7"), (1,), [1], {1: 2}, {7}, Fraction(7), object, _Hostile(), _Text("fig")),
    *(None, pandas.NA, pandas.NaT, np.datetime64("NaT", "s"), np.timedelta64(7, "D")),
    *(np.str_("fig"), date(2024, 1, 31), datetime(2024, 1, 31), datetime(2024, 1, 31, 12)),
    *(time(12), datetime(2024, 1, 31, 12, tzinfo=UTC)),
    *(pandas.Timestamp("2024-01-31", tz="Asia/Tokyo"), np.datetime64("2024-01-31")),
    *(pandas.Timestamp(7), datetime(9999, 12, 31), timedelta(7)),
    *(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))), pandas.Period("2024-01")),
    *(np.datetime64("12000-01-01", "s"), np.datetime64("-044-03-15", "s"), np.float16(0.1)),
    *(pandas.Interval(0, 7), UUID(int=7), "7", "true", "fig\0", f"{MARK} \udc80", "x" * 10**5),
]
"""What an object column of pandas may hold beside what its other rows do."""


def same_in_other_words(rng: Random, value: Any) -> Any:
    """The same unit or item, of another type."""
    if isinstance(value, str) and not (value.isdecimal() and value == str(int(value))):
        return rng.choice([value, np.str_(value)])
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return value
    if isinstance(value, float) and not value.is_integer():
        return value
    number = int(value)
    kinds = [int, float, Decimal, str, np.float64, complex, np.int64]
    return rng.choice([kind(number) for kind in kinds] if abs(number) < 2**53 else [value])
