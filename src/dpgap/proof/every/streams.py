"""Sparse Vectors for every n and k, with any margins and any number of branches.

One step is proved with unknown units, limits and margins (`steps`). `require_numbers` shows that
every mechanism of the kind has units, limits and noise as the step takes them for granted, and
that the threshold's share and all units together are ε.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from dpgap.exact.parameters import altered
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, Branch, SparseVector
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.provers import Theorem
from dpgap.proof.checker.skeletons import Sealed
from dpgap.proof.every.few_answers import MOVES, recording
from dpgap.proof.every.folds import Opening, require_fold, require_loop
from dpgap.proof.every.steps import Budget, Charged, prove_step

if TYPE_CHECKING:
    pass


_BRANCHES = 3
"""The number of branches that are followed; `require_loop` shows that later ones are the same."""
_MOST_BRANCHES = 16
_UNREAD = ("threshold", "k", "epsilon", "threshold_share", "threshold_law", "noise", "grid")
"""Parameters that a step must not look at, because it is followed for one value of each."""
_HALF = Fraction(1, 2)
_SHARES = (Fraction(2, 7), Fraction(1, 7), Fraction(5, 7))
_SIZES = (1, 2, 3, 5)

StreamMaker = Callable[..., SparseVector]
"""Makes a mechanism from k, the threshold's share and, if it is adaptive, its branches."""


def prove_stream(make: StreamMaker, kind: str) -> list[Theorem]:
    """The theorems about one step; raises a violation if something does not hold.

    Each number is a quotient of polynomials of low degree in k, the share, ε and Δ. So a few values
    of these are enough. They are looked at in grid steps, as a release takes them.
    """
    sample = make(k=2, threshold_share=_HALF)
    _require_steps(sample)
    if not isinstance(sample, AdaptiveSparseVector):
        _require_all_numbers(make, _SIZES, _SHARES)
        return [_prove(sample, kind)]
    for branches, drain in itertools.product(range(1, _MOST_BRANCHES + 1), (False, True)):
        make_shape = partial(make, branches=branches, drain=drain)
        if branches <= _BRANCHES:
            _require_all_numbers(make_shape, _SIZES, _SHARES)
        else:
            _require_all_numbers(make_shape, (3,), _SHARES[:1])
    # Limits are unknown, so a step that drains is a step like any other.
    return [
        _prove(make(k=2, threshold_share=_HALF, branches=branches), kind)
        for branches in range(1, _BRANCHES + 1)
    ]


def _require_all_numbers(
    make: StreamMaker, sizes: Sequence[int], shares: Sequence[Fraction]
) -> None:
    """Raise a violation unless numbers are right for these k and shares, also in other units."""
    variants: tuple[StreamMaker, ...] = (
        make,
        partial(make, epsilon=Fraction(7, 3), sensitivity=3),
        partial(make, sensitivity=Fraction(4, 3), grid=Fraction(1, 4)),
    )
    for k, share, variant in itertools.product(sizes, shares, variants):
        require_numbers(variant(k=k, threshold_share=share).in_steps())


def prove_known_stream(mechanism: SparseVector, kind: str) -> list[Theorem]:
    """The theorem about one step of this mechanism; raises a violation if it does not hold."""
    _require_steps(mechanism)
    require_numbers(mechanism)
    return [_prove(mechanism, kind)]


def _require_steps(mechanism: SparseVector) -> None:
    """Raise a violation unless it draws the threshold, and all else is in its steps."""
    if require_fold(mechanism) != Opening(mechanism.threshold_law, 1):
        raise Violation("fold", "a stream must begin with the threshold's noise")
    require_loop(mechanism)


def _prove(mechanism: SparseVector, kind: str) -> Theorem:
    """One step with any units, limits and margins."""
    judge = recording(mechanism.epsilon, ties=True)
    judge.step = mechanism.grid or 1
    capacity = judge.unknown("capacity")
    branches: list[Branch] = []
    limits: list[Affine] = []
    fewest_units: Any = 1
    for branch in mechanism.every_branch:
        units: Any = judge.unknown(f"units_{branch.number}")
        margin = judge.unknown(f"margin_{branch.number}")
        limit = judge.unknown(f"limit_{branch.number}")
        judge.assume_everywhere(units >= fewest_units)
        judge.assume_everywhere(limit + units <= capacity)
        if limits:
            judge.assume_everywhere(limit <= limits[-1])
        law: Any = Charged(_at_one(branch), units)
        branches.append(branch._replace(units=units, margin=margin, law=law))
        limits.append(limit)
        fewest_units = units
    unread = dict.fromkeys(_UNREAD, Sealed())
    program = altered(mechanism, every_branch=tuple(branches), limits=tuple(limits), **unread)
    at_one = replace(mechanism.threshold_law, scale=mechanism.sensitivity)
    budget = Budget(Opening(at_one, 1), 1, capacity, 1)
    name = f"{type(mechanism).__name__}, {mechanism.noise}, {len(mechanism.every_branch)} branches"
    return prove_step(name, program, budget, kind, judge)


def _at_one(branch: Branch) -> Any:
    """A branch's noise, as if it charged 1."""
    return replace(branch.law, scale=branch.law.scale * branch.charge)


def require_numbers(mechanism: SparseVector) -> None:
    """Raise a violation unless the mechanism's numbers are as the proof of a step assumes."""
    branches = mechanism.every_branch
    share = mechanism.threshold_share * mechanism.epsilon
    all_units = mechanism.capacity * mechanism.unit
    numbers = [branch.number for branch in branches]
    _require_fact(
        share + all_units == mechanism.epsilon, "all units and the threshold's share are ε"
    )
    _require_fact(numbers == list(range(1, len(branches) + 1)), "branches are numbered")
    _require_fact(branches[0].units >= 1, "each uses a unit at least")
    for (cheaper, limit), (dearer, next_limit) in itertools.pairwise(
        zip(branches, mechanism.limits, strict=True)
    ):
        _require_fact(
            cheaper.units <= dearer.units and limit >= next_limit,
            "dearer branches come later and are given up first",
        )
    for branch, limit in zip(branches, mechanism.limits, strict=True):
        _require_fact(limit + branch.units <= mechanism.capacity, "what is tried can be paid")
        _require_branch_numbers(mechanism, branch)
    rise_cost = mechanism.threshold_law.cost(mechanism.sensitivity)
    _require_fact(0 < rise_cost <= share, "the threshold's rise costs its share")


def _require_branch_numbers(mechanism: SparseVector, branch: Branch) -> None:
    """Raise a violation unless a branch's charge fits its units, and its noise fits its charge."""
    delta = mechanism.sensitivity
    doubled = 1 if mechanism.monotonic else 2
    law = branch.law
    _require_fact(branch.charge == branch.units * mechanism.unit, "a charge is so many units")
    _require_fact(
        law.scale * branch.charge == doubled * delta,
        "a branch's noise is inverse to its charge",
    )
    for move in MOVES:
        _require_fact(
            law.cost(move) == _at_one(branch).cost(move) * branch.charge,
            "a cost is inverse to the scale",
        )
        _require_fact(
            law.cost(delta * move) == law.scaled(Fraction(1) / delta).cost(move),
            "Δ costs what it does for Δ = 1",
        )


def _require_fact(holds: bool, fact: str) -> None:
    if not holds:
        raise Violation("budget", f"it is not so that {fact}")
