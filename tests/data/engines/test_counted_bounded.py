"""Bounded answers are the same in every engine, and nothing in a row can make one fail."""

import math
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import ibis
import pyarrow
import pyarrow.parquet
import pytest

import dpgap
from dpgap.data.counts import counts, units_of
from dpgap.data.engines import counted
from dpgap.question import Counting
from engine_tables import ENGINES
from law_tests import LEVEL, chi_square_p
from seams import quick_in
from servers import ON_SERVERS

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
]

everywhere = pytest.mark.parametrize("put", ENGINES, indirect=True)
KINDS = {
    "string": pyarrow.string(),
    "bigint": pyarrow.int64(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "decimal(38,10)": pyarrow.decimal128(38, 10),
}
COLUMNS = ("who", "what", "land", "paid")
ITEMS = ["fig", "pea", "oat", "rye"]
ASK: dict[str, Any] = {"unit": "who", "item": "what", "domain": ITEMS}
BY = {"by": "land", "groups": ["de", "ch", "fr"], "max_groups": 1}


@pytest.fixture
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """How to put rows of four columns into the engine that a test looks at."""
    home = request.param
    if home in ON_SERVERS:
        server = request.getfixturevalue({"postgres": "database", "spark": "spark"}[home])

    def put(kinds: tuple[str, ...], rows: list[Any]) -> Any:
        if home == "spark":
            schema = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, kinds, strict=True))
            return server.createDataFrame(rows, schema)
        columns = zip(COLUMNS, kinds, zip(*rows, strict=True), strict=True)
        table = pyarrow.table({name: pyarrow.array(each, KINDS[of]) for name, of, each in columns})
        if home == "postgres":
            return server.create_table(f"bounded_{len(server.list_tables())}", table, temp=True)
        if home == "duckdb":
            return duckdb.connect().from_arrow(table)
        path = tmp_path / "bounded.parquet"
        pyarrow.parquet.write_table(table, path)
        return path if home == "parquet" else ibis.duckdb.connect().read_parquet(path)

    return put


def _of(answers: Any) -> Any:
    if answers.origin.by is not None and hasattr(answers, "items"):
        return {group: _of(each) for group, each in answers.items()}
    return answers.expanded().tolist()


ROWS = [
    (who, ITEMS[at], ["ch", "de"][who % 2], paid)
    for who in range(30)
    for at, paid in enumerate([1.5, 0.125, -4.0, math.nan])
]
ROWS += [(who, "fig", ["ch", "de"][who % 2], 80.0) for who in range(0, 30, 3)]
ROWS += [(None, "fig", "ch", 9.0), (1, None, "ch", 9.0), (1, "fig", None, 9.0), (2, "x", "ch", 9.0)]


@everywhere
def test_what_no_bound_cuts_is_the_same_everywhere(put: Any) -> None:
    table = put(("bigint", "string", "string", "double"), ROWS)
    assert _of(counts(table, max_items=4, **ASK)) == [30] * 4
    assert _of(counts(table, max_items=3, **ASK | {"domain": ["pea", "oat", "x"]})) == [30, 30, 1]
    assert _of(counts(table, **BY, **ASK)) == {"de": [15] * 4, "ch": [15] * 4, "fr": [0] * 4}
    sums = counts(table, sum="paid", at_most=20, at_least=-2, **ASK)
    assert _of(sums) == [10 * 2000 + 19 * 150 + 1050, 30 * 13, -6000, 0]
    assert _of(counts(table, where="land = 'ch'", **ASK)) == [15] * 4
    both = counts(table, **BY | {"max_groups": 3}, sum="paid", at_most=1, step="0.5", **ASK)
    assert _of(both) == {"de": [30, 0, 0, 0], "ch": [30, 0, 0, 0], "fr": [0] * 4}
    assert _of(units_of(table, Counting(unit="who"))) == [30]
    total: dict[str, Any] = {"sum": "paid", "at_most": 20, "at_least": -2}
    summed = units_of(table, Counting(unit="who", **total))
    assert _of(summed) == [10 * 2000 + 1563 + 663 - 18 * 200]
    assert _of(units_of(table, Counting(unit="who", **total, where="land = 'fr'"))) == [0]


