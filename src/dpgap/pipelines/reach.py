"""Routes for counts whose units have a bounded reach: each counts for at most so many items.

- `HistogramRoute`: every item gets its own noise, and the largest noisy counts are read off, or
  all that reach a line. Nothing is left to be measured: values come with it, for any k.
- `HybridRoute`: for unknown items and a large reach. The largest are found by Hybrid Top-K, as far
  as they are above its line, and then measured.

Where items are unknown, only those present compete. A public line keeps out what one unit alone
has, but for a chance δ. Of the two routes the one with the lower line is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpgap.data.private_counts import PrivateCounts
from dpgap.exact.grid import Grid
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Joint
from dpgap.mechanisms.top_k import Candidates
from dpgap.pipelines.paper import EstimatedWinners
from dpgap.pipelines.routes import (
    Answers,
    Expectation,
    Route,
    SelectThenMeasure,
    Steps,
    measured,
    winners_of,
)
from dpgap.releases.drawn import Measuring, Ranking, ReadOff
from dpgap.releases.release import Measured

if TYPE_CHECKING:
    from dpgap.pipelines.asking import Asked

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class HistogramRoute:
    """All items measured at once; the largest k, or those at or above a line, are read off."""

    histogram: NoisyHistogram
    k: int | None
    line: int | None = None
    """In steps; None where the largest are looked for among known items."""
    delta: Fraction | None = None
    """Where items are unknown, the chance that is left for an item of one unit alone."""

    name: ClassVar[str] = "histogram"
    grid: ClassVar[Fraction | None] = None

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        return self.histogram.epsilon

    @property
    def steps(self) -> Steps:
        """It only measures."""
        return (("measure", self.histogram),)

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps, and their labels; refused before anything is charged."""
        return self.histogram.prepare(
            answers, labels, k=self.k, at_least=self.line, delta=self.delta
        )

    def draw_paid(self, candidates: Candidates) -> Measuring[ReadOff]:
        """Read off the largest; the caller has paid."""
        return Measuring(self.histogram.draw_paid(candidates, k=self.k, at_least=self.line))

    def build(self, drawn: Measuring[ReadOff], method: str) -> Measured:
        """The release of what was drawn."""
        read_off = drawn.chosen
        values = self.histogram.lengths(read_off.values)
        return measured(
            self.steps,
            method,
            self.grid,
            EstimatedWinners.plain(values, self.histogram.error_of(read_off)),
            route=self.name,
            indices=read_off.indices,
            labels=read_off.labels,
            gaps=np.empty(0),
            measurements=values,
            promise=self.histogram.promise,
        )

    def expectation(self) -> Expectation:
        """Which errors to expect: those of the noise, in any race."""
        error = self.histogram.error()
        return Expectation(error.variance, None, error.half_width(0.95), error.variance)


class HybridRoute(SelectThenMeasure[HybridTopK, Joint]):
    """The largest above a line, then measured."""

    __slots__ = ()
    name: ClassVar[str] = "hybrid"

    def prepare(self, answers: Answers, labels: Sequence[Any] | None) -> Candidates:
        """The answers in steps; refused before anything is charged."""
        return self.selection.prepare(answers, labels)

    def build(self, drawn: Measuring[Ranking], method: str) -> Measured:
        """The release of what was drawn; measuring nothing costs nothing."""
        selected = self.selection.build(drawn.chosen)
        values = self.measurement.lengths(drawn.values)
        found = EstimatedWinners.plain(values, self.measurement.error(max(values.size, 1)))
        own = {**winners_of(selected), "measurements": values, "route": self.name}
        own["spent"] = selected.spent + (self.measurement.epsilon if values.size else 0)
        return measured(self.steps, method, self.grid, found, **own)

    def expectation(self) -> Expectation:
        """Which errors to expect, if as many are found as are looked for."""
        variance = self.measurement.variance(self.k)
        half = self.measurement.half_width(self.k, 0.95)
        return Expectation(variance, variance, half, self.selection.law.variance)


def histogram_route(asked: "Asked", answers: PrivateCounts) -> HistogramRoute:
    """What reads the answer off a histogram of all items, known ones."""
    line = None if asked.threshold is None else Grid(None).up(asked.threshold / answers.step)
    return HistogramRoute(_histogram(asked, answers), asked.k, line)


def unknown_route(asked: "Asked", answers: PrivateCounts, parts: int) -> Route:
    """What finds unknown items: the route with the lower line."""
    reach = answers.reach
    if reach is None:
        raise ValueError("max_items must be given where domain is None")
    histogram = _histogram(asked, answers)
    stated = 0 if asked.threshold is None else Grid(None).up(asked.threshold / answers.step)
    line = histogram.line_for(asked.delta)
    read_off = HistogramRoute(histogram, asked.k, max(line, stated), asked.delta)
    if asked.k is None or asked.method != "best":
        return read_off
    share = asked.split or _HALF
    whole = asked.epsilon / parts
    facts: dict[str, Any] = {
        "monotonic": answers.monotonic,
        "sensitivity": answers.sensitivity,
    }
    other = HybridTopK.line_for(asked.k, share * whole, asked.delta, reach=reach, **facts)
    if line <= other:
        return read_off
    above = max(other, Fraction(stated))
    selection = HybridTopK(above, asked.k, share * whole, **facts)
    kind: type[Joint] = CountHull if answers.monotonic else Cube
    return HybridRoute(selection, kind.after(selection, (1 - share) * whole))


def _histogram(asked: "Asked", answers: PrivateCounts) -> NoisyHistogram:
    return NoisyHistogram(asked.epsilon, reach=answers.reach or 1, sensitivity=answers.sensitivity)
