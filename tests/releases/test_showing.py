"""How a release is shown: one line, a page with any heading, a plot, a cell that is short."""

import html
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from every_kind import RELEASES
from releases_to_show import SESSION, released, session, visits
from seams import bits_are


def _axes(width: float = 6.0) -> Axes:
    return Figure(figsize=(width, 4), layout="constrained").subplots()


def _names(ax: Axes) -> list[str]:
    """The names beside the rows, from top to bottom, as they are drawn."""
    FigureCanvasAgg(ax.figure).draw()
    labels = sorted(ax.get_yticklabels(), key=lambda label: -label.get_window_extent().y0)
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("name", RELEASES)
def test_every_kind_of_release_is_one_line_a_page_and_a_plot(name: str, tmp_path: Path) -> None:
    release = RELEASES[name]()
    assert repr(release).startswith(f"<{type(release).__name__}: ")
    assert len(repr(release).splitlines()) == 1
    assert len(repr(release)) < 120
    text = release.to_html()
    assert text.startswith("<!DOCTYPE html>")
    path = tmp_path / "page.html"
    assert release.to_html(path) == str(path)
    assert path.read_text("utf-8") == text
    assert "<details>" in release._repr_html_()
    if any(len(column) for column in release._columns().values()):
        ax = _axes()
        assert release.plot(ax) is ax
        assert len(_names(ax)) > 0
    else:
        with pytest.raises(ValueError, match="there is nothing to draw"):
            release.plot(_axes())


@pytest.mark.parametrize("where", ["no/such/folder/page.html", "/dev/full", "a\0b.html", "."])
def test_a_page_that_cannot_be_written_is_an_error_that_names_the_file(where: str) -> None:
    release = released(3)
    with pytest.raises(OSError, match=re.escape(repr(where))):
        release.to_html(where)
    with pytest.raises(OSError, match=re.escape(repr(where))):
        session().to_html(Path(where))
    assert release.to_html()


def test_a_title_is_any_text_and_no_part_of_the_release() -> None:
    release = released(3)
    text = release.to_html(title="Best <b>sellers</b> \u202e& more")
    shown = r"Best &lt;b&gt;sellers&lt;/b&gt; \u202e&amp; more"
    assert f"<title>{shown}</title>" in text
    assert f'<h1>{shown}</h1>\n<p class="lead">Top 3: product, by customer count</p>' in text
    assert "sellers" not in release.to_json() + release.to_html()
    assert "<h1>Our log</h1>" in session().to_html(title="Our log")
    for shows in (release, session()):
        with pytest.raises(TypeError, match="title must be text, not int"):
            shows.to_html(title=3)  # type: ignore[arg-type]


def test_no_heading_of_a_page_is_code_or_has_a_made_up_plural() -> None:
    for release in session().releases:
        headings = re.findall("<h[123]>(.*?)</h[123]>", release.to_html())
        assert not re.search(r"[`='_]|visitors|pages|countrys|countries", " ".join(headings))


def test_a_plot_has_estimates_with_intervals_and_the_largest_on_top() -> None:
    release: Any = released(3)
    ax = release.plot(_axes())
    names = _names(ax)
    assert names == [f"a name of a…number {at}" for at in range(3)]
    (dots,) = (line for line in ax.lines if line.get_marker() == "o")
    assert dots.get_xdata() == pytest.approx([row.estimate for row in release])
    (bands,) = (each for each in ax.containers if hasattr(each, "has_xerr"))
    ends = [path.vertices[:, 0].tolist() for path in bands.lines[2][0].get_paths()]
    assert np.array(ends) == pytest.approx(release.interval()[release._order])
    assert ax.get_xlabel() == "customer count, 95 % interval"
    assert released(3, how="above").plot(_axes()).lines[-1].get_xdata() == [2900, 2900]


def test_a_plot_of_360_pixels_shows_its_title_its_bands_and_what_they_are() -> None:
    ax = released(3, first=30_000, step=4_000, epsilon=9).plot(_axes(3.6))
    FigureCanvasAgg(ax.figure).draw()
    words = [ax.title, ax._left_title, ax.xaxis.label]
    assert [text.get_text() for text in words] == [
        "",
        "Top 3: product, by customer count",
        "customer count, 95 % interval",
    ]
    for text in words[1:]:
        extent = text.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= ax.figure.bbox.width
    (bands,) = (each for each in ax.containers if hasattr(each, "has_xerr"))
    (dots,) = (line for line in ax.lines if line.get_marker() == "o")
    assert min(end.get_markersize() for end in bands.lines[1]) > 2 * dots.get_markersize()
    titled = _axes()
    titled.set_title("Mine", loc="left")
    assert released(3).plot(titled).get_title(loc="left") == "Mine"


def test_a_picture_says_what_it_shows_and_that_bands_are_95_per_cent() -> None:
    text = released(3).to_html()
    drawn = "Top 3: product, by customer count: the estimates and 95 % intervals of the table"
    assert f'aria-label="{drawn}, drawn"' in text
    assert '<span class="name">customer count, 95 % interval</span>' in text


def test_a_dot_outside_of_its_interval_leaves_the_interval_where_it_is() -> None:
    release: Any = released(3)
    moved = replace(release, estimates=release.estimates + np.array([0, 0, 30]))
    (bands,) = (each for each in moved.plot(_axes()).containers if hasattr(each, "has_xerr"))
    ends = [path.vertices[:, 0].tolist() for path in bands.lines[2][0].get_paths()]
    assert np.array(ends) == pytest.approx(moved.interval()[moved._order])


