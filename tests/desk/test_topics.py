"""All that a session can ask can be asked at the desk, planned before and shown after."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from desks import Running, question, running, write_file

import dpgap
from dpgap.data.counts import count_items
from dpgap.data.private_counts import CountsInMemory
from dpgap.desk.app import open_desk
from dpgap.desk.config import FileFaults, read_stewards_file
from dpgap.releases.release import MeasuredItems, MeasuredValues, ReleasesByGroup

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

[[datasets.sales.topics]]
name = "turnover"
sum = "paid"
at_most = 20
"""

SAID: dict[str, dict[str, Any]] = {
    "what": {},
    "bounded": {"method": "histogram"},
    "any": {"delta": "1e-7"},
    "cities": {},
    "money": {},
    "people": {"kind": "count"},
    "turnover": {"kind": "total"},
}
KINDS = {"cities": ReleasesByGroup, "people": MeasuredValues, "turnover": MeasuredValues}


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
    assert isinstance(release, KINDS.get(topic, MeasuredItems))
    assert release.epsilon == 4


def test_what_is_read_off_a_histogram_is_expected_of_clear_winners_only(topics: Running) -> None:
    said = {"topic": "bounded", "k": 2, "epsilon": "1/2", **SAID["bounded"]}
    with topics.program("ann") as ann, topics.browser("ann") as browser:
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        page = browser.get("/data/sales", params=said).text
    assert {row["close_error"] for row in rows} == {None}
    assert "Both are for clear winners; in a close race they may be larger." in page


@pytest.mark.parametrize("topic", ["people", "turnover"])
def test_what_to_expect_is_what_the_release_then_says(topics: Running, topic: str) -> None:
    """Of a count or a total, whose error does not depend on what is found."""
    said = {"topic": topic, "epsilon": "1/2", **SAID[topic]}
    with topics.program("ann") as ann:
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        entry = ann.post("/api/v1/datasets/sales/ask", json=question(**said)).json()["entry"]
    (row,) = (each for each in rows if Fraction(each["epsilon"]) == Fraction(1, 2))
    found = topics.desk.document(topics.desk.file.datasets["sales"], entry)
    release = dpgap.read_release(found)
    assert isinstance(release, KINDS[topic])
    low, high = release.interval(0.95)
    assert high - low == pytest.approx(2 * row["half_width"], rel=1e-12)
    assert high > low


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"topic": "any", "delta": 0}, "delta must be more than 0"),
        ({"topic": "any", "delta": "1e-4"}, "cannot cover"),
        ({"topic": "what", "delta": "1e-7"}, "stated, else 0"),
        ({"topic": "what", "method": "histogram"}, "needs max_items"),
        ({"topic": "people"}, "kind must be 'count'"),
        ({"topic": "people", "kind": "total"}, "kind must be 'count' for this topic"),
        ({"topic": "turnover", "kind": "count"}, "kind must be 'total' for this topic"),
        ({"topic": "what", "kind": "count"}, "kind must be 'top-k' or 'above' for this topic"),
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
    counted = count_items(data.table, data.topics[topic].counting)
    assert not isinstance(counted, CountsInMemory)
    with topics.desk.counts.slot(data, data.topics[topic]).using() as held:
        assert isinstance(held, CountsInMemory)
        assert held.expanded().tolist() == counted.expanded().tolist()
        for fact in ("sensitivity", "monotonic", "origin", "reach", "step", "unknown", "labels"):
            assert getattr(held, fact) == getattr(counted, fact)
    counted.close()


def test_a_total_has_a_page_of_its_own_and_is_what_a_column_adds_up_to(topics: Running) -> None:
    """Nobody paid more than 20 in all, so nothing is cut."""
    said = {"topic": "turnover", "kind": "total", "epsilon": "50"}
    with topics.browser("ann") as browser, topics.program("ann") as ann:
        page = browser.get("/data/sales", params={"topic": "turnover"}).text
        assert "The total over all units (unit: " in page
        assert '<input type="hidden" name="kind" value="total">' in page
        assert "total of paid" in page
        entry = ann.post("/api/v1/datasets/sales/ask", json=question(**said)).json()["entry"]
    release = dpgap.read_release(topics.desk.document(topics.desk.file.datasets["sales"], entry))
    counted = topics.desk.counts.slot(
        topics.desk.file.datasets["sales"], topics.desk.file.datasets["sales"].topics["turnover"]
    )
    with counted.using() as held:
        paid = float(held.expanded()[0] * held.step)
    assert isinstance(release, MeasuredValues)
    assert paid > 10_000
    assert release.estimate == pytest.approx(paid, abs=20)


def test_a_data_set_states_encoding_and_decimal_mark_for_all_its_topics(tmp_path: Path) -> None:
    data = 'epsilon = 10\nencoding = "windows-1252"\ndecimal = ","'
    topic = """[[datasets.sales.topics]]
name = "paid"
item = "what"
domain = ["Käse"]
sum = "paid"
at_most = 2"""
    path = write_file(tmp_path, data=data, more=topic)
    rows = "who;what;paid\n" + "".join(f"u{who};Käse;1,50\n" for who in range(10))
    (tmp_path / "sales.csv").write_bytes(rows.encode("cp1252"))
    (tmp_path / "items.txt").write_text("Käse\n", encoding="utf-8")
    desk = open_desk(read_stewards_file(path))
    sales = desk.file.datasets["sales"]
    counted = {}
    for name, each in sales.topics.items():
        with desk.counts.slot(sales, each).using() as held:
            counted[name] = float(held.expanded()[0] * held.step)
    assert counted == {"what": 10, "paid": 15}
    path.write_text(path.read_text().replace("windows-1252", "klingon"))
    with pytest.raises(FileFaults, match=r"datasets\.sales\.encoding must be one of 'utf-8', "):
        read_stewards_file(path)
