"""What a user meets first: the names of `dpgap`, what they call themselves, and their help."""

import ast
import doctest
import inspect
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dpgap
from dpgap.mechanisms.sparse_vector import Run
from pages import ROOT

PACKAGE = Path(dpgap.__file__)
NAMED = [name for name in dpgap.__all__ if name != "estimates"]
"""The public classes and functions; `estimates` is a module."""
RAISED = ("Error", "Warning", "Exhausted", "Charged")
CALLS = [name for name in NAMED if not name.endswith(RAISED)]
METHODS = [
    (name, method)
    for name in CALLS
    for method in ("release", "start", "create", "account", "entries", "verify", "of")
    if inspect.isclass(getattr(dpgap, name)) and hasattr(getattr(dpgap, name), method)
]


def test_the_package_lists_its_public_names_and_nothing_else() -> None:
    import dpgap.cli.main

    assert dir(dpgap) == sorted(dpgap.__all__)
    assert all(getattr(dpgap, name) is not None for name in dpgap.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="mesured_top_k"):
        dpgap.mesured_top_k  # noqa: B018


def test_a_type_checker_and_python_find_each_name_in_the_same_module() -> None:
    imports = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(PACKAGE.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.col_offset
        for alias in node.names
    ]
    homes = {name: home for home, name in imports} | {"estimates": "dpgap.estimates"}
    assert homes == dpgap._HOMES
    assert len(imports) == len(homes)


def _checked(line: str, folder: Path) -> str:
    """What a type checker says of a line, looking at nothing but the package's own file."""
    program = folder / "program.py"
    program.write_text(f"import dpgap\n{line}\n")
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--no-incremental"]
    command += [f"--config-file={folder / 'none.ini'}", str(PACKAGE), str(program)]
    (folder / "none.ini").write_text("[mypy]\n")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_misspelt_name_fails_under_a_type_checker(tmp_path: Path) -> None:
    said = _checked("dpgap.mesured_top_k\ndpgap.measured_top_k", tmp_path)
    assert 'program.py:2: error: Module has no attribute "mesured_top_k"' in said
    assert "program.py:3" not in said


def test_a_type_checker_knows_what_comes_back() -> None:
    """Types are revealed as the comments of `users_calls.py` say, and nothing else is said."""
    path = Path(__file__).with_name("users_calls.py")
    # No cache: what another run of mypy left there must not decide this one.
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(path)]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parents[1])}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=path.parents[1], env=environment
    )
    *notes, last = done.stdout.splitlines()
    assert last == "Success: no issues found in 1 source file", done.stdout + done.stderr
    revealed = {
        int(line): {*re.sub(r"\b(?:\w+\.)+(?=\w)", "", kind).split(" | ")}
        for line, kind in (re.findall(r":(\d+): note: .* is \"(.*)\"", each)[0] for each in notes)
    }
    lines = path.read_text("utf-8").splitlines()
    told = {at: text for at, text in enumerate(lines, 1) if text.strip().startswith("reveal_type(")}
    assert revealed == {at: {*text.partition("  # ")[2].split(" | ")} for at, text in told.items()}
    assert len(revealed) >= 20


@pytest.mark.parametrize("name", NAMED)
def test_public_classes_and_functions_say_that_they_are_of_dpgap(name: str) -> None:
    thing = getattr(dpgap, name)
    assert (thing.__module__, thing.__qualname__) == ("dpgap", name)
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_an_error_is_called_what_users_catch_wherever_it_is_imported_from() -> None:
    code = "from dpgap.budget.account import BudgetExhausted; raise BudgetExhausted('none left')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("\ndpgap.BudgetExhausted: none left\n")


