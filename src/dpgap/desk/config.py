r"""The steward's file: data sets, topics and people, checked as a whole before anything starts.

It is TOML. Every fault names its line. Relative paths start from the folder of the file.

>>> text = "[desk]\ntick = 1\n\n[[data.sales.topics]]\nitem = 'product'\n"
>>> lines = key_lines(text)
>>> lines["desk", "tick"], lines["data", "sales", "topics", "1", "item"]
(2, 5)
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_origin, get_type_hints

from dpgap.exact.parameters import positive_rational, rational
from dpgap.question import Counting, Neighbours, read_counting, read_decimal, read_encoding

# --------------------------------------------------------------------------------------------------
# The lines of keys in a TOML file, so that a fault can name its line.


KeyPath = tuple[str, ...]

_MOST_PARTS = 32

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_PATH = rf"({_PART}(?:\s*\.\s*{_PART})*)"
_LINE = re.compile(rf"\s*(?:(\[\[?)\s*{_PATH}\s*\]\]?\s*(?:#.*)?$|{_PATH}\s*=)")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every table and key, by its path; an entry of an array has its number, from 1.

    A key of very many parts raises `RecursionError`: tomllib would take minutes to read it.
    """
    found: dict[KeyPath, int] = {}
    entries: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for line, content in enumerate(text.split("\n"), start=1):
        if match := _LINE.match(content):
            brackets, header, key = match.groups()
            if (header or key).count(".") > _MOST_PARTS:
                raise RecursionError
            parts = tuple(part.strip("\"'") for part in re.findall(_PART, header or key))
            if key:
                found.setdefault((*table, *parts), line)
                continue
            if brackets == "[[":
                entries[parts] = entries.get(parts, 0) + 1
            table = ()
            for end, part in enumerate(parts, start=1):
                number = entries.get(parts[:end])  # of an array
                table += (part,) if number is None else (part, str(number))
            found.setdefault(table, line)
    return found


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int:
    """The line of a key, or of the nearest table around it."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


# --------------------------------------------------------------------------------------------------
# Checks of values. Each check returns the value, or raises an error that says what it must be.


Check = Callable[[Any], Any]

_DIFFERENT = 16
"""The least number of different bytes, and of differences between neighbours, in a random key."""


def _check(predicate: Callable[[Any], Any], words: str) -> Check:
    """A check by a predicate; the words say what a value must be."""

    def check(value: Any) -> Any:
        if not predicate(value):
            raise ValueError(f"must be {words}")
        return value

    return check


def _text_like(pattern: str, words: str) -> Check:
    return _check(lambda it: isinstance(it, str) and re.fullmatch(pattern, it), words)


def _several(check: Check) -> Check:
    """A list, each entry of which passes a check."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one entry")
        return tuple(map(check, value))

    return checked


_name = _text_like("[a-z0-9][a-z0-9_-]{0,62}", "a short name of small letters, digits, - and _")
_host = _text_like(
    r"([A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,39}\])(:[0-9]{1,5})?",
    'a name such as "desk.example.org", with a port if it is not the usual one',
)
_token = _text_like("sha256:[0-9a-f]{64}", 'a line that `dpgap desk --token` printed, "sha256:…"')
_digits = _text_like("[0-9a-f]{64}", "64 hexadecimal digits: `dpgap desk --key` prints such a line")
_words = _check(
    lambda it: isinstance(it, str) and 0 < len(it) <= 200 and it.isprintable(),
    "1 to 200 printable characters",
)
_address = _check(
    lambda it: isinstance(it, str) and it.strip() and it.isprintable(), "a path or an address"
)
_counting = _check(lambda it: type(it) is int and 1 <= it < 1 << 62, "a whole number from 1 up")
_role = _check(("analyst", "steward").__contains__, "one of analyst, steward")
_yes_or_no = _check(lambda it: isinstance(it, bool), "true or false")
_table = _check(lambda it: isinstance(it, Mapping), "a table")
_positive = partial(positive_rational, "it")


def _key(value: Any) -> str:
    """A key that nobody can guess: with it, anybody could sign a steward's session cookie."""
    digits: str = _digits(value)
    found = bytes.fromhex(digits)
    steps = {(after - before) % 256 for before, after in pairwise(found)}
    if min(len(set(found)), len(steps)) < _DIFFERENT:
        raise ValueError("must be random, and this has a pattern: `dpgap desk --key` prints a key")
    return digits


def _spelt(value: Any) -> str:
    """A name that is looked up later, in its normal form (Unicode's NFC)."""
    return unicodedata.normalize("NFC", _words(value))


