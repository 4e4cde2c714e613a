"""Prove a mechanism private, or refute its proof with numbers that a person can replay.

>>> import dpgap
>>> from dpgap.proof import prove
>>> prove(dpgap.NoisyMax(epsilon=1), n=3).verdict
'PROVED'

A proof covers all answers, neighbours and noise, for the given number of answers. A refutation
says which condition fails and where. It refutes the *alignment*: usually the mechanism is not
private either, but a better alignment may exist.
"""

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Law, Scalar, require_law
from dpgap.exact.parameters import (
    many,
    positive_integer,
    positive_rational,
    require_made,
)
from dpgap.proof.checker import alignment, cycles, points
from dpgap.proof.checker.numbers import (
    BadNoise,
    BadProgram,
    Exact,
    Violation,
    exact,
)
from dpgap.proof.checker.points import check
from dpgap.proof.checker.programs import require_open
from dpgap.proof.checker.provers import PROVERS, Closing

if TYPE_CHECKING:
    from dpgap.proof.checker.symbolic import Paths


PROVED = "PROVED"
CHECKED = "CHECKED"
REFUTED = "REFUTED"

_TAKEN = re.compile(r"[qdpην]\d+|noise_\d+")
"""Names that the checker gives to answers, moves and noise."""
DIRECTIONS = {"general": (-1, 1), "rising": (0, 1), "falling": (-1, 0)}
"""How far answers may move on neighbouring data: up or down, only up, or only down."""
GENERAL, RISING, FALLING = DIRECTIONS

