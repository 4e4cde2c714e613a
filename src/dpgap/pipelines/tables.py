"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Annotated, Any, TypedDict, TypeVar, Unpack, cast, overload

from dpgap._package import public
from dpgap.budget.account import Account, AlreadyCharged, Archive, KeyUsed, Request, pay
from dpgap.data.counts import Table, counts, units_of
from dpgap.data.domain import kind_of_label, text_of
from dpgap.data.private_counts import CountsByGroup, PrivateCounts, errors_without_answers
from dpgap.estimates.certificates import Evidence
from dpgap.exact.parameters import Rational, boolean
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.sparse_vector import Stream
from dpgap.pipelines.arrays import MeasuredAbove, MeasuredTopK
from dpgap.pipelines.routes import Routed, histogram_route, unknown_route
from dpgap.printable import DocumentError
from dpgap.question import (
    HISTOGRAM,
    Above,
    CountOptions,
    Keyword,
    Neighbours,
    Question,
    TopK,
    read_wanted,
    require_options,
    stated_counting,
    takes,
)
from dpgap.releases.by_group import ReleasesByGroup, UnitCount
from dpgap.releases.document import read_archived
from dpgap.releases.drawn import Measuring, ReadOff
from dpgap.releases.release import Measured, MechanismUsed, TableRelease

# --------------------------------------------------------------------------------------------------
# A question of private counts: what answers it, what is paid, and the answer with its guarantee.
#
# What answers a question depends on its parameters and on facts that are public: what one unit can
# change, how many items it reaches, whether the items are known. With groups, every group is asked
# the same, and all of it is one release.


Counted = PrivateCounts | CountsByGroup
Answer = TableRelease | ReleasesByGroup
Pipeline = MeasuredTopK | MeasuredAbove | Routed
R = TypeVar("R", bound="TableRelease | ReleasesByGroup | UnitCount")


def pipeline_of(asked: Question, answers: PrivateCounts) -> Pipeline:
    """What answers a question: of several ways, the one with the least error to expect.

    The groups that a unit counts in share ε. What is read off a histogram of all groups together
    needs no sharing.
    """
    if answers.unknown:
        return Routed(unknown_route(asked, answers), asked.method, asked.split)
    if answers.reach is None:
        if asked.method == HISTOGRAM:
            raise ValueError("method='histogram' needs max_items: how many a unit counts for")
        if asked.k is None:
            raise ValueError("k must be given, unless max_items says how many a unit counts for")
        return _select_then_measure(asked, answers)
    read_off = Routed(histogram_route(asked, answers), asked.method, asked.split)
    if asked.method == HISTOGRAM or asked.k is None:
        return read_off
    own = _select_then_measure(asked, answers)
    if asked.method != "best" or asked.split is not None:
        return own
    return read_off if read_off.route.expectation().variance <= _variance(own, asked.k) else own


def _select_then_measure(asked: Question, answers: PrivateCounts) -> Pipeline:
    facts: dict[str, Any] = {
        "monotonic": answers.monotonic,
        "sensitivity": answers.sensitivity,
        "method": asked.method,
        "split": asked.split,
    }
    k, epsilon = asked.k or 1, asked.epsilon_of_a_group
    if asked.threshold is None:
        return MeasuredTopK(k, epsilon, **facts)
    line = asked.threshold / answers.step
    return MeasuredAbove(line, k, epsilon, adaptive=asked.adaptive, **facts)


def _variance(pipeline: Pipeline, k: int) -> float:
    """What each estimate is off by at best, squared."""
    if isinstance(pipeline, MeasuredTopK):
        return min(route.expectation().variance for route in pipeline.routes)
    if isinstance(pipeline, MeasuredAbove):
        return pipeline.measurement.variance(k)
    return pipeline.route.expectation().variance


def answer(wanted: Question, answers: Counted, account: Account | None, fresh: bool) -> Answer:
    """Pay for the answer and draw it; or show what was paid for before."""
    asked = wanted.about(_origin(answers))
    _require_known(asked)
    if asked.by is not None and not isinstance(answers, CountsByGroup):
        raise TypeError(
            "table must be the answers of all groups: one question is about all of them"
        )
    by_group = dict(answers) if isinstance(answers, CountsByGroup) else {None: answers}
    counted = list(by_group.values())
    items = None if counted[0].unknown else len(counted[0])
    if asked.kind == "top-k" and items is not None and (asked.k or 1) > items:
        raise ValueError(
            f"k must be at most the number of items in the domain, {items}, not {asked.k}"
        )
    pipeline = pipeline_of(asked, counted[0])
    question = replace(asked, items=items, split=pipeline.split)
    kind: type[Answer] = TableRelease if question.by is None else ReleasesByGroup
    paid = _paid_before(question, account, fresh, kind)
    if paid is not None and _is_named_as_asked(paid, by_group):
        return paid
    with ExitStack() as resources:
        prepared = [_prepare(pipeline, each, resources) for each in counted]
        answering = Answering(question, pipeline, tuple(by_group))

        def draw() -> Answer:
            return answering.build([pipeline.draw_paid(each) for each in prepared])

        return _pay(question, account, draw, kind)


