"""When and how a release was made: the time, the version, the ledger's entry, the mechanisms.

All of it is noted once, when the release is made. What is shown later depends on the release alone.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dpgap._package import __version__
from dpgap.releases.numbers import exact_text
from dpgap.releases.printable import printable

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How a time is written: in UTC, to the second."""


AGAIN = "This question was paid for before. Its answer is shown again, and nothing was charged."
"""What is said of a release that comes from an archive."""


class LedgerReference(NamedTuple):
    """The entry of a ledger that paid for a release."""

    dataset: str
    entry: int
    hash: str


class Provenance(NamedTuple):
    """When a release was made, by which version of dpgap, and who paid."""

    time: str
    """Such as "2026-11-15T20:01:02Z": in UTC, to the second."""
    dpgap: str
    """Its version."""
    ledger: LedgerReference | None = None
    again: bool = False
    """Whether it comes from an archive, where it was paid for before. No document says so."""

    @classmethod
    def now(cls) -> "Provenance":
        """Of a release that is made at this moment."""
        return cls(f"{datetime.now(UTC):{TIME}}", __version__)

    def paid_by(self, reference: Mapping[str, Any]) -> "Provenance":
        """The same, with the ledger's entry: a mapping of "dataset", "entry" and "hash".

        If it has the "time" of the charge, that is the release's: how long drawing took is private.
        """
        entry = LedgerReference(*(reference[name] for name in LedgerReference._fields))
        return self._replace(time=reference.get("time", self.time), ledger=entry)

    def words(self, table: str | None = None) -> str:
        """One line for people, in which no name can do harm.

        >>> Provenance("2026-11-15T20:01:02Z", "0.1.0").words("sales.csv")
        'sales.csv, 2026-11-15 20:01 UTC, dpgap 0.1.0'
        """
        parts = [f"{self.time[:10]} {self.time[11:16]} UTC", f"dpgap {self.dpgap}"]
        if table is not None:
            parts.insert(0, table)
        if self.ledger is not None:
            parts.append(f"entry {self.ledger.entry} of data set {self.ledger.dataset!r}")
        if self.again:
            parts.append("shown again")
        return printable(", ".join(parts))


class MechanismUsed(NamedTuple):
    """A mechanism that took part in a release: its name and its parameters."""

    name: str
    parameters: tuple[tuple[str, str | int | bool | None], ...]
    """Names and values; exact numbers are text such as "7/10"."""

    @classmethod
    def of(cls, mechanism: Any) -> "MechanismUsed":
        """What a mechanism, which is a frozen dataclass, says of itself in its `repr`."""
        known = _used.get(id(mechanism))  # to hash its exact numbers would take as long
        if known is None or known[0] is not mechanism:
            if len(_used) >= _MOST_USED:
                _used.clear()
            known = _used[id(mechanism)] = mechanism, _said(mechanism)
        return known[1]


_MOST_USED = 256
_used: dict[int, tuple[Any, MechanismUsed]] = {}
"""What the last mechanisms said, which are public; each is kept with it, so that its id is."""


def _said(mechanism: Any) -> MechanismUsed:
    named = [each.name for each in fields(mechanism) if each.repr]
    values = [(name, _plain(getattr(mechanism, name))) for name in named]
    return MechanismUsed(type(mechanism).__name__, tuple(values))


def _plain(value: Any) -> str | int | bool | None:
    if value is None or isinstance(value, str | bool | int):
        return value
    return exact_text(value)
