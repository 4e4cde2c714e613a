"""An engine groups rows by what is read of them, or refuses the column by its type.

Each column has values that engines print, store or compare in several ways. What plain Python reads
of a row says its item (`form_of`). So counts are those of the rows that were read, and a refusal is
the same if there are no rows.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pandas
import polars
import pyarrow
import pytest

import dpgap
from dpgap.data.values import form_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
    pytest.mark.filterwarnings("ignore:domain is taken as it is written"),
]

TEXTS = ["'a'", "'A'", "'a '", "'á'", "'a\u0301'", "'ß'", "'ss'", "''", "'7'", "'7.0'"]
WHOLE = ["1", "2", "1"]
FLOATS = ["1", "-0.0", "0.0", "'NaN'", "16777217", "1.5"]
MOMENTS = ["'2024-01-01 12:00+00'", "'2024-01-01 13:00+01'", "'2024-01-01'"]
OF_DATABASES = {
    "smallint": WHOLE,
    "integer": WHOLE,
    "bigint": ["1", "9007199254740993", "9007199254740992"],
    "real": FLOATS,
    "double precision": FLOATS,
    "boolean": ["true", "false", "true"],
    "numeric(9, 2)": ["1.0", "1.00"],
    "numeric(9, 0)": ["1.0", "1.00"],
    "text": TEXTS,
    "varchar(9)": TEXTS,
    "date": ["'2024-01-01'"],
    "timestamp": ["'2024-01-01'"],
    "timestamptz": MOMENTS[:2],
    "time with time zone": ["'12:00:00+00'", "'13:00:00+01'"],
    "interval": ["'1 day'", "'24 hours'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "integer[]": ["'{1}'"],
}
OF_DUCKDB = OF_DATABASES | {
    "VARCHAR COLLATE NOCASE": TEXTS,
    "VARCHAR COLLATE NOACCENT": TEXTS,
    "VARCHAR COLLATE NFC": TEXTS,
    "VARCHAR COLLATE C": TEXTS,
    "CHAR(4)": TEXTS,
    "ENUM ('fig', 'pea')": ["'fig'", "'pea'", "'fig'"],
    "UBIGINT": ["1", "18446744073709551615"],
    "HUGEINT": ["1", "170141183460469231731687303715884105727"],
    "UHUGEINT": ["1", "340282366920938463463374607431768211455"],
    "JSON": ["'1'", "'1.0'", "' 1'"],
    "BLOB": ["'a'"],
    "BIT": ["'101'", "'0101'"],
    "integer[]": ["[1]"],
    "STRUCT(a DOUBLE)": ["{'a': -0.0}", "{'a': 0.0}"],
    "MAP(INTEGER, DOUBLE)": ["MAP {1: -0.0}", "MAP {1: 0.0}"],
    "UNION(a INTEGER, b VARCHAR)": ["1", "'1'"],
}
OF_POSTGRES = OF_DATABASES | {
    "numeric": ["1.0", "1.00", "'NaN'"],
    "char(4)": ["'a'", "'a '", "'A'"],
    "name": TEXTS,
    '"char"': ["'a'", "'\\200'", "'\\201'"],
    "fruit": ["'fig'", "'pea'", "'fig'"],
    "whole": WHOLE,
    "words": TEXTS,
    "padded": ["'a'", "'a '"],
    'text COLLATE "C"': TEXTS,
    "text COLLATE flagged": TEXTS,
    "words COLLATE flagged": TEXTS,
    "oid": WHOLE,
    "money": WHOLE,
    "jsonb": ["'1'", "'1.0'"],
    "bytea": ["'a'"],
    "bit(3)": ["B'101'"],
    "int4range": ["'[1,2)'", "'[1,1]'"],
    "tsvector": ["'a b'", "'b a'"],
    "vector(2)": ["'[0,0]'", "'[-0,0]'"],
}


def _counts(table: Any, domain: Any) -> list[int]:
    answers = dpgap.counts(table, unit="who", item="what", domain=domain)
    counts: list[int] = answers.expanded().tolist()
    answers.close()
    return counts


def _outcome(table: Any, domain: Any) -> list[int] | str:
    """The counts, or why the column is refused."""
    try:
        return _counts(table, domain)
    except ValueError as refusal:
        return str(refusal)


def _check(table: Any, empty: Any, values: list[Any]) -> bool:
    """Compare counts with the values that were read; whether the type was refused."""
    read = Counter(text for text in map(form_of, values) if text is not None)
    domain = [text for text in read if "." not in text or isinstance(values[0], str)] or ["none"]
    outcome = _outcome(table, domain)
    outcome_without_rows = _outcome(empty, domain)
    if isinstance(outcome, str):
        assert outcome == outcome_without_rows
        return True
    assert outcome_without_rows == [0] * len(domain)
    assert outcome == [read[text] for text in domain]
    if "1" in read:
        assert _counts(table, range(9)) == [read[str(number)] for number in range(9)]
    return False


COUNTED = {"text", "varchar(9)", "bigint", "double precision", "boolean"}


def _of_database(run: Callable[[str], Any], table: Callable[[str], Any], kinds: Any) -> None:
    refused = set()
    for place, (kind, values) in enumerate(kinds.items()):
        for name, rows in ((f"some_{place}", values), (f"none_{place}", [])):
            run(f"CREATE TABLE {name} (who integer, what {kind})")
            for unit, value in enumerate(rows):
                run(f"INSERT INTO {name} VALUES ({unit}, {value})")
        # Without pytz, DuckDB gives Python no times with a zone; they are no items.
        read = [] if kind == "timestamptz" else run(f"SELECT what FROM some_{place}").fetchall()
        items = [value for (value,) in read]
        if kind == "char(4)":  # padding is no part of what was put in
            items = [value.rstrip(" ") for value in items]
        if _check(table(f"some_{place}"), table(f"none_{place}"), items):
            refused.add(kind)
    assert not refused & COUNTED
    assert refused >= {kind for kind in kinds if "NO" in kind or "NFC" in kind or "flagged" in kind}


def test_duckdb_groups_what_is_read() -> None:
    database = duckdb.connect()
    _of_database(database.execute, database.table, OF_DUCKDB)


def test_duckdb_through_ibis_groups_what_is_read() -> None:
    database = ibis.duckdb.connect()
    _of_database(database.raw_sql, database.table, OF_DUCKDB)


@pytest.mark.parametrize("is_file", [False, True], ids=["relation", "file"])
def test_json_in_duckdb_is_text_and_no_row_decides_whether_it_is_refused(
    tmp_path: Path, is_file: bool
) -> None:
    """DuckDB compares JSON with text as JSON, and fails on the text of a domain that is none."""
    database = duckdb.connect()
    database.execute("CREATE TABLE sold (who INTEGER, what JSON, fruit VARCHAR)")
    database.execute("CREATE TABLE names AS SELECT '1'::JSON AS name")
    outcomes = []
    for rows in ("(1, '1', 'fig')", "(2, '\"a\"', 'fig'), (2, NULL, 'fig')"):
        database.execute(f"INSERT INTO sold SELECT * FROM (VALUES {rows}) WHERE {not outcomes}")
        database.execute(f"INSERT INTO sold VALUES {rows}")
        table: Any = database.table("sold")
        if is_file:
            table = tmp_path / "sold.parquet"
            database.execute(f"COPY sold TO '{table}'")
        ask: dict[str, Any] = {"unit": "who", "item": "fruit", "domain": ["fig"]}
        by_land = dpgap.counts(table, **ask, by="what", groups=["a", 1], max_groups=1)
        outcomes.append(
            (
                _counts(table, ["a", '"a"', 1]),
                [_counts(table, range(3)), by_land[1].expanded().tolist()],
                [
                    dpgap.counts(table, **ask, where=where).expanded().tolist()
                    for where in ("what = 'a'", "what != '\"a\"'", "what = true", "what < 'b'")
                ],
            )
        )
        if not is_file:
            found = dpgap.counts(table, unit="who", item="what", domain=database.table("names"))
            assert found.expanded().tolist() == [1]
    assert outcomes == [
        ([0, 0, 1], [[0, 1, 0], [1]], [[0], [1], [0], [1]]),
        ([0, 1, 1], [[0, 1, 0], [1]], [[0], [1], [0], [2]]),
    ]


def test_postgresql_groups_what_is_read(database: Any) -> None:
    """Its collations that do not compare by bytes need ICU; here one is marked as such."""
    for query in (
        "CREATE SCHEMA groups",
        "SET search_path = groups, public",
        "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public",
        "CREATE TYPE fruit AS ENUM ('fig', 'pea')",
        "CREATE DOMAIN whole AS integer",
        "CREATE DOMAIN words AS text",
        "CREATE DOMAIN padded AS char(4)",
        'CREATE COLLATION flagged FROM "POSIX"',
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'flagged'",
    ):
        database.raw_sql(query).close()
    try:
        _of_database(
            database.raw_sql, lambda name: database.table(name, database="groups"), OF_POSTGRES
        )
    finally:
        database.raw_sql("SET search_path = DEFAULT").close()


def test_units_that_are_enumerations_of_postgresql_can_be_bounded(database: Any) -> None:
    for query in (
        "CREATE TYPE person AS ENUM ('ann', 'bob')",
        "CREATE TABLE visits (who person, what text, place char(4))",
        "INSERT INTO visits VALUES ('ann', 'a', 'x'), ('ann', 'b', 'x'), ('bob', 'a', 'x ')",
    ):
        database.raw_sql(query).close()
    ask: dict[str, Any] = {"item": "what", "domain": ["a", "b"], "max_items": 1}
    for unit, units in (("who", 2), ("place", 1)):
        counts = dpgap.counts(database.table("visits"), unit=unit, **ask).expanded()
        assert sum(counts) == units


def test_spark_groups_what_is_read(spark: Any) -> None:
    columns = {
        "texts": ("string", ["'a'", "'a '", "'á'", "'a\u0301'", "'7'"]),
        "raw": ("string", ["cast(X'ff' as string)", "cast(X'fe' as string)", "'\ufffd'"]),
        "floats": ("double", ["-0.0D", "0.0D", "'NaN'", "1.5D", "7"]),
        "lcase": ("string collate UTF8_LCASE", ["'a'", "'A'"]),
        "rtrim": ("string collate UTF8_BINARY_RTRIM", ["'a'", "'a '"]),
        "lists": ("array<double>", ["array(-0.0D)", "array(0.0D)"]),
    }
    refused = set()
    for name, (kind, values) in columns.items():
        listed = ", ".join(
            f"({unit}, cast({value} AS {kind}))" for unit, value in enumerate(values)
        )
        table = spark.sql(f"SELECT * FROM VALUES {listed} AS t(who, what)")
        read = [row[0] for row in table.select("what").collect()]
        if name == "raw":  # bytes that are no text are read as U+FFFD
            read = [None, None, "\ufffd"]
        if _check(table, table.where("false"), read):
            refused.add(name)
    assert refused == {"lcase", "rtrim", "lists"}


def test_different_bytes_that_spark_reads_as_one_text_are_no_items(spark: Any) -> None:
    rows = ", ".join(f"({unit}, cast(X'f{unit % 2}' AS string))" for unit in range(200))
    table = spark.sql(f"SELECT * FROM VALUES {rows} AS t(who, what)")
    found = dpgap.top_k(table, unit="who", item="what", k=3, max_items=1, delta=0.01, epsilon=900)
    assert found.labels == ()


FRAMES: dict[str, pyarrow.Array] = {
    "texts": pyarrow.array(["a", "A", "a ", "á", "a\u0301", "7", "7\0", ""]),
    "large texts": pyarrow.array(["a", "A", "7"], pyarrow.large_string()),
    "coded": pyarrow.array(["a", "A", "a"]).dictionary_encode(),
    "whole": pyarrow.array([1, 2**53 + 1, 2**53, 1], pyarrow.int64()),
    "unsigned": pyarrow.array([1, 2**64 - 1], pyarrow.uint64()),
    "floats": pyarrow.array([-0.0, 0.0, float("nan"), 1.5, 7.0]),
    "short floats": pyarrow.array([-0.0, 0.0, 16777217.0, 7.0], pyarrow.float32()),
    "truths": pyarrow.array([True, False, True]),
    "decimals": pyarrow.array([Decimal("1.0"), Decimal("1.00")]),
    "days": pyarrow.array([date(2024, 1, 1)]),
    "zoned": pyarrow.array([datetime(2024, 1, 1, 12, tzinfo=UTC)]),
    "bytes": pyarrow.array([b"a"]),
    "lists": pyarrow.array([[-0.0], [0.0]]),
    "views": pyarrow.array(["a", "A", None, "7"], pyarrow.string_view()),
    "coded floats": pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0, 1, 2, 3, 4]), pyarrow.array([-0.0, 0.0, float("nan"), 1.5, 7.0])
    ),
    "coded with NULL": pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0, 1, 2, 3]), pyarrow.array(["a", None, "7", "a"])
    ),
}
WAYS: dict[str, Callable[[pyarrow.Table], Any]] = {
    "pyarrow": lambda table: table,
    "polars": polars.from_arrow,
    "polars, lazy": lambda table: polars.DataFrame(polars.from_arrow(table)).lazy(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}


@pytest.mark.parametrize("way", WAYS)
def test_frames_group_what_is_read(way: str) -> None:
    refused = set()
    for name, column in FRAMES.items():
        units = pyarrow.array(range(len(column)))
        table = pyarrow.table({"who": units, "what": column})
        if _check(WAYS[way](table), WAYS[way](table.slice(0, 0)), column.to_pylist()):
            refused.add(name)
    assert refused <= {"decimals", "days", "zoned", "bytes", "lists"}


def test_filters_of_pandas_read_views_and_coded_values() -> None:
    for name, where, kept in (
        ("views", "what is null", 1),
        ("views", "what = 'a'", 1),
        ("coded with NULL", "what is null", 1),
        ("coded floats", "what = 0", 2),
    ):
        column = FRAMES[name]
        table = pyarrow.table(
            {"who": range(len(column)), "what": column, "land": ["ch"] * len(column)}
        )
        for rows, units in ((table, kept), (table.slice(0, 0), 0)):
            frame = rows.to_pandas(types_mapper=pandas.ArrowDtype)
            found = dpgap.counts(frame, unit="who", item="land", domain=["ch"], where=where)
            assert found.expanded().tolist() == [units]
