"""What pandas holds is read value by value: types that follow the rows decide nothing."""

import math
import os
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import duckdb
import narwhals as nw
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import dpgap
from dpgap.data import values
from dpgap.data.domain import text_of
from dpgap.data.filtering import keep
from dpgap.data.values import form_of
from dpgap.filter_language import read_filter
from twins.odd_values import OBJECTS, _Hostile

ROOT = Path(__file__).parents[2]
PANDAS_2 = Path(sys.prefix) / "pandas2"
"""What `make test` installs beside pandas 3."""

NOON = datetime(2024, 1, 31, 12)
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))
SAME: dict[str, list[Any]] = {
    "7": [7, 7.0, Decimal(7), Decimal("7.00"), Decimal("70e-1"), np.int8(7), np.float32(7), "7"],
    "-7": [-7, np.longdouble(-7), -7 + 0j, np.complex64(-7), np.str_("-7")],
    "0": [0, 0.0, -0.0, Decimal("-0"), Decimal("0e99999"), np.uint64(0)],
    "1" + "0" * 22: [10**22, 1e22, Decimal("1e22")],
    str(2**53 + 1): [2**53 + 1, Decimal(2**53 + 1), np.longdouble(2**53) + 1],
    "0.1": [0.1, Decimal.from_float(0.1), Decimal("0.10"), np.float64(0.1)],
    "1e-07": [1e-7, Decimal("1e-7")],
    "0.12345678901234567890123": [Decimal("0.123456789012345678901230")],
    "inf": [math.inf, Decimal("Infinity"), np.float16("inf")],
    "1": [1, 1.0],
    "true": [True, np.True_, "true"],
    "False": ["False"],
    "2024-01-31": [date(2024, 1, 31), datetime(2024, 1, 31), np.datetime64("2024-01-31", "ns")],
    "2024-01-31T12:00:00": [NOON, pandas.Timestamp(NOON), np.datetime64("2024-01-31T12", "h")],
    "2024-01-31T12:00:00.5": [
        NOON.replace(microsecond=500_000),
        np.datetime64(NOON, "ms") + np.timedelta64(500, "ms"),
    ],
    "12000-01-01": [np.datetime64("12000-01-01"), pandas.Series([np.datetime64("12000-01-01")])[0]],
    "0000-12-31T15:00:00+00:00": [EARLY, pandas.Series([EARLY])[0]],
    "2024-01-31T12:00:00+00:00": [
        NOON.replace(tzinfo=UTC),
        datetime(2024, 1, 31, 21, tzinfo=timezone(timedelta(hours=9))),
        pandas.Timestamp("2024-01-31 21:00", tz="Asia/Tokyo"),
    ],
    "1970-01-01T00:00:00.000000007": [pandas.Timestamp(7), np.datetime64(7, "ns")],
    "12:00:00": [time(12)],
    "12:00:00+00:00": [time(12, tzinfo=UTC), time(13, tzinfo=timezone(timedelta(hours=1)))],
    "PT604800S": [timedelta(7), np.timedelta64(7, "D"), pandas.Timedelta(weeks=1)],
    "-PT0.0000005S": [pandas.Timedelta(-500), np.timedelta64(-500, "ns")],
    "00000000-0000-0000-0000-000000000007": [UUID(int=7)],
    "2024-01": [pandas.Period("2024-01")],
    "(0, 7]": [pandas.Interval(0, 7)],
    "fig\0": ["fig\0"],
}
NOTHING = [
    *(None, math.nan, np.float32("nan"), pandas.NA, pandas.NaT, b"7", [7]),
    np.datetime64("NaT", "s"),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), 10**5000, 7 + 1j, (7,), {7: 7}, object),
    *("\ud800", np.ma.masked, _Hostile()),
    *(np.timedelta64("NaT", "s"), np.array(7), np.array([7])),
]


@pytest.mark.parametrize("text", SAME)
def test_values_that_are_equal_have_one_text(text: str) -> None:
    assert [form_of(value) for value in SAME[text]] == [text] * len(SAME[text])


@pytest.mark.parametrize("place", range(len(NOTHING)))
def test_what_has_no_text_is_no_value(place: int) -> None:
    assert form_of(NOTHING[place]) is None
    if not isinstance(NOTHING[place], str):
        with pytest.raises(TypeError, match="items must be text, numbers, true and false, dates"):
            text_of(NOTHING[place])


def _labels(table: Any) -> list[str]:
    """The labels of a release over items that nobody listed, with their types."""
    asked = {"unit": "who", "item": "what", "max_items": 1, "k": 2, "delta": "1e-9"}
    return [repr(label) for label in dpgap.top_k(table, epsilon=100, **asked).labels]


