"""Until the tick nobody can see whether an answer is drawn: not by asking, polling or paying."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from desks import Running, question, running, token_of, write_file

from dpgap.budget.cost import Cost
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import LedgerReservation
from dpgap.desk.questions import FilledForm
from dpgap.desk.queue import ReleaseClock
from dpgap.desk.spool import Pending

ASK = "/api/v1/datasets/sales/ask"
ABOVE = question(kind="above", threshold=700, k=5, epsilon=2, key="the-key-of-ann")
"""It finds three, and so costs less than is reserved for it."""
PLACES = [
    "/",
    "/data/sales",
    "/data/sales/archive",
    "/data/sales/releases/3.json",
    "/data/sales/asked/the-key-of-ann",
    "/api/v1/datasets",
    "/api/v1/datasets/sales/asked/the-key-of-ann",
    "/api/v1/datasets/sales/releases",
    "/api/v1/datasets/sales/releases/3",
    "/api/v1/datasets/sales/entries",
    "/api/v1/datasets/sales/stale",
    "/api/v1/datasets/sales/verify",
    "/steward",
    "/steward/sales",
]


@dataclass
class Held:
    """A drawing that waits to be let go on, and a tick that comes when the test says so."""

    begins: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_draw: threading.Event = field(default_factory=threading.Event)
    drawn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    tick: threading.Event = field(default_factory=threading.Event)

    async def sleep(self, _: float) -> None:
        await asyncio.to_thread(self.tick.wait)

    def holds(self, desk: Running) -> Running:
        desk.desk.release_clock = ReleaseClock(60, sleep=self.sleep)
        return desk

    def let_go(self) -> None:
        self.may_draw.set()
        self.tick.set()


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Drawing takes as long as the test wants."""
    found, draw = Held(), Pending.draw

    def slowly(pending: Pending) -> None:
        found.begins.release()
        found.may_draw.wait()
        draw(pending)
        found.drawn.release()

    monkeypatch.setattr(Pending, "draw", slowly)
    try:
        yield found
    finally:
        found.let_go()


def _seen(desk: Running, folder: Path) -> dict[tuple[str, str], str]:
    """All that who asked, and a steward, can see at a desk, but for what is random on each page."""
    seen = {}
    for person in ("ann", "sue"):
        with desk.browser(person) as browser:
            for place in PLACES:
                answer = browser.get(place)
                text = re.sub(r'name="(form_)?key" value="\w+"', "", answer.text)
                text = text.replace(str(folder), "")
                seen[person, place] = f"{answer.status_code} {text}"
    return seen


