"""Calls of what is audited: a function, a function of many runs, or a program with its noise."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from dpgap.proof.auditing.neighbours import Answers
from dpgap.proof.auditing.outputs import Codes, Leaves, Outputs, leaves
from dpgap.proof.auditing.path_sampling import PASSED_ON, tabulate

_TRIES = 3
"""So many times must a function raise to be said to refuse answers."""


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
        self._run = getattr(function, "run", None)
        if not callable(function) and not callable(self._run):
            raise TypeError("function must be callable, or have a method 'run'")
        self._function, self._event, self._batch = function, event, batch
        self._progress = progress
        self.bits = bits and self._run is None  # a program's noise stands for real numbers
        self.codes = Codes(types=self._run is None)
        self.made = 0
        self.raised: Counter[str] = Counter()
        """How often it raised what, on answers that it does not refuse."""
        self._warned: list[warnings.WarningMessage] = []
        self._together: dict[Answers, bool] = {}

    def __call__(self, answers: Answers, runs: int, *, to_test: bool = False) -> Outputs:
        """The outputs of so many runs on these answers. To raise is an output like any other.

        Whether runs of a program go together is found out while searching. In a test it is as it
        was at last: nothing that comes out there may decide what is drawn.
        """
        return self._tabulate(answers, runs, self._found, to_test=to_test)

    def refusal(self, answers: Answers) -> Exception | None:
        """Why the function takes no such answers, if it raises each time that it is called."""
        why: Exception | None = None
        for _ in range(_TRIES):
            try:
                self._tabulate(answers, 1, self._found_or_raises)
            except WrongCount:
                raise
            except Exception as error:
                why = why or error
            else:
                return None
        return why

    def _tabulate(
        self,
        answers: Answers,
        runs: int,
        found: Callable[[Callable[[], Any], bool], Leaves],
        *,
        to_test: bool = False,
    ) -> Outputs:
        outputs = Outputs(runs, self.codes)
        if self._run is not None:
            on_grid = bool(getattr(self._function, "on_grid", False))
            known = self._together.get(answers, False) if to_test else None
            self._together[answers] = tabulate(
                self._run, answers, found, outputs, on_grid=on_grid, together=known
            )
        elif self._batch:
            returned = iter(self._many(answers, runs))
            for row in range(runs):
                outputs.put(row, self._found(lambda: next(returned), True))
        else:
            with warnings.catch_warnings(record=True) as self._warned:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", ResourceWarning)  # comes whenever memory is tidied
                for row in range(runs):
                    outputs.put(row, found(lambda: self._function(list(answers)), False))
        self.made += runs
        self._progress(self.made)
        return outputs

    def _many(self, answers: Answers, runs: int) -> list[Any]:
        returned = list(self._function(list(answers), runs))
        if len(returned) != runs:
            raise WrongCount("function must return as many outputs as runs")
        return returned

    def _found(self, call: Callable[[], Any], raises: bool) -> Leaves:
        """What is looked at: everything, an exception, or whether the given event happened.

        Of a program, words are not: where numbers stand for many runs, these would say other ones.
        """
        self._warned.clear()
        try:
            output = call()
            if self._event is None:
                return [*leaves(output), *self._warnings()]  # a generator runs here
        except PASSED_ON:
            raise
        except Exception as error:
            if raises:
                raise
            raised = list(leaves(f"raised {type(error).__name__}"))
            if self._run is None:
                self.raised[type(error).__name__] += 1
                raised.append(("message", str(error)))
            return raised + self._warnings()
        return list(leaves(bool(self._event(output))))

    def _warnings(self) -> Leaves:
        return [
            (f"warning {place}", f"{each.category.__name__}: {each.message}")
            for place, each in enumerate(self._warned)
        ]

    def _found_or_raises(self, call: Callable[[], Any], raises: bool) -> Leaves:
        return self._found(call, True)
