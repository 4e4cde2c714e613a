"""Durable budgets: a total ε for every data set, that no crash and no crowd can overspend.

A release reserves the most it can cost in one transaction *before* any noise is drawn, and settles
to what it did cost afterwards. The transaction that settles also archives what was released. After
a failure in between, the reservation counts as spent. If the charge cannot be written, nothing is
released. If the settlement cannot be written, the paid release is returned with a warning.

The default is a SQLite file (made readable to its owner only); PostgreSQL serves several machines.
`dpgap.budget.entries` describes entries and their hashes; `dpgap.budget.steward`, what a steward
does with a budget.

>>> import tempfile, os
>>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
>>> sales = ledger.create("sales", epsilon=1)
>>> sales.reserve(Cost.pure("3/4"), "top 10 of url").settle(Cost.pure("1/2"))
>>> sales.remaining, ledger.verify("sales")
(Fraction(1, 2), [])
"""

import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from dpgap._package import public
from dpgap.budget import entries, requests
from dpgap.budget.account import (
    AlreadyCharged,
    Answered,
    Request,
    require_cost,
)
from dpgap.budget.cost import Cost, Limit
from dpgap.budget.entries import Author, Balance, Entry, UnreadableEntry
from dpgap.budget.entries import LedgerError as LedgerError
from dpgap.budget.requests import ChargedRequest, Quota
from dpgap.budget.steward import Steward
from dpgap.budget.store import MOST, Document, Outline, Rows, Store
from dpgap.exact.parameters import Rational


