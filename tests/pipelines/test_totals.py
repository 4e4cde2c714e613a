"""One clipped sum over a table: counted as sums of items are, paid for and kept as a count is."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import NOTHING, Limit
from dpgap.data.counts import counts, units_of
from dpgap.question import Counting
from seams import InsecureSeededBits, SpyArchive, app, bits_are, builds_kept

SOLD = pandas.DataFrame(
    {
        "who": ["a", "a", "a", "b", "b", "c", None, "d"],
        "what": ["fig", "pea", "fig", "fig", None, "pea", "fig", "pea"],
        "paid": [20.0, 40.5, -1.0, 8.004, 0.006, -30.0, 99.0, math.nan],
    }
)
SURE = 10**6
"""An ε at which noise is next to nothing."""


def _everywhere(folder: Path) -> dict[str, Any]:
    SOLD.to_csv(folder / "sold.csv", index=False)
    SOLD.to_parquet(folder / "sold.parquet")
    return {
        "pandas": SOLD,
        "polars": polars.from_pandas(SOLD),
        "lazy": polars.from_pandas(SOLD).lazy(),
        "arrow": polars.from_pandas(SOLD).to_arrow(),
        "duckdb": duckdb.connect().from_df(SOLD),
        "csv": folder / "sold.csv",
        "parquet": folder / "sold.parquet",
    }


def test_a_total_is_the_sum_of_what_each_unit_adds_cut_to_the_bounds(tmp_path: Path) -> None:
    for home, table in _everywhere(tmp_path).items():

        def total(table: Any = table, **asked: Any) -> float:
            return dpgap.total(table, sum="paid", epsilon=SURE, **asked).estimate

        assert total(unit="who", at_most=50) == 58.01, home  # each row is rounded by itself
        assert total(unit="who", at_most=50, at_least=-10) == 48.01, home
        assert total(unit="who", at_most=50, at_least=-10, where="what = 'fig'") == 27.0, home
        assert total(unit="row", at_most=50, at_least=-10) == 107.51, home
        assert total(unit="who", at_most=50, at_least=-10, step=10) == 50.0, home
        assert total(unit="who", at_most=50, where="what = 'oat'") == 0.0, home


def test_a_total_is_counted_as_the_sum_of_the_one_item_that_all_rows_have() -> None:
    one = SOLD.assign(all="all")
    for unit in ("who", "row"):
        for bounds in ({"at_most": 50}, {"at_most": "12.5", "at_least": -30, "step": "0.5"}):
            asked: dict[str, Any] = {"unit": unit, "sum": "paid", **bounds}
            total = units_of(SOLD, Counting(**asked))
            sums = counts(one, item="all", domain=["all"], **asked)
            assert total.expanded().tolist() == sums.expanded().tolist()
            assert (total.sensitivity, total.step) == (sums.sensitivity, sums.step)


@pytest.mark.parametrize(
    ("neighbours", "sensitivity"), [("add-or-remove", Fraction(50)), ("replace", Fraction(62))]
)
def test_noise_is_for_the_most_that_one_unit_can_move(
    neighbours: str, sensitivity: Fraction
) -> None:
    asked: dict[str, Any] = {"sum": "paid", "at_most": 50, "at_least": -12, "step": "0.5"}
    release = dpgap.total(SOLD, unit="who", neighbours=neighbours, epsilon="1/4", **asked)
    assert release.detail.promise.sensitivity == sensitivity
    assert release.detail.measured_by.grid == Fraction(1, 2)
    assert release.detail.measured_by.law.scale == sensitivity / Fraction(1, 2) * 4
    below = dpgap.total(SOLD, unit="who", epsilon=1, **asked | {"at_least": -70})
    assert below.detail.promise.sensitivity == 70


def test_a_count_is_still_refused_where_units_are_replaced() -> None:
    with pytest.raises(ValueError, match="neighbours must be 'add-or-remove' for a count"):
        dpgap.count(SOLD, unit="who", neighbours="replace", epsilon=1)


def test_whole_steps_leave_the_kernel_and_the_value_is_the_float_next_to_them() -> None:
    with builds_kept() as built, bits_are(InsecureSeededBits(3)):
        release = dpgap.total(SOLD, unit="who", sum="paid", at_most=50, epsilon=1)
    ((_, ((drawn,),)),) = built
    assert drawn.values.dtype == np.int64
    assert release.estimate == float(Fraction(int(drawn.values[0]), 100))


def test_a_total_has_a_document_words_and_a_page() -> None:
    with bits_are(InsecureSeededBits(7)):
        release = dpgap.total(SOLD, unit="who", sum="paid", at_most=50, epsilon=2)
        below = dpgap.total(SOLD, unit="who", sum="paid", at_most=50, at_least=-50, epsilon="0.01")
    assert below.interval()[0] < 0
    document = json.loads(release.to_json())
    assert (document["kind"], document["question"]["kind"]) == ("values", "total")
    again = dpgap.read_release(release.to_json())
    assert (type(again), again.to_json()) == (type(release), release.to_json())
    low, high = release.interval().tolist()
    assert low == 0.0  # no unit adds less
    cut, doubt, found, *_ = release.findings
    assert cut.startswith("Each who adds at least 0 and at most 50, so the total may be too low")
    assert doubt.startswith("Check column 'paid'")
    assert (
        found == f"With this limit, the total paid is {low:,.1f} to {high:,.1f} (95 % confidence)."
    )
    assert list(release.to_frame().columns) == ["estimate", "low", "high"]
    assert "Total: paid" in release._repr_html_() + _page(release)
    assert "Each unit adds at least 0 and at most 50." in release.guarantee


@pytest.mark.parametrize("value", [-4_000.0, -0.5, 3.0])
def test_an_estimate_lies_within_its_interval(value: float) -> None:
    asked: dict[str, Any] = {"unit": "who", "sum": "paid", "at_most": 50, "epsilon": 2}
    for release, least in (
        (dpgap.count(SOLD, unit="who", epsilon=2), 0.0),
        (dpgap.total(SOLD, **asked), 0.0),
        (dpgap.total(SOLD, **asked, at_least=-50), value),
    ):
        drawn = replace(release, values=np.array([value]))
        low, high = drawn.interval().tolist()
        assert low <= drawn.estimate <= high
        assert drawn._columns()["estimate"] == [drawn.estimate] == [max(value, least)]
        assert drawn.values.tolist() == [value]


def _page(release: Any) -> str:
    from dpgap.releases.page import page

    return page(release)


@pytest.mark.parametrize(("name", "value"), [("kind", "count"), ("sum", None)])
def test_a_document_whose_question_is_no_total_is_refused(name: str, value: Any) -> None:
    release = dpgap.total(SOLD, unit="who", sum="paid", at_most=50, epsilon=2)
    document = json.loads(release.to_json())
    document["question"][name] = value
    if value is None:
        del document["question"][name]
    with pytest.raises(ValueError, match=r"what is added up contradict each other"):
        dpgap.read_release(json.dumps(document))


def test_text_that_is_no_number_is_named_where_the_total_may_be_0() -> None:
    table = pandas.DataFrame({"who": range(9), "paid": ["16,48"] * 9})
    found = dpgap.total(table, unit="who", sum="paid", at_most=50, epsilon=SURE).findings
    assert found[1].endswith("and is ignored. Make it numeric first.")  # before the interval


@pytest.mark.parametrize("of_frame", [pandas.DataFrame, polars.DataFrame])
def test_amounts_of_a_frame_that_are_numbers_are_not_said_to_be_text(of_frame: Any) -> None:
    table = of_frame({"who": range(9), "paid": [16.48] * 9})
    found = dpgap.total(table, unit="who", sum="paid", at_most=50, epsilon=SURE).findings
    assert not any("text" in each for each in found)


def test_a_session_pays_for_a_total_and_keeps_it() -> None:
    with dpgap.Session(SOLD, unit="who", epsilon=1, neighbours="replace") as session:
        release = session.total("paid", at_most=50, epsilon="1/3", where="what = 'fig'")
        assert (session.spent, session.releases) == (Fraction(1, 3), (release,))
        assert release.detail.promise.sensitivity == 50
        assert "Total: paid" in session.to_html()
        with pytest.raises(dpgap.BudgetExhausted):
            session.total("paid", at_most=50, epsilon=1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"at_most": 0}, "at_most must be"),
        ({"at_most": 5, "at_least": 1}, "at_least must be 0 or below"),
        ({"at_most": "0.005"}, "at_most must be a multiple of step"),
        ({"at_most": 5, "sum": "gone"}, "no column 'gone'"),
        ({"at_most": 5, "sum": None}, "need sum"),
        ({"at_most": None}, "sum needs at_most"),
        ({"at_most": 5, "where": "gone = 3"}, "no column 'gone'"),
        ({"at_most": 5, "epsilon": 0}, "epsilon must be"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_charge(
    said: dict[str, Any], message: str
) -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    with pytest.raises((TypeError, ValueError), match=message):
        dpgap.total(SOLD, **{"unit": "who", "sum": "paid", "epsilon": 1, "account": purse, **said})
    assert purse.spent == NOTHING


def test_counts_of_items_do_not_tell_a_total() -> None:
    counted: Any = dpgap.counts(SOLD, unit="who", item="what", domain=["fig"])
    with pytest.raises(TypeError, match="table must be the table itself"):
        dpgap.total(counted, sum="paid", at_most=5, epsilon=1)


def test_the_same_total_is_paid_for_once_and_another_bound_is_another_question(
    tmp_path: Path,
) -> None:
    SOLD.to_csv(tmp_path / "sold.csv", index=False)
    account = SpyArchive()
    asked: dict[str, Any] = {"unit": "who", "sum": "paid", "epsilon": 1, "account": account}
    ids = [
        dpgap.total(tmp_path / "sold.csv", **asked | more).question.identity
        for more in (
            {"at_most": 50},
            {"at_most": "50.00"},
            {"at_most": 51},
            {"at_most": 50, "at_least": -1},
            {"at_most": 50, "where": "what = 'fig'"},
        )
    ]
    assert ids[0] is not None
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_the_command_line_adds_up_too(tmp_path: Path) -> None:
    SOLD.to_csv(tmp_path / "sold.csv", index=False)
    words = f"total {tmp_path}/sold.csv --unit who --sum paid --at-most 50 --epsilon {SURE}"
    said = CliRunner().invoke(app, [*words.split(), "--json"])
    assert json.loads(said.stdout)["values"] == [58.01]
    shown = CliRunner().invoke(app, [*words.split(), "--at-least", "-10", "--where", "what='fig'"])
    assert (
        "With this limit, the total paid of the rows that the filter keeps is 27 (95"
        in " ".join(shown.stdout.split())
    )
    refused = CliRunner().invoke(app, words.replace("--at-most 50 ", "").split())
    assert (refused.exit_code, "--at-most" in refused.stderr) == (2, True)


def test_the_sentence_of_a_total_rounds_its_ends_outwards() -> None:
    table = pandas.DataFrame({"who": [1, 2], "paid": [8.5, 0.25]})
    asked = {"unit": "who", "sum": "paid", "at_most": 10, "step": "0.25", "epsilon": 10**6}
    release = dpgap.total(table, **asked)
    assert release.interval().tolist() == [8.75, 8.75]
    assert "the total paid is 8.7 to 8.8 (95 % confidence)." in release.findings[1]
