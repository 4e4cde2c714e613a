"""The types of releases: guarantee, rows, document, estimates, and what leads prove.

No private number ever gets here. Each release states its guarantee in plain words.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from dpgap._package import __version__
from dpgap.budget.cost import Cost
from dpgap.estimates.certificates import Evidence, belonging
from dpgap.estimates.errors import (
    Difference,
    GapErrors,
    HistogramError,
    LaplaceSum,
    MeasurementError,
    around,
    ends_of_quotients,
)
from dpgap.exact.parameters import (
    approximately,
    confidence_level,
    exact_text,
    positive_integer,
    readable,
    readable_down,
    readable_up,
    remembered,
)
from dpgap.exact.reals import Flags, Floats, Integers, without_float_errors
from dpgap.printable import column_name, printable, visible
from dpgap.question import HISTOGRAM, Question, promise_in_words
from dpgap.releases.plain import (
    attempted,
    exact_value,
    in_words,
    number,
    plain,
    returned_or_written,
    separated,
    written,
)
from dpgap.releases.rows import Row, RowSequence, columns_of, csv_of, frame_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Place = str | PathLike[str]

# --------------------------------------------------------------------------------------------------
# When and how a release was made: the time, the version, the ledger's entry, the mechanisms.
#
# All of it is recorded once, when the release is made. Later output depends only on the release.


TIME = "%Y-%m-%dT%H:%M:%SZ"


class LedgerReference(NamedTuple):
    """The entry of a ledger that paid for a release."""

    dataset: str
    entry: int
    hash: str


class Provenance(NamedTuple):
    """When a release was made, by which version of dpgap, and who paid."""

    time: str
    dpgap: str
    ledger: LedgerReference | None = None
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

    name: str
    parameters: tuple[tuple[str, str | int | bool | None], ...]
    """Names and values; exact numbers are text such as "7/10"."""

    @staticmethod
    @remembered
    def of(mechanism: Any) -> "MechanismUsed":
        """The name of a mechanism and the parameters that its `repr` shows."""
        parameters = []
        for each in filter(attrgetter("repr"), fields(mechanism)):
            value = getattr(mechanism, each.name)
            text = value if isinstance(value, str | int | None) else exact_text(value)
            parameters.append((each.name, text))
        return MechanismUsed(type(mechanism).__name__, tuple(parameters))


# --------------------------------------------------------------------------------------------------


NAMES = ("item", "group")
"""The columns of names; names are untrusted."""
HEADINGS = {
    "low": "95% low",
    "high": "95% high",
    "gap": "gap to next",
    "give_or_take": "give or take",
}
"""Headings of columns for people, if they differ from the names of columns."""
_OUTWARDS = {"low": math.floor, "high": math.ceil, "give_or_take": math.ceil}
"""How ends of intervals and lengths are rounded for people."""


class Promise(NamedTuple):
    """The guarantee of a release, and its conditions."""

    cost: Cost
    """The most that such a release costs. Its δ is the chance that an item of only one person is
    shown; 0 if items are known."""
    sensitivity: Fraction
    monotonic: bool
    reach: int | None = None
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


def question_of(release: Any) -> Question | None:
    """The question that was asked of a table; None for an array."""
    asked: Question | None = getattr(release, "question", None)
    return asked


def measured_in(question: Question) -> str:
    """The name of the numbers, such as "customer count" or "total amount"."""
    if question.kind == "count" or question.sum is None:
        return f"{column_name(question.unit)} count"
    return f"total {column_name(question.sum)}"


def title_of(release: Any) -> str:
    """The title of a release, for people; all names in it are escaped."""
    question = question_of(release)
    if question is None:
        return str(release._title)
    return attempted("title", "A release", _of_question, question)


def _of_question(question: Question) -> str:
    """The title of a question. Names of columns stay as they are: there is no plural for all."""
    if question.kind == "count":
        title = f"Count: {column_name(question.unit)}"
    elif question.is_of_all:
        title = f"Total: {column_name(question.sum or '')}"
    else:
        line = question.threshold
        which = f"Top {question.k:,}" if line is None else f"Above {separated(line)}"
        title = f"{which}: {column_name(question.item)}, by {measured_in(question)}"
    if question.by is not None:
        title += f", for {'each ' if question.group is None else ''}{column_name(question.by)}"
    if question.group is not None:
        title += f" {printable(str(question.group))}"
    return title if question.where is None else f"{title}, with a filter"


def _refuse_attribute(release: object, name: str, value: object = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name!r} of a release")


def _line(table: Any) -> str:
    """The line that `repr` returns."""
    epsilon = f"; ε = {readable(table.epsilon)}" if hasattr(table, "epsilon") else ""
    return f"<{type(table).__name__}: {title_of(table)}{epsilon}>".replace("= ≈", "≈ ")


class Showing(NamedTuple):
    """The functions that make documents, sentences, pages and plots of a release.

    They know every kind of release, so they are in modules above this one. `dpgap.releases`
    registers them here.
    """

    document: Callable[[Any], dict[str, Any]]
    drawn: Callable[[Any], dict[str, Any]]
    findings: Callable[[Any], tuple[str, ...]]
    page: Callable[[Any, str | None, Place | None], str]
    cell: Callable[[Any], str]
    plot: Callable[[Any, "Axes | None"], "Axes"]


class Table(ABC):
    """A value with rows: text when printed, HTML in a notebook, and `to_frame()`."""

    __slots__ = ()

    _showing: ClassVar[Showing]
    _title: ClassVar[str] = "what to expect of each method"
    promise: Promise

    def __init_subclass__(cls) -> None:
        """Refuse every attribute that is not a field: OpenDP tries to attach the answers.

        A dataclass with slots would raise a TypeError for such an attribute. Its own `repr` has
        lines of arrays, and fails if a number has too many digits to write.
        """
        cls.__repr__ = _line  # type: ignore[method-assign]
        if "__setattr__" in vars(cls):
            cls.__setattr__ = cls.__delattr__ = _refuse_attribute  # type: ignore[method-assign]

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        asked = question_of(self)
        return str(self.promise) if asked is None else asked.guarantee()

    @property
    def remark(self) -> str:
        """How the answer was found, in plain words; it may be empty."""
        return ""

    @abstractmethod
    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows, column by column."""

    @property
    def headings(self) -> Mapping[str, str]:
        """Headings of columns for people, if they differ from the names of columns."""
        return HEADINGS

    def to_frame(self, library: str | None = None) -> Any:
        """The rows as a data frame.

        `library` is "pandas", "polars" or "pyarrow"; by default pandas if it is installed, else
        Polars. The names of columns depend only on the kind of release.
        """
        return frame_of(self.columns(), library)

    def to_dict(self) -> dict[str, Any]:
        """All fields as a dictionary that JSON can hold; exact numbers are text such as "7/10"."""
        return {**plain(self), "guarantee": self.guarantee}

    @property
    def findings(self) -> tuple[str, ...]:
        """What may be believed, in plain sentences, the most important first."""
        return self._showing.findings(self)

    def cells(self) -> dict[str, list[str]]:
        """The rows as text, column by column; without p, and columns without any number."""
        columns = {name: cells for name, cells in self.columns().items() if name != "p"}
        numbers = [columns[name] for name in columns if name not in NAMES]
        floats = [cell for column in numbers for cell in column if isinstance(cell, float)]
        digits = int(not all(map(float.is_integer, floats)))
        texts = {}
        for name, cells in columns.items():
            if name in NAMES or not cells or list(cells).count(None) < len(cells):
                texts[name] = [_shown(cell, name, digits) for cell in cells]
        lows, highs = texts.get("low", []), texts.get("high", [])
        for place, low in enumerate(lows):
            if not low:  # an interval without a lower end
                lows[place], highs[place] = "–", f"≤ {highs[place]}"
        return {self.headings.get(name, name): cells for name, cells in texts.items()}

    def __str__(self) -> str:
        found = attempted("findings", (), getattr, self, "findings")
        rows = attempted("rows", "", self._lines)
        parts = (self._notice(), "\n".join(found), rows, "\n".join(self._words()))
        return "\n\n".join(filter(None, parts))

    def _notice(self) -> str:
        """The first line of the text; it may be empty."""
        return ""

    def _lines(self) -> str:
        """The rows as text."""
        columns = [(name, *cells) for name, cells in self.cells().items() if cells]
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True)
        return "\n".join("  ".join(map(str.rjust, row, widths)).rstrip() for row in rows)

    def _words(self) -> Iterator[str]:
        """The sentences below the rows."""
        names = ("remark", "guarantee")
        return filter(None, (attempted(name, "", getattr, self, name) for name in names))

    def _repr_html_(self) -> str:
        return self._showing.cell(self)


