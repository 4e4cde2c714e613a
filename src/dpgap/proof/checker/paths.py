"""A program on every one of its paths: `PathExplorer` follows them one after another.

The program is run again and again. If both answers to a question are possible, one is taken and
the other is stored. A later run replays the answers up to this question and takes the other one.
Subclasses decide which answers are possible.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NoReturn

from dpgap.proof.checker.numbers import (
    LAST,
    Affine,
    BadProgram,
    Unknown,
    constant_of,
    form_of,
    in_terms,
    terms_of,
)
from dpgap.proof.checker.programs import Stop

_MOST_PATHS = 100_000


@dataclass(slots=True)
class Decision:
    """A question, how it was answered, and what to resume with to answer it the other way."""

    form: Affine
    negative: bool
    other: Any
    entered: bool


class PathExplorer:
    """Answers questions by replaying, and asks `branch` about new ones."""

    most_questions = 10_000

    def __init__(self) -> None:
        self._decisions: list[Decision] = []
        self.count = 0
        self._finished_paths = 0
        self.start_over()

    def explore(self, body: Callable[[], object]) -> None:
        """Run the body on every path; `stop` leaves one early, before an alignment begins."""
        while True:
            self.start_over()
            LAST.refusal = None
            try:
                body()
                if LAST.refusal:  # something caught it, such as a library that prints
                    raise LAST.refusal
                self._finished_paths += 1
            except Stop:
                if self._began or not self._stopped:
                    raise BadProgram("the program leaves a path before its end") from None
            self.count += 1
            if self.count > _MOST_PATHS:
                limit = f"{_MOST_PATHS:,}"
                raise BadProgram(f"there are more than {limit} paths: prove it for fewer answers")
            if not self._turn():
                break
        if not self._finished_paths:
            raise BadProgram("the program reaches the end on no path: nothing was looked at")

    def stop(self) -> NoReturn:
        """Leave this path: it is impossible, or possible only with a tie."""
        self._stopped = True
        raise Stop

    def start_over(self) -> None:
        """Forget the last path."""
        self._replayed = 0
        self._began = False
        self._stopped = False
        self.transcript: list[tuple[Any, bool]] = []
        self.reveal()

    def disguise(self, behind: Mapping[Unknown, Affine], hidden: Set[Unknown]) -> None:
        """Give new unknowns to a program, which may not ask about the numbers that are hidden.

        Only the judge knows which numbers are `behind` the new unknowns.
        """
        self.behind = behind
        self.hidden = hidden

    def reveal(self) -> None:
        """End the disguise."""
        self.disguise({}, frozenset())

    def _turn(self) -> bool:
        """Go back to the last question whose other answer is still open, and take it."""
        while self._decisions:
            last = self._decisions.pop()
            if last.entered:
                self.leave()
            if last.other is not None:
                negative = not last.negative
                self._decisions.append(Decision(last.form, negative, None, entered=True))
                self.enter(last.form, negative, last.other)
                return True
        return False

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero on this path."""
        question = form_of(form)
        if self.behind:
            if not self.hidden.isdisjoint(terms_of(form)):
                raise BadProgram("the program asks about numbers that it was not given")
            form = in_terms(form, self.behind)
        if not terms_of(form):
            negative = constant_of(form) < 0
            self.transcript.append((question, negative))
            return negative
        negative = self._answer(form)
        self.transcript.append((question, negative))
        self.learn(form, negative)
        return negative

    def take_for_granted(self, form: Affine, negative: bool) -> None:
        """Continue where the form is negative, or is not; the caller knows that it is possible."""
        if self._replayed == len(self._decisions):
            self._decisions.append(Decision(form, negative, None, entered=True))
            self.enter(form, negative, None)
        self._replayed += 1
        self.learn(form, negative)

    def _answer(self, form: Affine) -> bool:
        if self._replayed < len(self._decisions):
            decision = self._decisions[self._replayed]
            if form_of(decision.form) != form_of(form):
                raise BadProgram("the program does something else when run again on the same noise")
            self._replayed += 1
            return decision.negative
        if len(self._decisions) >= self.most_questions:
            raise BadProgram(f"the program never stops: it asked {self.most_questions:,} questions")
        self._replayed += 1
        implied = self.implied(form)
        if implied is not None:
            self._decisions.append(Decision(form, implied, None, entered=False))
            return implied
        negative, state, other = self.branch(form)
        self._decisions.append(Decision(form, negative, other, entered=True))
        self.enter(form, negative, state)
        return negative

    def begin(self, method: str) -> None:
        """State whose questions follow; after `run` has ended, no path may be left."""
        self._began = self._began or method != "run"
        self.transcript = []

    def implied(self, form: Affine) -> bool | None:
        """The answer, if it follows from earlier ones; None if it must be looked for."""
        return None

    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """A possible answer, its state, and the state of the other answer if it is possible."""
        raise NotImplementedError

    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        """Continue where this is the answer."""

    def leave(self) -> None:
        """Go back to before the last answer entered."""

    def learn(self, form: Affine, negative: bool) -> None:
        """Take note of an answer."""
