"""Files to tables, through embedded DuckDB: Parquet, CSV, JSON lines and FIMI, plain or gzipped.

How a file is read depends on its name and, for CSV, on its first line; never on its rows. Columns
of CSV files are text, and an empty field is NULL. A line of JSON is read by itself: its keys are
exact, its plain values are text, and a line that is no object has no item. So a key that no line
has is no error: all counts are 0. A line may have up to 16 MB.

A CSV record that is torn, too long or has too many or too few fields is refused, as is text that is
not UTF-8.
"""

import codecs
import csv
import gzip
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from dpgap.data.addresses import (
    FIMI_COLUMNS,
    Families,
    Source,
    columns_of,
    file_address,
    hint_at,
    is_url,
    require_columns,
    require_given,
)
from dpgap.data.tracebacks import quietly

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
_BYTES_AT_ONCE = 1 << 16
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SPACE = ord(" ")


def kind_of(path: str) -> str | None:
    """Which kind of table the file's name promises."""
    name = path.lower()
    plain = name.removesuffix(".gz")
    kind = _KINDS.get(Path(plain).suffix)
    return None if kind == "parquet" and plain != name else kind


def is_fimi(table: object) -> bool:
    """Whether a table is named as a FIMI file, where each line is a unit of many items."""
    is_path = isinstance(table, str | os.PathLike) and not is_url(table)
    return is_path and kind_of(str(table)) == "fimi"


def is_table(path: str) -> bool:
    """Whether `path` is a file of a kind that holds tables."""
    try:
        return kind_of(path) is not None and os.path.isfile(path)
    except ValueError:
        return False


@contextmanager
def read_file(
    path: str, unit: str | None, item: str | None, more: Sequence[str] = ()
) -> Iterator[Source]:
    """Open a file as a table, for as long as the block lasts; `more` are columns beside those."""
    kind = _require_kind(path)
    if kind == "fimi" and more:
        raise ValueError("by, sum and where need named columns, which a .dat file does not have")
    with embedded_database() as database:
        if kind == "fimi":
            read = _fimi(database, path, unit)
        else:
            read = _named(database, path, unit, item, more)
        name, address = os.path.basename(path), file_address(path)
        yield read._replace(name=name, address=address, database=database, path=path)


def _named(
    database: "DuckDBPyConnection",
    path: str,
    unit: str | None,
    item: str | None,
    more: Sequence[str],
) -> Source:
    """A file whose columns have names."""
    unit, item = require_given(unit, item)
    own = {"item": item, "unit": unit}
    if unit == "row":
        del own["unit"]
    if item == unit == "row":  # nothing but rows is looked at
        del own["item"]
    # Text files may call their columns anything, which not every engine takes.
    is_typed = kind_of(path) == "parquet"
    called = {role: name if is_typed else _other_than(role, more) for role, name in own.items()}
    names = {name: name for name in more} | {called[role]: name for role, name in own.items()}
    table, columns = _table(database, path, names)
    return Source(table, called.get("unit", "row"), called.get("item", "row"), columns=columns)


def _other_than(name: str, taken: Sequence[str]) -> str:
    """A name for a column that no other column has."""
    while name in taken:
        name += " of a row"
    return name


def stated_columns(path: str) -> Families:
    """All columns that a file states."""
    kind = _require_kind(path)
    if kind in _STATED:
        return _STATED[kind]
    with embedded_database() as database:
        return _table(database, path, {})[1]


_STATED: dict[str, Families] = {"json": (), "fimi": FIMI_COLUMNS}


def column_of(path: str, column: str) -> list[Any]:
    """The distinct values of one column of a public table, in order."""
    with embedded_database() as database:
        values = column_in(database, path, column).distinct()
        rows = quietly(values.order(quoted(column)).fetchall, "domain could not be read")
        return [value for (value,) in rows]


def column_in(database: "DuckDBPyConnection", path: str, column: str) -> "DuckDBPyRelation":
    """One column of a public table, as a table in a database."""
    if _require_kind(path) == "fimi":
        raise ValueError("domain must be a table with named columns, not a .dat file")
    return _table(database, path, {column: column})[0]


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
def embedded_database() -> Iterator["DuckDBPyConnection"]:
    """A DuckDB of our own, for as long as the block lasts."""
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
            # How long a query takes would show in the terminal. A notebook without ipywidgets has
            # no bar, and there DuckDB refuses to be told so.
            bar = database.execute("SELECT current_setting('enable_progress_bar')").fetchall()
            if bar != [(False,)]:
                database.execute("SET enable_progress_bar = false")
            yield database
        finally:
            database.close()


