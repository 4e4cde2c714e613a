"""Audits of a Hybrid Top-K with k = 2: who is above the line, in which order, by how much; and δ.

A cell is the winners in order and the lead of the last, cut off at some size; a place without a
winner has the number that follows all answers. Its chance is a one-dimensional integral.

For δ, one unit alone has some items. The event is that any of them is released: on the twin without
that unit it cannot happen, so that its chance is at most δ.
"""

import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.hybrid_kernel import select_above
from dpgap.proof.auditing.finding import DELTA, MOST, Audit, Design, fit, lower_chance
from dpgap.proof.auditing.winners import chances_of_winners, nodes

_ANSWERS = 3
_ALLOWED = Fraction(1, 100)
_AT_ONCE = 1_000_000


def above_line(monotonic: bool) -> Design:
    """The event: both answers that fall on the neighbour win, with a lead."""
    return Design(
        HybridTopK(0, 2, 1, monotonic=monotonic),
        f"a line, {'monotonic' if monotonic else 'general'}",
        (0,) * _ANSWERS,
        (-1, -1, 0 if monotonic else 1),
        lambda counts: int(counts[0, 1, 1:].sum() + counts[1, 0, 1:].sum()),
        _chances,
        _by_kernel,
        _by_release,
    )


def _chances(mechanism: HybridTopK, answers: Sequence[int]) -> Floats:
    """The chance of each cell."""
    program, n = mechanism.in_steps(), len(answers)
    law, line = program.law, int(program.threshold)
    chances = np.zeros((n + 1, n + 1, MOST + 1))
    chances[:n, :n] = chances_of_winners(law, 2, (*answers, line))[:n, :n]
    points, weights = nodes(law)
    at_line = weights * law.density(points - line)
    below = [1 - law.tail(points - answer) for answer in answers]
    chances[n, n, 0] = (at_line * np.prod(below, axis=0)).sum()
    for winner, answer in enumerate(answers):
        base = at_line * np.prod(below[:winner] + below[winner + 1 :], axis=0)
        over = [(base * law.tail(points + g - answer)).sum() for g in range(MOST + 1)]
        chances[winner, n] = np.append(over, 0.0)[:-1] - np.append(over[1:], 0.0)
    return chances


def _count(indices: Integers, leads: Integers, n: int) -> Integers:
    """How often each cell occurred; −1 is no winner."""
    first, second = np.where(indices < 0, n, indices).T
    last = np.where(second < n, leads[:, 1], leads[:, 0])
    shape = n + 1, n + 1, MOST + 1
    cells = np.ravel_multi_index((first, second, np.minimum(last, MOST)), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def _by_kernel(mechanism: HybridTopK, answers: Sequence[int], runs: int) -> Integers:
    cut = select_above(mechanism, np.array(answers), runs, secure_bits())
    return _count(cut.indices, cut.leads, len(answers))


def _by_release(mechanism: HybridTopK, answers: Sequence[int], runs: int) -> Integers:
    indices = np.full((runs, 2), -1)
    leads = np.zeros((runs, 2), dtype=np.int64)
    for run in range(runs):
        release = mechanism.release(answers)
        count = release.indices.size
        indices[run, :count] = release.indices
        leads[run, :count] = release.gaps[::-1].cumsum()[::-1]
    return _count(indices, leads, len(answers))


def audit_delta(reach: int, samples: int, *, real: HybridTopK | None = None) -> Audit:
    """Bound δ from below: how often any of the items that one unit alone has is released.

    The line is the least for δ = 0.01. `real` is what is sampled instead, to see whether a fault
    would be caught.
    """
    start = time.perf_counter()
    line = HybridTopK.line_for(1, 1, _ALLOWED, reach=reach)
    mechanism = HybridTopK(line, 1, 1, monotonic=True)
    sampled = mechanism if real is None else real
    answers = np.ones(reach, dtype=np.int64)
    shown = sum(
        int(
            select_above(
                sampled, answers, min(_AT_ONCE, samples - done), secure_bits()
            ).counts.sum()
        )
        for done in range(0, samples, _AT_ONCE)
    )
    chance = chance_to_show(mechanism, reach)
    return Audit(
        type(mechanism).__name__,
        "shipped",
        f"δ of unknown items, reach {reach}",
        "kernel",
        float(mechanism.delta(reach)),
        lower_chance(shown, samples),
        samples,
        fit(np.array([shown, samples - shown]), np.array([chance, 1 - chance])),
        time.perf_counter() - start,
        DELTA,
    )


def chance_to_show(mechanism: HybridTopK, reach: int) -> float:
    """The exact chance that any of so many items, which count Δ and are alone, is released.

    The line's noise is E; each item is below with chance 1 − c·e^(−E/b), c being e^(−(T − Δ)/b).
    The mean over E of that to the power of reach is (1 − (1 − c)^(reach + 1)) / ((reach + 1)·c).
    """
    distance = float(mechanism.threshold - mechanism.sensitivity)
    c = float(mechanism.law.tail(distance))
    return 1 - (1 - (1 - c) ** (reach + 1)) / ((reach + 1) * c)
