"""Serving the desk: where it listens, what it prints, and what makes it count again."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable

import uvicorn

from dpgap.desk.app import application
from dpgap.desk.desk import Desk
from dpgap.desk.guard import Place, log

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_KEEP_ALIVE = 15
_QUEUE = 512


def place_of(desk: Desk, host: str, port: int) -> Place:
    """Where the desk is to be reached, if it may be reached from there."""
    file = desk.file
    needed = {
        "people with tokens": file.has_tokens,
        "hosts, the names that people call it by": file.hosts,
        "a key, so that passes outlive a restart": file.key,
    }
    missing = [words for words, is_there in needed.items() if not is_there]
    if missing and (host not in LOOPBACK or file.hosts):
        raise ValueError(
            f"{host} can be reached by others, or hosts says so: the steward's file must then "
            f"also have {'; '.join(missing)}"
        )
    return Place(port, file.hosts, file.https and bool(file.hosts))


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(_QUEUE)  # from here on whoever comes waits, and is not refused
    except OSError:
        found.close()
        raise OSError(f"port {port} of {host} is taken, or not ours to take") from None
    return found


def serve(desk: Desk, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until somebody stops it; `say` prints where the desk is."""
    with listening(host, port) as bound:
        place = place_of(desk, host, bound.getsockname()[1])
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
        lifespan="on",
    )


def greeting(desk: Desk, place: Place, host: str) -> list[str]:
    """What the desk prints when it starts."""
    if desk.door.link is None:
        names = place.hosts or (f"{host}:{place.port}",)
        scheme = "https" if place.https else "http"
        return [f"The desk is open: {scheme}://{name}/" for name in names]
    shown = f"[{host}]" if ":" in host else host
    return [
        "The desk is open. This link lets one browser in, once:",
        f"  http://{shown}:{place.port}/enter?link={desk.door.link}",
        "Programs on this machine send this token, until the desk stops:",
        f"  {desk.door.local_token}",
    ]


async def _run(server: uvicorn.Server, desk: Desk, bound: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, _refresh, desk))
    await server.serve(sockets=[bound])


def _refresh(desk: Desk) -> None:
    for data in desk.file.datasets.values():
        try:
            desk.shelf.refresh(data)
        except Exception as error:
            log.error("%s could not be counted again: %s", data.name, type(error).__name__)
        else:
            log.info("%s was counted again", data.name)
