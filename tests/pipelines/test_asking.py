"""What answers a question is public; what makes no sense is refused before anything is paid."""

from fractions import Fraction
from typing import Any

import pandas
import pytest

import dpgap
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import NOTHING, Limit

SOLD = pandas.DataFrame(
    {
        "who": range(3000),
        "what": ["fig"] * 1500 + ["pea"] * 900 + ["oat"] * 600,
        "where": ["CH", "DE", "FR"] * 1000,
        "paid": [2.5, 1.25, -1.0] * 1000,
    }
)
ITEMS = ["fig", "pea", "oat", "rye"]
TABLE: dict[str, Any] = {"unit": "who", "item": "what"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"domain": ITEMS, "delta": "1e-9"}, "delta must be 0 if a domain is stated"),
        ({"max_items": 1}, "delta must be above 0 if domain is None"),
        ({"delta": "1e-9"}, "max_items"),
        ({"domain": ITEMS, "delta": 1}, "delta must be at least 0 and less than 1"),
        ({"domain": ITEMS, "delta": -1}, "delta must be at least 0 and less than 1"),
        ({"domain": ITEMS, "method": "histogram"}, "needs max_items"),
        ({"domain": ITEMS, "method": "hybrid"}, "method must be one of"),
        ({"domain": ITEMS, "by": "where"}, "groups"),
        ({"domain": ITEMS, "by": "where", "groups": ["CH", "CH"], "max_groups": 1}, "twice"),
        (
            {"domain": ITEMS, "by": "where", "groups": [], "max_groups": 1},
            "groups must not be empty",
        ),
        (
            {"domain": ITEMS, "by": "nowhere", "groups": ["CH"], "max_groups": 1},
            "no column 'nowhere'",
        ),
        ({"domain": ITEMS, "groups": ["CH"]}, "need by"),
        ({"domain": ITEMS, "max_items": 0}, "max_items must be"),
        ({"domain": ITEMS, "sum": "paid"}, "at_most"),
        ({"domain": ITEMS, "sum": "paid", "at_most": -3}, "at_most must be"),
        ({"domain": ITEMS, "sum": "paid", "at_most": 5, "at_least": 1}, "at_least must be"),
        ({"domain": ITEMS, "sum": "gone", "at_most": 5}, "no column 'gone'"),
        ({"domain": ITEMS, "at_most": 5}, "need sum"),
        ({"domain": ITEMS, "where": "where == 'CH' an paid > 2"}, "where"),
        ({"domain": ITEMS, "where": "gone = 3"}, "no column 'gone'"),
        ({"domain": ITEMS, "max_items": 1, "neighbours": "replace"}, "neighbours"),
        ({"delta": "1e-9", "max_items": 1, "method": "joint"}, "method must be 'best' or"),
        ({"delta": "1e-9", "max_items": 1, "method": "paper"}, "method must be 'best' or"),
        ({"domain": ITEMS, "by": "where", "groups": [1, True], "max_groups": 1}, "twice"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_charge(
    said: dict[str, Any], message: str
) -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1), Fraction(1, 2)))
    with pytest.raises((TypeError, ValueError), match=message):
        dpgap.top_k(SOLD, **TABLE, k=1, epsilon=1, account=purse, **said)
    assert purse.spent == NOTHING


@pytest.mark.parametrize("more", [{}, {"max_items": 1}, {"max_items": 1, "method": "histogram"}])
def test_no_more_items_are_looked_for_than_the_domain_has(more: dict[str, Any]) -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    k = len(ITEMS) + 1
    said = f"k must be at most the number of items in the domain, {len(ITEMS)}, not {k}"
    with pytest.raises(ValueError, match=said):
        dpgap.top_k(SOLD, **TABLE, domain=ITEMS, k=k, epsilon=1, account=purse, **more)
    assert purse.spent == NOTHING


def test_without_reach_above_needs_a_k() -> None:
    with pytest.raises(ValueError, match="k must be given"):
        dpgap.above(SOLD, **TABLE, domain=ITEMS, threshold=100, epsilon=1)


@pytest.mark.parametrize(
    ("max_items", "k", "route"),
    [(1, 1, "histogram"), (1, 3, "histogram"), (4, 3, "ranked"), (60, 3, "ranked")],
)
def test_the_route_with_the_least_error_is_taken(max_items: int, k: int, route: str) -> None:
    release = dpgap.top_k(SOLD, **TABLE, domain=ITEMS, k=k, epsilon=1, max_items=max_items)
    assert release.detail.route in (route, "joint" if route == "ranked" else route)


