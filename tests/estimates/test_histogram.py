"""Intervals of noisy counts that were returned because they are large."""

import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from dpgap.estimates.errors import COINS, HistogramError
from dpgap.exact.laws import GeometricNoise
from law_tests import LEVEL
from seams import quick_in

K, RUNS = 10, 8_000
ONE = Fraction(1)


def _by_definition(law: GeometricNoise, lead: int, coin: float, share: float) -> tuple:
    """How far the lowest and the highest count are that are not too surprising, one by one."""
    counts = np.arange(-400, 400)  # less the line

    def tail(steps: np.ndarray) -> np.ndarray:
        return law.tail(steps.astype(float))

    reaches = coin * tail(1 - counts) + (1 - coin) * tail(-counts)
    at_least = tail(lead - counts) / reaches if lead else np.ones(counts.size)
    low = int(counts[at_least > share].min())
    # For each count, the chance of noisy values that are too large for it: less than the share.
    larger = tail(np.arange(1, 801)[:, None] - counts) / reaches
    used = np.where(larger <= share, larger, 0).max(axis=0)
    at_most = 1 - tail(lead + 1 - counts) / reaches
    likely = counts[at_most > 2 * share - used]
    high = int(likely.max()) - lead if likely.size else 0
    return (-np.inf if low == -400 else low - lead), max(high, 0)


@pytest.mark.parametrize(
    ("scale", "coin"),
    quick_in(
        itertools.product([1, 2, 10, 18.5], [0.0, 0.3, 0.99]),
        {(1, 0.3), (2, 0.99), (10, 0.0)},
    ),
)
def test_ends_are_those_of_the_definition(scale: float, coin: float):
    law = GeometricNoise(Fraction(scale))
    error = HistogramError(law, ONE, 1_000, int(coin * COINS))
    for level in (0.5, 0.9, 0.95, 0.995):
        for lead in (*range(12), 25, 60, 110):
            ends = error.ends(np.array([1_000.0 + lead]), level, 0.0) - (1_000 + lead)
            assert tuple(ends[0]) == _by_definition(law, lead, coin, (1 - level) / 2)


