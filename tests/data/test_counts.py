"""Tables to counts: the same for every engine and file, and nothing of them ever shown."""

import gzip
import json
from collections.abc import Callable
from datetime import date
from fractions import Fraction
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
from awkward_rows import ROWS
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import NOTHING, Limit
from dpgap.data.counts import counts
from dpgap.data.domain import OBSERVED, read_domain
from real_data import real_file

DOMAIN = ["fig", "pea", "oat", "", "žluťoučký 🍐"]
EXPECTED = [2, 2, 0, 1, 2]
NUMBERS = [(1, 10), (1, 10), (2, 10), (None, 10), (3, None), (3, 12), (2**53 + 1, 12), (2**53, 12)]


def _table(rows: list[Any] = ROWS) -> pyarrow.Table:
    who, what = zip(*rows, strict=True)
    return pyarrow.table({"who": list(who), "what": list(what), "price": [1.5] * len(rows)})


def _parquet(table: pyarrow.Table, folder: Path) -> Path:
    path = folder / "sold.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


def _json(table: pyarrow.Table, folder: Path) -> Path:
    path = folder / "sold.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
    return path


ENGINES: dict[str, Callable[[pyarrow.Table, Path], Any]] = {
    "pandas": lambda table, _: table.to_pandas(),
    "pandas with objects": lambda table, _: pandas.DataFrame(table.to_pydict(), dtype=object),
    "pandas with categories": lambda table, _: table.to_pandas().astype(
        {"who": "category", "what": "category"}
    ),
    "pandas on arrow": lambda table, _: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "Polars": lambda table, _: polars.from_arrow(table),
    "Polars lazy": lambda table, _: polars.from_arrow(table).lazy(),
    "PyArrow": lambda table, _: table,
    "DuckDB": lambda table, _: duckdb.connect().from_arrow(table),
    "Ibis": lambda table, folder: ibis.duckdb.connect().read_parquet(_parquet(table, folder)),
    "Parquet": _parquet,
    "JSON lines": _json,
}


pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pyarrow.Table], Any]:
    return lambda table: ENGINES[request.param](table, tmp_path)


def _counts(table: Any, **options: Any) -> list[int]:
    settings = {"unit": "who", "item": "what", "domain": DOMAIN} | options
    return counts(table, **settings).expanded().tolist()


def test_every_engine_counts_distinct_units_without_nulls(engine: Callable[..., Any]) -> None:
    assert _counts(engine(_table())) == EXPECTED


def test_every_engine_counts_whole_numbers(engine: Callable[..., Any]) -> None:
    table = engine(_table(NUMBERS[:6]))
    assert _counts(table, domain=range(10, 13)) == [2, 0, 1]
    assert _counts(table, domain=["12", 10]) == [1, 2]


def test_every_engine_counts_rows_where_a_row_is_the_unit(engine: Callable[..., Any]) -> None:
    assert _counts(engine(_table()), unit="row") == [4, 2, 0, 1, 2]


def test_every_engine_treats_nan_as_null() -> None:
    who, what = [1.0, float("nan"), 2.0, 3.0], [7.0, 7.0, float("nan"), 7.0]
    table = pyarrow.table({"who": who, "what": what})
    for name in ("pandas", "Polars", "PyArrow", "DuckDB"):
        assert _counts(ENGINES[name](table, Path()), domain=[7]) == [2], name


def test_an_empty_field_of_a_text_file_is_null_and_every_column_is_text(tmp_path: Path) -> None:
    path = tmp_path / "sold.csv"
    lines = ["who,what", "01,7", "1,7", "2,", '3,""', ",7", "2,07", '4,"a,""b"', "5,žluť"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert _counts(str(path), domain=[7, "07", "", 'a,"b', "žluť"]) == [2, 1, 0, 1, 1]
    with gzip.open(tmp_path / "sold.csv.gz", "wb") as file:
        file.write(path.read_bytes())
    assert _counts(tmp_path / "sold.csv.gz", domain="0..9") == [0, 0, 0, 0, 0, 0, 0, 2, 0, 0]


def test_in_fimi_files_the_line_is_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"1 2 2\n\n3\t1 \n 7")
    for unit in (None, "line", "row"):
        assert _counts(path, unit=unit, item=None, domain="0..4") == [0, 2, 1, 1, 0]
    with pytest.raises(ValueError, match="unit must be 'line'"):
        _counts(path, unit="customer")


