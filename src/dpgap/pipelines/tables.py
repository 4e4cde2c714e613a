"""From a table to a release: count, select, measure, estimate, in one call.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> best = dpgap.top_k(sold, unit="who", item="what", domain=["fig", "pea", "oat"], k=1, epsilon=1)
>>> best.labels, best.interval(0.95).shape
(('fig',), (1, 2))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypedDict, TypeVar, cast

from dpgap._package import public
from dpgap.budget.account import Account, AlreadyCharged, Archive, KeyUsed, pay
from dpgap.data.counts import DomainLike, Table, counts, units_of
from dpgap.data.domain import kind_of_label, text_of
from dpgap.data.private_counts import CountsByGroup, PrivateCounts, errors_without_answers
from dpgap.estimates.certificates import Evidence
from dpgap.exact.parameters import (
    Rational,
    boolean,
    positive_integer,
    positive_rational,
    rational,
    share,
)
from dpgap.mechanisms.histogram import NoisyHistogram
from dpgap.mechanisms.sparse_vector import Stream
from dpgap.pipelines.arrays import ABOVE_METHODS, MeasuredAbove, MeasuredTopK, require_method
from dpgap.pipelines.routes import Routed, histogram_route, unknown_route
from dpgap.printable import DocumentError
from dpgap.releases.by_group import ReleasesByGroup, UnitCount
from dpgap.releases.document import read_archived
from dpgap.releases.drawn import Measuring, ReadOff
from dpgap.releases.plain import HISTOGRAM, METHODS
from dpgap.releases.questions import REPLACE, Origin, Question, TableRelease
from dpgap.releases.release import Measured, MechanismUsed

# --------------------------------------------------------------------------------------------------
# A question of private counts: what answers it, what is paid, and the answer with its guarantee.
#
# What answers a question depends on its parameters and on facts that are public: what one unit can
# change, how many items it reaches, whether the items are known. With groups, every group is asked
# the same, and all of it is one release.


Answer = TableRelease | ReleasesByGroup
Pipeline = MeasuredTopK | MeasuredAbove | Routed
R = TypeVar("R", bound="TableRelease | ReleasesByGroup | UnitCount")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of counts, in exact numbers."""

    kind: str
    k: int | None
    epsilon: Fraction
    delta: Fraction
    method: str
    split: Fraction | None
    threshold: Fraction | None = None
    adaptive: bool = False

    @classmethod
    def top_k(
        cls, k: int, epsilon: Rational, delta: Rational, method: str | None, split: Any
    ) -> "Asked":
        """The k largest."""
        methods = (*METHODS, HISTOGRAM)
        return cls(
            "top-k", positive_integer("k", k), *_checked(epsilon, delta, method, split, methods)
        )

    @classmethod
    def count(cls, epsilon: Rational) -> "Asked":
        """How many units there are."""
        return cls("count", None, *_checked(epsilon, 0, None, None, METHODS))

    @classmethod
    def above(
        cls,
        threshold: Rational,
        k: int | None,
        epsilon: Rational,
        delta: Rational,
        method: str | None,
        split: Any,
        adaptive: bool,
    ) -> "Asked":
        """Those above a threshold."""
        methods = (*ABOVE_METHODS, HISTOGRAM)
        return cls(
            "above",
            None if k is None else positive_integer("k", k),
            *_checked(epsilon, delta, method, split, methods),
            rational("threshold", threshold),
            boolean("adaptive", adaptive),
        )

    def pipeline(self, answers: PrivateCounts, parts: int) -> Pipeline:
        """What answers it: of several ways, the one with the least error to expect.

        A unit counts in at most so many `parts`, which share ε. What is read off a histogram of
        all parts together needs no sharing.
        """
        if answers.unknown:
            return Routed(unknown_route(self, answers, parts), self.method, self.split)
        if answers.reach is None:
            if self.method == HISTOGRAM:
                raise ValueError("method='histogram' needs max_items: how many a unit counts for")
            if self.k is None:
                raise ValueError(
                    "k must be given, unless max_items says how many a unit counts for"
                )
            return self._select_then_measure(answers, parts)
        read_off = Routed(histogram_route(self, answers), self.method, self.split)
        if self.method == HISTOGRAM or self.k is None:
            return read_off
        own = self._select_then_measure(answers, parts)
        if self.method != "best" or self.split is not None:
            return own
        return read_off if read_off.route.expectation().variance <= _variance(own, self.k) else own

    def _select_then_measure(self, answers: PrivateCounts, parts: int) -> Pipeline:
        facts: dict[str, Any] = {
            "monotonic": answers.monotonic,
            "sensitivity": answers.sensitivity,
            "method": self.method,
            "split": self.split,
        }
        k, epsilon = self.k or 1, self.epsilon / parts
        if self.threshold is None:
            return MeasuredTopK(k, epsilon, **facts)
        line = self.threshold / answers.step
        return MeasuredAbove(line, k, epsilon, adaptive=self.adaptive, **facts)


def _checked(
    epsilon: Rational, delta: Rational, method: str | None, split: Any, methods: Sequence[str]
) -> tuple[Fraction, Fraction, str, Fraction | None]:
    """ε, δ, the method and the split, as they are stated for any question."""
    chance = rational("delta", delta)
    if not 0 <= chance < 1:
        raise ValueError(f"delta must be at least 0 and less than 1, not {delta!r}")
    return (
        positive_rational("epsilon", epsilon),
        chance,
        require_method("best" if method is None else method, methods),
        None if split is None else share("split", split),
    )


