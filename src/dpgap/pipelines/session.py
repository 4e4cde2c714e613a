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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, Unpack, cast, overload

from dpgap._package import public
from dpgap.budget.account import Account, InMemoryBudget
from dpgap.budget.cost import Cost, Limit
from dpgap.data.counts import Table, counts, units_of
from dpgap.data.private_counts import errors_without_answers
from dpgap.exact.parameters import Rational, boolean, rational
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
from dpgap.question import (
    Above,
    Amounts,
    Bounds,
    Filtered,
    Keyword,
    Neighbours,
    Paid,
    Question,
    TopK,
    read_wanted,
    require_options,
    stated_counting,
    takes,
)
from dpgap.releases import page
from dpgap.releases.release import Place, ReleasesByGroup, TableRelease, Total, UnitCount

Answered = Answer | Total


class ItemTopK(Bounds, TopK, total=False):
    """Options of `Session.top_k`."""


class ItemAbove(Bounds, Above, total=False):
    """Options of `Session.above`."""


class ItemPlan(ItemTopK, total=False):
    """Options of `Session.plan`."""

    threshold: Annotated[Rational | None, Keyword(rational)]
    adaptive: Annotated[bool, Keyword(boolean, True)]


class UnitsAsked(Filtered, Paid, total=False):
    """Options of `Session.count`."""