@everywhere
def test_bounds_cut_everywhere(put: Any) -> None:
    table = put(("bigint", "string", "string", "double"), ROWS)
    cut = _of(counts(table, max_items=2, **ASK))
    assert sum(cut) == 60
    assert all(0 < each < 30 for each in cut)
    rows = [(who, what, land, 1.0) for who in range(40) for what in ITEMS for land in ("ch", "de")]
    table = put(("bigint", "string", "string", "double"), rows)
    one = _of(counts(table, **BY, **ASK))
    assert one["de"][0] + one["ch"][0] == 40
    assert one["de"] == one["de"][:1] * 4
    pairs = _of(counts(table, **BY | {"max_groups": 2}, max_items=3, **ASK))
    assert sum(map(sum, pairs.values())) == 120
    present = counts(table, unit="who", item="what", max_items=1).groups()
    assert (present.values * present.sizes).sum() == 40


@everywhere
def test_no_item_and_no_group_is_favoured_anywhere(put: Any) -> None:
    lands = ("ch", "de", "fr")
    rows = [(f"u{at}", what, land, 1.0) for at in range(900) for what in ITEMS for land in lands]
    table = put(("string", "string", "string", "double"), rows)
    assert chi_square_p(_of(counts(table, max_items=1, **ASK)), [1 / 4] * 4) > LEVEL
    groups = counts(table, **BY, **ASK)
    assert chi_square_p([_of(groups[land])[0] for land in lands], [1 / 3] * 3) > LEVEL


@everywhere
def test_the_rows_of_a_unit_never_add_up_to_more_than_an_engine_can_hold(put: Any) -> None:
    rows = [(1, "fig", "ch", 2.0**60)] * 1_100  # each is cut to 2^53 steps
    table = put(("bigint", "string", "string", "double"), rows)
    answers = dpgap.counts(table, **ASK, sum="paid", at_most=2**39, step=1)
    assert _of(answers) == [2**39, 0, 0, 0]


@everywhere
def test_groups_may_stay_in_any_engine(put: Any) -> None:
    table = put(("bigint", "string", "string", "double"), ROWS)
    with mock.patch.object(counted, "FETCHED", 1):
        answers = counts(table, **BY, sum="paid", at_most=20, at_least=-2, **ASK)
    with mock.patch.object(counted, "FETCHED", 10**7):
        fetched = counts(table, **BY, sum="paid", at_most=20, at_least=-2, **ASK)
    assert _of(answers) == _of(fetched)
    top = dpgap.NoisyTopK(4, 10**6, sensitivity=2000, noise="exponential")
    assert [top.release(answers[land]).labels[-1] for land in ("ch", "de")] == ["oat"] * 2
    answers.close()


ODD = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e99, -1e99, 5e-324, -5e-324, 0.0, -0.0, None]


@everywhere
@pytest.mark.parametrize("step", quick_in(["0.01", 1, 7, "3/7"], {1, "3/7"}))
def test_no_float_makes_an_engine_fail(put: Any, step: Any) -> None:
    rows = [(1, "fig", "ch", paid) for paid in ODD]
    rows += [(2, "pea", "ch", 1e99)] * 2100 + [(3, "oat", "ch", -1e99)] * 2100
    table = put(("bigint", "string", "string", "double"), rows)
    found = counts(table, sum="paid", at_most=21, at_least=-21, step=step, **ASK)
    assert [each * found.step for each in _of(found)] == [0, 21, -21, 0]


TEXTS = [
    *("1.5", "+2.25", ".25", "5.", "1e1", "-2.5E+0", "0.5e-1", "007"),  # numbers
    *("", " ", "nan", "inf", "1,5", "1e", "e5", ".", "+", "--1", "0x10", "1_0", "٧", "1.5\n", " 7"),
    *(
        "1e999",
        "1e-999",
        "9" * 400,
        "0." + "0" * 400 + "1",
        "1e400",
        "-1e-330",
        "1d",
        "1f",
        "\u2028",
    ),
]


@everywhere
def test_text_that_says_a_number_is_that_number_everywhere(put: Any) -> None:
    rows = [(who, "fig", "ch", text) for who, text in enumerate([*TEXTS, None])]
    table = put(("bigint", "string", "string", "string"), rows)
    found = counts(table, sum="paid", at_most=100, at_least=-100, **ASK)
    assert _of(found) == [150 + 225 + 25 + 500 + 1000 - 250 + 5 + 700, 0, 0, 0]


