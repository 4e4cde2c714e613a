"""What a ledger makes of a request: what it keeps of it, and what became of one sent before."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dpgap.budget.account import UNDER_WAY, AlreadyCharged, Answered, RefusedRequest, Request
from dpgap.budget.amounts import rounded_up
from dpgap.budget.entries import RESERVE, SETTLE, Entry, LedgerError, hash_of
from dpgap.budget.store import Document, Rows

_LONGEST = 200
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


def document_of(rows: Rows, dataset: str, **wanted: Any) -> str | None:
    """A document, by the number of its settlement or by its question, if it is what was settled."""
    kept = rows.document(dataset, **wanted)
    if kept is None:
        return None
    settlement = _entry_at(rows, dataset, kept.number)
    ended = None if settlement is None else settlement.reservation
    reservation = None if ended is None else _entry_at(rows, dataset, ended)
    if settlement is None or not _matches(kept, settlement, reservation):
        raise LedgerError(f"the document of entry {kept.number} was edited: see `verify`")
    return kept.document


def lost_documents(rows: Rows, dataset: str, book: list[Entry]) -> list[str]:
    """Documents that were edited, removed or put in."""
    by_number = {entry.number: entry for entry in book}
    archived = {entry.number for entry in book if "document" in entry.extra}
    found = []
    for kept in rows.documents(dataset):
        archived.discard(kept.number)
        if kept.number not in by_number:  # it may be younger than the book that was read
            by_number = {entry.number: entry for entry in rows.book(dataset)}
        settlement = by_number.get(kept.number)
        ended = -1 if settlement is None else settlement.reservation or -1
        if settlement is None:
            found.append(f"entry {kept.number} is missing, though its document is there")
        elif not _matches(kept, settlement, by_number.get(ended)):
            found.append(f"the document of entry {kept.number} was edited")
    return found + [f"the document of entry {number} is missing" for number in archived]


def _matches(kept: Document, settlement: Entry, reservation: Entry | None) -> bool:
    """Whether a document is the one that its entries speak of."""
    if reservation is None or not isinstance(kept.document, str):  # SQLite keeps any type
        return False
    hashed = settlement.extra.get("document")
    return (hashed, reservation.extra.get("identity")) == (hash_of(kept.document), kept.identity)


def _entry_at(rows: Rows, dataset: str, number: int) -> Entry | None:
    found = rows.find(dataset, number=number)
    return next((entry for entry in found if entry.number == number), None)


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
        return RefusedRequest(
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
