"""Draw the pictures of pages that explain, from the library's own laws and mechanisms.

python benchmarks/explaining_pictures.py privacy docs/privacy.svg

The names are privacy, gaps, certificates, joint, hull, exact and alignment. Pictures are narrow, so
that their letters can be read on a phone.
"""

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from drawing import line, picture, text

import dpgap
from dpgap.estimates.certificates import Evidence
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise
from dpgap.mechanisms.top_k import extremes, shift_of

WIDTH = 420
STYLE = """
svg { font-size: 14px; --two: #a8500a; }
@media (prefers-color-scheme: dark) { svg { --two: #f5b361; } }
.one { stroke: var(--mark); } .two { stroke: var(--two); } .three { stroke: var(--quiet); }
text.one { fill: var(--mark); stroke: none; } text.two { fill: var(--two); stroke: none; }
text.three { fill: var(--quiet); stroke: none; }
.fill-one { fill: var(--mark); opacity: 0.25; } .fill-two { fill: var(--two); opacity: 0.25; }
.shape { fill: none; stroke-width: 2.5; } .ring { fill: var(--paper); stroke-width: 2; }
.halo.halo { stroke: var(--paper); stroke-width: 6px; paint-order: stroke; }
.thin { stroke: var(--quiet); stroke-dasharray: 3 3; } .bar { stroke-width: 6; }
"""
Places = Callable[[float, float], tuple[float, float]]


def axes(
    left: float, top: float, width: float, height: float, x: Sequence[float], y: float
) -> Places:
    """Where a value lies in a panel, from its ends in x and its largest y; y begins at 0."""

    def place(at: float, value: float) -> tuple[float, float]:
        across = left + (at - x[0]) / (x[-1] - x[0]) * width
        return across, top + height * (1 - value / y)

    return place


