"""Sparse Vectors gone wrong: which answers are above a noisy threshold?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpgap.exact.laws import ExponentialNoise, Law, Noise, Scalar
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.proof.audit.events import Event
from dpgap.proof.audit.quadrature import integrate
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

Outcome = tuple[bool, Scalar]
BELOW: Outcome = (False, None)

FAR = 1000
"""A threshold that no noise reaches."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A Sparse Vector like the textbook's, for mutants to spoil: T = 0, stops after `stop`."""

    threshold_law: Law
    answer_law: Law
    stop: int | None = 1
    threshold: int = 0

    epsilon: ClassVar[int] = 1
    sign: ClassVar[int] = 1

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        """What is said of one answer: above or not, and its gap."""
        gap = answer + noise.draw(self.answer_law) - threshold
        return (True, gap) if gap >= 0 else BELOW

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        """Compare each answer with a noisy threshold."""
        threshold = self.threshold + self.sign * noise.draw(self.threshold_law)
        found = 0
        for answer in answers:
            outcome = self.outcome(answer, noise, threshold)
            found += outcome[0]
            yield outcome
            if found == self.stop:
                return

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """Raise the threshold by 1; answers above make up for that and for their own change."""
        return [1] + [
            1 + before - after if above else 0
            for before, after, (above, _) in zip(answers, neighbour, output, strict=False)
        ]


class ValueForAbove(Sparse):
    """Releases the noisy answer itself instead of its gap."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        noisy = answer + noise.draw(self.answer_law)
        return (True, noisy) if noisy >= threshold else BELOW


class IndicesOnly(Sparse):
    """Says above or below and nothing else."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        return (True, None) if answer + noise.draw(self.answer_law) >= threshold else BELOW


class NoAnswerNoise(Sparse):
    """Trusts the noise of the threshold to hide the answers."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        return (True, None) if answer >= threshold else BELOW

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        return [1]


class OneDrawForAll(Sparse):
    """Draws one noise and adds it to every answer."""

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        threshold = self.threshold + noise.draw(self.threshold_law)
        shared = noise.draw(self.answer_law)
        for answer in answers:
            above = bool(answer + shared >= threshold)
            yield above, None
            if above:
                return

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        last = len(output) - 1
        return [1, 1 + answers[last] - neighbour[last] if output[last][0] else 0]


class GapsBelowToo(Sparse):
    """Releases the gap of every answer, above or below."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        gap = answer + noise.draw(self.answer_law) - threshold
        return bool(gap >= 0), gap


class FreshGap(Sparse):
    """Releases, for an answer above, a gap from fresh noise that nobody pays for."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        above = answer + noise.draw(self.answer_law) >= threshold
        return (True, answer + noise.draw(self.answer_law) - threshold) if above else BELOW

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        shifts: Shifts = [1]
        for before, after, (above, _) in zip(answers, neighbour, output, strict=False):
            shifts += [1 + before - after] * 2 if above else [0]
        return shifts


class Subtracted(Sparse):
    """Takes one-sided noise off the threshold instead of adding it."""

    sign = -1

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """To raise the threshold by 1, less must be taken off it."""
        return [-1, *Sparse.align(self, answers, neighbour, noise, output)[1:]]


def low_then_high(output: Iterable[Any], lows: int) -> bool:
    """Whether gaps released below a far threshold are first low, then high."""
    return all(
        not above and bool(gap + FAR >= 0) == (at >= lows) for at, (above, gap) in enumerate(output)
    )


def below_then_above(answers: Sequence[int], above: int, law: Law) -> float:
    """The chance that all are below a threshold of scale 2 but the last, which are above."""

    def given(threshold: Any) -> Any:
        chance: Any = 1.0
        for at, answer in enumerate(answers):
            clears = law.tail(threshold - answer)
            chance = chance * (clears if at >= len(answers) - above else 1 - clears)
        return chance

    return integrate(given, laplace(2))


def _below_then_two_above(answers: Sequence[int]) -> float:
    return below_then_above(answers, 2, laplace(4))


def _values_low(answers: Sequence[int]) -> float:
    """All below the threshold, scales 2 and 4; then a value that is above it but not above 0."""
    *below, last = answers
    law = laplace(4)

    def given(threshold: Any) -> Any:
        chance = law.tail(threshold - last) - law.tail(-last)
        for answer in below:
            chance = chance * (1 - law.tail(threshold - answer))
        return chance * (threshold <= 0)

    return integrate(given, laplace(2))


def _is_not_positive(number: Scalar) -> Any:
    return number <= 0


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    two, four = laplace(2), laplace(4)
    late = Event(
        repeat((0, 22)),
        repeat((1, 20), (-1, 2)),
        outcomes_are([0] * 20 + [1, 1]),
        _below_then_two_above,
    )
    return [
        mutant(
            "sparse vector releasing the value",
            ValueForAbove(two, two),
            2,
            Event(
                repeat((0, 6)),
                repeat((1, 5), (-1, 1)),
                outcomes_are([0] * 5 + [1], _is_not_positive),
                samples=20_000_000,
            ),
        ),
        mutant(
            "sparse vector releasing the value, right scale",
            ValueForAbove(two, four),
            2,
            Event(
                repeat((0, 11)),
                repeat((1, 10), (-1, 1)),
                outcomes_are([0] * 10 + [1], _is_not_positive),
                _values_low,
            ),
        ),
        mutant(
            "answer noise not scaled by k",
            IndicesOnly(four, laplace(Fraction(4, 3)), stop=3),
            3,
            Event(repeat((0, 5)), repeat((1, 2), (-1, 3)), outcomes_are([0, 0, 1, 1, 1])),
            k=3,
        ),
        mutant(
            "no answer noise",
            NoAnswerNoise(two, four),
            2,
            Event((0, 1), (1, 0), outcomes_are([0, 1])),
        ),
        mutant(
            "one draw for all answers",
            OneDrawForAll(two, four),
            2,
            Event((0, 1), (1, 0), outcomes_are([0, 1])),
        ),
        mutant(
            "never stops paying",
            IndicesOnly(two, two, stop=None),
            2,
            Event(repeat((0, 6)), repeat((1, 3), (-1, 3)), outcomes_are([0, 0, 0, 1, 1, 1])),
        ),
        mutant(
            "gaps below the threshold too",
            GapsBelowToo(two, four, threshold=FAR),
            2,
            Event(
                repeat((0, 12)),
                repeat((1, 6), (-1, 6)),
                lambda output: low_then_high(output, 6),
                samples=20_000_000,
            ),
        ),
        mutant(
            "gap from fresh uncharged noise",
            FreshGap(two, four),
            2,
            Event(
                repeat((0, 9)),
                repeat((1, 8), (-1, 1)),
                outcomes_are([0] * 8 + [1], lambda gap: gap >= 0),
                samples=4_000_000,
            ),
        ),
        mutant(
            "monotonic scale on general answers",
            SparseVector(0, 2, 1, monotonic=True, threshold_share=Fraction(1, 2)),
            3,
            late,
            k=2,
            neighbours="general",
        ),
        mutant("stops only when the cost is above ε", Sparse(two, four, stop=2), 2, late),
        mutant(
            "one-sided noise subtracted",
            Subtracted(ExponentialNoise(Fraction(2)), ExponentialNoise(Fraction(4))),
            1,
            Event((-1,), (0,), outcomes_are([0])),
        ),
        accept(
            "sparse vector with one-sided noise",
            SparseVector(0, 2, 1, noise="exponential"),
            3,
            k=2,
            ties=True,
        ),
    ]
