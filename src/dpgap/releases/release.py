"""The types of releases: guarantee, rows, document, estimates, and what leads prove.

No private number ever gets here. Each release states its guarantee in plain words.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, NoReturn, Self, cast

import numpy as np

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
    positive_integer,
    readable,
    readable_down,
    readable_up,
)
from dpgap.exact.reals import Flags, Floats, Integers, without_float_errors
from dpgap.printable import column_name, printable, visible
from dpgap.question import HISTOGRAM, Question
from dpgap.releases.detail import Detail, LedgerReference, Provenance
from dpgap.releases.forms import (
    BRANCHES,
    COST,
    FLOATS,
    INDICES,
    LABEL,
    LENGTH,
    QUESTION,
    VARIANCES,
    each,
    stated,
)
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


def measured_in(question: Question) -> str:
    """The name of the numbers, such as "customer count" or "total amount"."""
    if question.kind == "count" or question.sum is None:
        return f"{column_name(question.unit)} count"
    return f"total {column_name(question.sum)}"


def title_of(table: "Table") -> str:
    """The title of a release, for people; all names in it are escaped."""
    return table._titled()


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


def _of_items(question: Question | None) -> str:
    """Among how many items, if this is known."""
    if question is None or question.items is None:
        return ""
    return f" of {question.items:,}"


def _refuse_attribute(release: object, name: str, value: object = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name!r} of a release")


def _line(table: Any) -> str:
    """The line that `repr` returns."""
    epsilon = getattr(table, "epsilon", None)
    epsilon = "" if epsilon is None else f"; ε = {readable(epsilon)}"
    return f"<{type(table).__name__}: {table._titled()}{epsilon}>".replace("= ≈", "≈ ")


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

    def __init_subclass__(cls) -> None:
        """Refuse every attribute that is not a field: OpenDP tries to attach the answers.

        A dataclass with slots would raise a TypeError for such an attribute. Its own `repr` has
        lines of arrays, and fails if a number has too many digits to write.
        """
        cls.__repr__ = _line  # type: ignore[method-assign]
        if "__setattr__" in vars(cls):
            cls.__setattr__ = cls.__delattr__ = _refuse_attribute  # type: ignore[method-assign]

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What ε promises, in plain words."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What may be believed, in plain sentences, the most important first."""
        return ()

    def to_frame(self, library: str | None = None) -> Any:
        """The rows as a data frame.

        `library` is "pandas", "polars" or "pyarrow"; by default pandas if it is installed, else
        Polars. The names of columns depend only on the kind of release.
        """
        return frame_of(self._columns(), library)

    @abstractmethod
    def _columns(self) -> dict[str, Sequence[Any]]:
        """The rows, column by column."""

    @property
    def _headings(self) -> Mapping[str, str]:
        """Headings of columns for people, if they differ from the names of columns."""
        return HEADINGS

    @property
    def _remark(self) -> str:
        """How the answer was found, in plain words; it may be empty."""
        return ""

    def _titled(self) -> str:
        return self._title

    def _to_dict(self) -> dict[str, Any]:
        """All fields as a dictionary that JSON can hold; exact numbers are text such as "7/10"."""
        return {**plain(self), "guarantee": self.guarantee}

    def _cells(self) -> dict[str, list[str]]:
        """The rows as text, column by column; without p, and columns without any number."""
        columns = {name: cells for name, cells in self._columns().items() if name != "p"}
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
        return {self._headings.get(name, name): cells for name, cells in texts.items()}

    def __str__(self) -> str:
        sentences = attempted("findings", (), getattr, self, "findings")
        rows = attempted("rows", "", self._lines)
        parts = (self._notice(), "\n".join(sentences), rows, "\n".join(self._words()))
        return "\n\n".join(filter(None, parts))

    def _notice(self) -> str:
        """The first line of the text; it may be empty."""
        return ""

    def _lines(self) -> str:
        """The rows as text."""
        columns = [(name, *cells) for name, cells in self._cells().items() if cells]
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True)
        return "\n".join("  ".join(map(str.rjust, row, widths)).rstrip() for row in rows)

    def _words(self) -> Iterator[str]:
        """The sentences below the rows."""
        names = ("_remark", "guarantee")
        return filter(None, (attempted(name.strip("_"), "", getattr, self, name) for name in names))

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Release(Table):
    """The base of every release: what it cost, what was asked, and how and when it was made."""

    cost: Annotated[Cost, COST]
    """What the release did cost; its parts are the steps in which it was made."""
    question: Annotated[Question | None, QUESTION] = None
    """The question that was asked of a table; None for an array."""
    made: Annotated[Provenance, stated(Provenance)] = field(default_factory=Provenance.now)
    """When it was made, by which version, and which entry of a ledger paid."""
    detail: Detail
    """Everything else that was released."""

    _is_measured: ClassVar[bool] = False
    """Whether it has items with estimates."""
    _is_by_group: ClassVar[bool] = False
    _needed: ClassVar[tuple[str, ...]] = ("promise", "mechanisms")
    """The fields of `detail` that every release of this kind has."""
    _possible: ClassVar[tuple[str, ...]] = ()
    """The fields of `detail` that a release of this kind may have."""

    @property
    def epsilon(self) -> Fraction | None:
        """The ε of the guarantee: the most that such a release costs."""
        return self.detail.promise.cost.epsilon

    @property
    def spent(self) -> Fraction | None:
        """The part of ε that was spent."""
        return self.cost.epsilon

    @property
    def remaining(self) -> Fraction | None:
        """The part of ε that was not spent: free for other use under the same total."""
        return self._unspent.epsilon

    @property
    def _unspent(self) -> Cost:
        return self.detail.promise.cost - self.cost

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return str(self.detail.promise) if self.question is None else self.question.guarantee()

    @property
    def findings(self) -> tuple[str, ...]:
        """What may be believed, in plain sentences, the most important first."""
        return self._showing.findings(self)

    def to_json(self) -> str:
        """The release document: all that was released, as JSON that `dpgap.read_release` reads.

        Exact numbers are text such as "7/10", and all letters are ASCII.
        """
        return written(self._to_dict())

    def to_csv(self, path: Place | None = None) -> str:
        """Return the rows as CSV text, or write them to a file and return its path.

        Every row ends with the question, the ε and the time (UTC). So a file says what it is, and
        no program has to skip lines above the names of columns. ε is the nearest number; a document
        has the exact one. A name that begins like a formula gets an apostrophe in front, as in
        spreadsheets.
        """
        facts = {
            "question": self._purpose(),
            "epsilon": number(self.detail.promise.cost.pure_epsilon),
            "time": self.made.time,
        }
        return returned_or_written(csv_of(self._columns(), facts), path)

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

    def _to_dict(self) -> dict[str, Any]:
        """The release document as plain values: see `to_json`."""
        return self._showing.document(self)

    def _to_archive(self) -> str:
        """The document for an archive: only what was drawn.

        So no sentence, row or interval is made before a release is archived. `dpgap.read_release`
        reads this document, and computes them.
        """
        return written(self._showing.drawn(self))

    def _again(self) -> Self:
        """The same release, marked as shown again: it was paid for before."""
        return self._with(self.made._replace(again=True))

    def _paid_by(self, reference: Mapping[str, Any]) -> Self:
        """The same release, with the ledger's entry: a mapping of "dataset", "entry" and "hash".

        If it has the "time" of the charge, the release gets this time: the duration of a draw is
        private.
        """
        entry = LedgerReference(*map(reference.__getitem__, LedgerReference._fields))
        time = reference.get("time", self.made.time)
        return self._with(self.made._replace(time=time, ledger=entry))

    def _with(self, made: Provenance) -> Self:
        return replace(self, made=made)

    def _purpose(self) -> str:
        """The question in one line; without a question, the names of the mechanisms."""
        if self.question is None:
            return ", ".join(used.name for used in self.detail.mechanisms)
        purpose = self.question.purpose
        return purpose if self.question.is_private else f"{purpose} (NOT private)"

    def _titled(self) -> str:
        if self.question is None:
            return self._title_of_array()
        return attempted("title", "A release", _of_question, self.question)

    def _title_of_array(self) -> str:
        return self._title

    def _shown_in_words(self) -> str:
        """How many items or groups are shown, as sentences; empty for one number."""
        return ""

    def _notice(self) -> str:
        return self.made.notice