def _shown(cell: Any, name: str, digits: int) -> str:
    """The text of a cell. Ends of intervals are rounded outwards; names are untrusted."""
    if name in NAMES:
        return visible(plain(cell))
    if not isinstance(cell, float | None):
        return printable(str(plain(cell)))
    if cell is None:
        return ""
    form = f",.{digits}f"
    if abs(cell) >= 1e15:  # six digits of it
        form, digits = ".6g", 5 - math.floor(math.log10(abs(cell)))
    return f"{_outwards(cell, name, digits):{form}}"


def _outwards(cell: float, name: str, digits: int) -> float:
    """A number with some digits: ends of intervals and lengths are rounded outwards."""
    rounded = _OUTWARDS.get(name)
    return cell if rounded is None else rounded(round(cell * 10.0**digits, 6)) / 10.0**digits


def p_text(p: float) -> str:
    """A p-value with two or three digits.

    >>> p_text(0.0004), p_text(0.0321), p_text(0.5)
    ('< 0.001', '0.032', '0.50')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def finite(value: float) -> float | None:
    """The same float, or None if it is infinite or not a number: JSON has neither."""
    return value if math.isfinite(value) else None


def _two_ranks(better: int, worse: int, most: int) -> tuple[int, int]:
    better, worse = positive_integer("better", better), positive_integer("worse", worse)
    if not better < worse <= most:
        raise ValueError(
            f"ranks must satisfy 1 <= better < worse <= {most}, not {better} and {worse}"
        )
    return better, worse


@dataclass(frozen=True, slots=True, eq=False)
class Release(Table):
    """The base of every release: its rows, how and when it was made, and its document."""

    cost: Cost
    """What the release did cost; its parts are the steps in which it was made."""
    promise: Promise
    made: Provenance = field(default_factory=Provenance.now, kw_only=True)
    mechanisms: tuple[MechanismUsed, ...] = field(default=(), kw_only=True)

    @property
    def epsilon(self) -> Fraction | None:
        """The ε of the guarantee: the most that such a release costs."""
        return self.promise.cost.epsilon

    @property
    def spent(self) -> Fraction | None:
        """The part of ε that was spent."""
        return self.cost.epsilon

    @property
    def remaining(self) -> Fraction | None:
        """The part of ε that was not spent: free for other use under the same total."""
        return (self.promise.cost - self.cost).epsilon

    def to_dict(self) -> dict[str, Any]:
        """The release document as plain values: see `to_json`."""
        return self._showing.document(self)

    def to_json(self) -> str:
        """The release document: all that was released, as JSON that `dpgap.read_release` reads.

        Exact numbers are text such as "7/10", and all letters are ASCII.
        """
        return written(self.to_dict())

    def to_archive(self) -> str:
        """The document for an archive: only what was drawn.

        So no sentence, row or interval is made before a release is archived. `dpgap.read_release`
        reads this document, and computes them.
        """
        return written(self._showing.drawn(self))

    def to_csv(self, path: Place | None = None) -> str:
        """Return the rows as CSV text, or write them to a file and return its path.

        Every row ends with the question, the ε and the time (UTC). So a file says what it is, and
        no program has to skip lines above the names of columns. ε is the nearest number; a document
        has the exact one. A name that begins like a formula gets an apostrophe in front, as in
        spreadsheets.
        """
        facts = {
            "question": self._purpose(),
            "epsilon": number(self.promise.cost.pure_epsilon),
            "time": self.made.time,
        }
        return returned_or_written(csv_of(self.columns(), facts), path)

    def _purpose(self) -> str:
        """The question in one line; without a question, the names of the mechanisms."""
        question = question_of(self)
        if question is None:
            return ", ".join(used.name for used in self.mechanisms)
        return question.purpose if question.is_private else f"{question.purpose} (NOT private)"

    def to_html(self, path: Place | None = None, *, title: str | None = None) -> str:
        """Return this release as the text of a self-contained HTML page, or write it to a file.

        With a `path`, the page is written to that file, and the path is returned; an existing file
        is replaced. `title` is the heading of the page, any text. It is not stored in the release.
        """
        return self._showing.page(self, title, path)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the estimates with their 95 % intervals, or the gaps, with Matplotlib.

        The drawing goes to the Axes `ax`, and nothing else is changed. Without `ax`, pyplot makes a
        figure. A notebook shows it, and pyplot keeps it until you close it.
        """
        return self._showing.plot(self, ax)

    def again(self) -> Self:
        """The same release, marked as shown again: it was paid for before."""
        return self._with(self.made._replace(again=True))

    def paid_by(self, reference: Mapping[str, Any]) -> Self:
        """The same release, with the ledger's entry: a mapping of "dataset", "entry" and "hash".

        If it has the "time" of the charge, the release gets this time: the duration of a draw is
        private.
        """
        entry = LedgerReference(*map(reference.__getitem__, LedgerReference._fields))
        time = reference.get("time", self.made.time)
        return self._with(self.made._replace(time=time, ledger=entry))

    def _with(self, made: Provenance) -> Self:
        return replace(self, made=made)

    def _notice(self) -> str:
        return self.made.notice


