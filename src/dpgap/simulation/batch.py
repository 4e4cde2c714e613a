"""Many runs of a mechanism or a pipeline, in batches, and their results.

Results are arrays with one row for each run, or one entry for each answer. They hold what a release
would have shown, in the same units. Simulations use the true answers, so results are not private:
nothing here may be published about real people.

A `Batch` is a function that makes some of the runs. All runs of a simulation use the same one. A
user's mechanism is any program with `run(answers, noise)`; it runs on float noise. A pipeline
selects, measures and estimates, as `dpgap.pipelines.arrays` does. The code of releases decides and
computes the estimates, for all runs at once. The paper's estimates above a threshold have their own
code here, and tests compare both. The best method's estimates need numerical integration for every
run; this takes most of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap._package import public
from dpgap.data.private_counts import PrivateCounts, errors_without_answers
from dpgap.estimates.linear import combine, combined_variance
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.grid import MAX_STEPS, Grid
from dpgap.exact.laws import Law, require_law
from dpgap.exact.parameters import positive_integer, require_made
from dpgap.exact.reals import Floats, Integers, without_float_errors
from dpgap.exact.shells import ShellNoise
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import Classes, JointTopK, select_classes
from dpgap.mechanisms.measuring import CountHull, Cube, Joint, Laplace
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.pipelines import paper
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.best import estimates_after_above
from dpgap.pipelines.routes import JointRoute, PaperRoute, RankedRoute
from dpgap.simulation.selections import RankedAnswers, Rng, best_runs, draw, draw_shells, sift_runs


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Results of some runs, which can be joined with those of others."""

    def __init_subclass__(cls) -> None:
        """Set a `repr` that lists the names of results, not their values."""
        cls.__repr__ = _names  # type: ignore[assignment,method-assign]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All runs of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        columns = {}
        for column in fields(cls):
            columns[column.name] = _join([getattr(part, column.name) for part in parts])
        return cls(**columns)


def _names(runs: Runs) -> str:
    names = [f".{column.name}" for column in fields(runs)]
    return f"<{type(runs).__name__}: {', '.join(names)}>"


def _join(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, Runs):
        return type(first).joined(values)
    if isinstance(first, list):
        return list(chain(*values))
    return np.concatenate(values)


@dataclass(frozen=True, slots=True, eq=False)
class WinnerRuns(Runs):
    """Runs with k winners each: their `indices`, one row for each run."""

    indices: Integers

    def sums(self, values: Floats) -> Floats:
        """The sum over each run, of values with one entry for each winner."""
        sums: Floats = values.sum(axis=1)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class TopKRuns(WinnerRuns):
    """Runs of a Noisy Top-K: `indices` and `gaps` as released, one row for each run."""

    gaps: Floats


@dataclass(frozen=True, slots=True, eq=False)
class JointRuns(WinnerRuns):
    """Runs of a Joint Top-K: `indices` of the set, one row for each run, and its lead."""

    leads: Floats


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRuns(Runs):
    """Runs of a noisy histogram: all its noisy `values`, one row for each run."""

    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RoutedRuns(TopKRuns):
    """Runs of the best method, each on its route: an index in the pipeline's `routes`.

    `gaps` are NaN in runs that chose a set; `leads` are NaN in runs that ranked the winners.
    """

    leads: Floats
    routes: Integers


@dataclass(frozen=True, slots=True, eq=False)
class FoundRuns(Runs):
    """Runs that may each find a different number of answers.

    These have one entry for each answer found, run by run: `indices` and `gaps` as released, and
    `run`, the number of the run. These have one entry for each run: `found`, the number of answers,
    and `spent`, the ε that was spent (as a float).
    """

    indices: Integers
    gaps: Floats
    found: Integers
    spent: Floats

    @property
    def run(self) -> Integers:
        """The run that each answer was found in."""
        return np.repeat(np.arange(self.found.size), self.found)

    def sums(self, values: Floats | Integers) -> Floats:
        """The sum over each run, of values with one entry for each answer found."""
        totals: NDArray[Any] = np.bincount(self.run, values, self.found.size)
        return totals


@dataclass(frozen=True, slots=True, eq=False)
class HybridRuns(FoundRuns):
    """Runs of a Hybrid Top-K: the answers of each run come best first."""