RELEASES: dict[str, Callable[[], Any]] = {
    "NoisyTopK": lambda: dpgap.NoisyTopK(2, 1).release([3, 1, 2]),
    "NoisyMax": lambda: dpgap.NoisyMax(1).release([3, 1, 2], labels=["fig", "pea", "oat"]),
    "JointTopK": lambda: dpgap.JointTopK(2, 1).release([3, 1, 2]),
    "HybridTopK": lambda: dpgap.HybridTopK(1, 2, 1).release([3, 1, 2]),
    "NoisyHistogram": lambda: dpgap.NoisyHistogram(1, reach=2).release([3, 1, 2]),
    "SparseVector": lambda: dpgap.SparseVector(1, 2, 1).release([3, 1, 2]),
    "AdaptiveSparseVector": lambda: dpgap.AdaptiveSparseVector(1, 2, 1).release([3, 1, 2]),
    "Laplace": lambda: dpgap.Laplace(1).release([3, 1]),
    "CountHull": lambda: dpgap.CountHull(1, monotonic=True).release([3, 1]),
    "Cube": lambda: dpgap.Cube(1).release([3, 1]),
    "plan": lambda: dpgap.plan(k=3, epsilon=1),
    "simulate": lambda: dpgap.simulate(dpgap.NoisyTopK(2, 1), [3, 1, 2], runs=2, seed=1),
}


@pytest.mark.parametrize("made", RELEASES.values(), ids=RELEASES)
def test_what_is_released_can_be_sent_to_another_process(made: Callable[[], Any]) -> None:
    release = made()
    assert repr(pickle.loads(pickle.dumps(release))) == repr(release)


@pytest.mark.parametrize("name", NAMED)
def test_the_examples_of_public_names_are_found_where_they_live(name: str) -> None:
    """A class that says `dpgap` is passed over by doctest unless its home names it."""
    home = import_module(dpgap._HOMES[name])
    found = doctest.DocTestFinder(exclude_empty=True).find(home)
    text = f"{getattr(dpgap, name).__doc__}\n"
    examples = doctest.DocTestParser().get_examples(text)
    own = [test for test in found if test.name.rpartition(".")[2] == name and test.examples]
    assert [len(test.examples) for test in own] == ([len(examples)] if examples else [])


def _parameters(call: Any) -> set[str]:
    return {name for name in inspect.signature(call).parameters if name != "self"}


def _explained(doc: str) -> set[str]:
    """The names that a docstring's section of parameters explains."""
    _, _, section = doc.partition("Parameters\n----------\n")
    return set(
        re.findall(r"\w+", " ".join(re.findall(r"^\S.*\n(?=    \S)", section, re.MULTILINE)))
    )


@pytest.mark.parametrize("name", CALLS)
def test_help_explains_every_parameter_and_shows_an_example(name: str) -> None:
    call = getattr(dpgap, name)
    doc = inspect.getdoc(call) or ""
    assert _parameters(call) - _explained(doc) == set()
    assert ">>> " in doc


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_help_of_a_method_names_every_parameter(name: str, method: str) -> None:
    call = getattr(getattr(dpgap, name), method)
    doc = inspect.getdoc(call) or ""
    assert {word for word in _parameters(call) if not re.search(rf"\b{word}\b", doc)} == set()


_ONE_PERSON = (
    "Each number must count persons, so that one person moves it by at most 1. For events, cap "
    "each person's at c, and pass `sensitivity=c`."
)


@pytest.mark.parametrize(
    "page", ["tutorial-engineer.md", "how-to/stream.md", "how-to/service.md", "../README.md"]
)
def test_pages_on_streams_say_first_what_a_number_may_be(page: str):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    before_code = text[: text.index(".start()")].replace("**", "")
    section = before_code[before_code.rindex("\n## ") if page == "../README.md" else 0 :]
    words = " ".join(section.split("\n\n", 1)[1].split())
    assert words.startswith(_ONE_PERSON)


@pytest.mark.parametrize("method", [dpgap.AdaptiveSparseVector.start, Run.ask])
def test_help_says_what_a_number_may_be(method: Any):
    words = " ".join(method.__doc__.split())
    assert "must count persons, so that one person moves it by at most 1; for events" in words
    assert "cap each person's at c and pass `sensitivity=c`" in words
