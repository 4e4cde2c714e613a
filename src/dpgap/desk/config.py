r"""The steward's file: data sets, topics and people, checked as a whole before anything starts.

It is TOML. Every fault that is found names its line. Paths are meant from the folder of the file.

>>> text = "[desk]\ntick = 1\n\n[[data.sales.topics]]\nitem = 'product'\n"
>>> lines = key_lines(text)
>>> lines["desk", "tick"], lines["data", "sales", "topics", "0", "item"]
(2, 5)
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

from dpgap.budget.requests import is_one_table
from dpgap.desk import file_checks as check
from dpgap.exact.parameters import positive_integer, positive_rational, rational
from dpgap.question import COUNTING, KEYWORDS, Neighbours, read_counting

# --------------------------------------------------------------------------------------------------
# Where in a TOML file a key stands, so that a fault can name its line.


KeyPath = tuple[str, ...]

_MOST_PARTS = 32

_HEADER = re.compile(r"^\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every table and key, by its path; an entry of an array has its number.

    A key of very many parts raises `RecursionError`: tomllib would take minutes to read it.
    """
    found: dict[KeyPath, int] = {}
    entries: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for line, content in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(content):
            table = _parts(header[2])
            if header[1] == "[[":
                entries[table] = entries.get(table, -1) + 1
            table = _numbered(table, entries)
            found.setdefault(table, line)
        elif key := _KEY.match(content):
            found.setdefault((*table, *_parts(key[1])), line)
    return found


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int:
    """The line of a path, or of the nearest table around it."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _parts(words: str) -> KeyPath:
    """The parts of a dotted key, as TOML reads them."""
    if words.count(".") > _MOST_PARTS:
        raise RecursionError
    try:
        value = tomllib.loads(f"{words} = 0")
    except tomllib.TOMLDecodeError:
        return (words,)
    parts = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)


def _numbered(table: KeyPath, entries: dict[KeyPath, int]) -> KeyPath:
    """The path with the number of the entry after every array that it goes through."""
    path: KeyPath = ()
    for end in range(1, len(table) + 1):
        path = (*path, table[end - 1])
        if table[:end] in entries:
            path = (*path, str(entries[table[:end]]))
    return path


# --------------------------------------------------------------------------------------------------


_REQUIRED: Final = object()
_LARGEST = 4 << 20
"""The most bytes of a file that is read."""
_SHOWN = 50
_PASSWORD = re.compile("://[^/@]*:[^/@]+@")

_DESK: dict[str, tuple[check.Check, Any]] = {
    "ledger": (check.address, _REQUIRED),
    "spool": (check.address, None),
    "title": (check.words, "dpgap desk"),
    "tick": (check.tick, Fraction(1)),
    "hosts": (check.several(check.host), ()),
    "https": (check.yes_or_no, True),
    "key": (check.key, None),
}
_LIMITS: dict[str, tuple[check.Check, Any]] = {
    "least_epsilon": (check.positive, None),
    "questions_a_day": (check.counting, None),
    "megabytes_a_day": (check.counting, None),
}
_PERSON: dict[str, tuple[check.Check, Any]] = {
    "role": (check.one_of("analyst", "steward"), "analyst"),
    "tokens": (check.several(check.token), ()),
    **_LIMITS,
}
_DATASET: dict[str, tuple[check.Check, Any]] = {
    "title": (check.words, None),
    "table": (check.address, _REQUIRED),
    "unit": (check.words, _REQUIRED),
    "neighbours": (check.one_of(*Neighbours), "add-or-remove"),
    "budget": (check.spelt, None),
    "beside": (check.spelt, None),
    "epsilon": (check.positive, None),
    "delta": (check.amount, Fraction(0)),
    "people": (check.shares, {}),
    "megabytes": (check.counting, 1000),
    **_LIMITS,
}
_BY_READER: dict[Any, check.Check] = {
    positive_integer: check.counting,
    positive_rational: check.positive,
    rational: check.number,
}
_LISTS = {"domain": check.items, "groups": check.several(check.label)}
_COUNTING: dict[str, tuple[check.Check, Any]] = {
    name: (_LISTS.get(name) or _BY_READER.get(KEYWORDS[name].read, check.words), None)
    for name in COUNTING
    if name not in ("unit", "neighbours")
}
_TOPIC = {"name": (check.name, _REQUIRED), "title": (check.words, None), **_COUNTING}


class FileFaults(ValueError):  # noqa: N818 - it says what they are
    """All that is wrong with a steward's file, a line each."""

    def __init__(self, path: Path, faults: list[tuple[int, str]]) -> None:
        self.lines = [f"{path}, line {line}: {words}" for line, words in sorted(faults)[:_SHOWN]]
        if len(faults) > _SHOWN:
            self.lines.append(f"{path}: and {len(faults) - _SHOWN} more faults")
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that can be asked about, counted once: an item with its bounds, or the units."""

    name: str
    title: str
    item: str | None
    """The column of the items; None: how many units there are."""
    counting: Mapping[str, Any]
    """The keywords of `dpgap.counts`, besides table, unit and neighbours."""
    words: tuple[str, ...]
    """How it is counted, a short line for each bound. All of it is public."""
    line: int

    @property
    def is_of_units(self) -> bool:
        """Whether only the number of units can be asked."""
        return self.item is None

    @property
    def has_unknown_items(self) -> bool:
        """Whether items are not stated, so that a question needs a δ."""
        return self.item is not None and self.counting.get("domain") is None


class PersonLimits(NamedTuple):
    """What bounds one person's questions about a data set, whatever the budget has left."""

    least_epsilon: Fraction = Fraction(1, 1000)
    questions_a_day: int = 200
    megabytes_a_day: int = 20
    """How much the archive may grow by their questions, in a day."""


