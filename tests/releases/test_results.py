"""Results: they print well, tabulate, and explain their guarantee."""

import builtins
import copy
import decimal
import json
import math
import pickle
import re
from dataclasses import fields, is_dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas
import pytest

import dpgap
from dpgap.budget.cost import Cost
from dpgap.exact.parameters import factor
from dpgap.question import Neighbours
from dpgap.releases.detail import Promise

ANSWERS = [900, 50, 800, 3]
HOSTILE = ["<script>alert(1)</script>", "\x1b[31mred", "a\u202eb", "=cmd()"]

RELEASES = {
    "top": lambda labels: dpgap.NoisyTopK(2, 10, monotonic=True).release(ANSWERS, labels=labels),
    "joint": lambda labels: dpgap.JointTopK(2, 10, monotonic=True).release(ANSWERS, labels=labels),
    "hybrid": lambda labels: dpgap.HybridTopK(100, 3, 10, monotonic=True).release(
        ANSWERS, labels=labels
    ),
    "max": lambda labels: dpgap.NoisyMax(10, monotonic=True).release(ANSWERS, labels=labels),
    "above": lambda labels: dpgap.SparseVector(100, 2, 10, monotonic=True).release(
        ANSWERS, labels=labels
    ),
    "measured": lambda labels: dpgap.measured_top_k(ANSWERS, 2, 10, monotonic=True, labels=labels),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_prints_its_guarantee_in_plain_words(kind: str):
    release = RELEASES[kind](None)
    text = str(release)
    assert "ε = 10 and no δ" in text
    assert "one person" in text
    assert release.guarantee in text
    assert any("item" in line for line in text.splitlines())


@pytest.mark.parametrize(
    "epsilon",
    [
        "700",
        "699",
        "50",
        "20",
        "5",
        "1",
        "0.7",
        "0.6931",
        "0.5",
        "1/3",
        "0.1",
        "0.04",
        "0.01",
        "0.004",
        "0.001",
        "1e-6",
        "9.99e-7",
        "1e-9",
        "1e-320",
        Fraction(1, 10**6000),
    ],
)
def test_the_factor_of_a_guarantee_is_never_too_small_and_a_little_too_large_at_most(epsilon):
    epsilon = Fraction(epsilon)
    text = factor(epsilon)
    if text.startswith("e^"):
        assert (text, epsilon) == ("e^700", 700)
        return
    found = re.fullmatch("(1 [+] )?(?:([0-9.]+)·?)?(?:10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", text)
    power = int((found[3] or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    said = Fraction(found[2] or 1) * Fraction(10) ** power - (0 if found[1] else 1)
    with localcontext(prec=60) as exact:
        exact.Emin = -(10**9)
        true = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        more = Fraction(true.exp() - 1 if epsilon > Fraction(1, 10**9) else true + true * true / 2)
    assert more <= said <= more * Fraction(12, 10)


def test_no_guarantee_speaks_of_gaps_that_there_are_not():
    joint = dpgap.JointTopK(2, 1).release([5, 3, 1])
    assert "gaps" not in joint.guarantee


@pytest.mark.parametrize("kind", RELEASES)
def test_hostile_labels_are_harmless_in_text_and_html(kind: str):
    release = RELEASES[kind](HOSTILE)
    assert "\x1b" not in str(release)
    assert "\u202e" not in str(release)
    assert "<script>" not in release._repr_html_()
    assert "<table>" in release._repr_html_()


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_becomes_a_data_frame(kind: str):
    frame = RELEASES[kind](["a", "b", "c", "d"]).to_frame()
    assert len(frame) >= 1
    assert set(frame["item"]) <= set("abcd")


def test_without_a_data_frame_library_the_error_says_what_to_install(monkeypatch):
    release = RELEASES["top"](None)

    def missing(name: str):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        release.to_frame()


def test_measured_values_print_too():
    release = dpgap.Laplace(1000).release([5, 7])
    assert "estimate" in str(release)
    assert release.interval(0.95).shape == (2, 2)


def test_ends_of_intervals_are_rounded_outwards_in_every_table():
    measured = dpgap.Cube(1, grid="1/8").release([1.5, -7.25, 30])
    sold = pandas.DataFrame({"what": list("ab") * 50})
    best = dpgap.top_k(sold, unit="row", item="what", domain=["a", "b"], k=2, epsilon=1)
    shares = best.shares(dpgap.count(sold, unit="row", epsilon=1), 0.9)
    for table, scale in ((measured, 1), (shares, 100)):
        cells = table._cells()
        for name, values in table._columns().items():
            for value, cell in zip(values, cells[table._headings.get(name, name)], strict=True):
                if name.endswith(("low", "high")) and math.isfinite(value):
                    shown = float(cell.rstrip("%").replace(",", ""))
                    less = 1e-9 if name.endswith("low") else -1e-9
                    assert (shown - value * scale < less) == name.endswith("low")


def test_importing_is_light():
    import subprocess
    import sys

    script = (
        "import sys, dpgap;"
        "print([n for n in ('scipy', 'pandas', 'duckdb', 'sqlalchemy', 'z3', 'matplotlib',"
        " 'narwhals', 'rich', 'typer', 'jinja2') if n in sys.modules]);"
        "str(dpgap.measured_top_k([9000, 20, 5], 1, 50).to_json()); print('jinja2' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert shown.stdout.split() == [b"[]", b"False"]


def test_releases_show_nothing_private(monkeypatch):
    secret = 987654
    printed = []
    monkeypatch.setattr(builtins, "print", lambda *words, **_: printed.append(words))
    mechanisms = [dpgap.NoisyTopK(1, 1), dpgap.SparseVector(0, 1, 1), dpgap.Laplace(1)]
    for mechanism in mechanisms:
        release = mechanism.release(np.array([secret * 10**6, 3]))
        assert str(secret * 10**6) not in f"{mechanism!r}"
        assert release.detail.promise is not None
    run = dpgap.SparseVector(0, 1, 1).start()
    run.ask(-secret)
    assert str(secret) not in repr(run)
    assert printed == []


@pytest.mark.parametrize("kind", RELEASES)
def test_released_arrays_are_no_views_of_anything_larger(kind: str):
    release = RELEASES[kind](None)
    arrays = [value for value in _values(release) if isinstance(value, np.ndarray)]
    assert arrays
    assert all(_owned(array) for array in arrays)


def _values(release) -> list:
    names = [name for kind in type(release).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(release, name) for name in names]


def _owned(array: np.ndarray) -> bool:
    return array.base is None or array.base.size == array.size


def test_the_callers_numeric_settings_cannot_turn_a_release_into_an_error():
    answers = np.zeros(2_000, dtype=np.int64)
    answers[:2] = 10**5
    with np.errstate(all="raise"):
        for mechanism in (dpgap.NoisyTopK(2, 1), dpgap.AdaptiveSparseVector(9, 1, 1)):
            assert mechanism.release(answers).indices.size >= 1
        assert dpgap.measured_top_k(answers, 2, 1).estimates.size == 2


@pytest.mark.parametrize("epsilon", ["1e-6", 1, 1000, 10**6, 10**15])
@pytest.mark.parametrize("monotonic", [True, False])
def test_the_callers_numeric_settings_cannot_break_what_was_paid_for(epsilon, monotonic: bool):
    answers = np.array([1000, 500, 300, 20, 5, 0])
    with np.errstate(all="raise"):
        for k in (1, 3, 6):
            for method in ("best", "paper"):
                facts = {"monotonic": monotonic, "method": method}
                top = dpgap.measured_top_k(answers, k, epsilon, **facts)
                above = dpgap.measured_above(answers, 100, k, epsilon, adaptive=True, **facts)
                assert "95% low" in str(top)
                assert ("95% low" in str(above)) == (above.indices.size > 0)
        for measurement in (dpgap.Cube(epsilon), dpgap.CountHull(epsilon, monotonic=True)):
            measured = measurement.release(answers)
            assert measured.variance >= 0
            assert "low" in str(measured)


@pytest.mark.parametrize("epsilon", [1, 30, 1000, 10**6, 10**12])
@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("method", ["best", "paper"])
def test_variances_are_never_negative_where_everybody_wins(epsilon, monotonic: bool, method: str):
    release = dpgap.measured_top_k(
        [900, 500, 20, 3], 4, epsilon, monotonic=monotonic, method=method
    )
    assert (release.variances >= 0).all()


SOLD = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
TABLE = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"], "k": 2, "epsilon": 100}
KEPT = {
    **{kind: lambda kind=kind: RELEASES[kind](["a", "b", "c", "d"]) for kind in RELEASES},
    "Laplace": lambda: dpgap.Laplace(1).release(ANSWERS),
    "Cube": lambda: dpgap.Cube(1).release(ANSWERS),
    "CountHull": lambda: dpgap.CountHull(1, monotonic=True).release(ANSWERS),
    "measured by the paper": lambda: dpgap.measured_top_k(ANSWERS, 2, 1, method="paper"),
    "measured above": lambda: dpgap.measured_above(ANSWERS, 100, 2, 1, adaptive=True),
    "measured above by the paper": lambda: dpgap.measured_above(ANSWERS, 100, 2, 1, method="paper"),
    "nothing above": lambda: dpgap.measured_above(ANSWERS, 10**9, 2, 1),
    "a table's top": lambda: dpgap.top_k(SOLD, **TABLE),
    "above in a table": lambda: dpgap.above(SOLD, threshold=50, **TABLE),
    "above in a table by the paper": lambda: dpgap.above(
        SOLD, threshold=50, method="paper", **TABLE
    ),
    "nothing above in a table": lambda: dpgap.above(SOLD, threshold=10**6, **TABLE),
}


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))]
)
@pytest.mark.parametrize("kind", KEPT)
def test_every_release_can_be_copied_and_pickled(kind: str, duplicate):
    release = KEPT[kind]()
    kept = duplicate(release)
    assert type(kept) is type(release)
    assert str(kept) == str(release)
    assert kept._columns() == release._columns()
    if hasattr(release, "interval"):
        assert (kept.interval(0.8) == release.interval(0.8)).all()


