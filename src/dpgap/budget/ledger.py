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
from typing import Any, NamedTuple

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
            existing = rows.find(name)
            if existing:
                raise ValueError(f"dataset {name!r} has a budget already: {existing[-1].granted}")
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
            if before is not None:
                end = min(before, end)
            return rows.book(name, last, end, first)

    def outline(
        self, dataset: str, *, since: str | None = None, until: str | None = None
    ) -> Outline | None:
        """A summary of a whole book, with a few hundred of its entries; None if it has none."""
        name = requests.require_name(dataset)
        with self._store.reading() as rows:
            first, end = _range(rows, name, since, until)
            if not end or not rows.find(name):
                return None
            return rows.outline(name, first, end)

    def heads(self, dataset: str | None = None) -> list[Entry]:
        """The last entry of each book, or of one. Note their hashes in another place."""
        with self._store.reading() as rows:
            return [rows.require(name)[-1] for name in _names(rows, dataset)]

    def verify(self, dataset: str | None = None, *, head: str | Iterable[str] = ()) -> list[str]:
        """A list of all flaws of one book, or of all books; empty if they are intact.

        `dataset` names the one book. `head` is a hash that `LedgerAccount.head` returned earlier
        and that you noted in another place, or several, of any book. A later entry that is lost is
        no flaw.
        """
        with self._store.reading() as rows:
            names = _names(rows, dataset)
            orphans = rows.orphans(None if dataset is None else names[0])
            today = rows.now()[:10]
            missing = _hashes(head)
            for other in set(rows.datasets()) - set(names):
                elsewhere = [entry.hash for entry in rows.book(other, hash=missing)]
                missing = [noted for noted in missing if noted not in elsewhere]
        flaws: list[str] = []
        for name in names:
            try:
                book = self.entries(name)
            except UnreadableEntry as error:
                flaws.append(f"{name}: {error}")
                continue
            documents = requests.documents_of(self._store, name)
            flaws_of_documents = requests.edited_documents(documents, book)
            flaws_of_book, _ = entries.checked(book, today=today)
            flaws += [f"{name}: {flaw}" for flaw in flaws_of_book + flaws_of_documents]
            missing = _missing(missing, book)
        flaws += [f"{name}: {_ORPHAN.format(number)}" for name, number in orphans]
        return flaws + [_NO_HEAD.format(head) for head in missing]

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
        if dataset is None:
            names = self.datasets()
        else:
            names = [self.account(dataset).dataset]
        books = [self.entries(name, since=since, until=until) for name in names]
        content: dict[str, Any] = {"dpgap": "ledger", "format": _FORMAT}
        content["since"] = since
        content["until"] = until
        content["entries"] = []
        for book in books:
            content["entries"] += [{"body": entry.body(), "hash": entry.hash} for entry in book]
        if documents:
            content["documents"] = []
            for book in books:
                content["documents"] += self._documents_of(book)
        return json.dumps(content, indent=1) + "\n"

    def _documents_of(self, book: list[Entry]) -> list[dict[str, Any]]:
        """The documents that the entries of a book settled, as an export has them."""
        if not book:
            return []
        dataset = book[0].dataset
        documents = requests.documents_of(self._store, dataset, book[0].number)
        return [
            {"dataset": dataset} | document._asdict()
            for document in documents
            if document.number <= book[-1].number
        ]

    def __repr__(self) -> str:
        return f"Ledger({self._store.where})"

    def __reduce__(self) -> Any:
        raise TypeError("a ledger cannot be pickled: send the address, and open the ledger there")

    def _last(self, dataset: str) -> Entry:
        with self._store.reading() as rows:
            if not rows.find(dataset):
                other = requests.look_alike(dataset, rows.datasets())
                if other is not None:
                    raise LedgerError(
                        f"the ledger {self._store.where} has no data set {dataset!r}: did you mean "
                        f"{other!r}?"
                    )
            return rows.require(dataset)[-1]

    def _balance(
        self, rows: Rows, dataset: str, person: str, **values: Any
    ) -> tuple[Balance, list[Entry]]:
        """The balance of a book for a person, and all entries that `Rows.find` finds."""
        matches = rows.require(dataset, person=person, **values)
        mine = None
        if person:
            mine = next((entry for entry in reversed(matches) if entry.person == person), None)
        return Balance(matches[-1], mine), matches

    def _balance_now(self, dataset: str, person: str | None) -> Balance:
        """The balance as of now, for a person; None: the user."""
        if person is None:
            person = self._user
        with self._store.reading() as rows:
            balance, _ = self._balance(rows, dataset, person)
            return self._as_of_now(rows, balance)

    def _as_of_now(self, rows: Rows, balance: Balance, actor: str | None = None) -> Balance:
        """The balance, after a new period if one has begun by the clock of the database."""
        renewal = balance.last.renewal
        if renewal is None:
            return balance
        at = rows.now()
        if not renewal.is_over(at):
            return balance
        author = self._author("", actor=actor)._replace(at=at)
        new_period = entries.following(Balance(balance.last), entries.NEW_PERIOD, author)
        return balance._replace(last=new_period)

    def _renewed(self, rows: Rows, balance: Balance, actor: str | None) -> Balance:
        """The balance as of now; the entry of a new period is written."""
        renewed = self._as_of_now(rows, balance, actor)
        if renewed.last is not balance.last:
            requests.require_two_clocks(rows, self._author("").at, renewed.last.at)
            requests.require_no_leap(rows, balance.last, renewed.last.at)
            rows.append(renewed.last)
        return renewed

    def _author(self, person: str, reason: str = "", actor: str | None = None) -> Author:
        writer = f"{requests.system_user()}@{platform.node()}"
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        return Author(writer, at, person, reason, actor or self._user)


