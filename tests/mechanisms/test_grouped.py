"""Grouped selection: the law of selecting one by one, at a cost that does not grow with groups."""

import itertools
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.exact import bits as bits_module
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.reals import Uniform
from dpgap.mechanisms import top_k as grouped_kernel
from dpgap.mechanisms.top_k import select, select_grouped, top_draws
from law_tests import LEVEL, chi_square_p, homogeneous_p
from seams import quick_in, words_drawn

RUNS = 5_000
_WORDS = bits_module.Bits.words


def _grouped_samples(mechanism, values, sizes, seed: int, runs: int = RUNS) -> list[tuple]:
    bits = InsecureSeededBits(seed)
    starts = np.cumsum(sizes) - sizes
    samples = []
    for _ in range(runs):
        chosen = select_grouped(mechanism, values, sizes, bits)
        indices = starts[chosen.groups] + chosen.places
        samples.append((*indices.tolist(), *chosen.leads.tolist()))
    return samples


def _plain_samples(mechanism, values, sizes, seed: int, runs: int = RUNS) -> list[tuple]:
    selection = select(mechanism, np.repeat(values, sizes), runs, InsecureSeededBits(seed))
    return list(map(tuple, np.hstack([selection.indices, selection.leads]).tolist()))


CASES = {
    "one winner": (1, [7, 3, 0], [2, 3, 5]),
    "heavy ties": (3, [2, 1], [6, 9]),
    "all zero": (2, [0], [8]),
    "small groups": (3, [9, 5, 4, 1], [1, 1, 1, 2]),
    "everybody wins": (4, [3, 0], [1, 3]),
}


@pytest.mark.parametrize(
    ("case", "noise"),
    quick_in(
        itertools.product(CASES, ["laplace", "exponential"]),
        {
            ("one winner", "laplace"),
            ("heavy ties", "exponential"),
        },
    ),
)
def test_grouped_and_plain_selection_agree_in_law(case: str, noise: str):
    k, values, sizes = CASES[case]
    values, sizes = np.array(values), np.array(sizes)
    mechanism = dpgap.NoisyTopK(k, 2, monotonic=True, noise=noise)
    wrong = dpgap.NoisyTopK(k, Fraction(2) / Fraction("1.4"), monotonic=True, noise=noise)
    grouped = _grouped_samples(mechanism, values, sizes, 1)
    plain = _plain_samples(mechanism, values, sizes, 2)
    other = _plain_samples(wrong, values, sizes, 3)

    def views(samples):  # the winner, and the lead of the first and of the last
        return [[(s[0], s[k]) for s in samples], [(s[k - 1], s[-1]) for s in samples]]

    for one, two in zip(views(grouped), views(plain), strict=True):
        assert homogeneous_p(one, two) > LEVEL
    assert (
        min(homogeneous_p(one, two) for one, two in zip(views(grouped), views(other), strict=True))
        < LEVEL
    )


@settings(max_examples=60, deadline=None)
@given(
    groups=st.dictionaries(st.integers(-4, 4), st.integers(1, 10**12), min_size=1, max_size=6),
    k=st.integers(1, 5),
    noise=st.sampled_from(["laplace", "exponential"]),
    seed=st.integers(0, 2**32),
)
def test_floats_and_the_program_on_reals_select_alike(groups, k, noise, seed):
    values, sizes = np.array(list(groups)), np.array(list(groups.values()))
    if sizes.sum() < k:
        return
    mechanism = dpgap.NoisyTopK(k, 1, noise=noise)
    quick = select_grouped(mechanism, values, sizes, InsecureSeededBits(seed))
    original = grouped_kernel.ranked

    def nothing_certain(low, high, k):
        return *original(low, high, k)[:2], np.array([False])

    with mock.patch.object(grouped_kernel, "ranked", nothing_certain):
        slow = select_grouped(mechanism, values, sizes, InsecureSeededBits(seed))
    assert quick.groups.tolist() == slow.groups.tolist()
    assert quick.leads.tolist() == slow.leads.tolist()


