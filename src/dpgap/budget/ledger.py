"""Durable budgets: a total ε for every data set, that no crash and no crowd can overspend.

A release reserves the most it can cost in one transaction *before* any noise is drawn, and settles
to what it did cost afterwards. Whatever goes wrong in between leaves the reservation spent. If the
ledger cannot be written, nothing is released.

The default is a SQLite file (made readable to its owner only); PostgreSQL serves several machines.
The entries, how they are rounded, and what their hashes show: `dpgap.budget.entries`.

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
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dpgap import public
from dpgap.budget.addresses import Address, read_url
from dpgap.budget.databases import open_database, trouble
from dpgap.budget.entries import (
    Entry,
    NumberTooLong,
    exact_text,
    flaws,
    has_head,
    opening,
    reserving,
    rounded_down,
    rounded_up,
    settling,
)
from dpgap.budget.names import look_alike, require_name
from dpgap.exact.parameters import Rational, positive_rational, readable

_CREATING = 0x6470676170
"""The number of the lock that lets one process at a time open a budget in PostgreSQL."""

_EXACT = ("epsilon", "total", "spent", "reserved")  # kept as text such as 7/10
_NUMBER = re.compile("-?[0-9]+(/[0-9]+)?")
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


@public
class LedgerError(RuntimeError):
    """The ledger cannot be read or written, so nothing may be released."""


class UnreadableEntry(LedgerError):  # noqa: N818 - it says what is wrong
    """An entry is there, but its numbers cannot be read."""


@public
class Ledger:
    """Budgets that last, one for each data set, kept in a database.

    Parameters
    ----------
    url
        `sqlite:///budget.db` or `postgresql://user@host/name`. A relative path is meant from the
        folder in which the `Ledger` was made.

    >>> import tempfile, dpgap
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
    >>> sales = ledger.create("sales", epsilon=1)
    >>> release = dpgap.NoisyMax(epsilon=0.25).release([90, 20], account=sales)
    >>> sales.remaining, ledger.datasets()
    (Fraction(3, 4), ['sales'])
    """

    def __init__(self, url: str) -> None:
        self._address = read_url(url)
        self._engine = open_database(self._address.url)

    def create(self, dataset: str, epsilon: Rational) -> "LedgerAccount":
        """Open a budget for a data set that has none yet: `epsilon` is the total for all releases.

        `dataset` is its name. One that looks like that of another data set is refused.
        """
        name = require_name(dataset)
        total = rounded_down(positive_rational("epsilon", epsilon))
        if total == 0:
            raise ValueError("epsilon must be larger: a total this small rounds down to 0")
        _make_file(self._address)
        self._require_file()
        with self._plain_errors(), self._creating() as connection:
            _LAYOUT.create_all(connection)
            last = _last_entry(connection, name)
            if last is not None:
                raise ValueError(f"dataset {name!r} has a budget already: {readable(last.total)}")
            other = look_alike(name, _datasets(connection))
            if other is not None:
                raise ValueError(
                    f"dataset {name!r} looks like {other!r}, which has a budget already"
                )
            _append(connection, opening(name, total, _who(), _now()))
        return LedgerAccount(self, name)

    def account(self, dataset: str) -> "LedgerAccount":
        """The account of the data set called `dataset`; pass it as `account=` to a release."""
        name = require_name(dataset)
        self._last(name)
        return LedgerAccount(self, name)

    def datasets(self) -> list[str]:
        """The names of all data sets."""
        with self._reading() as connection:
            return _datasets(connection)

    def entries(self, dataset: str) -> list[Entry]:
        """The whole book of the data set called `dataset`, oldest entry first."""
        return self._book(require_name(dataset))

    def verify(self, dataset: str | None = None, *, head: str | None = None) -> list[str]:
        """Everything that is wrong with one book, or with all of them; nothing if intact.

        `dataset` names the one book. `head` is a hash that `LedgerAccount.head` gave earlier, kept
        in another place.
        """
        names = self.datasets() if dataset is None else [require_name(dataset)]
        found: list[str] = []
        is_there = False
        for name in names:
            try:
                book = self._book(name)
            except UnreadableEntry as error:
                found.append(f"{name}: {error}")
                continue
            found += [f"{name}: {flaw}" for flaw in flaws(book)]
            is_there = is_there or (head is not None and has_head(book, head))
        if head is not None and not is_there:
            found.append(
                f"no entry has the hash {head}: the ledger was rewritten, truncated or restored "
                "from an older copy"
            )
        return found

    def __repr__(self) -> str:
        return f"Ledger({self._where})"

    @property
    def _where(self) -> str:
        return self._address.where

    def _book(self, name: str) -> list[Entry]:
        with self._reading() as connection:
            book = _entries(name).order_by(_ENTRIES.c.number)
            return [_entry(row) for row in connection.execute(book)]

    def _last(self, dataset: str) -> Entry:
        with self._reading() as connection:
            return _require_entry(_last_entry(connection, dataset), dataset, self._where)

    def _reserve(self, dataset: str, epsilon: Fraction, purpose: str) -> Entry:
        self._require_file()
        with self._plain_errors(), self._writing(dataset) as (connection, found):
            last = _require_entry(found, dataset, self._where)
            entry = reserving(last, rounded_up(epsilon), purpose, _who(), _now())
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
            # What was reserved before charges were rounded may lie below the next multiple.
            cost = min(rounded_up(spent), reserved) if 0 <= spent <= reserved else spent
            entry = settling(last, reservation.number, reserved, cost, _who(), _now())
            _append(connection, entry)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[sql.Connection, Entry | None]]:
        """A transaction that no other writer to this data set can overlap, and the last entry."""
        with self._locking() as connection:
            first = _entries(dataset).where(_ENTRIES.c.number == 0)
            connection.execute(first.with_for_update())  # SQLite has locked it all already
            yield connection, _last_entry(connection, dataset)

    @contextmanager
    def _creating(self) -> Iterator[sql.Connection]:
        """A transaction that no other creation of a budget can overlap."""
        with self._locking() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            yield connection

    @contextmanager
    def _locking(self) -> Iterator[sql.Connection]:
        """A transaction that writes; in SQLite the only one."""
        writer = self._engine.execution_options(dpgap_begin="BEGIN IMMEDIATE")
        with writer.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sql.Connection]:
        self._require_file()
        with self._plain_errors(), self._engine.connect() as connection:
            yield connection

    def _require_file(self) -> None:
        file = self._address.file
        if file is not None and not file.exists():
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
        except NumberTooLong as error:
            raise LedgerError(f"the ledger {self._where} cannot go on: {error}") from None
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {self._where} {trouble(error)}: nothing is released without it"
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


def _datasets(connection: sql.Connection) -> list[str]:
    column = _ENTRIES.c.dataset
    return list(connection.scalars(sql.select(column).distinct().order_by(column)))


def _last_entry(connection: sql.Connection, dataset: str) -> Entry | None:
    newest_first = _entries(dataset).order_by(_ENTRIES.c.number.desc())
    row = connection.execute(newest_first.limit(1)).first()
    return None if row is None else _entry(row)


def _entry(row: sql.Row[Any]) -> Entry:
    texts = [row._mapping[name] for name in _EXACT]
    if not all(isinstance(text, str) and _NUMBER.fullmatch(text) for text in texts):
        raise UnreadableEntry(f"entry {row.number} was edited: its numbers cannot be read")
    try:
        exact = dict(zip(_EXACT, map(Fraction, texts), strict=True))
        return Entry(**{**row._mapping, **exact, "number": int(row.number)})
    except (TypeError, ArithmeticError):
        raise UnreadableEntry(
            f"entry {row.number} was edited: its numbers cannot be read"
        ) from None
    except ValueError:
        raise UnreadableEntry(
            f"entry {row.number} has a number of more digits than Python reads "
            f"({sys.get_int_max_str_digits()})"
        ) from None


def _append(connection: sql.Connection, entry: Entry) -> None:
    exact = {name: exact_text(getattr(entry, name)) for name in _EXACT}
    connection.execute(_ENTRIES.insert().values({**asdict(entry), **exact}))


def _require_entry(last: Entry | None, dataset: str, where: str) -> Entry:
    if last is None:
        raise LedgerError(
            f"the ledger {where} has no data set {dataset!r}: make it with `dpgap ledger create`"
        )
    if last.hash != last.seal():
        raise LedgerError(f"the last entry of {dataset!r} in {where} was edited: see `verify`")
    return last


def _make_file(address: Address) -> None:
    """Make an empty file that only its owner can read and write; journals take its mode."""
    if address.file is None or not address.may_be_made or address.file.exists():
        return
    try:
        os.close(os.open(address.file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerError(f"the ledger file cannot be made: {error.strerror}") from None


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
