"""Which mechanism is proved how, for every n and k.

**To have a new mechanism proved for every n**, add a line to `shipped_for_every_n`: its name, what
it is a variant of, the kind of neighbours, and a function that returns theorems or raises a
violation. `steps` and `few_answers` are there for mechanisms like those that ship.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dpgap.exact.laws import NOISES, REAL_NOISES, Law, Noise, Scalar, law_named
from dpgap.exact.parameters import altered
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace, Measurement
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.proof.checker.numbers import Exact, Violation, guarded
from dpgap.proof.checker.proving import (
    DIRECTIONS,
    FALLING,
    GENERAL,
    PROVED,
    REFUTED,
    RISING,
    Counterexample,
    Proof,
    Theorem,
    close,
    directions,
    prove,
)
from dpgap.proof.every.exponential import prove_hybrid, prove_joint, prove_one_sided
from dpgap.proof.every.few_answers import (
    ONE_WINS,
    prove_histogram,
    prove_known_ranking,
    prove_measurement,
    prove_ranking,
)
from dpgap.proof.every.steps import prove_known_stream, prove_steps, prove_stream

SHIPPED, EVERY = "shipped", "every"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to prove, for so many answers, or for "every" number of them."""

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
    theorems: Callable[[], list[Theorem]],
    neighbours: str,
    example: Callable[[], Counterexample | None] = lambda: None,
) -> Proof:
    """A proof if all theorems hold and are closed; a refutation with the example if not."""
    start = time.perf_counter()
    try:
        with guarded("a step", _SECONDS):
            found = theorems()
        closings = tuple(close(each) for each in found)
    except Violation as wrong:
        numbers, seconds = example(), time.perf_counter() - start
        return Proof(REFUTED, neighbours, wrong.condition, wrong.message, numbers, 0, seconds)
    seconds = time.perf_counter() - start
    return Proof(PROVED, neighbours, None, "for every n and k", None, 0, seconds, closings)


def theorems_of(
    mechanism: Any, neighbours: str = GENERAL, ties: bool = False, share: Exact = 1, losers: int = 1
) -> Callable[[], list[Theorem]] | None:
    """The theorems that a mechanism like one that ships rests on; None if it is like none.

    `share` is the part of its ε that is claimed, and without `losers` all answers win.
    """
    if type(mechanism) in (SparseVector, AdaptiveSparseVector):
        return partial(prove_known_stream, mechanism, neighbours)
    if isinstance(mechanism, Measurement):
        return partial(prove_measurement, partial(altered, mechanism), neighbours)
    if hasattr(mechanism, "align_step"):
        return partial(prove_steps, mechanism, neighbours, ties=True)
    if type(mechanism) is NoisyTopK or getattr(mechanism, "only_indices", False):
        return partial(prove_known_ranking, mechanism, neighbours, ties, share, losers)
    return None


def shipped_for_every_n() -> Iterator[Case]:
    """What dpgap ships, each with every noise and kind of neighbours."""
    for measurement, given, kind in (
        (Laplace, {}, GENERAL),
        (Cube, {}, GENERAL),
        (CountHull, {"monotonic": True}, RISING),
        (CountHull, {"monotonic": True}, FALLING),
    ):
        made = partial(measurement, epsilon=1, **given)
        proof = partial(prove_measurement, made, kind)
        yield for_every_n(measurement.__name__, kind, kind, proof)
    histogram = partial(prove_histogram, partial(NoisyHistogram, epsilon=1))
    yield for_every_n("NoisyHistogram", "every reach", GENERAL, histogram)
    for kind in DIRECTIONS:
        yield from _selections(kind)


def _selections(kind: str) -> Iterator[Case]:
    claimed: dict[str, Any] = {"epsilon": 1, "monotonic": kind != GENERAL}
    for noise in NOISES:
        variant = f"{noise}, {kind}"
        given = claimed | {"noise": noise}
        for stream in (SparseVector, AdaptiveSparseVector):
            proof = partial(prove_stream, partial(stream, 0, **given), kind)
            yield for_every_n(stream.__name__, variant, kind, proof)
        if noise not in REAL_NOISES:
            continue
        by = prove_ranking if law_named(noise, 1, 1).signed else prove_one_sided  # type: ignore[arg-type]
        best = partial(lambda k, **more: NoisyMax(**more), **given)
        top = partial(by, partial(NoisyTopK, **given), kind)
        yield for_every_n("NoisyTopK", variant, kind, top)
        yield for_every_n("NoisyMax", variant, kind, partial(by, best, kind, ONE_WINS), k=1)
    variant = f"exponential, {kind}"
    joint = partial(prove_joint, partial(JointTopK, **claimed), kind)
    yield for_every_n("JointTopK", variant, kind, joint)
    hybrid = partial(prove_hybrid, partial(HybridTopK, 0, **claimed), kind)
    yield for_every_n("HybridTopK", variant, kind, hybrid)


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

    align: ClassVar[Any] = SparseVector.align
    """The shifts of one step after another."""


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