def test_one_row_a_unit_has_reach_one_by_itself() -> None:
    release = dpgap.top_k(SOLD, unit="row", item="what", domain=ITEMS, k=2, epsilon=1)
    assert release.detail.route == "histogram"
    assert release.variances[0] == pytest.approx(1.84, abs=0.01)
    unknown = dpgap.top_k(SOLD, unit="row", item="what", k=2, epsilon=1, delta="1e-6")
    assert unknown.labels == ("fig", "pea")
    assert unknown.detail.promise.reach == 1


def test_sums_are_released_in_the_units_of_their_column() -> None:
    release = dpgap.top_k(SOLD, **TABLE, domain=ITEMS, k=2, epsilon=100, sum="paid", at_most=3)
    truth = SOLD.assign(paid=SOLD.paid.clip(0, 3)).groupby("what").paid.sum()
    for label, estimate in zip(release.labels, release.estimates, strict=True):
        assert abs(estimate - truth[label]) < 1
    low, high = release.interval(0.999).T
    assert all(low[at] <= truth[label] <= high[at] for at, label in enumerate(release.labels))
    assert (high - low < 5).all()


def test_unknown_items_say_their_delta_everywhere() -> None:
    release = dpgap.top_k(SOLD, **TABLE, k=2, epsilon=1, delta="1e-9", max_items=1)
    assert release.labels == ("fig", "pea")
    assert "δ = 10⁻⁹" in release.guarantee
    assert release._to_dict()["delta"] == "1/1000000000"
    assert dpgap.read_release(release.to_json()).to_json() == release.to_json()


@pytest.mark.parametrize("max_items", [1, 500])
def test_a_line_keeps_out_what_few_units_have(max_items: int) -> None:
    """By a histogram for a small reach, by Hybrid Top-K for a large one."""
    rare = pandas.DataFrame({"who": range(3001), "what": ["fig"] * 3000 + ["only mine"]})
    release = dpgap.top_k(rare, **TABLE, k=5, epsilon=1, delta="1e-9", max_items=max_items)
    assert release.labels == ("fig",)
    assert release.detail.route == ("histogram" if max_items == 1 else "hybrid")


def test_everything_above_a_line_is_found_without_a_limit() -> None:
    release = dpgap.above(SOLD, **TABLE, domain=ITEMS, threshold=400, epsilon=5, max_items=1)
    assert release.labels == ("fig", "pea", "oat")
    few = dpgap.above(SOLD, **TABLE, domain=ITEMS, threshold=400, k=2, epsilon=5, max_items=1)
    assert few.labels == ("fig", "pea")


def test_every_group_costs_the_whole_epsilon_once() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(2)))
    found = dpgap.top_k(
        SOLD,
        **TABLE,
        domain=ITEMS,
        k=1,
        epsilon=2,
        by="where",
        groups=["CH", "DE"],
        max_groups=1,
        account=purse,
    )
    assert purse.remaining.epsilon == 0
    assert [release.epsilon for release in found.values()] == [2, 2]
    halved = dpgap.top_k(
        SOLD, **TABLE, domain=ITEMS, k=1, epsilon=2, by="where", groups=["CH", "DE"], max_groups=2
    )
    assert [release.epsilon for release in halved.values()] == [1, 1]
    again = dpgap.read_release(halved.to_json())
    assert again.to_json() == halved.to_json()
    assert list(again) == ["CH", "DE"]


def test_a_count_says_of_how_many() -> None:
    release = dpgap.count(SOLD, unit="who", epsilon=10, where="where = 'CH'")
    low, high = release.interval(0.999)
    assert low <= 1000 <= high
    assert high - low < 6
    assert dpgap.read_release(release.to_json()).to_json() == release.to_json()


def test_one_group_is_not_asked_in_the_name_of_all_groups() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    asked = {"domain": ITEMS, "by": "where", "groups": ["CH", "DE"], "max_groups": 1}
    by_group = dpgap.counts(SOLD, **TABLE, **asked)
    with pytest.raises(TypeError, match="all groups"):
        dpgap.top_k(by_group["CH"], k=1, epsilon=1, account=purse)
    assert purse.spent == NOTHING


def test_counts_of_items_are_no_count_of_units() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    answers = dpgap.counts(SOLD, **TABLE, domain=ITEMS, max_items=1)
    with pytest.raises(TypeError, match="the table itself"):
        dpgap.count(answers, epsilon=1, account=purse)
    assert purse.spent == NOTHING


@pytest.mark.parametrize("max_items", [1, 3])
def test_how_many_unknown_items_there_are_is_not_told(max_items: int) -> None:
    answers = dpgap.counts(SOLD, **TABLE, max_items=max_items)
    for tell in (len, bool):
        with pytest.raises(TypeError, match="private"):
            tell(answers)


def test_how_many_units_there_are_is_public_where_one_is_replaced() -> None:
    with pytest.raises(ValueError, match="number of units stays the same, and is public"):
        dpgap.count(SOLD, unit="who", epsilon=1, neighbours="replace")
