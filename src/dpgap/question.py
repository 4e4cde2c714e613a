"""A question about a table: what is counted, how units are bounded, which rows, what it costs.

A `Question` is a frozen value. All of it is public: parameters, names, the kind of neighbouring
tables, and facts from the schema and the address of the table. So a question can be made before
anything is charged, and it states what will be paid for.

Calls, options of the command line, sessions, the desk, ledgers and release documents read it from
here. A keyword is defined only here, in two places. A `TypedDict` below, such as `Whose` or
`Cutting`, states what users may write, the default and the help. A field of `Question` holds the
value that was read, and states its form in a document. `dpgap.data.filtering` says what a filter
means row by row.

>>> read_counting({"unit": "who", "item": "what", "sum": "paid", "at_most": 50}).sensitivity
Fraction(5000, 1)
"""

import codecs
import functools
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
)

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

KINDS = ("top-k", "above", "count", "total")
"""The kinds of questions. The last two are about all units together, and have no items."""

METHODS = ("best", "joint", "ranked", "paper")
HISTOGRAM = "histogram"
"""A method that needs `max_items`."""
ABOVE_METHODS = ("best", "paper")

ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
DECIMALS = (".", ",")

MAX_CAP = 1 << 40
"""The most steps that a unit may add to an item, so that sums stay exact."""

_ENTRY = re.compile(r"^(\w+)\n((?: {4}.+\n)+)", re.MULTILINE)
_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_MONTH = re.compile("[0-9]{4}-[0-9]{2}")
_Call = TypeVar("_Call", bound=Callable[..., Any])


# --------------------------------------------------------------------------------------------------
# Keywords: what users may write, the defaults, and the meaning.


class Keyword(NamedTuple):
    """How the value of a keyword is read, and its default."""

    read: Callable[[str, Any], Any] | None = None
    """None: the value is read when the table is read."""
    default: Any = None


def _text(name: str, value: object, what: str = "text") -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {what}, not {type(value).__name__}")
    return value


_column = functools.partial(_text, what="the name of a column")


def one_of(name: str, value: object, words: Sequence[str]) -> str:
    """`value`, if it is one of these words."""
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}")
    return str(value)


def _encoding(name: str, value: Any) -> str:
    """The one name of an encoding that has several; latin-1 is read as cp1252."""
    words = {codecs.lookup(word).name: word for word in ENCODINGS} | {"cp1252": "latin-1"}
    with suppress(LookupError, TypeError, ValueError):
        value = words.get(codecs.lookup(value).name, value)
    return one_of(name, value, ENCODINGS)


