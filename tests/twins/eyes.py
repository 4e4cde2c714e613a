"""All that is seen of a release once it is paid for, and what of it may differ between twins.

Seen are the release document, down to the last bit of each number and the last letter of each text,
and what a ledger is told. Both twins draw from the same bits. Then

- each document is a function of whole numbers that were drawn and of public facts: the other twin's
  maker builds the same one of them, after both twins have been asked;
- the whole numbers of both are of the same kinds; and where what one unit moved is among the
  winners, or far from winning, they are as far apart as its counts are, and no further. So a number
  that has nothing to do with these counts is the same, bit for bit;
- a ledger is told the same of both, but for the release itself and what that says it did cost.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from dpgap.releases.plain import exact_text
from seams import Built, FollowedBits, SpyArchive

Cell = tuple[Any, str]
"""A group, or None, and an item with its type."""
FINEST = 16
"""In how many steps a whole answer is measured at most."""
_FOLLOWS = {
    "branches": "gaps",
    "used": "branches",
    "processed": "branches",
    "route": "looked",
    "among": "nothing",
}
"""What is no measured answer, and what it follows from: where that is the same, so is this."""
_OF_ITS_OWN = ("table", "identity")
"""What a question says of where a table is, which is another place for each twin."""


class Shown(NamedTuple):
    """What is seen of one side's release."""

    document: dict[str, Any]
    built: Built
    draws: Any
    """How bits were asked for, and for what: twins that agree have the same noise on each item."""
    diary: list[Any]
    order: list[list[int]]
    """The order in which an engine gave the items, which it need not give twice."""
    made: Any
    """What a document says of its time, its version and who paid, which are fixed here."""


def shown(
    release: Any,
    built: list[Built],
    bits: FollowedBits,
    ranks: Any,
    account: SpyArchive,
    order: list[list[int]],
) -> Shown:
    """What is seen of a release; `built` has the one that was built."""
    (made,) = built
    return Shown(
        document_of(release),
        made,
        (ranks, bits.asked),
        diary_of(account),
        order,
        release._to_dict().get("made"),
    )


def order_of(answers: Any) -> list[int]:
    """The items in the order of the engine, where counts in memory keep that: a stream shuffles it.

    Some engines group in several threads and give another order each time. The same bits then
    shuffle to another order, so that other items get the same noise.
    """
    return getattr(answers, "positions", np.empty(0, dtype=np.int64)).tolist()


def ranks_of(answers: Any, winners: int) -> list[tuple[int, int]]:
    """Where a kernel finds the values of the winners and of the best loser, and how many have each.

    An engine gives values in an order of its own. So which noise an item gets depends on that
    order, and not on the bits alone.
    """
    values, sizes, _ = answers.groups()
    found, many = [], 0
    for at in np.argsort(-values).tolist():
        found.append((at, int(sizes[at])))
        many += sizes[at]
        if many > winners:
            break
    return found


def document_of(release: Any) -> dict[str, Any]:
    """The document, but for its time and for where the table is."""
    return _placeless(release._to_dict())


def _placeless(document: dict[str, Any]) -> dict[str, Any]:
    asked = document.get("question", {})
    placeless = {name: value for name, value in asked.items() if name not in _OF_ITS_OWN}
    kept = {name: value for name, value in document.items() if name != "made"}
    return kept | ({"question": placeless} if asked else {})


def diary_of(account: SpyArchive) -> list[Any]:
    """What the account was told, but for where the table is."""
    diary = []
    for kind, *told in account.diary:
        if kind == "request":
            delta, facts, identity, key = told
            facts = {**(facts or {}), "table": None}
            told = [delta, facts, identity is None, key]
        elif kind == "settle" and told[1] is not None:
            told = [told[0], _placeless(json.loads(told[1]))]
        diary.append((kind, *told))
    return diary


def in_one(side: Shown) -> Iterator[str]:
    """What is wrong with what the ledger was told of one side, whatever the other is."""
    *_, (kind, *told) = side.diary or [("nothing",)]
    document = side.document
    if kind != "settle":
        yield f"the ledger is told last: {kind}"
        return
    cost = document["cost"]["epsilon"]
    if exact_text(told[0]) != cost:
        yield f"the ledger is told of another cost, {told[0]} instead of {cost}"
    if told[1] is not None:
        same = {name: document.get(name, told[1][name]) for name in told[1]}
        yield from (f"the archive has another {each}" for each in unlike(told[1], same))
        if extra := told[1].keys() - document.keys():
            yield f"the archive has fields of its own: {sorted(extra)}"


