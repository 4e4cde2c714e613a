"""Filters keep the same rows on every engine: those that plain Python would keep."""

import math
import operator
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals as nw
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.data import filtering, query
from dpgap.data.filtering import Reading, keep
from dpgap.filter_language import read_filter
from filter_reference import (
    COLUMNS,
    EQUALS,
    FORMS,
    PATTERNS,
    SIGNS,
    Condition,
    arrow_table,
    has_no_order,
    kept_rows,
    literals_of,
    matches,
    quoted,
    rich_rows,
    single_comparisons,
    spelled,
)
from seams import quick_in

Home = Callable[[pyarrow.Table, Path], Any]


def _parquet(table: pyarrow.Table, folder: Path) -> Path:
    """Files have statistics, and those do not know of NaN."""
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


HOMES: dict[str, Home] = {
    "pandas": lambda table, _: table.to_pandas(types_mapper=_NULLABLE.get),
    "pandas on Arrow": lambda table, _: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "Polars": lambda table, _: polars.from_arrow(table),
    "Polars, a file": lambda table, folder: polars.scan_parquet(_parquet(table, folder)),
    "PyArrow": lambda table, _: table,
    "DuckDB": lambda table, _: duckdb.connect().from_arrow(table),
    "DuckDB, a file": lambda table, folder: duckdb.connect().read_parquet(
        str(_parquet(table, folder))
    ),
}
_NULLABLE = {
    pyarrow.int64(): pandas.Int64Dtype(),
    pyarrow.int16(): pandas.Int16Dtype(),
    pyarrow.bool_(): pandas.BooleanDtype(),
    pyarrow.float32(): pandas.Float32Dtype(),
    **{
        kind: pandas.ArrowDtype(kind)
        for kind, _, _ in COLUMNS.values()
        if pyarrow.types.is_decimal(kind) or pyarrow.types.is_date(kind)
    },
}


def _expected(rows: list[dict[str, Any]], condition: Condition) -> list[int]:
    return [at for at, row in enumerate(rows) if matches(condition, row)]


@pytest.mark.parametrize("home", HOMES)
def test_every_comparison_keeps_the_rows_that_plain_python_keeps(home: str, tmp_path: Path) -> None:
    """Every other comparison in each home, and each of them in several."""
    rows, first = rich_rows(), list(HOMES).index(home) % 2
    conditions = single_comparisons()[first :: 4 if "DuckDB" in home else 2]
    texts = [spelled(condition) for condition in conditions]
    kept = kept_rows(HOMES[home](arrow_table(rows), tmp_path), texts)
    for text, condition, found in zip(texts, conditions, kept, strict=True):
        assert found == _expected(rows, condition), text


@pytest.mark.filterwarnings("ignore:fetch_arrow_table")  # Ibis 12 on DuckDB 2
def test_ibis_compares_decimals_exactly_in_other_databases_too(tmp_path: Path) -> None:
    rows = rich_rows()
    table = ibis.duckdb.connect().read_parquet(_parquet(arrow_table(rows), tmp_path))
    conditions = [each for each in single_comparisons() if "long" in each][::2]
    kept = [kept_rows(table, [spelled(condition)])[0] for condition in conditions]
    assert kept == [_expected(rows, condition) for condition in conditions]


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    literal = st.sampled_from(literals_of(name))
    first = draw(literal)
    sign = draw(st.sampled_from(EQUALS if has_no_order(first) else SIGNS))
    literals = [] if "null" in sign else [first]
    same = literal.filter(lambda each: _kind_of(each) == _kind_of(first))
    if sign in ("in", "not in"):
        literals += draw(st.lists(same, max_size=3))
    elif "between" in sign:
        literals.append(draw(same.filter(lambda each: not has_no_order(each))))
    if name == "dated":
        return "day", draw(st.sampled_from(FORMS)), sign, literals
    if name == "text" and draw(st.integers(0, 3)) == 0:
        sign = draw(st.sampled_from(["like", "not like"]))
        literals = [quoted(draw(st.sampled_from(PATTERNS)))]
    return "compare", name, sign, literals


