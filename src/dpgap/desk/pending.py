"""A question between its charge and its settlement.

All that leads to a charge is made of counts that hold nothing, so neither the charge nor its moment
depends on the table. Drawing does, and how long it takes. So what is drawn waits in the spool until
the tick, and only then is it settled and archived: before, nothing in the ledger says that it is
there, and nothing is logged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NoReturn

from dpgap.budget.account import Amount, Request
from dpgap.budget.entries import Entry, LedgerError
from dpgap.budget.ledger import LedgerAccount, LedgerReservation
from dpgap.desk.asking import DeskQuestion, ask
from dpgap.desk.guard import log
from dpgap.desk.shelf import Slot
from dpgap.desk.spool import Slip, name_of

_LONG = timedelta(minutes=10)
"""For how long an answer that waits keeps its data set from new charges."""


class Reserved(Exception):  # noqa: N818 - it says what happened
    """A question is charged, and nothing is drawn yet."""

    def __init__(self, reservation: LedgerReservation, slip: Slip) -> None:
        super().__init__()
        self.reservation, self.slip = reservation, slip


@dataclass(frozen=True, slots=True)
class Reserving(LedgerAccount):
    """An account that reserves, and stops there."""

    slip: Callable[[LedgerAccount], Slip] = field(kw_only=True)
    """Makes the file in which the answer will be kept, or says why nothing is charged now."""
    extra: Mapping[str, Any] = field(kw_only=True)

    def reserve_for(self, request: Request) -> NoReturn:
        """Raise an error in any case: `Reserved` where the budget covers the request."""
        slip = self.slip(self)
        try:
            made = LedgerAccount.reserve_for(self, replace(request, extra=self.extra))
        except BaseException:
            slip.drop()
            raise
        raise Reserved(made, slip)


@dataclass(slots=True)
class Pending:
    """A question that is charged. It is an account too: what is drawn for it is paid already."""

    reservation: LedgerReservation
    slip: Slip
    question: DeskQuestion | None = None
    """What is to be drawn, and of which counts; None: the desk that drew it has ended."""
    slot: Slot | None = None
    began: bool = True
    """Whether the draw began. If it cannot be noted in the spool, it does not begin."""
    cost: Fraction = Fraction(0)
    document: str | None = None
    """What was drawn; None: there is no answer."""
    has_waited: bool = False
    """Whether it was not settled at its tick."""
    _failures: dict[str, bool] = field(default_factory=dict)
    """What failed, and whether it was logged."""

    @property
    def entry(self) -> Entry:
        """The reservation's entry."""
        return self.reservation.entry

    @property
    def place(self) -> tuple[str, int]:
        """The budget, and the number of the reservation."""
        return self.entry.dataset, self.entry.number

    def blocks(self, budget: str) -> bool:
        """Whether new questions of a budget wait for this answer: ten minutes from its charge."""
        age = datetime.now(UTC) - datetime.fromisoformat(self.entry.at)
        is_young = -_LONG < age < _LONG  # a clock that was far ahead blocks nobody
        return is_young and self.document is not None and self.entry.dataset == budget

    @property
    def reference(self) -> dict[str, Any]:
        """Where the charge stands, for the release to state."""
        return self.reservation.reference

    def reserve(self, epsilon: Fraction, purpose: str, delta: Fraction = Fraction(0)) -> "Pending":
        """What was reserved, if that covers it."""
        if not Amount(epsilon, delta).fits(self.entry.charge):
            raise LedgerError("what is drawn must not cost more than was reserved")
        return self

    def settle(self, epsilon: Fraction, document: str | None = None) -> None:
        """Take what it did cost and what was released; the ledger gets it at the tick."""
        self.cost, self.document = epsilon, document

    def draw(self) -> None:
        """Draw the answer, once. If that fails there is none, and what was reserved stays charged.

        What fails is logged at the tick: sooner would show how long the drawing took.
        """
        if self.question is None or self.slot is None:
            raise RuntimeError("only the desk that charged a question draws it")
        with self.slot.using() as answers:  # whoever waits for them has not begun
            try:
                self.slip.begin(name_of(self.entry))
            except Exception as error:
                self.began = False
                self.slip.drop()
                self.note("the spool cannot be written, so nothing was drawn", error)
                return
            try:  # fresh, as it is paid: the archive has no answer
                ask(replace(self.question, fresh=True), answers, self)
            except BaseException as error:  # an engine's panic is no Exception
                self.note("drawing it failed", error)
        self.keep()

    def keep(self) -> None:
        """Write the answer to the spool, unless it is there."""
        if self.document is None:
            return
        by = {"reason": self.reservation.reason, "actor": self.reservation.actor}
        try:
            self.slip.keep({"cost": str(self.cost), "document": self.document, **by})
        except Exception as error:
            self.note("the spool cannot be written, so its answer is only in memory", error)

    def note(self, words: str, error: BaseException | None = None) -> None:
        """Note what failed. The text of an error may quote data, so only its kind is kept."""
        kind = "" if error is None else f" ({type(error).__name__})"
        self._failures.setdefault(words + kind, False)

    def log_failures(self) -> None:
        """Log what was noted, each once."""
        for words, is_logged in self._failures.items():
            if not is_logged:
                log.error("entry %d of %s: %s", self.entry.number, self.entry.dataset, words)
                self._failures[words] = True
