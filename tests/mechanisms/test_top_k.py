"""Noisy Top-K with gap: the program, the kernel, and the law of what is released."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgap
from dpgap.exact.bits import InsecureSeededBits, secure_bits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise
from dpgap.exact.reals import RealNoise
from dpgap.mechanisms import top_k as top_k_kernel
from dpgap.mechanisms.top_k import select
from law_tests import LEVEL, chi_square_p, homogeneous_p, require_law
from seams import long_case, quick_in

NOISES = ("laplace", "exponential", "staircase")


def _program(mechanism: dpgap.NoisyTopK, answers: list[int], seed: int):
    bits = InsecureSeededBits(seed)
    words = bits.words(mechanism.law.words_per_draw, len(answers))
    return mechanism.run(answers, RealNoise(mechanism.law.reals(words, bits)))


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(st.integers(0, 4) | st.integers(-(2**60), 2**60), min_size=1, max_size=40),
    k=st.integers(1, 40),
    epsilon=st.sampled_from(["1/100", "0.7", "3", "50"]),
    noise=st.sampled_from(NOISES),
    monotonic=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_kernel_selects_what_the_program_selects(answers, k, epsilon, noise, monotonic, seed):
    mechanism = dpgap.NoisyTopK(min(k, len(answers)), epsilon, noise=noise, monotonic=monotonic)
    selection = select(mechanism, np.array(answers), 1, InsecureSeededBits(seed))
    indices, leads = _program(mechanism, answers, seed)
    assert tuple(selection.indices[0].tolist()) == indices
    assert tuple(selection.leads[0].tolist()) == leads


@pytest.mark.parametrize(
    ("order", "noise"),
    quick_in(
        itertools.product(
            ["shuffled", "rising", "falling", "constant"], ["laplace", "exponential"]
        ),
        {("shuffled", "exponential"), ("rising", "laplace"), ("constant", "exponential")},
    ),
)
@pytest.mark.parametrize("seed", quick_in(range(2), {0}))
def test_pruning_never_loses_a_contender(noise: str, order: str, seed: int):
    rng = np.random.default_rng(3)
    answers = {
        "shuffled": rng.permutation(20_000 // np.arange(1, 3_001)),
        "rising": np.arange(3_000) // 7,
        "falling": np.arange(3_000)[::-1] // 7,
        "constant": np.full(3_000, 5),
    }[order]
    mechanism = dpgap.NoisyTopK(7, "0.7", monotonic=True, noise=noise)
    selection = select(mechanism, answers, 1, InsecureSeededBits(seed))
    indices, leads = _program(mechanism, answers.tolist(), seed)
    assert tuple(selection.indices[0].tolist()) == indices
    assert tuple(selection.leads[0].tolist()) == leads


def test_pruned_and_unpruned_staircase_selections_follow_one_law():
    mechanism = dpgap.NoisyTopK(1, 2, monotonic=True, noise="staircase")
    answers = np.array([3, 3, 2, 0])
    whole = select(mechanism, answers, 6_000, InsecureSeededBits(5))
    pruned = select(mechanism, answers, 6_000, InsecureSeededBits(6), small=0, first_chunk=2)

    def outcomes(selection):
        return np.hstack([selection.indices, np.minimum(selection.leads, 5)])

    assert homogeneous_p(outcomes(whole), outcomes(pruned)) > LEVEL


def test_many_runs_at_once_are_the_runs_one_by_one(monkeypatch):
    mechanism = dpgap.NoisyTopK(2, 1)
    answers = np.array([4, 1, 3, 2])
    together = select(mechanism, answers, 50, InsecureSeededBits(8))
    bits = InsecureSeededBits(8)
    for run in range(50):
        alone = select(mechanism, answers, 1, bits)
        assert together.indices[run].tolist() == alone.indices[0].tolist()
        assert together.leads[run].tolist() == alone.leads[0].tolist()


def test_the_fall_back_alone_gives_the_very_same_selections(monkeypatch):
    mechanism = dpgap.NoisyTopK(3, 1)
    answers = np.array([5, 5, 4, 4, 3, 0])
    quick = select(mechanism, answers, 400, InsecureSeededBits(9))

    def nothing_known(offsets: np.ndarray, ends: tuple[np.ndarray, np.ndarray]):
        return tuple(np.full(end.shape, far) for end, far in zip(ends, (-1e9, 1e9), strict=True))

    monkeypatch.setattr(top_k_kernel, "noisy_bounds", nothing_known)
    slow = select(mechanism, answers, 400, InsecureSeededBits(9))
    assert (quick.indices == slow.indices).all()
    assert (quick.leads == slow.leads).all()


# The law of (winner, ⌊lead⌋) for k = 1: an integral over the best loser.


def _max_law(mechanism: dpgap.NoisyTopK, answers: list[int], factor: float) -> np.ndarray:
    """P(winner, ⌊lead⌋), leads below 60, by quadrature over the winner's value."""
    scale = float(mechanism.law.scale) * factor
    law = stats.laplace(scale=scale) if mechanism.law.signed else stats.expon(scale=scale)
    # Kinks lie at whole numbers, so Gauss–Legendre within each step is exact to rounding.
    nodes, weights = np.polynomial.legendre.leggauss(12)
    steps = np.arange(min(answers) - 90, max(answers) + 90)
    x = (steps[:, None] + (nodes + 1) / 2).ravel()
    weight = np.tile(weights / 2, steps.size)
    chances = np.zeros((len(answers), 60))
    for winner, answer in enumerate(answers):
        density = law.pdf(x - answer) * weight
        below = [
            np.prod(
                [law.cdf(x - lead - other) for i, other in enumerate(answers) if i != winner], 0
            )
            for lead in range(61)
        ]
        for lead in range(60):
            chances[winner, lead] = density @ (below[lead] - below[lead + 1])
    return chances


