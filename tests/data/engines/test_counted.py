"""Counts that stay in an engine: little crosses the wire, from one frozen state, and is let go."""

import copy
import gc
import itertools
import os
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import ibis
import numpy as np
import psycopg
import pytest

import dpgap
from dpgap.budget.ledger import LedgerAccount
from dpgap.data.engines import base
from dpgap.data.engines.base import EngineError
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.engines.duckdb import DuckDB
from dpgap.exact.bits import InsecureSeededBits
from engine_tables import arrow
from law_tests import LEVEL, chi_square_p
from seams import bits_are, quick_in

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
]

ITEMS, K = 300, 5
ROWS = [(who, what) for what in range(ITEMS) for who in range(what % 7 + 90 * (what > ITEMS - 4))]
BEST = {ITEMS - 1, ITEMS - 2, ITEMS - 3}
ASK: dict[str, Any] = {"unit": "who", "item": "what"}


def _answers(table: Any, domain: Any) -> CountsInEngine:
    answers = dpgap.counts(table, **ASK, domain=domain)
    assert isinstance(answers, CountsInEngine)
    return answers


@pytest.fixture
def duck() -> Any:
    """A connection with a table `sold`."""
    connection = duckdb.connect()
    rows = arrow("bigint", "bigint", ROWS)
    connection.execute("CREATE TABLE sold AS SELECT * FROM rows")
    assert rows.num_rows == len(ROWS)
    return connection


@pytest.fixture
def through_ibis() -> Any:
    """The same table in DuckDB through Ibis."""
    connection = ibis.duckdb.connect()
    connection.create_table("sold", arrow("bigint", "bigint", ROWS))
    return connection


@pytest.fixture(scope="session")
def sold(database: Any) -> Any:
    """The same table in PostgreSQL."""
    return database.create_table("sold", arrow("bigint", "bigint", ROWS))


# What crosses the wire


