"""Several questions of one table, under one budget: what is left is known after each answer.

>>> import pandas, dpgap
>>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
>>> with dpgap.Session(sold, unit="row", epsilon=2) as session:
...     people = session.count(epsilon=1)
...     best = session.top_k("what", domain=["fig", "pea", "oat"], k=1, epsilon=0.5)
>>> best.labels, session.spent, session.remaining
(('fig',), Fraction(3, 2), Fraction(1, 2))
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast, overload

from dpgap._package import public
from dpgap.budget.account import Account, InMemoryBudget
from dpgap.budget.cost import Cost, Limit
from dpgap.data.counts import Table, count_items, units_of
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.parameters import Rational, boolean
from dpgap.pipelines.choose import PublicFacts, choose
from dpgap.pipelines.plan import Plan, plan_of
from dpgap.pipelines.tables import (
    Answer,
    Answering,
    Counted,
    paid_answer,
    refuse_counts_of_all,
    warn_of_weak_promise,
)
from dpgap.question import Counting, Neighbours, Question, read_question
from dpgap.releases import page
from dpgap.releases.release import MeasuredItems, MeasuredValues, Place, ReleasesByGroup

if TYPE_CHECKING:
    from dpgap.question import DomainLike

Answered = Answer | MeasuredValues


@public
class Session:
    """Several questions of one table, under one budget.

    The table is counted once for each item column, and reused for later questions. An equal
    question gets the answer that the session has, and costs nothing. With `fresh=True` the table is
    counted again, and the question is paid again. All releases are in `releases`, and `to_html`
    shows them as one page. A `with` block frees the memory and the connections of an engine. A
    forked process cannot ask, unless an account pays.

    Parameters
    ----------
    table
        A frame, the path of a file or the address of a table, as for `dpgap.top_k`.
    unit
        The column that names the unit of each row; or "row", or "line".
    epsilon
        The budget of this session, which ends with the session. Or give an account.
    delta
        The δ of this session, for questions about unknown items.
    account
        The account that is charged instead, such as `dpgap.Ledger(url).account("sales")`.
    neighbours
        What privacy hides. "add-or-remove": whether a unit is in the table. "replace": what a
        unit's rows are, but not how many units there are.
    max_items
        The most items that a unit counts for, unless a question says otherwise.
    encoding, decimal
        How a file is encoded, and its decimal mark, as for `dpgap.top_k`.

    >>> import pandas, dpgap
    >>> sold = pandas.DataFrame({"who": range(900), "what": ["fig"] * 600 + ["pea"] * 300})
    >>> session = dpgap.Session(sold, unit="row", epsilon=1, delta=1e-6)
    >>> session.top_k("what", k=1, epsilon=0.5, delta=1e-6).labels
    ('fig',)
    """

    def __init__(
        self,
        table: "Table",
        *,
        unit: str | None = None,
        epsilon: Rational | None = None,
        delta: Rational = 0,
        account: Account | None = None,
        neighbours: str = "add-or-remove",
        max_items: int | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
    ) -> None:
        if (epsilon is None) == (account is None):
            raise TypeError("state either epsilon or account, and not both")
        if account is not None and delta:
            raise TypeError("delta must be left out with an account, which has its own")
        self._purse = None if epsilon is None else InMemoryBudget(Limit.granted(epsilon, delta))
        self._account = self._purse if account is None else account
        self._common = Counting(
            unit=unit,
            neighbours=Neighbours.read("neighbours", neighbours),
            encoding=encoding,
            decimal=decimal,
        )
        """What is stated for all questions."""
        self._table = table
        self._max_items = max_items
        self._counted: dict[_Key, Counted] = {}
        self._newest: dict[object, Answered] = {}
        """The newest answer to each question; only public facts decide whether two are equal."""
        self.releases: tuple[Answered, ...] = ()
        """All releases, in order; one that was shown again is there once."""

    @property
    def spent(self) -> Fraction:
        """The ε that all releases of this session cost."""
        if self._purse is not None:
            return self._purse.spent.pure_epsilon
        paid = [release for release in self.releases if not release.made.again]
        return Cost.sum(release.cost for release in paid).pure_epsilon

    @property
    def remaining(self) -> Fraction | None:
        """The ε that is left; None if the account does not state it."""
        if self._purse is not None:
            return self._purse.remaining.amount
        return cast(Fraction | None, getattr(self._account, "remaining", None))

    @overload
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Rational,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> MeasuredItems: ...
    @overload
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Rational,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> ReleasesByGroup: ...
    @errors_without_answers
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Rational,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> Answer:
        """The k items with the most units, or with the largest sums: see `dpgap.top_k`.

        Parameters
        ----------
        item
            The column whose values are counted.
        k
            How many items to find.
        epsilon
            The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
        domain
            The public items: a list, a range, a file of items, "items.parquet:column", in a
            database also "table:column", or a frame of one column; without it, all items that occur
            count (needs `delta` and `max_items`). The list must not be read from the private table.
        delta
            Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
        max_items
            The most items that a unit counts for; if it has more, this many are drawn at random. A
            smaller number means less noise, but lower counts if units have more items. With `by` it
            is the most pairs of group and item. "session", the default: that of the session; None:
            any number.
        by
            The column of the groups: each group gets an answer.
        groups
            The public groups, in the order of the answer: a list.
        max_groups
            The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each
            unit counts in one group only, drawn at random. More than one divides ε among them.
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
            'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in
            text "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
        method
            "best", the default: it chooses the route; "joint": as a set; "ranked": ranked, with
            gaps; "paper": as in the paper; "histogram": all items measured at once, for `max_items`
            only.
        split
            The share of ε for selecting. Without it the method chooses.
        fresh
            Whether to pay for the rows as they are now if the same question was asked before.
            Otherwise the paid answer is shown again, and nothing is charged, if this session or the
            ledger has it. A ledger knows files and addresses; a frame has no name, so only a
            session knows its questions.
        """
        question = read_question(
            "top-k", k=k, epsilon=epsilon, delta=delta, method=method, split=split
        )
        counting = replace(
            self._common,
            item=item,
            domain=domain,
            max_items=self._most_items(max_items),
            by=by,
            groups=groups,
            max_groups=max_groups,
            sum=sum,
            at_most=at_most,
            at_least=at_least,
            step=step,
            where=where,
        )
        return cast(Answer, self._ask(question, counting, fresh))

    @overload
    def above(
        self,
        item: str,
        *,
        threshold: Rational,
        epsilon: Rational,
        k: int | None = None,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> MeasuredItems: ...
    @overload
    def above(
        self,
        item: str,
        *,
        threshold: Rational,
        epsilon: Rational,
        k: int | None = None,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> ReleasesByGroup: ...
    @errors_without_answers
    def above(
        self,
        item: str,
        *,
        threshold: Rational,
        epsilon: Rational,
        k: int | None = None,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
        fresh: bool = False,
    ) -> Answer:
        """Items whose count or sum is at least `threshold`: see `dpgap.above`.

        Parameters
        ----------
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
            The public items: a list, a range, a file of items, "items.parquet:column", in a
            database also "table:column", or a frame of one column; without it, all items that occur
            count (needs `delta` and `max_items`). The list must not be read from the private table.
        delta
            Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
        max_items
            The most items that a unit counts for; if it has more, this many are drawn at random. A
            smaller number means less noise, but lower counts if units have more items. With `by` it
            is the most pairs of group and item. "session", the default: that of the session; None:
            any number.
        by
            The column of the groups: each group gets an answer.
        groups
            The public groups, in the order of the answer: a list.
        max_groups
            The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each
            unit counts in one group only, drawn at random. More than one divides ε among them.
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
            'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in
            text "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
        adaptive
            Whether to pay less for items far above the threshold, so that more than k may be found.
        method
            "best", the default: it chooses the route; "paper": as in the paper; "histogram": all
            items measured at once, for `max_items` only.
        split
            The share of ε for selecting. Without it the method chooses.
        fresh
            Whether to pay for the rows as they are now if the same question was asked before.
            Otherwise the paid answer is shown again, and nothing is charged, if this session or the
            ledger has it. A ledger knows files and addresses; a frame has no name, so only a
            session knows its questions.
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
            decimal=self._common.decimal,
        )
        counting = replace(
            self._common,
            item=item,
            domain=domain,
            max_items=self._most_items(max_items),
            by=by,
            groups=groups,
            max_groups=max_groups,
            sum=sum,
            at_most=at_most,
            at_least=at_least,
            step=step,
            where=where,
        )
        return cast(Answer, self._ask(question, counting, fresh))

    @errors_without_answers
    def count(
        self, *, epsilon: Rational, where: str | None = None, fresh: bool = False
    ) -> MeasuredValues:
        """How many distinct units there are: see `dpgap.count`.

        Parameters
        ----------
        epsilon
            The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
        where
            Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
            'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in
            text "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
        fresh
            Whether to pay for the rows as they are now if the same question was asked before.
            Otherwise the paid answer is shown again, and nothing is charged, if this session or the
            ledger has it. A ledger knows files and addresses; a frame has no name, so only a
            session knows its questions.
        """
        question = read_question("count", epsilon=epsilon)
        counting = replace(self._common, where=where)
        return cast(MeasuredValues, self._ask(question, counting, fresh))

    @errors_without_answers
    def total(
        self,
        sum: str,
        *,
        at_most: Rational,
        epsilon: Rational,
        at_least: Rational = 0,
        step: Rational = "0.01",
        where: str | None = None,
        fresh: bool = False,
    ) -> MeasuredValues:
        """The total of a column: see `dpgap.total`.

        Parameters
        ----------
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
            'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in
            text "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
        fresh
            Whether to pay for the rows as they are now if the same question was asked before.
            Otherwise the paid answer is shown again, and nothing is charged, if this session or the
            ledger has it. A ledger knows files and addresses; a frame has no name, so only a
            session knows its questions.
        """
        question = read_question("total", epsilon=epsilon)
        counting = replace(
            self._common, sum=sum, at_most=at_most, at_least=at_least, step=step, where=where
        )
        return cast(MeasuredValues, self._ask(question, counting, fresh))

    @errors_without_answers
    def plan(
        self,
        item: str,
        *,
        epsilon: Rational,
        k: int | None = None,
        threshold: Rational | None = None,
        domain: "DomainLike | None" = None,
        delta: Rational = 0,
        max_items: int | Literal["session"] | None = "session",
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
    ) -> Plan:
        """The expected errors of `top_k` with these arguments; of `above`, with a `threshold`.

        Nothing is spent. The table is counted, once for each item column, as for a question.

        Parameters
        ----------
        item
            The column whose values are counted.
        epsilon
            The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
        k
            How many items to find. Above a threshold: for how many ε pays at the full price; with
            `max_items` it may be left out, and all items above are shown.
        threshold
            The count, or the sum, that an item must have.
        domain
            The public items: a list, a range, a file of items, "items.parquet:column", in a
            database also "table:column", or a frame of one column; without it, all items that occur
            count (needs `delta` and `max_items`). The list must not be read from the private table.
        delta
            Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
        max_items
            The most items that a unit counts for; if it has more, this many are drawn at random. A
            smaller number means less noise, but lower counts if units have more items. With `by` it
            is the most pairs of group and item. "session", the default: that of the session; None:
            any number.
        by
            The column of the groups: each group gets an answer.
        groups
            The public groups, in the order of the answer: a list.
        max_groups
            The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each
            unit counts in one group only, drawn at random. More than one divides ε among them.
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
            'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in
            text "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
        adaptive
            Whether to pay less for items far above the threshold, so that more than k may be found.
        method
            "best", the default: it chooses the route; "joint": as a set; "ranked": ranked, with
            gaps; "paper": as in the paper; "histogram": all items measured at once, for `max_items`
            only.
        split
            The share of ε for selecting. Without it the method chooses.

        >>> import pandas, dpgap
        >>> sold = pandas.DataFrame({"who": range(9), "what": ["fig"] * 6 + ["pea"] * 3})
        >>> session = dpgap.Session(sold, unit="row", epsilon=1)
        >>> plan = session.plan("what", domain=["fig", "pea", "oat"], k=1, epsilon=0.5)
        >>> plan.rows[0].route, round(plan.error, 1), session.spent
        ('histogram', 2.8, Fraction(0, 1))
        """
        if threshold is None and not boolean("adaptive", adaptive):
            raise ValueError("adaptive must be left out unless there is a threshold")
        question = read_question(
            "top-k" if threshold is None else "above",
            k=k,
            threshold=threshold,
            epsilon=epsilon,
            delta=delta,
            adaptive=adaptive,
            method=method,
            split=split,
            decimal=self._common.decimal,
        )
        counting = replace(
            self._common,
            item=item,
            domain=domain,
            max_items=self._most_items(max_items),
            by=by,
            groups=groups,
            max_groups=max_groups,
            sum=sum,
            at_most=at_most,
            at_least=at_least,
            step=step,
            where=where,
        )
        counted = self._count(question, counting)
        about = counted.question
        Answering.of(about, counted.answers)  # refuses what an answer refuses
        facts = PublicFacts.of(counted.answers)
        return plan_of(about, facts, [choose(about, facts).expected])

    def _most_items(self, max_items: int | Literal["session"] | None) -> int | None:
        """The most items of a unit in one question."""
        if max_items == "session":
            return self._max_items
        return max_items

    def _ask(self, question: Question, counting: Counting, fresh: bool) -> Answered:
        """Ask about the counts of an item column, or of all units.

        An equal question gets the newest answer that this session has, unless it must be fresh.
        """
        is_fresh = boolean("fresh", fresh)
        counted = self._count(question, counting, is_fresh=is_fresh)
        answering = Answering.of(counted.question, counted.answers)
        about = answering.question
        # A domain that stays in its engine has no digest: the same object must have been stated.
        is_known = about.digest is not None or about.unknown
        key = (about.essence, None if is_known else counted.key)
        if not is_fresh and key in self._newest:
            return self._newest[key]._again()
        warn_of_weak_promise(about)
        release = paid_answer(answering, counted.answers, self._account, is_fresh)
        self._newest[key] = release
        self.releases += (release,)
        return release

    def _count(
        self, question: Question, counting: Counting, *, is_fresh: bool = False
    ) -> "_CountedQuestion":
        """The question, and the counts that it is about; these are made once, unless fresh.

        A forked child is refused before it counts, unless an account pays.
        """
        if self._purse is not None:
            self._purse.refuse_elsewhere("a session")
        refuse_counts_of_all(question, self._table)
        key = _key(counting)
        if is_fresh or key not in self._counted:
            count_table = units_of if question.is_of_all else count_items
            answers = count_table(self._table, counting)
            if key in self._counted:
                self._counted[key].close()
            self._counted[key] = answers
        answers = self._counted[key]
        about = question.about(cast(Question, answers.origin))
        return _CountedQuestion(about, answers, key)

    def to_html(self, path: Place | None = None, *, title: str | None = None) -> str:
        """Return one HTML page of all releases as text; with a `path`, write it to that file.

        See `to_html` of a release.
        """
        return page.session_page(self.releases, self._came_to(), title, path)

    def _repr_html_(self) -> str:
        return page.cell(*self.releases, words=self._came_to())

    def __str__(self) -> str:
        paragraphs = [str(release) for release in self.releases]
        paragraphs.append(self._came_to())
        return "\n\n".join(paragraphs)

    def _came_to(self) -> str:
        if self._purse is None:
            spent = f"{Cost.pure(self.spent)} spent"
            if self.remaining is None:
                return f"{spent}."
            return f"{spent}, {Limit('epsilon', self.remaining)} left."
        total = self._purse.total
        spent = self._purse.spent.in_words(total, joint=" and ")
        remaining = self._purse.remaining.in_words(total, joint=" and ")
        return f"{spent} spent, {remaining} left."

    def __repr__(self) -> str:
        return f"<session: {len(self.releases)} releases, {self._came_to()[:-1]}>"

    def close(self) -> None:
        """Free memory and connections. The session can still be asked, and asking still costs ε."""
        while self._counted:
            self._counted.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_Key = frozenset[tuple[str, object]]
