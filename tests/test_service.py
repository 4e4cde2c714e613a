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
from dpgap.budget.cost import UNIT, Cost
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
    """How many alerts each hour had; hours count from the first on."""
    days = re.findall(r"^2026-11-(\d+) (\d+):00 UTC: page \d+ is above its limit", output, re.M)
    hours = [24 * (int(day) - 16) + int(hour) - 20 for day, hour in days]
    return {hour: hours.count(hour) for hour in hours}


def _require_books(budget: LedgerAccount) -> None:
    """At no time was more spent or reserved than there is."""
    book = budget.ledger.entries("errors")
    assert budget.ledger.verify("errors") == []
    assert all(0 <= entry.spent + entry.reserved <= entry.total == 1 for entry in book)


def test_a_service_that_is_killed_goes_on_with_what_is_left(budget, tmp_path: Path):
    killed = _start(tmp_path, "--dies-in", "2")
    assert _alerts(killed.communicate()[0]) == {0: 3, 1: 3, 2: 2}  # the third would come last
    assert killed.returncode == -9
    assert budget.reserved == HOURLY  # all of the third hour's, and nothing else
    spent = budget.spent
    again = _start(tmp_path)
    output = again.communicate()[0]
    assert _alerts(output) == {3: 3, 4: 3, 5: 3}
    assert output.count("charged before") == 3
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
    alert, left, unasked = [said.removeprefix("2026-11-16 20:00 UTC: ") for said in caplog.messages]
    assert alert.startswith("page 2132 is above its limit: at least ")
    assert (left, unasked) == ("4 to 8 more alerts could be paid", "2867 metrics were not asked")


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The hours that were not watched."""
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    return [
        hour for hour, _, why in (each.partition(" UTC: not watched: ") for each in said) if why
    ]


def test_a_service_waits_when_the_budget_is_used_up(budget, tmp_path: Path, caplog):
    reservation = budget.reserve(Cost.pure(Fraction(3, 4)), "others")
    example = runpy.run_path(SERVICE)
    keys = [example["key_of"](hour).removesuffix(" UTC") for hour in range(example["HOURS"])]
    example["serve"](f"sqlite:///{tmp_path}/budget.db", threading.Event())
    assert _errors(caplog) == keys[3:]
    assert 0 <= budget.remaining < HOURLY
    caplog.clear()
    reservation.settle(Cost.pure(Fraction(0)))  # as if a new week had begun
    example["serve"](f"sqlite:///{tmp_path}/budget.db", threading.Event())
    assert _errors(caplog) == []
    assert set(_alerts("\n".join(caplog.messages))) == {3, 4, 5}
    _require_books(budget)


def test_a_service_ends_when_its_budget_is_closed(budget, tmp_path: Path, caplog):
    budget.ledger.steward("errors").close(reason="the project is over")
    runpy.run_path(SERVICE)["serve"](f"sqlite:///{tmp_path}/budget.db", threading.Event())
    assert _errors(caplog) == ["2026-11-16 20:00"]


def test_the_bounds_of_answers_that_noise_lifted_hold_together_in_nearly_all_hours(caplog):
    """In 5 % of hours one may be wrong; 10 of 24 have a probability below 10⁻⁶.

    Bounds of 95 % for one question are wrong in nearly all hours.
    """
    example = runpy.run_path(SERVICE)
    made = [limit - 400 for limit in example["LIMITS"]]
    example["watch"].__globals__["counts"] = lambda hour: made
    for hour in range(24):
        example["watch"](hour, None, threading.Event())
    line = r"^(\S+ \S+) UTC: page (\d+) .* above its limit: at least (\d+) users"
    lifted = re.findall(line, "\n".join(caplog.messages), re.M)
    assert len({hour for hour, _, _ in lifted}) > 12
    assert len({hour for hour, page, least in lifted if int(least) > made[int(page)]}) < 10


def test_a_service_says_how_many_metrics_it_did_not_ask_and_leaves_others_next_time(caplog):
    example = runpy.run_path(SERVICE)
    example["watch"].__globals__["counts"] = lambda hour: [10**6] * example["METRICS"]
    for hour in range(2):
        example["watch"](hour, None, threading.Event())
    pages = [re.findall(r"page (\d+)", "\n".join(caplog.messages))]
    assert pages == [[str(page) for first in (0, 1_009) for page in range(first, first + 9)]]
    assert [it for it in caplog.messages if "not asked" in it] == [
        f"{example['key_of'](hour)}: 4991 metrics were not asked" for hour in range(2)
    ]


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
