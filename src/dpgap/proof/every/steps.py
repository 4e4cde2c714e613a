"""A stream for every n: one step from any state.

*State*: the units used so far, and what all steps share, such as a noisy threshold. On the
neighbour as many units are used, and what is shared is higher by the rise. From any such state, one
step on an arbitrary answer gives the same outcome on both sides, ends in such a state again, and
costs at most the units that it uses. So the whole costs at most what the shared draw costs, and all
units together. `folds` shows that a stream is nothing but such steps.

Of all other answers only their sum is looked at (`rise`): an arbitrary answer and the sum of the
rest stand for all of them.

Shifts are the same for all noise with the same outcomes. So they are acyclic, |det J| = 1, and
there are as many alignments as there are sequences of outcomes: countably many.
"""

import dis
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dpgap.exact.laws import Law, Scalar
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, Branch, SparseVector
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.alignment import Draws, ShiftedDraws, Source
from dpgap.proof.checker.families import Sealed, altered, collect, seal, take_apart
from dpgap.proof.checker.numbers import Affine, BadProgram, Exact, Kept, Violation
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL
from dpgap.proof.every.folds import Opening, require_fold, require_loop
from dpgap.proof.every.theorem import Theorem, recording

if TYPE_CHECKING:
    from dpgap.proof.every.recording import Recording


@dataclass(frozen=True, slots=True, eq=False)
class Charged:
    """Noise whose cost is counted in units: what it costs at charge 1, times these."""

    at_one: Law
    units: Affine

    @property
    def can_tie(self) -> bool:
        """Whether two draws may be equal."""
        return self.at_one.can_tie

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return self.at_one.supports(value)


class Budget(NamedTuple):
    """What is paid for: the shared draw, and so many units at so much each."""

    opening: Opening
    share: Exact
    capacity: Scalar
    unit: Exact
    whole: bool = False
    """Whether units are whole numbers."""


class Summed:
    """Answers of which only the sum may be looked at: so two stand for any number of them."""

    __slots__ = ("total",)

    def __init__(self, answers: Sequence[Affine]) -> None:
        first, rest = answers
        _SUM.put(self, first + rest)

    def __getitem__(self, at: object) -> NoReturn:
        raise _looks_at_single_answers()

    def __len__(self) -> NoReturn:
        raise _looks_at_single_answers()

    def __iter__(self) -> Iterator["_Part"]:
        return iter((_Part(self, None), _Part(self, _SUM.of(self))))


_SUM = Kept(Summed, "total")


class _Part(Sealed):
    """One answer of some: it can be added to the others, in their order, and nothing else."""

    __slots__ = ("owner", "total")

    def __init__(self, owner: Summed, total: Affine | None) -> None:
        _OWNER.put(self, owner)
        _TOTAL.put(self, total)

    def _refuse(self, *_: object) -> NoReturn:
        raise _looks_at_single_answers()

    def __radd__(self, other: Any) -> Any:  # type: ignore[override]
        first = _TOTAL.of(self) is None and type(other) is int and not other
        return self if first else self._refuse()

    def __add__(self, other: Any) -> Any:  # type: ignore[override]
        if not isinstance(other, _Part) or _OWNER.of(other) is not _OWNER.of(self):
            return self._refuse()
        total = _TOTAL.of(other)
        return self._refuse() if total is None or _TOTAL.of(self) is not None else total

    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __eq__ = __ne__ = __hash__ = _refuse


_OWNER, _TOTAL = Kept(_Part, "owner"), Kept(_Part, "total")


def require_no_loop(rise: Any) -> None:
    """A rise that goes through answers by itself could count them."""
    code = rise.__code__
    loops = [each for each in dis.get_instructions(code) if "FOR_ITER" in each.opname]
    known = {*forms.names(code, "GLOBAL")} <= {"sum", "min", "max", "abs", "Fraction"}
    if loops or forms.inner(code) or not known:
        raise _looks_at_single_answers()


def _looks_at_single_answers() -> Violation:
    return Violation("fold", "the rise may look at nothing but the sum of all answers")


