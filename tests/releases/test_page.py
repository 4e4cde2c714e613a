"""What a page says of a release, and in which order; how it looks is tested in a browser."""

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpgap
from dpgap.filter_language import Filter
from dpgap.releases.detail import LedgerReference
from dpgap.releases.page import Scale, page, rendered, together
from dpgap.releases.release import title_of
from releases_to_show import released


def _picture(release: Any) -> str:
    """The part of a page that is drawn."""
    (found,) = re.findall("<figure>.*?</figure>", page(release), re.DOTALL)
    return found


def _words(text: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split())


@pytest.mark.parametrize(
    ("unit", "item", "k", "title"),
    [
        ("customer", "product", 10, "Top 10: product, by customer count"),
        ("customer_id", "product_name", 1, "Top 1: product, by customer count"),
        ("row", "Bücher", 3, "Top 3: Bücher, by row count"),
        ("person", "search box", 2000, "Top 2,000: search box, by person count"),
        ("line", "q7\u202e<b>", 2, r"Top 2: q7\u202e<b>, by line count"),
    ],
)
def test_a_title_names_columns_as_they_are(unit: str, item: str, k: int, title: str) -> None:
    release: Any = released(3)
    asked = replace(release, question=replace(release.question, k=k, unit=unit, item=item))
    assert title_of(asked) == title
    assert f"<h1>{html.escape(title)}</h1>" in page(asked)


def test_a_filter_stands_below_the_title() -> None:
    release: Any = released(3)
    asked = replace(release.question, where=Filter("country = 'CH'"))
    filtered = replace(release, question=asked)
    assert title_of(filtered) == "Top 3: product, by customer count, with a filter"
    assert "Only these rows count: country = 'CH'." in _words(page(filtered))


def test_no_line_ends_between_a_sign_and_its_number() -> None:
    assert together("p < 0.001, ε = 1, δ = 2 and 95 % of <b>") == (
        "p&nbsp;&lt;&nbsp;0.001, ε&nbsp;=&nbsp;1, δ&nbsp;=&nbsp;2 and 95&nbsp;% of &lt;b&gt;"
    )


def test_templates_escape_all_but_stylesheets_spaces_and_drawings_of_our_own() -> None:
    home = Path(dpgap.__file__).parent
    sources = {path: path.read_text("utf-8") for path in home.rglob("*.py")}
    marked = {
        path.relative_to(home).as_posix(): text.count("Markup(") for path, text in sources.items()
    }
    assert {name: count for name, count in marked.items() if count} == {
        "releases/page.py": 3,
        "research/page.py": 1,
    }
    templates = [path.read_text("utf-8") for path in home.rglob("templates/*.html")]
    assert len(templates) > 20
    assert not [text for text in templates if re.search(r"\|\s*safe\b|autoescape", text)]


def test_what_is_above_a_line_has_it_in_its_title_and_in_its_picture() -> None:
    release = released(3, how="above")
    assert title_of(release) == "Above 2,900: product, by customer count"
    drawn = _picture(release)
    assert "threshold: 2,900" in drawn
    assert drawn.count('class="threshold"') == release.indices.size
    assert 'class="threshold"' not in _picture(released(3))


def test_findings_come_first_then_the_picture_the_numbers_the_guarantee_and_how_it_was_made() -> (
    None
):
    release = released(10)
    shown = page(release)
    parts = [together(release.findings[0]), "<figure>", "<table>", "What is guaranteed"]
    places = [shown.index(part) for part in (*parts, "How it was made", "<footer>")]
    assert places == sorted(places)


def test_a_page_says_how_its_release_was_made() -> None:
    release = released(3, how="ranked")
    paid = replace(
        release, made=release.made._replace(ledger=LedgerReference("sales", 7, "ab" * 32))
    )
    words = _words(page(paid))
    for fact in ("entry 7 of data set 'sales'", "ab" * 32, release.made.dpgap, "noise exponential"):
        assert fact in words
    assert release.made.time[:10] in words
    assert all(f"{used.name}: " in words for used in release.detail.mechanisms)


def test_a_fragment_leaves_title_and_styles_to_the_page_around_it() -> None:
    release = released(3)
    fragment = rendered("fragment.html", release=release)
    assert not re.search(r"<(h1|main|style|body|footer)|style=", fragment)
    assert fragment in page(release)


def test_numbers_have_separators_and_names_are_whole() -> None:
    release = released(3, "long")
    cells = release._cells()
    assert all(re.fullmatch(r"\d,\d{3}\.\d", cell) for cell in cells["estimate"])
    assert [len(name) for name in cells["item"]] == [300] * 3
    assert all(f"<bdi>{name}</bdi>" in page(release) for name in cells["item"])


def test_mostly_noise_is_grey_and_said_on_page_and_in_a_notebook() -> None:
    hopeless = released(10, first=20, step=1, epsilon="0.05")
    for shown in (page(hopeless), hopeless._repr_html_()):
        assert 'class="measured noise"' in shown
        assert "This part is grey because it is mostly noise." in shown
    assert "noise" not in re.findall('class="([^"]*)"', page(released(10)))
    assert "This part is grey" not in page(released(10))


