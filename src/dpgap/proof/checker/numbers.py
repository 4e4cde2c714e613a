"""The numbers with which a program runs during a proof: affine forms of unknowns.

An unknown is an answer, a public parameter or a draw of noise. Sums of them and multiples by
known numbers are all that selection mechanisms compute. So every number in a run is an exact
affine form, and every question that a program asks is whether such a form is negative. A *path*
answers it: at one point, or on all branches in turn.

Noise is named by the number of its draw, everything else by a word.
"""

import collections
import dataclasses
import dis
import itertools
import math
import reprlib
import signal
import sys
import threading
from array import array
from collections import deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NoReturn

import numpy as np

Exact = int | Fraction
Unknown = int | str


_LAST = threading.local()
"""The last `BadProgram` of this thread."""


class BadProgram(Exception):  # noqa: N818 - it says what is wrong with the program
    """The program cannot be judged; the message says why."""

    __module__ = "dpgap.proof"

    def __init__(self, *message: object) -> None:
        super().__init__(*message)
        _LAST.refusal = self


class BadNoise(ValueError):  # noqa: N818 - as the two beside it
    """The noise given for a check is not what the program draws."""


class Violation(Exception):  # noqa: N818 - a finding, not a fault
    """A condition of the proof that does not hold."""

    __module__ = "dpgap.proof"

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.message = message


def exact(value: Any) -> Exact:
    """A known number as an exact one; a float means the binary number that it is."""
    kind = type(value)  # a subclass from the program could compute anything
    if kind is int or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is Fraction:
        if value.denominator == 1:
            return value.numerator  # type: ignore[no-any-return]
        return value  # type: ignore[no-any-return]
    if kind is float or kind is Decimal:
        if not math.isfinite(value):
            raise BadProgram(f"the program computes with {value}, which is not a number to compare")
        return Fraction(value)
    if vars(np).get(kind.__name__) is kind:
        return exact(value.item())
    raise BadProgram(f"the program computes with a {type(value).__name__}, which is not a number")


class HiddenSlot:
    """Reads and writes a slot of objects that programs see; programs cannot.

    The objects' class loses the name of the slot, so no attribute leads to its content.
    """

    __slots__ = ("read", "write")

    def __init__(self, kind: type, slot: str) -> None:
        descriptor = vars(kind)[slot]
        self.read = descriptor.__get__
        self.write = descriptor.__set__
        delattr(kind, slot)


def _refuse_text(*_: object) -> NoReturn:
    raise BadProgram("the program makes text of an unknown: a proof knows no digits of it")


_ONLY = "only sums, multiples by known numbers and comparisons can be proved"


