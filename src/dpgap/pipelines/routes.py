"""The routes to a measured top k; the best method takes one of them.

A *route* is a value that can state the expected error and make a release. Most routes select with
one part of ε and measure with another (`TwoSteps`); `MeasuredAbove` does the same, and has only one
route. These routes are for every table; routes for units with a bounded reach are at the end of the
file:

- `JointRoute`: the winners are chosen as one set. Its noise does not grow with k, so a small part
  of ε selects. A set has no order and no gaps; estimates are the measurements, largest first.
- `RankedRoute`: the winners are ranked with exponential noise, each with its gap to the next, and
  estimates also use the gaps.
- `PaperRoute`: the same with Laplace noise and the paper's estimates.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from dpgap.budget.cost import Cost
from dpgap.estimates.after_selection import Estimates
from dpgap.estimates.errors import MeasurementError
from dpgap.estimates.linear import blue_variance
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import remembered
from dpgap.exact.reals import Floats, require_scale, without_float_errors
from dpgap.mechanisms.histogram import Cutoff, NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Joint, Laplace
from dpgap.mechanisms.mechanism import Answers, Claims, Winners
from dpgap.mechanisms.top_k import Candidates, NoisyTopK, claims_of
from dpgap.pipelines import best, paper
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.question import HISTOGRAM, Question
from dpgap.releases.detail import Detail, MechanismUsed
from dpgap.releases.drawn import Above, Measuring, Ranking, ReadOff
from dpgap.releases.release import MeasuredItems

Looked = tuple[tuple[int, float], ...]
"""The ranks of a look, and their measured values."""


def build(
    highest_cost: Cost,
    cost: Cost,
    method: str,
    mechanisms: Sequence[Any],
    winners: Winners,
    values: Floats,
    estimated: EstimatedWinners,
    *,
    question: Question | None,
    grid: Fraction | None = None,
    route: str | None = None,
    looked: Looked = (),
    processed: int | None = None,
) -> MeasuredItems:
    """Make the release from selection, measurements and estimates.

    `highest_cost` is the most that such a release costs, and `cost` what this one did cost. Answers
    about a table, and sets, have the largest estimate first. If every item was selected, there is
    one gap less, and gaps stay in the order of the selection.
    """
    if question is not None:  # a δ is spent when the draw begins
        highest_cost = highest_cost.with_delta(question.delta)
        cost = cost.with_delta(question.delta)
    release = MeasuredItems(
        cost=cost,
        indices=winners.indices,
        labels=winners.labels,
        gaps=winners.gaps,
        lead=winners.lead,
        measurements=values,
        estimates=estimated.estimates,
        variances=estimated.variances,
        detail=Detail(
            promise=winners.promise._replace(cost=highest_cost),
            mechanisms=tuple(MechanismUsed.of(mechanism) for mechanism in mechanisms),
            method=method,
            route=route,
            looked=looked,
            evidence=winners.evidence,
            centres=estimated.centres,
            errors=estimated.errors,
            measured_by=estimated.measured_by,
            rounding=Grid(grid).rounding,
            processed=processed,
        ),
    )
    if question is not None or winners.lead is not None:
        release = release._largest_first()
    if question is None:
        return release
    return release._about(question)


@dataclass(frozen=True, slots=True)
class ExpectedErrors:
    """The errors to expect of a release, before anything is spent. They hold for all data.

    Plans, sessions and the desk show them. All of them are larger if more than k answers are found
    above a threshold.
    """

    method: str
    route: str | None
    """The route of the release; None if only its look decides it, or if there are no routes."""
    epsilon: Fraction
    error: float
    """The root of the mean squared error of each estimate, if winners are clear."""
    close_error: float | None
    """The same in a close race (winners close to losers); None if it has no bound."""
    half_width: float
    """Half the width of the widest 95 % interval; of clear winners only, if there is no
    `close_error`."""
    selection_noise: float
    """The deviation of the noise on the compared values: answers, or margins between two sets."""
    threshold: Fraction | None = None
    """What a noisy answer must reach to be shown, if items are unknown."""
    precision: float | None = None
    """The share of winners that will be right, if sizes of the answers were stated."""

    @classmethod
    def of(
        cls,
        route: Any,
        *,
        clear: float,
        close: float | None,
        half_width: float,
        noise: float,
        threshold: Fraction | None = None,
    ) -> Self:
        """The errors of a route, from variances."""
        return cls(
            method=route.method,
            route=route.name,
            epsilon=route.epsilon,
            error=math.sqrt(clear),
            close_error=None if close is None else math.sqrt(close),
            half_width=half_width,
            selection_noise=math.sqrt(noise),
            threshold=threshold,
        )

    @classmethod
    def of_measurements(
        cls, route: Any, error: MeasurementError, noise: float, threshold: Fraction | None = None
    ) -> Self:
        """The errors of estimates that are the measurements: the same in every race."""
        return cls.of(
            route,
            clear=error.variance,
            close=error.variance,
            half_width=error.half_width(0.95),
            noise=noise,
            threshold=threshold,
        )

    def in_units(self, step: Fraction) -> Self:
        """The same errors of answers that are in steps of this length."""
        width = float(step)
        close_error = self.close_error
        if close_error is not None:
            close_error *= width
        threshold = self.threshold
        if threshold is not None:
            threshold *= step
        return replace(
            self,
            error=self.error * width,
            close_error=close_error,
            half_width=self.half_width * width,
            selection_noise=self.selection_noise * width,
            threshold=threshold,
        )


class TwoSteps:
    """A `selection` with one part of ε, then a `measurement` of the winners with another part.

    Each subclass computes its own `estimates` from gaps and measured values.
    """

    __slots__ = ()
    name: ClassVar[str | None] = None
    """The name of the route in a release; None if there is no other route."""

    def prepare(self: Any, answers: Any, labels: Sequence[Any] | None = None) -> Any:
        """The answers in steps, and their labels; refused before anything is charged."""
        prepared = self.selection.prepare(answers, labels)
        self.measurement.require_room(prepared.private_answers)
        return prepared

    def choose_route(self, prepared: Any) -> tuple[Any, tuple[Any, ...]]:
        """The route; after a look also the look's values, how many answers, the route's number."""
        return self, ()

    @without_float_errors
    def draw_paid(self, prepared: Any) -> Measuring[Any]:
        """Select and measure; the caller has paid. If nothing was found, nothing is measured."""
        route, look = self.choose_route(prepared)
        selected, private_answers = route.selection.draw_paid(prepared)
        if not private_answers.size:
            return Measuring(selected)
        values = route.measurement.draw_paid(private_answers, route.measurement.finer)
        return Measuring(selected, values, *look)

    def route_of(self, draw: Measuring[Any]) -> tuple[Any, Joint | None, Looked]:
        """The route that was taken; after a look also its mechanism, and the values at ranks."""
        return self, None, ()

    @without_float_errors
    def build(self: Any, draw: Measuring[Any], question: Question | None = None) -> MeasuredItems:
        """The release of what was drawn: the answer to a question, if there is one."""
        route, look, looked = self.route_of(draw)
        mechanisms = [route.selection, route.measurement]
        if look is not None:
            mechanisms.insert(0, look)
        values = route.measurement.lengths(draw.values)
        winners = route.selection.winners(draw.chosen)
        estimated = EstimatedWinners(values, values, "measurements", ())
        if values.size:
            estimated = route.estimates(winners.gaps, values, draw.chosen)
        return build(
            self.cost,
            self.cost_of(draw, values.size),
            self.method,
            mechanisms,
            winners,
            values,
            estimated,
            question=question,
            grid=route.selection.grid,
            route=route.name,
            looked=looked,
            processed=draw.chosen.processed if isinstance(draw.chosen, Above) else None,
        )

    @property
    @remembered
    def cost(self: Any) -> Cost:
        """The most that a release costs."""
        return Cost.composed([("select", self.selection.cost), ("measure", self.measurement.cost)])

    def cost_of(self: Any, draw: Measuring[Any], winners: int) -> Cost:
        """What a release did cost: without winners nothing was measured."""
        parts = [("select", self.cost_of_selection(draw.chosen))]
        if winners:
            parts.append(("measure", self.measurement.cost))
        return Cost.composed(parts)

    def cost_of_selection(self: Any, selected: Any) -> Cost:
        """What the selection did cost; some selections cost less if they end early."""
        cost: Cost = self.selection.cost
        return cost

    def cost_of_groups(self, costs: Iterable[Cost], most_groups: int) -> Cost:
        """What answers for groups cost, if a unit counts in so many: those that cost the most."""
        return Cost.worst(costs, most_groups)


S = TypeVar("S", NoisyTopK, JointTopK, HybridTopK)
M = TypeVar("M", Laplace, Joint)


def measurement_of(
    selection: Claims, epsilon: Fraction, winners: int, kind: type[Laplace] | None = None
) -> Any:
    """The measurement for at most so many winners: of all together, unless a kind is stated."""
    together = CountHull if selection.monotonic else Cube
    measurement = (kind or together).after(selection, epsilon)
    require_scale(measurement.law_in_steps(winners).scale)
    return measurement


@dataclass(frozen=True, slots=True)
class SelectThenMeasure(TwoSteps, Generic[S, M]):
    """A route to the k largest."""

    selection: S
    measurement: M

    select: ClassVar[Callable[..., Any]]
    measure: ClassVar[type[Laplace] | None] = None
    """The kind of measurement; None if all winners are measured together."""

    @classmethod
    def of(cls, claims: Claims, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = cls.select(claims.k, to_select, **claims_of(claims))
        return cls(selection, measurement_of(selection, to_measure, claims.k, cls.measure))

    @property
    def method(self) -> str:
        """The method that takes no other route than this one."""
        return str(self.name)

    @property
    def epsilon(self) -> Fraction:
        """The ε of both steps."""
        return self.cost.pure_epsilon

    def estimates_of_runs(self, gaps: Floats, values: Floats) -> Estimates:
        """Estimates from gaps and measured values; one row for every run. Here gaps do not help."""
        return Estimates(values, np.full_like(values, self.measurement.variance(values.shape[1])))

    def estimates(self, gaps: Floats, values: Floats, selected: Any) -> EstimatedWinners:
        """The estimates of one run, and their errors."""
        runs = self.estimates_of_runs(gaps[None], values[None])
        return EstimatedWinners.of_run(runs, self.measurement.error(values.size))


class JointRoute(SelectThenMeasure[JointTopK, Joint]):
    """The winners as one set, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "joint"
    select = JointTopK

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors. The noise is on half of the margin between two sets."""
        error = self.measurement.error(self.selection.k)
        return ExpectedErrors.of_measurements(self, error, 4 * self.selection.law.variance)


class RankedRoute(SelectThenMeasure[NoisyTopK, Joint]):
    """The winners ranked by exponential noise, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "ranked"
    select = partial(NoisyTopK, noise="exponential")

    def estimates_of_runs(self, gaps: Floats, values: Floats) -> Estimates:
        return best.estimates_after_top_k(self.selection, self.measurement, values, gaps)

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors of so many items: gaps help if winners are clear (least squares).

        If all items win, there is no race, and gaps always help.
        """
        k = self.selection.k
        noise = _selection_variance(self.selection)
        alone = self.measurement.variance(k)
        independent = alone * (1 - self.measurement.law(k).correlation)
        helped = 0.0  # a huge ε leaves no noise at all
        if independent:
            helped = independent**2 / (independent + noise)
        clear = alone - (k - 1) / k * helped
        close = clear if items == k else alone
        return ExpectedErrors.of(
            self,
            clear=clear,
            close=close,
            half_width=self.measurement.half_width(k, 0.95),
            noise=noise,
        )


class PaperRoute(SelectThenMeasure[NoisyTopK, Laplace]):
    """The paper's method: Laplace noise, and the best linear unbiased estimates."""

    __slots__ = ()
    name: ClassVar[str] = "paper"
    select = partial(NoisyTopK, noise="laplace")
    measure = Laplace

    def estimates_of_runs(self, gaps: Floats, values: Floats) -> Estimates:
        return paper.estimates_after_top_k(self.selection, self.measurement, values, gaps)

    def estimates(self, gaps: Floats, values: Floats, selected: Any) -> EstimatedWinners:
        means, variances = self.estimates_of_runs(gaps, values)
        error = paper.top_k_error(self.selection, self.measurement)
        measured_by = self.measurement.error(values.size)
        return EstimatedWinners(means, variances, "estimates", (error,), measured_by)

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors of so many items.

        In a close race they may be larger than without gaps. If all items win, there is no race.
        """
        k = self.selection.k
        ratio = paper.variance_ratio(self.selection, self.measurement)
        clear = blue_variance(k, self.measurement.variance(k), ratio)
        return ExpectedErrors.of(
            self,
            clear=clear,
            close=clear if items == k else None,
            half_width=paper.top_k_error(self.selection, self.measurement).half_width(0.95),
            noise=_selection_variance(self.selection),
        )


def _selection_variance(selection: NoisyTopK) -> float:
    return selection.in_steps().law.floor_variance * float(selection.grid or 1) ** 2


# --------------------------------------------------------------------------------------------------
# Routes for units with a bounded reach: each unit counts for at most `max_items` items.
#
# - `HistogramRoute`: every item gets its own noise, and the result is the largest noisy counts, or
#   all that reach a threshold. No measurement follows: the noisy counts are the values.
# - `HybridRoute`: for unknown items and a large reach. Hybrid Top-K finds the largest items above
#   its threshold, and then they are measured.
#
# If items are unknown, only items that occur can win. A public threshold excludes an item of only
# one unit, except with a chance of δ. The route with the lower threshold is taken.


@dataclass(frozen=True, slots=True)
class HistogramRoute:
    """Measure all items at once; release the k largest, or those that reach a threshold."""

    histogram: NoisyHistogram
    cutoff: Cutoff
    delta: Fraction | None = None
    """δ if items are unknown: the chance that an item of only one unit is shown."""
    method: str = HISTOGRAM

    name: ClassVar[str] = HISTOGRAM

    @property
    def epsilon(self) -> Fraction:
        """The ε of a release."""
        return self.histogram.epsilon

    @property
    @remembered
    def cost(self) -> Cost:
        """What a release costs."""
        return Cost.composed([("measure", self.histogram.cost)])

    def cost_of_groups(self, costs: Iterable[Cost], most_groups: int) -> Cost:
        """What answers for groups cost: all of them are taken from one histogram."""
        return self.cost

    def prepare(self, answers: Answers, labels: Sequence[Any] | None = None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        return self.histogram.prepare(answers, labels, self.cutoff, self.delta)

    def draw_paid(self, candidates: Candidates) -> Measuring[ReadOff]:
        """Draw the noise and select the largest; the caller has paid."""
        return Measuring(self.histogram.draw_paid(candidates, self.cutoff))

    @without_float_errors
    def build(self, draw: Measuring[ReadOff], question: Question | None = None) -> MeasuredItems:
        """The release of what was drawn: the answer to a question, if there is one."""
        read_off = draw.chosen
        histogram = self.histogram
        values = histogram.lengths(read_off)
        error = histogram.error_of(read_off)
        errors = (error,) if values.size else ()
        variances = np.full(values.size, error.variance)
        return build(
            self.cost,
            self.cost,
            self.method,
            [histogram],
            Winners(read_off.indices, read_off.labels, np.empty(0), None, histogram.promise),
            values,
            EstimatedWinners(values, variances, "measurements", errors),
            question=question,
            route=HISTOGRAM,
        )

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors: those of the noise. In a close race, the luckiest items win."""
        error = self.histogram.error()
        threshold = None
        if self.delta is not None and self.cutoff.line is not None:
            threshold = self.cutoff.line * Grid(self.histogram.grid).step
        return ExpectedErrors.of(
            self,
            clear=error.variance,
            close=None,
            half_width=error.half_width(0.95),
            noise=error.variance,
            threshold=threshold,
        )


@dataclass(frozen=True, slots=True)
class HybridRoute(SelectThenMeasure[HybridTopK, Joint]):
    """Find the largest above a threshold, then measure them."""

    name: ClassVar[str] = "hybrid"
    method: str = "best"

    def cost_of_selection(self, selected: Ranking) -> Cost:
        return self.selection.cost_of(selected.indices.size)

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors, if k items are found."""
        error = self.measurement.error(self.selection.k)
        noise = self.selection.law.variance
        return ExpectedErrors.of_measurements(self, error, noise, self.selection.threshold)
