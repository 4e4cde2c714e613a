"""Files to tables, through embedded DuckDB: Parquet, CSV, JSON lines and FIMI, plain or gzipped.

Columns of CSV files are text and an empty field is NULL; how to read them is told by their first
line and never guessed from rows. Engines quote rows in their error messages, so none of those
passes through: `quietly` answers in words of our own.
"""

import csv
import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".dat": "fimi",
}

ACCEPTED = ".parquet, .csv, .tsv, .jsonl, .ndjson, .json or .dat (FIMI); all but Parquet also .gz"

FIMI_LINE, FIMI_ITEM = "line", "item of a line"

LINE_UNITS = (None, "row", "line")
"""What `unit` may be for a FIMI file, where each line is a unit."""

NOT_FIMI = (
    "table must be a .dat file of whole numbers, separated by spaces on lines that all end alike"
)
_MAX_LINE = 1 << 24
_MAX_HEADER = 1 << 20
_WHOLE_NUMBERS = {"UBIGINT", "BIGINT", "HUGEINT", "UHUGEINT"}

UNREADABLE = (
    "table could not be read: the engine that holds it refused or was stopped; nothing was charged"
)

T = TypeVar("T")


class Columns(NamedTuple):
    """A table and which of its columns to look at; and the database that a file was opened in."""

    table: Any
    unit: str
    item: str
    database: "DuckDBPyConnection | None" = None


def quietly(action: Callable[[], T], otherwise: str) -> T:
    """What `action` gives, or an error that says `otherwise` and nothing of the engine's."""
    try:
        return action()
    except Exception:  # whatever it says may quote a row
        pass
    raise ValueError(otherwise) from None


def kind_of(path: str) -> str | None:
    """Which kind of table the file's name promises."""
    name = path.lower()
    plain = name.removesuffix(".gz")
    kind = _KINDS.get(Path(plain).suffix)
    return None if kind == "parquet" and plain != name else kind


def is_table(path: str) -> bool:
    """Whether `path` is a file of a kind that holds tables."""
    try:
        return kind_of(path) is not None and os.path.isfile(path)
    except ValueError:
        return False


@contextmanager
def read_file(path: str, unit: str | None, item: str | None) -> Iterator[Columns]:
    """Open a file as a table, for as long as the block lasts."""
    kind = _require_kind(path)
    with _database() as database:
        if kind == "fimi":
            yield _fimi(database, path, unit)
        else:
            if unit is None or item is None:
                raise TypeError(
                    "unit and item must be given: the column that says whose row it is (or "
                    '"row" where every row is its own unit), and the column to count'
                )
            table = _table(database, kind, path)
            yield Columns(_typed(table, kind, unit, item), unit, item, database)


def column_of(path: str, column: str) -> list[Any]:
    """The distinct values of one column of a public table, in order."""
    with _database() as database:
        values = column_in(database, path, column).distinct()
        rows = quietly(values.order(quoted(column)).fetchall, "domain could not be read")
        return [value for (value,) in rows]


def column_in(database: "DuckDBPyConnection", path: str, column: str) -> "DuckDBPyRelation":
    """One column of a public table, as a table in a database."""
    kind = _require_kind(path)
    if kind == "fimi":
        raise ValueError("domain must be a table with named columns, not a .dat file")
    table = _table(database, kind, path)
    require_columns(table.columns, column)
    return _typed(table, kind, "row", column).select(quoted(column))


def require_columns(columns: list[str], *names: str) -> None:
    """Refuse names that are not columns."""
    for name in names:
        if name not in columns:
            # Which columns there are is not said: without a header they are somebody's row.
            raise ValueError(f"there is no column {name!r} in the table")