def counted(
    wanted: Question, answers: PrivateCounts, account: Account | None, fresh: bool
) -> UnitCount:
    """Pay for the count of all units and draw it; or show what was paid for before."""
    question = replace(wanted.about(_origin(answers)), items=len(answers))
    if question.neighbours is Neighbours.REPLACE:
        raise ValueError(
            "neighbours must be 'add-or-remove' for a count: where a unit is replaced, how many "
            "there are stays the same, and is public"
        )
    histogram = NoisyHistogram(question.epsilon, sensitivity=answers.sensitivity)
    paid = _paid_before(question, account, fresh, UnitCount)
    if paid is not None:
        return paid
    candidates = histogram.prepare(answers, None)
    counting = Counting(question, histogram)
    return _pay(
        question, account, lambda: counting.build(histogram.draw_paid(candidates)), UnitCount
    )


def _require_known(asked: Question) -> None:
    """A δ is for unknown items, and they need one."""
    if asked.unknown and not asked.delta:
        raise ValueError(
            "delta must be above 0 where domain is None, such as 1e-9: the chance that an item of "
            "one unit alone is shown. Or state the public items as domain"
        )
    if asked.unknown and asked.method not in ("best", HISTOGRAM):
        raise ValueError(
            f"method must be 'best' or 'histogram' where domain is None, not {asked.method!r}: "
            "other methods choose among items that everybody knows"
        )
    if asked.delta and not asked.unknown:
        raise ValueError("delta must be 0 where a domain is stated: nothing needs a δ there")


def _prepare(pipeline: Pipeline, answers: PrivateCounts, resources: ExitStack) -> Any:
    """The answers as the pipeline takes them; refused before anything is charged."""
    if not isinstance(pipeline, MeasuredAbove):
        return pipeline.prepare(answers)
    chunks = resources.enter_context(closing(answers.shuffled()))
    return pipeline.prepare(Stream.on_grid(answers, chunks, pipeline.selection.grid))


@dataclass(frozen=True, slots=True)
class Answering:
    """A question and what answers it; all of it is public."""

    question: Question
    pipeline: Pipeline
    groups: tuple[Any, ...]
    """None alone, where there are no groups."""

    def build(self, drawn: Sequence[Measuring[Any]]) -> Answer:
        """The answer, largest estimates first; one for each group where there are groups."""
        question = self.question
        if question.by is None:
            return of_table(question, self.pipeline.build(drawn[0]))
        releases = [
            of_table(replace(question, group=group), self.pipeline.build(each))
            for group, each in zip(self.groups, drawn, strict=True)
        ]
        # A unit counts in so many groups at most: at worst in those that cost the most.
        parts = sorted((release.spent for release in releases), reverse=True)
        parts = parts[: question.groups_of_a_unit]
        spent = min(sum(parts, Fraction(0)), question.epsilon)
        return ReleasesByGroup.of(question, releases, spent)


@dataclass(frozen=True, slots=True)
class Counting:
    """The question how many units there are, and what answers it."""

    question: Question
    histogram: NoisyHistogram

    def build(self, drawn: ReadOff) -> UnitCount:
        """The answer."""
        return UnitCount(
            values=self.histogram.lengths(drawn.values),
            epsilon=self.question.epsilon,
            promise=self.histogram.promise,
            error=self.histogram.error(),
            rounding=0.0,
            mechanisms=(MechanismUsed.of(self.histogram),),
            question=self.question,
        )


def _pay(question: Question, account: Account | None, draw: Callable[[], R], kind: type[R]) -> R:
    """Charge, draw, and archive the answer; a request that was charged before shows its answer."""
    try:
        return pay(account, _request(question), draw)
    except AlreadyCharged as before:
        if before.answered.document is None:
            raise
        again = read_archived(before.answered.document)
        if not isinstance(again, kind) or not question.is_same_as(again.question):
            raise KeyUsed(
                "this request key was used for another request: use a key of its own for each"
            ) from None
        return cast(R, again.again())