@dataclass(frozen=True, slots=True, eq=False)
class AboveRuns(FoundRuns):
    """Runs of a Sparse Vector: the answers of each run come in the order asked.

    Also with one entry for each answer found: `branch_of`, as released. Also with one entry for
    each run: the `used` units of budget (exact), and the number of `processed` answers.
    """

    branch_of: Integers
    used: Integers
    processed: Integers


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRuns(Runs):
    """Runs of a pipeline: the selected answers, and their measurements.

    `measurements`, `estimates`, their `variances` as released and the `truth` have the shape of
    `selected.indices`.
    """

    selected: TopKRuns | JointRuns | AboveRuns
    measurements: Floats
    estimates: Floats
    truth: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRuns(Runs):
    """Runs of any other mechanism: the output of its program in each run."""

    outputs: list[Any]


class FloatNoise:
    """Float noise for programs: `run(answers, noise)` draws from it in one run."""

    __slots__ = ("_coordinates", "_rng")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._coordinates: dict[ShellNoise, list[float]] = {}

    def draw(self, law: Law | ShellNoise) -> float:
        """The next draw from `law`; if the law is for many values, the next coordinate."""
        require_law(law)
        if not isinstance(law, ShellNoise):
            return float(draw(law, self._rng, 1)[0])
        coordinates = self._coordinates.setdefault(law, [])
        if not coordinates:
            coordinates += draw_shells(law, self._rng, 1)[0].tolist()
        return coordinates.pop()


def program_runs(mechanism: Any, answers: ArrayLike) -> Callable[[slice, Rng], ProgramRuns]:
    """A batch of runs of a user's mechanism: by its `simulate`, or by its `run` again and again."""
    require_made(mechanism)
    values = _answers_for(mechanism, answers)
    if callable(getattr(mechanism, "simulate", None)):

        def simulated(part: slice, rng: Rng) -> ProgramRuns:
            runs = part.stop - part.start
            outputs = list(mechanism.simulate(values, runs, rng))
            if len(outputs) != runs:
                raise ValueError(
                    f"simulate of {type(mechanism).__name__} must return one output for each of "
                    f"{runs:,} runs, not {len(outputs):,}"
                )
            return ProgramRuns(outputs)

        return simulated
    if not callable(getattr(mechanism, "run", None)):
        raise TypeError(
            "mechanism must be an unchanged mechanism or pipeline of dpgap, or have a method "
            f"run(answers, noise) or simulate(answers, runs, rng); not {type(mechanism).__name__}"
        )
    listed = values.tolist()

    def batch(part: slice, rng: Rng) -> ProgramRuns:
        outputs = []
        for _ in range(part.stop - part.start):
            output = mechanism.run(listed, FloatNoise(rng))
            outputs.append(tuple(output) if isinstance(output, Iterator) else output)
        return ProgramRuns(outputs)

    return batch


def _answers_for(mechanism: Any, answers: ArrayLike) -> NDArray[Any]:
    """Answers for a program; on the grid, if it extends a mechanism of dpgap that has one."""
    base = mechanism
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        base = mechanism.selection
    if isinstance(base, NoisyTopK | JointTopK | SparseVector):
        base.prepare(answers, None)
    elif not isinstance(base, CountHull | Cube | Laplace):
        return np.asarray(answers)
    steps = Grid(base.grid).steps(answers)
    if isinstance(base, CountHull):
        base.steps_of(steps)
    if base.grid is None:
        return steps
    return steps * Grid(base.grid).width


Batch = Callable[[slice, Rng], Any]
"""Makes some of the runs, from a generator of random numbers."""


