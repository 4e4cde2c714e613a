"""Select, then measure, then estimate: the winners with numbers and error bars.

Part of ε (`split`) selects, and the rest measures what was selected. Methods for the k largest:

- `"best"`, the default: looks at a few order statistics first, and takes the route that will be
  better (`dpgap.pipelines.look_first`).
- `"joint"`: the winners are chosen as one set, whose noise does not grow with k.
- `"ranked"`: the winners are ranked with exponential noise. Gaps cost nothing extra, and make the
  estimates more accurate.
- `"paper"`: only Laplace noise, gaps, and the paper's estimates.

All but the paper's method measure all winners together (`CountHull`, or `Cube` if answers are not
monotonic), and their intervals hold after selection. For a threshold there are two methods,
`"best"` and `"paper"`, with one route.

>>> import dpgap
>>> best = dpgap.measured_top_k([10, 50, 90, 20], k=1, epsilon=1000)
>>> best.indices.tolist()
[2]
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.budget.cost import Cost, split
from dpgap.data.private_counts import Chunk, PrivateCounts, errors_without_answers
from dpgap.estimates.linear import combine, combined_variance
from dpgap.exact.grid import Grid, Labels, read_grid
from dpgap.exact.parameters import (
    Exact,
    ExactOrNone,
    Parameter,
    Rational,
    boolean,
    declared,
    derived,
    or_none,
    parameter,
    positive_integer,
    positive_rational,
    rational,
    remembered,
    share,
)
from dpgap.exact.reals import Floats
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import Joint, Laplace
from dpgap.mechanisms.mechanism import Selecting
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector, Stream
from dpgap.mechanisms.top_k import Candidates, NoisyTopK, claims_of
from dpgap.pipelines import best, paper
from dpgap.pipelines.look_first import LookFirst
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.pipelines.routes import (
    ExpectedErrors,
    JointRoute,
    Looked,
    PaperRoute,
    RankedRoute,
    TwoSteps,
    measurement_of,
)
from dpgap.question import ABOVE_METHODS, METHODS, one_of
from dpgap.releases.drawn import Above, Measuring
from dpgap.releases.release import MeasuredItems

_Parameters = ParamSpec("_Parameters")
_Pipeline = TypeVar("_Pipeline")
_ROUTES: dict[str, type[RankedRoute | JointRoute | PaperRoute]] = {
    kind.name: kind for kind in (RankedRoute, JointRoute, PaperRoute)
}
_HALF = Fraction(1, 2)
_SPLITS = {"joint": Fraction(1, 4)}
"""The default shares of ε that select; other routes take a half. A set's noise does not grow with
k. So a quarter is enough if the set is clear at all, and the measurement gets the rest."""


@public
@declared()
class MeasuredTopK(TwoSteps, Selecting[Candidates, MeasuredItems]):
    """Find the k largest answers and estimate them: `measured_top_k` as a reusable value.

    Parameters
    ----------
    k, epsilon, monotonic, sensitivity, method, split, grid
        As for `measured_top_k`.

    >>> pipeline = MeasuredTopK(2, epsilon=1000, monotonic=True)
    >>> release = pipeline.release([10, 50, 90, 20])
    >>> release.indices.tolist(), release.interval(0.95).shape
    ([2, 1], (2, 2))
    """

    k: int = parameter(positive_integer)
    epsilon: Exact = parameter(positive_rational)
    _: KW_ONLY
    monotonic: bool = parameter(boolean, default=False)
    sensitivity: Exact = parameter(positive_rational, default=1)
    method: str = parameter(partial(one_of, choices=METHODS), default="best")
    looks: bool = derived(lambda self: self.method == "best" and self.k > 1)
    """Whether a look chooses the route, if there are more answers than winners."""
    split: ExactOrNone = parameter(
        or_none(share),
        default=None,
        then=lambda self: self.split or (None if self.looks else _SPLITS.get(self.method, _HALF)),
    )
    """The share of ε that selects; None if a look decides it."""
    grid: ExactOrNone = parameter(read_grid, default=None)
    selection: NoisyTopK | JointTopK = derived(
        lambda self: self.kind.select(self.k, self.parts[0], **claims_of(self))
    )
    """The selection of the route without a look; it says which answers are accepted."""
    measurement: Laplace | Joint = derived(
        lambda self: measurement_of(self.selection, self.parts[1], self.k, self.kind.measure)
    )
    """The measurement of that route."""
    looking: LookFirst | None = derived(
        lambda self: LookFirst.of(self, self.split) if self.looks else None
    )
    """The look, and the routes that it chooses from."""

    @property
    def parts(self) -> tuple[Fraction, Fraction]:
        """The parts of ε that select and measure, without a look."""
        to_select, to_measure = split(self.epsilon, self.split or _HALF)
        return to_select, to_measure

    @property
    @remembered
    def cost(self) -> Cost:
        """The most that a release costs: that of the dearest route, after a look too."""
        without_look = self.route.cost
        if self.looking is None:
            return without_look
        return Cost.worst([without_look, *self.looking.costs], 1)

    def cost_of(self, draw: Measuring[Any], winners: int) -> Cost:
        if self.looking is None or draw.route is None:
            return self.route.cost
        return self.looking.cost_of(draw.route)

    @property
    def kind(self) -> type[RankedRoute | JointRoute | PaperRoute]:
        """The kind of the route without a look."""
        return _ROUTES.get(self.method, RankedRoute)

    @property
    def route(self) -> RankedRoute | JointRoute | PaperRoute:
        """The route without a look: it is also taken if all answers win."""
        kind: Any = self.kind
        return cast(RankedRoute | JointRoute | PaperRoute, kind(self.selection, self.measurement))

    @property
    def routes(self) -> tuple[RankedRoute | JointRoute | PaperRoute, ...]:
        """All routes that a release may take."""
        return (self.route,) if self.looking is None else (self.route, *self.looking.routes)

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors of so many items; None stands for any number above k.

        After a look: the error of a clear set, and the other errors of the worst route.
        """
        if self.looking is None or items == self.k:
            expected = self.route.expected_errors(items)
        else:
            expected = self.looking.expected_errors()
        return replace(expected, method=self.method)

    def choose_route(self, prepared: Candidates) -> tuple[Any, tuple[Any, ...]]:
        looking = self.looking
        n = prepared.size
        if looking is None or self.k >= n:
            return self.route, ()
        rule = looking.rule(n)
        look = looking.measurement.draw_paid(prepared.at_ranks(rule.ranks))
        values = looking.measurement.lengths(look)
        number = int(rule.decide(values[None])[0])
        return looking.route(number), (look, n, number)

    def route_of(self, draw: Measuring[Any]) -> tuple[Any, Joint | None, Looked]:
        looking = self.looking
        if looking is None or draw.route is None:
            return self.route, None, ()
        ranks = looking.rule(draw.among or 0).ranks
        values = looking.measurement.lengths(draw.looked).tolist()
        looked = tuple(zip(ranks, values, strict=True))
        return looking.route(draw.route), looking.measurement, looked


