"""What a release says may be believed: sentences that are right, the same again from a document."""

import html
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from scipy import stats

import dpgap
from dpgap.estimates.certificates import Evidence
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.shells import shells
from dpgap.releases.findings import is_mostly_noise
from dpgap.releases.release import MeasuredItems
from faces import altered_release, faces
from seams import bits_are

MEANING = "p: how often luck alone would put an outsider this far ahead."
CONFIDENCE = (
    "Claims about who belongs are all correct with 95 % confidence; so are claims about order and "
    "size."
)
SCALE = Fraction(20)


def _release(values: list[float], leads: list[float], **changes: Any) -> MeasuredItems:
    """A top k with these measurements, and leads whose noise has scale 20."""
    made = dpgap.measured_top_k([1] * 50, len(values), 1, monotonic=True, method="ranked")
    measured = np.array(values)
    evidence = Evidence(tuple(leads), (SCALE,) * len(leads))
    facts = {"measurements": measured, "estimates": measured, "evidence": evidence}
    return altered_release(made, **facts | changes)


def _same_again(release: Any) -> tuple[str, ...]:
    """The findings; a document gives the same, and every form shows them in this order."""
    assert dpgap.read_release(release.to_json()).findings == release.findings
    assert release._to_dict()["findings"] == list(release.findings)
    shown = faces(release)
    for face in ("table", "on a terminal", "in a notebook"):
        text = " ".join(html.unescape(shown[face]).split())
        places = [text.index(sentence) for sentence in release.findings]
        assert places == sorted(places)
    return release.findings


FAR = [9000.0 - 300 * place for place in range(10)]


def test_a_clear_release():
    release = _release(FAR, [200.0] * 10)
    assert _same_again(release) == (
        "All ten are surely among the top ten (p < 0.001).",
        "The order of all ten is sure.",
        CONFIDENCE,
        MEANING,
    )
    assert release.groups() == tuple((rank,) for rank in range(1, 11))


def test_a_mixed_release():
    values = [*FAR[:4], 3000, 2970, 2966, 2940, 2910, 2907]
    release = _release(values, [200.0] * 10)
    half = release._half_width_of_pairs()
    assert 30 < half < 93
    enough = np.ceil(half / 26 * 10) / 10  # the median of 30, 4, 26, 30 and 3
    assert _same_again(release) == (
        "All ten are surely among the top ten (p < 0.001).",
        "The order of the first four is sure.",
        (
            f"The order within ranks 5 to 10 is not sure; about ε = {enough:.1f} would "
            "separate most of them, if these estimates are right."
        ),
        CONFIDENCE,
        MEANING,
    )
    assert release.groups() == ((1,), (2,), (3,), (4,), (5, 6, 7, 8, 9, 10))


def test_a_close_release():
    values = [1000.0 - place for place in range(10)]
    release = _release(values, [200.0] * 7 + [1.0, 2.0, 3.0])
    assert _same_again(release) == (
        "Seven of the ten are surely among the top ten: ranks 1 to 7.",
        "The order within ranks 1 to 10 is not sure; even ten times this ε may not be enough.",
        CONFIDENCE,
    )
    assert not is_mostly_noise(release)


def test_a_hopeless_release_says_so_first():
    release = _release([10.0 - 2 * place for place in range(10)], [9.0] * 10)
    assert _same_again(release) == (
        (
            "This is mostly noise: it is not sure that any of the ten is among the top ten, "
            "their order is not sure, and all ten values may be 0."
        ),
        "Ask with more ε, or for fewer items.",
    )
    assert is_mostly_noise(release)
    assert release._to_dict()["findings"][0] == release.findings[0]
    large = _release([1000.0 - 5 * place for place in range(10)], [9.0] * 10)
    assert large.findings[0] == (
        "Little is sure here: it is not sure that any of the ten is among the top ten, and their "
        "order is not sure."
    )


def test_a_winner_alone():
    assert _release([500.0], [90.0]).findings[0] == "It is surely the largest (p = 0.011)."
    assert _release([500.0], [9.0]).findings[0] == ("It is not sure that it is the largest.")


