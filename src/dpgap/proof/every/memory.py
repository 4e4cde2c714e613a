"""Checks that the methods of a stream have no memory: they depend only on their arguments.

One step is followed from any state. If a step counts its calls in a default, a closure, a global
variable or an attribute, it has a state that is not followed. So the code of each method, and of
all functions and classes that it uses, is read: it may store values only in its own variables, and
all other values that it reads must be immutable.
"""

import builtins
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from dpgap.proof.checker.numbers import (
    REACHING,
    SEEING,
    Violation,
    functions_of,
    instructions,
    members,
    names,
    own_names,
    peeking,
    require_from_known_places,
)

_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME")
_REFUSED = SEEING | REACHING | {"open", "input", "hash", "memoryview", "repr", "str", "dir"}
"""Names of code that could store a value elsewhere, or see that a program is being proved."""
_WRAPPED = ("__func__", "__self__", "__wrapped__", "fget", "func", "args", "keywords")
_MODULES = {"math", "operator", "fractions"}
_TRUSTED = {"dpgap", "builtins", "fractions", "decimal", "typing"}
_NUMBERS = (int, float, complex, str, bytes, Fraction, Decimal, range, type(None))


def require_no_memory(mechanism: Any, methods: tuple[str, ...]) -> None:
    """Raise a violation if these methods could depend on how often they were called."""
    kind = type(mechanism)
    seen: set[Any] = {vars(base).get("__init__") for base in kind.__mro__}  # it ran before
    for name in own_names(mechanism):
        if not _is_fixed(getattr(mechanism, name), seen):
            raise _remembers(f"{kind.__name__} has {name!r}, which can change")
    for name in methods:
        _require_method(kind, name, seen)


def _require_method(kind: type, name: str, seen: set[Any]) -> None:
    for base in kind.__mro__[:-1]:  # also what a method of the same name may call
        if name in vars(base) and not _is_fixed(vars(base)[name], seen):
            raise _remembers(f"{base.__name__} has {name!r}, which can change")
    for function in functions_of(getattr(kind, name, None)):
        for other in names(function.__code__, "ATTR", "METHOD"):
            if (kind, other) not in seen:
                seen.add((kind, other))
                _require_method(kind, other, seen)


def _is_fixed(value: Any, seen: set[Any]) -> bool:
    """Whether a value is immutable, or code without memory."""
    require_from_known_places(value)
    functions = functions_of(value)
    if functions:
        for function in functions:
            _require_function(function, seen)
        return _is_fixed(getattr(value, "__self__", None), seen)
    if isinstance(value, type):  # nothing in the class can change; what it makes is new each time
        if _is_trusted(value) or value in seen:
            return True
        seen.add(value)
        bases = [base for base in value.__mro__[:-1] if not _is_trusted(base)]
        return all(_is_fixed(each, seen) for base in bases for each in members(base))
    if hasattr(value, "cost") and hasattr(value, "supports"):  # a law is taken at its word
        return True
    if isinstance(value, ModuleType):
        return value.__name__ in _MODULES
    if not _is_fixed(type(value), seen):
        return False
    if isinstance(value, tuple | frozenset):
        return all(_is_fixed(each, seen) for each in value)
    if getattr(getattr(value, "__dataclass_params__", None), "frozen", False):
        return all(_is_fixed(getattr(value, name), seen) for name in own_names(value))
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in _MODULES
    if isinstance(value, _NUMBERS):
        return True
    wrapped = (getattr(value, name, None) for name in _WRAPPED)
    return _is_trusted(type(value)) and all(_is_fixed(each, seen) for each in wrapped)


def _is_trusted(kind: type) -> bool:
    mutable = issubclass(kind, list | dict | set | bytearray) or hasattr(kind, "__next__")
    return kind.__module__.partition(".")[0] in _TRUSTED and not mutable