_MEANING = (
    "What is refuted is the alignment. Usually the mechanism is not private either, but another "
    "alignment may prove it."
)
_NEXT = {
    "output": "Shift the draws that the output above depends on by the missing amount.",
    "cost": "Try shifts that are smaller, or fewer; or more noise; or a larger ε.",
    "support": "Try shifts that never go down, or noise that may be negative.",
    "grid": "Shift by whole steps; or, if the noise is real, prove it without ties.",
    "acyclic": "Try shifts that depend on fewer draws, or write unalign, which undoes them.",
    "one-to-one": "Let unalign find out from the shifted noise how far it was shifted.",
    "function": "Let align depend on its arguments only: keep nothing from run.",
    "discrete": "Try to use indices, branches and lengths of the output only.",
    "draws": "Let the output tell how many draws were taken.",
    "fold": "Let run and align hand everything on to step and align_step, as SparseVector does.",
}
"""Advice for each condition that fails."""
_NO_TIES = ". Ties have probability 0 and are left out (ties=True or --ties counts them)"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Numbers at which a condition fails."""

    answers: tuple[Fraction, ...]
    neighbour: tuple[Fraction, ...]
    noise: tuple[Fraction, ...]
    parameters: Mapping[str, Fraction]
    shifts: tuple[Fraction, ...] = ()
    """How far the alignment shifts each draw; empty if it fails itself."""
    cost: Fraction | None = None
    """What these shifts cost together."""

    def __str__(self) -> str:
        names = ["answers", "neighbour", "noise"]
        if self.shifts:
            names.append("shifts")
        lines = [f"{name:9} {', '.join(map(str, getattr(self, name)))}" for name in names]
        if self.cost is not None:
            lines.append(f"cost      {self.cost}")
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
    closings: tuple[Closing, ...] = ()
    """The theorems that a proof for every n rests on, and who closed them."""

    @property
    def closed_by(self) -> tuple[str, ...]:
        """The provers that closed all of them."""
        provers = set(PROVERS) if self.closings else set()
        for closing in self.closings:
            provers &= set(closing.closed_by)
        return tuple(sorted(provers))

    def __str__(self) -> str:
        if self.verdict == REFUTED:
            return self._refutation()
        duration = f"in {self.seconds:.2f} s, for {self.neighbours} neighbours"
        if not self.closings:
            return f"{self.verdict} on {many(self.paths, 'path')} {duration}: {self.reason}"
        theorems = many(len(self.closings), "theorem")
        provers = " and ".join(self.closed_by)
        return f"{self.verdict} for every n: {theorems}, all closed by {provers}, {duration}"

    def _refutation(self) -> str:
        lines = [f"REFUTED ({self.condition}, {self.neighbours} neighbours): {self.reason}"]
        if self.counterexample is not None:
            lines.append(str(self.counterexample))
        by_hand = "Replay the numbers with dpgap.proof.replay, and follow them by hand."
        lines += [_MEANING, _NEXT.get(self.condition or "", by_hand)]
        return "\n".join(lines)


def prove(
    mechanism: Any,
    n: int,
    *,
    neighbours: str | None = None,
    epsilon: Scalar = None,
    sensitivity: Scalar = None,
    within: tuple[Scalar, Scalar] | None = None,
    ties: bool = False,
) -> Proof:
    """Prove that a mechanism is ε-private on any n answers, by its own alignment.

    `mechanism` has `run` and `align`; or it is a function that makes one from unknown parameters:
    `prove(lambda unknown: Shifted(by=unknown("by")), …)`. ε, sensitivity and monotonic are taken
    from the mechanism where it has them. `neighbours` is "general", "rising" or "falling"; for a
    monotonic mechanism both directions are proved. `within` confines all answers to a range that
    they cannot leave. `ties` counts ties, for noise on a grid: then shifts must be whole steps
    (multiples of the mechanism's `grid`, or whole numbers) if answers are. For a mechanism that has
    a `reach`, the changes of all answers add up to at most that many sensitivities.
    """
    count = positive_integer("n", n)
    require_made(mechanism)
    sample = _build(mechanism, lambda _: Fraction(1))
    other = _build(mechanism, lambda _: Fraction(7, 3))
    for name in ("epsilon", "sensitivity", "monotonic", "reach"):
        if getattr(sample, name, None) != getattr(other, name, None):
            raise BadProgram(f"{name} is what is claimed: it must not follow from an unknown")
    for method in ("run", "align"):
        if not callable(getattr(sample, method, None)):
            raise TypeError(f"{type(sample).__name__} must have a method {method!r}")
    reach = getattr(sample, "reach", None)
    if reach is not None:
        reach = positive_integer("reach", reach)
    claim = _ProofClaim(
        n=count,
        epsilon=stated_number(sample, "epsilon", epsilon),
        sensitivity=stated_number(sample, "sensitivity", sensitivity, 1),
        within=None if within is None else (exact(within[0]), exact(within[1])),
        ties=ties,
        reach=reach,
    )
    proofs = [_prove(mechanism, kind, claim) for kind in directions(neighbours, sample)]
    for proof in proofs:
        if proof.verdict == REFUTED:
            return proof
    return replace(
        proofs[0],
        neighbours=" and ".join(proof.neighbours for proof in proofs),
        paths=sum(proof.paths for proof in proofs),
        seconds=sum(proof.seconds for proof in proofs),
    )


def _build(mechanism: Any, unknown: Callable[[str], Scalar]) -> Any:
    """A new copy of the mechanism, or the member of a family with these unknowns."""
    if hasattr(mechanism, "run"):
        return deepcopy(mechanism)

    def named(name: str) -> Scalar:
        if type(name) is not str or _TAKEN.fullmatch(name):
            raise ValueError(f"{name!r} must be another name: answers and noise have such names")
        return unknown(name)

    return mechanism(named)


def stated_number(mechanism: Any, name: str, argument: Scalar, default: Scalar = None) -> Fraction:
    """The number that is given, or else the one that the mechanism states itself."""
    value = argument
    if value is None:
        value = getattr(mechanism, name, default)
    if value is None:
        raise TypeError(f"{name} must be given: the mechanism does not say it")
    return positive_rational(name, value)


def directions(neighbours: str | None, mechanism: Any) -> Sequence[str]:
    """The kinds of neighbours that a proof must cover."""
    if neighbours is None:
        is_monotonic = getattr(mechanism, "monotonic", False)
        return (RISING, FALLING) if is_monotonic else (GENERAL,)
    if neighbours not in DIRECTIONS:
        raise ValueError(f"neighbours must be one of {', '.join(DIRECTIONS)}, not {neighbours!r}")
    return (neighbours,)


class _ProofClaim(NamedTuple):
    """What is to be proved."""

    n: int
    epsilon: Exact
    sensitivity: Exact
    within: tuple[Exact, Exact] | None
    ties: bool
    reach: int | None
    """How many sensitivities all answers together may move by; None: each of them by one."""

    @property
    def reason(self) -> str:
        """The reason of a proof."""
        without_ties = "" if self.ties else _NO_TIES
        return f"for {many(self.n, 'answer')}, every condition holds on every path{without_ties}"


def _explore(
    mechanism: Any, kind: str, claim: _ProofClaim, *, only_align: bool = False
) -> tuple["Paths", list[int], Violation | None]:
    """Follow all paths, on unknown answers, or up to the first path with a violation.

    Returns the paths, a cycle that `unalign` does not undo, and the violation. With `only_align`
    the conditions are not checked, so all cycles are found.
    """
    from dpgap.proof.checker.symbolic import Paths

    paths = Paths(claim.epsilon, ties=claim.ties)
    built = _build(mechanism, paths.unknown)
    paths.step = getattr(built, "grid", None) or 1
    if paths.transcript:
        raise BadProgram("the mechanism asks about an unknown while it is made: ask in run instead")
    record = require_open(mechanism, built)
    anew = None
    if hasattr(built, "unalign"):
        anew = partial(deepcopy, deepcopy(built))
    answers, neighbour = _confined_answers(paths, kind, claim)
    dependence = cycles.Dependence()
    violation: Violation | None = None
    on_path = partial(alignment.trial, anew=anew)
    if only_align:
        on_path = partial(alignment.run_and_align)
    try:
        paths.explore(lambda: dependence.add(on_path(built, answers, neighbour, paths)))
    except Violation as first:
        violation = first
        if anew is None and not only_align:  # a cycle is what is wrong first of all
            return paths, _explore(mechanism, kind, claim, only_align=True)[1], violation
    cycle = [] if anew else dependence.cycle()
    if violation is None and not cycle and not only_align:
        _require_unchanged(mechanism, built, record)
        if all(skeleton.kind is type(None) for skeleton in dependence.laws):
            raise BadProgram("run returned None on every path: does it return anything?")
    return paths, cycle, violation


def _confined_answers(paths: "Paths", kind: str, claim: _ProofClaim) -> tuple[Any, Any]:
    """Unknown answers and their neighbour, within the limits of the claim."""
    answers, moves, neighbour = paths.neighbours(claim.n, DIRECTIONS[kind], claim.sensitivity)
    if claim.reach is not None and claim.reach < claim.n:
        limit = claim.reach * claim.sensitivity
        # Sizes of moves add up to at most this if the moves do, with every choice of signs.
        for signs in itertools.product((1, -1), repeat=claim.n - 1):
            total = sum((s * move for s, move in zip(signs, moves[1:], strict=True)), moves[0])
            paths.confine(total, -limit, limit)
    if claim.within is not None:
        low, high = claim.within
        for answer in answers + neighbour:
            paths.confine(answer, low, high)
    paths.require_possible()
    return answers, neighbour


def _require_unchanged(mechanism: Any, built: Any, record: list[Any]) -> None:
    """Refuse a program that changed something, or a mechanism whose copy is another one."""
    if require_open(mechanism, built) != record:
        problem = (
            "the program changes what outlives a run, such as an attribute or a global variable"
        )
        raise BadProgram(f"{problem}, or keeps an iterator: it could count its calls")
    is_copied = hasattr(mechanism, "run")
    if is_copied and require_open(mechanism, mechanism) != require_open(built, built):
        raise BadProgram("a copy of the mechanism is another one: it says how it is copied")


def _prove(mechanism: Any, kind: str, claim: _ProofClaim) -> Proof:
    start = time.perf_counter()
    paths, cycle, violation = _explore(mechanism, kind, claim)
    example = None
    if cycle:
        violation = Violation("acyclic", cycles.cycle_message(cycle))
    elif violation is not None and violation.condition != "grid":  # no point is off the grid
        example = _with_shifts(mechanism, _counterexample(paths.point(), claim.n))
    seconds = time.perf_counter() - start
    if claim.reach is not None:
        kind = f"{kind} (reach {claim.reach})"
    if violation is None:
        return Proof(PROVED, kind, None, claim.reason, None, paths.count, seconds)
    return Proof(
        REFUTED, kind, violation.condition, violation.message, example, paths.count, seconds
    )


def _counterexample(point: Mapping[Any, Fraction], n: int) -> Counterexample:
    """The numbers of a point: answers, moves, draws and parameters. What has no number is 0."""
    numbers = dict(point)
    answers = tuple(numbers.pop(f"q{i}", Fraction(0)) for i in range(n))
    neighbour = tuple(q + numbers.pop(f"d{i}", Fraction(0)) for i, q in enumerate(answers))
    last_draw = max((unknown for unknown in numbers if isinstance(unknown, int)), default=-1)
    noise = tuple(numbers.pop(draw, Fraction(0)) for draw in range(last_draw + 1))
    parameters = {str(unknown): value for unknown, value in numbers.items()}
    return Counterexample(answers, neighbour, noise, parameters)


def _with_shifts(mechanism: Any, example: Counterexample) -> Counterexample:
    """The counterexample with its shifts and their cost, unless the alignment fails there."""
    built = _build(mechanism, example.parameters.__getitem__)
    with suppress(Violation, BadNoise, BadProgram):
        shifts, cost = points.shifts_at(built, example.answers, example.neighbour, example.noise)
        any_noise = (Fraction(0),) * (len(shifts) - len(example.noise))
        return replace(example, noise=example.noise + any_noise, shifts=shifts, cost=cost)
    return example


def replay(mechanism: Any, example: Counterexample, *, epsilon: Scalar = None) -> None:
    """Check the mechanism at a counterexample's numbers; raises the `Violation` found there."""
    built = _build(mechanism, example.parameters.__getitem__)
    check(built, example.answers, example.neighbour, example.noise, epsilon=epsilon)


# Look for a violation at many points: for more answers than a proof can take.
#
# Hypothesis generates answers, neighbours and noise, all in exact fractions. If a condition fails,
# it searches for the simplest numbers at which the condition fails.


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
    allowed = stated_number(mechanism, "epsilon", epsilon)
    delta = stated_number(mechanism, "sensitivity", sensitivity, 1)
    numbers = st.fractions(-50, 50, max_denominator=64)
    findings: list[tuple[Violation, Counterexample]] = []

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
        low, high = DIRECTIONS[kind]
        moves = st.fractions(low, high, max_denominator=8)
        steps = data.draw(st.lists(moves, min_size=count, max_size=count))
        neighbour = [a + delta * step for a, step in zip(answers, steps, strict=True)]
        noise: list[Fraction] = []

        def draw(law: Law) -> Fraction:
            """The next draw, made up in the law's support."""
            require_law(law)
            value: Fraction = data.draw(numbers)
            noise.append(value if law.supports(value) else -value)
            return noise[-1]

        output = mechanism.run(tuple(answers), SimpleNamespace(draw=draw))
        if hasattr(output, "__next__"):
            list(output)
        try:
            check(mechanism, answers, neighbour, noise, epsilon=allowed)
        except Violation as violation:
            example = Counterexample(tuple(answers), tuple(neighbour), tuple(noise), {})
            findings.append((violation, _with_shifts(mechanism, example)))
            raise

    try:
        try_point()
    except Violation:
        return findings[-1]
    return None
