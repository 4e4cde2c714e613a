"""Audits: what ε is at least, from samples of the real thing, and whether its law is right.

An event is fixed in advance, its frequency is counted on some answers and on a neighbour, and
with Clopper–Pearson bounds on both chances their ratio bounds ε from below. That catches what is
not private, whatever the reason, without looking at the program. Far sharper for wrong scales is
to compare all outcomes with their exact law (χ²).

Both are at a level of 1e-6: a sound mechanism fails one audit in a million.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Floats, Integers, floors
from dpgap.exact.laws import NOISES
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.kernel import Sifted, sift
from dpgap.mechanisms.sparse_vector.mechanism import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k.kernel import select
from dpgap.mechanisms.top_k.mechanism import NoisyMax, NoisyTopK
from dpgap.proof import joint_audits
from dpgap.proof.crowd import frequency
from dpgap.proof.exhibits import Exhibit, mutants
from dpgap.proof.output_laws import (
    count_first_above,
    count_largest,
    count_measured,
    count_top_two,
    first_above,
    largest,
    measured,
    top_two,
)

LEVEL = 1e-6
_AT_ONCE = 1_000_000
_LEAST_EXPECTED = 25.0

Sampler = Callable[[Any, Sequence[int], int], Integers]
"""How often each cell occurs for a mechanism, on answers, in so many runs."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    name: str
    kind: str
    variant: str
    source: str
    """Where samples come from: `release`, the `kernel` that it calls, a `program`, or none."""
    claimed: float
    lower_bound: float
    samples: int
    p_value: float | None
    """How likely so bad a fit to the exact law is; None where it was not compared."""
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.claimed or (
            self.p_value is not None and self.p_value < LEVEL
        )


