"""Tables by their address, and what is public of any table: where it is, and its columns.

An address is postgresql://user@host/database?table=sales. Ibis speaks to the database; whatever it
accepts as an address will do. The address as it was given is never shown again, since it may hold a
password.

Public facts come from names and schemas, never from rows. The same table has the same facts whoever
reads it, as far as its types are stated at all:

- A CSV file states no types. Its columns are text, which is how they are read.
- Lines of JSON state no columns. Which keys they have is private, so no column is told.
- pandas takes the types of most columns from their rows: one row without a number turns whole
  numbers into floats, and one text turns them into objects. So a column of pandas is told without
  its type, unless that was asked for (as "Int64", and those of Arrow).
- Every other column has the type that its frame, file or database states.
"""

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import narwhals as nw
from narwhals.dtypes import DType

from dpgap._package import how_to_get
from dpgap.budget.requests import ANY, table_address
from dpgap.data.tracebacks import quietly
from dpgap.releases.printable import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Lazy = nw.LazyFrame[Any]
Frame = nw.DataFrame[Any] | Lazy


Families = tuple[tuple[str, str], ...]
"""Names of columns, and the families of their types."""

FIMI_COLUMNS: Families = (("line", "integer"), ("item", "integer"))
"""What every FIMI file has."""

_ASKED_FOR = re.compile("U?Int(8|16|32|64)|Float(32|64)|boolean")
"""Types that pandas gives to no column by itself; beside them those of Arrow."""

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
_ROLES = {
    "unit": 'the column that says whose row it is (or "row" where every row is its own unit)',
    "item": "the column to count",
}
_MOST_NAMES, _MOST_LETTERS = 20, 60
_NO_TABLE = "table must name a table in its address: postgresql://user@host/database?table=sales"
_NOT_THERE = "there is no such table in the database: see to table= and schema= in its address"
_UNREACHABLE = "table could not be reached: see to its address, the server and your rights"


class Source(NamedTuple):
    """A table that was found, which of its columns to look at, and what is public of it."""

    table: Any
    """What Narwhals can make a frame of."""
    unit: str
    item: str
    domain: Any = None
    """As it was stated, or a column that stands beside the table."""
    domain_address: str | None = None
    """Where the table of that column is."""
    name: str | None = None
    address: str | None = None
    columns: Families | None = None
    """All columns that a file states; None where a frame states them."""
    database: "DuckDBPyConnection | None" = None
    """What a file was opened in."""
    path: str | None = None
    """Where it was found."""


def columns_of(frame: Frame) -> Families:
    """The columns of a frame of Narwhals."""
    families = {str(name): _family(kind) for name, kind in frame.collect_schema().items()}
    return tuple((families | dict.fromkeys(guessed(frame), ANY)).items())


def guessed(frame: Frame) -> set[str]:
    """The columns whose types pandas took from their rows, as far as anybody can tell."""
    if not frame.implementation.is_pandas_like():
        return set()
    kinds = frame.to_native().dtypes.items()
    return {str(name) for name, kind in kinds if not is_asked_for(kind)}


def is_asked_for(kind: Any) -> bool:
    """Whether a type of pandas is one that somebody stated, whatever the rows hold."""
    return type(kind).__name__ == "ArrowDtype" or bool(_ASKED_FOR.fullmatch(str(kind)))


def _family(kind: DType) -> str:
    if kind.is_integer():
        return "integer"
    return "float" if kind.is_float() else _FAMILIES.get(type(kind).__name__, "other")


def file_address(path: str | os.PathLike[str]) -> str:
    """Where a file is, whichever way its path is written."""
    return os.path.realpath(path)


def require_given(unit: str | None, item: str | None) -> tuple[str, str]:
    """The same two names; refused if one is missing."""
    if unit is not None and item is not None:
        return unit, item
    missing = [role for role, name in (("unit", unit), ("item", item)) if name is None]
    what = ", and ".join(_ROLES[role] for role in missing)
    raise TypeError(f"{' and '.join(missing)} must be given: {what}")


