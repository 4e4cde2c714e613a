"""Every engine counts awkward rows as pandas does, and refuses what does not fit together."""

from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals as nw
import numpy as np
import pyarrow
import pytest

import dpgap
from awkward_rows import ROWS
from dpgap.budget.ledger import LedgerAccount
from dpgap.data.engines.counted import CountsInEngine
from engine_tables import ENGINES, Load, arrow

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
    pytest.mark.filterwarnings("ignore:domain is taken as it is written"),
]

everywhere = pytest.mark.parametrize("load", ENGINES, indirect=True)
NAN, INFINITE = float("nan"), float("inf")
LINE_BREAKS = ["7\u2028", "7\u0085", "\u20287", "7\r", "7\x0b", "-"]
SPELLINGS = [
    "7",
    "7",
    "07",
    "7\n",
    *LINE_BREAKS,
    " 7",
    "+7",
    "7 ",
    "-0",
    "0",
    "-3",
    "8.0",
    "9" * 30,
    "",
    None,
]
EDGES = [(4, 2**53), (5, 2**53 + 1), (6, -(2**63)), (7, 2**63 - 1)]
TINY = [(1.0, 5e-324), (2.0, -1e-17), (3.0, 1e-17)]
EXTREMES = [(5.0, -0.0), (5.0, 0.0), *TINY, (6.0, 1.5), (7.0, 1e16), (8.0, 1e300), (4.0, INFINITE)]

# Types of the columns, rows, and domains in which each value is looked for.
TABLES: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "text": (
        "string",
        "string",
        [
            *ROWS,
            ("'; DROP TABLE sold; --", '"'),
        ],
        [["fig", "pea", "oat", "", "žluťoučký 🍐", "Fig", '"', "\ud800", "$1", "{}"]],
    ),
    "spellings of numbers": (
        "bigint",
        "string",
        list(enumerate(SPELLINGS)),
        [range(8, -6, -1), [7, "07", "7\n", " 7", "-0", 0, "9" * 30], range(-3, 10, 5)],
    ),
    "whole numbers": (
        "bigint",
        "bigint",
        [
            (1, 10),
            (1, 10),
            (2, 10),
            (None, 10),
            (3, None),
            (3, 12),
            (2**53 + 1, 12),
            (2**53, 12),
            *EDGES,
        ],
        [range(10, 13), ["12", 10, 2**53 + 1, 2**53], range(2**53, 2**53 + 3)],
    ),
    "floats": (
        "double",
        "double",
        [
            (1.0, 7.0),
            (2.0, 7.0),
            (NAN, 7.0),
            (3.0, NAN),
            *EXTREMES,
            (-0.0, 7.0),
            (0.0, 7.0),
            (INFINITE, 7.0),
        ],
        [range(10), [7, 0, 10**16, 2], range(10**16 - 2, 10**16 + 3, 2)],
    ),
    "true and false": (
        "smallint",
        "boolean",
        [(1, True), (2, True), (2, True), (3, False), (4, None), (None, True)],
        [[True, False, "maybe"], ["false", "true"]],
    ),
}


def _in_memory(name: str, domain: Any) -> list[int]:
    who, what, rows, _ = TABLES[name]
    table = arrow(who, what, rows)
    return dpgap.counts(table, unit="who", item="what", domain=domain).expanded().tolist()


@everywhere
@pytest.mark.parametrize("name", TABLES)
def test_every_engine_counts_as_in_memory(load: Load, name: str) -> None:
    who, what, rows, domains = TABLES[name]
    table = load(who, what, rows)
    # Spark takes a second for what others do at once.
    for domain in domains[:2] if hasattr(table, "sparkSession") else domains:
        answers = dpgap.counts(table, unit="who", item="what", domain=domain)
        assert isinstance(answers, CountsInEngine)
        assert answers.expanded().tolist() == _in_memory(name, domain), domain
        answers.close()


