"""Labels come back from a document as they were, or as the text that people see."""

import datetime
import enum
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgap
from dpgap.printable import DocumentError
from dpgap.releases.forms import read_label, write_label

offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: datetime.timedelta(minutes=minutes))
zones = st.none() | offsets.map(datetime.timezone)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.dates(),
    st.times().map(lambda time: time.replace(fold=0)),
    st.datetimes(timezones=zones).map(lambda moment: moment.replace(fold=0)),
    st.timedeltas(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
)
labels = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def _through_json(label: Any) -> Any:
    return read_label(json.loads(json.dumps(write_label(label), allow_nan=False)))


@given(labels)
def test_a_label_comes_back_with_its_type(label: Any):
    again = _through_json(label)
    assert type(again) is type(label)
    assert repr(again) == repr(label)


class Colour(enum.Enum):
    RED = 1


class Size(enum.StrEnum):
    LARGE = "large"


class Place(NamedTuple):
    row: int


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


DEEP: Any = "fig"
for _ in range(20):
    DEEP = (DEEP,)


@pytest.mark.parametrize(
    ("label", "again"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("fig"), "fig"),
        (np.bytes_(b"fig"), b"fig"),
        (np.datetime64("2024-02-29T00:00:00.000000000"), np.datetime64("2024-02-29T00:00", "ns")),
        (np.datetime64("2024-02"), np.datetime64("2024-02")),
        (np.timedelta64(5, "D"), "5 days"),
        (pandas.Timestamp("2024-02-29"), datetime.datetime(2024, 2, 29)),
        (pandas.Timestamp(1), "1970-01-01 00:00:00.000000001"),
        (pandas.NaT, "NaT"),
        (pandas.Period("2024-02"), "2024-02"),
        (Colour.RED, "Colour.RED"),
        (Size.LARGE, "large"),
        (Place(3), "Place(row=3)"),
        (frozenset([1]), "frozenset({1})"),
        (10**4000, 10**4000),
        (Decimal("sNaN"), "sNaN"),
        (Decimal("1" * 20_000), "1" * 20_000),
        (Fraction(1, 3**20_000), "<Fraction>"),
        (b"fig" * 9000, b"fig" * 9000),
        (Mute(), "<Mute>"),
        (10**5000, "<int>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_come_back_safely_is_the_text_that_people_see(label: Any, again: Any):
    found = _through_json(label)
    is_signal = isinstance(found, Decimal) and found.is_snan()
    assert str(found) == str(again)
    assert is_signal or (type(found) is type(again) and found == again)


def test_a_zone_keeps_its_distance_to_utc():
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    again = _through_json(moment)
    assert (again, str(again)) == (moment, str(moment))


def test_tuples_within_tuples_become_text_where_they_are_too_deep():
    again = _through_json(DEEP)
    depth = 0
    while isinstance(again, tuple):
        (again,), depth = again, depth + 1
    assert (depth, again.strip("(),"), again.count("(")) == (8, "'fig'", 12)


@pytest.mark.parametrize(
    "found",
    [
        [],
        {},
        {"date": "2024-02-29", "time": "00:00:00"},
        {"date": "2024-02-30"},
        {"date": 20240229},
        {"date": "20240229"},
        {"datetime64": "now"},
        {"datetime64": "2024-02-29T00:00:00+01:00"},
        {"decimal": "one"},
        {"decimal": " 1"},
        {"decimal": "1" * 10**6},
        {"fraction": "1/0"},
        {"fraction": "1" * 10**6},
        {"microseconds": "1" * 9999},
        {"microseconds": "9" * 30},
        {"bytes": "0g"},
        {"bytes": "AB"},
        {"uuid": "1"},
        {"float": "1.5"},
        {"float": "NaN"},
        {"eval": "1+1"},
        {"__reduce__": "os.system"},
        {"tuple": "fig"},
        {"tuple": {"tuple": []}},
        {"tuple": [[]]},
    ],
    ids=str,
)
def test_a_label_that_dpgap_would_not_have_written_is_refused(found: Any):
    with pytest.raises(DocumentError, match=r"label|number"):
        read_label(found)


def test_labels_of_every_type_name_the_rows_of_a_release():
    names = [math.nan, datetime.date(2024, 2, 29), b"fig", ("fig", Fraction(1, 3)), None]
    release = dpgap.NoisyTopK(5, 1000).release([50, 40, 30, 20, 10], labels=names)
    again = dpgap.read_release(release.to_json())
    assert repr(again.labels) == repr(release.labels) == repr(tuple(names))
    assert str(again) == str(release)


def test_a_label_that_is_no_time_is_read_without_a_warning():
    """NumPy 2.5 warns of times without a unit."""
    found = read_label({"datetime64": "NaT"})
    assert isinstance(found, np.datetime64)
    assert np.isnat(found)
