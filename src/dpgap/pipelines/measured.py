"""Select, then measure, then estimate: the winners with numbers and error bars.

Part of ε (`split`) selects, the rest measures what was selected. The gaps of the selection come
free and make the measurements more accurate. Two methods:

- `"best"`, the default: exponential noise, measurement of all winners together (`CountHull`, or
  `Cube` where answers are not monotonic), estimates and intervals that hold after selection.
- `"paper"`: Laplace noise throughout, the BLUE after a Top-K, inverse variances after a Sparse
  Vector.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpgap import public
from dpgap.budget.account import Account, Request, charged
from dpgap.data.grouped_counts import GroupedAnswers
from dpgap.data.private_counts import PrivateCounts
from dpgap.data.tracebacks import errors_without_answers
from dpgap.exact.draws import Floats, require_scale
from dpgap.exact.parameters import Rational, boolean, positive_rational, share
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.measuring.measurement import Joint
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.sparse_vector.streams import Stream
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.pipelines import best, paper
from dpgap.pipelines.paper import Estimated
from dpgap.releases.results import AboveRelease, Measured, TopKRelease

METHODS = ("best", "paper")
_NOISE = {"best": "exponential", "paper": "laplace"}
_BRANCHES = {"best": 3, "paper": 2}


@public
@dataclass(frozen=True, slots=True, init=False)
class MeasuredTopK:
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

    selection: NoisyTopK
    measurement: Laplace | Joint
    method: str

    def __init__(
        self,
        k: int,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        method: str = "best",
        split: Rational = 0.5,
        noise: str | None = None,
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "method", require_method(method))
        to_select, to_measure = _divided(epsilon, split)
        selection = NoisyTopK(
            k,
            to_select,
            monotonic=monotonic,
            sensitivity=sensitivity,
            noise=_fitting(noise, self.method),
            grid=grid,
        )
        keep(self, "selection", selection)
        keep(self, "measurement", _measurement(selection, to_measure, self.method, selection.k))

    @property
    def epsilon(self) -> Fraction:
        """The guarantee for both steps together."""
        return self.selection.epsilon + self.measurement.epsilon

    @errors_without_answers
    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def release(
        self,
        answers: ArrayLike | PrivateCounts | GroupedAnswers,
        *,
        labels: Sequence[Any] | None = None,
        account: Account | None = None,
    ) -> Measured:
        """Select and measure on secure exact noise, then estimate.

        `answers`, `labels` and `account` are as for `measured_top_k`.
        """
        candidates = self.selection.prepare(answers, labels)
        self.measurement.require_room(candidates.private_answers)
        with charged(account, Request.for_mechanism(self.epsilon, self)):
            selected, private_answers = self.selection.draw_paid(candidates)
            values = self.measurement.measure_selected(private_answers)
        found = _TOP_K[self.method](self.selection, self.measurement, selected, values)
        return _release(self, selected, values, found, self.epsilon)


@public
@dataclass(frozen=True, slots=True, init=False)
class MeasuredAbove:
    """Find answers above a threshold and estimate them: `measured_above` as a value to use again.

    Parameters
    ----------
    threshold, k, epsilon, adaptive, branches, monotonic, sensitivity, method, split, noise, grid
        As for `measured_above`.

    >>> pipeline = MeasuredAbove(100, 2, epsilon=1000, monotonic=True)
    >>> pipeline.release([3, 250, 7, 180, 400]).indices.tolist()
    [1, 3]
    """

    selection: SparseVector
    measurement: Laplace | Joint
    method: str

    def __init__(
        self,
        threshold: Rational,
        k: int,
        epsilon: Rational,
        *,
        adaptive: bool = False,
        branches: int | None = None,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        method: str = "best",
        split: Rational = 0.5,
        noise: str | None = None,
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "method", require_method(method))
        to_select, to_measure = _divided(epsilon, split)
        facts: dict[str, Any] = {
            "monotonic": monotonic,
            "sensitivity": sensitivity,
            "noise": _fitting(noise, self.method),
            "grid": grid,
        }
        selection: SparseVector
        if boolean("adaptive", adaptive):
            facts["branches"] = _BRANCHES[self.method] if branches is None else branches
            facts["drain"] = self.method == "best"
            selection = AdaptiveSparseVector(threshold, k, to_select, **facts)
        elif branches is not None:
            raise ValueError("branches must be left out unless adaptive=True")
        else:
            selection = SparseVector(threshold, k, to_select, **facts)
        keep(self, "selection", selection)
        most = selection.capacity
        keep(self, "measurement", _measurement(selection, to_measure, self.method, most))

    @property
    def epsilon(self) -> Fraction:
        """The guarantee for both steps together."""
        return self.selection.epsilon + self.measurement.epsilon

    @errors_without_answers
    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def release(
        self,
        answers: ArrayLike | PrivateCounts | Stream,
        *,
        labels: Sequence[Any] | None = None,
        account: Account | None = None,
    ) -> Measured:
        """Select and measure on secure exact noise, then estimate.

        `answers`, `labels` and `account` are as for `measured_above`. As many answers as were
        found are measured, be they more or fewer than k; where none was, that costs nothing.
        """
        stream = self.selection.prepare(answers, labels)
        self.measurement.require_room(stream.extremes)
        with charged(account, Request.for_mechanism(self.epsilon, self)) as charge:
            selected, private_answers = self.selection.draw_paid(stream)
            charge.spent = selected.spent
            values = np.empty(0)
            if selected.indices.size:
                values = self.measurement.measure_selected(private_answers)
                charge.spent += self.measurement.epsilon
        found = Estimated(values, values, "measurements", ())
        if values.size:
            found = _ABOVE[self.method](self.selection, self.measurement, selected, values)
        return _release(self, selected, values, found, charge.spent)


Pipeline = TypeVar("Pipeline", MeasuredTopK, MeasuredAbove)


def _release(
    pipeline: MeasuredTopK | MeasuredAbove,
    selected: TopKRelease | AboveRelease,
    measurements: Floats,
    found: Estimated,
    spent: Fraction,
) -> Measured:
    grid = pipeline.selection.grid
    return Measured(
        indices=selected.indices,
        gaps=selected.gaps,
        labels=selected.labels,
        measurements=measurements,
        **found._asdict(),
        rounding=0.0 if grid is None else float(grid) / 2,
        epsilon=pipeline.epsilon,
        spent=spent,
        promise=selected.promise._replace(epsilon=pipeline.epsilon),
    )


_TOP_K: dict[str, Any] = {
    "best": best.top_k_estimates,
    "paper": paper.top_k_estimates,
}
_ABOVE: dict[str, Any] = {
    "best": best.above_estimates,
    "paper": paper.above_estimates,
}


def require_method(method: object) -> str:
    """`method`, if there is one of that name."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, not {method!r}")
    return str(method)


