"""Many runs of a mechanism or a pipeline, in batches, and their results."""

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
from dpgap.simulation.selections import Ranked, Rng, best_runs, draw, draw_shells, sift_runs

# --------------------------------------------------------------------------------------------------
# Results of many simulated runs: arrays with one row for each run, or one entry for each answer.
#
# They hold what a release would have shown, in the same units. Simulations use the true answers, so
# results are not private: nothing here may be published about real people.


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
        return cls(*(_join([getattr(part, each.name) for part in parts]) for each in fields(cls)))


def _names(runs: Runs) -> str:
    return f"<{type(runs).__name__}: {', '.join(f'.{it.name}' for it in fields(runs))}>"


def _join(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, Runs):
        return type(first).joined(values)
    return list(chain(*values)) if isinstance(first, list) else np.concatenate(values)


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


# --------------------------------------------------------------------------------------------------
# Users' mechanisms: any program with `run(answers, noise)`, on float noise.


class FloatNoise:
    """Float noise for programs: `run(answers, noise)` draws from it in one run."""

    __slots__ = ("_left", "_rng")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._left: dict[ShellNoise, list[float]] = {}

    def draw(self, law: Law | ShellNoise) -> float:
        """The next draw from `law`; if the law is for many values, the next coordinate."""
        require_law(law)
        if not isinstance(law, ShellNoise):
            return float(draw(law, self._rng, 1)[0])
        left = self._left.setdefault(law, [])
        if not left:
            left += draw_shells(law, self._rng, 1)[0].tolist()
        return left.pop()


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
        said = (mechanism.run(listed, FloatNoise(rng)) for _ in range(part.stop - part.start))
        return ProgramRuns([tuple(each) if isinstance(each, Iterator) else each for each in said])

    return batch


def _answers_for(mechanism: Any, answers: ArrayLike) -> NDArray[Any]:
    """Answers for a program; on the grid, if it extends a mechanism of dpgap that has one."""
    is_pipeline = isinstance(mechanism, MeasuredTopK | MeasuredAbove)
    base = mechanism.selection if is_pipeline else mechanism
    if isinstance(base, NoisyTopK | JointTopK | SparseVector):
        base.prepare(answers, None)
    elif not isinstance(base, CountHull | Cube | Laplace):
        return np.asarray(answers)
    steps = Grid(base.grid).steps(answers)
    if isinstance(base, CountHull):
        base.steps_of(steps)
    return steps if base.grid is None else steps * Grid(base.grid).width


# --------------------------------------------------------------------------------------------------
# Batches of runs, from a mechanism, its answers and a generator of random numbers.
#
# A `Batch` is a function that makes some of the runs. All runs of a simulation use the same one.


Batch = Callable[[slice, Rng], Any]


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
    ranked = Ranked.of(Grid(selection.grid).steps(answers))
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        mechanism.measurement.require_room(ranked.answers)
    if isinstance(mechanism, MeasuredTopK):
        return measured_batch(mechanism, ranked)
    if not isinstance(selection, SparseVector):
        return _selecting(selection, ranked)
    own = _thresholds(selection, thresholds, runs)
    above = _above(selection, ranked, own, max_answers)
    if not isinstance(mechanism, MeasuredAbove):
        return above
    return lambda part, rng: measure_above(
        mechanism, ranked.answers, above(part, rng), own.stated[part], rng
    )


_OWN = (NoisyTopK, JointTopK, HybridTopK, SparseVector, NoisyHistogram)


def _selection_of(mechanism: Any) -> Any:
    """The mechanism that selects, if it is dpgap's own and unchanged; None for users' programs."""
    if callable(getattr(mechanism, "simulate", None)):
        return None
    if isinstance(mechanism, MeasuredTopK | MeasuredAbove):
        return None if hasattr(mechanism, "run") else _selection_of(mechanism.selection)
    if isinstance(mechanism, SparseVector) and type(mechanism).live is not SparseVector.live:
        return None
    is_own = any(isinstance(mechanism, own) and type(mechanism).run is own.run for own in _OWN)
    return mechanism if is_own else None


def _histogram(mechanism: NoisyHistogram, answers: ArrayLike) -> Batch:
    grid, law = Grid(mechanism.grid), mechanism.law_in_steps
    steps = grid.steps(answers)

    def batch(part: slice, rng: Rng) -> HistogramRuns:
        noisy = draw(law, rng, part.stop - part.start, steps.size)
        noisy += steps
        return HistogramRuns(noisy * grid.width)

    return batch


