"""A program on many draws of noise at once: how often does an event happen?

The program is run down each of its paths once, with all the runs that take that path together. So
a program that can be proved can also be sampled, as it is, a million times in seconds. Its noise
comes from secure bits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.laws import Law, Noise, RealLaw, Scalar, require_law
from dpgap.exact.reals import Floats, Integers
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker import paths, programs
from dpgap.proof.checker.numbers import Affine, BadProgram

RUNS_AT_ONCE = 1 << 17
"""How many runs follow a path together."""
_STORE = 1 << 10


class PathSampler(paths.PathExplorer):
    """Many points at once: runs with the same answer to a question go on together."""

    def __init__(self, size: int, *, on_grid: bool) -> None:
        super().__init__()
        self._size = size
        self._on_grid = on_grid
        self._runs_on_path = [np.arange(size)]
        self._noise: dict[tuple[int, Law], Floats] = {}

    @property
    def runs(self) -> Integers:
        """The runs on this path."""
        return self._runs_on_path[-1]

    def start_over(self) -> None:
        """Forget what was learnt on the last path."""
        super().start_over()
        self._laws: list[Law] = []

    def draw(self, law: Law) -> Affine:
        """The next draw of every run."""
        self._laws.append(law)
        return forms.affine(self, {len(self._laws) - 1: 1})

    def branch(self, form: Affine) -> tuple[bool, Integers, Integers | None]:
        """The answer of the first run, the runs that agree, and the runs that do not."""
        negative = self.values(form) < 0
        first = bool(negative[0])
        others = self.runs[negative != first]
        return first, self.runs[negative == first], others if others.size else None

    def values(self, form: Affine) -> Floats:
        """The value of the form in each of the runs on this path."""
        values = np.full(self.runs.size, float(forms.constant_of(form)))
        for draw, factor in forms.terms_of(form).items():
            assert isinstance(draw, int)  # answers are known here: noise alone is unknown
            law = self._laws[draw]
            if (draw, law) not in self._noise:
                self._noise[draw, law] = _sample(law, self._size, on_grid=self._on_grid)
            values += float(factor) * self._noise[draw, law][self.runs]
        return values

    def enter(self, form: Affine, negative: bool, state: Integers) -> None:
        """Go on with the runs that answer so."""
        self._runs_on_path.append(state)

    def leave(self) -> None:
        """Go back to before the last answer entered."""
        self._runs_on_path.pop()


def _sample(law: Law, size: int, *, on_grid: bool) -> Floats:
    require_law(law)
    bits = secure_bits()
    if on_grid or not isinstance(law, RealLaw):
        return law.floors(bits, size).astype(np.float64)
    low, high = law.bounds(bits.words(law.words_per_draw, size))
    return np.where(np.isfinite(high), (low + high) / 2, low)


def frequency(
    run: Callable[[Any, Noise], Any],
    answers: Sequence[Scalar],
    event: Callable[[Any], bool],
    runs: int,
    *,
    on_grid: bool = False,
) -> int:
    """The number of runs in which the event happens.

    `event` gets the output. If this is a generator, it should read no more than it needs.

    >>> import dpgap
    >>> top = dpgap.NoisyMax(epsilon=1)
    >>> frequency(top.run, [900, 0, 0], lambda output: output[0] == (0,), runs=1000)
    1000
    """
    hits = 0

    def on_path(sampler: PathSampler) -> None:
        nonlocal hits
        if event(run(answers, sampler)):
            hits += sampler.runs.size

    for done in range(0, runs, RUNS_AT_ONCE):
        sampler = PathSampler(min(RUNS_AT_ONCE, runs - done), on_grid=on_grid)
        sampler.explore(partial(on_path, sampler))
    return hits


class SingleRunNoise:
    """Noise for one run after another, as numbers."""

    def __init__(self, *, on_grid: bool) -> None:
        self._on_grid = on_grid
        self._store: dict[Law, list[float]] = {}

    def draw(self, law: Law) -> float:
        """The next draw."""
        draws = self._store.setdefault(law, [])
        if not draws:
            draws += _sample(law, _STORE, on_grid=self._on_grid).tolist()
        return draws.pop()


PASSED_ON = programs.Stop, BadProgram, forms.BadNoise, forms.Violation
"""Errors of the checker, which are not outputs of the program."""
