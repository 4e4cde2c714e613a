"""The public facts of a table and its domain are the same for every reader, and say no row."""

import csv
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import duckdb
import ibis
import narwhals
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import dpgap
from dpgap.data.sources import columns_of, table_address
from dpgap.question import OBSERVED, Question

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis

ROWS = [("ann", "fig", "1.5"), ("bob", "pea", "2"), ("cid", "fig", "3")]
NAMES = ("who", "what", "price")
TEXTS = pyarrow.table(dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True)))
TYPED = pyarrow.table(
    {
        "who": pyarrow.array([1, 2], pyarrow.int64()),
        "what": ["fig", "pea"],
        "price": [1.5, 2.5],
        "is_paid": [True, False],
        "at": pyarrow.array([datetime(2026, 1, 2, tzinfo=UTC)] * 2, pyarrow.timestamp("us", "UTC")),
    }
)
FAMILIES = (
    ("who", "integer"),
    ("what", "text"),
    ("price", "float"),
    ("is_paid", "boolean"),
    ("at", "time"),
)


def _parquet(table: pyarrow.Table, folder: Path) -> Path:
    pyarrow.parquet.write_table(table, folder / "sold.parquet")
    return folder / "sold.parquet"


def _csv(table: pyarrow.Table, folder: Path) -> Path:
    with (folder / "sold.csv").open("w", newline="") as file:
        csv.writer(file).writerows([table.column_names, *(row.values() for row in _rows(table))])
    return folder / "sold.csv"


