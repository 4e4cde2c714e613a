"""Many processes at one ledger, and processes that are killed: never overspent, nothing lost."""

import multiprocessing
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import spenders

from dpgap.budget.entries import RESERVE, SETTLE
from dpgap.budget.ledger import Ledger

PROCESSES, CHARGES = 8, 200
KILLED = 200


def _fresh_processes() -> multiprocessing.context.ForkServerContext:
    """Processes that start in milliseconds, with the ledger's modules loaded already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["spenders", "psycopg", "sqlalchemy.dialects.postgresql"])
    return context


def test_eight_processes_at_once_spend_the_total_exactly_and_lose_no_charge(url: str) -> None:
    each = Fraction(1, 700)
    affordable = PROCESSES * CHARGES * 3 // 4
    account = Ledger(url).create("sales", each * affordable + each / 2)
    with _fresh_processes().Pool(PROCESSES) as pool:
        granted = pool.starmap(spenders.spend, [(url, CHARGES, each)] * PROCESSES)
    book = account.ledger.entries("sales")
    assert sum(granted) == affordable
    assert account.spent == each * affordable
    assert account.reserved == 0
    assert [entry.kind for entry in book].count(SETTLE) == affordable
    assert account.ledger.verify("sales") == []


def test_two_hundred_killed_processes_never_overspend_and_never_release_unrecorded(
    url: str, folder: Path
) -> None:
    epsilon = Fraction(1, 100)
    account = Ledger(url).create("sales", 100)
    released = folder / "released"
    released.touch()
    subprocess.run(
        [sys.executable, spenders.__file__, url, str(KILLED), str(epsilon), released], check=True
    )
    book = account.ledger.entries("sales")
    reservations = {entry.number for entry in book if entry.kind == RESERVE}
    settled = {entry.about for entry in book if entry.kind == SETTLE}
    numbers = [int(line) for line in released.read_text().split()]
    broken_off = len(reservations - settled)
    assert numbers, "the processes must get to release something"
    assert broken_off, "some must be killed between reserving and settling"
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= reservations
    assert account.reserved == broken_off * epsilon
    assert account.spent == len(settled) * epsilon / 2
    assert account.spent + account.reserved <= account.total
    assert account.ledger.verify("sales") == []
