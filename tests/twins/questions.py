"""Every question that is asked of both twins: one line each.

A question gets counts and an account. At this ε noise is far smaller than the lead of the first
four items, so that both twins have the same winners.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dpgap
from twins.neighbours import THRESHOLD

EPSILON = 400
SEVERAL = 4
SHORT = ("list", "small", "table", "file", "without case")
LONG = ("wide", "huge")


class Question(NamedTuple):
    """What to ask, and of which domains."""

    ask: Callable[[Any, Any], Any]
    domains: Sequence[str] = (*SHORT, *LONG)


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
    "sparse-vector": _bare(dpgap.SparseVector(THRESHOLD, SEVERAL, EPSILON, monotonic=True)),
    "laplace": _bare(dpgap.Laplace(EPSILON)),
    "count-hull": _bare(dpgap.CountHull(EPSILON, monotonic=True)),
}
