"""Many runs at once, for research: the law of a release, on fast seeded floats.

`simulate` runs a mechanism or a pipeline many times on the same answers. What it returns is what
releases would have shown: floors and offsets included. Answers that cannot matter are left to
their tails, exactly in law, so time hardly grows with their number. Floats here are not secure
and not exact in the last bits; nothing in this package can be reached from a `release`.

>>> import dpgap
>>> runs = dpgap.simulate(dpgap.NoisyTopK(2, epsilon=1, monotonic=True), [90, 50, 10], runs=5)
>>> runs.indices.shape, runs.gaps.shape
((5, 2), (5, 2))

Any other mechanism written for dpgap works too. One with a method `simulate(answers, runs, rng)`
is asked for a sequence of outputs, one a run; for others `run(answers, noise)` is called again and
again with float noise, which is the continuous algorithm. A subclass that changes `run` or has a
`simulate` of its own counts as such a mechanism.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.data.tracebacks import errors_without_answers
from dpgap.exact.draws import Floats, Integers
from dpgap.exact.grid import MAX_STEPS, on_grid, steps_up
from dpgap.exact.joint_laws import ShellNoise
from dpgap.exact.laws import Law
from dpgap.exact.parameters import positive_integer
from dpgap.mechanisms.measuring.count_hull import CountHull
from dpgap.mechanisms.measuring.cube import Cube
from dpgap.mechanisms.measuring.laplace import Laplace
from dpgap.mechanisms.sparse_vector.mechanism import SparseVector
from dpgap.mechanisms.top_k.mechanism import NoisyTopK
from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK
from dpgap.research.simulation.floats import Rng, draw, generator
from dpgap.research.simulation.measured import measure_above, measure_top_k
from dpgap.research.simulation.ranked import Ranked, arrays_only
from dpgap.research.simulation.runs import AboveRuns, MeasuredRuns, ProgramRuns, Runs, TopKRuns
from dpgap.research.simulation.shells import real_shells
from dpgap.research.simulation.sparse_vector import sift_runs
from dpgap.research.simulation.top_k import select_runs

__all__ = [
    "AboveRuns",
    "FloatNoise",
    "MeasuredRuns",
    "ProgramRuns",
    "Ranked",
    "Runs",
    "TopKRuns",
    "batches",
    "simulate",
]

RUNS_IN_A_BATCH = 5_000
_LARGE_K = 16

_Batch = Callable[[slice, Rng], Any]


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
    """Run a mechanism or a pipeline `runs` times on the same answers.

    Returns `TopKRuns`, `AboveRuns`, `MeasuredRuns` or, for other mechanisms, `ProgramRuns`. The
    same seed gives the same runs whatever the number of `workers`, which are threads. By default
    there is one for every usable core where single steps are large enough for that to pay: for the
    best method's estimates, and for large k. `thresholds` gives every run of a Sparse Vector a
    threshold of its own (fastest in order of size), `max_answers` stops each of them after so many
    answers. Answers in whole steps that serve more than once may be ranked once, by `Ranked.of`.
    `progress(done, runs)` is called as batches end. All runs are returned at once: where they are
    too many for memory, take them from `dpgap.research.simulation.batches`.

    Answers are arrays only: a simulation shows true values, so it refuses private answers that
    were made from a table.
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
    workers = _fitting(mechanism) if workers is None else positive_integer("workers", workers)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed must be None or a whole number from 0 up, not {seed!r}")
    batch = _batch_of(mechanism, answers, runs, thresholds, max_answers)
    slices = [slice(at, min(at + RUNS_IN_A_BATCH, runs)) for at in range(0, runs, RUNS_IN_A_BATCH)]
    seeds = np.random.SeedSequence(seed).spawn(len(slices))
    tasks = iter(zip(slices, seeds, strict=True))
    if workers == 1 or len(slices) == 1:
        for part, own in tasks:
            yield batch(part, generator(own)), part.stop - part.start
        return
    with ThreadPoolExecutor(workers) as pool:
        # A few tasks are under way at any time, so that finished ones do not pile up.
        waiting = [
            (pool.submit(batch, part, generator(own)), part)
            for part, own in islice(tasks, 2 * workers)
        ]
        while waiting:
            future, part = waiting.pop(0)
            result = future.result()
            waiting += [
                (pool.submit(batch, part, generator(own)), part) for part, own in islice(tasks, 1)
            ]
            yield result, part.stop - part.start


