"""Paying for a release: first the most it can cost, then what it did cost.

An *account* is anything that can `reserve` an ε and later `settle` it. Every release reserves
before it draws any noise. A crash in between leaves the reservation spent: that loses budget,
never privacy. If only the settling fails, the release is returned all the same, with a warning:
the most that it can have cost is charged.

An *archive* is an account that is told more: a whole `Request`. It can refuse one that it is not
for, it charges the same request once however often it is sent, and it keeps what was released.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import signature
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from dpgap._package import public
from dpgap.exact.parameters import readable

UNDER_WAY = "under way"

_FRACTION = re.compile(r"Fraction\((-?[0-9]+), ([0-9]+)\)")


@public
class BudgetExhausted(RuntimeError):  # noqa: N818 - a state to handle, not a fault
    """A run has nothing left to spend, or an account cannot cover a release."""


class QuotaExhausted(BudgetExhausted):
    """Somebody asked as much in a day as they may, or an archive is full. Nothing was charged."""


class RefusedRequest(ValueError):  # noqa: N818 - it says what happened
    """What is asked contradicts what the budget is for. Nothing was charged."""


class KeyUsed(RefusedRequest):
    """The request key was used for another request before. Nothing was charged."""


class AlreadyCharged(RuntimeError):  # noqa: N818 - it says what happened
    """The same request was charged before, and is not charged again.

    `answered` says what became of it.
    """

    def __init__(self, message: str, answered: "Answered") -> None:
        super().__init__(message)
        self.answered = answered


class UnsettledWarning(UserWarning):
    """A release is paid for and made, but its account was out of reach when it was settled."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be paid for. Every word of it is public.

    >>> Request(Fraction(1, 2), {"epsilon": Fraction(1, 2)}).purpose
    "{'epsilon': 0.5}"
    """

    epsilon: Fraction
    about: object
    """What is asked: one plain line; or a mechanism, whose parameters say it."""
    delta: Fraction = Fraction(0)
    facts: Mapping[str, Any] | None = None
    """What is known of the table: "table", "unit", "neighbours", "columns" and "private".

    A bare array states nothing."""
    identity: str | None = None
    """A hash of the question: the same for the same question, however it was put."""
    key: str | None = None
    """Chosen by whoever asks: what is sent twice with one key is charged once."""
    extra: Mapping[str, Any] | None = None
    """What else the ledger's entry keeps, as values of JSON."""

    @property
    def purpose(self) -> str:
        """One plain line: what is asked."""
        if isinstance(self.about, str):
            return self.about
        try:
            return _FRACTION.sub(_plain_number, repr(self.about))
        except ValueError:  # a number of more digits than Python writes
            return type(self.about).__name__


def _plain_number(found: re.Match[str]) -> str:
    return readable(Fraction(int(found[1]), int(found[2])))


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request key led to."""

    entry: int
    """The number of the reservation."""
    state: str
    """`UNDER_WAY` (or broken off), "settled" or "written off"."""
    document: str | None
    """What was released, if it was archived."""


class Reservation(Protocol):
    """An ε set aside for one release."""

    def settle(self, epsilon: Fraction) -> None:
        """Record what the release did cost and give back the rest, once and for all."""


class Account(Protocol):
    """A budget that releases are charged to."""

    def reserve(self, epsilon: Fraction, purpose: str, /) -> Reservation:
        """Set ε aside for `purpose`, or raise `BudgetExhausted` and change nothing.

        An account that also takes a δ has it as a third argument, `delta`. One that does not is
        never asked to pay for a release with a δ.
        """


class ArchiveReservation(Protocol):
    """An ε set aside for one release, by an account that keeps what is released."""

    @property
    def reference(self) -> dict[str, Any]:
        """Where the charge stands: "dataset", "entry", "hash", and its "time" if it is known."""

    def settle(self, epsilon: Fraction, document: str | None = None) -> None:
        """Record what the release did cost, and the release itself, in one step."""


@runtime_checkable
class Archive(Account, Protocol):
    """An account that knows what it is for, and keeps what it paid for."""

    def reserve_for(self, request: Request) -> ArchiveReservation:
        """Set aside what the request can cost, or raise an error and change nothing."""

    def paid(self, identity: str) -> str | None:
        """The newest document of this question, if it was ever paid for."""

    def answered(self, key: str) -> Answered | None:
        """What became of the request with this key; None if it was never charged."""


class _Document(Protocol):
    def to_archive(self) -> str: ...
    def paid_by(self, reference: Mapping[str, Any], /) -> Self: ...


Kept = TypeVar("Kept", bound=_Document)


@dataclass(slots=True)
class Charge:
    """What a release costs; it may find out that it cost less than was reserved."""

    spent: Fraction
    reference: dict[str, Any] | None = None
    """Where the charge stands in the account, for the release to state."""
    _kept: list[_Document] = field(default_factory=list, repr=False)

    def keep(self, release: Kept) -> Kept:
        """The release with its entry, which is archived when it is settled.

        It may be handed out only after that.
        """
        if self.reference is not None:
            release = release.paid_by(self.reference)
            self._kept = [release]
        return release


@contextmanager
def charged(account: Account | None, request: Request) -> Iterator[Charge]:
    """Reserve what is requested before the body draws anything; settle what it spent afterwards."""
    charge = Charge(request.epsilon)
    reservation = reserved(account, request)
    charge.reference = getattr(reservation, "reference", None)
    yield charge
    settle(reservation, charge)


def settle(reservation: Any, charge: Charge) -> None:
    """Tell the account what was spent. If it fails, warn: what was released is handed out."""
    if reservation is None or _is_settled(reservation, charge):
        return
    with suppress(UnsettledWarning):  # not even as an error may it stop what was paid for
        warnings.warn(
            "the account could not be told what this release did cost: all that was reserved "
            "for it stays charged",
            UnsettledWarning,
            stacklevel=3,
        )


def reserved(account: Account | None, request: Request) -> Reservation | None:
    """Set aside what is requested; the account is told as much as it can be told."""
    if account is None:
        return None
    if isinstance(account, Archive):
        return account.reserve_for(request)
    if not request.delta:
        return account.reserve(request.epsilon, request.purpose)
    if "delta" not in signature(account.reserve).parameters:
        raise RefusedRequest(
            "delta must be 0 for this account: its `reserve` takes no delta. Use a ledger or a "
            "session for unknown items"
        )
    reserve: Callable[..., Reservation] = account.reserve
    return reserve(request.epsilon, request.purpose, delta=request.delta)


def _is_settled(reservation: Any, charge: Charge) -> bool:
    try:
        if charge._kept:
            reservation.settle(charge.spent, charge._kept[0].to_archive())
        else:
            reservation.settle(charge.spent)
    except Exception:
        return False
    return True
