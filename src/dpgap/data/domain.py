"""The public domain: the list of items, stated by the user and never read from private data.

Items are compared by their text, so 7 and "7" are the same item. A release shows the labels of the
domain. A range of whole numbers is never written out. A domain is public, so a `DomainWarning`
names items that look like mistakes.

A domain that is read from the private table reveals which items somebody has. Then nothing is
private. This can be detected without reading any value if both come from one file or one address,
if both are one frame, or if an engine says that two expressions are the same. It cannot be detected
if values were taken out of the table: the guarantee says that the domain must be public.
"""

import gzip
import hashlib
import json
import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Number
from operator import eq
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpgap._package import public
from dpgap.data import sources
from dpgap.data.private_counts import Integers, with_masked_errors
from dpgap.data.sources import Lazy, Source
from dpgap.data.values import form_of
from dpgap.exact.grid import MAX_STEPS
from dpgap.question import OBSERVED

_IN_TEXT = 'a file with an item on each line, "table.parquet:column" or "0..16469"'
ACCEPTED = (
    f"a list of items, a range, a column of a public table, or text: {_IN_TEXT}; or "
    f'"{OBSERVED}" (not private)'
)

_OWN_COLUMN = (
    "{name} must be public, but this is a column of the private table itself: state a list, a "
    'range or a column of a public table; or the domain "observed-not-private" to explore without '
    "privacy"
)
_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LIST = "a list of {count} items"


@public
class DomainWarning(UserWarning):
    """The domain has items that look like mistakes; it is taken as it is written."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Labels in order, and words that describe them."""

    labels: range | tuple[Any, ...]
    words: str
    texts: tuple[str, ...] = field(default=(), repr=False)
    """The texts by which labels are compared; none for a range."""

    @property
    def digest(self) -> str:
        """A hash of the items in order; a range is hashed by its ends.

        7 and "7" have different hashes, because a release shows one or the other. Hashes never
        change: so those of text, and those of whole ranges, still have no types.

        >>> read_domain(range(3)).digest == read_domain([0, 1.0, 2]).digest
        True
        >>> read_domain([1]).digest == read_domain(["1"]).digest
        False
        """
        labels = self.labels
        kinds = "n" if isinstance(labels, range) else "".join(map(kind_of_label, labels))
        numbers = labels if isinstance(labels, range) else _as_range(self.texts)
        if numbers is None and set(kinds) == {"t"}:
            return _hash_of_texts(self.texts)
        if numbers is None or set(kinds) != {"n"}:
            return _hash({"texts": self.texts, "kinds": kinds})
        step = numbers.step if len(numbers) > 1 else 1
        return _hash({"first": numbers[0], "last": numbers[-1], "step": step})

    def positions(self, items: NDArray[Any]) -> Integers:
        """The position of each item in the domain; −1 for items outside it."""
        labels = self.labels
        if not isinstance(labels, range):
            position_of = dict(zip(self.texts, range(len(self.texts)), strict=True))
            positions = [position_of.get(text_of(item), -1) for item in items.tolist()]
            return np.array(positions, dtype=np.int64)
        if items.dtype.kind not in "iu":
            numbers = map(whole, items.tolist())
            positions = [-1 if n is None or n not in labels else labels.index(n) for n in numbers]
            return np.array(positions, dtype=np.int64)
        low, high = sorted((labels[0], labels[-1]))
        inside = (items >= low) & (items <= high)
        offset = np.where(inside, items, low).astype(np.int64) - labels.start
        position, remainder = np.divmod(offset, labels.step)
        return np.where(inside & (remainder == 0), position, -1)

    def require_numbers(self, name: str = "domain", role: str = "item") -> None:
        """Refuse a domain without any number, if the column holds numbers."""
        if not isinstance(self.labels, range) and all(whole(x) is None for x in self.labels):
            raise ValueError(f"{name} has no numbers, but the {role} column holds nothing else")


Stated = Domain | Lazy | None
"""A domain, a table in an engine with items in its column `item`, or None for observed items."""


def read_groups(groups: Any) -> Domain:
    """The public groups, pairs named once. They are read before anything is counted or charged."""
    is_frame = hasattr(groups, "columns")
    if is_frame or isinstance(groups, str | bytes | dict) or not isinstance(groups, Iterable):
        raise TypeError(f"groups must be a list of public values, not {type(groups).__name__}")
    labels = _listed(groups)
    if not labels:
        raise ValueError("groups must not be empty")
    if any(map(_missing, labels)):
        raise ValueError("groups must not hold None or NaN: rows without a group are in none")
    texts = [text_of(label) for label in labels]
    if min(len(set(texts)), len(set(labels))) < len(texts):  # to Python, 1 and True are equal
        pairs = zip(texts, labels, strict=True)
        twice = next(a for a, b in pairs if max(texts.count(a), labels.count(b)) > 1)
        raise ValueError(f"groups must be named once pairs, but {twice!r} is there twice")
    return domain_of(labels, "a list of {count} groups")


