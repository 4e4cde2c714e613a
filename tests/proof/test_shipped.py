"""What dpgap ships is proved; a fault in it would be found."""

import itertools
from fractions import Fraction

import pytest
from faults import with_scales

import dpgap
from dpgap.exact.laws import NOISES
from dpgap.exact.parameters import altered
from dpgap.proof import prove, search
from dpgap.proof.cases import cases
from seams import quick_in

CASES = cases()


def test_every_case_that_must_be_proved_is_there():
    proved = {(case.name, case.variant, case.n, case.k) for case in CASES}
    for noise in NOISES:
        for neighbours in ("general", "rising", "falling"):
            for n in range(1, 5):
                for k in range(1, n + 1):
                    variant = f"{noise}, {neighbours}"
                    assert ("SparseVector", variant, n, k) in proved
                    assert ("AdaptiveSparseVector", variant, n, k) in proved
                    one_sided = noise == "exponential" and n == 4
                    assert one_sided or ("NoisyTopK", variant, n, k) in proved


def _again(case):
    """Streams are proved for every n: to follow them on three answers is a second witness."""
    long = case.n == 3 and "SparseVector" in case.name
    name = f"{case.name}, {case.variant}, n={case.n}, k={case.k}"
    return pytest.param(case, id=name, marks=[pytest.mark.long] if long else [])


@pytest.mark.parametrize(
    "case",
    [_again(case) for case in CASES if case.kind == "shipped" and case.n in (1, 2, 3)],
)
def test_what_is_shipped_is_proved(case):
    """Up to three answers here; `dpgap prove` goes on to four."""
    checked = case.variant == "δ of unknown items"
    assert case.judge().verdict == ("CHECKED" if checked else "PROVED")


def test_histograms_are_proved_for_every_reach():
    proved = {(case.variant, case.n) for case in CASES if case.name == "NoisyHistogram"}
    few = {(f"reach {m}", n) for n in range(1, 5) for m in range(1, n + 1)}
    assert proved == few | {("every reach", "every")}


def test_a_histogram_is_refuted_where_a_unit_reaches_one_answer_more():
    sound = dpgap.NoisyHistogram(1, reach=2)
    assert prove(sound, 3, ties=True).verdict == "PROVED"
    assert prove(with_scales(sound, Fraction(9, 10)), 3, ties=True).condition == "cost"
    farther = altered(sound, reach=3)
    proof = prove(farther, 3, ties=True)
    assert proof.condition == "cost"
    moved = zip(proof.counterexample.answers, proof.counterexample.neighbour, strict=True)
    assert 2 < sum(abs(after - before) for before, after in moved) <= 3


@pytest.mark.parametrize("noise", ["laplace", "staircase"])
@pytest.mark.parametrize("monotonic", [False, True])
def test_a_top_k_with_a_tenth_less_noise_is_refuted(noise, monotonic):
    sound = dpgap.NoisyTopK(2, 1, noise=noise, monotonic=monotonic)
    assert prove(sound, 3).verdict == "PROVED"
    assert prove(with_scales(sound, Fraction(9, 10)), 3).condition == "cost"


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", [dpgap.SparseVector, dpgap.AdaptiveSparseVector])
def test_a_stream_with_a_tenth_less_noise_is_refuted(kind, noise):
    sound = kind(0, 1, 1, noise=noise)
    assert prove(sound, 2, ties=True).verdict == "PROVED"
    assert prove(with_scales(sound, Fraction(9, 10)), 2, ties=True).condition == "cost"


@pytest.mark.parametrize("neighbours", ["general", "rising", "falling"])
@pytest.mark.parametrize("k", [1, 2])
def test_a_top_k_with_exponential_noise_needs_all_of_it(k, neighbours):
    sound = dpgap.NoisyTopK(k, 1, monotonic=neighbours != "general", noise="exponential")
    assert prove(sound, 3, neighbours=neighbours).verdict == "PROVED"
    wrong = prove(with_scales(sound, Fraction(99, 100)), 3, neighbours=neighbours)
    assert wrong.condition == "cost"


@pytest.mark.parametrize(("n", "part"), [(2, Fraction(1, 2)), (3, Fraction(2, 3))])
def test_where_all_answers_win_exponential_noise_costs_a_part_less(n, part):
    """The signed costs add up to (n−1)/n of ε, and that is attained; all of ε is charged."""
    mechanism = dpgap.NoisyTopK(n, 1, noise="exponential")
    assert prove(mechanism, n, epsilon=part).verdict == "PROVED"
    assert prove(mechanism, n, epsilon=part * Fraction(99, 100)).condition == "cost"


@pytest.mark.parametrize(
    ("noise", "monotonic"),
    quick_in(
        itertools.product(NOISES, [False, True]), {(noise, noise != "laplace") for noise in NOISES}
    ),
)
@pytest.mark.parametrize("examples", [6, pytest.param(25, marks=pytest.mark.long)])
def test_long_streams_pass_at_many_points(noise, monotonic, examples):
    """Forty answers are beyond a proof; exact checks at made-up points are not."""
    mechanism = dpgap.AdaptiveSparseVector(
        5, 3, "0.7", noise=noise, monotonic=monotonic, branches=3, drain=True
    )
    assert search(mechanism, 40, examples=examples) is None


@pytest.mark.parametrize("n", [4, pytest.param(10, marks=pytest.mark.long)])
def test_a_search_finds_a_violation_and_simplifies_it(n):
    wrong = with_scales(dpgap.NoisyTopK(3, 1), Fraction(1, 4))
    violation, example = search(wrong, n, examples=100)
    assert violation.condition == "cost"
    assert all(abs(a - b) <= 1 for a, b in zip(example.answers, example.neighbour, strict=True))
