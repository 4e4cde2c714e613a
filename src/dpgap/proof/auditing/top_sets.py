"""Audits of a Joint Top-K of four answers with k = 2: which set wins, and by how much.

A cell is a set and its lead in half steps, cut off at some size. It is a Noisy Max over six sets,
so its chance is the same integral. The kernel chooses a class of sets; which of its sets is drawn
here for all runs at once.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.reals import Floats, Integers
from dpgap.exact.shells import below
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.joint_kernel import TOP_SET, Classes, select_classes
from dpgap.proof.auditing.finding import MOST, Design
from dpgap.proof.auditing.winners import chances_of_winners

_ANSWERS = (4, 4, 0, 0)
_AHEAD = 8
"""By how many half steps the top set of these answers is better than any other."""


def top_set(monotonic: bool) -> Design:
    """The event: the top set, which falls on the neighbour, leads by more than it is better."""
    return Design(
        JointTopK(2, 1, monotonic=monotonic),
        f"sets, {'monotonic' if monotonic else 'general'}",
        _ANSWERS,
        (3, 3, *[0 if monotonic else 1] * 2),
        lambda counts: int(counts[0, _AHEAD + 1 :].sum()),
        _chances,
        _by_kernel,
        _by_release,
    )


def _chances(mechanism: JointTopK, answers: Sequence[int]) -> Floats:
    """The chance of each set and its lead."""
    margins = [int(2 * mechanism.half_margin(answers, each)) for each in _sets(mechanism, answers)]
    return chances_of_winners(mechanism.half_step_law, 1, margins)


def _sets(mechanism: JointTopK, answers: Sequence[int]) -> list[tuple[int, ...]]:
    return list(combinations(range(len(answers)), mechanism.k))


def _count(sets: Integers, leads: Integers, many: int) -> Integers:
    """How often each cell occurred."""
    cells = sets * (MOST + 1) + np.minimum(leads, MOST)
    return np.bincount(cells, minlength=many * (MOST + 1)).reshape(many, MOST + 1)


def _by_kernel(mechanism: JointTopK, answers: Sequence[int], runs: int) -> Integers:
    values, sizes = np.unique(np.array(answers), return_counts=True)
    classes, bits = Classes(values, sizes, mechanism.k), secure_bits()
    chosen = select_classes(mechanism.half_step_law, classes, runs, bits)
    members = _members(mechanism, classes, answers)
    sets = np.empty(runs, dtype=np.int64)
    for at, own in enumerate(members):
        where = np.flatnonzero(chosen.classes == at)
        sets[where] = np.array(own)[below(len(own), where.shape, bits)]
    return _count(sets, chosen.leads, len(_sets(mechanism, answers)))


def _members(mechanism: JointTopK, classes: Classes, answers: Sequence[int]) -> list[list[int]]:
    """For each class the numbers of its sets, by their ranks; equal answers in the order given."""
    ranks = np.empty(len(answers), dtype=np.int64)
    ranks[np.argsort(-np.array(answers), kind="stable")] = np.arange(1, len(answers) + 1)
    kept, low, high = classes.ranks_of(np.arange(1, classes.count))
    members: list[list[int]] = [[] for _ in range(classes.count)]
    for number, each in enumerate(_sets(mechanism, answers)):
        taken = sorted(ranks[list(each)].tolist())
        first_out = next(rank for rank in range(1, len(answers) + 1) if rank not in taken)
        here = (kept == first_out - 1) & (low <= taken[-1]) & (taken[-1] <= high)
        at = TOP_SET if first_out > mechanism.k else 1 + int(np.flatnonzero(here)[0])
        members[at].append(number)
    return members


def _by_release(mechanism: JointTopK, answers: Sequence[int], runs: int) -> Integers:
    releases = [mechanism.release(answers) for _ in range(runs)]
    numbers = {each: number for number, each in enumerate(_sets(mechanism, answers))}
    sets = np.array([numbers[tuple(release.indices.tolist())] for release in releases])
    leads = np.array([2 * release.lead for release in releases]).astype(np.int64)
    return _count(sets, leads, len(numbers))
