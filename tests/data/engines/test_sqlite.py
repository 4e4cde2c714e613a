"""SQLite keeps any value in a column of any type: rows become items before anything is counted."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import pytest

import dpgap
from dpgap.data.query import is_number
from dpgap.data.values import form_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),  # Ibis
    pytest.mark.filterwarnings("ignore:domain is taken as it is written"),
]

DECLARED = [
    *("INTEGER", "INT", "SMALLINT", "TINYINT", "BIGINT", "BOOLEAN", "", "TEXT", "VARCHAR(3)"),
    *("REAL", "DOUBLE", "FLOAT", "NUMERIC", "DECIMAL(5, 2)", "DATE", "TIMESTAMP", "BLOB", "ODD"),
    *("TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM"),
]
NOT_UTF_8 = "CAST(x'ff' AS TEXT)"
STORED = [
    *("1", "1.5", "1.0", "'01'", "'1 '", "'yes'", "'YES'", "2", "x'31'", "x'ff'", NOT_UTF_8, "''"),
    *("'1' || char(0)", "-0.0", "9e999", "-9e999", "9223372036854775807", "1e300", "NULL"),
    *("'2024-01-31'", "'2024-01-31 12:00'", "2460340.5", "1706659200", "'1.50'", "true"),
]
"""Values of every storage class, in SQL."""

DOMAIN = [0, 1, 2, "01", "1 ", "yes", "YES", "1.5", "1.50", "", "1\0", "2024-01-31"]
ASK: dict[str, Any] = {"unit": "who", "item": "what", "domain": DOMAIN}


def _database(path: Path, kind: str, more: list[str]) -> str:
    """A file where 30 units have item 1, 20 have 0, and one unit has more rows; its address."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = off")
        database.execute(f"CREATE TABLE sold (who INTEGER, what {kind}, place TEXT, paid {kind})")
        database.executemany(
            "INSERT INTO sold VALUES (?, ?, 'ch', 1)",
            [(unit, int(unit < 30)) for unit in range(50)],
        )
        for value in more:
            database.execute(f"INSERT INTO sold VALUES (1000, {value}, 'ch', {value})")
    database.close()
    return f"sqlite://{path}?table=sold"


def _through_ibis(address: str) -> Any:
    return ibis.sqlite.connect(address[9:].partition("?")[0]).table("sold")


WAYS = {"address": str, "frame": _through_ibis}
in_both_ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def _rows(address: str) -> list[tuple[Any, ...]]:
    """All rows, with the text of each value as plain Python reads it."""
    database = sqlite3.connect(address[9:].partition("?")[0])
    listed = ", ".join(f"{name}, typeof({name})" for name in ("who", "what", "place", "paid"))
    database.text_factory = bytes
    rows = database.execute(f"SELECT {listed} FROM sold").fetchall()
    database.close()
    return [tuple(map(_read, row[::2], row[1::2])) for row in rows]


def _read(value: Any, kind: bytes) -> str | None:
    try:
        return form_of(value.decode() if kind == b"text" else value)
    except UnicodeDecodeError:
        return None


def _expected(address: str) -> list[int]:
    units: dict[str | None, set[Any]] = {}
    for unit, item, *_ in _rows(address):
        if unit is not None:
            units.setdefault(item, set()).add(unit)
    return [len(units.get(str(item), ())) for item in DOMAIN]


@in_both_ways
@pytest.mark.parametrize("kind", DECLARED)
def test_one_unit_with_any_value_moves_no_count_by_more_than_one(
    tmp_path: Path, kind: str, way: Callable[[str], Any]
) -> None:
    before = _expected(_database(tmp_path / "before.db", kind, []))
    for place, more in enumerate([*([value] for value in STORED), STORED]):
        address = _database(tmp_path / f"{place}.db", kind, more)
        counts = dpgap.counts(way(address), **ASK).expanded().tolist()
        assert counts == _expected(address)
        moved = [one - other for one, other in zip(counts, before, strict=True)]
        assert set(moved) <= {0, 1}, more


@in_both_ways
@pytest.mark.parametrize("kind", ["INTEGER", "BOOLEAN", "", "TEXT", "REAL"])
def test_units_groups_amounts_and_filters_are_read_like_items(
    tmp_path: Path, kind: str, way: Callable[[str], Any]
) -> None:
    table = way(_database(tmp_path / "sold.db", kind, STORED))
    rows = _rows(_database(tmp_path / "again.db", kind, STORED))
    texts = {row[1] for row in rows} - {None}
    by_unit = dpgap.counts(table, unit="what", item="place", domain=["ch"])
    assert by_unit.expanded().tolist() == [len(texts)]
    ask: dict[str, Any] = {"item": "place", "domain": ["ch"]}
    by_group = dpgap.counts(table, unit="who", **ask, by="what", groups=[1], max_groups=1)
    assert by_group[1].expanded().tolist() == [len({row[0] for row in rows if row[1] == "1"})]
    matching = dpgap.counts(table, unit="row", **ask, where="what = 1")
    assert matching.expanded().tolist() == [sum(_number(row[1]) == 1 for row in rows)]
    paid = [_number(row[3]) for row in rows]
    summed = dpgap.counts(table, unit="row", **ask, sum="paid", at_most=2)
    most = sum(int(min(max(each, 0), 2) * 100 + 0.5) for each in paid if each is not None)
    assert summed.expanded().tolist() == [most]


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and is_number(text) else None


