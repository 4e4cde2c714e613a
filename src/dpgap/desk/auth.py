"""Authentication: by a token, by a session cookie (a *pass*), or by the link that the desk printed.

The desk reads people and their tokens again whenever the steward's file changes. While the file
has a fault, nobody can enter: a token that was removed must stop working. The log says once what is
wrong.

>>> passes = Passes(b"k" * 32)
>>> text = passes.issue("ann", "sha256:ab", now=1000)
>>> passes.read(text, now=1001), passes.read(text, now=1000 + LASTS), passes.read(text[:-1], 1001)
(('ann', 'sha256:ab'), None, None)
"""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from dpgap.budget.requests import system_user
from dpgap.desk.config import FileFaults, ListedData, Person, StewardsFile, read_stewards_file
from dpgap.desk.middleware import Refused, log
from dpgap.printable import printable

# --------------------------------------------------------------------------------------------------
# Tokens (stored as hashes), signed session cookies, and keys of forms.
#
# A token has 256 random bits, so one round of SHA-256 is enough to store its hash. A pass (session
# cookie) is a signed text with a person, the hash of the token that they entered with (`mark`) and
# an end. Every desk with the same key can check a pass, and no desk stores sessions. When a token
# is removed from the steward's file, its passes end too.


LASTS = 12 * 60 * 60
"""How many seconds a pass is valid."""

_LONGEST = 2000
_FAULT = "The steward's file has a fault: run `dpgap desk FILE --check`. Nobody gets in meanwhile."


def new_token() -> str:
    """A new token, which nobody can guess."""
    return f"dpgap-{secrets.token_urlsafe(32)}"


def hash_of_token(token: str) -> str:
    """The hash of a token; only this is stored."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True, repr=False)
class Passes:
    """Signs session cookies and reads them."""

    key: bytes

    def issue(self, person: str, mark: str, now: float) -> str:
        """A pass that ends in some hours; `mark` is the hash of the token that was entered."""
        content = json.dumps([person, mark, int(now) + LASTS], separators=(",", ":"))
        body = base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
        return f"{body}.{self._sign('pass', body)}"

    def read(self, text: str, now: float) -> tuple[str, str] | None:
        """The person and the mark of a pass, if it was issued with this key and has not ended."""
        body, _, signature = text[:_LONGEST].partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("pass", body).encode()):
            return None
        person, mark, end = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if now >= end:
            return None
        return person, mark

    def form_key(self, carried: str) -> str:
        """The secret that every form of this session sends (against cross-site forgery)."""
        return self._sign("form", carried)

    def is_form_key(self, carried: str, form_key: str) -> bool:
        """Whether a form was made for this pass."""
        return hmac.compare_digest(form_key.encode(), self.form_key(carried).encode())

    def label(self) -> str:
        """The desk's host name on this machine: a hash of the key, which is hard to guess."""
        return self._sign("label", "")[:20]

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.key, f"{purpose}:{text}".encode(), "sha256").hexdigest()


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person whom the desk has authenticated."""

    person: Person
    carried: str = ""
    """The pass of a browser. A program has none, and sends its token each time."""

    @property
    def name(self) -> str:
        """The person's name in the ledger."""
        return self.person.name


class Auth:
    """Authenticates people."""

    def __init__(self, file: StewardsFile) -> None:
        self._file = file
        self._seen: tuple[int, ...] | None = None  # the file may have changed since it was read
        self._logged: tuple[int, ...] | None = None
        """The version of the file whose faults were logged last."""
        self._lock = threading.Lock()
        key = secrets.token_bytes(32)
        if file.key:
            key = bytes.fromhex(file.key)
        self.passes = Passes(key)
        self.is_local = not file.has_tokens
        """Whether there is only one person, a steward, who enters by the link."""
        self.link: str | None = None
        """The secret of the one-time link; None if people have tokens, and after its use."""
        if self.is_local:
            self.local_token = new_token()
            tokens = (hash_of_token(self.local_token),)
            self._owner = Person(name=system_user(), role="steward", tokens=tokens)
            self.link = secrets.token_urlsafe(32)

    def by_link(self, secret: str) -> str | None:
        """A pass for the link's secret; the link works once."""
        with self._lock:
            if self.link is None:
                return None
            if not hmac.compare_digest(self.link.encode(), secret.encode()):
                return None
            self.link = None
        return self.by_token(self.local_token)

    def by_token(self, token: str) -> str | None:
        """A pass for a token."""
        visitor = self.with_token(token)
        if visitor is None:
            return None
        return self.passes.issue(visitor.name, hash_of_token(token), time.time())

    def with_token(self, token: str) -> Visitor | None:
        """The person who has this token. All hashes are compared, each in constant time."""
        digest = hash_of_token(token)
        visitor = None
        for person in self.people().values():
            for listed in person.tokens:
                if hmac.compare_digest(listed, digest):
                    visitor = Visitor(person)
        return visitor

    def with_pass(self, carried: str) -> Visitor | None:
        """The person who has this pass, if the token that it came from is still listed."""
        content = self.passes.read(carried, time.time())
        if content is None:
            return None
        name, mark = content
        person = self.people().get(name)
        if person is None or mark not in person.tokens:
            return None
        return Visitor(person, carried)

    def people(self) -> Mapping[str, Person]:
        """All people in the file now."""
        if self.is_local:
            return {self._owner.name: self._owner}
        return self._now().people

    def may_ask(self, visitor: Visitor, data: ListedData) -> bool:
        """Whether a person was listed for a data set when the desk started, and still is.

        A person who is listed later has no allowance until the next start.
        """
        if self.is_local:
            return True
        newest = self._now().datasets.get(data.name)
        if newest is None:
            return False
        return visitor.name in data.people and visitor.name in newest.people

    def _now(self) -> StewardsFile:
        """The file, read again if it changed."""
        with self._lock:
            stamp: tuple[int, ...] = ()
            with suppress(OSError):  # a ctime cannot be set back
                at = os.stat(self._file.path)
                stamp = at.st_mtime_ns, at.st_ctime_ns, at.st_size, at.st_ino
            if stamp != self._seen:
                self._seen = None
                try:
                    self._file = read_stewards_file(self._file.path)
                except (FileFaults, OSError) as error:
                    folder = f"{self._file.path.parent}/"
                    if stamp != self._logged:
                        message = str(error).replace(folder, "")
                        message = re.sub(r"dpgap-[\w-]{9,}", "dpgap-…", message)
                        log.error("%s", printable(message))
                    self._logged = stamp
                    raise Refused(503, _FAULT) from None
                self._seen = stamp
            return self._file
