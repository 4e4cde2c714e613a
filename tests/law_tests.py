"""The statistics that tests share. Every test of a law is held at level 1e-6."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dpgap.exact.bits import Bits
from dpgap.mechanisms.sparse_vector import Sifting, SparseVector

LEVEL = 1e-6


def chi_square_p(counts: ArrayLike, chances: ArrayLike) -> float:
    """The p-value of counts under given chances; rare cells, and all the rest, are merged."""
    observed = np.asarray(counts, dtype=float)
    expected = np.asarray(chances, dtype=float) * observed.sum()
    rare = expected < 20
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], max(observed.sum() - expected[~rare].sum(), 1e-9))
    if expected[-1] < 20:
        observed[-2] += observed[-1]
        expected[-2] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, observed.size - 1))


def tally_p(samples: ArrayLike, law: Mapping[Any, float]) -> float:
    """The p-value of samples under a law given as {outcome: chance}."""
    outcomes, counts = np.unique(np.asarray(samples), axis=0, return_counts=True)
    keys = [tuple(o.tolist()) if o.ndim else o.item() for o in outcomes]
    seen = dict(zip(keys, counts.tolist(), strict=True))
    known = np.array([seen.get(key, 0) for key in law])
    rest = counts.sum() - known.sum()
    chances = np.array(list(law.values()))
    return chi_square_p(np.append(known, rest), np.append(chances, max(1 - chances.sum(), 0)))


def homogeneous_p(one: ArrayLike, other: ArrayLike) -> float:
    """The p-value of two samples of whole numbers, or of tuples of them, having the same law."""
    first, second = np.asarray(one), np.asarray(other)
    cells, which = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    counts = np.stack(
        [np.bincount(each, minlength=len(cells)) for each in np.split(which.ravel(), [len(first)])]
    )
    # Neighbouring cells are merged until each has 50 in all.
    group = (counts.sum(axis=0)[::-1].cumsum() // 50)[::-1]
    merged = np.stack([np.bincount(group, weights=row) for row in counts])
    merged = merged[:, merged.sum(axis=0) > 0]
    if merged.shape[1] < 2:
        return 1.0
    return float(stats.chi2_contingency(merged, correction=False).pvalue)


def require_law(p_value: Callable[[float], float]) -> None:
    """Require that samples fit the law at scale × 1 and do not at scale × 1.03 and ÷ 1.03."""
    assert p_value(1.0) > LEVEL
    assert p_value(1.03) < LEVEL
    assert p_value(1 / 1.03) < LEVEL


class Sifted(NamedTuple):
    """The answers that runs of a Sparse Vector found above, run by run, and each run's state."""

    runs: np.ndarray
    indices: np.ndarray
    branches: np.ndarray
    gaps: np.ndarray
    used: np.ndarray
    processed: np.ndarray


def sift(
    program: SparseVector,
    answers: np.ndarray,
    runs: int,
    bits: Bits,
    max_answers: int | None = None,
    **pace: int,
) -> Sifted:
    """Run a Sparse Vector's kernel `runs` times on the same answers, in steps."""
    at_once = max(1, (1 << 16) // answers.size)
    batches = []
    for done in range(0, runs, at_once):
        sifting = Sifting(program, min(at_once, runs - done), bits, max_answers)
        rows, *found = sifting.take(answers, **pace)
        batches.append((rows + done, *found, sifting.used, sifting.processed(answers.size)))
    return Sifted(*map(np.concatenate, zip(*batches, strict=True)))
