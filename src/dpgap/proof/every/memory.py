"""Code is read: the methods of a stream have no memory, and a program treats all positions alike.

**`require_no_memory`: methods depend only on their arguments.** One step is followed from any
state. If a step counts its calls in a default, a closure, a global variable or an attribute, it has
a state that is not followed. So the code of each method, and of all functions and classes that it
uses, is read: it may store values only in its own variables, and all other values that it reads
must be immutable.

**`require_uniform`: a program treats all positions alike, and does not use the number of answers.**
`few_answers` checks five answers. A program could treat the sixth in another way, or answers that
are close together. For this it would have to compare numbers, or to name a position. So its code
is read. It may add and subtract, sort, go through all answers, take the least, the largest, a
slice or the sum. It must compare nothing, and have no numbers but 0 and 1, once each.
"""

import builtins
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.programs import (
    REACHING,
    SEEING,
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
    visited: set[Any] = {vars(base).get("__init__") for base in kind.__mro__}  # it ran before
    for name in own_names(mechanism):
        if not _is_fixed(getattr(mechanism, name), visited):
            raise _remembers(f"{kind.__name__} has {name!r}, which can change")
    for name in methods:
        _require_method(kind, name, visited)


def _require_method(kind: type, name: str, visited: set[Any]) -> None:
    for base in kind.__mro__[:-1]:  # also what a method of the same name may call
        if name in vars(base) and not _is_fixed(vars(base)[name], visited):
            raise _remembers(f"{base.__name__} has {name!r}, which can change")
    for function in functions_of(getattr(kind, name, None)):
        for other in names(function.__code__, "ATTR", "METHOD"):
            if (kind, other) not in visited:
                visited.add((kind, other))
                _require_method(kind, other, visited)


def _is_fixed(value: object, visited: set[Any]) -> bool:
    """Whether a value is immutable, or code without memory."""
    require_from_known_places(value)
    functions = functions_of(value)
    if functions:
        for function in functions:
            _require_function(function, visited)
        return _is_fixed(getattr(value, "__self__", None), visited)
    if isinstance(value, type):
        return _is_fixed_class(value, visited)
    if hasattr(value, "cost") and hasattr(value, "supports"):  # a law is taken at its word
        return True
    if isinstance(value, ModuleType):
        return value.__name__ in _MODULES
    if not _is_fixed(type(value), visited):
        return False
    if isinstance(value, tuple | frozenset):
        return all(_is_fixed(item, visited) for item in value)
    if getattr(getattr(value, "__dataclass_params__", None), "frozen", False):
        return all(_is_fixed(getattr(value, name), visited) for name in own_names(value))
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in _MODULES
    if isinstance(value, _NUMBERS):
        return True
    wrapped = (getattr(value, name, None) for name in _WRAPPED)
    return _is_trusted(type(value)) and all(_is_fixed(part, visited) for part in wrapped)


def _is_fixed_class(kind: type, visited: set[Any]) -> bool:
    """Whether nothing in a class can change; what it makes is new each time."""
    if _is_trusted(kind) or kind in visited:
        return True
    visited.add(kind)
    for base in kind.__mro__[:-1]:
        if not _is_trusted(base) and not all(_is_fixed(m, visited) for m in members(base)):
            return False
    return True


def _is_trusted(kind: type) -> bool:
    mutable = issubclass(kind, list | dict | set | bytearray) or hasattr(kind, "__next__")
    return kind.__module__.partition(".")[0] in _TRUSTED and not mutable


def _require_function(function: FunctionType, visited: set[Any]) -> None:
    if function in visited:
        return
    visited.add(function)
    name = function.__qualname__
    code = function.__code__
    if peeks(code):
        raise _remembers(f"{name} can see that it is being proved")
    for step in instructions(code):
        is_outside = step.opname.endswith("E_DEREF") and step.argval in code.co_freevars
        if step.opname in _STORES or is_outside:
            raise _remembers(f"{name} stores something outside its own variables")
    values = list(function.__defaults__ or ())
    values += (function.__kwdefaults__ or {}).values()
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    values += [cell.cell_contents for variable, cell in cells if variable != "__class__"]
    for variable in set(names(code, "GLOBAL")):
        if variable in function.__globals__:
            values.append(function.__globals__[variable])
        elif variable in _REFUSED or not hasattr(builtins, variable):
            raise _remembers(f"{name} uses {variable!r}")
    if not all(_is_fixed(value, visited) for value in values):
        raise _remembers(f"{name} reads something that can change")


def peeks(code: CodeType) -> bool:
    """Whether code could distinguish numbers from unknowns: by their class, or by try."""
    if peeking(code) or any(step.opname.startswith("FORMAT_") for step in instructions(code)):
        return True
    for name in names(code, "ATTR", "METHOD"):
        if name in SEEING or (name.startswith("__") and name != "__getitem__"):
            return True
    return False


def _remembers(message: str) -> Violation:
    return Violation("fold", f"{message}: a step may depend on what it is given only")


_FUNCTIONS = {"sorted", "range", "len", "min", "max", "tuple", "list", "zip", "sum"}
_ARITHMETIC = {"+", "-", "*", "/", "[]"}
_METHODS = {"draw", "index", "__getitem__"}


def require_uniform(kind: type, name: str = "run") -> None:
    """Raise a violation if a method, or one of its own that it calls, can tell places apart."""
    _require(kind, name, getattr(kind, name, None), set())


def _require(kind: Any, name: str, method: object, visited: set[Any]) -> None:
    if method in visited or not isinstance(method, FunctionType):
        return
    visited.add(method)
    code = method.__code__
    if method.__defaults__ or method.__kwdefaults__ or code.co_freevars or peeks(code):
        raise _uneven(f"{name} has defaults or variables from outside, or sees that it is proved")
    for called in names(code, "GLOBAL"):
        value = method.__globals__.get(called)
        if isinstance(value, FunctionType) and value.__module__.startswith("dpgap.mechanisms"):
            _require(kind, called, value, visited)
        elif called in method.__globals__:
            is_law = isinstance(value, type) and value.__module__.startswith("dpgap.exact")
            if not is_law and value is not combinations and not isinstance(value, Fraction):
                raise _uneven(f"{name} calls more than is known to treat all alike")
        elif called not in _FUNCTIONS:
            raise _uneven(f"{name} calls more than is known to treat all alike")
    _require_plain(name, code)
    for other in names(code, "ATTR", "METHOD"):
        if not hasattr(kind, other) and other not in _METHODS:
            raise _uneven(f"{name} uses {other!r}")
        _require(kind, other, getattr(kind, other, None), visited)


def _require_plain(name: str, code: CodeType) -> None:
    """Raise a violation if code compares, or has numbers that could single out a place."""
    numbers: Counter[Any] = Counter()
    for step in instructions(code):
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST"):
            parts = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            numbers.update(part for part in parts if type(part) in (int, float, complex, tuple))
        if step.opname == "COMPARE_OP" or "JUMP_IF" in step.opname:
            raise _uneven(f"{name} compares numbers")
        if step.opname == "BINARY_OP" and step.argrepr not in _ARITHMETIC:
            raise _uneven(f"{name} computes with {step.argrepr}")
        if step.opname.startswith(("STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "IMPORT")):
            raise _uneven(f"{name} stores something outside its own variables")
    if numbers.keys() - {0, 1} or any(times > 1 for times in numbers.values()):
        raise _uneven(f"{name} has numbers in it that can single out a place")


def _uneven(message: str) -> Violation:
    return Violation("restriction", message)
