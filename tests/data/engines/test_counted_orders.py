"""Orders and look-ups: every order is equally likely; any number of winners is found at once."""

from typing import Any

import duckdb
import ibis
import numpy as np
import pytest

import dpgap
from dpgap.budget.ledger import LedgerAccount
from dpgap.data.engines.counted import CountsInEngine
from dpgap.data.private_counts import PrivateCounts
from dpgap.exact.bits import InsecureSeededBits
from engine_tables import arrow
from law_tests import LEVEL, chi_square_p
from seams import bits_are, long_case

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # Ibis
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark
]

ASK: dict[str, Any] = {"unit": "who", "item": "what"}
DOMAIN = range(30, 6, -2)
PRESENT = {28: 5, 14: 9, 8: 2}


def _order(answers: PrivateCounts) -> list[Any]:
    """All items in the order in which a Sparse Vector would be asked about them."""
    named: list[Any] = []
    for chunk in answers.shuffled():
        every = np.arange(chunk.length)
        labels = chunk.found(every).labels or ()
        counts = dict(zip(labels, chunk.at(every).tolist(), strict=True))
        assert all(count == PRESENT.get(item, 0) for item, count in counts.items())
        named.extend(labels)
    assert sorted(named) == sorted(DOMAIN)
    return named


def _table() -> Any:
    return arrow(
        "bigint", "bigint", [(who, what) for what in PRESENT for who in range(PRESENT[what])]
    )


def _ps(orders: list[list[int]]) -> list[float]:
    """Of every place of a present and of an absent item, and of which follows a present one."""
    size = len(DOMAIN)
    at = [{item: place for place, item in enumerate(order)} for order in orders]
    steps = [[order[(order.index(14) + 1) % size] for order in orders]]
    places = [[each[item] for each in at] for item in (14, 20)]
    cells = [np.bincount(each, minlength=size) for each in places]
    cells += [np.bincount([DOMAIN.index(item) for item in each], minlength=size) for each in steps]
    chances = [np.full(size, 1 / size)] * 2
    chances.append(np.where(np.arange(size) == DOMAIN.index(14), 0, 1 / (size - 1)))
    return [chi_square_p(*each) for each in zip(cells, chances, strict=True)]


@pytest.mark.parametrize(
    ("home", "draws", "domain"),
    [
        *(("memory", 600, domain) for domain in (DOMAIN, list(DOMAIN))),
        ("duckdb", 264, list(DOMAIN)),
        long_case(("duckdb", 264, DOMAIN)),
        *(long_case(("duckdb", 600, domain)) for domain in (DOMAIN, list(DOMAIN))),
    ],
)
def test_every_order_of_a_domain_is_equally_likely(home: str, draws: int, domain: Any) -> None:
    table = _table() if home == "memory" else duckdb.connect().from_arrow(_table())
    answers = dpgap.counts(table, **ASK, domain=domain)
    with bits_are(InsecureSeededBits(11)):
        orders = [_order(answers) for _ in range(draws)]
    assert min(_ps(orders)) > LEVEL
    ordered = list(DOMAIN)
    rotated = [ordered[start:] + ordered[:start] for start in (each % 12 for each in range(draws))]
    assert min(_ps(rotated)) < LEVEL  # an order that begins anywhere is no random order


@pytest.mark.parametrize("domain", [range(65_557), range(10**12), list(range(500))])
def test_a_stream_in_an_engine_names_every_present_item_once(domain: Any) -> None:
    rows = [(who, what) for what in range(0, 500, 5) for who in range(what % 3 + 1)]
    table = duckdb.connect().from_arrow(arrow("bigint", "bigint", rows))
    answers = dpgap.counts(table, **ASK, domain=domain)
    seen: list[Any] = []
    length = 0
    for chunk in answers.shuffled():
        places = np.arange(chunk.length) if chunk.places is None else chunk.places
        counts = chunk.at(places)
        names = np.array(chunk.found(places).labels)
        assert (counts[counts > 0] == names[counts > 0] % 3 + 1).all()
        seen.extend(names[counts > 0].tolist())
        length += chunk.length
    assert sorted(seen) == list(range(0, 500, 5))
    assert seen != sorted(seen)
    assert length == len(domain)


def test_absent_items_above_the_line_are_named_once_across_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpgap.data.engines.counted._ROWS_AT_ONCE", 4)
    rows = [(1, what) for what in range(0, 40, 2)]
    table = duckdb.connect().from_arrow(arrow("bigint", "bigint", rows))
    answers = dpgap.counts(table, **ASK, domain=range(40))
    for _ in range(5):
        chunks = list(answers.shuffled())
        assert len(chunks) >= 5
        named = [
            each for chunk in chunks for each in chunk.found(np.arange(chunk.length)).labels or ()
        ]
        assert sorted(named) == list(range(40))


# Winners, however many


MANY = """SELECT who, what FROM (SELECT what, unnest(range(units)) AS who FROM
    (SELECT range AS what, CASE WHEN range < 200 THEN 20 + range ELSE 2 END AS units
    FROM range(5400)))"""
IN_SPARK = """SELECT explode(sequence(1, if(id < 200, 20 + id, 2))) AS who, id AS what
    FROM range(5400)"""


def _many(home: str, request: pytest.FixtureRequest) -> Any:
    """Two hundred items with a count each of their own, and 5,200 with the same count."""
    if home == "spark":
        return request.getfixturevalue("spark").sql(IN_SPARK)
    if home == "duckdb":
        return duckdb.connect().sql(MANY)
    rows = duckdb.connect().sql(MANY).to_arrow_table()
    if home == "ibis":
        return ibis.duckdb.connect().create_table("many", rows)
    return request.getfixturevalue("database").create_table("many", rows, overwrite=True)


@pytest.mark.parametrize("home", ["duckdb", "ibis", "postgres", "spark"])
def test_five_thousand_winners_are_looked_up_at_once(
    home: str, request: pytest.FixtureRequest, account: LedgerAccount
) -> None:
    answers = dpgap.counts(_many(home, request), **ASK, domain=range(10**6))
    assert isinstance(answers, CountsInEngine)
    mechanism = dpgap.NoisyTopK(k=5_000, epsilon=10**6, monotonic=True)
    winners = mechanism.release(answers, account=account)
    assert list(winners.labels or ())[:200] == list(range(199, -1, -1))
    rest = set((winners.labels or ())[200:])
    assert len(rest) == 4_800
    assert rest < set(range(200, 5_400))
    assert account.balance.number == 2
    few = dpgap.NoisyTopK(k=150, epsilon=10**6, monotonic=True).release(answers)
    assert list(few.labels or ()) == list(range(199, 49, -1))
    answers.close()


def test_items_of_a_table_in_spark_keep_nul_at_their_end(spark: Any) -> None:
    names = spark.createDataFrame([("fig",), ("fig\0",), ("pea",)], "item string")
    rows = [(who, what) for what, many in (("fig", 3), ("fig\0", 2)) for who in range(many)]
    sold = spark.createDataFrame(rows, "who bigint, what string")
    answers = dpgap.counts(sold, **ASK, domain=names)
    named = [
        label
        for chunk in answers.shuffled()
        for label in chunk.found(np.arange(chunk.length)).labels or ()
    ]
    assert sorted(named) == ["fig", "fig\0", "pea"]
    answers.close()
