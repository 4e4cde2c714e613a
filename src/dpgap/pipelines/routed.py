"""A release by a route: what was selected and measured on it, as one value that says how.

`Routed` is a pipeline that takes one route, whatever the data are.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpgap.exact.grid import Grid
from dpgap.mechanisms.top_k.candidates import Candidates
from dpgap.pipelines.look_first import Looked, LookFirst
from dpgap.pipelines.routes import Answers, Route
from dpgap.releases.provenance import MechanismUsed
from dpgap.releases.results import Measured


class Look(NamedTuple):
    """What was looked at before, and what looked."""

    looking: LookFirst
    looked: Looked


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

    def draw_paid(self, candidates: Candidates) -> Measured:
        """Take the route; the caller has paid."""
        return released(self.route, candidates, self.method)


@np.errstate(all="ignore")  # the caller's settings must not turn a rounding into an error
def released(
    route: Route, candidates: Candidates, method: str, look: Look | None = None
) -> Measured:
    """Take a route, perhaps after a look; the caller has paid for both."""
    won = route.release_paid(candidates)
    steps, epsilon = route.steps, route.epsilon
    if look is not None:
        steps, epsilon = (("look", look.looking.measurement), *steps), look.looking.epsilon
    return Measured(
        indices=won.indices,
        gaps=won.gaps,
        labels=won.labels,
        evidence=won.evidence,
        measurements=won.measurements,
        **won.found._asdict(),
        rounding=Grid(route.grid).rounding,
        epsilon=epsilon,
        spent=epsilon if won.spent is None else won.spent,
        promise=won.promise._replace(epsilon=epsilon),
        method=method,
        mechanisms=tuple(MechanismUsed.of(each) for _, each in steps),
        route=route.name,
        looked=() if look is None else look.looked,
        lead=won.lead,
        parts=tuple((step, each.epsilon) for step, each in steps),
    )
