"""The rows of a release, as CSV, beside its document, and as text that is safe to show.

Names of items come from a table that anybody may have filled. In a terminal and on a page they
must not move the cursor, reverse the text or become markup; in a spreadsheet they must not become
formulas; JSON is plain ASCII.
"""

import csv
import io
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dpgap.budget.account import readable_text
from dpgap.releases.json_text import written
from dpgap.releases.numbers import number
from dpgap.releases.plain import plain
from dpgap.releases.printable import in_a_cell
from dpgap.releases.questions import TableRelease
from dpgap.releases.release import Release, named
from dpgap.releases.results import Measured
from dpgap.releases.words import attempted

HEADINGS = {
    "rank": "rank",
    "item": "item",
    "estimate": "estimate",
    "low": "95% low",
    "high": "95% high",
    "lead": "lead over next",
    "give_or_take": "give or take",
    "p": "p",
}
"""What the columns are called in a terminal, a notebook, a data frame and a file, in this order."""


_NO_END, _AT_MOST = "–", "≤ "
"""What is shown in place of a lower end that there is not, and before the upper end beside it."""


class Row(NamedTuple):
    """One item of a release, by its rank by estimate."""

    rank: int
    item: Any
    estimate: float
    low: float | None
    """None where the interval has no lower end."""
    high: float
    gap: float | None
    """The selection's own gap; None where it has none for each item."""
    lead: float | None
    """By how much the estimate is above that of the next row; None for the last."""
    give_or_take: float | None
    """How far the lead may be off: all leads at once, with the confidence of the intervals."""
    p: float | None
    """The p-value of "it does not belong"; None where there is none."""


def rows_of(release: Measured, level: float = 0.95) -> list[Row]:
    """The rows of a release, the largest estimate first."""
    order = release.order.tolist()
    ends = release.interval(level)[order].tolist()
    estimates, leads, within = _leads(release, level)
    names = release.indices.tolist() if release.labels is None else release.labels
    gaps = release.gaps.tolist() if release.gaps.size == len(order) else [None] * len(order)
    is_set = release.is_proved_as_a_set and len(order) > 1  # its one p-value is of no row
    p_values = None if is_set else release.p_values
    certain = [None] * len(order) if p_values is None else p_values.tolist()
    return [
        Row(rank + 1, plain(names[at]), value, _end(low), high, gaps[at], lead, half, certain[at])
        for rank, (at, (low, high), value, lead, half) in enumerate(
            zip(order, ends, estimates, leads, within, strict=True)
        )
    ]


def _end(low: float) -> float | None:
    return low if math.isfinite(low) else None


def _leads(release: Measured, level: float) -> tuple[list[float], list[Any], list[Any]]:
    """Estimates in order, their leads over the next, and how far these may be off."""
    order = release.order
    estimates = release.estimates[order]
    leads = (estimates[:-1] - estimates[1:]).tolist()
    widths = release.half_widths_of_leads(level).tolist()
    within = [width if math.isfinite(width) else None for width in widths]
    last = [None] * min(order.size, 1)
    return estimates.tolist(), leads + last, within + last


def columns_of(release: Measured) -> dict[str, Sequence[Any]]:
    """The same rows, column by column; labels stay what they are."""
    rows = rows_of(release)
    order = release.order
    labels = release.labels
    in_order = None if labels is None else [labels[at] for at in order.tolist()]
    columns: dict[str, Sequence[Any]] = {HEADINGS["rank"]: [row.rank for row in rows]}
    if isinstance(release, TableRelease):
        columns |= {HEADINGS["item"]: in_order or []}
    else:
        columns |= named(release.indices[order], in_order)
    for name in ("estimate", "low", "high", "lead", "give_or_take", "p"):
        columns |= {HEADINGS[name]: [getattr(row, name) for row in rows]}
    return columns


def cells_of(release: Release) -> dict[str, list[str]]:
    """The rows as people read them, column by column; columns of no numbers are left out."""
    return attempted("rows", lambda: _cells(release), {})


def _cells(release: Release) -> dict[str, list[str]]:
    shown = release.cells(",")
    low, high = shown.get(HEADINGS["low"], []), HEADINGS["high"]
    for place in (place for place, cell in enumerate(low) if not cell):
        low[place], shown[high][place] = _NO_END, _AT_MOST + shown[high][place]
    return shown


def to_json(release: Release, remaining: Fraction | None) -> str:
    """The release document, and beside it what was spent and what an account has left.

    What remains is null where it is unknown.
    """
    left = None if remaining is None else readable_text(remaining)
    spent = getattr(release, "spent", release.epsilon)
    beside = {
        "epsilon_spent": number(spent),
        "epsilon_remaining": None if remaining is None else number(remaining),
        "exact": {"epsilon_spent": readable_text(spent), "epsilon_remaining": left},
    }
    return written(release.to_dict() | beside)


def to_csv(release: Release) -> str:
    """The rows as CSV in which no name is taken for a formula.

    Every row ends with the question, the ε and the time (UTC), so that a file says what it is, and
    every program reads it without being told of a heading. ε is the nearest number; a document has
    the exact one. A name that begins like a formula gets an apostrophe in front, as spreadsheets
    themselves do it.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    columns = release.columns()
    rows = zip(*([plain(cell) for cell in column] for column in columns.values()), strict=True)
    facts = (in_a_cell(_asked(release)), number(release.epsilon), release.made.time)
    writer.writerow((*columns, "question", "epsilon", "time"))
    for row in rows:
        writer.writerow((*map(in_a_cell, row), *facts))
    return out.getvalue()


def _asked(release: Release) -> str:
    """The question in one line; of a release without one, its mechanisms."""
    question = getattr(release, "question", None)
    if question is None:
        return ", ".join(used.name for used in release.mechanisms)
    return str(question.purpose) + ("" if question.origin.is_private else " (NOT private)")
