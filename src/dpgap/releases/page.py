"""A release as HTML: what may be believed, the picture, the numbers, the guarantee, its making.

Whatever comes from data or user is made visible and escaped.
"""

import base64
import hashlib
import html
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from dpgap.exact.parameters import approximately, readable
from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.findings import (
    cut_in_words,
    general_findings,
    is_mostly_noise,
    measure_of,
    own_findings,
    plural,
    question_of,
    title_of,
    units_of,
    why_no_p_values,
)
from dpgap.releases.plain import HISTOGRAM, attempted, exact_text, sentences
from dpgap.releases.printable import printable, visible
from dpgap.releases.questions import Question, TableRelease
from dpgap.releases.release import (
    AGAIN,
    NAMES,
    Measured,
    MechanismUsed,
    Release,
    Selected,
    few_digits_up,
)
from dpgap.releases.text import Row, cells_of, rows_of

# --------------------------------------------------------------------------------------------------
# A page that stands alone: one stylesheet, and a policy that forbids whatever is not on the page.
#
# No scripts, no fonts, no images, nothing from outside, and no styles but those of `page.css`. All
# of its rules are about what is inside the class `dpgap`, so that they do not touch a page around
# it.


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


# --------------------------------------------------------------------------------------------------
# The rows of a release as a dot plot: names and numbers are text, dots and lines are drawn.
#
# Every place in the drawing is a share of its width. So it fits a phone and a wide screen, and its
# letters are as large as those around it.


_LONG = 8
"""A picture of more rows than this has an axis above as well as below."""
_NEAR_ZERO = 0.1
"""The scale begins at 0 if that takes no more than this share of it."""
_NARROW = 270
"""How many pixels wide the drawing is at least: its axis has room on a phone."""
_LETTER = 7.5
_DOTS = "A dot is an estimate, the band around it its 95% interval."


