"""Bounded answers: who counts for what, exact sums, groups, and items that nobody listed."""

import gc
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import narwhals as nw
import numpy as np
import pandas
import polars
import pyarrow
import pytest

import dpgap
from dpgap.data.counts import counts, units_of
from dpgap.data.engines import counted
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.engines.duckdb import DuckDB
from dpgap.question import Counting
from law_tests import LEVEL, chi_square_p

ITEMS = ["fig", "pea", "oat", "rye"]
ASK: dict[str, Any] = {"unit": "who", "item": "what", "domain": ITEMS}


def _frame(rows: list[Any]) -> pandas.DataFrame:
    return pandas.DataFrame(rows, columns=["who", "what", "land", "paid"])


def _baskets(units: int, items: list[str] = ITEMS) -> pandas.DataFrame:
    return _frame([(who, what, "ch", 1.0) for who in range(units) for what in items])


def _of(answers: Any) -> Any:
    if not isinstance(answers, dpgap.data.private_counts.PrivateCounts):
        return {group: _of(each) for group, each in answers.items()}
    return answers.expanded().tolist()


def _by_value(answers: Any) -> Counter[int]:
    groups = answers.groups()
    return Counter(dict(zip(groups.values.tolist(), groups.sizes.tolist(), strict=True)))


def test_a_unit_counts_for_as_many_items_as_it_may() -> None:
    for most, total in ((1, 50), (3, 150), (4, 200), (9, 200)):
        assert sum(_of(counts(_baskets(50), max_items=most, **ASK))) == total


def test_every_item_of_a_unit_is_as_likely_to_stay() -> None:
    found = _of(counts(_baskets(30_000, ITEMS[:3]), max_items=1, **ASK))
    assert chi_square_p(found[:3], [1 / 3] * 3) > LEVEL


def test_a_hash_that_only_combines_would_favour_an_item() -> None:
    def keep_few(engine: Any, frame: Any, cells: Any, most: int, key: str) -> Any:
        native = frame.to_native().project(
            f"*, dense_rank() OVER (PARTITION BY unit ORDER BY hash('{key}', unit, item)) AS rank"
        )
        return nw.from_native(native.filter(f"rank <= {most}").project("* EXCLUDE (rank)"))

    with mock.patch.object(DuckDB, "keep_few", keep_few):
        found = _of(counts(_baskets(30_000, ITEMS[:3]), max_items=1, **ASK))
    assert chi_square_p(found[:3], [1 / 3] * 3) < LEVEL


def test_what_a_unit_keeps_is_drawn_anew_for_every_question() -> None:
    table = _baskets(400)
    assert _of(counts(table, max_items=2, **ASK)) != _of(counts(table, max_items=2, **ASK))


def test_only_public_items_groups_and_amounts_take_a_place() -> None:
    rows = [(who, f"other {at}", "ch", 1.0) for who in range(40) for at in range(20)]
    rows += [(who, "fig", land, paid) for who in range(40) for land, paid in (("ch", 1), ("xx", 9))]
    rows += [(who, "pea", "ch", None) for who in range(40)]
    rows += [(who, "oat", "ch", math.nan) for who in range(40)]
    rows += [(who, "rye", "ch", math.inf) for who in range(40)]
    groups = {"by": "land", "groups": ["ch", "de"], "max_groups": 1}
    sums = {"sum": "paid", "at_most": 20, "step": 1}
    table = _frame(rows)
    assert _of(counts(table, max_items=1, **groups, **sums, **ASK))["ch"] == [40, 0, 0, 0]
    assert sum(_of(counts(table, max_items=1, **ASK))) == 40


def test_rows_are_filtered_before_a_unit_is_cut() -> None:
    table = _frame([(who, what, what[0], 1.0) for who in range(40) for what in ITEMS])
    assert _of(counts(table, where="land = 'p'", max_items=1, **ASK)) == [0, 40, 0, 0]


