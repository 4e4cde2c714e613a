"""Paying for a release: first the most it can cost, then what it did cost.

An *account* is anything that can `reserve` a cost and later `settle` it. Every release reserves
before it draws any noise. A crash in between leaves the reservation spent: that loses budget,
never privacy. If only the settling fails, the release is returned all the same, with a warning:
the most that it can have cost is charged.

An *archive* is an account that gets the whole `Request`. It can refuse a request about another
table. It charges a request once even if it is sent twice, and it keeps what was released.
"""

import re
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from dpgap._package import public
from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.exact.bits import ProcessBound
from dpgap.exact.parameters import readable

UNDER_WAY = "under way"

_FRACTION = re.compile(r"Fraction\((-?[0-9]+), ([0-9]+)\)")


@public
class BudgetExhausted(RuntimeError):  # noqa: N818 - a state to handle, not a fault
    """A run has nothing left to spend, or an account cannot cover a release."""


class QuotaExhausted(BudgetExhausted):
    """The daily quota of a person is used up, or an archive is full. Nothing was charged."""


class RefusedRequest(ValueError):  # noqa: N818 - it says what happened
    """The answer would not be private, or the budget is for other data. Nothing was charged."""


class KeyUsed(RefusedRequest):
    """The request key was used for another request before. Nothing was charged."""


@public
class AlreadyCharged(RuntimeError):  # noqa: N818 - it says what happened
    """The same request was charged before, and is not charged again.

    `answered` has its state, and its document if it was archived.
    """

    def __init__(self, message: str, answered: Any = None) -> None:  # pickle sets it afterwards
        super().__init__(message)
        self.answered: Answered = answered


@public
class UnsettledWarning(UserWarning):
    """A release was paid and made, but its account could not be reached to settle the charge.

    All that was reserved stays charged. The warning names the entry of a ledger, and its reason.
    """


@dataclass(frozen=True, slots=True)
class Request:
    """A release that is to be paid for. All of this is public.

    >>> Request(Cost.pure("1/2"), {"epsilon": Fraction(1, 2)}).purpose
    "{'epsilon': 0.5}"
    """

    cost: Cost
    """The most that the release can cost."""
    about: object
    """The question in one plain line; or a mechanism, whose parameters are the question."""
    facts: Mapping[str, Any] | None = None
    """Facts of the table: "table", "unit", "neighbours", "columns", "private". Arrays have none."""
    identity: str | None = None
    """A hash of the question: the same for the same question in any spelling."""
    extra: Mapping[str, Any] | None = None
    """Values of JSON that the ledger's entry keeps as well."""

    @property
    def purpose(self) -> str:
        """The question in one plain line."""
        if isinstance(self.about, str):
            return self.about
        try:
            return _FRACTION.sub(_readable_fraction, repr(self.about))
        except ValueError:  # a number of more digits than Python writes
            return type(self.about).__name__


def _readable_fraction(match: re.Match[str]) -> str:
    """A fraction that Python wrote, as people read it."""
    return readable(Fraction(int(match[1]), int(match[2])))


@dataclass(frozen=True, slots=True)
class Answered:
    """The reservation, the state and the document of a request with a key.

    `entry` is the number of the reservation. `state` is `UNDER_WAY` (or broken off), "settled" or
    "written off". `document` is what was released, if it was archived. `again` says whether another
    request paid for it, so that this one is free.
    """

    entry: int
    state: str
    document: str | None
    again: bool = False


class Reservation(Protocol):
    """A cost set aside for one release."""

    def settle(self, cost: Cost) -> None:
        """Record what the release did cost and give back the rest. This can be done only once."""


class Account(Protocol):
    """A budget that releases are charged to."""

    def reserve(self, cost: Cost, purpose: str, /) -> Reservation:
        """Set a cost aside for `purpose`, or raise `BudgetExhausted` and change nothing."""


class ArchiveReservation(Protocol):
    """A cost set aside for one release, by an account that keeps what is released."""

    @property
    def reference(self) -> dict[str, Any]:
        """Where the charge stands: "dataset", "entry", "hash", and its "time" if it is known."""

    def settle(self, cost: Cost, document: str | None = None) -> None:
        """Record what the release did cost, and the release itself, in one step."""


@runtime_checkable
class Archive(Account, Protocol):
    """An account for the data set that was stated; it keeps the releases that it paid for."""

    def reserve_for(self, request: Request) -> ArchiveReservation:
        """Set aside what the request can cost, or raise an error and change nothing."""

    def free_answer(self, request: Request, fresh: bool) -> str | None:
        """The newest document of a question that was paid for, unless fresh noise is wanted.

        The key of the account comes first: if it was used, its state or its document is raised, as
        `AlreadyCharged`. If it was not, it is kept for the document.
        """

    def answered(self, key: str) -> Answered | None:
        """The state of the request with this key; None if it was never charged."""


