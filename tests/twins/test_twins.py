"""One unit more never decides how a release is made: a few of the twins of `python -m twins`."""

from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from twins.checks import differences
from twins.mutants import MUTANTS
from twins.questions import QUESTIONS
from twins.readers import READERS

QUICK = [name for name, reader in READERS.items() if reader.cost == 1]
PER_READER = 2 * len(QUESTIONS)
PER_SERVER = 6


def _found(reader: Any, seeds: range, questions: Any) -> list[str]:
    """What differs, with what makes it again."""
    asked = islice(zip(cycle(questions), seeds, strict=False), len(seeds))
    return [
        f"{type(reader).__name__}, {question}, seed {seed}: {line}"
        for question, seed in asked
        for line in differences(reader, question, seed)
    ]


@pytest.mark.parametrize("name", QUICK)
def test_one_unit_more_changes_no_decision(name: str, tmp_path: Path) -> None:
    assert _found(READERS[name](tmp_path), range(PER_READER), QUESTIONS) == []


def test_one_unit_more_changes_no_decision_in_postgres(
    postgres: Any, database: Any, tmp_path: Path
) -> None:
    asked = ["counts", "order", "top-4", "top-all", "above", "noisy-top-k"]
    assert _found(READERS["postgres"](tmp_path, database), range(PER_SERVER), asked) == []


def test_one_unit_more_changes_no_decision_in_spark(spark: Any, tmp_path: Path) -> None:
    asked = ["counts", "counts", "top-4", "above"]
    assert _found(READERS["spark"](tmp_path, spark), range(PER_SERVER), asked) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_hole_that_is_put_back_is_found(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    with mutant.put_back():
        found = (
            line
            for seed in range(mutant.seeds)
            for line in differences(READERS[mutant.reader](tmp_path), mutant.question, seed)
        )
        assert any(mutant.says in line for line in found)
