"""The best of a noisy histogram: what the program says, on the same noise; ties by fair coins."""

import math
from itertools import product
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.estimates.errors import COINS
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import GeometricNoise
from dpgap.exact.reals import decide, scaled
from dpgap.mechanisms.histogram import Cutoff, best_of
from dpgap.mechanisms.top_k import top_draws
from law_tests import LEVEL, homogeneous_p, tally_p
from seams import quick_in, words_drawn

RUNS = 3_000


def one_by_one(law, answers, wanted, bits):
    """The best of answers that are groups of one."""
    return best_of(law, answers, np.ones_like(answers), wanted, bits)[0]


class _SameNoise:
    """The noise that the kernel draws from bits with this seed, for the program."""

    def __init__(self, seed: int, count: int) -> None:
        bits = InsecureSeededBits(seed)
        self._words, self._bits = iter(bits.words(count).tolist()), bits

    def draw(self, law: GeometricNoise) -> int:
        return self.with_coin(law)[0]

    def with_coin(self, law: GeometricNoise) -> tuple[int, int]:
        """The noise and its coin, rounded down to 2^24ths."""
        (draw,) = top_draws(law, 1, [next(self._words)], self._bits)
        return divmod(decide(scaled(COINS, draw), math.floor), COINS)


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(st.integers(-6, 6) | st.integers(-(2**60), 2**60), min_size=1, max_size=40),
    k=st.none() | st.integers(1, 12),
    line=st.none() | st.integers(-5, 5),
    reach=st.sampled_from([1, 3, 50]),
    seed=st.integers(0, 2**32),
)
def test_the_kernel_returns_the_best_of_what_the_program_says(answers, k, line, reach, seed):
    mechanism = dpgap.NoisyHistogram(1, reach=reach)
    noisy = mechanism.run(answers, _SameNoise(seed, len(answers)))
    same = _SameNoise(seed, len(answers))
    with_coins = [(answer + n, c) for answer in answers for n, c in [same.with_coin(mechanism.law)]]
    best = one_by_one(mechanism.law, np.array(answers), Cutoff(k, line), InsecureSeededBits(seed))
    reached = sorted((value for value in noisy if line is None or value >= line), reverse=True)
    assert best.values.tolist() == reached[:k]
    assert [noisy[place] for place in best.groups.tolist()] == reached[:k]
    assert len(set(best.groups.tolist())) == best.groups.size
    assert best.loser == (None if k is None or len(reached) <= k else sorted(with_coins)[-k - 1])


@settings(max_examples=60, deadline=None)
@given(
    groups=st.dictionaries(st.integers(-4, 4), st.integers(1, 10**12), min_size=1, max_size=5),
    k=st.integers(1, 5),
    line=st.none() | st.integers(30, 40),
    seed=st.integers(0, 2**32),
)
def test_floats_and_exact_numbers_choose_alike(groups, k, line, seed):
    law, wanted = GeometricNoise(dpgap.NoisyHistogram(1).law.scale), Cutoff(k, line)
    values, sizes = np.array(list(groups)), np.array(list(groups.values()))
    original = GeometricNoise.quantile_bounds

    def vague(self, sums):
        low, high = original(self, sums)
        return low - 0.7, high + 0.7

    quick, _ = best_of(law, values, sizes, wanted, InsecureSeededBits(seed))
    with mock.patch.object(GeometricNoise, "quantile_bounds", vague):
        slow, _ = best_of(law, values, sizes, wanted, InsecureSeededBits(seed))
    # More is looked at where floats are vague, and so more bits are drawn: the best one is alike.
    assert slow.groups.size == quick.groups.size
    assert slow.values[:1].tolist() == quick.values[:1].tolist()
    assert slow.groups[:1].tolist() == quick.groups[:1].tolist()


