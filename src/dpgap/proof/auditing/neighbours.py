"""Neighbours to try on a program of which nothing is known: many shapes, sizes and levels.

Every answer moves by at most the sensitivity. A mistake usually shows where answers are equal, or
differ by as much as they can move; where some fall and the others rise; or at a level where the
usual output changes, such as a threshold. This level is searched for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from operator import add
from typing import Any

from dpgap.proof.auditing.outputs import (
    AMBIGUOUS,
)

Answers = tuple[Any, ...]
Pair = tuple[Answers, Answers]

_SIZES = (2, 5, 1, 3, 6)
_LONG = 40
"""The number of many answers, which show small leaks that add up."""
_LONG_AT = 5
"""How many pairs come before those of many answers."""
_FINER_AT = 2
"""How many pairs are tried before those that move by less than the sensitivity."""
_LARGE_AND_FAR_APART = 9_000, 5_000, 100, 0
_FARTHEST = 8
"""The levels where the output changes are searched up to a power of 4 below this one."""
_MOST_LEVELS = 3
"""At most so many of these levels are found, besides 0."""


def pairs(
    levels: Sequence[int], sensitivity: Any, *, monotonic: bool, reach: int | None, far: int
) -> list[Pair]:
    """Answers and neighbours, the more usual ones first.

    >>> pairs([0], 1, monotonic=True, reach=1, far=8)[:2]
    [((0, 0), (1, 0)), ((0, 0, 0, 0, 0), (1, 0, 0, 0, 0))]
    """
    by_size = [list(_of_size(size, levels, monotonic, reach, far)) for size in _SIZES]
    in_turns = chain.from_iterable(zip_longest(*by_size))
    ordered = [pair for pair in in_turns if pair is not None]
    ordered[_LONG_AT:_LONG_AT] = _long(levels, monotonic, reach)
    scaled = [_scaled(pair, sensitivity) for pair in ordered]
    scaled[_FINER_AT:_FINER_AT] = _finer(levels[0], sensitivity)
    return list(dict.fromkeys(scaled))


def _scaled(pair: Pair, factor: Any, lift: Any = 0) -> Pair:
    answers, neighbour = pair
    return (
        tuple(answer * factor + lift for answer in answers),
        tuple(answer * factor + lift for answer in neighbour),
    )


def lifted(pair: Pair) -> Pair:
    """The pair, moved up so that no answer is below 0.

    >>> lifted(((0, 0), (1, -1)))
    ((1, 1), (2, 0))
    """
    return _scaled(pair, 1, max(0, -min(map(min, pair))))


def _may_move(moves: Sequence[int], monotonic: bool, reach: int | None) -> bool:
    both_ways = {1, -1} <= set(moves)
    return not (monotonic and both_ways) and (reach is None or sum(map(abs, moves)) <= reach)


def wide(sensitivity: Any, *, monotonic: bool, reach: int | None) -> Iterator[Pair]:
    """Pairs of large answers that are far apart; all answers move, or one.

    >>> next(wide(1, monotonic=True, reach=1))
    ((9000, 5000, 100, 0), (9001, 5000, 100, 0))
    """
    answers = _LARGE_AND_FAR_APART
    for moves in ((1, 1, 1, 1), (1, -1, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)):
        if _may_move(moves, monotonic, reach):
            neighbour = tuple(map(add, answers, moves))
            yield _scaled((answers, neighbour), sensitivity)


def _finer(level: int, sensitivity: Any) -> Iterator[Pair]:
    """Pairs that differ by less than the sensitivity: they expose noise in steps of it.

    They differ by 1 if the sensitivity is a whole number, because answers may have to be whole.
    """
    if sensitivity == 1:
        return
    move = 1 if sensitivity == int(sensitivity) else sensitivity / 2
    for n in (2, 1):
        yield (level * sensitivity,) * n, (level * sensitivity + move,) * n


def _long(levels: Sequence[int], monotonic: bool, reach: int | None) -> Iterator[Pair]:
    """Many equal answers, of which half rise and half fall; or stay, if all move one way."""
    half = _LONG // 2
    moving = half if monotonic else _LONG
    if reach is not None and reach < moving:
        return
    for level in levels:
        risen = (level + 1,) * half
        others = (level,) * half if monotonic else (level - 1,) * half
        yield (level,) * _LONG, risen + others


def _of_size(
    n: int, levels: Sequence[int], monotonic: bool, reach: int | None, far: int
) -> Iterator[Pair]:
    """The pairs with n answers, in units of the sensitivity."""
    half = n // 2
    for base, moves in (
        ((0,) * n, (1,) * n),
        ((0, 1) * half + (0,) * (n % 2), (1, -1) * half + (0,) * (n % 2)),
        ((0,) * n, (1,) * (n - half) + (-1,) * half),
        ((0,) * n, (1,) * (n - 1) + (-1,)),
        ((0,) * n, (-1,) + (1,) * (n - 1)),
        ((0,) * n, (1,) + (0,) * (n - 1)),
        ((0,) * n, (0,) + (1,) * (n - 1)),
        ((far,) * half + (0,) * (n - half), (-1,) * half + (1,) * (n - half)),
        ((far,) * (n - half) + (0,) * half, (-1,) * (n - half) + (1,) * half),
        ((0,) * n, (1,) * (n - 2) + (-1,) * 2),
        ((0,) * n, (-1,) * 2 + (1,) * (n - 2)),
        (((far,) + (0, 1) * half)[:n], ((0,) + (1, -1) * half)[:n]),
        ((0,) * n, (1,) * (n - half) + (0,) * half),
        ((far,) * (n - half) + (0,) * half, (-1,) * (n - half) + (0,) * half),
        ((0,) * n, (0,) * (n - 1) + (1,)),
        ((1, 0, 2)[:n] + (0,) * (n - 3), (-1, 1, -1)[:n] + (0,) * (n - 3)),
    ):
        if len(base) != n or len(moves) != n or not any(moves):
            continue
        if not _may_move(moves, monotonic, reach):
            continue
        for level in levels:
            answers = tuple(level + start for start in base)
            yield answers, tuple(a + move for a, move in zip(answers, moves, strict=True))


def decision_levels(mode: Callable[[Answers], Mapping[str, Any] | None]) -> list[int]:
    """Level 0, and the levels of all answers at which the usual value at some path changes.

    `mode` returns the usual value at each path of the output, or `AMBIGUOUS`; None if the function
    refuses the answers. If several values change between two powers of 4, the level of the last one
    is found: a noisy count, which changes at every level, hides no threshold.
    """

    def usual(level: int) -> Mapping[str, Any] | None:
        return mode((level,) * 3)

    start = usual(0)
    if start is None:
        return [0]
    levels = [0]
    for sign in (1, -1):
        found_paths: set[str] = set()
        for power in range(_FARTHEST):
            if len(levels) > _MOST_LEVELS:
                return levels
            far = sign * 4**power
            changed = _changed_paths(start, usual(far) or start) - found_paths
            if changed:
                found_paths |= changed
                level = _last_as_before(usual, start, changed, far)
                if level not in levels:
                    levels.append(level)
    return levels


def _changed_paths(start: Mapping[str, Any], modes: Mapping[str, Any]) -> set[str]:
    """The paths whose usual value is another one, and is clear on both sides."""
    changed = set()
    for path in start.keys() | modes.keys():
        before = start.get(path)
        after = modes.get(path)
        if before != after and AMBIGUOUS not in (before, after):
            changed.add(path)
    return changed


def _last_as_before(
    usual: Callable[[int], Mapping[str, Any] | None],
    start: Mapping[str, Any],
    changed: set[str],
    far: int,
) -> int:
    """The last level from 0 to `far` at which one of these paths still has its first value."""
    near = 0
    while abs(far - near) > 1:
        middle = (near + far) // 2
        modes = usual(middle) or {}
        if any(modes.get(path) == start.get(path) for path in changed):
            near = middle
        else:
            far = middle
    return near
