"""Paying for a release: first the most it can cost, then what it did cost.

An *account* is anything that can `reserve` an ε and later `settle` it. Every release reserves
before it draws any noise. A crash in between leaves the reservation spent: that loses budget,
never privacy. If only the settling fails, the release is returned all the same, with a warning:
the most that it can have cost is charged.

An *archive* is an account that gets the whole `Request`. It can refuse a request about another
table. It charges a request once even if it is sent twice, and it keeps what was released.

>>> Amount(Fraction(1, 3)) + Amount(Fraction(1, 6), Fraction(1, 10**6))
Amount(epsilon=Fraction(1, 2), delta=Fraction(1, 1000000))
"""

import math
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from dpgap._package import public
from dpgap.budget.cost import Cost
from dpgap.exact.bits import ProcessBound
from dpgap.exact.parameters import (
    Rational,
    positive_rational,
    readable,
    readable_down,
    readable_up,
)
from dpgap.question import chance

# --------------------------------------------------------------------------------------------------
# Amounts of privacy, (ε, δ), as a book holds them: exact, and with short denominators.
#
# Charges are whole multiples of one small unit, 1/(10^30 · lcm(1, …, 24)), so that sums keep short
# denominators however many releases there are. Reserved and settled amounts are rounded *up*, and a
# new total *down*. So a book never shows less than what was spent. A release itself reports its
# exact cost.


UNIT = Fraction(1, 10**30 * math.lcm(*range(1, 25)))
"""All amounts of entries are whole multiples of this."""


def rounded_up(number: Fraction) -> Fraction:
    """The number rounded up to a multiple of the unit. Charges are recorded so.

    >>> rounded_up(Fraction(1, 3)), rounded_up(Fraction(1, 29)) > Fraction(1, 29)
    (Fraction(1, 3), True)
    """
    return math.ceil(number / UNIT) * UNIT


def rounded_down(number: Fraction) -> Fraction:
    """The number rounded down to a multiple of the unit. Totals are recorded so."""
    return math.floor(number / UNIT) * UNIT


@dataclass(frozen=True, slots=True)
class Amount:
    """An ε and a δ. The costs of releases add up: ε and δ separately."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.epsilon - other.epsilon, self.delta - other.delta)

    def fits(self, limit: "Amount") -> bool:
        """Whether neither ε nor δ is above the limit."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta

    def down(self) -> "Amount":
        """The amount rounded as a total is recorded. A total that is too large is refused."""
        if self.epsilon >= 10**100:
            raise ValueError("epsilon must be less than 10^100")
        return Amount(rounded_down(self.epsilon), rounded_down(self.delta))

    def exact(self) -> list[str]:
        """The two numbers as text, as they are stored and hashed."""
        return [str(self.epsilon), str(self.delta)]

    def __str__(self) -> str:
        return self.in_words(readable_up)

    @property
    def at_least(self) -> str:
        """The amount in words, rounded down: what is left must never look like more."""
        return self.in_words(readable_down)

    def in_words(self, readable: Any, *beside: "Amount", joint: str = ", ") -> str:
        """The amount in words. Its δ is shown, even 0, if an amount beside it has a δ."""
        rest = f"{joint}δ = {readable(self.delta)}" if any(a.delta for a in (self, *beside)) else ""
        return f"ε = {readable(self.epsilon)}{rest}".replace("= ≈", "≈ ")


NOTHING = Amount(Fraction(0))


def granted(epsilon: Rational, delta: Rational) -> Amount:
    """The total as it is recorded: rounded down, with an ε above 0."""
    total = Amount(positive_rational("epsilon", epsilon), chance("delta", delta)).down()
    if total.epsilon == 0:
        raise ValueError("epsilon must be larger: a total this small rounds down to 0")
    return total


