"""Copies of shipped mechanisms with something changed: symbols for numbers, or a fault."""

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, TypeVar

from dpgap.exact.laws import Law, Scalar
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.mechanism import Branch, SparseVector
from dpgap.proof.output import Sealed
from dpgap.proof.shares import for_all_shares

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

    `with_share` makes one for a given share. The program must not look at ε or the share itself:
    they are sealed.
    """
    mechanism = with_share(Fraction(1, 2))

    def any_share(way: Branch) -> Any:
        return for_all_shares(lambda share: with_share(share).ways[way.number - 1].law)

    ways = (
        way._replace(law=any_share(way), margin=unknown(f"margin{way.number}"))
        for way in mechanism.ways
    )
    return altered(
        mechanism,
        threshold=unknown("threshold"),
        threshold_law=for_all_shares(lambda share: with_share(share).threshold_law),
        ways=tuple(ways),
        threshold_share=Sealed(),
    )


def with_scales(mechanism: Value, factor: Fraction) -> Value:
    """The mechanism with all its noise this many times as large, and nothing else changed."""
    if isinstance(mechanism, SparseVector):
        ways = (way._replace(law=_scaled(way.law, factor)) for way in mechanism.ways)
        return altered(
            mechanism,
            threshold_law=_scaled(mechanism.threshold_law, factor),
            ways=tuple(ways),
        )
    if isinstance(mechanism, Laplace | CountHull | Cube):  # it makes its law as it runs
        return altered(mechanism, epsilon=mechanism.epsilon / factor)
    return altered(mechanism, law=_scaled(mechanism.law, factor))  # type: ignore[attr-defined]


def _scaled(law: Law, factor: Fraction) -> Law:
    return replace(law, scale=law.scale * factor)
