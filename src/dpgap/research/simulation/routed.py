"""Many runs of the best method: look, decide, and take in each run the route that was decided on.

The very code of releases decides. Runs on the same route are selected and measured together.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dpgap.exact.reals import Integers
from dpgap.pipelines.arrays import MeasuredTopK
from dpgap.research.simulation.floats import Rng
from dpgap.research.simulation.measured import measure, measure_top_k
from dpgap.research.simulation.ranked import Ranked
from dpgap.research.simulation.runs import MeasuredRuns, RoutedRuns

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
