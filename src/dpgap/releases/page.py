"""One self-contained page for a release: a drawing, the numbers, the guarantee, how to read it.

No scripts, no fonts, no images, nothing from outside; the page even forbids itself to load any.
Whatever comes from data or user is made visible and escaped.
"""

import html
import math
from collections.abc import Iterable

from dpgap.exact.parameters import readable
from dpgap.releases.numbers import exact_text
from dpgap.releases.printable import printable
from dpgap.releases.provenance import MechanismUsed
from dpgap.releases.questions import Question, TableRelease
from dpgap.releases.results import (
    AboveRelease,
    IndexRelease,
    JointRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    Release,
    TopKRelease,
)
from dpgap.releases.rows import Row, rows_of, visible

_WIDTH, _ROW, _TOP, _FOOT = 880, 46, 14, 34
_PLOT_RIGHT = 690
_LONGEST = 28
_SMALLEST = 1e-200

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --quiet: #64748b; --line: #e2e8f0;
  --paper: #ffffff; --ground: #f4f6f9; --bar: #c9dcf7; --mark: #1f5fbf; --gap: #d97706; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf2; --quiet: #94a3b8; --line: #2b3645;
  --paper: #17202c; --ground: #0e141c; --bar: #27456f; --mark: #7fb2ff; --gap: #fbbf24; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 1.05rem; margin: 0 0 12px; }
.lead { color: var(--quiet); margin: 0 0 24px; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 14px;
  padding: 24px 26px; margin: 0 0 20px; }
.facts { display: flex; flex-wrap: wrap; gap: 12px; padding: 0; margin: 0 0 24px; }
.facts div { background: var(--paper); border: 1px solid var(--line); border-radius: 12px;
  padding: 10px 18px; min-width: 120px; }
