"""The rows of a release, as CSV, beside its document, and as text that is safe to show.

Names of items come from a table that anybody may have filled. In a terminal and on a page they
must not move the cursor, reverse the text or become markup; in a spreadsheet they must not become
formulas; JSON is plain ASCII.
"""

import csv
import io
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from dpgap.budget.amounts import readable_text
from dpgap.releases.json_text import written
from dpgap.releases.numbers import number
from dpgap.releases.plain import plain
from dpgap.releases.printable import printable
from dpgap.releases.questions import TableRelease
from dpgap.releases.results import Release

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
    r"""A name in which everything can be seen, and nothing moves the text around it.

    >>> print(visible("fig\x1b[2J\u202egnp"))
    fig\x1b[2J\u202egnp
    """
    text = printable(str(name)) or '""'
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"


def to_json(release: TableRelease, remaining: Fraction | None) -> str:
    """The release document, and beside it what was spent and what an account has left.

    What remains is null where it is unknown.
    """
    left = None if remaining is None else readable_text(remaining)
    beside = {
        "epsilon_spent": number(release.spent),
        "epsilon_remaining": None if remaining is None else number(remaining),
        "exact": {"epsilon_spent": readable_text(release.spent), "epsilon_remaining": left},
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
    head, rows = _cells(release)
    facts = (_no_formula(_asked(release)), number(release.epsilon), release.made.time)
    writer.writerow((*head, "question", "epsilon", "time"))
    for row in rows:
        writer.writerow((*map(_no_formula, row), *facts))
    return out.getvalue()


def _cells(release: Release) -> tuple[Iterable[str], Iterable[tuple[Any, ...]]]:
    """The names of the columns, and the rows."""
    if isinstance(release, TableRelease):
        return Row._fields, rows_of(release)
    columns = release.columns()
    plain_columns = ([plain(cell) for cell in column] for column in columns.values())
    return columns, zip(*plain_columns, strict=True)


def _asked(release: Release) -> str:
    """The question in one line; of a release without one, its mechanisms."""
    if not isinstance(release, TableRelease):
        return ", ".join(used.name for used in release.mechanisms)
    is_private = release.question.origin.is_private
    return release.question.purpose + ("" if is_private else " (NOT private)")


def _no_formula(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    text = printable(item)
    return "'" + text if item.lstrip(" \u00a0").startswith(_FORMULA) else text
