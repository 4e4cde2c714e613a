"""Doing many things on all cores, in the order given."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def workers() -> int:
    """How many processes are worth starting."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(
    work: Callable[[int], Result], count: int, done: Callable[[object], object] = lambda _: None
) -> list[Result]:
    """`work(0)`, `work(1)`, … on all cores; `done` is called as each of them ends."""
    if workers() == 1 or count == 1:
        results = []
        for i in range(count):
            results.append(work(i))
            done(i)
        return results
    with ProcessPoolExecutor(workers()) as pool:
        futures = [pool.submit(work, i) for i in range(count)]
        for future in futures:
            future.add_done_callback(done)
        return [future.result() for future in futures]