@public
@declared()
class MeasuredAbove(TwoSteps, Selecting[Stream, MeasuredItems]):
    """Find answers above a threshold and estimate them: `measured_above` as a reusable value.

    Parameters
    ----------
    threshold, k, epsilon, adaptive, branches, monotonic, sensitivity, method, split, grid
        As for `measured_above`.

    >>> pipeline = MeasuredAbove(100, 2, epsilon=1000, monotonic=True)
    >>> pipeline.release([3, 250, 7, 180, 400]).indices.tolist()
    [1, 3]
    """

    threshold: Exact = parameter(rational, shown=False)
    k: int = parameter(positive_integer, shown=False)
    epsilon: Exact = parameter(positive_rational, shown=False)
    _: KW_ONLY
    adaptive: bool = parameter(boolean, default=False, shown=False)
    branches: int | None = parameter(lambda _, many: many, default=None, shown=False)
    monotonic: bool = parameter(boolean, default=False, shown=False)
    sensitivity: Exact = parameter(positive_rational, default=1, shown=False)
    selection: SparseVector = derived(lambda self: self._selection(), shown=True)
    measurement: Laplace | Joint = derived(lambda self: self._measurement(), shown=True)
    method: str = parameter(partial(one_of, choices=ABOVE_METHODS), default="best")
    split: Parameter[Rational | None, Fraction] = parameter(
        lambda name, value: _HALF if value is None else share(name, value),
        default=None,
        shown=False,
    )
    grid: ExactOrNone = parameter(read_grid, default=None, shown=False)

    def _selection(self) -> SparseVector:
        part, _ = split(self.epsilon, self.split)
        is_best = self.method == "best"
        noise = "exponential" if is_best else "laplace"
        if not self.adaptive:
            if self.branches is not None:
                raise ValueError("branches must be left out unless adaptive=True")
            return SparseVector(self.threshold, self.k, part, noise=noise, **claims_of(self))
        branches = self.branches
        if branches is None:
            branches = 3 if is_best else 2
        return AdaptiveSparseVector(
            self.threshold,
            self.k,
            part,
            branches=branches,
            drain=is_best,
            noise=noise,
            **claims_of(self),
        )

    def _measurement(self) -> Laplace | Joint:
        _, part = split(self.epsilon, self.split)
        capacity = self.selection.capacity
        kind = None if self.method == "best" else Laplace
        return cast(Laplace | Joint, measurement_of(self.selection, part, capacity, kind))

    def prepare(
        self,
        answers: ArrayLike | PrivateCounts,
        labels: Labels = None,
        chunks: Iterator[Chunk] | None = None,
    ) -> Stream:
        stream = self.selection.prepare(answers, labels, chunks)
        self.measurement.require_room(stream.extremes)
        return stream

    def estimates(self, gaps: Floats, values: Floats, selected: Above) -> EstimatedWinners:
        """The paper's method combines each gap with its measurement, by inverse variance."""
        selection = self.selection
        measurement = self.measurement
        branches = selected.branches
        if not isinstance(measurement, Laplace):
            runs = best.estimates_after_above(
                selection, measurement, values[None], gaps[None], branches[None]
            )
            return EstimatedWinners.of_run(runs, measurement.error(values.size))
        gap_variance = paper.gap_variances(selection)[branches - 1]
        variance = measurement.variance(branches.size)
        return EstimatedWinners(
            combine(values, gaps, float(selection.threshold), variance, gap_variance),
            combined_variance(variance, gap_variance),
            "estimates",
            paper.above_errors(selection, measurement, branches),
            measurement.error(branches.size),
        )

    def cost_of_selection(self, selected: Above) -> Cost:
        return self.selection.cost_of(selected.used)

    def expected_errors(self, items: int | None = None) -> ExpectedErrors:
        """The expected errors of k answers; if they are clear, cheap branches find them."""
        selection = self.selection
        measurement = self.measurement
        count = self.k
        gap, dearest = paper.gap_variances(selection)[[0, -1]].tolist()
        alone = measurement.variance(count)
        if isinstance(measurement, Laplace):
            clear = float(combined_variance(alone, gap)[0])
            errors = paper.above_errors(selection, measurement, np.ones(count, int))
            return ExpectedErrors.of(
                self,
                clear=clear,
                close=None,
                half_width=errors[0].half_width(0.95),
                noise=dearest,
            )
        shared = selection.in_steps().threshold_law.floor_variance * Grid(selection.grid).width ** 2
        correlation = measurement.law(count).correlation
        independent = alone * (1 - correlation)
        noise = gap - shared
        of_mean = _of_best_mean(alone * correlation + independent / count, shared + noise / count)
        of_difference = _of_best_mean(independent, noise)
        return ExpectedErrors.of(
            self,
            clear=of_mean + (count - 1) / count * of_difference,
            close=alone,
            half_width=measurement.half_width(count, 0.95),
            noise=dearest,
        )


