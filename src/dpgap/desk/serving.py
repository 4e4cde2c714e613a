"""Serving the desk: where it listens, what it prints, and what makes it count again.

Whoever can reach the port can open connections. Each takes a descriptor (an open file), so there
are fewer connections than descriptors, and no client is waited for without a deadline: neither for
its headers and its body, nor for reading a response.
"""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpgap.desk.app import application
from dpgap.desk.desk import Desk
from dpgap.desk.guard import Limits, Place, log
from dpgap.desk.refusals import Refused
from dpgap.desk.stewards_file import StewardsFile

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_KEEP_ALIVE = 15
_QUEUE = 512


class Connection(H11Protocol):
    """A connection with deadlines: its client is dropped if it keeps the desk waiting.

    Uvicorn closes connections that are idle after a response. Here are deadlines for headers and
    for unread responses; that for a body is the guard's, who refuses it in words.
    """

    def __init__(
        self, limits: Limits, waiting: "dict[Connection, None]", *given: Any, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._waiting = waiting
        """All connections whose clients have to do something next, the longest first."""
        self._awaited = ""
        self._deadline = self.loop.call_later(0, lambda: None)  # none yet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Where there are too many, drop the one that waits longest for its client."""
        transport.set_write_buffer_limits(high=0)  # any byte that is not taken pauses writing
        super().connection_made(transport)
        self._update()
        if len(self.connections) > self._limits.connections:
            oldest = next(iter(self._waiting))  # this one, if all others are being answered
            del self._waiting[oldest]
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._waiting.pop(self, None)
        self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        """The response is written, or waits to be."""
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """The client does not read as fast as the desk writes."""
        super().pause_writing()
        self._update()

    def resume_writing(self) -> None:
        """The client has read all of it."""
        super().resume_writing()
        self._update()

    def _update(self) -> None:
        """Note what the client has to do next, if anything, and by when."""
        state, seconds = self.conn.their_state, None
        if self.flow.write_paused:
            awaited, seconds = "to read", self._limits.unread
        elif state is h11.IDLE and self.timeout_keep_alive_task is None:
            awaited, seconds = "headers", self._limits.seconds
        else:
            awaited = "more" if state in (h11.IDLE, h11.SEND_BODY) else ""
        if awaited:
            self._waiting.setdefault(self)
        else:
            self._waiting.pop(self, None)
        if awaited != self._awaited:
            self._awaited = awaited
            self._deadline.cancel()
            if seconds is not None:
                self._deadline = self.loop.call_later(seconds, self.transport.abort)


def require_hosts(file: StewardsFile, host: str) -> None:
    """Refuse to listen where others reach the desk, unless the file says how they call it."""
    if host not in LOOPBACK and not file.hosts:
        raise ValueError(
            f"host must be one of {', '.join(LOOPBACK)}: others can reach {host}, and the "
            "steward's file has no hosts, the names that people call the desk by"
        )


def place_of(desk: Desk, host: str, port: int) -> Place:
    """Where the desk is to be reached, if it may be reached from there."""
    require_hosts(desk.file, host)
    hosts = desk.file.hosts
    label = desk.door.passes.label()
    return Place(port, hosts, desk.file.https and bool(hosts), label=label)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is stated: else responses wait 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(_QUEUE)  # from here on whoever comes waits, and is not refused
    except OSError as error:
        found.close()
        words = f"port {port} of {host} is taken, or not ours to take"
        raise OSError(error.errno, words) from None
    return found


def listening_locally(host: str, port: int) -> list[socket.socket]:
    """Sockets on both loopback addresses: for a local name browsers try both, ::1 first.

    So nobody else can wait at the other one for what a browser sends.
    """
    bound = [listening(host, port)]
    try:
        other = "127.0.0.1" if host == "::1" else "::1"
        bound.append(listening(other, bound[0].getsockname()[1]))
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # there is no IPv6
            bound[0].close()
            raise
    return bound


def serve(
    desk: Desk, host: str, port: int, say: Callable[[str], None], hangup: asyncio.Event
) -> None:
    """Serve until somebody stops it; `say` prints where the desk is."""
    is_local = host in LOOPBACK and not desk.file.hosts
    bound = listening_locally(host, port) if is_local else [listening(host, port)]
    with ExitStack() as opened:
        for each in bound:
            opened.enter_context(each)
        place = place_of(desk, host, bound[0].getsockname()[1])
        for line in greeting(desk, place, host):
            say(line)
        server = uvicorn.Server(configured(desk, place))
        asyncio.run(_run(server, desk, bound, hangup))


def configured(desk: Desk, place: Place) -> uvicorn.Config:
    """Uvicorn, silent but for errors: its own log would have queries in it."""
    return uvicorn.Config(
        application(desk, place),
        access_log=False,
        log_config=None,
        log_level=logging.ERROR,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_KEEP_ALIVE,
        backlog=max(64, min(_QUEUE, place.limits.connections // 2)),  # all accepted in one go
        h11_max_incomplete_event_size=16 * 1024,
        http=cast("type[asyncio.Protocol]", partial(Connection, place.limits, {})),
        ws="none",
        lifespan="on",
    )


def greeting(desk: Desk, place: Place, host: str) -> list[str]:
    """What the desk prints when it starts."""
    scheme = "https" if place.https else "http"
    pages = [f"{scheme}://{name}/" for name in place.page_names]
    shown = f"[{host}]" if ":" in host else host
    programs = f"http://{shown}:{place.port}/api/v1"
    if desk.door.link is None:
        lines = [f"The desk is open: {each}" for each in pages]
        return lines if place.hosts else [*lines, f"Programs on this machine call {programs}"]
    return [
        "The desk is open. This link lets one browser in, once:",
        f"  {pages[0]}enter?link={desk.door.link}",
        f"Stewards' forms, and programs at {programs}, send this token until the desk stops:",
        f"  {desk.door.local_token}",
    ]


def note_hangups() -> asyncio.Event:
    """What SIGHUP sets from now on. By itself it would end a desk that counts before it is open."""
    hangup = asyncio.Event()
    signal.signal(signal.SIGHUP, lambda *_: hangup.set())
    return hangup


async def _run(
    server: uvicorn.Server, desk: Desk, bound: list[socket.socket], hangup: asyncio.Event
) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    counting = asyncio.create_task(count_when_hung_up(desk, hangup))
    await server.serve(sockets=bound)
    counting.cancel()


async def count_when_hung_up(desk: Desk, hangup: asyncio.Event) -> None:
    """Count once for any number of signals that came during the count before."""
    while await hangup.wait():
        hangup.clear()
        await asyncio.to_thread(refresh_all, desk)


def refresh_all(desk: Desk) -> None:
    for data in desk.file.datasets.values():
        try:
            desk.shelf.refresh(data)
        except Refused as refused:
            log.error("%s", refused.words)
        except Exception as error:
            log.error("%s was not counted again: %s", data.name, type(error).__name__)
        else:
            log.info("%s was counted again", data.name)
