"""The exact law of what is released, as a table of cells, to compare samples with.

A cell is what a release says, with its last gap cut off at some size. Of a Top-K it is the two
winners in order and the lead of the second, whose chances are one-dimensional integrals. Of a
Sparse Vector it is which answer was the first above, by which branch and by how much; its noise
is whole, so the chances are sums.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgap.exact.draws import Floats, Integers
from dpgap.exact.laws import ExponentialNoise, LaplaceNoise, Law, StaircaseNoise
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyTopK

MOST = 12
"""Gaps of this many steps or more, over the least, are one cell."""

_NODES = 20
_REACH = 40
"""How many scales away tails are cut off: below 1e-17."""


def _tail(law: Law, distance: Floats) -> Floats:
    """P(noise > distance)."""
    scale = float(law.scale)
    size = np.abs(distance)
    if isinstance(law, ExponentialNoise):
        return np.exp(-np.maximum(distance, 0.0) / scale)
    if isinstance(law, LaplaceNoise):
        half = np.exp(-size / scale) / 2
    else:
        assert isinstance(law, StaircaseNoise)
        stair, within = np.divmod(size / float(law.step), 1.0)
        share, near, fall = float(law.share), law.near, law.fall
        inner = near * np.minimum(within / share, 1.0)
        inner += (1 - near) * np.maximum(within - share, 0.0) / max(1 - share, 1e-300)
        half = fall**stair * (1 - inner + fall * inner) / 2
    return np.where(distance >= 0, half, 1 - half)


def _density(law: Law, at: Floats) -> Floats:
    scale = float(law.scale)
    if isinstance(law, ExponentialNoise):
        return np.where(at >= 0, np.exp(-np.maximum(at, 0.0) / scale) / scale, 0.0)
    if isinstance(law, LaplaceNoise):
        return np.exp(-np.abs(at) / scale) / (2 * scale)
    assert isinstance(law, StaircaseNoise)
    step, share = float(law.step), float(law.share)
    stair, within = np.divmod(np.abs(at) / step, 1.0)
    far = law.fall ** np.where(within < share, 0, 1)
    height = (1 - law.fall) / (2 * step * (share + law.fall * (1 - share)))
    return height * law.fall**stair * far


def _quadrature(law: Law) -> tuple[Floats, Floats]:
    """Nodes and weights; between breaks all functions here are smooth."""
    share = float(law.share) if isinstance(law, StaircaseNoise) else 0.5
    breaks = np.unique([0.0, share, 1 - share, 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = np.diff(breaks)
    unit = (breaks[:-1, None] + widths[:, None] * (nodes + 1) / 2).ravel()
    size = (widths[:, None] * weights / 2).ravel()
    reach = int(_REACH * law.scale)
    starts = np.arange(-reach, reach)[:, None]
    return (starts + unit).ravel(), np.tile(size, 2 * reach)


def top_two(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each first winner, second winner and lead of the second; k = 2."""
    law, n = mechanism.law, len(answers)
    points, weights = _quadrature(law)
    chances = np.zeros((n, n, MOST + 1))
    for first in range(n):
        for second in range(n):
            if first == second:
                continue
            base = weights * _density(law, points - answers[second])
            base = base * _tail(law, points - answers[first])
            losers = [a for i, a in enumerate(answers) if i not in (first, second)]
            chances[first, second] = _leads(law, points, base, losers)
    return chances


