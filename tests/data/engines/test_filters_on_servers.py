"""Filters keep the same rows in databases as anywhere else, whatever collations say."""

import re
from datetime import UTC, datetime
from typing import Any

import ibis
import narwhals as nw
import pyarrow
import pytest
import sqlglot

import dpgap
from dpgap.data.filtering import keep
from dpgap.data.query import keep_range, number_in, steps_of
from dpgap.filter_language import read_filter
from dpgap.question import Counting, read_counting
from filter_reference import (
    Condition,
    arrow_table,
    kept_rows,
    matches,
    rich_rows,
    single_comparisons,
    spelled,
)
from seams import quick_in

SPARK = (
    "at bigint, id bigint, small smallint, float double, `short float` float, price decimal(10,2), "
    "long decimal(38,10), text string, dated string, flag boolean, day date, time timestamp_ntz, "
    "zoned timestamp"
)


def _check(native: Any, rows: list[dict[str, Any]], conditions: list[Condition]) -> None:
    texts = [spelled(condition) for condition in conditions]
    for text, condition, found in zip(texts, conditions, kept_rows(native, texts), strict=True):
        assert found == [at for at, row in enumerate(rows) if matches(condition, row)], text


@pytest.mark.parametrize("part", quick_in(range(3), {0}))
def test_postgresql_keeps_the_rows_that_plain_python_keeps(database: Any, part: int) -> None:
    rows = rich_rows()
    table = database.create_table("filtered", arrow_table(rows), overwrite=True)
    _check(table, rows, single_comparisons()[part::3])


def test_spark_keeps_the_rows_that_plain_python_keeps(spark: Any) -> None:
    rows = rich_rows()
    listed = [tuple(row.values()) for row in arrow_table(rows).to_pylist()]
    _check(spark.createDataFrame(listed, SPARK), rows, single_comparisons()[::11])


def test_what_only_postgresql_has_is_compared_alike(database: Any) -> None:
    database.raw_sql(
        """CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TABLE odd (at bigint, padded char(5), any_size numeric, cents numeric(5, 2),
            short real, mood mood, seconds timestamptz(0));
        INSERT INTO odd VALUES
            (0, 'ab', 'NaN', 'NaN', 0.1, 'ok', '2024-01-31 12:00Z'),
            (1, 'ab', 'Infinity', 2, 'NaN', 'sad', '2024-01-31 12:00:01Z'),
            (2, NULL, 1e500, NULL, NULL, NULL, NULL),
            (3, 'b', 0.1, 0.10, 1, 'ok', 'infinity')"""
    ).close()
    expected = {
        "padded = 'ab'": [0, 1],
        "padded = 'ab   '": [],
        "padded > 'ab'": [3],
        "any_size > 10": [1, 2],
        "not any_size > 10": [0, 3],
        "any_size in (0.1, 1e200)": [3],
        "cents >= 0.095": [1, 3],
        "not cents != 2": [0, 1, 2],
        "short = 0.1": [0],
        "short >= 0": [0, 3],
        "mood = 'ok'": [0, 3],
        "mood < 'p'": [0, 3],
        "mood = 'nobody knows'": [],
        "seconds >= '2024-01-31 12:00:00.5'": [1, 3],
        "seconds = '2024-01-31 13:00:01+01:00'": [1],
    }
    assert kept_rows(database.table("odd"), list(expected)) == list(expected.values())


def test_no_collation_of_postgresql_orders_text(database: Any) -> None:
    frame = nw.from_native(database.create_table("ordered", pyarrow.table({"x": ["a", "B"]})))
    query = str(ibis.to_sql(keep(frame, read_filter("x < 'b' or x >= 'c'")).to_native()))
    assert len(re.findall("CONVERT_TO", query, re.IGNORECASE)) == 4
    assert not re.search(r'"x"\s*[<>]', query)


def test_no_pattern_is_looked_for_in_text_that_may_be_long() -> None:
    """PostgreSQL refuses to look for one in 256 MB: length comes first, in a CASE of its own."""
    rows = nw.from_native(ibis.table({"item": "string", "amount": "string"}, name="sold"))
    summed = read_counting(Counting(sum="amount", at_most=1))
    for asked in (
        number_in(nw.col("item"), nw.Implementation.IBIS),
        steps_of(rows, summed),
        keep_range(rows, nw.String(), range(9)),
    ):
        made = rows.select(asked) if isinstance(asked, nw.Expr) else asked
        query = str(ibis.to_sql(made.to_native(), dialect="postgres"))
        sql = sqlglot.parse_one(query, dialect="postgres")
        patterns = list(sql.find_all(sqlglot.exp.RegexpLike))
        assert len(patterns) == 2
        assert {type(each.this.unnest()) for each in patterns} == {sqlglot.exp.Case}


@pytest.mark.long
def test_text_of_270_megabytes_is_no_number(database: Any) -> None:
    database.raw_sql(
        """CREATE TABLE long_text AS SELECT 1 AS who, '7' AS what, '3' AS paid
        UNION ALL SELECT 2, repeat('7', 270000000), repeat('3', 270000000)"""
    ).close()
    ask: dict[str, Any] = {"unit": "who", "item": "what", "domain": range(9)}
    for more in ({}, {"sum": "paid", "at_most": 9}, {"where": "paid > 1"}):
        found = dpgap.counts(database.table("long_text"), **ask, **more).expanded()
        assert found.nonzero()[0].tolist() == [7]


@pytest.mark.parametrize("home", ["postgres", pytest.param("spark", marks=pytest.mark.long)])
def test_hundreds_of_parts_are_no_problem(home: str, request: pytest.FixtureRequest) -> None:
    if home == "spark":
        rows = [(0, 5, "7"), (1, 500, "x")]
        table = request.getfixturevalue("spark").createDataFrame(
            rows, "at bigint, id int, text string"
        )
    else:
        columns = {"at": [0, 1], "id": [5, 500], "text": ["7", "x"]}
        table = request.getfixturevalue("database").create_table(
            "many parts", pyarrow.table(columns)
        )
    many = " or ".join(f"id={number}" for number in range(2, 200))
    listed = f"text in ({', '.join(map(str, range(2, 400)))})"
    ordered = " or ".join(f"text < 'a{number}'" for number in range(200))
    assert kept_rows(table, [many, listed, ordered]) == [[0], [0], [0]]


def test_the_time_zone_of_spark_decides_nothing(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    rows = [(0, datetime(2024, 1, 31, 11, tzinfo=UTC)), (1, datetime(2024, 1, 31, 13, tzinfo=UTC))]
    texts = ["x >= '2024-01-31 12:00'", "x = '2024-01-31T12:00+01:00'", "y < '2024-01-31 11:30'"]
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        table = spark.createDataFrame(rows, "at bigint, x timestamp")
        table = table.selectExpr("at", "x", "CAST(x AS timestamp_ntz) AS y").localCheckpoint()
        spark.conf.set("spark.sql.session.timeZone", "America/Lima")
        assert kept_rows(table, texts) == [[1], [0], [0]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_collation_of_spark_that_merges_texts_is_refused(spark: Any) -> None:
    table = spark.sql("SELECT 0 AS at, 'a' COLLATE UTF8_LCASE AS x WHERE false")
    with pytest.raises(ValueError, match="column 'x' must tell different texts apart"):
        kept_rows(table, ["x < 'b'"])
