"""Checks Host, Origin, size and arrival time of every request (ASGI middleware).

Every request is checked before the application gets it. Its Host must be one of the desk's names
(against DNS rebinding), a change must come from the desk's own pages (Origin), and its body must be
short and arrive in time. Every response gets the same strict headers. An error inside becomes a
response in our own words; the log gets the kind of the error. Only the ledger's errors are logged
in words, because these are dpgap's own.

>>> with in_our_words():  # doctest: +ELLIPSIS
...     raise LedgerError("sqlite:///secret.db is full")
Traceback (most recent call last):
dpgap.desk.middleware.Refused: The ledger cannot be reached or written just now: ...
"""

import asyncio
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpgap.budget.account import BudgetExhausted, KeyUsed, QuotaExhausted, RefusedRequest
from dpgap.budget.entries import LedgerError, WrongClock
from dpgap.budget.store import BUSY_SECONDS
from dpgap.desk.heads import PutBack
from dpgap.printable import printable

# --------------------------------------------------------------------------------------------------
# Error responses: a status and our own words, for every error inside.


class Refused(Exception):  # noqa: N818 - it says what happened
    """An error response: a status and words for the client."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


ENTER = 401, "Enter first: with the link that the desk printed, or with your token."
NOT_THERE = 404, "There is nothing here under this name."

_LEDGER = "The ledger cannot be reached or written just now: nothing is released."
BUSY = f"The ledger was busy for {BUSY_SECONDS} seconds. Try again later: paid answers are kept."
_PUT_BACK = (
    "The ledger lacks charges that this desk has seen: an older copy is in its place. Nothing is "
    "charged until your steward has looked."
)
_KEY_USED = "This request key was used for another question: send a new key. Nothing was charged."
_OTHER_TABLE = (
    "The budget is for another table, unit or columns than the desk has counted: tell your "
    "steward. Nothing was charged."
)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Turn expected errors of the library into `Refused`, in words that a client may read.

    Use this only around code that checks or answers a question, or changes a budget: there a
    `ValueError` is dpgap's own. Elsewhere an error is unexpected, and its text is not shown.
    """
    try:
        yield
    except Exception as error:
        refused = refusal_of(error)
        if refused is None:
            raise
        raise refused from None


def refusal_of(error: Exception) -> Refused | None:
    """The response to an error that is expected; None for any other."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BudgetExhausted):
        status = 409
        if isinstance(error, QuotaExhausted):
            status = 429
        return Refused(status, printable(str(error)))
    if isinstance(error, KeyUsed):
        return Refused(409, _KEY_USED)
    if isinstance(error, RefusedRequest):
        return Refused(409, _OTHER_TABLE)
    if isinstance(error, WrongClock):
        log.error("%s", printable(str(error)))
        return Refused(503, printable(str(error)))
    if isinstance(error, PutBack):
        log.error("the ledger lacks entries that this desk has seen")
        return Refused(503, _PUT_BACK)
    if isinstance(error, LedgerError):
        note_error(error)
        if "is busy with" in str(error):
            return Refused(503, BUSY)
        return Refused(503, _LEDGER)
    if isinstance(error, ValueError | TypeError):
        return Refused(422, printable(str(error)))
    return None


# --------------------------------------------------------------------------------------------------


log = logging.getLogger("dpgap.desk")

_FOR_PROGRAMS = ("/api/", "/health", "/static/")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would not send their Origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
HSTS = {"strict-transport-security": "max-age=31536000"}
"""A header that is sent only behind TLS: for a year, browsers use this name only with TLS."""

WORDS = {
    400: "This request cannot be read. GET has no body, and a body states its length once.",
    403: "This comes from another site, and is refused.",
    405: "Only GET and POST are known here.",
    408: "The request took too long to arrive.",
    413: "The request is too long.",
    414: "The address is too long.",
    431: "The headers are too long.",
    421: "The desk does not answer to this name. Open the address that it printed at its start.",
    500: "Something went wrong inside the desk. Details are not shown.",
    503: "Too much is under way. Try again in a moment.",
}


def _half_of_the_descriptors() -> int:
    """Half of the open files that the process may have (`ulimit -n`); the rest has other uses."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return 2000
    return min(2000, descriptors // 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests, responses and connections."""

    body: int = 16 * 1024
    """Bytes of a request's body, and of its headers."""
    address: int = 4096
    """Bytes of a path and a query."""
    seconds: float = 10
    """For headers to arrive, and then for a body."""
    unread: float = 30
    """Seconds for a client to read a response."""
    under_way: int = 400
    """Requests at one time that arrived whole and have no response yet."""
    connections: int = field(default_factory=_half_of_the_descriptors)
    """Connections at one time. Beyond this, the desk drops the one that it waited for longest."""


@dataclass(frozen=True)
class Place:
    """The names and addresses of the desk."""

    port: int
    hosts: tuple[str, ...] = ()
    """The host names for other machines; none: only this machine reaches the desk."""
    https: bool = False
    limits: Limits = field(default_factory=Limits)
    label: str = "desk"
    """The part before ".localhost" in the name of a desk that only this machine reaches."""

    @property
    def page_names(self) -> tuple[str, ...]:
        """The host names of pages, and so of cookies.

        A browser sends a cookie of 127.0.0.1 to every port there, so to every program that listens.
        So pages have a host name that other programs cannot guess.
        """
        return self.hosts or (f"{self.label}.localhost:{self.port}",)

    @cached_property
    def origins(self) -> frozenset[str]:
        """The accepted values of Origin."""
        return frozenset(map(self.origin_of, self.page_names))

    def origins_for(self, path: str) -> frozenset[str]:
        """The accepted values of Host, as origins. For programs, any name of this machine."""
        if self.hosts or not path.startswith(_FOR_PROGRAMS):
            return self.origins
        local = (f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))
        return self.origins | frozenset(map(self.origin_of, local))

    def origin_of(self, host: str) -> str:
        """The origin of a Host, which may name the default port: `desk.test:443` behind TLS."""
        if self.https:
            return f"https://{host.lower().removesuffix(':443')}"
        return f"http://{host.lower().removesuffix(':80')}"


