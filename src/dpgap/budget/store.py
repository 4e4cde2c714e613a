"""Where a ledger is kept: its tables in a database, and the transactions that touch them.

An entry is a row with its body; other columns exist only for values that the database looks up or
keeps unique. Documents have their own table. The table `dpgap_layout` has the number of the layout
(the schema), which is 1. A later layout is refused: it will keep `dpgap_layout`, so it is
recognised.

>>> read_url("sqlite:////srv/budget.db").file
PosixPath('/srv/budget.db')
>>> read_url("postgresql://ann:secret@host/db?password=secret").where
'postgresql+psycopg://ann:***@host/db'
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpgap._package import how_to_get
from dpgap.budget import entries
from dpgap.budget.cost import Cost, Limit
from dpgap.budget.entries import Entry, LedgerError, UnreadableEntry

# --------------------------------------------------------------------------------------------------
# The address of a ledger: how users write it, and the URL for the database engine.
#
# A SQLite file is `sqlite:///budget.db` or `budget.db`. Both become one absolute path, which does
# not change with the working folder. The URL never creates the file: reading an address leaves no
# file, and `creating` makes the file with the permissions of its owner.


_ACCEPTED = "sqlite:///budget.db or postgresql://user@host/database"
_UNCHANGED = ": nothing is released or changed without it"
_UNSURE = (
    ": what was to be written may have been written all the same, though nothing is released. A "
    "request that is sent again with its key is charged once"
)
BUSY_SECONDS = 60
"""How long to wait for other releases that are writing to the same ledger."""


class Address(NamedTuple):
    """The address of a ledger.

    The engine opens `url`, which may hold a password. Messages show `where`, without it. `file` is
    the absolute path, if the ledger is a SQLite file.
    """

    url: sql.URL
    where: str
    file: Path | None = None


def read_url(url: object) -> Address:
    """Read the address that a user wrote, in any accepted form."""
    if isinstance(url, Path):
        url = sql.URL.create("sqlite", database=str(url.absolute()))
    elif isinstance(url, str) and url and ":" not in url:
        url = f"sqlite:///{url}"
    try:
        parsed = sql.make_url(url)  # type: ignore[arg-type]
    except (SQLAlchemyError, ValueError, TypeError):
        raise ValueError(f"ledger must be a URL such as {_ACCEPTED}") from None
    kind = parsed.get_backend_name()
    name = parsed.database or ""
    # What stands before or after the @ may be a part of the password.
    if "@" in f"{parsed.host}" or (parsed.host and "@" in (name or str(url).partition("?")[2])):
        raise ValueError("ledger must be an address: write @ in a password as %40")
    if kind in ("postgresql", "postgres"):
        server = parsed.set(drivername="postgresql+psycopg")
        # A query may hold a password as well.
        return Address(server, server.set(query={}).render_as_string(hide_password=True))
    if kind != "sqlite":
        raise ValueError(f"ledger must be a URL such as {_ACCEPTED}, not of kind {kind!r}")
    if name.startswith("file:") or parsed.query or parsed.host:
        raise ValueError("ledger must be a path after three slashes, as in sqlite:///budget.db")
    if not name or ":memory:" in name or "\0" in name:
        raise ValueError(
            "ledger must name a file: a budget in memory is lost when the program ends"
        )
    file = Path(name).absolute()
    options = {"timeout": str(BUSY_SECONDS), "uri": "true"}
    opened = parsed.set(database=f"{file.as_uri()}?mode=rw", query=options)
    where = sql.URL.create("sqlite", database=str(file)).render_as_string()
    return Address(opened, where, file)


# --------------------------------------------------------------------------------------------------
# How the database of a ledger is opened, and what is wrong with it, in our own words.


def open_database(url: sql.URL) -> sql.Engine:
    """The database at a URL; nothing is connected yet."""
    # No pool: no connection is used after a fork, or after the server closed it.
    if url.get_backend_name() == "sqlite":
        engine = sql.create_engine(url, poolclass=NullPool)
        sql.event.listen(engine, "connect", _leave_transactions_to_us)
        sql.event.listen(engine, "begin", _begin)
        return engine
    try:
        from dpgap.budget.postgres import open_postgres  # psycopg may be missing
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"a PostgreSQL ledger needs psycopg: {how_to_get('postgres')}"
        ) from None
    return open_postgres(url, BUSY_SECONDS)


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = EXTRA")  # committed means on the disk


def _begin(connection: sql.Connection) -> None:
    # A writer locks at once: it must not read a balance that another is about to change.
    connection.exec_driver_sql(connection.get_execution_options().get("dpgap_begin", "BEGIN"))


_TROUBLES = {
    r'(?:no such table: (?:main\.)?|relation ")(\w+)': (
        "is no ledger yet: it has no table {!r} (`dpgap ledger create`)"
    ),
    r'(role|database) "([^"]+)" does not exist': "cannot be opened: its server has no {} {!r}",
    "password authentication|no password": "is not open to this user, or the password is wrong",
    "readonly": "is read-only: this user must be allowed to write the file, and its folder",
    "read-only": "is read-only",
    "full|no space": "has no room left on the disk",
    "i/o error": "cannot be read or written: its disk reports an error",
    "locked|lock timeout": "is busy with other releases",
    "statement timeout": "did not finish a statement in time",
    "is silent|timed out|idle-in-transaction": "is silent: its network or its server stopped",
    "not a database|malformed": "is damaged or no ledger at all",
    "column": "has another layout than this dpgap knows",
    "unable to open": "cannot be opened: permission denied, or it is no file",
    "permission denied": "does not let you do this",
    "translate host|resolve": "cannot be reached: its host is not known",
    "connection refused": "cannot be reached: no server answers at its host and port",
    "connection": "cannot be reached (is its server running, and may this user connect?)",
}


def trouble(error: SQLAlchemyError) -> str:
    """What is wrong with the ledger, in our own words."""
    cause = str(getattr(error, "orig", None) or error).lower()
    for pattern, sentence in _TROUBLES.items():
        match = re.search(pattern, cause)
        if match:
            return sentence.format(*match.groups())
    return "failed"


# --------------------------------------------------------------------------------------------------


_ALL = 0x6470676170
"""A lock in PostgreSQL: exclusive to create budgets, shared for other writers."""
_ONE = 0x64706761
"""A lock for each data set, with a hash of its name: one process at a time writes to it."""

MOST = (1 << 31) - 1
"""The largest number that a database holds."""
_CHANGE_LIMITS = (
    entries.RENEW,
    entries.NEW_PERIOD,
    entries.RAISE,
    entries.LOWER,
    entries.ACCEPT,
)
"""The kinds of entries that change what a period can cost."""
_SPREAD = 200
"""About how many entries of a book an outline has."""

_CURRENT = 1
"""The layout that this dpgap reads and writes."""

_TABLES = sql.MetaData()


def _text(name: str, *, nullable: bool = False, primary_key: bool = False) -> sql.Column[str]:
    return sql.Column(name, sql.Text, nullable=nullable, primary_key=primary_key)


def _count(name: str, *, primary_key: bool = False) -> sql.Column[int]:
    return sql.Column(name, sql.Integer, primary_key=primary_key)


_ENTRIES = sql.Table(
    "dpgap_entries",
    _TABLES,
    _text("dataset", primary_key=True),
    _count("number", primary_key=True),
    _text("kind"),
    _text("person"),
    _text("at"),
    _count("reservation"),
    _text("key", nullable=True),
    _text("identity", nullable=True),
    _count("length"),
    _text("body"),
    _text("hash"),
    sql.UniqueConstraint("dataset", "reservation"),  # a reservation is settled once
    sql.UniqueConstraint("dataset", "key"),  # a request is charged once
    sql.Index("dpgap_entries_of_a_person", "dataset", "person", "number"),
    sql.Index("dpgap_entries_of_a_day", "dataset", "person", "at"),
    sql.Index("dpgap_entries_of_a_kind", "dataset", "kind", "number"),
    sql.Index("dpgap_entries_of_a_question", "dataset", "identity", "number"),
)
_DOCUMENTS = sql.Table(
    "dpgap_documents",
    _TABLES,
    _text("dataset", primary_key=True),
    _count("number", primary_key=True),
    _text("identity", nullable=True),
    _text("document"),
    sql.Index("dpgap_documents_of_a_question", "dataset", "identity", "number"),
)
_LAYOUT = sql.Table("dpgap_layout", _TABLES, _count("layout", primary_key=True))


class Document(NamedTuple):
    """What was released, as the archive keeps it."""

    number: int
    """The entry that settled it."""
    identity: str | None
    document: str


class Outline(NamedTuple):
    """A long book in a few of its entries, as it was after its last entry.

    `settled` says how many releases are settled; `waiting` has the reservations that nothing ended,
    and `people` the last entry of each person. `spread` has some hundred entries up to the last:
    also the first, and the one that states the table. `earlier` is the book as it was before a
    range of dates, if the outline is of one. `limits` says what each period of a renewed budget can
    cost, by its first day, and under "" what was charged before the first of them.
    """

    last: Entry
    settled: int
    waiting: list[Entry]
    people: list[Entry]
    spread: list[Entry]
    earlier: "Outline | None" = None
    limits: Mapping[str, Limit] = {}


class Period(NamedTuple):
    """The current period of a renewed budget, in the currency of the budget: ε or ρ."""

    spent: Fraction
    reserved: Fraction
    total: Fraction


class Rows:
    """The rows of a ledger, within one transaction."""

    def __init__(self, store: "Store", connection: sql.Connection) -> None:
        self.connection = connection
        self.where = store.where
        store.is_made(connection)  # a later layout is refused

    def datasets(self) -> list[str]:
        """The names of all data sets."""
        column = _ENTRIES.c.dataset
        return list(self.connection.scalars(sql.select(column).distinct().order_by(column)))

    def book(
        self,
        dataset: str,
        last: int | None = None,
        before: int = MOST,
        first: int = 0,
        **choices: Any,
    ) -> list[Entry]:
        """The entries of one data set, oldest first: all, or those from `first` on before `before`.

        `kind` selects entries of some kinds; `reservation`, those that end some reservations.
        """
        entry = _ENTRIES.c
        query = self._of(dataset, entry.number >= first, entry.number < min(before, MOST))
        if last is not None:  # else the order is ours: for it, SQLite would look at every entry
            query = query.order_by(entry.number.desc()).limit(last)
        for name, values in choices.items():
            query = query.where(entry[name].in_(values))
        return sorted(self._read(query), key=lambda entry: entry.number)

    def find(self, dataset: str, **values: Any) -> list[Entry]:
        """The last entry; also the last of a `person`, that with a `key` and that with a `number`.

        With an `identity` (a hash), also the last reservation for this question. They come in the
        order of their numbers, from one query.
        """
        keys = {name: value for name, value in values.items() if value not in (None, "")}
        return self._read(_finding(tuple(keys)), {"dataset": dataset} | keys)

    def keyed(self, dataset: str, key: str) -> Entry | None:
        """The entry with a key."""
        matches = self.find(dataset, key=key)
        return next((entry for entry in matches if entry.key == key), None)

    def require(self, dataset: str, **values: Any) -> list[Entry]:
        """What `find` finds. The last entry must be there and match its hash."""
        matches = self.find(dataset, **values)
        if not matches:
            raise LedgerError(
                f"the ledger {self.where} has no data set {dataset!r}: make it with `dpgap ledger "
                f"create`. It has: {', '.join(self.datasets()[:9]) or 'none so far'}"
            )
        last = matches[-1]
        if last.hash != last.seal():
            raise LedgerError(
                f"the last entry of {dataset!r} in {self.where} was edited: see `verify`",
                "has an edited entry: see `dpgap ledger verify`",
            )
        return matches

    def count_before(self, dataset: str, time: str) -> int:
        """How many entries come before a time.

        The first entry of this time or later ends them. Entries after it may have earlier times: a
        settlement has the time of its charge.
        """
        later = self._of(dataset, _ENTRIES.c.at >= time)
        first = self.connection.scalar(later.with_only_columns(sql.func.min(_ENTRIES.c.number)))
        if first is None:
            return self.require(dataset)[-1].number + 1
        return int(first)

    def waiting(self, dataset: str, end: int = MOST) -> list[Entry]:
        """The reservations before a number that nothing before it ended, oldest first."""
        entry = _ENTRIES.c
        ending = _ENTRIES.alias().c
        ended = sql.exists().where(
            ending.dataset == dataset, ending.reservation == entry.number, ending.number < end
        )
        query = self._of(dataset, entry.kind == entries.RESERVE, entry.number < end, ~ended)
        return self._read(query.order_by(entry.number))

    def outline(self, dataset: str, first: int = 0, end: int = MOST) -> Outline:
        """The part of a book that a page shows, however long the book: from `first` up to `end`."""
        entry = _ENTRIES.c
        last = self.book(dataset, 1, end)[-1]
        settled = self._of(dataset, entry.kind == entries.SETTLE, entry.number < end)
        waiting = self.waiting(dataset, end)
        step = max(0, last.number - first) // _SPREAD + 1
        numbers = set(range(first, last.number, step)) | {0, last.bound or 0}
        spread = self.book(dataset, number=numbers - {last.number})
        spread.append(last)
        return Outline(
            last=last,
            settled=self.connection.scalar(settled.with_only_columns(sql.func.count())) or 0,
            waiting=waiting,
            people=self.people(dataset, end),
            spread=spread,
            earlier=self.outline(dataset, end=first) if first else None,
            limits=self._limits(last, waiting),
        )

    def period_start(self, last: Entry) -> int:
        """The number of the first entry of an entry's period; 0 if the budget is not renewed."""
        if last.renewal is None:
            return 0
        since = last.renewal.since
        starts = [last]  # it may not be written yet
        if last.kind != entries.NEW_PERIOD:
            starts = self.book(last.dataset, 1, last.number + 1, kind=[entries.NEW_PERIOD])
        for start in starts:
            if start.period is not None and start.period.since == since:
                return start.number
        return self.count_before(last.dataset, since)

    def period(self, last: Entry) -> Period | None:
        """The current period of a budget; None if it is not renewed."""
        if last.renewal is None:
            return None
        first = self.period_start(last)
        waiting = self.waiting(last.dataset)
        before = self._charged_before(last, waiting)
        under_way = Cost.sum(entry.charge for entry in waiting if entry.number >= first)
        settled = last.gone - before - under_way
        granted = last.granted
        return Period(granted.of(settled), granted.of(under_way), granted.lowered(before).amount)

    def _charged_before(self, last: Entry, waiting: list[Entry]) -> Cost:
        """What was charged before the current period."""
        column = _ENTRIES.c
        first = self.period_start(last)
        in_period = self._of(last.dataset, column.number >= first, column.number <= last.number)
        charges = [
            entry.charge for entry in self._read(in_period.where(column.reservation < first))
        ]
        charges += [entry.charge for entry in waiting if entry.number < first]
        settled = Cost.sum(entry.used for entry in self.book(last.dataset, 1, first))
        return settled + Cost.sum(charges)

    def _limits(self, last: Entry, waiting: list[Entry]) -> dict[str, Limit]:
        """What each period can cost, by its first day, since the budget is renewed as it is now.

        A period costs what it began with, and what raised its total. The newest costs the total,
        less what was charged before. With "" comes what was charged before all these periods.
        """
        renewal = last.renewal
        if renewal is None:
            return {}
        before = self._charged_before(last, waiting)
        nothing = renewal.grant.none()
        earlier = nothing  # what the newest period could cost before it was begun again
        limits: dict[str, Limit] = {}
        for entry in self.book(last.dataset, before=last.number + 1, kind=_CHANGE_LIMITS):
            period = entry.period
            if period is None or (period.every, period.carry) != (renewal.every, renewal.carry):
                limits = {}
            elif entry.kind == entries.NEW_PERIOD:
                limits = limits or {"": entry.granted.used_up_by(entry.gone)}
                newest = period.since
                earlier = limits.get(newest, nothing)
                limits[newest] = earlier.raised(period.grant)
            elif entry.kind != entries.RENEW and limits:
                previous = self.book(last.dataset, 1, entry.number)[0]
                limits[newest] = limits[newest].changed(previous.granted, entry.granted)
        if not limits:
            limits[""] = last.granted.used_up_by(before)
        limits[renewal.since] = earlier.raised(last.granted.lowered(before))
        return limits

    def people(self, dataset: str, end: int = MOST) -> list[Entry]:
        """The last entry of each person before a number, by their names."""
        entry = _ENTRIES.c
        named = self._of(dataset, entry.person != "", entry.number < end).group_by(entry.person)
        newest = named.with_only_columns(sql.func.max(entry.number))
        people = self._read(self._of(dataset, entry.number.in_(newest)))
        return sorted(people, key=lambda entry: entry.person)

    def entry(self, dataset: str, **numbers: int) -> Entry | None:
        """The entry of a `number`, or that ended a `reservation`, if there is one."""
        if not all(0 <= number <= MOST for number in numbers.values()):
            return None
        choices: dict[str, Any] = {name: [number] for name, number in numbers.items()}
        return next(iter(self.book(dataset, **choices)), None)

    def append(
        self, entry: Entry, document: str | None = None, identity: str | None = None
    ) -> Entry:
        """Write and return one entry, and write the document that it archives.

        If the entry could not be read again, nothing is written.
        """
        row = _row(entry, entry.body())
        try:
            entries.read_entry(row["body"], entry.hash)
        except UnreadableEntry:
            raise TypeError(
                "nothing was written to the ledger, because it could not be read back: persons, "
                "purposes and reasons must be text, and carry must be True or False"
            ) from None
        self.connection.execute(_ENTRIES.insert(), row)
        if document is not None:
            document_row = Document(entry.number, identity, document)._asdict()
            document_row["dataset"] = entry.dataset
            self.connection.execute(_DOCUMENTS.insert(), document_row)
        return entry

    def document(self, dataset: str, first: int = 0, **values: Any) -> Document | None:
        """The document that the entry of a `number` settled, or the newest of an `identity`.

        It must have been reserved by the entry `first` or a later one.
        """
        number = _DOCUMENTS.c.number
        query = self._archive(dataset).filter_by(**values).order_by(number.desc())
        if first:
            settled = self._of(dataset, _ENTRIES.c.reservation >= first)
            query = query.where(number.in_(settled.with_only_columns(_ENTRIES.c.number)))
        row = self.connection.execute(query.limit(1)).first()
        if row is None:
            return None
        return Document._make(row[1:])

    def documents(self, dataset: str, after: int, limit: int) -> list[Document]:
        """The next few documents of a data set after an entry, oldest first."""
        number = _DOCUMENTS.c.number
        query = self._archive(dataset).where(number > after).order_by(number).limit(limit)
        return [Document._make(row[1:]) for row in self.connection.execute(query)]

    def orphans(self, dataset: str | None = None) -> list[tuple[str, int]]:
        """The data sets and numbers of documents that have no entry: all, or of one data set."""
        documents = sql.select(_DOCUMENTS.c.dataset, _DOCUMENTS.c.number)
        query = documents.except_(sql.select(_ENTRIES.c.dataset, _ENTRIES.c.number))
        orphans = sorted(self.connection.execute(query))
        return [(name, number) for name, number in orphans if dataset in (None, name)]

    def archived(self, dataset: str) -> int:
        """How many characters the documents of a data set have, added up."""
        characters = sql.func.sum(sql.func.length(_DOCUMENTS.c.document))
        return self.connection.scalar(self._archive(dataset).with_only_columns(characters)) or 0

    def usage(self, dataset: str, person: str, since: str, until: str) -> tuple[int, int, int]:
        """A person's charged and free requests, and archived characters, between two times."""
        entry = _ENTRIES.c
        query = self._of(dataset, entry.person == person, entry.at >= since, entry.at < until)
        charged = sql.func.count(sql.case((entry.kind == entries.RESERVE, 1)))
        free = sql.func.count(sql.case((entry.kind == entries.AGAIN, 1)))
        characters = sql.func.coalesce(sql.func.sum(entry.length), 0)
        row = self.connection.execute(query.with_only_columns(charged, free, characters)).one()
        return row[0], row[1], row[2]

    @property
    def has_clock(self) -> bool:
        """Whether the database has a clock of its own, and not that of the program's machine."""
        return self.connection.dialect.name == "postgresql"

    def now(self) -> str:
        """The time by the database's clock, in UTC and as entries write it."""
        # In PostgreSQL, now() is when the transaction began: before it waited for its turn.
        clock = sql.func.clock_timestamp() if self.has_clock else sql.func.now()
        moment: datetime = self.connection.execute(sql.select(clock)).scalar_one()
        if moment.tzinfo is None:
            in_utc = moment.replace(tzinfo=UTC)
        else:
            in_utc = moment.astimezone(UTC)
        return in_utc.isoformat(timespec="microseconds")

    def _read(
        self, query: sql.Select[Any], parameters: dict[str, Any] | None = None
    ) -> list[Entry]:
        return [_entry(row) for row in self.connection.execute(query, parameters)]

    def _archive(self, dataset: str) -> sql.Select[Any]:
        return sql.select(_DOCUMENTS).where(_DOCUMENTS.c.dataset == dataset)

    def _of(self, dataset: str, *conditions: Any) -> sql.Select[Any]:
        return sql.select(_ENTRIES).where(_ENTRIES.c.dataset == dataset, *conditions)