def prove_steps(mechanism: Any, kind: str, *, ties: bool) -> list[Theorem]:
    """What must hold of one step of a mechanism with known numbers.

    Beside `run` and `align` it has `step`, `align_step`, `rise` and `live`, as `SparseVector` has
    them, and `capacity` units of `unit` each.
    """
    opening = require_fold(mechanism)
    share = forms.exact(mechanism.epsilon) - mechanism.capacity * forms.exact(mechanism.unit)
    budget = Budget(opening, share, mechanism.capacity, forms.exact(mechanism.unit), whole=True)
    judge = recording(forms.exact(mechanism.epsilon), ties=ties)
    judge.given_whole(judge.unknown("used"))
    return [prove_step(type(mechanism).__name__, mechanism, budget, kind, judge)]


def prove_step(name: str, program: Any, budget: Budget, kind: str, judge: "Recording") -> Theorem:
    """One step from any state, as a theorem; raises the first violation."""
    require_no_loop(type(program).rise)
    used = judge.unknown("used")
    judge.given(used >= 0)
    judge.given(used <= budget.capacity)
    answer, rest, shared = map(judge.unknown, ("answer", "rest", "shared"))
    delta = forms.exact(getattr(program, "sensitivity", 1))
    move = judge.between("move", *(delta * end for end in DIRECTIONS[kind]))
    others = judge.unknown("others_move")
    if kind != GENERAL:  # all move the same way
        judge.given(others >= 0 if DIRECTIONS[kind][1] else others <= 0)
    sides = (answer, rest), (answer + move, rest + others)
    laws: dict[Any, list[Any]] = {}
    on_path = partial(_on_path, program, budget, judge, (used, shared), sides, laws)
    return judge.proved(f"{name}, {kind}: one step", on_path)


def _on_path(
    program: Any,
    budget: Budget,
    judge: "Recording",
    state: tuple[Affine, Affine],
    sides: tuple[Sequence[Affine], Sequence[Affine]],
    laws: dict[Any, list[Any]],
) -> None:
    """One step, its shifts, and the same step on the neighbour."""
    (used, shared), (before, after) = state, sides
    if used > 0 and not program.live(used):
        return  # the stream has ended
    rise = program.rise(Summed(before), Summed(after))
    _require_shared(budget, rise, judge)
    draws = Draws(judge, [], [])
    outcome, then = collect(program.step(used, before[0], shared, Source(draws)))
    live = program.live(used)
    told = take_apart(outcome)[0], live if isinstance(live, int) else bool(live)
    untold = Violation("draws", "the outcome must tell which draws a step took")
    judge.require(laws.setdefault(told, draws.laws) == draws.laws, untold)
    judge.begin("align")
    shifts, counted = program.align_step(used, rise + before[0] - after[0], seal(outcome))
    if len(shifts) != len(draws.values):
        raise BadProgram("align_step must return one shift for every draw of its step")
    asked = any(about for about, _ in forms.questions_of(judge.transcript))
    judge.require(
        not asked and not any(map(forms.draws_of, (*shifts, rise))),
        Violation("acyclic", "a shift depends on noise"),
    )
    for law, value, shift in zip(draws.laws, draws.values, shifts, strict=True):
        out = Violation("support", "a shift takes noise out of its support")
        judge.require(law.supports(value + shift), out)
    _require_paid(draws.laws, shifts, (then - used) * budget.unit, judge)
    judge.require(then <= budget.capacity, Violation("cost", "more units are used than there are"))
    judge.require(then - used >= 0, Violation("cost", "units that are used can be had back"))
    if budget.whole:
        judge.require_whole(then, Violation("cost", "units that are used must be whole numbers"))
    again = ShiftedDraws(draws, shifts, [])
    same = collect(program.step(used, after[0], shared + rise, Source(again)))
    require_same_output((outcome, then), same, judge)
    judge.require_zero(counted - then + 0 * used, Violation("output", "align counts other units"))
    if len(again.taken) < len(draws.values):
        judge.require(False, Violation("draws", "the neighbour draws less often"))


