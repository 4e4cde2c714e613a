"""Documents that somebody made up: refused in one clear message, or harmless in all they show."""

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.printable import DocumentError
from dpgap.releases.forms import exact, maybe, parts, whole
from dpgap.releases.page import page
from faces import faces

KEPT = Path(__file__).parent / "documents"
DOCUMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in KEPT.glob("*.json")}
LONG = "1" * 10**6


def _but(name: str, path: str, value: Any) -> str:
    """A kept document with one value changed."""
    content = copy.deepcopy(DOCUMENTS[name])
    *outer, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = content
    for step in outer:
        place = place[step]
    place[last] = value
    return json.dumps(content)


TEXTS = {
    "nothing": "",
    "no JSON": "{",
    "no object": "[]",
    "a number": "1",
    "another object": "{}",
    "bytes that are no text": b"\xff\xfe{}",
    "NUL": "\0",
    "deep lists": "[" * 10**6,
    "deep objects": '{"a":' * 10**6,
    "many brackets in a label": '{"labels": ' + "[" * 10**5 + "]" * 10**5 + "}",
    "a long number": f'{{"version": {LONG}}}',
    "a long fraction": f'{{"version": 1.{LONG}e5}}',
    "a number beyond floats": '{"version": 1e999}',
    "NaN": '{"version": NaN}',
    "Infinity": '{"version": -Infinity}',
    "a field twice": '{"format": "dpgap release", "format": "dpgap release"}',
    "many lists": "[" + "[]," * (1 << 22) + "[]]",
    "too long": " " * ((1 << 26) + 1),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_no_document_is_refused(text: str | bytes):
    with pytest.raises(DocumentError) as refused:
        dpgap.read_release(text)
    _require_clear(refused.value)


def _require_clear(error: DocumentError) -> None:
    assert len(str(error)) < 300
    assert str(error).isprintable()
    assert error.__suppress_context__ or error.__context__ is None


CHANGES: list[tuple[str, str, Any]] = [
    ("measured-joint", "lead", -1),
    ("measured-joint", "route", "ranked"),
    ("measured-joint", "gaps", [1.0, 2.0]),
    ("measured-joint", "method", "ranked"),
    ("measured-looked", "route", "joint"),
    ("measured-looked", "route", "paper"),
    ("measured-looked", "lead", 3.0),
    ("measured-looked", "looked.0.0", 0),
    ("measured-looked", "looked.0", [10**6, 1.0]),
    ("measured-looked", "looked.0", [1]),
    ("measured-looked", "cost.parts.0.1.epsilon", "1/2"),
    ("measured-looked", "cost.parts.0.1.rho", "1/2"),
    ("measured-looked", "cost.parts.0.0", "select"),
    ("measured-looked", "cost.parts", []),
    ("hybrid", "cost.epsilon", "2"),
    ("hybrid", "cost.rho", "1000"),
    ("hybrid", "cost.delta", "1/9"),
    ("hybrid", "promise.cost.rho", "0"),
    ("hybrid", "gaps", [1.0]),
    ("hybrid", "mechanisms", []),
    ("hybrid", "delta", "1/1000000"),
    ("hybrid-unknown", "delta", "0"),
    ("hybrid-unknown", "promise.cost.delta", "1/9"),
    ("hybrid-unknown", "promise.cost.delta", "0"),
    ("hybrid-unknown", "promise.cost.delta", "2"),
    ("max", "format", "another"),
    ("max", "version", 2),
    ("max", "version", 0),
    ("max", "version", 10**4000),
    ("max", "version", "1"),
    ("max", "version", True),
    ("max", "version", 1.0),
    ("max", "kind", "grouped"),
    ("max", "kind", "__class__"),
    ("max", "kind", ["max"]),
    ("max", "kind", None),
    ("max", "delta", "1/1000000"),
    ("max", "delta", 0),
    ("max", "grouped", []),
    ("max", "evidence", {"leads": [1.0, 2.0], "scales": ["1", "1"]}),
    ("max", "evidence", {"leads": [1.0], "scales": []}),
    ("max", "evidence", {"leads": [1.0], "scales": ["0"]}),
    ("max", "evidence", {"leads": [1.0], "scales": ["1/" + "9" * 99]}),
    ("max", "evidence", {"leads": ["1"], "scales": ["1"]}),
    ("max", "evidence", None),
    ("above-laplace", "evidence", {"leads": [], "scales": []}),
    ("above-laplace", "mechanisms.0.parameters.threshold", "many"),
    ("measured-paper", "measured_by", {"law": {"kind": "hull", "scale": "1", "dimension": 9}}),
    ("max", "\x1b[2J\u202e" * 99, 1),
    ("max", "epsilon", "1/0"),
    ("max", "epsilon", "0"),
    ("max", "epsilon", "-1"),
    ("max", "epsilon", LONG),
    ("max", "epsilon", f"1/{LONG}"),
    ("max", "epsilon", "0x" + "f" * 10**6 + "/0x1"),
    ("max", "epsilon", "1" * 5000),
    ("max", "epsilon", "1e5"),
    ("max", "epsilon", "nan"),
    ("max", "epsilon", "١"),
    ("max", "epsilon", 1),
    ("max", "epsilon", "2"),
    ("max", "promise.monotonic", 1),
    ("max", "promise.cost.delta", "0"),
    ("max", "promise.cost.epsilon", LONG),
    ("max", "promise.cost.epsilon", "-1"),
    ("max", "promise.cost.rho", LONG),
    ("max", "promise", []),
    ("max", "indices", [0, 1, 2]),
    ("max", "indices", []),
    ("max", "indices", [-2]),
    ("max", "indices", [2**70]),
    ("max", "indices", [0.0]),
    ("max", "indices", [True]),
    ("max", "indices", 0),
    ("max", "gaps", [1, 2]),
    ("max", "gaps", ["nan"]),
    ("max", "gaps", [None]),
    ("max", "gaps", [1e300]),
    ("max", "gaps", [10**400]),
    ("max", "gaps", "1"),
    ("max", "labels", []),
    ("max", "labels", ["a", "b"]),
    ("max", "labels", [{"eval": "1"}]),
    ("max", "made.time", "yesterday"),
    ("max", "made.time", "2026-13-01T00:00:00Z"),
    ("max", "made.time", "2026-11-15T20:01:02+01:00"),
    ("max", "made.time", None),
    ("max", "made.ledger", None),
    ("max", "labels", None),
    ("max", "made.ledger", {"dataset": "a", "entry": -1, "hash": ""}),
    ("max", "made.ledger", "sales"),
    ("max", "mechanisms", "NoisyMax"),
    ("max", "mechanisms.0.name", None),
    ("max", "mechanisms.0.parameters", [["k", 1]]),
    ("max", "mechanisms.0.parameters.k", {"deep": [1]}),
    ("above-laplace", "branch_of", [9, 9]),
    ("above-laplace", "branch_of", [0, 1]),
    ("above-laplace", "thresholds", ["7"]),
    ("above-laplace", "thresholds", [7, 8]),
    ("above-laplace", "thresholds", ["1" * 4000, "7"]),
    ("above-laplace", "processed", -1),
    ("above-laplace", "processed", 0),
    ("above-laplace", "spent", "2"),
    ("above-laplace", "gap_errors.branch_laws", []),
    ("above-laplace", "gap_errors.threshold", "1" * 4000),
    ("above-laplace", "gap_errors.grid", "1/3"),
    ("above-laplace", "gap_errors.grid", "0"),
    ("above-laplace", "gap_errors.threshold_law.kind", "uniform"),
    ("above-laplace", "gap_errors.threshold_law.scale", "1" * 100),
    ("above-laplace", "gap_errors.threshold_law.scale", "-1"),
    ("above-staircase", "gap_errors.threshold_law.share", "2"),
    ("above-staircase", "gap_errors.threshold_law.step", "1/" + "1" * 100),
    ("values-hull", "measured_by.law.dimension", 10**9),
    ("values-hull", "measured_by.law.dimension", 0),
    ("values-hull", "measured_by.law.kind", "exponential"),
    ("values-hull", "values", []),
    ("values-hull", "rounding", -1),
    ("measured-best", "errors", []),
    ("measured-best", "errors.0.kind", "no error"),
    ("measured-best", "centres", "__dict__"),
    ("measured-best", "method", "joint"),
    ("measured-best", "variances", [-1, -1]),
    ("measured-best", "measurements", [1.0]),
    ("measured-paper", "errors.0.terms", [[1.0, 1]] * 9),
    ("measured-paper", "errors.0.terms", [[1.0]]),
    ("measured-paper", "errors.0.terms", [[-1.0, 1]]),
    ("measured-paper", "errors.0.terms", [[1.0, 10**30]]),
    ("table-top-k", "question", None),
    ("table-top-k", "question.k", -1),
    ("table-top-k", "question.k", 2.5),
    ("table-top-k", "question.kind", "above"),
    ("table-top-k", "question.neighbours", "swap"),
    ("table-top-k", "question.method", "paper"),
    ("table-top-k", "question.split", "1"),
    ("table-top-k", "question.epsilon", "1"),
    ("table-top-k", "question.domain", ["fig"]),
    ("table-top-k", "question.route", "joint"),
    ("table-top-k", "labels", None),
]


@pytest.mark.parametrize(
    ("name", "path", "value"), CHANGES, ids=lambda value: ascii(value)[:30] if value else "none"
)
def test_a_document_with_one_thing_wrong_is_refused(name: str, path: str, value: Any):
    with pytest.raises(DocumentError) as refused:
        dpgap.read_release(_but(name, path, value))
    _require_clear(refused.value)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_that_lacks_a_field_is_refused(name: str):
    not_needed = {"guarantee", "interval", "items", "private", "labels"}
    not_needed |= {"findings", "evidence", "thresholds"}
    if DOCUMENTS[name]["kind"] == "measured":
        not_needed |= {"measured_by"}
    if DOCUMENTS[name]["kind"] in ("measured", "values"):
        not_needed |= {"question"}  # without it, the release is that of an array
    for field in DOCUMENTS[name].keys() - not_needed:
        content = {key: value for key, value in DOCUMENTS[name].items() if key != field}
        with pytest.raises(DocumentError):
            dpgap.read_release(json.dumps(content))


def test_a_later_version_asks_for_a_newer_dpgap():
    with pytest.raises(ValueError, match=r"a later version than 1.* a newer dpgap is needed"):
        dpgap.read_release(_but("max", "version", 2))
    with pytest.raises(ValueError, match="field that is not known here, 'route': a later version"):
        dpgap.read_release(_but("max", "route", "joint"))


def test_a_field_that_is_added_is_left_out_where_it_has_its_default():
    """So an older reader, which does not know it, reads all that does without it."""
    older = parts({"k": whole(1)})
    newer = parts(
        {"k": whole(1), "delta": maybe(exact(lambda value: value >= 0, "δ"), Fraction(0))}
    )
    without, using = {"k": 2, "delta": Fraction(0)}, {"k": 2, "delta": Fraction(1, 9)}
    assert newer.write(without) == {"k": 2}
    assert older.read(newer.write(without), "it") == {"k": 2}
    assert newer.read(older.write({"k": 2}), "it") == without
    assert newer.read(newer.write(using), "it") == using
    with pytest.raises(DocumentError, match="not known here, 'delta'"):
        older.read(newer.write(using), "it")


def test_many_different_errors_are_refused_before_any_is_worked_out():
    content = copy.deepcopy(DOCUMENTS["measured-above-paper"])
    error, count = content["errors"][0], 2000
    for column in ("indices", "gaps", "measurements", "estimates", "variances"):
        content[column] = [1] * count
    content["errors"] = [error | {"floored": float(place)} for place in range(count)]
    with pytest.raises(DocumentError, match="errors contradict each other"):
        dpgap.read_release(json.dumps(content))


def test_what_is_shown_beside_a_document_is_never_believed():
    lies = {"guarantee": "ε = 0", "items": [], "private": True, "epsilon_spent": 0}
    lies |= {"findings": ["All of it is sure."]}
    text = json.dumps(DOCUMENTS["table-observed"] | lies)
    release = dpgap.read_release(text)
    assert "NOT differentially private" in str(release)
    honest = dpgap.read_release(json.dumps(DOCUMENTS["table-observed"]))
    assert faces(release) == faces(honest)
    assert "All of it" not in release.to_json()


HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e=1+1"
NAMED = ["unit", "item", "domain", "domain_digest", "table", "identity"]


@pytest.mark.parametrize("field", NAMED)
def test_names_with_scripts_and_control_characters_harm_nothing(field: str):
    _require_harmless(_but("table-top-k", f"question.{field}", HOSTILE))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("table-top-k", "labels.0"),
        ("table-top-k", "made.dpgap"),
        ("table-top-k", "made.ledger.dataset"),
        ("table-top-k", "made.ledger.hash"),
        ("max", "mechanisms.0.name"),
        ("max", "mechanisms.0.parameters.noise"),
        ("top-k", "labels.1"),
    ],
)
def test_other_texts_harm_nothing_either(name: str, path: str):
    _require_harmless(_but(name, path, HOSTILE))


