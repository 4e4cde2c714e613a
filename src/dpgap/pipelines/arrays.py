"""Select, then measure, then estimate: the winners with numbers and error bars.

Part of ε (`split`) selects, the rest measures what was selected. Methods for the k largest:

- `"best"`, the default: looks at a few order statistics first, and takes the route that will be
  better (`dpgap.pipelines.look_first`).
- `"joint"`: the winners are chosen as one set, whose noise does not grow with k.
- `"ranked"`: the winners are ranked by exponential noise, with gaps, which come free and make the
  estimates more accurate.
- `"paper"`: Laplace noise throughout, gaps, and the paper's estimates.

All but the paper's measure all winners together (`CountHull`, or `Cube` where answers are not
monotonic), and have intervals that hold after selection. What is above a threshold has two methods,
`"best"` and `"paper"`: there is but one route.

>>> import dpgap
>>> best = dpgap.measured_top_k([10, 50, 90, 20], k=1, epsilon=1000)
>>> best.indices.tolist()
[2]
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.private_counts import GroupedAnswers, PrivateCounts, errors_without_answers
from dpgap.exact.grid import read_grid
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
    share,
)
from dpgap.exact.reals import require_scale
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Joint, Laplace
from dpgap.mechanisms.mechanism import Answers, Selecting
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector, Stream
from dpgap.mechanisms.top_k import Candidates, NoisyTopK, claims_of
from dpgap.pipelines import best, paper
from dpgap.pipelines.look_first import LookFirst, ranks_for
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.pipelines.routes import JointRoute, PaperRoute, RankedRoute, build
from dpgap.question import ABOVE_METHODS, METHODS, Question, require_method
from dpgap.releases.drawn import Above, Measuring
from dpgap.releases.release import Measured

_ROUTES: dict[str, type[RankedRoute | JointRoute | PaperRoute]] = {
    "best": RankedRoute,  # where nothing is to be looked at
    "joint": JointRoute,
    "ranked": RankedRoute,
    "paper": PaperRoute,
}
_ABOVE: dict[str, ModuleType] = {"best": best, "paper": paper}
_HALF = Fraction(1, 2)
_SPLITS = {"joint": Fraction(1, 4)}
"""The share of ε that selects unless said; half of it otherwise. A set's noise does not grow with
k, so that a quarter is enough where it stands out at all, and measuring gets the rest."""
_NOISE = {"paper": "laplace"}
_BRANCHES = {"best": 3, "paper": 2}


def _require_noise(pipeline: Any) -> str:
    own, noise = _NOISE.get(pipeline.method, "exponential"), pipeline.noise
    if noise is not None and noise != own:
        raise ValueError(
            f"noise must be {own!r} for method={pipeline.method!r}, not {noise!r}: "
            "its estimates are right for that noise only"
        )
    return own


@public
@declared()
class MeasuredTopK(Selecting[Candidates, Measured]):
    """Find the k largest answers and estimate them: `measured_top_k` as a value to use again.

    Parameters
    ----------
    k, epsilon, monotonic, sensitivity, method, split, noise, grid
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
    method: str = parameter(lambda _, method: require_method(method, METHODS), default="best")
    split: ExactOrNone = parameter(
        or_none(share),
        default=None,
        then=lambda self: self.split or (None if self.looks else _SPLITS.get(self.method, _HALF)),
    )
    """The share of ε that selects; None where a look decides on it."""
    noise: str | None = parameter(
        lambda _, noise: noise, default=None, then=_require_noise, shown=False
    )
    grid: ExactOrNone = parameter(read_grid, default=None)
    route: RankedRoute | JointRoute | PaperRoute = derived(
        lambda self: _ROUTES[self.method].of(
            self,
            (self.split or _HALF) * self.epsilon,
            (1 - (self.split or _HALF)) * self.epsilon,
        )
    )
    """What is taken where nothing is looked at."""
    looking: LookFirst | None = derived(lambda self: LookFirst.of(self) if self.looks else None)
    """What looks and then decides, if there are more answers than winners."""

    @property
    def looks(self) -> bool:
        """Whether a look decides on the route, if there are more answers than winners."""
        return self.method == "best" and self.k > 1

    @property
    def selection(self) -> NoisyTopK | JointTopK:
        """What selects where nothing is looked at; it says which answers are accepted."""
        return self.route.selection

    @property
    def measurement(self) -> Laplace | Joint:
        """What measures where nothing is looked at."""
        return self.route.measurement

    @property
    def routes(self) -> tuple[RankedRoute | JointRoute | PaperRoute, ...]:
        """All routes that a release may take."""
        return (self.route,) if self.looking is None else (self.route, *self.looking.routes)

    def prepare(self, answers: Answers, labels: Sequence[Any] | None = None) -> Candidates:
        return self.route.prepare(answers, labels)

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Look if the method does, select and measure; the caller has paid."""
        looking, n = self.looking, candidates.size
        if looking is None or self.k >= n:
            return self.route.draw_paid(candidates)
        looked = looking.look(candidates)
        number = looking.route(looked, n)
        return looking.routes[number].draw_paid(candidates, looked, n, number)

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def build(self, drawn: Measuring[Any], question: Question | None = None) -> Measured:
        """The release of what was drawn, with estimates; the answer to a question of a table."""
        looking = self.looking
        if looking is None or drawn.route is None:
            return self.route.build(self, drawn, question)
        values = looking.measurement.lengths(drawn.looked).tolist()
        looked = tuple(zip(ranks_for(self.k, drawn.among or 0), values, strict=True))
        look = (("look", looking.measurement),)
        return looking.routes[drawn.route].build(self, drawn, question, look, looked)


@public
@declared()
class MeasuredAbove(Selecting[Stream, Measured]):
    """Find answers above a threshold and estimate them: `measured_above` as a value to use again.

    Parameters
    ----------
    threshold, k, epsilon, adaptive, branches, monotonic, sensitivity, method, split, noise, grid
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
    branches: int | None = parameter(
        lambda _, many: many, default=None, then=lambda self: self._branches(), shown=False
    )
    monotonic: bool = parameter(boolean, default=False, shown=False)
    sensitivity: Exact = parameter(positive_rational, default=1, shown=False)
    selection: SparseVector = derived(lambda self: self._selection(), shown=True)
    measurement: Laplace | Joint = derived(lambda self: self._measurement(), shown=True)
    method: str = parameter(lambda _, method: require_method(method, ABOVE_METHODS), default="best")
    split: Parameter[Rational | None, Fraction] = parameter(
        lambda name, value: _HALF if value is None else share(name, value),
        default=None,
        shown=False,
    )
    """The share of ε that selects."""
    noise: str | None = parameter(
        lambda _, noise: noise, default=None, then=_require_noise, shown=False
    )
    grid: ExactOrNone = parameter(read_grid, default=None, shown=False)

    def _branches(self) -> int | None:
        if self.branches is not None and not self.adaptive:
            raise ValueError("branches must be left out unless adaptive=True")
        return _BRANCHES[self.method] if self.adaptive and self.branches is None else self.branches

    def _selection(self) -> SparseVector:
        part, noise = self.split * self.epsilon, _require_noise(self)
        own: dict[str, Any] = {"noise": noise, **claims_of(self)}
        if not self.adaptive:
            return SparseVector(self.threshold, self.k, part, **own)
        own |= {"branches": self.branches, "drain": self.method == "best"}
        return AdaptiveSparseVector(self.threshold, self.k, part, **own)

    def _measurement(self) -> Laplace | Joint:
        joint = CountHull if self.monotonic else Cube
        kind: type[Laplace | Joint] = joint if self.method == "best" else Laplace
        measurement = kind.after(self.selection, (1 - self.split) * self.epsilon)
        require_scale(measurement.law_in_steps(self.selection.capacity).scale)
        return measurement

    def prepare(
        self, answers: ArrayLike | PrivateCounts | Stream, labels: Sequence[Any] | None = None
    ) -> Stream:
        stream = self.selection.prepare(answers, labels)
        self.measurement.require_room(stream.extremes)
        return stream

    def draw_paid(self, stream: Stream) -> Measuring[Above]:
        """Select and measure; the caller has paid."""
        above, private_answers = self.selection.draw_paid(stream)
        if not private_answers.size:
            return Measuring(above)
        return Measuring(above, self.measurement.draw_paid(private_answers, self.measurement.finer))

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def build(self, drawn: Measuring[Above], question: Question | None = None) -> Measured:
        """The release of what was drawn, with estimates; the answer to a question of a table."""
        chosen, values = drawn.chosen, self.measurement.lengths(drawn.values)
        winners = self.selection.winners(chosen)
        spent = self.selection.spent(chosen.used)
        found = EstimatedWinners(values, values, "measurements", ())
        if values.size:
            spent += self.measurement.epsilon
            estimate = _ABOVE[self.method].above_estimates
            gaps, branches = winners.gaps, chosen.branches
            found = estimate(self.selection, self.measurement, gaps, branches, values)
        return build(
            self,
            (("select", self.selection), ("measure", self.measurement)),
            winners,
            values,
            found,
            question=question,
            grid=self.grid,
            spent=spent,
        )


