"""A budget in memory: never overspent, credited once, and told of δ."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import ClassVar

import pytest
from spenders import Cheaper, StandIn

from dpgap import BudgetExhausted
from dpgap.budget.account import InMemoryBudget, Request, pay
from dpgap.budget.cost import NOTHING, Cost, Limit


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_cannot_spend_from_its_copy() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    child = os.fork()
    if child == 0:
        try:
            purse.reserve(Cost.pure(Fraction(1)), "once more")
        except RuntimeError as error:
            os._exit(17 if "forked" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    purse.reserve(Cost.pure(Fraction(1)), "once")


def test_a_budget_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.copy(InMemoryBudget(Limit("epsilon", Fraction(1))))


def test_what_was_not_used_comes_back_and_delta_does_not() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1), Fraction(1, 10**6)))

    def draw() -> StandIn:
        assert purse.remaining.is_empty
        return Cheaper("a document", Fraction(1, 4), Fraction(1, 10**6))

    pay(purse, Request(Cost.pure(Fraction(1), Fraction(1, 10**6)), "all of it"), draw)
    assert purse.spent == Cost.pure(Fraction(1, 4), Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(3, 2), Fraction(0)), (Fraction(1), Fraction(1, 10**5))]
)
def test_more_than_there_is_is_refused_and_costs_nothing(
    epsilon: Fraction, delta: Fraction
) -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1), Fraction(1, 10**6)))
    with pytest.raises(BudgetExhausted, match="ε = 1 and δ = 10⁻⁶ are left"):
        purse.reserve(Cost.pure(epsilon, delta), "too much")
    assert purse.spent == NOTHING


def test_whoever_is_short_of_delta_is_told_that_there_is_none() -> None:
    without, tiny = InMemoryBudget(Limit("epsilon", Fraction(5))), Fraction(1, 10**6)
    with pytest.raises(BudgetExhausted, match="δ = 10⁻⁶, and ε = 5 and δ = 0 are left: state"):
        without.reserve(Cost.pure(Fraction(1), tiny), "it needs δ")
    with pytest.raises(BudgetExhausted, match="this needs ε = 9, and ε = 5 is left: ask"):
        without.reserve(Cost.pure(Fraction(9)), "it needs none")
    used_up = InMemoryBudget(Limit("epsilon", Fraction(5), tiny))
    used_up.reserve(Cost.pure(Fraction(1), tiny), "all of δ")
    with pytest.raises(BudgetExhausted, match="this needs ε = 9, and ε = 4 and δ = 0 are left"):
        used_up.reserve(Cost.pure(Fraction(9)), "it needs none")


def test_an_error_leaves_the_reservation_spent() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))

    def draw() -> StandIn:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        pay(purse, Request(Cost.pure(Fraction(1, 2)), "it breaks"), draw)
    assert purse.spent.epsilon == Fraction(1, 2)


def test_many_threads_never_overspend() -> None:
    purse = InMemoryBudget(Limit("epsilon", Fraction(10)))

    def buy(_: int) -> bool:
        try:
            purse.reserve(Cost.pure(Fraction(1, 7)), "a race")
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        bought = sum(threads.map(buy, range(400)))
    assert bought == 70
    assert purse.remaining.epsilon == 0


def test_an_account_that_keeps_nothing_gets_the_cost_with_its_delta() -> None:
    class Plain:
        costs: ClassVar[list[Cost]] = []

        def reserve(self, cost: Cost, purpose: str) -> "Plain":
            self.costs.append(cost)
            return self

        def settle(self, cost: Cost) -> None:
            self.costs.append(cost)

    tiny = Fraction(1, 10**9)
    most = Cost.pure(Fraction(1), tiny)
    spent = Cheaper("a document", Fraction(1, 4), tiny)
    pay(Plain(), Request(most, "unknown items"), lambda: spent)
    assert Plain.costs == [most, Cost.pure(Fraction(1, 4), tiny)]


def test_what_drew_nothing_gives_its_delta_back_too() -> None:
    budget = InMemoryBudget(Limit("epsilon", Fraction(1), Fraction(1, 10**6)))
    budget.reserve(Cost.pure(Fraction(1, 2), Fraction(1, 10**6)), "nothing").settle(NOTHING)
    assert budget.remaining == budget.total
