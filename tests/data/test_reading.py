"""Nothing is guessed from rows: one unit's rows never change how anybody else's are read."""

import gzip
import json
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.cli.main import app
from dpgap.data import domain, sources
from dpgap.data.counts import counts
from dpgap.data.private_counts import with_masked_errors


def _counts(table: Any, domain: Any, **options: Any) -> list[int]:
    settings = {"unit": "who", "item": "what"} | options
    return counts(table, domain=domain, **settings).expanded().tolist()


@pytest.mark.filterwarnings("ignore:domain is taken as it is written")
@pytest.mark.parametrize("odd", ["#zed,bread", "'zed','bread'", '"zed";"bread"', "zed\tx,bread"])
@pytest.mark.parametrize("rows", [40, 1_500, 6_000])
def test_one_row_of_a_csv_file_moves_every_count_by_at_most_one(
    tmp_path: Path, odd: str, rows: int
) -> None:
    path, domain = tmp_path / "sold.csv", ["size #4", "bread", "#oat", "'bread'"]
    lines = [f"{who},{domain[who % 3]}" for who in range(rows)]
    path.write_text("\n".join(["who,what", *lines]) + "\n")
    before = _counts(path, domain)
    assert before == [sum(who % 3 == place for who in range(rows)) for place in range(3)] + [0]
    path.write_text("\n".join(["who,what", odd, *lines, odd]) + "\n")
    if odd.count(",") != 1:  # malformed rows are refused, never read around
        with pytest.raises(ValueError, match="could not be read"):
            _counts(path, domain)
        return
    after = _counts(path, domain)
    assert all(0 <= more - less <= 1 for less, more in zip(before, after, strict=True))
    assert sum(after) == sum(before) + 1


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_first_line_says_what_stands_between_columns(
    tmp_path: Path, suffix: str, delimiter: str, newline: str
) -> None:
    lines = [delimiter.join(row) for row in (("who", "x{y}'s", "what"), ("1", "2,3;4", "fig"))]
    quoted = newline.join(lines).replace("2,3;4", '"2,3;4"')
    path = tmp_path / f"sold.{suffix}.gz"
    with gzip.open(path, "wt", encoding="utf-8-sig", newline="") as file:
        file.write(quoted + newline)
    assert _counts(path, ["fig", "pea"]) == [1, 0]
    assert _counts(path, ["2,3;4"], item="x{y}'s") == [1]


