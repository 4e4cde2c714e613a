"""What was asked of a table, and the answer with its guarantee in plain words.

Every word of a question is public: parameters, names, the domain, what neighbouring tables are.
So a question can be put together before anything is charged, and can say what is to be paid for.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpgap.budget.account import Request
from dpgap.exact.parameters import readable, readable_up
from dpgap.printable import printable
from dpgap.releases.plain import exact_text
from dpgap.releases.release import Measured, factor

ADD_OR_REMOVE = "add-or-remove"
"""Neighbouring tables differ by one unit that one of them lacks: all counts move one way."""

REPLACE = "replace"
"""Neighbouring tables differ by one unit that was replaced: counts may move either way."""

OBSERVED = "observed-not-private"
"""The domain to say when exploring: whatever is in the table, which makes nothing private."""


class Origin(NamedTuple):
    """Where counts come from, as far as it is public."""

    unit: str
    item: str
    domain: str
    """The public domain in words."""
    neighbours: str
    is_private: bool
    """Whether the domain was stated, not read from the private table."""
    table: str | None = None
    """What people call the table: a file's name, a database's table; a frame has none."""
    address: str | None = None
    """Where the table is, spelt the same however it was given, without any password."""
    columns: tuple[tuple[str, str], ...] = ()
    """The names of all columns, and the families of their types, such as "text"."""
    digest: str | None = None
    """A hash of the public domain."""
    unknown: bool = False
    """Whether the items are those present, which nobody listed."""
    max_items: int | None = None
    """For how many items a unit counts at most; with groups, for how many pairs of both."""
    by: str | None = None
    """The column of groups."""
    groups: int = 0
    """How many groups there are."""
    groups_digest: str | None = None
    """A hash of the public groups, in order."""
    max_groups: int = 1
    """In how many groups a unit counts at most."""
    sum: str | None = None
    """The column that was added up; None where units were counted."""
    at_most: Fraction = Fraction(1)
    at_least: Fraction = Fraction(0)
    """What a unit may add to an item."""
    step: Fraction = Fraction(1)
    """What answers are whole numbers of."""
    where: str | None = None
    """Which rows were looked at, in words that can be read again; None for all."""
    sum_of_text: bool = False
    """Whether the column that was added up is text, by the schema."""

    @property
    def is_of_lines(self) -> bool:
        """Whether units are the lines of a FIMI file, each of which may have many items."""
        name = (self.table or "").lower().removesuffix(".gz")
        return self.unit in ("row", "line") and name.endswith(".dat")

    @property
    def has_one_item_each(self) -> bool:
        """Whether units are rows: each has one item and one group, and nothing of it is cut."""
        return self.unit == "row" and not self.is_of_lines

    def bounds(self) -> dict[str, Any]:
        """What bounds a unit, as JSON can hold it; what has its default is left out."""
        named = ("unknown", "max_items", "by", "groups_digest", "max_groups", "sum", "at_most")
        found = {name: getattr(self, name) for name in (*named, "at_least", "step", "where")}
        return {
            name: exact_text(each) if isinstance(each, Fraction) else each
            for name, each in found.items()
            if each != Origin._field_defaults[name]
        }


class Question(NamedTuple):
    """What was asked of a table; every word of it is public."""

    kind: str
    """"top-k", "above" or "count"."""
    k: int | None
    """How many items are looked for; None for all that there are."""
    epsilon: Fraction
    origin: Origin
    items: int | None
    """How many items the domain has; None where they are not known."""
    method: str
    split: Fraction | None
    """The share of ε for selecting; None where the method has its own."""
    threshold: Fraction | None = None
    adaptive: bool = False
    delta: Fraction = Fraction(0)
    """The chance that is left for an item of one unit alone to be shown; 0 for a stated domain."""
    group: Any = None
    """Of the answer for one group: which one."""
    recorded: str | None = None
    """Of a question from a document: its identity. The address, which is part of it, is not there.
    """

    @property
    def identity(self) -> str | None:
        """A hash of what is asked of what: the same for the same question, however it was put.

        It is None where nothing says which table it is, as with a frame, or which domain: two of
        them that look alike may hold different data. Hashes must stay as they are for ever. So a
        parameter that is added later goes into the hash only where it does not have its default.
        """
        table, domain = self.origin.address or self.origin.table, self.origin.digest
        if self.origin.unknown or self.kind == "count":
            domain = ""
        if self.recorded is not None or table is None or domain is None:
            return self.recorded
        body = {
            "kind": self.kind,
            "k": self.k,
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "method": self.method,
            "split": None if self.split is None else exact_text(self.split),
            "threshold": None if self.threshold is None else exact_text(self.threshold),
            "adaptive": self.adaptive,
            "unit": self.origin.unit,
            "item": self.origin.item,
            "neighbours": self.origin.neighbours,
            "table": table,
            "domain": domain,
            **self.origin.bounds(),
        }
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def is_same_as(self, other: "Question") -> bool:
        """Whether both ask the same, as far as can be told: a frame does not say which it is."""
        if self.identity is not None or other.identity is not None:
            return self.identity == other.identity
        return self._without_words() == other._without_words()

    def _without_words(self) -> "Question":
        """The question without what only says where its table is, or describes its domain."""
        origin = self.origin._replace(domain="", table=None, address=None, columns=())
        return self._replace(origin=origin)

    @property
    def purpose(self) -> str:
        """What is asked, in one plain line, such as "top 10 of url by user_id"."""
        origin = self.origin
        if self.kind == "count":
            asked = f"count of {origin.unit}"
        else:
            asked = f"top {self.k}"
            if self.threshold is not None:
                limit = "" if self.k is None else f", up to {self.k},"
                asked = f"above {readable(self.threshold)}{limit}"
            asked = f"{asked} of {origin.item} by {origin.sum or origin.unit}"
        if origin.by is not None:
            asked += f" in each of {origin.groups} groups of {origin.by}"
        if origin.where is not None:
            asked += f" where {origin.where}"
        return printable(asked)

    def request(self) -> Request:
        """What a budget is asked to pay for."""
        return Request(
            self.epsilon,
            self.purpose,
            delta=self.delta,
            facts=self.facts(),
            identity=self.identity,
        )

    def facts(self) -> dict[str, Any]:
        """What a budget that is bound to a table must know, as JSON can hold it."""
        return {
            "table": self.origin.address,
            "unit": self.origin.unit,
            "neighbours": self.origin.neighbours,
            "columns": [list(column) for column in self.origin.columns],
            "private": self.origin.is_private,
        }

    def guarantee(self) -> str:
        """What is promised, in plain words: the unit, the neighbours, what is public."""
        epsilon, origin = readable(self.epsilon), self.origin
        if not origin.is_private:
            return (
                "NOT differentially private: the items were read from the private data itself "
                f"(domain {OBSERVED!r}), so that an item being shown at all can give a unit away. "
                f"The noise is that of ε = {epsilon}, but the result is not ε-private. For "
                "exploration by those who may see the data; state a public domain to release it."
            )
        return " ".join((self.promise_of(self.epsilon, self.delta), *self.conditions()))

    def promise_of(self, epsilon: Fraction, delta: Fraction) -> str:
        """What an ε, and a δ if there is one, promise about this table."""
        change, times = _CHANGES[self.origin.neighbours][0], factor(epsilon)
        if not delta:
            return (
                f"Pure differential privacy with ε = {readable_up(epsilon)} and no δ: if one unit "
                f"{change}, nothing shown here would become more than {times} times as likely or "
                "unlikely."
            )
        chance = readable_up(delta)
        return (
            f"Differential privacy with ε = {readable_up(epsilon)} and δ = {chance}: if one unit "
            f"{change}, nothing shown here would become more than {times} times as likely or "
            f"unlikely; but for a chance of at most {chance} that an item is shown which that unit "
            "alone has."
        )

    def doubts(self) -> Iterator[str]:
        """Why released totals may be near 0, whatever the true ones are."""
        if self.origin.sum_of_text:
            yield printable(
                "Amounts such as '16,48' or '$16.48' are not numbers as written. If column "
                f"{self.origin.sum!r} has such text, it counts as nothing: see to that before you "
                "spend more ε."
            )

    def doubts_of_names(self) -> Iterator[str]:
        """Why all counts may be near 0 although the table is large."""
        if not self.origin.unknown:
            groups = "" if self.origin.by is None else " and groups"
            yield f"If you expected more: items{groups} must be written as they are in the table."

    def conditions(self) -> tuple[str, ...]:
        """What a unit is, how much of it counts, and what is public, sentence by sentence."""
        return (*self._counting(), *self._public(_CHANGES[self.origin.neighbours][1]))

    def _counting(self) -> Iterator[str]:
        """What a unit is, and how much of it counts."""
        origin = self.origin
        yield f"A unit is {_unit_in_words(origin)}."
        if origin.sum is None:
            yield "Counts are of distinct units."
        else:
            least, most = readable(origin.at_least), readable(origin.at_most)
            yield printable(
                f"What is added up is column {origin.sum!r}, each row rounded to "
                f"{readable(origin.step)}, and a unit's total for an item cut off below {least} "
                f"and above {most}."
            )
        if origin.by is not None:
            many = "one group" if origin.max_groups == 1 else f"{origin.max_groups} groups at most"
            yield printable(
                f"A unit counts in {many} of column {origin.by!r}; which, a secret order decides."
            )
        if origin.max_items is not None and not origin.has_one_item_each:
            many = "1 item" if origin.max_items == 1 else f"{origin.max_items} items"
            yield (
                f"A unit counts for at most {many}; which, a secret order decides, and the others "
                "are left out."
            )
        if origin.where is not None:
            yield printable(f"Only rows count where {origin.where}.")

    def _public(self, more: str) -> Iterator[str]:
        """What is not protected, and on what condition."""
        origin = self.origin
        has_domain = not (origin.unknown or self.kind == "count")
        domain = f"the domain ({printable(origin.domain)}), " if has_domain else ""
        groups = "" if origin.by is None else f"the {origin.groups} groups, "
        columns = f"the names and types of the columns{more}"
        yield f"Public are {domain}{groups}{columns} and all parameters."
        yield "Everything else about the table is private."
        if has_domain:
            yield "The domain must be public: values taken from the table would void this."


_CHANGES = {
    ADD_OR_REMOVE: ("were added or taken away, with all its rows", ""),
    REPLACE: ("were replaced by any other, with all its rows", ", how many units there are"),
}


def _unit_in_words(origin: Origin) -> str:
    if origin.is_of_lines:
        return "one line of the file"
    if origin.unit == "row":
        return "one row"
    return f"everything with the same value in column {origin.unit!r}"


@dataclass(frozen=True, slots=True, eq=False)
class TableRelease(Measured):
    """What a table was asked, and the answer: items, the largest estimate first.

    `gaps` are those of the selection. After a top k, an item's gap is how far it was ahead of the
    item that the selection ranked next. Where every item was selected there is one gap less, and
    they are in the order of the selection. Above a threshold, it is by how much.
    """

    question: Question

    @property
    def line(self) -> Fraction | None:
        """The threshold that items had to reach; None where the largest were looked for."""
        return self.question.threshold

    @property
    def guarantee(self) -> str:
        """What ε promises, in plain words."""
        return self.question.guarantee()
