"""The routes to a measured top k: ways to release it, of which the best method takes one.

A *route* is a value that knows which error to expect and how to release. Those of this file select
with one part of ε and measure with another (where a unit has a bounded reach there are others, in
`dpgap.pipelines.reach`):

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
from numpy.typing import ArrayLike

from dpgap.data.private_counts import GroupedAnswers, PrivateCounts
from dpgap.estimates.certificates import Evidence
from dpgap.estimates.linear import blue_variance
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import Rational
from dpgap.exact.reals import Floats, require_scale
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Joint, Laplace
from dpgap.mechanisms.top_k import Candidates, NoisyTopK
from dpgap.pipelines import best, paper
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.releases.drawn import Measuring, Ranking, TopSet
from dpgap.releases.release import AboveRelease, Measured, MechanismUsed, Promise, TopKRelease

Answers = ArrayLike | PrivateCounts | GroupedAnswers
"""What a top k may be asked of."""


class Facts(NamedTuple):
    """What every route is told: how many winners, and what one person can change."""

    k: int
    monotonic: bool
    sensitivity: Rational
    grid: Rational | None

    @classmethod
    def of(cls, selection: NoisyTopK | JointTopK) -> "Facts":
        """What a selection was told, in exact numbers."""
        return cls(*(getattr(selection, name) for name in cls._fields))

    def of_answers(self) -> dict[str, Any]:
        """What one person can change, as mechanisms are told."""
        return {name: getattr(self, name) for name in ("monotonic", "sensitivity", "grid")}


Steps = tuple[tuple[str, Any], ...]
"""What is done, in order, and the mechanism that does it."""


def measured(
    steps: Steps,
    method: str,
    grid: Fraction | None,
    found: EstimatedWinners,
    *,
    promise: Promise,
    route: str | None = None,
    **own: Any,
) -> Measured:
    """The release of what was selected, measured and estimated in some steps.

    `own` is what the selection says of its winners, what was measured, and what it came to if
    that is not all of ε.
    """
    epsilon = sum((each.epsilon for _, each in steps), Fraction(0))
    return Measured(
        **found._asdict(),
        **{"spent": epsilon, **own},
        epsilon=epsilon,
        promise=promise._replace(epsilon=epsilon),
        rounding=Grid(grid).rounding,
        method=method,
        mechanisms=tuple(MechanismUsed.of(each) for _, each in steps),
        route=route,
        parts=() if route is None else tuple((step, each.epsilon) for step, each in steps),
    )


def winners_of(selected: TopKRelease | AboveRelease) -> dict[str, Any]:
    """What a selection says of its winners, in its order."""
    names = ("indices", "labels", "gaps", "evidence", "promise")
    return {name: getattr(selected, name) for name in names}


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


class Route(Protocol):
    """A way to release the top k."""

    name: ClassVar[str]

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""

    @property
    def grid(self) -> Fraction | None:
        """Where answers lie, if a grid was declared."""

    @property
    def steps(self) -> Steps:
        """What is done, in order, and the mechanism that does it."""

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Draw; the caller has paid."""

    def build(self, drawn: Measuring[Any], method: str) -> Measured:
        """The release of what was drawn."""

    def expectation(self) -> Expectation:
        """Which errors to expect."""


S = TypeVar("S", NoisyTopK, JointTopK, HybridTopK)
M = TypeVar("M", Laplace, Joint)


@dataclass(frozen=True, slots=True)
class SelectThenMeasure(Generic[S, M]):
    """A route in two steps, each with its part of ε."""

    name: ClassVar[str]
    selection: S
    measurement: M

    @property
    def epsilon(self) -> Fraction:
        """What both steps cost at most."""
        return self.selection.epsilon + self.measurement.epsilon

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
        return (("select", self.selection), ("measure", self.measurement))

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


class JointRoute(SelectThenMeasure[JointTopK, Joint]):
    """The winners as one set, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "joint"

    @classmethod
    def of(cls, facts: Facts, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = JointTopK(facts.k, to_select, **facts.of_answers())
        return cls(selection, _together(selection, to_measure))

    def build(self, drawn: Measuring[TopSet], method: str) -> Measured:
        """The release of what was drawn. The order is that of the measurements."""
        selected = self.selection.build(drawn.chosen)
        values = self.measurement.lengths(drawn.values)
        order = np.argsort(-values, kind="stable")
        values, labels = values[order], selected.labels
        if labels is not None:
            labels = tuple(labels[at] for at in order.tolist())
        return measured(
            self.steps,
            method,
            self.grid,
            EstimatedWinners.plain(values, self.measurement.error(self.k)),
            route=self.name,
            indices=selected.indices[order],
            labels=labels,
            gaps=np.empty(0),
            lead=selected.lead,
            evidence=Evidence.of([selected.lead], [self.selection.law]),
            measurements=values,
            promise=selected.promise,
        )

    def expectation(self) -> Expectation:
        """Which errors to expect: the measurement's, in any race."""
        variance = self.measurement.variance(self.k)
        margin = 4 * self.selection.law.variance  # noise is on half of the margin
        return Expectation(variance, variance, self.measurement.half_width(self.k, 0.95), margin)


class _Ranking(SelectThenMeasure[NoisyTopK, M], ABC):
    """A route that ranks the winners, with a gap from each to the next."""

    __slots__ = ()

    def build(self, drawn: Measuring[Ranking], method: str) -> Measured:
        """The release of what was drawn."""
        selected = self.selection.build(drawn.chosen)
        values = self.measurement.lengths(drawn.values)
        own = {**winners_of(selected), "measurements": values, "route": self.name}
        return measured(self.steps, method, self.grid, self._estimate(selected, values), **own)

    @abstractmethod
    def _estimate(self, selected: TopKRelease, values: Floats) -> EstimatedWinners:
        """Estimates from the measurements and the gaps."""


class RankedRoute(_Ranking[Joint]):
    """The winners ranked by exponential noise, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "ranked"

    @classmethod
    def of(cls, facts: Facts, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = NoisyTopK(facts.k, to_select, noise="exponential", **facts.of_answers())
        return cls(selection, _together(selection, to_measure))

    def _estimate(self, selected: TopKRelease, values: Floats) -> EstimatedWinners:
        return best.top_k_estimates(self.selection, self.measurement, selected, values)

    def expectation(self) -> Expectation:
        """Which errors to expect: gaps help where winners are clear (least squares)."""
        k, noise = self.k, _selection_variance(self.selection)
        alone = self.measurement.variance(k)
        own = alone * (1 - self.measurement.law(k).correlation)
        helped = own * own / (own + noise) if own else 0.0  # a huge ε leaves no noise at all
        clear = alone - (k - 1) / k * helped
        return Expectation(clear, alone, self.measurement.half_width(k, 0.95), noise)


class PaperRoute(_Ranking[Laplace]):
    """The paper's method: Laplace noise, and the best linear unbiased estimates."""

    __slots__ = ()
    name: ClassVar[str] = "paper"

    @classmethod
    def of(cls, facts: Facts, to_select: Fraction, to_measure: Fraction) -> Self:
        """The route with these parts of ε."""
        selection = NoisyTopK(facts.k, to_select, noise="laplace", **facts.of_answers())
        measurement = Laplace.after(selection, to_measure)
        require_scale(measurement.law_in_steps(facts.k).scale)
        return cls(selection, measurement)

    def _estimate(self, selected: TopKRelease, values: Floats) -> EstimatedWinners:
        return paper.top_k_estimates(self.selection, self.measurement, selected, values)

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
