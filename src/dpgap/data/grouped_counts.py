"""Answers given by value: how many there are of each, however many that is.

A Top-K needs no more than this to choose. So a billion answers with ten different values cost no
more than ten answers. Values and sizes are as private as the answers themselves. What is released
of a winner is the position that `member` gives, which must say nothing but who it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap._package import public
from dpgap.data.private_counts import Found, Groups, Integers
from dpgap.data.tracebacks import errors_without_answers
from dpgap.exact.grid import MAX_STEPS, as_array


@public
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class GroupedAnswers:
    """Answers given by value, for a Top-K over more answers than fit in memory.

    What one person can change is for the mechanism to be told, as with a bare array.

    Parameters
    ----------
    values
        The different values.
    sizes
        How many answers have each of them.
    member
        `member(group, place)` is called for every winner with numbers from 0 up, and gives its
        position in a public order of all answers. Every place below the group's size is as likely
        as any other, so members may be in any order that stays the same during the call.

    >>> import dpgap
    >>> answers = GroupedAnswers.of([7, 9, 7, 7])
    >>> dpgap.NoisyMax(epsilon=1000).release(answers, labels=["fig", "pea", "oat", "rye"]).label
    'pea'
    """

    values: NDArray[Any]
    sizes: Integers
    member: Callable[[int, int], int]

    @errors_without_answers
    def __init__(
        self, values: ArrayLike, sizes: ArrayLike, member: Callable[[int, int], int]
    ) -> None:
        keep = object.__setattr__
        keep(self, "values", as_array(values, "values"))
        keep(self, "sizes", _whole_sizes(sizes))
        if self.values.shape != self.sizes.shape:
            raise ValueError("values and sizes must be flat and of the same length")
        if not callable(member):
            raise TypeError("member must be a function of a group and a place in it")
        keep(self, "member", member)

    @classmethod
    @errors_without_answers
    def of(cls, answers: ArrayLike) -> Self:
        """Group `answers` that are given one by one."""
        values, group_of, sizes = np.unique(
            as_array(answers, "answers"), return_inverse=True, return_counts=True
        )
        by_group = np.argsort(group_of, kind="stable")
        starts = np.cumsum(sizes) - sizes
        return cls(values, sizes, lambda group, place: int(by_group[starts[group] + place]))

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "answers in groups are for NoisyTopK, NoisyMax, JointTopK, HybridTopK and "
            "measured_top_k only"
        )

    def __repr__(self) -> str:
        return f"<private answers in groups: {len(self)} in all>"

    def groups(self) -> Groups:
        """The same, as a Top-K looks at them."""
        return Groups(self.values, self.sizes, self._find)

    def _find(self, groups: Integers, places: Integers) -> Found:
        pairs = zip(groups.tolist(), places.tolist(), strict=True)
        positions = [self.member(group, place) for group, place in pairs]
        if not all(isinstance(position, int | np.integer) for position in positions):
            raise TypeError("member must give a whole number: the position of one answer")
        if not all(0 <= position < len(self) for position in positions):
            raise ValueError("member must give a position from 0 up, below the number of answers")
        return Found(np.array(positions, dtype=np.int64), None)


def _whole_sizes(sizes: ArrayLike) -> Integers:
    array = np.asarray(sizes)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise TypeError("sizes must be a flat sequence of whole numbers, and not empty")
    if int(array.min()) < 1 or sum(array.tolist()) > MAX_STEPS:
        raise ValueError("sizes must be at least 1 each and at most 2^60 together")
    return array.astype(np.int64)
