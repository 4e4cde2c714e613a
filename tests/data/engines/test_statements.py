"""What engines log: no statement or parameter shows a count, nor which winners were present."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pytest

import dpgap
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.engines.duckdb import DuckDB
from dpgap.data.engines.ibis import Ibis
from engine_tables import arrow
from law_tests import LEVEL, chi_square_p
from twins.records import recorded

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore:The 'future.infer_string':DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
]

COUNTS = {"fig": 7193, "oat": 6871, "pea": 6529}
"""Numbers of units that nothing else is likely to be."""
ROWS = [(who, what) for what, units in COUNTS.items() for who in range(units)]
DOMAIN = [*COUNTS, *(f"item {number}" for number in range(200))]
ASK: dict[str, Any] = {"unit": "who", "item": "what"}

Logged = Callable[[], str]


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Logged]]:
    """A table, and what its engine has logged since then."""
    yield from globals()[f"_in_{request.param}"](request, tmp_path)


def _in_duckdb(*_: Any, **settings: Any) -> Iterator[tuple[Any, Logged]]:
    connection = duckdb.connect()
    connection.from_arrow(arrow("bigint", "string", ROWS)).create("sold")
    for setting, value in settings.items():
        connection.execute(f"SET {setting} = {value}")
    connection.execute("CALL enable_logging('QueryLog')")
    logged = connection.cursor()
    yield (
        connection.table("sold"),
        lambda: str(logged.execute("SELECT message FROM duckdb_logs").fetchall()),
    )


def _in_closed_duckdb(*_: Any) -> Iterator[tuple[Any, Logged]]:
    """A connection that reads no variables."""
    yield from _in_duckdb(enable_external_access="false")


def _in_ibis(*_: Any) -> Iterator[tuple[Any, Logged]]:
    database = ibis.duckdb.connect()
    table = database.create_table("sold", arrow("bigint", "string", ROWS))
    database.con.execute("CALL enable_logging('QueryLog')")
    logged = database.con.cursor()
    yield table, lambda: str(logged.execute("SELECT message FROM duckdb_logs").fetchall())


def _in_postgres(request: Any, _: Path) -> Iterator[tuple[Any, Logged]]:
    server = request.getfixturevalue("postgres")
    database = request.getfixturevalue("database")
    table = database.create_table("sold_and_logged", arrow("bigint", "string", ROWS), temp=True)
    database.raw_sql("SET log_statement = 'all'").close()
    database.raw_sql("SET log_parameter_max_length = -1").close()
    start = len(server.log.read_text())
    yield table, lambda: server.log.read_text()[start:]
    database.raw_sql("SET log_statement = 'none'").close()
    database.drop_table("sold_and_logged")


def _in_spark(request: Any, _: Path) -> Iterator[tuple[Any, Logged]]:
    spark = request.getfixturevalue("spark")
    table = spark.createDataFrame(ROWS, "who bigint, what string")
    with recorded() as record:
        yield table, lambda: "\n".join(record.statements)


@pytest.mark.parametrize(
    "home", ["duckdb", "closed_duckdb", "ibis", "postgres", "spark"], indirect=True
)
def test_no_true_count_stands_in_what_an_engine_logs(home: tuple[Any, Logged]) -> None:
    table, logged = home
    answers = dpgap.counts(table, **ASK, domain=DOMAIN)
    assert isinstance(answers, CountsInEngine)
    winners = dpgap.top_k(answers, k=3, epsilon=100)
    assert winners.labels == tuple(COUNTS)
    above = dpgap.above(answers, threshold=3000, k=4, epsilon=100)
    assert set(COUNTS) <= set(above.labels or ())
    answers.close()
    log = re.sub(r"(?m)^\S+ \S+ \S+ \[\d+\]", "", logged())  # when, and which process
    assert "units" in log
    assert [units for units in COUNTS.values() if re.search(rf"\b{units}\b", log)] == []


# Which winners were present


def _statements(home: str, present: list[str], server: Any = None) -> list[str]:
    """What is asked once the counts are frozen, of a release of an item of two."""
    rows = [(who, what) for what in present for who in range(40)]
    table: Any = arrow("bigint", "string", [*rows, (1, "none of them")])
    if home == "postgres":
        table = server.create_table("few", table, overwrite=True)
    else:
        table = duckdb.connect().from_arrow(table)
    answers = dpgap.counts(table, **ASK, domain=["fig", "oat", "pea"])
    with recorded() as record:
        dpgap.NoisyTopK(k=2, epsilon=100, monotonic=True).release(answers)
    answers.close()
    return [re.sub(r"__duckdb_source_\w+", "", each) for each in record.statements]


@pytest.mark.parametrize("home", ["duckdb", "postgres"])
def test_statements_do_not_show_how_many_winners_were_present(
    home: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("database") if home == "postgres" else None
    both = _statements(home, ["fig", "oat"], server)
    assert len(both) >= 2
    assert _statements(home, ["fig"], server) == both
    assert _statements(home, ["fig", "oat", "pea"], server) == both


# Pads are fresh and uniform


def _masked(engine: Any, number: int, draws: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How one number is sent, each time."""
    sent: list[int] = []
    right = type(engine)._unmask

    def watched(engine: Any, pads: Any, columns: Any, masked: Any) -> Any:
        sent.extend(value for _, value in masked)
        return right(engine, pads, columns, masked)

    monkeypatch.setattr(type(engine), "_unmask", watched)
    columns = {"units": [number] * draws}
    with super(type(engine), engine).hidden(columns) as hidden:
        rows = engine.rows(hidden.select("position", "units"))
    assert sorted(rows) == [(at, number) for at in range(draws)]
    return sent


@pytest.mark.parametrize("number", [3, -(1 << 63)])
@pytest.mark.parametrize("home", ["duckdb", "postgres", "spark"])
def test_a_number_is_sent_as_fresh_uniform_bits(
    home: str, number: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any
    if home == "duckdb":
        engine = DuckDB(duckdb.connect().sql("SELECT 1 AS who"))
    elif home == "spark":
        from dpgap.data.engines.spark import Spark

        engine = Spark(request.getfixturevalue("spark").range(1))
    else:
        database = request.getfixturevalue("database")
        engine = Ibis(database.create_table("any", arrow("bigint", "bigint", [(1, 1)]), temp=True))
    draws = 500
    sent = _masked(engine, number, draws, monkeypatch)
    assert len(set(sent)) == draws
    ones = np.array([sum(value >> bit & 1 for value in sent) for bit in range(64)])
    cells = np.concatenate([ones, draws - ones])
    assert chi_square_p(cells, np.full(128, 1 / 128)) > LEVEL
    plain = np.array([number >> bit & 1 for bit in range(64)]) * draws
    assert chi_square_p(np.concatenate([plain, draws - plain]), np.full(128, 1 / 128)) < LEVEL
    if home == "postgres":
        database.drop_table("any")
