"""A question about a table: what is counted, how units are bounded, which rows, what it costs.

A `Question` is a frozen value. All of it is public: parameters, names, the kind of neighbouring
tables, and facts from the schema and the address of the table. So a question can be made before
anything is charged, and it states what will be paid for.

Calls, options of the command line, sessions, the desk, ledgers and release documents read it from
here. `Counting` has what users wrote about counting, which is passed on as one value.
`read_counting` and `read_question` read what users wrote. A field of `Question` has the value that
was read, and states its form in a document. `dpgap.data.filtering` says what a filter means row by
row.

>>> read_counting(Counting(unit="who", item="what", sum="paid", at_most=50)).sensitivity
Fraction(5000, 1)
"""

import codecs
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, TypeVar

from dpgap.exact.parameters import (
    Rational,
    boolean,
    exact_text,
    factor,
    positive_integer,
    positive_rational,
    rational,
    readable,
    readable_up,
    share,
)
from dpgap.filter_language import (
    ORDERS,
    THOUSANDS,
    Comparison,
    Filter,
    clause_of,
    comparisons_of,
    error_at,
    read_filter,
    tokens_of,
)
from dpgap.printable import column_name, printable

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

DomainLike: TypeAlias = "IntoFrame | Iterable[object] | str | os.PathLike[str]"


class Neighbours(StrEnum):
    """How neighbouring tables differ: privacy hides this difference."""

    ADD_OR_REMOVE = "add-or-remove"
    """One of them lacks one unit: all counts move in one direction."""
    REPLACE = "replace"
    """One unit was replaced: counts may move up or down."""

    @classmethod
    def read(cls, name: str, value: object) -> "Neighbours":
        """The relation of this name; None is the default."""
        return cls.ADD_OR_REMOVE if value is None else cls(one_of(name, value, [*map(str, cls)]))


OBSERVED = "observed-not-private"
"""The domain for exploring: the items in the table itself. The result is not private."""

OF_ALL = ("count", "total")
"""The kinds of questions about all units together, which have no items."""
KINDS = ("top-k", "above", *OF_ALL)
"""The kinds of questions."""

METHODS = ("best", "joint", "ranked", "paper")
HISTOGRAM = "histogram"
"""A method that needs `max_items`."""
ABOVE_METHODS = ("best", "paper")

ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
DECIMALS = (".", ",")

MAX_CAP = 1 << 40
"""The most steps that a unit may add to an item, so that sums stay exact."""

LINE = "line"
"""The unit where no column is stated: a line of a FIMI file."""
ITEM = "item"
"""The name of items where no column is stated."""
_CENT = "0.01"

_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_MONTH = re.compile("[0-9]{4}-[0-9]{2}")


# --------------------------------------------------------------------------------------------------
# What users may write.


_Value = TypeVar("_Value")