def test_some_may_be_0_and_groups_are_named():
    release = _release([900.0, 890.0, 500.0, 490.0, 3.0], [120.0, 120.0, 120.0, 120.0, 1.0])
    said = _same_again(release)
    assert said[0] == "Four of the five are surely among the top five: ranks 1 to 4."
    assert said[1].startswith("The order within ranks 1 and 2 and within ranks 3 and 4 is not")
    assert said[2] == "The true value of rank 5 may be 0."
    assert release.groups() == ((1, 2), (3, 4), (5,))


def test_ranks_are_by_estimate_and_leads_go_with_their_items():
    release = _release([10.0, 900.0, 500.0], [1.0, 90.0, 80.0])
    assert "Two of the three are surely among the top three: ranks 1 and 2." in release.findings
    assert [row.item for row in release] == release.indices[[1, 2, 0]].tolist()
    assert [row.p for row in release] == release.p_values[[1, 2, 0]].tolist()


def test_an_estimate_outside_its_interval_is_explained():
    release = _release(FAR, [200.0] * 10)
    moved = release.estimates - 100 * (np.arange(10) == 2)
    assert _same_again(altered_release(release, estimates=moved))[2] == (
        "Estimates outside their intervals: rank 3. An interval uses the measurement alone, and "
        "an estimate also uses the leads."
    )
    moved = moved - 100 * (np.arange(10) == 6)
    assert _same_again(altered_release(release, estimates=moved))[2] == (
        "Estimates outside their intervals: ranks 3 and 7. An interval uses the measurement "
        "alone, and an estimate also uses the leads."
    )


def test_a_set_belongs_as_a_whole_or_not_at_all():
    sure = _release(FAR, [90.0])
    assert sure.findings[0] == "All ten are surely among the top ten (p = 0.011)."
    assert sure.p_values.tolist() == [sure.set_p_value] * 10
    unsure = _release(FAR, [30.0])
    assert not unsure._belong().any()
    assert unsure.findings[0] == "It is not sure that these are the top ten (p = 0.22)."
    close = _release([1000.0 - place for place in range(10)], [30.0])
    assert close.findings[0] == (
        "Little is sure here: it is not sure that these are the top ten, and their "
        "order is not sure."
    )


def _above(threshold: int, **options: Any) -> MeasuredItems:
    counts = [9000, 8000, 7000, 5001, 4999, *[100] * 20]
    return dpgap.measured_above(counts, threshold, 5, 1, monotonic=True, **options)


def _measured(release: MeasuredItems, *values: float) -> dict[str, Any]:
    """The parts of a release with these measurements, the first of the largest estimate."""
    measured = np.empty(len(values))
    measured[release._order] = values
    return {"measurements": measured, "estimates": measured}


def test_what_was_measured_to_be_above_is_sure_though_its_lead_proves_nothing():
    no_lead = Evidence((0.0, 0.0, 0.0), (SCALE,) * 3)
    release = altered_release(_above(6000), evidence=no_lead)
    assert _same_again(release)[:2] == (
        "All three are surely above 6,000.",
        "The order of all three is sure.",
    )
    low = release.measurements - release._ends_of_all(0.975)[:, 0]
    close = altered_release(release, **_measured(release, 9000, 6001 + low[0], 5999 + low[0]))
    assert close.findings[:2] == (
        "Two of the three are surely above 6,000: ranks 1 and 2.",
        "It is not sure that rank 3 is above 6,000.",
    )
    assert close._ends_of_all(0.95)[:, 0].min() > 6000  # which alone would be too sure


