"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack, cast, overload

import numpy as np

from dpgap._package import public
from dpgap.budget.account import Account, AlreadyCharged, Archive, KeyUsed, Request, pay
from dpgap.budget.cost import Cost
from dpgap.data.counts import Table, counts, units_of
from dpgap.data.domain import steps_outside
from dpgap.data.private_counts import CountsByGroup, PrivateCounts, errors_without_answers
from dpgap.exact.parameters import Rational, boolean
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.pipelines.arrays import MeasuredAbove, Paying
from dpgap.pipelines.choose import Pipeline, PublicFacts, choose
from dpgap.question import (
    HISTOGRAM,
    Above,
    Amounts,
    CountOptions,
    Neighbours,
    OfAll,
    Question,
    TopK,
    read_wanted,
    require_options,
    stated_counting,
    takes,
    weak_promises,
)
from dpgap.releases.document import read_archived
from dpgap.releases.release import MechanismUsed, ReleasesByGroup, TableRelease, Total, UnitCount

# --------------------------------------------------------------------------------------------------
# A question about private counts: the pipeline, the payment, and the answer with its guarantee.
#
# With groups, every group gets the same question, and all answers are one release.


Counted = PrivateCounts | CountsByGroup
Ungrouped: TypeAlias = "Table | PrivateCounts"
AnyTable: TypeAlias = "Table | Counted"
Answer = TableRelease | ReleasesByGroup
_OF_ALL: dict[str, type[Total]] = {"count": UnitCount, "total": Total}


def answer(
    wanted: Question,
    answers: AnyTable,
    account: Account | None,
    fresh: bool,
    counting: Mapping[str, Any] | None = None,
) -> Answer | Total:
    """Count the table if needed. Pay for the answer and draw it; or return the paid answer."""
    if not isinstance(answers, Counted):
        count_table: Any = units_of if wanted.is_of_all else counts
        with closing(count_table(answers, **counting or {})) as made:
            return answer(wanted, made, account, fresh)
    if answers.origin is None:
        raise TypeError("table must be what `dpgap.counts` returns, not other answers")
    answering = Answering.of(wanted.about(answers.origin), answers)
    return paid_answer(answering, answers, account, boolean("fresh", fresh))


def paid_answer(
    answering: "Answering", answers: Counted, account: Account | None, fresh: bool
) -> Answer | Total:
    """Pay for the answer and draw it; or return the paid answer.

    Whether it was paid for depends on the question and on the ledger, never on the table.
    """
    question, pipeline = answering.question, answering.pipeline
    draw: Any = pipeline.draw_paid
    request = Request(answering.cost, question.purpose, question.facts(), question.identity)
    try:
        if isinstance(account, Archive):
            document = account.free_answer(request, fresh)
            if document is not None:
                return cast(Answer | Total, read_archived(document).again())
        with ExitStack() as resources:
            prepared: list[Any] = []
            for each in answers.values() if isinstance(answers, CountsByGroup) else [answers]:
                if isinstance(pipeline, MeasuredAbove):
                    chunks = resources.enter_context(closing(each.shuffled()))
                    prepared.append(pipeline.prepare(each, None, chunks))
                else:
                    prepared.append(pipeline.prepare(each, None))
            return pay(account, request, lambda: answering.build([*map(draw, prepared)]))
    except AlreadyCharged as before:
        if before.answered.document is None:
            raise
        again = read_archived(before.answered.document)
        asked = getattr(again, "question", None)  # that of an array has none
        if asked is None or not question.is_same_as(asked):
            raise KeyUsed(
                "this request key was used for another request: use a new key for each"
            ) from None
        return cast(Answer | Total, again.again())