class Scale(NamedTuple):
    """Where on the drawing a value lies, and which round numbers stand below it."""

    low: float
    high: float
    step: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Scale | None":
        """A scale that shows these values; None where they are too large for that."""
        low, high = min(values), max(values)
        if 0 < low <= _NEAR_ZERO * high or low == high > 0:
            low = 0.0
        if high < 0 or low == high:
            high = max(high + 1.0, 0.0)
        span = high - low
        if not math.isfinite(span) or span < 1e-9 * max(abs(low), abs(high)):
            return None
        power = 10.0 ** math.floor(math.log10(span / 10))
        steps = (power * factor for factor in (1, 2, 5, 10, 20, 50, 100))
        return next(scale for step in steps if (scale := cls(low, high, step)).has_room)

    @property
    def has_room(self) -> bool:
        """Whether the numbers below it do not touch each other."""
        longest = max((len(self.text(tick)) for tick in self.ticks), default=0)
        apart = self.step / (self.high - self.low) * 0.92 * _NARROW
        return apart >= _LETTER * (longest + 1) or len(self.ticks) <= 1

    @property
    def ticks(self) -> list[float]:
        """The round numbers on the scale."""
        first, last = math.ceil(self.low / self.step), math.floor(self.high / self.step)
        return [self.step * number for number in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A round number with as many digits as its step has."""
        digits = max(0, -math.floor(math.log10(self.step)))
        if abs(tick) >= 1e15 or digits > 3:
            return f"{tick:.6g}"
        return f"{tick:,.{digits}f}"

    def value(self, value: float) -> str:
        """A value with as many digits as the others on this scale."""
        largest = max(abs(self.low), abs(self.high))
        return f"{value:.6g}" if largest >= 1e15 else f"{value:,.{int(largest < 100)}f}"

    def __call__(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low)
        return f"{4 + 92 * min(max(share, 0.0), 1.0):.2f}%"


def picture(release: Measured, units: str = "", *, is_first: bool = True) -> str:
    """A dot and an interval for each row, with its rank, name and estimate; HTML.

    What dots and bands are is said below the first of several pictures.
    """
    rows = rows_of(release)
    line = None if release.line is None else float(release.line)
    if not rows:
        return ""
    ends = [end for row in rows for end in (row.low, row.estimate, row.high) if end is not None]
    scale = Scale.of(ends if line is None else [*ends, line])
    if scale is None:
        return "<p>The values are too large, or too close to each other, to be drawn.</p>"
    axis = _axis(scale, units)
    above = axis if len(rows) > _LONG else ""
    mark = "" if line is None else _mark(scale, line)
    groups = release.groups()
    has_brackets = len(groups) < len(rows)
    body = "".join(_group(scale, line, rows, group) for group in groups)
    said = [_DOTS] if is_first else []
    said += _caption(scale, line, has_brackets)
    caption = f"<figcaption>{' '.join(said)}</figcaption>\n" if said else ""
    return (
        f"<figure>\n{caption}"
        '<div class="plot" role="img" aria-label="The estimates and intervals of the table, drawn">'
        f"{mark}{above}{body}{axis}</div>\n</figure>"
    )


def _caption(scale: Scale, line: float | None, has_brackets: bool) -> Iterator[str]:
    if has_brackets:
        yield "The order of rows in a bracket is not sure."
    if line is not None:
        yield "The dashed line is what items had to exceed."
    if scale.low > 0:
        yield f"The scale begins at {scale.value(scale.low)}, not at 0."


def _group(scale: Scale, line: float | None, rows: list[Row], ranks: Sequence[int]) -> str:
    """Rows whose order is not sure stand in a bracket."""
    body = "".join(_dot(scale, line, rows[rank - 1]) for rank in ranks)
    if len(ranks) == 1:
        return body
    return f'<div class="close">{body}</div>'


def _dot(scale: Scale, line: float | None, row: Row) -> str:
    x, high = scale(row.estimate), scale(row.high)
    low = "0" if row.low is None else scale(row.low)
    drawn = (
        f'<line class="guide" x1="0" x2="100%" y1="50%" y2="50%"/>{"".join(_behind(scale, line))}'
        f'<line class="interval" x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
        f'<circle class="dot" cx="{x}" cy="50%" r="3"/>'
    )
    name = f'<span class="rank">{row.rank}</span> <bdi>{html.escape(visible(row.item))}</bdi>'
    return drawn_row(name, drawn, scale.value(row.estimate))


def drawn_row(name: str, drawn: str, value: str, kind: str = "") -> str:
    """A name, a drawing as wide as there is room, and a value; all are HTML."""
    return (
        f'<div class="row{kind}"><span class="name">{name}</span>'
        f'<svg width="100%" height="28" aria-hidden="true">{drawn}</svg>'
        f'<span class="value">{value}</span></div>'
    )


def _behind(scale: Scale, line: float | None) -> Iterator[str]:
    """The lines that every row has behind it."""
    for tick in scale.ticks:
        yield _upright("zero" if tick == 0 else "grid", scale(tick))
    if line is not None:
        yield _upright("threshold", scale(line))


def _upright(kind: str, x: str) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="0" y2="100%"/>'


def _axis(scale: Scale, units: str) -> str:
    numbers = "".join(
        f'<text x="{scale(tick)}" y="18" text-anchor="middle">{scale.text(tick)}</text>'
        for tick in scale.ticks
    )
    return drawn_row(units, numbers, "", " axis")


def _mark(scale: Scale, line: float) -> str:
    """The words above the line that items had to exceed."""
    x = scale(line)
    anchor = "start" if float(x[:-1]) < 50 else "end"
    words = f'<text x="{x}" y="18" text-anchor="{anchor}">the line: {scale.value(line)}</text>'
    return drawn_row("", words, "", " axis")


# --------------------------------------------------------------------------------------------------
# A release as HTML: what may be believed, the picture, the numbers, the guarantee, its making.


_NAMES = (*NAMES, "index")


def page(release: Release) -> str:
    """The whole document, which stands alone."""
    question = question_of(release)
    made = html.escape(release.made.words(question and question.origin.table))
    return standalone(html.escape(title_of(release)), fragment(release), f"{made}.")


def notebook(release: Release) -> str:
    """The same for a notebook's cell: with the stylesheet, without a page around it."""
    title = html.escape(title_of(release))
    body = f'<p class="title">{title}</p>\n{fragment(release)}'
    return f'<style>{STYLE}</style>\n<div class="dpgap">\n{body}\n</div>'


def fragment(release: Release) -> str:
    """All but the title: what a page that has its own shows inside an element of class `dpgap`."""
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "answer": lambda: answer(release),
        "guarantee": lambda: [_guarantee(release)],
        "reading": lambda: how_to_read(reading_of(release)),
        "making": lambda: [_making(release)],
    }
    return "\n".join(piece for name, make in parts.items() for piece in sentences(name, make))


