"""Differences and groups of a release, and one story: what is shown is ordered by estimate."""

import csv
import io
import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas
import pytest

import dpgap
from dpgap.releases.page import page
from dpgap.releases.text import shown
from faces import altered_release

COUNTS = [900, 700, 690, 300, 100, 90, 10]


def _release(**options: Any) -> Any:
    return dpgap.measured_top_k(COUNTS, 4, 2, monotonic=True, **options)


def test_a_difference_is_that_of_the_estimates_in_an_interval_of_the_measurements():
    for method in ("best", "paper"):
        release = _release(method=method)
        order = np.argsort(-release.estimates)
        found = release.difference(1, 3)
        first, third = order[0], order[2]
        assert found.estimate == release.estimates[first] - release.estimates[third]
        measured = release.measurements[first] - release.measurements[third]
        half = release._half_width_of_pairs()
        assert (found.low, found.high) == (measured - half, measured + half)
        wider = release.difference(1, 3, level=0.999)
        assert wider.low < found.low < found.high < wider.high


@pytest.mark.parametrize(("better", "worse"), [(2, 1), (1, 1), (1, 5), (0, 1)])
def test_ranks_that_are_not_there_are_refused(better: int, worse: int):
    with pytest.raises(ValueError, match=r"ranks must satisfy|better must be at least 1"):
        _release().difference(better, worse)


def test_a_declared_grid_makes_differences_wider_by_a_step():
    whole = dpgap.measured_top_k(COUNTS, 4, 2, grid=1)
    stated = dpgap.measured_top_k(COUNTS, 4, 2)
    assert whole._half_width_of_pairs() == pytest.approx(stated._half_width_of_pairs() + 1)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_answers_in_other_groups_are_told_apart_and_groups_hold_every_rank(level: float):
    for epsilon in ("0.05", "0.3", "2"):
        release = dpgap.measured_top_k(COUNTS, 5, epsilon, monotonic=True)
        groups = release.groups(level)
        assert [rank for group in groups for rank in group] == [1, 2, 3, 4, 5]
        group_of = {rank: place for place, group in enumerate(groups) for rank in group}
        for better in range(1, 5):
            for worse in range(better + 1, 6):
                if group_of[better] != group_of[worse]:
                    assert release.difference(better, worse, level).low > 0


def test_different_groups_are_in_the_true_order_as_often_as_promised():
    runs, wrong = 400, 0
    counts = np.array([60, 50, 45, 30, 25, 20, 0])
    for _ in range(runs):
        release = dpgap.measured_top_k(counts, 5, 1, monotonic=True)
        truth = counts[release.indices[release._order]]
        groups = release.groups(0.8)
        ends = [truth[np.array(group) - 1] for group in groups]
        wrong += any(one.min() < other.max() for one, other in pairwise(ends))
    assert wrong / runs <= 0.2 + 5 * (0.2 * 0.8 / runs) ** 0.5  # level 1e-6


def test_whatever_is_shown_is_ordered_by_estimate_and_leads_are_differences_of_estimates():
    release = dpgap.measured_top_k([500] * 30, 10, "0.5", monotonic=True)
    assert (np.diff(release.estimates) > 0).any()  # or this shows nothing
    rows = list(release)
    estimates = [row.estimate for row in rows]
    assert estimates == sorted(estimates, reverse=True)
    frame = release.to_frame()
    assert frame["estimate"].tolist() == estimates
    assert frame["item"].tolist() == release.indices[release._order].tolist()
    for rank, (row, below) in enumerate(pairwise(rows), start=1):
        assert row.gap == row.estimate - below.estimate
        found = release.difference(rank, rank + 1)
        assert row.gap - row.give_or_take <= found.low + 1e-9
        assert row.gap + row.give_or_take >= found.high - 1e-9
    assert rows[-1].gap is rows[-1].give_or_take is None


def test_the_selections_own_gaps_stay_with_their_items():
    release = dpgap.measured_top_k([500] * 30, 10, "0.5", monotonic=True)
    assert release.gaps.size == len(release) == 10
    assert release._to_dict()["gaps"] == release.gaps.tolist()


