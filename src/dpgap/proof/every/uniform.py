"""A program that singles out no answer by its place, and does not look at how many there are.

That few answers stand for many is checked for five. A program could treat the sixth in another way,
or answers that are close together. For that it would have to compare numbers, or to name a place.
So its code is looked at. It may add and subtract, sort, go through all answers, take the least, the
largest, a slice or the sum. It compares nothing, and the only numbers in it are 0 and 1, once each.
"""

import dis
from collections import Counter
from types import CodeType, FunctionType
from typing import Any

from dpgap.proof.checker.numbers import Violation
from dpgap.proof.every.memory import inner, names, peeks

_FUNCTIONS = {"sorted", "range", "len", "min", "max", "tuple", "list", "zip", "sum"}
_ARITHMETIC = {"+", "-", "*", "/"}
_METHODS = {"draw", "index", "__getitem__"}
_LAWS = "dpgap.exact"


def require_uniform(kind: type, name: str = "run") -> None:
    """Raise a violation if a method, or one of its own that it calls, can tell places apart."""
    _require(kind, name, set())


def _require(kind: Any, name: str, seen: set[str]) -> None:
    found = getattr(kind, name, None)
    if name in seen or not isinstance(found, FunctionType):
        return
    seen.add(name)
    code = found.__code__
    if found.__defaults__ or found.__kwdefaults__ or code.co_freevars or peeks(code):
        raise _uneven(f"{name} has defaults or variables from outside, or sees that it is proved")
    if not all(_is_known(each, found) for each in names(code, "GLOBAL")):
        raise _uneven(f"{name} calls more than is known to treat all alike")
    parts = [code, *inner(code)]
    numbers = Counter(number for part in parts for number in _numbers(part))
    if numbers.keys() - {0, 1} or any(times > 1 for times in numbers.values()):
        raise _uneven(f"{name} has numbers in it that can single out a place")
    for each in (each for part in parts for each in dis.get_instructions(part)):
        _require_plain(name, each)
    for other in names(code, "ATTR", "METHOD"):
        if not hasattr(kind, other) and other not in _METHODS:
            raise _uneven(f"{name} uses {other!r}")
        _require(kind, other, seen)


def _is_known(name: str, function: FunctionType) -> bool:
    if name in function.__globals__:
        value = function.__globals__[name]
        return isinstance(value, type) and value.__module__.startswith(_LAWS)
    return name in _FUNCTIONS


def _numbers(code: CodeType) -> list[Any]:
    found = []
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST"):
            parts = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            found += [part for part in parts if type(part) in (int, float, complex, tuple)]
    return found


def _require_plain(name: str, each: dis.Instruction) -> None:
    if each.opname == "COMPARE_OP" or "JUMP_IF" in each.opname:
        raise _uneven(f"{name} compares numbers")
    if each.opname == "BINARY_OP" and each.argrepr not in {*_ARITHMETIC, "[]"}:
        raise _uneven(f"{name} computes with {each.argrepr}")
    if each.opname.startswith(("STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "IMPORT")):
        raise _uneven(f"{name} stores something outside its own variables")


def _uneven(message: str) -> Violation:
    return Violation("restriction", message)
