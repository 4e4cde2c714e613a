"""Copies of shipped mechanisms with something changed, such as unknowns in place of numbers.

And families of neighbours: those that a unit of bounded reach can make.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, NoReturn

from dpgap.exact.laws import Law, Scalar
from dpgap.exact.parameters import altered as altered
from dpgap.mechanisms.sparse_vector import Branch, SparseVector
from dpgap.proof.checker.numbers import Affine, BadProgram, Condition, Exact, Violation

# --------------------------------------------------------------------------------------------------
# What a program returns, taken apart: the discrete skeleton and the continuous numbers in it.
#
# An alignment may look at the skeleton only. There are countably many skeletons, so there are
# countably many alignments, as the paper's Lemma 1 demands. In place of each continuous number the
# alignment gets a `Sealed` one, which refuses to be used.


_MOST = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Skeleton:
    """An output without its continuous numbers; equal only where all types are equal, too."""

    kind: type
    value: Any
    shown: Any = field(compare=False)

    def __repr__(self) -> str:
        return repr(self.shown)


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
        items: list[Any] = []
        while len(items) <= _MOST:
            try:
                items.append(collect(next(output)))
            except StopIteration as end:
                if end.value is not None:
                    raise BadProgram("the generator returns a value: yield it instead") from None
                return tuple(items)
        raise BadProgram(f"the program never stops: it gave more than {_MOST:,} outcomes")
    kind = type(output)
    # What is compared must not say itself what it equals, or hide something.
    named = isinstance(output, tuple) and kind.__iter__ is tuple.__iter__
    if kind is list or (named and not hasattr(output, "__dict__")):
        return _rebuilt(output, [collect(item) for item in output])
    if kind is dict:
        return {collect(key): collect(item) for key, item in output.items()}
    if kind is Condition:
        return bool(output)
    if kind is float and math.isnan(output):
        raise BadProgram("the program returns NaN, which equals nothing, not even itself")
    if kind not in (Affine, int, bool, float, Fraction, str, type(None)):
        raise BadProgram(
            f"the program returns a {type(output).__name__}: return numbers, strings, None, "
            "or tuples, lists and dicts of them"
        )
    return output


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
        items = output.items() if isinstance(output, dict) else output
        parts = [take_apart(item) for item in items]
        held = tuple(part[0] for part in parts)
        return Skeleton(kind, held, held), [number for part in parts for number in part[1]]
    return Skeleton(kind, output.hex() if kind is float else output, output), []


# --------------------------------------------------------------------------------------------------
# A law for every way to share ε between the threshold and the answers.
#
# In a Sparse Vector the cost of shifting a draw is affine in the threshold's share θ: the
# threshold's grows with θ and the answers' falls. So the whole cost, a sum, is greatest at θ → 0 or
# θ → 1, and what holds at both ends holds for all θ between.


_QUARTER = Fraction(1, 4)
_THREE_QUARTERS = Fraction(3, 4)


@dataclass(frozen=True, slots=True)
class AnyShare:
    """The laws of one draw at θ = ¼ and θ = ¾, standing for all shares."""

    at_quarter: Law
    at_three_quarters: Law

    @property
    def can_tie(self) -> bool:
        """Whether two draws may be equal."""
        return self.at_quarter.can_tie

    @property
    def monotone_cost(self) -> bool:
        """Whether a farther shift is known to cost no less."""
        return self.at_quarter.monotone_cost

    def supports(self, value: Scalar) -> Any:
        """Whether `value` can be drawn at all."""
        return self.at_quarter.supports(value)

    def cost(self, shift: Scalar) -> tuple[Scalar, Scalar]:
        """The cost as θ → 0 and as θ → 1, along the line through ¼ and ¾."""
        low, high = self.at_quarter.cost(shift), self.at_three_quarters.cost(shift)
        return (3 * low - high) / 2, (3 * high - low) / 2


def for_any_share(law_at: Callable[[Fraction], Law]) -> AnyShare:
    """The law that `law_at` gives for each θ, once its cost is seen to be affine in θ.

    A rate is a quotient of polynomials in θ of low degree; if it lies on one line at seven points,
    it is that line.
    """
    low, high = 1 / law_at(_QUARTER).scale, 1 / law_at(_THREE_QUARTERS).scale
    for eighths in range(1, 8):
        share = Fraction(eighths, 8)
        line = low + (high - low) * (share - _QUARTER) / (_THREE_QUARTERS - _QUARTER)
        if 1 / law_at(share).scale != line:
            raise ValueError("the cost is not affine in the threshold's share")
    return AnyShare(law_at(_QUARTER), law_at(_THREE_QUARTERS))


def corners(laws: Sequence[Any], shifts: Sequence[Scalar]) -> list[Scalar]:
    """The whole cost of the shifts; where it depends on θ, at both ends."""
    costs = [law.cost(shift) for law, shift in zip(laws, shifts, strict=True)]
    if not any(isinstance(cost, tuple) for cost in costs):
        return [sum(costs, Fraction(0))]
    return [
        sum((cost[end] if isinstance(cost, tuple) else cost for cost in costs), Fraction(0))
        for end in (0, 1)
    ]


def at_most(laws: Sequence[Any], ranges: Sequence[tuple[Any, Any]], allowed: Exact) -> bool:
    """Whether shifts anywhere in their ranges are certain to cost no more than allowed.

    Only for laws that are known to charge more for farther shifts; others get no answer here.
    """
    if not all(law.monotone_cost for law in laws):
        return False
    if any(high == math.inf for _, high in ranges):
        return False
    farthest = [max(abs(low), abs(high)) for low, high in ranges]
    return all(total <= allowed for total in corners(laws, farthest))


# --------------------------------------------------------------------------------------------------


def any_sparse_vector(
    with_share: Callable[[Fraction], SparseVector], unknown: Callable[[str], Scalar]
) -> SparseVector:
    """A Sparse Vector with any threshold, any margins and any share of ε for the threshold.

    `with_share` makes one for a given share. The program must not look at the share itself: it is
    sealed.
    """
    mechanism = with_share(Fraction(1, 2))

    def any_share(way: Branch) -> Any:
        return for_any_share(lambda share: with_share(share).ways[way.number - 1].law)

    ways = (
        way._replace(law=any_share(way), margin=unknown(f"margin{way.number}"))
        for way in mechanism.ways
    )
    return altered(
        mechanism,
        threshold=unknown("threshold"),
        threshold_law=for_any_share(lambda share: with_share(share).threshold_law),
        ways=tuple(ways),
        threshold_share=Sealed(),
    )


def sums_of_moves(moves: Sequence[Scalar]) -> Iterator[Scalar]:
    """The moves added up with all signs: all are within ±m where their sizes add up to at most m.

    >>> [sum_ for sum_ in sums_of_moves([3, -1])]
    [2, 4]
    """
    first, *rest = moves
    for signs in product((1, -1), repeat=len(rest)):
        yield sum((sign * move for sign, move in zip(signs, rest, strict=True)), first)
