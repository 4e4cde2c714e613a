"""Engines that stop half-way: a clear error, nothing released, and no row in anything that is said.

While counting nothing is charged. After that the charge stays: whoever can stop an engine could
otherwise look at how far a release got, free of charge.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import duckdb
import ibis
import narwhals as nw
import psycopg
import pytest

import dpgap
from dpgap.budget.ledger import LedgerAccount
from dpgap.data.engines.base import EngineError
from dpgap.data.engines.duckdb import DuckDB
from dpgap.data.engines.ibis import Ibis
from dpgap.data.engines.spark import Spark
from engine_tables import arrow

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROWS = [(f"secret {who}", f"secret {who % 20}") for who in range(400)]
ASK: dict[str, Any] = {"unit": "who", "item": "what", "k": 3, "epsilon": 1}
DOMAIN = [f"secret {what}" for what in range(25)]
EPSILON = Fraction(1)

Said = Callable[[], str]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Said:
    """Everything that was printed or logged since the test began."""
    capfd.readouterr()
    return lambda: "".join(capfd.readouterr()) + caplog.text


def _require_silence(error: BaseException, said: Said) -> None:
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "secret" not in str(error) + repr(error) + said()


def _require_refusal(account: LedgerAccount, said: Said, ask: Callable[[], Any]) -> None:
    """Nothing is charged for a table that cannot be counted."""
    with pytest.raises(ValueError, match="table could not be read") as refusal:
        ask()
    _require_silence(refusal.value, said)
    assert account.balance.number == 0


def _require_charge(account: LedgerAccount, said: Said, ask: Callable[[], Any]) -> None:
    """What is stopped after the charge keeps it."""
    with pytest.raises(EngineError, match="nothing was released") as refusal:
        ask()
    _require_silence(refusal.value, said)
    assert (account.spent, account.reserved) == (0, EPSILON)
    assert [entry.kind for entry in account.ledger.entries("sales")] == ["create", "reserve"]
    assert account.ledger.verify("sales") == []


@contextmanager
def _meanwhile(act: Callable[[], bool]) -> Iterator[None]:
    """Try something every moment until it was done, or until the block is over."""
    over = threading.Event()

    def keep_trying() -> None:
        while not over.is_set() and not act():
            time.sleep(0.02)

    thread = threading.Thread(target=keep_trying)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# DuckDB


def _sold() -> tuple[Any, Any]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE sold (who VARCHAR, what VARCHAR)")
    connection.executemany("INSERT INTO sold VALUES (?, ?)", ROWS[:100])
    return connection, connection.table("sold")


def _tables(connection: Any) -> list[str]:
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    )
    return [name for (name,) in rows.fetchall()]


def test_an_interrupted_duckdb_charges_nothing(account: LedgerAccount, said: Said) -> None:
    connection, _ = _sold()
    slow = connection.sql(
        "SELECT md5(a.range::VARCHAR) || b.range AS who, what "
        "FROM range(100000) a, range(100000) b, sold"
    )

    def interrupt() -> bool:
        connection.interrupt()
        return False

    with _meanwhile(interrupt):
        _require_refusal(
            account, said, lambda: dpgap.top_k(slow, domain=DOMAIN, **ASK, account=account)
        )
    # DuckDB may be interrupted as well while it drops the view of a relation; no counts are left.
    assert set(_tables(connection)) <= {"sold", "dpgap_unused"}


def test_a_duckdb_closed_while_looking_up_keeps_the_charge(
    account: LedgerAccount, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, table = _sold()
    look_up = DuckDB.members

    def closing(engine: DuckDB, *wanted: Any) -> Any:
        connection.close()
        return look_up(engine, *wanted)

    monkeypatch.setattr(DuckDB, "members", closing)
    _require_charge(
        account, said, lambda: dpgap.top_k(table, domain=DOMAIN, **ASK, account=account)
    )


def test_a_duckdb_that_fails_in_a_stream_keeps_the_charge_and_leaves_nothing(
    account: LedgerAccount, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, table = _sold()

    def failing(engine: DuckDB, *_: Any) -> Any:
        yield engine._sql("SELECT error('secret fig') AS item").to_native().fetchnumpy()

    monkeypatch.setattr(DuckDB, "_batches", failing)
    ask = {**ASK, "domain": DOMAIN, "threshold": 1, "account": account}
    _require_charge(account, said, lambda: dpgap.above(table, **ask))
    assert _tables(connection) == ["sold"]


# PostgreSQL


@pytest.fixture(scope="session")
def broken(database: Any) -> None:
    """A table, and a view of it that takes long."""
    database.create_table("broken", arrow("string", "string", ROWS))
    slow = "CREATE VIEW slow AS SELECT who || pg_sleep(0.1)::text AS who, what FROM broken"
    database.raw_sql(slow).close()


@pytest.fixture
def session(postgres: Any, broken: None) -> Iterator[Any]:
    """A session that a test may break."""
    opened = ibis.connect(postgres.get_uri())
    yield opened
    opened.disconnect()


def _backend(session: Any) -> int:
    process: int = session.con.info.backend_pid
    return process


def _terminate(postgres: Any, process: int, *, when: str) -> bool:
    """Terminate a session of the server, if it is doing something; and say whether it was."""
    found = f"SELECT pid FROM pg_stat_activity WHERE pid = {process} AND {when} OFFSET 0"
    with psycopg.connect(postgres.get_uri()) as other:
        ended = other.execute(f"SELECT pg_terminate_backend(pid, 1000) FROM ({found}) AS found")
        return len(ended.fetchall()) == 1


def test_a_session_terminated_while_counting_charges_nothing(
    postgres: Any, session: Any, account: LedgerAccount, said: Said
) -> None:
    process, slow = _backend(session), session.table("slow")
    counting = "state = 'active' AND query LIKE '%dpgap%'"
    with _meanwhile(lambda: _terminate(postgres, process, when=counting)):
        _require_refusal(
            account, said, lambda: dpgap.top_k(slow, domain=DOMAIN, **ASK, account=account)
        )


@pytest.mark.parametrize("stage", ["_unmask", "_batches"])
def test_a_session_terminated_while_looking_up_keeps_the_charge(
    postgres: Any,
    session: Any,
    account: LedgerAccount,
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    process, table = _backend(session), session.table("broken")
    look_up = getattr(Ibis, stage)

    def terminated(engine: Ibis, *wanted: Any) -> Any:
        assert _terminate(postgres, process, when="true")
        return look_up(engine, *wanted)

    monkeypatch.setattr(Ibis, stage, terminated)
    ask = {**ASK, "domain": DOMAIN, "account": account}
    if stage == "_batches":
        _require_charge(account, said, lambda: dpgap.above(table, threshold=1, **ask))
    else:
        _require_charge(account, said, lambda: dpgap.top_k(table, **ask))


def _temporary(session: Any) -> list[Any]:
    query = "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()"
    with session.raw_sql(query) as cursor:
        return list(cursor.fetchall())


def test_a_time_limit_charges_nothing_and_leaves_the_session_in_order(
    session: Any, account: LedgerAccount, said: Said
) -> None:
    session.raw_sql("SET statement_timeout = '50ms'").close()
    ask = {**ASK, "domain": DOMAIN, "account": account}
    _require_refusal(account, said, lambda: dpgap.top_k(session.table("slow"), **ask))
    session.raw_sql("SET statement_timeout = 0").close()
    assert len(dpgap.top_k(session.table("broken"), **ask).labels or ()) == 3
    assert _temporary(session) == []


def test_a_time_limit_while_looking_up_keeps_the_charge_and_leaves_nothing(
    session: Any, account: LedgerAccount, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtime(engine: Ibis, *_: Any) -> Any:
        with engine._database.raw_sql("SET statement_timeout = '20ms'"):
            pass
        return engine._collect(engine._database.sql("SELECT pg_sleep(9)::text AS item"))

    monkeypatch.setattr(Ibis, "_unmask", overtime)
    ask = {**ASK, "domain": DOMAIN, "account": account}
    _require_charge(account, said, lambda: dpgap.top_k(session.table("broken"), **ask))
    session.raw_sql("SET statement_timeout = 0").close()
    assert _temporary(session) == []


# Spark


def _slowly(frame: Any) -> Any:
    """The same rows, each of which takes its time; a cancelled task ends before the next one."""
    return frame.where("reflect('java.lang.Thread', 'sleep', 100L) IS NOT NULL")


def _cancel(spark: Any) -> bool:
    jobs = spark.sparkContext.statusTracker().getActiveJobsIds()
    if jobs:
        spark.sparkContext.cancelAllJobs()
    return False


def test_a_spark_job_cancelled_while_counting_charges_nothing(
    spark: Any, account: LedgerAccount, said: Said
) -> None:
    slow = _slowly(spark.createDataFrame(ROWS, "who string, what string"))
    with _meanwhile(lambda: _cancel(spark)):
        _require_refusal(
            account, said, lambda: dpgap.top_k(slow, domain=DOMAIN, **ASK, account=account)
        )


def test_a_spark_job_cancelled_while_looking_up_keeps_the_charge(
    spark: Any, account: LedgerAccount, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spark.createDataFrame(ROWS[:50], "who string, what string")
    look_up = Spark.members

    def cancelled(engine: Spark, frozen: Any, *wanted: Any) -> Any:
        with _meanwhile(lambda: _cancel(spark)):
            return look_up(engine, nw.from_native(_slowly(frozen.to_native())), *wanted)

    monkeypatch.setattr(Spark, "members", cancelled)
    _require_charge(
        account, said, lambda: dpgap.top_k(table, domain=DOMAIN, **ASK, account=account)
    )


def test_a_row_on_which_spark_fails_is_not_logged(
    spark: Any, account: LedgerAccount, said: Said
) -> None:
    sold = spark.createDataFrame(ROWS[:3], "who string, what string")
    broken = sold.selectExpr("raise_error(concat('secret ', who)) AS who", "what")
    _require_refusal(
        account, said, lambda: dpgap.top_k(broken, domain=DOMAIN, **ASK, account=account)
    )


def test_a_row_on_which_spark_fails_is_shown_by_nobody(
    spark: Any, account: LedgerAccount, said: Said
) -> None:
    rows = spark.createDataFrame(ROWS, "who string, what string")
    table = rows.withColumn("what", rows.what.cast("bigint"))
    ask = {**ASK, "domain": range(9), "account": account}
    _require_refusal(account, said, lambda: dpgap.top_k(table, **ask))
