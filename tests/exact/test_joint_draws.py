"""Shell noise: the exact law on whole steps, its moments and tails, and its exact draws."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpgap.exact import shells as shell_draws
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.shells import CubeNoise, HullNoise, ShellNoise, shells
from dpgap.mechanisms.measuring import CountHull
from law_tests import LEVEL, chi_square_p, homogeneous_p, tally_p
from seams import words_drawn

HULL = HullNoise(Fraction(1), 3)
SMALL = [
    HULL,
    HullNoise(Fraction(4, 5), 4),
    HullNoise(Fraction(1, 3), 4),
    CubeNoise(Fraction(3, 2), 2),
    CubeNoise(Fraction(2, 5), 3),
]


def exact_law(law: ShellNoise) -> dict[tuple[int, ...], float]:
    """Every point's chance, from e^(−largest/scale) alone; beyond the reach lies less than 1e-5."""
    reach = math.ceil(26 * float(law.scale)) if law.signed else 84 // law.dimension
    each = range(-reach if law.signed else 0, reach + 1)
    points = list(itertools.product(each, repeat=law.dimension))
    weights = [math.exp(-law.largest(point) / law.scale) for point in points]
    whole = math.fsum(weights)
    return {point: weight / whole for point, weight in zip(points, weights, strict=True)}


@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_draws_follow_the_exact_law_point_by_point(law: ShellNoise) -> None:
    draws = shells(law, InsecureSeededBits(1), 200_000)
    assert tally_p(draws, exact_law(law)) > LEVEL


def test_a_scale_three_per_cent_off_is_rejected() -> None:
    draws = shells(HULL, InsecureSeededBits(2), 200_000)
    wrong = HullNoise(HULL.scale * Fraction(103, 100), HULL.dimension)
    assert tally_p(draws, exact_law(wrong)) < LEVEL


def test_a_wrong_shell_count_is_rejected() -> None:
    """Weighing the shell R by (R+1)^(k+1) − R^(k+1) is right; by its surface (R+1)^k is not."""
    draws = shells(HULL, InsecureSeededBits(3), 200_000)
    radii = draws.max(axis=1, keepdims=True)
    steps = np.arange(60)
    fall = np.exp(-steps / float(HULL.scale))
    right = fall * ((steps + 1.0) ** 3 - steps**3.0)
    wrong = fall * (steps + 1.0) ** 2

    def law(weights: np.ndarray) -> dict[tuple[int, ...], float]:
        return {(r,): w for r, w in enumerate((weights / weights.sum()).tolist())}

    assert tally_p(radii, law(right)) > LEVEL
    assert tally_p(radii, law(wrong)) < LEVEL