def test_words_are_no_groups_of_a_column_that_states_numbers() -> None:
    table = _frame([(who, "fig", who % 2, 1.0) for who in range(9)])
    asked = {"by": "land", "groups": ["ch", "de"], "max_groups": 1, **ASK}
    for typed in (polars.from_pandas(table), table.astype({"land": "Int64"})):
        with pytest.raises(ValueError, match="groups has no numbers, but the group column"):
            counts(typed, **asked)
    assert _of(counts(table, **asked))["ch"] == [0] * 4  # pandas' own types follow the rows


def test_a_unit_counts_in_one_group_with_all_its_items() -> None:
    rows = [(who, what, land, 1.0) for who in range(60) for what in ITEMS for land in ("ch", "de")]
    found = _of(counts(_frame(rows), by="land", groups=["de", "fr", "ch"], max_groups=1, **ASK))
    assert list(found) == ["de", "fr", "ch"]
    assert found["fr"] == [0] * 4
    assert found["de"][0] + found["ch"][0] == 60
    assert found["de"] == found["de"][:1] * 4
    assert 0 < found["de"][0] < 60


def test_reach_is_over_pairs_of_groups_and_items() -> None:
    rows = [(who, what, land, 1.0) for who in range(60) for what in ITEMS for land in ("ch", "de")]
    asked = {"by": "land", "groups": ["ch", "de"], "max_groups": 2}
    found = _of(counts(_frame(rows), max_items=3, **asked, **ASK))
    assert sum(map(sum, found.values())) == 180
    assert all(map(sum, found.values()))


def test_sums_are_exact_whatever_the_order_of_rows() -> None:
    amounts = [9e13, *[0.01] * 100, -9e13]
    assert sum(amounts) != 1.0  # as floats would have it
    rows = [(1, "fig", "ch", paid) for paid in amounts]
    for table in (_frame(rows), _frame(rows[::-1]), _frame(rows[50:] + rows[:50])):
        assert _of(counts(table, sum="paid", at_most=50, **ASK)) == [100, 0, 0, 0]


def test_a_row_is_rounded_to_the_nearest_step_and_halves_go_up() -> None:
    amounts = {"fig": 0.125, "pea": 0.375, "oat": -0.125, "rye": 0.12}
    table = _frame([(who, what, "ch", amounts[what]) for who, what in enumerate(ITEMS)])
    found = counts(table, sum="paid", at_most=5, at_least=-5, step="0.25", **ASK)
    assert _of(found) == [1, 2, 0, 0]
    assert _of(counts(table, sum="paid", at_most=6, at_least=-6, step=3, **ASK)) == [0] * 4


def test_a_unit_adds_what_it_may_and_no_more() -> None:
    rows = [(1, "fig", "ch", 40.0), (1, "fig", "ch", 40.0), (1, "pea", "ch", -70.0)]
    rows += [(2, "fig", "ch", 3.0), (2, "pea", "ch", 5.0), (None, "pea", "ch", 5.0)]
    table = _frame(rows)
    assert _of(counts(table, sum="paid", at_most=50, step=1, **ASK)) == [53, 5, 0, 0]
    both = counts(table, sum="paid", at_most=50, at_least=-9, step=1, **ASK)
    assert _of(both) == [53, -4, 0, 0]
    rows = counts(table, **ASK | {"unit": "row"}, sum="paid", at_most=30, step=1)
    assert _of(rows) == [63, 10, 0, 0]


def test_no_sum_overflows() -> None:
    rows = [(who, "fig", "ch", 1e99) for who in range(2) for _ in range(3000)]
    found = counts(_frame(rows), sum="paid", at_most=2**40, step=1, **ASK)
    assert _of(found) == [2**41, 0, 0, 0]


