"""The book of a budget: entries that only ever follow each other, each sealed with a hash.

A data set's book opens with its total ε. A release first *reserves* the most it can cost and then
*settles* to what it did cost. Every entry carries the balance after it and the hash of the entry
before it, so an entry that is edited, removed or put in breaks the chain and `flaws` says where.

Charges are whole multiples of one small unit, 1/(10^30 · lcm(1, …, 24)), so that sums keep short
denominators however many releases there are. What is reserved and what is settled is rounded *up*
and a new total *down*, so the book never says that less was spent than was; what a release itself
reports stays exact. Entries from before this rule hold any fraction: they stand, and books that
have them go on.

The hash has no key. Who can write to the ledger can also rewrite the whole chain from some entry
on, or put back an older copy. That shows only to someone who noted the last hash, the *head*, in
another place: a chain that no longer contains a head noted earlier is not the one it was.

>>> book = [opening("sales", Fraction(1), "ann@lab", "2026-01-01T00:00:00+00:00")]
>>> book.append(reserving(book[-1], Fraction(3, 4), "NoisyTopK(…)", "ann@lab", "2026-01-02"))
>>> book.append(settling(book[-1], 1, Fraction(3, 4), Fraction(1, 2), "ann@lab", "2026-01-02"))
>>> book[-1].remaining, flaws(book)
(Fraction(1, 2), [])
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from dpgap.budget.account import BudgetExhausted
from dpgap.exact.parameters import readable

CREATE, RESERVE, SETTLE = "create", "reserve", "settle"

UNIT = Fraction(1, 10**30 * math.lcm(*range(1, 25)))
"""What all new entries are whole multiples of."""


class NumberTooLong(ArithmeticError):  # noqa: N818 - it says what is wrong
    """A number has more digits than Python writes down."""


def rounded_up(epsilon: Fraction) -> Fraction:
    """The next multiple of the unit: what a charge is recorded as.

    >>> rounded_up(Fraction(1, 3)), rounded_up(Fraction(1, 29)) > Fraction(1, 29)
    (Fraction(1, 3), True)
    """
    return math.ceil(epsilon / UNIT) * UNIT


def rounded_down(epsilon: Fraction) -> Fraction:
    """The multiple of the unit before: what a total is recorded as."""
    return math.floor(epsilon / UNIT) * UNIT


def exact_text(value: Fraction) -> str:
    """The number as it is stored and sealed, such as 7/10."""
    try:
        return str(value)
    except ValueError:
        raise NumberTooLong(
            f"a number of this book would have more than {sys.get_int_max_str_digits()} digits"
        ) from None


def readable_text(value: Fraction) -> str:
    """The number for programs: exact, or about right where it is too long to be written down.

    >>> readable_text(Fraction(7, 10)), readable_text(Fraction(1, 3**10000) + 2)
    ('7/10', 'about 2.0')
    """
    try:
        return str(value)
    except ValueError:
        return f"about {float(value)!r}" if abs(value) < 10**300 else "more than 1e300"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a book. No entry ever holds a private value."""

    dataset: str
    number: int
    """Counts from 0, the entry that opens the book."""
    kind: str
    about: int | None
    """The number of the reservation that a settlement is about."""
    epsilon: Fraction
    """What is opened with, set aside, or spent after all."""
    total: Fraction
    spent: Fraction
    """All that settled releases did cost, this entry included."""
    reserved: Fraction
    """All that is set aside and not settled, this entry included. It counts as spent."""
    purpose: str
    who: str
    at: str
    previous: str
    """The hash of the entry before."""
    hash: str = ""

    @property
    def remaining(self) -> Fraction:
        """What can still be reserved."""
        return self.total - self.spent - self.reserved

    def seal(self) -> str:
        """The hash of everything else in this entry."""
        content = [_plain(getattr(self, field.name)) for field in fields(self)[:-1]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def sealed(self) -> "Entry":
        """The same entry with its hash."""
        return replace(self, hash=self.seal())


def _plain(value: object) -> object:
    return exact_text(value) if isinstance(value, Fraction) else value


def opening(dataset: str, total: Fraction, who: str, at: str) -> Entry:
    """The first entry of a book."""
    none = Fraction(0)
    return Entry(
        dataset, 0, CREATE, None, total, total, none, none, "", who, at, previous=""
    ).sealed()


def reserving(last: Entry, epsilon: Fraction, purpose: str, who: str, at: str) -> Entry:
    """The entry that sets ε aside, or `BudgetExhausted`."""
    if epsilon > last.remaining:
        raise BudgetExhausted(
            f"data set {last.dataset!r} cannot cover this release: "
            f"total ε = {readable(last.total)}, spent {readable(last.spent)}, "
            f"reserved {readable(last.reserved)}, remaining {readable(last.remaining)}, "
            f"requested {readable(epsilon)}"
        )
    return replace(
        last,
        number=last.number + 1,
        kind=RESERVE,
        about=None,
        epsilon=epsilon,
        reserved=last.reserved + epsilon,
        purpose=purpose,
        who=who,
        at=at,
        previous=last.hash,
    ).sealed()


def settling(
    last: Entry, about: int, reserved: Fraction, spent: Fraction, who: str, at: str
) -> Entry:
    """The entry that replaces what was reserved by what was spent."""
    if not 0 <= spent <= reserved:
        raise ValueError(
            f"epsilon must lie between 0 and the {readable(reserved)} reserved, "
            f"not {readable(spent)}"
        )
    return replace(
        last,
        number=last.number + 1,
        kind=SETTLE,
        about=about,
        epsilon=spent,
        spent=last.spent + spent,
        reserved=last.reserved - reserved,
        purpose="",
        who=who,
        at=at,
        previous=last.hash,
    ).sealed()


def has_head(book: Iterable[Entry], head: str) -> bool:
    """Whether the book still contains the entry of a hash that was noted earlier."""
    return any(entry.hash == head for entry in book)


def flaws(book: Iterable[Entry]) -> list[str]:
    """Everything that is wrong with one data set's book; nothing if it is intact."""
    found: list[str] = []
    open_reservations: dict[int, Fraction] = {}
    last: Entry | None = None
    for entry in book:
        if entry.hash != entry.seal():
            found.append(f"entry {entry.number} was edited: it does not match its hash")
        found += _break_in_chain(last, entry)
        found += _wrong_balance(last, entry, open_reservations)
        last = entry
    return found if last is not None else ["there are no entries"]


def _break_in_chain(last: Entry | None, entry: Entry) -> list[str]:
    number, previous = (0, "") if last is None else (last.number + 1, last.hash)
    if entry.number != number:
        return [f"entry {number} is missing: entry {entry.number} was found instead"]
    if entry.previous != previous:
        return [f"entry {number} does not follow the entry before it"]
    return []


def _wrong_balance(
    last: Entry | None, entry: Entry, open_reservations: dict[int, Fraction]
) -> list[str]:
    """Whether the entry could have been made from the one before it."""
    wrong = [f"entry {entry.number} does not add up"]
    if last is None:
        expected = opening(entry.dataset, entry.total, entry.who, entry.at)
        return [] if entry == replace(expected, hash=entry.hash) else wrong
    try:
        if entry.kind == RESERVE:
            expected = reserving(last, entry.epsilon, entry.purpose, entry.who, entry.at)
            open_reservations[entry.number] = entry.epsilon
        elif entry.kind == SETTLE and entry.about is not None:
            reserved = open_reservations.pop(entry.about)
            expected = settling(last, entry.about, reserved, entry.epsilon, entry.who, entry.at)
        else:
            return wrong
    except (BudgetExhausted, NumberTooLong, ValueError, KeyError):
        return wrong
    balance = (entry.total, entry.spent, entry.reserved)
    return [] if balance == (expected.total, expected.spent, expected.reserved) else wrong
