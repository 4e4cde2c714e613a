"""The application: it opens budgets, joins the routes, answers errors, and serves connections."""

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import h11
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpgap._package import __version__
from dpgap.budget.cost import Limit
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import Ledger
from dpgap.budget.requests import refuse_contradiction, refuse_look_alike, stated_facts, stating
from dpgap.budget.store import Store
from dpgap.desk import api, pages
from dpgap.desk.auth import Auth
from dpgap.desk.config import Allowance, FileFaults, ListedData, StewardsFile
from dpgap.desk.counts import TopicCounts
from dpgap.desk.heads import Heads, PutBack, lost_ledger
from dpgap.desk.middleware import (
    NOT_THERE,
    WORDS,
    Guard,
    Limits,
    Place,
    Refused,
    note_error,
    refusal_of,
)
from dpgap.desk.pages import browser_visitor, few_at_once, shown
from dpgap.desk.queue import Asking, Desk
from dpgap.desk.spool import Spool, require_spool

# --------------------------------------------------------------------------------------------------
# Budgets and allowances that the steward's file states, and that the ledger does not have yet.
#
# The ledger decides: a steward's action changes it, never the file. So the file must not contradict
# the ledger, and nothing is written before the whole file has been checked.


_REASON = "stated in the steward's file"

Facts = dict[str, Any]
Missing = dict[str, tuple[ListedData, Facts]]
"""Budgets that must be opened, by name, and the table, unit and columns that each is for."""


def missing_budgets(file: StewardsFile, ledger: Ledger, counts: TopicCounts) -> Missing:
    """The budgets that a start opens; `FileFaults` if one cannot be, or is for another table."""
    facts_of_budgets = {name: ledger.account(name).facts for name in _budgets(file, ledger)}
    missing: Missing = {}
    faults = []
    for data in sorted(file.datasets.values(), key=lambda data: data.beside is not None):
        facts = _facts(data, counts)
        try:
            if data.budget not in facts_of_budgets:
                _require_new(data, facts, facts_of_budgets)
                missing[data.budget] = data, facts
                facts_of_budgets[data.budget] = stated_facts(**facts)
            refuse_contradiction(data.budget, facts_of_budgets[data.budget], facts)
        except ValueError as error:
            faults.append((data.line, f"datasets.{data.name}: {error}"))
    if faults:
        raise FileFaults(file.path, faults)
    return missing


def require_later_books(file: StewardsFile, heads: Heads) -> None:
    """Refuse a ledger that lacks entries which the spool has seen; one that is not there, too."""
    store = Store(file.ledger)
    for budget in sorted({data.budget for data in file.datasets.values()}):
        newest = heads.newest(budget)
        if newest is None:
            continue
        if not store.is_there():
            raise PutBack(lost_ledger(store.where, budget, newest))
        with store.reading() as rows:
            heads.require_later(rows, budget, newest)


def open_budgets(file: StewardsFile, ledger: Ledger, missing: Missing) -> None:
    """Open each budget that is missing, and give each person an allowance that has none yet."""
    for name, (data, facts) in missing.items():
        try:
            ledger.create(
                name,
                data.epsilon or 0,
                delta=data.delta,
                table=facts["table"],
                unit=facts["unit"],
                neighbours=facts["neighbours"],
                columns=facts["columns"],
                beside=data.beside,
                reason=_REASON,
            )
        except ValueError:
            if name not in ledger.datasets():  # another desk may have been quicker
                raise
    for data in file.datasets.values():
        steward = ledger.steward(data.budget)
        allowances = _allowances(ledger, data)
        for person, share in data.people.items():
            if share is not None and allowances.get(person) is None:
                steward.allow(person, share.epsilon, delta=share.delta, reason=_REASON)