def curve(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="curve {kind}" points="{path}"/>'


def area(points: Sequence[tuple[float, float]], bottom: float, kind: str) -> str:
    """What is below a line."""
    ends = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    return f'<polygon class="{kind}" points="{path}"/>'


def ticks(place: Places, values: Sequence[float], y: float = 0) -> list[str]:
    """Numbers below an axis."""
    spots = [(value, place(value, y)) for value in values]
    return [text(x, bottom + 20, f"{value:g}", "quiet middle") for value, (x, bottom) in spots]


def privacy() -> str:
    """Two tables that differ by one person, and what may be shown of each."""
    rows = [("Ada", "bread"), ("Ben", "bread"), ("Cem", "milk"), ("Dia", "bread")]
    parts = []
    for x, head, shown, kind in (
        (20, "with Ada", rows, "one"),
        (220, "without Ada", rows[1:], "two"),
    ):
        parts.append(text(x + 10, 32, head, f"strong {kind}"))
        for number, (who, what) in enumerate(shown):
            y = 60 + 26 * (number + len(rows) - len(shown))
            parts += [line(x, y + 9, x + 170, y + 9), text(x + 10, y, who), text(x + 80, y, what)]
            if who == "Ada":
                tint = f'<rect class="tint" x="{x}" y="{y - 17}" width="170" height="25"/>'
                parts.insert(0, tint)
        count = sum(what == "bread" for _, what in shown)
        parts.append(text(x + 10, 170, f"bought bread: {count}", kind))
    law, ends = LaplaceNoise(Fraction(1)), (-2, 7)
    place = axes(30, 200, 360, 150, ends, 0.52)
    grid = np.linspace(*ends, 181)
    bottom = place(0, 0)[1]
    for centre, kind in ((3, "one"), (2, "two")):
        heights = law.density(grid - centre)
        points = [place(*each) for each in zip(grid.tolist(), heights.tolist(), strict=True)]
        parts += [area(points, bottom, f"fill-{kind}"), curve(points, kind)]
    heights = [float(law.density(np.array(4.0 - centre))) for centre in (3, 2)]
    x = place(4, 0)[0]
    parts.append(line(x, 205, x, bottom, "thin"))
    parts += [
        f'<circle class="ring {kind}" cx="{x:.1f}" cy="{place(4, height)[1]:.1f}" r="4"/>'
        for kind, height in zip(("one", "two"), heights, strict=True)
    ]
    parts += [line(30, bottom, 390, bottom), *ticks(place, range(-2, 8))]
    times = f"4 is {heights[0] / heights[1]:.1f} times"
    parts += [text(x + 8, 216, times, "strong"), text(x + 8, 234, "as likely with", "strong")]
    parts.append(text(x + 8, 252, "Ada as without", "strong"))
    parts.append(text(WIDTH / 2, bottom + 42, "the answer that is shown, ε = 1", "quiet middle"))
    title = "Two tables that differ by one person, and how likely each answer is"
    return picture(WIDTH, int(bottom) + 56, title, parts, STYLE)


class Written:
    """Noise that was written down beforehand."""

    def __init__(self, values: Sequence[int]) -> None:
        self.values = iter(values)

    def draw(self, law: Any) -> int:
        """The next of them."""
        return next(self.values)


def gaps() -> str:
    """Five noisy counts, three winners, and the gaps between them."""
    names, counts = "bread milk eggs butter cheese".split(), [88, 70, 58, 52, 31]
    noise = [-3, 4, 2, -6, 3]
    mechanism = dpgap.NoisyTopK(k=3, epsilon=1, monotonic=True)
    winners, leads = mechanism.run(counts, Written(noise))  # leads are over the best loser
    found = [lead - after for lead, after in zip(leads, (*leads[1:], 0), strict=True)]
    place = axes(84, 0, 270, 1, (20, 100), 1)
    parts = [text(20, 32, "a ring is a true count, a dot the noisy one", "quiet")]
    for row, (name, true, drawn) in enumerate(zip(names, counts, noise, strict=True)):
        y = 66 + 44 * row
        ring, dot = place(true, 0)[0], place(true + drawn, 0)[0]
        kind = "strong" if row in winners else "quiet"
        parts += [text(20, y + 5, name, kind), line(84, y, 354, y)]
        parts.append(f'<line class="two" x1="{ring:.1f}" y1="{y}" x2="{dot:.1f}" y2="{y}"/>')
        parts.append(f'<circle class="ring three" cx="{ring:.1f}" cy="{y}" r="5"/>')
        parts.append(f'<circle class="dot" cx="{dot:.1f}" cy="{y}" r="5"/>')
    for rank, gap in enumerate(found):
        y, next_y = 66 + 44 * rank, 66 + 44 * (rank + 1)
        left = place(counts[rank + 1] + noise[rank + 1], 0)[0]
        right = place(counts[rank] + noise[rank], 0)[0]
        parts.append(line(right, y + 6, right, next_y - 14, "thin"))
        parts.append(line(left, next_y - 14, right, next_y - 14, "one bar"))
        parts.append(text(right + 8, next_y - 9, f"gap {gap}", "one strong"))
    bottom = 66 + 44 * 5 - 14
    parts.append(text(20, bottom + 14, "The three best are shown, and these three gaps.", "quiet"))
    title = "The gaps between noisy winners"
    return picture(WIDTH, bottom + 34, title, parts, STYLE)


def certificates() -> str:
    """How often noise alone leads by so much."""
    law, lead = ExponentialNoise(Fraction(10)), 30.0
    p = float(Evidence((lead,), (law.scale,)).p_values(1)[0])
    place = axes(30, 40, 360, 180, (0, 60), 0.1)
    grid = np.linspace(0, 60, 121)
    points = [place(*each) for each in zip(grid.tolist(), law.density(grid).tolist(), strict=True)]
    x, bottom = place(lead, 0)
    beyond = [point for at, point in zip(grid, points, strict=True) if at >= lead]
    parts = [area(beyond, bottom, "fill-two"), curve(points, "one"), line(30, bottom, 390, bottom)]
    parts += [line(x, 110, x, bottom, "two"), *ticks(place, range(0, 61, 10))]
    parts += [text(92, 66, "how far an item leads"), text(92, 84, "that does NOT belong", "strong")]
    parts += [text(x + 10, 126, f"this one led by {lead:g}:", "two")]
    parts += [text(x + 10, 144, f"p = {p:.2f}", "two strong")]
    parts.append(
        text(WIDTH / 2, bottom + 42, "lead over the best loser, in people", "quiet middle")
    )
    title = "A lead that noise alone would hardly give"
    return picture(WIDTH, int(bottom) + 58, title, parts, STYLE)


def joint() -> str:
    """How much noise it takes to choose k winners as a set, and to rank them."""
    ks = [1, 5, 10, 15, 20, 25]
    scales = {
        "one": [float(dpgap.JointTopK(k, 1, monotonic=True).law.scale) for k in ks],
        "two": [
            float(dpgap.NoisyTopK(k, 1, monotonic=True, noise="exponential").law.scale) for k in ks
        ],
    }
    place = axes(44, 50, 270, 200, (0, 25), 25)
    parts = [text(20, 30, "scale of the noise at ε = 1, in people", "quiet")]
    for y in range(0, 26, 5):
        (x0, level), (x1, _) = place(0, y), place(25, y)
        parts += [line(x0, level, x1, level), text(x0 - 8, level + 5, f"{y}", "quiet end")]
    for kind, name in (("two", "ranked"), ("one", "as a set")):
        points = [place(k, scale) for k, scale in zip(ks, scales[kind], strict=True)]
        x, y = points[-1]
        parts += [curve(points, kind), text(x + 10, y + 5, name, f"{kind} strong")]
    parts += ticks(place, range(0, 26, 5))
    bottom = place(0, 0)[1]
    parts.append(text(180, bottom + 42, "k: how many winners", "quiet middle"))
    title = "The noise of a set does not grow with k"
    return picture(WIDTH, int(bottom) + 58, title, parts, STYLE)


SHAPES = {
    "three": ("Laplace", [(2, 0), (0, 2), (-2, 0), (0, -2)]),
    "two": ("cube", [(1, 1), (-1, 1), (-1, -1), (1, -1)]),
    "one": ("hull", [(1, 0), (1, 1), (0, 1), (-1, 0), (-1, -1), (0, -1)]),
}
"""What one person can do to two answers, and what noise of each kind takes it for."""


def hull() -> str:
    """The bodies for two answers, and the error of each for more of them."""
    size, middle, ks = 50, (125, 150), range(1, 26)
    parts = [text(20, 28, "two answers: what one person can do", "quiet")]
    parts += [line(15, middle[1], 235, middle[1]), line(middle[0], 42, middle[0], 258)]
    for kind, (_, corners) in SHAPES.items():
        spots = " ".join(f"{middle[0] + size * x},{middle[1] - size * y}" for x, y in corners)
        parts.append(f'<polygon class="shape {kind}" points="{spots}"/>')
    for number, (kind, (name, _)) in enumerate(SHAPES.items()):
        parts.append(text(256, 110 + 24 * number, name, f"{kind} strong"))
    measures = {
        "three": dpgap.Laplace(1),
        "two": dpgap.Cube(1),
        "one": dpgap.CountHull(1, monotonic=True),
    }
    top = 312
    place = axes(44, top, 270, 180, (0, 25), 36)
    parts.append(text(20, top - 22, "standard error of each of k answers, ε = 1", "quiet"))
    for y in range(0, 37, 12):
        (x0, level), (x1, _) = place(0, y), place(25, y)
        parts += [line(x0, level, x1, level), text(x0 - 8, level + 5, f"{y}", "quiet end")]
    for kind, measure in measures.items():
        points = [place(k, math.sqrt(measure.variance(k))) for k in ks]
        x, y = points[-1]
        parts += [curve(points, kind), text(x + 10, y + 5, SHAPES[kind][0], f"{kind} strong")]
    bottom = place(0, 0)[1]
    parts += ticks(place, range(0, 26, 5))
    parts.append(text(180, bottom + 42, "k", "quiet middle"))
    title = "The bodies that noise must cover, and what they cost"
    return picture(WIDTH, int(bottom) + 58, title, parts, STYLE)


def exact() -> str:
    """A draw from more and more random bits, until its floor is decided."""
    law, word = ExponentialNoise(Fraction(3)), 0b1010001111010111
    place = axes(70, 0, 320, 1, (0, 6), 1)
    parts = [text(20, 30, "a draw of noise, from more and more random bits", "quiet")]
    bottom = 0
    for row, bits in enumerate((2, 4, 6, 8)):
        y = bottom = 66 + 38 * row
        first = word >> (16 - bits)
        ends = [
            law.scale * law.quantile(np.array([-math.log((first + i) / 2**bits)]))[0]
            for i in (1, 0)
        ]
        low, high = sorted(float(end) for end in ends)
        decided = math.floor(low) == math.floor(high)
        parts += [text(20, y + 5, f"{bits} bits"), line(70, y, 390, y)]
        x0, x1 = place(low, 0)[0], place(high, 0)[0]
        kind = "one" if decided else "two"
        parts.append(line(x0, y, max(x1, x0 + 2), y, f"{kind} bar"))
        if decided:
            parts.append(text(x1 + 10, y + 5, f"the floor is {math.floor(low)}", "one strong halo"))
    grid = [place(step, 0)[0] for step in range(7)]
    parts[1:1] = [line(x, 50, x, bottom + 14, "thin") for x in grid]
    parts += [text(x, bottom + 34, f"{step}", "quiet middle") for step, x in enumerate(grid)]
    words = "whole steps: what may be released"
    parts.append(text(230, bottom + 58, words, "quiet middle"))
    title = "Bits are drawn until the floor is decided"
    return picture(WIDTH, bottom + 74, title, parts, STYLE)


def alignment() -> str:
    """Two winners and two losers, with the noise that was drawn and with the shifted noise."""
    names, answers = ("A wins", "B wins", "C loses", "D loses"), [6.0, 5.2, 3.5, 2.6]
    falls, noise, winners = [0.9, 0.2, 1.0, 0.5], [0.3, 0.6, 0.9, 0.6], (0, 1)
    by = extremes(answers, falls, noise, winners)
    shifts = [shift_of(i, falls, winners, by) for i in range(4)]
    place = axes(84, 0, 316, 1, (2, 7), 1)
    words = ("a ring: the noisy answer", "a cross: the neighbour, on the same noise")
    parts = [text(20, 28 + 20 * i, each, "quiet") for i, each in enumerate(words)]
    parts.append(text(20, 68, "a dot: the neighbour, on the shifted noise", "quiet"))
    bottom = 104 + 52 * 3
    level = answers[2] + noise[2]
    for value, kind in ((level, "thin"), (level - by.drop, "thin")):
        parts.append(line(place(value, 0)[0], 84, place(value, 0)[0], bottom + 26, kind))
    for row, name in enumerate(names):
        y, before = 104 + 52 * row, answers[row] + noise[row]
        fallen = before - falls[row]
        ring, cross, dot = (place(x, 0)[0] for x in (before, fallen, fallen + shifts[row]))
        parts += [text(20, y + 5, name, "strong" if row in winners else "quiet")]
        parts += [line(84, y, 400, y), line(cross, y, dot, y, "two bar")]
        parts.append(line(cross - 5, y - 5, cross + 5, y + 5, "three"))
        parts.append(line(cross - 5, y + 5, cross + 5, y - 5, "three"))
        parts.append(f'<circle class="ring one" cx="{ring:.1f}" cy="{y}" r="6"/>')
        parts.append(f'<circle class="dot" cx="{dot:.1f}" cy="{y}" r="5"/>')
        if shifts[row]:
            said = f"noise {shifts[row]:+.1f}".replace("-", "−")
            parts.append(text((cross + dot) / 2, y - 12, said, "two middle halo"))
    low, high = (place(value, 0)[0] for value in (level - by.drop, level))
    parts.append(line(low, bottom + 20, high, bottom + 20, "one bar"))
    told = f"A, B and the best loser come down by {by.drop:.1f}"
    parts.append(text(WIDTH / 2, bottom + 46, told, "one middle strong"))
    title = "The alignment of two winners and two losers"
    return picture(WIDTH, bottom + 62, title, parts, STYLE)


PICTURES = {
    drawn.__name__: drawn for drawn in (privacy, gaps, certificates, joint, hull, exact, alignment)
}

if __name__ == "__main__":
    Path(sys.argv[2]).write_text(PICTURES[sys.argv[1]](), encoding="utf-8")
