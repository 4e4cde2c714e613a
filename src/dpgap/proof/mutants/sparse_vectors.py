"""Sparse Vectors gone wrong: which answers are above a noisy threshold?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpgap.exact.laws import ExponentialNoise, Law, Noise, Scalar
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.proof.mutants.entry import (
    Answers,
    CatalogueEntry,
    Event,
    Shifts,
    integrate,
    laplace,
    repeat,
)

Happens = Callable[[Iterable[Any]], bool]
Outcome = tuple[int, Scalar]
BELOW: Outcome = (0, None)
TWO, FOUR, EIGHT = map(laplace, (2, 4, 8))

FAR = 1000
"""A threshold that no noise reaches."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A Sparse Vector like the textbook's, for mutants to spoil: it stops after so many above.

    An outcome is the branch that the answer cleared, 0 for below, and what is said beside it.
    """

    threshold_law: Law = TWO
    answer_law: Law = FOUR
    stop: int | None = 1
    threshold: int = 0

    epsilon: ClassVar[int] = 1
    sign: ClassVar[int] = 1

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        """What is said of one answer: above or not, and its gap."""
        gap = answer + noise.draw(self.answer_law) - threshold
        return (1, gap) if gap >= 0 else BELOW

    @property
    def unit(self) -> Scalar:
        """What an answer above costs."""
        return self.answer_law.cost(Fraction(2))

    @property
    def capacity(self) -> int:
        """How many answers above ε pays for."""
        return int((self.epsilon - self.threshold_law.cost(Fraction(1))) / self.unit)

    def live(self, used: Scalar) -> bool:
        """Whether it goes on: until so many are above."""
        return self.stop is None or bool(used < self.stop)

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        """Compare each answer with a noisy threshold."""
        threshold = self.threshold + self.sign * noise.draw(self.threshold_law)
        used: Scalar = 0
        for answer in answers:
            outcome, used = self.step(used, answer, threshold, noise)
            yield outcome
            if not self.live(used):
                return

    def step(
        self, used: Scalar, answer: Scalar, threshold: Scalar, noise: Noise
    ) -> tuple[Outcome, Scalar]:
        """One answer, and how many were above with it."""
        outcome = self.outcome(answer, noise, threshold)
        return outcome, used + int(outcome[0] > 0)

    def shifts(self, branch: int, move: Scalar) -> Shifts:
        """How far to shift the draws for one answer; `move` is what it must make up for."""
        return [move if branch else 0]

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Any
    ) -> Iterable[Scalar]:
        """Raise the threshold by 1; answers above make up for that and for their own change."""
        rise = self.rise(answers, neighbour)
        yield self.sign * rise
        used: Scalar = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts

    def rise(self, answers: Answers, neighbour: Answers) -> int:
        """How far the threshold goes up."""
        return 1

    def align_step(self, used: Scalar, move: Scalar, outcome: Any) -> tuple[Shifts, Scalar]:
        """The shifts of one answer, and how many were above with it."""
        return self.shifts(outcome[0], move), used + int(outcome[0] > 0)


class ValueForAbove(Sparse):
    """Releases the noisy answer itself instead of its gap."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        noisy = answer + noise.draw(self.answer_law)
        return (1, noisy) if noisy >= threshold else BELOW


class IndicesOnly(Sparse):
    """Says above or below and nothing else."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        return (1, None) if answer + noise.draw(self.answer_law) >= threshold else BELOW


class NoAnswerNoise(Sparse):
    """Trusts the noise of the threshold to hide the answers."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        return (1, None) if answer >= threshold else BELOW

    def shifts(self, branch: int, move: Scalar) -> Shifts:
        return []


class OneDrawForAll(Sparse):
    """Draws one noise and adds it to every answer."""

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        threshold = self.threshold + noise.draw(self.threshold_law)
        shared = noise.draw(self.answer_law)
        for answer in answers:
            above = bool(answer + shared >= threshold)
            yield int(above), None
            if above:
                return

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        return [1, list(Sparse.align(self, answers, neighbour, noise, output))[-1]]


