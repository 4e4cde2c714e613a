"""The link between one step and a whole stream: `run` and `align` do nothing but steps.

What a step proves holds for every n if `run` is a *fold*: draw what all answers share, then take
one step after another, each from where the last one ended. This is checked on the code that ships.
`run` and `align` are executed with steps that return *marks*. A mark can be handed on and nothing
else: any other use of it fails. So it shows where each value goes.

At the head of its loop, Python keeps all that a function knows in its local variables. They are
looked at there. If they are the same at one head as at the next, up to marks that are handed on, so
they are at all later heads: each round does what the round before it did. A variable that holds
anything else, such as an iterator, is refused, and so is code that remembers (`memory`).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from types import CodeType
from typing import Any, NamedTuple

from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.families import Sealed
from dpgap.proof.checker.numbers import Affine, Exact, Violation
from dpgap.proof.every.memory import require_no_memory

_METHODS = ("run", "step", "rise", "live")
_ROUNDS = 4


class Mark(Sealed):
    """Stands for a value that may be handed on, and nothing else."""

    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def _refuse(self, *_: object) -> Any:
        raise _broken(f"the program looks into {self}, which only a step may do")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __bool__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.name} {self.number}"


class Opening(NamedTuple):
    """The draw that a stream begins with, and how often it is in what all its steps share."""

    law: Any
    sign: Exact


def require_fold(mechanism: Any) -> Opening:
    """Raise a violation unless `run` and `align` are folds of steps; what `run` begins with."""
    require_no_memory(mechanism, _METHODS)
    opening = _require_run(mechanism, ends=False)
    _require_run(mechanism, ends=True)
    _require_align(mechanism, opening)
    return opening


class _Heads:
    """Something to go through, that looks at the loop it is gone through by at each round.

    `done` says how many rounds have been: a loop takes one item for each. Besides marks and
    numbers, local variables may hold what is `given`.
    """

    def __init__(self, items: Sequence[Any], code: CodeType, done: Sequence[Any]) -> None:
        self.items, self.code, self.done = items, code, done
        self.given: list[Any] = [self]
        self.seen: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.items):
            _require(len(self.done) == number, "answers are not taken one by one")
            frame = sys._getframe(1)
            if frame.f_code is self.code:
                self.seen.append({name: self._seen(each) for name, each in frame.f_locals.items()})
            yield item

    def require_same(self, what: str) -> None:
        """Raise a violation unless all rounds but the first begin alike."""
        if len(self.seen) < _ROUNDS or any(head != self.seen[1] for head in self.seen[2:]):
            raise _broken(f"{what} does not do the same with every answer")

    def _seen(self, value: Any) -> Any:
        """A variable as it looks at the head of a round: how long ago a mark was made, say."""
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
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else vars(mechanism)
    for name in names:
        object.__setattr__(copy, name, getattr(mechanism, name))
    return copy


class _Drawn:
    """Noise that only what a stream begins with may be drawn from."""

    def __init__(self) -> None:
        self.laws: list[Any] = []

    def draw(self, law: Any) -> Affine:
        """The next draw."""
        self.laws.append(law)
        return forms.affine(None, {len(self.laws) - 1: 1})


class _Way:
    """A branch that no answer clears, or that all do. What it is may be handed on only."""

    def __init__(self, number: int, *, cleared: bool) -> None:
        self.law, self.number = Mark("law", number), Mark("branch", number)
        self.margin = -1 if cleared else 1
        self.units = forms.affine(None, {f"units {number}": 1})


class _Ways(tuple[_Way, ...]):
    """Branches that look at the loop they are gone through by."""

    heads: "_Heads"

    def __getitem__(self, at: Any) -> Any:
        _require(at == slice(None, _ROUNDS, None), "a step does not try all that are live")
        return self.heads


class _Zeros:
    """Noise that is always zero."""

    def __init__(self) -> None:
        self.laws: list[Any] = []

    def draw(self, law: Any) -> int:
        """Zero."""
        _require(isinstance(law, Mark), "a step draws noise that is no branch's")
        self.laws.append(law)
        return 0


def require_loop(mechanism: Any) -> None:
    """Raise a violation unless a step does the same with every branch, cleared or not."""
    for cleared in range(_ROUNDS + 1):
        noise, used = _Zeros(), forms.affine(None, {"used": 1})
        ways = _Ways(_Way(at, cleared=at == cleared) for at in range(_ROUNDS))
        ways.heads = _Heads(tuple(ways), type(mechanism).step.__code__, noise.laws)
        copy = _opaque(mechanism, live=lambda _, used: _ROUNDS)
        object.__setattr__(copy, "ways", ways)
        ways.heads.given += [copy, noise, used, *ways]
        outcome, then = copy.step(used, 0, 0, noise)
        drawn = [law.number for law in noise.laws]
        if cleared == _ROUNDS:
            none = all(part is None for part in outcome) and then is used
            _require(none, "to clear no branch uses units")
            ways.heads.require_same("a step")
        else:
            _require_cleared(outcome, then, cleared)
        tried = list(range(min(cleared + 1, _ROUNDS)))
        _require(drawn == tried, "a step does not draw once for each branch tried")


def _require_cleared(outcome: Any, then: Any, number: int) -> None:
    branch, gap = outcome
    same = _is(branch, "branch", number) and isinstance(gap, int) and gap == 0
    _require(same, "a step does not say the branch that is cleared, and its gap")
    paid = isinstance(then, Affine) and forms.terms_of(then) == {"used": 1, f"units {number}": 1}
    _require(
        paid and not forms.constant_of(then), "a step does not use the units of what is cleared"
    )


def _require_run(mechanism: Any, *, ends: bool) -> Opening:
    """Go through `run` until nothing is live, or until there are no more answers (`ends`)."""
    answers = [Mark("answer", i) for i in range(_ROUNDS + (1 if ends else 2))]
    noise, calls, left = _Drawn(), [], [_ROUNDS + (2 if ends else 1)]

    def step(_: Any, *given: Any) -> tuple[Mark, Mark]:
        calls.append(given)
        return Mark("outcome", len(calls)), Mark("used", len(calls))

    def live(_: Any, used: Any) -> bool:
        _require(isinstance(used, Mark) and used.number == len(calls), "run does not stop in time")
        left[0] -= 1
        return left[0] > 0

    heads = _Heads(answers, type(mechanism).run.__code__, calls)
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
    sides = [_answers(name) for name in ("q", "q'")]
    output = tuple(Mark("outcome", i) for i in range(_ROUNDS))
    calls: list[Any] = []

    def align_step(_: Any, *given: Any) -> tuple[list[Mark], Mark]:
        calls.append(given)
        return [Mark("shift", len(calls))], Mark("used", len(calls))

    def rise(_: Any, *given: Any) -> Affine:
        exact = len(given) == 2 and all(
            a is b for a, b in zip(given, (heads, sides[1]), strict=True)
        )
        _require(exact, "align does not look at all answers")
        return forms.affine(None, {"rise": 1})

    heads = _Heads(sides[0], type(mechanism).align.__code__, calls)
    program, noise = _opaque(mechanism, align_step=align_step, rise=rise), Sealed()
    heads.given += [program, noise, sides[1], output]
    shifts = list(program.align(heads, sides[1], noise, output))
    heads.require_same("align")
    _require(len(calls) == _ROUNDS, "align does not take one step for each outcome")
    _require(
        forms.form_of(shifts[0])[0] == {"rise": opening.sign}, "align does not begin with the rise"
    )
    for number, (used, move, outcome) in enumerate(calls):
        last = used == 0 if number == 0 else _is(used, "used", number)
        _require(last, "a step of align does not begin where the last one ended")
        wanted = {"rise": 1, f"q{number}": 1, f"q'{number}": -1}
        same = (
            isinstance(move, Affine)
            and forms.terms_of(move) == wanted
            and not forms.constant_of(move)
        )
        _require(same, "align does not make up for the rise and the answer's own change")
        _require(outcome is output[number], "align does not take outcomes as they come")
        _require(_is(shifts[number + 1], "shift", number + 1), "align loses shifts")
    _require(len(shifts) == _ROUNDS + 1, "align adds shifts")


def _answers(name: str) -> tuple[Affine, ...]:
    """More answers than outcomes: a stream may end before its answers do."""
    return tuple(forms.affine(None, {f"{name}{i}": 1}) for i in range(_ROUNDS + 1))


def _is(value: Any, name: str, number: int) -> bool:
    return isinstance(value, Mark) and (value.name, value.number) == (name, number)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _broken(message)


def _broken(message: str) -> Violation:
    return Violation("fold", message)