def require_columns(columns: list[str], *names: str, hint: str = "") -> None:
    """Refuse names that are not columns.

    Which columns there are is not said unless a file or a database states them (`hint`): those of a
    text file without a header, and of a frame that was read from it, are somebody's row.
    """
    for name in names:
        if name not in columns:
            raise ValueError(f"there is no column {name!r} in the table{hint}")


def hint_at(columns: Sequence[str]) -> str:
    """Which columns there are, in words; the first of them if there are many.

    >>> hint_at(["age", "drug"])
    '; it has age, drug'
    """
    more = len(columns) - _MOST_NAMES
    named = ", ".join(printable(name[:_MOST_LETTERS]) for name in columns[:_MOST_NAMES])
    return f"; it has {named}{f' and {more} more' if more > 0 else ''}"


def is_url(table: object) -> TypeGuard[str]:
    """Whether a table is named by the address of a database."""
    return isinstance(table, str) and "://" in table


def table_named_by(url: str) -> str | None:
    """The name of the table in an address, if it has one."""
    return _read_url(url)[1].get("table")


def find_tables(url: str, unit: str, item: str, domain: Any, resources: ExitStack) -> Source:
    """The table that a URL names, and the domain: "products:id" is a column beside it.

    `resources` keep the connection.
    """
    parts, options = _read_url(url)
    name, schema = options.pop("table", None), options.pop("schema", None)
    if not name:
        raise ValueError(_NO_TABLE)
    try:
        import ibis

        from dpgap.data.engines.in_ibis import require_faithful
    except ImportError:
        raise ImportError(f"tables in databases need Ibis: {how_to_get('postgres')}") from None
    connection = urlunsplit(parts._replace(query=urlencode(options)))
    database = quietly(lambda: _connect(ibis, connection), _UNREACHABLE)
    if database is None:
        is_postgres = parts.scheme in ("postgres", "postgresql")
        other = f"pip install 'ibis-framework[{parts.scheme}]'"
        how = how_to_get("postgres") if is_postgres else other
        raise ImportError(f"packages for this kind of database are missing: {how}")
    resources.callback(_disconnect, database)
    require_faithful(database)
    try:
        table = quietly(lambda: database.table(name, database=schema), _UNREACHABLE)
    except ValueError:
        if name in quietly(lambda: database.list_tables(database=schema), _UNREACHABLE):
            raise
        raise ValueError(_NOT_THERE) from None
    home = schema or _current(database, "current_database")
    options = {"dbname": _current(database, "current_catalog"), **options}
    address = table_address(parts, options, {"schema": home, "table": name})
    source = Source(table, unit, item, domain, None, name, address)
    own, colon, column = domain.rpartition(":") if isinstance(domain, str) else ("", "", "")
    known = quietly(lambda: database.list_tables(database=schema), _UNREACHABLE) if colon else ()
    if own not in known:
        return source
    public = quietly(lambda: database.table(own, database=schema), _UNREACHABLE)
    require_columns(list(public.columns), column)
    beside = table_address(parts, options, {"schema": home, "table": own})
    return source._replace(domain=public.select(column), domain_address=beside)


def _connect(ibis: Any, connection: str) -> Any:
    """A connection; None where a package that it needs is missing."""
    try:
        return ibis.connect(connection)
    except ImportError:
        return None


def _read_url(url: str) -> tuple[SplitResult, dict[str, str]]:
    """An address and the options in it."""
    parts = quietly(lambda: urlsplit(url), _UNREACHABLE)
    return parts, dict(parse_qsl(parts.query))


def _disconnect(database: Any) -> None:
    with suppress(Exception):  # it may be gone
        database.disconnect()


def _current(database: Any, what: str) -> str:
    """The schema ("current_database") or database ("current_catalog") that is meant unnamed."""
    with suppress(Exception):  # some databases have none
        return str(getattr(database, what))
    return ""
