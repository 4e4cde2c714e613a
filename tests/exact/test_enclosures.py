"""Floats enclose exponential and geometric draws: the arguments, closed by two provers.

Everything is in units of the true scale. All that happens is linear once each rounding is an
interval. What is assumed: a float operation is off by at most 2^-53 of its result, there are no
subnormal numbers, and `log` is within `_LOG_ERROR`, which is tried when it is first used. For
geometric draws `exp`, `expm1` and `log1p` are within `_LOG_ERROR` too, which is assumed and not
tried, and three facts of calculus are hypotheses: how much ln(1 + x), e^(−x) and 1 − e^(−x) move
if x moves (each is named where it is used).
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import z3

import dpgap
from dpgap.exact import laws, reals
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import LAWS
from dpgap.mechanisms.top_k import select
from dpgap.proof import Violation
from dpgap.proof.checker.provers import close
from dpgap.proof.checker.recording import theorem

ROUNDING = Fraction(1, 2**53)


def _near(number, other, off):
    """The number is the other, which is not negative, but for this part of it."""
    return [number >= other * z3.Q(*_parts(1 - off)), number <= other * z3.Q(*_parts(1 + off))]


def _parts(number):
    return Fraction(number).as_integer_ratio()


def _q(number):
    return z3.Q(*_parts(number))


def enclosure(few_bits):
    """The theorem, for m up to 2^53, which floats have exactly, or for larger ones.

    t is −ln of the float of m, over the whole; the draw is at most t + moved, and at least
    1/m less; `part` is 1/m.
    """
    t, moved, part = z3.Reals("t moved part")
    middle, over, absolute, both, relative, error, low, high = z3.Reals(
        "middle over absolute both relative error low high"
    )
    u, width = ROUNDING, reals._FRACTION_BITS
    given = [t >= 0, part >= _q(Fraction(1, 2**width)), t + moved >= 0]
    if few_bits:
        given += [moved == 0, part <= 1, t >= math.floor(math.log(2) * (width - 53))]
    else:
        given += [part <= _q(Fraction(1, 2**53)), moved <= _q(2 * u), moved >= _q(-2 * u)]
    # Of the scale, of `log`, and of the product.
    given += _near(middle, t, (1 + u) ** 2 * (1 + Fraction(reals._LOG_ERROR)) - 1)
    # Of the scale, of m, and of the quotient.
    given += _near(over, part, (1 + u) ** 2 / (1 - u) - 1)
    given += _near(absolute, _q(Fraction(reals._ABSOLUTE_ERROR)), (1 + u) ** 2 - 1)
    given += _near(both, over + absolute, u)
    given += _near(relative, middle * _q(Fraction(reals.RELATIVE_ERROR)), u)
    given += _near(error, both + relative, u)
    difference = middle - error
    given += [low <= difference + _q(u) * z3.If(difference < 0, -difference, difference)]
    given += [high >= (middle + error) * _q(1 - u)]
    failures = [
        ("low", z3.And(low > 0, low > t + moved - part)),
        ("high", high < t + moved),
    ]
    name = "up to 53 bits" if few_bits else "more than 53 bits"
    return theorem(f"floats enclose exponential draws, {name}", given, failures)


@pytest.mark.parametrize("few_bits", [True, False])
def test_two_provers_close_the_enclosure(few_bits):
    assert close(enclosure(few_bits)).closed_by == ("z3", "cvc5")


@pytest.mark.parametrize(
    ("name", "worse"),
    [("RELATIVE_ERROR", 2.0**-51), ("_ABSOLUTE_ERROR", 2.0**-54), ("_LOG_ERROR", 2.0**-47)],
)
def test_a_constant_that_is_changed_breaks_the_proof(name, worse, monkeypatch):
    monkeypatch.setattr(reals, name, worse)
    few, many = enclosure(True), enclosure(False)
    with pytest.raises(Violation, match="contradicted"):
        list(map(close, (few, many)))


def _rounded(number, exact, steps=1):
    """The number is the exact one, of either sign, after so many roundings."""
    off = _q((1 + ROUNDING) ** steps - 1) * z3.If(exact < 0, -exact, exact)
    return [number <= exact + off, number >= exact - off]


def _logarithm_of_the_fall():
    """`math.log1p(self._fall)`, what it should be, and ln 2 as a float and as it is."""
    fall, near_fall, should, at_near, computed = z3.Reals("fall near_fall should at_near computed")
    two, near_two = z3.Reals("two near_two")
    log_error = Fraction(reals._LOG_ERROR)
    # e^(−x) moves by at most x·e^(−x) ≤ 1 for every part by which x moves; then `exp`.
    off = _q(ROUNDING + log_error)
    given = [fall >= 0, fall <= 1, near_fall <= fall + off, near_fall >= fall - off, near_fall >= 0]
    given += [
        two > _q(Fraction("0.693")),
        two < _q(Fraction("0.694")),
        *_near(near_two, two, ROUNDING),
    ]
    # ln(1 + x) moves by no more than x does.
    moved = z3.If(near_fall > fall, near_fall - fall, fall - near_fall)
    given += [should >= 0, should <= two, at_near <= should + moved, at_near >= should - moved]
    given += [at_near >= 0, *_near(computed, at_near, log_error)]
    return given, should, computed, two, near_two


def shifted_floors():
    """`GeometricNoise.floor_bounds` encloses the size before it is floored."""
    given, should, computed, two, near_two = _logarithm_of_the_fall()
    draw, low, high, less, shift, slack, down, up, below, above = z3.Reals(
        "draw low high less shift slack down up below above"
    )
    given += [low >= 0, low <= draw, draw <= high, high <= 46]
    given += _rounded(less, near_two - computed)
    given += _rounded(shift, less, 2)  # of the scale, and of the product
    given += _near(slack, _q(Fraction(laws._SHIFT_ERROR)), ROUNDING)
    given += [*_rounded(down, shift - slack), *_rounded(up, shift + slack)]
    given += [*_rounded(below, low + down), *_rounded(above, high + up)]
    size = draw + two - should
    failures = [("low", below > size), ("high", above < size)]
    return theorem("floats enclose sizes of geometric draws", given, failures)


def exponents(of_sums):
    """What is taken off or added to an exponent covers the roundings up to the size.

    The exponent is that of a word (a draw plus ln 2), or −ln(1 − e^(−sum)) at one end of a sum.
    """
    given, should, computed, two, near_two = _logarithm_of_the_fall()
    exact, near, plus, away, less, moved_down, moved_up, down, up = z3.Reals(
        "exact near plus away less moved_down moved_up down up"
    )
    log_error, u = Fraction(reals._LOG_ERROR), ROUNDING
    given += [exact >= 0, exact <= 800, near >= 0]
    if of_sums:  # a part p by which 1 − e^(−sum) is off moves its logarithm by at most p/(1 − p)
        off, inner = log_error / (1 - log_error), z3.Real("inner")
        given += [inner >= 0, inner <= exact + _q(off), inner >= exact - _q(off)]
        given += _near(near, inner, log_error)
    else:
        given += [exact >= two, *_rounded(near, exact - two + near_two)]
    given += _rounded(plus, 1 + near)
    given += _near(away, plus * _q(Fraction(laws._COIN_ERROR)), u)
    given += [*_rounded(less, near - computed)]
    given += [*_rounded(moved_down, less - away), *_rounded(moved_up, less + away)]
    given += [*_rounded(down, moved_down, 2), *_rounded(up, moved_up, 2)]
    size = exact - should
    failures = [("low", z3.And(down > 0, down > size)), ("high", up < size)]
    which = "sums" if of_sums else "words"
    return theorem(f"floats enclose sizes with coins, of {which}", given, failures)


def coins(below):
    """What is taken off or added to noise plus coin covers the roundings after the size."""
    whole, coin, near_coin, sum_, found, size, plus, slack, low, high = z3.Reals(
        "whole coin near_coin sum found size plus slack low high"
    )
    log_error, u = Fraction(reals._LOG_ERROR), ROUNDING
    # 1 − e^(−x) moves by at most the part of itself by which x moves; x has two roundings.
    most = (1 + u) ** 2 * (1 + log_error) / ((1 - u) * (1 - log_error)) * (1 + u) - 1
    given = [whole >= 0, coin >= 0, coin <= 1, *_near(near_coin, coin, most)]
    given += _near(sum_, whole + near_coin, u)
    given += _rounded(found, 1 - sum_) if below else [found == sum_]
    given += [size == z3.If(found < 0, -found, found), *_near(plus, 1 + size, u)]
    given += _near(slack, plus * _q(Fraction(laws._COIN_ERROR)), u)
    given += [*_rounded(low, found - slack), *_rounded(high, found + slack)]
    exact = 1 - whole - coin if below else whole + coin
    failures = [("low", low > exact), ("high", high < exact)]
    return theorem(f"floats enclose noise with coins, {below=}", given, failures)


GEOMETRIC = {
    "floors": shifted_floors,
    "exponents of words": lambda: exponents(of_sums=False),
    "exponents of sums": lambda: exponents(of_sums=True),
    "coins below": lambda: coins(below=True),
    "coins above": lambda: coins(below=False),
}


@pytest.mark.parametrize("name", GEOMETRIC)
def test_two_provers_close_the_enclosures_of_geometric_draws(name):
    assert close(GEOMETRIC[name]()).closed_by == ("z3", "cvc5")


@pytest.mark.parametrize("name", GEOMETRIC)
def test_a_constant_of_geometric_draws_that_is_changed_breaks_the_proof(name, monkeypatch):
    for constant in ("_SHIFT_ERROR", "_COIN_ERROR"):
        monkeypatch.setattr(laws, constant, 2.0**-51)
    with pytest.raises(Violation, match="contradicted"):
        close(GEOMETRIC[name]())


@pytest.fixture
def broken_log(monkeypatch):
    """A `log` that is off by a ten-thousandth, in both libraries."""

    def off(right):
        return lambda x, **more: right(x, **more) * (1 + 1e-4)

    reals.logs_hold.cache_clear()
    for library in (np, math):
        monkeypatch.setattr(library, "log", off(library.log))
    yield
    monkeypatch.undo()
    reals.logs_hold.cache_clear()


def test_the_log_of_this_machine_holds():
    reals.logs_hold.cache_clear()
    assert reals.logs_hold()


@pytest.mark.parametrize("library", [np, math])
def test_a_log_that_is_off_in_one_library_is_found(library, monkeypatch):
    right = library.log
    reals.logs_hold.cache_clear()
    near_one = 1 - 2.0**-52
    monkeypatch.setattr(
        library, "log", lambda x: right(x) * (1 + 2.0**-46 * (np.asarray(x) == near_one))
    )
    try:
        assert not reals.logs_hold()
    finally:
        reals.logs_hold.cache_clear()


def _leads(noise, runs=40):
    program = dpgap.NoisyTopK(2, 1, noise=noise)
    with np.errstate(all="ignore"):  # as in every draw
        found = select(program, np.array([5, 3, 4, 0]), runs, InsecureSeededBits(3))
    return found.indices.tolist(), found.leads.tolist()


@pytest.mark.parametrize("noise", ["laplace", "exponential", "staircase"])
def test_where_log_is_broken_decimals_decide_the_same(noise, request):
    right = _leads(noise)
    request.getfixturevalue("broken_log")
    assert not reals.logs_hold()
    assert _leads(noise) == right


@pytest.mark.parametrize("name", sorted(LAWS))
def test_floors_are_the_same_where_log_is_broken(name, request):
    law, many = LAWS[name].best(Fraction(700), Fraction(1)), 60
    right = law.floors(InsecureSeededBits(5), many).tolist()
    one_by_one = [law.floor(InsecureSeededBits(seed)) for seed in range(many)]
    request.getfixturevalue("broken_log")
    assert law.floors(InsecureSeededBits(5), many).tolist() == right
    assert [law.floor(InsecureSeededBits(seed)) for seed in range(many)] == one_by_one
