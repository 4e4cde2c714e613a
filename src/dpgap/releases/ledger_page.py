"""One self-contained HTML page for a ledger: the spent ε by data set, by person and over time.

It has no scripts, fonts or images, and loads nothing. Every name is made visible and escaped. The ε
of different data sets adds up only for people who are in both, so no sum over data sets is shown.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import reduce
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from dpgap.budget.cost import NOTHING, Cost, Limit
from dpgap.budget.requests import is_one_table
from dpgap.exact.parameters import readable_down, readable_up
from dpgap.releases.page import heading, rendered

if TYPE_CHECKING:
    from dpgap.budget.store import Outline

_WIDE, _HIGH = 1000, 100
"""The size of the drawing of spending over time; it is stretched to fit."""


class Part(NamedTuple):
    """One bar: what was spent before the days of the page, in them, and what is reserved."""

    name: str
    cost_before: Cost
    cost: Cost
    cost_held: Cost
    total: Limit
    note: str
    person: str = ""

    @property
    def before(self) -> Fraction:
        """What was spent before the days of the page, in the currency of the budget."""
        return self.total.of(self.cost_before)

    @property
    def spent(self) -> Fraction:
        """What was spent in the days of the page."""
        return self.total.of(self.cost)

    @property
    def held(self) -> Fraction:
        """What is reserved."""
        return self.total.of(self.cost_held)

    @property
    def limit(self) -> Fraction:
        """The end of the bar."""
        return self.total.amount

    def percent(self, *costs: Cost) -> float:
        """The length of these costs in the bar, which is longer than the total if need be."""
        everything = Cost.sum((self.cost_before, self.cost, self.cost_held))
        bar = self.total.raised_to(everything)
        return round(float(100 * bar.portion(Cost.sum(costs))), 2)


def ledger_page(
    books: "Iterable[Outline | None]", when: str = "", title: str | None = None, **days: str | None
) -> str:
    """The whole page, as HTML. `when` and `days` state the days, if it is not about all days."""
    title = heading(title, f"What was spent {when}".rstrip())
    return rendered("ledger.html", title=title, when=when, **ledger_values(books, **days))


def ledger_values(
    outlines: "Iterable[Outline | None]", since: str | None = None, until: str | None = None
) -> dict[str, Any]:
    """The values for the template; the desk has its own page around it.

    With `since` and `until`, the first day and the first day after the page's days.
    """
    books = [book for book in outlines if book is not None]
    settled = (book.settled - (book.earlier.settled if book.earlier else 0) for book in books)
    people = list(_of_people(books))
    facts = {
        "data sets": len(books),
        "people": len({part.person for part in people}),
        "releases settled": sum(settled),
        "under way or interrupted": sum(len(book.waiting) for book in books),
    }
    return {
        "up": readable_up,
        "down": readable_down,
        "books": books,
        "facts": facts,
        "of_datasets": list(_of_datasets(books)),
        "of_people": people,
        "over_time": [_over_time(book, since, until) for book in books],
    }


def _of_datasets(books: "list[Outline]") -> Iterator[Part]:
    """A bar for each data set; those about the same units of one table share a sum."""
    tables: list[tuple[dict[str, Any], list[Part]]] = []
    for book in books:
        last = book.last
        before = book.earlier.last.used if book.earlier else NOTHING
        note = "closed" if last.closed else ""
        part = Part(last.dataset, before, last.used - before, last.held, last.granted, note)
        facts = _stated(book)
        same = (parts for stated, parts in tables if is_one_table(stated, facts))
        if (parts := next(same, None)) is None:
            tables.append((facts, parts := []))
        parts.append(part)
    for _, parts in tables:
        yield from parts
        if len(parts) > 1:
            names = " + ".join(part.name for part in parts)
            yield Part(
                name=names,
                cost_before=Cost.sum(part.cost_before for part in parts),
                cost=Cost.sum(part.cost for part in parts),
                cost_held=Cost.sum(part.cost_held for part in parts),
                total=reduce(Limit.raised, [part.total for part in parts]),
                note="one table, so they add up",
            )


def _stated(book: "Outline") -> dict[str, Any]:
    """The facts that a budget is bound to."""
    bound = (entry for entry in book.spread if entry.number == book.last.bound)
    return next((dict(entry.extra["facts"]) for entry in bound), {})


def _of_people(books: "list[Outline]") -> Iterator[Part]:
    """The ε that each person spent and reserved of each data set, the largest first."""
    for book in books:
        allowances = {entry.person: entry.allowance for entry in book.people}
        gone, held = _by_person(book)
        gone_before, held_before = _by_person(book.earlier) if book.earlier else ({}, {})
        granted = book.last.granted
        for who in sorted(gone, key=lambda person: granted.of(gone[person]), reverse=True):
            allowance = allowances.get(who)
            limit, note = (granted, "") if allowance is None else (allowance, "allowance")
            waiting = held.get(who, NOTHING)
            earlier = gone_before.get(who, NOTHING) - held_before.get(who, NOTHING)
            used = gone[who] - waiting - earlier
            if book.earlier is None or {used, waiting} != {NOTHING}:
                name = f"{who} · {book.last.dataset}"
                yield Part(name, earlier, used, waiting, limit, note, who)


def _by_person(book: "Outline") -> tuple[dict[str, Cost], dict[str, Cost]]:
    """Two costs for each person: spent or reserved, and reserved. Old entries name nobody."""
    concerned = (it for it in book.people if it.allowance is not None or it.person_spent != NOTHING)
    gone = {entry.person: entry.person_spent for entry in concerned}
    held: dict[str, Cost] = {}
    for entry in book.waiting:
        held[entry.person] = held.get(entry.person, NOTHING) + entry.charge
    return gone, held


def _over_time(outline: "Outline", since: str | None, until: str | None) -> dict[str, str]:
    """One data set as SVG paths: a line of steps for the total, and one for the spent ε."""
    before = [outline.earlier.last] if outline.earlier else []
    book = [it for it in outline.spread if not before or it.number > before[0].number]
    ends = since or (book or before)[0].at, until or outline.last.at
    first, last = (datetime.fromisoformat(it).replace(tzinfo=UTC).timestamp() for it in ends)
    book = before + book
    stamps = (datetime.fromisoformat(entry.at).timestamp() for entry in book)
    times = list(accumulate(stamps, max, initial=first))[1:]  # a settlement has its charge's time
    span = max(times[-1], last) - first or 1.0
    most = max(entry.total for entry in book) or Fraction(1)

    def height(value: Fraction) -> float:
        return round(_HIGH * (1 - float(value / most)), 1)

    def steps(values: list[Fraction]) -> str:
        """An SVG path; points that look the same are drawn once."""
        places = [round((time - first) / span * _WIDE, 1) for time in times]
        points = (f"H{x}V{height(value)}" for x, value in zip(places, values, strict=True))
        line = "".join(point for point, _ in groupby(points))
        return f"M{places[0]} {height(values[0])}{line}H{_WIDE}"

    day = date.fromisoformat(ends[1][:10]) - timedelta(until is not None)
    days = {"first": ends[0][:10], "last": str(day)}
    gone = steps([entry.granted.of(entry.gone) for entry in book])
    return {"total": steps([entry.total for entry in book]), "gone": gone, **days}
