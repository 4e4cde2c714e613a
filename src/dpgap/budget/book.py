"""The book of a budget: entries that only ever follow each other.

A data set's book opens with its total (ε, δ). A release first *reserves* the most it can cost and
then *settles* to what it did cost. A steward raises, lowers or closes the total, gives people
allowances, writes off reservations that nobody will settle, and states the table that the budget
is for. Each of these is one function, which makes the next entry from the last one or refuses.

Every entry carries the balance after it and the hash of the entry before it. `flaws` makes every
entry again from the one before, so one that is edited, removed or put in shows.

The hash has no key. Who can write to the ledger can also rewrite the whole chain from some entry
on, or put back an older copy. That shows only to someone who noted the last hash, the *head*, in
another place: a chain that no longer contains a head noted earlier is not the one it was.

>>> from fractions import Fraction
>>> ann = Hand("ann@lab", "2026-01-02", "ann")
>>> half, most = Amount(Fraction(1, 2)), Amount(Fraction(3, 4))
>>> book = [opening("sales", Amount(Fraction(1)), ann)]
>>> book.append(reserving(Standing(book[-1], None), most, "top 10 of url", ann))
>>> book.append(settling(Standing(book[-1], book[-1]), book[1], half, ann))
>>> book[-1].remaining, flaws(book)
(Fraction(1, 2), [])
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dpgap.budget.account import BudgetExhausted
from dpgap.budget.amounts import NOTHING, Amount, NumberTooLong
from dpgap.budget.entries import (
    ALLOW,
    BIND,
    CLOSE,
    CREATE,
    FIRST,
    LOWER,
    MIGRATE,
    RAISE,
    RESERVE,
    SECOND,
    SETTLE,
    WRITE_OFF,
    Entry,
)
from dpgap.exact.parameters import readable


class Hand(NamedTuple):
    """Who writes an entry, when, for whom and why."""

    who: str
    at: str
    person: str = ""
    reason: str = ""


class Standing(NamedTuple):
    """Where a book stands: its last entry, and the last one that concerns a person."""

    last: Entry
    mine: Entry | None


def opening(
    dataset: str,
    total: Amount,
    hand: Hand,
    facts: Mapping[str, Any] | None = None,
    version: int = SECOND,
) -> Entry:
    """The first entry of a book; `facts` state the table that it is for."""
    return Entry(
        dataset, 0, CREATE, None, total, total, NOTHING, NOTHING, "", hand.who, hand.at, "",
        version=version,
        person=hand.person,
        reason=hand.reason,
        bound=None if facts is None else 0,
        more={} if facts is None else {"facts": facts},
    ).sealed()  # fmt: skip


def reserving(
    standing: Standing,
    charge: Amount,
    purpose: str,
    hand: Hand,
    key: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Entry:
    """The entry that sets an amount aside, or `BudgetExhausted`."""
    last, before = standing.last, _before(standing)
    if not NOTHING.fits(charge):
        raise ValueError(f"what is reserved must not be less than 0, not {charge}")
    if last.closed:
        raise BudgetExhausted(f"the budget of data set {last.dataset!r} is closed")
    if not charge.fits(last.left):
        raise BudgetExhausted(
            f"data set {last.dataset!r} cannot cover this release: "
            + _figures("ε", last, charge, "epsilon")
            + (f"; {_figures('δ', last, charge, 'delta')}" if charge.delta else "")
        )
    own = before.own + charge if hand.person else NOTHING
    if before.allowance is not None and not _is_allowed(own, charge, before.allowance):
        raise BudgetExhausted(
            f"{hand.person!r} may spend {before.allowance} of data set {last.dataset!r} and has "
            f"spent or reserved {before.own}, so {charge} is too much: a steward can allow more"
        )
    return _next(
        standing,
        RESERVE,
        hand,
        charge=charge,
        held=last.held + charge,
        purpose=purpose,
        key=key,
        own=own,
        more=more or {},
    )


def _is_allowed(own: Amount, charge: Amount, allowance: Amount) -> bool:
    """Whether an allowance covers a charge; one without a δ needs no allowance of δ."""
    return own.epsilon <= allowance.epsilon and (not charge.delta or own.delta <= allowance.delta)


def _figures(name: str, last: Entry, charge: Amount, part: str) -> str:
    total, spent, reserved, remaining, requested = (
        readable(getattr(amount, part))
        for amount in (last.granted, last.used, last.held, last.left, charge)
    )
    return (
        f"total {name} = {total}, spent {spent}, reserved {reserved}, remaining {remaining}, "
        f"requested {requested}"
    )


def settling(
    standing: Standing,
    reservation: Entry,
    spent: Amount,
    hand: Hand,
    more: Mapping[str, Any] | None = None,
) -> Entry:
    """The entry that replaces what was reserved by what was spent."""
    charge = reservation.charge
    if not NOTHING.fits(spent) or not spent.fits(charge):
        raise ValueError(
            f"epsilon must lie between 0 and the {readable(charge.epsilon)} reserved, "
            f"not {readable(spent.epsilon)}"
        )
    own = _before(standing).own - charge + spent if reservation.person else NOTHING
    return _replacing(standing, SETTLE, reservation, spent, hand, own=own, more=more or {})


def writing_off(standing: Standing, reservation: Entry, hand: Hand) -> Entry:
    """The entry that counts a reservation as spent, all of it, for good."""
    return _replacing(standing, WRITE_OFF, reservation, reservation.charge, hand)


def _replacing(
    standing: Standing, kind: str, reservation: Entry, spent: Amount, hand: Hand, **changes: Any
) -> Entry:
    return _next(
        standing,
        kind,
        hand._replace(person=reservation.person),
        about=reservation.number,
        charge=spent,
        used=standing.last.used + spent,
        held=standing.last.held - reservation.charge,
        **changes,
    )


def raising(standing: Standing, total: Amount, hand: Hand) -> Entry:
    """The entry that grants more in all."""
    last = standing.last
    if last.closed or not last.granted.fits(total) or total == last.granted:
        raise ValueError(
            f"data set {last.dataset!r} has a total of {last.granted}"
            f"{' and is closed' if last.closed else ''}: a raised one must be larger, not {total}"
        )
    return _next(standing, RAISE, hand, charge=total, granted=total)


def lowering(standing: Standing, total: Amount, hand: Hand) -> Entry:
    """The entry that grants less in all, though never less than is spent and reserved."""
    last = standing.last
    if not total.fits(last.granted) or total == last.granted:
        raise ValueError(
            f"data set {last.dataset!r} has a total of {last.granted}: a lowered one must be "
            f"smaller, not {total}"
        )
    gone = last.used + last.held
    if not gone.fits(total):
        raise ValueError(
            f"data set {last.dataset!r} has spent and reserved {gone}: its total cannot be "
            f"lowered to {total}"
        )
    return _next(standing, LOWER, hand, charge=total, granted=total)


def closing(standing: Standing, hand: Hand) -> Entry:
    """The entry after which nothing more is reserved. What is under way can still be settled."""
    if standing.last.closed:
        raise ValueError(f"the budget of data set {standing.last.dataset!r} is closed already")
    return _next(standing, CLOSE, hand, closed=True)


def allowing(standing: Standing, allowance: Amount, hand: Hand) -> Entry:
    """The entry that says how much of the total a person may spend, what is spent included."""
    return _next(standing, ALLOW, hand, charge=allowance, allowance=allowance)


def binding(standing: Standing, facts: Mapping[str, Any], hand: Hand) -> Entry:
    """The entry that states, from now on, the table that the budget is for."""
    number = standing.last.number + 1
    return _next(standing, BIND, hand, bound=number, more={"facts": facts})


def migrating(last: Entry, hand: Hand) -> Entry:
    """The entry that follows the last one of the first version, and is of the second."""
    more = {"from": FIRST}
    return _next(Standing(last, None), MIGRATE, hand, version=SECOND, more=more)


def _before(standing: Standing) -> Entry:
    """What a person has been allowed and has spent so far."""
    if standing.mine is not None:
        return standing.mine
    return replace(standing.last, own=NOTHING, allowance=None)


def _next(standing: Standing, kind: str, hand: Hand, **changes: Any) -> Entry:
    last, before = standing.last, _before(standing)
    same = {
        "number": last.number + 1,
        "kind": kind,
        "about": None,
        "charge": NOTHING,
        "purpose": "",
        "previous": last.hash,
        "key": None,
        "own": before.own,
        "allowance": before.allowance,
        "more": {},
    }
    return replace(last, **{**same, **hand._asdict(), **changes}).sealed()


def has_head(book: Iterable[Entry], head: str) -> bool:
    """Whether the book still contains the entry of a hash that was noted earlier."""
    return any(entry.hash == head for entry in book)


def flaws(book: Iterable[Entry]) -> list[str]:
    """Everything that is wrong with one data set's book; nothing if it is intact."""
    found: list[str] = []
    replay = _Replay()
    for entry in book:
        if entry.hash != entry.seal():
            found.append(f"entry {entry.number} was edited: it does not match its hash")
        found += replay.break_in_chain(entry)
        if not replay.could_make(entry):
            found.append(f"entry {entry.number} does not add up")
        replay.follow(entry)
    return found if replay.last is not None else ["there are no entries"]


