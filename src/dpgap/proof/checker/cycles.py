"""The draws that each shift of an alignment depends on, and whether they form a cycle.

An alignment must be *acyclic*: in some order of the draws, each shift depends on earlier draws
only. Then it cannot squeeze many draws of noise into few.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from dpgap.exact.laws import Law
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.alignment import Trial
from dpgap.proof.checker.numbers import (
    Violation,
)
from dpgap.proof.checker.skeletons import Skeleton

if TYPE_CHECKING:
    pass


@dataclass(slots=True)
class Dependence:
    """Which draws each shift depends on, over all paths with the same discrete output.

    A shift depends on the draws in it. If it is not the same form on all paths, it also depends
    on every draw that the alignment asked about. Questions about answers alone, asked before any
    about noise, are part of what is given.
    """

    kinds: dict[Any, list[Trial]] = field(default_factory=dict)
    laws: dict[Skeleton, list[Law]] = field(default_factory=dict)
    functions: "Functions" = field(default_factory=lambda: Functions())

    def add(self, trial: Trial) -> None:
        """Take one more path into account."""
        self.functions.add(trial)
        laws = trial.draws.laws
        if self.laws.setdefault(trial.skeleton, laws) != laws:
            raise Violation(
                "draws",
                f"the output {trial.skeleton} must tell how many draws there were, and their laws",
            )
        before_noise = itertools.takewhile(lambda question: not question[0], trial.questions)
        key = (trial.skeleton, tuple(answer for _, answer in before_noise))
        self.kinds.setdefault(key, []).append(trial)

    def cycle(self) -> list[int]:
        """A cycle in the first kind of output whose alignment is not acyclic; empty if none."""
        for trials in self.kinds.values():
            cycle = find_cycle(_needs(trials))
            if cycle:
                return cycle
        return []


def _needs(trials: Sequence[Trial]) -> list[set[int]]:
    """For each shift, the draws that it depends on."""
    draws_asked: set[int] = set()
    for trial in trials:
        for draws, _ in trial.questions:
            draws_asked |= draws
    needs = []
    for shifts in zip(*(trial.shifts for trial in trials), strict=True):
        draws = set().union(*map(forms.draws_of, shifts))
        first = forms.form_of(shifts[0])
        if any(forms.form_of(shift) != first for shift in shifts):
            draws |= draws_asked
        needs.append(draws)
    return needs


class Functions:
    """Checks that `run`, `align` and `unalign` use only their arguments.

    Their next question, or their result, must be a function of the discrete output (if they get
    one) and of the answers to their earlier questions. So it cannot depend on stored values.
    """

    def __init__(self) -> None:
        self._trees: dict[Any, dict[Any, Any]] = {}
        """For each method and output a tree: its next question, and a branch for each answer."""

    def add(self, trial: Trial) -> None:
        """Raise a violation if one more path shows something else."""
        for call in trial.calls:
            node = self._trees.setdefault((call.method, call.skeleton), {})
            for form, answer in call.transcript:
                self._require(call.method, node, form)
                node = node.setdefault(answer, {})
            self._require(call.method, node, ("returns", call.result))

    def _require(self, method: str, node: dict[Any, Any], action: object) -> None:
        if node.setdefault("next", action) != action:
            raise Violation("function", f"{method} uses something else than what it is given")


def find_cycle(needs: Sequence[set[int]]) -> list[int]:
    """Draws that depend on each other in a cycle; empty if there are none.

    >>> find_cycle([set(), {0}, {0, 1}]), find_cycle([{1}, {0}]), find_cycle([{0}])
    ([], [0, 1], [0])
    """
    try:
        TopologicalSorter(dict(enumerate(needs))).prepare()
    except CycleError as error:
        _, ring = error.args  # each is needed by the next, up to the first again
        return list(ring[:0:-1])
    return []


def cycle_message(cycle: Sequence[int]) -> str:
    """The cycle in words."""
    ring = " → ".join(forms.noise_name(draw) for draw in [*cycle, cycle[0]])
    return (
        f"the alignment is cyclic: {ring} (each shift depends on the next draw). "
        "No order of the draws lets each shift depend on earlier ones only"
    )