@pytest.mark.parametrize(
    "text", ["", "who,who\n1,2\n", "who,what\n1\n", "who,what\n1,2,3\n", 'who,what\n1,"2\n']
)
def test_csv_files_without_a_header_or_with_broken_rows_are_refused(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "sold.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"could not be read|a different name for every|no column"):
        _counts(path, ["fig"])


def test_a_row_with_another_line_ending_is_named_among_what_may_be_wrong(tmp_path: Path) -> None:
    path = tmp_path / "sold.csv"
    path.write_bytes(b"who,what\r\n1,fig\r\n2,fig\n3,pea\r\n")
    with pytest.raises(ValueError, match=r"or another line ending than the others \(LF among CRLF"):
        _counts(path, ["fig"])


@pytest.mark.parametrize("name", ["export.xlsx", "EXPORT.XLS"])
def test_for_an_excel_file_the_error_says_how_to_read_it(name: str) -> None:
    with pytest.raises(ValueError, match=r"read it with pandas\.read_excel, and pass the frame$"):
        _counts(Path(name), ["fig"])
    with pytest.raises(ValueError, match=r"not 'export\.txt'$"):
        _counts(Path("export.txt"), ["fig"])


def test_a_first_line_that_names_the_separator_is_to_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "sold.csv"
    for first in ("sep=;", '"sep=;"', "sep=,"):
        path.write_text(f"{first}\nwho;what\n1;fig\n")
        with pytest.raises(ValueError, match="delete its first line, sep=") as refusal:
            _counts(path, ["fig"])
        assert "who" not in str(refusal.value)
    path.write_text("sep=,who,what\n0,1,fig\n")
    assert _counts(path, ["fig"]) == [1]


def test_columns_are_told_where_it_is_known_that_they_are_names(tmp_path: Path) -> None:
    names = ["owned\x1b[2J", "long" * 99, *(f"column {place}" for place in range(23))]
    table = pandas.DataFrame({name: ["x"] for name in names})
    said = []
    for suffix, write in (("parquet", table.to_parquet), ("csv", table.to_csv)):
        write(tmp_path / f"sold.{suffix}", index=False)
        with pytest.raises(ValueError, match="there is no column") as refusal:
            _counts(tmp_path / f"sold.{suffix}", ["fig"])
        said.append(str(refusal.value))
    assert said[0].startswith(
        "there is no column 'what' in the table; it has owned\\x1b[2J, longlong"
    )
    assert said[0].endswith("column 16, column 17 and 5 more")
    assert len(said[0]) < 400
    assert said[1].endswith(
        "look up the names of its columns (a first line may be data: none is shown)"
    )
    table.assign(who="x").to_csv(tmp_path / "sold.csv", index=False)
    with pytest.raises(ValueError, match=r"; it has owned\\x1b\[2J, longlong"):
        _counts(tmp_path / "sold.csv", ["fig"])


@pytest.mark.parametrize("row", ["ann,7", "ann,fig", "2024-01-31,ann"])
def test_what_may_be_the_row_of_somebody_is_not_told_as_columns(tmp_path: Path, row: str) -> None:
    path = tmp_path / "sold.csv"
    path.write_text(f"{row}\nbob,3\n")
    for table in (path, pandas.read_csv(path)):
        with pytest.raises(ValueError, match="look up the names of its columns") as refusal:
            _counts(table, ["fig"])
        assert "ann" not in str(refusal.value)
    if row != "ann,fig":  # a right name by chance; others begin like numbers
        with pytest.raises(ValueError, match="none is shown"):
            dpgap.count(path, unit="ann", epsilon=1, where="land = 'DE'")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_the_name_of_a_folder_is_no_column(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "who=5" / "what=pea"
    folder.mkdir(parents=True)
    path = folder / f"sold.{suffix}"
    table = pandas.DataFrame({"who": range(9), "what": ["fig"] * 9})
    if suffix == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(table), path)
    elif suffix == "csv":
        table.to_csv(path, index=False)
    else:
        path.write_text("\n".join(map(json.dumps, table.to_dict("records"))))
    assert _counts(path, ["fig", "pea"]) == [9, 0]


def _pandas_column(kind: str, values: list[Any]) -> pandas.Series:
    """Values as a column of pandas: "object", or categories of another kind."""
    if kind == "object":
        return pandas.Series([pandas.NA if each is None else each for each in values], dtype=kind)
    return pandas.Series(values, dtype=kind).astype("category")


@pytest.mark.parametrize(
    ("kind", "known", "odd"),
    [
        ("Float64", 7.0, None),
        ("float64", 7.0, float("nan")),
        ("uint64", 7, 2**64 - 1),
        ("Int64", 7, None),
        ("boolean", True, None),
        ("object", 7.0, None),
        ("object", 7, 2**63),
        ("object", 7, 1 << 70),
        ("object", "7", "SECRET" * 99),
    ],
)
@pytest.mark.parametrize("column", ["who", "what"])
def test_no_value_of_a_pandas_column_decides_whether_it_is_read(
    column: str, kind: str, known: Any, odd: Any
) -> None:
    other = "what" if column == "who" else "who"
    for values in ([known] * 3, [known] * 3 + [odd]):
        table = pandas.DataFrame({column: _pandas_column(kind, values)})
        table[other] = [f"{place}" for place in range(len(values))]
        domain = [known] if column == "what" else list("0123")
        counted = _counts(table, domain)
        assert counted[: len(domain)] == [3] if column == "what" else counted[:3] == [1, 1, 1]


@pytest.mark.parametrize("column", ["who", "what"])
def test_views_of_text_in_arrow_may_be_missing(column: str) -> None:
    for values in (["fig"] * 3, ["fig", "fig", "fig", None]):
        own = pyarrow.array(values, pyarrow.string_view())
        other = [f"{place}" for place in range(len(values))]
        table = {"who": own, "what": other} if column == "who" else {"who": other, "what": own}
        domain = ["fig"] if column == "what" else ["0", "1", "2"]
        expected = [3] if column == "what" else [1, 1, 1]
        assert _counts(pyarrow.table(table), domain) == expected


def test_what_an_engine_says_outside_exceptions_is_not_said_either() -> None:
    class Panic(BaseException):
        """As Polars raises."""

    def fail() -> None:
        raise Panic("SECRET")

    with pytest.raises(ValueError, match="plain words") as refusal:
        with_masked_errors(fail, "plain words")
    assert refusal.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        with_masked_errors(_interrupt, "plain words")


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_text_that_looks_like_an_escape_is_text() -> None:
    sold = duckdb.connect().sql(r"SELECT 1 AS who, '\u0000' AS what UNION SELECT 2, chr(0)")
    assert _counts(sold, [r"\u0000", "\0", "u0000"]) == [1, 1, 0]


def test_a_domain_without_numbers_is_refused_by_the_type_of_a_column_and_never_by_its_rows() -> (
    None
):
    for kind in (None, "object", "category"):
        for what in ([None, None], [None, 7], [8, 7]):
            table = pandas.DataFrame({"who": [1, 2], "what": pandas.Series(what, dtype=kind)})
            assert _counts(table, ["fig"]) == [0]
    with pytest.raises(ValueError, match="domain has no numbers"):
        _counts(pandas.DataFrame({"who": [1, 2], "what": [7, 8]}, dtype="Int64"), ["fig"])


FRAMES = {"pandas": pandas.DataFrame, "Polars": polars.DataFrame, "PyArrow": pyarrow.table}


@pytest.mark.parametrize("name", FRAMES)
def test_text_keeps_the_zeros_at_its_end(name: str) -> None:
    what = ["fig\0", "fig", "fig\0\0", "\0", "", "pea"]
    table = FRAMES[name]({"who": range(6), "what": what})
    assert _counts(table, ["fig", "fig\0", "\0", ""]) == [1, 1, 1, 1]


@pytest.mark.parametrize("name", FRAMES)
def test_one_long_name_does_not_widen_all_the_others(name: str) -> None:
    what = [str(number) for number in range(20_000)] + ["n" * 100_000]
    table = FRAMES[name]({"who": range(20_001), "what": what})
    tracemalloc.start()
    try:
        assert sum(_counts(table, range(20_000))) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 26  # it would be 8 GB
    finally:
        tracemalloc.stop()


def test_other_digits_are_no_numbers() -> None:
    table = polars.DataFrame({"who": [1, 2], "what": ["12", "1٢"]})
    assert _counts(table, range(20))[12] == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_domains_may_be_frames_of_another_engine(lazy: bool, tmp_path: Path) -> None:
    table = polars.DataFrame({"who": [1, 2], "what": ["fig", "pea"]})
    names = polars.DataFrame({"name": ["pea", "fig", "oat"]})
    table, domain = (table.lazy(), names.lazy()) if lazy else (table, names.lazy())
    assert _counts(table, domain) == [1, 1, 0]
    relation = duckdb.connect().sql("SELECT 'pea' AS name UNION ALL SELECT 'oat'")
    table.lazy().collect().write_parquet(tmp_path / "sold.parquet")
    assert sorted(_counts(tmp_path / "sold.parquet", relation)) == [0, 1]
    (tmp_path / "baskets.dat").write_text("1 2\n2\n")
    numbers = duckdb.connect().sql("SELECT 2 AS number")
    assert counts(tmp_path / "baskets.dat", domain=numbers).expanded().tolist() == [2]


def test_threads_may_ask_the_same_frozen_counts() -> None:
    sold = duckdb.connect().sql("SELECT range AS who, range % 7 AS what FROM range(5000)")
    answers = counts(sold, unit="who", item="what", domain=range(7))
    winners, troubles = [], []

    def ask() -> None:
        try:
            winners.extend(dpgap.top_k(answers, k=1, epsilon=1).labels for _ in range(20))
            dpgap.above(answers, threshold=700, k=1, epsilon=1)
        except Exception as trouble:
            troubles.append(trouble)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles
    assert len(winners) == 80


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_database_in_a_file_that_is_not_there_is_refused_and_not_made(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = f"{tmp_path}/x.db"
    asked: Any = {"unit": "who", "item": "what", "domain": ["fig"], "k": 1, "epsilon": 1}
    with pytest.raises(FileNotFoundError) as refusal:
        dpgap.top_k(f"{kind}://{place}?table=ev", **asked)
    here = f"for a file in this folder, write {kind}://{place[1:]}"
    assert str(refusal.value) == f"there is no file {place!r}: {here}"
    with pytest.raises(FileNotFoundError, match=r"^there is no file 'x\.db'$"):
        dpgap.top_k(f"{kind}://x.db?table=ev", **asked)
    assert not [*tmp_path.iterdir()]


def test_a_file_that_may_not_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: str, *_: object, **__: object) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("sold.csv", "sold.parquet", "sold.jsonl", "sold.dat", "items.txt"):
        (tmp_path / name).write_text("who,what\n1,fig\n")
    for room in (sources, domain):
        monkeypatch.setattr(room, "open", denied, raising=False)
    for name in ("sold.csv", "sold.parquet", "sold.jsonl", "sold.dat"):
        with pytest.raises(PermissionError, match="Permission denied"):
            _counts(tmp_path / name, ["fig"])
        with pytest.raises(PermissionError, match="Permission denied"):
            domain.read_domain(f"{tmp_path / name}:what")
    with pytest.raises(PermissionError, match="Permission denied"):
        domain.read_domain(str(tmp_path / "items.txt"))
    create = "ledger create --ledger sqlite:///a.db --dataset sales --epsilon 1 --table"
    said = CliRunner().invoke(app, [*create.split(), str(tmp_path / "sold.csv")]).stderr
    assert said == f"dpgap: Permission denied: {tmp_path}/sold.csv\n"


def test_a_filter_names_columns_of_files_and_frames_in_one_way(tmp_path: Path) -> None:
    table = pandas.DataFrame({"size": ["9"], "price": ["3"]})
    table.to_csv(tmp_path / "sold.csv", index=False)
    for each in (table, tmp_path / "sold.csv"):
        with pytest.raises(ValueError, match="there is no column 'prize'") as refusal:
            dpgap.count(each, unit="row", where="size > 1 and prize > 10", epsilon=1)
        said = "in the table (did you mean price, size?); it has size, price"
        assert str(refusal.value) == f"there is no column 'prize' {said}"
