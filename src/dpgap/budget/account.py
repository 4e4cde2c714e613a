"""Paying for a release: first the most it can cost, then what it did cost.

An *account* is anything that can `reserve` an ε and later `settle` it. Every release reserves
before it draws any noise. A crash in between leaves the reservation spent: that loses budget,
never privacy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
    if reservation is not None:
        reservation.settle(charge.spent)
