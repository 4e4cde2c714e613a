"""Select, then measure, then estimate: the winners with numbers and error bars.

Part of ε (`split`) selects, the rest measures what was selected. The gaps of the selection come
free and make the measurements more accurate. Two methods:

- `"best"`, the default: exponential noise, measurement of all winners together (`CountHull`, or
  `Cube` where answers are not monotonic), estimates and intervals that hold after selection.
- `"paper"`: Laplace noise throughout, the BLUE after a Top-K, inverse variances after a Sparse
  Vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpgap import public
from dpgap.budget.account import Account, Request, charged
from dpgap.data.grouped_counts import GroupedAnswers
from dpgap.data.private_counts import PrivateCounts
from dpgap.data.tracebacks import errors_without_answers
from dpgap.estimates.errors import MeasurementError
from dpgap.exact.draws import Floats, require_scale
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import Rational, boolean, positive_rational, share
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.measuring.measurement import Joint
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.sparse_vector.streams import Stream
from dpgap.mechanisms.top_k.candidates import Candidates
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.pipelines import best, paper
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.releases.provenance import MechanismUsed
from dpgap.releases.results import AboveRelease, Measured, TopKRelease

_METHODS: dict[str, ModuleType] = {"best": best, "paper": paper}
_NOISE = {"best": "exponential", "paper": "laplace"}
_BRANCHES = {"best": 3, "paper": 2}


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """What both pipelines are made of: a selection, a measurement, and how they are combined."""

    selection: NoisyTopK | SparseVector
    measurement: Laplace | Joint
    method: str

    @property
    def epsilon(self) -> Fraction:
        """The guarantee for both steps together."""
        return self.selection.epsilon + self.measurement.epsilon

    def _keep(
        self, selection: NoisyTopK | SparseVector, most: int, epsilon: Fraction, method: str
    ) -> None:
        """Select like this, and measure up to `most` answers with the rest of ε."""
        joint = CountHull if selection.monotonic else Cube
        kind: type[Laplace | Joint] = joint if method == "best" else Laplace
        measurement = kind.after(selection, epsilon)
        require_scale(measurement.law_in_steps(most).scale)
        keep = object.__setattr__
        keep(self, "selection", selection)
        keep(self, "measurement", measurement)
        keep(self, "method", method)

    def _release(
        self,
        selected: TopKRelease | AboveRelease,
        measurements: Floats,
        found: EstimatedWinners,
        spent: Fraction,
    ) -> Measured:
        return Measured(
            indices=selected.indices,
            gaps=selected.gaps,
            labels=selected.labels,
            evidence=selected.evidence,
            measurements=measurements,
            **found._asdict(),
            rounding=Grid(self.selection.grid).rounding,
            epsilon=self.epsilon,
            spent=spent,
            promise=selected.promise._replace(epsilon=self.epsilon),
            method=self.method,
            measured_by=self._measured_by(found, measurements.size),
            mechanisms=(*selected.mechanisms, MechanismUsed.of(self.measurement)),
        )

    def _measured_by(self, found: EstimatedWinners, count: int) -> MeasurementError | None:
        """What measurements may be off by, where intervals are around something else."""
        return self.measurement.error(count) if found.centres == "estimates" and count else None


@public
@dataclass(frozen=True, slots=True, init=False)
class MeasuredTopK(Pipeline):
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
        method = require_method(method)
        to_select, to_measure = _divide(epsilon, split)
        selection = NoisyTopK(
            k,
            to_select,
            monotonic=monotonic,
            sensitivity=sensitivity,
            noise=_require_noise(noise, method),
            grid=grid,
        )
        self._keep(selection, selection.k, to_measure, method)

    @errors_without_answers
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
        candidates = self.prepare(answers, labels)
        with charged(account, Request(self.epsilon, self)) as charge:
            return charge.keep(self.draw_paid(candidates))

    def prepare(
        self,
        answers: ArrayLike | PrivateCounts | GroupedAnswers,
        labels: Sequence[Any] | None = None,
    ) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        candidates = self.selection.prepare(answers, labels)
        self.measurement.require_room(candidates.private_answers)
        return candidates

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def draw_paid(self, candidates: Candidates) -> Measured:
        """Select, measure and estimate; the caller has paid."""
        selected, private_answers = self.selection.draw_paid(candidates)
        values = self.measurement.measure_selected(private_answers)
        estimate = _METHODS[self.method].top_k_estimates
        found = estimate(self.selection, self.measurement, selected, values)
        return self._release(selected, values, found, self.epsilon)


@public
@dataclass(frozen=True, slots=True, init=False)
class MeasuredAbove(Pipeline):
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
        method = require_method(method)
        to_select, to_measure = _divide(epsilon, split)
        facts: dict[str, Any] = {
            "monotonic": monotonic,
            "sensitivity": sensitivity,
            "noise": _require_noise(noise, method),
            "grid": grid,
        }
        selection: SparseVector
        if boolean("adaptive", adaptive):
            facts["branches"] = _BRANCHES[method] if branches is None else branches
            facts["drain"] = method == "best"
            selection = AdaptiveSparseVector(threshold, k, to_select, **facts)
        elif branches is not None:
            raise ValueError("branches must be left out unless adaptive=True")
        else:
            selection = SparseVector(threshold, k, to_select, **facts)
        self._keep(selection, selection.capacity, to_measure, method)

    @errors_without_answers
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
        stream = self.prepare(answers, labels)
        with charged(account, Request(self.epsilon, self)) as charge:
            release = charge.keep(self.draw_paid(stream))
            charge.spent = release.spent
        return release

    def prepare(
        self, answers: ArrayLike | PrivateCounts | Stream, labels: Sequence[Any] | None = None
    ) -> Stream:
        """The answers as a stream; refused before anything is charged."""
        stream = self.selection.prepare(answers, labels)
        self.measurement.require_room(stream.extremes)
        return stream

    @np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
    def draw_paid(self, stream: Stream) -> Measured:
        """Select, measure and estimate; the caller has paid."""
        selected, private_answers = self.selection.draw_paid(stream)
        spent, values = selected.spent, np.empty(0)
        if selected.indices.size:
            values = self.measurement.measure_selected(private_answers)
            spent += self.measurement.epsilon
        found = EstimatedWinners(values, values, "measurements", ())
        if values.size:
            estimate = _METHODS[self.method].above_estimates
            found = estimate(self.selection, self.measurement, selected, values)
        return self._release(selected, values, found, spent)


def require_method(method: object) -> str:
    """`method`, if there is one of that name."""
    if method not in tuple(_METHODS):
        raise ValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, not {method!r}")
    return str(method)


def _require_noise(noise: str | None, method: str) -> str:
    if noise is not None and noise != _NOISE[method]:
        raise ValueError(
            f"noise must be {_NOISE[method]!r} for method={method!r}, not {noise!r}: "
            "its estimates are right for that noise only"
        )
    return _NOISE[method]


def _divide(epsilon: Rational, split: Rational) -> tuple[Fraction, Fraction]:
    """ε for selecting and ε for measuring."""
    whole, part = positive_rational("epsilon", epsilon), share("split", split)
    return part * whole, (1 - part) * whole
