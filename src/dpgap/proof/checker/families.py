"""Copies of shipped mechanisms with something changed, such as unknowns in place of numbers.

And families of neighbours: those that a unit of bounded reach can make.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any, TypeVar

from dpgap.exact.laws import Scalar
from dpgap.mechanisms.sparse_vector import Branch, SparseVector
from dpgap.proof.checker.any_share import for_any_share
from dpgap.proof.checker.output import Sealed

Value = TypeVar("Value")


def altered(mechanism: Value, **changes: Any) -> Value:
    """A copy of a frozen mechanism that differs in the given fields."""
    copy = object.__new__(type(mechanism))
    for field in fields(mechanism):  # type: ignore[arg-type]
        value = changes.get(field.name, getattr(mechanism, field.name))
        object.__setattr__(copy, field.name, value)
    return copy


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
