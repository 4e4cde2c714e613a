"""Audits of measuring two values together: the count hull and the cube, cell by cell.

On whole steps the chance of each pair of noises is known exactly: e^(−‖x‖/scale), with the hull's
or the cube's own norm, over the sum of them all.
"""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Floats, Integers
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.proof.audit.design import MOST, Design

_REACH = 60

Joint = CountHull | Cube


def joint_measured(mechanism: Joint, variant: str) -> Design:
    """The event: both noisy values are at least 1."""
    return Design(
        mechanism,
        variant,
        (0, 0),
        (-1, -1),
        lambda counts: int(counts[MOST + 1 :, MOST + 1 :].sum()),
        chances_of_pairs,
        _by_kernel,
        _by_release,
    )


def chances_of_pairs(mechanism: Joint, values: Sequence[int]) -> Floats:
    """The chance of each pair of noisy values; far ones are put together at the edges."""
    norm = _hull_norm if isinstance(mechanism, CountHull) else _cube_norm
    steps = np.arange(-_REACH, _REACH + 1)
    x, y = np.meshgrid(steps, steps, indexing="ij")
    weights = np.exp(-norm(x, y) / float(mechanism.law_in_steps(2).scale))
    cells = np.zeros((2 * MOST + 1, 2 * MOST + 1))
    np.add.at(cells, (_cell(x + values[0]), _cell(y + values[1])), weights / weights.sum())
    return cells


def _hull_norm(x: Integers, y: Integers) -> Integers:
    """How far a pair reaches up, plus how far it reaches down."""
    return np.maximum(np.maximum(x, y), 0) - np.minimum(np.minimum(x, y), 0)


def _cube_norm(x: Integers, y: Integers) -> Integers:
    """How far a pair reaches either way."""
    return np.maximum(np.abs(x), np.abs(y))


def _cell(noisy: Integers) -> Integers:
    return np.clip(noisy, -MOST, MOST) + MOST


def _count(noisy: Integers) -> Integers:
    width = 2 * MOST + 1
    flat = _cell(noisy[:, 0]) * width + _cell(noisy[:, 1])
    return np.bincount(flat, minlength=width**2).reshape(width, width)


def _by_kernel(mechanism: Joint, values: Sequence[int], runs: int) -> Integers:
    return _count(np.array(values) + mechanism.draws(2, runs, secure_bits()))


def _by_release(mechanism: Joint, values: Sequence[int], runs: int) -> Integers:
    released = [mechanism.release(values).values for _ in range(runs)]
    return _count(np.rint(released).astype(np.int64))
