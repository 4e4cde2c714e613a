"""A Sparse Vector run in progress: one question at a time, paying only for "above".

A run holds budget, so there must never be two of it: it cannot be copied or pickled, and a forked
child cannot ask. The whole ε is reserved while the run is open. Closing it is final, and only then
is the rest credited; leaving the `with` block by an exception credits nothing, since what went
wrong may have depended on private data.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpgap.budget.account import Account, BudgetExhausted, Charge, Request, reserved, settle
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.bits import ProcessBound
from dpgap.exact.grid import Grid
from dpgap.exact.parameters import confidence_level, readable
from dpgap.exact.reals import GridNoise
from dpgap.mechanisms.sparse_vector.branches import evidence_of
from dpgap.releases.plain import plain

if TYPE_CHECKING:
    from dpgap.mechanisms.sparse_vector.mechanism import SparseVector


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of one question; `gap` and `branch` are None below the threshold.

    `p_value` is that of "this answer is not truly above": how often noise alone would give a lead
    this long to an answer that is not. It is about one answer, not the probability that it is
    wrong. None below the threshold, and without exponential noise.
    """

    above: bool
    gap: float | None
    branch: int | None
    charge: Fraction
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold; the charge is exact text."""
        answer: dict[str, Any] = plain(self)
        return answer


class _Feed(Iterator[int]):
    """Hands the program one answer at a time, as they are asked."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[int] = []

    def __next__(self) -> int:
        return self.waiting.pop()


class Run(ProcessBound):
    """Ask with `ask`, look at `spent`, `remaining` and `exhausted`, stop with `close`.

    >>> from dpgap import AdaptiveSparseVector
    >>> with AdaptiveSparseVector(threshold=100, k=2, epsilon=1000, monotonic=True).start() as run:
    ...     run.ask(3).above, run.ask(250).above, run.remaining > 400
    (False, True, True)
    """

    def __init__(self, mechanism: "SparseVector", account: Account | None) -> None:
        super().__init__()
        self._mechanism = mechanism
        request = Request(mechanism.epsilon, mechanism)
        self._reservation = reserved(account, request)
        self._feed = _Feed()
        self._noise = GridNoise()
        self._outcomes = mechanism.in_steps().run(self._feed, self._noise)
        self._grid = Grid(mechanism.grid)
        self._width = self._grid.width
        self._offsets = mechanism.gap_offsets.tolist()
        self._used = 0
        self._limit = max(mechanism.limits)
        self._exhausted = False
        self._closed = False
        self._interrupted = False
        self._lock = threading.RLock()
        self._busy = False
        self._below = Answer(above=False, gap=None, branch=None, charge=Fraction(0))

    @property
    def spent(self) -> Fraction:
        """The ε spent so far; the threshold's share is spent from the start."""
        return self._mechanism.spent(self._used)

    @property
    def remaining(self) -> Fraction:
        """The ε not spent so far; free for other use only once the run is closed."""
        return self._mechanism.epsilon - self.spent

    @property
    def exhausted(self) -> bool:
        """Whether no more questions can be asked."""
        return self._exhausted

    @errors_without_answers
    def ask(self, answer: object) -> Answer:
        """Is this private answer above the threshold?"""
        self.refuse_elsewhere("a run")
        steps = self._grid.steps_of_one(answer)
        with self._alone():
            if self._closed or self._interrupted:
                raise RuntimeError("this run is closed: start a new one")
            if self._exhausted:
                raise BudgetExhausted(
                    f"this run has spent {readable(self.spent)} of its "
                    f"ε = {readable(self._mechanism.epsilon)}: "
                    "start a new one to ask more"
                )
            self._interrupted = True  # unless all of what follows is done
            self._noise.freshen()
            self._feed.waiting.append(steps)
            branch, gap = next(self._outcomes)
            if branch is not None:
                self._used += self._mechanism.ways[branch - 1].units
                self._exhausted = self._used > self._limit
            answered = self.build(branch, gap)
            self._interrupted = False
            return answered

    def build(self, branch: int | None, gap: int | None) -> Answer:
        """What is said of one question, from its branch and its gap in steps."""
        if branch is None or gap is None:
            return self._below
        raw = gap * self._width
        # The gap that is shown is centred; over the noisy threshold it proves something.
        made = evidence_of(self._mechanism.ways, np.array([branch]), np.array([raw]))
        p_value = None if made is None else float(made.p_values(1)[0])
        charge = self._mechanism.ways[branch - 1].charge
        return Answer(True, raw + self._offsets[branch - 1], branch, charge, p_value)

    def lower_bound(self, answer: Answer, level: float = 0.95) -> float:
        """The true answer is at least this, with confidence `level`.

        The confidence is that of one question asked, above or not. Looking only at answers that
        came out above makes it less: at the threshold itself a nominal 95 % is nearer to 90 %.
        """
        if answer.gap is None or answer.branch is None:
            raise ValueError("answer must be above the threshold: nothing is known of others")
        errors, level = self._mechanism.gap_errors, confidence_level(level)
        return errors.lower_bound(answer.gap, answer.branch, level)

    def close(self) -> None:
        """End the run for good and credit what it did not spend.

        If its account fails, an `UnsettledWarning` says that the whole ε stays charged.
        """
        self._end(credit=True)

    def _end(self, *, credit: bool) -> None:
        if self.is_elsewhere:  # a forked child's copy settles nothing
            return
        with self._alone():
            closed, self._closed = self._closed, True
            if credit and not (closed or self._interrupted):
                settle(self._reservation, Charge(self.spent))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, and never again from inside, as a signal handler might try."""
        with self._lock:
            if self._busy:
                raise RuntimeError(
                    "this run is being asked or closed in this thread: a signal handler, or "
                    "whatever else runs meanwhile, can do neither"
                )
            try:
                self._busy = True
                yield
            finally:
                self._busy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(credit=kind is None or issubclass(kind, BudgetExhausted))

    def __repr__(self) -> str:
        return f"<run of {self._mechanism!r}, {readable(self.remaining)} left>"
