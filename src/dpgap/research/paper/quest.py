"""The IBM Quest generator of transactions, written from its description.

Agrawal and Srikant (VLDB 1994): customers buy *patterns*, sets of items that go together, and
seldom all of a pattern. A transaction takes patterns, each with some items missing, until it has
about as many items as it set out to have. T40I10D100K means transactions of 40 items on average,
patterns of 10, and 100,000 transactions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.draws import Integers
from dpgap.exact.parameters import positive_integer

Rng = np.random.Generator

_CONFIDENCE_SPREAD = 0.1
_MOST_BARREN = 200
"""After so many patterns in a row that add nothing, a transaction is left as it is."""
_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Transactions:
    """Sets of items: those of transaction i are `items[starts[i]:starts[i + 1]]`, in order."""

    items: Integers
    starts: Integers

    def __len__(self) -> int:
        return self.starts.size - 1

    @property
    def lengths(self) -> Integers:
        """How many items each transaction has."""
        return np.diff(self.starts)

    def counts(self) -> tuple[Integers, Integers]:
        """The items that occur, and in how many transactions each does."""
        found, counts = np.unique(self.items, return_counts=True)
        return found, counts.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Quest:
    """A recipe for transactions; by default that of T40I10D100K.

    >>> made = Quest(transactions=500).generate(seed=1)
    >>> len(made), round(made.lengths.mean() / 10)
    (500, 4)
    """

    transactions: int = 100_000
    length: float = 40
    pattern_length: float = 10
    items: int = 1_000
    patterns: int = 2_000
    correlation: float = 0.25
    confidence: float = 0.75

    def __post_init__(self) -> None:
        for name in ("transactions", "items", "patterns"):
            positive_integer(name, getattr(self, name))
        for name in ("length", "pattern_length"):
            if not 1 <= getattr(self, name) <= self.items:
                raise ValueError(f"{name} must lie between 1 and items, {self.items}")
        for name in ("correlation", "confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1")

    def generate(self, seed: int | None = None) -> Transactions:
        """Make transactions; the same ones for the same seed."""
        rng = np.random.Generator(np.random.PCG64(seed))
        targets = 1 + rng.poisson(self.length - 1, self.transactions)
        anyway = rng.random(self.transactions) < 0.5
        patterns, sizes = self._patterns(rng)
        known = np.unique(patterns[np.arange(patterns.shape[1]) < sizes[:, None]])
        targets = np.minimum(targets, known.size)  # more items can be in no transaction
        bought = self._bought(rng, patterns, sizes)
        cells: list[int] = []
        waiting = next(bought)
        for number, (target, take) in enumerate(
            zip(targets.tolist(), anyway.tolist(), strict=True)
        ):
            basket: set[int] = set()
            barren = 0
            while len(basket) < target and barren < _MOST_BARREN:
                larger = basket.union(waiting)
                barren = 0 if len(larger) > len(basket) else barren + 1
                overflows = len(larger) > target
                if overflows and basket and not take:
                    break  # what does not fit opens the next transaction
                basket = larger
                waiting = next(bought)
                if overflows:
                    break
            base = number * self.items
            cells += [base + item for item in basket]
        flat = np.sort(np.array(cells, dtype=np.int64))
        lengths = np.bincount(flat // self.items, minlength=self.transactions)
        return Transactions(flat % self.items, np.append(0, lengths.cumsum()))

    def _bought(self, rng: Rng, patterns: Integers, sizes: Integers) -> Iterator[list[int]]:
        """Patterns by weight, without end, each without the items that go missing."""
        weights = rng.standard_exponential(self.patterns)
        weights /= weights.sum()
        confidence = rng.normal(self.confidence, _CONFIDENCE_SPREAD, self.patterns).clip(0, 1)
        columns = np.arange(patterns.shape[1])
        while True:
            pick = rng.choice(self.patterns, _AT_ONCE, p=weights)
            keep = sizes[pick] - np.minimum(_dropped(rng, confidence[pick]), sizes[pick])
            keys = rng.random((pick.size, columns.size))
            keys[columns >= sizes[pick][:, None]] = 2  # no item there: it comes last
            shuffled = np.take_along_axis(patterns[pick], np.argsort(keys, axis=1), axis=1)
            kept = shuffled[columns < keep[:, None]].tolist()
            ends = keep.cumsum().tolist()
            for start, end in pairwise([0, *ends]):
                yield kept[start:end]

    def _patterns(self, rng: Rng) -> tuple[Integers, Integers]:
        """Patterns, one a row, and how long each is; neighbours share items."""
        weights = rng.standard_exponential(self.items)
        sizes = np.minimum(1 + rng.poisson(self.pattern_length - 1, self.patterns), self.items)
        shares = np.rint(sizes * self.correlation * rng.standard_exponential(self.patterns))
        patterns = np.zeros((self.patterns, int(sizes.max())), dtype=np.int64)
        before = patterns[0, :0]
        for row, size, share in zip(patterns, sizes.tolist(), shares.tolist(), strict=True):
            taken = rng.choice(before, min(int(share), size, before.size), replace=False)
            # The least of exponentials with these rates: a draw by weight without repetition.
            race = rng.standard_exponential(self.items) / weights
            race[taken] = np.inf
            fresh = np.argsort(race)[: size - taken.size]
            row[:size] = np.concatenate([taken, fresh])
            before = row[:size]
        return patterns, sizes


def _dropped(rng: Rng, confidence: NDArray[np.float64]) -> Integers:
    """How many items go missing: one more for every toss above the confidence."""
    with np.errstate(divide="ignore"):
        falls = rng.standard_exponential(confidence.size) / -np.log1p(-confidence)
    return np.floor(np.minimum(falls, 1e6)).astype(np.int64)
