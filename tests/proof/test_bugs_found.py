"""Other people's bugs, and one of ours, are found by an audit that is told nothing about them."""

import random
import re
import runpy
from pathlib import Path

import pytest

from dpgap.proof import audit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bugs-found.md").read_text(encoding="utf-8")
SOON = {
    "no_noise_on_answers": 10_000,
    "no_limit": 10_000,
    "noise_without_the_limit": 50_000,
    "one_draw_for_all": 10_000,
    "laplace_in_floats": 10_000,
    "present_items_first": 10_000,
}


BUGS = runpy.run_path(str(ROOT / "examples" / "bugs.py"))
"""The examples, which are in no package."""


@pytest.mark.parametrize("name", SOON)
def test_a_published_bug_is_found_untold(name):
    random.seed(1)
    result = audit(BUGS[name], epsilon=1, samples=SOON[name])
    assert result.rejected
    assert f"`{name}`" in PAGE


@pytest.mark.long
@pytest.mark.parametrize("name", ["ties_by_index", "value_of_the_first_above"])
def test_a_published_bug_that_takes_more_samples_is_found_untold(name):
    """One run in two finds it, so one of four runs must."""

    def is_found(seed):
        random.seed(seed)
        return audit(BUGS[name], epsilon=1, samples=1_000_000, bits=False).rejected

    assert any(is_found(seed) for seed in range(2, 6))
    assert f"`{name}`" in PAGE


def test_a_sparse_vector_that_never_stops_is_found_by_a_sum_over_forty_answers():
    """Each answer loses little; the sum over those that rise, less the others, loses all of it."""
    random.seed(4)
    right_but_for_that = {"threshold_scale": 2, "answer_scale": 4, "most_above": None}
    found = audit(lambda a: BUGS["sparse_vector"](a, **right_but_for_that), 1, samples=20_000)
    assert found.rejected
    assert "sum of output[·], places 0–19 less the others" in found.event


def test_our_coin_is_found_by_its_lowest_bit():
    random.seed(5)
    found = audit(BUGS["coin_beside_the_largest"], epsilon=1, reach=1, samples=10_000)
    assert found.rejected
    assert found.in_floats
    assert "lowest bit of output[3]" in found.event
    assert "`coin_beside_the_largest`" in PAGE


def test_the_right_sparse_vector_is_not_rejected():
    random.seed(3)
    assert not audit(BUGS["right_sparse_vector"], epsilon=1, samples=20_000).rejected


def test_opendps_threshold_shows_lone_items_more_often_than_its_delta():
    """All runs in one release, as each item has its own noise.

    That noise is OpenDP's, so there is no seed: of 20,000 lone items 268 are expected to be shown,
    with a standard deviation of 16.
    """
    release = BUGS["_opendp"]()

    def many(answers, runs):
        shown = release([str(run) for run in range(runs) for _ in range(answers[0])])
        return [str(run) in shown for run in range(runs)]

    stated = release.map(1)[1]
    lone = [([1], [0])]
    result = audit(many, 1, delta=stated, neighbours=lone, samples=100_000, batch=True)
    assert 0.0049 < stated < 0.005
    assert result.rejected
    assert 0.009 < result.hits / result.runs < 0.018


def test_the_page_names_no_bug_that_is_not_there():
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M)) | set(
        re.findall(r"examples\.bugs:(\w+)", PAGE)
    )
    assert len(named) >= 9
    assert all(callable(BUGS[name]) for name in named)
