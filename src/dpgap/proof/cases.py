"""All cases for proofs and audits: dpgap's mechanisms, mutants, and cases that must be accepted.

To prove a new mechanism, add its cases to `shipped`, and its theorems for every number of answers
to `every.theorems`. To audit it, add it to `mechanisms`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from dpgap.data.private_counts import CountsByGroup, CountsInMemory
from dpgap.exact.laws import NOISES, REAL_NOISES
from dpgap.exact.parameters import altered
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace, Measurement
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.pipelines.arrays import MeasuredAbove, measured_above, measured_top_k
from dpgap.pipelines.routes import JointRoute, RankedRoute
from dpgap.pipelines.tables import above, answer, top_k
from dpgap.proof.audit import audit
from dpgap.proof.auditing.chances import LEVEL, Audit
from dpgap.proof.checker import provers, proving, unknown_items
from dpgap.proof.checker.proving import (
    DIRECTIONS,
    FALLING,
    GENERAL,
    RISING,
    Proof,
    prove,
)
from dpgap.proof.every.exponential import prove_joint, prove_one_sided
from dpgap.proof.every.few_answers import prove_known_ranking, prove_measurement
from dpgap.proof.every.steps import prove_steps
from dpgap.proof.every.streams import prove_known_stream, require_numbers
from dpgap.proof.every.theorems import (
    EVERY,
    SHIPPED,
    Case,
    for_every_n,
    judged,
    shipped_for_every_n,
)
from dpgap.proof.mutants import (
    ACCEPT,
    MUTANT,
    CatalogueEntry,
    audit_mutant,
    catalogue,
    with_any_margins,
    with_any_threshold,
)
from dpgap.question import Question, read_question

DOCUMENT = "document"
PROGRAM = "program"
_SAMPLES = {DOCUMENT: 20_000, PROGRAM: 200_000}

_MOST_ANSWERS = 4
_WITH_MANY_PATHS = 3


@lru_cache(maxsize=1)
def cases() -> tuple[Case | CatalogueEntry, ...]:
    """All cases for proofs: for every number of answers, and again (independently) for few."""
    every_n: list[Case | CatalogueEntry] = [*shipped_for_every_n(), *_of_pipelines()]
    for entry in catalogue():
        judge = _for_every_n(entry)
        if judge is not None:
            every_n.append(Case(entry.name, entry.kind, entry.variant, EVERY, EVERY, judge))
    return (*every_n, *shipped(), *catalogue(ACCEPT))


def _of_pipelines() -> Iterator[Case]:
    """The selections of the pipelines, with their default parameters."""
    proof: Any
    for kind in DIRECTIONS:
        for route, prove_selection in ((JointRoute, prove_joint), (RankedRoute, prove_one_sided)):
            make = partial(_selection, route, monotonic=kind != GENERAL)
            proof = partial(prove_selection, make, kind)
            yield for_every_n("MeasuredTopK", f"{route.name}, {kind}", kind, proof)
        for adaptive in (False, True):
            proof = partial(_prove_above, adaptive, kind)
            yield for_every_n("MeasuredAbove", f"adaptive={adaptive}, {kind}", kind, proof)


def _selection(
    route: Any, *, k: int, monotonic: bool, epsilon: Any = 1, sensitivity: Any = 1, grid: Any = None
) -> Any:
    claims = SimpleNamespace(k=k, monotonic=monotonic, sensitivity=sensitivity, grid=grid)
    return route.of(claims, Fraction(epsilon), Fraction(1)).selection


def _prove_above(adaptive: bool, kind: str) -> list[provers.Theorem]:
    """One step, with any units and limits; and the numbers of some of the selections."""
    pipeline = partial(MeasuredAbove, adaptive=adaptive, monotonic=kind != GENERAL)
    for k in (1, 2, 3, 5):
        require_numbers(pipeline(0, k, 1).selection)
    return prove_known_stream(pipeline(0, 2, 1).selection, kind)


def _for_every_n(entry: CatalogueEntry) -> Callable[[], Proof] | None:
    """A proof by a theorem, if there is one. A refutation for few answers holds for every n."""
    if entry.kind == MUTANT and not entry.how.keys() <= {"neighbours", "ties"}:
        return entry.judge
    theorems = _theorems_of(entry)
    if theorems is None:
        return entry.judge if entry.kind == MUTANT else None

    def example() -> proving.Counterexample | None:
        return entry.judge().counterexample

    return partial(judged, theorems, entry.variant, example=example)


def _theorems_of(entry: CatalogueEntry) -> Callable[[], list[provers.Theorem]] | None:
    """The function that proves an entry for every n; None if there is none."""
    mechanism = entry.mechanism
    neighbours = entry.how.get("neighbours", GENERAL)
    if not hasattr(mechanism, "run"):  # a family: its unknowns are unknown in the theorem too
        mechanism = mechanism(lambda name: Fraction(1))
    if type(mechanism) in (SparseVector, AdaptiveSparseVector):
        return partial(prove_known_stream, mechanism, neighbours)
    if isinstance(mechanism, Measurement):
        return partial(prove_measurement, partial(altered, mechanism), neighbours)
    if hasattr(mechanism, "align_step"):
        return partial(prove_steps, mechanism, neighbours, ties=True)
    if type(mechanism) is NoisyTopK or getattr(mechanism, "only_indices", False):
        return partial(
            prove_known_ranking,
            mechanism,
            neighbours,
            ties=entry.how.get("ties", False),
            share=entry.how.get("epsilon", 1),  # a share of its ε may be claimed
            losers=entry.n - entry.k,  # without losers all answers win
        )
    return None


def audits() -> list[tuple[str, Callable[[], Audit]]]:
    """All audits, by name: dpgap's mechanisms as if others had made them, then mutants."""
    listed: list[tuple[str, Callable[[], Audit]]] = []
    for case in audited():
        listed.append((case.name, partial(audit_shipped, case, _SAMPLES[case.source])))
    for entry in catalogue(MUTANT):
        listed.append((entry.name, partial(audit_mutant, entry)))
    return listed


