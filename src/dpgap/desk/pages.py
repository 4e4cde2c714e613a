"""Requests and pages: who sends a request, what its form holds, and the pages for people.

Authentication runs on the event loop (`async`). So unknown people get no thread. And a question
does not wait for threads of pages if the ledger is slow.
"""

import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dpgap.budget.cost import equal_part
from dpgap.budget.entries import Entry
from dpgap.budget.requests import ChargedRequest
from dpgap.budget.steward import Steward
from dpgap.desk.auth import LASTS, Visitor
from dpgap.desk.config import ListedData
from dpgap.desk.middleware import ENTER, NOT_THERE, Refused, in_our_words
from dpgap.desk.questions import DEFAULTS, FilledForm, about, text_of
from dpgap.desk.queue import Desk, Page, Receipt
from dpgap.exact.parameters import readable_down, readable_up
from dpgap.releases.document import read_archived
from dpgap.releases.ledger_page import ledger_values
from dpgap.releases.page import STYLE, environment

_FIELDS = 40
_AT_ONCE = 12
"""The most requests of one person at a time; at most 8 of them may be questions."""


def desk_of(request: Request) -> Desk:
    """The desk that this application is for."""
    desk: Desk = request.app.state.desk
    return desk


def browser_visitor(request: Request) -> Visitor | None:
    """The owner of the session cookie, if there is one."""
    carried = request.cookies.get(_cookie(request))
    if carried is None:
        return None
    return desk_of(request).auth.with_pass(carried)


async def visitor_of(request: Request) -> Visitor:
    """The sender of a browser's request, by the session cookie."""
    visitor = browser_visitor(request)
    if visitor is None:
        raise Refused(*ENTER)
    return visitor


async def program_of(request: Request) -> Visitor:
    """The sender of a program's request, by its token. GET may use the session cookie."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    desk = desk_of(request)
    visitor = desk.auth.with_token(token) if kind.lower() == "bearer" else None
    if visitor is None and not kind and request.method == "GET":
        visitor = browser_visitor(request)
    if visitor is None:
        raise Refused(*ENTER)
    return visitor


async def few_at_once(request: Request) -> AsyncIterator[None]:
    """Refuse a request if its person has too many under way, before it takes a thread."""
    bearer = request.headers.get("authorization", "")
    visitor = None
    if bearer:
        visitor = desk_of(request).auth.with_token(bearer[7:])
    if visitor is None:
        visitor = browser_visitor(request)
    if visitor is None:
        yield  # unknown people get only fast responses
        return
    under_way: Counter[str] = request.app.state.under_way
    if under_way[visitor.name] >= _AT_ONCE:
        raise Refused(429, "Too many of your requests are under way. Try again in a moment.")
    under_way[visitor.name] += 1
    try:
        yield
    finally:
        under_way[visitor.name] -= 1


class At(NamedTuple):
    """A person and the data set that their request is about."""

    desk: Desk
    visitor: Visitor
    data: ListedData


Who = Callable[[Request], Awaitable[Visitor]]


def _if_steward(who: Who) -> Who:
    """A dependency that accepts only stewards."""

    async def steward(request: Request) -> Visitor:
        visitor = await who(request)
        if not visitor.person.is_steward:
            raise Refused(403, "This is for stewards.")
        return visitor

    return steward


def _at_data(who: Who) -> Any:
    async def at(request: Request, name: str) -> At:
        desk = desk_of(request)
        visitor = await who(request)
        return At(desk, visitor, desk.dataset(visitor, name))

    return Depends(at)


steward_of = _if_steward(visitor_of)
Browser = Annotated[Visitor, Depends(visitor_of)]
Program = Annotated[Visitor, Depends(program_of)]
AStewardsBrowser = Annotated[Visitor, Depends(steward_of)]
AtData = Annotated[At, _at_data(visitor_of)]
StewardAtData = Annotated[At, _at_data(steward_of)]
ProgramAtData = Annotated[At, _at_data(program_of)]
StewardsProgramAtData = Annotated[At, _at_data(_if_steward(program_of))]


Paged = Annotated[Page, Query()]


def older(rows: Sequence[ChargedRequest | Entry], page: Page) -> int | None:
    """The `before` of the next page of a list, the newest first; None after the last page."""
    return rows[-1].number if len(rows) == page.limit else None


async def form_of(request: Request, visitor: Visitor | None = None) -> dict[str, str]:
    """The fields of a form. The form of a known person must have the key of their session."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "This is not a form.")
    try:
        text = (await request.body()).decode()
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise Refused(400, "This form cannot be read.") from None
    if visitor is not None:
        form_key = fields.pop("form_key", "")
        if not desk_of(request).auth.passes.is_form_key(visitor.carried, form_key):
            raise Refused(403, "This form has expired. Load the page again, then send it.")
    return fields


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303)