def test_names_of_columns_and_files_may_hold_anything(tmp_path: Path) -> None:
    names = ["a \"b\" 'c'", "x; DROP TABLE y"]
    table = _table().select(["who", "what"]).rename_columns(names)
    path = tmp_path / "it's [a] *file?.parquet"
    pyarrow.parquet.write_table(table, path)
    for source in (path, table, duckdb.connect().from_arrow(table), table.to_pandas()):
        assert _counts(source, unit=names[0], item=names[1]) == EXPECTED


def test_one_unit_moves_every_count_by_at_most_one_in_one_direction() -> None:
    full = polars.DataFrame(_table())
    before = np.array(_counts(full))
    for who in {who for who, _ in ROWS if who is not None}:
        change = before - _counts(full.filter(polars.col("who").ne_missing(who)))
        assert change.min() >= 0
        assert change.max() <= 1


def test_replacing_a_unit_is_a_choice_with_general_scales() -> None:
    answers = counts(_table(), unit="who", item="what", domain=DOMAIN, neighbours="replace")
    assert (answers.sensitivity, answers.monotonic) == (1, False)
    with pytest.raises(ValueError, match="monotonic must be False"):
        dpgap.NoisyTopK(k=1, epsilon=1, monotonic=True).release(answers)
    with pytest.raises(ValueError, match="monotonic must be False"):
        dpgap.measured_above(answers, 1, 1, 1, monotonic=True)
    assert dpgap.NoisyTopK(k=1, epsilon=1).release(answers).labels is not None
    with pytest.raises(ValueError, match="neighbours must be one of"):
        counts(_table(), unit="who", item="what", domain=DOMAIN, neighbours="swap")


def test_mechanisms_refuse_answers_that_contradict_them_and_take_their_labels() -> None:
    answers = counts(_table(), unit="who", item="what", domain=DOMAIN)
    for mechanism in (
        dpgap.NoisyMax(epsilon=1, sensitivity="1/2"),
        dpgap.SparseVector(1, 1, 1, sensitivity="1/2"),
        dpgap.Laplace(epsilon=1, sensitivity="1/2"),
    ):
        with pytest.raises(ValueError, match="sensitivity must be at least"):
            mechanism.release(answers)
    best = dpgap.NoisyTopK(k=5, epsilon=1, monotonic=True).release(answers)
    assert sorted(best.labels or ()) == sorted(DOMAIN)
    assert dpgap.Laplace(epsilon=1).release(answers).values.size == 5


def test_absent_items_of_a_range_are_not_written_out() -> None:
    table = pyarrow.table({"who": [1, 2, 2], "what": [10**15, 10**15, 5]})
    answers = counts(table, unit="who", item="what", domain=range(10**18))
    assert (answers.absent, sorted(answers.counts.tolist())) == (10**18 - 2, [1, 2])
    assert sorted(answers.positions.tolist()) == [5, 10**15]
    assert dpgap.NoisyMax(epsilon=10**4).release(answers).label == 10**15
    halfway = dpgap.SparseVector(threshold="1/2", k=1, epsilon=10**4, grid="1/8")
    found = halfway.release(answers)
    assert found.labels == (5,)
    with pytest.raises(ValueError, match="at most 100,000,000 items"):
        dpgap.NoisyMax(epsilon=1, noise="staircase").release(answers)


def test_private_counts_show_no_value() -> None:
    table = pyarrow.table({"who": range(987), "what": ["fig"] * 987})
    answers = counts(table, unit="who", item="what", domain=["fig", "pea"])
    assert "987" not in repr(answers) + str(answers) + f"{answers}"
    assert repr(answers) == "<private answers: 2 items, sensitivity 1, monotonic>"


MIXED = {
    "Polars": polars.DataFrame({"who": [1, 2], "what": [7, "secret"]}, strict=False).with_columns(
        polars.Series("what", [7, "secret"], dtype=polars.Object)
    ),
    "lists": polars.DataFrame({"who": [1, 2], "what": [[7], [8]]}),
    "dates": polars.DataFrame({"who": [1], "what": [date(2026, 1, 1)]}),
    "bytes": pyarrow.table({"who": [1], "what": [b"secret"]}),
}


@pytest.mark.parametrize("name", MIXED)
def test_columns_of_mixed_or_uncountable_types_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must hold") as refusal:
        _counts(MIXED[name])
    assert "secret" not in str(refusal.value)


def test_both_zeros_are_one_item() -> None:
    zeros = pyarrow.table({"who": [1, 1], "what": [0.0, -0.0]})
    for name in ("pandas", "Polars", "PyArrow", "DuckDB"):
        assert _counts(ENGINES[name](zeros, Path()), domain=[0]) == [1], name


