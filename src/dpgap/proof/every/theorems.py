"""The proofs of all mechanisms, for every n and k.

**To prove a new mechanism for every n**, add a line to `shipped_for_every_n`: its name, its
variant, the kind of neighbours, and a function that returns theorems or raises a violation. For
mechanisms like those of dpgap, use `steps` and `few_answers`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpgap.exact.laws import LAWS, NOISES, REAL_NOISES
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.proof.checker import provers, proving
from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.programs import guarded
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.proving import (
    DIRECTIONS,
    FALLING,
    GENERAL,
    RISING,
    Proof,
)
from dpgap.proof.every import few_answers
from dpgap.proof.every.exponential import prove_hybrid, prove_joint, prove_one_sided
from dpgap.proof.every.streams import prove_stream

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
        closings = tuple(map(provers.close, theorems))
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
