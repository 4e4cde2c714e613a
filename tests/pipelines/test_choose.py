"""One decision: a plan, the desk and a release have the same pipeline and the same errors."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, cast
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpgap
from dpgap.budget.cost import Limit
from dpgap.data.private_counts import PrivateCounts
from dpgap.desk.questions import FilledForm, offers
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.reals import TooNarrowError, TooWideError
from dpgap.pipelines.choose import Choice, PublicFacts, choose
from dpgap.pipelines.look_first import LookFirst
from dpgap.pipelines.plan import plan
from dpgap.pipelines.routes import ExpectedErrors, SelectThenMeasure
from dpgap.pipelines.tables import Answering
from dpgap.question import read_question
from seams import as_counts, bits_are

ITEMS = list("abcdef")
DELTA = "1e-6"

# --------------------------------------------------------------------------------------------------
# 240 questions.


SUMS = {"sum": "paid", "at_most": 50, "step": "0.5"}
TABLES: dict[str, dict[str, Any]] = {
    "counts": {"domain": ITEMS},
    "replaced units": {"domain": ITEMS, "neighbours": "replace"},
    "one item each": {"domain": ITEMS, "max_items": 1},
    "three items each": {"domain": ITEMS, "max_items": 3},
    "any number of items": {"domain": ITEMS, "max_items": 40},
    "sums": {"domain": ITEMS, **SUMS},
    "sums below zero": {"domain": ITEMS, **SUMS, "at_least": -10},
    "sums of two items each": {"domain": ITEMS, **SUMS, "max_items": 2},
    "one unknown item each": {"max_items": 1},
    "many unknown items each": {"max_items": 40},
}
QUESTIONS = [
    (kind, k, epsilon, is_best)
    for kind, k, epsilon, is_best in product(
        ("top-k", "above"), (1, 3, len(ITEMS)), ("0.4", "3"), (True, False)
    )
]


def _frame() -> pd.DataFrame:
    rows = [
        (unit, item, 20 + place)
        for unit in range(300)
        for place, item in enumerate(ITEMS)
        if unit % (place + 2) == 0
    ]
    return pd.DataFrame(rows, columns=["who", "what", "paid"])


@cache
def _counts(name: str) -> PrivateCounts:
    return cast(PrivateCounts, dpgap.counts(_frame(), unit="who", item="what", **TABLES[name]))


def _stated(name: str, kind: str, k: int, epsilon: str, is_best: bool) -> dict[str, Any]:
    """The keywords of a question; the other method is one that the table allows."""
    other = "histogram" if "max_items" in TABLES[name] else "paper"
    stated = {"k": k, "epsilon": epsilon, "method": "best" if is_best else other}
    if kind == "above":
        stated["threshold"] = 1
    if "domain" not in TABLES[name]:
        stated["delta"] = DELTA
    return stated


def _planned(counts: PrivateCounts, kind: str, stated: dict[str, Any]) -> ExpectedErrors:
    """What a plan says, for a table with these facts. A plan is in steps."""
    arguments = {name: stated[name] for name in stated if name != "threshold"}
    made = plan(
        **arguments,
        select=kind,
        adaptive=kind == "above",
        items=None if counts.unknown else len(counts),
        max_items=counts.reach,
        monotonic=counts.monotonic,
        sensitivity=counts.sensitivity,
    )
    (row,) = made.rows
    return row.in_units(counts.step)


def _at_the_desk(counts: PrivateCounts, kind: str, stated: dict[str, Any]) -> ExpectedErrors:
    fields = {name: str(value) for name, value in stated.items()}
    form = FilledForm.read({"topic": "items", "kind": kind, **fields})
    left = Limit("epsilon", Fraction(100), Fraction(1, 2))
    (offer,) = [row for row in offers(form, counts, left, Fraction(0)).rows if row.is_asked]
    return offer.expected


def _choice(counts: PrivateCounts, kind: str, stated: dict[str, Any]) -> Choice:
    assert counts.origin is not None
    return choose(read_question(kind, **stated).about(counts.origin), PublicFacts.of(counts))


@pytest.mark.parametrize(("kind", "k", "epsilon", "is_best"), QUESTIONS)
@pytest.mark.parametrize("name", TABLES)
def test_a_plan_the_desk_and_a_release_have_one_pipeline_and_one_error(
    name: str, kind: str, k: int, epsilon: str, is_best: bool
) -> None:
    counts = _counts(name)
    stated = _stated(name, kind, k, epsilon, is_best)
    choice = _choice(counts, kind, stated)
    answering = Answering.of(choice.question, counts)
    assert answering.pipeline == choice.pipeline
    assert _planned(counts, kind, stated) == choice.expected
    assert _at_the_desk(counts, kind, stated) == choice.expected

    ask = dpgap.top_k if kind == "top-k" else dpgap.above
    release = ask(counts, **stated)
    if choice.expected.route is not None:
        assert release.detail.route == choice.expected.route
    found = len(release.labels)
    if not 0 < found <= k:
        return
    if release.detail.route == "histogram":  # intervals of values near the threshold are wider
        assert release.detail.errors[0].half_width(0.95) == pytest.approx(
            choice.expected.half_width
        )
        variance = pytest.approx(choice.expected.error**2)
        assert release.variances.tolist() == [variance] * found
    else:
        low, high = release.interval(0.95).T
        assert ((high - low) / 2).max() <= choice.expected.half_width + float(counts.step)


def test_a_plan_that_is_not_told_a_fact_is_refused_by_that_comparison() -> None:
    stated = {"k": len(ITEMS), "epsilon": "0.4", "method": "best"}
    expected = _choice(_counts("counts"), "top-k", stated).expected
    assert plan(**stated, items=len(ITEMS)).rows[0] == expected
    assert plan(**stated).rows[0] != expected
    assert plan(**stated, items=len(ITEMS), monotonic=False).rows[0] != expected


# --------------------------------------------------------------------------------------------------
# What is released has this error. Bits are seeded, so these tests are deterministic.


CLEAR = 3_000 - 200 * np.arange(10)
TIED = np.full(10, 300)


@pytest.mark.parametrize("counts", [CLEAR, TIED], ids=["clear", "tied"])
@pytest.mark.parametrize("method", ["best", "ranked", "paper"])
@pytest.mark.parametrize("monotonic", [True, False])
def test_the_error_is_that_of_simulated_runs_if_all_items_win(
    counts: np.ndarray, method: str, monotonic: bool
) -> None:
    """There is no race between all items, so all counts have the same error."""
    k = counts.size
    options: Any = {"k": k, "epsilon": "0.7", "method": method, "monotonic": monotonic}
    (planned,) = plan(**options, items=k).rows
    runs = dpgap.simulate(dpgap.MeasuredTopK(**options), counts, runs=4_000, seed=1)
    error = float(np.sqrt(((runs.estimates - runs.truth) ** 2).mean()))
    assert planned.error == planned.close_error == pytest.approx(error, rel=0.02)
    (for_more_items,) = plan(**options).rows
    if method == "best":
        assert for_more_items.error != pytest.approx(error, rel=0.3)


def _error_of_releases(counts: PrivateCounts, truth: dict[str, int], stated: Any) -> float:
    """The root of the mean squared error of 200 releases."""
    errors: list[float] = []
    with bits_are(InsecureSeededBits("releases")):
        for _ in range(200):
            release = dpgap.top_k(counts, **stated)
            for label, estimate in zip(release.labels, release.estimates, strict=True):
                errors.append(estimate - truth[label])
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.parametrize(
    ("max_items", "is_unknown", "route"),
    [(1, False, "histogram"), (2, True, "histogram"), (60, True, "hybrid")],
)
def test_the_error_is_that_of_releases_of_a_table(
    max_items: int, is_unknown: bool, route: str
) -> None:
    truth = {"fig": 900, "pea": 700, "oat": 500, "rye": 20}
    rows = [(unit, item) for item, many in truth.items() for unit in range(many)]
    rows += [(10_000 + unit, f"item {unit % 300}") for unit in range(300)]
    frame = pd.DataFrame(rows, columns=["who", "what"])
    # Units have up to four items. Where only two count, each unit has one of its own.
    if max_items < len(truth):
        frame["who"] = range(len(frame))
    domain = None if is_unknown else [*truth, "nut"]
    counts = dpgap.counts(frame, unit="who", item="what", domain=domain, max_items=max_items)
    stated: Any = {"k": 3, "epsilon": 1, "delta": DELTA if is_unknown else 0}
    (planned,) = plan(**stated, max_items=counts.reach, method="best").rows
    assert planned.route == route
    error = _error_of_releases(counts, truth, stated)
    assert planned.error == pytest.approx(error, rel=0.08)
    if route == "hybrid":
        (for_stated_items,) = plan(k=3, epsilon=1, max_items=60, method="best").rows
        assert for_stated_items.error != pytest.approx(error, rel=0.3)


def test_a_planned_threshold_is_that_of_the_release() -> None:
    for max_items, epsilon in product((1, 4, 40), ("0.5", 2)):
        (row,) = plan(k=3, epsilon=epsilon, delta=DELTA, max_items=max_items, method="best").rows
        if row.route == "histogram":
            least = dpgap.NoisyHistogram(epsilon, reach=max_items).line_for(DELTA)
        else:
            hybrid = dpgap.HybridTopK(0, 3, Fraction(epsilon) / 2, monotonic=True)
            least = hybrid.line_for(DELTA, max_items)
        assert row.threshold == least
    made = plan(k=3, epsilon=2, delta=DELTA, max_items=1)
    assert "reaches the threshold" in made.guarantee
    assert made._columns()["threshold"] == [str(made.rows[0].threshold)] * 2


def test_the_desk_says_the_threshold_of_unknown_items() -> None:
    counts = _counts("many unknown items each")
    stated = _stated("many unknown items each", "top-k", 3, "0.4", is_best=True)
    form = FilledForm.read({"topic": "items", **{name: str(stated[name]) for name in stated}})
    words = offers(form, counts, Limit("epsilon", Fraction(1), Fraction(1, 2)), Fraction(0)).words
    threshold = _choice(counts, "top-k", stated).expected.threshold
    assert words == (f"Items are shown if their noisy value reaches {threshold}.",)


def test_an_error_is_planned_for_unknown_items_too() -> None:
    for max_items in (1, 8, 60):
        made = plan(k=3, error=5, delta=DELTA, max_items=max_items, method="best")
        assert 4.8 < made.error <= 5


# --------------------------------------------------------------------------------------------------
# Routes are made after the look has chosen one.


def test_a_release_makes_the_one_route_that_it_takes() -> None:
    made = []
    make = SelectThenMeasure.of.__func__  # type: ignore[attr-defined]

    def counted(kind: Any, *arguments: Any) -> Any:
        made.append(kind.name)
        return make(kind, *arguments)

    counts = (90_000 / np.arange(1, 301)).astype(np.int64)
    with mock.patch.object(SelectThenMeasure, "of", classmethod(counted)):
        for answers in (counts, as_counts(counts)):
            made.clear()
            release = dpgap.MeasuredTopK(10, "0.31", monotonic=True).release(answers)
            assert made == [release.detail.route]


def _pipelines() -> Iterator[dict[str, Any]]:
    """Pipelines about the smallest and the largest ε that are accepted."""
    for k, monotonic, split in product((2, 10, 25), (True, False), (None, "0.9")):
        for power in (*range(-42, -28), *range(56, 70)):
            for eighths in range(8, 16):
                epsilon = Fraction(2) ** power * Fraction(eighths, 8)
                yield {"k": k, "epsilon": epsilon, "monotonic": monotonic, "split": split}


def test_whatever_a_pipeline_accepts_all_its_routes_accept() -> None:
    """A route is made after the look is paid, so it must not be refused there."""
    refused = 0
    for options in _pipelines():
        with suppress(TooWideError, TooNarrowError):
            assert len(dpgap.MeasuredTopK(**options).routes) > 1
            continue
        refused += 1
        with pytest.raises((TooWideError, TooNarrowError)), _without_check():
            list(dpgap.MeasuredTopK(**options).routes)
    assert refused > 100


def _without_check() -> Any:
    return mock.patch.object(LookFirst, "_require_scales", mock.Mock())


def test_without_the_check_a_route_would_be_refused_after_the_look() -> None:
    late = 0
    with _without_check():
        for options in _pipelines():
            with suppress(TooWideError, TooNarrowError):
                pipeline = dpgap.MeasuredTopK(**options)
                with suppress(TooWideError, TooNarrowError):
                    list(pipeline.routes)
                    continue
                late += 1
    assert late > 10


# --------------------------------------------------------------------------------------------------
# A session plans its questions.


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["top-k", "above"])
def test_a_session_plans_what_it_would_answer(name: str, kind: str) -> None:
    counting = {**TABLES[name]}
    neighbours = counting.pop("neighbours", "add-or-remove")
    stated = _stated(name, kind, 3, "0.4", is_best=True)
    session = dpgap.Session(_frame(), unit="who", epsilon=1, delta=DELTA, neighbours=neighbours)
    planned = session.plan("what", **counting, **stated)
    assert planned.rows == (_choice(_counts(name), kind, stated).expected,)
    assert (session.spent, session.releases) == (0, ())
    ask = session.top_k if kind == "top-k" else session.above
    assert ask("what", **counting, **stated).detail.route in (
        planned.rows[0].route,
        "joint",
        "ranked",
    )


def test_a_session_refuses_to_plan_what_it_would_refuse_to_answer() -> None:
    session = dpgap.Session(_frame(), unit="who", epsilon=1)
    with pytest.raises(ValueError, match="k must be at most the number of items in the domain, 6"):
        session.plan("what", domain=ITEMS, k=7, epsilon=1)
    with pytest.raises(ValueError, match="delta must be above 0 if domain is None"):
        session.plan("what", max_items=1, k=1, epsilon=1)
    with pytest.raises(ValueError, match="adaptive must be left out unless there is a threshold"):
        session.plan("what", domain=ITEMS, k=1, epsilon=1, adaptive=False)
