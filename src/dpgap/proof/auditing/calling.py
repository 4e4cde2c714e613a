"""Calls the audited function, which may also be a function of many runs, or a program."""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, zip_longest
from operator import add
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.exact.laws import Law, Noise, RealLaw, Scalar, require_law
from dpgap.exact.reals import Floats, Integers
from dpgap.proof.auditing.outputs import AMBIGUOUS, Codes, Leaves, Outputs, is_by_value, leaves
from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.numbers import Affine, BadProgram

# --------------------------------------------------------------------------------------------------
# Neighbours to try on a program of which nothing is known: many shapes, sizes and levels.
#
# Every answer moves by at most the sensitivity. A mistake usually shows where answers are equal, or
# differ by as much as they can move; where some fall and the others rise; or at a level where the
# usual output changes, such as a threshold. This level is searched for.


Answers = tuple[Any, ...]
Pair = tuple[Answers, Answers]

_SIZES = (2, 5, 1, 3, 6)
_LONG = 40
"""The number of many answers, which show small leaks that add up."""
_LONG_AT = 5
"""How many pairs come before those of many answers."""
_FINER_AT = 2
"""How many pairs are tried before those that move by less than the sensitivity."""
_LARGE_AND_FAR_APART = 9_000, 5_000, 100, 0
_FARTHEST = 8
"""The levels where the output changes are searched up to a power of 4 below this one."""
_MOST_LEVELS = 3
"""At most so many of these levels are found, besides 0."""


def pairs(
    levels: Sequence[int], sensitivity: Any, *, monotonic: bool, reach: int | None, far: int
) -> list[Pair]:
    """Answers and neighbours, the more usual ones first.

    >>> pairs([0], 1, monotonic=True, reach=1, far=8)[:2]
    [((0, 0), (1, 0)), ((0, 0, 0, 0, 0), (1, 0, 0, 0, 0))]
    """
    by_size = [list(_of_size(size, levels, monotonic, reach, far)) for size in _SIZES]
    in_turns = chain.from_iterable(zip_longest(*by_size))
    ordered = [pair for pair in in_turns if pair is not None]
    ordered[_LONG_AT:_LONG_AT] = _long(levels, monotonic, reach)
    scaled = [_scaled(pair, sensitivity) for pair in ordered]
    scaled[_FINER_AT:_FINER_AT] = _finer(levels[0], sensitivity)
    return list(dict.fromkeys(scaled))


def _scaled(pair: Pair, factor: Any, lift: Any = 0) -> Pair:
    answers, neighbour = pair
    return (
        tuple(answer * factor + lift for answer in answers),
        tuple(answer * factor + lift for answer in neighbour),
    )


def lifted(pair: Pair) -> Pair:
    """The pair, moved up so that no answer is below 0.

    >>> lifted(((0, 0), (1, -1)))
    ((1, 1), (2, 0))
    """
    return _scaled(pair, 1, max(0, -min(map(min, pair))))


def _may_move(moves: Sequence[int], monotonic: bool, reach: int | None) -> bool:
    both_ways = {1, -1} <= set(moves)
    return not (monotonic and both_ways) and (reach is None or sum(map(abs, moves)) <= reach)


def wide(sensitivity: Any, *, monotonic: bool, reach: int | None) -> Iterator[Pair]:
    """Pairs of large answers that are far apart; all answers move, or one.

    >>> next(wide(1, monotonic=True, reach=1))
    ((9000, 5000, 100, 0), (9001, 5000, 100, 0))
    """
    answers = _LARGE_AND_FAR_APART
    for moves in ((1, 1, 1, 1), (1, -1, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)):
        if _may_move(moves, monotonic, reach):
            neighbour = tuple(map(add, answers, moves))
            yield _scaled((answers, neighbour), sensitivity)


def _finer(level: int, sensitivity: Any) -> Iterator[Pair]:
    """Pairs that differ by less than the sensitivity: they expose noise in steps of it.

    They differ by 1 if the sensitivity is a whole number, because answers may have to be whole.
    """
    if sensitivity == 1:
        return
    move = 1 if sensitivity == int(sensitivity) else sensitivity / 2
    for n in (2, 1):
        yield (level * sensitivity,) * n, (level * sensitivity + move,) * n