def quoted(name: str) -> str:
    """A column's name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def _require_kind(path: str) -> str:
    kind = kind_of(path)
    if kind is None:
        raise ValueError(f"table must be a file ending in {ACCEPTED}, not {path!r}")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path!r}")
    return kind


@contextmanager
def _database() -> Iterator["DuckDBPyConnection"]:
    import duckdb

    # What does not fit into memory spills into a folder that only we can read, and is deleted.
    with tempfile.TemporaryDirectory(prefix="dpgap-") as spill:
        settings: dict[str, Any] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        database = duckdb.connect(config=settings)
        try:
            yield database
        finally:
            database.close()


def _table(database: "DuckDBPyConnection", kind: str, path: str) -> "DuckDBPyRelation":
    refusal = f"it must be a {kind.upper()} file in UTF-8 with named columns"
    reader = _csv_reader(path, refusal) if kind == "csv" else _READERS[kind]
    return quietly(
        lambda: database.sql(f"SELECT * FROM {reader.format(path=_literal(path))}"),
        f"table could not be read: {refusal}",
    )


# A folder called "customer=5" is no column, and nothing is guessed from the rows but their types.
_READERS = {
    "parquet": "read_parquet({path}, hive_partitioning = false)",
    "json": "read_json({path}, format = 'nd', maximum_depth = 1, sample_size = -1, "
    "map_inference_threshold = -1, hive_partitioning = false)",
}


def _csv_reader(path: str, refusal: str) -> str:
    """How to read a CSV file, from its first line alone.

    DuckDB would guess delimiters, quotes and comments from rows. Then one row could change how all
    the others are read, and the counts by more than one.
    """
    try:
        with _text(path) as file:
            names, delimiter = _header(file)
    except (OSError, ValueError, EOFError, csv.Error):
        raise ValueError(f"table could not be read: {refusal}") from None
    if len(set(names)) < len(names):
        raise ValueError("table must have a name of its own for every column")
    columns = ", ".join(f"{_sql_text(name)}: 'VARCHAR'" for name in names)
    columns = columns.replace("{", "{{").replace("}", "}}")
    return (
        f"read_csv({{path}}, auto_detect = false, header = true, columns = {{{{{columns}}}}}, "
        f"delim = {_sql_text(delimiter)}, quote = '\"', escape = '\"', comment = '', nullstr = '', "
        "hive_partitioning = false)"
    )


def _text(path: str) -> IO[str]:
    open_text = gzip.open if path.lower().endswith(".gz") else open
    file: IO[str] = open_text(path, "rt", encoding="utf-8-sig", newline="")
    return file


def _header(file: IO[str]) -> tuple[list[str], str]:
    """The names of the columns, and what stands between them: whatever divides them most."""
    start = file.read(_MAX_HEADER)
    headers = {
        delimiter: next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
        for delimiter in ",;\t|"
    }
    delimiter = max(headers, key=lambda each: len(headers[each]))
    names = headers[delimiter]
    if not names:
        raise ValueError("there is no first line")
    return [name or f"column{place}" for place, name in enumerate(names)], delimiter


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(path: str) -> str:
    """The path as SQL text, with nothing in it that DuckDB would expand."""
    absolute = str(Path(path).absolute())  # DuckDB takes a leading ~ for the home folder
    plain = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in absolute)
    return _sql_text(plain)


def _typed(table: "DuckDBPyRelation", kind: str, unit: str, item: str) -> "DuckDBPyRelation":
    """The unit and item columns, in JSON as their one type instead of as JSON."""
    names = [item] if unit == "row" else [unit, item]
    require_columns(table.columns, *names)
    if kind != "json":
        return table.select(", ".join(map(quoted, names)))
    return table.select(", ".join(_from_json(table, name) for name in names))


def _from_json(table: "DuckDBPyRelation", name: str) -> str:
    found = quietly(
        table.select(f"json_type({quoted(name)}) AS kind").distinct().fetchall,
        "table could not be read: it must be a JSON file with an object on each line",
    )
    kinds = {kind for (kind,) in found} - {None, "NULL"}
    if kinds <= {"VARCHAR"} or kinds <= {"BOOLEAN"} or kinds <= _WHOLE_NUMBERS:
        return f"{quoted(name)} ->> '$' AS {quoted(name)}"
    raise ValueError(f"column {name!r} must be all text or all whole numbers, not mixed")


def _fimi(database: "DuckDBPyConnection", path: str, unit: str | None) -> Columns:
    """One row for each item on each line."""
    if unit not in LINE_UNITS:
        raise ValueError(f"unit must be 'line' (or left out) for a .dat file, not {unit!r}")
    # Most lines have spaces only, and looking first is cheaper than replacing.
    query = f"""
        SELECT line AS {quoted(FIMI_LINE)}, unnest(string_split(items, ' ')) AS {quoted(FIMI_ITEM)}
        FROM (SELECT row_number() OVER () AS line,
                CASE WHEN contains(items, e'\\t') THEN translate(items, e'\\t', ' ')
                ELSE items END AS items
            FROM read_csv({_literal(path)}, columns = {{'items': 'VARCHAR'}}, delim = e'\\x01',
                quote = '', escape = '', comment = '', header = false, auto_detect = false,
                hive_partitioning = false, max_line_size = {_MAX_LINE}))"""
    table = quietly(
        lambda: database.sql(query).filter(f"{quoted(FIMI_ITEM)} <> ''"),
        NOT_FIMI,
    )
    return Columns(table, FIMI_LINE, FIMI_ITEM, database)
