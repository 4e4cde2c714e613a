"""A page that stands alone: one stylesheet, and a policy that forbids whatever is not on the page.

No scripts, no fonts, no images, nothing from outside, and no styles but those of `page.css`. All of
its rules are about what is inside the class `dpgap`, so that they do not touch a page around it.
"""

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib.resources import files

from dpgap.releases.printable import visible

STYLE = files("dpgap.releases").joinpath("page.css").read_text(encoding="utf-8")
"""The one stylesheet, for a `<style>` element."""

_TOGETHER = re.compile(r"(?<=[εδp]) (?=[=<≈])|(?<=[εδp] [=<≈]) |(?<=\d) (?=%)")
_MANY = 4
"""A page of as many parts has a table of contents."""


def content_policy(*styles: str) -> str:
    """The strictest policy that allows these stylesheets, known by their hashes, and nothing else.

    >>> content_policy("p { margin: 0 }")
    "default-src 'none'; style-src 'sha256-7IWhgxoOGTB5NQzjGk9OPt0FwhVeBvZGoWgF9xLLh8c='"
    """
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in styles)
    allowed = " ".join(f"'sha256-{each.decode()}'" for each in hashes)
    return f"default-src 'none'; style-src {allowed}"


CONTENT_POLICY = content_policy(STYLE)
"""The policy under which a page of a release can be served; it states it itself as well."""


def standalone(title: str, body: str, footer: str, *, more_styles: Sequence[str] = ()) -> str:
    """The whole document, of HTML; `more_styles` are those of drawings in it."""
    policy = content_policy(STYLE, *more_styles)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n"
        f'<body class="dpgap">\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n'
        f"<footer>{footer} This page loads nothing and runs nothing.</footer>\n</body>\n</html>\n"
    )


def section(title: str, content: str, level: int = 2, name: str = "") -> str:
    """A part of a page with its heading; links lead to it if it has a name. All are HTML."""
    at = f' id="{name}"' if name else ""
    return f"<section{at}>\n<h{level}>{title}</h{level}>\n{content}\n</section>"


def contents(titles: Sequence[str], names: Sequence[str], kind: str) -> str:
    """Links to the parts of a page; nothing where they are few."""
    if len(titles) < _MANY:
        return ""
    links = (
        f'<li><a href="#{name}">{title}</a></li>' for title, name in zip(titles, names, strict=True)
    )
    return f'<nav class="{kind}" aria-label="On this page"><ol>{"".join(links)}</ol></nav>'


def listed(sentences: list[str]) -> str:
    """Sentences of HTML, one below the other."""
    return f"<ul>{''.join(f'<li>{sentence}</li>' for sentence in sentences)}</ul>"


def safe(name: object) -> str:
    """An untrusted name in full, visible and escaped."""
    return html.escape(visible(name))


def text(sentence: str) -> str:
    """A sentence, escaped, in which no line ends inside of "ε = 1", "p < 0.001" or "95 %"."""
    return "&nbsp;".join(map(html.escape, _TOGETHER.split(sentence)))
