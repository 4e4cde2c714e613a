"""A grid knows its step, and turns answers into steps and steps into floats."""

from decimal import Decimal
from fractions import Fraction

import pytest

import dpgap
from dpgap.exact.grid import Grid


@pytest.mark.parametrize("declared", [None, Fraction(1), Fraction(1, 8), Fraction(4)])
def test_steps_times_the_width_are_the_answers_on_the_grid(declared: Fraction | None):
    grid = Grid(declared)
    answers = [-8, 0, 12]
    assert (grid.steps(answers) * grid.width).tolist() == answers
    assert [grid.steps_of_one(answer) * grid.step for answer in answers] == answers
    assert grid.rounding == (0 if declared is None else grid.width / 2)


@pytest.mark.parametrize("declared", [None, Fraction(1), Fraction(1, 8)])
@pytest.mark.parametrize("answer", ["55", "55.00", "5.5", "NaN", "Infinity"])
def test_a_decimal_is_refused_by_its_type_whatever_it_is(declared: Fraction | None, answer: str):
    """If a value could decide, the error would tell one of two neighbours from the other."""
    with pytest.raises(TypeError, match="answer must be one int, or a float, not Decimal"):
        Grid(declared).steps_of_one(Decimal(answer))


def test_lengths_are_rounded_up_to_steps_and_the_excess_is_known():
    grid = Grid(Fraction(1, 4))
    assert (grid.up(Fraction(1, 3)), grid.up(Fraction(1, 2)), grid.up(Fraction(-1, 3))) == (
        2,
        2,
        -1,
    )
    assert grid.excess(Fraction(3, 8)) == 0.125
    assert Grid(None).excess(Fraction(5, 2)) == 0.5


def test_a_mechanism_shows_the_grid_as_it_was_declared():
    assert dpgap.NoisyMax(1).grid is None
    assert dpgap.SparseVector(0, 1, 1, grid="1/4").grid == Fraction(1, 4)
    assert repr(dpgap.Laplace(1, grid=2)).endswith("grid=Fraction(2, 1))")
