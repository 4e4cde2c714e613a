"""What stands in front of everything: whose name was called, from where, how much, how long.

A request is looked at before anything else sees it. Its Host must be one of ours (or another name
could be pointed at this machine), a change must come from our own pages (Origin), and its body must
be short and come soon. Every response gets the same strict headers. Whatever fails inside becomes
our own words, and the log gets the kind of the error, never its text.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

log = logging.getLogger("dpgap.desk")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would not say their Origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

WORDS = {
    400: "This request cannot be read.",
    403: "This comes from another site, and is refused.",
    405: "Only GET and POST are known here.",
    408: "The request took too long to arrive.",
    413: "The request is too long.",
    414: "The address is too long.",
    431: "The headers are too long.",
    421: "This desk does not answer to that name.",
    500: "Something went wrong inside the desk. Nothing more is shown of it.",
    503: "Too much is under way. Try again in a moment.",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the desk takes on."""

    body: int = 16 * 1024
    """Bytes of a request's body, and of its headers."""
    address: int = 4096
    """Bytes of a path and a query."""
    seconds: float = 10
    """For a body to arrive."""
    under_way: int = 400
    """Requests at one time."""


class Guard:
    """An application around another one."""

    def __init__(
        self, app: App, hosts: frozenset[str], origins: frozenset[str], limits: Limits
    ) -> None:
        self._app, self._hosts, self._origins, self._limits = app, hosts, origins, limits
        self._under_way = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        self._under_way += 1
        answer = _Answer(scope, send)
        try:
            status = self._refusal(scope)
            body = b"" if status else await self._body(scope, receive)
            if status or body is None or isinstance(body, int):
                await answer.refuse(status or (body if isinstance(body, int) else 400))
            else:
                await self._app(scope, _replay(body, receive), answer.send)
        except Exception as error:
            if await answer.refuse(500):
                note_error(error)
        finally:
            self._under_way -= 1

    def _refusal(self, scope: Message) -> int | None:
        """Why a request is refused before its body is looked at."""
        if self._under_way > self._limits.under_way:
            return 503
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return 421
        if len(scope["raw_path"]) + len(scope["query_string"]) > self._limits.address:
            return 414
        if sum(len(name) + len(value) for name, value in headers) > self._limits.body:
            return 431
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405
        return 403 if scope["method"] == "POST" and not self._is_ours(headers) else None

    def _is_ours(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether a change comes from our pages, or from a program that says who it is."""
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if origins:
            return len(origins) == 1 and origins[0].lower() in self._origins
        names = {name for name, _ in headers}
        return b"authorization" in names and b"cookie" not in names

    async def _body(self, scope: Message, receive: Receive) -> bytes | int | None:
        """The whole body; or the status that refuses it; None if whoever sent it has gone."""
        stated = [value for name, value in scope["headers"] if name == b"content-length"]
        if stated and (not stated[0].isdigit() or int(stated[0][:12]) > self._limits.body):
            return 413
        try:
            return await asyncio.wait_for(self._read(receive), self._limits.seconds)
        except TimeoutError:
            return 408

    async def _read(self, receive: Receive) -> bytes | int | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._limits.body:
                return 413
            if not message.get("more_body"):
                return bytes(body)


def note_error(error: Exception) -> None:
    """Log the kind of an error that nobody foresaw. Its words may quote data."""
    log.error("an error inside: %s", type(error).__name__)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then whatever comes: that somebody has gone."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


class _Answer:
    """Adds our headers to a response, and notes that there was one."""

    def __init__(self, scope: Message, send: Send) -> None:
        self._scope, self._send, self._status = scope, send, 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            own = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [
                *message["headers"],
                *((name, value) for name, value in more if name not in own),
            ]
            route = getattr(self._scope.get("route"), "path", "nothing")
            log.info("%s %s %d", self._scope["method"], route, self._status)
        await self._send(message)

    async def refuse(self, status: int) -> bool:
        """Say that it is refused, unless a response has begun; whether it was said."""
        if self._status:
            return False
        words = WORDS[status]
        content = json.dumps({"error": words}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(content)).encode()))
        headers += [(b"retry-after", b"2")] if status == 503 else []
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})
        return True
