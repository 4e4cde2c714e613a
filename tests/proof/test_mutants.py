"""Mutants are refuted and damned by their events; what must be accepted is."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpgap.exact.laws import LaplaceNoise
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.proof import Violation, prove
from dpgap.proof.audit import frequency
from dpgap.proof.mutants import (
    ACCEPT,
    INDICES_ONLY,
    MUTANT,
    audit_mutant,
    catalogue,
    edited,
    hull_releases_zero,
    integrate,
    stream,
    top_k,
    two_branches,
)
from seams import quick_in

MUTANTS = {mutant.name: mutant for mutant in catalogue(MUTANT)}
SLOW = {"joint top-k with the margin to the wrong neighbour"}  # test_every.py refutes it as well
TWO, FOUR, EIGHT = (LaplaceNoise(Fraction(scale)) for scale in (2, 4, 8))

# The log-ratio of each damning event, derived by hand.
LOSSES = {
    "sparse vector releasing the value": 2.69,
    "sparse vector releasing the value, right scale": 2.59,
    "answer noise not scaled by k": 2.95,
    "never stops paying": 2.62,
    "noisy max releasing the value": 2.50,
    "noisy max at scale 1/ε": 1.98,
    "top-k at the scale of noisy max": 1.44,
    "noisy max naming the runner-up": 1.90,
    "gap from the winner's own true answer": 4.00,
    "gap from the runner-up's true answer": 2.50,
    "gaps below the threshold too": 2.71,
    "adaptive leaking the failed branch": 2.32,
    "gap from fresh uncharged noise": 1.46,
    "monotonic scale on general answers": 1.50,
    "adaptive middle branch charged as the top": 1.46,
    "hybrid top-k with a line without noise": 3.00,
    "hybrid top-k that does not pay for the line": 1.956,
}


@pytest.mark.parametrize("name", quick_in(MUTANTS, MUTANTS.keys() - SLOW))
def test_every_mutant_is_refuted_and_the_counterexample_replays(name):
    mutant = MUTANTS[name]
    proof = mutant.judge()
    assert proof.verdict == "REFUTED"
    example = proof.counterexample
    if proof.condition != "delta":
        assert example.neighbour != example.answers
        assert len(example.shifts) == len(example.noise)
        assert f"\ncost      {example.cost}\n" in str(proof)
    with pytest.raises(Violation) as found:
        mutant.replay(proof.counterexample)
    assert found.value.condition == proof.condition


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if place % 6 == 2 else pytest.mark.long)
        for place, name in enumerate(MUTANTS)
    ],
)
def test_every_mutant_is_caught_by_its_event(name):
    """At a level of 1e-6, on samples enough to leave six standard deviations to spare.

    All of them are also refuted by proof; the samples of most are for `make long`.
    """
    audit = audit_mutant(MUTANTS[name])
    assert audit.caught
    assert audit.lower_bound > audit.claimed
    assert audit.claimed == 1 or audit.bounds == "δ"


@pytest.mark.parametrize("name", LOSSES)
def test_events_are_as_likely_as_was_derived(name):
    """Within 5.5 standard deviations of the samples, where they are sampled."""
    event, wanted = MUTANTS[name].event, LOSSES[name]
    if event.chance is not None:
        found = math.log(event.chance(event.answers) / event.chance(event.neighbour))
        assert found == pytest.approx(wanted, abs=0.006)
        return
    run = MUTANTS[name].mechanism.run
    sides = (event.answers, event.neighbour)
    hits = [max(1, frequency(run, side, event.happens, 200_000)) for side in sides]
    spread = math.sqrt(1 / hits[0] + 1 / hits[1])
    assert abs(math.log(hits[0] / hits[1]) - wanted) < 5.5 * spread + 0.006


def test_one_draw_for_all_answers_shows_which_is_the_largest():
    """The first index is always that of the largest answer: a loss without end."""
    mutant = MUTANTS["hybrid top-k with one draw for all answers"]
    event, run = mutant.event, mutant.mechanism.run
    seen = [
        frequency(run, side, event.happens, 100_000) for side in (event.answers, event.neighbour)
    ]
    assert seen[0] > 50_000
    assert seen[1] == 0


def test_only_rare_events_and_joint_noise_are_computed_instead_of_sampled():
    computed = [e.event for e in MUTANTS.values() if e.event.chance is not None]
    joint = [event for event in computed if event.chance is hull_releases_zero]
    assert len(computed) - len(joint) == 4
    assert len(joint) == 2  # joint noise is not drawn one by one, so it is computed as well
    assert all(event.chance(event.answers) < 1e-4 for event in computed if event not in joint)


@pytest.mark.parametrize("entry", catalogue(ACCEPT), ids=lambda entry: f"{entry.name} {entry.k}")
def test_what_must_be_accepted_is_proved(entry):
    assert prove(entry.mechanism, entry.n, **entry.how).verdict == "PROVED"


def test_a_quadrature_integrates_laplace_noise():
    assert integrate(lambda x: np.ones_like(x), TWO) == pytest.approx(1, abs=1e-13)
    assert integrate(lambda x: x**2, TWO) == pytest.approx(8, rel=1e-12)
    # P(a − b > 3) for independent noise of scales 4 and 2, in closed form.
    closed = (16 * math.exp(-3 / 4) - 4 * math.exp(-3 / 2)) / (2 * 12)
    assert integrate(lambda x: FOUR.tail(3 + x), TWO) == pytest.approx(closed, rel=1e-12)


def test_sampling_takes_every_path_once():
    class Coin:
        def run(self, answers, noise):
            first, second = (noise.draw(TWO) for _ in range(2))
            return first > 0, second > first

    runs = 10_000
    counts = [
        frequency(Coin().run, [], lambda output, want=want: tuple(map(bool, output)) == want, runs)
        for want in ((True, True), (True, False), (False, True), (False, False))
    ]
    assert sum(counts) == pytest.approx(runs, abs=600)
    assert counts[0] == pytest.approx(runs / 8, abs=250)
    assert counts[1] == pytest.approx(3 * runs / 8, abs=350)


def test_the_same_mutants_pass_once_mended():
    """The refutations are not for want of trying: at the right scale the same programs pass."""
    mended = stream(INDICES_ONLY, EIGHT, k=3, threshold_share=Fraction(1, 4))
    assert prove(mended, 3, ties=True).verdict == "PROVED"
    assert prove(top_k("None", k=2), 3).verdict == "PROVED"
    assert prove(two_branches(), 3, ties=True).verdict == "PROVED"


@pytest.mark.parametrize("old", ["used <= limits", "used"])
def test_a_mutant_of_what_no_longer_ships_fails_loudly(old):
    """The text to be changed is not there, or is there more than once."""
    with pytest.raises(LookupError, match=r"SparseVector\.live must have 'used"):
        edited(SparseVector, live=[(old, "False")])


def test_a_mutant_is_what_ships_but_for_its_edits():
    mutant = edited(SparseVector, live=[("used <= limit", "used < limit")])
    assert (mutant.step, mutant.run) == (SparseVector.step, SparseVector.run)
    assert (mutant(0, 2, 1).live(1), SparseVector(0, 2, 1).live(1)) == (0, 1)