def largest(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each winner and its lead; k = 1."""
    points, weights = _quadrature(mechanism.law)
    chances = np.zeros((len(answers), MOST + 1))
    for first, answer in enumerate(answers):
        base = weights * _density(mechanism.law, points - answer)
        losers = [a for i, a in enumerate(answers) if i != first]
        chances[first] = _leads(mechanism.law, points, base, losers)
    return chances


def _leads(law: Law, points: Floats, base: Floats, losers: Sequence[int]) -> Floats:
    """The chance of each lead over the best loser; `base` is that of the last winner's value."""
    at_least = np.array(
        [
            (base * np.prod([1 - _tail(law, points - g - a) for a in losers], axis=0)).sum()
            for g in range(MOST + 1)
        ]
    )
    return np.append(at_least[:-1] - at_least[1:], at_least[-1])


def count_largest(indices: Integers, leads: Integers, n: int) -> Integers:
    """How often each cell occurred."""
    cells = indices[:, 0] * (MOST + 1) + np.minimum(leads[:, 0], MOST)
    return np.bincount(cells, minlength=n * (MOST + 1)).reshape(n, MOST + 1)


def count_top_two(indices: Integers, leads: Integers, n: int) -> Integers:
    """How often each cell occurred."""
    cells = (indices[:, 0] * n + indices[:, 1]) * (MOST + 1) + np.minimum(leads[:, 1], MOST)
    return np.bincount(cells, minlength=n * n * (MOST + 1)).reshape(n, n, MOST + 1)


def measured(mechanism: Laplace, values: Sequence[int]) -> Floats:
    """The chance of each noisy value, for one value; far ones are put together at the ends."""
    law = mechanism.law_in_steps(1)
    edges = np.arange(-MOST + 1, MOST + 1, dtype=np.float64) - values[0]
    above: Floats = np.concatenate([[1.0], _tail(law, edges), [0.0]])
    return above[:-1] - above[1:]


def count_measured(noisy: Integers) -> Integers:
    """How often each cell occurred."""
    return np.bincount(np.clip(noisy, -MOST, MOST) + MOST, minlength=2 * MOST + 1)


@functools.lru_cache(maxsize=64)
def _masses(law: Law, reach: int) -> Floats:
    """P(⌊noise⌋ = step) from −reach to reach."""
    edges = np.arange(-reach, reach + 2, dtype=np.float64)
    tails = _tail(law, edges)
    if isinstance(law, ExponentialNoise):
        tails = np.where(edges < 0, 1.0, tails)
    return tails[:-1] - tails[1:]


def first_above(mechanism: SparseVector, answers: Sequence[int]) -> Floats:
    """The chance of each (answer, branch, gap) to be the first above; the last row: none is.

    For answers, threshold and margins in whole steps.
    """
    ways, threshold = mechanism.ways, int(mechanism.threshold)
    reach = int(_REACH * max(float(way.law.scale) for way in ways))
    noise = np.arange(-reach, reach + 1)
    still = _masses(mechanism.threshold_law, reach)  # chance of this threshold, and none above yet
    chances = np.zeros((len(answers) + 1, len(ways), MOST + 1))
    for at, answer in enumerate(answers):
        trying = still
        for number, way in enumerate(ways):
            # The noise at which the gap is exactly its margin, for every threshold.
            least = int(way.margin) + threshold + noise - answer
            exactly = [_mass(way.law, least + extra) for extra in range(MOST)]
            beyond = _tail(way.law, (least + MOST).astype(np.float64))
            for extra, mass in enumerate([*exactly, beyond]):
                chances[at, number, extra] = (trying * mass).sum()
            trying = trying * (1 - _tail(way.law, least.astype(np.float64)))
        still = trying
    chances[-1, 0, 0] = still.sum()
    return chances


def _mass(law: Law, step: Any) -> Floats:
    low = step.astype(np.float64)
    return _tail(law, low) - _tail(law, low + 1)


def count_first_above(sifted: Any, mechanism: SparseVector, runs: int, n: int) -> Integers:
    """How often each cell occurred, for runs that stop after the first above."""
    ways = mechanism.ways
    counts = np.zeros((n + 1, len(ways), MOST + 1), dtype=np.int64)
    margins = np.array([int(way.margin) for way in ways])
    branch = sifted.branches - 1
    extra = np.minimum(sifted.gaps - margins[branch], MOST)
    np.add.at(counts, (sifted.indices, branch, extra), 1)
    counts[-1, 0, 0] = runs - sifted.runs.size
    return counts