class Affine:
    """A constant and a multiple of each unknown; programs may only compute with it."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("constant", "path", "terms")

    def __init__(self, *_: object) -> None:
        raise BadProgram("the program makes a number of its own: it may use those that it is given")

    def __init_subclass__(cls) -> None:
        raise BadProgram("the program makes a kind of number of its own")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BadProgram("the program changes a number in place: noise and answers are given")

    def __deepcopy__(self, _: object) -> "Affine":
        return self

    def __add__(self, other: Any) -> "Affine":
        path = _PATH.read(self)
        if not isinstance(other, Affine):
            return affine(path, terms_of(self), constant_of(self) + exact(other))
        if path is not _PATH.read(other):
            raise BadProgram("the program computes with numbers that it kept from another proof")
        terms = dict(terms_of(self))
        for unknown, factor in terms_of(other).items():
            total = terms.get(unknown, 0) + factor
            if total:
                terms[unknown] = total
            else:
                del terms[unknown]
        return affine(path, terms, constant_of(self) + constant_of(other))

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return self * -1

    def __pos__(self) -> "Affine":
        return self

    def __sub__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            return self + -other
        return self + -exact(other)

    def __rsub__(self, other: Any) -> "Affine":
        return Affine.__add__(-self, other)

    def __mul__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if not terms_of(self):
                return other * constant_of(self)
            if not terms_of(other):
                return self * constant_of(other)
            unknowns = f"({in_symbols(self)}) and ({in_symbols(other)})"
            raise BadProgram(f"the program multiplies two unknowns, {unknowns}: {_ONLY}")
        factor = exact(other)
        terms: dict[Unknown, Exact] = {}
        if factor:
            terms = {unknown: by * factor for unknown, by in terms_of(self).items()}
        return affine(_PATH.read(self), terms, constant_of(self) * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if terms_of(other):
                raise BadProgram(f"the program divides by an unknown, ({in_symbols(other)})")
            other = constant_of(other)
        return self * (1 / Fraction(exact(other)))

    def __rtruediv__(self, other: Any) -> "Affine":
        return affine(_PATH.read(self), {}, exact(other)) / self

    def __abs__(self) -> "Affine":
        return -self if self < 0 else self

    def __lt__(self, other: Any) -> "Condition":
        return Condition(self - other, expected=True)

    def __ge__(self, other: Any) -> "Condition":
        return Condition(self - other, expected=False)

    def __gt__(self, other: Any) -> "Condition":
        return Condition(other - self, expected=True)

    def __le__(self, other: Any) -> "Condition":
        return Condition(other - self, expected=False)

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, str | tuple | list):
            return False
        difference = self - other
        return not (difference < 0) and not (difference > 0)

    def __bool__(self) -> bool:
        return self != 0

    def _refuse(self, *_: object) -> NoReturn:
        raise BadProgram(f"the program rounds an unknown or turns it into a float: {_ONLY}")

    __float__ = __int__ = __round__ = __floor__ = __ceil__ = __trunc__ = _refuse
    __pow__ = __rpow__ = __mod__ = __floordiv__ = __index__ = _refuse

    __repr__ = __str__ = __format__ = _refuse_text


_TERMS = HiddenSlot(Affine, "terms")
_CONSTANT = HiddenSlot(Affine, "constant")
_PATH = HiddenSlot(Affine, "path")
terms_of: Callable[[Affine], Mapping[Unknown, Exact]] = _TERMS.read
constant_of: Callable[[Affine], Exact] = _CONSTANT.read


def affine(path: Any, terms: Mapping[Unknown, Exact], constant: Exact = 0) -> Affine:
    """A new number, whose questions this path answers."""
    number = object.__new__(Affine)
    _TERMS.write(number, terms)
    _CONSTANT.write(number, constant)
    _PATH.write(number, path)
    return number


def in_symbols(value: Any) -> str:
    """A number, or a tuple or a list of numbers, as text for messages of the checker."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(in_symbols, value))})"
    if not isinstance(value, Affine):
        return repr(value)
    text = ""
    for unknown, factor in terms_of(value).items():
        text += _summand(factor, noise_name(unknown) if isinstance(unknown, int) else unknown)
    constant = constant_of(value)
    if constant:
        text += _summand(constant)
    if text.startswith(" - "):
        return "-" + text.removeprefix(" - ")
    return text.removeprefix(" + ") or "0"


def _summand(factor: Exact, name: str = "") -> str:
    """A multiple of an unknown, or a constant, with its sign before it."""
    sign = "-" if factor < 0 else "+"
    size = abs(factor)
    if not name:
        return f" {sign} {size}"
    return f" {sign} {name}" if size == 1 else f" {sign} {size}·{name}"


def draws_of(number: Any) -> set[int]:
    """The draws of noise that a number depends on."""
    if not isinstance(number, Affine):
        return set()
    return {unknown for unknown in terms_of(number) if isinstance(unknown, int)}


def form_of(number: Any) -> tuple[Mapping[Unknown, Exact], Exact]:
    """The terms and the constant of a number: equal for equal numbers."""
    if not isinstance(number, Affine):
        return {}, exact(number)
    return terms_of(number), constant_of(number)


def questions_of(transcript: Sequence[tuple[Any, bool]]) -> list[tuple[set[int], bool]]:
    """For each question the draws that it is about, and the answer."""
    questions = []
    for (terms, _), answer in transcript:
        draws = {unknown for unknown in terms if isinstance(unknown, int)}
        questions.append((draws, answer))
    return questions


def renamed(form: Any, names: Mapping[Unknown, Unknown]) -> Any:
    """A form with other names for some unknowns."""
    terms, constant = form
    return {names.get(unknown, unknown): by for unknown, by in terms.items()}, constant