def batch_of(
    mechanism: Any,
    answers: ArrayLike,
    runs: int,
    thresholds: ArrayLike | None,
    max_answers: int | None,
) -> Batch:
    """The function that makes batches of runs of a mechanism or a pipeline on these answers."""
    if isinstance(answers, PrivateCounts):
        raise TypeError(
            "answers must be an array: simulation shows true values, "
            "so it does not take private answers that were made from a table"
        )
    if max_answers is not None:
        positive_integer("max_answers", max_answers)
    selection = _selection_of(mechanism)
    if not isinstance(selection, SparseVector) and not (thresholds is None and max_answers is None):
        raise ValueError("thresholds and max_answers are for a Sparse Vector only")
    if selection is None:
        return program_runs(mechanism, answers)
    if isinstance(selection, NoisyHistogram):
        return _histogram(selection, answers)
    selection.prepare(answers, None)
    ranked = RankedAnswers.of(Grid(selection.grid).steps(answers))
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        mechanism.measurement.require_room(ranked.answers)
    if isinstance(mechanism, MeasuredTopK):
        return measured_batch(mechanism, ranked)
    if not isinstance(selection, SparseVector):
        return _selecting(selection, ranked)
    thresholds_of_runs = _thresholds(selection, thresholds, runs)
    above = _above(selection, ranked, thresholds_of_runs, max_answers)
    if not isinstance(mechanism, MeasuredAbove):
        return above

    def measured(part: slice, rng: Rng) -> MeasuredRuns:
        selected = above(part, rng)
        values = thresholds_of_runs.values[part]
        return measure_above(mechanism, ranked.answers, selected, values, rng)

    return measured


_WITH_BATCHES = (NoisyTopK, JointTopK, HybridTopK, SparseVector, NoisyHistogram)


def _selection_of(mechanism: Any) -> Any:
    """The mechanism that selects, if it is dpgap's own and unchanged; None for users' programs."""
    if callable(getattr(mechanism, "simulate", None)):
        return None
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        if hasattr(mechanism, "run"):
            return None
        return _selection_of(mechanism.selection)
    if isinstance(mechanism, SparseVector) and type(mechanism).live is not SparseVector.live:
        return None
    for kind in _WITH_BATCHES:
        if isinstance(mechanism, kind) and type(mechanism).run is kind.run:
            return mechanism
    return None


def _histogram(mechanism: NoisyHistogram, answers: ArrayLike) -> Batch:
    grid = Grid(mechanism.grid)
    steps = grid.steps(answers)
    law = mechanism.law_in_steps

    def batch(part: slice, rng: Rng) -> HistogramRuns:
        noisy = draw(law, rng, part.stop - part.start, steps.size)
        noisy += steps
        return HistogramRuns(noisy * grid.width)

    return batch


def _selecting(mechanism: NoisyTopK | JointTopK | HybridTopK, ranked: RankedAnswers) -> Batch:
    """Batches of runs of one selection."""
    if isinstance(mechanism, JointTopK):
        return _joint(mechanism, ranked)
    if isinstance(mechanism, HybridTopK):
        return _hybrid(mechanism, ranked)
    program = mechanism.in_steps()
    ranked = ranked.less(int(ranked.answers.max()))
    grid = Grid(mechanism.grid).width
    last = min(program.k, ranked.size - 1)

    def batch(part: slice, rng: Rng) -> TopKRuns:
        indices, values = best_runs(program, ranked, part.stop - part.start, rng)
        leads = np.floor(values[:, :last] - values[:, last : last + 1])
        leads[:, :-1] -= leads[:, 1:]
        return TopKRuns(indices[:, : program.k], leads * grid)

    return batch


def _joint(mechanism: JointTopK, ranked: RankedAnswers) -> Batch:
    """Batches of runs; the code of releases chooses the sets, from seeded bits."""
    values, sizes = np.unique(ranked.answers, return_counts=True)
    classes = Classes(values, sizes, mechanism.k)
    half = Grid(mechanism.grid).width / 2

    def batch(part: slice, rng: Rng) -> JointRuns:
        bits = _seeded(rng)
        sets = select_classes(mechanism.half_step_law, classes, part.stop - part.start, bits)
        ranks = np.array([classes.draw_ranks(index, bits) for index in sets.classes.tolist()])
        return JointRuns(np.sort(ranked.order[ranks - 1], axis=1), _floats(sets.leads, half))

    return batch


def _seeded(rng: Rng) -> InsecureSeededBits:
    """Seeded bits, for the code of releases."""
    return InsecureSeededBits(int(rng.integers(1 << 62)))


