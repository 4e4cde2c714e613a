"""A budget that states its table pays for nothing that contradicts it."""

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpgap.budget.account import RefusedRequest, Request
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerAccount
from dpgap.budget.requests import refuse_contradiction, stated_facts

COLUMNS = [("customer", "integer"), ("product", "text")]
FACTS = {
    "table": "postgresql://host/shop?schema=public&table=sales",
    "unit": "customer",
    "neighbours": "add-or-remove",
    "columns": [["product", "text"], ["customer", "integer"]],
    "private": True,
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "table": (
        {"table": "postgresql://host/shop?schema=public&table=log"},
        r"is for the table 'postgresql://.*=sales'.*has the table .*=log'.*`dpgap ledger bind`",
    ),
    "unit": (
        {"unit": "row"},
        "is for the unit 'customer', and this release has the unit 'row': use",
    ),
    "neighbours": (
        {"neighbours": "replace"},
        "is for the neighbours 'add-or-remove', and this release has the neighbours 'replace'",
    ),
    "a column more": (
        {"columns": [*FACTS["columns"], ["price", "float"]]},
        r"Only in that table: none\. Only in the table of this release: price \(float\)\. So use",
    ),
    "another type": (
        {"columns": [["product", "text"], ["customer", "text"]]},
        r"that table: customer \(integer\)\. Only in the table of this release: customer \(text\)",
    ),
    "not private": ({"private": False}, "would not be private.* state a public domain"),
}


@pytest.fixture
def account(url: str) -> LedgerAccount:
    return Ledger(url).create(
        "sales",
        1,
        table=FACTS["table"],
        unit="customer",
        neighbours="add-or-remove",
        columns=COLUMNS,
    )


def _ask(account: LedgerAccount, **facts: Any) -> None:
    request = Request(
        Cost.pure(Fraction(1, 4)), "top 10 of product by customer", facts=FACTS | facts
    )
    account.reserve_for(request).settle(Cost.pure(Fraction(1, 4)))


def test_a_column_that_does_not_state_its_type_contradicts_none(account: LedgerAccount) -> None:
    _ask(account, columns=[["product", "any"], ["customer", "any"]])
    _ask(account, columns=[["product", "any"], ["customer", "integer"]])
    with pytest.raises(RefusedRequest, match=r"Only in the table of this release: price \(any\)"):
        _ask(account, columns=[["product", "any"], ["customer", "any"], ["price", "any"]])
    with pytest.raises(RefusedRequest, match=r"in that table: product \(text\)"):
        _ask(account, columns=[["customer", "any"]])


def test_what_agrees_is_paid_for_and_the_entry_says_what_was_asked(account: LedgerAccount) -> None:
    _ask(account)
    entry = account.ledger.entries("sales")[1]
    assert entry.purpose == "top 10 of product by customer"
    assert entry.extra["asked"]["unit"] == "customer"
    assert account.spent == Fraction(1, 4)


@pytest.mark.parametrize("what", WRONG)
def test_what_contradicts_is_refused_before_any_charge(account: LedgerAccount, what: str) -> None:
    facts, words = WRONG[what]
    with pytest.raises(RefusedRequest, match=words):
        _ask(account, **facts)
    assert len(account.ledger.entries("sales")) == 1


def test_what_is_not_said_contradicts_nothing(account: LedgerAccount) -> None:
    _ask(account, table=None, columns=[])
    account.reserve(Cost.pure(Fraction(1, 4)), "a bare array").settle(Cost.pure(Fraction(1, 4)))
    assert account.spent == Fraction(1, 2)


def test_no_budget_pays_for_what_is_not_private(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    with pytest.raises(RefusedRequest, match="would not be private"):
        _ask(account, private=False)
    _ask(account, table="anything", unit="row")
    assert account.spent == Fraction(1, 4)


def test_a_steward_can_state_the_table_anew_and_the_newest_word_counts(
    account: LedgerAccount,
) -> None:
    steward = account.ledger.steward("sales")
    steward.bind(table="log", unit="row", reason="it was the wrong table")
    with pytest.raises(RefusedRequest, match="is for the table 'log'"):
        _ask(account)
    _ask(account, table="postgresql://host/shop?schema=public&table=log", unit="row", columns=[])
    steward.raise_to(2, reason="more")
    with pytest.raises(RefusedRequest, match="is for the table 'log'"):
        _ask(account)
    with pytest.raises(ValueError, match="table, unit, neighbours or columns must be given"):
        steward.bind(reason="nothing")
    assert account.ledger.verify() == []


@pytest.mark.parametrize(
    ("stated", "asked", "agree"),
    [
        ("sales.csv", "/srv/sales.csv", True),
        ("sales.csv", "/srv/log.csv", False),
        ("sales", "postgresql://host/shop?schema=public&table=sales", True),
        ("sales", "postgresql://host/sales?schema=public&table=log", False),
        ("/srv/sales.csv", "/srv/sales.csv", True),
        ("/srv/sales.csv", "/other/sales.csv", False),
        ("duckdb:///srv/a.db?table=sales", "duckdb:///srv/b.db?table=sales", False),
    ],
)
def test_a_table_is_stated_by_its_address_or_its_name(stated: str, asked: str, agree: bool) -> None:
    facts = stated_facts(stated, None, None, None)
    try:
        refuse_contradiction("sales", facts, {"table": asked})
    except RefusedRequest:
        assert not agree
    else:
        assert agree


def test_a_file_that_is_there_is_stated_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "sales.csv")
    facts = stated_facts(str(tmp_path / "link.csv"), None, None, None)
    assert facts is not None
    assert facts["table"] == os.path.realpath(tmp_path / "sales.csv")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"table": "postgresql://ann:hunter2@host/shop?table=sales"}, "without a user"),
        ({"table": "postgresql://host/shop?table=sales&password=hunter2"}, "without a user"),
        ({"table": ""}, "table must be a name"),
        ({"unit": ""}, "unit must be a name"),
        ({"neighbours": "friends"}, "neighbours must be one of 'add-or-remove', 'replace'"),
    ],
)
def test_what_cannot_be_stated_is_refused_and_opens_no_budget(
    wrong: dict[str, Any], words: str, folder: Path
) -> None:
    ledger = Ledger(f"sqlite:///{folder}/budget.db")
    with pytest.raises(ValueError, match=words) as refusal:
        ledger.create("sales", 1, **wrong)
    assert "hunter2" not in str(refusal.value)
    assert list(folder.iterdir()) == []


