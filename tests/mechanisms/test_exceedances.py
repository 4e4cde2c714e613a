"""Streams of mostly zeros: the law of asking one by one, at the cost of those that are not."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.data.private_counts import CountsInMemory
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import LAWS, ExponentialNoise, LaplaceNoise
from dpgap.mechanisms import sparse_vector as module
from dpgap.mechanisms import top_k as top_k_kernel
from dpgap.mechanisms.sparse_vector import Sifting, exceedances
from law_tests import LEVEL, chi_square_p, homogeneous_p, sift
from seams import bits_are, quick_in, words_drawn

RUNS = 2_000
VALUES, PLACES, SIZE = np.array([9, 3, 6]), np.array([2, 40, 41]), 60


def _sparse(mechanism: dpgap.SparseVector, seed: int, **pace: int) -> list[list[tuple[int, ...]]]:
    bits, views = InsecureSeededBits(seed), ([], [], [])
    for _ in range(RUNS):
        sifting = Sifting(mechanism.in_steps(), 1, bits, None)
        found = sifting.take_sparse(VALUES, PLACES, SIZE, **pace)
        processed = sifting.processed(SIZE)
        _view(views, found.indices, found.branches, found.gaps, sifting.used[0], processed)
    return views


def _view(views: tuple, indices, branches, gaps, used, processed) -> None:
    none = [-1]
    views[0].append((*indices[:1].tolist(), *branches[:1].tolist()) or (-1, -1))
    views[1].append((int(used), int(processed[0]) // 10))
    last = gaps.tolist() or none
    views[2].append((last[-1] // 2, indices.size))


def _dense(mechanism: dpgap.SparseVector, seed: int) -> list[list[tuple[int, ...]]]:
    answers, views = np.zeros(SIZE, dtype=np.int64), ([], [], [])
    answers[PLACES] = VALUES
    sifted = sift(mechanism.in_steps(), answers, RUNS, InsecureSeededBits(seed))
    for run in range(RUNS):
        own = sifted.runs == run
        _view(
            views,
            sifted.indices[own],
            sifted.branches[own],
            sifted.gaps[own],
            sifted.used[run],
            sifted.processed[run : run + 1],
        )
    return views


@pytest.mark.parametrize(
    ("noise", "adaptive", "few"),
    quick_in(
        itertools.product(["laplace", "exponential"], [False, True], [1, 64]),
        {("laplace", True, 1), ("exponential", False, 64)},
    ),
)
def test_sparse_and_plain_streams_agree_in_law(noise: str, adaptive: bool, few: int):
    kind = dpgap.AdaptiveSparseVector if adaptive else dpgap.SparseVector
    facts = {"monotonic": True, "noise": noise, **({"drain": True} if adaptive else {})}
    mechanism, wrong = kind(6, 2, 2, **facts), kind(6, 2, "1.4", **facts)
    sparse = _sparse(mechanism, 1, clearing=few, shortest=7)
    plain, other = _dense(mechanism, 2), _dense(wrong, 3)
    for one, two in zip(sparse, plain, strict=True):
        assert homogeneous_p(one, two) > LEVEL
    assert min(homogeneous_p(one, two) for one, two in zip(sparse, other, strict=True)) < LEVEL


class _Recorded:
    """The draws that a sparse run made, as a program asks for them; others are far too low."""

    def __init__(self, threshold: int, draws: dict[tuple[int, int], int], ways: int) -> None:
        self._threshold, self._draws, self._ways = threshold, draws, ways
        self.place, self._way = -2, 0

    def draw(self, law) -> int:
        if self.place == -2:
            self.place = -1
            return self._threshold
        draw = self._draws.get((self.place, self._way), -(10**6))
        self._way += 1
        return draw

    def answers(self, answers):
        for self.place, answer in enumerate(answers):
            self._way = 0
            yield answer


def _zeros_found_as_by_the_program(seed: int) -> int:
    """How many zeros a sparse run found, if it is the program's on the same noise."""
    facts = {"monotonic": True, "branches": 3, "drain": True}
    program = dpgap.AdaptiveSparseVector(5, 2, 3, **facts).in_steps()
    sifting = Sifting(program, 1, InsecureSeededBits(seed), None)
    threshold = int(sifting.thresholds[0])
    draws, done, events = {}, 0, sifting._events

    def recorded(values, places, length):
        nonlocal done
        gaps, at = events(values, places, length)
        for column, place in enumerate(at.tolist()):
            own = values[places == place]
            for way, gap in enumerate(gaps[:, 0, column].tolist()):
                draws[done + place, way] = gap + threshold - (int(own[0]) if own.size else 0)
        done += length
        return gaps, at

    sifting._events = recorded
    found = sifting.take_sparse(VALUES, PLACES, SIZE)
    answers = np.zeros(SIZE, dtype=np.int64)
    answers[PLACES] = VALUES
    noise = _Recorded(threshold - int(program.threshold), draws, len(program.every_branch))
    outcomes = list(program.run(noise.answers(answers.tolist()), noise))
    above = [(at, *said) for at, said in enumerate(outcomes) if said.branch is not None]
    assert above == list(
        zip(found.indices.tolist(), found.branches.tolist(), found.gaps.tolist(), strict=True)
    )
    assert len(outcomes) == sifting.processed(SIZE)[0]
    return int(np.isin(found.indices, PLACES, invert=True).sum())


