"""The JSON interface for programs, with a token in `Authorization: Bearer …`; acts of stewards."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from dpgap.budget.account import readable_text
from dpgap.budget.requests import require_words
from dpgap.budget.steward import Steward
from dpgap.desk.config import ListedData
from dpgap.desk.dependencies import (
    At,
    Browser,
    Paged,
    Program,
    ProgramAtData,
    StewardsProgramAtData,
    desk_of,
    older,
    shown,
)
from dpgap.desk.middleware import NOT_THERE, Refused, in_our_words
from dpgap.desk.questions import FilledForm, Number, PlanBody, number_in
from dpgap.desk.queue import Archived, Asking, Desk

# --------------------------------------------------------------------------------------------------
# What a steward does at the desk: the ledger's own functions, by name, and two of the desk.
#
# Those two count a table again, and draw what was charged and never began to be drawn.


Fields = Mapping[str, str]


def _allow(steward: Steward, said: Fields, reason: str) -> Any:
    person = require_words("person", said.get("person", ""))
    delta = number_in(said, "delta") if said.get("delta") else None
    return steward.allow(person, number_in(said, "epsilon"), delta=delta, reason=reason)


def _entry_in(said: Fields) -> int:
    number = said.get("entry", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 12):
        raise Refused(422, "entry must be the number of a reservation")
    return int(number)


ACTS: dict[str, Callable[[Steward, Fields, str], Any]] = {
    "raise": lambda at, said, why: at.raise_to(number_in(said, "epsilon"), reason=why),
    "lower": lambda at, said, why: at.lower_to(number_in(said, "epsilon"), reason=why),
    "allow": _allow,
    "write-off": lambda at, said, why: at.write_off(_entry_in(said), reason=why),
    "close": lambda at, said, why: at.close(reason=why),
}
REFRESH, VERIFY, DRAW = "refresh", "verify", "draw"
ALL = (*ACTS, REFRESH, VERIFY, DRAW)


def listed_people(desk: Desk, data: ListedData) -> set[str]:
    """Everybody who can have an allowance at the desk: those whom the steward's file lists."""
    return {*desk.auth.people(), *data.people}


async def act(asking: Asking, at: At, name: str, said: Fields) -> None:
    """Do it. Every change of a budget is an entry that says who did it at the desk, and why."""
    desk, visitor, data = at
    if name not in ALL:
        raise Refused(*NOT_THERE)
    if name == REFRESH:
        await run_in_threadpool(desk.counts.refresh, data)
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


# --------------------------------------------------------------------------------------------------


router = APIRouter(prefix="/api/v1", tags=["desk"])
about = APIRouter(include_in_schema=False)


class AskBody(PlanBody):
    """A question with its key: what is sent again with the same key is not charged again."""

    key: str = Field(min_length=8, max_length=64, description="Letters, digits and -.")


