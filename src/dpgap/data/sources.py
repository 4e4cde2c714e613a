"""Sources of tables (frames, files, databases): their addresses, columns, and how files are read.

Errors of an engine may quote rows. So they are replaced by ours, which name columns and files.
"""

import codecs
import csv
import difflib
import glob
import gzip
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import narwhals as nw
from narwhals.dtypes import DType

from dpgap._package import how_to_get
from dpgap.budget.requests import ANY, IN_FILES, table_address
from dpgap.data.private_counts import with_masked_errors
from dpgap.printable import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


# --------------------------------------------------------------------------------------------------
# Tables by their address, and the public facts of any table: its address and its columns.
#
# An address is postgresql://user@host/database?table=sales, duckdb://shop.db?table=sales or
# sqlite://shop.db?table=sales. Ibis connects to the database. The address is never shown as it was
# given, because it may hold a password.
#
# Public facts come from names and schemas, never from rows. Every reader gets the same facts of a
# table, as far as its types are stated:
#
# - A CSV file states no types. Its columns are read as text.
# - Lines of JSON state no columns. Their keys are private, so no column is a public fact.
# - pandas takes the types of most columns from their rows: one row without a number turns whole
#   numbers into floats, and one text turns them into objects. So the type of a column of pandas is
#   no public fact, unless the user asked for it ("Int64", types of Arrow).
# - Every other column has the type that its frame, file or database states.


Lazy = nw.LazyFrame[Any]
Frame = nw.DataFrame[Any] | Lazy


Families = tuple[tuple[str, str], ...]
"""Names of columns, and the families of their types."""

_ASKED_FOR = re.compile("U?Int(8|16|32|64)|Float(32|64)|boolean")
"""Types that pandas never infers; the types of Arrow are others."""

TEXTS = ("String", "Categorical", "Enum")
_FAMILIES = dict.fromkeys(TEXTS, "text") | {
    "Boolean": "boolean",
    "Decimal": "float",
    "Date": "date",
    "Datetime": "time",
    "Time": "time",
    "Binary": "bytes",
    "List": "list",
    "Array": "list",
}
_ROLES = {
    "unit": 'the column with the unit of each row (or "row" where every row is its own unit)',
    "item": "the column to count",
}
_MOST_NAMES = 20
_MOST_LETTERS = 60
_IN_A_CLOUD = ("md:", "motherduck:")
_KEEPALIVES = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "2"}
"""For PostgreSQL: a network that has gone silent is noticed, however long a query takes."""
DATABASES = ("postgres", "duckdb", "sqlite")
"""The databases whose tables can be counted, as Ibis names them."""
OTHER_DATABASE = (
    "table must be in PostgreSQL, DuckDB or SQLite: others may group rows by something else than "
    "what is read; copy the table into a Parquet file"
)
_UNREACHABLE = "table could not be reached: check its address, the server and your rights"


class Source(NamedTuple):
    """A table that was found, the columns to read, and its public facts."""

    table: Any
    """The native frame, for Narwhals."""
    unit: str
    item: str
    domain: Any = None
    """The domain as it was stated, or a column in the same engine as the table."""
    domain_address: str | None = None
    """The address of the table with that column."""
    name: str | None = None
    address: str | None = None
    columns: Families | None = None
    """All columns that a file states (of SQLite, all are text); None if the frame states them."""
    database: "DuckDBPyConnection | None" = None
    """The DuckDB in which a file was opened."""


def columns_of(frame: Frame) -> Families:
    """The columns of a frame of Narwhals."""
    families = {str(name): _family(kind) for name, kind in frame.collect_schema().items()}
    return tuple((families | dict.fromkeys(guessed(frame), ANY)).items())


def database_of(frame: Frame) -> str | None:
    """The name of the database behind an Ibis frame; None for other frames."""
    is_ibis = frame.implementation.is_ibis()
    return str(frame.to_native().get_backend().name) if is_ibis else None


def guessed(frame: Frame) -> set[str]:
    """The columns whose types pandas inferred from rows, as far as this can be known."""
    if not frame.implementation.is_pandas_like():
        return set()
    kinds = frame.to_native().dtypes.items()
    return {str(name) for name, kind in kinds if not is_asked_for(kind)}


