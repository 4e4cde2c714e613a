"""Which mechanism is proved how, for every n and k.

**To have a new mechanism proved for every n**, add a line to `shipped_for_every_n`: its name, what
it is a variant of, the kind of neighbours, and a function that returns theorems or raises a
violation. `streams`, `rankings` and `measurements` are there for mechanisms like those that ship.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpgap.exact.laws import NOISES, REAL_NOISES, law_named
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace, Measurement
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.mechanisms.top_k import NoisyMax, NoisyTopK
from dpgap.proof.checker.families import altered
from dpgap.proof.checker.guard import guarded
from dpgap.proof.checker.numbers import Exact, Violation
from dpgap.proof.checker.proving import (
    CHECKED,
    DIRECTIONS,
    FALLING,
    GENERAL,
    PROVED,
    REFUTED,
    RISING,
    Counterexample,
    Proof,
)
from dpgap.proof.every.cuts import prove_cut
from dpgap.proof.every.exponential import prove_exponential
from dpgap.proof.every.histograms import prove_histogram
from dpgap.proof.every.measurements import prove_measurement
from dpgap.proof.every.rankings import (
    ONE_WINS,
    prove_known_ranking,
    prove_ranking,
    require_scales,
)
from dpgap.proof.every.sets import prove_half_margins
from dpgap.proof.every.steps import prove_steps
from dpgap.proof.every.streams import prove_known_stream, prove_stream
from dpgap.proof.every.theorem import Theorem, close

EVERY = "every"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ForEveryN:
    """A mechanism, and how it is proved for every n."""

    name: str
    variant: str
    neighbours: str
    prove: Callable[[], list[Theorem]]
    verdict: str = PROVED
    k: int | str = EVERY

    def judge(self) -> Proof:
        """The verdict, once two provers have judged every theorem."""
        return judged(self.prove, self.neighbours, self.verdict)


def judged(
    theorems: Callable[[], list[Theorem]],
    neighbours: str,
    verdict: str = PROVED,
    example: Callable[[], Counterexample | None] = lambda: None,
) -> Proof:
    """The verdict if all theorems hold and are closed; a refutation with the example if not."""
    start = time.perf_counter()
    try:
        with guarded("a step", _SECONDS):
            found = theorems()
        closings = tuple(close(each) for each in found)
    except Violation as wrong:
        numbers, seconds = example(), time.perf_counter() - start
        return Proof(REFUTED, neighbours, wrong.condition, wrong.message, numbers, 0, seconds)
    seconds = time.perf_counter() - start
    reason = "for every n and k" if verdict == PROVED else "by hand: see docs/exponential-top-k.md"
    return Proof(verdict, neighbours, None, reason, None, 0, seconds, closings)


def theorems_of(
    mechanism: Any, neighbours: str = GENERAL, ties: bool = False, share: Exact = 1, losers: int = 1
) -> Callable[[], list[Theorem]] | None:
    """The theorems that a mechanism like one that ships rests on; None if it is like none.

    `share` is the part of its ε that is claimed, and without `losers` all answers win.
    """
    if isinstance(mechanism, SparseVector):
        return partial(prove_known_stream, mechanism, neighbours)
    if isinstance(mechanism, Measurement):
        return partial(prove_measurement, partial(altered, mechanism), neighbours)
    if hasattr(mechanism, "align_step"):
        return partial(prove_steps, mechanism, neighbours, ties=True)
    if isinstance(mechanism, NoisyTopK) or getattr(mechanism, "only_indices", False):
        return partial(prove_known_ranking, mechanism, neighbours, ties, share, losers)
    return None


def shipped_for_every_n() -> Iterator[ForEveryN]:
    """What dpgap ships, each with every noise and kind of neighbours."""
    hull = partial(_measuring, CountHull, monotonic=True)
    for made, name, kind in (
        (partial(_measuring, Laplace), "Laplace", GENERAL),
        (partial(_measuring, Cube), "Cube", GENERAL),
        (hull, "CountHull", RISING),
        (hull, "CountHull", FALLING),
    ):
        yield ForEveryN(name, kind, kind, partial(prove_measurement, made, kind))
    histogram = partial(_measuring, NoisyHistogram)
    yield ForEveryN("NoisyHistogram", "every reach", GENERAL, partial(prove_histogram, histogram))
    for kind in DIRECTIONS:
        yield from _selections(kind)
        yield from _cut_by_a_line(kind)


def _selections(kind: str) -> Iterator[ForEveryN]:
    monotonic = kind != GENERAL
    for noise in NOISES:
        variant = f"{noise}, {kind}"
        given: dict[str, Any] = {"monotonic": monotonic, "noise": noise}
        for stream in (SparseVector, AdaptiveSparseVector):
            made = partial(_stream, stream, **given)
            prove = partial(prove_stream, made, kind)
            yield ForEveryN(stream.__name__, variant, kind, prove)
        if noise not in REAL_NOISES:
            continue
        signed = law_named(noise, 1, 1).signed  # type: ignore[arg-type]
        top, best = partial(_ranking, **given), partial(_best, **given)
        if signed:
            one = partial(prove_ranking, best, kind, ONE_WINS)
            yield ForEveryN("NoisyTopK", variant, kind, partial(prove_ranking, top, kind))
            yield ForEveryN("NoisyMax", variant, kind, one, k=1)
        else:
            by_hand = partial(_prove_exponential, top), partial(_prove_exponential, best)
            yield ForEveryN("NoisyTopK", variant, kind, by_hand[0], CHECKED)
            yield ForEveryN("NoisyMax", variant, kind, by_hand[1], CHECKED, k=1)
    joint = partial(_joint, monotonic=monotonic)
    margins = partial(prove_half_margins, joint, kind)
    yield ForEveryN("JointTopK", f"half-margins, {kind}", kind, margins)
    whole = partial(_with_exponential, margins)
    yield ForEveryN("JointTopK", f"exponential, {kind}", kind, whole, CHECKED)


def _cut_by_a_line(kind: str) -> Iterator[ForEveryN]:
    """Where the line cuts, an alignment is a proof; where k answers are found, it is a Top-K."""
    cut = partial(prove_cut, partial(_hybrid, monotonic=kind != GENERAL), kind)
    yield ForEveryN("HybridTopK", f"the line cuts, {kind}", kind, cut)
    whole = partial(_with_exponential, cut)
    yield ForEveryN("HybridTopK", f"exponential, {kind}", kind, whole, CHECKED)


def _prove_exponential(made: Callable[..., NoisyTopK]) -> list[Theorem]:
    require_scales(made)
    return prove_exponential()


def _with_exponential(first: Callable[[], list[Theorem]]) -> list[Theorem]:
    return [*first(), *prove_exponential()]


def _measuring(kind: Any, *, epsilon: Any = 1, **more: Any) -> Any:
    return kind(epsilon, **more)


def _stream(kind: Any, *, epsilon: Any = 1, **more: Any) -> SparseVector:
    made: SparseVector = kind(0, epsilon=epsilon, **more)
    return made


def _ranking(*, epsilon: Any = 1, **more: Any) -> NoisyTopK:
    return NoisyTopK(epsilon=epsilon, **more)


def _best(*, k: int, epsilon: Any = 1, **more: Any) -> NoisyTopK:
    return NoisyMax(epsilon, **more)


def _joint(*, epsilon: Any = 1, **more: Any) -> JointTopK:
    return JointTopK(epsilon=epsilon, **more)


def _hybrid(*, k: int, epsilon: Any = 1, **more: Any) -> HybridTopK:
    return HybridTopK(0, k, epsilon, **more)
