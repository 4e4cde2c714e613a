"""Run a program down every one of its paths.

The program is run again and again. Where both answers to a question are possible, one is taken and
the other is remembered. A later run replays the answers up to there and takes the other one. Which
answers are possible is decided in subclasses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NoReturn

from dpgap.proof.checker import numbers as forms
from dpgap.proof.checker.numbers import Affine, BadProgram, Stop, Unknown

_MOST_PATHS = 100_000
_MOST_QUESTIONS = 10_000


@dataclass(slots=True)
class _Answered:
    """A question, how it was answered, and what to resume with to answer it the other way."""

    form: Affine
    negative: bool
    other: Any
    entered: bool


class PathExplorer(ABC):
    """Answers questions by replaying, and asks `branch` about new ones."""

    def __init__(self) -> None:
        self._answered: list[_Answered] = []
        self._replayed = 0
        self._began = self._left = False
        self.transcript: list[tuple[Any, bool]] = []
        self.behind: Mapping[Unknown, Affine] = {}
        self.hidden: Set[Unknown] = frozenset()
        self.count = 0
        self._ended = 0

    @property
    def has_answered(self) -> bool:
        """Whether anything was asked."""
        return bool(self._answered)

    def explore(self, body: Callable[[], None]) -> None:
        """Run the body on every path; `stop` leaves one early, before an alignment begins."""
        while True:
            self.start_over()
            try:
                body()
                self._ended += 1
            except Stop:
                if self._began or not self._left:
                    raise BadProgram("the program leaves a path before its end") from None
            self.count += 1
            if self.count > _MOST_PATHS:
                raise BadProgram(
                    f"the program has more than {_MOST_PATHS:,} paths: prove it for fewer answers"
                )
            if not self._turn():
                break
        if not self._ended:
            raise BadProgram("the program reaches the end on no path: nothing was looked at")

    def stop(self) -> NoReturn:
        """Leave this path: nothing can happen on it, or nothing but a tie."""
        self._left = True
        raise Stop

    def start_over(self) -> None:
        """Forget what was learnt on the last path."""
        self._replayed = 0
        self._began = self._left = False
        self.transcript = []
        self.behind, self.hidden = {}, frozenset()

    def _turn(self) -> bool:
        """Go back to the last question whose other answer is still open, and take it."""
        while self._answered:
            last = self._answered.pop()
            if last.entered:
                self.leave()
            if last.other is not None:
                self._answered.append(_Answered(last.form, not last.negative, None, entered=True))
                self.enter(last.form, not last.negative, last.other)
                return True
        return False

    def is_negative(self, form: Affine) -> bool:
        """Whether the form is below zero on this path."""
        asked = form
        if self.behind:
            if not self.hidden.isdisjoint(forms.terms_of(form)):
                raise BadProgram("the program asks about numbers that it was not given")
            form = forms.in_terms(form, self.behind)
        negative = self._answer(form) if forms.terms_of(form) else forms.constant_of(form) < 0
        self.transcript.append((forms.form_of(asked), negative))
        if forms.terms_of(form):
            self.learn(form, negative)
        return negative

    def take_for_granted(self, form: Affine, negative: bool) -> None:
        """Go on where the form is negative, or is not; the caller knows that this is possible."""
        if self._replayed == len(self._answered):
            self._answered.append(_Answered(form, negative, None, entered=True))
            self.enter(form, negative, None)
        self._replayed += 1
        self.learn(form, negative)

    def _answer(self, form: Affine) -> bool:
        if self._replayed < len(self._answered):
            known = self._answered[self._replayed]
            if forms.form_of(known.form) != forms.form_of(form):
                raise BadProgram("the program does something else when run again on the same noise")
            self._replayed += 1
            return known.negative
        if len(self._answered) >= _MOST_QUESTIONS:
            raise BadProgram(f"the program never stops: it asked {_MOST_QUESTIONS:,} questions")
        self._replayed += 1
        implied = self.implied(form)
        if implied is not None:
            self._answered.append(_Answered(form, implied, None, entered=False))
            return implied
        negative, here, other = self.branch(form)
        self._answered.append(_Answered(form, negative, other, entered=True))
        self.enter(form, negative, here)
        return negative

    def begin(self, who: str) -> None:
        """Say whose questions follow; once it is not `run`, no path may be left."""
        self._began, self.transcript = self._began or who != "run", []

    def implied(self, form: Affine) -> bool | None:
        """The answer, if it plainly follows from earlier ones."""
        return None

    @abstractmethod
    def branch(self, form: Affine) -> tuple[bool, Any, Any]:
        """A possible answer, what to go on with, and what to resume with for the other, if any."""

    @abstractmethod
    def enter(self, form: Affine, negative: bool, state: Any) -> None:
        """Go on where the answer is this."""

    @abstractmethod
    def leave(self) -> None:
        """Go back to before the last answer entered."""

    def learn(self, form: Affine, negative: bool) -> None:  # noqa: B027 - noting nothing is fine
        """Take note of an answer."""
