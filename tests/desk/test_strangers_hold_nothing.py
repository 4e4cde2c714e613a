"""Whoever reaches the port without a token can keep nobody else from asking."""

import json
import resource
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from desks import Running, process_of, question, running, token_of, write_file
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpgap.desk.middleware import Limits

ASK = "/api/v1/datasets/sales/ask"
Wires = Callable[[int], list[socket.socket]]


@contextmanager
def _wires(port: int) -> Iterator[Wires]:
    """Opens connections, and closes all of them in the end."""
    with ExitStack() as closing:

        def opened(count: int) -> list[socket.socket]:
            made = []
            for _ in range(count):
                wire = socket.socket()
                closing.enter_context(wire)
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.settimeout(30)
                wire.connect(("127.0.0.1", port))
                made.append(wire)
            return made

        yield opened


def _get(port: int, place: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {place} HTTP/1.1", f"Host: 127.0.0.1:{port}", *more, "", ""]).encode()


def _post(port: int, token: str, length: int) -> bytes:
    more = f"Authorization: Bearer {token}", f"Content-Length: {length}"
    return _get(port, ASK, *more, "Content-Type: application/json").replace(b"GET", b"POST")


def _body_that_never_comes(port: int) -> bytes:
    return _post(port, "x", 100) + b"{"


def _whole_question(port: int) -> bytes:
    body = json.dumps(question(k=1, epsilon="1/100", fresh=True)).encode()
    return _post(port, token_of("ann"), len(body)) + body


def _is_dropped(wire: socket.socket, *, trickling: bool = False) -> bool:
    """Whether the desk closes a connection in some seconds, also if a byte comes now and then."""
    wire.settimeout(0.02)
    for _ in range(500):
        try:
            if trickling:
                wire.sendall(b"G")
            if not wire.recv(1 << 16):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def _assert_it_is_there(url: str) -> None:
    for place, status in (("/health", 204), ("/static/desk.css", 200), ("/api/v1/datasets", 401)):
        answer = httpx.get(url + place, timeout=30)
        assert answer.status_code == status
        assert answer.elapsed.total_seconds() < 1


def _assert_it_goes_on(url: str) -> None:
    """The desk is there, at once; and a person's question is answered."""
    _assert_it_is_there(url)
    port = int(url.rpartition(":")[2])
    with _wires(port) as opened:
        (asking,) = opened(1)
        asking.sendall(_whole_question(port))
        assert asking.recv(12) == b"HTTP/1.1 200"


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Running]:
    """A desk that takes few connections and drops none of them for being slow."""
    with running(write_file(tmp_path), Limits(connections=20, under_way=3)) as found:
        yield found


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Running]:
    """A desk that waits for nobody."""
    with running(write_file(tmp_path), Limits(seconds=0.4, unread=0.4, under_way=3)) as found:
        yield found


def test_of_too_many_connections_those_that_are_silent_longest_are_dropped(
    patient: Running,
) -> None:
    with _wires(patient.port) as opened:
        silent = opened(50)
        _assert_it_goes_on(patient.url)
        assert all(map(_is_dropped, silent[:30]))
        silent[-1].sendall(_get(patient.port, "/health"))
        assert silent[-1].recv(12) == b"HTTP/1.1 204"


def test_whoever_is_being_answered_is_not_dropped(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("tick = 0.02", "tick = 0.3"))
    with running(path, Limits(connections=4)) as desk, _wires(desk.port) as opened:
        (asking,) = opened(1)
        asking.sendall(_whole_question(desk.port))
        while len(desk.desk.ledger.entries("sales")) == 2:
            time.sleep(0.005)
        opened(20)
        assert asking.recv(12) == b"HTTP/1.1 200"


def test_headers_that_do_not_end_have_a_deadline_also_on_a_used_connection(
    hasty: Running,
) -> None:
    """Each byte comes in time, and all of them do not."""
    with _wires(hasty.port) as opened:
        fresh, used = opened(2)
        used.sendall(_get(hasty.port, "/health"))
        assert used.recv(12) == b"HTTP/1.1 204"
        assert all(_is_dropped(wire, trickling=True) for wire in (fresh, used))


