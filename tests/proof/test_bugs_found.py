"""Other people's bugs, and one of ours, are found by an audit that is told nothing about them."""

import importlib.util
import random
import re
from pathlib import Path

import pytest

from dpgap.proof import audit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bugs-found.md").read_text(encoding="utf-8")
SOON = {
    "no_noise_on_answers": 10_000,
    "no_limit": 100_000,
    "noise_without_the_limit": 100_000,
    "one_draw_for_all": 10_000,
    "ties_by_index": 100_000,
    "laplace_in_floats": 10_000,
    "present_items_first": 10_000,
}


def bugs():
    """The module of examples, which is in no package."""
    spec = importlib.util.spec_from_file_location("bugs", ROOT / "examples" / "bugs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SOON)
def test_a_published_bug_is_found_untold(name):
    random.seed(1)
    result = audit(getattr(bugs(), name), epsilon=1, samples=SOON[name])
    assert result.rejected
    assert f"`{name}`" in PAGE


def test_the_value_of_the_first_above_is_found_without_a_look_at_bits():
    random.seed(2)
    name = "value_of_the_first_above"
    assert audit(getattr(bugs(), name), epsilon=1, samples=200_000, bits=False).rejected
    assert f"`{name}`" in PAGE


def test_the_right_sparse_vector_is_not_rejected():
    random.seed(3)
    assert not audit(bugs().right_sparse_vector, epsilon=1, samples=20_000).rejected


def test_opendps_threshold_shows_lone_items_more_often_than_its_delta():
    """Noise is OpenDP's own, so no seed: 500 hits are expected, and 300 have a chance of 10⁻²⁰."""
    module = bugs()
    stated = module._opendp().map(1)[1]
    lone = [([1], [0])]
    result = audit(
        module.opendp_threshold, epsilon=1, delta=stated, neighbours=lone, samples=100_000
    )
    assert 0.0049 < stated < 0.005
    assert result.rejected
    assert 0.010 < result.hits / result.runs < 0.017


def test_the_page_names_no_bug_that_is_not_there():
    named = set(re.findall(r"`(\w+)` \|", PAGE)) | set(re.findall(r"examples\.bugs:(\w+)", PAGE))
    assert len(named) >= 9
    assert all(callable(getattr(bugs(), name)) for name in named)