def _variance(pipeline: Pipeline, k: int) -> float:
    """What each estimate is off by at best, squared."""
    if isinstance(pipeline, MeasuredTopK):
        return min(route.expectation().variance for route in pipeline.routes)
    if isinstance(pipeline, MeasuredAbove):
        return pipeline.measurement.variance(k)
    return pipeline.route.expectation().variance


def answer(
    asked: Asked, answers: PrivateCounts | CountsByGroup, account: Account | None, fresh: bool
) -> Answer:
    """Pay for the answer and draw it; or show what was paid for before."""
    origin = _origin(answers)
    _require_known(asked, origin)
    if origin.by is not None and not isinstance(answers, CountsByGroup):
        raise TypeError(
            "table must be the answers of all groups: one question is about all of them"
        )
    by_group = dict(answers) if isinstance(answers, CountsByGroup) else {None: answers}
    counted = list(by_group.values())
    _require_enough(asked, counted[0])
    pipeline = asked.pipeline(counted[0], origin.max_groups)
    question = _question(asked, pipeline, origin, counted[0])
    kind: type[Answer] = TableRelease if origin.by is None else ReleasesByGroup
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
    asked: Asked, answers: PrivateCounts, account: Account | None, fresh: bool
) -> UnitCount:
    """Pay for the count of all units and draw it; or show what was paid for before."""
    if _origin(answers).neighbours == REPLACE:
        raise ValueError(
            "neighbours must be 'add-or-remove' for a count: where a unit is replaced, how many "
            "there are stays the same, and is public"
        )
    histogram = NoisyHistogram(asked.epsilon, sensitivity=answers.sensitivity)
    question = _question(asked, None, _origin(answers), answers)
    paid = _paid_before(question, account, fresh, UnitCount)
    if paid is not None:
        return paid
    candidates = histogram.prepare(answers, None)
    counting = Counting(question, histogram)
    return _pay(
        question, account, lambda: counting.build(histogram.draw_paid(candidates)), UnitCount
    )


def _require_enough(asked: Asked, answers: PrivateCounts) -> None:
    """Refuse to look for more items than there are."""
    if asked.kind == "top-k" and not answers.unknown and (asked.k or 1) > len(answers):
        raise ValueError(
            f"k must be at most the number of items in the domain, {len(answers)}, not {asked.k}"
        )


def _require_known(asked: Asked, origin: Origin) -> None:
    """A δ is for unknown items, and they need one."""
    if origin.unknown and not asked.delta:
        raise ValueError(
            "delta must be above 0 where domain is None, such as 1e-9: the chance that an item of "
            "one unit alone is shown. Or state the public items as domain"
        )
    if origin.unknown and asked.method not in ("best", HISTOGRAM):
        raise ValueError(
            f"method must be 'best' or 'histogram' where domain is None, not {asked.method!r}: "
            "other methods choose among items that everybody knows"
        )
    if asked.delta and not origin.unknown:
        raise ValueError("delta must be 0 where a domain is stated: nothing needs a δ there")


def _prepare(pipeline: Pipeline, answers: PrivateCounts, resources: ExitStack) -> Any:
    """The answers as the pipeline takes them; refused before anything is charged."""
    if not isinstance(pipeline, MeasuredAbove):
        return pipeline.prepare(answers)
    chunks = resources.enter_context(closing(answers.shuffled()))
    return pipeline.prepare(Stream.on_grid(answers, chunks, pipeline.selection.grid))


def _question(
    asked: Asked, pipeline: Pipeline | None, origin: Origin, answers: PrivateCounts
) -> Question:
    """What is asked. All of it is public, and known before anything is charged."""
    return Question(
        kind=asked.kind,
        k=asked.k,
        epsilon=asked.epsilon,
        origin=origin,
        items=None if answers.unknown else len(answers),
        method=asked.method,
        split=None if pipeline is None else pipeline.split,
        threshold=asked.threshold,
        adaptive=asked.adaptive,
        delta=asked.delta,
    )


@dataclass(frozen=True, slots=True)
class Answering:
    """A question and what answers it; all of it is public."""

    question: Question
    pipeline: Pipeline
    groups: tuple[Any, ...]
    """None alone, where there are no groups."""

    def build(self, drawn: Sequence[Measuring[Any]]) -> Answer:
        """The answer, largest estimates first; one for each group where there are groups."""
        question, origin = self.question, self.question.origin
        if origin.by is None:
            return of_table(question, self.pipeline.build(drawn[0]))
        releases = [
            of_table(question._replace(group=group), self.pipeline.build(each))
            for group, each in zip(self.groups, drawn, strict=True)
        ]
        # A unit counts in so many groups at most: at worst in those that cost the most.
        parts = sorted((release.spent for release in releases), reverse=True)[: origin.max_groups]
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
        return pay(account, question.request(), draw)
    except AlreadyCharged as before:
        if before.answered.document is None:
            raise
        again = read_archived(before.answered.document)
        if not isinstance(again, kind) or not question.is_same_as(again.question):
            raise KeyUsed(
                "this request key was used for another request: use a key of its own for each"
            ) from None
        return cast(R, again.again())


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


def _origin(answers: PrivateCounts | CountsByGroup) -> Origin:
    if answers.origin is None:
        raise TypeError("table must be answers that `dpgap.counts` made, with their origin")
    return answers.origin


def of_table(question: Question, release: Measured) -> TableRelease:
    """The answer to a question: the largest estimate first, in units of what is counted.

    Sums are added up in whole steps, such as cents, of which mechanisms know nothing. So every
    number that was released, and what it may be off by, is multiplied by the step. Gaps are one
    fewer where every item was selected: then they stay in the order of the selection.
    """
    order, step = release.order, question.origin.step
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
# From a table to a release: count, select, measure, estimate, in one call.


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
