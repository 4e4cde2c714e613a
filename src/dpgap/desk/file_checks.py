"""What values in a steward's file must be. Each check gives the value, or says what it must be."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from dpgap.exact.parameters import positive_rational, rational

Check = Callable[[Any], Any]

_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9a-fA-F:]{2,39}\](:[0-9]{1,5})?")
_TOKEN = re.compile("sha256:[0-9a-f]{64}")
_KEY = re.compile("[0-9a-f]{64}")
_DIFFERENT = 16
"""How many different bytes, and steps from byte to byte, a random key has at least."""


def _that(is_so: Callable[[Any], Any], words: str) -> Check:
    """A check that a value is what it must be, and that says so in words if it is not."""

    def check(value: Any) -> Any:
        if not is_so(value):
            raise ValueError(f"must be {words}")
        return value

    return check


def _text_like(pattern: "re.Pattern[str]", words: str) -> Check:
    return _that(lambda it: isinstance(it, str) and pattern.fullmatch(it), words)


name = _text_like(_NAME, "a short name of small letters, digits, - and _")
host = _text_like(
    _HOST, 'a name such as "desk.example.org", with a port if it is not the usual one'
)
token = _text_like(_TOKEN, 'a line that `dpgap desk --token` printed, "sha256:…"')
_key = _text_like(_KEY, "64 hexadecimal digits: `dpgap desk --key` prints such a line")
words = _that(
    lambda it: isinstance(it, str) and 0 < len(it) <= 200 and it.isprintable(),
    "1 to 200 printable characters",
)
address = _that(
    lambda it: isinstance(it, str) and it.strip() and it.isprintable(), "a path or an address"
)
counting = _that(lambda it: type(it) is int and 1 <= it < 1 << 62, "a whole number from 1 up")
yes_or_no = _that(lambda it: isinstance(it, bool), "true or false")
table = _that(lambda it: isinstance(it, Mapping), "a table")
label = _that(lambda it: isinstance(it, str | int), "texts or whole numbers")


def one_of(*known: str) -> Check:
    """One of a few words."""
    return _that(known.__contains__, f"one of {', '.join(known)}")


def key(value: Any) -> str:
    """A key that nobody can guess: whoever can signs passes of a steward."""
    digits: str = _key(value)
    found = bytes.fromhex(digits)
    steps = {(after - before) % 256 for before, after in pairwise(found)}
    if min(len(set(found)), len(steps)) < _DIFFERENT:
        raise ValueError("must be random, and this repeats itself: `dpgap desk --key` prints a key")
    return digits


def spelt(value: Any) -> str:
    """A name that is looked up later, in its one spelling (Unicode's NFC)."""
    return unicodedata.normalize("NFC", words(value))


def number(value: Any) -> Fraction:
    """Any number, exact."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError("must be a number")
    try:
        return rational("it", value)
    except (ValueError, TypeError):
        raise ValueError("must be a number") from None


def positive(value: Any) -> Fraction:
    """A number above 0, exact."""
    return positive_rational("it", number(value))


def tick(value: Any) -> Fraction:
    """Seconds between answers: short enough that whoever asks is still there."""
    if not Fraction(1, 100) <= number(value) <= 10:
        raise ValueError("must be a number of seconds from 0.01 to 10")
    return number(value)


def amount(value: Any) -> Fraction:
    """A number from 0 up, exact."""
    if number(value) < 0:
        raise ValueError("must be a number from 0 up")
    return number(value)


class Allowance(NamedTuple):
    """What a person may spend."""

    epsilon: Fraction
    delta: Fraction | None = None
    """None: as `Steward.allow` has it where no δ is given."""


def allowance(value: Any) -> Allowance | None:
    """What a person may spend: ε, or ε and δ, or "all" for whatever the budget has left."""
    if value == "all":
        return None
    if not isinstance(value, Mapping):
        return Allowance(amount(value))
    if value.keys() != {"epsilon", "delta"}:
        raise ValueError("must have an epsilon and a delta")
    return Allowance(amount(value["epsilon"]), amount(value["delta"]))


def several(check: Check) -> Check:
    """A list, each entry of which passes a check."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one entry")
        return tuple(map(check, value))

    return checked


def items(value: Any) -> Any:
    """A public domain: a list of items, or the path or address of one."""
    return several(label)(value) if isinstance(value, list) else address(value)


def shares(value: Any) -> dict[str, Allowance | None]:
    """People and what each may spend."""
    if not isinstance(value, Mapping):
        raise ValueError('must be people and what each may spend, such as { ann = 2, bob = "all" }')
    try:
        found = {spelt(person): allowance(share) for person, share in value.items()}
    except ValueError:
        raise ValueError(
            'must give each person a number from 0 up, { epsilon = 2, delta = "1e-7" } or "all"'
        ) from None
    if len(found) < len(value):
        raise ValueError(
            "must name each person once: two names differ only in how they are encoded"
        )
    return found
