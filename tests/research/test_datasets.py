"""The paper's data sets: files read or refused, made data, and real data where it is at hand."""

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from dpgap.research.datasets import (
    FOLDER_VARIABLE,
    PUBLISHED,
    load,
    load_all,
    read_counts,
)
from real_data import real_file


@pytest.fixture
def real_data() -> Path:
    return real_file("kosarak-item-counts-ge991.csv").parent


@pytest.mark.parametrize("zipped", [True, False])
def test_fimi_files_are_counted_once_a_line(tmp_path, zipped: bool):
    text = b"3 1 3\r\n1\r\n\r\n  2 1\r\n"
    path = tmp_path / ("some.dat.gz" if zipped else "some.dat")
    path.write_bytes(gzip.compress(text) if zipped else text)
    counted = read_counts(path)
    assert counted.items.tolist() == [1, 2, 3]
    assert counted.counts.tolist() == [3, 1, 1]
    assert counted.records == 3


@pytest.mark.parametrize("line", ["1 x 2", "1,2", "1.5", "-3", "9" * 19])
def test_a_broken_line_is_refused_and_not_shown(tmp_path, line: str):
    path = tmp_path / "broken.dat"
    path.write_text(f"1 2\n3 4\n{line}\n5\n")
    with pytest.raises(ValueError, match=r"broken\.dat: a transaction must be") as error:
        read_counts(path)
    assert line not in str(error.value)


def test_tables_of_counts_and_of_purchases_are_read(tmp_path):
    (tmp_path / "counts.csv").write_text("item,count,kind\n7,3,x\n5,9,y\n")
    assert read_counts(tmp_path / "counts.csv").counts.tolist() == [9, 3]
    (tmp_path / "rows.csv").write_text("unit,item\na,fig\na,fig\nb,fig\nb,pea\n")
    rows = read_counts(tmp_path / "rows.csv")
    assert rows.counts.tolist() == [2, 1]
    assert rows.records == 2


def test_parquet_is_read(tmp_path):
    import duckdb

    path = tmp_path / "rows.parquet"
    duckdb.sql("select * from (values (1, 5), (1, 6), (2, 6), (2, 6)) t(unit, item)").write_parquet(
        str(path)
    )
    assert read_counts(path).counts.tolist() == [1, 2]
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"bad\.parquet must be a readable table"):
        read_counts(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "columns item and count, or unit and item"),
        ("item,count\n1,two\n", "every count must be a whole number"),
        ("item,count\n1,-2\n", "at least 0"),
        ("item,count\n1,2\n1,3\n", "every item must occur once"),
        ("item,count\n1,2,3\n4,5\n", r"bad\.csv could not be read"),
        ("item,count\n", "there must be some"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text: str, says: str):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_counts(tmp_path / "bad.csv")


def test_empty_and_cut_files_are_refused(tmp_path):
    (tmp_path / "empty.dat").write_text("\n \n")
    with pytest.raises(ValueError, match="no transactions"):
        read_counts(tmp_path / "empty.dat")
    (tmp_path / "cut.dat.gz").write_bytes(gzip.compress(b"1 2\n" * 999)[:-20])
    with pytest.raises(ValueError, match=r"cut\.dat\.gz could not be read"):
        read_counts(tmp_path / "cut.dat.gz")


def test_a_folder_without_the_files_says_what_was_expected(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no BMS-POS in .*expected BMS-POS\.dat"):
        load_all(tmp_path)
    with pytest.raises(FileNotFoundError, match="must be a folder or a file"):
        load_all(tmp_path / "nowhere")


def test_whole_files_come_first_and_any_file_can_take_their_place(tmp_path):
    for name in ("BMS_POS.dat", "kosarak.dat", "T40I10D100K.dat"):
        (tmp_path / name).write_text("1 2\n1\n")
    found = load_all(tmp_path)
    assert [each.name for each in found] == list(PUBLISHED)
    assert all(each.source.startswith("whole file") for each in found)
    assert [each.name for each in load_all(tmp_path / "kosarak.dat")] == ["kosarak"]


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        load_all()


def test_what_is_made_has_the_published_sizes_and_says_that_it_is_made():
    for name in PUBLISHED:
        made = load(name, None)
        assert (made.records, made.items) == PUBLISHED[name]
        assert "stand-in" in made.source


def test_real_data_is_completed_and_says_so(real_data):
    kosarak = load("Kosarak", real_data)
    assert kosarak.items == 41_270
    assert kosarak.counts.max() == 601_374
    assert (kosarak.counts >= 991).sum() == 1_259
    assert "completed" in kosarak.source
    t40 = load("T40I10D100K", real_data)
    assert (t40.counts >= 1_000).sum() == 755
    bms = load("BMS-POS", real_data)
    assert (bms.records, bms.items) == (275_000, 1_515)
    assert "partial" in bms.source


def test_missing_units_and_items_are_no_units_and_items(tmp_path):
    pairs = "unit,item\nu1,a\nu2,a\nu3,\n,b\nu5,\n\n"
    (tmp_path / "sold.csv").write_text(pairs)
    table = pyarrow.table(
        {"unit": ["u1", "u2", "u3", None, "u5"], "item": ["a", "a", None, "b", None]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "sold.parquet")
    for name in ("sold.csv", "sold.parquet"):
        counted = read_counts(tmp_path / name)
        assert (counted.counts.tolist(), counted.records) == ([2], 2)


def test_counts_may_be_whole_floats_but_no_fractions(tmp_path):
    path = tmp_path / "counts.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"item": [1, 2], "count": [5.0, 3.0]}), path)
    assert read_counts(path).counts.tolist() == [5, 3]
    pyarrow.parquet.write_table(pyarrow.table({"item": [1, 2], "count": [5.5, 3.0]}), path)
    with pytest.raises(ValueError, match="whole number"):
        read_counts(path)


def test_a_file_that_is_not_of_the_published_size_is_said_to_be_so(tmp_path):
    (tmp_path / "BMS-POS.dat").write_text("1 2\n2\n")
    assert load("BMS-POS", tmp_path).source == "whole file BMS-POS.dat; not of the published size"


def test_one_purchase_per_line_is_not_read_as_transactions(tmp_path):
    """The raw file of BMS-POS has a transaction, a tab and an item on each line."""
    for name, opened in (("raw.dat", open), ("raw.dat.gz", gzip.open)):
        with opened(tmp_path / name, "wt") as file:
            file.write("1\t7\n1\t9\n2\t7\n")
        with pytest.raises(ValueError, match="every line has two numbers, like one purchase"):
            read_counts(tmp_path / name)
    (tmp_path / "some.dat").write_text("1\t7\n1\t9\n2\t7\t8\n")
    assert read_counts(tmp_path / "some.dat").records == 3