class _Payable(Protocol):
    @property
    def cost(self) -> Cost: ...
    def _to_archive(self) -> str: ...
    def _paid_by(self, reference: Mapping[str, Any], /) -> Self: ...


Released = TypeVar("Released", bound=_Payable)


def pay(account: Account | None, request: Request, draw: Callable[[], Released]) -> Released:
    """Reserve what is requested, then draw, then settle what the release did cost.

    A release states its cost, with a δ that was spent when the draw began.
    Every release is paid here, except the run of a stream: the run stays open between its answers,
    and calls `reserved` and `settle` itself. The desk draws later, so it calls this twice.

    If the reservation has a `reference`, the account archives the release before it is returned.
    If archiving fails, the release is returned with a warning: it was paid for.
    """
    reservation = reserved(account, request)
    reference = getattr(reservation, "reference", None)
    release = draw()
    if reference is None:
        settle(reservation, release.cost)
        return release
    paid_release = release._paid_by(reference)
    settle(reservation, release.cost, paid_release)
    return paid_release


def settle(reservation: Any, cost: Cost, release: _Payable | None = None) -> None:
    """Tell the account what was spent. If this fails, warn; the release is returned anyway."""
    if reservation is None:
        return
    try:
        if release is None:
            reservation.settle(cost)
        else:
            reservation.settle(cost, release._to_archive())
        return
    except Exception as error:
        cause = ""
        if type(error).__module__ == "dpgap":  # the words of others may hold anything
            cause = f" ({error})"
    # If warnings are errors, the paid release is returned all the same.
    with suppress(Exception):
        number = getattr(reservation, "reference", {}).get("entry")
        entry = ""
        if number:  # so no warning is like another
            entry = f", as entry {number}"
        warnings.warn(
            "the account could not record what this release cost: all that was reserved for it "
            f"stays charged{entry}{cause}",
            UnsettledWarning,
            stacklevel=3,
        )


def reserved(account: Account | None, request: Request) -> Reservation | None:
    """Reserve what is requested. An archive gets the `Request`; others get cost and purpose."""
    if account is None:
        return None
    if isinstance(account, Archive):
        return account.reserve_for(request)
    if not callable(getattr(account, "reserve", None)):
        raise TypeError(
            'account must be one that pays, such as dpgap.Ledger(url).account("sales"), not '
            f"{type(account).__name__}"
        )
    return account.reserve(request.cost, request.purpose)


def require_cost(cost: object) -> Cost:
    """A cost that is more than nothing, or an error that says how one is stated."""
    if not isinstance(cost, Cost):
        raise TypeError(f"cost must be a Cost, such as Cost.pure('1/2'), not {type(cost).__name__}")
    if cost == NOTHING:
        raise ValueError("cost must be more than nothing")
    return cost


def verb_of(amount: str) -> str:
    """The verb for an amount in words: an ε and its δ are two."""
    return "are" if "δ" in amount else "is"


class InMemoryBudget(ProcessBound):
    """A budget in memory, for as long as a program runs. A session spends from it.

    It cannot be overspent from several threads, and a forked process cannot spend from its copy. A
    release that ends in an error stays charged, as everywhere. A ledger outlives the program.

    >>> budget = InMemoryBudget(Limit("epsilon", Fraction(1)))
    >>> budget.reserve(Cost.pure("3/4"), "top 10").settle(Cost.pure("1/2"))
    >>> print(budget.remaining)
    ε = 0.5
    """

    def __init__(self, total: Limit) -> None:
        super().__init__()
        self.total = total
        self._spent = NOTHING
        self._one_at_a_time = threading.Lock()

    @property
    def spent(self) -> Cost:
        """What was spent, reservations included."""
        return self._spent

    @property
    def remaining(self) -> Limit:
        """What is left."""
        return self.total.left(self._spent)

    def reserve(self, cost: Cost, purpose: str) -> "_SetAside":
        """Set a cost aside, or raise `BudgetExhausted` and change nothing."""
        self.refuse_elsewhere("a session")
        require_cost(cost)
        with self._one_at_a_time:
            together = self._spent + cost
            if not self.total.covers(together):
                raise BudgetExhausted(self._refusal(cost))
            self._spent = together
        return _SetAside(cost, self)

    def _refusal(self, cost: Cost) -> str:
        """Why a cost is refused, and what to do."""
        amount = self.remaining.in_words(cost, self.total, joint=" and ")
        verb = verb_of(amount)
        advice = "ask with less"
        if not self.total.covers_delta(cost):
            advice = "state a larger delta when you begin the session"
        elif not self.remaining.amount:
            advice = "the budget is used up"
        return f"this needs {cost}, and {amount} {verb} left: {advice}"


@dataclass(slots=True)
class _SetAside:
    """The cost that one release may have, and the budget that it was taken from."""

    reserved: Cost
    budget: InMemoryBudget

    def settle(self, cost: Cost) -> None:
        """Give back what was not spent, once."""
        with self.budget._one_at_a_time:
            self.budget._spent -= self.reserved.beyond(cost)
        self.reserved = cost
