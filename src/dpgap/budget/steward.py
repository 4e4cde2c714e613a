"""What a steward does with a budget: every act is one more entry in the same chain.

>>> import tempfile
>>> from dpgap.budget.ledger import Ledger
>>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
>>> sales = ledger.create("sales", epsilon=1)
>>> steward = ledger.steward("sales")
>>> steward.raise_to(2, reason="a second survey").total
Fraction(2, 1)
>>> steward.allow("ann", "1/2", reason="the yearly report").allowance.epsilon
Fraction(1, 2)
>>> sales.of("ann").reserve(Cost.pure(1), "top 10 of url by user_id")  # doctest: +ELLIPSIS
Traceback (most recent call last):
dpgap.BudgetExhausted: 'ann' may spend ε = 0.5 of data set 'sales' and has spent or reserved ...
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpgap.budget import entries, requests
from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.budget.entries import Author, Balance, Entry, Renewal, following
from dpgap.budget.requests import require_two_clocks
from dpgap.budget.store import Period, Rows
from dpgap.exact.parameters import Rational, rational

if TYPE_CHECKING:
    from dpgap.budget.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Steward:
    """Changes a budget: its total, who may spend it, and which table it is for."""

    ledger: "Ledger"
    dataset: str
    person: str | None = None
    """Who acts; None: the user."""

    def of(self, person: str) -> "Steward":
        """The same steward, acting in the name of a person."""
        return replace(self, person=person)

    def raise_to(self, epsilon: Rational, *, delta: Rational | None = None, reason: str) -> Entry:
        """Raise the total ε, and the total δ if it is given."""
        return self._set_total(entries.RAISE, epsilon, delta, reason)

    def lower_to(self, epsilon: Rational, *, delta: Rational | None = None, reason: str) -> Entry:
        """Lower the total, but never below what is spent and reserved."""
        return self._set_total(entries.LOWER, epsilon, delta, reason)

    def renew(
        self, *, every: str, epsilon: Rational = 0, carry: bool = False, reason: str = ""
    ) -> Entry:
        """Renew the budget: grant `epsilon` `every` "day", "week" or "month"; "never" stops it.

        The first charge of a period adds it, once, by the database's clock, in UTC; weeks begin on
        Monday. Unspent ε lapses, unless `carry` is True. Renewal begins with the next period: until
        then the budget stays as it is. δ and allowances are not renewed.
        """
        grant = Limit("epsilon", rational("epsilon", epsilon)).down()
        renewal = Renewal(every, grant, carry, since="", lapsed=None)
        with self._acting(reason or None, renewed=True) as (rows, balance, author):
            author = author._replace(at=rows.now())
            return rows.append(following(balance, entries.RENEW, author, period=renewal))

    def begin_period(self, *, reason: str) -> Entry:
        """Begin the period of today, after a wrong clock or a pause that a charge refuses.

        If a wrong clock began a later period, that of today takes its place. What is left then is
        the ε of one period, or more if unspent ε is kept.
        """
        with self._acting(reason) as (rows, balance, author):
            at = rows.now()
            require_two_clocks(rows, author.at, at)
            author = author._replace(at=at)
            return rows.append(following(balance, entries.NEW_PERIOD, author))

    def close(self, *, reason: str) -> Entry:
        """Close the budget for ever: nothing more can be reserved. Open reservations can settle."""
        with self._acting(reason) as (rows, balance, author):
            return rows.append(following(balance, entries.CLOSE, author))

    def allow(
        self, person: str, epsilon: Rational, *, delta: Rational | None = None, reason: str = ""
    ) -> Entry:
        """Set an allowance: how much of the total a person may spend, including what is spent.

        Without a `delta`, an earlier δ of the allowance stays. A first allowance then gets the same
        share of the budget's δ as `epsilon` is of its ε, so nobody uses up all of δ with a little
        ε. A person without an allowance may spend what the budget has left. A new person whose name
        looks like that of another is refused.
        """
        requests.require_words("person", person)
        exact_epsilon = rational("epsilon", epsilon)
        exact_delta = None if delta is None else rational("delta", delta)
        if exact_epsilon < 0 or (exact_delta is not None and exact_delta < 0):
            raise ValueError("epsilon and delta of an allowance must not be less than 0")

        with self._acting(reason or None, person) as (rows, balance, author):
            if balance.mine is None:
                _refuse_look_alike(rows, self.dataset, person)
            if exact_delta is None:
                exact_delta = _usual_delta(balance, exact_epsilon)
            allowance = Limit("epsilon", exact_epsilon, exact_delta).down()
            return rows.append(following(balance, entries.ALLOW, author, allowance=allowance))

    def bind(
        self,
        *,
        table: str | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        columns: Iterable[tuple[str, str]] | None = None,
        beside: str | None = None,
        reason: str,
    ) -> Entry:
        """State the table that the budget is for, instead of what was stated before.

        If another budget is for the same table and unit, `beside` must name its data set.
        """
        facts = requests.stated_facts(table, unit, neighbours, columns)
        with self._acting(reason, alone=True) as (rows, balance, author):
            extra = requests.stating(facts, requests.facts_of_others(rows, self.dataset), beside)
            return rows.append(following(balance, entries.BIND, author, extra=extra))

    def write_off(self, number: int, *, reason: str) -> Entry:
        """Count the whole amount of a reservation that nobody will settle as spent."""
        with self.ledger._store.reading() as rows:
            reservation = rows.entry(self.dataset, number=number)
        if reservation is None or reservation.kind != entries.RESERVE:
            raise ValueError(f"entry {number} of data set {self.dataset!r} is no reservation")
        with self._acting(reason, reservation.person) as (rows, balance, author):
            ending = rows.entry(self.dataset, reservation=number)
            if ending is not None:
                raise ValueError(
                    f"reservation {number} of data set {self.dataset!r} was {_end(ending)} "
                    f"already, as entry {ending.number}: nothing was changed, and it needs no "
                    "write-off"
                )
            return rows.append(following(balance, entries.WRITE_OFF, author, reservation))

    def period(self) -> Period | None:
        """What the current period of a renewed budget cost so far, and can cost."""
        with self.ledger._store.reading() as rows:
            balance, _ = self.ledger._balance(rows, self.dataset, "")
            return rows.period(self.ledger._as_of_now(rows, balance).last)

    def accept(self, head: str, epsilon: Rational, *, delta: Rational = 0, reason: str) -> Entry:
        """Accept a book that was put back, and lacks the entries up to a `head`.

        `epsilon` and `delta` are the most that the lost entries spent. They count as spent, even
        beyond the total. From then on, `verify` takes the head for a known loss.
        """
        charge = Cost.stated(epsilon, delta).up()
        with self._acting(reason, renewed=True) as (rows, balance, author):
            for name in rows.datasets():
                if rows.book(name, hash=[head]):
                    raise ValueError(f"head {head} is in the book of {name!r}: nothing is lost")
            extra = {"lost": head}
            return rows.append(
                following(balance, entries.ACCEPT, author, charge=charge, extra=extra)
            )

    def balance_of(self, person: str) -> Balance:
        """The balance of the budget now, and the last entry of a person, with `person_spent`.

        If a new period has begun, its entry is the last one, though the first charge writes it.
        """
        return self.ledger._balance_now(self.dataset, person)

    def stale(self, before: str | None = None) -> list[Entry]:
        """Reservations that were never settled.

        With `before`, a day such as "2026-11-01" in UTC, those that were made before it.
        """
        day = None if before is None else requests.require_day("before", before)
        with self.ledger._store.reading() as rows:
            waiting = rows.waiting(self.dataset)
        return [entry for entry in waiting if day is None or entry.at < day]

    def written_off(self, last: int) -> list[Entry]:
        """The last few entries that wrote a reservation off, oldest first."""
        with self.ledger._store.reading() as rows:
            return rows.book(self.dataset, last, kind=[entries.WRITE_OFF])

    def _set_total(
        self, kind: str, epsilon: Rational, delta: Rational | None, reason: str
    ) -> Entry:
        with self._acting(reason, renewed=True) as (rows, balance, author):
            if delta is None:
                delta = balance.last.granted.delta
            total = Limit.granted(epsilon, delta)
            return rows.append(following(balance, kind, author, granted=total))

    @contextmanager
    def _acting(
        self, reason: str | None, person: str = "", *, alone: bool = False, renewed: bool = False
    ) -> Iterator[tuple[Rows, Balance, Author]]:
        """A transaction that writes the entry of an action. The reason may be None, but not empty.

        With `renewed`, a new period begins first: an action that changes the total needs the total
        of this period. Otherwise the first charge of the period would undo the action.
        """
        if reason is not None and not reason.strip():
            raise ValueError("reason must say why: it is kept in the ledger")
        ledger = self.ledger
        locked = None if alone else self.dataset
        with ledger._store.writing(locked) as rows:
            balance, _ = ledger._balance(rows, self.dataset, person)
            if renewed:
                balance = ledger._renewed(rows, balance, self.person)
            yield rows, balance, ledger._author(person, reason or "", self.person)


def _refuse_look_alike(rows: Rows, dataset: str, person: str) -> None:
    """Refuse a new person who could be taken for one who has spent, or may spend, something."""
    others = []
    for entry in rows.people(dataset):
        may_spend = entry.allowance is not None and not entry.allowance.is_empty
        if may_spend or entry.person_spent != NOTHING:
            others.append(entry.person)
    other = requests.look_alike(person, others)
    if other is not None:
        raise ValueError(
            f"person {person!r} looks like {other!r}, who has an allowance or has spent in data "
            f"set {dataset!r}: name that person; or, if that name is wrong, allow it 0 first"
        )


def _end(ending: Entry) -> str:
    """How an entry ended a reservation."""
    if ending.kind == entries.SETTLE:
        return "settled"
    return f"written off by {ending.actor!r}"


def _usual_delta(balance: Balance, epsilon: Fraction) -> Fraction:
    """The δ of an allowance that states none: the earlier δ, or the same share as of ε."""
    mine = balance.mine
    if mine is not None and mine.allowance is not None:
        return mine.allowance.delta
    return balance.last.granted.share_of_delta(epsilon)