@pytest.fixture
def crossed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows the driver of an engine was handed, each time that it fetched."""
    sizes: list[int] = []

    def watch(owner: type, name: str) -> None:
        fetch = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            rows = fetch(*args, **options)
            sizes.append(len(rows["item"]) if isinstance(rows, dict) else len(rows))
            return rows

        monkeypatch.setattr(owner, name, watched)

    if "duck" in request.node.name:
        watch(duckdb.DuckDBPyRelation, "fetchall")
        watch(duckdb.DuckDBPyRelation, "fetchnumpy")
    elif "postgres" in request.node.name:
        watch(psycopg.ServerCursor, "fetchmany")
    elif "ibis" in request.node.name:
        watch(type(ibis.duckdb.connect()), "to_pyarrow")
    else:
        from pyspark.sql.classic.dataframe import DataFrame

        for name in ("collect", "toLocalIterator", "toPandas", "toArrow"):
            watch(DataFrame, name)
    return sizes


ENGINES = ("duck", "ibis", "postgres", "spark")


@pytest.mark.parametrize(
    ("home", "size"),
    quick_in(
        itertools.product(ENGINES, [ITEMS + 60, 10**12]),
        {*((home, 10**12) for home in ENGINES), ("duck", ITEMS + 60)},
    ),
)
def test_a_top_k_fetches_the_count_of_counts_and_the_winners(
    home: str, size: int, request: pytest.FixtureRequest, crossed: list[int]
) -> None:
    table = _table(home, request)
    answers = _answers(table, range(size))
    released = dpgap.top_k(answers, k=K, epsilon=300)
    assert set((released.labels or ())[:3]) == BEST
    values = len(answers.groups().values)
    assert values <= 11
    pads = 4 * K + 65 if home in ("postgres", "spark") else 0
    assert sum(crossed) <= values + 4 * K + 66 + pads
    answers.close()


def _table(home: str, request: pytest.FixtureRequest) -> Any:
    if home == "duck":
        return request.getfixturevalue("duck").table("sold")
    if home == "postgres":
        return request.getfixturevalue("sold")
    if home == "ibis":
        return request.getfixturevalue("through_ibis").table("sold")
    return request.getfixturevalue("spark").createDataFrame(ROWS, "who bigint, what bigint")


@pytest.mark.parametrize("home", ENGINES)
def test_streams_go_through_the_whole_domain(home: str, request: pytest.FixtureRequest) -> None:
    answers = _answers(_table(home, request), range(10**12))
    found = dpgap.above(answers, threshold=60, k=3, epsilon=9000, adaptive=False)
    assert set(found.labels or ()) == BEST
    in_order = dpgap.SparseVector(60, 9, 9000, monotonic=True).release(answers)
    assert (in_order.labels, in_order.processed) == (tuple(sorted(BEST)), 10**12)
    answers.close()
    few = _answers(_table(home, request), list(range(ITEMS)))
    found = dpgap.above(few, threshold=60, k=3, epsilon=9000, adaptive=False)
    assert set(found.labels or ()) == BEST
    few.close()


# Absent items


def test_absent_winners_are_uniform_distinct_and_never_present() -> None:
    present = {110, 130, 150}
    rows = [(who, what) for what in present for who in range(3)]
    table = duckdb.connect().from_arrow(arrow("bigint", "bigint", [*rows, (1, 105), (1, 9)]))
    answers = _answers(table, range(100, 210, 10))
    assert (len(answers), answers.absent) == (11, 8)
    drawn: Counter[int] = Counter()
    mechanism = dpgap.NoisyTopK(k=7, epsilon="0.001", monotonic=True)
    with bits_are(InsecureSeededBits(7)):
        released = [mechanism.release(answers) for _ in range(90)]
    for winners in released:
        labels = winners.labels or ()
        assert len(set(labels)) == 7
        assert winners.indices.tolist() == [(label - 100) // 10 for label in labels]
        drawn.update(label for label in labels if label not in present)
    cells = np.array([drawn[item] for item in range(100, 210, 10) if item not in present])
    assert cells.sum() == drawn.total() > 300
    assert chi_square_p(cells, np.full(8, 1 / 8)) > LEVEL
    assert chi_square_p(cells, np.repeat([1 / 12, 2 / 12], 4)) < LEVEL


def test_present_winners_of_a_count_are_uniform_and_distinct() -> None:
    rows = [(who, what) for what in range(8) for who in range(2)]
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    answers = _answers(connection.from_arrow(arrow("bigint", "bigint", rows)), list("01234567"))
    drawn: Counter[str] = Counter()
    mechanism = dpgap.NoisyTopK(k=4, epsilon=1)
    with bits_are(InsecureSeededBits(8)):
        released = [mechanism.release(answers).labels or () for _ in range(150)]
    for labels in released:
        assert len(set(labels)) == 4
        drawn.update(labels)
    cells = [drawn[item] for item in "01234567"]
    assert chi_square_p(cells, np.full(8, 1 / 8)) > LEVEL
    assert chi_square_p(cells, np.repeat([1 / 12, 2 / 12], 4)) < LEVEL


# One frozen state


def test_rows_that_come_later_change_nothing(database: Any, account: LedgerAccount) -> None:
    table = database.create_table("growing", arrow("bigint", "bigint", ROWS), overwrite=True)
    answers = _answers(table, range(ITEMS))
    before = answers.expanded().tolist()
    database.raw_sql("INSERT INTO growing SELECT w, 7 FROM generate_series(1, 500) t(w)").close()
    database.raw_sql("DELETE FROM growing WHERE what > 200").close()
    assert answers.expanded().tolist() == before
    best = dpgap.top_k(answers, k=3, epsilon=9000, account=account)
    assert set(best.labels or ()) == BEST
    now = dpgap.top_k(table, **ASK, domain=range(ITEMS), k=1, epsilon=9000)
    assert now.labels == (7,)
    database.drop_table("growing")


def test_a_look_up_that_finds_too_little_releases_nothing(
    duck: Any, account: LedgerAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    located = base._located
    monkeypatch.setattr(base, "_located", lambda *given: {**located(*given), "place": [99, 99]})
    with pytest.raises(EngineError, match="nothing was released"):
        dpgap.top_k(duck.table("sold"), **ASK, domain=range(9), k=2, epsilon=1, account=account)
    assert (account.spent, account.reserved) == (0, 1)


# Letting go


def _left_in_duckdb(connection: Any) -> list[str]:
    names = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() "
    rows = connection.execute(names + "WHERE NOT internal").fetchall()
    return [name for (name,) in rows if name != "sold"]


def _left_in_postgres(database: Any) -> list[str]:
    query = "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()"
    with database.raw_sql(query) as cursor:
        return [name for (name,) in cursor.fetchall()]


@pytest.mark.parametrize("domain", [range(ITEMS), range(10**12), ["3", "4", "299"]])
@pytest.mark.parametrize("home", ["duck", "ibis", "postgres"])
def test_nothing_is_left_on_the_users_connection(
    home: str, domain: Any, request: pytest.FixtureRequest
) -> None:
    table = _table(home, request)

    def names() -> list[str]:
        if home == "duck":
            return _left_in_duckdb(request.getfixturevalue("duck"))
        if home == "ibis":
            return _left_in_duckdb(request.getfixturevalue("through_ibis").con)
        return _left_in_postgres(request.getfixturevalue("database"))

    before = names()

    def left() -> list[str]:
        return [name for name in names() if name not in before]

    dpgap.top_k(table, **ASK, domain=domain, k=3, epsilon="0.01")
    assert left() == []
    dpgap.above(table, **ASK, domain=domain, threshold=9, k=2, epsilon=1)
    assert left() == []
    for wrong in ({"k": len(domain) + 1}, {"k": 1, "epsilon": "1e-99"}):
        with pytest.raises(ValueError, match=r"must be|at most"):
            dpgap.top_k(table, **ASK, domain=domain, **{"epsilon": 1} | wrong)
        assert left() == []
    answers = _answers(table, domain)
    assert len(left()) == 1
    dpgap.top_k(answers, k=2, epsilon=1)
    answers.close()
    answers.close()
    assert left() == []
    answers = _answers(table, domain)
    del answers
    gc.collect()
    assert left() == []


def test_spark_lets_go_of_what_was_frozen(spark: Any) -> None:
    def kept() -> int:
        return int(spark.sparkContext._jsc.getPersistentRDDs().size())

    before = kept()
    table = spark.createDataFrame(ROWS[:50], "who bigint, what bigint")
    answers = _answers(table, range(10**12))
    assert kept() == before + 1
    answers.close()
    assert kept() == before


def test_a_count_that_fails_half_way_leaves_nothing(
    duck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise RuntimeError("secret")

    for stage, domain in (("_collect", range(400)), ("list_items", ["7"])):
        with monkeypatch.context() as patch:
            patch.setattr(DuckDB, stage, failing)
            with pytest.raises(ValueError, match="could not be read") as refusal:
                dpgap.top_k(duck.table("sold"), **ASK, domain=domain, k=1, epsilon=1)
        assert "secret" not in str(refusal.value)
        assert refusal.value.__context__ is None
        assert _left_in_duckdb(duck) == []


def test_closed_answers_are_refused_before_any_charge(duck: Any, account: LedgerAccount) -> None:
    answers = _answers(duck.table("sold"), range(ITEMS))
    answers.close()
    asks = (
        lambda: dpgap.top_k(answers, k=1, epsilon=1, account=account),
        lambda: dpgap.above(answers, threshold=1, k=1, epsilon=1, account=account),
        lambda: dpgap.SparseVector(1, 1, 1).release(answers, account=account),
        lambda: dpgap.Laplace(1).release(answers, account=account),
    )
    for ask in asks:
        with pytest.raises(ValueError, match="were closed"):
            ask()
    assert account.balance.number == 0


def test_answers_in_an_engine_are_not_copied_and_show_nothing(duck: Any) -> None:
    answers = _answers(duck.table("sold"), range(ITEMS))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(answers)
    assert repr(answers) == f"<private answers: {ITEMS} items, sensitivity 1, monotonic>"
    assert f"{answers}" == str(answers) == repr(answers)


@pytest.fixture
def forked(duck: Any) -> Iterator[CountsInEngine]:
    """Answers that a child process has seen, refused, and let go."""
    answers = _answers(duck.table("sold"), range(ITEMS))
    child = os.fork()
    if not child:
        try:
            answers.groups()
        except ValueError as refusal:
            answers.close()
            os._exit(0 if "forked" in str(refusal) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    yield answers
    answers.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_neither_use_nor_close_them(forked: CountsInEngine) -> None:
    assert set(dpgap.top_k(forked, k=3, epsilon=9000).labels or ()) == BEST


# Facts


def test_facts_are_checked_on_every_path(duck: Any, account: LedgerAccount) -> None:
    answers = dpgap.counts(duck.table("sold"), **ASK, domain=range(ITEMS), neighbours="replace")
    asks: list[Any] = [
        dpgap.NoisyTopK(1, 1, monotonic=True),
        dpgap.NoisyMax(1, sensitivity="1/2"),
        dpgap.SparseVector(1, 1, 1, monotonic=True),
        dpgap.AdaptiveSparseVector(1, 1, 1, sensitivity="1/2"),
        dpgap.MeasuredTopK(1, 1, monotonic=True),
        dpgap.MeasuredAbove(1, 1, 1, sensitivity="1/2"),
        dpgap.CountHull(1, monotonic=True),
        dpgap.Laplace(1, sensitivity="1/2"),
    ]
    for mechanism in asks:
        with pytest.raises(ValueError, match=r"monotonic must be False|sensitivity must be"):
            mechanism.release(answers, account=account)
    assert account.balance.number == 0
    answers.close()


def test_staircase_noise_and_all_values_at_once_need_a_domain_that_can_be_written_out(
    duck: Any, account: LedgerAccount
) -> None:
    answers = _answers(duck.table("sold"), range(10**12))
    for mechanism in (dpgap.NoisyTopK(1, 1, noise="staircase"), dpgap.Laplace(1)):
        with pytest.raises(ValueError, match="at most 100,000,000 items"):
            mechanism.release(answers, account=account)
    assert account.balance.number == 0
    few = _answers(duck.table("sold"), range(ITEMS))
    best = dpgap.NoisyTopK(3, 9000, noise="staircase").release(few)
    assert set(best.labels or ()) == BEST


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # Ibis with pandas 3
def test_tables_of_sqlite_have_streams_and_exact_sums(account: LedgerAccount) -> None:
    database = ibis.sqlite.connect()
    table = database.create_table("sold", arrow("bigint", "bigint", ROWS))
    answers = dpgap.counts(table, unit="who", item="what", domain=[*range(ITEMS)])
    assert set(dpgap.top_k(answers, k=3, epsilon=9000).labels or ()) == BEST
    above = dpgap.above(answers, threshold=1, k=1, epsilon=9000, account=account)
    assert account.spent == 9000
    assert set(above.labels or ()) <= {*range(ITEMS)}
    ask: dict[str, Any] = {"unit": "row", "item": "who", "domain": [1, 2], "sum": "what"}
    paid = database.create_table("paid", arrow("bigint", "bigint", [(1, 2), (2, 5)]))
    assert dpgap.counts(paid, **ask, at_most=3).expanded().tolist() == [200, 300]
    database.disconnect()