AMOUNTS: dict[str, Any] = {
    "floats": pandas.Series([1.5, 2.25, math.nan, math.inf, -0.0]),
    "text": pandas.Series(["1.5", "2.25e0", "", "1e300", "-0"]),
    "text that is almost a number": pandas.Series(["1.50", "+2.25", "1,5", "0x7", "1.5\n"]),
    "objects": pandas.Series([1.5, "2.25", None, 10**400, True], dtype=object),
    "odd numbers": pandas.Series(
        [1.5, Decimal("2.25"), np.complex128(3 + 1j), np.timedelta64(3, "D"), Decimal("sNaN")],
        dtype=object,
    ),
    "decimals": pandas.Series([Decimal("1.5"), Decimal("2.25"), Decimal("NaN"), None, None]),
    "categories": pandas.Series(["1.5", "2.25", "x", None, "x"], dtype="category"),
    "nullable": pandas.Series([1.5, 2.25, None, None, 0], dtype="Float64"),
    "arrow": pandas.Series(
        [Decimal("1.5"), Decimal("2.25"), None, None, None],
        dtype=pandas.ArrowDtype(pyarrow.decimal128(38, 10)),
    ),
}


@pytest.mark.parametrize("kind", AMOUNTS)
def test_an_amount_is_a_number_or_nothing(kind: str) -> None:
    table = pandas.DataFrame({"who": range(5), "what": "fig", "paid": AMOUNTS[kind]})
    assert _of(counts(table, sum="paid", at_most=50, **ASK)) == [375, 0, 0, 0]


@pytest.mark.parametrize("kind", ["object", "category", "string"])
def test_filters_and_sums_of_pandas_take_the_same_texts_for_numbers(kind: str) -> None:
    paid = pandas.Series(["1e150", "9" * 70, "9" * 64, "1e240"], dtype=kind)
    table = pandas.DataFrame({"who": range(4), "what": ITEMS, "paid": paid})
    assert _of(counts(table, where="paid >= 1", **ASK)) == [1, 0, 1, 0]
    assert _of(counts(table, sum="paid", at_most=1, step=1, **ASK)) == [1, 0, 1, 0]


@pytest.mark.parametrize("kind", ["object", "category", "string"])
def test_a_column_of_pandas_that_could_hold_anything_is_text(kind: str) -> None:
    table = pandas.DataFrame({"who": [1, 2, 2], "what": [7, 8, 8], "land": [1.0, 2.0, 2.5]})
    table = table.astype(kind)
    asked = {"unit": "who", "item": "what", "domain": range(7, 9), "by": "land"}
    assert _of(counts(table, groups=["1", 2, 3], max_groups=1, **asked)) == (
        {"1": [1, 0], 2: [0, 1], 3: [0, 0]}
        if kind != "string"
        else {"1": [0, 0], 2: [0, 0], 3: [0, 0]}
    )


def test_answers_at_zero_are_one_group_with_those_of_absent_items() -> None:
    rows = [(1, "fig", "ch", 3.0), (2, "fig", "ch", -3.0), (3, "pea", "ch", -5.0)]
    asked = {"sum": "paid", "at_most": 9, "at_least": -9, "step": 1}
    answers = counts(_frame(rows), **asked, **ASK)
    assert isinstance(answers, CountsInEngine)
    assert _by_value(answers) == {-5: 1, 0: 3}
    joint = dpgap.JointTopK(3, 10**5, sensitivity=9).release(answers)
    assert sorted(joint.labels) == ["fig", "oat", "rye"]
    top = dpgap.NoisyTopK(4, 10**5, sensitivity=9, noise="exponential").release(answers)
    assert top.labels[-1] == "pea"
    above = dpgap.SparseVector(-3, 3, 10**5, sensitivity=9).release(answers)
    assert sorted(above.labels) == ["fig", "oat", "rye"]


