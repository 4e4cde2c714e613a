"""A release by a route: what was selected and measured on it, as one value that says how.

`Routed` is a pipeline that takes one route, whatever the data are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgap.exact.grid import Grid
from dpgap.mechanisms.top_k.candidates import Candidates
from dpgap.pipelines.look_first import LookFirst
from dpgap.pipelines.routes import Answers, Route, RouteResult
from dpgap.releases.drawn import Measuring
from dpgap.releases.provenance import MechanismUsed
from dpgap.releases.results import Measured


@dataclass(frozen=True, slots=True)
class Routed:
    """One route, as a pipeline."""

    route: Route
    method: str
    split: Fraction | None = None
    """The share of ε that selects, where one was stated."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        return self.route.epsilon

    def prepare(self, answers: Answers) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        return self.route.prepare(answers, None)

    def draw_paid(self, candidates: Candidates) -> Measuring[Any]:
        """Take the route; the caller has paid."""
        return self.route.draw_paid(candidates)

    def build(self, drawn: Measuring[Any]) -> Measured:
        """The release of what was drawn."""
        return built(self.route, drawn, self.method)


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def built(
    route: Route, drawn: Measuring[Any], method: str, looking: LookFirst | None = None
) -> Measured:
    """The release of what was drawn on a route, perhaps after a look."""
    won = route.build(drawn)
    steps, epsilon = route.steps, route.epsilon
    if looking is not None:
        steps, epsilon = (("look", looking.measurement), *steps), looking.epsilon
    return measured(
        won,
        epsilon,
        route.grid,
        method,
        steps,
        route=route.name,
        looked=() if looking is None else looking.looked(drawn),
        parts=tuple((step, each.epsilon) for step, each in steps),
    )


def measured(
    won: RouteResult,
    epsilon: Fraction,
    grid: Fraction | None,
    method: str,
    steps: Sequence[tuple[str, Any]],
    **more: Any,
) -> Measured:
    """The release of what was selected, measured and estimated in some steps, for ε in all."""
    return Measured(
        indices=won.indices,
        gaps=won.gaps,
        labels=won.labels,
        evidence=won.evidence,
        measurements=won.measurements,
        **won.found._asdict(),
        rounding=Grid(grid).rounding,
        epsilon=epsilon,
        spent=epsilon if won.spent is None else won.spent,
        promise=won.promise._replace(epsilon=epsilon),
        method=method,
        mechanisms=tuple(MechanismUsed.of(each) for _, each in steps),
        lead=won.lead,
        **more,
    )