# --------------------------------------------------------------------------------------------------


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

    >>> Request(Fraction(1, 2), {"epsilon": Fraction(1, 2)}).purpose
    "{'epsilon': 0.5}"
    """

    epsilon: Fraction
    about: object
    """The question in one plain line; or a mechanism, whose parameters are the question."""
    delta: Fraction = Fraction(0)
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
            return _FRACTION.sub(
                lambda it: readable(Fraction(int(it[1]), int(it[2]))), repr(self.about)
            )
        except ValueError:  # a number of more digits than Python writes
            return type(self.about).__name__


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
    """An ε set aside for one release."""

    def settle(self, epsilon: Fraction) -> None:
        """Record what the release did cost and give back the rest. This can be done only once."""


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


class _Document(Protocol):
    @property
    def cost(self) -> Cost: ...
    def to_archive(self) -> str: ...
    def paid_by(self, reference: Mapping[str, Any], /) -> Self: ...


Kept = TypeVar("Kept", bound=_Document)


def pay(account: Account | None, request: Request, draw: Callable[[], Kept]) -> Kept:
    """Reserve what is requested, then draw, then settle the ε that was spent.

    Every release is paid here, except the run of a stream: the run stays open between its answers,
    and calls `reserved` and `settle` itself. The desk draws later, so it calls this twice.

    If the reservation has a `reference`, the account archives the release before it is returned.
    If archiving fails, the release is returned with a warning: it was paid for.
    """
    reservation = reserved(account, request)
    reference = getattr(reservation, "reference", None)
    release = draw()
    kept = None if reference is None else release.paid_by(reference)
    settle(reservation, release.cost.pure_epsilon, kept)
    return release if kept is None else kept


def settle(reservation: Any, spent: Fraction, kept: _Document | None = None) -> None:
    """Tell the account what was spent. If this fails, warn; the release is returned anyway."""
    if reservation is None:
        return
    try:
        reservation.settle(spent, *(() if kept is None else (kept.to_archive(),)))
        return
    except Exception as error:  # the words of others may hold anything
        why = f" ({error})" if type(error).__module__ == "dpgap" else ""
    # If warnings are errors, the paid release is returned all the same.
    with suppress(Exception):
        entry = getattr(reservation, "reference", {}).get("entry")  # so none is like another
        warnings.warn(
            "the account could not record what this release cost: all that was reserved for it "
            f"stays charged{f', as entry {entry}' if entry else ''}{why}",
            UnsettledWarning,
            stacklevel=3,
        )


def reserved(account: Account | None, request: Request) -> Reservation | None:
    """Reserve what is requested. An archive gets the `Request`; others get ε, purpose and δ."""
    if account is None:
        return None
    if isinstance(account, Archive):
        return account.reserve_for(request)
    if not callable(getattr(account, "reserve", None)):
        raise TypeError(
            'account must be one that pays, such as dpgap.Ledger(url).account("sales"), not '
            f"{type(account).__name__}"
        )
    with_delta = {"delta": request.delta} if request.delta else {}
    if with_delta and "delta" not in signature(account.reserve).parameters:
        raise RefusedRequest(
            "delta must be 0 for this account: its `reserve` takes no delta. Use a ledger or a "
            "session for unknown items"
        )
    return account.reserve(request.epsilon, request.purpose, **with_delta)


class InMemoryBudget(ProcessBound):
    """A budget in memory, for as long as a program runs. A session spends from it.

    It cannot be overspent from several threads, and a forked process cannot spend from its copy. A
    release that ends in an error stays charged, as everywhere. A ledger outlives the program.

    >>> purse = InMemoryBudget(Amount(Fraction(1)))
    >>> purse.reserve(Fraction(3, 4), "top 10").settle(Fraction(1, 2))
    >>> purse.remaining
    Amount(epsilon=Fraction(1, 2), delta=Fraction(0, 1))
    """

    def __init__(self, total: Amount) -> None:
        super().__init__()
        self.total = total
        self._spent = Amount(Fraction(0))
        self._one_at_a_time = threading.Lock()

    @property
    def spent(self) -> Amount:
        """What was spent, reservations included."""
        return self._spent

    @property
    def remaining(self) -> Amount:
        """What is left."""
        return self.total - self._spent

    def reserve(
        self, epsilon: Fraction, purpose: str, delta: Fraction = Fraction(0)
    ) -> "_SetAside":
        """Set an amount aside, or raise `BudgetExhausted` and change nothing."""
        self.refuse_elsewhere("a session")
        wanted = Amount(epsilon, delta)
        with self._one_at_a_time:
            if not (self._spent + wanted).fits(self.total):
                left = self.remaining.in_words(readable_down, wanted, self.total, joint=" and ")
                what = "ask with less" if self.remaining.epsilon else "the budget is used up"
                if wanted.delta > self.total.delta:
                    what = "state a larger delta when you begin the session"
                raise BudgetExhausted(
                    f"this needs {wanted}, and {left} {'are' if 'δ' in left else 'is'} left: {what}"
                )
            self._spent += wanted
        return _SetAside(wanted, self)


@dataclass(slots=True)
class _SetAside:
    """The amount that one release may spend, and the budget that it was taken from."""

    amount: Amount
    purse: InMemoryBudget

    def settle(self, epsilon: Fraction) -> None:
        """Give back what was not used, once; δ stays spent."""
        rest, self.amount = self.amount.epsilon - epsilon, Amount(epsilon)
        with self.purse._one_at_a_time:
            self.purse._spent -= Amount(max(rest, Fraction(0)))