def _table(
    database: "DuckDBPyConnection", path: str, names: dict[str, str]
) -> tuple["DuckDBPyRelation", Families]:
    """Some columns of a file, each as what it is to be called and its name there.

    And all columns that the file states.
    """
    kind = _require_kind(path)
    refusal = (
        f"table could not be read: it must be a {kind.upper()} file in UTF-8 with {_HAS[kind]}"
    )
    if kind == "csv":
        header, reader = _csv_reader(path, refusal)
        require_columns(header, *names.values(), hint="; its first line says which there are")
    elif kind == "json":
        quietly(lambda: _require_no_mark(path), f"{refusal} and no byte-order mark")
        return quietly(lambda: database.sql(_from_json(path, names)), refusal), ()
    else:
        # A folder called "customer=5" is no column.
        reader = f"read_parquet({_literal(path)}, hive_partitioning = false)"
    table = quietly(lambda: database.sql(f"SELECT * FROM {reader}"), refusal)
    hint = hint_at(table.columns) if kind == "parquet" else ""
    require_columns(table.columns, *names.values(), hint=hint)
    called = (f"{quoted(name)} AS {quoted(alias)}" for alias, name in names.items())
    columns = columns_of(nw.from_native(table))
    return table.select(", ".join(called)) if names else table, columns


_HAS = {"csv": "named columns", "parquet": "named columns", "json": "a JSON object on each line"}
_NEAR = "TRY_CAST(texts[{place}] AS DOUBLE)"
_JSON_TEXT = f"""
    CASE WHEN kinds[{{place}}] IN ('OBJECT', 'ARRAY') THEN NULL
        WHEN kinds[{{place}}] <> 'DOUBLE' THEN texts[{{place}}]
        WHEN texts[{{place}}] ILIKE '%nan' THEN NULL
        WHEN regexp_matches(texts[{{place}}], '[.e]') AND {_NEAR} = trunc({_NEAR})
        THEN coalesce(CAST(TRY_CAST({_NEAR} AS HUGEINT) AS VARCHAR), texts[{{place}}])
        ELSE texts[{{place}}] END"""
"""A value as text, without a point if it is whole; long numbers stay as they are written."""


def _from_json(path: str, names: dict[str, str]) -> str:
    """A query for the values that lines have under these keys, as text.

    Nothing is asked of all lines together. The first of two equal keys counts. 7, 7.0, 7e0 and "7"
    are "7". Objects, lists and NaN are no values, and a line that is no JSON is no object.
    """
    pointers = ", ".join(_sql_text(_pointer(name)) for name in names.values())
    values = ", ".join(
        f"{_JSON_TEXT.format(place=place)} AS {quoted(alias)}"
        for place, alias in enumerate(names, 1)
    )
    return f"""
        SELECT {values or "json"} FROM (
            SELECT json, json_extract_string(json, [{pointers}]) AS texts,
                json_type(json, [{pointers}]) AS kinds
            FROM (SELECT CASE WHEN strlen(json) > {_MAX_LINE} THEN CAST(error('too long') AS JSON)
                    WHEN json_valid(json) THEN json END AS json
                FROM read_ndjson_objects({_literal(path)}, ignore_errors = true,
                    maximum_object_size = {_MAX_LINE}, hive_partitioning = false))
            WHERE json_type(json) = 'OBJECT')"""


