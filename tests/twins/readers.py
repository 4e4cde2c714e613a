"""Every way in: each reader puts rows somewhere and says how to ask for them.

A reader states the kinds of columns and of domains that it knows. `load` gives what a user would
hand to `dpgap.counts`: the table, the names of its columns and the domain.
"""

import codecs
import csv
import gzip
import json
import sqlite3
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import duckdb
import ibis
import pandas
import polars
import pyarrow
import pyarrow.parquet

from twins.neighbours import RANGES, Raw, Row, Twins, make_twins, widen
from twins.odd_lines import odd_csv, odd_european, odd_fimi, odd_json
from twins.odd_values import NOT_UTF_8, OBJECTS, STORED, same_in_other_words

_ARROW = {
    "text": pyarrow.string(),
    "whole": pyarrow.int64(),
    "float": pyarrow.float64(),
    "zoned": pyarrow.timestamp("ms", "Asia/Tokyo"),
}
_TYPED = [
    ("text", "text"),
    ("text", "whole"),
    ("whole", "text"),
    ("text", "float"),
    ("float", "whole"),
]
_TYPED_IN_FRAMES = [*_TYPED, ("zoned", "text")]
_DOMAINS = ["list", "list", "list", *RANGES, "wide", "table", "file"]


COLUMNS = ("who", "tag", "land", "paid")
"""What columns are called; most tables have only the first two."""


def arrow(kinds: Sequence[str], rows: Sequence[Row]) -> pyarrow.Table:
    """Rows as a table of Arrow."""
    columns = zip(COLUMNS[: len(kinds)], kinds, zip(*rows, strict=True), strict=True)
    return pyarrow.table({name: pyarrow.array(each, _ARROW[kind]) for name, kind, each in columns})


class Reader(ABC):
    """What all have in common."""

    kinds: ClassVar[Sequence[tuple[str, str]]] = _TYPED
    domains: ClassVar[Sequence[str]] = _DOMAINS
    amounts: ClassVar[Sequence[str]] = ("float", "float", "whole", "text")
    columns: ClassVar[int] = 4
    """How many a table can have."""
    odd_lines: ClassVar[Callable[..., Any] | None] = None
    longest: ClassVar[int] = 10**6
    cost: ClassVar[int] = 1
    """How many times as slow as the quick ones."""
    follows_rows: ClassVar[bool] = False
    """Whether rows decide on types, and so on what is done: never on what comes out of it."""

    def __init__(self, folder: Path, server: Any = None) -> None:
        self.folder = folder
        self.server = server

    def twins(self, rng: Random, domains: Sequence[str], wide: bool = False) -> Twins:
        """Twins for this reader, with a domain of one of these kinds; wide ones have no odd lines.

        What a wide table brings is bad enough without.
        """
        odd = None if wide else type(self).odd_lines
        known = [each for each in domains if each in self.domains]
        twins = make_twins(rng, self.kinds, known, odd, self.longest)
        return widen(rng, twins, self.amounts) if wide else twins

    def load(self, twins: Twins, rows: list[Row]) -> dict[str, Any]:
        """The arguments for `dpgap.counts`."""
        table = self.table(twins, rows)
        unit = "row" if twins.by_row else "who"
        return {
            "table": table,
            "unit": unit,
            "item": self.item(twins),
            "domain": self.domain(twins, table),
        }

    def item(self, twins: Twins) -> str:
        """The column to count."""
        return "tag"

    def domain(self, twins: Twins, table: Any) -> Any:
        """The domain, stated in its way."""
        if twins.domain_kind == "table":
            return self.column(table, twins)
        if twins.domain_kind != "file":
            return twins.labels
        # Both twins name one file, as it is a public one.
        path = self.folder / f"{zlib.crc32(repr(twins.labels).encode())}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [["label"], *([x] for x in twins.labels)]
            )
        return f"{path}:label"

    @abstractmethod
    def table(self, twins: Twins, rows: list[Row]) -> Any:
        """The rows as this reader takes them."""

    def column(self, table: Any, twins: Twins) -> Any:
        """The domain as a frame of the same make as the table."""
        return self._frame(pyarrow.table({"label": pyarrow.array(twins.labels)}))

    def _frame(self, table: pyarrow.Table) -> Any:
        return table

    def _path(self, ending: str) -> Path:
        return self.folder / f"{uuid.uuid4().hex}{ending}"

    def _write(self, ending: str, lines: list[str], look: int) -> Path:
        """A file of these lines, gzipped in one look of four and without a last line end in two."""
        text = "\n".join(lines) + ("\n" if look % 2 else "")
        path = self._path(ending + (".gz" if look % 4 == 0 else ""))
        path.write_bytes(gzip.compress(text.encode(), 1) if look % 4 == 0 else text.encode())
        return path


