"""Paying for a release: first the most it can cost, then what it did cost.

An *account* is anything that can `reserve` an ε and later `settle` it. Every release reserves
before it draws any noise. A crash in between leaves the reservation spent: that loses budget,
never privacy. If only the settling fails, the release is returned all the same, with a warning:
the most that it can have cost is charged.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpgap import public


@public
class BudgetExhausted(RuntimeError):  # noqa: N818 - a state to handle, not a fault
    """A run has nothing left to spend, or an account cannot cover a release."""


class Reservation(Protocol):
    """An ε set aside for one release."""

    def settle(self, epsilon: Fraction) -> None:
        """Record what the release did cost and give back the rest, once and for all."""


class Account(Protocol):
    """A budget that releases are charged to."""

    def reserve(self, epsilon: Fraction, purpose: str) -> Reservation:
        """Set ε aside for `purpose`, or raise `BudgetExhausted` and change nothing."""


class UnsettledWarning(UserWarning):
    """A release is paid for and made, but its account was out of reach when it was settled."""


@dataclass(slots=True)
class Charge:
    """What a release costs; it may find out that it cost less than was reserved."""

    spent: Fraction


@contextmanager
def charged(account: Account | None, epsilon: Fraction, purpose: object) -> Iterator[Charge]:
    """Reserve `epsilon` before the body draws anything; settle what it spent afterwards.

    The purpose is a mechanism's `repr`: parameters, never data.
    """
    charge = Charge(epsilon)
    reservation = None if account is None else account.reserve(epsilon, repr(purpose))
    yield charge
    if reservation is not None and not _is_settled(reservation, charge.spent):
        with suppress(UnsettledWarning):  # not even as an error may it stop what was paid for
            warnings.warn(
                "the account could not be told what this release did cost: all that was reserved "
                "for it stays charged",
                UnsettledWarning,
                stacklevel=2,
            )


def _is_settled(reservation: Reservation, spent: Fraction) -> bool:
    try:
        reservation.settle(spent)
    except Exception:
        return False
    return True
