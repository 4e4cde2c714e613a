"""Audits of a Noisy Max and of a Noisy Top-K with k = 2: who wins, in which order, by how much.

A cell is the winners in order and the lead of the last, cut off at some size. Its chance is a
one-dimensional integral.
"""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Floats, Integers
from dpgap.exact.laws import Law
from dpgap.exact.tails import tail
from dpgap.mechanisms.top_k.kernel import select
from dpgap.mechanisms.top_k.mechanism import NoisyMax, NoisyTopK
from dpgap.proof.audit.design import MOST, Design
from dpgap.proof.audit.quadrature import density, nodes


def largest(noise: str, monotonic: bool) -> Design:
    """The event: the answer that falls on the neighbour wins, with a lead."""
    return Design(
        NoisyMax(1, monotonic=monotonic, noise=noise),
        _variant(noise, monotonic),
        (0, 0, 0),
        (-1, *[0 if monotonic else 1] * 2),
        lambda counts: int(counts[0, 1:].sum()),
        _chances_of_one,
        _by_kernel,
        _by_release,
    )


def top_two(noise: str, monotonic: bool) -> Design:
    """The event: two answers that fall on the neighbour win, with a lead."""
    return Design(
        NoisyTopK(2, 1, monotonic=monotonic, noise=noise),
        _variant(noise, monotonic),
        (0, 0, 0, 0),
        (-1, -1, *[0 if monotonic else 1] * 2),
        lambda counts: int(counts[0, 1, 1:].sum() + counts[1, 0, 1:].sum()),
        _chances_of_two,
        _by_kernel,
        _by_release,
    )


def _variant(noise: str, monotonic: bool) -> str:
    return f"{noise}, {'monotonic' if monotonic else 'general'}"


def _chances_of_one(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each winner and its lead."""
    return chances_of_largest(mechanism.in_steps().law, answers)


def chances_of_largest(law: Law, answers: Sequence[int]) -> Floats:
    """The chance of each answer being the largest with this noise, and of its lead."""
    points, weights = nodes(law)
    return np.array(
        [
            _leads(law, points, weights * density(law, points - answer), answers, {first})
            for first, answer in enumerate(answers)
        ]
    )


def _chances_of_two(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each first winner, second winner and lead of the second."""
    law, n = mechanism.in_steps().law, len(answers)
    points, weights = nodes(law)
    chances = np.zeros((n, n, MOST + 1))
    for first in range(n):
        for second in range(n):
            if first != second:
                base = weights * density(law, points - answers[second])
                base = base * tail(law, points - answers[first])
                chances[first, second] = _leads(law, points, base, answers, {first, second})
    return chances


def _leads(
    law: Law, points: Floats, base: Floats, answers: Sequence[int], winners: set[int]
) -> Floats:
    """The chance of each lead over the best loser; `base` is that of the last winner's value."""
    losers = [answer for place, answer in enumerate(answers) if place not in winners]
    at_least = np.array(
        [
            (base * np.prod([1 - tail(law, points - g - a) for a in losers], axis=0)).sum()
            for g in range(MOST + 1)
        ]
    )
    return np.append(at_least[:-1] - at_least[1:], at_least[-1])


def _count(indices: Integers, leads: Integers, n: int) -> Integers:
    """How often each cell occurred, for one winner or two."""
    k = indices.shape[1]
    winners = indices @ n ** np.arange(k)[::-1]
    cells = winners * (MOST + 1) + np.minimum(leads[:, -1], MOST)
    shape = *[n] * k, MOST + 1
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def _by_kernel(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    chosen = select(mechanism.in_steps(), np.array(answers), runs, secure_bits())
    return _count(chosen.indices, chosen.leads, len(answers))


def _by_release(mechanism: NoisyTopK, answers: Sequence[int], runs: int) -> Integers:
    releases = [mechanism.release(answers) for _ in range(runs)]
    indices = np.array([release.indices for release in releases])
    gaps = np.array([release.gaps for release in releases]).astype(np.int64)
    return _count(indices, gaps, len(answers))
