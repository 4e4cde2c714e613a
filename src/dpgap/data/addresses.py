"""Tables in databases, named by an address: postgresql://user@host/database?table=sales.

Ibis speaks to the database; whatever it accepts as an address will do. What the address names is
never shown again, since it may hold a password.
"""

from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dpgap.data.facts import table_address
from dpgap.data.files import quietly, require_columns
from dpgap.data.own_column import OWN_COLUMN

_NO_TABLE = "table must name a table in its address: postgresql://user@host/database?table=sales"
_UNREACHABLE = "table could not be reached: see to its address, the server and your rights"


def is_url(table: object) -> bool:
    """Whether a table is named by the address of a database."""
    return isinstance(table, str) and "://" in table


class TableAtAddress(NamedTuple):
    """A table in a database, and the domain, which may be a column beside it."""

    table: Any
    domain: Any
    name: str
    address: str
    domain_address: str | None
    """Where the table is of which the domain is a column, if there is one."""


def find_tables(url: str, domain: Any, resources: ExitStack) -> TableAtAddress:
    """The table that a URL names, and the domain: "products:id" is a column beside it.

    `resources` keep the connection.
    """
    parts = quietly(lambda: urlsplit(url), _UNREACHABLE)
    options = dict(parse_qsl(parts.query))
    name, schema = options.pop("table", None), options.pop("schema", None)
    if not name:
        raise ValueError(_NO_TABLE)
    try:
        import ibis
    except ImportError:
        raise ImportError("tables in databases need Ibis: pip install 'dpgap[postgres]'") from None
    connection = urlunsplit(parts._replace(query=urlencode(options)))
    database = quietly(lambda: ibis.connect(connection), _UNREACHABLE)
    resources.callback(_disconnect, database)
    table = quietly(lambda: database.table(name, database=schema), _UNREACHABLE)
    own, colon, column = domain.rpartition(":") if isinstance(domain, str) else ("", "", "")
    if own == name:
        raise ValueError(OWN_COLUMN)
    home = {"schema": schema or _current_schema(database)}
    address = partial(table_address, parts, options)
    known = quietly(lambda: database.list_tables(database=schema), _UNREACHABLE) if colon else ()
    if own not in known:
        return TableAtAddress(table, domain, name, address(home | {"table": name}), None)
    public = quietly(lambda: database.table(own, database=schema), _UNREACHABLE)
    require_columns(list(public.columns), column)
    return TableAtAddress(
        table,
        public.select(column),
        name,
        address(home | {"table": name}),
        address(home | {"table": own}),
    )


def _disconnect(database: Any) -> None:
    with suppress(Exception):  # it may be gone
        database.disconnect()


def _current_schema(database: Any) -> str:
    """The schema that is meant where none is named."""
    with suppress(Exception):  # some databases have none
        return str(database.current_database)
    return ""