def _kind_of(literal: str) -> str:
    if literal.lower() in ("true", "false"):
        return "truth"
    return "text" if literal.startswith("'") else "number"


def _deeper(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    some = st.lists(parts, min_size=2, max_size=3)
    return st.tuples(st.just("not"), parts) | st.tuples(st.sampled_from(["and", "or"]), some)


CONDITIONS = st.recursive(comparisons(), _deeper, max_leaves=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | st.sampled_from(values) for name, (_, values, _) in COLUMNS.items()}
    ),
    max_size=6,
)


@settings(max_examples=25)
@given(rows=ROWS, conditions=st.lists(CONDITIONS, min_size=1, max_size=3))
def test_any_filter_keeps_the_rows_that_plain_python_keeps(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], conditions: list[Condition]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    for name, home in HOMES.items():
        texts = [spelled(condition) for condition in conditions]
        kept = kept_rows(home(arrow_table(rows), folder), texts)
        assert kept == [_expected(rows, condition) for condition in conditions], (name, texts)


# Kinds of columns that only some engines have


def _found(native: Any, *texts: str) -> list[list[int]]:
    return kept_rows(native, list(texts))


def test_whole_numbers_of_any_size_are_compared_exactly() -> None:
    values = [0, 5, 2**63, 2**64 - 1, None]
    table = pyarrow.table({"at": range(5), "x": pyarrow.array(values, pyarrow.uint64())})
    texts = (
        "x > 4.5",
        "x >= 9223372036854775808",
        "x = 18446744073709551615",
        "x < 18446744073709551616",
        "x < 0",
        "x > -0.5",
        "x != 5",
    )
    expected = [[1, 2, 3], [2, 3], [3], [0, 1, 2, 3], [], [0, 1, 2, 3], [0, 2, 3]]
    for home in ("pandas on Arrow", "Polars", "PyArrow", "DuckDB"):
        assert _found(HOMES[home](table, Path()), *texts) == expected, home
    masked = pandas.DataFrame({"at": range(5), "x": pandas.array(values, "UInt64")})
    assert _found(masked, *texts) == expected


def test_whole_numbers_of_128_bits_are_compared_exactly() -> None:
    huge = 2**127 - 1
    frame = polars.DataFrame(
        {"at": [0, 1, 2], "x": [1, huge, None]}, {"at": polars.Int64, "x": polars.Int128}
    )
    relation = duckdb.sql(
        f'SELECT * FROM (VALUES (0, 1::HUGEINT), (1, {huge}), (2, NULL)) t("at", x)'
    )
    texts = f"x = {huge}", f"x < {huge}", "x >= 0.5", "x <= 1e239"
    for native in (frame, relation):
        assert _found(native, *texts) == [[1], [0], [0, 1], [0, 1]]


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis
def test_whole_numbers_of_128_bits_are_no_error_through_ibis() -> None:
    huge = 2**127 - 1  # Ibis takes them for decimals, which have at most 38 digits
    database, values = ibis.duckdb.connect(), f"(0, 1), (1, {huge}), (2, -{huge}), (3, NULL)"
    database.raw_sql('CREATE TABLE sold ("at" BIGINT, x HUGEINT)')
    database.raw_sql(f"INSERT INTO sold VALUES {values}")
    table = database.table("sold")
    most = f"x > {2**63 - 1}"
    texts = "x = 1", "x < 0.5", "x >= 1", "x != 1", "not x > 1", most
    assert _found(table, *texts) == [[0], [2], [0, 1], [1, 2], [0, 2, 3], [1]]
    for literal in (2**63, -(2**63), "1e38"):
        with pytest.raises(ValueError, match="may be a HUGEINT"):
            _found(table, f"x > {literal}")
    with pytest.raises(ValueError, match="write 1 without quotes"):
        _found(table, "x > '1'")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_times_of_any_unit_and_zone_are_compared_exactly(unit: str, zone: str | None) -> None:
    values = ["1970-01-01 00:00:01", "2024-01-31 12:00:00", None]
    times = pyarrow.array(values).cast(pyarrow.timestamp(unit))
    if zone:
        times = times.cast(pyarrow.timestamp(unit, zone))
    table = pyarrow.table({"at": range(3), "x": times})
    texts = (
        "x >= '2024-01-31 12:00'",
        "x > '1970-01-01 00:00:00.999999'",
        "x = '1970-01-01 00:00:01'",
        "x = '1970-01-01 00:00:00.999999'",
        "not x < '2262-12-31'",
        "x > '1600-01-01'",
    )
    expected = [[1], [0, 1], [0], [], [2], [0, 1]]
    for home in ("pandas", "pandas on Arrow", "Polars", "PyArrow", "DuckDB"):
        if (home, unit, zone is None) != ("DuckDB", "ns", False):  # Narwhals has no name for it
            assert _found(HOMES[home](table, Path()), *texts) == expected, home


