"""Audits of a Noisy Top-K with k = 2: which two win, in which order, and by how much.

A cell is the two winners in order and the lead of the second, cut off at some size. Its chance is
a one-dimensional integral.
"""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Floats, Integers
from dpgap.exact.tails import tail
from dpgap.mechanisms.top_k.kernel import select
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.proof.audit.design import MOST, Design
from dpgap.proof.audit.quadrature import density, nodes


def top_two(noise: str, monotonic: bool) -> Design:
    """The event: two answers that fall on the neighbour win, with a lead."""
    others = 0 if monotonic else 1
    return Design(
        NoisyTopK(2, 1, monotonic=monotonic, noise=noise),
        f"{noise}, {'monotonic' if monotonic else 'general'}",
        (0, 0, 0, 0),
        (-1, -1, others, others),
        lambda counts: int(counts[0, 1, 1:].sum() + counts[1, 0, 1:].sum()),
        _chances,
        _by_kernel,
        _by_release,
    )


def _chances(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each first winner, second winner and lead of the second."""
    law, n = mechanism.in_steps().law, len(answers)
    points, weights = nodes(law)
    chances = np.zeros((n, n, MOST + 1))
    for first in range(n):
        for second in range(n):
            if first == second:
                continue
            base = weights * density(law, points - answers[second])
            base = base * tail(law, points - answers[first])
            losers = [a for i, a in enumerate(answers) if i not in (first, second)]
            at_least = np.array(
                [
                    (base * np.prod([1 - tail(law, points - g - a) for a in losers], axis=0)).sum()
                    for g in range(MOST + 1)
                ]
            )
            chances[first, second] = np.append(at_least[:-1] - at_least[1:], at_least[-1])
    return chances


def _count(indices: Integers, leads: Integers, n: int) -> Integers:
    cells = (indices[:, 0] * n + indices[:, 1]) * (MOST + 1) + np.minimum(leads[:, 1], MOST)
    return np.bincount(cells, minlength=n * n * (MOST + 1)).reshape(n, n, MOST + 1)


def _by_kernel(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    chosen = select(mechanism.in_steps(), np.array(answers), runs, secure_bits())
    return _count(chosen.indices, chosen.leads, len(answers))


def _by_release(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    releases = [mechanism.release(answers) for _ in range(runs)]
    indices = np.array([release.indices for release in releases])
    gaps = np.array([release.gaps for release in releases]).astype(np.int64)
    return _count(indices, gaps, len(answers))
