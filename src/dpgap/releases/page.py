"""A release as HTML: what may be believed, the picture, the numbers, the guarantee, its making.

Whatever comes from data or user is made visible and escaped.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from dpgap.exact.parameters import approximately, readable
from dpgap.releases.by_group import ReleasesByGroup
from dpgap.releases.cutting import cut_in_words
from dpgap.releases.findings import is_mostly_noise, own_findings, why_no_p_values
from dpgap.releases.numbers import exact_text
from dpgap.releases.picture import picture
from dpgap.releases.printable import printable, visible
from dpgap.releases.provenance import AGAIN, MechanismUsed
from dpgap.releases.questions import Question, TableRelease
from dpgap.releases.release import NAMES, Release, Selected
from dpgap.releases.results import Measured
from dpgap.releases.rows import cells_of
from dpgap.releases.standalone import STYLE, contents, listed, safe, section, standalone, text
from dpgap.releases.titles import measure_of, plural, question_of, title_of, units_of
from dpgap.releases.ways import HISTOGRAM
from dpgap.releases.words import attempted, sentences

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
