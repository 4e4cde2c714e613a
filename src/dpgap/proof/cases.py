"""Everything there is to prove: what dpgap ships, the museum's mutants, and what must pass.

To have a new mechanism proved, add its cases to `shipped`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dpgap.exact.laws import NOISES, Scalar
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyMax, NoisyTopK
from dpgap.proof import density
from dpgap.proof.exhibits import Exhibit, exhibits
from dpgap.proof.numbers import Violation
from dpgap.proof.proving import CHECKED, NEIGHBOURS, REFUTED, Proof, prove
from dpgap.proof.variants import any_sparse_vector

SHIPPED = "shipped"

_TOP_K_ANSWERS = 4
_STREAM_ANSWERS = 5
_LONGER_ANSWERS = 4


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to prove, for so many answers."""

    name: str
    kind: str
    variant: str
    n: int
    k: int
    judge: Callable[[], Proof]


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """All of them."""
    return (*shipped(), *map(_exhibited, exhibits()))


def _exhibited(exhibit: Exhibit) -> Case:
    return Case(
        exhibit.name,
        exhibit.kind,
        exhibit.variant,
        exhibit.n,
        exhibit.k,
        partial(prove, exhibit.mechanism, exhibit.n, **exhibit.how),
    )


def shipped() -> Iterator[Case]:
    """What dpgap ships: with every noise, for general, rising and falling neighbours.

    ε and the sensitivity are 1: other values only change the units of noise and of answers.
    """
    for n in range(_TOP_K_ANSWERS, 0, -1):  # the cube's largest case is the longest: it goes first
        yield _measurement(Cube(1), n, "general")
        yield _measurement(Laplace(1), n, "general")
        yield _measurement(CountHull(1, monotonic=True), n, "rising")
        yield _measurement(CountHull(1, monotonic=True), n, "falling")
    for noise in NOISES:
        for neighbours in NEIGHBOURS:
            made = partial(NoisyTopK, epsilon=1, monotonic=neighbours != "general", noise=noise)
            yield from _rankings("NoisyTopK", made, noise, neighbours)
            largest = partial(NoisyMax, epsilon=1, monotonic=neighbours != "general", noise=noise)
            for n in range(1, _TOP_K_ANSWERS + 1):
                yield _ranking("NoisyMax", largest(), noise, neighbours, n)
            yield from _streams("SparseVector", SparseVector, noise, neighbours, _STREAM_ANSWERS)
            for more, most in (
                ({}, _STREAM_ANSWERS),
                ({"drain": True}, _LONGER_ANSWERS),
                ({"branches": 3}, _LONGER_ANSWERS),
                ({"branches": 3, "drain": True}, _LONGER_ANSWERS),
            ):
                yield from _streams(
                    "AdaptiveSparseVector", AdaptiveSparseVector, noise, neighbours, most, **more
                )


def _measurement(mechanism: Any, n: int, neighbours: str) -> Case:
    judge = partial(by_alignment, mechanism, n, neighbours)
    return Case(type(mechanism).__name__, SHIPPED, neighbours, n, n, judge)


def _rankings(
    name: str, made: Callable[..., NoisyTopK], noise: str, neighbours: str
) -> Iterator[Case]:
    for n in range(1, _TOP_K_ANSWERS + 1):
        for k in range(1, n + 1):
            yield _ranking(name, made(k), noise, neighbours, n)


def _ranking(name: str, mechanism: NoisyTopK, noise: str, neighbours: str, n: int) -> Case:
    by = by_density if noise == "exponential" else by_alignment
    judge = partial(by, mechanism, n, neighbours)
    return Case(name, SHIPPED, f"{noise}, {neighbours}", n, mechanism.k, judge)


def by_alignment(mechanism: Any, n: int, neighbours: str) -> Proof:
    """Prove it by its own alignment."""
    return prove(mechanism, n, neighbours=neighbours)


def by_density(mechanism: NoisyTopK, n: int, neighbours: str) -> Proof:
    """Check a Top-K with one-sided noise: the program proved, its density searched."""
    start = time.perf_counter()
    try:
        density.describes(mechanism, n)
    except Violation as wrong:
        return Proof(
            REFUTED,
            neighbours,
            wrong.condition,
            wrong.message,
            None,
            0,
            time.perf_counter() - start,
        )
    worst = density.search(mechanism, n, neighbours)
    seconds = time.perf_counter() - start
    if worst is None:
        reason = "by its density: see docs/exponential-top-k.md"
        return Proof(CHECKED, neighbours, None, reason, None, 0, seconds)
    return Proof(
        REFUTED, neighbours, "density", f"densities differ too much: {worst}", None, 0, seconds
    )


def _streams(
    name: str,
    mechanism: type[SparseVector],
    noise: str,
    neighbours: str,
    most: int,
    **more: Any,
) -> Iterator[Case]:
    """Streams; noise on a grid ties, so ties count."""
    words = [f"{key}={value}" for key, value in more.items()]
    variant = ", ".join([noise, neighbours, *words])
    for n in range(1, most + 1):
        for k in range(1, n + 1):
            family = partial(
                _stream, mechanism, k, neighbours != "general", noise, tuple(more.items())
            )
            judge = partial(prove, family, n, neighbours=neighbours, ties=True)
            yield Case(name, SHIPPED, variant, n, k, judge)


def _stream(
    mechanism: type[SparseVector],
    k: int,
    monotonic: bool,
    noise: str,
    more: tuple[tuple[str, Any], ...],
    unknown: Callable[[str], Scalar],
) -> SparseVector:
    @lru_cache(maxsize=16)
    def with_share(share: Fraction) -> SparseVector:
        return mechanism(
            0, k, 1, monotonic=monotonic, noise=noise, threshold_share=share, **dict(more)
        )

    return any_sparse_vector(with_share, unknown)