def answer(
    release: Release, level: int = 2, name: str = "group", *, is_alone: bool = True
) -> Iterator[str]:
    """What was found: findings and numbers, with headings of this level; `name` is for links.

    What is said of many releases is left out if it is not alone on its page.
    """
    yield from sentences("lead", lambda: _lead(release))
    if not isinstance(release, ReleasesByGroup):
        yield from _found(release, sentences("findings", lambda: _said(release, is_alone)), level)
        yield from _numbers(release, level)
        return
    yield from _found(release, cut_in_words(release), level)
    groups = [f"<bdi>{safe(group)}</bdi>" for group in release]
    names = [f"{name}-{place}" for place in range(1, len(groups) + 1)]
    yield contents(groups, names, "groups")
    for place, (group, each, at) in enumerate(zip(groups, release.values(), names, strict=True)):
        numbers = _numbers(each, level + 1, is_first=not place)
        content = [*_found(each, own_findings(each), level + 1), *numbers]
        yield f'<div class="part">{section(group, "".join(content), level, at)}</div>'


def _said(release: Release, is_alone: bool) -> tuple[str, ...]:
    if is_alone or not isinstance(release, Selected):
        return release.findings
    return (*cut_in_words(release), *own_findings(release), *why_no_p_values(release))


def _lead(release: Release) -> Iterator[str]:
    if release.made.again:
        yield f'<p class="lead">{AGAIN}</p>'
    question = question_of(release)
    if question is not None:
        spent, came_to = "all of it", getattr(release, "spent", release.epsilon)
        if came_to != release.epsilon:
            spent = f"about {approximately(came_to, 3)}"
        delta = f", δ = {readable(question.delta)}" if question.delta else ""
        promise = f"ε = {readable(release.epsilon)}{delta}, {spent} spent."
        yield f'<p class="lead">{text("".join(_looked_at(release, question)) + promise)}</p>'


def _looked_at(release: Release, question: Question) -> Iterator[str]:
    """How many items are shown of how many, and what they are ranked by."""
    origin, items = question.origin, plural(question.origin.item)
    of = "" if question.items is None else f" of {question.items:,}"
    if isinstance(release, TableRelease):
        yield f"{release.indices.size:,}{of} {items}, {measure_of(question)}. "
    elif isinstance(release, ReleasesByGroup):
        most = f"{question.k:,}{of} " if question.threshold is None else ""
        words = f"{most}{items} in each of {len(release):,} {plural(origin.by or 'group')}"
        yield f"{words[0].upper()}{words[1:]}, {measure_of(question)}. "
    if origin.where is not None and visible(origin.where) not in title_of(release):
        yield f"Only rows where {visible(origin.where)}. "


