"""Noisy Max and Top-K gone wrong: which answer is the largest, and by how much?"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.checker.families import altered
from dpgap.proof.mutants.entry import Answers, CatalogueEntry, Event, Shifts, laplace, repeat

_LAW = laplace(2)


@dataclass(frozen=True, slots=True)
class Max:
    """A Noisy Max like the textbook's, for mutants to spoil; `k` is how many winners."""

    law: Law = _LAW
    k: int = 1

    epsilon: ClassVar[int] = 1

    def released(self, answers: Answers, noisy: list[Scalar], ranking: list[int]) -> Any:
        """What is released beside the winner's index."""
        return None

    def run(self, answers: Answers, noise: Noise) -> tuple[tuple[int, ...], Any]:
        """Rank the noisy answers."""
        noisy = [answer + noise.draw(self.law) for answer in answers]
        ranking = sorted(range(len(noisy)), key=noisy.__getitem__, reverse=True)
        return tuple(ranking[: self.k]), self.released(answers, noisy, ranking)

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """As in the paper: winners make up for their own change and the best loser's."""
        return NoisyTopK(self.k, 1).align(answers, neighbour, noise, output)


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


class IndicesOfWinners(Max):
    """Noisy Top-K without gaps: private even where noise ties and the lower index wins."""

    only_indices: ClassVar[bool] = True

    def align(self, answers: Answers, neighbour: Answers, noise: Answers, output: Any) -> Shifts:
        """Winners rise by 1 on the neighbour, as much as any loser can, so all order is kept."""
        winners, _ = output
        return [answers[i] - neighbour[i] + 1 if i in winners else 0 for i in range(len(answers))]


def winners_fall(winners: int, losers: int, happens: Callable[[Any], bool]) -> Event:
    """An event in which the first answers win: on the neighbour they fall, and all others rise."""
    return Event(repeat((0, winners + losers)), repeat((-1, winners), (1, losers)), happens)


def entries() -> list[CatalogueEntry]:
    """What must be refuted, and what must be proved."""
    return [
        CatalogueEntry(
            "noisy max releasing the value",
            ValueOfMax(),
            Event(repeat((0, 5)), repeat((1, 5)), lambda output: output[1] <= 0),
            n=3,
        ),
        CatalogueEntry(
            "noisy max at scale 1/ε",
            altered(NoisyTopK(1, 1), law=laplace(1)),
            winners_fall(1, 4, lambda output: output[0] == (0,)),
            n=3,
        ),
        CatalogueEntry(
            "top-k at the scale of noisy max",
            altered(NoisyTopK(2, 1), law=laplace(2)),
            winners_fall(2, 2, _first_two_win),
            n=3,
            k=2,
        ),
        CatalogueEntry(
            "noisy max naming the runner-up",
            Max(k=2),
            winners_fall(2, 4, _first_two_win),
            n=3,
        ),
        CatalogueEntry(
            "gap from the winner's own true answer",
            OwnNoise(),
            winners_fall(1, 4, lambda output: output[0] == (0,) and output[1] <= 0),
            n=3,
        ),
        CatalogueEntry(
            "gap from the runner-up's true answer",
            TrueRunnerUp(),
            Event(
                repeat((0, 4)),
                (0, -1, 1, 1),
                lambda output: output[0] == (0,) and output[1][0] == 1 and output[1][1] <= 0,
            ),
            n=3,
        ),
        CatalogueEntry(
            "ties to the lowest index, gap released",
            NoisyTopK(1, 1),
            Event(
                repeat((0, 4)),
                (1, 1, -1, -1),
                lambda output: output[0] == (2,) and output[1][0] <= 0,
                on_grid=True,
            ),
            n=3,
            how={"ties": True},
        ),
        CatalogueEntry(
            "noisy max with two gaps",
            TwoGaps(),
            Event(
                (0, 0, -8, -8),
                (-1, -1, -7, -7),
                lambda output: output[0] == (0,) and output[1][1] >= 8,
            ),
            n=3,
        ),
        CatalogueEntry(
            "top-k of all answers at half the price",
            NoisyTopK(3, 1),
            n=3,
            k=3,
            how={"epsilon": Fraction(1, 2)},
        ),
        *(
            CatalogueEntry(
                "index-only top-k with ties",
                IndicesOfWinners(laplace(2 * k), k),
                n=4,
                k=k,
                how={"ties": True},
            )
            for k in (1, 2)
        ),
    ]


def _first_two_win(output: Any) -> bool:
    return set(output[0]) == {0, 1}
