"""From a table to a release in one call: the right items and words, and nothing charged early."""

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import dpgap
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.budget.ledger import Ledger, LedgerAccount
from dpgap.pipelines import tables
from seams import SpyAccount

SIZES = {f"item {place}": 50 * (place + 1) for place in range(30)}
SOLD = polars.DataFrame(
    [(who, name) for name, size in SIZES.items() for who in range(size)],
    schema=["who", "what"],
    orient="row",
)
TABLE = {"unit": "who", "item": "what", "domain": [*SIZES, "nobody's"]}


@pytest.fixture
def account(tmp_path: Any) -> LedgerAccount:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 10**6)


def test_top_k_finds_the_largest_in_order_with_estimates_near_the_truth() -> None:
    best = dpgap.top_k(SOLD, **TABLE, k=4, epsilon=4000, method="ranked")
    assert best.labels == ("item 29", "item 28", "item 27", "item 26")
    assert np.abs(best.estimates - [1500, 1450, 1400, 1350]).max() < 3
    assert np.abs(best.gaps - 50).max() < 3
    low, high = best.interval(0.95).T
    assert (low < best.estimates + 0.1).all()
    assert (best.estimates < high + 0.1).all()
    assert best.to_frame()["item"].tolist() == list(best.labels)


@pytest.mark.parametrize("adaptive", [False, True])
def test_above_keeps_each_item_with_its_own_numbers(adaptive: bool) -> None:
    found = dpgap.above(SOLD, **TABLE, threshold=1225, k=6, epsilon=9000, adaptive=adaptive)
    assert len(found.labels or ()) == 6
    truth = np.array([SIZES[label] for label in found.labels or ()])
    assert sorted(truth, reverse=True) == truth.tolist()
    assert truth.min() > 1225
    assert np.abs(found.estimates - truth).max() < 3
    assert np.abs(found.measurements - truth).max() < 3
    assert np.abs(found.gaps + 1225 - truth).max() < 3
    assert np.abs(found.interval(0.95).mean(axis=1) - truth).max() < 3
    assert [TABLE["domain"][index] for index in found.indices] == list(found.labels or ())
    assert 0 <= found.remaining < found.epsilon


def test_counts_are_made_once_and_asked_several_times(account: LedgerAccount) -> None:
    private = dpgap.counts(SOLD, **TABLE)
    first = dpgap.top_k(private, k=2, epsilon=4000, account=account)
    second = dpgap.above(private, threshold=1475, k=1, epsilon=4000, account=account)
    assert first.labels == ("item 29", "item 28")
    assert second.labels == ("item 29",)
    assert account.spent == first.spent + second.spent
    with pytest.raises(TypeError, match="domain must be left out"):
        dpgap.top_k(private, domain=["x"], k=1, epsilon=1)


def test_the_guarantee_says_unit_neighbours_and_what_is_public() -> None:
    said = dpgap.top_k(SOLD, **TABLE, k=1, epsilon="2/3").guarantee
    assert "ε = 2/3" in said
    assert "added or taken away" in said
    assert "all rows with the same value in column 'who'" in said
    assert "The domain (a list of 31 items), the names and types of" in said
    rows = dpgap.top_k(SOLD, **TABLE | {"unit": "row"}, k=1, epsilon=1)
    assert "A unit is one row" in rows.guarantee
    replaced = dpgap.top_k(SOLD, **TABLE, k=1, epsilon=1, neighbours="replace")
    assert "were replaced by any other" in replaced.guarantee
    assert "how many units there are" in replaced.guarantee


def test_an_observed_domain_is_not_private_and_says_so() -> None:
    seen = dpgap.top_k(SOLD, **TABLE | {"domain": "observed-not-private"}, k=1, epsilon=4000)
    assert seen.labels == ("item 29",)
    assert "the result is not private" in seen.guarantee
    assert "NOT differentially private" in str(seen) + seen._repr_html_()


def test_replacing_takes_the_general_scales() -> None:
    ask = {**TABLE, "k": 5, "epsilon": 1, "method": "paper"}
    usual = dpgap.top_k(SOLD, **ask)
    replaced = dpgap.top_k(SOLD, **ask, neighbours="replace")
    assert replaced.variances[0] > 1.1 * usual.variances[0]


WEAK: dict[str, Any] = {
    "top-k": partial(dpgap.top_k, item="what", domain=["item 1"], k=1, epsilon="20.01"),
    "above": partial(dpgap.above, item="what", domain=["item 1"], threshold=9, k=1, epsilon=21),
    "count": partial(dpgap.count, epsilon=99),
    "items": partial(dpgap.top_k, item="what", k=1, epsilon=1, delta="0.0011", max_items=2),
}


@pytest.mark.parametrize("kind", WEAK)
def test_a_promise_that_is_weak_is_said_to_be_before_it_is_charged(kind: str) -> None:
    budget = InMemoryBudget(Limit("epsilon", Fraction(100), Fraction(1, 10)))
    ask = partial(WEAK[kind], unit="who")
    what = "δ is above 1/1,000: " if kind == "items" else "ε is above 20, which promises hardly"
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpgap.PromiseWarning)
        with pytest.raises(dpgap.PromiseWarning, match=what):
            ask(SOLD, account=budget)
        assert budget.spent == NOTHING
        ask(SOLD, **({"delta": "1/1000"} if kind == "items" else {"epsilon": 20}))
    with pytest.warns(dpgap.PromiseWarning, match=what) as told:
        ask(SOLD, account=budget)
    assert told[0].filename == __file__
    assert budget.spent.epsilon > 0
    with dpgap.Session(SOLD, unit="who", epsilon=50) as session, pytest.warns(dpgap.PromiseWarning):
        session.count(epsilon=30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 99},
        {"epsilon": 0},
        {"epsilon": "x"},
        {"method": "magic"},
        {"split": 2},
        {"unit": "nobody"},
        {"domain": []},
        {"neighbours": "swap"},
    ],
)
def test_nothing_is_charged_for_a_question_that_is_refused(
    wrong: dict[str, Any], account: LedgerAccount
) -> None:
    with pytest.raises((ValueError, TypeError)):
        dpgap.top_k(SOLD, **TABLE | {"k": 1, "epsilon": 1} | wrong, account=account)
    question = TABLE | {"k": 1, "epsilon": 1} | wrong
    threshold = "nan" if "k" in wrong else 5  # a k above the number of items is fine here
    with pytest.raises((ValueError, TypeError)):
        dpgap.above(SOLD, **question, threshold=threshold, account=account)
    assert account.balance.number == 0


