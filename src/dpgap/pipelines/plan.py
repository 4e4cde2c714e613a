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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Unpack

import numpy as np

from dpgap._package import public
from dpgap.exact.grid import MAX_STEPS
from dpgap.exact.parameters import Rational, boolean, positive_integer, positive_rational, readable
from dpgap.exact.reals import Floats, TooNarrowError, TooWideError
from dpgap.mechanisms.histogram import NoisyHistogram, Wanted
from dpgap.pipelines.arrays import Facts, MeasuredAbove, MeasuredTopK
from dpgap.pipelines.look_first import forecast
from dpgap.pipelines.routes import Expectation, HistogramRoute
from dpgap.question import ABOVE_METHODS, HISTOGRAM, METHODS, one_of, require_options, takes
from dpgap.releases.release import Table

# --------------------------------------------------------------------------------------------------
# The forecast for counts of stated sizes: how many winners would be right.
#
# The sizes are public: expectations, or an older release. The rule and its forecast are those of a
# release; here the look shows exactly the stated sizes.


Sizes = Sequence[float] | Mapping[int, float]
"""The largest answers in order, or answers by rank, from 1."""

_NUMBERS = 900 * 40
"""The number of ε to choose from: those of three digits from 10^-9 to 10^31."""


def foreseen(pipeline: MeasuredTopK, counts: Sizes, items: int | None) -> tuple[Expectation, float]:
    """The expected errors for answers of this size, and the share of right winners.

    With its noise, a look may choose other routes: the error in a close race is the largest of
    theirs. There is no forecast for the paper's method.
    """
    n = positive_integer("items", items)
    if n <= pipeline.k:
        raise ValueError(f"items must be more than k, {pipeline.k}, not {n}")
    if n > MAX_STEPS:
        raise ValueError(f"items must be at most 2^60, not {n}")
    ranks, sizes = _by_rank(counts, n)
    seen, route = forecast(pipeline.k, n, ranks), pipeline.route
    found = pipeline.expectation()
    if pipeline.looking is not None:
        rule = pipeline.looking.rule(n)
        looked = seen.counts_at(sizes[None], rule.ranks)
        numbers = rule.decide(np.concatenate([looked, looked + rule.places])).tolist()
        route, found = pipeline.looking.routes[numbers[0]], pipeline.looking.expectation(numbers)
    looks = sizes[None] / (float(pipeline.sensitivity) * (1 if pipeline.monotonic else 2))
    epsilon = float(route.selection.epsilon)
    as_set, ranked = seen.precisions(looks, np.array([epsilon]), epsilon / pipeline.k)
    return found, float(as_set[0, 0] if route.name == "joint" else ranked[0])


def _by_rank(counts: Sizes, n: int) -> tuple[tuple[int, ...], Floats]:
    """Check the sizes, and return ranks and sizes."""
    if isinstance(counts, str) or not hasattr(counts, "__len__"):
        raise TypeError("counts must be a sequence of numbers, or numbers by rank")
    given = counts if isinstance(counts, Mapping) else dict(enumerate(counts, start=1))
    pairs = sorted((positive_integer("a rank in counts", rank), given[rank]) for rank in given)
    sizes = np.array([size for _, size in pairs], dtype=np.float64)
    if not sizes.size or not (np.isfinite(sizes).all() and (sizes >= 0).all()):
        raise ValueError("counts must be numbers from 0 up, at least one")
    if (np.diff(sizes) > 0).any():
        raise ValueError("counts must not grow with the rank: the largest has rank 1")
    if pairs[-1][0] > n:
        raise ValueError(f"counts must have ranks up to items, {n}, not {pairs[-1][0]}")
    return tuple(rank for rank, _ in pairs), sizes


def _least(expected: Callable[[Fraction], "Expected"], error: Fraction) -> Fraction:
    """The least ε of three digits whose error is not above this one. Errors fall as ε grows."""

    def is_enough(at: int) -> bool:
        try:
            return expected(_three_digits(at)).error <= error
        except (TooWideError, TooNarrowError) as out_of_range:
            return isinstance(out_of_range, TooNarrowError)  # so this ε is too large to be tried

    at = bisect_left(range(_NUMBERS), True, key=is_enough)
    if at == 0:
        raise ValueError("error must be smaller: ε = 10^-9 already has a smaller error")
    least = _three_digits(at)
    with suppress(TooNarrowError):
        expected(least)
        return least
    raise ValueError("error must be larger: no ε reaches it on this grid")


def _three_digits(at: int) -> Fraction:
    """The number at this index among those of three digits: 10^-9 is first, 10^-8 the 901st."""
    power, place = divmod(at, 900)
    return (100 + place) * Fraction(10) ** (power - 11)


# --------------------------------------------------------------------------------------------------


BASELINE = "baseline"
"""Measuring with Laplace noise and half of ε while ignoring gaps."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected errors of one method with this ε.

    `error` is the root of the mean squared error of each estimate where winners are clear, and
    `close_error` where they are hard to tell from losers: None where it may be anything. The
    `half_width` is that of the widest 95 % interval that a release of k answers may have; where
    there is no `close_error`, that of clear winners. All of them are larger where more than k are
    found above a threshold. Answers are compared with noise of the standard deviation
    `selection_noise`. `precision` is the share of winners that will be right, where sizes were
    stated.
    """

    method: str
    epsilon: Fraction
    error: float
    close_error: float | None
    half_width: float
    selection_noise: float
    precision: float | None = None