def test_at_most_5_percent_of_releases_say_of_what_is_on_the_line_that_it_is_above():
    """Level 10⁻⁶. To trust leads and measurements with 95 % each is caught."""
    runs, generator = 3_000, np.random.default_rng(5)
    with bits_are(InsecureSeededBits(5)):
        release = dpgap.measured_above([9000] * 4, 1000, 4, 1, monotonic=True)
        hull = release._measuring_error
        drawn = shells(hull.law, InsecureSeededBits(6), runs)
    values = 1000 + (drawn[:, 1:] - drawn[:, :1]) * float(hull.grid)
    leads = generator.exponential(float(SCALE), (runs, 4))
    wrong = too_sure = 0
    for measured, lead in zip(values[:, :4], leads, strict=True):
        evidence = Evidence(tuple(lead.tolist()), (SCALE,) * 4)
        on_it = altered_release(
            release, measurements=measured, estimates=measured, evidence=evidence
        )
        said = " ".join(on_it.findings)
        wrong += "surely above" in said or "truly above" in said
        too_sure += bool((on_it._belong(0.95) | (on_it._ends_of_all(0.95)[:, 0] > 1000)).any())
    assert stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(too_sure, runs, 0.05, alternative="greater").pvalue < 1e-6
    assert wrong > 0.02 * runs


def test_what_is_surely_above_and_what_is_not():
    release = _above(6000)
    assert _same_again(release)[:2] == (
        "All three are surely above 6,000.",
        "The order of all three is sure.",
    )
    evidence = Evidence((90.0, 80.0, 2.0), (SCALE,) * 3)
    some = altered_release(release, evidence=evidence, **_measured(release, 9000, 8000, 6001))
    assert some.findings[:3] == (
        "Two of the three are surely above 6,000: ranks 1 and 2.",
        "It is not sure that rank 3 is above 6,000.",
        "Among the three shown, the order is sure.",
    )
    weak = altered_release(release, evidence=Evidence((1.0, 2.0, 3.0), (SCALE,) * 3))
    assert weak.findings[0] == "All three are surely above 6,000."
    assert weak.findings[-1] == CONFIDENCE
    one = altered_release(weak, **_measured(release, 9000, 6002, 6001))
    assert one.findings[:2] == (
        "One of the three is surely above 6,000: rank 1.",
        "It is not sure that ranks 2 and 3 are above 6,000.",
    )
    unsure = altered_release(weak, **_measured(release, 6003, 6002, 6001))
    assert unsure.findings[0] == (
        "Little is sure here: it is not sure that any of the three is above 6,000, and their "
        "order is not sure."
    )
    values = np.array([9.0, 8.0, 7.0])
    hopeless = altered_release(unsure, measurements=values, estimates=values)
    assert hopeless.findings[0] == (
        "This is mostly noise: it is not sure that any of the three is above 6,000, their order "
        "is not sure, and all three values may be 0."
    )
    assert is_mostly_noise(hopeless)


def test_the_papers_method_claims_what_its_measurements_support():
    release = _above(6000, method="paper")
    assert _same_again(release) == (
        "All three are surely above 6,000.",
        "The order of all three is sure.",
        CONFIDENCE,
        (
            "There are no p-values: Laplace and staircase noise can be negative, so a lead does "
            "not prove who belongs."
        ),
    )
    close = dpgap.measured_top_k([1000] * 30, 10, 1, monotonic=True, method="paper")
    assert close.groups() == (tuple(range(1, 11)),)
    unknown = altered_release(close, measured_by=None)
    assert unknown.difference(1, 10)[1:] == (-np.inf, np.inf)
    assert unknown.groups() == (tuple(range(1, 11)),)
    assert "Their order is unknown" in unknown.findings[0]


SOLD = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
ASKED = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"], "k": 2, "epsilon": 9}


@pytest.mark.parametrize(
    "release",
    [
        lambda: _above(10**7),
        lambda: dpgap.above(SOLD, threshold=10**7, **ASKED),
        lambda: dpgap.SparseVector(10**7, 2, 1).release([5, 6]),
    ],
)
def test_nothing_is_said_in_words_everywhere(release):
    made = release()
    assert _same_again(made)[0] == "Nothing was found above 10,000,000."
    assert "rank" not in str(made)


def test_a_table_says_the_same_as_its_document():
    release = dpgap.top_k(SOLD, **ASKED)
    assert _same_again(release)[:2] == (
        "Both are surely among the top two (p < 0.001).",
        "The order of both is sure.",
    )


