"""A keyword is entered once: calls, sessions, commands, the desk, documents and hashes have it."""

import inspect
import re
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import dpgap
from dpgap.cli.main import app
from dpgap.desk.config import _OF_A_TOPIC
from dpgap.filter_language import Filter
from dpgap.question import (
    COUNTING,
    KEYWORDS,
    Above,
    CountOptions,
    Neighbours,
    OfAll,
    Question,
    Reading,
    TopK,
    held_fields,
    help_of,
    hints_of,
    option_help,
    read_wanted,
)

READ_WITH_THE_TABLE = {"domain", "groups", "fresh"}
OF_A_TOTAL = ("sum", "at_most", "at_least", "step")
OF_A_SESSION = {"unit", "item", "neighbours", "encoding", "decimal"}
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def _parameters(call: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(call).parameters)


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_is_where_it_can_be_stated(name: str) -> None:
    counting, top, above = ({*hints_of(each), "by"} for each in (CountOptions, TopK, Above))
    assert (name in _parameters(dpgap.counts)) == (name in counting)
    calls = {
        "top-k": (dpgap.top_k, dpgap.Session.top_k, counting | top),
        "above": (dpgap.above, dpgap.Session.above, counting | above),
        "count": (dpgap.count, dpgap.Session.count, {*hints_of(OfAll)}),
        "total": (dpgap.total, dpgap.Session.total, {*hints_of(OfAll), *OF_A_TOTAL}),
    }
    for command, (call, in_a_session, known) in calls.items():
        is_there = name in known
        assert (name in _parameters(call)) == is_there
        stated_before = name in OF_A_SESSION - {"item"}
        assert (name in _parameters(in_a_session)) == (is_there and not stated_before)
        assert (name in {each.name for each in COMMANDS[command].params}) == is_there
    is_of_a_topic = name in COUNTING and name not in ("unit", *hints_of(Reading))
    assert (name in _OF_A_TOPIC) == is_of_a_topic


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_has_one_help_for_calls_and_commands(name: str) -> None:
    text = " ".join(help_of()[name].split())
    call = dpgap.above if name in hints_of(Above) else dpgap.top_k
    assert name == "by" or text in " ".join((call.__doc__ or "").split())
    short = f"{text.partition('. ')[0].rstrip('.')}."
    flags = re.findall("`([a-z_]+)`", short)
    for flag in flags:
        short = short.replace(f"`{flag}`", f"--{flag.replace('_', '-')}")
    assert option_help(name) == short
    if name != "fresh":
        option = next(each for each in COMMANDS["above"].params if each.name == name)
        assert option.help == option_help(name)


def test_a_question_holds_every_keyword_and_a_document_all_that_it_holds() -> None:
    held = {field.name for field, _ in held_fields()}
    assert KEYWORDS.keys() - held <= READ_WITH_THE_TABLE
    assert {each.name for each in fields(Question)} - held == {"address", "columns"}


@pytest.mark.parametrize("field", [field.name for field, held in held_fields() if held.is_bound])
def test_what_bounds_a_unit_is_a_part_of_the_identity_unless_it_has_its_default(field: str) -> None:
    plain = Question(kind="top-k", k=1, epsilon=Fraction(1), table="sold.csv", digest="ab")
    other: dict[str, Any] = {
        "groups_digest": "cd",
        "where": Filter("paid > 1"),
        "unknown": True,
        "encoding": "latin-1",
        "decimal": ",",
        **dict.fromkeys(("by", "sum"), "paid"),
        **dict.fromkeys(("max_items", "max_groups"), 7),
        **dict.fromkeys(("at_most", "at_least", "step"), Fraction(1, 7)),
    }
    changed = replace(plain, **{field: other[field]})
    assert changed.identity != plain.identity
    assert changed.bounds().keys() == {field}
    assert not plain.bounds()


def test_max_groups_and_the_names_of_neighbours_stand_in_one_file() -> None:
    root = Path(dpgap.__file__).parent
    texts = {path.name: path.read_text("utf-8") for path in root.rglob("*.py")}
    assert {name for name, text in texts.items() if "max_groups" in text} == {"question.py"}
    assert not [name for name, text in texts.items() if "locals()" in text]
    compared = {
        name for name, text in texts.items() if '== "replace"' in text or "== REPLACE" in text
    }
    assert not compared


def test_neighbours_are_read_once() -> None:
    assert Neighbours.read("neighbours", "replace") is Neighbours.REPLACE
    assert Neighbours.read("neighbours", None) is Neighbours.ADD_OR_REMOVE
    with pytest.raises(ValueError, match="must be one of 'add-or-remove', 'replace', not 'remove"):
        Neighbours.read("neighbours", "remove")


def test_the_same_question_of_other_counts_keeps_what_is_wanted() -> None:
    wanted = read_wanted("above", {"threshold": 3, "epsilon": "0.5", "k": None})
    asked = wanted.about(Question(unit="who", item="what", max_items=2))
    assert (asked.kind, asked.threshold, asked.adaptive, asked.max_items) == ("above", 3, True, 2)
    assert asked.purpose == "above 3 of what by who"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: dpgap.top_k([], epsilon=1), r"top_k\(\) needs the keyword argument 'k'"),
        (lambda: dpgap.above([], epsilon=1), r"above\(\) needs the keyword argument 'threshold'"),
        (lambda: dpgap.top_k([], k=1, epsilon=1, threshold=3), "unexpected keyword .* 'threshold'"),
        (
            lambda: dpgap.counts([], max_item=3),
            r"unexpected keyword .* 'max_item'",
        ),
        (
            lambda: dpgap.Session([], epsilon=1).top_k("what", k=1, epsilon=1, unit="who"),
            "unit must be left out: it was stated for the whole session",
        ),
    ],
)
def test_a_keyword_that_is_wrong_or_missing_is_named(call: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        call()
