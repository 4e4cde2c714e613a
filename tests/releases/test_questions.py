"""A question has an identity, a line in plain words, and facts: all of them public."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas
import pytest

import dpgap
from dpgap.data.private_counts import PrivateCounts
from dpgap.question import Neighbours, Question

TOP = Question(
    kind="top-k",
    k=10,
    epsilon=Fraction(1, 2),
    split=Fraction(1, 2),
    items=5,
    unit="user_id",
    item="url",
    domain="a file of 5 items",
    table="visits.csv",
    address="file:/data/visits.csv",
    columns=(("user_id", "integer"), ("url", "text")),
    digest="5f" * 32,
)
ABOVE = replace(TOP, kind="above", threshold=Fraction(1000), adaptive=True)

FRAME = pandas.DataFrame({"who": range(90), "what": ["fig"] * 60 + ["pea"] * 30})
ITEMS = ["fig", "pea", "oat"]


def _counted() -> PrivateCounts:
    """Counts that know which table and which domain they are of."""
    counted = dpgap.counts(FRAME, unit="who", item="what", domain=ITEMS)
    known = replace(counted.origin, address="file:/sold.csv", table="sold.csv", digest="ab" * 32)
    object.__setattr__(counted, "origin", known)
    return counted


def _asked(function: Any = dpgap.top_k, **options: Any) -> Question:
    return function(_counted(), **({"k": 2, "epsilon": "1/2"} | options)).question


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.5},
        {"epsilon": "0.5"},
        {"epsilon": Fraction(1, 2)},
        {"method": "best"},
        {"split": None},
    ],
    ids=str,
)
def test_a_question_is_the_same_however_it_is_put(options: dict[str, Any]):
    assert _asked(**options).identity == _asked().identity


@pytest.mark.parametrize(
    "options", [{"epsilon": 1}, {"k": 1}, {"method": "paper"}, {"split": "1/3"}], ids=str
)
def test_another_parameter_is_another_question(options: dict[str, Any]):
    assert _asked(**options).identity != _asked().identity


def test_a_threshold_and_its_way_of_asking_are_part_of_the_question():
    wanted = [{"threshold": 10}, {"threshold": 20}, {"threshold": 10, "adaptive": False}]
    asked = [_asked(dpgap.above, **options).identity for options in wanted]
    assert len({_asked().identity, *asked}) == 4
    assert _asked(dpgap.above, threshold="10", adaptive=True).identity == asked[0]


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "row"},
        {"item": "page"},
        {"neighbours": Neighbours.REPLACE},
        {"address": "file:/data/others.csv"},
        {"address": None},
        {"digest": "60" * 32},
    ],
    ids=str,
)
def test_another_table_unit_or_domain_is_another_question(change: dict[str, Any]):
    other = replace(TOP, **change)
    assert None not in (other.identity, TOP.identity)
    assert other.identity != TOP.identity


@pytest.mark.parametrize("change", [{"domain": "five items"}, {"table": "v.csv"}, {"columns": ()}])
def test_what_things_are_called_does_not_change_the_question(change: dict[str, Any]):
    assert replace(TOP, **change).identity == TOP.identity


def test_a_question_of_a_table_or_a_domain_that_nobody_named_has_no_identity():
    """Two frames may look alike and hold different data."""
    assert dpgap.top_k(_frame_counts(), k=1, epsilon=1).question.identity is None
    assert replace(TOP, address=None, table=None).identity is None
    assert replace(TOP, digest=None).identity is None


def _frame_counts() -> PrivateCounts:
    return dpgap.counts(FRAME, unit="who", item="what", domain=ITEMS)


def test_identities_stay_as_they_are_for_ever():
    body = {
        "adaptive": True,
        "delta": "0",
        "domain": "5f" * 32,
        "epsilon": "1/2",
        "item": "url",
        "k": 10,
        "kind": "above",
        "method": "best",
        "neighbours": "add-or-remove",
        "split": "1/2",
        "table": "file:/data/visits.csv",
        "threshold": "1000",
        "unit": "user_id",
    }
    canonical = json.dumps(body, separators=(",", ":"))
    assert ABOVE.identity == hashlib.sha256(canonical.encode()).hexdigest()


def test_a_purpose_is_one_plain_line():
    assert TOP.purpose == "top 10 of url by user_id"
    assert ABOVE.purpose == "above 1000, up to 10, of url by user_id"
    half = replace(ABOVE, threshold=Fraction(1, 2))
    assert half.purpose == "above 0.5, up to 10, of url by user_id"
    hostile = replace(TOP, item="a\n\x1b[2J")
    assert hostile.purpose == r"top 10 of a\n\x1b[2J by user_id"


def test_facts_are_what_a_budget_that_is_bound_to_a_table_must_know():
    facts = TOP.facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts == {
        "table": "file:/data/visits.csv",
        "unit": "user_id",
        "neighbours": "add-or-remove",
        "columns": [["user_id", "integer"], ["url", "text"]],
        "private": True,
    }
