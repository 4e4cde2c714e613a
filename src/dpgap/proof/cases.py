"""Everything there is to prove and to audit: what dpgap ships, mutants, and what must pass.

To have a new mechanism proved, add its cases to `shipped`; to have it audited, add it to
`dpgap.proof.audit.designs`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dpgap.exact.laws import NOISES, REAL_NOISES
from dpgap.mechanisms.joint.mechanism import JointTopK
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyMax, NoisyTopK
from dpgap.proof.audit.design import audit_design
from dpgap.proof.audit.designs import designs
from dpgap.proof.audit.finding import Audit
from dpgap.proof.checker.density import check_density
from dpgap.proof.checker.families import any_sparse_vector
from dpgap.proof.checker.joint import check_joint
from dpgap.proof.checker.proving import DIRECTIONS, FALLING, GENERAL, RISING, Proof, prove
from dpgap.proof.mutants.catalogue import catalogue, mutants
from dpgap.proof.mutants.entry import CatalogueEntry, audit_mutant

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
    """All there is to prove."""
    return (*shipped(), *map(_listed, catalogue()))


def _listed(entry: CatalogueEntry) -> Case:
    judge = partial(prove, entry.mechanism, entry.n, **entry.how)
    return Case(entry.name, entry.kind, entry.variant, entry.n, entry.k, judge)


def audits(
    *, kernel_samples: int = 10_000_000, release_samples: int = 100_000
) -> list[tuple[str, Callable[[], Audit]]]:
    """All there is to audit, by name, what takes longest first.

    `release` itself is sampled with Laplace noise, or of sets; the kernel that it calls, with every
    noise.
    """
    plain = [each for each in designs() if each.variant in ("laplace, general", "sets, general")]
    return [
        *((each.name, partial(audit_design, each, "release", release_samples)) for each in plain),
        *((each.name, partial(audit_design, each, "kernel", kernel_samples)) for each in designs()),
        *((each.name, partial(audit_mutant, each)) for each in mutants()),
    ]


def shipped() -> Iterator[Case]:
    """What dpgap ships: with every noise, for general, rising and falling neighbours.

    ε and the sensitivity are 1: other values only change the units of noise and of answers.
    """
    hull = CountHull(1, monotonic=True)
    measurements = ((Cube(1), GENERAL), (Laplace(1), GENERAL), (hull, RISING), (hull, FALLING))
    for n in range(_TOP_K_ANSWERS, 0, -1):  # the cube's largest case is the longest: it goes first
        for measurement, neighbours in measurements:
            judge = partial(prove, measurement, n, neighbours=neighbours)
            yield Case(type(measurement).__name__, SHIPPED, neighbours, n, n, judge)
    for neighbours in DIRECTIONS:
        for n, k in ((n, k) for n, k in _sizes(_TOP_K_ANSWERS) if k < n):
            joint = JointTopK(k, 1, monotonic=neighbours != GENERAL)
            judge = partial(check_joint, joint, n, neighbours)
            yield Case(type(joint).__name__, SHIPPED, f"exponential, {neighbours}", n, k, judge)
    for noise in NOISES:
        for neighbours in DIRECTIONS:
            if noise in REAL_NOISES:
                for n, k in _sizes(_TOP_K_ANSWERS):
                    yield _ranking(NoisyTopK, n, noise, neighbours, k=k)
                for n in range(1, _TOP_K_ANSWERS + 1):
                    yield _ranking(NoisyMax, n, noise, neighbours)
            yield from _streams(SparseVector, noise, neighbours, _STREAM_ANSWERS)
            yield from _streams(AdaptiveSparseVector, noise, neighbours, _STREAM_ANSWERS)
            for more in ({"drain": True}, {"branches": 3}, {"branches": 3, "drain": True}):
                yield from _streams(
                    AdaptiveSparseVector, noise, neighbours, _LONGER_ANSWERS, **more
                )


def _sizes(most: int) -> list[tuple[int, int]]:
    """All numbers of answers up to the most, each with every k."""
    return [(n, k) for n in range(1, most + 1) for k in range(1, n + 1)]


def _ranking(kind: type[NoisyTopK], n: int, noise: str, neighbours: str, **more: Any) -> Case:
    mechanism = kind(epsilon=1, monotonic=neighbours != GENERAL, noise=noise, **more)
    by = prove if mechanism.law.signed else check_density
    judge = partial(by, mechanism, n, neighbours=neighbours)
    return Case(kind.__name__, SHIPPED, f"{noise}, {neighbours}", n, mechanism.k, judge)


def _streams(
    kind: type[SparseVector], noise: str, neighbours: str, most: int, **more: Any
) -> Iterator[Case]:
    """Streams; noise on a grid ties, so ties count."""
    variant = ", ".join([noise, neighbours, *(f"{key}={value}" for key, value in more.items())])
    made = partial(kind, 0, epsilon=1, monotonic=neighbours != GENERAL, noise=noise, **more)
    for n, k in _sizes(most):
        family = partial(any_sparse_vector, lru_cache(16)(partial(_with_share, made, k)))
        judge = partial(prove, family, n, neighbours=neighbours, ties=True)
        yield Case(kind.__name__, SHIPPED, variant, n, k, judge)


def _with_share(made: Callable[..., SparseVector], k: int, share: Fraction) -> SparseVector:
    return made(k=k, threshold_share=share)