def test_the_largest_of_a_trillion_draws_follows_its_law():
    size = 10**12
    bits = InsecureSeededBits(9)
    law = dpgap.NoisyTopK(1, 1, monotonic=True, noise="exponential", grid="1/8").in_steps().law
    draws = [top_draws(law, size, [bits.word()], bits)[0](0) for _ in range(2_000)]
    assert all(low < high and high - low < Fraction(1, 10**15) for low, high in draws)
    middle = np.array([float(low) for low, _ in draws]) / float(law.scale)
    edges = np.linspace(24, 36, 13)
    counts, _ = np.histogram(middle, bins=[-np.inf, *edges, np.inf])
    chances = np.diff([0, *np.exp(-size * np.exp(-edges)), 1])
    assert chi_square_p(counts, chances) > LEVEL
    wrong = np.diff([0, *np.exp(-1.3 * size * np.exp(-edges)), 1])
    assert chi_square_p(counts, wrong) < LEVEL


def test_places_are_uniform_and_distinct():
    mechanism = dpgap.NoisyTopK(3, 1, monotonic=True)
    samples = _grouped_samples(mechanism, np.array([0]), np.array([5]), 4)
    assert all(len(set(sample[:3])) == 3 for sample in samples)
    counts = np.bincount([sample[0] for sample in samples], minlength=5)
    assert chi_square_p(counts, np.full(5, 0.2)) > LEVEL


def test_the_number_of_members_costs_nothing():
    mechanism = dpgap.NoisyTopK(10, "0.7", monotonic=True)
    values = np.arange(1_200)
    sizes = np.full(1_200, 3)
    sizes[0] = 2**59
    bits = InsecureSeededBits(5)
    chosen = select_grouped(mechanism, values, sizes, bits)
    assert words_drawn(bits) < 20 * values.size
    assert chosen.groups.size == 10


def test_staircase_noise_is_refused_for_groups():
    mechanism = dpgap.NoisyTopK(1, 1, noise="staircase")
    with pytest.raises(ValueError, match="noise must be"):
        select_grouped(mechanism, np.array([1]), np.array([3]), InsecureSeededBits(1))


def _waits(sizes: list[int], words: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    """The first so many sums of E/left, on exact fractions."""
    sums, low, high = [], Fraction(0), Fraction(0)
    for left, word in zip(sizes, words.tolist(), strict=True):
        near, far = Uniform.of_word(word, InsecureSeededBits(0)).exponential(0)
        low, high = low + near / left, high + far / left
        sums.append((low, high))
    return sums


@pytest.mark.parametrize("count", [1, 255, 256, 257, 900])
def test_long_sums_stay_enclosed_and_tight(count: int):
    words = InsecureSeededBits(30).words(count, 1)
    left = np.arange(count, 0, -1) * 10**9
    start = np.array([[0.25], [0.25]])
    low, high = grouped_kernel.sums_of_waits(start, words, left[:, None])[:, :, 0]
    for at, (least, most) in enumerate(_waits(left.tolist(), words[:, 0])):
        assert Fraction(low[at]) - Fraction(1, 4) <= most
        assert Fraction(high[at]) - Fraction(1, 4) >= least
    assert (high - low <= (low - 0.25) * 2.0**-44 + low * 2.0**-42).all()


def test_all_of_many_equal_answers_are_ranked_in_few_steps():
    """Every answer wins; one position after another would take minutes."""
    count = 1 << 16
    mechanism = dpgap.NoisyTopK(count, 1, monotonic=True, noise="exponential")
    bits = InsecureSeededBits(31)
    with mock.patch.object(bits_module.Bits, "words", autospec=True, side_effect=_WORDS) as words:
        chosen = select_grouped(mechanism, np.array([0]), np.array([count]), bits)
    assert words.call_count < 20
    assert sorted(chosen.places.tolist()) == list(range(count))
    assert (np.diff(chosen.leads) <= 0).all()


def test_a_group_far_ahead_is_drawn_in_ever_longer_stretches():
    mechanism = dpgap.NoisyTopK(3_000, 1, monotonic=True, noise="exponential")
    bits = InsecureSeededBits(32)
    values, sizes = np.array([0, -(10**9)]), np.array([10**6, 10**6])
    with mock.patch.object(bits_module.Bits, "words", autospec=True, side_effect=_WORDS) as words:
        chosen = select_grouped(mechanism, values, sizes, bits)
    assert set(chosen.groups.tolist()) == {0}
    assert words.call_count < 40
    assert words_drawn(bits) < 3_000 * 3
