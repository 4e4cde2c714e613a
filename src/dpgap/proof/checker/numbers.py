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
from contextlib import contextmanager, nullcontext
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
        return value.numerator if value.denominator == 1 else value  # type: ignore[no-any-return]
    if kind is float or kind is Decimal:
        if not math.isfinite(value):
            raise BadProgram(f"the program computes with {value}, which is not a number to compare")
        return Fraction(value)
    if vars(np).get(kind.__name__) is kind:
        return exact(value.item())
    raise BadProgram(f"the program computes with a {type(value).__name__}, which is not a number")


class Kept:
    """Reads and writes a slot of objects that programs see; programs cannot.

    The objects' class loses the name of the slot, so no attribute leads to its content.
    """

    __slots__ = ("of", "put")

    def __init__(self, kind: type, slot: str) -> None:
        descriptor = vars(kind)[slot]
        self.of, self.put = descriptor.__get__, descriptor.__set__
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
        if not isinstance(other, Affine):
            return affine(_PATH.of(self), terms_of(self), constant_of(self) + exact(other))
        if _PATH.of(self) is not _PATH.of(other):
            raise BadProgram("the program computes with numbers that it kept from another proof")
        terms = dict(terms_of(self))
        for unknown, by in terms_of(other).items():
            total = terms.get(unknown, 0) + by
            if total:
                terms[unknown] = total
            else:
                del terms[unknown]
        return affine(_PATH.of(self), terms, constant_of(self) + constant_of(other))

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return self * -1

    def __pos__(self) -> "Affine":
        return self

    def __sub__(self, other: Any) -> "Affine":
        return self + (-other if isinstance(other, Affine) else -exact(other))

    def __rsub__(self, other: Any) -> "Affine":
        return Affine.__add__(-self, other)

    def __mul__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if terms_of(other) and terms_of(self):
                both = f"({shown(self)}) and ({shown(other)})"
                raise BadProgram(f"the program multiplies two unknowns, {both}: {_ONLY}")
            return other * constant_of(self) if not terms_of(self) else self * constant_of(other)
        factor = exact(other)
        terms = {u: by * factor for u, by in terms_of(self).items()} if factor else {}
        return affine(_PATH.of(self), terms, constant_of(self) * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            if terms_of(other):
                raise BadProgram(f"the program divides by an unknown, ({shown(other)})")
            other = constant_of(other)
        return self * (1 / Fraction(exact(other)))

    def __rtruediv__(self, other: Any) -> "Affine":
        return affine(_PATH.of(self), {}, exact(other)) / self

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


_TERMS, _CONSTANT, _PATH = (Kept(Affine, slot) for slot in ("terms", "constant", "path"))
terms_of: Callable[[Affine], Mapping[Unknown, Exact]] = _TERMS.of
constant_of: Callable[[Affine], Exact] = _CONSTANT.of


def affine(path: Any, terms: Mapping[Unknown, Exact], constant: Exact = 0) -> Affine:
    """A new number, whose questions this path answers."""
    made = object.__new__(Affine)
    _TERMS.put(made, terms)
    _CONSTANT.put(made, constant)
    _PATH.put(made, path)
    return made


def shown(value: Any) -> str:
    """A number, or a tuple or a list of numbers, as text for messages of the checker."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(shown, value))})"
    if not isinstance(value, Affine):
        return repr(value)
    words = ""
    for unknown, by in [*terms_of(value).items(), ("", constant_of(value))]:
        name = noise_name(unknown) if isinstance(unknown, int) else unknown
        size = "" if abs(by) == 1 and name else f"{abs(by)}{'·' if name else ''}"
        words += f" {'-' if by < 0 else '+'} {size}{name}" if by else ""
    sign = "-" if words.startswith(" -") else ""
    return sign + words[3:] or "0"


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
    return [({name for name in form[0] if isinstance(name, int)}, yes) for form, yes in transcript]


def renamed(form: Any, names: Mapping[Unknown, Unknown]) -> Any:
    """A form with other names for some unknowns."""
    terms, constant = form
    return {names.get(unknown, unknown): by for unknown, by in terms.items()}, constant


def in_terms(number: Any, of: Mapping[Unknown, Affine]) -> Any:
    """A number with other numbers in place of some unknowns."""
    if not isinstance(number, Affine):
        return number
    terms = terms_of(number)
    rest = {unknown: by for unknown, by in terms.items() if unknown not in of}
    total = affine(_PATH.of(number), rest, constant_of(number))
    for unknown, by in terms.items():
        if unknown in of:
            total = total + of[unknown] * by
    return total


def noise_name(draw: int) -> str:
    """The name of a draw in messages."""
    return f"η{draw}"


class Condition:
    """A question about a form: is it negative? Asking for its truth asks the path."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("expected", "form")

    def __init__(self, form: Affine, expected: bool) -> None:
        _FORM.put(self, form)
        _EXPECTED.put(self, expected)

    def __bool__(self) -> bool:
        form = asked_form(self)
        negative = _PATH.of(form).is_negative(form) if terms_of(form) else constant_of(form) < 0
        return negative is expected_answer(self)

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __repr__ = __str__ = __format__ = _refuse_text


_FORM, _EXPECTED = (Kept(Condition, slot) for slot in ("form", "expected"))
asked_form: Callable[[Condition], Affine] = _FORM.of
expected_answer: Callable[[Condition], bool] = _EXPECTED.of


# --------------------------------------------------------------------------------------------------
# Run a user's program with a time limit, and report its errors.


class Stop(Exception):  # noqa: N818 - not a fault: passes through the program under proof
    """Raised through the program to leave it; never shown."""


@contextmanager
def guarded(what: str, seconds: float) -> Iterator[None]:
    """Run a part of the program. If it fails or never stops, a `BadProgram` says so.

    A signal ends a program that never stops. So there is a time limit only in the main thread, and
    only on systems with timers.
    """
    in_main = threading.current_thread() is threading.main_thread()
    is_limited = in_main and hasattr(signal, "setitimer")
    words = f"{what} never stops: it was still running after {seconds:g} s"
    try:
        with _deadline(words, seconds) if is_limited else nullcontext():
            yield
    except (BadNoise, BadProgram, Violation, Stop):
        raise
    except RecursionError:
        raise BadProgram(f"{what} never stops: it calls itself without end") from None
    except Exception as error:
        raise BadProgram(f"{what} failed: {type(error).__name__}: {error}") from error


@contextmanager
def _deadline(message: str, seconds: float) -> Iterator[None]:
    armed = True

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise BadProgram(message)

    before = signal.signal(signal.SIGALRM, ring)
    rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, rest)
        signal.signal(signal.SIGALRM, before)


def instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions of the code, and of all code inside it."""
    yield from dis.get_instructions(code)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from instructions(each)


def names(code: CodeType, *kinds: str) -> list[str]:
    """The names that the code, or code inside it, loads by instructions of these kinds."""
    loads = (each for each in instructions(code) if each.opname.startswith("LOAD_"))
    return [str(each.argval) for each in loads if each.opname.endswith(kinds)]


def peeking(code: CodeType) -> set[str]:
    """Names in code that could distinguish an unknown from a number: class, identity, errors."""
    found = {_PEEKING[each.opname] for each in instructions(code) if each.opname in _PEEKING}
    for before, each in itertools.pairwise(instructions(code)):
        known = before.opname == "LOAD_CONST" and before.argval in (None, ...)
        if each.opname == "IS_OP" and (each.is_jump_target or not known):
            found.add("is")
    return found


_PEEKING = {"PUSH_EXC_INFO": "try", "MATCH_CLASS": "match"}
SEEING = {
    *("isinstance", "issubclass", "type", "hasattr", "callable", "id", "is_", "is_not", "isscalar"),
    *("format", "format_map", "attrgetter", "methodcaller", "KeyWrapper"),  # they hide what they do
    *("random", "default_rng"),
    *("dtype", "isrealobj", "iscomplexobj", "isdtype", "issubdtype", "can_cast", "common_type"),
    *("result_type", "min_scalar_type", "typename"),  # an unknown is an object to NumPy
}
_OUTSIDE = {
    *("gc", "sys", "inspect", "ctypes", "importlib", "pickle", "json", "reprlib"),
    *("random", "secrets", "uuid", "time", "datetime", "os", "posix", "nt"),
}
_TOOLS = _OUTSIDE | {"builtins", "types"}
REACHING = {
    *("eval", "exec", "compile", "globals", "locals", "vars", "__import__", "breakpoint"),
    *("getattr", "setattr", "delattr"),
    *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
}
"""Names of functions that reach what is hidden; or that say what a copy is, which is proved."""
_HIDDEN, _PLAIN = ("__", "f_", "gi_"), {"__getitem__", "__init__", "__name__"}
_OURS = {
    *("dpgap", "builtins", "collections", "dataclasses", "decimal", "fractions", "itertools"),
    *("numpy", "typing"),
}
_VALUES = {int, bool, float, complex, str, bytes, Fraction, Decimal, type(None)}
_COMPILED = type(len), type(str.format), type(object.__repr__), type("".__repr__)
"""The types of functions and methods that are not written in Python."""


def require_open(mechanism: Any, made: Any) -> list[Any]:
    """Refuse a user's code that manipulates the checker, or can see that it is being proved.

    This reads functions, classes and objects, and all that they name or hold; not the code of
    dpgap, nor the code that made `made`, because this ran before. It returns a record in which
    every change of these objects shows. An iterator does not show its position: it counts as
    changed.
    """
    waiting, record = [mechanism, made], list[Any]()
    seen = {id(each): each for base in type(made).__mro__ if (each := vars(base).get("__init__"))}
    while waiting:
        part = waiting.pop()
        kind = type(part)
        record.append(part if kind in _VALUES else object() if hasattr(kind, "__next__") else kind)
        record += form_of(part) if kind is Affine else ()
        if id(part) not in seen and kind not in _VALUES:
            seen[id(part)] = part
            require_from_known_places(part)
            waiting += _held(part)
    return record


def require_from_known_places(part: Any) -> None:
    """Refuse modules, and objects from modules, that are not on the list of allowed ones."""
    module = _module_of(part)
    root = module.partition(".")[0]
    wrong = {root} & _OUTSIDE
    if root in sys.stdlib_module_names:  # under whatever name the program knows it
        name = (part if isinstance(part, (type, *_COMPILED)) else type(part)).__name__
        wrong |= {name} & (SEEING | REACHING) or _hidden({name})
    reaches = module in _TOOLS or module.startswith("dpgap.proof")
    if module.startswith("numpy.random") or (reaches and isinstance(part, ModuleType)):
        wrong |= {module}
    _require_none(wrong, "the program")


def _hidden(names: Set[str]) -> set[str]:
    """The names of what Python keeps to itself."""
    return {name for name in names if name.startswith(_HIDDEN)} - _PLAIN


def _module_of(part: Any) -> str:
    name = "__name__" if isinstance(part, ModuleType) else "__module__"
    return str(getattr(part, name, None) or type(part).__module__)


def _require_none(wrong: Set[str], who: str) -> None:
    if wrong:
        why = "take noise from noise.draw" if "random" in str(wrong) else "a program computes only"
        raise BadProgram(f"{who} uses {min(wrong)!r}, which cannot be proved: {why}")


def _held(part: Any) -> Iterator[Any]:
    """The objects that a function, class or object names or holds."""
    kind, top = type(part), _module_of(part).partition(".")[0]
    if isinstance(part, dict | MappingProxyType | list | tuple | set | frozenset | deque):
        yield from sorted(part, key=repr) if isinstance(part, set | frozenset) else part
        yield from part.values() if isinstance(part, dict | MappingProxyType) else ()
    if isinstance(part, np.ndarray | bytearray | array):
        yield from part.ravel().tolist() if isinstance(part, np.ndarray) else part
    if isinstance(part, _COMPILED):
        owner = getattr(part, "__self__", None)
        yield from () if isinstance(owner, ModuleType) else (owner,)
    if isinstance(part, ModuleType) or (top in _OURS and isinstance(part, type | FunctionType)):
        return
    if isinstance(part, type):
        yield from (*part.__mro__[1:], *members(part))
    elif isinstance(part, FunctionType):
        yield from _used(part)
    elif top in {*_OURS, "functools", "types"} or top not in sys.stdlib_module_names:
        # What Python's own objects hold may be the user's; their classes are not read.
        yield from () if top in sys.stdlib_module_names else (kind,)
        for name in own_names(part):
            if not isinstance(getattr(kind, name, None), cached_property):  # its code is read
                yield getattr(part, name)


def _used(function: FunctionType) -> Iterator[Any]:
    """The objects that a function names or keeps; refuse code that does more than compute."""
    code, used = function.__code__, {*names(function.__code__, "GLOBAL")}
    attributes = {*names(code, "ATTR", "METHOD")}
    tools = {str(each.argval) for each in instructions(code) if each.opname == "IMPORT_NAME"}
    wrong = _hidden(attributes) | ({*used, function.__name__} & REACHING) | (tools & _TOOLS)
    if function.__module__ not in sys.stdlib_module_names:
        wrong |= peeking(code) | ((used | attributes) & {*SEEING, "cache_info"}) | tools
    _require_none(wrong, function.__qualname__)
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    yield from (function.__defaults__, function.__kwdefaults__, vars(function))
    for value in map(function.__globals__.get, used):
        yield value
        if isinstance(value, ModuleType) and value.__name__ not in sys.stdlib_module_names:
            yield from (vars(value).get(name) for name in attributes)


def own_names(mechanism: Any) -> list[str]:
    """The names of a mechanism's own attributes."""
    own = {*getattr(mechanism, "__dict__", ())}
    for base in type(mechanism).__mro__:
        own |= {name for name, each in vars(base).items() if isinstance(each, MemberDescriptorType)}
    return [name for name in sorted(own) if hasattr(mechanism, name)]