def in_terms(number: Any, values: Mapping[Unknown, Affine]) -> Any:
    """A number with other numbers in place of some unknowns."""
    if not isinstance(number, Affine):
        return number
    terms = terms_of(number)
    other_terms = {unknown: factor for unknown, factor in terms.items() if unknown not in values}
    total = affine(_PATH.read(number), other_terms, constant_of(number))
    for unknown, factor in terms.items():
        if unknown in values:
            total = total + values[unknown] * factor
    return total


def noise_name(draw: int) -> str:
    """The name of a draw in messages."""
    return f"η{draw}"


class Condition:
    """A question about a form: is it negative? Asking for its truth asks the path."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("expected", "form")

    def __init__(self, form: Affine, expected: bool) -> None:
        _FORM.write(self, form)
        _EXPECTED.write(self, expected)

    def __bool__(self) -> bool:
        form = asked_form(self)
        if terms_of(form):
            negative = _PATH.read(form).is_negative(form)
        else:
            negative = constant_of(form) < 0
        return negative is expected_answer(self)

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __repr__ = __str__ = __format__ = _refuse_text


_FORM = HiddenSlot(Condition, "form")
_EXPECTED = HiddenSlot(Condition, "expected")
asked_form: Callable[[Condition], Affine] = _FORM.read
expected_answer: Callable[[Condition], bool] = _EXPECTED.read


# --------------------------------------------------------------------------------------------------
# Run a user's program with a time limit, and report its errors.


class Stop(Exception):  # noqa: N818 - not a fault: passes through the program under proof
    """Raised through the program to leave it; never shown."""


@contextmanager
def guarded(part: str, seconds: float) -> Iterator[None]:
    """Run a part of the program. If it fails or never stops, a `BadProgram` says so.

    A signal ends a program that never stops. So there is a time limit only in the main thread, and
    only on systems with timers.
    """
    in_main = threading.current_thread() is threading.main_thread()
    limit: AbstractContextManager[None] = nullcontext()
    if in_main and hasattr(signal, "setitimer"):
        message = f"{part} never stops: it was still running after {seconds:g} s"
        limit = _deadline(message, seconds)
    try:
        with limit:
            yield
    except (BadNoise, BadProgram, Violation, Stop):
        raise
    except RecursionError:
        raise BadProgram(f"{part} never stops: it calls itself without end") from None
    except Exception as error:
        raise BadProgram(f"{part} failed: {type(error).__name__}: {error}") from error


@contextmanager
def _deadline(message: str, seconds: float) -> Iterator[None]:
    armed = True

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise BadProgram(message)

    before = signal.signal(signal.SIGALRM, ring)
    time_left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, time_left)
        signal.signal(signal.SIGALRM, before)


def instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions of the code, and of all code inside it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from instructions(constant)


def names(code: CodeType, *kinds: str) -> list[str]:
    """The names that the code, or code inside it, loads by instructions of these kinds."""
    return [
        str(instruction.argval)
        for instruction in instructions(code)
        if instruction.opname.startswith("LOAD_") and instruction.opname.endswith(kinds)
    ]


def peeking(code: CodeType) -> set[str]:
    """Names in code that could distinguish an unknown from a number: class, identity, errors."""
    opnames = {instruction.opname for instruction in instructions(code)}
    suspects = {_PEEKING[opname] for opname in opnames & _PEEKING.keys()}
    for before, instruction in itertools.pairwise(instructions(code)):
        is_with_none = before.opname == "LOAD_CONST" and before.argval in (None, ...)
        if instruction.opname == "IS_OP" and (instruction.is_jump_target or not is_with_none):
            suspects.add("is")
    return suspects


_PEEKING = {"PUSH_EXC_INFO": "try", "MATCH_CLASS": "match"}
SEEING = {
    "isinstance",
    "issubclass",
    "type",
    "hasattr",
    "callable",
    "id",
    "is_",
    "is_not",
    "isscalar",
    # They hide what they do.
    "format",
    "format_map",
    "attrgetter",
    "methodcaller",
    "KeyWrapper",
    "random",
    "default_rng",
    # An unknown is an object to NumPy.
    "dtype",
    "isrealobj",
    "iscomplexobj",
    "isdtype",
    "issubdtype",
    "can_cast",
    "common_type",
    "result_type",
    "min_scalar_type",
    "typename",
}
"""Names of functions that could distinguish an unknown from a number, or that draw noise."""
_OUTSIDE = set(
    "gc sys inspect ctypes importlib pickle json reprlib "
    "random secrets uuid time datetime os posix nt".split()
)
"""Modules that do more than compute."""
_TOOLS = _OUTSIDE | {"builtins", "types"}
REACHING = set(
    "eval exec compile globals locals vars __import__ breakpoint getattr setattr delattr "
    "__deepcopy__ __reduce__ __reduce_ex__ __getstate__ __setstate__".split()
)
"""Names of functions that reach what is hidden; or that say what a copy is, which is proved."""
_HIDDEN = ("__", "f_", "gi_")
_PLAIN = {"__getitem__", "__init__", "__name__"}
_OURS = set(
    "dpgap builtins collections dataclasses decimal fractions itertools numpy typing".split()
)
_VALUES = {int, bool, float, complex, str, bytes, Fraction, Decimal, type(None)}
_COMPILED = type(len), type(str.format), type(object.__repr__), type("".__repr__)
"""The types of functions and methods that are not written in Python."""


def require_open(mechanism: Any, copy: Any) -> list[Any]:
    """Refuse a user's code that manipulates the checker, or can see that it is being proved.

    This reads functions, classes and objects, and all that they name or hold; not the code of
    dpgap, nor the code that made `copy`, because this ran before. It returns a record in which
    every change of these objects shows. An iterator does not show its position: it counts as
    changed.
    """
    waiting = [mechanism, copy]
    record: list[Any] = []
    read_parts: dict[int, Any] = {}
    for base in type(copy).__mro__:
        constructor = vars(base).get("__init__")
        if constructor:
            read_parts[id(constructor)] = constructor
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in _VALUES:
            record.append(part)
        elif hasattr(kind, "__next__"):
            record.append(object())  # it equals nothing
        else:
            record.append(kind)
        if kind is Affine:
            record += form_of(part)
        if id(part) not in read_parts and kind not in _VALUES:
            read_parts[id(part)] = part  # as long as it is here, no other part has its id
            require_from_known_places(part)
            waiting += _contents(part)
    return record


def require_from_known_places(part: Any) -> None:
    """Refuse modules, and objects from modules, that are not on the list of allowed ones."""
    module = _module_of(part)
    root = module.partition(".")[0]
    refused = {root} & _OUTSIDE
    if root in sys.stdlib_module_names:  # under whatever name the program knows it
        has_name = isinstance(part, (type, *_COMPILED))
        name = part.__name__ if has_name else type(part).__name__
        refused |= {name} & (SEEING | REACHING) or _hidden({name})
    reaches = module in _TOOLS or module.startswith("dpgap.proof")
    if module.startswith("numpy.random") or (reaches and isinstance(part, ModuleType)):
        refused |= {module}
    _require_none(refused, "the program")


def _hidden(names: Set[str]) -> set[str]:
    """The names of what Python keeps to itself."""
    return {name for name in names if name.startswith(_HIDDEN)} - _PLAIN


def _module_of(part: Any) -> str:
    attribute = "__name__" if isinstance(part, ModuleType) else "__module__"
    return str(getattr(part, attribute, None) or type(part).__module__)


def _require_none(refused: Set[str], user: str) -> None:
    if not refused:
        return
    advice = "a program computes only"
    if "random" in str(refused):
        advice = "take noise from noise.draw"
    raise BadProgram(f"{user} uses {min(refused)!r}, which cannot be proved: {advice}")


def _contents(part: Any) -> Iterator[Any]:
    """The objects that a function, class or object names or holds."""
    kind = type(part)
    root = _module_of(part).partition(".")[0]
    if isinstance(part, set | frozenset):
        yield from sorted(part, key=repr)
    elif isinstance(part, dict | MappingProxyType):
        yield from part
        yield from part.values()
    elif isinstance(part, list | tuple | deque | bytearray | array):
        yield from part
    if isinstance(part, np.ndarray):
        yield from part.ravel().tolist()
    if isinstance(part, _COMPILED):
        owner = getattr(part, "__self__", None)
        if not isinstance(owner, ModuleType):
            yield owner
    if isinstance(part, ModuleType) or (root in _OURS and isinstance(part, type | FunctionType)):
        return
    is_of_python = root in sys.stdlib_module_names
    if isinstance(part, type):
        yield from part.__mro__[1:]
        yield from members(part)
    elif isinstance(part, FunctionType):
        yield from _used(part)
    elif root in _OURS or root in ("functools", "types") or not is_of_python:
        # What Python's own objects hold may be the user's; their classes are not read.
        if not is_of_python:
            yield kind
        for name in own_names(part):
            if not isinstance(getattr(kind, name, None), cached_property):  # its code is read
                yield getattr(part, name)


def _used(function: FunctionType) -> Iterator[Any]:
    """The objects that a function names or keeps; refuse code that does more than compute."""
    code = function.__code__
    global_names = set(names(code, "GLOBAL"))
    attributes = set(names(code, "ATTR", "METHOD"))
    imports = {str(step.argval) for step in instructions(code) if step.opname == "IMPORT_NAME"}
    refused = _hidden(attributes) | (global_names & REACHING) | (imports & _TOOLS)
    refused |= {function.__name__} & REACHING
    if function.__module__ not in sys.stdlib_module_names:
        refused |= peeking(code) | imports
        refused |= (global_names | attributes) & (SEEING | {"cache_info"})
    _require_none(refused, function.__qualname__)
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    yield from (function.__defaults__, function.__kwdefaults__, vars(function))
    for value in map(function.__globals__.get, global_names):
        yield value
        if isinstance(value, ModuleType) and value.__name__ not in sys.stdlib_module_names:
            yield from (vars(value).get(name) for name in attributes)


def own_names(mechanism: Any) -> list[str]:
    """The names of a mechanism's own attributes."""
    attributes = set(getattr(mechanism, "__dict__", ()))
    for base in type(mechanism).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType):
                attributes.add(name)
    return [name for name in sorted(attributes) if hasattr(mechanism, name)]


