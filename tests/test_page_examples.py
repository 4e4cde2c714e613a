"""Every command and every program on a page does what is said there, in the order they stand in."""

import contextlib
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpgap.cli.main import app
from pages import PAGES, ROOT, agree, blocks, commands, name_of

TUTORIALS = [page for page in PAGES if page.name.startswith("tutorial-")]
PROGRAMS = {
    page: "".join(
        block.text
        for block in blocks(page, "python")
        if ">>> " not in block.text and not block.is_marked and page.stem != "tutorial-questions"
    )
    for page in PAGES
}
"""The Python of a page that is not a session with `>>>`, which doctest runs."""


def test_there_is_a_tutorial_for_every_kind_of_user() -> None:
    users = {path.stem.removeprefix("tutorial-") for path in TUTORIALS}
    assert users == {"analyst", "engineer", "steward", "researcher", "auditor", "questions"}


def _copy_examples(source: Path, target: Path) -> Path:
    """Copy the committed files, and nothing that programs wrote beside them (`make desk`)."""
    target.mkdir()
    for path in source.iterdir():
        if path.suffix in (".py", ".toml", ".txt"):
            shutil.copy(path, target)
    return target


def test_pages_see_nothing_that_a_desk_or_a_demo_left_among_the_examples(tmp_path: Path) -> None:
    used = shutil.copytree(ROOT / "examples", tmp_path / "used")
    (used / "desk-budget.db").write_bytes(b"a ledger")
    (used / "desk.spool").mkdir(exist_ok=True)
    (used / "sales.csv.gz").write_bytes(b"a table")
    copied = {path.name for path in _copy_examples(used, tmp_path / "copied").iterdir()}
    assert copied.isdisjoint({"desk-budget.db", "desk.spool", "sales.csv.gz"})
    assert copied >= {"desk.toml", "pages.txt", "products.txt", "shop.py", "weblog.py"}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's data, under all names that pages use."""
    folder = tmp_path_factory.mktemp("data")
    examples = _copy_examples(ROOT / "examples", folder / "examples")
    for program in ("shop.py", "weblog.py"):
        subprocess.run([sys.executable, str(examples / program)], check=True, capture_output=True)
    for name in ("sales.csv", "weblog.csv"):
        (folder / name).write_bytes(gzip.decompress((examples / f"{name}.gz").read_bytes()))
    for name in ("products.txt", "pages.txt"):
        shutil.copy(examples / name, folder)
    return folder


@pytest.fixture
def desk(data: Path, tmp_path: Path) -> Path:
    """A copy of that folder for one page."""
    return Path(shutil.copytree(data, tmp_path / "desk"))


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def _run_here(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What is no more than `dpgap` and its words, without another process and its imports."""
    with contextlib.chdir(folder):
        words = shlex.split(command.replace("\\\n", " "), comments=True)
        said = CliRunner().invoke(app, words[1:], env={"COLUMNS": "80"})
    return subprocess.CompletedProcess(words, said.exit_code, said.stdout, said.stderr)


def _check(page: Path, folder: Path, *, long: bool) -> None:
    """The README's commands are run by a shell, and so is what only a shell can do."""
    for command, shown in commands(page, long=long):
        by_shell = long or page.name == "README.md" or re.search(r"^(?!dpgap )|[|;&<>$]", command)
        done = (_run if by_shell else _run_here)(command, folder)
        is_refusal = shown.startswith("dpgap:")
        fails = is_refusal or shown.startswith("REJECTED")
        assert done.returncode == int(fails), f"$ {command}\n{done.stderr}"
        said = done.stderr if is_refusal else done.stdout
        assert not shown or agree(shown, said), f"$ {command}\n{said}"
        assert not is_refusal or done.stdout == ""


@pytest.mark.parametrize("page", [page for page in PAGES if [*commands(page)]], ids=name_of)
def test_every_command_of_a_page_runs(page: Path, desk: Path) -> None:
    _check(page, desk, long=False)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if [*commands(page, long=True)]], ids=name_of
)
def test_every_long_command_of_a_page_runs(page: Path, desk: Path) -> None:
    _check(page, desk, long=True)


def test_an_output_agrees_up_to_its_numbers_and_nothing_else() -> None:
    said = " rank   item    estimate\n ─────\n    1   bread    2,628.5\n\nε spent 1\n"
    assert agree("rank item estimate\n───\n1 bread 2,631\nε spent 0.5", said)
    assert agree("rank …\n…\nε spent 1", said)
    assert agree("rank item …", said)
    assert not agree("rank item estimate\n───\n1 milk 2,628.5\nε spent 1", said)
    assert not agree("rank item estimate", said)


@pytest.mark.parametrize("page", [page for page in PAGES if PROGRAMS[page]], ids=name_of)
def test_every_program_of_a_page_runs(
    page: Path, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    names: dict[str, Any] = {}
    exec("import dpgap\n" + PROGRAMS[page], names)
    assert names.keys() - {"__builtins__", "dpgap"}


def test_every_question_of_the_tutorial_takes_three_lines_and_has_an_answer(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    begin, *questions = blocks(ROOT / "docs" / "tutorial-questions.md", "python")
    names: dict[str, Any] = {}
    exec(begin.text, names)
    for question in questions:
        assert len(question.text.splitlines()) <= 3, question
        exec(question.text, names)
    log = names["log"]
    assert (log.spent, log.remaining) == (6, 0)
    assert list(names["by_country"]) == ["CH", "DE", "FR", "AT", "IT"]
    assert names["best"].labels[0] == "/product/4"
    assert set(names["terms"].labels) <= {"red bike", "bike", "helmet", "lock", "bell", "city bike"}
    low, high = names["people"].interval(0.9999)
    assert low <= 6000 <= high
    page = Path("weblog.html").read_text(encoding="utf-8")
    assert "Top 3: page, by total amount" in page
    assert "differential privacy" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_does_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        if block.is_marked:
            assert re.fullmatch(r"(not run|run by make long): \S.{10,}", block.mark), block
        assert block.language not in ("", "bash", "sh", "shell", "pycon"), block
        assert block.language == "console" or not re.search(r"^\$ ", block.text, re.M), block
        assert block.language != "console" or block.steps, block
