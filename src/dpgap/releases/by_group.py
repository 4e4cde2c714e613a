"""What stands beside the answer to one question: totals, shares of them, and answers by group.

The answers for all groups are a mapping from group to release. All of them are one release: one
guarantee, one charge, one document.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dpgap.estimates.errors import ends_of_quotients
from dpgap.exact.parameters import confidence_level
from dpgap.exact.reals import Floats
from dpgap.printable import plural, printable, visible
from dpgap.question import Question
from dpgap.releases.findings import (
    cut_in_words,
    general_findings,
    measured_in,
    own_findings,
    question_of,
)
from dpgap.releases.plain import plain
from dpgap.releases.release import (
    Measured,
    MeasuredValues,
    MechanismUsed,
    Provenance,
    Release,
    Table,
    TableRelease,
)

# --------------------------------------------------------------------------------------------------
# What all units come to: one number, with its interval. A count is a total of 1 for each unit.


@dataclass(frozen=True, slots=True, eq=False)
class Total(MeasuredValues):
    """What a column adds up to, each unit cut off at public ends: `estimate` and `interval`."""

    question: Question

    @property
    def estimate(self) -> float:
        """The number with its noise."""
        return float(self.values[0])

    @property
    def spent(self) -> Fraction:
        """What it cost."""
        return self.epsilon

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return self.question.guarantee()

    @np.errstate(all="ignore")
    def interval(self, level: float = 0.95) -> Floats:
        """The ends of an interval that holds the true number with this confidence.

        None is below 0 where no unit adds less than 0.
        """
        least = -np.inf if self.question.at_least else 0.0
        ends: Floats = np.maximum(MeasuredValues.interval(self, level)[0], least)
        return ends

    @property
    def findings(self) -> tuple[str, ...]:
        part = "" if self.question.where is None else " of the rows that the filter keeps"
        cells = self.cells(",")
        ends = f"{cells['95% low'][0]} and {cells['95% high'][0]}"
        doubts = self.question.doubts()
        found = f"The total{part} is between {ends} (95 % confidence)."
        return (*cut_in_words(self), found, *doubts)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().tolist()
        return {"estimate": [self.estimate], "95% low": [low], "95% high": [high]}


@dataclass(frozen=True, slots=True, eq=False)
class UnitCount(Total):
    """How many distinct units a table has, or a part of it: `estimate`, and its `interval`."""

    @property
    def findings(self) -> tuple[str, ...]:
        low, high = self.interval().tolist()
        part = "" if self.question.where is None else " that the filter keeps"
        units = plural(self.question.unit)
        ends = " to ".join(dict.fromkeys((f"{low:,.0f}", f"{high:,.0f}")))
        return (f"There are {ends} {units}{part} (95 % confidence).",)


# --------------------------------------------------------------------------------------------------
# Which share of a count, or of a total, each of the selected items has, and what is left.
#
# The intervals of a release hold for all of its items at once, and for the items that were
# selected. They and the interval of the whole have half each of what may go wrong, so that all of
# them hold at once. A share lies between the least and the most that a part within its interval
# can be of a whole within its own.
#
# What else is known of shares follows from the questions, which are public. Units add 0 or more:
# then so does a share. A unit has an item or not, and a row one item: then no share is above 1. Of
# totals of units with several rows neither is known to be so: what is above 0 for one item may be
# made up for by another, and each is cut by itself.


class Share(NamedTuple):
    """The share of one item, and an interval; 0.25 is a quarter."""

    item: Any
    estimate: float
    """NaN where noise has left nothing of the whole."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Shares(Table):
    """Each item's share of a whole. With confidence `level`, all intervals hold at once."""

    title: ClassVar[str] = "Shares of a count or a total"
    items: tuple[Share, ...]
    """The largest estimate first."""
    other: Share | None
    """What is left; None where items overlap, so that shares do not add up."""
    level: float
    notes: tuple[str, ...]
    """How far intervals may be trusted, and what the rest is, in plain sentences."""

    @property
    def remark(self) -> str:
        return " ".join(self.notes)

    @property
    def guarantee(self) -> str:
        """What it costs, in plain words."""
        return "Shares follow from two releases. They cost nothing more."

    def columns(self) -> dict[str, Sequence[Any]]:
        rows = self.items if self.other is None else (*self.items, self.other)
        level = f"{100 * self.level:.4g}%"
        names = ("item", "share", f"{level} low", f"{level} high")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def cells(self, separator: str = "") -> dict[str, list[str]]:
        """The rows as they are shown: in per cent."""
        items, *numbers = self.columns().items()
        return {"item": [visible(plain(item)) for item in items[1]]} | {
            name: [f"{cell:{separator}.1%}" if np.isfinite(cell) else "–" for cell in cells]
            for name, cells in numbers
        }


