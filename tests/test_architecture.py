"""docs/architecture.md names modules and functions that are there, and all that a release runs."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import dpgap

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dpgap"
ROOMS_FILES = sorted(
    path for room in SOURCE.glob("*/__init__.py") for path in room.parent.rglob("*.py")
)
NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
)
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
    bibtex = (ROOT / "docs" / "tutorial-researcher.md").read_text(encoding="utf-8")
    assert f"  version = {{{dpgap.__version__}}},\n" in bibtex
    assert re.search(r"doi     = \{(.+)\}", bibtex)[1] in citation


def _code_lines(path: Path) -> int:
    """Lines with code on them: neither blank, nor a comment, nor a docstring."""
    text = path.read_text(encoding="utf-8")
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body and ast.get_docstring(node) is not None else None
            docs |= set(range(first.lineno, (first.end_lineno or 0) + 1)) if first else set()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docs)


def test_a_file_is_a_room_that_one_can_read() -> None:
    """Few files, none too long, and none so short that it is only read with another."""
    sizes = {path: _code_lines(path) for path in SOURCE.rglob("*.py")}
    assert len(sizes) <= 160
    assert max(sizes.values()) <= 900
    importers: dict[str, set[Path]] = {}
    for path in sizes:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                    importers.setdefault(name, set()).add(path.parent)
    alone = re.compile(r"__(init|main)__|/engines/|cli/desk")
    for path, size in sizes.items():
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        if size < 60 and not alone.search(path.as_posix()):
            assert importers[module] - {path.parent}, (module, size)


NEEDS_WHAT_MAY_BE_ABSENT = (
    "dpgap.budget.postgres",
    "dpgap.data.engines",
    "dpgap.proof.checker.recording",
    "dpgap.proof.checker.symbolic",
    "dpgap.proof.every",
)


@pytest.mark.parametrize("path", ROOMS_FILES, ids=lambda path: path.stem)
def test_no_ring_is_hidden_in_a_function_and_none_imports_the_root(path: Path) -> None:
    """Inside a function stands only what may be absent, or what another room has."""
    room = ".".join(path.relative_to(SOURCE.parent).parts[:2])
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert "dpgap" not in [each.name for each in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.module != "dpgap" or {each.name for each in node.names} <= {"printable"}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom) and (each.module or "").startswith(room):
                    assert (each.module or "").startswith(NEEDS_WHAT_MAY_BE_ABSENT)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("__init__.py")), ids=lambda path: path.parent.name
)
def test_the_label_of_a_room_names_what_is_there(path: Path) -> None:
    """A name alone in backticks is a file, a room, or something that is defined somewhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = set(re.findall(r"`(\w+)`", ast.get_docstring(tree) or ""))
    files = list(SOURCE.rglob("*.py"))
    code = "".join(each.read_text(encoding="utf-8") for each in files)
    defined = set(re.findall(r"^ *(?:def|class) (\w+)", code, re.MULTILINE))
    there = {part for each in files for part in each.relative_to(SOURCE).with_suffix("").parts}
    assert named <= there | defined, named - there - defined