def test_a_plot_of_gaps_of_groups_and_of_counts_has_their_units() -> None:
    gaps = dpgap.NoisyTopK(2, 1).release([5, 900, 300], labels=["a", "b", "c"])
    assert _names(gaps.plot(ax := _axes())) == ["b", "c"]
    assert ax.get_xlabel() == "gap to the next"
    assert [bar.get_width() for bar in ax.patches] == gaps.gaps.tolist()
    above = dpgap.SparseVector(100, 3, 50).release([10, 2000, 5, 800])
    assert _names(above.plot(ax := _axes())) == ["answer 1", "answer 3"]
    assert ax.get_xlabel() == "above the threshold by"
    plots = {name: _axes() for name in SESSION}
    for release, (name, ax) in zip(session().releases, plots.items(), strict=True):
        units = "total amount" if name == "sum" else "visitor count"
        assert release.plot(ax).get_xlabel() == f"{units}, 95 % interval"
    assert _names(plots["20 groups"])[:3] == [
        f"CH: {row}" for row in session().releases[-1]["CH"].labels
    ]


def test_one_row_whose_interval_has_no_lower_end_is_drawn() -> None:
    names = [f"item {at}" for at in range(40)]
    rows = pandas.DataFrame({"what": np.repeat(names, 300)})
    with bits_are(InsecureSeededBits(3)):
        release = dpgap.top_k(rows, unit="row", item="what", domain=names, k=1, epsilon="0.5")
    ((low, high),) = release.interval()
    assert np.isneginf(low)
    (bands,) = (each for each in release.plot(_axes()).containers if hasattr(each, "has_xerr"))
    ((start, end),) = (path.vertices[:, 0] for path in bands.lines[2][0].get_paths())
    assert (start, end) == pytest.approx((release.estimates[0], high))


def test_groups_above_a_threshold_show_it() -> None:
    asked: dict[str, Any] = {"by": "country", "groups": ["CH", "DE"], "max_groups": 1}
    groups = dpgap.above(
        visits(),
        unit="visitor",
        item="page",
        domain=["/page/0"],
        threshold=9,
        k=1,
        epsilon=50,
        **asked,
    )
    assert groups.plot(_axes()).lines[-1].get_xdata() == [9, 9]


def test_names_are_no_formulas_in_a_plot() -> None:
    names = ["$x^", "a\x1b[2J", "$a$", "m" * 90]
    release = dpgap.measured_top_k([900, 700, 500, 300, 1], 4, 9, labels=[*names, "e"])
    shown = _names(release.plot(_axes(3.6)))
    assert shown == ["$x^", r"a\x1b[2J", "$a$", f"{'m' * 11}…{'m' * 8}"]


def test_a_plot_on_given_axes_does_without_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert released(3).plot(_axes()).get_xlabel() == "customer count, 95 % interval"
    with pytest.raises(ModuleNotFoundError, match=r"plot\(\) needs Matplotlib: .*pip install"):
        released(3).plot()


def test_a_plot_without_axes_is_a_figure_of_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    drawn = released(3).plot()
    assert pyplot.gca() is drawn
    pyplot.close(drawn.figure)


def _folded(cell: str) -> str:
    return " ".join(re.findall("<details>.*?</details>", cell, re.DOTALL))


@pytest.mark.parametrize("ask", [lambda: released(3), lambda: dpgap.NoisyMax(1).release([1, 9])])
def test_a_cell_shows_findings_picture_and_table_and_folds_the_rest(
    ask: Callable[[], Any],
) -> None:
    release = ask()
    shown, rest = release._repr_html_(), _folded(release._repr_html_())
    for part in ("What is guaranteed", "How it was made"):
        assert part in rest
    for part in ("<h2>What may be believed", "The numbers", "<table>"):
        assert part in shown
        assert part not in rest


def test_a_cell_of_what_is_not_private_says_so_unfolded() -> None:
    shown = released(3, domain="observed-not-private")._repr_html_()
    assert "Not private" in shown
    assert "Not private" not in _folded(shown)


def test_a_cell_folds_groups_and_questions_but_one() -> None:
    shown = session().releases[SESSION.index("20 groups")]._repr_html_()
    assert (shown.count("<details open>"), shown.count("<details>")) == (1, 20)
    shown = session()._repr_html_()
    assert shown.count("<style>") == 1
    assert shown.count('<details class="question" open>') == 1
    assert shown.count('<details class="question">') == len(SESSION) - 1


def test_a_session_shows_its_budget_even_if_nothing_was_asked() -> None:
    asked = dpgap.Session(pandas.DataFrame({"a": [1]}), unit="row", epsilon="0.75")
    words = html.unescape(asked._repr_html_()).replace("\xa0", " ")
    assert "ε = 0 spent, ε = 0.75 left." in words
    assert repr(asked) == "<session: 0 releases, ε = 0 spent, ε = 0.75 left>"


def test_a_count_whose_ends_are_one_number_says_that_number() -> None:
    table = pandas.DataFrame({"patient": range(545)})
    count = dpgap.count(table, unit="patient", epsilon=100)
    assert count.findings == ("The patient count is 545 (95 % confidence).",)