class Store:
    """The database of a ledger."""

    def __init__(self, url: str) -> None:
        address = read_url(url)
        self.where = address.where
        self._file = address.file
        self.user = address.url.username
        """The database user in the address, if there is one."""
        self.engine = open_database(address.url)
        self._is_current = False

    def is_there(self) -> bool:
        """Whether there is a ledger at the address; an error if its database cannot be reached."""
        if self._file is not None and not self._file.exists():
            if not self._file.parent.is_dir():
                raise LedgerError(f"there is no folder for the ledger {self.where}")
            return False
        with self._reached(), self.engine.connect() as connection:
            return self.is_made(connection)

    @property
    def has_already(self) -> str:
        """Why an entry is refused that the ledger has already."""
        return (
            f"the ledger {self.where} has this entry already: a data set is created once, a "
            "request charged once, a reservation settled once, and a period begun once"
        )

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """A transaction that only reads."""
        with self._reached(), self.engine.connect() as connection:
            yield Rows(self, connection)

    def require_writable(self) -> None:
        """Write an entry and take it back, or raise an error that says why it cannot be done."""
        with self.writing("") as rows:
            row: dict[str, Any] = {}
            for column in _ENTRIES.c:
                row[column.name] = 0 if isinstance(column.type, sql.Integer) else ""
            row["body"] = "".ljust(10_000)  # a full disk has no room for it
            rows.connection.execute(_ENTRIES.insert().values(row))
            rows.connection.rollback()

    @contextmanager
    def creating(self) -> Iterator[Rows]:
        """A transaction that no other writer can overlap; it makes tables if there are none."""
        if self._file is not None and not self._file.exists():
            try:  # only its owner can read and write it; journals take its mode
                self._file.touch(mode=0o600)
            except OSError as error:
                raise LedgerError(f"the ledger file cannot be made: {error.strerror}") from None
        with self.writing(None) as rows:
            # Nobody notes a layout that may be rolled back.
            if not self.is_made(rows.connection):
                _TABLES.create_all(rows.connection)
                rows.connection.execute(_LAYOUT.insert().values(layout=_CURRENT))
            yield rows

    @contextmanager
    def writing(self, dataset: str | None) -> Iterator[Rows]:
        """A transaction that no other writer to this data set can overlap; None: none at all."""
        writer = self.engine.execution_options(dpgap_begin="BEGIN IMMEDIATE")
        with self._reached(_UNCHANGED), writer.connect() as connection:
            transaction = connection.begin()
            if connection.dialect.name == "postgresql":  # SQLite has locked it all already
                # Else a crash may forget what was charged.
                connection.execute(sql.text("SET LOCAL synchronous_commit = on"))
                if dataset is None:
                    connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_ALL)))
                else:
                    connection.execute(sql.select(sql.func.pg_advisory_xact_lock_shared(_ALL)))
                    named = sql.func.hashtext(dataset)
                    connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_ONE, named)))
            yield Rows(self, connection)
            if transaction.is_active:  # it was not rolled back
                # A server that does not answer may have committed.
                consequence = _UNCHANGED if self._file else _UNSURE
                with self._reached(consequence):
                    transaction.commit()

    def is_made(self, connection: sql.Connection) -> bool:
        """Whether the tables of a ledger are there; an error if they have a later layout."""
        if self._is_current:  # it never goes back
            return True
        if not sql.inspect(connection).has_table(_LAYOUT.name):
            return False
        layout = connection.scalar(sql.select(sql.func.max(_LAYOUT.c.layout)))
        if layout != _CURRENT:
            raise LedgerError(
                f"the ledger {self.where} has layout {layout}, which a later dpgap made: this one "
                f"knows layout {_CURRENT}. Nothing was changed; update dpgap to use it"
            )
        self._is_current = True
        return True

    @contextmanager
    def _reached(self, consequence: str = "") -> Iterator[None]:
        """Turn errors of the database into a `LedgerError` in our own words."""
        if self._file is not None and not self._file.exists():
            raise LedgerError(
                f"there is no ledger at {self.where}: make one with `dpgap ledger create`",
                "is gone: there is no file",
            )
        try:
            yield
        except IntegrityError:
            raise LedgerError(self.has_already) from None
        except SQLAlchemyError as error:
            cause = trouble(error)
            raise LedgerError(f"the ledger {self.where} {cause}{consequence}", cause) from None


