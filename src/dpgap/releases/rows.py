"""The rows of a release as JSON, CSV and text that is safe to show.

Names of items come from a table that anybody may have filled. In a terminal and on a page they
must not move the cursor, reverse the text or become markup; in a spreadsheet they must not become
formulas; JSON is plain ASCII.
"""

import csv
import io
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from dpgap.budget.amounts import readable_text
from dpgap.releases.plain import plain
from dpgap.releases.printable import printable
from dpgap.releases.questions import TableRelease

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MAX_NAME = 80


class Row(NamedTuple):
    """One item of a release; `gap` is None where there is no item to compare with."""

    rank: int
    item: Any
    estimate: float
    low: float
    high: float
    gap: float | None


def rows_of(release: TableRelease, level: float = 0.95) -> list[Row]:
    """The rows of a release, best first."""
    labels = release.labels or ()
    ends = release.interval(level).tolist()
    gaps = [*release.gaps.tolist(), *[None] * (len(labels) - release.gaps.size)]
    estimates = release.estimates.tolist()
    return [
        Row(rank, plain(label), estimate, low, high, gap)
        for rank, (label, estimate, (low, high), gap) in enumerate(
            zip(labels, estimates, ends, gaps, strict=True), start=1
        )
    ]


def visible(name: object) -> str:
    r"""A name with nothing invisible or moving in it.

    >>> print(visible("fig\x1b[2J\u202egnp"))
    fig\x1b[2J\u202egnp
    """
    text = printable(str(name)) or '""'
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"


def to_json(release: TableRelease, remaining: Fraction | None) -> str:
    """The release as a JSON object; ASCII only, so that no name can do harm in a terminal.

    What remains is null where it is unknown.
    """
    question = release.question
    left = None if remaining is None else readable_text(remaining)
    content = {
        "items": [row._asdict() for row in rows_of(release)],
        "epsilon": number(release.epsilon),
        "epsilon_spent": number(release.spent),
        "epsilon_remaining": None if remaining is None else number(remaining),
        "exact": {"epsilon_spent": str(release.spent), "epsilon_remaining": left},
        "guarantee": release.guarantee,
        "private": question.origin.is_private,
        "question": {
            "kind": question.kind,
            "k": question.k,
            "threshold": None if question.threshold is None else number(question.threshold),
            "adaptive": question.adaptive,
            "method": question.method,
            "unit": question.origin.unit,
            "item": question.origin.item,
            "domain": question.origin.domain,
            "domain_size": question.items,
            "neighbours": question.origin.neighbours,
        },
    }
    return json.dumps(content, indent=2)


def number(value: Fraction) -> int | float:
    """The nearest JSON number."""
    return int(value) if value.denominator == 1 else float(value)


def to_csv(release: TableRelease) -> str:
    """The rows as CSV in which no name is taken for a formula.

    A name that begins like one gets an apostrophe in front, as spreadsheets themselves do it.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(Row._fields)
    write: Callable[[Row], object] = writer.writerow
    for row in rows_of(release):
        write(row._replace(item=_no_formula(row.item)))
    return out.getvalue()


def _no_formula(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    text = printable(item)
    return "'" + text if item.lstrip(" \u00a0").startswith(_FORMULA) else text
