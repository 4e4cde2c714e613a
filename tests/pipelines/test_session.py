"""A session: one table, one budget, counted once per item, and all of it kept."""

import copy
import os
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest

import dpgap
from dpgap.pipelines import session as room
from dpgap.question import Counting

SOLD = pandas.DataFrame(
    {
        "who": list(range(900)) * 2,
        "what": (["fig"] * 600 + ["pea"] * 300) * 2,
        "where": ["CH", "DE", "FR"] * 600,
        "paid": [2.5, 1.25] * 900,
    }
)
ITEMS = ["fig", "pea", "oat"]


def test_what_is_left_is_known_after_each_answer() -> None:
    with dpgap.Session(SOLD, unit="who", epsilon=2, delta="1e-6") as session:
        first = session.top_k("what", domain=ITEMS, k=1, epsilon="0.5")
        assert (session.spent, session.remaining) == (Fraction(1, 2), Fraction(3, 2))
        session.count(epsilon="0.25")
        session.top_k("what", k=2, epsilon=1, delta="1e-6", max_items=1)
    assert session.remaining == Fraction(1, 4)
    assert repr(session).endswith("ε = 1.75 and δ = 10⁻⁶ spent, ε = 0.25 and δ = 0 left>")
    assert session.releases[0] is first
    assert len(session.releases) == 3


