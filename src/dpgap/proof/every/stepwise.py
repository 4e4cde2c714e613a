"""Streams that a user writes as one step: `prove_every` proves them for every n."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from dpgap.exact.laws import Law, Noise, Scalar
from dpgap.exact.parameters import require_made
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.proof.checker import proving
from dpgap.proof.checker.numbers import BadProgram
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import (
    Proof,
)
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
        """The outcome for one answer, and the units used after it."""

    @abstractmethod
    def align_step(
        self, used: Scalar, move: Scalar, outcome: Any
    ) -> tuple[Sequence[Scalar], Scalar]:
        """A shift for every draw of a step, and the units used after it.

        On the neighbour the shared value is higher by the `rise`. `move` is the shift that cancels
        this and the answer's own change.
        """

    def rise(self, before: Scalar, after: Scalar) -> Scalar:
        """How far the shared draw is shifted, given the sum of all answers and the neighbour's."""
        return self.sensitivity

    def live(self, used: Scalar) -> Any:
        """Whether the stream goes on after `used` units are used."""
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

    align: ClassVar[Any] = SparseVector.align
    """The shifts of one step after another."""


def prove_every(mechanism: Any, *, neighbours: str | None = None, ties: bool = False) -> Proof:
    """Prove that a stream is ε-private, for every number of answers.

    `mechanism` is a `Stepwise`, or has the same methods, as `SparseVector` has. A refutation comes
    with numbers, if few answers show it. The other arguments are those of `prove`.
    """
    require_made(mechanism)
    missing = [
        name for name in ("step", "align_step", "rise", "live") if not hasattr(mechanism, name)
    ]
    if missing:
        raise TypeError(f"mechanism must have a method {missing[0]!r}: write it as a step")
    kinds = proving.directions(neighbours, mechanism)

    def theorems() -> list[Theorem]:
        proved: list[Theorem] = []
        for kind in kinds:
            proved += prove_steps(mechanism, kind, ties=ties)
        return proved

    def example() -> proving.Counterexample | None:
        for n in range(1, _MOST_ANSWERS + 1):
            try:
                proof = proving.prove(mechanism, n, neighbours=neighbours, ties=ties)
            except BadProgram:  # it cannot be followed; the refutation stands without numbers
                return None
            if proof.counterexample is not None:
                return proof.counterexample
        return None

    return judged(theorems, " and ".join(kinds), example=example)