def _require_harmless(text: str) -> None:
    shown = faces(dpgap.read_release(text))
    for face in ("table", "page", "csv", "on a terminal", "document", "in a notebook"):
        assert "".join(shown[face].splitlines()).isprintable(), face
    assert "<script" not in shown["page"] + shown["in a notebook"]
    assert shown["document"].isascii()


HALVES = [
    *(("table-top-k", "labels.0"), ("table-top-k", "question.unit"), ("table-top-k", "guarantee")),
    ("table-top-k", "mechanisms.0.parameters.noise"),
]


@pytest.mark.parametrize(("name", "path"), HALVES)
def test_half_a_surrogate_is_refused(name: str, path: str):
    text = _but(name, path, "fig\ud800")
    whole = _but(name, path, "fig\U0001f350")
    for half in (text, text.encode(), text.replace("\\ud800", "\udfff")):
        with pytest.raises(DocumentError, match="half a character") as refused:
            dpgap.read_release(half)
        _require_clear(refused.value)
    assert dpgap.read_release(whole)


def test_half_a_surrogate_in_a_label_is_spelt_out_and_costs_no_release():
    labels = ["fig\ud800", "pea"]
    release = dpgap.NoisyTopK(k=1, epsilon=1000).release([50, 10], labels=labels)
    assert r"fig\ud800" in page(release)
    assert r"fig\ud800" in release.to_csv()
    assert dpgap.read_release(release.to_json()).labels == (r"fig\ud800",)


