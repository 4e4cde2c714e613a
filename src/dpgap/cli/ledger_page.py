"""One self-contained page for a ledger: what was spent, by data set, by person and over time.

No scripts, no fonts, no images, nothing from outside. Every name is made visible and escaped. The
ε of different data sets protect different people and do not add up, so no sum is shown over them.
"""

import html
from collections.abc import Iterable, Iterator
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dpgap.budget.amounts import NOTHING, Amount
from dpgap.budget.entries import RESERVE, SETTLE, WRITE_OFF
from dpgap.exact.parameters import approximately
from dpgap.releases.page import STYLE
from dpgap.releases.printable import printable

if TYPE_CHECKING:
    from dpgap.budget.entries import Entry

_LEFT, _RIGHT, _WIDTH, _ROW = 250, 690, 880, 40
_PANEL, _HIGH = 96, 56
_LONGEST = 30
_BAR, _MARK, _GAP, _LINE, _QUIET = (
    f"var(--{name}, {colour})"
    for name, colour in {
        "bar": "#c9dcf7",
        "mark": "#1f5fbf",
        "gap": "#d97706",
        "line": "#e2e8f0",
        "quiet": "#64748b",
    }.items()
)


class Part(NamedTuple):
    """One bar: what was spent and what is held, of a limit."""

    name: str
    spent: Fraction
    held: Fraction
    limit: Fraction
    note: str


def ledger_page(books: "list[list[Entry]]") -> str:
    """The whole page, as HTML."""
    last = max((book[-1].at[:16].replace("T", " ") for book in books), default="never")
    sets = "1 data set" if len(books) == 1 else f"{len(books)} data sets"
    lead = f"{sets}, each with a budget of its own; last entry: {last}."
    body = "\n".join(
        [
            "<h1>What was spent</h1>",
            f'<p class="lead">{html.escape(lead)}</p>',
            _facts(books),
            _section("By data set", _bars(map(_of_dataset, books))),
            _section("By person", _bars(_of_people(books))),
            _section("Over time", "".join(map(_over_time, books)) or "<p>Nothing yet.</p>"),
            _section("How to read this page", _READING),
            "<footer>Made with dpgap. This page loads nothing and runs nothing.</footer>",
        ]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>What was spent</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body><main>\n{body}\n</main></body>\n</html>\n"
    )


_READING = (
    "<ul><li>Blue is spent. Orange is reserved: under way, or broken off; it counts as spent. "
    "Light blue is left.</li>"
    "<li>A person's bar ends at their allowance, or at the whole budget if they have none.</li>"
    "<li>Over time, the line is what was spent or reserved, and the dashed one the total.</li>"
    "<li>The ε of different data sets protect different tables and do not add up.</li></ul>"
)


def _facts(books: "list[list[Entry]]") -> str:
    entries = [entry for book in books for entry in book]
    ended = {(entry.dataset, entry.about) for entry in entries}
    reservations = [entry for entry in entries if entry.kind == RESERVE]
    facts = {
        "data sets": len(books),
        "people": len({_person(entry) for entry in reservations}),
        "releases settled": sum(entry.kind == SETTLE for entry in entries),
        "under way or broken off": sum((it.dataset, it.number) not in ended for it in reservations),
    }
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count in facts.items()
    )
    return f'<dl class="facts">{cells}</dl>'


def _of_dataset(book: "list[Entry]") -> Part:
    last = book[-1]
    return Part(
        last.dataset, last.spent, last.reserved, last.total, "closed" if last.closed else ""
    )


def _of_people(books: "list[list[Entry]]") -> Iterator[Part]:
    """What each person spent and holds of each data set, the largest first."""
    for book in books:
        spent: dict[str, Amount] = {}
        held: dict[str, Amount] = {}
        waiting: dict[int, Entry] = {}
        allowances = {entry.person: entry.allowance for entry in book}
        for entry in book:
            if entry.kind == RESERVE:
                waiting[entry.number] = entry
                held[_person(entry)] = held.get(_person(entry), NOTHING) + entry.charge
            elif entry.kind in (SETTLE, WRITE_OFF) and entry.about in waiting:
                reservation = waiting.pop(entry.about)
                who = _person(reservation)
                held[who] = held[who] - reservation.charge
                spent[who] = spent.get(who, NOTHING) + entry.charge
        for who in sorted(held, key=lambda it: -(spent.get(it, NOTHING) + held[it]).epsilon):
            own = allowances.get(who)
            limit = book[-1].total if own is None else own.epsilon
            note = "" if own is None else "allowance"
            used = spent.get(who, NOTHING).epsilon
            yield Part(f"{who} · {book[-1].dataset}", used, held[who].epsilon, limit, note)


