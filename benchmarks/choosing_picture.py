"""Draw docs/choosing.svg: the error of each method against k, and what `split` buys.

python benchmarks/choosing_picture.py docs/choosing.svg
"""

import sys
from fractions import Fraction
from pathlib import Path

from drawing import line, picture, text

import dpgap

WIDTH, HEIGHT, LEFT, TOP, NAMES = 250, 230, 60, 74, 150
NAMED = {
    "baseline": ("Laplace noise,", "gaps ignored"),
    "paper": ("the paper's", "method"),
    "ranked": ("ranked",),
    "best": ("best, the default",),
}
STYLE = """
.baseline { stroke: #6b7685; } .paper-s { stroke: #1d5cb8; } .ranked { stroke: #a8500a; }
.best { stroke: #b3261e; } text.baseline { fill: #5f6a79; } text.paper-s { fill: #1d5cb8; }
text.ranked { fill: #a8500a; } text.best { fill: #b3261e; } text[class] { stroke: none; }
@media (prefers-color-scheme: dark) { .baseline { stroke: #a3b1c2; } .paper-s { stroke: #8fbcff; }
  .ranked { stroke: #f5b361; } .best { stroke: #ff9b93; } text.baseline { fill: #a3b1c2; }
  text.paper-s { fill: #8fbcff; } text.ranked { fill: #f5b361; } text.best { fill: #ff9b93; } }
"""
Curves = dict[str, list[tuple[float, float]]]


def panel(offset: int, title: str, unit: str, curves: Curves, ticks: list[float]) -> list[str]:
    """Axes, curves, and their names beside their ends; both axes start at zero."""
    right = ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return offset + LEFT + x / right * WIDTH, TOP + HEIGHT * (1 - y / 125)

    error = "standard error of each count, in people"
    parts = [text(offset + LEFT, 28, title, "strong"), text(offset + LEFT, 46, error, "quiet")]
    for y in range(0, 126, 25):
        (x0, level), (x1, _) = place(0, y), place(right, y)
        parts += [line(x0, level, x1, level), text(x0 - 8, level + 4, f"{y}", "quiet end")]
    for x in ticks:
        across, down = place(x, 0)
        parts.append(text(across, down + 20, f"{x:g}", "quiet middle"))
    parts.append(text(offset + LEFT + WIDTH / 2, TOP + HEIGHT + 42, unit, "quiet middle"))
    for name, points in curves.items():
        kind = "paper-s" if name == "paper" else name
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline class="curve {kind}" points="{path}"/>')
        x, y = place(*points[-1])
        for number, words in enumerate(NAMED[name]):
            parts.append(text(x + 9, y + 4 + 15 * number, words, kind))
    return parts


def by_k() -> Curves:
    """The error of each method for k from 1 to 25."""
    plans = {k: dpgap.plan(k=k, epsilon="0.7", monotonic=True) for k in range(1, 26)}
    return {method: [(k, plan[method].error) for k, plan in plans.items()] for method in NAMED}


def by_split() -> Curves:
    """The error for k = 10 and different shares for selecting."""
    shares = [Fraction(i, 20) for i in range(2, 17)]
    plans = {s: dpgap.plan(k=10, epsilon="0.7", monotonic=True, split=s) for s in shares}
    return {
        method: [(float(s), plan[method].error) for s, plan in plans.items()]
        for method in ("baseline", "ranked")
    }


def choosing() -> str:
    """The whole drawing."""
    whole, unit = LEFT + WIDTH + NAMES, "split: the share of ε for selecting"
    ks, splits = [0.0, 5, 10, 15, 20, 25], [0, 0.2, 0.4, 0.6, 0.8]
    parts = panel(0, "Clear winners, ε = 0.7", "k: how many winners", by_k(), ks)
    parts += panel(whole, "Ten winners, ranked, ε = 0.7", unit, by_split(), splits)
    title = "The error of each method against k, and against split"
    return picture(2 * whole - 20, TOP + HEIGHT + 62, title, parts, STYLE)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(choosing(), encoding="utf-8")