@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_variance_and_tails_are_those_of_the_exact_law(law: ShellNoise) -> None:
    chances = exact_law(law)

    def noise(point: tuple[int, ...]) -> int:
        return point[1] if law.signed else point[1] - point[0]

    variance = math.fsum(p * noise(point) ** 2 for point, p in chances.items())
    assert law.floor_variance == pytest.approx(variance, rel=1e-4)
    for step in (-1, 0, 1, 3):
        tail = math.fsum(p for point, p in chances.items() if abs(noise(point)) > step)
        assert law.value_tail(step) == pytest.approx(tail, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("kind", [HullNoise, CubeNoise])
@pytest.mark.parametrize("count", [2, 3, 11, 300])
def test_many_shells_are_summed_as_an_integral(kind: type[ShellNoise], count: int) -> None:
    class NoneSummed(kind):  # type: ignore[valid-type, misc]
        most_shells = 0

    law, integral = kind(Fraction(40), count), NoneSummed(Fraction(40), count)
    variance, steps = law.floor_variance, (0, 40 * count // 3, 20 * count)
    tails, half = [law.value_tail(step) for step in steps], law.value_half_width(0.95)
    assert integral._shells() is None
    assert integral.floor_variance == pytest.approx(variance, rel=1e-4)
    assert [integral.value_tail(step) for step in steps] == pytest.approx(tails, rel=1e-3, abs=1e-9)
    assert abs(integral.value_half_width(0.95) - half) <= 1


def test_the_variance_tends_to_the_closed_form() -> None:
    k, scale = 10, Fraction(1000)
    hull = HullNoise(scale, k + 1).floor_variance
    cube = CubeNoise(scale, k).floor_variance
    assert hull == pytest.approx((k + 2) * (k + 3) * 1e6 / 6, rel=1e-6)
    assert cube == pytest.approx((k + 1) * (k + 2) * 1e6 / 3, rel=1e-6)


@pytest.mark.parametrize(
    "law", [HullNoise(Fraction(20), 11), CubeNoise(Fraction(20), 10)], ids=repr
)
def test_moments_hold_in_higher_dimension(law: ShellNoise) -> None:
    """Six standard errors of 200,000 draws; a scale 3 % off is 40 of them away."""
    draws = shells(law, InsecureSeededBits(4), 200_000).astype(np.float64)
    values = draws if law.signed else draws[:, 1:] - draws[:, :1]
    variance = law.floor_variance
    each = values.var(axis=0)
    assert np.abs(each / variance - 1).max() < 0.03
    correlation = np.corrcoef(values.T)[np.triu_indices(values.shape[1], 1)]
    assert np.abs(correlation - law.correlation).max() < 0.02
    half = law.value_half_width(0.95)
    inside = (np.abs(values) <= half).mean()
    assert inside == pytest.approx(1 - law.value_tail(half), abs=0.003)


def test_draws_that_floats_leave_open_are_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rounding errors a million times as large, more is decided exactly; nothing changes."""
    before = shells(HULL, InsecureSeededBits(5), 3000)
    calls: list[int] = []
    decided = shell_draws._decided

    def counted(*arguments: object) -> tuple[int, bool]:
        calls.append(1)
        return decided(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shell_draws, "_decided", counted)
    monkeypatch.setattr(shell_draws, "_ROUNDING", 2.0**-6)
    after = shells(HULL, InsecureSeededBits(5), 3000)
    assert len(calls) > 100
    assert (before == after).all()


def test_a_word_that_says_nothing_is_refined() -> None:
    class Nothing(InsecureSeededBits):
        __slots__ = ()

        def words(self, *shape: int) -> np.ndarray:
            drawn = super().words(*shape).copy()
            if words_drawn(self) == drawn.size:  # the first of all
                drawn.flat[0] = 0
            return drawn

    law = HullNoise(Fraction(20), 7)
    assert shells(law, Nothing(3), 1).max() > 40 * float(law.scale)  # since no word is smaller


def test_whole_numbers_below_a_limit_are_uniform() -> None:
    bits = InsecureSeededBits(6)
    drawn = bits.each_below(np.array([[3], [7]]), 2, 70_000)
    for row, limit in zip(drawn, (3, 7), strict=True):
        counts = np.bincount(row, minlength=limit)
        assert counts.size == limit
        assert chi_square_p(counts, np.full(limit, 1 / limit)) > LEVEL


def test_leftover_words_are_drawn_again() -> None:
    """A limit just above 2^63 refuses nearly half of all words; the mean stays in the middle."""
    limit = (1 << 62) + 1
    drawn = InsecureSeededBits(7).each_below(limit, 40_000)
    assert drawn.min() >= 0
    assert drawn.max() < limit
    assert abs(drawn.mean() / limit - 0.5) < 6 * 0.289 / 200


def test_a_thousand_coordinates_take_a_few_words_each() -> None:
    bits = InsecureSeededBits(8)
    shells(HullNoise(Fraction(20, 7), 1001), bits, 30)
    assert words_drawn(bits) < 30 * 3_000


def test_any_epsilon_is_drawn_in_reasonable_time() -> None:
    for epsilon in ("0.001", "0.1", "1", "10", "100", "1000"):
        release = CountHull(epsilon, monotonic=True).release(np.arange(2000))
        assert release.values.size == 2000


@pytest.mark.parametrize(
    "law",
    [
        HullNoise(Fraction(1, 348), 501),
        CubeNoise(Fraction(1, 219), 200),
        CubeNoise(Fraction(1, 1095), 1_000),
        HullNoise(Fraction(1, 400), 100_001),
    ],
    ids=repr,
)
def test_where_few_shells_are_likely_a_draw_takes_no_more_words_than_it_has_coordinates(
    law: ShellNoise,
) -> None:
    """By arrivals, hardly any try was accepted: a release was charged and did not come."""
    bits = InsecureSeededBits(4)
    with decimal.localcontext(decimal.Context(prec=2)):  # the caller's settings change nothing
        radius = int(np.abs(shells(law, bits, 1)).max())
    assert words_drawn(bits) < 6 * law.dimension + 10
    below, above = (float(law.scale) * law.dimension + each for each in (-3, 3))
    assert below < radius < above


def test_a_table_and_arrivals_give_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the border either way serves: radii are as likely by both, and a wrong scale is seen."""
    law, wrong, runs = HullNoise(Fraction(1, 3), 30), HullNoise(Fraction(10, 33), 30), 30_000
    assert shell_draws._is_tabled(law)
    table = np.bincount(shells(law, InsecureSeededBits(5), runs).max(axis=1), minlength=40)
    off = np.bincount(shells(wrong, InsecureSeededBits(6), runs).max(axis=1), minlength=40)
    monkeypatch.setattr(shell_draws, "_is_tabled", lambda law: False)
    arrivals = np.bincount(shells(law, InsecureSeededBits(7), runs).max(axis=1), minlength=40)
    assert (
        homogeneous_p(np.repeat(np.arange(40), table), np.repeat(np.arange(40), arrivals)) > LEVEL
    )
    assert homogeneous_p(np.repeat(np.arange(40), off), np.repeat(np.arange(40), arrivals)) < LEVEL