"""The arguments that say what was counted."""


class _CountedQuestion(NamedTuple):
    """A question and its private counts."""

    question: Question
    answers: Counted
    key: _Key


@dataclass(frozen=True, slots=True, eq=False)
class _Object:
    """A frame as a part of a key: equal to itself alone. It is kept, so no other gets its id."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(counting: Counting) -> _Key:
    """The keywords that say what is counted, without those that have their defaults."""
    parts = {(name, _hashable(value)) for name, value in counting.stated().items()}
    parts.add(("version", _version(counting.domain)))
    return frozenset(parts)


def _hashable(value: object) -> object:
    """The part of a key for an argument: lists and numbers by value, a frame as the object."""
    if isinstance(value, list | tuple):
        return tuple([(type(item), repr(item)) for item in value])  # some have no hash
    is_value = isinstance(value, str | Path | int | float | Fraction | Decimal | range)
    if is_value:
        return value
    return _Object(value)


def _version(domain: object) -> tuple[int, int] | None:
    """The size and the time of the file that a domain is in; None if it is in no file.

    The file may change between two questions: then the table is counted again.
    """
    if not isinstance(domain, str | Path):
        return None
    path, _, _ = str(domain).rpartition(":")  # before the name of a column
    for name in (str(domain), path):
        with suppress(OSError, ValueError):
            status = os.stat(name)
            return status.st_size, status.st_mtime_ns
    return None