def test_a_time_beyond_all_others_decides_nothing_for_them() -> None:
    times = pyarrow.array([0, 2**62], pyarrow.timestamp("s"))
    table = pyarrow.table({"at": [0, 1], "x": times})
    assert _found(table, "x >= '2024-01-31 12:00:00.5'", "x < '2024-01-31'") == [[1], [0]]


def test_categories_are_text() -> None:
    values = ["10", "9", None, "a"]
    texts = "x >= 10", "x = 'a'", "not x != '9'", "x < 'a'"
    expected = [[0], [3], [1, 2], [0, 1]]
    ats, text = range(4), pyarrow.array(values)
    frame = polars.DataFrame({"at": ats, "x": values})
    for native in (
        frame.with_columns(polars.col("x").cast(polars.Categorical)),
        frame.with_columns(polars.col("x").cast(polars.Enum(["a", "9", "10"]))),
        pyarrow.table({"at": ats, "x": text.dictionary_encode()}),
        pandas.DataFrame({"at": ats, "x": pandas.Series(values, dtype="category")}),
        pandas.DataFrame({"at": ats, "x": pandas.Series(values, dtype="string[python]")}),
        pandas.DataFrame({"at": ats, "x": pandas.Series(values, dtype="str")}),
    ):
        assert _found(native, *texts) == expected


def test_an_object_column_of_pandas_is_compared_value_by_value() -> None:
    odd = [7, 7.0, "7", True, None, math.nan, pandas.NA, date(2024, 1, 31), Decimal("7.50")]
    odd += [[7], {7}, b"7", "7\udc80", 10**5_000, object(), datetime(2024, 1, 31, 12), np.int8(7)]
    odd += [pandas.NaT, Decimal("sNaN"), np.float32("nan")]
    table = pandas.DataFrame({"at": range(len(odd)), "x": pandas.Series(odd, dtype=object)})
    texts = (
        "x = 7",
        "x > 7",
        "x = true",
        "x = '2024-01-31'",
        "x >= '2024-01-31' and x < '2025-01-01'",
    )
    assert _found(table, *texts) == [[0, 1, 2, 16], [8], [3], [7], [7, 15]]
    assert _found(table, "x in ('nan', 'NaN', 'NaT', 'sNaN', 'None', '<NA>')") == [[]]
    assert _found(table, "not x = 7") == [[at for at in range(len(odd)) if at not in (0, 1, 2, 16)]]


