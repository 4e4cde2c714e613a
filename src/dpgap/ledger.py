"""Durable budgets: a total ε for every data set, that no crash and no crowd can overspend.

A release reserves the most it can cost in one transaction *before* any noise is drawn, and settles
to what it did cost afterwards. Whatever goes wrong in between leaves the reservation spent. If the
ledger cannot be written, nothing is released.

The default is a SQLite file (made readable to its owner only); PostgreSQL serves several machines.
The entries and what their hashes can and cannot show: `dpgap.chain`.

>>> import tempfile, os
>>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
>>> sales = ledger.create("sales", epsilon=1)
>>> sales.reserve(Fraction(3, 4), "NoisyTopK(…)").settle(Fraction(1, 2))
>>> sales.remaining, ledger.verify("sales")
(Fraction(1, 2), [])
"""

import getpass
import os
import platform
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpgap.chain import Entry, flaws, has_head, opening, reserving, settling
from dpgap.parameters import Rational, positive_rational

BUSY_SECONDS = 60
"""How long to wait for other releases that are writing to the same ledger."""

_MAX_NAME = 200
_EXACT = ("epsilon", "total", "spent", "reserved")  # kept as text such as 7/10
_LAYOUT = sql.MetaData()


_ENTRIES = sql.Table(
    "dpgap_entries",
    _LAYOUT,
    sql.Column("dataset", sql.Text, primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("about", sql.Integer),
    sql.Column("epsilon", sql.Text, nullable=False),
    sql.Column("total", sql.Text, nullable=False),
    sql.Column("spent", sql.Text, nullable=False),
    sql.Column("reserved", sql.Text, nullable=False),
    sql.Column("purpose", sql.Text, nullable=False),
    sql.Column("who", sql.Text, nullable=False),
    sql.Column("at", sql.Text, nullable=False),
    sql.Column("previous", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
    sql.UniqueConstraint("dataset", "about"),  # a reservation is settled once
)


class LedgerError(RuntimeError):
    """The ledger cannot be read or written, so nothing may be released."""


class Ledger:
    """The budgets kept at a URL: `sqlite:///budget.db` or `postgresql://user@host/name`."""

    def __init__(self, url: str) -> None:
        self._url = _read_url(url)
        self._file = _file_of(self._url)
        self._engine = _engine(self._url)

    def create(self, dataset: str, epsilon: Rational) -> "LedgerAccount":
        """Open a budget of `epsilon` in total for a data set that has none yet."""
        name = _require_name(dataset)
        total = positive_rational("epsilon", epsilon)
        if self._file is not None and not self._file.exists():
            _make_private(self._file)
        with self._plain_errors():
            _LAYOUT.create_all(self._engine)
            with self._writing(name) as (connection, last):
                if last is not None:
                    raise ValueError(f"dataset {name!r} has a budget already: {last.total}")
                _append(connection, opening(name, total, _who(), _now()))
        return LedgerAccount(self, name)

    def account(self, dataset: str) -> "LedgerAccount":
        """The account of a data set; pass it as `account=` to a release."""
        name = _require_name(dataset)
        self._last(name)
        return LedgerAccount(self, name)

    def datasets(self) -> list[str]:
        """The names of all data sets."""
        with self._reading() as connection:
            column = _ENTRIES.c.dataset
            return list(connection.scalars(sql.select(column).distinct().order_by(column)))

    def entries(self, dataset: str) -> list[Entry]:
        """The whole book of a data set, oldest entry first."""
        with self._reading() as connection:
            book = _entries(dataset).order_by(_ENTRIES.c.number)
            return [_entry(row) for row in connection.execute(book)]

    def verify(self, dataset: str | None = None, *, head: str | None = None) -> list[str]:
        """Everything that is wrong with one book, or with all of them; nothing if intact.

        `head` is a hash that `LedgerAccount.head` gave earlier, kept in another place.
        """
        names = self.datasets() if dataset is None else [_require_name(dataset)]
        books = {name: self.entries(name) for name in names}
        found = [f"{name}: {flaw}" for name, book in books.items() for flaw in flaws(book)]
        if head is not None and not any(has_head(book, head) for book in books.values()):
            found.append(
                f"no entry has the hash {head}: the ledger was rewritten, truncated or restored "
                "from an older copy"
            )
        return found

    def __repr__(self) -> str:
        return f"Ledger({self._where})"

    @property
    def _where(self) -> str:
        # A query may hold a password as well.
        return self._url.set(query={}).render_as_string(hide_password=True)

    def _last(self, dataset: str) -> Entry:
        with self._reading() as connection:
            return _require_entry(_last_entry(connection, dataset), dataset, self._where)

    def _reserve(self, dataset: str, epsilon: Fraction, purpose: str) -> Entry:
        self._require_file()
        with self._plain_errors(), self._writing(dataset) as (connection, found):
            last = _require_entry(found, dataset, self._where)
            entry = reserving(last, epsilon, purpose, _who(), _now())
            _append(connection, entry)
        return entry

    def _settle(self, reservation: Entry, spent: Fraction) -> None:
        name = reservation.dataset
        self._require_file()
        with self._plain_errors(), self._writing(name) as (connection, found):
            last = _require_entry(found, name, self._where)
            same = _entries(name).where(_ENTRIES.c.hash == reservation.hash)
            if connection.execute(same).first() is None:
                raise LedgerError(f"{self._where} was rewritten: it has lost a reservation")
            reserved = reservation.epsilon
            entry = settling(last, reservation.number, reserved, spent, _who(), _now())
            _append(connection, entry)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[sql.Connection, Entry | None]]:
        """A transaction that no other writer to this data set can overlap, and the last entry."""
        writer = self._engine.execution_options(dpgap_begin="BEGIN IMMEDIATE")
        with writer.begin() as connection:
            first = _entries(dataset).where(_ENTRIES.c.number == 0)
            connection.execute(first.with_for_update())  # SQLite has locked it all already
            yield connection, _last_entry(connection, dataset)

    @contextmanager
    def _reading(self) -> Iterator[sql.Connection]:
        self._require_file()
        with self._plain_errors(), self._engine.connect() as connection:
            yield connection

    def _require_file(self) -> None:
        if self._file is not None and not self._file.exists():
            raise LedgerError(
                f"there is no ledger at {self._where}: make one with `dpgap ledger create`"
            )

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise LedgerError(
                f"the ledger {self._where} has this entry already: a data set is created once, "
                "and a reservation settled once"
            ) from None
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {self._where} {_trouble(error)}: nothing is released without it"
            ) from None


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """One data set's budget. It is what `account=` takes."""

    ledger: Ledger
    dataset: str

    def reserve(self, epsilon: Fraction, purpose: str) -> "LedgerReservation":
        """Set ε aside durably, or raise `BudgetExhausted` and change nothing."""
        needed = positive_rational("epsilon", epsilon)
        return LedgerReservation(self.ledger, self.ledger._reserve(self.dataset, needed, purpose))

    @property
    def balance(self) -> Entry:
        """The last entry: `total`, `spent`, `reserved` and `remaining` as of now, and `hash`."""
        return self.ledger._last(self.dataset)

    @property
    def total(self) -> Fraction:
        """The ε that all releases together may cost."""
        return self.balance.total

    @property
    def spent(self) -> Fraction:
        """The ε that settled releases did cost."""
        return self.balance.spent

    @property
    def reserved(self) -> Fraction:
        """The ε of releases under way or broken off; it counts as spent."""
        return self.balance.reserved

    @property
    def remaining(self) -> Fraction:
        """The ε that can still be reserved."""
        return self.balance.remaining

    @property
    def head(self) -> str:
        """The hash of the last entry. Noted in another place, it shows a rewritten ledger."""
        return self.balance.hash


