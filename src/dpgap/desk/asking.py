"""What a client asks: a topic and a few numbers, checked, and never a word that reaches an engine.

>>> DeskQuestion.read({"topic": "products", "k": "3", "epsilon": "1/2"}).epsilon
Fraction(1, 2)
>>> DeskQuestion.read({"topic": "products", "k": "3; drop table"})
Traceback (most recent call last):
ValueError: k must be a whole number from 1 to 1000
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from dpgap.budget.account import Account, Request
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.parameters import without_power
from dpgap.pipelines.arrays import ABOVE_METHODS
from dpgap.pipelines.tables import Asked, answer, counted
from dpgap.releases.plain import HISTOGRAM, METHODS

KINDS = ("top-k", "above", "count")

_MOST = 1000
_LONGEST = 40
"""How many digits numerators and denominators have at most."""
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,40})?(e-[0-9]{1,2})?|[0-9]{1,40}/[0-9]{1,40}")
_SIZES = re.compile(r"[0-9]{1,6}:[0-9]{1,12}(, ?[0-9]{1,6}:[0-9]{1,12}){0,49}")


@dataclass(frozen=True, slots=True)
class DeskQuestion:
    """One question, as a client put it."""

    topic: str
    kind: str = "top-k"
    k: int = 10
    threshold: Fraction = Fraction(100)
    epsilon: Fraction = Fraction(1, 2)
    delta: Fraction = Fraction(0)
    method: str = "best"
    fresh: bool = False
    sizes: str = ""
    """Counts that one expects, by rank; only a plan uses them."""

    @classmethod
    def read(cls, said: Mapping[str, str]) -> "DeskQuestion":
        """What was said, if all of it is what it must be; the rest has its defaults."""
        kind = _one_of("kind", said.get("kind", "top-k"), KINDS)
        methods = (*(ABOVE_METHODS if kind == "above" else METHODS), HISTOGRAM)
        return cls(
            topic=said.get("topic", ""),
            kind=kind,
            k=_whole("k", said.get("k", "10")),
            threshold=_number("threshold", said.get("threshold", "100")),
            epsilon=_number("epsilon", said.get("epsilon", "0.5"), positive=True),
            delta=_number("delta", said.get("delta") or "0"),
            method=_one_of("method", said.get("method", "best"), methods),
            fresh=_one_of("fresh", said.get("fresh", ""), ("", "yes")) == "yes",
            sizes=_sizes(said.get("sizes", "")),
        )

    def fields(self) -> dict[str, str]:
        """The same as a form sends it."""
        plain = {name: str(getattr(self, name)) for name in ("topic", "kind", "k", "method")}
        exact = {name: text_of(getattr(self, name)) for name in ("threshold", "epsilon", "delta")}
        return plain | exact | {"fresh": "yes" if self.fresh else "", "sizes": self.sizes}

    def asked(self, epsilon: Fraction) -> Asked:
        """The question for an ε, as pipelines take it."""
        if self.kind == "count":
            return Asked.count(epsilon)
        if self.kind == "top-k":
            return Asked.top_k(self.k, epsilon, self.delta, self.method, None)
        line, method = self.threshold, self.method
        return Asked.above(line, self.k, epsilon, self.delta, method, None, True)


@errors_without_answers
def ask(question: DeskQuestion, answers: Any, account: Account) -> Any:
    """Ask these counts and charge the account; a release, or an error that says why not."""
    pay: Any = counted if question.kind == "count" else answer
    return pay(question.asked(question.epsilon), answers, account, question.fresh)


class _Asks(Exception):  # noqa: N818 - it says what happened
    def __init__(self, identity: str | None) -> None:
        super().__init__()
        self.identity = identity


class _Curious:
    """An account that is told what is asked, and pays for nothing."""

    def reserve_for(self, request: Request) -> NoReturn:
        raise _Asks(request.identity)

    reserve: Any = staticmethod(lambda *_: None)
    paid = answered = reserve


def identity_of(question: DeskQuestion, empty: Any) -> str | None:
    """The hash of a question about counts, of which the public facts are given; a charge has it."""
    try:
        ask(replace(question, fresh=True), empty, _Curious())
    except _Asks as asks:
        return asks.identity
    return None


def text_of(value: Fraction) -> str:
    """A number as a form shows it: as a decimal where that is exact and short.

    `number_in` reads it. What has too many digits to be read is rounded down.

    >>> text_of(Fraction(1, 2)), text_of(Fraction(1, 3)), text_of(Fraction(1, 10**9))
    ('0.5', '1/3', '0.000000001')
    >>> text_of(Fraction(1, 10**13)), text_of(Fraction(1, 3**90))
    ('1e-13', '0')
    """
    if _is_long(value):
        value = Fraction(math.floor(value * 10**24), 10**24)
    for decimal in (f"{float(value):.12f}".rstrip("0").rstrip("."), f"{float(value):.12g}"):
        if Fraction(decimal) == value:
            return decimal
    return str(value)


def _is_long(value: Fraction) -> bool:
    return bool(max(value.numerator, value.denominator) >= 10**_LONGEST)


def number_in(said: Mapping[str, str], name: str) -> Fraction:
    """A number that must be there, exact."""
    return _number(name, said.get(name, ""))


def _number(name: str, text: str, *, positive: bool = False) -> Fraction:
    words = f"{name} must be a number such as 0.5, 2/3 or 1e-9, of at most {_LONGEST} digits"
    text = without_power(text.strip())
    if not _NUMBER.fullmatch(text):
        raise ValueError(words)
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        raise ValueError(words) from None
    if _is_long(value):
        raise ValueError(words)
    if positive and not 0 < value <= _MOST:
        raise ValueError(f"{name} must be more than 0, and at most {_MOST}")
    return value


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= _MOST):
        raise ValueError(f"{name} must be a whole number from 1 to {_MOST}")
    return int(text)


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        words = ", ".join(each for each in known if each)
        raise ValueError(f"{name} must be one of: {words}")
    return text


def _sizes(text: str) -> str:
    stripped = text.strip()
    if stripped and not _SIZES.fullmatch(stripped):
        raise ValueError("sizes must be ranks and counts such as 1:9000, 10:2000")
    return stripped
