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
from functools import partial
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.exact.laws import Law, Scalar
from dpgap.exact.parameters import altered
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, Branch, SparseVector
from dpgap.proof.checker import alignment
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.alignment import Draws, NoiseSource, Replayed, Sealed
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
    has_whole_units: bool = False


def prove_steps(mechanism: Any, kind: str, *, ties: bool) -> list[Theorem]:
    """The theorems about one step of a mechanism with known numbers.

    Beside `run` and `align` it has `step`, `align_step`, `rise` and `live`, as `SparseVector` has
    them, and `capacity` units of `unit` each.
    """
    opening = require_fold(mechanism)
    share = forms.exact(mechanism.epsilon) - mechanism.capacity * forms.exact(mechanism.unit)
    unit = forms.exact(mechanism.unit)
    budget = Budget(opening, share, mechanism.capacity, unit, has_whole_units=True)
    judge = recording(forms.exact(mechanism.epsilon), ties=ties)
    judge.step = getattr(mechanism, "grid", None) or 1
    judge.assume_whole(judge.unknown("used"))
    return [prove_step(type(mechanism).__name__, mechanism, budget, kind, judge)]


def prove_step(name: str, program: Any, budget: Budget, kind: str, judge: "Recording") -> Theorem:
    """One step from any state, as a theorem; raises the first violation.

    On each path: one step, its shifts, and the same step on the neighbour.
    """
    alignment.require_sound(budget.opening.law, judge)
    used = judge.unknown("used")
    judge.assume_everywhere(used >= 0)
    judge.assume_everywhere(used <= budget.capacity)
    answer = judge.unknown("answer")
    other_answers = judge.unknown("rest")
    shared = judge.unknown("shared")
    delta = forms.exact(getattr(program, "sensitivity", 1))
    low, high = DIRECTIONS[kind]
    move = judge.between("move", delta * low, delta * high)
    move_of_others = judge.unknown("others_move")
    if kind != GENERAL:  # all move the same way
        judge.assume_everywhere(move_of_others >= 0 if high else move_of_others <= 0)
    laws: dict[Any, list[Any]] = {}

    def on_path() -> None:
        if used > 0 and not program.live(used):
            return  # the stream has ended
        sum_before = answer + other_answers
        rise = program.rise(sum_before, answer + move + other_answers + move_of_others)
        opening_shift = budget.opening.sign * rise
        _require_opening_paid(budget, opening_shift, judge)
        draws = Draws(judge, [], [])
        outcome, used_after = alignment.collect(
            program.step(used, answer, shared, NoiseSource(draws))
        )
        live = program.live(used)
        skeleton, _ = alignment.take_apart(outcome)
        state = skeleton, live if isinstance(live, int) else bool(live)
        unclear = Violation("draws", "the outcome must tell which draws a step took")
        judge.require(laws.setdefault(state, draws.laws) == draws.laws, unclear)
        judge.begin("align")
        shifts, counted = program.align_step(used, rise - move, alignment.seal(outcome))
        if len(shifts) != len(draws.values):
            raise BadProgram("align_step must return one shift for every draw of its step")
        judge.require(
            _is_free_of_noise(judge, [*shifts, rise]),
            Violation("acyclic", "a shift depends on noise"),
        )
        judge.require_steps([*shifts, opening_shift])
        alignment.require_supported(draws, shifts)
        _require_paid(draws.laws, shifts, (used_after - used) * budget.unit, judge)
        _require_units(budget, used, used_after, judge)
        replayed = Replayed(draws.laws, alignment.moved(draws.values, shifts), [])
        same = alignment.collect(
            program.step(used, answer + move, shared + rise, NoiseSource(replayed))
        )
        alignment.require_same_output((outcome, used_after), same, judge)
        miscounted = Violation("output", "align counts other units")
        judge.require_zero(counted - used_after + 0 * used, miscounted)
        replayed.require_all_taken()

    return judge.proved(f"{name}, {kind}: one step", on_path)


def _require_opening_paid(budget: Budget, shift: Affine, judge: "Recording") -> None:
    """Shifting the shared draw by the rise costs its share at most, and keeps its support."""
    law = budget.opening.law
    over = Violation("cost", "the rise can cost more than its share")
    judge.require_at_most([law], [shift], budget.share, over)
    draw = judge.unknown("shared_draw")
    judge.assume(law.supports(draw))
    unsupported = Violation("support", "the rise takes noise out of its support")
    judge.require(law.supports(draw + shift), unsupported)


