"""The figures: theory as lines, measurements as points with error bars of two standard errors."""

import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dpgap._package import how_to_get
from dpgap.research.datasets import Dataset
from dpgap.research.experiments import Result

_INK = "#1f2933"
_BLUE = "#0b6e99"
_ORANGE = "#c2410c"
_GREY = "#64748b"
_GREEN = "#15803d"
_STYLE = Path(__file__).with_suffix(".mplstyle")


def require_matplotlib() -> None:
    """Raise an error, before any work, if Matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(f"figures need matplotlib: {how_to_get('paper')}")


def draw(figure: int, results: Sequence[Result], datasets: Sequence[Dataset]) -> bytes:
    """A figure, as SVG."""
    names = [dataset.name for dataset in datasets]
    if figure in (1, 2):
        return _render(_reductions, figure, results, names)
    if figure == 3:
        return _render(_adaptivity, results, names)
    return _render(_budgets, results, names)


def draw_datasets(datasets: Sequence[Dataset]) -> bytes:
    """How often the items of each data set occur, by rank."""
    return _render(_curves, datasets)


def _render(draw_on: Any, *arguments: Any) -> bytes:
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(_STYLE):
        page = Figure(layout="constrained")
        draw_on(page, *arguments)
        content = io.BytesIO()
        page.savefig(content, format="svg", metadata={"Date": None})
        return _smaller(content.getvalue())


def _smaller(svg: bytes) -> bytes:
    """The same drawing in half the bytes: coordinates are rounded to a tenth of a point.

    Numbers in texts, as those of an axis, keep their digits.
    """
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg.decode(), flags=re.DOTALL)
    text = re.sub("<[^>]*>", _with_short_numbers, text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r" ?\n(?=[LzMCQ\"])", " ", text)
    # Styles that many elements share are written once; names begin with a letter of this drawing.
    prefix = "s" + hashlib.sha256(svg).hexdigest()[:4]
    names: dict[str, str] = {}

    def with_class(match: re.Match[str]) -> str:
        name = names.setdefault(match[1], f"{prefix}-{len(names)}")
        return f'class="{name}"'

    text = re.sub(r'style="([^"]+)"', with_class, text)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return text.replace("</defs>", f"<style>{rules}</style></defs>", 1).encode()


def _with_short_numbers(tag: re.Match[str]) -> str:
    return re.sub(r"(\d+\.\d)\d+", r"\1", tag[0])


def _line(results: Sequence[Result], dataset: str, series: str) -> list[Result]:
    return [point for point in results if (point.dataset, point.series) == (dataset, series)]


def _points(axes: Any, line: list[Result], label: str, colour: str, **style: Any) -> None:
    if not line:
        return
    x = np.array([point.x for point in line])
    value = np.array([point.value for point in line])
    error = np.array([point.error for point in line])
    # One broken line draws all error bars in a tenth of the bytes of as many single ones.
    bars = np.stack([value - 2 * error, value + 2 * error, np.full(x.size, np.nan)], axis=1)
    axes.plot(np.repeat(x, 3), bars.ravel(), "-", color=colour, linewidth=0.8)
    options = {"marker": "o", "linestyle": "", "markersize": 2.6, "linewidth": 1, **style}
    axes.plot(x, value, color=colour, label=label, **options)


def _theory(axes: Any, line: list[Result], colour: str, style: str = "-") -> None:
    points = [point for point in line if point.theory is not None]
    if not points:
        return
    x = [point.x for point in points]
    theory = [point.theory for point in points]
    axes.plot(x, theory, style, color=colour, linewidth=1, alpha=0.55, zorder=1)


Panel = Callable[[Any, str], None]
"""Draws the panel of one column on its axes."""


def _panels(page: Any, rows: Mapping[str, Panel], columns: Sequence[str], x: str) -> Any:
    """A panel for each row and column, with titles above, `x` below and one legend for all."""
    page.set_size_inches(3.4 * len(columns) + 0.6, 2.7 * len(rows) + 0.3)
    panels = page.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey="row")
    legend: dict[str, Any] = {}
    for row, (label, draw_on) in zip(panels, rows.items(), strict=True):
        for axes, column in zip(row, columns, strict=True):
            draw_on(axes, column)
        row[0].set_ylabel(label)
        handles, labels = row[0].get_legend_handles_labels()
        legend = dict(zip(labels, handles, strict=True)) | legend
    for top, bottom, column in zip(panels[0], panels[-1], columns, strict=True):
        top.set_title(column)
        bottom.set_xlabel(x)
    page.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=6)
    return panels


def _from_zero(panels: Any) -> None:
    """Let all panels begin at zero. Call this last, because panels of a row share an axis."""
    for axes in panels.flat:
        axes.set_ylim(bottom=0)


def _reductions(page: Any, figure: int, results: Sequence[Result], names: Sequence[str]) -> None:
    def draw_on(mechanism: str, axes: Any, name: str) -> None:
        for kind, fill, line_style in (("monotonic", "full", "-"), ("general", "none", "--")):
            line = _line(results, name, f"{mechanism} {kind}")
            _theory(axes, line, _BLUE, line_style)
            _points(axes, line, kind, _BLUE, fillstyle=fill)
        best = _line(results, name, f"{mechanism} best")
        _points(axes, best, "exponential noise, hull", _GREEN, marker="D")

    rows = {
        f"{title}\nless squared error (%)": partial(draw_on, title.lower().replace(" ", "-"))
        for title in ("Top-K", "Sparse Vector", "Adaptive Sparse Vector")
    }
    x = "k" if figure == 1 else "ε"
    _from_zero(_panels(page, rows, names, x))


_CURVES_OF_MECHANISMS = {
    "sparse-vector monotonic": ("plain", _BLUE),
    "sparse-vector with 2k monotonic": ("plain with 2k", _GREY),
    "adaptive-sparse-vector monotonic": ("adaptive", _ORANGE),
    "best monotonic": ("3 branches, drained", _GREEN),
}


def _adaptivity(page: Any, results: Sequence[Result], names: Sequence[str]) -> None:
    def draw_on(measure: str, axes: Any, name: str) -> None:
        for series, (label, colour) in _CURVES_OF_MECHANISMS.items():
            line = _line(results, name, f"{series}: {measure}")
            _points(axes, line, label, colour, marker="", linestyle="-")
        if measure == "F-measure":
            axes.set_ylim(0, 1.002)

    rows = {measure: partial(draw_on, measure) for measure in ("answers", "precision", "F-measure")}
    panels = _panels(page, rows, names, "k")
    _from_zero(panels[0])


def _budgets(page: Any, results: Sequence[Result], names: Sequence[str]) -> None:
    kinds = {
        "adaptive, monotonic": "adaptive-sparse-vector monotonic",
        "adaptive, general": "adaptive-sparse-vector general",
        "3 branches, drained, monotonic": "best monotonic",
    }

    def draw_on(axes: Any, kind: str) -> None:
        for name, colour in zip(names, (_BLUE, _ORANGE, _GREEN), strict=False):
            line = _line(results, name, f"{kinds[kind]}: budget left")
            _points(axes, line, name, colour, marker="", linestyle="-")
        _theory(axes, line, _INK, ":")

    _from_zero(_panels(page, {"budget left (%)": draw_on}, list(kinds), "k"))


def _curves(page: Any, datasets: Sequence[Dataset]) -> None:
    page.set_size_inches(6.4, 3.6)
    axes = page.subplots()
    for dataset in datasets:
        descending = np.sort(dataset.counts)[::-1]
        ranks = np.unique(np.geomspace(1, descending.size, 80).astype(np.int64))
        axes.plot(ranks, descending[ranks - 1], label=dataset.name, linewidth=1.4)
    axes.set(xscale="log", yscale="log", xlabel="rank of the item", ylabel="records with it")
    axes.legend()
