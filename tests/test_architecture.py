"""docs/architecture.md names modules and functions that are there, and all that a release runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpgap

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \d+ \| `([\w/]+\.py)` \| (.*?) \|", re.MULTILINE)


def _walks() -> dict[str, list[tuple[str, list[str]]]]:
    """By heading, each row's module and the names in its second column."""
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    rows = {
        heading: [(path, re.findall(r"`([\w.]+)`", names)) for path, names in ROW.findall(text)]
        for heading, text in sections.items()
    }
    return {heading: found for heading, found in rows.items() if found}


def _defined(path: Path) -> set[str]:
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_there_are_three_walks() -> None:
    assert [heading.split(" walk")[0] for heading in _walks()] == ["First", "Second", "Third"]


@pytest.mark.parametrize("walk", _walks())
def test_a_walk_names_what_is_there(walk: str) -> None:
    for path, names in _walks()[walk]:
        module = ROOT / "src" / "dpgap" / path
        assert module.is_file(), path
        assert names, path
        assert set(names) <= _defined(module), (path, names)


def test_every_room_is_on_the_map() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    rooms = {path.parent.name for path in (ROOT / "src" / "dpgap").glob("*/__init__.py")}
    assert {room for row in rows for room in re.findall(r"\w+", row)} == rooms


def test_the_first_walk_is_all_that_a_release_runs(tmp_path: Path) -> None:
    ledger = ["--ledger", f"sqlite:///{tmp_path}/budget.db", "--dataset", "sales"]
    create = [sys.executable, "-m", "dpgap", "ledger", "create", *ledger, "--epsilon", "1"]
    subprocess.run(create, check=True, capture_output=True)
    (tmp_path / "products.txt").write_text("fig\npea\noat\n")
    rows = [f"{who},{'fig' if who % 3 else 'pea'}\n" for who in range(30_000)]
    (tmp_path / "file.csv").write_text("".join(["customer,product\n", *rows]))
    ask = ["--unit", "customer", "--item", "product", "--domain", "products.txt", "-k", "2"]
    measure = [sys.executable, str(ROOT / "tests" / "modules_run.py"), "top-k", "file.csv"]
    done = subprocess.run(
        [*measure, *ask, "--epsilon", "1", *ledger],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    executed = re.findall(r"^ *\d+ dpgap/(\S+\.py) ", done.stderr, re.MULTILINE)
    (walk,) = (rows for heading, rows in _walks().items() if heading.startswith("First"))
    assert sorted(executed) == sorted(path for path, _ in walk)
    assert f"**{len(executed)}** today" in PAGE


def test_every_file_that_contributing_names_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`", page))
    assert "exact/laws.py" in named
    outside = ("tests/", "docs/", "src/")
    homes = {name: ROOT / ("" if name.startswith(outside) else "src/dpgap") for name in named}
    assert not [name for name, home in homes.items() if not (home / name).exists()]


def test_nothing_but_a_law_asks_which_law_it_has() -> None:
    """So a new law edits no other file."""
    asking = {
        path.relative_to(ROOT / "src" / "dpgap").as_posix()
        for path in (ROOT / "src" / "dpgap").rglob("*.py")
        if re.search(r"(isinstance|issubclass)\([^)]*\b\w+Noise\b", path.read_text("utf-8"))
    }
    joint = {"simulation/batch.py"}  # noise for many values at once is another matter
    assert asking - joint == {"exact/laws.py"}


def test_the_citation_is_of_this_version_and_licence() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {dpgap.__version__}\n" in citation
    assert "\nlicense: Apache-2.0\n" in citation
