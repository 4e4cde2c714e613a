"""The JSON interface for programs, with a token in `Authorization: Bearer …`."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from dpgap.budget.requests import ChargedRequest
from dpgap.budget.steward import Steward
from dpgap.desk.middleware import in_our_words
from dpgap.desk.pages import (
    At,
    Paged,
    Program,
    ProgramAtData,
    StewardsProgramAtData,
    desk_of,
    older,
)
from dpgap.desk.questions import FilledForm, Number, PlanBody

router = APIRouter(prefix="/api/v1", tags=["desk"])
about = APIRouter(include_in_schema=False)


class AskBody(PlanBody):
    """A question with its key. It is charged once, and the key gets its answer for ever."""

    key: str = Field(min_length=8, max_length=64, description="Letters, digits and -.")


class StewardsAct(BaseModel):
    """A steward's action, and the reason."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("", max_length=200)
    epsilon: Number = Field("", description="For raise, lower and allow.")
    delta: Number = Field("", description="For allow; else it stays, or is ε's share of the whole.")
    person: str = Field("", max_length=200, description="For allow.")
    entry: int | None = Field(None, description="For write-off: a reservation.")


@router.get("/datasets")
def datasets(request: Request, visitor: Program) -> dict[str, Any]:
    """All data sets that you may ask about, and what is left of each."""
    desk = desk_of(request)
    datasets = desk.datasets(visitor)
    return {"datasets": [_described(At(desk, visitor, data)) for data in datasets]}


@router.get("/datasets/{name}")
def dataset(at: ProgramAtData) -> dict[str, Any]:
    """One data set: its topics, and what is left."""
    return _described(at)


@router.post("/datasets/{name}/plan")
def plan(at: ProgramAtData, question: PlanBody) -> dict[str, Any]:
    """The expected errors of a question. Nothing is spent."""
    with in_our_words():
        form = FilledForm.read(question.form_fields(), at.data.decimal)
        offers = at.desk.expect(at.visitor, at.data, form)
    rows = [
        {
            "epsilon": str(offer.expected.epsilon),
            "error": offer.expected.error,
            "close_error": offer.expected.close_error,
            "half_width": offer.expected.half_width,
            "left": str(offer.left),
            "is_covered": offer.is_covered,
            "is_asked": offer.is_asked,
        }
        for offer in offers.rows
    ]
    return {"rows": rows, "words": offers.words}


@router.post("/datasets/{name}/ask")
async def ask(request: Request, at: ProgramAtData, question: AskBody) -> Response:
    """Ask, once for each key. The answer is the archived document, if there is one yet."""
    desk, visitor, data = at
    receipt = await request.app.state.asking.ask(
        visitor, data, question.form_fields(), question.key
    )
    document = "null"
    if receipt.state == "settled":
        document = await asyncio.to_thread(desk.document, data, receipt.entry)
    release = f'{json.dumps(receipt._asdict())[:-1]}, "release": {document}}}'
    return Response(release, media_type="application/json")


@router.get("/datasets/{name}/asked/{key}")
def asked(at: ProgramAtData, key: str) -> dict[str, Any]:
    """The state of the question that you sent with a key."""
    return at.desk.receipt(at.visitor, at.data, key)._asdict()


@router.get("/datasets/{name}/releases")
def releases(at: ProgramAtData, page: Paged) -> dict[str, Any]:
    """Earlier questions, the newest first; send `next` as `before` to get older ones."""
    rows = at.desk.archive(at.data, page)
    return {"releases": list(map(_listed, rows)), "next": older(rows, page)}


@router.get("/datasets/{name}/releases/{number}")
def release(at: ProgramAtData, number: int) -> Response:
    """A release document, which `dpgap.read_release` reads."""
    return Response(at.desk.document(at.data, number), media_type="application/json")


@router.get("/datasets/{name}/entries")
def entries(at: StewardsProgramAtData, page: Paged) -> dict[str, Any]:
    """For stewards: the book, the newest entry first, each body as it was hashed."""
    book = at.desk.entries(at.data, page)
    rows = [{"hash": entry.hash, "body": entry.body()} for entry in book]
    return {"entries": rows, "next": older(book, page)}


@router.get("/datasets/{name}/stale")
def stale(at: StewardsProgramAtData) -> dict[str, Any]:
    """For stewards: reservations that nobody settled, why, and the last that were written off."""
    steward = Steward(at.desk.ledger, at.data.budget)
    reservations = []
    for entry, reason in at.desk.unsettled(at.data):
        reservations.append(_listed(ChargedRequest(entry, None)) | {"why": reason})
    written_off = []
    for entry in reversed(steward.written_off(100)):
        written_off.append(
            {
                "entry": entry.reservation,
                "person": entry.person,
                "reason": entry.reason,
                "at": entry.at,
            }
        )
    return {"reservations": reservations, "written_off": written_off}


@router.get("/datasets/{name}/verify")
async def verify(at: StewardsProgramAtData) -> dict[str, Any]:
    """For stewards: everything that is wrong with the book, and its head to note elsewhere."""
    check = await asyncio.wrap_future(at.desk.verify(at.data.budget))
    return {"flaws": check.flaws, "head": check.head}


@router.post("/datasets/{name}/acts/{what}")
async def change(
    request: Request, at: StewardsProgramAtData, what: str, body: StewardsAct
) -> dict[str, Any]:
    """For stewards: raise, lower, allow, write-off, close, or refresh the counts."""
    fields = {name: str(value) for name, value in body.model_dump().items() if value is not None}
    await request.app.state.asking.act(at.visitor, at.data, what, fields)
    return await asyncio.to_thread(_described, at)


@about.get("/api/openapi.json")
def openapi(request: Request, visitor: Program) -> dict[str, Any]:
    """The OpenAPI schema of this interface, with the authentication of programs."""
    schema: dict[str, Any] = request.app.openapi()
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    schema.setdefault("components", {})["securitySchemes"] = schemes
    schema["security"] = [{"token": []}]
    return schema


def _described(at: At) -> dict[str, Any]:
    desk, visitor, data = at
    balance = desk.balance(visitor, data)
    topics = [
        {"name": topic.name, "title": topic.title, "item": topic.item, "counted": topic.words}
        for topic in data.topics.values()
    ]
    return {
        "name": data.name,
        "title": data.title,
        "unit": data.unit,
        "neighbours": data.neighbours,
        "topics": topics,
        "left": str(balance.left.amount),
        "left_delta": str(balance.left.delta),
        "total": str(balance.last.total),
        "spent": str(balance.last.spent),
        "reserved": str(balance.last.reserved),
    }


def _listed(row: ChargedRequest) -> dict[str, Any]:
    entry, ending = row
    return {
        "entry": entry.number,
        "state": row.state,
        "purpose": entry.purpose,
        "person": entry.person,
        "epsilon": str((ending or entry).epsilon),
        "at": entry.at,
    }