# --------------------------------------------------------------------------------------------------
# The releases of mechanisms and pipelines: public values only.


@dataclass(frozen=True, slots=True, eq=False)
class IndexRelease(Release, RowSequence):
    """Selected answers and nothing else.

    `indices` are their positions among all answers, `labels` their names, if there are any.
    """

    _title: ClassVar[str] = "Selected answers"
    indices: Integers
    labels: tuple[Any, ...] | None

    _columns: ClassVar[tuple[str, ...]] = ("rank", "item", "gap", "p")

    @property
    def _items(self) -> Sequence[Any]:
        """The labels; without labels, the indices."""
        return self.indices.tolist() if self.labels is None else self.labels

    def _rows(self) -> tuple[Row, ...]:
        return tuple(Row(None, item) for item in self._items)

    def __len__(self) -> int:
        return int(self.indices.size)

    def columns(self) -> dict[str, Sequence[Any]]:
        return {**columns_of(self._rows(), self._columns)}


@dataclass(frozen=True, slots=True, eq=False)
class Selected(IndexRelease):
    """Selected answers, and what proves that they belong."""

    evidence: Evidence | None = field(default=None, kw_only=True)
    """Leads over what winners had to beat; None if the noise can be negative."""

    @property
    def line(self) -> Fraction | None:
        """The threshold that answers had to reach; None if the question was for the largest."""
        if (question := question_of(self)) is not None:
            return question.threshold
        said = (dict(used.parameters).get("threshold") for used in self.mechanisms)
        text = next((each for each in said if isinstance(each, str)), None)
        return None if text is None else exact_value(text)

    def _p_of_rows(self) -> Sequence[float | None]:
        """The p-value of each answer; None if there is one for the whole set."""
        count = self.indices.size
        if self.p_values is None or (self.is_proved_as_a_set and count > 1):
            return [None] * count
        p_values: list[float] = self.p_values.tolist()
        return p_values

    @property
    def p_values(self) -> Floats | None:
        """For each answer, the p-value of "it is not truly among the top k", or "not truly above".

        It is how often noise alone would give a lead this long to an answer that does not belong.
        It is not the probability that the answer is wrong. Each is about one answer; use `belong`
        for several at once. None without exponential noise; 0 if every answer was selected.
        """
        return None if self.evidence is None else self.evidence.p_values(self.indices.size)

    @property
    def set_p_value(self) -> float | None:
        """The p-value of "this is not the true top set"; for a top k only."""
        p_values = self.p_values
        return None if p_values is None or self.line is not None else float(p_values.max())

    def belong(self, level: float = 0.95) -> Flags:
        """Which answers surely belong: all of them do at once, with confidence `level`."""
        level, p_values = confidence_level(level), self.p_values
        if p_values is None:
            return np.zeros(self.indices.size, dtype=bool)
        return p_values <= 1 - level if self.is_proved_as_a_set else belonging(p_values, level)

    @property
    def is_proved_as_a_set(self) -> bool:
        """Whether one p-value is about all answers: all of them belong, or none does."""
        return self.evidence is not None and len(self.evidence.leads) <= 1

    @property
    def nobody_lost(self) -> bool:
        """Whether all answers were selected, so all of them belong."""
        return self.evidence is not None and not self.evidence.leads and self.line is None