@dataclass(frozen=True, slots=True)
class ListedData:
    """A table, who may ask about it, and which budget pays."""

    name: str
    title: str
    table: str
    unit: str
    neighbours: str
    budget: str
    """Its name in the ledger."""
    beside: str | None
    """The budget that is for the same table and unit, if there is one and this is meant."""
    epsilon: Fraction | None
    """What the budget is opened with, if the ledger has none of this name."""
    delta: Fraction
    people: Mapping[str, check.Allowance | None]
    """Who may ask, and the allowance that they start with; None: all that is left."""
    megabytes: int
    """How large its archive may become."""
    limits: PersonLimits
    """What bounds each person who has no limits of their own."""
    topics: Mapping[str, Topic]
    line: int


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom the desk knows."""

    name: str
    is_steward: bool = False
    tokens: tuple[str, ...] = ()
    """Hashes of tokens."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What holds for them instead of the limits of a data set, by name."""


@dataclass(frozen=True, slots=True)
class StewardsFile:
    """All that a desk must know, checked."""

    path: Path
    ledger: str
    spool: str
    """The directory where answers wait for the ledger."""
    title: str
    tick: float
    hosts: tuple[str, ...]
    https: bool
    key: str | None
    people: Mapping[str, Person]
    datasets: Mapping[str, ListedData]

    @property
    def has_tokens(self) -> bool:
        """Whether people enter by tokens; else by a link that the desk prints."""
        return any(person.tokens for person in self.people.values())

    def exposed(self) -> str | None:
        """What others on this machine can do with the file and should not, if there is anything."""
        mode = self.path.stat().st_mode
        addresses = (self.ledger, *(data.table for data in self.datasets.values()))
        if mode & 0o002:
            return f"everybody on this machine can change {self.path}, and so let anybody in"
        if mode & 0o004 and (self.key or any(map(_PASSWORD.search, addresses))):
            return f"everybody on this machine can read the key or a password in {self.path}"
        return None