def _is_free_of_noise(judge: "Recording", shifts: Sequence[Any]) -> bool:
    """Whether no shift, and no question of the alignment, depends on noise."""
    if any(draws for draws, _ in forms.questions_of(judge.transcript)):
        return False
    return not any(map(forms.draws_of, shifts))


def _require_units(budget: Budget, used: Affine, used_after: Affine, judge: "Recording") -> None:
    """Units are used up, never given back, and within the budget."""
    beyond = Violation("cost", "more units are used than there are")
    judge.require(used_after <= budget.capacity, beyond)
    given_back = Violation("cost", "units that are used can be had back")
    judge.require(used_after - used >= 0, given_back)
    if budget.has_whole_units:
        broken = Violation("cost", "units that are used must be whole numbers")
        judge.require_whole(used_after, broken)


def _require_paid(laws: Sequence[Any], shifts: Sequence[Scalar], paid: Affine, judge: Any) -> None:
    over = Violation("cost", "the shifts can cost more than the units that are used")
    shifted = [
        (law, shift)
        for law, shift in zip(laws, shifts, strict=True)
        if isinstance(shift, Affine) or shift
    ]
    if not any(isinstance(law, Charged) for law, _ in shifted):
        shifted_laws = [law for law, _ in shifted]
        judge.require_at_most(shifted_laws, [shift for _, shift in shifted], paid, over)
        return
    judge.require(len(shifted) == 1, Violation("cost", "a step shifts more than one draw"))
    for law, shift in shifted:  # units times at most 1
        judge.require_at_most([law.at_one], [shift], 1, over)
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
    "run",
    "step",
    "rise",
    "live",
    "align",
    "align_step",
    "__getattr__",  # Python calls these two
    "__getattribute__",
)
_ALIGNING = {"sum", "zip", "rise", "align_step"}
_ROUNDS = 4


class Mark(Sealed):
    """A placeholder for a value that may only be passed on."""

    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number

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


class RecordedLoop:
    """Items for a loop; at each round the local variables of that loop are recorded.

    `done` has one entry for each round that has ended: a loop takes one item for each. Besides
    marks and numbers, local variables may hold the `inputs`.
    """

    def __init__(self, items: Sequence[Any], code: CodeType, done: Sequence[Any]) -> None:
        self.items = items
        self.code = code
        self.done = done
        loops = [step.offset for step in forms.instructions(code) if step.opname == "FOR_ITER"]
        _require(len(loops) == 1, f"{code.co_name} is more than one loop")
        self.loop = loops[0], loops[0] + 2  # some Pythons say where the instruction ends
        self.inputs: list[Any] = [self]
        self.states: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.items):
            _require(len(self.done) == number, "answers are not taken one by one")
            frame = sys._getframe(1)
            if frame.f_code is self.code and frame.f_lasti in self.loop:
                variables = frame.f_locals.items()
                self.states.append({name: self._state_of(value) for name, value in variables})
            yield item

    def require_same(self, method: str) -> None:
        """Raise a violation unless all rounds but the first begin alike."""
        if len(self.states) < _ROUNDS or any(s != self.states[1] for s in self.states[2:]):
            raise _broken(f"{method} does not do the same with every answer")

    def _state_of(self, value: Any) -> Any:
        """A local variable in a form that is equal in every round: a mark by its age."""
        if any(value is part for part in self.inputs):
            return "given"
        if isinstance(value, Mark):
            return value.name, len(self.states) - value.number
        if isinstance(value, Affine):
            terms = {}
            for name, factor in forms.terms_of(value).items():
                is_answer = isinstance(name, str) and name.startswith("q")
                if not is_answer:
                    terms[name] = factor
            return "a number", terms, forms.constant_of(value)
        if value is None or isinstance(value, int | Fraction):
            return value
        if isinstance(value, list | tuple):
            return [self._state_of(item) for item in value]
        raise _broken(f"a loop keeps a {type(value).__name__}, which can hide what it counts")


def _opaque(mechanism: Any, **methods: Callable[..., Any]) -> Any:
    """A copy of the mechanism with these methods in place of its own."""
    kind = type(mechanism)
    copy: Any = object.__new__(type(kind.__name__, (kind,), {"__slots__": (), **methods}))
    for name in own_names(mechanism):
        object.__setattr__(copy, name, getattr(mechanism, name))
    return copy