def other_amounts(file: StewardsFile) -> list[str]:
    """Notes about amounts that differ in the ledger and the file, or are more than the total."""
    ledger = Ledger(file.ledger)
    notes = []

    def compare(data: ListedData, whom: str, listed: Limit | None, limit: Limit, act: str) -> None:
        if listed != limit:
            amount = '"all"'
            if listed:
                amount = str(listed)
            notes.append(
                f"datasets.{data.name} gives {whom} {amount}, but the ledger gives {limit}. "
                f"The ledger decides. Change it with `dpgap ledger {act} --dataset {data.budget} "
                "--epsilon …`, or change the file"
            )

    for data in file.datasets.values():
        total = None
        if data.epsilon is not None:
            total = Limit("epsilon", data.epsilon)
        allowed: dict[str, Limit | None] = {}
        if data.budget in _budgets(file, ledger):
            last = ledger.account(data.budget).balance
            allowed = _allowances(ledger, data)
            total = last.granted
            if data.epsilon and not last.period:  # a renewal changes the total
                listed_total = Limit("epsilon", data.epsilon, data.delta).down()
                act = "raise` or `dpgap ledger lower"
                compare(data, "a total of", listed_total, last.granted, act)
        for person, share in data.people.items():
            allowance = allowed.get(person)
            if allowance:  # else a start writes what the file says
                listed = None if share is None else _limit_of(share, allowance.delta)
                compare(data, repr(person), listed, allowance, f"allow --person {person}")
            if allowance is None and share is not None:
                allowance = Limit("epsilon", share.epsilon)
            if total is not None and allowance is not None and allowance.has_more_than(total):
                amount = Limit(allowance.currency, allowance.amount)
                notes.append(
                    f"{person!r} may spend {amount} of {data.budget!r}, more than its total, "
                    f"{Limit(total.currency, total.amount)}"
                )
    return notes


def _limit_of(share: Allowance, delta: Fraction) -> Limit:
    """What the file allows a person, as a ledger has it; this δ counts where it states none."""
    if share.delta is not None:
        delta = share.delta
    return Limit("epsilon", share.epsilon, delta).down()


def _budgets(file: StewardsFile, ledger: Ledger) -> list[str]:
    """The names of all budgets; none if there is no ledger yet."""
    if not Store(file.ledger).is_there():
        return []
    return ledger.datasets()


def _allowances(ledger: Ledger, data: ListedData) -> dict[str, Limit | None]:
    """The allowances of all people in the ledger."""
    return {entry.person: entry.allowance for entry in ledger.people(data.budget)}


def _facts(data: ListedData, counts: TopicCounts) -> Facts:
    """The facts of the table that was counted; a budget is bound to them."""
    origin = counts.slot(data, next(iter(data.topics.values()))).facts.origin
    assert origin is not None  # it was counted from a table
    return {
        "table": origin.address,
        "columns": origin.columns or None,
        "unit": data.unit,
        "neighbours": data.neighbours,
    }


def _require_new(data: ListedData, facts: Facts, others: Mapping[str, Facts | None]) -> None:
    """Refuse a budget that `Ledger.create` would refuse."""
    if data.epsilon is None:
        raise ValueError("has no budget in the ledger: state its epsilon")
    Limit.granted(data.epsilon, data.delta)
    refuse_look_alike(data.budget, others)
    stating(stated_facts(**facts), others.items(), data.beside)


# --------------------------------------------------------------------------------------------------


def open_desk(file: StewardsFile) -> Desk:
    """Count every topic, then open budgets that are missing, and get authentication ready.

    The ledger is written last, because its entries cannot be removed.
    """
    ledger = Ledger(file.ledger)
    counts = TopicCounts(file)
    spool = Spool(Path(file.spool))
    require_later_books(file, spool.heads)
    open_budgets(file, ledger, missing_budgets(file, ledger, counts))
    desk = Desk(file, ledger, counts, Auth(file), spool)
    desk.remember()
    return desk