def read_stewards_file(path: str | Path) -> StewardsFile:
    """The file, if nothing is wrong with it; else `FileFaults` with all that is."""
    file = Path(path)
    with file.open("rb") as opened:
        found = opened.read(_LARGEST + 1)
    if len(found) > _LARGEST:
        words = f"is longer than {_LARGEST >> 20} MiB: a long domain belongs in a file of its own"
        raise FileFaults(file, [(1, words)])
    try:
        text = found.decode()
        lines = key_lines(text)
        content = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError:
        raise FileFaults(file, [(1, "must be text in UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        line = int(where[1]) if where else len(text.splitlines())
        raise FileFaults(file, [(line, "is not TOML")]) from None
    except RecursionError:
        words = "has too many lists or tables within each other"
        raise FileFaults(file, [(1, words)]) from None
    except ValueError:  # an integer of more digits than Python reads
        raise FileFaults(file, [(1, "has a number with too many digits")]) from None
    return _FileReader(file, lines).read(content)


@dataclass(slots=True)
class _FileReader:
    """Reads one file, and collects what is wrong with it."""

    path: Path
    lines: dict[tuple[str, ...], int]
    faults: list[tuple[int, str]] = field(default_factory=list)

    def read(self, content: Mapping[str, Any]) -> StewardsFile:
        for unknown in content.keys() - {"desk", "people", "datasets"}:
            self._fault((unknown,), "is not known: desk, people and datasets are")
        desk = self._table(content.get("desk", {}), _DESK, ("desk",))
        listed = {
            name: self._pass((name,), check.table, content.get(name, {})) or {}
            for name in ("people", "datasets")
        }
        people: dict[str, Person] = {}
        for name, each in listed["people"].items():
            person = self._person(name, each)
            if people.setdefault(person.name, person) is not person:
                self._fault(
                    ("people", name), "is listed already, with its letters encoded otherwise"
                )
        self._require_one_owner(people)
        datasets = {
            name: self._dataset(name, each, people) for name, each in listed["datasets"].items()
        }
        if not datasets:
            self._fault(("datasets",), "must name at least one data set")
        if not self.faults:
            self._require_one_archive(datasets)
            self._require_one_budget(datasets.values())
            if desk["hosts"] and not (desk["key"] and any(each.tokens for each in people.values())):
                words = (
                    "needs a key (`dpgap desk --key`) and people with tokens (`dpgap desk --token`)"
                )
                self._fault(("desk", "hosts"), f"{words}: others can reach this desk")
        if self.faults:
            raise FileFaults(self.path, self.faults)
        desk["ledger"] = self._place(desk["ledger"], "sqlite:///")
        desk["spool"] = self._place(desk["spool"] or self.path.stem + ".spool")
        desk["tick"] = float(desk["tick"])
        return StewardsFile(self.path, **desk, people=people, datasets=datasets)

    def _require_one_owner(self, people: Mapping[str, Person]) -> None:
        """A token says who somebody is, so nobody shares one."""
        owners: dict[str, str] = {}
        for name, token in ((each.name, it) for each in people.values() for it in each.tokens):
            if (owner := owners.setdefault(token, name)) != name:
                line = line_of(("people", owner, "tokens"), self.lines)
                words = f"has a token that people.{owner}.tokens has on line {line}: a token is of"
                self._fault(("people", name, "tokens"), f"{words} one person")

    def _require_one_archive(self, datasets: Mapping[str, ListedData]) -> None:
        """A budget has one archive: whoever may see it for one data set sees it for all."""
        people: dict[str, Any] = {}
        for data in datasets.values():
            if people.setdefault(data.budget, data.people.keys()) != data.people.keys():
                words = "must list the same people as the other data set with this budget:"
                self._fault(("datasets", data.name, "people"), f"{words} they share an archive")

    def _require_one_budget(self, datasets: Iterable[ListedData]) -> None:
        """The ε of two budgets for the same units add up, so it must be stated that it is meant."""
        for other, data in combinations(datasets, 2):
            one, two = ({"table": it.table, "unit": it.unit} for it in (other, data))
            is_meant = data.beside == other.budget or other.beside == data.budget
            if data.budget != other.budget and is_one_table(one, two) and not is_meant:
                words = f"has the table and unit of datasets.{other.name}, and the ε of both add up"
                mend = f"state the same budget, or beside = {other.budget!r} if this is meant"
                self._fault(("datasets", data.name, "table"), f"{words}: {mend}")

    def _person(self, name: str, content: Any) -> Person:
        spelt = self._pass(("people", name), check.spelt, name) or name
        found = self._table(content, _PERSON, ("people", name))
        tokens = found["tokens"] or ()
        return Person(spelt, found["role"] == "steward", tokens, _limits_in(found))

    def _dataset(self, name: str, content: Any, people: Mapping[str, Person]) -> Any:
        where = ("datasets", name)
        self._pass(where, check.name, name)
        content = self._pass(where, check.table, content) or {}
        plain = {each: content[each] for each in content if each != "topics"}
        found = self._table(plain, _DATASET, where)
        for person in (found["people"] or {}).keys() - people.keys():
            self._fault((*where, "people"), f"names {person!r}, who is not under people")
        topics = self._topics(content.get("topics"), where, found)
        if self.faults:
            return None
        for own in ("title", "budget"):
            found[own] = found[own] or name
        found["table"] = self._place(found["table"])
        limits = PersonLimits(**_limits_in(found))
        found = {each: found[each] for each in found if each not in _LIMITS}
        line = line_of(where, self.lines)
        return ListedData(name, topics=topics, limits=limits, line=line, **found)

    def _topics(
        self, content: Any, where: tuple[str, ...], data: Mapping[str, Any]
    ) -> dict[str, Topic]:
        if not isinstance(content, list) or not content:
            self._fault(where, f"must have topics: [[{'.'.join(where)}.topics]]")
            return {}
        topics: dict[str, Topic] = {}
        for place, each in enumerate(content):
            here = (*where, "topics", str(place))
            found = self._table(each, _TOPIC, here)
            if found["name"] in topics:
                self._fault((*here, "name"), "must differ from that of every other topic")
            topics[found["name"]] = self._topic(found, here, data)
        return topics

    def _topic(
        self, found: dict[str, Any], here: tuple[str, ...], data: Mapping[str, Any]
    ) -> Topic:
        said = {name: found[name] for name in _COUNTING if found[name] is not None}
        item = said.pop("item", None)
        if item is None and said.keys() - {"where", "encoding", "decimal"}:
            self._fault(here, "must name its item; without one only a filter can be said")
        is_unknown = item is not None and "domain" not in said
        if is_unknown and not (data["delta"] and "max_items" in said):
            self._fault(
                here, "must have a domain; or max_items, and a delta of the data set's budget"
            )
        words = self._cuts({**said, "unit": data["unit"], "item": item}, is_unknown, here)
        if isinstance(said.get("domain"), str):
            said["domain"] = self._place(said["domain"])
        for name in ("domain", "groups"):
            if isinstance(said.get(name), tuple):
                said[name] = list(said[name])
        title = found["title"] or item or "how many"
        return Topic(str(found["name"]), title, item, said, words, line_of(here, self.lines))

    def _cuts(
        self, said: dict[str, Any], is_unknown: bool, here: tuple[str, ...]
    ) -> tuple[str, ...]:
        """How a topic is counted in words, if its keywords go together."""
        is_row = said["unit"] == "row"
        try:
            return tuple(read_counting(said, is_unknown=is_unknown, is_row=is_row).cuts())
        except (ValueError, TypeError) as error:
            self._fault(here, f"cannot be counted: {error}")
            return ()

    def _table(
        self, content: Any, schema: dict[str, tuple[check.Check, Any]], where: tuple[str, ...]
    ) -> dict[str, Any]:
        """Every key of a schema, checked; what is missing has its default."""
        content = self._pass(where, check.table, content) or {}
        for unknown in content.keys() - schema.keys():
            self._fault((*where, unknown), f"is not known: {', '.join(schema)} are")
        found = {}
        for name, (required, default) in schema.items():
            if name in content:
                found[name] = self._pass((*where, name), required, content[name])
            elif default is _REQUIRED:
                self._fault((*where, name), "is missing")
                found[name] = None
            else:
                found[name] = default
        return found

    def _pass(self, where: tuple[str, ...], required: check.Check, value: Any) -> Any:
        try:
            return required(value)
        except (ValueError, TypeError) as error:
            return self._fault(where, str(error).removeprefix("it "))

    def _fault(self, where: tuple[str, ...], words: str) -> None:
        self.faults.append((line_of(where, self.lines), f"{'.'.join(where)} {words}"))

    def _place(self, address: str, scheme: str = "") -> str:
        """A path meant from the folder of the file; an address of a database as it is."""
        if "://" in address and not (scheme and address.startswith(scheme)):
            return address
        return scheme + str(self.path.absolute().parent / address.removeprefix(scheme))


def _limits_in(found: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that are stated."""
    return {name: found[name] for name in _LIMITS if found[name] is not None}
