"""What was paid is not lost: a drawn answer outlives outages of the ledger, the disk and the desk.

Every charge has its answer, or one that can still be settled, or a line in the steward's list. And
nothing is drawn twice.
"""

import errno
import os
import resource
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from desks import Running, process_of, question, running, token_of, write_file

from dpgap.budget.ledger import Ledger, LedgerReservation
from dpgap.desk import queue, spool
from dpgap.desk import queue as desks_words
from dpgap.desk.app import check_desk, open_desk
from dpgap.desk.config import read_stewards_file
from dpgap.desk.questions import FilledForm
from dpgap.desk.queue import Desk
from dpgap.desk.spool import Pending, Slip, Spool, SpoolError
from servers import postgres_server

API = "/api/v1/datasets/sales/"
ASK = API + "ask"
KEY = "the-key-of-ann"
ALL = '{ ann = "all", bob = "all" }'


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is told at once that their answer is late."""
    monkeypatch.setattr(queue, "_PATIENCE", 0)


class Killed(BaseException):
    """As if the process had died here."""


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> "Counter[int]":
    """How often the answer of each reservation was drawn."""
    counted: Counter[int] = Counter()
    ask = spool.ask

    def counting(question: Any, answers: Any, account: Pending) -> Any:
        counted[account.entry.number] += 1
        return ask(question, answers, account)

    monkeypatch.setattr(spool, "ask", counting)
    return counted


def _open(path: Path) -> Desk:
    return open_desk(read_stewards_file(path))


def _charge(desk: Desk, key: str = KEY) -> Pending:
    visitor = desk.auth.with_token(token_of("ann"))
    assert visitor is not None
    asked = FilledForm.read({"topic": "what", "k": "2", "epsilon": "0.1"})
    charged = desk.charge(visitor, desk.file.datasets["sales"], asked, key)
    assert isinstance(charged, Pending)
    return charged


def _work(desk: Desk) -> None:
    """All steps of a question."""
    charged = _charge(desk)
    charged.draw()
    desk.settle(charged)


def _next_desk(path: Path) -> Desk:
    """The desk that starts after another has died, when it has taken up what that one left."""
    desk = _open(path)
    desk.recover()
    desk.settle_waiting()
    return desk


def _why(desk: Desk) -> list[str]:
    return [words for _, words in desk.unsettled(desk.file.datasets["sales"])]


def _kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries("sales")[2:]]


def _until(is_so: Callable[[], Any]) -> None:
    """Wait until it is so; a test that waits in vain ends with the limit of its suite."""
    end = time.monotonic() + 100
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def _die(*_: object) -> None:
    raise Killed


def _die_after(step: Callable[..., Any]) -> Callable[..., None]:
    def then_die(*given: object) -> None:
        step(*given)
        raise Killed

    return then_die


STEPS: dict[str, tuple[Any, str, Any, str]] = {
    "charged": (Pending, "draw", _die, "written off"),
    "drawn": (Slip, "keep", _die, "written off"),
    "spooled": (Slip, "keep", _die_after(Slip.keep), "settled"),
    "at the tick": (LedgerReservation, "settle", _die, "settled"),
    "settled": (Slip, "drop", _die, "settled"),
    "removed": (Slip, "drop", _die_after(Slip.drop), "settled"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_desk_that_dies_after_any_step_loses_nothing_and_draws_nothing_twice(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    where, name, instead, becomes = STEPS[step]
    with monkeypatch.context() as patched:
        patched.setattr(where, name, instead)
        with pytest.raises(Killed):
            _work(first)
    first.spool.close()
    desk = _next_desk(path)
    desk.recover()
    assert list(desk.spool.folders) == [desk.spool.id] != [first.spool.id]
    assert _kinds(desk.ledger) == ["reserve", "settle" if becomes == "settled" else "write-off"]
    assert draws == ({} if step == "charged" else {2: 1})
    assert (_why(desk), desk.waiting) == ([], {})
    assert desk.spool.folders[desk.spool.id].names() == []
    assert desk.ledger.verify("sales") == []


def test_the_answer_that_is_settled_later_is_the_one_that_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    charged = _charge(first)
    charged.draw()
    drawn = charged.document
    first.spool.close()
    desk = _next_desk(path)
    assert desk.ledger.account("sales").document(2) == drawn
    assert draws == {2: 1}


def test_what_a_settlement_whose_reply_was_lost_has_settled_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = _open(write_file(tmp_path))
    charged = _charge(desk)
    charged.draw()
    settle = LedgerReservation.settle

    def without_reply(*given: Any) -> None:
        settle(*given)
        raise OSError

    monkeypatch.setattr(LedgerReservation, "settle", without_reply)
    assert desk.settle(charged).state == "settled"
    assert (_kinds(desk.ledger), desk.waiting) == (["reserve", "settle"], {})


def test_an_answer_that_is_not_whole_is_no_answer(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    _charge(first).draw()
    (file,) = path.with_suffix(".spool").glob("*/*.*")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    first.spool.close()
    assert _kinds(_next_desk(path).ledger) == ["reserve", "write-off"]


def test_an_answer_of_a_later_version_waits_for_a_later_desk(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    _charge(first).draw()
    (file,) = path.with_suffix(".spool").glob("*/*.*")
    file.write_bytes(file.read_bytes().replace(b":1}", b":2}", 1))
    first.spool.close()
    desk = _next_desk(path)
    assert (_kinds(desk.ledger), _why(desk)) == (["reserve"], [desks_words.ANSWER_WAITS])
    assert file.exists()


def test_only_its_owner_reads_the_spool(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    desk = _open(path)
    _charge(desk).draw()
    root = path.with_suffix(".spool")
    for each in (root, *root.rglob("*")):
        assert oct(each.stat().st_mode & 0o777) == ("0o700" if each.is_dir() else "0o600")
    root.chmod(0o750)
    with pytest.raises(SpoolError, match="only its owner can read"):
        _open(path)


def test_desks_share_a_spool_and_never_a_folder(tmp_path: Path) -> None:
    root = tmp_path / "spool"
    one, other = Spool(root), Spool(root)
    assert one.id != other.id
    assert set(one.folders) | set(other.folders) == {each.name for each in root.iterdir()}
    other.close()
    one.take_over()
    assert list(one.folders) == [one.id, other.id]
    one.leave(one.folders[other.id])
    assert [each.name for each in root.iterdir()] == [one.id]


def test_a_desk_settles_what_another_that_died_has_left(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    one, other = _open(path), _open(path)
    _charge(one).draw()
    other.recover()
    assert not other.waiting
    one.spool.close()
    other.recover()
    other.settle_waiting()
    assert _kinds(other.ledger) == ["reserve", "settle"]
    other.recover()
    left = [each.name for each in path.with_suffix(".spool").iterdir() if each.is_dir()]
    assert left == [other.spool.id]


def test_a_draw_must_not_cost_more_than_was_reserved(tmp_path: Path) -> None:
    desk = _open(write_file(tmp_path))
    charged = _charge(desk)
    charged.form = FilledForm.read({"topic": "what", "k": "2", "epsilon": "0.2"})
    charged.draw()
    assert charged.document is None


@contextmanager
def _lock(path: Path) -> Iterator[sqlite3.Connection]:
    """Nobody else can write to a SQLite ledger until this connection rolls back."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()