def _tick(value: Any) -> float:
    """Seconds between answers; at most ten, so that nobody waits too long for an answer."""
    seconds = rational("it", value)
    if not Fraction(1, 100) <= seconds <= 10:
        raise ValueError("must be a number of seconds from 0.01 to 10")
    return float(seconds)


def _amount(value: Any) -> Fraction:
    number = rational("it", value)
    if number < 0:
        raise ValueError("must be a number from 0 up")
    return number


class Allowance(NamedTuple):
    """What a person may spend."""

    epsilon: Fraction
    delta: Fraction | None = None
    """None: `Steward.allow` gets no δ."""


def _allowance(value: Any) -> Allowance | None:
    """What a person may spend: ε, or ε and δ, or "all" for all that the budget has left."""
    if value == "all":
        return None
    if not isinstance(value, Mapping):
        return Allowance(_amount(value))
    if value.keys() != {"epsilon", "delta"}:
        raise ValueError("must have an epsilon and a delta")
    return Allowance(_amount(value["epsilon"]), _amount(value["delta"]))


def _shares(value: Any) -> dict[str, Allowance | None]:
    """People and what each may spend."""
    if not isinstance(value, Mapping):
        raise ValueError('must be people and what each may spend, such as { ann = 2, bob = "all" }')
    try:
        found = {_spelt(person): _allowance(share) for person, share in value.items()}
    except (ValueError, TypeError):
        raise ValueError(
            'must give each person a number from 0 up, { epsilon = 2, delta = "1e-7" } or "all"'
        ) from None
    if len(found) < len(value):
        raise ValueError(
            "must name each person once: two names differ only in how they are encoded"
        )
    return found


# --------------------------------------------------------------------------------------------------
# The content of the file. A field that is a key of the file states its check beside its type.


_LARGEST = 4 << 20
"""The most bytes of a file that is read."""
_SHOWN = 50
_PASSWORD = re.compile("://[^/@]*:[^/@]+@")

_OF_A_TABLE = ("unit", "neighbours", "encoding", "decimal")
"""The keywords that a data set states for all its topics."""
_OF_A_TOPIC = tuple([it.name for it in fields(Counting) if it.name not in _OF_A_TABLE])
"""The keywords that a topic may state; `read_counting` and `dpgap.counts` check them."""
_OF_ALL = ("where", "sum", "at_most", "at_least", "step")
"""The keywords that a topic without an item may state."""

_Listed = TypeVar("_Listed")


class FileFaults(ValueError):  # noqa: N818 - it says what they are
    """All that is wrong with a steward's file, one line for each fault."""

    def __init__(self, path: Path, faults: list[tuple[int, str]]) -> None:
        self.lines = [f"{path}, line {line}: {words}" for line, words in sorted(faults)[:_SHOWN]]
        if len(faults) > _SHOWN:
            self.lines.append(f"{path}: and {len(faults) - _SHOWN} more faults")
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One thing that can be asked about, counted once: an item with its bounds, or all units."""

    counting: Counting
    """What is counted, of the table of the data set."""
    item: str | None
    """The column of the items; None: the number of units, or a total."""
    line: int
    words: tuple[str, ...] = ()
    """How the topic is counted: a short line for each bound. All of it is public."""
    name: Annotated[str, _name]
    title: Annotated[str, _words] = ""

    @property
    def of_all(self) -> str | None:
        """If the topic is about all units, the only kind of question: "count" or "total"."""
        if self.item is not None:
            return None
        return "count" if self.counting.sum is None else "total"

    @property
    def has_unknown_items(self) -> bool:
        """Whether items are not stated; then a question needs a δ."""
        return self.item is not None and self.counting.domain is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedData:
    """A table, who may ask about it, and which budget pays."""

    name: str
    line: int
    title: Annotated[str, _words] = ""
    table: Annotated[str, _address]
    unit: Annotated[str, _words]
    neighbours: Annotated[str, partial(Neighbours.read, "it")] = "add-or-remove"
    encoding: Annotated[str | None, partial(read_encoding, "it")] = None
    decimal: Annotated[str | None, partial(read_decimal, "it")] = None
    """The decimal mark of numbers in text; None: not stated."""
    budget: Annotated[str, _spelt] = ""
    """Its name in the ledger."""
    beside: Annotated[str | None, _spelt] = None
    """Another budget for the same table and unit. Naming it here confirms that both are wanted."""
    epsilon: Annotated[Fraction | None, _positive] = None
    """The ε with which the budget is opened, if the ledger has none of this name."""
    delta: Annotated[Fraction, _amount] = Fraction(0)
    people: Annotated[Mapping[str, Allowance | None], _shares] = field(default_factory=dict)
    """Who may ask, and the allowance that they start with; None: all that is left."""
    least_epsilon: Annotated[Fraction, _positive] = Fraction(1, 1000)
    questions_a_day: Annotated[int, _counting] = 200
    megabytes_a_day: Annotated[int, _counting] = 20
    """How much the archive may grow in a day by the questions of one person."""
    megabytes: Annotated[int, _counting] = 1000
    """The largest size of the archive."""
    topics: Annotated[Mapping[str, Topic], _several(_table)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody whom the desk knows."""

    name: str
    role: Annotated[str, _role] = "analyst"
    tokens: Annotated[tuple[str, ...], _several(_token)] = ()
    """Hashes of tokens."""
    least_epsilon: Annotated[Fraction | None, _positive] = None
    questions_a_day: Annotated[int | None, _counting] = None
    megabytes_a_day: Annotated[int | None, _counting] = None
    """Limits that replace those of a data set, if they are stated."""

    @property
    def is_steward(self) -> bool:
        """Whether this person manages all data sets."""
        return self.role == "steward"


