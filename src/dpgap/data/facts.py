"""What is public of a table and of a domain: where it is, its columns, a hash of its items.

All of it comes from names and schemas, never from rows. The same table has the same facts whoever
reads it, as far as its types are stated at all:

- A CSV file states no types. Its columns are text, which is how they are read.
- Lines of JSON state no columns. Which keys they have is private, so no column is told.
- An object column of pandas could hold anything, and categories are made of whatever occurs. Both
  are called text, whatever their rows hold. pandas has no type for days; they are objects.
- Every other column has the type that its frame, file or database states.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from operator import eq
from typing import Any
from urllib.parse import SplitResult, quote, urlencode

Families = tuple[tuple[str, str], ...]
"""Names of columns, and the families of their types."""

FIMI_COLUMNS: Families = (("line", "integer"), ("item", "integer"))
"""What every FIMI file has."""

GUESSED = ("object", "category")
"""Types of pandas that say nothing of the values."""

_FAMILIES = {
    "String": "text",
    "Categorical": "text",
    "Enum": "text",
    "Boolean": "boolean",
    "Decimal": "float",
    "Date": "date",
    "Datetime": "time",
    "Time": "time",
    "Binary": "bytes",
    "List": "list",
    "Array": "list",
}
_PORTS = {"postgresql": "5432", "mysql": "3306"}
_IN_FILES = ("duckdb", "sqlite")


def columns_of(frame: Any) -> Families:
    """The columns of a frame of Narwhals."""
    families = {str(name): _family(kind) for name, kind in frame.collect_schema().items()}
    if frame.implementation.is_pandas_like():
        kinds = frame.to_native().dtypes.items()
        families |= {str(name): "text" for name, kind in kinds if str(kind) in GUESSED}
    return tuple(families.items())


def _family(kind: Any) -> str:
    if kind.is_integer():
        return "integer"
    return "float" if kind.is_float() else _FAMILIES.get(type(kind).__name__, "other")


def file_address(path: str | os.PathLike[str]) -> str:
    """Where a file is, whichever way its path is written."""
    return os.path.realpath(path)


def table_address(url: SplitResult, options: dict[str, str], names: dict[str, str]) -> str:
    """Where a table in a database is, without a user, a password and what else is for connecting.

    `names` are of the table and its schema, and `options` what the URL says beside them.

    >>> from urllib.parse import urlsplit
    >>> url = urlsplit("postgres://ann:secret@DB.example.org:5432/shop?sslmode=require")
    >>> table_address(url, {"sslmode": "require"}, {"schema": "public", "table": "sales"})
    'postgresql://db.example.org/shop?schema=public&table=sales'
    """
    kind = "postgresql" if url.scheme == "postgres" else url.scheme
    if kind in _IN_FILES:
        place = file_address(url.netloc + url.path)
    else:
        host = url.hostname or options.get("host", "")
        port = str(url.port or options.get("port", _PORTS.get(kind, "")))
        colon = "" if port == _PORTS.get(kind, "") else f":{port}"
        database = url.path.strip("/").partition("/")[0] or options.get("dbname", "")
        place = f"{quote(host, safe='')}{colon}/{database}"
    return f"{kind}://{place}?{urlencode(sorted(names.items()))}"


def digest_of(labels: range | Sequence[Any], texts: Sequence[str]) -> str:
    """A hash of a domain's items in order, by their texts; a range is hashed by its ends.

    >>> digest_of(range(3), ()) == digest_of(["0", 1, 2], ["0", "1", "2"])
    True
    """
    numbers = labels if isinstance(labels, range) else _as_range(texts)
    if numbers is None:
        return _hash_of_texts(texts)
    step = numbers.step if len(numbers) > 1 else 1
    return _hash({"first": numbers[0], "last": numbers[-1], "step": step})


def column_digest(address: str, column: str) -> str:
    """A hash for a domain that is a column of a table and never fetched: of where it is."""
    return _hash({"address": address, "column": column})


def _as_range(texts: Sequence[str]) -> range | None:
    """The range that has these texts, if there is one."""
    try:
        first, second, last = (int(texts[at]) for at in (0, min(1, len(texts) - 1), -1))
    except ValueError:
        return None
    step = second - first or 1
    if first + step * (len(texts) - 1) != last:
        return None
    numbers = range(first, last + step, step)
    return numbers if all(map(eq, map(str, numbers), texts)) else None


def _hash_of_texts(texts: Sequence[str]) -> str:
    joined = "\0".join(texts)  # several times as fast as JSON
    if joined.count("\0") >= len(texts):
        return _hash(texts)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
