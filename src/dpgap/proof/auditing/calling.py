"""Calls of what is audited: a function, a function of many runs, or a program with its noise."""

from collections.abc import Callable, Iterator
from typing import Any

from dpgap.proof.auditing.neighbours import Answers
from dpgap.proof.auditing.outputs import Codes, Outputs, leaves
from dpgap.proof.auditing.path_sampling import tabulate


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
        self.codes = Codes()
        self.made = 0
        self._together: dict[Answers, bool] = {}

    def __call__(self, answers: Answers, runs: int, *, to_test: bool = False) -> Outputs:
        """The outputs of so many runs on these answers.

        Whether runs of a program go together is found out while searching. In a test it is as it
        was at last: nothing that comes out there may decide what is drawn.
        """
        outputs = Outputs(runs, self.codes)
        if self._run is not None:
            on_grid = bool(getattr(self._function, "on_grid", False))
            known = self._together.get(answers, False) if to_test else None
            self._together[answers] = tabulate(
                self._run, answers, self._shown, outputs, on_grid=on_grid, together=known
            )
        else:
            for row, output in enumerate(self._returned(answers, runs)):
                outputs.put(row, list(self._shown(output)))
        self.made += runs
        self._progress(self.made)
        return outputs

    def _returned(self, answers: Answers, runs: int) -> Iterator[Any]:
        if self._batch:
            yield from self._function(list(answers), runs)
            return
        for _ in range(runs):
            yield self._function(list(answers))

    def _shown(self, output: Any) -> Iterator[tuple[str, Any]]:
        """What is looked at: everything, or whether the given event happened."""
        return leaves(output if self._event is None else bool(self._event(output)))

    def refusal(self, answers: Answers) -> Exception | None:
        """Why the function takes no such answers, if it does not."""
        try:
            self(answers, 1)
        except Exception as error:
            return error
        return None
