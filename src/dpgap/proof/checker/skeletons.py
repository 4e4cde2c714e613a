"""The two parts of an output: its discrete skeleton, and the continuous numbers in it.

An alignment may use only the skeleton. There are countably many skeletons, so there are countably
many alignments, as Lemma 1 of the paper needs. In place of each continuous number the alignment
gets a `Sealed` one: every use of it is an error.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from dpgap.proof.checker.numbers import (
    Affine,
    BadProgram,
    Condition,
    Violation,
)

if TYPE_CHECKING:
    pass


MOST_OUTCOMES = 10_000
"""The most draws and outcomes; a program with more is refused, because it may never stop."""


@dataclass(frozen=True, slots=True, repr=False)
class Skeleton:
    """An output without its continuous numbers; equal only if all types are equal too."""

    kind: type
    value: Any
    display: Any = field(compare=False)
    """The value without its types, for messages."""

    def __repr__(self) -> str:
        return repr(self.display)


class Sealed:
    """A continuous part of the output, as an alignment sees it: any use of it is an error."""

    __array_ufunc__ = None
    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise self._when_used()

    def _when_used(self) -> Violation:
        return Violation(
            "discrete",
            "the alignment uses a continuous part of the output: it may use the discrete part only "
            "(indices, branches, how many), or there would be uncountably many alignments",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __neg__ = __pos__ = __abs__ = __float__ = __int__ = __round__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __index__ = _refuse
    __floor__ = __ceil__ = __trunc__ = __pow__ = __mod__ = __floordiv__ = _refuse
    __eq__ = __ne__ = __repr__ = __str__ = __format__ = _refuse


def collect(output: Any) -> Any:
    """Run generators in the output to their end; refuse what cannot be compared."""
    if isinstance(output, Iterator):
        return _collect_outcomes(output)
    kind = type(output)
    # Compared values must not define their own equality, or hide something.
    is_plain_tuple = isinstance(output, tuple) and kind.__iter__ is tuple.__iter__
    if kind is list or (is_plain_tuple and not hasattr(output, "__dict__")):
        return _rebuilt(output, [collect(item) for item in output])
    if kind is dict:
        return {collect(key): collect(item) for key, item in output.items()}
    if kind is Condition:
        return bool(output)
    if kind is float and math.isnan(output):
        raise BadProgram("the program returns NaN, which equals nothing, not even itself")
    if kind not in (Affine, int, bool, float, Fraction, str, type(None)):
        problem = f"the program returns a value of type {kind.__name__}"
        if kind.__module__ == "numpy":
            problem = f"the program returns a NumPy {kind.__name__}: write int(…) or list(…)"
        raise BadProgram(f"{problem}: return numbers, strings, None, or tuples, lists and dicts")
    return output


def _collect_outcomes(outcomes: Iterator[Any]) -> tuple[Any, ...]:
    items: list[Any] = []
    while len(items) <= MOST_OUTCOMES:
        try:
            items.append(collect(next(outcomes)))
        except StopIteration as end:
            if end.value is not None:
                raise BadProgram("the generator returns a value: yield it instead") from None
            return tuple(items)
    raise BadProgram(f"the program never stops: it gave more than {MOST_OUTCOMES:,} outcomes")


def _rebuilt(like: Any, items: list[Any]) -> Any:
    return items if isinstance(like, list) else tuple.__new__(type(like), items)


def seal(output: Any) -> Any:
    """The output as an alignment may see it."""
    if isinstance(output, Affine):
        return Sealed()
    if isinstance(output, tuple | list):
        return _rebuilt(output, [seal(item) for item in output])
    if isinstance(output, dict):
        return {key: seal(item) for key, item in output.items()}
    return output


def take_apart(output: Any) -> tuple[Skeleton, list[Affine]]:
    """The skeleton, and the continuous numbers in the order in which they occur."""
    kind = type(output)
    if kind is Affine:
        return Skeleton(kind, None, "a number"), [output]
    if isinstance(output, tuple | list | dict):
        skeletons = []
        numbers: list[Affine] = []
        for item in output.items() if isinstance(output, dict) else output:
            skeleton, item_numbers = take_apart(item)
            skeletons.append(skeleton)
            numbers += item_numbers
        return Skeleton(kind, tuple(skeletons), tuple(skeletons)), numbers
    return Skeleton(kind, output.hex() if kind is float else output, output), []