@pytest.mark.parametrize(
    ("noise", "monotonic"),
    quick_in(
        itertools.product(["laplace", "exponential"], [True, False]),
        {("laplace", True), ("exponential", False)},
    ),
)
def test_a_million_winners_and_gaps_follow_the_exact_law(noise: str, monotonic: bool):
    mechanism = dpgap.NoisyTopK(1, 1, monotonic=monotonic, noise=noise)
    answers = [2, 2, 1, 0]
    selection = select(mechanism, np.array(answers), 1_000_000, InsecureSeededBits(21))
    counts = np.zeros((4, 61))
    np.add.at(counts, (selection.indices[:, 0], np.minimum(selection.leads[:, 0], 60)), 1)

    def p_value(factor: float) -> float:
        chances = _max_law(mechanism, answers, factor)
        rest = max(1 - chances.sum(), 0)
        return chi_square_p(
            [*counts[:, :60].ravel(), counts[:, 60].sum()], [*chances.ravel(), rest]
        )

    require_law(p_value)


def _pair_law(scale: float, answers: list[int]) -> dict[tuple[int, int, int, int], float]:
    """P(winners, ⌊leads⌋) for k = 2 of 3, with leads in different steps: one integral each."""
    law = stats.laplace(scale=scale)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    steps = np.arange(-80, 80)
    m = (steps[:, None] + (nodes + 1) / 2).ravel()
    weight = np.tile(weights / 2, steps.size)
    chances = {}
    for first, second in itertools.permutations(range(3), 2):
        loser = 3 - first - second
        density = law.pdf(m - answers[loser]) * weight

        def within(winner: int, lead: int) -> np.ndarray:
            x = m + lead - answers[winner]
            return law.cdf(x + 1) - law.cdf(x)

        for a, b in itertools.product(range(25), range(25)):
            if a > b:
                chances[first, second, a, b] = float(
                    density @ (within(first, a) * within(second, b))
                )
    return chances


def test_a_million_pairs_of_winners_and_leads_follow_the_exact_law():
    mechanism = dpgap.NoisyTopK(2, 2, monotonic=True, noise="laplace")
    answers = [1, 1, 0]
    selection = select(mechanism, np.array(answers), 1_000_000, InsecureSeededBits(22))
    rows, counted = np.unique(
        np.hstack([selection.indices, np.minimum(selection.leads, 99)]) @ [10**6, 10**4, 100, 1],
        return_counts=True,
    )
    seen = dict(zip(rows.tolist(), counted.tolist(), strict=True))

    def p_value(factor: float) -> float:
        chances = _pair_law(factor, answers)
        counts = [seen.get(np.dot(cell, [10**6, 10**4, 100, 1]), 0) for cell in chances]
        rest = 1_000_000 - sum(counts)
        return chi_square_p([*counts, rest], [*chances.values(), 1 - sum(chances.values())])

    require_law(p_value)


# Ties.


def _index_2_gap_0(answers: list[int], runs: int) -> int:
    selection = select(dpgap.NoisyTopK(1, 1), np.array(answers), runs, secure_bits())
    return int(((selection.indices[:, 0] == 2) & (selection.leads[:, 0] == 0)).sum())


def _loss_bounds(count: int, other: int, runs: int) -> tuple[float, float]:
    """Clopper–Pearson bounds of the log-ratio, each side at half the level."""
    tail = LEVEL / 4

    def interval(successes: int) -> tuple[float, float]:
        low = stats.beta.ppf(tail, successes, runs - successes + 1)
        high = stats.beta.isf(tail, successes + 1, runs - successes)
        return float(low), float(high)

    (low, high), (other_low, other_high) = interval(count), interval(other)
    return math.log(low / other_high), math.log(high / other_low)