def test_requests_that_are_still_arriving_are_not_under_way(patient: Running) -> None:
    with _wires(patient.port) as opened:
        for wire in opened(10):
            wire.sendall(_body_that_never_comes(patient.port))
        _assert_it_goes_on(patient.url)


def test_responses_that_are_not_read_are_not_under_way_and_have_a_deadline(
    hasty: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = H11Protocol.connection_made

    def narrow(self: H11Protocol, transport: Any) -> None:
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", narrow)
    with _wires(hasty.port) as opened:
        deaf = opened(5)
        for wire in deaf:
            wire.sendall(3 * _get(hasty.port, "/static/page.css"))
        _assert_it_goes_on(hasty.url)
        time.sleep(0.5)
        for wire in deaf:
            received = b""
            with suppress(ConnectionResetError):
                while more := wire.recv(1 << 16):
                    received += more
            assert received.count(b"HTTP/1.1 200") < 3


@contextmanager
def _locked(ledger: Path) -> Iterator[None]:
    """Nobody else can read or write the ledger."""
    book = sqlite3.connect(ledger, isolation_level=None)
    try:
        book.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        book.close()


MANY = [f"person-{number}" for number in range(15)]


def _file_of_many(folder: Path) -> Path:
    names = ["ann", *MANY]
    shares = "{ " + ", ".join(f'{name} = "all"' for name in names) + " }"
    return write_file(folder, people=dict.fromkeys(names, ""), shares=shares)


def _pages_on_a_locked_ledger(url: str, ledger: Path) -> None:
    """Three pages for each of 15 people wait, and a question; nothing else does."""
    port = int(url.rpartition(":")[2])
    with _wires(port) as opened:
        with _locked(ledger):
            (asking, *pages) = opened(1 + 3 * len(MANY))
            for wire, person in zip(pages, 3 * MANY, strict=True):
                bearer = f"Authorization: Bearer {token_of(person)}"
                wire.sendall(_get(port, "/api/v1/datasets", bearer))
            asking.sendall(_whole_question(port))
            for _ in range(3):
                _assert_it_is_there(url)
        for wire in (asking, *pages):
            assert wire.recv(12) == b"HTTP/1.1 200"


def test_pages_that_wait_for_the_ledger_hold_nothing_else(tmp_path: Path) -> None:
    with running(_file_of_many(tmp_path)) as desk:
        _pages_on_a_locked_ledger(desk.url, tmp_path / "budget.db")


def test_small_responses_do_not_wait_for_acknowledgements(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Nagle's algorithm a response of two writes takes 40 ms."""
    made, options = H11Protocol.connection_made, []

    def noting(self: H11Protocol, transport: Any) -> None:
        wire = transport.get_extra_info("socket")
        options.append(wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", noting)
    httpx.get(f"{desk.url}/health")
    assert options == [1]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Enough for a test that is more than one thousand clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
@pytest.mark.usefixtures("many_descriptors")
def test_a_desk_with_1024_descriptors_withstands_all_of_it(tmp_path: Path) -> None:
    """1,200 silent connections, 401 bodies, 400 unread responses, 45 pages on a locked ledger."""
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))"
    narrow = """
import socket
from dpgap.desk import app
listening = app.listening
def narrow(host, port):
    found = listening(host, port)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return found
app.listening = narrow
"""
    path = _file_of_many(tmp_path)
    with process_of(path, few, narrow) as desk:
        port = int(desk.url.rpartition(":")[2])
        with _wires(port) as opened:
            silent = opened(1200)
            _assert_it_goes_on(desk.url)
            assert all(map(_is_dropped, silent[:600]))
        with _wires(port) as opened:
            for wire in opened(401):
                wire.sendall(_body_that_never_comes(port))
            _assert_it_goes_on(desk.url)
        with _wires(port) as opened:
            for wire in opened(400):
                wire.sendall(3 * _get(port, "/static/page.css"))
            time.sleep(2)  # what was sent is work for a processor, and then holds nothing
            _assert_it_goes_on(desk.url)
        with _wires(port) as opened:
            opened(500)
            _pages_on_a_locked_ledger(desk.url, tmp_path / "budget.db")
            _assert_it_goes_on(desk.url)
    assert "rror" not in desk.log.read_text()
