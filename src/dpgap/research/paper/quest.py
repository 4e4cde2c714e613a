"""The IBM Quest generator of transactions, written from its description.

Agrawal and Srikant (VLDB 1994): customers buy *patterns*, sets of items that go together, and
seldom all of a pattern. A transaction takes patterns, each with some items missing, until it has
about as many items as it set out to have. T40I10D100K means transactions of 40 items on average,
patterns of 10, and 100,000 transactions.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpgap.exact.reals import Integers

Rng = np.random.Generator

_LENGTH = 40
_PATTERN_LENGTH = 10
_ITEMS = 1_000
_PATTERNS = 2_000
_CORRELATION = 0.25
"""How much of a pattern comes, on average, from the one before it."""
_CONFIDENCE, _CONFIDENCE_SPREAD = 0.75, 0.1
"""How likely a pattern is to keep an item."""
_AT_ONCE = 1 << 14


def make_t40i10(transactions: int, seed: int) -> tuple[Integers, Integers]:
    """Purchases: the transaction and the item of each, in order; the same for the same seed.

    >>> transactions, items = make_t40i10(500, seed=1)
    >>> np.unique(transactions).size, round(items.size / 5_000)
    (500, 4)
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    targets = 1 + rng.poisson(_LENGTH - 1, transactions)
    anyway = rng.random(transactions) < 0.5
    bought = _bought(rng, *_patterns(rng))
    cells: list[int] = []
    waiting = next(bought)
    for number, (target, take) in enumerate(zip(targets.tolist(), anyway.tolist(), strict=True)):
        basket: set[int] = set()
        while len(basket) < target:
            larger = basket.union(waiting)
            overflows = len(larger) > target
            if overflows and basket and not take:
                break  # what does not fit opens the next transaction
            basket = larger
            waiting = next(bought)
            if overflows:
                break
        base = number * _ITEMS
        cells += [base + item for item in basket]
    return np.divmod(np.sort(np.array(cells, dtype=np.int64)), _ITEMS)


def _bought(rng: Rng, patterns: Integers, sizes: Integers) -> Iterator[list[int]]:
    """Patterns by weight, without end, each without the items that go missing."""
    weights = rng.standard_exponential(_PATTERNS)
    weights /= weights.sum()
    confidence = rng.normal(_CONFIDENCE, _CONFIDENCE_SPREAD, _PATTERNS).clip(0, 1)
    columns = np.arange(patterns.shape[1])
    while True:
        pick = rng.choice(_PATTERNS, _AT_ONCE, p=weights)
        keep = sizes[pick] - np.minimum(_dropped(rng, confidence[pick]), sizes[pick])
        keys = rng.random((pick.size, columns.size))
        keys[columns >= sizes[pick][:, None]] = 2  # no item there: it comes last
        shuffled = np.take_along_axis(patterns[pick], np.argsort(keys, axis=1), axis=1)
        kept = shuffled[columns < keep[:, None]].tolist()
        ends = keep.cumsum().tolist()
        for start, end in pairwise([0, *ends]):
            yield kept[start:end]


def _patterns(rng: Rng) -> tuple[Integers, Integers]:
    """Patterns, one a row, and how long each is; neighbours share items."""
    weights = rng.standard_exponential(_ITEMS)
    sizes = 1 + rng.poisson(_PATTERN_LENGTH - 1, _PATTERNS)
    shares = np.rint(sizes * _CORRELATION * rng.standard_exponential(_PATTERNS))
    patterns = np.zeros((_PATTERNS, int(sizes.max())), dtype=np.int64)
    before = patterns[0, :0]
    for row, size, share in zip(patterns, sizes.tolist(), shares.tolist(), strict=True):
        taken = rng.choice(before, min(int(share), size, before.size), replace=False)
        # The least of exponentials with these rates: a draw by weight without repetition.
        race = rng.standard_exponential(_ITEMS) / weights
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
