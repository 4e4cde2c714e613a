"""Where a ledger is kept: its tables in a database, and the transactions that touch them.

There are three layouts. In the first, an entry is a row with a column for everything it says. Since
the second, it is a row with its body, and columns beside it only for what the database looks up or
keeps unique; documents have a table of their own, and `dpgap_layout` says which layout it is. Only
the third, which looks up more, is written. A ledger of an older one is read, verified and migrated;
everything else asks for the migration. One of a later layout is refused: whatever comes later keeps
`dpgap_layout`, and so is recognised.

In all layouts the entries are in `dpgap_entries`. So a dpgap that knows only older layouts fails on
a ledger that was migrated, and cannot open a second budget beside it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dpgap.budget.addresses import read_url
from dpgap.budget.amounts import NumberTooLong
from dpgap.budget.book import Author, flaws, migrating
from dpgap.budget.databases import make_file, open_database, trouble
from dpgap.budget.entries import (
    FIRST,
    RESERVE,
    SECOND,
    THIRD,
    Entry,
    LedgerError,
    UnreadableEntry,
    read_entry,
)

_CREATING = 0x6470676170
"""The number of the lock that lets one process at a time open or migrate budgets in PostgreSQL."""
_CHARGING = 0x64706761
"""With a hash of the data set's name, the lock that lets one process at a time write to it."""

_MOST = (1 << 31) - 1
"""The largest number that a database holds."""

_TABLES = sql.MetaData()


def _text(name: str, **how: Any) -> sql.Column[str]:
    return sql.Column(name, sql.Text, **{"nullable": False, **how})


def _count(name: str, **how: Any) -> sql.Column[int]:
    return sql.Column(name, sql.Integer, **how)