def test_the_confidence_is_said_of_what_is_claimed_and_of_nothing_else():
    bare = dpgap.NoisyTopK(2, 9, noise="exponential").release([900, 800, 10])
    assert _same_again(bare) == (
        "Both are surely among the top two (p < 0.001).",
        "Claims about who belongs are all correct with 95 % confidence.",
        MEANING,
    )
    hopeless = altered_release(bare, evidence=Evidence((1.0, 1.0), (SCALE,) * 2))
    assert hopeless.findings == ("It is not sure that either of the two is among the top two.",)


READ_OFF = (
    "There are no p-values: every item got noise, and the largest noisy values are shown. The "
    "intervals allow for that. They say nothing about items that are not shown."
)


def _read_off(counts: list[int], k: int) -> MeasuredItems:
    """A row is one answer, so that every item gets its own noise."""
    names = [f"item {at}" for at in range(len(counts))]
    rows = pandas.DataFrame({"what": np.repeat(names, counts)})
    with bits_are(InsecureSeededBits(3)):
        return dpgap.top_k(rows, unit="row", item="what", domain=names, k=k, epsilon="0.5")


def test_what_was_read_off_a_histogram_says_why_it_has_no_p_values():
    release = _read_off([900, 600, 300, 5, 4], 3)
    assert _same_again(release) == (
        "The order of all three is sure.",
        "Claims about order and size are all correct with 95 % confidence.",
        READ_OFF,
    )


def test_where_all_items_are_read_off_none_had_to_win():
    release = _read_off([900, 600, 300], 3)
    assert release.indices.size == 3
    assert _same_again(release)[-1] == (
        "There are no p-values: all items are shown, so none of them had to win."
    )
    assert _same_again(_read_off([900, 600, 300], 2))[-1] == READ_OFF


def test_what_may_be_there_by_luck_is_not_said_to_be_near_0():
    release = _read_off([900, 600, *[300] * 40], 5)
    assert _same_again(release)[:2] == (
        "Ranks 3 to 5 may be here by luck.",
        "The order of the first two is sure.",
    )
    assert "may be 0" not in " ".join(release.findings)
    assert np.isneginf(release._ends_of_all()[2:, 0]).all()
    flat = _read_off([300] * 40, 5)
    assert flat.findings[0] == "Ranks 1 to 5 may be here by luck."
    assert not is_mostly_noise(flat)
    nothing = _read_off([1] * 40, 5)
    assert "values may be 0" in nothing.findings[0]
    assert is_mostly_noise(nothing)


def test_the_order_of_what_may_not_belong_is_that_of_what_is_shown():
    release = _read_off([900, 600, *[300] * 40], 3)
    assert _same_again(release)[:2] == (
        "Rank 3 may be here by luck.",
        "Among the three shown, the order is sure.",
    )


def test_an_interval_without_a_lower_end_is_shown_as_at_most_its_upper_end():
    release = _read_off([900, 600, *[300] * 40], 3)
    cells, (*_, last) = release._cells(), release
    assert (last.low, cells["95% low"][-1]) == (None, "–")
    assert cells["95% high"][-1] == f"≤ {last.high:.0f}"
    assert not any("≤" in cell for cell in cells["95% high"][:-1])
    assert "≤" not in release.to_csv() + release.to_json()


def _paid(amounts: list[Any]) -> Any:
    """The top total of a table with these amounts, of which noise leaves little."""
    sold = pandas.DataFrame({"what": ["fig"] * len(amounts), "paid": amounts})
    asked = {"item": "what", "domain": ["fig", "pea"], "sum": "paid", "at_most": 50}
    return dpgap.top_k(sold, unit="row", k=1, epsilon=1, **asked)


def test_totals_near_0_of_a_column_of_text_may_be_those_of_amounts_that_are_no_numbers():
    for amounts in (["16,48"] * 900, ["$16.48"] * 900):
        of_what, first, *others = _same_again(_paid(amounts))
        assert of_what.startswith("Each row adds")
        assert first.startswith("Check column 'paid': text such as '$16.48'")
        assert others
    assert not any("text such as" in each for each in _same_again(_paid(["16.48"] * 900)))
    typed = polars.DataFrame({"what": ["fig"] * 900, "paid": [0.0] * 900})
    asked = {"item": "what", "domain": ["fig", "pea"], "sum": "paid", "at_most": 50}
    findings: list[str] = []
    for _ in range(12):  # in one of eleven, the noise looks like a value
        findings += _same_again(dpgap.top_k(typed, unit="row", k=1, epsilon=1, **asked))
    assert not any("text such as" in finding for finding in findings)
    assert "This is mostly noise: its value may be 0." in findings


