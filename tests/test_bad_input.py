"""Bad input: a clear error that names the argument, shows no private value, and has no effect."""

import decimal
import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgap
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import rational

MECHANISMS = [
    dpgap.NoisyTopK(1, 1),
    dpgap.NoisyMax(1),
    dpgap.JointTopK(1, 1),
    dpgap.HybridTopK(0, 1, 1),
    dpgap.SparseVector(0, 1, 1),
    dpgap.AdaptiveSparseVector(0, 1, 1),
    dpgap.MeasuredTopK(1, 1, method="paper"),
    dpgap.MeasuredAbove(0, 1, 1, method="paper"),
    dpgap.Laplace(1),
]
SECRET = 987654321

MALFORMED = {
    "empty": [],
    "two-dimensional": [[SECRET, 2], [3, 4]],
    "a number": SECRET,
    "nan": [SECRET, math.nan],
    "infinite": [SECRET, math.inf],
    "bool": [True, False],
    "text": ["a", str(SECRET)],
    "object": np.array([SECRET, None], dtype=object),
    "ragged": [[1], [SECRET, 2]],
    "masked": np.ma.masked_array([1, SECRET], mask=[0, 1]),
    "floats without a grid": [1.0, float(SECRET)],
    "complex": [1j, SECRET],
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "too large": [2**63 - 1, 3],
    "too small": [-(2**63), 3],
    "beyond 64 bits": [2**70, SECRET],
    "unsigned and too large": np.array([2**64 - 1], dtype=np.uint64),
}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_answers_are_refused_without_showing_them(mechanism, kind: str):
    with pytest.raises((ValueError, TypeError), match=r"^(answers|values) must") as caught:
        mechanism.release(MALFORMED[kind])
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_what_cannot_pay_is_refused_by_its_name(mechanism):
    with pytest.raises(TypeError, match=r"^account must be one that pays, .*, not int$"):
        mechanism.release([1, 2, 3], account=5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "7", True, None, [1], 2**70, 1.5, 1j])
def test_malformed_single_answers_are_refused(bad):
    run = dpgap.SparseVector(0, 1, 1).start()
    with pytest.raises((ValueError, TypeError), match="answer must"):
        run.ask(bad)
    assert run.ask(-5).above in (True, False)


