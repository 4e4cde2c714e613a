"""Adaptive Sparse Vectors gone wrong: two branches, the first cheaper and harder to clear."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector
from dpgap.proof.audit.events import Event
from dpgap.proof.checker.families import altered
from dpgap.proof.mutants.entry import (
    Answers,
    CatalogueEntry,
    Shifts,
    accept,
    laplace,
    mutant,
    outcomes_are,
    repeat,
)
from dpgap.proof.mutants.sparse_vectors import FAR, below_then_above, low_then_high


@dataclass(frozen=True, slots=True)
class TwoBranches:
    """An adaptive Sparse Vector like the paper's with k = 1, for mutants to spoil.

    ε₀ = ε₁ = ½ and ε₂ = ¼. Outcomes are (0, …) below, (1, gap) on top, (2, gap) in the middle.
    """

    threshold: int = 0
    margin: Scalar = 16

    epsilon: ClassVar[int] = 1
    threshold_law: ClassVar[Law] = laplace(2)
    top_law: ClassVar[Law] = laplace(8)
    middle_law: ClassVar[Law] = laplace(4)
    capacity: ClassVar[int] = 2
    units: ClassVar[tuple[int, int, int]] = (0, 1, 2)
    middle_draws: ClassVar[bool] = True

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        """The noise of the middle branch, given that of the top branch."""
        return noise.draw(self.middle_law)

    def below(self, top_gap: Scalar) -> Scalar:
        """What is said beside "below"."""
        return None

    def run(self, answers: Answers, noise: Noise) -> Iterator[tuple[int, Scalar]]:
        """Try the top branch, then the middle one."""
        threshold = self.threshold + noise.draw(self.threshold_law)
        used = 0
        for answer in answers:
            top = noise.draw(self.top_law)
            branch, gap = 1, answer + top - threshold
            if gap < self.margin:
                branch, lost, gap = 2, gap, answer + self.middle(noise, top) - threshold
                if gap < 0:
                    branch, gap = 0, self.below(lost)
            used += self.units[branch]
            yield branch, gap
            if used > self.capacity - self.units[2]:
                return

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """As in the paper: who clears a branch makes up for the threshold and its own change."""
        shifts: Shifts = [1]
        for before, after, (branch, _) in zip(answers, neighbour, output, strict=False):
            move = 1 + before - after
            if not self.middle_draws:
                shifts.append(self.top_shift(move) if branch == 2 else move if branch else 0)
            elif branch == 1:
                shifts.append(move)
            else:
                shifts += [0, move if branch == 2 else 0]
        return shifts

    def top_shift(self, move: Scalar) -> Scalar:
        """How far to shift the top noise so that the middle one moves that far."""
        return move


class LeaksFailedBranch(TwoBranches):
    """Tells, with "below", by how much the top branch was missed."""

    def below(self, top_gap: Scalar) -> Scalar:
        return top_gap


class CheapMiddle(TwoBranches):
    """Charges the middle branch as little as the top one."""

    units = (0, 1, 1)
    capacity = 2


class HalvedNoise(TwoBranches):
    """Saves a draw: the middle branch uses half of the top branch's noise."""

    middle_draws = False

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        return top / 2

    def top_shift(self, move: Scalar) -> Scalar:
        return 2 * move


class ReusedNoise(TwoBranches):
    """Saves a draw: the middle branch uses the top branch's noise as it is. This is private."""

    middle_draws = False

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        return top


def any_margin(unknown: Callable[[str], Scalar]) -> AdaptiveSparseVector:
    """An adaptive Sparse Vector whose margins are any numbers, of any sign."""
    mechanism = AdaptiveSparseVector(0, 1, 1)
    ways = (way._replace(margin=unknown(f"margin{way.number}")) for way in mechanism.ways)
    return altered(mechanism, ways=tuple(ways))


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        mutant(
            "adaptive leaking the failed branch",
            LeaksFailedBranch(threshold=FAR),
            2,
            Event(
                repeat((0, 20)),
                repeat((1, 10), (-1, 10)),
                lambda output: low_then_high(output, 10),
                lambda answers: below_then_above(answers, 10, laplace(8)),
            ),
        ),
        mutant(
            "adaptive middle branch charged as the top",
            CheapMiddle(),
            2,
            Event(
                repeat((0, 10)),
                repeat((1, 8), (-1, 2)),
                outcomes_are([0] * 8 + [2, 2]),
                samples=12_000_000,
            ),
        ),
        mutant(
            "middle branch reusing half the noise",
            HalvedNoise(),
            2,
            Event(
                repeat((0, 9)),
                repeat((1, 8), (-1, 1)),
                outcomes_are([0] * 8 + [2], lambda gap: gap >= 5),
                samples=8_000_000,
            ),
        ),
        accept("middle branch reusing the noise as it is", ReusedNoise(), 3),
        accept("adaptive with any margins", any_margin, 3, ties=True),
    ]