_Named = namedtuple("_Named", ())


@dataclass(frozen=True)
class _Empty:
    """An empty dataclass: its members are those that every dataclass has."""


_GENERATED = {"<string>", *(module.__file__ for module in (collections, dataclasses, reprlib))}
"""Where the code of methods comes from that named tuples and dataclasses get."""
_FIELDS = (MemberDescriptorType, type(namedtuple("_One", "field").field))  # type: ignore[attr-defined]


def members(kind: type) -> Iterator[Any]:
    """The members of a class that somebody wrote, without those that every class has."""
    given = {*dir(_Named if issubclass(kind, tuple) else _Empty)}
    for name, value in vars(kind).items():
        files = {each.__code__.co_filename for each in functions_of(value)}
        known = (name in given and files <= _GENERATED) or isinstance(value, _FIELDS)
        if not known and (files or not name.startswith("__")):
            yield value


def functions_of(value: Any) -> list[FunctionType]:
    """The functions that a class attribute stands for."""
    parts = (value, *(getattr(value, each, None) for each in ("__func__", "fget", "fset", "fdel")))
    return [part for part in parts if isinstance(part, FunctionType)]


# --------------------------------------------------------------------------------------------------
# Run a program down every one of its paths.
#
# The program is run again and again. If both answers to a question are possible, one is taken and
# the other is stored. A later run replays the answers up to this question and takes the other one.
# Subclasses decide which answers are possible.


