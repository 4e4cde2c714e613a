"""A stream's methods remember nothing: what they do depends on what they are given, and no more.

One step is followed from any state. A step that counts its calls, in a default, a closure, a global
variable or an attribute, has a state that is not followed. So the code of each method, and of all
that it calls, is looked at: it may store in its own variables only, and whatever else it reads must
be something that cannot change.
"""

import builtins
from collections import Counter, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from dpgap.proof.checker.numbers import Violation, names, peeking, steps

_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME")
_REFUSED = {
    *("setattr", "delattr", "vars", "globals", "locals", "exec", "eval", "open", "input"),
    *("__import__", "id", "hash", "breakpoint", "memoryview", "getattr"),
    *("isinstance", "issubclass", "type", "hasattr", "repr", "str", "format", "callable", "dir"),
}
"""What could keep something elsewhere, or see that a program is being proved."""
_MODULES = {"math", "operator", "fractions"}
_TRUSTED = ("dpgap.", "builtins", "fractions", "decimal", "typing")
_Named = namedtuple("_Named", ())


class _Empty:
    """Has what every class has."""


_FIELDS = (MemberDescriptorType, type(namedtuple("_One", "field").field))  # type: ignore[attr-defined]
_NUMBERS = (int, float, complex, str, bytes, Fraction, Decimal, range, type(None))


def require_no_memory(mechanism: Any, methods: tuple[str, ...]) -> None:
    """Raise a violation if what these methods do can depend on how often they were called."""
    kind, seen = type(mechanism), set[Any]()
    for name in own_names(mechanism):
        if not _is_fixed(getattr(mechanism, name), seen):
            raise _remembers(f"{kind.__name__} has {name!r}, which can change")
    for name in methods:
        _require_method(kind, name, seen)


def own_names(mechanism: Any) -> list[str]:
    """The names of what a mechanism holds itself."""
    own = {each.name for each in fields(mechanism)} if is_dataclass(mechanism) else set()
    for base in type(mechanism).__mro__:
        own |= {name for name, each in vars(base).items() if isinstance(each, MemberDescriptorType)}
    return [
        name for name in own | {*getattr(mechanism, "__dict__", ())} if hasattr(mechanism, name)
    ]


def _require_method(kind: type, name: str, seen: set[Any]) -> None:
    for base in kind.__mro__[:-1]:  # also what a method of the same name may call
        if name in vars(base) and not _is_fixed(vars(base)[name], seen):
            raise _remembers(f"{base.__name__} has {name!r}, which can change")
    for function in _functions(getattr(kind, name, None)):
        for other in names(function.__code__, "ATTR", "METHOD"):
            if (kind, other) not in seen:
                seen.add((kind, other))
                _require_method(kind, other, seen)


def _functions(value: Any) -> list[FunctionType]:
    """The functions that a class attribute stands for."""
    parts = [value, getattr(value, "__func__", None)]
    parts += [getattr(value, each, None) for each in ("fget", "fset", "fdel")]
    return [part for part in parts if isinstance(part, FunctionType)]


def _is_fixed(value: Any, seen: set[Any]) -> bool:
    """Whether it is something that cannot change, or code that remembers nothing."""
    functions = _functions(value)
    if functions:
        for function in functions:
            _require_function(function, seen)
        return _is_fixed(getattr(value, "__self__", None), seen)
    if isinstance(value, tuple | frozenset):
        return all(_is_fixed(each, seen) for each in value)
    if isinstance(value, type):  # nothing in the class can change; what it makes is new each time
        if _is_trusted(value) or value in seen:
            return True
        seen.add(value)
        return all(_is_fixed(each, seen) for each in _members(value.__mro__[:-1]))
    if hasattr(value, "cost") and hasattr(value, "supports"):  # a law is taken at its word
        return True
    if getattr(getattr(value, "__dataclass_params__", None), "frozen", False):
        return all(_is_fixed(getattr(value, name), seen) for name in own_names(value))
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in _MODULES
    if isinstance(value, _NUMBERS):
        return True
    return _is_trusted(type(value)) and _is_fixed(getattr(value, "__self__", None), seen)


def _members(bases: Sequence[type]) -> Iterator[Any]:
    for base in bases:
        given = {*dir(_Named if issubclass(base, tuple) else _Empty)}
        for name, value in () if _is_trusted(base) else vars(base).items():
            known = name in given or isinstance(value, _FIELDS)
            if not known and (_functions(value) or not name.startswith("__")):
                yield value


def _is_trusted(kind: type) -> bool:
    mutable = issubclass(kind, list | dict | set | bytearray) or hasattr(kind, "__next__")
    return kind.__module__.startswith(_TRUSTED) and not mutable


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
        for each in steps(code)
    ):
        raise _remembers(f"{name} stores something outside its own variables")
    kept = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if variable != "__class__":
            kept.append(cell.cell_contents)
    for variable in set(names(code, "GLOBAL")):
        if variable in function.__globals__:
            kept.append(function.__globals__[variable])
        elif variable in _REFUSED or not hasattr(builtins, variable):
            raise _remembers(f"{name} uses {variable!r}")
    for each in kept:
        known = isinstance(each, ModuleType) and each.__name__ in _MODULES
        if not known and not _is_fixed(each, seen):
            raise _remembers(f"{name} reads something that can change")


def peeks(code: CodeType) -> bool:
    """Whether code could tell numbers from what stands for them: by their class, or by trying."""
    asked = {name for name in names(code, "ATTR", "METHOD") if name.startswith("__")}
    formats = any(each.opname.startswith("FORMAT_") for each in steps(code))
    return formats or bool(peeking(code)) or not asked <= {"__getitem__"}


def _remembers(message: str) -> Violation:
    return Violation("fold", f"{message}: a step may depend on what it is given only")


# --------------------------------------------------------------------------------------------------
# A program that singles out no answer by its place, and does not look at how many there are.
#
# That few answers stand for many is checked for five. A program could treat the sixth in another
# way, or answers that are close together. For that it would have to compare numbers, or to name a
# place. So its code is looked at. It may add and subtract, sort, go through all answers, take the
# least, the largest, a slice or the sum. It compares nothing, and the only numbers in it are 0 and
# 1, once each.


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
    for each in steps(code):
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