def test_pandas_reads_days_from_dates_and_times_whatever_the_type_of_their_column() -> None:
    times = ["2024-01-30 23:59", "2024-01-31", "2024-01-31 23:59:59.999999999", "2024-02-01", None]
    column = pandas.Series(pandas.to_datetime(times, format="ISO8601"))
    texts = [
        f"day(x, 'DD.MM.YYYY') {each}"
        for each in ("= '2024-01-31'", "> '2024-01-31'", "!= '2024-01-31'", "is null")
    ]
    own = [each.floor("us").to_pydatetime() for each in column[:4]]
    columns = [column, column.astype(object), pandas.Series([*own, "x"], dtype=object)]
    columns += [column.dt.tz_localize("UTC"), column.dt.tz_localize("UTC").dt.tz_convert("+05:00")]
    for each in columns:
        table = pandas.DataFrame({"at": range(5), "x": each})
        assert _found(table, *texts) == [[1, 2], [3], [0, 3], [4]]


def test_the_columns_of_a_frame_are_left_as_they_were(tmp_path: Path) -> None:
    table = pyarrow.table({"dpgap_where_0_0": ["10", "9", "x"], "Dpgap_Where__": [1, 2, 3]})
    for home in HOMES.values():
        frame = nw.from_native(home(table, tmp_path))
        kept = keep(frame, read_filter("dpgap_where_0_0 > 1 and dpgap_where_0_0 < 'x'"))
        assert kept.collect_schema() == frame.collect_schema()
        assert type(kept) is type(frame)
        rows = kept.lazy().collect().rows()
        assert sorted(rows) == [("10", 1), ("9", 2)]


@pytest.mark.parametrize("home", quick_in(HOMES, {"pandas", "Polars, a file", "DuckDB"}))
def test_hundreds_of_parts_are_no_problem(home: str, tmp_path: Path) -> None:
    native = HOMES[home](arrow_table(rich_rows()[:10]), tmp_path)
    many = " or ".join(f"id={number}" for number in range(2, 400))
    deep = "not (id = 8 and " * 20 + "id = 9" + ")" * 20
    listed = f"text in ({', '.join(map(str, range(2, 800)))})"
    assert _found(native, many, deep, listed) == [[1, 2, 9], [*range(10)], [0, 1, 4, 5, 8]]


# Refusals

REFUSED = {
    "id like '1%'": "column 'id' must be text for day(…) and like",
    "day(day, 'DD.MM.YYYY') = '2024-01-31'": "column 'day' holds dates: leave out day(…), as",
    "day(zoned, 'DD.MM.YYYY') is null": "column 'zoned' holds dates: leave out day(…), as in col",
    "many is null": "column 'many' must hold numbers, text, true and false, dates, or times",
    "id between '1' and '2'": "column 'id' holds numbers: write 1 without quotes",
    "id = '10'": "column 'id' holds numbers: write 10 without quotes",
    "float in ('a')": "column 'float' holds numbers: write a number without quotes",
    "price = true": "column 'price' holds numbers: write a number without quotes",
    "flag = 'true'": "column 'flag' holds true and false: write one of them, without quotes",
    "flag = 1": "column 'flag' holds true and false: write one of them, without quotes",
    "day = 2024": "column 'day' holds dates: write '2024-01-31' or '2024-01-31 12:00', with quotes",
    "day = '2024-02-30'": "column 'day' holds dates",
    "time > '31.1.2024'": "column 'time' holds dates",
    "zoned in ('2024-01-31', 'x')": "column 'zoned' holds dates",
    "time = '2024-01-31 12:00Z'": "column 'time' knows no time zones",
    "text >= '31.1.2024'": "column 'text' is text, which is ordered letter by letter: only dates",
    "id = 1 or text < 'Jan 5, 2024'": "at character 11, column 'text' is text",
    "text > '9'": "column 'text' is text, which is ordered letter by letter, so that '10' comes",
    "text between '10,50' and 'x'": "write 10.50 without quotes, or a whole date",
    "id > '10,5'": "column 'id' holds numbers: write 10.5 without quotes",
    "many = 1": "column 'many' must hold numbers, text, true and false,",
    "raw = 'x'": "column 'raw' must hold numbers, text,",
    "clock = 1": "column 'clock' must hold numbers, text,",
}


