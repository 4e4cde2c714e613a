"""Conditions of a proof, each on the smallest mechanism that breaks it."""

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

import dpgap
from dpgap.proof import (
    BadProgram,
    ExponentialNoise,
    GeometricNoise,
    LaplaceNoise,
    StaircaseNoise,
    Violation,
    audit,
    check,
    prove,
    replay,
)
from dpgap.proof.checker.cycles import find_cycle
from dpgap.proof.checker.proving import search

UNIT = LaplaceNoise(Fraction(1))


class Noisy:
    """One answer plus noise; parts are replaced in tests."""

    epsilon = Fraction(1)
    law = UNIT

    def run(self, answers, noise):
        return answers[0] + noise.draw(self.law)

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


def refuted(mechanism, n=1, **how):
    proof = prove(mechanism, n, **how)
    assert proof.verdict == "REFUTED"
    return proof


def test_the_laplace_mechanism_is_proved():
    proof = prove(Noisy(), 1)
    assert proof.verdict == "PROVED"
    assert proof.counterexample is None
    assert str(proof).startswith("PROVED")


def test_a_wrong_output_is_refuted_and_replayed():
    class Lazy(Noisy):
        def align(self, answers, neighbour, noise, output):
            return [0]

    proof = refuted(Lazy())
    assert proof.condition == "output"
    with pytest.raises(Violation, match="the neighbour gives") as found:
        replay(Lazy(), proof.counterexample)
    assert found.value.condition == "output"
    assert proof.counterexample.answers != proof.counterexample.neighbour
    assert "\nshifts    0\ncost      0\n" in str(proof)


def test_neighbours_of_a_counterexample_differ_if_they_can():
    class Spendthrift(Noisy):
        def align(self, answers, neighbour, noise, output):
            return [2]

    example = refuted(Spendthrift()).counterexample
    assert example.answers != example.neighbour
    assert (example.shifts, example.cost) == ((2,), 2)
    violation, searched = search(Spendthrift(), 1)
    assert violation.condition == "cost"
    assert searched.cost == 2


def test_an_alignment_that_fails_itself_has_no_shifts():
    class Peeks(Noisy):
        def align(self, answers, neighbour, noise, output):
            return [output + 1]

    proof = refuted(Peeks())
    assert (proof.condition, proof.counterexample.shifts) == ("discrete", ())
    assert "shifts " not in str(proof)


def test_a_cost_above_epsilon_is_refuted_with_exact_numbers():
    class Dear(Noisy):
        law = LaplaceNoise(Fraction(99, 100))

    proof = refuted(Dear())
    assert proof.condition == "cost"
    example = proof.counterexample
    moved = abs(example.answers[0] - example.neighbour[0])
    assert moved / Fraction(99, 100) > 1 >= moved
    assert example.shifts == (example.answers[0] - example.neighbour[0],)
    assert example.cost == moved / Fraction(99, 100)
    with pytest.raises(Violation, match="the shifts cost"):
        replay(Dear(), example)


def test_the_sensitivity_scales_what_is_allowed():
    class Salary(Noisy):
        law = LaplaceNoise(Fraction(100))

    assert prove(Salary(), 1, sensitivity=100).verdict == "PROVED"
    assert prove(Salary(), 1, sensitivity=101).condition == "cost"


def test_a_path_whose_last_answer_follows_from_several_is_followed():
    """Where a < b and b < c, they leave one answer to "is c < a?"; what comes after it counts."""

    class LeaksInOrder(Noisy):
        def run(self, answers, noise):
            a, b, c = (noise.draw(UNIT) for _ in range(3))
            in_order = bool(a < b) and bool(b < c)
            return answers[0] if in_order and not c < a else 0

        def align(self, answers, neighbour, noise, output):
            return [0, 0, 0]

    assert refuted(LeaksInOrder()).condition == "output"


def test_leaving_the_support_is_refuted():
    class OneSided(Noisy):
        law = ExponentialNoise(Fraction(1))

    assert refuted(OneSided()).condition == "support"
    assert prove(OneSided(), 1, neighbours="falling").verdict == "PROVED"


def test_a_staircase_costs_whole_stairs():
    class Stairs(Noisy):
        law = StaircaseNoise(Fraction(1), Fraction(2, 3), Fraction(1, 2))

    # A move by 1 crosses two stairs of width 2/3, so it costs 4/3, not 1.
    assert refuted(Stairs()).condition == "cost"
    assert prove(Stairs(), 1, epsilon=Fraction(4, 3)).verdict == "PROVED"
    with pytest.raises(Violation, match="cost 4/3"):
        check(Stairs(), [0], [1], [0])