def test_half_a_surrogate_in_a_domain_costs_no_release():
    sold = pandas.DataFrame({"who": ["ann"] * 9, "what": ["pea"] * 9})
    domain = ["\ud800", "\ud801", "\ud802"]
    release = dpgap.top_k(sold, unit="who", item="what", domain=domain, k=2, epsilon=1)
    again = dpgap.read_release(release.to_json())
    assert set(again.labels) <= {r"\ud800", r"\ud801", r"\ud802"}
    assert again.to_frame()["item"].tolist() == list(again.labels)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["1/3", "-1", "0", "1/1000000000000", "9" * 30, 1e-320, 1e99, 5e-324]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.data())
def test_a_document_changed_anywhere_is_refused_or_shown_whole(data: st.DataObject):
    content = copy.deepcopy(DOCUMENTS[data.draw(st.sampled_from(sorted(DOCUMENTS)))])
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = content
        while True:
            inside = list(place if isinstance(place, dict) else range(len(place)))
            if not inside:
                break
            step = data.draw(st.sampled_from(inside))
            if not isinstance(place[step], dict | list) or data.draw(st.integers(0, 4)) == 0:
                place[step] = data.draw(json_values)
                break
            place = place[step]
    try:
        release = dpgap.read_release(json.dumps(content))
    except DocumentError as error:
        _require_clear(error)
    else:
        again = dpgap.read_release(release.to_json())
        assert faces(again) == faces(release)
