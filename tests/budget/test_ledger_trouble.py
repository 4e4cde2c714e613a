"""A ledger that cannot be written: the release is refused, clearly, and nothing is drawn."""

import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy.engine import Engine

import dpgap
from dpgap.budget.account import UnsettledWarning
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from seams import WatchedBits, bits_are


@pytest.fixture
def account(folder: Path) -> LedgerAccount:
    return Ledger(f"sqlite:///{folder}/budget.db").create("sales", 1000)


@pytest.fixture
def no_noise() -> Iterator[None]:
    """Fail the test if any noise is drawn."""

    def asked() -> None:
        raise AssertionError("noise was drawn before the charge was recorded")

    with bits_are(WatchedBits(asked)):
        yield


def _refusal(account: LedgerAccount) -> str:
    with pytest.raises(LedgerError) as refusal:
        dpgap.NoisyMax(epsilon=1, monotonic=True).release([987654, 3], account=account)
    assert "987654" not in str(refusal.value)
    assert "nothing is released" in str(refusal.value)
    return str(refusal.value)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No SQLite file may grow from now on."""

    def forbid_growth(connection: Any, record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # SQLite makes it the present size

    sql.event.listen(Engine, "connect", forbid_growth)
    yield
    sql.event.remove(Engine, "connect", forbid_growth)


def test_a_full_disk_refuses_the_release_and_loses_no_entry(
    account: LedgerAccount, full_disk: None
) -> None:
    def fill() -> None:
        for _ in range(1000):
            account.reserve(Cost.pure(Fraction(1, 10**6)), "a release " * 100)

    with pytest.raises(LedgerError, match=r"no room left on the disk.* nothing is released"):
        fill()
    assert account.ledger.verify("sales") == []
    assert account.reserved == Fraction(len(account.ledger.entries("sales")) - 1, 10**6)


def test_a_read_only_ledger_refuses_the_release(account: LedgerAccount, no_noise: None) -> None:
    def let_read(connection: Any, _: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    sql.event.listen(account.ledger._store.engine, "connect", let_read)
    assert account.remaining == 1000
    assert "is read-only" in _refusal(account)


@pytest.mark.parametrize("rest", [0, 100, 5000])
def test_a_corrupt_file_refuses_the_release(
    account: LedgerAccount, folder: Path, no_noise: None, rest: int
) -> None:
    file = folder / "budget.db"
    content = file.read_bytes()
    file.write_bytes(content[:rest] + b"\xff" * (len(content) - rest))
    assert "is damaged or no ledger at all" in _refusal(account)


def test_a_ledger_that_was_deleted_refuses_the_release(
    account: LedgerAccount, folder: Path, no_noise: None
) -> None:
    (folder / "budget.db").unlink()
    with pytest.raises(LedgerError, match="there is no ledger"):
        dpgap.NoisyMax(epsilon=1).release([1, 2], account=account)


def test_a_database_without_a_ledger_refuses_the_release(folder: Path) -> None:
    (folder / "budget.db").touch()
    with pytest.raises(LedgerError, match="is no ledger yet"):
        Ledger(f"sqlite:///{folder}/budget.db").account("sales")


def test_a_ledger_that_others_keep_busy_refuses_the_release(
    account: LedgerAccount, folder: Path, no_noise: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpgap.budget.store.BUSY_SECONDS", 0.1)
    waiting = Ledger(f"sqlite:///{folder}/budget.db").account("sales")
    with account.ledger._store.writing("sales"):
        assert "is busy with other releases" in _refusal(waiting)


def test_a_server_that_is_gone_refuses_the_release(postgres: Any, no_noise: None) -> None:
    account = Ledger(postgres.get_uri()).create("gone", 1)
    elsewhere = Ledger(postgres.get_uri().replace("host=", "host=/nowhere"))
    assert "cannot be reached" in _refusal(LedgerAccount(elsewhere, "gone"))
    assert account.remaining == 1


def test_a_connection_dropped_while_reserving_refuses_the_release(
    postgres: Any, no_noise: None
) -> None:
    account = Ledger(postgres.get_uri()).create("dropped", 1)

    def drop(connection: Any, record: object) -> None:
        process = connection.info.backend_pid
        sql.event.listen(
            account.ledger._store.engine, "before_cursor_execute", kill(process), once=True
        )

    def kill(process: int) -> Any:
        def now(*_: object) -> None:
            postgres.psql(f"SELECT pg_terminate_backend({process});")

        return now

    sql.event.listen(account.ledger._store.engine, "connect", drop, once=True)
    assert "cannot be reached" in _refusal(account)
    assert Ledger(postgres.get_uri()).account("dropped").remaining == 1


def test_a_connection_dropped_before_settling_keeps_the_charge_and_loses_no_release(
    postgres: Any,
) -> None:
    account = Ledger(postgres.get_uri()).create("interrupted", 1)
    right = account.ledger._store.engine
    wrong = Ledger(postgres.get_uri().replace("host=", "host=/nowhere"))._store.engine

    def drop() -> None:
        account.ledger._store.engine = wrong

    mechanism = dpgap.NoisyMax(epsilon=1, monotonic=True)
    with (
        bits_are(WatchedBits(drop)),
        pytest.warns(
            UnsettledWarning, match=r"stays charged, as entry 1 \(the ledger .* be reached"
        ),
    ):
        assert mechanism.release([9000, 1], account=account).index == 0
    account.ledger._store.engine = right
    assert (account.reserved, account.remaining) == (1, 0)


def test_what_is_charged_is_on_the_disk_though_the_server_is_told_to_be_quick(
    postgres: Any,
) -> None:
    """With synchronous_commit off, a crash of the server forgets what was charged and released."""
    name = f"ledger_{uuid.uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name};")
    postgres.psql(f"ALTER DATABASE {name} SET synchronous_commit = off;")
    ledger = Ledger(postgres.get_uri(database=name))
    seen = []

    @sql.event.listens_for(ledger._store.engine, "commit")
    def note(connection: sql.Connection) -> None:
        seen.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar())

    account = ledger.create("sales", 1)
    account.reserve(Cost.pure(Fraction(1, 2)), "top 1").settle(
        Cost.pure(Fraction(1, 2)), "a document"
    )
    ledger.steward("sales").close(reason="done")
    assert seen == ["on"] * 4
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE);")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("//postgres:", "//nobody_here:", "its server has no role 'nobody_here'"),
        ("empty_", "no_", "its server has no database 'no_"),
        ("", "", "is no ledger yet: it has no table 'dpgap_entries'"),
    ],
)
def test_a_role_a_database_or_a_table_that_is_not_there_is_named(
    postgres: Any, old: str, new: str, words: str
) -> None:
    name = f"empty_{uuid.uuid4().hex}"
    postgres.psql(f"CREATE DATABASE {name};")
    with pytest.raises(LedgerError, match=words):
        Ledger(postgres.get_uri(database=name).replace(old, new)).datasets()
    postgres.psql(f"DROP DATABASE {name} WITH (FORCE);")


def test_a_ledger_that_lost_a_table_says_which(account: LedgerAccount) -> None:
    with account.ledger._store.engine.begin() as connection:
        connection.execute(sql.text("DROP TABLE dpgap_documents"))
    with pytest.raises(LedgerError, match="no table 'dpgap_documents'"):
        account.paid("a question")


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    anything: Any = 5
    with pytest.raises(TypeError, match="reasons must be text"):
        ledger.create("sales", 1, reason=anything)
    ledger.create("sales", 1)
    with pytest.raises(TypeError, match="nothing was written"):
        ledger.account("sales").of("ann", reason=anything).reserve(
            Cost.pure(Fraction(1, 2)), "a question"
        )
    with pytest.raises(TypeError, match="carry must be True or False"):
        ledger.steward("sales").renew(every="day", epsilon=1, carry=anything)
    assert ledger.verify("sales") == []
    assert ledger.account("sales").remaining == 1
