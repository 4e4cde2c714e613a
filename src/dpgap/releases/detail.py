"""How a release was made: when, by which mechanisms, with which promise, and all its details.

All of it is recorded once, when the release is made. Later output depends only on the release.
"""

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from dpgap._package import __version__
from dpgap.budget.cost import Cost
from dpgap.estimates.certificates import Evidence
from dpgap.estimates.errors import GapErrors, LaplaceSum, MeasurementError
from dpgap.exact.parameters import exact_text, readable, remembered
from dpgap.printable import printable
from dpgap.question import HISTOGRAM, METHODS, promise_in_words
from dpgap.releases.forms import (
    ERROR,
    EVIDENCE,
    FLAG,
    GAP_ERRORS,
    LENGTH,
    MEASUREMENT_ERROR,
    MOMENT,
    PARAMETERS,
    POSITIVE,
    TEXT,
    THRESHOLD,
    WHOLE_COST,
    each,
    pairs,
    real,
    stated,
    whole,
    word,
)


class LedgerReference(NamedTuple):
    """The entry of a ledger that paid for a release."""

    dataset: Annotated[str, TEXT]
    entry: Annotated[int, whole(0)]
    hash: Annotated[str, TEXT]


class Provenance(NamedTuple):
    """When a release was made, by which version of dpgap, and who paid."""

    time: Annotated[str, MOMENT]
    dpgap: Annotated[str, TEXT]
    ledger: Annotated[LedgerReference | None, stated(LedgerReference)] = None
    again: bool = False
    """Whether it was paid for earlier, and is shown from an archive. No document stores this."""

    @property
    def notice(self) -> str:
        """A note about an answer that is shown again; empty if the answer is new."""
        if not self.again:
            return ""
        asked = f"Asked before at {self._moment}, nothing charged"
        return f"{asked}; fresh=True pays for the rows as they are now."

    @property
    def _moment(self) -> str:
        return f"{self.time[:10]} {self.time[11:16]} UTC"

    @classmethod
    def now(cls) -> "Provenance":
        """The provenance of a release that is made now."""
        return cls(f"{datetime.now(UTC).isoformat()[:19]}Z", __version__)

    def words(self, table: str | None = None) -> str:
        """One line for people, in which no name can do harm.

        >>> Provenance("2026-11-15T20:01:02Z", "0.1.0").words("sales.csv")
        'sales.csv, 2026-11-15 20:01 UTC, dpgap 0.1.0'
        """
        time, version = self._moment, f"dpgap {self.dpgap}"
        paid = self.ledger and f"entry {self.ledger.entry} of data set {self.ledger.dataset!r}"
        again = "shown again" if self.again else None
        return printable(", ".join(filter(None, (table, time, version, paid, again))))


class MechanismUsed(NamedTuple):
    """A mechanism that took part in a release: its name and its parameters."""

    name: Annotated[str, TEXT]
    parameters: Annotated[tuple[tuple[str, str | int | bool | None], ...], PARAMETERS]
    """Names and values; exact numbers are text such as "7/10"."""

    @staticmethod
    @remembered
    def of(mechanism: Any) -> "MechanismUsed":
        """The name of a mechanism and the parameters that its `repr` shows."""
        parameters = []
        for parameter in fields(mechanism):
            if parameter.repr:
                value = getattr(mechanism, parameter.name)
                text = value if isinstance(value, str | int | None) else exact_text(value)
                parameters.append((parameter.name, text))
        return MechanismUsed(type(mechanism).__name__, tuple(parameters))


class Promise(NamedTuple):
    """The guarantee of a release, and its conditions."""

    cost: Annotated[Cost, WHOLE_COST]
    """The most that such a release costs. Its δ is the chance that an item of only one person is
    shown; 0 if items are known."""
    sensitivity: Annotated[Fraction, POSITIVE]
    monotonic: Annotated[bool, FLAG]
    reach: Annotated[int | None, whole(1)] = None
    """The most answers that one person can change; None if it does not matter."""

    def __str__(self) -> str:
        which = "each answer" if self.reach is None else f"at most {self.reach:,} answers, each"
        which = "at most one answer," if self.reach == 1 else which
        direction = ", all of them in the same direction" if self.monotonic else ""
        change = "one person's data were added or taken away"
        public = "The number of answers, their labels and all parameters are public."
        if self.cost.delta:
            public = "All parameters are public. Which items there are is private."
        most = self.cost
        promise = promise_in_words(most.pure_epsilon, most.delta, change, "person")
        return (
            f"{promise} This holds if one "
            f"person changes {which} by at most {readable(self.sensitivity)}{direction}. You must "
            f"make sure of that. {public}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What else was released: how the answer was made, and what its errors are computed from.

    A field that a release does not have is None, or an empty tuple.
    """

    promise: Annotated[Promise, stated(Promise)]
    """The guarantee of an array, and its conditions; `guarantee` says it in words."""
    mechanisms: Annotated[tuple[MechanismUsed, ...], each(stated(MechanismUsed))]
    """The mechanisms, in the order in which they ran, with their parameters."""
    method: Annotated[str | None, word(*METHODS, HISTOGRAM)] = None
    """The method that was asked for."""
    route: Annotated[str | None, word("joint", "ranked", "paper", HISTOGRAM, "hybrid")] = None
    """How a top k was found: as a set ("joint"), or ranked."""
    looked: Annotated[tuple[tuple[int, float], ...], each(pairs(whole(1), real()))] = ()
    """The ranks of the first look, and their measured values."""
    evidence: Annotated[Evidence | None, EVIDENCE] = None
    """Leads over what winners had to beat; None if the noise can be negative."""
    centres: Annotated[str | None, word("measurements", "estimates")] = None
    """The centres of intervals: "measurements" or "estimates"."""
    errors: Annotated[tuple[MeasurementError | LaplaceSum, ...], each(ERROR)] = ()
    """The errors of these centres: one for all of them, or one for each."""
    measured_by: Annotated[MeasurementError | None, MEASUREMENT_ERROR] = None
    """The error of the measurements, if `errors` are not about them."""
    gap_errors: Annotated[GapErrors | None, GAP_ERRORS] = None
    """The noise in gaps above a threshold."""
    thresholds: Annotated[tuple[Fraction, ...] | None, each(THRESHOLD)] = None
    """The threshold of each answer above, if questions of a run had thresholds of their own."""
    rounding: Annotated[float | None, LENGTH] = None
    """The largest distance between a true answer and its rounded value on the grid."""
    processed: Annotated[int | None, whole(0)] = None
    """How many answers a Sparse Vector compared; None if the release does not say it."""