def _hybrid(mechanism: HybridTopK, ranked: RankedAnswers) -> Batch:
    """Batches of runs. The line is one more answer, the last; those ranked below are dropped."""
    program = mechanism.in_steps()
    line = ranked.answers.size
    answers = np.append(ranked.answers, int(program.threshold))
    ranked = RankedAnswers.of(answers - int(answers.max()))
    grid = Grid(mechanism.grid).width
    most_winners = min(mechanism.k, line)
    costs = np.array([float(mechanism.spent(count)) for count in range(most_winners + 1)])

    def batch(part: slice, rng: Rng) -> HybridRuns:
        runs = part.stop - part.start
        indices, values = best_runs(program.without_line, ranked, runs, rng)
        is_line = indices == line
        winners = np.where(is_line.any(axis=1), is_line.argmax(axis=1), indices.shape[1] - 1)
        leads = np.floor(values - np.take_along_axis(values, winners[:, None], axis=1))
        wins = np.arange(leads.shape[1]) < winners[:, None]
        leads[:, :-1] -= np.where(wins[:, 1:], leads[:, 1:], 0.0)
        return HybridRuns(indices[wins], leads[wins] * grid, winners, costs[winners])

    return batch


class _Thresholds(NamedTuple):
    """Thresholds, one for each run: as stated, in whole steps, and the excess of the steps."""

    values: Floats
    steps: Integers
    rounded_up: Floats


def _above(
    mechanism: SparseVector, ranked: RankedAnswers, thresholds: _Thresholds, max_answers: int | None
) -> Batch:
    program = mechanism.in_steps()
    grid = Grid(mechanism.grid).width
    origin = int(thresholds.steps.min())
    ranked = ranked.less(origin)
    steps = thresholds.steps - origin
    excess = Grid(mechanism.grid).excess(mechanism.threshold)
    offsets = np.append(0.0, mechanism.gap_offsets - excess)
    price_of_none = float(mechanism.spent(0))
    unit = float(mechanism.unit)

    def batch(part: slice, rng: Rng) -> AboveRuns:
        above, states = sift_runs(program, ranked, steps[part], rng, max_answers)
        gaps = above.gaps
        gaps *= grid
        gaps += offsets[above.branches]
        gaps += np.repeat(thresholds.rounded_up[part], states.found)
        return AboveRuns(
            indices=above.indices,
            gaps=gaps,
            branch_of=above.branches.astype(np.int64),
            found=states.found,
            used=states.used,
            spent=np.add(price_of_none, unit * states.used, dtype=np.float64),
            processed=states.processed(ranked.size),
        )

    return batch


def _thresholds(mechanism: SparseVector, thresholds: ArrayLike | None, runs: int) -> _Thresholds:
    grid = Grid(mechanism.grid)
    if thresholds is None:
        threshold = mechanism.threshold
        return _Thresholds(
            values=np.full(runs, float(threshold)),
            steps=np.full(runs, grid.up(threshold)),
            rounded_up=np.full(runs, grid.excess(threshold)),
        )
    values = np.asarray(thresholds, dtype=np.float64)
    if values.shape != (runs,) or not (np.abs(values) <= MAX_STEPS * grid.width).all():
        raise ValueError(
            f"thresholds must be {runs} finite numbers within ±2^60 grid steps, one for each run"
        )
    lengths = values / grid.width  # exact: grid is a power of two
    steps = np.ceil(lengths)
    return _Thresholds(values, steps.astype(np.int64), (steps - lengths) * grid.width)


def measure_top_k(
    route: RankedRoute | JointRoute | PaperRoute,
    answers: Integers,
    selected: TopKRuns | JointRuns,
    rng: Rng,
) -> MeasuredRuns:
    """Measure and estimate the winners of every run."""
    grid = Grid(route.selection.grid).width
    truth = answers[selected.indices]
    measurements = measure(route.measurement, truth, rng)
    gaps = np.empty((len(truth), 0))
    if isinstance(selected, TopKRuns):
        gaps = selected.gaps
    else:  # a release shows the members of a set largest first
        order = np.argsort(-measurements, axis=1, kind="stable")
        selected = JointRuns(np.take_along_axis(selected.indices, order, axis=1), selected.leads)
        truth = np.take_along_axis(truth, order, axis=1)
        measurements = np.take_along_axis(measurements, order, axis=1)
    estimates, variances = route.estimates_of_runs(gaps, measurements)
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid), variances)


