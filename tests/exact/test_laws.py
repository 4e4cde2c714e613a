"""Laws of noise: closed forms against sums and quadrature."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise
from seams import quick_in

LAWS = [
    LaplaceNoise(Fraction(3)),
    LaplaceNoise(Fraction(2, 7)),
    ExponentialNoise(Fraction(5, 2)),
    ExponentialNoise(Fraction(1, 3)),
    StaircaseNoise(Fraction(5), Fraction(3), Fraction(1, 3)),
    StaircaseNoise(Fraction(2), Fraction(4), Fraction(1)),
    StaircaseNoise.best(Fraction(4), Fraction(2)),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_floored_mean_and_variance_are_those_of_the_masses(law: Law):
    steps = np.arange(-400, 400)
    masses = np.array([law.floor_mass(int(step)) for step in steps])
    mean = masses @ steps
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    assert mean == pytest.approx(law.floor_mean, abs=1e-10)
    if not isinstance(law, StaircaseNoise):
        assert masses @ (steps - mean) ** 2 == pytest.approx(law.floor_variance, rel=1e-10)


@pytest.mark.parametrize("law", quick_in(LAWS, LAWS[::2]), ids=repr)
def test_continuous_mean_and_variance_are_those_of_the_tails(law: Law):
    # E X = ∫ P(X > x) − P(−X > x), E X² = ∫ 2x·P(|X| > x), over x > 0.
    edges = np.linspace(0, 40 * float(law.scale) + 40, 400)

    def integral(function):
        return sum(integrate.quad(function, a, b)[0] for a, b in itertools.pairwise(edges))

    mean = integral(lambda x: law.tail(x) - (1 - law.tail(-x)))
    second = integral(lambda x: 2 * x * (law.tail(x) + (1 - law.tail(-x))))
    assert mean == pytest.approx(law.mean, abs=1e-6)
    assert second - mean**2 == pytest.approx(law.variance, rel=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_masses_are_differences_of_tails(law: Law):
    for step in range(-9, 10):
        by_tails = law.tail(step) - law.tail(step + 1)
        assert law.floor_mass(step) == pytest.approx(by_tails, abs=1e-12)


@given(st.sampled_from(LAWS), st.integers(-60, 60), st.integers(-20, 20))
def test_a_shift_by_whole_steps_costs_no_more_than_the_law_says(law: Law, step: int, shift: int):
    here, there = law.floor_mass(step), law.floor_mass(step + shift)
    if here > 1e-250 and law.supports(step + shift):
        assert there > 0
        assert math.log(here / there) <= float(law.cost(shift)) + 1e-9


def test_folding_minus_one_onto_zero_would_cost_more_than_a_shift_may():
    law = LaplaceNoise(Fraction(10))
    folded = {step: 2 * law.floor_mass(step) if step else 2 * law.floor_mass(0) for step in (0, 1)}
    folded[1] = law.floor_mass(1)
    loss = math.log(folded[0] / folded[1])
    assert loss == pytest.approx(math.log(2) + 1 / 10)
    assert loss > float(law.cost(1))


def test_a_staircase_breaks_the_smooth_bound_that_the_paper_asks_for():
    law = StaircaseNoise(Fraction(5), Fraction(3), Fraction(1, 3))

    def density(x: float) -> float:
        return (law.tail(x - 1e-6) - law.tail(x + 1e-6)) / 2e-6

    edge, tiny = 1.0, 0.01  # the edge between the two parts of the first stair
    loss = math.log(density(edge - tiny) / density(edge + tiny))
    assert loss > 2 * tiny / 5 * 10  # far above |x − y|/scale
    assert loss == pytest.approx(float(law.cost(Fraction(2, 100))), rel=1e-6)


def test_the_best_share_of_a_staircase_has_the_least_variance():
    for scale, step in ((Fraction(5), Fraction(3)), (Fraction(1, 2), Fraction(1))):
        best = StaircaseNoise.best(scale, step)
        others = [StaircaseNoise(scale, step, Fraction(i, 200)).variance for i in range(1, 201)]
        assert best.variance <= min(others) * (1 + 1e-9)
        assert best.variance < LaplaceNoise(scale).variance


@given(
    st.fractions(Fraction(1, 50), 5),
    st.integers(0, 12),
    st.lists(st.integers(-30, 30), min_size=2, max_size=6),
)
def test_the_papers_tie_bound_holds_for_the_exact_tie_probability(epsilon, fineness, answers):
    grid = Fraction(1, 2**fineness)
    rate = float(epsilon * grid)
    fall = math.exp(-rate)

    def tie(m: int) -> float:  # of two discrete Laplace draws, with answers m steps apart
        base = ((1 - fall) / (1 + fall)) ** 2 * math.exp(-rate * m)
        return base * ((1 + fall**2) / (1 - fall**2) + m)

    some_pair = sum(
        tie(abs(a - b) * 2**fineness) for i, a in enumerate(answers) for b in answers[:i]
    )
    assert some_pair <= float(epsilon * grid * len(answers) ** 2)


def test_the_exact_tie_probability_is_the_sum_over_all_ties():
    rate, m = 0.3, 4
    fall = math.exp(-rate)
    mass = (1 - fall) / (1 + fall)
    steps = np.arange(-300, 300)
    direct = (mass**2 * np.exp(-rate * np.abs(steps)) * np.exp(-rate * np.abs(steps + m))).sum()
    closed = mass**2 * math.exp(-rate * m) * ((1 + fall**2) / (1 - fall**2) + m)
    assert direct == pytest.approx(closed)
    # A bound that forgets one of the two n's would not hold: ten equal answers tie far more often.
    assert 45 * mass**2 * (1 + fall**2) / (1 - fall**2) > 0.3
