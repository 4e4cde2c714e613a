"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from dpgap import public
from dpgap.budget.account import Account, AlreadyCharged, Archive, RefusedRequest, charged
from dpgap.data.counts import NEIGHBOURS, DomainLike, Table, counts, require_neighbours
from dpgap.data.private_counts import PrivateCounts
from dpgap.data.tracebacks import errors_without_answers
from dpgap.exact.parameters import Rational, boolean
from dpgap.mechanisms.sparse_vector.streams import Stream
from dpgap.pipelines.measured import MeasuredAbove, MeasuredTopK
from dpgap.releases.document import read_archived
from dpgap.releases.faults import DocumentError
from dpgap.releases.questions import Origin, Question, TableRelease
from dpgap.releases.results import Measured


@public
@errors_without_answers
def top_k(
    table: "Table | PrivateCounts",
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    k: int,
    epsilon: Rational,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> TableRelease:
    """The k items with the most distinct units, with estimates, for ε in all.

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
        items, "items.parquet:column", or a frame of one column.
    k
        How many items to find.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    method
        "best", the default: looks first, then finds the winners as a set or ranks them, whichever
        will be better. "joint": as a set; "ranked": ranked, with gaps; "paper": as in the paper.
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
    """
    pipeline = MeasuredTopK(
        k,
        epsilon,
        monotonic=_is_monotonic(table, neighbours),
        **_given(method=method, split=split),
    )
    with _counted(table, unit, item, domain, neighbours) as (answers, origin):
        question = _question("top-k", pipeline, answers, origin)
        paid = _paid_before(question, account, fresh)
        if paid is not None:
            return paid
        candidates = pipeline.prepare(answers)
        return _pay(question, account, lambda: pipeline.draw_paid(candidates))


@public
@errors_without_answers
def above(
    table: "Table | PrivateCounts",
    *,
    unit: str | None = None,
    item: str | None = None,
    domain: "DomainLike | None" = None,
    threshold: Rational,
    k: int,
    epsilon: Rational,
    adaptive: bool = True,
    method: str | None = None,
    split: Rational | None = None,
    neighbours: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> TableRelease:
    """Items with at least `threshold` distinct units, about k of them, with estimates.

    Items are asked in a fresh secure random order until the budget is used, and shown largest
    estimate first.

    Parameters
    ----------
    table, unit, item, domain, neighbours
        As for `dpgap.top_k`.
    threshold
        How many units an item must have.
    k
        How many items can be paid for at the full price.
    epsilon
        The privacy budget ε that all of it costs: a number, or text such as "0.7" or "2/3".
    adaptive
        Whether to pay less for items far above the threshold, so that more than k may be found.
    method
        "best", the default: exponential noise, all winners measured together, intervals that hold
        after selection. Or "paper": Laplace noise and the estimators of the paper.
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
    pipeline = MeasuredAbove(
        threshold,
        k,
        epsilon,
        adaptive=boolean("adaptive", adaptive),
        monotonic=_is_monotonic(table, neighbours),
        **_given(method=method, split=split),
    )
    with (
        _counted(table, unit, item, domain, neighbours) as (answers, origin),
        closing(answers.shuffled()) as chunks,
    ):
        question = _question("above", pipeline, answers, origin)._replace(
            threshold=pipeline.selection.threshold, adaptive=bool(adaptive)
        )
        paid = _paid_before(question, account, fresh)
        if paid is not None:
            return paid
        stream = pipeline.prepare(Stream.on_grid(answers, chunks, pipeline.selection.grid))
        return _pay(question, account, lambda: pipeline.draw_paid(stream))


def _pay(question: Question, account: Account | None, draw: Callable[[], Measured]) -> TableRelease:
    """Charge, draw, and archive the answer; a request that was charged before shows its answer."""
    try:
        with charged(account, question.request()) as charge:
            release = charge.keep(_of_table(question, draw()))
            charge.spent = release.spent
    except AlreadyCharged as before:
        if before.answered.document is None:
            raise
        again = _again(before.answered.document)
        if not question.is_same_as(again.question):
            raise RefusedRequest(
                "this request key was used for another request: use a key of its own for each"
            ) from None
        return again
    return release


def _paid_before(question: Question, account: Account | None, fresh: bool) -> TableRelease | None:
    """The newest answer that the account has paid for, if it was asked the same before.

    Whether there is one depends on the question and on the ledger, never on the table.
    """
    if boolean("fresh", fresh) or question.identity is None or not isinstance(account, Archive):
        return None
    document = account.paid(question.identity)
    return None if document is None else _again(document)


def _again(document: str) -> TableRelease:
    """An answer from an archive."""
    release = read_archived(document)
    if not isinstance(release, TableRelease):
        raise DocumentError("the archive's document of this question is not that of a table")
    return release.again()


def _question(
    kind: str, pipeline: MeasuredTopK | MeasuredAbove, answers: PrivateCounts, origin: Origin
) -> Question:
    """What is asked. All of it is public, and known before anything is charged."""
    return Question(
        kind=kind,
        k=pipeline.selection.k,
        epsilon=pipeline.epsilon,
        origin=origin,
        items=len(answers),
        method=pipeline.method,
        split=pipeline.split,
    )


def _is_monotonic(table: Any, neighbours: str | None) -> bool:
    if isinstance(table, PrivateCounts):
        return table.monotonic
    return require_neighbours(neighbours or NEIGHBOURS[0]) == NEIGHBOURS[0]


@contextmanager
def _counted(
    table: Any, unit: str | None, item: str | None, domain: Any, neighbours: str | None
) -> Iterator[tuple[PrivateCounts, Origin]]:
    """Counts for as long as the block lasts; those that the user made are left open."""
    if not isinstance(table, PrivateCounts):
        options = _given(neighbours=neighbours)
        made = counts(table, unit=unit, item=item, domain=domain, **options)
        with closing(made):
            yield made, _origin(made)
    elif not all(each is None for each in (unit, item, domain, neighbours)):
        raise TypeError("unit, item, domain and neighbours were stated when these were counted")
    else:
        yield table, _origin(table)


def _origin(answers: PrivateCounts) -> Origin:
    if answers.origin is None:
        raise TypeError("table must be answers that `dpgap.counts` made, with their origin")
    return answers.origin


def _of_table(question: Question, release: Measured) -> TableRelease:
    """The answer to a question, the largest estimate first."""
    return TableRelease(**_largest_first(release), question=question)


def _largest_first(release: Measured) -> dict[str, Any]:
    """The values of a release, the largest estimate first. What is not one for each item stays."""
    order = release.order
    places = order.tolist()
    values = {field.name: getattr(release, field.name) for field in fields(release)}
    for name, each in values.items():
        if isinstance(each, np.ndarray) and each.size == order.size:
            values[name] = each[order]
    for name in ("labels", "errors"):
        if values[name] is not None and len(values[name]) == order.size:
            values[name] = tuple(values[name][place] for place in places)
    if release.evidence is not None:
        values["evidence"] = release.evidence.reordered(places)
    return values


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; others know their own defaults."""
    return {name: value for name, value in options.items() if value is not None}