class AuditCase(NamedTuple):
    """A case for an audit: a release, or the program behind it; the audit sees only outputs."""

    name: str
    variant: str
    source: str
    """Whether the whole document of a release is audited, or the output of the program."""
    function: Any
    how: Mapping[str, Any] = {}
    """Further arguments of the audit."""


def audited() -> Iterator[AuditCase]:
    """Every mechanism and every kind of release, on answers or on the counts of a table's rows."""
    for name, variant, mechanism in mechanisms():
        if not variant.endswith("monotonic"):
            yield AuditCase(name, variant, DOCUMENT, mechanism.release)
    for method in ("best", "joint", "ranked", "paper"):
        winners = partial(measured_top_k, k=2, epsilon=1, monotonic=True, method=method)
        yield AuditCase("measured_top_k", method, DOCUMENT, winners, _COUNTS)
    over = partial(measured_above, threshold=4, k=2, epsilon=1, monotonic=True)
    yield AuditCase("measured_above", "best", DOCUMENT, over, _COUNTS)
    yield from _audited_tables()
    for name, variant, mechanism in mechanisms():
        if not isinstance(mechanism, CountHull | Cube):  # noise that is not drawn one by one
            yield AuditCase(name, variant, PROGRAM, mechanism)


def _audited_tables() -> Iterator[AuditCase]:
    """The questions about a table; the audit's answers are the counts of its rows."""
    largest = partial(top_k, k=1, epsilon=1)
    over = partial(above, threshold=4, k=2, epsilon=1)
    count = partial(answer, read_question("count", epsilon=1), account=None, fresh=True)
    total = partial(answer, read_question("total", epsilon=1), account=None, fresh=True)
    for name, variant, release in (
        ("top_k", "rows", lambda counts: largest(_counted(counts))),
        ("above", "rows", lambda counts: over(_counted(counts))),
        ("top_k", "groups", lambda counts: largest(_in_groups(counts))),
        ("count", "units", lambda counts: count(_counted(counts[:1]))),
        ("total", "rows", lambda counts: total(_counted(counts[:1], sum="paid"))),
    ):
        yield AuditCase(name, variant, DOCUMENT, release, _ROWS)
    unknown = partial(largest, delta="0.01")
    yield AuditCase(
        "top_k",
        "unknown",
        DOCUMENT,
        lambda counts: unknown(_counted(counts, unknown=True)),
        _ROWS | {"delta": "0.01"},
    )


