"""Audits of measuring one value with Laplace noise: each noisy value is a cell."""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.draws import Floats, Integers
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.proof.audit.design import MOST, Design


def one_measured() -> Design:
    """The event: the noisy value is at least 0."""
    return Design(
        Laplace(1),
        "laplace, general",
        (0,),
        (-1,),
        lambda counts: int(counts[counts.size // 2 :].sum()),
        _chances,
        _by_kernel,
        _by_release,
    )


def _chances(mechanism: Laplace, values: Sequence[int]) -> Floats:
    """The chance of each noisy value; far ones are put together at the ends."""
    edges = np.arange(-MOST + 1, MOST + 1, dtype=np.float64) - values[0]
    above = np.concatenate([[1.0], mechanism.law_in_steps(1).tail(edges), [0.0]])
    return -np.diff(above)


def _count(noisy: Integers) -> Integers:
    return np.bincount(np.clip(noisy, -MOST, MOST) + MOST, minlength=2 * MOST + 1)


def _by_kernel(mechanism: Laplace, answers: Sequence[int], runs: int) -> Integers:
    return _count(answers[0] + mechanism.law_in_steps(1).floors(secure_bits(), runs))


def _by_release(mechanism: Laplace, answers: Sequence[int], runs: int) -> Integers:
    values = np.array([mechanism.release(answers).values[0] for _ in range(runs)])
    return _count(np.rint(values + mechanism.law_in_steps(1).floor_mean).astype(np.int64))
