"""Two-sided geometric noise: exact draws, coins that say nothing, and the largest of very many."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import GeometricNoise, LaplaceNoise
from dpgap.exact.reals import decide, exponential_bounds
from dpgap.mechanisms.top_k import top_draws
from law_tests import LEVEL, chi_square_p, require_law
from seams import quick_in

DRAWS = 300_000
SCALES = [Fraction(1, 1 << 60), Fraction(1, 40), Fraction(1, 3), Fraction(1), Fraction(37, 2)]
SCALES += [Fraction(1000), Fraction(1 << 40)]


def _chances(law: GeometricNoise, most: int = 12) -> list[float]:
    """Of each noise up to the most, of what is below and of what is above."""
    inside = [law.floor_mass(step) for step in range(-most, most + 1)]
    return [1 - float(law.tail(-most)), *inside, float(law.tail(most + 1))]


def _counts(noise: np.ndarray, most: int = 12) -> np.ndarray:
    return np.bincount(np.clip(noise, -most - 1, most + 1) + most + 1, minlength=2 * most + 3)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3), Fraction(2, 5)])
def test_draws_and_floats_follow_the_law_and_no_law_nearby(scale: Fraction):
    law = GeometricNoise(scale)
    drawn = law.floors(InsecureSeededBits(1), DRAWS)
    floats = law.from_uniforms(np.random.default_rng(2).random((1, DRAWS))).astype(np.int64)
    for noise in (drawn, floats):
        _require_law(law, _counts(noise))


def _require_law(law: GeometricNoise, counts: np.ndarray) -> None:
    require_law(lambda by: chi_square_p(counts, _chances(GeometricNoise(law.scale * Fraction(by)))))


def test_noise_that_is_folded_or_only_floored_or_too_small_is_told_from_it():
    law, laplace = GeometricNoise(Fraction(3)), LaplaceNoise(Fraction(3))
    floored = laplace.floors(InsecureSeededBits(3), DRAWS)
    folded = np.where(floored < 0, floored + 1, floored)
    smaller = GeometricNoise(law.scale * Fraction(9, 10)).floors(InsecureSeededBits(4), DRAWS)
    for wrong in (floored, folded, smaller):
        assert chi_square_p(_counts(wrong), _chances(law)) < LEVEL


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(2, 7), Fraction(1, 1 << 60)])
def test_mean_variance_and_tail_are_those_of_the_masses(scale: Fraction):
    law, steps = GeometricNoise(scale), np.arange(-400, 401)
    masses = np.array([law.floor_mass(step) for step in steps.tolist()])
    assert masses.sum() == pytest.approx(1, abs=1e-12)
    assert masses @ steps == pytest.approx(law.mean, abs=1e-10)
    assert masses @ steps**2 == pytest.approx(law.variance, rel=1e-10)
    assert law.tail(steps[300:]) == pytest.approx(masses[::-1].cumsum()[::-1][300:], abs=1e-12)


def test_its_variance_is_less_than_that_of_floored_laplace_noise_of_the_same_cost():
    for scale in SCALES[1:5]:
        assert GeometricNoise(scale).variance < LaplaceNoise(scale).floor_variance


@given(st.integers(-60, 60), st.integers(-20, 20), st.sampled_from(SCALES[1:5]))
def test_a_shift_costs_what_the_law_says(step: int, shift: int, scale: Fraction):
    law = GeometricNoise(scale)
    here, there = law.floor_mass(step), law.floor_mass(step + shift)
    if min(here, there) > 1e-250:
        assert math.log(here / there) <= float(law.cost(shift)) + 1e-9


def _sums(words: np.ndarray) -> np.ndarray:
    return np.array(exponential_bounds(1.0, words))


def _coins(law: GeometricNoise, seed: int) -> tuple[np.ndarray, np.ndarray]:
    low, _ = law.quantile_bounds(_sums(InsecureSeededBits(seed).words(DRAWS)))
    return np.floor(low).astype(np.int64), low - np.floor(low)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3), Fraction(2, 5)])
def test_a_coin_is_uniform_whatever_the_noise_is(scale: Fraction):
    law = GeometricNoise(scale)
    noise, coins = _coins(law, 5)
    cells = _counts(noise, 5)
    assert chi_square_p(cells, _chances(law, 5)) > LEVEL
    for value in (-1, 0, 1, 2):
        own = np.bincount((coins[noise == value] * 8).astype(np.int64), minlength=8)
        assert chi_square_p(own, np.full(8, 1 / 8)) > LEVEL


def test_what_the_floor_cuts_off_would_be_no_coin():
    """It leans to one side above the middle and to the other below: it would tell the sign."""
    law = GeometricNoise(Fraction(1))
    noise, coins = _coins(law, 6)
    cut_off = -np.log1p(coins * math.expm1(-1))  # e^(−f) = 1 − coin·(1 − p)
    own = np.bincount((cut_off[noise == 2] * 8).astype(np.int64), minlength=8)
    assert chi_square_p(own, np.full(8, 1 / 8)) < LEVEL


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_floats_enclose_noise_and_coin_and_are_tight(scale: Fraction):
    law, bits = GeometricNoise(scale), InsecureSeededBits(7)
    words = bits.words(200)
    low, high = law.quantile_bounds(_sums(words))
    least, most = law.floor_bounds(words)
    for at, word in enumerate(words.tolist()):
        (draw,) = top_draws(law, 1, [word], bits)
        below, above = draw(0)
        assert low[at] <= below <= above <= high[at]
        inner = law.with_coin(word, bits)(0)
        assert least[at] <= math.floor(inner[0]) <= math.floor(inner[1]) <= most[at]
    assert (high - low).max() < 1e-12 * max(1.0, float(scale))
    assert (least == most).mean() > 0.9


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(SCALES[:6]),
    st.floats(1e-14, 60) | st.sampled_from([math.log(2), math.nextafter(math.log(2), 0)]),
)
def test_floats_enclose_quantiles_as_well(scale: Fraction, total: float):
    law = GeometricNoise(scale)
    low, high = law.quantile_bounds(np.array([[total], [total]]))
    exact = law.exact_quantile(Fraction(total), 80) * scale
    assert low[0] <= exact <= high[0]
    assert high[0] - low[0] < 1e-11 * max(1.0, float(scale))
    noise = math.floor(exact)
    assert law.tail(noise + 1) <= 1 - math.exp(-total) + 1e-12
    assert law.tail(noise) >= 1 - math.exp(-total) - 1e-12


def test_more_levels_only_refine_a_draw():
    law, bits = GeometricNoise(Fraction(5)), InsecureSeededBits(8)
    for word in [*bits.words(20).tolist(), 0, 1 << 63]:  # nothing is known of the last two
        draw = law.with_coin(word, bits)
        (low, high), (lower, higher) = draw(0), draw(2)
        assert low <= lower <= higher <= high
        assert higher - lower < Fraction(1, 10**40)
        assert decide(draw, math.floor) in (math.floor(low), math.floor(high))


def test_the_largest_of_a_trillion_draws_follows_its_law():
    law, bits, size = GeometricNoise(Fraction(1)), InsecureSeededBits(9), 10**12
    draws = [top_draws(law, size, [bits.word()], bits)[0](0) for _ in range(1_000)]
    assert all(high - low < Fraction(1, 10**15) for low, high in draws)
    largest = np.array([math.floor(low) for low, _ in draws])
    edges = np.arange(24, 36)
    counts, _ = np.histogram(largest, bins=[-np.inf, *edges, np.inf])

    def chances(size: float) -> np.ndarray:
        return np.diff([0, *np.exp(-size * law.tail(edges)), 1])  # all are below an edge

    assert chi_square_p(counts, chances(size)) > LEVEL
    assert chi_square_p(counts, chances(1.5 * size)) < LEVEL


CHANCES = ["1e-300", "1e-6", "1/3", "1/2", "2/3", "0.999999"]


@pytest.mark.parametrize(
    ("scale", "chance"),
    quick_in(
        itertools.product(SCALES, CHANCES),
        {(scale, CHANCES[at]) for at, scale in enumerate(SCALES[:-1])}
        | {(scale, CHANCES[at - 3]) for at, scale in enumerate(SCALES)},
    ),
    ids=str,
)
def test_the_least_step_is_the_first_that_is_rare_enough(scale: Fraction, chance: str):
    law, allowed = GeometricNoise(scale), Fraction(chance)
    step = law.least_step(allowed)
    assert law.exact_tail(step)(3)[1] <= allowed < law.exact_tail(step - 1)(3)[0]


def test_exact_tails_are_those_of_floats():
    law = GeometricNoise(Fraction(7, 3))
    for step in (-30, -1, 0, 1, 2, 40):
        low, high = law.exact_tail(step)(0)
        assert 0 < high - low < Fraction(1, 10**25)
        assert float(low) == pytest.approx(float(law.tail(step)), rel=1e-12)


def test_a_half_width_holds_as_many_draws_as_it_says_and_one_step_less_does_not():
    for scale in (Fraction(1, 3), Fraction(1), Fraction(10)):
        law = GeometricNoise(scale)
        for level in (0.5, 0.95, 0.999):
            half = law.value_half_width(level)
            assert 1 - 2 * law.tail(half + 1) >= level - 1e-12
            assert half == 0 or 1 - 2 * law.tail(half) < level
