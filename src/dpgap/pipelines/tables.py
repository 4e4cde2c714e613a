"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

import numpy as np

from dpgap._package import public
from dpgap.budget.account import Account, AlreadyCharged, Archive, KeyUsed, Request, pay
from dpgap.budget.cost import Cost
from dpgap.data.counts import Table, count_items, units_of
from dpgap.data.domain import steps_outside
from dpgap.data.private_counts import CountsByGroup, PrivateCounts, errors_without_answers
from dpgap.exact.parameters import Rational, boolean
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.pipelines.arrays import MeasuredAbove
from dpgap.pipelines.choose import Pipeline, PublicFacts, choose
from dpgap.question import (
    HISTOGRAM,
    Counting,
    Neighbours,
    Question,
    read_question,
    weak_promises,
)
from dpgap.releases.detail import Detail, MechanismUsed
from dpgap.releases.document import read_archived
from dpgap.releases.release import MeasuredItems, MeasuredValues, ReleasesByGroup, by_group

if TYPE_CHECKING:
    from dpgap.question import DomainLike

# --------------------------------------------------------------------------------------------------
# A question about private counts: the pipeline, the payment, and the answer with its guarantee.
#
# With groups, every group gets the same question, and all answers are one release.


Counted = PrivateCounts | CountsByGroup
Ungrouped: TypeAlias = "Table | PrivateCounts"
AnyTable: TypeAlias = "Table | Counted"
Answer = MeasuredItems | ReleasesByGroup
_NOTHING_STATED = Counting()


def answer(
    question: Question,
    table: AnyTable,
    account: Account | None,
    fresh: bool,
    counting: Counting = _NOTHING_STATED,
) -> Answer | MeasuredValues:
    """Count the table if needed. Pay for the answer and draw it; or return the paid answer."""
    if not isinstance(table, Counted):
        count_table = units_of if question.is_of_all else count_items
        with closing(count_table(table, counting)) as answers:
            return answer(question, answers, account, fresh)
    if table.origin is None:
        raise TypeError("table must be what `dpgap.counts` returns, not other answers")
    answering = Answering.of(question.about(table.origin), table)
    return paid_answer(answering, table, account, boolean("fresh", fresh))


def paid_answer(
    answering: "Answering", answers: Counted, account: Account | None, fresh: bool
) -> Answer | MeasuredValues:
    """Pay for the answer and draw it; or return the paid answer.

    Whether it was paid for depends on the question and on the ledger, never on the table.
    """
    question = answering.question
    pipeline = answering.pipeline
    draw: Any = pipeline.draw_paid
    request = Request(answering.cost, question.purpose, question.facts(), question.identity)
    try:
        if isinstance(account, Archive):
            document = account.free_answer(request, fresh)
            if document is not None:
                return cast(Answer | MeasuredValues, read_archived(document)._again())
        with ExitStack() as resources:
            prepared: list[Any] = []
            groups = answers.values() if isinstance(answers, CountsByGroup) else [answers]
            for counts in groups:
                if isinstance(pipeline, MeasuredAbove):
                    chunks = resources.enter_context(closing(counts.shuffled()))
                    prepared.append(pipeline.prepare(counts, None, chunks))
                else:
                    prepared.append(pipeline.prepare(counts, None))
            return pay(account, request, lambda: answering.build(list(map(draw, prepared))))
    except AlreadyCharged as before:
        if before.answered.document is None:
            raise
        release = read_archived(before.answered.document)
        if release.question is None or not question.is_same_as(release.question):
            raise KeyUsed(
                "this request key was used for another request: use a new key for each"
            ) from None
        return cast(Answer | MeasuredValues, release._again())


