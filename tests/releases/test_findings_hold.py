"""Findings are wrong in at most 5 % of releases, for each kind of sentence.

On ties, on counts that are nearly flat, and on cut data, where a sentence is judged by the counts
after cutting. The level of each test is 10⁻⁶. Two wrong variants are caught: claims of order with
less confidence, and sentences about cut data that are judged by the counts before.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray
from scipy import stats

import dpgap
from dpgap.releases.plain import in_words
from dpgap.releases.release import MeasuredItems
from seams import long_case, quick_in

Values = NDArray[np.float64]
RUNS = [400, long_case(4000)]
NUMBERS = {in_words(number): number for number in range(1, 11)}
ITEMS = [f"item {at}" for at in range(12)]

BELONG = re.compile(
    r"(?P<who>all \w+|both|it|\w+ of the \w+) "
    r"(?:are surely|is surely)"
    r"(?: (?P<largest>the largest)| above (?P<line>[\d,.]+))?"
    r"(?: (?:and )?among the top (?P<top>\w+))?"
)
ORDER = re.compile(r"(?:the order of (?:(?:all|the first) (?P<some>\w+)|both)|the order) is sure")


def wrong_kinds(release: MeasuredItems, truth: Values, own: Values) -> Iterator[tuple[str, bool]]:
    """Each kind of claim in the findings, and whether it is wrong.

    `truth` has the values of all items, `own` those of the shown ones, by rank.
    """
    for sentence in release.findings:
        said = re.sub("^with this limit, ", "", sentence.lower())
        if found := BELONG.match(said):
            yield "belong", not all(_belong(found, said, truth, own))
        elif found := ORDER.search(said):
            some = NUMBERS.get(found["some"] or "", own.size)
            yield "order", not _is_ordered(own, some)
        elif said == "rank 1 is surely the largest of them.":
            yield "largest of them", not _is_ordered(own, 1)
        else:
            assert not re.search("surely|truly|order[^,]* is sure", said), said


def _belong(found: re.Match[str], said: str, truth: Values, own: Values) -> Iterator[bool]:
    least = np.sort(truth)[-own.size]
    ranks = range(1, own.size + 1)
    if " of the " in found["who"]:
        named = re.search(r"ranks? (.*)\.$", said)
        assert named is not None
        ranks = [*_numbers(named[1])]
    for value in own[np.array(ranks) - 1]:
        above = -np.inf if found["line"] is None else float(found["line"].replace(",", ""))
        is_top = found["line"] is None or "among the top" in said or "the largest" in said
        yield value > above and (value >= least or not is_top)


def _numbers(words: str) -> Iterator[int]:
    for part in re.split(", | and ", words):
        first, _, last = part.partition(" to ")
        yield from range(int(first), int(last or first) + 1)


def _is_ordered(own: Values, first: int) -> bool:
    """Whether each of the first is larger than all that come after it."""
    return all(own[at] > own[at + 1 :].max(initial=-np.inf) for at in range(first))


def _is_order_wrong(release: MeasuredItems, own: Values, level: float) -> bool:
    """Whether the groups of ranks at this level claim an order that is wrong."""
    parts = [own[np.array(group) - 1] for group in release.groups(level)]
    return any(one.min() <= other.max() for one, other in pairwise(parts))


KINDS = ("belong", "order", "largest of them")


def _tally(
    ask: Callable[[int], tuple[MeasuredItems, Values]], runs: int, before: Values | None = None
) -> Counter[str]:
    """How many releases have a sentence of each kind, and how many a wrong one.

    And two wrong variants: an order with 20 % confidence; and values `before` cutting.
    """
    tally: Counter[str] = Counter()
    for run in range(runs):
        release, truth = ask(run)
        if not release.indices.size:
            continue
        places = [ITEMS.index(label) for label in release.labels or ()]
        kinds = [*wrong_kinds(release, truth, truth[places])]
        tally.update({f"{kind}, said" for kind, _ in kinds})
        tally.update({f"{kind}, wrong" for kind, is_wrong in kinds if is_wrong})
        tally["too sure"] += _is_order_wrong(release, truth[places], 0.2)
        if before is not None:
            tally["before"] += any(dict(wrong_kinds(release, before, before[places])).values())
    return tally


def _is_caught(wrong: int, runs: int) -> bool:
    return stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue < 1e-6


def _require(tally: Counter[str], runs: int, *, says_nothing: bool = False) -> None:
    assert not [kind for kind in KINDS if _is_caught(tally[f"{kind}, wrong"], runs)], tally
    assert says_nothing != any(tally[f"{kind}, said"] for kind in KINDS)


TABLES = {
    "ties": [440, 420, 420, 400, 400, 380, 380, 360, 360, 340, 340, 320],
    "flat": [401] * 3 + [400] * 9,
}
WAYS: dict[str, tuple[Callable[..., MeasuredItems], dict[str, Any], dict[str, Any]]] = {
    "read off": (dpgap.top_k, {"unit": "row"}, {"k": 3}),
    "as a set": (dpgap.top_k, {}, {"k": 3, "method": "joint"}),
    "ranked": (dpgap.top_k, {}, {"k": 3, "method": "ranked"}),
    "paper": (dpgap.top_k, {}, {"k": 3, "method": "paper"}),
    "above": (dpgap.above, {}, {"threshold": 400, "k": 3}),
    "above, read off": (dpgap.above, {"unit": "row"}, {"threshold": 400, "k": 3}),
    "unknown": (dpgap.top_k, {"domain": None, "max_items": 9}, {"k": 3, "delta": "1e-6"}),
}
EPSILONS = ("0.2", "1", "4")
CASES = [(table, way) for table in TABLES for way in WAYS]
QUICK = [("ties", "ranked"), ("ties", "read off"), ("flat", "as a set"), ("flat", "above")]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("table", "way"), quick_in(CASES, QUICK))
def test_findings_hold_on_ties_and_flat_counts(table: str, way: str, runs: int) -> None:
    sizes = TABLES[table]
    sold = pandas.DataFrame({"who": range(sum(sizes)), "what": np.repeat(ITEMS, sizes)})
    function, counting, asked = WAYS[way]
    answers = dpgap.counts(sold, **{"unit": "who", "item": "what", "domain": ITEMS} | counting)
    truth = np.array(sizes, dtype=float)

    def ask(run: int) -> tuple[MeasuredItems, Values]:
        return function(answers, epsilon=EPSILONS[run % 3], **asked), truth

    tally = _tally(ask, runs)
    print(table, way, sorted(tally.items()))
    # Of equal counts that are read off, nothing is ever sure.
    _require(tally, runs, says_nothing=(table, way) == ("flat", "read off"))
    assert _is_caught(tally["too sure"], runs)


CUTS: dict[str, dict[str, Any]] = {
    "few items": {"max_items": 1},
    "two items": {"max_items": 2},
    "groups": {"by": "land", "groups": ["ch", "de"], "max_groups": 1},
    "sums": {"sum": "paid", "at_most": 10, "step": 1},
}


def _cut_table(more: int) -> pandas.DataFrame:
    """500 people have five items or six, in both lands, for 50. Others have one, for 10."""
    rows = [
        (who, ITEMS[at], land, 25)
        for who in range(500)
        for at in (0, 1, 2, 3, 4, 7)[: 5 + (who < 200)]
        for land in ("ch", "de")
    ]
    ones = np.repeat(ITEMS[5:8], [more, more - 6, more - 100])
    rows += [(500 + at, item, ("ch", "de")[at % 2], 10) for at, item in enumerate(ones)]
    return pandas.DataFrame(rows, columns=["who", "what", "land", "paid"])


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("cut", quick_in(CUTS, ["groups"]))
def test_findings_hold_of_the_counts_after_cutting_and_not_of_those_before(
    cut: str, runs: int
) -> None:
    """Those of many items lose most of them, so that the others come first."""
    table = _cut_table(600 if cut in ("groups", "sums") else 300)
    asked = {"unit": "who", "item": "what", "domain": ITEMS} | CUTS[cut]
    own = table[table["land"] == "ch"] if cut == "groups" else table
    totals = (
        own.groupby("what")["paid"].sum() if cut == "sums" else own.groupby("what")["who"].nunique()
    )
    before = totals.reindex(ITEMS, fill_value=0).to_numpy(dtype=float)
    counted: list[Any] = []

    def ask(run: int) -> tuple[MeasuredItems, Values]:
        if run % 100 == 0:
            counted[:] = [dpgap.counts(table, **asked)]
        (answers,) = counted
        release = dpgap.top_k(answers, k=3, epsilon=EPSILONS[run % 3])
        one, answers = (release["ch"], answers["ch"]) if cut == "groups" else (release, answers)
        return one, answers.expanded().astype(float)

    tally = _tally(ask, runs, before)
    print(cut, sorted(tally.items()))
    _require(tally, runs)
    assert _is_caught(tally["before"], runs)


@pytest.mark.parametrize("runs", RUNS)
def test_how_many_there_are_holds(runs: int) -> None:
    table, wrong, short = pandas.DataFrame({"who": range(300)}), 0, 0
    for run in range(runs):
        release = dpgap.count(table, unit="who", epsilon=EPSILONS[run % 3])
        (said,) = release.findings
        low, *_, high = 2 * re.findall(r"\d+", said.partition("(")[0])
        wrong += not int(low) <= 300 <= int(high)
        low, high = release.interval(0.8)
        short += not low <= 300 <= high
    print("how many", wrong, short)
    assert not _is_caught(wrong, runs)
    assert _is_caught(short, runs)
