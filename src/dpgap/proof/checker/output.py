"""What a program returns, taken apart: the discrete skeleton and the continuous numbers in it.

An alignment may look at the skeleton only. There are countably many skeletons, so there are
countably many alignments, as the paper's Lemma 1 demands. In place of each continuous number the
alignment gets a `Sealed` one, which refuses to be used.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NoReturn

from dpgap.proof.checker.numbers import Affine, BadProgram, Condition, Violation

_MOST = 10_000

Skeleton = Any
"""An output with every continuous number replaced by `CONTINUOUS`; can be hashed."""

CONTINUOUS = "a number"

_SEAL_BROKEN = (
    "the alignment uses a continuous part of the output: it may use the discrete part only "
    "(indices, branches, how many), or there would be uncountably many alignments"
)


class Sealed:
    """A continuous part of the output, as an alignment sees it: there, but not to be used."""

    __array_ufunc__ = None
    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise Violation("discrete", _SEAL_BROKEN)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __neg__ = __pos__ = __abs__ = __float__ = __int__ = __round__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __index__ = _refuse
    __floor__ = __ceil__ = __trunc__ = __pow__ = __mod__ = __floordiv__ = _refuse
    __eq__ = __ne__ = _refuse

    def __repr__(self) -> str:
        return "<a continuous part of the output>"


def collect(output: Any) -> Any:
    """Run generators in the output to their end; refuse what cannot be compared."""
    if isinstance(output, Iterator):
        items = []
        for item in output:
            items.append(collect(item))
            if len(items) > _MOST:
                raise BadProgram(f"the program never stops: it gave more than {_MOST:,} outcomes")
        return tuple(items)
    if isinstance(output, tuple | list):
        return _rebuilt(output, [collect(item) for item in output])
    if isinstance(output, dict):
        return {key: collect(item) for key, item in output.items()}
    if isinstance(output, Condition):
        return bool(output)
    if isinstance(output, float) and math.isnan(output):
        raise BadProgram("the program returns NaN, which equals nothing, not even itself")
    if not isinstance(output, Affine | int | float | Fraction | str | None):
        raise BadProgram(
            f"the program returns a {type(output).__name__}: return numbers, strings, None, "
            "or tuples, lists and dicts of them"
        )
    return output


def _rebuilt(like: Any, items: list[Any]) -> Any:
    if hasattr(like, "_make"):  # a named tuple
        return like._make(items)
    return type(like)(items)


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
    if isinstance(output, Affine):
        return CONTINUOUS, [output]
    if isinstance(output, tuple | list | dict):
        items = output.items() if isinstance(output, dict) else output
        parts = [take_apart(item) for item in items]
        return tuple(part[0] for part in parts), [number for part in parts for number in part[1]]
    return output, []