def _of_best_mean(first: float, second: float) -> float:
    """The variance of the best mean of two independent numbers with these variances."""
    if not first or not second:
        return 0.0
    return first * second / (first + second)


# --------------------------------------------------------------------------------------------------
# From bare answers to a release: select, measure, estimate, in one call.


@public
@errors_without_answers
def measured_top_k(
    answers: ArrayLike | PrivateCounts,
    k: int,
    epsilon: Rational,
    *,
    monotonic: bool = False,
    sensitivity: Rational = 1,
    method: str = "best",
    split: Rational | None = None,
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> MeasuredItems:
    """The k largest answers with estimates and error bars; all together costs ε.

    Parameters
    ----------
    answers
        The private answers: an array or a Series, or counts that `dpgap.counts` made.
    k
        How many answers to find.
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    method
        "best", the default: looks at a few order statistics first, then finds the winners as a set
        or ranks them, whichever will be better. "joint": as a set; "ranked": ranked, with gaps.
        All of these measure the winners together, with intervals that hold after selection. Or
        "paper": Laplace noise, gaps, and the estimators of the paper.
    split
        The share of ε for selecting, on every route. By default a set takes a quarter, a ranking
        takes half, and the best method decides it after its look. The rest of ε measures, except
        the share of a look (at most 0.08).
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.
    labels
        Public names of the answers, in the same order. A Series brings its own.
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.

    >>> import dpgap
    >>> best = dpgap.measured_top_k([10, 50, 90, 20], k=2, epsilon=1000, monotonic=True)
    >>> best.indices.tolist(), best.estimates.round().tolist()
    ([2, 1], [90.0, 50.0])
    """
    pipeline = _pipeline(
        MeasuredTopK,
        k,
        epsilon,
        monotonic=monotonic,
        sensitivity=sensitivity,
        method=method,
        split=split,
        grid=grid,
    )
    return pipeline.release(answers, labels=labels, account=account)


@public
@errors_without_answers
def measured_above(
    answers: ArrayLike | PrivateCounts,
    threshold: Rational,
    k: int,
    epsilon: Rational,
    *,
    adaptive: bool = False,
    branches: int | None = None,
    monotonic: bool = False,
    sensitivity: Rational = 1,
    method: str = "best",
    split: Rational | None = None,
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> MeasuredItems:
    """The answers above a threshold with estimates and error bars; all together costs ε.

    Parameters
    ----------
    answers
        The private answers: an array or a Series, or counts that `dpgap.counts` made.
    threshold
        The number with which answers are compared.
    k
        For how many answers "above" ε pays at the full price.
    epsilon
        The privacy budget ε of the whole release: a number, or text such as "0.7" or "2/3".
    adaptive
        Whether answers far above the threshold cost less, so that more of them are found.
    branches
        How many branches an adaptive run has. A *branch* is a test for "above", with its own noise
        and its own price. Cheap branches have much noise, so only answers far above pass them. Only
        for adaptive runs. The default is 3 for the best method, and 2 for the paper's.
    monotonic
        Whether one person moves all answers in the same direction: one more person can only raise
        counts. This halves the noise. If it is not true, the result is not private.
    sensitivity
        The most that one person can move any one answer.
    method
        "best", the default: exponential noise, all winners measured together, intervals that hold
        after selection. Or "paper": Laplace noise and the estimators of the paper.
    split
        The share of ε for selecting; the default is half. The rest measures.
    grid
        A power of two, such as 0.25: answers may be real numbers, and are rounded to multiples of
        it. Without a grid, answers must be whole numbers.
    labels
        Public names of the answers, in the same order. A Series brings its own.
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.

    >>> import dpgap
    >>> found = dpgap.measured_above([3, 250, 7, 180], 100, k=2, epsilon=1000, monotonic=True)
    >>> found.indices.tolist(), found.interval(0.95).shape
    ([1, 3], (2, 2))
    """
    pipeline = _pipeline(
        MeasuredAbove,
        threshold,
        k,
        epsilon,
        adaptive=adaptive,
        branches=branches,
        monotonic=monotonic,
        sensitivity=sensitivity,
        method=method,
        split=split,
        grid=grid,
    )
    return pipeline.release(answers, labels=labels, account=account)


_MOST_PIPELINES = 128


@lru_cache(maxsize=_MOST_PIPELINES, typed=True)
def _remembered(kind: Callable[..., Any], *parameters: Any, **named: Any) -> Any:
    """A pipeline with these parameters, which are public; the last ones made are remembered."""
    return kind(*parameters, **named)


def _pipeline(
    kind: Callable[_Parameters, _Pipeline],
    *parameters: _Parameters.args,
    **named: _Parameters.kwargs,
) -> _Pipeline:
    """A pipeline with these parameters, remembered if possible."""
    remembered: Any = _remembered
    with suppress(TypeError):  # it cannot be remembered, or it cannot be made: then this says why
        return cast(_Pipeline, remembered(kind, *parameters, **named))
    return kind(*parameters, **named)
