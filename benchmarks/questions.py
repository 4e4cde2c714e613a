"""Bounded questions about a table against the same questions hand-written in SQL, in DuckDB.

    python benchmarks/questions.py [--json] [--rows 1e7] [--times 5]

A table of sales is generated: ten rows for every unit, ten thousand items, a thousand groups as
text. Each question is asked through `dpgap.counts` up to the private counts, and as one SQL
statement that gives the same bounded numbers, with DuckDB's own hash as the order and `rank`, which
is twice as fast as `row_number` there. The plain query counts units without any bound. Calls take
turns, and medians are shown. The figure to look at: `times_sql`, at most 1.5 for each question.
"""

import argparse
import json
from contextlib import closing
from functools import partial
from typing import Any

import duckdb
from timing import medians

import dpgap

ITEMS, GROUPS = 10_000, 1_000
LANDS = [f"land {number}" for number in range(GROUPS)]
_UNITS = f"SELECT who, what FROM sold WHERE what BETWEEN 0 AND {ITEMS - 1} GROUP BY ALL"

PLAIN = f"SELECT what, count(*) FROM ({_UNITS}) GROUP BY what"

BY_HAND = {
    "reach 3": f"""
        SELECT what, count(*) FROM (SELECT what FROM ({_UNITS})
            QUALIFY rank() OVER (PARTITION BY who ORDER BY hash('key', who, what)) <= 3)
        GROUP BY what""",
    "clipped sums": f"""
        SELECT what, sum(greatest(least(cents, 5000), 0)) FROM (
            SELECT who, what, sum(CAST(floor(paid * 100 + 0.5) AS BIGINT)) AS cents
            FROM sold WHERE what BETWEEN 0 AND {ITEMS - 1} AND isfinite(paid) GROUP BY who, what)
        GROUP BY what""",
    "1,000 groups": f"""
        SELECT land, what, count(*) FROM (
            SELECT land, what FROM (SELECT who, land, what FROM sold JOIN lands USING (land)
                WHERE what BETWEEN 0 AND {ITEMS - 1} GROUP BY ALL)
            QUALIFY dense_rank() OVER (PARTITION BY who ORDER BY hash('key', who, land)) <= 1)
        GROUP BY land, what""",
}

ASKED: dict[str, dict[str, Any]] = {
    "reach 3": {"max_items": 3},
    "clipped sums": {"sum": "paid", "at_most": 50},
    "1,000 groups": {"by": "land", "groups": LANDS},
}


def sold(rows: int) -> Any:
    """A table of sales in a database of its own, where few items have most rows."""
    database = duckdb.connect()
    database.execute(
        f"""CREATE TABLE sold AS SELECT
            CAST(hash(range) % {rows // 10} AS BIGINT) AS who,
            CAST(pow((hash(range + 17) % 1000003) / 1000003.0, 3) * {ITEMS} AS BIGINT) AS what,
            'land ' || (hash(range * 31) % {GROUPS}) AS land,
            (hash(range * 7) % 10000) / 100.0 AS paid
        FROM range({rows})"""
    )
    listed = json.dumps(LANDS)
    database.execute(
        f"CREATE TABLE lands AS SELECT unnest(CAST('{listed}'::JSON AS VARCHAR[])) land"
    )
    return database


def ask(database: Any, options: dict[str, Any]) -> None:
    """Ask through dpgap, up to the private counts."""
    answers = dpgap.counts(
        database.table("sold"), unit="who", item="what", domain=range(ITEMS), **options
    )
    with closing(answers):
        pass


def measure(rows: int, times: int) -> list[dict[str, Any]]:
    """The seconds of every question, asked in both ways."""
    database = sold(rows)
    found = []
    for name, query in BY_HAND.items():
        ours, sql, plain = medians(
            partial(ask, database, ASKED[name]),
            lambda query=query: database.execute(query).fetchnumpy(),
            lambda: database.execute(PLAIN).fetchnumpy(),
            times=times,
        )
        times_of = {"seconds": ours, "sql_seconds": sql, "plain_seconds": plain}
        found.append({"question": name, "rows": rows} | times_of | {"times_sql": ours / sql})
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    found = measure(int(given.rows), given.times)
    if given.json:
        print(json.dumps(found))
        return
    print(f"{'question':<14}{'dpgap s':>9}{'SQL s':>9}{'ratio':>7}{'plain s':>9}")
    for row in found:
        print(
            f"{row['question']:<14}{row['seconds']:>9.2f}{row['sql_seconds']:>9.2f}"
            f"{row['times_sql']:>7.2f}{row['plain_seconds']:>9.2f}"
        )


if __name__ == "__main__":
    main()
