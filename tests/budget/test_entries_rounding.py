"""Charges are multiples of one small unit: a book stays short, and never says too little."""

from fractions import Fraction

import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

import dpgap
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import UNIT, Cost, Limit
from dpgap.budget.entries import Author
from dpgap.budget.ledger import Ledger, LedgerError

ODD = 10**40
WHO = Author("ann@lab", "2025")


def _charged(epsilon: Fraction) -> Fraction:
    return Cost.pure(epsilon).up().pure_epsilon


def _granted(epsilon: Fraction) -> Fraction:
    return Limit("epsilon", epsilon).down().amount


@given(st.fractions(min_value=0, max_value=10), st.fractions(min_value=0, max_value=10))
def test_a_charge_goes_up_a_total_down_and_both_keep_their_order(a: Fraction, b: Fraction) -> None:
    for exact in (a, b):
        assert _granted(exact) <= exact <= _charged(exact)
        assert _charged(exact) - _granted(exact) in (0, UNIT)
        assert (_charged(exact) / UNIT).denominator == 1
    low, high = sorted((a, b))
    assert _charged(low) <= _charged(high)


@pytest.mark.parametrize("plain", ["1/3", "0.1", "2/7", "1/24", "1e-30", "5"])
def test_ordinary_charges_are_not_rounded_at_all(plain: str) -> None:
    assert _charged(Fraction(plain)) == _granted(Fraction(plain)) == Fraction(plain)


def test_hundreds_of_odd_denominators_do_not_stop_the_book(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    exact = Fraction(0)
    for place in range(130):
        reservation = account.reserve(
            Cost.pure(Fraction(1, 1000) + Fraction(1, ODD + place)), "a release"
        )
        cost = Fraction(1, 2000) + Fraction(1, ODD - place)
        exact += cost
        reservation.settle(Cost.pure(cost))
    assert exact <= account.spent < exact + 130 * UNIT
    assert account.reserved == 0
    assert account.spent.denominator <= UNIT.denominator
    assert account.ledger.verify("sales") == []


def test_a_release_reports_its_cost_exactly_though_the_book_rounds_it_up(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    release = dpgap.NoisyMax(epsilon="1/29").release([9, 2], account=account)
    assert release.epsilon == Fraction(1, 29)
    assert account.spent == _charged(Fraction(1, 29)) > Fraction(1, 29)


def test_a_total_is_rounded_down_and_must_be_more_than_nothing(url: str) -> None:
    ledger = Ledger(url)
    assert ledger.create("sales", Fraction(1, 29)).total == _granted(Fraction(1, 29))
    with pytest.raises(ValueError, match="rounds down to 0"):
        ledger.create("clinic", UNIT / 2)
    assert ledger.datasets() == ["sales"]


def test_what_is_left_must_cover_the_rounded_charge(url: str) -> None:
    account = Ledger(url).create("sales", Fraction(1, 29))
    with pytest.raises(dpgap.BudgetExhausted) as refusal:
        account.reserve(Cost.pure(Fraction(1, 29)), "all of it")
    assert _granted(Fraction(1, 29)) < _charged(Fraction(1, 29))
    assert "remaining ε ≈ 0.0344827, requested ε ≈ 0.0344828" in str(refusal.value)
    account.reserve(Cost.pure(Fraction(1, 30)), "less").settle(Cost.pure(Fraction(1, 30)))
    assert account.ledger.verify("sales") == []


def test_what_a_refusal_says_is_left_can_be_asked_for(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    account.reserve(Cost.pure(Fraction(1011, 10007)), "it leaves 0.8989707…")
    with pytest.raises(
        dpgap.BudgetExhausted, match=r"reserved ε ≈ 0\.10103, remaining ε ≈ 0\.89897,"
    ):
        account.reserve(Cost.pure(Fraction(1)), "too much")
    account.reserve(Cost.pure(Fraction("0.89897")), "what was said to be left")
    purse = InMemoryBudget(Limit("epsilon", Fraction(9013, 10007)))  # 0.9006695…
    with pytest.raises(dpgap.BudgetExhausted, match=r"and ε ≈ 0\.900669 is left:"):
        purse.reserve(Cost.pure(Fraction(1)), "too much")
    purse.reserve(Cost.pure(Fraction("0.900669")), "what was said to be left")


def test_what_is_settled_may_be_nothing_but_never_less_or_more_than_was_reserved(url: str) -> None:
    account = Ledger(url).create("sales", 1)
    reservation = account.reserve(Cost.pure(Fraction(1, 2)), "a release")
    with pytest.raises(ValueError, match="cost must not be less than 0"):
        reservation.settle(Cost.pure(-UNIT / 2))
    with pytest.raises(ValueError, match=r"cost must be at most what was reserved, ε = 0\.5, not"):
        reservation.settle(Cost.pure(Fraction(1, 2) + UNIT / 2))
    reservation.settle(Cost.pure(Fraction(0)))
    assert account.remaining == 1


def test_a_number_too_large_for_a_book_is_refused_where_it_enters(url: str) -> None:
    ledger = Ledger(url)
    with pytest.raises(ValueError, match="epsilon must be less than"):
        ledger.create("sales", 10**100)
    account = ledger.create("sales", 10**100 - 1)
    with pytest.raises(ValueError, match="epsilon must be less than"):
        ledger.steward("sales").allow("ann", 10**100)
    with pytest.raises(dpgap.BudgetExhausted):
        account.reserve(Cost.pure(Fraction(10**5000)), "too much")


def test_verifying_reports_what_cannot_be_read_and_goes_on(url: str) -> None:
    ledger = Ledger(url)
    for name, number in (("clinic", "9e999999999"), ("sales", "1" * 5_000)):
        ledger.create(name, 1)
        with ledger._store.engine.begin() as connection:
            edit = f"UPDATE dpgap_entries SET body = replace(body, '\"0\"', '\"{number}\"') "
            connection.execute(sql.text(f"{edit} WHERE dataset = '{name}'"))
    assert ledger.verify() == [
        "clinic: entry 0 was edited: it cannot be read",
        "sales: entry 0 was edited: it cannot be read",
    ]
    with pytest.raises(LedgerError, match="entry 0 was edited: it cannot be read"):
        ledger.account("sales")
