"""One entry of a book, and the text whose hash protects it.

The *body* of an entry is one canonical JSON text with everything that the entry says, and its
*hash* is the SHA-256 of exactly this text: any program can check it. The body holds the hash of
the entry before, so entries form a chain.

A body is an object with sorted keys and no spaces. It has a version, which is 1, and room for
ranges of dates. A cost is written as its ε (null if it has none), its ρ and its δ; a limit as its
currency, its amount and its δ. What is written is read for ever, with its hash. An entry
of a later version, or with a value that this dpgap does not know, is refused: it was made by a
later dpgap.

>>> from fractions import Fraction
>>> ann = Author("ann@lab", "2026-01-02", "ann")
>>> half, most = Cost.pure("1/2"), Cost.pure("3/4")
>>> book = [opening("sales", Limit("epsilon", Fraction(1)), ann)]
>>> book.append(following(Balance(book[-1]), RESERVE, ann, charge=most, purpose="top 10 of url"))
>>> book.append(following(Balance(book[-1], book[-1]), SETTLE, ann, book[1], charge=half))
>>> book[-1].remaining, flaws(book)
(Fraction(1, 2), [])
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dpgap._package import public
from dpgap.budget.account import BudgetExhausted, verb_of
from dpgap.budget.cost import CURRENCIES, NOTHING, Cost, Currency, Limit

CREATE = "create"
RESERVE = "reserve"
SETTLE = "settle"
WRITE_OFF = "write-off"
AGAIN = "again"
RAISE = "raise"
LOWER = "lower"
CLOSE = "close"
ALLOW = "allow"
BIND = "bind"
RENEW = "renew"
NEW_PERIOD = "new-period"
ACCEPT = "accept"

_NUMBER = re.compile("-?[0-9]+(/[0-9]+)?")


@public
class LedgerError(RuntimeError):
    """The ledger cannot be read or written, so nothing may be released."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        """What is wrong with it, without its address: for a log."""


class WrongClock(LedgerError):  # noqa: N818 - it says what is wrong
    """A clock may be wrong, so nothing was charged. The message has no address."""


class UnreadableEntry(LedgerError):  # noqa: N818 - it says what is wrong
    """An entry is there, but it cannot be read."""


PERIODS: dict[str, tuple[Callable[[date], date], int]] = {
    "day": (lambda day: day, 1),
    "week": (lambda day: day - timedelta(day.weekday()), 7),
    "month": (lambda day: day.replace(day=1), 31),
}
"""How often a budget can be renewed: the first day of a period, and the most days that it has."""
NEVER = "never"
_FREQUENCIES = (*PERIODS, NEVER)


@dataclass(frozen=True, slots=True)
class Renewal:
    """How a budget is renewed: with so much at the first charge of every period, in UTC.

    >>> Renewal("month", Limit("epsilon", Fraction(1)), False, "2026-11-01", None).next
    '2026-12-01'
    """

    every: str
    """"day", "week", "month", or "never" if a steward stopped it."""
    grant: Limit
    """What a period adds to the total; its δ is 0."""
    carry: bool
    """Whether what is unspent is kept in the next period; else it lapses."""
    since: str
    """The first day of the newest period that has begun. Only a later one renews the budget."""
    lapsed: int | None
    """The newest entry at which the unspent lapsed; what earlier ones give back lapses too."""

    def start(self, at: str) -> str:
        """The first day of the period of a time."""
        first_day, _ = PERIODS[self.every]
        return first_day(date.fromisoformat(at[:10])).isoformat()

    def is_over(self, at: str) -> bool:
        """Whether a time lies in a later period than the newest that has begun."""
        return self.start(at) > self.since

    @property
    def next(self) -> str:
        """The first day of the next period."""
        first_day = date.fromisoformat(self.start(self.since))
        _, most_days = PERIODS[self.every]
        return self.start((first_day + timedelta(most_days)).isoformat())

    def exact(self) -> dict[str, Any]:
        """The values that are stored and hashed."""
        return {
            "every": self.every,
            "grant": self.grant.exact(),
            "carry": self.carry,
            "since": self.since,
            "lapsed": self.lapsed,
        }

    def __str__(self) -> str:
        if self.every == NEVER:
            return NEVER
        unspent = "is kept" if self.carry else "lapses"
        return f"{self.grant} every {self.every}; what is left {unspent}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a book. No entry ever holds a private value."""

    dataset: str
    number: int
    """Counts from 0, the entry that opens the book."""
    kind: str
    reservation: int | None
    """The number of the reservation that a settlement or a write-off ends."""
    charge: Cost
    """What this entry sets aside or spends."""
    granted: Limit
    """The total that all releases together may cost."""
    used: Cost
    """All that settled and written-off releases did cost, this entry included."""
    held: Cost
    """All that is set aside and not settled, this entry included. It counts as spent."""
    purpose: str
    who: str
    """The user and the machine that wrote the entry."""
    at: str
    previous: str
    """The hash of the entry before."""
    person: str = ""
    """Whose request it is, or whom it concerns."""
    actor: str = ""
    """The person who acted: whoever asked, or a steward."""
    reason: str = ""
    key: str | None = None
    person_spent: Cost = NOTHING
    """All that this person has spent or reserved, this entry included."""
    allowance: Limit | None = None
    """The most that this person may spend; None: whatever the budget has left."""
    bound: int | None = None
    """The number of the entry that states which table the budget is for."""
    closed: bool = False
    archived: int = 0
    """How many characters all archived documents have, this entry's included."""
    period: Renewal | None = None
    """How the budget is renewed; None: it never was."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only this kind of entry has: facts of a table, the hash of a document, …"""
    hash: str = ""

    @property
    def amount(self) -> Cost | Limit:
        """What this entry opens with, grants, allows, sets aside or spends."""
        if self.kind in (CREATE, RAISE, LOWER):
            return self.granted
        if self.kind == ALLOW and self.allowance is not None:
            return self.allowance
        if self.kind in (RENEW, NEW_PERIOD) and self.period is not None:
            return self.period.grant
        return self.charge

    @property
    def epsilon(self) -> Fraction | None:
        """The ε of this entry's amount; None if it has none."""
        return self.amount.epsilon

    @property
    def delta(self) -> Fraction:
        """The δ of this entry's amount."""
        return self.amount.delta

    @property
    def gone(self) -> Cost:
        """All that was spent or set aside, this entry included."""
        return self.used + self.held

    @property
    def total(self) -> Fraction:
        """What all releases together may cost, in the currency of the budget: ε or ρ."""
        return self.granted.amount

    @property
    def spent(self) -> Fraction:
        """What releases did cost, this entry included, in the currency of the budget."""
        return self.granted.of(self.used)

    @property
    def reserved(self) -> Fraction:
        """What is set aside and not settled, this entry included. It counts as spent."""
        return self.granted.of(self.held)

    @property
    def left(self) -> Limit:
        """What can still be reserved."""
        return self.granted.left(self.gone)

    @property
    def remaining(self) -> Fraction:
        """What can still be reserved, in the currency of the budget."""
        return self.left.amount

    @property
    def renewal(self) -> Renewal | None:
        """How the budget is renewed from now on, if it is."""
        if self.closed or self.period is None or self.period.every == NEVER:
            return None
        return self.period

    def body(self) -> str:
        """All of the entry but its hash, as one canonical text."""
        content = dict(_FIXED)
        for name in _STORED:
            value = getattr(self, name)
            if isinstance(value, Cost | Limit | Renewal):
                value = value.exact()
            content[name] = value
        return canonical(content)

    def seal(self) -> str:
        """The hash of everything else in this entry."""
        return hash_of(self.body())

    def sealed(self) -> "Entry":
        """The same entry with its hash."""
        return replace(self, hash=self.seal())


