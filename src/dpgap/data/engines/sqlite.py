"""Tables of SQLite: the columns that a question names are read into this process, as text.

SQLite keeps any value in a column of any type: 1.5 and 'yes' in a column of integers, bytes in a
column of text. It groups them by what they are, and a reader of integers would see one item twice.
So nothing is compared in SQLite, and its types and collations decide nothing. Each value becomes
its text (`form_of`) before anything is counted, as in a CSV file. Bytes, and text that is not
UTF-8, count as missing.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from dpgap.data.sources import Families, quoted
from dpgap.data.values import form_of

if TYPE_CHECKING:
    import pyarrow

_ROWS_AT_ONCE = 1 << 16
_NO_COLUMN = "nothing"


class SQLiteRows(NamedTuple):
    """The rows of a query to SQLite, which are not read yet."""

    connection: sqlite3.Connection
    query: str

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        cursor = self.connection.execute(f"SELECT * FROM ({self.query}) LIMIT 0")
        return [name for name, *_ in cursor.description]

    @property
    def families(self) -> Families:
        """All columns, with the family of their values: text."""
        return tuple((name, "text") for name in self.columns)

    def select(self, *names: str) -> "pyarrow.Table":
        """These columns of all rows, read in one statement."""
        import pyarrow

        # Without columns, rows are only counted.
        columns = list(names) or [_NO_COLUMN]
        # A plus hides the declared type, by which a connection may convert values or fail.
        listed = ", ".join(f"+{quoted(name)} AS value" for name in names) or "NULL"
        schema = pyarrow.schema([(name, pyarrow.large_string()) for name in columns])
        batches = []
        with _lenient(self.connection):
            cursor = self.connection.execute(f"SELECT {listed} FROM ({self.query})")
            cursor.row_factory = None
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                texts = [list(map(form_of, values)) for values in zip(*rows, strict=True)]
                batches.append(pyarrow.record_batch(texts, schema=schema))
        return pyarrow.Table.from_batches(batches, schema)


def table_of(connection: sqlite3.Connection, name: str, database: str | None) -> SQLiteRows:
    """The rows of a table; an error if there is no such table."""
    rows = SQLiteRows(connection, f"SELECT * FROM {quoted(database or 'main')}.{quoted(name)}")
    rows.columns  # noqa: B018 (asks SQLite)
    return rows


@contextmanager
def _lenient(connection: sqlite3.Connection) -> Iterator[None]:
    """Read text that is not UTF-8 as a missing value, instead of an error."""
    factory = connection.text_factory
    connection.text_factory = _text
    try:
        yield
    finally:
        connection.text_factory = factory


def _text(value: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return value.decode()
    return None
