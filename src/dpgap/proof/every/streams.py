"""Sparse Vectors for every n and k, with any margins and any number of branches.

One step is proved with unknown units, limits and margins (`steps`). `require_numbers` shows that
every mechanism of the kind has units, limits and noise as the step takes them for granted, and that
the threshold's share and all units together are ε.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, Branch, SparseVector
from dpgap.proof.checker.families import altered
from dpgap.proof.checker.numbers import Affine, Violation
from dpgap.proof.checker.output import Sealed
from dpgap.proof.every.folds import Opening, require_fold, require_loop
from dpgap.proof.every.steps import Budget, Charged, prove_step
from dpgap.proof.every.theorem import Theorem

_BRANCHES = 3
"""As many are followed: `require_loop` shows that all but the first are treated alike."""
_MOST_BRANCHES = 16
_UNREAD = ("threshold", "k", "epsilon", "threshold_share", "threshold_law", "noise", "grid")
"""What a step must not look at: it is followed for one value of each."""
_HALF = Fraction(1, 2)
_SHARES = tuple(Fraction(i, 7) for i in (2, 1, 5))
_MOVES = (Fraction(1, 3), Fraction(1), Fraction(-5, 2))

Make = Callable[..., SparseVector]
"""Makes a mechanism from k, the threshold's share and, if it is adaptive, its branches."""


def prove_stream(made: Make, kind: str) -> list[Theorem]:
    """The theorems about one step; raises a violation if something does not hold."""
    sample = made(k=2, threshold_share=_HALF)
    _require_steps(sample)
    adaptive = isinstance(sample, AdaptiveSparseVector)
    for branches, drain in itertools.product(range(1, _MOST_BRANCHES + 1), (False, True)):
        shape = {"branches": branches, "drain": drain} if adaptive else {}
        if adaptive or branches == 1:
            _require_all_numbers(made, shape, thorough=branches <= _BRANCHES)
    # Limits are unknown, so a step that drains is a step like any other.
    few = [{"branches": m} for m in range(1, _BRANCHES + 1)] if adaptive else [{}]
    return [_prove(made(k=2, threshold_share=_HALF, **shape), kind) for shape in few]


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
    from dpgap.proof.every.recording import Recording  # z3 takes its time to load

    judge = Recording(mechanism.epsilon, ties=True)
    program, capacity = _with_unknowns(mechanism, judge)
    at_one = replace(mechanism.threshold_law, scale=mechanism.sensitivity)
    budget = Budget(Opening(at_one, 1), 1, capacity, 1)
    name = f"{type(mechanism).__name__}, {mechanism.noise}, {len(mechanism.ways)} branches"
    return prove_step(name, program, budget, kind, judge)


def _with_unknowns(mechanism: SparseVector, judge: Any) -> tuple[SparseVector, Affine]:
    """The mechanism with any units, limits and margins."""
    capacity = judge.unknown("capacity")
    ways: list[Branch] = []
    limits: list[Affine] = []
    for way in mechanism.ways:
        units, margin, limit = (
            judge.unknown(f"{name}_{way.number}") for name in ("units", "margin", "limit")
        )
        judge.given(units >= (ways[-1].units if ways else 1))
        judge.given(limit + units <= capacity)
        if limits:
            judge.given(limit <= limits[-1])
        law: Any = Charged(_at_one(way), units)
        ways.append(way._replace(units=units, margin=margin, law=law))
        limits.append(limit)
    unread = dict.fromkeys(_UNREAD, Sealed())
    return altered(mechanism, ways=tuple(ways), limits=tuple(limits), **unread), capacity


def _at_one(way: Branch) -> Any:
    """A branch's noise, as if it charged 1."""
    return replace(way.law, scale=way.law.scale * way.charge)


def _require_all_numbers(made: Make, shape: dict[str, Any], *, thorough: bool) -> None:
    """Each number is a quotient of polynomials of low degree in k, the share, ε and Δ.

    So a few values of these are enough. They are looked at in grid steps, as a release takes them.
    """
    sizes = (1, 2, 3, 5) if thorough else (3,)
    shares = _SHARES if thorough else _SHARES[:1]
    other: dict[str, Any] = {"epsilon": Fraction(7, 3), "sensitivity": 3}
    on_grid: dict[str, Any] = {"sensitivity": Fraction(4, 3), "grid": Fraction(1, 4)}
    for k, share, more in itertools.product(sizes, shares, ({}, other, on_grid)):
        require_numbers(made(k=k, threshold_share=share, **shape, **more).in_steps())


def require_numbers(mechanism: SparseVector) -> None:
    """Raise a violation unless the mechanism's numbers are as a step takes them for granted."""
    for fact, holds in {**_facts_of_units(mechanism), **_facts_of_noise(mechanism)}.items():
        if not holds:
            raise Violation("budget", f"it is not so that {fact}")


def _facts_of_units(mechanism: SparseVector) -> dict[str, bool]:
    ways, limits = mechanism.ways, mechanism.limits
    pairs = list(zip(ways, limits, strict=True))
    whole = mechanism.threshold_share * mechanism.epsilon + mechanism.capacity * mechanism.unit
    return {
        "all units and the threshold's share are ε": whole == mechanism.epsilon,
        "branches are numbered": [way.number for way in ways] == list(range(1, len(ways) + 1)),
        "each uses a unit at least": ways[0].units >= 1,
        "dearer branches come later and are given up first": all(
            a.units <= b.units and limit >= next_limit
            for (a, limit), (b, next_limit) in itertools.pairwise(pairs)
        ),
        "what is tried can be paid": all(
            limit + way.units <= mechanism.capacity for way, limit in pairs
        ),
        "a charge is so many units": all(way.charge == way.units * mechanism.unit for way in ways),
    }


def _facts_of_noise(mechanism: SparseVector) -> dict[str, bool]:
    delta, ways = mechanism.sensitivity, mechanism.ways
    share = mechanism.threshold_share * mechanism.epsilon
    doubled = 1 if mechanism.monotonic else 2
    return {
        "a branch's noise is inverse to its charge": all(
            way.law.scale * way.charge == doubled * delta for way in ways
        ),
        "a cost is inverse to the scale": all(
            way.law.cost(move) == _at_one(way).cost(move) * way.charge
            for way, move in itertools.product(ways, _MOVES)
        ),
        "Δ costs what it does for Δ = 1": all(
            way.law.cost(delta * move) == _for_one(way.law, delta).cost(move)
            for way, move in itertools.product(ways, _MOVES)
        ),
        "the threshold's rise costs its share": mechanism.threshold_law.cost(delta) <= share,
    }


def _for_one(law: Any, delta: Fraction) -> Any:
    """The law in units of Δ."""
    return law.scaled(Fraction(1) / delta)