_TYPES: dict[str, Any] = {entry_field.name: entry_field.type for entry_field in fields(Entry)}
_TYPES["extra"] = dict
_STORED = [name for name in _TYPES if name != "hash"]
_COSTS = ("charge", "used", "held", "person_spent")
_LIMITS = ("granted", "allowance")
_FIXED: dict[str, Any] = {"version": 1, "range": None}
"""Values that are the same in every body. Another one was written by a later dpgap."""


canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""The one JSON text of a value: sorted keys, no spaces, ASCII only."""


def hash_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_head(text: object) -> bool:
    """Whether it is a hash, as the head of a book is."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None


def read_entry(body: str, hash: str = "") -> Entry:
    """The entry that a body states, or `UnreadableEntry`."""
    try:
        content = json.loads(body)
        if canonical(content) != body:
            raise ValueError
        for name, value in _FIXED.items():
            if content[name] != value:
                raise UnreadableEntry(_OF_LATER.format(name))
        values = {name: content.pop(name) for name in _STORED}
        if content.keys() != _FIXED.keys():
            raise ValueError
        if values["period"] is not None:
            values["period"] = _read_renewal(values["period"])
        for name, value in values.items():
            if name in _COSTS:
                values[name] = read_cost(*value)
            elif name in _LIMITS and value is not None:
                values[name] = _read_limit(*value)
            if not isinstance(values[name], _TYPES[name]):
                raise TypeError
        return Entry(**values, hash=hash)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise UnreadableEntry("was edited: it cannot be read") from None


