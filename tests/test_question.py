"""Keywords: calls, sessions, commands, the desk, documents and hashes have the same ones."""

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import dpgap
from dpgap.cli.main import app
from dpgap.desk.config import _OF_A_TABLE, _OF_A_TOPIC
from dpgap.filter_language import Filter
from dpgap.question import Counting, Neighbours, Question, held_fields, read_question

CALLS: dict[str, Callable[..., Any]] = {
    "top-k": dpgap.top_k,
    "above": dpgap.above,
    "count": dpgap.count,
    "total": dpgap.total,
}
IN_SESSIONS: dict[str, Callable[..., Any]] = {
    "top-k": dpgap.Session.top_k,
    "above": dpgap.Session.above,
    "count": dpgap.Session.count,
    "total": dpgap.Session.total,
}
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
COUNTING = {field.name: field for field in fields(Counting)}

# --------------------------------------------------------------------------------------------------
# All differences that are intended.


STATED_FOR_A_SESSION = {"table", "unit", "neighbours", "encoding", "decimal", "account"}
"""Keywords of a call that a session states once, for all its questions."""
NAMED_FIRST = {"top-k": {"item"}, "above": {"item"}, "count": set(), "total": {"sum"}}
"""What a question of a session names first; a call needs no item for a FIMI file."""
OF_THE_SESSION = {"max_items"}
"""What a session states for all its questions, unless one of them states another."""
PAYMENT = {"account": {"ledger", "dataset", "reason", "key"}}
"""The options of the command line that stand for a keyword."""
OUTPUT = {"json", "csv", "html", "title", "force"}
"""Options of the command line that no call has."""
OWN_HELP = {"domain", "groups", "method", "fresh"}
"""Options whose help speaks of text, or of other options."""


def _parameters(call: Any) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(call).parameters.items()
        if name != "self"
    }


