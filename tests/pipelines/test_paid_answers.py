"""What a ledger has paid for: archived before it is handed out, and shown again free of charge."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import dpgap
from dpgap.budget.account import AlreadyCharged, RefusedRequest
from dpgap.budget.ledger import Ledger, LedgerAccount
from dpgap.releases.document import SHOWN, handed_out
from seams import FailingBits, bits_are

ITEMS = [f"item {place}" for place in range(12)]
FACTS: dict[str, Any] = {"unit": "who", "item": "what", "domain": ITEMS}


def sold(units: int) -> polars.DataFrame:
    rows = [(who, name) for place, name in enumerate(ITEMS) for who in range(9 * place, units)]
    return polars.DataFrame(rows, schema=["who", "what"], orient="row")


@pytest.fixture
def table(tmp_path: Path) -> str:
    sold(900).write_parquet(tmp_path / "sold.parquet")
    return str(tmp_path / "sold.parquet")


@pytest.fixture
def account(tmp_path: Path) -> LedgerAccount:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 100)


def ask(table: Any, account: LedgerAccount, **changes: Any) -> Any:
    return dpgap.top_k(table, **{**FACTS, "k": 3, "epsilon": 1, "account": account, **changes})


def ask_above(table: Any, account: LedgerAccount, **changes: Any) -> Any:
    asked = {**FACTS, "threshold": 700, "k": 3, "epsilon": 1, "account": account, **changes}
    return dpgap.above(table, **asked)


@pytest.mark.parametrize("question", [ask, ask_above])
def test_the_same_question_shows_the_paid_answer_and_charges_nothing(
    question: Any, table: str, account: LedgerAccount
) -> None:
    first = question(table, account)
    spent = account.spent
    second = question(table, account)
    assert account.spent == spent == first.spent
    assert second.to_json() == first.to_json()
    assert second.made.again
    assert not first.made.again


@pytest.mark.parametrize(
    "changes",
    [{"fresh": True}, {"k": 4}, {"epsilon": 2}, {"method": "paper"}, {"domain": ITEMS[:-1]}],
)
def test_another_question_or_fresh_noise_is_paid_for(
    changes: dict[str, Any], table: str, account: LedgerAccount
) -> None:
    first = ask(table, account)
    second = ask(table, account, **changes)
    assert account.spent == first.epsilon + second.epsilon
    assert not second.made.again


def test_the_same_question_is_known_however_it_is_put(table: str, account: LedgerAccount) -> None:
    first = ask(table, account, epsilon="0.5")
    again = ask(
        str(Path(table).parent / ".." / Path(table).parent.name / "sold.parquet"),
        account,
        epsilon=Fraction(1, 2),
        method="best",
        domain=tuple(ITEMS),
        neighbours="add-or-remove",
    )
    assert again.made.again
    assert again.to_json() == first.to_json()


def test_a_domain_in_a_file_that_was_changed_makes_another_question(
    table: str, account: LedgerAccount, tmp_path: Path
) -> None:
    public = tmp_path / "items.parquet"
    for items, is_paid in ((ITEMS, False), (ITEMS, True), ([*ITEMS[1:], "another"], False)):
        polars.DataFrame({"name": items}).write_parquet(public)
        assert ask(table, account, domain=f"{public}:name").made.again == is_paid
    assert account.spent == 2


def test_items_of_a_set_are_the_same_question_in_each_process(tmp_path: Path) -> None:
    table = tmp_path / "sold.csv"
    table.write_text("who,what,where\n" + "ann,fig,CH\n" * 9)
    url = f"sqlite:///{tmp_path}/of_sets.db"
    Ledger(url).create("sold", 9)
    program = f"""