def read_domain(domain: object) -> Domain:
    """Read the domain that a user stated, in any accepted form.

    >>> read_domain("0..16469")
    Domain(labels=range(0, 16470), words='the whole numbers from 0 to 16469')
    >>> read_domain(["fig", "pea"]).words
    'a list of 2 items'
    """
    if isinstance(domain, Domain):
        return domain
    if isinstance(domain, range):
        return _numbers(domain)
    if isinstance(domain, str | Path):
        return _of_text(str(domain))
    for name in ("to_list", "tolist", "to_pylist"):
        if hasattr(domain, name):  # a column
            domain = getattr(domain, name)()
            break
    if isinstance(domain, bytes | dict) or not isinstance(domain, Iterable):
        raise TypeError(f"domain must be {ACCEPTED}, not {type(domain).__name__}")
    labels = _listed(domain)
    return warn_of_oddities(domain_of(labels, _LIST), labels)


def _listed(labels: Iterable[Any]) -> list[Any]:
    """The labels in order. A set has another order in each process, so its labels are sorted.

    The order is a part of the question: without it, a question would be paid again.
    """
    if isinstance(labels, set | frozenset):
        return sorted(labels, key=lambda label: (str(label), type(label).__name__))
    return list(labels)


def with_domain(source: Source, domain: Any) -> Source:
    """A file with its domain. A domain that is a column of a file is opened in the same DuckDB."""
    path, colon, column = domain.rpartition(":") if isinstance(domain, str) else ("", "", "")
    if not colon or source.database is None or not sources.is_table(path):
        return source._replace(domain=domain)
    beside = sources.column_in(source.database, path, column)
    return source._replace(domain=beside, domain_address=os.path.realpath(path))


def domain_of(labels: Iterable[Any], words: str) -> Domain:
    """The domain of these labels, without repetitions."""
    unique: dict[str, Any] = {}
    for label in labels:
        if not _missing(label):
            unique.setdefault(text_of(label), label)
    if not unique:
        raise ValueError("domain must not be empty")
    words = words.replace("{count}", str(len(unique)))
    return Domain(tuple(unique.values()), words, tuple(unique))


def warn_of_oddities(domain: Domain, labels: Sequence[Any] = (), empty_lines: int = 0) -> Domain:
    """Return the domain, and warn of all its oddities at once.

    `labels` are those that were stated, if each should occur once.
    """
    named = sum(not _missing(label) for label in labels)
    texts = [label for label in domain.labels if isinstance(label, str)]
    apart = (not unicodedata.is_normalized("NFC", text) for text in texts)
    odd = {
        "with spaces around them": sum(text != text.strip() for text in texts),
        "in quotes": sum(len(text) > 1 and text[0] == text[-1] in "\"'" for text in texts),
        "with accents apart from their letters": sum(apart),
        "with a byte-order mark": sum("\ufeff" in text for text in texts),
        "repeated": max(named - len(domain.labels), 0),
        "empty": empty_lines,
    }
    oddities = ", ".join(f"{count} {oddity}" for oddity, count in odd.items() if count)
    if oddities:
        message = f"domain is taken as it is written, but look at its items: {oddities}"
        if 2 * odd["repeated"] > named:
            message += "; was it read from the table?"
        warnings.warn(message, DomainWarning, stacklevel=steps_outside())
    return domain


def steps_outside() -> int:
    """The `stacklevel` of the first caller outside this package."""
    steps = 1
    frame = sys._getframe(1)
    package = __name__.partition(".")[0] + "."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        steps += 1
        frame = frame.f_back
    return steps


def text_of(item: object) -> str:
    """The text that an item of a domain is compared by."""
    text = item if isinstance(item, str) else form_of(item)
    if text is None:
        raise TypeError(
            "items must be text, numbers, true and false, dates or times, "
            f"not {type(item).__name__}"
        )
    return text


def _missing(label: object) -> bool:
    # For NA of pandas, == is neither true nor false.
    return label is None or type(label).__name__ in ("NAType", "NaTType") or label != label