def test_items_that_nobody_listed_are_found_and_never_counted_aloud() -> None:
    rows = [(who, what, "ch", 1.0) for who in range(30) for what in ("plum", "kale")]
    answers = counts(_frame(rows), unit="who", item="what", max_items=2)
    assert _by_value(answers) == {30: 2}
    found = answers.groups().find(np.array([0, 0]), np.array([0, 1]))
    assert sorted(found.labels) == ["kale", "plum"]
    assert repr(answers) == "<private answers: unknown items, sensitivity 1, monotonic>"
    assert (answers.unknown, answers.labels, answers.reach) == (True, None, 2)


def test_a_table_without_items_has_answers_too() -> None:
    empty = counts(_frame([]), unit="who", item="what", max_items=2)
    assert _by_value(empty) == {}
    assert "unknown" in repr(empty)


@pytest.mark.parametrize(
    "mechanism",
    [
        dpgap.NoisyTopK(9, 1, monotonic=True, noise="exponential"),
        dpgap.JointTopK(9, 1, monotonic=True),
        dpgap.SparseVector(2, 1, 1, monotonic=True),
        dpgap.Laplace(1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_other_mechanisms_refuse_items_that_nobody_listed(mechanism: Any) -> None:
    answers = counts(_baskets(3), unit="who", item="what", max_items=2)
    with pytest.raises(ValueError, match="which items are present is private"):
        mechanism.release(answers)


def _grouped(many: int) -> tuple[pandas.DataFrame, list[str]]:
    lands = [f"land {at}" for at in range(many)]
    rows = [(who, ITEMS[who % 3], lands[who % many], 1.0) for who in range(5 * many)]
    return _frame(rows), lands


def test_a_domain_may_be_in_a_database_that_the_frame_is_not_in() -> None:
    names = duckdb.connect().sql("SELECT unnest(['fig', 'kale']) AS label")
    answers = counts(_baskets(3), unit="who", item="what", domain=names, max_items=4)
    assert dict(zip(answers.labels, _of(answers), strict=True)) == {"fig": 3, "kale": 0}


def test_a_thousand_groups_are_counted_in_one_query() -> None:
    table, lands = _grouped(1000)
    connection = duckdb.connect()
    relation = connection.from_arrow(pyarrow.Table.from_pandas(table))
    asked: list[int] = []
    right = DuckDB._collect
    with mock.patch.object(DuckDB, "_collect", lambda *given: asked.append(1) or right(*given)):
        found = counts(relation, by="land", groups=lands, max_groups=1, **ASK)
        assert [sum(_of(each)) for each in found.values()] == [5] * 1000
    assert len(asked) < 10


def test_groups_that_stay_in_the_engine_say_the_same() -> None:
    table, lands = _grouped(20)
    fetched = _of(counts(table, by="land", groups=lands, max_groups=1, **ASK))
    with mock.patch.object(counted, "FETCHED", 1):
        answers = counts(table, by="land", groups=lands, max_groups=1, **ASK)
    assert all(isinstance(each, CountsInEngine) for each in answers.values())
    assert _of(answers) == fetched
    top = dpgap.NoisyTopK(1, 10**5, monotonic=True, noise="exponential")
    for land, own in fetched.items():
        assert own[ITEMS.index(top.release(answers[land]).labels[0])] == max(own)
        chunks = answers[land].shuffled()
        assert sorted(np.concatenate([c.at(np.arange(c.length)) for c in chunks])) == sorted(own)


def test_one_group_keeps_what_all_share_until_it_is_closed() -> None:
    table, lands = _grouped(3)
    with mock.patch.object(counted, "FETCHED", 1):
        answers = counts(table, by="land", groups=lands, max_groups=1, **ASK)
    one, other = answers[lands[0]], answers[lands[1]]
    answers.close()
    for each in (one, other):
        with pytest.raises(ValueError, match="were closed"):
            each.groups()
    with mock.patch.object(counted, "FETCHED", 1):
        alone = counts(table, by="land", groups=lands, max_groups=1, **ASK)[lands[0]]
    gc.collect()
    assert sum(_of(alone)) == 5


def test_groups_of_unknown_items_are_each_their_own() -> None:
    table, lands = _grouped(4)
    answers = counts(
        table, unit="who", item="what", max_items=1, by="land", groups=[*lands, "x"], max_groups=1
    )
    assert [_by_value(each).total() for each in answers.values()] == [3, 3, 3, 3, 0]
    assert repr(answers) == "<private answers of 5 groups>"


def test_a_line_of_a_fimi_file_may_be_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat"
    path.write_text("1 2 3 04 x -0\n2 2 2\n\n3 1\n")
    asked = {"domain": range(5)}
    assert _of(counts(path, **asked)) == _of(counts(path, max_items=9, **asked)) == [0, 2, 2, 2, 0]
    assert sum(_of(counts(path, max_items=1, **asked))) == 3
    assert _by_value(counts(path, max_items=9)) == {2: 3}
    with pytest.raises(ValueError, match=r"named columns, which a \.dat file does not have"):
        counts(path, sum="paid", at_most=1, **asked)
    assert _of(units_of(path, Counting())) == [3]


def test_all_units_are_counted_once_each() -> None:
    rows = [(1, "fig", "ch", 1), (1, "pea", "de", 1), (2, "fig", "de", 1), (None, "fig", "ch", 1)]
    table = _frame(rows)
    for each in (table, polars.from_pandas(table), polars.from_pandas(table).lazy()):
        answers = units_of(each, Counting(unit="who"))
        assert (_of(answers), answers.reach, answers.sensitivity) == ([2], 1, 1)
        assert _of(units_of(each, Counting(unit="row"))) == [4]
        assert _of(units_of(each, Counting(unit="who", where="land = 'ch'"))) == [1]
    assert units_of(table, Counting(unit="who")).monotonic
    assert not units_of(table, Counting(unit="who", neighbours="replace")).monotonic


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_text_files_may_have_columns_of_any_name(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"sold.{ending}"
    table = _frame([(1, "fig", "ch", 2.5), (2, "pea", "de", 1.5)])
    table.columns = ["unit", "what", "item", "amount"]
    if ending == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
    asked = {"unit": "unit", "item": "what", "domain": ITEMS}
    found = counts(
        path, by="item", groups=["ch", "de"], max_groups=1, sum="amount", at_most=9, **asked
    )
    assert _of(found) == {"ch": [250, 0, 0, 0], "de": [0, 150, 0, 0]}
    assert _of(units_of(path, Counting(unit="row"))) == [2]


MOMENTS = [
    *(pyarrow.timestamp(unit, zone) for unit in ("s", "ms", "ns") for zone in (None, "Asia/Tokyo")),
    *(pyarrow.duration(unit) for unit in ("s", "ms", "ns")),
]


@pytest.mark.parametrize("kind", MOMENTS, ids=str)
def test_a_unit_at_any_time_is_counted_like_others(kind: pyarrow.DataType) -> None:
    """DuckDB knows times with zones and durations by their microseconds, and not all of them."""
    when = [0, 1, 2**62, 1 - 2**63, None]  # the first two may be of one microsecond
    table = pyarrow.table(
        {
            "who": pyarrow.array(when, pyarrow.int64()).cast(kind),
            "what": ["fig"] * 5,
            "land": ["ch"] * 5,
            "paid": [3.0] * 5,
        }
    )
    listed = table.set_column(0, "who", table["who"].dictionary_encode())
    frames = [table, listed, table.to_pandas(), polars.from_arrow(table)]
    for frame in frames[: 3 if kind.unit == "s" else 4]:  # Polars has no seconds
        assert _of(counts(frame, **ASK))[0] == 4
        assert _of(counts(frame, max_items=1, **ASK))[0] == 4
        assert _of(counts(frame, by="land", groups=["ch"], max_groups=1, **ASK))["ch"][0] == 4
        assert _of(counts(frame, sum="paid", at_most=2, **ASK))[0] == 800
        unknown = counts(frame, unit="who", item="what", max_items=1)
        assert _by_value(unknown) == {4: 1}
