"""Desks to test: a steward's file, a real server in a thread or a process, and clients."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from dpgap.desk.app import configured, listening, open_desk, place_of
from dpgap.desk.auth import hash_of_token
from dpgap.desk.config import read_stewards_file
from dpgap.desk.middleware import Limits, Place
from dpgap.desk.queue import Desk

PEOPLE = ("ann", "bob", "eve", "sue")
"""Ann and Bob may ask about sales, Eve about nothing; Sue is the steward."""
KEY = hash_of_token("the key of every desk here").removeprefix("sha256:")
PLANTED = 3177
"""How many have an item that is not public: no response and no log may hold this number."""
PRIVATE = ("secret-item", "who-8675309-")
"""What else none may hold: the item itself, and how units are called."""
HOSTILE = "<script>alert(1)</script>"
ITEMS = ["fig", "pea", "oat", HOSTILE, "=1+1", "rye", "yam"]


_resolve = socket.getaddrinfo


def _resolve_as_browsers_do(host: Any, *rest: Any, **more: Any) -> Any:
    """Every name under localhost is this machine. Not every system says so."""
    is_local = isinstance(host, str) and host.endswith(".localhost")
    return _resolve("127.0.0.1" if is_local else host, *rest, **more)


socket.getaddrinfo = _resolve_as_browsers_do


def token_of(person: str) -> str:
    """A token that everybody here knows."""
    return f"dpgap-token-of-{person}-{'x' * 20}"


def write_table(path: Path, figs: int = 4000) -> Path:
    """Who bought what: figs most, then peas, then a name that is hostile."""
    counts = {
        "fig": figs,
        "pea": 2000,
        HOSTILE: 900,
        "oat": 500,
        "rye": 100,
        "secret-item": PLANTED,
    }
    rows = [
        f'who-8675309-{who},"{what}",{"Bern" if who % 2 else "Genf"},{who % 5}\n'
        for what, count in counts.items()
        for who in range(count)
    ]
    path.write_text("".join(["who,what,city,paid\n", *rows]), encoding="utf-8")
    return path


def write_file(
    folder: Path,
    ledger: str = "sqlite:///budget.db",
    *,
    desk: str = "",
    people: Mapping[str, str] | None = None,
    data: str = "epsilon = 10",
    shares: str = '{ ann = 5, bob = "all" }',
    more: str = "",
    figs: int = 4000,
) -> Path:
    """A steward's file and what it names. People are by name, with more lines for each."""
    write_table(folder / "sales.csv", figs)
    (folder / "items.txt").write_text("\n".join(ITEMS) + "\n", encoding="utf-8")
    everybody = dict.fromkeys(PEOPLE, "") | {"sue": 'role = "steward"'}
    listed = "".join(
        f'[people."{name}"]\ntokens = ["{hash_of_token(token_of(name))}"]\n{lines}\n\n'
        for name, lines in (everybody if people is None else people).items()
    )
    text = f"""[desk]
ledger = "{ledger}"
tick = 0.02
key = "{KEY}"
{desk}

{listed}
[datasets.sales]
title = "Sales & more"
table = "sales.csv"
unit = "who"
people = {shares}
{data}

[[datasets.sales.topics]]
name = "what"
item = "what"
domain = "items.txt"
{more}
"""
    path = folder / "desk.toml"
    path.write_text(text, encoding="utf-8")
    return path