_ENTRIES = sql.Table(
    "dpgap_entries",
    _TABLES,
    _text("dataset", primary_key=True),
    _count("number", primary_key=True),
    _count("version", nullable=False),
    _text("kind"),
    _text("person"),
    _text("at"),
    _count("reservation"),
    _text("key", nullable=True),
    _text("identity", nullable=True),
    _text("body"),
    _text("hash"),
    sql.UniqueConstraint("dataset", "reservation"),  # a reservation is settled once
    sql.UniqueConstraint("dataset", "key"),  # a request is charged once
    sql.Index("dpgap_entries_of_a_person", "dataset", "person", "number"),
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


def _older(*columns: str) -> sql.Table:
    """The entries of an older layout, which are only read. They call a reservation `about`."""
    counts = _count("number"), _count("version"), _count("about", key="reservation")
    known = {column.name: column for column in counts}
    return sql.Table(_ENTRIES.name, sql.MetaData(), *(known.get(it, _text(it)) for it in columns))


_OLDER = {
    FIRST: _older(
        *("dataset", "number", "kind", "about", "epsilon", "total", "spent", "reserved"),
        *("purpose", "who", "at", "previous", "hash"),
    ),
    SECOND: _older(
        *("dataset", "number", "version", "kind", "person", "about", "key", "body", "hash")
    ),
}


class Document(NamedTuple):
    """What was released, as the archive keeps it."""

    number: int
    """The entry that settled it."""
    identity: str | None
    document: str


class Rows:
    """The rows of a ledger, within one transaction."""

    def __init__(self, connection: sql.Connection, layout: int) -> None:
        self._connection, self.layout = connection, layout
        self._table = _OLDER.get(layout, _ENTRIES)

    def datasets(self) -> list[str]:
        """The names of all data sets."""
        column = self._table.c.dataset
        return list(self._connection.scalars(sql.select(column).distinct().order_by(column)))

    def book(
        self, dataset: str, last: int | None = None, before: int | None = None, **wanted: Any
    ) -> list[Entry]:
        """The entries of one data set, oldest first: all, or the last few before a number.

        `kind` or `reservation` say which ones: those of some kinds, or that end some reservations.
        """
        entry = self._table.c
        found = self._of(dataset).order_by(entry.number.desc()).limit(last)
        if before is not None:
            found = found.where(entry.number < min(before, _MOST))
        for name, values in wanted.items():
            found = found.where(entry[name].in_(values))
        return [_entry(row, self.layout) for row in reversed(self._connection.execute(found).all())]

    def find(
        self,
        dataset: str,
        person: str = "",
        key: str | None = None,
        number: int | None = None,
        identity: str | None = None,
    ) -> list[Entry]:
        """The last entry, the last of a person, that with a key and that with a number, if any.

        With an `identity`, a hash, also the last reservation that asked this question. They come in
        the order of their numbers, in one question to the database.
        """
        entry = self._table.c
        newest = sql.select(sql.func.max(entry.number)).where(entry.dataset == dataset)
        looked_up = {"person": person or None, "key": key, "identity": identity}
        wanted = [newest] + [
            newest.where(entry[name] == value)
            for name, value in looked_up.items()
            if value is not None and name in entry
        ]
        # A list of numbers: with OR, SQLite would look at every entry.
        numbers = [each.scalar_subquery() for each in wanted]
        place = [] if number is None else [sql.literal(findable(number))]
        found = self._of(dataset).where(entry.number.in_([*numbers, *place]))
        rows = self._connection.execute(found.order_by(entry.number))
        return [_entry(row, self.layout) for row in rows]

    def people(self, dataset: str) -> list[Entry]:
        """The last entry of each person, by their names."""
        entry = self._table.c
        if "person" not in entry:
            return []
        named = (entry.dataset == dataset) & (entry.person != "")
        newest = sql.select(sql.func.max(entry.number)).where(named).group_by(entry.person)
        found = self._of(dataset).where(entry.number.in_(newest)).order_by(entry.person)
        return [_entry(row, self.layout) for row in self._connection.execute(found)]

    def ending(self, dataset: str, number: int) -> Entry | None:
        """The entry that settled a reservation or wrote it off, if there is one."""
        return next(iter(self.book(dataset, reservation=[findable(number)])), None)

    def unsettled(self, dataset: str) -> list[Entry]:
        """Reservations that no entry settled or wrote off, oldest first."""
        entry = self._table.c
        ended = sql.select(entry.reservation).where(
            entry.dataset == dataset, entry.reservation.is_not(None)
        )
        wanted = (entry.kind == RESERVE) & entry.number.not_in(ended)
        found = self._of(dataset).where(wanted).order_by(entry.number)
        return [_entry(row, self.layout) for row in self._connection.execute(found)]

    def append(self, entry: Entry) -> None:
        """Write one entry."""
        self._connection.execute(_ENTRIES.insert().values(_row(entry)))

    def keep(self, dataset: str, kept: Document) -> None:
        """Write one document."""
        values = {"dataset": dataset, **kept._asdict()}
        self._connection.execute(_DOCUMENTS.insert().values(values))

    def document(
        self, dataset: str, *, number: int | None = None, identity: str | None = None
    ) -> Document | None:
        """The document that an entry settled, or the newest of a question."""
        if self.layout == FIRST:
            return None
        place = None if number is None else findable(number)
        asked = {"number": place, "identity": identity}
        wanted = [_DOCUMENTS.c[name] == it for name, it in asked.items() if it is not None]
        found = _documents(dataset).where(*wanted).order_by(_DOCUMENTS.c.number.desc()).limit(1)
        row = self._connection.execute(found).first()
        return None if row is None else Document(*row)

    def documents(self, dataset: str) -> Iterator[Document]:
        """All documents of a data set, oldest first."""
        if self.layout != FIRST:
            found = _documents(dataset).order_by(_DOCUMENTS.c.number)
            yield from (Document(*row) for row in self._connection.execute(found))

    def orphans(self, dataset: str | None = None) -> list[tuple[str, int]]:
        """The data sets and numbers of documents that have no entry: all, or of one data set."""
        if self.layout == FIRST:
            return []
        kept, entry = _DOCUMENTS.c, self._table.c
        paired = (kept.dataset == entry.dataset) & (kept.number == entry.number)
        joined = _DOCUMENTS.outerjoin(self._table, paired)
        found = sql.select(kept.dataset, kept.number).select_from(joined)
        found = found.where(entry.number.is_(None)).order_by(kept.dataset, kept.number)
        if dataset is not None:
            found = found.where(kept.dataset == dataset)
        return [(name, number) for name, number in self._connection.execute(found)]

    def archived(self, dataset: str) -> int:
        """How many characters the documents of a data set have, added up."""
        if self.layout == FIRST:
            return 0
        added = sql.select(sql.func.sum(sql.func.length(_DOCUMENTS.c.document)))
        return self._connection.scalar(added.where(_DOCUMENTS.c.dataset == dataset)) or 0

    def lock(self, dataset: str) -> None:
        """Let no other writer to this data set in until the end of the transaction."""
        if self._connection.dialect.name == "postgresql":  # SQLite has locked it all already
            named = sql.func.hashtext(dataset)
            self._connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CHARGING, named)))

    def _of(self, dataset: str) -> sql.Select[Any]:
        return sql.select(self._table).where(self._table.c.dataset == dataset)


