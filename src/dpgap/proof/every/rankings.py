"""Top-K for every n and k: two winners and two losers show every violation.

Look at a violation among n answers. Either two winners come out in another order, or a loser beats
a winner, or a lead changes, or a winner's shift costs too much. Each is about at most two winners,
and about the losers that are best before and after. Where all answers win there is no loser, and
leads are over the last winner. Run the program on these few alone: it ranks them as it ranked them
among all, and shifts them alike (`require_restriction`). So the violation shows there; and there is
none, for all answers, neighbours and noise.

A loser is not shifted. A winner's shift depends on losers' draws only, so losers before winners is
an order for every n: the alignment is acyclic, and |det J| = 1. An output has finitely many
discrete parts. Each winner costs at most ε/k, and there are k.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.proof.checker.alignment import Trial
from dpgap.proof.checker.families import altered
from dpgap.proof.checker.numbers import Exact, Violation, draws_of, form_of
from dpgap.proof.every.measurements import released
from dpgap.proof.every.memory import require_uniform
from dpgap.proof.every.theorem import Theorem, prove_few

FEW = ((1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2))
"""Winners and losers."""
ONE_WINS = tuple(each for each in FEW if each[0] == 1)
_MANY = 5
_SIZES = (1, 2, 3, 4, 5, 8)

Make = Callable[..., NoisyTopK]
"""Makes a mechanism from k, ε and the sensitivity."""


def prove_ranking(made: Make, kind: str, few: Sequence[tuple[int, int]] = FEW) -> list[Theorem]:
    """The theorems about few answers; raises a violation if something does not hold."""
    require_scales(made)
    return _prove_few(made(k=1), kind, few, 1, ties=False)


def prove_known_ranking(
    mechanism: Any, kind: str, ties: bool, share: Exact, losers: int
) -> list[Theorem]:
    """The same for one mechanism, if only a share of its ε is claimed; without losers all win."""
    require_scale(mechanism)
    few = [each for each in FEW if each[0] <= mechanism.k and bool(each[1]) == bool(losers)]
    return _prove_few(mechanism, kind, few, share, ties=ties)


def _prove_few(
    sample: Any, kind: str, few: Sequence[tuple[int, int]], share: Exact, *, ties: bool
) -> list[Theorem]:
    require_uniform(type(sample))
    require_restriction(sample)
    law = replace(sample.law, scale=sample.law.scale * sample.epsilon / sample.k)
    theorems = []
    for winners, losers in few:
        program = altered(sample, k=winners, law=law)
        name = f"{type(sample).__name__}, {law.name}, {winners} winning, {losers} losing"
        # Two winners cost what each costs alone.
        allowed = winners * share if winners + losers < 4 else None
        size, order = winners + losers, _losers_come_first
        theorems.append(prove_few(name, program, size, kind, allowed, order, ties=ties))
    return theorems


def require_scales(made: Make) -> None:
    """Raise a violation unless the scale is right whatever k, ε and the sensitivity are."""
    for k, epsilon, delta in itertools.product(_SIZES, (1, Fraction(7, 3)), (1, 3)):
        require_scale(made(k=k, epsilon=epsilon, sensitivity=delta))
    on_grid = made(k=3, sensitivity=Fraction(4, 3), grid=Fraction(1, 4))
    require_scale(on_grid.in_steps())
    if on_grid.law.scaled(Fraction(4)) != on_grid.in_steps().law:
        raise Violation("budget", "noise on a grid must be that of the grid's steps")


def require_scale(mechanism: Any) -> None:
    """Raise a violation unless a winner's noise is as large as its part of ε, ε/k, is small."""
    delta = getattr(mechanism, "sensitivity", 1)
    doubled = 1 if getattr(mechanism, "monotonic", False) else 2
    if mechanism.law.scale * mechanism.epsilon != doubled * mechanism.k * delta:
        raise Violation("budget", "noise must grow with k as each winner's part of ε falls")
    if getattr(mechanism.law, "step", delta) != delta:
        raise Violation("budget", "stairs must be as wide as the sensitivity")


def _losers_come_first(made: Trial) -> bool:
    """Whether losers are not shifted, and winners' shifts depend on losers' draws only."""
    (winners, _), draws = made.output, range(len(made.draws.values))
    losers = {draw for draw in draws if draw not in winners}
    needs = [draws_of(shift) for shift in made.shifts]
    asked: set[int] = set().union(*(about for about, _ in made.questions))
    still = all(form_of(made.shifts[loser]) == ({}, 0) for loser in losers)
    return still and all(need <= losers for need in needs) and asked <= losers


_restricted: set[tuple[Any, ...]] = set()
"""The code of which it is known."""


def require_restriction(mechanism: Any) -> None:
    """Raise a violation unless few among many are ranked and shifted as they are alone.

    For five answers in every order, and every k.
    """
    kind = type(mechanism)
    code = kind, mechanism.law.signed, kind.run.__code__, kind.align.__code__
    if code in _restricted:
        return
    for order in itertools.permutations(range(_MANY)):
        moves = [Fraction((3 * at + sum(order[: at + 1])) % 5 - 2, 2) for at in order]
        answers = [Fraction(7 * at % 5) for at in range(_MANY)]
        noise = [10 * rank - answer for rank, answer in zip(order, answers, strict=True)]
        for k in range(1, _MANY + 1):
            _require_on_few(altered(mechanism, k=k), (answers, moves, noise))
    _restricted.add(code)


def _require_on_few(mechanism: Any, numbers: Sequence[Sequence[Fraction]]) -> None:
    winners, leads, shifts = _released(mechanism, numbers)
    answers, moves, noise = numbers
    losers = [at for at in range(len(answers)) if at not in winners]
    before = [answer + value for answer, value in zip(answers, noise, strict=True)]
    after = [value + move for value, move in zip(before, moves, strict=True)]
    deciding = {max(losers, key=side.__getitem__) for side in (before, after) if losers}
    deciding = deciding or {winners[-1]}
    if not mechanism.law.signed:  # the least noise, before and after
        risen = [value - move for value, move in zip(noise, moves, strict=True)]
        deciding |= {min(winners, key=side.__getitem__) for side in (noise, risen)}
    for kept in _subsets(len(answers), deciding):
        fewer = altered(mechanism, k=sum(at in winners for at in kept))
        if not fewer.k:
            continue
        alone = _released(fewer, [[side[at] for at in kept] for side in numbers])
        among = (
            tuple(kept.index(winner) for winner in winners if winner in kept),
            [lead for winner, lead in zip(winners, leads, strict=False) if winner in kept],
            [shifts[at] for at in kept],
        )
        if alone != among:
            raise Violation("restriction", "few among many are not treated as they are alone")


def _released(mechanism: Any, numbers: Sequence[Sequence[Fraction]]) -> Any:
    answers, moves, noise = numbers
    (winners, leads), shifts, _ = released(mechanism, answers, moves, noise)
    if hasattr(mechanism, "unalign"):
        neighbour = [answer + move for answer, move in zip(answers, moves, strict=True)]
        shifted = [value + shift for value, shift in zip(noise, shifts, strict=True)]
        back = mechanism.unalign(answers, neighbour, shifted, (winners, None))
        if [-shift for shift in shifts] != list(back):
            raise Violation("one-to-one", "unalign does not lead back")
    return winners, list(leads or ()), shifts


def _subsets(n: int, deciding: set[int]) -> Iterator[list[int]]:
    for size in range(1, n):
        for kept in itertools.combinations(range(n), size):
            if deciding <= {*kept}:
                yield list(kept)
