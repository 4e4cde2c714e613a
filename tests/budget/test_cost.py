"""Costs add up exactly, a limit covers what fits, and every rounding goes against the user."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.budget.cost import NOTHING, UNIT, Cost, Limit, split

NUMBERS = st.fractions(min_value=0, max_value=10)
PURE = st.builds(Cost.pure, NUMBERS, NUMBERS)
COSTS = PURE | st.builds(Cost, st.none(), NUMBERS, NUMBERS)
LIMITS = st.builds(Limit, st.sampled_from(["epsilon", "rho"]), NUMBERS, NUMBERS)
HALF = Fraction(1, 2)


@given(st.lists(PURE))
def test_pure_costs_add_up_in_epsilon_and_half_their_squares_in_rho(costs: list[Cost]) -> None:
    epsilons = [cost.epsilon or Fraction(0) for cost in costs]
    together = Cost.sum(costs)
    assert together.epsilon == sum(epsilons)
    assert together.rho == sum(epsilon**2 for epsilon in epsilons) / 2
    assert together.delta == sum(cost.delta for cost in costs)


def test_the_parts_of_a_release_are_named_and_cost_less_rho_than_one_of_all_epsilon() -> None:
    parts = [("select", Cost.pure(Fraction(1, 5))), ("measure", Cost.pure(Fraction(4, 5)))]
    whole = Cost.composed(parts)
    assert (whole.epsilon, whole.rho) == (1, Fraction(17, 50))
    assert whole.rho < Cost.pure(Fraction(1)).rho
    assert whole.parts == tuple(parts)


def test_a_part_without_an_epsilon_leaves_a_release_without_one() -> None:
    gaussian = Cost(None, Fraction(1, 8))
    both = Cost.composed([("select", gaussian), ("measure", Cost.pure(HALF))])
    assert (both.epsilon, both.rho) == (None, Fraction(1, 4))
    assert (both - gaussian).epsilon is None
    assert Cost.worst([gaussian, Cost.pure(HALF)], 1) == Cost(None, Fraction(1, 8))


@given(COSTS, COSTS)
def test_what_was_added_can_be_taken_away(first: Cost, second: Cost) -> None:
    rest = first + second - second
    assert (rest.rho, rest.delta) == (first.rho, first.delta)
    if first.epsilon is not None and second.epsilon is not None:
        assert rest == first
    assert first.fits(first + second)


def test_a_cost_is_never_less_than_nothing() -> None:
    for wrong in (
        lambda: Cost.pure(Fraction(-1)),
        lambda: Cost(None, Fraction(-1)),
        lambda: Cost(None, Fraction(0), Fraction(-1)),
        lambda: Cost.pure(HALF) - Cost.pure(Fraction(1)),
    ):
        with pytest.raises(ValueError, match="must not be less than 0"):
            wrong()
    more = Cost.pure(Fraction(1)).beyond(Cost.pure(HALF, delta=HALF))
    assert (more.epsilon, more.delta) == (HALF, 0)


def test_a_smaller_loss_is_credited_in_epsilon_only() -> None:
    """In ρ, a realised loss is a result: only what never began is credited."""
    most = Cost.pure(Fraction(1), Fraction(1, 10**6))
    spent = most.realised(Cost.pure(HALF))
    assert (spent.epsilon, spent.rho, spent.delta) == (HALF, most.rho, most.delta)
    with pytest.raises(ValueError, match="cannot lose more"):
        most.realised(Cost.pure(Fraction(2)))
    with pytest.raises(ValueError, match="cannot lose more"):
        Cost(None, HALF).realised(NOTHING)


@given(st.lists(PURE, min_size=1, max_size=6), st.integers(1, 6), st.randoms())
def test_groups_cost_what_the_worst_few_of_them_cost(costs, few, random) -> None:
    worst = Cost.worst(costs, few)
    assert Cost.sum(random.sample(costs, min(few, len(costs)))).fits(worst)
    if few >= len(costs):
        assert worst == Cost.sum(costs)
    assert Cost.worst(costs[:1] * few, few) == costs[0].times(few)


def test_one_cost_fits_another_only_if_it_is_smaller_in_every_number() -> None:
    cost = Cost.pure(HALF, Fraction(1, 10))
    assert cost.fits(cost)
    assert not Cost.pure(HALF, Fraction(1, 5)).fits(cost)
    assert not Cost(HALF, Fraction(1), Fraction(1, 10)).fits(cost)
    assert not Cost(None, Fraction(0)).fits(cost)
    assert cost.fits(Cost(None, Fraction(1, 8), Fraction(1, 10)))


@given(LIMITS, PURE)
def test_a_limit_covers_exactly_what_leaves_something_or_nothing(limit: Limit, cost: Cost) -> None:
    number = cost.rho if limit.currency == "rho" else cost.epsilon
    assert number is not None
    fits = number <= limit.amount and cost.delta <= limit.delta
    assert limit.covers(cost) == fits
    left = limit.left(cost)
    if fits:
        assert (left.amount, left.delta) == (limit.amount - number, limit.delta - cost.delta)
        assert limit.raised_to(cost) == limit
    assert limit.raised_to(cost).covers(cost)
    assert limit.renewed(cost, Limit(limit.currency, HALF)).left(cost).amount == HALF


def test_a_budget_in_epsilon_refuses_noise_that_has_none() -> None:
    gaussian = Cost(None, Fraction(1, 10**6))
    assert Limit("rho", HALF).covers(gaussian)
    with pytest.raises(ValueError, match="has no ε: only a budget in ρ can pay"):
        Limit("epsilon", HALF).covers(gaussian)


@given(LIMITS, COSTS)
def test_costs_are_rounded_up_and_limits_down(limit: Limit, cost: Cost) -> None:
    up = cost.up()
    down = limit.down()
    assert cost.fits(up)
    assert down.fits(limit)
    assert up.up() == up
    assert down.down() == down
    assert up.rho - cost.rho < UNIT
    assert limit.amount - down.amount < UNIT


@pytest.mark.parametrize("shares", [[], ["1/3"], ["1/20", "3/20"], ["1"]])
def test_a_split_adds_up_to_the_whole(shares: list[str]) -> None:
    amount = Fraction(7, 11)
    parts = split(amount, *map(Fraction, shares))
    assert len(parts) == len(shares) + 1
    assert sum(parts) == amount
    with pytest.raises(ValueError, match="together at most 1"):
        split(amount, Fraction(2, 3), HALF)


def test_people_read_costs_rounded_up_and_limits_rounded_down() -> None:
    odd = Fraction(1, 7001)
    assert str(Cost.pure(odd)) == "ε ≈ 0.000142837"
    assert str(Limit("epsilon", odd)) == "ε ≈ 0.000142836"
    assert str(Cost(None, HALF, Fraction(1, 10**6))) == "ρ = 0.5, δ = 10⁻⁶"
    beside = Limit("epsilon", HALF, HALF)
    assert Cost.pure(HALF).in_words(beside, joint=" and ") == "ε = 0.5 and δ = 0"


def test_amounts_of_epsilon_and_of_rho_are_never_compared_or_added() -> None:
    limit = Limit("epsilon", HALF)
    other = Limit("rho", HALF)
    for mixed in (limit.fits, limit.within, limit.raised, limit.has_more_than):
        with pytest.raises(ValueError, match="the budget is in epsilon, not in rho"):
            mixed(other)
    with pytest.raises(ValueError, match="the budget is in epsilon, not in rho"):
        limit.renewed(NOTHING, other)


@given(st.lists(PURE, min_size=1))
def test_the_least_of_several_costs_fits_all_of_them(costs: list[Cost]) -> None:
    least = Cost.least(costs)
    assert all(least.fits(cost) for cost in costs)
    assert all((cost.beyond(least) + least) == cost for cost in costs)
    assert Cost.least([]) == NOTHING


@given(PURE, NUMBERS)
def test_a_part_of_a_limit_is_what_a_cost_is_of_its_amount(cost: Cost, amount: Fraction) -> None:
    limit = Limit("epsilon", amount)
    assert limit.portion(cost) * amount == (cost.epsilon if amount else 0)
    assert limit.used_up_by(cost).left(cost).is_empty
    assert limit.none().is_empty
    assert limit.raised_to(cost).covers(cost)


def test_a_step_has_a_share_of_the_epsilon_of_its_release_or_of_its_rho() -> None:
    whole = Cost.pure(2)
    assert Cost.pure(HALF).share_of(whole) == Fraction(1, 4)
    assert Cost(None, Fraction(1, 8)).share_of(Cost(None, HALF)) == Fraction(1, 4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [("1e100", 0, "epsilon must be less than 10\\^100"), (1, "1.1", "delta must be at most 1")],
)
def test_a_stated_cost_that_is_too_large_is_refused(epsilon: str, delta: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Cost.stated(epsilon, delta)