def test_labels_that_nobody_listed_are_alike_whatever_the_type_of_their_column(
    tmp_path: Path,
) -> None:
    whole = {"who": [*range(90)], "what": [1] * 60 + [2] * 30}
    floats = pyarrow.table({"who": whole["who"], "what": [*map(float, whole["what"])]})
    pyarrow.parquet.write_table(floats, tmp_path / "sold.parquet")
    frames: list[Any] = [
        pandas.DataFrame(whole),
        *(pandas.DataFrame(whole, dtype=kind) for kind in ("float64", "object", "Int64", "str")),
        pandas.DataFrame(whole).astype("category"),
        *(polars.DataFrame(whole), floats, tmp_path / "sold.parquet"),
        *(duckdb.connect().from_arrow(each) for each in (floats, pyarrow.table(whole))),
    ]
    for odd in (None, "x", 0.5, True, 2**70, 1j, NOON):
        more = {"who": [*whole["who"], 90], "what": [*whole["what"], odd]}
        frames.append(pandas.DataFrame(more))
    for table in frames:
        assert _labels(table) == ["'1'", "'2'"]


COLUMNS: dict[str, list[Any]] = {
    "whole": [7, 8, 2**53 - 1, -3],
    "floats": [7.5, 8.0, math.inf, 0.1, -0.0],
    "short floats": [np.float32(number) for number in (0.1, 7, "inf", 1e-45)],
    "shorter floats": [np.float16(number) for number in (0.1, 7, "inf")],
    "long floats": [np.longdouble(7), np.longdouble(1) / 10],
    "decimals": [Decimal("7"), Decimal("0.1"), Decimal(2**53 + 1)],
    "truths": [True, False, True, False],
    "texts": ["7", "fig", "2024-01-31", "true"],
    "days": [NOON, datetime(2024, 1, 31), datetime(1969, 1, 1), NOON],
    "spans": [timedelta(7), timedelta(0, 7)],
    "far days": [np.datetime64(day, "s") for day in ("12000-01-01", "-044-03-15", "2024-01-31")],
    "zoned": [NOON.replace(tzinfo=UTC)] * 2 + [datetime(1969, 1, 1, tzinfo=UTC)] * 2,
    "early": [EARLY, EARLY.replace(year=2024)],
}
FILTERS = [
    *("x = 7", "x != 7", "x < 8", "x < 7.0000000000000000001", "x > 5", "x in (7, 0.1)"),
    *("x = 0.1", "x <= 0.1", "x != 0.1", "x > 0.1", "x in ('0.1')", "x not in (0.1, 0)"),
    *("x = '7'", "x != '7'", "x != 'fig'", "x >= 'a'", "x in ('fig', 'true')", "x = true"),
    *("x != false", "x = '2024-01-31'", "x > '2024-01-31'", "x = '2024-01-31T12:00'"),
    *("x < '2024-01-31'", "x >= '0001-01-01 00:00+09:00'", "x < '9999-12-31 23:00-09:00'"),
    *("x <= '2024-01-31 13:00+01:00'", "not x < '2024-01-31 12:00:00.000001'", "x <= 'PT7S'"),
    *("day(x, 'DD.MM.YYYY') >= '2024-01-31'", "day(x, 'YYYY-MM-DD') = '2024-01-31'"),
]
ODD = (None, "x", 7, 0.5, True, 1j, NOON, date(2024, 1, 31), b"x", NOON.replace(tzinfo=UTC))
ODD += (np.datetime64(2**62, "W"), np.datetime64(-(2**62), "D"))


def _kept(values: list[Any], text: str, known: int) -> list[int]:
    table = pandas.DataFrame({"at": range(len(values)), "x": values})
    kept = keep(nw.from_native(table), read_filter(text))
    return [at for at in kept.to_native()["at"].tolist() if at < known]


@pytest.mark.parametrize("name", COLUMNS)
def test_no_value_of_pandas_decides_how_others_are_filtered(name: str) -> None:
    values = COLUMNS[name]
    for text in FILTERS:
        together = _kept(values, text, len(values))
        alone = [at for at, value in enumerate(values) if _kept([value], text, 1)]
        assert together == alone, text
        for odd in ODD:
            assert _kept([*values, odd], text, len(values)) == alone, (text, type(odd))


def test_times_with_a_zone_beyond_the_year_9999_are_read() -> None:
    far = pandas.Series(np.array([2**40, 5, -(2**60)], "datetime64[s]")).dt.tz_localize("UTC")
    for zone in ("UTC", "Europe/Zurich"):
        when = far.dt.tz_convert(zone)
        table = pandas.DataFrame({"who": [1, 2, 3], "when": when})
        found = dpgap.counts(table, unit="when", item="who", domain=[1, 2, 3], where="who != 7")
        assert found.expanded().tolist() == [1, 1, 1]
        assert [form_of(each) for each in values.coded_texts(when)][
            1
        ] == "1970-01-01T00:00:05+00:00"


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima", None])
@pytest.mark.parametrize("kind", [None, "category"])
def test_a_time_beyond_the_years_of_its_zone_refuses_no_call(zone: str | None, kind: Any) -> None:
    utc = "" if zone is None else "+00:00"
    beyond = {10**15: f"33658-09-27T01:46:40{utc}", 2**63 - 1: None, -(2**63) + 1: None}
    for odd, text in beyond.items():
        times = pyarrow.array([10**12, 10**12, odd], pyarrow.timestamp("ms", zone))
        column = pyarrow.table({"x": times}).to_pandas()["x"]
        column = column if kind is None else column.astype(kind)
        found = values.coded_texts(column).tolist()
        assert found[:2] == [f"2001-09-09T01:46:40{utc}"] * 2
        assert text is None or found[2] == text
        assert values.arrow_texts(column).to_pylist() == found