@dataclass(frozen=True, slots=True, eq=False)
class TopKRelease(Selected):
    """The winners of a Noisy Top-K, best first, and the gaps between them.

    `gaps[i]` is the lead of rank i + 1 over the next rank. The last gap is the lead over the best
    loser; it is absent if every answer won.
    """

    _title: ClassVar[str] = "The largest answers"
    gaps: Floats

    def gap_between(self, better: int, worse: int) -> float:
        """The lead of rank `better` over rank `worse`; ranks count from 1."""
        better, worse = _two_ranks(better, worse, self.gaps.size + 1)
        return float(self.gaps[better - 1 : worse - 1].sum())

    def _rows(self) -> tuple[Row, ...]:
        gaps: list[float | None] = self.gaps.tolist()
        if len(gaps) < len(self):  # everybody won, so the last one has no gap
            gaps.append(None)
        columns = zip(self._items, gaps, self._p_of_rows(), strict=True)
        return tuple(
            Row(rank, item, gap=gap, p=p) for rank, (item, gap, p) in enumerate(columns, start=1)
        )


@dataclass(frozen=True, slots=True, eq=False)
class MaxRelease(TopKRelease):
    """The winner of a Noisy Max and its gap to the runner-up."""

    _title: ClassVar[str] = "The largest answer"

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
        """The lead over the runner-up; None if there was only one answer."""
        return float(self.gaps[0]) if self.gaps.size else None


@dataclass(frozen=True, slots=True, eq=False)
class HybridRelease(TopKRelease):
    """The winners of a Hybrid Top-K, best first, and the gaps between them.

    The last gap is the lead over the threshold; or over the best loser, if k answers were found. If
    there are m winners, `p_values` are those of "it is not truly above the threshold and among the
    m largest".
    """

    _title: ClassVar[str] = "The largest answers above a threshold"

    @property
    def remark(self) -> str:
        """What is left of ε if the ranking ended early."""
        if not self.remaining:
            return ""
        spent = readable_up(self.cost.pure_epsilon)
        left = readable_down((self.promise.cost - self.cost).pure_epsilon)
        return f"The ranking ended at the threshold: {spent} of ε was spent, and {left} is left."


