"""One unit more never decides how a release is made: a few of the twins of `python -m twins`."""

import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest

from twins.checks import Verdict, compare, examine
from twins.mutants import MUTANTS, parallel
from twins.neighbours import Raw, bulk, make_twins
from twins.odd_lines import rows_in_a_field
from twins.questions import BOUNDED, PLAIN
from twins.readers import READERS

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
]

QUICK = [name for name, reader in READERS.items() if reader.cost == 1]
PER_READER = len(PLAIN)
PER_SERVER = 4
"""How many are asked here. `make twins` asks all of them, many times."""
TRIES = 60


def _found(reader: Any, seeds: range, questions: Any) -> list[str]:
    """What differs, with what makes it again; and whether many were refused: that shows little."""
    found, refused = [], 0
    for seed, question in zip(seeds, cycle(questions), strict=False):
        verdict = examine(reader, question, seed)
        refused += verdict.refused
        named = f"{type(reader).__name__}, {question}, seed {seed}: "
        found += [named + line for line in verdict.differences]
    return found if 3 * refused < len(seeds) else [*found, f"{refused} are refused"]


@pytest.mark.parametrize("name", QUICK)
def test_one_unit_more_changes_no_decision(name: str, tmp_path: Path) -> None:
    """Every fourth question of each reader; each is asked of a quarter of them."""
    first = QUICK.index(name) % 4
    seeds, asked = range(first, PER_READER, 4), list(PLAIN)[first::4]
    assert _found(READERS[name](tmp_path), seeds, asked) == []


@pytest.mark.parametrize("name", QUICK)
def test_one_unit_more_moves_bounded_answers_no_further_than_they_say(
    name: str, tmp_path: Path
) -> None:
    reader = READERS[name](tmp_path)
    able = [each for each, question in BOUNDED.items() if question.columns <= reader.columns]
    asked = able[QUICK.index(name) % 8 :: 8]
    assert _found(reader, range(len(asked)), asked) == []


def test_one_unit_more_changes_no_decision_in_postgres(
    postgres: Any, database: Any, tmp_path: Path
) -> None:
    seeds, asked = range(0, PER_READER, 3), list(PLAIN)[::3]
    assert _found(READERS["postgres"](tmp_path, database), seeds, asked) == []


def test_bounds_hold_in_postgres(postgres: Any, database: Any, tmp_path: Path) -> None:
    asked = list(BOUNDED)[::8]
    assert _found(READERS["postgres"](tmp_path, database), range(len(asked)), asked) == []


def test_one_unit_more_changes_no_decision_in_spark(spark: Any, tmp_path: Path) -> None:
    asked = ["counts", "top-4", "counts", "above"]
    assert _found(READERS["spark"](tmp_path, spark), range(PER_SERVER), asked) == []


def test_bounds_hold_in_spark(spark: Any, tmp_path: Path) -> None:
    asked = list(BOUNDED)[:: len(BOUNDED) // 2]
    assert _found(READERS["spark"](tmp_path, spark), range(len(asked)), asked) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_hole_that_is_put_back_is_found(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    reader = READERS[mutant.reader](tmp_path)
    with mutant.put_back():
        found = (
            line
            for seed in range(mutant.seed, mutant.seed + TRIES)
            for line in examine(reader, mutant.question, seed).differences
        )
        assert any(re.search(mutant.says, line) for line in found)


def _with_rows_in_a_field(tmp_path: Path) -> Verdict:
    """What is found in a large file where one field looks like many rows."""
    twins = make_twins(Random(1), [("text", "text")], ["list"])
    rows, more = twins.rows + bulk("text"), [Raw(rows_in_a_field("fig"))]
    large = replace(twins, rows=rows, more=more, place=0.835, by_row=False, look=3)
    return compare(READERS["csv"](tmp_path), "counts", large)


def test_rows_in_a_field_of_a_large_file_change_nothing(tmp_path: Path) -> None:
    assert _with_rows_in_a_field(tmp_path) == Verdict([], refused=False)


def test_reading_a_file_in_parts_is_found(tmp_path: Path) -> None:
    with parallel():
        assert _with_rows_in_a_field(tmp_path).differences
