"""What may be asked beside counts: slips are named before anything is counted."""

import math
from fractions import Fraction
from typing import Any

import pandas
import polars
import pytest

import dpgap
from dpgap.data.counts import counts
from dpgap.data.domain import read_groups

SOLD = pandas.DataFrame(
    {"who": [1, 1, 2], "what": ["fig", "pea", "fig"], "land": ["ch", "de", "ch"], "paid": [1, 2, 3]}
)
BY = {"by": "land", "groups": ["ch", "de"], "max_groups": 1}
SUM = {"sum": "paid", "at_most": 5}
REPLACE = {"neighbours": "replace"}


def _count(**options: Any) -> Any:
    asked = {"unit": "who", "item": "what", "domain": ["fig", "pea"]} | options
    return counts(SOLD, **asked)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_items": 0}, "max_items must be at least 1"),
        ({"max_items": -3}, "max_items must be at least 1"),
        ({"max_items": 1.5}, "max_items must be a whole number"),
        ({"max_items": True}, "max_items must be a whole number"),
        ({"domain": None}, "needs max_items"),
        ({**BY, "by": "country"}, "there is no column 'country'"),
        ({"sum": "price", "at_most": 5}, "there is no column 'price'"),
        ({"by": "land"}, "by needs groups"),
        ({"by": 3, "groups": [1]}, "by must be text"),
        ({**BY, "by": "what"}, "item and by must be different columns"),
        ({**BY, "by": "who"}, "unit and by must be different columns"),
        ({"groups": ["ch"]}, "need by"),
        ({"max_groups": 2}, "need by"),
        (
            {**BY, "max_groups": None},
            "by needs max_groups: .* With 1, each unit counts in one",
        ),
        ({**BY, "max_groups": 0}, "max_groups must be at least 1"),
        ({**BY, "groups": []}, "groups must not be empty"),
        ({**BY, "groups": "ch"}, "groups must be a list"),
        ({**BY, "groups": pandas.DataFrame({"land": ["ch"]})}, "groups must be a list"),
        ({**BY, "groups": [7, "ch", "7"]}, "'7' is there twice"),
        ({**BY, "groups": ["ch", None]}, "must not hold None"),
        ({"sum": "paid"}, "sum needs at_most"),
        ({"at_most": 5}, "need sum"),
        ({"at_least": -5}, "need sum"),
        ({"step": 1}, "need sum"),
        ({**SUM, "at_most": 0}, "at_most must be greater than 0"),
        ({**SUM, "at_most": -1}, "at_most must be greater than 0"),
        ({**SUM, "at_most": float("inf")}, "at_most must be a finite number"),
        ({**SUM, "at_least": 1}, "at_least must be 0 or below"),
        ({**SUM, "at_most": "5.001"}, "at_most must be a multiple of step, 1/100"),
        ({**SUM, "at_least": "-0.005"}, "at_least must be a multiple of step"),
        ({**SUM, "step": 0}, "step must be greater than 0"),
        ({**SUM, "step": "1e-10"}, "step must be a number such as 0.01"),
        ({**SUM, "at_most": 2**40}, "at_most must be at most 2.40 steps"),
        ({"max_items": 1, **REPLACE}, "max_items needs neighbours 'add-or-remove'"),
        ({**BY, **REPLACE}, "by needs neighbours 'add-or-remove'"),
        ({"domain": None, "max_items": 1, **REPLACE}, "needs neighbours 'add-or-remove'"),
    ],
)
def test_a_slip_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        _count(**options)


@pytest.mark.parametrize("zero", [0, 0.0, "0.0", Fraction(0)])
def test_a_least_amount_of_0_says_nothing_where_units_are_counted(zero: Any) -> None:
    assert _count(at_least=zero).origin == _count().origin


@pytest.mark.parametrize("column", ["day", "flag"])
def test_what_cannot_be_an_amount_is_refused_by_its_type(column: str) -> None:
    days = polars.from_pandas(SOLD.assign(day=pandas.to_datetime("2026-11-15"), flag=True))
    with pytest.raises(ValueError, match=f"column '{column}' must hold numbers"):
        counts(days, unit="who", item="what", domain=["fig"], sum=column, at_most=1)


def test_answers_say_what_one_unit_can_do() -> None:
    plain, few, rows = _count(), _count(max_items=1), _count(unit="row")
    assert [each.reach for each in (plain, few, rows)] == [None, 1, 1]
    assert _count(max_items=9).reach == 2  # there are no more items
    assert _count(unit="row", **REPLACE).reach is None
    cents, both = _count(**SUM), _count(**SUM, at_least=-7)
    assert (cents.sensitivity, cents.monotonic, cents.step) == (500, True, Fraction(1, 100))
    assert (both.sensitivity, both.monotonic) == (700, False)


def test_a_replaced_unit_moves_a_sum_from_one_end_to_the_other() -> None:
    replaced = _count(**SUM, at_least=-7, **REPLACE)
    assert (replaced.sensitivity, replaced.monotonic) == (1200, False)
    assert _count(**SUM, **REPLACE).sensitivity == 500


def test_epsilon_is_not_divided_by_more_groups_than_there_are() -> None:
    origin = _count(**BY | {"max_groups": 9}).origin
    assert (origin.max_groups, origin.groups) == (2, 2)


def test_the_origin_tells_the_question() -> None:
    origin = _count(max_items=3, **BY | {"max_groups": 2}, **SUM, at_least=-1, step="0.5").origin
    assert (origin.max_items, origin.by, origin.groups, origin.max_groups) == (3, "land", 2, 2)
    assert (origin.sum, origin.at_most, origin.at_least, origin.step) == (
        "paid",
        5,
        -1,
        Fraction(1, 2),
    )
    other = _count(**BY | {"groups": ["de", "ch"]}).origin
    assert origin.groups_digest != other.groups_digest
    assert _count(domain=None, max_items=1).origin.unknown
    assert not origin.unknown


def test_a_mechanism_must_know_the_sensitivity_of_sums() -> None:
    with pytest.raises(ValueError, match="sensitivity must be at least that of the answers, 500"):
        dpgap.NoisyTopK(1, 1, monotonic=True).release(_count(**SUM))
    with pytest.raises(ValueError, match="grid must be at least 1 for sums"):
        dpgap.NoisyTopK(1, 1, sensitivity=500, grid="1/2").release(_count(**SUM))


@pytest.mark.parametrize("missing", [None, math.nan, pandas.NA, pandas.NaT])
def test_a_missing_value_is_no_group(missing: object) -> None:
    with pytest.raises(ValueError, match="groups must not hold None or NaN"):
        read_groups(["de", missing])


def test_a_range_may_state_the_groups() -> None:
    groups = read_groups(range(30, 60, 10))
    assert (groups.labels, groups.texts) == ((30, 40, 50), ("30", "40", "50"))
