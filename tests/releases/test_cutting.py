"""Where a question cuts, the first finding says so, and every claim says of what it is."""

import re
from pathlib import Path
from typing import Any

import pandas
import pytest

import dpgap
from dpgap.releases.page import page, session_page
from dpgap.releases.text import shown

PRODUCTS = ["Figs", "Peas", "Oats"]
LANDS = ["CH", "DE", "FR"]
SALES = pandas.DataFrame(
    [
        (who, name, LANDS[(who + at) % 3], 40 + at)
        for who in range(900)
        for at, name in enumerate(PRODUCTS)
        if who % (1 + 3 * at) == 0
    ],
    columns=["customer", "product", "country", "amount"],
)
ASKED: dict[str, Any] = {"unit": "customer", "item": "product", "domain": PRODUCTS, "epsilon": 20}
BY = {"by": "country", "groups": LANDS}
SUM = {"sum": "amount", "at_most": 200}
UNKNOWN = {"domain": None, "delta": "1e-6"}
LOW = "so counts may be too low."
OR_NEGATIVE = "so totals may be too low (too high, if amounts are negative)."
SUMMED = "adds at least 0 and at most 200 to each item"

CUT = {
    f"Each customer counts in one country only, drawn at random, {LOW}": {**BY, "max_groups": 1},
    f"Each customer counts in at most 2 groups, drawn at random, {LOW}": {
        **BY,
        "max_groups": 2,
    },
    f"Each customer counts for one product only, drawn at random, {LOW}": {"max_items": 1},
    f"Each customer counts for at most 2 items, drawn at random, {LOW}": {"max_items": 2},
    f"Each customer counts for at most 20 items, drawn at random, {LOW}": {
        **UNKNOWN,
        "max_items": 20,
    },
    "Each customer counts in one country only and for at most 2 pairs of group and item, "
    f"drawn at random, {LOW}": {**BY, "max_groups": 1, "max_items": 2},
    f"Each customer {SUMMED}, {OR_NEGATIVE}": SUM,
    f"Each row {SUMMED}, {OR_NEGATIVE}": {**SUM, "unit": "row"},
    "Each customer adds at least -5 and at most 1000 to each item, "
    "so totals may be too low or too high.": {**SUM, "at_most": 1000, "at_least": -5},
    f"Each customer counts for one product only, drawn at random, and {SUMMED}, {OR_NEGATIVE}": {
        **SUM,
        "max_items": 1,
    },
}
UNCUT = (
    {},
    {"max_items": 3},
    {**BY, "max_groups": 3},
    {**BY, "groups": ["CH"], "max_groups": 1},
    {**BY, "max_groups": 3, "max_items": 9},
    {**BY, "unit": "row"},
    {"unit": "row", "max_items": 1},
    {**UNKNOWN, "unit": "row"},
    {"where": "country = 'CH'"},
)


def _claims(release: Any) -> list[str]:
    """The findings that claim something to be so."""
    said = [each for each in release.findings if re.search(r"\b(surely|sure|truly)\b", each)]
    return said + [each for each in release.findings if re.search("(?<!who )belongs? among", each)]


@pytest.mark.parametrize("sentence", CUT)
def test_the_first_finding_says_what_was_cut_and_which_way_numbers_are_off(sentence: str) -> None:
    release = dpgap.top_k(SALES, **ASKED | {"k": 2} | CUT[sentence])
    for each in (release, dpgap.read_release(release.to_json())):
        assert each.findings[0] == sentence
        assert each._to_dict()["findings"][0] == sentence
        assert _claims(each)
        assert all("with this limit" in said.lower() for said in _claims(each))
    for face in (str(release), shown(release, None), page(release), session_page([release], "")):
        text = " ".join(re.sub("<[^>]*>|&nbsp;", " ", face).split())
        assert text.count(sentence) == 1
        assert text.index(sentence) < min(map(text.index, PRODUCTS[:1]))


def test_a_long_filter_hides_no_limit() -> None:
    """A filter's normal form may be longer than what users may write."""
    asked = ASKED | {"k": 2, "max_items": 1, "where": "or ".join(["country='CH' "] * 250)}
    release = dpgap.top_k(SALES, **asked)
    assert len(release.question.where.text) > 4000
    assert release.findings[0].startswith("Each customer counts for one product only")