def with_pass(request: Request, path: str, carried: str) -> Response:
    """Go to a page with this session cookie; an empty one removes it."""
    seconds = 0
    if carried:
        seconds = LASTS
    response = _to(path)
    response.set_cookie(
        _cookie(request),
        carried,
        max_age=seconds,
        path="/",
        secure=request.app.state.is_https,
        httponly=True,
        samesite="strict",
    )
    return response


def _cookie(request: Request) -> str:
    """The name of the cookie. It has the port, because ports of one machine share cookies."""
    if request.app.state.is_https:
        return "__Host-dpgap-desk"
    return f"dpgap-desk-{request.url.port or 80}"


# --------------------------------------------------------------------------------------------------
# Pages from templates: everything is escaped, and every name is made visible.


_KINDS = {"desk.css": "text/css", "desk.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES = files("dpgap.desk").joinpath("static")
STATIC = {name: (kind, (_FILES / name).read_text("utf-8")) for name, kind in _KINDS.items()}
STATIC["page.css"] = "text/css", STYLE

_templates = environment("dpgap.desk")


_templates.filters |= {
    "text": text_of,
    "down": readable_down,
    "up": readable_up,
    "decimal": lambda value: f"{math.floor(value * 10**12) / 10**12:.12g}",  # rounded down
    "about": about,
}


def shown(
    request: Request, template: str, at: At | None = None, *, status: int = 200, **values: Any
) -> Response:
    """A page from a template, with the values that every page (of a data set) needs."""
    desk = desk_of(request)
    if at is not None:
        left = desk.balance(at.visitor, at.data)
        values |= {"visitor": at.visitor, "data": at.data, "left": left}
    elif "visitor" not in values:
        values["visitor"] = browser_visitor(request)
    return HTMLResponse(_templates.get_template(template).render(values, desk=desk), status)


# --------------------------------------------------------------------------------------------------
# The pages for people: data sets, a question and what it will tell, answers and the archive.


router = APIRouter(include_in_schema=False)

_WRITTEN: dict[str, tuple[str, Callable[[str], str]]] = {
    "json": ("application/json", str),
    "html": ("text/html", lambda document: read_archived(document).to_html()),
    "csv": ("text/csv", lambda document: read_archived(document).to_csv()),
}
"""The formats of a download, by the ending of its name."""


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Our stylesheets and the one script."""
    if name not in STATIC:
        raise Refused(*NOT_THERE)
    kind, content = STATIC[name]
    return Response(content, media_type=kind, headers={"cache-control": "max-age=600"})


@router.get("/health")
async def health() -> Response:
    """A health check, for a proxy or a monitor."""
    return Response(status_code=204)


@router.get("/enter")
async def enter(request: Request) -> Response:
    """The login page: a field for a token, or the button that uses the printed link.

    Opening the link does not use it: browsers and virus scanners fetch links in advance.
    """
    link = request.query_params.get("link")
    if link is not None and browser_visitor(request) is not None:
        return _to("/")
    return shown(request, "enter.html", failed=False, link=link)


@router.post("/enter")
async def enter_by_form(request: Request) -> Response:
    """Enter by a token, or by the link that was printed."""
    auth = desk_of(request).auth
    form = await form_of(request)
    carried = auth.by_token(form.get("token", "").strip()) or auth.by_link(form.get("link", ""))
    if carried is None and browser_visitor(request) is not None:  # pressed twice
        return _to("/")
    if carried is None:
        return shown(request, "enter.html", status=401, failed=True, link=None)
    return with_pass(request, "/", carried)


@router.post("/leave")
async def leave(request: Request, visitor: Browser) -> Response:
    """Log out: remove the session cookie."""
    await form_of(request, visitor)
    return with_pass(request, "/enter", "")


@router.get("/")
async def front(request: Request) -> Response:
    """All data sets that somebody may ask about; unknown people are sent to the login page."""
    visitor = browser_visitor(request)
    return _to("/enter") if visitor is None else await run_in_threadpool(_home, request, visitor)


def _home(request: Request, visitor: Visitor) -> Response:
    """All data sets, and what is left of each."""
    listed = desk_of(request).datasets(visitor)
    return shown(request, "home.html", visitor=visitor, listed=listed)


@router.get("/programs")
def programs(request: Request, visitor: Browser) -> Response:
    """The routes of the JSON interface."""
    paths = request.app.openapi()["paths"]
    base = f"{'https' if request.app.state.is_https else 'http'}://{request.headers['host']}"
    return shown(request, "programs.html", visitor=visitor, paths=paths, base=base)


@router.get("/data/{name}")
def dataset(request: Request, at: AtData) -> Response:
    """The form of a question, its expected errors, and the button that asks it."""
    return _question_page(request, at, dict(request.query_params))


@router.post("/data/{name}/ask")
async def ask(request: Request, at: AtData) -> Response:
    """Ask, once; then show where the answer is."""
    _, visitor, data = at
    fields = await form_of(request, visitor)
    key = fields.pop("key", "")
    try:
        receipt = await request.app.state.asking.ask(visitor, data, fields, key)
    except Refused as refused:
        return await run_in_threadpool(_question_page, request, at, fields, refused)
    if receipt.state != "settled":
        return _to(f"/data/{data.name}/asked/{key}")
    return _to(_release_page(data, receipt))


@router.get("/data/{name}/asked/{key}")
def asked(request: Request, at: AtData, key: str) -> Response:
    """The state of a question, by the key of its form."""
    receipt = at.desk.receipt(at.visitor, at.data, key)
    if receipt.state == "settled":
        return _to(_release_page(at.data, receipt))
    return shown(request, "asked.html", at, receipt=receipt)


def _release_page(data: ListedData, receipt: Receipt) -> str:
    """The page of a release; it says so if nothing was charged for it now."""
    return f"/data/{data.name}/releases/{receipt.entry}{'?again=yes' if receipt.again else ''}"


@router.get("/data/{name}/archive")
def archive(request: Request, at: AtData, page: Paged) -> Response:
    """The archive: all paid releases, free to see."""
    rows = at.desk.archive(at.data, page)
    return shown(request, "archive.html", at, rows=rows, older=older(rows, page))


@router.get("/data/{name}/releases/{number}")
def release(request: Request, at: AtData, number: str) -> Response:
    """One release; with the ending of a format, as a file."""
    stem, dot, ending = number.partition(".")
    is_number = stem.isascii() and stem.isdigit() and len(stem) <= 12
    if not is_number or (dot and ending not in _WRITTEN):
        raise Refused(*NOT_THERE)
    document = at.desk.document(at.data, int(stem))
    if not dot:
        return shown(
            request,
            "release.html",
            at,
            release=read_archived(document),
            number=int(stem),
            again="again" in request.query_params,
        )
    kind, written = _WRITTEN[ending]
    headers = {
        "content-disposition": f'attachment; filename="{at.data.name}-{stem}.{ending}"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return Response(written(document), media_type=kind, headers=headers)


def _question_page(
    request: Request, at: At, sent: dict[str, str], refused: Refused | None = None
) -> Response:
    """The page of a question. If it cannot be asked, the page says why."""
    desk, visitor, data = at
    topic = sent.get("topic", "")
    if topic and topic not in data.topics:
        refused = refused or Refused(422, "topic must be one that the data set lists")
        sent = {}
    fields = _filled(sent, desk, data)
    expected = form = None
    try:
        with in_our_words():
            form = FilledForm.read(fields, data.decimal)
            expected = desk.expect(visitor, data, form)
    except Refused as refusal:
        refused = refused or refusal
    if form is not None:
        fields |= form.fields
    status = 200
    if refused is not None:
        status = refused.status
    template = "question.html"
    archived = []
    if sent.get("part") == "expect":  # the part that a moving slider changes
        template = "expect.html"
    else:
        archived = desk.archive(data, Page(limit=50))
    return shown(
        request,
        template,
        at,
        status=status,
        fields=fields,
        topic=data.topics[fields["topic"]],
        form=form,
        expected=expected,
        refused=refused,
        key=secrets.token_hex(16),
        recent=[charged for charged in archived if charged.is_shown][:5],
    )


def _filled(sent: dict[str, str], desk: Desk, data: ListedData) -> dict[str, str]:
    """The fields of the form; empty ones get the defaults of the topic."""
    name = sent.get("topic") or next(iter(data.topics))
    topic = data.topics[name]
    facts = desk.counts.slot(data, topic).facts
    k = 10
    if not facts.unknown:
        k = min(k, len(facts))
    filled = DEFAULTS | {
        "topic": name,
        "k": str(k),
        "delta": text_of(equal_part(data.delta, 100)),
    }
    filled |= {field: value for field, value in sent.items() if field in filled and value}
    if topic.of_all or filled["kind"] in ("count", "total"):
        filled["kind"] = topic.of_all or "top-k"
    if not topic.has_unknown_items:
        filled["delta"] = "0"
    return filled


# --------------------------------------------------------------------------------------------------
# The pages for stewards: what each person spent, and forms for the functions of the ledger.


stewards_router = APIRouter(include_in_schema=False)


@stewards_router.get("/steward")
def overview(request: Request, visitor: AStewardsBrowser) -> Response:
    """Everything that was spent at this desk."""
    desk = desk_of(request)
    listed = desk.datasets(visitor)
    books = [desk.ledger.outline(data.budget) for data in listed]
    return shown(request, "steward.html", visitor=visitor, listed=listed, **ledger_values(books))


@stewards_router.get("/steward/{name}")
def budget(request: Request, at: StewardAtData, page: Paged) -> Response:
    """One budget, with all its forms."""
    return _page(request, at, page)


@stewards_router.post("/steward/{name}/{what}")
async def change(request: Request, at: StewardAtData, what: str) -> Response:
    """Do a steward's action on a budget, then show the budget again."""
    fields = await form_of(request, at.visitor)
    again = at.desk.auth.with_token(fields.pop("token", ""))
    try:
        if what != "verify" and (again is None or again.name != at.visitor.name):
            raise Refused(
                403, "token must be your own: each change asks for it again. Nothing was changed."
            )
        await request.app.state.asking.act(at.visitor, at.data, what, fields)
    except Refused as refused:
        return await run_in_threadpool(_page, request, at, Page(), refused, {what: fields})
    return _to(f"/steward/{at.data.name}?done={what}")


def _page(
    request: Request, at: At, page: Page, refused: Refused | None = None, given: Any = None
) -> Response:
    """The page of a budget. `given` has the fields of a refused form, by its action."""
    desk, _, data = at
    entries = desk.entries(data, page)
    return shown(
        request,
        "budget.html",
        at,
        status=200 if refused is None else refused.status,
        refused=refused,
        given=given or {},
        done=request.query_params.get("done", ""),
        check=desk.checks.get(data.budget),
        unsettled=desk.unsettled(data),
        written_off=Steward(desk.ledger, data.budget).written_off(20)[::-1],
        entries=entries,
        older=older(entries, page),
        people=sorted(desk.people(data)),
    )