@public
class Ledger:
    """Budgets that last, one for each data set, kept in a database.

    Parameters
    ----------
    url
        `sqlite:///budget.db` or `postgresql://user@host/name`. A relative path starts from the
        working folder at the time when the `Ledger` is made.

    >>> import tempfile, dpgap
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db")
    >>> sales = ledger.create("sales", epsilon=1)
    >>> release = dpgap.NoisyMax(epsilon=0.25).release([90, 20], account=sales)
    >>> sales.remaining, ledger.datasets()
    (Fraction(3, 4), ['sales'])
    """

    def __init__(self, url: str) -> None:
        self._store = Store(url)
        self._user = self._store.user or requests.system_user()
        """The person who asks if none is named: the database's user, or else the system's."""

    def create(
        self,
        dataset: str,
        epsilon: Rational,
        *,
        delta: Rational = 0,
        table: str | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        columns: Iterable[tuple[str, str]] | None = None,
        beside: str | None = None,
        reason: str = "",
    ) -> "LedgerAccount":
        """Open a budget for a data set that has none yet.

        `epsilon` and `delta` are the total for all releases. `dataset` is the name of the data set.
        A name is refused if it differs from that of another data set only in capitals, spaces,
        width, invisible letters, or letters of Cyrillic and Greek that look like Latin ones.

        `table` (an address, a file or a name), `unit`, `neighbours` and `columns` (names and
        families of types) state what the budget is for: a release that contradicts them is
        refused before it is charged. Where a table is stated and neighbours are not, they are
        "add-or-remove". A second budget for the same table and unit is refused, unless `beside`
        names the data set that has the first. The ledger keeps the `reason`.
        """
        name = requests.require_name(dataset)
        total = Limit.granted(epsilon, delta)
        facts = requests.stated_facts(table, unit, neighbours, columns)
        with self._store.creating() as rows:
            if last := rows.find(name):
                raise ValueError(f"dataset {name!r} has a budget already: {last[-1].granted}")
            requests.refuse_look_alike(name, rows.datasets())
            extra = requests.stating(facts, requests.facts_of_others(rows, name), beside)
            rows.append(entries.opening(name, total, self._author("", reason), extra))
        return LedgerAccount(self, name)

    def account(self, dataset: str) -> "LedgerAccount":
        """The account of the data set called `dataset`; pass it as `account=` to a release."""
        return LedgerAccount(self, self._last(requests.require_name(dataset)).dataset)

    def steward(self, dataset: str) -> Steward:
        """The steward of `dataset`, who changes its budget and does not spend it."""
        return Steward(self, self._last(requests.require_name(dataset)).dataset)

    def datasets(self) -> list[str]:
        """The names of all data sets."""
        with self._store.reading() as rows:
            return rows.datasets()

    def people(self, dataset: str) -> list[Entry]:
        """The last entry of each person: their `person_spent` and `allowance` as of now."""
        with self._store.reading() as rows:
            return rows.people(requests.require_name(dataset))

    def beside(self, dataset: str) -> list[str]:
        """The other data sets whose budget is for the same table and unit as that of `dataset`."""
        name = requests.require_name(dataset)
        with self._store.reading() as rows:
            facts = requests.facts_of(rows, rows.require(name)[-1])
            return requests.beside(facts, requests.facts_of_others(rows, name))

    def entries(
        self,
        dataset: str,
        *,
        last: int | None = None,
        before: int | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Entry]:
        """The whole book of the data set called `dataset`, or its `last` few entries.

        The oldest entry comes first. With `before`, only entries of a smaller number count. With
        `since`, only those of that day or later; with `until`, only those before that day. Days are
        in UTC, such as "2026-10-01".
        """
        name = requests.require_name(dataset)
        with self._store.reading() as rows:
            first, end = _range(rows, name, since, until)
            return rows.book(name, last, end if before is None else min(before, end), first)

    def outline(
        self, dataset: str, *, since: str | None = None, until: str | None = None
    ) -> Outline | None:
        """A summary of a whole book, with a few hundred of its entries; None if it has none."""
        name = requests.require_name(dataset)
        with self._store.reading() as rows:
            first, end = _range(rows, name, since, until)
            return rows.outline(name, first, end) if end and rows.find(name) else None

    def heads(self, dataset: str | None = None) -> list[Entry]:
        """The last entry of each book, or of one. Note their hashes in another place."""
        with self._store.reading() as rows:
            names = rows.datasets() if dataset is None else [requests.require_name(dataset)]
            return [rows.require(name)[-1] for name in names]

    def verify(self, dataset: str | None = None, *, head: str | Iterable[str] = ()) -> list[str]:
        """A list of all flaws of one book, or of all books; empty if they are intact.

        `dataset` names the one book. `head` is a hash that `LedgerAccount.head` returned earlier
        and that you noted in another place, or several, of any book. A later entry that is lost is
        no flaw.
        """
        with self._store.reading() as rows:
            name = None if dataset is None else requests.require_name(dataset)
            names, orphans = rows.datasets() if name is None else [name], rows.orphans(name)
            today = rows.now()[:10]
            missing = _listed(head)
            for other in {*rows.datasets()} - {*names}:
                elsewhere = [entry.hash for entry in rows.book(other, hash=missing)]
                missing = [noted for noted in missing if noted not in elsewhere]
        found: list[str] = []
        for name in names:
            try:
                book = self.entries(name)
            except UnreadableEntry as error:
                found.append(f"{name}: {error}")
                continue
            lost = requests.edited_documents(requests.documents_of(self._store, name), book)
            found += [f"{name}: {flaw}" for flaw in (*entries.checked(book, today=today)[0], *lost)]
            missing = _missing(missing, book)
        found += [f"{name}: {_ORPHAN.format(number)}" for name, number in orphans]
        return found + [_NO_HEAD.format(head) for head in missing]

    def export(
        self,
        dataset: str | None = None,
        *,
        since: str | None = None,
        until: str | None = None,
        documents: bool = False,
    ) -> str:
        """One book, or all of them, as JSON that `verify_export` reads without the ledger.

        Each entry has its body as it was hashed, and the hash of exactly this text. `since` and
        `until` are days, as in `entries`. With `documents`, the released documents are included.
        """
        names = self.datasets() if dataset is None else [self.account(dataset).dataset]
        books = {name: self.entries(name, since=since, until=until) for name in names}
        said = {"dpgap": "ledger", "format": _FORMAT, "since": since, "until": until}
        said["entries"] = [
            {"body": entry.body(), "hash": entry.hash} for book in books.values() for entry in book
        ]
        if documents:
            said["documents"] = [
                {"dataset": name, **it._asdict()}
                for name, book in books.items()
                for it in requests.documents_of(self._store, name, book[0].number if book else 0)
                if book and it.number <= book[-1].number
            ]
        return json.dumps(said, indent=1) + "\n"

    def __repr__(self) -> str:
        return f"Ledger({self._store.where})"

    def __reduce__(self) -> Any:
        raise TypeError("a ledger cannot be pickled: send the address, and open the ledger there")

    def _last(self, dataset: str) -> Entry:
        with self._store.reading() as rows:
            known = [] if rows.find(dataset) else rows.datasets()
            if meant := requests.look_alike(dataset, known):
                no = f"the ledger {self._store.where} has no data set {dataset!r}"
                raise LedgerError(f"{no}: did you mean {meant!r}?")
            return rows.require(dataset)[-1]

    def _balance(
        self, rows: Rows, dataset: str, person: str, **wanted: Any
    ) -> tuple[Balance, list[Entry]]:
        """The balance of a book for a person, and all entries that were found on the way."""
        found = rows.require(dataset, person=person, **wanted)
        mine = [entry for entry in found if person and entry.person == person]
        return Balance(found[-1], mine[-1] if mine else None), found

    def _now(self, dataset: str, person: str | None) -> Balance:
        """The balance as of now, for a person; None: the user."""
        with self._store.reading() as rows:
            balance, _ = self._balance(rows, dataset, self._user if person is None else person)
            return self._as_of_now(rows, balance)

    def _as_of_now(self, rows: Rows, balance: Balance, actor: str | None = None) -> Balance:
        """The balance, after a new period if one has begun by the clock of the database."""
        renewal = balance.last.renewal
        if renewal is None or not renewal.is_over(at := rows.now()):
            return balance
        author = self._author("", actor=actor)._replace(at=at)
        begun = entries.following(Balance(balance.last), entries.NEW_PERIOD, author)
        return balance._replace(last=begun)

    def _renewed(self, rows: Rows, balance: Balance, actor: str | None) -> Balance:
        """The balance as of now; the entry of a new period is written."""
        now = self._as_of_now(rows, balance, actor)
        if now.last is not balance.last:
            requests.require_two_clocks(rows, self._author("").at, now.last.at)
            requests.require_no_leap(rows, balance.last, now.last.at)
            rows.append(now.last)
        return now

    def _author(self, person: str, reason: str = "", actor: str | None = None) -> Author:
        who = f"{requests.system_user()}@{platform.node()}"
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        return Author(who, at, person, reason, actor or self._user)


