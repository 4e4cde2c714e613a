"""Processes that spend from a ledger, for tests that run many of them or kill them."""

import os
import random
import signal
import sys
import time
from fractions import Fraction

from dpgap.budget.account import BudgetExhausted
from dpgap.budget.ledger import Ledger, LedgerAccount


def spend(url: str, charges: int, epsilon: Fraction) -> int:
    """Charge so many times; say how many were granted."""
    account = Ledger(url).account("sales")
    granted = 0
    for _ in range(charges):
        try:
            account.reserve(epsilon, "a charge").settle(epsilon)
        except BudgetExhausted:
            continue
        granted += 1
    return granted


def release_until_killed(
    account: LedgerAccount, epsilon: Fraction, released: str, seed: int
) -> None:
    """Reserve, release (write the reservation's number down) and settle, again and again."""
    moments = random.Random(seed)
    out = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        try:
            reservation = account.reserve(epsilon, "a release")
        except BudgetExhausted:
            return
        time.sleep(moments.uniform(0, 0.004))
        os.write(out, f"{reservation.entry.number}\n".encode())
        reservation.settle(epsilon / 2)


def kill_many(url: str, processes: int, epsilon: Fraction, released: str) -> None:
    """Start spenders one after the other and kill each at a random moment.

    Forked from a process that has loaded everything, they are at work within a millisecond.
    """
    account, moments = Ledger(url).account("sales"), random.Random(1)
    for number in range(processes):
        child = os.fork()
        if child == 0:
            release_until_killed(account, epsilon, released, number)
            os._exit(0)
        time.sleep(moments.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    kill_many(sys.argv[1], int(sys.argv[2]), Fraction(sys.argv[3]), sys.argv[4])
