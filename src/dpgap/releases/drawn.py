"""What leaves a kernel: whole numbers, names, and nothing else.

A float that was computed beside a private number can reveal that number in its low bits. So a
kernel returns one of the values below, which refuse everything but whole numbers. A method called
`build` makes the release, of a mechanism, of a route, or of a question about a table. It is a
function of these numbers and of public parameters. `tests/releases/test_rebuild.py` keeps the
numbers, builds every kind of release anew in another process, and compares the documents.

Lengths are in whole steps of the mechanism's grid.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from dpgap.exact.reals import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Whole numbers that were drawn; a float is refused."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is None or type(value) is int or name == "labels":
                continue
            whole = isinstance(value, np.ndarray) and value.dtype.type is np.int64
            if not whole and not isinstance(value, Drawn):
                kind = type(value).__name__
                raise TypeError(f"{name} must be whole numbers, not of type {kind}")


@dataclass(frozen=True, slots=True, eq=False)
class Values(Drawn):
    """Noisy answers."""

    values: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Chosen(Drawn):
    """Which answers were chosen, and what they are called."""

    indices: Integers
    labels: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Chosen):
    """The winners, best first, and each one's lead over the best loser."""

    leads: Integers


@dataclass(frozen=True, slots=True, eq=False)
class TopSet(Chosen):
    """The winning set, and its lead over the second best in *half* steps."""

    lead: int


@dataclass(frozen=True, slots=True, eq=False)
class Above(Chosen):
    """What was above, in the order asked: its branch and its gap over the noisy threshold."""

    branches: Integers
    gaps: Integers
    used: int
    processed: int


@dataclass(frozen=True, slots=True, eq=False)
class ReadOff(Chosen):
    """The largest noisy answers of all, best first."""

    values: Integers
    line: int | None
    """The best noisy answer that is not among them, or the stated line if that is higher."""
    coin: int | None
    """The coin that breaks ties with that answer, in 2^24ths; 0 for a stated line."""


C = TypeVar("C", bound=Drawn)


@dataclass(frozen=True, slots=True, eq=False)
class Measuring(Drawn, Generic[C]):
    """What a pipeline draws: perhaps a look, what was chosen, and noisy answers of that."""

    chosen: C
    values: Values | None = None
    """None where nothing was measured: the chosen have values already, or nothing was chosen."""
    looked: Values | None = None
    among: int | None = None
    """After a look: how many answers there are, which is public."""
    route: int | None = None
    """After a look: the number of the route that follows from it."""
