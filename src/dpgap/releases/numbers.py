"""Numbers of a release as text and as JSON: exact ones, and the nearest that JSON has."""

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpgap.exact.parameters import readable
from dpgap.releases.faults import DocumentError

_MOST_LETTERS = 20_000
_DECIMAL = re.compile(r"-?[0-9]+(/[0-9]+)?")
_SHORT = re.compile(r"-?[0-9]+\.[0-9]+")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+/0x[0-9a-f]+")
_WORDS = "none one two three four five six seven eight nine ten".split()


def exact_text(value: Fraction) -> str:
    """An exact number as text.

    Python writes no decimal of more than 4,300 digits. Such a number is written in base 16.

    >>> exact_text(Fraction(7, 10)), exact_text(Fraction(2))
    ('7/10', '2')
    """
    try:
        return str(value)
    except ValueError:
        sign = "-" if value < 0 else ""
        return f"{sign}{abs(value.numerator):#x}/{value.denominator:#x}"


def exact_value(text: str) -> Fraction:
    """The number that `exact_text` wrote.

    >>> exact_value("7/10")
    Fraction(7, 10)
    """
    if len(text) > _MOST_LETTERS:
        raise DocumentError(f"a number has more than {_MOST_LETTERS:,} letters")
    base = 16 if _HEXADECIMAL.fullmatch(text) else 10
    if base == 10 and not _DECIMAL.fullmatch(text):
        raise DocumentError(f"{text[:40]!r} is not an exact number such as '7/10'")
    over, _, under = text.partition("/")
    try:
        return Fraction(int(over, base), int(under or "1", base))
    except (ValueError, ZeroDivisionError):
        raise DocumentError(f"{text[:40]!r} is not a number, or has too many digits") from None


def separated(value: Fraction) -> str:
    """A number for people, with separators between thousands where it has them.

    >>> separated(Fraction(2001, 2)), separated(Fraction(10**7)), separated(Fraction(2, 3))
    ('1,000.5', '10,000,000', '2/3')
    """
    if value.denominator == 1:
        return f"{int(value):,}"
    text = readable(value)
    return f"{Decimal(text):,}" if _SHORT.fullmatch(text) else text


def in_words(number: int) -> str:
    """How many, in a sentence.

    >>> in_words(3), in_words(1200)
    ('three', '1,200')
    """
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Some ranks, in order.

    >>> ranks_in_words([3]), ranks_in_words([1, 2, 5, 6, 7, 9])
    ('rank 3', 'ranks 1, 2, 5 to 7 and 9')
    """
    runs = np.split(np.array(ranks), np.flatnonzero(np.diff(ranks) > 1) + 1)
    words = [
        text
        for run in runs
        for text in (map(str, run.tolist()) if run.size < 3 else [f"{run[0]} to {run[-1]}"])
    ]
    several = f"{', '.join(words[:-1])} and " if words[1:] else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {several}{words[-1]}"


def number(value: Fraction) -> int | float:
    """The nearest number that JSON has; a whole one where floats end."""
    try:
        return int(value) if value.denominator == 1 else float(value)
    except OverflowError:
        return round(value)
