"""What was asked of a table, and the answer with its guarantee in plain words.

Every word of a question is public: parameters, names, the domain, what neighbouring tables are.
So a question can be put together before anything is charged, and can say what is to be paid for.
"""

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpgap.budget.account import Request
from dpgap.exact.parameters import readable
from dpgap.releases.numbers import exact_text
from dpgap.releases.printable import printable
from dpgap.releases.release import factor
from dpgap.releases.results import Measured

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


class Question(NamedTuple):
    """What was asked of a table; every word of it is public."""

    kind: str
    """"top-k" or "above"."""
    k: int
    epsilon: Fraction
    origin: Origin
    items: int
    """How many items the domain has."""
    method: str
    split: Fraction | None
    """The share of ε for selecting; None where the method has its own."""
    threshold: Fraction | None = None
    adaptive: bool = False
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
        if self.recorded is not None or table is None or domain is None:
            return self.recorded
        body = {
            "kind": self.kind,
            "k": self.k,
            "epsilon": exact_text(self.epsilon),
            "delta": "0",
            "method": self.method,
            "split": None if self.split is None else exact_text(self.split),
            "threshold": None if self.threshold is None else exact_text(self.threshold),
            "adaptive": self.adaptive,
            "unit": self.origin.unit,
            "item": self.origin.item,
            "neighbours": self.origin.neighbours,
            "table": table,
            "domain": domain,
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
        asked = f"top {self.k}"
        if self.threshold is not None:
            asked = f"above {readable(self.threshold)}, up to {self.k},"
        return printable(f"{asked} of {self.origin.item} by {self.origin.unit}")

    def request(self) -> Request:
        """What a budget is asked to pay for."""
        return Request(self.epsilon, self.purpose, facts=self.facts(), identity=self.identity)

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
        domain = printable(origin.domain)
        if not origin.is_private:
            return (
                "NOT differentially private: the items were read from the private data itself "
                f"(domain {OBSERVED!r}), so that an item being shown at all can give a unit away. "
                f"The noise is that of ε = {epsilon}, but the result is not ε-private. For "
                "exploration by those who may see the data; state a public domain to release it."
            )
        change, public = _CHANGES[origin.neighbours]
        return (
            f"Pure differential privacy with ε = {epsilon} and no δ: if one unit {change}, nothing "
            f"shown here (gaps included) would become more than {factor(self.epsilon)} times as "
            f"likely or unlikely. A unit is {_unit_in_words(origin.unit)}; counts are of distinct "
            f"units. Public are the domain ({domain}), the names and types of the columns"
            f"{public} and all parameters. Everything else about the table is private. The domain "
            "was given as values and must be public: values taken from the table would void this."
        )


_CHANGES = {
    ADD_OR_REMOVE: ("were added or taken away, with all its rows", ""),
    REPLACE: ("were replaced by any other, with all its rows", ", how many units there are"),
}


def _unit_in_words(unit: str) -> str:
    return {"row": "one row", "line": "one line of the file"}.get(
        unit, f"everything with the same value in column {unit!r}"
    )


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
