"""Proofs of streams for every n: one step from any state.

The *state* is the units used so far, and the values that all steps share, such as a noisy
threshold. On the neighbour the same number of units is used, and the shared value is higher by the
rise. From any such state, one step on an arbitrary answer gives the same outcome on both sides,
ends in such a state again, and costs at most the units that it uses. So the whole stream costs at
most the cost of the shared draw plus that of all units. `require_fold` shows that a stream consists
only of such steps.

`rise` is given the sum of all answers and no single one. So an arbitrary answer and the sum of the
rest stand for all of them.

Shifts are the same for all noise with the same outcomes. So they are acyclic, |det J| = 1, and
there are as many alignments as there are sequences of outcomes: countably many.
"""

import dis
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Law, Scalar
from dpgap.exact.parameters import altered
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, Branch, SparseVector
from dpgap.proof.checker import alignment
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.alignment import Draws, Replayed, Sealed, Source
from dpgap.proof.checker.numbers import Affine, BadProgram, Exact, Violation, own_names
from dpgap.proof.checker.proving import DIRECTIONS, GENERAL, Theorem
from dpgap.proof.every.few_answers import MOVES, Fixed, recording
from dpgap.proof.every.memory import require_no_memory

if TYPE_CHECKING:
    from dpgap.proof.checker.symbolic import Recording


class Opening(NamedTuple):
    """The first draw of a stream, and its coefficients in the values that all steps share."""

    law: Any
    sign: Exact


@dataclass(frozen=True, slots=True, eq=False)
class Charged:
    """Noise whose cost is counted in units: its cost at charge 1, times its units."""

    at_one: Law
    units: Affine
    can_tie = property(attrgetter("at_one.can_tie"))
    supports = property(attrgetter("at_one.supports"))


class Budget(NamedTuple):
    """The budget of a stream: the shared draw, and a number of units with a price."""

    opening: Opening
    share: Exact
    capacity: Scalar
    unit: Exact
    whole: bool = False
    """Whether units are whole numbers."""


def prove_steps(mechanism: Any, kind: str, *, ties: bool) -> list[Theorem]:
    """The theorems about one step of a mechanism with known numbers.

    Beside `run` and `align` it has `step`, `align_step`, `rise` and `live`, as `SparseVector` has
    them, and `capacity` units of `unit` each.
    """
    opening = require_fold(mechanism)
    share = forms.exact(mechanism.epsilon) - mechanism.capacity * forms.exact(mechanism.unit)
    budget = Budget(opening, share, mechanism.capacity, forms.exact(mechanism.unit), whole=True)
    judge = recording(forms.exact(mechanism.epsilon), ties=ties)
    judge.step = getattr(mechanism, "grid", None) or 1
    judge.given_whole(judge.unknown("used"))
    return [prove_step(type(mechanism).__name__, mechanism, budget, kind, judge)]