def is_asked_for(kind: Any) -> bool:
    """Whether a type of pandas is one that only a user states: pandas never infers it."""
    return type(kind).__name__ == "ArrowDtype" or bool(_ASKED_FOR.fullmatch(str(kind)))


def _family(kind: DType) -> str:
    if kind.is_integer():
        return "integer"
    return "float" if kind.is_float() else _FAMILIES.get(type(kind).__name__, "other")


def require_given(unit: str | None, item: str | None) -> tuple[str, str]:
    """Return both names; refuse if one is missing."""
    if unit is not None and item is not None:
        return unit, item
    missing = [role for role, name in (("unit", unit), ("item", item)) if name is None]
    what = ", and ".join(_ROLES[role] for role in missing)
    raise TypeError(f"{' and '.join(missing)} must be given: {what}")


def require_columns(columns: Sequence[str], *names: str, is_stated: bool = False) -> None:
    """Refuse names that are not columns; `is_stated` says that a schema states them."""
    are_data = {*names}.isdisjoint(columns) or any(each[:1].isdigit() for each in columns)
    for name in names:
        if name not in columns:
            raise ValueError(no_column(name, columns, is_known=is_stated or not are_data))


def no_column(name: str, columns: Sequence[str], *, is_known: bool) -> str:
    """The message that there is no such column, with similar names and the existing columns.

    If a text file has no header, its "columns" are the values of somebody's row; so are those of a
    frame that was read from it. So the message lists columns only if they are surely names: if a
    schema states them, or if another name that the user gave is among them and none begins with a
    digit. A similar name proves nothing: "patient 17" is similar to "patient".

    >>> no_column("drugs", ["age", "drug"], is_known=True)
    "there is no column 'drugs' in the table (did you mean drug?); it has age, drug"
    >>> no_column("patient", ["patient 17", "aspirin"], is_known=False)
    "there is no column 'patient' in the table; look up the names of its columns (a first line may be data: none is shown)"
    """  # noqa: E501 (an error in one line)
    message = f"there is no column {name!r} in the table"
    if not is_known:
        return (
            f"{message}; look up the names of its columns (a first line may be data: none is shown)"
        )
    by_small_letters = {column.lower(): column for column in reversed(columns)}
    near = difflib.get_close_matches(name.lower(), by_small_letters)
    if near:
        similar = [by_small_letters[letters] for letters in near]
        message += f" (did you mean {_listed(similar)}?)"
    message += f"; it has {_listed(columns[:_MOST_NAMES])}"
    if len(columns) > _MOST_NAMES:
        message += f" and {len(columns) - _MOST_NAMES} more"
    return message


def _listed(columns: Sequence[str]) -> str:
    """Names of columns in a message, none of them long."""
    return ", ".join(printable(column[:_MOST_LETTERS]) for column in columns)


def is_url(table: object) -> TypeGuard[str]:
    """Whether a table is named by the address of a database."""
    return isinstance(table, str) and "://" in table


