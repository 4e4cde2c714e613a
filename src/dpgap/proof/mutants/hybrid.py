"""Hybrid Top-K gone wrong: which answers are the largest, as far as they are above a line?

Those that are judged by their alignment have Laplace noise of dpgap's scale, which Hybrid Top-K's
alignment proves as well. The one about δ has dpgap's noise, on a grid.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from dpgap.exact.laws import ExponentialNoise, Law, Noise, Scalar
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.proof.auditing.calling import frequency
from dpgap.proof.auditing.finding import DELTA, lower_chance
from dpgap.proof.checker.lone_items import chance_to_reach, check_lone_items, require_delta
from dpgap.proof.checker.proving import Counterexample, Proof
from dpgap.proof.mutants.entry import Answers, CatalogueEntry, Event, Shifts, laplace, repeat

_LAW = laplace(2)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Hybrid Top-K as it should be, with its line at 0, for mutants to spoil."""

    k: int = 1
    law: Law = _LAW
    monotonic: bool = False

    epsilon: ClassVar[int] = 1
    threshold: ClassVar[int] = 0

    def noisy(self, answers: Answers, noise: Noise) -> list[Scalar]:
        """The answers with noise, and last the line."""
        return [answer + noise.draw(self.law) for answer in (*answers, self.threshold)]

    def run(self, answers: Answers, noise: Noise) -> tuple[Any, ...]:
        """The ranking up to the line, and each winner's lead over what comes next."""
        noisy = self.noisy(answers, noise)
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        end = min(self.k, ranking.index(len(answers)))
        leads = [noisy[winner] - noisy[ranking[end]] for winner in ranking[:end]]
        return tuple(ranking[:end]), tuple(leads)

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """As in Hybrid Top-K."""
        return self.right(output).align(answers, neighbour, noise, output[:2])

    def unalign(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """As in Hybrid Top-K."""
        return self.right(output).unalign(answers, neighbour, noise, output[:2])

    def right(self, output: Any) -> HybridTopK:
        """The one that ships."""
        return HybridTopK(self.threshold, self.k, 1, monotonic=self.monotonic)


class SharedDraw(Hybrid):
    """One draw for all answers, at a scale without k: what the authors' `hybrid_svt` does."""

    def noisy(self, answers: Answers, noise: Noise) -> list[Scalar]:
        shared, own = noise.draw(self.law), noise.draw(self.law)
        return [*(answer + shared for answer in answers), self.threshold + own]

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """The draw makes up for the change of the first winner, and can for no other."""
        winners, _ = output
        return [answers[winners[0]] - neighbour[winners[0]] if winners else 0, 0]


class BareLine(Hybrid):
    """Compares with the line as it is."""

    def noisy(self, answers: Answers, noise: Noise) -> list[Scalar]:
        return [*(answer + noise.draw(self.law) for answer in answers), self.threshold]

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """Winners make up for their own change, and nothing else can be done."""
        winners, _ = output
        moves = [before - after for before, after in zip(answers, neighbour, strict=True)]
        return [move if i in winners else 0 for i, move in enumerate(moves)]


class LineNotPaid(Hybrid):
    """Says after k answers whether the line comes next, at the price of the answers alone."""

    def run(self, answers: Answers, noise: Noise) -> tuple[Any, ...]:
        noisy = self.noisy(answers, noise)
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        end = min(self.k, ranking.index(len(answers)))
        leads = [noisy[winner] - noisy[ranking[end]] for winner in ranking[:end]]
        return tuple(ranking[:end]), tuple(leads), ranking[end] == len(answers)

    def right(self, output: Any) -> HybridTopK:
        """Where the line is next, it rises with the winners."""
        return HybridTopK(self.threshold, self.k + output[2], 1, monotonic=self.monotonic)


@dataclass(frozen=True, slots=True)
class LineByGreater(Hybrid):
    """Releases what is at least the line, and accounts for what is greater, on a grid."""

    law: Law = field(default_factory=lambda: ExponentialNoise(Fraction(1)))
    on_grid: ClassVar[bool] = True
    threshold: ClassVar[int] = 5
    sensitivity: ClassVar[int] = 1

    def run(self, answers: Answers, noise: Noise) -> tuple[Any, ...]:
        *noisy, line = self.noisy(answers, noise)
        return tuple(i for i, value in enumerate(noisy) if value >= line), ()

    def delta(self, reach: int) -> Fraction:
        """The chance that is accounted for: of one step more."""
        further = self.threshold - self.sensitivity + 1
        return reach * Fraction(chance_to_reach(self.law, further, on_grid=True))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class LoneItemShows(Event):
    """An item that one unit alone has is released; without the unit there is none."""

    bounds: ClassVar[str] = DELTA

    def claimed(self, mechanism: Any) -> float:
        """The δ that the mechanism states."""
        return float(mechanism.delta(len(self.answers)))

    def least(self, mechanism: Any) -> float:
        """What the mechanism's δ is at least, by samples of its program."""
        hits = frequency(
            mechanism.run, self.answers, self.happens, self.samples, on_grid=self.on_grid
        )
        return lower_chance(hits, self.samples)


@dataclass(frozen=True, slots=True)
class DeltaEntry(CatalogueEntry):
    """A mechanism that is judged by its δ."""

    @property
    def variant(self) -> str:
        """What it is judged by."""
        return "δ of unknown items"

    def judge(self) -> Proof:
        """Compare the chance that an item of one unit shows with the δ that is claimed."""
        return check_lone_items(self.mechanism, self.n, on_grid=self.mechanism.on_grid)

    def replay(self, example: Counterexample) -> None:
        """Raise the `Violation` that is found for as many items."""
        require_delta(self.mechanism, len(example.answers), on_grid=self.mechanism.on_grid)


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        CatalogueEntry(
            "hybrid top-k with one draw for all answers",
            SharedDraw(k=2),
            Event((1, 0), (0, 1), lambda output: output[0][:1] == (0,)),
            k=2,
        ),
        CatalogueEntry(
            "hybrid top-k with a line without noise",
            BareLine(),
            Event(repeat((0, 6)), repeat((1, 6)), lambda output: output[0] == ()),
        ),
        CatalogueEntry(
            "hybrid top-k that does not pay for the line",
            LineNotPaid(law=laplace(1), monotonic=True),
            Event(repeat((0, 6)), (0, *repeat((1, 5))), lambda out: out[0] == (0,) and out[2]),
            how={"neighbours": "rising"},
        ),
        DeltaEntry(
            "hybrid top-k with > for ≥ in the account of its line",
            LineByGreater(),
            LoneItemShows((1,), (), lambda output: output[0] != (), on_grid=True),
            n=1,
        ),
        *(
            CatalogueEntry("hybrid top-k with laplace noise", Hybrid(k, laplace(2 * k)), n=2, k=k)
            for k in (1, 2, 3)
        ),
    ]
