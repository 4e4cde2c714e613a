"""Many processes at one ledger, and processes that are killed: never overspent, nothing lost."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import spenders

from dpgap.budget.entries import AGAIN, RESERVE, SETTLE
from dpgap.budget.ledger import Ledger, LedgerAccount

PROCESSES = 8
KEYS = 25


def _archived(account: LedgerAccount) -> list[str]:
    return [account.document(entry.number) for entry in account.archive()]


@pytest.mark.parametrize("charges", [40, pytest.param(200, marks=pytest.mark.long)])
def test_eight_processes_at_once_spend_the_total_exactly_and_lose_no_charge(
    url: str, charges: int
) -> None:
    each = Fraction(1, 700)
    affordable = PROCESSES * charges * 3 // 4
    account = Ledger(url).create("sales", each * affordable + each / 2)
    with spenders.fresh_processes().Pool(PROCESSES) as pool:
        granted = pool.starmap(spenders.spend, [(url, charges, each)] * PROCESSES)
    book = account.ledger.entries("sales")
    released = [document for own in granted for document in own]
    assert len(released) == affordable
    assert account.spent == each * affordable
    assert account.reserved == 0
    assert [entry.kind for entry in book].count(SETTLE) == affordable
    with account.ledger._store.reading() as rows:
        kept = [document for _, _, document in rows.documents("sales", -1, 10**6)]
    assert sorted(kept) == sorted(released)
    assert account.ledger.verify("sales") == []


def test_the_same_requests_from_eight_processes_are_charged_once_each(url: str) -> None:
    each = Fraction(1, 100)
    account = Ledger(url).create("sales", 100)
    work = [(url, KEYS, each, seed) for seed in range(PROCESSES)]
    with spenders.fresh_processes().Pool(PROCESSES) as pool:
        granted = pool.starmap(spenders.spend_with_keys, work)
    released = [document for own in granted for document in own]
    assert len(released) == KEYS
    assert account.spent == KEYS * each
    assert account.reserved == 0
    told = [account.answered(f"request {number}") for number in range(KEYS)]
    assert sorted(it.document or "" for it in told if it) == sorted(released)
    assert {it.state for it in told if it} == {"settled"}
    assert account.ledger.verify("sales") == []


@pytest.mark.parametrize("killed", [50, pytest.param(200, marks=pytest.mark.long)])
def test_killed_processes_never_overspend_and_never_release_unrecorded(
    url: str, folder: Path, killed: int
) -> None:
    epsilon = Fraction(1, 100)
    account = Ledger(url).create("sales", 100)
    released = folder / "released"
    released.touch()
    subprocess.run(
        [sys.executable, spenders.__file__, url, str(killed), str(epsilon), released, "release"],
        check=True,
    )
    book = account.ledger.entries("sales")
    reservations = {entry.number for entry in book if entry.kind == RESERVE}
    settled = {entry.reservation for entry in book if entry.kind == SETTLE}
    documents = released.read_text().splitlines()
    broken_off = reservations - settled
    assert documents, "the processes must get to release something"
    assert broken_off, "some must be killed between reserving and settling"
    assert len(set(documents)) == len(documents)
    assert set(documents) <= set(_archived(account))
    assert len(account.archive()) == len(settled)
    assert {entry.number for entry in account.ledger.steward("sales").stale()} == broken_off
    assert account.reserved == len(broken_off) * epsilon
    assert account.spent == len(settled) * epsilon / 2
    assert account.spent + account.reserved <= account.total
    assert account.ledger.verify("sales") == []


@pytest.mark.parametrize("killed", [50, pytest.param(400, marks=pytest.mark.long)])
def test_a_key_has_one_answer_however_many_processes_that_ask_with_it_are_killed(
    url: str, folder: Path, killed: int
) -> None:
    epsilon = Fraction(1, 100)
    account = Ledger(url).create("sales", 100)
    answers = folder / "answers"
    answers.touch()
    subprocess.run(
        [sys.executable, spenders.__file__, url, str(killed), str(epsilon), answers, "ask"],
        check=True,
    )
    pairs = {tuple(line.split(" ", 1)) for line in answers.read_text().splitlines()}
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys))
    assert {answer for _, answer in pairs} <= set(_archived(account))
    kinds = [entry.kind for entry in account.ledger.entries("sales")]
    if killed >= 400:  # few processes may all be killed before a question is asked again
        assert AGAIN in kinds, "some must get an earlier answer"
    settled = kinds.count(SETTLE)
    rehearsals = 5
    assert account.spent == settled * epsilon - rehearsals * epsilon / 2
    assert account.reserved == (kinds.count(RESERVE) - settled) * epsilon
    assert account.ledger.verify("sales") == []