@in_both_ways
def test_bytes_and_text_that_is_not_utf_8_cause_no_error(
    tmp_path: Path, way: Callable[[str], Any]
) -> None:
    """Neither before the charge nor after it; a stream reads all items."""
    table = way(_database(tmp_path / "sold.db", "TEXT", STORED))
    ask: dict[str, Any] = {"unit": "who", "item": "what", "epsilon": 9000}
    assert dpgap.top_k(table, **ask, domain=range(9), k=2).labels == (1, 0)
    assert dpgap.top_k(table, **ask, k=2, max_items=1, delta=0.001, where="what >= 0").labels == (
        "1",
        "0",
    )
    above = dpgap.above(table, **ask, domain=[0, 1], threshold=25, k=2)
    assert set(above.labels or ()) == {1}


@in_both_ways
def test_views_collations_and_columns_that_are_computed_are_read_as_they_show(
    tmp_path: Path, way: Callable[[str], Any]
) -> None:
    with sqlite3.connect(tmp_path / "sold.db") as database:
        database.executescript(
            """CREATE TABLE plain (who, what COLLATE NOCASE, twice AS (what || what));
            INSERT INTO plain VALUES (1, 'fig'), (2, 'FIG'), (3, 'fig'), (4, 7), (5, x'37');
            CREATE VIEW sold AS SELECT who, what, what = 'fig' AS is_fig FROM plain;
            CREATE TABLE names (id COLLATE NOCASE); INSERT INTO names VALUES ('fig'), ('FIG');"""
        )
    database.close()
    address = f"sqlite://{tmp_path}/sold.db?table=sold"
    table = way(address)
    ask: dict[str, Any] = {"unit": "who", "item": "what"}
    found = dpgap.counts(table, **ask, domain=["fig", "FIG", 7]).expanded()
    assert found.tolist() == [2, 1, 1]
    same = dpgap.counts(table, unit="who", item="is_fig", domain=[0, 1]).expanded()
    assert same.tolist() == [2, 3]
    computed = address.replace("table=sold", "table=plain")
    twice = dpgap.counts(computed, unit="who", item="twice", domain=["figfig", "77"])
    assert twice.expanded().tolist() == [2, 2]
    named = dpgap.counts(address, **ask, domain="names:id")
    assert (list(named.labels or ()), named.expanded().tolist()) == (["fig", "FIG"], [2, 1])


def test_an_empty_table_without_types_is_like_every_other(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "sold.db") as database:
        database.execute("CREATE TABLE sold (who, what)")
    database.close()
    address = f"sqlite://{tmp_path}/sold.db?table=sold"
    ask: dict[str, Any] = {"unit": "who", "item": "what", "domain": ["fig"]}
    assert dpgap.counts(address, **ask).expanded().tolist() == [0]
    with pytest.raises(ValueError, match=r"no column 'who.*it has who, what"):
        dpgap.counts(address, **ask | {"unit": "who "})
    with pytest.raises(ValueError, match="there is no such table in the database"):
        dpgap.counts(address.replace("=sold", "=other"), **ask)
    with pytest.raises(ValueError, match="there is no file 'other:what'"):
        dpgap.counts(address, **ask | {"domain": "other:what"})


def test_the_users_connection_is_as_it_was(tmp_path: Path) -> None:
    _database(tmp_path / "sold.db", "TEXT", [])
    connection = sqlite3.connect(tmp_path / "sold.db")
    connection.text_factory = factory = bytes.decode
    connection.row_factory = sqlite3.Row
    table = ibis.sqlite.from_connection(connection).table("sold")
    kept = table.filter(table.place == "ch").select("who", what="what")
    assert dpgap.counts(kept, unit="who", item="what", domain=[0]).expanded().tolist() == [20]
    assert (connection.text_factory, connection.row_factory) == (factory, sqlite3.Row)
    connection.close()


def test_converters_of_a_connection_read_no_value(tmp_path: Path) -> None:
    """A connection may convert the columns of a declared type, and fail on one row."""
    path = tmp_path / "sold.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sold (who INTEGER, what TIMESTAMP)")
        database.execute("INSERT INTO sold VALUES (1, '2024-01-01 12:00:00'), (2, 'yes')")
    database.close()
    connection = sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES)
    table = ibis.sqlite.from_connection(connection).table("sold")
    domain = ["2024-01-01 12:00:00", "2024-01-01T12:00:00", "yes"]
    found = dpgap.counts(table, unit="who", item="what", domain=domain)
    assert found.expanded().tolist() == [1, 0, 1]
    connection.close()


def test_rows_can_be_counted(tmp_path: Path) -> None:
    address = _database(tmp_path / "sold.db", "TEXT", [])
    for table in (address, _through_ibis(address)):
        assert round(dpgap.count(table, unit="row", epsilon=1000).estimate) == 50
