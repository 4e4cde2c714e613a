"""What is asked of a table beside its counts: filters, groups, sums, and how far a unit reaches.

All of it is public. It is read here, once, before anything is counted or charged. An error names
the argument and says what is accepted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpgap.data.domain import Domain, domain_of, read_domain, text_of
from dpgap.exact.parameters import positive_integer, positive_rational, rational
from dpgap.releases.questions import ADD_OR_REMOVE

if TYPE_CHECKING:
    from dpgap.data.filters import Filter

CENTS = "0.01"
"""The step that amounts are rounded to unless another is stated."""

MAX_CAP = 1 << 40
"""The most steps that a unit may add to an item, so that sums stay exact."""

_FINEST, _COARSEST = Fraction(1, 10**9), Fraction(10**9)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is asked, and what one unit may add to it at most.

    >>> Bounds(column="amount", at_most=Fraction(50), step=Fraction("0.01")).cap
    5000
    """

    max_items: int | None = None
    by: str | None = None
    groups: Domain | None = field(default=None, repr=False)
    max_groups: int = 1
    column: str | None = None
    """The column of amounts, where they are added up."""
    at_most: Fraction = Fraction(1)
    at_least: Fraction = Fraction(0)
    step: Fraction = Fraction(1)
    where: "Filter | None" = None

    @property
    def is_plain(self) -> bool:
        """Whether units are only counted, whatever the rows are."""
        return self.max_items is None and self.by is None and self.column is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be there beside unit and item, each once."""
        named = (self.by, self.column, *(self.where.columns if self.where else ()))
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def cap(self) -> int:
        """The most steps that a unit adds to an item."""
        return int(self.at_most / self.step)

    @property
    def floor(self) -> int:
        """The least steps that a unit adds to an item: 0, or fewer."""
        return int(self.at_least / self.step)

    def sensitivity(self, neighbours: str) -> Fraction:
        """How many steps one unit can move an answer. A unit that is not there adds 0."""
        if neighbours == ADD_OR_REMOVE:
            return Fraction(max(self.cap, -self.floor))
        return Fraction(self.cap - self.floor)

    def is_monotonic(self, neighbours: str) -> bool:
        """Whether one unit moves all answers the same way."""
        return neighbours == ADD_OR_REMOVE and self.floor == 0


def read_bounds(
    *,
    is_unknown: bool,
    neighbours: str,
    max_items: Any = None,
    by: Any = None,
    groups: Any = None,
    max_groups: Any = 1,
    sum: Any = None,
    at_most: Any = None,
    at_least: Any = 0,
    step: Any = CENTS,
    where: Any = None,
) -> Bounds:
    """The keywords of a question, if they are in order and go together."""
    for role, value in (("by", by), ("sum", sum), ("where", where)):
        if not isinstance(value, str | None):
            raise TypeError(f"{role} must be text, not {type(value).__name__}")
    if max_items is not None:
        max_items = positive_integer("max_items", max_items)
    elif is_unknown:
        raise TypeError(
            "domain must be a list, a range, a file or a frame of public items; None, for items "
            "that nobody listed, needs max_items: the most that one unit may count for"
        )
    max_groups = positive_integer("max_groups", max_groups)
    if by is None and (groups is not None or max_groups != 1):
        raise ValueError("groups and max_groups need by: the column that says which group it is")
    if by is not None and groups is None:
        raise ValueError("by needs groups: the public values of that column")
    _require_add_or_remove(neighbours, max_items=max_items, by=by, unknown=is_unknown or None)
    return Bounds(
        max_items=max_items,
        by=by,
        groups=None if by is None else _read_groups(groups),
        max_groups=max_groups,
        where=None if where is None else _read_filter(where),
        **_read_sum(sum, at_most, at_least, step),
    )


def _require_add_or_remove(neighbours: str, **given: Any) -> None:
    words = {"max_items": "max_items", "by": "by", "unknown": "domain=None"}
    for name, value in given.items():
        if value is not None and neighbours != ADD_OR_REMOVE:
            raise ValueError(
                f"{words[name]} needs neighbours {ADD_OR_REMOVE!r}: where a unit is replaced, both "
                "its old and its new items and groups move, which doubles the noise"
            )


def _read_filter(where: str) -> "Filter":
    from dpgap.data.filters import read_filter

    return read_filter(where)


def _read_groups(groups: Any) -> Domain:
    """The public groups, each named once."""
    is_frame = hasattr(groups, "columns")
    if is_frame or isinstance(groups, str | bytes | dict) or not isinstance(groups, Iterable):
        raise TypeError(f"groups must be a list of public values, not {type(groups).__name__}")
    if isinstance(groups, range) and groups:
        stated = read_domain(groups)
        return Domain(tuple(groups), stated.words, tuple(map(str, groups)))
    labels = list(groups)
    if not labels:
        raise ValueError("groups must not be empty")
    if any(label is None or label != label for label in labels):
        raise ValueError("groups must not hold None or NaN: rows without a group are in none")
    texts = [text_of(label) for label in labels]
    if min(len(set(texts)), len(set(labels))) < len(texts):  # to Python, 1 and True are equal
        each = zip(texts, labels, strict=True)
        twice = next(a for a, b in each if max(texts.count(a), labels.count(b)) > 1)
        raise ValueError(f"groups must be named once each, but {twice!r} is there twice")
    return domain_of(labels, "a list of {count} groups")


def _read_sum(column: str | None, at_most: Any, at_least: Any, step: Any) -> dict[str, Any]:
    """What is added up: nothing, or a column with its caps and the step of its amounts."""
    if column is None:
        if at_most is not None or at_least != 0 or step != CENTS:
            raise ValueError("at_most, at_least and step need sum: the column of amounts")
        return {}
    if at_most is None:
        raise ValueError("sum needs at_most: the most that one unit may add to an item")
    width, most = positive_rational("step", step), positive_rational("at_most", at_most)
    least = rational("at_least", at_least)
    if least > 0:
        raise ValueError(f"at_least must be 0 or below, not {at_least!r}: a missing unit adds 0")
    if not _FINEST <= width <= _COARSEST or max(width.numerator, width.denominator) > 10**9:
        raise ValueError(f"step must be a number such as 0.01, from 10^-9 to 10^9, not {step!r}")
    for name, end in (("at_most", most), ("at_least", least)):
        if (end / width).denominator != 1:
            raise ValueError(f"{name} must be a multiple of step, {width}, not {end}")
        if abs(end / width) > MAX_CAP:
            raise ValueError(f"{name} must be at most 2^40 steps: state a larger step")
    return {"column": column, "at_most": most, "at_least": least, "step": width}