# --------------------------------------------------------------------------------------------------
# Releases of items: selected alone, above a threshold, or with estimates.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Items(Release, RowSequence):
    """Selected answers, and what proves that they belong. The base of three kinds of releases."""

    indices: Annotated[Integers, INDICES]
    """Their positions among all answers."""
    labels: Annotated[tuple[Any, ...] | None, each(LABEL)] = None
    """Their names; None if there are none."""
    gaps: Annotated[Floats, FLOATS]
    """The gaps that the selection released; empty after the selection of a set."""
    lead: Annotated[float | None, LENGTH] = None
    """The lead of a set's half-margin over that of every other set; None if it is no set."""

    def __len__(self) -> int:
        return int(self.indices.size)

    @property
    def p_values(self) -> Floats | None:
        """For each answer, the p-value of "it is not truly among the top k", or "not truly above".

        It is how often noise alone would give a lead this long to an answer that does not belong.
        It is not the probability that the answer is wrong. Each is about one answer. None without
        exponential noise; 0 if every answer was selected.
        """
        evidence = self.detail.evidence
        return None if evidence is None else evidence.p_values(self.indices.size)

    @property
    def set_p_value(self) -> float | None:
        """The p-value of "this is not the true top set"; for a top k only."""
        p_values = self.p_values
        return None if p_values is None or self._line is not None else float(p_values.max())

    @property
    def _line(self) -> Fraction | None:
        """The threshold that answers had to reach; None if the question was for the largest."""
        if self.question is not None:
            return self.question.threshold
        for used in self.detail.mechanisms:
            threshold = dict(used.parameters).get("threshold")
            if isinstance(threshold, str):
                return exact_value(threshold)
        return None

    def _belong(self, level: float = 0.95) -> Flags:
        """Which answers surely belong: all of them do at once, with confidence `level`."""
        level, p_values = confidence_level(level), self.p_values
        if p_values is None:
            return np.zeros(self.indices.size, dtype=bool)
        return p_values <= 1 - level if self._is_proved_as_a_set else belonging(p_values, level)

    @property
    def _is_proved_as_a_set(self) -> bool:
        """Whether one p-value is about all answers: all of them belong, or none does."""
        evidence = self.detail.evidence
        return evidence is not None and len(evidence.leads) <= 1

    @property
    def _nobody_lost(self) -> bool:
        """Whether all answers were selected, so all of them belong."""
        evidence = self.detail.evidence
        return evidence is not None and not evidence.leads and self._line is None

    @property
    def _is_ranked_above(self) -> bool:
        """Whether winners are ranked, and all above a threshold."""
        return False

    @property
    def _measuring_error(self) -> MeasurementError | None:
        """The error of each measurement; None if nothing was measured."""
        return None

    def _rank_groups(self) -> tuple[tuple[int, ...], ...]:
        """Ranks in groups whose neighbours cannot be told apart; none without measurements."""
        return ()

    def _by_rank(self, flags: Flags) -> Flags | None:
        """The flags in the order of ranks; None if answers have no ranks."""
        return None

    @property
    def _items(self) -> Sequence[Any]:
        """The labels; without labels, the indices."""
        return self.indices.tolist() if self.labels is None else self.labels

    def _p_of_rows(self) -> Sequence[float | None]:
        """The p-value of each answer; None if there is one for the whole set."""
        p_values = self.p_values
        if p_values is None or (self._is_proved_as_a_set and len(self) > 1):
            return [None] * len(self)
        numbers: list[float] = p_values.tolist()
        return numbers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SelectedItems(Items):
    """The winners of a selection alone: a ranking, best first, or a set.

    In a ranking, `gaps[i]` is the lead of rank i + 1 over the next rank. The last gap is the lead
    over the best loser, or over the threshold of a Hybrid Top-K; it is absent if every answer won.
    The p-values of m winners above a threshold are those of "it is not truly above the threshold
    and among the m largest".

    The order of a set has no meaning, and it has no gaps: `lead` is the lead of its noisy
    half-margin over that of any other set.
    """

    _possible: ClassVar[tuple[str, ...]] = ("evidence",)

    @property
    def index(self) -> int:
        """The index of the best."""
        return int(self.indices[0])

    @property
    def label(self) -> Any:
        """The label of the best, if labels were given."""
        return None if self.labels is None else self.labels[0]

    @property
    def gap(self) -> float | None:
        """The lead of the best over the next; None if there is none."""
        return float(self.gaps[0]) if self.gaps.size else None

    @property
    def p_value(self) -> float | None:
        """The p-value of "this is not the true top set": see `set_p_value`."""
        return self.set_p_value

    def gap_between(self, better: int, worse: int) -> float:
        """The lead of rank `better` over rank `worse`; ranks count from 1."""
        better, worse = _two_ranks(better, worse, self.gaps.size + 1)
        return float(self.gaps[better - 1 : worse - 1].sum())

    @property
    def _is_set(self) -> bool:
        return self.lead is not None

    @property
    def _is_ranked_above(self) -> bool:
        return self._line is not None

    def _title_of_array(self) -> str:
        if self._is_set:
            return "The set of the largest answers"
        if self._is_ranked_above:
            return "The largest answers above a threshold"
        return "The largest answer" if len(self) == 1 else "The largest answers"

    @property
    def _remark(self) -> str:
        """The lead of a set, and its p-value; what is left of ε if the ranking ended early."""
        if self.lead is not None:
            return (
                f"With noise, the set leads all others by {self.lead:.1f}; "
                f"p = {self.p_value:.2g} for “this is not the true top set”."
            )
        if not self.remaining:
            return ""
        spent = readable_up(self.cost.pure_epsilon)
        left = readable_down(self._unspent.pure_epsilon)
        return f"The ranking ended at the threshold: {spent} of ε was spent, and {left} is left."

    def _by_rank(self, flags: Flags) -> Flags | None:
        return None if self._is_set else flags

    def _rows(self) -> tuple[Row, ...]:
        p_values = self._p_of_rows()
        if self._is_set:
            pairs = zip(self._items, p_values, strict=True)
            return tuple(Row(None, item, p=p) for item, p in pairs)
        gaps: list[float | None] = self.gaps.tolist()
        if len(gaps) < len(self):  # everybody won, so the last one has no gap
            gaps.append(None)
        columns = zip(self._items, gaps, p_values, strict=True)
        return tuple(
            Row(rank, item, gap=gap, p=p) for rank, (item, gap, p) in enumerate(columns, start=1)
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {**columns_of(self._rows(), ("rank", "item", "gap", "p"))}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ItemsAbove(Items):
    """The answers that a Sparse Vector found above its threshold, in the order asked.

    `gaps[i]` is how far `indices[i]` is above the threshold; `branch_of[i]` is the branch that it
    passed. The answers of a run are archived as such a release: `indices` are places among its
    questions.
    """

    branch_of: Annotated[Integers, BRANCHES]

    _title: ClassVar[str] = "Answers above a threshold"
    _needed: ClassVar[tuple[str, ...]] = (*Release._needed, "gap_errors", "processed")
    _possible: ClassVar[tuple[str, ...]] = ("evidence", "thresholds")

    @property
    def processed(self) -> int:
        """How many answers were compared."""
        return self.detail.processed or 0

    @without_float_errors
    def lower_bounds(self, level: float = 0.95) -> Floats:
        """Each true answer is at least this, with confidence `level` before looking."""
        level = confidence_level(level)
        errors = self._gap_errors
        rows = zip(self._thresholds, self.gaps.tolist(), self.branch_of.tolist(), strict=True)
        bounds = [
            replace(errors, threshold=threshold).lower_bound(gap, branch, level)
            for threshold, gap, branch in rows
        ]
        return np.array(bounds)

    @property
    def _gap_errors(self) -> GapErrors:
        return cast(GapErrors, self.detail.gap_errors)

    @property
    def _thresholds(self) -> Sequence[Fraction]:
        """The threshold of each answer."""
        return self.detail.thresholds or [self._gap_errors.threshold] * len(self)

    def _rows(self) -> tuple[Row, ...]:
        columns = zip(self._items, self.gaps.tolist(), self._p_of_rows(), strict=True)
        return tuple(Row(None, item, gap=gap, p=p) for item, gap, p in columns)

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {
            **columns_of(self._rows(), ("rank", "item", "gap", "p")),
            "branch": self.branch_of.tolist(),
            "threshold": list(map(float, self._thresholds)),
        }

    @property
    def _headings(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MeasuredItems(Items):
    """Selected answers with estimates: what was asked of a table, or of an array.

    Rows are ordered by estimate, and ranks here are ranks by estimate, which count from 1. Arrays
    have this order too if a table was asked, or a set was selected. Else they are in the order of
    the selection, to which `gaps` refer. Above a threshold, a gap is the lead over the threshold.

    `measurements` are the measured values; `estimates` also use the gaps. `variances` are those of
    the estimates' noise, without the rounding to a declared grid; intervals include this rounding.
    `epsilon` is the guarantee, and `cost` what was spent.
    """

    measurements: Annotated[Floats, FLOATS]
    estimates: Annotated[Floats, FLOATS]
    variances: Annotated[Floats, VARIANCES]

    _title: ClassVar[str] = "Selected answers with estimates"
    _is_measured: ClassVar[bool] = True
    _needed: ClassVar[tuple[str, ...]] = (
        *Release._needed,
        "method",
        "centres",
        "errors",
        "rounding",
    )
    _possible: ClassVar[tuple[str, ...]] = (
        "route",
        "looked",
        "evidence",
        "measured_by",
        "processed",
    )

    @property
    def _remark(self) -> str:
        """The share of ε that each step took, and the lead of a set; empty without a route."""
        route = self.detail.route
        if route is None:
            return ""
        count = len(self)
        them = "the winner" if count == 1 else f"the {in_words(count)}"
        measured = "it" if count == 1 else "them"
        steps = {
            "look": "look ahead",
            "select": f"{'choose' if route in ('joint', 'hybrid') else 'rank'} {them}",
            "measure": f"measure {measured}",
        }
        if route == HISTOGRAM:
            steps["measure"] = "add noise to every item"
        shares = []
        for step, part in self.cost.parts:
            percent = 100 * part.share_of(self.detail.promise.cost)
            shares.append(f"{approximately(percent, 3)} % to {steps[step]}")
        sentences = [f"ε went: {', '.join(shares)}."]
        if self.lead is not None:
            sentences.append(f"With noise, the set leads all others by {self.lead:.1f}.")
        if route == HISTOGRAM:
            sentences.append("The largest noisy values are shown.")
        return " ".join(sentences)

    @without_float_errors
    def interval(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval for the true answer; shape (k, 2).

        With `method="best"` the confidence holds for the answers that were selected: the interval
        comes from the measurement, whose noise is independent of the selection. After a noisy
        histogram, the interval allows for the selection: the noisy count reached the line. Its
        lower end is −∞ if there is none. With `method="paper"` the interval ignores the selection.
        """
        level = confidence_level(level)
        centres = self.estimates if self.detail.centres == "estimates" else self.measurements
        errors = self.detail.errors
        if len(errors) == 1:
            return errors[0].ends(centres, level, self._rounding)
        ends = [np.empty((0, 2))]
        for error, centre in zip(errors, centres[:, None], strict=True):
            ends.append(error.ends(centre, level, self._rounding))
        return np.concatenate(ends)

    @without_float_errors
    def difference(self, better: int, worse: int, level: float = 0.95) -> Difference:
        """The lead of rank `better` over rank `worse`: the estimate, and the ends of an interval.

        The noise decides which pairs people look at. So the confidence holds for all pairs at
        once, and for the answers that were selected. The interval comes from the measurement
        alone, whose noise is independent of the selection, or it allows for the selection. It has
        no ends if the error of the measurement is unknown.
        """
        better, worse = _two_ranks(better, worse, len(self))
        one, other = self._order[[better - 1]], self._order[[worse - 1]]
        (estimate,) = (self.estimates[one] - self.estimates[other]).tolist()
        ((low, high),) = self._ends_of_pairs(one, other, level).tolist()
        return Difference(estimate, low, high)

    def groups(self, level: float = 0.95) -> tuple[tuple[int, ...], ...]:
        """Ranks by estimate, in groups whose neighbours cannot be told apart.

        Every rank is in one group, perhaps alone. With confidence `level`, all answers in a group
        are larger than all answers in later groups.
        """
        if not len(self):
            return ()
        low, high, half = self._compared(level)
        ahead = np.minimum.accumulate(low[self._order])[:-1]
        behind = np.maximum.accumulate(high[self._order][::-1])[::-1][1:]
        cuts = np.flatnonzero(ahead - behind > half) + 1
        parts = np.split(np.arange(1, low.size + 1), cuts)
        return tuple(tuple(part.tolist()) for part in parts)

    @without_float_errors
    def shares(self, of: "MeasuredValues", level: float = 0.95) -> "Shares":
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
        if not isinstance(of, MeasuredValues) or of.question is None:
            raise TypeError(
                "of must be a released count or total, as dpgap.count and dpgap.total give, not "
                f"{type(of).__name__}"
            )
        level, question = confidence_level(level), self.question
        is_counted, has_one_each, least = False, False, -np.inf
        if question is not None:
            _require_whole(question, of.question)
            is_counted = question.sum is None
            has_one_each = question.has_one_item_each or (is_counted and question.max_items == 1)
            least = -np.inf if question.at_least else 0.0
        most = 1.0 if least == 0 and (is_counted or has_one_each) else np.inf
        level_of_both = (1 + level) / 2
        whole = of.interval(level_of_both)
        parts = np.maximum(self._ends_of_all(level_of_both)[self._order], least)
        ends = ends_of_quotients(parts, whole, least, most).tolist()
        whole_estimate = of.estimate if of.estimate > 0 or least else np.nan
        values = self.estimates[self._order] / whole_estimate
        items = []
        for place, value, (low, high) in zip(self._order.tolist(), values, ends, strict=True):
            share = Share(self._items[place], float(np.clip(value, low, high)), low, high)
            items.append(share)
        other = None
        if has_one_each or (question is not None and not is_counted):
            most = 1.0 if least == 0 and has_one_each else np.inf
            (own,) = ends_of_quotients(parts.sum(axis=0, keepdims=True), whole, least, most)
            low, high = (1 - own[::-1]).tolist()
            other = Share("other", float(np.clip(1 - values.sum(), low, high)), low, high)
        return Shares(tuple(items), other, level, tuple(_notes(level, question, has_one_each)))

    def _largest_first(self) -> Self:
        """The same release with its arrays in the order of the estimates."""
        order = self._order
        places = order.tolist()
        labels, gaps, detail = self.labels, self.gaps, self.detail
        if labels is not None:
            labels = tuple(labels[place] for place in places)
        if gaps.size == order.size:
            gaps = gaps[order]
        if len(detail.errors) > 1:
            detail = replace(detail, errors=tuple(detail.errors[place] for place in places))
        evidence = detail.evidence
        if evidence is not None and len(evidence.leads) > 1:  # else one for all of them
            leads = tuple(evidence.leads[place] for place in places)
            scales = tuple(evidence.scales[place] for place in places)
            detail = replace(detail, evidence=Evidence(leads, scales))
        return replace(
            self,
            indices=self.indices[order],
            labels=labels,
            gaps=gaps,
            measurements=self.measurements[order],
            estimates=self.estimates[order],
            variances=self.variances[order],
            detail=detail,
        )

    def _about(self, question: Question) -> Self:
        """The release as the answer to a question.

        Sums of a table are added up in whole steps, such as cents, and mechanisms work in steps. So
        every number and every error is multiplied by the step.
        """
        step, width = question.step, float(question.step)
        detail = self.detail
        evidence, measured_by = detail.evidence, detail.measured_by
        if evidence is not None:
            leads = tuple(lead * width for lead in evidence.leads)
            evidence = Evidence(leads, tuple(scale * step for scale in evidence.scales))
        if measured_by is not None:
            measured_by = replace(measured_by, grid=measured_by.grid * step)
        promise = detail.promise._replace(sensitivity=detail.promise.sensitivity * step)
        return replace(
            self,
            question=question,
            gaps=self.gaps * width,
            lead=None if self.lead is None else self.lead * width,
            measurements=self.measurements * width,
            estimates=self.estimates * width,
            variances=self.variances * width**2,
            detail=replace(
                detail,
                promise=promise,
                looked=tuple((rank, value * width) for rank, value in detail.looked),
                evidence=evidence,
                errors=tuple(replace(error, grid=error.grid * step) for error in detail.errors),
                measured_by=measured_by,
                rounding=(detail.rounding or 0.0) * width,
            ),
        )

    def _shown_in_words(self) -> str:
        return f"Items shown: {len(self):,}{_of_items(self.question)}. "

    @property
    def _rounding(self) -> float:
        return self.detail.rounding or 0.0

    @property
    def _order(self) -> Integers:
        """The indices that sort the arrays, the largest estimate first."""
        return np.argsort(-self.estimates, kind="stable")

    @property
    def _measuring_error(self) -> MeasurementError | None:
        """The error of each measurement; None if it was not kept."""
        if self.detail.measured_by is not None:
            return self.detail.measured_by
        errors = self.detail.errors
        return errors[0] if errors and not isinstance(errors[0], LaplaceSum) else None

    def _rank_groups(self) -> tuple[tuple[int, ...], ...]:
        return self.groups()

    def _by_rank(self, flags: Flags) -> Flags | None:
        ordered: Flags = flags[self._order]
        return ordered

    def _ends_of_pairs(self, ones: Integers, others: Integers, level: float = 0.95) -> Floats:
        """Ends of intervals for the leads of `ones` over `others`, for all pairs at once."""
        low, high, half = self._compared(level)
        ends = (low[ones] - high[others] - half, high[ones] - low[others] + half)
        return np.stack(ends, axis=1)

    def _half_widths_of_gaps(self, level: float = 0.95) -> Floats:
        """The most that the gap of each estimate to the next is off, for all gaps at once.

        The interval of a gap is around the difference that was measured. The half-width is long
        enough to hold that interval around the difference of the estimates.
        """
        low, high, half = self._compared(level)
        ones, others = self._order[:-1], self._order[1:]
        gaps = self.estimates[ones] - self.estimates[others]
        below = gaps - (low[ones] - high[others])
        above = high[ones] - low[others] - gaps
        widths: Floats = half + np.maximum(below, above)
        return widths

    def _compared(self, level: float) -> tuple[Floats, Floats, float]:
        """Two ends for each answer, and the most that a difference of ends is off in all pairs.

        A noisy histogram has an interval for each answer. Otherwise both ends are the measurement.
        """
        if isinstance(self._measuring_error, HistogramError):
            low, high = self._ends_of_all(level).T
            return low, high, 0.0
        return self.measurements, self.measurements, self._half_width_of_pairs(level)

    def _half_width_of_pairs(self, level: float = 0.95) -> float:
        """The most that the measured difference of two answers is off, for all pairs at once.

        After a noisy histogram this is for answers far above the line; `_ends_of_pairs` is for all
        answers.
        """
        level, error = confidence_level(level), self._measuring_error
        if error is None:
            return math.inf
        return error.half_width_of_pairs(self.indices.size, level) + 2 * self._rounding

    def _ends_of_all(self, level: float = 0.95) -> Floats:
        """For each answer, the ends of an interval; all intervals hold at once."""
        level, error = confidence_level(level), self._measuring_error
        if error is None:
            return around(self.measurements, math.inf)
        return error.ends_of_all(self.measurements, level, self._rounding)

    def _rows(self) -> tuple[Row, ...]:
        places = self._order.tolist()
        items = self._items
        estimates = self.estimates.tolist()
        ends = self.interval().tolist()
        p_values = self._p_of_rows()
        half_widths = self._half_widths_of_gaps().tolist()
        rows = []
        for rank, place in enumerate(places, start=1):
            gap = give_or_take = None
            if rank < len(places):
                gap = estimates[place] - estimates[places[rank]]
                give_or_take = finite(half_widths[rank - 1])
            low, high = ends[place]
            row = Row(
                rank=rank,
                item=items[place],
                estimate=estimates[place],
                low=finite(low),
                high=high,
                gap=gap,
                give_or_take=give_or_take,
                p=p_values[place],
            )
            rows.append(row)
        return tuple(rows)

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {**columns_of(self._rows(), Row._fields)}


# --------------------------------------------------------------------------------------------------
# Measured values: those of an array, or one number about all units of a table. A count is a total
# of 1 for each unit.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MeasuredValues(Release, RowSequence):
    """Measured values, each with the same variance; or a count or a total of a table.

    A count and a total have one value, `estimate`, which is also their `float()`. Each unit of a
    total is cut off at public ends.
    """

    values: Annotated[Floats, FLOATS]
    """The values as they were drawn."""

    _title: ClassVar[str] = "Measured values"
    _needed: ClassVar[tuple[str, ...]] = (*Release._needed, "measured_by", "rounding")

    def __len__(self) -> int:
        return int(self.values.size)

    def __float__(self) -> float:
        return self.estimate

    @property
    def estimate(self) -> float:
        """The noisy number, if there is one; 0 if it is below 0 and no unit adds less than 0.

        So it lies within its interval.
        """
        if len(self) != 1:
            raise TypeError(f"a release of {len(self)} values is not one number: use values")
        value = float(self.values[0])
        return max(value, 0.0) if self._is_never_below_0 else value

    @property
    @without_float_errors
    def variance(self) -> float:
        """The variance of each value."""
        return self._error.variance

    @without_float_errors
    def interval(self, level: float = 0.95) -> Floats:
        """For each value, the ends of an interval for the true value, with this confidence.

        A count and a total have one interval: its two ends. No end is below 0 if no unit adds less
        than 0.
        """
        rounding = self.detail.rounding or 0.0
        ends = self._error.ends(self.values, confidence_level(level), rounding)
        if self.question is None:
            return ends
        one: Floats = ends[0]
        return np.maximum(one, 0.0) if self._is_never_below_0 else one

    @property
    def _error(self) -> MeasurementError:
        return cast(MeasurementError, self.detail.measured_by)

    @property
    def _is_never_below_0(self) -> bool:
        return self.question is not None and not self.question.at_least

    def _rows(self) -> tuple[Row, ...]:
        ends = self.interval().reshape(-1, 2).tolist()
        if self.question is not None:
            ((low, high),) = ends
            return (Row(1, None, self.estimate, low, high),)
        values = self.values.tolist()
        return tuple(
            Row(None, place, values[place], low, high) for place, (low, high) in enumerate(ends)
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        names = ("estimate", "low", "high")
        return {**columns_of(self._rows(), names if self.question else ("item", *names))}


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

    def to_dict(self) -> dict[str, Any]:
        """All fields as a dictionary that JSON can hold."""
        return self._to_dict()

    @property
    def _remark(self) -> str:
        return " ".join(self.notes)

    @property
    def guarantee(self) -> str:
        """The cost in plain words."""
        return "Shares are computed from two releases. They cost no more ε."

    def _columns(self) -> dict[str, Sequence[Any]]:
        rows = self.items if self.other is None else (*self.items, self.other)
        names = ("item", "share", "low", "high")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    @property
    def _headings(self) -> Mapping[str, str]:
        level = f"{100 * self.level:.4g}%"
        return {"low": f"{level} low", "high": f"{level} high"}

    def _cells(self) -> dict[str, list[str]]:
        """The rows as text, in per cent."""
        items, *numbers = self._columns().items()
        texts = {"item": [visible(plain(item)) for item in items[1]]}
        for name, cells in numbers:
            heading = self._headings.get(name, name)
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReleasesByGroup(Release, Mapping[Any, MeasuredItems]):
    """A mapping from group to release, in the order in which the groups were stated."""

    _answers: tuple[MeasuredItems, ...]

    _is_by_group: ClassVar[bool] = True

    @property
    def _asked(self) -> Question:
        return cast(Question, self.question)

    def _shown_in_words(self) -> str:
        words = f"Groups: {len(self):,}. "
        if self._asked.threshold is None:
            words += f"Items shown in each: {self._asked.k:,}{_of_items(self._asked)}. "
        return words

    def __getitem__(self, group: Any) -> MeasuredItems:
        """The release of one group."""
        answers: dict[Any, MeasuredItems] = dict(zip(self, self._answers, strict=True))
        return answers[group]

    def __iter__(self) -> Iterator[Any]:
        return (cast(Question, answer.question).group for answer in self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def _columns(self) -> dict[str, Sequence[Any]]:
        """The rows of all groups, one after the other; the first column says which group."""
        groups = []
        rows: list[Row] = []
        for group, answer in self.items():
            groups += [group] * len(answer)
            rows += answer
        return {"group": groups, **columns_of(rows, Row._fields)}

    def _with(self, made: Provenance) -> Self:
        """The same release with this provenance, which the groups share."""
        answers = tuple(replace(answer, made=made) for answer in self._answers)
        return replace(self, made=made, _answers=answers)


def by_group(
    question: Question, answers: Sequence[MeasuredItems], cost: Cost, most: Cost
) -> ReleasesByGroup:
    """One release made of the releases of all groups; `most` is the most that it can cost."""
    mechanisms = dict.fromkeys(used for answer in answers for used in answer.detail.mechanisms)
    promise = answers[0].detail.promise._replace(cost=most)
    release = ReleasesByGroup(
        cost=cost,
        question=question,
        detail=Detail(promise=promise, mechanisms=tuple(mechanisms)),
        _answers=tuple(answers),
    )
    return release._with(release.made)