LIMITS = {
    "1e150": 1,
    "1e239": 1,
    "1e240": 0,
    "9" * 64: 1,
    "9" * 65: 0,
    "9" * 70: 0,
    "1." + "0" * 62: 1,
    "1." + "0" * 63: 0,
    "9" * 60 + "e239": 1,
}
"""Whether a long text is a number."""


@everywhere
def test_filters_and_sums_take_the_same_texts_for_numbers(put: Any) -> None:
    rows = [(1, f"text {at}", "ch", text) for at, text in enumerate(LIMITS)]
    table = put(("bigint", "string", "string", "string"), rows)
    asked = {"unit": "row", "item": "what", "domain": [row[1] for row in rows]}
    assert _of(counts(table, where="paid >= 1", **asked)) == [*LIMITS.values()]
    assert _of(counts(table, sum="paid", at_most=1, step=1, **asked)) == [*LIMITS.values()]


def test_decimals_of_any_length_are_amounts(database: Any) -> None:
    amounts = ["1e70", "-1e200", "1.5" + "0" * 90, "1e-90", "'NaN'", "'Infinity'"]
    rows = ", ".join(f"({who}, 'fig', {paid}::numeric)" for who, paid in enumerate(amounts))
    database.raw_sql(f"CREATE TEMP TABLE long AS SELECT * FROM (VALUES {rows}) AS t(who,what,paid)")
    found = counts(database.table("long"), sum="paid", at_most=9, at_least=-4, **ASK)
    assert _of(found) == [900 - 400 + 150 + 0, 0, 0, 0]


@everywhere
def test_decimals_and_whole_numbers_are_amounts(put: Any) -> None:
    from decimal import Decimal

    rows = [(1, "fig", "ch", Decimal("1.25")), (2, "fig", "ch", Decimal("-0.0000000001"))]
    rows += [(3, "pea", "ch", Decimal(10) ** 27), (4, "oat", "ch", None)]
    table = put(("bigint", "string", "string", "decimal(38,10)"), rows)
    assert _of(counts(table, sum="paid", at_most=100, **ASK)) == [125, 10_000, 0, 0]
    rows = [(1, "fig", "ch", 7), (2, "pea", "ch", 2**63 - 1), (3, "oat", "ch", -(2**63) + 1)]
    table = put(("bigint", "string", "string", "bigint"), rows)
    assert _of(counts(table, sum="paid", at_most=100, **ASK)) == [700, 10_000, 0, 0]


@everywhere
@pytest.mark.parametrize("domain", [range(3), [2, "0", "x", 1.0], None])
def test_items_and_groups_may_be_numbers(put: Any, domain: Any) -> None:
    rows = [(f"u{who}", who % 3, who % 2, 1.0) for who in range(12)]
    rows += [(f"u{who}", 2**60, 5, 1.0) for who in range(12)]
    table = put(("string", "bigint", "bigint", "double"), rows)
    asked = {"unit": "who", "item": "what", "domain": domain, "max_items": 3}
    found = counts(table, by="land", groups=["1", 0, "one"], max_groups=3, **asked)
    for group, size in (("1", 2), (0, 2), ("one", 0)):
        groups = found[group].groups()
        values = dict(zip(groups.values.tolist(), groups.sizes.tolist(), strict=True))
        assert values.get(size, 0) == (3 if size else len(domain or ()))


@everywhere
@pytest.mark.parametrize(
    ("kind", "value", "groups", "why"),
    [
        ("bigint", 1, ["ch", "de"], "groups has no numbers, but the group column"),
        ("double", 1.0, ["ch", "de"], "groups has no numbers, but the group column"),
        ("double", 1.0, [1, 2.5], "groups must be whole numbers: cast the group column"),
        ("boolean", True, [0, 1], "groups must hold true and false, like the group column"),
    ],
)
def test_groups_that_their_column_cannot_have_are_refused_as_items_are(
    put: Any, kind: str, value: Any, groups: list[Any], why: str
) -> None:
    table = put(("bigint", "string", kind, "double"), [(1, "fig", value, 1.0)])
    with pytest.raises(ValueError, match=why):
        counts(table, by="land", groups=groups, max_groups=1, **ASK)
    asked = {"unit": "who", "item": "land", "domain": groups}
    with pytest.raises(ValueError, match=why.replace("groups", "domain").replace("group", "item")):
        counts(table, max_items=1, **asked)


