"""DuckDB as an engine: temporary tables on the connection that a relation belongs to.

What does not fit into memory spills to disk, so that a table may be larger than memory. Tables are
read in the order in which they were written, so that places in them stay the same; or by item
where the user has told DuckDB not to keep that order.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import duckdb
import narwhals as nw

from dpgap.engines import Columns, Engine, Row


class DuckDB(Engine):
    """The connection of a relation."""

    def __init__(self, relation: Any) -> None:
        Engine.__init__(self)
        self._relation = relation
        self._tables: dict[int, str] = {}

    def _sql(self, query: str) -> Any:
        return nw.from_native(_asked(self._relation, query))

    def freeze(self, frame: Any) -> Any:
        name, view = _fresh_name(), _fresh_name()
        _asked(frame.to_native(), f"CREATE TEMP TABLE {name} AS SELECT * FROM {view}", view)
        frozen = self._sql(f"SELECT * FROM {name}")
        self._tables[id(frozen.to_native())] = name
        return frozen

    def drop(self, frozen: Any) -> None:
        name = self._tables.pop(id(frozen.to_native()), None)
        with suppress(Exception):  # a connection that is gone has dropped it
            if name is not None:
                _asked(self._relation, f"DROP TABLE IF EXISTS {name}")

    def listed(self, items: Sequence[str | None] | Sequence[int]) -> Any:
        kind = "BIGINT" if items and isinstance(items[0], int) else "VARCHAR"
        nul = secrets.token_hex(8)  # DuckDB takes no NUL in JSON
        plain = [each.replace("\0", nul) if isinstance(each, str) else each for each in items]
        text = json.dumps(plain, ensure_ascii=False).replace("'", "''")
        item = f"unnest(CAST('{text}'::JSON AS {kind}[]))"
        if nul in text:
            item = f"replace({item}, '{nul}', chr(0))"
        return self._sql(f"SELECT {item} AS item, unnest(range({len(items)})) AS position")

    def numbers(self, labels: range) -> Any:
        ends = f"{labels.start}, {labels.stop}, {labels.step}"
        return self._sql(f"SELECT range AS item FROM range({ends})")

    def shuffled(self, frame: Any, salt: str) -> Any:
        name = self._tables[id(frame.to_native())]
        return self._sql(f"SELECT * FROM {name} ORDER BY md5(concat('{salt}', item))")

    def _collect(self, native: Any) -> list[Row]:
        rows: list[Row] = native.fetchall()
        return rows

    def _batches(self, frame: Any, size: int) -> Iterator[Columns]:
        frozen = self.freeze(frame)  # in order, so that pages are ranges of rows
        name = self._tables[id(frozen.to_native())]
        try:
            for start in count(0, size):
                page = f"WHERE rowid >= {start} AND rowid < {start + size}"
                columns: Columns = (
                    self._sql(f"SELECT * FROM {name} {page}").to_native().fetchnumpy()
                )
                if not columns["units"].size:
                    return
                yield columns
        finally:
            self.drop(frozen)

    def _members(self, native: Any, wanted: Sequence[tuple[int, int]]) -> list[Row]:
        order = "" if self._keeps_order() else "ORDER BY item"
        name = self._tables[id(native)]
        one_by_one = " UNION ALL ".join(
            f"(SELECT *, {number} AS number FROM {name} WHERE units = {units} "
            f"{order} LIMIT 1 OFFSET {place})"
            for number, (units, place) in enumerate(wanted)
        )
        rows = self._collect(self._sql(f"{one_by_one} ORDER BY number").to_native())
        return [row[:-1] for row in rows]

    def _keeps_order(self) -> bool:
        setting = self._sql("SELECT current_setting('preserve_insertion_order') AS kept")
        return bool(setting.to_native().fetchall()[0][0])


def _asked(relation: Any, query: str, view: str = "dpgap_unused") -> Any:
    """Run a query on the connection of a relation, which it may call `view`.

    DuckDB 1 makes a view for this, and leaves it there; the second query makes it once more and
    drops it.
    """
    try:
        return relation.query(view, query)
    finally:
        with suppress(Exception):
            if duckdb.__version__.startswith("1."):
                relation.query(view, f"DROP VIEW IF EXISTS {view}")


def _fresh_name() -> str:
    return f"dpgap_{secrets.token_hex(8)}"
