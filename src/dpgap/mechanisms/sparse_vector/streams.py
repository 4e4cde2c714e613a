"""What a Sparse Vector goes through: answers in a public order, a chunk at a time.

Only the chunk at hand is in memory, so a stream may be as long as an engine can make it.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from dpgap.data.private_counts import Chunk, Found, PrivateCounts, sealed
from dpgap.exact.grid import Grid
from dpgap.exact.reals import Integers


class Stream(NamedTuple):
    """Chunks of answers in whole steps, and labels where they are not the chunks' own."""

    chunks: Iterator[Chunk]
    extremes: Integers
    """The smallest and the largest answer that may come."""
    labels: Sequence[Any] | None = None
    """The labels of the answers by their positions."""
    source: PrivateCounts | None = None
    """Whose facts a mechanism must not contradict; None where answers have no facts."""

    def __repr__(self) -> str:
        return sealed(self)

    @classmethod
    def of(cls, steps: Integers, labels: Sequence[Any] | None) -> Self:
        """All answers at once."""
        everything = Chunk(steps, lambda places: Found(places, None))
        return cls(iter([everything]), np.array([steps.min(), steps.max()]), labels)

    @classmethod
    def on_grid(
        cls,
        answers: PrivateCounts,
        chunks: Iterator[Chunk],
        grid: Fraction | None,
        labels: Sequence[Any] | None = None,
    ) -> Self:
        """Private counts as they come, in steps of the grid."""
        steps = (_in_steps(chunk, grid) for chunk in chunks)
        return cls(steps, Grid(grid).steps([answers.smallest, answers.largest]), labels, answers)

    def together(self, found: Sequence[Found]) -> Found:
        """What was found in one chunk after another."""
        positions = np.concatenate([each.positions for each in found])
        if self.labels is not None:
            labels = self.labels
            return Found(positions, tuple(labels[at] for at in positions.tolist()))
        if any(each.labels is None for each in found):
            return Found(positions, None)
        return Found(positions, tuple(label for each in found for label in each.labels or ()))


def _in_steps(chunk: Chunk, grid: Fraction | None) -> Chunk:
    """A chunk in steps of the grid; nothing may be wrong with it where all of it is absent."""
    return chunk._replace(values=Grid(grid).steps(chunk.values)) if chunk.values.size else chunk