def _require_shared(budget: Budget, rise: Scalar, judge: "Recording") -> None:
    """The shared draw is shifted by the rise, which costs its share and keeps its support."""
    law, sign = budget.opening
    over = Violation("cost", "the rise can cost more than its share")
    judge.require_at_most([law], [sign * rise], budget.share, over)
    value = judge.unknown("shared_draw")
    judge.assume(law.supports(value))
    out = Violation("support", "the rise takes noise out of its support")
    judge.require(law.supports(value + sign * rise), out)


def _require_paid(laws: Sequence[Any], shifts: Sequence[Scalar], paid: Affine, judge: Any) -> None:
    over = Violation("cost", "the shifts can cost more than the units that are used")
    moved = [
        (law, by) for law, by in zip(laws, shifts, strict=True) if isinstance(by, Affine) or by
    ]
    if not any(isinstance(law, Charged) for law, _ in moved):
        judge.require_at_most([law for law, _ in moved], [by for _, by in moved], paid, over)
        return
    judge.require(len(moved) == 1, Violation("cost", "a step shifts more than one draw"))
    for law, by in moved:  # units times at most 1
        judge.require_at_most([law.at_one], [by], 1, over)
        judge.require(law.units <= paid, over)


def require_same_output(made: Any, same: Any, judge: Any) -> None:
    """Raise a violation where two outputs differ."""
    differs = Violation("output", f"the neighbour gives {same}, not {made}")
    (skeleton, numbers), (others, changed) = take_apart(made), take_apart(same)
    judge.require(skeleton == others, differs)
    for number, other in zip(numbers, changed, strict=True):
        judge.require_zero(number - other, differs)


# --------------------------------------------------------------------------------------------------
# Sparse Vectors for every n and k, with any margins and any number of branches.
#
# One step is proved with unknown units, limits and margins (`steps`). `require_numbers` shows that
# every mechanism of the kind has units, limits and noise as the step takes them for granted, and
# that the threshold's share and all units together are ε.


_BRANCHES = 3
"""As many are followed: `require_loop` shows that all but the first are treated alike."""
_MOST_BRANCHES = 16
_UNREAD = ("threshold", "k", "epsilon", "threshold_share", "threshold_law", "noise", "grid")
"""What a step must not look at: it is followed for one value of each."""
_HALF = Fraction(1, 2)
_SHARES = tuple(Fraction(i, 7) for i in (2, 1, 5))
_MOVES = (Fraction(1, 3), Fraction(1), Fraction(-5, 2))

Make = Callable[..., SparseVector]
"""Makes a mechanism from k, the threshold's share and, if it is adaptive, its branches."""


def prove_stream(made: Make, kind: str) -> list[Theorem]:
    """The theorems about one step; raises a violation if something does not hold."""
    sample = made(k=2, threshold_share=_HALF)
    _require_steps(sample)
    adaptive = isinstance(sample, AdaptiveSparseVector)
    for branches, drain in itertools.product(range(1, _MOST_BRANCHES + 1), (False, True)):
        shape = {"branches": branches, "drain": drain} if adaptive else {}
        if adaptive or branches == 1:
            _require_all_numbers(made, shape, thorough=branches <= _BRANCHES)
    # Limits are unknown, so a step that drains is a step like any other.
    few = [{"branches": m} for m in range(1, _BRANCHES + 1)] if adaptive else [{}]
    return [_prove(made(k=2, threshold_share=_HALF, **shape), kind) for shape in few]


def prove_known_stream(mechanism: SparseVector, kind: str) -> list[Theorem]:
    """The theorem about one step of this mechanism; raises a violation if it does not hold."""
    _require_steps(mechanism)
    require_numbers(mechanism)
    return [_prove(mechanism, kind)]


def _require_steps(mechanism: SparseVector) -> None:
    """Raise a violation unless it draws the threshold, and all else is in its steps."""
    if require_fold(mechanism) != Opening(mechanism.threshold_law, 1):
        raise Violation("fold", "a stream must begin with the threshold's noise")
    require_loop(mechanism)


def _prove(mechanism: SparseVector, kind: str) -> Theorem:
    judge = recording(mechanism.epsilon, ties=True)
    program, capacity = _with_unknowns(mechanism, judge)
    at_one = replace(mechanism.threshold_law, scale=mechanism.sensitivity)
    budget = Budget(Opening(at_one, 1), 1, capacity, 1)
    name = f"{type(mechanism).__name__}, {mechanism.noise}, {len(mechanism.ways)} branches"
    return prove_step(name, program, budget, kind, judge)


