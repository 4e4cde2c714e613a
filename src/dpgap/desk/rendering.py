"""Pages from templates: everything is escaped, and every name is made visible."""

import math
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jinja2
from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from dpgap.desk.asking import text_of
from dpgap.desk.desk import shares
from dpgap.desk.expecting import about
from dpgap.desk.visits import At, browser_visitor, desk_of
from dpgap.exact.parameters import readable
from dpgap.releases.findings import plural
from dpgap.releases.page import STYLE
from dpgap.releases.printable import visible

_KINDS = {"desk.css": "text/css", "desk.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES = files("dpgap.desk").joinpath("static")
STATIC = {name: (kind, (_FILES / name).read_text("utf-8")) for name, kind in _KINDS.items()}
STATIC["page.css"] = "text/css", STYLE

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("dpgap.desk"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _with_epsilon(query: str, epsilon: Fraction) -> str:
    """The same question for another ε."""
    return urlencode({**dict(parse_qsl(query)), "epsilon": text_of(epsilon)})


_templates.filters |= {
    "with_epsilon": _with_epsilon,
    "seen": visible,
    "plural": plural,
    "epsilon": lru_cache(maxsize=1024)(readable),  # lists have the same ones again and again
    "decimal": lambda value: f"{math.floor(value * 10**12) / 10**12:.12g}",  # never more than it is
    "percent": lambda share: f"{100 * float(share):.2f}%",
    "moment": lambda at: at[:16].replace("T", " "),
    "about": about,
    "shares": shares,
}


def shown(
    request: Request, template: str, at: At | None = None, *, status: int = 200, **values: Any
) -> Response:
    """A page, with what every page has, and what every page of a data set has."""
    desk = desk_of(request)
    if at is not None:
        values |= {"visitor": at.visitor, "data": at.data}
        if "left" not in values:
            values["left"] = desk.left(at.visitor, at.data)
    visitor = values["visitor"] if "visitor" in values else browser_visitor(request)
    values |= {"title_of_desk": desk.file.title, "is_local": desk.door.is_local}
    values["visitor"] = visitor
    values["form_key"] = visitor and desk.door.passes.form_key(visitor.carried)
    return HTMLResponse(_templates.get_template(template).render(values), status_code=status)


def html(fragment: str) -> Markup:
    """HTML that our own release pages wrote, escaped already."""
    return Markup(fragment)
