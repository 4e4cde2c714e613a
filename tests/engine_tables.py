"""The engines that tests count in, and rows as Arrow has them."""

from collections.abc import Callable
from typing import Any

import pyarrow

Load = Callable[..., Any]
"""Called with the types of `who` and `what` in Spark's words, and rows: a frame of the engine."""

ENGINES = ["duckdb", "parquet", "ibis", "postgres", "spark"]

_ARROW = {
    "string": pyarrow.string(),
    "bigint": pyarrow.int64(),
    "smallint": pyarrow.int16(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
}


def arrow(who: str, what: str, rows: list[Any]) -> pyarrow.Table:
    """Rows of two columns as a table of Arrow."""
    columns = zip(*rows, strict=True)
    pairs = zip(("who", "what"), (who, what), columns, strict=True)
    return pyarrow.table({name: pyarrow.array(each, _ARROW[kind]) for name, kind, each in pairs})