@dataclass
class Running:
    """A desk that is served."""

    desk: Desk
    place: Place
    lines: list[str] = field(default_factory=list)
    """Everything that was logged, by anybody."""
    seen: list[bytes] = field(default_factory=list)
    """Everything that clients were sent."""

    @property
    def port(self) -> int:
        return self.place.port

    @property
    def url(self) -> str:
        """Where its pages are on this machine."""
        return f"http://{self.place.label}.localhost:{self.port}"

    def record(self, app: Any) -> Any:
        """The same application, with everything that it sends noted, whoever asked."""

        async def recording(scope: Any, receive: Any, send: Any) -> None:
            async def note(message: Any) -> None:
                for name, value in message.get("headers", ()):
                    self.seen += [] if b"length" in name else [name + b": " + value]
                self.seen.append(message.get("body", b""))
                await send(message)

            await app(scope, receive, note)

        return recording

    @contextmanager
    def program(self, person: str, **options: Any) -> Iterator[httpx.Client]:
        """A program with a person's token."""
        headers = {"authorization": f"Bearer {token_of(person)}"}
        with self.client(headers=headers, **options) as client:
            yield client

    @contextmanager
    def browser(self, person: str) -> Iterator[httpx.Client]:
        """Somebody with a pass, who sends what a browser sends."""
        with self.client(headers={"origin": self.url}) as client:
            answer = client.post("/enter", data={"token": token_of(person)})
            assert answer.status_code == 303, answer.text
            yield client

    def client(self, **options: Any) -> httpx.Client:
        """Anybody."""
        return httpx.Client(base_url=self.url, timeout=60, **options)


@contextmanager
def running(path: Path, limits: Limits | None = None) -> Iterator[Running]:
    """Serve a desk in a thread of this process. In the end nothing that it said was private."""
    desk = open_desk(read_stewards_file(path))
    with listening("127.0.0.1", 0) as bound:
        place = place_of(desk, "127.0.0.1", bound.getsockname()[1])
        config = configured(desk, place)
        if limits is not None:
            config = configured(desk, replace(place, limits=limits))
        found = Running(desk, place)
        config.app = found.record(config.app)
        server = uvicorn.Server(config)
        with _logged_into(found.lines):
            thread = threading.Thread(target=server.run, args=([bound],))
            thread.start()
            try:
                while not server.started:
                    assert thread.is_alive()
                    time.sleep(0.005)
                yield found
            finally:
                server.should_exit = True
                thread.join()
                desk.spool.close()
    assert_nothing_private("\n".join(found.lines).encode() + b"\n".join(found.seen))


def assert_nothing_private(said: bytes) -> None:
    """Nothing that the desk said holds what only the table knows."""
    for planted in PRIVATE:
        assert planted.encode() not in said
    assert not re.search(rb"(?<![0-9A-Za-z.])3,?177(?![0-9A-Za-z.])", said)


@contextmanager
def _logged_into(lines: list[str]) -> Iterator[None]:
    """Note whatever is logged by anybody, at any level of ours."""

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, log = Noting(), logging.getLogger()
    ours = logging.getLogger("dpgap.desk")
    before = ours.level
    ours.setLevel(logging.DEBUG)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        ours.setLevel(before)


@dataclass
class Process:
    """A desk in a process of its own, which can be killed."""

    process: "subprocess.Popen[str]"
    url: str
    greeting: list[str]
    log: Path

    @property
    def processor_seconds(self) -> float:
        """How long it has used a processor, whatever else the machine does."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """As a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        assert_nothing_private(self.log.read_bytes())


@contextmanager
def process_of(path: Path, *lines_before: str, port: int = 0) -> Iterator[Process]:
    """`dpgap desk FILE`, killed in the end; `lines_before` are run in its process first."""
    process = _start(path, lines_before, port)
    try:
        yield process
    finally:
        process.kill()


def _start(path: Path, lines_before: Sequence[str], port: int) -> Process:
    code = "\n".join([*lines_before, "from dpgap.cli.main import app", "app()"])
    command = [sys.executable, "-W", "ignore", "-c", code, "desk", str(path), "--port", str(port)]
    log = path.with_suffix(".log")
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    greeting: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        greeting.append(line.strip())
        if found := re.search(r"http://[\w.]+:\d+", line):
            return Process(process, found[0], greeting, log)
    raise AssertionError("the desk did not open")


def form_in(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form of a page that leads to `action`."""
    form = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', page, re.DOTALL)
    assert form, action
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0])
    return dict(pairs)


def question(**said: Any) -> dict[str, Any]:
    """A small question, with a key of its own unless one is given."""
    return {"topic": "what", "k": 2, "epsilon": "0.1", "key": os.urandom(8).hex(), **said}