def _require_function(function: FunctionType, seen: set[Any]) -> None:
    if function in seen:
        return
    seen.add(function)
    name, code = function.__qualname__, function.__code__
    if peeks(code):
        raise _remembers(f"{name} can see that it is being proved")
    if any(
        each.opname in _STORES
        or (each.opname.endswith("E_DEREF") and each.argval in code.co_freevars)
        for each in instructions(code)
    ):
        raise _remembers(f"{name} stores something outside its own variables")
    kept = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    kept += [cell.cell_contents for variable, cell in cells if variable != "__class__"]
    for variable in set(names(code, "GLOBAL")):
        if variable in function.__globals__:
            kept.append(function.__globals__[variable])
        elif variable in _REFUSED or not hasattr(builtins, variable):
            raise _remembers(f"{name} uses {variable!r}")
    if not all(_is_fixed(each, seen) for each in kept):
        raise _remembers(f"{name} reads something that can change")


def peeks(code: CodeType) -> bool:
    """Whether code could distinguish numbers from unknowns: by their class, or by try."""
    attributes = {*names(code, "ATTR", "METHOD")}
    asked = {name for name in attributes if name.startswith("__")} | (attributes & SEEING)
    formats = any(each.opname.startswith("FORMAT_") for each in instructions(code))
    return formats or bool(peeking(code)) or not asked <= {"__getitem__"}


def _remembers(message: str) -> Violation:
    return Violation("fold", f"{message}: a step may depend on what it is given only")


# --------------------------------------------------------------------------------------------------
# A program treats all positions alike, and does not use the number of answers.
#
# `few_answers` checks five answers. A program could treat the sixth in another way, or answers that
# are close together. For this it would have to compare numbers, or to name a position. So its code
# is read. It may add and subtract, sort, go through all answers, take the least, the largest, a
# slice or the sum. It must compare nothing, and have no numbers but 0 and 1, once each.


_FUNCTIONS = {"sorted", "range", "len", "min", "max", "tuple", "list", "zip", "sum"}
_ARITHMETIC = {"+", "-", "*", "/", "[]"}
_METHODS = {"draw", "index", "__getitem__"}


def require_uniform(kind: type, name: str = "run") -> None:
    """Raise a violation if a method, or one of its own that it calls, can tell places apart."""
    _require(kind, name, getattr(kind, name, None), set())


def _require(kind: Any, name: str, found: Any, seen: set[Any]) -> None:
    if found in seen or not isinstance(found, FunctionType):
        return
    seen.add(found)
    code = found.__code__
    if found.__defaults__ or found.__kwdefaults__ or code.co_freevars or peeks(code):
        raise _uneven(f"{name} has defaults or variables from outside, or sees that it is proved")
    for called in names(code, "GLOBAL"):
        value = found.__globals__.get(called)
        if isinstance(value, FunctionType) and value.__module__.startswith("dpgap.mechanisms"):
            _require(kind, called, value, seen)
        elif called in found.__globals__:
            law = isinstance(value, type) and value.__module__.startswith("dpgap.exact")
            if not law and value is not combinations and not isinstance(value, Fraction):
                raise _uneven(f"{name} calls more than is known to treat all alike")
        elif called not in _FUNCTIONS:
            raise _uneven(f"{name} calls more than is known to treat all alike")
    numbers: Counter[Any] = Counter()
    for each in instructions(code):
        if each.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST"):
            parts = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            numbers.update(part for part in parts if type(part) in (int, float, complex, tuple))
        if each.opname == "COMPARE_OP" or "JUMP_IF" in each.opname:
            raise _uneven(f"{name} compares numbers")
        if each.opname == "BINARY_OP" and each.argrepr not in _ARITHMETIC:
            raise _uneven(f"{name} computes with {each.argrepr}")
        if each.opname.startswith(("STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "IMPORT")):
            raise _uneven(f"{name} stores something outside its own variables")
    if numbers.keys() - {0, 1} or any(times > 1 for times in numbers.values()):
        raise _uneven(f"{name} has numbers in it that can single out a place")
    for other in names(code, "ATTR", "METHOD"):
        if not hasattr(kind, other) and other not in _METHODS:
            raise _uneven(f"{name} uses {other!r}")
        _require(kind, other, getattr(kind, other, None), seen)


def _uneven(message: str) -> Violation:
    return Violation("restriction", message)