_COUNTS: dict[str, Any] = {"epsilon": 1, "monotonic": True}
_ROWS: dict[str, Any] = _COUNTS | {"reach": 1}


def mechanisms() -> Iterator[tuple[str, str, Any]]:
    """Every mechanism of dpgap, with every noise: its name, its variant, and the mechanism."""
    yield "Laplace", "laplace", Laplace(1)
    yield "CountHull", "hull", CountHull(1, monotonic=True)
    yield "Cube", "cube", Cube(1)
    yield "NoisyHistogram", "geometric", NoisyHistogram(1, reach=2)
    for monotonic, kind in ((False, "general"), (True, "monotonic")):
        claims: dict[str, Any] = {"epsilon": 1, "monotonic": monotonic}
        yield "JointTopK", f"exponential, {kind}", JointTopK(2, **claims)
        yield "HybridTopK", f"exponential, {kind}", HybridTopK(0, 2, **claims)
        for noise in NOISES:
            variant = f"{noise}, {kind}"
            adaptive = AdaptiveSparseVector(0, 1, noise=noise, **claims)
            yield "SparseVector", variant, SparseVector(0, 1, noise=noise, **claims)
            yield "AdaptiveSparseVector", variant, adaptive
            if noise in REAL_NOISES:
                yield "NoisyTopK", variant, NoisyTopK(2, noise=noise, **claims)
                yield "NoisyMax", variant, NoisyMax(noise=noise, **claims)


def _counted(
    answers: Sequence[int], *, unknown: bool = False, sum: str | None = None
) -> CountsInMemory:
    """A table in which each row has one item, after counting. Who is absent is in no table."""
    counts = np.array(answers)
    present = np.flatnonzero(counts)
    labels = np.arange(counts.size)
    positions = present
    if unknown:
        labels = present
        positions = np.arange(present.size)
    return CountsInMemory(
        labels.tolist(),
        positions,
        counts[present],
        sensitivity=Fraction(1),
        monotonic=True,
        reach=1,
        unknown=unknown,
        origin=Question(unit="row", domain="a list", unknown=unknown, sum=sum),
    )


def _in_groups(answers: Sequence[int]) -> CountsByGroup:
    """A table whose rows are in two groups, which have the same items."""
    half = (len(answers) + 1) // 2
    padded = [*answers, 0]
    origin = Question(unit="row", domain="a list", by="by", groups=2)
    counts = [
        replace(_counted(group_answers), origin=origin)
        for group_answers in (answers[:half], padded[half : 2 * half])
    ]
    return CountsByGroup(("a", "b"), counts.__getitem__, origin)


def audit_shipped(case: AuditCase, samples: int) -> Audit:
    """Audit a case like a user's function. A release must not raise, so an error is a leak."""
    result = audit(case.function, samples=samples, level=LEVEL, **case.how)
    return Audit(
        name=case.name,
        kind=SHIPPED,
        variant=case.variant,
        source=case.source,
        claimed=result.epsilon,
        lower_bound=result.lower_bound,
        samples=result.samples,
        p_value=0.0 if result.raised else result.p_value,
        seconds=result.seconds,
    )


