"""Whether a stated domain is the private table itself, told without looking at any value.

A domain read from the private table says which items somebody has, and then nothing is private.
That can be told where both come from one file, from one frame or from the same memory, and where an
engine says that two expressions are the same. A copy of the column cannot be told from public
values: the guarantee says that they must be public.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from dpgap.data.files import is_table

Span = tuple[int, int]
"""Where memory starts and where it ends."""

OWN_COLUMN = (
    "domain must be public, but this is a column of the private table itself: state a list, a "
    'range or a column of a public table; or "observed-not-private" to explore without privacy'
)


def refuse_own_column(table: Any, item: str | None, domain: Any) -> None:
    """Refuse a domain that is the table or a column of it."""
    import narwhals as nw

    if isinstance(table, str | os.PathLike):
        is_own = _is_same_file(os.fspath(table), domain)
    else:
        table, domain = (nw.to_native(each, pass_through=True) for each in (table, domain))
        is_own = table is domain or _is_told(_is_same_expression, table, item, domain)
        is_own = is_own or _is_told(_shares_memory, table, item, domain)
    if is_own:
        raise ValueError(OWN_COLUMN)


def _is_told(test: Callable[[Any, str | None, Any], bool], *given: Any) -> bool:
    """What a test says; what cannot be compared is not the same."""
    with suppress(Exception):
        return test(*given)
    return False


def _is_same_file(table: str, domain: Any) -> bool:
    if not isinstance(domain, str | os.PathLike):
        return False
    path, colon, _ = os.fspath(domain).rpartition(":")
    with suppress(OSError, ValueError):
        return bool(colon) and is_table(path) and os.path.samefile(table, path)
    return False


def _is_same_expression(table: Any, item: str | None, domain: Any) -> bool:
    """Whether an engine says that the domain is the item column of the table, or its values."""
    column = table.select(item)
    if hasattr(table, "sql_query"):  # DuckDB
        return domain.sql_query() in (column.sql_query(), column.distinct().sql_query())
    if hasattr(table, "sameSemantics"):  # Spark
        return any(domain.sameSemantics(each) for each in (column, column.distinct()))
    if hasattr(table, "equals") and hasattr(table, "get_backend"):  # Ibis
        return any(domain.equals(each) for each in (column, column.distinct(), table[item]))
    return False


def _shares_memory(table: Any, item: str | None, domain: Any) -> bool:
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    known = nw.from_native(domain, pass_through=True, allow_series=True)
    columns = known.iter_columns() if isinstance(known, nw.DataFrame) else [known]
    # Both are held until they are compared: memory that was let go of is soon somebody else's.
    stated = [
        each for column in columns for each in _buffers(nw.to_native(column, pass_through=True))
    ]
    if not stated:
        return False
    own = [each for column in frame.iter_columns() for each in _buffers(column.to_native())]
    return any(_overlap(_span(one), _span(other)) for one in own for other in stated)


def _buffers(column: Any) -> list[Any]:
    """Arrays that hold the values of a column, as its library tells; it may copy them."""
    if hasattr(column, "to_physical"):  # Polars
        import polars

        column = column.to_physical().to_arrow(compat_level=polars.CompatLevel.newest())
    elif hasattr(column, "array"):  # pandas
        column = getattr(column.array, "codes", column.array)
        column = column.__arrow_array__() if hasattr(column, "__arrow_array__") else column
    if not hasattr(column, "chunks") and not hasattr(column, "buffers"):
        return [np.asarray(column)] if hasattr(column, "__array__") else []
    chunks = getattr(column, "chunks", [column])
    values = [getattr(chunk, "indices", chunk) for chunk in chunks]
    # The first buffer says which values are NULL.
    return [buffer for chunk in values for buffer in chunk.buffers()[1:] if buffer is not None]


def _span(buffer: Any) -> Span:
    if isinstance(buffer, np.ndarray):
        return np.lib.array_utils.byte_bounds(buffer)
    return buffer.address, buffer.address + buffer.size


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