DATES = (
    "31.01.2024|1/2/2024|01/31/24|2024/01/31|2024-1-5|31-01-2024|Jan 5, 2024|5 January 2024"
    "|5-Jan-24|January 2024|Mon, 5 Jan 2024|31.01.2024 12:00|1/31/2024 5:00 PM|01/2024"
    "|3rd march 2024|May 5|01 10 2026|01_10_2026|2026-31-10|01. 10. 2026"
    "|01.2026.10"
)
IN_ORDER = (
    "2024-01-31|2024-01|2024-01-31 12:00|2024-01-31T12:00:00Z|2024-02-31|20240131|2024-W05"
    "|fig|may|march hare|janet 5|5 marbles|10.0.0.1|12:30|A-10||A-01102026|+41 44 123 45 67"
)
NUMBERS = "9|10.50|10,50|-3|1e3|2024|12345678|00012345|4006381333931|01102026|1,000"


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_text_is_not_ordered_by_dates_that_do_not_sort_by_time(sign: str) -> None:
    table = pyarrow.table({"at": [0], "text": ["x"]})
    for literal in DATES.split("|"):
        with pytest.raises(ValueError, match="only dates such as '2024-01-31' sort by time"):
            kept_rows(table, [f"text {sign} '{literal}'"])
        assert kept_rows(table, [f"text = '{literal}'"]) == [[]]
    for text in IN_ORDER.split("|"):
        assert len(kept_rows(table, [f"text {sign} '{text}'"])) == 1


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_numbers_in_quotes_are_not_ordered_letter_by_letter(sign: str) -> None:
    text = pyarrow.table({"at": [0], "text": ["10"]})
    for table, kind in ((text, "is text, which"), (text.to_pandas(), "as text")):
        for literal in NUMBERS.split("|"):
            with pytest.raises(ValueError, match=f"column 'text' {kind}.* is .*without quotes"):
                kept_rows(table, [f"text {sign} '{literal}'"])
            assert len(kept_rows(table, [f"text = '{literal}'"])) == 1
    assert kept_rows(text, ["text > 9"]) == [[0]]
    with pytest.raises(ValueError, match=r"write 1000 or 1\.000 without quotes"):
        kept_rows(text, [f"text {sign} '1,000'"])


def test_a_column_whose_type_follows_its_rows_is_not_said_to_be_text() -> None:
    days = pandas.to_datetime(["2026-10-01"])
    table = pandas.DataFrame({"at": [0], "Bestelldatum": days, "price": [3]})
    for filter in ("Bestelldatum >= '01.10.2026'", "price > '9'"):
        with pytest.raises(ValueError, match=r"column '.*' as text is ordered") as refused:
            kept_rows(table, [filter])
        assert "may be text" not in str(refused.value)


@pytest.mark.parametrize("home", sorted({*HOMES} - {"pandas"}))
def test_refusals_hang_on_the_filter_and_the_schema_alone(home: str, tmp_path: Path) -> None:
    rows = rich_rows()
    for table in (arrow_table([]), arrow_table(rows[:1]), arrow_table(rows)):
        lists = pyarrow.array([[1]] * len(table), pyarrow.list_(pyarrow.int64()))
        table = table.append_column("many", lists)
        table = table.append_column("raw", pyarrow.array([b"x"] * len(table), pyarrow.binary()))
        clock = pyarrow.array([1] * len(table), pyarrow.time64("us"))
        native = HOMES[home](table.append_column("clock", clock), tmp_path)
        for text, why in REFUSED.items():
            with pytest.raises(ValueError, match=r"^where: at character") as refusal:
                kept_rows(native, [text])
            assert why in str(refusal.value)
            assert refusal.value.__context__ is None


