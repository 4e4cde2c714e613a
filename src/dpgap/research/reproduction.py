"""Run the experiments on all cores, and write the results, figure by figure.

Every file is written completely or not at all; the files of a figure, as soon as its last point is
finished. So an interrupted reproduction leaves the finished figures, and nothing else.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dpgap.exact.parameters import positive_integer
from dpgap.research.datasets import Dataset
from dpgap.research.experiments import FIGURES, Result, Task, require_items, run, tasks

SEED = 2020

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReproductionPlan:
    """The figures to reproduce, the data sets, and the number of runs."""

    datasets: Sequence[Dataset]
    figures: tuple[int, ...] = FIGURES
    runs: int = 10_000
    seed: int = SEED
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)


def require_sound(figures: tuple[int, ...], runs: int, seed: int) -> None:
    """Refuse arguments that are wrong for any data."""
    positive_integer("runs", runs)
    if not figures or not set(figures) <= set(FIGURES):
        raise ValueError(f"figure must be one of {', '.join(map(str, FIGURES))}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, not {seed}")


def finished_figures(
    plan: ReproductionPlan, progress: Progress = lambda done, total: None
) -> Iterator[tuple[int, list[Result]]]:
    """Each figure with its points, as soon as it is finished."""
    for dataset in plan.datasets:
        require_items(dataset)
    todo = list(tasks(plan.figures, plan.datasets))
    missing: Counter[int] = Counter()
    for task in todo:
        missing.update(task.figures)
    points: dict[int, list[Result]] = {figure: [] for figure in plan.figures}
    for done, (task, results) in enumerate(_all_results(plan, todo), start=1):
        progress(done, len(todo))
        for result in results:
            points[result.figure].append(result)
        for figure in task.figures:
            missing[figure] -= 1
            if not missing[figure]:
                yield figure, sorted(points[figure], key=_place_in_file)


def _place_in_file(point: Result) -> tuple[int, str, str, float]:
    return point.figure, point.dataset, point.series, point.x


def _all_results(plan: ReproductionPlan, todo: list[Task]) -> Iterator[tuple[Task, list[Result]]]:
    seeds = np.random.SeedSequence(plan.seed).spawn(len(todo))
    pool = ProcessPoolExecutor(plan.workers, mp_context=get_context("spawn"))
    try:
        is_main_thread = threading.current_thread() is threading.main_thread()
        # Python lets no other thread set how signals are handled.
        with _ignored_by_children() if is_main_thread else nullcontext():
            waiting = {}
            for task, seed in zip(todo, seeds, strict=True):
                waiting[pool.submit(run, task, plan.runs, seed)] = task
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ignored_by_children() -> Iterator[None]:
    """Ignore Ctrl-C while processes start: they inherit this, and leave Ctrl-C to their parent."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def write(path: Path, content: str | bytes) -> None:
    """Write a whole file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    if isinstance(content, str):
        content = content.encode()
    try:
        part.write_bytes(content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def as_json(results: Sequence[Result]) -> str:
    """A list of objects, one for each point."""
    return json.dumps([point._asdict() for point in results], indent=0) + "\n"