def measure_above(
    pipeline: MeasuredAbove,
    answers: Integers,
    selected: AboveRuns,
    thresholds: Floats,
    rng: Rng,
) -> MeasuredRuns:
    """Measure and estimate the answers found in every run; `thresholds` has one for each run."""
    truth = answers[selected.indices]
    estimate = _best_above
    if isinstance(pipeline.measurement, Laplace):
        estimate = _paper_above
    measurements, estimates, variances = estimate(pipeline, truth, selected, thresholds, rng)
    grid = Grid(pipeline.selection.grid).width
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid), variances)


def _paper_above(
    pipeline: MeasuredAbove, truth: Integers, selected: AboveRuns, thresholds: Floats, rng: Rng
) -> tuple[Floats, Floats, Floats]:
    """Laplace measurements, whose noise grows with their number, combined with gaps by variance."""
    measurement = pipeline.measurement
    assert isinstance(measurement, Laplace)
    grid = Grid(measurement.grid).width
    unit = measurement.law_in_steps(1)  # of all laws the smallest; they differ by scale alone
    variance_of_count = np.zeros(int(selected.found.max(initial=0)) + 1)
    for count in range(1, variance_of_count.size):
        variance_of_count[count] = measurement.variance(count)
    measurements = draw(unit, rng, truth.size)
    measurements *= np.repeat(selected.found.astype(np.float64), selected.found)
    np.floor(measurements, out=measurements)
    measurements += truth
    measurements -= unit.floor_mean
    measurements *= grid
    variances = np.repeat(variance_of_count[selected.found], selected.found)
    gap_variances = paper.gap_variances(pipeline.selection)[selected.branch_of - 1]
    noisy = selected.gaps + np.repeat(thresholds, selected.found)
    estimates = combine(measurements, noisy, 0.0, variances, gap_variances)
    return measurements, estimates, combined_variance(variances, gap_variances)


def _best_above(
    pipeline: MeasuredAbove, truth: Integers, selected: AboveRuns, thresholds: Floats, rng: Rng
) -> tuple[Floats, Floats, Floats]:
    """Joint measurements; runs with the same number of answers are computed together.

    Estimates use one threshold, that of the selection. So values are shifted to it, and back.
    """
    selection = pipeline.selection
    measurement = pipeline.measurement
    assert isinstance(measurement, Joint)
    grid = Grid(selection.grid).width
    threshold = float(selection.threshold)
    on_grid = np.ceil(thresholds / grid) * grid
    threshold_on_grid = np.ceil(threshold / grid) * grid
    shifts = on_grid - threshold_on_grid
    rounded_up = (on_grid - thresholds) - (threshold_on_grid - threshold)
    starts = selected.found.cumsum() - selected.found
    measurements = np.empty(truth.size)
    estimates = np.empty(truth.size)
    variances = np.empty(truth.size)
    for count in np.unique(selected.found[selected.found > 0]).tolist():
        runs = np.flatnonzero(selected.found == count)[:, None]
        positions = starts[runs] + np.arange(count)
        measurements[positions] = measure(measurement, truth[positions], rng)
        estimated = estimates_after_above(
            selection,
            measurement,
            measurements[positions] - shifts[runs],
            selected.gaps[positions] - rounded_up[runs],
            selected.branch_of[positions],
        )
        estimates[positions] = estimated.means + shifts[runs]
        variances[positions] = estimated.variances
    return measurements, estimates, variances


def measure(
    measurement: Laplace | Joint, truth: Integers, rng: Rng, finer: int | None = None
) -> Floats:
    """Released values of answers in the selection's steps; one row for every run.

    The measurement's grid is `finer` than the selection's; the default is that of pipelines.
    """
    runs, count = truth.shape
    grid = Grid(measurement.grid).width
    noise = measurement.draws(count, runs, _seeded(rng))
    if isinstance(measurement, Laplace):
        return _floats(truth + noise - measurement.law_in_steps(count).floor_mean, grid)
    if finer is None:
        finer = measurement.finer
    return _floats(truth * finer + noise, grid)


def _floats(steps: NDArray[Any], grid: float) -> Floats:
    values: Floats = np.multiply(steps, grid, dtype=np.float64)
    return values


