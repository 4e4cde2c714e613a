"""One release of every kind, of arrays and of a table; also every method and every route."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import dpgap
from seams import as_counts

ANSWERS = np.array([9_000, 7_100, 6_800, 40, 39, 5, 0, 0])
NAMES = [f"item {place}" for place in range(ANSWERS.size)]
SOLD = pl.DataFrame(
    {
        "who": [f"secret {unit}" for unit in range(900) for _ in range(3)],
        "what": [
            ("fig", "pea", "oat", "rye", "nut")[(u * (j + 1)) % 5]
            for u in range(900)
            for j in range(3)
        ],
        "where": [("north", "south")[u % 2] for u in range(900) for _ in range(3)],
        "paid": [(u % 7) / 4 for u in range(900) for _ in range(3)],
    }
)
ASKED: dict[str, Any] = {
    "unit": "who",
    "item": "what",
    "domain": ["fig", "pea", "oat", "rye", "nut"],
}


def _kept(**asked: Any) -> Callable[[], Any]:
    return lambda: dpgap.top_k(SOLD, **ASKED | asked)


def _session(ask: Callable[[dpgap.Session], Any]) -> Callable[[], Any]:
    return lambda: ask(dpgap.Session(SOLD, unit="who", epsilon=10, delta="1e-3"))


ARRAYS: dict[str, Callable[[], Any]] = {
    "top k": lambda: dpgap.NoisyTopK(3, 1).release(ANSWERS, labels=NAMES),
    "all": lambda: dpgap.NoisyTopK(8, 1, noise="exponential", grid="1/8").release(ANSWERS / 8),
    "max": lambda: dpgap.NoisyMax(1, noise="staircase").release(ANSWERS),
    "grouped": lambda: dpgap.NoisyTopK(2, 1).release(as_counts(ANSWERS)),
    "joint": lambda: dpgap.JointTopK(3, 1, grid="1/4").release(ANSWERS / 4, labels=NAMES),
    "hybrid": lambda: dpgap.HybridTopK(1_000, 5, 1).release(ANSWERS, labels=NAMES),
    "hybrid, nothing": lambda: dpgap.HybridTopK(10**6, 5, 1).release(ANSWERS),
    "above": lambda: dpgap.SparseVector(1_000, 2, 1).release(ANSWERS, labels=NAMES),
    "adaptive": lambda: dpgap.AdaptiveSparseVector(
        1_000, 2, 1, branches=4, noise="exponential", grid="1/2"
    ).release(ANSWERS / 2),
    "laplace": lambda: dpgap.Laplace(1, grid="1/16").release(ANSWERS / 16),
    "hull": lambda: dpgap.CountHull(1, monotonic=True).release(ANSWERS),
    "cube": lambda: dpgap.Cube("1/3").release(ANSWERS),
    "histogram": lambda: dpgap.NoisyHistogram(1, reach=2).release(ANSWERS),
    **{
        f"measured, {method}": lambda method=method: dpgap.measured_top_k(
            ANSWERS, 3, 2, method=method, labels=NAMES
        )
        for method in ("best", "joint", "ranked", "paper")
    },
    "measured, all": lambda: dpgap.measured_top_k(ANSWERS, 8, 2),
    "measured, one": lambda: dpgap.measured_top_k(ANSWERS, 1, 2),
    "measured above": lambda: dpgap.measured_above(ANSWERS, 1_000, 3, 2, adaptive=True),
    "measured above, paper": lambda: dpgap.measured_above(ANSWERS, 1_000, 3, 2, method="paper"),
    "measured above, nothing": lambda: dpgap.measured_above(ANSWERS, 10**6, 3, 2),
}
TABLES: dict[str, Callable[[], Any]] = {
    "table": _kept(k=2, epsilon=2),
    "table, joint": _kept(k=2, epsilon=2, method="joint"),
    "table, few items a unit": _kept(k=2, epsilon=2, max_items=1),
    "table, groups": _kept(k=2, epsilon=2, by="where", groups=["north", "south"], max_groups=1),
    "table, sums": _kept(k=2, epsilon=2, sum="paid", at_most=5),
    "table, above": lambda: dpgap.above(SOLD, **ASKED, threshold=200, k=3, epsilon=2),
    "table, above and k of a histogram": lambda: dpgap.above(
        SOLD, **ASKED, threshold=100, k=2, epsilon=2, max_items=1
    ),
    "table, above, nothing": lambda: dpgap.above(SOLD, **ASKED, threshold=10**6, k=3, epsilon=2),
    "table, unknown items": lambda: dpgap.top_k(
        SOLD, unit="who", item="what", k=2, epsilon=2, delta="1e-3", max_items=3
    ),
    "table, unknown items, hybrid": lambda: dpgap.top_k(
        SOLD, unit="who", item="what", k=2, epsilon=20, delta="1e-3", max_items=60
    ),
    "rows": lambda: dpgap.top_k(
        SOLD, unit="row", item="what", domain=ASKED["domain"], k=2, epsilon="1/2"
    ),
    "count": lambda: dpgap.count(SOLD, unit="who", epsilon=1),
    "total": lambda: dpgap.total(SOLD, unit="who", sum="paid", at_most=4, at_least=-1, epsilon=1),
    "session": _session(
        lambda s: s.top_k("what", k=2, epsilon=1, domain=ASKED["domain"], where="paid > 0.5")
    ),
    "session, count": _session(lambda s: s.count(epsilon=1, where="paid > 0.5")),
    "session, total": _session(lambda s: s.total("paid", at_most=4, epsilon=1, where="paid > 0.5")),
}
RELEASES = ARRAYS | TABLES
