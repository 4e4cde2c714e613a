"""The pages for stewards: what was spent by whom, and forms over the ledger's own functions."""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from dpgap.budget.steward import Steward
from dpgap.desk.acts import ALL, VERIFY, act, listed_people
from dpgap.desk.desk import NEVER_BEGAN, Page
from dpgap.desk.refusals import Refused
from dpgap.desk.rendering import html, shown
from dpgap.desk.visits import (
    AStewardsBrowser,
    At,
    Paged,
    StewardAtData,
    desk_of,
    form_of,
    older,
)
from dpgap.releases.ledger_page import ledger_fragment

router = APIRouter(include_in_schema=False)

_TOKEN = "token must be your own: each change asks for it again. Nothing was changed."


@router.get("/steward")
def overview(request: Request, visitor: AStewardsBrowser) -> Response:
    """Everything that was spent at this desk."""
    desk = desk_of(request)
    listed = desk.datasets(visitor)
    books = [desk.ledger.outline(data.budget) for data in listed]
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
    again = at.desk.door.with_token(said.pop("token", ""))
    try:
        if what != VERIFY and (again is None or again.name != at.visitor.name):
            raise Refused(403, _TOKEN)
        await act(request.app.state.asking, *at, what, said)
    except Refused as refused:
        given = {what: said}
        return await run_in_threadpool(
            _page, request, at, refused.words, Page(100), refused.status, given
        )
    return RedirectResponse(f"/steward/{at.data.name}?done={what}", status_code=303)


def _page(
    request: Request,
    at: At,
    words: str,
    page: Page,
    status: int = 200,
    given: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Response:
    """The page of a budget. `given` is what was typed into the form of a refused act."""
    desk, _, data = at
    entries = desk.entries(data, page)
    return shown(
        request,
        "budget.html",
        at,
        status=status,
        words=words,
        given=given,
        verified=desk.verifier.last.get(data.budget),
        is_verifying=desk.verifier.is_under_way(data.budget),
        unsettled=desk.unsettled(data),
        never_began=NEVER_BEGAN,
        written_off=Steward(desk.ledger, data.budget).written_off(20)[::-1],
        entries=entries,
        older=older(entries, page),
        people=sorted(listed_people(desk, data)),
    )
