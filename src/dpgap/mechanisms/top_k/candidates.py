"""What a Top-K chooses from: answers one by one, or equal answers in groups.

Both give the same winners with the same chances. One by one costs a look at every answer, in groups
a look at every value, however many answers have it.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from dpgap.data.private_counts import Groups, sealed
from dpgap.exact.bits import Bits
from dpgap.exact.draws import Integers
from dpgap.mechanisms.top_k.grouped import select_grouped
from dpgap.mechanisms.top_k.kernel import TopKProgram, select

R = TypeVar("R")


class Chosen(NamedTuple):
    """The winners, best first; `private_answers` are their own, in steps."""

    indices: Integers
    private_answers: Integers
    leads: Integers
    labels: tuple[Any, ...] | None

    def __repr__(self) -> str:
        return sealed(self)


class Drawn(NamedTuple, Generic[R]):
    """A release, and the private answers of what was selected, for whoever measures them next."""

    release: R
    private_answers: Integers

    def __repr__(self) -> str:
        return sealed(self)


class OneByOne(NamedTuple):
    """An answer in steps for every candidate."""

    private_answers: Integers
    labels: Sequence[Any] | None

    def __repr__(self) -> str:
        return sealed(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.private_answers.size

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        lowest = self.size - max(ranks)
        top = np.sort(np.partition(self.private_answers, lowest)[lowest:])
        return top[[-rank for rank in ranks]]

    def choose(self, program: TopKProgram, bits: Bits) -> Chosen:
        """Run the program once."""
        selection = select(program, self.private_answers, 1, bits)
        indices = selection.indices[0]
        return Chosen(
            indices, self.private_answers[indices], selection.leads[0], named(indices, self.labels)
        )


class InGroups(NamedTuple):
    """An answer in steps for every group, and the groups."""

    private_answers: Integers
    labels: Sequence[Any] | None
    """Labels of the answers by their positions, where they are not the groups' own."""
    groups: Groups

    def __repr__(self) -> str:
        return sealed(self)

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.groups.sizes.sum())

    def at_ranks(self, ranks: Sequence[int]) -> Integers:
        """The answers at some ranks, from 1 for the largest."""
        order = np.argsort(-self.private_answers)
        ends = np.cumsum(self.groups.sizes[order])
        return self.private_answers[order[np.searchsorted(ends, ranks)]]

    def choose(self, program: TopKProgram, bits: Bits) -> Chosen:
        """Run the program once, and look the winners up."""
        selection = select_grouped(program, self.private_answers, self.groups.sizes, bits)
        positions, own = self.groups.find(selection.groups, selection.places)
        labels = own if self.labels is None else named(positions, self.labels)
        return Chosen(positions, self.private_answers[selection.groups], selection.leads, labels)


Candidates = OneByOne | InGroups


def named(indices: Integers, labels: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """The labels of some of the answers."""
    return None if labels is None else tuple(labels[i] for i in indices.tolist())