def _lowest_index_wins_ties(answers: list[int], runs: int, seed: int) -> int:
    """The mechanism that the attack is about: discrete Laplace noise, ties by index."""
    rng = np.random.default_rng(seed)
    fall = math.exp(-1 / 2)
    noise = rng.geometric(1 - fall, (runs, 4)) - rng.geometric(1 - fall, (runs, 4))
    noisy = np.array(answers) + noise
    ranked = np.sort(noisy, axis=1)
    return int(((noisy.argmax(axis=1) == 2) & (ranked[:, -1] == ranked[:, -2])).sum())


@pytest.mark.parametrize(("large", "runs"), [(0, 1_000_000), long_case((4, 2_000_000))])
def test_the_tie_attack_sees_no_more_than_epsilon(large: int, runs: int):
    here, there = [large, large, 0, 0], [large + 1, large + 1, -1, -1]
    low, high = _loss_bounds(_index_2_gap_0(here, runs), _index_2_gap_0(there, runs), runs)
    assert low <= 1
    assert high < 1.2


@pytest.mark.parametrize(("large", "runs"), [(0, 1_000_000), long_case((4, 2_000_000))])
def test_the_tie_attack_breaks_ties_by_index(large: int, runs: int):
    here, there = [large, large, 0, 0], [large + 1, large + 1, -1, -1]
    low, _ = _loss_bounds(
        _lowest_index_wins_ties(here, runs, 1), _lowest_index_wins_ties(there, runs, 2), runs
    )
    assert low > 1.2


# What a release holds.


def test_gaps_are_floors_of_leads_differenced_so_that_long_sums_are_unbiased():
    mechanism = dpgap.NoisyTopK(25, 1, monotonic=True)
    answers = np.arange(26)[::-1] * 10_000
    selection = select(mechanism, answers, 4_000, InsecureSeededBits(30))
    across = selection.leads[:, 0] - selection.leads[:, 24]  # the gap between ranks 1 and 25
    error = across.mean() - 240_000
    spread = math.sqrt(2 * mechanism.law.variance / 4_000)
    assert abs(error) < 5 * spread < 12


def test_every_answer_may_win():
    release = dpgap.NoisyTopK(3, 100, monotonic=True).release([10, 3000, 200])
    assert release.indices.tolist() == [1, 2, 0]
    assert release.gaps.size == 2
    assert release.gap_between(1, 3) == release.gaps.sum()


def test_gaps_between_ranks_add_up():
    release = dpgap.NoisyTopK(4, 10, monotonic=True).release([5, 90, 40, 300, 7, 200])
    assert release.gap_between(2, 4) == release.gaps[1] + release.gaps[2]
    assert release.gap_between(1, 5) == release.gaps.sum()
    for better, worse in ((0, 2), (2, 2), (3, 2), (1, 6)):
        with pytest.raises(ValueError, match=r"ranks must satisfy|better must be at least 1"):
            release.gap_between(better, worse)


def test_one_answer_wins_without_a_gap():
    release = dpgap.NoisyMax(1).release([7], labels=["only"])
    assert (release.index, release.label, release.gap) == (0, "only", None)


def test_noise_has_the_scale_of_the_paper():
    papers = dpgap.NoisyTopK(5, "0.7", noise="laplace")
    assert papers.law == LaplaceNoise(Fraction(100, 7))
    counts = dpgap.NoisyTopK(5, "0.7", monotonic=True, noise="laplace")
    assert counts.law == LaplaceNoise(Fraction(50, 7))


def test_noise_is_exponential_unless_stated():
    assert dpgap.NoisyTopK(5, "0.7", sensitivity=3).law == ExponentialNoise(Fraction(300, 7))
    for mechanism in (
        dpgap.NoisyMax(1),
        dpgap.SparseVector(0, 2, 1),
        dpgap.AdaptiveSparseVector(0, 2, 1),
    ):
        assert mechanism.noise == "exponential"
        assert mechanism.release([90, 50]).p_values is not None


def test_real_answers_are_rounded_to_the_grid_and_the_sensitivity_up():
    mechanism = dpgap.NoisyTopK(1, 1000, grid="1/4", sensitivity="0.3")
    assert mechanism.in_steps().sensitivity == 2
    release = mechanism.release([0.1, 100.26, 50.0])
    assert release.indices.tolist() == [1]
    assert release.gaps[0] % 0.25 == 0


def test_mechanisms_are_values():
    assert dpgap.NoisyTopK(3, 0.7) == dpgap.NoisyTopK(3, "7/10")
    assert hash(dpgap.NoisyTopK(3, 0.7)) == hash(dpgap.NoisyTopK(3, "7/10"))
    with pytest.raises(AttributeError):
        dpgap.NoisyTopK(3, 0.7).k = 4
