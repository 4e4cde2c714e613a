"""Count hull and cube as mechanisms: program, alignment, release, refusals."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.reals import GridNoise
from dpgap.exact.shells import ShellNoise, shells
from seams import SpyAccount, bits_are

numbers = st.fractions(min_value=0, max_value=50, max_denominator=8)
Mechanism = dpgap.CountHull | dpgap.Cube


class Recorded:
    """Noise that was drawn before."""

    def __init__(self, draws: Sequence[Any]) -> None:
        self._draws: Iterator[Any] = iter(draws)

    def draw(self, law: object) -> Any:
        return next(self._draws)


@st.composite
def hull_cases(draw: st.DrawFn) -> tuple[dpgap.CountHull, list[Any], list[Any], list[Any]]:
    count = draw(st.integers(1, 6))
    delta = draw(st.sampled_from([Fraction(1), Fraction(3), Fraction(1, 2)]))
    values = draw(st.lists(numbers, min_size=count, max_size=count))
    moves = draw(st.lists(st.fractions(0, 1), min_size=count, max_size=count))
    sign = draw(st.sampled_from([1, -1]))
    neighbour = [v + sign * delta * m for v, m in zip(values, moves, strict=True)]
    noise = draw(st.lists(numbers, min_size=count + 1, max_size=count + 1))
    mechanism = dpgap.CountHull(
        draw(st.sampled_from(["1/3", 2])), monotonic=True, sensitivity=delta
    )
    return mechanism, values, neighbour, noise


@settings(deadline=None)
@given(hull_cases())
def test_the_hull_alignment_keeps_the_output_the_support_and_the_budget(case: Any) -> None:
    mechanism, values, neighbour, noise = case
    output = mechanism.run(values, Recorded(noise))
    shifts = mechanism.align(values, neighbour, noise, output)
    shifted = [draw + shift for draw, shift in zip(noise, shifts, strict=True)]
    assert mechanism.run(neighbour, Recorded(shifted)) == output
    assert min(shifted) >= 0
    assert mechanism.joint_cost(noise, shifted) <= mechanism.epsilon


@settings(deadline=None)
@given(st.data())
def test_the_cube_alignment_keeps_the_output_and_the_budget(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    several = st.lists(st.fractions(-50, 50, max_denominator=8), min_size=count, max_size=count)
    values, noise = data.draw(several), data.draw(several)
    moves = data.draw(st.lists(st.fractions(-2, 2), min_size=count, max_size=count))
    neighbour = [v + m for v, m in zip(values, moves, strict=True)]
    mechanism = dpgap.Cube("3/4", sensitivity=2)
    output = mechanism.run(values, Recorded(noise))
    shifts = mechanism.align(values, neighbour, noise, output)
    shifted = [draw + shift for draw, shift in zip(noise, shifts, strict=True)]
    assert mechanism.run(neighbour, Recorded(shifted)) == output
    assert mechanism.joint_cost(noise, shifted) <= mechanism.epsilon


class JointNoise:
    """Noise for programs that draw every coordinate of one law, one after the other."""

    __slots__ = ("_bits", "_left")

    def __init__(self, bits: InsecureSeededBits) -> None:
        self._bits = bits
        self._left: list[int] = []

    def draw(self, law: ShellNoise) -> int:
        """The next coordinate; the first one draws them all."""
        if not self._left:
            self._left = shells(law, self._bits, 1)[0].tolist()[::-1]
        return self._left.pop()


def test_the_release_is_the_program_on_the_same_noise() -> None:
    values = [7, 0, 123]
    for mechanism in (dpgap.CountHull("0.35", monotonic=True), dpgap.Cube("0.35")):
        with bits_are(InsecureSeededBits(9)):
            released = mechanism.release(values).values.tolist()
        noise: Any = JointNoise(InsecureSeededBits(9))
        assert released == list(mechanism.run(values, noise))


def test_a_coordinate_cannot_be_drawn_by_itself() -> None:
    """Independent draws would have another law, so a joint law has none."""
    noise = GridNoise()
    noise.freshen()
    with pytest.raises(AttributeError, match="'HullNoise' object has no attribute 'floor'"):
        dpgap.CountHull(1, monotonic=True).run([1, 2], noise)


def test_the_hull_refuses_values_not_said_to_be_monotonic() -> None:
    account = SpyAccount()
    with pytest.raises(ValueError, match="monotonic must be True"):
        dpgap.CountHull(1).release([3, 4], account=account)
    assert account.diary == []


def test_the_hull_takes_the_word_of_answers_that_say_they_are_monotonic() -> None:
    class Counts(np.ndarray):  # type: ignore[type-arg]
        monotonic = True

    release = dpgap.CountHull(1000).release(np.array([3, 4]).view(Counts))
    assert release.values.tolist() == [3, 4]


@pytest.mark.parametrize("mechanism", [dpgap.CountHull(1, monotonic=True), dpgap.Cube(1)], ids=repr)
@pytest.mark.parametrize("bad", [[], [[1, 2]], [1.5], ["a"], [2**62]])
def test_malformed_values_are_refused_before_anything_is_charged(
    mechanism: Mechanism, bad: Any
) -> None:
    account = SpyAccount()
    with pytest.raises((ValueError, TypeError), match="values"):
        mechanism.release(bad, account=account)
    assert account.diary == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "sensitivity": -1}, "sensitivity"),
        ({"epsilon": 1, "grid": 3}, "grid"),
        ({"epsilon": "1e-30"}, "epsilon"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], named: str) -> None:
    for kind in (dpgap.CountHull, dpgap.Cube):
        with pytest.raises(ValueError, match=named):
            kind(**arguments)


def test_a_grid_rounds_the_sensitivity_up_and_the_values_to_it() -> None:
    mechanism = dpgap.CountHull(1000, monotonic=True, sensitivity="0.3", grid="1/4")
    assert mechanism.law_in_steps(2).scale == Fraction(2, 1000)
    assert mechanism.release([0.3, 1.9]).values.tolist() == [0.25, 2.0]


def test_a_release_is_charged_once_and_knows_its_variance_and_intervals() -> None:
    account = SpyAccount()
    mechanism = dpgap.CountHull("1/2", monotonic=True)
    release = mechanism.release([40, 50, 60], account=account)
    assert account.moves == [("reserve", Fraction(1, 2)), ("settle", Fraction(1, 2))]
    assert release.variance == pytest.approx(5 * 6 / 6 / 0.25, rel=0.01)
    low, high = release.interval(0.95).T
    assert ((low + high) / 2 == release.values).all()
    assert math.isclose(high[0] - low[0], 2 * mechanism.half_width(3, 0.95))
    assert "all of them in the same direction" in release.guarantee
