"""One line of a book, and the text that seals it.

The *body* of an entry is one canonical JSON text with everything that the entry says, and its
*hash* is the SHA-256 of exactly this text: any program can check it. The body holds the hash of
the entry before, so entries form a chain.

There are three versions of the body. The first, a JSON list, has an ε and a few words. The second,
an object with sorted keys and no spaces, also has a δ, the person, a request key, a reason and
whatever its kind needs. The third also says who acted, and has room for renewal, ranges of dates
and other accounting. Entries keep the version in which they were written, and their hash, for ever.
New entries are of the third. An entry of a later version, or of the third with a value that this
dpgap does not know, is refused: it was made by a later dpgap.

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
from functools import lru_cache
from types import NoneType
from typing import Any

from dpgap._package import public
from dpgap.budget.amounts import NOTHING, Amount

CREATE, RESERVE, SETTLE = "create", "reserve", "settle"
RAISE, LOWER, CLOSE = "raise", "lower", "close"
ALLOW, WRITE_OFF, BIND, MIGRATE = "allow", "write-off", "bind", "migrate"

FIRST, SECOND, THIRD = 1, 2, 3
"""Versions of entries, and layouts of ledgers. Only the third is written."""

PURE, EPSILON_DELTA = "pure", "epsilon-delta"
"""How charges are added up, and what they are amounts of."""

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
    reservation: int | None
    """The number of the reservation that a settlement or a write-off ends."""
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
    version: int = THIRD
    person: str = ""
    """Whose request it is, or whom it concerns."""
    actor: str = ""
    """The person who acted: whoever asked, or a steward."""
    reason: str = ""
    key: str | None = None
    person_spent: Amount = NOTHING
    """All that this person has spent or reserved, this entry included."""
    allowance: Amount | None = None
    """The most that this person may spend; None: whatever the budget has left."""
    bound: int | None = None
    """The number of the entry that states which table the budget is for."""
    closed: bool = False
    archived: int = 0
    """How many characters all archived documents have, this entry's included."""
    period: None = None
    """When the budget is renewed; None: never."""
    range: None = None
    """The dates of the rows that the budget is for; None: all."""
    accounting: str = PURE
    currency: str = EPSILON_DELTA
    extra: Mapping[str, Any] = field(default_factory=dict)
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
            values = (getattr(self, name) for name in _FIELDS[FIRST])
            return json.dumps([it.exact()[0] if isinstance(it, Amount) else it for it in values])
        content = {}
        for stored, name in _STORED[self.version].items():
            value = getattr(self, name)
            content[stored] = value.exact() if isinstance(value, Amount) else value
        return canonical(content)

    def seal(self) -> str:
        """The hash of everything else in this entry."""
        return hash_of(self.body())

    def sealed(self) -> "Entry":
        """The same entry with its hash."""
        return replace(self, hash=self.seal())


_NAMES = tuple(each.name for each in fields(Entry))[:-1]
_NEW_NAMES = {"actor", "archived", "period", "range", "accounting", "currency"}
_FIELDS = {
    FIRST: _NAMES[: _NAMES.index("version")],
    SECOND: tuple(name for name in _NAMES if name not in _NEW_NAMES),
    THIRD: _NAMES,
}
"""What an entry of each version says."""
_OLD_NAMES = {"reservation": "about", "person_spent": "own", "extra": "more"}
"""What the second version calls some of it."""
_AMOUNTS = ("charge", "granted", "used", "held", "person_spent", "allowance")
_STORED = {
    version: {_OLD_NAMES.get(name, name) if version == SECOND else name: name for name in names}
    for version, names in _FIELDS.items()
}
"""What a body of each version calls it."""
_TYPES: dict[str, Any] = {
    name: kind
    for names, kind in {
        "dataset kind purpose who at previous person actor reason accounting currency": str,
        "number version archived": int,
        "reservation bound": (int, NoneType),
        "key": (str, NoneType),
        "closed": bool,
        "period range": (dict, NoneType),
        "extra": dict,
    }.items()
    for name in names.split()
}


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(content: object) -> str:
    r"""The one JSON text of a value: sorted keys, no spaces, ASCII only.

    >>> canonical({"b": "ε", "a": [1, None]})
    '{"a":[1,null],"b":"\\u03b5"}'
    """
    return _encoder.encode(content)


def hash_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_entry(version: int, body: str, hash: str = "") -> Entry:
    """The entry that a body states, or `UnreadableEntry`."""
    if version not in _FIELDS:
        raise UnreadableEntry(
            f"was made by a later dpgap, as version {version}: update dpgap to read it"
        )
    try:
        content = json.loads(body)
        written = json.dumps(content) if version == FIRST else canonical(content)
        if written != body:
            raise ValueError
        return _read(version, content, hash)
    except _TooLong:
        raise UnreadableEntry(
            f"has a number of more digits than Python reads ({sys.get_int_max_str_digits()})"
        ) from None
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        raise UnreadableEntry("was edited: it cannot be read") from None


class _TooLong(ValueError):  # noqa: N818 - it says what is wrong
    pass


def read_number(text: object) -> Fraction:
    """A number as `exact_text` writes it, and nothing else."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError
    try:
        value = Fraction(text)
    except ValueError:
        raise _TooLong from None
    if str(value) != text:
        raise ValueError
    return value


@lru_cache(maxsize=4096)  # most amounts of an entry are those of the one before
def _read_amount(epsilon: str, delta: str) -> Amount:
    return Amount(read_number(epsilon), read_number(delta))


def _read(version: int, content: Any, hash: str) -> Entry:
    if version == FIRST:
        said = dict(zip(_FIELDS[FIRST], content, strict=True)) | {"version": FIRST}
        said |= {name: [said[name], "0"] for name in _AMOUNTS if name in said}
    else:
        stored = _STORED[version]
        if not isinstance(content, dict) or content.keys() != stored.keys():
            raise ValueError
        said = {name: content[it] for it, name in stored.items()}
        if content["version"] != version:
            raise ValueError
    if not all(isinstance(value, _TYPES.get(name, object)) for name, value in said.items()):
        raise TypeError
    if version == THIRD:
        _require_known(said)
    for name in (name for name in _AMOUNTS if name in said):
        if said[name] is not None or name != "allowance":
            said[name] = _read_amount(*said[name])
    return Entry(**said, hash=hash)


def _require_known(said: Mapping[str, Any]) -> None:
    known = {"period": None, "range": None, "accounting": PURE, "currency": EPSILON_DELTA}
    for name, value in known.items():
        if said[name] != value:
            raise UnreadableEntry(
                f"was made by a later dpgap, which knows another {name}: update dpgap to read it"
            )
