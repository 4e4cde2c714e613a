"""A question between its charge and its settlement.

All that leads to a charge is made of counts that hold nothing, so neither the charge nor its moment
depends on the table. Drawing does, and how long it takes. So what is drawn waits here until the
tick, and only then is it settled and archived: before, nothing in the ledger says that it is there.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from dpgap.budget.account import Request
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import LedgerAccount, LedgerReservation
from dpgap.desk.asking import DeskQuestion, ask
from dpgap.desk.guard import note_error
from dpgap.desk.shelf import Slot


class Reserved(Exception):  # noqa: N818 - it says what happened
    """A question is charged, and nothing is drawn yet."""

    def __init__(self, reservation: LedgerReservation) -> None:
        super().__init__()
        self.reservation = reservation


class Reserving(LedgerAccount):
    """An account that reserves, and stops there."""

    __slots__ = ()

    def reserve_for(self, request: Request) -> NoReturn:
        """Raise an error in any case: `Reserved` where the budget covers the request."""
        raise Reserved(super().reserve_for(request))


@dataclass(slots=True)
class Pending:
    """A question that is charged. It is an account too: what is drawn for it is paid already."""

    question: DeskQuestion
    slot: Slot
    reservation: LedgerReservation
    _cost: Fraction = Fraction(0)
    _document: str | None = None
    _error: Exception | None = None

    @property
    def reference(self) -> dict[str, Any]:
        """Where the charge stands, for the release to state."""
        return self.reservation.reference

    def reserve(self, epsilon: Fraction, purpose: str, delta: Fraction = Fraction(0)) -> "Pending":
        """What was reserved."""
        return self

    def settle(self, epsilon: Fraction, document: str | None = None) -> None:
        """Keep what it did cost and what was released, for later."""
        self._cost, self._document = epsilon, document

    def draw(self) -> None:
        """Draw the answer. If that fails there is none, and what was reserved stays charged."""
        try:
            with self.slot.using() as answers:  # fresh, as it is paid: the archive has no answer
                ask(replace(self.question, fresh=True), answers, self)
        except Exception as error:
            self._error = error

    @property
    def is_drawn(self) -> bool:
        """Whether there is an answer. Why there is none is logged when this is asked."""
        if self._error is not None:
            note_error(self._error)
            self._error = None
        return self._document is not None

    def write(self) -> str:
        """Settle and archive what was drawn; only then may it be handed out."""
        if self._document is None:
            raise LedgerError("nothing was drawn")
        self.reservation.settle(self._cost, self._document)
        return self._document