@dataclass(frozen=True, slots=True)
class Answering:
    """A question and the pipeline that answers it; both are public."""

    question: Question
    pipeline: Pipeline
    groups: tuple[Any, ...]
    """The groups; (None,) if there are none."""

    @classmethod
    def of(cls, question: Question, answers: Counted) -> "Answering":
        """Choose the pipeline for a question about these counts, or refuse the question."""
        if question.is_of_all:
            if question.kind == "count" and question.neighbours is Neighbours.REPLACE:
                raise ValueError(
                    "neighbours must be 'add-or-remove' for a count: if a unit is replaced, the "
                    "number of units stays the same, and is public"
                )
            facts = PublicFacts.of(answers)
            pipeline = choose(question, facts).pipeline
            return cls(replace(question, items=facts.items), pipeline, (None,))
        if question.unknown and not question.delta:
            raise ValueError(
                "delta must be above 0 if domain is None, such as 1e-6: it is the chance that an "
                "item of only one unit is shown. Or state the public items as domain"
            )
        if question.unknown and question.method not in ("best", HISTOGRAM):
            raise ValueError(
                f"method must be 'best' or 'histogram' if domain is None, not {question.method!r}: "
                "other methods need a public domain"
            )
        if question.delta and not question.unknown:
            raise ValueError("delta must be 0 if a domain is stated: then no item needs a δ")
        if question.by is not None and not isinstance(answers, CountsByGroup):
            raise TypeError(
                "table must be the answers of all groups: one question is about all of them"
            )
        groups = tuple(answers) if isinstance(answers, CountsByGroup) else (None,)
        facts = PublicFacts.of(answers)
        pipeline = choose(question, facts).pipeline
        split = getattr(pipeline, "split", question.split)
        return cls(replace(question, items=facts.items, split=split), pipeline, groups)

    @property
    def cost(self) -> Cost:
        """The most that the answer costs: the groups that a unit counts in, together."""
        pipeline = self.pipeline
        question = self.question
        if isinstance(pipeline, NoisyHistogram):
            return pipeline.cost
        groups = question.max_groups
        return pipeline.cost_of_groups([pipeline.cost] * groups, groups).with_delta(question.delta)

    def build(self, draws: Sequence[Any]) -> Answer | MeasuredValues:
        """The answer, largest estimates first; one for each group where there are groups."""
        question = self.question
        pipeline = self.pipeline
        if isinstance(pipeline, NoisyHistogram):
            step = question.step
            promise = pipeline.promise
            error = pipeline.error()
            values = [float(steps * step) for steps in draws[0].values.tolist()]
            return MeasuredValues(
                cost=pipeline.cost,
                question=question,
                values=np.array(values),
                detail=Detail(
                    promise=promise._replace(sensitivity=promise.sensitivity * step),
                    mechanisms=(MechanismUsed.of(pipeline),),
                    measured_by=replace(error, grid=error.grid * step),
                    rounding=0.0,
                ),
            )
        if question.by is None:
            return pipeline.build(draws[0], question)
        releases = [
            pipeline.build(draw, replace(question, group=group))
            for group, draw in zip(self.groups, draws, strict=True)
        ]
        costs = [release.cost for release in releases]
        cost = pipeline.cost_of_groups(costs, question.max_groups)
        return by_group(question, releases, cost.with_delta(question.delta), self.cost)


# --------------------------------------------------------------------------------------------------


