"""The application: routes, and one way to refuse."""

from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dpgap import __version__
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import Ledger
from dpgap.desk import api, pages, stewards_pages
from dpgap.desk.counter import Asking
from dpgap.desk.desk import Desk
from dpgap.desk.door import Door
from dpgap.desk.guard import WORDS, Guard, Limits, note_error
from dpgap.desk.opening import open_budgets
from dpgap.desk.refusals import NOT_THERE, Refused, refusal_of
from dpgap.desk.rendering import shown
from dpgap.desk.shelf import Shelf
from dpgap.desk.stewards_file import StewardsFile
from dpgap.desk.visits import browser_visitor


def open_desk(file: StewardsFile) -> Desk:
    """Open budgets that are missing, count every topic, and make the door ready."""
    ledger = Ledger(file.ledger)
    open_budgets(file, ledger)
    return Desk(file, ledger, Shelf(file), Door(file))


@dataclass(frozen=True, slots=True)
class Place:
    """Where people reach the desk."""

    port: int
    hosts: tuple[str, ...] = ()
    """The names that it has to the world; none: only this machine reaches it."""
    https: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def names(self) -> frozenset[str]:
        """What a Host may say."""
        own = (f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))
        return frozenset(map(str.lower, self.hosts or own))

    @property
    def origins(self) -> frozenset[str]:
        """What an Origin may say."""
        return frozenset(f"{'https' if self.https else 'http'}://{name}" for name in self.names)


def application(desk: Desk, place: Place) -> Any:
    """All of it, behind its guard."""
    app = FastAPI(
        title=desk.file.title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.desk, app.state.is_https, app.state.asking = desk, place.https, Asking(desk)
    for router in (pages.router, stewards_pages.router, api.router, api.about):
        app.include_router(router)
    for kind in (Refused, LedgerError):
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(Exception, _fail)
    app.add_exception_handler(HTTPException, _refuse_web)
    app.add_exception_handler(RequestValidationError, _refuse_body)
    return Guard(app, place.names, place.origins, place.limits)


def _refuse(request: Request, error: Exception) -> Response:
    return _said(request, refusal_of(error) or Refused(500, WORDS[500]))


def _fail(request: Request, error: Exception) -> Response:
    """What nobody foresaw."""
    note_error(error)
    return _said(request, Refused(500, WORDS[500]))


def _refuse_web(request: Request, error: Exception) -> Response:
    """What the framework refuses, in our words."""
    status = getattr(error, "status_code", 500)
    words = {404: NOT_THERE[1], 405: "This cannot be done here."}
    return _said(request, Refused(status, words.get(status, "This request cannot be read.")))


def _refuse_body(request: Request, error: Exception) -> Response:
    """A field that is not what it must be. Its name is ours; its value is not repeated."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    names = sorted({str(part) for each in found for part in each["loc"][1:2]})
    words = ", ".join(names) if names and all(map(str.isidentifier, names)) else "the body"
    return _said(request, Refused(422, f"Not what it must be: {words}."))


def _said(request: Request, refused: Refused) -> Response:
    """The words as JSON for a program, and as a page for people."""
    if request.url.path.startswith("/api/"):
        headers = {"www-authenticate": "Bearer"} if refused.status == 401 else None
        return JSONResponse({"error": refused.words}, refused.status, headers)
    try:
        visitor = browser_visitor(request)
    except Refused:  # why nobody can be known just now may be what is to be said
        visitor = None
    values = {"visitor": visitor, "words": refused.words}
    return shown(request, "refused.html", status=refused.status, **values)