def prove_step(name: str, program: Any, budget: Budget, kind: str, judge: "Recording") -> Theorem:
    """One step from any state, as a theorem; raises the first violation.

    On each path: one step, its shifts, and the same step on the neighbour.
    """
    alignment.require_sound(budget.opening.law, judge)
    used = judge.unknown("used")
    judge.given(used >= 0)
    judge.given(used <= budget.capacity)
    answer, rest, shared = map(judge.unknown, ("answer", "rest", "shared"))
    delta = forms.exact(getattr(program, "sensitivity", 1))
    move = judge.between("move", *(delta * end for end in DIRECTIONS[kind]))
    others = judge.unknown("others_move")
    if kind != GENERAL:  # all move the same way
        judge.given(others >= 0 if DIRECTIONS[kind][1] else others <= 0)
    laws: dict[Any, list[Any]] = {}

    def on_path() -> None:
        if used > 0 and not program.live(used):
            return  # the stream has ended
        rise = program.rise(answer + rest, answer + move + rest + others)
        # The shared draw is shifted by the rise, which costs its share and keeps its support.
        opening, by = budget.opening.law, budget.opening.sign * rise
        over = Violation("cost", "the rise can cost more than its share")
        judge.require_at_most([opening], [by], budget.share, over)
        drawn = judge.unknown("shared_draw")
        judge.assume(opening.supports(drawn))
        out = Violation("support", "the rise takes noise out of its support")
        judge.require(opening.supports(drawn + by), out)
        draws = Draws(judge, [], [])
        outcome, then = alignment.collect(program.step(used, answer, shared, Source(draws)))
        live = program.live(used)
        told = alignment.take_apart(outcome)[0], live if isinstance(live, int) else bool(live)
        untold = Violation("draws", "the outcome must tell which draws a step took")
        judge.require(laws.setdefault(told, draws.laws) == draws.laws, untold)
        judge.begin("align")
        shifts, counted = program.align_step(used, rise - move, alignment.seal(outcome))
        if len(shifts) != len(draws.values):
            raise BadProgram("align_step must return one shift for every draw of its step")
        asked = any(about for about, _ in forms.questions_of(judge.transcript))
        is_free = not asked and not any(map(forms.draws_of, (*shifts, rise)))
        judge.require(is_free, Violation("acyclic", "a shift depends on noise"))
        judge.require_steps([*shifts, by])
        alignment.require_supported(draws, shifts)
        _require_paid(draws.laws, shifts, (then - used) * budget.unit, judge)
        beyond = Violation("cost", "more units are used than there are")
        judge.require(then <= budget.capacity, beyond)
        judge.require(then - used >= 0, Violation("cost", "units that are used can be had back"))
        if budget.whole:
            broken = Violation("cost", "units that are used must be whole numbers")
            judge.require_whole(then, broken)
        again = Replayed(draws.laws, alignment.moved(draws.values, shifts), [])
        same = alignment.collect(program.step(used, answer + move, shared + rise, Source(again)))
        alignment.require_same_output((outcome, then), same, judge)
        other = Violation("output", "align counts other units")
        judge.require_zero(counted - then + 0 * used, other)
        again.require_all_taken()

    return judge.proved(f"{name}, {kind}: one step", on_path)


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


# --------------------------------------------------------------------------------------------------
# The link between one step and a whole stream: `run` and `align` do nothing but steps.
#
# What a step proves holds for every n if `run` is a *fold*: draw what all answers share, then take
# one step after another, each from where the last one ended. This is checked on the code that
# ships. `run` and `align` are executed with steps that return *marks*. A mark can only be passed
# on: any other use of it fails. So marks show where each value goes.
#
# At the head of a loop, the whole state of a function is in its local variables, which are read
# there. If they are the same at one head and at the next (except for marks that are passed on),
# they are the same at all later heads: each round does the same as the round before it. A variable
# with anything else, such as an iterator, is refused; so is code with memory (`memory`). The
# iterator of a loop is not in its variables. So there must be one loop, over the answers
# themselves, and over nothing else with them.


_METHODS = (
    *("run", "step", "rise", "live", "align", "align_step"),
    *("__getattr__", "__getattribute__"),  # Python calls them
)
_ALIGNING = {"sum", "zip", "rise", "align_step"}
_ROUNDS = 4


class Mark(Sealed):
    """A placeholder for a value that may only be passed on."""

    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def _when_used(self) -> Violation:
        return _broken(f"the program looks into {self.name}, which only a step may do")

    __hash__ = object.__hash__  # type: ignore[assignment]


def require_fold(mechanism: Any) -> Opening:
    """Raise a violation unless `run` and `align` are folds of steps; return `run`'s opening."""
    require_no_memory(mechanism, _METHODS)
    opening = _require_run(mechanism, ends=False)
    _require_run(mechanism, ends=True)
    _require_align(mechanism, opening)
    return opening