def check_desk(file: StewardsFile) -> tuple[list[str], list[str]]:
    """Do all checks of a start, without writing; the ledger must be writable.

    Return the budgets that a start would open, and notes about sums of text.
    """
    require_spool(Path(file.spool))
    require_later_books(file, Heads(Path(file.spool)))
    counts = TopicCounts(file)
    notes = [
        f"datasets.{data.name} has no decimal, and topic {topic.name!r} adds up text: amounts such "
        'as 16,48 are numbers only with decimal = ",". If they are as 16.48, state "."'
        for data in file.datasets.values()
        for topic in data.topics.values()
        if data.decimal is None
        and (origin := counts.slot(data, topic).facts.origin)
        and origin.sum_of_text
    ]
    missing = missing_budgets(file, Ledger(file.ledger), counts)
    store = Store(file.ledger)
    if store.is_there():
        store.require_writable()
    return list(missing), notes


def application(desk: Desk, place: Place) -> Any:
    """The whole application (ASGI), behind the middleware."""

    @asynccontextmanager
    async def settling(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(app.state.asking.keep_settling())
        yield
        task.cancel()

    app = FastAPI(
        lifespan=settling,
        title=desk.file.title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    app.state.is_https = place.https
    app.state.asking = Asking(desk)
    app.state.under_way = Counter[str]()
    for router in (pages.router, pages.stewards_router, api.router, api.about):
        app.include_router(router, dependencies=[Depends(few_at_once)])
    for kind in (Refused, LedgerError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _refuse)
    return Guard(app, place)


def _refusal(error: Exception) -> Refused:
    """The response to an uncaught error; errors of the framework get our words too."""
    if isinstance(error, RequestValidationError):
        return Refused(422, _not_valid(error))
    if isinstance(error, HTTPException):
        messages = {404: NOT_THERE[1], 405: "This cannot be done here."}
        return Refused(error.status_code, messages.get(error.status_code, WORDS[400]))
    refused = None
    if isinstance(error, Refused | LedgerError):
        refused = refusal_of(error)
    if refused is None:
        note_error(error)
        return Refused(500, WORDS[500])
    return refused


def _not_valid(error: RequestValidationError) -> str:
    """The fields that are wrong, and what each accepts; the text has none of the values."""
    faults: dict[str, list[str]] = {}
    for fault in error.errors():
        name = "the body"
        if len(fault["loc"]) > 1:
            name = str(fault["loc"][1])
        if not name.isidentifier() or len(name) > 30:
            name = "the body"
        faults.setdefault(name, []).append(str(fault["msg"]))
    lines = []
    for name, messages in faults.items():
        different = dict.fromkeys(messages)
        lines.append(f"{name}: {' or '.join(different)}")
    return f"Invalid: {'; '.join(lines)}."


async def _refuse(request: Request, error: Exception) -> Response:
    """An error response: JSON for a program, a page for people."""
    refused = _refusal(error)
    if request.url.path.startswith("/api/"):
        headers = None
        if refused.status == 401:
            headers = {"www-authenticate": "Bearer"}
        return JSONResponse({"error": refused.words}, refused.status, headers)
    try:
        visitor = browser_visitor(request)
    except Refused:  # authentication may fail for the same reason as the request
        visitor = None
    return shown(request, "refused.html", status=refused.status, visitor=visitor, refused=refused)


# --------------------------------------------------------------------------------------------------
# Serving the desk: where it listens, and what it prints.
#
# Anybody who can reach the port can open connections. Each connection needs a descriptor (an open
# file), so connections are limited. Every wait for a client has a deadline (timeout): for headers,
# for the body, and for reading the response.


LOOPBACK = ("127.0.0.1", "::1", "localhost")

_KEEP_ALIVE = 15
_QUEUE = 512


def _then_update(name: str) -> Any:
    """A method that calls Uvicorn's, and then notes what the client must do next."""

    def method(self: "Connection", *arguments: Any) -> None:
        getattr(H11Protocol, name)(self, *arguments)
        self._update()

    return method


class Connection(H11Protocol):
    """A connection with deadlines: its client is dropped if it keeps the desk waiting.

    Uvicorn closes connections that are idle after a response. This class has deadlines for headers
    and for unread responses. The middleware has the deadline for a body, and answers with an error.
    """

    def __init__(
        self, limits: Limits, waiting: "dict[Connection, None]", *arguments: Any, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._waiting = waiting
        """All connections that wait for their clients, the longest first."""
        self._awaited = ""
        self._deadline = self.loop.call_later(0, lambda: None)  # none yet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """If there are too many connections, drop the one that waits longest for its client."""
        transport.set_write_buffer_limits(high=0)  # any byte that is not taken pauses writing
        super().connection_made(transport)
        self._update()
        if len(self.connections) > self._limits.connections:
            oldest = next(iter(self._waiting))  # this one, if all others are being answered
            del self._waiting[oldest]
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._waiting.pop(self, None)
        self._deadline.cancel()

    data_received = _then_update("data_received")
    on_response_complete = _then_update("on_response_complete")
    pause_writing, resume_writing = map(_then_update, ("pause_writing", "resume_writing"))

    def _update(self) -> None:
        """Note what the client must do next, if anything, and set its deadline."""
        state = self.conn.their_state
        awaited = ""
        seconds = None
        if self.flow.write_paused:
            awaited = "to read"
            seconds = self._limits.unread
        elif state is h11.IDLE and self.timeout_keep_alive_task is None:
            awaited = "headers"
            seconds = self._limits.seconds
        elif state in (h11.IDLE, h11.SEND_BODY):
            awaited = "more"
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
    """Refuse to listen where other machines reach the desk, unless the file states host names."""
    if host not in LOOPBACK and not file.hosts:
        raise ValueError(
            f"host must be one of {', '.join(LOOPBACK)}: others can reach {host}. For "
            "that, the steward's file must state hosts: the names that people use for the desk"
        )


def place_of(desk: Desk, host: str, port: int) -> Place:
    """The addresses of the desk; refused if other machines may not reach it."""
    require_hosts(desk.file, host)
    hosts = desk.file.hosts
    return Place(port, hosts, desk.file.https and bool(hosts), label=desk.auth.passes.label())


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    # asyncio sets TCP_NODELAY only if the protocol is stated: else responses wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_QUEUE)  # from here on, connections wait and are not refused
    except OSError as error:
        listener.close()
        message = f"port {port} of {host} is in use, or permission is denied"
        raise OSError(error.errno, message) from None
    return listener


def listening_locally(host: str, port: int) -> list[socket.socket]:
    """Sockets on both loopback addresses: for a local name, browsers try both, ::1 first.

    So no other program can listen at one of them and get a browser's requests.
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
    """Serve until the desk is stopped; `say` prints its addresses."""
    is_local = host in LOOPBACK and not desk.file.hosts
    if is_local:
        bound = listening_locally(host, port)
    else:
        bound = [listening(host, port)]
    place = place_of(desk, host, bound[0].getsockname()[1])
    for line in greeting(desk, place, host):
        say(line)
    asyncio.run(uvicorn.Server(configured(desk, place)).serve(sockets=bound))  # it closes them


def configured(desk: Desk, place: Place) -> uvicorn.Config:
    """The settings of Uvicorn: it logs only errors, because its access log would show queries."""
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
    scheme = "http"
    default_port = 80
    if place.https:
        scheme = "https"
        default_port = 443
    pages = [f"{scheme}://{name}/" for name in place.page_names]
    if ":" in host:
        host = f"[{host}]"
    address = f"http://{host}:{place.port}"
    if desk.auth.link is None:
        lines = [f"The desk is open: {page}" for page in pages]
        if not place.hosts:
            return [*lines, f"Programs on this machine call {address}/api/v1"]
        proxy = ""
        if place.https:
            proxy = ", behind your TLS proxy (https is true by default)"
        lines.append(
            f"It listens on {address}{proxy}. If people call a port other than {default_port}, "
            "`hosts` must name it"
        )
        return lines
    return [
        "The desk is open. This link lets one browser in, once:",
        f"  {pages[0]}enter?link={desk.auth.link}",
        f"Stewards' forms, and programs at {address}/api/v1, send this token until the desk stops:",
        f"  {desk.auth.local_token}",
    ]
