"""Pages from templates: everything is escaped, and every name is made visible."""

from fractions import Fraction
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
from dpgap.desk.visits import browser_visitor, desk_of
from dpgap.exact.parameters import readable
from dpgap.releases.rows import visible
from dpgap.releases.standalone import STYLE
from dpgap.releases.titles import plural

STATIC = {
    "page.css": ("text/css", STYLE),
    **{
        name: (kind, files("dpgap.desk").joinpath("static", name).read_text(encoding="utf-8"))
        for name, kind in {
            "desk.css": "text/css",
            "desk.js": "text/javascript",
            "icon.svg": "image/svg+xml",
        }.items()
    },
}

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("dpgap.desk"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _epsilon(value: Fraction) -> str:
    return readable(value)


def _percent(share: Fraction | float) -> str:
    return f"{100 * float(share):.2f}%"


def _moment(at: str) -> str:
    return at[:16].replace("T", " ")


def _with_epsilon(query: str, epsilon: Fraction) -> str:
    """The same question for another ε."""
    return urlencode({**dict(parse_qsl(query)), "epsilon": text_of(epsilon)})


_templates.filters |= {
    "with_epsilon": _with_epsilon,
    "seen": visible,
    "plural": plural,
    "epsilon": _epsilon,
    "exact": text_of,
    "percent": _percent,
    "moment": _moment,
    "about": about,
    "shares": shares,
}


def shown(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A page, with what every page has."""
    desk = desk_of(request)
    visitor = values.pop("visitor") if "visitor" in values else browser_visitor(request)
    form_key = "" if visitor is None else desk.door.passes.form_key(visitor.carried)
    content = _templates.get_template(template).render(
        **values,
        title_of_desk=desk.file.title,
        visitor=visitor,
        form_key=form_key,
        is_local=desk.door.is_local,
    )
    return HTMLResponse(content, status_code=status)


def html(fragment: str) -> Markup:
    """HTML that our own release pages wrote, escaped already."""
    return Markup(fragment)