def _long(levels: Sequence[int], monotonic: bool, reach: int | None) -> Iterator[Pair]:
    """Many equal answers, of which half rise and half fall; or stay, if all move one way."""
    half = _LONG // 2
    moving = half if monotonic else _LONG
    if reach is not None and reach < moving:
        return
    for level in levels:
        risen = (level + 1,) * half
        others = (level,) * half if monotonic else (level - 1,) * half
        yield (level,) * _LONG, risen + others


def _of_size(
    n: int, levels: Sequence[int], monotonic: bool, reach: int | None, far: int
) -> Iterator[Pair]:
    """The pairs with n answers, in units of the sensitivity."""
    half = n // 2
    for base, moves in (
        ((0,) * n, (1,) * n),
        ((0, 1) * half + (0,) * (n % 2), (1, -1) * half + (0,) * (n % 2)),
        ((0,) * n, (1,) * (n - half) + (-1,) * half),
        ((0,) * n, (1,) * (n - 1) + (-1,)),
        ((0,) * n, (-1,) + (1,) * (n - 1)),
        ((0,) * n, (1,) + (0,) * (n - 1)),
        ((0,) * n, (0,) + (1,) * (n - 1)),
        ((far,) * half + (0,) * (n - half), (-1,) * half + (1,) * (n - half)),
        ((far,) * (n - half) + (0,) * half, (-1,) * (n - half) + (1,) * half),
        ((0,) * n, (1,) * (n - 2) + (-1,) * 2),
        ((0,) * n, (-1,) * 2 + (1,) * (n - 2)),
        (((far,) + (0, 1) * half)[:n], ((0,) + (1, -1) * half)[:n]),
        ((0,) * n, (1,) * (n - half) + (0,) * half),
        ((far,) * (n - half) + (0,) * half, (-1,) * (n - half) + (0,) * half),
        ((0,) * n, (0,) * (n - 1) + (1,)),
        ((1, 0, 2)[:n] + (0,) * (n - 3), (-1, 1, -1)[:n] + (0,) * (n - 3)),
    ):
        if len(base) != n or len(moves) != n or not any(moves):
            continue
        if not _may_move(moves, monotonic, reach):
            continue
        for level in levels:
            answers = tuple(level + start for start in base)
            yield answers, tuple(a + move for a, move in zip(answers, moves, strict=True))


def decision_levels(mode: Callable[[Answers], Mapping[str, Any] | None]) -> list[int]:
    """Level 0, and the levels of all answers at which the usual value at some path changes.

    `mode` returns the usual value at each path of the output, or `AMBIGUOUS`; None if the function
    refuses the answers. If several values change between two powers of 4, the level of the last one
    is found: a noisy count, which changes at every level, hides no threshold.
    """

    def usual(level: int) -> Mapping[str, Any] | None:
        return mode((level,) * 3)

    start = usual(0)
    if start is None:
        return [0]
    levels = [0]
    for sign in (1, -1):
        found_paths: set[str] = set()
        for power in range(_FARTHEST):
            if len(levels) > _MOST_LEVELS:
                return levels
            far = sign * 4**power
            changed = _changed_paths(start, usual(far) or start) - found_paths
            if changed:
                found_paths |= changed
                level = _last_as_before(usual, start, changed, far)
                if level not in levels:
                    levels.append(level)
    return levels


def _changed_paths(start: Mapping[str, Any], modes: Mapping[str, Any]) -> set[str]:
    """The paths whose usual value is another one, and is clear on both sides."""
    changed = set()
    for path in start.keys() | modes.keys():
        before = start.get(path)
        after = modes.get(path)
        if before != after and AMBIGUOUS not in (before, after):
            changed.add(path)
    return changed


def _last_as_before(
    usual: Callable[[int], Mapping[str, Any] | None],
    start: Mapping[str, Any],
    changed: set[str],
    far: int,
) -> int:
    """The last level from 0 to `far` at which one of these paths still has its first value."""
    near = 0
    while abs(far - near) > 1:
        middle = (near + far) // 2
        modes = usual(middle) or {}
        if any(modes.get(path) == start.get(path) for path in changed):
            near = middle
        else:
            far = middle
    return near


# --------------------------------------------------------------------------------------------------
# A program on many draws of noise at once: how often does an event happen?
#
# The program is run down each of its paths once, with all the runs that take that path together. So
# a program that can be proved can also be sampled, as it is, a million times in seconds. Its noise
# comes from secure bits.


