"""What the catalogue says of a mechanism: how it differs from what ships, and what damns it."""

import inspect
import math
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpgap.exact.laws import RealLaw
from dpgap.proof.auditing.calling import frequency
from dpgap.proof.auditing.finding import DELTA, EPSILON, Audit, lower_bound, lower_chance
from dpgap.proof.checker.lone_items import check_lone_items, require_delta
from dpgap.proof.checker.proving import Counterexample, Proof, prove, replay

MUTANT, ACCEPT = "mutant", "accept"


def edited(kind: Any, **changes: Any) -> Any:
    """A mechanism that ships with some methods changed.

    A change is a list of texts, each with what stands in its place, or something else to have that
    name. It fails if a text is not there just once: so a mutant is always one of what ships.
    """
    methods: dict[str, Any] = {}
    for name, change in changes.items():
        if not isinstance(change, list):
            methods[name] = change
            continue
        shipped = inspect.getattr_static(kind, name)
        function = getattr(shipped, "__func__", shipped)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in change:
            if source.count(old) != 1:
                raise LookupError(f"{kind.__name__}.{name} must have {old!r} once: change it here")
            source = source.replace(old, new)
        source = f"from __future__ import annotations\n{source}"
        exec(
            compile(source, f"<edited {kind.__name__}.{name}>", "exec"),
            function.__globals__,
            methods,
        )
        methods.pop("annotations")
    name = f"Edited{kind.__name__.removeprefix('Edited')}"
    return type(name, (kind,), {"__slots__": (), **methods})


@dataclass(frozen=True, slots=True)
class Event:
    """What gives a mutant away: it happens more than e times as often as on a neighbour.

    `happens` looks at an output. `chance` computes the event's probability on some answers; it is
    given where sampling would take too long.
    """

    answers: tuple[int, ...]
    neighbour: tuple[int, ...]
    happens: Callable[[Any], bool]
    chance: Callable[[Sequence[int]], float] | None = None
    on_grid: bool = False
    samples: int = 1_000_000
    """How many make it certain to be seen, half of them on each side."""
    bounds: str = EPSILON
    """What it bounds from below. δ: on the neighbour, which has no answers, it cannot happen."""

    def claimed(self, mechanism: Any) -> float:
        """What the mechanism claims that to be."""
        return float(mechanism.delta(1) if self.bounds == DELTA else mechanism.epsilon)

    def least(self, mechanism: Any) -> float:
        """What the mechanism's ε or δ is at least: exactly, or by samples of its program."""
        sides = self.answers, self.neighbour
        if self.chance is not None:
            likely, unlikely = map(self.chance, sides)
            return math.log(likely / unlikely)
        runs = self.samples // 2
        hits = [
            frequency(mechanism.run, side, self.happens, runs, on_grid=self.on_grid)
            for side in sides
            if side
        ]
        if self.bounds == DELTA:
            return lower_chance(hits[0], runs)
        return lower_bound(hits[0], hits[1], runs)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A mechanism, and how many answers it is judged on.

    With an event that damns it, it must be refuted. Without one it must be proved, odd as it looks.
    """

    name: str
    mechanism: Any
    event: Event | None = None
    n: int = 2
    k: int = 1
    how: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the proof."""

    def judge(self) -> Proof:
        """Prove it, or refute it; by its δ where that is what its event bounds."""
        if self._is_by_delta:
            return check_lone_items(self.mechanism, self.n, **self.how)
        return prove(self.mechanism, self.n, **self.how)

    def replay(self, example: Counterexample) -> None:
        """Raise the `Violation` that is found at a counterexample's numbers."""
        if self._is_by_delta:
            require_delta(self.mechanism, len(example.answers), **self.how)
        else:
            replay(self.mechanism, example)

    @property
    def _is_by_delta(self) -> bool:
        return self.event is not None and self.event.bounds == DELTA

    @property
    def kind(self) -> str:
        """Which verdict it must get."""
        return ACCEPT if self.event is None else MUTANT

    @property
    def variant(self) -> str:
        """Which neighbours it is judged on."""
        return (
            "δ of unknown items"
            if self._is_by_delta
            else str(self.how.get("neighbours", "general"))
        )


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
        event.claimed(entry.mechanism),
        event.least(entry.mechanism),
        samples,
        None,
        time.perf_counter() - start,
        event.bounds,
    )


_NODES, _REACH = 24, 45


def integrate(given: Callable[[Any], Any], law: RealLaw) -> float:
    """The mean of `given` over noise whose density is smooth between whole numbers.

    Gauss–Legendre nodes between these; tails are cut off where they are below 1e-19.
    """
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    reach = int(_REACH * law.scale)
    points = (np.arange(-reach, reach)[:, None] + (places + 1) / 2).ravel()
    values = law.density(points) * given(points)
    return float((values.reshape(-1, _NODES) @ weights / 2).sum())