def _fitting(noise: str | None, method: str) -> str:
    if noise is not None and noise != _NOISE[method]:
        raise ValueError(
            f"noise must be {_NOISE[method]!r} for method={method!r}, not {noise!r}: "
            "its estimates are right for that noise only"
        )
    return _NOISE[method]


def _divided(epsilon: Rational, split: Rational) -> tuple[Fraction, Fraction]:
    """ε for selecting and ε for measuring."""
    whole, part = positive_rational("epsilon", epsilon), share("split", split)
    return part * whole, (1 - part) * whole


def _measurement(
    selection: NoisyTopK | SparseVector, epsilon: Fraction, method: str, most: int
) -> Laplace | Joint:
    """What measures up to `most` answers with the rest of ε."""
    joint = CountHull if selection.monotonic else Cube
    kind: type[Laplace | Joint] = joint if method == "best" else Laplace
    measurement = kind.after(selection, epsilon)
    require_scale(measurement.law_in_steps(most).scale)
    return measurement


def _made(kind: type[Pipeline], *given: Any, **named: Any) -> Pipeline:
    """A pipeline with these parameters, which are public; the last ones made are remembered."""
    hashable = all(isinstance(each, Hashable) for each in (*given, *named.values()))
    made: Pipeline = (_remembered if hashable else _made_anew)(kind, *given, **named)
    return made


def _made_anew(kind: Any, *given: Any, **named: Any) -> Any:
    return kind(*given, **named)


_remembered: Any = lru_cache(maxsize=64, typed=True)(_made_anew)


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
    split: Rational = 0.5,
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
        "best", the default: exponential noise, all winners measured together, intervals that hold
        after selection. Or "paper": Laplace noise and the estimators of the paper.
    split
        The share of ε for selecting; the rest measures.
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
    pipeline = _made(
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
    split: Rational = 0.5,
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
        The share of ε for selecting; the rest measures.
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
    pipeline = _made(
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
