"""What a ranking costs that the line cuts, by its density: shares nothing with the proof."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import dpgap

Floats = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
W = (NODES + 1) / 2


def inner(chances: Floats, released: int) -> float:
    """I = ∫₀¹ w^r ∏(1 − c·w) dw over the losers. Exact: it is a polynomial."""
    return float((W**released * np.prod(1 - chances[:, None] * W, axis=0)) @ (WEIGHTS / 2))


def log_density(winners: Floats, losers: Floats, rate: float) -> float:
    """The log-density of leads over the line, which is at 0; `winners` are answers less leads."""
    top = max([0.0, *winners, *losers])
    chances = np.exp(-rate * (top - losers))
    offsets = (winners.size + 1) * top - float(winners.sum())
    return winners.size * math.log(rate) - rate * offsets + math.log(inner(chances, winners.size))


def loss(answers: Floats, neighbour: Floats, leads: Floats, rate: float) -> float:
    """The log-ratio of the densities of these leads, the first answers being released."""
    r = leads.size
    return log_density(answers[:r] - leads, answers[r:], rate) - log_density(
        neighbour[:r] - leads, neighbour[r:], rate
    )


def neighbours(count: int, monotonic: bool, seed: int) -> list[tuple[Floats, Floats, Floats]]:
    """Answers around the line, neighbours at extremes and in between, and leads, near and far."""
    generator = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        r, others = int(generator.integers(0, 5)), int(generator.integers(0, 6))
        spread = generator.choice([0.0, 0.5, 3.0, 20.0])
        answers = generator.normal(0, 1, r + others) * spread
        moves = generator.choice([-1.0, 1.0], r + others)
        if monotonic:
            moves = generator.choice([0.0, 1.0], r + others) * generator.choice([-1, 1])
        if generator.random() < 0.3:
            moves *= generator.random(r + others)
        leads = generator.exponential(generator.choice([0.1, 2.0, 20.0]), r)
        cases.append((answers, answers + moves, leads))
    return cases


@pytest.mark.parametrize("monotonic", [True, False])
def test_no_neighbour_loses_more_than_the_cost_and_some_lose_all_of_it(monotonic: bool) -> None:
    """General answers lose half a place less than they are charged, since the line never moves."""
    worst: dict[int, float] = {}
    for answers, neighbour, leads in neighbours(10_000, monotonic, seed=3):
        mechanism = dpgap.HybridTopK(0, 9, 9, monotonic=monotonic)
        found = abs(loss(answers, neighbour, leads, 1 / float(mechanism.law.scale)))
        assert found <= mechanism.spent(leads.size) + 1e-9
        worst[leads.size] = max(worst.get(leads.size, 0.0), found)
    for released, found in worst.items():
        assert found > released + (0.999 if monotonic else 0.499)
        assert found <= released + (1 if monotonic else 0.5) + 1e-9


def test_the_cost_is_attained_where_a_loser_above_the_line_rises() -> None:
    answers, neighbour = np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, 6.0])
    assert loss(answers, neighbour, np.ones(2), 1.0) == pytest.approx(3)
    moved = np.array([-1.0, -1.0, 6.0])
    assert loss(answers, moved, np.ones(2), 1.0) == pytest.approx(5)


def test_the_weights_of_losers_sum_to_what_the_proof_says() -> None:
    """Σ|β| = r + 1 − P(1)/I, no β is positive, and P(1) is 0 where a loser is the largest."""
    generator = np.random.default_rng(6)
    for _ in range(500):
        r, chances = int(generator.integers(0, 6)), generator.random(int(generator.integers(1, 7)))
        if generator.random() < 0.5:
            chances[0] = 1.0
        without = [inner(np.delete(chances, i), r + 1) for i in range(chances.size)]
        betas = -chances * np.array(without) / inner(chances, r)
        at_one = float(np.prod(1 - chances))
        assert (betas <= 0).all()
        assert -betas.sum() == pytest.approx(r + 1 - at_one / inner(chances, r))
