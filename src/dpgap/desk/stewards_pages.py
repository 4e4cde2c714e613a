"""The pages for stewards: what was spent by whom, and forms over the ledger's own functions."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from dpgap.budget.steward import Steward
from dpgap.desk.acts import ALL, act
from dpgap.desk.desk import NEVER_BEGAN, Page
from dpgap.desk.refusals import Refused
from dpgap.desk.rendering import html, shown
from dpgap.desk.visits import At, Paged, StewardAtData, desk_of, form_of, older, steward_of
from dpgap.releases.ledger_page import ledger_fragment

router = APIRouter(include_in_schema=False)


@router.get("/steward")
def overview(request: Request) -> Response:
    """Everything that was spent at this desk."""
    visitor = steward_of(request)
    desk = desk_of(request)
    listed = desk.datasets(visitor)
    books = [desk.ledger.entries(data.budget) for data in listed]
    content = html(ledger_fragment(books))
    return shown(request, "steward.html", visitor=visitor, listed=listed, content=content)


@router.get("/steward/{name}")
def budget(request: Request, at: StewardAtData, page: Paged) -> Response:
    """One budget, with everything that can be done with it."""
    done = request.query_params.get("done", "")
    return _page(request, at, "Done." if done in ALL else "", page)


@router.post("/steward/{name}/{what}")
async def change(request: Request, at: StewardAtData, what: str) -> Response:
    """Do something with a budget, then show it again."""
    said = await form_of(request, at.visitor)
    try:
        await act(request.app.state.asking, *at, what, said)
    except Refused as refused:
        return await asyncio.to_thread(_page, request, at, refused.words, Page(100), refused.status)
    return RedirectResponse(f"/steward/{at.data.name}?done={what}", status_code=303)


def _page(request: Request, at: At, words: str, page: Page, status: int = 200) -> Response:
    desk, _, data = at
    entries = desk.entries(data, page)
    flaws = desk.ledger.verify(data.budget) if "verify" in request.query_params else None
    return shown(
        request,
        "budget.html",
        at,
        status=status,
        words=words,
        flaws=flaws,
        unsettled=desk.unsettled(data),
        never_began=NEVER_BEGAN,
        written_off=Steward(desk.ledger, data.budget).written_off(20)[::-1],
        entries=entries,
        older=older(entries, page),
        people=sorted(desk.door.people().keys() | data.people.keys()),
    )
