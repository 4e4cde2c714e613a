"""How high a public line must be, so that nobody who is alone with an item shows.

Where items are not known beforehand, one unit may have items that nobody else has. Each counts at
most Δ, the sensitivity. It shows only if its noisy answer is above the noisy line T. Both have
exponential noise of scale b, so the chance of that is ½·e^(−(T − Δ)/b), and for `reach` items it is
at most so many times that. All roundings here go against whoever asks: chances are rounded up.
"""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dpgap.exact.reals import decimals

_DIGITS = 20
_LEAST = Fraction(1, 10**400)
"""No chance is stated as less: it would take too many digits."""


def chance_above(distance: Fraction, scale: Fraction, reach: int) -> Fraction:
    """At least the chance that any of `reach` items passes a line this far above it.

    >>> f"{float(chance_above(Fraction(10), Fraction(1), 1)):.4g}"
    '2.27e-05'
    """
    if distance < 0:
        return Fraction(1)
    many, few = decimals(2 * _DIGITS), Context(prec=_DIGITS, rounding=ROUND_CEILING, traps=[])
    ratio = distance / scale
    least = many.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    if least:  # otherwise it is 0 without any rounding
        least = many.next_minus(least)
    most = many.next_plus(many.exp(many.minus(least)))
    half = Fraction(most) / 2 if least else Fraction(1, 2)
    chance = max(reach * half, _LEAST)
    if chance >= 1:
        return Fraction(1)
    return Fraction(few.divide(Decimal(chance.numerator), Decimal(chance.denominator)))


def least_distance(scale: Fraction, reach: int, delta: Fraction) -> int:
    """How many steps a line must be above such items for the chance to be at most δ."""
    ratio = reach / (2 * delta)
    log = math.log(ratio.numerator) - math.log(ratio.denominator)
    distance = max(0, math.ceil(float(scale) * log))
    while chance_above(Fraction(distance), scale, reach) > delta:
        distance += 1
    while distance and chance_above(Fraction(distance - 1), scale, reach) <= delta:
        distance -= 1
    return distance