_MOST_PATHS = 100_000


@dataclass(slots=True)
class _Answered:
    """A question, how it was answered, and what to resume with to answer it the other way."""

    form: Affine
    negative: bool
    other: Any
    entered: bool


class PathExplorer:
    """Answers questions by replaying, and asks `branch` about new ones."""

    most_questions = 10_000

    def __init__(self) -> None:
        self._answered: list[_Answered] = []
        self.count = self._ended = 0
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
                self._ended += 1
            except Stop:
                if self._began or not self._left:
                    raise BadProgram("the program leaves a path before its end") from None
            self.count += 1
            if self.count > _MOST_PATHS:
                most = f"{_MOST_PATHS:,}"
                raise BadProgram(f"there are more than {most} paths: prove it for fewer answers")
            if not self._turn():
                break
        if not self._ended:
            raise BadProgram("the program reaches the end on no path: nothing was looked at")

    def stop(self) -> NoReturn:
        """Leave this path: it is impossible, or possible only with a tie."""
        self._left = True
        raise Stop

    def start_over(self) -> None:
        """Forget the last path."""
        self._replayed = 0
        self._began = self._left = False
        self.transcript: list[tuple[Any, bool]] = []
        self.behind: Mapping[Unknown, Affine] = {}
        self.hidden: Set[Unknown] = frozenset()

    def _turn(self) -> bool:
        """Go back to the last question whose other answer is still open, and take it."""
        while self._answered:
            last = self._answered.pop()
            if last.entered:
                self.leave()
            if last.other is not None:
                self._answered.append(_Answered(last.form, not last.negative, None, entered=True))
                self.enter(last.form, not last.negative, last.other)
                return True
        return False

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero on this path."""
        asked = form
        if self.behind:
            if not self.hidden.isdisjoint(terms_of(form)):
                raise BadProgram("the program asks about numbers that it was not given")
            form = in_terms(form, self.behind)
        negative = self._answer(form) if terms_of(form) else constant_of(form) < 0
        self.transcript.append((form_of(asked), negative))
        if terms_of(form):
            self.learn(form, negative)
        return negative

    def take_for_granted(self, form: Affine, negative: bool) -> None:
        """Continue where the form is negative, or is not; the caller knows that it is possible."""
        if self._replayed == len(self._answered):
            self._answered.append(_Answered(form, negative, None, entered=True))
            self.enter(form, negative, None)
        self._replayed += 1
        self.learn(form, negative)

    def _answer(self, form: Affine) -> bool:
        if self._replayed < len(self._answered):
            known = self._answered[self._replayed]
            if form_of(known.form) != form_of(form):
                raise BadProgram("the program does something else when run again on the same noise")
            self._replayed += 1
            return known.negative
        if len(self._answered) >= self.most_questions:
            raise BadProgram(f"the program never stops: it asked {self.most_questions:,} questions")
        self._replayed += 1
        implied = self.implied(form)
        if implied is not None:
            self._answered.append(_Answered(form, implied, None, entered=False))
            return implied
        negative, here, other = self.branch(form)
        self._answered.append(_Answered(form, negative, other, entered=True))
        self.enter(form, negative, here)
        return negative

    def begin(self, who: str) -> None:
        """State whose questions follow; after `run` has ended, no path may be left."""
        self._began, self.transcript = self._began or who != "run", []

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
