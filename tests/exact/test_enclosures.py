"""Floats enclose exponential draws: the argument of `exponential_bounds`, closed by two provers.

Everything is in units of the true scale. All that happens is linear once each rounding is an
interval. What is assumed: a float operation is off by at most 2^-53 of its result, there are no
subnormal numbers, and `log` is within `_LOG_ERROR`, which is tried when it is first used.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import z3

import dpgap
from dpgap.exact import reals
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.laws import LAWS, law_named
from dpgap.mechanisms.top_k import select
from dpgap.proof import Violation
from dpgap.proof.every.theorem import close, theorem

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
    law, many = law_named(name, Fraction(700), Fraction(1)), 60
    right = law.floors(InsecureSeededBits(5), many).tolist()
    one_by_one = [law.floor(InsecureSeededBits(seed)) for seed in range(many)]
    request.getfixturevalue("broken_log")
    assert law.floors(InsecureSeededBits(5), many).tolist() == right
    assert [law.floor(InsecureSeededBits(seed)) for seed in range(many)] == one_by_one
