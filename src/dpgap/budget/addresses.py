"""Where a ledger is: the ways to write it down, and the one that its engine is given.

A SQLite file is `sqlite:///budget.db`, `budget.db`, or a URI of SQLite's own such as
`sqlite:///file:my%20budget.db?mode=ro&uri=true`. All of them become one absolute path, which does
not move with the working folder, and a URL that never makes the file: an address that is only read
leaves nothing behind, and whoever makes the file decides who may read it.

>>> read_url("sqlite:////srv/budget.db?mode=rwc").file
PosixPath('/srv/budget.db')
>>> read_url("postgresql://ann:secret@host/db?password=secret").where
'postgresql+psycopg://ann:***@host/db'
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlencode

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

_ACCEPTED = "sqlite:///budget.db or postgresql://user@host/database"
_IN_MEMORY = "ledger must name a file: a budget in memory is forgotten"
_OF_THE_DRIVER = (
    "cached_statements",
    "check_same_thread",
    "detect_types",
    "isolation_level",
    "timeout",
)
"""What Python's driver for SQLite takes; SQLite itself takes the rest."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ledger is."""

    url: sql.URL
    """What the engine opens. It may hold a password."""
    where: str
    """What may be shown."""
    file: Path | None = None
    """The absolute path, if the ledger is a SQLite file."""
    may_be_made: bool = False
    """Whether the file may be made where there is none."""


def read_url(url: object) -> Address:
    """The address that a user wrote down, in any of the ways that are accepted."""
    parsed = _parsed(url)
    kind = parsed.get_backend_name()
    if kind in ("postgresql", "postgres"):
        server = parsed.set(drivername="postgresql+psycopg")
        # A query may hold a password as well.
        return Address(server, server.set(query={}).render_as_string(hide_password=True))
    if kind != "sqlite":
        raise ValueError(f"ledger must be a URL such as {_ACCEPTED}, not of kind {kind!r}")
    return _sqlite(parsed)


def _parsed(url: object) -> sql.URL:
    if isinstance(url, Path):
        return sql.URL.create("sqlite", database=str(url.absolute()))
    if isinstance(url, str) and url and ":" not in url:
        url = f"sqlite:///{url}"
    if isinstance(url, str | sql.URL):
        with suppress(SQLAlchemyError, ValueError, TypeError):
            return sql.make_url(url)
    raise ValueError(f"ledger must be a URL such as {_ACCEPTED}")


def _sqlite(url: sql.URL) -> Address:
    options: dict[str, str] = {}
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise ValueError(f"ledger must say {name!r} once in its URL")
        options[name] = value
    said_uri = options.pop("uri", None) is not None
    file = _file(url.database or "", said_uri)
    mode = options.pop("mode", "rwc")
    if mode == "memory" or options.get("vfs") == "memdb":
        raise ValueError(_IN_MEMORY)
    if mode not in ("ro", "rw", "rwc"):
        raise ValueError("ledger must have one of the modes ro, rw and rwc in its URL")
    driver = {name: options.pop(name) for name in _OF_THE_DRIVER if name in options}
    opening = urlencode({**options, "mode": "ro" if mode == "ro" else "rw"})
    return Address(
        url=url.set(database=f"{file.as_uri()}?{opening}", query={**driver, "uri": "true"}),
        where=sql.URL.create("sqlite", database=str(file)).render_as_string(),
        file=file,
        may_be_made=mode == "rwc",
    )


def _file(name: str, said_uri: bool) -> Path:
    """The absolute path of the file that the database part of a URL names."""
    if name.startswith("file:"):
        if not said_uri and os.path.lexists(name):
            raise ValueError(
                f"ledger is unclear: there is a file called {name!r}. Write sqlite:///./{name} "
                "for it, or add uri=true for the file that the URI names"
            )
        name = _named_by(name)
    if not name or ":memory:" in name or "\0" in name:
        raise ValueError(_IN_MEMORY)
    return Path(name).absolute()


def _named_by(uri: str) -> str:
    """The path in a `file:` URI, as SQLite reads it."""
    path = uri.removeprefix("file:").partition("#")[0]
    if path.startswith("//"):
        host, slash, path = path.removeprefix("//").partition("/")
        if host not in ("", "localhost"):
            raise ValueError("ledger must be a file of this machine: write file:///path")
        path = slash + path
    return unquote(path, errors="surrogateescape")
