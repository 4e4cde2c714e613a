"""A program treats all positions alike, and does not use the number of answers.

`few_answers` checks five answers. A program could treat the sixth in another way, or answers that
are close together. For this it would have to compare numbers, or to name a position. So its code
is read. It may add and subtract, sort, go through all answers, take the least, the largest, a
slice or the sum. It must compare nothing, and have no numbers but 0 and 1, once each.
"""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any

from dpgap.proof.checker.numbers import Violation
from dpgap.proof.checker.programs import (
    instructions,
    names,
)
from dpgap.proof.every.memory import peeks

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