def test_a_table_without_stated_neighbours_is_one_that_units_are_added_to_or_removed_from() -> None:
    stated = stated_facts("sales", "customer", None, None)
    with pytest.raises(RefusedRequest, match="is for the neighbours 'add-or-remove'"):
        refuse_contradiction("sales", stated, {"neighbours": "replace"})
    unstated = stated_facts(None, "customer", None, None)
    refuse_contradiction("sales", unstated, {"neighbours": "replace"})


SPELT = [
    "postgresql://host/shop?schema=public&table=sales",
    "postgres://HOST:5432/shop?table=sales&schema=public&sslmode=require",
]


@pytest.mark.parametrize("table", SPELT)
@pytest.mark.parametrize("unit", ["customer", None])
def test_a_second_budget_for_the_same_table_and_unit_is_refused_unless_it_is_meant(
    account: LedgerAccount, table: str, unit: str | None
) -> None:
    ledger = account.ledger
    with pytest.raises(
        ValueError, match=r"'sales' has a budget for the same table.*beside='sales'"
    ):
        ledger.create("survey", 1, table=table, unit=unit)
    with pytest.raises(
        ValueError, match=r"beside must name .* same table and unit, not 'clinic': there is 'sales'"
    ):
        ledger.create("survey", 1, table=table, unit=unit, beside="clinic")
    assert ledger.datasets() == ["sales"]
    ledger.create("survey", 1, table=table, unit=unit, beside="sales")
    assert ledger.entries("survey")[0].extra["beside"] == "sales"
    assert (ledger.beside("sales"), ledger.beside("survey")) == (["survey"], ["sales"])
    assert ledger.verify() == []


OTHERS: dict[str, dict[str, Any]] = {
    "another table": {"table": "postgresql://host/shop?schema=public&table=log"},
    "another port": {"table": "postgresql://host:5433/shop?schema=public&table=sales"},
    "another unit": {"unit": "row"},
    "no table, as with a frame": {"table": None},
}


@pytest.mark.parametrize("other", OTHERS)
def test_budgets_for_other_tables_or_units_and_for_frames_stand_alone(
    account: LedgerAccount, other: str
) -> None:
    facts = {"table": FACTS["table"], "unit": "customer"} | OTHERS[other]
    account.ledger.create("survey", 1, **facts)
    assert account.ledger.beside("survey") == []
    with pytest.raises(ValueError, match="same table and unit, not 'sales': there is none"):
        account.ledger.create("another", 1, table="elsewhere", beside="sales")


def test_a_budget_is_not_bound_to_the_table_of_another_unless_it_is_meant(
    account: LedgerAccount,
) -> None:
    ledger = account.ledger
    ledger.create("survey", 1)
    steward, facts = ledger.steward("survey"), {"table": FACTS["table"], "unit": "customer"}
    with pytest.raises(
        ValueError, match=r"'sales' has a budget for the same table.*beside='sales'"
    ):
        steward.bind(**facts, reason="moved")
    assert len(ledger.entries("survey")) == 1
    assert steward.bind(**facts, beside="sales", reason="meant").extra["beside"] == "sales"
    ledger.steward("sales").bind(unit="household", reason="the other survey has the table now")
    assert ledger.beside("survey") == []
    assert ledger.verify() == []


def test_the_same_file_is_one_table_whichever_way_its_path_is_written(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "sales.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "sales.csv")
    ledger = Ledger(url)
    ledger.create("sales", 1, table=str(tmp_path / "sales.csv"), unit="customer")
    with pytest.raises(ValueError, match="has a budget for the same table and unit"):
        ledger.create("survey", 1, table=str(tmp_path / "link.csv"), unit="customer")