@pytest.mark.parametrize("kind", KEPT)
def test_nothing_but_plain_values_can_be_reached_from_a_release(kind: str):
    release = KEPT[kind]()
    reached = list(_reached(release))
    assert len(reached) > 5
    assert not [value for value in reached if callable(value) or hasattr(value, "release")]


def _reached(value):
    yield value
    if is_dataclass(value):
        inside = [getattr(value, each.name) for each in fields(value)]
    elif isinstance(value, tuple):
        inside = value
    else:
        assert value is None or type(value) in PLAIN, type(value)
        inside = ()
    for each in inside:
        yield from _reached(each)


PLAIN = (bool, int, float, str, Fraction, np.ndarray, Neighbours)


@pytest.mark.parametrize("kind", KEPT)
def test_every_release_is_a_dictionary_that_json_can_hold(kind: str):
    release = KEPT[kind]()
    written = release._to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written == json.loads(release.to_json())
    assert written["guarantee"] == release.guarantee
    assert (Fraction(written["epsilon"]), written["delta"]) == (release.epsilon, "0")
    for each in fields(release):
        value = getattr(release, each.name)
        if isinstance(value, np.ndarray):
            assert written[each.name] == value.tolist()
    ends = [[row["low"], row["high"]] for row in written.get("items", ())]
    if hasattr(release, "interval"):
        assert written.get("interval", ends) == release.interval(0.95).tolist()


