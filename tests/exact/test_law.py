"""What a law must be able to do: tried on all of them, and on whole noise.

Whole-number noise ties. A Sparse Vector may use it; a Top-K must not, and no proof may overlook it.
"""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import (
    LAWS,
    ExponentialNoise,
    GeometricNoise,
    Law,
    MemorylessLaw,
    RealLaw,
)
from dpgap.exact.parameters import altered
from dpgap.proof import prove
from dpgap.proof.checker.numbers import BadProgram
from law_tests import LEVEL

SHIPPED = [LAWS[noise].best(Fraction(7, 3), Fraction(2)) for noise in LAWS]
REAL = [law for law in SHIPPED if isinstance(law, RealLaw)]
MEMORYLESS = [law for law in SHIPPED if isinstance(law, MemorylessLaw)]


@pytest.fixture
def whole_noise(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of whole noise, which is not offered by name."""
    monkeypatch.setitem(LAWS, "geometric", GeometricNoise)
    return "geometric"


@pytest.mark.parametrize("law", REAL, ids=repr)
def test_floats_for_simulation_follow_the_law_and_no_law_nearby(law: RealLaw):
    noise = law.from_uniforms(np.random.default_rng(21).random((law.words_per_draw, 400_000)))
    assert stats.kstest(noise, lambda at: 1 - law.tail(at)).pvalue > LEVEL
    assert stats.kstest(noise * 1.03, lambda at: 1 - law.tail(at)).pvalue < LEVEL


@pytest.mark.parametrize("law", REAL, ids=repr)
def test_no_draw_is_larger_than_its_first_word_allows(law: RealLaw):
    words = InsecureSeededBits(22).words(law.words_per_draw, 20_000)
    low, _ = law.bounds(words)
    exponential, _ = ExponentialNoise(law.scale).bounds(words[:1])
    most = exponential + float(law.overshoot) + 1e-6
    assert (np.abs(low) <= most).all()
    assert (np.abs(low) > 0.5 * most).any()


@pytest.mark.parametrize("law", MEMORYLESS, ids=repr)
def test_the_quantile_undoes_the_tail(law: MemorylessLaw):
    sums = np.array([1e-6, 0.3, 0.6, 0.7, 2.0, 30.0])
    at = law.quantile(sums) * float(law.scale)
    assert 1 - law.tail(at) == pytest.approx(np.exp(-sums), rel=1e-9)
    exact = [law.exact_quantile(Fraction(each), 80) for each in sums.tolist()]
    assert law.quantile(sums) == pytest.approx(np.array(exact, dtype=float), rel=1e-9)


@pytest.mark.parametrize("law", [*SHIPPED, GeometricNoise(Fraction(3))], ids=repr)
def test_the_tail_of_a_difference_of_floors_is_never_understated(law: Law):
    bits, other = InsecureSeededBits(23), law.scaled(Fraction(3, 2))
    found = law.floors(bits, 200_000) - other.floors(bits, 200_000)
    for step in (-4, 0, 3, 9):
        seen = int((found > step).sum())
        claimed = law.difference_tail(other, step)
        assert stats.binom.sf(seen - 1, 200_000, claimed) > LEVEL
    assert law.difference_tail(other, 10**6) < 1e-9


def test_a_top_k_refuses_noise_that_can_tie(whole_noise: str):
    for mechanism in (dpgap.NoisyMax, partial(dpgap.NoisyTopK, 2)):
        with pytest.raises(ValueError, match="for a Top-K: geometric noise can tie"):
            mechanism(epsilon=1, noise=whole_noise)


def test_a_proof_does_not_leave_ties_out_where_noise_can_tie():
    private = dpgap.NoisyMax(1)
    assert prove(private, 3).verdict == "PROVED"
    leaky = altered(private, law=GeometricNoise(private.law.scale))
    with pytest.raises(BadProgram, match="GeometricNoise can tie: prove it with ties=True"):
        prove(leaky, 3)
    assert prove(leaky, 3, ties=True).verdict == "REFUTED"


def test_a_sparse_vector_takes_whole_noise_through_release_proof_and_simulation(whole_noise: str):
    mechanism = dpgap.AdaptiveSparseVector(0, 2, 1, monotonic=True, noise=whole_noise)
    assert prove(mechanism, 2, ties=True).verdict == "PROVED"
    answers = [-200, 300, 5, 400, -100, 500]
    release = mechanism.release(answers)
    assert release.indices.tolist()[0] in (1, 2)
    simulated = dpgap.simulate(mechanism, answers, runs=200, seed=1)
    assert simulated.spent.max() <= 1
    with mechanism.start() as run:
        assert run.ask(500).above
        assert run.lower_bound(run.ask(900), level=0.9) < 900
