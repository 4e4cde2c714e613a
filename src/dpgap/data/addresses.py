"""Tables in databases, named by an address: postgresql://user@host/database?table=sales.

Ibis speaks to the database; whatever it accepts as an address will do. What the address names is
never shown again, since it may hold a password.
"""

from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from dpgap.data.files import quietly, require_columns
from dpgap.data.own_column import OWN_COLUMN

_NO_TABLE = "table must name a table in its address: postgresql://user@host/database?table=sales"
_UNREACHABLE = "table could not be reached: see to its address, the server and your rights"


def is_url(table: object) -> bool:
    """Whether a table is named by the address of a database."""
    return isinstance(table, str) and "://" in table


def tables_of(url: str, domain: Any, resources: ExitStack) -> tuple[Any, Any]:
    """The table that an address names, and the domain: "products:id" is a column beside it.

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
    address = urlunsplit(parts._replace(query=urlencode(options)))
    database = quietly(lambda: ibis.connect(address), _UNREACHABLE)
    resources.callback(_disconnect, database)
    table = quietly(lambda: database.table(name, database=schema), _UNREACHABLE)
    if isinstance(domain, str) and domain.rpartition(":")[0] == name:
        raise ValueError(OWN_COLUMN)
    return table, _column_beside(database, schema, domain)


def _disconnect(database: Any) -> None:
    with suppress(Exception):  # it may be gone
        database.disconnect()


def _column_beside(database: Any, schema: str | None, domain: Any) -> Any:
    """The column of another table that "table:column" names, if there is such a table."""
    name, colon, column = domain.rpartition(":") if isinstance(domain, str) else ("", "", "")
    known = quietly(lambda: database.list_tables(database=schema), _UNREACHABLE) if colon else ()
    if name not in known:
        return domain
    table = quietly(lambda: database.table(name, database=schema), _UNREACHABLE)
    require_columns(list(table.columns), column)
    return table.select(column)
