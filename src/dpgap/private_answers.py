"""Private counts made from a table: they carry their facts and never show a value.

A count says how many units (people, baskets, rows) an item has. Only the items that are present
are kept; all others of the public domain count 0 and are written out only when a mechanism needs
an array. Mechanisms compare the facts with their own claims and refuse answers that contradict
them; a bare array takes the mechanism's word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]

MAX_EXPANDED = 10**8
"""The most items of a domain that are written out as an array."""


class Origin(NamedTuple):
    """Where counts come from, as far as it is public."""

    unit: str
    item: str
    domain: str
    """The public domain in words."""
    neighbours: str
    is_private: bool
    """Whether the domain was stated, not read from the private table."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Answers:
    """Counts over a public domain, with what is known of them.

    >>> Answers(range(5), np.array([3]), np.array([120]), Fraction(1), monotonic=True)
    <private answers: 5 items, sensitivity 1, monotonic>
    """

    labels: Sequence[Any]
    """The public domain, in order."""
    positions: Integers
    """Where in `labels` the items are that are present."""
    counts: Integers
    """The count of each present item."""
    sensitivity: Fraction
    monotonic: bool
    origin: Origin | None = None

    @property
    def absent(self) -> int:
        """How many items of the domain count 0."""
        return len(self.labels) - self.positions.size

    def expanded(self) -> Integers:
        """All counts in the order of the domain, absent items included."""
        if len(self.labels) > MAX_EXPANDED:
            raise ValueError(
                f"domain must have at most {MAX_EXPANDED:,} items for this mechanism, "
                f"not {len(self.labels):,}"
            )
        counts = np.zeros(len(self.labels), dtype=np.int64)
        counts[self.positions] = self.counts
        return counts

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        direction = "monotonic" if self.monotonic else "not monotonic"
        return (
            f"<private answers: {len(self.labels)} items, sensitivity {self.sensitivity}, "
            f"{direction}>"
        )


def opened(
    answers: "ArrayLike | Answers",
    labels: Sequence[Any] | None,
    *,
    sensitivity: Fraction,
    monotonic: bool = False,
) -> tuple[ArrayLike, Sequence[Any] | None]:
    """The array and the labels of `answers`, if they do not contradict what a mechanism claims."""
    if not isinstance(answers, Answers):
        return answers, labels
    if sensitivity < answers.sensitivity:
        raise ValueError(
            f"sensitivity must be at least that of the answers, {answers.sensitivity}, "
            f"not {sensitivity}"
        )
    if monotonic and not answers.monotonic:
        raise ValueError("monotonic must be False: replacing a unit moves these answers both ways")
    return answers.expanded(), answers.labels if labels is None else labels
