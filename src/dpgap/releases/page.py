"""A release as HTML: what may be believed, the picture, the numbers, the guarantee, its making.

Whatever comes from data or user is made visible and escaped.
"""

import html
from collections.abc import Iterator, Sequence

from dpgap.exact.parameters import approximately, readable
from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.findings import is_mostly_noise
from dpgap.releases.numbers import exact_text
from dpgap.releases.picture import picture
from dpgap.releases.printable import printable
from dpgap.releases.provenance import AGAIN, MechanismUsed
from dpgap.releases.questions import Question, TableRelease
from dpgap.releases.release import NAMES, Release, Selected
from dpgap.releases.results import Measured
from dpgap.releases.rows import cells_of
from dpgap.releases.standalone import STYLE, listed, safe, section, standalone
from dpgap.releases.titles import measure_of, plural, question_of, title_of, units_of

_NAMES = (*NAMES, "index")


def page(release: Release) -> str:
    """The whole document, which stands alone."""
    question = question_of(release)
    made = html.escape(release.made.words(question and question.origin.table))
    return standalone(html.escape(title_of(release)), fragment(release), f"{made}.")


def session_page(releases: Sequence[Release], words: str) -> str:
    """Several releases as one document, one below the other; `words` say what they came to."""
    parts = [
        f'<section class="release">\n<h2>{html.escape(title_of(release))}</h2>\n'
        f"{fragment(release)}\n</section>"
        for release in releases
    ]
    lead = f'<p class="lead">{html.escape(words)}</p>'
    return standalone("What was asked in this session", "\n".join([lead, *parts]), "")


def notebook(release: Release) -> str:
    """The same for a notebook's cell: with the stylesheet, without a page around it."""
    title = html.escape(title_of(release))
    body = f'<p class="title">{title}</p>\n{fragment(release)}'
    return f'<style>{STYLE}</style>\n<div class="dpgap">\n{body}\n</div>'


def fragment(release: Release) -> str:
    """All but the title: what a page that has its own shows inside an element of class `dpgap`."""
    shown = [*_found(release), *_numbers(release)]
    if isinstance(release, ReleasesByGroup):
        shown = [_group(group, answer) for group, answer in release.items()]
    return "\n".join(
        [
            *_lead(release),
            *shown,
            _guarantee(release),
            *_reading(release),
            section("How it was made", _made(release)),
        ]
    )


def _group(group: object, answer: TableRelease) -> str:
    """The answer for one group."""
    content = "\n".join([*_found(answer), *_numbers(answer)])
    return f'<section class="group">\n<h2><bdi>{safe(group)}</bdi></h2>\n{content}\n</section>'


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
        yield f'<p class="lead">{"".join(_looked_at(release, question))}{promise}</p>'


def _looked_at(release: Release, question: Question) -> Iterator[str]:
    """How many items are shown of how many, and what they are ranked by."""
    if isinstance(release, TableRelease):
        found, items = release.indices.size, safe(plural(question.origin.item))
        of = "" if question.items is None else f" of {question.items:,}"
        yield f"{found:,}{of} {items}, {html.escape(measure_of(question))}. "
    if question.origin.where is not None:
        yield f"Only rows where {safe(question.origin.where)}. "


def _found(release: Release) -> Iterator[str]:
    """What may be believed, before any number."""
    if release.findings:
        sentences = [html.escape(sentence) for sentence in release.findings]
        kind = "findings noise" if _is_noise(release) else "findings"
        yield f'<div class="{kind}">{section("What may be believed", listed(sentences))}</div>'


def _is_noise(release: Release) -> bool:
    return isinstance(release, Selected) and is_mostly_noise(release)


def _numbers(release: Release) -> Iterator[str]:
    columns = cells_of(release)
    if not any(columns.values()):
        return
    content, kinds = _table(columns), []
    if isinstance(release, Measured):
        units = units_of(release.question) if isinstance(release, TableRelease) else ""
        content = picture(release, html.escape(units)) + content
        kinds.append("measured")
    if _is_noise(release):
        content = f'<p class="lead">Greyed, because it is mostly noise.</p>{content}'
        kinds.append("noise")
    yield f'<div class="{" ".join(kinds)}">{section("The numbers", content)}</div>'


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
    words = f"<p>{html.escape(printable(release.guarantee))}</p>"
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
_READ_OFF = (
    "Every item got its own noise, and these were the largest. An item just above the rest may owe "
    "its place to luck; then its interval has no lower end (“at most …”)."
)


def _reading(release: Release) -> Iterator[str]:
    if not isinstance(release, Measured) or not release.indices.size:
        return
    sentences = [_BEFORE_SELECTION if release.method == "paper" else _AFTER_SELECTION, _LEADS]
    sentences.append({"joint": _SET, "histogram": _READ_OFF}.get(release.route or "", _GAPS))
    sentences += [] if release.line is None or release.route == "histogram" else [_OTHERS]
    sentences.append("Asking again gives other noise, and costs its ε again.")
    yield section("How to read the numbers", listed(sentences))


def _made(release: Release) -> str:
    terms = {"made": release.made.words()}
    if release.made.ledger is not None:
        terms["hash of that entry"] = release.made.ledger.hash
    question = question_of(release)
    if question is not None:
        terms |= _asked(question)
    if release.remark:
        terms["how it was found"] = release.remark
    if isinstance(release, Measured) and release.looked:
        seen = "; ".join(f"rank {rank}: {value:,.1f}" for rank, value in release.looked)
        terms["what the look measured"] = f"{seen} (part of the release)"
    pairs = "".join(f"<dt>{name}</dt><dd>{safe(term)}</dd>" for name, term in terms.items())
    used = "".join(f"<dd>{safe(_used(each))}</dd>" for each in release.mechanisms)
    return f"<dl>{pairs}<dt>mechanisms, in order</dt>{used}</dl>"


def _used(mechanism: MechanismUsed) -> str:
    words = {True: "yes", False: "no"}
    parameters = ", ".join(
        f"{name} {words[value] if isinstance(value, bool) else value}"
        for name, value in mechanism.parameters
        if value is not None
    )
    return f"{mechanism.name}: {parameters}"


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
    terms |= {name.replace("_", " "): str(each) for name, each in bounds.items()}
    if question.threshold is not None:
        terms["threshold, exactly"] = exact_text(question.threshold)
        terms["adaptive"] = "yes" if question.adaptive else "no"
    return terms