import dpgap
account = dpgap.Ledger({url!r}).account("sold")
asked = {{"unit": "who", "item": "what", "k": 1, "epsilon": 1, "account": account}}
asked["domain"] = {{"fig", "pea", "oat", "rye", "yam", "nut"}}
dpgap.top_k({str(table)!r}, **asked)
countries = frozenset(["AT", "CH", "DE", "FR", "IT", "LI"])
dpgap.top_k({str(table)!r}, by="where", groups=countries, max_groups=1, **asked)
"""
    for seed in ("1", "2", "3"):  # the order of a set follows from it
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        assert Ledger(url).account("sold").spent == 2


def test_a_paid_answer_is_shown_again_however_long_it_is(
    table: str, account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(table, account)
    monkeypatch.setattr("dpgap.releases.plain.MOST", 100)
    monkeypatch.setattr("dpgap.releases.plain._MOST_BRACKETS", 2)
    assert ask(table, account).to_json() == first.to_json()


def test_a_frame_has_no_name_so_each_answer_is_paid_for(account: LedgerAccount) -> None:
    ask(sold(900), account)
    assert not ask(sold(900), account).made.again
    assert account.spent == 2
    for call in (dpgap.top_k, dpgap.above, dpgap.count, dpgap.total, dpgap.Session.top_k):
        words = " ".join((call.__doc__ or "").split())
        assert "a frame has no name, so only a session knows its questions" in words


def test_one_unit_more_does_not_decide_whether_a_paid_answer_is_shown(
    table: str, account: LedgerAccount
) -> None:
    first = ask(table, account)
    sold(901).write_parquet(table)
    assert ask(table, account).to_json() == first.to_json()


@pytest.mark.parametrize("question", [ask, ask_above])
def test_an_answer_is_in_the_archive_as_it_was_handed_out(
    question: Any, table: str, account: LedgerAccount
) -> None:
    release = question(table, account)
    (entry,) = account.archive()
    kept = account.document(entry.number)
    assert not json.loads(kept).keys() & set(SHOWN)  # they are made of it, and after it
    assert handed_out(kept) == release.to_json()
    assert (release.made.ledger.dataset, release.made.ledger.entry) == ("sales", entry.reservation)
    assert str(dpgap.read_release(kept)) == str(release)
    book = account.ledger.entries("sales")
    assert book[entry.reservation].hash == release.made.ledger.hash
    assert book[entry.reservation].purpose == release.question.purpose


MECHANISMS: list[Any] = [
    dpgap.NoisyTopK(2, 1),
    dpgap.NoisyMax(1),
    dpgap.JointTopK(2, 1),
    dpgap.SparseVector(50, 2, 1),
    dpgap.AdaptiveSparseVector(50, 2, 1),
    dpgap.Laplace(1),
    dpgap.CountHull(1, monotonic=True),
    dpgap.Cube(1),
    dpgap.MeasuredTopK(2, 1),
    dpgap.MeasuredAbove(50, 2, 1),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda it: type(it).__name__)
def test_what_a_mechanism_releases_is_archived_too(mechanism: Any, account: LedgerAccount) -> None:
    release = mechanism.release([90, 20, 70, 10], account=account)
    (entry,) = account.archive()
    kept: Any = dpgap.read_release(account.document(entry.number))
    assert kept.made == release.made
    assert kept.made.ledger.entry == entry.reservation
    assert account.spent == release.cost.up().epsilon
    shown = "indices" if hasattr(release, "indices") else "values"
    assert np.array_equal(getattr(kept, shown), getattr(release, shown))


def test_a_request_that_is_sent_twice_is_charged_once_and_gets_its_answer(
    account: LedgerAccount,
) -> None:
    frame, request = sold(900), account.of(key="monday")
    first = ask(frame, request)
    again = ask(frame, request)
    assert account.spent == 1
    assert again.made.again
    assert again.to_json() == first.to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": [*ITEMS[1:], "another"]},
        {"domain": ITEMS[:-1]},
        {"method": "paper"},
        {"split": Fraction(1, 3)},
        {"neighbours": "replace"},
    ],
)
def test_a_key_shows_no_answer_to_another_question_of_a_frame(
    changes: dict[str, Any], account: LedgerAccount
) -> None:
    frame, request = sold(900), account.of(key="monday")
    ask(frame, request)
    with pytest.raises(RefusedRequest, match="used for another request"):
        ask(frame, request, **changes)
    assert account.spent == 1


def test_a_key_shows_no_answer_of_the_other_way_to_spend(account: LedgerAccount) -> None:
    frame, request = sold(900), account.of(key="monday")
    ask_above(frame, request, adaptive=True)
    with pytest.raises(RefusedRequest, match="used for another request"):
        ask_above(frame, request, adaptive=False)


def test_a_key_gets_its_own_answer_however_often_the_question_was_asked_since(
    table: str, account: LedgerAccount
) -> None:
    request = account.of(key="monday")
    first = ask(table, request)
    newer = ask(table, account, fresh=True)
    again = ask(table, request)
    assert (again.made.ledger, again.to_json()) == (first.made.ledger, first.to_json())
    assert again.made.ledger != newer.made.ledger
    assert account.spent == 2


def test_a_key_under_way_is_not_answered_by_somebody_else(
    table: str, account: LedgerAccount
) -> None:
    request = account.of(key="monday")
    counted = dpgap.counts(table, **FACTS)
    with bits_are(FailingBits(ArithmeticError)), pytest.raises(ArithmeticError):
        dpgap.top_k(counted, k=3, epsilon=1, account=request)
    ask(table, account)
    with pytest.raises(AlreadyCharged, match="entry 1, and is under way"):
        ask(table, request)


@pytest.fixture
def next_period(account: LedgerAccount, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Renew the budget every day, and let a day pass."""

    def pass_a_day() -> None:
        account.ledger.steward("sales").renew(every="day", epsilon=100)
        later = datetime.now(UTC) + timedelta(1)
        at = later.isoformat(timespec="microseconds")
        monkeypatch.setattr("dpgap.budget.store.Rows.now", lambda _: at)

    return pass_a_day


