"""A column of the private table is no public domain: refused without looking at values."""

import os
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import dpgap
from dpgap.data.counts import counts
from dpgap.data.domain import DomainWarning, kind_of_label, read_domain, text_of

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis

DATA = {"who": [1, 2, 3], "what": ["fig", "pea", "oat"], "size": [7, 8, 9]}
PUBLIC = ["fig", "pea", "oat"]


def _is_refused(table: Any, domain: Any, item: str = "what") -> bool:
    try:
        counts(table, unit="who", item=item, domain=domain).close()
    except ValueError as refusal:
        told = str(refusal)
    else:
        return False
    assert "observed-not-private" in told
    assert "fig" not in told
    return True


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_a_column_of_the_same_file_is_refused_by_any_of_its_names(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(DATA)
    for name in ("sold", "goods"):
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "parquet":
            pyarrow.parquet.write_table(pyarrow.table(DATA), path)
        elif suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)
    sold = tmp_path / f"sold.{suffix}"
    os.symlink(sold, tmp_path / f"link.{suffix}")
    os.link(sold, tmp_path / f"other.{suffix}")
    for domain in (
        f"{sold}:what",
        f"sold.{suffix}:what",
        f"sold.{suffix}:size",
        f"link.{suffix}:what",
        f"other.{suffix}:what",
        f"{tmp_path}/../{tmp_path.name}/sold.{suffix}:what",
        Path(f"{sold}:what"),
    ):
        assert _is_refused(sold, domain), domain
        assert _is_refused(f"link.{suffix}", domain), domain
    assert not _is_refused(sold, f"goods.{suffix}:what")


def _pandas(**options: Any) -> pandas.DataFrame:
    return pandas.DataFrame(DATA, **options)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": _pandas,
    "Polars": lambda: polars.DataFrame(DATA),
    "PyArrow": lambda: pyarrow.table(DATA),
}


@pytest.mark.parametrize("name", FRAMES)
def test_values_that_were_taken_from_a_frame_cannot_be_told_from_public_ones(name: str) -> None:
    """So none are refused: whoever took a column would take its list, or its distinct values."""
    table = FRAMES[name]()
    assert not _is_refused(table, table["what"])
    assert not _is_refused(table, table["what"].unique())
    assert not _is_refused(table, PUBLIC)


def test_the_same_frame_is_refused() -> None:
    one = pandas.DataFrame({"what": PUBLIC})
    with pytest.raises(ValueError, match="observed-not-private"):
        counts(one, unit="row", item="what", domain=one)
    lazy = polars.LazyFrame({"what": PUBLIC})
    with pytest.raises(ValueError, match="observed-not-private"):
        counts(lazy, unit="row", item="what", domain=lazy)


def test_the_same_column_in_an_engine_is_refused() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE sold AS SELECT 1 AS who, 'fig' AS what")
    database.execute("CREATE TABLE goods AS SELECT 'fig' AS what")
    sold = database.table("sold")
    for domain in (sold.select("what"), database.table("sold").select("what").distinct()):
        assert _is_refused(sold, domain)
    assert not _is_refused(sold, database.table("goods"))
    other = ibis.duckdb.connect()
    other.create_table("sold", pyarrow.table(DATA))
    other.create_table("goods", pyarrow.table({"what": PUBLIC}))
    table = other.table("sold")
    for domain in (table.select("what"), other.table("sold").select("what").distinct(), table.what):
        assert _is_refused(table, domain)
    assert not _is_refused(table, other.table("goods"))


def test_a_column_of_the_same_table_in_a_database_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE sold AS SELECT 1 AS who, 'fig' AS what")
    url = f"duckdb://{tmp_path}/shop.db?table=sold"
    assert _is_refused(url, "sold:what")
    assert _is_refused(url, "sold:who")
    assert not _is_refused(url, PUBLIC)


def test_the_guarantee_says_that_the_domain_must_be_public() -> None:
    release = dpgap.top_k(_pandas(), unit="who", item="what", domain=PUBLIC, k=1, epsilon=1)
    assert "(a list of" in release.guarantee
    assert "The domain must be public: if it was read from" in release.guarantee


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["fig ", "pea", "\toat"], "2 with spaces around them"),
        (['"fig"', "'pea'", "o'at'"], "2 in quotes"),
        (["fig", "fig", "pea", "fig"], "2 repeated"),
        (["Mu\u0308sli", "fig"], "1 with accents apart from their letters"),
        (["fig", "\ufeffpea"], "1 with a byte-order mark"),
        (["fig", "fig", " pea"], "1 with spaces around them, 1 repeated"),
    ],
)
def test_one_warning_tells_what_looks_like_a_slip_in_a_domain(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    path = tmp_path / "items.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for domain in (lines, path):
        with pytest.warns(DomainWarning, match=rf"its items: {said}$") as told:
            counts(_pandas(), unit="who", item="what", domain=domain)
        assert [each.filename for each in told] == [__file__]


def _kinds_of(labels: list[Any]) -> list[Any]:
    extended = pandas.Series(labels, dtype="string")  # whose missing value is pandas.NA
    columns = pandas.Series(labels), extended, polars.Series(labels), pyarrow.array(labels)
    return [labels, *columns, np.array(labels, dtype=object)]


def test_empty_lines_and_repeated_items_are_told_also_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "items.txt"
    path.write_text("fig\n\n\r\npea\n", encoding="utf-8")
    with pytest.warns(DomainWarning, match="2 empty"):
        assert read_domain(path).labels == ("fig", "pea")
    for once in _kinds_of([*PUBLIC, None, None]):
        assert read_domain(once).labels == tuple(PUBLIC)
    for twice in _kinds_of([*PUBLIC, *PUBLIC, None]):
        with pytest.warns(DomainWarning, match=f"its items: {len(PUBLIC)} repeated$"):
            assert read_domain(twice).labels == tuple(PUBLIC)
    for often in _kinds_of([*PUBLIC * 3, None]):
        with pytest.warns(DomainWarning, match="repeated; was it read from the table[?]$"):
            read_domain(often)
    with pytest.warns(DomainWarning, match="1 with spaces"):
        read_domain(pandas.Series(["fig "]))


def test_what_was_observed_is_private_and_is_not_warned_of() -> None:
    table = pandas.DataFrame({"who": [1], "what": [' "fig" ']})
    assert counts(table, unit="who", item="what", domain="observed-not-private").labels == (
        ' "fig" ',
    )


def test_labels_that_read_the_same_and_are_not_equal_are_of_other_kinds():
    day, midnight = date(2024, 1, 1), datetime(2024, 1, 1)
    assert text_of(day) == text_of(midnight)
    assert kind_of_label(day) != kind_of_label(midnight)
    assert {kind_of_label(each) for each in (7, 7.0, Decimal(7), np.int64(7))} == {"n"}
    assert len({kind_of_label(each) for each in ("7", 7, True, day)}) == 4


def test_a_domain_that_cannot_be_read_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file 'A,B'") as refusal:
        read_domain("A,B")
    lists = "a list of items is ['A', 'B'] in Python, and A,B in a command"
    assert str(refusal.value).endswith(f'or "0..16469"; {lists}')
    (tmp_path / "items.txt").write_bytes("Müsli\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"with an item on each line: save it as UTF-8$"):
        read_domain(str(tmp_path / "items.txt"))
