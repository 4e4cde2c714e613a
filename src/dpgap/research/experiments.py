"""The paper's experiments, one point at a time.

Counting queries, with ε = 0.7 and k = 2…25 unless varied. In each run, the threshold of a Sparse
Vector is at a random rank from 2k up to 8k, halfway to the next count; the counts above it are the
truth. In figures 1 and 2, half of ε selects and half measures.

1. How much gaps reduce the squared error of measurements, against k.
2. The same against ε, at k = 10.
3. How many answers Sparse Vector gives, plain and adaptive, and how good they are, against k.
4. How much of the budget is left if an adaptive run is stopped after k answers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpgap.exact.reals import Floats, Integers
from dpgap.mechanisms.measuring import Laplace
from dpgap.mechanisms.sparse_vector import AdaptiveSparseVector, SparseVector
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.paper import gap_variances
from dpgap.research.datasets import Dataset
from dpgap.simulation import AboveRuns, MeasuredRuns, batches

FIGURES = (1, 2, 3, 4)
EPSILON = "0.7"
KS = tuple(range(2, 26))
EPSILONS = tuple(f"{tenths / 10:.1f}" for tenths in range(1, 16))
K = 10
_LOWEST_RANK = 2
_HIGHEST_RANK = 8
"""The ranks of thresholds, in multiples of k."""
LEAST_ITEMS = _HIGHEST_RANK * max(KS) + 1


class Result(NamedTuple):
    """One point of one curve. Reductions and budgets are in per cent."""

    figure: int
    dataset: str
    series: str
    x: float
    value: float
    error: float
    theory: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Task:
    """Some points that are computed from the same runs."""

    figures: tuple[int, ...]
    dataset: Dataset
    series: str
    k: int
    epsilon: str


def require_items(dataset: Dataset) -> None:
    """Refuse a data set that has too few items for the lowest threshold."""
    if dataset.items < LEAST_ITEMS:
        needed = f"at least {LEAST_ITEMS} items for k up to {max(KS)}"
        raise ValueError(f"{dataset.name} must have {needed}, not {dataset.items}")


def thresholds_of(dataset: Dataset, k: int, runs: int, rng: np.random.Generator) -> Floats:
    """A threshold for each run, at a random rank."""
    ranks = np.sort(rng.integers(_LOWEST_RANK * k, _HIGHEST_RANK * k, runs))[::-1]
    descending = np.sort(dataset.counts)[::-1]
    halfway: Floats = (descending[ranks - 1] + descending[ranks]) / 2
    return halfway


def tasks(figures: tuple[int, ...], datasets: Sequence[Dataset]) -> Iterator[Task]:
    """All tasks for some figures, figure by figure."""
    for figures_of_tasks in ((1,), (2,), (3, 4)):
        selected = tuple(figure for figure in figures_of_tasks if figure in figures)
        if selected:
            yield from _tasks_of(selected, datasets)


def _tasks_of(figures: tuple[int, ...], datasets: Sequence[Dataset]) -> Iterator[Task]:
    """The tasks for figures that show the same points."""
    series_of_figure = _REDUCTIONS if figures[0] in (1, 2) else _MECHANISMS
    points = [(k, EPSILON) for k in KS]
    if figures[0] == 2:
        points = [(K, epsilon) for epsilon in EPSILONS]
    for dataset in datasets:
        for series in series_of_figure:
            for k, epsilon in points:
                yield Task(figures, dataset, series, k, epsilon)


def run(task: Task, runs: int, seed: np.random.SeedSequence) -> list[Result]:
    """The points of a task."""
    points = _reductions if task.figures[0] in (1, 2) else _adaptivity
    return list(points(task, runs, seed))


def _parts(
    mechanism: Any, task: Task, runs: int, seed: np.random.SeedSequence
) -> Iterator[tuple[Any, Floats]]:
    """The runs a batch at a time, each batch with the thresholds of its runs."""
    threshold_seed, noise_seed = seed.generate_state(2).tolist()
    rng = np.random.default_rng(threshold_seed)
    thresholds = thresholds_of(task.dataset, task.k, runs, rng)
    start = 0
    for part, size in batches(
        mechanism,
        task.dataset.counts,
        runs=runs,
        seed=noise_seed,
        thresholds=None if isinstance(mechanism, MeasuredTopK) else thresholds,
    ):
        yield part, thresholds[start : start + size]
        start += size


_top_k = partial(MeasuredTopK, method="paper")
_above = partial(MeasuredAbove, 0, method="paper")

_REDUCTIONS: dict[str, Callable[[int, str], MeasuredTopK | MeasuredAbove]] = {
    "top-k monotonic": partial(_top_k, monotonic=True),
    "top-k general": _top_k,
    "sparse-vector monotonic": partial(_above, monotonic=True),
    "sparse-vector general": _above,
    "adaptive-sparse-vector monotonic": partial(_above, monotonic=True, adaptive=True),
    "adaptive-sparse-vector general": partial(_above, adaptive=True),
    "top-k best": partial(_top_k, monotonic=True, method="ranked"),  # half of ε selects
    "sparse-vector best": partial(_above, monotonic=True, method="best"),
}


def _reductions(task: Task, runs: int, seed: np.random.SeedSequence) -> Iterator[Result]:
    """Figures 1 and 2: the mean squared error of estimates against that of measurements alone."""
    pipeline = _REDUCTIONS[task.series](task.k, task.epsilon)
    parts = [_errors(pipeline, part) for part, _ in _parts(pipeline, task, runs, seed)]
    errors = _Errors(*map(np.concatenate, zip(*parts, strict=True)))
    ratio, error = ratio_of_means(errors.estimates, errors.measurements)
    theory = None
    if "best" not in task.series:
        by_branches = float(errors.expected_of_estimates.sum() / errors.expected.sum())
        theory = 100 * _expected_reduction(task, by_branches)
    (figure,) = task.figures
    yield Result(
        figure=figure,
        dataset=task.dataset.name,
        series=task.series,
        x=task.k if figure == 1 else float(task.epsilon),
        value=100 * (1 - ratio),
        error=100 * error,
        theory=theory,
        runs=errors.estimates.size,
    )


class _Errors(NamedTuple):
    """Sums of squared errors over each run."""

    estimates: Floats
    measurements: Floats
    """Of Laplace measurements: if others were made, the mean at the same ε."""
    expected_of_estimates: Floats
    """What theory expects of estimates, for the branches taken."""
    expected: Floats
    """What theory expects of Laplace measurements."""


def _errors(pipeline: MeasuredTopK | MeasuredAbove, runs: MeasuredRuns) -> _Errors:
    selected = runs.selected
    of_estimates = selected.sums((runs.estimates - runs.truth) ** 2)
    of_measurements = selected.sums((runs.measurements - runs.truth) ** 2)
    laplace = Laplace(pipeline.measurement.epsilon)
    if not (isinstance(selected, AboveRuns) and isinstance(pipeline, MeasuredAbove)):
        k = pipeline.selection.k
        expected = np.full_like(of_estimates, k * laplace.variance(k))
        if pipeline.method == "paper":
            return _Errors(of_estimates, of_measurements, expected, expected)
        return _Errors(of_estimates, expected, expected, expected)
    variance_of_count = np.zeros(int(selected.found.max(initial=0)) + 1)
    for count in range(1, variance_of_count.size):
        variance_of_count[count] = laplace.variance(count)
    variances = np.repeat(variance_of_count[selected.found], selected.found)
    expected = selected.sums(variances)
    if pipeline.method == "best":
        return _Errors(of_estimates, expected, expected, expected)
    of_gaps = gap_variances(pipeline.selection)[selected.branch_of - 1]
    combined = selected.sums(of_gaps * variances / (of_gaps + variances))
    return _Errors(of_estimates, of_measurements, combined, expected)


def ratio_of_means(above: Floats, below: Floats) -> tuple[float, float]:
    """The ratio of two means over the same runs, and its standard error.

    >>> ratio_of_means(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    (0.5, 0.0)
    """
    ratio = float(above.mean() / below.mean())
    spread = np.sqrt(((above - ratio * below) ** 2).mean() / above.size)
    return ratio, float(spread / below.mean())


def _expected_reduction(task: Task, by_branches: float) -> float:
    """The paper's formulas; after an adaptive run, by the branches that were taken."""
    monotonic = "monotonic" in task.series
    if "top-k" in task.series:
        inverse_of_limit = 2 if monotonic else 5
        return (task.k - 1) / (inverse_of_limit * task.k)
    if "adaptive" in task.series:
        return 1 - by_branches
    units = task.k if monotonic else 2 * task.k
    return float(1 / (1 + (1 + units ** (2 / 3)) ** 3 / task.k**2))


_plain = partial(SparseVector, 0, noise="laplace")
_adaptive = partial(AdaptiveSparseVector, 0, noise="laplace")

_MECHANISMS: dict[str, Callable[[int, str], SparseVector]] = {
    "sparse-vector monotonic": partial(_plain, monotonic=True),
    "adaptive-sparse-vector monotonic": partial(_adaptive, monotonic=True),
    "sparse-vector with 2k monotonic": lambda k, epsilon: _plain(2 * k, epsilon, monotonic=True),
    "best monotonic": partial(
        _adaptive, monotonic=True, noise="exponential", branches=3, drain=True
    ),
    "sparse-vector general": _plain,
    "adaptive-sparse-vector general": _adaptive,
}


def _adaptivity(task: Task, runs: int, seed: np.random.SeedSequence) -> Iterator[Result]:
    """Figures 3 and 4: how many answers, how good they are, and how much budget is left."""
    mechanism = _MECHANISMS[task.series](task.k, task.epsilon)
    measures: dict[tuple[int, str], list[Floats]] = {}
    for above, thresholds in _parts(mechanism, task, runs, seed):
        for figure, name, values in _measures(mechanism, task.dataset.counts, thresholds, above):
            if figure in task.figures:
                measures.setdefault((figure, name), []).append(values)
    cheapest = float(mechanism.every_branch[0].units / mechanism.every_branch[-1].units)
    bound = 100 * float(1 - mechanism.threshold_share) * (1 - cheapest)
    for (figure, name), parts in measures.items():
        of_runs = np.concatenate(parts)
        yield Result(
            figure=figure,
            dataset=task.dataset.name,
            series=f"{task.series}: {name}",
            x=task.k,
            value=float(of_runs.mean()),
            error=float(of_runs.std() / np.sqrt(runs)),
            theory=bound if figure == 4 else None,
            runs=runs,
        )


def _measures(
    mechanism: SparseVector, counts: Integers, thresholds: Floats, above: AboveRuns
) -> Iterator[tuple[int, str, Floats]]:
    """All values that are averaged over runs, by figure and name."""
    yield 3, "answers", above.found.astype(np.float64)
    if len(mechanism.every_branch) > 1:
        for branch in mechanism.every_branch:
            in_branch = (above.branch_of == branch.number).astype(np.float64)
            yield 3, f"answers in branch {branch.number}", above.sums(in_branch)
        yield 4, "budget left", 100 * _left_after(mechanism, above, mechanism.k)
    is_right = counts[above.indices] >= thresholds[above.run]
    right = above.sums(is_right.astype(np.float64))
    true = counts.size - np.searchsorted(np.sort(counts), thresholds)
    yield 3, "precision", right / np.maximum(above.found, 1)
    # The harmonic mean of right/found and right/true.
    yield 3, "F-measure", 2 * right / np.maximum(above.found + true, 1)


def _left_after(mechanism: SparseVector, above: AboveRuns, answers: int) -> Floats:
    """The share of ε that would be left if each run stopped after `answers` answers.

    For a run that found fewer, it is the share that this run left.
    """
    starts = above.found.cumsum() - above.found
    is_early = np.arange(above.run.size) - starts[above.run] < answers
    units = np.array([branch.units for branch in mechanism.every_branch], dtype=np.float64)
    used = above.sums(np.where(is_early, units[above.branch_of - 1], 0.0))
    unit = float(mechanism.unit / mechanism.epsilon)
    remaining: Floats = 1 - float(mechanism.threshold_share) - used * unit
    return remaining