PURE = [
    ["fig", "fig\0", "fig", "", "\0", None, math.nan, pandas.NA, "7", "true", "žluť", "🍐", " fig"],
    ["fig", "\ud800", "fig\udc80", None],
    [None, math.nan],
    [],
]


@pytest.mark.parametrize("place", range(len(PURE)))
def test_pure_text_is_read_quickly_and_as_value_by_value(place: int) -> None:
    column = pandas.Series(PURE[place], dtype=object)
    quick = values.coded_texts(column).tolist(), values.arrow_texts(column)
    is_pure = values._pure_text(column) is not None
    assert is_pure == (place == 0)
    with mock.patch.object(values, "_pure_text", return_value=None):
        slow = values.coded_texts(column).tolist(), values.arrow_texts(column)
    assert [form_of(each) for each in quick[0]] == [form_of(each) for each in PURE[place]]
    assert [form_of(each) for each in slow[0]] == [form_of(each) for each in PURE[place]]
    assert quick[1].to_pylist() == slow[1].to_pylist() == [form_of(each) for each in PURE[place]]


def test_one_number_or_byte_among_texts_is_not_read_as_text() -> None:
    for odd in (b"fig", 7.0, True):
        column = pandas.Series(["fig", odd], dtype=object)
        assert values.arrow_texts(column).to_pylist() == ["fig", form_of(odd)]


def test_true_is_not_1_and_text_is_not_cut_where_there_is_no_arrow() -> None:
    what = ["fig", "fig\0", 7, "7", 7.0, True, 1]
    table = pandas.DataFrame({"who": [1, True, 2.0, 3, 4, 5, 6], "what": what})
    with mock.patch.dict(sys.modules, {"pyarrow": None}):
        found = dpgap.counts(table, unit="who", item="what", domain=["fig", "fig\0", 7, 1, True])
    assert found.expanded().tolist() == [1, 1, 3, 1, 1]


def test_every_odd_value_may_stand_in_every_column() -> None:
    table = pandas.DataFrame({"who": ["ann"], "what": ["fig"], "land": ["ch"], "paid": [1.0]})
    asked: dict[str, Any] = {"unit": "who", "item": "what", "domain": ["fig"]}
    more: list[dict[str, Any]] = [
        {},
        {"max_items": 1, "where": "land != 'x' and what != 7 and who != true"},
        {"by": "land", "groups": ["ch"], "max_groups": 1, "sum": "paid", "at_most": 3},
    ]
    for name in table:
        odd = pandas.DataFrame({each: table[each].tolist() * len(OBJECTS) for each in table})
        odd[name] = pandas.Series(OBJECTS, dtype=object)
        for options in more:
            dpgap.counts(odd, **asked, **options).close()


@pytest.mark.skipif(
    not PANDAS_2.is_dir() and "CI" not in os.environ,  # it runs wherever changes are judged
    reason="make .venv/pandas2 installs it",
)
def test_frames_of_pandas_2_are_read_alike() -> None:
    assert PANDAS_2.is_dir(), "pandas 2 is not installed: make .venv/pandas2"
    path = os.pathsep.join(map(str, (PANDAS_2, ROOT / "src", ROOT / "tests")))
    code = (
        "import sys, pandas, dpgap; assert pandas.__version__.startswith('2.');"
        "what = ['fig', 'fig\\0', 'fig\\0\\0', 7, '7', 7.0, True, None];"
        "sold = pandas.DataFrame({'who': [*'abcdefgh'], 'what': what});"
        "asked = {'unit': 'who', 'item': 'what', 'domain': ['fig', 'fig\\0', 7, True, 1]};"
        "found = [dpgap.counts(sold, **asked, max_items=most) for most in (None, 4)];"
        "assert [each.expanded().tolist() for each in found] == [[1, 1, 3, 1, 0]] * 2;"
        "from twins.__main__ import main; sys.exit(main())"
    )
    asked = ["--reader", "pandas-objects", "--twins", "9"]
    questions = ["--question", "counts", "--question", "unknown", "--question", "sum+where"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *asked, *questions],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 twins, 0 differ, 0 refused" in done.stdout


def test_hundreds_of_comparisons_with_objects_are_no_problem() -> None:
    table = pandas.DataFrame({"at": range(4), "x": ["7", 8, True, None]}, index=[1, 1, 2, 2])
    listed = ", ".join(f"'{number}'" for number in range(500))
    joined = " or ".join(f"x = {number}" for number in range(250))
    for text in (f"x in ({listed})", joined):
        kept = keep(nw.from_native(table), read_filter(text)).to_native()
        assert kept["at"].tolist() == [0, 1]
        assert list(kept) == ["at", "x"]