@everywhere
def test_rows_and_large_ranges_and_what_was_observed(load: Load) -> None:
    who, what, rows, _ = TABLES["whole numbers"]
    table = load(who, what, rows)
    ask = {"unit": "who", "item": "what"}
    by_row = dpgap.counts(table, unit="row", item="what", domain=range(10, 13))
    assert by_row.expanded().tolist() == [4, 0, 3]
    large = dpgap.counts(table, **ask, domain=range(-(10**12), 10**12))
    assert isinstance(large, CountsInEngine)
    assert (len(large), large.absent, large.ends) == (2 * 10**12, 2 * 10**12 - 2, (0, 3))
    seen = dpgap.counts(table, **ask, domain="observed-not-private")
    assert sorted(seen.expanded().tolist()) == [1, 1, 1, 1, 2, 3]


def _both(home: str, request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A table and a public table of the same engine."""
    rows, public = [(1, 7), (2, 7), (3, 8), (3, 99)], "SELECT * FROM (VALUES {}) t(item)"
    values = public.format("(7), (8), (9), (9), (NULL)")
    if home == "duckdb":
        connection = duckdb.connect()
        return connection.from_arrow(arrow("bigint", "bigint", rows)), connection.sql(values)
    server = request.getfixturevalue({"postgres": "database", "spark": "spark"}[home])
    if home == "spark":
        return server.createDataFrame(rows, "who bigint, what bigint"), server.sql(values)
    if "sold_beside" not in server.list_tables():
        server.create_table("sold_beside", arrow("bigint", "bigint", rows))
    return server.table("sold_beside"), server.sql(values)


@pytest.mark.parametrize("home", ["duckdb", "postgres", "spark"])
def test_a_table_of_the_engine_is_a_domain(home: str, request: pytest.FixtureRequest) -> None:
    table, public = _both(home, request)
    ask: dict[str, Any] = {"unit": "who", "item": "what", "domain": public}
    answers = dpgap.counts(table, **ask)
    assert sorted(answers.expanded().tolist()) == [0, 1, 2]
    best = dpgap.NoisyTopK(k=3, epsilon=9000, monotonic=True).release(answers)
    assert best.labels == (7, 8, 9)
    with pytest.raises(ValueError, match="labels must be left out"):
        dpgap.NoisyTopK(k=1, epsilon=1).release(answers, labels=["a", "b", "c"])
    with pytest.raises(ValueError, match="labels must be left out"):
        dpgap.SparseVector(1, 1, 1).release(answers, labels=["a", "b", "c"])
    with pytest.raises(ValueError, match="noise must be"):
        dpgap.NoisyTopK(k=1, epsilon=1, noise="staircase").release(answers)
    answers.close()


def test_a_domain_of_128_bits_is_refused_by_its_type() -> None:
    """Batches of a stream would have it as floats, and name other items."""
    rows = duckdb.sql("SELECT range AS who, range::HUGEINT AS what FROM range(9)")
    domain = duckdb.sql("SELECT range::HUGEINT AS item FROM range(9)")
    with pytest.raises(ValueError, match="domain must be whole numbers of at most 64 bits"):
        dpgap.counts(rows, unit="who", item="what", domain=domain)


def _as(public: Any, column: str) -> Any:
    """One made column instead of a domain's own."""
    if hasattr(public, "selectExpr"):
        return public.selectExpr(f"{column} AS item")
    if hasattr(public, "project"):
        return public.project(f"{column} AS item")
    kind = {"item > 7": "boolean", "1.5": "float64"}[column]
    return public.select(item=public.item.cast(kind))


@pytest.mark.parametrize("home", ["duckdb", "postgres", "spark"])
def test_public_tables_that_do_not_fit_are_refused(
    home: str, request: pytest.FixtureRequest
) -> None:
    table, public = _both(home, request)

    def refused(domain: Any, problem: str) -> None:
        with pytest.raises(ValueError, match=problem):
            dpgap.top_k(table, unit="who", item="what", domain=domain, k=1, epsilon=1)

    empty = public.limit(0)
    refused(empty, "domain must not be empty")
    refused(_as(public, "item > 7"), "text or whole numbers")
    refused(_as(public, "1.5"), "text or whole numbers")
    refused(_both(home, request)[0], "a frame of one column")
    refused(table, "column of the private table itself")


REFUSALS: list[tuple[str, Any, str]] = [
    ("true and false", range(2), "must be a list for an item column of true and false"),
    ("spellings of numbers", range(10**18 + 1), "within ±10"),
    ("whole numbers", ["fig"], "domain has no numbers"),
    ("floats", ["1.5", 7], "must be whole numbers"),
    ("whole numbers", range(0), "must not be empty"),
    ("whole numbers", range(5, 0), "must not be empty"),
    ("whole numbers", range(2**60 + 1), r"at most 2\^60"),
    ("whole numbers", range(2**62, 2**62 + 1), r"within ±2\^62"),
    ("whole numbers", [], "must not be empty"),
    ("whole numbers", [b"7"], "items must be text"),
]


@pytest.mark.parametrize(("name", "domain", "problem"), REFUSALS)
@pytest.mark.parametrize("load", ["duckdb", "postgres"], indirect=True)
def test_domains_that_do_not_fit_are_refused(
    load: Load, name: str, domain: Any, problem: str
) -> None:
    table = load(*TABLES[name][:3])
    with pytest.raises((ValueError, TypeError), match=problem):
        dpgap.counts(table, unit="who", item="what", domain=domain)


def test_text_for_a_column_of_floats_and_two_connections_are_refused() -> None:
    connection = duckdb.connect()
    who, what, rows, _ = TABLES["floats"]
    table = connection.from_arrow(arrow(who, what, rows))
    with pytest.raises(ValueError, match="cast the item column to text"):
        dpgap.counts(table, unit="who", item="what", domain=connection.sql("SELECT '1.5' AS a"))
    elsewhere = duckdb.connect().sql("SELECT 7 AS item")
    with pytest.raises(ValueError, match="of the same connection") as refusal:
        dpgap.counts(table, unit="who", item="what", domain=elsewhere)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize("load", ["duckdb", "ibis", "postgres", "spark"], indirect=True)
def test_columns_that_are_not_there_are_named(load: Load) -> None:
    table = load("string", "string", [("secret", "fig")])
    for columns in ({"unit": "nobody", "item": "what"}, {"unit": "who", "item": "nobody"}):
        with pytest.raises(ValueError, match="no column 'nobody'") as refusal:
            dpgap.counts(table, **columns, domain=["fig"])
        assert "secret" not in str(refusal.value)


def test_the_users_limit_on_rows_does_not_cut_counts_short(tmp_path: Path) -> None:
    path = tmp_path / "sold.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE sold AS SELECT i AS who, i % 50 AS what FROM range(500) t(i)"
        )
    before = ibis.options.sql.default_limit
    try:
        ibis.options.sql.default_limit = 3
        answers = dpgap.counts(
            f"duckdb://{path}?table=sold", unit="who", item="what", domain=range(60)
        )
        assert answers.expanded().tolist() == [10] * 50 + [0] * 10
        answers.close()
    finally:
        ibis.options.sql.default_limit = before


