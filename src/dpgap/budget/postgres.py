"""Connections to a ledger in PostgreSQL, each with limits: no silence lasts for ever.

A network can go silent without a word: a cable is cut, a firewall forgets a connection. A charge
holds a lock, so a silent charge would block its data set for everybody. These limits end it:

- The server ends a transaction whose program says nothing for 20 seconds
  (`idle_in_transaction_session_timeout`). This frees the lock, and nothing is charged.
- A statement takes at most 65 seconds (`statement_timeout`), of which it may wait 60 for a lock
  (`lock_timeout`). A program that has no reply 5 seconds later gives the connection up.
- The system notices a network that acknowledges nothing for 20 seconds (`tcp_user_timeout`,
  keepalives), and a server that cannot be reached within 10 seconds (`connect_timeout`).

Whatever the user's address states counts instead.

>>> reply_seconds("-c statement_timeout=65000 -c statement_timeout=2s")
3.0
"""

import os
import re
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sql
from sqlalchemy.pool import NullPool

_SESSION = {
    "statement_timeout": 65_000,
    "idle_in_transaction_session_timeout": 20_000,
}
_NETWORK = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
_MARGIN = 5.0
"""How many seconds a reply may take beyond the limit of its statement."""

_STATED = re.compile(r"statement[-_]timeout\s*=\s*'?(\d+)\s*([a-z]*)", re.IGNORECASE)
_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}

_Result = TypeVar("_Result")


def open_postgres(url: sql.URL, busy_seconds: float) -> sql.Engine:
    """The database at a URL; nothing is connected yet."""
    # The user's options come last, so they override ours.
    user_options = url.normalized_query.get("options", (os.environ.get("PGOPTIONS", ""),))
    limits = {"lock_timeout": int(busy_seconds * 1000)} | _SESSION
    our_options = [f"-c {name}={milliseconds}" for name, milliseconds in limits.items()]
    options = " ".join(our_options + list(user_options)).rstrip()
    network = {name: value for name, value in _NETWORK.items() if name not in url.query}
    engine = sql.create_engine(
        url,
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
        connect_args={"options": options, **network},
    )
    seconds = reply_seconds(options)

    @sql.event.listens_for(engine, "do_connect")
    def connect(_: object, __: object, arguments: Any, parameters: Any) -> _LimitedConnection:
        connection = _LimitedConnection.connect(*arguments, **parameters)
        connection.reply_seconds = seconds
        return connection

    return engine


def reply_seconds(options: str) -> float | None:
    """How long to wait for a reply, by the last `statement_timeout` of options; None: for ever."""
    *_, (number, unit) = _STATED.findall(options)
    limit = int(number) * _SECONDS.get(unit.lower(), 0)
    if not limit:
        return None
    return limit + min(_MARGIN, limit / 2)


class _LimitedConnection(psycopg.Connection[Any]):
    """A connection that is given up if the server is silent for too long."""

    reply_seconds: float | None = None

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        steps = gen
        if self.reply_seconds is not None:
            steps = _hearing(gen, self.reply_seconds)
        try:
            return super().wait(steps, *arguments, **options)
        except _Silence:
            self.close()
            raise


class _Silence(psycopg.OperationalError):
    """The server has sent nothing for too long."""


def _hearing(steps: Generator[Any, Any, _Result], seconds: float) -> Generator[Any, Any, _Result]:
    """The same steps of psycopg, ended if the server sends and takes nothing for some seconds."""
    ready = None
    end = time.monotonic() + seconds
    while True:
        try:
            state = steps.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        ready = yield state
        if ready:
            end = time.monotonic() + seconds
        elif time.monotonic() > end:
            raise _Silence("no reply came in time: the connection is silent")