def test_nothing_above_a_line_says_so_too():
    sold = pandas.DataFrame({"what": ["fig"] * 90, "paid": ["16,48"] * 90})
    asked = {"item": "what", "domain": ["fig", "pea"], "sum": "paid", "at_most": 50}
    release = dpgap.above(sold, unit="row", threshold=10**6, epsilon=1, k=1, **asked)
    nothing, cut, amounts = _same_again(release)
    assert nothing == "Nothing was found above 1,000,000."
    assert cut.startswith("Each row adds at least 0 and at most 50 to each item")
    assert amounts.startswith("Check column 'paid': text such as '$16.48'")


def test_where_all_values_may_be_0_items_may_be_written_otherwise():
    sold = pandas.DataFrame({"who": range(900), "what": [1, 2, 3] * 300})
    asked = {"unit": "who", "item": "what", "k": 2, "epsilon": 4}
    expected = "If you expected more: write items exactly as they are in the table."
    with bits_are(InsecureSeededBits(3)):  # noise makes an order sure now and then
        assert expected in dpgap.top_k(sold, domain=["fig", "pea", "oat"], **asked).findings
        assert expected not in dpgap.top_k(sold, domain=[1, 2, 3], **asked).findings


def test_where_some_values_may_be_0_items_may_be_written_otherwise():
    rows = [(who, what) for who in range(900) for what in ("fig", "pea")]
    sold = polars.DataFrame(rows, schema=["who", "what"], orient="row")
    asked: Any = {"unit": "who", "item": "what", "k": 2, "epsilon": 4, "where": "who >= 0"}
    expected = "If you expected more: write items exactly as they are in the table."
    with bits_are(InsecureSeededBits(3)):
        found = dpgap.top_k(sold, domain=["fig", "Pea"], **asked)
        assert expected in found.findings
        assert _same_again(found) == found.findings
        assert not any("check the filter" in each for each in found.findings)  # it keeps rows
        assert expected not in dpgap.top_k(sold, domain=["fig", "pea"], **asked).findings
        unknown = dpgap.top_k(sold, delta="1e-6", max_items=2, **asked)
        assert expected not in unknown.findings


def test_a_filter_is_doubted_where_every_interval_includes_0():
    """By released numbers alone: a filter that keeps no rows looks like one that keeps few."""
    rows = [(f"u{each}", "fig", "Bern") for each in range(400)] + [("v", "pea", "Bern")]
    table = polars.DataFrame(rows, schema=["who", "what", "city"], orient="row")
    doubt = "If you expected more: check the filter. It may keep no rows."
    known: Any = {"unit": "who", "item": "what", "domain": ["fig", "pea"], "k": 1, "epsilon": 1}
    for where, is_doubted in (("city = 'Brn'", True), ("city = 'Bern'", False), (None, False)):
        with bits_are(InsecureSeededBits(5)):
            found = dpgap.top_k(table, **known, where=where)
            number = dpgap.count(table, unit="who", epsilon=1, where=where)
        for release in (found, number):
            assert (doubt in release.findings) is is_doubted
            assert _same_again(release) == release.findings


@pytest.mark.parametrize(
    ("options", "is_stream"),
    [
        ({"domain": ["fig", "pea", "oat"]}, True),
        ({"delta": "1e-6", "max_items": 1}, False),  # a histogram
        ({"delta": "1e-6", "max_items": 40}, False),  # the largest that are seen
    ],
)
def test_only_items_that_were_asked_one_by_one_are_said_to_be(options: Any, is_stream: bool):
    sold = polars.DataFrame({"who": range(1_000), "what": ["fig"] * 600 + ["pea"] * 400})
    asked: Any = {"unit": "who", "item": "what", "threshold": 100, "k": 1, "epsilon": 5}
    with bits_are(InsecureSeededBits(1)):
        found = dpgap.above(sold, adaptive=False, **asked, **options)
    assert found.indices.size
    assert any("random order" in each for each in _same_again(found)) is is_stream


