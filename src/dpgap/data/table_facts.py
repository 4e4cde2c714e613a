"""What is public of a table that an address names: where it is, and its columns.

Both come from the address and the schema, never from rows.
"""

import os
from urllib.parse import parse_qsl, urlencode, urlsplit

from dpgap.data.addresses import is_url

Columns = tuple[tuple[str, str], ...]


def table_facts(table: str, unit: str | None) -> tuple[str, Columns]:
    """Where a table is, spelt as releases spell it, and its columns with their families of types.

    No columns are stated yet, whatever the `unit`.

    >>> table_facts("postgresql://ann:secret@host/shop?table=sales&sslmode=require", "customer")
    ('postgresql://host/shop?table=sales', ())
    """
    if not is_url(table):
        return os.path.realpath(table), ()
    parts = urlsplit(table)
    named = [(name, value) for name, value in parse_qsl(parts.query) if name in _NAMING]
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}?{urlencode(sorted(named))}", ()


_NAMING = ("schema", "table")
