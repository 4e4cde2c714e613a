"""The application: routes, and one way to refuse."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dpgap._package import __version__
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import Ledger
from dpgap.desk import api, pages, stewards_pages
from dpgap.desk.counter import Asking
from dpgap.desk.desk import Desk
from dpgap.desk.door import Door
from dpgap.desk.guard import WORDS, Guard, Place, note_error
from dpgap.desk.opening import missing_budgets, open_budgets
from dpgap.desk.refusals import NOT_THERE, Refused, refusal_of
from dpgap.desk.rendering import shown
from dpgap.desk.shelf import Shelf
from dpgap.desk.spool import Spool, require_spool
from dpgap.desk.stewards_file import StewardsFile
from dpgap.desk.visits import browser_visitor, few_at_once


def open_desk(file: StewardsFile) -> Desk:
    """Count every topic, then open budgets that are missing, and make the door ready.

    The ledger is written to last: what a budget is for cannot be taken back.
    """
    ledger, shelf = Ledger(file.ledger), Shelf(file)
    spool = Spool(Path(file.spool))
    open_budgets(file, ledger, missing_budgets(file, ledger, shelf))
    return Desk(file, ledger, shelf, Door(file), spool)


def check_desk(file: StewardsFile) -> list[str]:
    """Do all that a start does but write to the ledger; the budgets that a start would open."""
    require_spool(Path(file.spool))
    return list(missing_budgets(file, Ledger(file.ledger), Shelf(file)))


def application(desk: Desk, place: Place) -> Any:
    """All of it, behind its guard."""

    @asynccontextmanager
    async def settling(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(app.state.asking.keep_settling())
        yield
        task.cancel()

    app = FastAPI(
        lifespan=settling,
        title=desk.file.title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.desk, app.state.is_https, app.state.asking = desk, place.https, Asking(desk)
    app.state.under_way = Counter[str]()
    for router in (pages.router, stewards_pages.router, api.router, api.about):
        app.include_router(router, dependencies=[Depends(few_at_once)])
    for kind in (Refused, LedgerError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _refuse)
    return Guard(app, place)


async def _refuse(request: Request, error: Exception) -> Response:
    return _said(request, _refusal(error))


def _refusal(error: Exception) -> Refused:
    """What to say of an error that nobody caught: what the framework refuses, in our words too."""
    if isinstance(error, RequestValidationError):
        return Refused(422, _not_valid(error))
    if isinstance(error, HTTPException):
        known = {404: NOT_THERE[1], 405: "This cannot be done here."}
        return Refused(error.status_code, known.get(error.status_code, WORDS[400]))
    refused = refusal_of(error) if isinstance(error, Refused | LedgerError) else None
    if refused is None:
        note_error(error)
    return refused or Refused(500, WORDS[500])


def _not_valid(error: RequestValidationError) -> str:
    """Which fields are not what they must be, and what is accepted; none of the values."""
    faults: dict[str, list[str]] = {}
    for each in error.errors():
        name = str(each["loc"][1]) if len(each["loc"]) > 1 else "the body"
        is_name = name.isidentifier() and len(name) <= 30
        faults.setdefault(name if is_name else "the body", []).append(str(each["msg"]))
    said = (f"{name}: {' or '.join(dict.fromkeys(each))}" for name, each in faults.items())
    return f"Not what it must be: {'; '.join(said)}."


def _said(request: Request, refused: Refused) -> Response:
    """The words as JSON for a program, and as a page for people."""
    if request.url.path.startswith("/api/"):
        headers = {"www-authenticate": "Bearer"} if refused.status == 401 else None
        return JSONResponse({"error": refused.words}, refused.status, headers)
    try:
        visitor = browser_visitor(request)
    except Refused:  # why nobody can be known just now may be what is to be said
        visitor = None
    status, words = refused.status, refused.words
    return shown(request, "refused.html", status=status, visitor=visitor, words=words)
