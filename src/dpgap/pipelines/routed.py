"""A release by a route: what was selected and measured on it, as one value that says how.

`Routed` is a pipeline that takes one route, whatever the data are.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
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
    done = _done(route, None if look is None else look.looking)
    return Measured(
        indices=won.indices,
        gaps=won.gaps,
        labels=won.labels,
        evidence=won.evidence,
        measurements=won.measurements,
        **won.found._asdict(),
        rounding=Grid(route.grid).rounding,
        epsilon=done.epsilon,
        spent=done.epsilon if won.spent is None else won.spent,
        promise=won.promise._replace(epsilon=done.epsilon),
        method=method,
        mechanisms=done.mechanisms,
        route=route.name,
        looked=() if look is None else look.looked,
        lead=won.lead,
        parts=done.parts,
    )


class _Done(NamedTuple):
    """What was done, whatever the data are: what it costs, and who did it."""

    epsilon: Fraction
    parts: tuple[tuple[str, Fraction], ...]
    mechanisms: tuple[MechanismUsed, ...]


@lru_cache(maxsize=64)  # routes are public
def _done(route: Route, looking: LookFirst | None) -> _Done:
    steps = route.steps if looking is None else (("look", looking.measurement), *route.steps)
    return _Done(
        sum((each.epsilon for _, each in steps), Fraction(0)),
        tuple((step, each.epsilon) for step, each in steps),
        tuple(MechanismUsed.of(each) for _, each in steps),
    )