class Foreign:
    """A frame that Narwhals knows, and that no twin has tested."""

    _implementation = nw.Implementation.DASK

    def __narwhals_lazyframe__(self) -> Any:
        return self

    def _with_version(self, _: object) -> Any:
        return self


def test_frames_and_databases_without_twins_are_refused(account: LedgerAccount) -> None:
    rows = pyarrow.table({"who": ["secret", "ann"], "what": ["fig", "fig"]})
    ask: dict[str, Any] = {"unit": "who", "item": "what", "domain": ["fig"]}
    sold = ibis.polars.connect().create_table("sold", rows)
    for table, problem in (
        (sold, "table must be in PostgreSQL, DuckDB or SQLite"),
        (Foreign(), r"table must be a frame \(pandas, Polars, PyArrow, DuckDB, PySpark, Ibis\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=problem):
            dpgap.top_k(table, **ask, k=1, epsilon=1, account=account)
        with pytest.raises((TypeError, ValueError), match=problem):
            dpgap.count(table, unit="who", epsilon=1, account=account)
    assert account.balance.number == 0


# Text that some collation takes for equal


def _named_alike(home: str, request: pytest.FixtureRequest) -> tuple[Any, Any, Any, Any]:
    """A table, and the same with a collation; a public table, and the same with a collation."""
    rows = [("ann", "fig"), ("bob", "fig"), ("cy", "pea")]
    if home == "duckdb":
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE sold (who VARCHAR, what VARCHAR, folded VARCHAR COLLATE NOCASE)"
        )
        connection.executemany("INSERT INTO sold VALUES ($1, $2, $2)", rows)
        sold = connection.table("sold")
        names = connection.sql("SELECT DISTINCT what, folded FROM sold")
        return (
            sold,
            sold.select("who, folded AS what"),
            names.select("what"),
            names.select("folded"),
        )
    spark = request.getfixturevalue("spark")
    sold = spark.createDataFrame(rows, "who string, what string")
    names = spark.createDataFrame([("fig",), ("pea",)], "what string")
    collated = "what COLLATE UTF8_LCASE AS what"
    return sold, sold.selectExpr("who", collated), names, names.selectExpr(collated)


@pytest.mark.parametrize("home", ["duckdb", "spark"])
def test_a_collation_that_merges_texts_is_refused_whatever_the_rows(
    home: str, request: pytest.FixtureRequest
) -> None:
    sold, folded, names, folded_names = _named_alike(home, request)
    ask = {"unit": "who", "item": "what"}
    assert sorted(dpgap.counts(sold, **ask, domain=names).expanded().tolist()) == [1, 2]
    for table, domain, culprit in (
        (sold, folded_names, "domain"),
        (folded, names, "column 'what'"),
        (folded, ["fig", "pea"], "column 'what'"),
    ):
        with pytest.raises(ValueError, match=f"{culprit} must tell different texts apart"):
            dpgap.counts(table, **ask, domain=domain)


def test_the_private_column_in_spark_is_no_domain(spark: Any) -> None:
    sold = spark.createDataFrame([("ann", "fig")], "who string, what string")
    for own in (sold.select("what"), sold.select("what").distinct()):
        with pytest.raises(ValueError, match="a column of the private table itself"):
            dpgap.counts(sold, unit="who", item="what", domain=own)


def test_a_collation_of_the_whole_database_is_refused_as_well() -> None:
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    sold = connection.sql("SELECT 'ann' AS who, 'fig' AS what")
    with pytest.raises(ValueError, match="must tell different texts apart"):
        dpgap.counts(sold, unit="who", item="what", domain=["fig"])


def test_types_of_postgres_that_are_no_text_are_no_items(database: Any) -> None:
    for query in (
        "DROP TABLE IF EXISTS kinds",
        "DROP TYPE IF EXISTS fruit",
        "CREATE TYPE fruit AS ENUM ('fig', 'pea')",
        "CREATE TABLE kinds (who int, words tsvector, fruit fruit, short varchar(9), n name)",
        "INSERT INTO kinds VALUES (1, 'fig', 'fig', 'fig', 'fig')",
    ):
        database.raw_sql(query).close()
    table = database.table("kinds")
    with pytest.raises(ValueError, match="column 'words' must"):
        dpgap.counts(table, unit="who", item="words", domain=["fig", "pea"])
    for item in ("short", "n", "fruit"):
        answers = dpgap.counts(table, unit="who", item=item, domain=["fig", "pea"])
        assert answers.expanded().tolist() == [1, 0]


def test_text_of_a_fixed_width_in_postgres_is_what_was_put_in(database: Any) -> None:
    database.raw_sql("DROP TABLE IF EXISTS padded").close()
    database.raw_sql('CREATE TABLE padded (who int, what char(6), plain text COLLATE "C")').close()
    database.raw_sql(
        "INSERT INTO padded VALUES (1, '7', '7'), (2, '7', '8'), (3, '12', '7')"
    ).close()
    table = database.table("padded")
    for domain in (range(13), [str(each) for each in range(13)], list(range(13))):
        answers = dpgap.counts(table, unit="who", item="what", domain=domain)
        assert np.flatnonzero(answers.expanded()).tolist() == [7, 12]
        assert answers.expanded()[[7, 12]].tolist() == [2, 1]
        answers.close()
    best = dpgap.top_k(
        table, unit="who", item="plain", domain=table.select("what"), k=2, epsilon=9000
    )
    assert best.labels == ("7", "12")