def test_exact_numbers_stay_exact_in_a_dictionary():
    written = dpgap.NoisyTopK(1, "7/10").release(ANSWERS)._to_dict()
    assert written["epsilon"] == "7/10"
    cost = {"epsilon": "7/10", "rho": "49/200"}
    assert written["cost"] == cost
    assert written["promise"] == {"cost": cost, "sensitivity": "1", "monotonic": False}


def test_a_dictionary_says_what_noise_the_numbers_have():
    written = dpgap.CountHull("1/2", monotonic=True).release(ANSWERS)._to_dict()
    law = {"kind": "hull", "scale": "2", "dimension": 5}
    assert written["measured_by"] == {"law": law, "grid": "1"}


def test_a_dictionary_says_which_mechanisms_were_used_and_how():
    written = dpgap.measured_top_k(ANSWERS, 2, "7/10", monotonic=True, method="ranked")._to_dict()
    selection, measurement = written["mechanisms"]
    facts = {"epsilon": "7/20", "sensitivity": "1", "monotonic": True}
    own = {"k": 2, "noise": "exponential", "grid": None}
    assert selection == {"name": "NoisyTopK", "parameters": own | facts}
    assert measurement == {"name": "CountHull", "parameters": facts | {"grid": "1/16"}}
    assert written["method"] == "ranked"
    best = dpgap.measured_top_k(ANSWERS, 2, "7/10", monotonic=True)._to_dict()
    spent = [Fraction(each["parameters"]["epsilon"]) for each in best["mechanisms"]]
    assert sum(spent) == Fraction(7, 10)
    steps = [(step, Fraction(cost["epsilon"])) for step, cost in best["cost"]["parts"]]
    assert steps == list(zip(("look", "select", "measure"), spent, strict=True))
    assert Fraction(best["cost"]["rho"]) == sum(epsilon**2 for epsilon in spent) / 2


