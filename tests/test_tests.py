"""What holds of the tests themselves: no test leans on another, on a benchmark or on the clock."""

import ast
from pathlib import Path

import pytest

TESTS = sorted(Path(__file__).parent.rglob("*.py"))
SEAM = "_".join(("secure", "bits"))  # in two words, as this file is read as well
CLOCKS = {"perf_counter", "process_time", "thread_time"}


def _faults(source: str) -> list[str]:
    """What a test should not do."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            names = []
        found += [f"imports {name}" for name in names if name.startswith(("test_", "benchmarks"))]
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            found.append(f"reads {node.attr}")
        if isinstance(node, ast.Attribute) and node.attr == "spec_from_file_location":
            found.append("loads a module by its path")
        if isinstance(node, ast.Constant) and str(node.value).split(".")[-1] == SEAM:
            found.append(f"replaces {SEAM} without the seam")
    return found


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_a_test_stands_by_itself(path: Path) -> None:
    assert _faults(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from test_simulation import two_sample_p",
        "import benchmarks.accuracy",
        "assert time.perf_counter() - started < 1",
        "importlib.util.spec_from_file_location('accuracy', path)",
        f"monkeypatch.setattr('dpgap.exact.reals.{SEAM}', None)",
        f"monkeypatch.setattr(exact, '{SEAM}', None)",
    ],
)
def test_leaning_on_others_is_found(source: str) -> None:
    assert _faults(source)


def test_names_of_test_files_are_unique() -> None:
    names = [path.stem for path in TESTS if path.stem.startswith("test_")]
    assert len(set(names)) == len(names)
