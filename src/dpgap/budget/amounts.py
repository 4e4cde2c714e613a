"""Amounts of privacy, (ε, δ), as a book holds them: exact, and with short denominators.

Charges are whole multiples of one small unit, 1/(10^30 · lcm(1, …, 24)), so that sums keep short
denominators however many releases there are. What is reserved and what is settled is rounded *up*
and a new total *down*, so a book never says that less was spent than was; what a release itself
reports stays exact. Entries from before this rule hold any fraction: they stand, and books that
have them go on.

>>> Amount(Fraction(1, 3)) + Amount(Fraction(1, 6), Fraction(1, 10**6))
Amount(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

from dpgap.exact.parameters import Rational, positive_rational, rational, readable

UNIT = Fraction(1, 10**30 * math.lcm(*range(1, 25)))
"""What all new entries are whole multiples of."""


class NumberTooLong(ArithmeticError):  # noqa: N818 - it says what is wrong
    """A number has more digits than Python writes down."""


def rounded_up(number: Fraction) -> Fraction:
    """The next multiple of the unit: what a charge is recorded as.

    >>> rounded_up(Fraction(1, 3)), rounded_up(Fraction(1, 29)) > Fraction(1, 29)
    (Fraction(1, 3), True)
    """
    return math.ceil(number / UNIT) * UNIT


def rounded_down(number: Fraction) -> Fraction:
    """The multiple of the unit before: what a total is recorded as."""
    return math.floor(number / UNIT) * UNIT


@dataclass(frozen=True, slots=True)
class Amount:
    """An ε and a δ. What releases cost adds up, each for itself."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.epsilon - other.epsilon, self.delta - other.delta)

    def fits(self, limit: "Amount") -> bool:
        """Whether neither ε nor δ is above the limit."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta

    def up(self) -> "Amount":
        """As a charge is recorded."""
        return Amount(rounded_up(self.epsilon), rounded_up(self.delta))

    def down(self) -> "Amount":
        """As a total is recorded."""
        return Amount(rounded_down(self.epsilon), rounded_down(self.delta))

    def exact(self) -> list[str]:
        """The two numbers as they are stored and sealed."""
        return [exact_text(self.epsilon), exact_text(self.delta)]

    def __str__(self) -> str:
        delta = f", δ = {readable(self.delta)}" if self.delta else ""
        return f"ε = {readable(self.epsilon)}{delta}"


NOTHING = Amount(Fraction(0))


def granted(epsilon: Rational, delta: Rational) -> Amount:
    """A total as it is recorded: rounded down, and more than nothing."""
    exact = Amount(positive_rational("epsilon", epsilon), rational("delta", delta))
    if not 0 <= exact.delta < 1:
        raise ValueError(f"delta must be at least 0 and less than 1, not {delta!r}")
    total = exact.down()
    if total.epsilon == 0:
        raise ValueError("epsilon must be larger: a total this small rounds down to 0")
    return total


def exact_text(value: Fraction) -> str:
    """The number as it is stored and sealed, such as 7/10."""
    try:
        return str(value)
    except ValueError:
        raise NumberTooLong(
            f"a number of this book would have more than {sys.get_int_max_str_digits()} digits"
        ) from None


def readable_text(value: Fraction) -> str:
    """The number for programs: exact, or about right where it is too long to be written down.

    >>> readable_text(Fraction(7, 10)), readable_text(Fraction(1, 3**10000) + 2)
    ('7/10', 'about 2.0')
    """
    try:
        return str(value)
    except ValueError:
        return f"about {float(value)!r}" if abs(value) < 10**300 else "more than 1e300"
