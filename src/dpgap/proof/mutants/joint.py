"""Joint Top-K gone wrong: which set of k answers is the top set, and by how much?

They have Laplace noise of dpgap's scale, which its alignment proves as well.
"""

from fractions import Fraction
from typing import Any

from dpgap.exact.laws import Noise, Scalar
from dpgap.mechanisms.joint import JointTopK
from dpgap.proof.checker.families import altered
from dpgap.proof.mutants.entry import Answers, CatalogueEntry, Event, laplace


class WholeMargin(JointTopK):
    """Takes the margin itself, as if it moved by no more than half of it does."""

    __slots__ = ()

    def half_margin(self, answers: Answers, chosen: Any) -> Scalar:
        return 2 * JointTopK.half_margin(self, answers, chosen)


class LastKept(JointTopK):
    """Measures from the last answer kept in place of the first one left out."""

    __slots__ = ()

    def half_margin(self, answers: Answers, chosen: Any) -> Scalar:
        left_out = max(answers[i] for i in range(len(answers)) if i not in chosen)
        kept = [answers[i] for i in chosen if answers[i] > left_out]
        least = min(answers[i] for i in chosen)
        return Fraction(1, 2) * (least - (min(kept) if kept else left_out))


class LowestNeverTaken(JointTopK):
    """Counts sets up to the last rank but one: no set that takes the lowest answer gets noise."""

    __slots__ = ()

    def run(self, answers: Answers, noise: Noise) -> tuple[tuple[int, ...], Scalar]:
        rest = _without_lowest(answers)
        chosen, lead = JointTopK.run(self, [answers[i] for i in rest], noise)
        return tuple(rest[i] for i in chosen), lead

    def align(self, answers: Answers, neighbour: Answers, noise: Any, output: Any) -> list[Scalar]:
        """As if there were no lowest answer."""
        rest = _without_lowest(answers)
        before, after = ([side[i] for i in rest] for side in (answers, neighbour))
        chosen = tuple(rest.index(i) for i in output[0])
        return JointTopK.align(self, before, after, noise, (chosen, None))


def _without_lowest(answers: Answers) -> list[int]:
    lowest = min(range(len(answers)), key=answers.__getitem__)
    return [i for i in range(len(answers)) if i != lowest]


def _made(kind: type[JointTopK], k: int) -> JointTopK:
    return altered(kind(k, 1), law=laplace(2))


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        CatalogueEntry(
            "joint top-k by the margin, not halved",
            _made(WholeMargin, 2),
            Event((8, 8, 0), (7, 7, 1), lambda output: output[0] == (0, 1) and output[1] >= 24),
            n=3,
            k=2,
        ),
        CatalogueEntry(
            "joint top-k with the margin to the wrong neighbour",
            _made(LastKept, 2),
            Event((20, 5, 4), (20, 4, 5), lambda output: output[0] == (0, 1)),
            n=3,
            k=2,
        ),
        CatalogueEntry(
            "joint top-k with sets counted to the last rank but one",
            _made(LowestNeverTaken, 1),
            Event((1, 0, 2), (0, 1, 1), lambda output: output[0] == (0,)),
            n=3,
        ),
        *(
            CatalogueEntry("joint top-k with laplace noise", _made(JointTopK, k), n=3, k=k)
            for k in (1, 2)
        ),
    ]
