"""A release is a sequence of its rows; frames, CSV and documents have the same columns."""

import csv
import io
from pathlib import Path
from typing import Any

import pandas
import pytest

import dpgap
from dpgap.releases.rows import Row
from every_kind import RELEASES

COUNTS = [900, 700, 690, 300, 100, 90, 10]
SOLD = pandas.DataFrame({"what": ["fig"] * 600 + ["pea"] * 300 + ["oat"] * 5})
ASKED: dict[str, Any] = {"unit": "row", "item": "what", "domain": ["fig", "pea", "oat"]}
MEASURED = ["rank", "item", "estimate", "low", "high", "gap", "give_or_take", "p"]
SELECTED = ["rank", "item", "gap", "p"]
ABOVE = [*SELECTED, "branch", "threshold"]
VALUES = ["item", "estimate", "low", "high"]
COLUMNS = {
    "table": MEASURED,
    "table, above": MEASURED,
    "table, above, nothing": MEASURED,
    "table, groups": ["group", *MEASURED],
    "measured, best": MEASURED,
    "measured, joint": MEASURED,
    "measured, ranked": MEASURED,
    "measured, paper": MEASURED,
    "measured above, nothing": MEASURED,
    "top k": SELECTED,
    "max": SELECTED,
    "joint": SELECTED,
    "hybrid": SELECTED,
    "above": ABOVE,
    "adaptive": ABOVE,
    "laplace": VALUES,
    "cube": VALUES,
    "count": ["estimate", "low", "high"],
    "total": ["estimate", "low", "high"],
}


@pytest.mark.parametrize("method", ["best", "joint", "ranked", "paper", "histogram"])
def test_rows_are_in_the_order_shown_and_a_gap_is_that_between_two_estimates(method: str) -> None:
    reach = {"max_items": 1} if method == "histogram" else {}
    release = dpgap.top_k(SOLD, **ASKED, **reach, k=2, epsilon=5, method=method)
    assert len(release) == 2
    first, second = release
    assert (first, second) == (release[0], release[-1]) == release[:]
    assert (first.rank, first.item, second.rank) == (1, release.labels[0], 2)
    assert [row.estimate for row in release] == release.estimates.tolist()
    assert first.gap == first.estimate - second.estimate
    assert second.gap is second.give_or_take is None
    assert [[row.low, row.high] for row in release] == release.interval(0.95).tolist()
    with pytest.raises(IndexError):
        release[2]


def test_a_release_of_no_rows_is_falsy_as_a_list_is() -> None:
    nothing = dpgap.above(SOLD, **ASKED, threshold=10**6, k=1, epsilon=5)
    assert (len(nothing), list(nothing), bool(nothing)) == (0, [], False)
    assert dpgap.top_k(SOLD, **ASKED, k=1, epsilon=5)
    assert not dpgap.measured_above(COUNTS, 10**6, 2, 1)
    assert dpgap.Laplace(1).release([0, 0])


def test_rows_of_a_bare_selection_have_its_gaps() -> None:
    ranked = dpgap.NoisyTopK(3, 1).release(COUNTS, labels=list("abcdefg"))
    assert [row.item for row in ranked] == list(ranked.labels)
    assert [row.gap for row in ranked] == ranked.gaps.tolist()
    assert [row.p for row in ranked] == ranked.p_values.tolist()
    assert {row.estimate for row in ranked} == {None}
    everybody = dpgap.NoisyTopK(7, 1).release(COUNTS)
    assert everybody[-1].gap is None
    found = dpgap.SparseVector(200, 3, 10).release(COUNTS)
    assert [(row.rank, row.item, row.gap) for row in found] == [
        (None, index, gap) for index, gap in zip(found.indices, found.gaps, strict=True)
    ]
    together = dpgap.JointTopK(3, 1).release(COUNTS)
    assert {(row.rank, row.gap, row.p) for row in together} == {(None, None, None)}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("library", [None, "pandas", "polars", "pyarrow"])
def test_columns_of_a_frame_depend_on_the_kind_of_release_alone(kind: str, library: str) -> None:
    frame = RELEASES[kind]().to_frame(library)
    names = getattr(frame, "column_names", None) or list(frame.columns)
    assert names == COLUMNS[kind]
    assert type(frame).__module__.partition(".")[0] == (library or "pandas")


def test_a_frame_of_another_library_is_refused() -> None:
    release = dpgap.NoisyTopK(1, 1).release(COUNTS)
    with pytest.raises(ValueError, match="library must be one of 'pandas', 'polars', 'pyarrow'"):
        release.to_frame("dask")


@pytest.mark.parametrize("kind", COLUMNS)
def test_csv_has_the_columns_of_the_frame_and_says_what_was_asked(
    kind: str, tmp_path: Path
) -> None:
    release = RELEASES[kind]()
    file = tmp_path / "rows.csv"
    assert release.to_csv(file) == str(file)
    text = file.read_bytes().decode()
    assert text == release.to_csv()
    header, *rows = csv.reader(io.StringIO(text))
    assert header == [*COLUMNS[kind], "question", "epsilon", "time"]
    assert len(rows) == len(release.to_frame())
    with pytest.raises(OSError, match="no folder"):
        release.to_csv(tmp_path / "no folder" / "rows.csv")


def test_a_count_and_a_total_are_numbers() -> None:
    count = dpgap.count(SOLD, unit="row", epsilon=1)
    assert float(count) == count.estimate == count[0].estimate
    low, high = count.interval().tolist()
    assert list(count) == [Row(1, None, count.estimate, low, high)]
