"""One line of a book, and the text that seals it.

The *body* of an entry is one canonical JSON text with everything that the entry says, and its
*hash* is the SHA-256 of exactly this text: any program can check it. The body holds the hash of
the entry before, so entries form a chain.

There are two versions of the body. The first, a JSON list, has an ε and a few words. The second,
an object with sorted keys and no spaces, also has a δ, the person, a request key, a reason and
whatever its kind needs. Entries keep the version in which they were written, and their hash, for
ever. An entry of a later version is refused: it was made by a later dpgap.

>>> entry = read_entry(1, '["sales", 0, "create", null, "1", "1", "0", "0", "", "ann", "2026", ""]')
>>> entry.total, entry.seal()[:8]
(Fraction(1, 1), '8abbfe33')
"""

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from dpgap import public
from dpgap.budget.amounts import NOTHING, Amount, exact_text

CREATE, RESERVE, SETTLE = "create", "reserve", "settle"
RAISE, LOWER, CLOSE = "raise", "lower", "close"
ALLOW, WRITE_OFF, BIND, MIGRATE = "allow", "write-off", "bind", "migrate"

FIRST, SECOND = 1, 2
"""Versions of entries, and layouts of ledgers."""

_NUMBER = re.compile("-?[0-9]+(/[0-9]+)?")


@public
class LedgerError(RuntimeError):
    """The ledger cannot be read or written, so nothing may be released."""


class UnreadableEntry(LedgerError):  # noqa: N818 - it says what is wrong
    """An entry is there, but it cannot be read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a book. No entry ever holds a private value."""

    dataset: str
    number: int
    """Counts from 0, the entry that opens the book."""
    kind: str
    about: int | None
    """The number of the reservation that a settlement or a write-off is about."""
    charge: Amount
    """What is opened with, set aside, spent after all, or granted."""
    granted: Amount
    """The total that all releases together may cost."""
    used: Amount
    """All that settled and written-off releases did cost, this entry included."""
    held: Amount
    """All that is set aside and not settled, this entry included. It counts as spent."""
    purpose: str
    """What was asked, in one line."""
    who: str
    """The user and the machine that wrote the entry."""
    at: str
    previous: str
    """The hash of the entry before."""
    version: int = SECOND
    person: str = ""
    """Whose request it is, or whom it concerns."""
    reason: str = ""
    key: str | None = None
    own: Amount = NOTHING
    """All that this person has spent or reserved, this entry included."""
    allowance: Amount | None = None
    """The most that this person may spend; None: whatever the budget has left."""
    bound: int | None = None
    """The number of the entry that states which table the budget is for."""
    closed: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    """What only this kind of entry has: facts of a table, the hash of a document, …"""
    hash: str = ""

    @property
    def epsilon(self) -> Fraction:
        """The ε of this entry."""
        return self.charge.epsilon

    @property
    def delta(self) -> Fraction:
        """The δ of this entry."""
        return self.charge.delta

    @property
    def total(self) -> Fraction:
        """The ε that all releases together may cost."""
        return self.granted.epsilon

    @property
    def spent(self) -> Fraction:
        """The ε that releases did cost, this entry included."""
        return self.used.epsilon

    @property
    def reserved(self) -> Fraction:
        """The ε set aside and not settled, this entry included. It counts as spent."""
        return self.held.epsilon

    @property
    def left(self) -> Amount:
        """What can still be reserved."""
        return self.granted - self.used - self.held

    @property
    def remaining(self) -> Fraction:
        """The ε that can still be reserved."""
        return self.left.epsilon

    def body(self) -> str:
        """All of the entry but its hash, as one canonical text."""
        if self.version == FIRST:
            return json.dumps([_plain_first(getattr(self, name)) for name in _FIRST_FIELDS])
        content = {name: _plain(getattr(self, name)) for name in _FIELDS}
        return canonical(content)

    def seal(self) -> str:
        """The hash of everything else in this entry."""
        return hash_of(self.body())

    def sealed(self) -> "Entry":
        """The same entry with its hash."""
        return replace(self, hash=self.seal())


_FIELDS = tuple(each.name for each in fields(Entry))[:-1]
_FIRST_FIELDS = _FIELDS[: _FIELDS.index("version")]
_AMOUNTS = ("charge", "granted", "used", "held")
_TYPES: dict[str, Any] = {
    "dataset kind purpose who at previous person reason": str,
    "number version": int,
    "about bound": int | None,
    "key": str | None,
    "closed": bool,
    "more": dict,
}


def canonical(content: object) -> str:
    r"""The one JSON text of a value: sorted keys, no spaces, ASCII only.

    >>> canonical({"b": "ε", "a": [1, None]})
    '{"a":[1,null],"b":"\\u03b5"}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hash_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_entry(version: int, body: str, hash: str = "") -> Entry:
    """The entry that a body states, or `UnreadableEntry`."""
    if version not in (FIRST, SECOND):
        raise UnreadableEntry(
            f"was made by a later dpgap, as version {version}: update dpgap to read it"
        )
    try:
        entry = (_read_first if version == FIRST else _read_second)(json.loads(body))
        if entry.version != version or entry.body() != body:
            raise ValueError
    except _TooLong:
        raise UnreadableEntry(
            f"has a number of more digits than Python reads ({sys.get_int_max_str_digits()})"
        ) from None
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        raise UnreadableEntry("was edited: it cannot be read") from None
    return replace(entry, hash=hash)


class _TooLong(Exception):  # noqa: N818 - it says what is wrong
    pass


def read_number(text: object) -> Fraction:
    """A number as `exact_text` writes it, and nothing else."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError
    try:
        return Fraction(text)
    except ValueError:
        raise _TooLong from None


def _read_first(content: list[Any]) -> Entry:
    parts = dict(zip(_FIRST_FIELDS, content, strict=True))
    _require_types(parts)
    amounts = {name: Amount(read_number(parts[name])) for name in _AMOUNTS}
    return Entry(**{**parts, **amounts}, version=FIRST)


def _read_second(content: dict[str, Any]) -> Entry:
    if not isinstance(content, dict) or content.keys() != set(_FIELDS):
        raise ValueError
    _require_types(content)
    amounts = {name: Amount(*map(read_number, content[name])) for name in (*_AMOUNTS, "own")}
    allowance = content["allowance"]
    if allowance is not None:
        allowance = Amount(*map(read_number, allowance))
    return Entry(**{**content, **amounts, "allowance": allowance})


def _require_types(content: Mapping[str, Any]) -> None:
    for names, kind in _TYPES.items():
        if not all(isinstance(content[name], kind) for name in names.split() if name in content):
            raise TypeError


def _plain(value: object) -> object:
    return value.exact() if isinstance(value, Amount) else value


def _plain_first(value: object) -> object:
    return exact_text(value.epsilon) if isinstance(value, Amount) else value