def shipped() -> Iterator[Case]:
    """All mechanisms of dpgap: with every noise, for general, rising and falling neighbours.

    ε and the sensitivity are 1: other values only change the units of noise and of answers.
    """
    hull = CountHull(1, monotonic=True)
    measurements = ((Cube(1), GENERAL), (Laplace(1), GENERAL), (hull, RISING), (hull, FALLING))
    for n in range(_MOST_ANSWERS, 0, -1):  # the cube's largest case is the longest: it goes first
        for measurement, neighbours in measurements:
            yield _of_few(measurement, n, n, neighbours, neighbours)
    for n, reach in _sizes(_MOST_ANSWERS):
        yield _of_few(NoisyHistogram(1, reach=reach), n, n, GENERAL, f"reach {reach}", ties=True)
    for neighbours in DIRECTIONS:
        for n, k in ((n, k) for n, k in _sizes(_WITH_MANY_PATHS) if k < n):
            joint = JointTopK(k, 1, monotonic=neighbours != GENERAL)
            yield _of_few(joint, n, k, neighbours, f"exponential, {neighbours}")
    yield from _cut_by_a_line()
    for noise, neighbours in product(NOISES, DIRECTIONS):
        if noise in REAL_NOISES:
            claims: dict[str, Any] = {"monotonic": neighbours != GENERAL, "noise": noise}
            limit = _WITH_MANY_PATHS if noise == "exponential" else _MOST_ANSWERS
            variant = f"{noise}, {neighbours}"
            for n, k in _sizes(limit):
                yield _of_few(NoisyTopK(k, 1, **claims), n, k, neighbours, variant)
            for n in range(1, limit + 1):
                yield _of_few(NoisyMax(1, **claims), n, 1, neighbours, variant)
        for stream in (SparseVector, AdaptiveSparseVector):
            yield from _streams(stream, noise, neighbours, _MOST_ANSWERS)
        for options in ({"drain": True}, {"branches": 3}, {"branches": 3, "drain": True}):
            yield from _streams(
                AdaptiveSparseVector, noise, neighbours, _WITH_MANY_PATHS, **options
            )


def _of_few(
    mechanism: Any, n: int, k: int, neighbours: str, variant: str, of: Any = None, **how: Any
) -> Case:
    """A mechanism on n answers; or the family `of` mechanisms that it is one of."""
    judge = partial(prove, of or mechanism, n, neighbours=neighbours, **how)
    return Case(type(mechanism).__name__, SHIPPED, variant, n, k, judge)


def _cut_by_a_line() -> Iterator[Case]:
    """Hybrid Top-K with any line; where k is larger than n, the line always cuts."""
    for neighbours, n in product(DIRECTIONS, range(1, _WITH_MANY_PATHS + 1)):
        for k in range(1, n + 2):
            hybrid = HybridTopK(0, k, 1, monotonic=neighbours != GENERAL)
            family = partial(with_any_threshold, hybrid)
            yield _of_few(hybrid, n, k, neighbours, f"exponential, {neighbours}", family)
    for n, k in _sizes(_WITH_MANY_PATHS):
        hybrid = HybridTopK(0, k, 1, monotonic=True)
        line = hybrid.line_for(Fraction(1, 10**6), n)
        lone = partial(unknown_items.check_lone_items, replace(hybrid, threshold=line), n, reach=n)
        yield Case(HybridTopK.__name__, SHIPPED, "δ of unknown items", n, k, lone)


def _sizes(limit: int) -> list[tuple[int, int]]:
    """All numbers of answers up to the limit, each with every k."""
    sizes = []
    for n in range(1, limit + 1):
        sizes += [(n, k) for k in range(1, n + 1)]
    return sizes


def _streams(
    kind: type[SparseVector], noise: str, neighbours: str, limit: int, **options: Any
) -> Iterator[Case]:
    """Streams with any threshold and any margins; noise on a grid ties, so ties count."""
    variant = f"{noise}, {neighbours}"
    for name, value in options.items():
        variant += f", {name}={value}"
    for n, k in _sizes(limit):
        mechanism = kind(0, k, 1, monotonic=neighbours != GENERAL, noise=noise, **options)
        family = partial(with_any_margins, mechanism)
        yield _of_few(mechanism, n, k, neighbours, variant, family, ties=True)