def _person(entry: "Entry") -> str:
    return entry.person or entry.who.partition("@")[0]


def _bars(parts: Iterable[Part]) -> str:
    rows = [_bar(part, _ROW * place) for place, part in enumerate(parts)]
    if not rows:
        return "<p>Nothing yet.</p>"
    return _drawing("".join(rows), _ROW * len(rows), "Spent, reserved and left")


def _bar(part: Part, top: int) -> str:
    whole = max(part.limit, part.spent + part.held) or Fraction(1)
    width = _RIGHT - _LEFT
    spent, held = (round(float(it / whole) * width, 1) for it in (part.spent, part.held))
    middle, note = top + 20, f" ({part.note})" if part.note else ""
    return (
        f'<text x="{_LEFT - 14}" y="{middle + 5}" text-anchor="end" font-weight="600" '
        f'unicode-bidi="isolate">{_name(part.name)}</text>'
        f'<rect x="{_LEFT}" y="{top + 10}" width="{width}" height="20" rx="4" fill="{_BAR}"/>'
        f'<rect x="{_LEFT}" y="{top + 10}" width="{spent}" height="20" rx="4" fill="{_MARK}"/>'
        f'<rect x="{_LEFT + spent}" y="{top + 10}" width="{held}" height="20" fill="{_GAP}"/>'
        f'<text x="{_RIGHT + 14}" y="{middle + 5}" font-weight="600">{_short(part.spent)}'
        f'<tspan font-size="11.5" font-weight="400" fill="{_QUIET}"> of {_short(part.limit)}'
        f"{note}</tspan></text>"
    )


def _over_time(book: "list[Entry]") -> str:
    """One data set: a line of steps for what is gone, a dashed one for the total."""
    times = [datetime.fromisoformat(entry.at).timestamp() for entry in book]
    first, last = min(times), max(times)
    span = (last - first) or 1.0
    most = max(entry.total for entry in book) or Fraction(1)

    def line(values: list[Fraction]) -> str:
        """Steps; of many, those that can be told apart."""
        points, seen = [], ""
        for time, value in zip(times, values, strict=True):
            x = round(_LEFT + (time - first) / span * (_RIGHT - _LEFT), 1)
            step = f"H{x}V{round(20 + _HIGH * (1 - float(value / most)), 1)}"
            if step != seen:
                points.append(step)
            seen = step
        start = round(20 + _HIGH * (1 - float(values[0] / most)), 1)
        return f"M{_LEFT} {start}{''.join(points)}H{_RIGHT}"

    gone = line([entry.spent + entry.reserved for entry in book])
    total = line([entry.total for entry in book])
    bottom = 20 + _HIGH
    drawn = (
        f'<text x="{_LEFT - 14}" y="{bottom - 20}" text-anchor="end" font-weight="600" '
        f'unicode-bidi="isolate">{_name(book[-1].dataset)}</text>'
        f'<path d="M{_LEFT} {bottom}H{_RIGHT}" stroke="{_LINE}"/>'
        f'<path d="{total}" fill="none" stroke="{_QUIET}" stroke-dasharray="5 4"/>'
        f'<path d="{gone}" fill="none" stroke="{_MARK}" stroke-width="2"/>'
        f'<text x="{_LEFT}" y="{bottom + 16}" font-size="11.5" fill="{_QUIET}">'
        f"{html.escape(book[0].at[:10])}</text>"
        f'<text x="{_RIGHT}" y="{bottom + 16}" font-size="11.5" text-anchor="end" '
        f'fill="{_QUIET}">{html.escape(book[-1].at[:10])}</text>'
        f'<text x="{_RIGHT + 14}" y="24" font-size="11.5" fill="{_QUIET}">'
        f"ε = {_short(book[-1].total)}</text>"
    )
    return _drawing(drawn, _PANEL, "Spent and reserved over time")


def _drawing(content: str, height: int, label: str) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{label}" font-size="13" fill="currentColor">{content}</svg></div>'
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


def _name(name: str) -> str:
    """An untrusted name, visible and escaped."""
    text = printable(name)
    return html.escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def _short(value: Fraction) -> str:
    return approximately(value, 4)
