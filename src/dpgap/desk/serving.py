"""Serving the desk: where it listens, what it prints, and what makes it count again."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack

import uvicorn

from dpgap.desk.app import application
from dpgap.desk.desk import Desk
from dpgap.desk.guard import Place, log
from dpgap.desk.stewards_file import StewardsFile

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_KEEP_ALIVE = 15
_QUEUE = 512


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
    found = socket.socket(family)
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


def serve(desk: Desk, host: str, port: int, say: Callable[[str], None]) -> None:
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
        asyncio.run(_run(server, desk, bound))


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
        backlog=_QUEUE,
        h11_max_incomplete_event_size=16 * 1024,
        http="h11",
        ws="none",
        lifespan="off",
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


async def _run(server: uvicorn.Server, desk: Desk, bound: list[socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, _refresh, desk))
    await server.serve(sockets=bound)


def _refresh(desk: Desk) -> None:
    for data in desk.file.datasets.values():
        try:
            desk.shelf.refresh(data)
        except Exception as error:
            log.error("%s could not be counted again: %s", data.name, type(error).__name__)
        else:
            log.info("%s was counted again", data.name)