def _names(rows: Rows, dataset: str | None) -> list[str]:
    """The name of one data set in its normal form; None: the names of all data sets."""
    if dataset is None:
        return rows.datasets()
    return [requests.require_name(dataset)]


def _range(rows: Rows, dataset: str, since: str | None, until: str | None) -> tuple[int, int]:
    """The number of the first entry of a range of days, and of the first after it."""
    first = 0
    if since is not None:
        first = rows.count_before(dataset, requests.require_day("since", since))
    end = MOST
    if until is not None:
        end = rows.count_before(dataset, requests.require_day("until", until))
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


def _hashes(head: str | Iterable[str]) -> list[str]:
    """One head or several, as a list."""
    if isinstance(head, str):
        return [head]
    return list(head)


def _missing(heads: list[str], book: list[Entry]) -> list[str]:
    """The heads that a book neither has nor states as lost."""
    hashes = {entry.hash for entry in book}
    lost = {entry.extra.get("lost") for entry in book}
    return [head for head in heads if head not in hashes and head not in lost]


class _Export(NamedTuple):
    """What an export says: its bodies with their hashes, its documents and its days."""

    rows: list[tuple[str, str]]
    documents: dict[str, list[Document]] | None
    """The documents of each data set; None: the file has none."""
    days: dict[str, str]
    """The first day, as "from", and the first day after the last, as "before", if stated."""


def _read_export(text: str) -> _Export:
    """An export whose format is known, or an error."""
    try:
        content = json.loads(text)
        written = content["format"]
        if content["dpgap"] != "ledger" or type(written) is not int or written < 1:
            raise ValueError
        if written <= _FORMAT:
            return _Export(
                rows=_rows(content["entries"]),
                documents=_documents(content["documents"]) if "documents" in content else None,
                days=_days(content),
            )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("the file was damaged or edited after export, or is no export") from None
    raise ValueError(f"the file has format {written}, which a later dpgap wrote: update dpgap")


def _rows(bodies: Iterable[Any]) -> list[tuple[str, str]]:
    rows = []
    for row in bodies:
        body = row["body"]
        digest = row["hash"]
        if type(body) is not str or type(digest) is not str:
            raise ValueError
        rows.append((body, digest))
    return rows


def _documents(listed: Iterable[Any]) -> dict[str, list[Document]]:
    documents: dict[str, list[Document]] = {}
    for values in listed:
        dataset = values.pop("dataset")
        document = Document(**values)
        if type(dataset) is not str or type(document.number) is not int:
            raise ValueError
        documents.setdefault(dataset, []).append(document)
    return documents


def _days(content: dict[str, Any]) -> dict[str, str]:
    days = {}
    if content.get("since"):
        days["from"] = requests.require_day("from", content["since"])
    if content.get("until"):
        days["before"] = requests.require_day("before", content["until"])
    return days