def _after_drawing(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    draw = Pending.draw

    def and_then(charged: Pending) -> None:
        draw(charged)
        then()

    monkeypatch.setattr(Pending, "draw", and_then)


def _require_one_answer(desk: Running, ann: httpx.Client, draws: "Counter[int]") -> None:
    """The answer of entry 2 is there in the end, as it was drawn."""
    _until(lambda: "entry 2 of sales is settled" in desk.lines)
    assert ann.get(API + f"asked/{KEY}").json()["state"] == "settled"
    assert dict(draws) == {2: 1}
    assert _kinds(desk.desk.ledger) == ["reserve", "settle"]
    assert desk.desk.ledger.verify("sales") == []


def test_an_answer_waits_for_a_ledger_that_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    monkeypatch.setattr("dpgap.budget.store.BUSY_SECONDS", 0.01)
    path = write_file(tmp_path)
    with (
        running(path) as desk,
        desk.program("ann") as ann,
        desk.program("sue") as sue,
        _lock(tmp_path / "budget.db") as lock,
    ):
        with monkeypatch.context() as patched:
            _after_drawing(patched, lambda: lock.execute("BEGIN IMMEDIATE"))
            assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        for _ in range(2):
            refused = ann.post(ASK, json=question())
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert "waits for the ledger" in refused.json()["error"]
        (listed,) = sue.get(API + "stale").json()["reservations"]
        assert (listed["entry"], listed["why"]) == (2, desks_words.ANSWER_WAITS)
        lock.execute("ROLLBACK")
        _require_one_answer(desk, ann, draws)
        assert ann.post(ASK, json=question(k=1)).json()["state"] == "settled"
    (told,) = [line for line in desk.lines if "tries again" in line]
    words = "the ledger cannot be written, the desk tries again at every tick"
    assert told == f"entry 2 of sales: {words}: it is busy with other releases"


def test_after_ten_minutes_questions_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    settle = LedgerReservation.settle

    def fails_for_one(charged: LedgerReservation, *given: Any) -> None:
        if charged.entry.number == 2:
            raise OSError
        settle(charged, *given)

    with (
        running(write_file(tmp_path)) as desk,
        desk.program("ann") as ann,
        monkeypatch.context() as patched,
    ):
        patched.setattr(LedgerReservation, "settle", fails_for_one)
        assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        assert ann.post(ASK, json=question(k=1)).status_code == 503
        patched.setattr(spool, "_LONG", timedelta(0))
        assert ann.post(ASK, json=question(k=1)).json()["state"] == "settled"
        assert _why(desk.desk) == [desks_words.ANSWER_WAITS]
        _until(lambda: any("has waited for ten minutes" in line for line in desk.lines))
        patched.undo()
        _until(lambda: "entry 2 of sales is settled" in desk.lines)
    assert dict(draws) == {2: 1, 3: 1}


@contextmanager
def _limited(what: int, most: Callable[[], int]) -> Iterator[tuple[Callable[[], None], ...]]:
    """How to set a limit of this process, and how to take it back."""
    before = resource.getrlimit(what)

    def limit() -> None:
        resource.setrlimit(what, (most(), before[1]))

    def free() -> None:
        resource.setrlimit(what, before)

    try:
        yield limit, free
    finally:
        free()


def _pad(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Pending.settle

    def long(charged: Pending, epsilon: Fraction, document: str | None = None) -> None:
        assert document is not None
        settle(charged, epsilon, document + " " * 2_000_000)

    monkeypatch.setattr(Pending, "settle", long)


def test_an_answer_waits_for_a_disk_that_has_no_room_for_its_document(
    desk: Running, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    """Of 2 MB, while no file may become larger than 1 MB: the spool's neither."""
    _pad(monkeypatch)
    with (
        desk.program("ann") as ann,
        _limited(resource.RLIMIT_FSIZE, lambda: 1_000_000) as (limit, free),
    ):
        limit()
        assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        assert _why(desk.desk) == [desks_words.ANSWER_WAITS]
        assert ann.post(ASK, json=question()).status_code == 503
        free()
        _require_one_answer(desk, ann, draws)
    only = (
        "entry 2 of sales: the spool cannot be written, so its answer is only in memory (OSError)"
    )
    assert desk.lines.count(only) == 1


def test_an_answer_waits_while_descriptors_are_used_up(
    desk: Running, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    with (
        desk.program("ann") as ann,
        _limited(resource.RLIMIT_NOFILE, lambda: 3) as (limit, free),
    ):
        assert ann.get("/api/v1/datasets").status_code == 200
        with monkeypatch.context() as patched:
            _after_drawing(patched, limit)
            assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        before = len(desk.lines)
        assert ann.post(ASK, json=question()).status_code == 503
        free()
        _require_one_answer(desk, ann, draws)
    assert not [line for line in desk.lines[before:] if "inside" in line]


def _no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


def test_without_room_in_the_spool_nothing_is_charged(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_write", _no_room)
    with desk.program("ann") as ann:
        refused = ann.post(ASK, json=question())
    assert (refused.status_code, "spool" in refused.json()["error"]) == (503, True)
    assert "the spool cannot be written: no room" in desk.lines
    assert _kinds(desk.desk.ledger) == []
    assert os.listdir(desk.desk.file.spool + "/" + desk.desk.spool.id) == ["lock"]


def test_an_answer_whose_file_gets_no_name_is_settled_from_memory(
    desk: Running, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    monkeypatch.setattr(os, "rename", _no_room)
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "settled"
    assert dict(draws) == {2: 1}
    assert any("its answer is only in memory (OSError)" in line for line in desk.lines)
    assert os.listdir(desk.desk.file.spool + "/" + desk.desk.spool.id) == ["lock"]


@pytest.mark.parametrize("is_drawn", [True, False])
def test_what_a_desk_left_is_taken_up_although_it_is_asked_again_while_the_next_one_starts(
    is_drawn: bool, tmp_path: Path
) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    charged = _charge(first)
    if is_drawn:
        charged.draw()
    first.spool.close()
    desk = _open(path)
    task: Any = object()
    desk.under_way[task] = "sales", charged.entry.key or ""
    desk.recover()
    desk.settle_waiting()
    assert _kinds(desk.ledger) == ["reserve", "settle" if is_drawn else "write-off"]


def test_a_desk_that_starts_leaves_what_is_asked_of_it_just_now(tmp_path: Path) -> None:
    desk = _open(write_file(tmp_path))
    charged = _charge(desk)
    desk.recover()
    assert desk.waiting == {}
    charged.draw()
    desk.recover()
    assert (desk.settle(charged).state, desk.waiting) == ("settled", {})


def test_an_answer_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file(tmp_path)
    first = _open(path)
    _charge(first).draw()
    (file,) = path.with_suffix(".spool").glob("*/*.*")
    answer = file.read_bytes()
    file.unlink()
    file.symlink_to(file)
    first.spool.close()
    desk = _next_desk(path)
    desk.recover()
    assert (_kinds(desk.ledger), desk.waiting) == (["reserve"], {})
    assert len([it for it in caplog.messages if "cannot be read: (OSError)" in it]) == 1
    file.unlink()
    file.write_bytes(answer)
    desk.recover()
    desk.settle_waiting()
    assert _kinds(desk.ledger) == ["reserve", "settle"]


def test_what_was_written_off_is_listed_with_its_reason(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "ask", _no_room)
    with desk.program("ann") as ann, desk.browser("sue") as sue, desk.program("sue") as program:
        assert ann.post(ASK, json=question()).json()["state"] == "written off"
        assert desks_words.LEFT_NO_ANSWER in sue.get("/steward/sales").text
        (listed,) = program.get(API + "stale").json()["written_off"]
    assert (listed["entry"], listed["reason"]) == (2, desks_words.LEFT_NO_ANSWER)


def test_a_steward_can_write_off_an_answer_that_waits(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(LedgerReservation, "settle", fails)
    with desk.program("ann") as ann, desk.program("sue") as sue:
        assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        off = {"entry": 2, "reason": "nobody waits for it"}
        assert sue.post(API + "acts/write-off", json=off).status_code == 200
        _until(lambda: not desk.desk.waiting)
        assert ann.get(API + f"asked/{KEY}").json()["state"] == "written off"
    assert "entry 2 of sales: the ledger has ended it without this answer" in desk.lines
    assert desk.desk.spool.folders[desk.desk.spool.id].names() == []


@pytest.mark.xdist_group("postgres")
def test_an_answer_waits_for_postgresql(
    tmp_path: Path,
    url: str,
    postgres: Any,
    monkeypatch: pytest.MonkeyPatch,
    draws: "Counter[int]",
) -> None:
    """The database lets nobody in for a while."""
    name = url.partition("?")[0].rpartition("/")[2]

    def allow(is_so: bool) -> None:
        postgres.psql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {is_so};")

    with running(write_file(tmp_path, url)) as desk, desk.program("ann") as ann:
        with monkeypatch.context() as patched:
            _after_drawing(patched, lambda: allow(False))
            assert ann.post(ASK, json=question(key=KEY)).json()["state"] == "under way"
        assert ann.post(ASK, json=question()).status_code == 503
        allow(True)
        _require_one_answer(desk, ann, draws)


COUNTING = """
import os
from dpgap.budget.ledger import LedgerReservation
from dpgap.desk import spool
from dpgap.desk.spool import Pending, Slip
ask = spool.ask
def counting(question, answers, account):
    with open({path!r}, "a") as file:
        print(account.entry.number, file=file)
    return ask(question, answers, account)
spool.ask = counting
"""
DYING = """
def then_die(*given, step={where}.{name} if {after} else print):
    step(*given)
    os._exit(9)
{where}.{name} = then_die
"""


def _drawn(folder: Path) -> list[str]:
    file = folder / "draws"
    return file.read_text().split() if file.exists() else []


def _by(person: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token_of(person)}"}


@pytest.mark.long
@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_dies_after_any_step_loses_nothing_and_draws_nothing_twice(
    step: str, kind: str, tmp_path: Path, url: str
) -> None:
    path = write_file(tmp_path, url if kind == "postgresql" else "sqlite:///budget.db")
    where, name, instead, becomes = STEPS[step]
    counting = COUNTING.format(path=str(tmp_path / "draws"))
    dying = DYING.format(where=where.__name__, name=name, after=instead is not _die)
    with process_of(path, counting, dying) as desk, pytest.raises(httpx.HTTPError):
        httpx.post(desk.url + ASK, json=question(key=KEY), headers=_by("ann"), timeout=60)
    with process_of(path, counting) as desk:
        asked = desk.url + API + f"asked/{KEY}"
        _until(lambda: httpx.get(asked, headers=_by("ann")).json()["state"] == becomes)
        _until(lambda: not list(path.with_suffix(".spool").glob("*/*.*")))
    assert _drawn(tmp_path) == ([] if step == "charged" else ["2"])


@pytest.mark.long
@pytest.mark.parametrize("signals", [1, 2])
def test_a_desk_that_is_stopped_before_the_tick_loses_nothing(signals: int, tmp_path: Path) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("tick = 0.02", "tick = 5"))
    counting = COUNTING.format(path=str(tmp_path / "draws"))
    with process_of(path, counting) as desk, ThreadPoolExecutor(1) as elsewhere:
        said = {"json": question(key=KEY), "headers": _by("ann"), "timeout": 60}
        asked = elsewhere.submit(httpx.post, desk.url + ASK, **said)
        _until(lambda: _drawn(tmp_path))
        for _ in range(signals):  # with the second it does not even wait for the tick
            desk.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        desk.process.wait()
        assert asked.exception() is None
    stale = Ledger(f"sqlite:///{tmp_path}/budget.db").steward("sales").stale()
    assert len(stale) == signals - 1
    with process_of(path, counting) as desk:
        asked_for = desk.url + API + f"asked/{KEY}"
        _until(lambda: httpx.get(asked_for, headers=_by("ann")).json()["state"] == "settled")
    assert _drawn(tmp_path) == ["2"]


@pytest.mark.long
def test_a_ledger_that_is_locked_for_a_minute_loses_no_question_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]"
) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("tick = 0.02", "tick = 2"))
    people = ["ann", "bob"] * 4
    with (
        running(path) as desk,
        httpx.Client(base_url=desk.url, timeout=200) as client,
        _lock(tmp_path / "budget.db") as lock,
        ThreadPoolExecutor(20) as threads,
    ):
        asked = [
            threads.submit(
                client.post, ASK, json=question(fresh=True, key=f"key-{at:05}"), headers=_by(who)
            )
            for at, who in enumerate(people)
        ]
        _until(lambda: sum(draws.values()) == len(people))
        lock.execute("BEGIN EXCLUSIVE")
        late = [threads.submit(client.post, ASK, json=question(), headers=_by("ann"))]
        time.sleep(62)
        lock.execute("ROLLBACK")
        answers = [each.result() for each in (*asked, *late)]
        assert {answer.status_code for answer in answers} <= {200, 503}
        ledger = desk.desk.ledger
        _until(lambda: not ledger.steward("sales").stale())
        charged = [entry for entry in ledger.entries("sales") if entry.kind == "reserve"]
        kept = [entry.reservation for entry in ledger.account("sales").archive()]
    assert sorted(kept) == [entry.number for entry in charged]
    assert dict(draws) == dict.fromkeys(kept, 1)
    assert len(kept) >= len(people)


@pytest.mark.long
@pytest.mark.xdist_group("postgres")
def test_a_postgresql_server_that_stops_and_starts_loses_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: "Counter[int]", postgres: Any
) -> None:
    """A server of its own: others would miss it. Questions go on all the time."""
    with postgres_server() as server:
        path = write_file(tmp_path, server.get_uri(), data="epsilon = 1000", shares=ALL)
        with running(path) as desk, ThreadPoolExecutor(4) as threads:
            ends, asks = threading.Event(), Counter[int]()

            def ask(who: str) -> None:
                with desk.program(who) as client:
                    while not ends.is_set():
                        asks[client.post(ASK, json=question(fresh=True)).status_code] += 1

            asking = [threads.submit(ask, who) for who in ("ann", "bob") * 2]
            for _ in range(3):
                before = asks[200]
                _until(lambda before=before: asks[200] > before + 20)
                server.stop()
                time.sleep(2)
                server.start()
            ends.set()
            for each in asking:
                each.result()
            ledger = desk.desk.ledger
            _until(lambda: not desk.desk.waiting)
            unsettled = [
                words for _, words in desk.desk.unsettled(desk.desk.file.datasets["sales"])
            ]
            charged = {entry.number for entry in ledger.entries("sales") if entry.kind == "reserve"}
            kept = {entry.reservation for entry in ledger.account("sales").archive()}
            assert ledger.verify("sales") == []
    print(f"{dict(asks)}, {len(charged)} charges, {len(kept)} archived, {Counter(unsettled)}")
    assert set(unsettled) <= {desks_words.LEFT_NO_ANSWER}
    assert len(charged) == len(kept) + len(unsettled)
    assert set(draws.values()) == {1}
    assert set(draws) == kept


def test_the_spool_touches_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    root = tmp_path / "here"
    (root / "data").mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    (root / "data" / "new.csv").write_text("a table")
    spool = Spool(root)
    assert (root / "data" / "new.csv").read_text() == "a table"
    assert (spool.id != "data", len(list((root / "data").iterdir()))) == (True, 1)


def test_what_is_no_exception_is_no_answer_either(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        pass

    def fails(*_: object) -> None:
        raise Panic("row 17 says it all")

    monkeypatch.setattr(spool, "ask", fails)
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question()).json()["state"] == "written off"
    assert any("drawing it failed (Panic)" in line for line in desk.lines)
    assert not any("row 17" in line for line in desk.lines)


def test_what_was_answered_before_a_ledger_was_put_back_is_not_drawn_again(
    tmp_path: Path, draws: "Counter[int]"
) -> None:
    path = write_file(tmp_path)
    desk = _open(path)
    charged = _charge(desk)
    copy = (tmp_path / "budget.db").read_bytes()
    charged.draw()
    assert desk.settle(charged).state == "settled"
    desk.spool.close()
    (tmp_path / "budget.db").write_bytes(copy)
    after = _next_desk(path)
    assert (_why(after), _kinds(after.ledger)) == ([], ["reserve", "write-off"])
    assert dict(draws) == {2: 1}


@pytest.mark.parametrize("is_running", [True, False])
def test_a_desk_on_a_copy_of_a_spool_writes_off_what_was_charged_before_it_started_alone(
    is_running: bool, tmp_path: Path
) -> None:
    """Of a desk that runs. The copy of one that has ended is as good as a new spool."""
    path = write_file(tmp_path)
    copied = path.with_name("copied.toml")
    copied.write_text(path.read_text())
    desk = _open(path)
    if is_running:
        charged = _charge(desk)
    else:
        desk.spool.close()
    shutil.copytree(path.with_suffix(".spool"), tmp_path / "copied.spool")
    other = _next_desk(copied)
    if is_running:
        assert desk.settle(charged).state == "written off"
    else:
        desk = _next_desk(path)
    charged = _charge(desk, "another-key")
    for later in (other, _next_desk(copied)):
        later.recover()
        later.settle_waiting()
        assert _why(later) == [desks_words.ELSEWHERE]
    charged.draw()
    assert desk.settle(charged).state == "settled"


def test_on_an_older_copy_of_a_spool_nothing_is_drawn_or_settled_again(
    tmp_path: Path, draws: "Counter[int]"
) -> None:
    path = write_file(tmp_path)
    desk = _open(path)
    charged = _charge(desk)
    charged.draw()
    shutil.copytree(path.with_suffix(".spool"), tmp_path / "copy")
    assert desk.settle(charged).state == "settled"
    desk.spool.close()
    shutil.rmtree(path.with_suffix(".spool"))
    (tmp_path / "copy").rename(path.with_suffix(".spool"))
    after = _next_desk(path)
    assert (_kinds(after.ledger), after.waiting) == (["reserve", "settle"], {})
    assert after.spool.folders[after.spool.id].names() == []
    assert dict(draws) == {2: 1}


def test_a_check_says_what_is_wrong_with_the_spool_and_makes_nothing(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    check_desk(read_stewards_file(path))
    assert not path.with_suffix(".spool").exists()
    path.with_suffix(".spool").mkdir(mode=0o755)
    path.with_suffix(".spool").chmod(0o755)
    with pytest.raises(SpoolError, match="must be a directory that only its owner can read"):
        check_desk(read_stewards_file(path))
