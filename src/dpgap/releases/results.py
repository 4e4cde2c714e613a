"""What mechanisms and pipelines release: public values only, ready to read, print and tabulate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpgap.estimates.errors import (
    Difference,
    GapErrors,
    HistogramError,
    LaplaceSum,
    MeasurementError,
    around,
    half_width_of_all,
    half_width_of_pairs,
)
from dpgap.exact.parameters import confidence_level, positive_integer, readable
from dpgap.exact.reals import Floats, Integers
from dpgap.releases.release import Promise, Release, Selected, named
from dpgap.releases.ways import way_in_words

__all__ = ["Promise", "Release"]  # as well


@dataclass(frozen=True, slots=True, eq=False)
class IndexRelease(Release):
    """Selected indices and nothing else."""

    indices: Integers
    labels: tuple[Any, ...] | None

    def columns(self) -> dict[str, Sequence[Any]]:
        return named(self.indices, self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class TopKRelease(Selected):
    """The winners of a Noisy Top-K, best first, and the gaps between them.

    `gaps[i]` is by how much rank i + 1 leads the next rank; the last one is the lead over the
    best loser (absent where every answer won).
    """

    gaps: Floats

    def gap_between(self, better: int, worse: int) -> float:
        """By how much rank `better` leads rank `worse`; ranks count from 1."""
        better, worse = positive_integer("better", better), positive_integer("worse", worse)
        if not better < worse <= self.gaps.size + 1:
            raise ValueError(
                f"ranks must satisfy 1 <= better < worse <= {self.gaps.size + 1}, "
                f"not {better} and {worse}"
            )
        return float(self.gaps[better - 1 : worse - 1].sum())

    def columns(self) -> dict[str, Sequence[Any]]:
        gaps = [*self.gaps.tolist(), *[None] * (self.indices.size - self.gaps.size)]
        return {
            "rank": list(range(1, self.indices.size + 1)),
            **named(self.indices, self.labels),
            "gap to next": gaps,
        }


@dataclass(frozen=True, slots=True, eq=False)
class MaxRelease(TopKRelease):
    """The winner of a Noisy Max and its gap to the runner-up."""

    @classmethod
    def of(cls, release: TopKRelease) -> "MaxRelease":
        """The same release, read as a single winner."""
        return cls(**{each.name: getattr(release, each.name) for each in fields(release)})

    @property
    def index(self) -> int:
        """The winning index."""
        return int(self.indices[0])

    @property
    def label(self) -> Any:
        """The winner's label, if labels were given."""
        return None if self.labels is None else self.labels[0]

    @property
    def gap(self) -> float | None:
        """The lead over the runner-up; None where there was only one answer."""
        return float(self.gaps[0]) if self.gaps.size else None


@dataclass(frozen=True, slots=True, eq=False)
class HybridRelease(TopKRelease):
    """The winners of a Hybrid Top-K, best first, and the gaps between them.

    The last gap is over what came next: the line, or the best loser where k answers were found.
    `p_values` are of "it is not truly above the line and among the winners' number of largest".
    """

    spent: Fraction

    @property
    def remaining(self) -> Fraction:
        """The part of ε that was not spent: free for other use under the same total."""
        return self.epsilon - self.spent

    @property
    def remark(self) -> str:
        """What cutting the ranking saved."""
        if not self.remaining:
            return ""
        return (
            f"The ranking ended at the line: {readable(self.spent)} of ε was spent, "
            f"and {readable(self.remaining)} is left."
        )


