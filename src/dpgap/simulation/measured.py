"""Many runs of a pipeline at once: select, measure, estimate, as `dpgap.pipelines.arrays` does.

The paper's estimates are its formulas for all runs side by side; tests hold them to the ones that
releases use. The best method's estimates are computed by the very code of releases, and integrate
numerically for every run: that takes most of the time.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.linear import combine, combined_variance
from dpgap.exact.bits import InsecureSeededBits
from dpgap.exact.grid import Grid
from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.measuring import Joint, Laplace
from dpgap.pipelines import paper
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.best import estimates_after_above, estimates_after_top_k
from dpgap.pipelines.routes import JointRoute, PaperRoute, RankedRoute
from dpgap.simulation.floats import (
    AboveRuns,
    JointRuns,
    MeasuredRuns,
    Rng,
    RoutedRuns,
    TopKRuns,
    draw,
)
from dpgap.simulation.top_k import Ranked


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
    if isinstance(selected, JointRuns):
        order = np.argsort(-measurements, axis=1, kind="stable")
        selected, truth, measurements = (
            JointRuns(np.take_along_axis(selected.indices, order, axis=1), selected.leads),
            np.take_along_axis(truth, order, axis=1),
            np.take_along_axis(measurements, order, axis=1),
        )
        estimates = measurements
        variances = np.full_like(estimates, route.measurement.variance(route.k))
    elif isinstance(route, PaperRoute):
        estimates, variances = paper.estimates_after_top_k(
            route.selection, route.measurement, measurements, selected.gaps
        )
    elif isinstance(route, RankedRoute):
        leads = np.cumsum(selected.gaps[:, ::-1], axis=1)[:, ::-1]
        estimates, variances = estimates_after_top_k(
            route.selection, route.measurement, measurements, leads
        )
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
    """Measurements whose noise grows with how many there are, weighted with gaps by variance."""
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
    """Joint measurements; runs that found equally many are taken together.

    The estimates know one threshold, the selection's. All is moved there, and back.
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

    The measurement's grid is `finer` than the selection's, unless said as a pipeline has it.
    """
    (runs, count), grid = truth.shape, Grid(measurement.grid).width
    if isinstance(measurement, Laplace):  # exact noise takes a sixth more time
        law = measurement.law_in_steps(count)
        return _floats(truth + np.floor(draw(law, rng, runs, count)) - law.floor_mean, grid)
    noise = measurement.draws(count, runs, InsecureSeededBits(int(rng.integers(1 << 62))))
    return _floats(truth * (measurement.finer if finer is None else finer) + noise, grid)


def _floats(steps: NDArray[Any], grid: float) -> Floats:
    values: Floats = np.multiply(steps, grid, dtype=np.float64)
    return values


# --------------------------------------------------------------------------------------------------
# Many runs of the best method: look, decide, and take in each run the route that was decided on.
#
# The very code of releases decides. Runs on the same route are selected and measured together.


Batch = Callable[[slice, Rng], Any]


def measured_batch(
    pipeline: MeasuredTopK, ranked: Ranked, selecting: Callable[[Any], Batch]
) -> Batch:
    """How a pipeline is run; `selecting` says how a selection is."""
    select = cache(selecting)

    def on_route(route: int, part: slice, rng: Rng) -> MeasuredRuns:
        taken = pipeline.routes[route]
        return measure_top_k(taken, ranked.answers, select(taken.selection)(part, rng), rng)

    looking = pipeline.looking
    if looking is None or pipeline.k == ranked.size:
        return lambda part, rng: on_route(0, part, rng)
    ranks = np.array(looking.rule(ranked.size).ranks)
    looked_at = ranked.answers[ranked.order[ranks - 1]]

    def batch(part: slice, rng: Rng) -> MeasuredRuns:
        truth = np.broadcast_to(looked_at, (part.stop - part.start, ranks.size))
        looks = measure(looking.measurement, truth, rng, finer=1)
        routes = 1 + looking.decide(looks, ranked.size)
        taken = [(route, np.flatnonzero(routes == route)) for route in np.unique(routes).tolist()]
        found = [(rows, on_route(route, slice(0, rows.size), rng)) for route, rows in taken]
        return _together(routes, pipeline.k, found)

    return batch


def _together(routes: Integers, k: int, found: list[tuple[Integers, MeasuredRuns]]) -> MeasuredRuns:
    """The runs of all routes, each at its place; what a route does not have is not a number."""
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