def test_a_collation_that_merges_texts_is_refused_whatever_the_rows() -> None:
    connection = duckdb.connect()
    connection.execute('CREATE TABLE t ("at" BIGINT, x VARCHAR COLLATE NOCASE, y VARCHAR)')
    for _ in range(2):
        for text in ("x = 'a'", "y = 'a' and x > 10"):
            with pytest.raises(ValueError, match="column 'x' must tell different texts apart"):
                kept_rows(connection.table("t"), [text])
        connection.execute("INSERT INTO t VALUES (0, 'a', 'a')")
    assert _found(connection.table("t"), "y = 'a'") == [[0, 0]]


def test_how_long_like_takes_does_not_follow_how_a_text_could_be_divided() -> None:
    """It would take hours here if it did, and 7 s for 700 letters."""
    table = pandas.DataFrame({"at": [0, 1], "x": ["a" * 9000, "a" * 9000 + "b"]}, dtype=object)
    assert _found(table, "x like '%a%a%a%b'", "x not like '%a%a%a%b'") == [[1], [0]]


# Wrong variants, which the comparisons above must give away


def _differs(home: str, folder: Path) -> bool:
    rows, conditions = rich_rows(), single_comparisons()
    texts = [spelled(condition) for condition in conditions]
    kept = kept_rows(HOMES[home](arrow_table(rows), folder), texts)
    return kept != [_expected(rows, condition) for condition in conditions]


def test_a_not_of_three_values_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def compare(self: Reading, sign: str, literals: tuple[Any, ...]) -> nw.Expr:
        if not literals:
            return self.present if sign == "is not null" else ~self.present
        if sign in filtering.NEGATED:
            return ~self.compare(filtering.NEGATED[sign], literals)
        return self.test("=" if sign == "in" else sign, literals)

    monkeypatch.setattr(Reading, "compare", compare)
    assert _differs("Polars", tmp_path)


@pytest.mark.parametrize(
    ("home", "guard"),
    [
        ("Polars", lambda value: ~value.is_null()),
        ("DuckDB, a file", lambda value: (value <= math.inf).fill_null(False)),
    ],
)
def test_nan_that_is_not_guarded_against_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str, guard: Callable[[nw.Expr], nw.Expr]
) -> None:
    def floats(column: nw.Expr, _: Any) -> Reading:
        return Reading(guard(column), lambda _, each: guard(column) & (column > float(each[0])))

    monkeypatch.setattr(filtering, "floats", floats)
    table = pyarrow.table({"at": range(3), "float": [1.0, math.nan, 5.0]})
    assert _found(HOMES[home](table, tmp_path), "float > 3") == [[1, 2]]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_REAL_DAY", "^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"),
        ("_WILD", {"%": ".*"}),
        ("_WILD", {"%": "[^\n]*", "_": "."}),
    ],
)
def test_days_that_no_calendar_has_and_wrong_wildcards_are_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(filtering, name, wrong)
    assert _differs("Polars", tmp_path)


def test_numbers_in_text_that_are_compared_as_text_are_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def number_in(text: nw.Expr, *_: Any) -> nw.Expr:
        return text

    def compared_as_text(text: nw.Expr, _: Any) -> Reading:
        def test(sign: str, literals: tuple[Any, ...]) -> nw.Expr:
            each = [filtering.COMPARE[sign](text, str(literal)) for literal in literals]
            return filtering.joined(operator.or_, each)

        return Reading(~text.is_null(), test)

    monkeypatch.setattr(query, "number_in", number_in)
    monkeypatch.setattr(filtering, "floats", compared_as_text)
    table = pyarrow.table({"at": range(3), "text": ["9", "10", "x"]})
    assert _found(HOMES["Polars"](table, tmp_path), "text > 9") == [[2]]
    monkeypatch.undo()
    assert _found(HOMES["Polars"](table, tmp_path), "text > 9") == [[1]]
