"""What a ledger makes of a request: what it keeps of it, and what became of one sent before."""

from typing import Any

from dpgap.budget.account import AlreadyCharged, Answered, RefusedRequest, Request
from dpgap.budget.amounts import rounded_up
from dpgap.budget.entries import SETTLE, Entry, LedgerError, hash_of
from dpgap.budget.store import Rows

_LONGEST = 200


def require_words(name: str, words: object) -> str:
    """A short printable text."""
    if not (isinstance(words, str) and 0 < len(words) <= _LONGEST and words.isprintable()):
        raise ValueError(f"{name} must be 1 to {_LONGEST} printable characters")
    return words


def asked_by(request: Request) -> dict[str, Any]:
    """What an entry keeps of a request besides its cost and its line of words."""
    facts = request.facts or {}
    asked = {name: facts[name] for name in ("table", "unit", "neighbours") if facts.get(name)}
    found = {"asked": asked, "identity": request.identity}
    return {name: value for name, value in found.items() if value}


def facts_of(rows: Rows, last: Entry) -> dict[str, Any] | None:
    """What the budget is for, as the entry states that the last one names."""
    if last.bound is None:
        return None
    stating = rows.find(last.dataset, number=last.bound)
    return next((dict(it.more["facts"]) for it in stating if it.number == last.bound), None)


def document_of(rows: Rows, dataset: str, **wanted: Any) -> str | None:
    """A document, by the number of its settlement or by its question, if it is what was settled."""
    kept = rows.document(dataset, **wanted)
    if kept is None:
        return None
    found = [it for it in rows.find(dataset, number=kept.number) if it.number == kept.number]
    if [it.more.get("document") for it in found] != [hash_of(kept.document)]:
        raise LedgerError(f"the document of entry {kept.number} was edited: see `verify`")
    return kept.document


def answered_by(rows: Rows, reservation: Entry) -> Answered:
    """What became of the request that made a reservation."""
    ended = rows.about(reservation.dataset, reservation.number)
    if ended is None:
        return Answered(reservation.number, "under way", None)
    kept = document_of(rows, reservation.dataset, number=ended.number)
    state = "settled" if ended.kind == SETTLE else "written off"
    return Answered(reservation.number, state, kept)


def charged_before(rows: Rows, entry: Entry, request: Request) -> Exception:
    """Why a request with a key that was used before is not charged."""
    same = (entry.charge.epsilon, entry.more.get("identity"), entry.purpose)
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