def _request(question: Question) -> Request:
    """What a budget is asked to pay for."""
    facts, identity = question.facts(), question.identity
    return Request(question.epsilon, question.purpose, question.delta, facts, identity)


def _paid_before(
    question: Question, account: Account | None, fresh: bool, kind: type[R]
) -> R | None:
    """The newest answer that the account has paid for, if it was asked the same before.

    Whether there is one depends on the question and on the ledger, never on the table.
    """
    if boolean("fresh", fresh) or question.identity is None or not isinstance(account, Archive):
        return None
    document = account.paid(question.identity)
    if document is None:
        return None
    release = read_archived(document)
    if not isinstance(release, kind):
        raise DocumentError("the archive's document of this question is of another kind")
    return cast(R, release.again())


def _is_named_as_asked(paid: Answer, by_group: Mapping[Any, PrivateCounts]) -> bool:
    """Whether items and groups are called as was asked: older hashes took 1 and "1" for the same.

    Items that nobody listed are private, and not looked at.
    """
    counts, by = next(iter(by_group.values())), isinstance(paid, ReleasesByGroup)
    answers = paid.answers if isinstance(paid, ReleasesByGroup) else (paid,)
    if by and {_named(each.question.group) for each in answers} != {*map(_named, by_group)}:
        return False
    shown = [label for each in answers for label in each.labels or ()]
    if counts.unknown or counts.labels is None:
        return True
    if isinstance(counts.labels, range):
        return all(kind_of_label(label) == "n" for label in shown)
    return {*map(_named, shown)} <= {*map(_named, counts.labels)}


def _named(label: Any) -> tuple[str, str]:
    return kind_of_label(label), text_of(label)


def _origin(answers: Counted) -> Question:
    if answers.origin is None:
        raise TypeError("table must be answers that `dpgap.counts` made, with their origin")
    return answers.origin


def of_table(question: Question, release: Measured) -> TableRelease:
    """The answer to a question: the largest estimate first, in units of what is counted.

    Sums are added up in whole steps, such as cents, of which mechanisms know nothing. So every
    number that was released, and what it may be off by, is multiplied by the step. Gaps are one
    fewer where every item was selected: then they stay in the order of the selection.
    """
    order, step = release.order, question.step
    width, places = float(step), order.tolist()
    values = {each.name: getattr(release, each.name) for each in fields(release)}
    gaps, errors = release.gaps, [replace(each, grid=each.grid * step) for each in release.errors]
    if release.labels is not None:
        values["labels"] = tuple(release.labels[place] for place in places)
    if (evidence := release.evidence) is not None:
        leads = tuple(lead * width for lead in evidence.leads)
        scaled = Evidence(leads, tuple(scale * step for scale in evidence.scales))
        values["evidence"] = scaled.reordered(places)
    if (measured_by := release.measured_by) is not None:
        values["measured_by"] = replace(measured_by, grid=measured_by.grid * step)
    sensitivity = release.promise.sensitivity * step
    return TableRelease(
        **values
        | {
            "indices": release.indices[order],
            "gaps": (gaps[order] if gaps.size == order.size else gaps) * width,
            "measurements": release.measurements[order] * width,
            "estimates": release.estimates[order] * width,
            "variances": release.variances[order] * width**2,
            "errors": tuple(errors if len(errors) < 2 else (errors[place] for place in places)),
            "looked": tuple((rank, value * width) for rank, value in release.looked),
            "lead": None if release.lead is None else release.lead * width,
            "rounding": release.rounding * width,
            "promise": release.promise._replace(sensitivity=sensitivity, delta=question.delta),
            "question": question,
        }
    )


# --------------------------------------------------------------------------------------------------


class Paying(TypedDict, total=False):
    """Who pays.

    account
        What the release is charged to, such as `dpgap.Ledger(url).account("sales")`.
    """

    account: Annotated[Account | None, Keyword()]


class TableTopK(CountOptions, TopK, Paying, total=False):
    """What the largest of a table can be asked with."""


class TableAbove(CountOptions, Above, Paying, total=False):
    """What those above a threshold can be asked with."""