@dataclass(frozen=True, slots=True)
class Answering:
    """A question and the pipeline that answers it; both are public."""

    question: Question
    pipeline: Pipeline
    groups: tuple[Any, ...]
    """The groups; (None,) if there are none."""

    @classmethod
    def of(cls, asked: Question, answers: Counted) -> "Answering":
        """Choose the pipeline for a question about these counts, or refuse the question."""
        if asked.is_of_all:
            if asked.kind == "count" and asked.neighbours is Neighbours.REPLACE:
                raise ValueError(
                    "neighbours must be 'add-or-remove' for a count: if a unit is replaced, the "
                    "number of units stays the same, and is public"
                )
            facts = PublicFacts.of(answers)
            return cls(replace(asked, items=facts.items), choose(asked, facts).pipeline, (None,))
        if asked.unknown and not asked.delta:
            raise ValueError(
                "delta must be above 0 if domain is None, such as 1e-6: it is the chance that an "
                "item of only one unit is shown. Or state the public items as domain"
            )
        if asked.unknown and asked.method not in ("best", HISTOGRAM):
            raise ValueError(
                f"method must be 'best' or 'histogram' if domain is None, not {asked.method!r}: "
                "other methods need a public domain"
            )
        if asked.delta and not asked.unknown:
            raise ValueError("delta must be 0 if a domain is stated: then no item needs a δ")
        if asked.by is not None and not isinstance(answers, CountsByGroup):
            raise TypeError(
                "table must be the answers of all groups: one question is about all of them"
            )
        groups = tuple(answers) if isinstance(answers, CountsByGroup) else (None,)
        facts = PublicFacts.of(answers)
        pipeline = choose(asked, facts).pipeline
        split = getattr(pipeline, "split", asked.split)
        return cls(replace(asked, items=facts.items, split=split), pipeline, groups)

    @property
    def cost(self) -> Cost:
        """The most that the answer costs: the groups that a unit counts in, together."""
        pipeline, question = self.pipeline, self.question
        if isinstance(pipeline, NoisyHistogram):
            return pipeline.cost
        groups = question.max_groups
        return pipeline.cost_of_groups([pipeline.cost] * groups, groups).with_delta(question.delta)

    def build(self, drawn: Sequence[Any]) -> Answer | Total:
        """The answer, largest estimates first; one for each group where there are groups."""
        question, pipeline = self.question, self.pipeline
        if isinstance(pipeline, NoisyHistogram):
            step, promise, error = question.step, pipeline.promise, pipeline.error()
            return _OF_ALL[question.kind](
                values=np.array([float(steps * step) for steps in drawn[0].values.tolist()]),
                cost=pipeline.cost,
                promise=promise._replace(sensitivity=promise.sensitivity * step),
                error=replace(error, grid=error.grid * step),
                rounding=0.0,
                mechanisms=(MechanismUsed.of(pipeline),),
                question=question,
            )
        if question.by is None:
            return cast(TableRelease, pipeline.build(drawn[0], question))
        releases = [
            cast(TableRelease, pipeline.build(each, replace(question, group=group)))
            for group, each in zip(self.groups, drawn, strict=True)
        ]
        cost = pipeline.cost_of_groups([each.cost for each in releases], question.max_groups)
        return ReleasesByGroup.of(question, releases, cost.with_delta(question.delta), self.cost)


# --------------------------------------------------------------------------------------------------


class TableTopK(CountOptions, TopK, Paying, total=False):
    """Options of `top_k`."""


class TableAbove(CountOptions, Above, Paying, total=False):
    """Options of `above`."""


class TableCount(OfAll, Paying, total=False):
    """Options of `count`."""


class TableTotal(Amounts, OfAll, Paying, total=False):
    """Options of `total`, in addition to `sum` and `at_most`."""


@overload
def top_k(table: Ungrouped, *, by: None = None, **asked: Unpack[TableTopK]) -> TableRelease: ...
@overload
def top_k(
    table: CountsByGroup, *, by: None = None, **asked: Unpack[TableTopK]
) -> ReleasesByGroup: ...
@overload
def top_k(table: Table, *, by: str, **asked: Unpack[TableTopK]) -> ReleasesByGroup: ...
@public
@errors_without_answers
@takes(TableTopK, Paying)
def top_k(table: AnyTable, *, by: str | None = None, **asked: Unpack[TableTopK]) -> Answer:
    """The k items with the most distinct units, or with the largest sums, with estimates.

    All of it costs ε. With `by` the answer is a mapping from group to release.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales",
        or the counts that `dpgap.counts` returned, to count once and ask several times.
    by
        The column of the groups: the top k of every group is found.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> items = ["fig", "pea", "oat"]
    >>> best = dpgap.top_k(sold, unit="who", item="what", domain=items, k=1, epsilon=1)
    >>> best.labels, best.interval(0.95).shape
    (('fig',), (1, 2))
    >>> dpgap.top_k(sold, unit="row", item="what", k=1, epsilon=1, delta=1e-6).labels
    ('fig',)
    """
    return cast(Answer, ask("top-k", TableTopK, table, asked, by=by))


