"""The proof of Joint Top-K: what it rests on, and what it would refuse."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from faults import with_scales
from scipy.integrate import quad

import dpgap
from dpgap.proof import Violation, prove
from dpgap.proof.cases import cases
from dpgap.proof.every import exponential

KINDS = ("general", "rising", "falling")


def test_every_number_of_answers_up_to_three_is_proved_with_every_k_below():
    checked = Counter(
        (case.variant, case.n, case.k) for case in cases() if case.name == "JointTopK"
    )
    sizes = [(2, 1), (3, 1), (3, 2), ("every", "every")]
    assert checked == {(f"exponential, {kind}", n, k): 1 for kind in KINDS for n, k in sizes}


@pytest.mark.parametrize("neighbours", KINDS)
def test_the_range_of_half_margins_is_proved_and_no_smaller_range_is(neighbours: str):
    far = exponential.farthest_move(neighbours)
    mechanism = dpgap.JointTopK(2, 1)
    assert exponential.prove_range(mechanism, (2, 2), neighbours, -far, far).labels[0] == "range"
    for tighter in ((-far * Fraction(99, 100), far), (-far, far * Fraction(99, 100))):
        with pytest.raises(Violation, match="a half-margin can move beyond"):
            exponential.prove_range(mechanism, (2, 2), neighbours, *tighter)


def test_half_margins_stay_in_their_range_for_many_answers_and_every_k():
    """What z3 proves of four answers, tried on up to thirty."""
    generator = np.random.default_rng(2)
    for _ in range(2_000):
        n = int(generator.integers(2, 31))
        k = int(generator.integers(1, n))
        answers = generator.integers(0, 6, n)
        general = generator.random() < 0.5
        moves = generator.uniform(-1, 1, n) if general else generator.choice([0.0, 1.0, 0.3], n)
        mechanism, chosen = dpgap.JointTopK(k, 1), generator.choice(n, k, replace=False).tolist()
        change = mechanism.half_margin((answers + moves).tolist(), chosen)
        change -= mechanism.half_margin(answers.tolist(), chosen)
        assert abs(change) <= (1 if general else 0.5) + 1e-12


@pytest.mark.parametrize("neighbours", KINDS)
def test_a_hundredth_less_noise_is_refuted(neighbours: str):
    sound = dpgap.JointTopK(1, 1, monotonic=neighbours != "general")
    assert prove(sound, 2, neighbours=neighbours).verdict == "PROVED"
    wrong = prove(with_scales(sound, Fraction(99, 100)), 2, neighbours=neighbours)
    assert (wrong.verdict, wrong.condition) == ("REFUTED", "cost")


@pytest.mark.parametrize("what", ["the wrong set", "the wrong lead", "the whole margin"])
def test_a_program_that_does_something_else_is_refuted(what: str, monkeypatch):
    run, half = dpgap.JointTopK.run, dpgap.JointTopK.half_margin

    def changed(self, answers, noise):
        chosen, lead = run(self, answers, noise)
        return ((0, 1), lead) if what == "the wrong set" else (chosen, 2 * lead)

    if what == "the whole margin":
        monkeypatch.setattr(dpgap.JointTopK, "half_margin", lambda *given: 2 * half(*given))
    else:
        monkeypatch.setattr(dpgap.JointTopK, "run", changed)

    def made(*, k, epsilon=1, **more):
        return dpgap.JointTopK(k, epsilon, **more)

    with pytest.raises(Violation):
        exponential.prove_joint(made, "general")


# The density of the set and its lead, by quadrature over the second best value.


def _log_density(scores: list[float], place: int, lead: float, scale: float) -> float:
    others = np.array([score for at, score in enumerate(scores) if at != place])

    def integrand(second: float) -> float:
        over = second + lead - scores[place]
        if over < 0:
            return 0.0
        below = -np.expm1(-np.maximum(second - others, 0) / scale)
        fresh = np.exp(-np.maximum(second - others, 0) / scale) / scale * (second >= others)
        rest = [np.prod(np.delete(below, at)) for at in range(others.size)]
        return float(math.exp(-over / scale) / scale * (fresh @ np.array(rest)))

    start = max(float(others.max()), scores[place] - lead)
    value, _ = quad(integrand, start, start + 45 * scale, epsabs=0, epsrel=1e-9, limit=200)
    return math.log(value)


def _pairs(count: int, monotonic: bool, seed: int):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        n = int(generator.integers(2, 6))
        k = int(generator.integers(1, min(n, 4)))
        answers = generator.normal(0, 1, n) * generator.choice([0.0, 1.0, 5.0])
        moves = generator.choice([-1.0, 1.0], n)
        if monotonic:
            moves = generator.choice([0.0, 1.0], n) * generator.choice([-1, 1])
        sets = list(itertools.combinations(range(n), k))
        place, lead = int(generator.integers(len(sets))), float(generator.exponential(4))
        mechanism = dpgap.JointTopK(k, 1, monotonic=monotonic)
        sides = (answers.tolist(), (answers + moves).tolist())
        scores = [[float(mechanism.half_margin(side, each)) for each in sets] for side in sides]
        yield mechanism, scores, place, lead


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("pairs", [60, pytest.param(200, marks=pytest.mark.long)])
def test_no_pair_of_neighbours_loses_more_than_epsilon_by_quadrature(pairs: int, monotonic: bool):
    """Five answers and three winners at most; some pairs lose nearly all of ε."""
    worst = {1.0: 0.0, 0.9: 0.0}
    for mechanism, scores, place, lead in _pairs(pairs, monotonic, seed=3):
        for factor in worst:
            scale = factor * float(mechanism.law.scale)
            before, after = (_log_density(side, place, lead, scale) for side in scores)
            worst[factor] = max(worst[factor], abs(before - after))
    assert 0.98 < worst[1.0] <= 1 + 1e-6
    assert worst[0.9] > 1.05  # nine tenths of the noise are seen not to be enough