def _range(rows: Rows, dataset: str, since: str | None, until: str | None) -> tuple[int, int]:
    """The number of the first entry of a range of days, and of the first after it."""
    first = 0 if since is None else rows.count_before(dataset, requests.require_day("since", since))
    end = (
        MOST if until is None else rows.count_before(dataset, requests.require_day("until", until))
    )
    return first, max(first, end)


_FORMAT = 1
"""The format of exports. What is written is read for ever; a later format is refused."""
_ORPHAN = "entry {} is missing, though its document is there"
_COVERED = "Data sets in the file: {}. Days: {}. No file shows whether others were taken out"
_NO_SUMS = (
    "of entry {} only the hash was checked, not the sums: entries 0 to {} are not in the file"
)
_HEAD = "The head that you stated is in the file: it is that of entry {}"
_COMPARE = "Compare its hash with the ledger or with a head that you noted: {}"
_NO_HEAD = (
    "no entry has the hash {}: the ledger was rewritten, truncated or restored from an older copy, "
    "or this is an export of other days"
)


def _listed(head: str | Iterable[str]) -> list[str]:
    return [head] if isinstance(head, str) else list(head)


def _missing(heads: list[str], book: list[Entry]) -> list[str]:
    """The heads that a book neither has nor states as lost."""
    known = {entry.hash for entry in book} | {entry.extra.get("lost") for entry in book}
    return [head for head in heads if head not in known]


class _LaterFormat(Exception):  # noqa: N818 - it says what the file has
    pass