class _Heads:
    """Items for a loop; at each round the local variables of that loop are recorded.

    `done` has one entry for each round that has ended: a loop takes one item for each. Besides
    marks and numbers, local variables may hold the values in `given`.
    """

    def __init__(self, items: Sequence[Any], code: CodeType, done: Sequence[Any]) -> None:
        self.items, self.code, self.done = items, code, done
        loops = [each.offset for each in forms.instructions(code) if each.opname == "FOR_ITER"]
        _require(len(loops) == 1, f"{code.co_name} is more than one loop")
        self.loop = loops[0], loops[0] + 2  # some Pythons say where the instruction ends
        self.given: list[Any] = [self]
        self.seen: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.items):
            _require(len(self.done) == number, "answers are not taken one by one")
            frame = sys._getframe(1)
            if frame.f_code is self.code and frame.f_lasti in self.loop:
                self.seen.append({name: self._seen(each) for name, each in frame.f_locals.items()})
            yield item

    def require_same(self, what: str) -> None:
        """Raise a violation unless all rounds but the first begin alike."""
        if len(self.seen) < _ROUNDS or any(head != self.seen[1] for head in self.seen[2:]):
            raise _broken(f"{what} does not do the same with every answer")

    def _seen(self, value: Any) -> Any:
        """A local variable in a form that is equal in every round: a mark by its age."""
        if any(value is each for each in self.given):
            return "given"
        if isinstance(value, Mark):
            return value.name, len(self.seen) - value.number
        if isinstance(value, Affine):
            terms = forms.terms_of(value).items()
            kept = {name: by for name, by in terms if isinstance(name, int) or name[0] != "q"}
            return "a number", kept, forms.constant_of(value)
        if value is None or isinstance(value, int | Fraction):
            return value
        if isinstance(value, list | tuple):
            return [self._seen(each) for each in value]
        raise _broken(f"a loop keeps a {type(value).__name__}, which can hide what it counts")


def _opaque(mechanism: Any, **methods: Callable[..., Any]) -> Any:
    """A copy of the mechanism with these methods in place of its own."""
    kind = type(mechanism)
    copy: Any = object.__new__(type(kind.__name__, (kind,), {"__slots__": (), **methods}))
    for name in own_names(mechanism):
        object.__setattr__(copy, name, getattr(mechanism, name))
    return copy


class _Branch:
    """A branch that all answers clear, or none. Its law and its number may only be passed on."""

    def __init__(self, number: int, *, cleared: bool) -> None:
        self.law, self.number = Mark("law", number), Mark("branch", number)
        self.margin = -1 if cleared else 1
        self.units = forms.affine(None, {f"units {number}": 1})


class _Branches(tuple[_Branch, ...]):
    """Branches whose loop is recorded (`_Heads`)."""

    heads: "_Heads"

    def __getitem__(self, at: Any) -> Any:
        _require(at == slice(None, _ROUNDS, None), "a step does not try all that are live")
        return self.heads