def _selecting(mechanism: NoisyTopK | JointTopK | HybridTopK, ranked: Ranked) -> Batch:
    """Batches of runs of one selection."""
    if isinstance(mechanism, JointTopK):
        return _joint(mechanism, ranked)
    if isinstance(mechanism, HybridTopK):
        return _hybrid(mechanism, ranked)
    program = mechanism.in_steps()
    ranked = ranked.less(int(ranked.answers.max()))
    grid, last = Grid(mechanism.grid).width, min(program.k, ranked.size - 1)

    def batch(part: slice, rng: Rng) -> TopKRuns:
        places, values = best_runs(program, ranked, part.stop - part.start, rng)
        leads = np.floor(values[:, :last] - values[:, last : last + 1])
        leads[:, :-1] -= leads[:, 1:]
        return TopKRuns(places[:, : program.k], leads * grid)

    return batch


def _joint(mechanism: JointTopK, ranked: Ranked) -> Batch:
    """Batches of runs; the code of releases chooses the sets, from seeded bits."""
    values, sizes = np.unique(ranked.answers, return_counts=True)
    classes = Classes(values, sizes, mechanism.k)
    half = Grid(mechanism.grid).width / 2

    def batch(part: slice, rng: Rng) -> JointRuns:
        bits = _seeded(rng)
        won = select_classes(mechanism.half_step_law, classes, part.stop - part.start, bits)
        ranks = np.array([classes.draw_ranks(at, bits) for at in won.classes.tolist()])
        return JointRuns(np.sort(ranked.order[ranks - 1], axis=1), _floats(won.leads, half))

    return batch


def _seeded(rng: Rng) -> InsecureSeededBits:
    """Seeded bits, for the code of releases."""
    return InsecureSeededBits(int(rng.integers(1 << 62)))


def _hybrid(mechanism: HybridTopK, ranked: Ranked) -> Batch:
    """Batches of runs. The line is one more answer, the last; those ranked below are dropped."""
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
    """Thresholds, one for each run: as stated, in whole steps, and the excess of the steps."""

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
    own = Grid(mechanism.grid).excess(mechanism.threshold)
    offsets = np.append(0.0, mechanism.gap_offsets - own)
    first, unit = float(mechanism.spent(0)), float(mechanism.unit)

    def batch(part: slice, rng: Rng) -> AboveRuns:
        found, states = sift_runs(program, ranked, whole[part], rng, max_answers)
        _, indices, branches, gaps = found
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


def _thresholds(mechanism: SparseVector, thresholds: ArrayLike | None, runs: int) -> _Thresholds:
    where, own = Grid(mechanism.grid), mechanism.threshold
    if thresholds is None:
        one = float(own), where.up(own), where.excess(own)
        return _Thresholds(*(np.full(runs, each) for each in one))
    grid = where.width
    stated = np.asarray(thresholds, dtype=np.float64)
    if stated.shape != (runs,) or not (np.abs(stated) <= MAX_STEPS * grid).all():
        raise ValueError(
            f"thresholds must be {runs} finite numbers within ±2^60 grid steps, one for each run"
        )
    steps = stated / grid  # exact: grid is a power of two
    whole = np.ceil(steps)
    return _Thresholds(stated, whole.astype(np.int64), (whole - steps) * grid)


# --------------------------------------------------------------------------------------------------
# Many runs of a pipeline at once: select, measure, estimate, as `dpgap.pipelines.arrays` does.
#
# The code of releases computes the estimates, for all runs at once. The paper's estimates above a
# threshold have their own code here, and tests compare both. The best method's estimates need
# numerical integration for every run; this takes most of the time.


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
    estimate = _paper_above if isinstance(pipeline.measurement, Laplace) else _best_above
    measurements, estimates, variances = estimate(pipeline, truth, selected, thresholds, rng)
    grid = Grid(pipeline.selection.grid).width
    return MeasuredRuns(selected, measurements, estimates, _floats(truth, grid), variances)


def _paper_above(
    pipeline: MeasuredAbove, truth: Integers, selected: AboveRuns, thresholds: Floats, rng: Rng
) -> tuple[Floats, Floats, Floats]:
    """Laplace measurements, whose noise grows with their number, combined with gaps by variance."""
    selection, measurement = pipeline.selection, pipeline.measurement
    assert isinstance(measurement, Laplace)
    grid = Grid(measurement.grid).width
    unit = measurement.law_in_steps(1)  # of all laws the smallest; they differ by scale alone
    most = int(selected.found.max(initial=0))
    of_count = np.array([0.0, *(measurement.variance(count) for count in range(1, most + 1))])
    measurements = draw(unit, rng, truth.size)
    measurements *= np.repeat(selected.found.astype(np.float64), selected.found)
    np.floor(measurements, out=measurements)
    measurements += truth
    measurements -= unit.floor_mean
    measurements *= grid
    own = np.repeat(of_count[selected.found], selected.found)
    of_gap = paper.gap_variances(selection)[selected.branch_of - 1]
    noisy = selected.gaps + np.repeat(thresholds, selected.found)
    estimates = combine(measurements, noisy, 0.0, own, of_gap)
    return measurements, estimates, combined_variance(own, of_gap)