@dataclass(slots=True)
class _Replay:
    """What entries so far say: enough to make the next one again."""

    last: Entry | None = None
    people: dict[str, Entry] = field(default_factory=dict)
    waiting: dict[int, Entry] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def break_in_chain(self, entry: Entry) -> list[str]:
        last = self.last
        number, previous = (0, "") if last is None else (last.number + 1, last.hash)
        if entry.number != number:
            return [f"entry {number} is missing: entry {entry.number} was found instead"]
        if entry.previous != previous:
            return [f"entry {number} does not follow the entry before it"]
        return []

    def could_make(self, entry: Entry) -> bool:
        """Whether the entry is the one that its kind makes from the one before it."""
        if entry.key in self.keys:
            return False
        try:
            expected = self._made_again(entry)
        except (BudgetExhausted, NumberTooLong, ValueError, KeyError):
            return False
        if self.last is None:
            return entry == replace(expected, hash=entry.hash)
        # A break in the chain was told already.
        return entry == replace(
            expected, hash=entry.hash, number=entry.number, previous=entry.previous
        )

    def follow(self, entry: Entry) -> None:
        self.last = entry
        if entry.person:
            self.people[entry.person] = entry
        if entry.key is not None:
            self.keys.add(entry.key)
        if entry.kind == RESERVE:
            self.waiting[entry.number] = entry
        elif entry.about is not None:
            self.waiting.pop(entry.about, None)

    def _made_again(self, entry: Entry) -> Entry:
        hand = Hand(entry.who, entry.at, entry.person, entry.reason)
        if self.last is None:
            facts = entry.more.get("facts")
            return opening(entry.dataset, entry.granted, hand, facts, entry.version)
        standing = Standing(self.last, self.people.get(entry.person))
        if entry.kind == RESERVE:
            purpose, more = entry.purpose, entry.more
            return reserving(standing, entry.charge, purpose, hand, entry.key, more)
        if entry.kind in (SETTLE, WRITE_OFF) and entry.about is not None:
            reservation = self.waiting[entry.about]
            if entry.kind == SETTLE:
                return settling(standing, reservation, entry.charge, hand, entry.more)
            return writing_off(standing, reservation, hand)
        if entry.kind == MIGRATE and self.last.version == FIRST:
            return migrating(self.last, hand)
        if self.last.version == FIRST:
            raise KeyError(entry.kind)
        return self._act_again(standing, entry, hand)

    def _act_again(self, standing: Standing, entry: Entry, hand: Hand) -> Entry:
        """What a steward did."""
        if entry.kind == CLOSE:
            return closing(standing, hand)
        if entry.kind == BIND:
            return binding(standing, entry.more["facts"], hand)
        amounts = {RAISE: raising, LOWER: lowering, ALLOW: allowing}
        return amounts[entry.kind](standing, entry.charge, hand)