def find_tables(url: str, unit: str, item: str, domain: Any, resources: ExitStack) -> Source:
    """The table that a URL names, and the domain: "products:id" is a column in the same database.

    `resources` keep the connection open.
    """
    parts, options = read_url(url)
    if parts.scheme not in (*DATABASES, "postgresql"):
        raise ValueError(OTHER_DATABASE)
    name = options.pop("table", None)
    schema = options.pop("schema", None)
    if not name:
        raise ValueError(
            "table must name a table in its address: postgresql://user@host/database?table=sales"
        )
    path = parts.netloc + parts.path
    scheme = parts.scheme
    if scheme in IN_FILES and not (os.path.isfile(path) or path.startswith(_IN_A_CLOUD)):
        here = f": for a file in this folder, write {scheme}://{path.lstrip('/')}"
        # Before an @, a server's address has a password.
        here = f"there is no file {path.rpartition('@')[2]!r}{here if path[:1] == '/' else ''}"
        raise FileNotFoundError(here)
    try:
        import ibis

        from dpgap.data.engines.ibis import require_faithful
        from dpgap.data.engines.sqlite import table_of
    except ImportError:
        raise ImportError(f"tables in databases need Ibis: {how_to_get('postgres')}") from None

    is_postgres = scheme in ("postgres", "postgresql")
    network = _KEEPALIVES | options if is_postgres else options

    def connect() -> Any:
        with suppress(ImportError):  # a package for this kind of database is missing
            return ibis.connect(urlunsplit(parts._replace(query=urlencode(network))))

    database = with_masked_errors(connect, _UNREACHABLE)
    if database is None:
        other = f"pip install 'ibis-framework[{scheme}]'"
        how = other if scheme in IN_FILES else how_to_get("postgres")
        raise ImportError(f"packages for this kind of database are missing: {how}")
    resources.callback(_disconnect, database)
    open_table = database.table
    if scheme == "sqlite":  # where Ibis takes types that are not stated from a row
        open_table = partial(table_of, database.con)
    else:
        require_faithful(database)

    def asked(action: Callable[..., Any], *given: str) -> Any:
        return with_masked_errors(lambda: action(*given, database=schema), _UNREACHABLE)

    try:
        table = asked(open_table, name)
    except ValueError:
        if name in asked(database.list_tables):
            raise
        raise ValueError(
            "there is no such table in the database: check table= and schema= in its address"
        ) from None
    home = {"schema": schema or _current(database, "current_database")}
    options = {"dbname": _current(database, "current_catalog"), **options}
    address = table_address(parts, options, home | {"table": name})
    columns = table.families if scheme == "sqlite" else None
    source = Source(table, unit, item, domain, None, name, address, columns)
    own, colon, column = domain.rpartition(":") if isinstance(domain, str) else ("", "", "")
    if not colon or own not in asked(database.list_tables):
        return source
    public = asked(open_table, own)
    require_columns(list(public.columns), column)
    listed = with_masked_errors(lambda: public.select(column), _UNREACHABLE)
    beside = table_address(parts, options, home | {"table": own})
    return source._replace(domain=listed, domain_address=beside)


def read_url(url: str) -> tuple[SplitResult, dict[str, str]]:
    """An address and the options in it."""
    parts = with_masked_errors(lambda: urlsplit(url), _UNREACHABLE)
    return parts, dict(parse_qsl(parts.query))


def _disconnect(database: Any) -> None:
    with suppress(Exception):  # it may be gone
        database.disconnect()


def _current(database: Any, what: str) -> str:
    """The default schema ("current_database") or database ("current_catalog")."""
    with suppress(Exception):  # some databases have none
        return str(getattr(database, what))
    return ""


# --------------------------------------------------------------------------------------------------
# Files to tables, through embedded DuckDB: Parquet, CSV, JSON lines and FIMI, plain or gzipped.
#
# How a file is read depends on its name and, for CSV, on its first line; never on its rows. Columns
# of CSV files are text, and an empty field is NULL. Each line of JSON is read by itself: its keys
# are exact, its plain values are text, and a line that is no object has no item. So a key that no
# line has causes no error: all counts are 0. A line may have up to 16 MB.
#
# A CSV record that is incomplete, too long, or has too many or too few fields is refused. Text that
# is not UTF-8 is refused too, unless an encoding is stated. Then Python decodes the file into a
# temporary file of UTF-8, which DuckDB reads. Bytes that cannot be decoded become U+FFFD, and a
# field with this character is NULL.


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

_MAX_LINE = 1 << 24
_MAX_HEADER = 1 << 20
_BYTES_AT_ONCE = 1 << 16
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UNDECODED = "\ufffd"
"""The replacement character, which Python and others write for bytes that they cannot decode."""
_CODECS = {"latin-1": "cp1252", "utf-16": "utf-16-le"}
"""latin-1 is read as browsers read it: only 80 to 9F differ."""


def kind_of(path: str) -> str | None:
    """The kind of table, by the file's name; None for other files."""
    name = path.lower()
    plain = name.removesuffix(".gz")
    kind = _KINDS.get(Path(plain).suffix)
    return None if kind == "parquet" and plain != name else kind


def is_fimi(table: object) -> bool:
    """Whether a table has the name of a FIMI file: there each line is a unit of many items."""
    is_path = isinstance(table, str | os.PathLike) and not is_url(table)
    return is_path and kind_of(str(table)) == "fimi"


def has_semicolons(table: object) -> bool:
    """Whether the first line of a CSV file, which is public, separates its fields by semicolons."""
    is_path = isinstance(table, str | os.PathLike) and not is_url(table)
    if not is_path or kind_of(str(table)) != "csv":
        return False
    return with_masked_errors(lambda: _header(str(table))[1] == ";")