.facts dt { font-size: .78rem; color: var(--quiet); }
.facts dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 640px; height: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; font-size: .8rem; font-weight: 600; color: var(--quiet); }
th, td { padding: 8px 10px; border-bottom: 1px solid var(--line); }
td { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
th.name, td.name { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.name { font-weight: 600; min-width: 8ch; }
@media (max-width: 560px) { th, td { padding: 6px 4px; font-size: .8rem; } }
td.gap { color: var(--gap); }
dl.terms { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 0; }
dl.terms dt { color: var(--quiet); } dl.terms dd { margin: 0; overflow-wrap: anywhere; }
.warning { border-color: #dc2626; border-width: 2px; }
.warning h2 { color: #dc2626; }
section p { margin: 0; }
ul { margin: 0; padding-left: 1.2em; } li { margin: 0 0 6px; }
footer { color: var(--quiet); font-size: .85rem; }
@media print { body { background: #fff; } section, .facts div { break-inside: avoid; } }
"""


def page(release: Release) -> str:
    """The whole page, as HTML."""
    if isinstance(release, TableRelease):
        title, sections = _title(release.question), _of_table(release)
        table = release.question.origin.table
    else:
        title, sections, table = _TITLES[type(release)], _of_array(release), None
    made = html.escape(release.made.words(table))
    body = "\n".join(
        [
            f"<h1>{title}</h1>",
            *_found(release),
            *sections,
            f"<footer>{made}. This page loads nothing and runs nothing.</footer>",
        ]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body><main>\n{body}\n</main></body>\n</html>\n"
    )


def _found(release: Release) -> list[str]:
    """What may be believed, before any number."""
    found = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in release.findings)
    return [_section("What may be believed", f"<ul>{found}</ul>")] if found else []


def _of_table(release: TableRelease) -> list[str]:
    question = release.question
    return [
        f'<p class="lead">{_lead(release)}</p>',
        _facts(release),
        f"<section><h2>Estimates and 95 % intervals</h2>{chart(release)}</section>",
        f"<section>{_table(release)}</section>",
        _guarantee(release, question.origin.is_private),
        _section("How to read this page", _reading(release)),
        _section("Parameters", _terms(_parameters(question))),
    ]


_TITLES: dict[type[Release], str] = {
    IndexRelease: "Selected answers",
    TopKRelease: "The largest answers",
    MaxRelease: "The largest answer",
    AboveRelease: "Answers above a threshold",
    JointRelease: "The set of the largest answers",
    MeasuredValues: "Measured values",
    Measured: "Selected answers with estimates",
}


def _of_array(release: Release) -> list[str]:
    """A release of an array, which has no question, as its table and its mechanisms."""
    return [
        f'<section><div class="scroll">{release.rows_in_html()}</div></section>',
        _guarantee(release, is_private=True),
        *(_section(_name(used.name), _terms(_used(used))) for used in release.mechanisms),
    ]


def _used(mechanism: MechanismUsed) -> dict[str, str]:
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in mechanism.parameters
        if value is not None
    }


def chart(release: TableRelease) -> str:
    """The rows as an inline drawing: a bar to each estimate, its interval, its gap."""
    rows = rows_of(release)
    if not rows:
        return "<p>No item was found above the threshold.</p>"
    asked = release.question.threshold
    threshold = None if asked is None else float(asked)
    low = min(0.0, *(row.low for row in rows))
    high = max([*(row.high for row in rows), threshold or 0.0])
    ticks = _ticks(low, high)
    longest = max(min(len(visible(row.item)), _LONGEST) for row in rows)
    scale = _Scale(min(low, ticks[0]), max(high, ticks[-1]), left=30 + 8 * longest)
    height = _TOP + _ROW * len(rows) + _FOOT
    parts = [*_axis(ticks, scale, height)]
    for place, row in enumerate(rows):
        parts += _bar(row, _TOP + _ROW * place, scale, threshold)
    if threshold is not None:
        x = scale(threshold)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{height - _FOOT}" '
            'stroke="var(--gap, #d97706)" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-label="Estimates with 95 % intervals" font-size="13" '
        f'fill="currentColor">{"".join(parts)}</svg></div>'
    )


class _Scale:
    """Where on the drawing a value lies."""

    def __init__(self, low: float, high: float, left: int) -> None:
        self._low, self._span, self.left = low, (high - low) or 1.0, left

    def __call__(self, value: float) -> float:
        inside = min(max((value - self._low) / self._span, 0.0), 1.0)
        return round(self.left + inside * (_PLOT_RIGHT - self.left), 1)


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers that cover the values."""
    rough = (high - low) / 5
    if rough < _SMALLEST:
        rough = 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first = math.floor(low / step)
    return [step * number for number in range(first, math.ceil(high / step) + 1)]


def _axis(ticks: list[float], scale: _Scale, height: int) -> Iterable[str]:
    bottom = height - _FOOT
    for tick in ticks:
        x = scale(tick)
        yield (
            f'<line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}" stroke="var(--line, #ddd)"/>'
            f'<text x="{x}" y="{bottom + 20}" text-anchor="middle" '
            f'fill="var(--quiet, #667)">{_short(tick)}</text>'
        )


def _bar(row: Row, top: int, scale: _Scale, threshold: float | None) -> Iterable[str]:
    zero, end = scale(0.0), scale(row.estimate)
    low, high = scale(row.low), scale(row.high)
    left, width = min(zero, end), abs(end - zero)
    middle = top + 13
    yield (
        f'<text x="{scale.left - 14}" y="{middle + 5}" text-anchor="end" font-weight="600" '
        f'unicode-bidi="isolate">{_name(row.item, _LONGEST)}</text>'
        f'<rect x="{left}" y="{top + 3}" width="{width:.1f}" height="20" rx="4" '
        'fill="var(--bar, #c9dcf7)"/>'
        f'<rect x="{low}" y="{top + 7}" width="{max(high - low, 3):.1f}" height="12" rx="3" '
        'fill="var(--mark, #1f5fbf)" fill-opacity=".35"/>'
        f'<circle cx="{end}" cy="{middle}" r="4" fill="var(--mark, #1f5fbf)"/>'
        f'<text x="{_PLOT_RIGHT + 14}" y="{middle + 5}" font-weight="600">'
        f"{_short(row.estimate)}"
        f'<tspan dx="8" font-size="11.5" font-weight="400" fill="var(--quiet, #667)">'
        f"{_short(row.low)} – {_short(row.high)}</tspan></text>"
    )
    if row.gap is None:
        return
    start, stop = row.estimate - row.gap, row.estimate
    if threshold is not None:
        start, stop = threshold, threshold + row.gap
    x1, x2, y = scale(start), scale(stop), top + 32
    yield (
        f'<path d="M{x1} {y - 4}v8M{x1} {y}H{x2}M{x2} {y - 4}v8" fill="none" '
        'stroke="var(--gap, #d97706)" stroke-width="1.5"/>'
        f'<text x="{_PLOT_RIGHT + 14}" y="{y + 4}" font-size="11.5" '
        f'fill="var(--gap, #d97706)">gap {_short(row.gap)}</text>'
    )


def _name(name: object, most: int | None = None) -> str:
    """An untrusted name, visible and escaped."""
    text = visible(name)
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    return html.escape(text)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:,.1f}"


def _title(question: Question) -> str:
    if question.threshold is None:
        return f"Top {question.k} of {_name(question.origin.item)}"
    return f"{_name(question.origin.item)}: at least {_short(float(question.threshold))} units"


def _lead(release: TableRelease) -> str:
    found = release.indices.size
    return (
        f"{found} of {release.question.items:,} items, by how many different units each has; "
        "estimates with 95 % intervals."
    )


def _facts(release: TableRelease) -> str:
    question = release.question
    facts = {
        "ε promised": readable(release.epsilon),
        "ε spent": readable(release.spent),
        "items found": str(release.indices.size),
        "one unit": _name(
            {"row": "a row", "line": "a line"}.get(question.origin.unit, question.origin.unit), 24
        ),
    }
    cells = "".join(f"<div><dt>{name}</dt><dd>{fact}</dd></div>" for name, fact in facts.items())
    return f'<dl class="facts">{cells}</dl>'


def _table(release: TableRelease) -> str:
    question, has_gaps = release.question, bool(release.gaps.size)
    gap = "gap to next" if question.kind == "top-k" else "above threshold by"
    head = (
        f'<tr><th>rank</th><th class="name">{_name(question.origin.item)}</th><th>estimate</th>'
        f"<th>95 % interval</th>{f'<th>{gap}</th>' if has_gaps else ''}</tr>"
    )
    body = "".join(
        f'<tr><td>{row.rank}</td><td class="name"><bdi>{_name(row.item)}</bdi></td>'
        f"<td>{row.estimate:,.1f}</td><td>{row.low:,.1f} – {row.high:,.1f}</td>"
        f"{_gap_cell(row) if has_gaps else ''}</tr>"
        for row in rows_of(release)
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _gap_cell(row: Row) -> str:
    return f'<td class="gap">{"" if row.gap is None else f"{row.gap:,.1f}"}</td>'


def _guarantee(release: Release, is_private: bool) -> str:
    words = html.escape(printable(release.guarantee))
    if is_private:
        return _section("What is guaranteed", f"<p>{words}</p>")
    return f'<section class="warning"><h2>Not private</h2><p>{words}</p></section>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


_BAND = "The darker band is the 95 % interval (drawn at least 3 pixels wide). "
_BEFORE_SELECTION = (
    "It accounts for all noise that was added, but not for having looked only at the winners: "
    "where neighbours are nearly equal, the estimates of winners tend to be a little too high."
)
_AFTER_SELECTION = "It accounts for all noise that was added, also after selecting the winners."


_LEADS_NEXT = (
    "The orange line is the gap: by how much the item leads the next one (the last leads the best "
    "item that is not shown). The gaps cost no extra privacy."
)
_LEADS_THRESHOLD = (
    "The dashed line is the threshold and the orange line the gap: by how much the item was found "
    "above it. The gaps cost no extra privacy. Items were asked in a random order until the budget "
    "was used, so that others may be above the threshold as well."
)
_NO_GAPS = (
    "The items were chosen as one set, which takes less noise than ranking them. A set has no gaps "
    "inside it; items are in the order of their estimates."
)


def _reading(release: TableRelease) -> str:
    question, is_set = release.question, release.route == "joint"
    gap = _LEADS_NEXT if question.kind == "top-k" else _LEADS_THRESHOLD
    made_from = "a noisy measurement" if is_set else "a noisy measurement and the gaps together"
    points = (
        f"The bar ends at the estimate, made from {made_from}.",
        _BAND + (_BEFORE_SELECTION if question.method == "paper" else _AFTER_SELECTION),
        _NO_GAPS if is_set else gap,
        *_way(release),
        "Asking again gives other noise. Averaging several releases costs the ε of each.",
    )
    return "<ul>" + "".join(f"<li>{point}</li>" for point in points) + "</ul>"


def _way(release: TableRelease) -> Iterable[str]:
    """How the items were found, where there was more than one way."""
    if release.remark:
        yield f"How they were found: {html.escape(release.remark)}"
    if release.looked:
        seen = ", ".join(f"rank {rank}: {_short(value)}" for rank, value in release.looked)
        yield f"The look, which decided on the way, measured ({seen}). It is part of the release."


def _parameters(question: Question) -> dict[str, str]:
    terms = {
        "question": question.kind,
        "k": str(question.k),
        "ε": exact_text(question.epsilon),
        "unit": question.origin.unit,
        "item": question.origin.item,
        "domain": question.origin.domain,
        "neighbours": question.origin.neighbours,
        "method": question.method,
    }
    if question.threshold is not None:
        terms["threshold"] = exact_text(question.threshold)
        terms["adaptive"] = "yes" if question.adaptive else "no"
    return terms


def _terms(terms: dict[str, str]) -> str:
    pairs = "".join(f"<dt>{_name(name)}</dt><dd>{_name(term)}</dd>" for name, term in terms.items())
    return f'<dl class="terms">{pairs}</dl>'