def test_using_a_continuous_output_is_refuted():
    class Peeks(Noisy):
        def align(self, answers, neighbour, noise, output):
            return [answers[0] - neighbour[0] if output > 0 else 0]

    assert refuted(Peeks()).condition == "discrete"
    with pytest.raises(Violation, match="continuous part"):
        check(Peeks(), [0], [1], [0])


@pytest.mark.parametrize(
    "use", [lambda x: x + 1, lambda x: 1 - x, float, abs, bool, hash, lambda x: x == 1, round]
)
def test_a_sealed_number_refuses_every_use(use):
    class Peeks(Noisy):
        def align(self, answers, neighbour, noise, output):
            use(output)
            return [0]

    assert refuted(Peeks()).condition == "discrete"


def test_draws_that_the_output_does_not_determine_are_refuted():
    class Sometimes:
        epsilon = 1

        def run(self, answers, noise):
            first = noise.draw(UNIT)
            if answers[0] > 0:
                noise.draw(UNIT)
            return first >= 0 and "same"

        def align(self, answers, neighbour, noise, output):
            return [0] * len(noise)

    assert refuted(Sometimes()).condition == "draws"


class Halving:
    """Passes output and cost at ε = 1/10, though its true loss is about ln 2."""

    epsilon = Fraction(1, 10)

    def run(self, answers, noise):
        value = noise.draw(LaplaceNoise(Fraction(10)))
        return bool(value >= 0) and bool(value < 2 - answers[0])

    def align(self, answers, neighbour, noise, output):
        return [-noise[0] / 2 if output else 0]


class Swapping:
    epsilon = Fraction(1)

    def run(self, answers, noise):
        noise.draw(UNIT), noise.draw(UNIT)
        return "nothing"

    def align(self, answers, neighbour, noise, output):
        return [noise[1] - noise[0], noise[0] - noise[1]]


class Crossing(Swapping):
    def align(self, answers, neighbour, noise, output):
        return [noise[1] / 1000, noise[0] / 1000]


class Branching(Swapping):
    def align(self, answers, neighbour, noise, output):
        return [1 if noise[0] > 0 else 0, 0]


@pytest.mark.parametrize(
    ("mechanism", "cycle"),
    [
        (Halving(), "η0 → η0"),
        (Swapping(), "η0 → η0"),
        (Crossing(), "η0 → η1 → η0"),
        (Branching(), "η0 → η0"),
    ],
)
def test_a_cyclic_alignment_is_rejected_by_naming_the_cycle(mechanism, cycle):
    proof = refuted(mechanism)
    assert proof.condition == "acyclic"
    assert cycle in proof.reason


def test_without_the_acyclic_condition_halving_would_pass():
    """On answers from 0 to 1 that rise, output and cost are right: only the cycle tells."""
    setting = {"within": (0, 1), "neighbours": "rising"}
    assert prove(Halving(), 1, **setting).condition == "acyclic"


def test_a_cycle_at_one_point_is_found_too():
    class Tame(Branching):
        def run(self, answers, noise):
            noise.draw(LaplaceNoise(Fraction(9))), noise.draw(LaplaceNoise(Fraction(9)))
            return "nothing"

    with pytest.raises(Violation, match="η0 → η0"):
        check(Tame(), [0], [1], [3, 4])


def test_depending_on_other_draws_is_no_cycle():
    assert find_cycle([{1, 2}, {2}, set()]) == []
    assert find_cycle([{1}, {2}, {1}]) == [1, 2]


@pytest.mark.parametrize("noise", ["laplace", "staircase"])
def test_top_k_is_proved_in_other_units_too(noise):
    mechanism = dpgap.NoisyTopK(2, "0.3", sensitivity="2.5", noise=noise)
    assert prove(mechanism, 3).verdict == "PROVED"


def test_a_broken_program_in_memory_is_no_longer_proved(monkeypatch):
    sound = dpgap.NoisyTopK(1, 1)
    assert prove(sound, 2).verdict == "PROVED"
    run = dpgap.NoisyTopK.run

    def leaky(self, answers, noise):
        indices, leads = run(self, answers, noise)
        return indices, (*leads, answers[0])

    monkeypatch.setattr(dpgap.NoisyTopK, "run", leaky)
    assert prove(sound, 2).condition == "output"