def is_table(path: str) -> bool:
    """Whether `path` is a file of a kind that holds tables."""
    return kind_of(path) is not None and os.path.isfile(path)


@contextmanager
def read_file(
    path: str,
    unit: str | None,
    item: str | None,
    more: Sequence[str] = (),
    encoding: str | None = None,
    is_cut: bool = False,
) -> Iterator[Source]:
    """Open a file as a table, for as long as the block lasts; `more` are further columns.

    `is_cut` says that units are bounded, so not all of a unit is counted.
    """
    kind = _require_kind(path)
    if kind == "fimi" and more:
        raise ValueError("by, sum and where need named columns, which a .dat file does not have")
    if encoding is not None and kind != "csv":
        raise ValueError("encoding must be left out: it is for .csv and .tsv files only")
    with ExitStack() as resources:
        plain = path
        if encoding is not None:
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="dpgap-"))
            plain = os.path.join(folder, "table.csv")
            with_masked_errors(lambda: _decode(path, encoding, plain), _NOT_DECODED)
        database = resources.enter_context(embedded_database())
        if kind == "fimi":
            read = _fimi(database, path, unit, is_cut=is_cut)
        else:
            unit, item = require_given(unit, item)
            own = {"item": item, "unit": unit}  # "row" is no column
            own = {role: name for role, name in own.items() if not name == unit == "row"}
            # Columns of text files may have any name, and not every engine accepts all names.
            called = own if kind == "parquet" else {role: _other_than(role, more) for role in own}
            names = dict(zip(more, more, strict=True))
            names |= {called[role]: name for role, name in own.items()}
            table, columns = _table(database, plain, names, is_decoded=encoding is not None)
            unit = called.get("unit", "row")
            item = called.get("item", "row")
            read = Source(table, unit, item, columns=columns)
        name = os.path.basename(path)
        address = os.path.realpath(path)
        yield read._replace(name=name, address=address, database=database)


def _decode(path: str, encoding: str, into: str) -> None:
    """Write the text of a file in UTF-8, with U+FFFD for bytes that cannot be decoded.

    Half a character at the end of the file is dropped where it would be a line of its own.
    """
    codec = _CODECS.get(encoding, encoding)
    private = partial(os.open, mode=0o600)
    with _bytes(path) as file, open(into, "w+b", opener=private) as made:
        data = file.read(_BYTES_AT_ONCE)
        if encoding == "utf-16" and data.startswith(codecs.BOM_UTF16_BE):
            codec = "utf-16-be"
        decoder = codecs.getincrementaldecoder(codec)("replace")
        made.write(decoder.decode(data).removeprefix("\ufeff").encode())
        while data := file.read(_BYTES_AT_ONCE):
            made.write(decoder.decode(data).encode())
        made.seek(-1, os.SEEK_END)
        if made.read() not in b"\r\n":
            made.write(decoder.decode(b"", final=True).encode())


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
    if kind == "csv":  # its encoding is not known here
        names, _ = with_masked_errors(lambda: _header(path), _REFUSALS[kind])
        return tuple((name, "text") for name in names)
    with embedded_database() as database:
        return _table(database, path, {})[1]


_STATED: dict[str, Families] = {"json": (), "fimi": (("line", "integer"), ("item", "integer"))}


def column_in(database: "DuckDBPyConnection", path: str, column: str) -> "DuckDBPyRelation":
    """One column of a public table, as a table in a database."""
    if _require_kind(path) == "fimi":
        raise ValueError("domain must be a table with named columns, not a .dat file")
    return _table(database, path, {column: column})[0]


