"""Columns of pandas, read value by value: no row decides how another one is read.

pandas takes the type of a column from its rows, so its types tell nothing. Numbers stay numbers and
all else becomes text (`dpgap.data.values`), coded as a category: pandas 2 compares texts only up to
a zero in them, and codes as they are. Where a column tells that many of its values are the same,
only different ones are looked at. That is quicker, and gives the same.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgap.data.addresses import is_asked_for
from dpgap.data.private_counts import Integers
from dpgap.data.values import form_of

if TYPE_CHECKING:
    import pyarrow


def plain_frame(table: Any, names: list[str]) -> Any:
    """Columns that can be compared: of numbers, true and false, coded texts, or types asked for."""
    import pandas  # type: ignore[import-untyped]

    return pandas.DataFrame({name: _plain(table[name]) for name in names})


def _plain(column: Any) -> Any:
    kind = column.dtype
    is_plain = is_asked_for(kind) or is_number(kind) or kind == "bool"
    return column if is_plain else coded_texts(column)


def coded_texts(column: Any) -> Any:
    """A column of the texts of its values, as a category."""
    import pandas

    codes, texts = _texts(column)
    coded = pandas.Categorical.from_codes(codes, pandas.Index(texts, dtype=object))
    return pandas.Series(coded, index=column.index)


def arrow_texts(column: Any) -> "pyarrow.Array | pyarrow.ChunkedArray":
    """The texts of the values of a column, in Arrow."""
    import pyarrow

    if is_number(column.dtype) and column.dtype.kind != "f":
        return pyarrow.array(column).cast(pyarrow.large_string())
    pure = _pure_text(column)
    if pure is not None:
        return pure
    codes, texts = _texts(column)
    told = pyarrow.array(codes, mask=codes < 0)
    known = pyarrow.array(texts, pyarrow.large_string())
    return pyarrow.DictionaryArray.from_arrays(told, known).dictionary_decode()


def is_number(kind: Any) -> bool:
    """Whether a type is one of numbers that every engine knows."""
    return isinstance(kind, np.dtype) and (kind.kind in "iu" or kind in ("float32", "float64"))


def each_value(column: Any, function: Callable[[Any], float]) -> NDArray[np.float64]:
    """The number that a function gives for each value; NaN where a row has none."""
    codes, values = _distinct(column)
    return np.array([*map(function, values), math.nan])[codes]


def since_1970(column: Any) -> tuple[str, Any]:
    """The unit of a column of times, and how many of it have passed since 1970."""
    import pandas

    times = pandas.DatetimeIndex(column)
    since = pandas.arrays.IntegerArray(times.asi8, times.isna())
    return times.unit, pandas.Series(since, index=column.index)


def judging(column: Any, key: Callable[[Any], Any]) -> Callable[[Callable[[Any], bool]], Any]:
    """How to judge rows by a test of their value's key; a row whose key is None never passes."""
    import pandas

    codes, values = _distinct(column)
    keys = list(map(key, values))

    def judge(test: Callable[[Any], bool]) -> Any:
        passed = np.array([*(each is not None and test(each) for each in keys), False])
        return pandas.Series(passed[codes], index=column.index)

    return judge


def _texts(column: Any) -> tuple[Integers, list[str]]:
    """Texts, and for each row which of them it has; −1 for none."""
    codes, values = _distinct(column)
    places: dict[str | None, int] = {None: -1}
    found = [places.setdefault(form_of(value), len(places) - 1) for value in values]
    return np.array([*found, -1], dtype=np.int64)[codes], [
        text for text in places if text is not None
    ]


def _distinct(column: Any) -> tuple[Integers, Iterable[Any]]:
    """Values, and for each row which of them it has; −1 for none. Some may come several times.

    `factorize` is for types whose equal values are the same: among objects it takes 1 for True, and
    in pandas 2 one text for another.
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
    """The same values; a zone of its own has fewer years, and one time beyond them would fail."""
    return values if getattr(values.dtype, "tz", None) is None else values.tz_convert("UTC")


def _pure_text(column: Any) -> "pyarrow.Array | pyarrow.ChunkedArray | None":
    """A column of nothing but text, in Arrow; None if it is none, or Arrow is not there."""
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]

    is_text = str(column.dtype).startswith("str") or infer_dtype(column, skipna=True) == "string"
    with suppress(Exception):  # text that is no UTF-8
        import pyarrow

        if is_text:  # Arrow would take bytes for text
            return pyarrow.array(column, pyarrow.large_string(), from_pandas=True)
    return None
