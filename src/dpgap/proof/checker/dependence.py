"""Which draws each shift of an alignment depends on, and whether they depend in a ring.

An alignment must be *acyclic*: in some order of the draws, each shift depends on earlier draws
only. Then it cannot squeeze many draws of noise into few.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpgap.exact.laws import Law, Scalar
from dpgap.proof.checker.alignment import Trial
from dpgap.proof.checker.numbers import Affine, Violation, noise_name
from dpgap.proof.checker.output import Skeleton


@dataclass(slots=True)
class Aligned:
    """What the shifts are on the paths with one kind of output."""

    shifts: list[Scalar]
    """Those of the first path."""
    within: list[set[int]]
    """For each shift the draws in it, on any path."""
    varying: set[int] = field(default_factory=set)
    """The shifts that are not the same form on all paths."""
    asked: set[int] = field(default_factory=set)
    """The draws that the alignment asked about."""

    def needs(self) -> list[set[int]]:
        """For each shift, the draws that it depends on."""
        return [
            inside | (self.asked if number in self.varying else set())
            for number, inside in enumerate(self.within)
        ]


@dataclass(slots=True)
class Dependence:
    """Which draws each shift depends on, over all paths with the same discrete output.

    A shift depends on the draws in it. If it is not the same form on all paths, it also depends
    on every draw that the alignment asked about. Questions about answers alone, asked before any
    about noise, are part of what is given.
    """

    kinds: dict[Any, Aligned] = field(default_factory=dict)
    laws: dict[Skeleton, list[Law]] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """Take one more path into account."""
        laws = trial.draws.laws
        known = self.laws.setdefault(trial.skeleton, laws)
        if known != laws:
            raise Violation(
                "draws",
                f"the output {trial.skeleton} comes from {len(known)} draws or from "
                f"{len(laws)}, or from other laws: the output must tell which",
            )
        key = (trial.skeleton, _answers_before_noise(trial.questions))
        kind = self.kinds.setdefault(key, Aligned(trial.shifts, [set() for _ in trial.shifts]))
        for number, (shift, before) in enumerate(zip(trial.shifts, kind.shifts, strict=True)):
            if isinstance(shift, Affine):
                kind.within[number] |= shift.draws
            if not _same_form(shift, before):
                kind.varying.add(number)
        for about, _ in trial.questions:
            kind.asked |= about

    def cycles(self, *, general: bool) -> Iterator[list[int]]:
        """A cycle for each kind of output whose alignment is not acyclic.

        With `general`, one affine map for all paths with such an output need not be acyclic.
        """
        for kind in self.kinds.values():
            cycle = find_cycle(kind.needs())
            if cycle and not (general and not kind.varying):
                yield cycle


def _answers_before_noise(questions: Sequence[tuple[set[int], bool]]) -> tuple[bool, ...]:
    answers = []
    for about, answer in questions:
        if about:
            break
        answers.append(answer)
    return tuple(answers)


def _same_form(a: Scalar, b: Scalar) -> bool:
    difference = a - b
    if isinstance(difference, Affine):
        return not difference.terms and not difference.constant
    return bool(difference == 0)


def find_cycle(needs: Sequence[set[int]]) -> list[int]:
    """Draws that depend on each other in a ring, or nothing.

    >>> find_cycle([set(), {0}, {0, 1}]), find_cycle([{1}, {0}]), find_cycle([{0}])
    ([], [0, 1], [0])
    """
    settled: set[int] = set()
    progress = True
    while progress:
        ready = {i for i, need in enumerate(needs) if i not in settled and need <= settled}
        settled |= ready
        progress = bool(ready)
    if len(settled) == len(needs):
        return []
    trail = [min(i for i in range(len(needs)) if i not in settled)]
    while True:
        following = min(need for need in needs[trail[-1]] if need not in settled)
        if following in trail:
            return trail[trail.index(following) :]
        trail.append(following)


def cycle_message(cycle: Sequence[int]) -> str:
    """The cycle in words."""
    ring = " → ".join(noise_name(draw) for draw in [*cycle, cycle[0]])
    return (
        f"the alignment is cyclic: {ring} (each shift depends on the next draw). "
        "No order of the draws lets each shift depend on earlier ones only"
    )
