"""What a ledger makes of a request: what it keeps of it, and what became of one sent before."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from dpgap.budget.account import (
    UNDER_WAY,
    AlreadyCharged,
    Answered,
    KeyUsed,
    QuotaExhausted,
    Request,
)
from dpgap.budget.amounts import rounded_up
from dpgap.budget.binding import is_one_table
from dpgap.budget.entries import (
    RESERVE,
    SETTLE,
    Entry,
    LedgerError,
    hash_of,
    read_number,
)
from dpgap.budget.store import Document, Rows, Store, findable

_LONGEST = 200
_RELEASE = "dpgap release"
"""The format of release documents. A ledger keeps any text, but only these are read again."""
_AT_ONCE = 50
"""How many documents are read in one transaction."""
_LATELY = timedelta(minutes=1)
"""How long a question that nobody settled is taken to be under way."""


def require_words(name: str, words: object) -> str:
    """A short printable text."""
    if not (isinstance(words, str) and 0 < len(words) <= _LONGEST and words.isprintable()):
        raise ValueError(f"{name} must be 1 to {_LONGEST} printable characters")
    return words


def asked_by(request: Request) -> dict[str, Any]:
    """What an entry keeps of a request besides its cost and its line of words."""
    facts = request.facts or {}
    asked = {name: facts[name] for name in ("table", "unit", "neighbours") if facts.get(name)}
    found = {**(request.extra or {}), "asked": asked, "identity": request.identity}
    return {name: value for name, value in found.items() if value}


def facts_of(rows: Rows, last: Entry) -> dict[str, Any] | None:
    """What the budget is for, as the entry states that the last one names."""
    if last.bound is None:
        return None
    stating = _entry_at(rows, last.dataset, last.bound)
    return None if stating is None else dict(stating.extra["facts"])


def beside(rows: Rows, dataset: str, facts: Mapping[str, Any] | None) -> list[str]:
    """The other data sets whose budget is for the same units of the same table."""
    if facts is None or facts.get("table") is None:
        return []
    others = (name for name in rows.datasets() if name != dataset)
    return [it for it in others if is_one_table(facts, facts_of(rows, rows.find(it)[-1]))]


def stating(
    rows: Rows, dataset: str, facts: Mapping[str, Any] | None, meant: str | None
) -> dict[str, Any]:
    """What an entry keeps of the table that a budget is for.

    A second budget for the same units is refused unless it is `meant` to stand beside the other:
    what both pay for adds up for the same people.
    """
    require_meant(beside(rows, dataset, facts), meant)
    found = {"facts": facts, "beside": meant}
    return {name: value for name, value in found.items() if value is not None}


def require_meant(others: list[str], meant: str | None) -> None:
    """Refuse a budget for the same units as `others` unless it is `meant` to stand beside one."""
    if meant is None and others:
        raise ValueError(
            f"data set {others[0]!r} has a budget for the same table and unit, and the ε of both "
            f"add up for the same people: use it, or state beside={others[0]!r} (--beside) if this "
            "is meant"
        )
    if meant is not None and meant not in others:
        known = f": {', '.join(map(repr, others))}" if others else ", and there is none"
        raise ValueError(
            f"beside must name a data set whose budget is for the same table and unit{known}; it "
            f"is {meant!r}"
        )


def document_of(rows: Rows, dataset: str, **wanted: Any) -> str | None:
    """A document, by the number of its settlement or by its question, if it is what was paid for.

    It must agree with its entries, and they with their hashes, else it is a `LedgerError`.
    """
    kept = rows.document(dataset, **wanted)
    if kept is None:
        return None
    settlement = _entry_at(rows, dataset, kept.number)
    ended = None if settlement is None else settlement.reservation
    reservation = None if ended is None else _entry_at(rows, dataset, ended)
    is_sealed = all(it is not None and it.hash == it.seal() for it in (settlement, reservation))
    if settlement is None or not is_sealed or not _matches(kept, settlement, reservation):
        raise LedgerError(
            f"the document of entry {kept.number} does not agree with the entry that paid for it: "
            "it is not shown, see `verify`"
        )
    return kept.document


def edited_documents(store: Store, dataset: str, book: list[Entry]) -> list[str]:
    """Documents that were edited, put to another entry, or removed.

    A few are read at a time: who writes to SQLite waits for whoever reads.
    """
    by_number = {entry.number: entry for entry in book}
    archived = {entry.number for entry in book if "document" in entry.extra}
    found: list[str] = []
    after = -1
    while True:
        with store.reading() as rows:
            several = rows.documents(dataset, after, _AT_ONCE)
            if any(kept.number not in by_number for kept in several):  # younger than the book
                by_number = {entry.number: entry for entry in rows.book(dataset)}
        if not several:
            return found + [f"the document of entry {number} is missing" for number in archived]
        for kept in several:
            after = kept.number
            archived.discard(after)
            settlement = by_number.get(after)
            ended = -1 if settlement is None else settlement.reservation or -1
            if settlement is not None and not _matches(kept, settlement, by_number.get(ended)):
                found.append(f"the document of entry {after} was edited, or contradicts it")


def _matches(kept: Document, settlement: Entry, reservation: Entry | None) -> bool:
    """Whether a document is the one that its entries speak of, and says so itself."""
    if reservation is None or not isinstance(kept.document, str):  # SQLite keeps any type
        return False
    hashed, identity = settlement.extra.get("document"), reservation.extra.get("identity")
    if (hashed, identity) != (hash_of(kept.document), kept.identity):
        return False
    try:
        said = json.loads(kept.document)
    except (ValueError, RecursionError):
        return True  # it is no release, and nobody reads it as one
    if not isinstance(said, dict) or said.get("format") != _RELEASE:
        return True
    try:
        most, charged = read_number(said["epsilon"]), reservation.charge.epsilon
        spent = read_number(said.get("spent", said["epsilon"]))
        return (
            said["made"]["ledger"] == reference_of(reservation)
            and said.get("question", {}).get("identity") == identity
            and charged in (most, rounded_up(most))
            and settlement.charge.epsilon in (spent, min(rounded_up(spent), charged))
            and read_number(said["delta"]) <= reservation.charge.delta
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False


def reference_of(reservation: Entry) -> dict[str, Any]:
    """How a release names the entry that paid for it."""
    return {
        "dataset": reservation.dataset,
        "entry": reservation.number,
        "hash": reservation.hash,
    }


def _entry_at(rows: Rows, dataset: str, number: int) -> Entry | None:
    return next(iter(rows.book(dataset, number=[findable(number)])), None)


def answered_by(rows: Rows, reservation: Entry) -> Answered:
    """What became of the request that made a reservation."""
    ended = rows.ending(reservation.dataset, reservation.number)
    if ended is None:
        return Answered(reservation.number, UNDER_WAY, None)
    kept = document_of(rows, reservation.dataset, number=ended.number)
    state = "settled" if ended.kind == SETTLE else "written off"
    return Answered(reservation.number, state, kept)


def charged_before(rows: Rows, entry: Entry, request: Request) -> Exception:
    """Why a request with a key that was used before is not charged."""
    same = (entry.charge.epsilon, entry.extra.get("identity"), entry.purpose)
    if same != (rounded_up(request.epsilon), request.identity, request.purpose):
        return KeyUsed(
            f"request key {entry.key!r} was used for another request, {entry.purpose!r}: use a "
            "key of its own for each request"
        )
    answered = answered_by(rows, entry)
    return AlreadyCharged(
        f"request {entry.key!r} was charged before, as entry {entry.number}, and is "
        f"{answered.state}: it is not charged again",
        answered,
    )


def refuse_if_under_way(rows: Rows, found: list[Entry], identity: str) -> None:
    """Refuse to charge a question that another request asks just now, or has just had answered."""
    now = datetime.now(UTC)
    since, until = (at.isoformat(timespec="microseconds") for at in (now - _LATELY, now + _LATELY))
    for entry in found:
        is_recent = since < entry.at < until  # a clock that is far ahead blocks nobody
        if is_recent and (entry.kind, entry.extra.get("identity")) == (RESERVE, identity):
            answered = answered_by(rows, entry)
            if answered.document is not None or answered.state == UNDER_WAY:
                words = f"entry {entry.number} asks the same, and is {answered.state}"
                raise AlreadyCharged(f"{words}: it is not charged again", answered)


class Quota(NamedTuple):
    """What bounds the requests of one person, whatever the budget has left."""

    requests: int
    """How many are charged in a day of UTC."""
    characters: int
    """How many characters of documents are archived for them in a day."""
    archive: int
    """How many characters the archive of the data set has, whoever asked."""


def refuse_beyond(rows: Rows, last: Entry, person: str, quota: Quota) -> None:
    """Refuse a request beyond a quota. What decides is public: entries, and what was archived."""
    today = datetime.now(UTC).date()
    tomorrow = today + timedelta(days=1)
    asked, archived = rows.usage(last.dataset, person, today.isoformat(), tomorrow.isoformat())
    again = f"ask again from {tomorrow} 00:00 UTC on"
    if asked >= quota.requests:
        raise QuotaExhausted(
            f"{person!r} may ask {quota.requests} questions of data set {last.dataset!r} in a day, "
            f"and has asked {asked}: {again}"
        )
    if archived >= quota.characters:
        raise QuotaExhausted(
            f"answers to {person!r} may take {_megabytes(quota.characters)} of the archive of data "
            f"set {last.dataset!r} in a day, and take {_megabytes(archived)}: {again}"
        )
    if last.archived >= quota.archive:
        raise QuotaExhausted(
            f"the archive of data set {last.dataset!r} may have {_megabytes(quota.archive)}, and "
            f"has {_megabytes(last.archived)}: a steward can give it more room"
        )


def _megabytes(characters: int) -> str:
    return f"{characters / 10**6:,.3g} MB"