# --------------------------------------------------------------------------------------------------
# From bare answers to a release: select, measure, estimate, in one call.


Made = TypeVar("Made", MeasuredTopK, MeasuredAbove)


@public
@errors_without_answers
def measured_top_k(
    answers: ArrayLike | PrivateCounts | GroupedAnswers,
    k: int,
    epsilon: Rational,
    *,
    monotonic: bool = False,
    sensitivity: Rational = 1,
    method: str = "best",
    split: Rational | None = None,
    noise: str | None = None,
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> Measured:
    """The k largest answers with estimates and error bars, for ε in all.

    Parameters
    ----------
    answers
        The private answers: an array or a Series, or counts that `dpgap.counts` made.
    k
        How many answers to find.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    method
        "best", the default: looks at a few order statistics first, then finds the winners as a set
        or ranks them, whichever will be better. "joint": as a set; "ranked": ranked, with gaps.
        All of these measure the winners together, with intervals that hold after selection. Or
        "paper": Laplace noise, gaps, and the estimators of the paper.
    split
        The share of ε for selecting. Unless said it is the method's own: a quarter for a set, half
        for a ranking, and the best method decides it after its look. If said, that holds on every
        route. The rest measures, but for what a look takes (at most 0.08).
    noise
        The method's own noise; another one is refused, since estimates would be wrong for it.
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.
    labels
        Public names of the answers, in the same order. A Series brings its own.
    account
        What the release is charged to, such as `dpgap.Ledger(url).account("sales")`.

    >>> import dpgap
    >>> best = dpgap.measured_top_k([10, 50, 90, 20], k=2, epsilon=1000, monotonic=True)
    >>> best.indices.tolist(), best.estimates.round().tolist()
    ([2, 1], [90.0, 50.0])
    """
    pipeline = _make(
        MeasuredTopK,
        k,
        epsilon,
        monotonic=monotonic,
        sensitivity=sensitivity,
        method=method,
        split=split,
        noise=noise,
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
    noise: str | None = None,
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> Measured:
    """The answers above a threshold with estimates and error bars, for ε in all.

    Parameters
    ----------
    answers
        The private answers: an array or a Series, or counts that `dpgap.counts` made.
    threshold
        What answers are compared with.
    k
        How many times "above" can be paid for.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    adaptive
        Whether to charge less for answers far above the threshold, and so find more of them.
    branches
        How many branches an adaptive run has. A *branch* is one way to be above, with its own
        noise and its own price. Cheap branches have much noise, so only answers far above clear
        them. For adaptive runs only: 3 for the best method, 2 for the paper's, unless said.
    monotonic
        Whether one person can only move all answers the same way, as adding a person to counts
        can only raise them. It halves the noise; to say so where it is not true voids the promise.
    sensitivity
        The most that one person can move any one answer.
    method
        "best", the default: exponential noise, all winners measured together, intervals that hold
        after selection. Or "paper": Laplace noise and the estimators of the paper.
    split
        The share of ε for selecting, half unless said; the rest measures.
    noise
        The method's own noise; another one is refused, since estimates would be wrong for it.
    grid
        A power of two, such as 0.25. Answers are then real numbers, rounded to multiples of it;
        without it they must be whole.
    labels
        Public names of the answers, in the same order. A Series brings its own.
    account
        What the release is charged to, such as `dpgap.Ledger(url).account("sales")`.

    >>> import dpgap
    >>> found = dpgap.measured_above([3, 250, 7, 180], 100, k=2, epsilon=1000, monotonic=True)
    >>> found.indices.tolist(), found.interval(0.95).shape
    ([1, 3], (2, 2))
    """
    pipeline = _make(
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
        noise=noise,
        grid=grid,
    )
    return pipeline.release(answers, labels=labels, account=account)


def _make(kind: type[Made], *given: Any, **named: Any) -> Made:
    """A pipeline with these parameters, which are public; the last ones made are remembered."""
    try:
        made: Made = _remember(kind, *given, **named)
    except TypeError:  # it cannot be remembered, or it cannot be made: then this says why
        made = kind(*given, **named)
    return made


@lru_cache(maxsize=64, typed=True)
def _remember(kind: Any, *given: Any, **named: Any) -> Any:
    return kind(*given, **named)
