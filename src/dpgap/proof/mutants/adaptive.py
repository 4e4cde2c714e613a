"""Adaptive Sparse Vectors gone wrong: two branches, the first cheaper and harder to clear."""

from collections.abc import Callable
from typing import ClassVar

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector
from dpgap.proof.checker.families import altered
from dpgap.proof.mutants.entry import CatalogueEntry, Shifts
from dpgap.proof.mutants.sparse_vectors import (
    EIGHT,
    FAR,
    Outcome,
    Sparse,
    below_then_above,
    late,
    low_then_high,
)


class TwoBranches(Sparse):
    """An adaptive Sparse Vector like the paper's with k = 1, for mutants to spoil.

    ε₀ = ε₁ = ½ and ε₂ = ¼. Outcomes are (0, …) below, (1, gap) on top, (2, gap) in the middle.
    """

    top_law: ClassVar[Law] = EIGHT
    margin: ClassVar[int] = 16

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        """The noise of the middle branch, given that of the top branch."""
        return noise.draw(self.answer_law)

    def below(self, top_gap: Scalar) -> Scalar:
        """What is said beside "below"."""
        return None

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        """Try the top branch, then the middle one."""
        top = noise.draw(self.top_law)
        top_gap = answer + top - threshold
        if top_gap >= self.margin:
            return 1, top_gap
        gap = answer + self.middle(noise, top) - threshold
        return (2, gap) if gap >= 0 else (0, self.below(top_gap))

    def shifts(self, branch: int, move: Scalar) -> Shifts:
        """As in the paper: who clears a branch makes up for the threshold and its own change."""
        return [move] if branch == 1 else [0, move if branch else 0]


class LeaksFailedBranch(TwoBranches):
    """Tells, with "below", by how much the top branch was missed."""

    def below(self, top_gap: Scalar) -> Scalar:
        return top_gap


class HalvedNoise(TwoBranches):
    """Saves a draw: the middle branch uses half of the top branch's noise."""

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        return top / 2

    def shifts(self, branch: int, move: Scalar) -> Shifts:
        return [branch * move]


class ReusedNoise(TwoBranches):
    """Saves a draw: the middle branch uses the top branch's noise as it is. This is private."""

    def middle(self, noise: Noise, top: Scalar) -> Scalar:
        return top

    shifts = Sparse.shifts


def any_margin(unknown: Callable[[str], Scalar]) -> AdaptiveSparseVector:
    """An adaptive Sparse Vector whose margins are any numbers, of any sign."""
    mechanism = AdaptiveSparseVector(0, 1, 1)
    ways = (way._replace(margin=unknown(f"margin{way.number}")) for way in mechanism.ways)
    return altered(mechanism, ways=tuple(ways))


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        CatalogueEntry(
            "adaptive leaking the failed branch",
            LeaksFailedBranch(threshold=FAR),
            late(
                10,
                10,
                happens=lambda output: low_then_high(output, 10),
                chance=lambda answers: below_then_above(answers, 10, EIGHT),
            ),
        ),
        CatalogueEntry(
            "adaptive middle branch charged as the top",
            TwoBranches(stop=2),
            late(8, 2, branch=2, samples=12_000_000),
        ),
        CatalogueEntry(
            "middle branch reusing half the noise",
            HalvedNoise(),
            late(8, 1, branch=2, fits=lambda gap: gap >= 5, samples=8_000_000),
        ),
        CatalogueEntry("middle branch reusing the noise as it is", ReusedNoise(), n=3),
        CatalogueEntry("adaptive with any margins", any_margin, n=3, how={"ties": True}),
    ]