class GapsBelowToo(Sparse):
    """Releases the gap of every answer, above or below."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        gap = answer + noise.draw(self.answer_law) - threshold
        return int(bool(gap >= 0)), gap


class FreshGap(Sparse):
    """Releases, for an answer above, a gap from fresh noise that nobody pays for."""

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        above = answer + noise.draw(self.answer_law) >= threshold
        return (1, answer + noise.draw(self.answer_law) - threshold) if above else BELOW

    def shifts(self, branch: int, move: Scalar) -> Shifts:
        return [move, move] if branch else [0]


class Subtracted(Sparse):
    """Takes one-sided noise off the threshold. To raise it by 1, less must be taken off."""

    sign = -1


def outcomes_are(
    wanted: Sequence[int], fits: Callable[[Scalar], Any] = lambda number: True
) -> Happens:
    """Whether outcomes are exactly as wanted, 0 for below, with numbers that fit where above."""

    def happens(output: Iterable[Any]) -> bool:
        seen = 0
        for (branch, number), want in zip(output, wanted, strict=False):
            if int(branch or 0) != want or (want and not fits(number)):
                return False
            seen += 1
        return seen == len(wanted)

    return happens


def late(
    below: int,
    above: int,
    *,
    branch: int = 1,
    fits: Callable[[Scalar], Any] = lambda number: True,
    happens: Happens | None = None,
    **more: Any,
) -> Event:
    """An event in a stream: so many answers are below, then so many above, with fitting numbers.

    On the neighbour those below have risen by 1, and those above have fallen by 1.
    """
    return Event(
        repeat((0, below + above)),
        repeat((1, below), (-1, above)),
        happens or outcomes_are([0] * below + [branch] * above, fits),
        **more,
    )


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

    return integrate(given, TWO)


def _below_then_two_above(answers: Sequence[int]) -> float:
    return below_then_above(answers, 2, FOUR)


def _values_low(answers: Sequence[int]) -> float:
    """All below the threshold, scales 2 and 4; then a value that is above it but not above 0."""
    *below, last = answers

    def given(threshold: Any) -> Any:
        chance = FOUR.tail(threshold - last) - FOUR.tail(-last)
        for answer in below:
            chance = chance * (1 - FOUR.tail(threshold - answer))
        return chance * (threshold <= 0)

    return integrate(given, TWO)


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    two_late = late(20, 2, chance=_below_then_two_above)
    crossing = Event((0, 1), (1, 0), outcomes_are([0, 1]))
    return [
        CatalogueEntry(
            "sparse vector releasing the value",
            ValueForAbove(answer_law=TWO),
            late(5, 1, fits=_is_not_positive, samples=20_000_000),
        ),
        CatalogueEntry(
            "sparse vector releasing the value, right scale",
            ValueForAbove(),
            late(10, 1, fits=_is_not_positive, chance=_values_low),
        ),
        CatalogueEntry(
            "answer noise not scaled by k",
            IndicesOnly(FOUR, laplace(Fraction(4, 3)), stop=3),
            late(2, 3),
            n=3,
            k=3,
        ),
        CatalogueEntry("no answer noise", NoAnswerNoise(), crossing),
        CatalogueEntry("one draw for all answers", OneDrawForAll(), crossing),
        CatalogueEntry("never stops paying", IndicesOnly(answer_law=TWO, stop=None), late(3, 3)),
        CatalogueEntry(
            "gaps below the threshold too",
            GapsBelowToo(threshold=FAR),
            late(6, 6, happens=lambda output: low_then_high(output, 6), samples=20_000_000),
        ),
        CatalogueEntry(
            "gap from fresh uncharged noise",
            FreshGap(),
            late(8, 1, fits=lambda gap: gap >= 0, samples=4_000_000),
        ),
        CatalogueEntry(
            "monotonic scale on general answers",
            SparseVector(0, 2, 1, monotonic=True, threshold_share=Fraction(1, 2)),
            two_late,
            n=3,
            k=2,
            how={"neighbours": "general"},
        ),
        CatalogueEntry("stops only when the cost is above ε", Sparse(stop=2), two_late),
        CatalogueEntry(
            "one-sided noise subtracted",
            Subtracted(ExponentialNoise(Fraction(2)), ExponentialNoise(Fraction(4))),
            Event((-1,), (0,), outcomes_are([0])),
            n=1,
        ),
        CatalogueEntry(
            "sparse vector with one-sided noise",
            SparseVector(0, 2, 1, noise="exponential"),
            n=3,
            k=2,
            how={"ties": True},
        ),
    ]


def _is_not_positive(number: Scalar) -> Any:
    return number <= 0
