"""Audits of measurements: one value with Laplace noise, or two with any of the others.

Each noisy value is a cell; far ones are put together at the ends. On whole steps the chance of each
pair of noises from a hull, a cube or a histogram is known exactly: e^(−‖x‖/scale), with its own
norm, over the sum of them all.
"""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.proof.auditing.finding import MOST, Design

_REACH = 60

Pair = CountHull | Cube | NoisyHistogram


def one_measured() -> Design:
    """The event: the noisy value is at least 0."""
    return Design(
        Laplace(1),
        "laplace, general",
        (0,),
        (-1,),
        lambda counts: int(counts[MOST:].sum()),
        _chances_of_one,
        _by_kernel,
        _by_release,
    )


def two_measured(mechanism: Pair, variant: str) -> Design:
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


def _chances_of_one(mechanism: Laplace, values: Sequence[int]) -> Floats:
    """The chance of each noisy value."""
    edges = np.arange(-MOST + 1, MOST + 1, dtype=np.float64) - values[0]
    above = np.concatenate([[1.0], mechanism.law_in_steps(1).tail(edges), [0.0]])
    return -np.diff(above)


def chances_of_pairs(mechanism: Pair, values: Sequence[int]) -> Floats:
    """The chance of each pair of noisy values."""
    steps = np.arange(-_REACH, _REACH + 1)
    x, y = np.meshgrid(steps, steps, indexing="ij")
    weights = np.exp(-_sizes(mechanism, x, y))
    cells = np.zeros((2 * MOST + 1, 2 * MOST + 1))
    np.add.at(cells, (_cell(x + values[0]), _cell(y + values[1])), weights / weights.sum())
    return cells


def _sizes(mechanism: Pair, x: Integers, y: Integers) -> Floats:
    """How far pairs of noises are out, in scales: each mechanism has a norm of its own."""
    if isinstance(mechanism, NoisyHistogram):
        return (np.abs(x) + np.abs(y)) / float(mechanism.law_in_steps.scale)
    norm = np.maximum(np.abs(x), np.abs(y))
    if isinstance(mechanism, CountHull):
        norm = np.maximum(np.maximum(x, y), 0) - np.minimum(np.minimum(x, y), 0)
    return norm / float(mechanism.law_in_steps(2).scale)


def _cell(noisy: Integers) -> Integers:
    return np.clip(noisy, -MOST, MOST) + MOST


def _count(noisy: Integers) -> Integers:
    """How often each cell occurred, for one value or two."""
    shape = (2 * MOST + 1,) * noisy.shape[1]
    cells = np.ravel_multi_index(tuple(_cell(noisy).T), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def _by_kernel(mechanism: Laplace | Pair, values: Sequence[int], runs: int) -> Integers:
    return _count(np.array(values) + mechanism.draws(len(values), runs, secure_bits()))


def _by_release(mechanism: Laplace | Pair, values: Sequence[int], runs: int) -> Integers:
    released = np.array([mechanism.release(values).values for _ in range(runs)])
    return _count(np.rint(released - mechanism.lost).astype(np.int64))
