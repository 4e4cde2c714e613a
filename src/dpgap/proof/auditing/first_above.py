"""Audits of a Sparse Vector: which answer is the first above, by which branch and by how much.

Its noise is whole, so the chances are sums.
"""

from collections.abc import Sequence

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.laws import Law
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.sparse_vector_kernel import sift
from dpgap.proof.auditing.finding import MOST, Design, variant_of

_REACH = 40
"""How many scales away tails are cut off: below 1e-17."""


def first_above(mechanism: SparseVector) -> Design:
    """The event: the second answer is above, by the last branch."""
    return Design(
        mechanism,
        variant_of(mechanism),
        (0, 0),
        (0 if mechanism.monotonic else 1, -1),
        lambda counts: int(counts[1, -1].sum()),
        _chances,
        _by_kernel,
        _by_release,
    )


def _mass(law: Law, step: Integers) -> Floats:
    """P(⌊noise⌋ = step)."""
    low = step.astype(np.float64)
    return law.tail(low) - law.tail(low + 1)


def _chances(mechanism: SparseVector, answers: Sequence[int]) -> Floats:
    """The chance of each (answer, branch, gap) to be the first above; the last row: none is.

    For answers, threshold and margins in whole steps.
    """
    steps = mechanism.in_steps()
    ways, threshold = steps.ways, int(steps.threshold)
    reach = int(_REACH * max(float(way.law.scale) for way in ways))
    noise = np.arange(-reach, reach + 1)
    still = _mass(steps.threshold_law, noise)  # chance of this threshold, and none above yet
    chances = np.zeros((len(answers) + 1, len(ways), MOST + 1))
    for at, answer in enumerate(answers):
        for number, way in enumerate(ways):
            # The noise at which the gap is exactly its margin, for every threshold.
            least = int(way.margin) + threshold + noise - answer
            exactly = [_mass(way.law, least + extra) for extra in range(MOST)]
            beyond = way.law.tail((least + MOST).astype(np.float64))
            chances[at, number] = [(still * mass).sum() for mass in (*exactly, beyond)]
            still = still * (1 - way.law.tail(least.astype(np.float64)))
    chances[-1, 0, 0] = still.sum()
    return chances


def _count(
    mechanism: SparseVector,
    shape: tuple[int, int],
    indices: Integers,
    branches: Integers,
    gaps: Integers,
) -> Integers:
    """How often each cell occurred, for runs that stop after the first above."""
    runs, n = shape
    ways = mechanism.in_steps().ways
    counts = np.zeros((n + 1, len(ways), MOST + 1), dtype=np.int64)
    margins = np.array([int(way.margin) for way in ways])
    extra = np.minimum(gaps - margins[branches - 1], MOST)
    np.add.at(counts, (indices, branches - 1, extra), 1)
    counts[-1, 0, 0] = runs - indices.size
    return counts


def _by_kernel(mechanism: SparseVector, answers: Sequence[int], runs: int) -> Integers:
    found = sift(mechanism.in_steps(), np.array(answers), runs, secure_bits(), 1)
    return _count(mechanism, (runs, len(answers)), found.indices, found.branches, found.gaps)


def _by_release(mechanism: SparseVector, answers: Sequence[int], runs: int) -> Integers:
    releases = [mechanism.release(answers, max_answers=1) for _ in range(runs)]
    indices = np.concatenate([release.indices for release in releases])
    branches = np.concatenate([release.branch_of for release in releases])
    gaps = np.concatenate([release.gaps for release in releases])
    whole = np.rint(gaps - mechanism.gap_offsets[branches - 1]).astype(np.int64)
    return _count(mechanism, (runs, len(answers)), indices, branches, whole)
