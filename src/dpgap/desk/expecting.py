"""What a question will tell, before anything is spent: errors for this ε, for less and for more.

All of it follows from public facts: the question, the steward's file and what is left.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import dpgap
from dpgap.budget.account import NOTHING, Amount
from dpgap.data.private_counts import PrivateCounts
from dpgap.desk.asking import DeskQuestion
from dpgap.exact.parameters import approximately
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.pipelines.routes import Routed
from dpgap.releases.plain import HISTOGRAM

_STEPS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_LEVEL = 0.05


def about(value: float) -> str:
    """A number of three digits or so, without an exponent where it can be read.

    >>> about(1603.2), about(0.12345), about(25.31)
    ('1,603', '0.123', '25.3')
    """
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return approximately(Fraction(value), 3)


class Prospect(NamedTuple):
    """What to expect for one ε."""

    epsilon: Fraction
    error: float
    """The standard error of each estimate, winners being clear."""
    close_error: float | None
    """The same in a close race; None where it may be anything."""
    half_width: float
    """Half the width of a 95 % interval, winners being clear."""
    left: Fraction
    """The ε that is left after it; 0 where it cannot be paid."""
    is_covered: bool
    """Whether it can be paid, its δ too."""
    is_asked: bool


class Prospects(NamedTuple):
    """What to expect for some ε, the smallest first, and words about what may be certified."""

    rows: tuple[Prospect, ...]
    words: tuple[str, ...]

    @property
    def asked(self) -> Prospect:
        """The row of the question as it was put."""
        return next(row for row in self.rows if row.is_asked)

    @property
    def widest(self) -> float:
        """The half width that fills the picture, which has one where all intervals are points."""
        return max(row.half_width for row in self.rows) or 1.0


def prospects(
    question: DeskQuestion, facts: PrivateCounts, left: Amount, least: Fraction
) -> Prospects:
    """What this question will tell for its ε, and for others from the least that may be asked.

    While somebody moves ε, the same numbers are asked for again and again, so they are cached.
    """
    rows = []
    plain = replace(question, fresh=False, sizes="")  # neither changes an error
    for share in (each for each in _STEPS if each * question.epsilon >= least):
        cost = Amount(share * question.epsilon, question.delta)
        found = _errors(replace(plain, epsilon=cost.epsilon), facts)
        rest = max(NOTHING.epsilon, left.epsilon - cost.epsilon)
        rows.append(Prospect(cost.epsilon, *found[:3], rest, cost.fits(left), share == 1))
    return Prospects(tuple(rows), tuple(_words(question, facts, _errors(plain, facts))))


class _Errors(NamedTuple):
    error: float
    close_error: float | None
    half_width: float
    selection_noise: float = 0.0


@lru_cache(maxsize=4096)  # all of it is public
def _errors(question: DeskQuestion, facts: PrivateCounts) -> _Errors:
    step, epsilon = float(facts.step), question.epsilon
    if question.kind == "count":
        noise = NoisyHistogram(epsilon, sensitivity=facts.sensitivity).error()
        error = math.sqrt(noise.variance)
        return _Errors(error, error, noise.half_width(0.95))
    asked = question.asked(epsilon)
    is_planned = question.kind == "top-k" and question.method != HISTOGRAM
    if facts.unknown or facts.reach is not None or not is_planned:
        pipeline = asked.pipeline(facts, _parts(facts))
        if isinstance(pipeline, Routed):
            found = pipeline.route.expectation()
            error = step * math.sqrt(found.variance)
            return _Errors(error, error, step * found.half_width)
    row = _plan(question, facts, epsilon / _parts(facts)).rows[0]
    close = None if row.close_error is None else step * row.close_error
    return _Errors(step * row.error, close, step * row.half_width, step * row.selection_noise)


def _plan(
    question: DeskQuestion, facts: PrivateCounts, epsilon: Fraction, **sizes: Any
) -> dpgap.Plan:
    is_above = question.kind == "above"
    return dpgap.plan(
        k=question.k,
        epsilon=epsilon,
        method=question.method,
        select="above" if is_above else "top-k",
        adaptive=is_above,
        monotonic=facts.monotonic,
        sensitivity=facts.sensitivity,
        **sizes,
    )


def _parts(facts: PrivateCounts) -> int:
    """In how many groups a unit counts at most."""
    return 1 if facts.origin is None else facts.origin.max_groups


def _words(question: DeskQuestion, facts: PrivateCounts, errors: _Errors) -> list[str]:
    noise = errors.selection_noise
    if question.kind != "top-k" or not noise:
        return []
    lead = about(float(f"{noise * math.log(1 / _LEVEL):.2g}"))
    certified = f"Winners that lead the best loser by about {lead} or more get a certificate"
    found = [f"{certified} (p ≤ {_LEVEL})."]
    if question.sizes:
        pairs = (each.split(":") for each in question.sizes.split(","))
        sizes = {int(rank): float(size) / float(facts.step) for rank, size in pairs}
        items = max(question.k + 1, *sizes) if facts.unknown else len(facts)
        whole = question.epsilon / _parts(facts)
        found.append(str(_plan(question, facts, whole, counts=sizes, items=items).outlook))
    return found
