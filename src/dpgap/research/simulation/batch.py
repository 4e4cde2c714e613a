"""How a batch of runs is made: from a mechanism, its answers and a generator of random numbers.

A `Batch` is asked for some of the runs at a time. It is the same function for all of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpgap.exact.grid import MAX_STEPS, Grid
from dpgap.exact.parameters import positive_integer
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.research.simulation.floats import Rng, draw
from dpgap.research.simulation.joint_top_k import LikelyClasses, select_sets
from dpgap.research.simulation.measured import measure_above
from dpgap.research.simulation.programs import program_runs, rank_for
from dpgap.research.simulation.ranked import Ranked, arrays_only
from dpgap.research.simulation.routed import measured_batch
from dpgap.research.simulation.runs import (
    AboveRuns,
    HistogramRuns,
    HybridRuns,
    JointRuns,
    TopKRuns,
)
from dpgap.research.simulation.sparse_vector import sift_runs
from dpgap.research.simulation.top_k import best_runs, select_runs

Batch = Callable[[slice, Rng], Any]


def batch_of(
    mechanism: Any,
    answers: ArrayLike | Ranked,
    runs: int,
    thresholds: ArrayLike | None,
    max_answers: int | None,
) -> Batch:
    """How a mechanism or a pipeline is run on these answers."""
    arrays_only(answers)
    if max_answers is not None:
        positive_integer("max_answers", max_answers)
    selection = _selection_of(mechanism)
    if not isinstance(selection, SparseVector) and not (thresholds is None and max_answers is None):
        raise ValueError("thresholds and max_answers are for a Sparse Vector only")
    if _is_histogram(mechanism):
        return _histogram(mechanism, answers)
    if selection is None:
        return program_runs(mechanism, answers)
    ranked = rank_for(selection, answers)
    if isinstance(selection, HybridTopK):
        return _hybrid(selection, ranked)
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        mechanism.measurement.require_room(ranked.answers)
    if not isinstance(selection, SparseVector):
        if isinstance(mechanism, MeasuredTopK):
            return measured_batch(mechanism, ranked, lambda each: _selecting(each, ranked))
        return _selecting(selection, ranked)
    own = _thresholds(selection, thresholds, runs)
    above = _above(selection, ranked, own, max_answers)
    if not isinstance(mechanism, MeasuredAbove):
        return above
    return lambda part, rng: measure_above(
        mechanism, ranked.answers, above(part, rng), own.stated[part], rng
    )


def _selection_of(mechanism: Any) -> NoisyTopK | JointTopK | HybridTopK | SparseVector | None:
    """What selects, if everything is done as dpgap does it; None for programs of others."""
    if callable(getattr(mechanism, "simulate", None)):
        return None
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        return None if hasattr(mechanism, "run") else _selection_of(mechanism.selection)
    kind = type(mechanism)
    if isinstance(mechanism, NoisyTopK) and kind.run is NoisyTopK.run:
        return mechanism
    if isinstance(mechanism, JointTopK) and kind.run is JointTopK.run:
        return mechanism
    if isinstance(mechanism, HybridTopK) and kind.run is HybridTopK.run:
        return mechanism
    if isinstance(mechanism, SparseVector) and kind.run is SparseVector.run:
        return mechanism if kind.live is SparseVector.live else None
    return None


def _is_histogram(mechanism: Any) -> bool:
    """Whether it is a noisy histogram, and does as dpgap does."""
    own = callable(getattr(mechanism, "simulate", None))
    is_one = isinstance(mechanism, NoisyHistogram)
    return is_one and not own and type(mechanism).run is NoisyHistogram.run


def _histogram(mechanism: NoisyHistogram, answers: ArrayLike | Ranked) -> Batch:
    grid, law = Grid(mechanism.grid), mechanism.law_in_steps
    steps = answers.answers if isinstance(answers, Ranked) else grid.steps(answers)

    def batch(part: slice, rng: Rng) -> HistogramRuns:
        noisy = draw(law, rng, part.stop - part.start, steps.size)
        noisy += steps
        return HistogramRuns(noisy * grid.width)

    return batch


def _selecting(mechanism: NoisyTopK | JointTopK, ranked: Ranked) -> Batch:
    """How one selection is run."""
    if isinstance(mechanism, JointTopK):
        return _joint(mechanism, ranked)
    return _top_k(mechanism, ranked)


def _top_k(mechanism: NoisyTopK, ranked: Ranked) -> Batch:
    program = mechanism.in_steps()
    ranked = ranked.less(int(ranked.answers.max()))
    grid = Grid(mechanism.grid).width

    def batch(part: slice, rng: Rng) -> TopKRuns:
        indices, leads = select_runs(program, ranked, part.stop - part.start, rng)
        gaps = leads.astype(np.float64)
        gaps[:, :-1] -= leads[:, 1:]
        return TopKRuns(indices, gaps * grid)

    return batch


def _joint(mechanism: JointTopK, ranked: Ranked) -> Batch:
    likely = LikelyClasses.of(mechanism, ranked)
    half = Grid(mechanism.grid).width / 2

    def batch(part: slice, rng: Rng) -> JointRuns:
        indices, leads = select_sets(mechanism, ranked, likely, part.stop - part.start, rng)
        return JointRuns(indices, leads.astype(np.float64) * half)

    return batch


def _hybrid(mechanism: HybridTopK, ranked: Ranked) -> Batch:
    """The line is one more answer, the last; what is ranked below it is left out."""
    program, line = mechanism.in_steps(), ranked.answers.size
    answers = np.append(ranked.answers, int(program.threshold))
    ranked = Ranked.of(answers - int(answers.max()))
    grid = Grid(mechanism.grid).width
    costs = np.array([float(mechanism.spent(found)) for found in range(min(mechanism.k, line) + 1)])

    def batch(part: slice, rng: Rng) -> HybridRuns:
        runs = part.stop - part.start
        places, values = best_runs(program.without_line, ranked, runs, rng)
        is_line = places == line
        ends = np.where(is_line.any(axis=1), is_line.argmax(axis=1), places.shape[1] - 1)
        leads = np.floor(values - np.take_along_axis(values, ends[:, None], axis=1))
        leads[:, :-1] -= np.where(np.arange(1, leads.shape[1]) < ends[:, None], leads[:, 1:], 0.0)
        wins = np.arange(leads.shape[1]) < ends[:, None]
        return HybridRuns(places[wins], leads[wins] * grid, ends, costs[ends])

    return batch


class _Thresholds(NamedTuple):
    """One for each run: as stated, in whole steps, and how far these are above."""

    stated: Floats
    whole: Integers
    rounded_up: Floats


def _above(
    mechanism: SparseVector, ranked: Ranked, thresholds: _Thresholds, max_answers: int | None
) -> Batch:
    program = mechanism.in_steps()
    grid = Grid(mechanism.grid).width
    origin = int(thresholds.whole.min())
    ranked, whole = ranked.less(origin), thresholds.whole - origin
    offsets = np.append(0.0, mechanism.gap_offsets - _rounded_up(mechanism))
    first, unit = float(mechanism.spent(0)), float(mechanism.unit)

    def batch(part: slice, rng: Rng) -> AboveRuns:
        found, states = sift_runs(program, ranked, whole[part], rng, max_answers)
        indices, branches, gaps = found
        gaps *= grid
        gaps += offsets[branches]
        gaps += np.repeat(thresholds.rounded_up[part], states.found)
        return AboveRuns(
            indices=indices,
            gaps=gaps,
            branch_of=branches.astype(np.int64),
            found=states.found,
            used=states.used,
            spent=np.add(first, unit * states.used, dtype=np.float64),
            processed=states.processed(ranked.size),
        )

    return batch


def _rounded_up(mechanism: SparseVector) -> float:
    """How far the threshold in whole steps is above the one stated."""
    return Grid(mechanism.grid).excess(mechanism.threshold)


def _thresholds(mechanism: SparseVector, thresholds: ArrayLike | None, runs: int) -> _Thresholds:
    if thresholds is None:
        return _Thresholds(
            np.full(runs, float(mechanism.threshold)),
            np.full(runs, Grid(mechanism.grid).up(mechanism.threshold)),
            np.full(runs, _rounded_up(mechanism)),
        )
    grid = Grid(mechanism.grid).width
    stated = np.asarray(thresholds, dtype=np.float64)
    if stated.shape != (runs,) or not (np.abs(stated) <= MAX_STEPS * grid).all():
        raise ValueError(
            f"thresholds must be {runs} finite numbers within ±2^60 grid steps, one for each run"
        )
    steps = stated / grid  # exact: grid is a power of two
    whole = np.ceil(steps)
    return _Thresholds(stated, whole.astype(np.int64), (whole - steps) * grid)
