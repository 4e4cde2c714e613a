"""PostgreSQL and DuckDB through Ibis: temporary tables in the session of an expression."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import ibis
import narwhals as nw
import pyarrow
from ibis.expr.operations import DatabaseTable

from dpgap.data.engines.base import PART_BITS, Batch, Engine, Numbers, Row, fresh_name, lazy
from dpgap.data.engines.pads import pads_table, unmask
from dpgap.data.private_counts import with_masked_errors
from dpgap.data.sources import Lazy

_AS_WRITTEN = "\\n'🍐"
"""A text that a database changes if it does not keep text as it is written."""

_UNFAITHFUL = (
    "table must be in a database that takes text as it is written: PostgreSQL does so where server "
    "and client have the encoding UTF8 and standard_conforming_strings is on"
)

_TEXT_TYPES = (19, 25, 1042, 1043)
"""The type numbers (OIDs) of name, text, char(n) and varchar in PostgreSQL."""

_PAD = (
    "CAST(CAST('x' || left(encode(sha256(uuid_send(gen_random_uuid())), 'hex'), 16) "
    "AS BIT(64)) AS BIGINT)"
)
"""A secure random number of 64 bits, in PostgreSQL."""

_NO_PADS = (
    "table must be in PostgreSQL 13 or later, or in DuckDB: others cannot draw secure random "
    "numbers, which keep private counts out of their logs"
)

_IS_DETERMINISTIC = """
    SELECT collisdeterministic FROM pg_collation
    WHERE oid = pg_collation_for((SELECT item FROM ({}) AS nothing))::regcollation"""
"""Whether a collation of PostgreSQL compares by bytes; others may take any texts for equal."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The database's own function."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def convert_to(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """PostgreSQL's own function."""


def require_faithful(database: Any) -> None:
    """Refuse a database that does not read text as it is written; looks at no row.

    Otherwise literals could change their meaning or become SQL, and a letter that the encoding does
    not have would cause an error that depends on a row.
    """
    if database.name == "postgres":  # the encodings in which it stores text, and sends it
        sides = ("server_encoding", "client_encoding")
        if any(database.con.info.parameter_status(each) != "UTF8" for each in sides):
            raise ValueError(_UNFAITHFUL)
    row = ibis.literal(_AS_WRITTEN).as_table()
    said = with_masked_errors(lambda: database.to_pyarrow(row)[0].to_pylist())
    if said != [_AS_WRITTEN]:
        raise ValueError(_UNFAITHFUL)


class Ibis(Engine):
    """The database behind an expression."""

    def __init__(self, expression: Any) -> None:
        Engine.__init__(self)
        self._database = expression.get_backend()
        self._lists: list[str] = []

    def freeze(self, frame: Lazy) -> Lazy:
        numbered = frame.to_native().mutate(number=ibis.row_number().cast("int64"))
        rows = numbered.mutate(part=numbered.number >> PART_BITS)
        try:
            return lazy(self._database.create_table(fresh_name(), rows, temp=True))
        finally:
            self._forget_lists()

    def _drop(self, frozen: Lazy) -> None:
        self._database.raw_sql(f"DROP TABLE IF EXISTS {frozen.to_native().get_name()}")

    def _forget_lists(self) -> None:
        """Drop the tables that Ibis made of lists; it would keep them until the session ends."""
        kind = "VIEW" if self._database.name == "duckdb" else "TABLE"
        while self._lists:
            with suppress(Exception):  # a session that has ended has dropped it
                self._database.raw_sql(f"DROP {kind} IF EXISTS {self._lists.pop()}")

    def require_faithful(self) -> None:
        require_faithful(self._database)
        if self._database.name != "duckdb":
            with_masked_errors(lambda: self.drop(self._pads(["pad"], 1)), _NO_PADS)

    def merges(self, column: Lazy) -> bool:
        if self._database.name != "postgres":
            return Engine.merges(self, column)
        query = str(ibis.to_sql(column.head(0).to_native(), dialect="postgres"))
        with closing(self._database.raw_sql(query)) as cursor:
            kind = int(cursor.description[0].type_code)
        if kind in _TEXT_TYPES:
            return not self._fact(_IS_DETERMINISTIC.format(query))
        # Enumerations are text too; types of extensions may compare differently.
        return bool(self._fact(f"SELECT typtype <> 'e' FROM pg_type WHERE oid = {kind}"))

    def _fact(self, query: str) -> Any:
        """The one value that a query to a catalog has."""
        with closing(self._database.raw_sql(query)) as cursor:
            return cursor.fetchone()[0]

    def plain(self, frame: Lazy) -> Lazy:
        """The same rows; in PostgreSQL, text of a fixed width loses its padding."""
        if self._database.name != "postgres":
            return frame
        kinds = frame.collect_schema()
        texts = [name for name in ("unit", "item", "group") if kinds.get(name) == nw.String]
        return frame.with_columns(nw.col(name) + "" for name in texts) if texts else frame

    def list_items(self, items: Sequence[str | None] | Sequence[int | None]) -> Lazy:
        return lazy(self._table({"item": items, "position": range(len(items))}))

    def _table(self, columns: dict[str, Sequence[Any]]) -> Any:
        made = ibis.memtable(pyarrow.table({name: list(each) for name, each in columns.items()}))
        self._lists.append(made.get_name())
        return made

    def shuffled(self, frame: Lazy, salt: str) -> Lazy:
        native = frame.to_native()
        return lazy(native.order_by(md5(ibis.literal(salt) + md5(native.item.cast("string")))))

    def keep_few(self, frame: Lazy, cells: Sequence[str], most: int, key: str) -> Lazy:
        native = frame.to_native()
        told = ibis.literal(f"{key}:{len(cells)}")
        for name in (*cells, "unit"):  # by hashes: together, texts may be too long
            told = told + md5(native[name].cast("string"))
        by = [md5(told), *(native[name] for name in cells)]
        rank = ibis.dense_rank().over(group_by="unit", order_by=by)
        ranked = native.mutate(rank=rank)
        return lazy(ranked.filter(ranked["rank"] < most).drop("rank"))

    def can_order(self, frame: Lazy, column: str) -> bool:
        """Whether equal values have the same text, and all values have one.

        Numbers with a variable scale do not. In DuckDB, a time in seconds or milliseconds that is
        beyond 64 bits of microseconds has no text.
        """
        kind = frame.to_native().schema()[column]
        if self._database.name == "duckdb" and kind.is_timestamp() and kind.scale in (0, 3):
            return False
        exact = ("string", "integer", "boolean", "floating", "date", "timestamp", "uuid", "binary")
        return any(getattr(kind, f"is_{name}")() for name in exact)

    def widen(self, frame: Lazy, column: str) -> Lazy:
        native = frame.to_native()
        return lazy(native.mutate(**{column: native[column].cast("decimal(38, 0)")}))

    def _collect(self, native: Any) -> list[Row]:
        # Without this limit, the user's default limit would cut off rows.
        try:
            table = self._database.to_pyarrow(native, limit=None)
        finally:
            self._forget_lists()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _batches(self, frame: Lazy, size: int) -> Iterator[Batch]:
        native = frame.to_native()
        if self._database.name == "duckdb":  # in memory anyway; Ibis 12 has no batches of DuckDB 2
            batches = self._database.to_pyarrow(native, limit=None).to_batches(size)
        else:
            batches = self._database.to_pyarrow_batches(native, limit=None, chunk_size=size)
        for batch in batches:
            yield {
                name: column.to_numpy(zero_copy_only=False)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }

    @contextmanager
    def hidden(self, numbers: Numbers) -> Iterator[Lazy]:
        if self._database.name != "duckdb":
            with Engine.hidden(self, numbers) as hidden:
                yield hidden
            return
        size = len(next(iter(numbers.values())))  # DuckDB reads this process, not a statement
        yield lazy(self._table({"position": range(size), **numbers}))

    def _pads(self, columns: Sequence[str], size: int) -> Lazy:
        name = fresh_name()
        self._database.raw_sql(pads_table(name, columns, size, _PAD)).close()
        schema = ibis.schema(dict.fromkeys(["position", *columns], "int64"))
        return lazy(DatabaseTable(name, schema, self._database).to_expr())

    def _unmask(self, pads: Lazy, columns: Sequence[str], masked: Sequence[Row]) -> Lazy:
        name = pads.to_native().get_name()
        self._database.raw_sql(unmask(name, columns, masked)).close()
        return pads