class Guard:
    """The middleware: an ASGI application around another one."""

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self._app = app
        self._place = place
        self._limits = place.limits
        self._headers = dict(HEADERS)
        if place.https:
            self._headers |= HSTS
        self._under_way: set[Send] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # as GET; the server sends no body
            scope = {**scope, "method": "GET"}
        has_begun = False

        async def answer(message: Message) -> None:
            """Add our headers to a response, and note that it has started."""
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                self._under_way.discard(answer)  # a client that does not read it must not count
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if message["status"] == 503:
                    headers.setdefault("retry-after", "2")
                route = getattr(scope.get("route"), "path", "nothing")
                log.info("%s %s %d", scope["method"], route, message["status"])
            await send(message)

        async def refuse(status: int) -> None:
            response = JSONResponse({"error": WORDS[status]}, status, {"connection": "close"})
            await response(scope, receive, answer)

        async def replay() -> Message:
            """Return the body once, and then what the server sends (a disconnect)."""
            if waiting:
                return waiting.pop()
            return await receive()

        try:
            body = await self._body(scope, receive)
            if isinstance(body, int):
                await refuse(body)
            elif len(self._under_way) >= self._limits.under_way:
                await refuse(503)
            else:
                self._under_way.add(answer)
                waiting = [{"type": "http.request", "body": body, "more_body": False}]
                await self._app(scope, replay, answer)
        except Exception as error:
            if not has_begun:
                await refuse(500)
                note_error(error)
        finally:
            self._under_way.discard(answer)

    def _refusal(self, scope: Scope) -> int | None:
        """The status that refuses a request before its body is read; None if it is accepted."""
        limits = self._limits
        headers = Headers(scope=scope)
        origins = [self._place.origin_of(name) for name in headers.getlist("host")]
        ours = self._place.origins_for(scope["path"])
        length = headers.get("content-length", "0")
        is_chunked = "transfer-encoding" in headers
        has_body = is_chunked or length != "0"
        is_post = scope["method"] == "POST"
        refused = {
            421: [origin in ours for origin in origins] != [True],
            414: len(scope["raw_path"]) + len(scope["query_string"]) > limits.address,
            431: sum(len(name + value) for name, value in headers.raw) > limits.body,
            405: scope["method"] not in ("GET", "POST"),
            403: is_post and not self._is_ours(headers),
            413: not (length.isascii() and length.isdigit()) or int(length[:12]) > limits.body,
            # With two lengths, a proxy in front might use the other one (request smuggling).
            400: (is_chunked and "content-length" in headers) or (has_body and not is_post),
        }
        return next((status for status, is_so in refused.items() if is_so), None)

    def _is_ours(self, headers: Headers) -> bool:
        """Whether a change comes from our pages, or from a program with a token."""
        if origins := headers.getlist("origin"):
            return [name.lower() in self._place.origins for name in origins] == [True]
        return "authorization" in headers and "cookie" not in headers

    async def _body(self, scope: Scope, receive: Receive) -> bytes | int:
        """The whole body of a request; or the status that refuses it."""
        if status := self._refusal(scope):
            return status
        body = b""
        is_more = True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while is_more and len(body) <= self._limits.body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return 400
                    body += message.get("body", b"")
                    is_more = message.get("more_body", False)
        except TimeoutError:
            return 408
        if len(body) > self._limits.body:
            return 413
        return body


def note_error(error: Exception) -> None:
    """Log why the ledger failed. Of other errors only the kind is logged: they may quote data."""
    if isinstance(error, LedgerError) and error.cause:
        log.error("the ledger %s", printable(error.cause))
        return
    log.error("an error inside: %s", type(error).__name__)
