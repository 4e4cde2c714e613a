"""Draw docs/choosing.svg: the error of each method against k, and what `split` buys.

python benchmarks/choosing_picture.py docs/choosing.svg
"""

import sys
from fractions import Fraction
from pathlib import Path

import dpgap

WIDTH, HEIGHT, LEFT, TOP = 330, 230, 55, 40
STYLES = {
    "baseline": ("Laplace, gaps ignored", "#999999"),
    "paper": ("the paper's method", "#4477aa"),
    "ranked": ("ranked", "#ee7733"),
    "best": ("best (default), winners clear", "#cc3311"),
}


def text(x: float, y: float, words: str, extra: str = "") -> str:
    """One label."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{words}</text>'


def curve(points: list[tuple[float, float]], colour: str) -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def panel(
    offset: int,
    title: str,
    unit: str,
    curves: dict[str, list[tuple[float, float]]],
    ticks: tuple[list[float], list[float]],
) -> list[str]:
    """Axes, curves and their names; both axes start at zero."""
    right, top = ticks[0][-1], ticks[1][-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return offset + LEFT + x / right * WIDTH, TOP + HEIGHT * (1 - y / top)

    parts = [text(offset + LEFT, 22, title, 'font-weight="bold"')]
    for y in ticks[1]:
        (x0, level), (x1, _) = place(0, y), place(right, y)
        parts.append(f'<line x1="{x0}" y1="{level}" x2="{x1}" y2="{level}" stroke="#dddddd"/>')
        parts.append(text(x0 - 6, level + 4, f"{y:g}", 'text-anchor="end"'))
    for x in ticks[0]:
        across, down = place(x, 0)
        parts.append(text(across, down + 18, f"{x:g}", 'text-anchor="middle"'))
    parts.append(text(offset + LEFT + WIDTH / 2, TOP + HEIGHT + 38, unit, 'text-anchor="middle"'))
    for name, points in curves.items():
        words, colour = STYLES[name]
        parts.append(curve([place(x, y) for x, y in points], colour))
        last = place(*points[-1])
        anchor = f'fill="{colour}" text-anchor="end"'
        below = 17 if name == "best" else -7  # it is the lowest of them
        parts.append(text(last[0], last[1] + below, words, anchor))
    return parts


def by_k() -> dict[str, list[tuple[float, float]]]:
    """The error of each method for k from 1 to 25."""
    plans = {k: dpgap.plan(k=k, epsilon="0.7", monotonic=True) for k in range(1, 26)}
    return {method: [(k, plan[method].error) for k, plan in plans.items()] for method in STYLES}


def by_split() -> dict[str, list[tuple[float, float]]]:
    """The error for k = 10 and different shares for selecting."""
    shares = [Fraction(i, 20) for i in range(2, 17)]
    plans = {s: dpgap.plan(k=10, epsilon="0.7", monotonic=True, split=s) for s in shares}
    return {
        method: [(float(s), plan[method].error) for s, plan in plans.items()]
        for method in ("baseline", "ranked")
    }


def picture() -> str:
    """The whole drawing."""
    whole = 2 * (LEFT + WIDTH) + 60
    parts = panel(
        0,
        "Error of each estimate, ε = 0.7, counts",
        "how many winners (k)",
        by_k(),
        ([0, 5, 10, 15, 20, 25], [0, 25, 50, 75, 100, 125]),
    )
    parts += panel(
        LEFT + WIDTH + 40,
        "The same for k = 10, by split",
        "share of ε for selecting (split)",
        by_split(),
        ([0, 0.2, 0.4, 0.6, 0.8], [0, 25, 50, 75, 100, 125]),
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {HEIGHT + 95}" '
        'font-family="sans-serif" font-size="12" role="img">'
        '<title>Error of dpgap\'s methods</title><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
