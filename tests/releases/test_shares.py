"""Shares of a count or a total hold for all winners at once, with the noise of both releases."""

import math
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import stats

import dpgap
from dpgap.data.counts import counts, units_of
from dpgap.data.private_counts import CountsInMemory
from dpgap.pipelines.tables import answer
from dpgap.question import Counting, read_question
from dpgap.releases.release import MeasuredItems, MeasuredValues, Shares
from law_tests import LEVEL
from seams import InsecureSeededBits, bits_are

SIZES = {"fig": 90, "pea": 80, "oat": 70, "rye": 9, "nut": 8}
SOLD = pandas.DataFrame(
    {
        "who": range(sum(SIZES.values())),
        "what": [name for name, size in SIZES.items() for _ in range(size)],
        "paid": [1.5 + place % 3 for place in range(sum(SIZES.values()))],
    }
)
ITEMS = list(SIZES)
SURE = 10**6
"""An ε at which noise is next to nothing."""


def _shared(**asked: Any) -> Shares:
    """The shares of the largest two, without noise to speak of."""
    with dpgap.Session(SOLD, unit=asked.pop("unit", "row"), epsilon=3 * SURE) as session:
        top = session.top_k("what", domain=ITEMS, k=2, epsilon=SURE, **asked)
        asked.pop("max_items", None)
        if "sum" in asked:
            return top.shares(session.total(epsilon=SURE, **asked))
        return top.shares(session.count(epsilon=SURE))


def _runs(
    runs: int, k: int, **bounds: Any
) -> tuple[list[tuple[MeasuredItems, MeasuredValues]], dict[str, float]]:
    """Many pairs of a top k and its whole, which has much more noise; and the true shares."""
    asked: dict[str, Any] = {"unit": "row", **bounds}
    found = counts(SOLD, item="what", domain=ITEMS, **asked)
    units = units_of(SOLD, Counting(**asked))
    names = ("sensitivity", "monotonic", "origin", "reach", "step")
    facts: dict[str, Any] = {name: getattr(found, name) for name in names}
    items = CountsInMemory(ITEMS, np.arange(len(ITEMS)), found.expanded(), **facts)
    kind = "total" if bounds else "count"
    wanted = read_question(kind, epsilon="0.1")
    with bits_are(InsecureSeededBits(11)):
        made = [
            (dpgap.top_k(items, k=k, epsilon=1), answer(wanted, units, None, True))
            for _ in range(runs)
        ]
    true = items.expanded() / units.expanded()[0]
    return made, dict(zip(ITEMS, true.tolist(), strict=True))


def _holds(rows: Any, true: dict[str, float]) -> bool:
    """Whether all intervals hold; what is not listed is "other"."""
    rest = 1 - sum(true[item] for item, *_ in rows if item in true)
    return all(low - 1e-9 <= true.get(item, rest) <= high + 1e-9 for item, _, low, high in rows)


@pytest.mark.parametrize("bounds", [{}, {"sum": "paid", "at_most": 3, "at_least": -1}])
@pytest.mark.parametrize("runs", [80, pytest.param(2_000, marks=pytest.mark.long)])
def test_all_shares_hold_at_once_and_would_not_without_the_noise_of_the_whole(
    bounds: dict[str, Any], runs: int
) -> None:
    made, true = _runs(runs, 3, **bounds)
    held = naive = 0
    for top, whole in made:
        shares = top.shares(whole)
        assert shares.other is not None
        held += _holds((*shares.items, shares.other), true)
        ends = top._ends_of_all()[top._order] / max(whole.estimate, 1e-9)
        rows = zip(top.labels or (), top.labels or (), *ends.T.tolist(), strict=True)
        naive += _holds(list(rows), true)
    assert stats.binom.cdf(held, runs, 0.95) > LEVEL
    assert stats.binom.cdf(naive, runs, 0.95) < LEVEL


def test_half_the_confidence_is_a_shorter_interval_and_both_name_their_level() -> None:
    made, _ = _runs(1, 2)
    top, whole = made[0]
    wide, short = top.shares(whole), top.shares(whole, level=0.5)
    for one, other in zip(wide.items, short.items, strict=True):
        assert one.high - one.low > other.high - other.low
    for shares, level in ((wide, 95), (short, 50)):
        assert list(shares.to_frame().columns) == ["item", "share", "low", "high"]
        assert list(shares._cells()) == ["item", "share", f"{level}% low", f"{level}% high"]
    with pytest.raises(ValueError, match="level"):
        top.shares(whole, level=1.5)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"unit": "who", "max_items": 1},
        {"sum": "paid", "at_most": 10},
        {"unit": "who", "sum": "paid", "at_most": 10},
        {"sum": "paid", "at_most": 10, "at_least": -1},
    ],
)
def test_the_rest_is_other_where_items_do_not_overlap(asked: dict[str, Any]) -> None:
    shares = _shared(**asked)
    sizes = SOLD.groupby("what")["paid"].agg("sum" if "sum" in asked else "size")
    true = (sizes / sizes.sum()).to_dict()
    assert [share.item for share in shares.items] == ["fig", "pea"]
    assert shares.other is not None
    assert shares.other.item == "other"
    found = [*(share.estimate for share in shares.items), shares.other.estimate]
    expected = [true["fig"], true["pea"], 1 - true["fig"] - true["pea"]]
    assert np.allclose(found, expected, atol=1e-4)
    assert shares.to_frame()["item"].tolist() == ["fig", "pea", "other"]


def test_units_with_several_items_have_no_other() -> None:
    shares = _shared(unit="who")
    assert shares.other is None
    assert "shares may add up to more than 100 %" in str(shares)