def verify_export(text: str, *, head: str | Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Two lists: all flaws of an export, and what cannot be checked by the export alone."""
    try:
        said = json.loads(text)
        if said["dpgap"] != "ledger" or type(said["format"]) is not int or said["format"] < 1:
            raise ValueError
        if said["format"] > _FORMAT:
            raise _LaterFormat
        rows = [(it["body"], it["hash"]) for it in said["entries"]]
        kept = [(it.pop("dataset"), Document(**it)) for it in said.get("documents", [])]
        stated = {"from": said.get("since"), "before": said.get("until")}
        days = {word: requests.require_day(word, day) for word, day in stated.items() if day}
        if any(type(text) is not str for row in rows for text in row):
            raise ValueError
        if any(type(name) is not str or type(it.number) is not int for name, it in kept):
            raise ValueError
    except _LaterFormat:
        raise ValueError(
            f"the file has format {said['format']}, which a later dpgap wrote: update dpgap"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("the file was damaged or edited after export, or is no export") from None
    found: list[str] = []
    books: dict[str, list[Entry]] = {name: [] for name, _ in kept}
    for place, row in enumerate(rows, 1):
        try:
            entry = entries.read_entry(*row)
        except UnreadableEntry as error:
            found.append(f"entry number {place} in the file {error}")
        else:
            books.setdefault(entry.dataset, []).append(entry)
    heads = _listed(head)
    covered = " and ".join(map(" ".join, days.items())) or "all"
    notes = [_COVERED.format(", ".join(books) or "none", covered)]
    for name, book in books.items():
        first = book[0].number if book and "from" in days else 0
        wrong, unchecked = entries.checked(book, first, str(datetime.now(UTC).date()))
        outside = [it for it in book[:1] if it.at < days.get("from", "")]
        outside += [it for it in book if it.at >= days.get("before", "9999")]
        wrong += [f"entry {it.number} is not of the stated days" for it in outside]
        own = [document for dataset, document in kept if dataset == name]
        numbers = {entry.number for entry in book}
        wrong += [_ORPHAN.format(it.number) for it in own if it.number not in numbers]
        if "documents" in said:
            wrong += requests.edited_documents(own, book)
        elif any("document" in entry.extra for entry in book):
            notes.append(f"{name}: the file has no documents, so they were not checked")
        found += [f"{name}: {flaw}" for flaw in wrong]
        if first:
            listed = " and entry ".join(map(str, unchecked))
            notes.append(f"{name}: {_NO_SUMS.format(listed, first - 1)}")
        if book:
            told = [_HEAD.format(it.number) for it in book if it.hash in heads]
            told = told or [_COMPARE.format(book[-1].hash)]
            notes.append(f"{name}: the last entry in the file is {book[-1].number}. {told[-1]}")
    every = [entry for book in books.values() for entry in book]
    found += [_NO_HEAD.format(missing) for missing in _missing(heads, every)]
    return found, notes


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """One data set's budget. It is what `account=` takes."""

    ledger: Ledger
    dataset: str
    person: str | None = None
    """Who asks; None: the user."""
    reason: str = ""
    key: str | None = None
    joins: bool = False
    quota: Quota | None = None

    def of(
        self,
        person: str | None = None,
        *,
        reason: str = "",
        key: str | None = None,
        joins: bool = False,
        quota: Quota | None = None,
    ) -> "LedgerAccount":
        """The same account, used by a person, for a reason, for the request with this key.

        A person is a name: the caller must know who it is. A request that is sent twice with one
        `key` is charged once. With `joins`, a question that another request asked within the last
        minute is not charged: `AlreadyCharged` names that entry. A `quota` limits what the person
        asks in a day: `QuotaExhausted`.
        """
        for name, words in (("person", person), ("key", key)):
            if words is not None:
                requests.require_words(name, words)
        said: dict[str, Any] = {"person": person, "reason": reason, "key": key}
        said |= {"joins": joins, "quota": quota}
        return replace(self, **{name: value for name, value in said.items() if value})

    def reserve(self, cost: Cost, purpose: str) -> "LedgerReservation":
        """Set a cost aside durably, or raise `BudgetExhausted` and change nothing."""
        return self.reserve_for(Request(cost, purpose))

    def reserve_for(self, request: Request) -> "LedgerReservation":
        """Set aside what the request can cost, durably, or raise an error and change nothing."""
        charge = require_cost(request.cost).up()
        ledger, name, person = self.ledger, self.dataset, self.person or self.ledger._user
        with ledger._store.writing(name) as rows:
            self.require_book(rows)
            same = request.identity if self.joins else None
            balance, found = ledger._balance(rows, name, person, key=self.key, identity=same)
            requests.refuse_used_key(rows, found, self.key, request)
            joined = requests.under_way(rows, found, same)
            if joined is None:
                stated = requests.facts_of(rows, balance.last)
                requests.refuse_contradiction(name, stated, request.facts)
                if self.quota is not None:
                    requests.refuse_beyond(rows, balance.last, person, self.quota)
                author = ledger._author(person, self.reason, person)
                requests.require_clock(rows, balance.last, author.at)
                balance = ledger._renewed(rows, balance, person)
                asked = {"charge": charge, "purpose": request.purpose, "key": self.key}
                asked["extra"] = requests.asked_by(request)
                entry = rows.append(entries.following(balance, entries.RESERVE, author, **asked))
                return LedgerReservation(ledger, entry)
            self._keep_key(rows, balance, joined, request)
            answered = replace(requests.answered_by(rows, joined), again=True)
        words = f"entry {joined.number} asks the same question and is {answered.state}"
        raise AlreadyCharged(f"{words}: it is not charged again", answered)

    def free_answer(self, request: Request, fresh: bool) -> str | None:
        """The newest document of a question that was paid for, unless fresh noise is wanted.

        If the budget renews, only documents of the current period count. The key comes first: if it
        was used, `AlreadyCharged` has its own answer. Otherwise it is kept for this document.
        """
        ledger, name, person = self.ledger, self.dataset, self.person or self.ledger._user
        if self.key is not None:
            with ledger._store.reading() as rows:
                found = rows.find(name, key=self.key)
                requests.refuse_used_key(rows, found, self.key, request)
        paid = None if fresh or request.identity is None else self._paid(request.identity)
        if paid is None:
            return None
        reservation, document = paid
        if self.key is not None:
            with ledger._store.writing(name) as rows:
                balance, found = ledger._balance(rows, name, person, key=self.key)
                requests.refuse_used_key(rows, found, self.key, request)
                self._keep_key(rows, balance, reservation, request)
        return document

    def _keep_key(self, rows: Rows, balance: Balance, reservation: Entry, request: Request) -> None:
        """Keep the key, if there is one, for the answer that a reservation pays for."""
        if self.key is None:
            return
        self.require_book(rows)
        person = self.person or self.ledger._user
        if self.quota is not None:
            requests.refuse_beyond(rows, balance.last, person, self.quota, is_free=True)
        author = self.ledger._author(person, self.reason, person)
        requests.require_clock(rows, balance.last, author.at)
        kept = {"purpose": reservation.purpose, "key": self.key}
        extra = {**(request.extra or {}), "paid_by": reservation.number}
        rows.append(entries.following(balance, entries.AGAIN, author, **kept, extra=extra))

    def require_book(self, rows: Rows) -> None:
        """Refuse a book that lacks what was seen before; this account has seen nothing."""

    def paid(self, identity: str) -> str | None:
        """The newest document of a question, if it was paid for.

        If the budget renews, only documents of the current period count.
        """
        paid = self._paid(identity)
        return None if paid is None else paid[1]

    def _paid(self, identity: str) -> tuple[Entry, str] | None:
        """The newest document of a question, with the reservation that paid for it."""
        last = self.ledger._now(self.dataset, "").last
        with self.ledger._store.reading() as rows:
            first = rows.period_start(last)
            return requests.archived(rows, self.dataset, first, identity=identity)

    def answered(self, key: str) -> Answered | None:
        """The state of the request with this key; None if it was never charged."""
        with self.ledger._store.reading() as rows:
            entry = rows.keyed(self.dataset, key)
            return None if entry is None else requests.answered_by(rows, entry)

    def keyed(self, key: str) -> Entry | None:
        """The entry of the request with this key: it was charged, or its answer was free."""
        with self.ledger._store.reading() as rows:
            return rows.keyed(self.dataset, key)

    def requests(self, last: int, before: int | None = None) -> list[ChargedRequest]:
        """The last few requests that were charged, oldest first.

        With `before`, only requests with a smaller number count.
        """
        with self.ledger._store.reading() as rows:
            end = MOST if before is None else before
            charged = rows.book(self.dataset, last, end, kind=[entries.RESERVE])
            ending = rows.book(self.dataset, reservation=[entry.number for entry in charged])
            ended = {entry.reservation: entry for entry in ending}
        return [ChargedRequest(entry, ended.get(entry.number)) for entry in charged]

    def archive(self) -> list[Entry]:
        """The entries that have a document, oldest first; `document` shows one."""
        return [entry for entry in self.ledger.entries(self.dataset) if "document" in entry.extra]

    def document(self, number: int) -> str:
        """What was released, by the number of the entry that reserved or settled it."""
        with self.ledger._store.reading() as rows:
            ending = rows.entry(self.dataset, reservation=number)
            settled = ending or rows.entry(self.dataset, number=number)
            place = -1 if settled is None else settled.number
            kept = requests.document_of(rows, self.dataset, number=place)
        if kept is None:
            raise ValueError(f"entry {number} of data set {self.dataset!r} has no document")
        return kept

    @property
    def facts(self) -> dict[str, Any] | None:
        """What the budget is for: "table", "unit", "neighbours" and "columns", if stated."""
        with self.ledger._store.reading() as rows:
            return requests.facts_of(rows, self.balance)

    @property
    def balance(self) -> Entry:
        """The last entry: `total`, `spent`, `reserved`, `remaining` after it, and its `hash`.

        `closed` says whether a steward has closed the budget.
        """
        return self.ledger._last(self.dataset)

    @property
    def total(self) -> Fraction:
        """What all releases together may cost, since the budget was opened."""
        return self.ledger._now(self.dataset, self.person).last.total

    @property
    def spent(self) -> Fraction:
        """The ε that settled releases did cost."""
        return self.balance.spent

    @property
    def reserved(self) -> Fraction:
        """The ε of releases under way or interrupted; it counts as spent."""
        return self.balance.reserved

    @property
    def left(self) -> Limit:
        """What this person can still reserve, within their allowance."""
        return self.ledger._now(self.dataset, self.person).left

    @property
    def remaining(self) -> Fraction:
        """The ε that this person can still reserve; `balance.remaining` is that of everybody."""
        return self.left.amount

    @property
    def head(self) -> str:
        """The hash of the last entry. Note it in another place, to detect a rewritten ledger."""
        return self.balance.hash


@dataclass(frozen=True, slots=True)
class LedgerReservation:
    """An amount set aside in a ledger for one release."""

    ledger: Ledger
    entry: Entry

    @property
    def reference(self) -> dict[str, Any]:
        """Where the charge stands, for the release to state."""
        return {**requests.reference_of(self.entry), "time": self.entry.at[:19] + "Z"}

    def settle(self, cost: Cost, document: str | None = None) -> None:
        """Record what the release did cost, and archive it, in one transaction; only once.

        What it did not cost is given back.
        """
        ledger, reservation = self.ledger, self.entry
        name, person = reservation.dataset, reservation.person
        with ledger._store.writing(name) as rows:
            balance, found = ledger._balance(rows, name, person, number=reservation.number)
            if reservation.hash not in (each.hash for each in found):
                raise LedgerError(f"{ledger._store.where} was rewritten: it has lost a reservation")
            if not reservation.charge.fits(balance.last.held):  # it was settled or written off
                raise LedgerError(ledger._store.has_already)
            extra: dict[str, Any] = {}
            if document is not None:
                extra = {"document": entries.hash_of(document), "length": len(document)}
            # How long drawing took is private: the book has the time of the charge alone.
            author = ledger._author(person, actor=reservation.actor)._replace(at=reservation.at)
            stated = {"charge": cost.up(), "extra": extra}
            entry = entries.following(balance, entries.SETTLE, author, reservation, **stated)
            rows.append(entry, document, reservation.extra.get("identity"))
