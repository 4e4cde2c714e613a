"""Draw docs/release.svg: a release with what may be believed of it, from its document.

dpgap top-k examples/sales.csv.gz --unit customer --item product --domain examples/products.txt \
    -k 10 --epsilon 0.5 --json > docs/release.json
python benchmarks/release_picture.py docs/release.json docs/release.svg
python benchmarks/release_picture.py docs/release.json docs/release-narrow.svg narrow
"""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from drawing import line, picture, text

import dpgap
from dpgap.releases.page import Scale
from dpgap.releases.release import MeasuredItems, measured_in, title_of
from dpgap.releases.rows import Row

ROW = 30


class Sheet(NamedTuple):
    """How wide the drawing is, where dots are in it, and how long a line of words may be."""

    width: int
    left: int
    right: int
    letters: int
    title: str


SHEETS = {
    "wide": Sheet(860, 190, 740, 100, "title strong"),
    "narrow": Sheet(460, 150, 385, 42, "said strong"),
}


def findings(release: MeasuredItems, sheet: Sheet) -> tuple[list[str], int]:
    """What may be believed, wrapped, and where the drawing may go on."""
    lines = [
        (part, "said" if place else "said strong")
        for place, sentence in enumerate(release.findings)
        for part in textwrap.wrap(sentence, sheet.letters)
    ]
    bottom = 76 + 26 * len(lines) + 14
    across, down = sheet.width - 60, bottom - 66
    parts = [
        f'<rect class="tint" x="30" y="66" width="{across}" height="{down}" rx="6"/>',
        f'<rect class="dot" x="30" y="66" width="4" height="{down}"/>',
    ]
    parts += [text(52, 94 + 26 * at, words, kind) for at, (words, kind) in enumerate(lines)]
    return parts, bottom


def dots(release: MeasuredItems, top: int, sheet: Sheet) -> list[str]:
    """A dot and a band for each row, and brackets around ranks whose order is not sure."""
    rows = list(release)
    scale = Scale.of([end for row in rows for end in (row.low, row.high)])
    assert scale is not None
    bottom = top + ROW * len(rows)

    def across(value: float) -> float:
        return sheet.left + float(scale(value)[:-1]) / 100 * (sheet.right - sheet.left)

    parts = [line(across(tick), top, across(tick), bottom) for tick in scale.ticks]
    parts += [
        text(across(tick), bottom + 20, scale.text(tick), "quiet middle") for tick in scale.ticks
    ]
    units = measured_in(release.question)
    parts.append(text(sheet.left - 14, bottom + 20, units, "quiet end"))
    for row in rows:
        parts += _row(row, top + ROW * row.rank - ROW / 2, across, sheet)
    for group in (group for group in release.groups() if len(group) > 1):
        start, end = top + ROW * (group[0] - 1) + 4, top + ROW * group[-1] - 4
        parts.append(f'<path class="bracket" d="M40 {start}h-8V{end}h8"/>')
    begins = "" if scale.low <= 0 else f"; the scale begins at {scale.text(scale.low)}"
    words = f"A dot is an estimate, a band its 95% interval{begins}. Brackets: order not sure."
    wrapped = enumerate(textwrap.wrap(words, sheet.letters + 8))
    return [*parts, *(text(30, bottom + 50 + 20 * at, part, "quiet") for at, part in wrapped)]


def _row(row: Row, y: float, across: Callable[[float], float], sheet: Sheet) -> list[str]:
    estimate = row.estimate
    return [
        text(66, y + 5, str(row.rank), "quiet end"),
        text(78, y + 5, str(row.item), "strong"),
        line(across(row.low), y, across(row.high), y, "band"),
        f'<circle class="dot" cx="{across(estimate):.1f}" cy="{y}" r="3"/>',
        text(sheet.width - 30, y + 5, f"{estimate:,.0f}", "strong end"),
    ]


def drawn(document: str, sheet: Sheet) -> str:
    """The whole drawing."""
    release = dpgap.read_release(document)
    words, bottom = findings(release, sheet)
    parts = [text(30, 44, title_of(release), sheet.title), *words]
    parts += dots(release, bottom + 16, sheet)
    height = bottom + 16 + ROW * release.indices.size + (68 if sheet.letters >= 100 else 88)
    return picture(sheet.width, height, title_of(release), parts)


if __name__ == "__main__":
    document = Path(sys.argv[1]).read_text(encoding="utf-8")
    sheet = SHEETS[sys.argv[3] if len(sys.argv) > 3 else "wide"]
    Path(sys.argv[2]).write_text(drawn(document, sheet), encoding="utf-8")