IN_PYTHON = " (for a table, state monotonic=True: errors are smaller)"


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

    >>> expected = plan(k=10, epsilon=1, method="best")
    >>> expected.error == expected["best"].error
    True
    """

    rows: tuple[Expected, ...]
    k: int
    split: Fraction | None
    monotonic: bool
    select: str
    max_items: int | None = None

    def __getitem__(self, method: str) -> Expected:
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
        same = "counts that all move in the same direction"
        kind = same if self.monotonic else f"answers of any kind{IN_PYTHON}"
        split = "" if self.split is None else f", {readable(self.split)} of ε for selecting"
        told = " If more than k are found, errors and 95% ± grow." if self.select == "above" else ""
        if self.max_items is not None:
            many = "1 item" if self.max_items == 1 else f"{self.max_items} items"
            told += (
                f" A unit counts for at most {many}. If units have more, counts are too low, and "
                "these errors do not include that."
            )
        return (
            f"For k = {self.k}, {kind}{split} ({self.select}). Errors are standard errors of each "
            "estimate: if winners are clear, and in a close race. 95% ± is the widest interval in "
            "both cases. If no error is shown for a close race, 95% ± is for clear winners "
            f"only.{told} Nothing has been spent."
        )

    def columns(self) -> dict[str, Sequence[Any]]:
        shown: dict[str, Sequence[Any]] = {
            "method": [row.method for row in self.rows],
            "ε": [readable(row.epsilon) for row in self.rows],
            "error": [row.error for row in self.rows],
            "close race": [row.close_error for row in self.rows],
            "95% ±": [row.half_width for row in self.rows],
            "selection noise": [row.selection_noise for row in self.rows],
        }
        shares = [row.precision for row in self.rows]
        if any(shares):
            shown["right"] = [None if it is None else f"{100 * it:.1f} %" for it in shares]
        return shown


@public
@takes(Facts, Facts)
def plan(
    *,
    k: int,
    epsilon: Rational | None = None,
    error: float | None = None,
    method: str | None = None,
    select: str = "top-k",
    adaptive: bool = False,
    counts: "Sizes | None" = None,
    items: int | None = None,
    max_items: int | None = None,
    **facts: Unpack[Facts],
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
        A method of `dpgap.measured_top_k` or `dpgap.measured_above`, or "baseline" (Laplace
        measurement with half of ε, gaps ignored). The default is all of them.
    select
        The question: "top-k" or "above".
    adaptive
        Whether items far above the threshold cost less; for "above" only.
    counts
        The expected sizes of answers: the largest in order, or some by rank, such as {1: 9000, 10:
        2000, 100: 300}. Take them from public knowledge or an older release, never from the private
        data. For "top-k" only.
    items
        With `counts`: how many answers there are in all.
    max_items
        The most items that a unit counts for, if this is bounded. Then there is one more method,
        "histogram".
    {options}

    >>> print(plan(k=10, epsilon=0.7, monotonic=True))  # doctest: +ELLIPSIS
      method    ε  error  close race  95% ±  selection noise
        best  0.7    9.1        16.2   32.2             19.0
       joint  0.7    9.7         9.7   19.3             11.4
      ranked  0.7   14.2        14.6   28.9             28.6
       paper  0.7   30.0               62.1             40.4
    baseline  0.7   40.4        40.4   85.5             40.4
    <BLANKLINE>
    For k = 10, counts that all move in the same direction (top-k)...
    >>> float(plan(k=10, error=10, method="best", monotonic=True).epsilon)
    0.638
    """
    require_options("plan", facts, Facts)
    claimed, split = dict[str, Any](facts), facts.get("split")
    top = one_of("select", select, ("top-k", "above")) == "top-k"
    reach = None if max_items is None else positive_integer("max_items", max_items)
    bounded = () if reach is None else (HISTOGRAM,)
    known = (*(METHODS if top else ABOVE_METHODS), *bounded, BASELINE)
    methods = known if method is None else (one_of("method", method, known),)
    if (epsilon is None) == (error is None):
        raise ValueError("state epsilon or error, one of the two")
    count = positive_integer("k", k)
    if boolean("adaptive", adaptive) and top:
        raise ValueError("adaptive must be False unless select='above'")
    if (counts is None) != (items is None) or (counts is not None and not top):
        raise ValueError("counts and items must be given together, for select='top-k' only")

    def expected(name: str, whole: Fraction) -> Expected:
        precision, own = None, claimed
        if name == HISTOGRAM:
            own = {given: own[given] for given in ("sensitivity", "grid") if given in own}
            histogram = NoisyHistogram(whole, reach=reach or 1, **own)
            found = HistogramRoute(histogram, Wanted(count)).expectation()
        else:
            own = {"method": "paper" if name == BASELINE else name, **claimed}
            made: MeasuredTopK | MeasuredAbove = (
                MeasuredTopK(count, whole, **own)
                if top
                else MeasuredAbove(0, count, whole, adaptive=adaptive, **own)
            )
            found = made.expectation()
            if name == "best" and reach is not None and split is None:
                read_off = expected(HISTOGRAM, whole)  # a release chooses in the same way
                if read_off.error <= ((not top and found.close_error) or found.error):
                    return replace(read_off, method=name)
            if name == BASELINE:  # gaps are ignored
                alone = Expectation.of_measurements(made.measurement.error(count), 0.0)
                found = alone._replace(selection_noise=found.selection_noise)
            elif counts is not None and name != "paper" and isinstance(made, MeasuredTopK):
                found, precision = foreseen(made, counts, items)
        return Expected(name, whole, *found, precision)

    def row(name: str) -> Expected:
        of = partial(expected, name)
        if error is None:
            return of(positive_rational("epsilon", epsilon))
        return of(_least(of, positive_rational("error", error)))

    share = None if split is None else positive_rational("split", split)
    same_way = boolean("monotonic", facts.get("monotonic", False))
    return Plan(tuple(map(row, methods)), count, share, same_way, select, reach)