@overload
def top_k(
    table: Ungrouped,
    *,
    unit: str | None = None,
    item: str | None = None,
    k: int,
    epsilon: Rational,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> MeasuredItems: ...
@overload
def top_k(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    k: int,
    epsilon: Rational,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> ReleasesByGroup: ...
@overload
def top_k(
    table: CountsByGroup,
    *,
    k: int,
    epsilon: Rational,
    delta: Rational = 0,
    method: str = "best",
    split: Rational | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> ReleasesByGroup: ...
@public
@errors_without_answers
def top_k(
    table: AnyTable,
    *,
    unit: str | None = None,
    item: str | None = None,
    k: int,
    epsilon: Rational,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str | None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> Answer:
    """The k items with the most distinct units, or with the largest sums, with estimates.

    All of it costs ε. With `by` the answer is a mapping from group to release.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales",
        or the counts that `dpgap.counts` returned, to count once and ask several times.
    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    item
        The column whose values are counted.
    k
        How many items to find.
    epsilon
        The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
    domain
        The public items: a list, a range, a file of items, "items.parquet:column", in a database
        also "table:column", or a frame of one column; without it, all items that occur count
        (needs `delta` and `max_items`). The list must not be read from the private table.
    delta
        Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
    max_items
        The most items that a unit counts for; if it has more, this many are drawn at random. A
        smaller number means less noise, but lower counts if units have more items. With `by` it is
        the most pairs of group and item.
    by
        The column of the groups: each group gets an answer.
    groups
        The public groups, in the order of the answer: a list.
    max_groups
        The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each unit
        counts in one group only, drawn at random. More than one divides ε among them.
    sum
        The column whose amounts are added up, instead of counting units.
    at_most
        With `sum`: the most that a unit adds to a sum. The noise grows with it.
    at_least
        With `sum`: the least that a unit adds to a sum, 0 or below.
    step
        With `sum`: what each row's amount is rounded to.
    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    method
        "best", the default: it chooses the route; "joint": as a set; "ranked": ranked, with gaps;
        "paper": as in the paper; "histogram": all items measured at once, for `max_items` only.
    split
        The share of ε for selecting. Without it the method chooses.
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are; with twice the noise.
    encoding
        How the text of a CSV file is encoded, unless it is UTF-8: "latin-1", "cp1252" or "utf-16".
        If you state one, even "utf-8", a field that cannot be decoded is a missing value.
        Otherwise such a file is refused.
    decimal
        The decimal mark of numbers in the text of a file: "." or ",". With ",", 1.234,56 and
        1 234,56 are numbers. A sum over a file with semicolons needs it; else the default is ".".
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for the rows as they are now if the same question was asked before.
        Otherwise the paid answer is shown again, and nothing is charged, if this session or the
        ledger has it. A ledger knows files and addresses; a frame has no name, so only a session
        knows its questions.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> items = ["fig", "pea", "oat"]
    >>> best = dpgap.top_k(sold, unit="who", item="what", domain=items, k=1, epsilon=1)
    >>> best.labels, best.interval(0.95).shape
    (('fig',), (1, 2))
    >>> dpgap.top_k(sold, unit="row", item="what", k=1, epsilon=1, delta=1e-6).labels
    ('fig',)
    """
    question = read_question("top-k", k=k, epsilon=epsilon, delta=delta, method=method, split=split)
    counting = Counting(
        unit=unit,
        item=item,
        domain=domain,
        max_items=max_items,
        by=by,
        groups=groups,
        max_groups=max_groups,
        sum=sum,
        at_most=at_most,
        at_least=at_least,
        step=step,
        where=where,
        neighbours=neighbours,
        encoding=encoding,
        decimal=decimal,
    )
    return cast(Answer, ask(question, table, counting, account, fresh))


@overload
def above(
    table: Ungrouped,
    *,
    unit: str | None = None,
    item: str | None = None,
    threshold: Rational,
    epsilon: Rational,
    k: int | None = None,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    adaptive: bool = True,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> MeasuredItems: ...
@overload
def above(
    table: Table,
    *,
    unit: str | None = None,
    item: str | None = None,
    threshold: Rational,
    epsilon: Rational,
    k: int | None = None,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    adaptive: bool = True,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> ReleasesByGroup: ...
@overload
def above(
    table: CountsByGroup,
    *,
    threshold: Rational,
    epsilon: Rational,
    k: int | None = None,
    delta: Rational = 0,
    adaptive: bool = True,
    method: str = "best",
    split: Rational | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> ReleasesByGroup: ...
@public
@errors_without_answers
def above(
    table: AnyTable,
    *,
    unit: str | None = None,
    item: str | None = None,
    threshold: Rational,
    epsilon: Rational,
    k: int | None = None,
    domain: "DomainLike | None" = None,
    delta: Rational = 0,
    max_items: int | None = None,
    by: str | None = None,
    groups: Iterable[object] | None = None,
    max_groups: int | None = None,
    sum: str | None = None,
    at_most: Rational | None = None,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    adaptive: bool = True,
    method: str = "best",
    split: Rational | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> Answer:
    """Items with at least `threshold` distinct units, or with such a sum, and their estimates.

    The largest estimate comes first. Without `max_items`, items are asked in a fresh secure random
    order until the budget is used up; about k of them are found. With it, all items may be found.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    item
        The column whose values are counted.
    threshold
        The count, or the sum, that an item must have.
    epsilon
        The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
    k
        How many items to find. Above a threshold: for how many ε pays at the full price; with
        `max_items` it may be left out, and all items above are shown.
    domain
        The public items: a list, a range, a file of items, "items.parquet:column", in a database
        also "table:column", or a frame of one column; without it, all items that occur count
        (needs `delta` and `max_items`). The list must not be read from the private table.
    delta
        Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
    max_items
        The most items that a unit counts for; if it has more, this many are drawn at random. A
        smaller number means less noise, but lower counts if units have more items. With `by` it is
        the most pairs of group and item.
    by
        The column of the groups: each group gets an answer.
    groups
        The public groups, in the order of the answer: a list.
    max_groups
        The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each unit
        counts in one group only, drawn at random. More than one divides ε among them.
    sum
        The column whose amounts are added up, instead of counting units.
    at_most
        With `sum`: the most that a unit adds to a sum. The noise grows with it.
    at_least
        With `sum`: the least that a unit adds to a sum, 0 or below.
    step
        With `sum`: what each row's amount is rounded to.
    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    adaptive
        Whether to pay less for items far above the threshold, so that more than k may be found.
    method
        "best", the default: it chooses the route; "paper": as in the paper; "histogram": all items
        measured at once, for `max_items` only.
    split
        The share of ε for selecting. Without it the method chooses.
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are; with twice the noise.
    encoding
        How the text of a CSV file is encoded, unless it is UTF-8: "latin-1", "cp1252" or "utf-16".
        If you state one, even "utf-8", a field that cannot be decoded is a missing value.
        Otherwise such a file is refused.
    decimal
        The decimal mark of numbers in the text of a file: "." or ",". With ",", 1.234,56 and
        1 234,56 are numbers. A sum over a file with semicolons needs it; else the default is ".".
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for the rows as they are now if the same question was asked before.
        Otherwise the paid answer is shown again, and nothing is charged, if this session or the
        ledger has it. A ledger knows files and addresses; a frame has no name, so only a session
        knows its questions.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> options = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"]}
    >>> dpgap.above(sold, threshold=450, k=1, epsilon=10, **options).labels
    ('fig',)
    """
    question = read_question(
        "above",
        k=k,
        threshold=threshold,
        epsilon=epsilon,
        delta=delta,
        adaptive=adaptive,
        method=method,
        split=split,
        decimal=_decimal_of(table, decimal),
    )
    counting = Counting(
        unit=unit,
        item=item,
        domain=domain,
        max_items=max_items,
        by=by,
        groups=groups,
        max_groups=max_groups,
        sum=sum,
        at_most=at_most,
        at_least=at_least,
        step=step,
        where=where,
        neighbours=neighbours,
        encoding=encoding,
        decimal=decimal,
    )
    return cast(Answer, ask(question, table, counting, account, fresh))


@public
@errors_without_answers
def count(
    table: Table,
    *,
    unit: str | None = None,
    epsilon: Rational,
    where: str | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> MeasuredValues:
    """How many distinct units a table has, with an interval: "of how many?".

    With a filter, a unit counts if it has a row that the filter keeps.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    epsilon
        The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are; with twice the noise.
    encoding
        How the text of a CSV file is encoded, unless it is UTF-8: "latin-1", "cp1252" or "utf-16".
        If you state one, even "utf-8", a field that cannot be decoded is a missing value.
        Otherwise such a file is refused.
    decimal
        The decimal mark of numbers in the text of a file: "." or ",". With ",", 1.234,56 and
        1 234,56 are numbers. A sum over a file with semicolons needs it; else the default is ".".
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for the rows as they are now if the same question was asked before.
        Otherwise the paid answer is shown again, and nothing is charged, if this session or the
        ledger has it. A ledger knows files and addresses; a frame has no name, so only a session
        knows its questions.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, 3] * 100, "what": ["fig", "pea"] * 200})
    >>> release = dpgap.count(sold, unit="who", epsilon=1000)
    >>> release.estimate, release.interval().tolist()
    (3.0, [3.0, 3.0])
    """
    question = read_question("count", epsilon=epsilon)
    counting = Counting(
        unit=unit,
        where=where,
        neighbours=neighbours,
        encoding=encoding,
        decimal=decimal,
    )
    return cast(MeasuredValues, ask(question, table, counting, account, fresh))


@public
@errors_without_answers
def total(
    table: Table,
    *,
    unit: str | None = None,
    sum: str,
    at_most: Rational,
    epsilon: Rational,
    at_least: Rational = 0,
    step: Rational = "0.01",
    where: str | None = None,
    neighbours: str = "add-or-remove",
    encoding: str | None = None,
    decimal: str | None = None,
    account: Account | None = None,
    fresh: bool = False,
) -> MeasuredValues:
    """The total of a column, with an interval. What each unit adds is cut off at public ends.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    sum
        The column whose amounts are added up.
    at_most
        The most that a unit adds to the total. The noise grows with it.
    epsilon
        The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
    at_least
        The least that a unit adds to the total, 0 or below.
    step
        What each row's amount is rounded to.
    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are; with twice the noise.
    encoding
        How the text of a CSV file is encoded, unless it is UTF-8: "latin-1", "cp1252" or "utf-16".
        If you state one, even "utf-8", a field that cannot be decoded is a missing value.
        Otherwise such a file is refused.
    decimal
        The decimal mark of numbers in the text of a file: "." or ",". With ",", 1.234,56 and
        1 234,56 are numbers. A sum over a file with semicolons needs it; else the default is ".".
    account
        The account that is charged, such as `dpgap.Ledger(url).account("sales")`.
    fresh
        Whether to pay for the rows as they are now if the same question was asked before.
        Otherwise the paid answer is shown again, and nothing is charged, if this session or the
        ledger has it. A ledger knows files and addresses; a frame has no name, so only a session
        knows its questions.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, 3], "paid": [20, 40.5, 8, -3]})
    >>> release = dpgap.total(sold, unit="who", sum="paid", at_most=50, epsilon=10**6)
    >>> release.estimate, release.interval().tolist()
    (58.0, [58.0, 58.0])
    """
    question = read_question("total", epsilon=epsilon)
    counting = Counting(
        unit=unit,
        sum=sum,
        at_most=at_most,
        at_least=at_least,
        step=step,
        where=where,
        neighbours=neighbours,
        encoding=encoding,
        decimal=decimal,
    )
    return cast(MeasuredValues, ask(question, table, counting, account, fresh))


def _decimal_of(table: AnyTable, decimal: str | None) -> str | None:
    """The decimal mark of a table; counts have one already."""
    if isinstance(table, Counted) and table.origin is not None:
        return table.origin.decimal
    return decimal


def refuse_counts_of_all(question: Question, table: Any) -> None:
    """Refuse counts of items if a question is about all units of a table."""
    if isinstance(table, Counted) and question.is_of_all:
        raise TypeError(
            "table must be the table itself: counts of items do not tell how many units there "
            "are, or what they add up to"
        )


@public
class PromiseWarning(UserWarning):
    """An ε above 20, or a δ above 1/1,000: it says so before anything is charged.

    >>> import warnings, dpgap
    >>> warnings.simplefilter("ignore", dpgap.PromiseWarning)
    """


def warn_of_weak_promise(question: Question) -> None:
    """Warn of an ε or a δ that promises little."""
    sentences = " ".join(weak_promises(question.epsilon, question.delta))
    if sentences:
        warnings.warn(sentences, PromiseWarning, stacklevel=steps_outside())


def ask(
    question: Question,
    table: AnyTable,
    counting: Counting,
    account: Account | None,
    fresh: bool,
) -> Answer | MeasuredValues:
    """Count the table if needed, pay and answer."""
    refuse_counts_of_all(question, table)
    keywords = counting.stated()
    if isinstance(table, Counted) and keywords:
        raise TypeError(
            f"{', '.join(keywords)} must be left out: you stated it when you called dpgap.counts"
        )
    warn_of_weak_promise(question)
    return answer(question, table, account, fresh, counting)
