"""Write a stream as one step, and have it proved for every n."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.proof.checker.proving import Counterexample, Proof, directions, prove
from dpgap.proof.every.steps import prove_steps
from dpgap.proof.every.theorems import judged

_MOST_ANSWERS = 3


class Stepwise(ABC):
    """A stream of answers, to be written as one step; everything else follows from it.

    Say `epsilon`, the `shared_law` of the draw that all steps share, how many units there are
    (`capacity`) and the ε of one (`unit`). Write `step` and `align_step`.
    """

    epsilon: Any
    shared_law: Law
    capacity: int
    unit: Any
    sensitivity: Any = 1

    @abstractmethod
    def step(
        self, used: Scalar, answer: Scalar, shared: Scalar, noise: Noise
    ) -> tuple[Any, Scalar]:
        """What is said of one answer, and the units used after it."""

    @abstractmethod
    def align_step(
        self, used: Scalar, move: Scalar, outcome: Any
    ) -> tuple[Sequence[Scalar], Scalar]:
        """A shift for every draw of a step, and the units used after it.

        On the neighbour what is shared is higher by the `rise`. `move` makes up for that and for
        the answer's own change.
        """

    def rise(self, answers: Sequence[Scalar], neighbour: Sequence[Scalar]) -> Scalar:
        """How far the shared draw is shifted."""
        return self.sensitivity

    def live(self, used: Scalar) -> Any:
        """Whether the stream goes on once so many units are used."""
        return used < self.capacity

    def run(self, answers: Iterable[Scalar], noise: Noise) -> Iterator[Any]:
        """One step after another."""
        shared = noise.draw(self.shared_law)
        used: Scalar = 0
        for answer in answers:
            outcome, used = self.step(used, answer, shared, noise)
            yield outcome
            if not self.live(used):
                return

    def align(
        self,
        answers: Sequence[Scalar],
        neighbour: Sequence[Scalar],
        noise: Sequence[Scalar],
        output: Sequence[Any],
    ) -> Iterator[Scalar]:
        """The shifts of one step after another."""
        yield (rise := self.rise(answers, neighbour))
        used: Scalar = 0
        for before, after, outcome in zip(answers, neighbour, output, strict=False):
            shifts, used = self.align_step(used, rise + before - after, outcome)
            yield from shifts


def prove_every(mechanism: Any, *, neighbours: str | None = None, ties: bool = False) -> Proof:
    """Prove that a stream is ε-private, however many answers there are.

    `mechanism` is a `Stepwise`, or has the same methods, as `SparseVector` has. A refutation comes
    with numbers, if few answers show it. The other arguments are those of `prove`.
    """
    missing = [
        name for name in ("step", "align_step", "rise", "live") if not hasattr(mechanism, name)
    ]
    if missing:
        raise TypeError(f"mechanism must have a method {missing[0]!r}: write it as a step")
    kinds = directions(neighbours, mechanism)

    def theorems() -> list[Any]:
        return [each for kind in kinds for each in prove_steps(mechanism, kind, ties=ties)]

    def example() -> Counterexample | None:
        for n in range(1, _MOST_ANSWERS + 1):
            found = prove(mechanism, n, neighbours=neighbours, ties=ties).counterexample
            if found is not None:
                return found
        return None

    return judged(theorems, " and ".join(kinds), example=example)
