"""Sparse Vector with gap: program, kernel, law, budget and bounds."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.estimates.errors import gap_shortfall
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law
from dpgap.mechanisms.sparse_vector import best_threshold_share
from law_tests import LEVEL, chi_square_p, require_law, sift
from seams import bits_are, quick_in

NOISES = ("laplace", "exponential", "staircase")


class _Tabled:
    """The noise of one run of the kernel, as the program draws it."""

    def __init__(self, threshold: int, laws: list[Law], noise: np.ndarray) -> None:
        self._threshold = threshold
        self._laws = laws
        self._noise = noise
        self._answer = -2

    def draw(self, law: Law) -> int:
        branch = 0 if self._answer == -2 else self._laws.index(law)
        if branch == 0:
            self._answer += 1
        if self._answer == -1:
            return self._threshold
        return int(self._noise[branch, self._answer])


@settings(max_examples=200, deadline=None)
@given(
    answers=st.lists(st.integers(0, 20), min_size=1, max_size=40),
    k=st.integers(1, 6),
    epsilon=st.sampled_from(["1/10", "1", "20", "500"]),
    branches=st.integers(1, 4),
    drain=st.booleans(),
    monotonic=st.booleans(),
    noise=st.sampled_from(NOISES),
    most=st.none() | st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_the_kernel_says_what_the_program_says(
    answers, k, epsilon, branches, drain, monotonic, noise, most, seed
):
    mechanism = dpgap.AdaptiveSparseVector(
        8, k, epsilon, branches=branches, drain=drain, monotonic=monotonic, noise=noise
    )
    program = mechanism.in_steps()
    runs = 4
    sifted = sift(program, np.array(answers), runs, InsecureSeededBits(seed), most)
    bits = InsecureSeededBits(seed)
    thresholds = program.threshold_law.floors(bits, runs)
    drawn = np.stack([way.law.floors(bits, runs, len(answers)) for way in program.every_branch])
    for run in range(runs):
        noise_of_run = _Tabled(
            int(thresholds[run]), [way.law for way in program.every_branch], drawn[:, run]
        )
        said, above = [], 0
        for outcome in program.run(answers, noise_of_run):
            said.append(outcome)
            above += outcome.branch is not None
            if above == most:
                break
        expected = [(i, *outcome) for i, outcome in enumerate(said) if outcome.branch]
        mine = sifted.runs == run
        found = zip(sifted.indices[mine], sifted.branches[mine], sifted.gaps[mine], strict=True)
        assert [tuple(map(int, each)) for each in found] == expected
        assert sifted.processed[run] == len(said)
        assert sifted.used[run] == sum(
            program.every_branch[branch - 1].units for _, branch, _ in expected
        )


def test_long_lists_are_taken_in_chunks_without_a_seam():
    mechanism = dpgap.AdaptiveSparseVector(5, 40, 400, monotonic=True, branches=3, drain=True)
    program = mechanism.in_steps()
    answers = np.random.default_rng(1).integers(0, 12, 600)
    sifted = sift(program, answers, 1, InsecureSeededBits(3), words_at_once=7)
    bits = InsecureSeededBits(3)
    threshold = program.threshold_law.floors(bits, 1)
    chunks = [
        np.stack([way.law.floors(bits, 1, min(7, 600 - start)) for way in program.every_branch])
        for start in range(0, 600, 7)
    ]
    noise = _Tabled(
        int(threshold[0]),
        [way.law for way in program.every_branch],
        np.concatenate(chunks, axis=2)[:, 0],
    )
    outcomes = list(program.run(answers.tolist(), noise))
    expected = [(i, *outcome) for i, outcome in enumerate(outcomes) if outcome.branch]
    found = zip(sifted.indices, sifted.branches, sifted.gaps, strict=True)
    assert [tuple(map(int, each)) for each in found] == expected
    assert len(expected) > 40
    assert sifted.processed[0] == len(outcomes)


# The law of what is said: a sum over the threshold's noise.


def _law_of_words(
    mechanism: dpgap.SparseVector, answers: list[int], factor: Fraction
) -> dict[tuple[int, ...], float]:
    """P(branches said, 0 for below) for every transcript of a list without running out."""
    program = mechanism.in_steps()
    steps = np.arange(-400, 1200)

    def stretched(law: Law) -> Law:
        return law.scaled(factor)

    mass = np.array([stretched(program.threshold_law).floor_mass(int(n)) for n in steps])
    rising = {
        way.number: np.array([stretched(way.law).tail(int(n) + 1) for n in range(-2000, 3000)])
        for way in program.every_branch
    }

    def clears(way, answer: int) -> np.ndarray:  # P(answer + N − T − n ≥ margin)
        need = program.threshold + steps + way.margin - answer - 1
        return rising[way.number][need + 2000]

    chances = {}
    for words in itertools.product(range(len(program.every_branch) + 1), repeat=len(answers)):
        chance = mass.copy()
        for answer, word in zip(answers, words, strict=True):
            for way in program.every_branch:
                clear = clears(way, answer)
                if way.number == word:
                    chance = chance * clear
                    break
                chance = chance * (1 - clear)
        chances[words] = float(chance.sum())
    return chances


@pytest.mark.parametrize(
    ("noise", "branches", "monotonic"),
    quick_in(
        itertools.product(["laplace", "exponential"], [1, 2, 3], [True, False]),
        {("laplace", 3, True), ("exponential", 1, False)},
    ),
)
def test_a_million_transcripts_follow_the_exact_law(noise: str, branches: int, monotonic: bool):
    mechanism = dpgap.AdaptiveSparseVector(
        10, 3, 3, monotonic=monotonic, branches=branches, noise=noise
    )
    answers = [6, 14, 30]
    runs = 1_000_000
    sifted = sift(mechanism.in_steps(), np.array(answers), runs, InsecureSeededBits(41))
    words = np.zeros((runs, 3), dtype=np.int64)
    words[sifted.runs, sifted.indices] = sifted.branches
    cells, counts = np.unique(words, axis=0, return_counts=True)
    seen = {tuple(cell): int(count) for cell, count in zip(cells.tolist(), counts, strict=True)}

    def p_value(factor: float) -> float:
        chances = _law_of_words(mechanism, answers, Fraction(str(factor)))
        return chi_square_p([seen.get(word, 0) for word in chances], list(chances.values()))

    require_law(p_value)


def test_a_million_gaps_follow_the_exact_law():
    mechanism = dpgap.SparseVector(0, 1, 1, monotonic=True)
    program = mechanism.in_steps()
    sifted = sift(program, np.array([3]), 1_000_000, InsecureSeededBits(42))
    counts = np.bincount(np.minimum(sifted.gaps, 60), minlength=61)

    def p_value(factor: float) -> float:
        law = program.every_branch[0].law.scaled(Fraction(str(factor)))
        threshold_law = program.threshold_law.scaled(Fraction(str(factor)))
        steps = range(-150, 150)
        mass = np.array([threshold_law.floor_mass(n) for n in steps])
        gaps = [float(mass @ [law.floor_mass(gap - 3 + n) for n in steps]) for gap in range(60)]
        below = float(mass @ [1 - law.tail(n - 3) for n in steps])
        cells = [*counts.tolist(), 1_000_000 - sifted.gaps.size]
        return chi_square_p(cells, [*gaps, max(1 - below - sum(gaps), 0), below])

    require_law(p_value)


def test_a_run_says_what_a_release_says():
    mechanism = dpgap.AdaptiveSparseVector(10, 3, 3, monotonic=True)
    said = Counter()
    with bits_are(InsecureSeededBits(60)):
        for _ in range(12_000):
            run = mechanism.start()
            said[tuple(run.ask(answer).branch or 0 for answer in (6, 14, 30))] += 1

    def p_value(factor: float) -> float:
        chances = _law_of_words(mechanism, [6, 14, 30], Fraction(str(factor)))
        return chi_square_p([said[word] for word in chances], list(chances.values()))

    assert p_value(1.0) > LEVEL
    assert p_value(1.2) < LEVEL


# Budget.


def test_scales_and_shares_are_those_of_the_paper():
    mechanism = dpgap.SparseVector(0, 4, "0.7", threshold_share="1/7", noise="laplace")
    assert mechanism.threshold_law == LaplaceNoise(Fraction(10))
    assert mechanism.every_branch[0].law == LaplaceNoise(2 / (Fraction(6, 10) / 4))
    monotonic = dpgap.SparseVector(
        0, 4, "0.7", threshold_share="1/7", monotonic=True, noise="laplace"
    )
    assert monotonic.every_branch[0].law == LaplaceNoise(1 / (Fraction(6, 10) / 4))
    assert math.isclose(
        best_threshold_share(10, monotonic=True), 1 / (1 + 10 ** (2 / 3)), abs_tol=1e-6
    )
    assert math.isclose(
        best_threshold_share(10, monotonic=False), 1 / (1 + 20 ** (2 / 3)), abs_tol=1e-6
    )
    assert best_threshold_share(10, monotonic=True).denominator <= 1 << 20


def test_margins_are_two_standard_deviations_of_the_branchs_own_noise():
    for monotonic, factor in ((False, 4), (True, 2)):
        mechanism = dpgap.AdaptiveSparseVector(0, 5, "0.1", monotonic=monotonic, noise="laplace")
        cheap, dear = mechanism.every_branch
        sigma = factor * math.sqrt(2) / float(cheap.charge)
        assert cheap.margin == math.ceil(sigma)
        assert dear.margin == 0
        assert dear.charge == 2 * cheap.charge


@pytest.mark.parametrize("branches", [1, 2, 3, 4])
@pytest.mark.parametrize("drain", [False, True])
def test_no_transcript_overspends_and_all_of_epsilon_can_be_spent(branches: int, drain: bool):
    for k, epsilon in itertools.product((1, 2, 3, 7), ("0.1", "0.7", "1/3")):
        mechanism = dpgap.AdaptiveSparseVector(0, k, epsilon, branches=branches, drain=drain)
        capacity, dearest = mechanism.capacity, mechanism.every_branch[-1].units
        assert mechanism.spent(capacity) == mechanism.epsilon
        for used in range(capacity + 1):
            live = mechanism.live(used)
            assert all(used + way.units <= capacity for way in mechanism.every_branch[:live])
            if drain:
                assert (live == 0) == (used == capacity)
            else:
                assert live == (branches if used <= (k - 1) * dearest else 0)


def test_the_papers_stop_rule_in_floats_stops_early_where_whole_units_do_not():
    early = 0
    for k in range(1, 26):
        for hundredths in range(10, 130, 5):
            epsilon = hundredths / 100
            share = 1 / (1 + k ** (2 / 3))
            cost, dear = share * epsilon, (1 - share) * epsilon / k
            answered = 0
            while not cost > epsilon - dear:
                cost += dear
                answered += 1
            early += answered < k
    assert early > 100  # of 600: k answers from the dear branch are affordable in all of them
    release = dpgap.SparseVector(0, 25, "0.7", monotonic=True).release([10**6] * 30)
    assert release.indices.size == 25
    assert release.remaining == 0


def test_easy_answers_cost_half_and_twice_as_many_fit():
    answers = [10**6] * 40
    plain = dpgap.SparseVector(0, 10, 1, monotonic=True).release(answers)
    adaptive = dpgap.AdaptiveSparseVector(0, 10, 1, monotonic=True).release(answers)
    drained = dpgap.AdaptiveSparseVector(0, 10, 1, monotonic=True, drain=True).release(answers)
    assert (plain.indices.size, adaptive.indices.size, drained.indices.size) == (10, 19, 20)
    assert (plain.processed, adaptive.processed, drained.processed) == (10, 19, 20)
    assert drained.remaining == 0
    assert adaptive.remaining == dpgap.AdaptiveSparseVector(0, 10, 1, monotonic=True).unit


def test_stopping_early_leaves_an_exact_rest():
    mechanism = dpgap.AdaptiveSparseVector(0, 10, "0.7", monotonic=True)
    release = mechanism.release([10**6] * 40, max_answers=10)
    assert release.processed == release.indices.size == 10
    assert release.branch_of.tolist() == [1] * 10
    assert release.spent == mechanism.spent(10)
    assert release.remaining == (1 - mechanism.threshold_share) * Fraction(7, 10) / 2


def test_a_threshold_off_the_grid_is_rounded_up_and_gaps_are_over_the_stated_one():
    mechanism = dpgap.SparseVector("99.5", 1, 10**6, monotonic=True)
    assert mechanism.in_steps().threshold == 100
    release = mechanism.release([90, 110])
    assert release.indices.tolist() == [1]
    assert release.gaps[0] in (9.5, 10.5, 11.5)  # floors of the least noise differ by a step


def test_one_sided_gaps_are_centred():
    mechanism = dpgap.SparseVector(0, 1, 1, monotonic=True, noise="exponential")
    assert isinstance(mechanism.every_branch[0].law, ExponentialNoise)
    sifted = sift(mechanism.in_steps(), np.array([500]), 200_000, InsecureSeededBits(50))
    gaps = sifted.gaps + mechanism.gap_offsets[0]
    spread = math.sqrt(
        (mechanism.every_branch[0].law.variance + mechanism.threshold_law.variance) / 2e5
    )
    assert abs(gaps.mean() - 500) < 5 * spread


# Bounds.


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("k", [1, 10])
def test_the_lower_bound_covers_as_often_as_it_says(monotonic: bool, k: int):
    # A fine grid, so that the level can be met to a fraction of a percent.
    mechanism = dpgap.AdaptiveSparseVector(
        0, k, "0.7", monotonic=monotonic, grid="1/64", noise="laplace"
    )
    program = mechanism.in_steps()
    bits, runs = InsecureSeededBits(70), 1_000_000
    shared = program.threshold_law.floors(bits, runs)
    run = mechanism.start()
    for way in program.every_branch:
        noise = way.law.floors(bits, runs) - shared
        answer = dpgap.mechanisms.sparse_vector.Answer(True, 0.0, way.number, way.charge)
        shortfall = -run.lower_bound(answer, level=0.95)
        coverage = (noise / 64 <= shortfall).mean()
        own_error = 0.05 * (2 / 3 if way.number == 1 else 1 / 3)  # branches share what may go wrong
        assert coverage == pytest.approx(1 - own_error, abs=0.002)


def test_the_lower_bound_with_the_papers_rate_covers_too_little_in_general():
    mechanism = dpgap.SparseVector(0, 10, "0.7", grid="1/64", noise="laplace")
    program = mechanism.in_steps()
    bits = InsecureSeededBits(71)
    noise = (
        program.every_branch[0].law.floors(bits, 400_000)
        - program.threshold_law.floors(bits, 400_000)
    ) / 64
    papers_law = LaplaceNoise(1 / mechanism.every_branch[0].charge)
    shortfall = gap_shortfall(papers_law, mechanism.threshold_law, Fraction(1, 64), 0.05)
    assert (noise <= shortfall).mean() == pytest.approx(0.864, abs=0.004)


def test_releases_bound_their_answers_as_runs_do():
    mechanism = dpgap.SparseVector(100, 2, 1, monotonic=True)
    release = mechanism.release([10**4, 2 * 10**4])
    run = mechanism.start()
    answer = run.ask(10**4)
    shortfall = 100 + answer.gap - run.lower_bound(answer, 0.9)
    assert release.lower_bounds(0.9) == pytest.approx(100 + release.gaps - shortfall)
    with pytest.raises(ValueError, match="answer must be above"):
        run.lower_bound(run.ask(-(10**6)))
