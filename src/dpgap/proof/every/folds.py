"""The link between one step and a whole stream: `run` and `align` do nothing but steps.

What a step proves holds for every n if `run` is a *fold*: draw what all answers share, then take
one step after another, each from where the last one ended. This is checked on the code that
ships. `run` and `align` are executed with steps that return *marks*. A mark can only be passed
on: any other use of it fails. So marks show where each value goes.

At the head of a loop, the whole state of a function is in its local variables, which are read
there. If they are the same at one head and at the next (except for marks that are passed on),
they are the same at all later heads: each round does the same as the round before it. A variable
with anything else, such as an iterator, is refused; so is code with memory (`memory`). The
iterator of a loop is not in its variables. So there must be one loop, over the answers
themselves, and over nothing else with them.
"""

import dis
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker import programs
from dpgap.proof.checker.numbers import Affine, Exact, Violation
from dpgap.proof.checker.programs import own_names
from dpgap.proof.checker.skeletons import Sealed
from dpgap.proof.every.few_answers import Fixed
from dpgap.proof.every.memory import require_no_memory

if TYPE_CHECKING:
    pass


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


class Opening(NamedTuple):
    """The first draw of a stream, and its coefficients in the values that all steps share."""

    law: Any
    sign: Exact


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
        loops = [step.offset for step in programs.instructions(code) if step.opname == "FOR_ITER"]
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

    def _state_of(self, value: object) -> Any:
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

    def __getitem__(self, index: object) -> Any:
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

    def live(_: Any, used: object) -> bool:
        nonlocal live_rounds
        _require(isinstance(used, Mark) and used.number == len(calls), "run does not stop in time")
        live_rounds += 1
        return live_rounds < last_round

    code = type(mechanism).run.__code__
    loop = RecordedLoop(answers, code, calls)
    for before, instruction in itertools.pairwise(programs.instructions(code)):
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
    names = set(programs.names(code, "GLOBAL", "ATTR", "METHOD"))
    _require(names <= _ALIGNING, "align is more than one loop")
    for step in programs.instructions(code):
        picks = step.opname in ("BINARY_SUBSCR", "BINARY_SLICE", "UNPACK_EX")
        unpacks = step.opname == "UNPACK_SEQUENCE" and step.argval > 3
        asks = "JUMP_IF" in step.opname
        _require(not (asks or picks or unpacks), "align is more than one loop")


def _unknowns(letter: str, count: int) -> tuple[Affine, ...]:
    return tuple(forms.affine(None, {f"{letter}{i}": 1}) for i in range(count))


def _is_used(used: object, number: int) -> bool:
    """Whether these are the units used before a step: 0 before the first."""
    if number == 0:
        return bool(used == 0)
    return _is(used, "used", number)


def _is(value: object, name: str, number: int) -> bool:
    return isinstance(value, Mark) and (value.name, value.number) == (name, number)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _broken(message)


def _broken(message: str) -> Violation:
    return Violation("fold", message)