@overload
def above(table: Ungrouped, *, by: None = None, **asked: Unpack[TableAbove]) -> TableRelease: ...
@overload
def above(
    table: CountsByGroup, *, by: None = None, **asked: Unpack[TableAbove]
) -> ReleasesByGroup: ...
@overload
def above(table: Table, *, by: str, **asked: Unpack[TableAbove]) -> ReleasesByGroup: ...
@public
@errors_without_answers
@takes(TableAbove, Paying)
def above(table: AnyTable, *, by: str | None = None, **asked: Unpack[TableAbove]) -> Answer:
    """Items with at least `threshold` distinct units, or with such a sum, and their estimates.

    The largest estimate comes first. Without `max_items`, items are asked in a fresh secure random
    order until the budget is used up; about k of them are found. With it, all items may be found.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    by
        The column of the groups: each group gets an answer.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> options = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"]}
    >>> dpgap.above(sold, threshold=450, k=1, epsilon=10, **options).labels
    ('fig',)
    """
    return cast(Answer, ask("above", TableAbove, table, asked, by=by))


@public
@errors_without_answers
@takes(TableCount, Paying)
def count(table: Table, **asked: Unpack[TableCount]) -> UnitCount:
    """How many distinct units a table has, with an interval: "of how many?".

    With a filter, a unit counts if it has a row that the filter keeps.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, 3] * 100, "what": ["fig", "pea"] * 200})
    >>> release = dpgap.count(sold, unit="who", epsilon=1000)
    >>> release.estimate, release.interval().tolist()
    (3.0, [3.0, 3.0])
    """
    return cast(UnitCount, ask("count", TableCount, table, asked))


@public
@errors_without_answers
@takes(TableTotal, Paying)
def total(table: Table, *, sum: str, at_most: Rational, **asked: Unpack[TableTotal]) -> Total:
    """The total of a column, with an interval. What each unit adds is cut off at public ends.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    sum
        The column whose amounts are added up.
    at_most
        The most that a unit adds to the total. The noise grows with it.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": [1, 1, 2, 3], "paid": [20, 40.5, 8, -3]})
    >>> release = dpgap.total(sold, unit="who", sum="paid", at_most=50, epsilon=10**6)
    >>> release.estimate, release.interval().tolist()
    (58.0, [58.0, 58.0])
    """
    return cast(Total, ask("total", TableTotal, table, asked, sum=sum, at_most=at_most))


def refuse_counts_of_all(wanted: Question, table: Any) -> None:
    """Refuse counts of items if a question is about all units of a table."""
    if isinstance(table, Counted) and wanted.is_of_all:
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


def warn_of_weak_promise(wanted: Question) -> None:
    """Warn of an ε or a δ that promises little."""
    sentences = " ".join(weak_promises(wanted.epsilon, wanted.delta))
    if sentences:
        warnings.warn(sentences, PromiseWarning, stacklevel=steps_outside())


def ask(
    kind: str, options: Any, table: AnyTable, asked: Mapping[str, Any], **named: Any
) -> Answer | Total:
    """Read the question, count the table if needed, pay and answer."""
    require_options(kind, asked, options)
    stated = {**named, **asked}
    decimal = table.origin.decimal if isinstance(table, Counted) and table.origin else "."
    wanted, counting = read_wanted(kind, {"decimal": decimal, **stated}), stated_counting(stated)
    refuse_counts_of_all(wanted, table)
    if isinstance(table, Counted) and counting:
        raise TypeError(
            f"{', '.join(counting)} must be left out: you stated it when you called dpgap.counts"
        )
    warn_of_weak_promise(wanted)
    return answer(wanted, table, stated.get("account"), stated.get("fresh", False), counting)