@dataclass(frozen=True, slots=True, eq=False)
class AboveRelease(Selected):
    """The answers that a Sparse Vector found above its threshold, in the order asked.

    `gaps[i]` is how far `indices[i]` is above the threshold; `branch_of[i]` is the branch that it
    passed. `processed` counts the answers that were compared.

    The answers of a run are archived as such a release: `indices` are places among its questions.
    """

    _title: ClassVar[str] = "Answers above a threshold"
    gaps: Floats
    branch_of: Integers
    processed: int
    errors: GapErrors
    thresholds: tuple[Fraction, ...] | None = field(default=None, kw_only=True)
    """The threshold of each answer above, if questions of a run had thresholds of their own."""

    @without_float_errors
    def lower_bounds(self, level: float = 0.95) -> Floats:
        """Each true answer is at least this, with confidence `level` before looking."""
        level = confidence_level(level)
        lines = self.thresholds or [self.errors.threshold] * self.gaps.size
        rows = zip(lines, self.gaps.tolist(), self.branch_of.tolist(), strict=True)
        bounds = [
            replace(self.errors, threshold=line).lower_bound(gap, branch, level)
            for line, gap, branch in rows
        ]
        return np.array(bounds)

    def _rows(self) -> tuple[Row, ...]:
        columns = zip(self._items, self.gaps.tolist(), self._p_of_rows(), strict=True)
        return tuple(Row(None, item, gap=gap, p=p) for item, gap, p in columns)

    def columns(self) -> dict[str, Sequence[Any]]:
        thresholds = self.thresholds or [self.errors.threshold] * len(self)
        return {
            **Selected.columns(self),
            "branch": self.branch_of.tolist(),
            "threshold": list(map(float, thresholds)),
        }

    @property
    def headings(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredValues(Release, RowSequence):
    """Measured values, each with the same variance."""

    _title: ClassVar[str] = "Measured values"
    values: Floats
    error: MeasurementError
    rounding: float

    @property
    @without_float_errors
    def variance(self) -> float:
        """The variance of each value."""
        return self.error.variance

    @without_float_errors
    def interval(self, level: float = 0.95) -> Floats:
        """For each value, the ends of an interval for the true value, with this confidence."""
        return self.error.ends(self.values, confidence_level(level), self.rounding)

    def _rows(self) -> tuple[Row, ...]:
        columns = zip(self.values.tolist(), self.interval().tolist(), strict=True)
        return tuple(
            Row(None, place, estimate, low, high)
            for place, (estimate, (low, high)) in enumerate(columns)
        )

    def __len__(self) -> int:
        return int(self.values.size)

    def columns(self) -> dict[str, Sequence[Any]]:
        return {**columns_of(self._rows(), ("item", "estimate", "low", "high"))}


@dataclass(frozen=True, slots=True, eq=False)
class Measured(Selected):
    """Selected answers with estimates, from a pipeline.

    Output is ordered by estimate. Ranks here are ranks by estimate, and count from 1. Arrays are in
    the order of the selection, to which `gaps` refer, unless a table was asked.

    `measurements` are the measured values; `estimates` also use the gaps. `variances` are those of
    the estimates' noise, without the rounding to a declared grid; intervals include this rounding.
    `epsilon` is the guarantee, and `cost` what was spent.
    """

    _title: ClassVar[str] = "Selected answers with estimates"
    gaps: Floats
    measurements: Floats
    estimates: Floats
    variances: Floats
    centres: str
    """The centres of intervals: "measurements" or "estimates"."""
    errors: tuple[MeasurementError | LaplaceSum, ...]
    """The errors of these centres: one for all of them, or one for each."""
    rounding: float
    """The largest distance between a true answer and its rounded value on the grid."""
    method: str
    route: str | None = field(default=None, kw_only=True)
    """How a top k was found: "joint" (as a set), "ranked" or "paper"."""
    looked: tuple[tuple[int, float], ...] = field(default=(), kw_only=True)
    """The ranks of the first look, and their measured values."""
    lead: float | None = field(default=None, kw_only=True)
    """The lead of a set's half-margin over that of every other set; None if it is no set."""
    measured_by: MeasurementError | None = field(default=None, kw_only=True)
    """The error of the measurements, if `errors` are those of the estimates."""
    processed: int | None = field(default=None, kw_only=True)
    """How many answers a Sparse Vector compared; None if the release does not say it."""

    @property
    def remark(self) -> str:
        """The share of ε that each step took, and the lead of a set; empty without a route."""
        if self.route is None:
            return ""
        count, is_histogram = self.indices.size, self.route == HISTOGRAM
        them, it = ("the winner", "it") if count == 1 else (f"the {in_words(count)}", "them")
        steps = {
            "look": "look ahead",
            "select": f"{'choose' if self.route in ('joint', 'hybrid') else 'rank'} {them}",
            "measure": "add noise to every item" if is_histogram else f"measure {it}",
        }
        took = []
        for step, part in self.cost.parts:
            percent = 100 * part.share_of(self.promise.cost)
            took.append(f"{approximately(percent, 3)} % to {steps[step]}")
        lead = "" if self.lead is None else f"{self.lead:.1f}"
        more = f" With noise, the set leads all others by {lead}." if lead else ""
        more = " The largest noisy values are shown." if is_histogram else more
        return f"ε went: {', '.join(took)}.{more}"

    @without_float_errors
    def interval(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval for the true answer; shape (k, 2).

        With `method="best"` the confidence holds for the answers that were selected: the interval
        comes from the measurement, whose noise is independent of the selection. After a noisy
        histogram, the interval allows for the selection: the noisy count reached the line. Its
        lower end is −∞ if there is none. With `method="paper"` the interval ignores the selection.
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
        """The indices that sort the arrays, the largest estimate first."""
        return np.argsort(-self.estimates, kind="stable")

    @without_float_errors
    def difference(self, better: int, worse: int, level: float = 0.95) -> Difference:
        """The lead of rank `better` over rank `worse`: the estimate, and the ends of an interval.

        The noise decides which pairs people look at. So the confidence holds for all pairs at
        once, and for the answers that were selected. The interval comes from the measurement
        alone, whose noise is independent of the selection, or it allows for the selection. It has
        no ends if the error of the measurement is unknown.
        """
        better, worse = _two_ranks(better, worse, self.indices.size)
        one, other = self.order[[better - 1]], self.order[[worse - 1]]
        (estimate,) = (self.estimates[one] - self.estimates[other]).tolist()
        ((low, high),) = self.ends_of_pairs(one, other, level).tolist()
        return Difference(estimate, low, high)

    def ends_of_pairs(self, ones: Integers, others: Integers, level: float = 0.95) -> Floats:
        """Ends of intervals for the leads of `ones` over `others`, for all pairs at once."""
        low, high, half = self._compared(level)
        ends = (low[ones] - high[others] - half, high[ones] - low[others] + half)
        return np.stack(ends, axis=1)

    def groups(self, level: float = 0.95) -> tuple[tuple[int, ...], ...]:
        """Ranks by estimate, in groups whose neighbours cannot be told apart.

        Every rank is in one group, perhaps alone. With confidence `level`, all answers in a group
        are larger than all answers in later groups.
        """
        low, high, half = self._compared(level)
        ahead = np.minimum.accumulate(low[self.order])[:-1]
        behind = np.maximum.accumulate(high[self.order][::-1])[::-1][1:]
        cuts = np.flatnonzero(ahead - behind > half) + 1
        parts = np.split(np.arange(1, low.size + 1), cuts) if low.size else []
        return tuple(map(tuple, map(np.ndarray.tolist, parts)))

    def half_widths_of_leads(self, level: float = 0.95) -> Floats:
        """The most that the lead of each estimate over the next is off, for all leads at once.

        The interval of a lead is around the difference that was measured. The half-width is long
        enough to hold that interval around the difference of the estimates.
        """
        low, high, half = self._compared(level)
        ones, others = self.order[:-1], self.order[1:]
        leads = self.estimates[ones] - self.estimates[others]
        below, above = leads - (low[ones] - high[others]), high[ones] - low[others] - leads
        widths: Floats = half + np.maximum(below, above)
        return widths

    def _compared(self, level: float) -> tuple[Floats, Floats, float]:
        """Two ends for each answer, and the most that a difference of ends is off in all pairs.

        A noisy histogram has an interval for each answer. Otherwise both ends are the measurement.
        """
        if isinstance(self.measuring_error, HistogramError):
            low, high = self.ends_of_all(level).T
            return low, high, 0.0
        return self.measurements, self.measurements, self.half_width_of_pairs(level)

    def half_width_of_pairs(self, level: float = 0.95) -> float:
        """The most that the measured difference of two answers is off, for all pairs at once.

        After a noisy histogram this is for answers far above the line; `ends_of_pairs` is for all
        answers.
        """
        level, error = confidence_level(level), self.measuring_error
        if error is None:
            return math.inf
        return error.half_width_of_pairs(self.indices.size, level) + 2 * self.rounding

    def ends_of_all(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval; all intervals hold at once."""
        level, error = confidence_level(level), self.measuring_error
        if error is None:
            return around(self.measurements, math.inf)
        return error.ends_of_all(self.measurements, level, self.rounding)

    @without_float_errors
    def shares(self, of: "Total", level: float = 0.95) -> "Shares":
        """The share of each answer in a released count or total, and the rest as "other".

        Intervals hold for all of them at once, for the answers that were selected, with confidence
        `level`: they allow for the noise of both releases. It costs nothing more.

        Parameters
        ----------
        of
            What `dpgap.count`, or `dpgap.total` for sums, released about the same table, unit and
            rows, with the same bounds.
        level
            The confidence of all intervals together.
        """
        if not isinstance(of, Total):
            raise TypeError(
                "of must be a released count or total, as dpgap.count and dpgap.total give, not "
                f"{type(of).__name__}"
            )
        level, asked = confidence_level(level), question_of(self)
        is_counted, has_one_each, least = False, False, -np.inf
        if asked is not None:
            _require_whole(asked, of.question)
            is_counted = asked.sum is None
            has_one_each = asked.has_one_item_each or (is_counted and asked.max_items == 1)
            least = -np.inf if asked.at_least else 0.0
        most = 1.0 if least == 0 and (is_counted or has_one_each) else np.inf
        each = (1 + level) / 2
        order, whole = self.order, of.interval(each)
        parts = np.maximum(self.ends_of_all(each)[order], least)
        ends = ends_of_quotients(parts, whole, least, most)
        known = of.estimate if of.estimate > 0 or least else np.nan
        values = self.estimates[order] / known
        names = self.indices.tolist() if self.labels is None else self.labels
        items = tuple(
            Share(names[at], float(np.clip(value, *own)), *own)
            for at, value, own in zip(order.tolist(), values, ends.tolist(), strict=True)
        )
        other = None
        if has_one_each or (asked is not None and not is_counted):
            most = 1.0 if least == 0 and has_one_each else np.inf
            (own,) = ends_of_quotients(parts.sum(axis=0, keepdims=True), whole, least, most)
            rest = (1 - own[::-1]).tolist()
            other = Share("other", float(np.clip(1 - values.sum(), *rest)), *rest)
        return Shares(items, other, level, tuple(_notes(level, asked, has_one_each)))

    @property
    def measuring_error(self) -> MeasurementError | None:
        """The error of each measurement; None if it was not kept."""
        own = self.errors[0] if self.errors else None
        return self.measured_by or (None if isinstance(own, LaplaceSum) else own)

    _columns: ClassVar[tuple[str, ...]] = Row._fields

    def _rows(self) -> tuple[Row, ...]:
        places = self.order.tolist()
        items = self._items
        estimates = self.estimates.tolist()
        ends = self.interval().tolist()
        p_values = self._p_of_rows()
        half_widths = self.half_widths_of_leads().tolist()
        rows = []
        for rank, place in enumerate(places, start=1):
            gap = give_or_take = None
            if rank < len(places):
                gap = estimates[place] - estimates[places[rank]]
                give_or_take = finite(half_widths[rank - 1])
            row = Row(
                rank=rank,
                item=items[place],
                estimate=estimates[place],
                low=finite(ends[place][0]),
                high=ends[place][1],
                gap=gap,
                give_or_take=give_or_take,
                p=p_values[place],
            )
            rows.append(row)
        return tuple(rows)


@dataclass(frozen=True, slots=True, eq=False)
class JointRelease(Selected):
    """The top set that a Joint Top-K found. The order of its members has no meaning.

    `lead` is the lead of its noisy half-margin over that of any other set. `p_value` is that of
    "this is not the true top set": if it is not, the chance of a lead this large is at most
    `p_value`. It is the p-value of every member.
    """

    _title: ClassVar[str] = "The set of the largest answers"
    lead: float
    p_value: float

    is_proved_as_a_set: ClassVar[bool] = True

    @property
    def p_values(self) -> Floats:
        return np.full(self.indices.size, self.p_value)

    @property
    def remark(self) -> str:
        """The lead of the set, and its p-value."""
        return (
            f"With noise, the set leads all others by {self.lead:.1f}; "
            f"p = {self.p_value:.2g} for “this is not the true top set”."
        )


# --------------------------------------------------------------------------------------------------
# A question about a table, and its answer.


@dataclass(frozen=True, slots=True, eq=False)
class TableRelease(Measured):
    """A question about a table, and its answer: items, the largest estimate first.

    `gaps` are those of the selection. After a top k, an item's gap is its lead over the item that
    the selection ranked next. If every item was selected, there is one gap less, and gaps are in
    the order of the selection. Above a threshold, an item's gap is its lead over the threshold.
    """

    question: Question


# --------------------------------------------------------------------------------------------------
# One number about all units, with its interval. A count is a total of 1 for each unit.


@dataclass(frozen=True, slots=True, eq=False)
class Total(MeasuredValues):
    """The total of a column: `estimate` and `interval`. Each unit is cut off at public ends."""

    question: Question

    @property
    def estimate(self) -> float:
        """The noisy number; 0 if it is below 0 and no unit adds less than 0.

        So it lies within its interval. `values` has the number as it was drawn.
        """
        value = float(self.values[0])
        return value if self.question.at_least else max(value, 0.0)

    @without_float_errors
    def interval(self, level: float = 0.95) -> Floats:
        """The ends of an interval for the true number, with this confidence.

        No end is below 0 if no unit adds less than 0.
        """
        ends: Floats = MeasuredValues.interval(self, level)[0]
        return ends if self.question.at_least else np.maximum(ends, 0.0)

    def __float__(self) -> float:
        return self.estimate

    def _rows(self) -> tuple[Row, ...]:
        low, high = self.interval().tolist()
        return (Row(1, None, self.estimate, low, high),)

    def columns(self) -> dict[str, Sequence[Any]]:
        return {**columns_of(self._rows(), ("estimate", "low", "high"))}


@dataclass(frozen=True, slots=True, eq=False)
class UnitCount(Total):
    """How many distinct units a table has, or a part of it: `estimate`, and its `interval`."""


# --------------------------------------------------------------------------------------------------
# The share of each selected item in a count or a total, and the rest.
#
# The intervals of a release hold for all of its items at once, and for the items that were
# selected. These intervals, and the interval of the whole, may each fail with half of the allowed
# chance, so all of them hold at once. A share lies between the least and the largest quotient of a
# part within its interval and a whole within its interval.
#
# The questions, which are public, say more about shares. If units add 0 or more, no share is below
# 0. If a unit has an item or not, or a row has one item, no share is above 1. For totals of units
# with several rows, neither is known: one item may have more than the whole if another item has
# less than 0, and each item is cut off separately.


class Share(NamedTuple):
    """The share of one item, and an interval; 0.25 is a quarter."""

    item: Any
    estimate: float
    """NaN if the estimate of the whole is 0."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Shares(Table):
    """Each item's share of a whole. With confidence `level`, all intervals hold at once."""

    _title: ClassVar[str] = "Shares of a count or a total"
    items: tuple[Share, ...]
    other: Share | None
    """The rest, "other"; None if items overlap, because then shares do not add up."""
    level: float
    notes: tuple[str, ...]

    @property
    def remark(self) -> str:
        return " ".join(self.notes)

    @property
    def guarantee(self) -> str:
        """The cost in plain words."""
        return "Shares are computed from two releases. They cost no more ε."

    def columns(self) -> dict[str, Sequence[Any]]:
        rows = self.items if self.other is None else (*self.items, self.other)
        names = ("item", "share", "low", "high")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    @property
    def headings(self) -> Mapping[str, str]:
        level = f"{100 * self.level:.4g}%"
        return {"low": f"{level} low", "high": f"{level} high"}

    def cells(self) -> dict[str, list[str]]:
        """The rows as text, in per cent."""
        items, *numbers = self.columns().items()
        texts = {"item": [visible(plain(item)) for item in items[1]]}
        for name, cells in numbers:
            heading = self.headings.get(name, name)
            texts[heading] = [_per_cent(cell, name) for cell in cells]
        return texts


def _per_cent(cell: float, name: str) -> str:
    return f"{_outwards(cell, name, 3):,.1%}" if math.isfinite(cell) else "–"


def _notes(level: float, asked: Question | None, has_one_each: bool) -> Iterator[str]:
    yield (
        f"All intervals hold at once with {100 * level:.4g} % confidence. They allow for the noise "
        "of both releases."
    )
    if asked is None:
        yield "Answers may overlap, so there is no “other”."
    elif asked.sum is None and not has_one_each:
        yield "Units may have several items, so shares may add up to more than 100 %: no “other”."
    elif not has_one_each:
        yield (
            "“other” is the rest of the total. What a unit adds is cut off for each item "
            "separately, so “other” may be below 0."
        )


def _require_whole(part: Question, whole: Question) -> None:
    """Refuse a whole about other units, rows or amounts, as far as both questions state them."""
    kind = "count" if part.sum is None else "total"
    if whole.kind != kind:
        how = f"items are compared by {measured_in(part)}"
        raise ValueError(f"of must be a {kind}, not a {whole.kind}: {how}")
    if part.by is not None:
        raise ValueError("shares need an answer without groups: ask about one group with where=")
    for name in ("table", "address", "columns"):  # a frame has no name, a document no address
        own, other = getattr(part, name), getattr(whole, name)
        if own and other and own != other:
            raise ValueError("of must be about the same table as these items")
    for name in ("unit", "where", "sum", "at_most", "at_least", "step", "encoding", "decimal"):
        own, other = getattr(part, name), getattr(whole, name)
        if own != other:
            asked = f"the same {name} as these items, {own}, not {other}"
            raise ValueError(printable(f"of must be asked with {asked}"))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ReleasesByGroup(Release, Mapping[Any, TableRelease]):
    """A release for every group, in the order in which the groups were stated."""

    question: Question
    answers: tuple[TableRelease, ...]

    @classmethod
    def of(
        cls, question: Question, answers: Sequence[TableRelease], cost: Cost, most: Cost
    ) -> Self:
        """One release made of the releases of all groups; `most` is the most that it can cost."""
        used = dict.fromkeys(each for answer in answers for each in answer.mechanisms)
        release = cls(
            cost=cost,
            promise=answers[0].promise._replace(cost=most),
            question=question,
            answers=tuple(answers),
            mechanisms=tuple(used),
        )
        return release._with(Provenance.now())

    def __getitem__(self, group: Any) -> TableRelease:
        """The release of one group."""
        answers: dict[Any, TableRelease] = dict(zip(self, self.answers, strict=True))
        return answers[group]

    def __iter__(self) -> Iterator[Any]:
        return (answer.question.group for answer in self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows of all groups, one after the other; the first column says which group."""
        parts = [answer.columns() for answer in self.answers]
        groups = [group for group, answer in self.items() for _ in answer]
        cells = {name: [*chain(*(it[name] for it in parts))] for name in parts[0]}
        return {"group": groups, **cells}

    def _with(self, made: Provenance) -> Self:
        """The same release with this provenance, which the groups share."""
        answers = tuple(replace(answer, made=made) for answer in self.answers)
        return replace(self, made=made, answers=answers)
