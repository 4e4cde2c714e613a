"""The spool: a directory that keeps drawn answers if the ledger or the desk fails.

A question is charged, drawn, and settled at a tick. In the spool it has one file, which goes
through these steps:

1. *Before the charge* the file is made, with a temporary name. If this fails, nothing is charged.
2. *After the draw* the answer is written to the file and synced. Then the file gets the name of its
   reservation. So a file with such a name holds a complete answer.
3. When the ledger has settled the answer, the file is removed.

The spool also keeps the heads of the ledger (`dpgap.desk.heads`).

So a desk that starts again knows what to do with a reservation that is not settled. If its file
holds an answer, this answer is settled. Otherwise the reservation is written off. Its draw may have
begun, and a second draw would be a second release: so nothing is ever drawn again.

Several desks may use one spool. Each has its own folder, with a random id as its name, locked while
the desk runs. A desk also takes over the folders of desks that have ended. Files have a version.

>>> import tempfile
>>> spool = Spool(Path(tempfile.mkdtemp()) / "desk.spool")
>>> folder = spool.folders[spool.id]
>>> slip = Slip(folder)
>>> slip.keep(name := "7." + hash_of("the reservation"), {"cost": "1/2", "document": "{}"})
>>> folder.read(name)
{'cost': '1/2', 'document': '{}'}
>>> slip.drop()
>>> folder.names()
[]
"""

import fcntl
import json
import os
import re
import secrets
import stat
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from dpgap.budget.account import Request
from dpgap.budget.cost import NOTHING, Cost
from dpgap.budget.entries import Entry, LedgerError, canonical, hash_of
from dpgap.budget.ledger import LedgerAccount, LedgerReservation
from dpgap.budget.store import Rows
from dpgap.desk.counts import Slot
from dpgap.desk.heads import Heads
from dpgap.desk.middleware import Refused, log
from dpgap.desk.questions import FilledForm, ask
from dpgap.printable import printable

Answer = dict[str, Any]
"""The cost of an answer, as it is hashed, and its document."""

_HEADER = b'{"version":1}\n'
"""How every file begins. What is written is read for ever; a later version is refused."""
_LOCK = "lock"
_NEW = "new."
_NAME = re.compile(r"[0-9]{1,10}\.[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{16}")
"""The names of folders, and of new files after `_NEW`. The desk changes no other file there."""


class SpoolError(ValueError):
    """The spool cannot be used; the message says why."""


def name_of(reservation: Entry) -> str:
    """The name of a reservation's file. It has the entry's hash, which no other entry has."""
    return f"{reservation.number}.{reservation.hash}"