class StewardsAct(BaseModel):
    """What a steward does, and why."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("", max_length=200)
    epsilon: Number = Field("", description="For raise, lower and allow.")
    delta: Number = Field("", description="For allow; else it stays, or is ε's share of the whole.")
    person: str = Field("", max_length=200, description="For allow.")
    entry: int | None = Field(None, description="For write-off and draw: a reservation.")


@router.get("/datasets")
def datasets(request: Request, visitor: Program) -> dict[str, Any]:
    """All data sets that you may ask about, and what is left of each."""
    desk = desk_of(request)
    return {"datasets": [_described(At(desk, visitor, it)) for it in desk.datasets(visitor)]}


@router.get("/datasets/{name}")
def dataset(at: ProgramAtData) -> dict[str, Any]:
    """One data set: its topics, and what is left."""
    return _described(at)


@router.post("/datasets/{name}/plan")
def plan(at: ProgramAtData, question: PlanBody) -> dict[str, Any]:
    """What to expect of a question. Nothing is spent."""
    with in_our_words():
        expected = at.desk.expect(at.visitor, at.data, FilledForm.read(question.said()))
    rows = [
        row._asdict() | {"epsilon": readable_text(row.epsilon), "left": readable_text(row.left)}
        for row in expected.rows
    ]
    return {"rows": rows, "words": expected.words}


@router.post("/datasets/{name}/ask")
async def ask(request: Request, at: ProgramAtData, question: AskBody) -> Response:
    """Ask, once for each key. The answer is the archived document, if there is one yet."""
    desk, visitor, data = at
    receipt = await request.app.state.asking.ask(visitor, data, question.said(), question.key)
    document = "null"
    if receipt.state == "settled":
        document = await asyncio.to_thread(desk.document, data, receipt.entry)
    release = f'{json.dumps(receipt._asdict())[:-1]}, "release": {document}}}'
    return Response(release, media_type="application/json")


@router.get("/datasets/{name}/asked/{key}")
def asked(at: ProgramAtData, key: str) -> dict[str, Any]:
    """What became of the question that you sent with a key."""
    return at.desk.receipt(at.visitor, at.data, key)._asdict()


@router.get("/datasets/{name}/releases")
def releases(at: ProgramAtData, page: Paged) -> dict[str, Any]:
    """What was asked before, the newest first; send `next` as `before` for what is older."""
    rows = at.desk.archive(at.data, page)
    return {"releases": list(map(_archived, rows)), "next": older(rows, page)}


@router.get("/datasets/{name}/releases/{number}")
def release(at: ProgramAtData, number: int) -> Response:
    """A release document, which `dpgap.read_release` reads."""
    return Response(at.desk.document(at.data, number), media_type="application/json")


@router.get("/datasets/{name}/entries")
def entries(at: StewardsProgramAtData, page: Paged) -> dict[str, Any]:
    """For stewards: the book, the newest entry first, each body as it was sealed."""
    book = at.desk.entries(at.data, page)
    rows = [{"hash": entry.hash, "body": entry.body()} for entry in book]
    return {"entries": rows, "next": older(book, page)}


@router.get("/datasets/{name}/stale")
def stale(at: StewardsProgramAtData) -> dict[str, Any]:
    """For stewards: reservations that nobody settled, why, and the last that were written off."""
    found, steward = at.desk.unsettled(at.data), Steward(at.desk.ledger, at.data.budget)
    return {
        "reservations": [_archived(Archived(entry, None)) | {"why": why} for entry, why in found],
        "written_off": [
            {"entry": it.reservation, "person": it.person, "reason": it.reason, "at": it.at}
            for it in steward.written_off(100)[::-1]
        ],
    }


@router.get("/datasets/{name}/verify")
async def verify(at: StewardsProgramAtData) -> dict[str, Any]:
    """For stewards: everything that is wrong with the book, and its head to note elsewhere."""
    found = await asyncio.wrap_future(at.desk.verifier.start(at.data.budget))
    return {"flaws": found.flaws, "head": found.head}


@router.post("/datasets/{name}/acts/{what}")
async def change(
    request: Request, at: StewardsProgramAtData, what: str, said: StewardsAct
) -> dict[str, Any]:
    """For stewards: raise, lower, allow, write-off, close, refresh the counts, or draw a charge."""
    fields = {each: str(value) for each, value in said.model_dump().items() if value is not None}
    await act(request.app.state.asking, at, what, fields)
    return await asyncio.to_thread(_described, at)


@about.get("/api/openapi.json")
def openapi(request: Request, visitor: Program) -> dict[str, Any]:
    """The description of all this, as OpenAPI."""
    return described_api(request)


@about.get("/programs")
def programs(request: Request, visitor: Browser) -> Response:
    """The same as a page."""
    paths = described_api(request)["paths"]
    rows = [
        (method.upper(), path, what["description"])
        for path, methods in paths.items()
        for method, what in methods.items()
    ]
    base = f"{'https' if request.app.state.is_https else 'http'}://{request.headers['host']}"
    return shown(request, "programs.html", visitor=visitor, rows=rows, base=base)


def described_api(request: Request) -> dict[str, Any]:
    """What FastAPI knows of the routes, and how programs say who they are."""
    found: dict[str, Any] = request.app.openapi()
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    found.setdefault("components", {})["securitySchemes"] = schemes
    found["security"] = [{"token": []}]
    return found


def _described(at: At) -> dict[str, Any]:
    desk, visitor, data = at
    balance = desk.balance(visitor, data)
    amounts = {"left": balance.left.epsilon, "left_delta": balance.left.delta}
    amounts |= {name: getattr(balance.last, name) for name in ("total", "spent", "reserved")}
    return {
        **{name: getattr(data, name) for name in ("name", "title", "unit", "neighbours")},
        "topics": [
            {"name": each.name, "title": each.title, "item": each.item, "counted": each.words}
            for each in data.topics.values()
        ],
        **{name: readable_text(each) for name, each in amounts.items()},
    }


def _archived(row: Archived) -> dict[str, Any]:
    entry, settlement = row
    return {
        "entry": entry.number,
        "state": row.state,
        "purpose": entry.purpose,
        "person": entry.person,
        "epsilon": readable_text((settlement or entry).epsilon),
        "at": entry.at,
    }