def test_sparse_runs_are_the_programs_on_the_same_noise():
    assert sum(map(_zeros_found_as_by_the_program, range(60))) > 30


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_the_number_of_draws_that_reach_a_line_is_binomial(noise: str):
    law, size, line = LAWS[noise](Fraction(5)), 10**12, 130
    bits = InsecureSeededBits(4)
    numbers = [exceedances(law, line, size, bits).size for _ in range(2_000)]
    mean = size * float(law.tail(line))
    assert 1 < mean < 10
    high = int(mean * 3)
    expected = stats.poisson.pmf(np.arange(high), mean)  # 10^12 trials, each unlikely
    tallied = np.bincount(np.minimum(numbers, high), minlength=high + 1)
    chances = np.append(expected, 1 - expected.sum())
    assert chi_square_p(tallied, chances) > LEVEL
    wrong = stats.poisson.pmf(np.arange(high), mean * 1.2)
    wrong = np.append(wrong, 1 - wrong.sum())
    assert chi_square_p(tallied, wrong) < LEVEL


def test_draws_that_floats_leave_open_are_decided_by_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
):
    law = LaplaceNoise(Fraction(5))
    quick = exceedances(law, 3, 100, InsecureSeededBits(5))
    sums = top_k_kernel.sums_of_waits
    wide = np.array([1 - 2.0**-3, 1 + 2.0**-3])[:, None, None]
    monkeypatch.setattr(top_k_kernel, "sums_of_waits", lambda *given: sums(*given) * wide)
    decided = []
    real = module.decide
    monkeypatch.setattr(module, "decide", lambda *ask: decided.append(1) or real(*ask))
    slow = exceedances(law, 3, 100, InsecureSeededBits(5))
    assert len(decided) > 10
    known = min(quick.size, 20)  # further on, the bits that decimals read shift the stream
    assert slow[:known].tolist() == quick[:known].tolist()


def test_a_line_below_everything_is_reached_by_all():
    law = ExponentialNoise(Fraction(5))
    assert exceedances(law, 0, 500, InsecureSeededBits(6)).size == 500
    assert exceedances(law, 10, 0, InsecureSeededBits(6)).size == 0


def test_a_trillion_items_are_gone_through_at_the_cost_of_those_present():
    positions = np.array([7, 10**11, 10**12 - 1])
    answers = CountsInMemory(
        range(10**12), positions, np.array([900] * 3), sensitivity=Fraction(1), monotonic=True
    )
    mechanism = dpgap.SparseVector(threshold=600, k=3, epsilon=3, monotonic=True)
    bits = InsecureSeededBits(7)
    with bits_are(bits):
        release = mechanism.release(answers)
    assert words_drawn(bits) < 100
    assert release.indices.tolist() == positions.tolist()
    assert release.labels == (7, 10**11, 10**12 - 1)
    assert release.processed == 10**12


def test_where_noise_reaches_the_threshold_zeros_are_found_as_well():
    answers = CountsInMemory(
        range(10**12), np.array([5]), np.array([900]), sensitivity=Fraction(1), monotonic=True
    )
    mechanism = dpgap.SparseVector(threshold=60, k=4, epsilon=1, monotonic=True)
    release = mechanism.release(answers)
    assert release.indices.size == 4
    assert release.processed < 10**9
    assert math.isclose(float(release.spent), 1.0)