def read_number(text: object) -> Fraction:
    """A number as bodies hold it, such as 7/10, and nothing else."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError
    value = Fraction(text)
    if str(value) != text:
        raise ValueError
    return value


@lru_cache(maxsize=4096)  # most amounts of an entry are those of the one before
def read_cost(epsilon: str | None, rho: str, delta: str) -> Cost:
    """A cost as `Cost.exact` states it."""
    pure_epsilon = None
    if epsilon is not None:
        pure_epsilon = read_number(epsilon)
    return Cost(pure_epsilon, read_number(rho), read_number(delta))


@lru_cache(maxsize=4096)
def _read_limit(currency: Currency, amount: str, delta: str) -> Limit:
    if currency not in CURRENCIES:
        raise UnreadableEntry(_OF_LATER.format("currency"))
    return Limit(currency, read_number(amount), read_number(delta))


_OF_LATER = "was made by a later dpgap, which knows another {}: update dpgap to read it"


def _read_renewal(content: Any) -> Renewal:
    """What `Renewal.exact` states."""
    names = {renewal_field.name for renewal_field in fields(Renewal)}
    if content.keys() != names or content["every"] not in _FREQUENCIES:
        raise UnreadableEntry(_OF_LATER.format("period"))
    renewal = Renewal(
        every=content["every"],
        grant=_read_limit(*content["grant"]),
        carry=content["carry"],
        since=content["since"],
        lapsed=content["lapsed"],
    )
    is_number = renewal.lapsed is None or type(renewal.lapsed) is int
    is_day = date.fromisoformat(renewal.since).isoformat() == renewal.since
    if not (type(renewal.carry) is bool and is_number and is_day):
        raise TypeError
    return renewal


# --------------------------------------------------------------------------------------------------
# The book of a budget: an append-only list of entries.
#
# A data set's book opens with its total (ε, δ). A release first *reserves* the most it can cost and
# then *settles* to what it did cost. A steward raises, lowers or closes the total, gives people
# allowances, writes off reservations that nobody will settle, states the table that the budget is
# for, and says how it is renewed. A request that gets an earlier answer *again* costs nothing, and
# leaves its key. The first charge of a period renews it. Each kind of entry has a
# rule in `_KINDS`: with it, `following` makes the next entry from the last one, or refuses.
#
# Every entry has the balance after it and the hash of the entry before it. `flaws` makes every
# entry again from the one before. So it detects entries that were edited, removed or inserted.
#
# The hash has no key. Anybody who can write to the ledger can also rewrite the whole chain from
# some entry on, or restore an older copy. To detect this, note the last hash (the *head*) in
# another place: a chain that no longer contains this head was rewritten. A steward can accept such
# a book: an entry then states the head, and counts what was lost as spent.


class Author(NamedTuple):
    """Who writes an entry, when, for whom and why.

    `who` is the user and the machine. `person` made the request, or is the person whom the entry
    concerns. `actor` is the person who acts.
    """

    who: str
    at: str
    person: str = ""
    reason: str = ""
    actor: str = ""


class Balance(NamedTuple):
    """The state of a book: its last entry, and the last entry of the person who acts next."""

    last: Entry
    mine: Entry | None = None

    @property
    def left(self) -> Limit:
        """What this person can still spend: the budget or their allowance, whichever has less."""
        limit = self.last.left
        if self.last.closed:
            limit = limit.none()
        if self.mine is None or self.mine.allowance is None:
            return limit
        return limit.within(self.mine.allowance.left(self.mine.person_spent))


def opening(
    dataset: str, total: Limit, author: Author, extra: Mapping[str, Any] | None = None
) -> Entry:
    """The first entry of a book; "facts" in `extra` state the table that it is for."""
    stated_extra = extra or {}
    entry = Entry(
        dataset=dataset,
        number=0,
        kind=CREATE,
        reservation=None,
        charge=NOTHING,
        granted=total,
        used=NOTHING,
        held=NOTHING,
        purpose="",
        previous="",
        bound=0 if "facts" in stated_extra else None,
        extra=stated_extra,
        **author._asdict(),
    )
    return entry.sealed()


def following(balance: Balance, kind: str, author: Author, *ended: Entry, **values: Any) -> Entry:
    """The next entry of a book, or an error if it is refused.

    `ended` is the reservation that a settlement or a write-off ends. `_KINDS` says which `values`
    are stated for each kind. Everything else follows from these and the balance.
    """
    last = balance.last
    usual: dict[str, Any] = {
        "charge": NOTHING,
        "purpose": "",
        "key": None,
        "extra": {},
        "person_spent": NOTHING,
        "allowance": None,
    }
    if balance.mine is not None:
        usual["person_spent"] = balance.mine.person_spent
        usual["allowance"] = balance.mine.allowance
    draft = replace(
        last,
        number=last.number + 1,
        kind=kind,
        reservation=None,
        previous=last.hash,
        **usual | author._asdict() | values,
    )
    changes = _KINDS[kind].rule(balance, draft, *ended)
    return replace(draft, **changes).sealed()


def _reserve(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Set an amount aside, or raise `BudgetExhausted`."""
    last = balance.last
    charge = draft.charge
    if last.closed:
        raise BudgetExhausted(f"the budget of data set {last.dataset!r} is closed")
    if not last.left.covers(charge):
        later = ""
        if last.renewal is not None:
            later = f". The next {last.renewal.every} begins on {last.renewal.next}, in UTC"
        raise BudgetExhausted(
            f"data set {last.dataset!r} cannot cover this release: total {last.granted}, "
            f"spent {last.used}, reserved {last.held}, remaining "
            f"{last.left.in_words(charge, last.granted)}, requested {charge}{later}"
        )
    if draft.allowance is not None and not balance.left.covers(charge):
        amount = balance.left.in_words(charge, draft.allowance, joint=" and ")
        raise BudgetExhausted(
            f"{draft.person!r} may spend {draft.allowance} of data set {last.dataset!r} "
            f"and has spent or reserved {draft.person_spent}, so {amount} {verb_of(amount)} left "
            f"for them and {charge} is too much: a steward can allow more"
        )
    changes = {"held": last.held + charge, "person_spent": NOTHING}
    if draft.person:
        changes["person_spent"] = draft.person_spent + charge
    return changes