_AT_ONCE = 1 << 17
_STORE = 1 << 10
_REPEATS_ON_SAME_NOISE = 3
_FEWEST_RUNS_ON_A_PATH = 20


class PathSampler(forms.PathExplorer):
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

    for done in range(0, runs, _AT_ONCE):
        sampler = PathSampler(min(_AT_ONCE, runs - done), on_grid=on_grid)
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


PASSED_ON = forms.Stop, BadProgram, forms.BadNoise, forms.Violation
"""Errors of the checker, which are not outputs of the program."""


# --------------------------------------------------------------------------------------------------


_RAISES_TO_REFUSE = 20


def _last(draws: list[float], _: Law) -> float:
    return draws.pop()


def _attributes(error: Exception) -> Iterator[tuple[str, Any]]:
    """The attributes of an exception; of an object that cannot be compared, its type."""
    attributes = vars(error)
    if not attributes:
        return
    for path, leaf in leaves(attributes, "attributes"):
        yield path, leaf if is_by_value(leaf) else type(leaf).__name__


class WrongCount(ValueError):  # noqa: N818 - shown as a ValueError
    """A function of many runs returned more outputs or fewer."""


class Calls:
    """Calls a function, counts the calls, and puts what it returns into columns."""

    def __init__(
        self,
        function: Any,
        event: Callable[[Any], bool] | None,
        batch: bool,
        bits: bool,
        progress: Callable[[int], object],
    ) -> None:
        self._run: Any = getattr(function, "run", None)
        if not callable(function) and not callable(self._run):
            raise TypeError("function must be callable, or have a method 'run'")
        self._function = function
        self._event = event
        self._batch = batch
        self._progress = progress
        self._on_grid = bool(getattr(function, "on_grid", False))
        self.bits = bits and self._run is None  # a program's noise stands for real numbers
        self.codes = Codes(types=self._run is None)
        self.count = 0
        self.returned = False
        """Whether any call returned something else than None."""
        self.raised: Counter[str] = Counter()
        """How often it raised which error, on answers that it does not refuse."""
        self._warned: list[warnings.WarningMessage] = []
        self._together: dict[Answers, bool] = {}
        self._refusals: dict[Answers, Exception | None] = {}
        self._order = random.Random(0)  # the order of calls, no noise

    def __call__(self, answers: Answers, runs: int) -> Outputs:
        """The outputs of `runs` runs on these answers. An exception is an output like any other."""
        return self._tabulate([answers] * runs)

    def on_pair(self, pair: Pair, runs: int, *, to_test: bool = False) -> list[Outputs]:
        """The outputs of `runs` runs on each side of a pair.

        Calls on both sides are in a random order, so a clock or a counter in the output does not
        show the side. The search finds out whether runs of a program can be computed together. A
        test uses the last result of the search, because outputs of a test must not decide what is
        drawn.
        """
        if self._run is not None or self._batch:
            return [self._tabulate([side] * runs, to_test=to_test) for side in pair]
        sides = [0, 1] * runs
        self._order.shuffle(sides)
        table = self._tabulate([pair[side] for side in sides])
        return [table.rows(np.flatnonzero(np.equal(sides, side))) for side in (0, 1)]

    def refusal(self, answers: Answers) -> Exception | None:
        """The error of a function that refuses these answers: it raises at every call."""
        if self._run is not None and answers not in self._refusals:
            self._require_all_noise_is_drawn(answers)
        if answers in self._refusals:
            return self._refusals[answers]
        for _ in range(_RAISES_TO_REFUSE):
            try:
                self._tabulate([answers], raises=True)
            except WrongCount:
                raise
            except Exception as error:
                self._refusals.setdefault(answers, error)
            else:
                self._refusals[answers] = None
                break
        return self._refusals[answers]

    def _tabulate(
        self, inputs: Sequence[Answers], *, raises: bool = False, to_test: bool = False
    ) -> Outputs:
        """A row for each of the inputs, which are all the same for a program and with `batch`.

        An exception is an output, unless the caller wants it raised.
        """
        runs = len(inputs)
        answers = inputs[0]
        outputs = Outputs(runs, self.codes)
        if self._run is not None:
            together = self._together.get(answers, False) if to_test else None
            self._together[answers] = self._runs(answers, outputs, together, raises)
        elif self._batch:
            returned = list(self._function(list(answers), runs))
            if len(returned) != runs:
                raise WrongCount("function must return as many outputs as runs")
            next_output = partial(next, iter(returned))
            for row in range(runs):
                outputs.put(row, self._leaves_of(next_output, True))
        else:
            with warnings.catch_warnings(record=True) as self._warned:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", ResourceWarning)  # comes whenever memory is tidied
                for row, row_answers in enumerate(inputs):
                    call = partial(self._function, list(row_answers))
                    outputs.put(row, self._leaves_of(call, raises))
        self.count += runs
        self._progress(self.count)
        return outputs

    def _require_all_noise_is_drawn(self, answers: Answers) -> None:
        """Refuse a program that gives another output on the same noise.

        Runs on one path are computed together, so noise of its own would be drawn once for all.
        """
        source = SingleRunNoise(on_grid=self._on_grid)
        for _ in range(_REPEATS_ON_SAME_NOISE):
            draws: list[float] = []

            def new_draw(law: Law, draws: list[float] = draws) -> float:
                draws.append(source.draw(law))
                return draws[-1]

            before = self._leaves_on(answers, new_draw)
            draws.reverse()
            if before is not None and self._leaves_on(answers, partial(_last, draws)) != before:
                advice = "take all noise from noise.draw, or audit a function of the answers"
                raise BadProgram(f"run gives another output on the same noise: {advice}")

    def _leaves_on(self, answers: Answers, draw: Callable[[Law], float]) -> str | None:
        """The output on these draws, as text; None if the program fails (reported elsewhere)."""
        with suppress(Exception):
            run = partial(self._run, list(answers), SimpleNamespace(draw=draw))
            return repr(self._leaves_of(run, True))
        return None

    def _runs(
        self, answers: Answers, outputs: Outputs, together: bool | None, raises: bool
    ) -> bool:
        """Enter the outputs of a program, in as many runs as there are outputs.

        Runs follow each path together, or one by one. If `together` is None, they go together,
        unless too few of them are on a path or the program fails; then they are drawn again. This
        choice depends on outputs, so such runs are for a search, never for a test. Returns whether
        all went together.
        """
        is_open = together is None

        def on_path(sampler: PathSampler, start: int, path_limit: int) -> None:
            if sampler.count >= path_limit:
                raise BadProgram("too few runs go down each path")
            # Numbers that stand for many runs may be the reason why it fails.
            output = self._leaves_of(partial(self._run, list(answers), sampler), is_open)
            outputs.put(sampler.runs + start, output, sampler.values)

        for done in range(0, outputs.runs, _AT_ONCE):
            rows = range(done, min(done + _AT_ONCE, outputs.runs))
            if together is not False:
                path_limit = len(rows)
                if is_open:
                    path_limit //= _FEWEST_RUNS_ON_A_PATH
                sampler = PathSampler(len(rows), on_grid=self._on_grid)
                try:
                    sampler.explore(partial(on_path, sampler, done, path_limit))
                    continue
                except Exception:
                    if not is_open:
                        raise
                    outputs.forget(slice(rows.start, rows.stop))
                    together = False
            noise = SingleRunNoise(on_grid=self._on_grid)
            for row in rows:
                call = partial(self._run, list(answers), noise)
                outputs.put(row, self._leaves_of(call, raises))
        return together is not False

    def _leaves_of(self, call: Callable[[], Any], raises: bool) -> Leaves:
        """The leaves of an output or of an exception; or whether the given event happened.

        The words of a program's exception are left out, because one number there stands for many
        runs.
        """
        self._warned.clear()
        try:
            output = call()
            self.returned |= output is not None
            if self._event is None:
                output_leaves = list(leaves(output))  # a generator runs here
                return output_leaves + self._warnings()
        except PASSED_ON:
            raise
        except Exception as error:
            if raises:
                raise
            return self._leaves_of_error(error) + self._warnings()
        return list(leaves(bool(self._event(output))))

    def _leaves_of_error(self, error: Exception) -> Leaves:
        name = type(error).__name__
        error_leaves = list(leaves(f"raised {name}"))
        if self._run is None:
            self.raised[name] += 1
            error_leaves.append(("message", str(error)))
            error_leaves += _attributes(error)
        return error_leaves

    def _warnings(self) -> Leaves:
        return [
            (f"warning {number}", f"{warning.category.__name__}: {warning.message}")
            for number, warning in enumerate(self._warned)
        ]