def test_far_above_the_line_ends_are_those_of_the_noise_alone():
    law = GeometricNoise(Fraction(10))
    ends = HistogramError(law, ONE, 0, COINS // 2).ends(np.array([10_000.0]), 0.95, 0.0)
    (low, high) = ends[0] - 10_000
    assert low == -law.value_half_width(0.95)
    assert 1 - law.tail(1 - low) - law.tail(high + 1) >= 0.95  # what the low end leaves, high has
    assert 1 - law.tail(1 - low) - law.tail(high) < 0.95


def test_near_the_line_there_is_no_lower_end_and_from_3_7_scales_on_there_is():
    error = HistogramError(GeometricNoise(Fraction(100)), ONE, 0, 0)
    low, high = error.ends(np.array([0.0, 1.0, 368.0, 369.0, 600.0]), 0.95, 0.0).T
    assert np.isinf(low).tolist() == [True, True, True, False, False]
    assert (np.diff(high) >= 0).all()
    assert high[0] == 0  # never below the noisy count itself


@pytest.mark.parametrize("scale", [1, 10])
def test_where_the_coin_was_not_kept_intervals_hold_for_every_coin(scale: int):
    law, values = GeometricNoise(Fraction(scale)), 100.0 + np.arange(80)
    unknown = HistogramError(law, ONE, 100, None).ends(values, 0.95, 0.0)
    coins = [*range(0, COINS, COINS // 64), COINS - 1]
    known = np.array(
        [HistogramError(law, ONE, 100, coin).ends(values, 0.95, 0.0) for coin in coins]
    )
    low, high = known[..., 0].min(axis=0), known[..., 1].max(axis=0)
    assert (unknown[:, 0] <= low).all()
    assert (unknown[:, 1] >= high).all()
    assert (unknown[:, 1] <= high + 2).all()  # and is not much longer than it must be
    assert (np.isneginf(unknown[:, 0]) == np.isneginf(low)).all()


def test_both_ends_fall_as_the_coin_rises():
    law, values = GeometricNoise(Fraction(3)), 100.0 + np.arange(60)
    ends = [HistogramError(law, ONE, 100, coin).ends(values, 0.9, 0.0) for coin in (0, COINS - 1)]
    assert (ends[0] >= ends[1]).all()
    assert (ends[0] > ends[1]).any(axis=0).all()


def test_a_grid_and_rounding_widen_ends_as_they_do_elsewhere():
    law = GeometricNoise(Fraction(16))
    steps = HistogramError(law, ONE, 80, 0).ends(np.array([400.0]), 0.95, 0.0)
    fine = HistogramError(law, Fraction(1, 8), 80, 0).ends(np.array([50.0]), 0.95, 0.5)
    assert fine.tolist() == [[steps[0, 0] / 8 - 0.5, steps[0, 1] / 8 + 0.5]]


class Winners(NamedTuple):
    """Many runs: winners' noisy counts, their true ones, the best loser's count and its coin."""

    noisy: np.ndarray
    true: np.ndarray
    line: np.ndarray
    coin: np.ndarray


def _select(law: GeometricNoise, counts: np.ndarray, seed: int) -> Winners:
    rng = np.random.default_rng(seed)
    noisy = counts + law.from_uniforms(rng.random((1, RUNS, counts.size)))
    coins = rng.random(noisy.shape)
    order = np.argsort(-(noisy + coins), axis=1)[:, : K + 1]
    best, coin = (np.take_along_axis(each, order, axis=1) for each in (noisy, coins))
    return Winners(best[:, :K], counts[order][:, :K], best[:, K:], coin[:, K:])


def _ends(law: GeometricNoise, winners: Winners, level: float) -> np.ndarray:
    rows = zip(winners.noisy, winners.line[:, 0], winners.coin[:, 0], strict=True)
    return np.array(
        [
            HistogramError(law, ONE, int(line), int(coin * COINS)).ends(noisy, level, 0.0)
            for noisy, line, coin in rows
        ]
    )


def _covered(ends: np.ndarray, winners: Winners) -> np.ndarray:
    return (ends[..., 0] <= winners.true) & (winners.true <= ends[..., 1])


DATA = {
    "clear": lambda b: np.append(1_000 * b + 100 * b * np.arange(K), np.zeros(20, dtype=int)),
    "close": lambda b: b * np.arange(40),
    "flat": lambda b: np.full(60, 50),
    "a step down": lambda b: np.repeat([30 * b, 27 * b], [K, 60]),
}


@pytest.mark.parametrize(
    ("data", "scale"),
    quick_in(
        itertools.product(DATA, [1, 10]),
        {("clear", 1), ("close", 10), ("flat", 1), ("a step down", 10)},
    ),
)
def test_intervals_of_winners_cover_after_selection(data: str, scale: int):
    law = GeometricNoise(Fraction(scale))
    winners = _select(law, DATA[data](scale), seed=scale)
    covered = _covered(_ends(law, winners, 0.95), winners)
    # Winners of one run are independent only given the line, so runs are what is counted.
    missed = stats.ttest_1samp((~covered).mean(axis=1), 0.05, alternative="greater")
    assert missed.pvalue > LEVEL
    if data in ("clear", "close"):
        assert 0.94 < covered.mean() < 0.975
    if data in ("flat", "a step down"):  # the noise's own interval forgets the selection
        plain = np.abs(winners.noisy - winners.true) > law.value_half_width(0.95)
        wrong = stats.ttest_1samp(plain.mean(axis=1), 0.05, alternative="greater")
        assert wrong.pvalue < LEVEL


@pytest.mark.parametrize("data", quick_in(DATA, {"flat"}))
def test_ends_for_all_hold_for_all_winners_and_all_pairs_at_once(data: str):
    law, count = GeometricNoise(Fraction(5)), RUNS
    winners = _select(law, DATA[data](5), seed=7)
    all_at_once = _covered(_ends(law, winners, 0.95 ** (1 / K)), winners).all(axis=1)
    assert stats.binom.cdf(all_at_once.sum(), count, 0.95) > LEVEL
    low, high = np.moveaxis(_ends(law, winners, 0.95 ** (1 / K)), 2, 0)
    apart = winners.true[:, :, None] - winners.true[:, None, :]
    least, most = low[:, :, None] - high[:, None, :], high[:, :, None] - low[:, None, :]
    pairs = ((least <= apart) & (apart <= most)).all(axis=(1, 2))
    assert stats.binom.cdf(pairs.sum(), count, 0.95) > LEVEL
    one_by_one = _covered(_ends(law, winners, 0.95), winners).all(axis=1)
    assert stats.binom.cdf(one_by_one.sum(), count, 0.95) < LEVEL