def _rows(table: pyarrow.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _duckdb_file(table: pyarrow.Table, folder: Path) -> str:
    with duckdb.connect(str(folder / "shop.db")) as connection:
        connection.from_arrow(table).create("sold")
    return f"duckdb://{folder}/shop.db?table=sold"


READERS: dict[str, Callable[[pyarrow.Table, Path], Any]] = {
    "pandas": lambda table, _: table.to_pandas(),
    "pandas on arrow": lambda table, _: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "pandas with categories": lambda table, _: table.to_pandas().astype({"what": "category"}),
    "Polars": lambda table, _: polars.from_arrow(table),
    "Polars lazy": lambda table, _: polars.from_arrow(table).lazy(),
    "Polars with categories": lambda table, _: polars.from_arrow(table).with_columns(
        polars.col("what").cast(polars.Categorical)
    ),
    "PyArrow": lambda table, _: table,
    "Narwhals": lambda table, _: narwhals.from_native(table),
    "DuckDB": lambda table, _: duckdb.connect().from_arrow(table),
    "Ibis": lambda table, folder: ibis.duckdb.connect().read_parquet(_parquet(table, folder)),
    "Parquet": _parquet,
    "an address": _duckdb_file,
}


FOLLOWS_ROWS = ("pandas", "pandas with categories")
"""Readers whose types follow the rows."""


def _origin(table: Any, domain: Any = ("fig", "pea"), **options: Any) -> Question:
    settings = {"unit": "who", "item": "what"} | options
    counted = dpgap.counts(table, domain=domain, **settings)
    counted.close()
    assert counted.origin is not None
    return counted.origin


@pytest.mark.parametrize("reader", [*READERS, "CSV"])
def test_a_table_of_text_has_the_same_columns_and_domain_for_every_reader(
    reader: str, tmp_path: Path
) -> None:
    origin = _origin((READERS | {"CSV": _csv})[reader](TEXTS, tmp_path))
    family = "any" if reader in FOLLOWS_ROWS else "text"
    assert origin.columns == tuple((name, family) for name in NAMES)
    assert origin.digest == _origin(TEXTS).digest


@pytest.mark.parametrize("reader", READERS)
def test_typed_columns_have_the_same_families_for_every_reader(reader: str, tmp_path: Path) -> None:
    expected = {name: "any" if reader in FOLLOWS_ROWS else kind for name, kind in FAMILIES}
    assert _origin(READERS[reader](TYPED, tmp_path)).columns == tuple(expected.items())


def test_postgres_tells_the_same_columns_and_an_address_without_a_password(
    postgres: Any, database: Any
) -> None:
    frame = database.create_table("sold_of_facts", TYPED, overwrite=True)
    told = _origin(frame)
    assert (told.table, told.address, told.columns) == (None, None, FAMILIES)
    url = postgres.get_uri().replace("postgres:@", "postgres:secret@")
    assert "secret" in url
    one = _origin(f"{url}&table=sold_of_facts")
    other = _origin(f"{postgres.get_uri()}&schema=public&table=sold_of_facts")
    assert one == other
    assert one.columns == FAMILIES
    assert one.table == "sold_of_facts"
    assert one.address is not None
    assert one.address.startswith("postgresql://")
    assert one.address.endswith("/postgres?schema=public&table=sold_of_facts")
    assert "secret" not in one.address
    assert "postgres:" not in one.address


def test_a_database_that_nobody_named_is_told_by_its_name(postgres: Any, database: Any) -> None:
    database.create_table("sold_of_facts", TYPED, overwrite=True)
    url = f"{postgres.get_uri()}&table=sold_of_facts"
    unnamed = url.replace("/postgres?", "/?")  # then it is the database called like the user
    assert unnamed != url
    assert _origin(unnamed).address == _origin(url).address


def test_a_domain_beside_a_table_in_postgres_is_told_by_its_address(
    postgres: Any, database: Any
) -> None:
    database.create_table("sold_of_facts", TYPED, overwrite=True)
    for name in ("items_of_facts", "others_of_facts"):
        database.create_table(name, pyarrow.table({"id": ["fig"], "old": ["pea"]}), overwrite=True)
    url = f"{postgres.get_uri()}&table=sold_of_facts"
    asked = ["items_of_facts:id", "items_of_facts:old", "others_of_facts:id"]
    digests = [_origin(url, domain).digest for domain in asked]
    assert len(set(digests)) == 3
    assert _origin(f"{url}&schema=public", asked[0]).digest == digests[0]


def test_spark_tells_the_same_columns(spark: Any) -> None:
    kinds = "who bigint, what string, price double, is_paid boolean, at timestamp"
    frame = spark.createDataFrame([], kinds)
    told = _origin(frame)
    assert (told.table, told.address, told.columns) == (None, None, FAMILIES)


def test_every_family_has_its_types() -> None:
    kinds = {
        "float": pyarrow.array([Decimal("1.5")]),
        "date": pyarrow.array([date(2026, 1, 2)]),
        "time": pyarrow.array([time(12)]),
        "bytes": pyarrow.array([b"x"]),
        "list": pyarrow.array([[1]]),
        "other": pyarrow.array([{"a": 1}]),
    }
    frame = narwhals.from_native(pyarrow.table(kinds))
    assert columns_of(frame) == tuple((name, name) for name in kinds)


def test_a_column_of_pandas_is_told_alike_whatever_its_rows_hold() -> None:
    for values in (["x"], [1], [1, None], [1, "x"], [date(2026, 1, 2)], [None], [b"x"], [True]):
        frame = pandas.DataFrame({"note": values})
        assert columns_of(narwhals.from_native(frame)) == (("note", "any"),)
    stated = pandas.DataFrame({"note": pandas.array([1], "Int64")})
    assert columns_of(narwhals.from_native(stated)) == (("note", "integer"),)


def test_lines_of_json_tell_no_columns_and_a_fimi_file_always_the_same(tmp_path: Path) -> None:
    (tmp_path / "sold.jsonl").write_text('{"who": 1, "what": "fig", "secret": 1}\n')
    (tmp_path / "sold.dat").write_text("1 2 3\n")
    assert _origin(tmp_path / "sold.jsonl").columns == ()
    baskets = _origin(tmp_path / "sold.dat", range(4), unit=None, item=None)
    assert baskets.columns == (("line", "integer"), ("item", "integer"))


def test_a_file_has_one_address_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _csv(TEXTS, tmp_path)
    (tmp_path / "link.csv").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    ways = ["sold.csv", "./sold.csv", f"../{tmp_path.name}/sold.csv", path, "link.csv"]
    assert {_origin(way).address for way in ways} == {os.path.realpath(path)}
    assert _origin(path).table == "sold.csv"
    assert _origin("link.csv").table == "link.csv"
    assert _origin(TEXTS).table is _origin(TEXTS).address is None


def test_an_address_is_the_same_however_it_is_spelt(tmp_path: Path) -> None:
    url = _duckdb_file(TEXTS, tmp_path)
    spelt = url.replace("shop.db", f"../{tmp_path.name}/shop.db") + "&schema=main"
    assert _origin(spelt).address == _origin(url).address
    assert _origin(url).table == "sold"


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", r"\[postgres\]"),
        (f"duckdb://{__file__}", r"ibis-framework\[duckdb\]"),
    ],
)
def test_a_package_that_is_missing_is_not_a_server_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, place: str, how: str
) -> None:
    def connect(_: str) -> None:
        raise ImportError("a package is missing")

    monkeypatch.setattr(ibis, "connect", connect)
    with pytest.raises(ImportError, match=f"kind of database are missing: .*{how}"):
        _origin(f"{place}?table=sold")