def _fitting(mechanism: Any) -> int:
    """How many threads pay: small steps make them wait for each other."""
    is_pipeline = isinstance(mechanism, MeasuredTopK | MeasuredAbove)
    selection = mechanism.selection if is_pipeline else mechanism
    large = isinstance(selection, NoisyTopK | SparseVector) and selection.k >= _LARGE_K
    if not large and not (is_pipeline and mechanism.method == "best"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _batch_of(
    mechanism: Any,
    answers: ArrayLike | Ranked,
    runs: int,
    thresholds: ArrayLike | None,
    max_answers: int | None,
) -> _Batch:
    """What turns some of the runs and a generator into results."""
    arrays_only(answers)
    if max_answers is not None:
        positive_integer("max_answers", max_answers)
    selection = _selection_of(mechanism)
    if isinstance(selection, SparseVector):
        if isinstance(mechanism, MeasuredAbove):
            return _measured_above(mechanism, answers, runs, thresholds, max_answers)
        return _above(selection, answers, _thresholds(selection, thresholds, runs), max_answers)
    if not (thresholds is None and max_answers is None):
        raise ValueError("thresholds and max_answers are for a Sparse Vector only")
    if isinstance(mechanism, MeasuredTopK) and selection is not None:
        return _measured_top_k(mechanism, answers)
    return _program(mechanism, answers) if selection is None else _top_k(selection, answers)


def _selection_of(mechanism: Any) -> NoisyTopK | SparseVector | None:
    """What selects, if everything is done as dpgap does it; None for programs of others."""
    if callable(getattr(mechanism, "simulate", None)):
        return None
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        return None if hasattr(mechanism, "run") else _selection_of(mechanism.selection)
    kind = type(mechanism)
    if isinstance(mechanism, NoisyTopK) and kind.run is NoisyTopK.run:
        return mechanism
    if isinstance(mechanism, SparseVector) and kind.run is SparseVector.run:
        return mechanism if kind.live is SparseVector.live else None
    return None


def _ranked(mechanism: NoisyTopK | SparseVector, answers: ArrayLike | Ranked) -> Ranked:
    if isinstance(answers, Ranked):
        mechanism._accept(answers.answers, None)
        return answers
    mechanism._accept(answers, None)
    return Ranked.of(on_grid(answers, mechanism.grid))


def _top_k(mechanism: NoisyTopK, answers: ArrayLike | Ranked) -> _Batch:
    program, ranked = mechanism.in_steps(), _ranked(mechanism, answers)
    ranked = ranked.less(int(ranked.answers.max()))
    grid = float(mechanism.grid or 1)

    def batch(part: slice, rng: Rng) -> TopKRuns:
        indices, leads = select_runs(program, ranked, part.stop - part.start, rng)
        gaps = leads.astype(np.float64)
        gaps[:, :-1] -= leads[:, 1:]
        return TopKRuns(indices, gaps * grid)

    return batch


class _Thresholds(NamedTuple):
    """One for each run: as stated, in whole steps, and how far these are above."""

    stated: Floats
    whole: Integers
    rounded_up: Floats


def _above(
    mechanism: SparseVector,
    answers: ArrayLike | Ranked,
    thresholds: _Thresholds,
    max_answers: int | None,
) -> _Batch:
    program, ranked = mechanism.in_steps(), _ranked(mechanism, answers)
    grid = float(mechanism.grid or 1)
    origin = int(thresholds.whole.min())
    ranked, whole = ranked.less(origin), thresholds.whole - origin
    offsets = np.append(0.0, mechanism.gap_offsets - _rounded_up(mechanism))
    first, unit = float(mechanism.spent(0)), float(mechanism.unit)

    def batch(part: slice, rng: Rng) -> AboveRuns:
        sifted = sift_runs(program, ranked, whole[part], rng, max_answers)
        gaps = sifted.gaps
        gaps *= grid
        gaps += offsets[sifted.branches]
        gaps += np.repeat(thresholds.rounded_up[part], sifted.found)
        return AboveRuns(
            run=np.repeat(np.arange(sifted.found.size), sifted.found),
            indices=sifted.indices,
            gaps=gaps,
            branch_of=sifted.branches.astype(np.int64),
            found=sifted.found,
            used=sifted.used,
            spent=np.add(first, unit * sifted.used, dtype=np.float64),
            processed=sifted.processed,
        )

    return batch


def _rounded_up(mechanism: SparseVector) -> float:
    """How far the threshold in whole steps is above the one stated."""
    steps = steps_up(mechanism.threshold, mechanism.grid)
    return float(steps * (mechanism.grid or 1) - mechanism.threshold)


def _thresholds(mechanism: SparseVector, thresholds: ArrayLike | None, runs: int) -> _Thresholds:
    if thresholds is None:
        return _Thresholds(
            np.full(runs, float(mechanism.threshold)),
            np.full(runs, steps_up(mechanism.threshold, mechanism.grid)),
            np.full(runs, _rounded_up(mechanism)),
        )
    grid = float(mechanism.grid or 1)
    stated = np.asarray(thresholds, dtype=np.float64)
    if stated.shape != (runs,) or not (np.abs(stated) <= MAX_STEPS * grid).all():
        raise ValueError(
            f"thresholds must be {runs} finite numbers within ±2^60 grid steps, one for each run"
        )
    steps = stated / grid  # exact: grid is a power of two
    whole = np.ceil(steps)
    return _Thresholds(stated, whole.astype(np.int64), (whole - steps) * grid)


def _measured_top_k(pipeline: MeasuredTopK, answers: ArrayLike | Ranked) -> _Batch:
    ranked = _ranked(pipeline.selection, answers)
    pipeline.measurement.require_room(ranked.answers)
    select = _top_k(pipeline.selection, ranked)
    return lambda part, rng: measure_top_k(pipeline, ranked.answers, select(part, rng), rng)


def _measured_above(
    pipeline: MeasuredAbove,
    answers: ArrayLike | Ranked,
    runs: int,
    thresholds: ArrayLike | None,
    max_answers: int | None,
) -> _Batch:
    ranked = _ranked(pipeline.selection, answers)
    pipeline.measurement.require_room(ranked.answers)
    own = _thresholds(pipeline.selection, thresholds, runs)
    select = _above(pipeline.selection, ranked, own, max_answers)
    return lambda part, rng: measure_above(
        pipeline, ranked.answers, select(part, rng), own.stated[part], rng
    )


class FloatNoise:
    """Float noise for programs: what `run(answers, noise)` draws from in one run."""

    __slots__ = ("_left", "_rng")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._left: dict[ShellNoise, list[float]] = {}

    def draw(self, law: Law | ShellNoise) -> float:
        """The next draw, from `law`; of noise for many values, the next coordinate."""
        if not isinstance(law, ShellNoise):
            return float(draw(law, self._rng, 1)[0])
        left = self._left.setdefault(law, [])
        if not left:
            left += real_shells(law, self._rng, 1)[0].tolist()
        return left.pop()


def _program(mechanism: Any, answers: ArrayLike | Ranked) -> _Batch:
    values = _accepted(mechanism, answers)
    if callable(getattr(mechanism, "simulate", None)):
        return lambda part, rng: ProgramRuns(
            list(mechanism.simulate(values, part.stop - part.start, rng))
        )
    if not callable(getattr(mechanism, "run", None)):
        if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
            raise TypeError(
                "mechanism must have a method run(answers, noise) or simulate(answers, runs, rng) "
                "of its own, as its selection has"
            )
        raise TypeError(
            "mechanism must be a mechanism or pipeline of dpgap, or have a method "
            f"run(answers, noise) or simulate(answers, runs, rng); not {type(mechanism).__name__}"
        )
    listed = values.tolist()

    def batch(part: slice, rng: Rng) -> ProgramRuns:
        said = (mechanism.run(listed, FloatNoise(rng)) for _ in range(part.stop - part.start))
        return ProgramRuns([tuple(each) if isinstance(each, Iterator) else each for each in said])

    return batch


def _accepted(mechanism: Any, answers: ArrayLike | Ranked) -> NDArray[Any]:
    """Answers for a program: on the grid where dpgap's own mechanism, which it extends, has one."""
    is_pipeline = isinstance(mechanism, MeasuredTopK | MeasuredAbove)
    base = mechanism.selection if is_pipeline else mechanism
    if isinstance(base, NoisyTopK | SparseVector):
        steps = _ranked(base, answers).answers
    elif isinstance(base, CountHull | Cube | Laplace):
        steps = answers.answers if isinstance(answers, Ranked) else on_grid(answers, base.grid)
        if isinstance(base, CountHull):
            base._accept(steps)
    else:
        return answers.answers if isinstance(answers, Ranked) else np.asarray(answers)
    return steps if base.grid is None else steps * float(base.grid)
