"""Nothing changes unnoticed: a part of `python -m golden`, and small changes that it must see."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import dpgap
from golden.__main__ import ROOT, made_in
from golden.record import committed, diff, differences, hashes, take

pytestmark = pytest.mark.xdist_group("golden")  # all of dpgap is loaded once

CASES = ("kinds/laplace", "plan/epsilon", "names/Session")
NOT_QUICK = ("fastapi", "pyspark", "starlette")
"""Libraries that no quick case loads, so that another version excuses no difference."""


def _require_as_recorded(made: dict[str, Any]) -> None:
    """Nothing differs from the record; with other versions of libraries something may."""
    before, every = committed()
    other = [each for each in every if not each.startswith(NOT_QUICK)]
    found = list(differences(made, before))
    if found and other:
        pytest.skip(f"made with {'; '.join(other)}: see python -m golden --against HEAD")
    assert found == []


def test_what_can_be_made_in_seconds_is_as_it_was_recorded() -> None:
    _require_as_recorded(made_in(ROOT, quick=True))


def test_cases_are_the_same_in_this_process() -> None:
    values = {name: take(name) for name in CASES}
    _require_as_recorded({"names": list(committed()[0]), "values": values})


def _change_a_word(patch: pytest.MonkeyPatch) -> None:
    said = dpgap.Plan.guarantee.fget
    patch.setattr(dpgap.Plan, "guarantee", property(lambda plan: f"{said(plan)} "))


def _change_an_integer(patch: pytest.MonkeyPatch) -> None:
    release = dpgap.Laplace.release

    def other(self: Any, answers: Any, **options: Any) -> Any:
        answers = answers.copy()
        answers[-1] += 1 / 16
        return release(self, answers, **options)

    patch.setattr(dpgap.Laplace, "release", other)


def _change_a_float(patch: pytest.MonkeyPatch) -> None:
    release = dpgap.Laplace.release

    def other(*given: Any, **options: Any) -> Any:
        made = release(*given, **options)
        return dataclasses.replace(made, values=made.values * (1 + 1e-10))

    patch.setattr(dpgap.Laplace, "release", other)


def _change_a_signature(patch: pytest.MonkeyPatch) -> None:
    count = dpgap.Session.count

    def other(self: Any, *, epsilon: Any = 1, where: str | None = None) -> Any:
        return count(self, epsilon=epsilon, where=where)

    other.__doc__ = count.__doc__
    patch.setattr(dpgap.Session, "count", other)


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (_change_a_word, "plan/epsilon: words"),
        (_change_an_integer, "kinds/laplace: integers, document, rows, page, words"),
        (_change_a_float, "kinds/laplace: document, rows, words"),
        (_change_a_signature, "names/Session: signature"),
    ],
)
def test_a_small_change_is_noticed(
    change: Any, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: take(name) for name in CASES}
    change(monkeypatch)
    made = {"names": list(CASES), "values": {name: take(name) for name in CASES}}
    assert list(differences(made, hashes(before))) == [noticed]
    assert any(line.startswith("+") for line in diff(before, made["values"]))


def test_a_case_that_is_gone_or_new_is_noticed() -> None:
    made = {"names": ["new"], "values": {"new": {"words": "fig"}}}
    assert list(differences(made, {"old": {}})) == ["new: is new", "old: is gone"]


def test_the_record_is_small_and_has_a_line_for_each_case() -> None:
    text = (Path(__file__).parent / "record.json").read_text("utf-8")
    assert len(text.encode()) < 150_000
    assert text.count("\n") == len(json.loads(text)) + 2
