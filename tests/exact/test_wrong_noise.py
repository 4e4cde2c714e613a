"""Mistakes that are easy to make with one-sided and joint noise, each with what gives it away.

Every chance here is exact, on whole steps. A mistake is shown by an event whose log-ratio between
neighbours exceeds the ε that is claimed; the right mechanism stays within it on the same event.
"""

import math
from fractions import Fraction

import pytest

from dpgap.exact.laws import ExponentialNoise, LaplaceNoise
from dpgap.exact.shells import HullNoise
from dpgap.mechanisms.measuring import CountHull, Laplace

EPSILON = Fraction(1)
STEPS = range(400)


def chance_below(answer: int, threshold_sign: int, answer_sign: int, scale: int = 4) -> float:
    """P(answer ± noise < 0 ± threshold noise), both one-sided and on whole steps."""
    law = ExponentialNoise(Fraction(scale))
    masses = [law.floor_mass(step) for step in STEPS]
    return math.fsum(
        masses[own] * masses[other]
        for own in STEPS
        for other in STEPS
        if answer + answer_sign * own < threshold_sign * other
    )


@pytest.mark.parametrize(
    ("threshold_sign", "answer_sign", "answer", "neighbour", "below"),
    [(-1, 1, -1, 0, True), (1, -1, 1, 0, False)],
    ids=["subtracted from the threshold", "subtracted from the answer"],
)
def test_one_sided_noise_that_is_subtracted_loses_everything(
    threshold_sign: int, answer_sign: int, answer: int, neighbour: int, below: bool
) -> None:
    """The neighbour, at the threshold itself, can never be below (or above by a whole step)."""
    here = chance_below(answer, threshold_sign, answer_sign)
    there = chance_below(neighbour, threshold_sign, answer_sign)
    if not below:  # the event is "strictly above": not below by one step more
        here = 1 - chance_below(answer - 1, threshold_sign, answer_sign)
        there = 1 - chance_below(neighbour - 1, threshold_sign, answer_sign)
    assert here > 0.01
    assert there < 1e-12


def test_one_sided_noise_that_is_added_keeps_the_same_events_likely() -> None:
    before, after = chance_below(-1, 1, 1), chance_below(0, 1, 1)
    assert abs(math.log(before / after)) <= EPSILON


def hull_log_chance(scale: Fraction, difference: tuple[int, int]) -> float:
    """Of two values, log P(noise = difference) summed over the shared coordinate."""
    law = HullNoise(scale, 3)
    return math.log(
        math.fsum(
            math.exp(-law.largest([u, u + difference[0], u + difference[1]]) / scale)
            for u in range(600)
            if u + min(difference) >= 0
        )
    )


def hull_loss(scale: Fraction, values: tuple[int, int], neighbour: tuple[int, int]) -> float:
    """The log-ratio of releasing exactly `values`."""
    moved = (values[0] - neighbour[0], values[1] - neighbour[1])
    return hull_log_chance(scale, (0, 0)) - hull_log_chance(scale, moved)


def test_the_hull_on_values_that_move_both_ways_loses_twice_epsilon() -> None:
    scale = CountHull(EPSILON, monotonic=True).law(2).scale
    assert hull_loss(scale, (5, 5), (6, 4)) == pytest.approx(2 * EPSILON)
    assert hull_loss(scale, (5, 5), (6, 6)) <= EPSILON + 1e-12
    assert hull_loss(scale, (5, 5), (4, 4)) <= EPSILON + 1e-12


def test_a_hull_that_ignores_the_sensitivity_loses_that_many_epsilon() -> None:
    right = CountHull(EPSILON, monotonic=True, sensitivity=3).law(2).scale
    wrong = CountHull(EPSILON, monotonic=True).law(2).scale
    assert hull_loss(wrong, (5, 5), (8, 8)) == pytest.approx(3 * EPSILON)
    assert hull_loss(right, (5, 5), (8, 8)) <= EPSILON + 1e-12


def all_at_least_loss(law: LaplaceNoise, count: int) -> float:
    """The log-ratio of "every one of `count` values is at least one more than it was"."""
    return count * math.log(law.tail(0) / law.tail(1))


def test_measuring_more_than_k_answers_with_noise_for_k_overspends() -> None:
    """An adaptive run asked for k = 5 may find 20; noise must be for the 20."""
    k, found = 5, 20
    measurement = Laplace(EPSILON)
    assert all_at_least_loss(measurement.law(k), found) == pytest.approx(4 * EPSILON)
    assert all_at_least_loss(measurement.law(found), found) <= EPSILON + 1e-12