def _settle(balance: Balance, draft: Entry, reservation: Entry) -> dict[str, Any]:
    """Replace what was reserved by what was spent; a write-off counts all of it as spent.

    The rest is given back, unless the unspent has lapsed since it was reserved. If a document is
    archived, "document" in `extra` is its hash, and "length" says how many characters it has.
    """
    last = balance.last
    charge = reservation.charge
    length = draft.extra.get("length", 0)
    cost = draft.charge
    if draft.kind == WRITE_OFF:
        cost = charge
    if not cost.fits(charge):
        raise ValueError(f"cost must be at most what was reserved, {charge}, not {cost}")
    if not (isinstance(length, int) and length >= 0):
        raise ValueError("length must be that of a document")
    changes: dict[str, Any] = {
        "person": reservation.person,
        "reservation": reservation.number,
        "charge": cost,
        "used": last.used + cost,
        "held": last.held - charge,
        "archived": last.archived + length,
    }
    if reservation.person:
        changes["person_spent"] = draft.person_spent - charge + cost
    lapsed = None
    if last.period is not None:
        lapsed = last.period.lapsed
    if lapsed is not None and reservation.number < lapsed:
        changes["granted"] = last.granted.lowered(charge.beyond(cost))
    return changes


def _again(_: Balance, draft: Entry) -> dict[str, Any]:
    """Keep the key of a request whose answer an earlier reservation paid for; it costs nothing.

    "paid_by" in `extra` is the number of this reservation.
    """
    paid_by = draft.extra.get("paid_by")
    if not (type(paid_by) is int and 0 < paid_by < draft.number and draft.key):
        raise ValueError("an earlier reservation must have paid for an answer with this key")
    return {}