def in_both(base: Shown, twin: Shown) -> Iterator[str]:
    """What differs between twins and is no function of what was drawn."""
    for name, one, other in (("base", base, twin), ("twin", twin, base)):
        maker, drawn = other.built[0], one.built[1]
        again = document_of(maker.build(*drawn))
        for each in unlike(one.document, again):
            yield f"{name}: not what the whole numbers make of it: {each}"
    if base.made != twin.made:
        yield f"it says that it was made otherwise: {base.made}, {twin.made}"
    if base.diary[:-1] != twin.diary[:-1]:
        yield f"the ledger is told something else: {base.diary[:-1]}, {twin.diary[:-1]}"


def in_numbers(base: Shown, twin: Shown, far: int | None, most: int) -> Iterator[str]:
    """What differs between the whole numbers that both drew, where the same items won.

    `far` is how far apart they may be; None where that cannot be told. A look is at ranks, which
    are not those of winners alone, and may be apart by `most` in any case.
    """
    one, other = (list(_leaves(each.built[1])) for each in (base, twin))
    if far is None or base.draws != twin.draws or _named(one) != _named(other):
        return
    is_stream = any(path.endswith(".processed") for path, _ in one)
    if is_stream and base.order != twin.order:
        return
    moved = {path for (path, a), (_, b) in zip(one, other, strict=True) if a != b}
    for (path, a), (_, b) in zip(one, other, strict=True):
        allowed = far + most * (".looked" in path)
        field = path.rpartition(".")[2].partition("[")[0]
        if a != b and field in _FOLLOWS and not _some(moved, path, field):
            yield f"drawn{path} differs, and what it follows from does not: {a}, {b}"
        elif type(a) is not type(b):
            yield f"drawn{path} is of another type: {_shape(a)}, {_shape(b)}"
        elif isinstance(a, int | float) and not _is_near(a, b, allowed * FINEST):
            yield f"drawn{path} has nothing to do with what moved: {_shape(a)}, {_shape(b)}"


def _some(moved: set[str], path: str, field: str) -> bool:
    """Whether anything moved that this field follows from, at the same place if it has one."""
    source = _FOLLOWS[field].join(path.rsplit(field, 1))
    return any(each == source or each.startswith((f"{source}[", f"{source}.")) for each in moved)


def _named(leaves: list[tuple[str, Any]]) -> list[Any]:
    """Which numbers there are, and what they are about, in order."""
    is_name = (".indices[", ".labels[")
    return [(path, value if any(map(path.__contains__, is_name)) else 0) for path, value in leaves]


def _is_near(a: float, b: float, allowed: int) -> bool:
    """Whether two numbers are apart by a few whole steps."""
    return abs(a - b) <= allowed and float(a - b).is_integer()


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and names in what was drawn, with where they are."""
    if is_dataclass(value):
        for each in fields(value):
            yield from _leaves(getattr(value, each.name), f"{path}.{each.name}")
    elif isinstance(value, np.ndarray | list | tuple):
        many = value.tolist() if isinstance(value, np.ndarray) else value
        for place, each in enumerate(many):
            yield from _leaves(each, f"{path}[{place}]")
    else:
        yield path, value


def room(
    base: dict[Cell, int], twin: dict[Cell, int], winners: Iterable[Cell], most: int
) -> int | None:
    """How far apart numbers may be that are drawn for both; None where anything may win.

    Where only items moved that are far from winning, nothing may differ at all; but noise on sums
    is not as short as all that.
    """
    won = list(winners)
    moved = {cell for cell in base.keys() | twin.keys() if base.get(cell, 0) != twin.get(cell, 0)}
    rest: dict[Any, int] = {}
    for counts in (base, twin):
        for (group, item), count in counts.items():
            if (group, item) not in won:
                rest[group] = max(rest.get(group, 0), count)
    for cell in moved.difference(won) if won else ():
        if max(base.get(cell, 0), twin.get(cell, 0)) + 2 * most >= rest[cell[0]]:
            return None
    is_moved = not won or most > 1 or not moved.isdisjoint(won)
    return 2 * (len(won) + 1) * most if is_moved else 0


def unlike(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two documents differ, and in what: fields, types, lengths, bits."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            yield f"{path} fields {sorted(one.keys() ^ other.keys()) or 'in another order'}"
        for name in one.keys() & other.keys():
            yield from unlike(one[name], other[name], f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from unlike(a, b, f"{path}[{place}]")
    elif repr(one) != repr(other) or type(one) is not type(other):
        yield f"{path} {_shape(one)}, {_shape(other)}"


def _shape(value: Any) -> str:
    """What can be read off a value, whatever it is worth."""
    kind = type(value).__name__
    if isinstance(value, str | list | dict):
        return f"{kind} of length {len(value)}"
    if isinstance(value, float) and math.isfinite(value):
        places = value.as_integer_ratio()[1].bit_length() - 1
        return f"{kind} {value!r} of exponent {math.frexp(value)[1]} and {places} binary places"
    return f"{kind} {value!r}"