def test_the_ends_of_a_huge_total_are_rounded_outwards_too():
    sold = polars.DataFrame({"who": range(2_000), "amount": [617_283_945_061] * 2_000})
    asked: Any = {"unit": "who", "sum": "amount", "at_most": 10**12, "step": 1, "epsilon": 10**6}
    with bits_are(InsecureSeededBits(1)):
        found = dpgap.total(sold, **asked)
    low, high = found.interval().tolist()
    assert 1.23456e15 < low < high < 1.23457e15
    assert any("is 1.23456e+15 to 1.23457e+15 (95 %" in each for each in _same_again(found))


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("method", ["best", "paper"])
def test_others_may_be_above_only_if_some_items_were_not_asked(method: str, adaptive: bool):
    domain = ["fig", "pea", "oat", "rye", "elm", "ash"]
    sold = polars.DataFrame({"who": range(2_000), "what": domain[:4] * 500})
    asked: Any = {"unit": "who", "item": "what", "threshold": 100, "domain": domain}
    asked |= {"method": method, "adaptive": adaptive, "epsilon": 9}
    cases = set()
    for seed in range(20):
        for k in (1, 2, 4, 5):
            with bits_are(InsecureSeededBits(seed)):
                found = dpgap.above(sold, **asked, k=k)
            result, *caveats = _same_again(found)
            assert "surely above 100" in result
            is_unknown = any("may be above" in each for each in caveats)
            assert found.detail.processed is not None
            assert is_unknown is (found.detail.processed < len(domain))
            assert is_unknown <= (caveats[0].startswith("Items were asked in a random order"))
            if method == "best":
                assert not (is_unknown and found.remaining)
            cases.add((is_unknown, bool(found.remaining)))
    assert cases >= {(True, method == "paper" and adaptive), (False, True)}
    assert method == "paper" or (False, False) in cases


def test_the_caveat_is_second_if_nothing_is_sure_too():
    sold = polars.DataFrame({"who": range(9), "what": ["fig", "pea", "oat"] * 3})
    asked: Any = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"], "epsilon": "0.1"}
    for seed in range(40):
        with bits_are(InsecureSeededBits(seed)):
            found = dpgap.above(sold, threshold=1, k=1, adaptive=False, **asked)
        if found.indices.size and (found.detail.processed or 0) < 3:
            assert found.findings[0].startswith("This is mostly noise")
            assert found.findings[1].startswith("Items were asked in a random order")
            return
    raise AssertionError("no seed leaves an item out")


def test_each_group_says_whether_others_may_be_above():
    sold = polars.DataFrame(
        {"who": range(1_800), "what": ["fig"] * 1_800, "land": ["CH", "DE"] * 900}
    )
    asked: Any = {"unit": "who", "item": "what", "threshold": 100, "k": 1, "epsilon": 9}
    asked |= {"domain": ["fig", "rye", "oat"]}
    asked |= {"by": "land", "groups": ["CH", "DE"], "max_groups": 1}
    cases = set()
    for seed in range(10):
        with bits_are(InsecureSeededBits(seed)):
            release = dpgap.above(sold, adaptive=False, **asked)
        assert dpgap.read_release(release.to_json()).findings == release.findings
        for answer, sentence in zip(release.values(), release.findings[1:], strict=False):
            may_miss = answer.indices.size > 0 and (answer.detail.processed or 0) < 3
            assert ("may be above" in sentence) is may_miss
            cases.add(may_miss)
    assert cases == {True, False}


def test_p_is_in_data_frames_and_in_no_table_for_people():
    release = _above(6000)
    assert "p" in release.to_frame().columns
    assert "p" not in release._cells()
    shown = faces(release)
    assert not any('<th scope="col">p</th>' in text for text in shown.values())
    assert not any("p: how often" in text for text in release.findings)
