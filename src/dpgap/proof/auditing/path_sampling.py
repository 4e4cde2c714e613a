"""A program on many draws of noise at once: how often does an event happen?

The program is run down each of its paths once, with all the runs that take that path together.
So a program that can be proved can also be sampled, as it is, a million times in seconds. Its noise
comes from secure bits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.laws import Law, Noise, RealLaw, Scalar
from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing.outputs import Leaves, Outputs
from dpgap.proof.checker.guard import Stop
from dpgap.proof.checker.numbers import Affine, BadNoise, BadProgram, Violation
from dpgap.proof.checker.path_explorer import PathExplorer

_AT_ONCE = 1 << 17
_STORE = 1 << 10
_ON_A_PATH = 20
"""So many runs should share a path, or following it is not worth while."""


class PathSampler(PathExplorer):
    """Many points at once: runs that answer a question alike go on together."""

    def __init__(self, size: int, *, on_grid: bool) -> None:
        super().__init__()
        self._size = size
        self._on_grid = on_grid
        self._everyone = np.arange(size)
        self._here = [self._everyone]
        self._laws: list[Law] = []
        self._drawn: dict[tuple[int, Law], Floats] = {}
        self.happened = 0

    @property
    def here(self) -> Integers:
        """The runs on this path."""
        return self._here[-1]

    def start_over(self) -> None:
        """Forget what was learnt on the last path."""
        super().start_over()
        self._laws = []

    def draw(self, law: Law) -> Affine:
        """The next draw of every run."""
        self._laws.append(law)
        return Affine(self, {len(self._laws) - 1: 1})

    def branch(self, form: Affine) -> tuple[bool, Integers, Integers | None]:
        """What the first run answers, the runs that agree, and those that do not."""
        negative = self.values(form) < 0
        first = bool(negative[0])
        other = self.here[negative != first]
        return first, self.here[negative == first], other if other.size else None

    def values(self, form: Affine) -> Floats:
        """What the form is in each of the runs on this path."""
        values = np.full(self.here.size, float(form.constant))
        for draw, by in form.terms.items():
            assert isinstance(draw, int)  # answers are known here: noise alone is unknown
            values += float(by) * self._draws(draw)[self.here]
        return values

    def _draws(self, number: int) -> Floats:
        key = number, self._laws[number]
        if key not in self._drawn:
            self._drawn[key] = _sample(key[1], self._size, on_grid=self._on_grid)
        return self._drawn[key]

    def enter(self, form: Affine, negative: bool, state: Integers) -> None:
        """Go on with the runs that answer so."""
        self._here.append(state)

    def leave(self) -> None:
        """Go back to before the last answer entered."""
        self._here.pop()


def _sample(law: Law, size: int, *, on_grid: bool) -> Floats:
    bits = secure_bits()
    if on_grid or not isinstance(law, RealLaw):
        return law.floors(bits, size).astype(np.float64)
    low, high = law.bounds(bits.words(law.words, size))
    return np.where(np.isfinite(high), (low + high) / 2, low)


def frequency(
    run: Callable[[Any, Noise], Any],
    answers: Sequence[Scalar],
    event: Callable[[Any], bool],
    runs: int,
    *,
    on_grid: bool = False,
) -> int:
    """In how many of so many runs the event happens.

    `event` is asked about the output. Of a generator it should read no more than it needs.

    >>> import dpgap
    >>> top = dpgap.NoisyMax(epsilon=1)
    >>> frequency(top.run, [900, 0, 0], lambda output: output[0] == (0,), runs=1000)
    1000
    """
    happened = 0
    for done in range(0, runs, _AT_ONCE):
        sampler = PathSampler(min(_AT_ONCE, runs - done), on_grid=on_grid)

        def body(sampler: PathSampler = sampler) -> None:
            if not event(run(answers, sampler)):
                raise Stop
            sampler.happened += sampler.here.size

        sampler.explore(body)
        happened += sampler.happened
    return happened


class OneByOne:
    """Noise for one run after another, as numbers."""

    def __init__(self, *, on_grid: bool) -> None:
        self._on_grid = on_grid
        self._drawn: dict[Law, list[float]] = {}

    def draw(self, law: Law) -> float:
        """The next draw."""
        drawn = self._drawn.setdefault(law, [])
        if not drawn:
            drawn += _sample(law, _STORE, on_grid=self._on_grid).tolist()
        return drawn.pop()


class _TooManyPaths(Exception):  # noqa: N818 - a finding, not a fault
    pass


PASSED_ON = Stop, BadProgram, BadNoise, Violation, _TooManyPaths
"""What is said about a program, and is not said by it."""


def tabulate(
    run: Callable[[Any, Noise], Any],
    answers: Sequence[Scalar],
    found: Callable[[Callable[[], Any], bool], Leaves],
    outputs: Outputs,
    *,
    on_grid: bool = False,
    together: bool | None = None,
) -> bool:
    """Enter what a program returns, in as many runs as there are outputs.

    Runs go down each path together, or one by one. If nobody says which, they go together unless
    there are too few of them on a path, or the program fails; then they are drawn again. What is
    kept depends on what came out, so such runs are for a search, never for a test. Returns whether
    all went together.

    `found` calls what it is given and takes apart what that returns. It is told whether to raise
    what that raises: numbers that stand for many runs may be the reason.
    """
    for done in range(0, outputs.runs, _AT_ONCE):
        rows = range(done, min(done + _AT_ONCE, outputs.runs))
        if together is not False:
            raises = together is None
            most = len(rows) // _ON_A_PATH if raises else len(rows)
            try:
                _tabulate_paths(
                    run, answers, found, outputs, rows, most, on_grid=on_grid, raises=raises
                )
                continue
            except Exception:
                if not raises:
                    raise
                outputs.forget(slice(rows.start, rows.stop))
                together = False
        noise = OneByOne(on_grid=on_grid)
        for row in rows:
            outputs.put(row, found(partial(run, answers, noise), False))
    return together is not False


def _tabulate_paths(
    run: Callable[[Any, Noise], Any],
    answers: Sequence[Scalar],
    found: Callable[[Callable[[], Any], bool], Leaves],
    outputs: Outputs,
    rows: range,
    most: int,
    *,
    on_grid: bool,
    raises: bool,
) -> None:
    """Enter some runs path by path, if there are at most so many paths."""
    sampler = PathSampler(len(rows), on_grid=on_grid)

    def body() -> None:
        if sampler.count >= most:
            raise _TooManyPaths
        output = found(partial(run, answers, sampler), raises)
        outputs.put(sampler.here + rows.start, output, sampler.values)

    sampler.explore(body)
