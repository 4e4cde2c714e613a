"""Every question that is asked of both twins: one line each.

A question gets counts and an account. At this ε noise is far smaller than the lead of the first
four items, so that both twins have the same winners.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import dpgap
from dpgap.data.private_counts import CountsByGroup
from twins.neighbours import GROUPS, THRESHOLD

EPSILON = 400
SEVERAL = 4
SHORT = ("list", "small", "table", "file", "without case")
LONG = ("wide", "huge")
_OF_A_FILE = ("encoding", "decimal")


class Question(NamedTuple):
    """What to ask, and of which domains."""

    ask: Callable[[Any, Any], Any]
    domains: Sequence[str] = (*SHORT, *LONG)
    options: Mapping[str, Any] = {}
    """What is asked beside plain counts, of a wide table."""
    of_table: bool = False
    """Whether the table itself is asked: `ask` gets all that was stated of it, with the table."""

    @property
    def columns(self) -> int:
        """How many columns a table must have: more than those of units and items?"""
        return 2 if {"by", "sum", "where"}.isdisjoint(self.options) else 4


def _top(k: int, **options: Any) -> Question:
    return Question(lambda a, pays: dpgap.top_k(a, k=k, epsilon=EPSILON, account=pays, **options))


def _all(answers: Any, pays: Any, **options: Any) -> Any:
    k = min(len(answers), 1200) if len(answers) < 2000 else 30
    return dpgap.top_k(answers, k=k, epsilon=EPSILON * k, account=pays, **options)


def _above(**options: Any) -> Question:
    ask = {"threshold": THRESHOLD, "k": SEVERAL, "epsilon": EPSILON, **options}
    return Question(lambda a, pays: dpgap.above(a, account=pays, **ask))


def _bare(mechanism: Any, domains: Sequence[str] = SHORT) -> Question:
    return Question(lambda a, pays: mechanism.release(a, account=pays), domains)


def _in_a_session(asked: dict[str, Any], pays: Any) -> Any:
    stated = {name: value for name, value in asked.items() if name != "item"}
    table, unit = stated.pop("table"), stated.pop("unit", None)
    of_file = {name: stated.pop(name) for name in _OF_A_FILE if name in stated}
    session = dpgap.Session(table, unit=unit, account=pays, **of_file)
    return session.top_k(asked.get("item"), k=SEVERAL, epsilon=EPSILON, **stated)


def _count(asked: dict[str, Any], pays: Any) -> Any:
    of_file = {name: asked[name] for name in _OF_A_FILE if name in asked}
    unit = asked.get("unit")
    return dpgap.count(asked["table"], unit=unit, epsilon=EPSILON, account=pays, **of_file)


def _total(asked: dict[str, Any], pays: Any) -> Any:
    bounds = {"sum": "paid", "at_most": 25, "at_least": -5}
    unit = asked.get("unit")
    return dpgap.total(asked["table"], unit=unit, **bounds, epsilon=EPSILON, account=pays)


QUESTIONS: dict[str, Question] = {
    "counts": Question(lambda answers, pays: None),
    "order": Question(
        lambda answers, pays: None, ("list", "small", "table", "wide", "wide", "huge")
    ),
    "top-1": _top(1),
    "top-4": _top(SEVERAL),
    "top-4-joint": _top(SEVERAL, method="joint"),
    "top-4-ranked": _top(SEVERAL, method="ranked"),
    "top-4-paper": _top(SEVERAL, method="paper"),
    "top-all": Question(_all, (*SHORT, *LONG, "many", "many")),
    "above": _above(),
    "above-plain": _above(adaptive=False),
    "above-paper": _above(method="paper"),
    "noisy-top-k": _bare(dpgap.NoisyTopK(SEVERAL, EPSILON, monotonic=True), (*SHORT, *LONG)),
    "joint-top-k": _bare(dpgap.JointTopK(SEVERAL, EPSILON, monotonic=True), (*SHORT, *LONG)),
    "hybrid-top-k": _bare(
        dpgap.HybridTopK(THRESHOLD, SEVERAL, EPSILON, monotonic=True), (*SHORT, *LONG)
    ),
    "sparse-vector": _bare(dpgap.SparseVector(THRESHOLD, SEVERAL, EPSILON, monotonic=True)),
    "laplace": _bare(dpgap.Laplace(EPSILON)),
    "count-hull": _bare(dpgap.CountHull(EPSILON, monotonic=True)),
    "count": Question(_count, SHORT, of_table=True),
    "session": Question(_in_a_session, (*SHORT, *LONG), of_table=True),
}

PLAIN = tuple(QUESTIONS)
"""The questions about plain counts."""


def parts_of(answers: Any) -> list[tuple[Any, Any]]:
    """The answers of every group; or all of them, of none."""
    return list(answers.items()) if isinstance(answers, CountsByGroup) else [(None, answers)]


def _top_of_each(answers: Any, pays: Any) -> Any:
    """The largest two, of every group where there are groups."""
    _, first = parts_of(answers)[0]
    delta = "1e-9" if first.unknown else 0
    return dpgap.top_k(answers, k=2, epsilon=EPSILON, delta=delta, account=pays)


_KEYWORDS: dict[str, dict[str, Any]] = {
    "reach": {"max_items": 3},
    "sum": {"sum": "paid", "at_most": 25},
    "signed": {"sum": "paid", "at_most": "12.5", "at_least": -30, "step": "0.5"},
    "by": {"by": "land", "groups": list(GROUPS), "max_groups": 1},
    "by-two": {"by": "land", "groups": list(GROUPS), "max_groups": 2},
    "where": {"where": "land = 'ch' or paid > 7"},
    "text": {
        "where": "land like '_h%' or paid is null or paid between 1 and 8"
        " or day(land, 'DD.MM.YYYY') >= '2024-01-31'"
    },
    "unknown": {"domain": None, "max_items": 2},
}
_EXCLUDE = {("sum", "signed"), ("by", "by-two"), ("where", "text")}


def _bounded(*names: str) -> tuple[str, Question]:
    options = {key: value for name in names for key, value in _KEYWORDS[name].items()}
    return "+".join(names), Question(_top_of_each, (*SHORT, *LONG, "many"), options)


def _first(answers: Any, pays: Any) -> Any:
    """The largest, read off a histogram of all that units have."""
    ask = {"k": 1, "epsilon": 100 * EPSILON, "method": "histogram"}
    return dpgap.top_k(answers, account=pays, **ask)


BOUNDED: dict[str, Question] = {
    "first": Question(_first, (*SHORT, *LONG, "many"), {"max_items": 100})
} | dict(
    _bounded(*names)
    for names in [
        *combinations(_KEYWORDS, 1),
        *(pair for pair in combinations(_KEYWORDS, 2) if pair not in _EXCLUDE),
        ("reach", "signed", "by-two", "where"),
    ]
)
"""Every keyword, every pair of them, and many together; and what all units add up to."""

BOUNDED["total"] = Question(_total, SHORT, {"sum": "paid"}, of_table=True)

QUESTIONS |= BOUNDED
