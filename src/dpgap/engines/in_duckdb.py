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

import narwhals as nw

from dpgap.engines import Columns, Engine, Row

_SOURCE = "dpgap_source"


class DuckDB(Engine):
    """The connection of a relation."""

    def __init__(self, relation: Any) -> None:
        Engine.__init__(self)
        self._relation = relation
        self._tables: dict[int, str] = {}

    def _sql(self, query: str) -> Any:
        return nw.from_native(self._relation.query(_SOURCE, query))

    def freeze(self, frame: Any) -> Any:
        name = f"dpgap_{secrets.token_hex(8)}"
        frame.to_native().query(_SOURCE, f"CREATE TEMP TABLE {name} AS SELECT * FROM {_SOURCE}")
        frozen = self._sql(f"SELECT * FROM {name}")
        self._tables[id(frozen)] = name
        return frozen

    def drop(self, frozen: Any) -> None:
        name = self._tables.pop(id(frozen), None)
        with suppress(Exception):  # a connection that is gone has dropped it
            if name is not None:
                self._relation.query(_SOURCE, f"DROP TABLE IF EXISTS {name}")

    def listed(self, items: Sequence[str | None] | Sequence[int]) -> Any:
        kind = "BIGINT" if items and isinstance(items[0], int) else "VARCHAR"
        nul = secrets.token_hex(8)  # DuckDB takes no NUL in JSON
        text = json.dumps(items, ensure_ascii=False).replace("'", "''").replace("\\u0000", nul)
        item = f"unnest(CAST('{text}'::JSON AS {kind}[]))"
        if nul in text:
            item = f"replace({item}, '{nul}', chr(0))"
        return self._sql(f"SELECT {item} AS item, unnest(range({len(items)})) AS position")

    def numbers(self, labels: range) -> Any:
        ends = f"{labels.start}, {labels.stop}, {labels.step}"
        return self._sql(f"SELECT range AS item FROM range({ends})")

    def shuffled(self, frame: Any, salt: str) -> Any:
        query = f"SELECT * FROM {_SOURCE} ORDER BY md5(concat('{salt}', item))"
        return nw.from_native(frame.to_native().query(_SOURCE, query))

    def _collect(self, native: Any) -> list[Row]:
        rows: list[Row] = native.fetchall()
        return rows

    def _batches(self, frame: Any, size: int) -> Iterator[Columns]:
        frozen = self.freeze(frame)  # in order, so that pages are ranges of rows
        name = self._tables[id(frozen)]
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
        setting = self._sql("SELECT current_setting('preserve_insertion_order') AS kept")
        order = "" if setting.to_native().fetchall()[0][0] else "ORDER BY item"
        one_by_one = " UNION ALL ".join(
            f"(SELECT *, {number} AS number FROM {_SOURCE} WHERE units = {units} "
            f"{order} LIMIT 1 OFFSET {place})"
            for number, (units, place) in enumerate(wanted)
        )
        rows: list[Row] = native.query(_SOURCE, f"{one_by_one} ORDER BY number").fetchall()
        return [row[:-1] for row in rows]
