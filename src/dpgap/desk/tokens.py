"""Who somebody is: tokens that are kept as hashes, passes that browsers carry, keys of forms.

A token is 256 random bits, so that one round of SHA-256 is enough to keep it. A pass is a signed
text with a person, the mark of the token that they entered with and an end. Whoever has the key can
check it, so any number of desks can, and none of them keeps anything. When a token is taken out of
the steward's file, its passes end with it.

>>> passes = Passes(b"k" * 32)
>>> text = passes.issue("ann", "sha256:ab", now=1000)
>>> passes.read(text, now=1001), passes.read(text, now=1000 + LASTS), passes.read(text[:-1], 1001)
(Pass(person='ann', mark='sha256:ab', end=44200), None, None)
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dpgap.desk.stewards_file import Person

LASTS = 12 * 60 * 60
"""How many seconds a pass is good for."""

_LONGEST = 2000


def new_token() -> str:
    """A token that nobody can guess."""
    return f"dpgap-{secrets.token_urlsafe(32)}"


def hash_of_token(token: str) -> str:
    """What is kept of a token."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def owner_of(token: str, people: Iterable[Person]) -> Person | None:
    """Whose token it is. All hashes are compared, each in constant time."""
    given, found = hash_of_token(token), None
    for person in people:
        for known in person.tokens:
            found = person if hmac.compare_digest(known, given) else found
    return found


class Pass(NamedTuple):
    """What a browser shows to be let in."""

    person: str
    mark: str
    """The hash of the token that was entered with."""
    end: int


@dataclass(frozen=True, slots=True, repr=False)
class Passes:
    """Issues passes and reads them again."""

    key: bytes

    def issue(self, person: str, mark: str, now: float) -> str:
        """A pass that ends in some hours."""
        content = json.dumps([person, mark, int(now) + LASTS], separators=(",", ":"))
        body = base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
        return f"{body}.{self._sign('pass', body)}"

    def read(self, text: str, now: float) -> Pass | None:
        """What a pass says, if it was issued with this key and has not ended."""
        body, _, signature = text[:_LONGEST].partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("pass", body).encode()):
            return None
        content = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        found = Pass(*json.loads(content))
        return found if now < found.end else None

    def form_key(self, carried: str) -> str:
        """What every form of this pass sends along; nobody else can know it."""
        return self._sign("form", carried)

    def is_form_key(self, carried: str, given: str) -> bool:
        """Whether a form was made for this pass."""
        return hmac.compare_digest(given.encode(), self.form_key(carried).encode())

    def label(self) -> str:
        """What a desk is called on this machine: the same for a key, and hard to guess."""
        return self._sign("label", "")[:20]

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.key, f"{purpose}:{text}".encode(), "sha256").hexdigest()