def _explained(call: Any) -> dict[str, str]:
    """The explanation of each parameter in a docstring, on one line."""
    doc = inspect.getdoc(call) or ""
    section = doc.partition("Parameters\n----------\n")[2] + "\n"
    entries = re.findall(r"^(\w+)\n((?: {4}.+\n)+)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


# --------------------------------------------------------------------------------------------------
# A call, a session, a plan and a command.


@pytest.mark.parametrize("kind", CALLS)
def test_a_session_has_the_parameters_of_the_call_with_types_and_defaults(kind: str) -> None:
    call, in_session = _parameters(CALLS[kind]), _parameters(IN_SESSIONS[kind])
    assert call.keys() - in_session.keys() == STATED_FOR_A_SESSION & call.keys()
    assert not in_session.keys() - call.keys()
    first = {name for name, each in in_session.items() if each.kind is not each.KEYWORD_ONLY}
    assert first == NAMED_FIRST[kind]
    order = [name for name in call if name in in_session.keys() - first]
    assert order == [name for name in in_session if name not in first]
    for name in order:
        if name in OF_THE_SESSION:
            assert in_session[name].default == "session"
            assert str(call[name].annotation) == "int | None"
        else:
            assert in_session[name] == call[name]


@pytest.mark.parametrize("kind", CALLS)
def test_every_parameter_is_explained_and_in_a_session_as_in_the_call(kind: str) -> None:
    call, in_session = _explained(CALLS[kind]), _explained(IN_SESSIONS[kind])
    assert list(call) == list(_parameters(CALLS[kind]))
    assert list(in_session) == list(_parameters(IN_SESSIONS[kind]))
    for name in in_session:
        if name in OF_THE_SESSION:
            assert in_session[name].startswith(call[name])
        else:
            assert in_session[name] == call[name]


def test_a_plan_of_a_session_has_the_parameters_of_its_questions() -> None:
    plan, top_k, above = map(_parameters, (dpgap.Session.plan, *list(IN_SESSIONS.values())[:2]))
    assert plan.keys() == (top_k.keys() | above.keys()) - {"fresh"}
    for name in plan.keys() - {"k", "threshold"}:
        assert plan[name] == above[name]
    assert list(_explained(dpgap.Session.plan)) == list(plan)


@pytest.mark.parametrize("call", [dpgap.counts, dpgap.top_k, dpgap.above])
def test_a_call_has_every_keyword_of_counting_with_its_type_and_default(call: Any) -> None:
    parameters = _parameters(call)
    for name, field in COUNTING.items():
        assert parameters[name].default == field.default
        assert parameters[name].annotation == field.type
    if call is dpgap.counts:
        assert list(parameters) == ["table", *COUNTING]
        explained, of_top_k = _explained(call), _explained(dpgap.top_k)
        assert [name for name in COUNTING if explained[name] != of_top_k[name]] == ["domain"]


@pytest.mark.parametrize(
    "call", [dpgap.counts, dpgap.top_k, dpgap.above, dpgap.Session.top_k, dpgap.Session.above]
)
def test_what_a_type_checker_sees_is_what_python_takes(call: Any) -> None:
    """Overloads differ in the type of `by` alone; counts were cut and grouped before."""
    written = _parameters(call)
    overloads = typing.get_overloads(inspect.unwrap(call))
    assert len(overloads) >= 2
    for overload in overloads:
        parameters = _parameters(overload)
        if "item" not in parameters:
            assert not written.keys() - parameters.keys() - COUNTING.keys()
        else:
            assert list(parameters) == list(written)
            assert str(parameters["by"]) in ("by: None = None", "by: str")
        for name in parameters.keys() - {"table", "by"}:
            assert parameters[name] == written[name]


def _as_written(name: str, parameter: inspect.Parameter) -> tuple[bool, Any, type]:
    """Whether an option is needed, its default and its type, for a parameter of a call."""
    kind: type = str
    if parameter.annotation in (int, int | None):
        kind = int
    if parameter.annotation is bool:
        kind = bool
    is_needed = parameter.default is inspect.Parameter.empty
    default = None if is_needed else parameter.default
    if kind is str and default is not None:
        default = str(default)
    return is_needed, default, kind


@pytest.mark.parametrize("kind", CALLS)
def test_a_command_has_the_options_of_the_call_with_types_defaults_and_help(kind: str) -> None:
    call, explained = _parameters(CALLS[kind]), _explained(CALLS[kind])
    options = {option.name: option for option in COMMANDS[kind].params}
    expected = {*call} - PAYMENT.keys()
    for names in PAYMENT.values():
        expected |= names
    assert options.keys() == expected | OUTPUT
    for name in call.keys() - PAYMENT.keys() - {"table"}:
        option = options[name]
        is_needed, default, type_ = _as_written(name, call[name])
        assert option.required == is_needed
        assert option.type.name.startswith(type_.__name__)
        if not is_needed:
            assert option.default == default
        if name not in OWN_HELP:
            first = explained[name].partition(". ")[0].rstrip(".") + "."
            assert option.help == re.sub("`([a-z_]+)`", _as_option, first)


def _as_option(match: re.Match[str]) -> str:
    return f"--{match[1].replace('_', '-')}"


def test_dpgap_plan_and_the_command_plan_have_the_same_parameters() -> None:
    call = _parameters(dpgap.plan)
    options = {option.name: option for option in COMMANDS["plan"].params}
    # Neighbours say whether counts are monotonic; a table has steps of its own.
    assert call.keys() - options.keys() == {"monotonic", "sensitivity", "grid"}
    assert options.keys() - call.keys() == {"neighbours", "json"}
    for name in call.keys() & options.keys() - {"error", "counts"}:
        _, default, _ = _as_written(name, call[name])
        assert options[name].default == default or call[name].default is inspect.Parameter.empty
    assert options["neighbours"].default == COUNTING["neighbours"].default


def test_a_topic_of_the_desk_states_what_its_data_set_does_not() -> None:
    assert {*_OF_A_TOPIC} | {*_OF_A_TABLE} == COUNTING.keys()
    assert not {*_OF_A_TOPIC} & {*_OF_A_TABLE}


def test_no_public_call_takes_keywords_that_its_signature_does_not_name() -> None:
    calls = [getattr(dpgap, name) for name in dpgap.__all__ if name.islower()]
    methods = [method for name, method in vars(dpgap.Session).items() if name[0] != "_"]
    kinds = {
        parameter.kind
        for call in (*calls, *methods)
        if inspect.isfunction(call)
        for parameter in inspect.signature(call).parameters.values()
    }
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert inspect.Parameter.KEYWORD_ONLY in kinds


# --------------------------------------------------------------------------------------------------
# A question.


def test_a_question_holds_every_keyword_and_a_document_all_that_it_holds() -> None:
    held = {field.name for field, _ in held_fields()}
    read_with_the_table = {"table", "domain", "groups", "fresh", "account"}
    keywords = _parameters(dpgap.top_k).keys() | _parameters(dpgap.above).keys()
    assert keywords - held <= read_with_the_table
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


def test_the_names_of_neighbours_stand_in_one_file() -> None:
    root = Path(dpgap.__file__).parent
    texts = {path.name: path.read_text("utf-8") for path in root.rglob("*.py")}
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


def test_the_same_question_of_other_counts_keeps_what_is_asked() -> None:
    question = read_question("above", threshold=3, epsilon="0.5", k=None)
    asked = question.about(Question(unit="who", item="what", max_items=2))
    assert (asked.kind, asked.threshold, asked.adaptive, asked.max_items) == ("above", 3, True, 2)
    assert asked.purpose == "above 3 of what by who"


def test_a_keyword_is_stated_if_it_differs_from_its_default() -> None:
    items = ["fig"]
    counting = Counting(unit="who", domain=items, at_least="0", step=Fraction(1, 2), max_items=None)
    assert counting.stated() == {"unit": "who", "domain": items, "step": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: dpgap.top_k([], epsilon=1), r"top_k\(\) missing 1 required keyword-only .*: 'k'"),
        (lambda: dpgap.above([], epsilon=1), r"above\(\) missing 1 required .*: 'threshold'"),
        (lambda: dpgap.top_k([], k=1, epsilon=1, threshold=3), "unexpected keyword .* 'threshold'"),
        (lambda: dpgap.top_k([], k=None, epsilon=1), "k must be a whole number, not NoneType"),
        (lambda: dpgap.above([], threshold=None, epsilon=1), "threshold must be a number"),
        (
            lambda: dpgap.counts([], max_item=3),
            r"unexpected keyword .* 'max_item'",
        ),
        (
            lambda: dpgap.Session([], epsilon=1).top_k("what", k=1, epsilon=1, unit="who"),
            "unexpected keyword argument 'unit'",
        ),
    ],
)
def test_a_keyword_that_is_wrong_or_missing_is_named(call: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        call()