class _Telling:
    """An answer that tells when it is looked at."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError(f"the secret is {SECRET}")


def test_what_answers_say_themselves_is_not_passed_on():
    run = dpgap.SparseVector(0, 1, 1).start()
    for call in (lambda: run.ask(_Telling()), lambda: MECHANISMS[0].release(_Telling())):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__context__ is None


def test_large_ints_in_a_list_with_floats_are_refused_because_they_would_be_rounded():
    mechanism = dpgap.NoisyTopK(1, 1, grid=1)
    with pytest.raises(ValueError, match="answers must be an array"):
        mechanism.release([2**53 + 1, 0.5])


def test_extreme_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match="grid must"):
        dpgap.Laplace(1, grid=Fraction(2) ** 600)
    with pytest.raises(ValueError, match="k must"):
        dpgap.SparseVector(0, 2**70, 2**40, threshold_share="1/2")
    with pytest.raises(ValueError, match="sensitivity must"):
        dpgap.NoisyTopK(1, 2**70, sensitivity=2**100, noise="staircase")
    with pytest.raises(ValueError, match="epsilon is too large"):
        dpgap.NoisyTopK(1, "1e350", noise="staircase")
    assert dpgap.SparseVector(0, 2**33, 10**6).threshold_share > 0


def test_real_answers_must_be_finite_and_within_the_grid():
    mechanism = dpgap.NoisyTopK(1, 1, grid="1/1024")
    for bad in ([math.nan, 1.0], [-math.inf, 1.0], [1e300, 1.0]):
        with pytest.raises(ValueError, match="answers must"):
            mechanism.release(bad)


NUMBERS = [
    ("epsilon", [0, -1, math.nan, math.inf, "one", None, True, "1/0", "1e999999999", 1e-300, [1]]),
    ("sensitivity", [0, -1, math.nan, math.inf, "much", None, True, 1e300]),
    ("grid", [0, -1, math.nan, 3, "0.1", "fine", True]),
    ("noise", ["gauss", None, 3]),
    ("monotonic", [None, 1, "yes"]),
]


@pytest.mark.parametrize(("argument", "values"), NUMBERS)
@pytest.mark.parametrize(
    "make",
    [
        dpgap.NoisyTopK,
        functools.partial(dpgap.SparseVector, 0),
        functools.partial(dpgap.AdaptiveSparseVector, 0),
    ],
)
def test_bad_parameters_are_named(argument: str, values, make):
    for value in values:
        given = {"k": 2, "epsilon": 1, argument: value}
        with pytest.raises((ValueError, TypeError), match=rf"{argument}|epsilon is too small"):
            make(**given)


@pytest.mark.parametrize("k", [0, -1, 1.0, 2.5, "3", None, True, math.nan])
def test_k_must_be_a_whole_number_from_one_up(k):
    for make in (
        lambda: dpgap.NoisyTopK(k, 1),
        lambda: dpgap.SparseVector(0, k, 1),
        lambda: dpgap.measured_top_k([1, 2, 3], k, 1),
    ):
        with pytest.raises((ValueError, TypeError), match=r"^k must"):
            make()


def test_k_may_not_exceed_the_answers():
    for release in (
        lambda: dpgap.NoisyTopK(4, 1).release([1, 2, 3]),
        lambda: dpgap.measured_top_k([1, 2, 3], 4, 1),
    ):
        with pytest.raises(ValueError, match="k must be at most the number of answers, 3, not 4"):
            release()


@pytest.mark.parametrize("threshold_share", [0, 1, -1, 2, math.nan, "half", True])
def test_the_threshold_share_lies_between_zero_and_one(threshold_share):
    with pytest.raises((ValueError, TypeError), match="threshold_share must"):
        dpgap.SparseVector(0, 1, 1, threshold_share=threshold_share)


@pytest.mark.parametrize("threshold", [math.nan, math.inf, "high", None, True, 2**62])
def test_the_threshold_is_a_finite_number_within_the_grid(threshold):
    with pytest.raises((ValueError, TypeError), match="threshold must"):
        dpgap.SparseVector(threshold, 1, 1)


@pytest.mark.parametrize("labels", [["a"], ["a", "b", "c"], "ab", 7])
def test_there_is_one_label_for_every_answer(labels):
    for mechanism in MECHANISMS[:-1]:
        with pytest.raises((ValueError, TypeError), match="labels must"):
            mechanism.release([1, 2], labels=labels)


def test_pipelines_name_their_own_arguments():
    with pytest.raises(ValueError, match="split must"):
        dpgap.measured_top_k([1, 2], 1, 1, split=1)
    with pytest.raises(ValueError, match="method must be one of"):
        dpgap.measured_top_k([1, 2], 1, 1, method="magic")
    with pytest.raises(TypeError, match="adaptive must"):
        dpgap.measured_above([1, 2], 1, 1, 1, adaptive="yes")
    with pytest.raises(ValueError, match="level must"):
        dpgap.measured_top_k([1, 2], 1, 1).interval(1.0)
    with pytest.raises(ValueError, match="branches must"):
        dpgap.AdaptiveSparseVector(0, 1, 1, branches=40)


def test_scales_that_the_grid_cannot_hold_are_refused_before_anything_is_drawn():
    with pytest.raises(ValueError, match=r"epsilon is too small.*coarser grid"):
        dpgap.NoisyTopK(10, 1, grid=2.0**-40)
    with pytest.raises(ValueError, match="epsilon is too large"):
        dpgap.NoisyTopK(10, "1e30")
    with pytest.raises(ValueError, match="epsilon is too small"):
        dpgap.Laplace("1e-12").release(np.arange(10**4))


# Exact numbers.


def test_a_float_means_its_shortest_decimal():
    assert rational("x", 0.1) == Fraction(1, 10)
    assert rational("x", np.float64(0.7)) == Fraction(7, 10)
    assert rational("x", decimal.Decimal("0.30")) == Fraction(3, 10)
    assert rational("x", "2/3") == Fraction(2, 3)
    assert rational("x", np.int32(4)) == 4
    assert dpgap.NoisyTopK(1, 0.1).release([1, 2]).epsilon == Fraction(1, 10)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(-3, 12))
def test_rounding_moves_answers_apart_by_less_than_a_step_more(x: float, y: float, fineness: int):
    grid = Fraction(2) ** -fineness
    rounded = Grid(grid).steps([x, y])
    apart = abs(Fraction(x) - Fraction(y)) / grid
    assert abs(int(rounded[0]) - int(rounded[1])) <= math.ceil(apart)
    assert int(rounded[0]) == math.floor(Fraction(x) / grid + Fraction(1, 2))


@given(st.integers(-(2**59), 2**59), st.integers(-8, 4))
def test_whole_numbers_are_rounded_to_coarse_and_fine_grids_alike(x: int, fineness: int):
    grid = Fraction(2) ** -fineness
    if abs(x / grid) < 2**60:
        expected = math.floor(Fraction(x) / grid + Fraction(1, 2))
        assert Grid(grid).steps([x]).tolist() == [expected]
        assert Grid(grid).steps_of_one(x) == expected


def test_the_largest_half_below_a_half_is_rounded_down():
    assert Grid(Fraction(1)).steps([0.49999999999999994, -0.5, 2.5]).tolist() == [0, 0, 3]


def test_answers_of_every_integer_width_are_accepted():
    for width in (np.int8, np.uint8, np.int32, np.uint64):
        assert Grid(None).steps(np.array([1, 100], dtype=width)).tolist() == [1, 100]
    assert Grid(None).steps((5, 6)).tolist() == [5, 6]


ODD_NUMBERS = [
    "1_0",
    "7_0/10",
    " 1",
    "1 ",
    "1\n",
    "7 / 10",
    "１",
    "٣",
    "1/３",
    "0x10",
    "1e",
    "",
    ".",
]


@pytest.mark.parametrize("text", [*ODD_NUMBERS, "infinity", "-inf", "nan", "sNaN", "1/0", "1e401"])
def test_text_that_merely_resembles_a_number_is_refused(text: str):
    with pytest.raises(ValueError, match=r"^epsilon must be a finite number such") as caught:
        dpgap.Laplace(text)
    assert str(caught.value).endswith(f"not {text!r}")


@pytest.mark.parametrize(
    ("text", "number"),
    [("7/10", "0.7"), ("1e-3", "0.001"), ("+.5", "0.5"), ("5.", "5"), ("1E+2", "100")],
)
def test_decimals_and_fractions_are_read_from_text(text: str, number: str):
    assert rational("epsilon", text) == Fraction(number)
    assert rational("threshold", f"-{text.removeprefix('+')}") == -Fraction(number)


def test_a_number_with_a_comma_is_told_with_a_point():
    for text, point in {"1,5": "1.5", "-0,25": "-0.25", "1,000": "1000 or 1.000"}.items():
        with pytest.raises(ValueError, match=f"not '{text}': write {point}$"):
            rational("epsilon", text)
    for text in ("1,5,0", "1.000,5", "ε", ",5"):
        with pytest.raises(ValueError, match=f"not '{text}'$"):
            rational("epsilon", text)
    with pytest.raises(ValueError, match=r"threshold must .*: write 2\.5$"):
        dpgap.SparseVector("2,5", 1, 1)


@pytest.mark.parametrize("epsilon", ["1e-320", 1e-320, 5e-324, "1e-400", Fraction(1, 10**600)])
def test_an_epsilon_smaller_than_any_float_is_refused_with_its_scale(epsilon):
    for mechanism in (
        functools.partial(dpgap.NoisyTopK, 1),
        functools.partial(dpgap.SparseVector, 0, 1),
        functools.partial(dpgap.MeasuredTopK, 1),
        dpgap.Laplace,
        dpgap.Cube,
        functools.partial(dpgap.CountHull, monotonic=True),
    ):
        with pytest.raises(ValueError, match=r"^epsilon is too small: .* scale of [0-9.]+e\+[3-6]"):
            mechanism(epsilon)


@pytest.mark.parametrize("grid", [2**101, 2**300, 2.0**-101, 2.0**-300])
def test_a_grid_whose_powers_would_leave_the_floats_is_refused(grid):
    with pytest.raises(ValueError, match=r"^grid must lie between 2\^-100 and 2\^100"):
        dpgap.measured_top_k([9.0 * grid, grid], 1, 1, grid=grid, sensitivity=grid)


@pytest.mark.parametrize("method", ["best", "paper"])
@pytest.mark.parametrize("epsilon", ["1e-8", 1, 10**6])
@pytest.mark.parametrize("grid", [2**100, 2.0**-90])
def test_the_coarsest_and_the_finest_grids_give_finite_numbers(grid, epsilon, method: str):
    options = {"grid": grid, "sensitivity": grid, "method": method}
    answers = np.array([2.0**50, 2.0**49, 3.0, 1.0]) * float(grid)
    for k in (1, 2, 4):
        top = dpgap.measured_top_k(answers, k, epsilon, **options)
        over = dpgap.measured_above(answers, Fraction(grid), k, epsilon, **options)
        for release in (top, over):
            assert np.isfinite(release.estimates).all()
            assert np.isfinite(release.variances).all()
            assert np.isfinite(release.interval()).all()
            assert (release.variances >= 0).all()


def test_parameters_beyond_all_floats_can_be_read_in_a_guarantee():
    release = dpgap.NoisyTopK(1, 1, sensitivity="1e-320").release([3, 1])
    assert "at most 10⁻³²⁰" in release.guarantee
