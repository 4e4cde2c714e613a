"""A release document gives the same release again, byte for byte, for every kind and for ever."""

import html
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.releases import document as documents
from dpgap.releases.detail import Provenance
from dpgap.releases.release import MeasuredItems, Release
from faces import arrays, faces

KEPT = Path(__file__).parent / "documents"
MANY = settings(max_examples=15)

epsilons = st.fractions(min_value=Fraction(1, 100), max_value=1000)
answers = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=8)
noises = st.sampled_from(["laplace", "exponential", "staircase"])
grids = st.sampled_from([None, Fraction(1, 8), Fraction(4)])
facts = st.fixed_dictionaries(
    {
        "monotonic": st.booleans(),
        "sensitivity": st.fractions(min_value=Fraction(1, 3), max_value=9),
        "grid": grids,
    }
)
labels = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()


def _whole_grid(given_facts: dict[str, Any], values: list[int]) -> Any:
    """Answers that fit: whole numbers without a grid, and floats with one."""
    return values if given_facts["grid"] is None else np.array(values) / 7


def _require_same(release: Release) -> Release:
    again = dpgap.read_release(release.to_json())
    assert faces(again) == faces(release)
    assert arrays(again) == arrays(release)
    assert (again.made, again.detail.promise) == (release.made, release.detail.promise)
    assert again.detail.mechanisms == release.detail.mechanisms
    return again


@MANY
@given(data=st.data(), values=answers, epsilon=epsilons, noise=noises, options=facts)
def test_a_top_k_and_a_max_come_back(data, values, epsilon, noise, options):
    k = data.draw(st.integers(1, len(values)))
    names = data.draw(st.none() | st.lists(labels, min_size=len(values), max_size=len(values)))
    options |= {"noise": noise}
    top = dpgap.NoisyTopK(k, epsilon, **options)
    largest = dpgap.NoisyMax(epsilon, **options)
    made = [each.release(_whole_grid(options, values), labels=names) for each in (top, largest)]
    for release in made:
        again = _require_same(release)
        assert repr(again.labels) == repr(release.labels)


@MANY
@given(data=st.data(), values=answers, epsilon=epsilons, noise=noises, options=facts)
def test_what_a_sparse_vector_found_comes_back(data, values, epsilon, noise, options):
    threshold, k = data.draw(st.fractions(-100, 100)), data.draw(st.integers(1, 5))
    options |= {"noise": noise}
    plain = dpgap.SparseVector(threshold, k, epsilon, **options)
    adaptive = dpgap.AdaptiveSparseVector(threshold, k, epsilon, **options)
    for mechanism in (plain, adaptive):
        _require_same(mechanism.release(_whole_grid(options, values)))


@MANY
@given(data=st.data(), values=answers, epsilon=epsilons, options=facts)
def test_what_a_hybrid_top_k_found_comes_back(data, values, epsilon, options):
    threshold, k = data.draw(st.fractions(-100, 100)), data.draw(st.integers(1, 12))
    release = dpgap.HybridTopK(threshold, k, epsilon, **options).release(
        _whole_grid(options, values)
    )
    assert _require_same(release).spent == release.spent


@MANY
@given(values=answers, epsilon=epsilons, options=facts)
def test_measured_values_come_back(values, epsilon, options):
    monotonic = options.pop("monotonic")
    kinds = [dpgap.Laplace(epsilon, **options), dpgap.Cube(epsilon, **options)]
    kinds.append(dpgap.NoisyHistogram(epsilon, reach=3, **options))
    if monotonic:
        kinds.append(dpgap.CountHull(epsilon, monotonic=True, **options))
    for mechanism in kinds:
        _require_same(mechanism.release(_whole_grid(options, values)))


@MANY
@given(data=st.data(), values=answers, epsilon=epsilons, options=facts)
def test_selected_and_measured_answers_come_back(data, values, epsilon, options):
    k = data.draw(st.integers(1, len(values)))
    private = _whole_grid(options, values)
    for method in ("best", "paper"):
        options |= {"method": method, "split": data.draw(st.sampled_from(["1/2", "1/3"]))}
        _require_same(dpgap.measured_top_k(private, k, epsilon, **options))
        for adaptive in (True, False):
            found = dpgap.measured_above(private, 100, k, epsilon, adaptive=adaptive, **options)
            _require_same(found)


@settings(max_examples=10)
@given(
    names=st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=3, unique=True),
    epsilon=epsilons,
    neighbours=st.sampled_from(["add-or-remove", "replace"]),
    method=st.sampled_from(["best", "paper"]),
)
def test_questions_of_a_table_come_back(names, epsilon, neighbours, method):
    items = [name for place, name in enumerate(names) for _ in range(40 - place)]
    sold = pandas.DataFrame({"who": range(len(items)), "what": items})
    asked = {"unit": "who", "item": "what", "domain": names, "k": 2, "epsilon": epsilon}
    asked |= {"neighbours": neighbours, "method": method}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # names may look odd
        _require_same(dpgap.top_k(sold, **asked))
        _require_same(dpgap.above(sold, threshold=20, **asked))
        _require_same(dpgap.above(sold, threshold=10**6, adaptive=False, **asked))


def test_the_entry_of_a_ledger_the_table_and_the_identity_come_back():
    release = _table_release()
    where = "/secret/place/sales.csv"
    question = replace(release.question, table="sales.csv", address=where, digest="ab" * 32)
    release = _with(release, question=question)
    paid = release._paid_by({"dataset": "sales", "entry": 7, "hash": "cd" * 32})
    again = _require_same(paid)
    assert "/secret" not in paid.to_json()
    assert again.question.identity == question.identity is not None
    line = f"sales.csv, {paid.made.time[:10]} {paid.made.time[11:16]} UTC, "
    line += f"dpgap {dpgap.__version__}, entry 7 of data set 'sales'"
    assert line in " ".join(faces(again)["on a terminal"].split())
    assert line in html.unescape(faces(again)["page"])


