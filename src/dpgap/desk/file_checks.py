"""What values in a steward's file must be. Each check gives the value, or says what it must be."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpgap.budget.requests import require_words
from dpgap.exact.parameters import positive_rational, rational

Check = Callable[[Any], Any]

_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9a-fA-F:]{2,39}\](:[0-9]{1,5})?")
_TOKEN = re.compile("sha256:[0-9a-f]{64}")
_KEY = re.compile("[0-9a-f]{64}")


def _text_like(pattern: "re.Pattern[str]", words: str) -> Check:
    def check(value: Any) -> str:
        if not (isinstance(value, str) and pattern.fullmatch(value)):
            raise ValueError(f"must be {words}")
        return value

    return check


name = _text_like(_NAME, "a short name of small letters, digits, - and _")
host = _text_like(
    _HOST, 'a name such as "desk.example.org", with a port if it is not the usual one'
)
token = _text_like(_TOKEN, 'a line that `dpgap desk --token` printed, "sha256:…"')
key = _text_like(_KEY, "64 hexadecimal digits, the same for all desks of one ledger")


def words(value: Any) -> str:
    """A text that people read, or the name of a column."""
    try:
        return require_words("it", value)
    except ValueError:
        raise ValueError("must be 1 to 200 printable characters") from None


def address(value: Any) -> str:
    """A path or an address."""
    if not (isinstance(value, str) and value.strip() and value.isprintable()):
        raise ValueError("must be a path or an address")
    return value


def positive(value: Any) -> Fraction:
    """A number above 0, exact."""
    return positive_rational("it", _number(value))


def amount(value: Any) -> Fraction:
    """A number from 0 up, exact."""
    found = rational("it", _number(value))
    if found < 0:
        raise ValueError("must be a number from 0 up")
    return found


def number(value: Any) -> Fraction:
    """Any number, exact."""
    return rational("it", _number(value))


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError("must be a number")
    try:
        rational("it", value)
    except (ValueError, TypeError):
        raise ValueError("must be a number") from None
    return value


def allowance(value: Any) -> Fraction | None:
    """What a person may spend: a number, or "all" for whatever the budget has left."""
    return None if value == "all" else amount(value)


def counting(value: Any) -> int:
    """A whole number from 1 up."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number from 1 up")
    return value


def yes_or_no(value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def one_of(*known: str) -> Check:
    """One of a few words."""

    def check(value: Any) -> str:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return str(value)

    return check


def several(check: Check) -> Check:
    """A list, each entry of which passes a check."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one entry")
        return tuple(map(check, value))

    return checked


def label(value: Any) -> Any:
    """An item or a group: a text, a whole number, true or false."""
    if not isinstance(value, str | int | bool):
        raise ValueError("must hold texts or whole numbers")
    return value


def items(value: Any) -> Any:
    """A public domain: a list of items, or the path or address of one."""
    return several(label)(value) if isinstance(value, list) else address(value)


def shares(value: Any) -> dict[str, Fraction | None]:
    """People and what each may spend."""
    if not isinstance(value, Mapping):
        raise ValueError('must be people and what each may spend, such as { ann = 2, bob = "all" }')
    try:
        return {words(person): allowance(share) for person, share in value.items()}
    except ValueError:
        raise ValueError('must give each person a number from 0 up, or "all"') from None