def test_a_key_whose_answer_was_free_keeps_it_after_a_renewal(
    table: str, account: LedgerAccount, next_period: Callable[[], None]
) -> None:
    free = account.of("bob", key="tuesday")
    first = ask(table, account)
    for _ in range(2):
        assert ask(table, free).to_json() == first.to_json()
    next_period()
    assert ask(table, free).to_json() == first.to_json()
    assert account.spent == 1
    assert not ask(table, account).made.again
    assert ask(table, free).to_json() == first.to_json()
    assert account.spent == 2
    assert account.ledger.verify() == []
    answered = free.answered("tuesday")
    assert (answered.entry, answered.again) == (first.made.ledger.entry, True)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_key_whose_answer_was_free_is_refused_for_another_question(
    fresh: bool, table: str, account: LedgerAccount
) -> None:
    ask(table, account)
    free = account.of(key="tuesday")
    ask(table, free)
    with pytest.raises(RefusedRequest, match="used for another request"):
        ask(table, free, k=4, fresh=fresh)
    assert account.spent == 1


def test_a_free_answer_takes_nothing_from_anybody(table: str, account: LedgerAccount) -> None:
    account.ledger.steward("sales").allow("bob", "1/2")
    ask(table, account)
    account.ledger.steward("sales").close(reason="no more")
    assert ask(table, account.of("bob", key="tuesday")).made.again
    assert ask(table, account.of("bob")).made.again
    (bob,) = (entry for entry in account.ledger.people("sales") if entry.person == "bob")
    assert (bob.kind, bob.person_spent.epsilon) == ("again", 0)
    assert bob.allowance is not None
    assert bob.allowance.epsilon == Fraction(1, 2)
    assert account.ledger.verify() == []


def test_a_request_under_way_is_not_answered_twice(account: LedgerAccount) -> None:
    counted = dpgap.counts(sold(900), **FACTS)
    request = account.of(key="monday")

    with bits_are(FailingBits(ArithmeticError)), pytest.raises(ArithmeticError):
        dpgap.top_k(counted, k=3, epsilon=1, account=request)
    with pytest.raises(AlreadyCharged, match="under way"):
        dpgap.top_k(counted, k=3, epsilon=1, account=request)
    assert (account.spent, account.reserved) == (0, 1)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"unit": "household"}, "unit 'household'"),
        ({"neighbours": "replace"}, "neighbours 'replace'"),
        ({"table": "bought.parquet"}, "table 'bought.parquet'"),
        ({"columns": [("who", "integer"), ("what", "integer")]}, "other columns"),
    ],
)
def test_a_question_that_contradicts_the_budget_is_refused_before_any_charge(
    stated: dict[str, Any], words: str, table: str, tmp_path: Path
) -> None:
    bound = Ledger(f"sqlite:///{tmp_path}/bound.db").create("sales", 1, **stated)
    with pytest.raises(RefusedRequest, match=words):
        ask(table, bound)
    assert (bound.spent, bound.reserved) == (0, 0)


def test_a_budget_bound_to_its_table_pays_for_it(table: str, tmp_path: Path) -> None:
    columns = [("who", "integer"), ("what", "text")]
    facts = {"table": table, "unit": "who", "neighbours": "add-or-remove", "columns": columns}
    bound = Ledger(f"sqlite:///{tmp_path}/bound.db").create("sales", 1, **facts)
    assert ask(table, bound).epsilon == bound.spent == 1


def test_what_is_not_private_is_paid_for_by_nobody(table: str, account: LedgerAccount) -> None:
    with pytest.raises(RefusedRequest, match="would not be private"):
        ask(table, account, domain="observed-not-private")
    assert account.spent == 0


def _numbered(folder: Path) -> str:
    numbers = [(who, who % 3, who % 2) for who in range(900)]
    path = folder / "numbered.parquet"
    polars.DataFrame(numbers, schema=["who", "what", "where"], orient="row").write_parquet(path)
    return str(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [([0, 1, 2], ["0", "1", "2"]), (range(3), ["0", "1", "2"]), ([0, 2], ["0", 2]), ([2], ["2"])],
)
def test_items_that_read_the_same_and_differ_are_other_questions(
    one: Any, other: Any, tmp_path: Path, account: LedgerAccount
) -> None:
    table = _numbered(tmp_path)
    for domain in (one, other, one, other):
        labels = ask(table, account, domain=domain, k=1).labels
        assert labels in [(label,) for label in domain if type(label) is type(labels[0])]
    assert len(account.archive()) == 2


def test_groups_that_read_the_same_and_differ_are_other_questions(
    tmp_path: Path, account: LedgerAccount
) -> None:
    table = _numbered(tmp_path)
    for groups in ([0, 1], ["0", "1"], ["0", 1]):
        released = ask(
            table, account, domain=range(3), k=1, by="where", groups=groups, max_groups=1
        )
        assert [*released] == groups
    assert len(account.archive()) == 3
