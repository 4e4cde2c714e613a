"""Bounded answers: frozen in an engine like plain counts, for one question or for all groups.

One table has the answers of all groups, and one query fetches their counts of counts. Where groups
and items are few by their public numbers, all answers that are not 0 are fetched at once instead,
so that a thousand groups do not need a thousand look-ups.
"""

from contextlib import ExitStack
from typing import Any

import narwhals as nw
import numpy as np

from dpgap.data.addresses import Lazy
from dpgap.data.bounded import add_up, steps_of
from dpgap.data.bounds import Bounds
from dpgap.data.by_group import CountsByGroup
from dpgap.data.domain import Domain, Stated
from dpgap.data.engines.base import Engine
from dpgap.data.engines.counted import CountsInEngine, Kept, freeze, positions_in
from dpgap.data.engines.narrowing import TWO_TABLES, narrow_groups, narrow_rows
from dpgap.data.private_counts import CountsInMemory, PrivateCounts
from dpgap.data.tracebacks import UNREADABLE, quietly

FETCHED = 10**7
"""The most pairs of groups and items, absent ones included, whose answers are fetched at once."""

_ROWS_AT_ONCE = 1 << 18


def count_bounded(
    engine: Engine,
    rows: Lazy,
    bounds: Bounds,
    domain: Stated,
    facts: dict[str, Any],
    resources: ExitStack,
) -> PrivateCounts | CountsByGroup:
    """Freeze what units add to a domain's items, cut to the bounds.

    `rows` has a row's `item` and maybe its `unit`, `group` and `amount`. All else is as for
    `count_in_engine`; with groups a domain is stated, or whatever is present.
    """
    plain = quietly(lambda: engine.plain(rows), UNREADABLE)
    wanted, of_groups = (
        narrow_rows(engine, plain, domain),
        narrow_groups(engine, plain, bounds.groups),
    )
    labels = domain.labels if isinstance(domain, Domain) else None
    size = None if labels is None else len(labels)

    def query() -> Lazy:
        narrowed = of_groups(wanted())
        if bounds.column is not None:
            narrowed = steps_of(narrowed, narrowed.collect_schema()["amount"], bounds)
        added = add_up(engine, narrowed, bounds, size)
        if isinstance(domain, nw.LazyFrame):
            known = engine.plain(domain).drop_nulls().unique()
            filled = nw.col("units").fill_null(0)
            return known.join(added, on="item", how="left").select("item", filled)
        return added if labels is None else added.filter(nw.col("units") != 0)

    refusal = TWO_TABLES if isinstance(domain, nw.LazyFrame) else UNREADABLE
    frozen, tallied = quietly(lambda: freeze(engine, query(), resources), refusal)
    numbers = labels if labels is None or isinstance(labels, range) else range(len(labels))
    if bounds.groups is not None and size is not None:
        groups = bounds.groups.labels
        if size * len(groups) <= FETCHED:
            return _fetched(engine, frozen, groups, labels, numbers, facts)
    if not tallied.size and labels is None and not facts["unknown"]:
        raise ValueError("domain must not be empty")
    common = facts | {"engine": engine, "labels": labels, "numbers": numbers}
    common |= {"kept": Kept(engine, resources.pop_all())}
    if bounds.groups is None:
        return CountsInEngine(
            frozen=frozen, values=tallied[:, 0].copy(), sizes=tallied[:, 1].copy(), **common
        )

    def make(place: int) -> PrivateCounts:
        own = tallied[tallied[:, 0] == place]
        of_group = engine.of_group(frozen, place)
        return CountsInEngine(frozen=of_group, values=own[:, 1], sizes=own[:, 2], **common)

    return CountsByGroup(tuple(bounds.groups.labels), make, facts["origin"])


def _fetched(
    engine: Engine, frozen: Lazy, groups: Any, labels: Any, numbers: Any, facts: dict[str, Any]
) -> CountsByGroup:
    """The answers of all groups that are not 0, here in this process."""
    batches = list(engine.batches(frozen.select("group", "item", "units"), _ROWS_AT_ONCE))
    group, items, units = (
        np.concatenate(
            [np.empty(0, np.int64), *(batch[name].astype(np.int64) for batch in batches)]
        )
        for name in ("group", "item", "units")
    )
    order = np.argsort(group, kind="stable")
    positions, units = positions_in(numbers, items)[order], units[order]
    starts = np.searchsorted(group[order], np.arange(len(groups) + 1))

    def make(place: int) -> PrivateCounts:
        own = slice(starts[place], starts[place + 1])
        return CountsInMemory(labels=labels, positions=positions[own], counts=units[own], **facts)

    return CountsByGroup(tuple(groups), make, facts["origin"])