ITEMS = [f"item {place}" for place in range(8)]
SOLD = pandas.DataFrame({"who": range(320), "what": [name for name in ITEMS for _ in range(40)]})
ASKED = {"unit": "who", "item": "what", "domain": ITEMS, "epsilon": "0.5"}


@pytest.mark.parametrize("method", ["best", "paper"])
def test_a_table_is_answered_largest_estimate_first_with_all_that_belongs_to_an_item(method: str):
    seen = set()
    for _ in range(20):
        release = dpgap.top_k(SOLD, **ASKED, k=5, method=method)
        assert (np.diff(release.estimates) <= 0).all()
        assert [ITEMS[index] for index in release.indices] == list(release.labels)
        if method == "best":
            leads = np.array(release.detail.evidence.leads)
            ranked = np.argsort(-leads, kind="stable")
            gaps = leads[ranked] - np.append(leads[ranked][1:], 0)
            assert sorted(release.gaps) == pytest.approx(sorted(gaps))
            seen.add(tuple(np.diff(leads) <= 0))
    assert method == "paper" or any(not all(falls) for falls in seen)


def test_where_everything_is_selected_a_table_keeps_the_gaps_in_the_order_of_selection():
    release = dpgap.top_k(SOLD, **ASKED, k=8)
    assert release.gaps.size == 7
    assert (release.p_values == 0).all()
    assert (np.diff(release.estimates) <= 0).all()


def test_columns_and_headings_are_the_same_in_every_form(monkeypatch: pytest.MonkeyPatch):
    release = dpgap.top_k(SOLD, **ASKED, k=5)
    columns = list(release[0]._fields)
    assert columns[2:] == ["estimate", "low", "high", "gap", "give_or_take", "p"]
    assert list(release.to_frame().columns) == columns
    assert next(csv.reader(io.StringIO(release.to_csv())))[: len(columns)] == columns
    headings = ["rank", "item", "estimate", "95% low", "95% high", "gap to next", "give or take"]
    for form in (page(release), release._repr_html_()):
        assert re.findall(r"<th scope=.col.[^>]*>(.*?)</th>", form) == headings
    monkeypatch.setenv("COLUMNS", "200")
    head = next(line for line in shown(release, None).splitlines() if "estimate" in line)
    assert [part.strip() for part in head.split("  ") if part.strip()] == headings


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_terminal_of_any_width_shows_every_number(width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    release = dpgap.top_k(SOLD, **ASKED, k=5)
    text = shown(release, None)
    assert max(map(len, text.splitlines())) <= width
    for row in release:
        low, high = math.floor(row.low * 10) / 10, math.ceil(row.high * 10) / 10  # outwards
        off = row.give_or_take and math.ceil(row.give_or_take * 10) / 10
        for value in (row.estimate, low, high, row.gap, off):
            assert value is None or f"{value:,.1f}" in text


def test_rows_that_are_mostly_noise_are_grey(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    clear = dpgap.top_k(SOLD, **ASKED | {"epsilon": 1000}, k=8)
    noisy = replace(
        dpgap.top_k(SOLD, **ASKED | {"epsilon": "0.001"}, k=5),
        measurements=np.zeros(5),
        estimates=np.zeros(5),
    )
    noisy = altered_release(noisy, evidence=noisy.detail.evidence._replace(leads=(0.0,) * 5))
    assert "\x1b[2mitem" in shown(noisy, None)
    assert "\x1b[1mitem" in shown(clear, None)


@pytest.mark.parametrize("width", ["66", "80"])
def test_a_name_is_wrapped_only_where_headings_are_as_narrow_as_they_can_be(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    names = ["red bike", "bell"]
    sold = pandas.DataFrame({"what": names[:1] * 9000 + names[1:] * 1000})
    release = dpgap.top_k(sold, unit="row", item="what", domain=names, k=2, epsilon=1)
    assert re.search(r" 1 +red bike +[89],\d{3}", shown(release, None))
