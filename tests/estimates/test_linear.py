"""Estimates: the paper's theorems, checked as algebra and by simulation."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.estimates.errors import gap_shortfall
from dpgap.estimates.linear import blue, blue_variance, combine, combined_variance
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, StaircaseNoise
from seams import quick_in

NUMBERS = st.floats(-1000, 1000)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=12), st.floats(0.01, 100))
def test_blue_is_the_matrix_of_the_papers_theorem(pairs, ratio):
    alpha = np.array([pair[0] for pair in pairs])
    gaps = np.array([pair[1] for pair in pairs])[:-1]
    k = alpha.size
    x = np.ones((k, k)) + ratio * k * np.eye(k)
    y = np.tile(np.arange(k - 1, 0, -1), (k, 1)) - k * np.tri(k, k - 1, -1)
    expected = (x @ alpha + y @ gaps) / ((1 + ratio) * k)
    assert blue(alpha, gaps, ratio) == pytest.approx(expected, abs=1e-8)


def test_blue_ignores_the_gap_to_the_best_loser():
    assert blue([9, 5, 4], [3, 2], 1.5) == pytest.approx(blue([9, 5, 4], [3, 2, 77], 1.5))


@pytest.mark.parametrize(
    ("k", "ratio"),
    quick_in(itertools.product([1, 2, 10], [0.5, 1.0, 4.0]), {(1, 1.0), (10, 0.5)}),
)
def test_blues_measured_variance_is_that_of_the_corollary(k: int, ratio: float):
    bits, runs = InsecureSeededBits(80), 40_000
    measuring, selecting = LaplaceNoise(Fraction(20)), LaplaceNoise(Fraction(20))
    truth = np.arange(k)[::-1] * 10.0
    xi = measuring.floors(bits, runs, k) + 0.5
    eta = (selecting.floors(bits, runs, k) + 0.5) * math.sqrt(ratio)
    noisy = truth + eta
    gaps = noisy[:, :-1] - noisy[:, 1:]
    errors = np.array([blue(truth + xi[i], gaps[i], ratio) - truth for i in range(runs)])
    expected = blue_variance(k, measuring.floor_variance, ratio)
    assert (errors**2).mean() == pytest.approx(expected, rel=0.03)
    assert (errors**2).mean() != pytest.approx(expected * 1.1, rel=0.03)
    assert expected / measuring.floor_variance == pytest.approx((1 + ratio * k) / (k + ratio * k))


def test_blue_takes_linear_time():
    k = 200_000
    estimates = blue(np.arange(k)[::-1] * 1.0, np.ones(k - 1), 1.0)
    assert estimates == pytest.approx(np.arange(k)[::-1])


def test_combining_weights_by_inverse_variance_and_by_branch():
    estimates = combine([10.0, 20.0], [4.0, 12.0], 10, 2.0, [2.0, 6.0])
    assert estimates == pytest.approx([12.0, (20 / 2 + 22 / 6) / (1 / 2 + 1 / 6)])
    assert combined_variance(2.0, [2.0, 6.0]) == pytest.approx([1.0, 1.5])


def test_combining_lowers_the_variance_as_theory_says():
    # k = 10 monotonic, best share: .642 of the measurement's variance.
    k, epsilon = 10, 1.0
    m = k ** (2 / 3)
    shared = 2 * (1 + m) ** 2 / epsilon**2
    own = 2 * (k * (1 + m) / m) ** 2 / epsilon**2
    measured = 2 * k**2 / epsilon**2
    paper = combined_variance(measured, np.full(k, own + shared))[0] / measured
    assert paper == pytest.approx(0.6423, abs=0.0001)
    assert 1 - paper == pytest.approx(1 / (1 + (1 + m) ** 3 / k**2))


LAW_PAIRS = [
    (LaplaceNoise(Fraction(3)), LaplaceNoise(Fraction(2))),
    (LaplaceNoise(Fraction(2)), LaplaceNoise(Fraction(5))),
    (LaplaceNoise(Fraction(4)), LaplaceNoise(Fraction(4))),
    (ExponentialNoise(Fraction(3)), ExponentialNoise(Fraction(2))),
    (ExponentialNoise(Fraction(2)), ExponentialNoise(Fraction(5))),
]


@pytest.mark.parametrize(("law", "threshold_law"), LAW_PAIRS, ids=repr)
def test_the_tail_of_a_difference_of_floors_is_the_sum_over_the_threshold(law, threshold_law):
    for step in (-12, -3, -1, 0, 1, 5, 14):
        direct = sum(threshold_law.floor_mass(n) * law.tail(step + n + 1) for n in range(-300, 300))
        assert law.difference_tail(threshold_law, step) == pytest.approx(direct, abs=1e-12)


def test_floors_of_large_scales_have_the_tail_of_lemma_5():
    law, threshold_law = LaplaceNoise(Fraction(3000)), LaplaceNoise(Fraction(2000))
    for distance in (0, 1500, 9000):
        far, near = 9 * math.exp(-distance / 3000), 4 * math.exp(-distance / 2000)
        assert law.difference_tail(threshold_law, distance) == pytest.approx(
            (far - near) / 10, abs=1e-3
        )


@pytest.mark.parametrize("level", [0.3, 0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    ("law", "threshold_law"),
    [
        *LAW_PAIRS,
        (
            StaircaseNoise(Fraction(5), Fraction(3), Fraction(1, 3)),
            StaircaseNoise(Fraction(4), Fraction(3), Fraction(1, 2)),
        ),
    ],
    ids=repr,
)
def test_a_gap_falls_short_by_no_more_than_said(law, threshold_law, level: float):
    bits, runs = InsecureSeededBits(90), 200_000
    noise = law.floors(bits, runs) - threshold_law.floors(bits, runs)
    centred = noise - (law.floor_mean - threshold_law.floor_mean)
    shortfall = gap_shortfall(law, threshold_law, None, 1 - level)
    spread = 5 * math.sqrt(level * (1 - level) / runs)
    assert (centred <= shortfall + 1e-9).mean() >= level - spread
    if not isinstance(law, StaircaseNoise):
        assert (centred <= shortfall - 1 + 1e-9).mean() < level + spread  # no wider than need be


def test_the_lower_bound_of_one_sided_noise_is_the_closed_form():
    b, b0, level = 4000, 1500, 0.95
    shortfall = gap_shortfall(
        ExponentialNoise(Fraction(b)), ExponentialNoise(Fraction(b0)), None, 1 - level
    )
    closed = b * math.log(b / ((b + b0) * (1 - level)))
    assert shortfall + (b - b0) == pytest.approx(closed, abs=2)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: blue([1, 2, 3], [1], 1), "gaps"),
        (lambda: blue([1, 2], [1], 0), "variance_ratio"),
        (lambda: blue([[1, 2]], [1], 1), "measurements"),
        (lambda: combine([1, 2], [1], 0, 1, 1), "gaps"),
        (lambda: combine([1], [1], 0, -1, 1), "measurement_variance"),
        (lambda: combine([1], [1], 0, 1, math.nan), "gap_variance"),
        (lambda: combine([1, 2], [1, 2], 0, [1, 2, 3], 1), "measurement_variance"),
    ],
)
def test_bad_arguments_are_named(call, argument: str):
    with pytest.raises(ValueError, match=argument):
        call()
