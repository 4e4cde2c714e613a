"""Questions as clients send them, and their expected errors before anything is spent.

Offers are for the ε of the question, and for smaller and larger ε. They depend only on public
facts: the question, the steward's file and the remaining budget.

>>> FilledForm.read({"topic": "products", "k": "3", "epsilon": "1/2"}).question.epsilon
Fraction(1, 2)
>>> FilledForm.read({"topic": "products", "k": "3; drop table"})
Traceback (most recent call last):
ValueError: k must be a whole number from 1 to 1000
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from dpgap.budget.account import Account
from dpgap.budget.cost import Cost, Limit
from dpgap.data.private_counts import PrivateCounts, errors_without_answers
from dpgap.exact.parameters import approximately, rational, readable, with_point, without_power
from dpgap.pipelines.choose import PublicFacts, choose
from dpgap.pipelines.plan import expected_for_sizes
from dpgap.pipelines.routes import ExpectedErrors
from dpgap.pipelines.tables import answer
from dpgap.question import (
    HISTOGRAM,
    KINDS,
    Question,
    one_of,
    read_question,
    refuse_thousands,
    weak_promises,
)

# --------------------------------------------------------------------------------------------------
# A client's question: a topic and a few checked numbers. No text of a client reaches an engine.


_MOST = 1000
_LONGEST = 40
"""The most digits of numerators and denominators."""
_LENGTH = 90
_SIZES = re.compile(r"[0-9]{1,6}:[0-9]{1,12}(, ?[0-9]{1,6}:[0-9]{1,12}){0,49}")


Number = StrictInt | StrictFloat | str


class PlanBody(BaseModel):
    """A question. Numbers may be texts such as "1/3", which are exact."""

    model_config = ConfigDict(extra="forbid")

    topic: str = Field(max_length=64, description="One that the data set lists.")
    kind: str = Field("top-k", max_length=16, description='"top-k", "above", "count" or "total".')
    k: int = Field(10, description="How many items to find.")
    threshold: Number = Field(100, description="For above: what items must reach.")
    epsilon: Number = Field("0.5", description="What it may cost.")
    delta: Number = Field(0, description="Where items are not stated.")
    method: str = Field("best", max_length=16)
    sizes: str = Field("", max_length=300, description="For a plan: counts to expect, by rank.")
    fresh: bool = Field(False, description="Pay for fresh noise even if it was asked before.")

    def form_fields(self) -> dict[str, str]:
        """The fields as a form sends them."""
        fields = {name: str(value) for name, value in self.model_dump().items()}
        fields["fresh"] = ""
        if self.fresh:
            fields["fresh"] = "yes"
        return fields


DEFAULTS = PlanBody.model_validate({"topic": ""}).form_fields()
"""The fields of a form and their defaults."""


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A client's question: a topic that was counted, and the wanted answer."""

    fields: Mapping[str, str]
    """The fields of its form."""
    question: Question
    fresh: bool

    @classmethod
    def read(cls, fields: Mapping[str, str], decimal: str | None = None) -> "FilledForm":
        """The form with these fields, if all are valid; missing fields get their defaults.

        `decimal` is the decimal mark of the table: with a comma, 1.500 may mean 1500.
        """
        text = {name: fields.get(name, default) for name, default in DEFAULTS.items()}
        if decimal == ",":
            refuse_thousands("threshold", text["threshold"])
            text |= {name: _without_comma(text[name]) for name in ("threshold", "epsilon", "delta")}
        kind = one_of("kind", text["kind"], KINDS)
        k = text["k"]
        sizes = text["sizes"].strip()
        if not (k.isascii() and k.isdigit() and len(k) <= 4 and 1 <= int(k) <= _MOST):
            raise ValueError(f"k must be a whole number from 1 to {_MOST}")
        text["delta"] = text["delta"] or "0"
        exact = {name: number_in(text, name) for name in ("threshold", "epsilon", "delta")}
        if not 0 < exact["epsilon"] <= _MOST:
            raise ValueError(f"epsilon must be more than 0, and at most {_MOST}")
        fresh = one_of("fresh", text["fresh"], ("", "yes"))
        if sizes and not _SIZES.fullmatch(sizes):
            raise ValueError("sizes must be ranks and counts such as 1:9000, 10:2000")
        question = read_question(
            kind,
            epsilon=exact["epsilon"],
            k=int(k),
            threshold=exact["threshold"],
            delta=exact["delta"],
            method=text["method"],
        )
        for name, value in exact.items():
            text[name] = text_of(value)
        text["k"] = str(int(k))
        text["sizes"] = sizes
        return cls(text, question, fresh == "yes")


