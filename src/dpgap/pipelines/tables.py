"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypedDict

from dpgap._package import public
from dpgap.budget.account import Account
from dpgap.data.counts import DomainLike, Table, counts, units_of
from dpgap.data.private_counts import CountsByGroup, PrivateCounts, errors_without_answers
from dpgap.exact.parameters import Rational
from dpgap.pipelines.asking import Asked, answer, counted
from dpgap.releases.by_group import UnitCount

Counted = PrivateCounts | CountsByGroup


@public
@errors_without_answers
def top_k(
    table: "Table | Counted",
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    k: int,
    epsilon: Rational,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str | None = None,
    groups: Sequence[Any] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> Any:
    """The k items with the most distinct units, or with the largest sums, with estimates.

    All of it costs ε. With `by` the answer is a mapping from group to release.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales",
        or what `dpgap.counts` gave, to count once and ask several times.
    unit
        The column that says whose row it is. All rows with one value in it are protected together.
        "row" protects single rows; "line", the lines of a FIMI file.
    item
        The column whose values are counted.
    domain
        The public items, which must not be read from the private table: a list, a range, a file of
        items, "items.parquet:column", or a frame of one column. None: whatever items there are;
        that needs `delta` and `max_items`.
    k
        How many items to find.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    delta
        With `domain=None`: the chance that an item is shown which one unit alone has, such as 1e-9.
    max_items
        The most items that a unit counts for. Those beyond are dropped, by a secret order. Where it
        is small, noise is smaller too; where units have many items, counts shrink. With `by` it is
        the most pairs of group and item.
    by
        The column of the groups: the top k of every group is found.
    groups
        The public groups, in the order of the answer.
    max_groups
        The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each unit
        counts in one group only, drawn at random. More than one divides ε among them.
    sum
        The column whose amounts are added up, instead of counting units.
    at_most, at_least
        With `sum`: what a unit's total for an item is clipped to. It says how much noise there is.
    step
        With `sum`: what each row's amount is rounded to.
    where
        Which rows count, such as "country = 'CH' and amount >= 10": columns, numbers, 'text',
        = != < <= > >=, in (…), and, or, not.
    method
        "best", the default: the way with the least error to expect. "joint": as a set; "ranked":
        ranked, with gaps; "paper": as in the paper; "histogram": all items measured at once, for
        `max_items` only.
    split
        The share of ε for selecting, unless the method shall choose it: see
        `dpgap.measured_top_k`.
    neighbours
        What privacy hides: "add-or-remove" that a unit is there at all; "replace", which of two
        units it is, for twice the noise.
    account
        What the release is charged to, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for fresh noise where the account has paid for the same question before.
        Otherwise its paid answer is shown again, and nothing is charged.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> items = ["fig", "pea", "oat"]
    >>> best = dpgap.top_k(sold, unit="who", item="what", domain=items, k=1, epsilon=1)
    >>> best.labels, best.interval(0.95).shape
    (('fig',), (1, 2))
    >>> dpgap.top_k(sold, unit="row", item="what", k=1, epsilon=1, delta=1e-9).labels
    ('fig',)
    """
    asked = Asked.top_k(k, epsilon, delta, method, split)
    with _counted(table, said(locals())) as answers:
        return answer(asked, answers, account, fresh)


@public
@errors_without_answers
def above(
    table: "Table | Counted",
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    threshold: Rational,
    k: int | None = None,
    epsilon: Rational,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str | None = None,
    groups: Sequence[Any] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    adaptive: bool = True,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> Any:
    """Items with at least `threshold` distinct units, or such a sum, with estimates.

    They are shown largest estimate first. Without `max_items`, items are asked in a fresh secure
    random order until the budget is used; about k of them are found. With it, all of them may be.

    Parameters
    ----------
    table, unit, item, domain, neighbours
        As for `dpgap.top_k`.
    threshold
        How many units an item must have, or which sum.
    k
        How many items can be paid for at the full price. With `max_items`: the most items that are
        shown; None for all.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    delta, max_items, by, groups, max_groups, sum, at_most, at_least, step, where
        As for `dpgap.top_k`.
    adaptive
        Whether to pay less for items far above the threshold, so that more than k may be found.
    method
        "best", the default: the way with the least error to expect. "paper": Laplace noise and the
        estimators of the paper. "histogram": all items measured at once, for `max_items` only.
    split
        The share of ε for selecting, half unless said; the rest measures.
    account
        What the release is charged to, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for fresh noise where the account has paid for the same question before.
        Otherwise its paid answer is shown again, and nothing is charged.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> options = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"]}
    >>> dpgap.above(sold, threshold=450, k=1, epsilon=10, **options).labels
    ('fig',)
    """
    asked = Asked.above(threshold, k, epsilon, delta, method, split, adaptive)
    with _counted(table, said(locals())) as answers:
        return answer(asked, answers, account, fresh)


@public
@errors_without_answers
def count(
    table: "Table",
    *,
    unit: str | None = None,
    epsilon: Rational,
    where: str | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> UnitCount:
    """How many distinct units a table has, with an interval: "of how many?".

    Parameters
    ----------
    table, unit, neighbours, account, fresh
        As for `dpgap.top_k`.
    epsilon
        The privacy budget ε that it costs.
    where
        Which rows count, such as "country = 'CH'": then a unit counts that has such a row.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, 3] * 100, "what": ["fig", "pea"] * 200})
    >>> release = dpgap.count(sold, unit="who", epsilon=1000)
    >>> release.estimate, release.interval().tolist()
    (3.0, [3.0, 3.0])
    """
    asked = Asked.count(epsilon)
    if isinstance(table, Counted):
        raise TypeError(
            "table must be the table itself: counts of items do not tell how many units"
        )
    stated = {"unit": unit, "where": where, "neighbours": neighbours}
    with _counted(table, said(COUNTING | stated), units_of) as answers:
        return counted(asked, answers, account, fresh)


COUNTING: dict[str, Any] = {
    "unit": None,
    "item": None,
    "domain": None,
    "neighbours": None,
    "max_items": None,
    "by": None,
    "groups": None,
    "max_groups": None,
    "sum": None,
    "at_most": None,
    "at_least": 0,
    "step": "0.01",
    "where": None,
}
"""What can be said of counting, and what holds unless it is said."""


class Options(TypedDict, total=False):
    """What else can be said of a top k."""

    domain: "DomainLike | None"
    delta: Rational
    max_items: int | None
    groups: Sequence[Any] | None
    by: str | None
    max_groups: int | None
    sum: str | None
    at_most: Rational | None
    at_least: Rational
    step: Rational
    where: str | None
    method: str | None
    split: Rational | None
    fresh: bool


class AboveOptions(Options, total=False):
    """What else can be said of those above a threshold."""

    k: int | None
    adaptive: bool


def said(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of counting, and is not what holds anyway."""
    return {
        name: arguments[name]
        for name, default in COUNTING.items()
        if not (arguments[name] is default or (default and arguments[name] == default))
    }


@contextmanager
def _counted(
    table: Any, stated: dict[str, Any], count: Callable[..., Any] = counts
) -> Iterator[Any]:
    """Counts for as long as the block lasts; those that the user made are left open."""
    if isinstance(table, Counted):
        if stated:
            raise TypeError(
                f"{', '.join(stated)} must be left out: it was stated when these were counted"
            )
        yield table
        return
    with closing(count(table, **stated)) as made:
        yield made