def test_ranks_whose_order_is_not_sure_stand_in_a_bracket() -> None:
    release: Any = released(10, step=300)
    assert "bracket" not in _picture(release)
    values = release.measurements.copy()
    values[4:7] = values[4]
    close = replace(release, measurements=values, estimates=values)
    inside = re.findall(r'<div class="close">(.*?)</div>\s*</div>', _picture(close), re.DOTALL)
    assert [re.findall(r'class="rank">(\d+)', each) for each in inside] == [["5", "6", "7"]]
    assert "The order of rows in a bracket is not sure." in _picture(close)


def test_a_long_picture_has_an_axis_above_as_well() -> None:
    assert _picture(released(3)).count('class="row axis"') == 1
    assert _picture(released(10)).count('class="row axis"') == 2


def test_a_scale_that_does_not_begin_at_0_says_so() -> None:
    assert re.search(r"The scale begins at 2,\d\d\d, not at 0\.", _picture(released(3)))
    assert "The scale begins" not in _picture(released(3, first=100, step=45))


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [5.0, 5.0],
        [-7.0, -3.0],
        [1e-6, 3e-6],
        [0.25, 0.75],
        [-268.0, 695.0],
        [123_456_789.0, 123_456_999.0],
        [10.0**14, 10.0**14 + 10**8],
        [-1e300, 1e300],
        [2.0**53, 2.0**54],
    ],
)
def test_numbers_below_a_scale_are_different_and_do_not_touch(values: list[float]) -> None:
    scale = Scale.of(values)
    assert scale is not None
    texts = [scale.text(tick) for tick in scale.ticks]
    assert 1 <= len(set(texts)) == len(texts)
    places = [float(scale(tick)[:-1]) / 100 * 270 for tick in scale.ticks]
    halves = [len(text) * 7.5 / 2 for text in texts]
    for at in range(1, len(texts)):
        assert places[at] - places[at - 1] > halves[at] + halves[at - 1]
    assert all(4 <= float(scale(value)[:-1]) <= 96 for value in values)


@pytest.mark.parametrize("values", [[np.nan], [0.0, np.inf], [-1.7e308, 1.7e308], [1e15, 1e15 + 1]])
def test_values_that_cannot_be_drawn_are_not(values: list[float]) -> None:
    assert Scale.of(values) is None


def test_nothing_found_has_words_and_no_table() -> None:
    nothing = released(0, how="above")
    for shown in (page(nothing), nothing._repr_html_(), str(nothing)):
        assert "Nothing was found above 1,000,000." in shown
        assert "<table>" not in shown
        assert "<svg" not in shown


def test_an_array_shows_its_numbers_without_a_question() -> None:
    shown = page(dpgap.NoisyTopK(2, 1).release([1, 5000]))
    assert "<h1>The largest answers</h1>" in shown
    assert re.search(r"\d,\d{3}</td>", shown)


def test_whole_numbers_have_no_point_unless_another_number_of_the_table_has() -> None:
    whole = dpgap.NoisyTopK(2, 1, noise="exponential").release([10, 5000, 20])
    for shown in (page(whole), str(whole), whole._repr_html_()):
        assert not re.search(r"\d\.0", shown[: shown.index("differential privacy")])
    values = np.array([1.0, 2.5])
    mixed = replace(dpgap.CountHull(1, monotonic=True).release([1, 2]), values=values)
    assert mixed._cells()["estimate"] == ["1.0", "2.5"]
    assert mixed[0].low.is_integer()
    assert re.fullmatch(r"-\d+\.0", mixed._cells()["95% low"][0])


def test_a_name_is_written_in_one_way_wherever_it_is_shown() -> None:
    labels = ["fig\x1b[2J", "", ("pea", np.int64(3)), None]
    release = dpgap.NoisyTopK(4, 1000).release([900, 600, 300, 0], labels=labels)
    written = [r"fig\x1b[2J", '""', "['pea', 3]", "None"]
    assert release._cells()["item"] == written
    assert r"fig\x1b[2J" in str(release)


def test_a_set_has_one_p_value_which_is_of_no_row() -> None:
    ranked, joint = (
        dpgap.measured_top_k([900, 600, 300, 0, 0], 3, 9, method=method, monotonic=True)
        for method in ("ranked", "joint")
    )
    assert joint._is_proved_as_a_set
    assert not ranked._is_proved_as_a_set
    assert None not in {row.p for row in ranked}
    assert {row.p for row in joint} == {None}
    assert joint.set_p_value is not None


def test_a_label_that_is_a_number_keeps_its_digits() -> None:
    named = dpgap.NoisyTopK(1, 9).release([1, 5000], labels=[0.25, 1.75])
    assert named._cells()["item"] == ["1.75"]
