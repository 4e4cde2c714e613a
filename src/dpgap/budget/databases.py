"""How the database of a ledger is opened, and what is wrong with it, in our own words."""

import os
import re
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpgap._package import how_to_get
from dpgap.budget.addresses import Address
from dpgap.budget.entries import LedgerError

BUSY_SECONDS = 60
"""How long to wait for other releases that are writing to the same ledger."""


def open_database(url: sql.URL) -> sql.Engine:
    """The database at a URL; nothing is connected yet."""
    # No pool: a connection never crosses a fork, and a dropped one is never met again.
    if url.get_backend_name() == "sqlite":
        wait = {} if "timeout" in url.query else {"timeout": BUSY_SECONDS}
        engine = sql.create_engine(url, poolclass=NullPool, connect_args=wait)
        sql.event.listen(engine, "connect", _leave_transactions_to_us)
        sql.event.listen(engine, "begin", _begin)
        return engine
    try:
        return sql.create_engine(
            url,
            poolclass=NullPool,
            isolation_level="READ COMMITTED",
            connect_args=_waiting(url),
        )
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"a PostgreSQL ledger needs psycopg: {how_to_get('postgres')}"
        ) from None


def make_file(address: Address) -> None:
    """Make an empty file that only its owner can read and write; journals take its mode."""
    if address.file is None or not address.may_be_made or address.file.exists():
        return
    try:
        os.close(os.open(address.file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerError(f"the ledger file cannot be made: {error.strerror}") from None


def _waiting(url: sql.URL) -> dict[str, Any]:
    """How long to wait for PostgreSQL. What the user says comes later, and so counts."""
    said = url.query.get("options", os.environ.get("PGOPTIONS", ""))
    options = [
        f"-c lock_timeout={BUSY_SECONDS * 1000}",
        *([said] if isinstance(said, str) else said),
    ]
    wait: dict[str, Any] = {"options": " ".join(options).rstrip()}
    return wait if "connect_timeout" in url.query else wait | {"connect_timeout": 10}


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = EXTRA")  # committed means on the disk


def _begin(connection: sql.Connection) -> None:
    # A writer locks at once: it must not read a balance that another is about to change.
    connection.exec_driver_sql(connection.get_execution_options().get("dpgap_begin", "BEGIN"))


_MISSING = re.compile(
    r'(?:no such table: (?:main\.)?|relation ")(?P<table>\w+)'
    r'|(?P<kind>role|database) "(?P<name>[^"]+)" does not exist'
)
_TROUBLES = {
    "readonly": "is read-only",
    "read-only": "is read-only",
    "full": "has no room left on the disk",
    "no space": "has no room left on the disk",
    "locked": "is busy with other releases",
    "lock timeout": "is busy with other releases",
    "not a database": "is damaged or no ledger at all",
    "malformed": "is damaged or no ledger at all",
    "column": "was given another layout meanwhile",
    "unable to open": "cannot be opened",
    "depend on it": "has tables that views of yours depend on: drop those views first",
    "permission denied": "does not let you do this",
    "connection": "cannot be reached",
}


def trouble(error: SQLAlchemyError) -> str:
    """What is wrong with the ledger, in our own words."""
    cause = str(getattr(error, "orig", None) or error).lower()
    if missing := _MISSING.search(cause):
        if missing["table"]:
            return f"is no ledger yet: it has no table {missing['table']!r} (`dpgap ledger create`)"
        return f"cannot be opened: its server has no {missing['kind']} {missing['name']!r}"
    return next((words for sign, words in _TROUBLES.items() if sign in cause), "failed")
