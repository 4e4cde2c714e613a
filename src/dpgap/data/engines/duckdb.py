"""DuckDB as an engine: temporary tables on the connection that a relation belongs to.

DuckDB spills to disk, so a table may be larger than memory. It reads hidden numbers from a variable
of this process. A connection without access to variables draws pads, as a server does.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import duckdb
import numpy as np

from dpgap.data.engines.base import PART_BITS, Batch, Engine, Numbers, Row, fresh_name, lazy
from dpgap.data.engines.pads import pads_table, unmask
from dpgap.data.sources import Lazy

_PAD = "(md5_number_lower(CAST(uuid() AS VARCHAR))::HUGEINT - 9223372036854775808)::BIGINT"
"""The hash keeps what a log shows from telling the state of the generator behind `uuid`."""


class DuckDB(Engine):
    """The connection of a relation."""

    def __init__(self, relation: Any) -> None:
        Engine.__init__(self)
        self._relation = relation

    def freeze(self, frame: Lazy) -> Lazy:
        name = fresh_name()
        view = fresh_name()
        _run(frame.to_native(), f"CREATE TEMP TABLE {name} AS SELECT * FROM {view}", view)
        rows = f"SELECT *, rowid >> {PART_BITS} AS part, rowid AS number FROM {name}"
        return lazy(_run(self._relation, rows).set_alias(name))

    def _drop(self, frozen: Lazy) -> None:
        _run(self._relation, f"DROP TABLE IF EXISTS {frozen.to_native().alias}")

    def plain(self, frame: Lazy) -> Lazy:
        """The same rows; JSON becomes its text. DuckDB would read all that is compared as JSON."""
        relation = frame.to_native()
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        texts = [name for name in ("unit", "item", "group") if kinds.get(name) == "JSON"]
        if not texts:
            return frame
        changes = ", ".join(f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in texts)
        return lazy(relation.select(f"* REPLACE ({changes})"))

    def list_items(self, items: Sequence[str | None] | Sequence[int | None]) -> Lazy:
        kind = "BIGINT" if any(isinstance(item, int) for item in items) else "VARCHAR"
        nul = secrets.token_hex(8)  # DuckDB takes no NUL in JSON
        plain = [item.replace("\0", nul) if isinstance(item, str) else item for item in items]
        text = json.dumps(plain, ensure_ascii=False).replace("'", "''")
        value = f"unnest(CAST('{text}'::JSON AS {kind}[]))"
        if nul in text:
            value = f"replace({value}, '{nul}', chr(0))"
        position = f"unnest(range({len(items)})) AS position"
        return lazy(_run(self._relation, f"SELECT {value} AS item, {position}"))

    def shuffled(self, frame: Lazy, salt: str) -> Lazy:
        return lazy(frame.to_native().order(f"md5(concat('{salt}', item))"))

    def keep_few(self, frame: Lazy, cells: Sequence[str], most: int, key: str) -> Lazy:
        names = ", ".join(f'"{name}"' for name in cells)
        # The outer hash makes all orders of a unit's cells equally likely.
        order = f"hash(hash('{key}', {len(cells)}, unit, {names})), {names}"
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

    @contextmanager
    def hidden(self, numbers: Numbers) -> Iterator[Lazy]:
        columns = {name: np.array(column, dtype=np.int64) for name, column in numbers.items()}
        size = len(next(iter(columns.values())))
        columns["position"] = np.arange(size)
        variable = None
        with suppress(duckdb.Error), self._one_at_a_time:
            relation = _run(self._relation, "SELECT * FROM dpgap_hidden", dpgap_hidden=columns)
            variable = relation.set_alias(fresh_name())
        if variable is not None:
            yield lazy(variable)
            return
        with Engine.hidden(self, numbers) as padded:
            yield padded

    def _pads(self, columns: Sequence[str], size: int) -> Lazy:
        name = fresh_name()
        _run(self._relation, pads_table(name, columns, size, _PAD))
        return lazy(_run(self._relation, f"SELECT * FROM {name}").set_alias(name))

    def _unmask(self, pads: Lazy, columns: Sequence[str], masked: Sequence[Row]) -> Lazy:
        _run(self._relation, unmask(pads.to_native().alias, columns, masked))
        return pads


def _run(relation: Any, query: str, view: str = "dpgap_unused", dpgap_hidden: object = None) -> Any:
    """Run a query on the connection of a relation; the query can use the relation as `view`.

    DuckDB also finds the variable `dpgap_hidden` by its name.

    DuckDB 1 makes a view for this, and does not drop it; the second query makes it once more and
    drops it.
    """
    try:
        return relation.query(view, query)
    finally:
        with suppress(Exception):
            if duckdb.__version__.startswith("1."):
                relation.query(view, f"DROP VIEW IF EXISTS {view}")