def test_plans_and_single_answers_are_dictionaries_too():
    planned = dpgap.plan(k=10, epsilon="7/10", method="best").to_dict()
    assert json.loads(json.dumps(planned))["rows"][0]["epsilon"] == "7/10"
    with dpgap.SparseVector(0, 1, "1/3").start() as run:
        answer = run.ask(10**9).to_dict()
    assert answer == json.loads(json.dumps(answer))
    assert (answer["above"], answer["branch"]) == (True, 1)
    assert Fraction(answer["charge"]) < Fraction(1, 3)


def test_rows_in_another_order_keep_what_they_may_be_off_by():
    items = [f"item {number}" for number in range(40)]
    sold = [item for place, item in enumerate(items) for _ in range(400 if place < 10 else 82)]
    release = dpgap.above(
        pandas.DataFrame({"what": sold}),
        unit="row",
        item="what",
        domain=items,
        threshold=80,
        k=40,
        epsilon=40,
        method="paper",
    )
    # Large answers clear the first branch, which is noisier. Of thirty small ones some do not,
    # but for one run in 10^9.
    assert (np.diff(release.estimates) <= 0).all()
    widths = np.array([error.half_width(0.95) for error in release.detail.errors])
    assert (widths[:10] == widths.max()).all()
    assert widths[10:].min() < widths.max()
    assert len(set(zip(widths, release.variances, strict=True))) == 2
    assert np.allclose(np.diff(release.interval(0.95))[:, 0], 2 * widths)


FRUIT = ["fig", "pea", "oat", "rye"]
LABELLED = {
    "NoisyTopK": dpgap.NoisyTopK(2, 10**4).release,
    "NoisyMax": dpgap.NoisyMax(10**4).release,
    "SparseVector": dpgap.SparseVector(100, 2, 10**4).release,
    "AdaptiveSparseVector": dpgap.AdaptiveSparseVector(100, 2, 10**4).release,
    "measured_top_k": lambda answers, **given: dpgap.measured_top_k(answers, 2, 10**4, **given),
    "measured_above": lambda answers, **given: dpgap.measured_above(
        answers, 100, 2, 10**4, **given
    ),
}


@pytest.mark.parametrize("entry", LABELLED)
def test_the_index_of_a_series_names_its_answers(entry: str):
    release = LABELLED[entry]
    named = pandas.Series(ANSWERS, index=FRUIT)
    assert set(release(named).labels) <= {"fig", "oat"}
    assert release(named).labels[0] == "fig"
    numbered = pandas.Series(ANSWERS, index=[3, 2, 1, 0])
    assert release(numbered).labels[0] == 3
    assert release(numbered.iloc[1:]).labels[0] == 1


@pytest.mark.parametrize("entry", LABELLED)
def test_an_index_that_only_counts_gives_no_labels(entry: str):
    for index in (None, [0, 1, 2, 3]):
        assert LABELLED[entry](pandas.Series(ANSWERS, index=index)).labels is None


@pytest.mark.parametrize("entry", LABELLED)
def test_labels_that_are_given_are_taken_by_position_before_any_index(entry: str):
    labels = pandas.Series(FRUIT, index=[3, 2, 1, 0])
    answers = pandas.Series(ANSWERS, index=["w", "x", "y", "z"])
    assert LABELLED[entry](answers, labels=labels).labels[0] == "fig"
    assert LABELLED[entry](ANSWERS, labels=labels).labels[0] == "fig"


@pytest.mark.parametrize("epsilon", ["0.004", "0.03", "0.5", "2", "0.1234565", "800.1234567"])
def test_a_guarantee_is_never_rounded_down_whatever_the_callers_decimals_are(epsilon: str):
    said = str(Promise(Cost.pure(Fraction(epsilon)), Fraction(1), monotonic=True))
    for rough in (decimal.Context(prec=2), decimal.Context(prec=3, traps=[decimal.Inexact])):
        with decimal.localcontext(rough):
            assert str(Promise(Cost.pure(Fraction(epsilon)), Fraction(1), monotonic=True)) == said
    (stated,) = re.findall(r"ε [=≈] ([0-9.]+) ", said)
    assert Fraction(stated) >= Fraction(epsilon)
    (times,) = re.findall(r"a factor of at most (?:e\^≈?)?([0-9.]+)\.", said)
    exact = Fraction(epsilon) if "e^" in said else Fraction(math.exp(Fraction(epsilon)))
    assert Fraction(times) >= exact