class TotalAsked(Amounts, Filtered, Paid, total=False):
    """Options of `Session.total`."""


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
        self._facts: dict[str, Any] = {"unit": unit, "encoding": encoding, "decimal": decimal}
        self._facts["neighbours"] = Neighbours.read("neighbours", neighbours)
        self._table, self._max_items = table, max_items
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
    def top_k(self, item: str, *, by: None = None, **asked: Unpack[ItemTopK]) -> TableRelease: ...
    @overload
    def top_k(self, item: str, *, by: str, **asked: Unpack[ItemTopK]) -> ReleasesByGroup: ...
    @errors_without_answers
    @takes(ItemTopK)
    def top_k(self, item: str, *, by: str | None = None, **asked: Unpack[ItemTopK]) -> Answer:
        """The k items with the most units, or with the largest sums: see `dpgap.top_k`.

        Parameters
        ----------
        item
            The column whose values are counted.
        by
            The column of the groups: the answer is a mapping from group to release.
        {options}
        """
        return cast(Answer, self._ask("top-k", ItemTopK, asked, item=item, by=by))

    @overload
    def above(self, item: str, *, by: None = None, **asked: Unpack[ItemAbove]) -> TableRelease: ...
    @overload
    def above(self, item: str, *, by: str, **asked: Unpack[ItemAbove]) -> ReleasesByGroup: ...
    @errors_without_answers
    @takes(ItemAbove)
    def above(self, item: str, *, by: str | None = None, **asked: Unpack[ItemAbove]) -> Answer:
        """Items whose count or sum is at least `threshold`: see `dpgap.above`.

        Parameters
        ----------
        item
            The column whose values are counted.
        by
            The column of the groups: the answer is a mapping from group to release.
        {options}
        """
        return cast(Answer, self._ask("above", ItemAbove, asked, item=item, by=by))

    @errors_without_answers
    @takes(UnitsAsked)
    def count(self, **asked: Unpack[UnitsAsked]) -> UnitCount:
        """How many distinct units there are: see `dpgap.count`.

        Parameters
        ----------
        {options}
        """
        return cast(UnitCount, self._ask("count", UnitsAsked, asked))

    @errors_without_answers
    @takes(TotalAsked)
    def total(self, sum: str, *, at_most: Rational, **asked: Unpack[TotalAsked]) -> Total:
        """The total of a column: see `dpgap.total`.

        Parameters
        ----------
        sum
            The column whose amounts are added up.
        at_most
            The most that a unit adds to the total. The noise grows with it.
        {options}
        """
        return cast(Total, self._ask("total", TotalAsked, asked, sum=sum, at_most=at_most))

    @errors_without_answers
    @takes(ItemPlan)
    def plan(self, item: str, *, by: str | None = None, **asked: Unpack[ItemPlan]) -> Plan:
        """The expected errors of `top_k` with these arguments; of `above`, with a `threshold`.

        Nothing is spent. The table is counted, once for each item column, as for a question.

        Parameters
        ----------
        item
            The column whose values are counted.
        by
            The column of the groups.
        {options}

        >>> import pandas, dpgap
        >>> sold = pandas.DataFrame({"who": range(9), "what": ["fig"] * 6 + ["pea"] * 3})
        >>> session = dpgap.Session(sold, unit="row", epsilon=1)
        >>> plan = session.plan("what", domain=["fig", "pea", "oat"], k=1, epsilon=0.5)
        >>> plan.rows[0].route, round(plan.error, 1), session.spent
        ('histogram', 2.8, Fraction(0, 1))
        """
        kind, options = ("above", ItemAbove) if "threshold" in asked else ("top-k", ItemTopK)
        counted = self._read(kind, options, asked, item=item, by=by)
        question = counted.question
        Answering.of(question, counted.answers)  # refuses what an answer refuses
        facts = PublicFacts.of(counted.answers)
        return plan_of(question, facts, [choose(question, facts).expected])

    def _ask(self, kind: str, options: Any, asked: Mapping[str, Any], **named: Any) -> Answered:
        """Ask about the counts of an item column, or of all units.

        An equal question gets the newest answer that this session has, unless it must be fresh.
        """
        fresh = boolean("fresh", asked.get("fresh", False))
        counted = self._read(kind, options, asked, **named)
        answering = Answering.of(counted.question, counted.answers)
        question = answering.question
        # A domain that stays in its engine has no digest: the same object must have been stated.
        is_known = question.digest is not None or question.unknown
        place = question.essence, None if is_known else counted.key
        if not fresh and place in self._newest:
            return self._newest[place].again()
        warn_of_weak_promise(question)
        release = paid_answer(answering, counted.answers, self._account, fresh)
        self._newest[place] = release
        self.releases += (release,)
        return release

    def _read(
        self, kind: str, options: Any, asked: Mapping[str, Any], **named: Any
    ) -> "_CountedQuestion":
        """The question, and the counts that it is about; these are made once, unless `fresh`.

        A forked child is refused before it counts, unless an account pays.
        """
        if self._purse is not None:
            self._purse.refuse_elsewhere("a session")
        for name in self._facts.keys() & asked.keys():
            raise TypeError(f"{name} must be left out: it was stated for the whole session")
        require_options(kind, asked, options)
        stated = {**named, **asked, **self._facts}
        question = read_wanted(kind, stated)
        refuse_counts_of_all(question, self._table)
        if not question.is_of_all:
            stated = {"max_items": self._max_items, **stated}
        counting = stated_counting(stated)
        parts = {(name, _key(value)) for name, value in counting.items()}
        parts.add(("version", _version(counting.get("domain"))))
        key = frozenset(parts)
        if asked.get("fresh", False) or key not in self._counted:
            count_table: Any = units_of if question.is_of_all else counts
            answers = count_table(self._table, **counting)
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
        return "\n\n".join((*map(str, self.releases), self._came_to()))

    def _came_to(self) -> str:
        if self._purse is None:
            left = ""
            if self.remaining is not None:
                left = f", {Limit('epsilon', self.remaining)} left"
            return f"{Cost.pure(self.spent)} spent{left}."
        total = self._purse.total
        spent = self._purse.spent.in_words(total, joint=" and ")
        left = self._purse.remaining.in_words(total, joint=" and ")
        return f"{spent} spent, {left} left."

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


def _key(value: object) -> object:
    """The part of a key for an argument: lists and numbers by value, a frame as the object."""
    if isinstance(value, list | tuple):
        return tuple([(type(each), repr(each)) for each in value])  # some have no hash
    is_value = isinstance(value, str | Path | int | float | Fraction | Decimal | range)
    return value if is_value else _Object(value)


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
