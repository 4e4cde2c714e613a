"""What a Top-K chooses from: answers one by one, or equal answers in groups.

Both give the same winners with the same chances. One by one costs a look at every answer, in groups
a look at every value, however many answers have it.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from dpgap.data.private_counts import Groups, sealed
from dpgap.exact.bits import Bits
from dpgap.exact.reals import Integers
from dpgap.mechanisms.top_k.grouped import GroupedSelection, select_grouped
from dpgap.mechanisms.top_k.kernel import TopKProgram, select
from dpgap.releases.drawn import Drawn, Ranking

D = TypeVar("D", bound=Drawn)


class Draw(NamedTuple, Generic[D]):
    """What was drawn; and the private answers of the chosen, in steps, to be measured next."""

    drawn: D
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

    def choose(self, program: TopKProgram, bits: Bits) -> Draw[Ranking]:
        """Run the program once."""
        selection = select(program, self.private_answers, 1, bits)
        indices = selection.indices[0]
        ranking = Ranking(indices, named(indices, self.labels), selection.leads[0])
        return Draw(ranking, self.private_answers[indices])


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

    def choose(self, program: TopKProgram, bits: Bits) -> Draw[Ranking]:
        """Run the program once, and look the winners up."""
        return self.found(select_grouped(program, self.private_answers, self.groups.sizes, bits))

    def found(self, selection: GroupedSelection) -> Draw[Ranking]:
        """The winners by their positions, and what they are called."""
        positions, own = self.groups.find(selection.groups, selection.places)
        labels = own if self.labels is None else named(positions, self.labels)
        answers = self.private_answers[selection.groups]
        return Draw(Ranking(positions, labels, selection.leads), answers)


Candidates = OneByOne | InGroups


def named(indices: Integers, labels: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """The labels of some of the answers."""
    return None if labels is None else tuple(labels[i] for i in indices.tolist())