@settings(max_examples=60, deadline=None)
@given(
    answers=st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    k=st.integers(1, 8),
    seed=st.integers(0, 2**32),
)
def test_one_by_one_exact_numbers_choose_what_floats_do(answers, k, seed):
    law, wanted = dpgap.NoisyHistogram(1).law, Cutoff(k, None)
    bounds = GeometricNoise.quantile_bounds

    def vague(self, sums):
        low, high = bounds(self, sums)
        return low - 2.5, high + 2.5

    quick = one_by_one(law, np.array(answers), wanted, InsecureSeededBits(seed))
    with mock.patch.object(GeometricNoise, "quantile_bounds", vague):
        slow = one_by_one(law, np.array(answers), wanted, InsecureSeededBits(seed))
    assert slow.groups.tolist() == quick.groups.tolist()
    assert slow.values.tolist() == quick.values.tolist()
    assert slow.loser == quick.loser


MAXIMA = [1_536, 1_537, 2_024, 2_025, 10**6 + 1, 2**40 + 1, 2**59]


def _coins_beside(largest: int, *, grouped: bool) -> list[int]:
    """The best loser's coins on the same noise, beside this largest answer."""
    law, answers, coins = dpgap.NoisyHistogram(1).law, np.array([largest, 512]), []
    for seed in range(60):
        bits = InsecureSeededBits(seed)
        if grouped:
            best, _ = best_of(law, answers, np.array([1, 3]), Cutoff(1, None), bits)
        else:
            best = one_by_one(law, answers, Cutoff(1, None), bits)
        assert best.groups.tolist() == [0]
        assert best.loser is not None
        coins.append(best.loser[1])
    return coins


@pytest.mark.parametrize("grouped", [False, True])
def test_the_losers_coin_says_nothing_of_the_largest_answer(grouped: bool):
    """Once it was a float, and its last binary places told how far the largest answer is."""
    first, *others = (_coins_beside(largest, grouped=grouped) for largest in MAXIMA)
    assert all(type(coin) is int and 0 <= coin < COINS for coin in first)
    assert len(set(first)) == len(first)
    assert all(coins == first for coins in others)


def _winner_law(answers: list[int], reach: int, most: int = 14) -> dict[tuple[int, int], float]:
    """The chance of each winner and its noisy answer, ties being fair: a sum over all noise."""
    law = dpgap.NoisyHistogram(1, reach=reach).law
    found: dict[tuple[int, int], float] = {}
    for value in range(-most, most + 1):
        own = [law.floor_mass(value - answer) for answer in answers]
        below = [1 - float(law.tail(value - answer)) for answer in answers]
        for tied in product((0, 1), repeat=len(answers)):
            chance = math.prod(o if t else b for o, b, t in zip(own, below, tied, strict=True))
            for place in np.flatnonzero(tied).tolist():
                key = (place, value)
                found[key] = found.get(key, 0.0) + chance / sum(tied)
    return found


TIED = [2, 1, 1, 1, 0]


def test_one_by_one_the_winner_has_its_exact_law_ties_included():
    bits, law = InsecureSeededBits(1), dpgap.NoisyHistogram(1).law
    found = [one_by_one(law, np.array(TIED), Cutoff(1, None), bits) for _ in range(RUNS)]
    samples = [(*best.groups.tolist(), *best.values.tolist()) for best in found]
    assert tally_p(samples, _winner_law(TIED, 1)) > LEVEL
    assert tally_p(samples, _winner_law(TIED, 2)) < LEVEL


@pytest.mark.parametrize("line", quick_in([None, -20], {-20}))
def test_grouped_the_winner_has_the_same_law_and_no_group_is_favoured(line: int | None):
    bits, law = InsecureSeededBits(2), dpgap.NoisyHistogram(1).law
    values, sizes, starts = np.array([2, 1, 0]), np.array([1, 3, 1]), np.array([0, 1, 4])
    samples, by_group = [], []
    for _ in range(RUNS):
        best, places = best_of(law, values, sizes, Cutoff(1, line), bits)
        samples.append((int(starts[best.groups[0]] + places[0]), int(best.values[0])))
        # Had ties gone to the group that comes first, this one would have won.
        tied = best.loser is not None and best.loser[0] == best.values[0]
        by_group.append((0, samples[-1][1]) if tied else samples[-1])
    assert tally_p(samples, _winner_law(TIED, 1)) > LEVEL
    assert tally_p(by_group, _winner_law(TIED, 1)) < LEVEL