def test_what_an_engine_says_never_passes_through() -> None:
    relation = duckdb.connect().sql(
        "SELECT 1 AS who, CAST(x AS INTEGER) AS what FROM (VALUES ('secret')) t(x)"
    )
    with pytest.raises(ValueError, match="could not be read") as refusal:
        _counts(relation, domain=range(3))
    assert "secret" not in str(refusal.value)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"unit": "customer"}, "there is no column 'customer'"),
        ({"item": "who"}, "must be different columns"),
        ({"unit": None}, "^unit must be given: the column with the unit of each row"),
        ({"item": None}, "^item must be given: the column to count"),
        ({"unit": None, "item": None}, "^unit and item must be given"),
        ({"unit": 3}, "unit must be the name of a column"),
        ({"domain": []}, "domain must not be empty"),
        ({"domain": None}, "domain must be a list"),
        ({"domain": "nowhere.txt"}, "^there is no file 'nowhere.txt': a domain in text is"),
        ({"domain": "9..1"}, "must not be empty"),
        ({"domain": [b"fig"]}, "items must be text"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        _counts(_table(), **options)


def test_a_table_must_be_a_table() -> None:
    for table in (None, 7, [1, 2], {"who": [1]}):
        with pytest.raises(TypeError, match="table must be a frame"):
            _counts(table)


def test_a_column_named_row_is_not_mistaken_for_the_rows(tmp_path: Path) -> None:
    table = pyarrow.table({"row": [1, 1], "what": ["fig", "pea"]})
    (tmp_path / "sold.csv").write_text("row,what\n1,fig\n1,pea\n")
    ask: dict[str, Any] = {"unit": "row", "item": "what", "domain": ["fig"], "k": 1, "epsilon": 1}
    purse = InMemoryBudget(Limit("epsilon", Fraction(1)))
    for each in (table, _parquet(table, tmp_path), tmp_path / "sold.csv"):
        with pytest.raises(ValueError, match="unit='row' is unclear"):
            _counts(each, unit="row")
        with pytest.raises(ValueError, match="unit='row' is unclear"):
            dpgap.top_k(each, **ask, account=purse)
        assert _counts(each, unit="what", item="row", domain=[1]) == [2]
    assert purse.spent == NOTHING


def test_a_domain_of_words_does_not_fit_a_column_of_numbers() -> None:
    with pytest.raises(ValueError, match="domain has no numbers"):
        _counts(_table(NUMBERS))


def test_the_same_domain_can_be_stated_in_many_ways(tmp_path: Path) -> None:
    expected = ("fig", "oat", "pea")
    (tmp_path / "items.txt").write_text("fig\r\noat\npea\n")
    table = pyarrow.table({"item": ["pea", "fig", "oat", "fig", None]})
    pyarrow.parquet.write_table(table, tmp_path / "items.parquet")
    (tmp_path / "items.csv").write_text("item,n\nfig,1\npea,2\noat,3\n")
    for domain in (
        ["fig", "oat", "pea", None],
        tmp_path / "items.txt",
        f"{tmp_path}/items.txt",
        f"{tmp_path}/items.parquet:item",
        f"{tmp_path}/items.csv:item",
        pandas.Series(["fig", "oat", "pea"]),
        polars.Series(["fig", "oat", "pea"]),
        pyarrow.chunked_array([["fig", "oat", "pea"]]),
        np.array(["fig", "oat", "pea"]),
    ):
        assert read_domain(domain).labels == expected
    with pytest.raises(ValueError, match="must name a column"):
        read_domain(f"{tmp_path}/items.parquet")


def test_an_observed_domain_is_what_is_there() -> None:
    answers = counts(_table(), unit="who", item="what", domain=OBSERVED)
    assert answers.labels == ("", "Fig", "fig", "not in the domain", "pea", "žluťoučký 🍐")
    assert answers.absent == 0


def test_ranges_may_have_steps_and_go_down() -> None:
    items = np.array([-3, 0, 3, 4, 2**63 - 1])
    assert read_domain(range(-3, 7, 3)).positions(items).tolist() == [0, 1, 2, -1, -1]
    assert read_domain(range(6, -4, -3)).positions(items).tolist() == [3, 2, 1, -1, -1]
    large = np.array([2**64 - 1, 5], dtype=np.uint64)
    assert read_domain(range(10)).positions(large).tolist() == [-1, 5]


def test_retail_is_counted_as_published() -> None:
    answers = counts(real_file("retail.dat.gz"), unit="line", item=None, domain="0..16469")
    numbers = answers.expanded()
    assert numbers.min() >= 1
    assert (numbers.sum(), numbers.max()) == (908576, 50675)
    assert answers.sensitivity == Fraction(1)
