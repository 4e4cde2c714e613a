"""The proofs of all mechanisms, for every n and k.

**To prove a new mechanism for every n**, add a line to `shipped_for_every_n`: its name, its
variant, the kind of neighbours, and a function that returns theorems or raises a violation. For
mechanisms like those of dpgap, use `steps` and `few_answers`.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dpgap.exact.laws import LAWS, NOISES, REAL_NOISES, Law, Noise, Scalar
from dpgap.exact.parameters import require_made
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.proof.checker import proving
from dpgap.proof.checker.numbers import BadProgram, Violation, guarded
from dpgap.proof.checker.proving import DIRECTIONS, FALLING, GENERAL, RISING, Proof, Theorem
from dpgap.proof.every import few_answers
from dpgap.proof.every.exponential import prove_hybrid, prove_joint, prove_one_sided
from dpgap.proof.every.steps import prove_steps, prove_stream

SHIPPED = "shipped"
EVERY = "every"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a proof, for n answers, or for "every" number of them."""

    name: str
    kind: str
    variant: str
    n: int | str
    k: int | str
    judge: Callable[[], Proof]


def for_every_n(
    name: str,
    variant: str,
    neighbours: str,
    theorems: Callable[[], list[Theorem]],
    k: int | str = EVERY,
) -> Case:
    """A mechanism that ships; two provers judge every theorem."""
    return Case(name, SHIPPED, variant, EVERY, k, partial(judged, theorems, neighbours))


def judged(
    prove_theorems: Callable[[], list[Theorem]],
    neighbours: str,
    example: Callable[[], proving.Counterexample | None] = lambda: None,
) -> Proof:
    """A proof if all theorems hold and are closed; a refutation with the example if not."""
    start = time.perf_counter()
    try:
        with guarded("a step", _SECONDS):
            theorems = prove_theorems()
        closings = tuple(map(proving.close, theorems))
    except Violation as violation:
        return Proof(
            proving.REFUTED,
            neighbours,
            violation.condition,
            violation.message,
            example(),
            paths=0,
            seconds=time.perf_counter() - start,
        )
    seconds = time.perf_counter() - start
    return Proof(proving.PROVED, neighbours, None, "for every n and k", None, 0, seconds, closings)


def shipped_for_every_n() -> Iterator[Case]:
    """All mechanisms of dpgap, each with every noise and kind of neighbours."""
    hull = partial(CountHull, epsilon=1, monotonic=True)
    for name, make, kind in (
        ("Laplace", partial(Laplace, epsilon=1), GENERAL),
        ("Cube", partial(Cube, epsilon=1), GENERAL),
        ("CountHull", hull, RISING),
        ("CountHull", hull, FALLING),
    ):
        proof = partial(few_answers.prove_measurement, make, kind)
        yield for_every_n(name, kind, kind, proof)
    histogram = partial(few_answers.prove_histogram, partial(NoisyHistogram, epsilon=1))
    yield for_every_n("NoisyHistogram", "every reach", GENERAL, histogram)
    for kind in DIRECTIONS:
        yield from _selections(kind)


def _selections(kind: str) -> Iterator[Case]:
    claims: dict[str, Any] = {"epsilon": 1, "monotonic": kind != GENERAL}
    for noise in NOISES:
        variant = f"{noise}, {kind}"
        for stream in (SparseVector, AdaptiveSparseVector):
            proof = partial(prove_stream, partial(stream, 0, noise=noise, **claims), kind)
            yield for_every_n(stream.__name__, variant, kind, proof)
        if noise not in REAL_NOISES:
            continue
        prove = few_answers.prove_ranking if LAWS[noise].signed else prove_one_sided
        top = partial(prove, partial(NoisyTopK, noise=noise, **claims), kind)
        yield for_every_n("NoisyTopK", variant, kind, top)
        make_max = partial(_noisy_max, noise=noise, **claims)
        largest = partial(prove, make_max, kind, few_answers.ONE_WINS)
        yield for_every_n("NoisyMax", variant, kind, largest, k=1)
    variant = f"exponential, {kind}"
    joint = partial(prove_joint, partial(JointTopK, **claims), kind)
    yield for_every_n("JointTopK", variant, kind, joint)
    hybrid = partial(prove_hybrid, partial(HybridTopK, 0, **claims), kind)
    yield for_every_n("HybridTopK", variant, kind, hybrid)


def _noisy_max(k: int, **parameters: Any) -> NoisyMax:
    """A Noisy Max, whose k is always 1."""
    return NoisyMax(**parameters)


# --------------------------------------------------------------------------------------------------
# Write a stream as one step, and have it proved for every n.


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
