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
_LOWEST_RANK, _HIGHEST_RANK = 2, 8
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
    wanted = tuple(figure for figure in (3, 4) if figure in figures)
    for own, every, points in (
        ((1,) if 1 in figures else (), _REDUCTIONS, [(k, EPSILON) for k in KS]),
        ((2,) if 2 in figures else (), _REDUCTIONS, [(K, epsilon) for epsilon in EPSILONS]),
        (wanted, _MECHANISMS, [(k, EPSILON) for k in KS]),
    ):
        for dataset in datasets if own else ():
            for series in every:
                yield from (Task(own, dataset, series, k, epsilon) for k, epsilon in points)


def run(task: Task, runs: int, seed: np.random.SeedSequence) -> list[Result]:
    """The points of a task."""
    points = _reductions if task.figures[0] in (1, 2) else _adaptivity
    return list(points(task, runs, seed))


def _parts(
    mechanism: Any, task: Task, runs: int, seed: np.random.SeedSequence
) -> Iterator[tuple[Any, Floats]]:
    """The runs a batch at a time, each batch with the thresholds of its runs."""
    choice, noise = (int(each) for each in seed.generate_state(2))
    thresholds = thresholds_of(task.dataset, task.k, runs, np.random.default_rng(choice))
    own = None if isinstance(mechanism, MeasuredTopK) else thresholds
    start = 0
    for part, size in batches(
        mechanism, task.dataset.counts, runs=runs, seed=noise, thresholds=own
    ):
        yield part, thresholds[start : start + size]
        start += size


# Figures 1 and 2.


_top_k, _above = partial(MeasuredTopK, method="paper"), partial(MeasuredAbove, 0, method="paper")

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
    """The mean squared error of estimates against that of Laplace measurements alone."""
    pipeline = _REDUCTIONS[task.series](task.k, task.epsilon)
    parts = [_errors(pipeline, part) for part, _ in _parts(pipeline, task, runs, seed)]
    improved, baseline, expected, known = map(np.concatenate, zip(*parts, strict=True))
    ratio, error = ratio_of_means(improved, baseline)
    theory = None
    if "best" not in task.series:
        theory = 100 * _expected_reduction(task, float(expected.sum() / known.sum()))
    (figure,), name, less = task.figures, task.dataset.name, 100 * (1 - ratio)
    x = task.k if figure == 1 else float(task.epsilon)
    yield Result(figure, name, task.series, x, less, 100 * error, theory, improved.size)


_Errors = tuple[Floats, Floats, Floats, Floats]


def _errors(pipeline: MeasuredTopK | MeasuredAbove, found: MeasuredRuns) -> _Errors:
    """Sums over each run: squared errors of estimates and of Laplace measurements, and what
    theory expects of both for the branches taken.

    The best method has other measurements. It is compared with the known mean error of Laplace
    measurements at the same ε.
    """
    selected = found.selected
    improved = selected.sums((found.estimates - found.truth) ** 2)
    baseline = selected.sums((found.measurements - found.truth) ** 2)
    laplace = Laplace(pipeline.measurement.epsilon)
    if not (isinstance(selected, AboveRuns) and isinstance(pipeline, MeasuredAbove)):
        k = pipeline.selection.k
        known = np.full_like(improved, k * laplace.variance(k))
        return improved, baseline if pipeline.method == "paper" else known, known, known
    most = int(selected.found.max(initial=0))
    of_count = np.array([0.0, *(laplace.variance(n) for n in range(1, most + 1))])
    own = np.repeat(of_count[selected.found], selected.found)
    known = selected.sums(own)
    if pipeline.method == "best":
        return improved, known, known, known
    gap = gap_variances(pipeline.selection)[selected.branch_of - 1]
    return improved, baseline, selected.sums(gap * own / (gap + own)), known


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
        return (task.k - 1) / ((2 if monotonic else 5) * task.k)
    if "adaptive" in task.series:
        return 1 - by_branches
    share = (task.k if monotonic else 2 * task.k) ** (2 / 3)
    return float(1 / (1 + (1 + share) ** 3 / task.k**2))


# Figures 3 and 4.


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
    mechanism = _MECHANISMS[task.series](task.k, task.epsilon)
    measures: dict[tuple[int, str], list[Floats]] = {}
    for found, thresholds in _parts(mechanism, task, runs, seed):
        for figure, name, values in _measures(mechanism, task.dataset.counts, thresholds, found):
            if figure in task.figures:
                measures.setdefault((figure, name), []).append(values)
    cheapest = float(mechanism.every_branch[0].units / mechanism.every_branch[-1].units)
    bound = 100 * float(1 - mechanism.threshold_share) * (1 - cheapest)
    for (figure, name), parts in measures.items():
        every = np.concatenate(parts)
        value, error = float(every.mean()), float(every.std() / np.sqrt(runs))
        theory = bound if figure == 4 else None
        series = f"{task.series}: {name}"
        yield Result(figure, task.dataset.name, series, task.k, value, error, theory, runs)


def _measures(
    mechanism: SparseVector, counts: Integers, thresholds: Floats, found: AboveRuns
) -> Iterator[tuple[int, str, Floats]]:
    """All values that are averaged over runs, by figure and name."""
    yield 3, "answers", found.found.astype(np.float64)
    if len(mechanism.every_branch) > 1:
        for branch in mechanism.every_branch:
            in_branch = (found.branch_of == branch.number).astype(np.float64)
            yield 3, f"answers in branch {branch.number}", found.sums(in_branch)
        yield 4, "budget left", 100 * _left_after(mechanism, found, mechanism.k)
    right = found.sums((counts[found.indices] >= thresholds[found.run]).astype(np.float64))
    true = counts.size - np.searchsorted(np.sort(counts), thresholds)
    yield 3, "precision", right / np.maximum(found.found, 1)
    # The harmonic mean of right/found and right/true.
    yield 3, "F-measure", 2 * right / np.maximum(found.found + true, 1)


def _left_after(mechanism: SparseVector, found: AboveRuns, answers: int) -> Floats:
    """The share of ε that would be left if each run stopped after `answers` answers.

    For a run that found fewer, it is the share that this run left.
    """
    starts = found.found.cumsum() - found.found
    early = np.arange(found.run.size) - starts[found.run] < answers
    units = np.array([branch.units for branch in mechanism.every_branch], dtype=np.float64)
    used = found.sums(np.where(early, units[found.branch_of - 1], 0.0))
    left: Floats = (
        1 - float(mechanism.threshold_share) - used * float(mechanism.unit / mechanism.epsilon)
    )
    return left
