"""A connection to PostgreSQL that goes silent: others charge on, nothing is lost or overspent."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import sqlalchemy as sql

from dpgap.budget.account import AlreadyCharged
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from dpgap.budget.store import open_database, read_url

QUARTER = Fraction(1, 4)
SHORT = "-c statement_timeout=2s -c idle_in_transaction_session_timeout=1s"
"""A server's limits in the address of a test; the client waits a second longer than a statement."""
COMMIT = b"COMMIT\0"
MOST_SECONDS = 6


class SilentProxy:
    """A network between a client and a server. It passes nothing any more after some words."""

    def __init__(self, server: str) -> None:
        self.words = b""
        """The words of a client after which nothing is passed."""
        self.passes_words = False
        """Whether the server still gets these words."""
        self.is_silent = threading.Event()
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listening]
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    pump = threading.Thread(
                        target=self._pass, args=(source, target, source is client), daemon=True
                    )
                    pump.start()

    def _pass(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                if is_client and self.words and self.words in content:
                    self.is_silent.set()
                    if self.passes_words:
                        target.sendall(content)
                    return  # both ends stay open, as with a cable that was cut
                if self.is_silent.is_set():
                    return
                target.sendall(content)

    def close(self) -> None:
        for end in self._open:
            end.close()


@pytest.fixture
def direct(postgres: Any) -> Iterator[str]:
    """The address of an empty database."""
    name = "silent_ledger"
    postgres.psql(f"CREATE DATABASE {name};")
    yield str(postgres.get_uri(database=name))
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE);")


@pytest.fixture
def proxy(direct: str) -> Iterator[SilentProxy]:
    folder = parse_qs(urlsplit(direct).query)["host"][0]
    found = SilentProxy(f"{folder}/.s.PGSQL.5432")
    yield found
    found.close()


def _through(proxy: SilentProxy, direct: str, options: str = SHORT) -> Ledger:
    parts = urlsplit(direct)
    query = urlencode({"options": options, "sslmode": "disable"})
    return Ledger(f"postgresql://postgres@127.0.0.1:{proxy.port}{parts.path}?{query}")


def _failing(account: LedgerAccount, begun: Callable[[], object]) -> str:
    """What a charge says that is answered by silence, and in which time it says so."""
    failures: list[BaseException] = []

    def charge() -> None:
        try:
            account.reserve(Cost.pure(QUARTER), "into the silence")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=charge, daemon=True)
    started = time.monotonic()
    thread.start()
    begun()
    thread.join(2 * MOST_SECONDS)
    assert time.monotonic() - started < MOST_SECONDS
    (failure,) = failures
    assert isinstance(failure, LedgerError), failure
    return str(failure)


@pytest.mark.parametrize("passes_words", [False, True], ids=["lost", "arrived"])
@pytest.mark.parametrize("words", [b"INSERT INTO dpgap_entries", COMMIT])
def test_a_silent_connection_blocks_nobody_and_its_charge_counts_once(
    words: bytes, passes_words: bool, direct: str, proxy: SilentProxy
) -> None:
    healthy = Ledger(direct).create("sales", 1)
    silent = _through(proxy, direct).account("sales").of("ann", key="the-only-key")
    proxy.words = words
    proxy.passes_words = passes_words

    def charge_elsewhere() -> None:
        assert proxy.is_silent.wait(MOST_SECONDS)
        begun = time.monotonic()
        healthy.reserve(Cost.pure(QUARTER), "at another desk").settle(Cost.pure(QUARTER))
        assert time.monotonic() - begun < MOST_SECONDS

    refusal = _failing(silent, charge_elsewhere)
    assert "is silent" in refusal
    is_charged = words == COMMIT and passes_words
    if words == COMMIT:
        assert "may have been written" in refusal
    else:
        assert "nothing is released or changed without it" in refusal
    assert healthy.reserved == (QUARTER if is_charged else 0)

    again = healthy.of("ann", key="the-only-key")
    if is_charged:
        with pytest.raises(AlreadyCharged, match="under way"):
            again.reserve(Cost.pure(QUARTER), "into the silence")
    else:
        again.reserve(Cost.pure(QUARTER), "into the silence").settle(Cost.pure(QUARTER))
    assert healthy.spent + healthy.reserved == 2 * QUARTER
    assert healthy.ledger.verify() == []


def test_a_settlement_into_silence_is_found_written_or_is_written_later(
    direct: str, proxy: SilentProxy
) -> None:
    healthy = Ledger(direct).create("sales", 1)
    reservation = _through(proxy, direct).account("sales").reserve(Cost.pure(QUARTER), "drawn")
    proxy.words = COMMIT
    proxy.passes_words = True
    with pytest.raises(LedgerError, match="may have been written"):
        reservation.settle(Cost.pure(QUARTER), "the answer")
    assert healthy.spent == QUARTER
    assert healthy.document(reservation.entry.number) == "the answer"


def test_reading_ends_in_silence_too(direct: str, proxy: SilentProxy) -> None:
    Ledger(direct).create("sales", 1)
    ledger = _through(proxy, direct)
    proxy.words = b"SELECT"
    begun = time.monotonic()
    with pytest.raises(LedgerError, match="is silent"):
        ledger.datasets()
    assert time.monotonic() - begun < MOST_SECONDS


def test_a_wait_for_a_turn_is_no_silence(direct: str) -> None:
    account = Ledger(f"{direct}&options=-c%20statement_timeout%3D1s").create("sales", 1)
    with (
        Ledger(direct)._store.writing("sales"),
        pytest.raises(LedgerError, match="did not finish a statement in time"),
    ):
        account.reserve(Cost.pure(QUARTER), "a release")
    account.reserve(Cost.pure(QUARTER), "a release")


def _settings(url: str) -> dict[str, str]:
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    with open_database(read_url(url).url).connect() as connection:
        return {it: str(connection.execute(sql.text(f"SHOW {it}")).scalar_one()) for it in names}


def test_the_limits_are_ours_unless_the_address_states_them(direct: str) -> None:
    assert _settings(direct) == {
        "lock_timeout": "1min",
        "statement_timeout": "65s",
        "idle_in_transaction_session_timeout": "20s",
    }
    options = "-c statement_timeout=0 --idle-in-transaction-session-timeout=7s"
    assert _settings(f"{direct}&{urlencode({'options': options})}") == {
        "lock_timeout": "1min",
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "7s",
    }


@pytest.mark.parametrize(
    ("stated", "changes"),
    [
        ("", {}),
        (
            "&tcp_user_timeout=3000&connect_timeout=5",
            {"tcp_user_timeout": 3000, "connect_timeout": 5},
        ),
    ],
)
def test_the_network_is_watched_unless_the_address_says_how(
    stated: str, changes: dict[str, int], direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    parameters: dict[str, Any] = {}

    def connect(*_: object, **stated: Any) -> None:
        parameters.update(stated)
        raise psycopg.OperationalError("no server")

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    with pytest.raises(LedgerError):
        Ledger(f"{direct}{stated}").datasets()
    network = {
        name: int(parameters[name])
        for name in (
            "connect_timeout",
            "keepalives",
            "keepalives_idle",
            "keepalives_interval",
            "keepalives_count",
            "tcp_user_timeout",
        )
    }
    defaults = {
        "connect_timeout": 10,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 20_000,
    }
    assert network == defaults | changes