def lower_bound(hits: int, hits_neighbour: int, runs: int, level: float = LEVEL) -> float:
    """What ε is at least, given how often an event happened on each side.

    >>> lower_bound(2_000, 300, 10_000) > 1.5, lower_bound(100, 100, 1_000)
    (True, 0.0)
    """
    from scipy.stats import beta  # takes its time to load

    least = beta.ppf(level / 2, hits, runs - hits + 1) if hits else 0.0
    most = (
        beta.isf(level / 2, hits_neighbour + 1, runs - hits_neighbour)
        if hits_neighbour < runs
        else 1.0
    )
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def fit(counts: Integers, chances: Floats) -> float:
    """The χ² p-value of counts against chances; rare cells are put together.

    >>> fit(np.array([5000, 5000]), np.array([0.5, 0.5]))
    1.0
    """
    from scipy.stats import chi2  # takes its time to load

    flat, expected = counts.ravel(), chances.ravel() * counts.sum()
    common = expected >= _LEAST_EXPECTED
    seen = np.append(flat[common], flat[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < _LEAST_EXPECTED:  # fold what is left into the rarest common cell
        rarest = int(np.argmin(wanted[:-1]))
        seen[rarest] += seen[-1]
        wanted[rarest] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return float(chi2.sf(statistic, wanted.size - 1))


class Design(NamedTuple):
    """What to sample: answers, a neighbour, the event's cells, the law and the sampler."""

    name: str
    variant: str
    mechanism: Any
    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    event: Callable[[Integers], int]
    law: Callable[[Any, Sequence[int]], Floats]
    kernel: Sampler
    release: Sampler


def _ranking_kernel(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    chosen = select(mechanism.in_steps(), np.array(answers), runs, secure_bits())
    return _count_ranked(chosen.indices, chosen.leads, len(answers))


def _ranking_release(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    releases = [mechanism.release(answers) for _ in range(runs)]
    indices = np.array([release.indices for release in releases])
    gaps = np.array([release.gaps for release in releases]).astype(np.int64)
    return _count_ranked(indices, gaps, len(answers))


def _count_ranked(indices: Integers, leads: Integers, n: int) -> Integers:
    """The cells of one winner or of two; the last one's gap is its lead."""
    return (count_largest if indices.shape[1] == 1 else count_top_two)(indices, leads, n)


def _first_above_kernel(mechanism: SparseVector, answers: Sequence[int], runs: int) -> Integers:
    steps = mechanism.in_steps()
    sifted = sift(steps, np.array(answers), runs, secure_bits(), 1)
    return count_first_above(sifted, steps, runs, len(answers))


def _first_above_release(mechanism: SparseVector, answers: Sequence[int], runs: int) -> Integers:
    rows: list[tuple[int, int, float]] = []
    for _ in range(runs):
        release = mechanism.release(answers, max_answers=1)
        if release.indices.size:
            branch = int(release.branch_of[0])
            rows.append((int(release.indices[0]), branch, float(release.gaps[0])))
    index, branches, gaps = (np.array(column) for column in zip(*rows, strict=True))
    whole = np.rint(gaps - mechanism.gap_offsets[branches - 1]).astype(np.int64)
    nothing = np.empty(0, dtype=np.int64)
    sifted = Sifted(np.arange(index.size), index, branches, whole, nothing, nothing)
    return count_first_above(sifted, mechanism.in_steps(), runs, len(answers))


def _top_two_design(noise: str, monotonic: bool) -> Design:
    others = 0 if monotonic else 1
    return Design(
        "NoisyTopK",
        _variant(noise, monotonic),
        NoisyTopK(2, 1, monotonic=monotonic, noise=noise),
        (0, 0, 0, 0),
        (-1, -1, others, others),
        lambda counts: int(counts[0, 1, 1:].sum() + counts[1, 0, 1:].sum()),
        top_two,
        _ranking_kernel,
        _ranking_release,
    )


def _largest_design(noise: str, monotonic: bool) -> Design:
    others = 0 if monotonic else 1
    return Design(
        "NoisyMax",
        _variant(noise, monotonic),
        NoisyMax(1, monotonic=monotonic, noise=noise),
        (0, 0, 0),
        (-1, others, others),
        lambda counts: int(counts[0, 1:].sum()),
        largest,
        _ranking_kernel,
        _ranking_release,
    )


def _first_above_design(kind: type[SparseVector], noise: str, monotonic: bool) -> Design:
    return Design(
        kind.__name__,
        _variant(noise, monotonic),
        kind(0, 1, 1, monotonic=monotonic, noise=noise),
        (0, 0),
        (0 if monotonic else 1, -1),
        lambda counts: int(counts[1, -1].sum()),
        first_above,
        _first_above_kernel,
        _first_above_release,
    )


def _measured_kernel(mechanism: Laplace, answers: Sequence[int], runs: int) -> Integers:
    return count_measured(answers[0] + floors(mechanism.law_in_steps(1), secure_bits(), runs))


def _measured_release(mechanism: Laplace, answers: Sequence[int], runs: int) -> Integers:
    values = np.array([mechanism.release(answers).values[0] for _ in range(runs)])
    return count_measured(np.rint(values + mechanism.law_in_steps(1).floor_mean).astype(np.int64))


def _measured_design() -> Design:
    return Design(
        "Laplace",
        "laplace, general",
        Laplace(1),
        (0,),
        (-1,),
        lambda counts: int(counts[counts.size // 2 :].sum()),
        measured,
        _measured_kernel,
        _measured_release,
    )


def _joint_design(mechanism: joint_audits.Joint, variant: str) -> Design:
    return Design(
        type(mechanism).__name__,
        variant,
        mechanism,
        (0, 0),
        (-1, -1),
        joint_audits.both_at_least(1),
        joint_audits.chances,
        joint_audits.by_kernel,
        joint_audits.by_release,
    )


def _variant(noise: str, monotonic: bool) -> str:
    return f"{noise}, {'monotonic' if monotonic else 'general'}"


def designs() -> list[Design]:
    """How each shipped mechanism is audited, with every noise; add new mechanisms here."""
    return [
        _measured_design(),
        _joint_design(CountHull(1, monotonic=True), "hull, monotonic"),
        _joint_design(Cube(1), "cube, general"),
        *_selection_designs(),
    ]


def _selection_designs() -> list[Design]:
    return [
        design
        for noise in NOISES
        for monotonic in (False, True)
        for design in (
            _first_above_design(AdaptiveSparseVector, noise, monotonic),
            _first_above_design(SparseVector, noise, monotonic),
            _top_two_design(noise, monotonic),
            _largest_design(noise, monotonic),
        )
    ]


def audit_design(design: Design, source: str, samples: int, *, real: Any = None) -> Audit:
    """Audit a shipped mechanism on `samples` runs, half of them on each side.

    `real` is what is sampled instead, to see whether a fault would be caught.
    """
    start = time.perf_counter()
    sampler = design.kernel if source == "kernel" else design.release
    sampled = design.mechanism if real is None else real
    runs = samples // 2
    counts = [_counts(sampler, sampled, side, runs) for side in (design.answers, design.neighbour)]
    program = design.mechanism
    law = program.in_steps() if hasattr(program, "in_steps") else program
    p_values = [
        fit(count, design.law(law, side))
        for count, side in zip(counts, (design.answers, design.neighbour), strict=True)
    ]
    hits, hits_neighbour = (design.event(count) for count in counts)
    return Audit(
        design.name,
        "shipped",
        design.variant,
        source,
        float(design.mechanism.epsilon),
        lower_bound(hits, hits_neighbour, runs),
        samples,
        min(1.0, 2 * min(p_values)),
        time.perf_counter() - start,
    )


def _counts(sampler: Sampler, mechanism: Any, answers: Sequence[int], runs: int) -> Integers:
    parts = [
        sampler(mechanism, answers, min(_AT_ONCE, runs - done)) for done in range(0, runs, _AT_ONCE)
    ]
    total: Integers = np.sum(parts, axis=0)
    return total


def audit_mutant(exhibit: Exhibit) -> Audit:
    """Audit a mutant by its event: on samples of its program, or exactly where it is rare."""
    start = time.perf_counter()
    event = exhibit.event
    if event is None:
        raise ValueError(f"{exhibit.name} has no event to be audited by")
    samples = event.samples if event.chance is None else 0
    if event.chance is not None:
        found = math.log(event.chance(event.answers) / event.chance(event.neighbour))
    else:
        runs = samples // 2
        hits, hits_neighbour = (
            frequency(exhibit.mechanism.run, side, event.happens, runs, on_grid=event.on_grid)
            for side in (event.answers, event.neighbour)
        )
        found = lower_bound(hits, hits_neighbour, runs)
    return Audit(
        exhibit.name,
        exhibit.kind,
        exhibit.variant,
        "program" if samples else "exact",
        float(Fraction(exhibit.mechanism.epsilon)),
        found,
        samples,
        None,
        time.perf_counter() - start,
    )


def audits(
    *,
    kernel_samples: int = 10_000_000,
    release_samples: int = 100_000,
) -> list[tuple[str, Callable[[], Audit]]]:
    """Everything there is to audit, by name, what takes longest first.

    `release` itself is sampled with Laplace noise; the kernel that it calls, with every noise.
    """
    plain = [design for design in designs() if design.variant == "laplace, general"]
    return [
        *((each.name, partial(audit_design, each, "release", release_samples)) for each in plain),
        *((each.name, partial(audit_design, each, "kernel", kernel_samples)) for each in designs()),
        *((each.name, partial(audit_mutant, each)) for each in mutants()),
    ]
