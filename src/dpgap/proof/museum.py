"""The museum of mutants: mechanisms that look private and are not.

Most have been published, or are slips that anybody could make. Each claims ε = 1 for answers of
sensitivity 1 and comes with the alignment its author might have had in mind, and with an event
that damns it: answers, a neighbour, and something that is more than e times as likely on the one
as on the other. The prover must refute every one. The last room holds what must be accepted.

Nothing here is part of the public interface.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpgap.exact.laws import LaplaceNoise, Law, Noise, Scalar
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.proof.variants import altered

Answers = Sequence[Scalar]
Outcome = tuple[bool, Scalar]
BELOW: Outcome = (False, None)


def _laplace(scale: int | Fraction) -> Law:
    return LaplaceNoise(Fraction(scale))


_TWO = _laplace(2)


@dataclass(frozen=True, slots=True)
class Sparse:
    """A Sparse Vector like the textbook's, for mutants to spoil: T = 0, stops after `stop`."""

    threshold_law: Law
    answer_law: Law
    stop: int | None = 1
    threshold: int = 0

    epsilon: ClassVar[int] = 1

    def outcome(self, answer: Scalar, noise: Noise, threshold: Scalar) -> Outcome:
        """What is said of one answer: above or not, and its gap."""
        gap = answer + noise.draw(self.answer_law) - threshold
        return (True, gap) if gap >= 0 else BELOW

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        """Compare each answer with a noisy threshold."""
        threshold = self.threshold + noise.draw(self.threshold_law)
        found = 0
        for answer in answers:
            outcome = self.outcome(answer, noise, threshold)
            found += outcome[0]
            yield outcome
            if found == self.stop:
                return

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Outcome]
    ) -> list[Scalar]:
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

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Outcome]
    ) -> list[Scalar]:
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

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Outcome]
    ) -> list[Scalar]:
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

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Outcome]
    ) -> list[Scalar]:
        shifts: list[Scalar] = [1]
        for before, after, (above, _) in zip(answers, neighbour, output, strict=False):
            shifts += [1 + before - after] * 2 if above else [0]
        return shifts


@dataclass(frozen=True, slots=True)
class TwoBranches:
    """An adaptive Sparse Vector like the paper's with k = 1, for mutants to spoil.

    ε₀ = ε₁ = ½ and ε₂ = ¼. Outcomes are (0, …) below, (1, gap) on top, (2, gap) in the middle.
    """

    threshold: int = 0
    margin: Scalar = 16

    epsilon: ClassVar[int] = 1
    threshold_law: ClassVar[Law] = _laplace(2)
    top_law: ClassVar[Law] = _laplace(8)
    middle_law: ClassVar[Law] = _laplace(4)
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

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Any]
    ) -> list[Scalar]:
        """As in the paper: who clears a branch makes up for the threshold and its own change."""
        shifts: list[Scalar] = [1]
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


@dataclass(frozen=True, slots=True)
class Max:
    """A Noisy Max like the textbook's, for mutants to spoil; `aligned` is how many winners."""

    law: Law = _TWO
    aligned: int = 1

    epsilon: ClassVar[int] = 1

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Any:
        """What is released beside the winner's index."""
        return None

    def run(self, answers: Answers, noise: Noise) -> tuple[tuple[int, ...], Any]:
        """Rank the noisy answers."""
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        return tuple(ranking[: self.aligned]), self.released(answers, noisy, ranking)

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Any
    ) -> list[Scalar]:
        """As in the paper: winners make up for their own change and the best loser's."""
        winners = output[0]
        losers = [i for i in range(len(answers)) if i not in winners]
        rise: Scalar = 0
        if losers:
            rise = max(neighbour[i] + noise[i] for i in losers) - max(
                answers[i] + noise[i] for i in losers
            )
        return [
            answers[i] - neighbour[i] + rise if i in winners else 0 for i in range(len(answers))
        ]


class ValueOfMax(Max):
    """Releases the largest noisy answer itself."""

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Scalar:
        return noisy[ranking[0]]


class OwnNoise(Max):
    """Takes the gap from the winner's own true answer, so releases its noise."""

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Scalar:
        return noisy[ranking[0]] - answers[ranking[0]]


class TrueRunnerUp(Max):
    """Takes the gap from the true answer of the runner-up, and names it."""

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Any:
        return ranking[1], noisy[ranking[0]] - answers[ranking[1]]


class TwoGaps(Max):
    """Releases the runner-up's gap too, at the price of one."""

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Any:
        first, second, third = ranking[:3]
        return noisy[first] - noisy[second], noisy[second] - noisy[third]


class Subtracted(Sparse):
    """Takes one-sided noise off the threshold instead of adding it."""

    def run(self, answers: Answers, noise: Noise) -> Iterator[Outcome]:
        threshold = self.threshold - noise.draw(self.threshold_law)
        for answer in answers:
            outcome = self.outcome(answer, noise, threshold)
            yield outcome
            if outcome[0]:
                return

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Sequence[Outcome]
    ) -> list[Scalar]:
        """To raise the threshold by 1, less must be taken off it."""
        return [-1, *Sparse.align(self, answers, neighbour, noise, output)[1:]]


@dataclass(frozen=True, slots=True)
class TooMany:
    """Measures all that an adaptive run found with noise for the k that it was asked for."""

    k: int = 1

    epsilon: ClassVar[int] = 1

    def run(self, answers: Answers, noise: Noise) -> tuple[Scalar, ...]:
        """Every answer plus its own noise."""
        law = _laplace(self.k)
        return tuple(answer + noise.draw(law) for answer in answers)

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: Any
    ) -> list[Scalar]:
        """Each draw makes up for its own answer's change."""
        return [before - after for before, after in zip(answers, neighbour, strict=True)]


@dataclass(frozen=True, slots=True)
class IndexOnlyTopK:
    """Noisy Top-K without gaps: private even where noise ties and the lower index wins."""

    k: int = 1

    epsilon: ClassVar[int] = 1

    def run(self, answers: Answers, noise: Noise) -> tuple[int, ...]:
        """Rank the noisy answers."""
        law = _laplace(2 * self.k)
        noisy = [answer + noise.draw(law) for answer in answers]
        return tuple(sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)[: self.k])

    def align(
        self, answers: Answers, neighbour: Answers, noise: Answers, output: tuple[int, ...]
    ) -> list[Scalar]:
        """Winners rise by 1 on the neighbour, as much as any loser can, so all order is kept."""
        return [answers[i] - neighbour[i] + 1 if i in output else 0 for i in range(len(answers))]


def monotonic_scale() -> SparseVector:
    """The noise for answers that move together, on answers that do not."""
    return SparseVector(0, 2, 1, monotonic=True, threshold_share=Fraction(1, 2))


def late_stop() -> Sparse:
    """Stops only once the cost is above ε, so answers one more than it can pay for."""
    return Sparse(_laplace(2), _laplace(4), stop=2)


def unscaled_max() -> NoisyTopK:
    """Noisy Max at scale 1/ε."""
    return altered(NoisyTopK(1, 1), law=_laplace(1))


def unscaled_top_k() -> NoisyTopK:
    """Noisy Top-2 at the scale of Noisy Max."""
    return altered(NoisyTopK(2, 1), law=_laplace(2))


def any_margin(unknown: Callable[[str], Scalar]) -> AdaptiveSparseVector:
    """An adaptive Sparse Vector whose margins are any numbers, of any sign."""
    mechanism = AdaptiveSparseVector(0, 1, 1)
    ways = (way._replace(margin=unknown(f"margin{way.number}")) for way in mechanism.ways)
    return altered(mechanism, ways=tuple(ways))