@overload
def top_k(
    table: "Table | PrivateCounts", *, by: None = None, **asked: Unpack[TableTopK]
) -> TableRelease: ...
@overload
def top_k(
    table: CountsByGroup, *, by: None = None, **asked: Unpack[TableTopK]
) -> ReleasesByGroup: ...
@overload
def top_k(table: Table, *, by: str, **asked: Unpack[TableTopK]) -> ReleasesByGroup: ...
@overload
def top_k(
    table: "Table | Counted", *, by: str | None = None, **asked: Unpack[TableTopK]
) -> Answer: ...
@public
@errors_without_answers
@takes(TableTopK, Paying)
def top_k(table: "Table | Counted", *, by: str | None = None, **asked: Unpack[TableTopK]) -> Answer:
    """The k items with the most distinct units, or with the largest sums, with estimates.

    All of it costs ε. With `by` the answer is a mapping from group to release.

    Parameters
    ----------
    table
        A frame (pandas, Polars, PyArrow, DuckDB, PySpark, Ibis), the path of a file (Parquet, CSV,
        JSON lines, FIMI .dat), the address of a table such as "postgresql://…/db?table=sales",
        or what `dpgap.counts` gave, to count once and ask several times.
    by
        The column of the groups: the top k of every group is found.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> items = ["fig", "pea", "oat"]
    >>> best = dpgap.top_k(sold, unit="who", item="what", domain=items, k=1, epsilon=1)
    >>> best.labels, best.interval(0.95).shape
    (('fig',), (1, 2))
    >>> dpgap.top_k(sold, unit="row", item="what", k=1, epsilon=1, delta=1e-9).labels
    ('fig',)
    """
    require_options("top_k", asked, TableTopK)
    return cast(Answer, ask("top-k", table, {"by": by, **asked}))


@overload
def above(
    table: "Table | PrivateCounts", *, by: None = None, **asked: Unpack[TableAbove]
) -> TableRelease: ...
@overload
def above(
    table: CountsByGroup, *, by: None = None, **asked: Unpack[TableAbove]
) -> ReleasesByGroup: ...
@overload
def above(table: Table, *, by: str, **asked: Unpack[TableAbove]) -> ReleasesByGroup: ...
@overload
def above(
    table: "Table | Counted", *, by: str | None = None, **asked: Unpack[TableAbove]
) -> Answer: ...
@public
@errors_without_answers
@takes(TableAbove, Paying)
def above(
    table: "Table | Counted", *, by: str | None = None, **asked: Unpack[TableAbove]
) -> Answer:
    """Items with at least `threshold` distinct units, or such a sum, with estimates.

    They are shown largest estimate first. Without `max_items`, items are asked in a fresh secure
    random order until the budget is used; about k of them are found. With it, all of them may be.

    Parameters
    ----------
    table
        As for `dpgap.top_k`.
    by
        The column of the groups: an answer is found for each.
    {options}

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> options = {"unit": "who", "item": "what", "domain": ["fig", "pea", "oat"]}
    >>> dpgap.above(sold, threshold=450, k=1, epsilon=10, **options).labels
    ('fig',)
    """
    require_options("above", asked, TableAbove)
    return cast(Answer, ask("above", table, {"by": by, **asked}))


@public
@errors_without_answers
def count(
    table: Table,
    *,
    unit: str | None = None,
    epsilon: Rational,
    where: str | None = None,
    neighbours: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    account: Account | None = None,
    fresh: bool = False,
) -> UnitCount:
    """How many distinct units a table has, with an interval: "of how many?".

    Parameters
    ----------
    table, unit, neighbours, encoding, decimal, account, fresh
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
    stated = {"epsilon": epsilon, "unit": unit, "where": where, "neighbours": neighbours}
    stated |= {"encoding": encoding, "decimal": decimal}
    return cast(UnitCount, ask("count", table, {**stated, "account": account, "fresh": fresh}))


def ask(kind: str, table: "Table | Counted", stated: Mapping[str, Any]) -> Answer | UnitCount:
    """Read what is wanted, count the table unless that is done, pay and answer."""
    wanted, counting = read_wanted(kind, stated), stated_counting(stated)
    paying = stated.get("account"), stated.get("fresh", False)
    if isinstance(table, Counted):
        if kind == "count":
            raise TypeError(
                "table must be the table itself: counts of items do not tell how many units"
            )
        if counting:
            raise TypeError(
                f"{', '.join(counting)} must be left out: it was stated when these were counted"
            )
        return answer(wanted, table, *paying)
    if kind == "count":
        with closing(units_of(table, **counting)) as units:
            return counted(wanted, units, *paying)
    with closing(counts(table, **counting)) as answers:
        return answer(wanted, answers, *paying)
