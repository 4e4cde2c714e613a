"""What is written lasts: a ledger says which layout it has, and a later one is refused."""

import hashlib
import json
from fractions import Fraction

import pytest
import sqlalchemy as sql

from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from dpgap.budget.store import Store


def test_a_ledger_of_a_later_layout_is_refused_in_plain_words(url: str) -> None:
    Ledger(url).create("sales", 1)
    with Store(url).engine.begin() as connection:
        connection.execute(sql.text("UPDATE dpgap_layout SET layout = 2"))
    for use in (
        lambda: Ledger(url).account("sales"),
        lambda: Ledger(url).create("clinic", 1),
        lambda: Ledger(url).datasets(),
        lambda: Ledger(url).verify(),
        lambda: LedgerAccount(Ledger(url), "sales").reserve(Cost.pure(Fraction(1)), "top 1"),
    ):
        with pytest.raises(LedgerError, match=r"has layout 2, which a later dpgap made.*update"):
            use()


def test_an_entry_of_a_later_version_stops_a_ledger_that_was_open_before(url: str) -> None:
    """Whoever changes the layout ends every book with an entry of a later version."""
    account = Ledger(url).create("sales", 1)
    with account.ledger._store.engine.begin() as connection:
        later = "UPDATE dpgap_entries SET body = replace(body, '\"version\":1', '\"version\":2')"
        connection.exec_driver_sql(later)
    with pytest.raises(LedgerError, match="made by a later dpgap, which knows another version: up"):
        account.reserve(Cost.pure(Fraction(1)), "top 1")


def test_the_hash_of_every_entry_is_that_of_its_body(url: str) -> None:
    """Any program can check the chain: nothing but SHA-256 of the text that is stored."""
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1, 4)), "top 1").settle(Cost.pure(Fraction(1, 8)))
    with account.ledger._store.engine.begin() as connection:
        rows = connection.execute(sql.text("SELECT body, hash FROM dpgap_entries")).all()
    assert len(rows) == 3
    for row in rows:
        assert hashlib.sha256(row.body.encode()).hexdigest() == row.hash
        assert json.loads(row.body)["version"] == 1