def quoted(name: str) -> str:
    """A column's name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _require_kind(path: str) -> str:
    kind = kind_of(path)
    if kind is None:
        is_excel = path.lower().endswith((".xlsx", ".xls"))
        mend = ": read it with pandas.read_excel, and pass the frame" if is_excel else ""
        raise ValueError(f"table must be a file ending in {ACCEPTED}, not {path!r}{mend}")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path!r}")
    open(path, "rb").close()  # says where permission is denied
    return kind


@contextmanager
def embedded_database() -> Iterator["DuckDBPyConnection"]:
    """Open an embedded DuckDB for as long as the block lasts."""
    import duckdb

    # DuckDB spills into a folder that only this user can read, and that is deleted afterwards.
    with tempfile.TemporaryDirectory(prefix="dpgap-") as spill:
        settings: dict[str, Any] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        database = duckdb.connect(config=settings)
        try:
            # A progress bar would show in the terminal how long a query takes. A notebook without
            # ipywidgets has no bar, and there DuckDB refuses this setting.
            bar = database.execute("SELECT current_setting('enable_progress_bar')").fetchall()
            if bar != [(False,)]:
                database.execute("SET enable_progress_bar = false")
            yield database
        finally:
            database.close()


def _table(
    database: "DuckDBPyConnection", path: str, names: dict[str, str], *, is_decoded: bool = False
) -> tuple["DuckDBPyRelation", Families]:
    """Some columns of a file (`names`: new name and name in the file), and all stated columns.

    `is_decoded` says that the file was decoded from another encoding.
    """
    kind = _require_kind(path)
    refusal = _REFUSALS[kind]
    field = "{}"
    if kind == "csv":
        if is_decoded:
            refusal = _NOT_DECODED
            field = f"CASE WHEN NOT contains({{0}}, '{_UNDECODED}') THEN {{0}} END"
        elif with_masked_errors(lambda: _begins_with(path, _MARKS[1:]), refusal):
            refusal = refusal.replace("cp1252", "utf-16")
        header, reader = _csv_reader(path, refusal)
        if header[0].startswith("sep=") and not {*names.values()} <= {*header}:
            raise ValueError("table must begin with names of columns: delete its first line, sep=…")
        require_columns(header, *names.values())
    elif kind == "json":
        if with_masked_errors(lambda: _begins_with(path, _MARKS), refusal):
            raise ValueError(f"{refusal} and no byte-order mark")
        return with_masked_errors(lambda: database.sql(_from_json(path, names)), refusal), ()
    else:
        # A folder with the name "customer=5" is no column.
        reader = f"read_parquet({_literal(path)}, hive_partitioning = false)"
    table = with_masked_errors(lambda: database.sql(f"SELECT * FROM {reader}"), refusal)
    require_columns(table.columns, *names.values(), is_stated=True)
    columns = columns_of(nw.from_native(table))
    if not names:
        return table, columns
    called = (f"{field.format(quoted(name))} AS {quoted(alias)}" for alias, name in names.items())
    # Selected from all columns, DuckDB would look at values of columns that nobody asks about.
    query = f"SELECT {', '.join(called)} FROM {reader}"
    return with_masked_errors(lambda: database.sql(query), refusal), columns


_NOT_DECODED = (
    "table could not be read: it must be a CSV file with named columns, in the encoding that is "
    "stated"
)
_REFUSALS = {
    kind: f"table could not be read: it must be a {kind.upper()} file in UTF-8 with {has}"
    for kind, has in {
        "csv": "named columns; state another encoding if it has one, as in encoding='cp1252'",
        "parquet": "named columns",
        "json": "a JSON object on each line",
    }.items()
}
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
    """A query for the values of these keys in each line, as text.

    Each line is read by itself. The first of two equal keys counts. 7, 7.0, 7e0 and "7" are "7".
    Objects, lists and NaN are missing values. A line that is not JSON is skipped.
    """
    escaped = (name.replace("~", "~0").replace("/", "~1") for name in names.values())
    pointers = ", ".join(_sql_text(f"/{name}") for name in escaped)  # to keys of an object
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


def _begins_with(path: str, marks: tuple[bytes, ...]) -> bool:
    with _bytes(path) as file:
        return file.read(3).startswith(marks)


def _csv_reader(path: str, refusal: str) -> tuple[list[str], str]:
    """The columns of a CSV file and how to read it; both depend only on its first line.

    DuckDB would guess delimiters, quotes and comments from rows. Then one row could change how all
    the others are read, and change counts by more than one. If several threads read, DuckDB refuses
    long quoted fields at some positions. One thread reads all of them, but it drops everything
    after a quote that is never closed. So we look for such a quote first.
    """
    names, delimiter = with_masked_errors(lambda: _header(path), refusal)
    if len(set(names)) < len(names):
        raise ValueError("table must have a different name for every column")
    if with_masked_errors(lambda: _ends_in_quotes(path, delimiter), refusal):
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
    """The names of the columns, and the delimiter: the character that gives the most columns.

    Names that are not UTF-8 are read as cp1252; to read more, the user must state an encoding.
    """
    with _bytes(path) as file:
        data = file.read(_MAX_HEADER)
    is_wide = data.startswith(_MARKS[1:])
    start = data.decode(
        "utf-16" if is_wide else "utf-8-sig", "ignore" if is_wide else "surrogateescape"
    )
    if len(data) == _MAX_HEADER and not {"\n", "\r"} & set(start):
        raise ValueError("the first line is too long")
    headers = {
        delimiter: next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
        for delimiter in ",;\t|"
    }
    delimiter = max(headers, key=lambda each: len(headers[each]))
    names = headers[delimiter]
    if not names:
        raise ValueError("there is no first line")
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(names)):
        in_bytes = [name.encode("utf-8", "surrogateescape") for name in names]
        names = [name.decode("cp1252", "replace") for name in in_bytes]
    return [name or f"column{place}" for place, name in enumerate(names)], delimiter


def _ends_in_quotes(path: str, delimiter: str) -> bool:
    """Whether a CSV file ends inside a quoted field; an error if it is not UTF-8.

    Quotes with only spaces between them form a group. A group of even size changes nothing. A group
    of odd size closes an open field, or opens a field. It can open a field only after a border (a
    delimiter or a line break) and at most one space. So after the last odd group that is elsewhere,
    no field is open; every odd group after that opens or closes one. These are counted as turns.
    """
    borders = b"\r\n" + delimiter.encode()
    turns = 0
    text = codecs.getincrementaldecoder("utf-8")()
    with _bytes(path) as file:
        data = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        text.decode(data)
        while chunk := file.read(_BYTES_AT_ONCE):
            text.decode(chunk)
            # Quotes at the end, and the bytes before them, are kept for the next chunk.
            data += chunk
            decided = max(len(data.rstrip(b'" ' + borders)) - 1, 0)
            turns = _turns(data[:decided], borders, turns)
            data = data[decided:]
    text.decode(b"", final=True)
    return _turns(data, borders, turns) % 2 == 1


_QUOTES = re.compile(rb'"(?: *")*')


def _turns(data: bytes, borders: bytes, before_data: int) -> int:
    """How many odd groups of quotes follow the last one at which no field may begin.

    If the data have no such group, the turns of `before_data` count too. A border is before the
    data. Groups are read from the end, because most data have such a group there.
    """
    turns = 0
    backwards = data[::-1]
    for group in _QUOTES.finditer(backwards):
        if group[0].count(b'"') % 2:
            before = group.end() + (backwards[group.end() : group.end() + 1] == b" ")
            if before < len(data) and backwards[before] not in borders:
                return turns
            turns += 1
    return before_data + turns


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(path: str) -> str:
    """The path as SQL text, with all characters escaped that DuckDB would expand."""
    absolute = Path(path).absolute()  # DuckDB reads a leading ~ as the home folder
    return _sql_text(glob.escape(str(absolute)))


def _fimi(database: "DuckDBPyConnection", path: str, unit: str | None, *, is_cut: bool) -> Source:
    """One row for each word on each line; a word that cannot be in a domain of numbers is NULL.

    The number of a line depends on all lines before it. So it must not decide which of its items
    are kept. If units are bounded, a line is identified by a hash of its text, and equal lines are
    numbered. This takes longer.
    """
    if unit not in (None, "row", "line"):
        raise ValueError(f"unit must be 'line' (or left out) for a .dat file, not {unit!r}")
    line = "row_number() OVER ()"
    if is_cut:
        line = "concat(sha256(items), ' ', row_number() OVER (PARTITION BY items))"
    table = with_masked_errors(
        lambda: database.sql(_words(path, line)),
        "table must be a .dat file of whole numbers, separated by spaces on lines that all end "
        "alike",
    )
    return Source(table, "line", "item", columns=_STATED["fimi"])


def _words(path: str, line: str) -> str:
    """A query for the words of every line; `line` is the SQL expression that identifies a line."""
    # Most lines have only spaces, and searching for tabs is cheaper than replacing them. No line
    # contains the delimiter, so lines stay whole.
    most = (1 << 62) - 1
    return f"""
        SELECT line, CASE WHEN CAST(number AS VARCHAR) = word
            AND number BETWEEN {-most} AND {most} THEN number END AS item
        FROM (SELECT line, word, TRY_CAST(word AS BIGINT) AS number
            FROM (SELECT line, unnest(string_split(items, ' ')) AS word
                FROM (SELECT {line} AS line,
                        CASE WHEN contains(items, e'\\t') THEN translate(items, e'\\t', ' ')
                        ELSE items END AS items
                    FROM read_csv({_literal(path)}, columns = {{'items': 'VARCHAR'}},
                        delim = e'\\n', quote = '', escape = '', comment = '', header = false,
                        auto_detect = false, hive_partitioning = false,
                        max_line_size = {_MAX_LINE})))
            WHERE word <> '')"""


# --------------------------------------------------------------------------------------------------
# Text that is not UTF-8 is a missing value, in every kind of frame.
#
# Arrow and Spark do not check that text is UTF-8. So their frames, and frames that were made from
# them, may hold bytes that are no text. One such value would make the call fail, or different ones
# would be read as one text.


def with_valid_text(frame: Frame, names: Iterable[str]) -> Frame:
    """The same rows; text in these columns that is not UTF-8 is NULL. A lazy frame stays lazy."""
    change = _CHANGES.get(frame.implementation)
    if change is None:
        return frame
    schema = frame.collect_schema()
    texts = [name for name in dict.fromkeys(names) if schema[name] in (nw.String, nw.Categorical)]
    changed: Frame = nw.from_native(change(frame.to_native(), texts))
    return changed


def _in_pandas(table: Any, names: list[str]) -> Any:
    """A frame of pandas; views of text and bytes, which it cannot filter, become plain."""
    changed = {}
    for name, kind in table.dtypes.items():
        is_of_arrow = type(kind).__name__ == "ArrowDtype"
        is_view = is_of_arrow and str(kind.pyarrow_dtype).endswith("_view")
        is_read = name in names and (is_of_arrow or getattr(kind, "storage", "") == "pyarrow")
        if not is_view and not is_read:
            continue
        import pyarrow

        given = column = pyarrow.array(table[name].array)
        if is_read:
            column = _valid(column)
        if is_view:
            column = column.cast(f"large_{str(column.type).removesuffix('_view')}")
            kind = type(kind)(column.type)
        if column is not given:
            changed[name] = kind.__from_arrow__(column)
    return table.assign(**changed) if changed else table


def _in_duckdb(relation: Any, names: list[str]) -> Any:
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    texts = [quoted(name) for name in names if kinds[name] == "VARCHAR"]
    if not texts:
        return relation
    valid = ", ".join(
        f"CASE WHEN TRY(decode(encode({text}))) IS NOT NULL THEN {text} END AS {text}"
        for text in texts
    )
    return relation.select(f"* REPLACE ({valid})")


def _in_spark(frame: Any, names: list[str]) -> Any:
    from pyspark.sql import functions

    valid = {}
    for name in names:
        column = functions.col("`" + name.replace("`", "``") + "`")
        valid[name] = functions.try_validate_utf8(column)
    return frame.withColumns(valid) if valid else frame


def _valid(column: Any) -> Any:
    """A column of Arrow without text that is not UTF-8; the same column if all text is valid."""
    import pyarrow

    kind = getattr(column.type, "value_type", column.type)  # of a dictionary, what it lists
    if not is_arrow_text(kind):
        return column
    with suppress(Exception):
        column.validate(full=True)
        return column
    told = column.cast(kind).cast(pyarrow.large_string()).cast(pyarrow.large_binary())
    return pyarrow.array(map(_text, told.to_pylist()), column.type)


def is_arrow_text(kind: object) -> bool:
    """Whether a type of Arrow is one of text."""
    return str(kind) in ("string", "large_string", "string_view")


def _text(told: bytes | None) -> str | None:
    with suppress(UnicodeDecodeError):
        return None if told is None else told.decode()
    return None


_CHANGES: dict[nw.Implementation, Callable[[Any, list[str]], Any]] = {
    nw.Implementation.PANDAS: _in_pandas,
    nw.Implementation.DUCKDB: _in_duckdb,
    nw.Implementation.PYSPARK: _in_spark,
    nw.Implementation.PYSPARK_CONNECT: _in_spark,
}