_Named = namedtuple("_Named", ())


@dataclass(frozen=True)
class _Empty:
    """An empty dataclass: its members are those that every dataclass has."""


_GENERATED = {"<string>", collections.__file__, dataclasses.__file__, reprlib.__file__}
"""Where the code of methods comes from that named tuples and dataclasses get."""
_FIELDS = (MemberDescriptorType, type(namedtuple("_One", "field").field))  # type: ignore[attr-defined]


def members(kind: type) -> Iterator[Any]:
    """The members of a class that somebody wrote, without those that every class has."""
    usual_names = set(dir(_Named if issubclass(kind, tuple) else _Empty))
    for name, value in vars(kind).items():
        files = {function.__code__.co_filename for function in functions_of(value)}
        is_generated = name in usual_names and files <= _GENERATED
        if is_generated or isinstance(value, _FIELDS):
            continue
        if files or not name.startswith("__"):
            yield value


def functions_of(value: Any) -> list[FunctionType]:
    """The functions that a class attribute stands for."""
    parts = [value]
    for attribute in ("__func__", "fget", "fset", "fdel"):
        parts.append(getattr(value, attribute, None))
    return [part for part in parts if isinstance(part, FunctionType)]


# --------------------------------------------------------------------------------------------------
# Run a program down every one of its paths.
#
# The program is run again and again. If both answers to a question are possible, one is taken and
# the other is stored. A later run replays the answers up to this question and takes the other one.
# Subclasses decide which answers are possible.


