"""Questions as clients send them, and forecasts of their errors before anything is spent.

A forecast is for the ε of the question, and for smaller and larger ε. It depends only on public
facts: the question, the steward's file and the remaining budget.

>>> FilledForm.read({"topic": "products", "k": "3", "epsilon": "1/2"}).wanted.epsilon
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

from dpgap.budget.account import NOTHING, Account, Amount
from dpgap.data.private_counts import PrivateCounts, errors_without_answers
from dpgap.exact.parameters import approximately, rational, with_point, without_power
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.pipelines.plan import Expected, Plan, plan
from dpgap.pipelines.routes import Expectation, HistogramRoute, HybridRoute
from dpgap.pipelines.tables import answer, pipeline_of
from dpgap.question import (
    HISTOGRAM,
    KINDS,
    Question,
    one_of,
    read_wanted,
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

    def said(self) -> dict[str, str]:
        """The fields as a form sends them."""
        said = {name: str(value) for name, value in self.model_dump().items()}
        return said | {"fresh": "yes" if self.fresh else ""}


DEFAULTS = PlanBody.model_validate({"topic": ""}).said()
"""The fields of a form and their defaults."""


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A client's question: a topic that was counted, and the wanted answer."""

    said: Mapping[str, str]
    """The fields of its form."""
    wanted: Question
    fresh: bool

    @classmethod
    def read(cls, said: Mapping[str, str], decimal: str | None = None) -> "FilledForm":
        """The form with these fields, if all are valid; missing fields get their defaults.

        `decimal` is the decimal mark of the table: with a comma, 1.500 may mean 1500.
        """
        text = {name: said.get(name, default) for name, default in DEFAULTS.items()}
        if decimal == ",":
            refuse_thousands({"threshold": text["threshold"]})
            text |= {name: _without_comma(text[name]) for name in ("threshold", "epsilon", "delta")}
        kind, k, sizes = one_of("kind", text["kind"], KINDS), text["k"], text["sizes"].strip()
        if not (k.isascii() and k.isdigit() and len(k) <= 4 and 1 <= int(k) <= _MOST):
            raise ValueError(f"k must be a whole number from 1 to {_MOST}")
        text["delta"] = text["delta"] or "0"
        exact = {name: number_in(text, name) for name in ("threshold", "epsilon", "delta")}
        if not 0 < exact["epsilon"] <= _MOST:
            raise ValueError(f"epsilon must be more than 0, and at most {_MOST}")
        fresh = one_of("fresh", text["fresh"], ("", "yes"))
        if sizes and not _SIZES.fullmatch(sizes):
            raise ValueError("sizes must be ranks and counts such as 1:9000, 10:2000")
        stated: dict[str, Any] = {"epsilon": exact["epsilon"]}
        if kind in ("top-k", "above"):
            stated |= {"k": int(k), "delta": exact["delta"], "method": text["method"]}
        if kind == "above":
            stated["threshold"] = exact["threshold"]
        wanted = read_wanted(kind, stated)
        texts = {name: text_of(value) for name, value in exact.items()}
        plain = {"k": str(int(k)), "sizes": sizes}
        return cls({**text, **texts, **plain}, wanted, fresh == "yes")


@errors_without_answers
def ask(form: FilledForm, answers: Any, account: Account) -> Any:
    """Ask these counts and charge the account; a release, or an error that says why not."""
    return answer(form.wanted, answers, account, form.fresh)


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
    return text if not point or " or " in point else point


def number_in(said: Mapping[str, str], name: str) -> Fraction:
    """The exact number in a field; an error if there is none."""
    text = without_power(said.get(name, "").strip())
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


class Prospect(NamedTuple):
    """The expected errors for one ε; `Expectation` explains the three numbers after it."""

    epsilon: Fraction
    error: float
    close_error: float | None
    half_width: float
    left: Fraction
    """The ε that is left after the question; 0 if it cannot be paid."""
    is_covered: bool
    """Whether the question can be paid, with its δ."""
    is_asked: bool


class Prospects(NamedTuple):
    """The expected errors for some ε, the smallest first, and sentences about certificates."""

    rows: tuple[Prospect, ...]
    words: tuple[str, ...]


def prospects(form: FilledForm, facts: PrivateCounts, left: Amount, least: Fraction) -> Prospects:
    """The expected errors of this question for its ε, and for other ε from the least allowed.

    While a person moves the slider, the same numbers are needed again and again, so they are
    cached.
    """
    rows = []
    asked = form.wanted.about(facts.origin or Question())
    for share in (each for each in _STEPS if each * asked.epsilon >= least):
        cost = Amount(share * asked.epsilon, asked.delta)
        found = _expectation(replace(asked, epsilon=cost.epsilon), facts)
        rest = max(NOTHING.epsilon, left.epsilon - cost.epsilon)
        rows.append(Prospect(cost.epsilon, *found[:3], rest, cost.fits(left), share == 1))
    noise = _expectation(asked, facts).selection_noise
    words = _words(asked, form.said["sizes"], facts, noise)
    return Prospects(tuple(rows), (*weak_promises(asked.epsilon, asked.delta), *words))


@lru_cache(maxsize=4096)  # all of it is public
def _expectation(asked: Question, facts: PrivateCounts) -> Expectation:
    """The expected errors, in the units of the table. After a histogram, leads do not matter."""
    is_planned = asked.kind == "top-k" and asked.method != HISTOGRAM
    pipeline = None
    if not asked.is_of_all and (facts.unknown or facts.reach is not None or not is_planned):
        pipeline = pipeline_of(asked, facts)
    found: Expectation | Expected
    if asked.is_of_all:
        noise = NoisyHistogram(asked.epsilon, sensitivity=facts.sensitivity).error()
        found = Expectation.of(noise.variance, noise.variance, noise.half_width(0.95), 0)
    elif isinstance(pipeline, HistogramRoute | HybridRoute):
        found = pipeline.expectation()._replace(selection_noise=0)
    else:
        found = _plan(asked, facts).rows[0]
    step = float(facts.step)
    close = None if found.close_error is None else step * found.close_error
    error, half_width = step * found.error, step * found.half_width
    return Expectation(error, close, half_width, step * found.selection_noise)


def _plan(asked: Question, facts: PrivateCounts, **sizes: Any) -> Plan:
    return plan(
        k=asked.k or 1,
        epsilon=asked.epsilon_of_a_group,
        method=asked.method,
        select=asked.kind,
        adaptive=asked.adaptive,
        monotonic=facts.monotonic,
        sensitivity=facts.sensitivity,
        **sizes,
    )


def _words(asked: Question, stated: str, facts: PrivateCounts, noise: float) -> list[str]:
    """Sentences: the lead that gives a certificate, and the precision with the stated sizes."""
    has_loser = facts.unknown or (asked.k or 1) < len(facts)
    if asked.kind != "top-k" or not (noise and has_loser):
        return []
    lead = about(float(f"{noise * math.log(1 / _LEVEL):.2g}"))
    certified = f"Winners that lead the best loser by about {lead} or more get a certificate"
    found = [f"{certified} (p ≤ {_LEVEL})."]
    if stated:
        pairs = (each.split(":") for each in stated.split(","))
        sizes = {int(rank): float(size) / float(facts.step) for rank, size in pairs}
        items = max((asked.k or 1) + 1, *sizes) if facts.unknown else len(facts)
        right = _plan(asked, facts, counts=sizes, items=items).rows[0].precision
        if right is not None:
            found.append(f"With such counts {100 * right:.1f} % of the winners would be right.")
    return found
