"""What the catalogue says of a mechanism: how to prove or refute it, and what damns it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpgap.exact.laws import LaplaceNoise, Scalar
from dpgap.proof.audit.events import Event
from dpgap.proof.audit.finding import Audit

MUTANT, ACCEPT = "mutant", "accept"

Answers = Sequence[Scalar]
Shifts = list[Scalar]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A mechanism with the verdict that it must get."""

    name: str
    kind: str
    mechanism: Any
    n: int
    k: int = 1
    event: Event | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the proof."""

    @property
    def variant(self) -> str:
        """Which neighbours it is judged on."""
        return str(self.how.get("neighbours", "general"))


def mutant(
    name: str, mechanism: Any, n: int, event: Event, *, k: int = 1, **how: Any
) -> CatalogueEntry:
    """An entry that must be refuted, on n answers."""
    return CatalogueEntry(name, MUTANT, mechanism, n, k, event, how)


def accept(name: str, mechanism: Any, n: int, *, k: int = 1, **how: Any) -> CatalogueEntry:
    """An entry that must be proved although it looks odd."""
    return CatalogueEntry(name, ACCEPT, mechanism, n, k, how=how)


def audit_mutant(entry: CatalogueEntry) -> Audit:
    """Audit a mutant by its event: on samples of its program, or exactly where it is rare."""
    start = time.perf_counter()
    event = entry.event
    if event is None:
        raise ValueError(f"{entry.name} has no event to be audited by")
    samples = event.samples if event.chance is None else 0
    return Audit(
        entry.name,
        entry.kind,
        entry.variant,
        "program" if samples else "exact",
        float(Fraction(entry.mechanism.epsilon)),
        event.least_epsilon(entry.mechanism),
        samples,
        None,
        time.perf_counter() - start,
    )


def laplace(scale: int | Fraction) -> LaplaceNoise:
    """Laplace noise of this scale."""
    return LaplaceNoise(Fraction(scale))


def repeat(*runs: tuple[int, int]) -> tuple[int, ...]:
    """So many answers of each value.

    >>> repeat((1, 2), (-1, 1))
    (1, 1, -1)
    """
    return tuple(value for value, times in runs for _ in range(times))


def outcomes_are(
    wanted: Sequence[int], fits: Callable[[Scalar], Any] = lambda number: True
) -> Callable[[Iterable[Any]], bool]:
    """Whether outcomes are exactly as wanted, 0 for below, with numbers that fit where above."""

    def happens(output: Iterable[Any]) -> bool:
        seen = 0
        for (branch, number), want in zip(output, wanted, strict=False):
            if int(branch or 0) != want or (want and not fits(number)):
                return False
            seen += 1
        return seen == len(wanted)

    return happens