def _found(release: Release, findings: Sequence[str], level: int) -> Iterator[str]:
    """What may be believed, before any number."""
    if findings:
        kind = "findings noise" if is_mostly_noise(release) else "findings"
        content = section("What may be believed", listed(list(map(text, findings))), level)
        yield f'<div class="{kind}">{content}</div>'


def _numbers(release: Release, level: int, *, is_first: bool = True) -> tuple[str, ...]:
    return sentences("numbers", lambda: _numbers_of(release, level, is_first))


def _numbers_of(release: Release, level: int, is_first: bool) -> Iterator[str]:
    columns = cells_of(release)
    if not any(columns.values()):
        return
    content, kinds = _table(columns), ["measured" if isinstance(release, Measured) else "numbers"]
    if isinstance(release, Measured):
        units = units_of(release.question) if isinstance(release, TableRelease) else ""
        draw = partial(picture, release, html.escape(units), is_first=is_first)
        content = attempted("picture", draw, "") + content
    if is_mostly_noise(release):
        content = f'<p class="lead">Greyed, because it is mostly noise.</p>{content}'
        kinds.append("noise")
    yield f'<div class="{" ".join(kinds)}">{section("The numbers", content, level)}</div>'


def _table(columns: dict[str, list[str]]) -> str:
    head = "".join(map(_heading, columns))
    rows = zip(*columns.values(), strict=True)
    body = "\n".join(f"<tr>{''.join(map(_cell, columns, row))}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _heading(name: str) -> str:
    kind = ' class="name"' if name in _NAMES else ""
    return f'<th scope="col"{kind}>{html.escape(name)}</th>'


def _cell(name: str, cell: str) -> str:
    if name in _NAMES:
        return f'<th scope="row"><bdi>{html.escape(cell)}</bdi></th>'
    return f'<td data-heading="{html.escape(name)}">{html.escape(cell)}</td>'


def _guarantee(release: Release) -> str:
    words = f"<p>{text(printable(release.guarantee))}</p>"
    question = question_of(release)
    if question is not None and not question.origin.is_private:
        return f'<div class="warning">{section("Not private", words)}</div>'
    return section("What is guaranteed", words)


_BEFORE_SELECTION = (
    "An interval accounts for all noise that was added, but not for having looked only at the "
    "winners: where neighbours are nearly equal, the estimates of winners tend to be a little too "
    "high."
)
_AFTER_SELECTION = (
    "An interval accounts for all noise that was added, also after selecting the winners."
)
_EACH_ALONE = (
    "Each interval is about one value. What may be believed is about all values at once, so that "
    "it claims a little less."
)
_LEADS = (
    "“lead over next” is by how much an estimate is above the next one; “give or take”, how far "
    "that may be off, for all leads at once."
)
_GAPS = "The gaps that the selection found are part of the release, and cost no extra privacy."
_OTHERS = (
    "Items were asked in a random order until the budget was used, so that others may be above the "
    "line as well."
)
_SET = "The items were chosen as one set, which takes less noise than ranking them."
_MORE = "Items far above the line cost less ε, so that there may be more than were asked for."
_READ_OFF = (
    "Every item got its own noise, and these were the largest. An item just above the rest may owe "
    "its place to luck; then its interval has no lower end (“≤ …”), and its lead no “give or "
    "take”."
)
_AGAIN = "Asking again gives other noise, and costs its ε again."


def reading_of(release: Release) -> list[str]:
    """How to read the numbers: sentences of HTML."""
    if not isinstance(release, ReleasesByGroup):
        return [text(sentence) for sentence in _reading(release)]
    said = (sentence for each in release.values() for sentence in _reading(each))
    return [text(sentence) for sentence in dict.fromkeys((*release.general_findings, *said))]


def _reading(release: Release) -> Iterator[str]:
    if not isinstance(release, Measured) or not release.indices.size:
        return
    yield _BEFORE_SELECTION if release.method == "paper" else _AFTER_SELECTION
    if release.indices.size > 1:
        yield _EACH_ALONE
        yield _LEADS
    yield {"joint": _SET, HISTOGRAM: _READ_OFF}.get(release.route or "", _GAPS)
    if release.line is not None and release.route != HISTOGRAM:
        yield _OTHERS
        if isinstance(release, TableRelease) and release.indices.size > (release.question.k or 0):
            yield _MORE
    yield _AGAIN


def how_to_read(reading: list[str]) -> Iterator[str]:
    """The section of these sentences of HTML, if there are any."""
    if reading:
        yield section("How to read the numbers", listed(reading))


def _making(release: Release) -> str:
    return section("How it was made", terms_and_mechanisms(made(release), release.mechanisms))


def made(release: Release) -> dict[str, str]:
    """When and how a release was made: what is said, and what of it."""
    terms = {"made": release.made.words()}
    if release.made.ledger is not None:
        terms["hash of that entry"] = release.made.ledger.hash
    question = question_of(release)
    if question is not None:
        terms |= _asked(question)
    if remark := attempted("remark", lambda: release.remark, ""):
        terms["how it was found"] = remark
    if isinstance(release, Measured) and release.looked:
        seen = "; ".join(f"rank {rank}: {value:,.1f}" for rank, value in release.looked)
        terms["what the look measured"] = f"{seen} (part of the release)"
    return terms


def terms_and_mechanisms(terms: dict[str, str], mechanisms: Sequence[MechanismUsed]) -> str:
    """What was said of a release, and what drew its noise, as a list."""
    pairs = "".join(f"<dt>{name}</dt><dd>{safe(term)}</dd>" for name, term in terms.items())
    used = "".join(f"<dd>{safe(_used(each))}</dd>" for each in mechanisms)
    return f"<dl>{pairs}{'<dt>mechanisms, in order</dt>' if used else ''}{used}</dl>"


def _used(mechanism: MechanismUsed) -> str:
    words = {True: "yes", False: "no"}
    parameters = ", ".join(
        f"{name} {words[value] if isinstance(value, bool) else value}"
        for name, value in mechanism.parameters
        if value is not None
    )
    return f"{mechanism.name}: {parameters}"


_NAMED = {"by": "groups of", "groups_digest": "hash of the groups", "sum": "sum of"}
"""What bounds are called where their own names say too little."""


def _asked(question: Question) -> dict[str, str]:
    origin = question.origin
    terms = {
        "question": question.purpose,
        "table": origin.table or "a frame",
        "ε, exactly": exact_text(question.epsilon),
        "unit": origin.unit,
        "neighbours": origin.neighbours,
    }
    if question.kind != "count":
        terms |= {"item": origin.item, "domain": origin.domain, "method": question.method}
    if question.delta:
        terms["δ, exactly"] = exact_text(question.delta)
    bounds = origin.bounds()
    bounds.pop("unknown", None)  # the domain says so
    terms |= {_NAMED.get(name, name.replace("_", " ")): str(each) for name, each in bounds.items()}
    if question.threshold is not None:
        terms["threshold, exactly"] = exact_text(question.threshold)
        terms["adaptive"] = "yes" if question.adaptive else "no"
    return terms


# --------------------------------------------------------------------------------------------------
# Several releases about one table as one page: each answer, then one guarantee for all of them.
#
# What is the same for all of them is said once: the guarantee, how to read numbers, how they were
# made. What a question has of its own is said under its title.


def session_page(releases: Sequence[Release], words: str) -> str:
    """All releases as one document; `words` say what they came to."""
    titles = [html.escape(title_of(release)) for release in releases]
    names = [f"question-{place}" for place in range(1, len(releases) + 1)]
    said = (sentences("reading", partial(_session_reading, release)) for release in releases)
    reading = list(dict.fromkeys(chain.from_iterable(said)))
    parts = [
        f'<p class="lead">{text(words)}</p>',
        contents(titles, names, "questions"),
        *map(_answered, releases, titles, names),
        *sentences("guarantee", lambda: _guarantees(releases, titles)),
        *how_to_read(reading),
        *sentences("making", lambda: _session_making(releases, titles)),
    ]
    last = f"{html.escape(releases[-1].made.words())}." if releases else ""
    return standalone(html.escape(_title(releases)), "\n".join(filter(None, parts)), last)


def _title(releases: Sequence[Release]) -> str:
    asked = [question for release in releases if (question := question_of(release))]
    tables = {question.origin.table for question in asked}
    many = {0: "No question", 1: "1 question"}.get(len(releases), f"{len(releases):,} questions")
    table = tables.pop() if len(tables) == 1 else None
    return many if table is None else f"{many} about {printable(table)}"


def _answered(release: Release, title: str, name: str) -> str:
    made = sentences("answer", lambda: answer(release, 3, f"{name}-group", is_alone=False))
    content = "\n".join(made)
    return f'<div class="part">{section(title, content, 2, name)}</div>'


def _session_reading(release: Release) -> Iterator[str]:
    """How far claims may be trusted, which is said of each question; and how to read numbers."""
    if isinstance(release, Selected):
        said = [each for each in general_findings(release) if each not in why_no_p_values(release)]
        for sentence in said:
            yield text(sentence.replace("Claims about", "For each question, claims about"))
    yield from reading_of(release)


def _guarantees(releases: Sequence[Release], titles: Sequence[str]) -> Iterator[str]:
    """One for all of it, and under what conditions; those of one question have its title."""
    asked = [question for release in releases if (question := question_of(release))]
    exposed = [question for question in asked if not question.origin.is_private]
    if exposed:
        words = "".join(f"<p>{text(question.guarantee())}</p>" for question in exposed)
        yield f'<div class="warning">{section("Not private", words)}</div>'
    elif asked:
        said = [[text(printable(each)) for each in question.conditions()] for question in asked]
        common = [each for each in said[0] if all(each in own for own in said)]
        promise = text(f"All of this page together: {_promise(releases, asked)}")
        whole = f"<p>{' '.join([promise, *common])}</p>"
        own: dict[str, str] = {}
        for title, each in zip(titles, said, strict=True):
            rest = " ".join(sentence for sentence in each if sentence not in common)
            own[rest] = f"{own.get(rest, '')}<dt>{title}</dt>"
        parts = "".join(f"{whose}<dd>{rest}</dd>" for rest, whose in own.items() if rest)
        more = f'<dl class="of-each">{parts}</dl>' if parts else ""
        yield section("What is guaranteed", whole + more)


def _promise(releases: Sequence[Release], asked: Sequence[Question]) -> str:
    """What the ε of all questions come to. A release that is shown again counts once."""
    paid = {release.made.ledger or place: release for place, release in enumerate(releases)}
    epsilon = sum((getattr(each, "spent", each.epsilon) for each in paid.values()), Fraction(0))
    delta = sum((each.promise.delta for each in paid.values()), Fraction(0))
    chance = Fraction(few_digits_up(delta)) if delta else delta
    said = max(asked, key=lambda question: question.kind != "count")
    promise = said.promise_of(Fraction(few_digits_up(epsilon)), chance)
    return promise[0].lower() + promise[1:]


def _session_making(releases: Sequence[Release], titles: Sequence[str]) -> Iterator[str]:
    """What is the same for all releases, then what is not."""
    terms = [made(release) for release in releases]
    if not terms:
        return
    common = dict(item for item in terms[0].items() if all(item in own.items() for own in terms))
    parts = [terms_and_mechanisms(common, ())] if common else []
    for release, title, own in zip(releases, titles, terms, strict=True):
        rest = {name: term for name, term in own.items() if name not in common}
        parts.append(section(title, terms_and_mechanisms(rest, release.mechanisms), 3))
    yield section("How it was made", "\n".join(parts))
