"""Many people at two desks on one PostgreSQL ledger, and desks that die in the middle."""

import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from desks import Process, process_of, question, token_of, write_file

import dpgap
from dpgap.budget.entries import RESERVE
from dpgap.budget.ledger import Ledger

pytestmark = pytest.mark.xdist_group("postgres")

ASK = "/api/v1/datasets/sales/ask"


def _names(count: int) -> list[str]:
    return [f"person-{number}" for number in range(count)]


def _file(folder: Path, url: str, people: int, epsilon: str) -> Path:
    names = _names(people)
    shares = "{ " + ", ".join(f'{name} = "all"' for name in names) + " }"
    everybody = dict.fromkeys(names, "")
    data = f'epsilon = "{epsilon}"'
    return write_file(folder, url, people=everybody, shares=shares, data=data)


def _ask(client: httpx.Client, base: str, person: str, **said: Any) -> httpx.Response | None:
    """An answer; None if the desk died meanwhile. Whoever is told to wait asks again."""
    headers = {"authorization": f"Bearer {token_of(person)}"}
    asked = question(k=1, epsilon="1/100", fresh=True, **said)
    while True:
        try:
            answer = client.post(base + ASK, json=asked, headers=headers)
        except httpx.HTTPError:
            return None
        if answer.status_code != 503:
            return answer
        time.sleep(0.05)


def _race(folder: Path, url: str, people: int, asks: int, covered: int) -> None:
    """Exactly what the budget covers is released, and every release is in the archive."""
    path = _file(folder, url, people, f"{covered}/100")
    names, limits = _names(people), httpx.Limits(max_connections=64)
    with (
        process_of(path) as one,
        process_of(path) as other,
        httpx.Client(timeout=300, limits=limits) as client,
        ThreadPoolExecutor(32) as threads,
    ):
        begun, places = time.monotonic(), (one.url, other.url)
        worked = one.processor_seconds + other.processor_seconds
        answers = list(
            threads.map(lambda at: _ask(client, places[at % 2], names[at % people]), range(asks))
        )
        took = time.monotonic() - begun
        worked = one.processor_seconds + other.processor_seconds - worked
    print(
        f"{asks} asks of {people} people at two desks in {took:.1f} s: {asks / took:.0f} a second; "
        f"{1000 * worked / asks:.1f} ms of a desk's processor for each"
    )
    statuses = Counter(answer.status_code for answer in answers if answer is not None)
    assert statuses == {200: covered, 409: asks - covered}
    ledger = Ledger(url)
    last = ledger.entries("sales")[-1]
    assert (last.spent, last.reserved) == (Fraction(covered, 100), 0)
    assert ledger.verify("sales") == []
    kept = {entry.reservation for entry in ledger.account("sales").archive()}
    handed_out = [answer.json()["entry"] for answer in answers if answer and answer.is_success]
    assert sorted(handed_out) == sorted(kept)


def test_a_race_for_the_budget_releases_exactly_what_it_covers(tmp_path: Path, url: str) -> None:
    _race(tmp_path, url, people=10, asks=40, covered=14)


@pytest.mark.long
def test_two_thousand_asks_of_two_hundred_people_race_for_seven_hundred(
    tmp_path: Path, url: str
) -> None:
    _race(tmp_path, url, people=200, asks=2000, covered=700)


@dataclass
class Crowd:
    """People who ask until their desk dies."""

    client: httpx.Client
    handed_out: dict[str, int] = field(default_factory=dict)
    """Which entry each key got its answer from."""
    sent: list[str] = field(default_factory=list)

    def ask_until_it_dies(self, person: str, at: str) -> None:
        while True:
            key = os.urandom(8).hex()
            self.sent.append(key)
            answer = _ask(self.client, at, person, key=key)
            if answer is None:
                return
            assert answer.is_success, answer.text
            self.handed_out[key] = answer.json()["entry"]

    def outlive(self, desk: Process, wanted: int, then: float) -> None:
        """Ask, until so many have their answers; a moment later the desk is killed."""
        threads = [
            threading.Thread(target=self.ask_until_it_dies, args=(name, desk.url))
            for name in _names(4)
        ]
        for thread in threads:
            thread.start()
        try:
            while len(self.handed_out) < wanted and any(it.is_alive() for it in threads):
                time.sleep(0.01)
            time.sleep(then)
        finally:
            desk.kill()
            for thread in threads:
                thread.join()
        assert len(self.handed_out) >= wanted


def _killed(folder: Path, url: str, kills: int) -> None:
    """Every answer is charged and archived; every charge without one can be seen."""
    path = _file(folder, url, people=4, epsilon="1000")
    choose = random.Random(7)
    with httpx.Client(timeout=60) as client:
        crowd = Crowd(client)
        for number in range(kills):
            with process_of(path) as desk:
                crowd.outlive(desk, 2 * (number + 1), choose.random() / 10)
    handed_out, sent = crowd.handed_out, crowd.sent
    ledger = Ledger(url)
    account = ledger.account("sales")
    kept = {entry.reservation for entry in account.archive()}
    assert set(handed_out.values()) <= kept
    charged = [entry for entry in ledger.entries("sales") if entry.kind == RESERVE]
    stale = {entry.number for entry in ledger.steward("sales").stale()}
    off = {entry.reservation for entry in ledger.steward("sales").written_off(len(charged))}
    print(
        f"{kills} kills: {len(charged)} charges, {len(handed_out)} answers handed out, {len(kept)} "
        f"archived; {len(off)} charges written off, {len(stale)} left no answer"
    )
    assert {entry.number for entry in charged} == kept | off | stale
    assert len(charged) == len(kept) + len(off) + len(stale)
    keys = [entry.key for entry in charged]
    assert len(keys) == len(set(keys)) <= len(sent)
    assert ledger.verify("sales") == []
    for entry in sorted(kept)[:3]:
        assert dpgap.read_release(account.document(entry or 0)).epsilon == Fraction(1, 100)


def test_desks_that_are_killed_hand_out_nothing_that_is_not_charged(
    tmp_path: Path, url: str
) -> None:
    _killed(tmp_path, url, kills=2)


@pytest.mark.long
def test_a_hundred_killed_desks(tmp_path: Path, url: str) -> None:
    _killed(tmp_path, url, kills=100)