def test_a_threshold_of_none_is_refused_and_no_other_question_is_answered(
    account: LedgerAccount,
) -> None:
    limits = {"sales": 950}
    asked: Any = {"threshold": limits.get("slaes"), "k": 3, "epsilon": 1}
    session = dpgap.Session(SOLD, unit="who", epsilon=2)
    with pytest.raises(TypeError, match=r"threshold must be a number .* not NoneType"):
        dpgap.above(SOLD, **TABLE, **asked, account=account)
    with pytest.raises(TypeError, match=r"threshold must be a number .* not NoneType"):
        session.above("what", domain=TABLE["domain"], **asked)
    assert (account.balance.number, session.spent) == (0, 0)


def test_a_release_is_charged_its_epsilon_and_settled_to_what_it_spent(
    account: LedgerAccount,
) -> None:
    found = dpgap.above(SOLD, **TABLE, threshold=10, k=4, epsilon="1/3", account=account)
    reserved, settled = account.ledger.entries("sales")[1:]
    assert reserved.epsilon == Fraction(1, 3)
    assert settled.epsilon == account.spent == found.spent


def test_a_release_shows_itself_in_a_notebook_with_harmless_names() -> None:
    name = "<script>alert(1)</script>"
    table = pandas.DataFrame({"who": range(500), "what": [name] * 500})
    shown = dpgap.top_k(table, unit="who", item="what", domain=[name], k=1, epsilon=1)._repr_html_()
    assert "<svg" in shown
    assert "<script" not in shown


def test_joint_measurements_take_the_answers_word() -> None:
    moving = dpgap.counts(SOLD, **TABLE)
    assert dpgap.CountHull(1).release(moving).values.size == len(moving)
    assert dpgap.Cube(1).release(moving).values.size == len(moving)
    either = dpgap.counts(SOLD, **TABLE, neighbours="replace")
    assert dpgap.Cube(1).release(either).values.size == len(either)
    with pytest.raises(ValueError, match="monotonic must be"):
        dpgap.CountHull(1).release(either)
    with pytest.raises(ValueError, match="monotonic must be False"):
        dpgap.CountHull(1, monotonic=True).release(either)
    with pytest.raises(ValueError, match="sensitivity must be at least"):
        dpgap.Cube(1, sensitivity="1/2").release(moving)


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("adaptive", [True, False])
def test_answers_that_move_further_get_more_noise(monotonic: bool, adaptive: bool) -> None:
    plain = dpgap.counts(SOLD, **TABLE)
    plain = replace(plain, monotonic=monotonic)
    further = replace(plain, sensitivity=Fraction(3))
    for ask, options in (
        (dpgap.top_k, {"method": "joint"}),
        (dpgap.above, {"threshold": -5000, "adaptive": adaptive}),
    ):
        little, much = (ask(each, k=1, epsilon=1, **options) for each in (plain, further))
        widths = [float(np.ptp(each.interval()[0])) for each in (little, much)]
        assert widths[1] == pytest.approx(3 * widths[0], rel=0.02)
        assert much.detail.promise.sensitivity == 3


def test_a_stream_of_answers_that_move_both_ways_is_no_monotonic_one() -> None:
    answers = dpgap.counts(SOLD, **TABLE, neighbours="replace")
    with pytest.raises(ValueError, match="monotonic must be False"):
        dpgap.MeasuredAbove(5, 1, 1, monotonic=True).prepare(answers, None, answers.in_order())


@pytest.mark.parametrize("function", ["top_k", "above"])
def test_the_question_is_known_before_anything_is_charged(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, asked = SpyAccount(), tables.Request

    def noted(cost: Cost, purpose: str, facts: Any, identity: Any) -> Any:
        spy.diary.append((purpose, cost.epsilon, facts["unit"]))
        return asked(cost, purpose, facts, identity)

    monkeypatch.setattr(tables, "Request", noted)
    options = {"threshold": 100} if function == "above" else {}
    getattr(dpgap, function)(SOLD, **TABLE, k=2, epsilon="1/2", account=spy, **options)
    asks = "above 100, up to 2, of what by who" if options else "top 2 of what by who"
    assert spy.diary[0] == (asks, Fraction(1, 2), "who")
    assert [move for move, _ in spy.moves[1:]] == ["reserve", "settle"]


def test_rows_in_another_order_leave_mechanisms_in_theirs() -> None:
    """There are two mechanisms, and here there are two rows."""
    orders = set()
    for _ in range(20):
        found = dpgap.above(SOLD, **TABLE, threshold=1420, k=2, epsilon=1000)
        orders.add(tuple(used.name for used in found.detail.mechanisms))
        assert found.indices.size == 2
    assert orders == {("AdaptiveSparseVector", "CountHull")}