@lru_cache(maxsize=64)  # building a statement takes longer than executing it
def _finding(names: tuple[str, ...]) -> sql.Select[Any]:
    """The statement of `Rows.find` that looks up these names."""
    entry = _ENTRIES.c
    is_in_book = entry.dataset == sql.bindparam("dataset")
    newest = sql.select(sql.func.max(entry.number)).where(is_in_book)
    # A list of numbers: with OR, SQLite would look at every entry.
    numbers: list[Any] = [newest.scalar_subquery()]
    for name in names:
        value: sql.BindParameter[Any] = sql.bindparam(name)
        if name == "number":
            numbers.append(value)
        else:
            numbers.append(newest.where(entry[name] == value).scalar_subquery())
    matches = sql.select(_ENTRIES).where(is_in_book, entry.number.in_(numbers))
    return matches.order_by(entry.number)


def _row(entry: Entry, body: str) -> dict[str, Any]:
    """The columns of an entry: its body, its hash, and copies of some values of the body."""
    row: dict[str, Any] = {}
    for column in _ENTRIES.c:
        row[column.name] = getattr(entry, column.name, entry.extra.get(column.name))
    row["body"] = body
    return row


def _entry(row: sql.Row[Any]) -> Entry:
    """The entry of a row."""
    try:
        entry = entries.read_entry(row.body, row.hash)
        copies = _row(entry, row.body)
        if any(copies.get(name, value) != value for name, value in row._mapping.items()):
            raise UnreadableEntry("was edited: its columns do not say what its body says")
    except UnreadableEntry as error:
        raise UnreadableEntry(f"entry {row.number} {error}") from None
    return entry