def _table_release() -> MeasuredItems:
    sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    return dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea"], k=2, epsilon=1)


def _with(release: Any, **changes: Any) -> Any:

    return replace(release, **changes)


def test_a_release_shows_when_it_was_made_and_not_when_it_is_shown(monkeypatch):
    release = _table_release()
    before = faces(release)
    monkeypatch.setattr(Provenance, "now", classmethod(lambda cls: cls("1999", "9")))
    assert faces(release) == before
    assert faces(dpgap.read_release(release.to_json())) == before


def test_bytes_and_a_byte_order_mark_are_read_as_well():
    release = dpgap.NoisyMax(1).release([1, 2], labels=["π", "fig"])
    text = release.to_json()
    for written in (text.encode(), b"\xef\xbb\xbf" + text.encode(), "\ufeff" + text):
        assert dpgap.read_release(written).to_json() == text
    with pytest.raises(TypeError, match="str or bytes, not dict"):
        dpgap.read_release(release._to_dict())


@pytest.mark.parametrize("grid", [None, Fraction(1, 2**96), Fraction(2**100)])
@pytest.mark.parametrize("epsilon", ["1e-9", 1, 10**6, 10**17])
def test_whatever_parameters_dpgap_accepts_come_back(grid: Fraction | None, epsilon: Any):
    step = grid or Fraction(1)
    private = np.array([2**55, -(2**55), 700, 1, 0])
    private = private if grid is None else private * float(grid)
    options = {"grid": grid, "sensitivity": step}
    for noise in ("laplace", "exponential", "staircase"):
        own = options | {"noise": noise}
        _require_same(dpgap.NoisyTopK(5, epsilon, **own).release(private))
        adaptive = dpgap.AdaptiveSparseVector(100 * step, 3, epsilon, branches=4, **own)
        _require_same(adaptive.release(private))
    for method in ("best", "paper"):
        own = options | {"method": method}
        _require_same(dpgap.measured_top_k(private, 5, epsilon, **own))
        _require_same(dpgap.measured_above(private, 100 * step, 3, epsilon, **own))


def test_an_epsilon_with_more_digits_than_python_writes_comes_back():
    epsilon = Fraction(10**6000 + 1, 10**6000)
    again = _require_same(dpgap.measured_top_k([10, 20, 30], 2, epsilon, split="1/3"))
    assert again.epsilon == epsilon


@pytest.mark.parametrize("name", sorted(path.stem for path in KEPT.glob("*.json")))
def test_documents_of_every_version_are_read_for_ever(name: str):
    text = (KEPT / f"{name}.json").read_text(encoding="utf-8")
    table, _, numbers = (KEPT / f"{name}.txt").read_text(encoding="utf-8").rpartition("\n\n")
    again = dpgap.read_release(text)
    assert str(again) == table
    expected = json.loads(numbers)
    assert expected["class"] == type(again).__name__
    for level, bounds in expected.get("intervals", {}).items():
        expected_ends = np.reshape(bounds, (-1, 2))
        assert np.allclose(again.interval(float(level)), expected_ends, rtol=1e-9, atol=1e-9)
    for level, bounds in expected.get("bounds", {}).items():
        assert np.allclose(again.lower_bounds(float(level)), bounds, rtol=1e-9, atol=1e-9)
    assert json.loads(again.to_json()).keys() >= json.loads(text).keys()


def test_a_document_of_every_kind_law_and_error_is_kept():
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in KEPT.glob("*.json")]
    assert {each["kind"] for each in kept if each["version"] == 1} >= set(documents._KINDS)
    said = json.dumps(kept)
    for kind in ("laplace", "exponential", "staircase", "hull", "cube", "geometric"):
        assert f'"kind": "{kind}", "scale"' in said
    for error in ('"measurement", "law"', '"laplace sum", "terms"', '"histogram", "law"'):
        assert f'"kind": {error}' in said
    tags = ("float", "date", "datetime", "time", "microseconds", "decimal", "fraction")
    for tag in (*tags, "bytes", "uuid", "datetime64", "tuple"):
        assert f'{{"{tag}": ' in said


def test_a_release_of_a_class_that_is_no_kind_is_not_written():
    class Own(type(_table_release())):
        pass

    release = Own(**{name: getattr(_table_release(), name) for name in _slots(Own)})
    with pytest.raises(TypeError, match="Own"):
        release.to_json()


def _slots(kind: type) -> list[str]:
    return [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]


RENDER: dict[str, Callable[[], Release]] = {
    "top-k": lambda: dpgap.NoisyTopK(1, 1).release([1, 2]),
    "values": lambda: dpgap.Laplace(1).release([1, 2]),
}


@pytest.mark.parametrize("kind", RENDER)
def test_a_release_of_an_array_has_a_page_and_a_file_of_rows(kind: str):
    release = RENDER[kind]()
    shown = faces(release)
    assert "<h1>" in shown["page"]
    assert release.made.words() in shown["page"]
    assert release.detail.mechanisms[0].name in shown["page"]
    head, row, *_ = shown["csv"].splitlines()
    assert head.endswith(",question,epsilon,time")
    assert row.endswith(f",{release.detail.mechanisms[0].name},1,{release.made.time}")