def optional(read: Callable[[str, Any], _Value], name: str, value: object) -> _Value | None:
    """None for None; every other value is read."""
    return None if value is None else read(name, value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {type(value).__name__}")
    return value


def _column(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be the name of a column, not {type(value).__name__}")
    return value


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """`value`, if it is one of these texts."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return str(value)


def read_encoding(name: str, value: Any) -> str:
    """The one name of an encoding that has several; latin-1 is read as cp1252."""
    names = {codecs.lookup(encoding).name: encoding for encoding in ENCODINGS}
    names["cp1252"] = "latin-1"
    with suppress(LookupError, TypeError, ValueError):
        value = names.get(codecs.lookup(value).name, value)
    return one_of(name, value, ENCODINGS)


def read_decimal(name: str, value: object) -> str:
    """`value`, if it is a decimal mark."""
    return one_of(name, value, DECIMALS)


def chance(name: str, value: object) -> Fraction:
    """`value` as an exact rational from zero to less than one."""
    number = rational(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, not {value!r}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The keywords about counting, as a call, a command or a steward's file states them.

    `dpgap.counts` explains them, and `read_counting` reads them. No other list of them is passed
    on.
    """

    unit: str | None = None
    item: str | None = None
    domain: "DomainLike | None" = None
    max_items: int | None = None
    by: str | None = None
    groups: Iterable[object] | None = None
    max_groups: int | None = None
    sum: str | None = None
    at_most: Rational | None = None
    at_least: Rational = 0
    step: Rational = _CENT
    where: str | None = None
    neighbours: str = "add-or-remove"
    encoding: str | None = None
    decimal: str | None = None

    def stated(self) -> dict[str, Any]:
        """The keywords that differ from their defaults."""
        keywords = {}
        for field in fields(self):
            value = getattr(self, field.name)
            # A frame is not written as text, which may take long.
            is_default = value is None
            if field.default is not None:
                is_default = str(value) == str(field.default)
            if not is_default:
                keywords[field.name] = value
        return keywords


# --------------------------------------------------------------------------------------------------
# The question.


class Held(NamedTuple):
    """How a document holds a field of a question."""

    form: tuple[Any, ...]
    """The name of a form in `dpgap.releases.document`, and what it is called with."""
    called: str = ""
    """Its name in the document, if different."""
    is_always_there: bool = False
    """Whether a document has it even if it has its default."""
    is_bound: bool = False
    """Whether it is part of the identity, unless it has its default."""


_ONE_OF_TWO = Held(("enum", Neighbours), is_always_there=True)
_A_SHARE = Held(("exact", lambda part: 0 < part < 1, "a number between 0 and 1"))
_BELOW_2_200 = Held(("exact", lambda value: abs(value) < 1 << 200, "a number below 2^200"))
_NOT_ABOVE_0 = Held(("exact", lambda value: value <= 0, "a number not above 0"), is_bound=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a table; all of it is public.

    Fields have the order of release documents. `dpgap.top_k` and `dpgap.above` explain them. None
    means that a keyword was not stated. Before a question is asked, only the fields about counting
    are set.
    """

    kind: Annotated[str, Held(("word", *KINDS), is_always_there=True)] = "counts"
    k: Annotated[int | None, Held(("whole", 1))] = None
    epsilon: Annotated[Fraction, Held(("positive",), is_always_there=True)] = Fraction(0)
    delta: Annotated[Fraction, _A_SHARE] = Fraction(0)
    split: Annotated[Fraction | None, _A_SHARE] = None
    threshold: Annotated[Fraction | None, _BELOW_2_200] = None
    adaptive: Annotated[bool, Held(("flag",), is_always_there=True)] = False
    method: Annotated[str, Held(("word", *METHODS, HISTOGRAM), is_always_there=True)] = "best"
    unit: Annotated[str, Held(("text",), is_always_there=True)] = LINE
    item: Annotated[str, Held(("text",), is_always_there=True)] = ITEM
    neighbours: Annotated[Neighbours, _ONE_OF_TWO] = Neighbours.ADD_OR_REMOVE
    is_private: Annotated[bool, Held(("flag",), called="private", is_always_there=True)] = True
    """Whether the domain was stated, not read from the private table."""
    domain: Annotated[str, Held(("text",), is_always_there=True)] = ""
    items: Annotated[int | None, Held(("whole", 0), called="domain_size")] = None
    """How many items the domain has; None if they are not known."""
    digest: Annotated[str | None, Held(("text",), called="domain_digest")] = None
    table: Annotated[str | None, Held(("text",))] = None
    """The short name of the table: of a file, or of a table in a database; a frame has none."""
    recorded: Annotated[str | None, Held(("text",), called="identity")] = None
    """The identity that a document states: it cannot be computed again without the address."""
    max_items: Annotated[int | None, Held(("whole", 1), is_bound=True)] = None
    by: Annotated[str | None, Held(("text",), is_bound=True)] = None
    groups: Annotated[int, Held(("whole", 0))] = 0
    """How many groups there are."""
    groups_digest: Annotated[str | None, Held(("text",), is_bound=True)] = None
    max_groups: Annotated[int, Held(("whole", 1), is_bound=True)] = 1
    group: Annotated[Any, Held(("label",))] = None
    """The group, if this is the answer for one group."""
    sum: Annotated[str | None, Held(("text",), is_bound=True)] = None
    at_most: Annotated[Fraction, Held(("positive",), is_bound=True)] = Fraction(1)
    at_least: Annotated[Fraction, _NOT_ABOVE_0] = Fraction(0)
    step: Annotated[Fraction, Held(("positive",), is_bound=True)] = Fraction(1)
    """Answers are multiples of this."""
    where: Annotated[Filter | None, Held(("filter",), is_bound=True)] = None
    unknown: Annotated[bool, Held(("flag",), is_bound=True)] = False
    """Whether no domain is stated, so the items are those that occur."""
    sum_of_text: Annotated[bool, Held(("flag",))] = False
    """Whether the column of amounts has the type text in the schema."""
    encoding: Annotated[str | None, Held(("word", *ENCODINGS), is_bound=True)] = None
    decimal: Annotated[str, Held(("word", *DECIMALS), is_bound=True)] = "."
    address: str | None = None
    """The address of the table in one spelling, without any password."""
    columns: tuple[tuple[str, str], ...] = ()
    """The names of all columns, and the families of their types, such as "text"."""

    def about(self, counted: "Question") -> "Question":
        """The same question, asked about these counts."""
        return replace(
            counted,
            kind=self.kind,
            k=self.k,
            epsilon=self.epsilon,
            delta=self.delta,
            split=self.split,
            threshold=self.threshold,
            adaptive=self.adaptive,
            method=self.method,
        )

    def among(self, groups: int, digest: str) -> "Question":
        """The same question, about so many groups: a unit cannot be in more of them."""
        max_groups = min(self.max_groups, groups)
        return replace(self, groups=groups, groups_digest=digest, max_groups=max_groups)

    @property
    def is_of_lines(self) -> bool:
        """Whether units are the lines of a FIMI file, each of which may have many items."""
        return self.unit in ("row", "line") and self._file_name.endswith(".dat")

    @property
    def is_of_csv(self) -> bool:
        """Whether the table is a CSV file."""
        return self._file_name.endswith((".csv", ".tsv"))

    @property
    def is_of_text(self) -> bool:
        """Whether the table is a file in which all columns are text."""
        return self.is_of_csv or self._file_name.endswith((".json", ".jsonl", ".ndjson"))

    @property
    def _file_name(self) -> str:
        return (self.table or "").lower().removesuffix(".gz")

    @property
    def has_one_item_each(self) -> bool:
        """Whether units are rows: each has one item and one group, and needs no bound."""
        return self.unit == "row" and not self.is_of_lines

    @property
    def is_of_all(self) -> bool:
        """Whether the question is about all units together: their number, or a total."""
        return self.kind in OF_ALL

    @property
    def groups_of_a_unit(self) -> int:
        """The most groups that a unit counts in."""
        return min(self.max_groups, self.groups)

    @property
    def is_plain(self) -> bool:
        """Whether units are only counted: no bound on items, no groups, no sum."""
        return self.max_items is None and self.by is None and self.sum is None

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The other columns that the table must have, beside unit and item, each once."""
        columns = [self.by, self.sum]
        if self.where is not None:
            columns += self.where.columns
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def sensitivity(self) -> Fraction:
        """The most steps that one unit can move an answer. A missing unit adds 0."""
        if self.neighbours is Neighbours.ADD_OR_REMOVE:
            return max(self.at_most, -self.at_least) / self.step
        return (self.at_most - self.at_least) / self.step

    @property
    def is_monotonic(self) -> bool:
        """Whether one unit moves all answers in the same direction."""
        return self.neighbours is Neighbours.ADD_OR_REMOVE and self.at_least == 0

    def bounds(self) -> dict[str, Any]:
        """The options that bound a unit, as JSON values, without those that have their defaults."""
        bounds = {}
        for field, form in held_fields():
            value = getattr(self, field.name)
            if form.is_bound and value != field.default:
                bounds[field.name] = _in_json(value)
        return bounds

    @property
    def identity(self) -> str | None:
        """Stable hash of question and table: the same for the same question in any spelling.

        It is None if nothing identifies the table (a frame) or the domain: two frames that look
        alike may hold different data. Hashes must never change. So a parameter that is added later
        goes into the hash only if it does not have its default.
        """
        table = self.address or self.table
        domain = self.digest
        if self.unknown or self.is_of_all:
            domain = ""
        if self.recorded is not None or table is None or domain is None:
            return self.recorded
        body = {
            "kind": self.kind,
            "k": self.k,
            "epsilon": _in_json(self.epsilon),
            "delta": _in_json(self.delta),
            "method": self.method,
            "split": _in_json(self.split),
            "threshold": _in_json(self.threshold),
            "adaptive": self.adaptive,
            "unit": self.unit,
            "item": self.item,
            "neighbours": str(self.neighbours),
            "table": table,
            "domain": domain,
        }
        canonical = json.dumps(body | self.bounds(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def essence(self) -> "str | Question":
        """What equal questions share, as far as this can be known: a frame has no address."""
        identity = self.identity
        if identity is not None:
            return identity
        return replace(self, domain="", table=None, address=None, columns=())

    def is_same_as(self, other: "Question") -> bool:
        """Whether both ask the same, as far as this can be known."""
        return self.essence == other.essence

    @property
    def purpose(self) -> str:
        """The question in one plain line, such as "top 10 of url by user_id"."""
        purpose = self._purpose_of_all() if self.is_of_all else self._purpose_of_items()
        if self.by is not None:
            purpose += f" in each of {self.groups} groups of {self.by}"
        if self.where is not None:
            purpose += f" where {self.where}"
        return printable(purpose)

    def _purpose_of_all(self) -> str:
        if self.sum is None:
            return f"count of {self.unit}"
        return f"total of {self.sum} by {self.unit}"

    def _purpose_of_items(self) -> str:
        counts = f"{self.item} by {self.sum or self.unit}"
        if self.threshold is None:
            return f"top {self.k} of {counts}"
        limit = "" if self.k is None else f", up to {self.k},"
        return f"above {readable(self.threshold)}{limit} of {counts}"

    def facts(self) -> dict[str, Any]:
        """The facts that bind a budget to a table, as JSON values."""
        return {
            "table": self.address,
            "unit": self.unit,
            "neighbours": str(self.neighbours),
            "columns": list(map(list, self.columns)),
            "private": self.is_private,
        }

    def guarantee(self) -> str:
        """The guarantee in plain words: the unit, the neighbours, what is public."""
        if not self.is_private:
            return (
                "NOT differentially private: the items were read from the private data itself "
                f"(domain {OBSERVED!r}), so a shown item can reveal that a unit is in the table. "
                f"The noise is that of ε = {readable(self.epsilon)}, but the result is not "
                "private. Use it only where people may see the data. To release it, state a public "
                "domain."
            )
        return " ".join((self.promise_of(self.epsilon, self.delta), *self.conditions()))

    def promise_of(self, epsilon: Fraction, delta: Fraction) -> str:
        """What an ε, and a δ if there is one, promise about this table."""
        change = f"one unit {_CHANGES[self.neighbours][0]}, with all its rows"
        return promise_in_words(epsilon, delta, change, "unit")

    def doubts(self) -> Iterator[str]:
        """Reasons why released totals may be near 0 though the true ones are not."""
        if self.sum_of_text:
            is_comma_possible = self.is_of_csv and self.decimal == "."
            comma = " For 16,48, state decimal ','." if is_comma_possible else ""
            yield printable(
                f"Check column {self.sum!r}: text such as '$16.48' or '16.48 €' is not a number, "
                f"and is ignored. Make it numeric first.{comma}"
            )

    def doubts_of_names(self, *, of_all: bool = True) -> Iterator[str]:
        """Reasons why counts may be near 0 although the table is large: all of them, or some."""
        if not (self.unknown or self.is_of_all):
            groups = "" if self.by is None else " and groups"
            yield f"If you expected more: write items{groups} exactly as they are in the table."
        if self.where is not None and of_all:
            yield "If you expected more: check the filter. It may keep no rows."

    def misread(self) -> Sequence[str]:
        """What is wrong if the encoding is not the one that was stated."""
        text = "text with letters such as é and ö"
        lost = {"utf-8": f"not UTF-8, {text} is missing", "latin-1": f"UTF-8, {text} is misread"}
        return [f"If the file is {lost[self.encoding]}."] if self.encoding in lost else []

    def forms_of_values(self) -> Iterable[str]:
        """How a filter reads dates and numbers in text."""
        if self.where is None:
            return ()
        sentences = []
        # The normal form may be longer than users may write.
        for comparison in comparisons_of(clause_of(str(self.where))):
            sentence = self._form_of_values(comparison)
            if sentence is not None:
                sentences.append(sentence)
        return dict.fromkeys(sentences)

    def _form_of_values(self, comparison: Comparison) -> str | None:
        """How one comparison reads dates and numbers in text, if it does."""
        column = f"column {printable(comparison.column)!r}"
        first = comparison.literals[0] if comparison.literals else ""
        is_text = self.is_of_csv or dict(self.columns).get(comparison.column) == "text"
        if is_text and self.decimal == "." and isinstance(first, Decimal):
            comma = "For 16,48 in a file, state decimal ','."
            return f"In {column}, only text such as 16.48 is read as a number. {comma}"
        if comparison.form is not None:
            return f"In {column}, only text in the form {comparison.form} is read as a date."
        if comparison.sign not in ORDERS:
            return None
        if _ISO_DAY.match(str(first)):
            rule = f"If {column} is text, its dates must be written as 2026-10-01."
            if self.is_of_text:
                rule = f"Only dates written as 2026-10-01 match in {column}."
            return f"{rule} For another form, use day(…)."
        if _ISO_MONTH.fullmatch(str(first)):
            return f"If {column} holds dates, compare it with a day such as 2026-10-01."
        return None

    def limits(self) -> list[str]:
        """The bounds of a unit, in words that follow "each unit"."""
        limits = []
        cuts = [] if self.has_one_item_each else self._random_cuts()
        if cuts:
            limits.append(f"counts {' and '.join(cuts)}, drawn at random")
        if self.sum is not None:
            limit = f"adds at least {readable(self.at_least)} and at most {readable(self.at_most)}"
            if not self.is_of_all:
                limit += " to each item"
            limits.append(limit)
        return limits

    def _random_cuts(self) -> list[str]:
        """How many groups and items count, if a unit may have more."""
        cuts = []
        groups = 1
        if self.by is not None:
            groups = self.groups_of_a_unit or self.max_groups
            if groups != self.groups:
                cuts.append(f"in {_few(groups, self.by, 'groups')}")
        if self.max_items is None:
            return cuts
        if self.items is None or self.max_items < groups * self.items:
            singular, plural = self.item, "items"
            if self.by is not None:
                singular, plural = "pair of group and item", "pairs of group and item"
            cuts.append(f"for {_few(self.max_items, singular, plural)}")
        return cuts

    def cuts(self) -> Iterator[str]:
        """How a unit is bounded, and which rows count: one sentence for each."""
        if self.sum is not None:
            rounded = f"Each row is rounded to {readable(self.step)}."
            yield printable(f"Column {self.sum!r} is added up. {rounded}")
        if limits := self.limits():
            yield f"Each unit {', and '.join(limits)}."
        if self.where is not None:
            yield printable(f"Only these rows count: {self.where}.")
        if self.encoding is not None:
            name = "latin-1 or cp1252" if self.encoding == "latin-1" else self.encoding
            yield f"The file is read as {name}; a field that cannot be read is a missing value."

    def conditions(self) -> Iterator[str]:
        """What a unit is, how much of it counts, and what is public: one sentence for each."""
        unit = f"all rows with the same value in column {self.unit!r}"
        if self.is_of_lines:
            unit = "one line of the file"
        elif self.unit == "row":
            unit = "one row"
        yield f"A unit is {unit}."
        if self.sum is None:
            yield f"Each unit counts once{'' if self.is_of_all else ' for each item that it has'}."
        yield from self.cuts()
        has_domain = not (self.unknown or self.is_of_all)
        if has_domain:
            yield "Items that are not in the domain are not counted."
        domain = f"the domain ({printable(self.domain)}), " if has_domain else ""
        groups = "" if self.by is None else f"the {self.groups} groups, "
        columns = f"the names and types of the columns{_CHANGES[self.neighbours][1]}"
        public = f"{domain}{groups}{columns} and all parameters are public."
        yield public[0].upper() + public[1:]
        yield "Everything else about the table is private."
        if has_domain:
            yield "The domain must be public: if it was read from the table, this does not hold."


@functools.cache
def held_fields() -> tuple[tuple[Field[Any], Held], ...]:
    """The fields of a question that a document holds, each with its form."""
    with_forms = []
    for field in fields(Question):
        hint: Any = field.type
        if hasattr(hint, "__metadata__"):
            with_forms.append((field, hint.__metadata__[0]))
    return tuple(with_forms)


_CHANGES = {
    Neighbours.ADD_OR_REMOVE: ("were added or taken away", ""),
    Neighbours.REPLACE: ("were replaced by any other", ", how many units there are"),
}


def promise_in_words(epsilon: Fraction, delta: Fraction, change: str, unit: str) -> str:
    """What an ε, and a δ if there is one, promise about a change."""
    exact_epsilon = f"ε = {readable_up(epsilon)}".replace("= ≈", "≈ ")
    effect = (
        f"if {change}, the probability of what is shown here would change by a factor of at most "
        f"{factor(epsilon)}."
    )
    if not delta:
        return f"Pure differential privacy with {exact_epsilon} and no δ: {effect}"
    exact_delta = f"δ = {readable_up(delta)}".replace("= ≈", "≈ ")
    return (
        f"Differential privacy with {exact_epsilon} and {exact_delta}: {effect} There is one "
        f"exception: with a probability of at most δ, it shows an item that only this {unit} has."
    )


_MOST_EPSILON = 20
_MOST_DELTA = Fraction(1, 1000)


def weak_promises(epsilon: Fraction, delta: Fraction) -> Iterator[str]:
    """Sentences about an ε or a δ that promises little; they are shown before it is paid."""
    if epsilon > _MOST_EPSILON:
        yield (
            f"ε is above {_MOST_EPSILON}, which promises hardly anything: one unit may change a "
            f"probability by a factor of {factor(epsilon)}."
        )
    if delta > _MOST_DELTA:
        yield (
            "δ is above 1/1,000: of 1,000 units with an item of their own, more than one may be "
            "shown. Usually δ is 1e-6 or less."
        )


def _few(number: int, singular: str, plural: str) -> str:
    if number == 1:
        return f"one {column_name(singular)} only"
    return f"at most {number:,} {plural}"


def _in_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return exact_text(value)
    return str(value) if isinstance(value, Filter) else value


# --------------------------------------------------------------------------------------------------
# Reading a question: every keyword by itself, and then whether they go together.


def read_question(
    kind: str,
    *,
    epsilon: Rational,
    k: int | None = None,
    threshold: Rational | None = None,
    delta: Rational = 0,
    adaptive: bool = True,
    method: str = "best",
    split: Rational | None = None,
    decimal: str | None = None,
) -> Question:
    """Read the keywords about the answer as exact numbers. All units together need only ε.

    `decimal` is the decimal mark of the table: with a comma, a threshold of 1.500 may mean 1500.

    >>> read_question("top-k", k=3, epsilon=0.5).epsilon
    Fraction(1, 2)
    """
    exact_epsilon = positive_rational("epsilon", epsilon)
    if kind in OF_ALL:
        return Question(kind=kind, epsilon=exact_epsilon)
    if kind == "top-k":
        return Question(
            kind=kind,
            k=positive_integer("k", k),
            epsilon=exact_epsilon,
            delta=chance("delta", delta),
            split=optional(share, "split", split),
            method=one_of("method", method, (*METHODS, HISTOGRAM)),
        )
    if decimal == ",":
        refuse_thousands("threshold", threshold)
    return Question(
        kind=kind,
        k=optional(positive_integer, "k", k),
        epsilon=exact_epsilon,
        delta=chance("delta", delta),
        split=optional(share, "split", split),
        threshold=rational("threshold", threshold),
        adaptive=boolean("adaptive", adaptive),
        method=one_of("method", method, (*ABOVE_METHODS, HISTOGRAM)),
    )


def read_counting(
    counting: Counting, *, is_unknown: bool = False, is_row: bool = False
) -> Question:
    """Read the keywords about counting; refuse those that do not go together.

    If units are rows, each has one item and one group: `max_items` and `max_groups` follow.
    """
    if counting.decimal == ",":
        refuse_thousands("at_most", counting.at_most)
        refuse_thousands("at_least", counting.at_least)
        _refuse_thousands_in_filter(counting.where)
    question = Question(
        unit=LINE if counting.unit is None else _column("unit", counting.unit),
        item=ITEM if counting.item is None else _column("item", counting.item),
        neighbours=Neighbours.read("neighbours", counting.neighbours),
        max_items=optional(positive_integer, "max_items", counting.max_items),
        by=optional(_text, "by", counting.by),
        max_groups=optional(positive_integer, "max_groups", counting.max_groups) or 1,
        sum=optional(_text, "sum", counting.sum),
        where=None if counting.where is None else read_filter(counting.where),
        unknown=is_unknown,
        encoding=optional(read_encoding, "encoding", counting.encoding),
        decimal="." if counting.decimal is None else read_decimal("decimal", counting.decimal),
    )
    if is_unknown and question.max_items is None:
        question = replace(question, max_items=_max_items_of_unknown(is_row=is_row))
    _require_groups(counting, question, is_row=is_row)
    if question.neighbours is Neighbours.REPLACE:
        _require_no_bound(question)
    _require_different_columns(counting)
    return _with_amounts(counting, question)


def _max_items_of_unknown(*, is_row: bool) -> int:
    if not is_row:
        raise TypeError(
            "domain must be a list, a range, a file or a frame of public items; None, for items "
            "that nobody listed, needs max_items: the most that one unit may count for"
        )
    return 1


def _require_groups(counting: Counting, question: Question, *, is_row: bool) -> None:
    """Refuse groups without their column, and a column of groups without their bound."""
    if question.by is None:
        if counting.groups is not None or question.max_groups != 1:
            raise ValueError(
                "groups and max_groups need by: the column that says which group it is"
            )
        return
    if counting.groups is None:
        raise ValueError("by needs groups: the public values of that column")
    if counting.max_groups is None and not is_row:
        # Any default would lower counts, or cost ε, without a word from the user.
        raise ValueError(
            "by needs max_groups: the most groups that a unit counts in. With 1, each unit counts "
            "in one group, drawn at random, so counts may be too low; with 2, ε is divided by two"
        )


def _require_no_bound(question: Question) -> None:
    """Refuse what needs neighbours that differ by a whole unit."""
    names = []
    if question.max_items is not None:
        names.append("max_items")
    if question.by is not None:
        names.append("by")
    if question.unknown:
        names.append("domain=None")
    if names:
        raise ValueError(
            f"{names[0]} needs neighbours 'add-or-remove': where a unit is replaced, both "
            "its old and its new items and groups move, which doubles the noise"
        )


def _require_different_columns(counting: Counting) -> None:
    columns = {"unit": counting.unit, "item": counting.item, "by": counting.by}
    for first, second in combinations(columns, 2):
        if columns[first] is not None and columns[first] == columns[second]:
            raise ValueError(f"{first} and {second} must be different columns")


def _with_amounts(counting: Counting, question: Question) -> Question:
    """The question with the bounds of its sum; without a sum there are none."""
    at_most = optional(positive_rational, "at_most", counting.at_most)
    at_least = rational("at_least", counting.at_least)
    step = positive_rational("step", counting.step)
    if question.sum is None:
        if at_most is not None or at_least or step != Fraction(_CENT):
            raise ValueError("at_most, at_least and step need sum: the column of amounts")
        return question
    if at_most is None:
        raise ValueError("sum needs at_most: the most that one unit may add to an item")
    if at_least > 0:
        raise ValueError(
            f"at_least must be 0 or below, not {counting.at_least!r}: a missing unit adds 0"
        )
    if max(step.numerator, step.denominator) > 10**9:
        raise ValueError(
            f"step must be a number such as 0.01, from 10^-9 to 10^9, not {counting.step!r}"
        )
    for name, end in (("at_most", at_most), ("at_least", at_least)):
        if (end / step).denominator != 1:
            raise ValueError(f"{name} must be a multiple of step, {step}, not {end}")
        if abs(end / step) > MAX_CAP:
            raise ValueError(f"{name} must be at most 2^40 steps: state a larger step")
    return replace(question, at_most=at_most, at_least=at_least, step=step)


def refuse_thousands(name: str, value: object) -> None:
    """Refuse 1.500 in text beside a file with a decimal comma: it may mean 1500, or 1.5."""
    if isinstance(value, str) and THOUSANDS.fullmatch(value):
        raise ValueError(f"{name} has {_without_point(value)}")


def _refuse_thousands_in_filter(where: object) -> None:
    if not isinstance(where, str):
        return
    for token in tokens_of(where):
        match = THOUSANDS.match(where, token.at)
        if token.kind == "number" and match is not None:
            raise error_at(where, token.at, f"this number has {_without_point(match[0])}")


def _without_point(text: str) -> str:
    """What is wrong with a number such as 1.500, and what to write."""
    advice = f"a point, which separates decimals here: write {text.replace('.', '')}"
    if text.count(".") > 1:
        return advice
    if text.endswith("0"):
        return f"{advice}, or {text.rstrip('0').rstrip('.')}"
    return f"{advice}, or {text}0"
