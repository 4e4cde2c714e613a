"""Text that is no UTF-8 is no value in its row, whatever frame has it.

Arrow takes bytes for text without a look. So frames of Arrow, and those that were made of them, may
hold text that is none. One such text would refuse the call, or be taken for another one.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import narwhals as nw

from dpgap.data.addresses import Frame

_TEXTS = ("string", "large_string", "string_view")


def with_valid_text(frame: Frame, names: Iterable[str]) -> Frame:
    """The same rows; text in these columns that is no UTF-8 is NULL. A lazy frame stays lazy."""
    change = _CHANGES.get(frame.implementation)
    if change is None:
        return frame
    schema = frame.collect_schema()
    texts = [name for name in dict.fromkeys(names) if schema[name] in (nw.String, nw.Categorical)]
    changed: Frame = nw.from_native(change(frame.to_native(), texts))
    return changed


def _in_arrow(table: Any, names: list[str]) -> Any:
    for name in names:
        table = table.set_column(table.column_names.index(name), name, _valid(table[name]))
    return table


def _in_pandas(table: Any, names: list[str]) -> Any:
    return table.assign(**{name: _of_pandas(table[name]) for name in names})


def _of_pandas(column: Any) -> Any:
    kind = column.dtype
    if type(kind).__name__ != "ArrowDtype" and getattr(kind, "storage", "") != "pyarrow":
        return column  # texts of Python
    import pandas  # type: ignore[import-untyped]
    import pyarrow

    given = pyarrow.array(column.array)
    valid = _valid(given)
    if valid is given:
        return column
    return pandas.Series(kind.__from_arrow__(valid), index=column.index)


def _in_polars(frame: Any, names: list[str]) -> Any:
    import polars

    kinds = frame.lazy().collect_schema()

    def valid(column: Any) -> Any:
        told = column.cast(polars.String).cast(polars.Binary)
        with suppress(Exception):
            told.cast(polars.String)
            return column
        texts = map(_text, told.to_list())
        return polars.Series(column.name, texts, polars.String).cast(column.dtype)

    return frame.with_columns(
        polars.col(name).map_batches(valid, return_dtype=kinds[name], is_elementwise=True)
        for name in names
    )


def _in_duckdb(relation: Any, names: list[str]) -> Any:
    from dpgap.data.files import quoted

    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    valid = ", ".join(
        f"CASE WHEN TRY(decode(encode({name}))) IS NOT NULL THEN {name} END AS {name}"
        for name in (quoted(each) for each in names if kinds[each] == "VARCHAR")
    )
    return relation.select(f"* REPLACE ({valid})") if valid else relation


def _valid(column: Any) -> Any:
    """A column of Arrow without text that is no UTF-8; itself where there is none."""
    import pyarrow

    kind = getattr(column.type, "value_type", column.type)  # of a dictionary, what it lists
    if str(kind) not in _TEXTS:
        return column
    with suppress(Exception):
        column.validate(full=True)
        return column
    told = column.cast(kind).cast(pyarrow.large_string()).cast(pyarrow.large_binary())
    return pyarrow.array(map(_text, told.to_pylist()), column.type)


def _text(told: bytes | None) -> str | None:
    with suppress(UnicodeDecodeError):
        return None if told is None else told.decode()
    return None


_CHANGES: dict[nw.Implementation, Callable[[Any, list[str]], Any]] = {
    nw.Implementation.PYARROW: _in_arrow,
    nw.Implementation.PANDAS: _in_pandas,
    nw.Implementation.POLARS: _in_polars,
    nw.Implementation.DUCKDB: _in_duckdb,
}
