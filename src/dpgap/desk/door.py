"""The door: who comes in, by a token, by a pass, or by the one link that the desk printed.

People and their tokens are read again whenever the steward's file changes. While it cannot be read
nobody comes in: a token that was taken out must not go on because of a slip elsewhere.
"""

import hmac
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from dpgap.budget.requests import system_user
from dpgap.desk.refusals import Refused
from dpgap.desk.stewards_file import (
    FileFaults,
    ListedData,
    Person,
    StewardsFile,
    read_stewards_file,
)
from dpgap.desk.tokens import Passes, hash_of_token, new_token, owner_of


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who came in."""

    person: Person
    carried: str = ""
    """The pass of a browser. A program has none, and shows its token each time."""

    @property
    def name(self) -> str:
        """What the ledger calls them."""
        return self.person.name


class Door:
    """Lets people in."""

    def __init__(self, file: StewardsFile) -> None:
        self._file = file
        self._seen: tuple[int, ...] | None = None  # it may have changed since it was read
        self._lock = threading.Lock()
        self.passes = Passes(bytes.fromhex(file.key) if file.key else secrets.token_bytes(32))
        self.is_local = not file.has_tokens
        """Whether there is one person, who has the link; they are a steward."""
        self.link: str | None = None
        """What opens the door once; None where people have tokens, or once it was used."""
        if self.is_local:
            self.local_token = new_token()
            self._owner = Person(system_user(), True, (hash_of_token(self.local_token),))
            self.link = secrets.token_urlsafe(32)

    def by_link(self, given: str) -> str | None:
        """A pass for whoever has the link. It works once."""
        with self._lock:
            known = self.link
            if known is None or not hmac.compare_digest(known.encode(), given.encode()):
                return None
            self.link = None
        return self.by_token(self.local_token)

    def by_token(self, given: str) -> str | None:
        """A pass for whoever has a token."""
        visitor = self.with_token(given)
        if visitor is None:
            return None
        return self.passes.issue(visitor.name, hash_of_token(given), time.time())

    def with_token(self, given: str) -> Visitor | None:
        """Who shows this token."""
        found = owner_of(given, self.people().values())
        return None if found is None else Visitor(found)

    def with_pass(self, carried: str) -> Visitor | None:
        """Who shows this pass, if the token that it came from is still good."""
        shown = self.passes.read(carried, time.time())
        person = None if shown is None else self.people().get(shown.person)
        if shown is None or person is None or shown.mark not in person.tokens:
            return None
        return Visitor(person, carried)

    def people(self) -> Mapping[str, Person]:
        """Everybody, as the file says at this moment."""
        return {self._owner.name: self._owner} if self.is_local else self._now().people

    def may_ask(self, visitor: Visitor, data: ListedData) -> bool:
        """Whether somebody was listed for a data set when the desk started, and still is.

        Whoever is listed later has no allowance yet, and so waits for the next start.
        """
        if self.is_local:
            return True
        now = self._now().datasets.get(data.name)
        return now is not None and visitor.name in data.people.keys() & now.people.keys()

    def _now(self) -> StewardsFile:
        """The file, read again if it changed."""
        with self._lock:
            stamp = _stamp(self._file)
            if stamp != self._seen:
                self._seen = None
                try:
                    self._file = read_stewards_file(self._file.path)
                except (FileFaults, OSError):
                    words = "The steward's file cannot be read just now."
                    raise Refused(503, words) from None
                self._seen = stamp
            return self._file


def _stamp(file: StewardsFile) -> tuple[int, ...]:
    """What changes when the file does: its ctime too, which nobody can set back."""
    try:
        found = os.stat(file.path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
