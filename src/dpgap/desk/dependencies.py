"""FastAPI dependencies: who sent a request, what its form holds, and how a page is rendered.

Authentication runs on the event loop (`async`). So strangers get no thread, and a question does not
wait for threads that pages hold while the ledger is slow.
"""

import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Query, Request, Response
from fastapi.responses import HTMLResponse

from dpgap.budget.entries import Entry
from dpgap.desk.auth import LASTS, Visitor
from dpgap.desk.config import ListedData
from dpgap.desk.middleware import ENTER, Refused
from dpgap.desk.questions import about, text_of
from dpgap.desk.queue import Archived, Desk, Page
from dpgap.releases.page import STYLE, environment

_FIELDS = 40
_AT_ONCE = 12
"""How many requests of one person are worked on at a time; up to 8 of them may be questions."""


def desk_of(request: Request) -> Desk:
    """The desk that this application is for."""
    found: Desk = request.app.state.desk
    return found


def browser_visitor(request: Request) -> Visitor | None:
    """The owner of the session cookie, if there is one."""
    carried = request.cookies.get(_cookie(request))
    return None if carried is None else desk_of(request).auth.with_pass(carried)


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
    """Refuse a request of somebody who has too many under way, before it takes a thread."""
    bearer, auth = request.headers.get("authorization", ""), desk_of(request).auth
    visitor = (auth.with_token(bearer[7:]) if bearer else None) or browser_visitor(request)
    if visitor is None:
        yield  # whoever is not known gets nothing that takes long
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
    """The same dependency, which refuses everybody but stewards."""

    async def steward(request: Request) -> Visitor:
        visitor = await who(request)
        if not visitor.person.is_steward:
            raise Refused(403, "This is for stewards.")
        return visitor

    return steward


def _at_data(who: Who) -> Any:
    async def at(request: Request, name: str) -> At:
        desk, visitor = desk_of(request), await who(request)
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


def older(rows: Sequence[Archived | Entry], page: Page) -> int | None:
    """What `before` must be for the next page of a list, the newest first; None after the last."""
    return rows[-1].number if len(rows) == page.limit else None


async def form_of(request: Request, visitor: Visitor | None = None) -> dict[str, str]:
    """The fields of a form. The form of a known person must have the key of their session."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "This is not a form.")
    try:
        text = (await request.body()).decode()
        found = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise Refused(400, "This form cannot be read.") from None
    if visitor is not None:
        given = found.pop("form_key", "")
        if not desk_of(request).auth.passes.is_form_key(visitor.carried, given):
            words = "This form has expired. Load the page again, then send it."
            raise Refused(403, words)
    return found


def give_pass(request: Request, response: Response, carried: str) -> None:
    """Set the session cookie; an empty one removes it."""
    options: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": "/"}
    options |= {"max_age": LASTS if carried else 0, "secure": request.app.state.is_https}
    response.set_cookie(_cookie(request), carried, **options)


def _cookie(request: Request) -> str:
    """The name of the cookie. Desks on one machine share cookies, so it has the port."""
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
    "with_epsilon": lambda query, epsilon: urlencode(  # the same question for another ε
        {**dict(parse_qsl(query)), "epsilon": text_of(epsilon)}
    ),
    "decimal": lambda value: f"{math.floor(value * 10**12) / 10**12:.12g}",  # never more than it is
    "percent": lambda share: f"{100 * float(share):.2f}%",
    "about": about,
}


def shown(
    request: Request, template: str, at: At | None = None, *, status: int = 200, **values: Any
) -> Response:
    """A page, with what every page has, and what every page of a data set has."""
    desk = desk_of(request)
    if at is not None:
        values |= {"visitor": at.visitor, "data": at.data}
        values["left"] = desk.balance(at.visitor, at.data)
    visitor = values["visitor"] if "visitor" in values else browser_visitor(request)
    values |= {"title_of_desk": desk.file.title, "is_local": desk.auth.is_local}
    values["visitor"] = visitor
    values["form_key"] = visitor and desk.auth.passes.form_key(visitor.carried)
    return HTMLResponse(_templates.get_template(template).render(values), status_code=status)