class MarkedBranch:
    """A branch that all answers clear, or none. Its law and its number may only be passed on."""

    def __init__(self, number: int, *, cleared: bool) -> None:
        self.law = Mark("law", number)
        self.number = Mark("branch", number)
        self.margin = -1 if cleared else 1
        self.units = forms.affine(None, {f"units {number}": 1})


class MarkedBranches(tuple[MarkedBranch, ...]):
    """Branches whose loop is recorded."""

    loop: RecordedLoop

    def __getitem__(self, index: Any) -> Any:
        is_all = index == slice(None, _ROUNDS, None)
        _require(is_all, "a step does not try all that are live")
        return self.loop


def _until_loop(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions before the first loop: they make the iterable of the loop."""
    before = itertools.takewhile(lambda step: step.opname != "FOR_ITER", dis.get_instructions(code))
    return [(step.opname, step.argval) for step in before]


def require_loop(mechanism: Any) -> None:
    """Raise a violation unless a step does the same with every branch, cleared or not.

    It goes through the branches themselves, as the shipped step does: `zip` or a generator could
    hold a state that no variable shows.
    """
    begins = _until_loop(type(mechanism).step.__code__) == _until_loop(SparseVector.step.__code__)
    _require(begins, "a step must begin with its loop, over self.every_branch[: self.live(used)]")
    for cleared in range(_ROUNDS + 1):
        _require_branch_loop(mechanism, cleared)


def _require_branch_loop(mechanism: Any, cleared: int) -> None:
    """Go through one step in which this branch is cleared; the last number stands for none."""
    noise = Fixed(itertools.repeat(0), [])
    used = forms.affine(None, {"used": 1})
    branches = MarkedBranches(MarkedBranch(i, cleared=i == cleared) for i in range(_ROUNDS))
    loop = RecordedLoop(tuple(branches), type(mechanism).step.__code__, noise.laws)
    branches.loop = loop
    copy = _opaque(mechanism, live=lambda _, used: _ROUNDS)
    object.__setattr__(copy, "every_branch", branches)
    loop.inputs += [copy, noise, used, *branches]
    outcome, used_after = copy.step(used, 0, 0, noise)
    are_marks = all(isinstance(law, Mark) for law in noise.laws)
    _require(are_marks, "a step draws noise that is no branch's")
    if cleared == _ROUNDS:
        is_nothing = all(part is None for part in outcome) and used_after is used
        _require(is_nothing, "to clear no branch uses units")
        loop.require_same("a step")
    else:
        branch, gap = outcome
        is_cleared = _is(branch, "branch", cleared) and isinstance(gap, int) and gap == 0
        _require(is_cleared, "a step does not say the branch that is cleared, and its gap")
        expected = {"used": 1, f"units {cleared}": 1}, 0
        is_paid = isinstance(used_after, Affine) and forms.form_of(used_after) == expected
        _require(is_paid, "a step does not use the units of what is cleared")
    tried = list(range(min(cleared + 1, _ROUNDS)))
    drawn_branches = [law.number for law in noise.laws]
    _require(drawn_branches == tried, "a step does not draw once for each branch tried")


def _require_run(mechanism: Any, *, ends: bool) -> Opening:
    """Go through `run` until nothing is live, or until there are no more answers (`ends`)."""
    answer_count = _ROUNDS + (1 if ends else 2)
    answers = [Mark("answer", i) for i in range(answer_count)]
    noise = Fixed((forms.affine(None, {number: 1}) for number in itertools.count()), [])
    calls: list[Any] = []
    live_rounds = 0
    last_round = _ROUNDS + (2 if ends else 1)

    def step(_: Any, *arguments: Any) -> tuple[Mark, Mark]:
        calls.append(arguments)
        return Mark("outcome", len(calls)), Mark("used", len(calls))

    def live(_: Any, used: Any) -> bool:
        nonlocal live_rounds
        _require(isinstance(used, Mark) and used.number == len(calls), "run does not stop in time")
        live_rounds += 1
        return live_rounds < last_round

    code = type(mechanism).run.__code__
    loop = RecordedLoop(answers, code, calls)
    for before, instruction in itertools.pairwise(forms.instructions(code)):
        is_plain = "LOAD_FAST" in before.opname and not instruction.is_jump_target
        is_loop = instruction.opname == "GET_ITER"
        _require(is_plain or not is_loop, "run goes through more than its answers")
    program = _opaque(mechanism, step=step, live=live)
    loop.inputs += [program, noise]
    outcomes = list(program.run(loop, noise))
    loop.require_same("run")
    _require(len(outcomes) == len(calls) == _ROUNDS + 1, "run does not stop when nothing is live")
    shared = calls[0][2]
    for number, (used, answer, shared_again, source) in enumerate(calls):
        _require(_is_used(used, number), "a step of run does not begin where the last one ended")
        _require(answer is answers[number], "run does not take answers as they come")
        is_shared = shared_again is shared and source is noise
        _require(is_shared, "steps of run do not share the same draws")
        is_outcome = _is(outcomes[number], "outcome", number + 1)
        _require(is_outcome, "run does not say what steps say")
    is_draw = isinstance(shared, Affine) and forms.terms_of(shared) in ({0: 1}, {0: -1})
    _require(is_draw and len(noise.laws) == 1, "run does not begin with one draw that steps share")
    return Opening(noise.laws[0], forms.terms_of(shared)[0])


def _require_align(mechanism: Any, opening: Opening) -> None:
    code = type(mechanism).align.__code__
    _require_plain_loop(code)
    # More answers than outcomes: a stream may end before its answers do.
    answers = _unknowns("q", _ROUNDS + 1)
    neighbour = _unknowns("q'", _ROUNDS + 1)
    outcomes = [Mark("outcome", i) for i in range(_ROUNDS)]
    calls: list[Any] = []

    def align_step(_: Any, *arguments: Any) -> tuple[list[Mark], Mark]:
        calls.append(arguments)
        return [Mark("shift", len(calls))], Mark("used", len(calls))

    def rise(_: Any, *arguments: Any) -> Affine:
        sums = [forms.form_of(sum(answers)), forms.form_of(sum(neighbour))]
        is_sums = list(map(forms.form_of, arguments)) == sums
        _require(is_sums, "align does not sum up all answers")
        return forms.affine(None, {"rise": 1})

    loop = RecordedLoop(outcomes, code, calls)
    program = _opaque(mechanism, align_step=align_step, rise=rise)
    noise = Sealed()
    loop.inputs += [program, noise, answers, neighbour]
    shifts = list(program.align(answers, neighbour, noise, loop))
    loop.require_same("align")
    _require(len(calls) == _ROUNDS, "align does not take one step for each outcome")
    opening_terms, _ = forms.form_of(shifts[0])
    _require(opening_terms == {"rise": opening.sign}, "align does not begin with the rise")
    for number, (used, move, outcome) in enumerate(calls):
        _require(_is_used(used, number), "a step of align does not begin where the last one ended")
        expected = {"rise": 1, f"q{number}": 1, f"q'{number}": -1}, 0
        is_move = isinstance(move, Affine) and forms.form_of(move) == expected
        _require(is_move, "align does not make up for the rise and the answer's own change")
        _require(outcome is outcomes[number], "align does not take outcomes as they come")
        _require(_is(shifts[number + 1], "shift", number + 1), "align loses shifts")
    _require(len(shifts) == _ROUNDS + 1, "align adds shifts")


def _require_plain_loop(code: CodeType) -> None:
    """Refuse an alignment that asks something or names a place: it could count answers."""
    names = set(forms.names(code, "GLOBAL", "ATTR", "METHOD"))
    _require(names <= _ALIGNING, "align is more than one loop")
    for step in forms.instructions(code):
        picks = step.opname in ("BINARY_SUBSCR", "BINARY_SLICE", "UNPACK_EX")
        unpacks = step.opname == "UNPACK_SEQUENCE" and step.argval > 3
        asks = "JUMP_IF" in step.opname
        _require(not (asks or picks or unpacks), "align is more than one loop")


def _unknowns(letter: str, count: int) -> tuple[Affine, ...]:
    return tuple(forms.affine(None, {f"{letter}{i}": 1}) for i in range(count))


def _is_used(used: Any, number: int) -> bool:
    """Whether these are the units used before a step: 0 before the first."""
    if number == 0:
        return bool(used == 0)
    return _is(used, "used", number)


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
_SHARES = (Fraction(2, 7), Fraction(1, 7), Fraction(5, 7))
_SIZES = (1, 2, 3, 5)

StreamMaker = Callable[..., SparseVector]
"""Makes a mechanism from k, the threshold's share and, if it is adaptive, its branches."""


def prove_stream(make: StreamMaker, kind: str) -> list[Theorem]:
    """The theorems about one step; raises a violation if something does not hold.

    Each number is a quotient of polynomials of low degree in k, the share, ε and Δ. So a few values
    of these are enough. They are looked at in grid steps, as a release takes them.
    """
    sample = make(k=2, threshold_share=_HALF)
    _require_steps(sample)
    if not isinstance(sample, AdaptiveSparseVector):
        _require_all_numbers(make, _SIZES, _SHARES)
        return [_prove(sample, kind)]
    for branches, drain in itertools.product(range(1, _MOST_BRANCHES + 1), (False, True)):
        make_shape = partial(make, branches=branches, drain=drain)
        if branches <= _BRANCHES:
            _require_all_numbers(make_shape, _SIZES, _SHARES)
        else:
            _require_all_numbers(make_shape, (3,), _SHARES[:1])
    # Limits are unknown, so a step that drains is a step like any other.
    return [
        _prove(make(k=2, threshold_share=_HALF, branches=branches), kind)
        for branches in range(1, _BRANCHES + 1)
    ]


def _require_all_numbers(
    make: StreamMaker, sizes: Sequence[int], shares: Sequence[Fraction]
) -> None:
    """Raise a violation unless numbers are right for these k and shares, also in other units."""
    variants: tuple[StreamMaker, ...] = (
        make,
        partial(make, epsilon=Fraction(7, 3), sensitivity=3),
        partial(make, sensitivity=Fraction(4, 3), grid=Fraction(1, 4)),
    )
    for k, share, variant in itertools.product(sizes, shares, variants):
        require_numbers(variant(k=k, threshold_share=share).in_steps())


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
    fewest_units: Any = 1
    for branch in mechanism.every_branch:
        units: Any = judge.unknown(f"units_{branch.number}")
        margin = judge.unknown(f"margin_{branch.number}")
        limit = judge.unknown(f"limit_{branch.number}")
        judge.assume_everywhere(units >= fewest_units)
        judge.assume_everywhere(limit + units <= capacity)
        if limits:
            judge.assume_everywhere(limit <= limits[-1])
        law: Any = Charged(_at_one(branch), units)
        branches.append(branch._replace(units=units, margin=margin, law=law))
        limits.append(limit)
        fewest_units = units
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
    branches = mechanism.every_branch
    share = mechanism.threshold_share * mechanism.epsilon
    all_units = mechanism.capacity * mechanism.unit
    numbers = [branch.number for branch in branches]
    _require_fact(
        share + all_units == mechanism.epsilon, "all units and the threshold's share are ε"
    )
    _require_fact(numbers == list(range(1, len(branches) + 1)), "branches are numbered")
    _require_fact(branches[0].units >= 1, "each uses a unit at least")
    for (cheaper, limit), (dearer, next_limit) in itertools.pairwise(
        zip(branches, mechanism.limits, strict=True)
    ):
        _require_fact(
            cheaper.units <= dearer.units and limit >= next_limit,
            "dearer branches come later and are given up first",
        )
    for branch, limit in zip(branches, mechanism.limits, strict=True):
        _require_fact(limit + branch.units <= mechanism.capacity, "what is tried can be paid")
        _require_branch_numbers(mechanism, branch)
    rise_cost = mechanism.threshold_law.cost(mechanism.sensitivity)
    _require_fact(0 < rise_cost <= share, "the threshold's rise costs its share")


def _require_branch_numbers(mechanism: SparseVector, branch: Branch) -> None:
    """Raise a violation unless a branch's charge fits its units, and its noise fits its charge."""
    delta = mechanism.sensitivity
    doubled = 1 if mechanism.monotonic else 2
    law = branch.law
    _require_fact(branch.charge == branch.units * mechanism.unit, "a charge is so many units")
    _require_fact(
        law.scale * branch.charge == doubled * delta,
        "a branch's noise is inverse to its charge",
    )
    for move in MOVES:
        _require_fact(
            law.cost(move) == _at_one(branch).cost(move) * branch.charge,
            "a cost is inverse to the scale",
        )
        _require_fact(
            law.cost(delta * move) == law.scaled(Fraction(1) / delta).cost(move),
            "Δ costs what it does for Δ = 1",
        )


def _require_fact(holds: bool, fact: str) -> None:
    if not holds:
        raise Violation("budget", f"it is not so that {fact}")
