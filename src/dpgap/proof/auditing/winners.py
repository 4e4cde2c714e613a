"""Audits of a Noisy Max and of a Noisy Top-K with k = 2: who wins, in which order, by how much.

A cell is the winners in order and the lead of the last, cut off at some size. Its chance is a
one-dimensional integral.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.laws import RealLaw
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.mechanisms.top_k_kernel import select
from dpgap.proof.auditing.finding import MOST, Design, variant_of

# --------------------------------------------------------------------------------------------------
# Integrals over noise, to nearly all digits of a float.
#
# Answers and thresholds are whole here, so the densities are smooth between whole numbers, except
# where a stair breaks. Gauss–Legendre nodes on every smooth piece integrate them to about 1e-14.


_NODES = 24
_REACH = 45
"""How many scales away tails are cut off: below 1e-19."""


@lru_cache(maxsize=16)
def nodes(law: RealLaw) -> tuple[Floats, Floats]:
    """Nodes and weights for integrals over the noise."""
    breaks = np.unique([0.0, *law.breaks, 1.0])
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = np.diff(breaks)[:, None]
    unit = (breaks[:-1, None] + widths * (places + 1) / 2).ravel()
    reach = int(_REACH * law.scale)
    starts = np.arange(-reach, reach)[:, None]
    return (starts + unit).ravel(), np.tile((widths * weights / 2).ravel(), 2 * reach)


def integrate(given: Callable[[Floats], Any], law: RealLaw) -> float:
    """The mean of `given` over the noise."""
    points, weights = nodes(law)
    return float((weights * law.density(points) * given(points)).sum())


# --------------------------------------------------------------------------------------------------


def winners(mechanism: NoisyTopK) -> Design:
    """The event: all answers that fall on the neighbour win, with a lead; k is 1 or 2."""
    k = mechanism.k
    return Design(
        mechanism,
        variant_of(mechanism),
        (0,) * (k + 2),
        (-1,) * k + (0 if mechanism.monotonic else 1,) * 2,
        lambda counts: sum(int(counts[order][1:].sum()) for order in permutations(range(k))),
        _chances,
        _by_kernel,
        _by_release,
    )


def _chances(mechanism: NoisyTopK, answers: Sequence[int]) -> Floats:
    """The chance of each ranking of the winners and lead of the last."""
    return chances_of_winners(mechanism.in_steps().law, mechanism.k, answers)


def chances_of_winners(law: RealLaw, k: int, answers: Sequence[int]) -> Floats:
    """The chance of each ranking of the k largest with this noise, and of the last one's lead."""
    n = len(answers)
    points, weights = nodes(law)
    chances = np.zeros((n,) * k + (MOST + 1,))
    for order in permutations(range(n), k):
        *better, last = (answers[place] for place in order)
        base = weights * law.density(points - last)
        for answer in better:
            base = base * law.tail(points - answer)
        chances[order] = _leads(law, points, base, answers, order)
    return chances


def _leads(
    law: RealLaw, points: Floats, base: Floats, answers: Sequence[int], order: tuple[int, ...]
) -> Floats:
    """The chance of each lead over the best loser; `base` is that of the last winner's value."""
    losers = [answer for place, answer in enumerate(answers) if place not in order]
    at_least = np.array(
        [
            (base * np.prod([1 - law.tail(points - g - a) for a in losers], axis=0)).sum()
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