def test_a_broken_stream_in_memory_is_no_longer_proved(monkeypatch):
    sound = dpgap.SparseVector(0, 1, 1)
    assert prove(sound, 2, ties=True).verdict == "PROVED"
    monkeypatch.setattr(dpgap.SparseVector, "live", lambda self, used: len(self.every_branch))
    assert prove(sound, 2, ties=True).condition == "cost"


def test_swapping_the_directions_of_a_monotonic_stream_fails_both_ways(monkeypatch):
    def swapped(self, answers, neighbour, noise, output):
        rise = 0 if sum(neighbour) >= sum(answers) else 1
        moves = zip(answers, neighbour, output, strict=False)
        return [rise] + [rise + a - b if branch else 0 for a, b, (branch, _) in moves]

    monkeypatch.setattr(dpgap.SparseVector, "align", swapped)
    mechanism = dpgap.SparseVector(0, 1, 1, monotonic=True)
    for direction in ("rising", "falling"):
        assert prove(mechanism, 2, neighbours=direction, ties=True).verdict == "REFUTED"


def test_unknown_parameters_are_part_of_the_counterexample():
    class Handicap(Noisy):
        def __init__(self, by):
            self.by = by

        def run(self, answers, noise):
            return bool(answers[0] + noise.draw(UNIT) >= self.by)

        def align(self, answers, neighbour, noise, output):
            return [0]

    def family(unknown):
        return Handicap(unknown("by"))

    proof = refuted(family)
    assert set(proof.counterexample.parameters) == {"by"}
    with pytest.raises(Violation):
        replay(family, proof.counterexample)


