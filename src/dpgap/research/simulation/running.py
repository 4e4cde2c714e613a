"""Many runs of a mechanism or a pipeline, in batches that are the same on any number of threads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpgap._package import public
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.parameters import positive_integer
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.research.simulation.batch import batch_of
from dpgap.research.simulation.floats import generator
from dpgap.research.simulation.ranked import Ranked

RUNS_IN_A_BATCH = 5_000
_LARGE_K = 16


@public
@errors_without_answers
def simulate(
    mechanism: Any,
    answers: ArrayLike | Ranked,
    *,
    runs: int = 10_000,
    seed: int | None = None,
    thresholds: ArrayLike | None = None,
    max_answers: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Run a mechanism or a pipeline many times on the same answers, for research.

    Returns `TopKRuns`, `JointRuns`, `HybridRuns`, `AboveRuns`, `HistogramRuns`, `MeasuredRuns` or,
    for other mechanisms, `ProgramRuns`. A simulation shows true values, so it refuses private
    answers that were made from a table.

    Parameters
    ----------
    mechanism
        A mechanism of dpgap, a `MeasuredTopK` or `MeasuredAbove`, or one of your own.
    answers
        An array. Answers that serve more than once may be ranked once, by `Ranked.of`.
    runs
        How many runs. All are returned at once: where they are too many for memory, take them from
        `dpgap.research.simulation.batches`.
    seed
        The same seed gives the same runs, whatever the number of workers.
    thresholds
        For every run of a Sparse Vector a threshold of its own; fastest in order of size.
    max_answers
        After how many answers each run of a Sparse Vector stops.
    workers
        How many threads. By default one for every usable core where single steps are large enough
        for that to pay: for the best method's estimates, and for large k.
    progress
        `progress(done, runs)` is called as batches end.

    >>> import dpgap
    >>> runs = dpgap.simulate(dpgap.NoisyMax(epsilon=1), [90, 50, 10], runs=5, seed=1)
    >>> runs.indices.shape, runs.gaps.shape
    ((5, 1), (5, 1))
    """
    done, parts = 0, []
    for part, size in batches(
        mechanism,
        answers,
        runs=runs,
        seed=seed,
        thresholds=thresholds,
        max_answers=max_answers,
        workers=workers,
    ):
        parts.append(part)
        done += size
        if progress is not None:
            progress(done, runs)
    return type(parts[0]).joined(parts)


def batches(
    mechanism: Any,
    answers: ArrayLike | Ranked,
    *,
    runs: int = 10_000,
    seed: int | None = None,
    thresholds: ArrayLike | None = None,
    max_answers: int | None = None,
    workers: int | None = None,
) -> Iterator[tuple[Any, int]]:
    """The same runs a batch at a time, each with its size, so that memory stays bounded."""
    runs = positive_integer("runs", runs)
    workers = positive_integer(
        "workers", _fitting_workers(mechanism) if workers is None else workers
    )
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed must be None or a whole number from 0 up, not {seed!r}")
    batch = batch_of(mechanism, answers, runs, thresholds, max_answers)
    slices = [slice(at, min(at + RUNS_IN_A_BATCH, runs)) for at in range(0, runs, RUNS_IN_A_BATCH)]
    seeds = np.random.SeedSequence(seed).spawn(len(slices))
    tasks = iter(zip(slices, seeds, strict=True))
    if workers == 1 or len(slices) == 1:
        for part, own in tasks:
            yield batch(part, generator(own)), part.stop - part.start
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[tuple[Future[Any], slice]] = []
        while True:
            # A few tasks are under way at any time, so that finished ones do not pile up.
            for part, own in islice(tasks, 2 * workers - len(waiting)):
                waiting.append((pool.submit(batch, part, generator(own)), part))
            if not waiting:
                return
            future, part = waiting.pop(0)
            yield future.result(), part.stop - part.start


def _fitting_workers(mechanism: Any) -> int:
    """How many threads pay: small steps make them wait for each other."""
    is_pipeline = isinstance(mechanism, MeasuredTopK | MeasuredAbove)
    selection = mechanism.selection if is_pipeline else mechanism
    large = isinstance(selection, NoisyTopK | SparseVector) and selection.k >= _LARGE_K
    if not large and not (is_pipeline and mechanism.method != "paper"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