class Store:
    """The database of a ledger."""

    def __init__(self, url: str) -> None:
        self._address = read_url(url)
        self.engine = open_database(self._address.url)
        self._is_current = False

    @property
    def where(self) -> str:
        """The address, as it may be shown."""
        return self._address.where

    @property
    def user(self) -> str | None:
        """Who the database knows us as, if the address says so."""
        return self._address.url.username

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """A transaction that only reads."""
        self._require_file()
        with self._plain_errors(), self.engine.connect() as connection:
            yield Rows(connection, self._layout(connection) or THIRD)

    @contextmanager
    def writing(self, dataset: str, alone: bool = False) -> Iterator[Rows]:
        """A transaction that no other writer to this data set can overlap.

        If it is `alone`, no creation can either.
        """
        self._require_file()
        begun = self._alone() if alone else self._locking()
        with self._plain_errors(), begun as connection:
            if not (self._is_current or alone):
                _let_migrations_end(connection)
            rows = Rows(connection, self._current(self._layout(connection) or THIRD))
            rows.lock(dataset)
            yield rows

    @contextmanager
    def creating(self) -> Iterator[Rows]:
        """A transaction that no other creation can overlap; it makes tables if there are none."""
        make_file(self._address)
        self._require_file()
        with self._plain_errors(), self._alone() as connection:
            layout = self._layout(connection)
            if layout is None:
                _make_tables(connection)
            yield Rows(connection, self._current(layout or THIRD))

    def require_current(self) -> None:
        """Raise an error if the ledger has an older layout."""
        with self.reading() as rows:
            self._current(rows.layout)

    def migrate(self, author: Author) -> list[Entry]:
        """Give every book the third layout, in one transaction; the entries that say so."""
        self._require_file()
        with self._plain_errors(), self._alone() as connection:
            layout = self._layout(connection)
            if layout is None:
                raise LedgerError(f"there is no ledger at {self.where}, so nothing to migrate")
            return [] if layout == THIRD else _migrate(connection, layout, author)

    @contextmanager
    def _alone(self) -> Iterator[sql.Connection]:
        """A transaction that no other creation or migration can overlap."""
        with self._locking() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATING)))
            yield connection

    @contextmanager
    def _locking(self) -> Iterator[sql.Connection]:
        """A transaction that writes; in SQLite the only one."""
        writer = self.engine.execution_options(dpgap_begin="BEGIN IMMEDIATE")
        with writer.begin() as connection:
            if connection.dialect.name == "postgresql":  # else a crash may forget what was charged
                connection.execute(sql.text("SET LOCAL synchronous_commit = on"))
            yield connection

    def _layout(self, connection: sql.Connection) -> int | None:
        """Which layout the ledger has; None if there is no ledger yet."""
        if self._is_current:  # it never goes back
            return THIRD
        known = sql.inspect(connection)
        if not known.has_table(_LAYOUT.name):
            return FIRST if known.has_table(_ENTRIES.name) else None
        layout = connection.scalar(sql.select(sql.func.max(_LAYOUT.c.layout)))
        if layout not in (SECOND, THIRD):
            raise LedgerError(
                f"the ledger {self.where} has layout {layout}, which a later dpgap made: this one "
                f"knows layouts {FIRST} to {THIRD}. Nothing was changed; update dpgap to use it"
            )
        self._is_current = layout == THIRD
        return int(layout)

    def _current(self, layout: int) -> int:
        """The layout, if it is the one that is written."""
        if layout != THIRD:
            raise LedgerError(
                f"the ledger {self.where} has layout {layout}, which is only read: "
                f"`dpgap ledger migrate` gives it layout {THIRD}. Nothing was changed or charged"
            )
        return layout

    def _require_file(self) -> None:
        file = self._address.file
        if file is not None and not file.exists():
            raise LedgerError(
                f"there is no ledger at {self.where}: make one with `dpgap ledger create`"
            )

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise LedgerError(
                f"the ledger {self.where} has this entry already: a data set is created once, a "
                "request charged once, and a reservation settled once"
            ) from None
        except NumberTooLong as error:
            raise LedgerError(f"the ledger {self.where} cannot go on: {error}") from None
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {self.where} {trouble(error)}: nothing is released without it"
            ) from None


