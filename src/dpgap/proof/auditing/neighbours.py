"""Neighbours to try on a program of which nothing is known: many shapes, sizes and levels.

Every answer moves by at most the sensitivity. A mistake usually shows where answers are equal, or
differ by as much as they can move; where some fall and the others rise; or where a program changes
its mind, which is looked for.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

Answers = tuple[Any, ...]
Pair = tuple[Answers, Answers]

NOT_ONE = "one thing or another"
_SIZES = (2, 5, 1, 3, 6)
_LONG, _LONG_AT = 40, 5
"""So many answers show what each of them loses a little of; how many pairs are more usual."""
_FINER_AT = 2
"""How many pairs are more usual than those that move by less than the sensitivity."""
_FARTHEST = 7
"""The level where a program changes its mind is looked for up to this power of 4, less one."""


def pairs(
    levels: Sequence[int], sensitivity: Any, *, monotonic: bool, reach: int | None, far: int
) -> list[Pair]:
    """Answers and neighbours, the more usual ones first.

    >>> pairs([0], 1, monotonic=True, reach=1, far=8)[:2]
    [((0, 0), (1, 0)), ((0, 0, 0, 0, 0), (1, 0, 0, 0, 0))]
    """
    by_size = [list(_of_size(size, levels, monotonic, reach, far)) for size in _SIZES]
    turns = [pair for turn in zip_longest(*by_size) for pair in turn if pair is not None]
    turns[_LONG_AT:_LONG_AT] = _long(levels, monotonic, reach)
    scaled: list[Pair] = [
        (tuple(x * sensitivity for x in one), tuple(x * sensitivity for x in other))
        for one, other in turns
    ]
    scaled[_FINER_AT:_FINER_AT] = _finer(levels[0], sensitivity)
    return list(dict.fromkeys(scaled))


def _finer(level: int, sensitivity: Any) -> Iterator[Pair]:
    """Moves by less than the sensitivity, which noise in steps of it gives away.

    By 1 where it is a whole number; answers may have to be whole then, as they are if it is 1.
    """
    if sensitivity == 1:
        return
    move = 1 if sensitivity == int(sensitivity) else sensitivity / 2
    for n in (2, 1):
        yield (level * sensitivity,) * n, (level * sensitivity + move,) * n


def _long(levels: Sequence[int], monotonic: bool, reach: int | None) -> Iterator[Pair]:
    """Many equal answers, of which half rise and half fall; or stay, if all move one way."""
    half = _LONG // 2
    if reach is None or reach >= (half if monotonic else _LONG):
        for level in levels:
            yield (level,) * _LONG, (level + 1,) * half + (level - (not monotonic),) * half


def _of_size(
    n: int, levels: Sequence[int], monotonic: bool, reach: int | None, far: int
) -> Iterator[Pair]:
    """The pairs of so many answers, in units of the sensitivity."""
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
        ((far, *(0, 1) * half)[:n], (0, *(1, -1) * half)[:n]),
        ((0,) * n, (1,) * (n - half) + (0,) * half),
        ((far,) * (n - half) + (0,) * half, (-1,) * (n - half) + (0,) * half),
        ((0,) * n, (0,) * (n - 1) + (1,)),
        ((1, 0, 2)[:n] + (0,) * (n - 3), (-1, 1, -1)[:n] + (0,) * (n - 3)),
    ):
        if len(base) != n or len(moves) != n or not any(moves):
            continue
        if monotonic and {1, -1} <= set(moves):
            continue
        if reach is not None and sum(map(abs, moves)) > reach:
            continue
        for level in levels:
            answers = tuple(level + b for b in base)
            yield answers, tuple(a + move for a, move in zip(answers, moves, strict=True))


def changes_of_mind(mode: Callable[[Answers], Any]) -> list[int]:
    """The level at which all answers at once change what is usually said, if there is one.

    `mode` says what is usually said on some answers, or None where it takes no such answers.
    """

    def usual(level: int) -> Any:
        return mode((level,) * 3)

    start = usual(0)
    if start in (None, NOT_ONE):
        return []
    for sign in (1, -1):
        near = 0
        for far in (sign * 4**power for power in range(_FARTHEST)):
            said = usual(far)
            if said not in (None, NOT_ONE, start):
                return [_between(near, far, lambda level: bool(usual(level) == start))]
            near = far if said == start else near
    return []


def _between(near: int, far: int, is_as_before: Callable[[int], bool]) -> int:
    """About where it changes: the last level that is as before, halved down to."""
    while abs(far - near) > 1:
        middle = (near + far) // 2
        near, far = (middle, far) if is_as_before(middle) else (near, middle)
    return near