_MOST_PATHS = 100_000


@dataclass(slots=True)
class Decision:
    """A question, how it was answered, and what to resume with to answer it the other way."""

    form: Affine
    negative: bool
    other: Any
    entered: bool


class PathExplorer:
    """Answers questions by replaying, and asks `branch` about new ones."""

    most_questions = 10_000

    def __init__(self) -> None:
        self._decisions: list[Decision] = []
        self.count = 0
        self._finished_paths = 0
        self.start_over()

    def explore(self, body: Callable[[], object]) -> None:
        """Run the body on every path; `stop` leaves one early, before an alignment begins."""
        while True:
            self.start_over()
            _LAST.refusal = None
            try:
                body()
                if _LAST.refusal:  # something caught it, such as a library that prints
                    raise _LAST.refusal
                self._finished_paths += 1
            except Stop:
                if self._began or not self._stopped:
                    raise BadProgram("the program leaves a path before its end") from None
            self.count += 1
            if self.count > _MOST_PATHS:
                limit = f"{_MOST_PATHS:,}"
                raise BadProgram(f"there are more than {limit} paths: prove it for fewer answers")
            if not self._turn():
                break
        if not self._finished_paths:
            raise BadProgram("the program reaches the end on no path: nothing was looked at")

    def stop(self) -> NoReturn:
        """Leave this path: it is impossible, or possible only with a tie."""
        self._stopped = True
        raise Stop

    def start_over(self) -> None:
        """Forget the last path."""
        self._replayed = 0
        self._began = False
        self._stopped = False
        self.transcript: list[tuple[Any, bool]] = []
        self.reveal()

    def disguise(self, behind: Mapping[Unknown, Affine], hidden: Set[Unknown]) -> None:
        """Give new unknowns to a program, which may not ask about the numbers that are hidden.

        Only the judge knows which numbers are `behind` the new unknowns.
        """
        self.behind = behind
        self.hidden = hidden

    def reveal(self) -> None:
        """End the disguise."""
        self.disguise({}, frozenset())

    def _turn(self) -> bool:
        """Go back to the last question whose other answer is still open, and take it."""
        while self._decisions:
            last = self._decisions.pop()
            if last.entered:
                self.leave()
            if last.other is not None:
                negative = not last.negative
                self._decisions.append(Decision(last.form, negative, None, entered=True))
                self.enter(last.form, negative, last.other)
                return True
        return False

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero on this path."""
        question = form_of(form)
        if self.behind:
            if not self.hidden.isdisjoint(terms_of(form)):
                raise BadProgram("the program asks about numbers that it was not given")
            form = in_terms(form, self.behind)
        if not terms_of(form):
            negative = constant_of(form) < 0
            self.transcript.append((question, negative))
            return negative
        negative = self._answer(form)
        self.transcript.append((question, negative))
        self.learn(form, negative)
        return negative

    def take_for_granted(self, form: Affine, negative: bool) -> None:
        """Continue where the form is negative, or is not; the caller knows that it is possible."""
        if self._replayed == len(self._decisions):
            self._decisions.append(Decision(form, negative, None, entered=True))
            self.enter(form, negative, None)
        self._replayed += 1
        self.learn(form, negative)

    def _answer(self, form: Affine) -> bool:
        if self._replayed < len(self._decisions):
            decision = self._decisions[self._replayed]
            if form_of(decision.form) != form_of(form):
                raise BadProgram("the program does something else when run again on the same noise")
            self._replayed += 1
            return decision.negative
        if len(self._decisions) >= self.most_questions:
            raise BadProgram(f"the program never stops: it asked {self.most_questions:,} questions")
        self._replayed += 1
        implied = self.implied(form)
        if implied is not None:
            self._decisions.append(Decision(form, implied, None, entered=False))
            return implied
        negative, state, other = self.branch(form)
        self._decisions.append(Decision(form, negative, other, entered=True))
        self.enter(form, negative, state)
        return negative

    def begin(self, method: str) -> None:
        """State whose questions follow; after `run` has ended, no path may be left."""
        self._began = self._began or method != "run"
        self.transcript = []

    def implied(self, form: Affine) -> bool | None:
        """The answer, if it follows from earlier ones; None if it must be looked for."""
        return None

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """A possible answer, its state, and the state of the other answer if it is possible."""
        raise NotImplementedError

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        """Continue where this is the answer."""

    def leave(self) -> None:
        """Go back to before the last answer entered."""

    def learn(self, form: Affine, negative: bool) -> None:
        """Take note of an answer."""
