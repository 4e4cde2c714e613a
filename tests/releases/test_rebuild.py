"""Every kind of release is a function of whole numbers, names and public parameters.

The whole numbers that left the kernel are kept. Another process, which never saw an answer, builds
the release again from them and from the parameters, and its document must be the same.
"""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dpgap
from dpgap.mechanisms.sparse_vector import Run
from dpgap.releases import document as documents
from dpgap.releases.drawn import Drawn, Measuring, Ranking, ReadOff, Values
from every_kind import RELEASES
from seams import builds_kept

IN_ANOTHER_PROCESS = """
import json, pickle, sys
for maker, arguments in pickle.load(sys.stdin.buffer):
    document = maker.build(*arguments)._to_dict()
    document.pop("made")
    print(json.dumps(document))
"""


def _in_another_process(built: list[Any]) -> list[str]:
    handed = pickle.dumps(built)
    assert b"secret" not in handed
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS], input=handed, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


def _document(release: Any) -> str:
    document = release._to_dict()
    document.pop("made")
    return json.dumps(document)


def test_another_process_builds_every_release_again_from_whole_numbers_alone():
    shown, kept = {}, []
    for name, make in RELEASES.items():
        with builds_kept() as built:
            shown[name] = _document(make())
        assert len(built) == 1, name
        kept += built
    again = dict(zip(RELEASES, _in_another_process(kept), strict=True))
    for name in RELEASES:
        assert again[name] == shown[name], name
    routes = {json.loads(text).get("route") for text in shown.values()}
    assert routes >= {None, "joint", "ranked", "paper", "histogram", "hybrid"}


def test_what_is_built_is_whole_numbers_and_names_all_the_way_down():
    for name, make in RELEASES.items():
        with builds_kept() as built:
            make()
        for drawn in np.atleast_1d(np.array(built[0][1][0], dtype=object)):
            assert list(_not_whole(drawn)) == [], name


def _not_whole(drawn: Drawn) -> Iterator[str]:
    for name in (each for kind in type(drawn).__mro__ for each in getattr(kind, "__slots__", ())):
        value = getattr(drawn, name)
        if isinstance(value, Drawn):
            yield from _not_whole(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind != "i":
                yield name
        elif name != "labels" and not (value is None or type(value) is int):
            yield name


def test_an_answer_to_one_question_is_built_from_its_branch_and_its_gap_alone():
    mechanism = dpgap.AdaptiveSparseVector(100, 3, 1000, noise="exponential", branches=3)
    seen: list[Any] = []
    build = Run.build

    def watch(run: Run, *drawn: Any) -> Any:
        seen.append(drawn)
        return build(run, *drawn)

    with mock.patch.object(Run, "build", watch), mechanism.start() as run:
        said = [run.ask(answer) for answer in (3, 250, 103, 90_000)]
    assert {type(part) for drawn in seen for part in drawn} == {int, type(None)}
    with mechanism.start() as other:
        assert [other.build(*drawn) for drawn in seen] == said


@pytest.mark.parametrize(
    "make",
    [
        lambda: Values(np.array([1.0])),
        lambda: Values([1, 2]),
        lambda: Ranking(np.array([1]), None, np.array([0.5])),
        lambda: ReadOff(np.array([1]), None, np.array([1]), 7, 0.25),
        lambda: ReadOff(np.array([1]), None, np.array([1]), 7, Fraction(1, 4)),
        lambda: Measuring(Values(np.array([1])), route=True),
        lambda: Measuring(0.5),
    ],
)
def test_a_float_beside_whole_numbers_is_refused(make: Callable[[], Any]):
    with pytest.raises(TypeError, match="must be whole numbers, not of type"):
        make()


def test_nothing_but_a_build_makes_a_release():
    """Release classes are called by `build` and what it calls, and where a document is read."""
    import ast

    names = {kind.__name__ for kind, _ in documents._KINDS.values()}
    allowed = {"build", "released", "by_group"}
    found = []
    for path in sorted(Path(dpgap.__file__).parent.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and function.name not in allowed:
                found += [
                    f"{path.stem}.{function.name}"
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id in names
                ]
    assert found == []