def chance(name: str, value: object) -> Fraction:
    """`value` as an exact rational from zero to less than one."""
    number = rational(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, not {value!r}")
    return number


class Whose(TypedDict, total=False):
    """Whose rows they are.

    unit
        The column that names the unit of each row; or "row", or "line". All rows with the same
        value are protected together. "row" protects single rows; "line", lines of a FIMI file.
    """

    unit: Annotated[str | None, Keyword(_column)]


class Reading(TypedDict, total=False):
    """How neighbouring tables differ, and how a file is read.

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
    """

    neighbours: Annotated[str | None, Keyword(Neighbours.read, "add-or-remove")]
    encoding: Annotated[str | None, Keyword(_encoding)]
    decimal: Annotated[str | None, Keyword(functools.partial(one_of, words=DECIMALS))]


class Filtered(TypedDict, total=False):
    """Which rows count.

    where
        Which rows count, such as "country = 'CH' and amount >= 10". It has columns, numbers,
        'text', = != < <= > >=, in (…), between, like, is null, and, or, not; and for dates in text
        "day(ordered, 'DD.MM.YYYY') >= '2024-01-31'".
    """

    where: Annotated[str | None, Keyword(lambda _, text: read_filter(text))]


class Amounts(TypedDict, total=False):
    """Options of sums, in addition to the column and the most that a unit adds.

    at_least
        With `sum`: the least that a unit adds to a sum, 0 or below.
    step
        With `sum`: what each row's amount is rounded to.
    """

    at_least: Annotated[Rational, Keyword(rational, 0)]
    step: Annotated[Rational, Keyword(positive_rational, "0.01")]


class Cutting(TypedDict, total=False):
    """Items and groups, and how much one unit counts.

    domain
        The public items: a list (on the command line A,B), a range (0..16469), a file of items,
        "items.parquet:column", in a database also "table:column", or a frame of one column; without
        it, all items that occur count (needs `delta` and `max_items`). The list must not be read
        from the private table.
    max_items
        The most items that a unit counts for; if it has more, this many are drawn at random. A
        smaller number means less noise, but lower counts if units have more items. With `by` it is
        the most pairs of group and item.
    groups
        The public groups, in the order of the answer: a list (on the command line CH,DE,FR or
        groups.txt).
    max_groups
        The most groups that a unit counts in; `by` needs it, unless the unit is a row. 1: each unit
        counts in one group only, drawn at random. More than one divides ε among them.
    sum
        The column whose amounts are added up, instead of counting units.
    at_most
        With `sum`: the most that a unit adds to a sum. The noise grows with it.
    """

    domain: Annotated["DomainLike | None", Keyword()]
    max_items: Annotated[int | None, Keyword(positive_integer)]
    groups: Annotated[Iterable[object] | None, Keyword()]
    max_groups: Annotated[int | None, Keyword(positive_integer)]
    sum: Annotated[str | None, Keyword(_text)]
    at_most: Annotated[Rational | None, Keyword(positive_rational)]


class Bounds(Cutting, Amounts, Filtered, total=False):
    """What is counted, cut and filtered."""


class What(TypedDict, total=False):
    """What is counted.

    item
        The column whose values are counted.
    """

    item: Annotated[str | None, Keyword(_column)]


class CountOptions(Whose, What, Reading, Bounds, total=False):
    """All options that say what is counted."""


class Paid(TypedDict, total=False):
    """What it costs.

    epsilon
        The privacy budget ε that the whole answer costs: a number, or text as "0.7" or "2/3".
    fresh
        Whether to pay for the rows as they are now if the same question was asked before.
        Otherwise the paid answer is shown again, and nothing is charged, if this session or the
        ledger has it. A ledger knows files and addresses; a frame has no name, so only a session
        knows its questions.
    """

    epsilon: Required[Annotated[Rational, Keyword(positive_rational)]]
    fresh: Annotated[bool, Keyword(boolean, False)]


class OfAll(Whose, Reading, Filtered, Paid, total=False):
    """The options of questions about all units together."""


class Answered(TypedDict, total=False):
    """How it is answered.

    delta
        Without a `domain`: the chance that an item of only one unit is shown, such as 1e-6.
    method
        "best", the default: it chooses the route; "paper": as in the paper; "histogram": all items
        measured at once, for `max_items` only; for a top k also "joint": as a set, and "ranked":
        ranked, with gaps.
    split
        The share of ε for selecting. Without it the method chooses.
    """

    delta: Annotated[Rational, Keyword(chance, 0)]
    method: Annotated[str | None, Keyword()]
    split: Annotated[Rational | None, Keyword(share)]


class TopK(Answered, Paid, total=False):
    """Options of questions for the largest items."""

    k: Required[Annotated[int, Keyword(positive_integer)]]


class Above(Answered, Paid, total=False):
    """Options of questions for the items above a threshold.

    threshold
        The count, or the sum, that an item must have.
    k
        How many items to find. Above a threshold: for how many ε pays at the full price; with
        `max_items` it may be left out, and all items above are shown.
    adaptive
        Whether to pay less for items far above the threshold, so that more than k may be found.
    """

    threshold: Required[Annotated[Rational, Keyword(rational)]]
    k: Annotated[int | None, Keyword(positive_integer)]
    adaptive: Annotated[bool, Keyword(boolean, True)]


class Grouped(TypedDict, total=False):
    """The option that changes the type of an answer; so calls have it in their own signatures.

    by
        The column of the groups: each group gets an answer.
    """

    by: Annotated[str | None, Keyword(_text)]


def hints_of(options: Any) -> dict[str, Any]:
    """The types of options, annotated with their keywords; those that must be given come first."""
    hints, needed = options.__annotations__, options.__required_keys__
    first = {name: hints[name].__args__[0] for name in sorted(needed, reverse=True)}
    return first | {name: hint for name, hint in hints.items() if name not in needed}


def _keywords(*stated: Any) -> dict[str, Keyword]:
    hints = (hint for it in stated for hint in hints_of(it).items())
    return {name: hint.__metadata__[0] for name, hint in hints}


KEYWORDS = _keywords(Grouped, CountOptions, TopK, Above)
COUNTING = tuple(dict.fromkeys(("unit", "item", "domain", "by", *_keywords(CountOptions))))
WANTED = ("kind", *(name for name in KEYWORDS if name not in (*COUNTING, "fresh")))
"""The fields of a question about its answer; all others are about what is counted."""


@functools.cache
def help_of(*also: Any) -> dict[str, str]:
    """The help of each keyword, by its name, as lines of a docstring."""
    stated = (Whose, What, Reading, Filtered, Amounts, Cutting, Grouped, Answered, Paid, Above)
    texts = (inspect.cleandoc(it.__doc__ or "") + "\n" for it in (*stated, *also))
    return dict(entry for text in texts for entry in _ENTRY.findall(text))


def option_help(name: str) -> str:
    """The first sentence of a keyword's help, with --max-items in place of `max_items`."""
    short = " ".join(help_of().get(name, "").split()).partition(". ")[0].removesuffix(".") + "."
    return re.sub("`([a-z_]+)`", lambda found: f"--{found[1].replace('_', '-')}", short)


def takes(options: Any, *also: Any) -> Callable[[_Call], _Call]:
    """Decorate a function that takes such options: its signature and its help show each one."""

    def shown(function: _Call) -> _Call:
        own, needed = inspect.signature(function), options.__required_keys__
        *explicit, last = own.parameters.values()
        expanded = [
            inspect.Parameter(
                name,
                last.KEYWORD_ONLY,
                default=last.empty if name in needed else hint.__metadata__[0].default,
                annotation=getattr(hint.__origin__, "__forward_arg__", hint.__origin__),
            )
            for name, hint in hints_of(options).items()
        ]
        every = sorted([*expanded, *explicit], key=lambda it: it.kind)  # positional ones first
        vars(function)["__signature__"] = own.replace(parameters=every)
        told = {name: help_of(*also).get(name, "") for name in hints_of(options)}
        lines = "".join(f"{name}\n{text}" for name, text in told.items())
        # From Python 3.13 on docstrings have no indentation.
        doc = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = doc.replace("{options}", lines.rstrip("\n"))
        return function

    return shown


def require_options(kind: str, given: Iterable[str], options: Any) -> None:
    """Refuse keywords that a kind of question does not take, and require those that it needs."""
    function = kind.replace("-", "_")
    for name in given:
        if name not in options.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    for name in sorted(options.__required_keys__ - {*given}):
        raise TypeError(f"{function}() needs the keyword argument {name!r}")


def stated_counting(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of counting that differ from their defaults."""
    stated = {name: (given[name], KEYWORDS[name].default) for name in COUNTING if name in given}
    return {
        name: value
        for name, (value, default) in stated.items()
        if (value is not None if default is None else str(value) != str(default))
    }


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

    Fields have the order of release documents. Keywords are explained above, where they are
    defined; here None means that a keyword was not stated. Before a question is asked, only the
    fields about counting are set.
    """

    kind: Annotated[str, Held(("word", *KINDS), is_always_there=True)] = "counts"
    k: Annotated[int | None, Held(("whole", 1))] = None
    epsilon: Annotated[Fraction, Held(("positive",), is_always_there=True)] = Fraction(0)
    delta: Annotated[Fraction, _A_SHARE] = Fraction(0)
    split: Annotated[Fraction | None, _A_SHARE] = None
    threshold: Annotated[Fraction | None, _BELOW_2_200] = None
    adaptive: Annotated[bool, Held(("flag",), is_always_there=True)] = False
    method: Annotated[str, Held(("word", *METHODS, HISTOGRAM), is_always_there=True)] = "best"
    unit: Annotated[str, Held(("text",), is_always_there=True)] = "line"
    item: Annotated[str, Held(("text",), is_always_there=True)] = "item"
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
        return replace(counted, **{name: getattr(self, name) for name in WANTED})

    def among(self, groups: int, digest: str) -> "Question":
        """The same question, about so many groups: a unit cannot be in more of them."""
        most = min(self.max_groups, groups)
        return replace(self, groups=groups, groups_digest=digest, max_groups=most)

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
        return self.kind in ("count", "total")

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
        named = (self.by, self.sum, *(self.where.columns if self.where else ()))
        return tuple(dict.fromkeys(name for name in named if name is not None))

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
        bound = {it: getattr(self, it.name) for it, held in held_fields() if held.is_bound}
        return {it.name: _in_json(value) for it, value in bound.items() if value != it.default}

    @property
    def identity(self) -> str | None:
        """Stable hash of question and table: the same for the same question in any spelling.

        It is None if nothing identifies the table (a frame) or the domain: two frames that look
        alike may hold different data. Hashes must never change. So a parameter that is added later
        goes into the hash only if it does not have its default.
        """
        table, domain = self.address or self.table, self.digest
        if self.unknown or self.is_of_all:
            domain = ""
        if self.recorded is not None or table is None or domain is None:
            return self.recorded
        named = ("kind", "k", "epsilon", "delta", "method", "split", "threshold", "adaptive")
        body = {name: _in_json(getattr(self, name)) for name in (*named, "unit", "item")}
        body |= {"neighbours": str(self.neighbours), "table": table, "domain": domain}
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
        asked, of = f"top {self.k}", f"{self.item} by {self.sum or self.unit}"
        if self.is_of_all:
            of_sum = "total", f"{self.sum} by {self.unit}"
            asked, of = ("count", self.unit) if self.sum is None else of_sum
        elif self.threshold is not None:
            limit = "" if self.k is None else f", up to {self.k},"
            asked = f"above {readable(self.threshold)}{limit}"
        asked += f" of {of}"
        if self.by is not None:
            asked += f" in each of {self.groups} groups of {self.by}"
        if self.where is not None:
            asked += f" where {self.where}"
        return printable(asked)

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
        said, families = [], dict(self.columns)
        # The normal form may be longer than users may write.
        for it in comparisons_of(clause_of(str(self.where))):
            column = f"column {printable(it.column)!r}"
            is_text = self.is_of_csv or families.get(it.column) == "text"
            if is_text and self.decimal == "." and isinstance((*it.literals, "")[0], Decimal):
                comma = "For 16,48 in a file, state decimal ','."
                said.append(f"In {column}, only text such as 16.48 is read as a number. {comma}")
            elif it.form is not None:
                said.append(f"In {column}, only text in the form {it.form} is read as a date.")
            elif it.sign in ORDERS and _ISO_DAY.match(str(it.literals[0])):
                rule = f"If {column} is text, its dates must be written as 2026-10-01."
                if self.is_of_text:
                    rule = f"Only dates written as 2026-10-01 match in {column}."
                said.append(f"{rule} For another form, use day(…).")
            elif it.sign in ORDERS and _ISO_MONTH.fullmatch(str(it.literals[0])):
                said.append(f"If {column} holds dates, compare it with a day such as 2026-10-01.")
        return dict.fromkeys(said)

    def limits(self) -> list[str]:
        """The bounds of a unit, in words that follow "each unit"."""
        counted, limits, groups, most = [], [], 1, self.max_items
        if self.by is not None and not self.has_one_item_each:
            groups = self.groups_of_a_unit or self.max_groups
            if groups != self.groups:
                counted.append(f"in {_few(groups, self.by, 'groups')}")
        is_cut = self.items is None or (most or 0) < groups * self.items
        if most is not None and is_cut and not self.has_one_item_each:
            pairs = ("pair of group and item", "pairs of group and item")
            of_items = (self.item, "items") if self.by is None else pairs
            counted.append(f"for {_few(most, *of_items)}")
        if counted:
            limits.append(f"counts {' and '.join(counted)}, drawn at random")
        if self.sum is not None:
            ends = f"at least {readable(self.at_least)} and at most {readable(self.at_most)}"
            limits.append(f"adds {ends}{'' if self.is_of_all else ' to each item'}")
        return limits

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
    every: Any = fields(Question)
    return tuple((it, it.type.__metadata__[0]) for it in every if hasattr(it.type, "__metadata__"))


_CHANGES = {
    Neighbours.ADD_OR_REMOVE: ("were added or taken away", ""),
    Neighbours.REPLACE: ("were replaced by any other", ", how many units there are"),
}


def promise_in_words(epsilon: Fraction, delta: Fraction, change: str, who: str) -> str:
    """What an ε, and a δ if there is one, promise about a change."""
    kind, chance, exception = "Pure differential privacy", "no δ", ""
    if delta:
        kind, chance = "Differential privacy", f"δ = {readable_up(delta)}"
        exception = (
            " There is one exception: with a probability of at most δ, it shows an item that only "
            f"this {who} has."
        )
    numbers = f"ε = {readable_up(epsilon)} and {chance}".replace("= ≈", "≈ ")
    return (
        f"{kind} with {numbers}: if {change}, the probability of what is shown here would change "
        f"by a factor of at most {factor(epsilon)}.{exception}"
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


def _few(number: int, one: str, several: str) -> str:
    return f"one {column_name(one)} only" if number == 1 else f"at most {number:,} {several}"


def _in_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return exact_text(value)
    return str(value) if isinstance(value, Filter) else value


# --------------------------------------------------------------------------------------------------
# Reading a question: every keyword by itself, and then whether they go together.


def read_wanted(kind: str, stated: Mapping[str, Any]) -> Question:
    """Read the keywords about the answer (k, ε, threshold, …) as exact numbers."""
    held = _read(WANTED, stated)
    if kind == "above":
        line = rational("threshold", stated.get("threshold"))  # None is not left out
        held = {"adaptive": True, **held, "threshold": line}
    methods = ABOVE_METHODS if kind == "above" else METHODS
    held["method"] = one_of("method", held.get("method") or "best", (*methods, HISTOGRAM))
    return Question(kind=kind, **held)


def read_counting(
    stated: Mapping[str, Any], *, is_unknown: bool = False, is_row: bool = False
) -> Question:
    """Read the keywords about counting; refuse those that do not go together.

    If units are rows, each has one item and one group: `max_items` and `max_groups` follow.
    """
    held = _read(COUNTING, stated_counting(stated))
    by, groups = held.get("by"), held.pop("groups", None)
    held.pop("domain", None)
    if is_unknown and "max_items" not in held:
        if not is_row:
            raise TypeError(
                "domain must be a list, a range, a file or a frame of public items; None, for "
                "items that nobody listed, needs max_items: the most that one unit may count for"
            )
        held["max_items"] = 1
    if "max_groups" not in held and by is not None and groups is not None and not is_row:
        # Any default would lower counts, or cost ε, without a word from the user.
        raise ValueError(
            "by needs max_groups: the most groups that a unit counts in. With 1, each unit counts "
            "in one group, drawn at random, so counts may be too low; with 2, ε is divided by two"
        )
    if by is None and (groups is not None or held.get("max_groups", 1) != 1):
        raise ValueError("groups and max_groups need by: the column that says which group it is")
    if by is not None and groups is None:
        raise ValueError("by needs groups: the public values of that column")
    if held.get("neighbours") is Neighbours.REPLACE:
        given = {"max_items": "max_items" in held, "by": by is not None, "domain=None": is_unknown}
        for name in (name for name, is_given in given.items() if is_given):
            raise ValueError(
                f"{name} needs neighbours 'add-or-remove': where a unit is replaced, both "
                "its old and its new items and groups move, which doubles the noise"
            )
    for one, other in combinations(("unit", "item", "by"), 2):
        if one in held and held[one] == held.get(other):
            raise ValueError(f"{one} and {other} must be different columns")
    if "sum" in held:
        _require_sum(held, stated)
    elif held.keys() & {"at_most", "step"} or held.pop("at_least", 0):
        raise ValueError("at_most, at_least and step need sum: the column of amounts")
    return Question(**held, unknown=is_unknown)


def _read(names: Iterable[str], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the stated keywords, as a question holds them."""
    if stated.get("decimal") == ",":
        refuse_thousands(stated)
    held = {}
    for name in names:
        if (given := stated.get(name)) is not None:
            read = KEYWORDS[name].read
            held[name] = given if read is None else read(name, given)
    return held


def refuse_thousands(stated: Mapping[str, Any]) -> None:
    """Refuse 1.500 in text beside a file with a decimal comma: it may mean 1500, or 1.5."""

    def why(text: str) -> str:
        short = text.rstrip("0").rstrip(".") if text.endswith("0") else f"{text}0"
        other = f", or {short}" if text.count(".") == 1 else ""
        return f"a point, which separates decimals here: write {text.replace('.', '')}{other}"

    for name in ("at_most", "at_least", "threshold"):
        if isinstance(text := stated.get(name), str) and THOUSANDS.fullmatch(text):
            raise ValueError(f"{name} has {why(text)}")
    where: Any = stated.get("where")
    for token in tokens_of(where) if isinstance(where, str) else ():
        if token.kind == "number" and (found := THOUSANDS.match(where, token.at)):
            raise error_at(where, token.at, f"this number has {why(found[0])}")


def _require_sum(held: dict[str, Any], stated: Mapping[str, Any]) -> None:
    """Complete and check the options of a sum: the column, its bounds and its step."""
    if "at_most" not in held:
        raise ValueError("sum needs at_most: the most that one unit may add to an item")
    least = held.setdefault("at_least", Fraction(0))
    width = held.setdefault("step", Fraction(KEYWORDS["step"].default))
    if least > 0:
        raise ValueError(
            f"at_least must be 0 or below, not {stated['at_least']!r}: a missing unit adds 0"
        )
    if max(width.numerator, width.denominator) > 10**9:
        raise ValueError(
            f"step must be a number such as 0.01, from 10^-9 to 10^9, not {stated['step']!r}"
        )
    for name in ("at_most", "at_least"):
        if (held[name] / width).denominator != 1:
            raise ValueError(f"{name} must be a multiple of step, {width}, not {held[name]}")
        if abs(held[name] / width) > MAX_CAP:
            raise ValueError(f"{name} must be at most 2^40 steps: state a larger step")
