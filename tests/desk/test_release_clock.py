"""Answers leave at whole ticks, whatever the data made of their computing."""

import asyncio
import time
from pathlib import Path

import pytest
from desks import Running, question, running, write_file

from dpgap.desk.queue import ReleaseClock


class FakeTime:
    """A clock that moves when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now = 1000.25

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def _leaves(work: float, tick: float = 1.0) -> float:
    fake = FakeTime()
    begun = fake.now
    release_clock = ReleaseClock(tick, fake.clock, fake.sleep)
    fake.now += work
    asyncio.run(release_clock.hold(begun))
    return fake.now - begun


@pytest.mark.parametrize("work", [0.0, 0.001, 0.099, 0.5, 1.0])
def test_whatever_takes_less_than_a_tick_leaves_at_the_first(work: float) -> None:
    assert _leaves(work) == 1.0


@pytest.mark.parametrize(("work", "tick", "leaves"), [(1.25, 1, 2), (2.0, 1, 2), (0.6, 0.25, 0.75)])
def test_whatever_takes_longer_leaves_at_a_later_tick(
    work: float, tick: float, leaves: float
) -> None:
    assert _leaves(work, tick) == leaves


@pytest.mark.parametrize("said", [question(), question(epsilon=900), question(topic="no")])
def test_answers_and_refusals_wait_for_the_tick(tmp_path: Path, said: dict[str, object]) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("tick = 0.02", "tick = 0.3"))
    with running(path) as desk, desk.program("ann") as ann:
        begun = time.monotonic()
        ann.post("/api/v1/datasets/sales/ask", json=said)
        assert time.monotonic() - begun >= 0.3


def _ticks(desk: Running) -> list[str]:
    return [line for line in desk.lines if "tick" in line]


def test_twin_tables_answer_at_the_same_tick(tmp_path: Path) -> None:
    """More than twins: they differ by thousands of units, and computing takes far below a tenth."""
    found = []
    for figs in (4000, 1):
        folder = tmp_path / str(figs)
        folder.mkdir()
        path = write_file(folder, figs=figs)
        path.write_text(path.read_text().replace("tick = 0.02", "tick = 3"))
        with running(path) as desk, desk.program("ann") as ann:
            ann.post("/api/v1/datasets/sales/ask", json=question())
            found.append(_ticks(desk))
    assert found[0] == found[1] == ["answered at tick 1"]