class Csv(Reader):
    kinds = (("text", "text"),)
    domains = tuple(each for each in _DOMAINS if each != "table")
    amounts = ("text",)
    odd_lines = staticmethod(odd_csv)

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        header = ",".join(["who,tag,tag_1", *COLUMNS[2 : len(twins.kinds)]])
        return self._write(".csv", [header, *map(self._line, rows)], twins.look)

    def _line(self, row: Row) -> str:
        if isinstance(row, Raw):
            return row.line
        who, what, *more = (_quoted("" if each is None else each) for each in row)
        return ",".join([who, what, what, *more])


def _quoted(text: str) -> str:
    return text if text.isalnum() else '"' + text.replace('"', '""') + '"'


class European(Csv):
    """Other encodings, a decimal comma, and what no encoding can tell."""

    odd_lines = staticmethod(odd_european)
    encodings = (("latin-1", "cp1252"), ("utf-8", "utf-8"), ("utf-16", "utf-16-le"))

    def load(self, twins: Twins, rows: list[Row]) -> dict[str, Any]:
        stated = {"encoding": self.encodings[twins.look % 3][0], "decimal": ","}
        return super().load(twins, rows) | stated

    def _line(self, row: Row) -> str:
        if len(row) == 4 and isinstance(row[3], str):
            row = (*row[:3], row[3].replace(".", ","))
        return super()._line(row)

    def _write(self, ending: str, lines: list[str], look: int) -> Path:
        text, path = "\n".join(lines) + "\n", self._path(ending)
        path.write_bytes(text.encode(self.encodings[look % 3][1], "undecodable"))
        return path


