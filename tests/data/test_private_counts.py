"""Answers by value: a trillion items, nearly all of them absent."""

from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import dpgap
from dpgap.budget.ledger import Ledger, LedgerAccount
from seams import as_counts

SIZE = 10**12
COUNTS = {7: 900, 10**11: 800, SIZE - 1: 700, 12: 600}
TABLE = pyarrow.table(
    {
        "who": [who for size in COUNTS.values() for who in range(size)],
        "what": [what for what, size in COUNTS.items() for _ in range(size)],
    }
)
FRAMES: dict[str, Any] = {
    "pandas": TABLE.to_pandas(),
    "Polars": polars.from_arrow(TABLE),
    "PyArrow": TABLE,
    "pandas text": TABLE.to_pandas().astype({"what": "string"}),
}
COUNTED = as_counts([900, 0, 800, 800], SIZE)


@pytest.fixture
def account(tmp_path: Any) -> LedgerAccount:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 10**6)


@pytest.mark.parametrize("name", FRAMES)
def test_a_trillion_items_in_memory_cost_what_is_present(name: str) -> None:
    ask: dict[str, Any] = {"unit": "who", "item": "what", "domain": range(SIZE)}
    best = dpgap.top_k(FRAMES[name], **ask, k=4, epsilon=900, method="ranked")
    assert best.labels == tuple(COUNTS)
    assert best.indices.tolist() == list(COUNTS)
    assert np.abs(best.estimates - list(COUNTS.values())).max() < 9
    assert np.abs(best.gaps[:3] - 100).max() < 9
    assert set(dpgap.top_k(FRAMES[name], **ask, k=4, epsilon=900).labels or ()) == set(COUNTS)
    found = dpgap.above(FRAMES[name], **ask, threshold=650, k=3, epsilon=9000, adaptive=False)
    assert set(found.labels or ()) == {7, 10**11, SIZE - 1}


def test_absent_winners_in_memory_are_distinct_and_never_present() -> None:
    answers = dpgap.counts(TABLE, unit="who", item="what", domain=range(SIZE))
    labels = dpgap.NoisyTopK(k=500, epsilon=1).release(answers).labels or ()
    assert len(set(labels)) == 500
    assert len(set(labels) - set(COUNTS)) >= 496
    assert np.median(labels) == pytest.approx(SIZE / 2, rel=0.5)


@pytest.mark.parametrize("method", ["best", "joint", "ranked", "paper"])
@pytest.mark.parametrize("monotonic", [False, True])
def test_measured_winners_of_counts_have_sane_numbers(method: str, monotonic: bool) -> None:
    measured = dpgap.measured_top_k(COUNTED, 3, 900, method=method, monotonic=monotonic)
    assert measured.indices[0] == 0
    assert set(measured.indices[1:].tolist()) == {2, 3}
    expected = [] if measured.detail.route == "joint" else [100, 0, 800]
    assert np.abs(measured.estimates - [900, 800, 800]).max() < 5
    assert np.abs(measured.gaps - expected).max(initial=0) < 8
    low, high = measured.interval(0.999999).T
    assert (low <= [900, 800, 800]).all()
    assert (high >= [900, 800, 800]).all()


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_the_largest_of_counts_is_found_with_its_gap(noise: str) -> None:
    best = dpgap.NoisyMax(epsilon=900, noise=noise).release(COUNTED)
    assert best.index == best.label == 0
    assert abs(best.gap - 100) < 5


def test_labels_of_counts_and_of_tables_can_be_given() -> None:
    few = as_counts([5, 900, 5])
    assert dpgap.NoisyMax(epsilon=900).release(few, labels=["a", "b", "c"]).label == "b"
    answers = dpgap.counts(TABLE, unit="who", item="what", domain=[12, 7, 99])
    best = dpgap.NoisyTopK(k=2, epsilon=900).release(answers, labels=["x", "y", "z"])
    assert best.labels == ("y", "x")
    names = range(10, 10 + SIZE)
    large = dpgap.counts(TABLE, unit="who", item="what", domain=range(SIZE))
    assert dpgap.NoisyMax(epsilon=900).release(large, labels=names).label == 17
    with pytest.raises(ValueError, match="one label for every answer"):
        dpgap.NoisyMax(epsilon=900).release(large, labels=["x"])


def test_counts_are_refused_where_every_answer_is_needed(account: LedgerAccount) -> None:
    for mechanism in (
        dpgap.Laplace(1),
        dpgap.Cube(1),
        dpgap.NoisyMax(1, noise="staircase"),
        dpgap.NoisyTopK(SIZE + 4, 10**6),
    ):
        with pytest.raises((TypeError, ValueError), match=r"must (be|have)"):
            mechanism.release(COUNTED, account=account)  # type: ignore[attr-defined]
    assert account.balance.number == 0


def test_a_frame_without_a_row_for_the_domain_has_only_absent_items() -> None:
    empty = pandas.DataFrame({"who": [1], "what": [5]})
    answers = dpgap.counts(empty, unit="who", item="what", domain=range(10, 10 + SIZE))
    label = dpgap.NoisyMax(epsilon=1).release(answers).label
    assert label in range(10, 10 + SIZE)
    assert dpgap.SparseVector(900, 3, 900).release(answers).processed == SIZE


def test_what_holds_private_numbers_on_the_way_shows_none():
    answers = as_counts([7654321, 7654321])
    candidates = dpgap.NoisyTopK(1, 1).prepare(answers, None)
    drawn = dpgap.NoisyTopK(1, 1).draw_paid(candidates)
    stream = dpgap.SparseVector(1, 1, 1).prepare([7654321])
    held = (answers, answers.groups(), candidates, drawn, stream, next(stream.chunks))
    assert "7654321" not in "".join(map(repr, held))
