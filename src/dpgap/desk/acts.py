"""What a steward does at the desk: the ledger's own functions, by name, and two of the desk.

Those two count a table again, and draw what was charged and never began to be drawn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi.concurrency import run_in_threadpool

from dpgap.budget.requests import require_words
from dpgap.budget.steward import Steward
from dpgap.desk.asking import number_in
from dpgap.desk.counter import Asking
from dpgap.desk.desk import Desk
from dpgap.desk.door import Visitor
from dpgap.desk.refusals import NOT_THERE, Refused, in_our_words
from dpgap.desk.stewards_file import ListedData

Fields = Mapping[str, str]


def _allow(steward: Steward, said: Fields, reason: str) -> Any:
    person = require_words("person", said.get("person", ""))
    delta = number_in(said, "delta") if said.get("delta") else None
    return steward.allow(person, number_in(said, "epsilon"), delta=delta, reason=reason)


def _write_off(steward: Steward, said: Fields, reason: str) -> Any:
    return steward.write_off(_entry_in(said), reason=reason)


def _entry_in(said: Fields) -> int:
    number = said.get("entry", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 12):
        raise Refused(422, "entry must be the number of a reservation")
    return int(number)


ACTS: dict[str, Callable[[Steward, Fields, str], Any]] = {
    "raise": lambda at, said, why: at.raise_to(number_in(said, "epsilon"), reason=why),
    "lower": lambda at, said, why: at.lower_to(number_in(said, "epsilon"), reason=why),
    "allow": _allow,
    "write-off": _write_off,
    "close": lambda at, said, why: at.close(reason=why),
}
REFRESH, VERIFY, DRAW = "refresh", "verify", "draw"
ALL = (*ACTS, REFRESH, VERIFY, DRAW)


def listed_people(desk: Desk, data: ListedData) -> set[str]:
    """Everybody who can have an allowance at the desk: those whom the steward's file lists."""
    return {*desk.door.people(), *data.people}


async def act(
    asking: Asking, desk: Desk, visitor: Visitor, data: ListedData, name: str, said: Fields
) -> None:
    """Do it. Every change of a budget is an entry that says who did it at the desk, and why."""
    if name not in ALL:
        raise Refused(*NOT_THERE)
    if name == REFRESH:
        await run_in_threadpool(desk.shelf.refresh, data)
        return
    if name == VERIFY:
        desk.verifier.start(data.budget)
        return
    if name == "allow" and said.get("person") not in listed_people(desk, data):
        raise Refused(422, "person must be somebody whom the steward's file lists")
    reason = said.get("reason", "").strip()
    if not reason or not reason.isprintable() or len(reason) > 200:
        raise Refused(422, "reason must say why, in at most 200 printable characters")
    why = f"{reason} ({visitor.name}, at the desk)"
    if name == DRAW:
        drawn = await asking.draw(visitor, data, _entry_in(said), why)
        if drawn.state != "settled":
            raise Refused(503, f"Its answer is not in the ledger: the charge is {drawn.state}.")
        return
    steward = desk.ledger.steward(data.budget).of(visitor.name)
    with in_our_words():
        await run_in_threadpool(ACTS[name], steward, said, why)