def _undecodable(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes that cannot be decoded, for letters that cannot be encoded."""
    assert isinstance(error, UnicodeEncodeError)
    letter = b"\x00\xd8" if error.encoding.startswith("utf-16") else b"\x81"
    return letter * (error.end - error.start), error.end


codecs.register_error("undecodable", _undecodable)


class Json(Reader):
    kinds = (("text", "text"), ("text", "whole"), ("whole", "text"))
    domains = Csv.domains
    odd_lines = staticmethod(odd_json)

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        return self._write(".jsonl", [self._line(twins, row) for row in rows], twins.look)

    def _line(self, twins: Twins, row: Row) -> str:
        """An object where the column that is not asked for says something else."""
        if isinstance(row, Raw):
            return row.line
        decoy = "tag" if self.item(twins) == "tag_1" else "tag_1"
        told = {"who": row[0], decoy: twins.labels[3], self.item(twins): row[1]}
        told |= dict(zip(COLUMNS[2:], row[2:], strict=False))
        return json.dumps(told, ensure_ascii=twins.look % 3 == 0)

    def item(self, twins: Twins) -> str:
        return "tag_1" if twins.look % 2 else "tag"


class Fimi(Reader):
    kinds = (("text", "whole"),)
    domains = tuple(RANGES)
    columns = 2
    odd_lines = staticmethod(odd_fimi)

    def load(self, twins: Twins, rows: list[Row]) -> dict[str, Any]:
        return {"table": self.table(twins, rows), "domain": twins.labels}

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        """Every unit is a line, with its items that are whole numbers of FIMI."""
        baskets: dict[Any, list[str]] = {}
        for row in rows:
            who, what = (row, None) if isinstance(row, Raw) else row[:2]
            baskets.setdefault(who, []).append("" if what is None or what < 0 else str(what))
        baskets.pop(None, None)
        lines = [who.line if isinstance(who, Raw) else " ".join(of) for who, of in baskets.items()]
        return self._write(".dat", lines, twins.look)


class Parquet(Reader):
    def table(self, twins: Twins, rows: list[Row]) -> Any:
        path = self._path(".parquet")
        pyarrow.parquet.write_table(arrow(twins.kinds, rows), path)
        return path

    domains = Csv.domains


class Pandas(Reader):
    kinds = _TYPED_IN_FRAMES

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        frame = arrow(twins.kinds, rows).to_pandas()
        kind = [None, "object", "category", "string"][twins.look % 4]
        for name, of in zip(frame.columns, twins.kinds, strict=True):
            if of == "text" and kind is not None:
                frame[name] = frame[name].astype(kind)
        return frame

    def _frame(self, table: pyarrow.Table) -> Any:
        return table.to_pandas()


class PandasObjects(Reader):
    """Frames that pandas itself makes of rows: one odd value changes the type of its column."""

    follows_rows = True
    domains = (*_DOMAINS, "list", "small")

    def twins(self, rng: Random, domains: Sequence[str], wide: bool = False) -> Twins:
        """Rows of one type for each column, and a unit that brings any value of any type."""
        twins = super().twins(rng, domains, wide)
        rows = [row for row in twins.rows if None not in row[:2] or rng.random() < 0.01]
        whose = twins.more[0][0] if twins.more else None
        if rng.random() < 0.4:
            whose = rng.choice(OBJECTS)
        more: list[Row] = [
            (
                same_in_other_words(rng, whose) if isinstance(whose, int | float) else whose,
                *(self._odd(rng, value) for value in row[1:]),
            )
            for row in twins.more[:40]
        ]
        return replace(twins, rows=rows, more=more)

    def _odd(self, rng: Random, value: Any) -> Any:
        chance = rng.random()
        if chance < 0.5:
            return rng.choice(OBJECTS)
        return same_in_other_words(rng, value) if chance < 0.8 else value

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=False))
        made = {}
        for name, values in columns.items():
            try:
                made[name] = pandas.Series(values)
            except Exception:  # pandas cannot tell a type
                made[name] = pandas.Series(values, dtype=object)
        return pandas.DataFrame(made)

    def _frame(self, table: pyarrow.Table) -> Any:
        return table.to_pandas()


class Polars(Reader):
    kinds = _TYPED_IN_FRAMES

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        frame = polars.from_arrow(arrow(twins.kinds, rows))
        if twins.look % 4 == 0 and twins.kinds[1] == "text":
            frame = frame.with_columns(polars.col("tag").cast(polars.Categorical))
        return self._made(frame)

    def _frame(self, table: pyarrow.Table) -> Any:
        return self._made(polars.from_arrow(table))

    def _made(self, frame: polars.DataFrame) -> Any:
        return frame


class PolarsLazy(Polars):
    def _made(self, frame: polars.DataFrame) -> Any:
        return frame.lazy()


class PyArrow(Reader):
    kinds = _TYPED_IN_FRAMES

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        table = arrow(twins.kinds, rows)
        if twins.look % 4 == 0 and twins.kinds[1] == "text":
            table = table.set_column(1, "tag", table["tag"].dictionary_encode())
        return table


class DuckDB(Reader):
    domains = (*_DOMAINS, "without case")

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        made = arrow(twins.kinds, rows)
        database = duckdb.connect()
        if twins.look % 2:
            return database.from_arrow(made)
        database.execute("CREATE TABLE sold AS SELECT * FROM made")
        if twins.look % 6 == 4 and twins.kinds[1] == "text":
            database.execute("ALTER TABLE sold ALTER tag TYPE VARCHAR COLLATE NOCASE")
        return database.table("sold")

    def column(self, table: Any, twins: Twins) -> Any:
        kind, name = "BIGINT", f"names_{uuid.uuid4().hex}"
        values = ", ".join(f"({label})" for label in twins.labels)
        if isinstance(twins.labels[0], str):
            kind = "VARCHAR" + " COLLATE NOCASE" * (twins.domain_kind == "without case")
            values = ", ".join(f"(decode('{_bytes(label)}'::BLOB))" for label in twins.labels)
        table.query("sold", f"CREATE TABLE {name} (label {kind})")
        table.query("sold", f"INSERT INTO {name} VALUES {values}")
        return table.query("sold", f"SELECT * FROM {name}")

    def domain(self, twins: Twins, table: Any) -> Any:
        return (
            self.column(table, twins)
            if twins.domain_kind == "without case"
            else super().domain(twins, table)
        )


def _bytes(text: str) -> str:
    """Text as DuckDB writes a BLOB, which may hold NUL."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


class IbisDuckDB(Reader):
    amounts = (*Reader.amounts, "huge")

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        database = ibis.duckdb.connect()
        if twins.kinds[-1] != "huge":
            return self._read(database, arrow(twins.kinds, rows))
        texts = [(*row[:3], None if row[3] is None else str(row[3])) for row in rows]
        sold = self._read(database, arrow((*twins.kinds[:3], "text"), texts)).get_name()
        made = f"CREATE VIEW huge AS SELECT * REPLACE (paid::HUGEINT AS paid) FROM {sold}"
        database.raw_sql(made)
        return database.table("huge")

    def column(self, table: Any, twins: Twins) -> Any:
        values = pyarrow.table({"label": pyarrow.array(twins.labels)})
        return self._read(table.get_backend(), values)

    def _read(self, database: Any, table: pyarrow.Table) -> Any:
        path = self._path(".parquet")
        pyarrow.parquet.write_table(table, path)
        return database.read_parquet(path)


class SQLite(Reader):
    """Any value in a column of any type; half of the tables are Ibis frames."""

    declared: ClassVar[dict[str, Sequence[str]]] = {
        "text": ("TEXT", "", "INTEGER", "BOOLEAN", "VARCHAR(9)", "BLOB", "TEXT COLLATE NOCASE"),
        "whole": ("INTEGER", "BIGINT", "TINYINT", "BOOLEAN", "", "TEXT", "NUMERIC", "DATE"),
        "float": ("REAL", "", "INTEGER", "DOUBLE", "NUMERIC", "TIMESTAMP"),
    }

    def twins(self, rng: Random, domains: Sequence[str], wide: bool = False) -> Twins:
        """One unit that brings values of every storage class."""
        twins = super().twins(rng, domains, wide)
        whose = twins.more[0][0] if twins.more else None
        if rng.random() < 0.3:
            whose = rng.choice([*STORED, 0.5, -1e300])
        more: list[Row] = [
            (whose, *(rng.choice([value, *STORED]) for value in row[1:])) for row in twins.more[:40]
        ]
        return replace(twins, more=more)

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        path, names = self._path(".db"), COLUMNS[: len(twins.kinds)]
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA synchronous = off")
            # A unit keeps its name, whatever type the other columns have.
            kinds = [twins.kinds[0].replace("whole", "INTEGER").replace("float", "REAL")]
            for kind in twins.kinds[1:]:
                declared = self.declared[kind]
                kinds.append(declared[twins.look % len(declared)])
            listed = ", ".join(map(" ".join, zip(names, kinds, strict=True)))
            database.execute(f"CREATE TABLE sold ({listed})")
            # All tables hold every storage class, so every reader of a value is entered.
            rest = len(names) - 1
            of_all = [(None, *[value] * rest) for value in STORED]
            of_all += [(value, *[None] * rest) for value in STORED]
            for row in [*of_all, *rows]:
                marks = ["CAST(? AS TEXT)" if each == NOT_UTF_8 else "?" for each in row]
                database.execute(f"INSERT INTO sold VALUES ({', '.join(marks)})", row)
            database.execute("CREATE TABLE names (label TEXT)")
            if not isinstance(twins.labels, range):
                database.executemany("INSERT INTO names VALUES (?)", zip(twins.labels))
        if twins.look % 2 or twins.domain_kind == "table":
            return f"sqlite://{path}?table=sold"
        return ibis.sqlite.connect(path).table("sold")

    def column(self, table: Any, twins: Twins) -> Any:
        return "names:label"


class Postgres(Reader):
    cost = 10

    def twins(self, rng: Random, domains: Sequence[str], wide: bool = False) -> Twins:
        """Without NUL, which PostgreSQL cannot hold."""
        while True:
            twins = super().twins(rng, domains, wide)
            if wide:
                twins = replace(twins, more=[_without_nul(row) for row in twins.more])
            labels = () if isinstance(twins.labels, range) else twins.labels
            if "\0" not in "".join(map(str, (*labels, *sum(twins.more, ())))):
                return twins

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        return self.server.create_table(
            f"sold_{uuid.uuid4().hex}", arrow(twins.kinds, rows), temp=True
        )

    def column(self, table: Any, twins: Twins) -> Any:
        values = pyarrow.table({"label": pyarrow.array(twins.labels)})
        return self.server.create_table(f"names_{uuid.uuid4().hex}", values, temp=True)


def _without_nul(row: Row) -> Row:
    return (*row[:2], *(None if "\0" in str(each) else each for each in row[2:]))


class Spark(Reader):
    cost = 10
    longest = 10**5

    def table(self, twins: Twins, rows: list[Row]) -> Any:
        names = {"text": "string", "whole": "bigint", "float": "double"}
        kinds = zip(COLUMNS, twins.kinds, strict=False)
        schema = ", ".join(f"{name} {names[kind]}" for name, kind in kinds)
        return self.server.createDataFrame(list(rows), schema)

    def column(self, table: Any, twins: Twins) -> Any:
        kind = "string" if isinstance(twins.labels[0], str) else "bigint"
        return self.server.createDataFrame([(label,) for label in twins.labels], f"label {kind}")


READERS: dict[str, type[Reader]] = {
    "csv": Csv,
    "european": European,
    "json": Json,
    "fimi": Fimi,
    "parquet": Parquet,
    "pandas": Pandas,
    "pandas-objects": PandasObjects,
    "polars": Polars,
    "polars-lazy": PolarsLazy,
    "pyarrow": PyArrow,
    "duckdb": DuckDB,
    "ibis": IbisDuckDB,
    "sqlite": SQLite,
    "postgres": Postgres,
    "spark": Spark,
}
