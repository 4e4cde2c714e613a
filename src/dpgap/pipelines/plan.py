"""Plans, before anything is spent: the error of each method, or the ε for a wanted error.

Errors depend on k, ε, the sensitivity and the noise, never on the data, with one exception: gaps
improve a ranking only if winners are clear. So there are two errors: for clear winners (least
squares; in practice a few per cent better) and for a *close race* (only the measurement; never
worse). The best method chooses its winners as a set if they are clear, and ranks them if they are
not. The paper's method has no bound: in a close race its error may be larger than without gaps, so
none is given.

Only the data decide whether winners are clear. A user who expects certain sizes can state them, and
learns how many winners would be right.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpgap._package import public
from dpgap.exact.grid import MAX_STEPS
from dpgap.exact.parameters import (
    Rational,
    boolean,
    positive_integer,
    positive_rational,
    power_of_two,
    readable,
    readable_up,
    share,
)
from dpgap.exact.reals import Floats, TooNarrowError, TooWideError
from dpgap.pipelines.arrays import MeasuredTopK
from dpgap.pipelines.choose import Choice, PublicFacts, choose
from dpgap.pipelines.look_first import ExpectedPrecision, LookFirst, expected_precision
from dpgap.pipelines.routes import ExpectedErrors
from dpgap.question import ABOVE_METHODS, HISTOGRAM, METHODS, Question, chance, one_of
from dpgap.releases.release import Table

# --------------------------------------------------------------------------------------------------
# For answers of stated sizes: the route to expect, and how many winners would be right.
#
# The sizes are public: expectations, or an older release. The rule is that of a release; here the
# look shows exactly the stated sizes.


Sizes = Sequence[float] | Mapping[int, float]
"""The largest answers in order, or answers by rank, from 1."""

_NUMBERS = 900 * 40
"""The number of ε to choose from: those of three digits from 10^-9 to 10^31."""


def expected_for_sizes(choice: Choice, counts: Sizes) -> ExpectedErrors:
    """The expected errors for answers of these sizes, with the share of right winners.

    There is no `precision` for the paper's method, for a histogram, or above a threshold.
    """
    pipeline = choice.pipeline
    items = choice.facts.items or 0
    ranks, sizes = _by_rank(counts, items)
    if not isinstance(pipeline, MeasuredTopK) or pipeline.method == "paper":
        return choice.expected
    if items == pipeline.k:
        return replace(choice.expected, precision=1.0)
    precision = expected_precision(pipeline.k, items, ranks)
    steps = sizes[None] / float(choice.facts.step)
    if pipeline.looking is None:
        expected = choice.expected
        route = pipeline.route
    else:
        numbers = _likely_routes(pipeline.looking, items, precision, steps)
        expected = choice.in_units(pipeline.looking.expected_errors(numbers))
        route = pipeline.looking.route(numbers[0])
    moves = 1 if pipeline.monotonic else 2
    units = steps / (float(pipeline.sensitivity) * moves)
    rate = float(route.selection.epsilon)
    as_set, ranked = precision.precisions(units, np.array([rate]), rate / pipeline.k)
    if route.name == "joint":
        return replace(expected, precision=float(as_set[0, 0]))
    return replace(expected, precision=float(ranked[0]))


def _likely_routes(
    looking: LookFirst, items: int, precision: ExpectedPrecision, steps: Floats
) -> list[int]:
    """The number of the route for a look without noise; then those for looks with noise."""
    rule = looking.rule(items)
    look = precision.counts_at(steps, rule.ranks)
    numbers: list[int] = rule.decide(np.concatenate([look, look + rule.places])).tolist()
    return numbers


def _by_rank(counts: Sizes, n: int) -> tuple[tuple[int, ...], Floats]:
    """Check the sizes, and return ranks and sizes."""
    if isinstance(counts, str) or not hasattr(counts, "__len__"):
        raise TypeError("counts must be a sequence of numbers, or numbers by rank")
    if not isinstance(counts, Mapping):
        counts = dict(enumerate(counts, start=1))
    pairs = sorted((positive_integer("a rank in counts", rank), counts[rank]) for rank in counts)
    sizes = np.array([size for _, size in pairs], dtype=np.float64)
    if not sizes.size or not (np.isfinite(sizes).all() and (sizes >= 0).all()):
        raise ValueError("counts must be numbers from 0 up, at least one")
    if (np.diff(sizes) > 0).any():
        raise ValueError("counts must not grow with the rank: the largest has rank 1")
    if pairs[-1][0] > n:
        raise ValueError(f"counts must have ranks up to items, {n}, not {pairs[-1][0]}")
    return tuple(rank for rank, _ in pairs), sizes


def _smallest_epsilon(expected: Callable[[Fraction], ExpectedErrors], error: Fraction) -> Fraction:
    """The smallest ε of three digits whose error is not above this one. Errors fall as ε grows."""

    def is_enough(index: int) -> bool:
        try:
            return expected(_three_digits(index)).error <= error
        except (TooWideError, TooNarrowError) as out_of_range:
            return isinstance(out_of_range, TooNarrowError)  # so this ε is too large to be tried

    index = bisect_left(range(_NUMBERS), True, key=is_enough)
    if index == 0:
        raise ValueError("error must be smaller: ε = 10^-9 already has a smaller error")
    epsilon = _three_digits(index)
    with suppress(TooNarrowError):
        expected(epsilon)
        return epsilon
    raise ValueError("error must be larger: no ε reaches it on this grid")


def _three_digits(index: int) -> Fraction:
    """The number at this index among those of three digits: 10^-9 is first, 10^-8 the 901st."""
    power, digits = divmod(index, 900)
    return (100 + digits) * Fraction(10) ** (power - 11)


# --------------------------------------------------------------------------------------------------


BASELINE = "baseline"
"""Measuring with Laplace noise and half of ε while ignoring gaps."""


_IN_BOTH_CASES = "if winners are clear, and in a close race"


@public
@dataclass(frozen=True, slots=True, eq=False)
class Plan(Table):
    """One row for each method, the default first; `to_frame()` returns a data frame.

    Parameters
    ----------
    rows
        The expected errors of each method.
    k, split, monotonic, select
        The arguments of `dpgap.plan`.
    max_items
        The most items that a unit counts for, if that is bounded.
    delta
        The chance that an item of only one unit is shown; 0 if items are stated.

    >>> expected = plan(k=10, epsilon=1, method="best")
    >>> expected.error == expected["best"].error
    True
    """

    rows: tuple[ExpectedErrors, ...]
    k: int
    split: Fraction | None
    monotonic: bool
    select: str
    max_items: int | None = None
    delta: Fraction = Fraction(0)

    def __getitem__(self, method: str) -> ExpectedErrors:
        """The row of a method."""
        return {row.method: row for row in self.rows}[method]

    @property
    def epsilon(self) -> Fraction:
        """The ε of the first row."""
        return self.rows[0].epsilon

    @property
    def error(self) -> float:
        """The expected error of the first row."""
        return self.rows[0].error

    @property
    def guarantee(self) -> str:
        """What the rows mean, in plain words."""
        kind = "answers of any kind"
        if self.monotonic:
            kind = "counts that all move in the same direction"
        split = ""
        if self.split is not None:
            split = f", {readable(self.split)} of ε for selecting"
        sentences = [
            f"For k = {self.k}, {kind}{split} ({self.select}).",
            f"Errors are standard errors of each estimate: {_IN_BOTH_CASES}.",
            "95% ± is the widest interval in both cases.",
            "If no error is shown for a close race, 95% ± is for clear winners only.",
        ]
        if self.select == "above":
            sentences.append("If more than k are found, errors and 95% ± grow.")
        if self.max_items is not None:
            items = "1 item" if self.max_items == 1 else f"{self.max_items} items"
            sentences.append(
                f"A unit counts for at most {items}. If units have more, counts are too low, and "
                "these errors do not include that."
            )
        if self.delta:
            sentences.append(
                "Items are unknown: only those whose noisy count reaches the threshold are shown, "
                f"so that an item of only one unit is shown with a chance of at most "
                f"{readable_up(self.delta)}."
            )
        return " ".join((*sentences, "Nothing has been spent."))

    def to_dict(self) -> dict[str, Any]:
        """All fields as a dictionary that JSON can hold; exact numbers are text such as "7/10"."""
        return self._to_dict()

    def _columns(self) -> dict[str, Sequence[Any]]:
        columns: dict[str, Sequence[Any]] = {
            "method": [row.method for row in self.rows],
            "ε": [readable(row.epsilon) for row in self.rows],
            "error": [row.error for row in self.rows],
            "close race": [row.close_error for row in self.rows],
            "95% ±": [row.half_width for row in self.rows],
            "selection noise": [row.selection_noise for row in self.rows],
        }
        if self.delta:
            thresholds = [row.threshold or Fraction(0) for row in self.rows]
            columns["threshold"] = [readable(threshold) for threshold in thresholds]
        shares = [row.precision for row in self.rows]
        if any(shares):
            columns["right"] = [_percent(share) for share in shares]
        return columns


def _percent(share: float | None) -> str | None:
    if share is None:
        return None
    return f"{100 * share:.1f} %"


def plan_of(question: Question, facts: PublicFacts, rows: Iterable[ExpectedErrors]) -> Plan:
    """The plan for a question about answers with these facts."""
    return Plan(
        rows=tuple(rows),
        k=question.k or 0,
        split=question.split,
        monotonic=facts.monotonic,
        select=question.kind,
        max_items=facts.reach,
        delta=question.delta,
    )


@public
def plan(
    *,
    k: int,
    epsilon: Rational | None = None,
    error: float | None = None,
    method: str | None = None,
    select: str = "top-k",
    adaptive: bool = False,
    items: int | None = None,
    counts: "Sizes | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    monotonic: bool = True,
    sensitivity: Rational = 1,
    split: Rational | None = None,
    grid: Rational | None = None,
) -> Plan:
    """The expected error for this `epsilon`, or the ε that a wanted `error` needs.

    Give one of the two. Nothing is spent. If an adaptive run finds more answers, their error is
    larger; the plan is for k answers.

    Parameters
    ----------
    k
        How many answers to find.
    epsilon
        The privacy budget ε for selecting and measuring together.
    error
        Instead of `epsilon`: the wanted standard error of each estimate, if winners are clear.
    method
        A method of `dpgap.top_k` or `dpgap.above`, or "baseline" (Laplace measurement with half of
        ε, gaps ignored). The default is all of them.
    select
        The question: "top-k" or "above".
    adaptive
        Whether items far above the threshold cost less; for "above" only.
    items
        How many items, or answers, there are in all. Without it the plan is for more than k.
    counts
        The expected sizes of answers: the largest in order, or some by rank, such as {1: 9000, 10:
        2000, 100: 300}. Take them from public knowledge or an older release, never from the private
        data. For "top-k" only; needs `items`.
    delta
        If no domain will be stated: the chance that an item of only one unit is shown, such as
        1e-6. The plan then also says which threshold items must reach. Needs `max_items`.
    max_items
        The most items that a unit counts for, if this is bounded. Then there is one more method,
        "histogram".
    monotonic
        Whether one person moves all answers in the same direction, as counts of a table move if a
        unit is added. False for neighbours="replace". For arrays, state what you state in
        `dpgap.measured_top_k`, where the default is False: then noise is doubled.
    sensitivity
        The most that one person can move any one answer.
    split
        The share of ε for selecting. Without it the method chooses.
    grid
        The grid of `dpgap.measured_top_k` for real numbers: a power of two, such as 0.25.

    >>> print(plan(k=10, epsilon=0.7))  # doctest: +ELLIPSIS
      method    ε  error  close race  95% ±  selection noise
        best  0.7    9.1        16.2   32.2             19.0
       joint  0.7    9.7         9.7   19.3             11.4
      ranked  0.7   14.2        14.6   28.9             28.6
       paper  0.7   30.0               62.1             40.4
    baseline  0.7   40.4        40.4   85.5             40.4
    <BLANKLINE>
    For k = 10, counts that all move in the same direction (top-k)...
    >>> float(plan(k=10, error=10, method="best").epsilon)
    0.638
    >>> plan(k=10, epsilon=1, delta=1e-6, max_items=10).error > plan(k=10, epsilon=1).error
    True
    """
    is_top = one_of("select", select, ("top-k", "above")) == "top-k"
    if (epsilon is None) == (error is None):
        raise ValueError("state epsilon or error, one of the two")
    if boolean("adaptive", adaptive) and is_top:
        raise ValueError("adaptive must be False unless select='above'")
    if counts is not None and (items is None or not is_top):
        raise ValueError("counts need items, and select='top-k'")
    number = _number_of_items(items)
    facts = PublicFacts(
        sensitivity=positive_rational("sensitivity", sensitivity),
        monotonic=boolean("monotonic", monotonic),
        reach=_reach(max_items, number),
        items=number,
        unknown=chance("delta", delta) > 0,
        grid=None if grid is None else power_of_two("grid", grid),
    )
    question = Question(
        kind=select,
        k=positive_integer("k", k),
        delta=chance("delta", delta),
        split=None if split is None else share("split", split),
        threshold=None if is_top else Fraction(0),
        adaptive=adaptive,
    )
    if facts.unknown:
        _require_unknown(facts)
    methods = _methods(question, facts)
    if method is not None:
        methods = (one_of("method", method, methods),)

    def expected(name: str, amount: Fraction) -> ExpectedErrors:
        return _expected(replace(question, method=name, epsilon=amount), facts, counts)

    rows = []
    for name in methods:
        if error is None:
            amount = positive_rational("epsilon", epsilon)
        else:
            highest_error = positive_rational("error", error)
            amount = _smallest_epsilon(partial(expected, name), highest_error)
        rows.append(expected(name, amount))
    return plan_of(question, facts, rows)


def _number_of_items(items: int | None) -> int | None:
    if items is None:
        return None
    number = positive_integer("items", items)
    if number > MAX_STEPS:
        raise ValueError(f"items must be at most 2^60, not {number}")
    return number


def _reach(max_items: int | None, items: int | None) -> int | None:
    """The most items that a unit counts for: it cannot be more than there are."""
    if max_items is None:
        return None
    reach = positive_integer("max_items", max_items)
    if items is None:
        return reach
    return min(reach, items)


def _require_unknown(facts: PublicFacts) -> None:
    """Refuse a plan for unknown items with facts that only stated items, or arrays, have."""
    if facts.reach is None:
        raise ValueError("delta needs max_items: the most items that a unit counts for")
    if facts.items is not None:
        raise ValueError("items must be left out with delta: nobody knows how many there are")
    if facts.grid is not None:
        raise ValueError("grid must be left out with delta: counts of a table are whole numbers")


def _methods(question: Question, facts: PublicFacts) -> tuple[str, ...]:
    """The methods that can answer this question, the default first; and the baseline."""
    if facts.unknown:
        return ("best", HISTOGRAM)
    methods: tuple[str, ...] = METHODS if question.kind == "top-k" else ABOVE_METHODS
    if question.kind == "top-k" and question.k == facts.items:
        methods = tuple([method for method in methods if method != "joint"])
    if facts.reach is not None:
        methods = (*methods, HISTOGRAM)
    return (*methods, BASELINE)


def _expected(question: Question, facts: PublicFacts, counts: Sizes | None) -> ExpectedErrors:
    """The expected errors of one method."""
    if question.method == BASELINE:
        return _baseline(choose(replace(question, method="paper"), facts))
    choice = choose(question, facts)
    if counts is None:
        return choice.expected
    return expected_for_sizes(choice, counts)


def _baseline(choice: Choice) -> ExpectedErrors:
    """The expected errors of the paper's measurements alone."""
    pipeline: Any = choice.pipeline
    measured = ExpectedErrors.of_measurements(pipeline, pipeline.measurement.error(pipeline.k), 0)
    noise = choice.expected.selection_noise
    return replace(measured, method=BASELINE, route=None, selection_noise=noise)
