"""The routes to a measured top k: ways to release it, of which the best method takes one.

A *route* is a value that knows which error to expect and how to release. Most select
with one part of ε and measure with another; where a unit has a bounded reach there are others,
further down:

- `JointRoute`: the winners are chosen as one set. Its noise does not grow with k, so that little of
  ε selects. A set has no order and no gaps; estimates are the measurements, largest first.
- `RankedRoute`: the winners are ranked by exponential noise, each with its gap to the next, and
  estimates use the gaps too.
- `PaperRoute`: the same with Laplace noise throughout and the paper's estimates.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from dpgap.data.private_counts import PrivateCounts
from dpgap.estimates.linear import blue_variance
from dpgap.exact.grid import Grid
from dpgap.exact.reals import Floats, require_scale
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Joint, Laplace
from dpgap.mechanisms.mechanism import Answers, Claims, Winners
from dpgap.mechanisms.top_k import Candidates, NoisyTopK, claims_of
from dpgap.pipelines import best, paper
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.question import Question
from dpgap.releases.drawn import Measuring, ReadOff
from dpgap.releases.release import Measured, MechanismUsed


class TopKClaims(Claims, Protocol):
    """What every route is told besides: how many winners, and the share of ε that selects."""

    @property
    def k(self) -> int: ...
    @property
    def split(self) -> Fraction | None: ...


class Steps(NamedTuple):
    """What is done, in order: "look", "select", "measure", and the mechanism that does it."""

    each: tuple[tuple[str, Any], ...]
    epsilon: Fraction
    """What all of it costs at most."""
    parts: tuple[tuple[str, Fraction], ...]

    @classmethod
    def of(cls, *each: tuple[str, Any]) -> "Steps":
        """These steps."""
        parts = tuple((step, by.epsilon) for step, by in each)
        return cls(each, sum((part for _, part in parts), Fraction(0)), parts)


Looked = tuple[tuple[int, float], ...]
"""Ranks that were looked at, and what was measured there."""


class Told(NamedTuple):
    """What was selected, measured and estimated, in the order of the selection."""

    winners: Winners
    values: Floats
    """As measured."""
    found: EstimatedWinners
    spent: Fraction | None = None
    """What it came to; None where that is all of ε."""

    def build(
        self,
        steps: Steps,
        method: str,
        grid: Fraction | None,
        route: str | None = None,
        looked: Looked = (),
    ) -> Measured:
        """The release of it, found in these steps."""
        epsilon = steps.epsilon
        indices, labels, gaps, evidence, promise, lead = self.winners
        return Measured(
            **self.found._asdict(),
            indices=indices,
            labels=labels,
            gaps=gaps,
            evidence=evidence,
            lead=lead,
            measurements=self.values,
            epsilon=epsilon,
            spent=epsilon if self.spent is None else self.spent,
            promise=promise._replace(epsilon=epsilon),
            rounding=Grid(grid).rounding,
            method=method,
            mechanisms=tuple(MechanismUsed.of(by) for _, by in steps.each),
            route=route,
            looked=looked,
            parts=() if route is None else steps.parts,
        )


class Expectation(NamedTuple):
    """What estimates will be off by, and what the selection tells apart; whatever the data."""

    variance: float
    """Of each estimate, winners being clear."""
    close_variance: float | None
    """The same where winners are hard to tell from losers; None where it may be anything."""
    half_width: float
    """Half the width of a 95 % interval."""
    selection_variance: float
    """Of the noise on what is compared: answers, or for a set the margin between in and out."""


class Route(ABC):
    """A way to release the top k."""

    __slots__ = ()
    name: ClassVar[str]

    @property
    @abstractmethod
    def grid(self) -> Fraction | None:
        """Where answers lie, if a grid was declared."""

    @property
    @abstractmethod
    def steps(self) -> Steps:
        """What is done, and what it costs."""

    @property
    def epsilon(self) -> Fraction:
        """What all steps cost at most."""
        return self.steps.epsilon

    @abstractmethod
    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""

    @abstractmethod
    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Draw; the caller has paid."""

    @abstractmethod
    def told(self, drawn: Measuring[Any]) -> Told:
        """What was drawn, in the units of answers, and estimated."""

    def build(self, drawn: Measuring[Any], method: str) -> Measured:
        """The release of what was drawn."""
        return self.told(drawn).build(self.steps, method, self.grid, self.name)

    @abstractmethod
    def expectation(self) -> Expectation:
        """Which errors to expect."""


S = TypeVar("S", NoisyTopK, JointTopK, HybridTopK)
M = TypeVar("M", Laplace, Joint)


