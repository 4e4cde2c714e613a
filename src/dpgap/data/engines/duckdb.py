"""DuckDB as an engine: temporary tables on the connection that a relation belongs to.

DuckDB spills to disk, so a table may be larger than memory. If members are looked up one by one,
tables are read in the order in which they were written; or by item, if the user has told DuckDB not
to keep this order.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import duckdb

from dpgap.data.engines.base import FEW, Batch, Engine, Member, Row, fresh_name, lazy
from dpgap.data.sources import Lazy


class DuckDB(Engine):
    """The connection of a relation."""

    def __init__(self, relation: Any) -> None:
        Engine.__init__(self)
        self._relation = relation

    def freeze(self, frame: Lazy) -> Lazy:
        name, view = fresh_name(), fresh_name()
        _run(frame.to_native(), f"CREATE TEMP TABLE {name} AS SELECT * FROM {view}", view)
        return lazy(_run(self._relation, f"SELECT * FROM {name}").set_alias(name))

    def _drop(self, frozen: Lazy) -> None:
        _run(self._relation, f"DROP TABLE IF EXISTS {frozen.to_native().alias}")

    def list_items(self, items: Sequence[str | None] | Sequence[int | None]) -> Lazy:
        kind = "BIGINT" if any(isinstance(each, int) for each in items) else "VARCHAR"
        nul = secrets.token_hex(8)  # DuckDB takes no NUL in JSON
        plain = [each.replace("\0", nul) if isinstance(each, str) else each for each in items]
        text = json.dumps(plain, ensure_ascii=False).replace("'", "''")
        item = f"unnest(CAST('{text}'::JSON AS {kind}[]))"
        if nul in text:
            item = f"replace({item}, '{nul}', chr(0))"
        position = f"unnest(range({len(items)})) AS position"
        return lazy(_run(self._relation, f"SELECT {item} AS item, {position}"))

    def shuffled(self, frame: Lazy, salt: str) -> Lazy:
        return lazy(frame.to_native().order(f"md5(concat('{salt}', item))"))

    def keep_few(self, frame: Lazy, cells: Sequence[str], most: int, key: str) -> Lazy:
        own = ", ".join(f'"{name}"' for name in cells)
        # The outer hash makes all orders of a unit's cells equally likely.
        order = f"hash(hash('{key}', {len(cells)}, unit, {own})), {own}"
        rank = f"dense_rank() OVER (PARTITION BY unit ORDER BY {order}) AS rank"
        ranked = frame.to_native().project(f"*, {rank}").filter(f"rank <= {most}")
        return lazy(ranked.project("* EXCLUDE (rank)"))

    def _collect(self, native: Any) -> list[Row]:
        rows: list[Row] = native.fetchall()
        return rows

    def _batches(self, frame: Lazy, size: int) -> Iterator[Batch]:
        frozen = self.freeze(frame)  # in order, so that pages are ranges of rows
        try:
            for start in count(0, size):
                page = f"WHERE rowid >= {start} AND rowid < {start + size}"
                rows = _run(self._relation, f"SELECT * FROM {frozen.to_native().alias} {page}")
                columns: Batch = rows.fetchnumpy()
                if not columns["units"].size:
                    return
                yield columns
        finally:
            self.drop(frozen)

    def _members(self, native: Any, wanted: Sequence[Member]) -> list[Row]:
        look_up = self._one_by_one if len(wanted) <= FEW else self._numbered
        return self._collect(_run(self._relation, look_up(f"({native.sql_query()})", wanted)))

    def _one_by_one(self, rows: str, wanted: Sequence[Member]) -> str:
        setting = _run(self._relation, "SELECT current_setting('preserve_insertion_order')")
        ((keeps_order,),) = setting.fetchall()
        order = "" if keeps_order else "ORDER BY item"
        return " UNION ALL ".join(
            f"(SELECT item, units, {place} AS place FROM {rows} WHERE units = {units} "
            f"{order} LIMIT 1 OFFSET {place})"
            for units, place in wanted
        )

    def _numbered(self, rows: str, wanted: Sequence[Member]) -> str:
        counts, places = map(list, zip(*wanted, strict=True))
        return f"""
            WITH wanted AS MATERIALIZED
                (SELECT unnest({counts}) AS units, unnest({places}) AS place)
            SELECT item, units, place
            FROM (SELECT item, units, row_number() OVER (PARTITION BY units) - 1 AS place
                FROM {rows} WHERE units IN (SELECT units FROM wanted))
            JOIN wanted USING (units, place)"""


def _run(relation: Any, query: str, view: str = "dpgap_unused") -> Any:
    """Run a query on the connection of a relation; the query can use the relation as `view`.

    DuckDB 1 makes a view for this, and does not drop it; the second query makes it once more and
    drops it.
    """
    try:
        return relation.query(view, query)
    finally:
        with suppress(Exception):
            if duckdb.__version__.startswith("1."):
                relation.query(view, f"DROP VIEW IF EXISTS {view}")
