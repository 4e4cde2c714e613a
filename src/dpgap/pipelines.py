"""Select, then measure, then estimate: the winners with numbers and error bars.

Part of ε (`split`) selects, the rest measures what was selected. The gaps of the selection come
free and make the measurements more accurate. `method="paper"` is the paper's pipeline: Laplace
noise throughout, the BLUE after a Top-K, inverse variances after a Sparse Vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpgap.budget import Account, charged
from dpgap.estimates import blue, blue_variance, combine, combined_variance
from dpgap.exact import Floats, Integers, require_scale
from dpgap.intervals import laplace_sum_half_width
from dpgap.mechanisms.measurement import Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.parameters import Rational, boolean, positive_rational, share
from dpgap.private_answers import Answers
from dpgap.releases import AboveRelease, Measured, TopKRelease

METHODS = ("paper",)


@dataclass(frozen=True, slots=True, init=False)
class MeasuredTopK:
    """Find the k largest answers and estimate them.

    >>> pipeline = MeasuredTopK(2, epsilon=1000, monotonic=True)
    >>> release = pipeline.release([10, 50, 90, 20])
    >>> release.indices.tolist(), release.interval(0.95).shape
    ([2, 1], (2, 2))
    """

    selection: NoisyTopK
    measurement: Laplace
    method: str

    def __init__(
        self,
        k: int,
        epsilon: Rational,
        *,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        method: str = "paper",
        split: Rational = "1/2",
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "method", _require_method(method))
        to_select, to_measure = _divided(epsilon, split)
        selection = NoisyTopK(k, to_select, monotonic=monotonic, sensitivity=sensitivity, grid=grid)
        keep(self, "selection", selection)
        keep(self, "measurement", Laplace(to_measure, sensitivity=sensitivity, grid=grid))
        require_scale(self.measurement.law_in_steps(selection.k).scale)

    @property
    def epsilon(self) -> Fraction:
        """The guarantee for both steps together."""
        return self.selection.epsilon + self.measurement.epsilon

    def release(
        self,
        answers: ArrayLike | Answers,
        *,
        labels: Sequence[Any] | None = None,
        account: Account | None = None,
    ) -> Measured:
        """Select and measure on secure exact noise, then estimate."""
        steps, names = self.selection._accept(answers, labels)
        with charged(account, self.epsilon, self):
            selected = self.selection._draw(steps, names)
            measured = self.measurement._draw(steps[selected.indices])
        return self._estimated(selected, measured.values)

    def _estimated(self, selected: TopKRelease, measurements: Floats) -> Measured:
        k, grid = self.selection.k, float(self.selection.grid or 1)
        measured, ratio = self.measurement.variance(k), self._variance_ratio
        gaps = selected.gaps.copy()
        if gaps.size == k - 1 and k > 1:
            gaps[-1] += grid / 2  # with no loser, the floored leads meet one that is exact
        return Measured(
            indices=selected.indices,
            gaps=selected.gaps,
            labels=selected.labels,
            measurements=measurements,
            estimates=blue(measurements, gaps, ratio),
            variances=np.full(k, blue_variance(k, measured, ratio)),
            epsilon=self.epsilon,
            spent=self.epsilon,
            promise=selected.promise._replace(epsilon=self.epsilon),
            half_widths=lambda level: np.full(k, self._half_width(level)),
        )

    @property
    def _variance_ratio(self) -> float:
        """The variance of the selection's noise over the measurements'; both on the grid."""
        selecting = self.selection.in_steps().law.floor_variance
        return selecting / self.measurement.law_in_steps(self.selection.k).floor_variance

    def _half_width(self, level: float) -> float:
        """The BLUE is off by these multiples of independent draws, and of half steps."""
        k, ratio = self.selection.k, self._variance_ratio
        whole = k * (1 + ratio)
        measuring = float(self.measurement.law_in_steps(k).scale) / whole
        selecting = float(self.selection.in_steps().law.scale) / whole
        terms = [
            (measuring * (1 + ratio * k), 1),
            (measuring, k - 1),
            (selecting * (k - 1), 1),
            (selecting, k - 1),
        ]
        floored = (1 + ratio * k + 3 * (k - 1)) / whole / 2
        width = laplace_sum_half_width(terms, level) + floored
        return width * float(self.selection.grid or 1)


@dataclass(frozen=True, slots=True, init=False)
class MeasuredAbove:
    """Find answers above a threshold and estimate them.

    >>> pipeline = MeasuredAbove(100, 2, epsilon=1000, monotonic=True)
    >>> pipeline.release([3, 250, 7, 180, 400]).indices.tolist()
    [1, 3]
    """

    selection: SparseVector
    measurement: Laplace
    method: str

    def __init__(
        self,
        threshold: Rational,
        k: int,
        epsilon: Rational,
        *,
        adaptive: bool = False,
        monotonic: bool = False,
        sensitivity: Rational = 1,
        method: str = "paper",
        split: Rational = "1/2",
        grid: Rational | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "method", _require_method(method))
        to_select, to_measure = _divided(epsilon, split)
        sparse_vector = AdaptiveSparseVector if boolean("adaptive", adaptive) else SparseVector
        selection = sparse_vector(
            threshold, k, to_select, monotonic=monotonic, sensitivity=sensitivity, grid=grid
        )
        keep(self, "selection", selection)
        keep(self, "measurement", Laplace(to_measure, sensitivity=sensitivity, grid=grid))
        require_scale(self.measurement.law_in_steps(selection.capacity).scale)

    @property
    def epsilon(self) -> Fraction:
        """The guarantee for both steps together."""
        return self.selection.epsilon + self.measurement.epsilon

    def release(
        self,
        answers: ArrayLike | Answers,
        *,
        labels: Sequence[Any] | None = None,
        account: Account | None = None,
    ) -> Measured:
        """Select and measure on secure exact noise, then estimate.

        As many answers as were found are measured, which may be more or fewer than k. Nothing is
        spent on measuring where none was found.
        """
        steps, names = self.selection._accept(answers, labels)
        with charged(account, self.epsilon, self) as charge:
            selected = self.selection._draw(steps, names)
            charge.spent = selected.spent
            measurements = np.empty(0)
            if selected.indices.size:
                measurements = self.measurement._draw(steps[selected.indices]).values
                charge.spent += self.measurement.epsilon
        return self._estimated(selected, measurements, charge.spent)

    def _estimated(self, selected: AboveRelease, measurements: Floats, spent: Fraction) -> Measured:
        grid = float(self.selection.grid or 1)
        program, branches = self.selection.in_steps(), selected.branch_of
        of_branch = np.array([way.law.floor_variance for way in program.ways])
        gap_variance = (of_branch + program.threshold_law.floor_variance)[branches - 1] * grid**2
        estimates = variances = np.empty(0)
        if branches.size:
            measured = self.measurement.variance(branches.size)
            estimates = combine(
                measurements,
                selected.gaps,
                float(self.selection.threshold),
                measured,
                gap_variance,
            )
            variances = combined_variance(measured, gap_variance)
        return Measured(
            indices=selected.indices,
            gaps=selected.gaps,
            labels=selected.labels,
            measurements=measurements,
            estimates=estimates,
            variances=variances,
            epsilon=self.epsilon,
            spent=spent,
            promise=selected.promise._replace(epsilon=self.epsilon),
            half_widths=lambda level: self._half_widths(branches, gap_variance, level),
        )

    def _half_widths(self, branches: Integers, gap_variance: Floats, level: float) -> Floats:
        """Each estimate is off by a mean of its measurement's noise and its gap's."""
        if not branches.size:
            return np.empty(0)
        grid = float(self.selection.grid or 1)
        program = self.selection.in_steps()
        measuring = float(self.measurement.law_in_steps(branches.size).scale)
        measured = self.measurement.variance(branches.size)
        width = {}
        for branch, variance in set(zip(branches.tolist(), gap_variance.tolist(), strict=True)):
            of_gap = measured / (measured + variance)
            terms = [
                (measuring * (1 - of_gap), 1),
                (float(program.ways[branch - 1].law.scale) * of_gap, 1),
                (float(program.threshold_law.scale) * of_gap, 1),
            ]
            floored = (1 + of_gap) / 2
            width[branch] = (laplace_sum_half_width(terms, level) + floored) * grid
        return np.array([width[branch] for branch in branches.tolist()])


def _require_method(method: object) -> str:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, not {method!r}")
    return str(method)


def _divided(epsilon: Rational, split: Rational) -> tuple[Fraction, Fraction]:
    """ε for selecting and ε for measuring."""
    whole, part = positive_rational("epsilon", epsilon), share("split", split)
    return part * whole, (1 - part) * whole


def measured_top_k(
    answers: ArrayLike | Answers,
    k: int,
    epsilon: Rational,
    *,
    monotonic: bool = False,
    sensitivity: Rational = 1,
    method: str = "paper",
    split: Rational = "1/2",
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> Measured:
    """The k largest answers with estimates and error bars, for ε in all: see `MeasuredTopK`."""
    pipeline = MeasuredTopK(
        k,
        epsilon,
        monotonic=monotonic,
        sensitivity=sensitivity,
        method=method,
        split=split,
        grid=grid,
    )
    return pipeline.release(answers, labels=labels, account=account)


def measured_above(
    answers: ArrayLike | Answers,
    threshold: Rational,
    k: int,
    epsilon: Rational,
    *,
    adaptive: bool = False,
    monotonic: bool = False,
    sensitivity: Rational = 1,
    method: str = "paper",
    split: Rational = "1/2",
    grid: Rational | None = None,
    labels: Sequence[Any] | None = None,
    account: Account | None = None,
) -> Measured:
    """The answers above a threshold with estimates, for ε in all: see `MeasuredAbove`."""
    pipeline = MeasuredAbove(
        threshold,
        k,
        epsilon,
        adaptive=adaptive,
        monotonic=monotonic,
        sensitivity=sensitivity,
        method=method,
        split=split,
        grid=grid,
    )
    return pipeline.release(answers, labels=labels, account=account)
