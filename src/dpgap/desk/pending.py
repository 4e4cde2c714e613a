"""A question between its charge and its settlement.

All that leads to a charge is made of counts that hold nothing, so neither the charge nor its moment
depends on the table. Drawing does, and how long it takes. So what is drawn waits here until the
tick, and only then is it settled and archived: before, nothing in the ledger says that it is there.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from dpgap.budget.account import Request
from dpgap.budget.ledger import LedgerAccount, LedgerReservation
from dpgap.desk.asking import DeskQuestion, answer
from dpgap.desk.shelf import Slot
from dpgap.desk.stewards_file import Topic


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
    topic: Topic
    slot: Slot
    reservation: LedgerReservation
    _cost: Fraction = Fraction(0)
    _document: str | None = None

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
        """Draw the answer. It must not be looked for in the archive: it is paid."""
        with self.slot.using() as answers:
            answer(replace(self.question, fresh=True), self.topic, answers, self)

    def write(self) -> str | None:
        """Settle and archive what was drawn, which may be handed out from then on."""
        self.reservation.settle(self._cost, self._document)
        return self._document
