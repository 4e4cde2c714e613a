"""How many units there are: one number, with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgap.exact.reals import Floats
from dpgap.releases.questions import Question
from dpgap.releases.results import MeasuredValues
from dpgap.releases.titles import plural


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
        part = "" if self.question.origin.where is None else " that the filter keeps"
        units = plural(self.question.origin.unit)
        return (f"There are {low:,.0f} to {high:,.0f} {units}{part} (95 % confidence).",)

    def columns(self) -> dict[str, Sequence[Any]]:
        low, high = self.interval().tolist()
        return {"estimate": [self.estimate], "95% low": [low], "95% high": [high]}