def test_totals_of_units_may_be_cut_so_that_other_is_below_0() -> None:
    """A unit adds 5 to each of two items, and 5 in all."""
    table = pandas.DataFrame({"who": [1, 1] * 50, "what": ["fig", "pea"] * 50, "paid": 9})
    asked: dict[str, Any] = {"sum": "paid", "at_most": 5, "epsilon": SURE}
    with dpgap.Session(table, unit="who", epsilon=2 * SURE) as session:
        top = session.top_k("what", domain=["fig", "pea", "oat"], k=2, **asked)
        shares = top.shares(session.total(**asked))
    assert [round(share.estimate, 3) for share in shares.items] == [1.0, 1.0]
    assert shares.other is not None
    assert math.isclose(shares.other.estimate, -1.0, abs_tol=1e-3)
    assert "“other” may be below 0" in str(shares)


def test_intervals_are_cut_to_0_and_1_only_where_shares_cannot_be_beyond() -> None:
    tiny: dict[str, Any] = {"epsilon": "0.001"}
    seeded = bits_are(InsecureSeededBits(5))
    with seeded, dpgap.Session(SOLD, unit="who", epsilon=9) as session:
        top = session.top_k("what", domain=ITEMS, k=2, epsilon=1)
        ends = [top.shares(session.count(**tiny)).items[0][2:] for _ in range(8)]
        assert all(0 <= low <= high <= 1 for low, high in ends)
        signed: dict[str, Any] = {"sum": "paid", "at_most": 9, "at_least": -9}
        sums = session.top_k("what", domain=ITEMS, k=2, epsilon=1, **signed)
        lost = sums.shares(session.total(epsilon="0.001", **signed))
    assert lost.items[0][2:] == (-math.inf, math.inf)
    assert "–" in str(lost)


def test_where_noise_has_left_nothing_of_the_whole_no_share_is_estimated() -> None:
    made, _ = _runs(1, 2)
    top = made[0][0]
    with dpgap.Session(SOLD, unit="row", epsilon=1) as session:
        counts = (session.count(epsilon="0.0001") for _ in range(60))
        below = next(each for each in counts if each.estimate <= 0)
    shares = top.shares(below)
    assert all(math.isnan(share.estimate) for share in shares.items)
    assert "nan" not in str(shares)


def test_arrays_have_shares_too_and_nothing_is_known_of_them() -> None:
    whole = dpgap.count(SOLD, unit="row", epsilon=SURE)
    top = dpgap.measured_top_k([90, -80, 70], 2, SURE, labels=["<b>fig", "pea", "oat"])
    shares = top.shares(whole)
    assert [share.item for share in shares.items] == ["<b>fig", "oat"]
    assert shares.other is None
    assert "&lt;b&gt;fig" in shares._repr_html_()
    assert "35.0%" in str(shares)
    assert shares._to_dict()["items"][0]["item"] == "<b>fig"


def test_what_was_found_above_a_line_has_shares_and_so_has_nothing() -> None:
    whole = dpgap.count(SOLD, unit="row", epsilon=SURE)
    asked: dict[str, Any] = {"unit": "row", "item": "what", "domain": ITEMS, "epsilon": SURE}
    found = dpgap.above(SOLD, threshold=50, **asked).shares(whole)
    assert [share.item for share in found.items] == ["fig", "pea", "oat"]
    nothing = dpgap.above(SOLD, threshold=500, **asked).shares(whole)
    assert nothing.items == ()
    assert nothing.other == ("other", 1.0, 1.0, 1.0)


def test_a_release_that_was_read_again_has_the_same_shares() -> None:
    made, _ = _runs(1, 2)
    top, whole = made[0]
    read: Any = dpgap.read_release
    assert read(top.to_json()).shares(read(whole.to_json())) == top.shares(whole)


def test_a_whole_of_another_question_is_refused() -> None:
    asked: dict[str, Any] = {"sum": "paid", "at_most": 10, "epsilon": 1}
    table: dict[str, Any] = {"unit": "who", "item": "what", "domain": ITEMS, "k": 1}
    top, sums = dpgap.top_k(SOLD, **table, epsilon=1), dpgap.top_k(SOLD, **table, **asked)
    with pytest.raises(ValueError, match="of must be a count, not a total"):
        top.shares(dpgap.total(SOLD, unit="who", **asked))
    with pytest.raises(ValueError, match="of must be a total, not a count"):
        sums.shares(dpgap.count(SOLD, unit="who", epsilon=1))
    with pytest.raises(ValueError, match="the same at_most as these items, 10, not 9"):
        sums.shares(dpgap.total(SOLD, unit="who", **asked | {"at_most": 9}))
    with pytest.raises(ValueError, match="the same where as these items, None, not paid > 2"):
        top.shares(dpgap.count(SOLD, unit="who", epsilon=1, where="paid > 2"))
    with pytest.raises(ValueError, match="the same unit as these items, who, not row"):
        top.shares(dpgap.count(SOLD, unit="row", epsilon=1))
    with pytest.raises(ValueError, match="the same table"):
        top.shares(dpgap.count(SOLD[["who"]], unit="who", epsilon=1))
    with pytest.raises(TypeError, match=r"of must be a released count or total.*not MeasuredItems"):
        top.shares(top)  # type: ignore[arg-type]
    groups: dict[str, Any] = {"by": "paid", "groups": [1], "max_groups": 1}
    by = dpgap.top_k(SOLD.assign(paid=1), **table, **groups, epsilon=1)
    with pytest.raises(ValueError, match="without groups"):
        by[1].shares(dpgap.count(SOLD, unit="who", epsilon=1))