def _until_loop(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions before the first loop: they make the iterable of the loop."""
    made = itertools.takewhile(lambda each: each.opname != "FOR_ITER", dis.get_instructions(code))
    return [(each.opname, each.argval) for each in made]


def require_loop(mechanism: Any) -> None:
    """Raise a violation unless a step does the same with every branch, cleared or not.

    It goes through the branches themselves, as the shipped step does: `zip` or a generator could
    hold a state that no variable shows.
    """
    begins = _until_loop(type(mechanism).step.__code__) == _until_loop(SparseVector.step.__code__)
    _require(begins, "a step must begin with its loop, over self.every_branch[: self.live(used)]")
    for cleared in range(_ROUNDS + 1):
        noise, used = Fixed(itertools.repeat(0), []), forms.affine(None, {"used": 1})
        branches = _Branches(_Branch(at, cleared=at == cleared) for at in range(_ROUNDS))
        branches.heads = _Heads(tuple(branches), type(mechanism).step.__code__, noise.laws)
        copy = _opaque(mechanism, live=lambda _, used: _ROUNDS)
        object.__setattr__(copy, "every_branch", branches)
        branches.heads.given += [copy, noise, used, *branches]
        outcome, then = copy.step(used, 0, 0, noise)
        own = all(isinstance(law, Mark) for law in noise.laws)
        _require(own, "a step draws noise that is no branch's")
        drawn = [law.number for law in noise.laws]
        if cleared == _ROUNDS:
            none = all(part is None for part in outcome) and then is used
            _require(none, "to clear no branch uses units")
            branches.heads.require_same("a step")
        else:
            branch, gap = outcome
            same = _is(branch, "branch", cleared) and isinstance(gap, int) and gap == 0
            _require(same, "a step does not say the branch that is cleared, and its gap")
            wanted = {"used": 1, f"units {cleared}": 1}, 0
            paid = isinstance(then, Affine) and forms.form_of(then) == wanted
            _require(paid, "a step does not use the units of what is cleared")
        tried = list(range(min(cleared + 1, _ROUNDS)))
        _require(drawn == tried, "a step does not draw once for each branch tried")


def _require_run(mechanism: Any, *, ends: bool) -> Opening:
    """Go through `run` until nothing is live, or until there are no more answers (`ends`)."""
    answers = [Mark("answer", i) for i in range(_ROUNDS + (1 if ends else 2))]
    noise = Fixed((forms.affine(None, {number: 1}) for number in itertools.count()), [])
    calls, left = [], [_ROUNDS + (2 if ends else 1)]

    def step(_: Any, *given: Any) -> tuple[Mark, Mark]:
        calls.append(given)
        return Mark("outcome", len(calls)), Mark("used", len(calls))

    def live(_: Any, used: Any) -> bool:
        _require(isinstance(used, Mark) and used.number == len(calls), "run does not stop in time")
        left[0] -= 1
        return left[0] > 0

    code = type(mechanism).run.__code__
    heads = _Heads(answers, code, calls)
    for before, each in itertools.pairwise(forms.instructions(code)):
        plain = "LOAD_FAST" in before.opname and not each.is_jump_target
        _require(each.opname != "GET_ITER" or plain, "run goes through more than its answers")
    program = _opaque(mechanism, step=step, live=live)
    heads.given += [program, noise]
    said = list(program.run(heads, noise))
    heads.require_same("run")
    _require(len(said) == len(calls) == _ROUNDS + 1, "run does not stop when nothing is live")
    shared = calls[0][2]
    for number, (used, answer, other, source) in enumerate(calls):
        last = used == 0 if number == 0 else _is(used, "used", number)
        _require(last, "a step of run does not begin where the last one ended")
        _require(answer is answers[number], "run does not take answers as they come")
        _require(other is shared and source is noise, "steps of run do not share the same draws")
        _require(_is(said[number], "outcome", number + 1), "run does not say what steps say")
    once = isinstance(shared, Affine) and forms.terms_of(shared) in ({0: 1}, {0: -1})
    _require(once and len(noise.laws) == 1, "run does not begin with one draw that steps share")
    return Opening(noise.laws[0], forms.terms_of(shared)[0])


def _require_align(mechanism: Any, opening: Opening) -> None:
    # To count answers, or to leave some out, it would have to ask something or to name a place.
    code = type(mechanism).align.__code__
    plain = {*forms.names(code, "GLOBAL", "ATTR", "METHOD")} <= _ALIGNING
    asks = any(
        "JUMP_IF" in each.opname
        or each.opname in ("BINARY_SUBSCR", "BINARY_SLICE", "UNPACK_EX")
        or (each.opname == "UNPACK_SEQUENCE" and each.argval > 3)
        for each in forms.instructions(code)
    )
    _require(plain and not asks, "align is more than one loop")
    # More answers than outcomes: a stream may end before its answers do.
    places = range(_ROUNDS + 1)
    sides = [tuple(forms.affine(None, {f"{q}{i}": 1}) for i in places) for q in ("q", "q'")]
    outcomes = [Mark("outcome", i) for i in range(_ROUNDS)]
    calls: list[Any] = []

    def align_step(_: Any, *given: Any) -> tuple[list[Mark], Mark]:
        calls.append(given)
        return [Mark("shift", len(calls))], Mark("used", len(calls))

    def rise(_: Any, *given: Any) -> Affine:
        sums = [forms.form_of(sum(side)) for side in sides]
        _require([*map(forms.form_of, given)] == sums, "align does not sum up all answers")
        return forms.affine(None, {"rise": 1})

    heads = _Heads(outcomes, code, calls)
    program, noise = _opaque(mechanism, align_step=align_step, rise=rise), Sealed()
    heads.given += [program, noise, *sides]
    shifts = list(program.align(*sides, noise, heads))
    heads.require_same("align")
    _require(len(calls) == _ROUNDS, "align does not take one step for each outcome")
    begins = forms.form_of(shifts[0])[0] == {"rise": opening.sign}
    _require(begins, "align does not begin with the rise")
    for number, (used, move, outcome) in enumerate(calls):
        last = used == 0 if number == 0 else _is(used, "used", number)
        _require(last, "a step of align does not begin where the last one ended")
        wanted = {"rise": 1, f"q{number}": 1, f"q'{number}": -1}
        same = isinstance(move, Affine) and forms.form_of(move) == (wanted, 0)
        _require(same, "align does not make up for the rise and the answer's own change")
        _require(outcome is outcomes[number], "align does not take outcomes as they come")
        _require(_is(shifts[number + 1], "shift", number + 1), "align loses shifts")
    _require(len(shifts) == _ROUNDS + 1, "align adds shifts")


def _is(value: Any, name: str, number: int) -> bool:
    return isinstance(value, Mark) and (value.name, value.number) == (name, number)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _broken(message)


def _broken(message: str) -> Violation:
    return Violation("fold", message)


# --------------------------------------------------------------------------------------------------
# Sparse Vectors for every n and k, with any margins and any number of branches.
#
# One step is proved with unknown units, limits and margins (`steps`). `require_numbers` shows that
# every mechanism of the kind has units, limits and noise as the step takes them for granted, and
# that the threshold's share and all units together are ε.


_BRANCHES = 3
"""The number of branches that are followed; `require_loop` shows that later ones are the same."""
_MOST_BRANCHES = 16
_UNREAD = ("threshold", "k", "epsilon", "threshold_share", "threshold_law", "noise", "grid")
"""Parameters that a step must not look at, because it is followed for one value of each."""
_HALF = Fraction(1, 2)
_SHARES = tuple(Fraction(i, 7) for i in (2, 1, 5))

Make = Callable[..., SparseVector]
"""Makes a mechanism from k, the threshold's share and, if it is adaptive, its branches."""


def prove_stream(made: Make, kind: str) -> list[Theorem]:
    """The theorems about one step; raises a violation if something does not hold.

    Each number is a quotient of polynomials of low degree in k, the share, ε and Δ. So a few values
    of these are enough. They are looked at in grid steps, as a release takes them.
    """
    sample = made(k=2, threshold_share=_HALF)
    _require_steps(sample)
    adaptive = isinstance(sample, AdaptiveSparseVector)
    other: dict[str, Any] = {"epsilon": Fraction(7, 3), "sensitivity": 3}
    on_grid: dict[str, Any] = {"sensitivity": Fraction(4, 3), "grid": Fraction(1, 4)}
    for branches, drain in itertools.product(range(1, _MOST_BRANCHES + 1), (False, True)):
        shape: dict[str, Any] = {"branches": branches, "drain": drain} if adaptive else {}
        few = branches <= _BRANCHES
        sizes, shares = ((1, 2, 3, 5), _SHARES) if few else ((3,), _SHARES[:1])
        for k, share, more in itertools.product(sizes, shares, ({}, other, on_grid)):
            if adaptive or branches == 1:
                require_numbers(made(k=k, threshold_share=share, **shape, **more).in_steps())
    # Limits are unknown, so a step that drains is a step like any other.
    shapes = [{"branches": m} for m in range(1, _BRANCHES + 1)] if adaptive else [{}]
    return [_prove(made(k=2, threshold_share=_HALF, **shape), kind) for shape in shapes]


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
    """One step with any units, limits and margins."""
    judge = recording(mechanism.epsilon, ties=True)
    judge.step = mechanism.grid or 1
    capacity = judge.unknown("capacity")
    branches: list[Branch] = []
    limits: list[Affine] = []
    for branch in mechanism.every_branch:
        units: Any
        units, margin, limit = (
            judge.unknown(f"{name}_{branch.number}") for name in ("units", "margin", "limit")
        )
        judge.given(units >= (branches[-1].units if branches else 1))
        judge.given(limit + units <= capacity)
        if limits:
            judge.given(limit <= limits[-1])
        law: Any = Charged(_at_one(branch), units)
        branches.append(branch._replace(units=units, margin=margin, law=law))
        limits.append(limit)
    unread = dict.fromkeys(_UNREAD, Sealed())
    program = altered(mechanism, every_branch=tuple(branches), limits=tuple(limits), **unread)
    at_one = replace(mechanism.threshold_law, scale=mechanism.sensitivity)
    budget = Budget(Opening(at_one, 1), 1, capacity, 1)
    name = f"{type(mechanism).__name__}, {mechanism.noise}, {len(mechanism.every_branch)} branches"
    return prove_step(name, program, budget, kind, judge)


def _at_one(branch: Branch) -> Any:
    """A branch's noise, as if it charged 1."""
    return replace(branch.law, scale=branch.law.scale * branch.charge)


def require_numbers(mechanism: SparseVector) -> None:
    """Raise a violation unless the mechanism's numbers are as the proof of a step assumes."""
    delta, branches, limits = mechanism.sensitivity, mechanism.every_branch, mechanism.limits
    pairs = list(zip(branches, limits, strict=True))
    share = mechanism.threshold_share * mechanism.epsilon
    units = mechanism.capacity * mechanism.unit
    doubled = 1 if mechanism.monotonic else 2
    facts = {
        "all units and the threshold's share are ε": share + units == mechanism.epsilon,
        "branches are numbered": [branch.number for branch in branches]
        == list(range(1, len(branches) + 1)),
        "each uses a unit at least": branches[0].units >= 1,
        "dearer branches come later and are given up first": all(
            a.units <= b.units and limit >= next_limit
            for (a, limit), (b, next_limit) in itertools.pairwise(pairs)
        ),
        "what is tried can be paid": all(
            limit + branch.units <= mechanism.capacity for branch, limit in pairs
        ),
        "a charge is so many units": all(
            branch.charge == branch.units * mechanism.unit for branch in branches
        ),
        "a branch's noise is inverse to its charge": all(
            branch.law.scale * branch.charge == doubled * delta for branch in branches
        ),
        "a cost is inverse to the scale": all(
            branch.law.cost(move) == _at_one(branch).cost(move) * branch.charge
            for branch, move in itertools.product(branches, MOVES)
        ),
        "Δ costs what it does for Δ = 1": all(
            branch.law.cost(delta * move) == branch.law.scaled(Fraction(1) / delta).cost(move)
            for branch, move in itertools.product(branches, MOVES)
        ),
        "the threshold's rise costs its share": 0 < mechanism.threshold_law.cost(delta) <= share,
    }
    for fact, holds in facts.items():
        if not holds:
            raise Violation("budget", f"it is not so that {fact}")