CASES = {
    "some": (3, None, [7, 3, 0], [2, 3, 5]),
    "heavy ties": (4, None, [2, 1], [6, 9]),
    "a line": (None, 3, [4, 2, 0], [2, 3, 30]),
    "a line and no more than some": (2, 3, [4, 2, 0], [2, 3, 30]),
    "everybody": (6, None, [3, 0], [2, 4]),
}


@pytest.mark.parametrize("case", quick_in(CASES, {"a line and no more than some"}))
def test_grouped_and_one_by_one_agree_in_law(case: str):
    k, line, values, sizes = CASES[case]
    values, sizes = np.array(values), np.array(sizes)
    starts = np.cumsum(sizes) - sizes

    def seen(best, members):
        loser = -9 if best.loser is None else best.loser[0]
        some = [members[0], best.values[0]] if best.values.size else [-1, -1]
        return (*map(int, some), best.values.size, loser)

    def grouped(reach: int, seed: int):
        law, bits = dpgap.NoisyHistogram(1, reach=reach).law, InsecureSeededBits(seed)
        for _ in range(RUNS):
            best, places = best_of(law, values, sizes, Cutoff(k, line), bits)
            yield seen(best, starts[best.groups] + places)

    law, bits = dpgap.NoisyHistogram(1, reach=2).law, InsecureSeededBits(4)
    plain = []
    for _ in range(RUNS):
        best = one_by_one(law, np.repeat(values, sizes), Cutoff(k, line), bits)
        plain.append(seen(best, best.groups))
    alike, other = list(grouped(2, 3)), list(grouped(3, 5))
    views = [lambda s: s[:2], lambda s: s[1:3], lambda s: s[2:]]
    p_values = [homogeneous_p([v(s) for s in alike], [v(s) for s in plain]) for v in views]
    assert min(p_values) > LEVEL
    assert min(homogeneous_p([v(s) for s in other], [v(s) for s in plain]) for v in views) < LEVEL


def test_a_trillion_absent_items_cost_nothing_and_may_win():
    law, bits = dpgap.NoisyHistogram(1).law, InsecureSeededBits(6)
    values, sizes = np.arange(500), np.full(500, 3)
    sizes[0] = 10**12
    best, places = best_of(law, values, sizes, Cutoff(10, None), bits)
    assert words_drawn(bits) < 20 * values.size
    assert best.values[0] > 490
    alone, places = best_of(law, values[:1], sizes[:1], Cutoff(10, None), bits)
    assert 20 < alone.values[-1] <= alone.values[0] < 60
    assert len(set(places.tolist())) == 10
    assert places.max() > 10**10


def test_where_noise_is_hardly_ever_there_the_ties_of_a_trillion_are_not_drawn():
    law, bits = dpgap.NoisyHistogram(60).law, InsecureSeededBits(7)
    best, _ = best_of(law, np.array([0]), np.array([10**12]), Cutoff(10, None), bits)
    assert best.values.tolist() == [0] * 10
    assert best.loser[0] == 0
    assert words_drawn(bits) < 200


def test_how_many_reach_a_line_is_binomial():
    law, bits, size = dpgap.NoisyHistogram(1).law, InsecureSeededBits(8), 10**9
    chance = float(law.tail(20))
    found = [
        best_of(law, np.array([0]), np.array([size]), Cutoff(None, 20), bits)[0].values
        for _ in range(2_000)
    ]
    assert all((values >= 20).all() for values in found)
    mean = size * chance
    poisson = {n: math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(12)}
    assert tally_p([values.size for values in found], poisson) > LEVEL
    more = {n: math.exp(n * math.log(2 * mean) - 2 * mean - math.lgamma(n + 1)) for n in range(12)}
    assert tally_p([values.size for values in found], more) < LEVEL


def test_no_answers_at_all_return_nothing():
    nothing = np.empty(0, dtype=np.int64)
    law = dpgap.NoisyHistogram(1).law
    best, places = best_of(law, nothing, nothing, Cutoff(3, 15), InsecureSeededBits(1))
    assert best.values.size == places.size == 0
    assert best.loser is None
