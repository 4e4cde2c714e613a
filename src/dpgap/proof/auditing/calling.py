"""Calls the audited function, which may also be a function of many runs, or a program."""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpgap.exact.laws import Law
from dpgap.proof.auditing.neighbours import Answers, Pair
from dpgap.proof.auditing.outputs import (
    Codes,
    Leaves,
    Outputs,
    is_by_value,
    leaves,
)
from dpgap.proof.auditing.sampling import PASSED_ON, RUNS_AT_ONCE, PathSampler, SingleRunNoise
from dpgap.proof.checker.numbers import BadProgram

_RAISES_TO_REFUSE = 20
_REPEATS_ON_SAME_NOISE = 3
_FEWEST_RUNS_ON_A_PATH = 20


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

        for done in range(0, outputs.runs, RUNS_AT_ONCE):
            rows = range(done, min(done + RUNS_AT_ONCE, outputs.runs))
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