@dataclass(frozen=True, slots=True, kw_only=True)
class StewardsFile:
    """The content of the steward's file, checked."""

    path: Path
    people: Mapping[str, Person]
    datasets: Mapping[str, ListedData]
    ledger: Annotated[str, _address]
    spool: Annotated[str, _address] = ""
    """The directory where answers wait for the ledger."""
    title: Annotated[str, _words] = "dpgap desk"
    tick: Annotated[float, _tick] = 1.0
    hosts: Annotated[tuple[str, ...], _several(_host)] = ()
    https: Annotated[bool, _yes_or_no] = True
    key: Annotated[str | None, _key] = None

    @property
    def has_tokens(self) -> bool:
        """Whether people enter by tokens; otherwise one person enters by a printed link."""
        return any(person.tokens for person in self.people.values())

    def exposed(self) -> str | None:
        """A warning if others on this machine can change the file, or read a secret in it."""
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
        words = f"the file has more than {_LARGEST >> 20} MiB: put a long domain into its own file"
        raise FileFaults(file, [(1, words)])
    line = 1
    try:
        text = found.decode()
        lines = key_lines(text)
        content = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError:
        words = "the file must be text in UTF-8"
    except tomllib.TOMLDecodeError as error:
        words, where = "this line is not TOML", re.search(r"line (\d+)", str(error))
        line = int(where[1]) if where else len(text.splitlines())
    except RecursionError:
        words = "the file has too many lists or tables within each other"
    except ValueError:  # an integer of more digits than Python reads
        words = "the file has a number with too many digits"
    else:
        return _FileReader(file, lines).read(content)
    raise FileFaults(file, [(line, words)])


