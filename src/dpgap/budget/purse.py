"""A budget in memory, for as long as a program runs: what a session spends from.

It cannot be overspent from several threads, and a forked process cannot spend from its copy. A
release that ends in an error stays charged, as everywhere. Whoever wants a budget that outlives the
program opens a ledger.
"""

import threading
from dataclasses import dataclass
from fractions import Fraction

from dpgap.budget.account import Amount, BudgetExhausted
from dpgap.exact.bits import ProcessBound


class Purse(ProcessBound):
    """An ε and a δ that releases are paid from.

    >>> purse = Purse(Amount(Fraction(1)))
    >>> purse.reserve(Fraction(3, 4), "top 10").settle(Fraction(1, 2))
    >>> purse.remaining
    Amount(epsilon=Fraction(1, 2), delta=Fraction(0, 1))
    """

    def __init__(self, total: Amount) -> None:
        super().__init__()
        self._total = total
        self._spent = Amount(Fraction(0))
        self._one_at_a_time = threading.Lock()

    @property
    def spent(self) -> Amount:
        """What was spent, reservations included."""
        return self._spent

    @property
    def remaining(self) -> Amount:
        """What is left."""
        return self._total - self._spent

    def reserve(
        self, epsilon: Fraction, purpose: str, delta: Fraction = Fraction(0)
    ) -> "_SetAside":
        """Set an amount aside, or raise `BudgetExhausted` and change nothing."""
        self.refuse_elsewhere("a session")
        wanted = Amount(epsilon, delta)
        with self._one_at_a_time:
            if not (self._spent + wanted).fits(self._total):
                raise BudgetExhausted(
                    f"this needs {wanted}, and what is left is {self.remaining.at_least}: ask with "
                    f"less, or begin with more than {self._total}"
                )
            self._spent += wanted
        return _SetAside(wanted, self)


@dataclass(slots=True)
class _SetAside:
    """An amount that one release may use, and what it was taken from."""

    amount: Amount
    purse: Purse

    def settle(self, epsilon: Fraction) -> None:
        """Give back what was not used, once; δ stays spent."""
        rest, self.amount = self.amount.epsilon - epsilon, Amount(epsilon)
        with self.purse._one_at_a_time:
            self.purse._spent -= Amount(max(rest, Fraction(0)))
