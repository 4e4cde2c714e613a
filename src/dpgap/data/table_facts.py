"""What is public of a table that an address names: where it is, and its columns.

Both come from the address and the schema, never from rows. A budget is bound to them.
"""

from contextlib import ExitStack

import narwhals as nw

from dpgap.data.addresses import Families, columns_of, file_address, find_tables, is_url
from dpgap.data.files import kind_of, stated_columns
from dpgap.data.tracebacks import UNREADABLE, quietly


def table_facts(table: str) -> tuple[str, Families]:
    """Where a table is, spelt as releases spell it, and its columns with their families of types.

    What is neither a file's name nor the address of a database is only a name.

    >>> table_facts("sales")
    ('sales', ())
    """
    if is_url(table):
        with ExitStack() as resources:
            source = find_tables(table, "", "", (), resources)
            frame = nw.from_native(source.table)
            return str(source.address), quietly(lambda: columns_of(frame), UNREADABLE)
    if kind_of(table) is None:
        return table, ()
    return file_address(table), stated_columns(table)