@dataclass(frozen=True, slots=True, eq=False)
class AboveRelease(Selected):
    """The answers that a Sparse Vector found above its threshold, in the order asked.

    `gaps[i]` is by how much `indices[i]` is above the threshold, `branch_of[i]` the branch that it
    cleared. `processed` counts the answers looked at.
    """

    gaps: Floats
    branch_of: Integers
    spent: Fraction
    processed: int
    errors: GapErrors

    @property
    def remaining(self) -> Fraction:
        """The part of ε that was not spent: free for other use under the same total."""
        return self.epsilon - self.spent

    @np.errstate(all="ignore")
    def lower_bounds(self, level: float = 0.95) -> Floats:
        """Each true answer is at least this, with confidence `level` before looking."""
        rows = zip(self.gaps.tolist(), self.branch_of.tolist(), strict=True)
        level = confidence_level(level)
        return np.array([self.errors.lower_bound(gap, branch, level) for gap, branch in rows])

    def columns(self) -> dict[str, Sequence[Any]]:
        return {
            **named(self.indices, self.labels),
            "gap": self.gaps.tolist(),
            "branch": self.branch_of.tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredValues(Release):
    """Measured values, each with the same variance."""

    values: Floats
    error: MeasurementError
    """What each value may be off by."""
    rounding: float
    """How far a true value may be from the one on the grid."""

    @property
    @np.errstate(all="ignore")
    def variance(self) -> float:
        """The variance of each value."""
        return self.error.variance

    @np.errstate(all="ignore")
    def interval(self, level: float = 0.95) -> Floats:
        """For each value, the ends of an interval that holds the true one with this confidence."""
        return self.error.ends(self.values, confidence_level(level), self.rounding)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().T
        return {"value": self.values.tolist(), "low": low.tolist(), "high": high.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Measured(Selected):
    """Selected answers with estimates: what a pipeline releases.

    Whatever is shown is ordered by estimate. Ranks here are ranks by estimate, and count from 1.
    Arrays are in the order of the selection, to which `gaps` refer, unless a table was asked.

    `measurements` are the values as measured; `estimates` also use the gaps, and `variances` are
    theirs, of the noise (rounding to a declared grid is not in them, but it is in intervals).
    `epsilon` is the guarantee, `spent` what it came to.
    """

    gaps: Floats
    measurements: Floats
    estimates: Floats
    variances: Floats
    spent: Fraction
    centres: str
    """What intervals are around: "measurements" or "estimates"."""
    errors: tuple[MeasurementError | LaplaceSum | HistogramError, ...]
    """What those may be off by: one for all of them, or one for each."""
    rounding: float
    """How far a true answer may be from the one on the grid."""
    method: str
    """Which estimates these are: "best", "joint", "ranked" or "paper"."""
    route: str | None = field(default=None, kw_only=True)
    """How a top k was found: "joint" (as a set), "ranked" or "paper"."""
    looked: tuple[tuple[int, float], ...] = field(default=(), kw_only=True)
    """The ranks that were looked at before, and what was measured there."""
    lead: float | None = field(default=None, kw_only=True)
    """By how much a set's half-margin leads that of every other set; None where it is no set."""
    parts: tuple[tuple[str, Fraction], ...] = field(default=(), kw_only=True)
    """What of ε each step of a top k took: to look, to select, to measure."""
    measured_by: MeasurementError | None = field(default=None, kw_only=True)
    """What measurements may be off by, where `errors` are about something else."""

    @property
    def remaining(self) -> Fraction:
        """The part of ε that was not spent."""
        return self.epsilon - self.spent

    @property
    def remark(self) -> str:
        """Which route was taken, and what each step took of ε."""
        shares = {step: part / self.epsilon for step, part in self.parts}
        return way_in_words(self.route, shares, self.lead)

    @np.errstate(all="ignore")
    def interval(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval that holds the true one; shape (k, 2).

        With `method="best"` the confidence holds for the answers that were selected: the interval
        is the measurement's, which selection does not touch. Of a noisy histogram it is that of
        the noise, given that the answer reached the line; where that leaves no lower end, it is
        −∞. With `method="paper"` it is that of the noise, before looking at who was selected.
        """
        level = confidence_level(level)
        centres: Floats = getattr(self, self.centres)
        if len(self.errors) == 1:
            return self.errors[0].ends(centres, level, self.rounding)
        each = zip(self.errors, centres[:, None], strict=True)
        ends = [error.ends(centre, level, self.rounding) for error, centre in each]
        return np.concatenate([np.empty((0, 2)), *ends])

    @property
    def order(self) -> Integers:
        """The places of the answers, the largest estimate first."""
        return np.argsort(-self.estimates, kind="stable")

    @np.errstate(all="ignore")
    def difference(self, better: int, worse: int, level: float = 0.95) -> Difference:
        """By how much rank `better` leads rank `worse`: the estimate, and the ends of an interval.

        Which pairs one looks at depends on the noise. So the confidence holds for all pairs at
        once, and for the answers that were selected. The interval comes from the measurement
        alone, which selection does not touch, or allows for the selection. Where nothing is known
        of that, it has no ends.
        """
        better, worse = positive_integer("better", better), positive_integer("worse", worse)
        if not better < worse <= self.indices.size:
            raise ValueError(
                f"ranks must satisfy 1 <= better < worse <= {self.indices.size}, "
                f"not {better} and {worse}"
            )
        one, other = self.order[[better - 1]], self.order[[worse - 1]]
        (estimate,) = (self.estimates[one] - self.estimates[other]).tolist()
        ((low, high),) = self.ends_of_pairs(one, other, level).tolist()
        return Difference(estimate, low, high)

    def ends_of_pairs(self, ones: Integers, others: Integers, level: float = 0.95) -> Floats:
        """By how much answers at some places lead those at others: ends, for all pairs at once."""
        error = self.measuring_error
        if isinstance(error, HistogramError):
            ends = self.ends_of_all(level)
            (low, high), (other_low, other_high) = ends[ones].T, ends[others].T
            return np.stack([low - other_high, high - other_low], axis=1)
        measured = self.measurements[ones] - self.measurements[others]
        return around(measured, self.half_width_of_pairs(level))

    def groups(self, level: float = 0.95) -> tuple[tuple[int, ...], ...]:
        """Ranks by estimate, in groups whose neighbours cannot be told apart.

        Every rank is in one group, perhaps alone. With confidence `level`, all answers in a group
        are larger than all answers in later groups.
        """
        if isinstance(self.measuring_error, HistogramError):
            (low, high), half = self.ends_of_all(level)[self.order].T, 0.0
        else:
            low = high = self.measurements[self.order]
            half = self.half_width_of_pairs(level)
        ahead = np.minimum.accumulate(low)[:-1]
        behind = np.maximum.accumulate(high[::-1])[::-1][1:]
        cuts = np.flatnonzero(ahead - behind > half) + 1
        parts = np.split(np.arange(1, low.size + 1), cuts)
        return tuple(tuple(part.tolist()) for part in parts if part.size)

    def tells_apart(self, ranks: Integers, level: float = 0.95) -> bool:
        """Whether any two of these ranks by estimate can be told apart."""
        places = self.order[ranks - 1]
        if isinstance(self.measuring_error, HistogramError):
            low, high = self.ends_of_all(level)[places].T
            return bool(low.max() > high.min())
        return bool(np.ptp(self.measurements[places]) > self.half_width_of_pairs(level))

    def half_widths_of_leads(self, level: float = 0.95) -> Floats:
        """How far the lead of each estimate over the next may be off, for all of them at once.

        The interval of a lead is around the difference that was measured. What is said here is
        wide enough to hold that interval around the difference of the estimates.
        """
        ones, others = self.order[:-1], self.order[1:]
        leads = self.estimates[ones] - self.estimates[others]
        if isinstance(self.measuring_error, HistogramError):
            low, high = self.ends_of_pairs(ones, others, level).T
            widest: Floats = np.maximum(leads - low, high - leads)
            return widest
        off = np.abs(leads - (self.measurements[ones] - self.measurements[others]))
        widths: Floats = self.half_width_of_pairs(level) + off
        return widths

    def half_width_of_pairs(self, level: float = 0.95) -> float:
        """How far the measured difference of any two answers is off, for all pairs at once.

        Of a noisy histogram it is said of answers that are clear of the line; `ends_of_pairs` is
        about all of them.
        """
        level, error = confidence_level(level), self.measuring_error
        if error is None:
            return math.inf
        if isinstance(error, HistogramError):
            half = error.half_width_of_pairs(self.indices.size, level)
        else:
            half = half_width_of_pairs(error, self.indices.size, level)
        return half + 2 * self.rounding

    def ends_of_all(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval; they hold for all of them at once."""
        level, error = confidence_level(level), self.measuring_error
        if isinstance(error, HistogramError):
            return error.ends_of_all(self.measurements, level, self.rounding)
        half = math.inf
        if error is not None:
            half = half_width_of_all(error, self.indices.size, level) + self.rounding
        return around(self.measurements, half)

    @property
    def measuring_error(self) -> MeasurementError | HistogramError | None:
        """What each measurement may be off by; None where it was not kept."""
        own = [error for error in self.errors[:1] if not isinstance(error, LaplaceSum)]
        return self.measured_by or (own[0] if own else None)

    def columns(self) -> dict[str, Sequence[Any]]:
        from dpgap.releases.rows import columns_of

        return columns_of(self)


@dataclass(frozen=True, slots=True, eq=False)
class JointRelease(Selected):
    """The top set that a Joint Top-K found: a set, so that the order of its members says nothing.

    `lead` is by how much its noisy half-margin leads that of any other set. `p_value` is that of
    "this is not the true top set": where it is not, so large a lead has at most this chance. It is
    the p-value of every member.
    """

    lead: float
    p_value: float

    is_proved_as_a_set: ClassVar[bool] = True

    @property
    def p_values(self) -> Floats:
        return np.full(self.indices.size, self.p_value)

    def columns(self) -> dict[str, Sequence[Any]]:
        return named(self.indices, self.labels)

    @property
    def remark(self) -> str:
        """How far it leads, and what that says."""
        return (
            f"As a set it leads every other by {self.lead:.1f}; "
            f"p = {self.p_value:.2g} for “this is not the true top set”."
        )
