"""The choice of a pipeline: what answers a question, and which errors to expect.

A release, a plan, a session and the desk all ask `choose`. It is a function of the question and of
public facts. So the same question gets the same pipeline everywhere, and the expected errors can be
shown before anything is spent.

- A count, or a total: one noisy number.
- A threshold, or the k largest: select, then measure (`dpgap.pipelines.arrays`).
- If a unit counts for few items, one noisy *histogram* may have the smaller error. The best method
  takes it then.
- If items are unknown, only items that occur can win. A public threshold hides an item of only one
  unit, except with a chance of δ. The best method takes the histogram, or Hybrid Top-K and a
  measurement: whichever has the lower threshold.

>>> question = Question(kind="top-k", k=10, epsilon=Fraction(1))
>>> [choose(question, PublicFacts(reach=reach)).expected.route for reach in (1, 16)]
['histogram', None]
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpgap.budget.cost import equal_part, split
from dpgap.data.private_counts import CountsByGroup, PrivateCounts
from dpgap.exact.grid import Grid
from dpgap.mechanisms.histogram import Cutoff, NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.routes import ExpectedErrors, HistogramRoute, HybridRoute, measurement_of
from dpgap.question import HISTOGRAM, Question

Pipeline = MeasuredTopK | MeasuredAbove | HistogramRoute | HybridRoute | NoisyHistogram
"""What answers a question; a `NoisyHistogram` alone answers questions about all units together."""


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What everybody may know of private answers; all of it decides how they are released."""

    sensitivity: Fraction = Fraction(1)
    """The most steps that one unit can move an answer."""
    monotonic: bool = True
    """Whether one unit moves all answers in the same direction."""
    reach: int | None = None
    """The most items (with groups, pairs) that one unit can move; None: any number."""
    step: Fraction = Fraction(1)
    """The unit of answers."""
    items: int | None = None
    """How many items there are; None if nobody has said so."""
    unknown: bool = False
    """Whether the items are those that occur, which are private."""
    grid: Fraction | None = None
    """The grid that the answers of an array are rounded to."""

    @classmethod
    def of(cls, answers: PrivateCounts | CountsByGroup) -> "PublicFacts":
        """The public facts of these answers; all groups have the same."""
        if isinstance(answers, CountsByGroup):
            return cls.of(next(iter(answers.values())))
        return cls(
            sensitivity=answers.sensitivity,
            monotonic=answers.monotonic,
            reach=answers.reach,
            step=answers.step,
            items=None if answers.unknown else len(answers),
            unknown=answers.unknown,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The pipeline that answers a question about answers with these facts."""

    question: Question
    facts: PublicFacts
    pipeline: Pipeline

    @property
    def expected(self) -> ExpectedErrors:
        """The errors to expect of the release."""
        return self.in_units(_expected_errors(self.pipeline, self.facts))

    def in_units(self, expected: ExpectedErrors) -> ExpectedErrors:
        """Errors of the pipeline, which are in steps, in the unit of the table."""
        in_units = expected.in_units(self.facts.step)
        return replace(in_units, method=self.question.method, epsilon=self.question.epsilon)


def choose(question: Question, facts: PublicFacts) -> Choice:
    """The pipeline that answers a question, or an error if none can."""
    return Choice(question, facts, _pipeline(question, facts))


def _pipeline(question: Question, facts: PublicFacts) -> Pipeline:
    if question.is_of_all:
        return NoisyHistogram(question.epsilon, sensitivity=facts.sensitivity)
    if facts.unknown:
        return _for_unknown_items(question, facts)
    _require_items(question, facts)
    if question.method == HISTOGRAM:
        if facts.reach is None:
            raise ValueError("method='histogram' needs max_items: the most items of one unit")
        return _histogram(question, facts)
    if question.k is None:
        if facts.reach is None:
            raise ValueError("k must be given, unless max_items says how many a unit counts for")
        return _histogram(question, facts)
    measured = _select_then_measure(question, question.k, facts)
    if facts.reach is None or question.method != "best" or question.split is not None:
        return measured
    histogram = _histogram(question, facts)
    if _expected_errors(histogram, facts).error <= _error_to_beat(measured, facts):
        return histogram
    return measured


def _require_items(question: Question, facts: PublicFacts) -> None:
    """Refuse a top k of fewer items than k."""
    if question.kind != "top-k" or question.k is None or facts.items is None:
        return
    if question.k > facts.items:
        raise ValueError(
            f"k must be at most the number of items in the domain, {facts.items}, not {question.k}"
        )
    if question.k == facts.items and question.method == "joint":
        raise ValueError(
            f"k must be below the number of items in the domain, {facts.items}, for "
            "method='joint': all items together are the top set, whatever they are"
        )


def _select_then_measure(
    question: Question, k: int, facts: PublicFacts
) -> MeasuredTopK | MeasuredAbove:
    """The pipeline for any reach. The groups that a unit counts in share ε."""
    if question.threshold is None:
        return MeasuredTopK(
            k,
            _epsilon_of_a_group(question),
            monotonic=facts.monotonic,
            sensitivity=facts.sensitivity,
            method=question.method,
            split=question.split,
            grid=facts.grid,
        )
    return MeasuredAbove(
        question.threshold / facts.step,
        k,
        _epsilon_of_a_group(question),
        adaptive=question.adaptive,
        monotonic=facts.monotonic,
        sensitivity=facts.sensitivity,
        method=question.method,
        split=question.split,
        grid=facts.grid,
    )


def _histogram(question: Question, facts: PublicFacts) -> HistogramRoute:
    """The route that takes the answers of all groups from one histogram, which costs ε once."""
    histogram = NoisyHistogram(
        question.epsilon, reach=facts.reach or 1, sensitivity=facts.sensitivity, grid=facts.grid
    )
    line = _line(question, facts)
    if not facts.unknown:
        return HistogramRoute(histogram, Cutoff(question.k, line), method=question.method)
    line = max(histogram.line_for(question.delta), line or 0)
    return HistogramRoute(histogram, Cutoff(question.k, line), question.delta, question.method)


def _for_unknown_items(question: Question, facts: PublicFacts) -> HistogramRoute | HybridRoute:
    """The route for unknown items: of the two, the one with the lower threshold."""
    if facts.reach is None:
        raise ValueError("max_items must be given if domain is None")
    histogram = _histogram(question, facts)
    if question.k is None or question.method != "best":
        return histogram
    share = question.split or Fraction(1, 2)
    to_select, to_measure = split(_epsilon_of_a_group(question), share)
    hybrid = HybridTopK(
        0, question.k, to_select, monotonic=facts.monotonic, sensitivity=facts.sensitivity
    )
    threshold = hybrid.line_for(question.delta, facts.reach)
    if histogram.histogram.line_for(question.delta) <= threshold:
        return histogram
    threshold = max(threshold, Fraction(_line(question, facts) or 0))
    selection = replace(hybrid, threshold=threshold)
    return HybridRoute(selection, measurement_of(selection, to_measure, question.k))


def _epsilon_of_a_group(question: Question) -> Fraction:
    """The ε of each group: the groups that a unit counts in share ε."""
    return equal_part(question.epsilon, question.max_groups)


def _line(question: Question, facts: PublicFacts) -> int | None:
    """The threshold of the question in whole steps."""
    if question.threshold is None:
        return None
    return Grid(facts.grid).up(question.threshold / facts.step)


# --------------------------------------------------------------------------------------------------


def _expected_errors(pipeline: Pipeline, facts: PublicFacts) -> ExpectedErrors:
    """The expected errors of a pipeline, in steps."""
    if not isinstance(pipeline, NoisyHistogram):
        return pipeline.expected_errors(facts.items)
    error = pipeline.error()
    deviation = math.sqrt(error.variance)
    return ExpectedErrors(
        method="best",
        route=None,
        epsilon=pipeline.epsilon,
        error=deviation,
        close_error=deviation,
        half_width=error.half_width(0.95),
        selection_noise=0.0,
    )


def _error_to_beat(pipeline: MeasuredTopK | MeasuredAbove, facts: PublicFacts) -> float:
    """The error that a histogram must not exceed; above a threshold that of measurements alone."""
    expected = _expected_errors(pipeline, facts)
    if isinstance(pipeline, MeasuredTopK):
        return expected.error
    return expected.close_error or 0.0