@pytest.mark.parametrize("more", UNCUT)
def test_where_nothing_is_cut_nothing_is_said(more: dict[str, Any]) -> None:
    release = dpgap.top_k(SALES, **ASKED | {"k": 2} | more)
    assert "With this limit" not in " ".join(release.findings)
    assert not re.search("drawn at random|adds at least", release.findings[0])


def test_what_is_above_a_line_says_it_too() -> None:
    for found in (100, 10**6):
        release = dpgap.above(SALES, **ASKED, threshold=found, k=2, max_items=1)
        assert "above" in release.findings[0]
        assert release.findings[1].startswith("Each customer counts for one product only")
        assert all("with this limit" in said.lower() for said in _claims(release))
    assert "Nothing was found above 1,000,000." in release.findings


def test_a_group_alone_says_what_it_is_of() -> None:
    groups = dpgap.top_k(SALES, **ASKED, k=2, **BY, max_groups=1)
    assert {each.findings[0] for each in groups.values()} == {groups.findings[0]}
    assert " ".join(groups.findings).count("drawn at random") == 1


def test_of_cut_counts_the_words_are_true_where_the_numbers_are_not() -> None:
    """All 900 bought figs. Whoever bought anything else too counts for one of both."""
    release = dpgap.top_k(SALES, **ASKED, k=1, max_items=1)
    assert release.interval()[0, 1] < 900
    assert release.findings[0].endswith("so counts may be too low.")


@pytest.fixture
def baskets(tmp_path: Path) -> str:
    path = tmp_path / "baskets.dat"
    path.write_text("".join("1 2 3\n" if at % 2 else "2 3\n" for at in range(400)))
    return str(path)


@pytest.mark.parametrize("unit", [None, "line", "row"])
def test_a_line_of_a_fimi_file_says_what_was_cut(unit: str | None, baskets: str) -> None:
    asked: dict[str, Any] = {"unit": unit, "domain": range(5), "k": 2, "epsilon": 50}
    release = dpgap.top_k(baskets, **asked, max_items=1)
    what = unit or "line"
    assert release.findings[0] == f"Each {what} counts for one item only, drawn at random, {LOW}"
    assert "A unit is one line of the file." in release.guarantee
    assert "Each unit counts for one item only, drawn at random." in release.guarantee
    assert "drawn at random" not in dpgap.top_k(baskets, **asked).findings[0]


def test_a_line_of_a_fimi_file_is_not_cut_to_one_item_by_itself(baskets: str) -> None:
    asked: dict[str, Any] = {"unit": "row", "k": 3, "epsilon": 50, "delta": "1e-6"}
    with pytest.raises(TypeError, match="needs max_items"):
        dpgap.top_k(baskets, **asked)
    whole = dpgap.top_k(baskets, **asked, max_items=3)
    assert sorted(whole.labels) == ["1", "2", "3"]
    assert (abs(whole.estimates[whole._order] - [400, 400, 200]) < 5).all()


def test_groups_need_to_be_told_how_many_a_unit_counts_in() -> None:
    spent: list[Any] = []

    class Payer:
        def reserve(self, *charge: Any) -> None:
            spent.append(charge)

    asked = {"k": 1, **ASKED, **BY}
    says = "by needs max_groups: .* With 1, each unit counts in one group, drawn at random"
    with pytest.raises(ValueError, match=says):
        dpgap.top_k(SALES, **asked, account=Payer())
    with pytest.raises(ValueError, match=says):
        dpgap.above(SALES, **asked, threshold=5, account=Payer())
    with pytest.raises(ValueError, match=says):
        dpgap.counts(SALES, unit="customer", item="product", domain=PRODUCTS, **BY)
    with dpgap.Session(SALES, unit="customer", epsilon=9) as session:
        with pytest.raises(ValueError, match=says):
            session.top_k("product", domain=PRODUCTS, k=1, epsilon=1, **BY)
        assert session.spent == 0
    assert spent == []


def test_to_state_the_one_group_that_held_before_leaves_the_identity_as_it_was(
    tmp_path: Path,
) -> None:
    SALES.to_csv(tmp_path / "sales.csv", index=False)
    path = str(tmp_path / "sales.csv")
    stated = dpgap.top_k(path, **ASKED, k=1, **BY, max_groups=1)
    rows = dpgap.top_k(path, **ASKED | {"unit": "row"}, k=1, **BY)
    assert "max_groups" not in stated.to_json() + rows.to_json()
    assert "max_groups" not in stated.question.bounds()