def _with_unknowns(mechanism: SparseVector, judge: Any) -> tuple[SparseVector, Affine]:
    """The mechanism with any units, limits and margins."""
    capacity = judge.unknown("capacity")
    ways: list[Branch] = []
    limits: list[Affine] = []
    for way in mechanism.ways:
        units, margin, limit = (
            judge.unknown(f"{name}_{way.number}") for name in ("units", "margin", "limit")
        )
        judge.given(units >= (ways[-1].units if ways else 1))
        judge.given(limit + units <= capacity)
        if limits:
            judge.given(limit <= limits[-1])
        law: Any = Charged(_at_one(way), units)
        ways.append(way._replace(units=units, margin=margin, law=law))
        limits.append(limit)
    unread = dict.fromkeys(_UNREAD, Sealed())
    return altered(mechanism, ways=tuple(ways), limits=tuple(limits), **unread), capacity


def _at_one(way: Branch) -> Any:
    """A branch's noise, as if it charged 1."""
    return replace(way.law, scale=way.law.scale * way.charge)


def _require_all_numbers(made: Make, shape: dict[str, Any], *, thorough: bool) -> None:
    """Each number is a quotient of polynomials of low degree in k, the share, ε and Δ.

    So a few values of these are enough. They are looked at in grid steps, as a release takes them.
    """
    sizes = (1, 2, 3, 5) if thorough else (3,)
    shares = _SHARES if thorough else _SHARES[:1]
    other: dict[str, Any] = {"epsilon": Fraction(7, 3), "sensitivity": 3}
    on_grid: dict[str, Any] = {"sensitivity": Fraction(4, 3), "grid": Fraction(1, 4)}
    for k, share, more in itertools.product(sizes, shares, ({}, other, on_grid)):
        require_numbers(made(k=k, threshold_share=share, **shape, **more).in_steps())


def require_numbers(mechanism: SparseVector) -> None:
    """Raise a violation unless the mechanism's numbers are as a step takes them for granted."""
    for fact, holds in {**_facts_of_units(mechanism), **_facts_of_noise(mechanism)}.items():
        if not holds:
            raise Violation("budget", f"it is not so that {fact}")


def _facts_of_units(mechanism: SparseVector) -> dict[str, bool]:
    ways, limits = mechanism.ways, mechanism.limits
    pairs = list(zip(ways, limits, strict=True))
    whole = mechanism.threshold_share * mechanism.epsilon + mechanism.capacity * mechanism.unit
    return {
        "all units and the threshold's share are ε": whole == mechanism.epsilon,
        "branches are numbered": [way.number for way in ways] == list(range(1, len(ways) + 1)),
        "each uses a unit at least": ways[0].units >= 1,
        "dearer branches come later and are given up first": all(
            a.units <= b.units and limit >= next_limit
            for (a, limit), (b, next_limit) in itertools.pairwise(pairs)
        ),
        "what is tried can be paid": all(
            limit + way.units <= mechanism.capacity for way, limit in pairs
        ),
        "a charge is so many units": all(way.charge == way.units * mechanism.unit for way in ways),
    }


def _facts_of_noise(mechanism: SparseVector) -> dict[str, bool]:
    delta, ways = mechanism.sensitivity, mechanism.ways
    share = mechanism.threshold_share * mechanism.epsilon
    doubled = 1 if mechanism.monotonic else 2
    return {
        "a branch's noise is inverse to its charge": all(
            way.law.scale * way.charge == doubled * delta for way in ways
        ),
        "a cost is inverse to the scale": all(
            way.law.cost(move) == _at_one(way).cost(move) * way.charge
            for way, move in itertools.product(ways, _MOVES)
        ),
        "Δ costs what it does for Δ = 1": all(
            way.law.cost(delta * move) == way.law.scaled(Fraction(1) / delta).cost(move)
            for way, move in itertools.product(ways, _MOVES)
        ),
        "the threshold's rise costs its share": mechanism.threshold_law.cost(delta) <= share,
    }