@everywhere
def test_nan_is_no_unit_and_no_group(put: Any) -> None:
    rows = [(float(who % 50), "fig", 1.0, 1.0) for who in range(200)]
    rows += [(math.nan, "pea", 1.0, 1.0), (60.0, "oat", math.nan, 1.0)]
    table = put(("double", "string", "double", "double"), rows)
    assert _of(counts(table, **ASK)) == [50, 0, 1, 0]
    assert _of(counts(table, max_items=3, **ASK)) == [50, 0, 1, 0]
    assert _of(counts(table, where="land > 0", **ASK)) == [50, 0, 0, 0]
    assert _of(counts(table, by="land", groups=[1, "nan"], max_groups=1, **ASK)) == {
        1: [50, 0, 0, 0],
        "nan": [0, 0, 0, 0],
    }


def test_units_whose_text_is_not_exact_are_refused_where_text_is_hashed(database: Any) -> None:
    database.raw_sql("CREATE TEMP TABLE loose AS SELECT 1.50::numeric AS who, 'fig' AS what")
    table = database.table("loose")
    with pytest.raises(ValueError, match="column 'who' must hold text, whole numbers"):
        counts(table, max_items=1, **ASK)
    assert _of(counts(table, **ASK)) == [1, 0, 0, 0]


@pytest.mark.parametrize("column", ["who", "land"])
def test_texts_that_a_collation_takes_for_equal_are_refused(column: str) -> None:
    database = duckdb.connect()
    kinds = {name: "VARCHAR COLLATE NOCASE" if name == column else "VARCHAR" for name in COLUMNS}
    database.execute(f"CREATE TABLE sold ({', '.join(f'{n} {k}' for n, k in kinds.items())})")
    with pytest.raises(ValueError, match=f"column '{column}' must tell different texts apart"):
        counts(database.table("sold"), **BY, **ASK)


def test_units_of_any_type_have_an_order_in_duckdb() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE sold AS SELECT uuid() AS who, 'fig' AS what FROM range(9)")
    assert _of(counts(database.table("sold"), max_items=1, **ASK)) == [9, 0, 0, 0]


def test_a_domain_that_is_a_table_stays_where_it_is() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE sold AS SELECT range AS who, 'fig' AS what FROM range(9)")
    database.execute("CREATE TABLE names AS SELECT unnest(['fig', 'pea', 'fig']) AS label")
    asked = {"unit": "who", "item": "what", "domain": database.table("names")}
    answers = counts(database.table("sold"), max_items=1, **asked)
    groups = answers.groups()
    assert dict(zip(groups.values.tolist(), groups.sizes.tolist(), strict=True)) == {0: 1, 9: 1}
    assert answers.labels is None
    by_group = counts(database.table("sold"), by="who", groups=[1], **asked | {"unit": "row"})
    assert dict(zip(by_group[1].labels, _of(by_group[1]), strict=True)) == {"fig": 1, "pea": 0}


@pytest.mark.parametrize("far", [1, 1 << 62])
def test_times_that_may_have_no_text_are_refused_by_their_type(far: int) -> None:
    """DuckDB has no text for a time in seconds that is beyond its microseconds."""
    when = pyarrow.array([0, far]).cast(pyarrow.timestamp("s"))
    sold = pyarrow.table({"who": when, "what": ["fig", "fig"]})
    database = ibis.duckdb.connect()
    database.con.register("sold", sold)
    database.raw_sql("CREATE TABLE kept AS SELECT *, who::TIMESTAMP_NS AS near FROM sold LIMIT 1")
    database.raw_sql("CREATE TABLE held AS SELECT * FROM sold")
    ask: dict[str, Any] = {"item": "what", "domain": ["fig", "pea"], "max_items": 1}
    assert dpgap.counts(database.table("kept"), unit="near", **ask).expanded().tolist() == [1, 0]
    with pytest.raises(ValueError, match="column 'who' must hold text, whole numbers, days"):
        dpgap.counts(database.table("held"), unit="who", **ask)
