"""The text of a value: one text for every value, in a column of any type.

Two values are the same unit, or the same item, if they have the same text. Each value is read by
itself. So no row decides how another one is read, or whether a table is refused:

- Text is itself.
- Numbers that Python calls equal have one text: 7, 7.0, Decimal("7.0") and NumPy's 7 are "7", as in
  a file. Whole numbers have no point.
- True and false are the words "true" and "false", and not 1 and 0.
- Days, times and durations have one ISO form. Times with a zone are written in UTC, and a midnight
  without a zone is its day.
- UUIDs, periods and intervals are written as Python prints them.

Everything else counts as missing: NULL, NaN, bytes, lists, objects, text that is not UTF-8, and
whole numbers of more than 4,096 bits.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dpgap.data.private_counts import Integers
from dpgap.data.sources import is_asked_for

if TYPE_CHECKING:
    import pyarrow


_MOST_BITS = 4096
"""The most bits of a whole number; a longer one counts as missing."""
NANOSECONDS = {"W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9}
NANOSECONDS |= {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ALL_DIGITS = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_UTC = "+00:00"
_NUMBERS = int | float | Decimal | np.integer | np.floating


def form_of(value: object) -> str | None:
    """The text by which a value is compared; None if it counts as missing.

    >>> form_of(7), form_of(7.0), form_of(Decimal("7.00")), form_of("7"), form_of(True)
    ('7', '7', '7', '7', 'true')
    >>> form_of(date(2024, 2, 29)), form_of(datetime(2024, 2, 29, 12, tzinfo=UTC)), form_of(b"7")
    ('2024-02-29', '2024-02-29T12:00:00+00:00', None)
    """
    kind = type(value)
    try:
        if kind in _EXACT:
            return _EXACT[kind](value)
        if kind.__name__ in ("Period", "Interval") and kind.__module__.split(".")[0] == "pandas":
            return str(value)
        return next(write for base, write in _WRITERS if issubclass(kind, base))(value)
    except Exception:  # a value that raises an error counts as missing
        return None


def number_of(value: Any) -> float:
    """The float nearest to a number; NaN for every other value, also for text, true and false."""
    kind = type(value)
    try:
        if issubclass(kind, complex | np.complexfloating):
            return float(value.real) if value.imag == 0 else math.nan
        if issubclass(kind, _NUMBERS) and not issubclass(kind, bool | np.timedelta64):
            return float(value)
    except Exception:
        return math.nan
    return math.nan


def moment_of(value: Any) -> tuple[bool, int] | None:
    """Whether a time has a zone, and its nanoseconds since 1970; None for every other value.

    A day counts as its first moment. Years may have more or fewer than four digits.
    """
    try:
        return _instant(value) if issubclass(type(value), date | np.datetime64) else None
    except Exception:
        return None


def _instant(value: Any) -> tuple[bool, int] | None:
    if value != value:  # NaT of pandas and NumPy is no time
        return None
    moment = getattr(value, "to_datetime64", lambda: value)()  # as pandas has it
    if isinstance(moment, np.datetime64):
        is_zoned = getattr(value, "tzinfo", None) is not None
        unit = np.datetime_data(moment)[0]
        if unit not in NANOSECONDS:
            moment = moment.astype(f"datetime64[{'s' if unit in 'YM' else 'ns'}]")
        return is_zoned, _nanoseconds(moment)
    day = (date.toordinal(value) - _FIRST_DAY) * NANOSECONDS["D"]
    if not isinstance(value, datetime):
        return False, day
    since = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    zone = value.utcoffset()
    since -= zone or timedelta(0)
    return zone is not None, day + since // timedelta(microseconds=1) * NANOSECONDS["us"]


def _text(value: str) -> str:
    text = str.__str__(value)
    if not text.isascii():
        text.encode()  # fails where it is no UTF-8
    return text


def _whole(value: int) -> str | None:
    number = int.__int__(value)
    return str(number) if number.bit_length() <= _MOST_BITS else None


def _float(value: float) -> str | None:
    number = float.__float__(value)
    if number != number:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _long_float(value: Any) -> str | None:
    """The text of a NumPy float, which may be longer than a Python float."""
    is_whole = np.isfinite(value) and value == value // 1
    return _whole(int(value)) if is_whole else _float(float(value))


def _real(value: Any) -> str | None:
    return _float(float(value.real)) if value.imag == 0 else None


def _decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None if value.is_nan() else _float(float(value))
    value = value.normalize(_ALL_DIGITS)
    digits, exponent = value.as_tuple()[1:]
    if max(len(digits), abs(int(exponent))) > _MOST_BITS:
        return None
    if int(exponent) >= 0:
        return _whole(int(value))
    near = float(value)
    is_float = value in (Decimal(near), Decimal(repr(near)))
    return repr(near) if is_float else str(value)


def _moment(value: Any) -> str | None:
    instant = _instant(value)
    if instant is None:
        return None
    is_zoned, nanoseconds = instant
    seconds, remainder = divmod(nanoseconds, 10**9)
    text = str(np.datetime64(seconds, "s"))
    if remainder:
        text += f".{remainder:09}"
    if is_zoned:
        text += _UTC
    return _trimmed(text)


def _trimmed(text: str) -> str:
    """The same time without zeros at its end, because types write these differently."""
    local, plus, zone = text.partition("+")
    if "." in local:
        local = local.rstrip("0").rstrip(".")
    if plus:
        return local + plus + zone
    return local.removesuffix("T00:00:00")


def _time(value: time) -> str:
    if value.utcoffset() is None:
        return _trimmed(value.replace(tzinfo=None).isoformat())
    on_a_day = datetime.combine(date(2000, 1, 2), value)
    return _trimmed(on_a_day.astimezone(UTC).timetz().isoformat())


def _span(value: timedelta) -> str:
    seconds = value.days * 86_400 + value.seconds
    nanoseconds = seconds * 10**9 + value.microseconds * 1000
    return _seconds(nanoseconds + getattr(value, "nanoseconds", 0))


def _nanoseconds(value: np.datetime64 | np.timedelta64) -> int:
    unit, many = np.datetime_data(value)
    return int(value.astype(np.int64)) * many * NANOSECONDS[unit]


def _seconds(nanoseconds: int) -> str:
    seconds, remainder = divmod(abs(nanoseconds), 10**9)
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}PT{_trimmed(f'{seconds}.{remainder:09}')}S"


_EXACT: dict[type, Callable[[Any], str | None]] = {str: _text, int: _whole, float: _float}
"""The types of nearly all values. A cache of types would reveal which types occurred before."""
_WRITERS: tuple[tuple[Any, Callable[[Any], str | None]], ...] = (
    (str, _text),
    (bool | np.bool_, lambda value: "true" if bool(value) else "false"),
    (int, _whole),
    (np.datetime64 | date, _moment),
    (np.timedelta64, lambda value: None if np.isnat(value) else _seconds(_nanoseconds(value))),
    (np.integer, lambda value: _whole(int(value))),
    (float, _float),
    (np.floating, _long_float),
    # pandas makes all numbers of a column complex if one of them is.
    (complex | np.complexfloating, _real),
    (Decimal, _decimal),
    (time, _time),
    (timedelta, _span),
    (UUID, str),
)


# --------------------------------------------------------------------------------------------------
# Columns of pandas, read value by value: no row decides how another one is read.
#
# pandas takes the type of a column from its rows, so its types decide nothing. Numbers stay
# numbers, and everything else becomes text, coded as a category: pandas 2 compares texts only up to
# a NUL character, but compares codes exactly. If a column stores which values are equal, only the
# different values are read. This is faster, and gives the same result.


def plain_frame(table: Any, names: list[str]) -> Any:
    """Columns that can be compared: numbers, true and false, stated types, or coded texts."""
    import pandas  # type: ignore[import-untyped]

    columns = {}
    for name in names:
        kind = table[name].dtype
        is_stated = is_asked_for(kind) and not _is_dictionary(kind)
        is_plain = is_stated or is_number(kind) or kind == "bool"
        columns[name] = table[name] if is_plain else coded_texts(table[name])
    return pandas.DataFrame(columns)


def _is_dictionary(kind: Any) -> bool:
    """Whether a type lists values in a dictionary of Arrow: one value may be there twice."""
    return hasattr(getattr(kind, "pyarrow_dtype", None), "value_type")


def coded_texts(column: Any) -> Any:
    """A column of the texts of its values, as a category."""
    import pandas

    codes, texts = _texts(column)
    coded = pandas.Categorical.from_codes(codes, pandas.Index(texts, dtype=object))
    return pandas.Series(coded, index=column.index)


def arrow_texts(column: Any) -> "pyarrow.Array | pyarrow.ChunkedArray":
    """The texts of the values of a column, in Arrow; whole numbers and texts without a loop."""
    import pyarrow

    if is_number(column.dtype) and column.dtype.kind != "f":
        return pyarrow.array(column).cast(pyarrow.large_string())
    pure = _pure_text(column)
    if pure is not None:
        return pure
    codes, texts = _texts(column)
    indices = pyarrow.array(codes, mask=codes < 0)
    listed = pyarrow.array(texts, pyarrow.large_string())  # offsets of 64 bits: texts may be many
    return pyarrow.DictionaryArray.from_arrays(indices, listed).dictionary_decode()


def is_number(kind: Any) -> bool:
    """Whether a type is one of numbers that every engine knows."""
    return isinstance(kind, np.dtype) and (kind.kind in "iu" or kind in ("float32", "float64"))


def each_value(column: Any, function: Callable[[Any], float]) -> NDArray[np.float64]:
    """The result of a function for each value; NaN for rows without a value."""
    codes, values = _distinct(column)
    return np.array([*map(function, values), math.nan])[codes]


def since_1970(column: Any) -> Any:
    """The whole numbers of a column of times: how many of its time units after 1970."""
    import pandas

    times = pandas.DatetimeIndex(column)
    since = pandas.arrays.IntegerArray(times.asi8, times.isna())
    return pandas.Series(since, index=column.index)


def judging(column: Any, key: Callable[[Any], Any]) -> Callable[[Callable[[Any], bool]], Any]:
    """A function that judges rows by a test of their value's key; without a value it is None.

    The test is always called for None too: whether it is called must not depend on values.
    """
    import pandas

    codes, values = _distinct(column)
    keys = list(map(key, values))

    def judge(test: Callable[[Any], bool]) -> Any:
        passed = np.array([test(value_key) for value_key in (*keys, None)])
        return pandas.Series(passed[codes], index=column.index)

    return judge


def _texts(column: Any) -> tuple[Integers, list[str]]:
    """The different texts, and for each row the index of its text; −1 for none."""
    codes, values = _distinct(column)
    places: dict[str | None, int] = {None: -1}
    indices = [places.setdefault(form_of(value), len(places) - 1) for value in values]
    texts = [text for text in places if text is not None]
    return np.array([*indices, -1], dtype=np.int64)[codes], texts


def _distinct(column: Any) -> tuple[Integers, Iterable[Any]]:
    """Values, and for each row the index of its value; −1 for none. Values may be repeated.

    `factorize` is only for types whose equal values are the same: among objects it treats 1 and
    True as equal, and in pandas 2 some different texts.
    """
    kind = column.dtype
    if str(kind) == "category":
        return column.cat.codes.to_numpy(), _in_utc(column.cat.categories).astype(object)
    if kind == "bool" or is_number(kind) or kind.kind in ("m", "M"):
        codes, values = column.factorize()
        return codes, _in_utc(values)
    pure = _pure_text(column)
    if pure is None:
        return np.arange(len(column)), column.astype(object).tolist()
    coded = pure.dictionary_encode()
    if hasattr(coded, "combine_chunks"):
        coded = coded.combine_chunks()
    return coded.indices.fill_null(-1).to_numpy(), coded.dictionary.to_pylist()


def _in_utc(values: Any) -> Any:
    """The same values in UTC: other zones have fewer years, and a time beyond them would fail."""
    return values if getattr(values.dtype, "tz", None) is None else values.tz_convert("UTC")


def _pure_text(column: Any) -> "pyarrow.Array | pyarrow.ChunkedArray | None":
    """A column with only text, in Arrow; None if it has other values, or Arrow is missing."""
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]

    is_text = str(column.dtype).startswith("str") or infer_dtype(column, skipna=True) == "string"
    with suppress(Exception):  # text that is not UTF-8
        import pyarrow

        if is_text:  # Arrow would accept bytes as text
            return pyarrow.array(column, pyarrow.large_string(), from_pandas=True)
    return None
