"""The names of a release are few, and code asks what a release does, hardly ever what it is."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import dpgap
from dpgap.releases.detail import Detail
from every_kind import RELEASES

SOURCE = Path(dpgap.__file__).parent
EVERY = {
    *(
        "question",
        "guarantee",
        "cost",
        "findings",
        "epsilon",
        "spent",
        "remaining",
        "made",
        "detail",
    ),
    *("to_frame", "to_csv", "to_json", "to_html", "plot"),
}
ITEMS = {"labels", "indices", "gaps", "lead", "p_values", "set_p_value"}
NAMES = {
    "MeasuredItems": {
        *EVERY,
        *ITEMS,
        *("estimates", "measurements", "variances", "interval", "difference", "groups", "shares"),
    },
    "SelectedItems": {*EVERY, *ITEMS, "index", "label", "gap", "gap_between", "p_value"},
    "ItemsAbove": {*EVERY, *ITEMS, "branch_of", "processed", "lower_bounds"},
    "MeasuredValues": {*EVERY, "values", "estimate", "variance", "interval"},
    "ReleasesByGroup": {*EVERY, "keys", "values", "items", "get"},
}


@pytest.mark.parametrize("kind", RELEASES)
def test_a_release_has_these_public_names_and_no_others(kind: str) -> None:
    release = RELEASES[kind]()
    names = {name for name in dir(release) if not name.startswith("_")}
    assert names == NAMES[type(release).__name__]
    assert len(names) <= 27


def test_every_kind_of_release_is_among_these() -> None:
    assert {type(make()).__name__ for make in RELEASES.values()} == set(NAMES)


def test_details_are_few_and_read_by_nothing_outside_this_room() -> None:
    assert len(fields(Detail)) <= 15
    readers = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"(?<!releases)\.detail\b", line) and path.parent.name != "releases"
    ]
    assert readers == []


ASKED_WHICH = [
    "findings.py: if isinstance(release, MeasuredItems) and error is not None:",
    "findings.py: if not isinstance(release, MeasuredItems) or not len(release):",
    "page.py: if isinstance(release, ReleasesByGroup):",
    "page.py: if isinstance(release, SelectedItems) and release._is_set:",
    "page.py: if is_alone or not isinstance(release, Items):",
    "page.py: if not isinstance(release, Items):",
    "text.py: if isinstance(release, ReleasesByGroup):",
]


def test_code_asks_for_the_class_of_a_release_in_these_places_alone() -> None:
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if "isinstance(release, " in line
    ]
    assert sorted(found) == sorted(ASKED_WHICH)


def test_no_name_of_a_sequence_hides_what_a_release_says() -> None:
    largest: Any = dpgap.NoisyMax(1000).release([3, 900, 2], labels=["fig", "pea", "oat"])
    assert (largest.index, largest.label, len(largest)) == (1, "pea", 1)
    assert not hasattr(largest, "count")