def _timeless(seen: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """The same without moments and hashes, which differ between two ledgers anyway."""
    moments = r'20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\.\d+\+00:00)?|[0-9a-f]{64}| d="[^"]+"'
    moments += r'|\\"desk\\":\\"[0-9a-f]{16}\\"'
    return {key: re.sub(moments, "", text) for key, text in seen.items()}


def _watch(path: Path, held: Held) -> tuple[dict[Any, str], dict[Any, str]]:
    """What can be seen at another desk before the answer is drawn, and after; never a tick."""
    with (
        running(path) as one,
        running(path) as other,
        held.holds(one).program("ann") as ann,
        held.holds(other).program("bob") as bob,
        ThreadPoolExecutor(2) as people,
    ):
        first = people.submit(ann.post, ASK, json=ABOVE)
        held.begins.acquire()
        second = people.submit(bob.post, ASK, json={**ABOVE, "key": "the-key-of-bob"})
        while one.desk.ledger.entries("sales")[-1].kind != "again":  # his key is in the book
            time.sleep(0.005)
        before = _seen(other, path.parent)
        held.may_draw.set()
        held.drawn.acquire()
        after = _seen(other, path.parent)
        assert not first.done()
        assert not second.done()
        held.tick.set()
        _require_one_charge(one, first.result(), second.result())
    return before, after


def _require_one_charge(desk: Running, first: httpx.Response, second: httpx.Response) -> None:
    answers = first.json(), second.json()
    assert [each["state"] for each in answers] == ["settled", "settled"]
    assert [each["again"] for each in answers] == [False, True]
    assert answers[0]["release"] == answers[1]["release"]
    last = desk.desk.ledger.entries("sales")[-1]
    assert (last.kind, last.reserved) == ("settle", 0)
    assert 0 < last.spent < 2


def test_twin_tables_look_the_same_at_every_moment_before_the_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the answer is drawn already or not yet, for both tables and at another desk."""
    seen = []
    for figs in (4000, 3999):
        (tmp_path / str(figs)).mkdir()
        with held(monkeypatch) as drawing:
            before, after = _watch(write_file(tmp_path / str(figs), figs=figs), drawing)
        monkeypatch.undo()
        assert before == after
        assert "under way" in after["sue", "/api/v1/datasets/sales/releases"]
        seen.append(_timeless(after))
    assert seen[0] == seen[1]


def test_no_charge_waits_for_the_drawing_of_another_answer(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight are drawn, as many as a desk draws at once, and all about one topic."""
    with (
        held(monkeypatch) as drawing,
        desk.program("ann") as ann,
        desk.program("bob") as bob,
        ThreadPoolExecutor(9) as people,
    ):
        asked = [people.submit(ann.post, ASK, json=question(fresh=True)) for _ in range(8)]
        for _ in range(8):
            drawing.begins.acquire()
        asked.append(people.submit(bob.post, ASK, json=question(k=1)))
        looks = (desk.desk.ledger.entries("sales")[2:] for _ in range(10_000))
        assert any("bob" in [entry.person for entry in book] for book in looks)
        assert not asked[-1].done()
        drawing.let_go()
        assert {each.result().status_code for each in asked} == {200}
    assert desk.desk.ledger.entries("sales")[-1].spent == Fraction(9, 10)


class Untouchable:
    """What nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the counts was asked for")


def test_a_charge_is_made_without_a_look_at_the_counts(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = desk.desk.file.datasets["sales"]
    slot = desk.desk.counts.slot(data, data.topics["what"])
    monkeypatch.setattr(slot, "_answers", Untouchable())
    visitor = desk.desk.auth.with_token(token_of("ann"))
    assert visitor is not None
    asked = FilledForm.read({"topic": "what", "k": "2", "epsilon": "0.2"})
    with slot.using(), ThreadPoolExecutor(1) as elsewhere:
        charging = elsewhere.submit(desk.desk.charge, visitor, data, asked, "a-key-of-ann")
        assert isinstance(charging.result(timeout=60), Pending)
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question()).json()["state"] == "written off"
        assert ann.post(ASK, json=question(epsilon=900)).status_code == 409
        assert ann.post(ASK, json=question(k=7, method="joint")).status_code == 422
    last = desk.desk.ledger.entries("sales")[-1]
    assert (last.spent, last.reserved) == (Fraction(1, 10), Fraction(2, 10))


class Late:
    """A clock that is far ahead."""

    @staticmethod
    def now(zone: Any) -> datetime:
        return datetime(2999, 12, 31, tzinfo=zone)


@pytest.mark.parametrize("more", ["", 'by = "city"\ngroups = ["Bern", "Genf"]\nmax_groups = 2'])
def test_a_document_says_when_it_was_charged_and_not_when_it_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr("dpgap.releases.detail.datetime", Late)
    with running(write_file(tmp_path, more=more)) as desk, desk.program("ann") as ann:
        document = ann.post(ASK, json=question(k=1)).json()["release"]
        (charge,) = [each for each in desk.desk.ledger.entries("sales") if each.kind == "reserve"]
    assert document["made"]["time"] == charge.at[:19] + "Z"
    assert "2999" not in str(document)


def test_an_answer_is_brought_to_the_ledger_again_at_the_next_tick(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, failures = LedgerReservation.settle, [LedgerError("busy"), LedgerError("busy")]

    def busy(reservation: LedgerReservation, cost: Cost, document: str | None = None) -> None:
        if failures:
            raise failures.pop()
        settle(reservation, cost, document)

    monkeypatch.setattr(LedgerReservation, "settle", busy)
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question()).json()["state"] == "settled"
    assert failures == []


def test_a_drawing_that_fails_is_logged_at_the_tick(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = desk.desk.file.datasets["sales"]
    slot = desk.desk.counts.slot(data, data.topics["what"])
    monkeypatch.setattr(slot, "_answers", Untouchable())
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question()).json()["state"] == "written off"
    kept = [line for line in desk.lines if "tick" in line or "entry" in line]
    assert re.fullmatch(r"answered at tick \d+", kept[0])
    failed = "entry 2 of sales: drawing it failed (AssertionError)"
    assert kept[1:] == [failed, "entry 2 of sales is written off"]
