"""Exponential Top-K by the density of what is released: shares nothing with the proof."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.top_k import select

Floats = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def losers_parts(chances: Floats, k: int) -> Floats:
    """For each loser, c ∫ w^k R(w) dw."""
    w = (NODES + 1) / 2
    factors = 1 - chances[:, None] * w
    rest = np.array([np.prod(np.delete(factors, i, 0), axis=0) for i in range(chances.size)])
    parts: Floats = chances * (rest * w**k @ (WEIGHTS / 2))
    return parts


def log_density(winners: Floats, losers: Floats, rate: float) -> float:
    """The log-density of leads; `winners` are answers less leads. Exact: B is a polynomial."""
    k, top = winners.size, max(winners.max(), losers.max())
    chances = np.exp(-rate * (top - losers))
    inner = float(losers_parts(chances, k).sum())
    return k * math.log(rate) - rate * float((top - winners).sum()) + math.log(inner)


def loss(answers: Floats, neighbour: Floats, leads: Floats, rate: float) -> float:
    """The log-ratio of the densities of these leads for the first answers winning."""
    k = leads.size
    return log_density(answers[:k] - leads, answers[k:], rate) - log_density(
        neighbour[:k] - leads, neighbour[k:], rate
    )


def test_the_density_is_that_of_the_mechanism() -> None:
    answers, leads, rate = np.array([2.0, 1.0, 0.5, 1.5]), np.array([1.2, 0.3]), 0.7

    def integrand(best: float) -> float:
        over = best + leads - answers[:2]
        if (over < 0).any():
            return 0.0
        below = 1 - np.exp(-rate * np.maximum(best - answers[2:], 0))
        fresh = rate * np.exp(-rate * (best - answers[2:])) * (best >= answers[2:])
        return float(np.prod(rate * np.exp(-rate * over)) * (fresh * below[::-1]).sum())

    direct, _ = quad(integrand, 0, 60, points=[0.7, 0.8, 1.5], limit=200)
    assert log_density(answers[:2] - leads, answers[2:], rate) == pytest.approx(
        math.log(direct), abs=1e-7
    )


def test_the_density_is_that_of_releases() -> None:
    """Chances of leads within a step, from the density, against exact runs; level 1e-6."""
    answers, runs = np.array([4, 3, 0]), 200_000
    program = dpgap.NoisyTopK(1, 1, monotonic=True, noise="exponential")
    drawn = select(program, answers, runs, InsecureSeededBits(1))
    first = drawn.leads[drawn.indices[:, 0] == 0, 0]
    for step in range(3):
        chance, _ = quad(
            lambda lead: math.exp(
                log_density(np.array([4.0 - lead]), np.array([3.0, 0.0]), rate=1.0)
            ),
            step,
            step + 1,
            points=[1.0],
        )
        seen = float((first == step).sum())
        assert abs(seen - runs * chance) < 5 * math.sqrt(runs * chance)
        assert abs(seen - runs * chance * 1.05) > 5 * math.sqrt(runs * chance)


def neighbours(count: int, monotonic: bool, seed: int) -> list[tuple[Floats, Floats, Floats]]:
    """Answers, neighbours at extremes and in between, and leads, near and far."""
    generator = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        k, others = int(generator.integers(1, 5)), int(generator.integers(1, 6))
        spread = generator.choice([0.0, 0.5, 3.0, 20.0])
        answers = generator.normal(0, 1, k + others) * spread
        moves = generator.choice([-1.0, 1.0], k + others)
        if monotonic:
            moves = generator.choice([0.0, 1.0], k + others) * generator.choice([-1, 1])
        if generator.random() < 0.3:
            moves *= generator.random(k + others)
        leads = generator.exponential(generator.choice([0.1, 2.0, 20.0]), k)
        cases.append((answers, answers + moves, leads))
    return cases


@pytest.mark.parametrize("monotonic", [True, False])
def test_no_neighbour_loses_more_than_epsilon_and_some_lose_all_of_it(monotonic: bool) -> None:
    worst = 0.0
    for answers, neighbour, leads in neighbours(5_000, monotonic, seed=3):
        program = dpgap.NoisyTopK(leads.size, 1, monotonic=monotonic, noise="exponential")
        found = abs(loss(answers, neighbour, leads, 1 / float(program.law.scale)))
        assert found <= 1 + 1e-9
        worst = max(worst, found)
    assert worst > 0.999


@pytest.mark.parametrize("monotonic", [True, False])
def test_a_scale_five_per_cent_too_small_is_rejected(monotonic: bool) -> None:
    worst = max(
        abs(loss(answers, neighbour, leads, 1.05 / ((1 if monotonic else 2) * leads.size)))
        for answers, neighbour, leads in neighbours(5_000, monotonic, seed=4)
    )
    assert worst > 1.04


def test_the_monotonic_scale_is_rejected_for_answers_that_move_both_ways() -> None:
    worst = max(
        abs(loss(answers, neighbour, leads, 1 / leads.size))
        for answers, neighbour, leads in neighbours(5_000, False, seed=5)
    )
    assert worst > 1.9


def test_the_lemma_bounds_how_the_losers_part_can_change() -> None:
    """Positive β sum to at most 1, negative ones to at least −k."""
    generator = np.random.default_rng(6)
    for _ in range(2_000):
        k, chances = int(generator.integers(1, 6)), generator.random(int(generator.integers(1, 7)))
        if generator.random() < 0.5:
            chances[0] = 1.0
        at_one = np.array([np.prod(np.delete(1 - chances, i)) for i in range(chances.size)])
        parts = losers_parts(chances, k)
        betas = (chances * at_one - k * parts) / parts.sum()
        assert betas[betas > 0].sum() <= 1 + 1e-9
        assert betas[betas < 0].sum() >= -k - 1e-9
        if chances[0] == 1.0:
            assert (betas[1:] <= 1e-12).all()


def test_the_loss_is_attained_with_one_loser() -> None:
    k, epsilon = 3, 1.0
    rate = epsilon / (2 * k)
    answers = np.array([0.0, 0.0, 0.0, 5.0])
    neighbour = answers + np.array([-1.0, -1.0, -1.0, 1.0])
    assert loss(answers, neighbour, np.ones(k), rate) == pytest.approx(epsilon)


def test_the_law_has_the_scale_of_the_proof() -> None:
    general = dpgap.NoisyTopK(4, "1/2", sensitivity=3, noise="exponential")
    counts = dpgap.NoisyTopK(4, "1/2", sensitivity=3, noise="exponential", monotonic=True)
    assert general.law.scale == Fraction(48)
    assert counts.law.scale == Fraction(24)
