"""The door: who comes in, by a token, by a pass, or by the one link that the desk printed.

People and their tokens are read again whenever the steward's file changes. While it cannot be read
nobody comes in: a token that was taken out must not go on because of a slip elsewhere.
"""

import getpass
import hmac
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

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
        self._people = file.people
        self._listed = {data.name: data.people.keys() for data in file.datasets.values()}
        self._seen: tuple[int, ...] | None = None  # it may have changed since it was read
        self._lock = threading.Lock()
        self.passes = Passes(bytes.fromhex(file.key) if file.key else secrets.token_bytes(32))
        self.is_local = not file.has_tokens
        """Whether there is one person, who has the link; they are a steward."""
        self._link: str | None = None
        if self.is_local:
            self.local_token = new_token()
            name = _user()
            self._people = {name: Person(name, True, (hash_of_token(self.local_token),))}
            self._link = secrets.token_urlsafe(32)

    @property
    def link(self) -> str | None:
        """What opens the door once; None where people have tokens, or once it was used."""
        return self._link

    def by_link(self, given: str) -> str | None:
        """A pass for whoever has the link. It works once."""
        with self._lock:
            known = self._link
            if known is None or not hmac.compare_digest(known.encode(), given.encode()):
                return None
            self._link = None
        (person,) = self._people.values()
        return self.passes.issue(person.name, person.tokens[0], time.time())

    def by_token(self, given: str) -> str | None:
        """A pass for whoever has a token."""
        found = owner_of(given, self.people().values())
        if found is None:
            return None
        return self.passes.issue(found[0].name, found[1], time.time())

    def with_token(self, given: str) -> Visitor | None:
        """Who shows this token."""
        found = owner_of(given, self.people().values())
        return None if found is None else Visitor(found[0])

    def with_pass(self, carried: str) -> Visitor | None:
        """Who shows this pass, if the token that it came from is still good."""
        shown = self.passes.read(carried, time.time())
        person = None if shown is None else self.people().get(shown.person)
        if shown is None or person is None or shown.mark not in person.tokens:
            return None
        return Visitor(person, carried)

    def people(self) -> Mapping[str, Person]:
        """Everybody, as the file says at this moment."""
        self._look()
        return self._people

    def may_ask(self, visitor: Visitor, data: ListedData) -> bool:
        """Whether somebody was listed for a data set when the desk started, and still is.

        Whoever is listed later has no allowance yet, and so waits for the next start.
        """
        self._look()
        now = self._listed.get(data.name, ())
        return self.is_local or (visitor.name in data.people and visitor.name in now)

    def _look(self) -> None:
        """Read the file again if it changed."""
        if self.is_local:
            return
        with self._lock:
            stamp = _stamp(self._file)
            if stamp == self._seen:
                return
            try:
                file = read_stewards_file(self._file.path)
            except (FileFaults, OSError):
                self._people, self._listed, self._seen = {}, {}, None
                raise Refused(503, "The steward's file cannot be read just now.") from None
            self._people, self._seen = file.people, stamp
            self._listed = {data.name: data.people.keys() for data in file.datasets.values()}


def _stamp(file: StewardsFile) -> tuple[int, ...]:
    """What changes when the file does."""
    try:
        found = os.stat(file.path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
