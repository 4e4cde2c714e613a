"""The output of a kernel: whole numbers and names, and nothing else.

A float that was computed from a private number can reveal this number in its low bits. So a kernel
returns one of the types below, which refuse everything but whole numbers. The method `build` of a
mechanism, a route or a question about a table makes the release. It is a function of these numbers
and of public parameters. `tests/releases/test_rebuild.py` keeps the numbers, builds every kind of
release again in another process, and compares the documents.

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
    """The answers that were chosen, and their labels."""

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
    """The answers above, in the order asked: branches and gaps over the noisy threshold."""

    branches: Integers
    gaps: Integers
    used: int
    processed: int


@dataclass(frozen=True, slots=True, eq=False)
class ReadOff(Chosen):
    """The largest noisy answers of all, best first."""

    values: Integers
    line: int | None
    """The best of the other noisy answers, or the stated threshold if that is higher."""
    coin: int | None
    """The coin that breaks ties with that answer, in 2^24ths; 0 for a stated threshold."""


C = TypeVar("C", bound=Drawn)


@dataclass(frozen=True, slots=True, eq=False)
class Measuring(Drawn, Generic[C]):
    """The draws of a pipeline: perhaps a look, the chosen answers, and their measurements."""

    chosen: C
    values: Values | None = None
    """None if nothing was measured: the chosen have values already, or nothing was chosen."""
    looked: Values | None = None
    among: int | None = None
    """After a look: how many answers there are, which is public."""
    route: int | None = None
    """After a look: the number of the route that follows from it."""
