"""Pay first: reserve before noise is drawn, settle after, lose nothing on a refusal."""

from fractions import Fraction

import pytest

import dpgap
from dpgap.exact import draws as exact
from dpgap.mechanisms.measuring import measurement
from dpgap.mechanisms.sparse_vector import mechanism as sparse_vector
from dpgap.mechanisms.top_k import mechanism as top_k

ANSWERS = [900, 800, 5, 3]


class Account:
    """An account that keeps a diary."""

    def __init__(self, diary: list[tuple], total: Fraction = Fraction(10)) -> None:
        self.diary = diary
        self.total = total

    def reserve(self, epsilon: Fraction, purpose: str) -> "Account":
        if epsilon > self.total:
            raise dpgap.BudgetExhausted("not enough")
        self.diary.append(("reserve", epsilon, purpose))
        return self

    def settle(self, epsilon: Fraction) -> None:
        self.diary.append(("settle", epsilon))


@pytest.fixture
def diary(monkeypatch) -> list[tuple]:
    """What happened, bits drawn included."""
    entries: list[tuple] = []

    def noting(original):
        def secure_bits():
            entries.append(("draw",))
            return original()

        return secure_bits

    for module in (exact, measurement, sparse_vector, top_k):
        monkeypatch.setattr(module, "secure_bits", noting(module.secure_bits))
    return entries


RELEASES = [
    (dpgap.NoisyTopK(2, 1), 1),
    (dpgap.NoisyMax(1), 1),
    (dpgap.Laplace(1), 1),
    (dpgap.MeasuredTopK(2, 1, method="paper"), 1),
    (dpgap.classical(dpgap.NoisyTopK(2, 1)), 1),
    (dpgap.SparseVector(100, 2, 1, monotonic=True), 1),
]


@pytest.mark.parametrize(("mechanism", "spent"), RELEASES, ids=repr)
def test_a_release_reserves_before_it_draws_and_settles_after(mechanism, spent, diary):
    mechanism.release(ANSWERS, account=Account(diary))
    kinds = [entry[0] for entry in diary]
    assert kinds[0] == "reserve"
    assert kinds[-1] == "settle"
    assert set(kinds[1:-1]) == {"draw"}
    assert diary[0][1] == 1
    assert diary[-1][1] == spent
    assert "900" not in diary[0][2]


def test_what_an_adaptive_release_did_not_use_is_credited(diary):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    release = mechanism.release([10**6, 10**6, 1], account=Account(diary), max_answers=2)
    assert diary[0][:2] == ("reserve", 1)
    assert diary[-1] == ("settle", release.spent)
    assert release.spent < 1


def test_an_account_that_cannot_pay_stops_the_release_before_any_draw(diary):
    poor = Account(diary, total=Fraction(1, 2))
    for mechanism, _ in RELEASES:
        with pytest.raises(dpgap.BudgetExhausted):
            mechanism.release(ANSWERS, account=poor)
    assert diary == []


def test_a_refused_release_charges_nothing(diary):
    account = Account(diary)
    for mechanism, _ in RELEASES:
        with pytest.raises(ValueError, match="must not be empty"):
            mechanism.release([], account=account)
    with pytest.raises(ValueError, match="labels"):
        dpgap.NoisyTopK(1, 1).release([1, 2], labels=["a"], account=account)
    with pytest.raises(ValueError, match="max_answers"):
        dpgap.SparseVector(0, 1, 1).release([1], max_answers=0, account=account)
    assert diary == []


def test_a_run_reserves_everything_and_settles_when_it_is_left(diary):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    with mechanism.start(account=Account(diary)) as run:
        assert [entry[:2] for entry in diary] == [("reserve", 1)]
        run.ask(10**6)
        spent = run.spent
    assert diary[-1] == ("settle", spent)


def test_a_run_left_by_an_error_keeps_its_reservation(diary):
    mechanism = dpgap.AdaptiveSparseVector(100, 2, 1, monotonic=True)
    run = mechanism.start(account=Account(diary))

    def ask_and_fail() -> None:
        with run:
            run.ask(10**6)
            raise KeyError("the caller's own trouble")

    with pytest.raises(KeyError):
        ask_and_fail()
    assert "settle" not in [entry[0] for entry in diary]
    run.close()
    assert "settle" not in [entry[0] for entry in diary]


def test_a_run_left_because_it_is_exhausted_settles(diary):
    mechanism = dpgap.SparseVector(100, 1, 1, monotonic=True)

    def ask_too_much() -> None:
        with mechanism.start(account=Account(diary)) as run:
            run.ask(10**6)
            run.ask(10**6)

    with pytest.raises(dpgap.BudgetExhausted):
        ask_too_much()
    assert diary[-1] == ("settle", 1)
