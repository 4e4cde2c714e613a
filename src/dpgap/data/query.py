"""The counting query: how many distinct units each item has, and which items are wanted.

It is written once, in Narwhals, for every frame and engine. NULL units and NULL items are dropped,
and NaN is NULL. So adding or removing one unit moves every count by at most one, and all in the
same direction, however many rows it has.
"""

import narwhals as nw
from narwhals.dtypes import DType

from dpgap.data.addresses import Frame, Lazy, guessed, require_columns
from dpgap.data.tracebacks import UNREADABLE, quietly

_LARGEST = (1 << 63) - 1024
"""The largest float that is a whole number of 64 bits."""

_TEXTS = ("String", "Categorical", "Enum")
_COUNTABLE = (*_TEXTS, "Boolean", "Float32", "Float64")
_WHOLE_TEXT = "^(0|-?[1-9][0-9]{0,17})$"
_LONGEST_WHOLE = 19


def count_units(frame: Frame, unit: str, item: str) -> Frame:
    """How many distinct units each item has: a frame of `item` and `units`, lazy as that given."""
    columns = {"item": item} if unit == "row" else {"item": item, "unit": unit}
    rows = rows_of(purified(frame, list(columns.values())), columns)
    return quietly(lambda: _count(rows), UNREADABLE)


def count_all_units(frame: Frame, unit: str) -> Frame:
    """How many distinct units there are: a frame of one number."""
    if unit == "row":
        return frame.select(nw.len())
    rows = rows_of(purified(frame, [unit]), {"unit": unit})
    return quietly(lambda: rows.group_by("unit").agg(nw.len()).select(nw.len()), UNREADABLE)


def purified(frame: Frame, names: list[str]) -> Frame:
    """A frame whose columns of these names hold values of one type each."""
    require_columns(list(quietly(frame.collect_schema, UNREADABLE)), *names)
    names = list(dict.fromkeys(names))
    if frame.implementation.is_pandas():
        return _purify_pandas(frame, names)
    return _purify_arrow(frame, names) if frame.implementation.is_pyarrow() else frame


def rows_of(frame: Frame, columns: dict[str, str]) -> Frame:
    """The rows that have a value in all these columns, which are called by their roles."""
    schema = quietly(frame.collect_schema, UNREADABLE)
    for role, name in columns.items():
        _require_plain(name, schema[name], role)
    return quietly(lambda: _comparable_rows(frame, columns, schema), UNREADABLE)


def states_numbers(frame: Frame, name: str) -> bool:
    """Whether the schema, and not somebody's row, tells that a column holds numbers."""
    return name not in guessed(frame) and bool(frame.collect_schema()[name].is_numeric())


def _purify_pandas(frame: Frame, names: list[str]) -> Frame:
    """The columns of a pandas frame, which alone may hold anything."""
    from dpgap.data.pandas_columns import plain_frame

    pure: Frame = quietly(lambda: nw.from_native(plain_frame(frame.to_native(), names)), UNREADABLE)
    return pure


def _purify_arrow(frame: Frame, names: list[str]) -> Frame:
    """The columns of an Arrow table; views of text become text, which can be missing as well."""
    import pyarrow

    table = frame.to_native().select(names)
    kinds = [
        pyarrow.large_string() if str(field.type) == "string_view" else field.type
        for field in table.schema
    ]
    pure: Frame = nw.from_native(table.cast(pyarrow.schema(zip(names, kinds, strict=True))))
    return pure


def _require_plain(name: str, kind: DType, role: str) -> None:
    """Refuse a column that is not of one plain type, or whose values cannot serve for its role."""
    if kind.is_nested() or type(kind).__name__ == "Object":
        raise ValueError(f"column {name!r} must hold plain values of one type")
    if role == "amount" and not (kind.is_numeric() or type(kind).__name__ in _TEXTS):
        raise ValueError(
            f"column {name!r} must hold numbers, or text that says numbers, to be summed"
        )
    is_told_by_text = role in ("item", "group")
    if is_told_by_text and type(kind).__name__ not in _COUNTABLE and not kind.is_integer():
        raise ValueError(
            f"column {name!r} must hold text, whole numbers or true and false to be counted; "
            "cast it to text first"
        )


def _comparable_rows(frame: Frame, columns: dict[str, str], schema: nw.Schema) -> Frame:
    is_coded = frame.implementation.is_pandas()
    rows = frame.select(
        *(
            _comparable(name, schema[name], role, is_coded=is_coded).alias(role)
            for role, name in columns.items()
        )
    ).drop_nulls()
    for role, name in columns.items():
        if schema[name].is_float() and role != "amount":
            rows = rows.filter(_is_number(nw.col(role)))
    return rows


def _count(rows: Frame) -> Frame:
    if (
        "unit" in rows.collect_schema()
    ):  # grouping finds distinct pairs faster than `unique`, on every engine
        rows = rows.group_by("unit", "item").agg(nw.len().alias("rows"))
    return rows.group_by("item").agg(nw.len().alias("units"))


def _comparable(name: str, kind: DType, role: str, *, is_coded: bool) -> nw.Expr:
    """A column whose equal values are equal to every engine, and that can be fetched."""
    if role == "amount" or (is_coded and kind == nw.Categorical):
        return nw.col(name)  # amounts are compared with nothing
    if type(kind).__name__ in ("Categorical", "Enum", "Int128", "UInt128"):
        return nw.col(name).cast(nw.String)
    return nw.col(name) + 0.0 if kind.is_float() else nw.col(name)  # −0.0 becomes 0.0


