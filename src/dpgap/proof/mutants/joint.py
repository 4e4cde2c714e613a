"""Joint Top-K gone wrong: which set of k answers is the top set, and by how much?

They have Laplace noise of dpgap's scale, which Noisy Max's alignment proves.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.mechanisms.joint_kernel import winner_and_lead
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.mutants.entry import Answers, CatalogueEntry, Event, Shifts, laplace

_LAW = laplace(2)


@dataclass(frozen=True, slots=True)
class Sets:
    """Joint Top-K as it should be, for mutants to spoil."""

    k: int
    law: Law = _LAW

    epsilon: ClassVar[int] = 1

    def sets(self, answers: Answers) -> list[tuple[int, ...]]:
        """The sets that get noise."""
        return list(combinations(range(len(answers)), self.k))

    def score(self, inside: list[Scalar], outside: list[Scalar]) -> Scalar:
        """How good a set is."""
        return Fraction(1, 2) * (min(inside) - max(outside))

    def _scores(self, answers: Answers, sets: list[tuple[int, ...]]) -> list[Scalar]:
        places = range(len(answers))
        return [
            self.score([answers[i] for i in each], [answers[i] for i in places if i not in each])
            for each in sets
        ]

    def run(self, answers: Answers, noise: Noise) -> tuple[tuple[int, ...], Scalar]:
        """Noisy Max over sets."""
        sets = self.sets(answers)
        noisy = [score + noise.draw(self.law) for score in self._scores(answers, sets)]
        winner, lead = winner_and_lead(noisy)
        return sets[winner], lead

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """As in Noisy Max: the winner makes up for its own change and that of the second best."""
        sets = self.sets(answers)
        before, after = (self._scores(side, sets) for side in (answers, neighbour))
        winner = sets.index(output[0])
        return NoisyTopK(1, 1).align(before, after, noise, ((winner,), None))


class WholeMargin(Sets):
    """Takes the margin itself, as if it moved by no more than half of it does."""

    def score(self, inside: list[Scalar], outside: list[Scalar]) -> Scalar:
        return min(inside) - max(outside)


class LastKept(Sets):
    """Measures from the last answer kept in place of the first one left out."""

    def score(self, inside: list[Scalar], outside: list[Scalar]) -> Scalar:
        left_out = max(outside)
        kept = [answer for answer in inside if answer > left_out]
        return Fraction(1, 2) * (min(inside) - (min(kept) if kept else left_out))


class LowestNeverTaken(Sets):
    """Counts sets up to the last rank but one: no set that takes the lowest answer gets noise."""

    def sets(self, answers: Answers) -> list[tuple[int, ...]]:
        lowest = min(range(len(answers)), key=answers.__getitem__)
        return [each for each in Sets.sets(self, answers) if lowest not in each]


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        CatalogueEntry(
            "joint top-k by the margin, not halved",
            WholeMargin(2),
            Event((8, 8, 0), (7, 7, 1), lambda output: output[0] == (0, 1) and output[1] >= 24),
            n=3,
            k=2,
        ),
        CatalogueEntry(
            "joint top-k with the margin to the wrong neighbour",
            LastKept(2),
            Event((20, 5, 4), (20, 4, 5), lambda output: output[0] == (0, 1)),
            n=3,
            k=2,
        ),
        CatalogueEntry(
            "joint top-k with sets counted to the last rank but one",
            LowestNeverTaken(1),
            Event((1, 0, 2), (0, 1, 1), lambda output: output[0] == (0,)),
            n=3,
        ),
        *(CatalogueEntry("joint top-k with laplace noise", Sets(k), n=3, k=k) for k in (1, 2)),
    ]
