"""How benchmarks measure time: medians of calls that take turns, so that all see one machine."""

import statistics
import time
from collections.abc import Callable
from typing import Any


def timed(
    call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """The seconds of one call, and what it returned."""
    started = clock()
    result = call()
    return clock() - started, result


def rounds(
    *calls: Callable[[], Any],
    times: int = 5,
    at_least_seconds: float = 0.0,
    at_most: int = 1_000,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """The seconds of every call, which take turns: so many times, or until each had its seconds."""
    if warm_up:
        for call in calls:
            call()
    taken: list[list[float]] = [[] for _ in calls]
    while len(taken[0]) < times or min(map(sum, taken)) < at_least_seconds:
        for own, call in zip(taken, calls, strict=True):
            own.append(timed(call, clock)[0])
        if len(taken[0]) >= at_most:
            break
    return taken


def medians(*calls: Callable[[], Any], **how: Any) -> list[float]:
    """The median seconds of each call, as `rounds` takes them."""
    return [statistics.median(own) for own in rounds(*calls, **how)]