@dataclass(slots=True)
class _FileReader:
    """A reader of one file, which collects its faults."""

    path: Path
    lines: dict[tuple[str, ...], int]
    faults: list[tuple[int, str]] = field(default_factory=list)

    def read(self, content: Mapping[str, Any]) -> StewardsFile:
        for unknown in content.keys() - {"desk", "people", "datasets"}:
            self._fault((unknown,), "is not known: desk, people and datasets are")
        people: dict[str, Person] = {}
        for name, each in self._keys(content.get("people", {}), ("people",)).items():
            where = ("people", name)
            spelt = self._pass(where, _spelt, name) or name
            person = self._listed(Person, each, where, name=spelt)
            if people.setdefault(spelt, person) is not person:
                self._fault(where, "is listed already, in another Unicode encoding")
        datasets = {
            name: self._dataset(name, each, people)
            for name, each in self._keys(content.get("datasets", {}), ("datasets",)).items()
        }
        if not datasets:
            self._fault(("datasets",), "must name at least one data set")
        listed: dict[str, Any] = {"path": self.path, "people": people, "datasets": datasets}
        file = self._listed(StewardsFile, content.get("desk", {}), ("desk",), **listed)
        self._require_one_owner(people)
        if not self.faults:
            self._require_one_archive(datasets)
            if file.hosts and not (file.key and file.has_tokens):
                words = "needs a key (`dpgap desk --key`) and people with tokens (`--token`)"
                self._fault(("desk", "hosts"), f"{words}: others can reach this desk")
        if self.faults:
            raise FileFaults(self.path, self.faults)
        return replace(
            file,
            ledger=self._place(file.ledger, "sqlite:///"),
            spool=self._place(file.spool or self.path.stem + ".spool"),
        )

    def _require_one_owner(self, people: Mapping[str, Person]) -> None:
        """Refuse a token that two people share: a token identifies one person."""
        owners: dict[str, str] = {}
        every = ((each.name, it) for each in people.values() for it in each.tokens or ())
        for name, token in every:
            if (owner := owners.setdefault(token, name)) != name:
                line = line_of(("people", owner, "tokens"), self.lines)
                words = f"has a token of people.{owner}.tokens (line {line}): a token has one owner"
                self._fault(("people", name, "tokens"), words)

    def _require_one_archive(self, datasets: Mapping[str, ListedData]) -> None:
        """Refuse data sets with one budget, and so one archive, that list different people."""
        people: dict[str, Any] = {}
        for data in datasets.values():
            if people.setdefault(data.budget, data.people.keys()) != data.people.keys():
                words = "must list the same people as the other data set with this budget:"
                self._fault(("datasets", data.name, "people"), f"{words} they share an archive")

    def _dataset(self, name: str, content: Any, people: Mapping[str, Person]) -> ListedData:
        where = ("datasets", name)
        self._pass(where, _name, name)
        data = self._listed(ListedData, content, where, name=name, line=line_of(where, self.lines))
        for person in (data.people or {}).keys() - people.keys():
            self._fault((*where, "people"), f"names {person!r}, who is not under people")
        tables: Any = data.topics or ()
        topics: dict[str, Topic] = {}
        for place, each in enumerate(tables, start=1):
            here = (*where, "topics", str(place))
            topic = self._topic(each, here, data)
            if topics.setdefault(topic.name, topic) is not topic:
                self._fault((*here, "name"), "must differ from that of every other topic")
        if self.faults:
            return data
        return replace(
            data,
            title=data.title or name,
            budget=data.budget or name,
            table=self._place(data.table),
            topics=topics,
        )

    def _topic(self, content: Mapping[str, Any], here: KeyPath, data: ListedData) -> Topic:
        stated = {name: content[name] for name in _OF_A_TOPIC if name in content}
        item = stated.get("item")
        if item is None and stated.keys() - {"item", *_OF_ALL}:
            words = "must name its item; a topic without one has only a filter and a sum"
            self._fault(here, words)
        is_unknown = item is not None and "domain" not in stated
        if is_unknown and not (data.delta and "max_items" in stated):
            self._fault(here, "must have a domain; or max_items, and its data set a delta")
        counting = Counting(
            unit=data.unit,
            neighbours=data.neighbours,
            encoding=data.encoding,
            decimal=data.decimal,
            **stated,
        )
        cuts: tuple[str, ...] = ()
        try:
            is_row = data.unit == "row"
            cuts = tuple(read_counting(counting, is_unknown=is_unknown, is_row=is_row).cuts())
        except (ValueError, TypeError) as error:
            self._fault(here, f"cannot be counted: {error}")
        if isinstance(counting.domain, str):
            counting = replace(counting, domain=self._place(counting.domain))
        known = {
            "counting": counting,
            "item": item,
            "line": line_of(here, self.lines),
            "words": cuts,
        }
        topic = self._listed(Topic, content, here, _OF_A_TOPIC, **known)
        of_all = "how many" if counting.sum is None else f"total of {counting.sum}"
        return replace(topic, title=topic.title or item or of_all)

    def _listed(
        self,
        kind: type[_Listed],
        content: Any,
        where: KeyPath,
        also: tuple[str, ...] = (),
        **known: Any,
    ) -> _Listed:
        """A table of the file, each key checked; `also` are keys that are read elsewhere."""
        content = self._keys(content, where)
        hints = get_type_hints(kind, include_extras=True).items()
        checks = {
            name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated
        }
        for unknown in content.keys() - {*checks, *also}:
            self._fault((*where, unknown), f"is not known: {', '.join([*checks, *also])} are")
        for each in fields(kind):  # type: ignore[arg-type]
            place = (*where, each.name)
            if each.name in content.keys() & checks:
                known[each.name] = self._pass(place, checks[each.name], content[each.name])
            elif each.name not in known and each.default is MISSING is each.default_factory:
                known[each.name] = None
                self._fault(place, "is missing")
        return kind(**known)

    def _keys(self, content: Any, where: KeyPath) -> Mapping[str, Any]:
        return self._pass(where, _table, content) or {}

    def _pass(self, where: KeyPath, check: Check, value: Any) -> Any:
        try:
            return check(value)
        except (ValueError, TypeError) as error:
            return self._fault(where, str(error).removeprefix("it "))

    def _fault(self, where: KeyPath, words: str) -> None:
        self.faults.append((line_of(where, self.lines), f"{'.'.join(where)} {words}"))

    def _place(self, address: str, scheme: str = "") -> str:
        """A path, from the folder of the file; the address of a database stays as it is."""
        if "://" in address and not (scheme and address.startswith(scheme)):
            return address
        return scheme + str(self.path.absolute().parent / address.removeprefix(scheme))