class Spool:
    """The folders that this desk has locked: its own, and those of desks that have ended."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.heads = Heads(root)
        try:
            require_spool(root)
            root.mkdir(mode=0o700, exist_ok=True)
            self.folders = {folder.id: folder for folder in _free_folders(root)}
            self.id = ""
            """The folder of this desk is a new one: no earlier desk charged with this id."""
            while self.id not in self.folders:
                self.id = secrets.token_hex(8)
                (root / self.id).mkdir(mode=0o700)
                with suppress(BlockingIOError, FileNotFoundError):  # another desk was quicker
                    self.folders[self.id] = Folder(root / self.id)
            _sync(root)
            _sync(root.parent)
        except OSError as error:
            raise SpoolError(f"spool {root} cannot be used: {error.strerror}") from None

    def take_over(self) -> None:
        """Lock the folders of desks that have ended, if they can be used."""
        with suppress(SpoolError):
            self.folders |= {folder.id: folder for folder in _free_folders(self._root)}

    def leave(self, folder: "Folder") -> None:
        """Remove a folder that was taken over, when nothing of it is left."""
        del self.folders[folder.id]
        with suppress(OSError):  # somebody put another file there
            folder.remove()

    def close(self) -> None:
        """Unlock all folders."""
        for folder in self.folders.values():
            folder.unlock()


def require_spool(root: Path) -> None:
    """Refuse a path that cannot be a spool; nothing is created."""
    if not root.exists():
        if not os.access(root.parent, os.W_OK | os.X_OK):
            raise SpoolError(f"spool {root} cannot be made: {root.parent} must be there, and ours")
        return
    mode = root.stat().st_mode
    if not stat.S_ISDIR(mode) or mode & 0o077:
        raise SpoolError(f"spool {root} must be a directory that only its owner can read")


def _free_folders(root: Path) -> Iterator["Folder"]:
    """Lock and return every folder that no running desk has locked."""
    folders = (path for path in root.iterdir() if _ID.fullmatch(path.name) and path.is_dir())
    for path in sorted(folders):
        with suppress(BlockingIOError, FileNotFoundError):  # locked, or removed just now
            yield Folder(path)


class Folder:
    """The part of the spool of one desk, locked as long as this object exists."""

    def __init__(self, path: Path) -> None:
        self.id = path.name
        self._path = path
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        self.unlock = weakref.finalize(self, os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(lock).st_nlink:
            raise FileNotFoundError(path)
        header = os.pread(lock, len(_HEADER), 0)
        if not _HEADER.startswith(header):
            raise SpoolError(f"spool {path} was made by a later dpgap: use that one")
        os.pwrite(lock, _HEADER, 0)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self.descriptor)
        for name in os.listdir(path):
            is_new = name.startswith(_NEW) and _ID.fullmatch(name.removeprefix(_NEW))
            if is_new:  # it has no answer
                self.drop(name)
        self.left = self.names()
        """The files that the desk before left here."""
        self.charged: set[str] | None = None
        """The names of the reservations that it left in the ledger, as soon as they are known."""

    def names(self) -> list[str]:
        """The names of all files that belong to reservations."""
        return [name for name in os.listdir(self._path) if _NAME.fullmatch(name)]

    def read(self, name: str) -> Answer | None:
        """The answer that a file holds; None if it holds none that is whole, or is not there."""
        try:
            with open(name, "rb", opener=partial(os.open, dir_fd=self.descriptor)) as file:
                header, _, content = file.read().partition(b"\n")
        except FileNotFoundError:  # any other failure may go by: the answer may be there
            return None
        if header.startswith(b'{"version":') and header + b"\n" != _HEADER:
            raise SpoolError(
                f"spool {self._path / name} was written by a later dpgap: use that one"
            )
        line = content.decode(errors="replace").rstrip("\n")
        digest, _, text = line.partition(" ")
        if digest != hash_of(text):
            return None
        answer: Answer = json.loads(text)
        return answer

    def drop(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self.descriptor)

    def remove(self) -> None:
        """Remove the folder, which must be empty."""
        self.drop(_LOCK)
        self._path.rmdir()


class Slip:
    """The file of one question. Its descriptor stays open until the answer is written."""

    def __init__(self, folder: Folder, name: str = "") -> None:
        """A new file; or the existing file with the name of a reservation."""
        self._folder = folder
        self._name = name
        self._file = -1
        if not name:
            self._name = _NEW + secrets.token_hex(8)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            self._file = os.open(self._name, flags, 0o600, dir_fd=folder.descriptor)
            try:
                _write(self._file, _HEADER, 0)
            except OSError:
                self.drop()
                raise

    def keep(self, name: str, answer: Answer) -> None:
        """Write the answer to the disk, under this name; after an error, it can be retried."""
        if self._file >= 0:
            text = canonical(answer)
            directory = self._folder.descriptor
            _write(self._file, f"{hash_of(text)} {text}\n".encode(), len(_HEADER))
            os.fsync(self._file)
            os.rename(self._name, name, src_dir_fd=directory, dst_dir_fd=directory)
            self._name = name
            os.fsync(directory)
            self._close()

    def drop(self) -> None:
        """Remove the file. If this fails, the next desk that starts removes it."""
        self._close()
        with suppress(OSError):
            self._folder.drop(self._name)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _write(file: int, content: bytes, at: int) -> None:
    while content:
        written = os.pwrite(file, content, at)
        content = content[written:]
        at += written


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --------------------------------------------------------------------------------------------------
# A question between its charge and its settlement.
#
# A charge is computed from empty counts. So neither the charge nor its time depends on the table.
# The draw, and its duration, do depend on it. So a drawn answer waits in the spool until the tick,
# and only then is it settled and archived. Before the tick, neither the ledger nor the log shows
# that it exists.


_LONG = timedelta(minutes=10)
"""While an answer waits, its data set takes no new charges for this time."""


class Reserved(Exception):  # noqa: N818 - it says what happened
    """A question is charged, and nothing is drawn yet."""

    def __init__(self, reservation: LedgerReservation, slip: Slip) -> None:
        super().__init__()
        self.reservation = reservation
        self.slip = slip


@dataclass(frozen=True, slots=True)
class Reserving(LedgerAccount):
    """An account that reserves, and then stops by raising `Reserved`."""

    slip: Callable[[LedgerAccount], Slip] = field(kw_only=True)
    """Makes the file for the answer, or raises an error that says why nothing is charged."""
    extra: Mapping[str, Any] = field(kw_only=True)
    heads: Heads = field(kw_only=True)

    def require_book(self, rows: Rows) -> None:
        """Refuse a book that was put back, and a request whose charge was lost with it."""
        self.heads.require_later(rows, self.dataset, self.heads.newest(self.dataset))
        if self.key is not None and self.heads.is_lost(self.dataset, self.key):
            raise Refused(
                409,
                "This question was charged, and its answer was lost with entries of the ledger. "
                "Nothing was charged again: send a new key to ask once more.",
            )

    def free_answer(self, request: Request, fresh: bool) -> str | None:
        """As for every account; the key is kept with the fields of the form."""
        return LedgerAccount.free_answer(self, replace(request, extra=self.extra), fresh)

    def reserve_for(self, request: Request) -> NoReturn:
        """Raise an error in every case: `Reserved` if the budget covers the request."""
        slip = self.slip(self)
        try:
            reservation = LedgerAccount.reserve_for(self, replace(request, extra=self.extra))
        except BaseException:
            slip.drop()
            raise
        try:
            self.heads.note(reservation.entry)
        except LedgerError:
            number = reservation.entry.number
            log.error("entry %d of %s: the spool cannot keep its head", number, self.dataset)
        raise Reserved(reservation, slip)


@dataclass(slots=True)
class Pending:
    """A charged question. It is also an account for the draw, which is paid already."""

    reservation: LedgerReservation
    slip: Slip
    form: FilledForm | None = None
    """The question to draw, and its counts; None: the desk that drew it has ended."""
    slot: Slot | None = None
    cost: Cost = NOTHING
    document: str | None = None
    """The drawn answer; None: there is no answer."""
    has_waited: bool = False
    """Whether it was not settled at its tick."""
    _failures: dict[str, bool] = field(default_factory=dict)
    """The failures, and whether each was logged."""

    @property
    def entry(self) -> Entry:
        """The reservation's entry."""
        return self.reservation.entry

    @property
    def charge_id(self) -> tuple[str, int]:
        """The budget, and the number of the reservation."""
        return self.entry.dataset, self.entry.number

    def blocks(self, budget: str) -> bool:
        """Whether new questions of a budget wait for this answer: ten minutes from its charge."""
        age = datetime.now(UTC) - datetime.fromisoformat(self.entry.at)
        is_young = -_LONG < age < _LONG  # a clock that was far ahead blocks nobody
        return is_young and self.document is not None and self.entry.dataset == budget

    @property
    def reference(self) -> dict[str, Any]:
        """The reference to the charge, which the release states."""
        return self.reservation.reference

    def reserve(self, cost: Cost, purpose: str) -> "Pending":
        """The reservation, if it covers this cost."""
        if not cost.fits(self.entry.charge):
            raise LedgerError("what is drawn must not cost more than was reserved")
        return self

    def settle(self, cost: Cost, document: str | None = None) -> None:
        """Keep the cost and the released document; the ledger gets them at the tick."""
        self.cost = cost
        self.document = document

    def draw(self) -> None:
        """Draw the answer, once. If this fails there is no answer, and the charge stays.

        A failure is logged only at the tick: an earlier log would show how long the draw took.
        """
        if self.form is None or self.slot is None:
            raise RuntimeError("only the desk that charged a question draws it")
        with self.slot.using() as answers:
            try:  # fresh, because it is paid and the archive has no answer
                ask(replace(self.form, fresh=True), answers, self)
            except BaseException as error:  # an engine's panic is no Exception
                self.note("drawing it failed", error)
        self.keep()

    def keep(self) -> None:
        """Write the answer to the spool, unless it is there."""
        if self.document is None:
            return
        try:
            answer = {"cost": self.cost.exact(), "document": self.document}
            self.slip.keep(name_of(self.entry), answer)
        except Exception as error:
            self.note("the spool cannot be written, so its answer is only in memory", error)

    def note(self, failure: str, error: BaseException | None = None) -> None:
        """Note a failure. The text of an error may quote data; only the ledger's own is kept."""
        cause = ""
        if error is not None:
            cause = f" ({type(error).__name__})"
        if isinstance(error, LedgerError) and error.cause:
            cause = f": it {printable(error.cause)}"
        self._failures.setdefault(failure + cause, False)

    def log_failures(self) -> None:
        """Log each noted failure once."""
        for failure, is_logged in self._failures.items():
            if not is_logged:
                log.error("entry %d of %s: %s", self.entry.number, self.entry.dataset, failure)
                self._failures[failure] = True
