"""What a release looks like: public values only, ready to read, print and tabulate.

Nothing here has ever seen a private number. Each release carries its guarantee in plain words.
"""

import html
import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.errors import GapErrors, LaplaceSum, MeasurementError
from dpgap.exact.parameters import confidence_level, positive_integer, readable
from dpgap.releases.plain import plain
from dpgap.releases.provenance import MechanismUsed, Provenance

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


ROUTES = ("joint", "ranked", "paper")
"""How a top k may be found: as one set, ranked, or as in the paper."""
METHODS = ("best", *ROUTES)
"""What may be asked for; the best method takes a route."""


class Promise(NamedTuple):
    """What a release promises, and on what condition."""

    epsilon: Fraction
    sensitivity: Fraction
    monotonic: bool

    def __str__(self) -> str:
        direction = ", all of them in the same direction" if self.monotonic else ""
        return (
            f"Pure differential privacy with ε = {readable(self.epsilon)} and no δ: if one "
            "person's data were added or taken away, nothing shown here (gaps included) would "
            f"become more than {factor(self.epsilon)} times as likely or unlikely. This holds "
            "provided that one person changes each answer by at most "
            f"{readable(self.sensitivity)}{direction}; that is for you to see to. How many "
            "answers there are, their labels and all parameters are public."
        )


def factor(epsilon: Fraction) -> str:
    """How much likelier ε allows anything to become."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{readable(epsilon)}"


class Table(ABC):
    """Something with rows: prints as text, shows as HTML in a notebook, becomes a data frame."""

    __slots__ = ()

    promise: Promise

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return str(self.promise)

    @property
    def remark(self) -> str:
        """What there is to say besides the rows, in plain words; it may be nothing."""
        return ""

    @abstractmethod
    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows, column by column."""

    def to_frame(self) -> Any:
        """The rows as a data frame: pandas if it is installed, else Polars."""
        for library in ("pandas", "polars"):
            try:
                return importlib.import_module(library).DataFrame(self.columns())
            except ModuleNotFoundError:
                continue
        raise ModuleNotFoundError("to_frame() needs pandas or polars: pip install pandas")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values that JSON can hold; exact numbers are text such as "7/10"."""
        values: dict[str, Any] = plain(self)
        return values | {"guarantee": self.guarantee}

    def __str__(self) -> str:
        columns = self.filled_columns()
        rows = [list(columns), *zip(*map(texts, columns.values()), strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, "", *filter(None, [self.remark]), self.guarantee])

    def filled_columns(self) -> dict[str, Sequence[Any]]:
        """The columns, but for those that have rows and nothing in them."""
        columns = self.columns().items()
        return {
            name: col for name, col in columns if not len(col) or any(c is not None for c in col)
        }

    def _repr_html_(self) -> str:
        said = "".join(
            f"<p>{html.escape(said)}</p>" for said in (self.remark, self.guarantee) if said
        )
        return self.rows_in_html() + said

    def rows_in_html(self) -> str:
        """The rows as a table of HTML, in which names are only text."""
        columns = self.filled_columns()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*map(texts, columns.values()), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def steps_in_words(route: str, shares: dict[str, Fraction]) -> str:
    """The route, and the share of ε that each step took."""
    said = {step: f"{readable(part)} of ε to {step}" for step, part in shares.items()}
    look = f"{said.pop('look')}; " if "look" in said else ""
    return f"{look}{route}: {', '.join(said.values())}."


def texts(column: Sequence[Any]) -> Iterator[str]:
    """The cells of a column as they are shown."""
    for cell in column:
        if cell is None:
            yield ""
        elif isinstance(cell, float | np.floating):
            yield f"{cell:.1f}" if abs(float(cell)) < 1e15 else f"{cell:.6g}"
        else:
            # An item's name is untrusted: no control characters in a terminal.
            yield "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(cell))


def named(indices: Integers, labels: Sequence[Any] | None) -> dict[str, Sequence[Any]]:
    """The column that says which answer a row is about."""
    return {"index": indices.tolist()} if labels is None else {"label": labels}


@dataclass(frozen=True, slots=True, eq=False)
class Release(Table):
    """What every release is besides its rows: when it was made, how, and how to keep it."""

    epsilon: Fraction
    """What is guaranteed for all of it."""
    promise: Promise
    made: Provenance = field(default_factory=Provenance.now, kw_only=True)
    """When, by which version of dpgap, and which entry of a ledger paid."""
    mechanisms: tuple[MechanismUsed, ...] = field(default=(), kw_only=True)
    """What drew the noise, in order, with all parameters."""

    def to_dict(self) -> dict[str, Any]:
        """The release document as plain values: see `to_json`."""
        from dpgap.releases.document import document

        return document(self)

    def to_json(self) -> str:
        """The release document: all that was released, as JSON that `dpgap.read_release` reads.

        Exact numbers are text such as "7/10", and all letters are ASCII.
        """
        from dpgap.releases.json_text import written

        return written(self.to_dict())

    def again(self) -> Self:
        """The same release, shown again: it was paid for before."""
        return replace(self, made=self.made._replace(again=True))

    def paid_by(self, reference: Mapping[str, Any]) -> Self:
        """The same release, with the ledger's entry: "dataset", "entry" and "hash"."""
        return replace(self, made=self.made.paid_by(reference))


