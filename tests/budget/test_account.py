"""Pay first: reserve before noise is drawn, settle after, lose nothing on a refusal."""

from collections.abc import Iterator
from fractions import Fraction

import pytest

import dpgap
from seams import SpyAccount, WatchedBits, bits_are

ANSWERS = [900, 800, 5, 3]


@pytest.fixture
def account() -> Iterator[SpyAccount]:
    """An account whose diary also says when bits are asked for."""
    spy = SpyAccount()
    with bits_are(WatchedBits(lambda: spy.diary.append(("draw",)))):
        yield spy


RELEASES = [
    (dpgap.NoisyTopK(2, 1), 1),
    (dpgap.NoisyMax(1), 1),
    (dpgap.JointTopK(2, 1), 1),
    (dpgap.Laplace(1), 1),
    (dpgap.MeasuredTopK(2, 1, method="paper"), 1),
    (dpgap.SparseVector(100, 2, 1, monotonic=True), 1),
]


@pytest.mark.parametrize(("mechanism", "spent"), RELEASES, ids=repr)
def test_a_release_reserves_before_it_draws_and_settles_after(mechanism, spent, account):
    mechanism.release(ANSWERS, account=account)
    kinds = [entry[0] for entry in account.diary]
    assert kinds[0] == "reserve"
    assert kinds[-1] == "settle"
    assert set(kinds[1:-1]) == {"draw"}
    assert account.diary[0][1] == 1
    assert account.diary[-1][1] == spent
    assert "900" not in account.diary[0][2]


def test_what_an_adaptive_release_did_not_use_is_credited(account):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    release = mechanism.release([10**6, 10**6, 1], account=account, max_answers=2)
    assert account.diary[0][:2] == ("reserve", 1)
    assert account.diary[-1] == ("settle", release.spent)
    assert release.spent < 1


def test_an_account_that_cannot_pay_stops_the_release_before_any_draw(account):
    account.total = Fraction(1, 2)
    for mechanism, _ in RELEASES:
        with pytest.raises(dpgap.BudgetExhausted):
            mechanism.release(ANSWERS, account=account)
    assert account.diary == []


def test_a_refused_release_charges_nothing(account):
    for mechanism, _ in RELEASES:
        with pytest.raises(ValueError, match="must not be empty"):
            mechanism.release([], account=account)
    with pytest.raises(ValueError, match="labels"):
        dpgap.NoisyTopK(1, 1).release([1, 2], labels=["a"], account=account)
    with pytest.raises(ValueError, match="max_answers"):
        dpgap.SparseVector(0, 1, 1).release([1], max_answers=0, account=account)
    assert account.diary == []


def test_a_run_reserves_everything_and_settles_when_it_is_left(account):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    with mechanism.start(account=account) as run:
        assert [entry[:2] for entry in account.diary] == [("reserve", 1)]
        run.ask(10**6)
        spent = run.spent
    assert account.diary[-1] == ("settle", spent)


def test_a_run_left_by_an_error_keeps_its_reservation(account):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    run = mechanism.start(account=account)

    def ask_and_fail() -> None:
        with run:
            run.ask(10**6)
            raise KeyError("the caller's own trouble")

    with pytest.raises(KeyError):
        ask_and_fail()
    assert "settle" not in [entry[0] for entry in account.diary]
    run.close()
    assert "settle" not in [entry[0] for entry in account.diary]


def test_a_run_left_because_it_is_exhausted_settles(account):
    mechanism = dpgap.SparseVector(100, 1, 1, monotonic=True)

    def ask_too_much() -> None:
        with mechanism.start(account=account) as run:
            run.ask(10**6)
            run.ask(10**6)

    with pytest.raises(dpgap.BudgetExhausted):
        ask_too_much()
    assert account.diary[-1] == ("settle", 1)