@dataclass(frozen=True, slots=True)
class LedgerReservation:
    """An ε set aside in a ledger for one release."""

    ledger: Ledger
    entry: Entry

    def settle(self, epsilon: Fraction) -> None:
        """Record what the release did cost and give back the rest, once and for all."""
        self.ledger._settle(self.entry, Fraction(epsilon))


def _entries(dataset: str) -> sql.Select[Any]:
    return sql.select(_ENTRIES).where(_ENTRIES.c.dataset == dataset)


def _last_entry(connection: sql.Connection, dataset: str) -> Entry | None:
    newest_first = _entries(dataset).order_by(_ENTRIES.c.number.desc())
    row = connection.execute(newest_first.limit(1)).first()
    return None if row is None else _entry(row)


def _entry(row: sql.Row[Any]) -> Entry:
    try:
        exact = {name: Fraction(row._mapping[name]) for name in _EXACT}
        return Entry(**{**row._mapping, **exact, "number": int(row.number)})
    except (ValueError, TypeError, ArithmeticError):
        raise LedgerError(f"entry {row.number} was edited: its numbers are none") from None


def _append(connection: sql.Connection, entry: Entry) -> None:
    exact = {name: str(getattr(entry, name)) for name in _EXACT}
    connection.execute(_ENTRIES.insert().values({**asdict(entry), **exact}))


