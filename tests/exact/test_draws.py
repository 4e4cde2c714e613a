"""Exact draws: right laws, sound bounds, and a fall-back that changes nothing."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.exact import reals as exact
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise
from dpgap.exact.reals import Real, RealNoise, decide
from law_tests import LEVEL, chi_square_p, require_law

LAWS = [
    LaplaceNoise(Fraction(7)),
    LaplaceNoise(Fraction(2, 3)),
    ExponentialNoise(Fraction(9, 2)),
    StaircaseNoise(Fraction(5), Fraction(3), Fraction(1, 3)),
]
WORDS = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])


def _p_value(law: Law, samples: np.ndarray, factor: float) -> float:
    stretched = law.scaled(Fraction(1)) if factor == 1 else _stretched(law, factor)
    steps = range(int(samples.min()), int(samples.max()) + 1)
    counts = [int((samples == step).sum()) for step in steps]
    masses = [stretched.floor_mass(step) for step in steps]
    return chi_square_p([*counts, 0], [*masses, max(1 - sum(masses), 0)])


def _stretched(law: Law, factor: float) -> Law:
    scale = law.scale * Fraction(str(factor))
    if isinstance(law, StaircaseNoise):
        return StaircaseNoise(scale, law.step, law.share)
    return type(law)(scale)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_million_floors_follow_the_law_and_no_law_nearby(law: Law):
    samples = law.floors(InsecureSeededBits(11), 1_000_000)
    require_law(lambda factor: _p_value(law, samples, factor))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_single_floors_follow_the_same_law(law: Law):
    bits = InsecureSeededBits(12)
    count = 20_000 if law.words_per_draw > 1 else 100_000
    samples = np.array([law.floor(bits) for _ in range(count)])
    assert _p_value(law, samples, 1.0) > LEVEL
    assert _p_value(law, samples, 1.1) < LEVEL


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_fall_back_alone_gives_the_very_same_floors(law: Law, monkeypatch):
    quick = law.floors(InsecureSeededBits(13), 1_000)
    monkeypatch.setattr(type(law), "size_bounds", _nothing_known)
    monkeypatch.setattr(exact, "quick_exponential", lambda numerator, denominator: (0.0, 1e6))
    slow = law.floors(InsecureSeededBits(13), 1_000)
    assert (quick == slow).all()


def _nothing_known(law: Law, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = words.shape[1:]
    return np.zeros(shape), np.full(shape, np.inf)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@settings(max_examples=60, deadline=None)
@given(words=st.lists(WORDS, min_size=3, max_size=3), seed=st.integers(0, 9))
def test_bounds_enclose_the_draw_at_every_level(law: Law, words: list[int], seed: int):
    words = words[: law.words_per_draw]
    low, high = law.bounds(np.array(words, dtype=np.uint64)[:, None])
    draw = law.real(words, InsecureSeededBits(seed))
    finest = draw(3)
    for level in range(3):
        coarse = draw(level)
        assert coarse[0] <= finest[0] < finest[1] <= coarse[1]
    assert low[0] == -np.inf or Fraction(low[0]) <= finest[0]
    assert high[0] == np.inf or finest[1] <= Fraction(high[0])


def test_bounds_are_tight_enough_to_decide_nearly_every_floor():
    words = InsecureSeededBits(14).words(1, 200_000)
    low, high = LaplaceNoise(Fraction(2**22)).bounds(words)
    assert (np.floor(low) != np.floor(high)).mean() < 2.0**-15


def test_the_float_logarithm_keeps_to_the_error_that_bounds_rely_on():
    m = (InsecureSeededBits(15).words(4_000) >> np.uint64(1)).view(np.int64)
    m = np.append(m, [1, 2, 3, 2**62, 2**63 - 1, 2**63 - 2])
    floats = m.astype(np.float64) * 2.0**-63
    logs = -np.log(floats)
    for value, log in zip(floats.tolist(), logs.tolist(), strict=True):
        read, whole = Fraction(value).as_integer_ratio()
        uniform = exact.Uniform(read * (2**128 // whole), 128, InsecureSeededBits(0))
        low, high = uniform.exponential(1) if value < 1 else (Fraction(0), Fraction(0))
        slack = Fraction(2**-126) * 2**64
        assert (
            abs(Fraction(log) - (low + high) / 2) <= (low + high) / 2 * Fraction(1, 2**50) + slack
        )


def test_a_zero_word_is_unbounded_above_and_settled_by_more_bits():
    low, high = ExponentialNoise(Fraction(1)).bounds(np.zeros((1, 1), dtype=np.uint64))
    assert low[0] > 42
    assert high[0] == np.inf
    assert decide(ExponentialNoise(Fraction(1)).real([0], InsecureSeededBits(1)), math.floor) >= 43


def test_real_numbers_with_equal_floors_are_ordered_by_their_fractions():
    bits = InsecureSeededBits(16)
    law = LaplaceNoise(Fraction(1, 2))
    noise = RealNoise(law.reals(bits.words(1, 400), bits))
    reals = [noise.draw(law) + 5 for _ in range(400)]
    ranked = sorted(reals)
    for smaller, larger in itertools.pairwise(ranked):
        assert smaller < larger
        assert larger - smaller >= 0
        assert smaller - larger == -1 - (larger - smaller)  # floors of x and −x, x not whole


def test_fractions_of_draws_follow_the_law_within_a_step():
    # Within a step the density falls by e^(−1/scale); a winner's fraction is the larger one.
    bits, law = InsecureSeededBits(17), ExponentialNoise(Fraction(1, 2))
    low, _ = law.bounds(bits.words(1, 400_000))
    fraction = low % 1
    counts, edges = np.histogram(fraction, bins=20, range=(0, 1))
    masses = np.diff(-np.expm1(-edges / 0.5)) / -np.expm1(-2.0)
    assert chi_square_p(counts, masses) > LEVEL
    assert chi_square_p(counts, np.full(20, 0.05)) < LEVEL


def test_the_callers_decimal_settings_play_no_part():
    context = decimal.DefaultContext
    before = context.traps[decimal.Inexact], context.Emin
    context.traps[decimal.Inexact], context.Emin = True, -3
    try:
        draw = LAWS[0].real([12345], InsecureSeededBits(1))
        assert draw(2)[0] < draw(2)[1]
    finally:
        context.traps[decimal.Inexact], context.Emin = before


def test_steps_are_added_to_a_real_and_taken_off_exactly():
    bits = InsecureSeededBits(18)
    noise = RealNoise(LAWS[0].reals(bits.words(1, 2), bits))
    one, other = noise.draw(LAWS[0]), noise.draw(LAWS[0])
    assert (one < other) != (other < one)
    assert isinstance(one + 3, Real)
    assert (one + 3) - one == 3


def test_a_law_that_does_not_say_how_it_is_drawn_cannot_be_made() -> None:
    class Other(Law):
        """A law of somebody else."""

        words, signed = 1, False
        mean = variance = floor_mean = floor_variance = 0.0

        def tail(self, distance: float) -> float:
            return 0.0

    with pytest.raises(TypeError, match=r"abstract.*floors.*from_uniforms"):
        Other(Fraction(3))