def verify_export(text: str, *, head: str | Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Two lists: all flaws of an export, and what cannot be checked by the export alone."""
    export = _read_export(text)
    flaws: list[str] = []
    books: dict[str, list[Entry]] = {name: [] for name in export.documents or ()}
    for position, (body, digest) in enumerate(export.rows, 1):
        try:
            entry = entries.read_entry(body, digest)
        except UnreadableEntry as error:
            flaws.append(f"entry number {position} in the file {error}")
        else:
            books.setdefault(entry.dataset, []).append(entry)
    days = " and ".join(map(" ".join, export.days.items())) or "all"
    notes = [_COVERED.format(", ".join(books) or "none", days)]
    missing = heads = _hashes(head)
    for name, book in books.items():
        flaws_of_book, notes_of_book = _check_part(export, name, book, heads)
        flaws += [f"{name}: {flaw}" for flaw in flaws_of_book]
        notes += [f"{name}: {note}" for note in notes_of_book]
        missing = _missing(missing, book)
    flaws += [_NO_HEAD.format(missing_head) for missing_head in missing]
    return flaws, notes


def _check_part(
    export: _Export, dataset: str, book: list[Entry], heads: list[str]
) -> tuple[list[str], list[str]]:
    """The flaws of one book in an export, and what cannot be checked by the export alone."""
    first = 0
    if book and "from" in export.days:
        first = book[0].number
    flaws, unchecked = entries.checked(book, first, str(datetime.now(UTC).date()))
    outside = [entry for entry in book[:1] if entry.at < export.days.get("from", "")]
    outside += [entry for entry in book if entry.at >= export.days.get("before", "9999")]
    flaws += [f"entry {entry.number} is not of the stated days" for entry in outside]
    notes = []
    if export.documents is not None:
        documents = export.documents.get(dataset, [])
        numbers = {entry.number for entry in book}
        orphans = [document.number for document in documents if document.number not in numbers]
        flaws += [_ORPHAN.format(number) for number in orphans]
        flaws += requests.edited_documents(documents, book)
    elif any("document" in entry.extra for entry in book):
        notes.append("the file has no documents, so they were not checked")
    if first:
        notes.append(_NO_SUMS.format(" and entry ".join(map(str, unchecked)), first - 1))
    if book:
        last = book[-1]
        comparison = _COMPARE.format(last.hash)
        for entry in book:
            if entry.hash in heads:
                comparison = _HEAD.format(entry.number)
        notes.append(f"the last entry in the file is {last.number}. {comparison}")
    return flaws, notes


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
        if person is not None:
            requests.require_words("person", person)
        if key is not None:
            requests.require_words("key", key)
        return replace(
            self,
            person=person or self.person,
            reason=reason or self.reason,
            key=key or self.key,
            joins=joins or self.joins,
            quota=quota or self.quota,
        )

    @property
    def _requester(self) -> str:
        """The person who asks: the user, if none is named."""
        return self.person or self.ledger._user

    def reserve(self, cost: Cost, purpose: str) -> "LedgerReservation":
        """Set a cost aside durably, or raise `BudgetExhausted` and change nothing."""
        return self.reserve_for(Request(cost, purpose))

    def reserve_for(self, request: Request) -> "LedgerReservation":
        """Set aside what the request can cost, durably, or raise an error and change nothing."""
        charge = require_cost(request.cost).up()
        identity = request.identity if self.joins else None
        with self.ledger._store.writing(self.dataset) as rows:
            self.require_book(rows)
            balance, matches = self.ledger._balance(
                rows, self.dataset, self._requester, key=self.key, identity=identity
            )
            requests.refuse_used_key(rows, matches, self.key, request)
            joined = requests.under_way(rows, matches, identity)
            if joined is None:
                return self._charge(rows, balance, request, charge)
            self._keep_key(rows, balance, joined, request)
            answered = replace(requests.answered_by(rows, joined), again=True)
        raise AlreadyCharged(
            f"entry {joined.number} asks the same question and is {answered.state}: it is not "
            "charged again",
            answered,
        )

    def _charge(
        self, rows: Rows, balance: Balance, request: Request, charge: Cost
    ) -> "LedgerReservation":
        """Set a charge aside in a new entry, or raise an error and write nothing."""
        ledger = self.ledger
        person = self._requester
        facts = requests.facts_of(rows, balance.last)
        requests.refuse_contradiction(self.dataset, facts, request.facts)
        if self.quota is not None:
            requests.refuse_beyond(rows, balance.last, person, self.quota)
        author = ledger._author(person, self.reason, person)
        requests.require_clock(rows, balance.last, author.at)
        reservation = entries.following(
            ledger._renewed(rows, balance, person),
            entries.RESERVE,
            author,
            charge=charge,
            purpose=request.purpose,
            key=self.key,
            extra=requests.extra_of(request),
        )
        return LedgerReservation(ledger, rows.append(reservation))

    def free_answer(self, request: Request, fresh: bool) -> str | None:
        """The newest document of a question that was paid for, unless fresh noise is wanted.

        If the budget renews, only documents of the current period count. The key comes first: if it
        was used, `AlreadyCharged` has its own answer. Otherwise it is kept for this document.
        """
        ledger = self.ledger
        if self.key is not None:
            with ledger._store.reading() as rows:
                matches = rows.find(self.dataset, key=self.key)
                requests.refuse_used_key(rows, matches, self.key, request)
        if fresh or request.identity is None:
            return None
        paid = self._paid(request.identity)
        if paid is None:
            return None
        reservation, document = paid
        if self.key is not None:
            with ledger._store.writing(self.dataset) as rows:
                balance, matches = ledger._balance(
                    rows, self.dataset, self._requester, key=self.key
                )
                requests.refuse_used_key(rows, matches, self.key, request)
                self._keep_key(rows, balance, reservation, request)
        return document

    def _keep_key(self, rows: Rows, balance: Balance, reservation: Entry, request: Request) -> None:
        """Keep the key, if there is one, for the answer that a reservation pays for."""
        if self.key is None:
            return
        self.require_book(rows)
        person = self._requester
        if self.quota is not None:
            requests.refuse_beyond(rows, balance.last, person, self.quota, is_free=True)
        author = self.ledger._author(person, self.reason, person)
        requests.require_clock(rows, balance.last, author.at)
        extra = dict(request.extra or {})
        extra["paid_by"] = reservation.number
        free_answer = entries.following(
            balance,
            entries.AGAIN,
            author,
            purpose=reservation.purpose,
            key=self.key,
            extra=extra,
        )
        rows.append(free_answer)

    def require_book(self, rows: Rows) -> None:
        """Refuse a book that lacks what was seen before; this account has seen nothing."""

    def paid(self, identity: str) -> str | None:
        """The newest document of a question, if it was paid for.

        If the budget renews, only documents of the current period count.
        """
        paid = self._paid(identity)
        if paid is None:
            return None
        _, document = paid
        return document

    def _paid(self, identity: str) -> tuple[Entry, str] | None:
        """The newest document of a question, with the reservation that paid for it."""
        last = self.ledger._balance_now(self.dataset, "").last
        with self.ledger._store.reading() as rows:
            first = rows.period_start(last)
            return requests.archived(rows, self.dataset, first, identity=identity)

    def answered(self, key: str) -> Answered | None:
        """The state of the request with this key; None if it was never charged."""
        with self.ledger._store.reading() as rows:
            entry = rows.keyed(self.dataset, key)
            if entry is None:
                return None
            return requests.answered_by(rows, entry)

    def keyed(self, key: str) -> Entry | None:
        """The entry of the request with this key: it was charged, or its answer was free."""
        with self.ledger._store.reading() as rows:
            return rows.keyed(self.dataset, key)

    def requests(self, last: int, before: int | None = None) -> list[ChargedRequest]:
        """The last few requests that were charged, oldest first.

        With `before`, only requests with a smaller number count.
        """
        end = MOST if before is None else before
        with self.ledger._store.reading() as rows:
            reservations = rows.book(self.dataset, last, end, kind=[entries.RESERVE])
            numbers = [reservation.number for reservation in reservations]
            endings = rows.book(self.dataset, reservation=numbers)
        ending_of = {ending.reservation: ending for ending in endings}
        return [
            ChargedRequest(reservation, ending_of.get(reservation.number))
            for reservation in reservations
        ]

    def archive(self) -> list[Entry]:
        """The entries that have a document, oldest first; `document` shows one."""
        return [entry for entry in self.ledger.entries(self.dataset) if "document" in entry.extra]

    def document(self, number: int) -> str:
        """What was released, by the number of the entry that reserved or settled it."""
        with self.ledger._store.reading() as rows:
            ending = rows.entry(self.dataset, reservation=number)
            settlement = ending or rows.entry(self.dataset, number=number)
            document = None
            if settlement is not None:
                document = requests.document_of(rows, self.dataset, number=settlement.number)
        if document is None:
            raise ValueError(f"entry {number} of data set {self.dataset!r} has no document")
        return document

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
        return self.ledger._balance_now(self.dataset, self.person).last.total

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
        return self.ledger._balance_now(self.dataset, self.person).left

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
        return requests.reference_of(self.entry) | {"time": self.entry.at[:19] + "Z"}

    def settle(self, cost: Cost, document: str | None = None) -> None:
        """Record what the release did cost, and archive it, in one transaction; only once.

        What it did not cost is given back.
        """
        ledger = self.ledger
        reservation = self.entry
        person = reservation.person
        with ledger._store.writing(reservation.dataset) as rows:
            balance, matches = ledger._balance(
                rows, reservation.dataset, person, number=reservation.number
            )
            if reservation.hash not in [entry.hash for entry in matches]:
                raise LedgerError(f"{ledger._store.where} was rewritten: it has lost a reservation")
            if not reservation.charge.fits(balance.last.held):  # it was settled or written off
                raise LedgerError(ledger._store.has_already)
            extra: dict[str, Any] = {}
            if document is not None:
                extra = {"document": entries.hash_of(document), "length": len(document)}
            # How long drawing took is private: the book has the time of the charge alone.
            author = ledger._author(person, actor=reservation.actor)._replace(at=reservation.at)
            settlement = entries.following(
                balance, entries.SETTLE, author, reservation, charge=cost.up(), extra=extra
            )
            rows.append(settlement, document, reservation.extra.get("identity"))