def _require_entry(last: Entry | None, dataset: str, where: str) -> Entry:
    if last is None:
        raise LedgerError(
            f"the ledger {where} has no data set {dataset!r}: make it with `dpgap ledger create`"
        )
    if last.hash != last.seal():
        raise LedgerError(f"the last entry of {dataset!r} in {where} was edited: see `verify`")
    return last


def _require_name(dataset: object) -> str:
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a name, not {type(dataset).__name__}")
    if not (0 < len(dataset) <= _MAX_NAME and dataset.isprintable()):
        raise ValueError(f"dataset must be a name of 1 to {_MAX_NAME} printable characters")
    return unicodedata.normalize("NFC", dataset)  # what looks the same is the same budget


def _read_url(url: object) -> sql.URL:
    accepted = "sqlite:///budget.db or postgresql://user@host/database"
    if isinstance(url, Path) or (isinstance(url, str) and url and ":" not in url):
        url = f"sqlite:///{url}"
    try:
        parsed = sql.make_url(url)  # type: ignore[arg-type]
    except (SQLAlchemyError, ValueError, TypeError):
        raise ValueError(f"ledger must be a URL such as {accepted}") from None
    kind = parsed.get_backend_name()
    if kind in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise ValueError(f"ledger must be a URL such as {accepted}, not of kind {kind!r}")
    if not parsed.database or ":memory:" in parsed.database or parsed.query.get("mode") == "memory":
        raise ValueError("ledger must name a file: a budget in memory is forgotten")
    if "mode" in parsed.query and not parsed.database.startswith("file:"):
        # SQLite knows modes such as ro only in names that it reads as URIs.
        parsed = parsed.set(database=f"file:{parsed.database}")
        parsed = parsed.update_query_dict({"uri": "true"})
    return parsed


def _file_of(url: sql.URL) -> Path | None:
    """The SQLite file, unless SQLite is asked to read its name as a URI."""
    if url.get_backend_name() != "sqlite" or (url.database or "").startswith("file:"):
        return None
    return Path(url.database or "")


def _make_private(file: Path) -> None:
    """Create an empty file that only its owner can read and write; journals take its mode."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerError(f"the ledger file cannot be made: {error.strerror}") from None


def _engine(url: sql.URL) -> sql.Engine:
    # No pool: a connection never crosses a fork, and a dropped one is never met again.
    if url.get_backend_name() == "sqlite":
        engine = sql.create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})
        sql.event.listen(engine, "connect", _leave_transactions_to_us)
        sql.event.listen(engine, "begin", _begin)
        return engine
    wait = f"-c lock_timeout={BUSY_SECONDS * 1000}"
    try:
        return sql.create_engine(
            url,
            poolclass=NullPool,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": 10, "options": wait},
        )
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "a PostgreSQL ledger needs psycopg: pip install 'dpgap[postgres]'"
        ) from None


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = EXTRA")  # committed means on the disk


def _begin(connection: sql.Connection) -> None:
    # A writer locks at once: it must not read a balance that another is about to change.
    connection.exec_driver_sql(connection.get_execution_options().get("dpgap_begin", "BEGIN"))


_TROUBLES = {
    "readonly": "is read-only",
    "read-only": "is read-only",
    "full": "has no room left on the disk",
    "no space": "has no room left on the disk",
    "locked": "is busy with other releases",
    "lock timeout": "is busy with other releases",
    "not a database": "is damaged or no ledger at all",
    "malformed": "is damaged or no ledger at all",
    "no such table": "is no ledger yet (`dpgap ledger create` makes one)",
    "does not exist": "is no ledger yet (`dpgap ledger create` makes one)",
    "unable to open": "cannot be opened",
    "connection": "cannot be reached",
}


def _trouble(error: SQLAlchemyError) -> str:
    """What is wrong with the ledger, in our own words."""
    cause = str(getattr(error, "orig", None) or error).lower()
    return next((words for sign, words in _TROUBLES.items() if sign in cause), "failed")


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
