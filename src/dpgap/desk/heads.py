"""The heads that a desk has seen in its ledger, kept in its spool: they show a ledger put back.

If a backup of a ledger is restored, or its file is lost, everything that was spent since is free
again, and a request that was paid could be drawn a second time. The chain of the older copy is
whole, so only something outside it can tell. So the spool keeps the number and the hash of every
charge, what was spent up to it, and its key. A book must have the newest of these entries, or
nothing is charged. A steward can accept such a book: what was lost then counts as spent.

>>> import tempfile
>>> from dpgap.budget.ledger import Ledger
>>> heads = Heads(Path(tempfile.mkdtemp()))
>>> heads.note(Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db").create("sales", 1).balance)
>>> heads.newest("sales").number
0
"""

import shlex
import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dpgap.budget.cost import Cost
from dpgap.budget.entries import ACCEPT, Entry, LedgerError, read_cost
from dpgap.budget.store import BUSY_SECONDS, Rows

FILE = "heads.db"

_TABLE = """
CREATE TABLE IF NOT EXISTS heads (
    budget TEXT NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL,
    epsilon TEXT, rho TEXT NOT NULL, delta TEXT NOT NULL, key TEXT,
    is_lost INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (budget, number, hash)
) WITHOUT ROWID"""
_KEYS = "CREATE INDEX IF NOT EXISTS heads_of_a_key ON heads (budget, key)"


class PutBack(LedgerError):  # noqa: N818 - it says what happened
    """A book lacks entries that were seen in it. Nothing was charged."""


class Head(NamedTuple):
    """An entry that was the last of its book."""

    number: int
    hash: str
    spent: Cost
    """All that was spent or reserved up to this entry."""


class Heads:
    """The heads that were seen, in a database in the folder of the spool."""

    def __init__(self, spool: Path) -> None:
        self._file = spool / FILE

    def note(self, entry: Entry) -> None:
        """Keep the last entry of a book, durably."""
        row = (entry.dataset, entry.number, entry.hash, *entry.gone.exact(), entry.key)
        with self._database() as database:
            database.execute(
                "INSERT OR IGNORE INTO heads (budget, number, hash, epsilon, rho, delta, key) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def newest(self, budget: str) -> Head | None:
        """The newest head of a budget; None if none was seen."""
        heads = self._seen(budget, "ORDER BY number DESC LIMIT 1")
        if not heads:
            return None
        return heads[0]

    def is_lost(self, budget: str, key: str) -> bool:
        """Whether a request with this key was charged in entries that are lost."""
        statement = "SELECT 1 FROM heads WHERE budget = ? AND key = ? AND is_lost"
        return bool(self._rows(statement, budget, key))

    def require_later(self, rows: Rows, budget: str, newest: Head | None) -> None:
        """Raise `PutBack` if the book lacks the newest head, unless a steward has accepted this.

        The head must have been read before the transaction of these rows began, or while it had
        locked the book.
        """
        if newest is None or _has(rows, budget, newest):
            return
        heads = self._seen(budget, "ORDER BY number")
        common = bisect_left(heads, True, key=lambda head: not _has(rows, budget, head))
        lost = heads[common:]
        if not lost:  # another desk has just noted that a steward accepted the loss
            return
        head = lost[-1]
        first = 0
        if common > 0:
            first = heads[common - 1].number
        loss = _loss(head, rows.book(budget, first=first))
        acts = rows.book(budget, kind=[ACCEPT])
        if any(_counts(act, loss) for act in acts if act.extra["lost"] == head.hash):
            self._forget(budget, lost)
            self.note(rows.require(budget)[-1])
            return
        trouble = (
            f"the ledger {rows.where} lacks entry {head.number} of {budget!r}, which this desk has "
            "seen: an older copy or another ledger is in its place"
        )
        is_new = not rows.find(budget)
        raise PutBack(_choice(trouble, rows.where, budget, head, loss, is_new))

    def _forget(self, budget: str, lost: list[Head]) -> None:
        """Mark heads as lost. Only their keys count from now on."""
        statement = "UPDATE heads SET is_lost = 1 WHERE budget = ? AND hash = ?"
        with self._database() as database:
            database.executemany(statement, [(budget, head.hash) for head in lost])

    def _seen(self, budget: str, order: str) -> list[Head]:
        columns = "number, hash, epsilon, rho, delta"
        statement = f"SELECT {columns} FROM heads WHERE budget = ? AND NOT is_lost {order}"
        return [
            Head(number, hash, read_cost(epsilon, rho, delta))
            for number, hash, epsilon, rho, delta in self._rows(statement, budget)
        ]

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        if not self._file.exists():
            return []
        with self._database() as database:
            return database.execute(statement, values).fetchall()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A transaction. Everything in it is on the disk afterwards."""
        try:
            self._file.touch(mode=0o600)
            with closing(sqlite3.connect(self._file, timeout=BUSY_SECONDS)) as database, database:
                database.execute(_TABLE)
                database.execute(_KEYS)
                yield database
        except (OSError, sqlite3.Error):
            raise LedgerError(
                f"the heads in {self._file} cannot be read or written",
                f"cannot be compared with the spool: its {FILE} cannot be read or written",
            ) from None


def _has(rows: Rows, budget: str, head: Head) -> bool:
    """Whether a book has this entry. By the chain, it then has all entries before it."""
    entry = rows.entry(budget, number=head.number)
    return entry is not None and entry.hash == head.hash


def _counts(act: Entry, loss: Cost) -> bool:
    """Whether an entry counts all of a loss as spent, in the currency of the budget."""
    granted = act.granted
    return granted.used_up_by(loss).fits(granted.used_up_by(act.charge))


def _loss(lost: Head, book: list[Entry]) -> Cost:
    """The most that lost entries spent. They followed one of these entries: nobody knows which.

    A settlement gives something back, so the least that the book had spent is what counts.
    """
    return lost.spent.beyond(Cost.least(entry.gone for entry in book))


def lost_ledger(where: str, budget: str, newest: Head) -> str:
    """What to do about a ledger that is not there."""
    missing = f"there is no ledger at {where}, although this desk has seen entry {newest.number}"
    return _choice(f"{missing} of {budget!r} in it", where, budget, newest, newest.spent, True)


def _choice(trouble: str, where: str, budget: str, newest: Head, lost: Cost, is_new: bool) -> str:
    """What is wrong, and what a steward can do."""
    options = f"--ledger {shlex.quote(where)} --dataset {shlex.quote(budget)}"
    amount = f"--epsilon {lost.pure_epsilon}"
    if lost.delta:
        amount += f" --delta {lost.delta}"
    lines = [
        f"{trouble}. Nothing is charged. Stop all programs that use the ledger. Then",
        "put its newest copy in its place;",
        "or go on without the lost entries, and count what they spent as spent:",
    ]
    if is_new:
        lines.append("open it anew as it was, also with its --delta, --table and --unit:")
        lines.append(f"  dpgap ledger create {options} --epsilon TOTAL")
    lines.append(
        f"  dpgap ledger accept {options} --head {newest.hash} {amount} --reason 'what happened'"
    )
    return "\n  ".join(lines)
