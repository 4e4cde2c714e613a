"""The service of the examples: what a stop and a kill cost, and that no budget is overspent."""

import logging
import re
import runpy
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest

import dpgap
from dpgap.budget.account import UNIT
from dpgap.budget.ledger import LedgerAccount
from pages import ROOT

SERVICE = str(ROOT / "examples" / "service.py")
HOURLY = Fraction(1, 8)


@pytest.fixture
def budget(tmp_path: Path) -> LedgerAccount:
    return dpgap.Ledger(f"sqlite:///{tmp_path}/budget.db").create("errors", epsilon=1)


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    url = f"sqlite:///{folder}/budget.db"
    return subprocess.Popen(
        [sys.executable, SERVICE, url, *words], stdout=subprocess.PIPE, text=True
    )


def _alerts(output: str) -> dict[int, int]:
    """How many alerts each hour had."""
    hours = [int(hour) for hour in re.findall(r"^hour (\d): page \d+ has", output, re.M)]
    return {hour: hours.count(hour) for hour in hours}


def _require_books(budget: LedgerAccount) -> None:
    """At no time was more spent or reserved than there is."""
    book = budget.ledger.entries("errors")
    assert budget.ledger.verify("errors") == []
    assert all(0 <= entry.spent + entry.reserved <= entry.total == 1 for entry in book)


def test_a_service_that_is_killed_goes_on_with_what_is_left(budget, tmp_path: Path):
    killed = _start(tmp_path, "--dies-in", "2")
    assert _alerts(killed.communicate()[0]) == {0: 3, 1: 3, 2: 3}
    assert killed.returncode == -9
    assert budget.reserved == HOURLY  # all of the third hour's, and nothing else
    spent = budget.spent
    again = _start(tmp_path)
    assert _alerts(again.communicate()[0]) == {3: 3, 4: 3, 5: 3}
    assert again.returncode == 0
    assert budget.reserved == HOURLY
    assert 0 <= budget.spent - Fraction(5, 2) * spent < 5 * UNIT  # two hours, and three more
    _require_books(budget)


def test_a_service_that_is_stopped_keeps_what_it_did_not_spend(budget, tmp_path: Path, caplog):
    example = runpy.run_path(SERVICE)
    stop = threading.Event()
    caplog.set_level(logging.INFO)
    example["log"].addFilter(lambda record: stop.set() or True)  # at the first thing it says
    example["serve"](f"sqlite:///{tmp_path}/budget.db", stop)
    hourly = example["HOURLY"]
    assert budget.reserved == 0
    assert 0 <= budget.spent - hourly.spent(1) < UNIT
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["hour 0"] * 2


def test_a_service_ends_when_the_budget_does(budget, tmp_path: Path, caplog):
    budget.reserve(Fraction(3, 4), "others")
    example = runpy.run_path(SERVICE)
    example["serve"](f"sqlite:///{tmp_path}/budget.db", threading.Event())
    assert caplog.records[-1].getMessage() == "hour 3: the budget is used up"
    assert 0 <= budget.remaining < HOURLY
    _require_books(budget)


@pytest.mark.long
@pytest.mark.parametrize("lines", [1, 2, 4, 5, 9])
def test_a_service_may_be_killed_anywhere(budget, tmp_path: Path, lines: int):
    seen: dict[int, int] = {}
    for _ in range(4):
        service = _start(tmp_path)
        for line, _ in zip(service.stdout, range(lines), strict=False):
            seen |= _alerts(line)
        service.kill()
        service.wait()
        service.stdout.close()
        _require_books(budget)
    assert seen
    assert budget.reserved <= 4 * HOURLY