def test_a_session_never_spends_more_than_it_has() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    with pytest.raises(dpgap.BudgetExhausted, match="and ε = 1 is left"):
        session.top_k("what", domain=ITEMS, k=1, epsilon="1.5")
    with pytest.raises(dpgap.BudgetExhausted, match="and ε = 1 and δ = 0 are left"):
        session.top_k("what", k=1, epsilon="0.5", delta="1e-9", max_items=1)
    assert str(session) == "ε = 0 spent, ε = 1 left."
    with pytest.raises(dpgap.BudgetExhausted, match="state a larger delta when you begin"):
        session.top_k("what", k=1, epsilon="0.5", delta="1e-9", max_items=1)
    assert session.spent == 0
    assert session.releases == ()
    session.count(epsilon=1)
    with pytest.raises(dpgap.BudgetExhausted, match=r"is left: the budget is used up$"):
        session.count(epsilon="0.1")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_session_spends_nothing() -> None:
    """Every child would have the whole budget once more."""
    with dpgap.Session(SOLD, unit="who", epsilon=1) as session:
        session.top_k("what", domain=ITEMS, k=1, epsilon="0.5")
        child = os.fork()
        if child == 0:
            refused = 0
            for ask in (
                lambda: session.top_k("what", domain=ITEMS, k=1, epsilon="0.5"),
                lambda: session.above("where", domain=["CH"], threshold=1, k=1, epsilon="0.5"),
                lambda: session.count(epsilon="0.5"),
            ):
                try:
                    ask()
                except RuntimeError as error:
                    refused += "a session cannot be used in a forked process" in str(error)
            os._exit(10 + refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13
        session.count(epsilon="0.5")


def test_a_session_with_a_budget_of_its_own_cannot_be_copied_or_pickled() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(session)


def test_the_table_is_counted_once_for_each_item(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    count_items = room.count_items

    def count(table: Any, counting: Counting) -> Any:
        counted.append(counting.item)
        return count_items(table, counting)

    monkeypatch.setattr(room, "count_items", count)
    with dpgap.Session(SOLD, unit="who", epsilon=10) as session:
        for _ in range(2):
            session.top_k("what", domain=list(ITEMS), k=1, epsilon=1)
            session.above("what", domain=list(ITEMS), threshold=100, k=1, epsilon=1)
        session.top_k("where", domain=["CH", "DE", "FR"], k=1, epsilon=1)
    assert counted == ["what", "where"]


def test_what_is_said_once_holds_for_all_questions() -> None:
    with dpgap.Session(SOLD, unit="who", epsilon=10, delta="1e-6", max_items=1) as session:
        known = session.top_k("what", domain=ITEMS, k=1, epsilon=1)
        unknown = session.top_k("what", k=1, epsilon=1, delta="1e-6")
        other = session.top_k("what", domain=ITEMS, k=1, epsilon=1, max_items=2)
    assert [r.question.max_items for r in (known, unknown, other)] == [1, 1, 2]


def test_groups_come_in_the_order_in_which_they_were_stated() -> None:
    groups = ["FR", "CH", "DE"]
    with dpgap.Session(SOLD, unit="who", epsilon=1) as session:
        grouped = {"by": "where", "groups": groups, "max_groups": 1}
        found = session.top_k("what", domain=ITEMS, k=1, epsilon=1, **grouped)
    assert list(found) == groups
    assert session.spent == 1
    assert all(len(release.labels) == 1 for release in found.values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either epsilon or account"),
        ({"epsilon": 1, "account": object()}, "either epsilon or account"),
        ({"account": object(), "delta": "1e-9"}, "delta must be left out with an account"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"epsilon": 1, "delta": 1}, "delta must be at least 0 and less than 1"),
        ({"epsilon": 1, "neighbours": "both"}, "neighbours must be one of"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        dpgap.Session(SOLD, unit="who", **given)


def test_a_misspelt_option_is_refused_before_anything_is_spent() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    with pytest.raises(TypeError, match="max_item"):
        session.top_k("what", domain=ITEMS, k=1, epsilon=1, max_item=2)  # type: ignore[call-arg]
    assert session.spent == 0


def test_a_session_tells_nothing_of_its_table() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    assert repr(session) == "<session: 0 releases, ε = 0 spent, ε = 1 left>"


def test_a_ledger_pays_for_a_session(tmp_path: Any) -> None:
    ledger = dpgap.Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create("sales", 3)
    table = tmp_path / "sold.csv"
    SOLD.to_csv(table, index=False)
    with dpgap.Session(str(table), unit="who", account=ledger.account("sales")) as session:
        first = session.top_k("what", domain=ITEMS, k=1, epsilon=1)
        again = session.top_k("what", domain=ITEMS, k=1, epsilon=1)
        assert (session.spent, session.remaining) == (1, 2)
    assert again.made.again
    assert again.labels == first.labels


@pytest.mark.parametrize("said", [{"unit": "row"}, {"neighbours": "replace"}])
def test_what_is_protected_is_said_once_for_the_whole_session(said: dict[str, Any]) -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        session.top_k("what", domain=ITEMS, k=1, epsilon=1, **said)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        session.above("what", domain=ITEMS, threshold=5, k=1, epsilon=1, **said)
    assert session.spent == 0


def test_a_list_that_was_changed_since_is_counted_again() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=2000)
    items: list[Any] = ["oat", "pea"]
    session.top_k("what", domain=items, k=1, epsilon=500)
    items.append("fig")
    assert session.top_k("what", domain=items, k=1, epsilon=500).labels == ("fig",)


@pytest.mark.parametrize("as_path", [False, True])
def test_a_file_of_items_that_was_changed_since_makes_another_question(
    as_path: bool, tmp_path: Path
) -> None:
    items = tmp_path / "items.txt"
    domain = items if as_path else str(items)
    session = dpgap.Session(SOLD, unit="who", epsilon=9000)
    for lines, is_again in (("fig\noat", False), ("fig\noat", True), ("oat\npea", False)):
        items.write_text(lines)
        release = session.top_k("what", domain=domain, k=1, epsilon=1000)
        assert release.made.again == is_again
        assert release.labels[0] in lines.split()
    assert session.spent == 2000


def test_lists_that_python_takes_for_equal_are_counted_apart() -> None:
    table = SOLD.assign(is_new=[True, False, False] * 600)
    session = dpgap.Session(table, unit="row", epsilon=2000)
    session.top_k("is_new", domain=[1, 0], k=1, epsilon=500)
    release = session.top_k("is_new", domain=[True, False], k=1, epsilon=500)
    assert release.labels == (False,)
    assert release.labels[0] is False


@pytest.mark.parametrize("item", [["fig"], {"fig"}, {"fig": 1}, (["fig"],)])
def test_an_item_of_no_known_type_is_refused_as_without_a_session(item: Any) -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    with pytest.raises(TypeError, match="items must be text, numbers, true and false, dates"):
        session.top_k("what", domain=[item, "pea"], k=1, epsilon=1)
    assert session.spent == 0


def test_counts_of_items_are_refused_where_a_question_is_about_the_whole_table() -> None:
    made = dpgap.counts(SOLD, unit="row", item="what", domain=ITEMS)
    session = dpgap.Session(made, epsilon=9)
    with pytest.raises(TypeError, match="table must be the table itself"):
        session.count(epsilon=1)
    with pytest.raises(TypeError, match="table must be the table itself"):
        session.total("paid", at_most=5, epsilon=1)
    assert session.spent == 0


def test_a_question_takes_a_limit_of_the_session_back() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=9, max_items=1)
    ask: dict[str, Any] = {"domain": ITEMS, "k": 1, "epsilon": 1}
    assert session.top_k("what", **ask).question.max_items == 1
    assert session.top_k("what", **ask, max_items=None).question.max_items is None


ASKED: dict[str, Any] = {
    "top_k": lambda session, **more: session.top_k("what", domain=ITEMS, k=1, epsilon=1, **more),
    "above": lambda session, **more: session.above(
        "what", domain=ITEMS, threshold=9, k=1, epsilon=1, **more
    ),
    "count": lambda session, **more: session.count(epsilon=1, where="paid > 1", **more),
    "total": lambda session, **more: session.total("paid", at_most=5, epsilon=1, **more),
    "in groups": lambda session, **more: session.top_k(
        "what",
        domain=ITEMS,
        k=1,
        epsilon=1,
        by="where",
        groups=["CH", "DE"],
        max_groups=1,
        **more,
    ),
    "unknown items": lambda session, **more: session.top_k(
        "what", k=1, epsilon=1, delta="1e-9", max_items=1, **more
    ),
}


@pytest.fixture(params=["a frame", "a file", "a frame and a ledger", "a file and a ledger"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dpgap.Session]:
    """A session of every kind, with 9 to spend."""
    table: Any = SOLD
    if "file" in request.param:
        table = tmp_path / "sold.csv"
        SOLD.to_csv(table, index=False)
    paying: dict[str, Any] = {"epsilon": 9, "delta": "1e-6"}
    if "ledger" in request.param:
        ledger = dpgap.Ledger(f"sqlite:///{tmp_path}/budget.db")
        paying = {"account": ledger.create("sales", 9, delta="1e-6")}
    with dpgap.Session(table, unit="who", **paying) as found:
        yield found


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_an_equal_question_gets_the_answer_of_the_session_and_costs_nothing(
    ask: Callable[..., Any], session: dpgap.Session
) -> None:
    first = ask(session)
    spent = session.spent
    again = ask(session)
    assert (session.spent, session.remaining) == (spent, 9 - spent)
    assert again.to_json() == first.to_json()
    assert (first.made.again, again.made.again) == (False, True)
    at = first.made.time.replace("T", " ")[:16]
    words = (
        f"Asked before at {at} UTC, nothing charged; fresh=True pays for the rows as they are now"
    )
    assert words in str(again)
    assert words in again._repr_html_()
    assert words not in str(first)
    assert session.releases == (first,)
    newer = ask(session, fresh=True)
    assert not newer.made.again
    assert session.spent > spent
    assert ask(session).to_json() == newer.to_json()
    assert session.releases == (first, newer)


def test_an_equal_question_is_free_when_nothing_is_left() -> None:
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    first = session.top_k("what", domain=ITEMS, k=1, epsilon=1)
    assert session.top_k("what", domain=ITEMS, k=1, epsilon=1).to_json() == first.to_json()
    with pytest.raises(dpgap.BudgetExhausted):
        session.top_k("what", domain=ITEMS, k=1, epsilon=1, fresh=True)
    with pytest.raises(dpgap.BudgetExhausted):
        session.top_k("what", domain=ITEMS, k=2, epsilon=1)


def test_a_question_is_equal_however_it_is_put(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("\n".join(ITEMS))
    session = dpgap.Session(SOLD, unit="who", epsilon=1)
    sums: dict[str, Any] = {"k": 1, "sum": "paid"}
    session.top_k("what", domain=ITEMS, at_most=5, epsilon=1, **sums)
    for domain in (tuple(ITEMS), str(tmp_path / "items.txt"), pandas.DataFrame({"a": ITEMS})):
        release = session.top_k(
            "what", domain=domain, at_most="5.0", epsilon="1.00", method="best", **sums
        )
        assert release.made.again


@pytest.mark.parametrize(
    "change",
    [
        {"k": 2},
        {"epsilon": "1/2"},
        {"method": "paper"},
        {"domain": ITEMS[::-1]},
        {"where": "paid > 1"},
        {"max_items": 1},
        {"sum": "paid", "at_most": 5},
        {"by": "where", "groups": ["CH"], "max_groups": 1},
    ],
)
def test_another_question_is_paid_for(change: dict[str, Any], session: dpgap.Session) -> None:
    asked: dict[str, Any] = {"domain": ITEMS, "k": 1, "epsilon": 1}
    session.top_k("what", **asked)
    assert not session.top_k("what", **asked | change).made.again


def test_domains_that_stay_in_an_engine_are_told_apart() -> None:
    with duckdb.connect() as connection:
        sold, fruit, pulse = (
            connection.sql(f"SELECT * FROM (VALUES {rows}) AS _({names})")
            for rows, names in (
                ("(1, 'fig'), (2, 'fig'), (3, 'pea')", "who, what"),
                ("('fig'), ('oat')", "name"),
                ("('pea'), ('oat')", "name"),
            )
        )
        with dpgap.Session(sold, unit="who", epsilon=9000) as session:
            for domain, label, is_again in (
                (fruit, "fig", False),
                (pulse, "pea", False),
                (fruit, "fig", True),
            ):
                release = session.top_k("what", domain=domain, k=1, epsilon=1000)
                assert (release.labels, release.made.again) == ((label,), is_again)
            session.close()
            assert session.top_k("what", domain=fruit, k=1, epsilon=1000).made.again


def test_fresh_pays_for_the_rows_as_they_are_now() -> None:
    sold = SOLD.copy()
    session = dpgap.Session(sold, unit="who", epsilon=9000)
    ask: dict[str, Any] = {"domain": ITEMS, "k": 1, "epsilon": 1000}
    assert session.top_k("what", **ask).labels == ("fig",)
    assert session.count(epsilon=1000).estimate == 900
    sold["what"] = "pea"
    sold["who"] = range(1800)
    assert session.top_k("what", **ask).labels == ("fig",)
    assert session.count(epsilon=1000).estimate == 900
    assert session.top_k("what", **ask, fresh=True).labels == ("pea",)
    assert session.count(epsilon=1000, fresh=True).estimate == 1800
    assert session.releases[0].epsilon == 1000


def test_one_unit_more_does_not_decide_whether_an_answer_is_free() -> None:
    sold = SOLD.copy()
    session = dpgap.Session(sold, unit="who", epsilon=9)
    first = session.count(epsilon=1)
    sold.loc[len(sold)] = [901, "oat", "CH", 1.0]
    assert session.count(epsilon=1).to_json() == first.to_json()
