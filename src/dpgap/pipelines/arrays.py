"""From bare answers to a release: select, measure, estimate, in one call.

>>> import dpgap
>>> best = dpgap.measured_top_k([10, 50, 90, 20], k=1, epsilon=1000)
>>> best.indices.tolist()
[2]
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.private_counts import GroupedAnswers, PrivateCounts, errors_without_answers
from dpgap.exact.parameters import Rational
from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK
from dpgap.releases.release import Measured

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
    is_hashable = all(isinstance(each, Hashable) for each in (*given, *named.values()))
    made: Made = (_remember if is_hashable else _make_anew)(kind, *given, **named)
    return made


def _make_anew(kind: Any, *given: Any, **named: Any) -> Any:
    return kind(*given, **named)


_remember: Any = lru_cache(maxsize=64, typed=True)(_make_anew)
