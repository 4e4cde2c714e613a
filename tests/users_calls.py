"""What a type checker knows of users' calls: each comment is the type that mypy must reveal.

It is checked by `mypy --strict`, and never run.
"""

from fractions import Fraction
from pathlib import Path
from typing import reveal_type

import polars

import dpgap


def of_a_table(table: polars.DataFrame, by: str | None) -> None:
    """Without groups a release comes back, and with groups a mapping to releases."""
    items = ["fig", "pea"]
    top = dpgap.top_k(table, unit="who", item="what", domain=items, k=3, epsilon="0.5")
    reveal_type(top)  # MeasuredItems
    reveal_type(top.labels)  # tuple[Any, ...] | None
    reveal_type(dpgap.top_k(Path("sales.csv"), item="what", k=3, epsilon=1))  # MeasuredItems
    each = dpgap.top_k("sales.csv", item="what", by="city", groups=["Bern"], k=3, epsilon=1)
    reveal_type(each)  # ReleasesByGroup
    reveal_type(each["Bern"])  # MeasuredItems
    reveal_type(dpgap.top_k(table, by=by, k=3, epsilon=1))  # MeasuredItems | ReleasesByGroup
    reveal_type(dpgap.above(table, item="what", threshold=9, epsilon=1))  # MeasuredItems
    reveal_type(dpgap.above(table, threshold=9, epsilon=1, by="city"))  # ReleasesByGroup
    reveal_type(dpgap.count(table, unit="who", epsilon=Fraction(1, 2)))  # MeasuredValues
    total = dpgap.total(table, unit="who", sum="paid", at_most=50, at_least="-1/2", epsilon=1)
    reveal_type(total)  # MeasuredValues
    reveal_type(top.shares(total))  # Shares


def of_counts(table: polars.DataFrame) -> None:
    """Counts that are asked several times."""
    counted = dpgap.counts(table, unit="who", item="what", domain=range(9))
    reveal_type(counted)  # PrivateCounts
    reveal_type(dpgap.top_k(counted, k=1, epsilon=1))  # MeasuredItems
    grouped = dpgap.counts(table, unit="who", item="what", by="city", groups=[1, 2], max_groups=1)
    reveal_type(grouped)  # CountsByGroup
    reveal_type(dpgap.top_k(grouped, k=1, epsilon=1))  # ReleasesByGroup
    reveal_type(dpgap.above(grouped, threshold="1/2", epsilon=1, adaptive=False))  # ReleasesByGroup


def in_a_session(table: polars.DataFrame, by: str | None) -> None:
    """Sessions know as much."""
    with dpgap.Session(table, unit="who", epsilon=2) as session:
        reveal_type(session.top_k("what", domain=["fig"], k=1, epsilon=1))  # MeasuredItems
        reveal_type(session.top_k("what", by="city", k=1, epsilon=1))  # ReleasesByGroup
        reveal_type(session.above("what", threshold=3, epsilon=1, fresh=True))  # MeasuredItems
        either = session.above("what", by=by, threshold=3, epsilon=1)
        reveal_type(either)  # MeasuredItems | ReleasesByGroup
        reveal_type(session.count(epsilon=1))  # MeasuredValues
        reveal_type(session.total("paid", at_most=50, epsilon=1))  # MeasuredValues
        reveal_type(session.remaining)  # Fraction | None


def mistaken(table: polars.DataFrame) -> None:
    """Calls that are wrong, which a type checker must refuse: an ignore too many is an error."""
    dpgap.top_k(table, item="what", epsilon=1)  # type: ignore[call-overload]
    dpgap.top_k(table, k=3, epsilon=1, max_item=3)  # type: ignore[call-overload]
    dpgap.above(table, threshold=3, epsilon=1, max_items="3")  # type: ignore[call-overload]
    dpgap.top_k(table, k=3, epsilon=1, threshold=3)  # type: ignore[call-overload]
    session = dpgap.Session(table, epsilon=1)
    session.top_k("what", k=1, epsilon=1, unit="who")  # type: ignore[call-overload]
