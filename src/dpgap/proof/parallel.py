"""Doing many things on all cores, in the order given."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def workers() -> int:
    """How many processes are worth starting."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(work: Callable[[int], Result], count: int) -> Iterator[Result]:
    """`work(0)`, `work(1)`, … on all cores."""
    if workers() == 1 or count == 1:
        yield from map(work, range(count))
        return
    with ProcessPoolExecutor(workers()) as pool:
        yield from pool.map(work, range(count), chunksize=1)
