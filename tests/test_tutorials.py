"""The commands in the tutorials do what is said there, in the order in which they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs").glob("tutorial-*.md"))


def _steps(tutorial: Path) -> list[tuple[str, str]]:
    """Each command and the output that is shown below it, if any."""
    blocks = re.findall(r"```console\n(.*?)```", tutorial.read_text(encoding="utf-8"), re.DOTALL)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)
    return [(command, shown.strip()) for command, shown in steps]


def test_there_is_a_tutorial_for_every_kind_of_user() -> None:
    users = {path.stem.removeprefix("tutorial-") for path in TUTORIALS}
    assert users == {"analyst", "engineer", "steward", "researcher", "auditor", "questions"}


@pytest.mark.parametrize(
    "tutorial", [path for path in TUTORIALS if _steps(path)], ids=lambda path: path.stem
)
def test_every_command_of_a_tutorial_runs(tutorial: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    beside_python = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{beside_python}:{os.environ['PATH']}"}
    environment["PYTHONIOENCODING"] = "utf-8"
    for command, shown in _steps(tutorial):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        refused = shown.startswith("dpgap:")
        assert (done.returncode == 1) == refused, done.stderr
        assert (done.stderr if refused else done.stdout).startswith(shown.removesuffix(" …"))
        assert (done.stdout == "") == refused


def test_every_question_of_the_tutorial_takes_three_lines_and_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    subprocess.run([sys.executable, str(ROOT / "examples" / "weblog.py")], check=True)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial-questions.md").read_text(encoding="utf-8")
    begin, *questions = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(begin, names)
    for question in questions:
        assert len(question.splitlines()) <= 3, question
        exec(question, names)
    log = names["log"]
    assert (log.spent, log.remaining) == (6, 0)
    assert list(names["by_country"]) == ["CH", "DE", "FR", "AT", "IT"]
    assert names["best"].labels[0] == "/product/4"
    assert set(names["terms"].labels) <= {"red bike", "bike", "helmet", "lock", "bell", "city bike"}
    low, high = names["people"].interval(0.9999)
    assert low <= 6000 <= high
    page = Path("weblog.html").read_text(encoding="utf-8")
    assert "The 3 pages with the largest total amount" in page
    assert "differential privacy" in capsys.readouterr().out