def _pointer(name: str) -> str:
    """The JSON pointer to a key of an object."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _require_no_mark(path: str) -> None:
    with _bytes(path) as file:
        if file.read(3).startswith(_MARKS):
            raise ValueError("there is a byte-order mark, which would hide the first line")


def _csv_reader(path: str, refusal: str) -> tuple[list[str], str]:
    """The columns of a CSV file and how to read it, both from its first line alone.

    DuckDB would guess delimiters, quotes and comments from rows. Then one row could change how all
    the others are read, and the counts by more than one. Where several threads read, it refuses
    long quoted fields by where they stand. One thread reads them all; but it drops what follows a
    quote that is never closed, so we look for such a quote first.
    """
    names, delimiter = quietly(lambda: _header(path), refusal)
    if len(set(names)) < len(names):
        raise ValueError("table must have a name of its own for every column")
    if quietly(lambda: _ends_in_quotes(path, delimiter), refusal):
        raise ValueError(refusal)
    columns = ", ".join(f"{_sql_text(name)}: 'VARCHAR'" for name in names)
    return names, (
        f"read_csv({_literal(path)}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {_sql_text(delimiter)}, quote = '\"', escape = '\"', comment = '', nullstr = '', "
        f"parallel = false, max_line_size = {_MAX_LINE}, buffer_size = {2 * _MAX_LINE}, "
        "hive_partitioning = false)"
    )


def _bytes(path: str) -> gzip.GzipFile | io.BufferedReader:
    return gzip.GzipFile(path) if path.lower().endswith(".gz") else open(path, "rb")


def _header(path: str) -> tuple[list[str], str]:
    """The names of the columns, and what stands between them: whatever divides them most."""
    with _bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        start = text.read(_MAX_HEADER)
    if len(start) == _MAX_HEADER and not {"\n", "\r"} & set(start):
        raise ValueError("the first line is too long")
    headers = {
        delimiter: next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
        for delimiter in ",;\t|"
    }
    delimiter = max(headers, key=lambda each: len(headers[each]))
    names = headers[delimiter]
    if not names:
        raise ValueError("there is no first line")
    return [name or f"column{place}" for place, name in enumerate(names)], delimiter


def _ends_in_quotes(path: str, delimiter: str) -> bool:
    """Whether a CSV file ends inside a quoted field.

    Quotes with only spaces between them form a group. A group of even size changes nothing. A group
    of odd size closes a field that is open. It opens a field only where one may begin: after a
    border and at most one space. So after the last odd group that stands elsewhere no field is
    open, and every odd group after that opens or closes one: a turn.
    """
    borders = b"\r\n" + delimiter.encode()
    turns = 0
    with _bytes(path) as file:
        data = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while chunk := file.read(_BYTES_AT_ONCE):
            # Quotes at the end, and what stands before them, go with the next chunk.
            data += chunk
            known = max(len(data.rstrip(b'" ' + borders)) - 1, 0)
            more, is_all = _last_turns(data[:known], borders)
            turns, data = more + (turns if is_all else 0), data[known:]
    more, is_all = _last_turns(data, borders)
    return (more + (turns if is_all else 0)) % 2 == 1


def _last_turns(data: bytes, borders: bytes) -> tuple[int, bool]:
    """How many odd groups of quotes follow the last one that stands where no field may begin.

    And whether there is no such one. What stands before the data is a border.
    """
    turns, end = 0, len(data)
    while (end := data.rfind(b'"', 0, end)) >= 0:
        quotes = 1
        while data[(before := _before_spaces(data, end)) - 1 : before] == b'"':
            quotes, end = quotes + 1, before - 1
        if quotes % 2:
            if end - before > 1 or (before and data[before - 1] not in borders):
                return turns, False
            turns += 1
    return turns, True


def _before_spaces(data: bytes, end: int) -> int:
    """Where the data before `end` end, without spaces."""
    while end and data[end - 1] == _SPACE:
        end -= 1
    return end


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(path: str) -> str:
    """The path as SQL text, with nothing in it that DuckDB would expand."""
    absolute = str(Path(path).absolute())  # DuckDB takes a leading ~ for the home folder
    plain = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in absolute)
    return _sql_text(plain)


def _fimi(database: "DuckDBPyConnection", path: str, unit: str | None) -> Source:
    """One row for each word on each line."""
    if unit not in LINE_UNITS:
        raise ValueError(f"unit must be 'line' (or left out) for a .dat file, not {unit!r}")
    table = quietly(lambda: _words(database, path, "row_number() OVER ()"), NOT_FIMI)
    return Source(table, FIMI_LINE, FIMI_ITEM, columns=FIMI_COLUMNS)


def whole_words(database: "DuckDBPyConnection", path: str) -> "DuckDBPyRelation":
    """The words of a FIMI file that are whole numbers of a domain, as numbers.

    Lines are told apart by what they say, and equal ones are numbered: where a line stands hangs on
    all others, and must not decide what is kept of it.
    """
    line = "concat(sha256(items), ' ', row_number() OVER (PARTITION BY items))"
    word, most = quoted(FIMI_ITEM), (1 << 62) - 1
    number = f"TRY_CAST({word} AS BIGINT)"
    is_number = f"CAST({number} AS VARCHAR) = {word} AND {number} BETWEEN {-most} AND {most}"
    numbers = _words(database, path, line).filter(is_number)
    return numbers.project(f"{quoted(FIMI_LINE)}, {number} AS {word}")


def _words(database: "DuckDBPyConnection", path: str, line: str) -> "DuckDBPyRelation":
    """The words of every line; `line` says how lines are told apart, by their `items`."""
    # Most lines have spaces only, and looking first is cheaper than replacing. A delimiter that no
    # line can hold leaves lines whole.
    query = f"""
        SELECT line AS {quoted(FIMI_LINE)}, unnest(string_split(items, ' ')) AS {quoted(FIMI_ITEM)}
        FROM (SELECT {line} AS line,
                CASE WHEN contains(items, e'\\t') THEN translate(items, e'\\t', ' ')
                ELSE items END AS items
            FROM read_csv({_literal(path)}, columns = {{'items': 'VARCHAR'}}, delim = e'\\n',
                quote = '', escape = '', comment = '', header = false, auto_detect = false,
                hive_partitioning = false, max_line_size = {_MAX_LINE}))"""
    return database.sql(query).filter(f"{quoted(FIMI_ITEM)} <> ''")