@errors_without_answers
def ask(form: FilledForm, answers: Any, account: Account) -> Any:
    """Ask these counts and charge the account; a release, or an error that says why not."""
    return answer(form.question, answers, account, form.fresh)


def text_of(value: Fraction) -> str:
    """A number as a form shows it: a decimal if that is exact and short, else a fraction.

    `number_in` reads it. A number with too many digits is rounded down.

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


def _without_comma(text: str) -> str:
    """A number with a decimal comma, with a point; 1,000 stays, because it may mean a thousand."""
    point = with_point(text.strip())
    if not point or " or " in point:
        return text
    return point


def number_in(fields: Mapping[str, str], name: str) -> Fraction:
    """The exact number in a field; an error if there is none."""
    text = without_power(fields.get(name, "").strip())
    if len(text) > _LENGTH or (value := rational(name, text)) < 0 or _is_long(value):
        raise ValueError(f"{name} must be a number from 0 up, of at most {_LONGEST} digits")
    return value


# --------------------------------------------------------------------------------------------------


_STEPS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_LEVEL = 0.05


def about(value: float) -> str:
    """A number of about three digits, without an exponent if it is readable so.

    >>> about(1603.2), about(0.12345), about(25.31)
    ('1,603', '0.123', '25.3')
    """
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return approximately(Fraction(value), 3)


class Offer(NamedTuple):
    """The expected errors of a question for one ε, and what it would leave."""

    expected: ExpectedErrors
    left: Fraction
    """The ε that is left after the question; 0 if it cannot be paid."""
    is_covered: bool
    """Whether the question can be paid, with its δ."""
    is_asked: bool


class Offers(NamedTuple):
    """Offers for some ε, the smallest first, and sentences about certificates."""

    rows: tuple[Offer, ...]
    words: tuple[str, ...]


def offers(form: FilledForm, facts: PrivateCounts, budget: Limit, minimum: Fraction) -> Offers:
    """The expected errors of this question for its ε, and for other ε from the least allowed.

    While a person moves the slider, the same numbers are needed again and again, so they are
    cached.
    """
    rows = []
    question = form.question.about(facts.origin or Question())
    public = PublicFacts.of(facts)
    for share in _STEPS:
        epsilon = Cost.pure(question.epsilon).epsilon_times(share)
        cost = Cost.pure(epsilon, question.delta)
        if not Cost.pure(minimum).fits(cost):
            continue
        rows.append(
            Offer(
                expected=_expected(replace(question, epsilon=epsilon), public),
                left=budget.left(cost).amount,
                is_covered=budget.covers(cost),
                is_asked=share == 1,
            )
        )
    sentences = [*weak_promises(question.epsilon, question.delta)]
    sentences += _sentences(question, public, form.fields["sizes"])
    return Offers(tuple(rows), tuple(sentences))


@lru_cache(maxsize=4096)  # all of it is public
def _expected(question: Question, facts: PublicFacts) -> ExpectedErrors:
    return choose(question, facts).expected


def _sentences(question: Question, facts: PublicFacts, sizes: str) -> list[str]:
    """The threshold of unknown items, or which lead gives a certificate.

    With stated sizes also the precision.
    """
    expected = _expected(question, facts)
    if expected.threshold is not None:
        return [f"Items are shown if their noisy value reaches {readable(expected.threshold)}."]
    if question.kind != "top-k" or expected.route == HISTOGRAM or question.k == facts.items:
        return []  # no lead gives a certificate, or nobody loses
    lead = about(float(f"{expected.selection_noise * math.log(1 / _LEVEL):.2g}"))
    certified = f"Winners that lead the best loser by about {lead} or more get a certificate"
    sentences = [f"{certified} (p ≤ {_LEVEL})."]
    if sizes:
        size_of_rank = {}
        for pair in sizes.split(","):
            rank, size = pair.split(":")
            size_of_rank[int(rank)] = float(size)
        precision = expected_for_sizes(choose(question, facts), size_of_rank).precision
        if precision is not None:
            percent = f"{100 * precision:.1f} %"
            sentences.append(f"With such counts {percent} of the winners would be right.")
    return sentences