def _let_migrations_end(connection: sql.Connection) -> None:
    """Wait until no migration is under way, and let none begin in this transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock_shared(_CREATING)))


def _make_tables(connection: sql.Connection) -> None:
    """Make the tables that are not there, and say which layout they have."""
    _TABLES.create_all(connection)
    connection.execute(_LAYOUT.delete())
    connection.execute(_LAYOUT.insert().values(layout=THIRD))


def _migrate(connection: sql.Connection, layout: int, author: Author) -> list[Entry]:
    """Copy every entry as it is, with its hash; then say in each book that it was migrated."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.text("LOCK TABLE dpgap_entries IN ACCESS EXCLUSIVE MODE"))
        # dpgap before 0.3 could make roles that work through views of the tables.
        connection.execute(sql.text("DROP SCHEMA IF EXISTS dpgap_spender CASCADE"))
    rows = Rows(connection, layout)
    books = [rows.book(name) for name in rows.datasets()]
    for book in books:
        if found := flaws(book):
            raise LedgerError(f"{book[0].dataset}: {found[0]}. A flawed book is not migrated")
    _OLDER[layout].drop(connection)
    _make_tables(connection)
    said = []
    for book in books:
        said.append(migrating(book[-1], author, archived=rows.archived(book[-1].dataset)))
        connection.execute(_ENTRIES.insert(), [_row(entry) for entry in (*book, said[-1])])
    return said


def findable(number: int) -> int:
    """The number of an entry; one that no database can hold is the number of none."""
    return number if 0 <= number <= _MOST else -1


def _documents(dataset: str) -> sql.Select[Any]:
    kept = (_DOCUMENTS.c[name] for name in Document._fields)
    return sql.select(*kept).where(_DOCUMENTS.c.dataset == dataset)


def _row(entry: Entry) -> dict[str, Any]:
    return {**_copies(entry), "body": entry.body(), "hash": entry.hash}


def _copies(entry: Entry) -> dict[str, Any]:
    """What columns say of an entry, beside its body."""
    names = (column.name for column in _ENTRIES.columns if column.name not in ("body", "hash"))
    asked = {"identity": entry.extra.get("identity")}
    return {name: asked[name] if name in asked else getattr(entry, name) for name in names}


def _entry(row: sql.Row[Any], layout: int) -> Entry:
    said = row._mapping
    try:
        if layout == FIRST:
            return read_entry(FIRST, json.dumps(list(row)[:-1]), said["hash"])
        entry = read_entry(said["version"], said["body"], said["hash"])
        if any(value != said.get(name, value) for name, value in _copies(entry).items()):
            raise UnreadableEntry("was edited: its columns do not say what its body says")
    except UnreadableEntry as error:
        raise UnreadableEntry(f"entry {said['number']} {error}") from None
    return entry


def require_entry(found: list[Entry], dataset: str, where: str) -> Entry:
    """The last entry, which must be there and match its hash."""
    if not found:
        raise LedgerError(
            f"the ledger {where} has no data set {dataset!r}: make it with `dpgap ledger create`"
        )
    last = found[-1]
    if last.hash != last.seal():
        raise LedgerError(f"the last entry of {dataset!r} in {where} was edited: see `verify`")
    return last
