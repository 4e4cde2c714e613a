"""All that a session can ask can be asked at the desk, planned before and shown after."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from desks import Running, question, running, write_file

import dpgap
from dpgap.data.private_counts import CountsInMemory
from dpgap.releases.release import ReleasesByGroup, TableRelease, UnitCount

TOPICS = """
[[datasets.sales.topics]]
name = "bounded"
item = "what"
domain = "items.txt"
max_items = 2

[[datasets.sales.topics]]
name = "any"
item = "what"
max_items = 1
where = "what in ('fig', 'pea', 'oat')"

[[datasets.sales.topics]]
name = "cities"
item = "what"
domain = ["fig", "pea", "oat"]
by = "city"
groups = ["Bern", "Genf"]
max_groups = 2

[[datasets.sales.topics]]
name = "money"
item = "what"
domain = "items.txt"
sum = "paid"
at_most = 3
where = "city = 'Bern'"

[[datasets.sales.topics]]
name = "people"
where = "what = 'fig'"
"""

SAID: dict[str, dict[str, Any]] = {
    "what": {},
    "bounded": {"method": "histogram"},
    "any": {"delta": "1e-7"},
    "cities": {},
    "money": {},
    "people": {"kind": "count"},
}
KINDS = {"cities": ReleasesByGroup, "people": UnitCount}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A desk that lists one topic of every kind."""
    folder: Path = tmp_path_factory.mktemp("topics")
    path = write_file(
        folder, data='epsilon = 500\ndelta = "1e-5"', shares='{ ann = "all" }', more=TOPICS
    )
    with running(path) as found:
        yield found


@pytest.mark.parametrize("kind", ["top-k", "above"])
@pytest.mark.parametrize("topic", SAID)
def test_every_topic_is_planned_asked_shown_and_kept(
    topics: Running, topic: str, kind: str
) -> None:
    said = {"topic": topic, "k": 2, "epsilon": "4", "kind": kind, "threshold": 700, **SAID[topic]}
    with topics.program("ann") as ann, topics.browser("ann") as browser:
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        widths = [row["half_width"] for row in rows]
        assert widths == sorted(widths, reverse=True)
        assert widths[0] > 0
        answer = ann.post("/api/v1/datasets/sales/ask", json=question(**said)).json()
        assert answer["state"] == "settled"
        assert {"findings", "guarantee"} <= answer["release"].keys()  # the archive has neither
        kept = topics.desk.ledger.account("sales").document(answer["entry"])
        assert not {"findings", "guarantee"} & json.loads(kept).keys()
        page = browser.get(f"/data/sales/releases/{answer['entry']}")
        assert page.status_code == 200
        for ending in ("json", "html", "csv"):
            kept = browser.get(f"/data/sales/releases/{answer['entry']}.{ending}")
            assert kept.status_code == 200
        shown = browser.get("/data/sales", params={**said, "k": "2"})
        assert "Ask, and pay ε = 4" in shown.text
    release = dpgap.read_release(
        topics.desk.document(topics.desk.file.datasets["sales"], answer["entry"])
    )
    assert isinstance(release, KINDS.get(topic, TableRelease))
    assert release.epsilon == 4


def test_what_to_expect_is_what_the_release_then_says(topics: Running) -> None:
    """Of a count, whose error does not depend on what is found."""
    said = {"topic": "people", "epsilon": "1/2", **SAID["people"]}
    with topics.program("ann") as ann:
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        entry = ann.post("/api/v1/datasets/sales/ask", json=question(**said)).json()["entry"]
    (row,) = (each for each in rows if Fraction(each["epsilon"]) == Fraction(1, 2))
    found = topics.desk.document(topics.desk.file.datasets["sales"], entry)
    release = dpgap.read_release(found)
    assert isinstance(release, UnitCount)
    low, high = release.interval(0.95)
    assert high - low == 2 * row["half_width"] > 0


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"topic": "any", "delta": 0}, "delta must be more than 0"),
        ({"topic": "any", "delta": "1e-4"}, "cannot cover"),
        ({"topic": "what", "delta": "1e-7"}, "stated, else 0"),
        ({"topic": "what", "method": "histogram"}, "needs max_items"),
        ({"topic": "people"}, "kind must be 'count'"),
        ({"topic": "what", "kind": "count"}, "kind must be 'count'"),
        ({"topic": "what", "k": 8}, "k must be at most 7"),
    ],
)
def test_what_a_topic_cannot_be_asked_is_refused_in_words(
    topics: Running, said: dict[str, Any], words: str
) -> None:
    before = len(topics.desk.ledger.entries("sales"))
    with topics.program("ann") as ann:
        answer = ann.post("/api/v1/datasets/sales/ask", json=question(epsilon="0.3", **said))
    assert answer.status_code in (409, 422)
    assert words in answer.json()["error"]
    assert len(topics.desk.ledger.entries("sales")) == before


def test_an_epsilon_so_large_that_intervals_are_points_has_a_page(topics: Running) -> None:
    with topics.browser("ann") as ann:
        answer = ann.get("/data/sales", params={"epsilon": "1000"})
        assert answer.status_code == 200
        assert "not enough" in answer.text


def test_what_the_delta_that_is_left_does_not_cover_is_not_offered(topics: Running) -> None:
    said = {"topic": "any", "epsilon": "0.3", "delta": "1e-3"}
    with topics.browser("ann") as browser, topics.program("ann") as ann:
        page = browser.get("/data/sales", params=said).text
        assert "not enough" in page
        assert "Ask, and pay" not in page
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        assert not any(row["is_covered"] for row in rows)
        left = ann.get("/api/v1/datasets/sales").json()
        assert 0 < Fraction(left["left_delta"]) <= Fraction(1, 10**5)
        assert Fraction(left["left"]) > 100


@pytest.mark.parametrize("topic", ["what", "money"])
def test_counts_of_few_listed_items_are_held_as_the_engine_counts_them(
    topics: Running, topic: str
) -> None:
    """To look a winner up in an engine takes ten times as long as all the rest of an answer."""
    data = topics.desk.file.datasets["sales"]
    counted = dpgap.counts(data.table, unit="who", item="what", **data.topics[topic].counting)
    assert not isinstance(counted, CountsInMemory)
    with topics.desk.counts.slot(data, data.topics[topic]).using() as held:
        assert isinstance(held, CountsInMemory)
        assert held.expanded().tolist() == counted.expanded().tolist()
        for fact in ("sensitivity", "monotonic", "origin", "reach", "step", "unknown", "labels"):
            assert getattr(held, fact) == getattr(counted, fact)
    counted.close()