def whole(item: object) -> int | None:
    """The whole number that an item is, in any spelling; None if it is none."""
    text = item if isinstance(item, str) else form_of(item)
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def _numbers(labels: range) -> Domain:
    if not labels:
        raise ValueError("domain must not be empty: the first number must not exceed the last")
    if max(abs(labels[0]), abs(labels[-1])) >= 1 << 62:
        raise ValueError("domain must lie within ±2^62")
    if len(labels) > MAX_STEPS:
        raise ValueError("domain must have at most 2^60 items")
    step = "" if labels.step == 1 else f" in steps of {labels.step}"
    return Domain(labels, f"the whole numbers from {labels[0]} to {labels[-1]}{step}")


def _of_text(domain: str) -> Domain:
    ends = _RANGE.fullmatch(domain)
    if ends:
        return _numbers(range(int(ends[1]), int(ends[2]) + 1))
    path, colon, column = domain.rpartition(":")
    if colon and sources.is_table(path):
        words = f"column {column!r} of a public table: {{count}} items"
        with sources.embedded_database() as database:
            values = sources.column_in(database, path, column).distinct()
            in_order = values.order(sources.quoted(column))
            rows = with_masked_errors(in_order.fetchall, "domain could not be read")
        return warn_of_oddities(domain_of([value for (value,) in rows], words))
    if sources.is_table(domain):
        raise ValueError(f"domain must name a column of that table, as in {domain}:column")
    if not os.path.isfile(domain):
        as_list = "; a list of items is ['A', 'B'] in Python, and A,B in a command"
        raise ValueError(f"there is no file {domain!r}: a domain in text is {_IN_TEXT}{as_list}")
    open(domain, "rb").close()  # says where permission is denied
    lines = with_masked_errors(
        lambda: _lines(Path(domain)),
        "domain must be a text file in UTF-8 with an item on each line: save it as UTF-8",
    )
    items = [line for line in lines if line]
    stated = domain_of(items, "a file of {count} items")
    return warn_of_oddities(stated, items, len(lines) - len(items))


def _lines(path: Path) -> list[str]:
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8-sig", newline="") as file:
        lines = file.read().removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def kind_of_label(label: object) -> str:
    """The kind of a label: text (t), true or false (b), a number (n), or the name of its type."""
    if isinstance(label, str):
        return "t"
    if isinstance(label, bool | np.bool_):
        return "b"
    return "n" if isinstance(label, Number | np.number) else type(label).__name__


def column_digest(address: str, column: str) -> str:
    """A hash for a domain that is a column of a table and never fetched: a hash of its address.

    A file may hold other items tomorrow. It is public, so its bytes are hashed too.
    """
    facts = {"address": address, "column": column}
    if not sources.is_url(address):
        with open(address, "rb") as file:
            facts["content"] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hash(facts)


def _as_range(texts: Sequence[str]) -> range | None:
    """The range that has these texts, if there is one."""
    with suppress(ValueError):
        first = int(texts[0])
        second = int(texts[min(1, len(texts) - 1)])
        step = second - first or 1
        numbers = range(first, first + step * len(texts), step)
        return numbers if all(map(eq, map(str, numbers), texts)) else None
    return None


def _hash_of_texts(texts: Sequence[str]) -> str:
    joined = "\0".join(texts)  # several times as fast as JSON
    if joined.count("\0") >= len(texts):
        return _hash(texts)
    hashed = hashlib.sha256(b"items\0")  # no JSON begins like this
    hashed.update(joined.encode(errors="surrogatepass"))
    return hashed.hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def refuse_own_column(table: Any, item: str | None, domain: Any, name: str = "domain") -> None:
    """Refuse a domain that is the table or a column of it; `name` is the user's argument."""
    is_own = False
    with suppress(Exception):  # two values that cannot be compared are not the same
        is_own = _is_own_column(table, item, domain)
    if is_own:
        raise ValueError(_OWN_COLUMN.format(name=name))


def _is_own_column(table: Any, item: str | None, domain: Any) -> bool:
    if sources.is_url(table):
        name = sources.read_url(table)[1]["table"]
        return isinstance(domain, str) and domain.rpartition(":")[0] == name
    if isinstance(table, str | os.PathLike):
        path = os.fspath(domain).rpartition(":")[0]
        return sources.is_table(path) and os.path.samefile(table, path)
    table = nw.to_native(table, pass_through=True)
    domain = nw.to_native(domain, pass_through=True)
    if table is domain:
        return True
    column = table.select(item)
    if hasattr(table, "sql_query"):  # DuckDB
        return domain.sql_query() in (column.sql_query(), column.distinct().sql_query())
    if hasattr(table, "sameSemantics"):  # Spark
        return any(map(domain.sameSemantics, (column, column.distinct())))
    if hasattr(table, "equals") and hasattr(table, "get_backend"):  # Ibis
        return any(map(domain.equals, (column, column.distinct(), table[item])))
    return False