def measured_batch(pipeline: MeasuredTopK, ranked: RankedAnswers) -> Batch:
    """Batches of runs of a pipeline: look, decide, and take the chosen route in each run.

    The code of releases decides. Runs on the same route are selected and measured together.
    """
    select = cache(lambda selection: _selecting(selection, ranked))

    def on_route(number: int, part: slice, rng: Rng) -> MeasuredRuns:
        route = pipeline.routes[number]
        selected = select(route.selection)(part, rng)
        return measure_top_k(route, ranked.answers, selected, rng)

    looking = pipeline.looking
    if looking is None or pipeline.k == ranked.size:
        return lambda part, rng: on_route(0, part, rng)
    rule = looking.rule(ranked.size)
    ranks = np.array(rule.ranks)
    looked_at = ranked.answers[ranked.order[ranks - 1]]

    def batch(part: slice, rng: Rng) -> MeasuredRuns:
        truth = np.broadcast_to(looked_at, (part.stop - part.start, ranks.size))
        looks = measure(looking.measurement, truth, rng, finer=1)
        routes = 1 + rule.decide(looks)
        results = []
        for number in np.unique(routes).tolist():
            rows = np.flatnonzero(routes == number)
            results.append((rows, on_route(number, slice(0, rows.size), rng)))
        return _together(routes, pipeline.k, results)

    return batch


def _together(
    routes: Integers, k: int, results: list[tuple[Integers, MeasuredRuns]]
) -> MeasuredRuns:
    """The runs of all routes, in the order of runs; values that a route does not have are NaN."""
    shape = (routes.size, k)
    selected = RoutedRuns(
        indices=np.empty(shape, dtype=np.int64),
        gaps=np.full(shape, np.nan),
        leads=np.full(routes.size, np.nan),
        routes=routes,
    )
    runs = MeasuredRuns(
        selected=selected,
        measurements=np.empty(shape),
        estimates=np.empty(shape),
        truth=np.empty(shape),
        variances=np.empty(shape),
    )
    for rows, on_route in results:
        for name in ("indices", "gaps", "leads"):
            if hasattr(on_route.selected, name):
                getattr(selected, name)[rows] = getattr(on_route.selected, name)
        for name in ("measurements", "estimates", "truth", "variances"):
            getattr(runs, name)[rows] = getattr(on_route, name)
    return runs


RUNS_IN_A_BATCH = 5_000


@public
@errors_without_answers
def simulate(
    mechanism: Any,
    answers: ArrayLike,
    *,
    runs: int = 10_000,
    seed: int | None = None,
    thresholds: ArrayLike | None = None,
    max_answers: int | None = None,
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
        An array.
    runs
        How many runs. All are returned at once. If they are too many for memory, use
        `dpgap.simulation.batches`.
    seed
        The same seed gives the same runs.
    thresholds
        A threshold for each run of a Sparse Vector; sorted thresholds are fastest.
    max_answers
        Each run of a Sparse Vector stops after this many answers above.

    >>> import dpgap
    >>> runs = dpgap.simulate(dpgap.NoisyMax(epsilon=1), [90, 50, 10], runs=5, seed=1)
    >>> runs.indices.shape, runs.gaps.shape
    ((5, 1), (5, 1))
    """
    options: dict[str, Any] = {"thresholds": thresholds, "max_answers": max_answers}
    parts = [part for part, _ in batches(mechanism, answers, runs=runs, seed=seed, **options)]
    return type(parts[0]).joined(parts)


def batches(
    mechanism: Any,
    answers: ArrayLike,
    *,
    runs: int = 10_000,
    seed: int | None = None,
    thresholds: ArrayLike | None = None,
    max_answers: int | None = None,
) -> Iterator[tuple[Any, int]]:
    """The same runs a batch at a time, each with its size, so that memory stays bounded.

    >>> import dpgap
    >>> from dpgap.simulation import batches
    >>> [size for part, size in batches(dpgap.NoisyMax(epsilon=1), [90, 50], runs=6_000)]
    [5000, 1000]
    """
    runs = positive_integer("runs", runs)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed must be None or a whole number from 0 up, not {seed!r}")
    batch = without_float_errors(batch_of(mechanism, answers, runs, thresholds, max_answers))
    starts = range(0, runs, RUNS_IN_A_BATCH)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))
    for start, seed_of_batch in zip(starts, seeds, strict=True):
        part = slice(start, min(start + RUNS_IN_A_BATCH, runs))
        rng = np.random.Generator(np.random.SFC64(seed_of_batch))
        yield batch(part, rng), part.stop - part.start