def _best_above(
    pipeline: MeasuredAbove, truth: Integers, selected: AboveRuns, thresholds: Floats, rng: Rng
) -> tuple[Floats, Floats, Floats]:
    """Joint measurements; runs with the same number of answers are computed together.

    Estimates use one threshold, that of the selection. So values are shifted to it, and back.
    """
    selection, measurement = pipeline.selection, pipeline.measurement
    assert isinstance(measurement, Joint)
    grid, own = Grid(selection.grid).width, float(selection.threshold)
    up, own_up = np.ceil(thresholds / grid) * grid, np.ceil(own / grid) * grid
    moved, rounded_up = up - own_up, (up - thresholds) - (own_up - own)
    starts = selected.found.cumsum() - selected.found
    measurements, estimates, variances = (np.empty(truth.size) for _ in range(3))
    for count in np.unique(selected.found[selected.found > 0]).tolist():
        runs = np.flatnonzero(selected.found == count)[:, None]
        places = starts[runs] + np.arange(count)
        measurements[places] = measured = measure(measurement, truth[places], rng)
        found = estimates_after_above(
            selection,
            measurement,
            measured - moved[runs],
            selected.gaps[places] - rounded_up[runs],
            selected.branch_of[places],
        )
        estimates[places], variances[places] = found.means + moved[runs], found.variances
    return measurements, estimates, variances


def measure(
    measurement: Laplace | Joint, truth: Integers, rng: Rng, finer: int | None = None
) -> Floats:
    """Released values of answers in the selection's steps; one row for every run.

    The measurement's grid is `finer` than the selection's; the default is that of pipelines.
    """
    (runs, count), grid = truth.shape, Grid(measurement.grid).width
    noise = measurement.draws(count, runs, _seeded(rng))
    if isinstance(measurement, Laplace):
        return _floats(truth + noise - measurement.law_in_steps(count).floor_mean, grid)
    return _floats(truth * (measurement.finer if finer is None else finer) + noise, grid)


def _floats(steps: NDArray[Any], grid: float) -> Floats:
    values: Floats = np.multiply(steps, grid, dtype=np.float64)
    return values


# --------------------------------------------------------------------------------------------------
# Many runs of the best method: look, decide, and take the chosen route in each run.
#
# The code of releases decides. Runs on the same route are selected and measured together.


def measured_batch(pipeline: MeasuredTopK, ranked: Ranked) -> Batch:
    """Batches of runs of a pipeline."""
    select = cache(lambda selection: _selecting(selection, ranked))

    def on_route(route: int, part: slice, rng: Rng) -> MeasuredRuns:
        taken = pipeline.routes[route]
        return measure_top_k(taken, ranked.answers, select(taken.selection)(part, rng), rng)

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
        taken = [(route, np.flatnonzero(routes == route)) for route in np.unique(routes).tolist()]
        found = [(rows, on_route(route, slice(0, rows.size), rng)) for route, rows in taken]
        return _together(routes, pipeline.k, found)

    return batch


def _together(routes: Integers, k: int, found: list[tuple[Integers, MeasuredRuns]]) -> MeasuredRuns:
    """The runs of all routes, in the order of runs; values that a route does not have are NaN."""
    shape = routes.size, k
    selected = RoutedRuns(
        np.empty(shape, dtype=np.int64),
        np.full(shape, np.nan),
        np.full(routes.size, np.nan),
        routes,
    )
    runs = MeasuredRuns(selected, *(np.empty(shape) for _ in range(4)))
    for rows, some in found:
        for name in ("indices", "gaps", "leads"):
            if hasattr(some.selected, name):
                getattr(selected, name)[rows] = getattr(some.selected, name)
        for name in ("measurements", "estimates", "truth", "variances"):
            getattr(runs, name)[rows] = getattr(some, name)
    return runs


# --------------------------------------------------------------------------------------------------


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
    slices = [slice(at, min(at + RUNS_IN_A_BATCH, runs)) for at in range(0, runs, RUNS_IN_A_BATCH)]
    seeds = np.random.SeedSequence(seed).spawn(len(slices))
    for part, own in zip(slices, seeds, strict=True):
        yield batch(part, np.random.Generator(np.random.SFC64(own))), part.stop - part.start
