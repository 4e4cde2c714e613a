"""Sound releases, and the same with a leak that no value shows: in bits, words, fields or errors.

Each says how many people there are, with ε = 1. What is wrong stands beside what is right, so that
an audit must tell one from the other.
"""

import math
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from dpgap.mechanisms import histogram as histogram_kernel
from dpgap.mechanisms.histogram import Cutoff, NoisyHistogram
from dpgap.releases import drawn

Function = Callable[[list[int]], Any]
HISTOGRAM = NoisyHistogram(1)


def best_of_histogram(answers: list[int]) -> Any:
    """The largest count that is read off a histogram, and what it may be off by."""
    read_off = HISTOGRAM.draw_paid(HISTOGRAM.prepare(np.array(answers), None), Cutoff(1))
    return read_off.indices, read_off.values, HISTOGRAM.error_of(read_off)


@contextmanager
def coin_as_a_float() -> Iterator[None]:
    """The best loser's coin as it was: computed as a float, beside the largest *true* count."""
    right = histogram_kernel._Contenders._loser

    def loser(contenders: Any, at: int, origin: int) -> tuple[int, Any]:
        value, _ = right(contenders, at, origin)
        coin = float(contenders._low[at]) - (value - origin)
        return value, min(max(coin, 0.0), 1.0) * histogram_kernel.COINS

    with (
        mock.patch.object(histogram_kernel._Contenders, "_loser", loser),
        mock.patch.object(drawn.Drawn, "__post_init__", return_value=None),
    ):
        yield


def with_noise(draw: random.Random, scale: float = 1) -> Callable[[int], int]:
    """Adds whole noise, two-sided."""

    def noisy(value: int) -> int:
        up, down = (math.floor(draw.expovariate(1 / scale)) for _ in range(2))
        return value + up - down

    return noisy


def _text(true: int, noisy: int, draw: random.Random) -> Any:
    """A random word as long as there are people; it is never the same twice."""
    return noisy, "".join(draw.choices("abcdefgh", k=12 + true))


def _warning(true: int, noisy: int, draw: random.Random) -> Any:
    if true < 1:
        warnings.warn("there is hardly anybody", stacklevel=1)
    return noisy


def _refusal(true: int, noisy: int, draw: random.Random) -> Any:
    if true < 1 <= noisy:
        raise RuntimeError("nobody must not be shown as somebody")
    return noisy


def _message(true: int, noisy: int, draw: random.Random) -> Any:
    if noisy > 0:
        raise RuntimeError(f"{draw.random()}"[:4] + "0" * true)
    return noisy


def _field(true: int, noisy: int, draw: random.Random) -> Any:
    return {"value": noisy} | ({"low": noisy - 3} if true > 0 else {})


def _order(true: int, noisy: int, draw: random.Random) -> Any:
    names = ("men", "women") if true > 0 else ("women", "men")
    return dict.fromkeys(names, noisy)


def _kind_of_label(true: int, noisy: int, draw: random.Random) -> Any:
    return [(1.0, noisy)] if true > 0 else [(1, noisy)]


def _kind_of_number(true: int, noisy: int, draw: random.Random) -> Any:
    return np.int64(noisy) if true > 0 else noisy


def _kind_of_output(true: int, noisy: int, draw: random.Random) -> Any:
    return (noisy,) if true > 0 else [noisy]


def _zero_below_zero(true: int, noisy: int, draw: random.Random) -> Any:
    return (true - 0.5) * 0.0, noisy


def _denominator(true: int, noisy: int, draw: random.Random) -> Any:
    below = 3**30 * 2 ** (true > 0)
    return Fraction(round((noisy + draw.random()) * below) | 1, below)


def _places(true: int, noisy: int, draw: random.Random) -> Any:
    return Decimal(noisy).quantize(Decimal(10) ** -(2 + (true > 0)))


def _low_bits_of_a_large_number(true: int, noisy: int, draw: random.Random) -> Any:
    return (noisy + draw.getrandbits(20) << 60) + (1 << 6 + (true > 0))


def _true_gap(true: int, noisy: int, draw: random.Random) -> Any:
    return noisy, 1 / true if noisy > 0 else 0


def by_noisy(leaky: Callable[[int, int, random.Random], Any]) -> Callable[..., Any]:
    """The same, decided by what is released anyway."""
    return lambda true, noisy, draw: leaky(max(noisy, -5), noisy, draw)


LEAKS: dict[str, Callable[[int, int, random.Random], Any]] = {
    "length of a text": _text,
    "warning": _warning,
    "refusal after the charge": _refusal,
    "length of a message": _message,
    "field that is there or not": _field,
    "order of fields": _order,
    "type of a label": _kind_of_label,
    "type of a number": _kind_of_number,
    "type of the output": _kind_of_output,
    "zero below zero": _zero_below_zero,
    "denominator": _denominator,
    "places of a decimal": _places,
    "low bits of a large number": _low_bits_of_a_large_number,
    "division by a true gap": _true_gap,
}


def leaking(name: str, seed: int) -> Function:
    """A count with a leak."""
    return _released(LEAKS[name], seed)


def mended(name: str, seed: int) -> Function:
    """The same where the noisy count decides, and not the true one."""
    return _released(by_noisy(LEAKS[name]), seed)


def _released(said: Callable[[int, int, random.Random], Any], seed: int) -> Function:
    draw = random.Random(seed)
    noisy = with_noise(draw)
    return lambda answers: said(answers[0], noisy(answers[0]), draw)


def dividing_by_a_noisy_gap(seed: int) -> Function:
    """Advice that divides by how far two noisy counts are apart: on a tie the release is lost."""
    noisy = with_noise(random.Random(seed))

    def release(answers: list[int]) -> Any:
        one, two = noisy(answers[0]), noisy(answers[-1])
        return one, two, 1 / abs(one - two)

    return release