def _set_total(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Raise or lower the total, though never below what is spent and reserved."""
    last = balance.last
    total = draft.granted
    if draft.kind == RAISE:
        if last.closed:
            raise ValueError(f"data set {last.dataset!r} is closed: its total cannot be raised")
        size = "larger"
        fits = last.granted.fits(total)
    else:
        size = "smaller"
        fits = total.fits(last.granted)
    if not fits or total == last.granted:
        raise ValueError(
            f"data set {last.dataset!r} has a total of {last.granted}: to {draft.kind} it, state a "
            f"{size} one, not {total}"
        )
    if draft.kind == LOWER and not total.covers(last.gone):
        raise ValueError(
            f"data set {last.dataset!r} has spent and reserved {last.gone}: its total cannot be "
            f"lowered to {total}"
        )
    return {}


def _allow(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Say how much of the total a person may spend, in the currency of the budget."""
    if draft.allowance is None:
        raise ValueError("an allowance must be stated")
    draft.allowance.require_same_currency(balance.last.granted)
    return {}


def _close(balance: Balance, _: Entry) -> dict[str, Any]:
    """Close the budget: nothing more can be reserved. Open reservations can still be settled."""
    if balance.last.closed:
        raise ValueError(f"the budget of data set {balance.last.dataset!r} is closed already")
    return {"closed": True}


def _bind(_: Balance, draft: Entry) -> dict[str, Any]:
    """State the table that the budget is for from now on, in "facts" of `extra`."""
    if "facts" not in draft.extra:
        raise ValueError("table, unit, neighbours or columns must be given")
    return {"bound": draft.number}


def _renew(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Say how the budget is renewed from the next period on. The time is the database's."""
    last = balance.last
    renewal = draft.period
    frequency = getattr(renewal, "every", None)
    if renewal is None or frequency not in _FREQUENCIES:
        names = ", ".join(map(repr, PERIODS))
        raise ValueError(f"every must be one of {names} or {NEVER!r}, not {frequency!r}")
    is_stopped = frequency == NEVER
    if is_stopped != renewal.grant.is_empty:
        raise ValueError("epsilon must say what a period may cost; to stop the renewal, state none")
    if last.closed:
        raise ValueError(f"the budget of data set {last.dataset!r} is closed: it is not renewed")
    if is_stopped and last.renewal is None:
        raise ValueError(f"the budget of data set {last.dataset!r} is not renewed now")
    since = ""
    lapsed = None
    if last.period is not None:
        since = last.period.since
        lapsed = last.period.lapsed
    if not is_stopped:
        since = max(since, renewal.start(draft.at))
    return {"period": replace(renewal, since=since, lapsed=lapsed)}


def _new_period(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Renew the budget: by the clock of the database, a later period has begun.

    If a wrong clock began a period that is still to come, a steward, who states a reason, begins
    that of today instead. What is left then is the ε of one period, or more if unspent ε is kept. δ
    does not change.
    """
    last = balance.last
    period = last.renewal
    if period is None:
        raise ValueError(f"the budget of data set {last.dataset!r} is not renewed")
    is_over = period.is_over(draft.at)
    is_instead = bool(draft.reason) and period.since > draft.at[:10]
    if not is_over and not is_instead:
        raise ValueError(f"the {period.every} of today has begun already, on {period.since}")
    of_one_period = last.granted.renewed(last.gone, period.grant)
    granted = of_one_period
    lapsed: int | None = draft.number
    if period.carry:
        lapsed = period.lapsed
        if not is_instead:
            granted = last.granted.raised(period.grant)
        elif of_one_period.fits(last.granted):
            granted = last.granted
    return {
        "granted": granted,
        "period": replace(period, since=period.start(draft.at), lapsed=lapsed),
    }


def _accept(balance: Balance, draft: Entry) -> dict[str, Any]:
    """Go on with a book that lacks later entries: what they spent is spent, beyond the total too.

    "lost" in `extra` is the head of the lost entries.
    """
    last = balance.last
    lost = draft.charge
    if not is_head(draft.extra.get("lost")):
        raise ValueError("head must be 64 hexadecimal digits")
    return {"used": last.used + lost, "granted": last.granted.raised_to(last.gone + lost)}


class EntryKind(NamedTuple):
    """What is stated for an entry of a kind, and the rule that says what it changes or refuses."""

    names: tuple[str, ...]
    rule: Callable[..., dict[str, Any]]


_KINDS = {
    RESERVE: EntryKind(("charge", "purpose", "key", "extra"), _reserve),
    SETTLE: EntryKind(("charge", "extra"), _settle),
    WRITE_OFF: EntryKind((), _settle),
    AGAIN: EntryKind(("purpose", "key", "extra"), _again),
    RAISE: EntryKind(("granted",), _set_total),
    LOWER: EntryKind(("granted",), _set_total),
    CLOSE: EntryKind((), _close),
    # How much of the total a person may spend, what is spent included.
    ALLOW: EntryKind(("allowance",), _allow),
    BIND: EntryKind(("extra",), _bind),
    RENEW: EntryKind(("period",), _renew),
    NEW_PERIOD: EntryKind((), _new_period),
    ACCEPT: EntryKind(("charge", "extra"), _accept),
}


def flaws(book: Iterable[Entry]) -> list[str]:
    """A list of everything that is wrong with one data set's book; empty if it is intact."""
    return checked(book)[0]


def checked(
    book: Iterable[Entry], first: int = 0, today: str = "9999"
) -> tuple[list[str], list[int]]:
    """Everything that is wrong with a book, or with its part from the entry `first` on.

    Then the numbers of entries whose sums cannot be checked without earlier entries: the first, and
    those that end an earlier reservation. No period may begin after `today`.
    """
    faults: list[str] = []
    unchecked: list[int] = []
    replay = _Replay(first)
    for entry in book:
        if entry.hash != entry.seal():
            faults.append(f"entry {entry.number} was edited: it does not match its hash")
        faults += replay.break_in_chain(entry)
        if replay.depends_on_earlier(entry):
            unchecked.append(entry.number)
        elif not replay.could_make(entry):
            faults.append(f"entry {entry.number} does not add up")
        elif entry.kind == RENEW and entry.renewal and entry.renewal.next <= replay.opened[:10]:
            faults.append(f"entry {entry.number} renews periods from before the budget was opened")
        replay.follow(entry)
    if replay.last is None:
        faults.append("there are no entries")
        return faults, unchecked
    since = getattr(replay.last.period, "since", "")  # an edited entry may hold anything
    if since > today:
        faults.append(f"the newest period began on {since}, which is still to come")
    return faults, unchecked


@dataclass(slots=True)
class _Replay:
    """The state after the entries so far. It is enough to make the next entry again."""

    first: int = 0
    opened: str = ""
    """The time of the opening, if it is among them."""
    last: Entry | None = None
    people: dict[str, Entry] = field(default_factory=dict)
    waiting: dict[int | None, Entry] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def break_in_chain(self, entry: Entry) -> list[str]:
        number = self.first
        previous = ""
        if self.last is not None:
            number = self.last.number + 1
            previous = self.last.hash
        elif self.first:  # nothing before it is in this part
            previous = entry.previous
        if entry.number != number:
            return [f"entry {number} is missing: entry {entry.number} was found instead"]
        if entry.previous != previous:
            return [f"entry {number} does not follow the entry before it"]
        return []

    def depends_on_earlier(self, entry: Entry) -> bool:
        """Whether the entry follows from entries before the first one in this part."""
        if not self.first:
            return False
        if self.last is None:
            return True
        return entry.reservation is not None and entry.reservation < self.first

    def could_make(self, entry: Entry) -> bool:
        """Whether the entry is the one that its kind makes from the one before it."""
        try:
            expected = self._expected(entry)
        except (BudgetExhausted, ValueError, KeyError, TypeError):
            return False
        if self.last is not None:  # a break in the chain was reported already
            expected = replace(expected, number=entry.number, previous=entry.previous)
        return entry.key not in self.keys and entry == replace(expected, hash=entry.hash)

    def follow(self, entry: Entry) -> None:
        if self.last is None and not self.first:
            self.opened = entry.at
        self.last = entry
        if entry.person:
            self.people[entry.person] = entry
        if entry.key is not None:
            self.keys.add(entry.key)
        self.waiting.pop(entry.reservation, None)
        if entry.kind == RESERVE:
            self.waiting[entry.number] = entry

    def _expected(self, entry: Entry) -> Entry:
        """The entry that follows from the last one, if the same is stated for it."""
        author = Author._make(getattr(entry, name) for name in Author._fields)
        last = self.last
        if last is None:
            return opening(entry.dataset, entry.granted, author, entry.extra)
        mine = self.people.get(entry.person)
        if mine is None and self.first and entry.person:
            mine = _before(entry, last)
        balance = Balance(last, mine)
        values = {name: getattr(entry, name) for name in _KINDS[entry.kind].names}
        if entry.reservation is None:
            return following(balance, entry.kind, author, **values)
        reservation = self.waiting[entry.reservation]
        return following(balance, entry.kind, author, reservation, **values)


def _before(entry: Entry, last: Entry) -> Entry:
    """In a part of a book: what the entry of a person before this one must have said."""
    person_spent = entry.person_spent
    if entry.kind == RESERVE:
        person_spent -= entry.charge  # nobody has spent less than nothing
    return replace(last, person_spent=person_spent, allowance=entry.allowance)
