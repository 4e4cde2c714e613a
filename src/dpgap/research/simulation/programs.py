"""Mechanisms of others: any program that `run`s on answers and noise, on float noise."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.exact.grid import Grid
from dpgap.exact.laws import Law
from dpgap.exact.shells import ShellNoise
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.joint import JointTopK
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.mechanisms.sparse_vector import SparseVector
from dpgap.mechanisms.top_k import NoisyTopK
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.research.simulation.floats import Rng, draw
from dpgap.research.simulation.joint_draws import real_shells
from dpgap.research.simulation.ranked import Ranked
from dpgap.research.simulation.runs import ProgramRuns


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


def program_runs(
    mechanism: Any, answers: ArrayLike | Ranked
) -> Callable[[slice, Rng], ProgramRuns]:
    """How a mechanism of others is run: by its own `simulate`, or by its `run` again and again."""
    values = _answers_for(mechanism, answers)
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


def _answers_for(mechanism: Any, answers: ArrayLike | Ranked) -> NDArray[Any]:
    """Answers for a program: on the grid where dpgap's own mechanism, which it extends, has one."""
    is_pipeline = isinstance(mechanism, MeasuredTopK | MeasuredAbove)
    base = mechanism.selection if is_pipeline else mechanism
    plain = answers.answers if isinstance(answers, Ranked) else np.asarray(answers)
    if isinstance(base, NoisyTopK | JointTopK | SparseVector):
        steps = rank_for(base, answers).answers
    elif isinstance(base, CountHull | Cube | Laplace):
        steps = plain if isinstance(answers, Ranked) else Grid(base.grid).steps(answers)
        if isinstance(base, CountHull):
            base.prepare(steps)
    else:
        return plain
    return steps if base.grid is None else steps * Grid(base.grid).width


def rank_for(
    mechanism: NoisyTopK | JointTopK | HybridTopK | SparseVector, answers: ArrayLike | Ranked
) -> Ranked:
    """The answers in whole steps, ranked, once the mechanism has accepted them."""
    if isinstance(answers, Ranked):
        mechanism.prepare(answers.answers, None)
        return answers
    mechanism.prepare(answers, None)
    return Ranked.of(Grid(mechanism.grid).steps(answers))
