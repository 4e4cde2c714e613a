"""Processes that spend from a ledger, for tests that run many of them or kill them."""

import multiprocessing
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, replace
from fractions import Fraction

from dpgap.budget.account import AlreadyCharged, BudgetExhausted, Request, pay
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerAccount


def fresh_processes() -> multiprocessing.context.ForkServerContext:
    """Processes that start in milliseconds, with the ledger's modules loaded already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["spenders", "psycopg", "sqlalchemy.dialects.postgresql"])
    return context


@dataclass(frozen=True)
class StandIn:
    """Stands for a release: it is what its charge refers to."""

    text: str

    @property
    def cost(self) -> Cost:
        return Cost.pure(Fraction(1, 2))

    def _to_archive(self) -> str:
        return self.text

    def _paid_by(self, _: object) -> "StandIn":
        return self


@dataclass(frozen=True)
class Cheaper(StandIn):
    """One that cost what it says, and whose text is its entry."""

    spent: Fraction
    delta: Fraction = Fraction(0)

    @property
    def cost(self) -> Cost:
        return Cost.pure(self.spent, self.delta)

    def _paid_by(self, reference: object) -> "Cheaper":
        return replace(self, text=f"{reference}")


def release(account: LedgerAccount, request: Request, spent: Fraction, pause: float = 0) -> str:
    """Pay for a document, archive it, and only then hand it out."""

    def draw() -> Cheaper:
        time.sleep(pause)
        return Cheaper("", spent)

    return pay(account, request, draw).text


def spend(url: str, charges: int, epsilon: Fraction) -> list[str]:
    """Charge so many times; what was released."""
    account = Ledger(url).account("sales")
    released = []
    for _ in range(charges):
        try:
            released.append(release(account, Request(Cost.pure(epsilon), "a charge"), epsilon))
        except BudgetExhausted:
            continue
    return released


def spend_with_keys(url: str, keys: int, epsilon: Fraction, seed: int) -> list[str]:
    """Send the same requests as others do, in an order of one's own; what was released."""
    account = Ledger(url).account("sales")
    order = list(range(keys))
    random.Random(seed).shuffle(order)
    released = []
    for number in order:
        request = Request(Cost.pure(epsilon), "a request", identity="one")
        try:
            released.append(release(account.of(key=f"request {number}"), request, epsilon))
        except AlreadyCharged:
            continue
    return released


def release_until_killed(
    account: LedgerAccount, epsilon: Fraction, released: str, seed: int
) -> None:
    """Pay and release (write the document down), again and again."""
    moments = random.Random(seed)
    out = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        pause = moments.uniform(0, 0.004)
        try:
            document = release(
                account, Request(Cost.pure(epsilon), "a release"), epsilon / 2, pause
            )
        except BudgetExhausted:
            return
        os.write(out, f"{document}\n".encode())


def ask_until_killed(account: LedgerAccount, epsilon: Fraction, answers: str, seed: int) -> None:
    """Ask a few questions with a few keys, again and again; write down each key and its answer."""
    chances = random.Random(seed)
    out = os.open(answers, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        number = chances.randrange(40)
        question = f"question {number % 4}"
        request = Request(Cost.pure(epsilon), question, identity=question)
        asking = account.of(key=f"key {number}")
        is_fresh = chances.random() < 0.3
        pause = chances.uniform(0, 0.004)
        try:
            answer = asking.free_answer(request, is_fresh)
            if answer is None:
                answer = release(asking, request, epsilon, pause)
        except AlreadyCharged as before:
            answer = before.answered.document
        if answer is not None:
            os.write(out, f"{number} {answer}\n".encode())


_WORK = {"release": release_until_killed, "ask": ask_until_killed}


def kill_many(url: str, processes: int, epsilon: Fraction, released: str, work: str) -> None:
    """Start spenders one after the other and kill each at a random moment.

    Forked from a process that has loaded everything, they are at work within a millisecond. They
    live for up to five times as long as a release takes on this machine.
    """
    account, moments = Ledger(url).account("sales"), random.Random(1)
    started = time.monotonic()
    for _ in range(5):
        release(account, Request(Cost.pure(epsilon), "a rehearsal"), epsilon / 2)
    five_releases = time.monotonic() - started
    for number in range(processes):
        child = os.fork()
        if child == 0:
            _WORK[work](account, epsilon, released, number)
            os._exit(0)
        time.sleep(moments.uniform(0, five_releases))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    kill_many(sys.argv[1], int(sys.argv[2]), Fraction(sys.argv[3]), sys.argv[4], sys.argv[5])