@np.errstate(all="ignore")
def shares_of(release: Measured, of: Total, level: float) -> Shares:
    """The shares that the items of a release have of a count or a total of the same table."""
    if not isinstance(of, Total):
        raise TypeError(
            "of must be a released count or total, as dpgap.count and dpgap.total give, not "
            f"{type(of).__name__}"
        )
    level, asked = confidence_level(level), question_of(release)
    if asked is not None:
        _require_whole(asked, of.question)
    is_counted = asked is not None and asked.sum is None
    has_one_each = asked is not None and (
        asked.has_one_item_each or (is_counted and asked.max_items == 1)
    )
    least = 0.0 if asked is not None and not asked.at_least else -np.inf
    most = 1.0 if least == 0 and (is_counted or has_one_each) else np.inf
    each = (1 + level) / 2
    order, whole = release.order, of.interval(each)
    parts = np.maximum(release.ends_of_all(each)[order], least)
    ends = ends_of_quotients(parts, whole, least, most)
    known = of.estimate if of.estimate > 0 or least else np.nan
    values = release.estimates[order] / known
    names = release.indices.tolist() if release.labels is None else release.labels
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


def _notes(level: float, asked: Question | None, has_one_each: bool) -> Iterator[str]:
    yield (
        f"All intervals hold at once with {100 * level:.4g} % confidence. They allow for the noise "
        "of both releases."
    )
    if asked is None:
        yield "Nothing is known of how answers overlap, so there is no “other”."
    elif asked.sum is None and not has_one_each:
        yield "A unit may have several items, and shares can add up to more than 1: no “other”."
    elif not has_one_each:
        yield (
            "“other” is what is left of the total. What a unit adds is cut for each item by "
            "itself, so “other” may be below 0."
        )


def _require_whole(part: Question, whole: Question) -> None:
    """Refuse a whole of other units, rows or amounts, as far as both questions tell."""
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
            raise ValueError(
                printable(
                    f"of must be asked with the same {name} as these items, {own}, not {other}"
                )
            )


# --------------------------------------------------------------------------------------------------


_OF_A_GROUP = ("Claims about", "In each group, claims about")


@dataclass(frozen=True, slots=True, eq=False)
class ReleasesByGroup(Release, Mapping[Any, TableRelease]):
    """A release for every group, in the order in which the groups were stated."""

    spent: Fraction
    question: Question
    answers: tuple[TableRelease, ...]

    @classmethod
    def of(cls, question: Question, answers: Sequence[TableRelease], spent: Fraction) -> Self:
        """One release of them all; a unit counts in the groups that the question allows."""
        used: dict[MechanismUsed, None] = {}
        for answer in answers:
            used |= dict.fromkeys(answer.mechanisms)
        promise = answers[0].promise._replace(epsilon=question.epsilon)
        return cls(
            epsilon=question.epsilon,
            promise=promise,
            mechanisms=tuple(used),
            spent=spent,
            question=question,
            answers=tuple(answers),
        )._with(Provenance.now())

    def __getitem__(self, group: Any) -> TableRelease:
        """The release of one group."""
        for answer in self.answers:
            if answer.question.group == group:
                return answer
        raise KeyError(group)

    def __iter__(self) -> Iterator[Any]:
        return (answer.question.group for answer in self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def remaining(self) -> Fraction:
        """The part of ε that was not spent."""
        return self.epsilon - self.spent

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words, for all groups together."""
        return self.question.guarantee()

    @property
    def findings(self) -> tuple[str, ...]:
        """What may be believed: of what, group by group, and then what is said of every group."""
        own = (
            f"{printable(str(answer.question.group))}: {' '.join(own_findings(answer))}"
            for answer in self.answers
        )
        return (*cut_in_words(self), *own, *self.general_findings)

    @property
    def general_findings(self) -> tuple[str, ...]:
        """How far claims may be trusted, once for all groups; confidence is for each group."""
        said = (sentence for answer in self.answers for sentence in general_findings(answer))
        return tuple(dict.fromkeys(sentence.replace(*_OF_A_GROUP) for sentence in said))

    def columns(self) -> dict[str, Sequence[Any]]:
        """The rows of all groups, one after the other; the first column says which group."""
        parts = [(answer.question.group, answer.columns()) for answer in self.answers]
        named = {name: None for _, columns in parts for name in columns}
        found: dict[str, Sequence[Any]] = {
            "group": [group for group, columns in parts for _ in columns["rank"]]
        }
        for name in named:
            found[name] = [cell for _, columns in parts for cell in columns[name]]
        return found

    def again(self) -> Self:
        return self._with(self.made._replace(again=True))

    def paid_by(self, reference: Mapping[str, Any]) -> Self:
        return self._with(self.made.paid_by(reference))

    def _with(self, made: Provenance) -> Self:
        """The same, made at this time and paid for by this entry, as is every part of it."""
        answers = tuple(replace(answer, made=made) for answer in self.answers)
        return replace(self, made=made, answers=answers)