class TestBadPrograms:
    """A clear diagnosis, not a hang."""

    def diagnosis(self, run, align=None):
        program = type("Program", (Noisy,), {"run": run, **({"align": align} if align else {})})
        with pytest.raises(BadProgram) as found:
            prove(program(), 1)
        return str(found.value)

    def test_returning_nan(self):
        assert "NaN" in self.diagnosis(lambda self, answers, noise: float("nan"))

    def test_computing_with_nan(self):
        assert "nan" in self.diagnosis(lambda self, answers, noise: answers[0] + float("nan"))

    def test_drawing_without_end(self):
        def run(self, answers, noise):
            while True:
                noise.draw(UNIT)

        assert "never stops" in self.diagnosis(run)

    def test_yielding_without_end(self):
        def run(self, answers, noise):
            while True:
                yield 1

        assert "never stops" in self.diagnosis(run)

    def test_asking_without_end(self):
        def run(self, answers, noise):
            value = noise.draw(UNIT)
            while value > -1:
                value = value + 1

        assert "never stops" in self.diagnosis(run)

    def test_looping_without_end(self, monkeypatch):
        monkeypatch.setattr("dpgap.proof.checker.alignment._SECONDS", 0.2)

        def run(self, answers, noise):
            while True:
                pass

        assert "never stops" in self.diagnosis(run)

    def test_changing_the_noise(self):
        def run(self, answers, noise):
            noise.values = []

        assert "changes its noise" in self.diagnosis(run)

    def test_changing_the_draws_it_is_given(self):
        def align(self, answers, neighbour, noise, output):
            noise[0] = 0
            return [0]

        assert "changes the answers or the noise" in self.diagnosis(Noisy.run, align)

    def test_rounding(self):
        assert "float" in self.diagnosis(lambda self, answers, noise: float(answers[0]))

    def test_multiplying_unknowns(self):
        assert "multiplies" in self.diagnosis(lambda self, answers, noise: answers[0] * answers[0])

    def test_other_errors_of_its_own(self):
        assert "ZeroDivisionError" in self.diagnosis(lambda self, answers, noise: 1 / 0)

    def test_too_few_shifts(self):
        told = self.diagnosis(Noisy.run, lambda self, answers, neighbour, noise, output: [])
        assert "0 shifts for 1 draws" in told

    def test_returning_something_that_cannot_be_compared(self):
        assert "object" in self.diagnosis(lambda self, answers, noise: object())

    def test_doing_something_else_each_time(self):
        counter = iter(range(1_000_000))

        def run(self, answers, noise):
            value = noise.draw(UNIT)
            return bool(value > next(counter))

        assert "something else when run again" in self.diagnosis(run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be at least 1"),
        ({"n": 1, "neighbours": "all"}, "neighbours must be one of"),
        ({"n": 1, "epsilon": -1}, "epsilon must be greater than 0"),
        ({"n": 1, "sensitivity": 0}, "sensitivity must be greater than 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        prove(Noisy(), **arguments)


def test_a_mechanism_without_an_alignment_is_refused():
    class Bare:
        epsilon = 1

        def run(self, answers, noise):
            return 0

    with pytest.raises(TypeError, match="must have a method 'align'"):
        prove(Bare(), 1)


def test_a_mechanism_must_state_its_epsilon():
    class Silent(Noisy):
        epsilon = None

    with pytest.raises(TypeError, match="epsilon must be given"):
        prove(Silent(), 1)


def test_noise_given_for_a_check_must_fit():
    with pytest.raises(ValueError, match="noise has 2 values"):
        check(Noisy(), [0], [1], [0, 0])
    with pytest.raises(ValueError, match="a value for every draw"):
        check(dpgap.NoisyMax(epsilon=1), [0, 0], [1, 1], [0])
    one_sided = replace(ExponentialNoise(Fraction(1)))
    program = type("OneSided", (Noisy,), {"law": one_sided})()
    with pytest.raises(ValueError, match="support"):
        check(program, [0], [0], [-1])


class Said(NamedTuple):
    """What is said, by name."""

    above: bool


def test_a_program_may_return_a_named_tuple_of_its_own():
    class SaysByName:
        epsilon = 1

        def run(self, answers, noise):
            return Said(answers[0] + noise.draw(LaplaceNoise(Fraction(1))) >= 0)

        def align(self, answers, neighbour, noise, output):
            return [1 if output.above else -1]

    assert prove(SaysByName(), n=1).verdict == "PROVED"


class ReturnsNothing:
    """It forgets to return what it computed."""

    epsilon = 1

    def run(self, answers, noise):
        noise.draw(LaplaceNoise(1))

    def align(self, answers, neighbour, noise, output):
        return [0]


class Returns(ReturnsNothing):
    """It returns what `what` makes of an answer and its noise."""

    def __init__(self, what, law=None):
        self.what, self.law = what, law or LaplaceNoise(1)

    def run(self, answers, noise):
        return self.what(answers[0] + noise.draw(self.law))

    def align(self, answers, neighbour, noise, output):
        return [answers[0] - neighbour[0]]


def test_a_program_that_returns_nothing_is_not_proved():
    with pytest.raises(BadProgram, match="run returned None on every path: does it return anyth"):
        prove(ReturnsNothing(), 1)
    sometimes = Returns(lambda noisy: 1 if noisy > 0 else None)
    assert prove(sometimes, 1).verdict == "PROVED"


@pytest.mark.parametrize(
    "call", [lambda it: prove(it, 1), lambda it: dpgap.simulate(it, [1]), audit]
)
def test_a_class_is_no_mechanism(call):
    with pytest.raises(TypeError, match=r"you passed the class: write ReturnsNothing\(\)"):
        call(ReturnsNothing)


def test_whole_noise_is_proved_with_ties_and_refused_without():
    whole = Returns(lambda noisy: noisy, GeometricNoise(Fraction(1)))
    assert prove(whole, 1, ties=True).verdict == "PROVED"
    with pytest.raises(BadProgram, match="GeometricNoise can tie: prove it with ties=True"):
        prove(whole, 1)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda noisy: np.argmax([0, 1]), r"returns a NumPy int64: write int\(…\)"),
        (lambda noisy: noisy + np.random.default_rng().normal(), r"take noise from noise\.draw"),
        (lambda noisy: object(), "returns a value of type object"),
    ],
)
def test_what_cannot_be_proved_says_what_to_write(what, words):
    with pytest.raises(BadProgram, match=words):
        prove(Returns(what), 1)


def test_a_law_needs_a_scale_above_0():
    with pytest.raises(TypeError, match=r"LaplaceNoise needs a scale, as in LaplaceNoise\(2\)"):
        dpgap.simulate(Returns(lambda noisy: noisy, LaplaceNoise), [1], runs=1)
    for scale in (0, -1, Fraction(-1, 2), 0.0):
        with pytest.raises(ValueError, match="scale must be greater than 0"):
            LaplaceNoise(scale)
