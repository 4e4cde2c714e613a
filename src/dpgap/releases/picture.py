"""The rows of a release as a dot plot: names and numbers are text, dots and lines are drawn.

Every place in the drawing is a share of its width. So it fits a phone and a wide screen, and its
letters are as large as those around it.
"""

import html
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dpgap.releases.printable import visible
from dpgap.releases.results import Measured
from dpgap.releases.rows import Row, rows_of

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