@dataclass(frozen=True, slots=True, eq=False)
class IndexRelease(Release):
    """Selected indices and nothing else."""

    indices: Integers
    labels: tuple[Any, ...] | None

    def columns(self) -> dict[str, Sequence[Any]]:
        return named(self.indices, self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class TopKRelease(Release):
    """The winners of a Noisy Top-K, best first, and the gaps between them.

    `gaps[i]` is by how much rank i + 1 leads the next rank; the last one is the lead over the
    best loser (absent where every answer won).
    """

    indices: Integers
    gaps: Floats
    labels: tuple[Any, ...] | None

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
class AboveRelease(Release):
    """The answers that a Sparse Vector found above its threshold, in the order asked.

    `gaps[i]` is by how much `indices[i]` is above the threshold, `branch_of[i]` the branch that it
    cleared. `processed` counts the answers looked at.
    """

    indices: Integers
    gaps: Floats
    branch_of: Integers
    labels: tuple[Any, ...] | None
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
        half = self.error.half_width(confidence_level(level)) + self.rounding
        return np.stack([self.values - half, self.values + half], axis=1)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().T
        return {"value": self.values.tolist(), "low": low.tolist(), "high": high.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Measured(Release):
    """Selected answers with estimates: what a pipeline releases.

    `measurements` are the values as measured; `estimates` also use the gaps, and `variances` are
    theirs, of the noise (rounding to a declared grid is not in them, but it is in intervals).
    `epsilon` is the guarantee, `spent` what it came to.
    """

    indices: Integers
    gaps: Floats
    labels: tuple[Any, ...] | None
    measurements: Floats
    estimates: Floats
    variances: Floats
    spent: Fraction
    centres: str
    """What intervals are around: "measurements" or "estimates"."""
    errors: tuple[MeasurementError | LaplaceSum, ...]
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

    @property
    def remaining(self) -> Fraction:
        """The part of ε that was not spent."""
        return self.epsilon - self.spent

    @property
    def remark(self) -> str:
        """What each step took of ε, and which route was taken; such as "0.05 of ε to look; joint".

        >>> steps_in_words("joint", {"look": Fraction("0.05"), "select": Fraction("0.15")})
        '0.05 of ε to look; joint: 0.15 of ε to select.'
        """
        shares = {step: part / self.epsilon for step, part in self.parts}
        words = "" if self.route is None else steps_in_words(self.route, shares)
        lead = "" if self.lead is None else f" As a set they lead every other by {self.lead:.1f}."
        return words + lead

    @np.errstate(all="ignore")
    def interval(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval that holds the true one; shape (k, 2).

        With `method="best"` the confidence holds for the answers that were selected: the interval
        is the measurement's, which selection does not touch. With `method="paper"` it is that of
        the noise, before looking at who was selected.
        """
        level = confidence_level(level)
        half = np.array([error.half_width(level) for error in self.errors]) + self.rounding
        centres: Floats = getattr(self, self.centres)
        return np.stack([centres - half, centres + half], axis=1)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().T
        gaps = [*self.gaps.tolist(), *[None] * (self.indices.size - self.gaps.size)]
        return {
            "rank": list(range(1, self.indices.size + 1)),
            **named(self.indices, self.labels),
            "estimate": self.estimates.tolist(),
            "95% low": low.tolist(),
            "95% high": high.tolist(),
            "gap": gaps,
        }


@dataclass(frozen=True, slots=True, eq=False)
class JointRelease(Release):
    """The top set that a Joint Top-K found: a set, so that the order of its members says nothing.

    `lead` is by how much its noisy half-margin leads that of any other set. `p_value` is that of
    "this is not the true top set": where it is not, so large a lead has at most this chance.
    """

    indices: Integers
    labels: tuple[Any, ...] | None
    lead: float
    p_value: float

    def columns(self) -> dict[str, Sequence[Any]]:
        return named(self.indices, self.labels)

    @property
    def remark(self) -> str:
        """How far it leads, and what that says."""
        return (
            f"As a set it leads every other by {self.lead:.1f}; "
            f"p = {self.p_value:.2g} for “this is not the true top set”."
        )
