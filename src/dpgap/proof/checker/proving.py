"""Prove a mechanism private, or refute its proof with numbers that a person can replay.

>>> import dpgap
>>> from dpgap.proof import prove
>>> prove(dpgap.NoisyMax(epsilon=1), n=3).verdict
'PROVED'

A proof covers all answers, neighbours and noise, for the given number of answers. A refutation
says which condition fails and where. It refutes the *alignment*: usually the mechanism is not
private either, but a better alignment may exist.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Law, Scalar, require_law
from dpgap.exact.parameters import positive_integer, positive_rational
from dpgap.proof.checker.alignment import (
    Dependence,
    Mechanism,
    Trial,
    check,
    cycle_message,
    find_cycle,
    run_and_align,
    trial,
)
from dpgap.proof.checker.families import sums_of_moves
from dpgap.proof.checker.numbers import BadProgram, Exact, Unknown, Violation, exact, require_open

if TYPE_CHECKING:
    from dpgap.proof.checker.symbolic import Paths
    from dpgap.proof.every.theorem import Closing


PROVED, CHECKED, REFUTED = "PROVED", "CHECKED", "REFUTED"

_TAKEN = re.compile(r"[qdpην]\d+")
"""Names that the checker gives to answers, moves and noise."""
DIRECTIONS = {"general": (-1, 1), "rising": (0, 1), "falling": (-1, 0)}
"""How far answers may move on neighbouring data: any way, none falls, or none rises."""
GENERAL, RISING, FALLING = DIRECTIONS

MEANING = (
    "What is refuted is the alignment. Usually the mechanism is not private either, but another "
    "alignment may prove it."
)
NEXT_OF_ALL = "Replay the numbers with dpgap.proof.replay, and follow them by hand."
NEXT = {
    "output": "Shift the draws that the output above depends on by the missing amount.",
    "cost": "Try shifts that are smaller, or fewer; or more noise; or a larger ε.",
    "support": "Try shifts that never go down, or noise that may be negative.",
    "acyclic": "Try shifts that depend on fewer draws, or write unalign, which undoes them.",
    "one-to-one": "Let unalign find out from the shifted noise how far it was shifted.",
    "function": "Let align depend on its arguments only: keep nothing from run.",
    "discrete": "Try to use indices, branches and lengths of the output only.",
    "draws": "Let the output tell how many draws were taken.",
    "fold": "Let run and align hand everything on to step and align_step, as SparseVector does.",
}
"""What to try, for each condition."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Numbers at which a condition fails."""

    answers: tuple[Fraction, ...]
    neighbour: tuple[Fraction, ...]
    noise: tuple[Fraction, ...]
    parameters: Mapping[str, Fraction]

    def __str__(self) -> str:
        lines = [
            f"{name:9} {', '.join(map(str, getattr(self, name)))}"
            for name in ("answers", "neighbour", "noise")
        ]
        lines += [f"{name} = {value}" for name, value in self.parameters.items()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict on a mechanism, and the reason for it."""

    verdict: str
    neighbours: str
    condition: str | None
    """The condition that fails."""
    reason: str
    counterexample: Counterexample | None
    paths: int
    seconds: float
    closings: tuple["Closing", ...] = ()
    """The theorems that a proof for every n rests on, and who closed them."""

    @property
    def closed_by(self) -> tuple[str, ...]:
        """The provers that closed all of them."""
        every = [set(closing.closed_by) for closing in self.closings]
        return tuple(sorted(set.intersection(*every))) if every else ()

    def __str__(self) -> str:
        if self.verdict == REFUTED:
            shown = "" if self.counterexample is None else f"\n{self.counterexample}"
            what = f"REFUTED ({self.condition}, {self.neighbours} neighbours): {self.reason}{shown}"
            return f"{what}\n{MEANING}\n{NEXT.get(self.condition or '', NEXT_OF_ALL)}"
        if self.closings:
            said = f"{self.verdict} for every n: {len(self.closings)} theorems"
            return f"{said}, all closed by {' and '.join(self.closed_by)}, in {self.seconds:.2f} s"
        return f"{self.verdict} on {self.paths} paths in {self.seconds:.2f} s"


def prove(
    mechanism: Any,
    n: int,
    *,
    neighbours: str | None = None,
    epsilon: Scalar = None,
    sensitivity: Scalar = None,
    within: tuple[Scalar, Scalar] | None = None,
    ties: bool = False,
    general: bool = False,
) -> Proof:
    """Prove that a mechanism is ε-private on any n answers, by its own alignment.

    `mechanism` has `run` and `align`; or it is a function that makes one from unknown parameters:
    `prove(lambda unknown: Shifted(by=unknown("by")), …)`. ε, sensitivity and monotonic are taken
    from the mechanism where it has them. `neighbours` is "general", "rising" or "falling"; for a
    monotonic mechanism both directions are proved. `within` confines all answers to a range that
    they cannot leave. `ties` counts ties, for noise on a grid. For a mechanism that has a `reach`,
    the changes of all answers add up to at most that many sensitivities.
    `general` also accepts affine alignments that are not acyclic and charges `ln(1/|det J|)`.
    """
    count = positive_integer("n", n)
    sample = _build(mechanism, lambda _: Fraction(1))
    other = _build(mechanism, lambda _: Fraction(7, 3))
    for name in ("epsilon", "sensitivity", "monotonic", "reach"):
        if getattr(sample, name, None) != getattr(other, name, None):
            raise BadProgram(f"{name} is what is claimed: it must not follow from an unknown")
    for method in ("run", "align"):
        if not callable(getattr(sample, method, None)):
            raise TypeError(f"mechanism must have a method {method!r}")
    require_open(mechanism, type(sample))
    claim = _Claim(
        count,
        stated(sample, "epsilon", epsilon),
        stated(sample, "sensitivity", sensitivity, 1),
        None if within is None else (exact(within[0]), exact(within[1])),
        ties,
        general,
        None if getattr(sample, "reach", None) is None else positive_integer("reach", sample.reach),
    )
    proofs = [_prove(mechanism, kind, claim) for kind in directions(neighbours, sample)]
    refuted = next((proof for proof in proofs if proof.verdict == REFUTED), None)
    return refuted or Proof(
        PROVED,
        " and ".join(proof.neighbours for proof in proofs),
        None,
        "every condition holds on every path",
        None,
        sum(proof.paths for proof in proofs),
        sum(proof.seconds for proof in proofs),
    )


def _build(mechanism: Any, unknown: Callable[[str], Scalar]) -> Any:
    """The mechanism made anew, or the member of a family that has these unknowns."""
    if hasattr(mechanism, "run"):
        return deepcopy(mechanism)

    def named(name: str) -> Scalar:
        if type(name) is not str or _TAKEN.fullmatch(name):
            raise ValueError(
                f"{name!r} must be another name: text, and not as answers and noise are called"
            )
        return unknown(name)

    return mechanism(named)


def stated(mechanism: Any, name: str, given: Scalar, default: Scalar = None) -> Fraction:
    """The number that is given, or else the one that the mechanism states itself."""
    value = getattr(mechanism, name, default) if given is None else given
    if value is None:
        raise TypeError(f"{name} must be given: the mechanism does not say it")
    return positive_rational(name, value)


def directions(neighbours: str | None, mechanism: Any) -> Sequence[str]:
    """The kinds of neighbours that a proof must cover."""
    if neighbours is None:
        return (RISING, FALLING) if getattr(mechanism, "monotonic", False) else (GENERAL,)
    if neighbours not in DIRECTIONS:
        raise ValueError(
            f"neighbours must be one of {', '.join(map(repr, DIRECTIONS))}, not {neighbours!r}"
        )
    return (neighbours,)


class _Claim(NamedTuple):
    """What is to be proved."""

    n: int
    epsilon: Exact
    sensitivity: Exact
    within: tuple[Exact, Exact] | None
    ties: bool
    general: bool
    reach: int | None
    """How many sensitivities all answers together may move by; None: each of them by one."""


class _Cyclic(Exception):  # noqa: N818 - not a fault: there may be an inverse
    pass


def _explore(
    mechanism: Any, kind: str, claim: _Claim, on_path: Callable[..., Trial], *, undo: bool = False
) -> tuple["Paths", Dependence, Violation | None]:
    """Go down all paths, on unknown answers; or up to the first path with a violation.

    What has `unalign` may have cycles; then all is done once more, and `undo` says so.
    """
    from dpgap.proof.checker.symbolic import Paths

    paths = Paths(claim.epsilon, ties=claim.ties)
    made: Mechanism = _build(mechanism, paths.unknown)
    if paths.has_answered:
        raise BadProgram("the mechanism asks about an unknown while it is made: ask in run instead")
    anew = partial(deepcopy, deepcopy(made)) if hasattr(made, "unalign") else None
    answers = [paths.unknown(f"q{i}") for i in range(claim.n)]
    low, high = (end * claim.sensitivity for end in DIRECTIONS[kind])
    moves = [paths.between(f"d{i}", low, high) for i in range(claim.n)]
    neighbour = [q + move for q, move in zip(answers, moves, strict=True)]
    if claim.reach is not None and claim.reach < claim.n:
        most = claim.reach * claim.sensitivity
        for total in sums_of_moves(moves):
            paths.confine(total, -most, most)
    for answer in [*answers, *neighbour] if claim.within else []:
        paths.confine(answer, *claim.within)  # type: ignore[misc]
    dependence = Dependence()

    def body() -> None:
        found = dependence.add(on_path(made, answers, neighbour, paths))
        if anew is not None and not undo and find_cycle(found.needs()):
            raise _Cyclic

    if undo:
        on_path = partial(trial, anew=anew)
    try:
        paths.explore(body)
    except Violation as violation:
        return paths, Dependence() if undo else dependence, violation
    except _Cyclic:
        return _explore(mechanism, kind, claim, on_path, undo=True)
    return paths, Dependence() if undo else dependence, None


def _prove(mechanism: Any, kind: str, claim: _Claim) -> Proof:
    start = time.perf_counter()
    on_path = partial(trial, general=claim.general)
    paths, dependence, violation = _explore(mechanism, kind, claim, on_path)
    example = None if violation is None else _example(paths.point(), claim.n)
    has_inverse = hasattr(_build(mechanism, lambda name: Fraction(1)), "unalign")
    if violation is not None and not claim.general and not has_inverse:
        # A cycle is what is wrong first of all.
        _, dependence, _ = _explore(mechanism, kind, claim, run_and_align)
    for cycle in dependence.cycles(general=claim.general):
        more = (
            ", and it is not one affine map: it branches on noise"
            if claim.general
            else ". If it is affine, `general=True` charges for that instead"
        )
        violation, example = Violation("acyclic", cycle_message(cycle) + more), None
        break
    seconds = time.perf_counter() - start
    if violation is None:
        return Proof(PROVED, kind, None, "", None, paths.count, seconds)
    return Proof(
        REFUTED, kind, violation.condition, violation.message, example, paths.count, seconds
    )


def _example(point: Mapping[Unknown, Fraction], n: int) -> Counterexample:
    rest = dict(point)
    answers = tuple(rest.pop(f"q{i}", Fraction(0)) for i in range(n))
    neighbour = tuple(q + rest.pop(f"d{i}", Fraction(0)) for i, q in enumerate(answers))
    draws = sorted(unknown for unknown in point if isinstance(unknown, int))
    noise = tuple(rest.pop(draw) for draw in draws)
    return Counterexample(answers, neighbour, noise, {str(u): v for u, v in rest.items()})


def replay(
    mechanism: Any, example: Counterexample, *, epsilon: Scalar = None, general: bool = False
) -> None:
    """Check the mechanism at a counterexample's numbers; raises the `Violation` found there."""
    made = _build(mechanism, example.parameters.__getitem__)
    points = example.answers, example.neighbour, example.noise
    check(made, *points, epsilon=epsilon, general=general)


# --------------------------------------------------------------------------------------------------
# Look for a violation at many points: for more answers than a proof can take.
#
# Hypothesis makes up answers, neighbours and noise, all in exact fractions. When a condition fails,
# it looks for the simplest numbers at which the condition fails.


class _MadeUpNoise:
    """Noise that is made up as it is drawn, and remembered."""

    def __init__(self, fresh: Any) -> None:
        self._fresh = fresh
        self.values: list[Fraction] = []

    def draw(self, law: Law) -> Fraction:
        """The next draw, in the law's support."""
        require_law(law)
        value: Fraction = self._fresh()
        if not law.supports(value):
            value = -value
        self.values.append(value)
        return value


def search(
    mechanism: Any,
    n: int,
    *,
    neighbours: str | None = None,
    epsilon: Any = None,
    sensitivity: Any = None,
    examples: int = 200,
) -> tuple[Violation, Counterexample] | None:
    """The simplest violation among so many examples for n answers; None if there is none.

    >>> import dpgap
    >>> search(dpgap.NoisyTopK(k=5, epsilon=1), n=20, examples=20)
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    count = positive_integer("n", n)
    allowed = stated(mechanism, "epsilon", epsilon)
    delta = stated(mechanism, "sensitivity", sensitivity, 1)
    numbers = st.fractions(-50, 50, max_denominator=64)
    found: list[tuple[Violation, Counterexample]] = []

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data(), kind=st.sampled_from(list(directions(neighbours, mechanism))))
    def try_point(data: Any, kind: str) -> None:
        answers = data.draw(st.lists(numbers, min_size=count, max_size=count))
        moves = st.fractions(*DIRECTIONS[kind], max_denominator=8)
        steps = data.draw(st.lists(moves, min_size=count, max_size=count))
        neighbour = [a + delta * step for a, step in zip(answers, steps, strict=True)]
        noise = _MadeUpNoise(lambda: data.draw(numbers))
        output = mechanism.run(tuple(answers), noise)
        if hasattr(output, "__next__"):
            list(output)
        try:
            check(mechanism, answers, neighbour, noise.values, epsilon=allowed)
        except Violation as violation:
            example = Counterexample(tuple(answers), tuple(neighbour), tuple(noise.values), {})
            found.append((violation, example))
            raise

    try:
        try_point()
    except Violation:
        return found[-1]
    return None
