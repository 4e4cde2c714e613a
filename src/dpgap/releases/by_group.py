"""The answers to one question for every group: a mapping from group to release.

All of them are one release: one guarantee, one charge, one document.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from dpgap.exact.reals import Floats
from dpgap.printable import plural, printable
from dpgap.question import Question
from dpgap.releases.findings import cut_in_words, general_findings, own_findings
from dpgap.releases.release import (
    MeasuredValues,
    MechanismUsed,
    Provenance,
    Release,
    TableRelease,
)

# --------------------------------------------------------------------------------------------------
# How many units there are: one number, with its interval.


@dataclass(frozen=True, slots=True, eq=False)
class UnitCount(MeasuredValues):
    """How many distinct units a table has, or a part of it: `estimate`, and its `interval`."""

    question: Question

    @property
    def estimate(self) -> float:
        """The count with its noise."""
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
        """The ends of an interval that holds the true count with this confidence; none below 0."""
        ends: Floats = np.maximum(MeasuredValues.interval(self, level)[0], 0.0)
        return ends

    @property
    def findings(self) -> tuple[str, ...]:
        low, high = self.interval().tolist()
        part = "" if self.question.where is None else " that the filter keeps"
        units = plural(self.question.unit)
        ends = " to ".join(dict.fromkeys((f"{low:,.0f}", f"{high:,.0f}")))
        return (f"There are {ends} {units}{part} (95 % confidence).",)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().tolist()
        return {"estimate": [self.estimate], "95% low": [low], "95% high": [high]}


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