def is_finite(value: nw.Expr) -> nw.Expr:
    """Whether a float is neither NaN nor infinite.

    DuckDB's `isnan` trusts the statistics of Parquet files, which know no NaN. But a difference is
    NaN for NaN and for infinity, whatever statistics say.
    """
    return value - value == 0.0


def _is_number(value: nw.Expr) -> nw.Expr:
    """Whether a float is not NaN."""
    return is_finite(value) | (value == float("inf")) | (value == float("-inf"))


def keep_range(rows: Lazy, kind: DType, labels: range) -> Lazy:
    """The rows whose items are whole numbers of a range."""
    low, high = min(labels[0], labels[-1]), max(labels[0], labels[-1])
    item, others = nw.col("item"), _others(rows)
    if kind == nw.Int64:
        return _every(rows.filter(item.is_between(low, high)), low, labels.step)
    numbers = rows.select(_as_number(kind, low, high).alias("number"), "item", *others)
    if kind == nw.String:  # a number has one spelling only
        numbers = numbers.filter(nw.col("number").cast(nw.String) == item)
    inside = numbers.select(nw.col("number").alias("item"), *others).filter(
        item.is_between(low, high)
    )
    return _every(inside, low, labels.step)


def _every(rows: Lazy, low: int, step: int) -> Lazy:
    """The rows whose items are whole steps above `low`."""
    return rows if abs(step) == 1 else rows.filter((nw.col("item") - low) % abs(step) == 0)


def keep_listed(rows: Lazy, column: str, kind: DType, listed: Lazy) -> Lazy:
    """The rows whose value in a column is listed, which is then called by its position.

    `listed` is a frame of `item` and `position`: whole numbers where the column holds such, or
    texts.
    """
    value = (
        nw.col(column) if listed.collect_schema()["item"].is_integer() else _as_text(kind, column)
    )
    found = rows.select(value.alias("sought"), *_others(rows, column))
    known = listed.select(nw.col("item").alias("listed"), nw.col("position").alias(column))
    return found.join(known, left_on="sought", right_on="listed", how="inner").select(
        column, *_others(rows, column)
    )


def keep_known(known: Lazy, own: DType, rows: Lazy, kind: DType) -> Lazy:
    """The rows whose items are in a table, a frame of `item` of type `own`, called as there."""
    known, others = known.drop_nulls().unique(), _others(rows)
    if own.is_integer() and kind.is_integer():
        return rows.join(known, on="item", how="semi")
    texts = known.select(_as_text(own).alias("listed"), nw.col("item"))
    found = rows.select(_as_text(kind).alias("sought"), *others)
    return found.join(texts, left_on="sought", right_on="listed", how="inner").select(
        "item", *others
    )


def _others(rows: Lazy, column: str = "item") -> list[str]:
    return [name for name in rows.collect_schema() if name != column]


def keep_items(known: Lazy, own: DType, counted: Lazy, kind: DType) -> Lazy:
    """The counts of the items of a table, a frame of `item` of type `own`; 0 for absent ones."""
    known = known.drop_nulls().unique()
    if not (own.is_integer() and kind.is_integer()):
        return keep_texts(known.with_columns(_as_text(own).alias("text")), counted, kind)
    return _fill_absent(known.join(counted, on="item", how="left"))


def keep_texts(known: Lazy, counted: Lazy, kind: DType) -> Lazy:
    """The counts of known items, whose `text` says how they are found; 0 for absent ones."""
    found = counted.select(_as_text(kind).alias("found"), "units")
    return _fill_absent(known.join(found, left_on="text", right_on="found", how="left"))


def _fill_absent(joined: Lazy) -> Lazy:
    return joined.select("item", nw.col("units").fill_null(0))


def _as_number(kind: DType, low: int, high: int, column: str = "item") -> nw.Expr:
    """Items as whole numbers, NULL where they are none; in a CASE, so that no cast can fail."""
    item = nw.col(column)
    if kind == nw.String:
        item = short(item, _LONGEST_WHOLE)
        # To Java "$" also stands before a last line break of any kind, which no cast would take.
        is_number = item.str.contains(_WHOLE_TEXT) & ~item.str.contains("[^0-9-]")
    elif kind.is_float():
        is_number = item.is_between(float(-_LARGEST), float(_LARGEST)) & (item.floor() == item)
    else:
        is_number = item.is_between(low, high)
    return nw.when(is_number).then(item).otherwise(None).cast(nw.Int64)


def short(text: nw.Expr, most: int) -> nw.Expr:
    """Text of at most so many letters, NULL where there are more.

    It goes before every pattern, in a CASE of its own: PostgreSQL looks for none in 256 MB.
    """
    return nw.when(text.str.len_chars() <= most).then(text)


def _as_text(kind: DType, column: str = "item") -> nw.Expr:
    """Items as the text that they are compared by; NULL where numbers are not whole."""
    item = nw.col(column)
    if kind == nw.Boolean:
        return nw.when(item).then(nw.lit("true")).otherwise(nw.lit("false"))
    if kind.is_float():
        return _as_number(kind, -_LARGEST, _LARGEST, column).cast(nw.String)
    return item if kind == nw.String else item.cast(nw.String)
