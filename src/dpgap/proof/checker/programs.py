"""A user's program: it runs with a time limit, and its code may do no more than compute.

`guarded` reports its errors. `require_open` reads the code and all objects that it names or holds.
It refuses code that could find out that it is being proved, that keeps something from run to run,
or that reaches the checker.
"""

import collections
import dataclasses
import dis
import itertools
import reprlib
import signal
import sys
import threading
from array import array
from collections import deque, namedtuple
from collections.abc import Iterator, Set
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
from typing import Any

import numpy as np

from dpgap.proof.checker.numbers import Affine, BadNoise, BadProgram, Violation, form_of


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


def require_open(mechanism: Any, copy: object) -> list[Any]:
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


def _module_of(part: object) -> str:
    attribute = "__name__" if isinstance(part, ModuleType) else "__module__"
    return str(getattr(part, attribute, None) or type(part).__module__)


def _require_none(refused: Set[str], user: str) -> None:
    if not refused:
        return
    advice = "a program computes only"
    if "random" in str(refused):
        advice = "take noise from noise.draw"
    raise BadProgram(f"{user} uses {min(refused)!r}, which cannot be proved: {advice}")


def _contents(part: object) -> Iterator[Any]:
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


def functions_of(value: object) -> list[FunctionType]:
    """The functions that a class attribute stands for."""
    parts = [value]
    for attribute in ("__func__", "fget", "fset", "fdel"):
        parts.append(getattr(value, attribute, None))
    return [part for part in parts if isinstance(part, FunctionType)]
