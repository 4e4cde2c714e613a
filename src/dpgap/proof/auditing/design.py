"""How a shipped mechanism is audited: what is sampled, on which answers, and against which law."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing.finding import Audit, fit, lower_bound

MOST = 12
"""Gaps that are at least this many steps over the least one share a cell; so do noisy values."""
_AT_ONCE = 1_000_000

Sampler = Callable[[Any, Sequence[int], int], Integers]
"""How often each cell occurs for a mechanism, on answers, in so many runs."""


class Design(NamedTuple):
    """What to sample. A *cell* is what a release says, with large numbers put together."""

    mechanism: Any
    variant: str
    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    event: Callable[[Integers], int]
    """How often the event happened, given how often each cell occurred."""
    law: Callable[[Any, Sequence[int]], Floats]
    """The chance of each cell, for a mechanism on answers."""
    kernel: Sampler
    release: Sampler

    @property
    def name(self) -> str:
        """The mechanism's name."""
        return type(self.mechanism).__name__

    def chances(self, answers: Sequence[int]) -> Floats:
        """The chance of each cell on these answers."""
        return self.law(self.mechanism, answers)


def variant_of(mechanism: Any) -> str:
    """Its noise and its kind of answers, in words."""
    return f"{mechanism.noise}, {'monotonic' if mechanism.monotonic else 'general'}"


def audit_design(design: Design, source: str, samples: int, *, real: Any = None) -> Audit:
    """Audit a shipped mechanism on `samples` runs, half of them on each side.

    `real` is what is sampled instead, to see whether a fault would be caught.
    """
    start = time.perf_counter()
    sampler = design.kernel if source == "kernel" else design.release
    sampled = design.mechanism if real is None else real
    runs = samples // 2
    sides = (design.answers, design.neighbour)
    counts = [_sample(sampler, sampled, side, runs) for side in sides]
    hits, hits_neighbour = map(design.event, counts)
    fits = [fit(count, design.chances(side)) for count, side in zip(counts, sides, strict=True)]
    return Audit(
        design.name,
        "shipped",
        design.variant,
        source,
        float(design.mechanism.epsilon),
        lower_bound(hits, hits_neighbour, runs),
        samples,
        min(1.0, 2 * min(fits)),
        time.perf_counter() - start,
    )


def _sample(sampler: Sampler, mechanism: Any, answers: Sequence[int], runs: int) -> Integers:
    parts = [
        sampler(mechanism, answers, min(_AT_ONCE, runs - done)) for done in range(0, runs, _AT_ONCE)
    ]
    total: Integers = np.sum(parts, axis=0)
    return total