def test_an_address_leaves_out_who_connects_and_how() -> None:
    ways = [
        "postgresql://db/shop",
        "postgres://ann:secret@DB:5432/shop?sslmode=require",
        "postgresql:///shop?host=db&port=5432&user=ann&password=secret",
        "postgresql://?host=db&dbname=shop",
    ]
    names = {"table": "sales", "schema": "public"}
    spelt = [(urlsplit(way), dict(parse_qsl(urlsplit(way).query))) for way in ways]
    addresses = {table_address(*each, names) for each in spelt}
    assert addresses == {"postgresql://db/shop?schema=public&table=sales"}
    other = table_address(urlsplit("postgresql://db:5433/shop"), {}, {"table": "sales"})
    assert other == "postgresql://db:5433/shop?table=sales"


@pytest.mark.parametrize("labels", [["fig", "pea", "oat"], ["10", "7"], ["é", "a\0b", "\ud800"]])
def test_a_domain_has_one_digest_as_list_file_column_and_frame(
    labels: list[str], tmp_path: Path
) -> None:
    digest = _origin(TEXTS, labels).digest
    assert digest is not None
    assert len(digest) == 64
    assert _origin(TEXTS, tuple(labels)).digest == digest
    assert _origin(TEXTS, pandas.Series(labels, dtype=object)).digest == digest
    assert _origin(TEXTS, labels[::-1]).digest != digest
    if "\ud800" in labels:
        return
    (tmp_path / "items.txt").write_text("\n".join(labels), encoding="utf-8")
    assert _origin(TEXTS, tmp_path / "items.txt").digest == digest
    assert _origin(TEXTS, polars.DataFrame({"id": labels})).digest == digest
    pyarrow.parquet.write_table(pyarrow.table({"id": labels}), tmp_path / "items.parquet")
    column = _origin(TEXTS, f"{tmp_path}/items.parquet:id").digest
    assert column == _origin(TEXTS, sorted(labels)).digest


@pytest.mark.parametrize(
    ("numbers", "ways"),
    [
        (range(3), [[0, 1, 2], "0..2", [0.0, 1, 2]]),
        (range(7, 8), [[7], "7..7", range(7, 9, 5)]),
        (range(5, -6, -5), [[5, 0, -5]]),
        (range(2, 10, 3), [[2, 5, 8], range(2, 9, 3)]),
    ],
)
def test_a_range_has_one_digest_however_it_is_written(numbers: range, ways: list[Any]) -> None:
    digest = _origin(TEXTS, numbers).digest
    assert [_origin(TEXTS, way).digest for way in ways] == [digest] * len(ways)


def test_domains_that_differ_have_different_digests() -> None:
    domains: list[Any] = [
        [0, 1, 2],
        ["0", "1", "2"],
        ["0", 1, 2],
        [7, 1],
        ["7", "1"],
        ["true", "x"],
        [True, "x"],
        [0, 1, 3],
        [0, 2, 1],
        [0, 1],
        ["00", "1", "2"],
        [0, 10**30],
        [2, 1, 0],
        range(10**15),
        range(1, 10**15),
        range(0, 10**15, 2),
        ["a\0b", "c"],
        ["a", "b\0c"],
        ["a", "b", "c"],
        ['["a"', '"b"]'],
        ['{"first":0,"last":2,"step":1}'],
    ]
    assert len({_origin(TEXTS, each).digest for each in domains}) == len(domains)


def test_a_domain_that_is_never_fetched_is_told_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _csv(TEXTS, tmp_path)
    for name in ("items", "others"):
        (tmp_path / f"{name}.csv").write_text("id,old\nfig,pea\n")
    monkeypatch.chdir(tmp_path)
    digest = _origin(path, "items.csv:id").digest
    assert digest == _origin(path, f"{tmp_path}/items.csv:id").digest
    assert digest != _origin(path, "items.csv:old").digest
    assert digest != _origin(path, "others.csv:id").digest
    (tmp_path / "items.csv").write_text("id,old\nnut,pea\n")
    assert digest != _origin(path, "items.csv:id").digest


def test_observed_items_have_no_digest_and_neither_has_a_frame_that_an_engine_keeps() -> None:
    assert _origin(TEXTS, OBSERVED).digest is None
    connection = duckdb.connect()
    public = connection.sql("SELECT 'fig' AS id")
    assert _origin(connection.from_arrow(TEXTS), public).digest is None


@pytest.mark.parametrize(("stated", "idle"), [("", "10"), ("&keepalives_idle=99", "99")])
def test_the_network_to_a_table_in_postgres_is_watched_unless_its_address_says_how(
    stated: str, idle: str, postgres: Any, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ibis

    database.create_table("sold_of_facts", TYPED, overwrite=True)
    addresses: list[str] = []
    connect = ibis.connect

    def noting(address: str) -> Any:
        addresses.append(address)
        return connect(address)

    monkeypatch.setattr(ibis, "connect", noting)
    origin = _origin(f"{postgres.get_uri()}&table=sold_of_facts{stated}")
    (address,) = addresses
    assert f"keepalives_idle={idle}" in address
    assert "keepalives_count=2" in address
    assert "keepalives" not in str(origin.address)