@dataclass(frozen=True, slots=True)
class SelectThenMeasure(Route, Generic[S, M]):
    """A route in two steps, each with its part of ε."""

    selection: S
    measurement: M

    @property
    def k(self) -> int:
        """How many winners there will be."""
        return self.selection.k

    @property
    def grid(self) -> Fraction | None:
        """The grid that was declared."""
        return self.selection.grid

    @property
    def steps(self) -> Steps:
        """It selects, then measures."""
        return Steps.of(("select", self.selection), ("measure", self.measurement))

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        candidates = self.selection.prepare(answers, labels)
        self.measurement.require_room(candidates.private_answers)
        return candidates

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Select and measure; the caller has paid. Where nothing was found, nothing is measured."""
        chosen, private_answers = self.selection.draw_paid(candidates)
        if not private_answers.size:
            return Measuring(chosen)
        return Measuring(chosen, self.measurement.draw_selected(private_answers))

    def told(self, drawn: Measuring[Any]) -> Told:
        values = self.measurement.lengths(drawn.values)
        return self._told(self.selection.winners(drawn.chosen), values)

    @abstractmethod
    def _told(self, winners: Winners, values: Floats) -> Told:
        """The same, with estimates from the measured values and the gaps."""


class JointRoute(SelectThenMeasure[JointTopK, Joint]):
    """The winners as one set, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "joint"

    @classmethod
    def of(cls, own: TopKClaims, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = JointTopK(own.k, to_select, **claims_of(own))
        return cls(selection, _together(selection, to_measure))

    def _told(self, winners: Winners, values: Floats) -> Told:
        """The order is that of the measurements."""
        order = np.argsort(-values, kind="stable")
        values, labels = values[order], winners.labels
        if labels is not None:
            labels = tuple(labels[at] for at in order.tolist())
        winners = winners._replace(indices=winners.indices[order], labels=labels)
        return Told(winners, values, EstimatedWinners.plain(values, self.measurement.error(self.k)))

    def expectation(self) -> Expectation:
        """Which errors to expect: the measurement's, in any race."""
        variance = self.measurement.variance(self.k)
        margin = 4 * self.selection.law.variance  # noise is on half of the margin
        return Expectation(variance, variance, self.measurement.half_width(self.k, 0.95), margin)


class RankedRoute(SelectThenMeasure[NoisyTopK, Joint]):
    """The winners ranked by exponential noise, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "ranked"

    @classmethod
    def of(cls, own: TopKClaims, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = NoisyTopK(own.k, to_select, noise="exponential", **claims_of(own))
        return cls(selection, _together(selection, to_measure))

    def _told(self, winners: Winners, values: Floats) -> Told:
        own = self.selection, self.measurement
        return Told(winners, values, best.top_k_estimates(*own, winners.gaps, values))

    def expectation(self) -> Expectation:
        """Which errors to expect: gaps help where winners are clear (least squares)."""
        k, noise = self.k, _selection_variance(self.selection)
        alone = self.measurement.variance(k)
        own = alone * (1 - self.measurement.law(k).correlation)
        helped = own * own / (own + noise) if own else 0.0  # a huge ε leaves no noise at all
        clear = alone - (k - 1) / k * helped
        return Expectation(clear, alone, self.measurement.half_width(k, 0.95), noise)


class PaperRoute(SelectThenMeasure[NoisyTopK, Laplace]):
    """The paper's method: Laplace noise, and the best linear unbiased estimates."""

    __slots__ = ()
    name: ClassVar[str] = "paper"

    @classmethod
    def of(cls, own: TopKClaims, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = NoisyTopK(own.k, to_select, noise="laplace", **claims_of(own))
        measurement = Laplace.after(selection, to_measure)
        require_scale(measurement.law_in_steps(own.k).scale)
        return cls(selection, measurement)

    def _told(self, winners: Winners, values: Floats) -> Told:
        own = self.selection, self.measurement
        return Told(winners, values, paper.top_k_estimates(*own, winners.gaps, values))

    def expectation(self) -> Expectation:
        """Which errors to expect; in a close race they may be worse than without gaps."""
        ratio = paper.variance_ratio(self.selection, self.measurement)
        clear = blue_variance(self.k, self.measurement.variance(self.k), ratio)
        half = paper.top_k_error(self.selection, self.measurement).half_width(0.95)
        return Expectation(clear, None, half, _selection_variance(self.selection))


def _together(selection: NoisyTopK | JointTopK, epsilon: Fraction) -> Joint:
    """What measures the winners, all of them together."""
    kind: type[Joint] = CountHull if selection.monotonic else Cube
    measurement = kind.after(selection, epsilon)
    require_scale(measurement.law_in_steps(selection.k).scale)
    return measurement


def _selection_variance(selection: NoisyTopK) -> float:
    return selection.in_steps().law.floor_variance * float(selection.grid or 1) ** 2


@dataclass(frozen=True, slots=True)
class Routed:
    """One route, as a pipeline that takes it whatever the data are."""

    route: Route
    method: str
    split: Fraction | None = None
    """The share of ε that selects, where one was stated."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        return self.route.epsilon

    def prepare(self, answers: Answers) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        return self.route.prepare(answers, None)

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Take the route; the caller has paid."""
        return self.route.draw_paid(candidates)

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def build(self, drawn: Measuring[Any]) -> Measured:
        """The release of what was drawn."""
        return self.route.build(drawn, self.method)


# --------------------------------------------------------------------------------------------------
# Routes for counts whose units have a bounded reach: each counts for at most so many items.
#
# - `HistogramRoute`: every item gets its own noise, and the largest noisy counts are read off, or
#   all that reach a line. Nothing is left to be measured: values come with it, for any k.
# - `HybridRoute`: for unknown items and a large reach. The largest are found by Hybrid Top-K, as
#   far as they are above its line, and then measured.
#
# Where items are unknown, only those present compete. A public line keeps out what one unit alone
# has, but for a chance δ. Of the two routes the one with the lower line is taken.


_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class HistogramRoute(Route):
    """All items measured at once; the largest k, or those at or above a line, are read off."""

    histogram: NoisyHistogram
    k: int | None
    line: int | None = None
    """In steps; None where the largest are looked for among known items."""
    delta: Fraction | None = None
    """Where items are unknown, the chance that is left for an item of one unit alone."""

    name: ClassVar[str] = "histogram"
    grid: ClassVar[Fraction | None] = None

    @property
    def steps(self) -> Steps:
        """It only measures."""
        return Steps.of(("measure", self.histogram))

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        return self.histogram.prepare(
            answers, labels, k=self.k, at_least=self.line, delta=self.delta
        )

    def draw_paid(self, candidates: Candidates) -> Measuring[ReadOff]:
        """Read off the largest; the caller has paid."""
        return Measuring(self.histogram.draw_paid(candidates, k=self.k, at_least=self.line))

    def told(self, drawn: Measuring[ReadOff]) -> Told:
        read_off, own = drawn.chosen, self.histogram
        values = own.lengths(read_off.values)
        found = EstimatedWinners.plain(values, own.error_of(read_off))
        winners = Winners(read_off.indices, read_off.labels, np.empty(0), None, own.promise)
        return Told(winners, values, found)

    def expectation(self) -> Expectation:
        """Which errors to expect: those of the noise, in any race."""
        error = self.histogram.error()
        return Expectation(error.variance, None, error.half_width(0.95), error.variance)


class HybridRoute(SelectThenMeasure[HybridTopK, Joint]):
    """The largest above a line, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "hybrid"

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps; refused before anything is charged."""
        return self.selection.prepare(answers, labels)

    def _told(self, winners: Winners, values: Floats) -> Told:
        """Measuring nothing costs nothing."""
        found = EstimatedWinners.plain(values, self.measurement.error(max(values.size, 1)))
        spent = self.selection.spent(values.size) + (self.measurement.epsilon if values.size else 0)
        return Told(winners, values, found, spent)

    def expectation(self) -> Expectation:
        """Which errors to expect, if as many are found as are looked for."""
        variance = self.measurement.variance(self.k)
        half = self.measurement.half_width(self.k, 0.95)
        return Expectation(variance, variance, half, self.selection.law.variance)


def histogram_route(asked: Question, answers: PrivateCounts) -> HistogramRoute:
    """What reads the answer off a histogram of all items, known ones."""
    line = None if asked.threshold is None else Grid(None).up(asked.threshold / answers.step)
    return HistogramRoute(_histogram(asked, answers), asked.k, line)


def unknown_route(asked: Question, answers: PrivateCounts) -> Route:
    """What finds unknown items: the route with the lower line."""
    reach = answers.reach
    if reach is None:
        raise ValueError("max_items must be given where domain is None")
    histogram = _histogram(asked, answers)
    stated = 0 if asked.threshold is None else Grid(None).up(asked.threshold / answers.step)
    line = histogram.line_for(asked.delta)
    read_off = HistogramRoute(histogram, asked.k, max(line, stated), asked.delta)
    if asked.k is None or asked.method != "best":
        return read_off
    share = asked.split or _HALF
    whole = asked.epsilon_of_a_group
    facts: dict[str, Any] = {
        "monotonic": answers.monotonic,
        "sensitivity": answers.sensitivity,
    }
    other = HybridTopK.line_for(asked.k, share * whole, asked.delta, reach=reach, **facts)
    if line <= other:
        return read_off
    above = max(other, Fraction(stated))
    selection = HybridTopK(above, asked.k, share * whole, **facts)
    kind: type[Joint] = CountHull if answers.monotonic else Cube
    return HybridRoute(selection, kind.after(selection, (1 - share) * whole))


def _histogram(asked: Question, answers: PrivateCounts) -> NoisyHistogram:
    return NoisyHistogram(asked.epsilon, reach=answers.reach or 1, sensitivity=answers.sensitivity)
